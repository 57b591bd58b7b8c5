//! What is counted of operations at key servers.
//!
//! Written by the worker's client of key servers, summed by `metrics`. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use super::worker::{WorkerReport, WorkerShared};

/// One worker's counters of one group of key servers.
#[derive(Debug, Clone)]
pub struct KeyCounts {
    shared: Arc<WorkerShared>,
    group: Arc<str>,
}

impl KeyCounts {
    pub(super) fn new(shared: &Arc<WorkerShared>, group: &str) -> KeyCounts {
        KeyCounts { shared: Arc::clone(shared), group: group.into() }
    }

    /// One try at a server ended: `success`, or what went wrong.
    pub fn operation(&self, server: &str, outcome: &'static str, took: Duration) {
        self.shared.key_operations.at([&*self.group, server, outcome]).add(1);
        if outcome == "success" {
            self.shared.key_servers.at([&*self.group, server]).durations.observe(took);
        }
    }

    /// An operation is tried on another server.
    pub fn retried(&self) {
        self.shared.key_groups.at([&*self.group]).retries.add(1);
    }

    /// So many operations are under way now.
    pub fn in_flight(&self, operations: usize) {
        self.shared.key_groups.at([&*self.group]).in_flight.set(operations as u64);
    }

    /// How a server stands now: open connections, whether it can be asked, and whether the configuration still names it.
    pub fn server(&self, server: &str, connections: usize, usable: bool, configured: bool) {
        let cells = self.shared.key_servers.at([&*self.group, server]);
        cells.connections.set(connections as u64);
        cells.usable.set(u64::from(usable));
        cells.configured.set(u64::from(configured));
    }
}

impl WorkerReport {
    /// The counters of a group of key servers.
    pub fn key_counts(&self, group: &str) -> KeyCounts {
        KeyCounts::new(self.shared(), group)
    }
}
