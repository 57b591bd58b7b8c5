//! Places of which there are few, for peers of whom little is known: nobody keeps them from others by taking them and staying silent.
//!
//! ```text
//! a peer has its share ──→ its own oldest gives way ┐
//! all are taken ─────────→ the oldest of the peer   ├→ the newcomer has its place
//!                          that has the most        ┘
//! ```
//!
//! A peer is an IPv4 address or the /64 of an IPv6 address; those of Unix sockets are one peer. Whoever has shown who it is, or is being served, belongs elsewhere: [`Seat::rise`]. Decides
//! who gives way, and knows nothing of what the places are for. Steps of one call: the logarithm of the number of peers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What counts as one client: an IPv4 address, or an IPv6 /64.
pub fn client_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) & !(u128::from(u64::MAX));
            IpAddr::V6(Ipv6Addr::from(bits))
        }
        v4 => v4,
    }
}

/// Who has places: none for those of Unix sockets.
type Peer = Option<IpAddr>;

/// The places of one kind, with what belongs to whoever has one.
#[derive(Debug)]
pub struct Places<T> {
    most: usize,
    share: usize,
    taken: usize,
    /// The number of the next newcomer: whoever has a lower one is older.
    next: u64,
    /// By age.
    peers: HashMap<Peer, BTreeMap<u64, T>>,
    /// By how many places they have, and among those that have as many by the age of their oldest. No two peers have the same oldest.
    by_weight: BTreeMap<(usize, Reverse<u64>), Peer>,
}

/// Which place somebody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    peer: Peer,
    number: u64,
}

impl<T> Places<T> {
    /// So many places, at least one, of which one peer has `share` at most.
    pub fn new(most: usize, share: usize) -> Places<T> {
        let most = most.max(1);
        let share = share.clamp(1, most);
        Places { most, share, taken: 0, next: 0, peers: HashMap::new(), by_weight: BTreeMap::new() }
    }

    /// So many places, of which one peer has three quarters at most.
    pub fn shared(most: usize) -> Places<T> {
        Places::new(most, most - most / 4)
    }

    /// Places that are taken.
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Whether none is taken.
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Whether this address has its share.
    pub fn has_share(&self, address: Option<IpAddr>) -> bool {
        self.peers.get(&address.map(client_key)).is_some_and(|own| own.len() >= self.share)
    }

    /// Takes a place. Whoever gives way for it has lost its own.
    pub fn enter(&mut self, address: Option<IpAddr>, what: T) -> (Ticket, Option<T>) {
        let peer = address.map(client_key);
        let gave_way = match self.has_share(address) {
            true => self.drop_oldest(peer),
            false if self.taken >= self.most => self.heaviest().and_then(|peer| self.drop_oldest(peer)),
            false => None,
        };
        (self.take(peer, what), gave_way)
    }

    /// Takes a place that is free, or one of a peer that has at least two more than this one. Of those who are known, none makes room for itself.
    ///
    /// # Errors
    /// There is none: `what` comes back.
    pub fn enter_fairly(&mut self, address: Option<IpAddr>, what: T) -> Result<(Ticket, Option<T>), T> {
        let peer = address.map(client_key);
        if self.has_share(address) {
            return Err(what);
        }
        if self.taken < self.most {
            return Ok((self.take(peer, what), None));
        }
        let own = self.peers.get(&peer).map_or(0, BTreeMap::len);
        match self.by_weight.last_key_value() {
            Some((&(count, _), &heaviest)) if count >= own + 2 => {
                let gave_way = self.drop_oldest(heaviest);
                Ok((self.take(peer, what), gave_way))
            }
            _ => Err(what),
        }
    }

    /// Takes a place if one is free and this peer has not its share: where nobody can give way.
    pub fn enter_if_free(&mut self, address: Option<IpAddr>, what: T) -> Option<Ticket> {
        let may = self.taken < self.most && !self.has_share(address);
        may.then(|| self.take(address.map(client_key), what))
    }

    /// Gives a place back, if it is not lost yet.
    pub fn leave(&mut self, ticket: Ticket) -> Option<T> {
        let own = self.peers.get_mut(&ticket.peer)?;
        let before = weight(own);
        let what = own.remove(&ticket.number)?;
        self.taken -= 1;
        self.weigh(ticket.peer, before);
        Some(what)
    }

    fn take(&mut self, peer: Peer, what: T) -> Ticket {
        let number = self.next;
        self.next += 1;
        let own = self.peers.entry(peer).or_default();
        let before = weight(own);
        own.insert(number, what);
        self.taken += 1;
        self.weigh(peer, before);
        Ticket { peer, number }
    }

    fn heaviest(&self) -> Option<Peer> {
        self.by_weight.last_key_value().map(|(_, peer)| *peer)
    }

    fn drop_oldest(&mut self, peer: Peer) -> Option<T> {
        let number = *self.peers.get(&peer)?.first_key_value()?.0;
        self.leave(Ticket { peer, number })
    }

    /// Notes what a peer has now, which weighed `before`.
    fn weigh(&mut self, peer: Peer, before: Option<(usize, Reverse<u64>)>) {
        before.into_iter().for_each(|before| _ = self.by_weight.remove(&before));
        match self.peers.get(&peer).and_then(weight) {
            Some(now) => _ = self.by_weight.insert(now, peer),
            None => _ = self.peers.remove(&peer),
        }
    }
}

fn weight<T>(own: &BTreeMap<u64, T>) -> Option<(usize, Reverse<u64>)> {
    own.first_key_value().map(|(oldest, _)| (own.len(), Reverse(*oldest)))
}

