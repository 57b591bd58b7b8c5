//! Keys of `rate_store`. Declares them, nothing else; `surface.rs` says how.

use std::time::Duration;

use super::listeners::SECRET;
use super::upstreams::UPSTREAM_TLS;
use crate::table::*;

pub(in crate::shape) static RATE_STORE: Object = object(
    "rate_store",
    "a Valkey or Redis in which nodes tell each other what they have counted",
    &[
        &[
            required(
                "address",
                Shape::Text("a server such as `valkey.internal:6379` or `unix:/run/valkey.sock`"),
                "Address of the server, the same for all nodes.",
            ),
            optional(
                "tls",
                Shape::Either(&[Shape::Bool, Shape::Object(&UPSTREAM_TLS)]),
                "false",
                "Connect with TLS. The certificate of the server is verified, against the system's certificate authorities unless `ca` is set.",
            ),
            optional(
                "user",
                Shape::Verbatim("text"),
                "(none: the user `default`)",
                "User of the store's access list. Needs `password`.",
            ),
            optional("password", Shape::Object(&SECRET), "(none)", "Its password. Read again with each reload."),
            required(
                "secret",
                Shape::Object(&SECRET),
                "Secret of at least 16 bytes, the same on all nodes. Names in the store are keyed hashes under it, so that the store learns no address, token or cookie.",
            ),
            required(
                "nodes",
                Shape::Int(1, 1_000),
                "Nodes that share the limits. While the store is away, each has this part of a limit.",
            ),
            optional(
                "prefix",
                Shape::Text("a text such as `portunus`"),
                "portunus",
                "What names in the store begin with; up to 64 letters, digits and `.`, `_`, `-`, `:`, `{`, `}`.",
            ),
        ],
        RATE_STORE_ROWS,
    ],
);

settings! {
    /// How the store of rates is talked to.
    pub struct RateStoreOptions, RATE_STORE_ROWS {
        database: u32 = Shape::Int(0, 1_000_000), "0", "Number of the database (`SELECT`).";
        interval: Duration = Shape::Duration(50, 10 * SECOND), "200ms", "Time between two exchanges with the store.";
        timeout: Duration = Shape::Duration(50, 10 * SECOND), "1s", "Time for one exchange, connecting included. Without one that succeeds for this time beyond `interval`, the store is away.";
    }
}
