//! Where nginx listens, and which server a request goes to: sockets, default servers, names.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::syntax::Directive;
use crate::addresses::is_host;
use crate::migration::{Place, Report};
use crate::native::{Map, Value};

/// A socket, as nginx tells them apart: by address and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Socket {
    /// As it is bound natively. Both families where nginx binds both with one socket.
    pub(crate) bind: Vec<String>,
    /// None of a Unix socket.
    pub(crate) port: Option<u16>,
    pub(crate) tls: bool,
    pub(crate) http2: bool,
    /// Whether HTTP/3 is served beside it.
    pub(crate) http3: bool,
    pub(crate) proxy_protocol: bool,
    /// Servers, by position, in the order of the file.
    pub(crate) servers: Vec<usize>,
    /// The one for requests that no name fits.
    pub(crate) default: usize,
    has_default: bool,
}

/// What one `listen` says.
#[derive(Debug, Clone, Default)]
struct Listen {
    bind: Vec<String>,
    port: Option<u16>,
    tls: bool,
    http2: bool,
    proxy_protocol: bool,
    is_udp: bool,
    is_quic: bool,
    is_default: bool,
}

/// The names of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Native host patterns, in the order of the file.
    pub(crate) hosts: Vec<String>,
    /// The first name, as it is written.
    pub(crate) first: String,
    /// Whether requests go to this server by names that cannot be carried.
    pub(crate) are_lost: bool,
    /// Whether requests that name no host go to it, if it is the first of these.
    pub(crate) is_nameless: bool,
}

/// Options of `listen` that change nothing of what is served.
const OPTIONS: [&str; 15] = [
    "reuseport",
    "deferred",
    "bind",
    "ipv6only=on",
    "ipv6only=off",
    "so_keepalive",
    "backlog",
    "rcvbuf",
    "sndbuf",
    "fastopen",
    "setfib",
    "accept_filter",
    "spdy",
    "multipath",
    "rtt",
];

/// The sockets of servers, which are given in the order of the file.
pub(crate) fn sockets(servers: &[&Directive], report: &Report, comments: &mut Vec<String>) -> Vec<Socket> {
    let mut sockets: Vec<Socket> = Vec::new();
    let mut of_quic: Vec<(Vec<String>, Place, String)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let mut listens: Vec<&Directive> =
            server.inner().iter().filter(|directive| directive.name == "listen").collect();
        let implied = Directive {
            name: "listen".to_owned(),
            args: vec!["80".to_owned()],
            block: None,
            place: server.place.clone(),
        };
        if listens.is_empty() {
            listens.push(&implied);
        }
        // Before `listen … ssl` there was a switch for the server.
        let is_tls = server.inner().iter().any(|directive| directive.name == "ssl" && directive.arg(0) == "on");
        let is_http2 = server.inner().iter().any(|directive| directive.name == "http2" && directive.arg(0) == "on");
        for directive in listens {
            match listen(directive) {
                Ok(listen) if listen.is_udp => {
                    comments.push(report.left_out(&directive.place, &directive.shown(), "a UDP port"));
                }
                Ok(listen) if listen.is_quic => {
                    let is_off = |one: &Directive| one.name == "http3" && one.arg(0) == "off";
                    if !server.inner().iter().any(is_off) {
                        of_quic.push((listen.bind, directive.place.clone(), directive.shown()));
                    }
                }
                Ok(mut listen) => {
                    listen.tls |= is_tls;
                    listen.http2 |= is_http2;
                    add(&mut sockets, listen, at);
                }
                Err(why) => comments.push(report.left_out(&directive.place, &directive.shown(), why)),
            }
        }
    }
    for (bind, place, shown) in of_quic {
        match sockets.iter_mut().find(|socket| socket.tls && socket.bind == bind) {
            Some(socket) => socket.http3 = true,
            None => {
                let why = "HTTP/3 is served beside TLS on the same addresses, and no `listen … ssl` is there for them";
                comments.push(report.left_out(&place, &shown, why));
            }
        }
    }
    sockets
}

