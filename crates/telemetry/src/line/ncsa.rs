//! The form `common`: the Common Log Format of NCSA's and Apache's servers, for requests only.

use std::time::SystemTime;

use super::escape::{address, cut, decimal, escape};
use super::{Clock, FIELD_BYTES, TARGET_BYTES};
use crate::record::RequestRecord;
use crate::redact::Redacted;

/// `host ident user [time] "method target version" status bytes`.
pub(super) fn request(out: &mut Vec<u8>, clock: &mut Clock, redacted: &Redacted, record: &RequestRecord<'_>) {
    match record.client {
        Some(client) => address(out, client),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b" - ");
    user(out, record.user.unwrap_or("-").as_bytes());
    time(out, clock, record.started);
    out.extend_from_slice(b" \"");
    escape(out, cut(record.method.as_bytes(), FIELD_BYTES));
    out.push(b' ');
    redacted.pieces(cut(record.target, TARGET_BYTES), &mut |piece| escape(out, piece));
    out.push(b' ');
    out.extend_from_slice(record.version.as_bytes());
    out.extend_from_slice(b"\" ");
    decimal(out, u64::from(record.status));
    out.push(b' ');
    match record.bytes_sent {
        0 => out.push(b'-'),
        bytes => decimal(out, bytes),
    }
    out.push(b'\n');
}

/// The name of a user, whose spaces must not be taken for the line's own.
fn user(out: &mut Vec<u8>, name: &[u8]) {
    for (number, word) in cut(name, FIELD_BYTES).split(|byte| *byte == b' ').enumerate() {
        out.extend_from_slice(if number == 0 { b"" } else { b"\\u0020" });
        escape(out, word);
    }
}

/// ` [21/Nov/2026:09:14:04 +0000]`.
fn time(out: &mut Vec<u8>, clock: &mut Clock, at: SystemTime) {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day, time) = clock.parts(at);
    out.extend_from_slice(b" [");
    out.extend_from_slice(day.as_bytes());
    out.push(b'/');
    let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    out.extend_from_slice(month.copied().unwrap_or("Jan").as_bytes());
    out.push(b'/');
    out.extend_from_slice(year.as_bytes());
    out.push(b':');
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(b" +0000]");
}
