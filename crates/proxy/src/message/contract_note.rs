//! What a contract has said of one exchange, for its record.

use std::sync::Arc;

use config::Mode;
use contract::validate::{Findings, Violation};
use reason::Reason;
use telemetry::{ContractRecord, Decision};

use crate::contracts::ActiveContract;

/// Notes on one exchange under a contract.
#[derive(Debug)]
pub struct ContractNote {
    active: Arc<ActiveContract>,
    operation: Option<usize>,
    decision: Decision,
    side: &'static str,
    reason: Option<Reason>,
    place: String,
    /// What is wrong, for people.
    what: String,
    /// What is counted was blocked, not just logged.
    reported_blocked: bool,
    violations: u32,
}

impl ContractNote {
    /// An exchange under this contract, of which nothing is known yet.
    pub fn new(active: &Arc<ActiveContract>, operation: Option<usize>) -> ContractNote {
        ContractNote {
            active: Arc::clone(active),
            operation,
            decision: Decision::Off,
            side: "",
            reason: None,
            place: String::new(),
            what: String::new(),
            reported_blocked: false,
            violations: 0,
        }
    }

    /// One side was validated: what was found, and what became of it. The worst decision stands with its reason; of two alike, the request's.
    pub fn validated(&mut self, side: &'static str, findings: &Findings, blocked: bool) {
        let Some(first) = findings.violations().first() else {
            self.raise(Decision::Passed);
            return;
        };
        let count = u32::try_from(findings.violations().len()).unwrap_or(u32::MAX);
        let about = || (first.place.to_string(), first.what.clone());
        self.broken(side, Reason::of_code(first.code), about, count, blocked);
        if !blocked {
            findings.violations().iter().for_each(|violation| self.report(side, violation));
        }
    }

    /// Something was wrong that is no finding of the document's validate. `about`: where, and what.
    pub fn broken(
        &mut self,
        side: &'static str,
        reason: Reason,
        about: impl FnOnce() -> (String, String),
        count: u32,
        blocked: bool,
    ) {
        self.raise(if blocked { Decision::Blocked } else { Decision::Logged });
        self.violations = self.violations.saturating_add(count);
        // A request that is validated as it passes may be done after its response.
        let is_worse = blocked && !self.reported_blocked;
        let is_earlier = blocked == self.reported_blocked && side == "request" && self.side == "response";
        if self.reason.is_none() || is_worse || is_earlier {
            self.reported_blocked = blocked;
            self.side = side;
            self.reason = Some(reason);
            (self.place, self.what) = about();
        }
    }

    fn raise(&mut self, decision: Decision) {
        let rank = |decision| match decision {
            Decision::Off => 0,
            Decision::Passed => 1,
            Decision::Logged => 2,
            Decision::Blocked => 3,
        };
        if rank(decision) > rank(self.decision) {
            self.decision = decision;
        }
    }

    /// In mode `log` every violation is reported, since nobody else tells it.
    fn report(&self, side: &'static str, violation: &Violation) {
        tracing::info!(
            contract = &*self.active.name,
            operation = self.operation(),
            side,
            code = violation.code,
            place = %violation.place,
            what = violation.what,
            "would be rejected"
        );
    }

    fn operation(&self) -> &str {
        self.operation.and_then(|number| self.active.rule(number)).map_or("", |rule| &rule.label)
    }

    /// What becomes of requests of this operation, or of one that the document does not have, that break the contract.
    pub fn mode(&self) -> Mode {
        let rule = self.operation.and_then(|number| self.active.rule(number));
        rule.map_or(self.active.config.request, |rule| rule.request)
    }

    /// What is wrong where the record says.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// For the record.
    pub fn record(&self) -> ContractRecord<'_> {
        ContractRecord {
            contract: &self.active.name,
            operation: self.operation(),
            decision: self.decision,
            side: self.side,
            reason: self.reason,
            place: &self.place,
            violations: self.violations,
        }
    }
}
