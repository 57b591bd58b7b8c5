//! Owns the workers and the bound sockets; swaps generations; drains, or hands over to another process.
//!
//! ```text
//! prepare ─serve→ running ──SIGTERM──→ leaving ──drain_delay──→ draining ──all done, time over, or a second signal──→ stopped
//!             ↺ reload: build everything, bind what is new, swap one pointer, close what is gone
//! ```

mod state;
mod udp;
mod binding;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use config::{Config, Place};
use config::{Reloaded, waits_for_restart};
use net::inherited::Passed;
use net::{Bound, Endpoint, Inherited};
use telemetry::{CertificateExpiry, Reporter};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use transport;

use crate::admission::Admission;
use crate::generation::Generation;
use crate::guard;
use crate::listener;
use crate::message::scratch;
use crate::policies::counts;
use crate::ticket_file;
use crate::udp_group::Group;
use crate::upstream::sticky;
use crate::worker::{Shared, Worker};

use self::binding::{Sockets, Taking, bind_missing, take_gone};
use self::udp::{Leaving, Serving};

pub use crate::policies::counts::{MAX_KEYS_PASSED, MAX_KEYS_PER_PIECE, RateCounts, RateKey, UsedKey};
pub use crate::policies::denied::{DeniedLists, DeniedOne};
pub use state::{Rates, ServerState, State};

/// How often a worker hands its log lines over and tidies its pools.
const TICK: Duration = Duration::from_millis(200);

/// A ticket master rotates this often; a ticket opens for up to twice as long.
const TICKET_ROTATION: Duration = Duration::from_secs(12 * 3600);

/// The keys of session tickets and the secrets of QUIC: of the process that we take over from, else of the one before us, else new ones.
fn secrets(
    config: &Config,
    handed_over: (Option<tls::TicketSecrets>, Option<quic::Secrets>),
) -> Result<(tls::TicketKeys, quic::Secrets), tls::crypto::Error> {
    let (mut tickets, mut quic) = handed_over;
    if tickets.is_none()
        && let Some(path) = &config.ticket_keys
    {
        match ticket_file::read(path, SystemTime::now()) {
            Ok(Some(kept)) => (tickets, quic) = (Some(kept.tickets), quic.or(kept.quic)),
            Ok(None) => {}
            Err(problem) => tracing::warn!("no session from before is resumed: {problem}"),
        }
    }
    let known = tickets.and_then(|secrets| tls::TicketKeys::with(TICKET_ROTATION, &secrets));
    let quic = quic.map_or_else(quic::Secrets::random, Ok)?;
    Ok((known.unwrap_or_else(|| tls::TicketKeys::new(TICKET_ROTATION)), quic))
}

/// What the server tells a worker.
#[derive(Debug)]
enum Command {
    /// Accept on this endpoint.
    Listen(Bound, Place<Endpoint>),
    /// Accept on it no more.
    Close(Place<Endpoint>),
    /// Serve datagrams that come to this address.
    ListenUdp(Arc<Group>, Place<SocketAddr>),
    /// Take in no new flows there.
    CloseUdp(Place<SocketAddr>),
    /// UDP sockets have links to another process.
    LinkUdp,
    /// What it was started with is done: count it among those that serve.
    Up,
    /// Tell clients to go elsewhere for their next request, or do so no more.
    Aside(bool),
    /// Tell clients to go elsewhere for their next request.
    Leave,
    /// Another process accepts from now on: leave what is queued to it, and tell clients to go there for their next request.
    HandOver,
    /// Take in what has connected already, then nothing new; end connections after what they are doing.
    Drain,
    /// End now.
    Stop,
    /// Die of a defect.
    #[cfg(test)]
    Panic,
}

/// Where the configuration comes from, again at each reload.
pub type Source = Box<dyn Fn() -> Result<Config, Vec<String>> + Send + Sync>;

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    source: Source,
    tickets: Arc<tls::TicketKeys>,
    /// As the process was started: what is only read then.
    started: Arc<Config>,
    is_leaving: AtomicBool,
    is_aside: AtomicBool,
    /// Held from reading a configuration until it is active: who read an earlier one must not put it in place of a later one.
    reloading: Mutex<()>,
    inner: Mutex<Inner>,
}

