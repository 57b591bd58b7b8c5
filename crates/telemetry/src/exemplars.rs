//! Exemplars: for each bucket of the time of requests, the trace of a request that fell into it last (OpenMetrics 1.0, "Exemplars").
//!
//! Only requests whose spans are sent leave one, so nothing is done without tracing. They are put into the text of OpenMetrics after it is written, since the encoder
//! takes none that it did not make itself; the older text form has no place for them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::count::{BUCKET_COUNT, Durations, Family, Usual};
use super::lock::lock;

/// What a line of a bucket begins with; its bound comes first, then the labels.
const BUCKET: &str = "portunus_request_duration_seconds_bucket{le=\"";

/// One request that fell into a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exemplar {
    trace_id: u128,
    duration: Duration,
    /// When it ended.
    at: SystemTime,
}

/// By bucket.
type Buckets = [Option<Exemplar>; BUCKET_COUNT];

/// The exemplars of one listener and route.
#[derive(Debug, Default)]
pub(super) struct ExemplarCells(Mutex<Buckets>);

impl ExemplarCells {
    /// Notes a request that is traced, unless a reader looks just now.
    pub(super) fn note(&self, trace_id: u128, started: SystemTime, duration: Duration) {
        let at = started.checked_add(duration).unwrap_or(started);
        if let Ok(mut buckets) = self.0.try_lock() {
            buckets[Durations::<Usual>::bucket(duration)] = Some(Exemplar { trace_id, duration, at });
        }
    }
}

/// Those of one worker, by listener and route.
pub(super) type Exemplars = Family<2, ExemplarCells>;

/// OpenMetrics text with the exemplars of all workers.
pub(super) fn insert<'a>(text: String, workers: impl Iterator<Item = &'a Exemplars>) -> String {
    let newest = newest(workers);
    if newest.is_empty() {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 100 * BUCKET_COUNT * newest.len());
    let (mut of, mut bucket) = ("", 0);
    for line in text.lines() {
        out.push_str(line);
        if let Some(labels) = labels(line) {
            // Buckets stand in their order.
            bucket = if labels == of { bucket + 1 } else { 0 };
            of = labels;
            if let Some(exemplar) = newest.get(labels).and_then(|buckets| *buckets.get(bucket)?) {
                let Exemplar { trace_id, duration, at } = exemplar;
                let (value, at) = (duration.as_secs_f64(), at.duration_since(UNIX_EPOCH).unwrap_or_default());
                // Writing to a String cannot fail.
                let _ = write!(out, " # {{trace_id=\"{trace_id:032x}\"}} {value} {:.3}", at.as_secs_f64());
            }
        }
        out.push('\n');
    }
    out
}

/// The labels of a bucket's line but for its bound.
fn labels(line: &str) -> Option<&str> {
    let (_bound, rest) = line.strip_prefix(BUCKET)?.split_once("\",")?;
    rest.rsplit_once("} ").map(|(labels, _)| labels)
}

/// By the labels as they are written.
fn newest<'a>(workers: impl Iterator<Item = &'a Exemplars>) -> BTreeMap<String, Buckets> {
    let mut all: BTreeMap<String, Buckets> = BTreeMap::new();
    for slot in workers.flat_map(|worker| worker.slots()) {
        let [listener, route] = slot.texts().map(escaped);
        let buckets = all.entry(format!("listener=\"{listener}\",route=\"{route}\"")).or_default();
        for (newest, other) in buckets.iter_mut().zip(*lock(&slot.cells.0)) {
            if other.is_some_and(|other| newest.is_none_or(|newest| newest.at <= other.at)) {
                *newest = other;
            }
        }
    }
    all
}

/// A label's value as OpenMetrics has it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_newest_of_each_bucket_stands_behind_its_line() {
        let workers = [Exemplars::new(8), Exemplars::new(8)];
        let note = |worker: usize, route: &str, trace: u128, second: u64, millis: u64| {
            let started = UNIX_EPOCH + Duration::from_secs(second);
            workers[worker].at(["web", route]).note(trace, started, Duration::from_millis(millis));
        };
        note(0, "a\"b", 7, 100, 2);
        note(1, "a\"b", 8, 200, 2);
        note(0, "a\"b", 9, 100, 40_000);
        let line = |bound: &str, route: &str, count: u64| {
            format!(
                "portunus_request_duration_seconds_bucket{{le=\"{bound}\",listener=\"web\",route=\"{route}\"}} {count}"
            )
        };
        let bounds = [
            "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5",
            "1.0", "2.5", "10.0", "30.0", "+Inf",
        ];
        let mut lines = vec!["# TYPE portunus_request_duration_seconds histogram".to_owned()];
        for route in ["", "a\\\"b"] {
            lines.extend(bounds.map(|bound| line(bound, route, 3)));
        }
        lines.push("# EOF".to_owned());
        let text = lines.join("\n") + "\n";
        assert_eq!(insert(text.clone(), [].into_iter()), text);
        let changed = insert(text.clone(), workers.iter());
        let added: Vec<&str> = changed.lines().filter(|line| line.contains(" # {")).collect();
        assert_eq!(
            added,
            [
                format!("{} # {{trace_id=\"{:032x}\"}} 0.002 200.002", line("0.0025", "a\\\"b", 3), 8),
                format!("{} # {{trace_id=\"{:032x}\"}} 40 140.000", line("+Inf", "a\\\"b", 3), 9),
            ]
        );
        assert_eq!(changed.lines().count(), text.lines().count());
    }
}
