//! One TLS connection over memory: ciphertext in, plaintext out, and back.
//!
//! Nothing here blocks. Input is borrowed for the length of a call and what the library does not take stays with the caller; output is
//! appended to the caller's buffer, one buffer per flight, so that the caller writes once.

use crate::{Acceptor, Chooser, Connector, KeyType, ProtocolVersion, ServerName};
use std::fmt;
use std::sync::Arc;

/// A TLS connection.
pub struct Session {}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

/// How far the handshake got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Needs more input (flush the output first).
    WantInput,
    /// Complete (flush the output).
    Done,
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// This many plaintext bytes were written to the caller's slice.
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
        let _ = (acceptor, chooser);
        todo!()
    }

    /// A client session to `name`.
    ///
    /// # Errors
    /// Out of memory, or the name cannot be checked.
    pub fn client(connector: &Connector, name: &ServerName) -> Result<Session, Error> {
        let _ = (connector, name);
        todo!()
    }

    /// Drives the handshake with what `input` holds; advances `input` past what was taken.
    ///
    /// # Errors
    /// The handshake failed; `output` holds the alert to send, if one is due.
    pub fn handshake(&mut self, input: &mut &[u8], output: &mut Vec<u8>) -> Result<Handshake, Error> {
        let _ = (input, output);
        todo!()
    }

    /// Decrypts into `plain`; advances `input` past what was taken. Post-handshake messages are handled inside; KeyUpdates and other
    /// post-handshake messages are counted and refused beyond 32 per connection without application data between them.
    ///
    /// # Errors
    /// The peer broke the protocol or sent a fatal alert; `output` holds the alert to send, if one is due.
    pub fn read(&mut self, input: &mut &[u8], plain: &mut [u8], output: &mut Vec<u8>) -> Result<Read, Error> {
        let _ = (input, plain, output);
        todo!()
    }

    /// Encrypts all of `plain` as records appended to `output`.
    ///
    /// # Errors
    /// The session is closed or broken.
    pub fn write(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        let _ = (plain, output);
        todo!()
    }

    /// Appends close_notify, once. Reading stays possible (half-close).
    pub fn close(&mut self, output: &mut Vec<u8>) {
        let _ = output;
    }

    /// Appends a fatal alert and breaks the session.
    pub fn fail(&mut self, alert: Alert, output: &mut Vec<u8>) {
        let _ = (alert, output);
    }

    /// What was negotiated, once the handshake is done. Computed by the call; keep it if you need it twice.
    pub fn info(&self) -> Info {
        todo!()
    }
}

/// What a handshake agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The version.
    pub version: ProtocolVersion,
    /// The suite's IANA name, e.g. `TLS_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The key-exchange group's name, e.g. `X25519MLKEM768`; none for RSA key exchange.
    pub group: Option<&'static str>,
    /// SNI as sent, lower case, if it was a valid name.
    pub server_name: Option<Box<str>>,
    /// The protocol agreed by ALPN.
    pub alpn: Option<Box<[u8]>>,
    /// Key type of our identity; none on the client side.
    pub key_type: Option<KeyType>,
    /// A session was resumed.
    pub resumed: bool,
    /// The peer's verified certificate.
    pub peer: Option<Box<PeerCertificate>>,
}

/// A peer's certificate after verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The leaf, DER.
    pub der: Vec<u8>,
    /// Subject, RFC 4514 string.
    pub subject: String,
    /// Issuer, RFC 4514 string.
    pub issuer: String,
    /// Serial number, upper-case hexadecimal.
    pub serial: String,
    /// SHA-256 of the leaf, lower-case hexadecimal.
    pub fingerprint: String,
    /// DNS names among the subject alternative names.
    pub dns_names: Vec<String>,
    /// URIs among them.
    pub uris: Vec<String>,
    /// E-mail addresses among them.
    pub emails: Vec<String>,
    /// IP addresses among them.
    pub addresses: Vec<std::net::IpAddr>,
}

/// A TLS alert description (RFC 8446 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert(pub u8);

impl Alert {
    /// handshake_failure
    pub const HANDSHAKE_FAILURE: Alert = Alert(40);
    /// illegal_parameter
    pub const ILLEGAL_PARAMETER: Alert = Alert(47);
    /// access_denied
    pub const ACCESS_DENIED: Alert = Alert(49);
    /// decode_error
    pub const DECODE_ERROR: Alert = Alert(50);
    /// protocol_version
    pub const PROTOCOL_VERSION: Alert = Alert(70);
    /// internal_error
    pub const INTERNAL_ERROR: Alert = Alert(80);
    /// unrecognized_name
    pub const UNRECOGNIZED_NAME: Alert = Alert(112);
    /// no_application_protocol
    pub const NO_APPLICATION_PROTOCOL: Alert = Alert(120);
}

/// Why a TLS operation failed: first whose fault it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The peer sent something we refuse; the library's reason, e.g. `WRONG_VERSION_NUMBER`.
    Peer(Box<str>),
    /// The peer sent this fatal alert.
    PeerAlert(Alert),
    /// The peer's certificate was not accepted; why.
    PeerCertificate(Box<str>),
    /// We refused with this alert (chooser).
    Refused(Alert),
    /// Our own material or set-up is at fault; what.
    Ours(Box<str>),
    /// The session had ended before.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Error {}
