//! Response heads: from scanned lines to a checked [`ResponseHead`] (RFC 9112 §4, §6.3, §9).
//!
//! Owns what status line and framing of a response must look like. Does not scan lines: `scan` does.

use reason::Reason;

use super::super::head::{BodyFraming, HeadError, HeadLimits, Method, ResponseHead, Version};
use super::Parsed;
use super::framing::{ConnectionOptions, content_length, upgrade_offer};
use super::scan::{self, Notes, Scanned, TooLong, value_span};

const TOO_LONG: TooLong =
    TooLong { line: HeadError::of(Reason::StatusLineTooLong), head: HeadError::of(Reason::HeadTooLarge) };

/// See [`super::parse_response`].
pub(super) fn parse(
    bytes: &[u8],
    limits: &HeadLimits,
    request_method: &Method,
    head: &mut ResponseHead,
) -> Result<Parsed, HeadError> {
    head.clear();
    parse_as_peer(bytes, limits, request_method, head).map_err(|error| HeadError { status: 502, ..error })
}

/// As [`parse`], with the status that a client would deserve.
fn parse_as_peer(
    bytes: &[u8],
    limits: &HeadLimits,
    request_method: &Method,
    head: &mut ResponseHead,
) -> Result<Parsed, HeadError> {
    let scanned = scan::head(bytes, 0, limits, TOO_LONG, &mut head.fields, status_line)?;
    let Some(((version, status), notes, head_len)) = scanned else { return Ok(Parsed::Partial) };
    head.version = version;
    head.status = status;
    let options =
        if notes.connection.count > 0 { ConnectionOptions::read(&head.fields)? } else { ConnectionOptions::default() };
    head.framing = response_framing(&notes, request_method, head)?;
    head.keep_alive = options.keep_alive(version)
        && head.framing != BodyFraming::UntilClose
        && !announces_impossible_body(&notes, head);
    if status == 101 && notes.upgrade.count > 0 {
        head.upgrade = upgrade_offer(&head.fields)?;
    }
    Ok(Parsed::Complete { head_len })
}

/// `HTTP/1.1 200 reason`. The space after the status is left out by some servers that give no reason, and nothing hangs
/// on it; the reason may be empty and may hold tabs and obs-text (RFC 9112 §4).
fn status_line(window: &[u8], start: usize) -> Scanned<((Version, u16), usize)> {
    let Some(version) = scan::version(window, start)? else { return Ok(None) };
    let mut at = start + 8;
    match window.get(at) {
        None => return Ok(None),
        Some(b' ') => at += 1,
        Some(_) => return Err(HeadError::of(Reason::BadStatusLine)),
    }
    let mut status = 0;
    for _ in 0..3 {
        match window.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') => status = status * 10 + u16::from(digit - b'0'),
            Some(_) => return Err(HeadError::of(Reason::BadStatus)),
        }
        at += 1;
    }
    if !(100..=599).contains(&status) {
        return Err(HeadError::of(Reason::BadStatus));
    }
    if window.get(at) == Some(&b' ') {
        at += 1;
        at += value_span(window.get(at..).unwrap_or_default());
    }
    let Some(next) = scan::line_end(window, at)? else { return Ok(None) };
    Ok(Some(((version, status), next)))
}

/// RFC 9112 §6.3, but contradictions and codings other than `chunked` are rejected.
fn response_framing(notes: &Notes, request_method: &Method, head: &ResponseHead) -> Result<BodyFraming, HeadError> {
    let length = content_length(notes.content_length, &head.fields)?;
    let coding = notes.transfer_encoding;
    if coding.count > 0 {
        let value = head.fields.value_at(usize::from(coding.first));
        if length.is_some() {
            return Err(HeadError::of(Reason::LengthAndTransferEncoding));
        }
        if head.version == Version::H10 {
            return Err(HeadError::of(Reason::TransferEncodingInHttp10));
        }
        if coding.count > 1 || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(HeadError::of(Reason::BadTransferEncoding));
        }
    }
    let tunnel = *request_method == Method::Connect && (200..300).contains(&head.status);
    Ok(match length {
        _ if *request_method == Method::Head || has_no_body(head.status) || head.status == 304 || tunnel => {
            BodyFraming::None
        }
        _ if coding.count > 0 => BodyFraming::Chunked,
        Some(length) => BodyFraming::Length(length),
        None => BodyFraming::UntilClose,
    })
}

/// Statuses whose responses neither have nor describe a body (RFC 9110 §8.6).
fn has_no_body(status: u16) -> bool {
    status < 200 || status == 204
}

