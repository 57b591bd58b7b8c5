//! The rows of `bench features`: what is configured and asked for in each, and with which row it is compared.

/// One feature that is used by every request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Its name in results.
    pub(super) name: &'static str,
    /// The row that has all of it but the feature.
    pub(super) beside: &'static str,
    /// Further keys of the listener.
    pub(super) listener: &'static str,
    /// Further keys of the upstream; `servers` among them stands for the one server.
    pub(super) upstream: &'static str,
    /// What the route does, and its further keys.
    pub(super) action: &'static str,
    pub(super) route: &'static str,
    /// Further sections of the file.
    pub(super) more: &'static str,
    /// What is asked for.
    pub(super) path: &'static str,
    /// Further fields of requests.
    pub(super) fields: &'static [&'static str],
    /// Requests bring the cookie of their first response back.
    pub(super) is_session: bool,
    /// The status of responses.
    pub(super) status: u16,
    /// What requests come over.
    pub(super) over: Over,
}

/// What requests come over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Connections that are kept.
    Kept,
    /// A connection for each.
    Fresh,
    /// Connections that are kept, under TLS.
    KeptTls,
    /// A connection and a full handshake for each.
    Handshakes,
    /// Messages on a WebSocket of HTTP/1.1.
    WebSocket,
    /// Messages on a WebSocket of HTTP/2.
    WebSocketHttp2,
    /// Datagrams.
    Datagrams,
}

impl Over {
    /// Options of `bench load`.
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Over::Kept => &[],
            Over::Fresh => &["--reconnect"],
            Over::KeptTls => &["--tls", "1.3"],
            Over::Handshakes => &["--tls", "1.3", "--reconnect"],
            Over::WebSocket => &["--messages", "websocket"],
            Over::WebSocketHttp2 => &["--messages", "websocket-h2"],
            Over::Datagrams => &["--messages", "datagrams"],
        }
    }

    /// Whether there is TLS.
    pub(super) fn is_tls(self) -> bool {
        matches!(self, Over::KeptTls | Over::Handshakes)
    }

    /// Whether messages are counted, not responses.
    pub(super) fn is_messages(self) -> bool {
        matches!(self, Over::WebSocket | Over::WebSocketHttp2 | Over::Datagrams)
    }
}

/// Nothing but forwarding.
const PLAIN: Row = Row {
    name: "plain",
    beside: "plain",
    listener: "",
    upstream: "",
    action: "upstream: bench",
    route: "",
    more: "",
    path: "/small",
    fields: &[],
    is_session: false,
    status: 200,
    over: Over::Kept,
};

/// A body that is worth compressing.
const TEXT: Row = Row { name: "plain-16k", beside: "plain-16k", path: "/bytes/16384", ..PLAIN };

const POLICY: Row = Row { route: ", policies: [p]", ..PLAIN };

const COMPRESSED: Row =
    Row { beside: "plain-16k", route: ", compression: c", more: "compression: { c: {} }\n", ..TEXT };

/// The key of the tokens below, which is good for nothing else.
pub(super) const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEukUcSpE5Z/5hlWEtOyLaY9Zhg0Ws
FpGEHO+BI20CINWrxnpUvl3nFD9RDFq80CbjIu6GD0h2PxH2WFKYUnkgpQ==
-----END PUBLIC KEY-----
";

/// That of the tokens with a shared secret.
pub(super) const SHARED_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The user `ada` with the password `secret`.
pub(super) const PASSWORDS: &str = "ada:$2y$05$pj3yNZ3HmjIozktUMpu1VO7M2D1C8kxwmTI6DOOb6WhBLqzMkptAK\n";

const TWO_SERVERS: &str = ", servers: [\"@upstream\", \"@second\"]";

/// A client that a trusted proxy names.
const NAMED: Row = Row {
    name: "trusted-proxy",
    more: "trusted_proxies: [127.0.0.0/8]\n",
    fields: &["X-Forwarded-For: 192.0.2.1"],
    ..PLAIN
};

/// A response that comes from no upstream.
const FIXED: Row = Row { name: "fixed", action: "respond: { status: 200, body: \"filler filler filler\" }", ..PLAIN };

/// A request that a policy rejects.
const REJECTED: Row = Row {
    name: "rejected",
    more: "policies: { p: { deny: [127.0.0.0/8] } }\n",
    fields: &["Accept: text/html"],
    status: 403,
    ..POLICY
};

