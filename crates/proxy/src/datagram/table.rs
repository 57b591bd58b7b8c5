//! The flows of one UDP listener on one worker: found by their addresses, ordered by how long they have been idle.
//!
//! Owns order and bounds, no sockets. Two orders are kept, for flows that have been answered and for those that have not: a flood of made-up clients is
//! never answered, so it pushes out itself and not the flows that live. Each client's flows have an order of their own for its bound.
//!
//! Every step takes constant time. Nothing is ever scanned, so a flow ends when it has been idle for its time, not at some later sweep.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use net::udp::LocalAddress;

/// What makes datagrams one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The client, where each datagram names it; none where only the first of a flow does.
    pub(super) client: Option<SocketAddr>,
    /// The socket's peer.
    pub(super) balancer: SocketAddr,
    /// The address of ours it was sent to: who asked two addresses awaits two responses, each from the one that was asked.
    pub(super) local: Option<LocalAddress>,
    /// Where the client wanted to go, if that decides where it goes.
    pub(super) destination: Option<SocketAddr>,
}

/// Names a flow for as long as it lives; never given out twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowId {
    place: u32,
    turn: u32,
}

impl FlowId {
    /// As one number, for the kernel to keep.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.turn) << 32 | u64::from(self.place)
    }

    /// Reads what `to_bits` gave.
    pub(super) fn from_bits(bits: u64) -> FlowId {
        // Both halves fit.
        FlowId { place: bits as u32, turn: (bits >> 32) as u32 }
    }
}

/// No flow.
const NONE: u32 = u32::MAX;

/// Neighbours in an order, by place.
#[derive(Debug, Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

const ALONE: Links = Links { before: NONE, after: NONE };

/// An order: the longest idle first.
#[derive(Debug, Clone, Copy)]
struct Order {
    first: u32,
    last: u32,
}

const EMPTY: Order = Order { first: NONE, last: NONE };

/// Which of a flow's links.
#[derive(Debug, Clone, Copy)]
enum Rank {
    /// Among all flows that are (not) answered.
    Idle,
    /// Among those of its client.
    Client,
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    client: IpAddr,
    moved: Duration,
    answered: bool,
    idle: Links,
    kin: Links,
    flow: T,
}

#[derive(Debug)]
struct Place<T> {
    turn: u32,
    entry: Option<Entry<T>>,
}

#[derive(Debug)]
struct Client {
    order: Order,
    flows: usize,
}

/// Flows and their orders. Times are those of one clock that never goes back.
#[derive(Debug)]
pub(super) struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    clients: HashMap<IpAddr, Client>,
    unanswered: Order,
    answered: Order,
    /// The last one that was found, since datagrams come in bursts.
    recent: Option<(Key, u32)>,
}

