//! Addresses, host names and networks as people write them.
//!
//! Texts to values; resolves no name and opens no socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use ipnet::IpNet;

use super::{Build, Fault};
use crate::model::{Endpoint, HostPattern, Output, ServerAddress, Written};
use crate::problem::{Span, shown};

/// Longest path of a Unix socket: `sun_path` without its final NUL (unix(7)).
const MAX_UNIX_PATH_BYTES: usize = 107;

/// The only ways to an address: what a path in one leads to is noted, for the sandbox to leave it open.
impl Build<'_> {
    /// Where to listen, as it stands there; none if it is wrong, which is noted.
    pub(super) fn endpoints(&mut self, at: Span, text: &str) -> Option<Vec<Endpoint>> {
        let endpoints = bind(text, self.sources.folder(at));
        let endpoints = self.take(at, endpoints)?;
        let paths = endpoints.iter().filter_map(|endpoint| match endpoint {
            Endpoint::Unix(path) => Some(path.clone()),
            Endpoint::Tcp(_) => None,
        });
        self.written.extend(paths.map(|path| Written { path, what: "Unix socket", how: Output::Socket }));
        Some(endpoints)
    }

    /// The address of a server, as it stands there; none if it is wrong, which is noted.
    pub(super) fn server(&mut self, at: Span, text: &str, service: Service) -> Option<ServerAddress> {
        let address = server(text, self.sources.folder(at), service);
        let address = self.take(at, address)?;
        if let ServerAddress::Unix(path) = &address {
            self.sockets.insert(path.clone());
        }
        Some(address)
    }
}

/// Reads where to listen. `:443` is every IPv4 and every IPv6 address, so two endpoints.
fn bind(text: &str, base: &Path) -> Result<Vec<Endpoint>, Fault> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(vec![Endpoint::Unix(unix_path(path, base)?)]);
    }
    if let Some(port) = text.strip_prefix(':').or_else(|| text.strip_prefix("*:")).and_then(port_number) {
        if text.starts_with('*') {
            return Err(not_an_address(text, &format!("write `:{port}` for every address")));
        }
        let every = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        return Ok(every.map(|address| Endpoint::Tcp(SocketAddr::new(address, port))).to_vec());
    }
    match socket_address(text)? {
        Some(address) => Ok(vec![Endpoint::Tcp(address)]),
        None => Err(not_an_address(text, &bind_fix(text))),
    }
}

/// Reads an IP address with its port, and its interface where it needs one. None for what is none.
pub(super) fn socket_address(text: &str) -> Result<Option<SocketAddr>, Fault> {
    with_interface(text).unwrap_or_else(|| Ok(text.parse().ok()))
}

/// Reads a link-local address, which means nothing without an interface, and any other address that has one: `[fe80::1%eth0]:53` (RFC 4007 §11). None for
/// what is neither.
fn with_interface(text: &str) -> Option<Result<Option<SocketAddr>, Fault>> {
    let (literal, port) = text.strip_prefix('[')?.rsplit_once("]:")?;
    let (ip, interface) = match literal.split_once('%') {
        Some((ip, interface)) => (ip, Some(interface)),
        None => (literal, None),
    };
    let (ip, port) = (ip.parse::<Ipv6Addr>().ok()?, port_number(port)?);
    let fault = |what: &str, fix: String| Some(Err(Fault::new(format!("{} {what}", shown(text)), fix)));
    match interface {
        None if !ip.is_unicast_link_local() => None,
        None => fault("is a link-local address without its interface", format!("write `[{ip}%eth0]:{port}`")),
        Some(_) if !ip.is_unicast_link_local() => {
            fault("names an interface, and is not a link-local address", format!("write `[{ip}]:{port}`"))
        }
        Some(interface) => match net::listen::interface(interface) {
            Some(index) => Some(Ok(Some(SocketAddrV6::new(ip, port, 0, index).into()))),
            None => fault("names an interface that this machine has not", "`ip link` lists them".to_owned()),
        },
    }
}

fn not_an_address(text: &str, fix: &str) -> Fault {
    Fault::new(format!("{} is not an address to listen on", shown(text)), fix)
}