struct Inner {
    workers: Vec<WorkerThread>,
    bound: Sockets<Endpoint, Bound>,
    udp_bound: Sockets<SocketAddr, Arc<Group>>,
    udp_leaving: Leaving,
    stage: Stage,
}

/// How far the life of the server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// New connections are still served, and told to go elsewhere afterwards.
    Leaving,
    /// No new connections.
    Draining,
}

struct WorkerThread {
    commands: UnboundedSender<Command>,
    thread: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Prepares and serves, see [`Server::prepare`] and [`Server::serve`].
    ///
    /// # Errors
    /// Theirs.
    pub fn start(
        config: Config,
        source: Source,
        reporter: Arc<Reporter>,
        descriptors: u64,
    ) -> Result<Server, Vec<String>> {
        let nothing = (&mut Inherited::default(), State::default());
        let server = Server::prepare(config, source, reporter, descriptors, nothing)?;
        server.serve()?;
        Ok(server)
    }

    /// Builds the first generation and binds what is not inherited. `descriptors`: how many the process may open; `inherited`: sockets and state of the
    /// process that this one takes over from.
    ///
    /// # Errors
    /// Everything that is wrong with configuration, key material or addresses.
    pub fn prepare(
        config: Config,
        source: Source,
        reporter: Arc<Reporter>,
        descriptors: u64,
        (inherited, state): (&mut Inherited, State),
    ) -> Result<Server, Vec<String>> {
        let config = Arc::new(config);
        state.sticky_key.into_iter().for_each(sticky::resume_key);
        state.rate_key.iter().for_each(counts::resume_key);
        let generation = Generation::build(Arc::clone(&config), None).map_err(|error| error.problems)?;
        state::resume(&generation, &state.servers);
        let switches = generation.policies.named_switches();
        let ordered = switches.iter().filter(|(name, _)| state.maintenance.iter().any(|known| known == name));
        ordered.for_each(|(_, switch)| _ = switch.order(true));
        drop(switches);
        report_stores(&generation, &reporter);
        reporter.generation(generation.number);
        reporter.validation_memory().allow(config.limits.max_validation_memory_bytes);
        let mut sockets = Taking { workers: config.workers, inherited };
        let (mut bound, mut udp_bound) = (BTreeMap::new(), BTreeMap::new());
        bind_missing(&config, &mut bound, &mut sockets)?;
        udp::bind_missing(&config, &bound, (&mut udp_bound, &Leaving::new()), &mut sockets)?;
        let failed = |error: &dyn std::fmt::Display| vec![format!("TLS cannot be set up: {error}")];
        let (tickets, quic_secrets) = secrets(&config, (state.tickets, state.quic)).map_err(|error| failed(&error))?;
        let tickets = Arc::new(tickets);
        state.shared_tickets.iter().for_each(|(masters, age)| tickets.share(masters, *age));
        let acceptor = Arc::new(tls::Acceptor::new(Arc::clone(&tickets)).map_err(|error| failed(&error))?);
        if let Some(hello_keys) = &generation.hello_keys {
            acceptor.open_hellos_for(&hello_keys.keys).map_err(|error| failed(&error))?;
        }
        let shared = Arc::new(Shared {
            generation: Arc::new(ArcSwap::from_pointee(generation)),
            acceptor,
            quic_secrets,
            admission: Arc::new(Admission::new(descriptors)),
            hops: Arc::default(),
            flows: AtomicUsize::new(0),
            listening: AtomicUsize::new(0),
            beats: (0..config.workers).map(|_| AtomicU64::new(0)).collect(),
            workers_up: AtomicUsize::new(0),
            validation_memory: reporter.validation_memory(),
            encoder_memory: AtomicUsize::new(0),
            window_memory: Arc::default(),
            reporter,
        });
        let generation = Arc::clone(&shared.generation);
        shared.reporter.watch_upstreams(Box::new(move || generation.load().upstream_views()));
        let inner = Mutex::new(Inner {
            workers: Vec::new(),
            bound,
            udp_bound,
            udp_leaving: Leaving::new(),
            stage: Stage::Running,
        });
        let (is_leaving, reloading) = (AtomicBool::new(false), Mutex::default());
        let is_aside = AtomicBool::new(state.is_aside);
        Ok(Server { shared, source, tickets, started: config, is_leaving, is_aside, reloading, inner })
    }

