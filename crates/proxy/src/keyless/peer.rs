//! One key server as one worker sees it: its connections, how fast it answers, and the task that keeps it connected.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use config::Ejection;
use net::clock::coarse;
use telemetry::{KeyCounts, OncePerSecond};
use tokio::sync::Notify;
use transport::KeyFailure;

use super::connection::{Connection, Ended, Watch};
use super::failover::{Client, spread};
use crate::upstream::{self, Server, Target};

/// Between two tries to connect, at first and at most; halved to doubled at random.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// A connection that ends sooner was not wanted.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// What a server without a measurement is taken to need, microseconds: little, so that it is tried.
const UNMEASURED_US: f32 = 300.0;

/// Weight of the newest measurement in the moving average.
const NEWEST: f32 = 0.2;

/// What a server was measured at counts half after so long without another measurement. Thus one that was slow is tried again, the sooner the less it
/// differs from the others, and none is left out for ever because of how it was once.
const HALF_LIFE: Duration = Duration::from_secs(2);

/// A key server.
#[derive(Debug)]
pub struct Peer {
    /// Address, name, ejection; shared by all workers.
    pub server: Arc<Server>,
    connections: RefCell<Vec<Rc<Connection>>>,
    latency_us: Cell<f32>,
    /// When that was measured (coarse clock).
    measured_at: Cell<Duration>,
    /// It asked to be left alone until then (coarse clock).
    busy_until: Cell<Duration>,
    /// It is no server of the group any more.
    has_left: Cell<bool>,
    /// It was ejected for silence, so that an answered ping brings it back.
    is_silent: Cell<bool>,
    /// The last try to connect failed.
    is_unreachable: Cell<bool>,
    /// Connections in a row that ended as soon as they had begun: the server rejects us, which it can say only then (RFC 8446 §4.4.2.4).
    rejections: Cell<u32>,
    /// Something changed that the keeper should see.
    changed: Notify,
    counts: KeyCounts,
}

impl Peer {
    /// A server that is not yet connected.
    pub fn new(server: &Arc<Server>, counts: KeyCounts) -> Rc<Peer> {
        let peer = Peer {
            server: Arc::clone(server),
            connections: RefCell::default(),
            latency_us: Cell::new(UNMEASURED_US),
            measured_at: Cell::new(coarse()),
            busy_until: Cell::new(Duration::ZERO),
            has_left: Cell::new(false),
            is_silent: Cell::new(false),
            is_unreachable: Cell::new(false),
            rejections: Cell::new(0),
            changed: Notify::new(),
            counts,
        };
        peer.report();
        Rc::new(peer)
    }

    /// The open connection with the fewest operations.
    pub fn connection(&self) -> Option<Rc<Connection>> {
        let connections = self.connections.borrow();
        connections.iter().filter(|one| one.is_open()).min_by_key(|one| one.load()).cloned()
    }

    /// Whether it is connected.
    pub fn is_connected(&self) -> bool {
        self.connections.borrow().iter().any(|connection| connection.is_open())
    }

    /// Whether it should be asked while there are others: connected, not ejected, not busy.
    pub fn is_preferred(&self) -> bool {
        self.is_connected() && self.server.is_available() && coarse() >= self.busy_until.get()
    }

    /// Whether the last try to connect failed.
    pub fn is_unreachable(&self) -> bool {
        self.is_unreachable.get()
    }

    /// How long a further operation would take, in relation to others.
    pub fn cost(&self) -> f32 {
        let load: usize = self.connections.borrow().iter().map(|connection| connection.load()).sum();
        self.latency_us.get() * self.remembered() * (load + 1) as f32
    }

    /// What is left of the last average, 0 to 1.
    fn remembered(&self) -> f32 {
        let age = coarse().saturating_sub(self.measured_at.get());
        (-age.div_duration_f32(HALF_LIFE)).exp2()
    }

    /// An operation went well.
    pub fn answered(&self, after: Duration) {
        self.measured(after);
        self.server.succeeded();
    }

    /// An operation did not go well after this long.
    pub fn failed(&self, failure: KeyFailure, after: Duration, rule: Ejection) {
        match failure {
            // Not all workers come back together.
            KeyFailure::Busy { retry_after } => self.busy_until.set(coarse() + spread(retry_after)),
            KeyFailure::Timeout => self.measured(after),
            _ => {}
        }
        if !failure.blames_server() {
            return;
        }
        let is_wrong = failure == KeyFailure::WrongSignature;
        let rule = if is_wrong { Ejection { failures: rule.failures.min(1), ..rule } } else { rule };
        if self.server.failed(rule) {
            tracing::warn!(server = %self.server.name, %failure, "key server left out for a while");
            self.is_silent.set(!is_wrong);
            self.report();
        }
        if failure == KeyFailure::Timeout {
            self.connections.borrow().iter().for_each(|connection| connection.probe());
        }
    }

    /// Says how it stands.
    pub fn tend(&self) {
        self.report();
    }

