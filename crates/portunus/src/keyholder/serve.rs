//! Runs the key server: threads and sockets up, signals and reloads while it serves, and a drain at the end.
//!
//! ```text
//! shut in → load → bind → threads → serving ──SIGTERM──→ draining ──answered or time over──→ ended
//!                                      ↺ SIGHUP, file change, period: load everything, swap one pointer
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use net::confine::Files;
use net::{Bound, Listener, SocketFile};
use tokio::runtime::LocalRuntime;
use tokio::sync::{mpsc, oneshot, watch};

use super::backlog::Class;
use super::busy::Refusals;
use super::holdings::Holdings;
use super::queue::Scheduler;
use super::{conn, crypto_thread};
use crate::admin::{self, AdminHandle, AdminState};
use crate::command::run::{Options, Signals, catch_signals};
use crate::config::{self, AdminConfig, AuditTarget, Endpoint, KeyholderConfig, KeyholderListener};
use crate::limits::KeyholderLimits;
use crate::reload::Reloaded;
use crate::report::{Diagnostics, KeyReport, KeyholderReporter};
use crate::systemd;

/// After a change of a file, how long it must stay quiet before it is read: sets of files are written one by one.
const QUIET: Duration = Duration::from_millis(500);

/// Pause after the kernel refused to accept for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How long the last audit lines may take.
const AUDIT_DEADLINE: Duration = Duration::from_secs(2);

/// Where the configuration comes from, again at each reload.
pub type Source = Box<dyn Fn() -> Result<KeyholderConfig, Vec<String>> + Send + Sync>;

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) holdings: ArcSwap<Holdings>,
    pub(super) acceptor: tls::Acceptor,
    pub(super) scheduler: Scheduler,
    pub(super) refusals: Arc<Refusals>,
    pub(super) reporter: KeyholderReporter,
    pub(super) limits: KeyholderLimits,
    /// Whether ECDSA opcodes are answered for RSA keys.
    pub(super) mixed: bool,
    connections: AtomicUsize,
    /// Whether it serves; else why not.
    ready: Mutex<Result<(), &'static str>>,
}

impl Shared {
    /// What a server of this configuration shares.
    ///
    /// # Errors
    /// The TLS library fails.
    pub(super) fn new(
        config: &KeyholderConfig,
        holdings: Holdings,
        reporter: KeyholderReporter,
    ) -> Result<Shared, String> {
        let tickets = Arc::new(tls::TicketKeys::new(Duration::from_secs(12 * 3600)));
        let acceptor = tls::Acceptor::new(tickets).map_err(|error| format!("TLS cannot be set up: {error}"))?;
        Ok(Shared {
            holdings: ArcSwap::from_pointee(holdings),
            acceptor,
            scheduler: Scheduler::new(config.crypto_threads, &config.limits),
            refusals: Arc::new(Refusals::new(config.limits.target_wait)),
            reporter,
            limits: config.limits.clone(),
            mixed: config.ecdsa_opcodes_on_rsa_keys,
            connections: AtomicUsize::new(0),
            ready: Mutex::new(Err("starting")),
        })
    }

    fn set_ready(&self, ready: Result<(), &'static str>) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = ready;
    }
}

/// Runs the key server that `file` describes until it is told to end.
pub fn run(file: &Path, options: Options) -> ExitCode {
    let config = match config::load_keyholder(file) {
        Ok(config) => config,
        Err(problems) => {
            complain!("{problems}");
            return ExitCode::FAILURE;
        }
    };
    let file = file.to_owned();
    let again = file.clone();
    let source: Source = Box::new(move || {
        config::load_keyholder(&again).map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
    });
    let watched = (!options.no_watch).then(|| file.clone());
    serve_with(config, source, watched, options.control)
}

/// Runs a key server until it is told to end: 0 if everything asked was answered, 1 if it could not start or had to cut.
pub fn serve(config: KeyholderConfig, source: Source) -> ExitCode {
    serve_with(config, source, None, None)
}

