//! A URL and a header to explain, of any bytes: what comes of them is one head of a request, whose line and fields are those that were given, or nothing.

use std::net::IpAddr;

use proxy::explain::{Question, Url};
use wire::http::http1::{Parsed, parse_request};
use wire::http::{HeadLimits, RequestHead};

/// Nothing that is asked becomes a second request, or another line or field than it says. The first line is the URL, each further one a header.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\u{1}');
    let url = parts.next().unwrap_or_default();
    let fields: Vec<String> = parts.map(str::to_owned).collect();
    let nobody = IpAddr::from([192, 0, 2, 1]);
    let Ok(question) = Question::new("GET", url, &fields, Vec::new(), nobody) else { return };
    let head = &question.head;
    assert!(head.ends_with(b"\r\n\r\n"));
    assert_eq!(head.windows(4).filter(|four| *four == b"\r\n\r\n").count(), 1);
    let given = fields.len() + usize::from(!fields.iter().any(|field| is_host(field)));
    assert_eq!(head.iter().filter(|byte| **byte == b'\n').count(), given + 2);
    let limits = HeadLimits { head_bytes: 64 * 1024, request_line_bytes: 16 * 1024, fields: 1000 };
    let mut read = RequestHead::default();
    if let Ok(Parsed::Complete { head_len }) = parse_request(head, &limits, &mut read) {
        assert_eq!((head_len, read.method.as_str()), (head.len(), "GET"));
        assert_eq!(read.fields.len(), given);
    }
    // What was read of the URL can be written and read again.
    let Url { is_https, authority, target, .. } = &question.url;
    let scheme = if *is_https { "https" } else { "http" };
    assert_eq!(Url::read(&format!("{scheme}://{authority}{target}")).as_ref(), Ok(&question.url));
}

fn is_host(field: &str) -> bool {
    field.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"))
}
