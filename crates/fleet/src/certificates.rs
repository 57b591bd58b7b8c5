//! Certificates of a fleet: one node orders, all have what it orders, and each responds to authorities for it.
//!
//! ```text
//!   who orders (a lease) ─file, proof, rejection→ etcd ─watch→ every node: its folder, its table of proofs
//!   every node that shows a proof ─up to which revision→ etcd ─read→ who orders, before the authority is asked to look
//!   a node whose client asks for a name ─demand→ etcd ─watch→ who orders
//! ```
//!
//! What is shared are the files of the keystore's folder: they are all that another process needs to go on with an order. Each carries when it was written,
//! which only grows: an older one that somebody puts back is no news, and whoever orders puts back what somebody removed. Only the holder of the key
//! `leader` writes, in transactions that fail once another one holds it. Two threads that nobody waits for but who orders. Knows neither orders nor
//! configurations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use config::FleetConfig;
use tls::crypto::digest::random;
use wire::hexadecimal::hexadecimal;
use zeroize::Zeroizing;

use crate::lease::Lease;
use crate::store::certificates::{Found, Item, LEADER, Place, Written};
use crate::store::{Failure, Store};
use crate::threads::{Bell, Threads, pause};

/// How often the node looks whether something is to be done.
const TICK: Duration = Duration::from_millis(500);

/// How often the node says that it is there, and how long it believes to order when it cannot say so.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const BELIEF: Duration = Duration::from_secs(7);

/// How often a node tries to become the one that orders though it has heard of no vacancy.
const TRY_PERIOD: Duration = Duration::from_secs(10);

/// How long a node that gave up leaves ordering to the others.
const RESIGNED: Duration = Duration::from_secs(5);

/// How long a watch may be silent before it is begun anew, how often it is looked whether it still is the right one, and when what could not be taken up
/// is tried again.
const WATCH_TIME: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_secs(10);

/// How long demands and rejections stay.
const PASSING: Duration = Duration::from_secs(60);

/// How long it is waited for nodes to show a proof, and how often it is looked whether they do: at first, and at last.
const SHOWN_TIME: Duration = Duration::from_secs(5);
const SHOWN_LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Removals of files are kept for this long, milliseconds: nodes that are away for less hear of them.
const FORGET_REMOVALS: u64 = 30 * 24 * 3_600_000;

/// Most errands that wait, and most of them that are run in a turn: what strangers cause must not flood the store.
const MAX_ERRANDS: usize = 2048;
const ERRANDS_PER_TURN: usize = 32;

/// Why nothing is written here.
const NOT_OURS: &str = "another node of the fleet orders certificates";

/// Most proofs that are shown at once.
const MAX_PROOFS: usize = 4096;

/// The node's own side: its folders, and what it does with what the others say.
pub trait Host: Send + Sync + 'static {
    /// The keystores whose certificates are ordered by what is served.
    fn keystores(&self) -> Vec<String>;

    /// The files that are there, and when each was written (milliseconds since 1970).
    fn files(&self) -> Vec<(Place, u64)>;

    /// When a file was written; 0 if it is not there.
    fn written(&self, place: &Place) -> u64;

    /// A file.
    fn read(&self, place: &Place) -> Option<Zeroizing<Vec<u8>>>;

    /// Takes up a file, or its removal.
    ///
    /// # Errors
    /// It cannot be written, or is none that could be there.
    fn take(&self, place: &Place, written: &Written) -> Result<(), String>;

    /// Shows a proof until what is given back is dropped; none if it is none.
    fn show(&self, proof: &[u8]) -> Option<Box<dyn Send>>;

    /// A client of another node asks for a name. Only the one that orders hears it.
    fn demand(&self, keystore: &str, name: &str);

    /// Who orders says why a name is not had.
    fn reject(&self, keystore: &str, name: &str, why: &[u8]);

    /// Who orders may have changed.
    fn note_change(&self);
}

/// The right to order.
#[derive(Debug, Clone, Copy)]
struct Leading {
    /// The revision that made the key.
    made: i64,
    lease: i64,
    /// Until when it is believed in.
    until: Instant,
}

/// Something to be written that nobody waits for.
enum Errand {
    Put(Item, Vec<u8>),
    Delete(Item),
    Resign,
}

/// What the threads and those who order have in common.
struct Shared {
    node: String,
    host: Arc<dyn Host>,
    store: Mutex<Store>,
    leading: Mutex<Option<Leading>>,
    /// When each file in the store was written, as far as it is known.
    known: Mutex<BTreeMap<Place, u64>>,
    errands: Mutex<Vec<Errand>>,
    /// Somebody orders, as far as the watch has seen.
    has_leader: AtomicBool,
    /// Up to which revision proofs are shown here; 0 before the first look.
    shown: AtomicI64,
    bell: Arc<Bell>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn leading(&self) -> Option<Leading> {
        locked(&self.leading).filter(|leading| leading.until > Instant::now())
    }

