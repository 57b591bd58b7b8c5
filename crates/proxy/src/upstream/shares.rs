//! How much of a group each client has in use, so that none takes all of it.
//!
//! A count-min sketch: two rows of atomic counters, each indexed by a keyed hash of the client. What a client has is the lesser of its two counters, so
//! it is never taken for less than it is: the bound is exact for who is over it. It is taken for more only where others share its places in both rows:
//! beside ten clients that have their whole share, that is one client in ten thousand. No lock, and nothing is allocated per client.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use net::client_key;

/// Counters in a row.
const PLACES: usize = 1024;

/// The requests and tunnels under way of all clients of a group.
#[derive(Debug, Default)]
pub struct Shares {
    /// Made at the first request, since many groups are made from requests and forgotten.
    counts: OnceLock<Box<[AtomicU32]>>,
}

/// Where a client is counted.
#[derive(Debug, Clone, Copy)]
pub struct Places(u16, u16);

impl Places {
    /// The places of a client, the same in each group. Keyed by the process, so that nobody can choose an address that falls on another client's places.
    pub fn of(client: IpAddr) -> Places {
        static KEY: OnceLock<std::hash::RandomState> = OnceLock::new();
        let hash = KEY.get_or_init(std::hash::RandomState::new).hash_one(client_key(client));
        let place = |bits: u64| (bits % PLACES as u64) as u16;
        Places(place(hash), place(hash >> 32))
    }
}

impl Shares {
    fn counters(&self, places: Places) -> [Option<&AtomicU32>; 2] {
        let counts = self.counts.get_or_init(|| (0..2 * PLACES).map(|_| AtomicU32::new(0)).collect());
        [counts.get(usize::from(places.0)), counts.get(PLACES + usize::from(places.1))]
    }

    /// Counts one more of a client; none if it has `most` already.
    pub(super) fn enter(&self, places: Places, most: usize) -> Option<Places> {
        let before = self.counters(places).map(|count| count.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed)));
        if before.iter().all(|count| *count as usize >= most) {
            self.leave(places);
            return None;
        }
        Some(places)
    }

    /// Counts one less.
    pub(super) fn leave(&self, places: Places) {
        self.counters(places).into_iter().flatten().for_each(|count| _ = count.fetch_sub(1, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn client(number: u32) -> Places {
        Places::of(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn a_client_gets_its_share_and_no_more() {
        let shares = Shares::default();
        let mut places: Vec<_> = (0..10).map(|_| shares.enter(client(1), 10).unwrap()).collect();
        assert!(shares.enter(client(1), 10).is_none());
        shares.leave(places.pop().unwrap());
        places.push(shares.enter(client(1), 10).unwrap());
        assert!(shares.enter(client(1), 10).is_none());
        places.into_iter().for_each(|place| shares.leave(place));
        let counts = shares.counts.get().unwrap();
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 0), "all are counted out");
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let shares = Shares::default();
        let address = |text: &str| Places::of(text.parse().unwrap());
        assert!(shares.enter(address("2001:db8::1"), 1).is_some());
        assert!(shares.enter(address("2001:db8::2"), 1).is_none());
        assert!(shares.enter(address("2001:db8:0:1::1"), 1).is_some());
        assert!(shares.enter(address("192.0.2.1"), 1).is_some());
        assert!(shares.enter(address("::ffff:192.0.2.1"), 1).is_none());
    }

    #[test]
    fn others_are_hardly_ever_taken_for_a_client_that_has_its_share() {
        let shares = Shares::default();
        for number in 0..10 {
            (0..100).for_each(|_| _ = shares.enter(client(number), 100));
        }
        let invalid = (1000..11_000).filter(|number| match shares.enter(client(*number), 100) {
            Some(places) => {
                shares.leave(places);
                false
            }
            None => true,
        });
        // Ten in ten thousand would be ten times what is expected.
        assert!(invalid.count() <= 10);
    }
}
