//! One server of a group: its address, its load, and whether it is left out at the moment.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use config::{Ejection, ServerAddress, ServerConfig};

use super::sticky::Sticky;

/// Identifies a server for the life of the process.
pub type ServerId = u64;

/// Identifies connections that serve alike.
pub type PoolId = u64;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A number that no other server, name or pool of the process has.
pub(super) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Whether a server should be given requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Yes.
    Up,
    /// Its ejection is over, but it could not be connected to when that was last tried: one try at a time.
    OnTrial,
    /// Left out for a while, since requests to it failed.
    Ejected,
    /// It fails its active checks.
    Unhealthy,
    /// An operator keeps requests from it.
    Drained,
}

/// What an operator says of a server, over what its configuration says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operated {
    /// It gets no new requests.
    pub drained: bool,
    /// The same, by the word of those who operate several machines: neither takes back what the other says.
    pub drained_by_fleet: bool,
    /// Its share of the load; none for that of the configuration.
    pub weight: Option<u32>,
}

/// How a server fares, for another process to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// What the active checks say.
    pub healthy: bool,
    /// The last try to connect ran into its deadline.
    pub silent: bool,
    /// Failures in a row.
    pub failures: u32,
    /// Ejections in a row.
    pub ejections: u32,
    /// How long it is still ejected, milliseconds.
    pub ejected_ms: u64,
}

/// A server, shared by all workers.
#[derive(Debug)]
pub struct Server {
    /// Unique for the life of the process.
    pub id: ServerId,
    /// As configured.
    pub config: ServerConfig,
    /// Its place among the configured servers of its group.
    pub origin: usize,
    /// Where it is: never a name.
    pub address: ServerAddress,
    /// Its address, for logs and metrics.
    pub name: Box<str>,
    /// What stands for it in the cookies of sticky sessions.
    pub(super) token: u64,
    /// What it is called in Host, as configured.
    pub authority: Box<str>,
    /// The last try to connect ran into its deadline: to try again costs somebody that time.
    is_silent: AtomicBool,
    /// Somebody tries whether it can be connected to again.
    is_on_trial: AtomicBool,
    /// It is no member of its group any more: its connections end with what is under way on them.
    has_left: AtomicBool,
    /// It agreed on HTTP/1.1 when it was last asked which version it speaks.
    speaks_http1: AtomicBool,
    load: AtomicUsize,
    healthy: AtomicBool,
    failures: AtomicU32,
    ejections: AtomicU32,
    ejected_until_ms: AtomicU64,
    /// When it came back, on the clock of ejections; 0: it was there from the beginning.
    back_since_ms: AtomicU64,
    /// The shares of all requests that it was offered during slow starts.
    offered: AtomicU32,
    /// When its last failure of TLS was reported, on the clock of ejections; 0: never.
    complained_ms: AtomicU64,
    /// By whom it is drained: [`OPERATOR`], [`FLEET`].
    drained: AtomicU8,
    /// The weight that an operator gave it; 0 for none.
    weight: AtomicU32,
}

/// An operator of this machine.
const OPERATOR: u8 = 1;

/// Those of several machines.
const FLEET: u8 = 2;

/// The share of a server that takes all that is its own: a power of two, so that a count of shares may overflow.
const WHOLE_SHARE: u32 = 1024;

/// The share that a server takes at the beginning of its slow start.
const LEAST_SHARE: u32 = 103;

/// Time between two reports of failures of TLS with one server.
const COMPLAINT_MS: u64 = 60_000;

/// Milliseconds of the monotonic clock since the first call.
fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A link-local address as others may be shown it: the interface means something on this machine alone (RFC 6874 §1).
fn without_interface(address: &ServerAddress) -> Option<String> {
    match address {
        ServerAddress::Ip(SocketAddr::V6(address)) => Some(format!("[{}]:{}", address.ip(), address.port())),
        _ => None,
    }
}

impl Server {
    /// A server that nothing is known of yet: taken as healthy.
    pub fn new(config: &ServerConfig, origin: usize) -> Server {
        Server::with(config, origin, config.address.clone(), None)
    }

    /// One of the servers that a name leads to. `authority`: what it is called, where that is not the name.
    pub fn at(config: &ServerConfig, origin: usize, address: SocketAddr, authority: Option<&str>) -> Server {
        Server::with(config, origin, ServerAddress::Ip(address), authority)
    }

