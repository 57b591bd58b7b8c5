//! How fast bytes may go: who sends or reads some, books the time that they stand for, and goes on when that time has come.
//!
//! Of each key, one time is kept, up to which its bandwidth is booked: for a connection in a cell of its own, for what workers share in a table as that of rates. So each
//! piece costs one atomic step and at most one timer, whoever waits is served in the order of booking, and nobody looks again and again. What is booked and then not
//! sent, because its client has left, is given back: those who come and go must not make the others wait.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::{BandwidthLimit, PolicyConfig};
use net::clock;
use reason::Reason;
use telemetry::WorkerReport;

use super::Applicant;
use super::rate::RateTable;

/// What a table counts in: fine enough for gigabytes in a second, coarse enough for hours in forty bits.
pub(super) const TICK: Duration = Duration::from_nanos(64);

/// The longest time that may be booked ahead of now, beyond a burst. What is more than that is forgiven.
const MOST_AHEAD: Duration = Duration::from_secs(600);

/// The least burst, whatever is configured: timers come late, by a millisecond or two, and what was not sent meanwhile could not be made up for.
const LEAST_BURST: Duration = Duration::from_millis(10);

/// Least and most bytes that go in one piece; between these, those of a sixteenth of a second.
const LEAST_SLICE: u64 = 1024;
const MOST_SLICE: u64 = 32 * 1024;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// The tables of a policy, one for each direction that it limits.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    up: Option<Arc<RateTable>>,
    down: Option<Arc<RateTable>>,
}

impl Tables {
    /// Those of a limit, or the ones of the generation before where they count the same apart.
    pub(super) fn of(limit: &BandwidthLimit, previous: Option<(&BandwidthLimit, &Tables)>) -> Tables {
        let kept = previous.filter(|(before, _)| before.key == limit.key && before.max_keys == limit.max_keys);
        let table = |rate: Option<u64>, kept: Option<&Arc<RateTable>>| {
            let rate = rate.filter(|_| limit.key.is_some())?;
            let table = kept.map_or_else(|| Arc::new(RateTable::new(limit.max_keys, TICK)), Arc::clone);
            table.reach(ticks(burst(limit, rate)) + ticks(nanos_of(MOST_AHEAD)));
            Some(table)
        };
        Tables {
            up: table(limit.upload, kept.and_then(|(_, tables)| tables.up.as_ref())),
            down: table(limit.download, kept.and_then(|(_, tables)| tables.down.as_ref())),
        }
    }

    /// Those that there are, with what they count.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &Arc<RateTable>)> {
        let named = [("upload", &self.up), ("download", &self.down)];
        named.into_iter().filter_map(|(name, table)| Some((name, table.as_ref()?)))
    }

    /// Has them forget the keys that have their whole burst again.
    pub(super) fn forget_old(&self) {
        [&self.up, &self.down].into_iter().flatten().for_each(|table| table.forget_old());
    }
}

/// Up to when the bandwidth of one connection is booked, by policy and direction.
#[derive(Debug, Default)]
pub struct ConnectionMeters(RefCell<Vec<(Box<str>, Rc<Own>)>>);

/// Up to when it is booked, on the precise clock in nanoseconds.
#[derive(Debug, Default)]
struct Own {
    up: Cell<u64>,
    down: Cell<u64>,
}

impl ConnectionMeters {
    fn of(&self, policy: &str) -> Rc<Own> {
        let mut all = self.0.borrow_mut();
        if let Some((_, own)) = all.iter().find(|(name, _)| **name == *policy) {
            return Rc::clone(own);
        }
        let own = Rc::new(Own::default());
        all.push((policy.into(), Rc::clone(&own)));
        own
    }
}

/// The bandwidth of both directions of a request, tunnel or flow. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Throttles(Option<Rc<Both>>);

#[derive(Debug, Default)]
struct Both {
    up: Throttle,
    down: Throttle,
}

