//! The form of an access-log line: JSON or `logfmt` for machines, text for people at a terminal, the Common Log Format for old tools, and what syslog and the
//! journal want around it.
//!
//! A record becomes exactly one line of printable ASCII, whatever bytes a client sent. Control characters and everything beyond ASCII are
//! escaped as JSON does (RFC 8259 §7); bytes that are no UTF-8 appear as `\xNN` in the decoded text. A field longer than its bound is cut and
//! named in the list `truncated`. The query string is part of `target` and is logged, but for the values of parameters that are redacted; credentials in fields
//! of the head never are, see `record`.

mod escape;
mod fields;
mod frame;
mod mmproxy;
mod ncsa;
mod text;

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use reason::Side;
use wire::proxy_protocol::ProxyInfo;
use wire::proxy_protocol::{Version, kind};

use super::drawn::is_drawn;
use super::record::{
    ConnRecord, ContractRecord, FlowRecord, KeyOperation, KeyOutcome, RequestRecord, TunnelRecord, code_of,
};
use super::rules::{Form, Frame, Rules};
use escape::{cut, escape, fixed};
use fields::{Fields, Style};

pub(super) use escape::printable;
pub use mmproxy::MmproxyLine;

/// Bytes of the request target in a line; more is cut.
const TARGET_BYTES: usize = 2048;

/// Bytes of any other field in a line; more is cut.
const FIELD_BYTES: usize = 256;

/// The date and time to the second of the last line, to be used again.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: u64,
    text: String,
}

impl Clock {
    /// `2026-11-21T09:14:04.123Z` (RFC 3339). Times before 1970 are shown as its start.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, at: SystemTime) {
        let millis = self.seconds(at);
        out.extend_from_slice(self.text.as_bytes());
        fixed(out, millis, 3);
        out.push(b'Z');
    }

    /// Year, month, day, and time to the second.
    fn parts(&mut self, at: SystemTime) -> (&str, &str, &str, &str) {
        self.seconds(at);
        let text = self.text.as_str();
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        (part(0, 4), part(5, 7), part(8, 10), part(11, 19))
    }

    /// Keeps the text of its second. Returns the milliseconds of it.
    fn seconds(&mut self, at: SystemTime) -> u32 {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since.as_secs() != self.second || self.text.is_empty() {
            self.second = since.as_secs();
            let (year, month, day) = civil(self.second / 86_400);
            let (hour, minute, second) = (self.second / 3600 % 24, self.second / 60 % 60, self.second % 60);
            self.text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.");
        }
        since.subsec_millis()
    }
}

/// Year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar.
pub fn civil(day: u64) -> (u64, u64, u64) {
    // Years are counted from March, so that the leap day is the last of its year, and in eras of 400 years.
    let day = day + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_month)
}

/// The line of a request, with its newline, unless sampling leaves it out.
pub(super) fn request(out: &mut Vec<u8>, clock: &mut Clock, rules: &Rules, record: &RequestRecord<'_>) {
    let share = rules.share(record.status, record.reason.is_some() || !record.would_reject.is_empty());
    if share.is_none_or(is_drawn) {
        write(out, clock, rules, &Record::Request(record, share));
    }
}

/// The line of a tunnel, with its newline.
pub(super) fn tunnel(out: &mut Vec<u8>, clock: &mut Clock, rules: &Rules, record: &TunnelRecord<'_>) {
    write(out, clock, rules, &Record::Tunnel(record));
}

/// The line of a connection that never became a request, with its newline.
pub(super) fn connection(out: &mut Vec<u8>, clock: &mut Clock, rules: &Rules, record: &ConnRecord<'_>) {
    write(out, clock, rules, &Record::Connection(record));
}

/// The line of a UDP flow, with its newline.
pub(super) fn flow(out: &mut Vec<u8>, clock: &mut Clock, rules: &Rules, record: &FlowRecord<'_>) {
    write(out, clock, rules, &Record::Flow(record));
}

/// Any record that has a line.
enum Record<'r> {
    /// With the share that is written of its kind, if not all are.
    Request(&'r RequestRecord<'r>, Option<u32>),
    Tunnel(&'r TunnelRecord<'r>),
    Connection(&'r ConnRecord<'r>),
    Flow(&'r FlowRecord<'r>),
}

