//! Spans of OpenTelemetry as bytes of their protobuf schema (`opentelemetry.proto.trace.v1`): one for the request, and one for each try at a server.
//!
//! A span is written as the field `spans` of a `ScopeSpans`, so that what one worker gathers is the body of that message; what stands around it is written once, by the
//! exporter.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reason::Side;

use super::record::RequestRecord;
use super::redact::Redacted;
use super::trace::{Ended, Trace, Try};

/// Bytes of a text in a span; more is cut.
const TEXT_BYTES: usize = 1024;

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// Values of enumerations of the schema.
const KIND_SERVER: u64 = 2;
const KIND_CLIENT: u64 = 3;
const STATUS_ERROR: u64 = 2;

/// In `flags`: the parent is known to be, or not to be, elsewhere.
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;
const SAMPLED: u32 = 1;

/// Appends the spans of a request. Returns how many.
pub(super) fn write(out: &mut Vec<u8>, record: &RequestRecord<'_>, trace: &Trace, redacted: &Redacted) -> u64 {
    field(out, 2, |out| server_span(out, record, trace, redacted));
    let mut count = 1;
    let last = trace.tries.iter().rposition(|one| Some(&*one.server) == record.server && one.ended.is_none());
    // No try outlives its request, whatever the two clocks say.
    let rest = |one: &Try| (record.started + record.duration).duration_since(one.began).unwrap_or_default();
    for (number, one) in trace.tries.iter().enumerate() {
        let (took, ended) = match one.ended {
            Some((took, ended)) => (took.min(rest(one)), Some(ended)),
            None if Some(number) == last => (rest(one), of_record(record)),
            // It was asked beside another one, which was first.
            None => (rest(one), None),
        };
        let times = (one.began, took);
        field(out, 2, |out| {
            begin(out, trace, (one.span_id, Some(trace.span_id)), (record.method, KIND_CLIENT), times);
            text_attribute(out, "http.request.method", record.method.as_bytes());
            text_attribute(out, "server.address", one.server.as_bytes());
            text_attribute(out, "portunus.upstream", record.upstream.unwrap_or("").as_bytes());
            if number > 0 {
                number_attribute(out, "http.request.resend_count", number as u64);
            }
            match ended {
                Some(Ended::Status(status)) => {
                    number_attribute(out, "http.response.status_code", u64::from(status));
                    end(out, None, status >= 400, status);
                }
                Some(Ended::Failed(why)) => end(out, Some(why), true, 0),
                None => end(out, None, false, 0),
            }
            flags(out, PARENT_KNOWN | SAMPLED);
        });
        count += 1;
    }
    count
}

/// How the try ended whose response is the client's, or would have been.
fn of_record(record: &RequestRecord<'_>) -> Option<Ended> {
    match (record.fault, record.reason, record.upstream_status) {
        (Side::Upstream, Some(reason), None) => Some(Ended::Failed(reason.code())),
        (_, _, status) => status.map(Ended::Status),
    }
}

fn server_span(out: &mut Vec<u8>, record: &RequestRecord<'_>, trace: &Trace, redacted: &Redacted) {
    let times = (record.started, record.duration);
    let name = format!("{} {}", record.method, record.route.unwrap_or("")).trim_end().to_owned();
    begin(out, trace, (trace.span_id, trace.parent), (&name, KIND_SERVER), times);
    text_attribute(out, "http.request.method", record.method.as_bytes());
    let query = record.target.iter().position(|byte| *byte == b'?').unwrap_or(record.target.len());
    text_attribute(out, "url.path", &record.target[..query]);
    let mut shown = Vec::new();
    redacted.pieces(&record.target[query..], &mut |piece| shown.extend_from_slice(piece));
    text_attribute(out, "url.query", shown.get(1..).unwrap_or_default());
    text_attribute(out, "url.scheme", if record.tls.is_some() { b"https" } else { b"http" });
    text_attribute(out, "server.address", record.host);
    text_attribute(out, "network.protocol.name", b"http");
    text_attribute(out, "network.protocol.version", record.version.trim_start_matches("HTTP/").as_bytes());
    text_attribute(
        out,
        "client.address",
        record.client.map(|client| client.to_string()).unwrap_or_default().as_bytes(),
    );
    text_attribute(out, "user_agent.original", record.user_agent);
    text_attribute(out, "portunus.listener", record.listener.as_bytes());
    text_attribute(out, "portunus.route", record.route.unwrap_or("").as_bytes());
    text_attribute(out, "portunus.request_id", record.request_id);
    text_attribute(out, "portunus.fault", record.fault.word().as_bytes());
    if record.status > 0 {
        number_attribute(out, "http.response.status_code", u64::from(record.status));
    }
    let reason = record.reason.map(|reason| reason.code());
    // The client's problems are no errors of the server (semantic conventions for HTTP).
    let is_error = record.status >= 500 || record.status == 0 && record.fault != Side::Client;
    end(out, reason, is_error, record.status);
    let remote = if trace.parent.is_some() { PARENT_KNOWN | PARENT_REMOTE } else { PARENT_KNOWN };
    flags(out, remote | SAMPLED);
}

