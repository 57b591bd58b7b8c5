//! Alerts and errors: first whose fault it was, then what.
//!
//! Decides nothing about logging or closing; what the library's error queue says becomes an [`Error`] in `ffi` and `session`. Ruled by RFC 8446 §6.

use std::fmt;

/// A TLS alert description (RFC 8446 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert(pub u8);

impl Alert {
    /// unexpected_message
    pub const UNEXPECTED_MESSAGE: Alert = Alert(10);
    /// handshake_failure
    pub const HANDSHAKE_FAILURE: Alert = Alert(40);
    /// certificate_expired
    pub const CERTIFICATE_EXPIRED: Alert = Alert(45);
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
    /// certificate_required (TLS 1.3)
    pub const CERTIFICATE_REQUIRED: Alert = Alert(116);
    /// no_application_protocol
    pub const NO_APPLICATION_PROTOCOL: Alert = Alert(120);
}

/// Why a TLS operation failed: first whose fault it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The peer sent something we reject; the library's reason, e.g. `WRONG_VERSION_NUMBER`.
    Peer(Box<str>),
    /// The peer sent this fatal alert.
    PeerAlert(Alert),
    /// The peer's certificate was not accepted; why.
    PeerCertificate(Box<str>),
    /// We rejected with this alert (chooser).
    Rejected(Alert),
    /// Our own material or set-up is at fault; what.
    Ours(Box<str>),
    /// The session had ended before.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Peer(reason) => write!(f, "the peer broke TLS: {reason}"),
            Error::PeerAlert(alert) => write!(f, "the peer rejected with alert {alert}"),
            Error::PeerCertificate(why) => write!(f, "the peer's certificate was not accepted: {why}"),
            Error::Rejected(alert) => write!(f, "we rejected with alert {alert}"),
            Error::Ours(what) => write!(f, "our own TLS set-up failed: {what}"),
            Error::Ended => f.write_str("the TLS session had already ended"),
        }
    }
}

impl std::error::Error for Error {}