impl Record<'_> {
    /// Kind, when it began, and whose fault its end was.
    fn head(&self) -> (&'static str, SystemTime, Side) {
        match self {
            Record::Request(record, _) => ("request", record.started, record.fault),
            Record::Tunnel(record) => ("tunnel", record.started, record.fault),
            Record::Connection(record) => ("connection", record.started, record.fault),
            Record::Flow(record) => ("flow", record.started, Side::Nobody),
        }
    }

    fn fields(&self, out: &mut Vec<u8>, clock: &mut Clock, how: (Style, &Rules)) {
        let (kind, started, _) = self.head();
        let client = match self {
            Record::Request(record, _) => record.peer.filter(|_| !record.is_forwarded()),
            Record::Tunnel(record) => record.client,
            Record::Connection(record) => record.client,
            Record::Flow(record) => Some(record.client),
        };
        let json = Fields::begin(out, clock, how, (kind, started), client);
        match self {
            Record::Request(record, share) => request_fields(json, record, *share),
            Record::Tunnel(record) => tunnel_fields(json, record),
            Record::Connection(record) => connection_fields(json, record),
            Record::Flow(record) => flow_fields(json, record),
        }
    }

    fn text(&self, out: &mut Vec<u8>, clock: &mut Clock, rules: &Rules) {
        match self {
            Record::Request(record, _) => text::request(out, clock, &rules.redacted, record),
            Record::Tunnel(record) => text::tunnel(out, clock, record),
            Record::Connection(record) => text::connection(out, clock, record),
            Record::Flow(record) => text::flow(out, clock, record),
        }
    }

    fn mmproxy(&self, out: &mut Vec<u8>, clock: &mut Clock, rules: &Rules, verbosity: u8) {
        match self {
            Record::Request(..) => self.fields(out, clock, (Style::Json, rules)),
            Record::Tunnel(record) => mmproxy::tunnel(out, clock, verbosity, record),
            Record::Connection(record) => mmproxy::connection(out, clock, verbosity, record),
            Record::Flow(record) => mmproxy::flow(out, clock, verbosity, record),
        }
    }
}

/// Writes a record with what stands around it. Some forms leave some records out.
fn write(out: &mut Vec<u8>, clock: &mut Clock, rules: &Rules, record: &Record<'_>) {
    let ((kind, started, fault), start) = (record.head(), out.len());
    match &rules.frame {
        Frame::Line => {}
        Frame::Syslog(header) => frame::syslog(out, clock, header, (kind, started, frame::severity(fault))),
        Frame::Journal => frame::journal(out, frame::severity(fault)),
    }
    let body = out.len();
    match rules.form {
        Form::Json => record.fields(out, clock, (Style::Json, rules)),
        Form::Logfmt => record.fields(out, clock, (Style::Logfmt, rules)),
        Form::Text => record.text(out, clock, rules),
        // The format has no place for what is no request.
        Form::Ncsa => {
            if let Record::Request(record, _) = record {
                ncsa::request(out, clock, &rules.redacted, record);
            }
        }
        Form::Mmproxy(verbosity) => record.mmproxy(out, clock, rules, verbosity),
    }
    if out.len() == body {
        out.truncate(start);
    } else if rules.frame == Frame::Journal {
        record.fields(out, clock, (Style::Journal, rules));
    }
}

fn flow_fields(mut json: Fields<'_>, record: &FlowRecord<'_>) {
    json.text("listener", record.listener.as_bytes());
    json.text("balancer", record.balancer.to_string().as_bytes());
    json.text("target", record.target.to_string().as_bytes());
    if let Some(upstream) = record.upstream {
        json.open("upstream");
        json.text("name", upstream.as_bytes());
        json.text("server", record.target.to_string().as_bytes());
        json.number("moves", u64::from(record.moves));
        json.close();
    }
    json.flag("port_kept", record.port_kept);
    json.number("datagrams_received", record.datagrams_received);
    json.number("datagrams_sent", record.datagrams_sent);
    json.number("bytes_received", record.bytes_received);
    json.number("bytes_sent", record.bytes_sent);
    json.number("datagrams_lost", record.datagrams_lost);
    json.number("unreachable", record.unreachable);
    json.seconds("duration_seconds", record.duration);
    json.text("reason", record.reason.code().as_bytes());
    json.would_reject(record.would_reject);
    json.end();
}

