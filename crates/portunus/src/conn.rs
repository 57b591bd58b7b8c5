//! The life of one connection, top to bottom.
//!
//! ```text
//! accepted → identified (PROXY header or socket) → opened (TLS or plain) → HTTP/1.1 or HTTP/2 → closed, counted, logged
//! ```

use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use net::clock::coarse;
use net::{Chunk, Deadline};
use tls::{Chooser, KeyAnswer, KeyRequest, Session};

use crate::client::{self, Identified, Told};
use crate::config::ListenerConfig;
use crate::http;
use crate::identity::{TlsFront, TlsRule};
use crate::keyless::{Ask, KeyFailure};
use crate::listener::{Accepted, Opened};
use crate::offload::{self, Terms};
use crate::report::{ConnRecord, Fault};
use crate::transport::{Broken, Keys, Transport};
use crate::upstream::Places;
use crate::worker::Worker;

/// What stays true for as long as a connection lives.
#[derive(Debug)]
pub struct Conn {
    /// The listener it came in by, as configured when it was accepted.
    pub listener: Arc<ListenerConfig>,
    /// Who connected; none on Unix sockets.
    pub client: Option<SocketAddr>,
    /// What a believed PROXY header said.
    pub told: Option<Box<Told>>,
    /// Port of the socket it came in by; 0 on Unix sockets.
    pub bound_port: u16,
    /// Port that the client connected to, at a balancer perhaps; 0 on Unix sockets.
    pub local_port: u16,
    /// TLS, if it is under TLS.
    pub tls: Option<ConnTls>,
    /// When it was accepted, on the wall clock and for measuring.
    pub accepted_at: (SystemTime, Instant),
    /// Bytes that bodies of its requests and responses take while contracts validate them.
    pub validation_memory: Cell<usize>,
    /// Where who connected is counted among the clients of an upstream, once that was asked for.
    pub places: OnceCell<Places>,
}

/// What a connection's handshake agreed on, and under which rule.
#[derive(Debug)]
pub struct ConnTls {
    /// Versions, names, keys, the client's certificate.
    pub info: tls::Info,
    /// The rule the handshake was judged by.
    pub rule: Arc<TlsRule>,
}

/// Serves one connection to its end.
pub async fn run(accepted: Accepted) {
    let worker = Rc::clone(accepted.opened.worker());
    let generation = worker.pin();
    let Some(listener) = generation.listener(&accepted.place).cloned() else { return };
    let front = generation.front(&listener.name).cloned();
    let limits = &generation.config.limits;
    let (handshake_timeout, pace) = (limits.handshake_timeout, limits.pace());
    let terms = Terms::of(&generation, &listener);
    drop(generation);

    // Boxed, as is everything that is large and soon over: this future lives as long as the connection.
    let Some((stream, first, mut conn, mut counted)) = identify(accepted, listener, &worker).await else { return };
    if let Some(terms) = terms {
        let traffic = offload::serve(stream, first, &mut conn, terms, &worker).await;
        counted.close(traffic);
        return;
    }
    let (opened, first) = match front {
        None => (Ok(Transport::plain(stream)), first),
        Some(front) => {
            let opened = Box::pin(open((stream, first), &mut conn, &front, handshake_timeout, &worker)).await;
            (opened, Chunk::empty())
        }
    };
    match opened {
        Ok(transport) => {
            transport.pace_writes(Some(pace));
            let transport = Rc::new(transport);
            counted.carried_by(&transport);
            let is_http2 = conn.tls.as_ref().is_some_and(|tls| tls.info.alpn.as_deref() == Some(b"h2"));
            let conn = Rc::new(conn);
            let input = match is_http2 {
                true => Some(first),
                false => http::h1::serve(&transport, first, &conn, &worker).await,
            };
            if let Some(input) = input {
                Box::pin(http::h2::serve(Rc::clone(&transport), input, Rc::clone(&conn), Rc::clone(&worker))).await;
            }
        }
        Err(traffic) => counted.close(traffic),
    }
}

/// Finds out who the client is, and counts the connection as theirs. None if it ended there, logged.
async fn identify(
    accepted: Accepted,
    listener: Arc<ListenerConfig>,
    worker: &Worker,
) -> Option<(net::Stream, Chunk, Conn, Opened)> {
    let Accepted { stream, peer, bound_port, is_balancer, at, opened: mut counted, .. } = accepted;
    let accepted_at = (at, Instant::now());
    let mut conn = Conn {
        listener,
        client: peer,
        told: None,
        bound_port,
        local_port: bound_port,
        tls: None,
        accepted_at,
        validation_memory: Cell::new(0),
        places: OnceCell::new(),
    };
    let identified = match &conn.listener.proxy_protocol {
        None => Ok(client::itself(stream, peer)),
        Some(rule) => Box::pin(client::read_header(stream, peer, rule, is_balancer)).await,
    };
    let refusal = match identified {
        Ok(identified) => {
            let Identified { stream, first, client, told } = identified;
            conn.client = client;
            conn.local_port =
                told.as_ref().and_then(|told| told.destination).map_or(bound_port, |address| address.port());
            conn.told = told;
            let generation = worker.pin();
            let most = generation.config.limits.max_connections_per_client;
            let is_proxy = conn.listener.reads_requests() && generation.trusts(conn.client.map(|client| client.ip()));
            if counted.identify(conn.client.filter(|_| !is_proxy), !is_balancer, most) {
                return Some((stream, first, conn, counted));
            }
            ("accept", "too_many_connections_from_client", String::new())
        }
        Err(why) => ("proxy_header", why.code(), why.detail()),
    };
    ended_before(&conn, worker, refusal.0, Fault::Client, refusal.1, &refusal.2);
    None
}

