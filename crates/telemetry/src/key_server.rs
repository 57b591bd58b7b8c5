//! What a key server tells: an audit line and metrics per operation. Never sees a payload.
//!
//! Metrics come under two sets of names: our own, and those of older key servers (`keyless_…`), so that dashboards go on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use config::AuditTarget;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use reason::Reason;

use super::count::{self, BUCKET_COUNT, Bounds, Count, Durations};
use super::exposition::{self, Exposition};
use super::line::{self, Clock};
use super::lock::lock;
use super::page::{Metric, Page, durations, every_label, sums};
use super::queue::{Chunk, Queue};
use super::record::KeyOperation;
use super::target::Target;
use super::writer;

/// Upper bounds of the time to load all keys, seconds.
const LOAD_BOUNDS: [f64; 8] = [1e-3, 10e-3, 50e-3, 0.1, 0.5, 1.0, 5.0, 10.0];

/// Label sets that one thread counts apart; what is beyond is counted together.
const MAX_LABEL_SETS: u16 = 8_000;

/// Audit lines of one thread are handed to the writer when they reach this many bytes, if not before.
const HAND_OVER_BYTES: usize = 32 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: String,
}

/// What happens seldom.
#[derive(Debug)]
struct Families {
    waiting: Family<ClassLabels, Gauge>,
    connections: Gauge,
    failed: Family<ReasonLabels, Counter>,
    reloads: Family<ReasonLabels, Counter>,
    keys: Gauge,
    audit_lost: Gauge<u64, AtomicU64>,
    old_failed: Gauge,
    old_load: Histogram,
    expiry: Family<SourceLabels, Gauge>,
}

impl Families {
    fn register(registry: &mut Registry) -> Families {
        let all = Families {
            waiting: Family::default(),
            connections: Gauge::default(),
            failed: Family::default(),
            reloads: Family::default(),
            keys: Gauge::default(),
            audit_lost: Gauge::default(),
            old_failed: Gauge::default(),
            old_load: Histogram::new(LOAD_BOUNDS),
            expiry: Family::default(),
        };
        let ours = registry.sub_registry_with_prefix("portunus_key_server");
        ours.register("waiting", "Operations that wait now", all.waiting.clone());
        ours.register("connections", "Connections open now", all.connections.clone());
        ours.register("connections_failed", "Failed connections", all.failed.clone());
        ours.register("reloads", "Reloads by outcome", all.reloads.clone());
        ours.register("keys", "Keys held", all.keys.clone());
        ours.register("audit_lines_lost", "Audit lines that could not be written", all.audit_lost.clone());
        registry.register("keyless_failed_connection", "Failed connections", all.old_failed.clone());
        registry.register("keyless_key_load_duration", "Time to load all keys, seconds", all.old_load.clone());
        let text = "End of validity of the server's certificates";
        registry.register("certificate_expiration_timestamp_seconds", text, all.expiry.clone());
        all
    }
}

/// From a signature with a small key to what a patient client waits for.
#[derive(Debug, Default)]
struct Brief;

impl Bounds for Brief {
    const NS: [u64; BUCKET_COUNT - 1] = [
        10_000,
        20_000,
        50_000,
        100_000,
        200_000,
        500_000,
        1_000_000,
        2_000_000,
        5_000_000,
        10_000_000,
        20_000_000,
        50_000_000,
        100_000_000,
        500_000_000,
        1_000_000_000,
        10_000_000_000,
    ];
}

/// What one thread counts. It is the only writer.
#[derive(Debug)]
struct ThreadCounts {
    /// By peer, operation, outcome.
    operations: count::Family<3, Count>,
    /// By class: queued, worked.
    classes: count::Family<1, [Durations<Brief>; 2]>,
    /// By operation, error: worked, from arrival to answer.
    types: count::Family<2, [Durations<Brief>; 2]>,
    pings: Count,
}

