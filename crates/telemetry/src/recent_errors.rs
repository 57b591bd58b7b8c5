//! What failed or was rejected last: requests, connections and tunnels, in bounded memory.
//!
//! What succeeds never comes here. What clients are at fault for is kept apart from everything else, so that no flood of rejections pushes out what an operator looks
//! for; and of each only so many are noted between two flushes of a worker, so that a flood costs a comparison each. Text of clients is kept as printable ASCII, and
//! query parameters that the access log redacts are redacted here.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use reason::{Reason, Side};

use super::line::printable;
use super::lock::lock;
use super::record::{ConnRecord, RequestRecord, TunnelRecord};
use super::redact::Redacted;

/// Errors that are noted between two flushes, of each kind; further ones are left out.
const NOTED_ERRORS: usize = 32;

/// Errors that one worker keeps, of each kind.
const KEPT_ERRORS: usize = 128;

/// Errors that are listed, of each kind.
const LISTED_ERRORS: usize = 100;

/// Bytes of a target that are kept.
const TARGET_BYTES: usize = 512;

/// Bytes of any other text of clients that are kept.
const TEXT_BYTES: usize = 256;

/// A request, connection or tunnel that failed or was rejected. Texts are printable ASCII; those that are not known are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentError {
    /// When it ended.
    pub at: SystemTime,
    /// `request`, `connection` or `tunnel`.
    pub kind: &'static str,
    /// Listener name.
    pub listener: Box<str>,
    /// Who sent it: the connection's peer, or whom the trusted proxies name; none on Unix sockets.
    pub client: Option<IpAddr>,
    /// Who it was verified to come from.
    pub user: Box<str>,
    /// Method of a request.
    pub method: Box<str>,
    /// Authority of a request; TLS server name of anything else.
    pub host: Box<str>,
    /// Path and query of a request, redacted.
    pub target: Box<str>,
    /// Status sent to the client; 0 if none was.
    pub status: u16,
    /// Name of the route.
    pub route: Box<str>,
    /// Name of the upstream.
    pub upstream: Box<str>,
    /// The server that answered or failed last.
    pub server: Box<str>,
    /// The policy that did not let it pass.
    pub policy: Box<str>,
    /// Whose fault.
    pub fault: Side,
    /// Why; none for a response of 5xx that the upstream server itself gave.
    pub reason: Option<Reason>,
    /// Where in the message a contract is violated; what phase a connection was in, and what the TLS library says.
    pub detail: Box<str>,
    /// The request id sent upstream.
    pub request_id: Box<str>,
    /// From its start to its end.
    pub duration: Duration,
}

impl RecentError {
    /// Whose fault a request's end is; nobody's where it is no error. A response of 5xx is the upstream server's, even where it was passed on as it came.
    pub(super) fn fault_of(record: &RequestRecord<'_>) -> Side {
        let is_of_upstream = record.status >= 500 && record.upstream_status == Some(record.status);
        if record.fault == Side::Nobody && is_of_upstream { Side::Upstream } else { record.fault }
    }

    pub(super) fn of_request(record: &RequestRecord<'_>, fault: Side, redacted: &Redacted) -> RecentError {
        let mut target = String::new();
        printable(&mut target, record.target, TARGET_BYTES, redacted);
        let violation = record.contract.as_ref().filter(|contract| contract.reason.is_some());
        RecentError {
            at: ended(record.started, record.duration),
            kind: "request",
            listener: record.listener.into(),
            client: record.client,
            user: text(record.user.unwrap_or_default().as_bytes()),
            method: text(record.method.as_bytes()),
            host: text(record.host),
            target: target.into(),
            status: record.status,
            route: record.route.unwrap_or_default().into(),
            upstream: record.upstream.unwrap_or_default().into(),
            server: record.server.unwrap_or_default().into(),
            policy: record.policy.unwrap_or_default().into(),
            fault,
            reason: record.reason,
            detail: violation.map(|contract| text(contract.place.as_bytes())).unwrap_or_default(),
            request_id: text(record.request_id),
            duration: record.duration,
        }
    }

    pub(super) fn of_connection(record: &ConnRecord<'_>) -> RecentError {
        let (client, server_name) = (record.client.map(|client| client.ip().to_canonical()), record.server_name);
        let mut error = RecentError::bare("connection", record.listener, client, server_name);
        let detail = match record.detail {
            "" => record.phase.to_owned(),
            detail => format!("{}: {detail}", record.phase),
        };
        (error.at, error.duration) = (ended(record.started, record.duration), record.duration);
        (error.fault, error.reason) = (record.fault, Some(record.reason));
        error.policy = record.policy.unwrap_or_default().into();
        error.detail = text(detail.as_bytes());
        error
    }

    pub(super) fn of_tunnel(record: &TunnelRecord<'_>) -> RecentError {
        let (client, opened) = (record.client.map(|client| client.ip().to_canonical()), record.tls);
        let server_name = record.server_name.or(opened.and_then(|info| info.server_name.as_deref()));
        let mut error = RecentError::bare("tunnel", record.listener, client, server_name);
        (error.at, error.duration) = (ended(record.started, record.duration), record.duration);
        (error.fault, error.reason) = (record.fault, record.reason);
        error.upstream = record.upstream.into();
        error.server = record.server.unwrap_or_default().into();
        error.policy = record.policy.unwrap_or_default().into();
        error.request_id = text(record.connection_id);
        error
    }

