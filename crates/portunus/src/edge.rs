//! The edge as a process: what is started before it serves, and how the supervisor runs it.

mod certificates;
mod changes;
mod decisions;
mod enrolment;
mod history;
pub mod fleet;
mod orders;
pub mod sandbox;
mod views;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use acme::peers::Membership;
use config::{AdminConfig, Config, ENROLLED_IDENTITY, ENROLLED_SERVER_CA, LogOutput, Reloaded, SandboxMode};
use net::Inherited;
use proxy::background::{discovery, documents, key_sets, rate_store, rates, switches, tickets, upkeep};
use proxy::passport::self_test;
use proxy::server::{RateCounts, Server, Source, State};
use telemetry::{Diagnostics, Reporter, Snapshot};
use tokio::task::AbortHandle;

use crate::admin::{AdminState, Change, Operable, Rejection, ReloadRequest, View};
use crate::supervisor::{self, Belongings, Beside, Control, Origin, Plan, Reload, Reloader, Role, Watched};
use sandbox::{Kept, Needs};

/// How long the last log lines may take.
const LOG_DEADLINE: Duration = Duration::from_secs(2);

/// A running edge.
pub struct Edge {
    server: Server,
    reporter: Arc<Reporter>,
    /// The task that writes files for whoever comes next: it orders certificates, and keeps the keys of tickets.
    writing: OnceLock<AbortHandle>,
    /// Those of the last reload; none if it became active.
    problems: Mutex<Vec<String>>,
    began: Instant,
    /// What the sandbox left it.
    kept: Arc<OnceLock<Kept>>,
    /// What there is to say of the fleet, if it is a node of one.
    fleet: Mutex<Option<String>>,
    /// Its place among those who order certificates, until the task that orders takes it.
    membership: Mutex<Option<Membership>>,
    /// What is amiss with client certificates that are renewed.
    enrolments: enrolment::Concerns,
    history: history::History,
}

/// Runs an edge until it is told to end. `observe` is called once when it serves, and what it gives is kept until the end.
pub fn run<T>(
    config: Config,
    source: Source,
    origin: Origin,
    observe: impl FnOnce(&Arc<Edge>, Reloader) -> T,
) -> ExitCode {
    run_with(config, source, origin, (|_: &mut State| (), |_: &Server| ()), observe)
}

/// As [`run`]. The two functions add to what it begins with, and see to it before it serves.
fn run_with<T>(
    config: Config,
    source: Source,
    origin: Origin,
    (know, see_to): (impl FnOnce(&mut State), impl FnOnce(&Server)),
    observe: impl FnOnce(&Arc<Edge>, Reloader) -> T,
) -> ExitCode {
    let watched = watched(&config, origin.watched.as_deref());
    let (level, period) = (config.log.level.clone(), period(&config));
    let mode = origin.sandbox(config.sandbox.mode);
    let (beside, control) = (origin.beside.clone(), origin.control.clone());
    let needs = Needs::of(&config, &beside, &control);
    let kept = Arc::new(OnceLock::new());
    let left = Arc::clone(&kept);
    let source = within(source, beside, control, Arc::clone(&kept));
    let start = |inherited: &mut Inherited, mut state| {
        know(&mut state);
        Edge::start(config, source, kept, inherited, state).inspect(|edge| see_to(&edge.server))
    };
    let plan = Plan { prepare: || prepare(&level, &needs, mode, &left), watched, period, start, sandbox: mode };
    supervisor::run(origin, plan, |edge: &Arc<Edge>, reloader| {
        for (listener, transport, address) in edge.server.endpoints() {
            tracing::info!(listener, transport, %address, "listening");
        }
        let shared = edge.server.shared();
        tokio::task::spawn_local(self_test::report(self_test::targets(&edge.config())));
        tokio::task::spawn_local(upkeep::run(Arc::clone(shared)));
        tokio::task::spawn_local(history::run(Arc::downgrade(edge)));
        tokio::task::spawn_local(key_sets::run(Arc::clone(shared)));
        tokio::task::spawn_local(switches::run(Arc::clone(shared)));
        tokio::task::spawn_local(rates::run(Arc::clone(shared)));
        tokio::task::spawn_local(discovery::run(Arc::clone(shared)));
        tokio::task::spawn_local(rate_store::run(Arc::clone(shared)));
        tokio::task::spawn_local(documents::run(Arc::clone(shared)));
        let orderer = Arc::clone(edge);
        let orders = async move {
            // First polled when everything is set up.
            let membership = orderer.membership.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (generations, reporter) = (Arc::clone(&orderer.server.shared().generation), orderer.reporter.clone());
            drop(orderer);
            acme::run(generations, reporter, membership).await;
        };
        let tickets = tickets::run(Arc::clone(shared), Arc::clone(edge.server.tickets()));
        let concerns = Arc::clone(&edge.enrolments);
        let renewals = enrolment::run(Arc::clone(&shared.generation), Arc::clone(edge.reporter()), concerns);
        let writing = async { tokio::join!(orders, tickets, renewals) };
        // It is set once.
        let _ = edge.writing.set(tokio::task::spawn_local(writing).abort_handle());
        observe(edge, reloader)
    })
}

