//! One TLS connection over memory: ciphertext in, plaintext out, and back.
//!
//! Nothing here blocks. Input is borrowed for the length of a call and what the library does not take stays with the caller; output is
//! appended to the caller's buffer, one buffer per flight, so that the caller writes once. Ruled by RFC 8446 and RFC 5246.
//!
//! ```text
//! server()/client() ── handshake() … Done ── read()/write() … ── close()
//!                       ↑  │                      │
//!   key_request() … answer()└── error, fail() ─────┴──→ ended
//! ```

use crate::chain;
use crate::ffi::{self, Owned};
use crate::link::{Link, Opening, Origin};
use crate::remote::{KeyRequest, KeyResponse, Remote};
use crate::{Acceptor, Alert, Chooser, ClientAuth, Connector, Error, Info, Policy, ProtocolVersion, ServerName, info};
use aws_lc_sys as sys;
use std::fmt;
use std::os::raw::{c_int, c_void};
use std::sync::Arc;

/// Plaintext bytes of a full record (RFC 8446 §5.1).
const RECORD_BYTES: usize = 16 * 1024;

/// A TLS connection.
pub struct Session {
    /// Owns the BIO, which owns the link.
    ssl: Owned<sys::SSL>,
    is_server: bool,
    /// The first byte of the handshake was seen.
    began: bool,
    /// close_notify was written.
    closed: bool,
    /// A fatal alert or error was reported.
    ended: bool,
}

// SAFETY: the library's session may move between threads as long as one at a time uses it, and it is not `Sync`. What the link holds is
// `Send`, as the check below has the compiler say; lent pointers are gone between calls.
unsafe impl Send for Session {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Opening>();
    is_send::<Origin>();
    is_send::<Remote>();
    is_send::<Error>();
};

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("is_server", &self.is_server)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// How far the handshake got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Needs more input (flush the output first).
    WantInput,
    /// Needs its private key, which is elsewhere: see [`Session::key_request`]. Input need not be read meanwhile.
    WantKey,
    /// Waits for a certificate: see [`Session::awaited_name`]. Once it is there, or will not come, go on with [`Session::handshake`], or end the session with
    /// [`Session::fail`]. Input need not be read meanwhile.
    WantCertificate,
    /// Complete (flush the output).
    Done,
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// This many plaintext bytes were written to the caller's slice. There may be more: read again, also without new input.
    Plain(usize),
    /// Needs more input. Output may hold something to flush.
    WantInput,
    /// The peer sent close_notify.
    Closed,
}

impl Session {
    /// A server session that asks `chooser` once for its choice.
    ///
    /// # Errors
    /// Out of memory.
    pub fn server(acceptor: &Acceptor, chooser: Arc<dyn Chooser + Send + Sync>) -> Result<Session, Error> {
        ffi::clear_errors();
        Ok(Session { ssl: acceptor.session(chooser)?, is_server: true, began: false, closed: false, ended: false })
    }

    /// A client session to `name`.
    ///
    /// # Errors
    /// Out of memory, or the name cannot be checked.
    pub fn client(connector: &Connector, name: &ServerName) -> Result<Session, Error> {
        ffi::clear_errors();
        Ok(Session { ssl: connector.session(name)?, is_server: false, began: false, closed: false, ended: false })
    }

    /// Drives the handshake with what `input` holds; advances `input` past what was taken. A client's first call needs no input.
    ///
    /// # Errors
    /// The handshake failed; `output` holds the alert to send, if one is due.
    pub fn handshake(&mut self, input: &mut &[u8], output: &mut Vec<u8>) -> Result<Handshake, Error> {
        if self.ended {
            return Err(Error::Ended);
        }
        if self.link()?.is_established() {
            return Ok(Handshake::Done);
        }
        self.reject_sslv2(input, output)?;
        // SAFETY: the session is live.
        let response = self.call(input, output, |ssl| unsafe { sys::SSL_do_handshake(ssl) })?;
        if response == 1 {
            self.establish(output)?;
            return Ok(Handshake::Done);
        }
        match self.reason(response) {
            sys::SSL_ERROR_WANT_READ => Ok(Handshake::WantInput),
            sys::SSL_ERROR_WANT_PRIVATE_KEY_OPERATION => Ok(Handshake::WantKey),
            sys::SSL_ERROR_PENDING_CERTIFICATE => Ok(Handshake::WantCertificate),
            _ => Err(self.broken(output)),
        }
    }