    fn bare(kind: &'static str, listener: &str, client: Option<IpAddr>, server_name: Option<&str>) -> RecentError {
        let nothing = Box::<str>::default;
        RecentError {
            at: SystemTime::UNIX_EPOCH,
            kind,
            listener: listener.into(),
            client,
            user: nothing(),
            method: nothing(),
            host: text(server_name.unwrap_or_default().as_bytes()),
            target: nothing(),
            status: 0,
            route: nothing(),
            upstream: nothing(),
            server: nothing(),
            policy: nothing(),
            fault: Side::Nobody,
            reason: None,
            detail: nothing(),
            request_id: nothing(),
            duration: Duration::ZERO,
        }
    }
}

fn ended(started: SystemTime, duration: Duration) -> SystemTime {
    started.checked_add(duration).unwrap_or(started)
}

fn text(value: &[u8]) -> Box<str> {
    let mut out = String::new();
    printable(&mut out, value, TEXT_BYTES, Redacted::nothing());
    out.into()
}

/// What one worker has noted since its last flush.
#[derive(Debug, Default)]
pub(super) struct NotedErrors {
    of_clients: Vec<RecentError>,
    others: Vec<RecentError>,
}

impl NotedErrors {
    /// Notes an error, if there is room for one more.
    pub(super) fn note(&mut self, fault: Side, make: impl FnOnce() -> RecentError) {
        let noted = if fault == Side::Client { &mut self.of_clients } else { &mut self.others };
        if noted.len() < NOTED_ERRORS {
            noted.push(make());
        }
    }

    /// Shows what was noted to readers, unless one is reading just now.
    pub(super) fn publish(&mut self, published: &Published) {
        if self.of_clients.is_empty() && self.others.is_empty() {
            return;
        }
        let Ok(mut shown) = published.try_lock() else { return };
        let KeptErrors { of_clients, others } = &mut *shown;
        for (kept, noted) in [(of_clients, &mut self.of_clients), (others, &mut self.others)] {
            let excess = (kept.len() + noted.len()).saturating_sub(KEPT_ERRORS);
            kept.drain(..excess.min(kept.len()));
            kept.extend(noted.drain(..));
        }
    }
}

/// What one worker shows of its errors, the oldest first.
#[derive(Debug, Default)]
pub(super) struct KeptErrors {
    of_clients: VecDeque<RecentError>,
    others: VecDeque<RecentError>,
}

/// What readers see of them.
pub(super) type Published = Mutex<KeptErrors>;

/// The errors of all workers, the newest first: so many of clients, and so many others.
pub(super) fn newest<'a>(workers: impl Iterator<Item = &'a Published>) -> Vec<RecentError> {
    let (mut of_clients, mut others) = (Vec::new(), Vec::new());
    for worker in workers {
        let kept = lock(worker);
        of_clients.extend(kept.of_clients.iter().cloned());
        others.extend(kept.others.iter().cloned());
    }
    let by_time = |errors: &mut Vec<RecentError>| errors.sort_by_key(|error| std::cmp::Reverse(error.at));
    for errors in [&mut of_clients, &mut others] {
        by_time(errors);
        errors.truncate(LISTED_ERRORS);
    }
    others.append(&mut of_clients);
    by_time(&mut others);
    others
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn error(number: u64, fault: Side) -> RecentError {
        let mut error = RecentError::bare("request", "web", None, None);
        error.at = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        error.fault = fault;
        error
    }

    #[test]
    fn the_newest_are_kept_and_a_flood_of_clients_pushes_no_other_out() {
        let (mut noted, published) = (NotedErrors::default(), Published::default());
        noted.note(Side::Upstream, || error(1, Side::Upstream));
        for number in 2..5_000 {
            noted.note(Side::Client, || error(number, Side::Client));
            if number % 10 == 0 {
                noted.publish(&published);
            }
        }
        noted.publish(&published);
        let listed = newest([&published].into_iter());
        assert_eq!(listed.len(), LISTED_ERRORS + 1);
        assert_eq!(listed[0].at, SystemTime::UNIX_EPOCH + Duration::from_secs(4_999));
        assert!(listed.is_sorted_by_key(|error| std::cmp::Reverse(error.at)));
        assert_eq!(listed.last().unwrap().fault, Side::Upstream);
        assert_eq!(lock(&published).of_clients.len(), KEPT_ERRORS);
    }

    #[test]
    fn between_two_flushes_only_so_many_are_made() {
        let (mut noted, published) = (NotedErrors::default(), Published::default());
        let mut made = 0;
        for number in 0..1_000 {
            noted.note(Side::Client, || {
                made += 1;
                error(number, Side::Client)
            });
        }
        assert_eq!(made, NOTED_ERRORS);
        // A reader holds the lock: nothing is lost that was noted.
        {
            let _reading = published.lock();
            noted.publish(&published);
        }
        assert!(newest([&published].into_iter()).is_empty());
        noted.publish(&published);
        assert_eq!(newest([&published].into_iter()).len(), NOTED_ERRORS);
    }
}
