//! Operations of one worker at one group of key servers: which server is asked, for how long, and who is asked next.
//!
//! Owns no socket: connections belong to peers. A try that fails costs only its own operation; the next goes to another server, if the budget for
//! such tries allows it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::Deadline;
use net::clock::coarse;
use telemetry::KeyCounts;
use tls::{KeyRequest, KeyResponse};
use tokio::sync::Notify;
use transport::KeyFailure;
use wire::keyless::{Frame, KeyFamily, opcode};

use super::KeyGroup;
use super::peer::{Peer, keep};
use crate::upstream::ServerId;

/// Servers asked for one operation, at most.
const MOST_TRIES: usize = 3;

/// Before another server is asked, on average: those whom one failure hit do not all come to the next server in the same moment.
const MEAN_RETRY_PAUSE: Duration = Duration::from_millis(1);

/// How long everything must have been unreachable before handshakes end at once instead of waiting for a server to come back.
const PATIENCE: Duration = Duration::from_millis(500);

/// A worker's client of a group.
#[derive(Debug)]
pub struct Client {
    group: Arc<KeyGroup>,
    peers: RefCell<Vec<Rc<Peer>>>,
    /// A server is connected, or it is clear that none can be.
    news: Notify,
    in_flight: Cell<usize>,
    budget: Budget,
    /// Since when nothing can be reached (coarse clock).
    down_since: Cell<Option<Duration>>,
    counts: KeyCounts,
}

/// What is known of a handshake beside what its key is asked.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The name that the client asked for; empty if none.
    pub server_name: &'a str,
    /// When the handshake must be over, on the coarse clock.
    pub until: Duration,
}

impl Client {
    /// A client that begins to connect at once. Needs the worker's runtime.
    pub fn start(group: &Arc<KeyGroup>, counts: KeyCounts) -> Rc<Client> {
        let client = Rc::new(Client {
            group: Arc::clone(group),
            peers: RefCell::default(),
            news: Notify::new(),
            in_flight: Cell::new(0),
            budget: Budget::new(group.config.upstream.retry_budget_percent),
            down_since: Cell::new(None),
            counts,
        });
        client.follow();
        client
    }

    /// Has a peer for each server of the group: names may lead elsewhere than before. Who is gone ends with its last operation.
    fn follow(self: &Rc<Client>) {
        let members = self.group.servers.members();
        let mut peers = self.peers.borrow_mut();
        peers.retain(|peer| {
            let is_there = members.servers.iter().any(|server| Arc::ptr_eq(server, &peer.server));
            if !is_there {
                peer.leave();
            }
            is_there
        });
        for server in &members.servers {
            if !peers.iter().any(|peer| Arc::ptr_eq(&peer.server, server)) {
                let peer = Peer::new(server, self.counts.clone());
                tokio::task::spawn_local(keep(Rc::downgrade(self), Rc::clone(&peer)));
                peers.push(peer);
            }
        }
    }

    /// The group it is for.
    pub fn group(&self) -> &Arc<KeyGroup> {
        &self.group
    }

    /// Looks after what changes without an event: names that moved, ejections that are over.
    pub(super) fn tend(self: &Rc<Client>) {
        self.follow();
        self.peers.borrow().iter().for_each(|peer| peer.tend());
    }

    /// A server is connected now.
    pub(super) fn note_connected(&self) {
        self.down_since.set(None);
        self.news.notify_waiters();
    }

    /// A server could not be reached.
    pub(super) fn note_unreachable(&self) {
        let is_down = self.peers.borrow().iter().all(|peer| peer.is_unreachable() && !peer.is_connected());
        if is_down && self.down_since.get().is_none() {
            self.down_since.set(Some(coarse()));
        }
        if self.is_hopeless() {
            self.news.notify_waiters();
        }
    }

    fn is_hopeless(&self) -> bool {
        let servers = &self.group.servers;
        servers.is_unresolved() && !servers.is_resolving()
            || self.down_since.get().is_some_and(|since| coarse() >= since + PATIENCE)
    }

