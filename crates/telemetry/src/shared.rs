//! What the metrics are made of: all workers, and what the process notes itself.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use super::clients::Published;
use super::exporter::Exporter;
use super::lock::lock;
use super::process::Process;
use super::slow::SlowEvents;
use super::upstreams::Upstreams;
use super::validation::ValidationMemory;
use super::worker::{Log, WorkerShared};

/// What the metrics are made of.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) workers: Mutex<Vec<Arc<WorkerShared>>>,
    pub(super) log: Log,
    pub(super) exporter: Exporter,
    pub(super) slow: Mutex<SlowEvents>,
    pub(super) validation_memory: Arc<ValidationMemory>,
    pub(super) process: Process,
    pub(super) upstreams: Upstreams,
    pub(super) started: SystemTime,
}

impl Shared {
    pub(super) fn workers(&self) -> Vec<Arc<WorkerShared>> {
        lock(&self.workers).clone()
    }

    pub(super) fn slow(&self) -> MutexGuard<'_, SlowEvents> {
        lock(&self.slow)
    }

    /// Spans that a collector has, and spans dropped anywhere.
    pub(super) fn spans(&self) -> (u64, u64) {
        let dropped: u64 = self.workers().iter().map(|worker| worker.spans_dropped.get()).sum();
        (self.exporter.queue.written(), dropped + self.exporter.queue.lost())
    }

    /// Lines written, and lines dropped anywhere.
    pub(super) fn lines(&self) -> (u64, u64) {
        let dropped: u64 = self.workers().iter().map(|worker| worker.lines_dropped.get()).sum();
        (self.log.queue.written(), dropped + self.log.queue.lost())
    }
}

/// What the workers show of their client tables.
pub(super) fn published(workers: &[Arc<WorkerShared>]) -> impl Iterator<Item = &Published> {
    workers.iter().map(|worker| &worker.clients)
}
