//! Lines of an access log, of any bytes: what is read of one could have been a request, and stays one when it is asked about.

use telemetry::{Logged, MAX_LINE_BYTES, read_line};

/// A line is read to nothing that could become another request, or is not read.
pub fn check(data: &[u8]) {
    let Logged::Request(read) = read_line(data) else { return };
    assert!(data.len() <= MAX_LINE_BYTES);
    let is_graphic = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(is_graphic(&read.method) && !read.method.is_empty() && !read.method.contains([':', '/']));
    assert!(is_graphic(&read.host) && is_graphic(&read.target) && read.target.starts_with(['/', '*']));
    assert!(read.server_name.as_deref().is_none_or(is_graphic));
    assert!(read.user_agent.as_deref().is_none_or(|agent| !agent.contains(['\r', '\n', '\0'])));
    // The same line without anything else says the same.
    let mut members = serde_json::Map::new();
    let version = if read.is_http_1_0 { "HTTP/1.0" } else { "HTTP/1.1" };
    let own = [
        ("kind", "request"),
        ("listener", &read.listener),
        ("method", &read.method),
        ("host", &read.host),
        ("target", &read.target),
        ("version", version),
    ];
    own.into_iter().for_each(|(name, value)| _ = members.insert(name.to_owned(), value.into()));
    for (name, value) in [("client_address", read.client), ("peer_address", read.proxy)] {
        value.into_iter().for_each(|value| _ = members.insert(name.to_owned(), value.to_string().into()));
    }
    if read.is_tls {
        let name = read.server_name.iter().map(|name| ("server_name".to_owned(), name.as_str().into()));
        members.insert("tls".to_owned(), serde_json::Value::Object(name.collect()));
    }
    read.user_agent.iter().for_each(|agent| _ = members.insert("user_agent".to_owned(), agent.as_str().into()));
    let line = serde_json::Value::Object(members).to_string();
    if line.len() <= MAX_LINE_BYTES {
        assert_eq!(read_line(line.as_bytes()), Logged::Request(read));
    }
}
