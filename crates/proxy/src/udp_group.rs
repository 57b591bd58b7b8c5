//! The sockets of one UDP address, as the tasks on them and the server share them.
//!
//! They are a group of the kernel, which counts them: as one of them closes another one takes its place, and the datagrams of that one go astray. So all of
//! them stay until the last one is needed no more. Knows nothing of which addresses there are.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use config::Place;
use net::inherited::{Kind, Passed};
use net::{Inherited, Link, UdpBound};
use tokio::sync::Notify;

use crate::worker::Worker;

/// The sockets of one address.
#[derive(Debug)]
pub struct Group {
    /// The sockets.
    pub bound: UdpBound,
    /// HTTP/3, or else datagrams of a UDP listener.
    pub serves_http3: bool,
    /// Tasks that need their socket.
    busy: AtomicUsize,
    /// How workers pass each other what the kernel does not steer as it should, if there is such.
    lanes: OnceLock<Arc<quic::Lanes>>,
    /// How many of the sockets were taken over from a process that may still have connections of HTTP/3.
    followed: AtomicUsize,
    /// Ends of links to other processes that have the same sockets, until the tasks on them take them.
    ends: Mutex<Ends>,
}

/// Ends of links, by the position of the socket.
#[derive(Debug, Default)]
struct Ends {
    older: BTreeMap<usize, OwnedFd>,
    newer: BTreeMap<usize, OwnedFd>,
}

/// Under what another process finds the end of a link.
fn key_of_link(place: &Place<SocketAddr>, position: usize) -> String {
    format!("{} {position}", place.key())
}

impl Group {
    /// Sockets that nobody serves yet.
    pub fn new(bound: UdpBound, serves_http3: bool) -> Arc<Group> {
        let (busy, followed) = Default::default();
        Arc::new(Group { bound, serves_http3, busy, lanes: OnceLock::new(), followed, ends: Mutex::default() })
    }

    /// Takes the links to the process that the sockets were taken over from, which may still have connections of HTTP/3.
    pub fn follow(&self, place: &Place<SocketAddr>, inherited: &mut Inherited) {
        for position in 0..self.bound.len() {
            let passed = inherited.take(Kind::Link, &key_of_link(place, position)).pop();
            // Only this process has the end.
            if let Some(end) = passed.and_then(|passed| Arc::into_inner(passed.socket)) {
                self.ends().older.insert(position, end);
                self.followed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The position of a socket with a link to the process that the others were taken over from, for one that is new beside those.
    pub fn stand_in(&self, position: usize) -> Option<usize> {
        let followed = self.followed.load(Ordering::Relaxed);
        position.checked_rem(followed).filter(|_| position >= followed)
    }

    /// The sockets, for another process; those of HTTP/3 with links to the tasks on them here. Those learn of theirs by [`Reins::look`].
    ///
    /// # Errors
    /// The kernel makes no link.
    pub fn pass(&self, place: &Place<SocketAddr>) -> io::Result<Vec<Passed>> {
        let mut passed = self.bound.pass(&place.key());
        // By the number of sockets there, datagrams may come to others than before.
        if self.serves_http3 {
            self.share_lanes();
        }
        for position in (0..self.bound.len()).filter(|_| self.serves_http3) {
            let (ours, theirs) = Link::pair()?;
            self.ends().newer.insert(position, ours);
            passed.push(Passed::new(Kind::Link, key_of_link(place, position), Arc::new(theirs)));
        }
        Ok(passed)
    }

    /// The links of a socket that its task has not taken yet: to the process before this one, and to the one after it.
    pub fn take_links(&self, position: usize) -> [Option<Link>; 2] {
        let mut ends = self.ends();
        let link = |end: Option<OwnedFd>| end.and_then(|end| Link::of(end).ok());
        [link(ends.older.remove(&position)), link(ends.newer.remove(&position))]
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the sockets ready to be served.
    pub fn prepare(&self) {
        if !self.serves_http3 {
            return;
        }
        if !self.bound.prepare_for_quic() {
            let effect = "workers pass each other what clients of HTTP/3 send from changed addresses";
            tracing::warn!(address = %self.bound.address(), effect, "the kernel does not steer datagrams to workers");
            self.share_lanes();
        }
        if (0..self.bound.len()).any(|position| self.stand_in(position).is_some()) {
            self.share_lanes();
        }
    }

    fn share_lanes(&self) {
        self.lanes.get_or_init(|| Arc::new(quic::Lanes::new(self.bound.len())));
    }

    /// How workers pass each other datagrams, if they have to.
    pub fn lanes(&self) -> Option<Arc<quic::Lanes>> {
        self.lanes.get().map(Arc::clone)
    }

    /// Counts what they passed each other since this was last done.
    pub fn count_passed(&self, place: &Place<SocketAddr>, worker: &Worker) {
        let passed = self.lanes.get().map_or(0, |lanes| lanes.take_passed());
        if passed > 0
            && let Some(listener) = worker.pin().quic_listener(place)
        {
            worker.report.datagrams_passed(&listener.name, passed);
        }
    }

    /// Says that a task needs its socket, until that is dropped.
    pub fn enter(self: &Arc<Group>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Whether any task needs its socket.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }
}

/// See [`Group::enter`].
#[derive(Debug)]
pub struct Busy(Arc<Group>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What tells a task whether its socket is wanted.
#[derive(Debug, Default)]
pub struct Reins {
    is_let_go: Cell<bool>,
    changed: Notify,
}

impl Reins {
    /// Says whether the socket is wanted.
    pub fn pull(&self, is_wanted: bool) {
        self.is_let_go.set(!is_wanted);
        self.changed.notify_one();
    }

    /// Has the task look for what is new, such as links.
    pub fn look(&self) {
        self.changed.notify_one();
    }

    /// Waits until something may have changed, and says whether the socket is let go.
    pub(crate) async fn changed(&self) -> bool {
        self.changed.notified().await;
        self.is_let_go.get()
    }
}
