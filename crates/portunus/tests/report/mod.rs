//! Reporting and the admin side from outside: what reaches a log, a scraper and an operator.

mod admin;
mod exposition;
mod log;
mod metrics;

use std::time::{Duration, SystemTime};

use reason::Side;
use telemetry::{Exposition, Reporter, RequestRecord};

/// A request that went well; tests change what they are about.
fn record() -> RequestRecord<'static> {
    RequestRecord {
        started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        listener: "edge",
        client: Some("192.0.2.7".parse().unwrap()),
        peer: Some("192.0.2.7:40123".parse().unwrap()),
        reported: None,
        tls: None,
        method: "GET",
        version: "HTTP/1.1",
        host: b"api.example.com",
        host_pattern: Some("*.example.com"),
        target: b"/items",
        user_agent: b"test",
        request_id: b"0123456789abcdef",
        route: Some("items"),
        upstream: Some("shop"),
        server: Some("10.0.0.5:8080"),
        status: 200,
        upstream_status: Some(200),
        bytes_received: 0,
        bytes_sent: 1234,
        duration: Duration::from_micros(700),
        upstream_duration: Some(Duration::from_micros(500)),
        queued: None,
        throttled: None,
        user: None,
        session: None,
        port_kept: None,
        retries: 0,
        hedges: 0,
        hedge_won: false,
        mirror: None,
        error_pages: None,
        compressed: None,
        fault: Side::Nobody,
        reason: None,
        policy: None,
        would_reject: &[],
        contract: None,
        added: None,
        trace: None,
    }
}

/// The value of a sample without labels.
fn value(reporter: &Reporter, name: &str) -> u64 {
    let text = reporter.metrics(Exposition::Text);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}
