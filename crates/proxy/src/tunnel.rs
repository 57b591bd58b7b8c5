//! Connections as bytes: chosen by SNI and ALPN, opened or not, carried to one server of a group, and told of.
//!
//! ```text
//! identified → begun (way chosen; TLS opened or passed by) → connected (PROXY header sent) → carried → told
//! ```
//!
//! Owns the order of these steps and the one record that each connection leaves. What is carried is never looked into. A tunnel keeps the rules it
//! began under: a reload does not touch it.

mod open;
mod state;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{ListenerConfig, ServerAddress, Service, TunnelConfig};
use net::clock::coarse;
use net::{Chunk, Stream};
use reason::{Reason, Side};
use transport::Transport;

use crate::certificates::TlsFront;
use crate::connection::{Conn, denied};
use crate::delivery::{Terms as Delivery, cut, turn_away};
use crate::generation::Generation;
use crate::onward::{is_where_it_came, unfit_servers};
use crate::passport::{self, Rejected};
use crate::policies::{List, Terms, Throttles};
use crate::pump::{self, BROKEN_CLIENT_WAIT, End, Party};
use crate::tunnel_routes::TunnelRoutes;
use crate::upstream::{ConnectError, Full, Group, NoServer, Places, Taken, Target, Wish, connect, connect_to};
use crate::worker::Worker;
use state::TunnelState;

/// What a tunnelled connection is served under, pinned when it was accepted.
#[derive(Debug)]
pub struct TunnelSettings {
    /// The listener's own settings.
    config: Arc<TunnelConfig>,
    /// Who gets what.
    routes: Arc<TunnelRoutes>,
    /// Policies that all its connections must pass.
    policies: List,
    /// How TLS is opened; none on a plain listener.
    front: Option<Arc<TlsFront>>,
    /// For the handshake, or for the ClientHello.
    handshake_timeout: Duration,
    /// Where the listener does not say otherwise.
    idle_timeout: Duration,
}

impl TunnelSettings {
    /// Those of a listener; none if it does not tunnel.
    pub fn of(generation: &Generation, listener: &ListenerConfig) -> Option<TunnelSettings> {
        let Service::Tunnel(config) = &listener.service else { return None };
        let limits = generation.config.limits_at(&listener.name);
        Some(TunnelSettings {
            config: Arc::clone(config),
            routes: Arc::clone(generation.tunnel_routes(&listener.name)?),
            policies: generation.policies.of_listener(&listener.name),
            front: generation.front(&listener.name).cloned(),
            handshake_timeout: limits.handshake_timeout,
            idle_timeout: limits.tunnel_idle_timeout,
        })
    }
}

/// Serves one connection to its end. Gives the bytes received from and sent to the client's socket that were not told yet.
pub async fn serve(
    stream: Stream,
    first: Chunk,
    conn: &mut Conn,
    settings: TunnelSettings,
    worker: &Worker,
) -> (u64, u64) {
    let (address, mut terms) = (conn.client.map(|client| client.ip()), Terms::default());
    let asked = terms.ask(&settings.policies, address, &worker.report);
    conn.would_reject = std::mem::take(&mut terms.would_reject);
    if let Err(denial) = asked {
        denied(conn, &worker.report, &denial);
        return (first.len() as u64, 0);
    }
    let opened = match Box::pin(open::open(stream, first, conn, &settings, worker)).await {
        Ok(opened) => opened,
        Err(traffic) => return traffic,
    };
    let idle = settings.config.idle_timeout.unwrap_or(settings.idle_timeout);
    let until = settings.config.max_lifetime.map(|lifetime| coarse() + lifetime);
    let (mut state, first) = TunnelState::new(conn, worker, opened, settings.front.as_deref());
    // The rules are not needed any more, and an idle tunnel must not keep them alive.
    drop(settings);
    let asked = terms.ask(&state.route.policies, address, &worker.report);
    state.would_reject.append(&mut terms.would_reject);
    if let Err(denial) = asked {
        state.policy = Some(denial.policy);
        state.report_end("portunus", denial.reason);
        Box::pin(turn_away(&state.client)).await;
        return state.unreported_traffic();
    }
    let group = Arc::clone(&state.route.group);
    let places = state.conn.client.map(|client| Places::of(client.ip()));
    let admitted = match group.admit(places) {
        Err(Full::OfAll) if group.queues() => Box::pin(group.admit_in_turn(places)).await,
        admitted => admitted,
    };
    let in_flight = match admitted {
        Ok(in_flight) => in_flight,
        Err(full) => {
            state.report_end("portunus", full.reason());
            Box::pin(turn_away(&state.client)).await;
            return state.unreported_traffic();
        }
    };
    let (upstream, taken) = match Box::pin(reach(&mut state, (&group, places), worker)).await {
        Ok(reached) => reached,
        Err(error) => {
            if let ConnectError::Client(rejected) = &error {
                worker.reported.once(&conn.listener.name, rejected.reason(), conn.client);
            }
            state.report_end("portunus", error.reason());
            Box::pin(turn_away(&state.client)).await;
            return state.unreported_traffic();
        }
    };
    let bounds = bounds(idle, until, &terms.throttles);
    let end = carry(&state, first, &upstream, bounds).await;
    terms.throttles.report(&worker.report);
    state.throttled = terms.throttles.waited();
    drop((taken, in_flight, terms));
    Box::pin(finish(&state, end, upstream, Delivery::of_idle(idle, until))).await;
    state.unreported_traffic()
}