    fn with(config: &ServerConfig, origin: usize, address: ServerAddress, authority: Option<&str>) -> Server {
        let text = |address: &ServerAddress| match address {
            ServerAddress::Ip(address) => address.to_string(),
            ServerAddress::Name(name, port) => format!("{name}:{port}"),
            ServerAddress::Service(name) => name.clone(),
            ServerAddress::Listed(listed) => listed.service.clone(),
            ServerAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        Server {
            id: next_id(),
            config: config.clone(),
            origin,
            token: Sticky::token(&text(&address)),
            name: text(&address).into(),
            authority: authority.map_or_else(
                || without_interface(&config.address).unwrap_or_else(|| text(&config.address)).into(),
                Box::from,
            ),
            address,
            has_left: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            is_on_trial: AtomicBool::new(false),
            speaks_http1: AtomicBool::new(false),
            load: AtomicUsize::new(0),
            healthy: AtomicBool::new(true),
            failures: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until_ms: AtomicU64::new(0),
            back_since_ms: AtomicU64::new(0),
            offered: AtomicU32::new(0),
            complained_ms: AtomicU64::new(0),
            drained: AtomicU8::new(0),
            weight: AtomicU32::new(0),
        }
    }

    /// What an operator says of it.
    pub fn operated(&self) -> Operated {
        let weight = self.weight.load(Ordering::Relaxed);
        let drained = self.drained.load(Ordering::Relaxed);
        Operated {
            drained: drained & OPERATOR != 0,
            drained_by_fleet: drained & FLEET != 0,
            weight: (weight > 0).then_some(weight),
        }
    }

    /// Sets what an operator says of it. A weight counts from the next schedule on.
    pub(super) fn set_operated(&self, operated: Operated) {
        let by = |is_drained: bool, by: u8| if is_drained { by } else { 0 };
        let drained = by(operated.drained, OPERATOR) | by(operated.drained_by_fleet, FLEET);
        if self.drained.swap(drained, Ordering::Relaxed) != 0 && drained == 0 {
            self.is_back();
        }
        self.weight.store(operated.weight.unwrap_or(0), Ordering::Relaxed);
    }

    /// How it fares.
    pub fn health(&self) -> Health {
        Health {
            healthy: self.is_healthy(),
            silent: self.is_silent(),
            failures: self.failures.load(Ordering::Relaxed),
            ejections: self.ejections.load(Ordering::Relaxed),
            ejected_ms: match self.ejected_until_ms.load(Ordering::Relaxed) {
                0 => 0,
                until => until.saturating_sub(now_ms()),
            },
        }
    }

    /// Whether a failure of TLS with it is to be reported: once in a while, by whoever comes first.
    pub fn may_complain(&self) -> bool {
        let (now, last) = (now_ms().max(1), self.complained_ms.load(Ordering::Relaxed));
        let is_due = last == 0 || now.saturating_sub(last) >= COMPLAINT_MS;
        is_due && self.complained_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Goes on from how it fared in another process.
    pub fn resume(&self, health: Health) {
        self.healthy.store(health.healthy, Ordering::Relaxed);
        self.note_silence(health.silent);
        self.failures.store(health.failures, Ordering::Relaxed);
        self.ejections.store(health.ejections, Ordering::Relaxed);
        let until = if health.ejected_ms == 0 { 0 } else { now_ms().saturating_add(health.ejected_ms) };
        self.ejected_until_ms.store(until, Ordering::Relaxed);
    }

    /// The address it is connected to over TCP.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self.address {
            ServerAddress::Ip(address) => Some(address),
            ServerAddress::Name(..) | ServerAddress::Service(_) | ServerAddress::Listed(_) | ServerAddress::Unix(_) => {
                None
            }
        }
    }

    /// Notes that it is no member of its group any more.
    pub(super) fn leave(&self) {
        self.has_left.store(true, Ordering::Relaxed);
    }

    /// Whether its connections are of no more use once they are free.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Notes that it gets requests again from now on, or for the first time beside others that had them before.
    pub(super) fn is_back(&self) {
        self.back_since_ms.store(now_ms().max(1), Ordering::Relaxed);
    }

    /// Whether it takes a request that is its own by weight, where a server that is back takes all of them only after so long. Those that it takes are
    /// spread evenly: of ten in a row at the beginning, one.
    pub(super) fn takes(&self, slow_start: Duration) -> bool {
        let share = self.share(slow_start);
        // Counted only for servers that were away. The sum may begin again at 0, which is a multiple of all shares, too.
        share >= WHOLE_SHARE || self.offered.fetch_add(share, Ordering::Relaxed) % WHOLE_SHARE + share >= WHOLE_SHARE
    }

    /// Of [`WHOLE_SHARE`] requests that are its own by weight, how many it should get at the moment.
    fn share(&self, slow_start: Duration) -> u32 {
        let back = self.back_since_ms.load(Ordering::Relaxed).max(self.ejected_until_ms.load(Ordering::Relaxed));
        // The clock is read only for servers that were away.
        if back == 0 { WHOLE_SHARE } else { share_at(now_ms().saturating_sub(back), slow_start) }
    }

