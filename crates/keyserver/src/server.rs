//! The running key server: threads and sockets, what a reload replaces, and a drain at the end.
//!
//! ```text
//! load → bind → threads → serving → leaving → draining ──answered or time over──→ stopped
//!                            ↺ reload: load everything, swap one pointer
//! ```

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use config::{KeyServerConfig, KeyServerListener, Reloaded};
use net::{Bound, Inherited, Listener};
use telemetry::{Exposition, KeyReport, KeyServerReporter};
use tokio::sync::watch;

use super::backlog::Class;
use super::holdings::Holdings;
use super::shared::Shared;
use super::{conn, crypto_thread};

/// Pause after the kernel refused to accept for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How often a worker shows that it makes progress.
const BEAT: Duration = Duration::from_millis(200);

/// How long the last audit lines may take.
const AUDIT_DEADLINE: Duration = Duration::from_secs(2);

/// Where the configuration comes from, again at each reload.
pub type Source = Box<dyn Fn() -> Result<KeyServerConfig, Vec<String>> + Send + Sync>;

/// Threads that talk to peers.
type Workers = Vec<JoinHandle<std::io::Result<()>>>;

/// A running key server.
pub struct Server {
    shared: Arc<Shared>,
    source: Source,
    /// What was started with: addresses and threads stay as they are.
    config: KeyServerConfig,
    drain: watch::Sender<bool>,
    /// The sockets, until it accepts no more.
    bound: Mutex<Vec<Bound>>,
    threads: Mutex<Threads>,
}

/// Its threads, until they are joined.
#[derive(Default)]
struct Threads {
    workers: Workers,
    crypto: Vec<JoinHandle<()>>,
}

impl Server {
    /// Loads keys and trust, binds what was not passed to this process, and starts all threads. A process that is to be confined is so already.
    ///
    /// # Errors
    /// Everything that is wrong with configuration, key material or addresses; nothing runs then.
    pub fn start(config: KeyServerConfig, source: Source, inherited: &mut Inherited) -> Result<Server, Vec<String>> {
        let one = |what: &str, error: std::io::Error| vec![format!("{what}: {error}")];
        let reporter = KeyServerReporter::start(config.audit.as_ref()).map_err(|error| one("audit log", error))?;
        let holdings = Holdings::load(&config, None)?;
        reporter.loaded(holdings.keys().count(), holdings.load_time, holdings.expiries());
        let shared = Arc::new(Shared::new(&config, holdings, reporter).map_err(|problem| vec![problem])?);
        let crypto = crypto_thread::start(&shared, config.crypto_threads)
            .map_err(|error| one("cannot start a crypto thread", error))?;
        let (drain, draining) = watch::channel(false);
        let bound = bind(&config, inherited)?;
        let workers = listen(&config, &bound, &shared, &draining)?;
        if let Some(path) = &config.pid_file {
            let written = std::fs::write(path, format!("{}\n", std::process::id()));
            written.map_err(|error| one(&path.display().to_string(), error))?;
        }
        shared.set_ready(Ok(()));
        Ok(Server {
            shared,
            source,
            config,
            drain,
            bound: Mutex::new(bound.into_iter().map(|(_, bound)| bound).collect()),
            threads: Mutex::new(Threads { workers, crypto }),
        })
    }

    /// What it was started with.
    pub fn config(&self) -> &KeyServerConfig {
        &self.config
    }

    /// Number of the generation of keys and trust that is active.
    pub fn generation(&self) -> u64 {
        self.shared.holdings.load().generation
    }

    /// Loads everything again but addresses and threads.
    ///
    /// # Errors
    /// Everything that is wrong; what is held stays.
    pub fn reload(&self) -> Result<Reloaded, Vec<String>> {
        let _changing = self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = (self.source)().and_then(|config| {
            if config.listeners != self.config.listeners {
                tracing::warn!("changed listeners take a restart; keys, trust and access are loaded");
            }
            Ok((Holdings::load(&config, Some(&self.shared.holdings.load()))?, config.log_level))
        });
        self.shared.reporter.reloaded(loaded.is_ok());
        let (holdings, level) = loaded?;
        if let Err(error) = telemetry::set_level(&level) {
            tracing::error!(%error, "log.level stays as it was");
        }
        let (generation, keys) = (holdings.generation, holdings.keys().count());
        self.shared.reporter.loaded(keys, holdings.load_time, holdings.expiries());
        self.shared.holdings.store(Arc::new(holdings));
        Ok(Reloaded { generation, waiting: Vec::new() })
    }

    /// Opens the audit log again, since it was renamed.
    pub fn reopen_log(&self) {
        self.shared.reporter.reopen();
    }

    /// Whether it serves; else why not.
    ///
    /// # Errors
    /// It is starting or draining.
    pub fn ready(&self) -> Result<(), &'static str> {
        *self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often each worker has shown that it makes progress.
    pub fn beats(&self) -> Vec<u64> {
        self.shared.beats.iter().map(|beats| beats.load(Ordering::Relaxed)).collect()
    }

