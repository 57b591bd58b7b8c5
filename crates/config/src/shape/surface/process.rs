//! Keys of `forwarding`, `log` and `limits`. Declares them, nothing else; `surface.rs` says how.

use super::{DAY, KIB, MIB, SECOND, TIB, TIMEOUT, object, optional};
use crate::shape::{Object, Shape};

pub(in crate::shape) static FORWARDING: Object = object(
    "forwarding",
    "which forwarding fields are written and believed",
    &[&[
        optional("x_forwarded", Shape::Bool, "true", "`X-Forwarded-For`, `-Proto`, `-Host` and `-Port`."),
        optional("x_real_ip", Shape::Bool, "true", "`X-Real-IP`."),
        optional("forwarded", Shape::Bool, "false", "`Forwarded` (RFC 7239)."),
        optional("via", Shape::Bool, "true", "`Via`, both ways."),
        optional("request_id", Shape::Bool, "true", "`X-Request-Id`, made for each request."),
        optional(
            "trusted_fields",
            Shape::OneOrMany(&Shape::Text("a field name such as `X-Forwarded-For`")),
            "[X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Port]",
            "Fields that every proxy among `trusted_proxies` sets or appends to, whatever its client sent. Only these are believed; the first of them that names \
             an address names the client (`X-Forwarded-For` and `Forwarded` are read from the right, past trusted proxies). All other fields that say who the \
             client is are removed.",
        ),
    ]],
);

pub(in crate::shape) static LOG: Object = object(
    "log",
    "logs",
    &[&[
        optional(
            "access",
            Shape::Either(&[Shape::Choice(&["none"]), Shape::Object(&ACCESS_LOG)]),
            "(see there)",
            "One line per request.",
        ),
        optional(
            "level",
            Shape::Choice(&["error", "warn", "info", "debug", "trace"]),
            "info",
            "What the diagnostic log on stderr holds.",
        ),
    ]],
);

pub(in crate::shape) static ACCESS_LOG: Object = object(
    "access",
    "the access log",
    &[&[
        optional("format", Shape::Choice(&["json", "text"]), "json", "JSON for machines, text for people."),
        optional(
            "to",
            Shape::Text("`stdout` or a file"),
            "stdout",
            "Where it goes. A file is opened again on SIGUSR1.",
        ),
    ]],
);

/// Bounds of the process; `crate::limits` says why each is there, and a test compares the defaults.
pub(in crate::shape) static LIMITS: Object = object(
    "limits",
    "bounds of the process",
    &[&[
        optional(
            "max_connections",
            Shape::Int(1, 100_000_000),
            "100000",
            "Connections open at once; further ones wait in the kernel's queue.",
        ),
        optional(
            "max_connections_per_client",
            Shape::Int(1, 100_000_000),
            "1000",
            "Connections open at once from one address (IPv6: from one /64); further ones are closed at once.",
        ),
        optional("handshake_timeout", TIMEOUT, "10s", "From accept to the end of the TLS handshake."),
        optional("head_timeout", TIMEOUT, "10s", "From the first byte of a request to the end of its head."),
        optional("keep_alive_timeout", TIMEOUT, "75s", "Between two requests of a connection."),
        optional(
            "client_idle_timeout",
            TIMEOUT,
            "60s",
            "Between two reads of a request body before there is a response, or two writes the client accepts.",
        ),
        optional(
            "min_body_rate",
            Shape::Size(0, TIB),
            "256",
            "Slowest body a client may send or accept, per second of waiting for it, over any `client_idle_timeout`; 0 for any. gRPC calls to an `http2` upstream are held to it only by their route.",
        ),
        optional(
            "tunnel_idle_timeout",
            Shape::Duration(SECOND, 30 * DAY),
            "1h",
            "A WebSocket or other tunnel in which nothing moves either way.",
        ),
        optional("max_header_bytes", Shape::Size(KIB, 32 * KIB), "32KiB", "Request head; then 431."),
        optional("max_request_line", Shape::Size(64, MIB), "8KiB", "Request line; then 414."),
        optional("max_headers", Shape::Int(4, 256), "100", "Fields in a head; then 431."),
        optional(
            "max_body",
            Shape::Size(0, TIB),
            "64MiB",
            "Request body, where the route does not say otherwise; then 413.",
        ),
        optional("max_response_head", Shape::Size(KIB, 32 * KIB), "32KiB", "Response head from an upstream; then 502."),
        optional(
            "max_interim_responses",
            Shape::Int(0, 1_000),
            "8",
            "Interim (1xx) responses before the final one; then 502.",
        ),
        optional(
            "max_requests_per_connection",
            Shape::Int(1, u64::MAX >> 11),
            "1000000",
            "Requests on one connection, then it is closed politely.",
        ),
        optional(
            "max_discarded_body",
            Shape::Size(0, MIB),
            "64KiB",
            "An unread request body is read up to this size to keep the connection; else the connection closes.",
        ),
        optional(
            "max_validation_memory",
            Shape::Size(MIB, 1024 * 1024 * MIB),
            "512MiB",
            "Memory of all bodies that contracts are validating; beyond it they are answered 503. A body takes once its size, up to 12 times its decoded size where the schema needs the whole of it.",
        ),
        optional(
            "max_validation_memory_per_connection",
            Shape::Size(64 * 1024, 1024 * 1024 * MIB),
            "64MiB",
            "The share of one client connection in that.",
        ),
        optional("h2_max_streams", Shape::Int(1, 10_000), "128", "HTTP/2 streams open at once on one connection."),
        optional(
            "h2_control_frame_burst",
            Shape::Int(1, 1_000_000),
            "1000",
            "HTTP/2 frames that carry nothing (PING, SETTINGS, WINDOW_UPDATE and the like) or begin a request, beyond ten for each frame of a response; then GOAWAY.",
        ),
        optional(
            "h2_control_frame_rate",
            Shape::Int(0, 1_000_000),
            "2000",
            "As many of these frames are allowed again each second.",
        ),
        optional(
            "h2_failed_request_burst",
            Shape::Int(1, 1_000_000),
            "500",
            "HTTP/2 requests cancelled within a second and before their response, rejected for their head, reset for an error or over `h2_max_streams`, less those answered; then GOAWAY.",
        ),
        optional(
            "h2_failed_request_rate",
            Shape::Int(0, 1_000_000),
            "500",
            "As many of these requests are allowed again each second.",
        ),
        optional(
            "h2_rejected_request_rate",
            Shape::Int(0, 1_000_000),
            "100",
            "As many of those that the client did not cancel are allowed again each second.",
        ),
        optional(
            "drain_delay",
            Shape::Duration(0, DAY),
            "0s",
            "After SIGTERM, how long connections are still accepted while `/readyz` says 503: time for load balancers to notice. Behind one, the interval of its checks times the failures it needs.",
        ),
        optional(
            "drain_timeout",
            Shape::Duration(0, DAY),
            "30s",
            "After SIGTERM and `drain_delay`, how long open requests and tunnels may go on.",
        ),
    ]],
);
