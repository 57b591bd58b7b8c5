//! Named sets of versions, cipher suites and groups, pinned by our own lists.
//!
//! What a context gets by default is `intermediate`; only what differs is set on a session, because each list costs microseconds per handshake.
//! Ruled by RFC 9325 and the widely used server configurations of the same names.

use crate::Error;
use crate::ffi::{self, Owned};
use aws_lc_sys as sys;
use std::ffi::CStr;
use wire::client_hello::ClientHello;

/// A protocol version, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// TLS 1.0 (RFC 2246).
    Tls10,
    /// TLS 1.1 (RFC 4346).
    Tls11,
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl ProtocolVersion {
    /// The number on the wire.
    pub(crate) fn number(self) -> u16 {
        match self {
            ProtocolVersion::Tls10 => 0x0301,
            ProtocolVersion::Tls11 => 0x0302,
            ProtocolVersion::Tls12 => 0x0303,
            ProtocolVersion::Tls13 => 0x0304,
        }
    }

    /// The version with this number on the wire; what we never negotiate reads as TLS 1.0.
    pub(crate) fn from_number(number: u16) -> ProtocolVersion {
        match number {
            0x0304 => ProtocolVersion::Tls13,
            0x0303 => ProtocolVersion::Tls12,
            0x0302 => ProtocolVersion::Tls11,
            _ => ProtocolVersion::Tls10,
        }
    }
}

/// What may be negotiated, as users know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// TLS 1.3 only, post-quantum hybrid first.
    Modern,
    /// TLS 1.2 with six ECDHE AEAD suites, and 1.3; groups `X25519MLKEM768:X25519:P-256:P-384`.
    #[default]
    Intermediate,
    /// TLS 1.0 and later with the CBC and RSA key-exchange suites old clients need; no RC4, 3DES, export or NULL.
    Legacy,
}

impl Policy {
    /// The lowest version the policy itself allows.
    pub fn min_version(self) -> ProtocolVersion {
        match self {
            Policy::Modern => ProtocolVersion::Tls13,
            Policy::Intermediate => ProtocolVersion::Tls12,
            Policy::Legacy => ProtocolVersion::Tls10,
        }
    }

    /// Everything a listener may negotiate under it, in our order of preference.
    pub fn contents(self) -> Contents {
        let listed = |list: &'static CStr| list.to_str().unwrap_or_default().split(':').collect();
        let (older, schemes) = match self {
            Policy::Modern => (Vec::new(), &SIGNING[..]),
            Policy::Intermediate => (listed(INTERMEDIATE_CIPHERS), &SIGNING[..]),
            Policy::Legacy => (listed(LEGACY_CIPHERS), &LEGACY_SIGNING[..]),
        };
        Contents {
            tls13_suites: listed(ALL_CIPHERSUITES),
            older_suites: older,
            groups: listed(GROUPS),
            signature_schemes: schemes.iter().filter_map(|number| scheme_name(*number)).collect(),
        }
    }
}

/// What a policy contains, for those who audit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Cipher suites of TLS 1.3.
    pub tls13_suites: Vec<&'static str>,
    /// Cipher suites of TLS 1.2 and earlier, by OpenSSL's names; which of them a version can use is a matter of the suite.
    pub older_suites: Vec<&'static str>,
    /// Groups for the key exchange.
    pub groups: Vec<&'static str>,
    /// What the server signs with, by the names of RFC 8446 §4.2.3.
    pub signature_schemes: Vec<&'static str>,
}

/// The name of RFC 8446 §4.2.3 for a signature scheme.
fn scheme_name(number: u16) -> Option<&'static str> {
    Some(match i32::from(number) {
        sys::SSL_SIGN_ED25519 => "ed25519",
        sys::SSL_SIGN_ECDSA_SECP256R1_SHA256 => "ecdsa_secp256r1_sha256",
        sys::SSL_SIGN_ECDSA_SECP384R1_SHA384 => "ecdsa_secp384r1_sha384",
        sys::SSL_SIGN_ECDSA_SECP521R1_SHA512 => "ecdsa_secp521r1_sha512",
        sys::SSL_SIGN_RSA_PSS_RSAE_SHA256 => "rsa_pss_rsae_sha256",
        sys::SSL_SIGN_RSA_PSS_RSAE_SHA384 => "rsa_pss_rsae_sha384",
        sys::SSL_SIGN_RSA_PSS_RSAE_SHA512 => "rsa_pss_rsae_sha512",
        sys::SSL_SIGN_RSA_PKCS1_SHA256 => "rsa_pkcs1_sha256",
        sys::SSL_SIGN_RSA_PKCS1_SHA384 => "rsa_pkcs1_sha384",
        sys::SSL_SIGN_RSA_PKCS1_SHA512 => "rsa_pkcs1_sha512",
        sys::SSL_SIGN_ECDSA_SHA1 => "ecdsa_sha1",
        sys::SSL_SIGN_RSA_PKCS1_SHA1 => "rsa_pkcs1_sha1",
        _ => return None,
    })
}

