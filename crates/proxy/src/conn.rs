//! The life of one connection, top to bottom.
//!
//! ```text
//! accepted → identified (PROXY header or socket) → opened (TLS or plain) → HTTP/1.1 or HTTP/2 → closed, counted, logged
//! ```

pub mod accepted;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use config::ListenerConfig;
use net::Chunk;
use transport::Transport;

use crate::client::{self, Identified};
use crate::connection::{Conn, ended_before};
use crate::handshake;
use crate::http;
use crate::tunnel::{self, TunnelSettings};
use crate::worker::Worker;
use accepted::{Accepted, Opened};
use reason::Reason;

/// Serves one connection to its end.
///
/// This future lives as long as the connection and is small. What is large and soon over is boxed: finding out who the client is, the handshake.
pub fn run(accepted: Accepted) -> impl Future<Output = ()> {
    let beginning = Box::pin(begin(accepted));
    async move {
        match beginning.await {
            Some(Begun::Http(connection)) => requests(connection).await,
            Some(Begun::Tunnel(connection, settings)) => Box::pin(tunnelled(connection, settings)).await,
            None => {}
        }
    }
}

/// A connection whose client is known.
enum Begun {
    Http(Box<Http>),
    Tunnel(Box<Identity>, TunnelSettings),
}

/// One that carries requests, opened.
struct Http {
    transport: Rc<Transport>,
    /// Bytes that were received already.
    first: Chunk,
    conn: Rc<Conn>,
    worker: Rc<Worker>,
    /// Counts it as open until this is dropped.
    _counted: Opened,
}

/// Whose it is; nothing of it is opened.
struct Identity {
    stream: net::Stream,
    first: Chunk,
    conn: Conn,
    counted: Opened,
}

/// What comes before the first request or the first byte of a tunnel. None if the connection ended meanwhile, logged.
async fn begin(accepted: Accepted) -> Option<Begun> {
    let worker = Rc::clone(accepted.opened.worker());
    let generation = worker.pin();
    let listener = generation.listener(&accepted.place).cloned()?;
    let front = generation.front(&listener.name).cloned();
    let limits = generation.config.limits_at(&listener.name);
    let (handshake_timeout, pace) = (limits.handshake_timeout, limits.pace());
    let settings = TunnelSettings::of(&generation, &listener);
    drop(generation);

    let identity = identify(accepted, listener, &worker).await?;
    if let Some(settings) = settings {
        return Some(Begun::Tunnel(Box::new(identity), settings));
    }
    let Identity { stream, first, mut conn, mut counted } = identity;
    let (opened, first) = match front {
        None => (Ok(Transport::plain(stream)), first),
        Some(front) => {
            (handshake::open((stream, first), &mut conn, &front, handshake_timeout, &worker).await, Chunk::empty())
        }
    };
    match opened {
        Ok(transport) => {
            transport.pace_writes(Some(pace));
            let transport = Rc::new(transport);
            counted.carried_by(&transport);
            Some(Begun::Http(Box::new(Http { transport, first, conn: Rc::new(conn), worker, _counted: counted })))
        }
        Err(traffic) => {
            counted.close(traffic);
            None
        }
    }
}

/// HTTP/1.1 or HTTP/2 to its end.
async fn requests(mut connection: Box<Http>) {
    let first = std::mem::replace(&mut connection.first, Chunk::empty());
    let Http { transport, conn, worker, .. } = &*connection;
    let is_http2 = conn.tls.as_ref().is_some_and(|tls| tls.info.alpn.as_deref() == Some(b"h2"));
    let input = match is_http2 {
        true => Some(first),
        false => http::h1::serve(transport, first, conn, worker).await,
    };
    if let Some(input) = input {
        Box::pin(http::h2::serve(Rc::clone(transport), input, Rc::clone(conn), Rc::clone(worker))).await;
    }
    if let Some(bound) = conn.onward.get() {
        worker.pools.unbind(bound.binding);
    }
}

/// A tunnel to its end.
async fn tunnelled(connection: Box<Identity>, settings: TunnelSettings) {
    let Identity { stream, first, mut conn, counted } = *connection;
    let worker = Rc::clone(counted.worker());
    let traffic = tunnel::serve(stream, first, &mut conn, settings, &worker).await;
    counted.close(traffic);
}

/// Finds out who the client is, and counts the connection as theirs. None if it ended there, logged.
async fn identify(accepted: Accepted, listener: Arc<ListenerConfig>, worker: &Worker) -> Option<Identity> {
    let Accepted { stream, peer, bound_port, is_balancer, at, opened: mut counted, .. } = accepted;
    let accepted_at = (at, Instant::now());
    let mut conn = Conn::new(listener, peer, bound_port, accepted_at);
    let identified = match &conn.listener.proxy_protocol {
        None => Ok(client::itself(stream, peer)),
        Some(rule) => Box::pin(client::read_header(stream, peer, rule, is_balancer)).await,
    };
    let rejection = match identified {
        Ok(identified) => {
            let Identified { stream, first, client, reported } = identified;
            conn.client = client;
            conn.local_port = reported
                .as_ref()
                .and_then(|reported| reported.destination)
                .map_or(bound_port, |address| address.port());
            conn.reported = reported;
            let generation = worker.pin();
            let most = generation.config.limits.max_connections_per_client;
            let is_proxy = conn.listener.reads_requests() && generation.trusts(conn.client.map(|client| client.ip()));
            if counted.identify(conn.client.filter(|_| !is_proxy), !is_balancer, most) {
                return Some(Identity { stream, first, conn, counted });
            }
            ("accept", Reason::TooManyConnectionsFromClient, String::new())
        }
        Err(why) => ("proxy_header", why.reason(), why.detail()),
    };
    ended_before(&conn, &worker.report, rejection.0, rejection.1, &rejection.2);
    None
}
