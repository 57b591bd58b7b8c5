//! Owned handles over AWS-LC pointers, and the error queue.
//!
//! A handle owns exactly one reference and gives it up when dropped. Nothing here knows what the objects are for.

use crate::{Alert, Error};
use aws_lc_sys as sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_char;
use std::ptr::NonNull;

/// A library object that is given up by one call.
///
/// # Safety
/// `release` must give up exactly the one reference that a handle owns.
pub(crate) unsafe trait Foreign {
    /// Gives up one reference.
    ///
    /// # Safety
    /// `object` is live, and the caller owns a reference it will not use again.
    unsafe fn release(object: *mut Self);
}

/// A library object with an atomic reference count that several threads may use at once.
///
/// # Safety
/// The object is immutable once shared, or locks itself; `retain` adds exactly one reference.
pub(crate) unsafe trait Shared: Foreign {
    /// Takes another reference.
    ///
    /// # Safety
    /// `object` is live.
    unsafe fn retain(object: *mut Self);
}

macro_rules! foreign {
    ($($type:ident => $release:ident $(, $retain:ident)?;)*) => {$(
        // SAFETY: the library's own release function for this type, which gives up one reference (or the object, if it has no count).
        unsafe impl Foreign for sys::$type {
            unsafe fn release(object: *mut Self) {
                // SAFETY: passed on to the caller.
                unsafe { sys::$release(object) };
            }
        }
        $(
            // SAFETY: the count is atomic, and we change none of these after handing them to sessions; what the library itself
            // changes in them (caches) it locks.
            unsafe impl Shared for sys::$type {
                unsafe fn retain(object: *mut Self) {
                    // SAFETY: passed on to the caller.
                    unsafe { sys::$retain(object) };
                }
            }
        )?
    )*};
}

foreign! {
    SSL => SSL_free;
    SSL_CTX => SSL_CTX_free, SSL_CTX_up_ref;
    SSL_SESSION => SSL_SESSION_free, SSL_SESSION_up_ref;
    EVP_PKEY => EVP_PKEY_free, EVP_PKEY_up_ref;
    CRYPTO_BUFFER => CRYPTO_BUFFER_free, CRYPTO_BUFFER_up_ref;
    X509_STORE => X509_STORE_free, X509_STORE_up_ref;
    SSL_ECH_KEYS => SSL_ECH_KEYS_free, SSL_ECH_KEYS_up_ref;
    EVP_HPKE_KEY => EVP_HPKE_KEY_free;
    X509_STORE_CTX => X509_STORE_CTX_free;
    X509 => X509_free;
    X509_CRL => X509_CRL_free;
    BIO => BIO_free;
    stack_st_GENERAL_NAME => GENERAL_NAMES_free;
}

/// One owned reference to a library object; the same in memory as the pointer.
#[repr(transparent)]
pub(crate) struct Owned<T: Foreign>(NonNull<T>);

impl<T: Foreign> Owned<T> {
    /// Takes over what a library call returned.
    ///
    /// # Errors
    /// The call returned null: our fault, with its reason.
    ///
    /// # Safety
    /// `pointer` is null or carries a reference that becomes this handle's.
    pub(crate) unsafe fn from_raw(pointer: *mut T, what: &str) -> Result<Owned<T>, Error> {
        NonNull::new(pointer).map(Owned).ok_or_else(|| Error::ours(what))
    }

    /// The pointer, for calls that only borrow it. Many library functions take `*mut` for objects they merely read.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Hands the reference over to a call that takes it.
    pub(crate) fn into_raw(self) -> *mut T {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }
}

impl<T: Foreign> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the handle owns one reference and is never used again.
        unsafe { T::release(self.0.as_ptr()) };
    }
}

impl<T: Shared> Clone for Owned<T> {
    fn clone(&self) -> Self {
        // SAFETY: the object is live while we hold a reference.
        unsafe { T::retain(self.0.as_ptr()) };
        Owned(self.0)
    }
}

impl<T: Foreign> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}

// SAFETY: what `Shared` promises.
unsafe impl<T: Shared> Send for Owned<T> {}
// SAFETY: what `Shared` promises.
unsafe impl<T: Shared> Sync for Owned<T> {}

/// `Ok` for the library's usual answer of 1.
///
/// # Errors
/// Any other response: our fault, named `what`, with the library's reason.
pub(crate) fn check(response: std::os::raw::c_int, what: &str) -> Result<(), Error> {
    if response == 1 { Ok(()) } else { Err(Error::ours(what)) }
}