/// A server that takes 3 ms.
const SLOW: Row = Row { name: "slow", beside: "slow", upstream: TWO_SERVERS, path: "/slow?ms=3", ..PLAIN };

/// Servers that have no room.
const UNAVAILABLE: Row = Row {
    name: "unavailable",
    beside: "unavailable",
    upstream: TWO_SERVERS,
    path: "/unavailable",
    status: 503,
    ..PLAIN
};

/// The same under TLS.
const TLS: Row = Row {
    name: "plain-tls",
    beside: "plain-tls",
    listener: ", tls: { keystore: site }",
    more: "keystores: { site: { folder: @folder/site } }\n",
    over: Over::KeptTls,
    ..PLAIN
};

const TLS_LIMITED: Row = Row {
    name: "rate-limit-tls",
    beside: "plain-tls",
    route: ", policies: [p]",
    more: "keystores: { site: { folder: @folder/site } }\npolicies: { p: { rate_limit: { rate: 100000/s, burst: 100000 } } }\n",
    ..TLS
};

/// Clients that show a certificate.
const CERTIFICATE: Row = Row {
    name: "client-certificate",
    listener: ", tls: { keystore: site, client_certificate: { mode: required, ca: @folder/ca.pem } }",
    ..TLS
};

/// A tunnel for each request.
const TUNNEL: Row = Row {
    name: "tunnel",
    beside: "tunnel",
    listener: ", tunnel: { upstream: bench }",
    upstream: ", protocol: tcp",
    action: "respond: { status: 204 }",
    over: Over::Fresh,
    ..PLAIN
};

/// Requests to a server under TLS.
const TLS_UPSTREAM: Row = Row {
    name: "tls-upstream",
    beside: "plain",
    upstream: ", servers: [\"@tls\"], tls: { ca: \"@folder/ca.pem\", server_name: www.portunus.test }",
    ..PLAIN
};

/// Messages of 64 bytes, there and back.
const WEBSOCKET: Row =
    Row { name: "websocket", beside: "websocket", path: "/websocket", over: Over::WebSocket, ..PLAIN };

/// Datagrams of 64 bytes, there and back.
const UDP: Row = Row {
    name: "udp",
    beside: "udp",
    more: "udp_listeners: [{ name: udp, bind: \"@address\", upstream: \"@datagrams\" }]\n",
    over: Over::Datagrams,
    ..PLAIN
};

/// Bytes of a tunnel that is kept.
const TUNNEL_KEPT: Row = Row { name: "tunnel-kept", beside: "tunnel-kept", over: Over::Kept, ..TUNNEL };

/// Lines in the form that is the default.
const ACCESS_LOG: Row =
    Row { name: "access-log", more: "log: { access: { output: /dev/null }, level: warn }\n", ..PLAIN };

/// A token, whose claims something may ask for.
const TOKEN: Row = Row {
    name: "jwt-hs256",
    more: "policies: { p: { jwt: { verifier: v, set: { X-User: sub } } } }\ntokens: { v: { jwt: { algorithms: HS256, secret: { file: @folder/shared } } } }\n",
    fields: &[
        "Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1c2VyLTEiLCJleHAiOjQxMDI0NDQ4MDB9.ZUrPetq_JdnhHcvH3oF2V-0TogTbpIgfQF4lfm3t2l4",
    ],
    ..POLICY
};

/// A connection for each request.
const HANDSHAKE: Row = Row {
    name: "handshake",
    beside: "handshake",
    listener: ", tls: { keystore: site }",
    more: "keystores: { site: { folder: @folder/site } }\n",
    over: Over::Handshakes,
    ..PLAIN
};

