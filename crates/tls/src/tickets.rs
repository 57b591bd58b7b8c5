//! Session-ticket keys: one rotating master, from which every context derives its own (RFC 5077, RFC 8446 §4.6.1).
//!
//! Owns the secrets and when they change. Tickets themselves are made and opened by the library, which calls [`seal_or_open`] for keys.

use crate::ffi;
use crate::link::Link;
use aws_lc_sys as sys;
use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// No master seals for longer than this, and no session is resumed later than this after its handshake.
pub(crate) const MAX_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Length of a ticket's key name (RFC 5077 §4).
const NAME_LEN: usize = 16;
/// AES block and IV length.
const IV_LEN: usize = 16;
/// AES-128 key length.
const CIPHER_KEY_LEN: usize = 16;
/// HMAC-SHA256 key length.
const MAC_KEY_LEN: usize = 32;

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
struct Keys {
    name: [u8; NAME_LEN],
    bytes: Zeroizing<[u8; CIPHER_KEY_LEN + MAC_KEY_LEN]>,
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
    fn sealing(&self, context: &[u8; 32], now: Instant) -> Option<Keys> {
        self.refresh(now);
        self.ring.read().unwrap_or_else(PoisonError::into_inner).current.derive(context)
    }

    /// The keys that open a ticket of this name, and whether it should be renewed.
    fn opening(&self, name: &[u8], context: &[u8; 32], now: Instant) -> Option<(Keys, bool)> {
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

/// Sets the keys for sealing or opening one ticket. `SSL_CTX_set_tlsext_ticket_key_cb`: 1 goes on, 2 also renews, 0 ignores the ticket (a full
/// handshake follows), -1 ends the handshake.
pub(crate) unsafe extern "C" fn seal_or_open(
    ssl: *mut sys::SSL,
    name: *mut u8,
    iv: *mut u8,
    cipher: *mut sys::EVP_CIPHER_CTX,
    mac: *mut sys::HMAC_CTX,
    encrypt: c_int,
) -> c_int {
    // A panic must not unwind into the library.
    catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the library calls with a live session of ours, fresh contexts, a name of 16 bytes and room for (or the rest of a ticket
        // that is at least) the longest IV. When opening, name and IV are only read.
        unsafe {
            let link = Link::of(ssl)?;
            let opening = link.opening.take()?;
            let response = match opening.ticket_context() {
                Some(context) if encrypt != 0 => seal(&opening.tickets, context, name, iv, cipher, mac),
                Some(context) => open(&opening.tickets, context, name, iv, cipher, mac),
                None => None,
            };
            link.opening.set(Some(opening));
            response
        }
    }))
    .ok()
    .flatten()
    .unwrap_or(-1)
}

/// # Safety
/// `name` and `iv` point at 16 writable bytes each, `cipher` and `mac` at fresh contexts.
unsafe fn seal(
    tickets: &TicketKeys,
    context: &[u8; 32],
    name: *mut u8,
    iv: *mut u8,
    cipher: *mut sys::EVP_CIPHER_CTX,
    mac: *mut sys::HMAC_CTX,
) -> Option<c_int> {
    let keys = tickets.sealing(context, Instant::now())?;
    // SAFETY: as the caller promised; the keys have the lengths of the algorithms.
    unsafe {
        ptr::copy_nonoverlapping(keys.name.as_ptr(), name, NAME_LEN);
        sys::RAND_bytes(iv, IV_LEN);
        let key = keys.bytes.as_ptr();
        (sys::EVP_EncryptInit_ex(cipher, sys::EVP_aes_128_cbc(), ptr::null_mut(), key, iv) == 1).then_some(())?;
        set_mac(mac, &keys)
    }
}

/// # Safety
/// `name` and `iv` point at 16 readable bytes each, `cipher` and `mac` at fresh contexts.
unsafe fn open(
    tickets: &TicketKeys,
    context: &[u8; 32],
    name: *const u8,
    iv: *const u8,
    cipher: *mut sys::EVP_CIPHER_CTX,
    mac: *mut sys::HMAC_CTX,
) -> Option<c_int> {
    // SAFETY: as the caller promised.
    let name = unsafe { slice::from_raw_parts(name, NAME_LEN) };
    let Some((keys, renew)) = tickets.opening(name, context, Instant::now()) else {
        return Some(0);
    };
    // SAFETY: as the caller promised; the keys have the lengths of the algorithms.
    unsafe {
        let key = keys.bytes.as_ptr();
        (sys::EVP_DecryptInit_ex(cipher, sys::EVP_aes_128_cbc(), ptr::null_mut(), key, iv) == 1).then_some(())?;
        set_mac(mac, &keys)?;
    }
    Some(if renew { 2 } else { 1 })
}

/// # Safety
/// `mac` is a fresh context.
unsafe fn set_mac(mac: *mut sys::HMAC_CTX, keys: &Keys) -> Option<c_int> {
    let key = keys.bytes[CIPHER_KEY_LEN..].as_ptr();
    // SAFETY: `key` points at the last `MAC_KEY_LEN` bytes of the keys.
    let set = unsafe { sys::HMAC_Init_ex(mac, key.cast(), MAC_KEY_LEN, sys::EVP_sha256(), ptr::null_mut()) };
    (set == 1).then_some(1)
}

/// Switches a context's tickets to ours: one per handshake, no cache beside them, no early data.
pub(crate) fn set_up(context: &ffi::Owned<sys::SSL_CTX>, tickets: &TicketKeys) -> Result<(), crate::Error> {
    // At most 86,400.
    let seconds = tickets.session_lifetime().as_secs().max(1) as u32;
    // SAFETY: set-up calls on a live context that is not shared yet.
    unsafe {
        sys::SSL_CTX_set_session_cache_mode(context.as_ptr(), sys::SSL_SESS_CACHE_OFF);
        sys::SSL_CTX_set_timeout(context.as_ptr(), seconds);
        sys::SSL_CTX_set_session_psk_dhe_timeout(context.as_ptr(), seconds);
        sys::SSL_CTX_set_early_data_enabled(context.as_ptr(), 0);
        ffi::check(sys::SSL_CTX_set_num_tickets(context.as_ptr(), 1), "setting the number of tickets")?;
        let set = sys::SSL_CTX_set_tlsext_ticket_key_cb(context.as_ptr(), Some(seal_or_open));
        ffi::check(set, "setting ticket keys")
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
