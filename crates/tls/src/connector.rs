//! The client side: how upstreams are verified, and who we are to them.
//!
//! Keeps the last session of each connector for resumption. Ruled by RFC 9525 (names), RFC 6066 §3 (SNI) and RFC 8446 §4.6.1.

use crate::ffi::{self, Owned};
use crate::link::{self, LastSession, Link, Origin, ServerName};
use crate::{Error, Identity, Policy, ProtocolVersion, chain, policy, trust};
use aws_lc_sys as sys;
use std::ffi::CString;
use std::net::IpAddr;
use std::os::raw::{c_int, c_uint};
use std::sync::{Arc, PoisonError};

/// By what of its certificate a server is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameCheck {
    /// Its subject alternative names (RFC 9525 §2).
    #[default]
    AlternativeNames,
    /// The same, or its common name where none of those is a DNS name: what was usual before RFC 6125.
    CommonName,
    /// Nothing: whoever has a certificate of the authorities is the server.
    Authority,
}

/// Client context: one per upstream group.
#[derive(Debug)]
pub struct Connector {
    context: Owned<sys::SSL_CTX>,
    verify: bool,
    names: NameCheck,
    last: Arc<LastSession>,
}

impl Connector {
    /// Trusts `roots` (DER) only. `verify: false` is the explicit opt-out. `alpn` in our order, may be empty. With a `min_version` below TLS 1.2,
    /// ciphers and certificate chains may be those of the policy `legacy`.
    ///
    /// # Errors
    /// A root or the identity does not parse.
    pub fn new(
        roots: &[Vec<u8>],
        verify: bool,
        identity: Option<Arc<Identity>>,
        alpn: &[Vec<u8>],
        min_version: ProtocolVersion,
    ) -> Result<Connector, Error> {
        ffi::clear_errors();
        // SAFETY: a fresh context is ours.
        let context = unsafe { Owned::from_raw(sys::SSL_CTX_new(sys::TLS_client_method()), "making a TLS context")? };
        policy::set_up_client(&context, min_version)?;
        let policy = if min_version < ProtocolVersion::Tls12 { Policy::Legacy } else { Policy::Intermediate };
        let pointer = context.as_ptr();
        let protocols = alpn_list(alpn)?;
        let cache = sys::SSL_SESS_CACHE_CLIENT | sys::SSL_SESS_CACHE_NO_INTERNAL;
        let store = trust::store(roots, &[])?;
        if verify {
            // SAFETY: set-up calls on a live context that is not shared yet; it takes the store over. Without verification the context keeps
            // its empty store, so that no certificate counts as verified by chance, its name unchecked.
            unsafe {
                sys::SSL_CTX_set_cert_store(pointer, store.into_raw());
                sys::SSL_CTX_set_verify(pointer, sys::SSL_VERIFY_PEER, chain::callback(policy));
            }
        }
        // SAFETY: set-up calls on a live context that is not shared yet; it copies the list.
        unsafe {
            sys::SSL_CTX_set_session_cache_mode(pointer, cache);
            sys::SSL_CTX_sess_set_new_cb(pointer, Some(keep_session));
            sys::SSL_CTX_set_msg_callback(pointer, Some(link::see_message));
            // This one call answers 0 for success.
            if sys::SSL_CTX_set_alpn_protos(pointer, protocols.as_ptr(), protocols.len()) != 0 {
                return Err(Error::ours("setting ALPN"));
            }
        }
        if let Some(identity) = identity {
            identity.apply_to_context(&context)?;
        }
        Ok(Connector { context, verify, names: NameCheck::default(), last: Arc::default() })
    }

    /// By what servers are known. Call before the first session.
    pub fn check_names(&mut self, names: NameCheck) {
        self.names = names;
    }

    /// Never negotiates above `max`, for servers that mishandle later versions. Call before the first session.
    ///
    /// # Errors
    /// `max` is below the lowest version.
    pub fn limit_version(&mut self, max: ProtocolVersion) -> Result<(), Error> {
        // SAFETY: `&mut self`: no session is being made from the context meanwhile.
        let set = unsafe { sys::SSL_CTX_set_max_proto_version(self.context.as_ptr(), max.number()) };
        ffi::check(set, "setting the highest version")
    }

    /// Offers these key-exchange groups only, by the library's names (`X25519`, `P-256`, in a list with colons between): for measurements, which
    /// must name what they measure. Call before the first session.
    ///
    /// # Errors
    /// A group is not known.
    pub fn limit_groups(&mut self, groups: &str) -> Result<(), Error> {
        let unfit = || Error::Ours(format!("{groups:?} is no list of key-exchange groups").into());
        let list = CString::new(groups).map_err(|_| unfit())?;
        // SAFETY: `&mut self`: no session is being made from the context meanwhile; the list is NUL-terminated and is copied.
        let set = unsafe { sys::SSL_CTX_set1_groups_list(self.context.as_ptr(), list.as_ptr()) };
        ffi::check(set, "setting groups").map_err(|_| unfit())
    }

