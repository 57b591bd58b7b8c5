//! What must hold for any request of GraphQL and any frames of a WebSocket. Shared by the fuzz targets and by `cargo test`.
#![allow(dead_code)]

use std::sync::OnceLock;

use graphql::{Cache, Endpoint, Limits, Options, Protocol, scan};

/// A named target and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Targets replayed together.
pub const ALL: [Target; 1] = [("graphql_request", request)];

const SCHEMA: &str = r"
type Query { pet(id: ID!): Pet pets(first: Int = 10, filter: Filter): [Pet!]! node(id: ID!): Node version: String }
type Mutation { rename(id: ID!, name: String!): Pet }
type Subscription { born: Pet }
interface Node { id: ID! }
union Any = Pet | Owner
type Pet implements Node { id: ID! name: String age: Int friends(first: Int): [Pet!]! owner: Owner any: Any }
type Owner implements Node { id: ID! name: String pets(first: Int): [Pet!]! }
input Filter { kind: Kind, below: Int, and: [Filter!], ratio: Float, text: String }
enum Kind { CAT DOG }
directive @note(text: String) on FIELD | QUERY
";

fn endpoint() -> &'static Endpoint {
    static ENDPOINT: OnceLock<Endpoint> = OnceLock::new();
    ENDPOINT.get_or_init(|| {
        let limits = Limits { batch: 3, ..Limits::default() };
        let options = Options { websocket: true, limits, ..Options::default() };
        Endpoint::load("schema.graphql", SCHEMA, options).unwrap()
    })
}

/// Bytes before the line feed say how they come: `Q` a document, `B` a body, `G` a query string, `T` and `L` a message of a WebSocket.
pub fn request(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let (endpoint, mut cache) = (endpoint(), Cache::default());
    match kind {
        b'B' => twice(|cache| endpoint.check_body(bytes, cache).map_err(|violation| violation.code), &mut cache),
        b'G' => {
            let check = |cache: &mut Cache| endpoint.check_query_string(Some(bytes), false, cache);
            twice(|cache| check(cache).map_err(|violation| violation.code), &mut cache);
        }
        b'T' | b'L' => {
            let protocol = if *kind == b'T' { Protocol::Transport } else { Protocol::Legacy };
            let check = |cache: &mut Cache| endpoint.check_message(protocol, bytes, cache);
            twice(|cache| check(cache).map_err(|broken| broken.violation.code), &mut cache);
        }
        _ => {
            let Ok(query) = std::str::from_utf8(bytes) else { return };
            let body = serde_json::json!({ "query": query }).to_string();
            let decided = endpoint.check_body(body.as_bytes(), &mut cache);
            match scan(query, &endpoint.options().limits) {
                // What is made of its tokens is the same document, and says so again.
                Ok(tokens) => {
                    let limits = Limits { query_bytes: usize::MAX, ..Limits::default() };
                    assert_eq!(scan(&tokens.text, &limits).unwrap(), tokens);
                    let again = serde_json::json!({ "query": tokens.text }).to_string();
                    if tokens.text.len() <= endpoint.options().limits.query_bytes {
                        let again = endpoint.check_body(again.as_bytes(), &mut Cache::default());
                        assert_eq!(
                            again.map_err(|violation| violation.code),
                            decided.map_err(|violation| violation.code)
                        );
                    }
                }
                Err(violation) => assert_eq!(decided.unwrap_err().code, violation.code),
            }
        }
    }
}

/// What is remembered changes no decision.
fn twice(check: impl Fn(&mut Cache) -> Result<(), &'static str>, cache: &mut Cache) {
    let first = check(cache);
    assert_eq!(check(cache), first);
    assert_eq!(check(&mut Cache::default()), first);
}
