//! Alerts and errors: first whose fault it was, then what.
//!
//! Turns the library's error queue into an [`Error`]. Decides nothing about logging or closing. Ruled by RFC 8446 §6.

use crate::{chain, ffi};
use aws_lc_sys as sys;
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

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the function maps any number to a string with static lifetime.
        let name = unsafe { ffi::static_text(sys::SSL_alert_desc_string_long(self.0.into())) };
        write!(f, "{} ({})", name.unwrap_or("unknown"), self.0)
    }
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

impl Error {
    /// Our fault, with the library's first reason behind `what`. Empties the error queue.
    pub(crate) fn ours(what: &str) -> Error {
        match ffi::take_faults().first() {
            Some(fault) => Error::Ours(format!("{what}: {}", fault.text()).into()),
            None => Error::Ours(what.into()),
        }
    }

    /// What a failed call on a session left in the error queue, which is emptied. `verify_result` is that session's, `alert` the one that it sent.
    pub(crate) fn of_session(verify_result: std::os::raw::c_long, alert: Option<Alert>) -> Error {
        let faults = ffi::take_faults();
        // A fatal alert or a decision on the certificate says more than whatever the library noted before it.
        if let Some(alert) = faults.iter().find_map(ffi::Fault::alert) {
            return Error::PeerAlert(Alert(alert));
        }
        if faults.iter().any(|fault| fault.is_ssl(sys::SSL_R_CERTIFICATE_VERIFY_FAILED)) {
            // SAFETY: the function maps any number to a string with static lifetime.
            let theirs = || unsafe { ffi::static_text(sys::X509_verify_cert_error_string(verify_result)) };
            let why = chain::text(verify_result).or_else(theirs);
            return Error::PeerCertificate(why.unwrap_or("verification failed").into());
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