/// The port that a server tells clients to find HTTP/3 at, on the same host (RFC 7838 §3).
pub(crate) fn advertised(server: &Directive) -> Option<u16> {
    let of = |directive: &Directive| {
        let is_named = directive.name == "add_header" && directive.arg(0).eq_ignore_ascii_case("alt-svc");
        let value = directive.arg(1).split("h3=\":").nth(1).filter(|_| is_named)?;
        value.split('"').next()?.parse().ok()
    };
    server.inner().iter().find_map(of).or_else(|| server.inner().iter().find_map(advertised))
}

fn add(sockets: &mut Vec<Socket>, listen: Listen, server: usize) {
    if let Some(socket) = sockets.iter_mut().find(|socket| socket.bind == listen.bind) {
        socket.tls |= listen.tls;
        socket.http2 |= listen.http2;
        socket.proxy_protocol |= listen.proxy_protocol;
        if !socket.servers.contains(&server) {
            socket.servers.push(server);
        }
        if listen.is_default && !socket.has_default {
            socket.default = server;
            socket.has_default = true;
        }
        return;
    }
    sockets.push(Socket {
        bind: listen.bind,
        port: listen.port,
        tls: listen.tls,
        http2: listen.http2,
        http3: false,
        proxy_protocol: listen.proxy_protocol,
        servers: vec![server],
        default: server,
        has_default: listen.is_default,
    });
}

/// The sockets of a server of `stream`, and whether they are for datagrams. Those that are served in the same way are one.
pub(crate) fn of_stream(server: &Directive, report: &Report, comments: &mut Vec<String>) -> Vec<(Socket, bool)> {
    let mut out: Vec<(Socket, bool)> = Vec::new();
    for directive in server.inner().iter().filter(|directive| directive.name == "listen") {
        let listen = match listen(directive) {
            Ok(listen) => listen,
            Err(why) => {
                comments.push(report.left_out(&directive.place, &directive.shown(), why));
                continue;
            }
        };
        let socket = Socket {
            http3: false,
            bind: listen.bind,
            port: listen.port,
            tls: listen.tls,
            // Which protocols are spoken within TLS is not known.
            http2: true,
            proxy_protocol: listen.proxy_protocol,
            servers: vec![0],
            default: 0,
            has_default: true,
        };
        let alike = |(other, is_udp): &&mut (Socket, bool)| {
            let way = |socket: &Socket| (socket.tls, socket.proxy_protocol, socket.port.is_some());
            *is_udp == listen.is_udp && way(other) == way(&socket)
        };
        match out.iter_mut().find(alike) {
            Some((other, _)) => other.bind.extend(socket.bind),
            None => out.push((socket, listen.is_udp)),
        }
    }
    out.iter_mut().for_each(|(socket, _)| socket.bind = joined(std::mem::take(&mut socket.bind)));
    out
}

/// Reads one `listen`.
fn listen(directive: &Directive) -> Result<Listen, &'static str> {
    let options = directive.args.get(1..).unwrap_or_default();
    let is_dual = options.iter().any(|option| option == "ipv6only=off");
    let (bind, port) = address(directive.arg(0), is_dual)?;
    let mut out = Listen { bind, port, ..Listen::default() };
    for option in options {
        match option.as_str() {
            "ssl" => out.tls = true,
            "http2" => out.http2 = true,
            "proxy_protocol" => out.proxy_protocol = true,
            "default_server" | "default" => out.is_default = true,
            "quic" | "http3" => out.is_quic = true,
            "udp" => out.is_udp = true,
            other => {
                let name = other.split_once('=').map_or(other, |(name, _)| name);
                if !OPTIONS.contains(&other) && !OPTIONS.contains(&name) {
                    return Err("an option of it is not known");
                }
            }
        }
    }
    Ok(out)
}

