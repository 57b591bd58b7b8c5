//! What policies and contracts have decided since the start, as values: for those who show it otherwise than as metrics. Formats nothing.

use std::collections::BTreeMap;

use super::shared::Shared;

/// Requests by decision and reason; the reason is empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decisions(BTreeMap<(String, String), u64>);

impl Decisions {
    /// How many were decided so, whatever the reason.
    pub fn count(&self, decision: &str) -> u64 {
        self.0.iter().filter(|((one, _), _)| one == decision).map(|(_, count)| count).sum()
    }

    /// Decision, reason and count of what has a reason, the most frequent first.
    pub fn reasons(&self) -> Vec<(&str, &str, u64)> {
        let with_reason = self.0.iter().filter(|((_, reason), _)| !reason.is_empty());
        let mut reasons: Vec<_> =
            with_reason.map(|((decision, reason), count)| (decision.as_str(), reason.as_str(), *count)).collect();
        reasons.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
        reasons
    }

    fn add(&mut self, decision: &str, reason: &str, count: u64) {
        *self.0.entry((decision.to_owned(), reason.to_owned())).or_default() += count;
    }
}

/// By policy: `passed`, `rejected`, `logged`, `throttled`.
pub(super) fn of_policies(shared: &Shared) -> BTreeMap<String, Decisions> {
    let mut all: BTreeMap<String, Decisions> = BTreeMap::new();
    for worker in shared.workers() {
        for slot in worker.policy_passes.slots() {
            let [policy] = slot.texts();
            all.entry(policy.to_owned()).or_default().add("passed", "", slot.cells.get());
        }
        for slot in worker.policies.slots() {
            let [policy, decision, reason] = slot.texts();
            all.entry(policy.to_owned()).or_default().add(decision, reason, slot.cells.get());
        }
    }
    all
}

/// By contract and operation: `passed`, `logged`, `blocked`, and `off` where it does not look.
pub(super) fn of_contracts(shared: &Shared) -> BTreeMap<(String, String), Decisions> {
    let mut all: BTreeMap<(String, String), Decisions> = BTreeMap::new();
    for worker in shared.workers() {
        for slot in worker.decisions.slots() {
            let [contract, operation, decision, reason] = slot.texts();
            let key = (contract.to_owned(), operation.to_owned());
            all.entry(key).or_default().add(decision, reason, slot.cells.get());
        }
    }
    all
}
