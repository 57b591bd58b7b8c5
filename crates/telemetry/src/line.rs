//! The form of an access-log line: JSON for machines, text for people at a terminal.
//!
//! A record becomes exactly one line of printable ASCII, whatever bytes a client sent. Control characters and everything beyond ASCII are
//! escaped as JSON does (RFC 8259 §7); bytes that are no UTF-8 appear as `\xNN` in the decoded text. A field longer than its bound is cut and
//! named in the list `truncated`. The query string is part of `target` and is logged; credentials in fields of the head never are, see
//! `record`.

mod mmproxy;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::proxy_protocol::ProxyInfo;
use wire::proxy_protocol::{Version, kind};
use wire::short_text::ShortText;

use super::record::{
    AddedFields, ConnRecord, ContractRecord, FlowRecord, KeyOperation, KeyOutcome, RequestRecord, TunnelRecord, code_of,
};

pub use mmproxy::MmproxyLine;

/// Bytes of the request target in a line; more is cut.
const TARGET_BYTES: usize = 2048;

/// Bytes of any other field in a line; more is cut.
const FIELD_BYTES: usize = 256;

/// Fields one line can have cut.
const MAX_TRUNCATED: usize = 12;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Text,
    /// As go-mmproxy writes them, with its verbosity.
    Mmproxy(u8),
}

/// The date and time to the second of the last line, to be used again.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: u64,
    text: String,
}

