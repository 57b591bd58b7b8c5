//! Bounds of GraphQL requests, and of the WebSockets that they come over.

use super::{FixedBound, bound};

pub(super) const GRAPHQL: &[FixedBound] = &[
    bound(
        "graphql/src/scan.rs",
        "MAX_NESTING",
        "Brackets within brackets of a GraphQL document",
        "100",
        "More than any query needs, and less than the stack of the library that parses it.",
    ),
    bound(
        "graphql/src/measure.rs",
        "MAX_LEVELS",
        "Selection sets and fragments within each other",
        "60",
        "Each level is a step of the library's recursion, and fragments in a row cost it the square of their number.",
    ),
    bound(
        "graphql/src/endpoint.rs",
        "MAX_NAME_BYTES",
        "`operationName` of a GraphQL request",
        "256 bytes",
        "It stands in logs.",
    ),
    bound(
        "graphql/src/cache.rs",
        "MAX_DOCUMENTS",
        "Valid GraphQL documents that a worker remembers",
        "256",
        "Typical clients send a few; strangers can only make it forget.",
    ),
    bound(
        "graphql/src/cache.rs",
        "MAX_BYTES",
        "Text of those documents",
        "1MiB",
        "The text itself is kept, to compare with.",
    ),
    bound(
        "graphql/src/cache.rs",
        "MAX_TOKENS",
        "Tokens of those documents",
        "65536",
        "Each may become some 200 bytes: 13 MB for a worker at most.",
    ),
    bound(
        "graphql/src/websocket.rs",
        "MAX_ID_BYTES",
        "`id` of a request in a WebSocket",
        "128 bytes",
        "It stands in responses of ours.",
    ),
    bound(
        "proxy/src/websocket.rs",
        "CLOSE_WAIT",
        "Wait for the upstream to end its message before a WebSocket is closed, while the client receives nothing of it",
        "2s",
        "A Close frame stands between messages, or the connection just ends.",
    ),
    bound(
        "wire/src/websocket.rs",
        "MAX_CONTROL_BYTES",
        "Control frame of a WebSocket whose messages are validated",
        "125 bytes",
        "RFC 6455 §5.5.",
    ),
    bound(
        "proxy/src/websocket.rs",
        "MAX_WAITING",
        "Responses to a WebSocket client that does not read them",
        "64KiB",
        "Beyond it, the client is not read either.",
    ),
];
