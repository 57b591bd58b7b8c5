//! Which version of HTTP a server is spoken to where TLS negotiates it (`protocol: auto`): that of a connection at hand, or what a new one has agreed on.
//!
//! Nothing is configured per server, and nothing is remembered that could be wrong: each connection is of the version that was agreed on for it.

use std::net::SocketAddr;
use std::time::Instant;

use transport::Transport;

use crate::exchange::Exchange;
use crate::exchange::retry::{Failed, OnConnection};
use crate::exchange::upstream_h1::{self, Attempt, SLOW_CONNECT, Upgraded, care_of, connected};
use crate::exchange::upstream_h2::{self, begun, opened_by_another};
use crate::message::context::Failure;
use crate::message::sides::{MessageBody, ResponseSink, while_wanted};
use crate::upstream::speaks_http2;

/// How a request goes to a server.
pub(super) enum Spoken {
    /// Over HTTP/1.1, on this connection, if there is one, which was used before or not.
    Http1(Option<(Transport, bool)>),
    /// Over HTTP/2, on a connection that is shared.
    Http2,
}

/// Tries a request at one server, over the version that is at hand or that it agrees on.
///
/// # Errors
/// See [`Failed`].
pub(super) async fn attempt<B: MessageBody, A: ResponseSink>(
    attempt: &Attempt<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failed> {
    let spoken = match at_hand(attempt) {
        Some(spoken) => Ok(spoken),
        None => {
            let started = Instant::now();
            let negotiating = Box::pin(negotiate(attempt, exchange.sink.reached()));
            while_wanted(negotiating, exchange.sink).await.unwrap_or_else(|why| {
                exchange.ledger.blame(why);
                let servers_fault = started.elapsed() >= SLOW_CONNECT;
                Err(OnConnection { servers_fault, ..OnConnection::clients(Failure::Aborted) })
            })
        }
    };
    match spoken.map_err(|failed| failed.check(attempt.admitted.head(), exchange.sink))? {
        Spoken::Http1(given) => upstream_h1::attempt(attempt, given, exchange).await,
        Spoken::Http2 => {
            // Where a new connection was wanted, it has just been opened.
            let shared = Attempt { fresh: false, ..*attempt };
            Box::pin(upstream_h2::attempt(&shared, exchange)).await.map(|()| None)
        }
    }
}

/// As [`negotiate`], for one of several servers that are asked beside each other.
pub(super) async fn aside(attempt: &Attempt<'_>, reached: Option<SocketAddr>) -> Result<Spoken, OnConnection> {
    match at_hand(attempt) {
        Some(spoken) => Ok(spoken),
        None => negotiate(attempt, reached).await,
    }
}

/// A connection that is there already. Only HTTP/1.1 has upgrades.
fn at_hand(attempt: &Attempt<'_>) -> Option<Spoken> {
    let (pools, head) = (&attempt.context.worker.pools, attempt.admitted.head());
    if head.upgrade.is_some() {
        return Some(Spoken::Http1(None));
    }
    if attempt.fresh {
        return None;
    }
    if pools.share(attempt.pool).is_some() {
        return Some(Spoken::Http2);
    }
    Some(Spoken::Http1(Some((pools.take(attempt.pool, care_of(head))?, true))))
}

/// Opens a connection of the version that the server agrees on.
async fn negotiate(attempt: &Attempt<'_>, reached: Option<SocketAddr>) -> Result<Spoken, OnConnection> {
    let (pools, server) = (&attempt.context.worker.pools, attempt.server);
    let may_wait = !attempt.fresh && !server.speaks_http1();
    if let Some(awaited) = pools.await_shared(attempt.pool).filter(|_| may_wait) {
        opened_by_another(attempt, awaited).await;
        if pools.share(attempt.pool).is_some() {
            return Ok(Spoken::Http2);
        }
    }
    let opening = pools.open_shared(attempt.pool);
    let transport = connected(attempt, true, reached).await?;
    let is_http2 = speaks_http2(&transport);
    server.note_version(!is_http2);
    if is_http2 {
        begun(attempt, opening, transport).await?;
        return Ok(Spoken::Http2);
    }
    Ok(Spoken::Http1(Some((transport, false))))
}