/// The native form of an address to listen on, and its port.
pub(crate) fn address(text: &str, is_dual: bool) -> Result<(Vec<String>, Option<u16>), &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.starts_with('/') {
            true => Ok((vec![format!("unix:{path}")], None)),
            false => Err("a Unix socket that is no path"),
        };
    }
    let port_of = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let every = |port: u16| Ok((vec![format!("0.0.0.0:{port}")], Some(port)));
    if let Some(port) = port_of(text) {
        return every(port);
    }
    let is_v6 = text.starts_with('[');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_v6 || host.ends_with(']') => (host, port_of(port).ok_or("its port is not a number")?),
        _ => (text, 80),
    };
    if host == "*" {
        return every(port);
    }
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = literal.parse::<IpAddr>() {
        let bind = match address {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) if is_dual => format!(":{port}"),
            address => SocketAddr::new(address, port).to_string(),
        };
        return Ok((vec![bind], Some(port)));
    }
    match host {
        "localhost" => Ok((vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port).to_string()], Some(port))),
        _ => Err("it names an address by a host name; write the address"),
    }
}

/// Whoever is on the machine may connect to nginx's Unix sockets.
pub(crate) fn open_unix_socket(socket: &Socket, native: &mut Map) {
    if socket.port.is_none() {
        native.set("unix_socket", Map::of([("mode", Value::text("0666"))]));
    }
}

/// Addresses of one port in both families, as one.
pub(crate) fn joined(mut bind: Vec<String>) -> Vec<String> {
    let ports: BTreeSet<String> =
        bind.iter().filter_map(|address| address.strip_prefix("0.0.0.0:")).map(str::to_owned).collect();
    for port in ports {
        let v6 = format!("[::]:{port}");
        if bind.contains(&v6) {
            let v4 = format!("0.0.0.0:{port}");
            bind.retain(|address| *address != v6);
            bind.iter_mut().filter(|address| **address == v4).for_each(|address| *address = format!(":{port}"));
        }
    }
    bind
}

/// Reads the names of a server. What cannot be a native host is left out.
pub(crate) fn names(server: &Directive, report: &Report, comments: &mut Vec<String>) -> Names {
    let mut out = Names::default();
    let mut seen = BTreeSet::new();
    for directive in server.inner().iter().filter(|directive| directive.name == "server_name") {
        for name in &directive.args {
            if out.first.is_empty() {
                out.first = name.trim_start_matches('.').to_ascii_lowercase();
            }
            match hosts(name) {
                Ok(hosts) => out.hosts.extend(hosts.into_iter().filter(|host| seen.insert(host.clone()))),
                Err(why) => {
                    out.are_lost = true;
                    comments.push(report.left_out(&directive.place, &format!("server_name {name}"), why));
                }
            }
        }
    }
    let mut all = server.inner().iter().filter(|directive| directive.name == "server_name").flat_map(|one| &one.args);
    out.is_nameless = all.clone().next().is_none() || all.any(String::is_empty);
    if out.first.starts_with(['_', '~', '*']) {
        out.first.clear();
    }
    out
}

/// The native hosts of a name.
pub(crate) fn hosts(name: &str) -> Result<Vec<String>, &'static str> {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with('~') {
        return Err("hosts are no regular expressions; requests for them go to the default server");
    }
    // Names that no request has.
    if lower.contains('$') {
        return Err("a name of this machine; requests for it go to the default server");
    }
    if matches!(lower.as_str(), "" | "_" | "__" | "-" | "--" | "!" | "@" | "#") {
        return Ok(Vec::new());
    }
    if lower.ends_with(".*") {
        return Err("a wildcard at the end; requests for such names go to the default server");
    }
    if let Some(parent) = lower.strip_prefix('.') {
        return is_host(parent).then(|| vec![parent.to_owned(), format!("*.{parent}")]).ok_or("no host name");
    }
    let plain = lower.strip_prefix("*.").unwrap_or(&lower);
    is_host(plain).then(|| vec![lower.clone()]).ok_or("no host name")
}

/// The server of a socket, by its position, that requests for a host go to: by its name, by the longest wildcard, or the default.
pub(crate) fn server_of<'n>(host: &str, socket: &Socket, names: impl Fn(usize) -> Option<&'n Names>) -> usize {
    let with = |name: &str| {
        let has = |at: &&usize| names(**at).is_some_and(|names| names.hosts.iter().any(|own| own == name));
        socket.servers.iter().find(has).copied()
    };
    let mut rest = host.strip_prefix("*.").unwrap_or(host);
    let mut found = with(host);
    while let (None, Some((_, parent))) = (found, rest.split_once('.')) {
        found = with(&format!("*.{parent}"));
        rest = parent;
    }
    found.unwrap_or(socket.default)
}

