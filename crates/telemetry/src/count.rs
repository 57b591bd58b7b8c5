//! Counters with one writer and any number of readers, and families of them by label.
//!
//! A worker is the only writer of its counters, so an increment is a load and a store: no lock, no locked instruction. Readers see each
//! counter whole, and a set of them a moment apart. Two writers by problem would lose counts, never memory safety.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds; the caller is the only writer.
    pub(super) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets; the caller is the only writer.
    pub(super) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Buckets of [`Durations`], the last one without bound.
pub(super) const BUCKET_COUNT: usize = 17;

/// Upper bounds of the buckets of [`Durations`].
pub(super) trait Bounds {
    /// Nanoseconds, ascending.
    const NS: [u64; BUCKET_COUNT - 1];
}

/// From what a proxy adds on a good day to what a patient client waits for.
#[derive(Debug, Default)]
pub(super) struct Usual;

impl Bounds for Usual {
    const NS: [u64; BUCKET_COUNT - 1] = [
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
        500_000_000,
        1_000_000_000,
        2_500_000_000,
        10_000_000_000,
        30_000_000_000,
    ];
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Durations<B = Usual> {
    buckets: [Count; BUCKET_COUNT],
    sum_ns: Count,
    bounds: PhantomData<B>,
}

impl<B: Bounds> Durations<B> {
    pub(super) fn observe(&self, duration: Duration) {
        self.buckets[Self::bucket(duration)].add(1);
        self.sum_ns.add(nanoseconds(duration));
    }

    /// The bucket that a duration falls into, below [`BUCKET_COUNT`].
    pub(super) fn bucket(duration: Duration) -> usize {
        let ns = nanoseconds(duration);
        // Counting the bounds below costs no branch; the result is at most their number, the unbounded bucket.
        B::NS.iter().map(|&bound| usize::from(ns > bound)).sum()
    }

