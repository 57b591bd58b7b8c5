//! Bounds that a store of rates or a directory of servers can reach, and those of what they get. Part of the list; see `fixed.rs`.

use super::{FixedBound, bound};

/// Valkey and Redis.
pub(super) const STORES: &[FixedBound] = &[
    bound(
        "wire/src/resp.rs",
        "MAX_LINE_BYTES",
        "Line of a reply: a status, a number, the text of an error",
        "512 bytes",
        "Errors are sentences. Beyond it the connection is closed and the store is away.",
    ),
    bound(
        "wire/src/resp.rs",
        "MAX_BULK_BYTES",
        "String of a reply",
        "4096 bytes",
        "No reply that is asked for has one. A length that is only announced takes no memory.",
    ),
    bound("wire/src/resp.rs", "MAX_ITEMS", "Items of a reply", "1024", "One per key of a message."),
    bound("wire/src/resp.rs", "MAX_DEPTH", "Arrays within each other in a reply", "1", "None is within another one."),
    bound(
        "proxy/src/background/rate_store/link.rs",
        "MAX_WAITING_BYTES",
        "Bytes of replies that have come and are not read",
        "64KiB",
        "Those of an exchange are a fifth of that at most for each message.",
    ),
    bound(
        "proxy/src/background/rate_store/message.rs",
        "MAX_KEYS",
        "Keys in one message to the store",
        "256",
        "It serves nobody else while it reads one.",
    ),
    bound(
        "proxy/src/background/rate_store.rs",
        "MAX_KEYS_PER_EXCHANGE",
        "Keys that one exchange reports",
        "4096",
        "Those that have used most; the others wait for the next one.",
    ),
];

/// Consul, Docker and etcd, as directories of servers.
pub(super) const DIRECTORIES: &[FixedBound] = &[
    bound(
        "proxy/src/background/discovery/http.rs",
        "MAX_LIST_BYTES",
        "Response of a directory",
        "4096KiB",
        "A thousand instances in Consul with their checks have about 1 MB.",
    ),
    bound(
        "proxy/src/discovery.rs",
        "MAX_INSTANCES",
        "Servers used of one service",
        "256",
        "The others are left out, and named in the log.",
    ),
    bound(
        "proxy/src/background/discovery/etcd.rs",
        "MAX_KEYS",
        "Keys of a service in etcd",
        "1000",
        "More than can be used.",
    ),
    bound(
        "proxy/src/background/discovery/http.rs",
        "TIMEOUT",
        "Response of a directory that need not wait for a change",
        "5s",
        "Then the directory is away.",
    ),
    bound(
        "proxy/src/background/discovery/http.rs",
        "STREAM_TIME",
        "Stream of changes before everything is asked for anew",
        "60s",
        "One that ended without a word is noticed so.",
    ),
    bound(
        "proxy/src/background/discovery.rs",
        "PAUSE",
        "Between two questions about one service",
        "100ms",
        "A directory that reports changes without end keeps nobody busy.",
    ),
];
