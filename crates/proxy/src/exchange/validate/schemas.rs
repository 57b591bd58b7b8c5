//! Validation by several documents at once, each known by a number, with a list of all that is wrong as JSON: the protocol of API Firewall's API mode,
//! in which whoever has a request sends it as it came, with the numbers in a field.
//!
//! The response is 200 whatever it says; only a question that cannot be understood is 500, without a body, as there.

use std::collections::BTreeSet;
use std::sync::Arc;

use config::Validate;
use contract::validate::{Part, Violation, code};
use net::clock::coarse;
use net::pace::Allowance;
use reason::Reason;
use serde_json::{Value, json};
use wire::http::{BodyFraming, RequestHead};

use super::Asked;
use crate::contracts::ActiveContract;
use crate::exchange::{Exchange, begin_own, send_whole};
use crate::guard::{self, Everything, Lease};
use crate::message::body::BodyError;
use crate::message::context::{Aborted, Failure};
use crate::message::contract_note::ContractNote;
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink};

/// The field with the numbers.
const SCHEMA_ID: &str = "x-wallarm-schema-id";

/// Numbers in one question.
const MAX_SCHEMAS: usize = 64;

/// Validates the request by every document that it names.
pub(super) async fn serve<B: MessageBody, A: ResponseSink>(
    asked: Asked<'_>,
    service: &Validate,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    let Some(ids) = ids(exchange.head) else {
        exchange.ledger.blame(Reason::OriginalRequestMissing);
        return respond(exchange, 500, Vec::new()).await;
    };
    let mut head = exchange.head.clone();
    head.fields.remove(SCHEMA_ID);
    let context = exchange.context;
    let mut lease = Lease::new(context);
    let mut allowance = Allowance::new(asked.route.config.pace(context.limits()));
    let mut body = Vec::new();
    loop {
        let waited_since = coarse();
        let next = exchange.timers.upload.within(allowance.left(), exchange.body.next()).await;
        match next.map_err(|_| Rejection::of(Reason::RequestBodyTimeout))? {
            Ok(Some(piece)) => {
                allowance.moved(coarse().saturating_sub(waited_since), piece.len() as u64);
                body.extend_from_slice(piece);
            }
            Ok(None) => break,
            Err(BodyError::Malformed(error)) => return Err(Rejection::from(error).into()),
            Err(_) => {
                exchange.ledger.blame(Reason::RequestTruncated);
                return Err(Failure::Aborted);
            }
        }
        exchange.ledger.received.set(body.len() as u64);
        if body.len() as u64 > asked.route.config.max_body(context.limits()) {
            return Err(Rejection::of(Reason::BodyTooLarge).into());
        }
        if lease.hold(body.len()).is_err() {
            return Err(Rejection::of(Reason::ValidationMemory).into());
        }
    }
    sniff(&mut head, &body);
    let mut said = Said::default();
    for id in ids {
        let name = service.schemas.get(&id);
        match name.and_then(|name| context.generation.contracts.named(name)) {
            Some(active) => {
                guard::check_lists(active, context.generation, &head, &context.client)?;
                let everything = guard::find_all(active, &head, &body).await;
                said.add(id, active, &everything, exchange.ledger);
            }
            None => said.unknown(id),
        }
    }
    let body = said.into_json(service.max_errors).to_string().into_bytes();
    respond(exchange, 200, body).await
}

async fn respond<B: MessageBody, A: ResponseSink>(
    exchange: &mut Exchange<'_, B, A>,
    status: u16,
    body: Vec<u8>,
) -> Result<(), Failure> {
    exchange.ledger.status = status;
    begin_own(exchange.sink, status);
    let sent = send_whole(exchange.sink, "application/json", &body, exchange.head, exchange.ledger).await;
    sent.map_err(|Aborted| Failure::Aborted)
}

/// The numbers that a question names, each once; none if there are none, or something else stands there.
fn ids(head: &RequestHead) -> Option<BTreeSet<u32>> {
    let mut ids = BTreeSet::new();
    for value in head.fields.get_all(SCHEMA_ID) {
        for item in value.split(|byte| *byte == b',') {
            let text =
                std::str::from_utf8(item.trim_ascii()).ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()))?;
            ids.insert(text.parse().ok()?);
        }
    }
    Some(ids).filter(|ids| (1..=MAX_SCHEMAS).contains(&ids.len()))
}