    /// Starts the workers, which begin to accept.
    ///
    /// # Errors
    /// A thread cannot be made.
    pub fn serve(&self) -> Result<(), Vec<String>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.bound.values_mut().for_each(Bound::spread);
        // Nobody else has them yet.
        inner.udp_bound.values_mut().filter_map(Arc::get_mut).for_each(|group| group.bound.spread());
        inner.udp_bound.values().for_each(|group| group.prepare());
        let start = |index| start_worker(&self.shared, index, &inner.bound, &inner.udp_bound);
        let workers = (0..self.started.workers).map(start).collect::<io::Result<_>>();
        inner.workers = workers.map_err(|error| vec![format!("cannot start a worker: {error}")])?;
        if self.is_aside.load(Ordering::Relaxed) {
            inner.report(|| Command::Aside(true));
        }
        Ok(())
    }

    /// Whether every worker has begun to serve.
    pub fn is_serving(&self) -> bool {
        self.shared.workers_up.load(Ordering::Relaxed) >= self.started.workers
    }

    /// How often each worker has kept house. A number that stands still belongs to a worker that makes no progress.
    pub fn beats(&self) -> Vec<u64> {
        self.shared.beats.iter().map(|beats| beats.load(Ordering::Relaxed)).collect()
    }

    /// What another process needs in order to take over: the sockets, and what is known. Nothing changes here, but that datagrams of unknown connections of
    /// HTTP/3 go to that process, too, as long as it lives.
    ///
    /// # Errors
    /// A reload is under way, or the kernel makes no links.
    pub fn belongings(&self) -> Result<(Vec<Passed>, State), Vec<String>> {
        let under_way = || vec!["a reload is under way; try again when it is over".to_owned()];
        let inner = self.unless_reloading().ok_or_else(under_way)?;
        let tcp = inner.bound.iter().flat_map(|(place, bound)| bound.pass(&place.key()));
        let udp = inner.udp_bound.iter().map(|(place, group)| group.pass(place)).collect::<io::Result<Vec<_>>>();
        let udp = udp.map_err(|error| vec![format!("sockets of HTTP/3 cannot be linked: {error}")])?;
        inner.report(|| Command::LinkUdp);
        let generation = self.shared.generation.load();
        let servers = state::servers(&generation);
        let switches = generation.policies.named_switches();
        let ordered = switches.iter().filter(|(_, switch)| switch.is_ordered());
        let maintenance = ordered.map(|(name, _)| (*name).to_owned()).collect();
        Ok((
            tcp.chain(udp.into_iter().flatten()).collect(),
            State {
                tickets: Some(self.tickets.secrets()),
                // Whoever shares them, or is told by several machines' operators, has that on its disk.
                shared_tickets: None,
                is_aside: false,
                sticky_key: sticky::key_to_pass(),
                rate_key: counts::key_to_pass(),
                quic: generation.serves_http3().then(|| self.shared.quic_secrets.clone()),
                servers,
                maintenance,
            },
        ))
    }

    /// What rates have counted, for the same process.
    pub fn rates(&self) -> Rates {
        Rates(Some(Arc::clone(&self.shared.generation)))
    }

    /// Goes on from what rates had counted in the process that this one takes over from.
    ///
    /// # Errors
    /// That cannot be what they have counted.
    pub fn go_on_counting(&self, counts: &RateCounts) -> Result<(), String> {
        self.shared.generation.load().policies.go_on_with(counts)
    }

    /// Leaves accepting to the process that has our sockets: not ready any more, and each response says that its connection closes. What is queued
    /// is for the other one; connections go on, and idle ones too, so that no request meets a closing connection.
    pub fn hand_over(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.stage = Stage::Leaving;
        self.is_leaving.store(true, Ordering::Relaxed);
        inner.bound.values().for_each(Bound::keep);
        inner.report(|| Command::HandOver);
        inner.bound.clear();
        inner.udp_bound.clear();
    }

    /// Where it listens: listener name, transport (`tcp`, `udp`, `unix`), and address as bound. One with HTTP/3 has the first two.
    pub fn endpoints(&self) -> Vec<(String, &'static str, Endpoint)> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.shared.generation.load();
        let listener =
            |place: &Place<Endpoint>| generation.listener(place).map_or_else(String::new, |one| one.name.clone());
        let udp_listener = |place: &Place<SocketAddr>| {
            let datagrams = generation.udp_listener(place).map(|one| one.config.name.clone());
            let http3 = || generation.quic_listener(place).map(|one| one.name.clone());
            datagrams.or_else(http3).unwrap_or_default()
        };
        let tcp = inner.bound.iter().map(|(place, bound)| (listener(place), bound.endpoint().clone()));
        let tcp = tcp.map(|(name, endpoint)| (name, endpoint.transport(), endpoint));
        let udp = inner.udp_bound.iter().map(|(place, group)| (udp_listener(place), group.bound.address()));
        let udp = udp.map(|(name, address)| (name, "udp", Endpoint::Tcp(address)));
        tcp.chain(udp).collect()
    }

    /// The keys of session tickets.
    pub fn tickets(&self) -> &Arc<tls::TicketKeys> {
        &self.tickets
    }

    /// The configuration that the process was started with, of which some settings are read only then.
    pub fn started(&self) -> &Arc<Config> {
        &self.started
    }

    /// What all workers share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Reads the configuration and everything it names anew and puts it active.
    ///
    /// # Errors
    /// Everything that is wrong; the old generation stays active.
    pub fn reload(&self) -> Result<Reloaded, Vec<String>> {
        let _reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let config = (self.source)().inspect_err(|_| self.note_reload(false))?;
        self.put_active(Arc::new(config))
    }

    /// Reads the configuration anew, and puts it active if it says something else than the active one.
    ///
    /// # Errors
    /// As [`Server::reload`].
    pub fn reload_if_changed(&self) -> Result<Option<Reloaded>, Vec<String>> {
        let _reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let config = (self.source)().inspect_err(|_| self.note_reload(false))?;
        // All that a file can say is in this text; secrets it only refers to.
        if format!("{config:?}") == format!("{:?}", self.shared.generation.load().config) {
            return Ok(None);
        }
        self.put_active(Arc::new(config)).map(Some)
    }

    /// Reads key material anew under the configuration active.
    ///
    /// # Errors
    /// As [`Server::reload`].
    pub fn reload_keystores(&self) -> Result<Reloaded, Vec<String>> {
        let _reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let config = Arc::clone(&self.shared.generation.load().config);
        self.put_active(config)
    }

    fn put_active(&self, config: Arc<Config>) -> Result<Reloaded, Vec<String>> {
        // One reload at a time: the next one builds on what this one made.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.stage != Stage::Running {
            return Err(vec!["the server is shutting down; nothing is loaded any more".to_owned()]);
        }
        let previous = self.shared.generation.load_full();
        let built = Generation::build(Arc::clone(&config), Some(&previous)).and_then(|generation| {
            let log = self.shared.reporter.open_log(&previous.config.log, &config.log);
            let log = log.map_err(|error| vec![error.to_string()])?;
            let traces = self.shared.reporter.open_traces(config.tracing.as_ref());
            let traces = traces.map_err(|error| vec![error.to_string()])?;
            // Workers stay as many as they are, whatever the file says.
            let mut sockets = Taking { workers: self.started.workers, inherited: &mut Inherited::default() };
            let fresh = bind_missing(&config, &mut inner.bound, &mut sockets)?;
            let Inner { bound, udp_bound, udp_leaving, .. } = &mut *inner;
            let groups = (udp_bound, &*udp_leaving);
            let fresh_udp = udp::bind_missing(&config, bound, groups, &mut sockets).inspect_err(|_| {
                // All or nothing: what nobody will serve must not stay bound.
                for (place, bound) in &fresh {
                    inner.bound.remove(place);
                    bound.unlink();
                }
            })?;
            Ok((generation, fresh, fresh_udp, (log, traces)))
        });
        let (generation, fresh, fresh_udp, (log, traces)) = built.map_err(|error| {
            error.failed_keystores.iter().for_each(|name| self.shared.reporter.keystore_failed(name));
            self.note_reload(false);
            error.problems
        })?;
        report_stores(&generation, &self.shared.reporter);
        let number = generation.number;
        self.shared.validation_memory.allow(config.limits.max_validation_memory_bytes);
        let has_hello_keys = generation.hello_keys.is_some();
        if let Some(Err(error)) =
            generation.hello_keys.as_ref().map(|keys| self.shared.acceptor.open_hellos_for(&keys.keys))
        {
            tracing::error!(%error, "the keys of Encrypted Client Hello stay as they were");
        }
        self.shared.generation.store(Arc::new(generation));
        if let Some(Err(error)) = log.map(|log| self.shared.reporter.switch_log(log)) {
            tracing::error!(%error, "the access log stays as it was: no thread can be started to write it");
        }
        if previous.config.tracing != config.tracing
            && let Err(error) = self.shared.reporter.switch_traces(traces)
        {
            tracing::error!(%error, "no spans are sent: no thread can be started to send them");
        }
        if let Err(error) = telemetry::set_level(&config.log.level) {
            tracing::error!(%error, "log.level stays as it was");
        }
        for (place, bound) in fresh {
            inner.report(|| Command::Listen(bound.clone(), place.clone()));
        }
        let gone = take_gone(&mut inner.bound, config.listeners.iter().flat_map(|listener| listener.places()));
        for (place, bound) in gone {
            bound.unlink();
            inner.report(|| Command::Close(place.clone()));
        }
        inner.follow_udp(&config, &fresh_udp);
        self.shared.reporter.retain(|keystore| config.keystores.contains_key(keystore));
        self.note_reload(true);
        let mut waiting = waits_for_restart(&self.started, &config);
        if !has_hello_keys && self.shared.acceptor.opens_hellos() {
            waiting.push("ech_keys: what was loaded is used until a restart or `portunus upgrade`".to_owned());
        }
        waiting.iter().for_each(|setting| tracing::warn!("reloaded, but a setting waits for a restart: {setting}"));
        Ok(Reloaded { generation: number, waiting })
    }

    fn note_reload(&self, ok: bool) {
        self.shared.reporter.reload(ok, self.shared.generation.load().number);
    }

    /// Changes something of the active generation. Waits for a reload under way, whose generation is made of what was so when that began.
    pub fn between_reloads<T>(&self, change: impl FnOnce(&Generation) -> T) -> T {
        let _inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        change(&self.shared.generation.load_full())
    }

    /// What a reload holds for as long as it takes; none then.
    fn unless_reloading(&self) -> Option<MutexGuard<'_, Inner>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Replaces workers whose thread has died. Their connections are lost, the others' are not.
    pub fn replace_dead_workers(&self) {
        // Who calls has signals and a watchdog to see to. A reload may take its time; the next call comes soon.
        let Some(mut inner) = self.unless_reloading() else { return };
        if inner.stage != Stage::Running {
            return;
        }
        for index in 0..inner.workers.len() {
            if inner.workers.get(index).is_none_or(|worker| !worker.thread.is_finished()) {
                continue;
            }
            tracing::error!(worker = index, "a worker died and is replaced");
            match start_worker(&self.shared, index, &inner.bound, &inner.udp_bound) {
                Ok(fresh) => {
                    // Nobody else has it yet, so it is there.
                    let _ = fresh.commands.send(Command::Aside(self.is_aside.load(Ordering::Relaxed)));
                    if let Some(place) = inner.workers.get_mut(index) {
                        *place = fresh;
                    }
                }
                Err(error) => tracing::error!(worker = index, %error, "cannot replace the worker yet"),
            }
        }
    }

    /// Whether it can serve requests, for load balancers; else why not.
    ///
    /// # Errors
    /// It is starting or shutting down, or there are upstreams and none has a server that is up.
    pub fn ready(&self) -> Result<(), String> {
        // Nothing is locked here: a reload under way holds the lock for as long as it takes.
        if self.is_leaving.load(Ordering::Relaxed) {
            return Err("draining".to_owned());
        }
        if !self.is_serving() {
            return Err("starting".to_owned());
        }
        if self.is_aside.load(Ordering::Relaxed) {
            return Err("set aside by an operator of the fleet".to_owned());
        }
        let generation = self.shared.generation.load();
        let names = generation.config.upstreams.keys();
        let mut groups = names.filter_map(|name| generation.group(name)).peekable();
        if groups.peek().is_some() && !groups.any(|group| group.is_up()) {
            return Err("no healthy upstream".to_owned());
        }
        Ok(())
    }

    /// What is amiss although requests are served, in words.
    pub fn degraded(&self) -> Vec<String> {
        let generation = self.shared.generation.load();
        let store = generation.policies.rate_store().and_then(|store| store.concern());
        let stale =
            generation.listed().into_iter().filter(|(_, name, _)| name.is_stale()).map(|(group, name, source)| {
                let (source, upstream) = (&source.config.name, &group.config.name);
                format!("discovery: {source} is away, {upstream} keeps the servers of {} that are known", name.name)
            });
        store.into_iter().chain(stale).collect()
    }

    /// Whether it shuts down, or another process accepts in its place.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Has balancers and clients go elsewhere for as long as an operator wants it: not ready, and each response says that its connection closes. Whoever comes
    /// all the same is served, and everything else goes on. Whether that is news.
    pub fn set_aside(&self, is_aside: bool) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = self.is_aside.swap(is_aside, Ordering::Relaxed) != is_aside;
        if is_news {
            inner.report(|| Command::Aside(is_aside));
        }
        is_news
    }

    /// Begins to shut down: not ready any more, and each response says that its connection closes. New connections are still served.
    pub fn leave(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.stage = Stage::Leaving;
        self.is_leaving.store(true, Ordering::Relaxed);
        inner.report(|| Command::Leave);
    }

    /// Stops accepting: what is queued is taken in, then the addresses are free for another process. Open connections end after what they are
    /// doing.
    pub fn stop_accepting(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.stage = Stage::Draining;
        // Files go first: who comes next may bind the same path at once, and nobody connects to ours any more.
        let bound = std::mem::take(&mut inner.bound);
        bound.values().for_each(Bound::unlink);
        inner.report(|| Command::Drain);
        // Workers close their sockets when they have taken in what is queued; ours must not keep them open, or the kernel would go on
        // completing handshakes that nobody serves.
        drop(bound);
        inner.udp_bound.clear();
    }

    /// Connections, flows and listening sockets that are still open.
    pub fn open(&self) -> usize {
        let Shared { admission, flows, listening, .. } = &*self.shared;
        // In this order: an accepted connection is counted before its listener is gone.
        listening.load(Ordering::Acquire) + admission.total() + flows.load(Ordering::Relaxed)
    }

    /// Ends the workers, and with them whatever is still open: how many connections and flows that were.
    pub fn stop(&self) -> usize {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.shared.admission.total() + self.shared.flows.load(Ordering::Relaxed);
        inner.report(|| Command::Stop);
        for worker in inner.workers.drain(..) {
            let _ = worker.thread.join();
        }
        left
    }
}

