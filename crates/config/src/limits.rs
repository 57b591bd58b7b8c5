//! Every size, count and time bound of the process: its name and unit, its default, and what it bounds. A bound that an operator may set is a row here;
//! the ones that are the same everywhere stand in `limits/fixed.rs`. Per-upstream and per-route bounds stand beside what they bound.

use std::time::Duration;

use net::pace::Pace;

use super::table::*;

mod fixed;

pub use fixed::{FIXED, FixedBound, FixedBounds};

settings! {
    /// Limits of the edge. Per-upstream limits stand in `config::UpstreamConfig`, per-route ones in `config::RouteConfig`.
    pub struct Limits, LIMITS_ROWS {
        max_connections: usize = Shape::Int(1, 100_000_000), "100000",
            "Concurrent connections; further ones wait in the accept queue of the kernel.";
        max_connections_per_client: usize = Shape::Int(1, 100_000_000), "1000" <= "max_connections",
            "Concurrent connections from one address (IPv6: from one /64); further ones are closed at once.";
        handshake_timeout: Duration = TIMEOUT, "10s",
            "Time from accept to the end of the TLS handshake.";
        request_header_timeout: Duration = TIMEOUT, "10s",
            "Time from the first byte of a request to the end of its header.";
        keep_alive_timeout: Duration = TIMEOUT, "75s",
            "Time between two requests of a connection.";
        client_idle_timeout: Duration = TIMEOUT, "60s",
            "Time between two reads of a request body before the response begins, or between two writes of the response.";
        min_body_rate: u64 = Shape::Size(0, TIB), "256",
            "Lowest rate, in bytes per second, at which a client may send a request body or read a response body, over any `client_idle_timeout`; 0 for none. For gRPC calls to an `http2` upstream only that of the route applies.";
        keepalive: Duration = Shape::Duration(0, 9 * HOUR), "60s",
            "Time of silence on a client's connection after which the kernel asks whether the client is still there (TCP keep-alive), and then in quarters of it; one that does not respond in twice this time is gone. `0s`: never.";
        tunnel_idle_timeout: Duration = Shape::Duration(SECOND, 30 * DAY), "1h",
            "Close a WebSocket or other tunnel after this time without a byte in either direction.";
        max_head_bytes as "max_header_bytes": usize = Shape::Size(KIB, 32 * KIB), "32KiB",
            "Request header, with the request line; then 431.";
        max_request_line_bytes as "max_request_line": usize = Shape::Size(64, MIB), "8KiB" <= "max_header_bytes",
            "Request line; then 414.";
        max_headers: usize = Shape::Int(4, 256), "100",
            "Header fields in a request; then 431.";
        max_body_bytes as "max_body": u64 = Shape::Size(1, TIB), "64MiB",
            "Request body, unless the route sets its own limit; then 413.";
        max_response_header_bytes: usize = Shape::Size(KIB, 32 * KIB), "32KiB",
            "Response header of an upstream; then 502.";
        max_interim_responses: u32 = Shape::Int(0, 1_000), "8",
            "Interim (1xx) responses before the final one; then 502.";
        max_requests_per_connection: u64 = Shape::Int(1, u64::MAX >> 11), "1000000",
            "Requests on one connection, after which it is closed gracefully.";
        max_drain_bytes as "max_discarded_body": u64 = Shape::Size(0, MIB), "64KiB",
            "Unread rest of a request body, or of a response that error pages replace, to read and discard in order to keep the connection; longer ones close it.";
        max_validation_memory_bytes as "max_validation_memory": usize = Shape::Size(MIB, 1024 * 1024 * MIB), "512MiB",
            "Memory for all bodies that contracts are validating; then 503. A body takes its own size, or up to 12 times its decoded size where the schema needs the whole of it.";
        max_validation_memory_per_connection_bytes as "max_validation_memory_per_connection": usize = Shape::Size(64 * 1024, 1024 * 1024 * MIB), "64MiB",
            "Memory for the bodies of one client connection that contracts are validating; then 503.";
        max_compression_memory_bytes as "max_compression_memory": usize = Shape::Size(0, 1024 * 1024 * MIB), "256MiB",
            "Memory for all responses that are being compressed; further ones are sent as they are. A response takes 0.5 to 5 MiB, by coding and level; a stream of events 0.5 MiB.";
        max_receive_window: u32 = Shape::Size(MIB, 1024 * MIB), "16MiB",
            "How far the flow-control window of an HTTP/2 or HTTP/3 client's connection may grow beyond 1 MiB, so that uploads over long paths are fast: it follows what the upstream takes within a round trip. That of a stream is a quarter. An HTTP/2 upstream may send a sixteenth ahead on each stream.";
        max_receive_window_memory: usize = Shape::Size(0, 1024 * 1024 * MIB), "256MiB",
            "Bytes by which all these windows together may grow; those of further connections stay as they are at first.";
        h2_max_streams: u32 = Shape::Int(1, 10_000), "128",
            "Concurrent HTTP/2 or HTTP/3 streams on one connection.";
        h2_control_frame_burst: u32 = Shape::Int(1, 1_000_000), "1000",
            "HTTP/2 frames without payload (PING, SETTINGS, WINDOW_UPDATE and the like) and requests, and HTTP/3 frames that carry nothing, in excess of ten per response frame; then GOAWAY, or H3_EXCESSIVE_LOAD.";
        h2_control_frame_rate: u32 = Shape::Int(0, 1_000_000), "2000",
            "Allowance of such frames per second.";
        h2_failed_request_burst: u32 = Shape::Int(1, 1_000_000), "500",
            "HTTP/2 and HTTP/3 requests that fail (cancelled within a second and before the response, invalid header, reset for an error, more than `h2_max_streams`), less those with a response; then GOAWAY, or H3_EXCESSIVE_LOAD.";
        h2_failed_request_rate: u32 = Shape::Int(0, 1_000_000), "500",
            "Allowance of such requests per second.";
        h2_rejected_request_rate: u32 = Shape::Int(0, 1_000_000), "100",
            "Allowance per second of those that the client did not cancel.";
        drain_delay: Duration = Shape::Duration(0, DAY), "0s",
            "Time after SIGTERM during which connections are still accepted while `/readyz` returns 503, for load balancers to notice. Set it to the interval of their checks times the failures they need.";
        drain_timeout: Duration = Shape::Duration(0, DAY), "30s",
            "Time after SIGTERM and `drain_delay`, or after an upgrade, for open requests and tunnels to finish.";
        upgrade_timeout: Duration = Shape::Duration(SECOND, HOUR), "60s",
            "Time for the new process of `portunus upgrade` to load its configuration and serve; then it is ended, and the old one goes on.";
    }
}