/// Places that connections take, on whatever thread they are.
#[derive(Debug)]
pub struct Room(Mutex<Places<Arc<Notify>>>);

/// The place of a connection in a room; given back when dropped.
#[derive(Debug)]
pub struct Seat {
    room: Arc<Room>,
    address: Option<IpAddr>,
    ticket: Mutex<Option<Ticket>>,
    gives_way: Arc<Notify>,
}

impl Room {
    /// A room with these places.
    pub fn new(places: Places<()>) -> Arc<Room> {
        Arc::new(Room(Mutex::new(Places::new(places.most, places.share))))
    }

    /// Connections in it.
    pub fn len(&self) -> usize {
        self.places().len()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a place for somebody of whom nothing is known.
    pub fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Seat {
        let seat = self.seat(address, Arc::default());
        seat.sit();
        seat
    }

    /// Takes a place for somebody who is known, if one is free or others have more than their part.
    pub fn enter_fairly(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Seat> {
        let seat = self.seat(address, Arc::default());
        let entered = self.places().enter_fairly(address, Arc::clone(&seat.gives_way));
        let (ticket, gave_way) = entered.ok()?;
        gave_way.iter().for_each(|other| other.notify_one());
        *seat.ticket() = Some(ticket);
        Some(seat)
    }

    fn seat(self: &Arc<Self>, address: Option<IpAddr>, gives_way: Arc<Notify>) -> Seat {
        Seat { room: Arc::clone(self), address, ticket: Mutex::default(), gives_way }
    }

    fn places(&self) -> MutexGuard<'_, Places<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until this one has to give way: its connection is to end.
    pub async fn gives_way(&self) {
        self.gives_way.notified().await;
    }

    /// Leaves the room, as long as [`Seat::sit`] is not called.
    pub fn rise(&self) {
        if let Some(ticket) = self.ticket().take() {
            self.room.places().leave(ticket);
        }
    }

    /// Takes a place again, as the newest.
    pub fn sit(&self) {
        let mut own = self.ticket();
        let mut places = self.room.places();
        own.take().into_iter().for_each(|ticket| _ = places.leave(ticket));
        let (ticket, gave_way) = places.enter(self.address, Arc::clone(&self.gives_way));
        gave_way.iter().for_each(|other| other.notify_one());
        *own = Some(ticket);
    }

    fn ticket(&self) -> MutexGuard<'_, Option<Ticket>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.rise();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_peer_that_has_its_share_loses_its_own_oldest() {
        let mut places = Places::new(4, 3);
        let first: Vec<_> = (0..3).map(|what| places.enter(address("192.0.2.1"), what)).collect();
        assert!(first.iter().all(|(_, gave_way)| gave_way.is_none()));
        assert!(places.has_share(address("::ffff:192.0.2.1")), "one address, however it is written");
        let (_, gave_way) = places.enter(address("192.0.2.1"), 3);
        assert_eq!((gave_way, places.len()), (Some(0), 3));
        assert_eq!(places.leave(first[0].0), None, "lost already");
        assert_eq!(places.enter(address("192.0.2.2"), 4).1, None, "others have room");
    }

    #[test]
    fn the_oldest_of_whoever_has_the_most_makes_room_and_among_equals_the_oldest_of_all() {
        let mut places = Places::new(4, 3);
        for (peer, what) in [("2001:db8::1", 0), ("192.0.2.9", 1), ("2001:db8::ffff", 2), ("192.0.2.1", 3)] {
            assert_eq!(places.enter(address(peer), what).1, None);
        }
        assert_eq!(places.enter(None, 4).1, Some(0), "the /64 is one peer, which has two");
        for (peer, gave_way) in [("192.0.2.3", 1), ("192.0.2.4", 2), ("192.0.2.5", 3), ("192.0.2.6", 4)] {
            assert_eq!(places.enter(address(peer), 9).1, Some(gave_way), "{peer}");
        }
        assert_eq!(places.len(), 4);
    }

    #[test]
    fn among_those_who_are_known_nobody_makes_room_for_one_who_has_as_much() {
        let mut places = Places::new(3, 3);
        for what in 0..3 {
            assert!(places.enter_fairly(address("192.0.2.1"), what).is_ok());
        }
        assert_eq!(places.enter_fairly(address("192.0.2.1"), 3), Err(3));
        let (_, gave_way) = places.enter_fairly(address("192.0.2.2"), 4).unwrap();
        assert_eq!(gave_way, Some(0));
        assert_eq!(
            places.enter_fairly(address("192.0.2.2"), 5),
            Err(5),
            "two and one are as fair as three places can be"
        );
    }

    #[test]
    fn what_is_left_is_forgotten() {
        let mut places = Places::shared(8);
        let tickets: Vec<_> = (0..6).map(|what| places.enter(address("192.0.2.1"), what).0).collect();
        for (what, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(places.leave(ticket), Some(what));
        }
        assert!(places.is_empty() && places.peers.is_empty() && places.by_weight.is_empty());
    }

    #[tokio::test]
    async fn whoever_gives_way_hears_of_it_and_whoever_has_risen_does_not() {
        let room = Room::new(Places::new(2, 2));
        let (served, silent) = (room.enter(None), room.enter(None));
        served.rise();
        let newcomers = [room.enter(None), room.enter(None)];
        silent.gives_way().await;
        assert_eq!(room.len(), 2);
        served.sit();
        newcomers[0].gives_way().await;
        drop((served, silent, newcomers));
        assert!(room.is_empty());
    }
}
