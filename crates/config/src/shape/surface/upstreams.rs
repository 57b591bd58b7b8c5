//! Keys of `upstreams`, and those that `upstream_url` shares with them. Declares them, nothing else; `surface.rs` says how.

use std::time::Duration;

use super::listeners::SECRET;
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
pub(in crate::shape) static CONNECTION_SETTINGS: [Field; 10] = [
    optional(
        "protocol",
        Shape::Choice(&["http1", "http2", "auto", "tcp", "udp"]),
        "http1",
        "Protocol of the servers. `http2`: negotiated by ALPN over TLS, with prior knowledge otherwise; required by gRPC. `auto`: HTTP/2 or HTTP/1.1, whichever a server agrees to by ALPN; needs `tls`. `tcp`: no HTTP, for tunnels only; no ALPN over TLS. `udp`: for UDP listeners only.",
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
    optional(
        "keepalive",
        Shape::Duration(0, 9 * HOUR),
        "60s",
        "Time of silence on a connection after which the kernel asks whether the server is still there (TCP keep-alive), and then in quarters of it; one that does not respond in twice this time is gone. `0s`: never.",
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
                "Servers. Each address (A and AAAA) of a name, and each host of an SRV name, is a server of its own. Names are resolved again when the TTL of their DNS records expires.",
            ),
            optional(
                "balance",
                Shape::Either(&[
                    Shape::Choice(&["round_robin", "least_loaded", "random_two"]),
                    Shape::Object(&HASH_BALANCE),
                ]),
                "round_robin",
                "How to choose a server. `round_robin`: in turn, by weight. `least_loaded`: the one with the fewest requests for its weight. `random_two`: of two random ones the one with fewer. \
                 A mapping: the same server for the same value of something in the request.",
            ),
            optional(
                "slow_start",
                Shape::Duration(0, HOUR),
                "0s",
                "Time over which a server that is back (from failed checks, ejection or DNS) gets its share again, from a tenth of it upwards. 0: at once.",
            ),
            optional(
                "zone_threshold",
                Shape::Int(0, 100),
                "70",
                "Percentage of the servers of the own zone, by weight, that must be up and have room for requests to stay in the zone; else all zones share them. 0: one server is enough.",
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
                "Send a PROXY header at the beginning of each connection. Those that carry requests then serve one client connection only; not with `protocol: http2`. With `protocol: udp` each datagram has one, of `v2`. `v2_tlvs` is version 2 with ALPN, server name, a unique id, TLS version, cipher, client certificate and a checksum.",
            ),
            optional("retries", Shape::Object(&RETRIES), "(see there)", "Retries on other servers."),
            optional(
                "ejection",
                Shape::Object(&UPSTREAM_EJECTION),
                "(see there)",
                "Ejection of failing servers (passive health checks).",
            ),
            optional("health", Shape::Object(&HEALTH), "(none)", "Active health checks."),
            optional(
                "when_all_down",
                Shape::Choice(WhenAllDown::WORDS),
                "fail",
                "When no server is up. `fail`: reject with 503 at once, unless a server is only ejected and accepts connections. `try_anyway`: forward as if all were up.",
            ),
            optional(
                "max_in_flight_per_server",
                Shape::Either(&[Shape::Choice(&["none"]), Shape::Int(1, 1_000_000)]),
                "none",
                "Concurrent requests and tunnels to one server, in the whole process. When every server that is up has as many, requests wait in the queue, or are rejected with 503 without one.",
            ),
            optional(
                "sticky",
                Shape::Object(&STICKY),
                "(none)",
                "Sticky sessions: a client that sends the cookie of its first response back goes to the same server, as long as that is up.",
            ),
            optional(
                "queue",
                Shape::Object(&QUEUE),
                "(none)",
                "Let requests wait that `max_in_flight` or `max_in_flight_per_server` leave no room for, instead of rejecting them.",
            ),
        ],
    ],
    one_of: &["servers", "original_dst"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static STICKY: Object = object(
    "upstream.sticky",
    "sticky sessions by a cookie",
    &[&[
        required(
            "cookie",
            Shape::Text("the name of a cookie"),
            "Name of the cookie. Its value is sealed: it names no server, and none can be made or changed without the key.",
        ),
        optional(
            "lifetime",
            Shape::Either(&[Shape::Choice(&["session"]), Shape::Duration(SECOND, 366 * DAY)]),
            "session",
            "Time for which clients keep the cookie (Max-Age). `session`: until the browser is closed.",
        ),
        optional(
            "same_site",
            Shape::Choice(SameSite::WORDS),
            "lax",
            "SameSite attribute of the cookie. `none` is for pages that others embed, and takes HTTPS.",
        ),
        optional(
            "key",
            Shape::Object(&SECRET),
            "(random, made when the process starts)",
            "Secret to seal cookies under, at least 16 bytes, the same on all machines that share clients. Without one, sessions survive reloads but no restart.",
        ),
    ]],
);

words! {
    /// The SameSite attribute of a cookie.
    pub enum SameSite {
        /// `Lax`
        #[default]
        Lax = "lax",
        /// `Strict`
        Strict = "strict",
        /// `None`
        None = "none",
    }
}

pub(in crate::shape) static QUEUE: Object = object("upstream.queue", "requests that wait for a server", &[QUEUE_ROWS]);

settings! {
    /// Requests that wait for room in a group.
    pub struct QueueConfig, QUEUE_ROWS {
        size: usize = Shape::Int(1, 100_000), "100", "Requests that may wait; then further ones are rejected with 503. Of one client half of them at most, then 429.";
        timeout: Duration = TIMEOUT, "5s", "Time to wait; then 503. A client that leaves gives up its place.";
    }
}

words! {
    /// What becomes of requests when no server is up.
    pub enum WhenAllDown {
        /// They are rejected.
        #[default]
        Fail = "fail",
        /// They are forwarded as if all servers were up.
        TryAnyway = "try_anyway",
    }
}

/// Keys of a hash.
pub(in crate::shape) static HASH_BALANCE: Object = object(
    "balance",
    "balancing by a hash",
    &[&[
        required(
            "hash",
            Shape::Either(&[Shape::Choice(&["client", "path", "target"]), Shape::Object(&HASH_KEY)]),
            "What decides on the server (consistent hashing, Maglev). `client`: the address of the client. `path`: the path of the request. `target`: its path and query. Requests without the value take turns.",
        ),
        optional(
            "balance_factor",
            Shape::Int(0, 1_000),
            "0",
            "Most requests under way at a server, as a percentage of its share of all; what is more goes to the next server of that value. 0: no bound.",
        ),
    ]],
);

pub(in crate::shape) static HASH_KEY: Object = Object {
    one_of: &["header", "cookie", "path"],
    ..object(
        "balance.hash",
        "what a hash is made of",
        &[&[
            optional("header", Shape::Text("the name of a header field"), "", "The value of a header field."),
            optional("cookie", Shape::Text("the name of a cookie"), "", "The value of a cookie."),
            optional(
                "path",
                Shape::Text("the name of a path parameter"),
                "",
                "The value of a path parameter of the route.",
            ),
        ]],
    )
};

pub(in crate::shape) static SERVER: Object = Object {
    one_of: &["address", "srv", "source"],
    ..object(
        "server",
        "a server with settings of its own",
        &[&[
            optional(
                "address",
                Shape::Text("a server such as `127.0.0.1:9000`, `app.internal:8080` or `unix:/run/app.sock`"),
                "",
                "Address.",
            ),
            optional(
                "srv",
                Shape::Text("a name such as `_http._tcp.app.internal`"),
                "",
                "A name whose SRV records (RFC 2782) say hosts, ports, weights and priorities.",
            ),
            optional(
                "source",
                Shape::Text("the name of an entry of `discovery`"),
                "",
                "A directory that says which servers there are, of the service under `service`. Changes are in use within a second.",
            ),
            optional(
                "service",
                Shape::Text("a name such as `app`"),
                "(none)",
                "Service that is asked for in `source`; required there.",
            ),
            optional("tag", Shape::Text("a name such as `v2`"), "(none)", "Only instances with this tag, of Consul."),
            optional(
                "weight",
                Shape::Int(1, 1_000),
                "1",
                "Share of the load, relative to the other servers. The weights of SRV records are multiplied by it.",
            ),
            optional(
                "max_in_flight",
                Shape::Int(1, 1_000_000),
                "(`max_in_flight_per_server`)",
                "Concurrent requests and tunnels to this server (each address of a name), in the whole process.",
            ),
            optional(
                "zone",
                Shape::Text("a name such as `eu-west-1a`"),
                "(none)",
                "Zone of this server, or of all addresses of the name. Those of the zone of this process (`zone`) are preferred.",
            ),
            optional(
                "priority",
                Shape::Int(0, 100),
                "0",
                "Servers of a higher number get requests only while no server of a lower one is up.",
            ),
            optional(
                "backup",
                Shape::Bool,
                "false",
                "Requests only while none of the other servers is up, whatever their priority.",
            ),
        ]],
    )
};

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
            "verify_name",
            Shape::Choice(&["alternative_names", "common_name", "none"]),
            "alternative_names",
            "By what of its certificate a server is known. `common_name`: where none of its subject alternative names is a DNS name, by the common name of its subject, as databases and old tools make them. `none`: by its authority alone, which `ca` must name (PostgreSQL's `verify-ca`).",
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
    "retries on other servers",
    &[&[
        optional("budget", Shape::Int(0, 100), "20", "Retries as a percentage of requests; 0 disables them."),
        optional(
            "on",
            Shape::OneOrMany(&Shape::Either(&[Shape::Choice(&["connect", "reset", "timeout"]), Shape::Int(500, 599)])),
            "[connect, reset, timeout]",
            "What is retried. `connect`: the server did not get the request. `reset`: the connection broke, or what came is no response. `timeout`: `response_header_timeout` or \
             `per_try_timeout` is over. A status: the response has it. All but `connect` only for idempotent requests without a body. `[]` for nothing.",
        ),
        optional(
            "attempts",
            Shape::Either(&[Shape::Choice(&["all"]), Shape::Int(1, 100)]),
            "all",
            "Servers to try for one request, the first included. `all`: each server once.",
        ),
        optional(
            "per_try_timeout",
            Shape::Either(&[Shape::Choice(&["none"]), TIMEOUT]),
            "none",
            "Time from choosing a server to the response header, for requests that may then go to another server; the last try has `response_header_timeout`.",
        ),
        optional(
            "backoff",
            Shape::Duration(0, MINUTE),
            "0s",
            "Wait before the first retry, which doubles with each further one up to ten times this; a random part of it is waited.",
        ),
        optional(
            "hedge",
            Shape::Object(&HEDGE),
            "(none)",
            "Hedging: ask a second server while the first one has not responded yet; the first response is the client's. Only idempotent requests without a body.",
        ),
    ]],
);