/// As [`serve`]; a change of the file `watched` is loaded, and the admin pages are served on the Unix socket `control` too. 0 if everything asked was answered, 1 if it could not start or had to cut.
fn serve_with(config: KeyholderConfig, source: Source, watched: Option<PathBuf>, control: Option<PathBuf>) -> ExitCode {
    // First of all, or a signal that comes while we start would end us instead of being obeyed.
    let (runtime, mut signals) = match catch_signals() {
        Ok(caught) => caught,
        Err(error) => {
            complain!("error: cannot wait for signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    systemd::prepare();
    let server = match Server::start(config, source, control) {
        Ok(server) => server,
        Err(problems) => {
            problems.iter().for_each(|problem| complain!("error: {problem}"));
            return ExitCode::FAILURE;
        }
    };
    systemd::ready(&systemd::outcome(server.shared.holdings.load().generation, &[]));
    runtime.block_on(obey(&mut signals, &server, watched));
    server.end(&runtime, signals)
}

/// Threads that talk to peers.
type Workers = Vec<JoinHandle<std::io::Result<()>>>;

/// A running key server.
struct Server {
    shared: Arc<Shared>,
    config: KeyholderConfig,
    reload: Arc<Reload>,
    drain: watch::Sender<bool>,
    workers: Workers,
    files: Vec<SocketFile>,
    crypto: Vec<JoinHandle<()>>,
    /// The admin side, and the control socket.
    admin: Vec<AdminHandle>,
    _diagnostics: Diagnostics,
}

impl Server {
    fn start(config: KeyholderConfig, source: Source, control: Option<PathBuf>) -> Result<Server, Vec<String>> {
        let one = |what: &str, error: std::io::Error| vec![format!("{what}: {error}")];
        net::process::raise_descriptor_limit();
        net::process::forbid_core_dumps().map_err(|error| one("core dumps cannot be switched off", error))?;
        if config.lock_memory {
            net::process::lock_memory().map_err(|problem| vec![problem])?;
        }
        // Before any thread is made: what is forbidden here is forbidden to all of them.
        let files = if config.sandbox { Some(shut_in(&config, control.as_deref())?) } else { None };
        let diagnostics = Diagnostics::start(&config.log_level).map_err(|error| one("diagnostics", error))?;
        if files == Some(Files::Open) {
            tracing::warn!(
                "this kernel has no Landlock: files beside those named in the configuration are not closed off"
            );
        }
        let reporter = KeyholderReporter::start(config.audit.as_ref()).map_err(|error| one("audit log", error))?;
        let holdings = Holdings::load(&config, None)?;
        reporter.loaded(holdings.keys().count(), holdings.load_time, holdings.expiries());
        let shared = Arc::new(Shared::new(&config, holdings, reporter).map_err(|problem| vec![problem])?);
        let crypto = crypto_thread::start(&shared, config.crypto_threads)
            .map_err(|error| one("cannot start a crypto thread", error))?;
        let reload = Arc::new(Reload { shared: Arc::clone(&shared), source, kept: config.clone() });
        let control = control.map(|path| AdminConfig::at(Endpoint::Unix(path)));
        let wanted = config.admin.iter().chain(&control);
        let admin = wanted.map(|wanted| start_admin(wanted, &config, &reload)).collect::<Result<_, _>>();
        let admin = admin.map_err(|problem| vec![problem])?;
        let (drain, draining) = watch::channel(false);
        let (workers, files) = listen(&config, &shared, &draining)?;
        if let Some(path) = &config.pid_file {
            let written = std::fs::write(path, format!("{}\n", std::process::id()));
            written.map_err(|error| one(&path.display().to_string(), error))?;
        }
        shared.set_ready(Ok(()));
        Ok(Server { shared, config, reload, drain, workers, files, crypto, admin, _diagnostics: diagnostics })
    }

    /// Answers what was asked, then ends: when all is answered, when the time is over, or at a second signal.
    fn end(self, runtime: &LocalRuntime, mut signals: Signals) -> ExitCode {
        let timeout = self.config.limits.drain_timeout;
        self.shared.set_ready(Err("draining"));
        systemd::stopping("draining");
        tracing::info!(timeout_seconds = timeout.as_secs_f64(), "draining; another SIGTERM or SIGINT ends at once");
        // Whoever comes next may bind the same addresses at once.
        self.files.iter().for_each(SocketFile::unlink);
        self.admin.into_iter().for_each(AdminHandle::stop);
        // Nobody listens only if all workers are gone.
        let _ = self.drain.send(true);
        let (done, ended) = oneshot::channel();
        let workers = self.workers;
        let waiter = std::thread::spawn(move || {
            for worker in workers {
                let _ = worker.join();
            }
            let _ = done.send(());
        });
        let whole = runtime.block_on(async {
            tokio::select! {
                _ = ended => true,
                () = tokio::time::sleep(timeout) => false,
                Some(()) = signals.terminate.recv() => false,
                Some(()) = signals.interrupt.recv() => false,
            }
        });
        if whole {
            let _ = waiter.join();
        } else {
            let connections = self.shared.connections.load(Ordering::Relaxed);
            tracing::warn!(connections, "connections were closed before all was answered");
        }
        crypto_thread::stop(&self.shared.scheduler, self.crypto);
        self.shared.reporter.shutdown(AUDIT_DEADLINE);
        if let Some(path) = &self.config.pid_file {
            let _ = std::fs::remove_file(path);
        }
        if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Binds all addresses and starts a worker per configured thread.
fn listen(
    config: &KeyholderConfig,
    shared: &Arc<Shared>,
    draining: &watch::Receiver<bool>,
) -> Result<(Workers, Vec<SocketFile>), Vec<String>> {
    let (mut bound, mut files) = (Vec::new(), Vec::new());
    for listener in &config.listeners {
        for endpoint in &listener.bind {
            let sockets = Bound::bind(endpoint, config.workers)
                .map_err(|error| vec![format!("listener {}: cannot bind {endpoint}: {error}", listener.name)])?;
            tracing::info!(listener = listener.name, address = %sockets.endpoint(), "listening");
            files.extend(sockets.file().cloned());
            bound.push((Arc::clone(listener), sockets));
        }
    }
    let start = |index: usize| {
        let (bound, shared, draining) = (bound.clone(), Arc::clone(shared), draining.clone());
        net::engine::spawn(format!("worker-{index}"), None, move || work(index, bound, shared, draining))
    };
    let workers: std::io::Result<Workers> = (0..config.workers.max(1)).map(start).collect();
    let workers = workers.map_err(|error| vec![format!("cannot start a worker: {error}")])?;
    Ok((workers, files))
}

/// A worker's life: accepts until the server drains, then waits for its connections.
async fn work(
    index: usize,
    bound: Vec<(Arc<KeyholderListener>, Bound)>,
    shared: Arc<Shared>,
    draining: watch::Receiver<bool>,
) {
    let report = Rc::new(shared.reporter.thread());
    let mut accepting = Vec::new();
    for (listener, sockets) in bound {
        match sockets.listener(index) {
            Ok(socket) => {
                accepting.push(accept(socket, listener, Arc::clone(&shared), Rc::clone(&report), draining.clone()))
            }
            Err(error) => tracing::error!(%error, "a worker cannot listen"),
        }
    }
    let tasks: Vec<_> = accepting.into_iter().map(tokio::task::spawn_local).collect();
    for task in tasks {
        if let Ok(open) = task.await {
            for connection in open {
                let _ = connection.await;
            }
        }
    }
}

/// Accepts on one socket until the server drains; gives the connections that are still open.
async fn accept(
    socket: Listener,
    listener: Arc<KeyholderListener>,
    shared: Arc<Shared>,
    report: Rc<KeyReport>,
    draining: watch::Receiver<bool>,
) -> Vec<tokio::task::JoinHandle<()>> {
    let mut open = Vec::new();
    let mut drain = draining.clone();
    let begin = |stream, open: &mut Vec<tokio::task::JoinHandle<()>>| {
        let Some(place) = Place::take(&shared) else { return };
        let life = conn::run(stream, Arc::clone(&listener), Arc::clone(&shared), Rc::clone(&report), draining.clone());
        open.push(tokio::task::spawn_local(async move {
            life.await;
            drop(place);
        }));
    };
    while !*drain.borrow_and_update() {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = drain.changed() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                begin(stream, &mut open);
                if open.len() >= 64 && open.len().is_power_of_two() {
                    open.retain(|connection| !connection.is_finished());
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let closing = socket.close();
    while let Some((stream, _)) = closing.next().await {
        begin(stream, &mut open);
    }
    open
}

/// A place among the connections; given back when dropped.
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Place> {
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= shared.limits.max_connections {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            shared.reporter.connection_failed("too_many_connections");
            return None;
        }
        shared.reporter.connection_opened();
        Some(Place(Arc::clone(shared)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.reporter.connection_closed();
    }
}

/// Loads everything again, whoever asks for it.
struct Reload {
    shared: Arc<Shared>,
    source: Source,
    /// What was started with: addresses and threads stay as they are.
    kept: KeyholderConfig,
}

impl Reload {
    /// Loads everything, and tells systemd of it.
    fn load(&self) -> Result<u64, Vec<String>> {
        systemd::reloading();
        let outcome = self.load_all();
        let problems = outcome.as_ref().err().map_or(&[][..], Vec::as_slice);
        systemd::ready(&systemd::outcome(self.shared.holdings.load().generation, problems));
        outcome
    }

    fn load_all(&self) -> Result<u64, Vec<String>> {
        let loaded = (self.source)().and_then(|config| {
            if config.listeners != self.kept.listeners {
                tracing::warn!("changed listeners take a restart; keys, trust and access are loaded");
            }
            Holdings::load(&config, Some(&self.shared.holdings.load()))
        });
        self.shared.reporter.reloaded(loaded.is_ok());
        let holdings = loaded?;
        let (generation, keys) = (holdings.generation, holdings.keys().count());
        self.shared.reporter.loaded(keys, holdings.load_time, holdings.expiries());
        self.shared.holdings.store(Arc::new(holdings));
        Ok(generation)
    }
}

/// Loads off this thread, so that signals are obeyed meanwhile.
async fn reload(reload: Arc<Reload>, reason: &'static str) {
    match tokio::task::spawn_blocking(move || reload.load()).await {
        Ok(Ok(generation)) => tracing::info!(generation, reason, "reloaded"),
        Ok(Err(problems)) => {
            for problem in problems {
                tracing::error!(reason, "reload refused, what was held stays: {problem}");
            }
        }
        Err(error) => tracing::error!(reason, %error, "reload failed, what was held stays"),
    }
}

/// Serves signals, file changes and the period until SIGTERM or SIGINT.
async fn obey(signals: &mut Signals, server: &Server, watched: Option<PathBuf>) {
    let (sender, mut changes) = mpsc::channel(1);
    let _watcher = watch_files(&server.config, watched, sender);
    let mut period = tokio::time::interval(server.config.reload_every);
    period.tick().await;
    // Something changed: when it will have been quiet for long enough, and when to wait no longer.
    let mut settling: Option<(Instant, Instant)> = None;
    loop {
        let settled = settling.map_or_else(Instant::now, |(quiet, latest)| quiet.min(latest));
        let reason = tokio::select! {
            Some(()) = signals.terminate.recv() => return,
            Some(()) = signals.interrupt.recv() => return,
            Some(()) = signals.reopen.recv() => {
                server.shared.reporter.reopen();
                continue;
            }
            Some(()) = signals.hangup.recv() => "SIGHUP",
            Some(()) = changes.recv() => {
                let now = Instant::now();
                settling = Some((now + QUIET, settling.map_or(now + 10 * QUIET, |(_, latest)| latest)));
                continue;
            }
            () = tokio::time::sleep_until(settled.into()), if settling.is_some() => {
                settling = None;
                "files changed"
            }
            _ = period.tick() => "period",
        };
        reload(Arc::clone(&server.reload), reason).await;
    }
}

fn watch_files(
    config: &KeyholderConfig,
    watched: Option<PathBuf>,
    sender: mpsc::Sender<()>,
) -> Option<notify::RecommendedWatcher> {
    use notify::{RecursiveMode, Watcher};
    let own = match &config.audit {
        Some(AuditTarget::File(path)) => path.file_name().map(std::ffi::OsStr::to_owned),
        _ => None,
    };
    let watched = watched.map(|file| std::path::absolute(&file).unwrap_or(file));
    let file = watched.clone();
    let folders = read_folders(config);
    let absolute: Vec<PathBuf> = folders.iter().filter_map(|folder| std::path::absolute(folder).ok()).collect();
    // Of the configuration's folder only that file counts, unless keys or trust are read from there, too. A link beside it may lead to it.
    let concerns = move |path: &PathBuf| {
        let is_read = absolute.iter().any(|folder| path.starts_with(folder));
        is_read || file.as_ref() == Some(path) || std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
    };
    // A full channel already says that something changed. What we write ourselves is no news.
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_own = |path: &PathBuf| own.is_some() && path.file_name() == own.as_deref();
        let is_news = |event: &notify::Event| {
            let is_lost = event.paths.is_empty();
            !event.kind.is_access() && (is_lost || event.paths.iter().any(|path| !is_own(path) && concerns(path)))
        };
        if event.is_ok_and(|event| is_news(&event)) {
            let _ = sender.try_send(());
        }
    });
    let mut watcher = watcher.inspect_err(|error| tracing::warn!(%error, "cannot watch files")).ok()?;
    let own_folder = watched.iter().map(|file| (parent(file), RecursiveMode::NonRecursive));
    for (folder, mode) in own_folder.chain(folders.into_iter().map(|folder| (folder, RecursiveMode::Recursive))) {
        if let Err(error) = watcher.watch(&folder, mode) {
            tracing::warn!(%error, folder = %folder.display(), "cannot watch; changes are seen by period and SIGHUP");
        }
    }
    Some(watcher)
}

/// The folder that a file is in.
fn parent(path: impl AsRef<Path>) -> PathBuf {
    match path.as_ref().parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The folders that keys and trust are read from.
fn read_folders(config: &KeyholderConfig) -> BTreeSet<PathBuf> {
    let sets = config.keys.values();
    let folders = sets.clone().flat_map(|set| set.folders.clone());
    let files = sets.flat_map(|set| set.files.iter().map(parent));
    let tls = config.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let tls = tls.flat_map(|tls| {
        [Some(&tls.certificate), Some(&tls.private_key), Some(&tls.client_ca), tls.client_crl.as_ref()]
    });
    folders.chain(files).chain(tls.flatten().map(parent)).collect()
}

/// Allows this process, from now on, the files it is configured with and the system calls it needs.
fn shut_in(config: &KeyholderConfig, control: Option<&Path>) -> Result<Files, Vec<String>> {
    let mut read: BTreeSet<PathBuf> = read_folders(config);
    // Links may lead elsewhere, as renewal tools lay them; passwords and the configuration itself are read again at a reload.
    let targets: Vec<PathBuf> = read.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    read.extend(targets);
    for folder in read.clone() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        read.extend(links.filter_map(|entry| Some(std::fs::canonicalize(entry.path()).ok()?.parent()?.to_owned())));
    }
    for set in config.keys.values() {
        read.extend(keystore::keys::real_folders(&set.folders));
        if let Some(config::Secret::File(path)) = &set.password {
            read.insert(parent(path));
        }
    }
    read.extend(config.config_folder.clone());
    read.insert(PathBuf::from("/proc/self"));
    let mut write = BTreeSet::new();
    let mut folder_of = |path: &Path| write.insert(parent(path));
    if let Some(AuditTarget::File(path)) = &config.audit {
        folder_of(path);
    }
    let admin = config.admin.iter().map(|admin| &admin.bind);
    for endpoint in config.listeners.iter().flat_map(|listener| &listener.bind).chain(admin) {
        if let Endpoint::Unix(path) = endpoint {
            folder_of(path);
        }
    }
    config.pid_file.as_deref().into_iter().chain(control).for_each(|path| _ = folder_of(path));
    let (read, write): (Vec<_>, Vec<_>) = (read.into_iter().collect(), write.into_iter().collect());
    net::confine::shut_in(&read, &write).map_err(|problem| vec![problem])
}

fn start_admin(wanted: &AdminConfig, config: &KeyholderConfig, reload: &Arc<Reload>) -> Result<AdminHandle, String> {
    let (for_metrics, for_reload, shown) = (Arc::clone(&reload.shared), Arc::clone(reload), config.clone());
    let (for_keys, for_ready) = (Arc::clone(&reload.shared), Arc::clone(&reload.shared));
    let state = AdminState {
        metrics: Box::new(move |exposition| {
            let waiting = for_metrics.scheduler.waiting();
            let waiting: Vec<_> = Class::ALL.into_iter().map(Class::name).zip(waiting).collect();
            for_metrics.reporter.metrics(exposition, &waiting)
        }),
        clients: None,
        config_json: Box::new(move || config::redacted_keyholder_json(&shown).to_string()),
        reload: Box::new(move || for_reload.load().map(|generation| Reloaded { generation, waiting: Vec::new() })),
        ready: Box::new(move || for_ready.ready.lock().unwrap_or_else(PoisonError::into_inner).map_err(str::to_owned)),
        extra: vec![("/keys", Box::new(move || keys_json(&for_keys.holdings.load())))],
    };
    let handle = admin::start(wanted, state).map_err(|error| format!("admin listener: {error}"))?;
    tracing::info!(address = %handle.address(), "admin listening");
    Ok(handle)
}

/// The keys held, without anything secret.
fn keys_json(holdings: &Holdings) -> String {
    let key = |key: &Arc<super::keys::Key>| {
        serde_json::json!({
            "ski": key.ski_text(),
            "kind": key.signing.kind().to_string(),
            "operations": key.operations.names(),
            "origin": key.origin,
        })
    };
    serde_json::Value::Array(holdings.keys().map(key).collect()).to_string()
}
