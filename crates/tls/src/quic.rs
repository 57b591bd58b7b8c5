//! A TLS handshake under QUIC (RFC 9001 §4): handshake bytes in and out per level of encryption, and the secrets of each level.
//!
//! The same acceptor, chooser, tickets and client-certificate rules as over TCP, TLS 1.3 only. The library keeps sessions of TCP and QUIC apart: neither
//! is resumed over the other. Knows no packet; no early data.
//!
//! ```text
//! server()/client() ── provide() … Done ── release() → Info
//!        take(level), secrets(level) after each;  WantKey: key_request() … respond() ── resume()
//! ```

use std::cell::RefCell;
use std::fmt;
use std::os::raw::c_int;
use std::slice;
use std::sync::Arc;

use aws_lc_sys as sys;

use crate::acceptor::Acceptor;
use crate::ffi::{self, Owned};
use crate::flight::Flight;
use crate::link::Link;
use crate::packet::{Secret, Suite};
use crate::remote::{KeyRequest, KeyResponse};
use crate::session::{self, Handshake};
use crate::{Alert, Chooser, Connector, Error, Info, ProtocolVersion, ServerName, info};

/// A level of encryption that carries handshake bytes (RFC 9001 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 1-RTT packets.
    Application,
}

impl Level {
    fn number(self) -> sys::ssl_encryption_level_t {
        match self {
            Level::Initial => sys::ssl_encryption_level_t_ssl_encryption_initial,
            Level::Handshake => sys::ssl_encryption_level_t_ssl_encryption_handshake,
            Level::Application => sys::ssl_encryption_level_t_ssl_encryption_application,
        }
    }

    fn index(self) -> usize {
        self.number() as usize
    }
}

/// The secrets of one level.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// For what we receive.
    pub read: Secret,
    /// For what we send.
    pub write: Secret,
}

/// A TLS session under QUIC.
pub struct QuicSession {
    /// None once it was released.
    ssl: Option<Owned<sys::SSL>>,
    /// A fatal alert or error was reported.
    ended: bool,
}

// SAFETY: as for `Session`: the library's session may move between threads as long as one at a time uses it, and it is not `Sync`; what the link holds is
// `Send`, as the check there and the one below have the compiler say.
unsafe impl Send for QuicSession {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Flight>();
};