/// The audit line of a key server's operation, with its newline.
pub(super) fn key_operation(out: &mut Vec<u8>, clock: &mut Clock, at: SystemTime, record: &KeyOperation<'_>) {
    out.extend_from_slice(b"{\"time\":\"");
    clock.write(out, at);
    out.extend_from_slice(b"\",\"peer\":\"");
    escape(out, cut(record.peer.as_bytes(), 256));
    out.push(b'"');
    // Writing to a vector cannot fail.
    if let Some(address) = record.address {
        let _ = write!(out, ",\"address\":\"{address}\"");
    }
    if let Some(ski) = record.ski {
        out.extend_from_slice(b",\"ski\":\"");
        ski.iter().for_each(|byte| drop(write!(out, "{byte:02x}")));
        out.push(b'"');
    }
    let _ = write!(out, ",\"operation\":\"{}\",\"outcome\":\"{}\"", record.operation, record.outcome.name());
    if let KeyOutcome::Rejected(code) = record.outcome {
        let _ = write!(out, ",\"error\":\"{}\"", code.name());
    }
    let (queued, service) = (record.queued.as_micros(), record.service.as_micros());
    let _ = writeln!(out, ",\"queued_us\":{queued},\"service_us\":{service}}}");
}

/// The name of a protocol version in logs and metrics.
pub fn version_name(version: tls::ProtocolVersion) -> &'static str {
    match version {
        tls::ProtocolVersion::Tls10 => "TLSv1.0",
        tls::ProtocolVersion::Tls11 => "TLSv1.1",
        tls::ProtocolVersion::Tls12 => "TLSv1.2",
        tls::ProtocolVersion::Tls13 => "TLSv1.3",
    }
}

/// The name of a key type in logs and metrics.
pub fn key_type_name(key_type: Option<tls::KeyType>) -> &'static str {
    match key_type {
        Some(tls::KeyType::Ecdsa) => "ECDSA",
        Some(tls::KeyType::Rsa) => "RSA",
        Some(tls::KeyType::Ed25519) => "Ed25519",
        None => "",
    }
}

fn request_fields(mut json: Fields<'_>, record: &RequestRecord<'_>, share: Option<u32>) {
    if record.is_forwarded() {
        json.address("client_address", record.client);
        json.address("peer_address", record.peer.map(|peer| peer.ip()));
    }
    json.text("listener", record.listener.as_bytes());
    json.text("method", record.method.as_bytes());
    json.text("host", record.host);
    json.target(record.target);
    json.text("version", record.version.as_bytes());
    json.number("status", u64::from(record.status));
    json.number("bytes_received", record.bytes_received);
    json.number("bytes_sent", record.bytes_sent);
    json.seconds("duration_seconds", record.duration);
    if let Some(throttled) = record.throttled {
        json.seconds("throttled_seconds", throttled);
    }
    json.some("route", record.route.unwrap_or("").as_bytes());
    upstream_json(&mut json, record);
    if let Some(kept) = record.port_kept {
        json.flag("port_kept", kept);
    }
    if let Some(info) = record.tls {
        tls_json(&mut json, info);
    }
    reported_json(&mut json, record.reported);
    json.some("user", record.user.unwrap_or("").as_bytes());
    json.some("user_agent", record.user_agent);
    json.some("request_id", record.request_id);
    if let Some(trace) = record.trace {
        json.text("trace_id", &trace.id());
    }
    if let Some((encoding, bytes)) = record.compressed {
        json.open("compression");
        json.text("encoding", encoding.as_bytes());
        json.number("bytes", bytes);
        json.close();
    }
    json.some("error_pages", record.error_pages.unwrap_or("").as_bytes());
    if let Some(contract) = &record.contract {
        contract_json(&mut json, contract);
    }
    if let Some(added) = record.added {
        json.added(added);
    }
    json.some("fault", record.fault.word().as_bytes());
    json.some("reason", code_of(record.reason).as_bytes());
    json.some("policy", record.policy.unwrap_or("").as_bytes());
    json.would_reject(record.would_reject);
    if let Some(share) = share {
        json.share("sampled", share);
    }
    json.end();
}

/// The upstream that was chosen, if one was.
fn upstream_json(json: &mut Fields<'_>, record: &RequestRecord<'_>) {
    if let Some(upstream) = record.upstream {
        json.open("upstream");
        json.text("name", upstream.as_bytes());
        json.some("server", record.server.unwrap_or("").as_bytes());
        if let Some(status) = record.upstream_status {
            json.number("status", u64::from(status));
        }
        if let Some(duration) = record.upstream_duration {
            json.seconds("duration_seconds", duration);
        }
        if let Some(queued) = record.queued {
            json.seconds("queue_seconds", queued);
        }
        json.some("session", record.session.unwrap_or("").as_bytes());
        json.number("retries", u64::from(record.retries));
        if record.hedges > 0 {
            json.number("hedges", u64::from(record.hedges));
            json.flag("hedge_won", record.hedge_won);
        }
        json.some("mirror", record.mirror.unwrap_or("").as_bytes());
        json.close();
    }
}

