//! What a contract has said of one exchange, for its record.

use std::sync::Arc;

use contract::judge::{Findings, Violation};
use telemetry::{ContractRecord, Verdict};

use crate::contracts::InForce;

/// Notes on one exchange under a contract.
#[derive(Debug)]
pub struct ContractNote {
    in_force: Arc<InForce>,
    operation: Option<usize>,
    verdict: Verdict,
    side: &'static str,
    reason: &'static str,
    place: String,
    /// What is told was blocked, not just logged.
    told_blocked: bool,
    violations: u32,
}

impl ContractNote {
    /// An exchange under this contract, of which nothing is known yet.
    pub fn new(in_force: &Arc<InForce>, operation: Option<usize>) -> ContractNote {
        ContractNote {
            in_force: Arc::clone(in_force),
            operation,
            verdict: Verdict::Off,
            side: "",
            reason: "",
            place: String::new(),
            told_blocked: false,
            violations: 0,
        }
    }

    /// One side was judged: what was found, and what became of it. The worst verdict stands with its reason; of two alike, the request's.
    pub fn judged(&mut self, side: &'static str, findings: &Findings, blocked: bool) {
        let Some(first) = findings.violations().first() else {
            self.raise(Verdict::Passed);
            return;
        };
        let count = u32::try_from(findings.violations().len()).unwrap_or(u32::MAX);
        self.broken(side, first.code, || first.place.to_string(), count, blocked);
        if !blocked {
            findings.violations().iter().for_each(|violation| self.tell(side, violation));
        }
    }

    /// Something was wrong that is no finding of the document's judge.
    pub fn broken(
        &mut self,
        side: &'static str,
        code: &'static str,
        place: impl FnOnce() -> String,
        count: u32,
        blocked: bool,
    ) {
        self.raise(if blocked { Verdict::Blocked } else { Verdict::Logged });
        self.violations = self.violations.saturating_add(count);
        // A request that is judged as it passes may be done after its answer.
        let is_worse = blocked && !self.told_blocked;
        let is_earlier = blocked == self.told_blocked && side == "request" && self.side == "response";
        if self.reason.is_empty() || is_worse || is_earlier {
            self.told_blocked = blocked;
            self.side = side;
            self.reason = code;
            self.place = place();
        }
    }

    fn raise(&mut self, verdict: Verdict) {
        let rank = |verdict| match verdict {
            Verdict::Off => 0,
            Verdict::Passed => 1,
            Verdict::Logged => 2,
            Verdict::Blocked => 3,
        };
        if rank(verdict) > rank(self.verdict) {
            self.verdict = verdict;
        }
    }

    /// In mode `log` every violation is told, since nobody else tells it.
    fn tell(&self, side: &'static str, violation: &Violation) {
        tracing::info!(
            contract = &*self.in_force.name,
            operation = self.operation(),
            side,
            code = violation.code,
            place = %violation.place,
            what = violation.what,
            "would be refused"
        );
    }

    fn operation(&self) -> &str {
        self.operation.and_then(|number| self.in_force.rule(number)).map_or("", |rule| &rule.label)
    }

    /// For the record.
    pub fn record(&self) -> ContractRecord<'_> {
        ContractRecord {
            contract: &self.in_force.name,
            operation: self.operation(),
            verdict: self.verdict,
            side: self.side,
            reason: self.reason,
            place: &self.place,
            violations: self.violations,
        }
    }
}
