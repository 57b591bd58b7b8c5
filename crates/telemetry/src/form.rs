//! Whether there is an access log at the moment, and by which rules: all workers look for each line, and a reload sets it.
//!
//! Owns the choice, not the lines.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::lock::lock;
use super::rules::Rules;

/// The rules of the access log at the moment, or none while there is no access log. To look is to load a number, unless that has changed.
#[derive(Debug, Default)]
pub(super) struct RulesSwitch {
    changes: AtomicU32,
    rules: Mutex<Option<Arc<Rules>>>,
}

/// What one worker has seen of it.
#[derive(Debug, Default)]
pub(super) struct SeenRules {
    changes: u32,
    rules: Option<Arc<Rules>>,
}

impl SeenRules {
    /// The rules, if there is a log.
    pub(super) fn get(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }
}

impl RulesSwitch {
    /// Sees them again if they have changed since; says whether they have.
    pub(super) fn look(&self, seen: &mut SeenRules) -> bool {
        let changes = self.changes.load(Ordering::Acquire);
        let changed = changes != seen.changes;
        if changed {
            *seen = SeenRules { changes, rules: lock(&self.rules).clone() };
        }
        changed
    }

    pub(super) fn set(&self, rules: Option<Rules>) {
        *lock(&self.rules) = rules.map(Arc::new);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Form;

    #[test]
    fn what_is_set_is_what_is_found() {
        let (switch, mut seen) = (RulesSwitch::default(), SeenRules::default());
        assert!(!switch.look(&mut seen) && seen.get().is_none());
        for form in [Some(Form::Json), Some(Form::Mmproxy(2)), None, Some(Form::Text)] {
            switch.set(form.map(Rules::plain));
            assert!(switch.look(&mut seen));
            assert_eq!(seen.get().map(|rules| rules.form), form);
            assert!(!switch.look(&mut seen));
        }
    }
}
