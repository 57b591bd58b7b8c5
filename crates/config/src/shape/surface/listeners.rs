//! Keys of `listeners`, `keystores` and `admin`. Declares them, nothing else; `surface.rs` says how.

use std::time::Duration;

use super::acme::ACME;
use super::responses::RESPONSE_RULES;
use crate::table::*;
use crate::yaml::{Node, Value};

pub(in crate::shape) static LISTENER: Object = object(
    "listener",
    "listening addresses that share their settings",
    &[
        &[
            required(
                "name",
                Shape::Text("a name of letters, digits, `.`, `_` and `-`"),
                "Unique name: in routes, logs and metrics.",
            ),
            required(
                "bind",
                Shape::OneOrMany(&Shape::Text(
                    "an address such as `0.0.0.0:443`, `[::]:443`, `:443` or `unix:/run/edge.sock`",
                )),
                "Where to listen. `:443` is every IPv4 and IPv6 address; `[::]:443` is IPv6 alone.",
            ),
            optional("unix_socket", Shape::Object(&UNIX_SOCKET), "(see there)", "Who may connect to its Unix sockets."),
            optional(
                "proxy_protocol",
                Shape::Object(&PROXY_PROTOCOL),
                "(no headers)",
                "Expect a PROXY header (version 1 or 2) at the beginning of each connection, before TLS. The client is the one that the header names.",
            ),
            optional(
                "tls",
                Shape::Object(&TLS),
                "(plain)",
                "Terminate TLS. Without it the listener speaks HTTP/1 in the clear, and HTTP/2 with clients that begin with its preface (h2c with prior knowledge, as gRPC clients do).",
            ),
            optional(
                "tunnel",
                Shape::Object(&TUNNEL),
                "(HTTP)",
                "TCP mode: forward bytes without parsing HTTP. TLS is terminated if the listener has `tls`.",
            ),
            optional(
                "redirect_to_https",
                Shape::Either(&[Shape::Bool, Shape::Object(&REDIRECT_TO_HTTPS)]),
                "false",
                "Redirect every request to the same URL under https (status 308) instead of routing it.",
            ),
            optional(
                "contract",
                Shape::Text("the name of a contract"),
                "(none)",
                "Contract for all requests on this listener, unless their host or route names another.",
            ),
            optional(
                "policies",
                Shape::OneOrMany(&Shape::Text("the name of a policy")),
                "(none)",
                "Policies that all requests on this listener must pass, before they are routed. Beside `tunnel`: that all connections must pass, before anything of them is read but a PROXY header.",
            ),
        ],
        &RESPONSE_RULES,
        LISTENER_OPTIONS_ROWS,
    ],
);

pub(in crate::shape) static UNIX_SOCKET: Object = object(
    "unix_socket",
    "Unix sockets of a listener",
    &[&[optional(
        "mode",
        Shape::Verbatim("a mode such as `0660`"),
        "0660",
        "Mode of the socket in octal digits: who may write, may connect. Its owner is the user of the process; its group is that of the process, or of the folder where that is setgid. A socket that is there keeps its mode until a restart.",
    )]],
);

settings! {
    /// Settings of a listener that are a value alone.
    pub struct ListenerOptions, LISTENER_OPTIONS_ROWS {
        half_close: HalfClose = Shape::Choice(HalfClose::WORDS), "abort",
            "HTTP/1 clients that close their sending direction while they wait for the response. `abort`: treat it as a disconnect and abort the request. `serve`: send the response, the client may still read.";
        http3: Http3 = Shape::Either(&[Shape::Bool, Shape::Object(&HTTP3)]), "false",
            "Serve HTTP/3 (QUIC), too: on UDP at the same addresses, under the same certificates, routes and limits. Needs `tls`, and UDP open in firewalls.";
        public_port: Option<u16> = Shape::Int(1, 65_535), "(the bound port)",
            "The port that clients connect to, where a NAT or a container publishes the bound one under another number: in `X-Forwarded-Port`, unless a trusted proxy or a PROXY header says it, and in `Alt-Svc`.";
        websocket_over_http2: bool = Shape::Bool, "true",
            "Announce to HTTP/2 and HTTP/3 clients that WebSockets may be opened on a stream of their connection (RFC 8441, RFC 9220), where `upgrades` of a route allows them. `false`: clients that know HTTP/1.1 open a connection of their own for each.";
        limits: Option<ListenerLimits> = Shape::Object(&LISTENER_LIMITS), "(those of the process)",
            "Limits of this listener that go before those of the process.";
    }
}