    /// Whether requests should go there.
    pub fn is_available(&self) -> bool {
        self.standing() == Standing::Up
    }

    /// Whether it is left out for a while.
    pub fn is_ejected(&self) -> bool {
        now_ms() < self.ejected_until_ms.load(Ordering::Relaxed)
    }

    /// Whether it should be given requests.
    pub fn standing(&self) -> Standing {
        // The clock is read only for servers that have failed.
        let until = self.ejected_until_ms.load(Ordering::Relaxed);
        self.standing_at(if until == 0 { 0 } else { now_ms() })
    }

    fn standing_at(&self, now_ms: u64) -> Standing {
        if self.drained.load(Ordering::Relaxed) != 0 {
            Standing::Drained
        } else if !self.is_healthy() {
            Standing::Unhealthy
        } else if now_ms < self.ejected_until_ms.load(Ordering::Relaxed) {
            Standing::Ejected
        } else if self.is_silent() && self.ejections.load(Ordering::Relaxed) > 0 {
            Standing::OnTrial
        } else {
            Standing::Up
        }
    }

    /// Whether the last try to connect ran into its deadline.
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Notes whether a try to connect ran into its deadline.
    pub fn note_silence(&self, is_silent: bool) {
        if self.is_silent() != is_silent {
            self.is_silent.store(is_silent, Ordering::Relaxed);
        }
    }

    /// Whether it agreed on HTTP/1.1 last: then nobody need wait for a connection that all can share.
    pub fn speaks_http1(&self) -> bool {
        self.speaks_http1.load(Ordering::Relaxed)
    }

    /// Notes which version it has agreed on.
    pub fn note_version(&self, is_http1: bool) {
        if self.speaks_http1() != is_http1 {
            self.speaks_http1.store(is_http1, Ordering::Relaxed);
        }
    }

    /// Takes the one place of who tries whether it is back; false if it is taken.
    pub(super) fn begin_trial(&self) -> bool {
        !self.is_on_trial.swap(true, Ordering::Relaxed)
    }

    /// Gives that place back. Harmless for those who never had it: then two may try at a time.
    pub fn end_trial(&self) {
        if self.is_on_trial.load(Ordering::Relaxed) {
            self.is_on_trial.store(false, Ordering::Relaxed);
        }
    }

    /// What the active checks say.
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Sets what the active checks say; true if that is new.
    pub fn set_healthy(&self, healthy: bool) -> bool {
        let is_new = self.healthy.swap(healthy, Ordering::Relaxed) != healthy;
        if is_new && healthy {
            self.is_back();
        }
        is_new
    }

    /// Requests it is working on.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Counts a request in, unless it has `most` already; says whether it did.
    pub(super) fn begin(&self, most: Option<usize>) -> bool {
        let Some(most) = most else {
            self.load.fetch_add(1, Ordering::Relaxed);
            return true;
        };
        // Never more than there may be, not even for a moment: who waits for room would take that for none, and nobody would wake it.
        self.load.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |load| (load < most).then_some(load + 1)).is_ok()
    }

    /// Counts it out.
    pub(super) fn end(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
        self.end_trial();
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
        self.failed_at(rule, now_ms(), || true)
    }

    /// As [`Server::failed`], but it is ejected only if `may` says so; if not, the next failure asks again.
    pub fn failed_if(&self, rule: Ejection, may: impl FnOnce() -> bool) -> bool {
        self.failed_at(rule, now_ms(), may)
    }

    fn failed_at(&self, rule: Ejection, now_ms: u64, may: impl FnOnce() -> bool) -> bool {
        if now_ms < self.ejected_until_ms.load(Ordering::Relaxed) {
            return false;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if rule.failures == 0 || failures < rule.failures || !may() {
            return false;
        }
        self.failures.store(0, Ordering::Relaxed);
        let times = self.ejections.fetch_add(1, Ordering::Relaxed).min(9);
        let period = rule.duration.saturating_mul(1 << times.min(4)).min(rule.duration.saturating_mul(10));
        let until = now_ms.saturating_add(u64::try_from(period.as_millis()).unwrap_or(u64::MAX));
        self.ejected_until_ms.store(until, Ordering::Relaxed);
        true
    }

    /// Under what its connections are kept for further requests.
    pub fn pool(&self) -> PoolId {
        self.id
    }

    /// Ends an ejection: it was seen to work.
    pub fn restore(&self) {
        if self.ejected_until_ms.swap(0, Ordering::Relaxed) != 0 {
            self.is_back();
        }
        self.succeeded();
    }
}