    fn errand(&self, errand: Errand) {
        let mut errands = locked(&self.errands);
        if errands.len() < MAX_ERRANDS {
            errands.push(errand);
            drop(errands);
            self.bell.ring();
        }
    }

    /// Writes a file for all nodes: later than it was written before, whatever the clock says.
    fn write(&self, place: &Place, content: Option<Zeroizing<Vec<u8>>>, made: i64) -> Result<u64, String> {
        let mut store = locked(&self.store);
        let before = locked(&self.known).get(place).copied().unwrap_or(0).max(self.host.written(place));
        let at = now().max(before.saturating_add(1));
        match store.write_file(place, &Written { at, content }, made) {
            Ok(true) => {
                locked(&self.known).insert(place.clone(), at);
                Ok(at)
            }
            Ok(false) => Err("another node of the fleet orders certificates now".to_owned()),
            Err(failure) => Err(format!("the other nodes would not have it: {failure}")),
        }
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A node's part in the certificates of its fleet; ends when dropped.
pub struct Certificates {
    shared: Arc<Shared>,
    _threads: Threads,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificates").field(&self.shared.node).finish()
    }
}

/// A proof that all nodes show until this is dropped.
pub struct Shown {
    shared: Arc<Shared>,
    item: Option<Item>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            self.shared.errand(Errand::Delete(item));
        }
    }
}

impl Certificates {
    /// Starts the threads.
    ///
    /// # Errors
    /// The key of the seal cannot be read, or no thread can be started.
    pub fn start(config: &FleetConfig, node: &str, host: Arc<dyn Host>) -> Result<Certificates, String> {
        let (stop, bell) = (Arc::<AtomicBool>::default(), Arc::<Bell>::default());
        let store = || Store::new(config, Arc::clone(&stop));
        let shared = Arc::new(Shared {
            node: node.to_owned(),
            host,
            store: Mutex::new(store()?),
            leading: Mutex::default(),
            known: Mutex::default(),
            errands: Mutex::default(),
            has_leader: AtomicBool::new(true),
            shown: AtomicI64::new(0),
            bell: Arc::clone(&bell),
        });
        let watcher = Watcher { store: store()?, shared: Arc::clone(&shared), shown: BTreeMap::new(), problem: None };
        let worker = Worker::new(store()?, Arc::clone(&shared));
        let mut threads = Threads::new(Arc::clone(&stop), bell);
        let for_worker = Arc::clone(&stop);
        threads.start("certificates", move || worker.run(&for_worker))?;
        threads.start("certs-watch", move || watcher.run(&stop))?;
        Ok(Certificates { shared, _threads: threads })
    }

    /// Whether this node is the one that orders. Never waits.
    pub fn leads(&self) -> bool {
        self.shared.leading().is_some()
    }

    /// Makes this a file of all nodes, or removes it: when it counts as written. Waits for the store.
    ///
    /// # Errors
    /// This node does not order, or the store cannot be reached.
    pub fn put(&self, place: &Place, content: Option<&[u8]>) -> Result<u64, String> {
        let leading = self.shared.leading().ok_or(NOT_OURS)?;
        self.shared.write(place, content.map(|content| Zeroizing::new(content.to_vec())), leading.made)
    }

    /// Has all nodes show a proof until what is given back is dropped, or this node is gone. Waits for the store, and until those that are there show it:
    /// for 5 seconds at most, since one that hangs may not be the one that is asked.
    ///
    /// # Errors
    /// As [`Certificates::put`].
    pub fn show(&self, proof: &[u8]) -> Result<Shown, String> {
        let Leading { made, lease, .. } = self.shared.leading().ok_or(NOT_OURS)?;
        let id = random::<16>().map_err(|error| error.to_string())?;
        let item = Item::Proof(hexadecimal(&id));
        let (is_written, revision) = {
            let mut store = locked(&self.shared.store);
            (store.write_as(&item, proof, lease, made), store.revision())
        };
        if !is_written.map_err(|failure| format!("the other nodes would not show the proof: {failure}"))? {
            return Err(NOT_OURS.to_owned());
        }
        let shown = Shown { shared: Arc::clone(&self.shared), item: Some(item) };
        let late = self.wait_until_shown(revision)?;
        if !late.is_empty() {
            let nodes = late.join(", ");
            tracing::warn!(
                nodes,
                "fleet: these do not say that they show a proof; the authority is asked to look anyway"
            );
        }
        Ok(shown)
    }

