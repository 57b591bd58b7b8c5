//! Who moves the most bytes: the heaviest client addresses, in bounded memory.
//!
//! Each worker keeps a table after Misra and Gries ("Finding repeated elements", 1982), weighted by bytes: when it is full, the median weight
//! is taken from every entry and those left without any go. At least half of the table is free after that, so the cost per event is constant,
//! and a client that moves more than 2/capacity of all bytes cannot be missed. What is shown of a client is what was seen since it entered
//! the table: never too much, for a newcomer too little. IPv6 clients count by /64, as one subscriber has that many addresses.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::count::mix;
use super::lock::lock;

/// Clients one worker keeps.
pub(super) const TABLE_CLIENTS: usize = 1024;

/// How often a worker's table is shown to readers.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Time constant of the smoothed rates, seconds.
const RATE_SECONDS: f64 = 10.0;

/// What is known of one client.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) requests: u64,
    pub(super) connections: u64,
    pub(super) tunnels: u64,
    /// Total tunnel duration, milliseconds.
    pub(super) tunnel_ms: u64,
    /// Bytes per second both ways, smoothed.
    pub(super) rate: f64,
}

/// A client address, IPv6 cut to its /64. IPv4 is kept in its IPv6-mapped form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ClientKey(u128);

impl ClientKey {
    fn new(address: IpAddr) -> ClientKey {
        match address.to_canonical() {
            IpAddr::V4(v4) => ClientKey(v4.to_ipv6_mapped().to_bits()),
            IpAddr::V6(v6) => ClientKey(v6.to_bits() >> 64 << 64),
        }
    }
}

