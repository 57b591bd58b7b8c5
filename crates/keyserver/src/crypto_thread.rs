//! The threads that sign, and signing itself, wherever it happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use telemetry::{KeyOperation, KeyOutcome, KeyReport};
use wire::keyless::{ErrorCode, Frame, Operation};

use super::backlog::Batch;
use super::keys::Key;
use super::link::Link;
use super::queue::{Job, Scheduler};
use super::shared::Shared;

/// Crypto threads run at a lower priority than the threads that talk to peers, so that a response is not late because others are being made.
pub(super) const NICENESS: i32 = 5;

/// A thread's life: takes work until the server ends.
pub(super) fn run(shared: &Shared) {
    net::process::lower_priority(NICENESS);
    let report = shared.reporter.thread();
    let mut batch = Batch::default();
    let mut result = Vec::with_capacity(1024);
    while shared.scheduler.next(&mut batch, || report.flush()) {
        for job in batch.dropped.drain(..) {
            drop_job(&report, &job);
        }
        for job in batch.jobs.drain(..) {
            if job.link.take_cancelled(job.id) {
                cancelled(&report, &job);
                continue;
            }
            let work = Work {
                link: &job.link,
                id: job.id,
                operation: job.operation,
                key: &job.key,
                payload: job.payload.bytes(),
                received: job.received,
                begun: Instant::now(),
            };
            let ended = work.perform(&report, &mut result);
            shared.scheduler.learn(job.key.class, ended.saturating_duration_since(work.begun));
        }
    }
}

/// One operation about to be done.
pub(super) struct Work<'a> {
    pub(super) link: &'a Arc<Link>,
    pub(super) id: u32,
    pub(super) operation: Operation,
    pub(super) key: &'a Arc<Key>,
    pub(super) payload: &'a [u8],
    pub(super) received: Instant,
    pub(super) begun: Instant,
}

impl Work<'_> {
    /// Does it, answers, and gives the time at its end. `result` is memory to work with.
    pub(super) fn perform(&self, report: &KeyReport, result: &mut Vec<u8>) -> Instant {
        let outcome = match self.key.signing.perform(self.operation, self.payload, result) {
            Ok(()) => {
                self.link.respond(&Frame::response(self.id, result));
                KeyOutcome::Done
            }
            Err(_) => {
                self.link.reject(self.id, ErrorCode::CRYPTO, None);
                KeyOutcome::Rejected(ErrorCode::CRYPTO)
            }
        };
        let ended = Instant::now();
        let service = ended.saturating_duration_since(self.begun);
        report.operation(&KeyOperation {
            peer: &self.link.peer.label,
            address: self.link.peer.address,
            ski: Some(&self.key.ski),
            operation: self.operation.name(),
            class: self.key.class.name(),
            outcome,
            queued: self.begun.saturating_duration_since(self.received),
            service,
        });
        ended
    }
}

/// Answers a job that is not executed: it waited for too long, or nobody waits for it any more.
pub(super) fn drop_job(report: &KeyReport, job: &Job) {
    if job.link.take_cancelled(job.id) {
        return cancelled(report, job);
    }
    let reject = |code, retry_after| job.link.reject(job.id, code, retry_after);
    let outcome = if job.link.is_closed() {
        job.link.drop_request();
        KeyOutcome::PeerLeft
    } else if job.link.extended && Instant::now() < job.deadline {
        // What the job has waited is what the next one would.
        reject(ErrorCode::BUSY, Some(microseconds(job.received.elapsed())));
        KeyOutcome::Rejected(ErrorCode::BUSY)
    } else {
        reject(if job.link.extended { ErrorCode::DEADLINE_PASSED } else { ErrorCode::INTERNAL }, None);
        KeyOutcome::Expired
    };
    report_unbegun(report, job, outcome);
}

/// What fits in an item of the protocol.
pub(super) fn microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

fn cancelled(report: &KeyReport, job: &Job) {
    job.link.drop_request();
    report_unbegun(report, job, KeyOutcome::Cancelled);
}

fn report_unbegun(report: &KeyReport, job: &Job, outcome: KeyOutcome) {
    report.operation(&KeyOperation {
        peer: &job.link.peer.label,
        address: job.link.peer.address,
        ski: Some(&job.key.ski),
        operation: job.operation.name(),
        class: job.key.class.name(),
        outcome,
        queued: job.received.elapsed(),
        service: Duration::ZERO,
    });
}

/// Starts the crypto threads.
///
/// # Errors
/// No thread can be made.
pub(super) fn start(shared: &Arc<Shared>, count: usize) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let start = |index: usize| {
        let shared = Arc::clone(shared);
        std::thread::Builder::new().name(format!("crypto-{index}")).spawn(move || run(&shared))
    };
    (0..count.max(1)).map(start).collect()
}

/// Ends the crypto threads.
pub(super) fn stop(scheduler: &Scheduler, threads: Vec<std::thread::JoinHandle<()>>) {
    scheduler.stop();
    for thread in threads {
        // One that panicked has been reported already.
        let _ = thread.join();
    }
}