/// One thread's end of reporting. Takes no lock for an operation; hands audit lines over many at a time.
#[derive(Debug)]
pub struct KeyReport {
    counts: Arc<ThreadCounts>,
    audit: Option<RefCell<Audit>>,
}

/// A thread's audit lines on their way to the writer.
#[derive(Debug)]
struct Audit {
    queue: Arc<Queue>,
    clock: Clock,
    lines: Chunk,
}

impl KeyReport {
    /// An operation came to its end.
    pub fn operation(&self, record: &KeyOperation<'_>) {
        let counts = &self.counts;
        counts.operations.at([record.peer, record.operation, record.outcome.name()]).add(1);
        if record.class != "none" {
            let [queue, service] = counts.classes.at([record.class]);
            queue.observe(record.queued);
            if !record.service.is_zero() {
                service.observe(record.service);
            }
            let [exec, total] = counts.types.at([record.operation, record.outcome.error()]);
            exec.observe(record.service);
            total.observe(record.queued + record.service);
        }
        if let Some(audit) = &self.audit {
            let audit = &mut *audit.borrow_mut();
            line::key_operation(&mut audit.lines.bytes, &mut audit.clock, SystemTime::now(), record);
            audit.lines.lines += 1;
            if audit.lines.bytes.len() >= HAND_OVER_BYTES {
                audit.queue.hand_over_or_lose(&mut audit.lines);
            }
        }
    }

    /// A ping was answered.
    pub fn ping(&self) {
        self.counts.pings.add(1);
    }

    /// Hands over the audit lines so far: at the end of a turn, and before the thread sleeps.
    pub fn flush(&self) {
        if let Some(audit) = &self.audit {
            let audit = &mut *audit.borrow_mut();
            if audit.lines.lines > 0 {
                audit.queue.hand_over_or_lose(&mut audit.lines);
            }
        }
    }
}

impl Drop for KeyReport {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Sums what the threads counted.
#[derive(Debug, Clone, Default)]
struct Threads(Arc<Mutex<Vec<Arc<ThreadCounts>>>>);

impl Threads {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<ThreadCounts>>> {
        lock(&self.0)
    }
}

impl Collector for Threads {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut Page::Values(encoder))
    }
}

impl Threads {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let threads = self.all();
        let operations = sums(&threads, |thread| &thread.operations, every_label);
        let mut by_opcode: BTreeMap<[&str; 1], u64> = BTreeMap::new();
        for ([_, operation, _], count) in &operations {
            *by_opcode.entry([*operation]).or_default() += count;
        }
        let pings: u64 = threads.iter().map(|thread| thread.pings.get()).sum();
        if pings > 0 {
            *by_opcode.entry(["ping"]).or_default() += pings;
        }
        let labels = ["peer", "operation", "outcome"];
        page.counters("portunus_key_server_operations", "Operations by peer and outcome", labels, operations)?;
        let by_class = |which: usize| {
            durations(&threads, |thread| &thread.classes, move |slot| ([&*slot.labels[0]], &slot.cells[which]))
        };
        let help = "From arrival until begun or given up";
        page.histograms("portunus_key_server_queue_seconds", help, ["class"], by_class(0))?;
        page.histograms("portunus_key_server_service_seconds", "Time the work itself took", ["class"], by_class(1))?;
        page.gauges("keyless_requests", "Requests by opcode", ["opcode"], by_opcode)?;
        let by_type =
            |which: usize| durations(&threads, |thread| &thread.types, move |slot| (slot.texts(), &slot.cells[which]));
        let (labels, help) = (["type", "error"], "Time the work took, by opcode, seconds");
        page.histograms("keyless_request_exec_duration_per_opcode", help, labels, by_type(0))?;
        let help = "Time from arrival to answer, by opcode, seconds";
        page.histograms("keyless_request_total_duration_per_opcode", help, labels, by_type(1))
    }
}

