//! The head of a response: status, header fields, and what is to become of the body.

use super::body::{BodyPlan, BodyValidator};
use super::code;
use super::content_type::{Chosen, Reading, choose};
use super::findings::{Enough, Findings, Violation, Where};
use super::parameters::Declared;
use super::scratch::Scratch;
use super::value::STEPS_PER_HEAD;
use crate::contract::Matched;
use crate::message::Part;
use crate::message::{Framing, ResponseParts};
use crate::openapi::Content;
use crate::options::Undeclared;
use crate::parameter::Escapes;

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
    let Some(response) = matched.operation.responses.find(parts.status) else {
        let status = parts.status.to_string();
        match contract.options.undeclared_status {
            Undeclared::Reject => {
                let place = Where::named(Part::Status, status.as_bytes());
                findings.add(Violation::new(code::STATUS_UNDECLARED, place, "is not declared"))?;
            }
            Undeclared::Report => findings.add_shadow(Part::Status, status.as_bytes()),
            Undeclared::Ignore => {}
        }
        return BodyValidator::undeclared(contract, Undeclared::Ignore, parts.framing, findings);
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
    match &response.body {
        None => BodyValidator::undeclared(contract, contract.options.undeclared_response_body, parts.framing, findings),
        Some(_) if parts.responds_head || matches!(parts.status, 204 | 205 | 304) => Ok(BodyValidator::empty(contract)),
        Some(body) => {
            let chosen = choose(contract, body, parts.fields);
            // Nothing at all may be a good text, which is validated, but is no JSON and no XML.
            let required = matches!(
                &chosen,
                Ok(Chosen {
                    content: Reading::Content { content: Content::Json { .. } | Content::Xml { .. }, .. },
                    ..
                })
            ) || chosen.as_ref().is_ok_and(Chosen::may_be_empty);
            match (parts.framing, required) {
                (Framing::Empty, true) if chosen.as_ref().is_ok_and(Chosen::may_be_empty) => match chosen {
                    Ok(chosen) => BodyValidator::of_nothing(contract, chosen, scratch, findings),
                    Err(_) => Ok(BodyValidator::empty(contract)),
                },
                (Framing::Empty, true) => {
                    findings.add(Violation::new(code::BODY_MISSING, Where::of(Part::Body), "is missing"))?;
                    Ok(BodyValidator::empty(contract))
                }
                (Framing::Empty, false) => Ok(BodyValidator::empty(contract)),
                (framing, required) => BodyValidator::chosen(contract, chosen, required, framing, scratch, findings),
            }
        }
    }
}
