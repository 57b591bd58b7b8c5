//! Keys of `upstreams`, and those that `upstream_url` shares with them. Declares them, nothing else; `surface.rs` says how.

use super::{HOUR, TIMEOUT, object, optional, required};
use crate::shape::{Field, Object, Shape};

/// Keys that a group and a server made from a URL share.
pub(in crate::shape) static CONNECTION_SETTINGS: [Field; 10] = [
    optional(
        "protocol",
        Shape::Choice(&["http1", "http2", "tcp"]),
        "http1",
        "HTTP spoken to the servers. `http2`: by ALPN over TLS, with prior knowledge otherwise; gRPC needs it. `tcp`: no HTTP; for tunnels only, without ALPN under TLS.",
    ),
    optional(
        "tls",
        Shape::Either(&[Shape::Bool, Shape::Object(&UPSTREAM_TLS)]),
        "false",
        "TLS to the servers. Their certificates are verified, by the system's roots unless `ca` is given.",
    ),
    optional("connect_timeout", TIMEOUT, "5s", "For connecting, TCP and TLS together."),
    optional(
        "header_timeout",
        TIMEOUT,
        "60s",
        "From the last byte of the request to the head of the response; then 504.",
    ),
    optional(
        "idle_timeout",
        TIMEOUT,
        "60s",
        "Between two bytes of a response body; where the request body is still on its way, a byte of that counts too.",
    ),
    optional("total_timeout", Shape::Either(&[Shape::Choice(&["none"]), TIMEOUT]), "none", "For the whole exchange."),
    optional("pool_idle_timeout", TIMEOUT, "30s", "How long an unused connection is kept."),
    optional("pool_max_idle", Shape::Int(0, 1_000_000), "256", "Unused connections kept in the process."),
    optional(
        "max_in_flight",
        Shape::Int(1, 1_000_000),
        "10000",
        "Requests and tunnels under way in the process; further requests are answered 503, further tunnels closed.",
    ),
    optional(
        "max_in_flight_per_client",
        Shape::Int(1, 1_000_000),
        "(half of `max_in_flight`, at least 10)",
        "Of these, those of one client (IPv6: of one /64), so that none takes all; further requests are rejected with 429, further tunnels closed. The client is the one that trusted proxies name.",
    ),
];

pub(in crate::shape) static UPSTREAM: Object = Object {
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
                "The servers. Each address of a name, A and AAAA, is a server of its own; names are resolved again by the TTL of their DNS records.",
            ),
            optional(
                "balance",
                Shape::Choice(&["round_robin", "least_loaded"]),
                "round_robin",
                "How a server is chosen: in turn by weight, or the less loaded of two random ones.",
            ),
        ],
        &CONNECTION_SETTINGS,
        &super::TO_DESTINATIONS,
        &super::SOURCE_SETTINGS,
        &[
            optional(
                "send_proxy",
                Shape::Choice(&["off", "v1", "v2", "v2_tlvs"]),
                "off",
                "The PROXY header that goes ahead of a tunnel's bytes. `v2_tlvs` adds ALPN, server name, a unique id, TLS version, cipher and client certificate, and a checksum.",
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
                "When a failing server is left out.",
            ),
            optional("health", Shape::Object(&HEALTH), "(none)", "Active checks."),
        ],
    ],
    one_of: &["servers", "to_destinations"],
    secret: false,
};

pub(in crate::shape) static SERVER: Object = object(
    "server",
    "a server with a weight",
    &[&[
        required(
            "address",
            Shape::Text("a server such as `127.0.0.1:9000`, `app.internal:8080` or `unix:/run/app.sock`"),
            "Where it is.",
        ),
        optional("weight", Shape::Int(1, 1_000), "1", "Its share of the load, against those of the others."),
    ]],
);

pub(in crate::shape) static UPSTREAM_TLS: Object = object(
    "upstream.tls",
    "TLS to upstream servers",
    &[&[
        optional("ca", Shape::Text("a PEM file"), "(the system's roots)", "Roots to trust instead of the system's."),
        optional(
            "name",
            Shape::Text("a host name"),
            "(the server's own)",
            "Name to send and to check. Servers on Unix sockets need it.",
        ),
        optional("client_certificate", Shape::Text("a PEM file"), "(none)", "Our client certificate with its chain."),
        optional("client_key", Shape::Text("a PEM file"), "(none)", "The key of our client certificate."),
        optional(
            "insecure_skip_verify",
            Shape::Bool,
            "false",
            "Do not verify the servers' certificates: whoever sits between can read and change everything.",
        ),
        optional(
            "policy",
            Shape::Choice(&["modern", "intermediate", "legacy"]),
            "intermediate",
            "Versions, cipher suites and certificate chains to accept. `legacy`: TLS 1.0 and later, RSA keys from 1024 bits, SHA-1 signatures.",
        ),
    ]],
);

pub(in crate::shape) static RETRIES: Object = object(
    "retries",
    "retries of idempotent requests",
    &[&[optional("budget", Shape::Int(0, 100), "20", "Retries, as a percentage of requests; 0 switches them off.")]],
);

static EJECTION_FIELDS: [Field; 2] = [
    optional(
        "failures",
        Shape::Int(0, 1_000),
        "5",
        "Failures in a row after which a server is left out; 0 switches this off.",
    ),
    optional("period", Shape::Duration(100, HOUR), "10s", "For how long at first; it doubles up to ten times this."),
];

pub(in crate::shape) static EJECTION: Object =
    object("ejection", "when a failing server is left out", &[&EJECTION_FIELDS]);

pub(in crate::shape) static UPSTREAM_EJECTION: Object = object(
    "upstream.ejection",
    "when a failing server of an upstream is left out",
    &[
        &EJECTION_FIELDS,
        &[
            optional(
                "statuses",
                Shape::OneOrMany(&Shape::Int(500, 599)),
                "[502, 503, 504]",
                "Responses with these statuses are failures of their server, like timeouts and broken connections. They are forwarded all the same. `[]` for none.",
            ),
            optional(
                "most",
                Shape::Int(0, 100),
                "50",
                "Percentage of the servers that may be left out for their statuses at the same time: never the only one, and of two one.",
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
            "(required by HTTP)",
            "Asked for with GET; 200 to 399 is healthy. With `none`, the default of `protocol: tcp`, a server that takes a connection is.",
        ),
        optional("host", Shape::Text("a host name"), "(the server's own)", "Host sent with it."),
        optional("every", Shape::Duration(100, HOUR), "5s", "Between two checks."),
        optional("timeout", Shape::Duration(10, HOUR), "2s", "For one check; at most `every`."),
        optional("fall", Shape::Int(1, 100), "3", "Failed checks in a row until a server is left out."),
        optional("rise", Shape::Int(1, 100), "2", "Passed checks in a row until it is back."),
    ]],
);
