//! Bounds that a client's requests can reach. Part of the list; see `fixed.rs`.

use super::{FixedBound, bound};

/// Requests, contracts, tokens and passwords.
pub(super) const REQUESTS: &[FixedBound] = &[
    bound(
        "proxy/src/auth/token.rs",
        "MAX_CLAIM_BYTES",
        "Claim of a token that goes into a header field",
        "4096 bytes",
        "Then 403; servers take 8 KiB of fields in all.",
    ),
    bound(
        "proxy/src/route/params.rs",
        "MAX_PARAMS",
        "Parameters of a path",
        "16",
        "A route with more is an error of the configuration.",
    ),
    bound(
        "proxy/src/message/forwarding.rs",
        "MAX_REQUEST_ID_BYTES",
        "X-Request-Id of a trusted proxy",
        "128 bytes",
        "A longer one is replaced.",
    ),
    bound(
        "proxy/src/upstream/shares.rs",
        "PLACES",
        "Counters of clients in a row, for `max_in_flight_per_client`",
        "1024",
        "Memory does not grow with the number of clients.",
    ),
    bound(
        "proxy/src/generation.rs",
        "MOST_MADE_GROUPS",
        "Upstreams that `upstream_url` made",
        "1024",
        "Clients choose their names, within `allow`.",
    ),
    bound(
        "proxy/src/exchange/replay.rs",
        "MOST_BYTES",
        "Request body kept for a retry",
        "32KiB",
        "A longer one is not sent twice.",
    ),
    bound("proxy/src/auth/token.rs", "MAX_TOKEN_BYTES", "Token", "16KiB", "Bounds what a signature is computed over."),
    bound(
        "proxy/src/auth/token.rs",
        "MAX_KEYS_TRIED",
        "Keys tried for a token that names none",
        "8",
        "Each costs a signature.",
    ),
    bound("proxy/src/auth/lookups.rs", "MAX_LOOKUPS", "Lookups of tokens of a worker", "1024", "Then 503."),
    bound(
        "proxy/src/auth/json.rs",
        "MAX_ELEMENTS",
        "Elements of the JSON of a token",
        "10000",
        "Bounds the work of reading it.",
    ),
    bound(
        "proxy/src/guard/body.rs",
        "BYTES_PER_TURN",
        "Body validated in one turn",
        "256KiB",
        "Other connections of the worker get their turn.",
    ),
];
