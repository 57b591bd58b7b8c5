//! Bounds that a client's requests can reach. Part of the list; see `fixed.rs`.

use super::{FixedBound, bound};

/// Requests, contracts, tokens and passwords.
pub(super) const REQUESTS: &[FixedBound] = &[
    bound(
        "proxy/src/guard/forward_auth.rs",
        "MAX_RELAYED_BYTES",
        "Body of an authentication service's response",
        "64KiB",
        "Then 502; login pages are smaller, and redirects have none.",
    ),
    bound(
        "proxy/src/auth/hashing.rs",
        "MAX_WAITING",
        "Passwords that wait to be compared, in the process",
        "64",
        "Then 503; one takes tens of milliseconds of a thread that serves nobody.",
    ),
    bound(
        "proxy/src/auth/hashing.rs",
        "MAX_WAITING_OF_CLIENT",
        "The same, of one client",
        "8",
        "A flood from one address takes nobody else's turn.",
    ),
    bound(
        "proxy/src/auth/passwords.rs",
        "MAX_CREDENTIALS_BYTES",
        "User name and password in `Authorization`",
        "1024 bytes",
        "Then 401.",
    ),
    bound(
        "proxy/src/auth/passwords.rs",
        "MAX_REMEMBERED",
        "Credentials that a worker remembers, right and wrong ones apart",
        "4096",
        "48 bytes each; the oldest half is dropped.",
    ),
    bound("proxy/src/auth/passwords.rs", "PATIENCE", "Longest wait for a password to be compared", "10s", "Then 503."),
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