/// A copy of `bytes` as the library keeps certificates.
///
/// # Errors
/// Out of memory.
pub(crate) fn buffer(bytes: &[u8]) -> Result<Owned<sys::CRYPTO_BUFFER>, Error> {
    // SAFETY: the function copies `len` bytes from a live slice; no pool is given; the result is ours.
    unsafe {
        Owned::from_raw(
            sys::CRYPTO_BUFFER_new(bytes.as_ptr(), bytes.len(), std::ptr::null_mut()),
            "copying a certificate",
        )
    }
}

/// The bytes of a buffer.
pub(crate) fn buffer_bytes(buffer: &Owned<sys::CRYPTO_BUFFER>) -> &[u8] {
    // SAFETY: the buffer is live and immutable as long as the handle, which the result borrows; an empty one may have no data.
    unsafe {
        let (data, len) = (sys::CRYPTO_BUFFER_data(buffer.as_ptr()), sys::CRYPTO_BUFFER_len(buffer.as_ptr()));
        if data.is_null() { &[] } else { std::slice::from_raw_parts(data, len) }
    }
}

/// SHA-256.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = [0; 32];
    let mut state = std::mem::MaybeUninit::<sys::SHA256_CTX>::uninit();
    // SAFETY: `SHA256_Init` fills the state in before its other uses; each update reads a live slice; `digest` holds 32 bytes. None can fail.
    unsafe {
        sys::SHA256_Init(state.as_mut_ptr());
        for part in parts {
            sys::SHA256_Update(state.as_mut_ptr(), part.as_ptr().cast(), part.len());
        }
        sys::SHA256_Final(digest.as_mut_ptr(), state.as_mut_ptr());
    }
    digest
}

/// A C string of static lifetime as text.
///
/// # Safety
/// `text` is null or a NUL-terminated string that lives for the whole program.
pub(crate) unsafe fn static_text(text: *const c_char) -> Option<&'static str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller promised.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// One entry of the error queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault(u32);

impl Fault {
    fn library(self) -> u32 {
        self.0 >> 24
    }

    fn reason(self) -> u32 {
        self.0 & 0xfff
    }

    /// Whether libssl left it.
    pub(crate) fn is_from_ssl(self) -> bool {
        self.library() == sys::ERR_LIB_SSL as u32
    }

    /// Whether libssl gave this reason.
    pub(crate) fn is_ssl(self, reason: i32) -> bool {
        self.is_from_ssl() && self.reason() == reason as u32
    }

    /// The fatal alert that the peer sent, if that is what happened. The library reports it as reason 1000 + alert.
    pub(crate) fn alert(&self) -> Option<u8> {
        if !self.is_from_ssl() {
            return None;
        }
        self.reason().checked_sub(sys::SSL_AD_REASON_OFFSET as u32).and_then(|alert| u8::try_from(alert).ok())
    }

    /// Whether our own material or memory failed, not the peer.
    pub(crate) fn is_ours(&self) -> bool {
        const OURS: [i32; 4] = [
            sys::SSL_R_PRIVATE_KEY_OPERATION_FAILED,
            sys::SSL_R_NO_CERTIFICATE_SET,
            sys::ERR_R_MALLOC_FAILURE,
            sys::ERR_R_INTERNAL_ERROR,
        ];
        OURS.iter().any(|&reason| self.is_ssl(reason))
    }

    /// The library's name for the reason, e.g. `WRONG_VERSION_NUMBER`.
    pub(crate) fn text(&self) -> Box<str> {
        // SAFETY: the function returns null or a string from a static table.
        let reason = unsafe { static_text(sys::ERR_reason_error_string(self.0)) };
        match reason {
            Some(reason) => reason.into(),
            None => format!("library {} reason {}", self.library(), self.reason()).into(),
        }
    }
}

/// Empties this thread's error queue, so that what a call leaves behind is that call's own.
pub(crate) fn clear_errors() {
    // SAFETY: touches this thread's queue only.
    unsafe { sys::ERR_clear_error() };
}

/// Takes all entries of this thread's error queue, oldest first.
pub(crate) fn take_faults() -> Vec<Fault> {
    // SAFETY: touches this thread's queue only; zero means empty.
    std::iter::from_fn(|| match unsafe { sys::ERR_get_error() } {
        0 => None,
        packed => Some(Fault(packed)),
    })
    .collect()
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the function maps any number to a string with static lifetime.
        let name = unsafe { static_text(sys::SSL_alert_desc_string_long(self.0.into())) };
        write!(f, "{} ({})", name.unwrap_or("unknown"), self.0)
    }
}

impl Error {
    /// Our fault, with the library's first reason behind `what`. Empties the error queue.
    pub(crate) fn ours(what: &str) -> Error {
        match take_faults().first() {
            Some(fault) => Error::Ours(format!("{what}: {}", fault.text()).into()),
            None => Error::Ours(what.into()),
        }
    }
}
