//! How strong the keys and signatures of a peer's certificate chain must be, by policy.
//!
//! The library verifies that a chain is whole, current and trusted; which keys and digests are good enough is for us to say. Ruled by RFC 9325
//! §4.2 and §4.3, RFC 9155, and the widely used server configurations: what `intermediate` rejects, OpenSSL rejects at security level 2.

use crate::ffi::{self, Owned};
use crate::{Alert, Policy};
use aws_lc_sys as sys;
use std::os::raw::{c_int, c_long};

/// Bits of the smallest RSA key in a chain.
const MIN_RSA_BITS: c_int = 2048;

/// The same under `legacy`.
const LEGACY_MIN_RSA_BITS: c_int = 1024;

/// Bits of the smallest elliptic curve.
const MIN_CURVE_BITS: c_int = 256;

/// Signatures with digests of at least 112 bits of strength against collisions. RSA-PSS is here since the library takes it with these digests only.
const SIGNATURES: [i32; 10] = [
    sys::NID_sha224WithRSAEncryption,
    sys::NID_sha256WithRSAEncryption,
    sys::NID_sha384WithRSAEncryption,
    sys::NID_sha512WithRSAEncryption,
    sys::NID_rsassaPss,
    sys::NID_ecdsa_with_SHA224,
    sys::NID_ecdsa_with_SHA256,
    sys::NID_ecdsa_with_SHA384,
    sys::NID_ecdsa_with_SHA512,
    sys::NID_ED25519,
];

/// What `legacy` takes beside them.
const LEGACY_SIGNATURES: [i32; 2] = [sys::NID_sha1WithRSAEncryption, sys::NID_ecdsa_with_SHA1];

/// The text for a verification result that this module sets, or of which the library says less.
fn own_text(result: c_long) -> Option<&'static str> {
    match i32::try_from(result).ok()? {
        sys::X509_V_ERR_HOSTNAME_MISMATCH => {
            Some("the server's name is not among its subject alternative names; a common name does not count")
        }
        sys::X509_V_ERR_IP_ADDRESS_MISMATCH => {
            Some("the server's address is not among its subject alternative names; a common name does not count")
        }
        sys::X509_V_ERR_EE_KEY_TOO_SMALL => Some("its key is too small"),
        sys::X509_V_ERR_CA_KEY_TOO_SMALL => Some("the key of a CA in its chain is too small"),
        sys::X509_V_ERR_CA_MD_TOO_WEAK => Some("its chain holds a signature with a digest that is too weak"),
        _ => None,
    }
}

/// The text for a verification result.
pub(crate) fn text(result: c_long) -> &'static str {
    // SAFETY: the function maps any number to a string with static lifetime.
    let theirs = || unsafe { ffi::static_text(sys::X509_verify_cert_error_string(result)) };
    own_text(result).or_else(theirs).unwrap_or("verification failed")
}

/// What is wrong by now with the client's chain that a session holds, verified as in a full handshake: the alert that says so, and why.
pub(crate) fn fault_of_client(
    ssl: &Owned<sys::SSL>,
    store: &Owned<sys::X509_STORE>,
    depth: c_int,
    policy: Policy,
) -> Option<(Alert, &'static str)> {
    let out_of_memory = Some((Alert::INTERNAL_ERROR, "no memory to verify it"));
    // SAFETY: a fresh context is ours and goes before what it is made of: the session's chain, whose first is the leaf, and the store.
    let result = unsafe {
        let context = Owned::from_raw(sys::X509_STORE_CTX_new(), "making a verification");
        let Ok(context) = context else { return out_of_memory };
        let (context, chain) = (context.as_ptr(), sys::SSL_get_peer_full_cert_chain(ssl.as_ptr()));
        let leaf = sys::OPENSSL_sk_value(chain.cast_const().cast(), 0).cast();
        if sys::X509_STORE_CTX_init(context, store.as_ptr(), leaf, chain) != 1
            || sys::X509_STORE_CTX_set_default(context, c"ssl_client".as_ptr()) != 1
        {
            return out_of_memory;
        }
        sys::X509_STORE_CTX_set_depth(context, depth);
        sys::X509_STORE_CTX_set_verify_cb(context, callback(policy));
        if sys::X509_verify_cert(context) == 1 {
            return None;
        }
        c_long::from(sys::X509_STORE_CTX_get_error(context))
    };
    ffi::clear_errors();
    // SAFETY: the function maps any number to an alert.
    let alert = unsafe { sys::SSL_alert_from_verify_result(result) };
    Some((u8::try_from(alert).map_or(Alert::INTERNAL_ERROR, Alert), text(result)))
}