pub(in crate::shape) static HEDGE: Object = object(
    "retries.hedge",
    "hedged requests",
    &[&[
        required(
            "after",
            Shape::Duration(1, HOUR),
            "Time to wait for the response header before another server is asked beside. About the 95th percentile of the response times is common.",
        ),
        optional(
            "max",
            Shape::Int(1, 10),
            "1",
            "Servers to ask beside the first one, each `after` that time. They count against `budget` and `attempts`.",
        ),
    ]],
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
                "latency",
                Shape::Either(&[Shape::Choice(&["none"]), Shape::Duration(1, HOUR)]),
                "none",
                "Time from the request sent to the response header beyond which a response counts as a failure of the server. Requests with a body do not count, since their clients may be slow. Not for long polls.",
            ),
            optional(
                "max_percent",
                Shape::Int(0, 100),
                "50",
                "Largest percentage of the servers to eject for their statuses and latency at the same time: never the only one, one of two.",
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
            "(required for HTTP, unless `grpc` is set)",
            "Path to request. `none`, the default with `protocol: tcp`: a server that accepts a connection is healthy. With `protocol: udp`, HTTP is asked on another `port`.",
        ),
        optional(
            "send",
            PAYLOAD,
            "(none)",
            "What to send instead: with `protocol: udp` a datagram, to which a healthy server responds; with `protocol: tcp` bytes on a connection.",
        ),
        optional(
            "expect",
            EXPECTED,
            "(any)",
            "What the response to `send` contains; with `protocol: tcp` also what a server says first.",
        ),
        optional(
            "steps",
            Shape::List(&Shape::Object(&CHECK_STEP)),
            "(none)",
            "Several things to send and expect on one connection, one after the other, with `protocol: tcp`; at most 16.",
        ),
        optional(
            "grpc",
            Shape::Either(&[Shape::Bool, Shape::Text("the name of a service such as `shop.Orders`")]),
            "false",
            "Call `grpc.health.v1.Health/Check` instead, for the server as a whole or for one service; `SERVING` is healthy. Needs `protocol: http2`.",
        ),
        optional("host", Shape::Text("a host name"), "(that of the server)", "Host of the request."),
        optional("method", Shape::Choice(HealthMethod::WORDS), "GET", "Method of the request."),
        optional(
            "headers",
            Shape::Table("NAME", &Shape::Verbatim("a value")),
            "(none)",
            "Header fields of the request, beside Host and User-Agent.",
        ),
        optional(
            "statuses",
            Shape::OneOrMany(&Shape::Verbatim("a status such as `200` or a range such as `200-399`")),
            "[200-399]",
            "Statuses of a healthy server.",
        ),
        optional(
            "body",
            Shape::Text("a text"),
            "(any)",
            "Text that the first 64 KiB of the response body of a healthy server contain.",
        ),
        optional(
            "port",
            Shape::Int(1, 65_535),
            "(that of the server)",
            "Port to check, where it is not the one that requests go to.",
        ),
        optional("interval", Shape::Duration(100, HOUR), "5s", "Time between two checks."),
        optional(
            "jitter",
            Shape::Duration(0, HOUR),
            "0s",
            "Longest time to add to the interval, at random, so that servers and edges are not checked all at once.",
        ),
        optional("timeout", Shape::Duration(10, HOUR), "2s", "Time for one check; at most `interval`.")
            .at_most("interval"),
        optional("fall", Shape::Int(1, 100), "3", "Consecutive failed checks after which a server is unhealthy."),
        optional("rise", Shape::Int(1, 100), "2", "Consecutive successful checks after which it is healthy again."),
    ]],
);