impl Throttles {
    /// Adds what a policy allows.
    pub(super) fn add(
        &mut self,
        policy: &Arc<PolicyConfig>,
        (limit, tables): (&BandwidthLimit, &Tables),
        applicant: &Applicant<'_>,
        connection: &ConnectionMeters,
    ) {
        let own = limit.key.is_none().then(|| connection.of(&policy.name));
        let meter = |rate: Option<u64>, way: Way, table: &Option<Arc<RateTable>>| {
            let rate = rate?;
            let booked = match (&own, table, &limit.key) {
                (Some(own), ..) => Booked::Own(Rc::clone(own), way),
                (None, Some(table), Some(keys)) => {
                    Booked::Shared(Arc::clone(table), applicant.counted(keys, table.hasher())?)
                }
                _ => return None,
            };
            let burst = burst(limit, rate);
            Some(Meter { policy: Arc::clone(policy), rate, burst, booked, has_waited: Cell::new(false) })
        };
        let (up, down) = (meter(limit.upload, Way::Up, &tables.up), meter(limit.download, Way::Down, &tables.down));
        if up.is_none() && down.is_none() {
            return;
        }
        // Nobody shares it yet: policies are asked before anything moves.
        if let Some(both) = Rc::get_mut(self.0.get_or_insert_default()) {
            both.up.meters.extend(up);
            both.down.meters.extend(down);
        }
    }

    /// What bytes of the client are held to.
    pub fn up(&self) -> Option<&Throttle> {
        self.0.as_ref().map(|both| &both.up).filter(|throttle| !throttle.meters.is_empty())
    }

    /// What bytes to the client are held to.
    pub fn down(&self) -> Option<&Throttle> {
        self.0.as_ref().map(|both| &both.down).filter(|throttle| !throttle.meters.is_empty())
    }

    /// For how long bytes have had to wait, if any had to.
    pub fn waited(&self) -> Option<Duration> {
        let both = self.0.as_ref()?;
        let waited = both.up.waited.get().saturating_add(both.down.waited.get());
        Some(waited).filter(|waited| !waited.is_zero())
    }

    /// Counts the policies that something had to wait for.
    pub fn report(&self, report: &WorkerReport) {
        let Some(both) = &self.0 else { return };
        for meter in both.up.meters.iter().chain(&both.down.meters).filter(|meter| meter.has_waited.get()) {
            report.policy(&meter.policy.name, "throttled", Reason::BandwidthLimited);
        }
    }
}

/// How fast the bytes of one direction may go.
#[derive(Debug, Default)]
pub struct Throttle {
    meters: Vec<Meter>,
    /// For how long bytes have had to wait.
    waited: Cell<Duration>,
}

/// What one policy says of it.
#[derive(Debug)]
struct Meter {
    policy: Arc<PolicyConfig>,
    /// Bytes per second.
    rate: u64,
    /// The time that a burst stands for, nanoseconds.
    burst: u64,
    booked: Booked,
    has_waited: Cell<bool>,
}

/// Where it is kept up to when the bandwidth is booked.
#[derive(Debug)]
enum Booked {
    Own(Rc<Own>, Way),
    Shared(Arc<RateTable>, u64),
}

impl Throttle {
    /// How many bytes should go in one piece.
    pub fn slice(&self) -> usize {
        let slowest = self.meters.iter().map(|meter| meter.rate).min().unwrap_or(u64::MAX);
        usize::try_from((slowest / 16).clamp(LEAST_SLICE, MOST_SLICE)).unwrap_or(usize::MAX)
    }

    /// Books so many bytes; says until when (on the precise clock) whoever has them must wait, if at all.
    pub fn book(&self, bytes: usize) -> Option<Duration> {
        self.reserve(bytes).used()
    }

