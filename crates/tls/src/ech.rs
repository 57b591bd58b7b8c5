//! Encrypted Client Hello (RFC 9849), the server's side: key pairs with the configurations that clients get by DNS.
//!
//! The library opens what clients encrypt before it asks for a choice, so that everything above sees the inner ClientHello, and the outer one where nothing could
//! be opened. Which keys there are, and for how long, is for others to say.

use crate::Error;
use crate::ffi::{self, Owned};
use aws_lc_sys as sys;
use std::ffi::CString;
use std::fmt;
pub use wire::ech::{configs, list};
use zeroize::Zeroizing;

/// Length of a private key for X25519, the one kind that is used (RFC 9180 §7.1).
pub const PRIVATE_KEY_BYTES: usize = 32;

/// Names up to this length, bytes, cannot be told apart by the length of what a client sends: clients pad to it (RFC 9849 §6.1.3).
const PADDED_NAME_BYTES: usize = 64;

/// A key pair with its configuration.
pub struct EchKey {
    config: Box<[u8]>,
    private: Zeroizing<[u8; PRIVATE_KEY_BYTES]>,
    id: u8,
    public_name: Box<str>,
    key: Owned<sys::EVP_HPKE_KEY>,
}

impl fmt::Debug for EchKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EchKey").field("id", &self.id).field("public_name", &self.public_name).finish_non_exhaustive()
    }
}

impl EchKey {
    /// A new pair. `id` is how a ClientHello says which key it is for; `public_name` is what it shows to everybody.
    ///
    /// # Errors
    /// `public_name` is no host name that may stand there.
    pub fn generate(public_name: &str, id: u8) -> Result<EchKey, Error> {
        ffi::clear_errors();
        let unfit = || Error::Ours(format!("{public_name:?} is no host name for all to see").into());
        let name = CString::new(public_name).map_err(|_| unfit())?;
        let key = empty_key()?;
        let mut private = Zeroizing::new([0; PRIVATE_KEY_BYTES]);
        let (mut length, mut config, mut config_length) = (0, std::ptr::null_mut(), 0);
        // SAFETY: the key is live and ours; lengths and pointers are writable, and the array as long as is said. The name ends with NUL.
        unsafe {
            let made = sys::EVP_HPKE_KEY_generate(key.as_ptr(), sys::EVP_hpke_x25519_hkdf_sha256());
            ffi::check(made, "making a key for ECH")?;
            let read =
                sys::EVP_HPKE_KEY_private_key(key.as_ptr(), private.as_mut_ptr(), &raw mut length, private.len());
            ffi::check(read, "reading a key for ECH")?;
            let marshalled = sys::SSL_marshal_ech_config(
                &raw mut config,
                &raw mut config_length,
                id,
                key.as_ptr(),
                name.as_ptr(),
                PADDED_NAME_BYTES,
            );
            ffi::check(marshalled, "writing an ECHConfig").map_err(|_| unfit())?;
        }
        // SAFETY: the call above gave so many bytes, which are ours to free.
        let config = unsafe {
            let copied: Box<[u8]> = std::slice::from_raw_parts(config, config_length).into();
            sys::OPENSSL_free(config.cast());
            copied
        };
        EchKey::new(&config, private)
    }

    /// A pair that was kept: one ECHConfig, with version and length, and its private key.
    ///
    /// # Errors
    /// The configuration is malformed, or not one for X25519, or not one for this key.
    pub fn new(config: &[u8], private: Zeroizing<[u8; PRIVATE_KEY_BYTES]>) -> Result<EchKey, Error> {
        ffi::clear_errors();
        let unfit = |why: String| Error::Ours(why.into());
        let list = list(&[config]).ok_or_else(|| unfit("too long".to_owned()))?;
        let (id, public_name) = match configs(&list).map_err(|error| unfit(error.to_string()))?.as_slice() {
            [one] => (one.id, Box::from(one.public_name)),
            _ => return Err(unfit("there is more than one".to_owned())),
        };
        let key = empty_key()?;
        // SAFETY: the key is live and ours; the private key is read for the given length, and copied.
        let set = unsafe {
            sys::EVP_HPKE_KEY_init(key.as_ptr(), sys::EVP_hpke_x25519_hkdf_sha256(), private.as_ptr(), private.len())
        };
        ffi::check(set, "taking a key for ECH")?;
        let found = EchKey { config: config.into(), private, id, public_name, key };
        EchKeys::new(std::slice::from_ref(&found))
            .map_err(|_| unfit("it is not for this key, or not for X25519".to_owned()))?;
        Ok(found)
    }

    /// The ECHConfig, with version and length.
    pub fn config(&self) -> &[u8] {
        &self.config
    }

    /// The private key.
    pub fn private_key(&self) -> &Zeroizing<[u8; PRIVATE_KEY_BYTES]> {
        &self.private
    }

    /// How a ClientHello says that it is for this key.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// The name that such a ClientHello shows to everybody.
    pub fn public_name(&self) -> &str {
        &self.public_name
    }
}

fn empty_key() -> Result<Owned<sys::EVP_HPKE_KEY>, Error> {
    // SAFETY: a fresh key is ours.
    unsafe { Owned::from_raw(sys::EVP_HPKE_KEY_new(), "making a key for ECH") }
}

/// Key pairs that ClientHellos may be encrypted for. Clients whose key is none of them are told the first one.
#[derive(Debug, Clone)]
pub struct EchKeys(Owned<sys::SSL_ECH_KEYS>);

impl EchKeys {
    /// These, of which there must be one at least.
    ///
    /// # Errors
    /// One is not fit for it.
    pub fn new(keys: &[EchKey]) -> Result<EchKeys, Error> {
        // SAFETY: a fresh set is ours.
        let set = unsafe { Owned::from_raw(sys::SSL_ECH_KEYS_new(), "making a set of keys for ECH")? };
        for (at, key) in keys.iter().enumerate() {
            let is_offered = i32::from(at == 0);
            // SAFETY: the set is live and not shared yet; configuration and key are copied.
            let added = unsafe {
                sys::SSL_ECH_KEYS_add(set.as_ptr(), is_offered, key.config.as_ptr(), key.config.len(), key.key.as_ptr())
            };
            ffi::check(added, "adding a key for ECH")?;
        }
        Ok(EchKeys(set))
    }

    /// Has a context open what is encrypted for these from now on.
    ///
    /// # Errors
    /// There is no key among them.
    pub(crate) fn apply(&self, context: &Owned<sys::SSL_CTX>) -> Result<(), Error> {
        // SAFETY: both are live; the library takes a reference of its own under its lock, and may do so while sessions are being made.
        let set = unsafe { sys::SSL_CTX_set1_ech_keys(context.as_ptr(), self.0.as_ptr()) };
        ffi::check(set, "setting keys for ECH")
    }
}
