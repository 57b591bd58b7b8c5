//! A connection of enrolment: one request, one response, end. Nothing of the keyless protocol is spoken on it, and no key can be asked for.
//!
//! Who comes without a certificate is a stranger until its token is found: of those few are served at a time, and who was wrong waits for its answer, so
//! that guessing is slow and nobody who renews notices.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use net::Chunk;
use net::places::Ticket;
use reason::Reason;
use telemetry::{KeyOperation, KeyOutcome, KeyReport};
use tls::PeerCertificate;
use transport::Transport;
use wire::enrolment::{ENROL_NAME, Malformed, Proof, RENEW_NAME, Request, Response};
use wire::keyless::ErrorCode;

use super::issuer::{Denied, Issued, Issuer};
use super::shared::{End, Shared};

/// How long whoever was wrong waits for the answer, and keeps its place among those.
const DENIAL_PAUSE: Duration = Duration::from_secs(1);

/// What those are called in logs and metrics who have not shown who they are: never by what they say.
const STRANGER: &str = "enrolment";

/// Who is at the other end.
pub(super) struct Caller {
    /// The certificate that it has shown, which the authority of enrolment has issued.
    pub(super) certificate: Option<Box<PeerCertificate>>,
    /// From where.
    pub(super) address: Option<SocketAddr>,
}

/// A place among strangers; given back when dropped.
struct Place<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl Place<'_> {
    fn take(shared: &Shared, address: Option<SocketAddr>) -> Option<Place<'_>> {
        let mut enrolling = shared.enrolling.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = enrolling.enter_if_free(address.map(|address| address.ip()), ())?;
        Some(Place { shared, ticket })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.enrolling.lock().unwrap_or_else(PoisonError::into_inner).leave(self.ticket);
    }
}

/// Serves it to its end.
pub(super) async fn serve(transport: Transport, caller: Caller, shared: &Arc<Shared>, report: &KeyReport) -> End {
    let mut chunk = Chunk::empty();
    loop {
        match Request::parse(&chunk) {
            Ok(Some((request, length))) if length == chunk.len() => {
                let response = decide(&request, &chunk, &caller, shared, report).await;
                let sent = transport.send(&response).await;
                transport.finish().await;
                return sent.map_or_else(
                    |broken| End::Failed(Reason::ClientDisconnected, broken.to_string()),
                    |()| End::Closed,
                );
            }
            Ok(None) => {}
            Ok(Some(_)) | Err(Malformed) => {
                transport.finish().await;
                return End::Failed(Reason::FrameMalformed, "no request for enrolment".to_owned());
            }
        }
        match transport.recv_more(&mut chunk).await {
            Ok(0) if chunk.is_empty() => return End::Closed,
            Ok(0) => return End::Failed(Reason::FrameTruncated, String::new()),
            Ok(_) => {}
            Err(broken) => return End::Failed(Reason::ClientDisconnected, broken.to_string()),
        }
    }
}

/// What a request is answered with.
async fn decide(
    request: &Request<'_>,
    bytes: &[u8],
    caller: &Caller,
    shared: &Arc<Shared>,
    report: &KeyReport,
) -> Vec<u8> {
    let asks_by_token = matches!(request.proof, Proof::Token { .. });
    let (received, is_stranger) = (Instant::now(), asks_by_token || caller.certificate.is_none());
    let place = if is_stranger { Place::take(shared, caller.address) } else { None };
    let outcome = if is_stranger && place.is_none() {
        Err(Denied { code: ErrorCode::BUSY, why: "too many ask with tokens at once".to_owned() })
    } else {
        ask(bytes, caller, shared).await
    };
    let name = match &outcome {
        Ok((issued, _)) => Some(&issued.name),
        Err(_) => caller.certificate.as_ref().and_then(|peer| peer.first_name()),
    };
    let peer = name.map_or(STRANGER, String::as_str);
    let operation = if asks_by_token { ENROL_NAME } else { RENEW_NAME };
    let code = outcome.as_ref().err().map(|denied| denied.code);
    match &outcome {
        Ok(_) => tracing::info!(node = peer, address = ?caller.address, operation, "client certificate issued"),
        Err(Denied { why, .. }) => {
            tracing::warn!(peer, address = ?caller.address, operation, "no client certificate issued: {why}");
        }
    }
    report.operation(&KeyOperation {
        peer,
        address: caller.address,
        ski: None,
        operation,
        class: "none",
        outcome: code.map_or(KeyOutcome::Done, KeyOutcome::Rejected),
        queued: Duration::ZERO,
        service: received.elapsed(),
    });
    report.flush();
    if is_stranger && code.is_some() {
        tokio::time::sleep(DENIAL_PAUSE).await;
    }
    drop(place);
    written(outcome.as_ref().map(|(issued, issuer)| (issued, &**issuer)).map_err(|denied| denied.code))
}

/// The register writes to the disk, which no other connection of the thread is to wait for.
async fn ask(bytes: &[u8], caller: &Caller, shared: &Arc<Shared>) -> Result<(Issued, Arc<Issuer>), Denied> {
    let internal = |why: String| Denied { code: ErrorCode::INTERNAL, why };
    let issuer = shared.holdings.load().issuer().cloned();
    let issuer = issuer.ok_or_else(|| internal("enrolment is configured no more".to_owned()))?;
    let (bytes, certificate) = (zeroize::Zeroizing::new(bytes.to_vec()), caller.certificate.clone());
    let asked = tokio::task::spawn_blocking(move || {
        // It was read before, from the same bytes.
        let Ok(Some((request, _))) = Request::parse(&bytes) else {
            return Err(Denied { code: ErrorCode::FORMAT, why: "no request".to_owned() });
        };
        let issued = issuer.answer(&request, certificate.as_deref(), SystemTime::now())?;
        Ok((issued, issuer))
    });
    asked.await.unwrap_or_else(|error| Err(internal(error.to_string())))
}

fn written(outcome: Result<(&Issued, &Issuer), ErrorCode>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let response = match outcome {
        Err(code) => Response::Rejected(code),
        Ok((issued, issuer)) => Response::Issued {
            certificate: &issued.certificate,
            authorities: issuer.server_ca.iter().map(Vec::as_slice).collect(),
        },
    };
    if response.write_to(&mut bytes).is_err() {
        // The bytes of `server_ca` are too many; a rejection always fits.
        let _ = Response::Rejected(ErrorCode::INTERNAL).write_to(&mut bytes);
    }
    bytes
}
