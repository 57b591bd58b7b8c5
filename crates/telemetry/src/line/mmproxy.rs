//! Access-log lines in the words of go-mmproxy, for its front door: JSON with its keys, by its verbosity.
//!
//! One difference: what a connection did is logged when it ends, so its beginning and its end are two lines at once, each with its own time.

use std::net::SocketAddr;
use std::time::SystemTime;

use reason::{Reason, Side};

use super::Clock;
use super::fields::Fields;
use crate::record::{ConnRecord, FlowRecord, TunnelRecord, code_of};

/// Verbosity from which failures of single connections are reported.
const FAILURES: u8 = 1;

/// Verbosity from which connections that went well are logged.
const EVERYTHING: u8 = 2;

/// One line that is not about traffic, on its way into a text.
#[derive(Debug)]
pub struct MmproxyLine {
    out: Vec<u8>,
}

impl MmproxyLine {
    /// Begins a line of now.
    pub fn new(level: &'static str, message: &str) -> MmproxyLine {
        let mut out = Vec::new();
        begin(&mut out, &mut Clock::default(), SystemTime::now(), level, message);
        MmproxyLine { out }
    }

    /// Adds a text.
    pub fn text(mut self, key: &'static str, value: &str) -> MmproxyLine {
        Fields::on(&mut self.out).text(key, value.as_bytes());
        self
    }

    /// Adds a number.
    pub fn number(mut self, key: &'static str, value: u64) -> MmproxyLine {
        Fields::on(&mut self.out).number(key, value);
        self
    }

    /// The line, without a newline.
    pub fn end(mut self) -> String {
        self.out.push(b'}');
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

fn begin<'a>(
    out: &'a mut Vec<u8>,
    clock: &mut Clock,
    at: SystemTime,
    level: &'static str,
    message: &str,
) -> Fields<'a> {
    out.extend_from_slice(b"{\"time\":\"");
    clock.write(out, at);
    out.push(b'"');
    let mut json = Fields::on(out);
    json.text("level", level.as_bytes());
    json.text("msg", message.as_bytes());
    json
}

/// What lines of one connection have in common.
#[derive(Clone, Copy)]
struct Ends<'a> {
    protocol: &'static str,
    /// The socket's peer.
    remote: Option<SocketAddr>,
    /// Whom the header named; none if it named nobody.
    client: Option<SocketAddr>,
    target: &'a str,
}

impl Ends<'_> {
    fn write(&self, json: &mut Fields<'_>) {
        json.number("listenerNum", 0);
        json.text("protocol", self.protocol.as_bytes());
        if let Some(remote) = self.remote {
            json.text("remoteAddr", remote.to_string().as_bytes());
        }
        let client = self.client.map_or_else(|| "UNKNOWN".to_owned(), |client| client.to_string());
        json.text("clientAddr", client.as_bytes());
        json.some("targetAddr", self.target.as_bytes());
    }
}

/// A connection that went nowhere.
pub(super) fn connection(out: &mut Vec<u8>, clock: &mut Clock, verbosity: u8, record: &ConnRecord<'_>) {
    if verbosity < FAILURES {
        return;
    }
    let message = match record.reason {
        Reason::ProxyUntrustedPeer | Reason::ProxyHeaderUntrusted => "connection origin not in allowed subnets",
        Reason::ProxyHeaderMissing | Reason::ProxyHeaderInvalid => "failed to parse PROXY header",
        Reason::ProxyHeaderTimeout
        | Reason::ProxyHeaderTruncated
        | Reason::ClosedWithoutHeader
        | Reason::ProxyHeaderReset => "failed to read PROXY header",
        _ => "connection failed",
    };
    let mut json = begin(out, clock, SystemTime::now(), "DEBUG", message);
    Ends { protocol: "tcp", remote: record.client, client: None, target: "" }.write(&mut json);
    let error = if record.detail.is_empty() { record.reason.code() } else { record.detail };
    json.text("error", error.as_bytes());
    json.flag("dropConnection", true);
    json.end();
}

/// A connection that was passed on, or should have been.
pub(super) fn tunnel(out: &mut Vec<u8>, clock: &mut Clock, verbosity: u8, record: &TunnelRecord<'_>) {
    let reported = record.reported;
    let ends = Ends {
        protocol: "tcp",
        remote: reported.map_or(record.client, |reported| reported.balancer),
        client: record.client.filter(|_| reported.is_none_or(|reported| reported.destination.is_some())),
        target: record.server.unwrap_or(""),
    };
    if verbosity >= EVERYTHING {
        let mut json = begin(out, clock, record.started, "DEBUG", "new connection");
        ends.write(&mut json);
        json.end();
    }
    let message = match record.fault {
        Side::Nobody => "closing connection",
        _ if record.connect_duration.is_none() => "failed to establish upstream connection",
        _ => "connection broken",
    };
    if verbosity >= EVERYTHING || verbosity >= FAILURES && record.fault != Side::Nobody {
        let mut json = begin(out, clock, SystemTime::now(), "DEBUG", message);
        ends.write(&mut json);
        json.some("error", code_of(record.reason).as_bytes());
        json.flag("dropConnection", true);
        json.end();
    }
}

/// A UDP flow.
pub(super) fn flow(out: &mut Vec<u8>, clock: &mut Clock, verbosity: u8, record: &FlowRecord<'_>) {
    if verbosity < EVERYTHING {
        return;
    }
    let target = record.target.to_string();
    let ends = Ends { protocol: "udp", remote: Some(record.balancer), client: Some(record.client), target: &target };
    for (at, message) in [(record.started, "new connection"), (SystemTime::now(), "closing connection")] {
        let mut json = begin(out, clock, at, "DEBUG", message);
        ends.write(&mut json);
        json.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_objects() {
        let line = MmproxyLine::new("INFO", "listening").number("listenerNum", 0).text("listenAdr", "a\"b").end();
        let value: Result<serde_json::Value, _> = serde_json::from_str(&line);
        assert!(value.is_ok_and(|value| value["msg"] == "listening" && value["listenAdr"] == "a\"b"), "{line}");
    }
}
