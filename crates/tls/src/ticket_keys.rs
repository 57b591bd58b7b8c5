//! Session-ticket keys: one rotating master, from which every context derives its own (RFC 5077, RFC 8446 §4.6.1).
//!
//! Owns the secrets and when they change. Processes that share their masters are told of each change by somebody else, and change by themselves only if
//! they are not. Tickets themselves are made and opened by the library, which asks `tickets` for keys.

use aws_lc_sys as sys;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// No master seals for longer than this, and no session is resumed later than this after its handshake.
pub(crate) const MAX_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Length of a ticket's key name (RFC 5077 §4).
pub(crate) const NAME_LEN: usize = 16;
/// AES-128 key length.
pub(crate) const CIPHER_KEY_LEN: usize = 16;
/// HMAC-SHA256 key length.
pub(crate) const MAC_KEY_LEN: usize = 32;

const MASTER_LEN: usize = 32;
/// A generation in [`TicketSecrets`].
const GENERATION_LEN: usize = NAME_LEN + MASTER_LEN;
/// The age in [`TicketSecrets`].
const AGE_LEN: usize = 8;

/// The rotating master secret, shared by all workers and kept across reloads. Random at start. The current generation seals and opens, the
/// previous one only opens, and so does the next one, where it is known beforehand.
#[derive(Debug)]
pub struct TicketKeys {
    period: Duration,
    ring: RwLock<Ring>,
}

struct Ring {
    current: Generation,
    previous: Option<Generation>,
    /// What seals after `current`, where other processes may do so already.
    next: Option<Generation>,
    /// When `current` began to seal.
    since: Instant,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("since", &self.since).finish_non_exhaustive()
    }
}

/// One master and the random name that its tickets carry.
struct Generation {
    name: [u8; NAME_LEN],
    master: Zeroizing<[u8; MASTER_LEN]>,
}

impl Generation {
    fn random() -> Generation {
        let mut generation = Generation { name: [0; NAME_LEN], master: Zeroizing::new([0; MASTER_LEN]) };
        // SAFETY: both are live arrays of the given lengths. The library aborts rather than return without randomness.
        unsafe {
            sys::RAND_bytes(generation.name.as_mut_ptr(), NAME_LEN);
            sys::RAND_bytes(generation.master.as_mut_ptr(), generation.master.len());
        }
        generation
    }

    /// One of [`TicketSecrets`].
    fn of(bytes: &[u8]) -> Option<Generation> {
        let (name, master) = bytes.split_first_chunk::<NAME_LEN>()?;
        let master = Zeroizing::new(<[u8; MASTER_LEN]>::try_from(master).ok()?);
        Some(Generation { name: *name, master })
    }

    /// The keys for one context: HKDF-Expand (RFC 5869 §2.3) of the master, which is uniformly random and so needs no extraction.
    fn derive(&self, context: &[u8; 32]) -> Option<Keys> {
        const LABEL: &[u8] = b"session ticket ";
        let mut info = [0; LABEL.len() + 32];
        info[..LABEL.len()].copy_from_slice(LABEL);
        info[LABEL.len()..].copy_from_slice(context);
        let mut bytes = Zeroizing::new([0; CIPHER_KEY_LEN + MAC_KEY_LEN]);
        // SAFETY: all pointers are live arrays of the given lengths.
        let derived = unsafe {
            sys::HKDF_expand(
                bytes.as_mut_ptr(),
                bytes.len(),
                sys::EVP_sha256(),
                self.master.as_ptr(),
                self.master.len(),
                info.as_ptr(),
                info.len(),
            )
        };
        (derived == 1).then_some(Keys { name: self.name, bytes })
    }
}

/// One master with the name that its tickets carry, for several processes. Wiped when dropped.
#[derive(Clone)]
pub struct TicketMaster(Zeroizing<[u8; TicketMaster::BYTES]>);

impl std::fmt::Debug for TicketMaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketMaster")
    }
}

impl TicketMaster {
    /// Length of what [`TicketMaster::bytes`] gives.
    pub const BYTES: usize = GENERATION_LEN;

