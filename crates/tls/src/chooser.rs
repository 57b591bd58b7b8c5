//! What is decided for each handshake before anything is negotiated, and by whom.
//!
//! Ruled by RFC 8446 §4.1.2 and RFC 7301. The acceptor asks and applies it.

use crate::{Alert, ClientAuth, Identity, Policy, ProtocolVersion};
use std::sync::Arc;
use wire::client_hello::ClientHello;

/// Decides, once per handshake and before anything is negotiated, what this client gets.
pub trait Chooser {
    /// The name whose certificate is to come before there is a choice: the handshake is suspended for it
    /// ([`Handshake::WantCertificate`](crate::Handshake)), once, and then [`Chooser::choose`] is asked whatever has become of it. Not asked under QUIC,
    /// where nobody has shown yet that the client's address is its own.
    fn awaits(&self, hello: &ClientHello<'_>) -> Option<Box<str>> {
        let _ = hello;
        None
    }

    /// The choice for this ClientHello, or the alert to reject it with.
    ///
    /// # Errors
    /// The fatal alert to send.
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Alert>;

    /// Whether some choice has a rule for client certificates, so that tickets may be long.
    fn asks_for_certificates(&self) -> bool;

    /// Whether the client's fingerprint is to be noted.
    fn wants_fingerprint(&self) -> bool {
        false
    }
}

/// Everything one handshake is done under.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Chain and key to prove ourselves with.
    pub identity: Arc<Identity>,
    /// Versions, suites and groups.
    pub policy: Policy,
    /// Lowest version; may be above or below the policy's own (`legacy` widens it, never `intermediate` or `modern`).
    pub min_version: ProtocolVersion,
    /// Protocols we speak, in our order, e.g. `[b"h2", b"http/1.1"]`. If the client offers ALPN and none matches: no_application_protocol. Empty:
    /// the extension is ignored, as RFC 7301 has it for a server without ALPN.
    pub alpn: Arc<[Vec<u8>]>,
    /// Whether and how the client must prove itself.
    pub client_auth: Option<Arc<ClientAuth>>,
    /// SHA-256 over what a ticket may not cross: name, policy, client-certificate rule. Ticket keys and the session id context come from it (and
    /// from the contents of `client_auth`, whether or not they are in this digest).
    pub context: [u8; 32],
}
