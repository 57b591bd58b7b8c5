//! The server side's shared context: one `SSL_CTX`, and the choice made for each ClientHello.
//!
//! Everything that differs between names is set on the session in the library's early callback, before anything is negotiated; contexts are never
//! swapped. Ruled by RFC 8446 §4.1.2, RFC 6066 §3 and RFC 7301.

use crate::chooser::{Choice, Chooser};
use crate::ech::EchKeys;
use crate::ffi::{self, Owned};
use crate::link::{self, Chosen, Link, Opening};
use crate::remote::Remote;
use crate::{Alert, ClientAuth, Error, Policy, ProtocolVersion, TicketKeys, key_method, policy, tickets};
use aws_lc_sys as sys;
use std::os::raw::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::client_hello::{ClientHello, HelloError};
use wire::ja4::{Ja4, Over};

/// A client's certificate message may be this long: a chain of four RSA-4096 certificates fits several times.
const MAX_CLIENT_CHAIN_BYTES: usize = 32 * 1024;

/// Where clients may prove themselves, a ClientHello may be this long, since it may bring a ticket that holds such a chain. Elsewhere it has the
/// library's 16 KiB.
const MAX_HELLO_WITH_CHAIN_BYTES: usize = MAX_CLIENT_CHAIN_BYTES + 8 * 1024;

/// The shared server context. `Send + Sync`; one per process is enough.
#[derive(Debug)]
pub struct Acceptor {
    context: Owned<sys::SSL_CTX>,
    tickets: Arc<TicketKeys>,
    opens_hellos: AtomicBool,
}

impl Acceptor {
    /// A context whose tickets are sealed under `tickets`.
    ///
    /// # Errors
    /// The library could not be set up (out of memory).
    pub fn new(tickets: Arc<TicketKeys>) -> Result<Acceptor, Error> {
        ffi::clear_errors();
        // SAFETY: a fresh context is ours.
        let context = unsafe { Owned::from_raw(sys::SSL_CTX_new(sys::TLS_server_method()), "making a TLS context")? };
        policy::set_up_server(&context)?;
        tickets::set_up(&context, &tickets)?;
        let pointer = context.as_ptr();
        // SAFETY: set-up calls on a live context that is not shared yet. The callbacks reach their state through the session, hence the null
        // arguments.
        unsafe {
            sys::SSL_CTX_set_options(pointer, sys::SSL_OP_CIPHER_SERVER_PREFERENCE as u32);
            // Against BEAST, where a legacy client leaves no better suite.
            sys::SSL_CTX_set_mode(pointer, sys::SSL_MODE_CBC_RECORD_SPLITTING as u32);
            sys::SSL_CTX_set_max_cert_list(pointer, MAX_HELLO_WITH_CHAIN_BYTES);
            sys::SSL_CTX_set_select_certificate_cb(pointer, Some(select_certificate));
            sys::SSL_CTX_set_alpn_select_cb(pointer, Some(select_alpn), std::ptr::null_mut());
            sys::SSL_CTX_set_msg_callback(pointer, Some(link::see_message));
        }
        Ok(Acceptor { context, tickets, opens_hellos: AtomicBool::new(false) })
    }

    /// Opens ClientHellos that are encrypted for these keys from now on. Handshakes under way keep those that they began with.
    ///
    /// # Errors
    /// There is no key among them.
    pub fn open_hellos_for(&self, keys: &EchKeys) -> Result<(), Error> {
        ffi::clear_errors();
        keys.apply(&self.context)?;
        self.opens_hellos.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether there are such keys. The library has no way to take them away again.
    pub fn opens_hellos(&self) -> bool {
        self.opens_hellos.load(Ordering::Relaxed)
    }

    /// A session about to accept, which will ask `chooser`.
    pub(crate) fn session(&self, chooser: Arc<dyn Chooser + Send + Sync>) -> Result<Owned<sys::SSL>, Error> {
        self.session_of(chooser, |link| link)
    }

    /// The same, with what `over` makes of its link.
    pub(crate) fn session_of(
        &self,
        chooser: Arc<dyn Chooser + Send + Sync>,
        over: impl FnOnce(Link) -> Link,
    ) -> Result<Owned<sys::SSL>, Error> {
        // SAFETY: the session keeps a reference to the context; a fresh session is ours.
        let ssl = unsafe { Owned::from_raw(sys::SSL_new(self.context.as_ptr()), "making a TLS session")? };
        let may_hold_chain = chooser.asks_for_certificates();
        let opening = Opening { chooser, tickets: Arc::clone(&self.tickets), chosen: None, has_waited: false };
        link::attach(&ssl, over(Link::server(opening)))?;
        // SAFETY: the session is live. Its handshake configuration goes once the handshake is over: 1.5 KiB less while idle. With the mode that
        // asks for certificates the library takes a ClientHello as long as it takes a chain; `settle` sets the mode that counts.
        unsafe {
            if may_hold_chain {
                sys::SSL_set_verify(ssl.as_ptr(), sys::SSL_VERIFY_PEER, None);
            }
            sys::SSL_set_shed_handshake_config(ssl.as_ptr(), 1);
            sys::SSL_set_accept_state(ssl.as_ptr());
        }
        Ok(ssl)
    }
}

impl Opening {
    /// What tickets are bound to, once chosen.
    pub(crate) fn ticket_context(&self) -> Option<&[u8; 32]> {
        self.chosen.as_ref().map(|chosen| &chosen.ticket_context)
    }

