//! The TLS handshake of an accepted connection, and the keys it may need from elsewhere.

use std::cell::Cell;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::clock::coarse;
use net::{Chunk, Deadline};
use reason::Reason;
use telemetry::ConnRecord;
use tls::{Alert, Chooser, KeyRequest, KeyResponse, Session};
use transport::{Broken, KeyFailure, Keys, NoCertificate, Transport};

use crate::certificates::TlsFront;
use crate::client;
use crate::connection::{Conn, ConnTls, ended_before, record};
use crate::demands;
use crate::keyless::Ask;
use crate::worker::Worker;

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
            failed(conn, worker, started, Reason::TlsSetup, &error.to_string());
            return Err((0, 0));
        }
    };
    let under_way = UnderWay { conn, worker, started, over: false };
    let address = conn.client.map(|client| client.ip());
    // Behind a proxy that is trusted there are many clients.
    let client = address.filter(|_| !(conn.listener.reads_requests() && worker.pin().trusts(address)));
    let keys = ServedKeys { front, worker, client, until: coarse() + limit, waits_for: Cell::new(Duration::ZERO) };
    let mut handshake = pin!(Transport::handshake(stream, first, session, &keys));
    let mut outcome = Deadline::new().within(limit, handshake.as_mut()).await;
    // What it waits for us is not its own time.
    let waits_for = keys.waits_for.get();
    if outcome.is_err() && !waits_for.is_zero() {
        outcome = Deadline::new().within(waits_for, handshake.as_mut()).await;
    }
    under_way.over();
    let transport = match outcome {
        Ok(Ok(transport)) => transport,
        Ok(Err((transport, broken))) => {
            let (reason, detail) = classify(&broken);
            failed(conn, worker, started, reason, &detail);
            // The alert must arrive before the end does.
            transport.stream().shutdown_write();
            return Err(transport.traffic());
        }
        Err(_) => {
            failed(conn, worker, started, Reason::TlsHandshakeTimeout, "");
            return Err((0, 0));
        }
    };
    if let Some(info) = transport.tls_info() {
        worker.report.handshake(&conn.listener.name, &info, started.elapsed());
        if front.is_proof(&info) {
            let name = info.server_name.as_deref().unwrap_or_default();
            ended_before(conn, &worker.report, "acme", Reason::AcmeChallenge, name);
            transport.finish().await;
            return Err(transport.traffic());
        }
        let rule = Arc::clone(front.rule(info.server_name.as_deref()));
        if !client::is_allowed(&rule, info.peer.as_deref()) {
            failed(conn, worker, started, Reason::ClientCertificateNotAllowed, "");
            transport.reject(Alert::ACCESS_DENIED).await;
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
            failed(self.conn, self.worker, self.started, Reason::Aborted, "");
        }
    }
}

/// The keys of identities without one, as the handshakes of this listener have them used.
struct ServedKeys<'a> {
    front: &'a TlsFront,
    worker: &'a Worker,
    /// Whose handshake it is; none if nobody knows.
    client: Option<IpAddr>,
    /// When the handshake must be over, on the coarse clock.
    until: Duration,
    /// For how long the handshake may wait for a certificate; zero if it does not.
    waits_for: Cell<Duration>,
}

impl Keys for ServedKeys<'_> {
    async fn certificate(&self, server_name: &str) -> Result<(), NoCertificate> {
        let on_demand = self.front.on_demand().ok_or(demands::NOBODY)?;
        self.waits_for.set(on_demand.longest_wait());
        on_demand.wait(server_name, self.client).await
    }

    async fn perform(&self, request: &KeyRequest, server_name: &str) -> Result<KeyResponse, KeyFailure> {
        let group = self.front.key_group().ok_or(KeyFailure::Unavailable)?;
        let client = self.worker.key_clients.of(group, &self.worker.report);
        client.perform(request, Ask { server_name, until: self.until + self.waits_for.get() }).await
    }
}

fn classify(broken: &Broken) -> (Reason, String) {
    match broken {
        Broken::Socket(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            (Reason::TlsHandshakeAbandoned, String::new())
        }
        Broken::Socket(error) => (Reason::TlsHandshakeReset, error.to_string()),
        Broken::Tls(error) => classify_tls(error),
        Broken::Key(failure) => (failure.reason(), failure.to_string()),
        Broken::Certificate(why) => (Reason::CertificateNotIssued, why.0.to_owned()),
    }
}

/// Why TLS failed, in the words of the log.
pub fn classify_tls(error: &tls::Error) -> (Reason, String) {
    match error {
        tls::Error::Ours(detail) => (Reason::TlsInternalError, detail.to_string()),
        tls::Error::PeerCertificate(detail) => (Reason::ClientCertificateInvalid, detail.to_string()),
        tls::Error::PeerAlert(alert) => (Reason::TlsAlertReceived, format!("alert {}", alert.0)),
        // Nothing else is rejected so before anything is negotiated.
        tls::Error::Rejected(Alert::HANDSHAKE_FAILURE) => (Reason::CertificateMissing, String::new()),
        tls::Error::Rejected(alert) => (Reason::TlsRejected, format!("alert {}", alert.0)),
        error => (Reason::TlsHandshakeFailed, error.to_string()),
    }
}

fn failed(conn: &Conn, worker: &Worker, started: Instant, reason: Reason, detail: &str) {
    worker.report.connection_failed(&ConnRecord {
        duration: started.elapsed(),
        ..record(conn, "tls_handshake", reason, detail)
    });
}
