//! The task that sees to it that each certificate that is wanted is there and is renewed in time.
//!
//! One keeper per keystore. Whatever the configuration says next, a keeper whose settings are as they were goes on with what it has begun. Times are
//! compared with the wall clock, not slept for: clocks are set, and machines sleep.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use config::{AcmeConfig, ChallengeKind, Config, Service};
use proxy::generation::Generation;
use telemetry::Reporter;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use crate::authority::Authority;
use crate::client::Client;
use crate::dns::Zones;
use crate::internal;
use crate::key::Held;
use crate::order::{Attempt, Issued, Job};
use crate::schedule::{self, Validity, Window};
use crate::storage::{Lock, Record, Storage};
use crate::wanted::{self, Wanted};

/// How often what is due is looked for.
const TICK: Duration = Duration::from_millis(500);

/// An authority is not asked more often when to renew a certificate, whatever it says (RFC 9773 §4.3.2).
const SHORTEST_ASKING: Duration = Duration::from_secs(60);

/// Makes the folders that certificates are ordered into: one that is not there cannot be watched. What cannot be made is said by the task that needs it.
pub fn make_folders(config: &Config) {
    for acme in config.keystores.values().filter_map(|keystore| keystore.acme.as_ref()) {
        let _ = Storage::at(&acme.folder).make();
    }
}

/// Orders and renews certificates for whatever generation is active until it is dropped; what is under way then is gone on with by whoever comes next.
/// Needs a runtime that takes local tasks.
pub async fn run(generations: Arc<ArcSwap<Generation>>, reporter: Arc<Reporter>) {
    let (sender, mut news) = unbounded_channel();
    let mut service = Running { generations, reporter, sender, seen: 0, keepers: BTreeMap::new() };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => service.turn().await,
            Some(news) = news.recv() => match news {
                News::Ordered(end) => service.note(*end),
                News::Asked(suggestion) => service.note_suggestion(suggestion),
            },
        }
    }
}

/// What comes of what was begun.
enum News {
    Ordered(Box<End>),
    Asked(Suggestion),
}

/// When an authority suggests to renew a certificate.
struct Suggestion {
    keystore: String,
    wanted: Wanted,
    /// The one that was asked about.
    serial: Vec<u8>,
    said: Result<Option<(Window, Duration)>, String>,
}

/// An order that ended.
struct End {
    keystore: String,
    wanted: Wanted,
    outcome: Result<Issued, String>,
    attempts: Vec<Attempt>,
    record: Record,
}

struct Running {
    generations: Arc<ArcSwap<Generation>>,
    reporter: Arc<Reporter>,
    sender: UnboundedSender<News>,
    /// The generation that the keepers follow.
    seen: u64,
    keepers: BTreeMap<String, Keeper>,
}

/// What is kept of one keystore.
struct Keeper {
    acme: Arc<AcmeConfig>,
    storage: Storage,
    /// What is wrong with the folder, as it was said last.
    problem: Option<String>,
    lock: Option<Lock>,
    authorities: Vec<Rc<Authority>>,
    kinds: Vec<ChallengeKind>,
    zones: Option<Zones>,
    entries: BTreeMap<Wanted, Entry>,
    has_said_whom_to_trust: bool,
}

/// What is known of one certificate.
#[derive(Default)]
struct Entry {
    held: Option<Held>,
    record: Record,
    running: Option<Order>,
    /// Varies the pause after a failure.
    point: f64,
    /// When the authority suggests to renew it.
    window: Option<Window>,
    /// When it is asked again; none: it was not asked about this certificate.
    ask_again: Option<SystemTime>,
    is_asking: bool,
    /// When it was ordered last, and how often in a row that was soon after the time before, as authorities may suggest without an end.
    hurried: (Option<SystemTime>, u32),
}

/// An order under way, which ends with its owner.
struct Order(AbortHandle);

