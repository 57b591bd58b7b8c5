//! How a client is passed on to a server: by a PROXY header, under its own address, or by both; of tunnels and of requests.
//!
//! A connection that says who its client is serves nobody else: for requests it is bound to the client's connection, kept as long as that lives and closed
//! with it (`upstream::Pools`). Decides whom it names and which servers it cannot reach. Whether an address may be used is `passport`'s decision.

pub mod header;

use std::net::SocketAddr;

use config::{SendProxy, ServerAddress};
use net::Source;
use net::transparent::canonical;
use reason::Reason;

use crate::connection::Conn;
use crate::message::context::Context;
use crate::message::rejection::Rejection;
use crate::passport::{self, Rejected};
use crate::upstream::{BoundTo, Group, PoolId, Server, ServerId};
use header::Speaker;

/// How the client of one request is passed on.
#[derive(Debug)]
pub struct Onward {
    source: Source,
    client: Option<SocketAddr>,
    send_proxy: SendProxy,
    unfit: Vec<ServerId>,
    to: BoundTo,
}

impl Onward {
    /// That of a request to this group; none if any connection will do.
    ///
    /// # Errors
    /// 403: the client's address may not be used.
    pub fn of(context: Context<'_>, group: &Group) -> Result<Option<Box<Onward>>, Rejection> {
        let (source, send_proxy) = (&group.config.source, group.config.send_proxy);
        if send_proxy == SendProxy::Off && !source.client {
            return Ok(None);
        }
        let (conn, client) = (context.conn, context.client);
        // Who is not known for certain is not named, and nobody else in its place.
        let certain = client.certain();
        if source.client && client.is_doubtful {
            return Err(Rejection::with_status(Reason::AddressNotAllowed, 403));
        }
        // Whom a trusted proxy names may share its connection with others, and has no port that anybody could tell.
        let connected = conn.client.map(canonical).filter(|connected| certain == Some(connected.ip()));
        let named = connected.or(certain.map(|address| SocketAddr::new(address, 0)));
        let reported = conn.reported.as_deref().filter(|_| !client.via_trusted);
        let source = passport::source(source, named, reported, &context.worker.own)
            .map_err(|rejected| Rejection::with_status(rejected.reason(), 403))?;
        let to = BoundTo { binding: conn.bound().binding, client: client.address, pool: PoolId::MIN };
        Ok(Some(Box::new(Onward { source, client: named, send_proxy, unfit: unfit_servers(group, source, named), to })))
    }

    /// The PROXY header that goes ahead, and the client that it names.
    pub fn header_to_send(&self) -> Option<(SendProxy, Option<SocketAddr>)> {
        (self.send_proxy != SendProxy::Off).then_some((self.send_proxy, self.client))
    }

    /// Servers that its connections cannot reach.
    pub fn unfit(&self) -> &[ServerId] {
        &self.unfit
    }

    /// Under which address they go there.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Under what connections to a server are kept.
    pub fn key(&self, pool: PoolId) -> BoundTo {
        BoundTo { pool, ..self.to }
    }

    /// What goes ahead on a fresh connection. `reached`: the address that the client's connection has reached.
    pub fn header(&self, conn: &Conn, reached: Option<SocketAddr>) -> Vec<u8> {
        if self.send_proxy == SendProxy::Off {
            return Vec::new();
        }
        let server_name = conn.tls.as_ref().and_then(|tls| tls.info.server_name.as_deref());
        let speaker = Speaker { conn, client: self.client, reached, server_name, id: &conn.bound().id };
        header::render(self.send_proxy, &speaker)
    }

    /// Whether the connection would arrive where the client's did.
    ///
    /// # Errors
    /// 508.
    pub fn check(&self, server: &Server, reached: Option<SocketAddr>) -> Result<(), Rejection> {
        let leads_back = self.source.address.is_some() && is_where_it_came(&server.address, reached);
        if leads_back { Err(Rejection::with_status(Rejected::Loop.reason(), 508)) } else { Ok(()) }
    }
}

/// Whether a server is the very address that a client has reached.
pub fn is_where_it_came(server: &ServerAddress, reached: Option<SocketAddr>) -> bool {
    matches!(server, ServerAddress::Ip(server) if reached.map(canonical) == Some(*server))
}

/// Servers that a connection under `source` cannot reach. A balancer's own connections go under our address, but to the same servers while there
/// are any of its family.
pub fn unfit_servers(group: &Group, source: Source, client: Option<SocketAddr>) -> Vec<ServerId> {
    match (source.address, client) {
        (Some(source), _) => group.of_other_family(source.is_ipv4()),
        (None, Some(client)) if group.config.source.client => {
            let unfit = group.of_other_family(client.is_ipv4());
            if group.has_other(&unfit) { unfit } else { Vec::new() }
        }
        (None, _) => Vec::new(),
    }
}
