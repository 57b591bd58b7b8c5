//! What a node tells the store of keys that have used something, and what the reply says of them.

use std::time::Duration;

use wire::resp::{Reply, put_command};

use crate::policies::{SharedRate, Spent};

/// What the store runs for each message.
const SCRIPT: &str = include_str!("charge.lua");

/// Most keys of one message: the store serves nobody else while it reads it.
pub(super) const MAX_KEYS: usize = 256;

/// Some keys of one rate.
pub(super) struct Message {
    number: u64,
    rate: SharedRate,
    keys: Vec<Entry>,
    covered: Option<Duration>,
}

/// How what keys have used is charged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    /// The time in which they have used it; none if that was while the store was away, so that it is not charged at all.
    pub(super) covered: Option<Duration>,
    /// The store is to know how far keys are ahead here: it was away, or has perhaps forgotten.
    pub(super) with_own: bool,
}

/// What is said of a key.
struct Entry {
    spent: Spent,
    /// How far it is ahead here, microseconds; 0 where the store knows that.
    ahead: u64,
}

impl Message {
    pub(super) fn new(number: u64, rate: &SharedRate, keys: &[Spent], charge: Charge) -> Message {
        let entry = |spent: &Spent| Entry {
            spent: *spent,
            // On its way it loses nothing of that, so it is said no oftener than it has to be.
            ahead: if charge.with_own { rate.used(spent.key) } else { 0 },
        };
        Message { number, rate: rate.clone(), keys: keys.iter().map(entry).collect(), covered: charge.covered }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Writes it as a command.
    pub(super) fn put(&self, prefix: &str, node: &str, out: &mut Vec<u8>) {
        let rate = &self.rate;
        let mut parts = vec!["EVAL".to_owned(), SCRIPT.to_owned(), (self.keys.len() + 1).to_string()];
        parts.push(format!("{prefix}:node:{node}"));
        parts.extend(self.keys.iter().map(|entry| format!("{prefix}:rate:{}:{}", rate.name, entry.spent.key.name())));
        let covered = self.covered.unwrap_or_default().as_micros();
        parts.extend([self.number.to_string(), covered.to_string(), rate.most_ahead().to_string()]);
        for entry in &self.keys {
            let cost = self.covered.map_or(0, |_| entry.spent.count.saturating_mul(rate.interval()));
            parts.extend([cost.min(rate.most_ahead()).to_string(), entry.ahead.to_string()]);
        }
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        put_command(&parts, out);
    }

    /// Has the rate learn what the reply says, which came so long after this was sent.
    ///
    /// # Errors
    /// It is not the reply to this.
    pub(super) fn learn(&self, reply: &Reply, after: Duration) -> Result<(), String> {
        let unexpected = || "the store replied with something else than a number for each key".to_owned();
        let items = match reply {
            Reply::Array(Some(items)) if items.len() == self.keys.len() => items,
            Reply::Error(text) => return Err(format!("the store replied: {}", text.escape_debug())),
            _ => return Err(unexpected()),
        };
        let ahead = |item: &Reply| match item {
            Reply::Integer(ahead) => u64::try_from(*ahead).ok(),
            _ => None,
        };
        let all: Option<Vec<u64>> = items.iter().map(ahead).collect();
        // Time has passed since the store looked at its clock. To be off by that each time would add up; to be off once, to the other side, does not.
        let after = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        for (entry, ahead) in self.keys.iter().zip(all.ok_or_else(unexpected)?) {
            self.rate.learn(entry.spent.key, ahead.saturating_sub(after).min(self.rate.most_ahead()));
        }
        Ok(())
    }

    /// What it says was learned by nobody.
    pub(super) fn put_back(self) {
        self.keys.iter().for_each(|entry| self.rate.put_back(entry.spent));
    }
}
