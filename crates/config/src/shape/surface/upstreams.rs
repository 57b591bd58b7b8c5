//! Keys of `upstreams`, and those that `upstream_url` shares with them. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

/// TLS of a group.
static GROUP_TLS: [Field; 1] = [optional(
    "tls",
    Shape::Either(&[Shape::Bool, Shape::Object(&UPSTREAM_TLS)]),
    "false",
    "Connect with TLS. The certificates of the servers are verified, against the system's certificate authorities unless `ca` is set.",
)];

/// TLS of a server that a URL names.
pub(in crate::shape) static URL_TLS: [Field; 1] = [optional(
    "tls",
    Shape::Either(&[Shape::Bool, Shape::Object(&UPSTREAM_TLS)]),
    "(`true` for an https URL)",
    "Connect with TLS. The certificates of the servers are verified, against the system's certificate authorities unless `ca` is set.",
)];

/// Keys that a group and a server made from a URL share.
pub(in crate::shape) static CONNECTION_SETTINGS: [Field; 9] = [
    optional(
        "protocol",
        Shape::Choice(&["http1", "http2", "tcp"]),
        "http1",
        "Protocol of the servers. `http2`: negotiated by ALPN over TLS, with prior knowledge otherwise; required by gRPC. `tcp`: no HTTP, for tunnels only; no ALPN over TLS.",
    ),
    optional("connect_timeout", TIMEOUT, "5s", "Time to connect, TCP and TLS together."),
    optional(
        "response_header_timeout",
        TIMEOUT,
        "60s",
        "Time from the last byte of the request to the end of the response header; then 504.",
    ),
    optional(
        "idle_timeout",
        TIMEOUT,
        "60s",
        "Time between two bytes of a response body. While the request body is still being sent, its bytes count as well.",
    ),
    optional(
        "total_timeout",
        Shape::Either(&[Shape::Choice(&["none"]), TIMEOUT]),
        "none",
        "Time for the whole exchange.",
    ),
    optional("pool_idle_timeout", TIMEOUT, "30s", "Time to keep an idle connection open."),
    optional("pool_max_idle", Shape::Int(0, 1_000_000), "256", "Idle connections to keep open, in the whole process."),
    optional(
        "max_in_flight",
        Shape::Int(1, 1_000_000),
        "10000",
        "Concurrent requests and tunnels, in the whole process; then requests are rejected with 503 and tunnels closed.",
    ),
    optional(
        "max_in_flight_per_client",
        Shape::Int(1, 1_000_000),
        "(half of `max_in_flight`, at least 10)",
        "Concurrent requests and tunnels of one client (IPv6: of one /64); then its requests are rejected with 429 and its tunnels closed. Behind trusted proxies, the client is the one that they name.",
    ),
];

