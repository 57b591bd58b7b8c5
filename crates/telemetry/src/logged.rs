//! Lines of the access log in their JSON form, read again: who asked whom for what. A log may come from anywhere, so a line is bounded, and what of it could
//! not have been a request is none.

use std::net::IpAddr;

use serde_json::Value;
use wire::http::fields::{is_field_value, is_token};

/// Longest line that is read, bytes.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// What a line is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logged {
    /// A request.
    Request(Box<LoggedRequest>),
    /// A request of which the line has not all that is needed: a part is cut, or its head was rejected before it was read to its end.
    Incomplete,
    /// Something else: a connection, a tunnel, a flow.
    Other,
    /// It is no line of the log.
    Unreadable,
}

/// A request as far as a line has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    /// The listener that it came to.
    pub listener: String,
    /// Its method.
    pub method: String,
    /// Host and port; empty where it had none.
    pub host: String,
    /// Path and query, canonical.
    pub target: String,
    /// It was one of HTTP/1.0.
    pub is_http_1_0: bool,
    /// Its client; none on Unix sockets.
    pub client: Option<IpAddr>,
    /// The trusted proxy that named the client, if one did.
    pub proxy: Option<IpAddr>,
    /// It came over TLS.
    pub is_tls: bool,
    /// The TLS server name.
    pub server_name: Option<String>,
    /// `User-Agent`, if it is whole.
    pub user_agent: Option<String>,
}

/// Reads a line, without its line break.
pub fn read_line(line: &[u8]) -> Logged {
    if line.len() > MAX_LINE_BYTES {
        return Logged::Unreadable;
    }
    let Ok(Value::Object(members)) = serde_json::from_slice(line) else { return Logged::Unreadable };
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    match text("kind") {
        Some("request") => {}
        Some(_) => return Logged::Other,
        None => return Logged::Unreadable,
    }
    let cut = members.get("truncated").and_then(Value::as_array);
    let is_cut = |name: &str| cut.is_some_and(|cut| cut.iter().any(|one| one.as_str() == Some(name)));
    if ["method", "host", "target", "listener"].iter().any(|name| is_cut(name)) {
        return Logged::Incomplete;
    }
    let graphic = |text: &&str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let request = || {
        let tls = members.get("tls");
        let server_name = tls.and_then(|tls| tls.get("server_name")).and_then(Value::as_str);
        let is_sendable = |text: &&str| !is_cut("user_agent") && is_field_value(text.as_bytes());
        Some(LoggedRequest {
            listener: text("listener")?.to_owned(),
            method: text("method").filter(|method| is_token(method.as_bytes()))?.to_owned(),
            host: text("host").filter(graphic)?.to_owned(),
            target: text("target").filter(|target| graphic(target) && target.starts_with(['/', '*']))?.to_owned(),
            is_http_1_0: text("version")? == "HTTP/1.0",
            client: text("client_address").and_then(|text| text.parse().ok()),
            proxy: text("peer_address").and_then(|text| text.parse().ok()),
            is_tls: tls.is_some(),
            server_name: server_name.filter(graphic).map(str::to_owned),
            user_agent: text("user_agent").filter(is_sendable).map(str::to_owned),
        })
    };
    request().map_or(Logged::Incomplete, |request| Logged::Request(Box::new(request)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn lines_are_requests_or_say_why_not() {
        let whole = r#"{"kind":"request","listener":"web","method":"GET","host":"a.example","target":"/x?y","version":"HTTP/2","client_address":"192.0.2.1","client_port":5,"tls":{"version":"TLSv1.3","server_name":"a.example"},"user_agent":"curl"}"#;
        let Logged::Request(read) = read_line(whole.as_bytes()) else { panic!("{whole}") };
        assert_eq!((read.method.as_str(), read.host.as_str(), read.target.as_str()), ("GET", "a.example", "/x?y"));
        assert_eq!((read.client, read.is_tls), (Some([192, 0, 2, 1].into()), true));
        assert_eq!((read.server_name.as_deref(), read.user_agent.as_deref()), (Some("a.example"), Some("curl")));
        for (from, to, expected) in [
            ("\"request\"", "\"tunnel\"", Logged::Other),
            ("\"kind\":\"request\",", "", Logged::Unreadable),
            ("}", "", Logged::Unreadable),
            ("\"GET\"", "\"G T\"", Logged::Incomplete),
            ("\"GET\"", "5", Logged::Incomplete),
            ("/x?y", "/x\\r\\nX: y", Logged::Incomplete),
            ("/x?y", "http://b/", Logged::Incomplete),
            ("a.example\",\"target", "a\\u0000\",\"target", Logged::Incomplete),
            ("\"kind\"", "\"truncated\":[\"target\"],\"kind\"", Logged::Incomplete),
        ] {
            let line = whole.replacen(from, to, 1);
            assert_eq!(read_line(line.as_bytes()), expected, "{line}");
        }
        let hostile = whole.replace("curl", "a\\r\\nX: y");
        let Logged::Request(read) = read_line(hostile.as_bytes()) else { panic!("{hostile}") };
        assert_eq!(read.user_agent, None);
        for line in
            ["", "[]", "null", "\u{7f}", &"[".repeat(10_000), &format!("{{\"a\":\"{}\"}}", "a".repeat(MAX_LINE_BYTES))]
        {
            assert_eq!(read_line(line.as_bytes()), Logged::Unreadable, "{:.20}", line);
        }
    }
}