    /// Waits until the other nodes that are there show all proofs of this revision: those that do not in time.
    fn wait_until_shown(&self, revision: i64) -> Result<Vec<String>, String> {
        let (until, (mut look, longest)) = (Instant::now() + SHOWN_TIME, SHOWN_LOOKS);
        loop {
            let late = locked(&self.shared.store).not_shown(revision);
            let mut late = late.map_err(|failure| format!("who shows the proof is not known: {failure}"))?;
            late.retain(|node| *node != self.shared.node);
            if late.is_empty() || Instant::now() >= until {
                return Ok(late);
            }
            Bell::default().wait(look);
            look = (look * 2).min(longest);
        }
    }

    /// Asks who orders for a name. Never waits.
    pub fn demand(&self, keystore: &str, name: &str) {
        let item = Item::Demand(keystore.to_owned(), name.to_owned(), self.shared.node.clone());
        self.shared.errand(Errand::Put(item, Vec::new()));
    }

    /// Has the other nodes know why a name is not had. Never waits.
    pub fn reject(&self, keystore: &str, name: &str, why: &[u8]) {
        let item = Item::Rejection(keystore.to_owned(), name.to_owned());
        self.shared.errand(Errand::Put(item, why.to_vec()));
    }

    /// Leaves ordering to another node, if there is one. Never waits.
    pub fn resign(&self) {
        self.shared.errand(Errand::Resign);
    }
}

/// Keeps the lease, becomes the one that orders when nobody is, and runs errands.
struct Worker {
    store: Store,
    shared: Arc<Shared>,
    lease: Option<Lease>,
    tried: Option<Instant>,
    resigned: Option<Instant>,
    /// Up to which revision the others know that proofs are shown here.
    shown: i64,
    /// Demands and rejections that we wrote, and when.
    passing: BTreeMap<Item, Instant>,
    problem: Option<String>,
}

