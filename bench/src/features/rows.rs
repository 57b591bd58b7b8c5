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
    /// Further keys of the route.
    pub(super) route: &'static str,
    /// Further sections of the file.
    pub(super) more: &'static str,
    /// What is asked for.
    pub(super) path: &'static str,
    /// Further fields of requests.
    pub(super) fields: &'static [&'static str],
    /// Requests bring the cookie of their first response back.
    pub(super) is_session: bool,
}

/// Nothing but forwarding.
const PLAIN: Row = Row {
    name: "plain",
    beside: "plain",
    listener: "",
    upstream: "",
    route: "",
    more: "",
    path: "/small",
    fields: &[],
    is_session: false,
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

/// All rows; each stands behind the one that it is compared with.
pub(super) const ROWS: &[Row] = &[
    PLAIN,
    TEXT,
    Row { name: "allow-list-100k", more: "policies: { p: { allow_file: @folder/networks } }\n", ..POLICY },
    Row { name: "rate-limit", more: "policies: { p: { rate_limit: { rate: 100000/s, burst: 100000 } } }\n", ..POLICY },
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
        name: "jwt-hs256",
        more: "policies: { p: { jwt: { verifier: v, set: { X-User: sub } } } }\ntokens: { v: { jwt: { algorithms: HS256, secret: { file: @folder/shared } } } }\n",
        fields: &[
            "Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1c2VyLTEiLCJleHAiOjQxMDI0NDQ4MDB9.ZUrPetq_JdnhHcvH3oF2V-0TogTbpIgfQF4lfm3t2l4",
        ],
        ..POLICY
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
    Row { name: "access-log", more: "log: { access: { output: /dev/null }, level: warn }\n", ..PLAIN },
    Row {
        name: "access-log-fields",
        beside: "access-log",
        more: "log: { access: { output: /dev/null, fields: { agent: \"{header.X-Agent}\", query: \"{query.q}\", where: \"{host}{path}\" } }, level: warn }\n",
        fields: &["X-Agent: bench"],
        ..PLAIN
    },
    Row { name: "two-servers", upstream: TWO_SERVERS, ..PLAIN },
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
        name: "hedging-idle",
        beside: "two-servers",
        upstream: ", servers: [\"@upstream\", \"@second\"], retries: { hedge: { after: 1h } }",
        ..PLAIN
    },
    Row { name: "mirror", route: ", mirror: { upstream: other, percent: 100 }", ..PLAIN },
    Row { name: "gzip", fields: &["Accept-Encoding: gzip"], ..COMPRESSED },
    Row { name: "br", fields: &["Accept-Encoding: br"], ..COMPRESSED },
    Row { name: "zstd", fields: &["Accept-Encoding: zstd"], ..COMPRESSED },
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