impl Drop for Order {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    async fn turn(&mut self) {
        let generation = self.generations.load_full();
        if generation.number != self.seen {
            self.follow(&generation);
            for keeper in self.keepers.values_mut() {
                keeper.look().await;
            }
            self.seen = generation.number;
        }
        let Some(challenges) = generation.issuance.challenges() else { return };
        let now = SystemTime::now();
        for (name, keeper) in &mut self.keepers {
            if !keeper.may_order(name).await {
                continue;
            }
            keeper.ask_when_to_renew(name, now, &self.sender);
            for wanted in keeper.due(now) {
                let job = Job {
                    keystore: name.clone(),
                    wanted: wanted.clone(),
                    acme: Arc::clone(&keeper.acme),
                    authorities: keeper.authorities.clone(),
                    storage: keeper.storage.clone(),
                    challenges: Arc::clone(challenges),
                    kinds: keeper.kinds.clone(),
                    zones: keeper.zones.clone(),
                    replaces: keeper.entries.get(&wanted).and_then(|entry| entry.held.as_ref()?.identifier()),
                };
                let (sender, keystore) = (self.sender.clone(), name.clone());
                let Some(entry) = keeper.entries.get_mut(&wanted) else { continue };
                let record = entry.record.clone();
                let task = tokio::task::spawn_local(async move {
                    let (outcome, attempts, record) = job.run(record).await;
                    // Nobody listens if the process is about to end.
                    let _ = sender.send(News::Ordered(Box::new(End { keystore, wanted, outcome, attempts, record })));
                });
                entry.running = Some(Order(task.abort_handle()));
            }
        }
        self.report();
    }

    /// Keeps the keepers whose settings are as they were, and makes those that are missing.
    fn follow(&mut self, generation: &Generation) {
        let config = &generation.config;
        let mut before = std::mem::take(&mut self.keepers);
        for (name, keystore) in &config.keystores {
            let Some(acme) = &keystore.acme else { continue };
            let kinds = usable_kinds(config, &acme.challenges);
            let keeper = match before.remove(name).filter(|keeper| *keeper.acme == **acme) {
                Some(keeper) => Keeper { kinds, ..keeper },
                None => self.keeper(acme, kinds),
            };
            self.keepers.insert(name.clone(), keeper);
        }
    }

    fn keeper(&self, acme: &Arc<AcmeConfig>, kinds: Vec<ChallengeKind>) -> Keeper {
        let storage = Storage::at(&acme.folder);
        let authority = |config: &Arc<config::AuthorityConfig>| {
            let timeout = acme.options.request_timeout;
            let client = Client::start(Arc::clone(&self.generations), Arc::clone(config), timeout);
            Rc::new(Authority::new(Arc::clone(config), client, storage.clone(), acme.contact.clone()))
        };
        Keeper {
            acme: Arc::clone(acme),
            has_said_whom_to_trust: false,
            problem: None,
            lock: None,
            authorities: acme.authorities.iter().map(authority).collect(),
            kinds,
            zones: acme.dns.clone().map(|dns| Zones::new(dns, Arc::clone(&self.generations))),
            entries: wanted::of(acme).into_iter().map(|wanted| (wanted, Entry::default())).collect(),
            storage,
        }
    }

    /// An order ended.
    fn note(&mut self, end: End) {
        let End { keystore, wanted, outcome, attempts, record } = end;
        for attempt in &attempts {
            self.reporter.certificate_ordered(&keystore, &attempt.authority, attempt.problem.is_none());
        }
        let Some(keeper) = self.keepers.get_mut(&keystore) else { return };
        let Some(entry) = keeper.entries.get_mut(&wanted) else { return };
        entry.running = None;
        entry.record = record;
        entry.point = fastrand::f64();
        let (names, key_type) = (wanted.shown(), wanted.key_word());
        match outcome {
            Ok(issued) => {
                let until = keystore::date::date(issued.held.validity.not_after);
                let authority = &issued.authority.0;
                entry.replace(issued.held);
                tracing::info!(keystore, names, key_type, authority, until, "certificate issued");
                keeper.say_whom_to_trust(&keystore);
            }
            Err(problem) => {
                let kept = entry.held.is_some();
                tracing::warn!(
                    keystore,
                    names,
                    key_type,
                    kept,
                    failures = entry.record.failures,
                    "certificate not issued: {problem}"
                );
            }
        }
        self.report();
    }

