//! QUIC on one socket of a listener (RFC 9000): who may connect, what became of their handshakes, and the connections that `http::h3` serves.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use config::limits::Limits;
use config::{ListenerConfig, Place};
use net::{UdpListener, in_place};
use quic::{Attempt, Connection, Decision, Event, Failure, FailureCause, Hub, Settings};
use reason::Reason;
use telemetry::OncePerSecond;
use tls::{Alert, Choice, Chooser};
use wire::client_hello::ClientHello;
use wire::http::http3::Code;

use crate::certificates::TlsFront;
use crate::client;
use crate::conn::accepted::Opened;
use crate::connection::{Conn, ConnTls, ended_before};
use crate::handshake;
use crate::http::h3;
use crate::udp_group::{Group, Reins};
use crate::worker::{Listening, Worker};

/// Connections without a packet for this long end. Each takes memory, and a client that comes back has a ticket.
const IDLE: Duration = Duration::from_secs(30);

/// Streams that a client may open for itself: its control stream, two of QPACK, and one for what is not known here.
const CLIENT_STREAMS: u32 = 4;

/// Bytes a client may send ahead of us on one stream, and on one connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes that a connection may hold for its client.
const SEND_BUFFER: u32 = 256 * 1024;

/// Handshakes of one worker under way from which on clients must prove their address first: all, and those of one address.
const HANDSHAKES_BEFORE_RETRY: usize = 100;
const HANDSHAKES_PER_CLIENT_BEFORE_RETRY: usize = 25;

/// How long what a Retry gave proves an address.
const RETRY_LIFETIME: Duration = Duration::from_secs(15);

/// Those of clients that have proved their address, all and those of one client: then the oldest gives way.
const MAX_HANDSHAKES: usize = 1000;
const MAX_HANDSHAKES_PER_CLIENT: usize = 100;

/// Between two looks at whether all connections of a closed listener have ended.
const LOOK: Duration = Duration::from_millis(200);

/// Pause after a socket could not be read.
const PAUSE: Duration = Duration::from_millis(20);

/// Names and rules of a listener, for clients that speak HTTP/3 and nothing else.
struct ForHttp3 {
    front: Arc<TlsFront>,
    alpn: Arc<[Vec<u8>]>,
}

impl Chooser for ForHttp3 {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        let choice = self.front.choose(hello)?;
        Ok(Choice { alpn: Arc::clone(&self.alpn), ..choice })
    }

    fn asks_for_certificates(&self) -> bool {
        self.front.asks_for_certificates()
    }

    fn wants_fingerprint(&self) -> bool {
        self.front.wants_fingerprint()
    }
}

/// What is known of a connection while it shakes hands.
struct Opening {
    listener: Arc<ListenerConfig>,
    front: Arc<TlsFront>,
    counted: Opened,
    local: SocketAddr,
    at: (SystemTime, Instant),
}

