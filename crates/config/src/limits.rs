//! Every size, count and time bound that an operator may set for the process: name with unit, default, one line why.

use std::time::Duration;

use net::pace::Pace;

/// Bounds of the edge. Per-upstream bounds stand in `config::UpstreamConfig`, per-route ones in `config::RouteConfig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once in the process; further ones wait in the kernel's queue until one ends.
    pub max_connections: usize,
    /// Connections open at once from one client address (IPv6: from one /64); further ones are closed at once.
    pub max_connections_per_client: usize,
    /// From accept to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// From the first byte of a request to the end of its head.
    pub head_timeout: Duration,
    /// Between two requests of a connection.
    pub keep_alive_timeout: Duration,
    /// Between two reads of a request body before there is a response, or two writes the client accepts.
    pub client_idle_timeout: Duration,
    /// Slowest body a client may send or accept, bytes per second of waiting for it, over any `client_idle_timeout`.
    pub min_body_rate: u64,
    /// A tunnel (WebSocket and the like) in which nothing moves either way.
    pub tunnel_idle_timeout: Duration,
    /// Request head, bytes; at most one receive chunk (32 KiB).
    pub max_head_bytes: usize,
    /// Request line, bytes.
    pub max_request_line_bytes: usize,
    /// Fields in a head.
    pub max_headers: usize,
    /// Request body, bytes, where the route does not say otherwise.
    pub max_body_bytes: u64,
    /// Response head from an upstream, bytes; at most one receive chunk (32 KiB).
    pub max_response_head_bytes: usize,
    /// Interim (1xx) responses before the final one.
    pub max_interim_responses: u32,
    /// Requests on one connection, then it is closed politely.
    pub max_requests_per_connection: u64,
    /// An unread request body is read up to this many bytes to keep the connection, else the connection closes.
    pub max_drain_bytes: u64,
    /// Memory of all bodies that contracts are validating: what is held of them, decoded and recorded, bytes.
    pub max_validation_memory_bytes: usize,
    /// The share of one client connection in that, bytes.
    pub max_validation_memory_per_connection_bytes: usize,
    /// HTTP/2 streams open at once on one connection.
    pub h2_max_streams: u32,
    /// HTTP/2 frames that carry nothing (PING, SETTINGS, WINDOW_UPDATE, PRIORITY, RST_STREAM, empty DATA), or begin a request, beyond ten for each
    /// DATA or HEADERS frame the client gets; then it is a flood.
    pub h2_control_frame_burst: u32,
    /// As many of these frames are allowed again each second: four for each of the requests below.
    pub h2_control_frame_rate: u32,
    /// HTTP/2 requests on one connection that come to nothing (cancelled within a second and before their response begins, rejected for their
    /// head, reset for an error, beyond `h2_max_streams`), less those that got a response; then it is a flood.
    pub h2_failed_request_burst: u32,
    /// As many of these requests are allowed again each second: busy clients of gRPC cancel, or miss deadlines, in bursts while a server is slow.
    pub h2_failed_request_rate: u32,
    /// As many of those that the client did not cancel are allowed again each second: ordinary clients send no heads that are rejected, and keep to
    /// the limit on streams.
    pub h2_rejected_request_rate: u32,
    /// From SIGTERM to the end of accepting: time for load balancers to see that `/readyz` says 503.
    pub drain_delay: Duration,
    /// After that, how long open requests and tunnels may go on.
    pub drain_timeout: Duration,
}

impl Limits {
    /// How slow a client may be, where its route does not say otherwise.
    pub fn pace(&self) -> Pace {
        Pace { idle: self.client_idle_timeout, min_rate: self.min_body_rate }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_connections: 100_000,
            max_connections_per_client: 1_000,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(75),
            client_idle_timeout: Duration::from_secs(60),
            min_body_rate: 256,
            tunnel_idle_timeout: Duration::from_secs(3600),
            max_head_bytes: 32 * 1024,
            max_request_line_bytes: 8 * 1024,
            max_headers: 100,
            max_body_bytes: 64 * 1024 * 1024,
            max_response_head_bytes: 32 * 1024,
            max_interim_responses: 8,
            max_requests_per_connection: 1_000_000,
            max_drain_bytes: 64 * 1024,
            max_validation_memory_bytes: 512 * 1024 * 1024,
            max_validation_memory_per_connection_bytes: 64 * 1024 * 1024,
            h2_max_streams: 128,
            h2_control_frame_burst: 1_000,
            h2_control_frame_rate: 2_000,
            h2_failed_request_burst: 500,
            h2_failed_request_rate: 500,
            h2_rejected_request_rate: 100,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Bounds of a key server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyServerLimits {
    /// Connections open at once; further ones are closed at once.
    pub max_connections: usize,
    /// Unanswered requests of one connection; then nothing more is read from it, so that no peer can fill the queues alone.
    pub max_in_flight: usize,
    /// Operations waiting per class; then connections wait to hand in theirs.
    pub max_queued: usize,
    /// Expected wait from which a class is overloaded: newest first, and BUSY to peers that understand it.
    pub target_wait: Duration,
    /// An operation that has waited so long is not begun any more: its peer has given up.
    pub operation_timeout: Duration,
    /// From accept to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// From the first byte of a request to its last.
    pub frame_timeout: Duration,
    /// A connection on which nothing is asked and nothing outstanding.
    pub idle_timeout: Duration,
    /// Between two writes that the peer accepts.
    pub write_timeout: Duration,
    /// After SIGTERM, how long what was asked may take to be answered.
    pub drain_timeout: Duration,
}

impl Default for KeyServerLimits {
    fn default() -> KeyServerLimits {
        KeyServerLimits {
            max_connections: 10_000,
            max_in_flight: 1_024,
            max_queued: 16_384,
            target_wait: Duration::from_millis(100),
            operation_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            frame_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(600),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
