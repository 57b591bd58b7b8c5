//! The task that sees to it that each certificate that is wanted is there and is renewed in time.
//!
//! One keeper per keystore. Whatever the configuration says next, a keeper whose settings are as they were goes on with what it has begun. Times are
//! compared with the wall clock, not slept for: clocks are set, and machines sleep.

mod demanded;
mod entry;
mod keeper;
mod nodes;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use config::{AcmeConfig, ChallengeKind, Config, Service};
use proxy::generation::Generation;
use telemetry::Reporter;
use tls::Identity;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::authority::Authority;
use crate::client::Client;
use crate::dns::Zones;
use crate::elsewhere::KeyServers;
use crate::on_demand::Gatekeeper;
use crate::order::{Attempt, Issued, Job};
use crate::peers::{Membership, PeerNews, Peers};
use crate::schedule::Window;
use crate::storage::{Record, Storage};
use crate::wanted::{self, Subject, Wanted};
use entry::{Entry, Order};
use keeper::Keeper;

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
/// Needs a runtime that takes local tasks. In a fleet, `membership` is the place of this node there.
pub async fn run(generations: Arc<ArcSwap<Generation>>, reporter: Arc<Reporter>, membership: Option<Membership>) {
    let (sender, mut news) = unbounded_channel();
    let (peers, mut said) = membership.map(|Membership { peers, news }| (peers, news)).unzip();
    let keepers = BTreeMap::new();
    let mut service = Running { generations, reporter, sender, seen: 0, keepers, peers, led: false };
    let demanded = Arc::clone(service.generations.load().issuance.news());
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => service.turn().await,
            () = demanded.notified() => service.turn().await,
            Some(said) = heard(&mut said) => {
                service.hear(said).await;
                service.turn().await;
            }
            Some(news) = news.recv() => match news {
                News::Ordered(end) => {
                    service.note(*end);
                    service.turn().await;
                }
                News::Agreed { keystore, name, answer } => {
                    if let Some(keeper) = service.keepers.get_mut(&keystore) {
                        keeper.note_answer(&keystore, &name, answer, &service.reporter);
                    }
                    service.turn().await;
                }
                News::Asked(suggestion) => service.note_suggestion(suggestion),
            },
        }
    }
}

/// What the other nodes say; without any, nothing ever.
async fn heard(said: &mut Option<UnboundedReceiver<PeerNews>>) -> Option<PeerNews> {
    match said {
        Some(said) => said.recv().await,
        None => std::future::pending().await,
    }
}

/// What comes of what was begun.
enum News {
    Ordered(Box<End>),
    Asked(Suggestion),
    /// Whether a name may have a certificate.
    Agreed {
        keystore: String,
        name: Box<str>,
        answer: Result<bool, String>,
    },
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
    /// What is to be served, of a name that clients asked for.
    identity: Option<Arc<Identity>>,
}

struct Running {
    generations: Arc<ArcSwap<Generation>>,
    reporter: Arc<Reporter>,
    sender: UnboundedSender<News>,
    /// The generation that the keepers follow.
    seen: u64,
    keepers: BTreeMap<String, Keeper>,
    /// The other nodes of the fleet, if this is one.
    peers: Option<Arc<dyn Peers>>,
    /// This node was the one of them that orders.
    led: bool,
}

/// Orders a certificate beside everything else, and reports the end.
fn order(job: Job, record: Record, on_demand: bool, sender: UnboundedSender<News>) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let (keystore, wanted, storage, before) =
            (job.keystore.clone(), job.wanted.clone(), job.storage.clone(), record.clone());
        // Apart, so that the end of an order is heard of however it comes, and ends with this task.
        let mut order = JoinSet::new();
        order.spawn_local(job.run(record));
        let (outcome, attempts, record) = match order.join_next().await {
            Some(Ok(end)) => end,
            _ => (Err("the order came to no end, which is a defect of this program".to_owned()), Vec::new(), before),
        };
        let (of, is_issued) = (wanted.clone(), outcome.is_ok() && on_demand);
        let read = tokio::task::spawn_blocking(move || storage.identity(&of).filter(|_| is_issued)).await;
        let identity = read.ok().flatten();
        // Nobody listens if the process is about to end.
        let end = End { keystore, wanted, outcome, attempts, record, identity };
        let _ = sender.send(News::Ordered(Box::new(end)));
    })
}