    /// All metrics as text.
    pub fn metrics(&self, exposition: Exposition) -> String {
        let waiting = self.shared.scheduler.waiting();
        let waiting: Vec<_> = Class::ALL.into_iter().map(Class::name).zip(waiting).collect();
        self.shared.reporter.metrics(exposition, &waiting)
    }

    /// The keys held, as JSON, without anything secret.
    pub fn keys_json(&self) -> String {
        keys_json(&self.shared.holdings.load())
    }

    /// Is not ready any more; still serves.
    pub fn leave(&self) {
        self.shared.set_ready(Err("draining"));
    }

    /// Accepts nothing new, and answers what was asked.
    pub fn stop_accepting(&self) {
        // Whoever comes next may bind the same addresses at once.
        let bound = std::mem::take(&mut *self.bound.lock().unwrap_or_else(PoisonError::into_inner));
        bound.iter().for_each(Bound::unlink);
        // Nobody listens only if all workers are gone.
        let _ = self.drain.send(true);
    }

    /// Connections that are still open, or workers that have not ended.
    pub fn open(&self) -> usize {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let workers = threads.workers.iter().filter(|worker| !worker.is_finished()).count();
        self.shared.connections.load(Ordering::Relaxed).max(workers)
    }

    /// Ends the crypto threads and the log: how much was still open.
    pub fn stop(&self) -> usize {
        let left = self.open();
        let Threads { workers, crypto } =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if left == 0 {
            for worker in workers {
                let _ = worker.join();
            }
        }
        crypto_thread::stop(&self.shared.scheduler, crypto);
        self.shared.reporter.shutdown(AUDIT_DEADLINE);
        if let Some(path) = &self.config.pid_file {
            let _ = std::fs::remove_file(path);
        }
        left
    }
}

/// The sockets of each listener.
type Listening = Vec<(Arc<KeyServerListener>, Bound)>;

/// Binds all addresses whose sockets were not passed.
fn bind(config: &KeyServerConfig, inherited: &mut Inherited) -> Result<Listening, Vec<String>> {
    let mut bound = Vec::new();
    for listener in &config.listeners {
        for endpoint in &listener.bind {
            let sockets = match inherited.take(endpoint.kind(), &endpoint.to_string()) {
                passed if passed.is_empty() => Bound::bind(endpoint, listener.unix_socket.mode, config.workers),
                passed => Bound::adopt(endpoint, passed, config.workers),
            };
            let sockets = sockets
                .map_err(|error| vec![format!("listener {}: cannot bind {endpoint}: {error}", listener.name)])?;
            tracing::info!(listener = listener.name, address = %sockets.endpoint(), "listening");
            bound.push((Arc::clone(listener), sockets));
        }
    }
    Ok(bound)
}

/// Starts a worker per configured thread.
fn listen(
    config: &KeyServerConfig,
    bound: &Listening,
    shared: &Arc<Shared>,
    draining: &watch::Receiver<bool>,
) -> Result<Workers, Vec<String>> {
    let start = |index: usize| {
        let (bound, shared, draining) = (bound.clone(), Arc::clone(shared), draining.clone());
        net::engine::spawn(format!("worker-{index}"), None, move || work(index, bound, shared, draining))
    };
    let workers: std::io::Result<Workers> = (0..config.workers.max(1)).map(start).collect();
    workers.map_err(|error| vec![format!("cannot start a worker: {error}")])
}

/// A worker's life: accepts until the server drains, then waits for its connections.
async fn work(
    index: usize,
    bound: Vec<(Arc<KeyServerListener>, Bound)>,
    shared: Arc<Shared>,
    draining: watch::Receiver<bool>,
) {
    let report = Rc::new(shared.reporter.thread());
    let _beating = tokio::task::spawn_local(beat(Arc::clone(&shared), index));
    let mut accepting = Vec::new();
    for (listener, sockets) in bound {
        match sockets.listeners(index) {
            Ok(own) => accepting.extend(own.into_iter().map(|socket| {
                let listener = Arc::clone(&listener);
                accept(socket, listener, Arc::clone(&shared), Rc::clone(&report), draining.clone())
            })),
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

/// Shows as long as its thread makes progress.
async fn beat(shared: Arc<Shared>, index: usize) {
    let mut beat = tokio::time::interval(BEAT);
    loop {
        beat.tick().await;
        shared.beats.get(index).into_iter().for_each(|beats| _ = beats.fetch_add(1, Ordering::Relaxed));
    }
}

/// Accepts on one socket until the server drains; gives the connections that are still open.
async fn accept(
    socket: Listener,
    listener: Arc<KeyServerListener>,
    shared: Arc<Shared>,
    report: Rc<KeyReport>,
    draining: watch::Receiver<bool>,
) -> Vec<tokio::task::JoinHandle<()>> {
    let mut open = Vec::new();
    let mut drain = draining.clone();
    let begin = |stream, open: &mut Vec<tokio::task::JoinHandle<()>>| {
        let life = conn::run(stream, Arc::clone(&listener), Arc::clone(&shared), Rc::clone(&report), draining.clone());
        open.push(tokio::task::spawn_local(life));
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
    if let Some(closing) = socket.close() {
        while let Some((stream, _)) = closing.next().await {
            begin(stream, &mut open);
        }
    }
    open
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
