//! What is known of a request or a connection when it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::config::LogConfig;

/// Whose fault an unhappy end was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nobody's: it went well.
    #[default]
    None,
    /// The client's.
    Client,
    /// The upstream's.
    Upstream,
    /// Ours.
    Ours,
}

/// One HTTP request, finished.
#[derive(Debug, Clone)]
pub struct RequestRecord<'a> {
    /// When its first byte was read (wall clock).
    pub started: SystemTime,
    /// Listener name.
    pub listener: &'a str,
    /// True client; none on Unix sockets.
    pub client: Option<SocketAddr>,
    /// What TLS agreed on, if there was TLS.
    pub tls: Option<&'a tls::Info>,
    /// Method, as text.
    pub method: &'a str,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2`.
    pub version: &'static str,
    /// Authority of the request, hostile bytes possible.
    pub host: &'a [u8],
    /// Path and query, hostile bytes possible.
    pub target: &'a [u8],
    /// User-Agent, hostile bytes possible.
    pub user_agent: &'a [u8],
    /// The request id sent upstream.
    pub request_id: &'a [u8],
    /// Name of the route, if one matched.
    pub route: Option<&'a str>,
    /// Name of the upstream group, if one was chosen.
    pub upstream: Option<&'a str>,
    /// Address of the server that answered or failed last.
    pub server: Option<&'a str>,
    /// Status sent to the client; 0 if none was.
    pub status: u16,
    /// Status the upstream gave, if it gave one.
    pub upstream_status: Option<u16>,
    /// Body bytes from the client.
    pub bytes_received: u64,
    /// Body bytes to the client.
    pub bytes_sent: u64,
    /// First byte of the request to last byte of the answer.
    pub duration: Duration,
    /// Request sent to upstream's head received.
    pub upstream_duration: Option<Duration>,
    /// Further tries on other servers.
    pub retries: u32,
    /// Whose fault, if unhappy.
    pub fault: Fault,
    /// Stable lower-case code of what went wrong, empty if nothing: `duplicate_content_length`, `upstream_connect_timeout`.
    pub reason: &'static str,
}

/// One connection that ended without ever becoming a request: refused, failed handshake, silent.
#[derive(Debug, Clone)]
pub struct ConnRecord<'a> {
    /// When it was accepted.
    pub started: SystemTime,
    /// Listener name.
    pub listener: &'a str,
    /// True client; none on Unix sockets.
    pub client: Option<SocketAddr>,
    /// SNI as sent, if it was seen.
    pub server_name: Option<&'a str>,
    /// Accept to end.
    pub duration: Duration,
    /// `accept`, `tls_handshake`, `head`, ...
    pub phase: &'static str,
    /// Whose fault.
    pub fault: Fault,
    /// Stable code.
    pub reason: &'static str,
    /// Detail for people, e.g. the library's reason; hostile bytes possible.
    pub detail: &'a str,
}

/// The process-wide end of reporting: metrics registry, log writer, client table. Shared with the admin side.
#[derive(Debug)]
pub struct Reporter {}

impl Reporter {
    /// Opens the log and starts its writer thread.
    ///
    /// # Errors
    /// The log file cannot be opened.
    pub fn start(log: &LogConfig, workers: usize) -> std::io::Result<Arc<Reporter>> {
        let _ = (log, workers);
        Ok(Arc::new(Reporter {}))
    }

    /// The handle of one worker.
    pub fn worker(self: &Arc<Reporter>, index: usize) -> WorkerReport {
        let _ = index;
        WorkerReport {}
    }
}

/// One worker's end of reporting. Not shared between threads; never blocks and takes no lock on the data path.
#[derive(Debug)]
pub struct WorkerReport {}

impl WorkerReport {
    /// A connection was accepted.
    pub fn connection_opened(&self, listener: &str) {
        let _ = listener;
    }

    /// A connection ended, whatever became of it. `bytes_received`/`bytes_sent` count all its bytes as seen on the socket.
    pub fn connection_closed(&self, listener: &str, client: Option<SocketAddr>, bytes_received: u64, bytes_sent: u64) {
        let _ = (listener, client, bytes_received, bytes_sent);
    }

    /// A connection that never became a request ended: one log line.
    pub fn connection_failed(&self, record: &ConnRecord<'_>) {
        let _ = record;
    }

    /// A handshake ended well.
    pub fn handshake(&self, listener: &str, info: &tls::Info, duration: Duration) {
        let _ = (listener, info, duration);
    }

    /// A request ended: one log line, its metrics.
    pub fn request(&self, record: &RequestRecord<'_>) {
        let _ = record;
    }
}
impl Reporter { pub fn reload(&self, _: bool, _: u64) {} pub fn keystore(&self, _: &str, _: &keystore::Store) {} }
impl WorkerReport { pub fn flush(&self) {} }
