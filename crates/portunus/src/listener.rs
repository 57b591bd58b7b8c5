//! Accepting: bind, accept, admission, spawn. Accepting never waits for a peer and never dies.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use net::engine::in_place;
use net::{Endpoint, Listener, Stream, is_about_one_connection};

use crate::config::{ListenerConfig, Place};
use crate::conn;
use crate::report::{ConnRecord, Fault, OncePerSecond};
use crate::transport::Transport;
use crate::worker::{Listening, Shared, Worker};

/// Pause after the kernel refused to accept for want of descriptors or memory, and while the process is full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Counts connections in total and per client.
#[derive(Debug)]
pub struct Admission {
    /// What the descriptors of the process allow, whatever the configuration says.
    most: usize,
    total: AtomicUsize,
    clients: Mutex<HashMap<IpAddr, usize>>,
}

/// One admitted connection; counts itself out when dropped.
#[derive(Debug)]
struct Admitted {
    shared: Arc<Shared>,
    client: Option<IpAddr>,
}

/// What counts as one client: an IPv4 address, or an IPv6 /64.
pub(crate) fn client_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) & !(u128::from(u64::MAX));
            IpAddr::V6(Ipv6Addr::from(bits))
        }
        v4 => v4,
    }
}

impl Admission {
    /// Counts for a process with this many descriptors. A quarter is kept back for connections to upstreams and all else.
    pub fn new(descriptors: u64) -> Admission {
        let most = usize::try_from(descriptors - descriptors / 4).unwrap_or(usize::MAX).max(1);
        Admission { most, total: AtomicUsize::new(0), clients: Mutex::default() }
    }

    /// Whether one more connection would be too many.
    fn is_full(&self, configured: usize) -> bool {
        self.total() >= configured.min(self.most)
    }

    /// Connections open now.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts a connection in; none if this client has `per_client` already.
    fn admit(shared: &Arc<Shared>, peer: Option<SocketAddr>, per_client: usize) -> Option<Admitted> {
        shared.admission.total.fetch_add(1, Ordering::Relaxed);
        let mut admitted = Admitted { shared: Arc::clone(shared), client: None };
        admitted.count(peer, per_client).then_some(admitted)
    }
}

impl Admitted {
    /// Counts the connection as this client's, once it is known who that is; false if it has `per_client` already.
    fn count(&mut self, client: Option<SocketAddr>, per_client: usize) -> bool {
        let Some(client) = client.map(|client| client_key(client.ip())) else { return true };
        let mut clients = self.shared.admission.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_insert(0);
        if *count >= per_client {
            return false;
        }
        *count += 1;
        self.client = Some(client);
        true
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let admission = &self.shared.admission;
        admission.total.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = self.client else { return };
        let mut clients = admission.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&client);
            }
        }
    }
}

/// A connection that metrics count as open, until this is dropped: at its end, and also where its task panics or is cut short.
#[derive(Debug)]
pub struct Opened {
    worker: Rc<Worker>,
    listener: Arc<ListenerConfig>,
    /// Who it is told of as, once that is known.
    client: Option<SocketAddr>,
    /// Bytes received and sent that were told of by nobody else.
    traffic: (u64, u64),
    /// Where such bytes are counted while it lives.
    transport: Option<Rc<Transport>>,
    /// Its place in the counts. Dropped after it was told: who waits for the last connection finds it in the metrics.
    admitted: Admitted,
}

impl Opened {
    /// The worker it is served by.
    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// It turned out whose it is; false if that client has `per_client` already. One that was counted as its peer's is not counted again.
    pub fn identify(&mut self, client: Option<SocketAddr>, is_counted: bool, per_client: usize) -> bool {
        self.client = client;
        is_counted || self.admitted.count(client, per_client)
    }

    /// It is carried by this transport from now on.
    pub fn carried_by(&mut self, transport: &Rc<Transport>) {
        self.transport = Some(Rc::clone(transport));
    }

    /// It ended with these bytes received and sent.
    pub fn close(mut self, traffic: (u64, u64)) {
        self.traffic = traffic;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let (received, sent) = self.transport.as_ref().map_or(self.traffic, |transport| transport.traffic());
        self.worker.report.connection_closed(&self.listener.name, self.client, received, sent);
    }
}

/// A connection on its way from the listener to its task.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: Stream,
    /// The socket's peer; none on Unix sockets.
    pub peer: Option<SocketAddr>,
    /// Port of the listening socket; 0 on Unix sockets.
    pub bound_port: u16,
    /// Its socket, which tells the listener.
    pub place: Rc<Place<Endpoint>>,
    /// Whether its peer may speak for others by a PROXY header. If so, it is not yet counted as anybody's.
    pub is_balancer: bool,
    /// When, on the wall clock.
    pub at: SystemTime,
    /// Its place in the counts and in the metrics.
    pub opened: Opened,
}

/// Accepts on one socket until the task is dropped or the worker drains; then closes it without losing a connection.
pub async fn serve(listener: Listener, place: Rc<Place<Endpoint>>, worker: Rc<Worker>) {
    worker.shared.hops.listens(listener.port());
    let _counted = Listening::new(&worker.shared);
    tokio::select! {
        biased;
        () = worker.drained() => {}
        () = accept_on(&listener, &place, &worker) => {}
    }
    let closing = listener.close();
    while let Some((stream, peer)) = closing.next().await {
        admit((stream, peer, closing.port()), &place, &worker);
    }
}

async fn accept_on(listener: &Listener, place: &Rc<Place<Endpoint>>, worker: &Rc<Worker>) {
    loop {
        if worker.shared.admission.is_full(worker.pin().config.limits.max_connections) {
            static FULL: OncePerSecond = OncePerSecond::new();
            if FULL.allow().is_some() {
                tracing::warn!("connections are at their limit; further ones wait");
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
    match Admission::admit(&worker.shared, counted, generation.config.limits.max_connections_per_client) {
        Some(admitted) => {
            let (worker, listener) = (Rc::clone(worker), Arc::clone(listener));
            let opened = Opened { worker, listener, client: peer, traffic: (0, 0), transport: None, admitted };
            let accepted = Accepted { stream, peer, bound_port, place: Rc::clone(place), is_balancer, at, opened };
            tokio::task::spawn_local(in_place(|| conn::run(accepted)));
        }
        None => {
            worker.report.connection_failed(&ConnRecord {
                started: at,
                listener: &listener.name,
                client: peer,
                told: None,
                server_name: None,
                duration: Duration::ZERO,
                phase: "accept",
                fault: Fault::Client,
                reason: "too_many_connections_from_client",
                detail: "",
            });
            worker.report.connection_closed(&listener.name, peer, 0, 0);
        }
    }
}
