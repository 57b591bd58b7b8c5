//! The beginning of a tunnel: the route is chosen, and TLS is opened or left as it is.
//!
//! What fails here has its line in the log, and nothing has gone upstream.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use config::NotTls;
use net::clock::coarse;
use net::{Chunk, Deadline, Stream};
use reason::Reason;
use tls::Alert;
use transport::Transport;
use wire::client_hello::ClientHello;
use wire::hello_records::client_hello;

use crate::certificates::host_name;
use crate::connection::{Conn, ended_before};
use crate::handshake;
use crate::tunnel::TunnelSettings;
use crate::tunnel_routes::{Known, TunnelRoute};
use crate::worker::Worker;

/// A connection whose route is known.
pub(super) struct Opened {
    /// The client's side.
    pub(super) client: Transport,
    /// Bytes of it that were received already and go upstream first.
    pub(super) first: Chunk,
    /// Where it goes.
    pub(super) route: Arc<TunnelRoute>,
    /// SNI, where TLS was not opened.
    pub(super) server_name: Option<Box<str>>,
}

/// Chooses the route and opens TLS where that is due. On failure gives the bytes that were received and sent.
pub(super) async fn open(
    stream: Stream,
    first: Chunk,
    conn: &mut Conn,
    settings: &TunnelSettings,
    worker: &Worker,
) -> Result<Opened, (u64, u64)> {
    let until = coarse() + settings.handshake_timeout;
    let (stream, first) = if settings.routes.has_passthrough() {
        match peek(stream, first, conn, settings, until, worker).await? {
            Peeked::PassBy(opened) => return Ok(opened),
            Peeked::Open(stream, first) => (stream, first),
        }
    } else {
        (stream, first)
    };
    let Some(front) = &settings.front else {
        // Nothing of its bytes matters where no ClientHello is read.
        let known = Known { name: None, protocols: &[], client: address(conn), is_opened: false };
        return match settings.routes.find(known).cloned() {
            Some(route) => Ok(Opened { client: Transport::plain(stream), first, route, server_name: None }),
            None => Err(lost(&first, conn, worker, ("tunnel", Reason::NoTunnelForName))),
        };
    };
    let limit = until.saturating_sub(coarse());
    let client = handshake::open((stream, first), conn, front, limit, worker).await?;
    let info = conn.tls.as_ref().map(|tls| &tls.info);
    let name = info.and_then(|info| info.server_name.as_deref());
    let protocol = info.and_then(|info| info.alpn.as_deref());
    let known = Known { name, protocols: protocol.as_slice(), client: address(conn), is_opened: true };
    match settings.routes.find(known).cloned() {
        Some(route) => Ok(Opened { client, first: Chunk::empty(), route, server_name: None }),
        None => {
            ended_before(conn, &worker.report, "tunnel", Reason::NoTunnelForName, name.unwrap_or_default());
            client.reject(Alert::UNRECOGNIZED_NAME).await;
            Err(client.traffic())
        }
    }
}

/// The client that rules look at.
fn address(conn: &Conn) -> Option<IpAddr> {
    conn.client.map(|client| client.ip())
}

/// What the ClientHello decided.
enum Peeked {
    /// TLS stays closed; the ClientHello goes upstream like all else.
    PassBy(Opened),
    /// TLS is to be opened, beginning with these bytes.
    Open(Stream, Chunk),
}

impl Peeked {
    /// Bytes that are no TLS, and go on as they are.
    fn plain(stream: Stream, first: Chunk, route: Arc<TunnelRoute>) -> Peeked {
        let client = Transport::resumed(stream, first.len());
        Peeked::PassBy(Opened { client, first, route, server_name: None })
    }
}

/// Reads the ClientHello without taking it, and chooses by it.
async fn peek(
    stream: Stream,
    mut first: Chunk,
    conn: &Conn,
    settings: &TunnelSettings,
    until: Duration,
    worker: &Worker,
) -> Result<Peeked, (u64, u64)> {
    let mut deadline = Deadline::new();
    loop {
        match choose(&first, address(conn), settings) {
            Ok(None) if !first.is_full() => {}
            Ok(None) => return Err(reject(stream, &first, conn, worker, Rejection::TOO_LONG).await),
            Ok(Some((route, server_name))) => {
                return Ok(match route {
                    Some(route) => {
                        let client = Transport::resumed(stream, first.len());
                        Peeked::PassBy(Opened { client, first, route, server_name })
                    }
                    None => Peeked::Open(stream, first),
                });
            }
            Err(rejection) => {
                let plain =
                    settings.plain(address(conn), NotTls::Forward).filter(|_| rejection.reason == Reason::NotTls);
                return match plain.cloned() {
                    Some(route) => Ok(Peeked::plain(stream, first, route)),
                    None => Err(reject(stream, &first, conn, worker, rejection).await),
                };
            }
        }
        match deadline.until(until, stream.recv_more(&mut first)).await {
            Ok(Ok(count)) if count > 0 => {}
            Ok(Ok(_)) => return Err(lost(&first, conn, worker, ("tls_handshake", Reason::TlsHandshakeAbandoned))),
            Ok(Err(_)) => return Err(lost(&first, conn, worker, ("tls_handshake", Reason::TlsHandshakeReset))),
            Err(_) => {
                // In some protocols the server speaks first: who is silent for that long begins with no ClientHello any more.
                let plain = settings.plain(address(conn), NotTls::ForwardSilent).filter(|_| first.is_empty());
                return match plain.cloned() {
                    Some(route) => Ok(Peeked::plain(stream, first, route)),
                    None => Err(lost(&first, conn, worker, ("tls_handshake", Reason::TlsHandshakeTimeout))),
                };
            }
        }
    }
}