    /// What the handshake asks of its private key, once per [`Handshake::WantKey`]. Give the response with [`Session::respond`] and go on with
    /// [`Session::handshake`], or end the session with [`Session::fail`].
    pub fn key_request(&mut self) -> Option<KeyRequest> {
        self.link().ok()?.with_remote(|remote| remote.request.take())?
    }

    /// The answer to its key request.
    pub fn respond(&mut self, response: KeyResponse) {
        if let Ok(link) = self.link() {
            link.with_remote(|remote| remote.response = Some(response));
        }
    }

    /// The name whose certificate the handshake waits for, once per [`Handshake::WantCertificate`].
    pub fn awaited_name(&mut self) -> Option<Box<str>> {
        self.link().ok()?.awaited.take()
    }

    /// Decrypts into `plain`, as many records as input and `plain` allow; advances `input` past what was taken. Post-handshake messages are handled
    /// inside; KeyUpdates and other post-handshake messages are counted and refused beyond 32 per connection without application data between them.
    ///
    /// # Errors
    /// The peer broke the protocol or sent a fatal alert; `output` holds the alert to send, if one is due. What was decrypted before is returned
    /// first, and the error by the next call.
    pub fn read(&mut self, input: &mut &[u8], plain: &mut [u8], output: &mut Vec<u8>) -> Result<Read, Error> {
        self.check_open()?;
        let mut filled = 0;
        loop {
            let room = &mut plain[filled..];
            if room.is_empty() {
                return Ok(Read::Plain(filled));
            }
            let (pointer, len) = (room.as_mut_ptr().cast::<c_void>(), clamp(room.len()));
            // SAFETY: the session is live and `pointer` has `len` writable bytes.
            let response = self.call(input, output, |ssl| unsafe { sys::SSL_read(ssl, pointer, len) })?;
            if response > 0 {
                self.link()?.saw_data();
                // The answer is at most the room.
                filled += response as usize;
                continue;
            }
            let reason = self.reason(response);
            if filled > 0 {
                return Ok(Read::Plain(filled));
            }
            return match reason {
                sys::SSL_ERROR_WANT_READ if !self.link()?.is_flooded() => Ok(Read::WantInput),
                sys::SSL_ERROR_ZERO_RETURN => Ok(Read::Closed),
                _ => Err(self.broken(output)),
            };
        }
    }

    /// Whether plaintext waits that a read had no room for: the next read gives it without new input.
    pub fn has_plaintext(&self) -> bool {
        // SAFETY: the session is live.
        unsafe { sys::SSL_pending(self.ssl.as_ptr()) > 0 }
    }

    /// Whether the peer's close_notify has been read: nothing more comes.
    pub fn peer_has_closed(&self) -> bool {
        // SAFETY: the session is live.
        let flags = unsafe { sys::SSL_get_shutdown(self.ssl.as_ptr()) };
        flags & sys::SSL_RECEIVED_SHUTDOWN as c_int != 0
    }

    /// Encrypts all of `plain` as records appended to `output`.
    ///
    /// # Errors
    /// The session is closed or broken.
    pub fn write(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        self.check_open()?;
        if self.closed {
            return Err(Error::Ended);
        }
        // SAFETY: the session is live.
        let overhead = unsafe { sys::SSL_max_seal_overhead(self.ssl.as_ptr()) };
        output.reserve(plain.len() + plain.len().div_ceil(RECORD_BYTES) * overhead);
        for part in plain.chunks(c_int::MAX as usize) {
            let (pointer, len) = (part.as_ptr().cast::<c_void>(), clamp(part.len()));
            // SAFETY: the session is live and `pointer` has `len` readable bytes.
            let response = self.call(&mut &[][..], output, |ssl| unsafe { sys::SSL_write(ssl, pointer, len) })?;
            // Our BIO takes everything, so the response is all or an error.
            if response != len {
                return Err(self.broken(output));
            }
        }
        Ok(())
    }