    /// The same for bytes that may turn out not to be sent.
    pub fn reserve(&self, bytes: usize) -> Reserved<'_> {
        self.reserve_at(bytes, clock::precise())
    }

    fn reserve_at(&self, bytes: usize, now: Duration) -> Reserved<'_> {
        let (mut longest, mut is_whole) = (0, true);
        for meter in &self.meters {
            let Slot { wait, was_booked } = meter.book(bytes as u64, now);
            meter.has_waited.set(meter.has_waited.get() || wait > 0);
            longest = longest.max(wait);
            is_whole &= was_booked;
        }
        let wait = Duration::from_nanos(longest);
        self.waited.set(self.waited.get().saturating_add(wait));
        let until = (longest > 0).then(|| now.saturating_add(wait));
        Reserved { of: is_whole.then_some((self, bytes as u64)), until }
    }

    /// Gives back bytes that were booked and are not sent; see [`Reserved::later`].
    pub fn give_back(&self, bytes: usize) {
        drop(Reserved { of: Some((self, bytes as u64)), until: None });
    }

    /// Books so many bytes if they may go at once.
    ///
    /// # Errors
    /// The policy that does not let them.
    pub fn try_book(&self, bytes: usize) -> Result<(), &Arc<PolicyConfig>> {
        self.try_book_at(bytes, clock::precise())
    }

    fn try_book_at(&self, bytes: usize, now: Duration) -> Result<(), &Arc<PolicyConfig>> {
        let bytes = bytes as u64;
        let Some(at) = self.meters.iter().position(|meter| !meter.try_book(bytes, now)) else { return Ok(()) };
        // What one policy drops is not charged to the others.
        self.meters.iter().take(at).for_each(|meter| meter.give_back(bytes, now));
        self.meters.get(at).map_or(Ok(()), |meter| Err(&meter.policy))
    }
}

/// Bytes that are booked and not sent yet. Dropped before that, they are given back.
#[derive(Debug)]
#[must_use = "what is not used is given back"]
pub struct Reserved<'t> {
    /// None of what was not booked in full: nothing of that is given back.
    of: Option<(&'t Throttle, u64)>,
    until: Option<Duration>,
}

impl Reserved<'_> {
    /// Until when (on the precise clock) the bytes must wait, if at all.
    pub fn until(&self) -> Option<Duration> {
        self.until
    }

    /// What is to be given back if they are not sent after all, for who cannot keep this so long; none of what was not booked in full.
    pub fn later(mut self) -> Option<usize> {
        let (_, bytes) = self.of.take()?;
        usize::try_from(bytes).ok()
    }

    /// They are sent, or will be in any case.
    pub fn used(mut self) -> Option<Duration> {
        self.of = None;
        self.until
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some((throttle, bytes)) = self.of {
            let now = clock::precise();
            throttle.meters.iter().for_each(|meter| meter.give_back(bytes, now));
        }
    }
}

/// What became of a booking.
struct Slot {
    /// How long to wait, nanoseconds.
    wait: u64,
    /// Not beyond what may be booked ahead.
    was_booked: bool,
}

impl Meter {
    fn book(&self, bytes: u64, now: Duration) -> Slot {
        let cost = nanos(bytes, self.rate);
        let (ahead, was_booked) = match &self.booked {
            Booked::Own(own, way) => {
                let (booked, now) = (own.until(*way), nanos_of(now));
                let ahead = booked.get().saturating_sub(now);
                let most = self.burst.saturating_add(nanos_of(MOST_AHEAD));
                let after = ahead.saturating_add(cost);
                booked.set(now.saturating_add(after.min(most)));
                (ahead, after <= most)
            }
            Booked::Shared(table, hash) => {
                let (ahead, was_booked) = table.book(*hash, ticks(cost), now);
                (from_ticks(ahead), was_booked)
            }
        };
        Slot { wait: ahead.saturating_sub(self.burst), was_booked }
    }

