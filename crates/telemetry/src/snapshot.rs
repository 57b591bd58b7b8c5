//! Totals at one moment as values, for those who show them otherwise than as metrics: the API of the admin side.
//!
//! Sums over workers and the percentiles of what came between two moments. Formats nothing.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::count::{BUCKET_COUNT, Bounds, Usual};
use super::shared::Shared;
use super::worker::WorkerShared;

/// Requests by the first digit of their status; those without a response first.
pub type ByClass = [u64; 6];

/// Totals at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// When the process began to report.
    pub started: Option<SystemTime>,
    /// Loads of the configuration after the first one.
    pub reloads: Reloads,
    /// By listener.
    pub listeners: BTreeMap<String, ListenerTotals>,
    /// Requests by route; an empty name stands for those that none took.
    pub routes: BTreeMap<String, ByClass>,
    /// By upstream and server.
    pub servers: BTreeMap<(String, String), ServerTotals>,
    /// What was rejected or failed, by side at fault and reason.
    pub faults: BTreeMap<(String, String), u64>,
    /// How long requests took.
    pub latency: Latency,
    /// Handshakes, by what was negotiated.
    pub handshakes: BTreeMap<Negotiated, u64>,
    /// Operations at key servers, by group and server.
    pub key_servers: BTreeMap<(String, String), KeyServerTotals>,
}

/// What a handshake came to, as metrics name it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Negotiated {
    /// The version.
    pub version: String,
    /// The suite.
    pub cipher: String,
    /// The kind of our key.
    pub key_type: String,
    /// It resumed a session.
    pub resumed: bool,
}

/// What was counted of one key server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyServerTotals {
    /// Operations that it was asked for.
    pub operations: u64,
    /// Those that did not succeed.
    pub failures: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Some worker can ask it.
    pub up: bool,
    /// The configuration names it.
    pub configured: bool,
}

/// Loads of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloads {
    /// Those that became active.
    pub taken: u64,
    /// Those that were rejected.
    pub rejected: u64,
    /// When one last became active.
    pub last: Option<SystemTime>,
    /// The last one was rejected.
    pub last_rejected: bool,
}

/// What a listener has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenerTotals {
    /// Connections and flows that were accepted.
    pub accepted: u64,
    /// Those that have ended.
    pub closed: u64,
    /// Requests that have ended.
    pub requests: u64,
    /// Full handshakes.
    pub full_handshakes: u64,
    /// Handshakes that resumed a session.
    pub resumed_handshakes: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
}

impl ListenerTotals {
    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }

    fn add(&mut self, other: &ListenerTotals) {
        self.accepted += other.accepted;
        self.closed += other.closed;
        self.requests += other.requests;
        self.full_handshakes += other.full_handshakes;
        self.resumed_handshakes += other.resumed_handshakes;
        self.received += other.received;
        self.sent += other.sent;
    }
}

/// What was counted of one server of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerTotals {
    /// Requests that ended at it.
    pub requests: u64,
    /// Those that failed because of it.
    pub failures: u64,
    /// Further tries of them.
    pub retries: u64,
}

/// Counts by how long something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency([u64; BUCKET_COUNT]);

impl Default for Latency {
    fn default() -> Latency {
        Latency([0; BUCKET_COUNT])
    }
}

impl Latency {
    /// What came since an earlier moment.
    pub fn since(&self, earlier: &Latency) -> Latency {
        let mut counts = self.0;
        counts.iter_mut().zip(earlier.0).for_each(|(now, then)| *now = now.saturating_sub(then));
        Latency(counts)
    }

    /// The buckets: the longest time in each, and how many there were. What took longer than the last bound counts as that.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let bounds = Usual::NS.iter().chain(Usual::NS.last()).map(|ns| Duration::from_nanos(*ns));
        bounds.zip(self.0)
    }

    /// A time that this share of them (of 1,000) did not exceed; none where there were none. It is the bound of a bucket; what took longer than the last
    /// one counts as that.
    pub fn percentile(&self, thousandths: u64) -> Option<Duration> {
        let all: u64 = self.0.iter().sum();
        let wanted = (all * thousandths).div_ceil(1_000).max(1);
        let mut seen = 0;
        let within = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let bound = within.filter(|_| all > 0)?;
        Usual::NS.get(bound).or(Usual::NS.last()).map(|ns| Duration::from_nanos(*ns))
    }
}