/// All rows; each stands behind the one that it is compared with.
pub(super) const ROWS: &[Row] = &[
    PLAIN,
    TEXT,
    Row { name: "allow-list-100k", more: "policies: { p: { allow_file: @folder/networks } }\n", ..POLICY },
    Row { name: "rate-limit", more: "policies: { p: { rate_limit: { rate: 100000/s, burst: 100000 } } }\n", ..POLICY },
    Row {
        name: "rate-limit-fleet",
        beside: "rate-limit",
        more: "policies: { p: { rate_limit: { rate: 100000/s, burst: 100000, scope: fleet } } }\nrate_store: { address: \"@redis\", secret: { file: @folder/shared }, nodes: 1 }\n",
        ..POLICY
    },
    Row {
        name: "concurrency-limit",
        more: "policies: { p: { concurrency_limit: { max_in_flight: 10000 } } }\n",
        ..POLICY
    },
    Row {
        name: "bandwidth-limit",
        more: "policies: { p: { bandwidth_limit: { download: 1GiB, upload: 1GiB, burst: 1GiB, key: client } } }\n",
        ..POLICY
    },
    Row {
        name: "rate-limit-logged",
        more: "policies: { p: { mode: log, rate_limit: { rate: 1/h, burst: 1 } } }\n",
        ..POLICY
    },
    Row {
        name: "policy-when",
        beside: "rate-limit",
        more: "policies: { p: { when: { header: { x-beta: { regex: \"[0-9]+\" } } }, rate_limit: { rate: 100000/s, burst: 100000 } } }\n",
        fields: &["X-Beta: 12"],
        ..POLICY
    },
    Row { name: "maintenance", more: "policies: { p: { maintenance: { file: @folder/closed } } }\n", ..POLICY },
    TOKEN,
    Row {
        name: "rate-limit-by-claim",
        beside: "jwt-hs256",
        more: "policies: { p: { jwt: { verifier: v, set: { X-User: sub } }, rate_limit: { rate: 100000/s, burst: 100000, key: { claim: sub } } } }\ntokens: { v: { jwt: { algorithms: HS256, secret: { file: @folder/shared } } } }\n",
        ..TOKEN
    },
    Row {
        name: "split-by-claim",
        beside: "jwt-hs256",
        action: "split: [{ upstream: bench }, { upstream: other, when: { claim: { sub: user-2 } } }]",
        ..TOKEN
    },
    Row {
        name: "jwt-es256",
        more: "policies: { p: { jwt: { verifier: v, set: { X-User: sub } } } }\ntokens: { v: { jwt: { algorithms: ES256, public_key: @folder/public.pem } } }\n",
        fields: &[
            "Authorization: Bearer eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1c2VyLTEiLCJleHAiOjQxMDI0NDQ4MDB9.X7ek97eAp4CbeowFcb1r_-Rn121oDQYzVuPoZaNCnEYF4HUpfGj1qsZvJImBkbSpcaA4DumCvrGVwJP3-EBLag",
        ],
        ..POLICY
    },
    Row {
        name: "basic",
        more: "policies: { p: { basic: { file: @folder/users, realm: r } } }\n",
        fields: &["Authorization: Basic YWRhOnNlY3JldA=="],
        ..POLICY
    },
    Row {
        name: "forward-auth",
        more: "policies: { p: { forward_auth: { upstream: other, path: /small } } }\n",
        ..POLICY
    },
    Row {
        name: "cors",
        more: "policies: { p: { cors: { origins: [\"https://app.example\"] } } }\n",
        fields: &["Origin: https://app.example"],
        ..POLICY
    },
    Row {
        name: "variables",
        route: ", request_headers: { set: { X-Client: \"{client.address}\", X-Id: \"{request.id}\", X-Where: \"{host}{path}\" } }",
        ..PLAIN
    },
    Row {
        name: "conditions",
        route: ", when: { header: { x-beta: { regex: \"[0-9]+\" } }, cookie: { plan: { prefix: pro } } }",
        fields: &["X-Beta: 12", "Cookie: a=b; plan=pro-2"],
        ..PLAIN
    },
    Row { name: "regex-path", route: ", path: { regex: \"/(?<word>[a-z]+)\" }", ..PLAIN },
    NAMED,
    Row {
        name: "country",
        beside: "trusted-proxy",
        route: ", when: { country: DE }",
        more: "trusted_proxies: [127.0.0.0/8]\ngeoip: { country: @folder/country.mmdb }\n",
        ..NAMED
    },
    FIXED,
    Row {
        name: "fixed-template",
        beside: "fixed",
        action: "respond: { status: 200, template: true, body: \"{client.address} {path} {request.id}\" }",
        ..FIXED
    },
    REJECTED,
    Row {
        name: "error-page",
        beside: "rejected",
        listener: ", error_pages: e",
        more: "policies: { p: { deny: [127.0.0.0/8] } }\nerror_pages: { e: { pages: { 4xx: @folder/page.html } } }\n",
        ..REJECTED
    },
    Row {
        name: "asn",
        beside: "trusted-proxy",
        route: ", when: { asn: 64500 }",
        more: "trusted_proxies: [127.0.0.0/8]\ngeoip: { asn: @folder/asn.mmdb }\n",
        ..NAMED
    },
    ACCESS_LOG,
    Row {
        name: "access-log-logfmt",
        beside: "access-log",
        more: "log: { access: { output: /dev/null, format: logfmt }, level: warn }\n",
        ..ACCESS_LOG
    },
    Row {
        name: "access-log-text",
        beside: "access-log",
        more: "log: { access: { output: /dev/null, format: text }, level: warn }\n",
        ..ACCESS_LOG
    },
    Row {
        name: "access-log-common",
        beside: "access-log",
        more: "log: { access: { output: /dev/null, format: common }, level: warn }\n",
        ..ACCESS_LOG
    },
    Row {
        name: "access-log-syslog",
        beside: "access-log",
        more: "log: { access: { output: { syslog: \"udp://@sink\" } }, level: warn }\n",
        ..ACCESS_LOG
    },
    Row { name: "access-log-redacted", beside: "access-log", path: "/small?q=1&token=t-4711", ..ACCESS_LOG },
    Row {
        name: "access-log-sampled",
        beside: "access-log",
        more: "log: { access: { output: /dev/null, sample: { 2xx: 0.01 } }, level: warn }\n",
        ..ACCESS_LOG
    },
    Row { name: "trace-0", more: "tracing: { otlp: \"http://@second/sink\", sample: 0 }\n", ..PLAIN },
    Row { name: "trace-1-percent", more: "tracing: { otlp: \"http://@second/sink\", sample: 0.01 }\n", ..PLAIN },
    Row { name: "trace-all", more: "tracing: { otlp: \"http://@second/sink\", sample: 1 }\n", ..PLAIN },
    // Nothing listens on that port.
    Row { name: "trace-all-collector-away", more: "tracing: { otlp: \"http://127.0.0.1:1\", sample: 1 }\n", ..PLAIN },
    Row { name: "sandbox-off", more: "sandbox: off\n", ..PLAIN },
    Row {
        name: "access-log-fields",
        beside: "access-log",
        more: "log: { access: { output: /dev/null, fields: { agent: \"{header.X-Agent}\", query: \"{query.q}\", where: \"{host}{path}\" } }, level: warn }\n",
        fields: &["X-Agent: bench"],
        ..PLAIN
    },
    Row { name: "max-in-flight-per-server", upstream: ", max_in_flight_per_server: 1000", ..PLAIN },
    Row {
        name: "queue",
        upstream: ", max_in_flight_per_server: 40, queue: { size: 1000, timeout: 10s }, max_in_flight_per_client: 10000",
        ..PLAIN
    },
    Row { name: "send-proxy", upstream: ", send_proxy: v1", ..PLAIN },
    Row {
        name: "split-by-weight",
        action: "split: [{ upstream: bench, weight: 1 }, { upstream: other, weight: 1 }]",
        ..PLAIN
    },
    Row {
        name: "split-when",
        action: "split: [{ upstream: other }, { upstream: bench, when: { cookie: { canary: \"1\" } } }]",
        fields: &["Cookie: a=b; canary=1"],
        ..PLAIN
    },
    Row { name: "backup", upstream: ", servers: [\"@upstream\", { address: \"@second\", backup: true }]", ..PLAIN },
    Row { name: "two-servers", upstream: TWO_SERVERS, ..PLAIN },
    Row {
        name: "weights",
        beside: "two-servers",
        upstream: ", servers: [{ address: \"@upstream\", weight: 3 }, \"@second\"]",
        ..PLAIN
    },
    Row {
        name: "slow-start",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], slow_start: 1h",
        ..PLAIN
    },
    Row {
        name: "random-two",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], balance: random_two",
        ..PLAIN
    },
    Row {
        name: "least-loaded",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], balance: least_loaded",
        ..PLAIN
    },
    Row {
        name: "consistent-hash",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], balance: { hash: { header: x-tenant }, balance_factor: 150 }",
        fields: &["X-Tenant: t-4711"],
        ..PLAIN
    },
    Row {
        name: "zones",
        beside: "two-servers",
        upstream: ", servers: [{ address: \"@upstream\", zone: a }, { address: \"@second\", zone: b }]",
        more: "zone: a\n",
        ..PLAIN
    },
    Row {
        name: "sticky-session",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], sticky: { cookie: sid }",
        is_session: true,
        ..PLAIN
    },
    Row {
        name: "sticky-session-hash",
        beside: "sticky-session",
        upstream: ", servers: [\"@upstream\", \"@second\"], sticky: { cookie: sid }, balance: { hash: { header: x-tenant } }",
        fields: &["X-Tenant: t-4711"],
        is_session: true,
        ..PLAIN
    },
    Row {
        name: "hedging-idle",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], retries: { hedge: { after: 1h } }",
        ..PLAIN
    },
    SLOW,
    Row {
        name: "hedging",
        beside: "slow",
        upstream: ", servers: [\"@upstream\", \"@second\"], retries: { hedge: { after: 1ms }, budget: 100 }",
        ..SLOW
    },
    Row {
        name: "retries-idle",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], retries: { on: [503] }",
        ..PLAIN
    },
    UNAVAILABLE,
    Row {
        name: "retries",
        beside: "unavailable",
        upstream: ", servers: [\"@upstream\", \"@second\"], retries: { on: [503], backoff: 0s, budget: 100 }",
        ..UNAVAILABLE
    },
    Row { name: "mirror", route: ", mirror: { upstream: other, percent: 100 }", ..PLAIN },
    Row { name: "gzip", fields: &["Accept-Encoding: gzip"], ..COMPRESSED },
    Row { name: "br", fields: &["Accept-Encoding: br"], ..COMPRESSED },
    Row { name: "zstd", fields: &["Accept-Encoding: zstd"], ..COMPRESSED },
    TLS,
    TLS_LIMITED,
    Row {
        name: "access-log-tls",
        beside: "plain-tls",
        more: "keystores: { site: { folder: @folder/site } }\nlog: { access: { output: /dev/null }, level: warn }\n",
        ..TLS
    },
    CERTIFICATE,
    Row {
        name: "rate-limit-by-certificate",
        beside: "client-certificate",
        route: ", policies: [p]",
        more: "keystores: { site: { folder: @folder/site } }\npolicies: { p: { rate_limit: { rate: 100000/s, burst: 100000, key: { certificate: fingerprint } } } }\n",
        ..CERTIFICATE
    },
    TUNNEL,
    Row {
        name: "tunnel-limits",
        beside: "tunnel",
        listener: ", tunnel: { upstream: bench, policies: [p] }",
        more: "policies: { p: { deny: [192.0.2.0/24], concurrency_limit: { max_in_flight: 10000 }, rate_limit: { rate: 100000/s, burst: 100000 } } }\n",
        ..TUNNEL
    },
    TUNNEL_KEPT,
    Row {
        name: "tunnel-bandwidth",
        beside: "tunnel-kept",
        listener: ", tunnel: { upstream: bench, policies: [p] }",
        more: "policies: { p: { bandwidth_limit: { download: 1GiB, upload: 1GiB, burst: 1GiB } } }\n",
        ..TUNNEL_KEPT
    },
    TLS_UPSTREAM,
    Row {
        name: "auto",
        beside: "tls-upstream",
        upstream: ", servers: [\"@tls\"], protocol: auto, tls: { ca: \"@folder/ca.pem\", server_name: www.portunus.test }",
        ..TLS_UPSTREAM
    },
    WEBSOCKET,
    Row { name: "websocket-http2", beside: "websocket", over: Over::WebSocketHttp2, ..WEBSOCKET },
    Row {
        name: "websocket-bandwidth",
        beside: "websocket",
        route: ", policies: [p]",
        more: "policies: { p: { bandwidth_limit: { download: 1GiB, upload: 1GiB, burst: 1GiB } } }\n",
        ..WEBSOCKET
    },
    UDP,
    Row {
        name: "udp-limits",
        beside: "udp",
        more: "udp_listeners: [{ name: udp, bind: \"@address\", upstream: \"@datagrams\", policies: [p] }]\n\
               policies: { p: { deny: [192.0.2.0/24], concurrency_limit: { max_in_flight: 10000 }, rate_limit: { rate: 100000/s, burst: 100000 } } }\n",
        ..UDP
    },
    HANDSHAKE,
    Row {
        name: "ja4",
        beside: "handshake",
        route: ", request_headers: { set: { X-Ja4: \"{tls.ja4}\" } }",
        ..HANDSHAKE
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_behind_the_one_that_it_is_compared_with() {
        for (place, row) in ROWS.iter().enumerate() {
            let beside = ROWS.iter().position(|other| other.name == row.beside);
            assert!(beside.is_some_and(|beside| beside <= place), "{}", row.name);
            assert_eq!(ROWS.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
        }
    }
}
