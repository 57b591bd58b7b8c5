//! The rows of the comparison: what is asked of each proxy.

use std::fmt;

use crate::peers::Needs;

/// One row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Short name, for `--only` and files.
    pub(crate) name: &'static str,
    /// As it stands in the table.
    pub(crate) title: &'static str,
    /// What is done.
    pub(crate) kind: Kind,
    /// Workers of the proxy. More than one: it gets all cores, and shares them with the load.
    pub(crate) workers: usize,
    /// What the project aims at.
    pub(crate) aims: &'static [Aim],
}

/// What the cost of our own program should be at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Aim {
    /// Beside nginx.
    OfNginx(f64),
    /// Beside a HAProxy on AWS-LC, which is given by `--peer-haproxy`.
    OfHaproxy(f64),
    /// KiB for each connection.
    Kib(f64),
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aim::OfNginx(ratio) => write!(f, "{ratio:.2}"),
            Aim::OfHaproxy(ratio) => write!(f, "{ratio:.2} of HAProxy on AWS-LC"),
            Aim::Kib(kib) => write!(f, "{kib:.0} KiB"),
        }
    }
}

/// Who makes the load, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Our own generator.
    Load(Load),
    /// `h2load -m 10`.
    Http2 {
        /// Connections at once.
        connections: usize,
    },
    /// Connections that have asked once and are then held idle; checked by memory.
    Idle {
        /// How many.
        connections: usize,
        /// How the proxy is reached.
        front: Front,
    },
    /// `ab` without keep-alive: a full handshake for each of 10,000 requests.
    ApacheBench {
        /// Requests at once.
        connections: usize,
        /// RSA-2048 instead of ECDSA P-256.
        rsa: bool,
    },
}

/// What our generator does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Clients at once.
    pub(crate) connections: usize,
    /// How the proxy is reached.
    pub(crate) front: Front,
    /// What is asked.
    pub(crate) body: Body,
    /// Whether connections are kept.
    pub(crate) connection: Connection,
    /// Load and upstream are one thread that never sleeps.
    pub(crate) busy: bool,
}

/// How the proxy is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// HTTP in the clear.
    Plain,
    /// TLS 1.3, ECDSA.
    Tls13,
    /// TLS 1.2, ECDSA.
    Tls12,
    /// TLS 1.3, RSA.
    Tls13Rsa,
    /// HTTP/3, ECDSA.
    Http3 {
        /// Requests under way at once on each connection.
        streams: usize,
    },
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// GET of 100 bytes.
    Small,
    /// GET of so many bytes.
    Download(usize),
    /// POST of so many bytes.
    Upload(usize),
}

/// Whether connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    /// For all requests of a client.
    Keep,
    /// Opened and closed for each request, with a full handshake under TLS.
    Full,
    /// The same, but resuming the session of the one before.
    Resume,
}

impl Work {
    /// What it asks of a proxy.
    pub(crate) fn needs(&self) -> Needs {
        let front = match self.kind {
            Kind::Load(Load { front, .. }) | Kind::Idle { front, .. } => Some(front),
            _ => None,
        };
        Needs { workers: self.workers, http3: matches!(front, Some(Front::Http3 { .. })) }
    }
}

/// All rows, in the order of the table.
pub(crate) fn all() -> Vec<Work> {
    busy().into_iter().chain(loads()).chain(http3()).collect()
}

/// Rows whose load and upstream are one thread that never sleeps.
fn busy() -> [Work; 6] {
    use Aim::{OfHaproxy, OfNginx};
    use Body::{Small, Upload};
    use Connection::{Full, Keep};
    use Front::{Plain, Tls13, Tls13Rsa};
    let of = |connections, front, body, connection| Load { connections, front, body, connection, busy: true };
    [
        row(
            "busy-plain-64",
            "small GET, plain, keep-alive, 64 connections, busy load",
            &[OfNginx(0.88)],
            of(64, Plain, Small, Keep),
        ),
        row(
            "busy-plain-256",
            "small GET, plain, keep-alive, 256 connections, busy load",
            &[OfNginx(0.85)],
            of(256, Plain, Small, Keep),
        ),
        row(
            "busy-tls13-keep",
            "small GET, TLS 1.3, keep-alive, 64 connections, busy load",
            &[OfNginx(0.78)],
            of(64, Tls13, Small, Keep),
        ),
        row(
            "busy-tls13-full",
            "full handshake + GET + close, TLS 1.3, P-256, busy load",
            &[OfNginx(0.55), OfHaproxy(0.70)],
            of(32, Tls13, Small, Full),
        ),
        row(
            "busy-rsa-full",
            "full handshake + GET + close, TLS 1.3, RSA-2048, busy load",
            &[OfNginx(0.80)],
            of(32, Tls13Rsa, Small, Full),
        ),
        row(
            "busy-up-28k",
            "POST of 28 kB, plain, keep-alive, 64 connections, busy load",
            &[OfNginx(0.85)],
            of(64, Plain, Upload(28_000), Keep),
        ),
    ]
}