/// Limits of the process.
pub(crate) static LIMITS: Object = object("limits", "limits of the process", &[LIMITS_ROWS]);

impl Limits {
    /// How slow a client may be, where its route does not say otherwise.
    pub fn pace(&self) -> Pace {
        Pace { idle: self.client_idle_timeout, min_rate: self.min_body_rate }
    }
}

settings! {
    /// Limits of a key server.
    pub struct KeyServerLimits, KEY_SERVER_LIMITS_ROWS {
        max_connections: usize = Shape::Int(1, 1_000_000), "10000",
            "Concurrent connections of clients that have shown who they are. If all are taken, the oldest of the address that has the most yields to one of an address with fewer; others are closed at once. Handshakes under way have as many places of their own, of which an address has three quarters at most: there the oldest yields. A process with few descriptors has fewer of each.";
        max_in_flight: usize = Shape::Int(1, 65_536), "1024",
            "Outstanding requests of one connection; then nothing more is read from it.";
        max_queued: usize = Shape::Int(1, 1_000_000), "16384",
            "Queued operations per class (RSA, ECDSA, other); then a connection that has its share of them is not read.";
        target_wait: Duration = Shape::Duration(1, 10 * SECOND), "100ms",
            "Queueing delay after which an operation is answered BUSY; of peers that do not understand that, the oldest are dropped if ever more wait.";
        operation_timeout: Duration = Shape::Duration(10, 600 * SECOND), "10s",
            "Drop operations that have been queued for this time.";
        handshake_timeout: Duration = TIMEOUT, "10s",
            "Time from accept to the end of the TLS handshake.";
        frame_timeout: Duration = TIMEOUT, "10s",
            "Time from the first byte of a request to its last.";
        idle_timeout: Duration = TIMEOUT, "10m",
            "Close a connection after this time without an outstanding request.";
        write_timeout: Duration = TIMEOUT, "30s",
            "Time between two writes that the peer accepts.";
        max_made_keys: usize = Shape::Int(1, 100_000), "1000",
            "Keys that clients had made (`make_keys`), per folder; no further one is made.";
        drain_delay: Duration = Shape::Duration(0, DAY), "0s",
            "Time after SIGTERM during which connections are still accepted while `/readyz` returns 503, for load balancers in front of several key servers.";
        drain_timeout: Duration = Shape::Duration(0, DAY), "10s",
            "Time after SIGTERM and `drain_delay` to finish outstanding requests.";
    }
}

/// Limits of a key server.
pub(crate) static KEY_SERVER_LIMITS: Object = object("limits", "limits of the process", &[KEY_SERVER_LIMITS_ROWS]);
