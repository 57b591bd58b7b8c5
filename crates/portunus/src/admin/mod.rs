//! The admin side: metrics, health, configuration, clients, reload, for operators and scrapers.
//!
//! Runs on a thread and runtime of its own, so that neither a slow scraper nor a reload touches traffic, and a busy worker does not keep an
//! operator out. It listens on loopback or a Unix socket unless the configuration says otherwise, never on a data port, and takes nothing
//! from a web page of another site, see `admit`.
//!
//! Absent on purpose: users and passwords. Who may reach the socket is the kernel's to say (mode 0600) or a proxy's in front.

mod admit;
mod listen;
mod endpoints;

pub use endpoints::PAGES;

use std::io;
use std::path::Path;
use std::thread::JoinHandle;

use config::Reloaded;
use config::{AdminConfig, Endpoint};
use telemetry::Exposition;
use tokio::sync::oneshot;

/// Something the program is asked for as JSON text.
pub type JsonSource = Box<dyn Fn() -> String + Send + Sync>;

/// Loads the configuration again; what is wrong with it, if it is.
pub type ReloadRequest = Box<dyn Fn() -> Result<Reloaded, Vec<String>> + Send + Sync>;

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
    /// Whether traffic is served; else why not.
    pub ready: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Further pages of JSON by path, e.g. `/upstreams`.
    pub extra: Vec<(&'static str, JsonSource)>,
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminState")
    }
}

/// The running admin side; stops when dropped.
#[derive(Debug)]
pub struct AdminHandle {
    config: AdminConfig,
    address: Endpoint,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// Binds and starts the admin side.
///
/// # Errors
/// The address is in use or not ours, the socket's path is taken by something that is alive or no socket, or no thread can be started.
pub fn start(config: &AdminConfig, state: AdminState) -> io::Result<AdminHandle> {
    let listener = listen::bind(&config.bind).map_err(|error| {
        let place = match &config.bind {
            Endpoint::Tcp(address) => address.to_string(),
            Endpoint::Unix(path) => path.display().to_string(),
        };
        io::Error::new(error.kind(), format!("the admin listener cannot bind {place}: {error}"))
    })?;
    let address = listener.address().clone();
    let router = endpoints::router(state, admit::Admission::new(&address, &config.hosts));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let longest = config.connection_timeout;
    let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        runtime.block_on(listen::serve(listener, router, longest, stopped));
        // A reload that still runs is not waited for: it may be what stops us.
        runtime.shutdown_background();
    })?;
    Ok(AdminHandle { config: config.clone(), address, running: Some((stop, thread)) })
}

impl AdminHandle {
    /// What it was started with.
    pub fn config(&self) -> &AdminConfig {
        &self.config
    }

    /// Where it listens, with the port the kernel chose if none was asked for.
    pub fn address(&self) -> &Endpoint {
        &self.address
    }

    /// Stops listening, lets open answers come to their end for a moment, and removes the Unix socket.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        // The thread may have ended by itself; then there is nobody to tell.
        let _ = stop.send(());
        let _ = thread.join();
        if let Endpoint::Unix(path) = &self.address {
            remove_socket(path);
        }
    }
}

impl Drop for AdminHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes our socket, unless another process has put its own there and answers on it.
fn remove_socket(path: &Path) {
    if !listen::is_answered(path) {
        // Gone already is as good.
        let _ = std::fs::remove_file(path);
    }
}