fn bind_fix(text: &str) -> String {
    if let Ok(address) = text.parse::<IpAddr>() {
        return format!("add a port: `{}`", SocketAddr::new(address, 443));
    }
    if let Some(port) = port_number(text) {
        return format!("write `:{port}` for every address");
    }
    match text.rsplit_once(':') {
        Some(("localhost", port)) if port_number(port).is_some() => {
            format!("write `127.0.0.1:{port}` or `[::1]:{port}`")
        }
        Some((host, port)) if port_number(port).is_some() => match host.parse::<Ipv6Addr>() {
            Ok(address) => format!("put brackets around the address: `[{address}]:{port}`"),
            Err(_) => format!("write an address of this machine, not a name: `:{port}` for all of them"),
        },
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => "use a port from 0 to 65535".to_owned(),
        _ => "write it as `0.0.0.0:443`, `[::]:443`, `:443` or `unix:/run/edge.sock`".to_owned(),
    }
}

/// What listens at an address, for what is said of one that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// HTTP, on 80 or, under TLS, on 443.
    Web,
    /// A key server, on 2407.
    Keys,
    /// A name server, on 53.
    Names,
    /// A Valkey or Redis, on 6379.
    Counters,
}

/// Reads the address of a server.
fn server(text: &str, base: &Path, service: Service) -> Result<ServerAddress, Fault> {
    let fault = |fix: String| Fault::new(format!("{} is not the address of a server", shown(text)), fix);
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(ServerAddress::Unix(unix_path(path, base)?));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.split('/').next().unwrap_or_default();
        let (port, tls) = match (service, scheme) {
            (Service::Keys, _) => (":2407", ""),
            (Service::Names, _) => (":53", ""),
            (Service::Counters, "rediss" | "valkeys") => (":6379", ", and `tls: true`"),
            (Service::Counters, _) => (":6379", ""),
            (Service::Web, "https") => (":443", ", and `tls: true` beside it"),
            (Service::Web, _) => (":80", ""),
        };
        let port = if rest.contains(':') { "" } else { port };
        return Err(fault(format!("write host and port only: {}{tls}", shown(&format!("{rest}{port}")))));
    }
    let port = match service {
        Service::Web => 80,
        Service::Keys => 2407,
        Service::Names => 53,
        Service::Counters => 6379,
    };
    match socket_address(text)? {
        Some(address) if address.port() != 0 => return Ok(ServerAddress::Ip(address)),
        Some(_) => return Err(fault("use a port from 1 to 65535".to_owned())),
        None => {}
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Err(fault(format!("add a port: `{}`", SocketAddr::new(address, port))));
    }
    let Some((name, port)) = text.rsplit_once(':') else {
        return Err(fault(format!("add a port: {}", shown(&format!("{text}:{port}")))));
    };
    let Some(port) = port_number(port).filter(|port| *port != 0) else {
        return Err(fault("use a port from 1 to 65535".to_owned()));
    };
    if let Ok(address) = name.parse::<Ipv6Addr>() {
        return Err(fault(format!("put brackets around the address: `[{address}]:{port}`")));
    }
    Ok(ServerAddress::Name(host_name(name)?, port))
}

/// Reads a name whose SRV records are asked for.
pub(super) fn service_name(text: &str) -> Result<String, Fault> {
    let fault = |fix: &str| Fault::new(format!("{} is not a name that has SRV records", shown(text)), fix);
    if text.contains(':') {
        return Err(fault("write the name without a port: the records say which"));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let fits = |label: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (1..=63).contains(&label.len()) && label.bytes().all(is_known)
    };
    if name.len() > 253 || !name.contains('.') || !name.split('.').all(fits) {
        return Err(fault("write it as `_http._tcp.app.internal`"));
    }
    Ok(name.to_ascii_lowercase())
}

fn port_number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn unix_path(path: &str, base: &Path) -> Result<PathBuf, Fault> {
    if path.is_empty() {
        return Err(Fault::new("`unix:` names no socket", "write its path: `unix:/run/portunus/edge.sock`"));
    }
    if path.starts_with('@') {
        return Err(Fault::new(
            "`unix:@…` means an abstract socket elsewhere, which anybody in the network namespace may connect to or take; here a socket is a file",
            "write a path: `unix:/run/portunus/edge.sock`; for a file whose name begins with `@`, `unix:./@name`",
        ));
    }
    let path = base.join(path);
    let length = path.as_os_str().len();
    if length > MAX_UNIX_PATH_BYTES {
        return Err(Fault::new(
            format!("the path of this Unix socket is {length} bytes long"),
            format!("choose one of at most {MAX_UNIX_PATH_BYTES} bytes"),
        ));
    }
    Ok(path)
}