    /// Has the request answered by one server or another.
    ///
    /// # Errors
    /// Why the last one that was asked did not answer, or why none was asked.
    pub async fn perform(self: &Rc<Client>, request: &KeyRequest, ask: Ask<'_>) -> Result<KeyResponse, KeyFailure> {
        let _place = self.admit()?;
        let until = ask.until.min(coarse() + self.group.config.total_timeout);
        let mut tried = Vec::new();
        loop {
            let peer = match self.choose(&tried) {
                Some(peer) => peer,
                None => self.wait_for_server(until).await?,
            };
            let failure = match self.try_at(&peer, request, Ask { until, ..ask }).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if failure.is_about_ciphertext(request.operation()) {
                return request.substitute().ok_or(failure);
            }
            tried.push(peer.server.id);
            let is_last = tried.len() >= MOST_TRIES || self.choose(&tried).is_none() || coarse() >= until;
            if !is_last && failure.may_go_elsewhere() && self.budget.spend() {
                self.counts.retried();
                tokio::time::sleep(spread(MEAN_RETRY_PAUSE)).await;
                continue;
            }
            // Where a server is busy nothing was begun, so coming again when it said to is no retry.
            let KeyFailure::Busy { retry_after } = failure else { return Err(failure) };
            let pause = spread(retry_after);
            if coarse() + pause >= until {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            tried.clear();
        }
    }

    /// Has a new key made by one server, and gives its public half (RFC 5280 §4.1.2.7): whether that is a key, and whether the server has it, shows once
    /// it signs. Nobody else is asked, since each would make one.
    ///
    /// # Errors
    /// Why there is none; [`KeyFailure::Unaskable`] if the server does not speak the extension, or makes no such keys.
    pub async fn make_key(self: &Rc<Client>, family: KeyFamily, until: Duration) -> Result<Vec<u8>, KeyFailure> {
        let _place = self.admit()?;
        let code = [family.code().ok_or(KeyFailure::Unaskable)?];
        loop {
            let peer = match self.choose(&[]) {
                Some(peer) => peer,
                None => self.wait_for_server(until).await?,
            };
            let connection = peer.connection().ok_or(KeyFailure::Unavailable)?;
            if !connection.is_extended() {
                return Err(KeyFailure::Unaskable);
            }
            let started = Instant::now();
            let asked = connection.ask(Frame { opcode: opcode::MAKE_KEY, payload: &code, ..Frame::default() })?;
            let answered = Deadline::new().until(until, asked).await.unwrap_or(Err(KeyFailure::Timeout));
            let outcome = answered.as_ref().map_or_else(|failure| failure.outcome(), |_| "success");
            self.counts.operation(&peer.server.name, outcome, started.elapsed());
            // It makes one at a time.
            match answered {
                Err(KeyFailure::Busy { retry_after }) if coarse() + spread(retry_after) < until => {
                    tokio::time::sleep(spread(retry_after)).await;
                }
                answered => return answered,
            }
        }
    }

    /// Takes a place among the operations under way.
    fn admit(&self) -> Result<Place<'_>, KeyFailure> {
        if self.in_flight.get() >= self.group.config.upstream.max_in_flight {
            return Err(KeyFailure::Overloaded);
        }
        self.in_flight.set(self.in_flight.get() + 1);
        self.counts.in_flight(self.in_flight.get());
        Ok(Place(self))
    }

    /// The cheaper of two random servers among those to be preferred, else among those that are connected; none of those `tried`.
    fn choose(&self, tried: &[ServerId]) -> Option<Rc<Peer>> {
        let peers = self.peers.borrow();
        let pick = |fits: &dyn Fn(&Peer) -> bool| {
            let candidates = || peers.iter().filter(|peer| !tried.contains(&peer.server.id) && fits(peer));
            let count = candidates().count();
            let first = candidates().nth(fastrand::usize(..count.max(1)))?;
            // Of two, both are looked at.
            let offset = if count > 1 { 1 + fastrand::usize(..count - 1) } else { 0 };
            let place = candidates().position(|peer| Rc::ptr_eq(peer, first))?;
            let second = candidates().nth((place + offset) % count)?;
            Some(if second.cost() < first.cost() { second } else { first })
        };
        pick(&Peer::is_preferred).or_else(|| pick(&Peer::is_connected)).cloned()
    }

    /// Waits for a server to be connected, unless there is no hope.
    async fn wait_for_server(self: &Rc<Client>, until: Duration) -> Result<Rc<Peer>, KeyFailure> {
        let until = until.min(coarse() + self.group.config.upstream.connect_timeout);
        let mut timer = Deadline::new();
        loop {
            if let Some(peer) = self.choose(&[]) {
                return Ok(peer);
            }
            if self.is_hopeless() {
                return Err(KeyFailure::Unavailable);
            }
            let servers = &self.group.servers;
            if !servers.is_resolving() {
                timer.until(until, self.news.notified()).await.map_err(|_| KeyFailure::Unavailable)?;
                continue;
            }
            let left = until.saturating_sub(coarse());
            servers.resolved(left).await;
            if left.is_zero() {
                return Err(KeyFailure::Unavailable);
            }
            self.follow();
        }
    }

