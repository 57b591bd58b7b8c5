//! The process-wide end of reporting: makes the workers' ends, keeps what happens seldom, sums it all up when asked.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use config::{AccessLog, LogConfig, LogOutput, TracingConfig};
use prometheus_client::registry::Registry;
use reason::Reason;

use super::clients::{self, Order};
use super::decisions::{self, Decisions};
use super::exemplars;
use super::exporter::{Export, Exporter};
use super::exposition::{self, Exposition};
use super::lock::lock;
use super::metrics::Totals;
use super::once_per_second::OncePerSecond;
use super::page::Metric;
use super::process::Process;
use super::queue::Queue;
use super::recent_errors::{self, RecentError};
use super::remote::Remote;
use super::rules::Rules;
use super::shadow;
use super::shared::{Shared, published};
use super::slow::{CertificateExpiry, EnrolmentStanding, FleetStanding, RateStoreTotals};
use super::snapshot::Snapshot;
use super::target::{Opened, Target};
use super::upstreams::Views;
use super::validation::ValidationMemory;
use super::worker::{Log, WorkerReport, WorkerShared};
use super::writer;

/// How long the end of the program waits for the collector.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(2);

/// Clients listed for the admin side.
const LISTED_CLIENTS: usize = 100;

/// The process-wide end of reporting: metrics registry, log writer, client table. Shared with the admin side.
#[derive(Debug)]
pub struct Reporter {
    shared: Arc<Shared>,
    registry: Registry,
    /// The thread that writes the access log has been started.
    is_written: AtomicBool,
    /// Number of the place where it is written.
    place: AtomicU32,
}

/// The access log that a reload wants.
#[derive(Debug)]
pub struct NewLog {
    /// Its place, open, if it is another one.
    place: Option<Opened>,
    /// How its lines are written; none if there is to be no access log.
    rules: Option<Rules>,
}