/// Whether a request for `host` goes to a wildcard among these.
pub(crate) fn is_below(host: &str, patterns: &BTreeSet<String>) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let mut rest = name;
    if host.starts_with("*.") && patterns.iter().any(|pattern| pattern.strip_prefix("*.") == Some(name)) {
        return true;
    }
    while let Some((_, parent)) = rest.split_once('.') {
        if patterns.contains(&format!("*.{parent}")) {
            return true;
        }
        rest = parent;
    }
    false
}

/// A listener: sockets that serve the same in the same way.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) socket: Socket,
}

/// The listeners for sockets; those that differ in their address alone are one.
pub(crate) fn listeners(sockets: &[Socket]) -> Vec<Listener> {
    let mut out: Vec<Listener> = Vec::new();
    for socket in sockets {
        let alike = |other: &&mut Listener| {
            let same = Socket { bind: socket.bind.clone(), has_default: socket.has_default, ..other.socket.clone() };
            same == *socket
        };
        if let Some(listener) = out.iter_mut().find(alike) {
            listener.socket.bind.extend(socket.bind.iter().cloned());
            continue;
        }
        let scheme = if socket.tls { "https" } else { "http" };
        let wanted = match socket.port {
            Some(80 | 443) => scheme.to_owned(),
            Some(port) => format!("{scheme}-{port}"),
            None => format!("{scheme}-unix"),
        };
        let is_free = |name: &String| !out.iter().any(|listener| listener.name == *name);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let name = std::iter::once(wanted.clone()).chain(numbered).find(is_free).unwrap_or_default();
        out.push(Listener { name, socket: socket.clone() });
    }
    out.iter_mut().for_each(|listener| listener.socket.bind = joined(std::mem::take(&mut listener.socket.bind)));
    out
}

/// A comment for a server that no request reaches.
pub(crate) fn unreachable(place: &Place) -> String {
    format!("{place}: no request reaches this server: others have its names, and it is no default")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses() {
        for (text, is_dual, expected) in [
            ("80", false, Some("0.0.0.0:80")),
            ("*:8080", false, Some("0.0.0.0:8080")),
            ("192.0.2.1", false, Some("192.0.2.1:80")),
            ("[::]:80", false, Some("[::]:80")),
            ("[::]:80", true, Some(":80")),
            ("[::1]", false, Some("[::1]:80")),
            ("localhost:8000", false, Some("127.0.0.1:8000")),
            ("unix:/run/a.sock", false, Some("unix:/run/a.sock")),
            ("unix:a", false, None),
            ("www.example.com:80", false, None),
            ("*:x", false, None),
            ("0", false, None),
        ] {
            let found = address(text, is_dual).map(|(bind, _)| bind.join(" ")).ok();
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        let both = ["0.0.0.0:80", "[::]:80", "[::]:81"].map(str::to_owned).to_vec();
        assert_eq!(joined(both), [":80", "[::]:81"]);
    }

    #[test]
    fn hosts_of_names() {
        for (name, expected) in [
            ("www.Example.com", Some("www.example.com")),
            ("*.example.com", Some("*.example.com")),
            (".example.com", Some("example.com *.example.com")),
            ("_", Some("")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("my_app", Some("my_app")),
            ("~^x", None),
            ("www.*", None),
            ("a b", None),
        ] {
            assert_eq!(hosts(name).map(|hosts| hosts.join(" ")).ok().as_deref(), expected, "{name}");
        }
        let patterns: BTreeSet<String> = ["*.b.test", "*.test"].map(str::to_owned).into();
        for (host, expected) in
            [("a.b.test", true), ("b.test", true), ("test", false), ("*.b.test", true), ("*.c.test", true)]
        {
            assert_eq!(is_below(host, &patterns), expected, "{host}");
        }
    }
}