    /// A new one.
    pub fn random() -> TicketMaster {
        let Generation { name, master } = Generation::random();
        let mut bytes = Zeroizing::new([0; TicketMaster::BYTES]);
        bytes[..NAME_LEN].copy_from_slice(&name);
        bytes[NAME_LEN..].copy_from_slice(&*master);
        TicketMaster(bytes)
    }

    /// One that [`TicketMaster::bytes`] gave; none of another length.
    pub fn of(bytes: &[u8]) -> Option<TicketMaster> {
        Some(TicketMaster(Zeroizing::new(bytes.try_into().ok()?)))
    }

    /// Name and master.
    pub fn bytes(&self) -> &[u8; TicketMaster::BYTES] {
        &self.0
    }

    fn generation(&self) -> Option<Generation> {
        Generation::of(&*self.0)
    }
}

/// Masters that several processes share: a ticket of one of them opens at all, also while some have not heard of a rotation yet.
#[derive(Debug, Clone)]
pub struct SharedMasters {
    /// Seals and opens.
    pub current: TicketMaster,
    /// Opens; seals after the next rotation.
    pub next: TicketMaster,
    /// Opens what was sealed before the last rotation.
    pub previous: Option<TicketMaster>,
}

impl SharedMasters {
    /// New ones.
    pub fn random() -> SharedMasters {
        SharedMasters { current: TicketMaster::random(), next: TicketMaster::random(), previous: None }
    }

    /// Those after a rotation.
    #[must_use]
    pub fn rotated(&self) -> SharedMasters {
        let SharedMasters { current, next, .. } = self.clone();
        SharedMasters { current: next, next: TicketMaster::random(), previous: Some(current) }
    }
}

/// The masters of a process on their way to the one that takes over from it.
pub struct TicketSecrets(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for TicketSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketSecrets")
    }
}

impl TicketSecrets {
    /// Takes what [`TicketSecrets::bytes`] gave elsewhere. Whether they are any good shows when they are used.
    pub fn new(bytes: Vec<u8>) -> TicketSecrets {
        TicketSecrets(Zeroizing::new(bytes))
    }

    /// The masters with their names alone.
    pub fn masters(&self) -> &[u8] {
        self.0.get(AGE_LEN..).unwrap_or_default()
    }

    /// As bytes: how long the current master has sealed, in milliseconds; then name and master of the current and of the previous one.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The keys of one generation for one context: for the cipher, then for the MAC.
pub(crate) struct Keys {
    pub(crate) name: [u8; NAME_LEN],
    pub(crate) bytes: Zeroizing<[u8; CIPHER_KEY_LEN + MAC_KEY_LEN]>,
}

impl TicketKeys {
    /// A fresh random master that rotates every `period` (at most 24 h).
    pub fn new(period: Duration) -> TicketKeys {
        let ring = Ring { current: Generation::random(), previous: None, next: None, since: Instant::now() };
        TicketKeys { period: period.min(MAX_PERIOD), ring: RwLock::new(ring) }
    }