/// Reads a host name: lower case, IDNA to A-labels (UTS 46), or an IPv6 literal in brackets.
pub(super) fn host_name(text: &str) -> Result<String, Fault> {
    let fault = |fix: &str| Fault::new(format!("{} is not a host name", shown(text)), fix);
    if let Some(literal) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr =
            literal.parse().map_err(|_| fault("write an IPv6 address between the brackets: `[::1]`"))?;
        return Ok(format!("[{address}]"));
    }
    if text.contains("://") || text.contains('/') {
        return Err(fault("write the name alone, without scheme and path"));
    }
    if text.contains(':') {
        return Err(fault("write the name without a port; an IPv6 address needs brackets"));
    }
    if text.ends_with('.') {
        return Err(fault("leave out the final dot"));
    }
    let ascii = Uts46::new()
        .to_ascii(text.as_bytes(), AsciiDenyList::EMPTY, Hyphens::Allow, DnsLength::Verify)
        .map_err(|_| fault("use labels of 1 to 63 letters, digits, `-` and `_`, with dots between"))?;
    let label = |label: &str| {
        !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
    };
    if ascii.split('.').all(label) {
        Ok(ascii.into_owned())
    } else {
        Err(fault("use labels of 1 to 63 letters, digits, `-` and `_`, with dots between"))
    }
}

/// Reads a host of a route or of TLS settings: a name, or `*.` and a name.
pub(super) fn host_pattern(text: &str) -> Result<HostPattern, Fault> {
    if let Some(parent) = text.strip_prefix("*.").filter(|parent| !parent.contains('*')) {
        return host_name(parent).map(HostPattern::Wildcard);
    }
    if text.contains('*') {
        return Err(Fault::new(
            format!("{} has a `*` where none can be", shown(text)),
            "use `*` only as the whole first label: `*.example.com`",
        ));
    }
    host_name(text).map(HostPattern::Exact)
}

/// Reads `host[:port]` as it may stand in a Host field.
pub(super) fn authority(text: &str) -> Result<String, Fault> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let host = host_name(host)?;
    match port {
        None => Ok(host),
        Some(port) => match port_number(port).filter(|port| *port != 0) {
            Some(port) => Ok(format!("{host}:{port}")),
            None => Err(Fault::new(format!("{} has no valid port", shown(text)), "use a port from 1 to 65535")),
        },
    }
}

