//! A request over HTTP (GraphQL over HTTP): the OpenAPI document that says what it must look like around the query, and the parameters of a GET.

use contract::validate::{Violation, code};
use serde_json::{Value, json};

use apollo_compiler::response::serde_json_bytes::ByteString;
use apollo_compiler::response::{JsonMap, JsonValue};

use crate::cache::Cache;
use crate::endpoint::{Endpoint, Way};
use crate::json;
use crate::options::Options;
use crate::request::Request;
use crate::violation::{over, violation};

/// The requests that an endpoint takes, as an OpenAPI document: methods, media types, members and parameters. What a query may ask for it does not say.
pub fn requires_document(options: &Options) -> String {
    let nullable = |kind: &str| json!({ "type": [kind, "null"] });
    let request = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "query": nullable("string"),
            "operationName": nullable("string"),
            "variables": { "type": ["object", "null"], "additionalProperties": true },
            "extensions": { "type": ["object", "null"], "additionalProperties": true },
        },
    });
    let mut body = request.clone();
    // How many there may be in an array the endpoint says, with a reason of its own.
    set(&mut body, "type", json!(["object", "array"]));
    set(&mut body, "items", request);
    let anything = json!({ "default": { "description": "Not validated" } });
    let mut methods = serde_json::Map::new();
    methods.insert(
        "post".to_owned(),
        json!({
            "requestBody": { "required": true, "content": { "application/json": { "schema": body } } },
            "responses": anything,
        }),
    );
    if options.get || options.websocket {
        let mut get = json!({ "responses": anything });
        if options.get {
            let text = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
            let object = |name: &str| {
                let schema = json!({ "type": ["object", "null"], "additionalProperties": true });
                json!({ "name": name, "in": "query", "content": { "application/json": { "schema": schema } } })
            };
            let parameters = [text("query"), text("operationName"), object("variables"), object("extensions")];
            set(&mut get, "parameters", Value::from(parameters.to_vec()));
        }
        if options.websocket {
            set(
                &mut get,
                "responses",
                json!({ "101": { "description": "WebSocket" }, "default": anything["default"] }),
            );
        }
        methods.insert("get".to_owned(), get);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": { "title": "GraphQL", "version": "1" },
        "paths": { options.path.as_str(): methods },
    });
    if options.needs_token {
        set(&mut document, "security", json!([{ "bearer": [] }]));
        set(
            &mut document,
            "components",
            json!({ "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } } }),
        );
    }
    document.to_string()
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}

impl Endpoint {
    /// Validates the query string of a GET. `opens_websocket`: it asks for a WebSocket, and needs no request of its own.
    ///
    /// # Errors
    /// The first violation.
    pub fn check_query_string(
        &self,
        query: Option<&[u8]>,
        opens_websocket: bool,
        cache: &mut Cache,
    ) -> Result<(), Violation> {
        let query = query.unwrap_or_default();
        if opens_websocket && query.is_empty() {
            return Ok(());
        }
        let limit = self.options().limits.request_bytes;
        if query.len() > limit {
            return Err(over(code::GRAPHQL_QUERY_TOO_LONG, "the query string has more bytes", limit));
        }
        let malformed = |what: &str| violation(code::GRAPHQL_REQUEST_MALFORMED, what);
        let mut members = JsonMap::new();
        for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(at);
            let name = decoded(name).ok_or_else(|| malformed("a name in the query string is not escaped UTF-8"))?;
            let value = decoded(value.get(1..).unwrap_or_default());
            let value = value.ok_or_else(|| malformed("a value in the query string is not escaped UTF-8"))?;
            let value = match name.as_str() {
                "variables" | "extensions" => {
                    json::read(value.as_bytes()).map_err(|error| violation(code::GRAPHQL_REQUEST_MALFORMED, error))?
                }
                _ => JsonValue::String(ByteString::from(value)),
            };
            if members.insert(ByteString::from(name), value).is_some() {
                return Err(malformed("a parameter occurs twice"));
            }
        }
        self.check(Request::of(JsonValue::Object(members))?, Way::Get, cache)
    }
}

/// Text of a form (`application/x-www-form-urlencoded`); none if an escape is none or it is no UTF-8.
fn decoded(text: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit =
                    |byte: Option<&u8>| char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(rest.next())? * 16 + digit(rest.next())?
            }
            byte => *byte,
        });
    }
    String::from_utf8(out).ok()
}