impl Running {
    async fn turn(&mut self) {
        self.follow_leader();
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
            keeper.load_on_demand(now).await;
            if let Some(peers) = self.peers.as_ref().filter(|_| !self.led) {
                keeper.pass_demands_on(name, now, peers, &self.reporter);
                continue;
            }
            if !keeper.may_order(name).await {
                continue;
            }
            keeper.serve_demands(name, now, (&self.reporter, &self.sender, &self.generations)).await;
            keeper.ask_when_to_renew(name, now, &self.sender);
            for wanted in keeper.due(now) {
                let job = Job {
                    keystore: name.clone(),
                    wanted: wanted.clone(),
                    acme: Arc::clone(&keeper.acme),
                    authorities: keeper.authorities.clone(),
                    storage: keeper.storage_of(&wanted),
                    challenges: Arc::clone(challenges),
                    kinds: keeper.kinds.clone(),
                    zones: keeper.zones.clone(),
                    key_servers: keeper.key_servers.clone(),
                    peers: self.peers.clone(),
                    replaces: keeper.entries.get(&wanted).and_then(|entry| entry.held.as_ref()?.identifier()),
                };
                let Some(entry) = keeper.entries.get_mut(&wanted) else { continue };
                let task = order(job, entry.record.clone(), entry.on_demand, self.sender.clone());
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
            let group = keystore.key_servers.as_deref();
            let is_as_before = |keeper: &Keeper| *keeper.acme == **acme && keeper.key_group() == group;
            let keeper = match before.remove(name).filter(is_as_before) {
                Some(keeper) => Keeper { kinds, ..keeper },
                None => self.keeper(name, acme, kinds, group),
            };
            let mut keeper = keeper;
            if let (None, Some(settings), Some(demands)) =
                (&keeper.on_demand, &acme.on_demand, generation.issuance.demands(name))
            {
                keeper.on_demand = Some(Gatekeeper::new(settings.clone(), Arc::clone(demands)));
            }
            self.keepers.insert(name.clone(), keeper);
        }
    }

    fn keeper(
        &self,
        name: &str,
        acme: &Arc<AcmeConfig>,
        kinds: Vec<ChallengeKind>,
        key_servers: Option<&str>,
    ) -> Keeper {
        let storage = Storage::at(&acme.folder).keyless(key_servers.is_some()).shared(self.peers.as_ref(), name);
        let authority = |config: &Arc<config::AuthorityConfig>| {
            let timeout = acme.options.request_timeout;
            let client = Client::start(Arc::clone(&self.generations), Arc::clone(config), timeout);
            Rc::new(Authority::new(Arc::clone(config), client, storage.clone(), acme.contact.clone()))
        };
        Keeper {
            acme: Arc::clone(acme),
            has_said_whom_to_trust: false,
            on_demand: None,
            is_loaded: false,
            problem: None,
            lock: None,
            authorities: acme.authorities.iter().map(authority).collect(),
            kinds,
            key_servers: key_servers
                .map(|group| KeyServers::new(&self.generations, group, &self.reporter, acme.options.request_timeout)),
            zones: acme.dns.clone().map(|dns| Zones::new(dns, Arc::clone(&self.generations))),
            entries: wanted::of(acme).into_iter().map(|wanted| (wanted, Entry::default())).collect(),
            storage,
        }
    }

    /// An order ended.
    fn note(&mut self, end: End) {
        let End { keystore, wanted, outcome, attempts, record, identity } = end;
        for attempt in &attempts {
            self.reporter.certificate_ordered(&keystore, &attempt.authority, attempt.problem.is_none());
        }
        let Some(keeper) = self.keepers.get_mut(&keystore) else { return };
        let Some(entry) = keeper.entries.get_mut(&wanted) else { return };
        // Not for want of a proof: another node may reach the authority.
        let is_for_others = outcome.is_err() && record.unproved == entry.record.unproved;
        entry.running = None;
        entry.record = record;
        entry.point = fastrand::f64();
        entry.is_agreed = false;
        let is_on_demand = entry.on_demand;
        let (names, key_type) = (wanted.shown(), wanted.key_word());
        let is_issued = outcome.is_ok();
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
        if let (true, Subject::Name(name)) = (is_on_demand, &wanted.subject) {
            self.reporter.name_demanded(&keystore, if is_issued { "issued" } else { "failed" });
            keeper.note_ordered(name, identity);
        }
        if is_for_others {
            self.resign();
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
            let names = keeper.names_on_demand(|entry| entry.held.is_some());
            if keeper.on_demand.is_some() {
                self.reporter.names_on_demand(name, names as u64);
            }
            let entries = keeper.entries.values().filter(|entry| !entry.on_demand);
            let now = SystemTime::now();
            let is_missing = |entry: &&Entry| entry.held.as_ref().is_none_or(|held| held.validity.not_after < now);
            let missing = entries.clone().filter(is_missing).count();
            let failing = entries.filter(|entry| entry.record.failures > 0).count();
            self.reporter.certificates_wanted(name, missing as u64, failing as u64);
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
