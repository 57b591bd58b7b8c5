//! A gate before a recording upstream, and the decision of both sides that the attack tests share.
//!
//! Owns the configuration most of these tests run under. Does not know what is right or wrong: the tables of the tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{Gate, Seen, Upstream, certificates, exchange, statuses};

/// A request that must never be taken for one: it is put behind everything that is rejected.
pub const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

/// A configuration with one plain listener `web` and one route for everything; each part can be added to.
#[derive(Debug, Default, Clone, Copy)]
pub struct Parts<'a> {
    /// Further keys of the upstream, each with a leading comma.
    pub upstream: &'a str,
    /// Further keys of the route, each with a leading comma.
    pub route: &'a str,
    /// Further routes, in YAML, indented by two spaces.
    pub routes: &'a str,
    /// Further keys of the file.
    pub file: &'a str,
}

/// The YAML for these parts.
pub fn yaml(servers: &[SocketAddr], parts: Parts<'_>) -> String {
    let servers = servers.iter().map(|server| format!("\"{server}\"")).collect::<Vec<_>>().join(", ");
    let Parts { upstream, route, routes, file } = parts;
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
upstreams:
  app: {{ servers: [{servers}]{upstream} }}
routes:
  - {{ name: all, path: \"/{{*rest}}\", upstream: app{route} }}
{routes}
{file}
"
    )
}

/// A gate before one server.
pub fn gate(server: SocketAddr, parts: Parts<'_>) -> Gate {
    Gate::start(&yaml(&[server], parts))
}

/// A gate before one server whose listener is under TLS, for `a.test` and `b.test`. Its folder holds `ca.pem`.
pub fn secure_gate(server: SocketAddr, parts: Parts<'_>) -> Gate {
    let file = format!("keystores: {{ main: {{ folder: certs, default: a.test }} }}\n{}", parts.file);
    let text = yaml(&[server], Parts { file: &file, ..parts });
    let text = text.replace("bind: \"127.0.0.1:0\"", "bind: \"127.0.0.1:0\", tls: { keystore: main }");
    Gate::start_in(certificates(&[("a.test", false), ("b.test", false)]), &text)
}

/// A server that does what `serve` does with each connection, counted from 0.
pub fn server(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = std::sync::Arc::new(serve);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let serve = std::sync::Arc::clone(&serve);
            std::thread::spawn(move || serve(number, stream.unwrap()));
        }
    });
    address
}

/// A gate, its upstream, and how many lines its log has.
pub struct Trial {
    /// The gate.
    pub gate: Gate,
    /// The upstream.
    pub upstream: Upstream,
    lines: usize,
    passed: usize,
    /// Lines to be checked at the end, because the log is written in batches: position, status, reason, what was sent.
    expected: Vec<(usize, u16, Option<String>, String)>,
}

impl Trial {
    /// Before an upstream that responds `200`.
    pub fn start(parts: Parts<'_>) -> Trial {
        Trial::before(Upstream::ok(), parts)
    }

    /// Before this upstream.
    pub fn before(upstream: Upstream, parts: Parts<'_>) -> Trial {
        let gate = gate(upstream.address, parts);
        Trial { gate, upstream, lines: 0, passed: 0, expected: Vec::new() }
    }

    /// Sends bytes on a fresh connection, with [`SMUGGLED`] behind them, and expects one refusal, the end of the connection, one log line
    /// with the reason (checked by [`Trial::finish`]), and nothing upstream.
    pub fn reject(&mut self, bytes: impl AsRef<[u8]>, status: u16, reason: &str) {
        let bytes = bytes.as_ref();
        let shown = bytes[..bytes.len().min(200)].escape_ascii().to_string();
        let response = exchange(self.gate.address("web"), &[bytes, SMUGGLED].concat());
        assert_eq!(statuses(&response), [status], "{shown}: {}", response.escape_ascii());
        self.expected.push((self.lines, status, Some(reason.to_owned()), shown.clone()));
        self.lines += 1;
        let whole = self.upstream.seen().into_iter().filter(|seen| seen.whole).count();
        assert_eq!(whole, self.passed, "{shown}: the upstream saw a request");
    }

    /// Sends one request (which must ask to close) on a fresh connection and expects it to be served by the upstream; gives what that saw.
    pub fn pass(&mut self, bytes: impl AsRef<[u8]>) -> Seen {
        let bytes = bytes.as_ref();
        let shown = bytes[..bytes.len().min(200)].escape_ascii().to_string();
        let response = exchange(self.gate.address("web"), bytes);
        assert_eq!(statuses(&response), [200], "{shown}: {}", response.escape_ascii());
        self.expected.push((self.lines, 200, None, shown.clone()));
        self.lines += 1;
        self.passed += 1;
        let seen = self.whole();
        assert_eq!(seen.len(), self.passed, "{shown}");
        seen.into_iter().next_back().unwrap()
    }

    /// Whole requests that the upstream saw.
    pub fn whole(&self) -> Vec<Seen> {
        self.upstream.seen().into_iter().filter(|seen| seen.whole).collect()
    }

    /// Takes account of messages that a test sent by itself: log lines, and requests that the upstream has seen.
    pub fn account(&mut self, lines: usize) {
        self.lines += lines;
        self.passed = self.whole().len();
    }

    /// The next line of the log.
    pub fn next_line(&mut self) -> serde_json::Value {
        self.lines += 1;
        let lines = self.gate.log(self.lines);
        assert_eq!(lines.len(), self.lines, "more lines than messages: {lines:#?}");
        lines.into_iter().next_back().unwrap()
    }

    /// Ends the trial: a good request still passes, the upstream saw nothing but what passed, and the gate drains cleanly.
    pub fn finish(mut self) {
        self.pass("GET /probe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let raw = self.upstream.raw();
        assert!(memchr::memmem::find(&raw, b"GET /smuggled").is_none(), "smuggled: {}", raw.escape_ascii());
        let lines = self.gate.log(self.lines);
        assert_eq!(lines.len(), self.lines, "more lines than messages: {lines:#?}");
        for (position, status, reason, shown) in self.expected {
            let line = &lines[position];
            assert_eq!(
                (line["status"].as_u64(), line["reason"].as_str()),
                (Some(status.into()), reason.as_deref()),
                "{shown}"
            );
            assert_eq!(line["fault"].as_str(), reason.map(|_| "client"), "{shown}");
        }
        assert_eq!(self.gate.stop(), Some(0));
    }
}