impl Snapshot {
    /// Sums up all workers.
    pub(super) fn take(shared: &Shared) -> Snapshot {
        let mut snapshot = Snapshot { started: Some(shared.started), ..Snapshot::default() };
        let mut sum_ns = 0;
        for worker in shared.workers() {
            for slot in worker.listeners.slots() {
                let cells = &slot.cells;
                let [mut full, mut resumed] = [[0; BUCKET_COUNT]; 2];
                cells.full_handshakes.add_to(&mut full, &mut sum_ns);
                cells.resumed_handshakes.add_to(&mut resumed, &mut sum_ns);
                let totals = ListenerTotals {
                    accepted: cells.opened.get(),
                    closed: cells.closed.get(),
                    requests: 0,
                    full_handshakes: full.iter().sum(),
                    resumed_handshakes: resumed.iter().sum(),
                    received: cells.received.get(),
                    sent: cells.sent.get(),
                };
                snapshot.listeners.entry(slot.labels[0].to_string()).or_default().add(&totals);
            }
            for slot in worker.routes.slots() {
                let mut requests = [0; BUCKET_COUNT];
                slot.cells.add_to(&mut requests, &mut sum_ns);
                snapshot.listeners.entry(slot.labels[0].to_string()).or_default().requests +=
                    requests.iter().sum::<u64>();
                snapshot.latency.0.iter_mut().zip(requests).for_each(|(all, count)| *all += count);
            }
            for slot in worker.requests.slots() {
                let [_, route, _, code] = slot.texts();
                let class = code.bytes().next().map_or(0, |digit| usize::from(digit.wrapping_sub(b'0')));
                let counts = snapshot.routes.entry(route.to_owned()).or_default();
                counts[if class < counts.len() { class } else { 0 }] += slot.cells.get();
            }
            for slot in worker.upstreams.slots() {
                let [upstream, server] = slot.texts();
                let totals = snapshot.servers.entry((upstream.to_owned(), server.to_owned())).or_default();
                totals.requests += slot.cells.requests.get();
                totals.failures += slot.cells.failures.get();
                totals.retries += slot.cells.retries.get();
            }
            snapshot.add_handshakes(&worker);
            snapshot.add_key_servers(&worker);
            for slot in worker.faults.slots() {
                let [side, reason] = slot.texts();
                *snapshot.faults.entry((side.to_owned(), reason.to_owned())).or_default() += slot.cells.get();
            }
        }
        let slow = shared.slow();
        snapshot.reloads = Reloads {
            taken: slow.reloads,
            rejected: slow.failed_reloads,
            last: slow.last_reload,
            last_rejected: slow.last_reload_failed,
        };
        snapshot
    }

    fn add_handshakes(&mut self, worker: &WorkerShared) {
        for slot in worker.handshakes.slots() {
            let [_, version, cipher, key_type, resumed] = slot.texts().map(str::to_owned);
            let negotiated = Negotiated { version, cipher, key_type, resumed: resumed == "true" };
            *self.handshakes.entry(negotiated).or_default() += slot.cells.get();
        }
    }

    fn add_key_servers(&mut self, worker: &WorkerShared) {
        for slot in worker.key_operations.slots() {
            let [group, server, outcome] = slot.texts();
            let totals = self.key_servers.entry((group.to_owned(), server.to_owned())).or_default();
            totals.operations += slot.cells.get();
            totals.failures += if outcome == "success" { 0 } else { slot.cells.get() };
        }
        for slot in worker.key_servers.slots() {
            let [group, server] = slot.texts();
            let totals = self.key_servers.entry((group.to_owned(), server.to_owned())).or_default();
            totals.connections += slot.cells.connections.get();
            totals.up |= slot.cells.usable.get() > 0;
            totals.configured |= slot.cells.configured.get() > 0;
        }
    }

    /// All listeners together.
    pub fn total(&self) -> ListenerTotals {
        let mut total = ListenerTotals::default();
        self.listeners.values().for_each(|listener| total.add(listener));
        total
    }

    /// Requests of all routes.
    pub fn by_class(&self) -> ByClass {
        let mut all = ByClass::default();
        self.routes.values().for_each(|counts| all.iter_mut().zip(counts).for_each(|(all, count)| *all += count));
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_came_between() {
        let counts = |rows: &[(usize, u64)]| {
            let mut latency = Latency::default();
            rows.iter().for_each(|(bucket, count)| latency.0[*bucket] = *count);
            latency
        };
        let millis = |latency: &Latency, thousandths| latency.percentile(thousandths).map(|time| time.as_micros());
        assert_eq!(millis(&counts(&[]), 500), None);
        let earlier = counts(&[(3, 1_000)]);
        let now = counts(&[(3, 1_090), (6, 9), (16, 1)]);
        let between = now.since(&earlier);
        for (thousandths, expected) in
            [(1, 1_000), (500, 1_000), (900, 1_000), (950, 10_000), (990, 10_000), (1_000, 30_000_000)]
        {
            assert_eq!(millis(&between, thousandths), Some(expected), "{thousandths}");
        }
        assert_eq!(millis(&earlier.since(&now), 500), None, "a worker that began anew counts as none");
    }
}