/// The share after so many milliseconds: from a tenth upwards in proportion to time.
fn share_at(elapsed_ms: u64, slow_start: Duration) -> u32 {
    let share = u128::from(elapsed_ms) * u128::from(WHOLE_SHARE) / slow_start.as_millis().max(1);
    u32::try_from(share).unwrap_or(WHOLE_SHARE).clamp(LEAST_SHARE, WHOLE_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server::new(&ServerConfig::at(ServerAddress::Unix("/x".into())), 0)
    }

    #[test]
    fn failures_in_a_row_eject_and_a_success_forgives() {
        let rule = Ejection { failures: 2, duration: Duration::from_secs(3600), ..Ejection::default() };
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
        (0..)
            .map(|tenths| tenths * period_ms / 10)
            .find(|after| server.standing_at(now_ms + after) == Standing::Up)
            .unwrap()
    }

    #[test]
    fn each_ejection_in_a_row_is_twice_as_long_up_to_ten_times() {
        let rule = Ejection { failures: 3, duration: Duration::from_millis(1_000), ..Ejection::default() };
        let (server, mut now_ms) = (server(), 1_000_000);
        for expected in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            assert!((0..3).map(|_| server.failed_at(rule, now_ms, || true)).eq([false, false, true]));
            assert!(!server.failed_at(rule, now_ms, || true), "what was under way says nothing new");
            server.forgive_at(now_ms);
            assert_eq!(left_out(&server, 1_000, now_ms), expected);
            now_ms += expected;
        }
        // It works again, for long; only then does it fail once more.
        server.forgive_at(now_ms);
        assert!((0..3).map(|_| server.failed_at(rule, now_ms, || true)).eq([false, false, true]));
        assert_eq!(left_out(&server, 1_000, now_ms), 1_000, "a first one again");
        server.restore();
        assert_eq!(left_out(&server, 1_000, now_ms), 0);
        assert!((0..3).map(|_| server.failed_at(rule, now_ms, || true)).eq([false, false, true]));
        assert_eq!(left_out(&server, 1_000, now_ms), 1_000, "it was seen to work, which forgives, too");
    }

    #[test]
    fn a_success_forgives_earlier_ejections_also_when_no_failure_came_before_it() {
        let rule = Ejection { failures: 1, duration: Duration::ZERO, ..Ejection::default() };
        let server = server();
        (0..5).for_each(|_| assert!(server.failed(rule)));
        server.succeeded();
        let rule = Ejection { failures: 1, duration: Duration::from_secs(1), ..Ejection::default() };
        assert!(server.failed_at(rule, 1_000_000, || true));
        assert_eq!(left_out(&server, 1_000, 1_000_000), 1_000);
    }

    #[test]
    fn another_process_goes_on_from_how_it_fared() {
        let rule = Ejection { failures: 1, duration: Duration::from_secs(3600), ..Ejection::default() };
        let (old, new) = (server(), server());
        assert!(old.failed(rule));
        new.resume(old.health());
        assert_eq!(new.standing(), Standing::Ejected);
        old.restore();
        old.note_silence(true);
        old.set_healthy(false);
        new.resume(old.health());
        assert_eq!((new.standing(), new.is_silent()), (Standing::Unhealthy, true));
        assert_eq!(new.health(), old.health());
    }

    #[test]
    fn ejection_can_be_switched_off() {
        let server = server();
        for _ in 0..100 {
            assert!(!server.failed(Ejection { failures: 0, duration: Duration::from_secs(1), ..Ejection::default() }));
        }
        assert!(server.is_available());
    }

    #[test]
    fn the_share_of_a_server_that_is_back_grows_with_time() {
        let minute = Duration::from_secs(60);
        for (elapsed_ms, expected) in
            [(0, 103), (5_000, 103), (15_000, 256), (30_000, 512), (60_000, 1024), (u64::MAX, 1024)]
        {
            assert_eq!(share_at(elapsed_ms, minute), expected, "{elapsed_ms}");
        }
        let server = server();
        assert!((0..100).all(|_| server.takes(minute)), "it was there from the beginning");
        server.set_healthy(false);
        server.set_healthy(true);
        assert!(server.share(minute) < WHOLE_SHARE);
    }

    #[test]
    fn what_a_server_that_is_back_takes_is_spread_evenly() {
        let (server, hour) = (server(), Duration::from_secs(3600));
        server.is_back();
        // Also where the sum overflows.
        for start in [0, u32::MAX - 5000] {
            server.offered.store(start, Ordering::Relaxed);
            let taken: Vec<usize> = (0..500).filter(|_| server.takes(hour)).collect();
            assert_eq!(taken.len(), 50, "from {start}");
            let pauses: Vec<_> = taken.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(pauses.iter().all(|pause| matches!(pause, 9 | 10)), "{pauses:?}");
        }
    }
}
