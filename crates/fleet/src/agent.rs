//! A node of a fleet: follows the state of the fleet, fetches what it is to serve, has it loaded, and reports; and drives the roll-out if it is its turn.
//!
//! Two threads: one has the watch, the other does everything else, once a second and when there is news. Neither is ever waited for by whoever serves, and
//! without etcd nothing changes. Whatever cannot be verified changes nothing, either: it is reported, and what is served stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use config::FleetConfig;
use tls::SharedMasters;
use zeroize::Zeroizing;

use crate::cache::{Cache, Current};
use crate::copy::Copy;
use crate::etcd::KeyValue;
use crate::lease::Lease;
use crate::orders::{Kind, Order, Orders};
use crate::rollout::{Counts, Driver, Phase, Report, Rollout};
use crate::seal::Seal;
use crate::store::{Failure, Followed, Store, Stored};
use crate::threads::{Bell, Threads, pause};
use crate::tickets::{PERIOD, SPREAD, Tickets};

/// How often the node looks whether something is to be done.
const TICK: Duration = Duration::from_secs(1);

/// How often it says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// How often it reads the state of the fleet though no watch says that it has changed, and how often it reports.
const READ_PERIOD: Duration = Duration::from_secs(10);
const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// How long a watch may be silent before it is begun anew.
const WATCH_TIME: Duration = Duration::from_secs(60);

/// How long a node without anything to serve waits for its first generation.
const FIRST_WAIT: Duration = Duration::from_secs(30);

/// Whoever serves what the node fetches.
pub trait Host: Send + Sync + 'static {
    /// Loads a configuration file in place of the one that is served.
    ///
    /// # Errors
    /// It is rejected, for these reasons, and what was served stays; or this is not the time for it.
    fn load(&self, file: &Path) -> Result<(), NotLoaded>;

    /// What it has counted since it started.
    fn counts(&self) -> Counts;

    /// Obeys these orders from now on, and no others; what of them has no effect. Those about nodes are this node's.
    fn obey(&self, orders: &[Order]) -> Vec<String>;

    /// The number of the configuration that is active: it changes with each reload.
    fn loads(&self) -> u64;

    /// Seals session tickets with these masters from now on; the current one has done so for that long.
    fn share_tickets(&self, masters: &SharedMasters, age: Duration);

    /// Whether it will end, or another process serves.
    fn is_leaving(&self) -> bool;

    /// Hears how the node stands, once a second.
    fn note(&self, standing: &Standing);
}

/// Why a configuration was not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotLoaded {
    /// Later it may be different.
    Busy,
    /// These problems.
    Rejected(Vec<String>),
}

/// How a node stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// etcd answers.
    pub is_connected: bool,
    /// The generation that is served.
    pub generation: String,
    /// The newest serial number that is known.
    pub serial: u64,
    /// Generations that were not taken.
    pub rejections: u64,
    /// What is wrong, if anything is.
    pub problem: Option<String>,
}

/// What a node serves first.
#[derive(Debug)]
pub struct First {
    /// Its configuration file.
    pub file: PathBuf,
    /// What is wrong with what was served last.
    pub warnings: Vec<String>,
    node: String,
    current: Current,
    cache: Cache,
}

impl First {
    /// What the node is called.
    pub fn node(&self) -> &str {
        &self.node
    }
}

/// What a process is to have before it serves, from the disk and the fleet's key alone.
#[derive(Debug)]
pub struct Belongings {
    /// Masters of session tickets, and how long the current one has sealed; none if none were ever known here.
    pub tickets: Option<(SharedMasters, Duration)>,
    /// What operators have set, see [`Host::obey`].
    pub orders: Vec<Order>,
    /// The key of sticky sessions of groups that are given none.
    pub sticky: Zeroizing<[u8; 32]>,
    /// The secret of this node's stateless resets of QUIC, and the one of the fleet's address tokens. A reset must be nobody else's: who can have a packet
    /// reach another node would learn it there, and could end connections with it (RFC 9000 §21.11).
    pub quic: (Zeroizing<[u8; 32]>, Zeroizing<[u8; 32]>),
}

