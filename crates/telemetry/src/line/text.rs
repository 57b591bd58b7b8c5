//! The form `text`: one line for people at a terminal.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use super::escape::{address, cut, decimal, escape, fixed};
use super::fields::said_first;
use super::{Clock, FIELD_BYTES, TARGET_BYTES, key_type_name, version_name};
use crate::record::{ConnRecord, FlowRecord, RequestRecord, TunnelRecord, WouldReject, code_of};
use crate::redact::Redacted;

pub(super) fn request(out: &mut Vec<u8>, clock: &mut Clock, redacted: &Redacted, record: &RequestRecord<'_>) {
    let mut text = Text::begin(out, clock, record.started, record.client);
    text.word(record.method.as_bytes());
    text.quoted(record.host, record.target, redacted);
    text.space();
    decimal(text.out, u64::from(record.status));
    text.milliseconds(record.duration);
    text.traffic(record.bytes_received, record.bytes_sent);
    text.pair("listener", record.listener.as_bytes());
    if let Some(peer) = record.peer.filter(|_| record.is_forwarded()) {
        text.pair("peer", peer.ip().to_canonical().to_string().as_bytes());
    }
    text.pair("route", record.route.unwrap_or("").as_bytes());
    text.pair("upstream", record.upstream.unwrap_or("").as_bytes());
    text.pair("server", record.server.unwrap_or("").as_bytes());
    if let Some(info) = record.tls {
        text.pair("tls", version_name(info.version).as_bytes());
        text.pair("key", key_type_name(info.key_type).as_bytes());
    }
    if let Some(contract) = &record.contract {
        text.pair("contract", contract.contract.as_bytes());
        text.pair("operation", contract.operation.as_bytes());
        text.pair("decision", contract.decision.as_str().as_bytes());
        text.pair("broke", code_of(contract.reason).as_bytes());
        text.pair("at", contract.place.as_bytes());
    }
    if let Some(added) = record.added {
        added.each(&mut |name, value| text.named("fields.", name, value, redacted));
    }
    text.pair("id", record.request_id);
    if let Some(trace) = record.trace {
        text.pair("trace", &trace.id());
    }
    text.pair("fault", record.fault.word().as_bytes());
    text.pair("reason", code_of(record.reason).as_bytes());
    text.pair("policy", record.policy.unwrap_or("").as_bytes());
    text.would_reject(record.would_reject);
    text.out.push(b'\n');
}

pub(super) fn connection(out: &mut Vec<u8>, clock: &mut Clock, record: &ConnRecord<'_>) {
    let mut text = Text::begin(out, clock, record.started, record.client.map(|client| client.ip()));
    text.word(b"(connection)");
    text.milliseconds(record.duration);
    text.pair("listener", record.listener.as_bytes());
    text.pair("phase", record.phase.as_bytes());
    text.pair("name", record.server_name.unwrap_or("").as_bytes());
    text.pair("fault", record.fault.word().as_bytes());
    text.pair("reason", record.reason.code().as_bytes());
    text.pair("policy", record.policy.unwrap_or("").as_bytes());
    text.would_reject(record.would_reject);
    text.pair("detail", record.detail.as_bytes());
    text.out.push(b'\n');
}

pub(super) fn tunnel(out: &mut Vec<u8>, clock: &mut Clock, record: &TunnelRecord<'_>) {
    let mut text = Text::begin(out, clock, record.started, record.client.map(|client| client.ip()));
    text.word(b"(tunnel)");
    text.milliseconds(record.duration);
    text.traffic(record.bytes_received, record.bytes_sent);
    text.pair("listener", record.listener.as_bytes());
    let opened = record.tls.and_then(|info| info.server_name.as_deref());
    text.pair("name", record.server_name.or(opened).unwrap_or("").as_bytes());
    text.pair("upstream", record.upstream.as_bytes());
    text.pair("server", record.server.unwrap_or("").as_bytes());
    if let Some(info) = record.tls {
        text.pair("tls", version_name(info.version).as_bytes());
    }
    text.pair("id", record.connection_id);
    text.pair("ended_by", record.ended_by.as_bytes());
    text.pair("fault", record.fault.word().as_bytes());
    text.pair("reason", code_of(record.reason).as_bytes());
    text.pair("policy", record.policy.unwrap_or("").as_bytes());
    text.would_reject(record.would_reject);
    text.out.push(b'\n');
}