/// The six ECDHE AEAD suites of TLS 1.2, for clients that have hardware for AES.
const INTERMEDIATE_CIPHERS: &CStr = c"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
    ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
    ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384";

/// The same for clients that lack it, and say so by naming ChaCha20 first.
const INTERMEDIATE_CHACHA_CIPHERS: &CStr = c"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
    ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
    ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384";

/// As [`INTERMEDIATE_CIPHERS`], then what clients of the TLS 1.0 years can do. None of those names ChaCha20 first.
const LEGACY_CIPHERS: &CStr = c"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
    ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
    ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
    ECDHE-RSA-AES128-SHA256:ECDHE-RSA-AES256-SHA384:\
    ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA:\
    AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA256:AES128-SHA:AES256-SHA";

/// All TLS 1.3 suites, in the order a client of ours offers them. A server follows the client's order.
const ALL_CIPHERSUITES: &CStr = c"TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";

/// For a client that offers AES-128 but names AES-256 first: SHA-384 makes its handshake a quarter dearer for no gain. ChaCha20 is left out, since
/// the usual order has it before AES-128, and who likes AES first has the hardware for it.
const FAST_CIPHERSUITES: &CStr = c"TLS_AES_128_GCM_SHA256";

/// Key-exchange groups of a server, under every policy. P-521 is left out, as the intermediate configuration demands.
const GROUPS: &CStr = c"X25519MLKEM768:X25519:P-256:P-384";

/// What a client of ours offers beyond them: before TLS 1.3 the list also says which certificates it can verify (RFC 8422 §5.1).
const CLIENT_GROUPS: &CStr = c"X25519MLKEM768:X25519:P-256:P-384:P-521";

/// What we sign with, in our order. Before TLS 1.2 nothing is negotiated and the library signs with SHA-1 (and MD5 for RSA) as it must.
const SIGNING: [u16; 10] = [
    sys::SSL_SIGN_ED25519 as u16,
    sys::SSL_SIGN_ECDSA_SECP256R1_SHA256 as u16,
    sys::SSL_SIGN_RSA_PSS_RSAE_SHA256 as u16,
    sys::SSL_SIGN_RSA_PKCS1_SHA256 as u16,
    sys::SSL_SIGN_ECDSA_SECP384R1_SHA384 as u16,
    sys::SSL_SIGN_RSA_PSS_RSAE_SHA384 as u16,
    sys::SSL_SIGN_RSA_PKCS1_SHA384 as u16,
    sys::SSL_SIGN_ECDSA_SECP521R1_SHA512 as u16,
    sys::SSL_SIGN_RSA_PSS_RSAE_SHA512 as u16,
    sys::SSL_SIGN_RSA_PKCS1_SHA512 as u16,
];

/// The same, then SHA-1 for a TLS 1.2 client that knows nothing better.
const LEGACY_SIGNING: [u16; 12] = with_sha1(SIGNING);

/// What a peer may sign with: the same set without SHA-1, ECDSA first.
const VERIFYING: [u16; 10] = [
    sys::SSL_SIGN_ECDSA_SECP256R1_SHA256 as u16,
    sys::SSL_SIGN_RSA_PSS_RSAE_SHA256 as u16,
    sys::SSL_SIGN_RSA_PKCS1_SHA256 as u16,
    sys::SSL_SIGN_ED25519 as u16,
    sys::SSL_SIGN_ECDSA_SECP384R1_SHA384 as u16,
    sys::SSL_SIGN_RSA_PSS_RSAE_SHA384 as u16,
    sys::SSL_SIGN_RSA_PKCS1_SHA384 as u16,
    sys::SSL_SIGN_ECDSA_SECP521R1_SHA512 as u16,
    sys::SSL_SIGN_RSA_PSS_RSAE_SHA512 as u16,
    sys::SSL_SIGN_RSA_PKCS1_SHA512 as u16,
];

/// The same, then SHA-1.
const LEGACY_VERIFYING: [u16; 12] = with_sha1(VERIFYING);

const fn with_sha1(schemes: [u16; 10]) -> [u16; 12] {
    let mut all = [0; 12];
    let mut index = 0;
    while index < schemes.len() {
        all[index] = schemes[index];
        index += 1;
    }
    all[10] = sys::SSL_SIGN_ECDSA_SHA1 as u16;
    all[11] = sys::SSL_SIGN_RSA_PKCS1_SHA1 as u16;
    all
}

/// Sets `intermediate` on a server's context, but for the lowest version, which is open: [`narrow`] sets it, and must be reached to say what a
/// client too old is rejected with.
///
/// # Errors
/// A list is not known to the library, or out of memory.
pub(crate) fn set_up_server(context: &Owned<sys::SSL_CTX>) -> Result<(), Error> {
    set_up(context, ProtocolVersion::Tls10, INTERMEDIATE_CIPHERS, GROUPS)
}

