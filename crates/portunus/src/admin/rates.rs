//! What came between two moments, per second, as events and the history of the API show it.

use std::time::Duration;

use serde_json::{Value, json};
use telemetry::Snapshot;

/// What came in some time: per second, rounded to tenths; and how long requests took then, milliseconds, none without
/// requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    requests: f64,
    server_errors: f64,
    connections: f64,
    handshakes: f64,
    bytes_received: f64,
    bytes_sent: f64,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

impl Rates {
    /// From the totals at its end and at its beginning.
    pub fn between(now: &Snapshot, last: &Snapshot, elapsed: Duration) -> Rates {
        let (total, before) = (now.total(), last.total());
        let rate = |now: u64, before: u64| {
            let rate = now.saturating_sub(before) as f64 / elapsed.as_secs_f64().max(0.001);
            (rate * 10.0).round() / 10.0
        };
        let errors = |snapshot: &Snapshot| snapshot.by_class().into_iter().next_back().unwrap_or_default();
        let handshakes =
            (total.full_handshakes + total.resumed_handshakes, before.full_handshakes + before.resumed_handshakes);
        let latency = now.latency.since(&last.latency);
        let millis = |thousandths| latency.percentile(thousandths).map(|time| time.as_secs_f64() * 1_000.0);
        Rates {
            requests: rate(total.requests, before.requests),
            server_errors: rate(errors(now), errors(last)),
            connections: rate(total.accepted, before.accepted),
            handshakes: rate(handshakes.0, handshakes.1),
            bytes_received: rate(total.received, before.received),
            bytes_sent: rate(total.sent, before.sent),
            p50: millis(500),
            p95: millis(950),
            p99: millis(990),
        }
    }

    /// As the API shows them.
    pub fn json(&self) -> Value {
        json!({
            "requests": self.requests,
            "server_errors": self.server_errors,
            "connections": self.connections,
            "handshakes": self.handshakes,
            "bytes_received": self.bytes_received,
            "bytes_sent": self.bytes_sent,
            "latency_ms": { "p50": self.p50, "p95": self.p95, "p99": self.p99 },
        })
    }
}