/// Serves one socket until it is let go or the worker drains, and all connections of its group have ended. Where a listener was taken away, they are closed
/// after `drain_timeout`.
pub async fn serve(
    listener: UdpListener,
    place: Place<SocketAddr>,
    worker: Rc<Worker>,
    (group, reins): (Arc<Group>, Rc<Reins>),
) {
    let _counted = Listening::new(&worker.shared);
    let mut generation = worker.pin();
    let settings =
        settings(generation.quic_listener(&place).map(|listener| generation.config.limits_at(&listener.name)));
    let (position, _) = listener.lane();
    let mut hub =
        Hub::new(listener, Arc::clone(&worker.shared.acceptor), &worker.shared.quic_secrets, settings, group.lanes());
    let alpn: Arc<[Vec<u8>]> = Arc::from([b"h3".to_vec()]);
    let mut is_closing = false;
    let mut until = None;
    let mut busy = Some(group.enter());
    link(&mut hub, &group, position);
    loop {
        let mut admit = |attempt: Attempt| admit(attempt, (&place, &alpn), &worker);
        tokio::select! {
            biased;
            is_let_go = reins.changed() => {
                is_closing = is_let_go;
                until = let_go(&mut hub, is_let_go, until, &worker);
                link(&mut hub, &group, position);
            }
            () = worker.closed(), if !is_closing => is_closing = true,
            () = tokio::time::sleep(LOOK), if is_closing => {}
            event = hub.next(&mut admit) => match event {
                Ok(Event::Accepted(connection, opening)) => begin(connection, opening, &worker),
                Ok(Event::Failed(failure, opening)) => failed(&failure, opening, &worker),
                Err(error) => {
                    static COMPLAINT: OncePerSecond = OncePerSecond::new();
                    if COMPLAINT.allow().is_some() {
                        tracing::warn!(bind = %place.address, %error, "cannot receive datagrams; trying again");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
        if !is_closing {
            busy.get_or_insert_with(|| group.enter());
        } else {
            if until.is_some_and(|until| Instant::now() >= until) {
                hub.close_all(Code::NO_ERROR.0, b"the listener is closed");
            }
            if hub.connections() == 0 {
                busy = None;
            }
            // All hubs of the group stay until none of them is needed: with another number of workers, the process that took over passes a datagram to any of them.
            if !group.is_busy() && !hub.has_predecessor() {
                return;
            }
            if worker.is_handed_over() {
                hub.hand_over();
            } else {
                hub.refuse_new(true);
            }
        }
        let newest = worker.pin();
        if !Rc::ptr_eq(&newest, &generation)
            && let Some(listener) = newest.quic_listener(&place)
        {
            hub.set(self::settings(Some(newest.config.limits_at(&listener.name))));
            generation = newest;
        }
    }
}

/// Has clients go where the configuration has no such listener any more, or lets new ones come again; says until when connections may stay.
fn let_go<K>(hub: &mut Hub<K>, is_let_go: bool, until: Option<Instant>, worker: &Worker) -> Option<Instant> {
    hub.refuse_new(is_let_go);
    if !is_let_go {
        return None;
    }
    hub.ask_to_leave();
    until.or_else(|| Some(Instant::now() + worker.pin().config.limits.drain_timeout))
}

/// Gives a hub its links to the hubs on the same socket in other processes.
fn link<K>(hub: &mut Hub<K>, group: &Group, position: usize) {
    let [older, newer] = group.take_links(position);
    older.into_iter().for_each(|link| hub.follow(link));
    newer.into_iter().for_each(|link| hub.precede(link, group.lanes()));
    group.stand_in(position).into_iter().for_each(|lane| hub.follow_by(lane));
}

fn settings(limits: Option<&Limits>) -> Settings {
    let defaults = Limits::default();
    let limits = limits.unwrap_or(&defaults);
    Settings {
        idle_timeout: IDLE.min(limits.keep_alive_timeout),
        handshake_timeout: limits.handshake_timeout,
        max_bi_streams: limits.h2_max_streams,
        max_uni_streams: CLIENT_STREAMS,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        send_buffer: SEND_BUFFER,
        handshakes_before_retry: (HANDSHAKES_BEFORE_RETRY, HANDSHAKES_PER_CLIENT_BEFORE_RETRY),
        retry_lifetime: RETRY_LIFETIME,
        max_handshakes: (MAX_HANDSHAKES, MAX_HANDSHAKES_PER_CLIENT),
        abandoned: Code::INTERNAL_ERROR.0,
    }
}

/// Whether somebody may shake hands. The bounds of the process hold as for those who come by TCP; a client is counted as such once the handshake has shown
/// that its address is its own, or anybody could use up what another one may have.
fn admit(
    attempt: Attempt,
    (place, alpn): (&Place<SocketAddr>, &Arc<[Vec<u8>]>),
    worker: &Rc<Worker>,
) -> Decision<Opening> {
    let generation = worker.pin();
    let Some(listener) = generation.quic_listener(place) else { return Decision::Refuse };
    let Some(front) = generation.front(&listener.name) else { return Decision::Refuse };
    if worker.shared.admission.is_full(generation.config.limits.max_connections) {
        return Decision::Refuse;
    }
    let Some(admitted) = worker.shared.admission.admit(None, 0) else { return Decision::Refuse };
    worker.report.connection_opened(&listener.name);
    let counted = Opened::new(Rc::clone(worker), Arc::clone(listener), Some(attempt.remote), admitted);
    let at = (SystemTime::now(), Instant::now());
    let (listener, front) = (Arc::clone(listener), Arc::clone(front));
    let opening = Opening { listener, front: Arc::clone(&front), counted, local: attempt.local, at };
    let chooser = ForHttp3 { front, alpn: Arc::clone(alpn) };
    Decision::Accept(Arc::new(chooser), opening)
}

/// Counts a connection as its client's; false if that one has as many as it may.
fn count(counted: &mut Opened, client: SocketAddr, worker: &Worker) -> bool {
    let generation = worker.pin();
    // A trusted proxy carries many clients on its connections; each of their requests names its own.
    let is_proxy = generation.trusts(Some(client.ip()));
    counted.identify(Some(client), is_proxy, generation.config.limits.max_connections_per_client)
}

fn conn(
    listener: &Arc<ListenerConfig>,
    remote: SocketAddr,
    local: SocketAddr,
    accepted_at: (SystemTime, Instant),
    tls: Option<ConnTls>,
) -> Conn {
    Conn { tls, ..Conn::new(Arc::clone(listener), Some(remote), local.port(), accepted_at) }
}

/// Serves a connection whose handshake is done. The client is who it was then, wherever it goes with the connection.
fn begin(connection: Connection, opening: Opening, worker: &Rc<Worker>) {
    let Opening { listener, front, mut counted, local, at, .. } = opening;
    let info = connection.tls().clone();
    worker.report.handshake(&listener.name, &info, at.1.elapsed());
    let rule = Arc::clone(front.rule(info.server_name.as_deref()));
    let is_allowed = client::is_allowed(&rule, info.peer.as_deref());
    let conn = conn(&listener, connection.remote_address(), local, at, Some(ConnTls { info, rule }));
    counted.carried_by_quic(&connection);
    if !count(&mut counted, connection.remote_address(), worker) {
        ended_before(&conn, &worker.report, "accept", Reason::TooManyConnectionsFromClient, "");
        return connection.close(Code::EXCESSIVE_LOAD.0, b"too many connections");
    }
    if !is_allowed {
        ended_before(&conn, &worker.report, "tls_handshake", Reason::ClientCertificateNotAllowed, "");
        return connection.close(Code::REQUEST_REJECTED.0, b"the certificate is not allowed");
    }
    let (conn, worker) = (Rc::new(conn), Rc::clone(worker));
    tokio::task::spawn_local(in_place(|| run(connection, counted, conn, worker)));
}

/// Serves a connection to its end, and counts it until then.
async fn run(connection: Connection, _counted: Opened, conn: Rc<Conn>, worker: Rc<Worker>) {
    h3::serve(connection, Rc::clone(&conn), Rc::clone(&worker)).await;
    if let Some(bound) = conn.onward.get() {
        worker.pools.unbind(bound.binding);
    }
}

/// Logs a handshake that came to nothing.
fn failed(failure: &Failure, opening: Opening, worker: &Worker) {
    let conn = conn(&opening.listener, failure.remote, opening.local, opening.at, None);
    let (reason, detail) = match &failure.cause {
        FailureCause::Tls(error) => handshake::classify_tls(error),
        FailureCause::RemoteKey => (Reason::TlsRejected, "the private key is on a key server".to_owned()),
        FailureCause::TimedOut => (Reason::TlsHandshakeTimeout, String::new()),
        FailureCause::Lost(_) => (Reason::TlsHandshakeAbandoned, String::new()),
    };
    ended_before(&conn, &worker.report, "tls_handshake", reason, &detail);
}
