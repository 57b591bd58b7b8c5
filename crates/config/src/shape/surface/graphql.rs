//! Keys of `graphql` of a contract. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

pub(in crate::shape) static GRAPHQL: Object = object(
    "contract.graphql",
    "a GraphQL schema as the list of what is allowed",
    &[&[
        required(
            "schema",
            Shape::Text("a file such as `schema.graphql`"),
            "The schema, in the schema definition language. Read again when it changes.",
        ),
        optional(
            "path",
            Shape::Text("a path such as `/graphql`"),
            "/graphql",
            "Path of the endpoint. No other path is allowed.",
        ),
        optional("get", Shape::Bool, "true", "Allow queries in the query string of GET. Mutations are rejected there."),
        optional(
            "websocket",
            Shape::Bool,
            "false",
            "Allow WebSockets (`graphql-transport-ws`, `graphql-ws`), whose messages are validated. The route needs `upgrades: [websocket]`, too.",
        ),
        optional(
            "websocket_origins",
            Shape::OneOrMany(&Shape::Verbatim("an origin such as `https://app.example.com`, or `*`")),
            "(the host that is asked)",
            "Sites whose pages may open WebSockets, by their `Origin`; `*` for all. Clients that send no `Origin` are no browsers and may always.",
        ),
        optional(
            "http_subscriptions",
            Shape::Bool,
            "false",
            "Allow subscriptions with POST, whose response is a stream of events.",
        ),
        optional("introspection", Shape::Bool, "false", "Allow queries of the schema (`__schema`, `__type`)."),
        optional(
            "persisted_queries",
            Shape::Choice(&["block", "pass"]),
            "block",
            "Requests with the hash of a query in its place. `block`: reject them with `PersistedQueryNotSupported`, whereupon clients send the query. `pass`: forward them, whatever query the server knows by that hash.",
        ),
        optional(
            "duplicate_fields",
            Shape::Choice(&["allow", "block"]),
            "allow",
            "The same field twice in one selection set, which is legal and useless.",
        ),
        optional(
            "list_arguments",
            Shape::OneOrMany(&Shape::Verbatim("a name such as `first`")),
            "[first, last]",
            "Arguments that say how many objects a field yields, beside those that the schema marks with `@nodeCountMultiply`. They multiply what is below the field.",
        ),
        optional(
            "error_status",
            Shape::Int(200, 599),
            "(by reason: 400, 413)",
            "Status of rejections for what a request asks for. `200` is for clients that read no other response; `block_status` is not applied to these then.",
        ),
        optional("limits", Shape::Object(&GRAPHQL_LIMITS), "(see there)", "Limits of one request."),
    ]],
);

pub(in crate::shape) static GRAPHQL_LIMITS: Object = object(
    "contract.graphql.limits",
    "limits of one request",
    &[&[
        optional(
            "max_request",
            Shape::Size(KIB, 16 * MIB),
            "256KiB",
            "A request with its variables, and a message of a WebSocket, after decoding.",
        ),
        optional("max_query", Shape::Size(64, MIB), "32KiB", "The document."),
        optional("max_tokens", Shape::Int(1, 100_000), "4000", "Lexical tokens of the document."),
        optional("max_depth", Shape::Int(1, 60), "15", "Fields within fields."),
        optional(
            "max_fields",
            Shape::Int(1, 100_000),
            "1000",
            "Fields of the document, those of a fragment as often as it is spread.",
        ),
        optional("max_root_fields", Shape::Int(1, 10_000), "20", "Fields at the root of an operation."),
        optional("max_aliases", Shape::Int(0, 10_000), "30", "Fields that are asked for under another name."),
        optional("max_directives", Shape::Int(0, 10_000), "50", "Directives in the document."),
        optional(
            "max_complexity",
            Shape::Int(1, u64::MAX >> 11),
            "5000",
            "Fields with a selection set, each as often as the lists around it have elements.",
        ),
        optional(
            "max_nodes",
            Shape::Int(1, u64::MAX >> 11),
            "100000",
            "Objects that the operation may yield: for each field with a selection set, the product of its own list argument and those around it.",
        ),
        optional("max_batch", Shape::Int(1, 100), "1", "Requests in one array; `1` for no batches."),
    ]],
);
