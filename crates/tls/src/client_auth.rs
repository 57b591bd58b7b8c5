//! The rule for client certificates: whom we trust to vouch for a client, and whether one must show up with a certificate.
//!
//! Rules about names inside the certificate belong to the program, which sees it. Ruled by RFC 8446 §4.3.2 and RFC 5280.

use crate::ffi::{self, Owned};
use crate::{Alert, Error, Policy, chain, trust};
use aws_lc_sys as sys;

/// Certificates deeper than this below a root are rejected.
const MAX_CHAIN_DEPTH: i32 = 8;

/// A rule for client certificates. Built once per config, shared by connections.
#[derive(Debug)]
pub struct ClientAuth {
    store: Owned<sys::X509_STORE>,
    /// Subjects of the roots, named in the certificate request.
    names: Vec<Owned<sys::CRYPTO_BUFFER>>,
    required: bool,
    /// SHA-256 over everything that makes this rule, so that no ticket outlives a change of it.
    digest: [u8; 32],
}

impl ClientAuth {
    /// From trusted roots and revocation lists (DER). `required`: a handshake without a certificate ends with certificate_required (1.3) or
    /// handshake_failure. With CRLs, every certificate of the chain must be covered by a current one.
    ///
    /// # Errors
    /// A root or list does not parse; says which (index) and why.
    pub fn new(roots: &[Vec<u8>], crls: &[Vec<u8>], required: bool) -> Result<ClientAuth, Error> {
        ffi::clear_errors();
        let store = trust::store(roots, crls)?;
        let names = roots.iter().map(|root| subject(root)).collect::<Result<_, _>>()?;
        Ok(ClientAuth { store, names, required, digest: digest(roots, crls, required) })
    }

    /// Whether a handshake without a certificate fails.
    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    /// What a ticket may not cross; see the field.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// What is wrong by now with the client's chain that a resumed session holds; none if it would do in a full handshake.
    pub(crate) fn fault_now(&self, ssl: &Owned<sys::SSL>, policy: Policy) -> Option<(Alert, &'static str)> {
        chain::fault_of_client(ssl, &self.store, MAX_CHAIN_DEPTH, policy)
    }

    /// The rule as it is at another time: that of `seconds` after 1970.
    #[cfg(test)]
    pub(crate) fn at(self, seconds: i64) -> ClientAuth {
        // SAFETY: the store is live, owns its parameters, and is not shared yet.
        unsafe { sys::X509_VERIFY_PARAM_set_time(sys::X509_STORE_get0_param(self.store.as_ptr()), seconds) };
        self
    }

    /// Puts the rule into a session. How strong chains must be is for `policy` to say.
    ///
    /// # Errors
    /// Out of memory.
    ///
    /// # Safety
    /// `ssl` is live and its handshake's choices are still open.
    pub(crate) unsafe fn apply(&self, ssl: *mut sys::SSL, policy: Policy) -> Result<(), Error> {
        let mut mode = sys::SSL_VERIFY_PEER;
        if self.required {
            mode |= sys::SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
        }
        // SAFETY: `ssl` is live; the store gets a reference of its own.
        unsafe {
            sys::SSL_set_verify(ssl, mode, chain::callback(policy));
            sys::SSL_set_verify_depth(ssl, MAX_CHAIN_DEPTH);
            ffi::check(sys::SSL_set1_verify_cert_store(ssl, self.store.as_ptr()), "using a certificate store")?;
        }
        // SAFETY: the stack is fresh; each pushed buffer carries a reference, which the stack owns and `SSL_set0_client_CAs` takes over
        // with it. Where a push fails, the stack and what it holds leak: out of memory, and better than a double free.
        unsafe {
            let stack = sys::OPENSSL_sk_new_null();
            if stack.is_null() {
                return Err(Error::ours("naming the trusted roots"));
            }
            for name in &self.names {
                if sys::OPENSSL_sk_push(stack, name.clone().into_raw().cast()) == 0 {
                    return Err(Error::ours("naming the trusted roots"));
                }
            }
            sys::SSL_set0_client_CAs(ssl, stack.cast());
        }
        Ok(())
    }
}

/// The root's subject, DER.
fn subject(root: &[u8]) -> Result<Owned<sys::CRYPTO_BUFFER>, Error> {
    let certificate = trust::certificate(root)?;
    // SAFETY: the certificate is live and owns its name; `i2d_X509_NAME` only reads it.
    let name = unsafe {
        let name = sys::X509_get_subject_name(certificate.as_ptr());
        if name.is_null() { None } else { trust::der(name, sys::i2d_X509_NAME) }
    };
    ffi::buffer(&name.ok_or_else(|| Error::ours("reading a root's subject"))?)
}

fn digest(roots: &[Vec<u8>], crls: &[Vec<u8>], required: bool) -> [u8; 32] {
    // Each part is hashed first, so that no two rules run together into the same bytes.
    let mut parts = vec![u8::from(required)];
    parts.extend_from_slice(&(roots.len() as u64).to_be_bytes());
    for part in roots.iter().chain(crls) {
        parts.extend_from_slice(&ffi::sha256(&[part]));
    }
    ffi::sha256(&[&parts])
}