impl std::fmt::Display for ClientKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v6 = Ipv6Addr::from_bits(self.0);
        match v6.to_ipv4_mapped() {
            Some(v4) => write!(f, "{v4}"),
            None => write!(f, "{v6}/64"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: ClientKey,
    weight: u64,
    traffic: Traffic,
    /// Bytes at the last publication.
    bytes_before: u64,
}

/// One worker's table.
#[derive(Debug)]
pub(super) struct ClientTable {
    entries: Vec<Entry>,
    /// Open addressing over `entries`: position plus one, 0 for empty; four times as long as the table.
    index: Box<[u16]>,
    weights: Vec<u64>,
    seed: u64,
    published_at: Instant,
}

impl ClientTable {
    pub(super) fn new() -> ClientTable {
        ClientTable {
            entries: Vec::with_capacity(TABLE_CLIENTS),
            index: vec![0; 4 * TABLE_CLIENTS].into(),
            weights: Vec::with_capacity(TABLE_CLIENTS),
            // Clients choose their addresses, so they must not be able to choose their places.
            seed: RandomState::new().hash_one(0_u8),
            published_at: Instant::now(),
        }
    }

    pub(super) fn request(&mut self, client: IpAddr) {
        self.with(client, 1, |traffic| traffic.requests += 1);
    }

    pub(super) fn connection(&mut self, client: IpAddr) {
        self.with(client, 1, |traffic| traffic.connections += 1);
    }

    pub(super) fn tunnel(&mut self, client: IpAddr, life: Duration) {
        self.with(client, 1, |traffic| {
            traffic.tunnels += 1;
            traffic.tunnel_ms += u64::try_from(life.as_millis()).unwrap_or(u64::MAX >> 16);
        });
    }

    pub(super) fn bytes(&mut self, client: IpAddr, received: u64, sent: u64) {
        self.with(client, received.saturating_add(sent), |traffic| {
            traffic.received += received;
            traffic.sent += sent;
        });
    }

    fn with(&mut self, client: IpAddr, weight: u64, update: impl FnOnce(&mut Traffic)) {
        let key = ClientKey::new(client);
        let (mut at, found) = self.find(key);
        if found.is_none() && self.entries.len() == TABLE_CLIENTS {
            self.thin_out();
            at = self.find(key).0;
        }
        let position = found.unwrap_or_else(|| {
            self.entries.push(Entry { key, weight: 0, traffic: Traffic::default(), bytes_before: 0 });
            self.index[at] = self.entries.len() as u16;
            self.entries.len() - 1
        });
        let entry = &mut self.entries[position];
        entry.weight = entry.weight.saturating_add(weight);
        update(&mut entry.traffic);
    }

    /// Where the key's place in the index is, and its position if it is there.
    fn find(&self, key: ClientKey) -> (usize, Option<usize>) {
        let mask = self.index.len() - 1;
        let mut at = mix(mix(self.seed ^ (key.0 >> 64) as u64) ^ key.0 as u64) as usize & mask;
        loop {
            match self.index[at] {
                0 => return (at, None),
                place if self.entries[usize::from(place) - 1].key == key => return (at, Some(usize::from(place) - 1)),
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn thin_out(&mut self) {
        self.weights.clear();
        self.weights.extend(self.entries.iter().map(|entry| entry.weight));
        let middle = self.weights.len() / 2;
        let median = *self.weights.select_nth_unstable(middle).1;
        self.entries.retain_mut(|entry| {
            entry.weight = entry.weight.saturating_sub(median);
            entry.weight > 0
        });
        self.index.fill(0);
        for position in 0..self.entries.len() {
            let (at, _) = self.find(self.entries[position].key);
            self.index[at] = position as u16 + 1;
        }
    }

    /// Shows the table to readers, once a second at most. Never waits: if a reader holds the lock, the next call does it.
    pub(super) fn publish(&mut self, published: &Published, now: Instant) {
        let elapsed = now.saturating_duration_since(self.published_at);
        if elapsed < PUBLISH_EVERY {
            return;
        }
        let Ok(mut shown) = published.0.try_lock() else { return };
        self.published_at = now;
        let seconds = elapsed.as_secs_f64();
        let share = 1.0 - (-seconds / RATE_SECONDS).exp();
        for entry in &mut self.entries {
            let bytes = entry.traffic.received + entry.traffic.sent;
            let rate = (bytes - entry.bytes_before) as f64 / seconds;
            entry.traffic.rate += (rate - entry.traffic.rate) * share;
            entry.bytes_before = bytes;
        }
        shown.clear();
        shown.extend(self.entries.iter().map(|entry| (entry.key, entry.traffic)));
    }
}

/// What a worker shows of its table.
#[derive(Debug, Default)]
pub(super) struct Published(Mutex<Vec<(ClientKey, Traffic)>>);

/// Order of a list of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Most bytes since the client entered the table.
    Bytes,
    /// Most bytes per second of late.
    Rate,
}

/// The heaviest clients of all workers, at most `count`.
pub(super) fn heaviest<'a>(
    tables: impl Iterator<Item = &'a Published>,
    order: Order,
    count: usize,
) -> Vec<(ClientKey, Traffic)> {
    let mut sums: HashMap<ClientKey, Traffic> = HashMap::new();
    for table in tables {
        for (key, traffic) in lock(&table.0).iter() {
            let sum = sums.entry(*key).or_default();
            sum.received += traffic.received;
            sum.sent += traffic.sent;
            sum.requests += traffic.requests;
            sum.connections += traffic.connections;
            sum.tunnels += traffic.tunnels;
            sum.tunnel_ms += traffic.tunnel_ms;
            sum.rate += traffic.rate;
        }
    }
    let mut all: Vec<(ClientKey, Traffic)> = sums.into_iter().collect();
    let bytes = |traffic: &Traffic| (traffic.received + traffic.sent, traffic.requests, traffic.connections);
    all.sort_unstable_by(|(a_key, a), (b_key, b)| {
        let by = match order {
            Order::Bytes => bytes(b).cmp(&bytes(a)),
            Order::Rate => b.rate.total_cmp(&a.rate),
        };
        by.then(a_key.cmp(b_key))
    });
    all.truncate(count);
    all
}

/// A list of clients as JSON.
pub(super) fn to_json(clients: &[(ClientKey, Traffic)]) -> String {
    let mut out = String::from("{\"clients\":[");
    for (i, (key, traffic)) in clients.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let Traffic { received, sent, requests, connections, tunnels, tunnel_ms, rate } = traffic;
        let tunnel_seconds = *tunnel_ms as f64 / 1000.0;
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "{comma}\n{{\"address\":\"{key}\",\"bytes_received\":{received},\"bytes_sent\":{sent},\"requests\":{requests},\
             \"connections\":{connections},\"tunnels\":{tunnels},\"tunnel_seconds\":{tunnel_seconds:.3},\"bytes_per_second\":{rate:.0}}}"
        );
    }
    out.push_str("\n]}\n");
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn v4(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    fn shown(table: &mut ClientTable) -> Published {
        let published = Published::default();
        let now = table.published_at + Duration::from_secs(1);
        table.publish(&published, now);
        published
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_heavy_ones_through_a_flood() {
        let mut table = ClientTable::new();
        let heavy: Vec<IpAddr> = (0..10).map(|n| v4(0x0a00_0000 + n)).collect();
        for n in 0..200_000_u32 {
            table.bytes(v4(0x2000_0000 + n), 40, 60);
            table.bytes(heavy[n as usize % 10], 1000, 2000);
            assert!(table.entries.len() <= TABLE_CLIENTS);
        }
        assert_eq!(table.entries.capacity(), TABLE_CLIENTS, "the table never grows");
        let top = heaviest([shown(&mut table)].iter(), Order::Bytes, 10);
        let mut addresses: Vec<String> = top.iter().map(|(key, _)| key.to_string()).collect();
        addresses.sort();
        let expected: Vec<String> = heavy.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, expected);
        for (key, traffic) in top {
            assert_eq!(
                (traffic.received, traffic.sent),
                (20_000_000, 40_000_000),
                "{key}: never thinned out, so exact"
            );
        }
    }

    #[test]
    fn thinning_out_with_equal_weights_ends() {
        let mut table = ClientTable::new();
        for n in 0..5_000 {
            table.request(v4(n));
        }
        assert!(table.entries.len() <= TABLE_CLIENTS);
        table.request(v4(4_999));
        let top = heaviest([shown(&mut table)].iter(), Order::Bytes, 1);
        assert_eq!(top[0].1.requests, 2);
    }

    #[test]
    fn addresses_are_shown_as_subscribers() {
        fn check(address: &str, expected: &str) {
            assert_eq!(ClientKey::new(address.parse().unwrap()).to_string(), expected);
        }
        check("192.0.2.1", "192.0.2.1");
        check("::ffff:192.0.2.1", "192.0.2.1");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64");
        check("::1", "::/64");
    }

    #[test]
    fn workers_are_added_up_and_rates_are_smoothed() {
        let (mut one, mut two) = (ClientTable::new(), ClientTable::new());
        one.bytes(v4(7), 1000, 0);
        one.connection(v4(7));
        two.bytes(v4(7), 0, 500);
        two.request(v4(7));
        two.bytes(v4(8), 9_999, 0);
        let tables = [shown(&mut one), shown(&mut two)];
        let top = heaviest(tables.iter(), Order::Rate, 5);
        assert_eq!(top[0].0.to_string(), "0.0.0.8");
        let traffic = top[1].1;
        assert_eq!((traffic.received, traffic.sent, traffic.requests, traffic.connections), (1000, 500, 1, 1));
        let share = 1.0 - (-0.1_f64).exp();
        assert!((traffic.rate - 1500.0 * share).abs() < 1e-6);
        let json: serde_json::Value = serde_json::from_str(&to_json(&top)).unwrap();
        assert_eq!(json["clients"][1]["bytes_sent"], 500);
    }
}