    /// Bytes that were booked are not sent. Those who wait behind them keep their times, and others may come earlier.
    fn give_back(&self, bytes: u64, now: Duration) {
        let cost = nanos(bytes, self.rate);
        match &self.booked {
            Booked::Own(own, way) => {
                let booked = own.until(*way);
                booked.set(booked.get().saturating_sub(cost));
            }
            Booked::Shared(table, hash) => table.give_back(*hash, ticks(cost), now),
        }
    }

    fn try_book(&self, bytes: u64, now: Duration) -> bool {
        let cost = nanos(bytes, self.rate);
        match &self.booked {
            Booked::Own(own, way) => {
                let (booked, now) = (own.until(*way), nanos_of(now));
                let ahead = booked.get().saturating_sub(now);
                // A datagram larger than the burst passes where nothing is booked.
                let fits = ahead == 0 || ahead.saturating_add(cost) <= self.burst;
                if fits {
                    booked.set(now.saturating_add(ahead).saturating_add(cost));
                }
                fits
            }
            Booked::Shared(table, hash) => table.try_book(*hash, ticks(cost), ticks(self.burst), now),
        }
    }
}

impl Own {
    fn until(&self, way: Way) -> &Cell<u64> {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}

/// The time that the burst of a limit stands for, nanoseconds.
fn burst(limit: &BandwidthLimit, rate: u64) -> u64 {
    nanos(limit.burst, rate).max(nanos_of(LEAST_BURST))
}

/// The time that so many bytes stand for.
fn nanos(bytes: u64, rate: u64) -> u64 {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The nearest number of ticks, so that many small pieces cost what they weigh.
fn ticks(nanos: u64) -> u64 {
    nanos.saturating_add(nanos_of(TICK) / 2) / nanos_of(TICK)
}

fn from_ticks(ticks: u64) -> u64 {
    ticks.saturating_mul(nanos_of(TICK))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use config::PolicyMode;

    use super::*;
    use crate::client::RequestClient;

    const MIB: u64 = 1 << 20;

    fn policy(limit: BandwidthLimit) -> Arc<PolicyConfig> {
        Arc::new(PolicyConfig {
            name: "p".into(),
            mode: PolicyMode::Enforce,
            allow: None,
            deny: None,
            rate_limit: None,
            concurrency_limit: None,
            bandwidth_limit: Some(limit),
            when: config::Conditions::default(),
            jwt: None,
            basic: None,
            forward_auth: None,
            cors: None,
            maintenance: None,
        })
    }

    fn limit(rate: u64, burst: u64, is_shared: bool) -> BandwidthLimit {
        let key = is_shared.then(|| vec![config::LimitKey::Client]);
        BandwidthLimit { download: Some(rate), upload: None, burst, key, max_keys: 1024 }
    }

    /// What one of so many connections from one address has.
    fn throttles(limit: &BandwidthLimit, tables: &Tables, connection: &ConnectionMeters) -> Throttles {
        let client = RequestClient::itself(Some([192, 0, 2, 1].into()));
        let applicant = Applicant { client, head: None, route: None, certificate: None, subject: None };
        let mut throttles = Throttles::default();
        throttles.add(&policy(limit.clone()), (limit, tables), &applicant, connection);
        throttles
    }

    /// When a second's worth of bytes in pieces has gone, if each waits for its time, in milliseconds: by one sender, or by several in turn.
    fn time_of(rate: u64, burst: u64, piece: u64, is_shared: bool, senders: usize) -> u64 {
        let limit = limit(rate, burst, is_shared);
        let tables = Tables::of(&limit, None);
        let connections: Vec<_> = (0..senders).map(|_| ConnectionMeters::default()).collect();
        let all: Vec<_> = connections.iter().map(|connection| throttles(&limit, &tables, connection)).collect();
        let start = clock::precise();
        let (mut sent, mut last) = (0, start);
        for throttle in all.iter().cycle() {
            if sent >= rate {
                break;
            }
            sent += piece;
            let until = throttle.down().unwrap().reserve_at(piece as usize, start).used();
            last = until.map_or(last, |until| last.max(until));
        }
        (last - start).as_millis() as u64
    }

    #[test]
    fn bytes_go_at_their_rate_behind_a_burst() {
        for (burst, piece, is_shared, senders, expected) in [
            (0, 16 * 1024, false, 1, 900..=1_000),
            (MIB / 2, 16 * 1024, false, 1, 400..=500),
            (2 * MIB, 16 * 1024, false, 1, 0..=0),
            (0, 1_000, false, 1, 900..=1_000),
            (0, 16 * 1024, true, 1, 900..=1_000),
            // Together they have what one has; each alone would have its own.
            (0, 16 * 1024, true, 5, 900..=1_000),
            (0, 16 * 1024, false, 5, 100..=210),
            (MIB / 2, 100, true, 3, 400..=510),
        ] {
            let time = time_of(MIB, burst, piece, is_shared, senders);
            assert!(expected.contains(&time), "{burst} {piece} {is_shared} {senders}: {time} ms, not {expected:?}");
        }
    }

    /// A sender whose timers all come late, to the next millisecond and one more, is as fast as its rate all the same, and no faster.
    #[test]
    fn late_timers_cost_nothing_of_the_rate() {
        for (rate, burst, is_shared) in
            [(64 * 1024, 0, false), (MIB, 0, false), (100 * MIB, 0, false), (100 * MIB, 0, true), (MIB, 4096, true)]
        {
            let limit = limit(rate, burst, is_shared);
            let tables = Tables::of(&limit, None);
            let throttles = throttles(&limit, &tables, &ConnectionMeters::default());
            let throttle = throttles.down().unwrap();
            let piece = throttle.slice();
            let start = clock::precise();
            let (mut now, mut sent) = (start, 0);
            while sent < 10 * rate {
                if let Some(until) = throttle.reserve_at(piece, now).used() {
                    let waited = (until - start).as_millis() as u64 + 2;
                    now = start + Duration::from_millis(waited);
                }
                sent += piece as u64;
            }
            let took = (now - start).as_millis();
            assert!((9_800..=10_050).contains(&took), "{rate} {burst} {is_shared}: ten seconds' worth in {took} ms");
        }
    }

    #[test]
    fn what_does_not_wait_is_let_pass_or_not() {
        for is_shared in [false, true] {
            let limit = limit(1024, 3_000, is_shared);
            let tables = Tables::of(&limit, None);
            let connection = ConnectionMeters::default();
            let throttles = throttles(&limit, &tables, &connection);
            let now = clock::precise();
            let passes = |bytes| throttles.down().unwrap().try_book_at(bytes, now).is_ok();
            assert_eq!([1_000; 4].map(passes), [true, true, true, false], "{is_shared}");
            assert!(throttles.up().is_none());
        }
    }

    /// What the second policy drops leaves the bandwidth of the first one to what comes next.
    #[test]
    fn what_one_policy_drops_is_not_charged_to_another() {
        for is_shared in [false, true] {
            let connection = ConnectionMeters::default();
            let (wide, narrow) = (limit(1024, 3_000, is_shared), limit(1024, 1_000, is_shared));
            let (tables, narrow_tables) = (Tables::of(&wide, None), Tables::of(&narrow, None));
            let first = throttles(&wide, &tables, &connection);
            let mut both = throttles(&wide, &tables, &connection);
            let client = RequestClient::itself(Some([192, 0, 2, 1].into()));
            let applicant = Applicant { client, head: None, route: None, certificate: None, subject: None };
            let second = Arc::new(PolicyConfig { name: "q".into(), ..PolicyConfig::clone(&policy(narrow.clone())) });
            both.add(&second, (&narrow, &narrow_tables), &applicant, &connection);
            let now = clock::precise();
            let of_both = |bytes| both.down().unwrap().try_book_at(bytes, now).map_err(|policy| policy.name.clone());
            assert_eq!(of_both(1_000), Ok(()));
            (0..5).for_each(|_| assert_eq!(of_both(1_000), Err("q".into()), "{is_shared}"));
            let of_first = |bytes| first.down().unwrap().try_book_at(bytes, now).is_ok();
            assert_eq!([1_000; 3].map(of_first), [true, true, false], "{is_shared}");
        }
    }

    #[test]
    fn what_is_booked_ahead_has_an_end() {
        for is_shared in [false, true] {
            let limit = limit(1024, 0, is_shared);
            let tables = Tables::of(&limit, None);
            let connection = ConnectionMeters::default();
            let throttles = throttles(&limit, &tables, &connection);
            let now = clock::precise();
            let waits: Vec<_> = (0..5).map(|_| throttles.down().unwrap().reserve_at(1 << 30, now).used()).collect();
            assert_eq!(waits[0], None);
            for wait in &waits[1..] {
                let wait = wait.unwrap() - now;
                assert!(
                    (MOST_AHEAD - Duration::from_secs(5)..=MOST_AHEAD + Duration::from_secs(5)).contains(&wait),
                    "{wait:?}"
                );
            }
        }
    }

    /// What was booked and not sent makes nobody wait who comes after; what was forgiven cannot be had twice.
    #[test]
    fn what_is_not_sent_is_given_back() {
        for is_shared in [false, true] {
            let limit = limit(1024, 0, is_shared);
            let tables = Tables::of(&limit, None);
            let connection = ConnectionMeters::default();
            let throttles = throttles(&limit, &tables, &connection);
            let throttle = throttles.down().unwrap();
            let now = clock::precise();
            let wait = |bytes| {
                throttle.reserve_at(bytes, now).used().map_or(0, |until| (until - now).as_secs_f64().round() as u64)
            };
            assert_eq!([2048, 1024].map(wait), [0, 2]);
            let left: Vec<_> = (0..100).map(|_| throttle.reserve_at(1024, now)).collect();
            assert_eq!(wait(1024), 103);
            drop(left);
            assert_eq!(wait(1024), 4, "{is_shared}");
            // The same, for who keeps only how much it was.
            let later = throttle.reserve_at(8192, now).later();
            assert_eq!(later, Some(8192));
            throttle.give_back(8192);
            assert_eq!(wait(0), 5, "{is_shared}");
            // Booked as far ahead as can be: what is more is not booked, and not given back.
            let more: Vec<_> = (0..1000).map(|_| throttle.reserve_at(1024, now)).collect();
            let (booked, forgiven) = more.into_iter().partition::<Vec<_>, _>(|reserved| reserved.of.is_some());
            assert!((594..=595).contains(&booked.len()), "{}", booked.len());
            let before = wait(0);
            drop(forgiven);
            assert_eq!(wait(0), before);
            drop(booked);
            assert_eq!(wait(0), 5);
        }
    }

    #[test]
    fn a_connection_has_one_meter_for_each_policy_and_keeps_it() {
        let limit = limit(1024, 0, false);
        let tables = Tables::of(&limit, None);
        let connection = ConnectionMeters::default();
        // Two requests of one connection.
        let (first, second) = (throttles(&limit, &tables, &connection), throttles(&limit, &tables, &connection));
        let now = clock::precise();
        assert!(first.down().unwrap().reserve_at(1024, now).used().is_none());
        assert!(second.down().unwrap().reserve_at(1024, now).used().is_some(), "the first one's bytes count");
        assert_eq!(connection.0.borrow().len(), 1);
    }

    #[test]
    fn pieces_are_a_sixteenth_of_a_second_within_bounds() {
        for (rate, expected) in [(1024, 1024), (64 * 1024, 4096), (MIB, 32 * 1024), (1024 * MIB, 32 * 1024)] {
            let limit = limit(rate, 0, false);
            let tables = Tables::of(&limit, None);
            assert_eq!(throttles(&limit, &tables, &ConnectionMeters::default()).down().unwrap().slice(), expected);
        }
    }
}