/// As `SSL_set_verify` takes it.
type VerifyCallback = unsafe extern "C" fn(c_int, *mut sys::X509_STORE_CTX) -> c_int;

/// The library's callback for each certificate of a chain under `policy`; for `SSL_set_verify`.
pub(crate) fn callback(policy: Policy) -> Option<VerifyCallback> {
    match policy {
        Policy::Legacy => Some(check_legacy),
        Policy::Modern | Policy::Intermediate => Some(check),
    }
}

unsafe extern "C" fn check(is_good: c_int, context: *mut sys::X509_STORE_CTX) -> c_int {
    // SAFETY: passed on from the library.
    unsafe { check_under(is_good, context, MIN_RSA_BITS, &[]) }
}

unsafe extern "C" fn check_legacy(is_good: c_int, context: *mut sys::X509_STORE_CTX) -> c_int {
    // SAFETY: passed on from the library.
    unsafe { check_under(is_good, context, LEGACY_MIN_RSA_BITS, &LEGACY_SIGNATURES) }
}

/// Called once for each certificate that is good otherwise, from the root to the leaf, and for each problem; 1 goes on.
///
/// # Safety
/// `context` is live and the library's, in its verify callback.
unsafe fn check_under(
    is_good: c_int,
    context: *mut sys::X509_STORE_CTX,
    min_rsa_bits: c_int,
    more_signatures: &[i32],
) -> c_int {
    if is_good != 1 {
        return is_good;
    }
    // SAFETY: the certificate and the chain belong to the context and are only read; a null key reads as weak.
    let fault = unsafe {
        let certificate = sys::X509_STORE_CTX_get_current_cert(context);
        let depth = sys::X509_STORE_CTX_get_error_depth(context);
        let length = sys::OPENSSL_sk_num(sys::X509_STORE_CTX_get0_chain(context).cast_const().cast());
        // A root is trusted for its key: nobody relies on its signature.
        let is_root = usize::try_from(depth).is_ok_and(|depth| depth + 1 == length);
        let signature = sys::X509_get_signature_nid(certificate);
        if !is_strong(sys::X509_get0_pubkey(certificate), min_rsa_bits) {
            Some(if depth == 0 { sys::X509_V_ERR_EE_KEY_TOO_SMALL } else { sys::X509_V_ERR_CA_KEY_TOO_SMALL })
        } else if !is_root && !SIGNATURES.contains(&signature) && !more_signatures.contains(&signature) {
            Some(sys::X509_V_ERR_CA_MD_TOO_WEAK)
        } else {
            None
        }
    };
    let Some(fault) = fault else { return 1 };
    // SAFETY: as above.
    unsafe { sys::X509_STORE_CTX_set_error(context, fault) };
    0
}

/// # Safety
/// `key` is null or live.
unsafe fn is_strong(key: *const sys::EVP_PKEY, min_rsa_bits: c_int) -> bool {
    if key.is_null() {
        return false;
    }
    // SAFETY: the key is live and only read.
    let (kind, bits) = unsafe { (sys::EVP_PKEY_id(key), sys::EVP_PKEY_bits(key)) };
    match kind {
        sys::EVP_PKEY_RSA | sys::EVP_PKEY_RSA_PSS => bits >= min_rsa_bits,
        sys::EVP_PKEY_EC => bits >= MIN_CURVE_BITS,
        sys::EVP_PKEY_ED25519 => true,
        _ => false,
    }
}