pub(in crate::shape) static HTTP3: Object = object(
    "http3",
    "HTTP/3 of a listener",
    &[&[optional(
        "advertise",
        Shape::Int(1, 65_535),
        "(`public_port`)",
        "The UDP port that clients are sent to by `Alt-Svc`, where a NAT or a container publishes the bound one under another number.",
    )]],
);

/// Whether HTTP/3 is served, and where clients are told to find it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Http3 {
    /// It is served.
    pub is_served: bool,
    /// The UDP port that `Alt-Svc` names; none for that of the listener.
    pub advertise: Option<u16>,
}

impl Setting for Http3 {
    fn of(node: &Node) -> Option<Http3> {
        match &node.value {
            Value::Map(_) => Some(Http3 { is_served: true, advertise: setting(node, "advertise") }),
            _ => bool::of(node).map(|is_served| Http3 { is_served, advertise: None }),
        }
    }
}

impl ListenerOptions {
    /// The port that clients find HTTP/3 at, on a socket bound to this one.
    pub fn http3_port(&self, bound: u16) -> u16 {
        self.http3.advertise.or(self.public_port).unwrap_or(bound)
    }
}

settings! {
    /// Limits of a listener that go before those of the process.
    pub struct ListenerLimits, LISTENER_LIMITS_ROWS {
        handshake_timeout: Option<Duration> = TIMEOUT, "(`limits.handshake_timeout`)",
            "Time from accept to the end of the TLS handshake.";
        request_header_timeout: Option<Duration> = TIMEOUT, "(`limits.request_header_timeout`)",
            "Time from the first byte of a request to the end of its header.";
        keep_alive_timeout: Option<Duration> = TIMEOUT, "(`limits.keep_alive_timeout`)",
            "Time between two requests of a connection.";
        client_idle_timeout: Option<Duration> = TIMEOUT, "(`limits.client_idle_timeout`)",
            "Time between two reads of a request body before the response begins, or between two writes of the response, unless the route sets its own.";
        min_body_rate: Option<u64> = Shape::Size(0, TIB), "(`limits.min_body_rate`)",
            "Lowest rate, in bytes per second, at which a client may send a request body or read a response body, unless the route sets its own; 0 for none.";
        max_head_bytes as "max_header_bytes": Option<usize> = Shape::Size(KIB, 32 * KIB), "(`limits.max_header_bytes`)",
            "Request header, with the request line; then 431.";
        max_request_line_bytes as "max_request_line": Option<usize> = Shape::Size(64, MIB), "(`limits.max_request_line`)",
            "Request line; then 414.";
        max_headers: Option<usize> = Shape::Int(4, 256), "(`limits.max_headers`)",
            "Header fields in a request; then 431.";
        max_body_bytes as "max_body": Option<u64> = Shape::Size(1, TIB), "(`limits.max_body`)",
            "Request body, unless the route sets its own limit; then 413.";
        max_requests_per_connection: Option<u64> = Shape::Int(1, u64::MAX >> 11), "(`limits.max_requests_per_connection`)",
            "Requests on one connection, after which it is closed gracefully.";
        keepalive: Option<Duration> = Shape::Duration(0, 9 * HOUR), "(`limits.keepalive`)",
            "Time of silence after which a client is asked whether it is still there (TCP keep-alive).";
        tunnel_idle_timeout: Option<Duration> = Shape::Duration(SECOND, 30 * DAY), "(`limits.tunnel_idle_timeout`)",
            "Time without a byte in either direction of a WebSocket, unless the route sets its own, or of a tunnel, unless `tunnel.idle_timeout` is set.";
        h2_max_streams: Option<u32> = Shape::Int(1, 10_000), "(`limits.h2_max_streams`)",
            "Concurrent HTTP/2 or HTTP/3 streams on one connection.";
    }
}