    /// Keeps no session from now on, so that every handshake is a full one.
    pub fn never_resume(&mut self) {
        // SAFETY: `&mut self`: no session is being made from the context meanwhile.
        unsafe { sys::SSL_CTX_set_session_cache_mode(self.context.as_ptr(), sys::SSL_SESS_CACHE_OFF) };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A session about to connect to `name`.
    pub(crate) fn session(&self, name: &ServerName) -> Result<Owned<sys::SSL>, Error> {
        self.session_of(name, |link| link)
    }

    /// The same, with what `over` makes of its link.
    pub(crate) fn session_of(
        &self,
        name: &ServerName,
        over: impl FnOnce(Link) -> Link,
    ) -> Result<Owned<sys::SSL>, Error> {
        // SAFETY: the session keeps a reference to the context; a fresh session is ours.
        let ssl = unsafe { Owned::from_raw(sys::SSL_new(self.context.as_ptr()), "making a TLS session")? };
        let origin = Origin { name: name.clone(), last: Arc::clone(&self.last) };
        link::attach(&ssl, over(Link::client(origin)))?;
        match name {
            ServerName::Dns(name) => self.expect_dns(&ssl, name)?,
            ServerName::Ip(address) => self.expect_address(&ssl, *address)?,
        }
        // SAFETY: the session is live; `SSL_set_session` takes a reference of its own.
        unsafe {
            sys::SSL_set_shed_handshake_config(ssl.as_ptr(), 1);
            sys::SSL_set_connect_state(ssl.as_ptr());
            if let Some(session) = self.take_session(name) {
                ffi::check(sys::SSL_set_session(ssl.as_ptr(), session.as_ptr()), "offering a session")?;
            }
        }
        Ok(ssl)
    }

    /// Sends `name` as SNI and expects it in the certificate.
    fn expect_dns(&self, ssl: &Owned<sys::SSL>, name: &str) -> Result<(), Error> {
        let unfit = || Error::Ours(format!("{name:?} is not a DNS name").into());
        // A name written with its final dot is the same name, but neither SNI nor certificates carry the dot.
        let bare = name.strip_suffix('.').unwrap_or(name);
        if bare.is_empty() || bare.len() > 253 {
            return Err(unfit());
        }
        let text = CString::new(bare).map_err(|_| unfit())?;
        // SAFETY: the session is live and the string is NUL-terminated; both calls copy it.
        unsafe {
            ffi::check(sys::SSL_set_tlsext_host_name(ssl.as_ptr(), text.as_ptr()), "setting SNI")?;
            if self.checks_names() {
                if self.names == NameCheck::AlternativeNames {
                    // Only alternative names count, never the subject (RFC 9525 §2).
                    let flags = sys::X509_CHECK_FLAG_NEVER_CHECK_SUBJECT as c_uint;
                    sys::X509_VERIFY_PARAM_set_hostflags(sys::SSL_get0_param(ssl.as_ptr()), flags);
                }
                ffi::check(sys::SSL_set1_host(ssl.as_ptr(), text.as_ptr()), "setting the expected name")?;
            }
        }
        Ok(())
    }

    fn checks_names(&self) -> bool {
        self.verify && self.names != NameCheck::Authority
    }

    /// Expects `address` in the certificate.
    fn expect_address(&self, ssl: &Owned<sys::SSL>, address: IpAddr) -> Result<(), Error> {
        if !self.checks_names() {
            return Ok(());
        }
        let expect = |bytes: &[u8]| {
            // SAFETY: the session is live and owns its parameters; the bytes are copied.
            unsafe {
                let parameters = sys::SSL_get0_param(ssl.as_ptr());
                sys::X509_VERIFY_PARAM_set1_ip(parameters, bytes.as_ptr(), bytes.len())
            }
        };
        let set = match address {
            IpAddr::V4(address) => expect(&address.octets()),
            IpAddr::V6(address) => expect(&address.octets()),
        };
        ffi::check(set, "setting the expected address")
    }

    /// The last session with `name`; a TLS 1.3 session is given out once (RFC 8446 §C.4).
    fn take_session(&self, name: &ServerName) -> Option<Owned<sys::SSL_SESSION>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, session) = last.as_ref().filter(|(with, _)| with == name)?;
        // SAFETY: the session is live.
        if unsafe { sys::SSL_SESSION_should_be_single_use(session.as_ptr()) } == 1 {
            return last.take().map(|(_, session)| session);
        }
        Some(session.clone())
    }
}

/// Keeps what the server lets us resume. `SSL_CTX_sess_set_new_cb`: 1 says that the reference was taken over.
unsafe extern "C" fn keep_session(ssl: *mut sys::SSL, session: *mut sys::SSL_SESSION) -> c_int {
    // SAFETY: the library calls with a live session of ours, and with a reference for us to keep if we answer 1.
    unsafe {
        let Some(origin) = Link::of(ssl).and_then(|link| link.origin.as_deref()) else { return 0 };
        let Ok(session) = Owned::from_raw(session, "keeping a session") else { return 0 };
        let mut last = origin.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((origin.name.clone(), session));
    }
    1
}

/// Protocols as ALPN carries them (RFC 7301 §3.1): each behind a length byte.
fn alpn_list(protocols: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let mut list = Vec::new();
    for protocol in protocols {
        let len = u8::try_from(protocol.len()).ok().filter(|len| *len > 0);
        let len = len.ok_or_else(|| Error::Ours("an ALPN protocol must have 1 to 255 bytes".into()))?;
        list.push(len);
        list.extend_from_slice(protocol);
    }
    Ok(list)
}