impl TunnelSettings {
    /// Who gets what does not begin with TLS, if at least this is allowed: whoever gets everything that no name or protocol is asked of.
    fn plain(&self, client: Option<IpAddr>, least: NotTls) -> Option<&Arc<TunnelRoute>> {
        let known = Known { name: None, protocols: &[], client, is_opened: false };
        // A rule that opens TLS is for what comes out of it.
        self.routes.find(known).filter(|route| route.passthrough && self.config.not_tls >= least)
    }
}

/// Why a ClientHello leads nowhere.
struct Rejection {
    reason: Reason,
    /// The name that nothing is known of.
    name: Option<Box<str>>,
    alert: Option<Alert>,
}

impl Rejection {
    const TOO_LONG: Rejection =
        Rejection { reason: Reason::ClientHelloTooLong, name: None, alert: Some(Alert::DECODE_ERROR) };
    const NOT_TLS: Rejection = Rejection { reason: Reason::NotTls, name: None, alert: None };
    const MALFORMED: Rejection =
        Rejection { reason: Reason::ClientHelloMalformed, name: None, alert: Some(Alert::DECODE_ERROR) };

    fn no_way(name: Option<Box<str>>) -> Rejection {
        Rejection { reason: Reason::NoTunnelForName, name, alert: Some(Alert::UNRECOGNIZED_NAME) }
    }
}

/// A route to pass by on, with the name that led there; or none, if TLS is to be opened.
type Chosen = (Option<Arc<TunnelRoute>>, Option<Box<str>>);

/// None while the ClientHello is not whole.
fn choose(bytes: &[u8], client: Option<IpAddr>, settings: &TunnelSettings) -> Result<Option<Chosen>, Rejection> {
    let message = client_hello(bytes).map_err(|error| match error {
        wire::hello_records::NotHello::NotTls => Rejection::NOT_TLS,
        wire::hello_records::NotHello::Malformed => Rejection::MALFORMED,
        wire::hello_records::NotHello::TooLong => Rejection::TOO_LONG,
    })?;
    let Some(message) = message else { return Ok(None) };
    let hello = ClientHello::parse(&message).map_err(|_| Rejection::MALFORMED)?;
    let name = hello.server_name.and_then(host_name);
    let known = Known { name: name.as_deref(), protocols: &hello.alpn, client, is_opened: false };
    match settings.routes.find(known) {
        Some(route) if route.passthrough => Ok(Some((Some(Arc::clone(route)), name.map(Into::into)))),
        // The handshake may still be rejected, by its own rules.
        Some(_) => Ok(Some((None, None))),
        None => Err(Rejection::no_way(name.map(Into::into))),
    }
}

/// Rejects with an alert in the clear, which is all there can be before a handshake, and a line in the log.
async fn reject(stream: Stream, first: &Chunk, conn: &Conn, worker: &Worker, rejection: Rejection) -> (u64, u64) {
    ended_before(
        conn,
        &worker.report,
        "tls_handshake",
        rejection.reason,
        rejection.name.as_deref().unwrap_or_default(),
    );
    let mut sent = 0;
    if let Some(alert) = rejection.alert {
        // A fatal alert (RFC 8446 §6) in a record of the version that all clients take (§5.1).
        let record = [21, 3, 1, 0, 2, 2, alert.0];
        if Deadline::new().within(Duration::from_secs(1), stream.send(&record)).await.is_ok_and(|sent| sent.is_ok()) {
            sent = record.len() as u64;
        }
    }
    stream.shutdown_write();
    (first.len() as u64, sent)
}

fn lost(first: &Chunk, conn: &Conn, worker: &Worker, (phase, reason): (&'static str, Reason)) -> (u64, u64) {
    ended_before(conn, &worker.report, phase, reason, "");
    (first.len() as u64, 0)
}