/// Whether a response that can have no body still announces one. The body may follow all the same, and must not be
/// taken for the next response.
fn announces_impossible_body(notes: &Notes, head: &ResponseHead) -> bool {
    let announced = notes.transfer_encoding.count > 0 || notes.content_length.count > 0;
    has_no_body(head.status) && announced && head.fields.get("content-length") != Some(b"0")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 256, request_line_bytes: 64, fields: 8 };

    fn parse_for(method: &Method, bytes: &[u8]) -> Result<(Parsed, ResponseHead), &'static str> {
        let mut head = ResponseHead::default();
        match parse(bytes, &LIMITS, method, &mut head) {
            Ok(parsed) => Ok((parsed, head)),
            Err(error) => {
                assert_eq!(error.status, 502);
                Err(error.reason.code())
            }
        }
    }

    fn parsed(method: &Method, text: &str) -> ResponseHead {
        let (parsed, head) = parse_for(method, text.as_bytes()).unwrap();
        assert_eq!(parsed, Parsed::Complete { head_len: text.len() }, "{text:?}");
        head
    }

    fn check_error(text: &str, code: &str) {
        assert_eq!(parse_for(&Method::Get, text.as_bytes()).map(|_| ()), Err(code), "{text:?}");
    }

    #[test]
    fn status_lines() {
        for (line, status) in [
            ("HTTP/1.1 200 OK", 200),
            ("HTTP/1.0 599 caf\u{e9}\tx", 599),
            ("HTTP/1.1 100 ", 100),
            ("HTTP/1.1 404", 404),
            ("HTTP/1.1 200  two", 200),
        ] {
            assert_eq!(parsed(&Method::Get, &format!("{line}\r\nA_B: c\r\n\r\n")).status, status, "{line}");
        }
        for (line, code) in [
            ("HTTP/1.1 099 x", "bad_status"),
            ("HTTP/1.1 600 x", "bad_status"),
            ("HTTP/1.1 20x", "bad_status"),
            ("HTTP/1.1 20", "bad_status"),
            ("HTTP/1.1  200", "bad_status"),
            ("HTTP/1.1 2000", "bad_line_end"),
            ("HTTP/1.1 200\tOK", "bad_line_end"),
            ("HTTP/1.1\t200 OK", "bad_status_line"),
            ("HTTP/1.1", "bad_status_line"),
            ("HTTP/2.0 200 OK", "unsupported_version"),
            ("ICY 200 OK", "bad_version"),
            ("\r\nHTTP/1.1 200 OK", "bad_version"),
            ("HTTP/1.1 200 O\0K", "bad_line_end"),
            ("HTTP/1.1 200 OK\n", "bare_lf"),
            ("HTTP/1.1 200 OK\rx", "bare_cr"),
        ] {
            check_error(&format!("{line}\r\n\r\n"), code);
        }
        check_error(&format!("HTTP/1.1 200 {}", "x".repeat(52)), "status_line_too_long");
        check_error(&format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(256)), "head_too_large");
        check_error(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(9)), "too_many_fields");
    }

    #[test]
    fn field_syntax() {
        for (field, code) in [
            ("A : b", "space_before_colon"),
            ("A: b\r\n c", "folded_field"),
            ("A: \0", "control_in_field_value"),
            ("A: b\nC: d", "bare_lf"),
            ("Connection: a b", "bad_connection_option"),
        ] {
            check_error(&format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n"), code);
        }
    }

    fn check_framing(method: &Method, status: u16, fields: &str, framing: BodyFraming, keep_alive: bool) {
        let head = parsed(method, &format!("HTTP/1.1 {status} x\r\n{fields}\r\n"));
        assert_eq!((head.framing, head.keep_alive), (framing, keep_alive), "{method:?} {status} {fields:?}");
    }

    #[test]
    fn framing() {
        use BodyFraming::{Chunked, Length, None, UntilClose};
        let (get, head, connect) = (&Method::Get, &Method::Head, &Method::Connect);
        check_framing(get, 200, "Content-Length: 5\r\n", Length(5), true);
        check_framing(get, 200, "Content-Length: 5\r\nConnection: close\r\n", Length(5), false);
        check_framing(get, 200, "Transfer-Encoding: Chunked\r\n", Chunked, true);
        check_framing(get, 200, "", UntilClose, false);
        check_framing(get, 205, "Content-Length: 0\r\n", Length(0), true);
        check_framing(head, 200, "Content-Length: 5\r\n", None, true);
        check_framing(head, 200, "Transfer-Encoding: chunked\r\n", None, true);
        check_framing(head, 200, "", None, true);
        check_framing(get, 304, "Content-Length: 5\r\n", None, true);
        check_framing(get, 204, "", None, true);
        check_framing(get, 204, "Content-Length: 0\r\n", None, true);
        check_framing(get, 204, "Content-Length: 5\r\n", None, false);
        check_framing(get, 204, "Transfer-Encoding: chunked\r\n", None, false);
        check_framing(get, 100, "", None, true);
        check_framing(connect, 200, "", None, true);
        check_framing(connect, 403, "Content-Length: 1\r\n", Length(1), true);
        for (fields, code) in [
            ("Content-Length: 5\r\nContent-Length: 5\r\n", "duplicate_content_length"),
            ("Content-Length: 5, 5\r\n", "bad_content_length"),
            ("Content-Length: -5\r\n", "bad_content_length"),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "length_and_transfer_encoding"),
            ("Transfer-Encoding: gzip, chunked\r\n", "bad_transfer_encoding"),
            ("Transfer-Encoding: identity\r\n", "bad_transfer_encoding"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "bad_transfer_encoding"),
        ] {
            for status in [200, 204, 304] {
                check_error(&format!("HTTP/1.1 {status} x\r\n{fields}\r\n"), code);
            }
        }
        check_error("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer_encoding_in_http_1_0");
    }

    #[test]
    fn old_servers_close_unless_they_say_otherwise() {
        let keeps = |fields: &str| parsed(&Method::Get, &format!("HTTP/1.0 200 OK\r\n{fields}\r\n")).keep_alive;
        assert!(!keeps("Content-Length: 1\r\n"));
        assert!(keeps("Content-Length: 1\r\nConnection: keep-alive\r\n"));
        assert!(!keeps("Connection: keep-alive\r\n"));
    }

    #[test]
    fn upgrades() {
        let upgrade =
            |status: u16, fields: &str| parsed(&Method::Get, &format!("HTTP/1.1 {status} x\r\n{fields}\r\n")).upgrade;
        assert_eq!(upgrade(101, "Connection: upgrade\r\nUpgrade: WebSocket\r\n").as_deref(), Some("websocket"));
        assert_eq!(upgrade(101, ""), None);
        assert_eq!(upgrade(200, "Connection: upgrade\r\nUpgrade: h2c\r\n"), None);
        check_error("HTTP/1.1 101 x\r\nUpgrade:\r\n\r\n", "bad_upgrade");
    }
}
