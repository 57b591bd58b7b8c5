//! Tells the store of rates what this node has let pass, and learns what all nodes together have: one task per process, off the data path.
//!
//! A few times a second it takes what keys have used (`policies/shared.rs`), sends it in a bounded number of messages at once, and has the tables learn how far
//! each key is ahead on all nodes. A message is charged once, however often it is sent. When nothing was heard for too long, each node has its part of a limit.

mod link;
mod message;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::Deadline;
use telemetry::RateStoreTotals;
use tls::crypto::digest;

use crate::policies::{RateStore, SharedRate};
use crate::worker::Shared;
use link::Link;
use message::{Charge, Message};

/// Most keys that one exchange tells of, of all rates together. Those that have used most come first; the others wait for the next one.
const MAX_KEYS_PER_EXCHANGE: usize = 4_096;

/// Time between two looks whether there is a store, and between two tries to reach one that is away.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks after the rates of whatever generation is active until it is dropped.
pub async fn run(shared: Arc<Shared>) {
    let mut talk: Option<Talk> = None;
    loop {
        let generation = shared.generation.load_full();
        let store = generation.policies.rate_store();
        if talk
            .as_ref()
            .map(|talk| &talk.store)
            .is_some_and(|before| !store.is_some_and(|store| Arc::ptr_eq(before, store)))
        {
            talk = talk.and_then(|talk| talk.over(store));
        }
        if talk.is_none() {
            talk = store
                .and_then(|store| Talk::new(store).map_err(|problem| tracing::error!("rate store: {problem}")).ok());
        }
        let pause = match &mut talk {
            Some(talk) => talk.exchange(&generation.policies.shared_rates()).await,
            None => PAUSE,
        };
        shared.reporter.rate_store(talk.as_ref().map(|talk| talk.totals));
        // What a reload has replaced must not be held back.
        drop(generation);
        tokio::time::sleep(pause).await;
    }
}

/// What is said between this node and a store.
struct Talk {
    store: Arc<RateStore>,
    /// Who says it.
    node: String,
    link: Option<Link>,
    /// The number of the last message.
    sent: u64,
    /// Messages without a reply.
    open: VecDeque<Message>,
    /// What this node knows of keys was said on this connection, so that what they have used since is enough.
    knows_all: bool,
    /// When all that a rate had to say was last taken, by its name.
    taken: BTreeMap<String, Instant>,
    last_success: Instant,
    /// What was logged last, until it is over.
    problem: Option<String>,
    totals: RateStoreTotals,
}

impl Talk {
    fn new(store: &Arc<RateStore>) -> Result<Talk, String> {
        let id = digest::random::<8>().map_err(|error| error.to_string())?;
        Ok(Talk {
            store: Arc::clone(store),
            node: format!("{:016x}", u64::from_be_bytes(id)),
            link: None,
            sent: 0,
            open: VecDeque::new(),
            knows_all: false,
            taken: BTreeMap::new(),
            last_success: Instant::now(),
            problem: None,
            totals: RateStoreTotals::default(),
        })
    }

    /// Goes on with the store of another generation, with a connection of its own.
    fn over(mut self, store: Option<&Arc<RateStore>>) -> Option<Talk> {
        self.put_back();
        let store = Arc::clone(store?);
        Some(Talk { store, link: None, problem: None, ..self })
    }

    /// One exchange; gives the time until the next one.
    async fn exchange(&mut self, rates: &[SharedRate]) -> Duration {
        let options = &self.store.config.options;
        let (interval, timeout) = (options.interval, options.timeout);
        let began = Instant::now();
        let outcome = Deadline::new().within(timeout, self.talk(rates)).await;
        match outcome.unwrap_or_else(|_| Err(format!("no response in {timeout:?}"))) {
            Ok(()) => self.note_success(began),
            Err(problem) => self.note_failure(problem, interval + timeout),
        }
        match self.store.sharing.is_in_touch() {
            true => interval,
            // Not all nodes at once, when it is back.
            false => PAUSE.mul_f64(0.5 + fastrand::f64()),
        }
    }

    async fn talk(&mut self, rates: &[SharedRate]) -> Result<(), String> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => {
                // It may be another server by now, or one that has forgotten.
                self.knows_all = false;
                Link::open(&self.store).await?
            }
        };
        let is_new = self.open.is_empty();
        if is_new {
            self.take(rates);
        }
        let mut out = Vec::new();
        for message in &self.open {
            message.put(&self.store.config.prefix, &self.node, &mut out);
        }
        let sent_at = Instant::now();
        if self.open.is_empty() {
            link.ping().await?;
        } else {
            link.send(&out).await?;
        }
        while let Some(message) = self.open.front() {
            let reply = link.reply().await?;
            message.learn(&reply, sent_at.elapsed())?;
            self.totals.keys += message.keys() as u64;
            self.open.pop_front();
        }
        self.knows_all |= is_new;
        self.link = Some(link);
        Ok(())
    }

    /// Makes messages of what keys have used.
    fn take(&mut self, rates: &[SharedRate]) {
        let options = &self.store.config.options;
        let (interval, is_in_touch) = (options.interval, self.store.sharing.is_in_touch());
        let longest = interval + options.timeout;
        self.taken.retain(|name, _| rates.iter().any(|rate| rate.name == *name));
        self.totals.waiting = 0;
        for rate in rates {
            let (spent, left) = rate.take(MAX_KEYS_PER_EXCHANGE.div_ceil(rates.len()));
            let before = self.taken.get(&rate.name).map(Instant::elapsed);
            if left == 0 {
                self.taken.insert(rate.name.clone(), Instant::now());
            }
            self.totals.waiting += left as u64;
            let covered = before.unwrap_or(interval).clamp(interval, longest);
            let charge = Charge { covered: is_in_touch.then_some(covered), with_own: !is_in_touch || !self.knows_all };
            for keys in spent.chunks(message::MAX_KEYS) {
                self.sent += 1;
                self.open.push_back(Message::new(self.sent, rate, keys, charge));
            }
        }
    }

    fn note_success(&mut self, began: Instant) {
        self.last_success = Instant::now();
        self.totals.successes += 1;
        self.totals.seconds = began.elapsed().as_secs_f64();
        self.totals.is_up = true;
        self.problem = None;
        if self.store.sharing.set_in_touch(true) {
            tracing::info!("rates: the store is there, nodes share their limits");
        }
    }

    /// `patience`: without a success for this time, the store is away.
    fn note_failure(&mut self, problem: String, patience: Duration) {
        self.link = None;
        self.totals.failures += 1;
        let is_away = !self.store.sharing.is_in_touch() || self.last_success.elapsed() >= patience;
        if is_away {
            self.store.sharing.set_in_touch(false);
            self.totals.is_up = false;
            self.put_back();
            if self.problem.as_ref() != Some(&problem) {
                let nodes = self.store.config.nodes;
                tracing::warn!(nodes, "rates: the store is away, each node has its part of a limit: {problem}");
                self.problem = Some(problem);
            }
        }
    }

    /// What nobody has learned of counts as not yet reported.
    fn put_back(&mut self) {
        self.open.drain(..).for_each(|message| message.put_back());
    }
}
