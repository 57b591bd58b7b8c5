//! What a request is served under, and how an exchange fails.

use config::limits::Limits;
use reason::Reason;
use transport::Broken;
use wire::http::{RequestHead, Version};

use crate::auth::Subject;
use crate::client::RequestClient;
use crate::connection::Conn;
use crate::generation::Generation;
use crate::geoip::Located;
use crate::message::forwarding::{Facts, is_reported_secure, remove_unbelieved};
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::policies::Applicant;
use crate::route::{Arrival, Noted, Params, Sought, Values};
use crate::upstream::Places;
use crate::worker::Worker;

/// Where a request comes from and what it is served under.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// This core.
    pub worker: &'a Worker,
    /// The client's connection.
    pub conn: &'a Conn,
    /// The generation pinned by this request.
    pub generation: &'a Generation,
    /// Who sent the request.
    pub client: RequestClient,
    /// Another proxy asks about it, so that the connection's certificate is not the client's.
    is_relayed: bool,
}

impl<'a> Context<'a> {
    /// That of the request with this head, which pins this generation.
    pub fn new(worker: &'a Worker, conn: &'a Conn, generation: &'a Generation, head: &RequestHead) -> Context<'a> {
        let peer = conn.client.map(|client| client.ip());
        let client = if generation.trusts(peer) {
            let named_by = generation.config.forwarding.client_field();
            RequestClient::of(peer, &head.fields, named_by, |address| generation.trusts(Some(address)))
        } else {
            RequestClient::itself(peer)
        };
        Context { worker, conn, generation, client, is_relayed: false }
    }

    /// That of a request that another proxy holds, who asks about it on this connection.
    pub fn of_relayed(self, head: &RequestHead) -> Context<'a> {
        Context { is_relayed: true, ..Context::new(self.worker, self.conn, self.generation, head) }
    }

    /// As [`Context::new`], of a head that was just read: from here on it says of its sender only what that may say.
    pub fn of_read(
        worker: &'a Worker,
        conn: &'a Conn,
        generation: &'a Generation,
        head: &mut RequestHead,
    ) -> Context<'a> {
        let context = Context::new(worker, conn, generation, head);
        remove_unbelieved(&mut head.fields, &context.client, &generation.config.forwarding);
        generation.policies.remove_subject_fields(&mut head.fields);
        if head.has_unusual_name || generation.unusual_names.has_twins() {
            head.has_lost_name = generation.unusual_names.remove(&mut head.fields);
        }
        context
    }

    /// Where its client is counted among those of an upstream; for who connected that is looked up once per connection.
    pub fn places(&self) -> Option<Places> {
        let client = self.client.of_share()?;
        Some(match self.client.peer {
            Some(peer) if peer == client => *self.conn.places.get_or_init(|| Places::of(client)),
            _ => Places::of(client),
        })
    }

    /// The limits of the listener that it came in by.
    pub fn limits(&self) -> &'a Limits {
        self.generation.config.limits_at(&self.conn.listener.name)
    }

    /// What routes look at.
    pub fn sought<'h>(&self, head: &'h RequestHead) -> Sought<'h>
    where
        'a: 'h,
    {
        let tls = self.conn.tls.as_ref().filter(|_| !self.is_relayed).map(|tls| &tls.info);
        let (client, located, arrival) = (self.client.address, self.located(), self.arrival());
        Sought { head, client, tls, subject: None, located, arrival }
    }

    /// How it came here.
    fn arrival(&self) -> Arrival<'a> {
        let trusted = self.client.via_trusted.then_some(&self.generation.config.forwarding);
        let (port, is_relayed) = (if self.is_relayed { 0 } else { self.conn.port() }, self.is_relayed);
        Arrival { port, is_secure: self.conn.tls.is_some(), trusted, is_relayed }
    }

    /// Where its client is.
    pub fn located(&self) -> Located<'a> {
        Located { geoip: &self.generation.geoip, address: self.client.certain() }
    }

    /// What policies look at. `route`: the name of the request's route.
    pub fn applicant<'h>(&self, head: &'h RequestHead, route: Option<&'h str>, subject: &'h Subject) -> Applicant<'h>
    where
        'a: 'h,
    {
        let tls = self.conn.tls.as_ref().filter(|_| !self.is_relayed);
        let certificate = tls.and_then(|tls| tls.info.peer.as_deref());
        Applicant { client: self.client, head: Some(head), route, certificate, subject: Some(subject) }
    }

    /// Whether its client speaks TLS, to us or to a trusted proxy.
    pub fn is_secure(&self, head: &RequestHead) -> bool {
        let facts = self.facts();
        facts.secure || is_reported_secure(head, &facts, &self.generation.config.forwarding)
    }

    /// Whether a response says that HTTP/3 is served here, too: to clients that do not speak it yet, and not while we leave.
    pub fn offers_http3(&self, head: &RequestHead) -> bool {
        let listener = &self.conn.listener;
        listener.options.http3.is_served
            && head.version != Version::H3
            && !self.worker.is_leaving()
            && self.generation.announces_http3(&listener.name)
    }

    /// What templates of a route may hold of a request.
    pub fn values<'v>(&'v self, head: &'v RequestHead, params: &'v Params, noted: Noted<'v>) -> Values<'v> {
        self.facts().values(head, params, noted, &self.generation.config.forwarding)
    }

    /// What the upstream learns about the client.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            client: self.client,
            secure: self.conn.tls.is_some(),
            texts: self.conn.texts(),
            checked: false,
            continued: false,
            policies: &self.generation.policies,
            validates_messages: false,
            certificate: self.conn.tls.as_ref().and_then(|tls| tls.info.peer.as_deref()),
            tls: self.conn.tls.as_ref().map(|tls| &tls.info),
            located: self.located(),
        }
    }
}

/// Why an exchange did not come to a proper answer.
#[derive(Debug)]
pub enum Failure {
    /// Nothing was answered yet: this is the response.
    Rejected(Box<Rejection>),
    /// The answer was cut, or the client is gone: the connection (HTTP/2: the stream) must end so that nobody takes it for whole.
    Aborted,
}

impl From<Aborted> for Failure {
    fn from(_: Aborted) -> Failure {
        Failure::Aborted
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Failure {
        Failure::Rejected(Box::new(rejection))
    }
}

/// The client's connection or stream must be abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;

/// Notes why something could not be sent to the client.
pub fn client_failed(broken: &Broken, ledger: &mut Ledger) -> Aborted {
    ledger.blame(if broken.is_timeout() { Reason::ClientWriteTimeout } else { Reason::ClientDisconnected });
    Aborted
}