/// A body without a type is JSON if it looks like it, in this protocol alone.
fn sniff(head: &mut RequestHead, body: &[u8]) {
    let looks_like_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
    if looks_like_json && !head.fields.contains("content-type") {
        head.fields.push(b"content-type", b"application/json");
    }
    head.framing = BodyFraming::Length(body.len() as u64);
}

/// What is said of a request.
#[derive(Default)]
struct Said {
    summary: Vec<Value>,
    errors: Vec<Value>,
}

impl Said {
    fn unknown(&mut self, id: u32) {
        self.summary.push(json!({ "schema_id": id, "status_code": 500 }));
    }

    fn add(&mut self, id: u32, active: &Arc<ActiveContract>, everything: &Everything, ledger: &mut Ledger) {
        let before = self.errors.len();
        let (number, violations) = match everything {
            Everything::Unknown => {
                self.errors.push(json!({
                    "message": "method and path are not found", "code": "method_and_path_not_found", "schema_id": id,
                }));
                (None, None)
            }
            Everything::Found(number, findings) => {
                self.errors.extend(findings.violations().iter().map(|violation| error(id, violation)));
                (Some(*number), Some(findings))
            }
        };
        let is_good = self.errors.len() == before;
        self.summary.push(json!({ "schema_id": id, "status_code": if is_good { 200 } else { 403 } }));
        // Of several documents the record has the first that is broken, else the last.
        if ledger.contract.is_none() || !is_good {
            let note = ledger.contract.insert(ContractNote::new(active, number));
            match violations {
                Some(findings) => note.validated("request", findings, true),
                None => note.broken("request", Reason::PathUndeclared, Default::default, 1, true),
            }
        }
    }

    fn into_json(mut self, max_errors: usize) -> Value {
        if max_errors > 0 {
            self.errors.truncate(max_errors);
        }
        let mut said = json!({ "summary": self.summary });
        if let (false, Some(said)) = (self.errors.is_empty(), said.as_object_mut()) {
            said.insert("errors".into(), self.errors.into());
        }
        said
    }
}

/// One error: what is wrong in our words, and the code that there is for it there.
fn error(id: u32, violation: &Violation) -> Value {
    let place = &violation.place;
    let code = code_of(violation);
    let message = match code {
        "required_body_missed" => "required body is missing".to_owned(),
        _ => format!("{place}: {}", violation.what),
    };
    let mut error = json!({ "message": message, "code": code, "schema_id": id });
    let field = if place.name.is_empty() {
        place.pointer.trim_start_matches('/').replace('/', ".")
    } else {
        place.name.clone()
    };
    if let Some(error) = error.as_object_mut().filter(|_| !field.is_empty()) {
        error.insert("related_fields".into(), json!([field]));
        error.insert("related_fields_details".into(), json!([{ "name": field }]));
    }
    error
}

fn code_of(violation: &Violation) -> &'static str {
    let is_missing = matches!(violation.code, code::PARAMETER_MISSING) || violation.code == "required";
    let is_undeclared =
        matches!(violation.code, code::PARAMETER_UNDECLARED) || violation.code.ends_with("unknown_field");
    match (violation.place.part, violation.code) {
        _ if is_undeclared => "unknown_parameter_found",
        (Part::Security, _) => "required_security_requirements_failed",
        (Part::Path, _) if is_missing => "required_path_parameter_missed",
        (Part::Path, _) => "required_path_parameter_invalid_value",
        (Part::Query, _) if is_missing => "required_query_parameter_missed",
        (Part::Query, _) => "required_query_parameter_invalid_value",
        (Part::Cookie, _) if is_missing => "required_cookie_parameter_missed",
        (Part::Cookie, _) => "required_cookie_parameter_invalid_value",
        (Part::Header, code::CONTENT_TYPE_MISSING | code::CONTENT_TYPE_MALFORMED | code::CONTENT_TYPE_UNDECLARED) => {
            "required_body_parse_error"
        }
        (Part::Header, _) if is_missing => "required_header_missed",
        (Part::Header, _) => "required_header_invalid_value",
        (Part::Body, code::BODY_MISSING) => "required_body_missed",
        (Part::Body, code) if code.starts_with("json_") => "required_body_parse_error",
        (Part::Body, _) if is_missing => "required_body_parameter_missed",
        (Part::Body, _) => "required_body_parameter_invalid_value",
        _ => "unknown_validation_error",
    }
}
