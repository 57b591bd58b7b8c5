//! The library's calls for a private key that is elsewhere: each operation is noted for the session's owner, and the library told to come again.
//!
//! Decides nothing and asks nobody: what is asked and how the response is checked stands in `remote`.

use crate::link::Link;
use crate::remote::{KeyRequest, KeyResponse};
use crate::scheme;
use aws_lc_sys as sys;
use std::slice;
use std::sync::Arc;
use wire::keyless::Operation;

/// How the library reaches a remote key. Static, as the library keeps the pointer.
pub(crate) static METHOD: sys::SSL_PRIVATE_KEY_METHOD =
    sys::SSL_PRIVATE_KEY_METHOD { sign: Some(sign), decrypt: Some(decrypt), complete: Some(complete) };

const SUCCESS: sys::ssl_private_key_result_t = sys::ssl_private_key_result_t_ssl_private_key_success;
const RETRY: sys::ssl_private_key_result_t = sys::ssl_private_key_result_t_ssl_private_key_retry;
const FAILURE: sys::ssl_private_key_result_t = sys::ssl_private_key_result_t_ssl_private_key_failure;

/// Notes a signature to be made over `input`, which lives for the call.
unsafe extern "C" fn sign(
    ssl: *mut sys::SSL,
    _out: *mut u8,
    _out_len: *mut usize,
    _max_out: usize,
    number: u16,
    input: *const u8,
    input_len: usize,
) -> sys::ssl_private_key_result_t {
    // SAFETY: the library calls with a live session of ours and that many readable bytes.
    let (link, message) = unsafe { (Link::of(ssl), slice::from_raw_parts(input, input_len)) };
    let request = scheme::operation(number).and_then(|operation| Some((operation, scheme::input(operation, message)?)));
    begin(link, request)
}

/// Notes a ciphertext to be decrypted.
unsafe extern "C" fn decrypt(
    ssl: *mut sys::SSL,
    _out: *mut u8,
    _out_len: *mut usize,
    _max_out: usize,
    input: *const u8,
    input_len: usize,
) -> sys::ssl_private_key_result_t {
    // SAFETY: as in `sign`.
    let (link, ciphertext) = unsafe { (Link::of(ssl), slice::from_raw_parts(input, input_len)) };
    begin(link, Some((Operation::RsaDecrypt, ciphertext.to_vec())))
}

fn begin(link: Option<&Link>, request: Option<(Operation, Vec<u8>)>) -> sys::ssl_private_key_result_t {
    let (Some(link), Some((operation, input))) = (link, request) else { return FAILURE };
    let noted = link.with_remote(|remote| {
        remote.request = Some(KeyRequest { operation, input, key: Arc::clone(&remote.key) });
    });
    if noted.is_some() { RETRY } else { FAILURE }
}

/// Gives the library the response, if it is there by now.
unsafe extern "C" fn complete(
    ssl: *mut sys::SSL,
    out: *mut u8,
    out_len: *mut usize,
    max_out: usize,
) -> sys::ssl_private_key_result_t {
    // SAFETY: the library calls with a live session of ours.
    let response = unsafe { Link::of(ssl) }.and_then(|link| link.with_remote(|remote| remote.response.take()));
    let Some(response) = response else { return FAILURE };
    let Some(KeyResponse(bytes)) = response else { return RETRY };
    if bytes.len() > max_out {
        return FAILURE;
    }
    // SAFETY: `out` has `max_out` writable bytes, and `out_len` is writable.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len());
        *out_len = bytes.len();
    }
    SUCCESS
}
