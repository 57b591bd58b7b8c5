//! GraphQL under a contract: a schema becomes the list of what requests may ask for, within bounds on what that may cost.
//!
//! Owns what a request is over HTTP and in a message of a WebSocket, the bounds that a document is held to before the library that validates it sees it,
//! and what is remembered of documents that were validated. Reads no files, keeps no clock, and never panics on input: whatever cannot be validated is a
//! violation. What HTTP around the request must look like, it says as an OpenAPI document, which `contract` validates. Ruled by the GraphQL specification
//! (September 2025), GraphQL over HTTP, and the protocols `graphql-transport-ws` and `graphql-ws`.
//!
//! ```
//! use graphql::{Cache, Endpoint, Options};
//!
//! let schema = "type Query { pet(id: ID!): Pet } type Pet { name: String owner: Pet }";
//! let endpoint = Endpoint::load("schema.graphql", schema, Options::default()).unwrap();
//! let mut cache = Cache::default();
//! assert!(endpoint.check_body(br#"{"query":"{ pet(id: 7) { name } }"}"#, &mut cache).is_ok());
//! let unknown = endpoint.check_body(br#"{"query":"{ pet(id: 7) { age } }"}"#, &mut cache).unwrap_err();
//! assert_eq!(unknown.code, "graphql_invalid");
//! ```
#![forbid(unsafe_code)]

mod http;
mod websocket;
mod endpoint;
mod cache;
mod weigh;
mod measure;
mod rules;
mod request;
mod json;
mod scan;
mod violation;
mod options;

pub use cache::Cache;
pub use endpoint::Endpoint;
pub use http::requires_document;
pub use options::{Limits, Options, PersistedQueries};
pub use scan::{Tokens, scan};
pub use websocket::{Broken, Protocol};
