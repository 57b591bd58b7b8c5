//! Session-ticket keys: one rotating master, from which every context derives its own (RFC 5077, RFC 8446 §4.6.1).
//!
//! Owns the secrets and when they change. Tickets themselves are made and opened by the library, which asks `tickets` for keys.

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

/// The rotating master secret, shared by all workers and kept across reloads. Random at start. The current generation seals and opens, the
/// previous one only opens.
#[derive(Debug)]
pub struct TicketKeys {
    period: Duration,
    ring: RwLock<Ring>,
}

struct Ring {
    current: Generation,
    previous: Option<Generation>,
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
    master: Zeroizing<[u8; 32]>,
}

impl Generation {
    fn random() -> Generation {
        let mut generation = Generation { name: [0; NAME_LEN], master: Zeroizing::new([0; 32]) };
        // SAFETY: both are live arrays of the given lengths. The library aborts rather than return without randomness.
        unsafe {
            sys::RAND_bytes(generation.name.as_mut_ptr(), NAME_LEN);
            sys::RAND_bytes(generation.master.as_mut_ptr(), generation.master.len());
        }
        generation
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

/// The keys of one generation for one context: for the cipher, then for the MAC.
pub(crate) struct Keys {
    pub(crate) name: [u8; NAME_LEN],
    pub(crate) bytes: Zeroizing<[u8; CIPHER_KEY_LEN + MAC_KEY_LEN]>,
}

impl TicketKeys {
    /// A fresh random master that rotates every `period` (at most 24 h).
    pub fn new(period: Duration) -> TicketKeys {
        let ring = Ring { current: Generation::random(), previous: None, since: Instant::now() };
        TicketKeys { period: period.min(MAX_PERIOD), ring: RwLock::new(ring) }
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
        let previous = ring.previous.as_ref().filter(|previous| previous.name == name)?;
        Some((previous.derive(context)?, true))
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Ring> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn rotate(&mut self, now: Instant) {
        self.previous = Some(std::mem::replace(&mut self.current, Generation::random()));
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
    fn periods_are_bounded() {
        assert_eq!(TicketKeys::new(HOUR * 48).period, MAX_PERIOD);
        assert_eq!(TicketKeys::new(HOUR).session_lifetime(), HOUR * 2);
        assert_eq!(TicketKeys::new(MAX_PERIOD).session_lifetime(), MAX_PERIOD);
    }
}