    /// The client-certificate rule and how strong chains must be, once chosen.
    pub(crate) fn client_auth(&self) -> Option<(&ClientAuth, Policy)> {
        self.chosen.as_ref().and_then(|chosen| Some((chosen.client_auth.as_deref()?, chosen.policy)))
    }

    /// Asks for the choice and sets it on the session; false if a certificate is to come first, whose name is left in the link.
    ///
    /// # Safety
    /// `ssl` is live and in its early callback; `link` is its link.
    unsafe fn choose(&mut self, ssl: *mut sys::SSL, link: &Link, body: &[u8]) -> Result<bool, (Alert, Error)> {
        let hello = ClientHello::parse(body).map_err(reject_hello)?;
        // SSL 3.0 and earlier must not be spoken, also not by who says so and offers TLS 1.3 beside it (RFC 8446 §D.5).
        if hello.legacy_version < ProtocolVersion::Tls10.number() {
            return Err((Alert::PROTOCOL_VERSION, Error::Peer("UNSUPPORTED_PROTOCOL".into())));
        }
        // The library would say that the fault is its own.
        if hello.has_malformed_hybrid_share() {
            return Err((Alert::ILLEGAL_PARAMETER, Error::Peer("BAD_HYBRID_KEYSHARE".into())));
        }
        if !self.has_waited
            && link.flight.is_none()
            && let Some(name) = self.chooser.awaits(&hello)
        {
            self.has_waited = true;
            link.awaited.set(Some(name));
            return Ok(false);
        }
        let choice = self.chooser.choose(&hello).map_err(|alert| (alert, Error::Rejected(alert)))?;
        if self.chooser.wants_fingerprint() {
            let over = if link.flight.is_some() { Over::Quic } else { Over::Tcp };
            link.fingerprint.set(Some(Box::new(Ja4::of(&hello, over, |text| ffi::sha256(&[text])))));
        }
        // SAFETY: passed on to the caller.
        unsafe { self.settle(ssl, link, choice, &hello) }.map_err(|error| (Alert::INTERNAL_ERROR, error))?;
        Ok(true)
    }