impl Worker {
    fn new(store: Store, shared: Arc<Shared>) -> Worker {
        let passing = BTreeMap::new();
        Worker { store, shared, lease: None, tried: None, resigned: None, shown: 0, passing, problem: None }
    }

    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let problem = self.turn().err().map(|failure| failure.to_string());
            if problem != self.problem {
                if let Some(problem) = &problem {
                    tracing::warn!("fleet: no certificate is ordered here: {problem}");
                }
                self.problem = problem;
            }
            self.shared.bell.wait(TICK);
        }
        if let Some(lease) = self.lease.filter(|_| self.problem.is_none()) {
            // Else it ends by itself.
            let _ = self.store.unstopped().revoke(lease.id);
        }
    }

    fn turn(&mut self) -> Result<(), Failure> {
        if self.shared.host.keystores().is_empty() {
            return self.leave();
        }
        let lease = self.keep_lease()?;
        self.say_shown(lease.id)?;
        self.lead(lease)?;
        self.run_errands(lease.id)?;
        self.tidy()
    }

    /// Lets whoever orders know which proofs are shown here.
    fn say_shown(&mut self, lease: i64) -> Result<(), Failure> {
        let shown = self.shared.shown.load(Ordering::Acquire);
        if shown != self.shown {
            self.store.write_shown(&self.shared.node, shown, lease)?;
            self.shown = shown;
        }
        Ok(())
    }

    /// Nothing is ordered by what is served here: others may.
    fn leave(&mut self) -> Result<(), Failure> {
        self.step_down();
        locked(&self.shared.errands).clear();
        match self.lease.take() {
            Some(lease) => self.store.revoke(lease.id),
            None => Ok(()),
        }
    }

    fn step_down(&self) {
        if locked(&self.shared.leading).take().is_some() {
            self.shared.host.note_change();
        }
    }

    fn keep_lease(&mut self) -> Result<Lease, Failure> {
        let kept = self.lease.map(|lease| lease.keep(KEEP_ALIVE, &mut self.store)).transpose()?.flatten();
        let lease = match kept {
            Some(lease) => lease,
            None => {
                self.step_down();
                self.passing.clear();
                self.shown = 0;
                Lease::grant(&mut self.store)?
            }
        };
        self.lease = Some(lease);
        Ok(lease)
    }

    /// Goes on ordering, or begins to if nobody does.
    fn lead(&mut self, Lease { id: lease, kept }: Lease) -> Result<(), Failure> {
        let until = kept + BELIEF;
        let is_believed = |leading: &&mut Leading| leading.until > Instant::now();
        if let Some(leading) = locked(&self.shared.leading).as_mut().filter(is_believed) {
            leading.until = until;
            return Ok(());
        }
        // Whoever did not believe in it any more begins anew.
        self.step_down();
        let is_over = |since: Option<Instant>, time| since.is_none_or(|since| since.elapsed() >= time);
        let is_due = !self.shared.has_leader.load(Ordering::Relaxed) || is_over(self.tried, TRY_PERIOD);
        if !is_due || !is_over(self.resigned, RESIGNED) {
            return Ok(());
        }
        self.tried = Some(Instant::now());
        let Ok(made) = self.store.take(LEADER, &self.shared.node, lease)? else {
            self.shared.has_leader.store(true, Ordering::Relaxed);
            return Ok(());
        };
        let demands = self.adopt(made)?;
        let until = self.lease.map_or(until, |lease| lease.kept + BELIEF);
        *locked(&self.shared.leading) = Some(Leading { made, lease, until });
        tracing::info!("fleet: this node orders certificates from now on");
        self.shared.host.note_change();
        demands.iter().for_each(|(keystore, name)| self.shared.host.demand(keystore, name));
        Ok(())
    }

    /// Takes up what whoever ordered before has left, and writes what is newer here. The names that are asked for.
    fn adopt(&mut self, made: i64) -> Result<Vec<(String, String)>, Failure> {
        let mut demands = Vec::new();
        for found in self.store.certificates()?.0 {
            self.stay()?;
            match found.item {
                Item::File(place) => {
                    let Some(written) = found.value.and_then(|value| Written::read(&value)) else { continue };
                    if written.content.is_none() && now().saturating_sub(written.at) > FORGET_REMOVALS {
                        self.store.remove(&Item::File(place))?;
                        continue;
                    }
                    locked(&self.shared.known).insert(place.clone(), written.at);
                    if written.at > self.shared.host.written(&place) {
                        self.shared.host.take(&place, &written).map_err(Failure::Wrong)?;
                    }
                }
                Item::Demand(keystore, name, _) => demands.push((keystore, name)),
                Item::Leader | Item::Proof(_) | Item::Rejection(..) | Item::Unknown(_) => {}
            }
        }
        for (place, at) in self.shared.host.files() {
            self.stay()?;
            let is_newer = locked(&self.shared.known).get(&place).is_none_or(|known| *known < at);
            if let Some(content) = is_newer.then(|| self.shared.host.read(&place)).flatten() {
                self.shared.write(&place, Some(content), made).map_err(Failure::Away)?;
            }
        }
        Ok(demands)
    }

    /// Keeps the lease while many files are taken up.
    fn stay(&mut self) -> Result<(), Failure> {
        let kept = self.lease.map(|lease| lease.keep(KEEP_ALIVE, &mut self.store)).transpose()?.flatten();
        self.lease = kept;
        kept.map(drop).ok_or_else(|| Failure::Away("the lease ended while files were taken up".to_owned()))
    }

    fn run_errands(&mut self, lease: i64) -> Result<(), Failure> {
        let errands: Vec<Errand> = {
            let mut errands = locked(&self.shared.errands);
            let count = errands.len().min(ERRANDS_PER_TURN);
            errands.drain(..count).collect()
        };
        for errand in errands {
            match errand {
                Errand::Put(item, value) => {
                    let is_fresh = self.passing.get(&item).is_some_and(|at| at.elapsed() < PASSING / 10);
                    if !is_fresh {
                        self.store.write_leased(&item, &value, lease)?;
                        self.passing.insert(item, Instant::now());
                    }
                }
                Errand::Delete(item) => self.store.remove(&item)?,
                Errand::Resign => self.resign()?,
            }
        }
        Ok(())
    }

    fn resign(&mut self) -> Result<(), Failure> {
        let Some(Leading { made, .. }) = self.shared.leading() else { return Ok(()) };
        self.step_down();
        self.resigned = Some(Instant::now());
        self.store.resign(made).map(drop)
    }

    /// Removes demands and rejections that have had their time.
    fn tidy(&mut self) -> Result<(), Failure> {
        let old = self.passing.iter().find(|(_, at)| at.elapsed() >= PASSING).map(|(item, _)| item.clone());
        if let Some(item) = old {
            self.store.remove(&item)?;
            self.passing.remove(&item);
        }
        Ok(())
    }
}

/// Takes up what changes in the store.
struct Watcher {
    store: Store,
    shared: Arc<Shared>,
    /// Proofs that are shown, by their names.
    shown: BTreeMap<String, Option<Box<dyn Send>>>,
    problem: Option<String>,
}