impl fmt::Debug for QuicSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicSession").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl QuicSession {
    /// A server session that asks `chooser` once for its choice and sends these transport parameters (RFC 9000 §18).
    ///
    /// # Errors
    /// Out of memory.
    pub fn server(
        acceptor: &Acceptor,
        chooser: Arc<dyn Chooser + Send + Sync>,
        parameters: &[u8],
    ) -> Result<QuicSession, Error> {
        ffi::clear_errors();
        QuicSession::over_quic(acceptor.session_of(chooser, Link::over_quic)?, parameters)
    }

    /// A client session to `name`: for tests and load generators. Its first flight is there at once.
    ///
    /// # Errors
    /// Out of memory, or the name cannot be checked.
    pub fn client(connector: &Connector, name: &ServerName, parameters: &[u8]) -> Result<QuicSession, Error> {
        ffi::clear_errors();
        let mut session = QuicSession::over_quic(connector.session_of(name, Link::over_quic)?, parameters)?;
        session.resume()?;
        Ok(session)
    }

    fn over_quic(ssl: Owned<sys::SSL>, parameters: &[u8]) -> Result<QuicSession, Error> {
        // SAFETY: the session is live and has not begun; the method is static, and the parameters are copied.
        unsafe {
            ffi::check(sys::SSL_set_quic_method(ssl.as_ptr(), &raw const METHOD), "setting up QUIC")?;
            let least = ProtocolVersion::Tls13.number();
            ffi::check(sys::SSL_set_min_proto_version(ssl.as_ptr(), least), "setting the lowest version")?;
            let set = sys::SSL_set_quic_transport_params(ssl.as_ptr(), parameters.as_ptr(), parameters.len());
            ffi::check(set, "setting transport parameters")?;
        }
        Ok(QuicSession { ssl: Some(ssl), ended: false })
    }

    /// Takes handshake bytes of the peer, which came at this level, and goes on with the handshake.
    ///
    /// # Errors
    /// The handshake failed, or another level is due (RFC 9001 §4.1.3); [`QuicSession::alert`] is what to tell the peer.
    pub fn provide(&mut self, level: Level, bytes: &[u8]) -> Result<Handshake, Error> {
        let ssl = self.open()?.as_ptr();
        ffi::clear_errors();
        // SAFETY: the session is live; the bytes are copied.
        let taken = unsafe { sys::SSL_provide_quic_data(ssl, level.number(), bytes.as_ptr(), bytes.len()) };
        if taken != 1 {
            return Err(self.broken());
        }
        self.resume()
    }

    /// Goes on with the handshake, after [`QuicSession::respond`].
    ///
    /// # Errors
    /// As [`QuicSession::provide`].
    pub fn resume(&mut self) -> Result<Handshake, Error> {
        let ssl = self.open()?.as_ptr();
        ffi::clear_errors();
        if self.link()?.is_established() {
            // SAFETY: the session is live, and its handshake is done.
            return match unsafe { sys::SSL_process_quic_post_handshake(ssl) } {
                1 => Ok(Handshake::Done),
                _ => Err(self.broken()),
            };
        }
        // SAFETY: the session is live.
        let response = unsafe { sys::SSL_do_handshake(ssl) };
        if response == 1 {
            return self.establish().map(|()| Handshake::Done);
        }
        // SAFETY: the session is live, and the error queue is that of its last call.
        match unsafe { sys::SSL_get_error(ssl, response) } {
            sys::SSL_ERROR_WANT_READ => Ok(Handshake::WantInput),
            sys::SSL_ERROR_WANT_PRIVATE_KEY_OPERATION => Ok(Handshake::WantKey),
            _ => Err(self.broken()),
        }
    }

    /// What the handshake asks of its private key, once per [`Handshake::WantKey`].
    pub fn key_request(&mut self) -> Option<KeyRequest> {
        self.link().ok()?.with_remote(|remote| remote.request.take())?
    }

    /// The answer to its key request. Go on with [`QuicSession::resume`].
    pub fn respond(&mut self, response: KeyResponse) {
        if let Ok(link) = self.link() {
            link.with_remote(|remote| remote.response = Some(response));
        }
    }

    /// Handshake bytes to be sent at this level; empties.
    pub fn take(&mut self, level: Level) -> Vec<u8> {
        self.flight().map(|flight| flight.outgoing[level.index()].take()).unwrap_or_default()
    }

    /// The secrets of a level, once, as soon as both are there.
    pub fn secrets(&mut self, level: Level) -> Option<Secrets> {
        let flight = self.flight()?;
        let (read, write) = (&flight.read[level.index()], &flight.write[level.index()]);
        if read.borrow().is_none() || write.borrow().is_none() {
            return None;
        }
        Some(Secrets { read: read.take()?, write: write.take()? })
    }

    /// The peer's transport parameters, as soon as they were read.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        let ssl = self.ssl.as_ref()?;
        let (mut data, mut len) = (std::ptr::null(), 0);
        // SAFETY: the session is live and keeps the bytes; the result borrows it, and whatever changes them needs it uniquely.
        unsafe {
            sys::SSL_get_peer_quic_transport_params(ssl.as_ptr(), &raw mut data, &raw mut len);
            if data.is_null() || len == 0 { None } else { Some(slice::from_raw_parts(data, len)) }
        }
    }

    /// The name that the client asked for, as soon as it was read; none if it is no valid host name.
    pub fn server_name(&self) -> Option<Box<str>> {
        info::server_name(self.ssl.as_ref()?)
    }

    /// The alert that tells the peer why the handshake failed.
    pub fn alert(&self) -> Option<Alert> {
        self.link().ok()?.alert.get()
    }

    /// What was negotiated, once the handshake is done; none once it was released.
    pub fn info(&self) -> Option<Info> {
        let link = self.link().ok()?;
        let (key_type, algorithms) = (link.key_type.get(), link.algorithms.get());
        Some(info::of_session(self.ssl.as_ref()?, key_type, algorithms, link.fingerprint()))
    }

    /// Frees the library's session: nothing that a client may send after its handshake concerns TLS (RFC 9001 §4.6.1, §6). What it sends all the same is an
    /// error.
    pub fn release(&mut self) {
        self.ssl = None;
    }

    /// The session, if it may go on.
    fn open(&self) -> Result<&Owned<sys::SSL>, Error> {
        match &self.ssl {
            Some(ssl) if !self.ended => Ok(ssl),
            None if !self.ended => Err(Error::Peer("UNEXPECTED_MESSAGE".into())),
            _ => Err(Error::Ended),
        }
    }

    /// The link, which lives as long as the session.
    fn link(&self) -> Result<&Link, Error> {
        let ssl = self.ssl.as_ref().ok_or(Error::Ended)?;
        // SAFETY: the session is live, made by `link::attach`, and the reference is bound to `self`.
        unsafe { Link::of(ssl.as_ptr()) }.ok_or_else(|| Error::Ours("the session has no link".into()))
    }

    fn flight(&self) -> Option<&Flight> {
        self.link().ok()?.flight.as_deref()
    }

    fn establish(&mut self) -> Result<(), Error> {
        let outcome = match (&self.ssl, self.link()) {
            (Some(ssl), Ok(link)) => session::establish(ssl, link).map_err(|(alert, error)| {
                link.alert.set(Some(alert));
                error
            }),
            _ => Err(Error::Ended),
        };
        self.ended |= outcome.is_err();
        outcome
    }

    /// The error of the call that just failed. Ends the session.
    fn broken(&mut self) -> Error {
        self.ended = true;
        let (Some(ssl), Ok(link)) = (&self.ssl, self.link()) else { return Error::Ended };
        // SAFETY: the session is live.
        let verified = unsafe { sys::SSL_get_verify_result(ssl.as_ptr()) };
        let from_queue = Error::of_session(verified, link.alert.get());
        link.rejection.take().unwrap_or(from_queue)
    }
}