impl Edge {
    fn start(
        config: Config,
        source: Source,
        kept: Arc<OnceLock<Kept>>,
        inherited: &mut Inherited,
        state: State,
    ) -> Result<Edge, Vec<String>> {
        let descriptors = net::process::raise_descriptor_limit();
        let reporter = Reporter::start(&config.log, config.workers);
        let reporter = reporter.map_err(|error| vec![format!("access log: {error}")])?;
        let traces = reporter.open_traces(config.tracing.as_ref()).and_then(|export| reporter.switch_traces(export));
        traces.map_err(|error| vec![error.to_string()])?;
        let server = Server::prepare(config, source, Arc::clone(&reporter), descriptors, (inherited, state))?;
        Ok(Edge {
            server,
            reporter,
            writing: OnceLock::new(),
            problems: Mutex::default(),
            began: Instant::now(),
            kept,
            fleet: Mutex::default(),
            membership: Mutex::default(),
            enrolments: enrolment::Concerns::default(),
            history: history::History::default(),
        })
    }

    /// What it has counted.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// The active configuration.
    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.server.shared().generation.load().config)
    }

    /// Ends the log; says how many lines it never took, those given up in the last moments included.
    fn end_log(&self) {
        let waiting = self.reporter.shutdown(LOG_DEADLINE);
        let lost = self.reporter.lines_lost();
        if lost > 0 {
            tracing::error!(
                lines = lost,
                waiting,
                "log: access-log lines were lost; those waiting could not be written at the end"
            );
        }
    }
}

impl Role for Edge {
    fn seal(&self) -> Result<bool, Vec<String>> {
        self.kept.get().map_or(Ok(false), |kept| kept.seal().map_err(|problem| vec![problem]))
    }

    fn serve(&self) -> Result<(), Vec<String>> {
        self.server.serve()
    }

    fn is_serving(&self) -> bool {
        self.server.is_serving()
    }

    fn beats(&self) -> Vec<u64> {
        self.server.beats()
    }

    fn belongings(&self) -> Result<Belongings, Vec<String>> {
        let (sockets, state) = self.server.belongings()?;
        Ok(Belongings { sockets, state, rates: self.server.rates(), timeout: self.config().limits.upgrade_timeout })
    }

    fn go_on_counting(&self, counts: &RateCounts) -> Result<(), String> {
        self.server.go_on_counting(counts)
    }

    fn hand_over(&self) {
        // The other process goes on with the orders that were begun, and with our keys.
        self.writing.get().iter().for_each(|writing| writing.abort());
        self.server.hand_over();
    }

    fn generation(&self) -> u64 {
        self.server.shared().generation.load().number
    }

    fn reload(&self, what: Reload) -> Result<Option<Reloaded>, Vec<String>> {
        let outcome = match what {
            Reload::All => self.server.reload().map(Some),
            Reload::IfChanged => self.server.reload_if_changed(),
            Reload::Named => self.server.reload_keystores().map(Some),
        };
        let outcome = outcome.map_err(|mut problems| {
            let hint = self.kept.get().and_then(|kept| kept.hint(&problems));
            problems.extend(hint);
            problems
        });
        let problems = outcome.as_ref().err().cloned().unwrap_or_default();
        *self.problems.lock().unwrap_or_else(PoisonError::into_inner) = problems;
        outcome
    }

    fn watched(&self, configuration: Option<&Path>) -> Watched {
        watched(&self.config(), configuration)
    }

    fn period(&self) -> Duration {
        period(&self.config())
    }

    fn supervise(&self) {
        self.server.replace_dead_workers();
        telemetry::end_level();
    }

    fn reopen_logs(&self) {
        self.reporter.reopen();
    }

    fn admin(&self) -> Option<AdminConfig> {
        self.config().admin.clone()
    }

