//! `portunus run`: starts the server, obeys signals, and keeps an eye on the files it was built from.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::Watcher;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, sleep_until};

use crate::admin::{self, AdminHandle, AdminState};
use crate::auth::refresh;
use crate::command::watched::{News, Watched};
use crate::config::{self, AdminConfig, Config, Endpoint};
use crate::passport::self_test;
use crate::reload::Reloaded;
use crate::report::{Diagnostics, Reporter};
use crate::server::{Drained, Server, Source};
use crate::systemd;
use crate::upstream::upkeep;

/// After a change in a keystore's folder, how long it must stay quiet before it is read: a pair is written file by file.
const QUIET: Duration = Duration::from_millis(500);

/// How often dead workers are looked for.
const SUPERVISION: Duration = Duration::from_millis(200);

/// How often draining looks whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// How long the last log lines may take.
const LOG_DEADLINE: Duration = Duration::from_secs(2);

/// How a server is run, beside what its configuration says.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// Serve the admin pages on this Unix socket too, for `portunus reload`, whatever FILE says
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Do not load FILE again when it changes, only when asked to
    #[arg(long)]
    pub no_watch: bool,
}

/// Where a configuration comes from, and what goes with it.
pub struct Origin {
    /// Reads it again.
    pub source: Source,
    /// Its file, if a change of it is to be loaded.
    pub watched: Option<PathBuf>,
    /// Where the admin pages are served whatever it says.
    pub control: Option<PathBuf>,
}

impl From<Source> for Origin {
    fn from(source: Source) -> Origin {
        Origin { source, watched: None, control: None }
    }
}

/// Runs the server that `file` describes until it is told to end.
pub fn run(file: &Path, options: Options) -> ExitCode {
    match read(file) {
        Ok((config, source)) => {
            let watched = (!options.no_watch).then(|| file.to_owned());
            serve(config, Origin { source, watched, control: options.control })
        }
        Err(status) => status,
    }
}

/// The configuration in `file`, and how to read it again.
///
/// # Errors
/// The status to end with; what is wrong has been said.
pub fn read(file: &Path) -> Result<(Config, Source), ExitCode> {
    let config = config::load(file).map_err(|problems| {
        complain!("{problems}");
        ExitCode::FAILURE
    })?;
    let file = file.to_owned();
    let source: Source = Box::new(move || {
        config::load(&file).map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
    });
    Ok((config, source))
}

/// Runs a server until it is told to end: 0 if it drained, 1 if it could not start or connections had to be cut.
pub fn serve(config: Config, origin: Origin) -> ExitCode {
    serve_observed(config, origin, |_| ())
}

