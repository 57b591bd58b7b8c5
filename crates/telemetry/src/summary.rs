//! A few lines about what goes on, for people who watch: `./x demo` prints them again and again.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock::lock;
use super::shared::Shared;

/// Totals at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    accepted: u64,
    closed: u64,
    received: u64,
    sent: u64,
    /// Requests by the first digit of the status, those without a response first.
    requests: [u64; 6],
    ecdsa_handshakes: u64,
    rsa_handshakes: u64,
    resumed_handshakes: u64,
    failed_connections: u64,
}

impl Sample {
    fn take(shared: &Shared) -> Sample {
        let mut sample = Sample::default();
        for worker in shared.workers() {
            for slot in worker.listeners.slots() {
                sample.accepted += slot.cells.opened.get();
                sample.closed += slot.cells.closed.get();
                sample.received += slot.cells.received.get();
                sample.sent += slot.cells.sent.get();
            }
            for slot in worker.requests.slots() {
                let class = slot.labels[3].bytes().next().map_or(0, |digit| digit.wrapping_sub(b'0'));
                let class = usize::from(class);
                sample.requests[if class < 6 { class } else { 0 }] += slot.cells.get();
            }
            for slot in worker.handshakes.slots() {
                let count = match (&*slot.labels[4], &*slot.labels[3]) {
                    ("true", _) => &mut sample.resumed_handshakes,
                    (_, "RSA") => &mut sample.rsa_handshakes,
                    _ => &mut sample.ecdsa_handshakes,
                };
                *count += slot.cells.get();
            }
            sample.failed_connections += worker.failures.slots().map(|slot| slot.cells.get()).sum::<u64>();
        }
        sample
    }

    fn requests(&self) -> u64 {
        self.requests.iter().sum()
    }
}

/// Counters and rates as a small table, 80 columns wide. Rates are those since the last call, which `last` remembers.
pub(super) fn summary(shared: &Shared, last: &Mutex<Option<(Instant, Sample)>>) -> String {
    let now = Instant::now();
    let sample = Sample::take(shared);
    let last = lock(last).replace((now, sample));
    let (elapsed, last) = last.map_or((Duration::ZERO, sample), |(at, last)| (now.duration_since(at), last));
    render(&sample, &last, elapsed)
}

fn render(now: &Sample, last: &Sample, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = |now: u64, last: u64| if seconds > 0.0 { now.saturating_sub(last) as f64 / seconds } else { 0.0 };
    let mut out = String::new();
    let mut row = |name: &str, total: String, per_second: String, detail: String| {
        let row = format!("{name:<12}{total:>12}{per_second:>14}  {detail}");
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", row.trim_end());
    };
    let per_second = |rate: f64| format!("{rate:.0}/s");
    let open = now.accepted.saturating_sub(now.closed);
    let accepted = per_second(rate(now.accepted, last.accepted));
    let detail = format!("{open} open, {} ended before a request", now.failed_connections);
    row("connections", now.accepted.to_string(), accepted, detail);
    let handshakes = |s: &Sample| s.ecdsa_handshakes + s.rsa_handshakes + s.resumed_handshakes;
    let detail =
        format!("{} ECDSA, {} RSA, {} resumed", now.ecdsa_handshakes, now.rsa_handshakes, now.resumed_handshakes);
    row("handshakes", handshakes(now).to_string(), per_second(rate(handshakes(now), handshakes(last))), detail);
    let [none, _, ok, redirected, client, server] = now.requests;
    let detail = format!("2xx {ok}  3xx {redirected}  4xx {client}  5xx {server}  none {none}");
    row("requests", now.requests().to_string(), per_second(rate(now.requests(), last.requests())), detail);
    let bytes_per_second = |rate: f64| format!("{}/s", bytes(rate));
    row("received", bytes(now.received as f64), bytes_per_second(rate(now.received, last.received)), String::new());
    row("sent", bytes(now.sent as f64), bytes_per_second(rate(now.sent, last.sent)), String::new());
    out
}

/// `1.5 MB`: three to four digits and a decimal unit.
fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_table_shows_totals_and_rates() {
        let last = Sample { accepted: 10, requests: [0, 0, 100, 0, 0, 0], ..Sample::default() };
        let now = Sample {
            accepted: 30,
            closed: 25,
            received: 1_500_000,
            sent: 999,
            requests: [1, 0, 290, 4, 5, 0],
            ecdsa_handshakes: 12,
            rsa_handshakes: 6,
            resumed_handshakes: 2,
            failed_connections: 3,
        };
        let expected = "\
connections           30          10/s  5 open, 3 ended before a request
handshakes            20          10/s  12 ECDSA, 6 RSA, 2 resumed
requests             300         100/s  2xx 290  3xx 4  4xx 5  5xx 0  none 1
received          1.5 MB    750.0 kB/s
sent               999 B       500 B/s
";
        assert_eq!(render(&now, &last, Duration::from_secs(2)), expected);
        assert!(render(&now, &now, Duration::ZERO).contains("0/s"), "the first call has no rates");
    }
}