pub(in crate::shape) static LISTENER_LIMITS: Object =
    object("listener.limits", "limits that go before those of the process", &[LISTENER_LIMITS_ROWS]);

words! {
    /// What a client that has closed its sending direction means.
    pub enum HalfClose {
        /// It has gone.
        #[default]
        Abort = "abort",
        /// It may still read.
        Serve = "serve",
    }
}

pub(in crate::shape) static TUNNEL: Object = object(
    "tunnel",
    "TCP mode: where to forward the bytes of a listener",
    &[
        &[optional(
            "upstream",
            Shape::Text("the name of an upstream"),
            "(reject)",
            "Default upstream. If unset, unmatched connections are rejected.",
        )],
        &TUNNEL_PASSTHROUGH,
        &TUNNEL_POLICIES,
        &[
            optional(
                "rules",
                Shape::List(&Shape::Object(&TUNNEL_RULE)),
                "(none)",
                "Upstreams by server name, protocol and client. The most specific rule wins, whatever the order: exact name before wildcard before any name; then a rule with a protocol; then the smallest network of clients.",
            ),
            optional(
                "not_tls",
                Shape::Choice(&["forward", "reject"]),
                "(`forward` for what is sent; `reject` where a rule by name or protocol has `policies` or opens TLS)",
                "Connections that do not begin with TLS, where a rule reads the ClientHello. `forward`: to `upstream` (or to a rule by `client` alone), as they are; a client that says nothing within `handshake_timeout` waits for the server to speak first, and goes there, too, which it does only where this is set. What a server reads later, such as a ClientHello behind STARTTLS, no rule sees. `reject`: close them.",
            ),
            optional(
                "idle_timeout",
                Shape::Duration(SECOND, 30 * DAY),
                "(`tunnel_idle_timeout` of `limits`)",
                "Close a tunnel after this time without a byte in either direction.",
            ),
            optional(
                "max_lifetime",
                Shape::Duration(SECOND, 365 * DAY),
                "(unlimited)",
                "Close a tunnel after this time, however busy it is.",
            ),
        ],
    ],
);

static TUNNEL_PASSTHROUGH: [Field; 1] = [optional(
    "passthrough",
    Shape::Bool,
    "(only where the listener has no `tls`)",
    "Do not terminate TLS: read the server name and the offered protocols from the ClientHello and forward every byte as it is.",
)];

static TUNNEL_POLICIES: [Field; 1] = [optional(
    "policies",
    Shape::OneOrMany(&Shape::Text("the name of a policy")),
    "(none)",
    "Policies that the connections to this `upstream` must pass: by address, by rate, by number.",
)];

pub(in crate::shape) static TUNNEL_RULE: Object = object(
    "tunnel.rules",
    "a rule of a tunnel",
    &[
        &[
            optional(
                "server_name",
                Shape::OneOrMany(&Shape::Text("a host name such as `mail.example.com` or `*.example.com`")),
                "(any)",
                "Server names (SNI). `*.example.com` matches one or more labels before the rest.",
            ),
            optional(
                "alpn",
                Shape::OneOrMany(&Shape::Text("a protocol such as `imap`")),
                "(any)",
                "ALPN protocols: the negotiated one, or with `passthrough` one that the client offers.",
            ),
            optional(
                "client",
                Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
                "(any)",
                "Networks of clients; behind `proxy_protocol`, of the clients that headers name. A tunnel with such rules alone forwards bytes of any kind.",
            ),
            required("upstream", Shape::Text("the name of an upstream"), "Upstream of these connections."),
        ],
        &TUNNEL_PASSTHROUGH,
        &TUNNEL_POLICIES,
    ],
);

