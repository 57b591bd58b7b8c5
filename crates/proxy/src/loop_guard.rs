//! Tunnels of ours that lead into listeners of ours: how often in a row, so that a forwarding loop ends.
//!
//! One listener may lead to another on purpose. A loop of several, by names or headers that only the moment shows, would take one connection after
//! the other until all are taken. Owns what is shared of it by all workers; costs tunnels nothing that lead to other ports than ours.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use net::Stream;
use net::transparent::canonical;

use crate::passport::Rejected;

/// Listeners of ours that a client's bytes may pass one behind the other.
const MAX_HOPS: u32 = 8;

/// Both ends of a connection: who opened it, and where it leads.
type Ends = (SocketAddr, SocketAddr);

/// Connections of ours that may lead into listeners of ours.
#[derive(Debug)]
pub struct Hops {
    /// One bit for each TCP port that is listened on.
    ports: Box<[AtomicU64]>,
    /// How many listeners of ours the bytes have passed that go along each of these.
    passed: Mutex<HashMap<Ends, u32>>,
    /// Their number, to be looked at without the lock.
    count: AtomicUsize,
}

/// A connection on the list, until this is dropped.
#[derive(Debug)]
pub(super) struct Hop {
    hops: Arc<Hops>,
    ends: Ends,
}

impl Default for Hops {
    fn default() -> Hops {
        Hops {
            ports: (0..1024).map(|_| AtomicU64::new(0)).collect(),
            passed: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }
}

impl Hops {
    /// Notes a port that is listened on.
    pub fn listens(&self, port: u16) {
        if let Some(word) = self.ports.get(usize::from(port / 64)) {
            word.fetch_or(1 << (port % 64), Ordering::Relaxed);
        }
    }

    fn is_ours(&self, port: u16) -> bool {
        let word = self.ports.get(usize::from(port / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (port % 64)) != 0)
    }

    /// Counts a hop: a tunnel whose client came on `client` has connected on `upstream`, to `port`. None if that cannot lead to us.
    ///
    /// # Errors
    /// It has been to too many listeners of ours already.
    pub(super) fn follow(
        self: &Arc<Hops>,
        client: &Stream,
        upstream: &Stream,
        port: Option<u16>,
    ) -> Result<Option<Hop>, Rejected> {
        if !port.is_some_and(|port| self.is_ours(port)) {
            return Ok(None);
        }
        let came = Option::zip(client.peer(), client.local()).filter(|_| self.count.load(Ordering::Relaxed) > 0);
        let Some(ends) = Option::zip(upstream.local(), upstream.peer()) else { return Ok(None) };
        self.enter(came, ends)
    }

    fn enter(self: &Arc<Hops>, came: Option<Ends>, ends: Ends) -> Result<Option<Hop>, Rejected> {
        let same = |(from, to): Ends| (canonical(from), canonical(to));
        let ends = same(ends);
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let hops = came.and_then(|came| passed.get(&same(came)).copied()).unwrap_or(0) + 1;
        if hops > MAX_HOPS {
            return Err(Rejected::Loop);
        }
        passed.insert(ends, hops);
        self.count.store(passed.len(), Ordering::Relaxed);
        Ok(Some(Hop { hops: Arc::clone(self), ends }))
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        let mut passed = self.hops.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.remove(&self.ends);
        self.hops.count.store(passed.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_way_through_our_own_listeners_has_an_end() {
        let hops = Arc::new(Hops::default());
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut way = vec![hops.enter(None, (at(40_000), at(1))).unwrap().unwrap()];
        for number in 1..MAX_HOPS as u16 {
            // Where IPv6 sockets carry IPv4, the same address has another form.
            let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), 39_999 + number);
            let hop = hops.enter(Some((mapped, at(number))), (at(40_000 + number), at(number + 1)));
            way.push(hop.unwrap().unwrap());
        }
        let last = MAX_HOPS as u16 - 1;
        let came = Some((at(40_000 + last), at(last + 1)));
        assert_eq!(hops.enter(came, (at(50_000), at(1))).unwrap_err(), Rejected::Loop);
        // Others go on, and what has ended is not remembered.
        assert!(hops.enter(None, (at(50_000), at(1))).is_ok());
        way.clear();
        assert_eq!((hops.passed.lock().unwrap().len(), hops.count.load(Ordering::Relaxed)), (0, 0));
        assert!(hops.enter(came, (at(50_000), at(1))).is_ok());
    }

    #[test]
    fn only_ports_that_are_listened_on_count() {
        let hops = Hops::default();
        [0, 63, 64, 65_535].into_iter().for_each(|port| hops.listens(port));
        let ours: Vec<u16> = (0..=u16::MAX).filter(|port| hops.is_ours(*port)).collect();
        assert_eq!(ours, [0, 63, 64, 65_535]);
    }
}