/// Sets on a client's context what goes with its lowest version: `intermediate`, and the old suites with it below TLS 1.2.
///
/// # Errors
/// A list is not known to the library, or out of memory.
pub(crate) fn set_up_client(context: &Owned<sys::SSL_CTX>, min: ProtocolVersion) -> Result<(), Error> {
    let ciphers = if min < ProtocolVersion::Tls12 { LEGACY_CIPHERS } else { INTERMEDIATE_CIPHERS };
    set_up(context, min, ciphers, CLIENT_GROUPS)
}

fn set_up(context: &Owned<sys::SSL_CTX>, min: ProtocolVersion, ciphers: &CStr, groups: &CStr) -> Result<(), Error> {
    let pointer = context.as_ptr();
    // SAFETY: set-up calls on a live context that is not shared yet; strings are NUL-terminated, lists have the given lengths, and all are copied.
    unsafe {
        ffi::check(sys::SSL_CTX_set_strict_cipher_list(pointer, ciphers.as_ptr()), "setting cipher suites")?;
        ffi::check(sys::SSL_CTX_set_ciphersuites(pointer, ALL_CIPHERSUITES.as_ptr()), "setting TLS 1.3 cipher suites")?;
        ffi::check(sys::SSL_CTX_set1_groups_list(pointer, groups.as_ptr()), "setting groups")?;
        let set = sys::SSL_CTX_set_signing_algorithm_prefs(pointer, SIGNING.as_ptr(), SIGNING.len());
        ffi::check(set, "setting signature schemes")?;
        let set = sys::SSL_CTX_set_verify_algorithm_prefs(pointer, VERIFYING.as_ptr(), VERIFYING.len());
        ffi::check(set, "setting signature schemes")?;
        ffi::check(sys::SSL_CTX_set_min_proto_version(pointer, min.number()), "setting the lowest version")
    }
}

/// Sets on a server session what `policy` demands of this client beyond the context's defaults.
///
/// # Errors
/// Out of memory.
///
/// # Safety
/// `ssl` is a live session in its early callback.
pub(crate) unsafe fn narrow(
    ssl: *mut sys::SSL,
    policy: Policy,
    min_version: ProtocolVersion,
    hello: &ClientHello<'_>,
) -> Result<(), Error> {
    let min = min_version.max(policy.min_version());
    // SAFETY: `ssl` is live, and the handshake's choices are still open.
    unsafe { ffi::check(sys::SSL_set_min_proto_version(ssl, min.number()), "setting the lowest version")? };
    if hello.offers_tls13() {
        if names_aes256_first(hello) {
            // SAFETY: as above; the string is NUL-terminated and copied.
            let set = unsafe { sys::SSL_set_ciphersuites(ssl, FAST_CIPHERSUITES.as_ptr()) };
            ffi::check(set, "setting TLS 1.3 cipher suites")?;
        }
        return Ok(());
    }
    let ciphers = match policy {
        _ if names_chacha20_first(hello) => Some(INTERMEDIATE_CHACHA_CIPHERS),
        Policy::Legacy => Some(LEGACY_CIPHERS),
        Policy::Modern | Policy::Intermediate => None,
    };
    if let Some(ciphers) = ciphers {
        // SAFETY: as above.
        let set = unsafe { sys::SSL_set_strict_cipher_list(ssl, ciphers.as_ptr()) };
        ffi::check(set, "setting cipher suites")?;
    }
    if policy == Policy::Legacy {
        // SAFETY: as above; lists have the given lengths and are copied.
        unsafe {
            let set = sys::SSL_set_signing_algorithm_prefs(ssl, LEGACY_SIGNING.as_ptr(), LEGACY_SIGNING.len());
            ffi::check(set, "setting signature schemes")?;
            let set = sys::SSL_set_verify_algorithm_prefs(ssl, LEGACY_VERIFYING.as_ptr(), LEGACY_VERIFYING.len());
            ffi::check(set, "setting signature schemes")?;
        }
    }
    Ok(())
}

/// Whether the client can do AES-128 but would get AES-256 by its own order (RFC 8446 §B.4).
fn names_aes256_first(hello: &ClientHello<'_>) -> bool {
    let first = hello.cipher_suites.iter().find(|suite| matches!(suite, 0x1301..=0x1303));
    first == Some(&0x1302) && hello.cipher_suites.contains(&0x1301)
}

/// Whether the client would rather have ChaCha20 than AES in TLS 1.2: of the ECDHE AEAD suites (RFC 5289, RFC 7905) it names one of those first.
fn names_chacha20_first(hello: &ClientHello<'_>) -> bool {
    const CHACHA20: [u16; 2] = [0xcca8, 0xcca9];
    const AES_GCM: [u16; 4] = [0xc02b, 0xc02c, 0xc02f, 0xc030];
    let first = hello.cipher_suites.iter().find(|suite| CHACHA20.contains(suite) || AES_GCM.contains(suite));
    first.is_some_and(|suite| CHACHA20.contains(suite))
}
