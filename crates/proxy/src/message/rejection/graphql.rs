//! The body of a rejection for clients of GraphQL: a response with errors and without data (GraphQL over HTTP, section 6).

use config::Detail;
use contract::validate::code;
use serde_json::json;
use wire::http::RequestHead;
use wire::http::http1::reason_phrase;

use super::{Rejection, Reported};

/// The media type of such responses; clients that do not know it take `application/json`.
const RESPONSE: &str = "application/graphql-response+json";

/// Body and content type.
pub(super) fn body(rejection: &Rejection, reported: &Reported, head: &RequestHead) -> (Vec<u8>, &'static str) {
    let mentions = |value: &[u8]| memchr::memmem::find(value, RESPONSE.as_bytes()).is_some();
    let content_type = if head.fields.get_all("accept").any(mentions) { RESPONSE } else { "application/json" };
    let error = if rejection.reason.code() == code::GRAPHQL_PERSISTED_QUERY {
        // What clients know that sent a hash in vain: they send the query.
        json!({ "message": "PersistedQueryNotSupported", "extensions": { "code": "PERSISTED_QUERY_NOT_SUPPORTED" } })
    } else if reported.detail == Detail::Empty {
        return (Vec::new(), content_type);
    } else {
        error(rejection.status, rejection.reason.code(), &reported.what, reported.detail)
    };
    let mut body = json!({ "errors": [error] }).to_string().into_bytes();
    body.push(b'\n');
    (body, content_type)
}

/// One error that tells as much as it may.
fn error(status: u16, code: &str, what: &str, detail: Detail) -> serde_json::Value {
    let title = if status < 400 { "Request rejected" } else { reason_phrase(status) };
    match detail {
        Detail::Empty | Detail::Status => json!({ "message": title }),
        Detail::Code => json!({ "message": title, "extensions": { "code": code } }),
        Detail::Pointer => {
            json!({ "message": if what.is_empty() { title } else { what }, "extensions": { "code": code } })
        }
    }
}