/// HTTP/3.
fn http3() -> [Work; 6] {
    use Aim::{Kib, OfHaproxy, OfNginx};
    use Body::{Download, Small};
    use Connection::{Full, Keep};
    let front = Front::Http3 { streams: 1 };
    let of = |connections, front, body, connection, busy| Load { connections, front, body, connection, busy };
    [
        row(
            "busy-http3-keep",
            "small GET, HTTP/3, 64 connections, busy load",
            &[OfHaproxy(0.80)],
            of(64, front, Small, Keep, true),
        ),
        row(
            "busy-http3-streams",
            "small GET, HTTP/3, 16 connections, 8 requests at once on each, busy load",
            &[OfHaproxy(0.80)],
            of(16, Front::Http3 { streams: 8 }, Small, Keep, true),
        ),
        row(
            "busy-http3-full",
            "full handshake + GET + close, HTTP/3, P-256, busy load",
            &[OfNginx(0.35), OfHaproxy(1.00)],
            of(32, front, Small, Full, true),
        ),
        row("http3-keep", "small GET, HTTP/3, 64 connections", &[], of(64, front, Small, Keep, false)),
        row("http3-down-1m", "GET of 1 MB, HTTP/3", &[OfNginx(0.85)], of(16, front, Download(1_000_000), Keep, false)),
        Work {
            name: "http3-idle",
            title: "memory of an idle HTTP/3 connection, 2,000 held",
            kind: Kind::Idle { connections: 2_000, front },
            workers: 1,
            aims: &[Kib(24.0)],
        },
    ]
}

/// A row of our generator, with one worker.
fn row(name: &'static str, title: &'static str, aims: &'static [Aim], load: Load) -> Work {
    Work { name, title, kind: Kind::Load(load), workers: 1, aims }
}

/// All others. Aims for small requests and handshakes are those of the rows above: where the load sleeps, waking it is a part of the cost.
fn loads() -> Vec<Work> {
    use Aim::{Kib, OfNginx};
    use Body::{Download, Small, Upload};
    use Connection::{Full, Keep, Resume};
    use Front::{Plain, Tls12, Tls13, Tls13Rsa};
    let of = |connections, front, body, connection| Load { connections, front, body, connection, busy: false };
    let other = |name, title, aims, kind| Work { name, title, kind, workers: 1, aims };
    let table = |name, title, connections, rsa| other(name, title, &[], Kind::ApacheBench { connections, rsa });
    let two = |name, title, load| Work { workers: 2, ..row(name, title, &[], load) };
    vec![
        row("plain-64", "small GET, plain, keep-alive, 64 connections", &[], of(64, Plain, Small, Keep)),
        row("plain-512", "small GET, plain, keep-alive, 512 connections", &[], of(512, Plain, Small, Keep)),
        row("tls13-keep", "small GET, TLS 1.3, keep-alive, 64 connections", &[], of(64, Tls13, Small, Keep)),
        row("tls13-full", "full handshake + GET + close, TLS 1.3, P-256", &[], of(32, Tls13, Small, Full)),
        row("tls12-full", "full handshake + GET + close, TLS 1.2, P-256", &[], of(32, Tls12, Small, Full)),
        row("rsa-full", "full handshake + GET + close, TLS 1.3, RSA-2048", &[], of(32, Tls13Rsa, Small, Full)),
        row(
            "tls13-resumed",
            "resumed handshake + GET + close, TLS 1.3",
            &[OfNginx(0.45)],
            of(32, Tls13, Small, Resume),
        ),
        row("down-100k", "GET of 100 kB, TLS 1.3", &[OfNginx(0.85)], of(32, Tls13, Download(100_000), Keep)),
        row("down-1m", "GET of 1 MB, TLS 1.3", &[OfNginx(0.85)], of(16, Tls13, Download(1_000_000), Keep)),
        row("up-100k", "POST of 100 kB, TLS 1.3", &[OfNginx(0.85)], of(32, Tls13, Upload(100_000), Keep)),
        row("up-1m", "POST of 1 MB, TLS 1.3", &[OfNginx(0.85)], of(16, Tls13, Upload(1_000_000), Keep)),
        other(
            "http2",
            "small GET, HTTP/2, TLS 1.3, h2load -c 16 -m 10",
            &[OfNginx(0.90)],
            Kind::Http2 { connections: 16 },
        ),
        other(
            "idle",
            "memory of an idle TLS 1.3 connection, 10,000 held",
            &[Kib(6.0)],
            Kind::Idle { connections: 10_000, front: Tls13 },
        ),
        table("ab-ecdsa-40", "ab, 10,000 requests, no keep-alive, 40 at once, ECDSA", 40, false),
        table("ab-ecdsa-100", "ab, 10,000 requests, no keep-alive, 100 at once, ECDSA", 100, false),
        table("ab-rsa-40", "ab, 10,000 requests, no keep-alive, 40 at once, RSA-2048", 40, true),
        table("ab-rsa-100", "ab, 10,000 requests, no keep-alive, 100 at once, RSA-2048", 100, true),
        two("plain-64-2", "small GET, plain, keep-alive, two workers on all cores", of(64, Plain, Small, Keep)),
        two("tls13-full-2", "full handshake + GET + close, two workers on all cores", of(32, Tls13, Small, Full)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().iter().map(|work| work.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
