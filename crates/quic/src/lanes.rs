//! Datagrams that came to the socket of another hub than that of their connection, where the kernel does not steer them by connection id, or steers them by
//! the number of sockets of another process.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::BytesMut;
use net::Linked;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Where a datagram came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whence {
    /// The network.
    Socket,
    /// The process that this one took over from.
    Older,
    /// The process that takes over from this one.
    Newer,
}

/// A datagram on its way to its hub.
pub(crate) struct Strayed {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    /// As in the header of IP.
    pub(crate) ecn: u8,
    pub(crate) bytes: BytesMut,
    pub(crate) whence: Whence,
}

impl Strayed {
    /// A datagram in a form that can wait.
    pub(crate) fn of(Linked { from, to, ecn, bytes }: Linked<'_>, whence: Whence) -> Strayed {
        Strayed { from, to, ecn, bytes: BytesMut::from(bytes), whence }
    }

    /// The same as it is passed.
    pub(crate) fn linked(&self) -> Linked<'_> {
        Linked { from: self.from, to: self.to, ecn: self.ecn, bytes: &self.bytes }
    }
}

/// The hubs on the sockets of one address, each on a thread of its own, as they know each other.
pub struct Lanes {
    hubs: Box<[Mutex<Option<Sender<Strayed>>>]>,
    passed: AtomicU64,
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lanes({})", self.hubs.len())
    }
}

impl Lanes {
    /// Datagrams that may wait for one hub. Further ones are lost, as on any hop.
    pub(crate) const MOST_WAITING: usize = 256;

    /// For so many sockets.
    pub fn new(count: usize) -> Lanes {
        Lanes { hubs: (0..count).map(|_| Mutex::default()).collect(), passed: AtomicU64::new(0) }
    }

    /// Datagrams that were passed on since this was last asked.
    pub fn take_passed(&self) -> u64 {
        self.passed.swap(0, Ordering::Relaxed)
    }

    /// What comes for the hub of a lane from now on, which takes the place of one before it.
    pub(crate) fn open(&self, lane: usize) -> Option<Receiver<Strayed>> {
        let (sender, receiver) = channel(Lanes::MOST_WAITING);
        *self.hubs.get(lane)?.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Some(receiver)
    }

    /// Passes a datagram to the hub of a lane, if there is one that keeps up.
    pub(crate) fn pass(&self, lane: usize, strayed: Strayed) {
        let Some(hub) = self.hubs.get(lane) else { return };
        let hub = hub.lock().unwrap_or_else(PoisonError::into_inner);
        if hub.as_ref().is_some_and(|hub| hub.try_send(strayed).is_ok()) {
            self.passed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