    /// # Safety
    /// As [`Opening::choose`].
    unsafe fn settle(
        &mut self,
        ssl: *mut sys::SSL,
        link: &Link,
        choice: Choice,
        hello: &ClientHello<'_>,
    ) -> Result<(), Error> {
        // There is no QUIC below TLS 1.3 (RFC 9001 §4.2).
        let min_version = if link.flight.is_some() { ProtocolVersion::Tls13 } else { choice.min_version };
        let ticket_context = match &choice.client_auth {
            Some(rule) => ffi::sha256(&[&choice.context, rule.digest()]),
            None => choice.context,
        };
        // SAFETY: the session is live and its handshake's choices are still open; the context is copied.
        unsafe {
            policy::narrow(ssl, choice.policy, min_version, hello)?;
            choice.identity.apply(ssl, &key_method::METHOD)?;
            match &choice.client_auth {
                Some(rule) => rule.apply(ssl, choice.policy)?,
                None => sys::SSL_set_verify(ssl, sys::SSL_VERIFY_NONE, None),
            }
            sys::SSL_set_max_cert_list(ssl, MAX_CLIENT_CHAIN_BYTES);
            let set = sys::SSL_set_session_id_context(ssl, ticket_context.as_ptr(), ticket_context.len());
            ffi::check(set, "setting the session id context")?;
        }
        link.key_type.set(Some(choice.identity.key_type()));
        link.algorithms.set(choice.identity.algorithms());
        link.remote.set(choice.identity.remote_key()?.map(|key| Box::new(Remote::new(key))));
        let Choice { alpn, client_auth, policy, .. } = choice;
        self.chosen = Some(Chosen { alpn, client_auth, policy, ticket_context });
        Ok(())
    }
}

fn reject_hello(error: HelloError) -> (Alert, Error) {
    match error {
        HelloError::Malformed => (Alert::DECODE_ERROR, Error::Peer("MALFORMED_CLIENT_HELLO".into())),
        HelloError::Duplicate => (Alert::ILLEGAL_PARAMETER, Error::Peer("DUPLICATE_EXTENSION".into())),
        HelloError::ServerName => (Alert::DECODE_ERROR, Error::Peer("MALFORMED_SERVER_NAME".into())),
    }
}

/// Runs once per handshake, when the ClientHello is complete, and again if it was to be suspended. `SSL_CTX_set_select_certificate_cb`.
unsafe extern "C" fn select_certificate(hello: *const sys::SSL_CLIENT_HELLO) -> sys::ssl_select_cert_result_t {
    // SAFETY: the library calls with a live hello of a live session of ours, whose body stays where it is for the call.
    let (ssl, link, body) = unsafe {
        let hello = &*hello;
        let Some(link) = Link::of(hello.ssl) else {
            return sys::ssl_select_cert_result_t_ssl_select_cert_error;
        };
        (hello.ssl, link, slice::from_raw_parts(hello.client_hello, hello.client_hello_len))
    };
    // A panic of the chooser must not unwind into the library: it ends this handshake.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let Some(mut opening) = link.opening.take() else {
            return Err((Alert::INTERNAL_ERROR, Error::Ours("the handshake has no chooser".into())));
        };
        // SAFETY: as above; this is the early callback.
        let outcome = unsafe { opening.choose(ssl, link, body) };
        link.opening.set(Some(opening));
        outcome
    }));
    let rejection = match outcome {
        Ok(Ok(true)) => return sys::ssl_select_cert_result_t_ssl_select_cert_success,
        Ok(Ok(false)) => return sys::ssl_select_cert_result_t_ssl_select_cert_retry,
        Ok(Err(rejection)) => rejection,
        Err(_) => (Alert::INTERNAL_ERROR, Error::Ours("choosing for a ClientHello panicked".into())),
    };
    // SAFETY: the session is live. The library's own alert after this one is dropped, since only one can be sent.
    unsafe { sys::SSL_send_fatal_alert(ssl, rejection.0.0) };
    link.rejection.set(Some(rejection.1));
    sys::ssl_select_cert_result_t_ssl_select_cert_error
}

/// Picks the first protocol of ours that the client offers. `SSL_CTX_set_alpn_select_cb`, called only if it offers any.
unsafe extern "C" fn select_alpn(
    ssl: *mut sys::SSL,
    out: *mut *const u8,
    out_len: *mut u8,
    offered: *const u8,
    offered_len: c_uint,
    _argument: *mut c_void,
) -> c_int {
    // SAFETY: the library calls with a live session of ours and its parsed, non-empty list of that length.
    let (link, offered) = unsafe { (Link::of(ssl), slice::from_raw_parts(offered, offered_len as usize)) };
    let Some(opening) = link.and_then(|link| link.opening.take().map(|opening| (link, opening))) else {
        return sys::SSL_TLSEXT_ERR_ALERT_FATAL;
    };
    let (link, opening) = opening;
    let ours = opening.chosen.as_ref().map_or(&[][..], |chosen| &chosen.alpn);
    let response = if ours.is_empty() {
        sys::SSL_TLSEXT_ERR_NOACK
    } else if let Some(protocol) = ours.iter().find_map(|protocol| protocols(offered).find(|one| one == protocol)) {
        // SAFETY: both are writable; `protocol` is a part of the client's list, which outlives the call, and at most 255 bytes long.
        unsafe {
            *out = protocol.as_ptr();
            *out_len = protocol.len() as u8;
        }
        sys::SSL_TLSEXT_ERR_OK
    } else {
        sys::SSL_TLSEXT_ERR_ALERT_FATAL
    };
    link.opening.set(Some(opening));
    response
}

/// The protocols of an ALPN list (RFC 7301 §3.1): each behind a length byte.
fn protocols(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = list.split_first()?;
        let (protocol, rest) = rest.split_at_checked(usize::from(*len))?;
        list = rest;
        Some(protocol)
    })
}