/// The end of a client may be all that it has to say, and the upstream slow to take the rest.
fn bounds(idle: Duration, until: Option<Duration>, throttles: &Throttles) -> pump::Bounds<'_> {
    pump::Bounds { idle, until, finished_client: None, broken_client: BROKEN_CLIENT_WAIT, throttles }
}

/// Carries bytes until the tunnel ends, and tells now and then how many.
async fn carry(state: &TunnelState<'_>, first: Chunk, upstream: &Transport, bounds: pump::Bounds<'_>) -> End {
    let client = ((&state.client, &state.client), first);
    let mut carrying = pin!(pump::run(client, (upstream, Chunk::empty()), bounds, &state.carried));
    poll_fn(|context| {
        let polled = carrying.as_mut().poll(context);
        state.report_moved_if_due();
        polled
    })
    .await
}

/// Connects to a server of the route's group, to another one where that fails, and sends the PROXY header.
async fn reach<'g>(
    state: &mut TunnelState<'_>,
    (group, places): (&'g Group, Option<Places>),
    worker: &Worker,
) -> Result<(Transport, Option<Taken<'g>>), ConnectError> {
    let header = state.header();
    let started = Instant::now();
    let source = passport::source(&group.config.source, state.conn.client, state.conn.reported.as_deref(), &worker.own)
        .map_err(ConnectError::Client)?;
    if !group.config.original_dst.is_empty() {
        let came_to = state.client.stream().local();
        let address =
            passport::destination(&group.config.original_dst, state.conn.reported.as_deref(), source, came_to);
        let address = address.map_err(ConnectError::Client)?;
        state.destination = Some(address);
        let transport = connect_to(address, source, &header, group.config.connect_timeout).await?;
        transport.stream().keep_alive(group.config.keepalive);
        state.connected(&transport, Some(address.port()), source, started.elapsed())?;
        return Ok((transport, None));
    }
    group.resolved(group.config.connect_timeout).await;
    let unfit = unfit_servers(group, source, state.conn.client);
    let mut tried = unfit.clone();
    let mut last = match unfit.is_empty() {
        false => ConnectError::Client(Rejected::NoTarget),
        true if group.is_unresolved() => ConnectError::Unresolved,
        true => ConnectError::NoServer,
    };
    let hash = group.hash_of_client(state.conn.client.map(|client| client.ip()));
    loop {
        let wish = Wish { hash, not: &tried, is_again: tried.len() > unfit.len(), prefer: None };
        let taken = match group.take(wish) {
            Err(NoServer::Busy) if tried == unfit && group.queues() => group.take_in_turn(wish, places).await,
            taken => taken,
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(NoServer::None) => break,
            Err(NoServer::Busy | NoServer::BusyForClient) => return Err(ConnectError::Overflow),
            Err(NoServer::ForTooLong) => return Err(ConnectError::QueueTimeout),
        };
        let server = &taken.server;
        if leads_back(&server.address, state) {
            return Err(ConnectError::Client(Rejected::Loop));
        }
        state.retries = u32::try_from(tried.len() - unfit.len()).unwrap_or(u32::MAX);
        state.server = Some(Arc::clone(server));
        tried.push(server.id);
        match connect(Target { group, server, source, ahead: &header, port: None, negotiates: false }).await {
            Ok(transport) => {
                server.succeeded();
                state.connected(&transport, server.address.port(), source, started.elapsed())?;
                return Ok((transport, Some(taken)));
            }
            Err(error) => {
                // A shortage of our own, or a privilege we lack, says nothing about the server.
                let is_ours = error.is_our_shortage() || error.reason().side() == Side::Proxy;
                if !is_ours && server.failed(group.config.ejection) {
                    tracing::warn!(upstream = group.config.name, server = %server.name, "server ejected");
                }
                last = error;
            }
        }
    }
    Err(last)
}

/// Whether a server is the very address that the client reached. The kernel is asked for it only where the port is the same.
fn leads_back(server: &ServerAddress, state: &TunnelState<'_>) -> bool {
    server.port() == Some(state.conn.bound_port) && is_where_it_came(server, state.client.stream().local())
}

/// Ends both sides as the tunnel ended, and tells of it. A side that was cut is never shown an orderly end.
async fn finish(state: &TunnelState<'_>, end: End, upstream: Transport, delivery: Delivery) {
    let first = state.carried.ended_first.get();
    let reported = if end.is_answer_to(first) { End::Finished } else { end };
    match reported {
        End::Finished => state.report_end(first.map_or("portunus", Party::name), None),
        End::Idle => state.report_end("portunus", Reason::TunnelIdle),
        End::Expired => state.report_end("portunus", Reason::TunnelLifetime),
        End::ClientCut => state.report_end("client", Reason::CloseNotifyMissing),
        // Nothing is validated here, so nothing is rejected.
        End::ClientBroke | End::Rejected => state.report_end("client", Reason::TunnelClientReset),
        End::UpstreamCut => state.report_end("upstream", Reason::CloseNotifyMissing),
        End::UpstreamBroke => state.report_end("upstream", Reason::TunnelUpstreamReset),
    }
    match end {
        End::Finished => {}
        End::Idle | End::Expired => {
            state.client.reset_on_close();
            upstream.reset_on_close();
        }
        End::ClientCut => cut(&upstream, delivery).await,
        End::ClientBroke | End::Rejected => cut(&upstream, delivery.at_most(BROKEN_CLIENT_WAIT)).await,
        End::UpstreamCut | End::UpstreamBroke => cut(&state.client, delivery).await,
    }
}