    /// An authority said when to renew a certificate, or did not.
    fn note_suggestion(&mut self, suggestion: Suggestion) {
        let Suggestion { keystore, wanted, serial, said } = suggestion;
        let Some(keeper) = self.keepers.get_mut(&keystore) else { return };
        let longest = keeper.acme.options.renewal_info_interval;
        let Some(entry) = keeper.entries.get_mut(&wanted) else { return };
        entry.is_asking = false;
        // Another one may be there meanwhile.
        if entry.held.as_ref().is_none_or(|held| held.serial != serial) {
            return;
        }
        let (window, holds_for) = match said {
            Ok(Some((window, holds_for))) => (Some(window), holds_for.max(SHORTEST_ASKING).min(longest)),
            Ok(None) => (None, longest),
            Err(problem) => {
                let names = wanted.shown();
                tracing::warn!(keystore, names, "the authority does not say when to renew: {problem}");
                // What it said before may still hold.
                (entry.window.take(), longest)
            }
        };
        if let Some(window) = window.as_ref().filter(|window| entry.window.as_ref() != Some(window)) {
            let (names, explanation) = (wanted.shown(), window.explanation.as_deref());
            let (start, end) = (keystore::date::date(window.start), keystore::date::date(window.end));
            tracing::info!(keystore, names, start, end, explanation, "the authority says when to renew");
        }
        entry.window = window;
        entry.ask_again = SystemTime::now().checked_add(holds_for);
    }

    /// How many certificates are missing, and how many cannot be had at the moment.
    fn report(&self) {
        for (name, keeper) in &self.keepers {
            let entries = keeper.entries.values();
            let now = SystemTime::now();
            let is_missing = |entry: &&Entry| entry.held.as_ref().is_none_or(|held| held.validity.not_after < now);
            let missing = entries.clone().filter(is_missing).count();
            let failing = entries.filter(|entry| entry.record.failures > 0).count();
            self.reporter.certificates_wanted(name, missing as u64, failing as u64);
        }
    }
}

impl Keeper {
    /// Logs, once, where the certificate of a CA of our own is.
    fn say_whom_to_trust(&mut self, keystore: &str) {
        if !self.acme.is_internal || std::mem::replace(&mut self.has_said_whom_to_trust, true) {
            return;
        }
        let (path, fingerprint) = internal::place(&self.storage);
        let file = path.display().to_string();
        tracing::info!(keystore, file, sha256 = fingerprint, "clients must trust this development CA");
    }

    /// Reads what there is: certificates may have been removed, or ordered by another process.
    async fn look(&mut self) {
        let (storage, all) = (self.storage.clone(), self.entries.keys().cloned().collect::<Vec<_>>());
        let read = tokio::task::spawn_blocking(move || {
            let known = |wanted: Wanted| {
                let (held, record) = (storage.held(&wanted), storage.record(&wanted));
                (wanted, (held, record))
            };
            all.into_iter().map(known).collect::<HashMap<_, _>>()
        });
        let Ok(mut read) = read.await else { return };
        for (wanted, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.running.is_none()) {
            if let Some((held, record)) = read.remove(wanted) {
                if entry.held != held {
                    (entry.window, entry.ask_again) = (None, None);
                }
                (entry.held, entry.record) = (held, record);
            }
        }
    }

