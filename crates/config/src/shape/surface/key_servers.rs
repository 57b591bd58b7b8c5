//! Keys of `key_servers`. Declares them, nothing else; `surface.rs` says how.

use super::EJECTION;
use crate::table::*;

pub(in crate::shape) static KEY_SERVERS: Object = object(
    "key_servers",
    "a group of key servers",
    &[&[
        required(
            "servers",
            Shape::OneOrMany(&Shape::Text(
                "a key server such as `10.0.0.5:2407`, `keys.internal:2407` or `unix:/run/portunus/key-server.sock`",
            )),
            "Key servers. Each holds all keys of the keystores that refer to the group. Connections over TCP use mutual TLS, those to a Unix socket none.",
        ),
        optional(
            "ca",
            Shape::Text("a PEM file"),
            "(none)",
            "Certificate authorities of the key servers. Required by servers on TCP.",
        ),
        optional(
            "client_certificate",
            Shape::Text("a PEM file"),
            "(none)",
            "Client certificate to present, with its chain. Required by servers on TCP.",
        ),
        optional(
            "client_key",
            Shape::Text("a PEM file"),
            "(none)",
            "Private key of the client certificate. Required by servers on TCP.",
        ),
        optional(
            "enrolment",
            Shape::Text("a folder"),
            "(none)",
            "Folder in which `portunus enrol` keeps the client certificate; the edge renews it there by itself. In place of `ca`, `client_certificate` and `client_key`.",
        ),
        optional(
            "server_name",
            Shape::Text("a host name"),
            "(that of the server)",
            "Server name to send (SNI) and to verify.",
        ),
        optional("connect_timeout", TIMEOUT, "1s", "Time to connect, TCP and TLS together."),
        optional(
            "timeout",
            TIMEOUT,
            "700ms",
            "Time for one operation at one server; then another server is tried. The connection stays open.",
        ),
        optional(
            "total_timeout",
            TIMEOUT,
            "1800ms",
            "Time for one operation in all; then the handshake fails with an alert. Never longer than what is left of `limits.handshake_timeout`.",
        ),
        optional("connections", Shape::Int(1, 64), "2", "Connections to each server, per worker."),
        optional(
            "ping_interval",
            Shape::Duration(SECOND, HOUR),
            "12s",
            "Time between two pings of a connection, give or take a fifth. Common key servers close connections that are idle for 30s.",
        ),
        optional(
            "max_in_flight",
            Shape::Int(1, 1_000_000),
            "4000",
            "Concurrent operations per worker; then handshakes fail with an alert at once.",
        ),
        optional(
            "retry_budget",
            Shape::Int(0, 100),
            "10",
            "Retries on another server, as a percentage of successful operations; 0 disables them.",
        ),
        optional("ejection", Shape::Object(&EJECTION), "(see there)", "Ejection of failing servers."),
    ]],
);
