//! Shadow APIs: what passes or is asked for and stands in no document, the most frequent first, in bounded memory.
//!
//! Each worker counts for itself, after Metwally's space-saving scheme: when its table is full, the rarest of a few entries makes room and its
//! count is inherited, so that what is really frequent stays whatever strangers make up. Counts can be too high for newcomers, never too low.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::lock::lock;

/// Entries one worker keeps.
const TABLE_ENTRIES: usize = 512;

/// Entries that are listed.
const LISTED: usize = 200;

/// Entries looked at for the rarest.
const SAMPLED: usize = 16;

/// Bytes of a hostile name that are kept.
const NAME_BYTES: usize = 200;

/// What kind of thing is undeclared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShadowKind {
    /// A path.
    Path,
    /// A method of a path.
    Method,
    /// The status of a response.
    Status,
    /// A query parameter, header field or cookie.
    Parameter,
    /// A field of a body.
    Field,
}

impl ShadowKind {
    fn as_str(self) -> &'static str {
        match self {
            ShadowKind::Path => "path",
            ShadowKind::Method => "method",
            ShadowKind::Status => "status",
            ShadowKind::Parameter => "parameter",
            ShadowKind::Field => "field",
        }
    }
}

/// One undeclared thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    contract: Arc<str>,
    kind: ShadowKind,
    /// The operation it was seen at; for paths and methods what was asked.
    operation: Box<str>,
    name: Box<str>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    count: u64,
    /// How much of it may be somebody else's.
    doubt: u64,
    last: SystemTime,
}

/// One worker's table.
#[derive(Debug, Default)]
pub(super) struct ShadowTable {
    entries: HashMap<Key, Seen>,
    changed: bool,
}

/// What readers see of it.
pub(super) type Published = Mutex<Vec<(Key, Seen)>>;

impl ShadowTable {
    pub(super) fn add(&mut self, contract: &Arc<str>, kind: ShadowKind, operation: &str, name: &str) {
        let key = Key {
            contract: Arc::clone(contract),
            kind,
            operation: shortened(operation).into(),
            name: shortened(name).into(),
        };
        self.changed = true;
        let last = SystemTime::now();
        if let Some(seen) = self.entries.get_mut(&key) {
            seen.count += 1;
            seen.last = last;
            return;
        }
        let mut doubt = 0;
        if self.entries.len() >= TABLE_ENTRIES {
            // The order of the map is random enough: its hash is seeded.
            let rarest = self.entries.iter().take(SAMPLED).min_by_key(|(_, seen)| seen.count);
            if let Some((rarest, seen)) = rarest.map(|(key, seen)| (key.clone(), *seen)) {
                doubt = seen.count;
                self.entries.remove(&rarest);
            }
        }
        self.entries.insert(key, Seen { count: doubt + 1, doubt, last });
    }

    /// Shows the table to readers, unless one is reading just now.
    pub(super) fn publish(&mut self, published: &Published) {
        if !self.changed {
            return;
        }
        if let Ok(mut shown) = published.try_lock() {
            shown.clear();
            shown.extend(self.entries.iter().map(|(key, seen)| (key.clone(), *seen)));
            self.changed = false;
        }
    }
}

fn shortened(text: &str) -> &str {
    let end = (0..=NAME_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or(text)
}

/// The tables of all workers as one list, the most frequent first.
pub(super) fn to_json<'a>(tables: impl Iterator<Item = &'a Published>) -> String {
    let mut sums: HashMap<Key, Seen> = HashMap::new();
    for table in tables {
        for (key, seen) in lock(table).iter() {
            let sum = sums.entry(key.clone()).or_insert(Seen { count: 0, doubt: 0, last: UNIX_EPOCH });
            sum.count += seen.count;
            sum.doubt += seen.doubt;
            sum.last = sum.last.max(seen.last);
        }
    }
    let mut list: Vec<(Key, Seen)> = sums.into_iter().collect();
    list.sort_by(|(left, a), (right, b)| {
        b.count
            .cmp(&a.count)
            .then_with(|| (left.kind, &left.operation, &left.name).cmp(&(right.kind, &right.operation, &right.name)))
    });
    let listed: Vec<Value> = list.iter().take(LISTED).map(entry).collect();
    json!({ "shadows": listed, "further": list.len().saturating_sub(LISTED) }).to_string()
}

fn entry((key, seen): &(Key, Seen)) -> Value {
    let seconds = seen.last.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    json!({
        "contract": &*key.contract,
        "kind": key.kind.as_str(),
        "operation": &*key.operation,
        "name": &*key.name,
        "count": seen.count,
        "count_at_least": seen.count - seen.doubt,
        "last_seen": seconds,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_is_frequent_stays_whatever_strangers_make_up() {
        let contract: Arc<str> = "shop".into();
        let mut table = ShadowTable::default();
        for round in 0..20_000 {
            table.add(&contract, ShadowKind::Path, "GET", &format!("/made-up/{round}"));
            if round % 10 == 0 {
                table.add(&contract, ShadowKind::Path, "GET", "/old-api");
            }
        }
        assert!(table.entries.len() <= TABLE_ENTRIES);
        let published = Published::default();
        table.publish(&published);
        let listed: Value = serde_json::from_str(&to_json([&published].into_iter())).unwrap();
        let found = listed["shadows"].as_array().unwrap().iter().find(|entry| entry["name"] == "/old-api").unwrap();
        assert!(found["count"].as_u64().unwrap() >= 2_000, "{found}");
    }
}
