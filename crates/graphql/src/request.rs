//! One request of GraphQL over HTTP: its members, read strictly.

use apollo_compiler::response::{JsonMap, JsonValue};
use contract::validate::{Violation, code};

use crate::violation::{named, violation};

/// A request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// The document.
    pub(crate) query: Option<String>,
    /// Which of its operations is asked for.
    pub(crate) operation: Option<String>,
    /// The values of its variables.
    pub(crate) variables: JsonMap,
    /// It names a query that the server is to know.
    pub(crate) names_a_query: bool,
}

impl Request {
    /// Reads an object with the members that GraphQL over HTTP knows, each null as if it were absent.
    ///
    /// # Errors
    /// Another member, or a value of another type.
    pub(crate) fn of(value: JsonValue) -> Result<Request, Violation> {
        let JsonValue::Object(members) = value else {
            return Err(violation(code::GRAPHQL_REQUEST_MALFORMED, "a request is a JSON object"));
        };
        let mut request = Request::default();
        for (name, value) in members {
            let wrong = |kind: &str| named(code::GRAPHQL_REQUEST_MALFORMED, name.as_str(), format!("must be {kind}"));
            match (name.as_str(), value) {
                ("query" | "operationName" | "variables" | "extensions", JsonValue::Null) => {}
                ("query", JsonValue::String(text)) => request.query = Some(text.as_str().to_owned()),
                ("query", _) => return Err(wrong("a string")),
                ("operationName", JsonValue::String(text)) => request.operation = Some(text.as_str().to_owned()),
                ("operationName", _) => return Err(wrong("a string or null")),
                ("variables", JsonValue::Object(values)) => request.variables = values,
                ("variables", _) => return Err(wrong("an object or null")),
                ("extensions", JsonValue::Object(members)) => {
                    request.names_a_query = members.contains_key("persistedQuery");
                }
                ("extensions", _) => return Err(wrong("an object or null")),
                _ => {
                    return Err(named(code::GRAPHQL_REQUEST_MALFORMED, name.as_str(), "is no member of a request"));
                }
            }
        }
        Ok(request)
    }
}