/// The reporting end of a key server.
#[derive(Debug)]
pub struct KeyServerReporter {
    registry: Registry,
    families: Families,
    audit: Option<Arc<Queue>>,
    threads: Threads,
}

impl KeyServerReporter {
    /// Opens the audit log and starts its writer thread.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn start(audit: Option<&AuditTarget>) -> io::Result<KeyServerReporter> {
        let open = |target: &AuditTarget| {
            let queue = Arc::new(Queue::new());
            let target = match target {
                AuditTarget::Stdout => Target::Stdout,
                AuditTarget::File(path) => Target::File(path.clone()),
            };
            writer::start("audit", target, Arc::clone(&queue))?;
            io::Result::Ok(queue)
        };
        let audit = audit.map(open).transpose()?;
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        let threads = Threads::default();
        registry.register_collector(Box::new(threads.clone()));
        Ok(KeyServerReporter { registry, families, audit, threads })
    }

    /// The end of one thread.
    pub fn thread(&self) -> KeyReport {
        let counts = Arc::new(ThreadCounts {
            operations: count::Family::new(MAX_LABEL_SETS),
            classes: count::Family::new(8),
            types: count::Family::new(1_024),
            pings: Count::default(),
        });
        self.threads.all().push(Arc::clone(&counts));
        let audit = |queue| RefCell::new(Audit { queue, clock: Clock::default(), lines: Chunk::default() });
        KeyReport { counts, audit: self.audit.clone().map(audit) }
    }

    /// A connection was opened.
    pub fn connection_opened(&self) {
        self.families.connections.inc();
    }

    /// A connection came to its end.
    pub fn connection_closed(&self) {
        self.families.connections.dec();
    }

    /// A connection ended badly.
    pub fn connection_failed(&self, reason: Reason) {
        self.families.failed.get_or_create(&ReasonLabels { reason: reason.code() }).inc();
        self.families.old_failed.inc();
    }

    /// So many keys are held, without having been loaded.
    pub fn held(&self, keys: usize) {
        self.families.keys.set(i64::try_from(keys).unwrap_or(i64::MAX));
    }

    /// Keys were loaded.
    pub fn loaded<'a>(&self, keys: usize, took: Duration, expiries: impl Iterator<Item = (&'a str, SystemTime)>) {
        self.held(keys);
        self.families.old_load.observe(took.as_secs_f64());
        self.families.expiry.clear();
        for (source, at) in expiries {
            let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            let gauge = self.families.expiry.get_or_create_owned(&SourceLabels { source: source.to_owned() });
            gauge.set(i64::try_from(seconds).unwrap_or(i64::MAX));
        }
    }

    /// A reload ended.
    pub fn reloaded(&self, ok: bool) {
        let reason = if ok { "ok" } else { "rejected" };
        self.families.reloads.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Adds the metrics that threads count to a list.
    pub(super) fn list(&self, list: &mut Vec<Metric>) {
        // Listing cannot fail.
        let _ = self.threads.write(&mut Page::Names(list));
    }

    /// All metrics as text. `waiting`: jobs that wait, by class.
    pub fn metrics(&self, exposition: Exposition, waiting: &[(&'static str, usize)]) -> String {
        for (class, count) in waiting {
            let gauge = self.families.waiting.get_or_create_owned(&ClassLabels { class });
            gauge.set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        if let Some(audit) = &self.audit {
            self.families.audit_lost.set(audit.lost());
        }
        let mut text = String::with_capacity(16 * 1024);
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        match exposition {
            Exposition::OpenMetrics => text,
            Exposition::Text => exposition::to_text(&text),
        }
    }

    /// Opens the audit log again, after it was moved away.
    pub fn reopen(&self) {
        if let Some(audit) = &self.audit {
            audit.reopen();
        }
    }

    /// Writes what waits, until `deadline` from now.
    pub fn shutdown(&self, deadline: Duration) {
        if let Some(audit) = &self.audit {
            audit.stop(deadline);
        }
    }
}
