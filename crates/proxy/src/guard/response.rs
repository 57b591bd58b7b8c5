//! A response before its contract: status, fields and content type by its head, then its body.
//!
//! Under `block` a body is held until its decision, so that the client gets it whole or gets a 502 of ours; under `log` it passes while it is validated.

use config::Mode;
use contract::validate::{BodyPlan, Findings, Framing, Hold, Part, ResponseParts};
use reason::Reason;
use wire::http::{BodyFraming, Method, ResponseHead};

use crate::contracts::{ActiveContract, Rule};
use crate::guard::Admitted;
use crate::guard::request::{Visited, note};
use crate::guard::validation::{ScratchSpace, Side, Validation, caught, panicked, rejection};
use crate::message::context::Context;
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;

/// What is to become of the body of a response.
pub enum Plan<'j> {
    /// Nobody validates it.
    Free,
    /// It is held until its decision.
    Hold(Validation<'j>),
    /// It passes while it is validated.
    Watch {
        /// Its validation.
        validation: Validation<'j>,
        /// A violation cuts it.
        blocks: bool,
    },
}

/// What a response is validated by; none if nobody validates it.
fn validate_of<'a>(admitted: &Admitted<'a>) -> Option<(&'a ActiveContract, contract::Matched<'a>, &'a Rule)> {
    let under = admitted.under.filter(|under| under.response != Mode::Off)?;
    let operation = under.operation?;
    Some((under.active, operation, under.active.rule(operation.operation.number())?))
}

/// Validates the head of a response and says what is to become of its body.
///
/// # Errors
/// 502, or the contract's one status.
pub fn validate_head<'j>(
    admitted: &Admitted<'j>,
    context: Context<'_>,
    response: &ResponseHead,
    scratch: &'j mut ScratchSpace,
    ledger: &mut Ledger,
) -> Result<Plan<'j>, Rejection> {
    let Some((active, operation, rule)) = validate_of(admitted) else { return Ok(Plan::Free) };
    *scratch = ScratchSpace::take();
    let Some(space) = scratch.as_mut() else { return Err(Rejection::of(Reason::ValidationBuffersMissing)) };
    let blocks = rule.response == Mode::Block;
    let mut findings = if blocks { Findings::first() } else { Findings::all() };
    let responds_head = admitted.head().method == Method::Head;
    let fields = Visited(&response.fields);
    let parts = ResponseParts {
        status: response.status,
        fields: &fields,
        framing: match response.framing {
            _ if responds_head || matches!(response.status, 101 | 204 | 304) => Framing::Empty,
            BodyFraming::None | BodyFraming::Length(0) => Framing::Empty,
            BodyFraming::Length(length) => Framing::Length(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => Framing::Unknown,
        },
        responds_head,
    };
    let plan = match caught(|| operation.validate_response(&parts, space, &mut findings)) {
        Some(Ok(plan)) => Some(plan),
        Some(Err(_)) => None,
        None => {
            let _ = findings.add(panicked(Part::Status));
            None
        }
    };
    if blocks && let Some(first) = findings.violations().first() {
        let rejected = rejection(active, Side::Response, first);
        note(context, active, rule, Side::Response, &findings, true, ledger);
        return Err(rejected);
    }
    let (validator, hold) = match plan {
        None => (None, Hold::AllButTheEnd),
        Some(BodyPlan { mut validator, hold, .. }) => {
            validator.set_limit(rule.max_body_bytes);
            (Some(validator), hold)
        }
    };
    let validation = Validation::new(active, Side::Response, validator, findings);
    Ok(match hold {
        Hold::UntilDecision if blocks => Plan::Hold(validation),
        hold => Plan::Watch { validation, blocks: blocks && hold != Hold::Nothing },
    })
}

/// Notes what was found in a response that was validated to its end.
pub fn finished(admitted: &Admitted<'_>, context: Context<'_>, validation: &Validation<'_>, ledger: &mut Ledger) {
    let Some((active, _, rule)) = validate_of(admitted) else { return };
    note(context, active, rule, Side::Response, &validation.findings, rule.response == Mode::Block, ledger);
}