impl<T> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table {
            places: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            clients: HashMap::new(),
            unanswered: EMPTY,
            answered: EMPTY,
            recent: None,
        }
    }

    /// Number of flows.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The flow of these addresses.
    pub(super) fn find(&mut self, key: &Key) -> Option<FlowId> {
        let place = match self.recent {
            Some((recent, place)) if recent == *key => place,
            _ => *self.by_key.get(key)?,
        };
        self.recent = Some((*key, place));
        let turn = self.places.get(place as usize)?.turn;
        Some(FlowId { place, turn })
    }

    /// A flow that lives.
    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut T> {
        Some(&mut self.entry_mut(id)?.flow)
    }

    /// A flow that lives.
    pub(super) fn get(&self, id: FlowId) -> Option<&T> {
        let place = self.places.get(id.place as usize).filter(|place| place.turn == id.turn)?;
        place.entry.as_ref().map(|entry| &entry.flow)
    }

    fn entry_mut(&mut self, id: FlowId) -> Option<&mut Entry<T>> {
        self.places.get_mut(id.place as usize).filter(|place| place.turn == id.turn)?.entry.as_mut()
    }

    /// Which flow must go before one more of `client` fits: the longest idle of this client if it has its number, else, if the table is
    /// full, the longest idle that was never answered, else the longest idle.
    pub(super) fn in_the_way(&self, client: IpAddr, most: usize, most_per_client: usize) -> Option<FlowId> {
        let of_client = self.clients.get(&client).filter(|client| client.flows >= most_per_client);
        let place = match of_client {
            Some(client) => client.order.first,
            None if self.len() < most => return None,
            None if self.unanswered.first != NONE => self.unanswered.first,
            None => self.answered.first,
        };
        self.id_at(place)
    }

    fn id_at(&self, place: u32) -> Option<FlowId> {
        self.places.get(place as usize).map(|found| FlowId { place, turn: found.turn })
    }

    /// The flow that has been idle longest, and since when.
    pub(super) fn longest_idle(&self) -> Option<(FlowId, Duration)> {
        let moved = |order: Order| {
            let entry = self.places.get(order.first as usize)?.entry.as_ref()?;
            Some((self.id_at(order.first)?, entry.moved))
        };
        match (moved(self.unanswered), moved(self.answered)) {
            (Some(one), Some(other)) => Some(if other.1 < one.1 { other } else { one }),
            (one, other) => one.or(other),
        }
    }

    /// Puts in a flow; none if these addresses have one or the numbers have run out.
    pub(super) fn insert(&mut self, key: Key, client: IpAddr, now: Duration, flow: T) -> Option<FlowId> {
        if self.by_key.contains_key(&key) {
            return None;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u32::try_from(self.places.len()).ok().filter(|place| *place != NONE)?;
                self.places.push(Place { turn: 0, entry: None });
                place
            }
        };
        let found = self.places.get_mut(place as usize)?;
        found.entry = Some(Entry { key, client, moved: now, answered: false, idle: ALONE, kin: ALONE, flow });
        let id = FlowId { place, turn: found.turn };
        self.by_key.insert(key, place);
        self.append(place, Rank::Idle);
        self.clients.entry(client).or_insert(Client { order: EMPTY, flows: 0 }).flows += 1;
        self.append(place, Rank::Client);
        Some(id)
    }

    /// Something moved on a flow; `answered` if it came from the upstream.
    pub(super) fn moved(&mut self, id: FlowId, now: Duration, answered: bool) {
        let Some(entry) = self.entry_mut(id) else { return };
        entry.moved = now;
        let joins = answered && !entry.answered;
        let is_last = entry.idle.after == NONE && entry.kin.after == NONE;
        if is_last && !joins {
            return;
        }
        self.take_out(id.place, Rank::Idle);
        self.take_out(id.place, Rank::Client);
        if let Some(entry) = self.entry_mut(id) {
            entry.answered |= answered;
        }
        self.append(id.place, Rank::Idle);
        self.append(id.place, Rank::Client);
    }

    /// Takes a flow out.
    pub(super) fn remove(&mut self, id: FlowId) -> Option<T> {
        self.entry_mut(id)?;
        self.take_out(id.place, Rank::Idle);
        self.take_out(id.place, Rank::Client);
        let place = self.places.get_mut(id.place as usize)?;
        place.turn = place.turn.wrapping_add(1);
        let entry = place.entry.take()?;
        self.free.push(id.place);
        self.by_key.remove(&entry.key);
        self.recent = None;
        if let Some(client) = self.clients.get_mut(&entry.client) {
            client.flows -= 1;
            if client.flows == 0 {
                self.clients.remove(&entry.client);
            }
        }
        Some(entry.flow)
    }

    fn links(&mut self, place: u32, rank: Rank) -> Option<&mut Links> {
        let entry = self.places.get_mut(place as usize)?.entry.as_mut()?;
        Some(match rank {
            Rank::Idle => &mut entry.idle,
            Rank::Client => &mut entry.kin,
        })
    }

    /// The order that a flow belongs into.
    fn order(&mut self, place: u32, rank: Rank) -> Option<&mut Order> {
        let entry = self.places.get(place as usize)?.entry.as_ref()?;
        match rank {
            Rank::Idle if entry.answered => Some(&mut self.answered),
            Rank::Idle => Some(&mut self.unanswered),
            Rank::Client => self.clients.get_mut(&entry.client).map(|client| &mut client.order),
        }
    }

    /// Puts a flow at the end of its order: it is the least idle.
    fn append(&mut self, place: u32, rank: Rank) {
        let Some(order) = self.order(place, rank) else { return };
        let before = std::mem::replace(&mut order.last, place);
        if before == NONE {
            order.first = place;
        }
        if let Some(links) = self.links(before, rank) {
            links.after = place;
        }
        if let Some(links) = self.links(place, rank) {
            *links = Links { before, after: NONE };
        }
    }

    fn take_out(&mut self, place: u32, rank: Rank) {
        let Some(&mut Links { before, after }) = self.links(place, rank) else { return };
        match self.links(before, rank) {
            Some(links) => links.after = after,
            None => _ = self.order(place, rank).map(|order| order.first = after),
        }
        match self.links(after, rank) {
            Some(links) => links.before = before,
            None => _ = self.order(place, rank).map(|order| order.last = before),
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
