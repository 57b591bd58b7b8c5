//! Which requests the admin side takes: those that name it in Host, and those that no web page of another site caused.
//!
//! A page in an operator's browser can send requests to loopback. It cannot choose their Host but by a name that its author makes resolve to
//! loopback (DNS rebinding), and it cannot hide its Origin on a POST, nor Sec-Fetch-Site in browsers that send it. So: Host must be an
//! address or name that is ours, and a request that says it comes from another origin is rejected, whatever its method.
//!
//! Over TCP whoever has an account on the machine can connect. There a token, if one is configured, is asked of every request but those of health checks, and a
//! client certificate, if one is, of every connection; without either nothing is served but what a scraper and a health check need. Who may connect to a Unix socket is
//! for its file mode to say.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use config::{Endpoint, Secret};
use keystore::Password;
use tls::crypto::digest::constant_time_eq;

use super::dashboard;
use super::seats::Purpose;

/// The scheme of RFC 6750, with the space behind it.
const BEARER: &[u8] = b"Bearer ";

/// Where nobody has to say who they are.
const NOBODY: &str = "this address serves only /metrics, /healthz and /readyz, since nobody has to say who they are. For everything else use the Unix socket, or set `admin.token` or `admin.tls.client_certificate`";

/// The rule for one listener.
pub(super) struct Admission {
    /// Lower-case names and addresses, without ports.
    hosts: Vec<String>,
    /// The bound address; none on a Unix socket.
    bound: Option<IpAddr>,
    /// What requests must bear.
    token: Option<Password>,
    /// Whoever gets this far has shown a certificate.
    is_certified: bool,
}

/// Asked without a token: checks of health have none. Nor does a browser that asks for the dashboard, which then asks for it.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Served besides where no token is configured: scrapers of the machine ask for it, and it shows sums, no request and no configuration.
const METRICS: &str = "/metrics";

/// Shortest and longest token, bytes.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=512;

/// Reads the token of a listener.
///
/// # Errors
/// It cannot be read, or is none; never shows it.
pub(super) fn token(secret: &Secret) -> Result<Password, String> {
    let token = secret.read()?;
    if !TOKEN_BYTES.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let (least, most) = (TOKEN_BYTES.start(), TOKEN_BYTES.end());
        return Err(format!(
            "the admin token is not {least} to {most} visible ASCII characters; `openssl rand -hex 32` makes one"
        ));
    }
    Ok(token)
}

impl Admission {
    pub(super) fn new(address: &Endpoint, hosts: &[String], token: Option<Password>, is_certified: bool) -> Admission {
        let bound = match address {
            Endpoint::Tcp(address) => Some(address.ip()),
            Endpoint::Unix(_) => None,
        };
        let hosts = hosts.iter().filter_map(|host| host_of(host)).map(str::to_ascii_lowercase).collect();
        Admission { hosts, bound, token, is_certified }
    }

