//! Owned handles over the libcrypto objects that this folder uses for the length of one call, and never longer.

use super::{Curve, Error, KeyKind};
use crate::ffi::Owned;
use aws_lc_sys as sys;
use std::ptr::{self, NonNull};
use zeroize::{Zeroize, Zeroizing};

/// Reads a SubjectPublicKeyInfo (RFC 5280 §4.1) that fills `spki` exactly.
///
/// # Errors
/// [`Error::Malformed`] if it is none.
pub(super) fn public_key(spki: &[u8]) -> Result<(Owned<sys::EVP_PKEY>, KeyKind), Error> {
    clear_errors();
    let mut input = sys::CBS { data: spki.as_ptr(), len: spki.len() };
    // SAFETY: `input` covers `spki`, which outlives the call; the call only advances `input` within it. The key returned is ours.
    let key = unsafe { Owned::from_raw(sys::EVP_parse_public_key(&raw mut input), "reading a public key") };
    clear_errors();
    let key = key.map_err(|_| Error::Malformed("not a public key"))?;
    if input.len != 0 {
        return Err(Error::Malformed("bytes after the public key"));
    }
    // SAFETY: the key is live.
    let kind = unsafe { kind_of(key.as_ptr()) };
    Ok((key, kind))
}

/// Declares an owning pointer that is freed by the named function when dropped.
macro_rules! owned {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $free:path) => {
        $(#[$doc])*
        pub(super) struct $name(NonNull<$raw>);

        impl $name {
            /// Takes ownership of what a library call returned; null becomes `error`.
            ///
            /// # Safety
            /// `raw` is null, or a live object that nobody else frees.
            pub(super) unsafe fn own(raw: *mut $raw, error: Error) -> Result<$name, Error> {
                NonNull::new(raw).map($name).ok_or(error)
            }

            /// The pointer, valid as long as `self`.
            pub(super) fn as_ptr(&self) -> *mut $raw {
                self.0.as_ptr()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the pointer came from the matching constructor, is owned by this value alone and is freed once.
                unsafe { $free(self.0.as_ptr()) };
            }
        }
    };
}

/// Frees a memory BIO, whose free function returns a status that says nothing here.
unsafe fn free_bio(bio: *mut sys::BIO) {
    // SAFETY: forwarded from the caller: a live BIO, freed once.
    unsafe { sys::BIO_free(bio) };
}

owned!(
    /// A parsed certificate.
    X509,
    sys::X509,
    sys::X509_free
);
owned!(
    /// A parsed key, public or private.
    Pkey,
    sys::EVP_PKEY,
    sys::EVP_PKEY_free
);
owned!(
    /// A growing buffer that the library prints into.
    Bio,
    sys::BIO,
    free_bio
);
owned!(
    /// The general names of one extension.
    GeneralNames,
    sys::GENERAL_NAMES,
    sys::GENERAL_NAMES_free
);
owned!(
    /// A cipher in progress.
    CipherContext,
    sys::EVP_CIPHER_CTX,
    sys::EVP_CIPHER_CTX_free
);

impl Pkey {
    /// Parses a PKCS#8 PrivateKeyInfo that fills `der` exactly.
    pub(super) fn from_pkcs8(der: &[u8]) -> Result<Pkey, Error> {
        clear_errors();
        let mut input = sys::CBS { data: der.as_ptr(), len: der.len() };
        // SAFETY: `input` covers `der`, which outlives the call; the call only advances `input` within it.
        let key =
            unsafe { Pkey::own(sys::EVP_parse_private_key(&mut input), Error::Malformed("no valid private key")) };
        clear_errors();
        let key = key?;
        if input.len != 0 {
            return Err(Error::Malformed("bytes after the private key"));
        }
        Ok(key)
    }

    /// What kind of key it is.
    pub(super) fn kind(&self) -> KeyKind {
        // SAFETY: `self` is a live EVP_PKEY; the calls read it only.
        unsafe { kind_of(self.as_ptr()) }
    }

    /// The PKCS#8 form as the library writes it, canonical.
    pub(super) fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        // SAFETY: `self` is live; the callback writes through a live CBB.
        collect(|out| unsafe { sys::EVP_marshal_private_key(out, self.as_ptr()) })
    }

    /// The SubjectPublicKeyInfo.
    pub(super) fn to_spki(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: `self` is live; the callback writes through a live CBB.
        let mut spki = collect(|out| unsafe { sys::EVP_marshal_public_key(out, self.as_ptr()) })?;
        Ok(std::mem::take(&mut *spki))
    }
}

/// The kind of a key.
///
/// # Safety
/// `key` is a live EVP_PKEY.
pub(super) unsafe fn kind_of(key: *mut sys::EVP_PKEY) -> KeyKind {
    // SAFETY: live by the caller's promise; the EC_KEY and its group are borrowed from it and not kept.
    unsafe {
        match sys::EVP_PKEY_id(key) {
            sys::EVP_PKEY_RSA => KeyKind::Rsa { bits: u32::try_from(sys::EVP_PKEY_bits(key)).unwrap_or(0) },
            sys::EVP_PKEY_ED25519 => KeyKind::Ed25519,
            sys::EVP_PKEY_EC => {
                let ec = sys::EVP_PKEY_get0_EC_KEY(key);
                let group = if ec.is_null() { ptr::null() } else { sys::EC_KEY_get0_group(ec) };
                if group.is_null() {
                    return KeyKind::Other;
                }
                match sys::EC_GROUP_get_curve_name(group) {
                    sys::NID_X9_62_prime256v1 => KeyKind::Ec(Curve::P256),
                    sys::NID_secp384r1 => KeyKind::Ec(Curve::P384),
                    sys::NID_secp521r1 => KeyKind::Ec(Curve::P521),
                    _ => KeyKind::Other,
                }
            }
            _ => KeyKind::Other,
        }
    }
}

/// Runs a library call that appends to a CBB and returns what it wrote. The library's copy is wiped.
fn collect(write: impl FnOnce(*mut sys::CBB) -> std::os::raw::c_int) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut cbb = std::mem::MaybeUninit::<sys::CBB>::uninit();
    // SAFETY: CBB_init initialises `cbb` or fails; after that every path ends in CBB_finish or CBB_cleanup, once. The finished buffer is
    // `length` bytes owned by us, which are copied, wiped and given back to the library's allocator.
    unsafe {
        if sys::CBB_init(cbb.as_mut_ptr(), 256) != 1 {
            return Err(Error::Library);
        }
        let (mut data, mut length) = (ptr::null_mut(), 0);
        if write(cbb.as_mut_ptr()) != 1 || sys::CBB_finish(cbb.as_mut_ptr(), &mut data, &mut length) != 1 {
            sys::CBB_cleanup(cbb.as_mut_ptr());
            clear_errors();
            return Err(Error::Library);
        }
        let written = std::slice::from_raw_parts_mut(data, length);
        let copy = Zeroizing::new(written.to_vec());
        written.zeroize();
        sys::OPENSSL_free(data.cast());
        Ok(copy)
    }
}

/// Empties this thread's error queue, so that a later call does not read a stale reason.
pub(super) fn clear_errors() {
    // SAFETY: touches only thread-local state of the library.
    unsafe { sys::ERR_clear_error() };
}
