//! Certificate stores: the roots and revocation lists a peer is verified against.
//!
//! A store trusts what it is given and nothing else; there are no built-in roots. Ruled by RFC 5280 §6.

use crate::Error;
use crate::ffi::{self, Owned};
use aws_lc_sys as sys;
use std::os::raw::{c_int, c_long, c_ulong};
use std::ptr;

/// A store of `roots` and `crls` (DER). With lists, every certificate of a chain must be covered by a current one.
///
/// # Errors
/// A root or list does not parse: which one, and why.
pub(crate) fn store(roots: &[Vec<u8>], crls: &[Vec<u8>]) -> Result<Owned<sys::X509_STORE>, Error> {
    // SAFETY: a fresh store is ours.
    let store = unsafe { Owned::from_raw(sys::X509_STORE_new(), "making a certificate store")? };
    for (index, der) in roots.iter().enumerate() {
        let root = certificate(der).map_err(|error| indexed("trusted root", index, &error))?;
        // SAFETY: both are live; the store takes a reference of its own.
        let added = unsafe { sys::X509_STORE_add_cert(store.as_ptr(), root.as_ptr()) };
        ffi::check(added, "trusting a root").map_err(|error| indexed("trusted root", index, &error))?;
    }
    for (index, der) in crls.iter().enumerate() {
        let list = revocation_list(der).map_err(|error| indexed("revocation list", index, &error))?;
        // SAFETY: both are live; the store takes a reference of its own.
        let added = unsafe { sys::X509_STORE_add_crl(store.as_ptr(), list.as_ptr()) };
        ffi::check(added, "adding a revocation list").map_err(|error| indexed("revocation list", index, &error))?;
    }
    if !crls.is_empty() {
        let flags = (sys::X509_V_FLAG_CRL_CHECK | sys::X509_V_FLAG_CRL_CHECK_ALL) as c_ulong;
        // SAFETY: the store is live and not shared yet.
        ffi::check(unsafe { sys::X509_STORE_set_flags(store.as_ptr(), flags) }, "demanding revocation lists")?;
    }
    Ok(store)
}

fn indexed(kind: &str, index: usize, error: &Error) -> Error {
    Error::Ours(format!("{kind} {index}: {error}").into())
}

/// A certificate that fills `der`.
///
/// # Errors
/// It does not parse.
pub(crate) fn certificate(der: &[u8]) -> Result<Owned<sys::X509>, Error> {
    // SAFETY: `d2i_X509` fits the contract of `parse`.
    unsafe { parse(der, sys::d2i_X509, "not a certificate") }
}

fn revocation_list(der: &[u8]) -> Result<Owned<sys::X509_CRL>, Error> {
    // SAFETY: `d2i_X509_CRL` fits the contract of `parse`.
    unsafe { parse(der, sys::d2i_X509_CRL, "not a revocation list") }
}

/// # Safety
/// `read` is one of the library's `d2i` functions for `T`.
unsafe fn parse<T: ffi::Foreign>(
    der: &[u8],
    read: unsafe extern "C" fn(*mut *mut T, *mut *const u8, c_long) -> *mut T,
    what: &str,
) -> Result<Owned<T>, Error> {
    let mut cursor = der.as_ptr();
    let len = c_long::try_from(der.len()).map_err(|_| Error::Ours(what.into()))?;
    // SAFETY: the cursor points at `len` readable bytes and is advanced within them; with a null target a new object is returned, which is ours.
    let object = unsafe { Owned::from_raw(read(ptr::null_mut(), &raw mut cursor, len), what)? };
    if cursor == der.as_ptr_range().end {
        Ok(object)
    } else {
        Err(Error::Ours(format!("{what}: bytes after its end").into()))
    }
}

/// What a library `i2d` function writes for an object.
///
/// # Safety
/// `write` is one of the library's `i2d` functions for `T`, and `object` is live.
pub(crate) unsafe fn der<T>(
    object: *mut T,
    write: unsafe extern "C" fn(*mut T, *mut *mut u8) -> c_int,
) -> Option<Vec<u8>> {
    // SAFETY: with a null target the function only answers with the length.
    let len = usize::try_from(unsafe { write(object, ptr::null_mut()) }).ok()?;
    let mut bytes = vec![0; len];
    let mut cursor = bytes.as_mut_ptr();
    // SAFETY: the cursor points at as many writable bytes as the function just said it needs.
    let written = unsafe { write(object, &raw mut cursor) };
    (usize::try_from(written) == Ok(len)).then_some(bytes)
}