impl Watcher {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let keystores = self.shared.host.keystores();
            // That the store is away is said by others.
            if keystores.is_empty() || self.follow(&keystores, stop).is_err() {
                pause(TICK, stop);
            }
        }
    }

    /// Follows until other keystores are served, something could not be taken up, or the store ends it.
    fn follow(&mut self, keystores: &[String], stop: &AtomicBool) -> Result<(), Failure> {
        let (all, mut from) = self.store.certificates()?;
        self.shared.has_leader.store(all.iter().any(|found| found.item == Item::Leader), Ordering::Relaxed);
        let is_there = |id: &String| all.iter().any(|found| matches!(&found.item, Item::Proof(other) if other == id));
        self.shown.retain(|id, _| is_there(id));
        self.problem = None;
        all.into_iter().for_each(|found| self.note(found));
        self.say_shown(from - 1);
        loop {
            let (mut watch, mut heard) = (self.store.watch_certificates(from)?, Instant::now());
            while heard.elapsed() < WATCH_TIME {
                if let Some((revision, events)) = watch.next(LOOK)? {
                    let found = events.iter().filter_map(|event| self.store.found(&event.entry, event.is_deletion));
                    let found: Vec<Found> = found.collect();
                    let has_proof =
                        found.iter().any(|found| matches!(found.item, Item::Proof(_)) && !found.is_deletion);
                    found.into_iter().for_each(|found| self.note(found));
                    if has_proof {
                        self.say_shown(revision);
                    }
                    (from, heard) = (revision + 1, Instant::now());
                }
                let is_to_try = self.problem.is_some() && heard.elapsed() > RETRY;
                if stop.load(Ordering::Relaxed) || is_to_try || self.shared.host.keystores() != keystores {
                    return Ok(());
                }
            }
        }
    }

    /// Proofs up to this revision are shown.
    fn say_shown(&self, revision: i64) {
        self.shared.shown.store(revision, Ordering::Release);
        self.shared.bell.ring();
    }

    fn note(&mut self, found: Found) {
        let leads = self.shared.leading().is_some();
        match (found.item, found.value) {
            (Item::Leader, _) => {
                self.shared.has_leader.store(!found.is_deletion, Ordering::Relaxed);
                self.shared.bell.ring();
            }
            (Item::File(place), value) => self.note_file(&place, value.and_then(|value| Written::read(&value))),
            (Item::Proof(id), Some(value)) if self.shown.len() < MAX_PROOFS => {
                self.shown.entry(id).or_insert_with(|| self.shared.host.show(&value));
            }
            (Item::Proof(id), _) => _ = self.shown.remove(&id),
            (Item::Demand(keystore, name, _), Some(_)) if leads => self.shared.host.demand(&keystore, &name),
            (Item::Rejection(keystore, name), Some(why)) if !leads => self.shared.host.reject(&keystore, &name, &why),
            (Item::Unknown(key), _) if leads => self.note_unknown(&key),
            (Item::Demand(..) | Item::Rejection(..) | Item::Unknown(_), _) => {}
        }
    }

    /// What was there is gone, or something else: if it was a file that is known, it is put back.
    fn note_unknown(&mut self, key: &str) {
        let place = locked(&self.shared.known).keys().find(|place| self.store.is_of_file(key, place)).cloned();
        if let Some(place) = place {
            self.note_file(&place, None);
        }
    }

    /// A file was written: by who orders, or by somebody who removes, damages or puts back what was there.
    fn note_file(&mut self, place: &Place, written: Option<Written>) {
        let here = self.shared.host.written(place);
        let outcome = match &written {
            Some(written) if written.at > here => {
                let leads = self.shared.leading().is_some();
                let is_own = leads && locked(&self.shared.known).get(place) == Some(&written.at);
                locked(&self.shared.known).insert(place.clone(), written.at);
                // Who wrote it here has it on the disk in a moment.
                if is_own { Ok(()) } else { self.shared.host.take(place, written) }
            }
            Some(written) if written.at == here => Ok(()),
            _ => self.put_back(place),
        };
        if let Err(problem) = outcome {
            if self.problem.as_ref() != Some(&problem) {
                tracing::error!("fleet: a file of keystore {} is not as the others have it: {problem}", place.keystore);
            }
            self.problem = Some(problem);
        }
    }

    /// What is here is newer than what is in the store: whoever orders writes it again.
    fn put_back(&self, place: &Place) -> Result<(), String> {
        let Some(leading) = self.shared.leading() else { return Ok(()) };
        match self.shared.host.read(place) {
            Some(content) => self.shared.write(place, Some(content), leading.made).map(drop),
            None => Ok(()),
        }
    }
}