/// As [`serve`]; `observe` is called once when it serves, and what it gives is kept until the end.
pub fn serve_observed<T>(
    config: Config,
    origin: impl Into<Origin>,
    observe: impl FnOnce(&Arc<Reporter>) -> T,
) -> ExitCode {
    let Origin { source, watched, control } = origin.into();
    // First of all, or a signal that comes while we start would end us instead of being obeyed.
    let (runtime, mut signals) = match catch_signals() {
        Ok(caught) => caught,
        Err(error) => {
            complain!("error: cannot wait for signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    let started = start(config, source, watched);
    let (server, _diagnostics, reporter, changes) = match started {
        Ok(started) => started,
        Err(problems) => {
            problems.iter().for_each(|problem| complain!("error: {problem}"));
            return ExitCode::FAILURE;
        }
    };
    let mut admin = match AdminSide::start(&server, &reporter, control) {
        Ok(admin) => admin,
        Err(problem) => {
            complain!("error: {problem}");
            return ExitCode::FAILURE;
        }
    };
    for (listener, address) in server.endpoints() {
        tracing::info!(listener, %address, "listening");
    }
    let _observing = observe(&reporter);
    systemd::ready(&systemd::outcome(server.shared().generation.load().number, &[]));
    runtime.block_on(async {
        tokio::task::spawn_local(self_test::tell(self_test::targets(&server.shared().generation.load().config)));
        tokio::task::spawn_local(upkeep::run(Arc::clone(server.shared())));
        tokio::task::spawn_local(refresh::run(Arc::clone(server.shared())));
        obey(&mut signals, changes, &mut admin, &server, &reporter).await;
        drain(&mut signals, admin, &server, &reporter).await;
    });
    let drained = server.stop();
    tell_lost_lines(&reporter);
    match drained {
        Drained::Whole => ExitCode::SUCCESS,
        Drained::Forced(left) => {
            tracing::warn!(connections = left, "connections were closed before they had ended");
            ExitCode::FAILURE
        }
    }
}

/// Shuts down in order: not ready, no longer accepting, until nothing is open, `drain_timeout` is over, or another signal says to end now.
async fn drain(signals: &mut Signals, admin: AdminSide, server: &Server, reporter: &Reporter) {
    let limits = server.shared().generation.load().config.limits.clone();
    server.leave();
    systemd::stopping("draining");
    let seconds = |duration: Duration| duration.as_secs_f64();
    tracing::info!(
        delay_seconds = seconds(limits.drain_delay),
        timeout_seconds = seconds(limits.drain_timeout),
        "draining; another SIGTERM or SIGINT ends at once"
    );
    let stages = async {
        tokio::time::sleep(limits.drain_delay).await;
        server.stop_accepting();
        // Its address, too: the next process has the same configuration.
        drop(admin);
        let until = Instant::now() + limits.drain_timeout;
        while server.open() > 0 && Instant::now() < until {
            tokio::time::sleep(DRAIN_POLL).await;
        }
    };
    let mut stages = std::pin::pin!(stages);
    loop {
        tokio::select! {
            () = &mut stages => return,
            Some(()) = signals.terminate.recv() => break,
            Some(()) = signals.interrupt.recv() => break,
            Some(()) = signals.hangup.recv() => tracing::warn!("SIGHUP: nothing is loaded while the server shuts down"),
            Some(()) = signals.reopen.recv() => reporter.reopen(),
        }
    }
    tracing::warn!("a second signal: ending now");
    server.stop_accepting();
}

/// Ends the log; says how many lines it never took, those given up in the last moments included.
fn tell_lost_lines(reporter: &Reporter) {
    let waiting = reporter.shutdown(LOG_DEADLINE);
    let lost = reporter.lines_lost();
    if lost > 0 {
        tracing::error!(
            lines = lost,
            waiting,
            "log: access-log lines were lost; those waiting could not be written at the end"
        );
    }
}

type Started = (Arc<Server>, Diagnostics, Arc<Reporter>, Changes);

fn start(config: Config, source: Source, watched: Option<PathBuf>) -> Result<Started, Vec<String>> {
    let one = |what: &str, error: std::io::Error| vec![format!("{what}: {error}")];
    let diagnostics = Diagnostics::start(&config.log.level).map_err(|error| one("diagnostics", error))?;
    let descriptors = net::process::raise_descriptor_limit();
    if let Err(error) = net::process::forbid_core_dumps() {
        tracing::warn!(%error, "core dumps stay possible; they would hold private keys");
    }
    log_panics();
    let reporter = Reporter::start(&config.log, config.workers).map_err(|error| one("access log", error))?;
    // Watched before they are read, so that no change falls between.
    let changes = Changes::watch(&Arc::new(config.clone()), watched);
    let server = Server::start(config, source, Arc::clone(&reporter), descriptors)?;
    Ok((Arc::new(server), diagnostics, reporter, changes))
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

/// The admin side as configured, if there is one; stops when dropped.
struct AdminSide {
    running: Option<AdminHandle>,
    /// The control socket; stays where it is.
    _control: Option<AdminHandle>,
    /// What was last tried.
    config: Arc<Config>,
}

impl AdminSide {
    fn start(server: &Arc<Server>, reporter: &Arc<Reporter>, control: Option<PathBuf>) -> Result<AdminSide, String> {
        let config = Arc::clone(&server.shared().generation.load().config);
        let control = match control {
            Some(path) => {
                let config = AdminConfig::at(Endpoint::Unix(path));
                Some(start_pages(&config, server, reporter)?)
            }
            None => None,
        };
        Ok(AdminSide { running: start_admin(server, reporter)?, _control: control, config })
    }

    /// After a reload, whoever asked for it: puts the admin side where it is wanted now. Where it cannot be, it stays as it was.
    fn follow(&mut self, server: &Arc<Server>, reporter: &Arc<Reporter>) {
        let config = Arc::clone(&server.shared().generation.load().config);
        if Arc::ptr_eq(&self.config, &config) {
            return;
        }
        self.config = config;
        let (now, wanted) = (self.running.as_ref().map(AdminHandle::config), self.config.admin.as_ref());
        if now == wanted {
            return;
        }
        if now.map(|now| &now.bind) == wanted.map(|wanted| &wanted.bind) {
            // The place must be free before it can be taken again.
            self.running = None;
        }
        match start_admin(server, reporter) {
            Ok(running) => self.running = running,
            Err(problem) => tracing::error!("{problem}; the admin side stays as it was until the next reload"),
        }
    }
}

fn start_admin(server: &Arc<Server>, reporter: &Arc<Reporter>) -> Result<Option<AdminHandle>, String> {
    let generation = server.shared().generation.load_full();
    generation.config.admin.as_ref().map(|config| start_pages(config, server, reporter)).transpose()
}

fn start_pages(config: &AdminConfig, server: &Arc<Server>, reporter: &Arc<Reporter>) -> Result<AdminHandle, String> {
    let (for_config, for_reload) = (Arc::clone(server), Arc::clone(server));
    let (for_metrics, for_clients) = (Arc::clone(reporter), Arc::clone(reporter));
    let (for_shadows, for_ready) = (Arc::clone(reporter), Arc::clone(server));
    let state = AdminState {
        metrics: Box::new(move |exposition| for_metrics.metrics(exposition)),
        clients: Some(Box::new(move |by_rate| for_clients.clients_json(by_rate))),
        config_json: Box::new(move || config::redacted_json(&for_config.shared().generation.load().config).to_string()),
        reload: Box::new(move || announced(&for_reload, |server| server.reload().map(Some))?.ok_or_else(Vec::new)),
        ready: Box::new(move || for_ready.ready()),
        extra: vec![("/shadow", Box::new(move || for_shadows.shadows_json()))],
    };
    let handle = admin::start(config, state).map_err(|error| format!("admin listener {}: {error}", config.bind))?;
    tracing::info!(address = %handle.address(), "admin listening");
    Ok(handle)
}

/// The signals that are obeyed. One that comes before anybody waits for it is kept.
pub(crate) struct Signals {
    pub(crate) terminate: Signal,
    pub(crate) interrupt: Signal,
    pub(crate) hangup: Signal,
    pub(crate) reopen: Signal,
}

/// The main thread's runtime, and the signals caught by it.
pub(crate) fn catch_signals() -> std::io::Result<(LocalRuntime, Signals)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let signals = runtime.block_on(async {
        std::io::Result::Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
        })
    })?;
    Ok((runtime, signals))
}

/// Serves signals, file changes and periods until SIGTERM or SIGINT.
async fn obey(
    signals: &mut Signals,
    mut changes: Changes,
    admin: &mut AdminSide,
    server: &Arc<Server>,
    reporter: &Arc<Reporter>,
) {
    let mut supervision = tokio::time::interval(SUPERVISION);
    loop {
        tokio::select! {
            Some(()) = signals.terminate.recv() => return,
            Some(()) = signals.interrupt.recv() => return,
            Some(()) = signals.hangup.recv() => begin_reload(server, |server| server.reload().map(Some), "SIGHUP", None),
            Some(()) = signals.reopen.recv() => reporter.reopen(),
            (news, reason) = changes.next() => {
                if news.configuration {
                    let reported = Rc::clone(&changes.reported);
                    begin_reload(server, Server::reload_if_changed, "configuration changed", Some(reported));
                }
                if news.named {
                    begin_reload(server, |server| server.reload_keystores().map(Some), reason, None);
                }
            }
            _ = supervision.tick() => {
                server.replace_dead_workers();
                changes.follow(server);
                admin.follow(server, reporter);
            }
        }
    }
}

/// A way to reload; none if there was nothing to do.
type Reload = fn(&Server) -> Result<Option<Reloaded>, Vec<String>>;

/// Problems that were logged last, so that a broken file is reported once and not with each touch of it.
type Reported = Rc<RefCell<Vec<String>>>;

/// Reloads off this thread, so that signals are obeyed meanwhile.
fn begin_reload(server: &Arc<Server>, how: Reload, reason: &'static str, reported: Option<Reported>) {
    tokio::task::spawn_local(reload(Arc::clone(server), how, reason, reported));
}

async fn reload(server: Arc<Server>, how: Reload, reason: &'static str, reported: Option<Reported>) {
    let outcome = tokio::task::spawn_blocking(move || announced(&server, how)).await;
    let problems = match outcome {
        Ok(Ok(Some(Reloaded { generation, .. }))) => {
            tracing::info!(generation, reason, "reloaded");
            Vec::new()
        }
        Ok(Ok(None)) => Vec::new(),
        Ok(Err(problems)) => problems,
        Err(error) => return tracing::error!(reason, %error, "reload failed, the old generation stays"),
    };
    if reported.as_ref().is_none_or(|reported| *reported.borrow() != problems) {
        for problem in &problems {
            tracing::error!(reason, "reload refused, the old generation stays: {problem}");
        }
    }
    if let Some(reported) = reported {
        *reported.borrow_mut() = problems;
    }
}

/// Reloads, and tells systemd of it.
fn announced(
    server: &Server,
    how: impl Fn(&Server) -> Result<Option<Reloaded>, Vec<String>>,
) -> Result<Option<Reloaded>, Vec<String>> {
    systemd::reloading();
    let outcome = how(server);
    let problems = outcome.as_ref().err().map_or(&[][..], Vec::as_slice);
    systemd::ready(&systemd::outcome(server.shared().generation.load().number, problems));
    outcome
}

/// Reasons to read files again: the configuration file changed, or something in the folders of keystores and contracts, or the period of a keystore
/// is over.
struct Changes {
    /// What is watched for.
    config: Arc<Config>,
    watched: Watched,
    /// The configuration file, if it is watched.
    file: Option<PathBuf>,
    _watcher: Option<notify::RecommendedWatcher>,
    events: Receiver<()>,
    /// What the events were news of: the configuration, and what it names.
    pending: Arc<(AtomicBool, AtomicBool)>,
    reported: Reported,
    /// Something changed: when it will have been quiet for long enough, and when to wait no longer.
    settling: Option<(Instant, Instant)>,
    period: Duration,
    next_period: Instant,
}

impl Changes {
    fn watch(config: &Arc<Config>, file: Option<PathBuf>) -> Changes {
        let (sender, events) = channel(1);
        let watched = Watched::of(config, file.as_deref());
        let judge = watched.clone();
        let pending = Arc::<(AtomicBool, AtomicBool)>::default();
        let noted = Arc::clone(&pending);
        // A full channel already says that something changed.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(news) = event.map(|event| judge.news(&event)) else { return };
            noted.0.fetch_or(news.configuration, Ordering::Relaxed);
            noted.1.fetch_or(news.named, Ordering::Relaxed);
            if news != News::default() {
                let _ = sender.try_send(());
            }
        });
        let mut watcher = watcher.inspect_err(|error| tracing::warn!(%error, "cannot watch files")).ok();
        for (folder, mode) in watched.folders() {
            if let Some(Err(error)) = watcher.as_mut().map(|watcher| watcher.watch(folder, mode)) {
                tracing::warn!(%error, folder = %folder.display(), "cannot watch this folder; changes are seen by period and SIGHUP");
            }
        }
        let period = shortest_period(config);
        let (settling, next_period) = (None, after(period));
        let (config, reported) = (Arc::clone(config), Reported::default());
        let _watcher = watcher;
        Changes { config, watched, file, _watcher, events, pending, reported, settling, period, next_period }
    }

    /// After a reload, whoever asked for it: watches what the configuration in force names.
    fn follow(&mut self, server: &Server) {
        let generation = server.shared().generation.load_full();
        if Arc::ptr_eq(&self.config, &generation.config) {
            return;
        }
        if self.watched == Watched::of(&generation.config, self.file.as_deref()) {
            // The watch goes on: between an old one and a new one a change could be lost.
            self.config = Arc::clone(&generation.config);
            self.period = shortest_period(&self.config);
            self.next_period = self.next_period.min(after(self.period));
            return;
        }
        let mut fresh = Changes::watch(&generation.config, self.file.clone());
        fresh.settling = self.settling;
        fresh.reported = Rc::clone(&self.reported);
        // What the old watch has seen and what happened before the new one began is not forgotten.
        fresh.pending.0.store(self.file.is_some(), Ordering::Relaxed);
        fresh.pending.1.store(true, Ordering::Relaxed);
        fresh.note();
        *self = fresh;
    }

    /// Something changed: wait until it has been quiet for a while, but not for ever.
    fn note(&mut self) {
        let now = Instant::now();
        let latest = self.settling.map_or(now + 10 * QUIET, |(_, latest)| latest);
        self.settling = Some((latest.min(now + QUIET), latest));
    }

    /// The next reason. May be dropped and called again at any time: what it waits for is kept.
    async fn next(&mut self) -> (News, &'static str) {
        loop {
            let settled = self.settling.map_or(self.next_period, |(quiet, _)| quiet);
            tokio::select! {
                Some(()) = self.events.recv() => self.note(),
                () = sleep_until(settled), if self.settling.is_some() => {
                    self.settling = None;
                    let (configuration, named) = &*self.pending;
                    let taken = |flag: &AtomicBool| flag.swap(false, Ordering::Relaxed);
                    return (News { configuration: taken(configuration), named: taken(named) }, "files changed");
                }
                () = sleep_until(self.next_period) => {
                    self.next_period = after(self.period);
                    return (News { configuration: false, named: true }, "keystore period");
                }
            }
        }
    }
}

/// How often the keystores are read without a reason.
fn shortest_period(config: &Config) -> Duration {
    config.keystores.values().map(|keystore| keystore.reload_every).min().unwrap_or(Duration::MAX)
}

fn after(period: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + period.min(FAR)
}
