//! The messages that a client sends over a WebSocket, in `graphql-transport-ws` and in the older protocol that is called `graphql-ws` on the wire.

use apollo_compiler::response::JsonValue;
use contract::validate::{Violation, code};
use serde_json::json;

use crate::cache::Cache;
use crate::endpoint::{Endpoint, Way};
use crate::json;
use crate::request::Request;
use crate::violation::{named, over, violation};

/// Bytes of the name that a client gives a subscription.
const MAX_ID_BYTES: usize = 128;

/// How requests and results are put into messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `graphql-transport-ws`, that of the package `graphql-ws`.
    Transport,
    /// `graphql-ws`, that of the package `subscriptions-transport-ws`.
    Legacy,
}

/// What is wrong with a message.
#[derive(Debug)]
pub struct Broken {
    /// What the request is called that breaks the contract; none if it is no request that could be read, so that the connection ends.
    pub id: Option<String>,
    /// Why.
    pub violation: Violation,
}

impl Protocol {
    /// The protocol with this name in `Sec-WebSocket-Protocol`.
    pub fn named(name: &[u8]) -> Option<Protocol> {
        match name {
            b"graphql-transport-ws" => Some(Protocol::Transport),
            b"graphql-ws" => Some(Protocol::Legacy),
            _ => None,
        }
    }

    /// Whether a client may send messages of this type, and whether such a one holds a request.
    fn holds_request(self, kind: &str) -> Option<bool> {
        match (self, kind) {
            (Protocol::Transport, "subscribe") | (Protocol::Legacy, "start") => Some(true),
            (_, "connection_init") => Some(false),
            (Protocol::Transport, "ping" | "pong" | "complete") => Some(false),
            (Protocol::Legacy, "stop" | "connection_terminate") => Some(false),
            _ => None,
        }
    }

    /// The messages that tell a client that its request is rejected.
    pub fn errors(self, id: &str, message: &str, code: Option<&str>) -> Vec<String> {
        let error = match code {
            Some(code) => json!({ "message": message, "extensions": { "code": code } }),
            None => json!({ "message": message }),
        };
        match self {
            Protocol::Transport => vec![json!({ "id": id, "type": "error", "payload": [error] }).to_string()],
            Protocol::Legacy => vec![
                json!({ "type": "error", "id": id, "payload": error }).to_string(),
                json!({ "type": "complete", "id": id }).to_string(),
            ],
        }
    }
}

impl Endpoint {
    /// Validates a message of a client.
    ///
    /// # Errors
    /// The first violation, and the name of the request if it has one.
    pub fn check_message(&self, protocol: Protocol, text: &[u8], cache: &mut Cache) -> Result<(), Broken> {
        let (id, payload) = self.request_in(protocol, text).map_err(|violation| Broken { id: None, violation })?;
        let Some(payload) = payload else { return Ok(()) };
        let checked = Request::of(payload).and_then(|request| self.check(request, Way::WebSocket, cache));
        checked.map_err(|violation| Broken { id, violation })
    }

    /// The name and the request that a message holds; no request if it is of another type.
    fn request_in(&self, protocol: Protocol, text: &[u8]) -> Result<(Option<String>, Option<JsonValue>), Violation> {
        let limit = self.options().limits.request_bytes;
        if text.len() > limit {
            return Err(over(code::WEBSOCKET_MESSAGE, "the message has more bytes", limit));
        }
        let malformed = |what: &str| violation(code::WEBSOCKET_MESSAGE, what);
        let message = json::read(text).map_err(|error| violation(code::WEBSOCKET_MESSAGE, error))?;
        let JsonValue::Object(members) = message else { return Err(malformed("a message is a JSON object")) };
        let (mut kind, mut id, mut payload) = (None, None, None);
        for (name, value) in members {
            match (name.as_str(), value) {
                ("type", JsonValue::String(text)) => kind = Some(text),
                ("id", JsonValue::String(text)) if (1..=MAX_ID_BYTES).contains(&text.as_str().len()) => {
                    id = Some(text.as_str().to_owned());
                }
                ("payload", value) => payload = Some(value),
                ("id", JsonValue::Null) => {}
                (name @ ("type" | "id"), _) => {
                    return Err(named(code::WEBSOCKET_MESSAGE, name, "is no text of one to 128 bytes"));
                }
                (name, _) => return Err(named(code::WEBSOCKET_MESSAGE, name, "is no member of a message")),
            }
        }
        let kind = kind.ok_or_else(|| malformed("the message has no type"))?;
        match protocol.holds_request(kind.as_str()) {
            None => Err(named(code::WEBSOCKET_MESSAGE, kind.as_str(), "is no type of a client's message")),
            Some(false) => Ok((id, None)),
            Some(true) if id.is_none() => Err(malformed("the request has no id")),
            Some(true) => match payload {
                Some(payload) => Ok((id, Some(payload))),
                None => Err(malformed("the request has no payload")),
            },
        }
    }
}
