//! What a key server tells: an audit line and metrics per operation. Never sees a payload.
//!
//! Metrics come under two sets of names: our own, and those of older key servers (`keyless_…`), so that dashboards go on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use wire::keyless::ErrorCode;

use super::Exposition;
use super::exposition;
use super::line::{self, Clock};
use super::queue::Queue;
use super::writer::{self, Target};
use crate::config::AuditTarget;

/// Upper bounds of durations, seconds.
const BOUNDS: [f64; 16] =
    [10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.5, 1.0, 10.0];

/// Peers with metrics of their own; further ones are counted together.
const MAX_PEERS: usize = 1_000;

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOutcome {
    /// Signed or decrypted.
    Done,
    /// Answered with an error.
    Refused(ErrorCode),
    /// Its deadline passed before it was begun.
    Expired,
    /// Its peer cancelled it before it was begun.
    Cancelled,
    /// Its peer left before it was begun.
    PeerLeft,
}

impl KeyOutcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            KeyOutcome::Done => "done",
            KeyOutcome::Refused(_) => "refused",
            KeyOutcome::Expired => "expired",
            KeyOutcome::Cancelled => "cancelled",
            KeyOutcome::PeerLeft => "peer_left",
        }
    }

    /// The word for an error; empty for none.
    fn error(self) -> &'static str {
        match self {
            KeyOutcome::Done => "",
            KeyOutcome::Refused(code) => code.name(),
            other => other.name(),
        }
    }
}

