//! The admin side: metrics, health, configuration, clients, reload, for operators and scrapers.
//!
//! Runs on a thread and runtime of its own, so that neither a slow scraper nor a reload touches traffic, and a busy worker does not keep an
//! operator out. It listens on loopback or a Unix socket unless the configuration says otherwise, never on a data port, and takes nothing
//! from a web page of another site, see `admit`.
//!
//! Absent on purpose: users and passwords. Who may connect to a Unix socket is the kernel's to say (mode 0600); over TCP a token or a client
//! certificate is, and without either only metrics and health are served.

mod endpoints;
mod events;
mod api;
mod admit;
mod dashboard;
mod document;
mod listen;
mod rates;
mod seats;
mod secure;
pub mod place;

pub use api::{Change, Operable, Rejection, View};
pub use endpoints::PAGES;
pub use rates::Rates;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use config::Reloaded;
use config::{AdminConfig, Endpoint};
use keystore::Password;
use net::Inherited;
use net::inherited::Passed;
use telemetry::Exposition;
use tokio::sync::oneshot;

/// Something the program is asked for as JSON text.
pub type JsonSource = Box<dyn Fn() -> String + Send + Sync>;

/// Loads the configuration again; what is wrong with it, if it is.
pub type ReloadRequest = Box<dyn Fn() -> Result<Reloaded, Vec<String>> + Send + Sync>;

/// Has another process take over, and waits until it serves: its number, or why there is none.
pub type UpgradeRequest = Box<dyn Fn() -> Result<u32, Vec<String>> + Send + Sync>;

/// What the admin side shows and does. The functions are called one request at a time and may take their time.
pub struct AdminState {
    /// All metrics as text.
    pub metrics: Box<dyn Fn(Exposition) -> String + Send + Sync>,
    /// Heaviest client addresses as JSON, `true` for those by rate; none for a role that does not keep them.
    pub clients: Option<Box<dyn Fn(bool) -> String + Send + Sync>>,
    /// The configuration in use, secrets redacted.
    pub config_json: JsonSource,
    /// Loads the configuration again, or tells every problem with it.
    pub reload: ReloadRequest,
    /// Has another process take over; none where that cannot be. Only asked on Unix sockets, whose mode says who may.
    pub upgrade: Option<UpgradeRequest>,
    /// What the API shows and changes; none for a role that has none.
    pub api: Option<Arc<dyn Operable>>,
    /// Whether traffic is served, with further lines that are to be known, such as what is amiss all the same; else why not.
    pub ready: Box<dyn Fn() -> Result<Vec<String>, String> + Send + Sync>,
    /// Further pages of JSON by path, e.g. `/upstreams`.
    pub extra: Vec<(&'static str, JsonSource)>,
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminState")
    }
}

/// What an admin listener is to be: its configuration, and the token and the certificates that its configuration only names.
#[derive(Clone, PartialEq, Eq)]
pub struct Wanted {
    config: AdminConfig,
    token: Option<Password>,
    front: Option<secure::Front>,
}

impl std::fmt::Debug for Wanted {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Wanted").field(&self.config.bind).finish()
    }
}

/// The running admin side; stops when dropped.
#[derive(Debug)]
pub struct AdminHandle {
    wanted: Wanted,
    address: Endpoint,
    /// Its socket, for another process; none when it has ended.
    passed: Option<Passed>,
    /// Another process has the socket, so that its file stays.
    is_kept: bool,
    running: Option<Running>,
}

/// Its thread.
#[derive(Debug)]
struct Running {
    /// What stops it; none once it was told.
    stop: Option<oneshot::Sender<()>>,
    /// Closed once it accepts nobody any more.
    accepting: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

/// Its address, bound and not yet served.
pub struct AdminListener {
    bound: listen::Bound,
    wanted: Wanted,
}

/// What an admin listener is called between processes.
fn key(config: &AdminConfig) -> String {
    format!("admin {}", config.bind)
}

impl Wanted {
    /// Reads token and certificates, if there are to be any.
    ///
    /// # Errors
    /// One cannot be read, or is none.
    pub fn read(config: AdminConfig) -> io::Result<Wanted> {
        let token = config.token.as_ref().map(admit::token).transpose().map_err(io::Error::other)?;
        let front = config.tls.as_ref().map(secure::Front::read).transpose().map_err(io::Error::other)?;
        Ok(Wanted { config, token, front })
    }