    /// What a request is for that shows who sends it, as far as it has to; else how it is answered, and why. To be asked after [`Admission::check`].
    pub(super) fn authenticate(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Purpose, (StatusCode, &'static str)> {
        if method.is_safe() && OPEN.contains(&path) {
            return Ok(Purpose::Check);
        }
        let Some(token) = &self.token else {
            return match () {
                () if self.knows_who() => Ok(Purpose::Operator),
                () if method.is_safe() && path == METRICS => Ok(Purpose::Page),
                () => Err((StatusCode::FORBIDDEN, NOBODY)),
            };
        };
        if method.is_safe() && dashboard::has(path) {
            return Ok(Purpose::Page);
        }
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let given = match (values.next(), values.next()) {
            (Some(value), None) => value.as_bytes().split_at_checked(BEARER.len()),
            _ => None,
        };
        let is_right = given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(BEARER) && constant_time_eq(given, token.as_bytes())
        });
        if is_right {
            Ok(Purpose::Operator)
        } else {
            Err((StatusCode::UNAUTHORIZED, "this needs the token of `admin.token`"))
        }
    }

    /// Whether a connection says who is at its other end: by the mode of a file or by a certificate.
    fn knows_who(&self) -> bool {
        self.bound.is_none() || self.is_certified
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
        let admission = Admission::new(&Endpoint::Tcp("192.0.2.1:9090".parse().unwrap()), &hosts, None, false);
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
        let admission = Admission::new(&Endpoint::Tcp("0.0.0.0:9090".parse().unwrap()), &[], None, false);
        check(&admission, "/", &[("host", "203.0.113.9:9090")], 200);
        check(&admission, "/", &[("host", "evil.example:9090")], 421);
        let admission = Admission::new(&Endpoint::Unix("/run/x".into()), &[], None, false);
        check(&admission, "/", &[("host", "localhost")], 200);
        check(&admission, "/", &[("host", "203.0.113.9")], 421);
    }

    #[test]
    fn requests_of_other_origins_are_rejected() {
        let admission = Admission::new(&Endpoint::Tcp("127.0.0.1:9090".parse().unwrap()), &[], None, false);
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

    #[test]
    fn without_a_token_tcp_serves_scrapers_and_with_one_health_checks() {
        let token = || Some(Password::new("0123456789abcdef".to_owned()));
        let tcp = |token| Admission::new(&Endpoint::Tcp("127.0.0.1:9090".parse().unwrap()), &[], token, false);
        let unix = Admission::new(&Endpoint::Unix("/run/x".into()), &[], None, false);
        let certified = Admission::new(&Endpoint::Tcp("127.0.0.1:9090".parse().unwrap()), &[], None, true);
        let (open, closed) = (tcp(None), tcp(token()));
        let right = &["Bearer 0123456789abcdef"][..];
        let rows: [(&Admission, &str, &str, &[&str], u16); 29] = [
            (&unix, "POST", "/api/v1/servers", &[], 200),
            (&certified, "POST", "/api/v1/servers", &[], 200),
            (&certified, "GET", "/config", &[], 200),
            (&open, "GET", "/metrics", &[], 200),
            (&open, "HEAD", "/metrics", &[], 200),
            (&open, "GET", "/healthz", &[], 200),
            (&open, "GET", "/readyz", &[], 200),
            (&open, "POST", "/metrics", &[], 403),
            (&open, "GET", "/metrics/", &[], 403),
            (&open, "GET", "/", &[], 403),
            (&open, "GET", "/config", &[], 403),
            (&open, "GET", "/clients", &[], 403),
            (&open, "GET", "/dashboard", &[], 403),
            (&open, "GET", "/api/v1/status", right, 403),
            (&open, "POST", "/reload", &[], 403),
            (&closed, "GET", "/healthz", &[], 200),
            (&closed, "GET", "/dashboard", &[], 200),
            (&closed, "GET", "/dashboard/", &[], 401),
            (&closed, "POST", "/healthz", &[], 401),
            (&closed, "GET", "/metrics", &[], 401),
            (&closed, "POST", "/reload", &[], 401),
            (&closed, "GET", "/metrics", right, 200),
            (&closed, "POST", "/api/v1/servers", right, 200),
            (&closed, "GET", "/metrics", &["bearer 0123456789abcdef"], 200),
            (&closed, "GET", "/metrics", &["Bearer 0123456789abcdeg"], 401),
            (&closed, "GET", "/metrics", &["Bearer 0123456789abcde"], 401),
            (&closed, "GET", "/metrics", &["Basic 0123456789abcdef"], 401),
            (&closed, "GET", "/metrics", &["Bearer"], 401),
            (&closed, "GET", "/metrics", &["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"], 401),
        ];
        for (admission, method, path, values, expected) in rows {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| _ = headers.append("authorization", value.parse().unwrap()));
            let decision = admission.authenticate(&method.parse().unwrap(), path, &headers);
            assert_eq!(
                decision.map_or_else(|(status, _)| status.as_u16(), |_| 200),
                expected,
                "{method} {path} {values:?}"
            );
        }
    }
}