pub(crate) static UPSTREAM: Object = Object {
    name: "upstream",
    doc: "a group of servers",
    fields: &[
        &[
            optional(
                "servers",
                Shape::OneOrMany(&Shape::Either(&[
                    Shape::Text("a server such as `127.0.0.1:9000`, `app.internal:8080` or `unix:/run/app.sock`"),
                    Shape::Object(&SERVER),
                ])),
                "",
                "Servers. Each address (A and AAAA) of a name is a server of its own. Names are resolved again when the TTL of their DNS records expires.",
            ),
            optional(
                "balance",
                Shape::Choice(&["round_robin", "least_loaded"]),
                "round_robin",
                "How to choose a server. `round_robin`: in turn, by weight. `least_loaded`: the one of two random servers with fewer requests.",
            ),
        ],
        &GROUP_TLS,
        &CONNECTION_SETTINGS,
        &super::ORIGINAL_DST,
        &super::SOURCE_SETTINGS,
        &[
            optional(
                "send_proxy",
                Shape::Choice(&["off", "v1", "v2", "v2_tlvs"]),
                "off",
                "Send a PROXY header at the beginning of a tunnel. `v2_tlvs` is version 2 with ALPN, server name, a unique id, TLS version, cipher, client certificate and a checksum.",
            ),
            optional(
                "retries",
                Shape::Object(&RETRIES),
                "(see there)",
                "Retries of idempotent requests on another server.",
            ),
            optional(
                "ejection",
                Shape::Object(&UPSTREAM_EJECTION),
                "(see there)",
                "Ejection of failing servers (passive health checks).",
            ),
            optional("health", Shape::Object(&HEALTH), "(none)", "Active health checks."),
        ],
    ],
    one_of: &["servers", "original_dst"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static SERVER: Object = object(
    "server",
    "a server with a weight",
    &[&[
        required(
            "address",
            Shape::Text("a server such as `127.0.0.1:9000`, `app.internal:8080` or `unix:/run/app.sock`"),
            "Address.",
        ),
        optional("weight", Shape::Int(1, 1_000), "1", "Share of the load, relative to the other servers."),
    ]],
);

pub(in crate::shape) static UPSTREAM_TLS: Object = object(
    "upstream.tls",
    "TLS to upstream servers",
    &[&[
        optional(
            "ca",
            Shape::Text("a PEM file"),
            "(the system's)",
            "Certificate authorities to trust instead of the system's.",
        ),
        optional(
            "server_name",
            Shape::Text("a host name"),
            "(that of the server)",
            "Server name to send (SNI) and to verify. Required by servers on Unix sockets.",
        ),
        optional(
            "client_certificate",
            Shape::Text("a PEM file"),
            "(none)",
            "Client certificate to present, with its chain.",
        ),
        optional("client_key", Shape::Text("a PEM file"), "(none)", "Private key of the client certificate."),
        optional(
            "insecure_skip_verify",
            Shape::Bool,
            "false",
            "Do not verify the certificates of the servers: anybody on the network path can read and change everything.",
        ),
        optional(
            "policy",
            Shape::Choice(&["modern", "intermediate", "legacy"]),
            "intermediate",
            "TLS versions, cipher suites and certificate chains to accept. `legacy`: TLS 1.0 and later, RSA keys from 1024 bits, SHA-1 signatures.",
        ),
    ]],
);

pub(crate) static RETRIES: Object = object(
    "retries",
    "retries of idempotent requests",
    &[&[optional("budget", Shape::Int(0, 100), "20", "Retries as a percentage of requests; 0 disables them.")]],
);

static EJECTION_FIELDS: [Field; 2] = [
    optional(
        "failures",
        Shape::Int(0, 1_000),
        "5",
        "Consecutive failures after which a server is ejected; 0 disables this.",
    ),
    optional(
        "duration",
        Shape::Duration(100, HOUR),
        "10s",
        "Time of the first ejection. It doubles with each further one, up to ten times this.",
    ),
];

pub(in crate::shape) static EJECTION: Object = object("ejection", "ejection of failing servers", &[&EJECTION_FIELDS]);

pub(crate) static UPSTREAM_EJECTION: Object = object(
    "upstream.ejection",
    "ejection of failing servers of an upstream",
    &[
        &EJECTION_FIELDS,
        &[
            optional(
                "statuses",
                Shape::OneOrMany(&Shape::Int(500, 599)),
                "[502, 503, 504]",
                "Response statuses that count as failures of the server, as timeouts and reset connections do. The responses are forwarded nevertheless. `[]` for none.",
            ),
            optional(
                "max_percent",
                Shape::Int(0, 100),
                "50",
                "Largest percentage of the servers to eject for their statuses at the same time: never the only one, one of two.",
            ),
        ],
    ],
);

pub(in crate::shape) static HEALTH: Object = object(
    "health",
    "active health checks",
    &[&[
        optional(
            "path",
            Shape::Text("`none` or a path such as `/healthz`"),
            "(required for HTTP)",
            "Path to request with GET; statuses from 200 to 399 are healthy. `none`, the default with `protocol: tcp`: a server that accepts a connection is healthy.",
        ),
        optional("host", Shape::Text("a host name"), "(that of the server)", "Host of the request."),
        optional("interval", Shape::Duration(100, HOUR), "5s", "Time between two checks."),
        optional("timeout", Shape::Duration(10, HOUR), "2s", "Time for one check; at most `interval`.")
            .at_most("interval"),
        optional("fall", Shape::Int(1, 100), "3", "Consecutive failed checks after which a server is unhealthy."),
        optional("rise", Shape::Int(1, 100), "2", "Consecutive successful checks after which it is healthy again."),
    ]],
);
