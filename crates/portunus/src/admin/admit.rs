//! Which requests the admin side takes: those that name it in Host, and those that no web page of another site caused.
//!
//! A page in an operator's browser can send requests to loopback. It cannot choose their Host but by a name that its author makes resolve to
//! loopback (DNS rebinding), and it cannot hide its Origin on a POST, nor Sec-Fetch-Site in browsers that send it. So: Host must be an
//! address or name that is ours, and a request that says it comes from another origin is rejected, whatever its method.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode, Uri};
use config::Endpoint;

/// The rule for one listener.
#[derive(Debug)]
pub(super) struct Admission {
    /// Lower-case names and addresses, without ports.
    hosts: Vec<String>,
    /// The bound address; none on a Unix socket.
    bound: Option<IpAddr>,
}

impl Admission {
    pub(super) fn new(address: &Endpoint, hosts: &[String]) -> Admission {
        let bound = match address {
            Endpoint::Tcp(address) => Some(address.ip()),
            Endpoint::Unix(_) => None,
        };
        let hosts = hosts.iter().filter_map(|host| host_of(host)).map(str::to_ascii_lowercase).collect();
        Admission { hosts, bound }
    }

    /// Whether a request is taken; else how it is answered, and why.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err((StatusCode::BAD_REQUEST, "exactly one Host is needed"));
        };
        let host = host.to_str().unwrap_or("");
        // An absolute target overrides Host (RFC 9112 §3.2.2), so it must pass as well.
        if !self.is_ours(host) || uri.authority().is_some_and(|authority| !self.is_ours(authority.as_str())) {
            return Err((StatusCode::MISDIRECTED_REQUEST, "this Host is not served here; add it to admin.hosts"));
        }
        for origin in headers.get_all(ORIGIN) {
            let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
            if !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
                return Err((StatusCode::FORBIDDEN, "requests of other origins are rejected"));
            }
        }
        let mut sites = headers.get_all("sec-fetch-site").iter();
        if !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none")) {
            return Err((StatusCode::FORBIDDEN, "requests of other origins are rejected"));
        }
        Ok(())
    }

    fn is_ours(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        if let Ok(address) = host.parse::<IpAddr>() {
            // Bound to every address, we are reached by any of them; a literal one is never the work of a name server.
            let bound = self.bound.is_some_and(|bound| bound == address || bound.is_unspecified());
            return address.is_loopback() || bound || self.hosts.iter().any(|ours| ours == host);
        }
        let host = host.to_ascii_lowercase();
        host == "localhost" || self.hosts.contains(&host)
    }
}

/// The host of `host`, `host:port`, `[v6]`, `[v6]:port` or a bare v6 address; none if it is malformed.
fn host_of(authority: &str) -> Option<&str> {
    if authority.parse::<IpAddr>().is_ok() {
        return Some(authority);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port_is_well_formed = match port.strip_prefix(':') {
        Some(digits) => digits.parse::<u16>().is_ok() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    (port_is_well_formed && !host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(admission: &Admission, uri: &str, fields: &[(&'static str, &'static str)], expected: u16) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        let decision = admission.check(&uri.parse().unwrap(), &headers);
        assert_eq!(decision.map_or_else(|(status, _)| status.as_u16(), |()| 200), expected, "{uri} {fields:?}");
    }

    #[test]
    fn only_our_own_names_and_addresses_pass_as_host() {
        let hosts = ["edge.example".to_owned(), "Admin.example:9000".to_owned()];
        let admission = Admission::new(&Endpoint::Tcp("192.0.2.1:9090".parse().unwrap()), &hosts);
        let hosts = [
            ("localhost", 200),
            ("LocalHost:8080", 200),
            ("127.0.0.1", 200),
            ("127.9.9.9:1", 200),
            ("[::1]:9090", 200),
            ("192.0.2.1:9090", 200),
            ("edge.example", 200),
            ("admin.EXAMPLE:1234", 200),
            ("192.0.2.2", 421),
            ("evil.example", 421),
            ("localhost.evil.example", 421),
            ("localhost:80:80", 421),
            ("localhost:+80", 421),
            ("user@localhost", 421),
            ("[::1", 421),
            ("[localhost]", 421),
            ("", 421),
            (":80", 421),
        ];
        for (host, expected) in hosts {
            check(&admission, "/", &[("host", host)], expected);
        }
        check(&admission, "/", &[], 400);
        check(&admission, "/", &[("host", "localhost"), ("host", "localhost")], 400);
        check(&admission, "http://evil.example/", &[("host", "localhost")], 421);
        check(&admission, "http://localhost/", &[("host", "localhost")], 200);
    }

    #[test]
    fn bound_to_every_address_any_literal_one_passes_and_no_name() {
        let admission = Admission::new(&Endpoint::Tcp("0.0.0.0:9090".parse().unwrap()), &[]);
        check(&admission, "/", &[("host", "203.0.113.9:9090")], 200);
        check(&admission, "/", &[("host", "evil.example:9090")], 421);
        let admission = Admission::new(&Endpoint::Unix("/run/x".into()), &[]);
        check(&admission, "/", &[("host", "localhost")], 200);
        check(&admission, "/", &[("host", "203.0.113.9")], 421);
    }

    #[test]
    fn requests_of_other_origins_are_rejected() {
        let admission = Admission::new(&Endpoint::Tcp("127.0.0.1:9090".parse().unwrap()), &[]);
        let host = ("host", "localhost:9090");
        check(&admission, "/", &[host, ("origin", "http://localhost:9090")], 200);
        check(&admission, "/", &[host, ("origin", "http://localhost:3000")], 403);
        check(&admission, "/", &[host, ("origin", "https://evil.example")], 403);
        check(&admission, "/", &[host, ("origin", "null")], 403);
        check(&admission, "/", &[host, ("sec-fetch-site", "same-origin")], 200);
        check(&admission, "/", &[host, ("sec-fetch-site", "none")], 200);
        check(&admission, "/", &[host, ("sec-fetch-site", "same-site")], 403);
        check(&admission, "/", &[host, ("sec-fetch-site", "cross-site")], 403);
    }
}