impl Reporter {
    /// Opens the log and starts its writer thread.
    ///
    /// # Errors
    /// The log file cannot be opened.
    pub fn start(log: &LogConfig, workers: usize) -> io::Result<Arc<Reporter>> {
        let place = log.access.as_ref().map(open).transpose()?;
        let rules = log.access.as_ref().map(|access| Rules::of(access, 0));
        let log =
            Log { queue: Arc::new(Queue::new()), rules: Arc::default(), complaint: Arc::new(OncePerSecond::new()) };
        let shared = Arc::new(Shared {
            workers: Mutex::new((0..workers).map(|index| Arc::new(WorkerShared::new(index))).collect()),
            log,
            exporter: Exporter::new(),
            slow: Mutex::default(),
            validation_memory: Arc::default(),
            process: Process::open(),
            upstreams: Default::default(),
            started: SystemTime::now(),
        });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Totals::new(Arc::clone(&shared))));
        let (is_written, number) = (AtomicBool::new(false), AtomicU32::new(0));
        let reporter = Reporter { shared, registry, is_written, place: number };
        reporter.switch_log(NewLog { place, rules })?;
        Ok(Arc::new(reporter))
    }

    /// Every metric, with a value or without.
    pub(super) fn list(&self) -> Vec<Metric> {
        Totals::new(Arc::clone(&self.shared)).list()
    }

    /// The handle of one worker. A worker that takes the place of one that died goes on with its counters.
    pub fn worker(self: &Arc<Reporter>, index: usize) -> WorkerReport {
        let mut workers = lock(&self.shared.workers);
        let shared = workers.iter().find(|shared| shared.adopt(index)).cloned().unwrap_or_else(|| {
            let shared = Arc::new(WorkerShared::new(index));
            shared.adopt(index);
            workers.push(Arc::clone(&shared));
            shared
        });
        WorkerReport::new(shared, self.shared.log.clone(), Arc::clone(&self.shared.exporter.queue))
    }

    /// A reload ended: `generation` is now current, or, if not `ok`, still is.
    pub fn reload(&self, ok: bool, generation: u64) {
        self.shared.slow().reload(ok.then_some(generation), SystemTime::now());
    }

    /// The first configuration, at start: no reload.
    pub fn generation(&self, generation: u64) {
        self.shared.slow().generation = generation;
    }

    /// A keystore was loaded; these are all its certificates.
    pub fn keystore_loaded(&self, keystore: &str, certificates: Vec<CertificateExpiry>) {
        self.shared.slow().keystore(keystore, Some(certificates), SystemTime::now());
    }

    /// A keystore could not be loaded; what it held before stays in use.
    pub fn keystore_failed(&self, keystore: &str) {
        self.shared.slow().keystore(keystore, None, SystemTime::now());
    }

    /// An order of a certificate ended at this authority.
    pub fn certificate_ordered(&self, keystore: &str, authority: &str, is_issued: bool) {
        self.shared.slow().certificate_ordered(keystore, authority, is_issued);
    }

    /// So many certificates that a keystore wants are missing or expired, and the last order of so many failed.
    pub fn certificates_wanted(&self, keystore: &str, missing: u64, failing: u64) {
        self.shared.slow().wanted.insert(keystore.to_owned(), (missing, failing));
    }

    /// A keystore has certificates for so many names because clients asked.
    pub fn names_on_demand(&self, keystore: &str, names: u64) {
        self.shared.slow().on_demand.insert(keystore.to_owned(), names);
    }

    /// What became of a name that a client asked for and that had no certificate.
    pub fn name_demanded(&self, keystore: &str, result: &'static str) {
        *self.shared.slow().demands.entry((keystore.to_owned(), result)).or_default() += 1;
    }

    /// How the client certificates stand that are renewed, by group of key servers: all of them.
    pub fn enrolments(&self, standings: BTreeMap<String, EnrolmentStanding>) {
        self.shared.slow().enrolments = standings;
    }

    /// How this process stands in its fleet.
    pub fn fleet(&self, standing: FleetStanding) {
        self.shared.slow().fleet = Some(standing);
    }

    /// Sets who says how upstreams and their servers stand.
    pub fn watch_upstreams(&self, views: Views) {
        self.shared.upstreams.set(views);
    }

    /// The name of an upstream's servers could not be resolved.
    pub fn resolution_failed(&self, upstream: &str, name: &str, reason: Reason) {
        self.shared.slow().resolution_failed(upstream, name, reason);
    }

    /// How the store of rates stands; none if nodes share nothing.
    pub fn rate_store(&self, totals: Option<RateStoreTotals>) {
        self.shared.slow().rate_store = totals;
    }

    /// Whether a directory says which servers an upstream has.
    pub fn directory(&self, source: &str, upstream: &str, is_up: bool) {
        self.shared.slow().directories.entry((source.to_owned(), upstream.to_owned())).or_default().0 = is_up;
    }

    /// A directory could not be asked which servers an upstream has, or was not believed.
    pub fn directory_failed(&self, source: &str, upstream: &str) {
        self.shared.slow().directories.entry((source.to_owned(), upstream.to_owned())).or_default().1 += 1;
    }

    /// Forgets the directories of upstreams for which the function says false.
    pub fn retain_directories(&self, is_used: impl Fn(&str, &str) -> bool) {
        self.shared.slow().directories.retain(|(source, upstream), _| is_used(source, upstream));
    }

    /// The account of the memory that bodies under validation take.
    pub fn validation_memory(&self) -> Arc<ValidationMemory> {
        Arc::clone(&self.shared.validation_memory)
    }

    /// The session ticket keys were rotated.
    pub fn ticket_keys_rotated(&self) {
        self.shared.slow().ticket_rotations += 1;
    }

    /// Forgets the keystores that a new configuration no longer has: those for which the function says false.
    pub fn retain(&self, keystore: impl Fn(&str) -> bool) {
        self.shared.slow().retain(keystore);
    }

    /// All metrics as text.
    pub fn metrics(&self, exposition: Exposition) -> String {
        let mut text = String::with_capacity(64 * 1024);
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        match exposition {
            Exposition::OpenMetrics => {
                let workers = self.shared.workers();
                exemplars::insert(text, workers.iter().map(|worker| &worker.exemplars))
            }
            Exposition::Text => exposition::to_text(&text),
        }
    }

    /// Totals at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.shared)
    }

    /// What each policy decided: `passed`, `rejected`, `logged`, `throttled`. Policies that were never asked are missing.
    pub fn policy_decisions(&self) -> BTreeMap<String, Decisions> {
        decisions::of_policies(&self.shared)
    }

    /// What each contract said of each operation: `passed`, `logged`, `blocked`, and `off` where it does not look.
    pub fn contract_decisions(&self) -> BTreeMap<(String, String), Decisions> {
        decisions::of_contracts(&self.shared)
    }

    /// The heaviest client addresses as JSON, by bytes since they were first noticed, or by bytes per second of late.
    pub fn clients_json(&self, by_rate: bool) -> String {
        let order = if by_rate { Order::Rate } else { Order::Bytes };
        let workers = self.shared.workers();
        clients::to_json(&clients::heaviest(published(&workers), order, LISTED_CLIENTS))
    }

    /// What stands in no document, the most frequent first, as JSON.
    pub fn shadows_json(&self) -> String {
        let workers = self.shared.workers();
        shadow::to_json(workers.iter().map(|worker| &worker.shadows))
    }

    /// What failed or was rejected last, the newest first: at most 100 of which clients are at fault, and 100 others.
    pub fn recent_errors(&self) -> Vec<RecentError> {
        let workers = self.shared.workers();
        recent_errors::newest(workers.iter().map(|worker| &worker.errors))
    }

    /// Opens the log file again (SIGUSR1). Returns at once; a path that cannot be opened is tried again, and meanwhile the old file is
    /// written.
    pub fn reopen(&self) {
        self.shared.log.queue.reopen();
    }

    /// The access log that is wanted from a reload on, if it differs from what there is; its place is open. Nothing is written there before
    /// [`Reporter::switch_log`].
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_log(&self, now: &LogConfig, wanted: &LogConfig) -> io::Result<Option<NewLog>> {
        if now.access == wanted.access {
            return Ok(None);
        }
        let moves = |wanted: &&AccessLog| now.access.as_ref().is_none_or(|now| now.output != wanted.output);
        let mut place = wanted.access.as_ref().filter(moves).map(open).transpose()?;
        let mut number = self.place.load(Ordering::Relaxed);
        if let Some(place) = &mut place {
            number += 1;
            place.place = number;
        }
        Ok(Some(NewLog { place, rules: wanted.access.as_ref().map(|access| Rules::of(access, number)) }))
    }

    /// Writes the access log to another place, or in another form, from its next line on.
    ///
    /// # Errors
    /// There was none, and no thread can be started to write it.
    pub fn switch_log(&self, NewLog { place, rules }: NewLog) -> io::Result<()> {
        let log = &self.shared.log;
        let number = place.as_ref().map(|place| place.place);
        match place {
            Some(place) if self.is_written.load(Ordering::Relaxed) => log.queue.retarget(place),
            Some(place) => {
                writer::start_on("access-log", place, Arc::clone(&log.queue))?;
                self.is_written.store(true, Ordering::Relaxed);
            }
            None => {}
        }
        self.place.store(number.unwrap_or(self.place.load(Ordering::Relaxed)), Ordering::Relaxed);
        log.rules.set(rules);
        Ok(())
    }

    /// The collector that a configuration names, if it names one. Nothing is sent there before [`Reporter::switch_traces`].
    ///
    /// # Errors
    /// The authorities to trust cannot be read.
    pub fn open_traces(&self, tracing: Option<&TracingConfig>) -> io::Result<Option<Export>> {
        let explain = |error: io::Error| io::Error::new(error.kind(), format!("tracing: {error}"));
        tracing.map(Export::new).transpose().map_err(explain)
    }

    /// Sends spans there from now on, or nowhere.
    ///
    /// # Errors
    /// No thread can be started to send them.
    pub fn switch_traces(&self, export: Option<Export>) -> io::Result<()> {
        self.shared.exporter.set(export)
    }

    /// Writes what waits and closes the log, until `deadline` from now. Call it after the workers' ends are dropped. Returns the number of
    /// lines that could not be written.
    pub fn shutdown(&self, deadline: Duration) -> u64 {
        let lost = if self.is_written.load(Ordering::Relaxed) { self.shared.log.queue.stop(deadline) } else { 0 };
        self.shared.exporter.shutdown(deadline.min(LAST_SPANS_TIMEOUT));
        lost
    }

    /// Lines of the access log that were lost so far, wherever.
    pub fn lines_lost(&self) -> u64 {
        self.shared.lines().1
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // Ends the writer thread; nobody is left to wait for it.
        self.shutdown(Duration::ZERO);
    }
}

/// What the place of an access log is called.
fn name(output: &LogOutput) -> String {
    match output {
        LogOutput::Stdout => "standard output".to_owned(),
        LogOutput::File(path) => path.display().to_string(),
        LogOutput::Journald => "journald".to_owned(),
        LogOutput::Syslog(syslog) => syslog.to_string(),
    }
}

fn open(access: &AccessLog) -> io::Result<Opened> {
    let opened = || match &access.output {
        LogOutput::File(path) => Opened::new(Target::File(path.clone())),
        output => match Remote::of(output)? {
            Some(remote) => Ok(Opened::service(name(output), remote)),
            None => Opened::new(Target::Stdout),
        },
    };
    let explain = |error: io::Error| {
        io::Error::new(error.kind(), format!("the access log {} cannot be opened: {error}", name(&access.output)))
    };
    opened().map_err(explain)
}
