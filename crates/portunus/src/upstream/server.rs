//! One server of a group: its address, its load, and whether it is left out at the moment.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;

use crate::config::{Ejection, ServerAddress, ServerConfig};

/// Identifies a server for the life of the process.
pub type ServerId = u64;

/// Identifies connections that serve alike.
pub type PoolId = u64;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A server, shared by all workers.
#[derive(Debug)]
pub struct Server {
    /// Unique for the life of the process.
    pub id: ServerId,
    /// As configured.
    pub config: ServerConfig,
    /// Address for logs and for Host, as configured.
    pub name: Box<str>,
    /// What a name last resolved to; empty before the first answer.
    resolved: ArcSwap<Vec<SocketAddr>>,
    pool: AtomicU64,
    load: AtomicUsize,
    healthy: AtomicBool,
    failures: AtomicU32,
    ejections: AtomicU32,
    ejected_until_ms: AtomicU64,
}

/// Milliseconds of the monotonic clock since the first call.
fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Server {
    /// A server that nothing is known of yet: taken as healthy.
    pub fn new(config: &ServerConfig) -> Server {
        let name = match &config.address {
            ServerAddress::Ip(address) => address.to_string(),
            ServerAddress::Name(name, port) => format!("{name}:{port}"),
            ServerAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        Server {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            pool: AtomicU64::new(NEXT_ID.fetch_add(1, Ordering::Relaxed)),
            config: config.clone(),
            name: name.into(),
            resolved: ArcSwap::default(),
            load: AtomicUsize::new(0),
            healthy: AtomicBool::new(true),
            failures: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until_ms: AtomicU64::new(0),
        }
    }

    /// Whether requests should go there.
    pub fn is_available(&self) -> bool {
        self.is_available_at(now_ms())
    }

    fn is_available_at(&self, now_ms: u64) -> bool {
        self.is_healthy() && now_ms >= self.ejected_until_ms.load(Ordering::Relaxed)
    }

    /// What the active checks say.
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Sets what the active checks say; true if that is new.
    pub fn set_healthy(&self, healthy: bool) -> bool {
        self.healthy.swap(healthy, Ordering::Relaxed) != healthy
    }

    /// Requests it is working on.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Counts a request in until the guard is dropped.
    pub fn busy(self: &Arc<Server>) -> Busy {
        self.load.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// It answered.
    pub fn succeeded(&self) {
        // Written only when it changes something: this line is shared by all cores.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.ejections.load(Ordering::Relaxed) != 0 {
            self.forgive_at(now_ms());
        }
    }

    /// The next ejection is a first one again, unless what succeeded was under way when this one began.
    fn forgive_at(&self, now_ms: u64) {
        if now_ms >= self.ejected_until_ms.load(Ordering::Relaxed) {
            self.ejections.store(0, Ordering::Relaxed);
        }
    }

    /// It did not answer. True if that ejects it now.
    pub fn failed(&self, rule: Ejection) -> bool {
        self.failed_at(rule, now_ms())
    }

    fn failed_at(&self, rule: Ejection, now_ms: u64) -> bool {
        if now_ms < self.ejected_until_ms.load(Ordering::Relaxed) {
            return false;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if rule.failures == 0 || failures < rule.failures {
            return false;
        }
        self.failures.store(0, Ordering::Relaxed);
        let times = self.ejections.fetch_add(1, Ordering::Relaxed).min(9);
        let period = rule.period.saturating_mul(1 << times.min(4)).min(rule.period.saturating_mul(10));
        let until = now_ms.saturating_add(u64::try_from(period.as_millis()).unwrap_or(u64::MAX));
        self.ejected_until_ms.store(until, Ordering::Relaxed);
        true
    }

    /// Under what its connections are kept for further requests. Unique for the life of the process, and another one after an address of
    /// its name has gone, so that connections to where it no longer is are not used again.
    pub fn pool(&self) -> PoolId {
        self.pool.load(Ordering::Relaxed)
    }

    /// Ends an ejection: it was seen to work.
    pub fn restore(&self) {
        self.ejected_until_ms.store(0, Ordering::Relaxed);
        self.succeeded();
    }

    /// Puts new addresses of a name in force.
    pub fn set_resolved(&self, addresses: Vec<SocketAddr>) {
        if self.resolved.load().iter().any(|old| !addresses.contains(old)) {
            self.pool.store(NEXT_ID.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.resolved.store(Arc::new(addresses));
    }

    /// What the name last resolved to.
    pub fn resolved(&self) -> Arc<Vec<SocketAddr>> {
        self.resolved.load_full()
    }

    /// Whether it is a name that has no address yet.
    pub fn is_unresolved(&self) -> bool {
        matches!(self.config.address, ServerAddress::Name(..)) && self.resolved.load().is_empty()
    }
}

/// One request being worked on.
#[derive(Debug)]
pub struct Busy(Arc<Server>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn server() -> Server {
        Server::new(&ServerConfig { address: ServerAddress::Unix("/x".into()), weight: 1 })
    }

    #[test]
    fn failures_in_a_row_eject_and_a_success_forgives() {
        let rule = Ejection { failures: 2, period: Duration::from_secs(3600) };
        let server = server();
        assert!(!server.failed(rule));
        server.succeeded();
        assert!(!server.failed(rule) && server.is_available());
        assert!(server.failed(rule) && !server.is_available());
        server.succeeded();
        assert!(!server.is_available(), "ejected for its time, whatever was under way");
    }

    /// How long it is left out now, found by looking at each tenth of the period.
    fn left_out(server: &Server, period_ms: u64, now_ms: u64) -> u64 {
        (0..).map(|tenths| tenths * period_ms / 10).find(|after| server.is_available_at(now_ms + after)).unwrap()
    }

    #[test]
    fn each_ejection_in_a_row_is_twice_as_long_up_to_ten_times() {
        let rule = Ejection { failures: 3, period: Duration::from_millis(1_000) };
        let (server, mut now_ms) = (server(), 1_000_000);
        for expected in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            assert!((0..3).map(|_| server.failed_at(rule, now_ms)).eq([false, false, true]));
            assert!(!server.failed_at(rule, now_ms), "what was under way says nothing new");
            server.forgive_at(now_ms);
            assert_eq!(left_out(&server, 1_000, now_ms), expected);
            now_ms += expected;
        }
        // It works again, for long; only then does it fail once more.
        server.forgive_at(now_ms);
        assert!((0..3).map(|_| server.failed_at(rule, now_ms)).eq([false, false, true]));
        assert_eq!(left_out(&server, 1_000, now_ms), 1_000, "a first one again");
        server.restore();
        assert_eq!(left_out(&server, 1_000, now_ms), 0);
        assert!((0..3).map(|_| server.failed_at(rule, now_ms)).eq([false, false, true]));
        assert_eq!(left_out(&server, 1_000, now_ms), 1_000, "it was seen to work, which forgives, too");
    }

    #[test]
    fn a_success_forgives_earlier_ejections_also_when_no_failure_came_before_it() {
        let rule = Ejection { failures: 1, period: Duration::ZERO };
        let server = server();
        (0..5).for_each(|_| assert!(server.failed(rule)));
        server.succeeded();
        let rule = Ejection { failures: 1, period: Duration::from_secs(1) };
        assert!(server.failed_at(rule, 1_000_000));
        assert_eq!(left_out(&server, 1_000, 1_000_000), 1_000);
    }

    #[test]
    fn ejection_can_be_switched_off() {
        let server = server();
        for _ in 0..100 {
            assert!(!server.failed(Ejection { failures: 0, period: Duration::from_secs(1) }));
        }
        assert!(server.is_available());
    }
}