impl Inner {
    /// Serves fresh UDP addresses, and those no longer that are configured no more.
    fn follow_udp(&mut self, config: &Config, fresh: &[(Place<SocketAddr>, Arc<Group>)]) {
        for (place, group) in fresh {
            group.prepare();
            self.report(|| Command::ListenUdp(Arc::clone(group), place.clone()));
        }
        let gone = take_gone(&mut self.udp_bound, udp::places(config).map(|(_, place, _)| place));
        for (place, group) in gone {
            self.report(|| Command::CloseUdp(place.clone()));
            self.udp_leaving.insert(place, Arc::downgrade(&group));
        }
        self.udp_leaving.retain(|place, group| !self.udp_bound.contains_key(place) && group.strong_count() > 0);
    }

    fn report(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            // A dead worker learns of everything when it is replaced.
            let _ = worker.commands.send(command());
        }
    }
}

fn report_stores(generation: &Generation, reporter: &Reporter) {
    generation.warnings().for_each(|warning| tracing::warn!("{warning}"));
    for (name, store) in &generation.stores {
        for warning in &store.warnings {
            tracing::warn!(keystore = name, "{warning}");
        }
        let expiries = store.entries.iter().flat_map(|entry| {
            entry.names.iter().map(|name| CertificateExpiry {
                name: name.clone(),
                key_type: entry.identity.key_type(),
                not_after: entry.not_after,
            })
        });
        reporter.keystore_loaded(name, expiries.collect());
    }
}