pub(in crate::shape) static CHECK_STEP: Object = object(
    "health.steps",
    "a step of a check on a connection",
    &[&[
        optional("send", PAYLOAD, "(nothing)", "What to send."),
        optional(
            "expect",
            EXPECTED,
            "(not waited for)",
            "What comes after the last `send` contains, in its first 16 KiB.",
        ),
    ]],
);

/// What a response contains.
const EXPECTED: Shape = Shape::Either(EXPECTATIONS);

const EXPECTATIONS: &[Shape] = &[Shape::Text("a text"), Shape::Object(&EXPECTED_BYTES)];

pub(in crate::shape) static EXPECTED_BYTES: Object = Object {
    one_of: &["hex", "expression"],
    ..object(
        "health.expect",
        "what a response contains, where that is no text",
        &[&[
            optional(
                "hex",
                Shape::Verbatim("bytes in hexadecimal such as `12 34 01 00`"),
                "",
                "Bytes in hexadecimal, with or without spaces between them.",
            ),
            optional(
                "expression",
                Shape::Text("an expression such as `role:(master|primary)`"),
                "",
                "A regular expression that something in it matches; `.` is any byte but a line feed.",
            ),
        ]],
    )
};

/// Bytes that are sent.
const PAYLOAD: Shape = Shape::Either(PAYLOADS);

const PAYLOADS: &[Shape] = &[Shape::Text("a text"), Shape::Object(&HEX_PAYLOAD)];

pub(in crate::shape) static HEX_PAYLOAD: Object = object(
    "health.payload",
    "bytes that are no text",
    &[&[required(
        "hex",
        Shape::Verbatim("bytes in hexadecimal such as `12 34 01 00`"),
        "Bytes in hexadecimal, with or without spaces between them.",
    )]],
);

words! {
    /// The method of a check.
    pub enum HealthMethod {
        /// GET.
        #[default]
        Get = "GET",
        /// HEAD: no body to read.
        Head = "HEAD",
        /// OPTIONS.
        Options = "OPTIONS",
    }
}
