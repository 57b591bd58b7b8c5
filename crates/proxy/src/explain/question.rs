//! What is asked about: a request, put together from the arguments of a command or a line of a log. It is as hostile as any request, and read by the same
//! parser; what is rejected here could not be put on a wire at all, or would be another request there.

use std::net::IpAddr;

use tls::PeerCertificate;
use wire::http::fields::is_token;
use wire::http::target::canonical_authority;

/// A request to explain.
#[derive(Debug)]
pub struct Question {
    /// The listener that it comes to; none for the one that its URL leads to.
    pub listener: Option<String>,
    /// Its URL.
    pub url: Url,
    /// Its head, as a client of HTTP/1.1 sends it.
    pub head: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
    /// Who connects, or whom a PROXY header names.
    pub client: IpAddr,
    /// The client's certificate, taken as verified.
    pub certificate: Option<Box<PeerCertificate>>,
    /// Only its line, host and client are known, as from a log.
    pub is_partial: bool,
}

/// An `http` or `https` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Its scheme is `https`.
    pub is_https: bool,
    /// Host and, if it is written, port; canonical.
    pub authority: String,
    /// The host, without brackets.
    pub host: String,
    /// The port, that of the scheme where none is written.
    pub port: u16,
    /// Path and query, as written; `/` where there is no path.
    pub target: String,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    pub fn read(text: &str) -> Result<Url, String> {
        let (scheme, rest) = text.split_once("://").ok_or("a whole URL is needed, such as https://example.com/path")?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(format!("`{}` is not http or https", scheme.escape_debug())),
        };
        if text.contains('#') {
            return Err("a client never sends what begins with `#`; leave it out".to_owned());
        }
        if let Some(bad) = text.chars().find(|c| c.is_ascii_control() || *c == ' ') {
            return Err(format!("a URL cannot hold `{}`; percent-encode it", bad.escape_debug()));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("a client sends no user name with the host; write it as `-H 'Authorization: …'`".to_owned());
        }
        let mut canonical = Vec::new();
        let not_a_host = || format!("`{}` is not a host, or a host and a port", authority.escape_debug());
        canonical_authority(authority.as_bytes(), &mut canonical).map_err(|_| not_a_host())?;
        let authority = String::from_utf8(canonical).map_err(|_| not_a_host())?;
        let (host, port) = split_port(&authority, if is_https { 443 } else { 80 }).ok_or_else(not_a_host)?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { is_https, authority, host, port, target })
    }
}

/// A canonical authority as host and port.
fn split_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    let host_end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority.get(host_end..)?.rsplit_once(':') {
        None => Some((authority, default)),
        Some((_, port)) => Some((authority.get(..authority.len() - port.len() - 1)?, port.parse().ok()?)),
    }
    .filter(|(host, _)| !host.is_empty())
}

impl Question {
    /// A request by its method, URL, fields (`Name: value`) and body. A Host among the fields takes the place of the URL's, as with curl.
    ///
    /// # Errors
    /// What could not be sent as one request, and what to write.
    pub fn new(method: &str, url: &str, fields: &[String], body: Vec<u8>, client: IpAddr) -> Result<Question, String> {
        if !is_token(method.as_bytes()) {
            return Err(format!("`{}` is not a method", method.escape_debug()));
        }
        let url = Url::read(url)?;
        let mut head = format!("{method} {} HTTP/1.1\r\n", url.target);
        let is_given = |name: &str| fields.iter().any(|field| name_of(field).eq_ignore_ascii_case(name));
        if !is_given("host") {
            head.push_str(&format!("Host: {}\r\n", url.authority));
        }
        for field in fields {
            if field.contains(['\r', '\n', '\0']) || !field.contains(':') {
                return Err(format!("`{}` is not a header; write it as `Name: value`", field.escape_debug()));
            }
            head.push_str(field);
            head.push_str("\r\n");
        }
        if !body.is_empty() && !is_given("content-length") && !is_given("transfer-encoding") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let (listener, certificate, is_partial) = (None, None, false);
        Ok(Question { listener, url, head: head.into_bytes(), body, client, certificate, is_partial })
    }
}

fn name_of(field: &str) -> &str {
    field.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn urls_are_read_as_a_client_reads_them_or_not_at_all() {
        let read = |text: &str| {
            Url::read(text).map(|url| format!("{} {} {} {}", url.is_https, url.host, url.port, url.target)).ok()
        };
        for (text, expected) in [
            ("https://Example.com/a?b=c", Some("true example.com 443 /a?b=c")),
            ("HTTP://example.com:8080", Some("false example.com 8080 /")),
            ("http://example.com?x", Some("false example.com 80 /?x")),
            ("https://[::1]:8443/", Some("true ::1 8443 /")),
            ("https://[::1]/", Some("true ::1 443 /")),
            ("https://a.example/?u=http://b/@c", Some("true a.example 443 /?u=http://b/@c")),
            ("https://a.example/../b//c;d", Some("true a.example 443 /../b//c;d")),
            ("example.com/a", None),
            ("ftp://example.com/", None),
            ("https://user@example.com/", None),
            ("https://a.example/#top", None),
            ("https://a.example/a b", None),
            ("https://a.example/a\r\nX: y", None),
            ("https://a.example:99999/", None),
            ("https://a.example:/", Some("true a.example 443 /")),
            ("https:///a", None),
            ("https://:443/a", None),
            ("https://a_b..c<>/", None),
            ("", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_question_is_one_request() {
        let ask = |method: &str, fields: &[&str], body: &str| {
            let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
            let question = Question::new(method, "http://a.example/x", &fields, body.into(), [192, 0, 2, 1].into());
            question.map(|question| String::from_utf8(question.head).unwrap()).ok()
        };
        for (method, fields, body, expected) in [
            ("GET", &["A: b"][..], "", Some("GET /x HTTP/1.1\r\nHost: a.example\r\nA: b\r\n\r\n")),
            ("GET", &["host: b"], "", Some("GET /x HTTP/1.1\r\nhost: b\r\n\r\n")),
            ("PUT", &[], "four", Some("PUT /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\n")),
            (
                "PUT",
                &["Transfer-Encoding: chunked"],
                "four",
                Some("PUT /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"),
            ),
            ("GET /y HTTP/1.1\r\nX: ", &[], "", None),
            ("", &[], "", None),
            ("GET", &["A: b\r\nC: d"], "", None),
            ("GET", &["A: b\n"], "", None),
            ("GET", &["nothing"], "", None),
            ("GET", &[""], "", None),
        ] {
            assert_eq!(ask(method, fields, body).as_deref(), expected, "{method:?} {fields:?}");
        }
    }
}
