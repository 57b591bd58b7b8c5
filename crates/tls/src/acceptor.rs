//! The server side's shared context: one `SSL_CTX`, and the choice made for each ClientHello.

use crate::{Alert, Error, Identity, Policy, ProtocolVersion, TicketKeys};
use std::sync::Arc;
use wire::client_hello::ClientHello;

/// Decides, once per handshake and before anything is negotiated, what this client gets.
pub trait Chooser {
    /// The choice for this ClientHello, or the alert to refuse it with.
    ///
    /// # Errors
    /// The fatal alert to send.
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Alert>;
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
    /// Protocols we speak, in our order, e.g. `[b"h2", b"http/1.1"]`. If the client offers ALPN and none matches: no_application_protocol.
    pub alpn: Arc<[Vec<u8>]>,
    /// Whether and how the client must prove itself.
    pub client_auth: Option<Arc<ClientAuth>>,
    /// SHA-256 over what a ticket may not cross: name, policy, client-certificate rule. Ticket keys and the session id context come from it.
    pub context: [u8; 32],
}

/// A rule for client certificates. Built once per config, shared by connections.
#[derive(Debug)]
pub struct ClientAuth {
    // roots, CRLs, required or optional; SAN rules are checked by the program, which sees the certificate.
}

impl ClientAuth {
    /// From trusted roots and revocation lists (DER). `required`: a handshake without a certificate ends with certificate_required (1.3) or
    /// handshake_failure. With CRLs, every certificate of the chain must be covered by a current one.
    ///
    /// # Errors
    /// A root or list does not parse; says which (index) and why.
    pub fn new(roots: &[Vec<u8>], crls: &[Vec<u8>], required: bool) -> Result<ClientAuth, Error> {
        let _ = (roots, crls, required);
        todo!()
    }
}

/// The shared server context. `Send + Sync`; one per process is enough.
#[derive(Debug)]
pub struct Acceptor {}

impl Acceptor {
    /// A context whose tickets are sealed under `tickets`.
    ///
    /// # Errors
    /// The library could not be set up (out of memory).
    pub fn new(tickets: Arc<TicketKeys>) -> Result<Acceptor, Error> {
        let _ = tickets;
        todo!()
    }
}
