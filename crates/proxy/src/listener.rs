//! Accepting: bind, accept, admission, spawn. Accepting never waits for a peer and never dies.

pub mod quic;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use config::Place;
use net::in_place;
use net::{Endpoint, Listener, Stream, is_about_one_connection};
use reason::{Reason, Side};
use telemetry::{ConnRecord, OncePerSecond};

use crate::conn;
use crate::conn::accepted::{Accepted, Opened};
use crate::worker::{Listening, Worker};

/// Pause after the kernel refused to accept for want of descriptors or memory, and while the process is full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Accepts on one socket until the task is dropped or the worker drains; then closes it without losing a connection.
pub async fn serve(listener: Listener, place: Rc<Place<Endpoint>>, worker: Rc<Worker>) {
    worker.shared.hops.listens(listener.port());
    let _counted = Listening::new(&worker.shared);
    tokio::select! {
        biased;
        () = worker.drained() => {}
        () = accept_on(&listener, &place, &worker) => {}
    }
    let Some(closing) = listener.close() else { return };
    while let Some((stream, peer)) = closing.next().await {
        admit((stream, peer, closing.port()), &place, &worker);
    }
}

async fn accept_on(listener: &Listener, place: &Rc<Place<Endpoint>>, worker: &Rc<Worker>) {
    loop {
        if worker.shared.admission.is_full(worker.pin().config.limits.max_connections) {
            static FULL: OncePerSecond = OncePerSecond::new();
            if FULL.allow().is_some() {
                tracing::warn!("max_connections reached; new connections wait in the accept queue");
            }
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, peer)) => admit((stream, peer, listener.port()), place, worker),
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                // Out of descriptors or memory: give back what we can do without, and do not spin.
                static SHORT: OncePerSecond = OncePerSecond::new();
                if SHORT.allow().is_some() {
                    tracing::warn!(%error, "cannot accept; trying again");
                }
                worker.pools.clear();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Takes in a connection, with its peer and the port it came to.
fn admit(
    (stream, peer, bound_port): (Stream, Option<SocketAddr>, u16),
    place: &Rc<Place<Endpoint>>,
    worker: &Rc<Worker>,
) {
    let generation = worker.pin();
    let Some(listener) = generation.listener(place) else { return };
    let at = SystemTime::now();
    worker.report.connection_opened(&listener.name);
    let is_balancer = generation.balancers(&listener.name).is_some_and(|list| list.holds(peer));
    // A trusted proxy carries many clients on its connections; each of their requests names its own.
    let is_proxy = listener.reads_requests() && generation.trusts(peer.map(|peer| peer.ip()));
    let counted = peer.filter(|_| !is_balancer && !is_proxy);
    match worker.shared.admission.admit(counted, generation.config.limits.max_connections_per_client) {
        Some(admitted) => {
            let (worker, listener) = (Rc::clone(worker), Arc::clone(listener));
            let opened = Opened::new(worker, listener, peer, admitted);
            let accepted = Accepted { stream, peer, bound_port, place: Rc::clone(place), is_balancer, at, opened };
            tokio::task::spawn_local(in_place(|| conn::run(accepted)));
        }
        None => {
            worker.report.connection_failed(&ConnRecord {
                started: at,
                listener: &listener.name,
                client: peer,
                reported: None,
                server_name: None,
                duration: Duration::ZERO,
                phase: "accept",
                fault: Side::Client,
                reason: Reason::TooManyConnectionsFromClient,
                policy: None,
                would_reject: &[],
                detail: "",
            });
            worker.report.connection_closed(&listener.name, peer, 0, 0);
        }
    }
}
