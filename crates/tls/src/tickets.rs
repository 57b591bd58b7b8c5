//! The library's calls for ticket keys, and how a context is set up for tickets (RFC 5077, RFC 8446 §4.6.1).

use crate::ffi;
use crate::link::Link;
use crate::ticket_keys::{CIPHER_KEY_LEN, Keys, MAC_KEY_LEN, NAME_LEN, TicketKeys};
use aws_lc_sys as sys;
use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::time::Instant;

/// AES block and IV length.
const IV_LEN: usize = 16;

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