/// Performs the TLS handshake. A failure is logged here; what it cost in bytes is given back.
pub async fn open(
    (stream, first): (net::Stream, Chunk),
    conn: &mut Conn,
    front: &Arc<TlsFront>,
    limit: Duration,
    worker: &Worker,
) -> Result<Transport, (u64, u64)> {
    let started = Instant::now();
    let chooser: Arc<dyn Chooser + Send + Sync> = Arc::clone(front) as _;
    let session = match Session::server(&worker.shared.acceptor, chooser) {
        Ok(session) => session,
        Err(error) => {
            failed(conn, worker, started, Fault::Ours, "tls_setup", &error.to_string());
            return Err((0, 0));
        }
    };
    let under_way = UnderWay { conn, worker, started, over: false };
    let keys = ServedKeys { front, worker, until: coarse() + limit };
    let outcome = Deadline::new().within(limit, Transport::handshake(stream, first, session, &keys)).await;
    under_way.over();
    let transport = match outcome {
        Ok(Ok(transport)) => transport,
        Ok(Err((transport, broken))) => {
            let (fault, reason, detail) = classify(&broken);
            failed(conn, worker, started, fault, reason, &detail);
            // The alert must arrive before the end does.
            transport.stream().shutdown_write();
            return Err(transport.traffic());
        }
        Err(_) => {
            failed(conn, worker, started, Fault::Client, "tls_handshake_timeout", "");
            return Err((0, 0));
        }
    };
    if let Some(info) = transport.tls_info() {
        worker.report.handshake(&conn.listener.name, &info, started.elapsed());
        let rule = Arc::clone(front.rule(info.server_name.as_deref()));
        if !client::is_allowed(&rule, info.peer.as_deref()) {
            failed(conn, worker, started, Fault::Client, "client_certificate_not_allowed", "");
            transport.refuse(tls::Alert::ACCESS_DENIED).await;
            return Err(transport.traffic());
        }
        conn.tls = Some(ConnTls { info, rule });
    }
    Ok(transport)
}

/// A handshake that nobody may drop without a line in the log.
struct UnderWay<'a> {
    conn: &'a Conn,
    worker: &'a Worker,
    started: Instant,
    over: bool,
}

impl UnderWay<'_> {
    /// It came to an end, which its caller tells of.
    fn over(mut self) {
        self.over = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over {
            failed(self.conn, self.worker, self.started, Fault::Ours, "cut_short", "");
        }
    }
}

/// The keys of identities without one, as the handshakes of this listener have them used.
struct ServedKeys<'a> {
    front: &'a TlsFront,
    worker: &'a Worker,
    /// When the handshake must be over, on the coarse clock.
    until: Duration,
}

impl Keys for ServedKeys<'_> {
    async fn answer(&self, request: &KeyRequest, server_name: &str) -> Result<KeyAnswer, KeyFailure> {
        let group = self.front.key_group().ok_or(KeyFailure::Unavailable)?;
        let client = self.worker.key_clients.of(group, &self.worker.report);
        client.answer(request, Ask { server_name, until: self.until }).await
    }
}

fn classify(broken: &Broken) -> (Fault, &'static str, String) {
    match broken {
        Broken::Socket(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            (Fault::Client, "tls_handshake_abandoned", String::new())
        }
        Broken::Socket(error) => (Fault::Client, "tls_handshake_broken", error.to_string()),
        Broken::Tls(tls::Error::Ours(detail)) => (Fault::Ours, "tls_handshake_ours", detail.to_string()),
        Broken::Tls(tls::Error::PeerCertificate(detail)) => (Fault::Client, "client_certificate", detail.to_string()),
        Broken::Tls(tls::Error::PeerAlert(alert)) => {
            (Fault::Client, "tls_alert_received", format!("alert {}", alert.0))
        }
        Broken::Tls(tls::Error::Refused(alert)) => (Fault::Client, "tls_refused", format!("alert {}", alert.0)),
        Broken::Key(failure) => (Fault::Upstream, failure.code(), failure.to_string()),
        Broken::Tls(error) => (Fault::Client, "tls_handshake_failed", error.to_string()),
    }
}

fn failed(conn: &Conn, worker: &Worker, started: Instant, fault: Fault, reason: &'static str, detail: &str) {
    worker.report.connection_failed(&ConnRecord {
        duration: started.elapsed(),
        ..record(conn, "tls_handshake", fault, reason, detail)
    });
}

/// Tells of a connection that ended before anything of it went upstream.
pub fn ended_before(
    conn: &Conn,
    worker: &Worker,
    phase: &'static str,
    fault: Fault,
    reason: &'static str,
    detail: &str,
) {
    worker.report.connection_failed(&ConnRecord {
        duration: conn.accepted_at.1.elapsed(),
        ..record(conn, phase, fault, reason, detail)
    });
}

fn record<'a>(
    conn: &'a Conn,
    phase: &'static str,
    fault: Fault,
    reason: &'static str,
    detail: &'a str,
) -> ConnRecord<'a> {
    ConnRecord {
        started: conn.accepted_at.0,
        listener: &conn.listener.name,
        client: conn.client,
        told: conn.told.as_deref(),
        server_name: None,
        duration: Duration::ZERO,
        phase,
        fault,
        reason,
        detail,
    }
}
