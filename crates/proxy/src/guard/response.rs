//! An answer before its contract: status, fields and content type by its head, then its body.
//!
//! Under `block` a body is held until its verdict, so that the client gets it whole or gets a 502 of ours; under `log` it passes while it is judged.

use config::Mode;
use contract::judge::{BodyPlan, Findings, Framing, Hold, Part, ResponseParts};
use wire::http::{BodyFraming, Method, ResponseHead};

use crate::contracts::{InForce, Rule};
use crate::guard::Admitted;
use crate::guard::judging::{Judging, ScratchRoom, Side, caught, panicked, refusal};
use crate::guard::request::{Visited, note};
use crate::message::context::Context;
use crate::message::ledger::Ledger;
use crate::message::refusal::Refusal;

/// What is to become of the body of an answer.
pub enum Plan<'j> {
    /// Nobody judges it.
    Free,
    /// It is held until its verdict.
    Hold(Judging<'j>),
    /// It passes while it is judged.
    Watch {
        /// Its judge.
        judging: Judging<'j>,
        /// A violation cuts it.
        blocks: bool,
    },
}

/// What an answer is judged by; none if nobody judges it.
fn judge_of<'a>(admitted: &Admitted<'a>) -> Option<(&'a InForce, contract::Matched<'a>, &'a Rule)> {
    let under = admitted.under.filter(|under| under.response != Mode::Off)?;
    let operation = under.operation?;
    Some((under.in_force, operation, under.in_force.rule(operation.operation.number())?))
}

/// Judges the head of an answer and says what is to become of its body.
///
/// # Errors
/// 502, or the contract's one status.
pub fn judge_head<'j>(
    admitted: &Admitted<'j>,
    context: Context<'_>,
    response: &ResponseHead,
    scratch: &'j mut ScratchRoom,
    ledger: &mut Ledger,
) -> Result<Plan<'j>, Refusal> {
    let Some((in_force, operation, rule)) = judge_of(admitted) else { return Ok(Plan::Free) };
    *scratch = ScratchRoom::take();
    let Some(room) = scratch.as_mut() else { return Err(Refusal::ours(500, "no_scratch")) };
    let blocks = rule.response == Mode::Block;
    let mut findings = if blocks { Findings::first() } else { Findings::all() };
    let answers_head = admitted.head().method == Method::Head;
    let fields = Visited(&response.fields);
    let parts = ResponseParts {
        status: response.status,
        fields: &fields,
        framing: match response.framing {
            _ if answers_head || matches!(response.status, 101 | 204 | 304) => Framing::Empty,
            BodyFraming::None | BodyFraming::Length(0) => Framing::Empty,
            BodyFraming::Length(length) => Framing::Length(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => Framing::Unknown,
        },
        answers_head,
    };
    let plan = match caught(|| operation.judge_response(&parts, room, &mut findings)) {
        Some(Ok(plan)) => Some(plan),
        Some(Err(_)) => None,
        None => {
            let _ = findings.add(panicked(Part::Status));
            None
        }
    };
    if blocks && let Some(first) = findings.violations().first() {
        let refused = refusal(in_force, Side::Response, first);
        note(context, in_force, rule, Side::Response, &findings, true, ledger);
        return Err(refused);
    }
    let (judge, holds) = match plan {
        None => (None, false),
        Some(BodyPlan { mut judge, hold, .. }) => {
            judge.set_limit(rule.max_body_bytes);
            (Some(judge), hold == Hold::UntilVerdict)
        }
    };
    let judging = Judging::new(in_force, Side::Response, judge, findings);
    Ok(if blocks && holds { Plan::Hold(judging) } else { Plan::Watch { judging, blocks } })
}

/// Notes what was found in an answer that was judged to its end.
pub fn finished(admitted: &Admitted<'_>, context: Context<'_>, judging: &Judging<'_>, ledger: &mut Ledger) {
    let Some((in_force, _, rule)) = judge_of(admitted) else { return };
    note(context, in_force, rule, Side::Response, &judging.findings, rule.response == Mode::Block, ledger);
}