/// Reads an address or a network.
pub(super) fn network(text: &str) -> Result<IpNet, Fault> {
    let fault = |fix: String| Fault::new(format!("{} is not an address or network", shown(text)), fix);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let network: IpNet =
        text.parse().map_err(|_| fault("write it as `10.0.0.0/8`, `192.0.2.1` or `fd00::/8`".to_owned()))?;
    if network.addr() == network.network() {
        Ok(network)
    } else {
        let written = format!("{} has bits set beyond its prefix", shown(text));
        Err(Fault::new(written, format!("write `{}`, or `{}` for that one address", network.trunc(), network.addr())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn tcp(text: &str) -> Endpoint {
        Endpoint::Tcp(text.parse().unwrap())
    }

    #[test]
    fn binds() {
        let check = |text: &str, expected: &[Endpoint]| {
            assert_eq!(bind(text, Path::new("/etc/p")).unwrap(), expected, "{text}")
        };
        check("0.0.0.0:443", &[tcp("0.0.0.0:443")]);
        check("[::]:443", &[tcp("[::]:443")]);
        check(":443", &[tcp("0.0.0.0:443"), tcp("[::]:443")]);
        check("127.0.0.1:0", &[tcp("127.0.0.1:0")]);
        check("unix:/run/a.sock", &[Endpoint::Unix("/run/a.sock".into())]);
        check("unix:a.sock", &[Endpoint::Unix("/etc/p/a.sock".into())]);
    }

    #[test]
    fn binds_rejected_with_the_fix() {
        let check = |text: &str, fix: &str| assert_eq!(bind(text, Path::new("")).unwrap_err().fix, fix, "{text}");
        check("0.0.0.0", "add a port: `0.0.0.0:443`");
        check("::1", "add a port: `[::1]:443`");
        check("fe80::1:x", "write it as `0.0.0.0:443`, `[::]:443`, `:443` or `unix:/run/edge.sock`");
        check("*:443", "write `:443` for every address");
        check("localhost:80", "write `127.0.0.1:80` or `[::1]:80`");
        check("www.example.com:443", "write an address of this machine, not a name: `:443` for all of them");
        check("0.0.0.0:65536", "use a port from 0 to 65535");
        check("443", "write `:443` for every address");
        check("unix:", "write its path: `unix:/run/portunus/edge.sock`");
        check(&format!("unix:/{}", "x".repeat(107)), "choose one of at most 107 bytes");
    }

    #[test]
    fn servers() {
        let check = |text: &str, expected: ServerAddress| {
            assert_eq!(server(text, Path::new(""), Service::Web).unwrap(), expected, "{text}")
        };
        check("127.0.0.1:9000", ServerAddress::Ip("127.0.0.1:9000".parse().unwrap()));
        check("[::1]:9000", ServerAddress::Ip("[::1]:9000".parse().unwrap()));
        check("App.Internal:8080", ServerAddress::Name("app.internal".into(), 8080));
        check("my_app:80", ServerAddress::Name("my_app".into(), 80));
        check("unix:/run/app.sock", ServerAddress::Unix("/run/app.sock".into()));
    }

    #[test]
    fn servers_rejected_with_the_fix() {
        let rejected = |text: &str, service| server(text, Path::new(""), service).unwrap_err().fix;
        let check = |text: &str, fix: &str| assert_eq!(rejected(text, Service::Web), fix, "{text}");
        check("https://app.internal/x", "write host and port only: `app.internal:443`, and `tls: true` beside it");
        check("http://app.internal:8080", "write host and port only: `app.internal:8080`");
        check("app.internal", "add a port: `app.internal:80`");
        check("10.0.0.1", "add a port: `10.0.0.1:80`");
        check("app.internal:0", "use a port from 1 to 65535");
        check("127.0.0.1:0", "use a port from 1 to 65535");
        check("fd00::1:9000x", "use a port from 1 to 65535");
        for (text, fix) in [
            ("keys.internal", "add a port: `keys.internal:2407`"),
            ("10.0.0.1", "add a port: `10.0.0.1:2407`"),
            ("https://10.0.0.1:2500", "write host and port only: `10.0.0.1:2500`"),
            ("tls://keys.internal", "write host and port only: `keys.internal:2407`"),
        ] {
            assert_eq!(rejected(text, Service::Keys), fix, "{text}");
        }
        check("user@app:80", "use labels of 1 to 63 letters, digits, `-` and `_`, with dots between");
    }

    #[test]
    fn hosts() {
        let check = |text: &str, expected: &str| assert_eq!(host_name(text).unwrap(), expected, "{text}");
        check("WWW.Example.COM", "www.example.com");
        check("bücher.example", "xn--bcher-kva.example");
        check("Bu\u{308}cher.example", "xn--bcher-kva.example");
        check("faß.de", "xn--fa-hia.de");
        check("xn--bcher-kva.example", "xn--bcher-kva.example");
        check("a_b.internal", "a_b.internal");
        check("[0:0::1]", "[::1]");
        check("192.0.2.1", "192.0.2.1");
        let long = "a".repeat(64);
        for wrong in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "a b",
            "a:80",
            "http://a",
            "a/b",
            "-a.b",
            "a-.b",
            "a@b",
            "[::g]",
            "::1",
            "xn--\u{fc}",
            &long,
        ] {
            assert!(host_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns() {
        let exact = |name: &str| HostPattern::Exact(name.into());
        let wildcard = |name: &str| HostPattern::Wildcard(name.into());
        let check = |text: &str, expected: HostPattern| assert_eq!(host_pattern(text).unwrap(), expected, "{text}");
        check("www.Example.com", exact("www.example.com"));
        check("*.Example.com", wildcard("example.com"));
        check("*.bücher.example", wildcard("xn--bcher-kva.example"));
        for wrong in ["*", "a.*.b", "*a.b", "*.*.b", "**.b", "*.", "a*"] {
            assert!(host_pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks() {
        let check = |text: &str, expected: &str| assert_eq!(network(text).unwrap().to_string(), expected, "{text}");
        check("10.0.0.0/8", "10.0.0.0/8");
        check("192.0.2.1", "192.0.2.1/32");
        check("fd00::/8", "fd00::/8");
        assert_eq!(network("10.1.2.3/8").unwrap_err().fix, "write `10.0.0.0/8`, or `10.1.2.3` for that one address");
        for wrong in ["", "10.0.0.0/33", "10.0.0", "localhost", "0/0"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn authorities() {
        let check = |text: &str, expected: &str| assert_eq!(authority(text).unwrap(), expected, "{text}");
        check("App.internal:8080", "app.internal:8080");
        check("app.internal", "app.internal");
        check("[::1]:80", "[::1]:80");
        check("[::1]", "[::1]");
        for wrong in ["", "a:", "a:0", "a:99999", "a:b:1", "a@b", ":80"] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }
}