/// What a node has before it serves.
///
/// # Errors
/// The key of the seal cannot be read.
pub fn belongings(config: &FleetConfig, first: &First) -> Result<Belongings, String> {
    let (seal, store) = (Seal::read(&config.seal_key)?, Store::new(config, Arc::default())?);
    let tickets = Copy::<Tickets>::load(first.cache.folder(), &store);
    let orders = Copy::<Orders>::load(first.cache.folder(), &store);
    let orders = orders.known().map(|orders| own(orders, &first.node)).unwrap_or_default();
    let tickets = tickets.known().map(|tickets| (tickets.masters.clone(), tickets.age(now())));
    let reset = seal.derive(&format!("stateless resets of {}", first.node));
    let (sticky, quic) = (seal.derive("sticky sessions"), (reset, seal.derive("address tokens")));
    Ok(Belongings { tickets, orders, sticky, quic })
}

/// The orders that hold now, but for those about other nodes.
fn own(orders: &Orders, node: &str) -> Vec<Order> {
    let is_own = |order: &&Order| order.kind != Kind::Node || order.name == node;
    orders.active(now()).filter(is_own).cloned().collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What this node is called.
///
/// # Errors
/// The file does not say it, and neither does the host.
pub fn node_name(config: &FleetConfig) -> Result<String, String> {
    if let Some(name) = &config.node {
        return Ok(name.clone());
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match (1..=64).contains(&name.len()) && name.bytes().all(is_plain) {
        true => Ok(name),
        false => Err(format!("the host name {name:?} cannot be a node's; write `node: NAME`")),
    }
}

/// The generation that is to be served, if etcd says so at once and `is_good` finds nothing wrong with it; else the one that was served last, from the disk.
/// A node that has neither waits for etcd.
///
/// # Errors
/// There is none anywhere, or it cannot be had; what to do.
pub fn first(config: &FleetConfig, is_good: &dyn Fn(&Path) -> bool) -> Result<First, String> {
    let (cache, node) = (Cache::open(&config.cache)?, node_name(config)?);
    let mut warnings = Vec::new();
    let current = cache.current().unwrap_or_else(|problem| {
        warnings.push(problem);
        None
    });
    if let Some(current) = current {
        match cache.find(&current.generation) {
            Ok(file) => {
                cache.tidy(&[&current.generation]);
                let last = First { file, warnings, node, current, cache };
                return Ok(newer(config, &last, is_good).unwrap_or(last));
            }
            Err(problem) => warnings.push(format!("what was served last is fetched anew: {problem}")),
        }
    }
    let mut store = Store::new(config, Arc::default())?;
    let until = Instant::now() + FIRST_WAIT;
    loop {
        match fetch_first(&mut store, &cache, &node) {
            Err(Failure::Away(problem)) if Instant::now() >= until => {
                return Err(format!("nothing is served yet, and {problem}"));
            }
            Err(Failure::Away(_)) => _ = Bell::default().wait(TICK),
            Err(Failure::Wrong(problem)) => return Err(problem),
            Ok((file, current)) => return Ok(First { file, warnings, node, current, cache }),
        }
    }
}

/// What is to be served instead of what was served last: it may need what the sandbox of a running process does not have.
fn newer(config: &FleetConfig, last: &First, is_good: &dyn Fn(&Path) -> bool) -> Option<First> {
    let First { warnings, node, current, cache, .. } = last;
    let mut store = Store::new(config, Arc::default()).ok()?;
    let Stored { rollout, .. } = store.rollout().ok()??;
    let is_news = rollout.serial >= current.serial && rollout.wanted(node)? != current.generation;
    let (file, current) = is_news.then(|| fetch_first(&mut store, cache, node).ok()).flatten()?;
    let first = First { file, warnings: warnings.clone(), node: node.clone(), current, cache: cache.clone() };
    // Once: one that passes the check and still does not start, such as for an address that is taken, must not end every start.
    let may_try = cache.tried().as_ref() != Some(&first.current.generation) && is_good(&first.file);
    (may_try && cache.set_tried(Some(&first.current.generation)).is_ok()).then_some(first)
}

fn fetch_first(store: &mut Store, cache: &Cache, node: &str) -> Result<(PathBuf, Current), Failure> {
    let nothing =
        || Failure::Wrong("the fleet serves nothing yet; `portunus fleet push` puts a configuration there".to_owned());
    let Stored { rollout, .. } = store.rollout()?.ok_or_else(nothing)?;
    let revision = store.revision();
    let generation = rollout.wanted(node).ok_or_else(nothing)?.to_owned();
    let (manifest, bundle) = store.download(&generation)?;
    let file = cache.keep(&generation, &manifest, &bundle).map_err(Failure::Wrong)?;
    Ok((file, Current { generation, serial: rollout.serial, revision }))
}

/// A node at work; ends when dropped.
#[derive(Debug)]
pub struct Agent {
    _threads: Threads,
}

impl Agent {
    /// Starts a node that serves this.
    ///
    /// # Errors
    /// The key of the seal cannot be read, or no thread can be started.
    pub fn start(config: &FleetConfig, first: First, host: Arc<dyn Host>) -> Result<Agent, String> {
        let (stop, bell) = (Arc::<AtomicBool>::default(), Arc::<Bell>::default());
        let watcher =
            Watcher { store: Store::new(config, Arc::clone(&stop))?, stop: Arc::clone(&stop), bell: Arc::clone(&bell) };
        let store = Store::new(config, Arc::clone(&stop))?;
        let node = Node::new(store, first, host);
        let mut threads = Threads::new(Arc::clone(&stop), Arc::clone(&bell));
        threads.start("fleet", move || node.run(&stop, &bell))?;
        threads.start("fleet-watch", move || watcher.run())?;
        Ok(Agent { _threads: threads })
    }
}

/// Rings when the state of the fleet changes.
struct Watcher {
    store: Store,
    stop: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

impl Watcher {
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if self.watch().is_err() {
                // The other thread sees by itself that etcd is away, and says so.
                pause(TICK, &self.stop);
            }
        }
    }

    /// Watches until nothing has happened for long, or etcd ends it.
    fn watch(&mut self) -> Result<(), Failure> {
        // For its revision: what changes from then on is seen.
        match self.store.rollout() {
            Err(away @ Failure::Away(_)) => return Err(away),
            Ok(_) | Err(Failure::Wrong(_)) => self.bell.ring(),
        }
        let mut watch = self.store.watch()?;
        while watch.next(WATCH_TIME)?.is_some() {
            self.bell.ring();
        }
        Ok(())
    }
}

/// What the node knows.
struct Node {
    store: Store,
    name: String,
    host: Arc<dyn Host>,
    cache: Cache,
    current: Current,
    /// The generation that was not taken, when the roll-out began that wanted it, and why.
    rejected: Option<(String, u64, Vec<String>)>,
    /// What is wrong with the store, if anything is.
    problem: Option<String>,
    standing: Standing,
    lease: Option<Lease>,
    stored: Option<Stored>,
    orders: Copy<Orders>,
    /// Which orders are obeyed, how many of them hold, and of which configuration; and what of them has no effect.
    obeyed: Option<(u64, usize, u64)>,
    idle: Vec<String>,
    is_drained: bool,
    tickets: Copy<Tickets>,
    /// How much later than others it rotates the masters of tickets.
    patience: Duration,
    read: Option<Instant>,
    reported: Option<(Instant, Report)>,
    driver: Option<(Driver, i64)>,
}

impl Node {
    fn new(store: Store, First { node, current, cache, .. }: First, host: Arc<dyn Host>) -> Node {
        let standing =
            Standing { generation: current.generation.clone(), serial: current.serial, ..Standing::default() };
        let (orders, tickets) = (Copy::load(cache.folder(), &store), Copy::load(cache.folder(), &store));
        Node {
            orders,
            obeyed: None,
            idle: Vec::new(),
            is_drained: false,
            tickets,
            patience: Duration::from_secs(fastrand::u64(..SPREAD.as_secs())),
            store,
            name: node,
            host,
            cache,
            current,
            rejected: None,
            problem: None,
            standing,
            lease: None,
            stored: None,
            read: None,
            reported: None,
            driver: None,
        }
    }

    fn run(mut self, stop: &AtomicBool, bell: &Bell) {
        // It is served: whoever starts next begins with it.
        self.note_current();
        if let Err(problem) = self.cache.set_tried(None) {
            tracing::warn!("fleet: {problem}");
        }
        let mut has_news = true;
        while !stop.load(Ordering::Relaxed) && !self.host.is_leaving() {
            self.obey();
            let turn = self.turn(has_news);
            self.note_turn(turn);
            has_news = bell.wait(TICK);
        }
        if let Some(lease) = self.lease.filter(|_| self.standing.is_connected) {
            // Else it ends by itself.
            let _ = self.store.unstopped().revoke(lease.id);
        }
    }

    /// Does what there is to do.
    fn turn(&mut self, has_news: bool) -> Result<(), Failure> {
        let lease = self.keep_lease()?;
        let is_due = |since: Option<Instant>, period: Duration| since.is_none_or(|since| since.elapsed() >= period);
        if has_news || is_due(self.read, READ_PERIOD) {
            let followed = self.store.followed()?;
            self.orders.look(followed.entry::<Orders>(), &mut self.store)?;
            self.obey();
            let entry = followed.entry::<Tickets>().cloned();
            self.read_state(followed);
            self.follow_tickets(entry)?;
            self.read = Some(Instant::now());
        }
        let wanted = self.stored.as_ref().and_then(|stored| {
            let wanted = stored.rollout.wanted(&self.name)?;
            Some((wanted.to_owned(), stored.rollout.at))
        });
        if let Some((generation, at)) = wanted {
            self.follow(&generation, at)?;
        }
        let is_running = self.stored.as_ref().is_some_and(|stored| stored.rollout.phase == Phase::Running);
        let report = self.report_now();
        let is_news = self.reported.as_ref().is_none_or(|(_, before)| {
            Report { counts: Counts::default(), ..before.clone() }
                != Report { counts: Counts::default(), ..report.clone() }
        });
        if is_running || is_news || is_due(self.reported.as_ref().map(|(at, _)| *at), REPORT_PERIOD) {
            self.store.report(&self.name, &report, lease)?;
            self.reported = Some((Instant::now(), report));
        }
        if is_running { self.drive(lease) } else { self.let_go() }
    }

    fn keep_lease(&mut self) -> Result<i64, Failure> {
        let kept = self.lease.map(|lease| lease.keep(KEEP_ALIVE, &mut self.store)).transpose()?.flatten();
        let lease = match kept {
            Some(lease) => lease,
            None => {
                let lease = Lease::grant(&mut self.store)?;
                (self.reported, self.driver) = (None, None);
                lease
            }
        };
        self.lease = Some(lease);
        Ok(lease.id)
    }

    /// Obeys what operators have set, if there is news of it, by what holds or by what is served. What has no effect is tried again.
    fn obey(&mut self) {
        let Some(orders) = self.orders.known() else { return };
        let state = (orders.serial, orders.active(now()).count(), self.host.loads());
        if self.obeyed == Some(state) && self.idle.is_empty() {
            return;
        }
        let own = own(orders, &self.name);
        self.is_drained = own.iter().any(|order| order.kind == Kind::Node);
        self.idle = self.host.obey(&own);
        self.obeyed = Some(state);
    }

    /// Takes over the masters of tickets; makes the first ones, and rotates them, if nobody else has.
    fn follow_tickets(&mut self, entry: Option<KeyValue>) -> Result<(), Failure> {
        let mut is_news = self.tickets.look(entry.as_ref(), &mut self.store)?;
        let next = match self.tickets.known() {
            None if entry.is_none() => Some(Tickets::first(now())),
            Some(known) if self.tickets.problem().is_none() && known.age(now()) >= PERIOD + self.patience => {
                Some(known.rotated(now()))
            }
            Some(_) | None => None,
        };
        if let Some(next) = next
            && self.store.put_kept(&next, entry.map_or(0, |entry| entry.changed))?
        {
            tracing::info!("fleet: the masters of session tickets were rotated");
            let followed = self.store.followed()?;
            is_news |= self.tickets.look(followed.entry::<Tickets>(), &mut self.store)?;
        }
        if let Some(known) = self.tickets.known().filter(|_| is_news) {
            self.host.share_tickets(&known.masters, known.age(now()));
        }
        Ok(())
    }

    /// Looks at the state of the fleet. One that is older than what was obeyed changes nothing.
    fn read_state(&mut self, Followed { rollout: read, .. }: Followed) {
        let (known, revision) = (&self.current, self.store.revision());
        let problem = match &read {
            Err(problem) => Some(problem.clone()),
            Ok(None) => Some("etcd has no state of the fleet any more; `portunus fleet push` makes it anew".to_owned()),
            Ok(Some(Stored { rollout, .. })) if rollout.serial < known.serial => Some(format!(
                "etcd went back: its state of the fleet is number {}, and number {} is known here (a restored backup?); `portunus fleet push` makes a newer one",
                rollout.serial, known.serial
            )),
            Ok(Some(Stored { rollout, .. })) if revision < known.revision && rollout.serial == known.serial => {
                Some(format!(
                    "etcd went back from revision {} to {revision} (a restored backup, or another cluster?); what is served stays",
                    known.revision
                ))
            }
            Ok(Some(_)) => None,
        };
        let is_obeyed = problem.is_none();
        self.note_problem(problem);
        if is_obeyed {
            self.stored = read.unwrap_or_default();
            let serial = self.stored.as_ref().map_or(0, |stored| stored.rollout.serial);
            if serial > self.current.serial {
                self.current = Current { serial, revision, ..self.current.clone() };
                self.note_current();
            }
        } else {
            self.stored = None;
        }
    }

    fn note_problem(&mut self, problem: Option<String>) {
        if self.problem != problem {
            match &problem {
                Some(problem) => tracing::error!("fleet: {problem}"),
                None => tracing::info!("fleet: the state of the fleet can be followed again"),
            }
            self.problem = problem;
        }
    }

    fn note_current(&self) {
        if let Err(problem) = self.cache.set_current(&self.current) {
            tracing::error!("fleet: what is served cannot be noted: {problem}");
        }
    }

    /// Serves a generation, unless it is served, or was not taken since the roll-out began.
    fn follow(&mut self, generation: &str, at: u64) -> Result<(), Failure> {
        if self.current.generation == generation {
            self.rejected = None;
            return Ok(());
        }
        if self.rejected.as_ref().is_some_and(|(other, since, _)| other == generation && *since == at) {
            return Ok(());
        }
        let taken = match self.fetch(generation) {
            Err(away @ Failure::Away(_)) => return Err(away),
            Err(Failure::Wrong(problem)) => Err(vec![problem]),
            Ok(file) => match self.host.load(&file) {
                Ok(()) => Ok(()),
                Err(NotLoaded::Busy) => return Ok(()),
                Err(NotLoaded::Rejected(problems)) => Err(problems),
            },
        };
        match taken {
            Ok(()) => {
                tracing::info!(fleet_generation = generation, "fleet: serving another generation");
                let before = std::mem::replace(&mut self.current.generation, generation.to_owned());
                self.rejected = None;
                self.note_current();
                self.cache.tidy(&[generation, &before]);
            }
            Err(problems) => {
                for problem in &problems {
                    tracing::error!(fleet_generation = generation, "fleet: rejected, what is served stays: {problem}");
                }
                self.standing.rejections += 1;
                self.rejected = Some((generation.to_owned(), at, problems));
            }
        }
        Ok(())
    }

    /// The configuration file of a generation, from the disk or from etcd.
    fn fetch(&mut self, generation: &str) -> Result<PathBuf, Failure> {
        if let Ok(file) = self.cache.find(generation) {
            return Ok(file);
        }
        let (manifest, bundle) = self.store.download(generation)?;
        self.cache.keep(generation, &manifest, &bundle).map_err(Failure::Wrong)
    }

    fn report_now(&self) -> Report {
        let rejected = self.rejected.as_ref();
        let problems = rejected.map(|(.., problems)| problems.clone()).unwrap_or_default();
        Report {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            serving: Some(self.current.generation.clone()),
            serial: self.current.serial,
            rejected: rejected.map(|(generation, ..)| generation.clone()),
            problems: problems.into_iter().chain(self.problem.clone()).chain(self.of_kept()).collect(),
            orders: self.obeyed.map_or(0, |(serial, ..)| serial),
            is_drained: self.is_drained,
            idle: self.idle.clone(),
            tickets: self.tickets.known().map_or(0, |tickets| tickets.serial),
            counts: self.host.counts(),
        }
    }

    /// What is wrong with what all nodes share.
    fn of_kept(&self) -> Option<String> {
        let kept = self.orders.problem().or(self.tickets.problem());
        kept.map(str::to_owned).or_else(|| self.idle.first().cloned())
    }

    /// Drives the roll-out, if nobody else does.
    fn drive(&mut self, lease: i64) -> Result<(), Failure> {
        if self.driver.is_none()
            && let Ok(made) = self.store.take("driver", &self.name, lease)?
        {
            self.driver = Some((Driver::new(Instant::now()), made));
        }
        let (Some((driver, made)), Some(stored)) = (&mut self.driver, &self.stored) else { return Ok(()) };
        let (reports, _) = self.store.reports()?;
        let Some(next) = driver.look(&stored.rollout, &reports, Instant::now()) else { return Ok(()) };
        let (made, changed) = (*made, stored.changed);
        if self.store.change(&next, changed, Some(("driver", made)))? {
            say(&next);
        } else {
            // Somebody else has changed it, or drives it.
            self.driver = None;
        }
        self.read = None;
        Ok(())
    }

    /// Leaves the wheel to whoever is there at the next roll-out.
    fn let_go(&mut self) -> Result<(), Failure> {
        if self.driver.take().is_some() { self.store.release("driver") } else { Ok(()) }
    }

    fn note_turn(&mut self, turn: Result<(), Failure>) {
        let problem = turn.err().map(|failure| failure.to_string());
        let is_connected = problem.is_none();
        if is_connected != self.standing.is_connected {
            match &problem {
                None => tracing::info!("fleet: connected to etcd"),
                Some(problem) => tracing::warn!("fleet: this node goes on alone: {problem}"),
            }
        }
        let rejected = self.rejected.as_ref().and_then(|(.., problems)| problems.first());
        self.standing = Standing {
            is_connected,
            generation: self.current.generation.clone(),
            serial: self.current.serial,
            rejections: self.standing.rejections,
            problem: problem.or_else(|| rejected.cloned()).or_else(|| self.problem.clone()).or_else(|| self.of_kept()),
        };
        self.host.note(&self.standing);
    }
}

/// Logs what has become of a roll-out.
fn say(rollout: &Rollout) {
    let (generation, nodes) = (&rollout.generation, rollout.nodes.len());
    match rollout.phase {
        Phase::Halted => tracing::error!(fleet_generation = generation, "fleet: roll-out halted: {}", rollout.note),
        Phase::Running | Phase::Paused => tracing::info!(fleet_generation = generation, nodes, "fleet: next stage"),
        Phase::Complete => tracing::info!(fleet_generation = generation, "fleet: rolled out"),
    }
}