fn contract_json(json: &mut Fields<'_>, contract: &ContractRecord<'_>) {
    json.open("contract");
    json.text("name", contract.contract.as_bytes());
    json.some("operation", contract.operation.as_bytes());
    json.text("decision", contract.decision.as_str().as_bytes());
    if let Some(reason) = contract.reason {
        json.text("side", contract.side.as_bytes());
        json.text("reason", reason.code().as_bytes());
        json.some("place", contract.place.as_bytes());
        json.number("violations", u64::from(contract.violations));
    }
    json.close();
}

fn tls_json(json: &mut Fields<'_>, info: &tls::Info) {
    json.open("tls");
    json.text("version", version_name(info.version).as_bytes());
    json.text("cipher", info.cipher.as_bytes());
    json.some("group", info.group.unwrap_or("").as_bytes());
    json.some("server_name", info.server_name.as_deref().unwrap_or("").as_bytes());
    json.some("alpn", info.alpn.as_deref().unwrap_or_default());
    json.some("key_type", key_type_name(info.key_type).as_bytes());
    json.flag("resumed", info.resumed);
    if info.ech {
        json.flag("ech", true);
    }
    if let Some(peer) = &info.peer {
        json.text("client_certificate", peer.fingerprint.as_bytes());
    }
    json.close();
}

fn tunnel_fields(mut json: Fields<'_>, record: &TunnelRecord<'_>) {
    json.text("listener", record.listener.as_bytes());
    json.some("server_name", record.server_name.unwrap_or("").as_bytes());
    json.number("bytes_received", record.bytes_received);
    json.number("bytes_sent", record.bytes_sent);
    json.seconds("duration_seconds", record.duration);
    if let Some(throttled) = record.throttled {
        json.seconds("throttled_seconds", throttled);
    }
    json.seconds("ready_after_seconds", record.ready_after);
    json.open("upstream");
    json.text("name", record.upstream.as_bytes());
    json.some("server", record.server.unwrap_or("").as_bytes());
    if let Some(duration) = record.connect_duration {
        json.seconds("connect_seconds", duration);
    }
    json.number("retries", u64::from(record.retries));
    json.close();
    if let Some(kept) = record.port_kept {
        json.flag("port_kept", kept);
    }
    if record.passthrough {
        json.flag("passthrough", true);
    }
    if let Some(info) = record.tls {
        tls_json(&mut json, info);
    }
    reported_json(&mut json, record.reported);
    json.text("connection_id", record.connection_id);
    json.text("ended_by", record.ended_by.as_bytes());
    json.some("fault", record.fault.word().as_bytes());
    json.some("reason", code_of(record.reason).as_bytes());
    json.some("policy", record.policy.unwrap_or("").as_bytes());
    json.would_reject(record.would_reject);
    json.end();
}

/// What a PROXY header said, as far as its TLVs are of known types.
fn reported_json(json: &mut Fields<'_>, reported: Option<&ProxyInfo>) {
    let Some(reported) = reported else { return };
    let tlvs = reported.tlvs();
    json.open("proxy_protocol");
    json.number("version", if reported.version == Version::V1 { 1 } else { 2 });
    json.address("balancer", reported.balancer.map(|balancer| balancer.ip()));
    if let Some(destination) = reported.destination {
        json.text("destination", destination.to_string().as_bytes());
    }
    json.some("server_name", tlvs.get(kind::AUTHORITY).unwrap_or_default());
    json.some("alpn", tlvs.get(kind::ALPN).unwrap_or_default());
    json.some("unique_id", tlvs.get(kind::UNIQUE_ID).unwrap_or_default());
    if let Some(ssl) = tlvs.ssl() {
        json.some("tls_version", ssl.tlvs.get(kind::SSL_VERSION).unwrap_or_default());
        json.some("tls_cipher", ssl.tlvs.get(kind::SSL_CIPHER).unwrap_or_default());
        json.some("client_common_name", ssl.tlvs.get(kind::SSL_COMMON_NAME).unwrap_or_default());
        json.flag("client_certificate_verified", ssl.is_verified);
    }
    json.close();
}

fn connection_fields(mut json: Fields<'_>, record: &ConnRecord<'_>) {
    json.text("listener", record.listener.as_bytes());
    json.text("phase", record.phase.as_bytes());
    json.some("server_name", record.server_name.unwrap_or("").as_bytes());
    reported_json(&mut json, record.reported);
    json.seconds("duration_seconds", record.duration);
    json.some("fault", record.fault.word().as_bytes());
    json.some("reason", record.reason.code().as_bytes());
    json.some("policy", record.policy.unwrap_or("").as_bytes());
    json.would_reject(record.would_reject);
    json.some("detail", record.detail.as_bytes());
    json.end();
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
