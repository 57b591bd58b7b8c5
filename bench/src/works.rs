//! The rows of the comparison: what is asked of each proxy.

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
    /// The CPU ratio to nginx that the project aims at, if there is one.
    pub(crate) aim: Option<f64>,
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
    /// TLS connections that have asked once and are then held idle; checked by memory.
    Idle {
        /// How many.
        connections: usize,
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

/// All rows, in the order of the table.
pub(crate) fn all() -> Vec<Work> {
    busy().into_iter().chain(loads()).collect()
}

/// Rows whose load and upstream are one thread that never sleeps.
fn busy() -> [Work; 6] {
    use Body::{Small, Upload};
    use Connection::{Full, Keep};
    use Front::{Plain, Tls13, Tls13Rsa};
    let rows = [
        ("busy-plain-64", "small GET, plain, keep-alive, 64 connections, busy load", 0.88, 64, Plain, Small, Keep),
        ("busy-plain-256", "small GET, plain, keep-alive, 256 connections, busy load", 0.85, 256, Plain, Small, Keep),
        ("busy-tls13-keep", "small GET, TLS 1.3, keep-alive, 64 connections, busy load", 0.78, 64, Tls13, Small, Keep),
        ("busy-tls13-full", "full handshake + GET + close, TLS 1.3, P-256, busy load", 0.55, 32, Tls13, Small, Full),
        (
            "busy-rsa-full",
            "full handshake + GET + close, TLS 1.3, RSA-2048, busy load",
            0.80,
            32,
            Tls13Rsa,
            Small,
            Full,
        ),
        (
            "busy-up-28k",
            "POST of 28 kB, plain, keep-alive, 64 connections, busy load",
            0.85,
            64,
            Plain,
            Upload(28_000),
            Keep,
        ),
    ];
    rows.map(|(name, title, aim, connections, front, body, connection)| {
        let kind = Kind::Load(Load { connections, front, body, connection, busy: true });
        Work { name, title, kind, workers: 1, aim: Some(aim) }
    })
}

/// All others.
fn loads() -> Vec<Work> {
    use Body::{Download, Small, Upload};
    use Connection::{Full, Keep, Resume};
    use Front::{Plain, Tls12, Tls13, Tls13Rsa};
    let load =
        |connections, front, body, connection| Kind::Load(Load { connections, front, body, connection, busy: false });
    let row = |name, title, aim, kind| Work { name, title, kind, workers: 1, aim: Some(aim) };
    let table = |name, title, connections, rsa| Work {
        name,
        title,
        kind: Kind::ApacheBench { connections, rsa },
        workers: 1,
        aim: None,
    };
    vec![
        row("plain-64", "small GET, plain, keep-alive, 64 connections", 0.75, load(64, Plain, Small, Keep)),
        row("plain-512", "small GET, plain, keep-alive, 512 connections", 0.75, load(512, Plain, Small, Keep)),
        row("tls13-keep", "small GET, TLS 1.3, keep-alive, 64 connections", 0.70, load(64, Tls13, Small, Keep)),
        row("tls13-full", "full handshake + GET + close, TLS 1.3, P-256", 0.40, load(32, Tls13, Small, Full)),
        row("tls12-full", "full handshake + GET + close, TLS 1.2, P-256", 0.40, load(32, Tls12, Small, Full)),
        row("rsa-full", "full handshake + GET + close, TLS 1.3, RSA-2048", 0.75, load(32, Tls13Rsa, Small, Full)),
        row("tls13-resumed", "resumed handshake + GET + close, TLS 1.3", 0.45, load(32, Tls13, Small, Resume)),
        row("down-100k", "GET of 100 kB, TLS 1.3", 0.85, load(32, Tls13, Download(100_000), Keep)),
        row("down-1m", "GET of 1 MB, TLS 1.3", 0.85, load(16, Tls13, Download(1_000_000), Keep)),
        row("up-100k", "POST of 100 kB, TLS 1.3", 0.85, load(32, Tls13, Upload(100_000), Keep)),
        row("up-1m", "POST of 1 MB, TLS 1.3", 0.85, load(16, Tls13, Upload(1_000_000), Keep)),
        row("http2", "small GET, HTTP/2, TLS 1.3, h2load -c 16 -m 10", 0.90, Kind::Http2 { connections: 16 }),
        row("idle", "memory of an idle TLS 1.3 connection, 10,000 held", 0.60, Kind::Idle { connections: 10_000 }),
        table("ab-ecdsa-40", "ab, 10,000 requests, no keep-alive, 40 at once, ECDSA", 40, false),
        table("ab-ecdsa-100", "ab, 10,000 requests, no keep-alive, 100 at once, ECDSA", 100, false),
        table("ab-rsa-40", "ab, 10,000 requests, no keep-alive, 40 at once, RSA-2048", 40, true),
        table("ab-rsa-100", "ab, 10,000 requests, no keep-alive, 100 at once, RSA-2048", 100, true),
        Work {
            workers: 2,
            aim: None,
            ..row(
                "plain-64-2",
                "small GET, plain, keep-alive, two workers on all cores",
                0.0,
                load(64, Plain, Small, Keep),
            )
        },
        Work {
            workers: 2,
            aim: None,
            ..row(
                "tls13-full-2",
                "full handshake + GET + close, two workers on all cores",
                0.0,
                load(32, Tls13, Small, Full),
            )
        },
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