    /// Ends all connections once nothing is under way on them, and makes no new ones.
    pub fn leave(&self) {
        self.has_left.set(true);
        self.connections.borrow().iter().for_each(|connection| connection.leave());
        self.changed.notify_one();
        self.counts.server(&self.server.name, 0, false, false);
    }

    fn measured(&self, took: Duration) {
        let (average, older) = (self.latency_us.get(), (1.0 - NEWEST) * self.remembered());
        self.latency_us.set(average * older + took.as_micros() as f32 * (1.0 - older));
        self.measured_at.set(coarse());
    }

    /// Whoever was ejected for silence speaks again.
    fn revive(&self) {
        if self.is_silent.replace(false) {
            self.server.restore();
            tracing::info!(server = %self.server.name, "key server answers again");
        }
        self.report();
    }

    fn report(&self) {
        let open = self.connections.borrow().iter().filter(|connection| connection.is_open()).count();
        let is_current = !self.has_left.get();
        self.counts.server(&self.server.name, open, open > 0 && self.server.is_available(), is_current);
    }
}

impl Watch for Peer {
    fn pong(&self, _after: Duration) {
        self.revive();
    }
}

/// Keeps `peer` connected for as long as its client lives: one try at a time, a fresh connection before an old one goes.
pub async fn keep(client: Weak<Client>, peer: Rc<Peer>) {
    let mut failures = 0;
    loop {
        let Some(owner) = client.upgrade().filter(|_| !peer.has_left.get()) else { return };
        let config = Rc::clone(&owner).group().config.clone();
        let open = peer.connections.borrow().iter().filter(|connection| connection.is_open()).count();
        if open >= config.connections {
            drop(owner);
            peer.changed.notified().await;
            continue;
        }
        let group = Arc::clone(&owner.group().servers);
        // A client that is let go of while this waits must not be held.
        drop(owner);
        if let Some(before) = peer.rejections.get().checked_sub(1) {
            tokio::time::sleep(pause_after(before)).await;
        }
        match upstream::connect(Target::own(&group, &peer.server)).await {
            Ok(transport) => {
                failures = 0;
                peer.is_unreachable.set(false);
                let Some(owner) = client.upgrade().filter(|_| !peer.has_left.get()) else { return };
                begin(&peer, Connection::new(transport), config.ping_interval);
                owner.note_connected();
            }
            Err(error) => {
                static COMPLAINT: OncePerSecond = OncePerSecond::new();
                if !peer.is_unreachable.replace(true) || COMPLAINT.allow().is_some() {
                    tracing::warn!(server = %peer.server.name, reason = error.reason().code(), error = ?error, "cannot connect to a key server");
                }
                client.upgrade().iter().for_each(|owner| owner.note_unreachable());
                tokio::time::sleep(pause_after(failures)).await;
                failures += 1;
            }
        }
    }
}

/// How long to wait after a try to connect that failed, as `before` in a row did: half to twice of a time that doubles, so that a server that comes back
/// is not met by all edges in the same moment.
fn pause_after(before: u32) -> Duration {
    let mean = (FIRST_PAUSE * (1 << before.min(8))).min(LONGEST_PAUSE);
    mean.mul_f32(0.5 + 1.5 * fastrand::f32())
}

/// Puts a fresh connection into service.
fn begin(peer: &Rc<Peer>, connection: Connection, ping_interval: Duration) {
    let connection = Rc::new(connection);
    tracing::info!(server = %peer.server.name, extension = connection.is_extended(), "connected to a key server");
    peer.connections.borrow_mut().push(Rc::clone(&connection));
    peer.revive();
    let (peer, began) = (Rc::clone(peer), coarse());
    tokio::task::spawn_local(async move {
        let ended = connection.serve(ping_interval, &*peer).await;
        let is_rejected = coarse().saturating_sub(began) < SHORT_LIFE;
        peer.rejections.set(if is_rejected { peer.rejections.get().saturating_add(1) } else { 0 });
        if !matches!(ended, Ended::Left) {
            tracing::warn!(server = %peer.server.name, why = %ended, "connection to a key server ended");
        }
        peer.connections.borrow_mut().retain(|other| !Rc::ptr_eq(other, &connection));
        peer.report();
        peer.changed.notify_one();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_tries_to_connect_double_up_to_the_longest_and_differ() {
        fastrand::seed(11);
        for (before, mean_ms) in [(0, 25), (1, 50), (2, 100), (3, 200), (4, 400), (5, 400), (1_000_000, 400)] {
            let mut quarters = [0; 4];
            for _ in 0..4_000 {
                let share = pause_after(before).div_duration_f32(Duration::from_millis(mean_ms));
                assert!((0.499..=2.001).contains(&share), "{before}: {share}");
                quarters[((share - 0.5).max(0.0) / 1.5 * 4.0).min(3.0) as usize] += 1;
            }
            assert!(quarters.iter().all(|count| (850..1_150).contains(count)), "{before}: {quarters:?}");
        }
    }
}
