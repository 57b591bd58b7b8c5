//! What an endpoint takes, and within which bounds. Values alone.

/// What an endpoint takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Its path, canonical.
    pub path: String,
    /// Queries may come with GET.
    pub get: bool,
    /// Requests may come over a WebSocket.
    pub websocket: bool,
    /// Subscriptions may come with POST; the response is a stream.
    pub http_subscriptions: bool,
    /// Clients may ask for the schema.
    pub introspection: bool,
    /// Requests that name a query instead of holding it.
    pub persisted_queries: PersistedQueries,
    /// A leaf field that is asked for twice in one selection set is rejected.
    pub rejects_duplicate_fields: bool,
    /// Arguments whose value says how many objects a field yields, beside those that the schema marks.
    pub list_arguments: Vec<String>,
    /// Every request needs a bearer token.
    pub needs_token: bool,
    /// Bounds.
    pub limits: Limits,
}

/// What becomes of requests that name a query by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersistedQueries {
    /// They are rejected, in the words that make clients send the query.
    Block,
    /// They pass: what the server knows under a name was not seen here.
    Pass,
}

/// Bounds of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// A request with all that belongs to it, or a message of a WebSocket, bytes.
    pub request_bytes: usize,
    /// A document, bytes.
    pub query_bytes: usize,
    /// Lexical tokens of a document.
    pub tokens: usize,
    /// Nested fields.
    pub depth: u64,
    /// Fields of all operations of a document, those of a fragment as often as it is spread.
    pub fields: u64,
    /// Fields at the root of the operation.
    pub root_fields: u64,
    /// Fields of the operation under another name.
    pub aliases: u64,
    /// Directives of a document.
    pub directives: usize,
    /// Fields with a selection set, as often as the lists around them have elements.
    pub complexity: u64,
    /// Objects that the lists of an operation may yield.
    pub nodes: u64,
    /// Requests in one batch; 1 for no batches.
    pub batch: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_bytes: 256 * 1024,
            query_bytes: 32 * 1024,
            tokens: 4_000,
            depth: 15,
            fields: 1_000,
            root_fields: 20,
            aliases: 30,
            directives: 50,
            complexity: 5_000,
            nodes: 100_000,
            batch: 1,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            path: "/graphql".to_owned(),
            get: true,
            websocket: false,
            http_subscriptions: false,
            introspection: false,
            persisted_queries: PersistedQueries::Block,
            rejects_duplicate_fields: false,
            list_arguments: vec!["first".to_owned(), "last".to_owned()],
            needs_token: false,
            limits: Limits::default(),
        }
    }
}