/// One operation that came to its end.
#[derive(Debug)]
pub struct KeyOperation<'a> {
    /// Who asked.
    pub peer: &'a str,
    /// From where; none on Unix sockets.
    pub address: Option<SocketAddr>,
    /// For which key, held or not.
    pub ski: Option<&'a [u8; 20]>,
    /// What was asked for.
    pub operation: &'static str,
    /// The class of its key; `none` where it came to no key.
    pub class: &'static str,
    /// What became of it.
    pub outcome: KeyOutcome,
    /// From its arrival until it was begun or given up.
    pub queued: Duration,
    /// How long the work took.
    pub service: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    peer: String,
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpcodeLabels {
    opcode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabels {
    r#type: &'static str,
    error: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn histogram() -> Histogram {
    Histogram::new(BOUNDS)
}

/// Everything that is counted.
#[derive(Debug)]
struct Families {
    operations: Family<OperationLabels, Counter>,
    queue: Histograms<ClassLabels>,
    service: Histograms<ClassLabels>,
    waiting: Family<ClassLabels, Gauge>,
    connections: Gauge,
    failed: Family<ReasonLabels, Counter>,
    reloads: Family<ReasonLabels, Counter>,
    keys: Gauge,
    audit_lost: Gauge<u64, AtomicU64>,
    old_requests: Family<OpcodeLabels, Gauge>,
    old_exec: Histograms<TypeLabels>,
    old_total: Histograms<TypeLabels>,
    old_failed: Gauge,
    old_load: Histogram,
    expiry: Family<SourceLabels, Gauge>,
}

impl Families {
    fn register(registry: &mut Registry) -> Families {
        let all = Families {
            operations: Family::default(),
            queue: Family::new_with_constructor(histogram),
            service: Family::new_with_constructor(histogram),
            waiting: Family::default(),
            connections: Gauge::default(),
            failed: Family::default(),
            reloads: Family::default(),
            keys: Gauge::default(),
            audit_lost: Gauge::default(),
            old_requests: Family::default(),
            old_exec: Family::new_with_constructor(histogram),
            old_total: Family::new_with_constructor(histogram),
            old_failed: Gauge::default(),
            old_load: histogram(),
            expiry: Family::default(),
        };
        let ours = registry.sub_registry_with_prefix("portunus_keyholder");
        ours.register("operations", "Operations by peer and outcome", all.operations.clone());
        ours.register_with_unit("queue", "From arrival until begun or given up", Unit::Seconds, all.queue.clone());
        ours.register_with_unit("service", "Time the work itself took", Unit::Seconds, all.service.clone());
        ours.register("waiting", "Operations that wait now", all.waiting.clone());
        ours.register("connections", "Connections open now", all.connections.clone());
        ours.register("connections_failed", "Connections that ended badly", all.failed.clone());
        ours.register("reloads", "Reloads by outcome", all.reloads.clone());
        ours.register("keys", "Keys held", all.keys.clone());
        ours.register("audit_lines_lost", "Audit lines that could not be written", all.audit_lost.clone());
        registry.register("keyless_requests", "Requests by opcode", all.old_requests.clone());
        let text = "Time the work took, by opcode, seconds";
        registry.register("keyless_request_exec_duration_per_opcode", text, all.old_exec.clone());
        let text = "Time from arrival to answer, by opcode, seconds";
        registry.register("keyless_request_total_duration_per_opcode", text, all.old_total.clone());
        registry.register("keyless_failed_connection", "Connections that ended badly", all.old_failed.clone());
        registry.register("keyless_key_load_duration", "Time to load all keys, seconds", all.old_load.clone());
        let text = "End of validity of the server's certificates";
        registry.register("certificate_expiration_timestamp_seconds", text, all.expiry.clone());
        all
    }
}

/// The reporting end of a key server.
#[derive(Debug)]
pub struct KeyholderReporter {
    registry: Registry,
    families: Families,
    audit: Option<Audit>,
    /// Peers that have metrics of their own.
    peers: Mutex<std::collections::HashSet<String>>,
}

#[derive(Debug)]
struct Audit {
    queue: Arc<Queue>,
    scratch: Mutex<(Clock, Vec<u8>)>,
}

impl KeyholderReporter {
    /// Opens the audit log and starts its writer thread.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn start(audit: Option<&AuditTarget>) -> io::Result<KeyholderReporter> {
        let open = |target: &AuditTarget| {
            let queue = Arc::new(Queue::new());
            let target = match target {
                AuditTarget::Stdout => Target::Stdout,
                AuditTarget::File(path) => Target::File(path.clone()),
            };
            writer::start("audit", target, Arc::clone(&queue))?;
            io::Result::Ok(Audit { queue, scratch: Mutex::default() })
        };
        let audit = audit.map(open).transpose()?;
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        Ok(KeyholderReporter { registry, families, audit, peers: Mutex::default() })
    }

    /// An operation came to its end.
    pub fn operation(&self, record: &KeyOperation<'_>) {
        let families = &self.families;
        let labels = OperationLabels {
            peer: self.peer_label(record.peer),
            operation: record.operation,
            outcome: record.outcome.name(),
        };
        families.operations.get_or_create(&labels).inc();
        families.old_requests.get_or_create(&OpcodeLabels { opcode: record.operation }).inc();
        if record.class != "none" {
            let class = ClassLabels { class: record.class };
            families.queue.get_or_create(&class).observe(record.queued.as_secs_f64());
            if !record.service.is_zero() {
                families.service.get_or_create(&class).observe(record.service.as_secs_f64());
            }
            let labels = TypeLabels { r#type: record.operation, error: record.outcome.error() };
            families.old_exec.get_or_create(&labels).observe(record.service.as_secs_f64());
            families.old_total.get_or_create(&labels).observe((record.queued + record.service).as_secs_f64());
        }
        if let Some(audit) = &self.audit {
            audit.write(record);
        }
    }

    fn peer_label(&self, peer: &str) -> String {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.contains(peer) {
            return peer.to_owned();
        }
        if peers.len() < MAX_PEERS && peer.len() <= 256 {
            peers.insert(peer.to_owned());
            return peer.to_owned();
        }
        "other".to_owned()
    }

    /// A ping was answered.
    pub fn ping(&self) {
        self.families.old_requests.get_or_create(&OpcodeLabels { opcode: "ping" }).inc();
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
    pub fn connection_failed(&self, reason: &'static str) {
        self.families.failed.get_or_create(&ReasonLabels { reason }).inc();
        self.families.old_failed.inc();
    }

    /// Keys were loaded.
    pub fn loaded<'a>(&self, keys: usize, took: Duration, expiries: impl Iterator<Item = (&'a str, SystemTime)>) {
        self.families.keys.set(i64::try_from(keys).unwrap_or(i64::MAX));
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
        let reason = if ok { "ok" } else { "refused" };
        self.families.reloads.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// All metrics as text. `waiting`: jobs that wait, by class.
    pub fn metrics(&self, exposition: Exposition, waiting: &[(&'static str, usize)]) -> String {
        for (class, count) in waiting {
            let gauge = self.families.waiting.get_or_create_owned(&ClassLabels { class });
            gauge.set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        if let Some(audit) = &self.audit {
            self.families.audit_lost.set(audit.queue.lost());
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
            audit.queue.reopen();
        }
    }

    /// Writes what waits, until `deadline` from now.
    pub fn shutdown(&self, deadline: Duration) {
        if let Some(audit) = &self.audit {
            audit.queue.stop(deadline);
        }
    }
}

impl Audit {
    fn write(&self, record: &KeyOperation<'_>) {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let (clock, out) = &mut *scratch;
        out.clear();
        line::key_operation(out, clock, record);
        self.queue.push(out);
    }
}