pub(super) fn flow(out: &mut Vec<u8>, clock: &mut Clock, record: &FlowRecord<'_>) {
    let mut text = Text::begin(out, clock, record.started, Some(record.client.ip()));
    text.word(b"(flow)");
    text.milliseconds(record.duration);
    for (name, value) in [
        (b" in=".as_slice(), record.bytes_received),
        (b" out=", record.bytes_sent),
        (b" datagrams_in=", record.datagrams_received),
        (b" datagrams_out=", record.datagrams_sent),
    ] {
        text.out.extend_from_slice(name);
        decimal(text.out, value);
    }
    text.pair("listener", record.listener.as_bytes());
    text.pair("balancer", record.balancer.to_string().as_bytes());
    text.pair("target", record.target.to_string().as_bytes());
    if let Some(upstream) = record.upstream {
        text.pair("upstream", upstream.as_bytes());
    }
    text.pair("reason", record.reason.code().as_bytes());
    text.would_reject(record.would_reject);
    text.out.push(b'\n');
}

/// One line for people on its way into a buffer.
struct Text<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Text<'a> {
    fn begin(out: &'a mut Vec<u8>, clock: &mut Clock, started: SystemTime, client: Option<IpAddr>) -> Text<'a> {
        clock.write(out, started);
        out.push(b' ');
        match client {
            Some(client) => address(out, client),
            None => out.push(b'-'),
        }
        Text { out }
    }

    fn space(&mut self) {
        self.out.push(b' ');
    }

    fn word(&mut self, value: &[u8]) {
        self.space();
        self.escaped(value, FIELD_BYTES);
    }

    /// `"host/path"`: quoted, so that spaces in it cannot be taken for the line's own.
    fn quoted(&mut self, host: &[u8], target: &[u8], redacted: &Redacted) {
        self.out.extend_from_slice(b" \"");
        self.escaped(host, FIELD_BYTES);
        redacted.pieces(cut(target, TARGET_BYTES), &mut |piece| escape(self.out, piece));
        self.mark_cut(target, TARGET_BYTES);
        self.out.push(b'"');
    }

    /// ` name=value`, quoted where the value has spaces; nothing if it is empty.
    fn pair(&mut self, name: &'static str, value: &[u8]) {
        self.named("", name, value, Redacted::nothing());
    }

    fn named(&mut self, start: &'static str, name: &str, value: &[u8], redacted: &Redacted) {
        if value.is_empty() {
            return;
        }
        self.space();
        self.out.extend_from_slice(start.as_bytes());
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'=');
        let quote = value.contains(&b' ');
        self.out.extend_from_slice(if quote { b"\"" } else { b"" });
        redacted.pieces(cut(value, FIELD_BYTES), &mut |piece| escape(self.out, piece));
        self.mark_cut(value, FIELD_BYTES);
        self.out.extend_from_slice(if quote { b"\"" } else { b"" });
    }

    fn would_reject(&mut self, policies: &[WouldReject]) {
        for (policy, reason) in said_first(policies) {
            self.named("would_reject.", policy, reason.as_bytes(), Redacted::nothing());
        }
    }

    fn traffic(&mut self, received: u64, sent: u64) {
        self.out.extend_from_slice(b" in=");
        decimal(self.out, received);
        self.out.extend_from_slice(b" out=");
        decimal(self.out, sent);
    }

    fn milliseconds(&mut self, value: Duration) {
        self.space();
        decimal(self.out, u64::try_from(value.as_millis()).unwrap_or(u64::MAX));
        self.out.push(b'.');
        fixed(self.out, value.subsec_micros() % 1000, 3);
        self.out.extend_from_slice(b"ms");
    }

    fn escaped(&mut self, value: &[u8], bound: usize) {
        escape(self.out, cut(value, bound));
        self.mark_cut(value, bound);
    }

    fn mark_cut(&mut self, value: &[u8], bound: usize) {
        if value.len() > bound {
            self.out.extend_from_slice(b"[...]");
        }
    }
}