    /// Adds this histogram to a sum: counts by bucket, and nanoseconds.
    pub(super) fn add_to(&self, buckets: &mut [u64; BUCKET_COUNT], sum_ns: &mut u64) {
        for (total, bucket) in buckets.iter_mut().zip(&self.buckets) {
            *total += bucket.get();
        }
        *sum_ns = sum_ns.wrapping_add(self.sum_ns.get());
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The statuses that have a count of their own; others share one.
const STATUSES: std::ops::RangeInclusive<u16> = 100..=599;

/// Counts by status of a response, found without a search. They are made at the first one.
#[derive(Debug, Default)]
pub(super) struct StatusCounts(OnceLock<Box<[Count]>>);

impl StatusCounts {
    /// Counts a response.
    pub(super) fn add(&self, status: u16) {
        let counts = self.0.get_or_init(|| (0..=STATUSES.len()).map(|_| Count::default()).collect());
        let place = if STATUSES.contains(&status) { usize::from(status - STATUSES.start()) } else { STATUSES.len() };
        counts[place].add(1);
    }

    /// Each status that came, [`OTHER`] for those without a count of their own, and how often.
    pub(super) fn texts(&self) -> impl Iterator<Item = (String, u64)> {
        let names = STATUSES.map(|status| status.to_string()).chain([OTHER.to_owned()]);
        let counts = self.0.get().map(|counts| &**counts).unwrap_or_default();
        names.zip(counts).map(|(name, count)| (name, count.get())).filter(|(_, count)| *count > 0)
    }
}

/// Values by label set, bounded: label sets beyond the capacity share one slot whose labels are all [`OTHER`], and are counted.
///
/// Slots are made by the one writer at first sight and never move or go, so that readers need no lock.
pub(super) struct Family<const N: usize, V> {
    slots: Box<[OnceLock<Box<Slot<N, V>>>]>,
    other: Slot<N, V>,
    /// Open addressing over `slots`: slot number plus one, 0 for empty. At most half full, so that a probe always ends.
    index: Box<[AtomicU16]>,
    used: AtomicU16,
    last: AtomicU16,
    overflow: Count,
}

/// Label value of what did not fit.
pub(super) const OTHER: &str = "other";

pub(super) struct Slot<const N: usize, V> {
    pub(super) labels: [Box<str>; N],
    pub(super) cells: V,
}

impl<const N: usize, V: Default> Slot<N, V> {
    fn new(labels: [&str; N]) -> Slot<N, V> {
        Slot { labels: labels.map(Box::from), cells: V::default() }
    }

    /// The labels, borrowed.
    pub(super) fn texts(&self) -> [&str; N] {
        self.labels.each_ref().map(AsRef::as_ref)
    }

    fn is(&self, labels: &[&str; N]) -> bool {
        self.labels.iter().zip(labels).all(|(mine, theirs)| &**mine == *theirs)
    }
}

impl<const N: usize, V: Default> Family<N, V> {
    /// A family of at most `capacity` (below 32,768) label sets.
    pub(super) fn new(capacity: u16) -> Family<N, V> {
        let capacity = usize::from(capacity);
        Family {
            slots: (0..capacity).map(|_| OnceLock::new()).collect(),
            other: Slot::new([OTHER; N]),
            index: (0..(2 * capacity).next_power_of_two()).map(|_| AtomicU16::new(0)).collect(),
            used: AtomicU16::new(0),
            last: AtomicU16::new(0),
            overflow: Count::default(),
        }
    }

    /// The values of a label set; made if it is new and there is room.
    pub(super) fn at(&self, labels: [&str; N]) -> &V {
        // Most workers see the same few labels over and over: look at the last slot before hashing.
        let last = self.slots.get(usize::from(self.last.load(Relaxed))).and_then(OnceLock::get);
        match last {
            Some(slot) if slot.is(&labels) => &slot.cells,
            _ => self.find(labels),
        }
    }

    fn find(&self, labels: [&str; N]) -> &V {
        let mask = self.index.len() - 1;
        let mut at = hash(&labels) as usize & mask;
        loop {
            let entry = self.index[at].load(Relaxed);
            if entry == 0 {
                return self.make(at, labels);
            }
            match self.slots[usize::from(entry) - 1].get() {
                Some(slot) if slot.is(&labels) => {
                    self.last.store(entry - 1, Relaxed);
                    return &slot.cells;
                }
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn make(&self, at: usize, labels: [&str; N]) -> &V {
        let number = self.used.load(Relaxed);
        let Some(slot) = self.slots.get(usize::from(number)) else {
            self.overflow.add(1);
            return &self.other.cells;
        };
        let slot = slot.get_or_init(|| Box::new(Slot::new(labels)));
        self.used.store(number + 1, Relaxed);
        self.index[at].store(number + 1, Relaxed);
        &slot.cells
    }

    /// Every slot in use, the shared one included if something fell into it.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<N, V>> {
        let other = (self.overflow.get() > 0).then_some(&self.other);
        self.slots.iter().map_while(|slot| slot.get().map(Box::as_ref)).chain(other)
    }

    /// How often something fell into the shared slot.
    pub(super) fn overflow(&self) -> u64 {
        self.overflow.get()
    }
}

/// A hash of labels, eight bytes at a time. Not keyed: labels come from the configuration and from code, not from clients.
fn hash<const N: usize>(labels: &[&str; N]) -> u64 {
    let mut state = 0x243f_6a88_85a3_08d3_u64;
    for label in labels {
        let mut words = label.as_bytes().chunks_exact(8);
        for word in &mut words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            state = mix(state ^ u64::from_le_bytes(bytes));
        }
        let tail = words.remainder().iter().fold(0x100, |tail: u64, &byte| tail << 8 | u64::from(byte));
        state = mix(state ^ tail);
    }
    state
}

/// One folded multiplication.
pub(super) fn mix(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

impl<const N: usize, V> std::fmt::Debug for Family<N, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Family({} label sets)", self.used.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_it_does_not_pass() {
        fn check(duration: Duration, bucket: usize) {
            let durations: Durations = Durations::default();
            durations.observe(duration);
            let (mut counts, mut sum) = ([0; BUCKET_COUNT], 0);
            durations.add_to(&mut counts, &mut sum);
            let mut expected = [0; BUCKET_COUNT];
            expected[bucket] = 1;
            assert_eq!(counts, expected, "{duration:?}");
            assert_eq!(u128::from(sum), duration.as_nanos().min(u128::from(u64::MAX)));
        }
        check(Duration::ZERO, 0);
        check(Duration::from_micros(100), 0);
        check(Duration::from_nanos(100_001), 1);
        check(Duration::from_secs(1), 12);
        check(Duration::from_secs(30), 15);
        check(Duration::from_secs(31), 16);
        check(Duration::MAX, 16);
    }

    #[test]
    fn statuses_are_counted_each_on_its_own() {
        let counts = StatusCounts::default();
        assert_eq!(counts.texts().count(), 0);
        for status in [100, 200, 200, 599, 600, 999, 99] {
            counts.add(status);
        }
        let expected = [("100", 1), ("200", 2), ("599", 1), (OTHER, 3)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts.texts().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn label_sets_are_kept_apart_and_found_again() {
        let family: Family<2, Count> = Family::new(512);
        for round in 1..=3 {
            for i in 0..500 {
                family.at(["gate", &format!("route-{i}")]).add(1);
                family.at(["gate", ""]).add(1);
            }
            assert_eq!(family.at(["gate", ""]).get(), 500 * round);
            assert_eq!(family.at(["gate", "route-77"]).get(), round);
        }
        // The same bytes split elsewhere are other labels.
        family.at(["gatero", "ute-77"]).add(7);
        assert_eq!(family.at(["gate", "route-77"]).get(), 3);
        assert_eq!(family.slots().count(), 502);
        assert_eq!(family.overflow(), 0);
    }

    #[test]
    fn beyond_the_capacity_everything_shares_one_slot_and_is_counted() {
        let family: Family<1, Count> = Family::new(4);
        for i in 0..10 {
            family.at([&format!("{i}")]).add(1);
        }
        let all: Vec<(String, u64)> = family.slots().map(|s| (s.labels[0].to_string(), s.cells.get())).collect();
        let expected = [("0", 1), ("1", 1), ("2", 1), ("3", 1), ("other", 6)].map(|(l, n)| (l.to_owned(), n));
        assert_eq!(all, expected);
        assert_eq!(family.overflow(), 6);
    }
}