    /// Whether this process is the one that orders. What keeps it from that is logged once.
    async fn may_order(&mut self, name: &str) -> bool {
        if self.lock.is_some() {
            return true;
        }
        let storage = self.storage.clone();
        let locked = tokio::task::spawn_blocking(move || storage.make().and_then(|()| storage.lock())).await;
        let problem = match locked.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(Some(lock)) => {
                self.lock = Some(lock);
                self.problem = None;
                if internal::place(&self.storage).1.is_some() {
                    self.say_whom_to_trust(name);
                }
                // Another process may have ordered meanwhile.
                self.look().await;
                return true;
            }
            Ok(None) => "another process orders certificates into this folder".to_owned(),
            Err(problem) => problem,
        };
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(keystore = name, "no certificate is ordered: {problem}");
            self.problem = Some(problem);
        }
        false
    }

    /// Has authorities asked when they suggest to renew what they have issued: one question at a time.
    fn ask_when_to_renew(&mut self, keystore: &str, now: SystemTime, sender: &UnboundedSender<News>) {
        if self.entries.values().any(|entry| entry.is_asking) {
            return;
        }
        for (wanted, entry) in &mut self.entries {
            let is_due = entry.running.is_none() && entry.ask_again.is_none_or(|again| again <= now);
            let (true, Some(held), Some(issuer)) = (is_due, &entry.held, &entry.record.issued_by) else { continue };
            let authority = self.authorities.iter().find(|authority| authority.config.url == *issuer);
            let (Some(authority), Some(identifier)) = (authority.cloned(), held.identifier()) else { continue };
            let (sender, keystore) = (sender.clone(), keystore.to_owned());
            let (wanted, serial) = (wanted.clone(), held.serial.clone());
            entry.is_asking = true;
            tokio::task::spawn_local(async move {
                let said = authority.renewal_window(&identifier).await;
                let _ = sender.send(News::Asked(Suggestion { keystore, wanted, serial, said }));
            });
            return;
        }
    }

    /// What is to be ordered now: what is missing first, then what ends first. Of one name, one order at a time.
    fn due(&self, now: SystemTime) -> Vec<Wanted> {
        let is_running = |wanted: &Wanted| {
            self.entries.iter().any(|(other, entry)| entry.running.is_some() && other.subject == wanted.subject)
        };
        let under_way = self.entries.values().filter(|entry| entry.running.is_some()).count();
        let mut due: Vec<(SystemTime, &Wanted)> = self
            .entries
            .iter()
            .filter(|(wanted, entry)| entry.due(now, self.acme.options.retry_interval) <= now && !is_running(wanted))
            .map(|(wanted, entry)| {
                (entry.held.as_ref().map_or(SystemTime::UNIX_EPOCH, |held| held.validity.not_after), wanted)
            })
            .collect();
        due.sort();
        let mut chosen: Vec<Wanted> = Vec::new();
        for (_, wanted) in due {
            if under_way + chosen.len() < self.acme.options.max_orders
                && !chosen.iter().any(|other| other.subject == wanted.subject)
            {
                chosen.push(wanted.clone());
            }
        }
        chosen
    }
}

impl Entry {
    /// A new certificate is there.
    fn replace(&mut self, held: Held) {
        let now = SystemTime::now();
        let is_early = self.held.as_ref().is_some_and(|before| {
            let Validity { not_before, .. } = before.validity;
            not_before.checked_add(before.validity.lifetime() / 10).is_some_and(|soon| now < soon)
        });
        self.hurried = (Some(now), if is_early { self.hurried.1.saturating_add(1) } else { 0 });
        (self.held, self.window, self.ask_again) = (Some(held), None, None);
    }