/// Ids, name, kind and times.
fn begin(
    out: &mut Vec<u8>,
    trace: &Trace,
    (span_id, parent): (u64, Option<u64>),
    (name, kind): (&str, u64),
    (began, took): (SystemTime, Duration),
) {
    bytes(out, 1, &trace.trace_id.to_be_bytes());
    bytes(out, 2, &span_id.to_be_bytes());
    bytes(out, 3, &trace.state);
    if let Some(parent) = parent {
        bytes(out, 4, &parent.to_be_bytes());
    }
    bytes(out, 5, text(name.as_bytes()).as_bytes());
    key(out, 6, VARINT);
    varint(out, kind);
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    for (number, at) in [(7, began), (8, began + took)] {
        key(out, number, FIXED64);
        out.extend_from_slice(&u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).to_le_bytes());
    }
}

/// Why it ended badly, if it did.
fn end(out: &mut Vec<u8>, reason: Option<&str>, is_error: bool, status: u16) {
    match reason.filter(|reason| !reason.is_empty()) {
        Some(reason) => text_attribute(out, "error.type", reason.as_bytes()),
        None if is_error && status > 0 => text_attribute(out, "error.type", status.to_string().as_bytes()),
        None => {}
    }
    if is_error {
        field(out, 15, |out| {
            key(out, 3, VARINT);
            varint(out, STATUS_ERROR);
        });
    }
}

fn flags(out: &mut Vec<u8>, flags: u32) {
    key(out, 16, FIXED32);
    out.extend_from_slice(&flags.to_le_bytes());
}

/// An attribute, unless it is empty.
fn text_attribute(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if !value.is_empty() {
        attribute(out, 9, name, |out| bytes(out, 1, text(value).as_bytes()));
    }
}

fn number_attribute(out: &mut Vec<u8>, name: &str, value: u64) {
    attribute(out, 9, name, |out| {
        key(out, 3, VARINT);
        varint(out, value);
    });
}

fn attribute(out: &mut Vec<u8>, number: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    field(out, number, |out| {
        bytes(out, 1, name.as_bytes());
        field(out, 2, value);
    });
}

/// Text of at most so many bytes; of what is no UTF-8, what can be read.
fn text(value: &[u8]) -> std::borrow::Cow<'_, str> {
    let mut end = value.len().min(TEXT_BYTES);
    while end > 0 && end < value.len() && value[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    String::from_utf8_lossy(&value[..end])
}

/// The body of a request to the collector: these spans, of a process with these attributes.
pub(super) fn request(service_name: &str, spans: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(spans.len() + 512);
    let host = super::rules::machine();
    field(&mut out, 1, |out| {
        field(out, 1, |out| {
            for (name, value) in [
                ("service.name", service_name),
                ("service.version", env!("CARGO_PKG_VERSION")),
                ("host.name", &host),
                ("telemetry.sdk.name", "portunus"),
                ("telemetry.sdk.language", "rust"),
            ] {
                attribute(out, 1, name, |out| bytes(out, 1, value.as_bytes()));
            }
        });
        field(out, 2, |out| {
            field(out, 1, |out| {
                bytes(out, 1, b"portunus");
                bytes(out, 2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            out.extend_from_slice(spans);
        });
    });
    out
}

/// A message or text with its length before it.
fn field(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    key(out, number, BYTES);
    let start = out.len();
    write(out);
    let mut length = Vec::with_capacity(5);
    varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}

fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    if !value.is_empty() {
        key(out, number, BYTES);
        varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

fn key(out: &mut Vec<u8>, number: u32, kind: u32) {
    varint(out, u64::from(number << 3 | kind));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