    /// The masters, for the process that takes over.
    pub fn secrets(&self) -> TicketSecrets {
        self.refresh(Instant::now());
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Zeroizing::new(Vec::with_capacity(AGE_LEN + 2 * GENERATION_LEN));
        let age = u64::try_from(ring.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        bytes.extend_from_slice(&age.to_be_bytes());
        for generation in std::iter::once(&ring.current).chain(&ring.previous) {
            bytes.extend_from_slice(&generation.name);
            bytes.extend_from_slice(&*generation.master);
        }
        TicketSecrets(bytes)
    }

    /// Goes on with the masters of another process; none if these are none.
    pub fn with(period: Duration, secrets: &TicketSecrets) -> Option<TicketKeys> {
        let (age, generations) = secrets.bytes().split_first_chunk::<AGE_LEN>()?;
        let mut generations = generations.chunks(GENERATION_LEN).map(Generation::of);
        let (current, previous) = (generations.next()??, generations.next());
        let previous = match previous {
            None => None,
            Some(previous) => Some(previous?),
        };
        if generations.next().is_some() {
            return None;
        }
        let keys = TicketKeys::new(period);
        let since = ago(Duration::from_millis(u64::from_be_bytes(*age)));
        *keys.write() = Ring { current, previous, next: None, since };
        Some(keys)
    }

    /// Goes on with masters that other processes have, too, and of which the current one has sealed for so long.
    pub fn share(&self, masters: &SharedMasters, age: Duration) {
        let SharedMasters { current, next, previous } = masters;
        let previous = previous.as_ref().and_then(TicketMaster::generation);
        if let (Some(current), next) = (current.generation(), next.generation()) {
            *self.write() = Ring { current, previous, next, since: ago(age) };
        }
    }

    /// Rotates now; the previous generation stays for opening only.
    pub fn rotate(&self) {
        self.write().rotate(Instant::now());
    }

    /// How long a session stays resumable: as long as some key can open its ticket.
    pub(crate) fn session_lifetime(&self) -> Duration {
        (self.period * 2).min(MAX_PERIOD)
    }

    /// Rotates if the current generation has sealed for a period. A generation that should have gone while nobody asked goes now.
    fn refresh(&self, now: Instant) {
        let is_due = |ring: &Ring| now.saturating_duration_since(ring.since) >= self.period;
        let due = is_due(&self.ring.read().unwrap_or_else(PoisonError::into_inner));
        if !due {
            return;
        }
        let mut ring = self.write();
        if is_due(&ring) {
            let overdue = now.saturating_duration_since(ring.since) >= self.period * 2;
            ring.rotate(now);
            if overdue {
                ring.previous = None;
            }
        }
    }

    /// The keys that seal.
    pub(crate) fn sealing(&self, context: &[u8; 32], now: Instant) -> Option<Keys> {
        self.refresh(now);
        self.ring.read().unwrap_or_else(PoisonError::into_inner).current.derive(context)
    }

    /// The keys that open a ticket of this name, and whether it should be renewed.
    pub(crate) fn opening(&self, name: &[u8], context: &[u8; 32], now: Instant) -> Option<(Keys, bool)> {
        self.refresh(now);
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        if ring.current.name == name {
            return Some((ring.current.derive(context)?, false));
        }
        if let Some(next) = ring.next.as_ref().filter(|next| next.name == name) {
            return Some((next.derive(context)?, false));
        }
        let previous = ring.previous.as_ref().filter(|previous| previous.name == name)?;
        Some((previous.derive(context)?, true))
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Ring> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When that was. A machine may have run for less time than a master was used on another one.
fn ago(age: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(age).unwrap_or(now)
}

impl Ring {
    fn rotate(&mut self, now: Instant) {
        let next = self.next.take().unwrap_or_else(Generation::random);
        self.previous = Some(std::mem::replace(&mut self.current, next));
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Whether a ticket sealed at the start still opens after `elapsed`, and whether it is renewed then.
    fn opens_after(uses: &[Duration], elapsed: Duration) -> Option<bool> {
        let keys = TicketKeys::new(HOUR);
        let start = keys.ring.read().unwrap().since;
        let sealed = keys.sealing(&[1; 32], start).unwrap();
        for used in uses {
            keys.sealing(&[1; 32], start + *used).unwrap();
        }
        let opened = keys.opening(&sealed.name, &[1; 32], start + elapsed);
        opened.map(|(opened, renew)| {
            assert!(opened.bytes == sealed.bytes, "the same keys open");
            renew
        })
    }

    #[test]
    fn generations_follow_the_clock() {
        let minute = Duration::from_secs(60);
        assert_eq!(opens_after(&[], HOUR - minute), Some(false));
        assert_eq!(opens_after(&[], HOUR), Some(true));
        assert_eq!(opens_after(&[], HOUR * 2 - minute), Some(true));
        assert_eq!(
            opens_after(&[], HOUR * 2),
            None,
            "nobody asked for two periods: the old generation is gone all the same"
        );
        assert_eq!(opens_after(&[HOUR], HOUR * 2), None, "rotated twice by use");
        assert_eq!(opens_after(&[HOUR], HOUR * 2 - minute), Some(true));
    }

    #[test]
    fn contexts_have_keys_of_their_own() {
        let keys = TicketKeys::new(HOUR);
        let now = Instant::now();
        let one = keys.sealing(&[1; 32], now).unwrap();
        let other = keys.sealing(&[2; 32], now).unwrap();
        assert!(one.name == other.name && one.bytes != other.bytes);
    }

    #[test]
    fn another_process_goes_on_with_the_same_masters_and_the_same_age() {
        let keys = TicketKeys::new(HOUR);
        let first = keys.sealing(&[1; 32], Instant::now()).unwrap();
        let check = |keys: &TicketKeys, renew: bool| {
            let next = TicketKeys::with(HOUR, &keys.secrets()).unwrap();
            let (opened, renewed) = next.opening(&first.name, &[1; 32], Instant::now()).unwrap();
            assert!(opened.bytes == first.bytes && renewed == renew);
            let age = |keys: &TicketKeys| keys.ring.read().unwrap().since.elapsed();
            assert!(age(&next).abs_diff(age(keys)) < Duration::from_secs(60));
        };
        check(&keys, false);
        keys.rotate();
        check(&keys, true);
        let whole = keys.secrets().bytes().to_vec();
        for length in [0, 8, 55, 57, 103] {
            assert!(TicketKeys::with(HOUR, &TicketSecrets::new(whole[..length].to_vec())).is_none(), "{length} bytes");
        }
        assert!(TicketKeys::with(HOUR, &TicketSecrets::new([&whole[..], &[0; 48]].concat())).is_none());
        let mut old = whole;
        old[..8].fill(255);
        assert!(TicketKeys::with(HOUR, &TicketSecrets::new(old)).is_some(), "older than the machine");
    }

    #[test]
    fn shared_masters_open_at_all_also_before_and_after_a_rotation_that_one_missed() {
        let (one, late) = (TicketKeys::new(HOUR), TicketKeys::new(HOUR));
        let opens = |keys: &TicketKeys, sealed: &Keys| {
            let opened = keys.opening(&sealed.name, &[1; 32], Instant::now());
            opened.map(|(opened, renew)| {
                assert!(opened.bytes == sealed.bytes);
                renew
            })
        };
        let seal = |keys: &TicketKeys| keys.sealing(&[1; 32], Instant::now()).unwrap();
        let first = SharedMasters::random();
        one.share(&first, Duration::ZERO);
        late.share(&first, Duration::ZERO);
        let early = seal(&one);
        assert_eq!((opens(&one, &early), opens(&late, &early)), (Some(false), Some(false)));
        let second = first.rotated();
        one.share(&second, Duration::ZERO);
        let sealed = seal(&one);
        assert!(sealed.name != early.name);
        assert_eq!(opens(&late, &sealed), Some(false), "it knows what comes next");
        assert_eq!((opens(&one, &seal(&late)), opens(&one, &early)), (Some(true), Some(true)));
        // Who hears nothing any more goes on with what comes next, when it is due.
        late.share(&first, HOUR);
        assert!(seal(&late).name == sealed.name);
        late.share(&second.rotated(), Duration::ZERO);
        assert_eq!(opens(&late, &early), None, "two rotations are the end of a ticket");
        assert_eq!(opens(&late, &sealed), Some(true));
        // Another process that takes over from it needs no more than what it may still have to open.
        let next = TicketKeys::with(HOUR, &late.secrets()).unwrap();
        assert_eq!(opens(&next, &sealed), Some(true));
    }

    #[test]
    fn periods_are_bounded() {
        assert_eq!(TicketKeys::new(HOUR * 48).period, MAX_PERIOD);
        assert_eq!(TicketKeys::new(HOUR).session_lifetime(), HOUR * 2);
        assert_eq!(TicketKeys::new(MAX_PERIOD).session_lifetime(), MAX_PERIOD);
    }
}