    /// One try at one server. Counts it, and tells the peer how it went.
    async fn try_at(&self, peer: &Rc<Peer>, request: &KeyRequest, ask: Ask<'_>) -> Result<KeyResponse, KeyFailure> {
        let connection = peer.connection().ok_or(KeyFailure::Unavailable)?;
        let started = Instant::now();
        let limit = self.group.config.timeout.min(ask.until.saturating_sub(coarse()));
        let asked = connection.ask(Frame {
            opcode: request.operation().opcode().ok_or(KeyFailure::Unaskable)?,
            payload: request.input(),
            ski: Some(request.key().identifier()),
            server_name: ask.server_name.as_bytes(),
            deadline_us: u32::try_from(limit.as_micros()).ok(),
            ..Frame::default()
        })?;
        let answered = Deadline::new().within(limit, asked).await.unwrap_or(Err(KeyFailure::Timeout));
        let checked = answered.and_then(|result| request.check(&result).map_err(|_| KeyFailure::WrongSignature));
        let took = started.elapsed();
        let outcome = match &checked {
            Ok(_) => {
                peer.answered(took);
                self.budget.earn();
                "success"
            }
            Err(failure) => {
                peer.failed(*failure, took, self.group.config.upstream.ejection);
                failure.outcome()
            }
        };
        self.counts.operation(&peer.server.name, outcome, took);
        checked
    }
}

/// Tries on another server that may be made: a share of what goes well, so that they add little to what fails.
#[derive(Debug)]
struct Budget {
    /// Of a hundred successes, so many; with none there are no such tries at all.
    percent: u32,
    /// In hundredths.
    credit: Cell<u32>,
}

impl Budget {
    /// Tries that may be made out of nothing, and saved up at most: enough for what is under way when a busy server dies.
    const RESERVE: u32 = 256;

    fn new(percent: u32) -> Budget {
        Budget { percent, credit: Cell::new(Budget::RESERVE * 100) }
    }

    /// An operation went well.
    fn earn(&self) {
        self.credit.set((self.credit.get() + self.percent).min(Budget::RESERVE * 100));
    }

    /// Takes one try, if there is one left.
    fn spend(&self) -> bool {
        let left = self.credit.get().checked_sub(100).filter(|_| self.percent > 0);
        left.inspect(|left| self.credit.set(*left)).is_some()
    }
}

/// Half to one and a half of a pause, at random, so that not all who wait come together.
pub(super) fn spread(pause: Duration) -> Duration {
    pause.mul_f32(0.5 + fastrand::f32())
}

impl Drop for Client {
    fn drop(&mut self) {
        self.peers.borrow().iter().for_each(|peer| peer.leave());
    }
}

/// One operation under way; counts itself out when dropped.
struct Place<'a>(&'a Client);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let left = self.0.in_flight.get() - 1;
        self.0.in_flight.set(left);
        self.0.counts.in_flight(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries that can be made in a row.
    fn left(budget: &Budget) -> usize {
        (0..10_000).take_while(|_| budget.spend()).count()
    }

    #[test]
    fn tries_on_other_servers_are_a_share_of_what_goes_well() {
        for percent in [1, 10, 100] {
            let budget = Budget::new(percent);
            assert_eq!(left(&budget), 256, "out of nothing");
            (0..1_000).for_each(|_| budget.earn());
            assert_eq!(left(&budget), (1_000 * percent as usize / 100).min(256), "{percent} %");
            (0..1_000_000).for_each(|_| budget.earn());
            assert_eq!(left(&budget), 256, "{percent} %: not more than that is saved up");
        }
        let none = Budget::new(0);
        none.earn();
        assert_eq!(left(&none), 0, "switched off");
    }

    #[test]
    fn pauses_are_spread_evenly_around_what_was_asked() {
        fastrand::seed(7);
        for pause in [MEAN_RETRY_PAUSE, Duration::from_millis(100)] {
            let mut tenths = [0; 10];
            for _ in 0..10_000 {
                let share = spread(pause).div_duration_f32(pause);
                assert!((0.5..=1.5).contains(&share), "{share}");
                tenths[((share - 0.5) * 10.0).min(9.0) as usize] += 1;
            }
            assert!(tenths.iter().all(|count| (800..1_200).contains(count)), "{tenths:?}");
        }
    }
}
