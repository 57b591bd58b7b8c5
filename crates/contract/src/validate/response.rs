//! The head of a response: status, header fields, and what is to become of the body.

use super::body::{BodyPlan, BodyValidator};
use super::code;
use super::content_type::{Reading, choose};
use super::findings::{Enough, Findings, Violation, Where};
use super::parameters::Declared;
use super::scratch::Scratch;
use super::value::STEPS_PER_HEAD;
use crate::contract::{Contract, Matched};
use crate::media_type::ContentType;
use crate::message::{FieldSource, Part};
use crate::message::{Framing, ResponseParts};
use crate::openapi::{Content, Response};
use crate::options::Undeclared;
use crate::parameter::Escapes;

/// A body that nothing is declared of.
fn unread<'s>(
    contract: &'s Contract,
    parts: &ResponseParts<'_>,
    mode: Undeclared,
    findings: &mut Findings,
) -> Result<BodyPlan<'s>, Enough> {
    let plan = BodyValidator::undeclared(contract, mode, parts.framing, findings)?;
    let passes = mode != Undeclared::Reject && is_event_stream(parts.fields, |_| true);
    Ok(if passes { BodyValidator::stream(contract) } else { plan })
}

/// Whether a response is a stream of events, and this holds of its one media type. Their end may never come, so they pass as they come.
fn is_event_stream(fields: &dyn FieldSource, holds: impl Fn(&ContentType<'_>) -> bool) -> bool {
    let (mut value, mut count) = (None, 0);
    fields.each(&mut |name, sent| {
        if name.eq_ignore_ascii_case(b"content-type") {
            (value, count) = (Some(sent), count + 1);
        }
    });
    let sent = value.filter(|_| count == 1).and_then(ContentType::parse);
    sent.is_some_and(|sent| {
        sent.kind.eq_ignore_ascii_case("text") && sent.subtype.eq_ignore_ascii_case("event-stream") && holds(&sent)
    })
}

/// What becomes of a status that is not declared: what the contract says, but no more than `most`.
fn undeclared_status(
    contract: &Contract,
    parts: &ResponseParts<'_>,
    most: Undeclared,
    findings: &mut Findings,
) -> Result<(), Enough> {
    let status = parts.status.to_string();
    match (contract.options.undeclared_status, most) {
        (Undeclared::Ignore, _) => {}
        (Undeclared::Reject, Undeclared::Reject) => {
            let place = Where::named(Part::Status, status.as_bytes());
            findings.add(Violation::new(code::STATUS_UNDECLARED, place, "is not declared"))?;
        }
        _ => findings.add_shadow(Part::Status, status.as_bytes()),
    }
    Ok(())
}

/// Whether a part of a response (RFC 9110 §15.3.7) is one of bytes that nobody looks into. What is read has no parts: a client that asks for all
/// bytes as a range would get it unvalidated.
fn is_unread_part(contract: &Contract, whole: Option<&Response>, parts: &ResponseParts<'_>) -> bool {
    match whole.map(|whole| &whole.body) {
        None => false,
        Some(None) => contract.options.undeclared_response_body != Undeclared::Reject,
        Some(Some(body)) => match choose(contract, body, parts.fields) {
            Ok(chosen) => match chosen.content {
                Reading::Content { content, .. } => matches!(content, Content::Opaque { .. }),
                Reading::Unread => true,
            },
            Err(_) => false,
        },
    }
}

/// Validates the head and says how the body is to be validated.
pub(crate) fn validate<'c: 's, 's>(
    matched: Matched<'c>,
    parts: &ResponseParts<'_>,
    scratch: &'s mut Scratch,
    findings: &mut Findings,
) -> Result<BodyPlan<'s>, Enough> {
    if let Some(why) = matched.operation.unsupported_response() {
        return super::request::unsupported(matched, why, parts.framing, findings);
    }
    let contract = matched.contract;
    let responses = &matched.operation.responses;
    let is_get = matches!(matched.operation.method.as_str(), "GET" | "HEAD");
    // It has no body, and few of the fields that other responses have (RFC 9110 §15.4.5).
    if parts.status == 304 && is_get && !matched.operation.declares_status(304) {
        if responses.find(304).is_none() {
            undeclared_status(contract, parts, Undeclared::Report, findings)?;
        }
        return Ok(BodyValidator::empty(contract));
    }
    let Some(response) = responses.find(parts.status) else {
        let is_range = parts.status == 206 && is_get;
        let passes = responses.is_empty() || (is_range && is_unread_part(contract, responses.find(200), parts));
        let most = if passes { Undeclared::Report } else { Undeclared::Reject };
        undeclared_status(contract, parts, most, findings)?;
        return unread(contract, parts, Undeclared::Ignore, findings);
    };
    let Scratch { fields: pairs, rooms, .. } = &mut *scratch;
    rooms.steps = STEPS_PER_HEAD;
    pairs.clear();
    parts.fields.each(&mut |name, value| {
        if response.headers.iter().any(|header| name.eq_ignore_ascii_case(header.name.as_bytes())) {
            pairs.add_lower(name, value.trim_ascii());
        }
    });
    let declared = Declared {
        contract,
        part: Part::Header,
        parameters: &response.headers,
        escapes: Escapes::Raw,
        missing: code::HEADER_MISSING,
    };
    declared.validate(pairs, rooms, findings)?;
    declared_body(contract, response, parts, scratch, findings)
}

/// The body of a response that is declared.
fn declared_body<'c: 's, 's>(
    contract: &'c Contract,
    response: &'c Response,
    parts: &ResponseParts<'_>,
    scratch: &'s mut Scratch,
    findings: &mut Findings,
) -> Result<BodyPlan<'s>, Enough> {
    match &response.body {
        None => unread(contract, parts, contract.options.undeclared_response_body, findings),
        Some(_) if parts.responds_head || matches!(parts.status, 204 | 205 | 304) => Ok(BodyValidator::empty(contract)),
        Some(body) if is_event_stream(parts.fields, |sent| body.declares(sent)) => Ok(BodyValidator::stream(contract)),
        Some(body) => {
            let chosen = choose(contract, body, parts.fields);
            // Nothing at all may be a good text, which is validated, but is no JSON and no XML.
            let (may_be_empty, is_whole) = match &chosen {
                Ok(chosen) => {
                    let is_whole = |content: &Content| matches!(content, Content::Json { .. } | Content::Xml { .. });
                    let is_whole = matches!(&chosen.content, Reading::Content { content, .. } if is_whole(content));
                    (chosen.may_be_empty(), is_whole)
                }
                Err(_) => (false, false),
            };
            match (parts.framing, chosen) {
                (Framing::Empty, Ok(chosen)) if may_be_empty => {
                    BodyValidator::of_nothing(contract, chosen, scratch, findings)
                }
                (Framing::Empty, _) => {
                    if is_whole {
                        findings.add(Violation::new(code::BODY_MISSING, Where::of(Part::Body), "is missing"))?;
                    }
                    Ok(BodyValidator::empty(contract))
                }
                (framing, chosen) => {
                    BodyValidator::chosen(contract, chosen, may_be_empty || is_whole, framing, scratch, findings)
                }
            }
        }
    }
}
