//! HTTP/1.1 heads as bytes (RFC 9112 §3, §4, §5).
//!
//! Owns start lines and field lines. Checks nothing: what is written here was parsed or built from checked parts.

use super::super::fields::Fields;
use super::super::head::Method;

/// Appends `METHOD target HTTP/1.1` and its line end.
pub fn write_request_line(method: &Method, target: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends `HTTP/1.1 status reason` and its line end; the reason is the registered one, or empty. `status` is 100 to 599.
pub fn write_status_line(status: u16, out: &mut Vec<u8>) {
    match registered_status_line(status) {
        Some(line) => out.extend_from_slice(line.as_bytes()),
        None => {
            let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(&[digit(100), digit(10), digit(1)]);
            out.extend_from_slice(b" \r\n");
        }
    }
}

/// Appends every field as `name: value` and its line end, in order. The empty line that ends a head is the caller's to
/// write, after fields of its own.
pub fn write_fields(fields: &Fields, out: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        write_field(name, value, out);
    }
}

/// Appends one field as `name: value` and its line end.
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Makes the match from status to line, so that a line is one copy.
macro_rules! status_lines {
    ($($status:literal $reason:literal)*) => {
        /// The status line of a registered status (IANA HTTP Status Code Registry).
        fn registered_status_line(status: u16) -> Option<&'static str> {
            match status {
                $($status => Some(concat!("HTTP/1.1 ", $status, " ", $reason, "\r\n")),)*
                _ => None,
            }
        }

        /// The registered reason phrase of a status, or nothing.
        pub fn reason_phrase(status: u16) -> &'static str {
            match status {
                $($status => $reason,)*
                _ => "",
            }
        }
    };
}

status_lines! {
    100 "Continue"
    101 "Switching Protocols"
    102 "Processing"
    103 "Early Hints"
    200 "OK"
    201 "Created"
    202 "Accepted"
    203 "Non-Authoritative Information"
    204 "No Content"
    205 "Reset Content"
    206 "Partial Content"
    207 "Multi-Status"
    208 "Already Reported"
    226 "IM Used"
    300 "Multiple Choices"
    301 "Moved Permanently"
    302 "Found"
    303 "See Other"
    304 "Not Modified"
    305 "Use Proxy"
    307 "Temporary Redirect"
    308 "Permanent Redirect"
    400 "Bad Request"
    401 "Unauthorized"
    402 "Payment Required"
    403 "Forbidden"
    404 "Not Found"
    405 "Method Not Allowed"
    406 "Not Acceptable"
    407 "Proxy Authentication Required"
    408 "Request Timeout"
    409 "Conflict"
    410 "Gone"
    411 "Length Required"
    412 "Precondition Failed"
    413 "Content Too Large"
    414 "URI Too Long"
    415 "Unsupported Media Type"
    416 "Range Not Satisfiable"
    417 "Expectation Failed"
    421 "Misdirected Request"
    422 "Unprocessable Content"
    423 "Locked"
    424 "Failed Dependency"
    425 "Too Early"
    426 "Upgrade Required"
    428 "Precondition Required"
    429 "Too Many Requests"
    431 "Request Header Fields Too Large"
    451 "Unavailable For Legal Reasons"
    500 "Internal Server Error"
    501 "Not Implemented"
    502 "Bad Gateway"
    503 "Service Unavailable"
    504 "Gateway Timeout"
    505 "HTTP Version Not Supported"
    506 "Variant Also Negotiates"
    507 "Insufficient Storage"
    508 "Loop Detected"
    511 "Network Authentication Required"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = b"kept|".to_vec();
        write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("kept|{expected}"));
    }

    #[test]
    fn lines() {
        check(|out| write_request_line(&Method::Get, b"/a?b", out), "GET /a?b HTTP/1.1\r\n");
        check(|out| write_request_line(&Method::Other("x".into()), b"*", out), "x * HTTP/1.1\r\n");
        check(|out| write_status_line(200, out), "HTTP/1.1 200 OK\r\n");
        check(|out| write_status_line(299, out), "HTTP/1.1 299 \r\n");
        check(|out| write_status_line(105, out), "HTTP/1.1 105 \r\n");
        assert_eq!((reason_phrase(404), reason_phrase(499)), ("Not Found", ""));
    }

    #[test]
    fn fields_keep_case_and_order() {
        let mut fields = Fields::new();
        fields.push(b"B", b"2");
        fields.push(b"a-A", b"");
        check(|out| write_fields(&fields, out), "B: 2\r\na-A: \r\n");
    }
}