pub(in crate::shape) static PROXY_PROTOCOL: Object = Object {
    name: "proxy_protocol",
    doc: "PROXY headers from load balancers",
    fields: &[&[
        optional(
            "trust",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "",
            "Load balancers to trust. A connection from another peer that begins with a header is closed.",
        ),
        optional(
            "trust_file",
            Shape::Text("a file"),
            "",
            "A file of such networks, one per line, with `#` comments. Each reload reads it again; a missing, invalid or empty file is an error.",
        ),
        optional(
            "header",
            Shape::Choice(&["required", "optional"]),
            "required",
            "`required`: close connections that begin without a header. `optional`: accept them; their peer is the client, trusted or not.",
        ),
        optional("header_timeout", TIMEOUT, "5s", "Time from accept to the last byte of the header."),
    ]],
    one_of: &["trust", "trust_file"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static REDIRECT_TO_HTTPS: Object = object(
    "redirect_to_https",
    "redirect to https",
    &[&[optional("port", Shape::Int(1, 65_535), "443", "Port of the https URL; 443 is omitted from it.")]],
);

/// Keys that a listener and a name of it share.
pub(in crate::shape) static TLS_SETTINGS: [Field; 4] = [
    optional(
        "policy",
        Shape::Choice(&["modern", "intermediate", "legacy"]),
        "intermediate",
        "TLS versions, cipher suites and groups. `modern`: TLS 1.3. `intermediate`: TLS 1.3, and 1.2 with forward secrecy and AEAD. `legacy`: TLS 1.0 and later, for old clients only. Chains of client certificates need RSA keys of at least 2048 bits and no SHA-1 signatures; `legacy` accepts RSA keys from 1024 bits and SHA-1.",
    ),
    optional(
        "min_version",
        Shape::Choice(&["1.0", "1.1", "1.2", "1.3"]),
        "(that of the policy)",
        "Lowest TLS version. It can be higher than that of the policy, not lower.",
    ),
    optional(
        "alpn",
        Shape::OneOrMany(&Shape::Text("a protocol such as `h2` or `http/1.1`")),
        "(h2 and http/1.1; none for tunnels)",
        "ALPN protocols to offer, in order of preference; `http/1.1` includes http/1.0. Tunnels may offer any, such as `imap`.",
    ),
    optional(
        "client_certificate",
        Shape::Either(&[Shape::Choice(&["none"]), Shape::Object(&CLIENT_CERTIFICATE)]),
        "none",
        "Request a certificate from clients.",
    ),
];

pub(in crate::shape) static TLS: Object = object(
    "tls",
    "TLS of a listener",
    &[
        &[required("keystore", Shape::Text("the name of a keystore"), "Keystore with the certificates.")],
        &TLS_SETTINGS,
        &[
            optional(
                "strict_sni",
                Shape::Bool,
                "false",
                "Reject handshakes for names without a certificate, instead of serving the default certificate, which the keystore then need not have.",
            ),
            optional(
                "require_sni",
                Shape::Bool,
                "false",
                "Reject handshakes that name no server, instead of serving the default certificate. Clients that connect to an address send no name.",
            ),
            optional(
                "names",
                Shape::List(&Shape::Object(&TLS_NAME)),
                "(none)",
                "Settings of individual server names. Unset keys are as above.",
            ),
        ],
    ],
);

pub(in crate::shape) static TLS_NAME: Object = Object {
    name: "tls.names",
    doc: "TLS settings of individual server names; unset keys are those of the listener",
    fields: &[
        &[required(
            "host",
            Shape::OneOrMany(&Shape::Text("a host name such as `admin.example.com` or `*.example.com`")),
            "Server names. `*.example.com` matches one or more labels before the rest, as in routes.",
        )],
        &TLS_SETTINGS,
    ],
    one_of: &[],
    secret: false,
    inherits: true,
};

pub(in crate::shape) static CLIENT_CERTIFICATE: Object = object(
    "client_certificate",
    "client certificates",
    &[&[
        required(
            "mode",
            Shape::Choice(&["optional", "required"]),
            "`required`: the handshake fails without a certificate. `optional`: requests without one are forwarded without identity header fields.",
        ),
        required(
            "ca",
            Shape::Text("a PEM file"),
            "Certificate authorities that sign client certificates. No others are trusted.",
        ),
        optional("crl", Shape::Text("a PEM or DER file"), "(none)", "Revocation lists."),
        optional(
            "allow_san",
            Shape::OneOrMany(&Shape::Text(
                "a name such as `DNS:client.example`, `URI:spiffe://x/y`, `EMAIL:a@example.com` or `IP:192.0.2.1`",
            )),
            "(any)",
            "Subject alternative names to accept; the certificate must have one of them.",
        ),
    ]],
);

pub(in crate::shape) static KEYSTORE: Object = Object {
    name: "keystore",
    doc: "certificates and keys",
    fields: &[&[
        optional(
            "folder",
            Shape::Text("a folder"),
            "",
            "A folder of PEM files, with chain and key in one file or in two.",
        ),
        optional("pkcs12", Shape::Text("a file"), "", "A PKCS#12 file (`.p12`, `.pfx`)."),
        optional("jks", Shape::Text("a file"), "", "A Java keystore."),
        optional(
            "acme",
            Shape::Object(&ACME),
            "",
            "Certificates that are ordered from certificate authorities, and renewed.",
        ),
        optional(
            "password",
            Shape::Object(&SECRET),
            "(none)",
            "Password of the keystore. Required by `pkcs12` and `jks`.",
        ),
        optional(
            "key_servers",
            Shape::Text("the name of a group of key servers"),
            "(none: every certificate comes with its key)",
            "Key servers that hold the private keys of certificates without one. A PEM file may then be named after its host.",
        ),
        optional(
            "default",
            Shape::Text("a host name"),
            "(the alias `default`)",
            "Server name whose certificates are for clients that send no name or an unknown one. A keystore with one certificate needs none.",
        ),
        optional(
            "reload_interval",
            Shape::Duration(SECOND, 30 * DAY),
            "30m",
            "Re-read the store this often, in addition to whenever its files change.",
        ),
    ]],
    one_of: &["folder", "pkcs12", "jks", "acme"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static SECRET: Object = Object {
    name: "secret",
    doc: "where a secret comes from",
    fields: &[&[
        optional("file", Shape::Text("a file"), "", "A file that contains it; a final newline is ignored."),
        optional(
            "env",
            Shape::Text("the name of an environment variable"),
            "",
            "An environment variable that contains it.",
        ),
    ]],
    one_of: &["file", "env"],
    secret: true,
    inherits: false,
};

pub(crate) static ADMIN: Object = object(
    "admin",
    "the admin listener",
    &[&[
        required(
            "bind",
            Shape::Text("an address such as `127.0.0.1:9901` or `unix:/run/portunus/admin.sock`"),
            "Listening address: loopback or a Unix socket.",
        ),
        optional(
            "token",
            Shape::Object(&SECRET),
            "(none)",
            "Token that requests over TCP must bear (`Authorization: Bearer TOKEN`). Without it or client certificates, an address on loopback serves `/metrics`, `/healthz` and `/readyz` alone.",
        ),
        optional(
            "allow_remote",
            Shape::Bool,
            "false",
            "Allow any other listening address. Requires `token` or `tls.client_certificate`.",
        ),
        optional("tls", Shape::Object(&ADMIN_TLS), "(none)", "TLS on its address."),
        optional(
            "hosts",
            Shape::OneOrMany(&Shape::Text("a host name")),
            "(none)",
            "Host values to accept in addition to its address and `localhost`.",
        ),
        optional(
            "connection_timeout",
            Shape::Duration(SECOND, DAY),
            "2m",
            "Close a connection after this time. `POST /reload` waits for the reload on its connection, so allow enough time for one.",
        ),
    ]],
);

pub(in crate::shape) static ADMIN_TLS: Object = object(
    "admin.tls",
    "TLS of the admin listener",
    &[&[
        required("certificate", Shape::Text("a PEM file"), "The certificate chain, leaf first."),
        required("private_key", Shape::Text("a PEM file"), "Its private key."),
        optional(
            "client_certificate",
            Shape::Object(&CLIENT_CERTIFICATE),
            "(none)",
            "Certificate that clients must show; `mode` is `required`. Whoever shows one may do what a token allows.",
        ),
    ]],
);