    fn pages(self: &Arc<Self>, reload: ReloadRequest) -> AdminState {
        let edge = || Arc::clone(self);
        let (for_metrics, for_clients, for_config, for_ready, for_shadows) = (edge(), edge(), edge(), edge(), edge());
        let for_started = edge();
        AdminState {
            metrics: Box::new(move |exposition| for_metrics.reporter.metrics(exposition)),
            clients: Some(Box::new(move |by_rate| for_clients.reporter.clients_json(by_rate))),
            config_json: Box::new(move || for_config.config().effective.to_string()),
            reload,
            upgrade: None,
            api: Some(Arc::clone(self) as Arc<dyn Operable>),
            ready: Box::new(move || for_ready.server.ready().map(|()| for_ready.standing())),
            extra: vec![
                ("/shadow", Box::new(move || for_shadows.reporter.shadows_json())),
                ("/started", Box::new(move || for_started.server.started().effective.to_string())),
            ],
        }
    }

    fn drain_times(&self) -> (Duration, Duration) {
        let limits = &self.config().limits;
        (limits.drain_delay, limits.drain_timeout)
    }

    fn leave(&self) {
        self.server.leave();
    }

    fn stop_accepting(&self) {
        self.server.stop_accepting();
    }

    fn open(&self) -> usize {
        self.server.open()
    }

    fn stop(&self) -> usize {
        let left = self.server.stop();
        self.end_log();
        left
    }
}

impl Operable for Edge {
    fn view(&self, view: View) -> serde_json::Value {
        self.show(view)
    }

    fn totals(&self) -> Snapshot {
        self.reporter.snapshot()
    }

    fn change(&self, change: &Change) -> Result<serde_json::Value, Rejection> {
        self.apply(change)
    }
}

/// A source whose configurations stay within what the sandbox left open.
fn within(source: Source, beside: Beside, control: Control, kept: Arc<OnceLock<Kept>>) -> Source {
    Box::new(move || {
        let config = source()?;
        let lacking = kept.get().map(|kept| kept.lacks(&Needs::of(&config, &beside, &control))).unwrap_or_default();
        if lacking.is_empty() { Ok(config) } else { Err(lacking) }
    })
}

/// What the process does before anything is read: it gives up what it does not need.
fn prepare(level: &str, needs: &Needs, mode: SandboxMode, left: &OnceLock<Kept>) -> Result<Diagnostics, Vec<String>> {
    // Before any thread is made: what is given up here is given up by all of them.
    let undumped = net::process::forbid_core_dumps();
    net::process::raise_descriptor_limit();
    let (kept, problems) = sandbox::enter(needs, mode)?;
    let diagnostics = Diagnostics::start(level).map_err(|error| vec![format!("diagnostics: {error}")])?;
    if let Err(error) = undumped {
        tracing::warn!(%error, "core dumps stay possible; they would hold private keys");
    }
    log_panics();
    if mode != SandboxMode::Off {
        kept.report(&problems);
        // It is set once.
        let _ = left.set(kept);
    }
    Ok(diagnostics)
}

/// The configuration file, if it is to be watched, and everything it names that may change without it. Folders that certificates are ordered into are
/// made: what is not there cannot be watched.
fn watched(config: &Config, configuration: Option<&Path>) -> Watched {
    let mut watched = Watched::new(configuration);
    watched.add_included(&config.included);
    if let Some(LogOutput::File(path)) = config.log.access.as_ref().map(|access| &access.output) {
        watched.add_own(path);
    }
    acme::make_folders(config);
    for keystore in config.keystores.values() {
        match &keystore.location {
            keystore::Location::PemFolder(folder) => watched.add_folder(folder),
            keystore::Location::Pkcs12(file) | keystore::Location::Jks(file) => watched.add_file(file),
        }
    }
    config.contracts.values().flat_map(|contract| contract.files()).for_each(|file| watched.add_file(file));
    config.tokens.values().filter_map(|tokens| tokens.files()).for_each(|file| watched.add_file(file));
    config.policies.values().flat_map(|policy| policy.files()).for_each(|file| watched.add_file(file));
    config.geoip.files().for_each(|file| watched.add_file(file));
    config.response_files().for_each(|file| watched.add_file(file));
    config.ech_keys.iter().for_each(|file| watched.add_file(file));
    config.client_trust_files().for_each(|file| watched.add_file(file));
    for folder in config.key_servers.values().filter_map(|group| group.enrolment.as_ref()) {
        [ENROLLED_IDENTITY, ENROLLED_SERVER_CA].iter().for_each(|name| watched.add_file(&folder.join(name)));
    }
    watched
}

/// How often the keystores are read without a reason.
fn period(config: &Config) -> Duration {
    config.keystores.values().map(|keystore| keystore.reload_interval).min().unwrap_or(Duration::MAX)
}

/// A panic ends one connection; its trace goes where everything else goes.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let text =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no text");
        tracing::error!(place, "panic: {text}");
    }));
}
