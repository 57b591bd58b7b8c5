//! Keys of `key_servers`. Declares them, nothing else; `surface.rs` says how.

use super::{EJECTION, HOUR, SECOND, TIMEOUT, object, optional, required};
use crate::shape::{Object, Shape};

pub(in crate::shape) static KEY_SERVERS: Object = object(
    "key_servers",
    "a group of key servers",
    &[&[
        required(
            "servers",
            Shape::OneOrMany(&Shape::Text(
                "a key server such as `10.0.0.5:2407`, `keys.internal:2407` or `unix:/run/portunus/key-server.sock`",
            )),
            "The servers. Each has all keys of the keystores that name the group. Those on TCP are spoken to over mutual TLS, those on a Unix socket in the clear.",
        ),
        optional(
            "ca",
            Shape::Text("a PEM file"),
            "(none)",
            "Roots that the servers' certificates must lead to. Needed by servers on TCP.",
        ),
        optional(
            "client_certificate",
            Shape::Text("a PEM file"),
            "(none)",
            "Our client certificate with its chain. Needed by servers on TCP.",
        ),
        optional(
            "client_key",
            Shape::Text("a PEM file"),
            "(none)",
            "The key of our client certificate. Needed by servers on TCP.",
        ),
        optional("name", Shape::Text("a host name"), "(the server's own)", "Name to send and to check."),
        optional("connect_timeout", TIMEOUT, "1s", "For connecting, TCP and TLS together."),
        optional(
            "timeout",
            TIMEOUT,
            "700ms",
            "For one operation at one server; then another server is asked. The connection goes on.",
        ),
        optional(
            "total_timeout",
            TIMEOUT,
            "1800ms",
            "For one operation, whatever happens; then the handshake ends with an alert. Never more than is left of `limits.handshake_timeout`.",
        ),
        optional("connections", Shape::Int(1, 64), "2", "Connections kept open to each server, by each worker."),
        optional(
            "ping_every",
            Shape::Duration(SECOND, HOUR),
            "12s",
            "Between two pings of a connection, give or take a fifth. Common key servers drop connections that are silent for 30s.",
        ),
        optional(
            "max_in_flight",
            Shape::Int(1, 1_000_000),
            "4000",
            "Operations under way in one worker; further handshakes end with an alert at once.",
        ),
        optional(
            "retry_budget",
            Shape::Int(0, 100),
            "10",
            "Further tries on another server, as a percentage of operations that went well; 0 switches them off.",
        ),
        optional("ejection", Shape::Object(&EJECTION), "(see there)", "When a failing server is left out."),
    ]],
);