fn start_worker(
    shared: &Arc<Shared>,
    index: usize,
    bound: &Sockets<Endpoint, Bound>,
    udp_bound: &Sockets<SocketAddr, Arc<Group>>,
) -> io::Result<WorkerThread> {
    let (commands, receiver) = unbounded_channel();
    for (place, bound) in bound {
        let _ = commands.send(Command::Listen(bound.clone(), place.clone()));
    }
    for (place, group) in udp_bound {
        let _ = commands.send(Command::ListenUdp(Arc::clone(group), place.clone()));
    }
    let _ = commands.send(Command::Up);
    let shared = Arc::clone(shared);
    let cores = net::process::allowed_cores();
    // Pinning helps only where there is a core for each.
    let workers = shared.generation.load().config.workers;
    let core = if workers == cores.len() { cores.get(index).copied() } else { None };
    let thread = net::engine::spawn(format!("worker-{index}"), core, move || work(shared, index, receiver))?;
    Ok(WorkerThread { commands, thread })
}

/// A worker's main task: obeys commands and keeps house.
async fn work(shared: Arc<Shared>, index: usize, mut commands: UnboundedReceiver<Command>) {
    let worker = Worker::new(&shared, index);
    let mut listening: BTreeMap<Place<Endpoint>, Vec<AbortHandle>> = BTreeMap::new();
    let mut udp_serving: BTreeMap<Place<SocketAddr>, Vec<Serving>> = BTreeMap::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Listen(bound, place)) => listen(&worker, index, &bound, place, &mut listening),
                Some(Command::Close(place)) => {
                    listening.remove(&place).into_iter().flatten().for_each(|task| task.abort());
                }
                Some(Command::ListenUdp(group, place)) => {
                    let before = udp_serving.remove(&place).unwrap_or_default();
                    udp_serving.insert(place.clone(), udp::serve(&worker, index, &group, &place, before));
                }
                Some(Command::CloseUdp(place)) => udp_serving.get(&place).into_iter().flatten().for_each(Serving::close),
                Some(Command::LinkUdp) => udp_serving.values().flatten().for_each(Serving::look),
                Some(Command::Up) => _ = shared.workers_up.fetch_add(1, Ordering::Relaxed),
                Some(Command::Aside(is_aside)) => worker.set_aside(is_aside),
                Some(Command::Leave) => worker.begin_leave(),
                Some(Command::HandOver) => {
                    std::mem::take(&mut listening).into_values().flatten().for_each(|task| task.abort());
                    worker.begin_hand_over();
                }
                Some(Command::Drain) => worker.begin_drain(),
                Some(Command::Stop) | None => break,
                #[cfg(test)]
                Some(Command::Panic) => panic!("a fault that a test asked for"),
            },
            _ = tick.tick() => {
                // An idle worker must not hold an old generation back.
                worker.key_clients.refresh(worker.pin().key_groups(), &worker.report);
                worker.pools.sweep();
                udp::tidy(&mut udp_serving, &worker);
                trim_memory();
                worker.report.flush();
                shared.beats.get(index).into_iter().for_each(|beats| _ = beats.fetch_add(1, Ordering::Relaxed));
            }
        }
    }
    worker.report.flush();
}

/// Lets go of pooled memory that this worker did not need lately.
fn trim_memory() {
    net::chunk::trim();
    net::in_place::trim();
    scratch::trim();
    guard::trim();
    transport::trim_buffers();
}

fn listen(
    worker: &Rc<Worker>,
    index: usize,
    bound: &Bound,
    place: Place<Endpoint>,
    listening: &mut BTreeMap<Place<Endpoint>, Vec<AbortHandle>>,
) {
    match bound.listeners(index) {
        Ok(listeners) => {
            let serve = |listener| {
                let serving = listener::serve(listener, Rc::new(place.clone()), Rc::clone(worker));
                tokio::task::spawn_local(serving).abort_handle()
            };
            let tasks = listeners.into_iter().map(serve).collect();
            listening.insert(place, tasks);
        }
        Err(error) => tracing::error!(endpoint = %place.address, %error, "cannot listen"),
    }
}
