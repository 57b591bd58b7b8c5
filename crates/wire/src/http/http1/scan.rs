//! The lines of a head, read from left to right and from nothing but the bytes given (RFC 9112 §2-5).
//!
//! Owns line ends, field syntax and the limits. Does not know what a target or a field means: `request` and `response` do.
//!
//! Every decision depends only on the bytes up to the place where it falls. So a prefix of a message either needs more, or
//! already has the decision of the whole: how a message is cut into packets changes nothing.

use reason::Reason;

use super::super::fields::Fields;
use super::super::head::{HeadError, HeadLimits, Version};
use super::super::octets::{self, ORDINARY, TOKEN, VALUE};

/// The bound on [`HeadLimits::head_bytes`]: offsets into a head are 32 bits wide.
const MAX_HEAD_BYTES: usize = 16 << 20;

/// The bound on [`HeadLimits::fields`].
const MAX_FIELDS: usize = 256;

/// A step that may lack bytes (`None`) or find a problem.
pub(super) type Scanned<T> = Result<Option<T>, HeadError>;

/// The answers to a first line and to a head that are over their limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooLong {
    pub(super) line: HeadError,
    pub(super) head: HeadError,
}

/// How often a field occurs, and where first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) count: u16,
    pub(super) first: u16,
}

/// The fields that rule the message itself, noted while they pass so that nobody has to search for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Notes {
    pub(super) host: Seen,
    pub(super) expect: Seen,
    pub(super) upgrade: Seen,
    pub(super) connection: Seen,
    pub(super) content_length: Seen,
    pub(super) transfer_encoding: Seen,
    /// The name of some field holds something else than letters, digits and hyphens.
    pub(super) has_unusual_name: bool,
    pub(super) cookie: Seen,
    pub(super) authorization: Seen,
}

impl Notes {
    fn note(&mut self, name: &[u8], position: usize) {
        let (seen, expected): (&mut Seen, &[u8]) = match name.len() {
            4 => (&mut self.host, b"host"),
            6 if name.starts_with(b"c") || name.starts_with(b"C") => (&mut self.cookie, b"cookie"),
            6 => (&mut self.expect, b"expect"),
            7 => (&mut self.upgrade, b"upgrade"),
            10 => (&mut self.connection, b"connection"),
            13 => (&mut self.authorization, b"authorization"),
            14 => (&mut self.content_length, b"content-length"),
            17 => (&mut self.transfer_encoding, b"transfer-encoding"),
            _ => return,
        };
        if name.eq_ignore_ascii_case(expected) {
            if seen.count == 0 {
                seen.first = position as u16;
            }
            seen.count += 1;
        }
    }
}

/// Scans a head: `first_line` reads the line at the offset given and says what it found and where the next line starts.
///
/// Gives what `first_line` found, the notes and the length of the head; `fields` is complete then, and empty otherwise.
pub(super) fn head<'a, T>(
    bytes: &'a [u8],
    start: usize,
    limits: &HeadLimits,
    too_long: TooLong,
    fields: &mut Fields,
    first_line: impl FnOnce(&'a [u8], usize) -> Scanned<(T, usize)>,
) -> Scanned<(T, Notes, usize)> {
    let head_limit = limits.head_bytes.min(MAX_HEAD_BYTES);
    let window = &bytes[..bytes.len().min(head_limit)];
    let window_is_full = window.len() == head_limit;

    let line_window = line_window(window, start, limits.request_line_bytes);
    let Some((line, fields_start)) = first_line(line_window, start)? else {
        let past_limit = start.saturating_add(limits.request_line_bytes);
        let over = line_window.get(past_limit).is_some_and(|&octet| octet != b'\r');
        return if over || window_is_full { Err(too_long.line) } else { Ok(None) };
    };
    let mut notes = Notes::default();
    let scanned = fields_section(window, fields_start, limits.fields.min(MAX_FIELDS), too_long, fields, &mut notes);
    if !matches!(scanned, Ok(Some(_))) {
        fields.clear();
    }
    match scanned? {
        Some(head_len) => Ok(Some((line, notes, head_len))),
        None if window_is_full => Err(too_long.head),
        None => Ok(None),
    }
}

/// As much of `window` as the first line may take: the line, and its end if that stands where it must at the latest.
fn line_window(window: &[u8], start: usize, limit: usize) -> &[u8] {
    let last = start.saturating_add(limit);
    let line_end = if window.get(last) == Some(&b'\r') { 2 } else { 1 };
    &window[..window.len().min(last.saturating_add(line_end))]
}

/// Scans fields from `start` to the empty line; gives the offset after it.
fn fields_section(
    window: &[u8],
    start: usize,
    max_headers: usize,
    too_long: TooLong,
    fields: &mut Fields,
    notes: &mut Notes,
) -> Scanned<usize> {
    let mut at = start;
    loop {
        match window.get(at) {
            None => return Ok(None),
            Some(b'\r') => {
                let Some(end) = line_end(window, at)? else { return Ok(None) };
                fields.adopt(&window[start..at]);
                return Ok(Some(end));
            }
            Some(_) if fields.len() == max_headers => {
                return Err(HeadError { reason: Reason::TooManyFields, ..too_long.head });
            }
            Some(_) => {}
        }
        let Some((name, name_len)) = field_name(window, at, notes)? else { return Ok(None) };
        let Some((value_start, value_len, next)) = field_value(window, at + name.len() + 1)? else { return Ok(None) };
        notes.note(name, fields.len());
        fields.push_span(at - start, name_len, value_start - start, value_len);
        at = next;
    }
}