    /// Appends close_notify, once. Reading stays possible (half-close). Nothing before the handshake is done or after the session ended.
    pub fn close(&mut self, output: &mut Vec<u8>) {
        if self.closed || self.check_open().is_err() {
            return;
        }
        self.closed = true;
        // The answer only says whether the peer has closed, too. SAFETY: the session is live.
        let _ = self.call(&mut &[][..], output, |ssl| unsafe { sys::SSL_shutdown(ssl) });
    }

    /// Appends a fatal alert and breaks the session.
    pub fn fail(&mut self, alert: Alert, output: &mut Vec<u8>) {
        if self.ended {
            return;
        }
        // After close_notify or another alert the library refuses to send one more, which is right. SAFETY: the session is live.
        let _ = self.call(&mut &[][..], output, |ssl| unsafe { sys::SSL_send_fatal_alert(ssl, alert.0) });
        self.ended = true;
    }

    /// The name that the client asked for, as soon as it was read; none if it is no valid host name.
    pub fn server_name(&self) -> Option<Box<str>> {
        info::server_name(&self.ssl)
    }

    /// What was negotiated, once the handshake is done. Computed by the call; keep it if you need it twice.
    pub fn info(&self) -> Info {
        let key_type = self.link().ok().and_then(|link| link.key_type.get());
        let algorithms = self.link().ok().map(|link| link.algorithms.get()).unwrap_or_default();
        info::of_session(&self.ssl, key_type, algorithms, self.link().ok().and_then(Link::fingerprint))
    }

    /// The certificate that the peer has shown the key of, DER, whether or not anybody vouches for it: for whoever knows the key.
    pub fn shown_certificate(&self) -> Option<Vec<u8>> {
        info::shown_certificate(&self.ssl)
    }

    /// The link, which lives as long as the session.
    fn link(&self) -> Result<&Link, Error> {
        // SAFETY: the session is live, made by `link::attach`, and the reference is bound to `self`.
        unsafe { Link::of(self.ssl.as_ptr()) }.ok_or_else(|| Error::Ours("the session has no link".into()))
    }

    /// One library call with the caller's buffers lent to it and an empty error queue before it.
    fn call(
        &self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        call: impl FnOnce(*mut sys::SSL) -> c_int,
    ) -> Result<c_int, Error> {
        ffi::clear_errors();
        Ok(self.link()?.lend(input, output, || call(self.ssl.as_ptr())))
    }

    /// Why a call answered as it did (`SSL_get_error`).
    fn reason(&self, response: c_int) -> c_int {
        // SAFETY: the session is live, and the error queue is that of its last call.
        unsafe { sys::SSL_get_error(self.ssl.as_ptr(), response) }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.ended {
            return Err(Error::Ended);
        }
        if self.link()?.is_established() {
            return Ok(());
        }
        // The library would run the handshake by itself, past our checks at its end.
        Err(Error::Ours("used before its handshake was done".into()))
    }

    /// The error of the call that just failed, with an alert if the library sent none where one is due. Ends the session.
    fn broken(&mut self, output: &mut Vec<u8>) -> Error {
        let rejection = self.link().ok().and_then(|link| link.rejection.take());
        // SAFETY: the session is live.
        let verified = unsafe { sys::SSL_get_verify_result(self.ssl.as_ptr()) };
        let from_queue = Error::of_session(verified, self.link().ok().and_then(|link| link.alert.get()));
        let error = match rejection {
            Some(rejection) => rejection,
            None if self.link().is_ok_and(Link::is_flooded) => {
                self.fail(Alert::UNEXPECTED_MESSAGE, output);
                Error::Peer("TOO_MANY_POST_HANDSHAKE_MESSAGES".into())
            }
            None => from_queue,
        };
        if matches!(error, Error::Ours(_)) {
            // A failed private-key operation sends nothing by itself.
            self.fail(Alert::INTERNAL_ERROR, output);
        }
        self.ended = true;
        error
    }