/// How the library reaches a connection. Static, as the library keeps the pointer.
static METHOD: sys::SSL_QUIC_METHOD = sys::SSL_QUIC_METHOD {
    set_read_secret: Some(set_read_secret),
    set_write_secret: Some(set_write_secret),
    add_handshake_data: Some(add_handshake_data),
    flush_flight: Some(flush_flight),
    send_alert: Some(send_alert),
};

/// The flight of a session.
///
/// # Safety
/// As [`Link::of`].
unsafe fn flight_of<'a>(ssl: *const sys::SSL) -> Option<&'a Flight> {
    // SAFETY: passed on to the caller.
    unsafe { Link::of(ssl) }?.flight.as_deref()
}

/// A secret as the library gives it.
///
/// # Safety
/// `cipher` is null or live, `secret` has `len` readable bytes.
unsafe fn secret_of(cipher: *const sys::SSL_CIPHER, secret: *const u8, len: usize) -> Option<Secret> {
    if cipher.is_null() || secret.is_null() {
        return None;
    }
    // SAFETY: as the caller promised.
    unsafe {
        Secret::new(Suite::from_number(sys::SSL_CIPHER_get_protocol_id(cipher))?, slice::from_raw_parts(secret, len))
    }
}

/// Keeps a secret in its place; what the library is told of that.
fn keep(place: Option<&RefCell<Option<Secret>>>, secret: Option<Secret>) -> c_int {
    c_int::from(place.zip(secret).map(|(place, secret)| place.replace(Some(secret))).is_some())
}

unsafe extern "C" fn set_read_secret(
    ssl: *mut sys::SSL,
    level: sys::ssl_encryption_level_t,
    cipher: *const sys::SSL_CIPHER,
    secret: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: the library calls with a live session of ours, its cipher and a secret of that length.
    let (flight, secret) = unsafe { (flight_of(ssl), secret_of(cipher, secret, len)) };
    keep(flight.and_then(|flight| flight.read.get(level as usize)), secret)
}

unsafe extern "C" fn set_write_secret(
    ssl: *mut sys::SSL,
    level: sys::ssl_encryption_level_t,
    cipher: *const sys::SSL_CIPHER,
    secret: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: as in `set_read_secret`.
    let (flight, secret) = unsafe { (flight_of(ssl), secret_of(cipher, secret, len)) };
    keep(flight.and_then(|flight| flight.write.get(level as usize)), secret)
}

unsafe extern "C" fn add_handshake_data(
    ssl: *mut sys::SSL,
    level: sys::ssl_encryption_level_t,
    data: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: the library calls with a live session of ours.
    let Some(place) = unsafe { flight_of(ssl) }.and_then(|flight| flight.outgoing.get(level as usize)) else {
        return 0;
    };
    if len > 0 && !data.is_null() {
        // SAFETY: the data is readable for its length.
        place.borrow_mut().extend_from_slice(unsafe { slice::from_raw_parts(data, len) });
    }
    1
}

/// What is to be sent is taken after each call.
unsafe extern "C" fn flush_flight(_ssl: *mut sys::SSL) -> c_int {
    1
}

unsafe extern "C" fn send_alert(ssl: *mut sys::SSL, _level: sys::ssl_encryption_level_t, alert: u8) -> c_int {
    // SAFETY: the library calls with a live session of ours.
    match unsafe { Link::of(ssl) } {
        Some(link) => {
            // The first says why.
            link.alert.set(link.alert.get().or(Some(Alert(alert))));
            1
        }
        None => 0,
    }
}