/// Scans a name up to its colon.
fn field_name<'a>(window: &'a [u8], at: usize, notes: &mut Notes) -> Scanned<(&'a [u8], u16)> {
    let rest = &window[at..];
    let mut len = octets::span(rest, ORDINARY);
    if rest.get(len) != Some(&b':') {
        let more = octets::span(&rest[len..], TOKEN);
        notes.has_unusual_name |= more > 0;
        len += more;
    }
    let (name, after) = rest.split_at(len);
    match after.first() {
        None => Ok(None),
        Some(b':') if len > 0 => match u16::try_from(len) {
            Ok(name_len) => Ok(Some((name, name_len))),
            Err(_) => Err(HeadError::of(Reason::FieldNameTooLong)),
        },
        Some(b':') => Err(HeadError::of(Reason::EmptyFieldName)),
        // After a line, blanks would continue its value (obs-fold); after the first line they would hide a field
        // (RFC 9112 §2.2, §5.2).
        Some(b' ' | b'\t') if len == 0 => Err(HeadError::of(Reason::FoldedField)),
        Some(b' ' | b'\t') => Err(HeadError::of(Reason::SpaceBeforeColon)),
        Some(b'\n') => Err(HeadError::of(Reason::BareLf)),
        Some(b'\r') => Err(HeadError::of(Reason::FieldWithoutColon)),
        Some(_) => Err(HeadError::of(Reason::BadFieldName)),
    }
}

/// Scans a value and its line end: where it starts, its length without blanks around it, and where the next line starts.
fn field_value(window: &[u8], at: usize) -> Scanned<(usize, usize, usize)> {
    let blank = |octet: &u8| matches!(octet, b' ' | b'\t');
    let start = at + window[at..].iter().take_while(|octet| blank(octet)).count();
    let end = start + value_span(&window[start..]);
    match window.get(end) {
        None => Ok(None),
        Some(b'\r') => {
            let Some(next) = line_end(window, end)? else { return Ok(None) };
            let blanks = window[start..end].iter().rev().take_while(|octet| blank(octet)).count();
            Ok(Some((start, end - blanks - start, next)))
        }
        Some(b'\n') => Err(HeadError::of(Reason::BareLf)),
        Some(_) => Err(HeadError::of(Reason::ControlInFieldValue)),
    }
}

/// Checks the CR LF that must stand at `at`; gives the offset after it.
pub(super) fn line_end(window: &[u8], at: usize) -> Scanned<usize> {
    match window.get(at..).unwrap_or_default() {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => Ok(Some(at + 2)),
        [b'\r', ..] => Err(HeadError::of(Reason::BareCr)),
        [b'\n', ..] => Err(HeadError::of(Reason::BareLf)),
        _ => Err(HeadError::of(Reason::BadLineEnd)),
    }
}

/// Reads the eight bytes of an HTTP/1 version (RFC 9112 §2.3).
pub(super) fn version(window: &[u8], at: usize) -> Scanned<Version> {
    let found = window.get(at..).unwrap_or_default();
    match found {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1', ..] => return Ok(Some(Version::H11)),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0', ..] => return Ok(Some(Version::H10)),
        _ => {}
    }
    for (&octet, pattern) in found.iter().zip(b"HTTP/0.0") {
        let fits = if *pattern == b'0' { octet.is_ascii_digit() } else { octet == *pattern };
        if !fits {
            return Err(HeadError::of(Reason::BadVersion));
        }
    }
    if found.len() < 8 { Ok(None) } else { Err(HeadError::of(Reason::UnsupportedVersion)) }
}

/// How many octets at the start of `bytes` may stand in a field value, eight at a time.
pub(super) fn value_span(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let mut at = 0;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*block);
        // In each, the lowest bit set is exact; bits above it may be false, and are not looked at.
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let not_delete = word ^ (ONES * 0x7f);
        let deletes = not_delete.wrapping_sub(ONES) & !not_delete & HIGH;
        let stops = controls | deletes;
        if stops == 0 {
            at += 8;
            continue;
        }
        at += (stops.trailing_zeros() / 8) as usize;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    at + octets::span(&bytes[at..], VALUE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn eight_at_a_time_is_one_at_a_time() {
        for filler in [b'a', b'\t', b' ', 0x80, 0xff, b'~'] {
            for position in 0..20 {
                for octet in 0..=255u8 {
                    let mut bytes = [filler; 24];
                    bytes[position] = octet;
                    assert_eq!(value_span(&bytes), octets::span(&bytes, VALUE), "{octet:#04x} at {position}");
                    bytes[position + 1] = b'\r';
                    assert_eq!(value_span(&bytes), octets::span(&bytes, VALUE), "{octet:#04x} at {position}, then CR");
                }
            }
        }
    }

    fn check_version(text: &str, expected: Scanned<Version>) {
        assert_eq!(version(text.as_bytes(), 0), expected, "{text}");
    }

    #[test]
    fn versions() {
        check_version("HTTP/1.1", Ok(Some(Version::H11)));
        check_version("HTTP/1.0\r\n", Ok(Some(Version::H10)));
        check_version("HTTP/1.", Ok(None));
        check_version("", Ok(None));
        for other in ["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/3.0"] {
            check_version(other, Err(HeadError::of(Reason::UnsupportedVersion)));
        }
        for bad in ["http/1.1", "HTTP/1\r", "HTTP 1.1", "HTTP/1,1", "HTTP/11", "HTTP/a.1", " HTTP/1.1", "HTPP"] {
            check_version(bad, Err(HeadError::of(Reason::BadVersion)));
        }
    }
}