    /// When it is to be ordered.
    fn due(&self, now: SystemTime, first_pause: Duration) -> SystemTime {
        let validity = self.held.as_ref().map(|held| held.validity);
        let due =
            validity.map_or(SystemTime::UNIX_EPOCH, |validity| schedule::renewal(&validity, self.window.as_ref()));
        let due = match self.hurried {
            (Some(at), times @ 1..) if at <= now => {
                due.max(at.checked_add(schedule::pause(times, first_pause, None, self.point)).unwrap_or(now))
            }
            _ => due,
        };
        match &self.record.failed {
            // A failure to come is one of a clock that was set back.
            Some((at, _)) if *at <= now => {
                let lifetime = validity.map(|validity| validity.lifetime());
                let pause = schedule::pause(self.record.failures, first_pause, lifetime, self.point);
                due.max(at.checked_add(pause).unwrap_or(now))
            }
            _ => due,
        }
    }
}

/// The ways to prove names that can succeed here: without a listener that speaks HTTP, nobody responds to a request.
fn usable_kinds(config: &Config, kinds: &[ChallengeKind]) -> Vec<ChallengeKind> {
    let has_http = config.listeners.iter().any(|listener| {
        listener.tls.is_none() && matches!(listener.service, Service::Http | Service::RedirectToHttps { .. })
    });
    let usable: Vec<_> = kinds.iter().copied().filter(|kind| has_http || *kind != ChallengeKind::Http01).collect();
    if usable.is_empty() { kinds.to_vec() } else { usable }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn entry(held: bool, failures: u32, failed: Option<SystemTime>) -> Entry {
        let start = SystemTime::UNIX_EPOCH + 1000 * DAY;
        let validity = Validity::new(start, start + 90 * DAY, &[0; 32]);
        let held = held.then(|| Held { validity, authority_key_id: Vec::new(), serial: Vec::new() });
        let record = Record { failures, failed: failed.map(|at| (at, String::new())), ..Record::default() };
        Entry { held, record, point: 0.5, ..Entry::default() }
    }

    #[test]
    fn failures_put_off_and_a_clock_that_was_set_back_does_not() {
        let now = SystemTime::UNIX_EPOCH + 1030 * DAY;
        let first = Duration::from_secs(120);
        let due = |entry: Entry| entry.due(now, first);
        assert_eq!(due(entry(false, 0, None)), SystemTime::UNIX_EPOCH, "at once");
        assert_eq!(due(entry(true, 0, None)), SystemTime::UNIX_EPOCH + 1060 * DAY);
        assert_eq!(due(entry(false, 1, Some(now))), now + first);
        assert_eq!(due(entry(false, 2, Some(now))), now + 2 * first);
        assert!(due(entry(false, 30, Some(now))) <= now + Duration::from_secs(4 * 3600));
        // Nothing to hurry for: the failure was with a certificate that is still good for a month.
        assert_eq!(due(entry(true, 1, Some(now))), SystemTime::UNIX_EPOCH + 1060 * DAY);
        assert_eq!(due(entry(false, 5, Some(now + 400 * DAY))), SystemTime::UNIX_EPOCH, "the clock was set back");
    }

    #[test]
    fn an_authority_that_always_says_now_is_not_obeyed_for_ever() {
        let now = SystemTime::now();
        let first = Duration::from_secs(120);
        let fresh = || {
            let validity = Validity::new(now, now + 90 * DAY, &[0; 32]);
            Held { validity, authority_key_id: Vec::new(), serial: Vec::new() }
        };
        let window = || Some(Window { start: now - DAY, end: now - DAY / 2, explanation: None });
        let mut entry = Entry { held: Some(fresh()), window: window(), point: 0.5, ..Entry::default() };
        assert!(entry.due(now, first) < now, "the first time, at once");
        for least in [1, 2, 4, 8] {
            entry.replace(fresh());
            assert_eq!((&entry.window, entry.ask_again), (&None, None), "it is asked about the new one");
            entry.window = window();
            let after = entry.due(SystemTime::now(), first).duration_since(now).unwrap();
            assert!(after >= least * first && after < least * first + Duration::from_secs(60), "{least} {after:?}");
        }
    }
}