    /// Its address as configured.
    pub fn place(&self) -> &Endpoint {
        &self.config.bind
    }
}

/// Reads the token and binds the address, or takes the socket that was passed for it.
///
/// # Errors
/// Those of [`Wanted::read`] and [`bind_wanted`].
pub fn bind(config: AdminConfig, inherited: &mut Inherited) -> io::Result<AdminListener> {
    bind_wanted(Wanted::read(config)?, inherited)
}

/// Binds the address, or takes the socket that was passed for it.
///
/// # Errors
/// The address is in use or not ours, or the socket's path is taken by something that is alive or no socket.
pub fn bind_wanted(wanted: Wanted, inherited: &mut Inherited) -> io::Result<AdminListener> {
    let config = &wanted.config;
    let kind = config.bind.kind();
    let mut passed = inherited.take(kind, &key(config));
    passed.extend(inherited.take(kind, &config.bind.to_string()));
    let bound = match passed.pop() {
        Some(passed) => listen::adopt(&config.bind, &passed),
        None => listen::bind(&config.bind),
    };
    match bound {
        Ok(bound) => Ok(AdminListener { bound, wanted }),
        Err(error) => {
            let place = match &config.bind {
                Endpoint::Tcp(address) => address.to_string(),
                Endpoint::Unix(path) => path.display().to_string(),
            };
            Err(io::Error::new(error.kind(), format!("the admin listener cannot bind {place}: {error}")))
        }
    }
}

/// Binds and starts the admin side.
///
/// # Errors
/// Those of [`bind`] and [`serve`].
pub fn start(config: &AdminConfig, state: AdminState) -> io::Result<AdminHandle> {
    serve(bind(config.clone(), &mut Inherited::default())?, state)
}

/// Starts the admin side.
///
/// # Errors
/// No thread can be started.
pub fn serve(
    AdminListener { bound: listener, wanted }: AdminListener,
    mut state: AdminState,
) -> io::Result<AdminHandle> {
    let address = listener.address().clone();
    if matches!(address, Endpoint::Tcp(_)) {
        state.upgrade = None;
    }
    let config = &wanted.config;
    let passed = listener.pass(&key(config))?;
    let front = wanted.front.clone();
    let is_certified = front.as_ref().is_some_and(secure::Front::demands_certificate);
    let admission = admit::Admission::new(&address, &config.hosts, wanted.token.clone(), is_certified);
    let router = endpoints::router(state, admission);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ((stop, stopped), (accepts, accepting)) = (oneshot::channel(), mpsc::channel());
    let longest = config.connection_timeout;
    let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        runtime.block_on(listen::serve(listener, (router, front), longest, (stopped, accepts)));
        // A reload that still runs is not waited for: it may be what stops us.
        runtime.shutdown_background();
    })?;
    let running = Some(Running { stop: Some(stop), accepting, thread });
    Ok(AdminHandle { wanted, address, passed: Some(passed), is_kept: false, running })
}

impl AdminHandle {
    /// What it was started with.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The address that it was configured with.
    pub fn place(&self) -> &Endpoint {
        self.wanted.place()
    }

    /// Where it listens, with the port the kernel chose if none was asked for.
    pub fn address(&self) -> &Endpoint {
        &self.address
    }

    /// Its socket, for another process.
    pub fn pass(&self) -> Option<Passed> {
        self.passed.clone()
    }

    /// As [`AdminHandle::stop`], but the address stays, since another process has the socket.
    pub fn hand_over(mut self) {
        self.is_kept = true;
        self.end();
    }

    /// Stops listening, lets open answers come to their end for a moment, and removes the Unix socket.
    pub fn stop(mut self) {
        self.end();
    }

    /// Accepts nobody any more; who is being responded to has a moment left.
    pub fn cease(&mut self) {
        let Some(running) = &mut self.running else { return };
        if let Some(stop) = running.stop.take() {
            // The thread may have ended by itself; then there is nobody to tell.
            let _ = stop.send(());
            let _ = running.accepting.recv();
        }
    }

    fn end(&mut self) {
        self.cease();
        let Some(running) = self.running.take() else { return };
        let _ = running.thread.join();
        // While it is open no other file can be taken for its own.
        if let Some(passed) = self.passed.take().filter(|_| !self.is_kept) {
            passed.unlink();
        }
    }
}

impl Drop for AdminHandle {
    fn drop(&mut self) {
        self.end();
    }
}