    /// Rejects a ClientHello in SSLv2 framing (RFC 8446 §4.1.2 forbids accepting it from whom offers TLS 1.3; we never do): its first byte has
    /// the high bit set, which no TLS record type has.
    fn reject_sslv2(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        let Some(first) = input.first().filter(|_| !self.began) else { return Ok(()) };
        self.began = true;
        if self.is_server && first & 0x80 != 0 {
            self.fail(Alert::PROTOCOL_VERSION, output);
            return Err(Error::Peer("SSLV2_FRAMING".into()));
        }
        Ok(())
    }

    /// The handshake is over.
    fn establish(&mut self, output: &mut Vec<u8>) -> Result<(), Error> {
        if let Err((alert, error)) = establish(&self.ssl, self.link()?) {
            self.fail(alert, output);
            return Err(error);
        }
        Ok(())
    }
}

/// A handshake is over: checks what a resumed session must still prove, and lets go of the handshake's state.
pub(crate) fn establish(ssl: &Owned<sys::SSL>, link: &Link) -> Result<(), (Alert, Error)> {
    link.establish();
    link.remote.take();
    let Some(opening) = link.opening.take() else { return Ok(()) };
    // SAFETY: the session is live.
    let resumed = unsafe { sys::SSL_session_reused(ssl.as_ptr()) } == 1;
    let rule = opening.client_auth().filter(|_| resumed);
    match rule.and_then(|(rule, policy)| fault_of_resumed_peer(ssl, rule, policy)) {
        Some((alert, why)) => Err((alert, Error::PeerCertificate(why.into()))),
        None => Ok(()),
    }
}

/// What is wrong with the client's chain that a resumed session carries: the library does not look at it again, and since the session began
/// certificates may have expired, and revocation lists become stale.
fn fault_of_resumed_peer(ssl: &Owned<sys::SSL>, rule: &ClientAuth, policy: Policy) -> Option<(Alert, &'static str)> {
    match info::holds_certificate(ssl) {
        true => rule.fault_now(ssl, policy),
        false if !rule.is_required() => None,
        false if info::version(ssl) == ProtocolVersion::Tls13 => {
            Some((Alert::CERTIFICATE_REQUIRED, "the resumed session holds none"))
        }
        false => Some((Alert::HANDSHAKE_FAILURE, "the resumed session holds none")),
    }
}

/// A length as the library takes it: what is above its range is left for the next call.
fn clamp(len: usize) -> c_int {
    c_int::try_from(len).unwrap_or(c_int::MAX)
}

impl Error {
    /// What a failed call on a session left in the error queue, which is emptied. `verify_result` is that session's, `alert` the one that it sent.
    pub(crate) fn of_session(verify_result: std::os::raw::c_long, alert: Option<Alert>) -> Error {
        let faults = ffi::take_faults();
        // A fatal alert or a decision on the certificate says more than whatever the library noted before it.
        if let Some(alert) = faults.iter().find_map(ffi::Fault::alert) {
            return Error::PeerAlert(Alert(alert));
        }
        if faults.iter().any(|fault| fault.is_ssl(sys::SSL_R_CERTIFICATE_VERIFY_FAILED)) {
            return Error::PeerCertificate(chain::text(verify_result).into());
        }
        // libssl's own reason is behind that of the part that failed under it, e.g. a cipher.
        let Some(first) = faults.iter().find(|fault| fault.is_from_ssl()).or(faults.first()) else {
            return Error::Peer("UNEXPECTED_END".into());
        };
        if first.is_ssl(sys::SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
            return Error::PeerCertificate("none was sent".into());
        }
        match alert {
            // The library calls some faults of the peer internal errors, such as a malformed ML-KEM share, and sends the right alert.
            _ if !faults.iter().any(ffi::Fault::is_ours) => Error::Peer(first.text()),
            Some(Alert::ILLEGAL_PARAMETER) => Error::Peer("ILLEGAL_PARAMETER".into()),
            Some(Alert::DECODE_ERROR) => Error::Peer("DECODE_ERROR".into()),
            _ => Error::Ours(first.text()),
        }
    }
}

#[cfg(test)]
mod tests;