impl Clock {
    /// `2026-11-21T09:14:04.123Z` (RFC 3339). Times before 1970 are shown as its start.
    fn write(&mut self, out: &mut Vec<u8>, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since.as_secs() != self.second || self.text.is_empty() {
            self.second = since.as_secs();
            let (year, month, day) = civil(self.second / 86_400);
            let (hour, minute, second) = (self.second / 3600 % 24, self.second / 60 % 60, self.second % 60);
            self.text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.");
        }
        out.extend_from_slice(self.text.as_bytes());
        fixed(out, since.subsec_millis(), 3);
        out.push(b'Z');
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

/// The line of a request, with its newline.
pub(super) fn request(out: &mut Vec<u8>, clock: &mut Clock, form: Form, record: &RequestRecord<'_>) {
    match form {
        Form::Json | Form::Mmproxy(_) => request_json(out, clock, record),
        Form::Text => request_text(out, clock, record),
    }
}

/// The line of a tunnel, with its newline.
pub(super) fn tunnel(out: &mut Vec<u8>, clock: &mut Clock, form: Form, record: &TunnelRecord<'_>) {
    match form {
        Form::Json => tunnel_json(out, clock, record),
        Form::Text => tunnel_text(out, clock, record),
        Form::Mmproxy(verbosity) => mmproxy::tunnel(out, clock, verbosity, record),
    }
}

/// The line of a connection that never became a request, with its newline.
pub(super) fn connection(out: &mut Vec<u8>, clock: &mut Clock, form: Form, record: &ConnRecord<'_>) {
    match form {
        Form::Json => connection_json(out, clock, record),
        Form::Text => connection_text(out, clock, record),
        Form::Mmproxy(verbosity) => mmproxy::connection(out, clock, verbosity, record),
    }
}

/// The line of a UDP flow, with its newline.
pub(super) fn flow(out: &mut Vec<u8>, clock: &mut Clock, form: Form, record: &FlowRecord<'_>) {
    match form {
        Form::Json => flow_json(out, clock, record),
        Form::Text => flow_text(out, clock, record),
        Form::Mmproxy(verbosity) => mmproxy::flow(out, clock, verbosity, record),
    }
}

fn flow_json(out: &mut Vec<u8>, clock: &mut Clock, record: &FlowRecord<'_>) {
    let mut json = Json::begin(out, clock, record.started, "flow", Some(record.client));
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
    json.end();
}

fn flow_text(out: &mut Vec<u8>, clock: &mut Clock, record: &FlowRecord<'_>) {
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
    text.out.push(b'\n');
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

fn request_json(out: &mut Vec<u8>, clock: &mut Clock, record: &RequestRecord<'_>) {
    let mut json = Json::begin(out, clock, record.started, "request", record.peer.filter(|_| !record.is_forwarded()));
    if record.is_forwarded() {
        json.address("client_address", record.client);
        json.address("peer_address", record.peer.map(|peer| peer.ip()));
    }
    json.text("listener", record.listener.as_bytes());
    json.text("method", record.method.as_bytes());
    json.text("host", record.host);
    json.bounded("target", record.target, TARGET_BYTES);
    json.text("version", record.version.as_bytes());
    json.number("status", u64::from(record.status));
    json.number("bytes_received", record.bytes_received);
    json.number("bytes_sent", record.bytes_sent);
    json.seconds("duration_seconds", record.duration);
    if let Some(throttled) = record.throttled {
        json.seconds("throttled_seconds", throttled);
    }
    json.some("route", record.route.unwrap_or("").as_bytes());
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
        json.close();
    }
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
        added_json(&mut json, added);
    }
    json.some("fault", record.fault.word().as_bytes());
    json.some("reason", code_of(record.reason).as_bytes());
    json.some("policy", record.policy.unwrap_or("").as_bytes());
    json.end();
}

/// An object of its own, so that no name of a configuration is one of ours; absent if nothing is in it.
fn added_json(json: &mut Json<'_>, added: &dyn AddedFields) {
    let before = json.out.len();
    json.open("fields");
    let (empty, mut is_cut) = (json.out.len(), false);
    added.each(&mut |name, value| {
        if !value.is_empty() {
            let kept = cut(value, FIELD_BYTES);
            is_cut |= kept.len() < value.len();
            json.quoted(name, kept);
        }
    });
    match json.out.len() == empty {
        true => json.out.truncate(before),
        false => json.close(),
    }
    if is_cut {
        json.note_cut("fields");
    }
}

fn contract_json(json: &mut Json<'_>, contract: &ContractRecord<'_>) {
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

fn tls_json(json: &mut Json<'_>, info: &tls::Info) {
    json.open("tls");
    json.text("version", version_name(info.version).as_bytes());
    json.text("cipher", info.cipher.as_bytes());
    json.some("group", info.group.unwrap_or("").as_bytes());
    json.some("server_name", info.server_name.as_deref().unwrap_or("").as_bytes());
    json.some("alpn", info.alpn.as_deref().unwrap_or_default());
    json.some("key_type", key_type_name(info.key_type).as_bytes());
    json.flag("resumed", info.resumed);
    if let Some(peer) = &info.peer {
        json.text("client_certificate", peer.fingerprint.as_bytes());
    }
    json.close();
}

fn tunnel_json(out: &mut Vec<u8>, clock: &mut Clock, record: &TunnelRecord<'_>) {
    let mut json = Json::begin(out, clock, record.started, "tunnel", record.client);
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
    json.end();
}

fn tunnel_text(out: &mut Vec<u8>, clock: &mut Clock, record: &TunnelRecord<'_>) {
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
    text.out.push(b'\n');
}

/// What a PROXY header said, as far as its TLVs are of known types.
fn reported_json(json: &mut Json<'_>, reported: Option<&ProxyInfo>) {
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

fn connection_json(out: &mut Vec<u8>, clock: &mut Clock, record: &ConnRecord<'_>) {
    let mut json = Json::begin(out, clock, record.started, "connection", record.client);
    json.text("listener", record.listener.as_bytes());
    json.text("phase", record.phase.as_bytes());
    json.some("server_name", record.server_name.unwrap_or("").as_bytes());
    reported_json(&mut json, record.reported);
    json.seconds("duration_seconds", record.duration);
    json.some("fault", record.fault.word().as_bytes());
    json.some("reason", record.reason.code().as_bytes());
    json.some("policy", record.policy.unwrap_or("").as_bytes());
    json.some("detail", record.detail.as_bytes());
    json.end();
}

/// One JSON object on its way into a buffer.
struct Json<'a> {
    out: &'a mut Vec<u8>,
    truncated: [&'static str; MAX_TRUNCATED],
    truncated_count: usize,
}

impl<'a> Json<'a> {
    /// Goes on with an object that `out` ends in.
    fn on(out: &'a mut Vec<u8>) -> Json<'a> {
        Json { out, truncated: [""; MAX_TRUNCATED], truncated_count: 0 }
    }

    /// Opens the object with what every line begins with.
    fn begin(
        out: &'a mut Vec<u8>,
        clock: &mut Clock,
        started: SystemTime,
        kind: &'static str,
        client: Option<SocketAddr>,
    ) -> Json<'a> {
        out.extend_from_slice(b"{\"time\":\"");
        clock.write(out, started);
        out.push(b'"');
        let mut json = Json::on(out);
        json.text("kind", kind.as_bytes());
        if let Some(client) = client {
            json.address("client_address", Some(client.ip()));
            json.number("client_port", u64::from(client.port()));
        }
        json
    }

    /// `,"name":`, or without the comma at the start of an inner object.
    fn key(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.bounded(name, value, FIELD_BYTES);
    }

    /// An address, if there is one.
    fn address(&mut self, name: &'static str, value: Option<IpAddr>) {
        let Some(value) = value else { return };
        self.key(name);
        self.out.push(b'"');
        address(self.out, value);
        self.out.push(b'"');
    }

    /// A text that is left out where it is empty.
    fn some(&mut self, name: &'static str, value: &[u8]) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    fn bounded(&mut self, name: &'static str, value: &[u8], bound: usize) {
        let kept = cut(value, bound);
        self.quoted(name, kept);
        if kept.len() < value.len() {
            self.note_cut(name);
        }
    }

    fn quoted(&mut self, name: &str, value: &[u8]) {
        self.key(name);
        self.out.push(b'"');
        escape(self.out, value);
        self.out.push(b'"');
    }

    fn note_cut(&mut self, name: &'static str) {
        if self.truncated_count < MAX_TRUNCATED {
            self.truncated[self.truncated_count] = name;
            self.truncated_count += 1;
        }
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.key(name);
        decimal(self.out, value);
    }

    fn seconds(&mut self, name: &'static str, value: Duration) {
        self.key(name);
        decimal(self.out, value.as_secs());
        self.out.push(b'.');
        fixed(self.out, value.subsec_micros(), 6);
    }

    fn flag(&mut self, name: &'static str, value: bool) {
        self.key(name);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    fn open(&mut self, name: &'static str) {
        self.key(name);
        self.out.push(b'{');
    }

    fn close(&mut self) {
        self.out.push(b'}');
    }

    /// Closes the object and the line.
    fn end(mut self) {
        if self.truncated_count > 0 {
            self.key("truncated");
            for (i, name) in self.truncated.iter().take(self.truncated_count).enumerate() {
                self.out.extend_from_slice(if i == 0 { b"[\"" } else { b",\"" });
                self.out.extend_from_slice(name.as_bytes());
                self.out.push(b'"');
            }
            self.out.push(b']');
        }
        self.out.extend_from_slice(b"}\n");
    }
}

fn request_text(out: &mut Vec<u8>, clock: &mut Clock, record: &RequestRecord<'_>) {
    let mut text = Text::begin(out, clock, record.started, record.client);
    text.word(record.method.as_bytes());
    text.quoted(record.host, record.target);
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
        added.each(&mut |name, value| text.named("fields.", name, value));
    }
    text.pair("id", record.request_id);
    text.pair("fault", record.fault.word().as_bytes());
    text.pair("reason", code_of(record.reason).as_bytes());
    text.pair("policy", record.policy.unwrap_or("").as_bytes());
    text.out.push(b'\n');
}

fn connection_text(out: &mut Vec<u8>, clock: &mut Clock, record: &ConnRecord<'_>) {
    let mut text = Text::begin(out, clock, record.started, record.client.map(|client| client.ip()));
    text.word(b"(connection)");
    text.milliseconds(record.duration);
    text.pair("listener", record.listener.as_bytes());
    text.pair("phase", record.phase.as_bytes());
    text.pair("name", record.server_name.unwrap_or("").as_bytes());
    text.pair("fault", record.fault.word().as_bytes());
    text.pair("reason", record.reason.code().as_bytes());
    text.pair("policy", record.policy.unwrap_or("").as_bytes());
    text.pair("detail", record.detail.as_bytes());
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
    fn quoted(&mut self, host: &[u8], target: &[u8]) {
        self.out.extend_from_slice(b" \"");
        self.escaped(host, FIELD_BYTES);
        self.escaped(target, TARGET_BYTES);
        self.out.push(b'"');
    }

    /// ` name=value`, quoted where the value has spaces; nothing if it is empty.
    fn pair(&mut self, name: &'static str, value: &[u8]) {
        self.named("", name, value);
    }

    fn named(&mut self, start: &'static str, name: &str, value: &[u8]) {
        if value.is_empty() {
            return;
        }
        self.space();
        self.out.extend_from_slice(start.as_bytes());
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'=');
        let quote = value.contains(&b' ');
        self.out.extend_from_slice(if quote { b"\"" } else { b"" });
        self.escaped(value, FIELD_BYTES);
        self.out.extend_from_slice(if quote { b"\"" } else { b"" });
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
        let kept = cut(value, bound);
        escape(self.out, kept);
        if kept.len() < value.len() {
            self.out.extend_from_slice(b"[...]");
        }
    }
}

/// The start of `value`, at most `bound` bytes, not ending within a UTF-8 sequence.
fn cut(value: &[u8], bound: usize) -> &[u8] {
    if value.len() <= bound {
        return value;
    }
    let continuation = |byte: u8| byte & 0xc0 == 0x80;
    let end = (bound.saturating_sub(3)..=bound).rev().find(|&at| !continuation(value[at])).unwrap_or(bound);
    &value[..end]
}

/// Bytes that stand for themselves: printable ASCII but for the quote and the backslash.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Appends `value` as the inside of a JSON string, in printable ASCII.
fn escape(out: &mut Vec<u8>, value: &[u8]) {
    let mut rest = value;
    while !rest.is_empty() {
        let run = plain_length(rest);
        out.extend_from_slice(&rest[..run]);
        rest = &rest[run..];
        if let Some(&byte) = rest.first() {
            rest = &rest[escape_one(out, byte, rest)..];
        }
    }
}

/// How many bytes at the start stand for themselves. Nearly always it is all of them, so eight are looked at in one step.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Sets the high bit of the bytes that are zero; bits above the first such byte may be wrong, which only costs a closer look.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let (words, _) = bytes.as_chunks::<8>();
    let special = |bytes: &[u8; 8]| {
        let word = u64::from_ne_bytes(*bytes);
        let control = word.wrapping_sub(ONES * 0x20);
        let delete_and_beyond = word.wrapping_add(ONES) | word;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        (control | delete_and_beyond | quote | backslash) & HIGH != 0
    };
    let whole = 8 * words.iter().take_while(|word| !special(word)).count();
    let rest = &bytes[whole..];
    whole + rest.iter().position(|&byte| !PLAIN[usize::from(byte)]).unwrap_or(rest.len())
}

/// Escapes what `rest`, beginning with `byte`, begins with. Returns its length.
fn escape_one(out: &mut Vec<u8>, byte: u8, rest: &[u8]) -> usize {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0..0x80 => unicode(out, u16::from(byte)),
        _ => match first_char(rest) {
            Some(char) => {
                char.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| unicode(out, unit));
                return char.len_utf8();
            }
            None => {
                out.extend_from_slice(b"\\\\x");
                hexadecimal(out, byte);
            }
        },
    }
    1
}

fn unicode(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(b"\\u");
    unit.to_be_bytes().iter().for_each(|&byte| hexadecimal(out, byte));
}

fn first_char(bytes: &[u8]) -> Option<char> {
    bytes[..bytes.len().min(4)].utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next())
}

fn hexadecimal(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// Appends a number.
fn decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(ShortText::of_number(value).as_bytes());
}

/// Appends the last `width` digits of a number, zeros in front.
fn fixed(out: &mut Vec<u8>, mut value: u32, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Appends an address; an IPv4 address mapped into IPv6 as what it is.
fn address(out: &mut Vec<u8>, address: IpAddr) {
    out.extend_from_slice(ShortText::of_address(Some(address)).as_bytes());
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
