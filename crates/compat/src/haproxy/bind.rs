//! Where a frontend listens: `bind` with its options, TLS, PROXY headers, timeouts of clients.

use std::path::PathBuf;

use super::Making;
use super::acl::Test;
use super::sections::Proxy;
use super::syntax::Line;
use super::template::Facts;
use crate::certificates::{EXPECTED, Pair, Version, keystore, policy};
use crate::files::Unread;
use crate::migration::{Place, absolute};
use crate::native::{Map, Value, duration};

/// Most ports of a range.
const MAX_PORTS: u16 = 64;
/// Most certificates of a frontend.
const MAX_PAIRS: usize = 10_000;

/// Addresses with one port and the same options.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    pub(crate) bind: Vec<String>,
    pub(crate) port: Option<u16>,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) place: Place,
}

/// Kinds of addresses that are for QUIC.
const QUIC: [&str; 2] = ["quic4@", "quic6@"];

/// The option of a socket that HTTP/3 is served beside, which no file says.
const HTTP3: &str = "(http3)";

/// Options that take no word behind them.
const SWITCHES: &[&str] = &[
    "accept-netscaler-cip",
    "accept-proxy",
    "allow-0rtt",
    "defer-accept",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "generate-certificates",
    "no-alpn",
    "no-ca-names",
    "no-sslv3",
    "no-strict-sni",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "prefer-client-ciphers",
    "quic-force-retry",
    "ssl",
    "strict-sni",
    "tfo",
    "tls-tickets",
    "transparent",
    "v4v6",
    "v6only",
];
/// Options that change nothing of what is served.
const HARMLESS: &[&str] = &[
    "allow-0rtt",
    "backlog",
    "defer-accept",
    "description",
    "ecdhe",
    "curves",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "sigalgs",
    "expose-fd",
    "id",
    "level",
    "mss",
    "name",
    "nice",
    "no-ca-names",
    "no-sslv3",
    "guid-prefix",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-strict-sni",
    "npn",
    "prefer-client-ciphers",
    "process",
    "severity-output",
    "shards",
    "tcp-md5sig",
    "tcp-ut",
    "tfo",
    "thread",
    "tls-ticket-keys",
    "tls-tickets",
    "ssl-min-ver",
    "ssl-max-ver",
    "dhparam",
    "ocsp-update",
    "ca-sign-file",
    "ca-sign-pass",
    "cc",
];
/// Options that are read where they count.
const CARRIED: &[&str] = &[
    "accept-proxy",
    "alpn",
    "ca-file",
    "ca-verify-file",
    "crl-file",
    "crt",
    "crt-list",
    "force-tlsv12",
    "force-tlsv13",
    "gid",
    "group",
    "mode",
    "no-alpn",
    "no-tlsv12",
    "no-tlsv13",
    "ssl",
    "strict-sni",
    "uid",
    "user",
    "v4v6",
    "v6only",
    "verify",
];
/// Options of a Unix socket that give it to somebody.
const OWNERS: [&str; 4] = ["user", "uid", "group", "gid"];

impl Socket {
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| name == option)
    }

    fn value(&self, option: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| name == option).map(|(_, value)| value.as_str())
    }
}

/// Reads one `bind`: its addresses with their ports, one socket for each port.
///
/// # Errors
/// Why it cannot be served.
fn read(line: &Line) -> Result<Vec<Socket>, String> {
    let mut options = Vec::new();
    let mut words = line.rest(2).iter();
    while let Some(word) = words.next() {
        let value =
            if SWITCHES.contains(&word.as_str()) { String::new() } else { words.next().cloned().unwrap_or_default() };
        if !HARMLESS.contains(&word.as_str()) && !CARRIED.contains(&word.as_str()) {
            return Err(format!("its option `{word}` is not known"));
        }
        options.push((word.clone(), value));
    }
    let is_v6_only = options.iter().any(|(name, _)| name == "v6only");
    let mut out: Vec<Socket> = Vec::new();
    for text in line.word(1).split(',') {
        for (bind, port) in addresses(text, !is_v6_only)? {
            match out.iter_mut().find(|socket| socket.port == port) {
                Some(socket) => socket.bind.push(bind),
                None => {
                    out.push(Socket { bind: vec![bind], port, options: options.clone(), place: line.place.clone() })
                }
            }
        }
    }
    Ok(out)
}

/// The native forms of an address with its ports.
fn addresses(text: &str, is_dual: bool) -> Result<Vec<(String, Option<u16>)>, String> {
    if let Some(path) = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text)) {
        return match path.starts_with('/') {
            true => Ok(vec![(format!("unix:{path}"), None)]),
            false => Err("a Unix socket that is no path".to_owned()),
        };
    }
    let is_v6 = text.starts_with("ipv6@") || text.starts_with("tcp6@");
    let kinds = ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"];
    let text = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    if text.contains('@') {
        return Err("a socket of a kind that is not read (abstract, inherited)".to_owned());
    }
    let (host, ports) = text.rsplit_once(':').ok_or("an address without a port")?;
    let (low, high) = ports.split_once('-').unwrap_or((ports, ports));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or("its port is no number");
    let (low, high) = (port(low)?, port(high)?);
    if high < low || high - low >= MAX_PORTS {
        return Err(format!("a range of more than {MAX_PORTS} ports"));
    }
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = match literal {
        "" | "*" if is_v6 && is_dual => String::new(),
        "" | "*" if is_v6 => "[::]".to_owned(),
        "" | "*" => "0.0.0.0".to_owned(),
        "::" if is_dual => String::new(),
        "localhost" => "127.0.0.1".to_owned(),
        other => match other.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(address)) => address.to_string(),
            Ok(std::net::IpAddr::V6(address)) => format!("[{address}]"),
            Err(_) => return Err("it names an address by a host name; write the address".to_owned()),
        },
    };
    Ok((low..=high).map(|port| (format!("{host}:{port}"), Some(port))).collect())
}

/// The sockets of a frontend: those with one port and the same options are one.
pub(crate) fn sockets(proxy: &Proxy, mut left_out: impl FnMut(&Line, &str)) -> Vec<Socket> {
    let mut out: Vec<Socket> = Vec::new();
    let is_quic = |line: &&Line| QUIC.iter().any(|kind| line.word(1).starts_with(kind));
    for line in proxy.all("bind").filter(|line| !is_quic(line)) {
        match read(line) {
            Err(why) => left_out(line, &format!("{why}; nothing listens there")),
            Ok(found) => {
                for socket in found {
                    match out.iter_mut().find(|other| other.port == socket.port && other.options == socket.options) {
                        Some(other) => other.bind.extend(
                            socket.bind.into_iter().filter(|bind| !other.bind.contains(bind)).collect::<Vec<_>>(),
                        ),
                        None => out.push(socket),
                    }
                }
            }
        }
    }
    without_parts(&mut out);
    for line in proxy.all("bind").filter(is_quic) {
        if let Err(why) = beside(line, &mut out) {
            left_out(line, why);
        }
    }
    out
}

/// Takes away what an address of both kinds has, too: `0.0.0.0:80` and `[::]:80` beside `:80`.
fn without_parts(sockets: &mut Vec<Socket>) {
    let whole: Vec<String> =
        sockets.iter().flat_map(|socket| &socket.bind).filter(|bind| bind.starts_with(':')).cloned().collect();
    let is_part =
        |bind: &String| whole.iter().any(|port| *bind == format!("0.0.0.0{port}") || *bind == format!("[::]{port}"));
    sockets.iter_mut().for_each(|socket| socket.bind.retain(|bind| !is_part(bind)));
    sockets.retain(|socket| !socket.bind.is_empty());
}

/// HTTP/3, beside TLS on the same addresses.
fn beside(line: &Line, sockets: &mut [Socket]) -> Result<(), &'static str> {
    for text in line.word(1).split(',') {
        let text = QUIC.iter().find_map(|kind| text.strip_prefix(kind)).ok_or("QUIC and TCP in one line")?;
        for (bind, port) in addresses(text, true).map_err(|_| "its address is not read")? {
            let socket = sockets
                .iter_mut()
                .find(|socket| socket.has("ssl") && socket.port == port && socket.bind.contains(&bind));
            let why = "HTTP/3 is served beside TLS on the same addresses, and no `bind … ssl` is there for them";
            socket.ok_or(why)?.options.push((HTTP3.to_owned(), String::new()));
        }
    }
    Ok(())
}

impl Making<'_> {
    /// A listener without what is done with its clients, and what is known of them.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub(crate) fn listener(&mut self, proxy: &Proxy, socket: &Socket) -> Result<(Map, Facts), String> {
        let mut native = Map::of([
            ("name", Value::text(self.listener_name(proxy, socket))),
            ("bind", Value::texts(socket.bind.iter().map(|bind| self.prefixed(bind)))),
        ]);
        native.comment(format!("{}: {}", socket.place, proxy.name));
        self.unix_socket(socket, &mut native);
        // Behind a PROXY header it is the one that the header names.
        let port = socket.port.filter(|_| !proxy.has_headers());
        let mut facts = Facts { tls: socket.has("ssl"), port, certificate: Some(false) };
        if socket.has("ssl") {
            let tls = self.tls(socket, proxy.is_tcp())?;
            facts.certificate = match tls.get("client_certificate") {
                Some(Value::Map(rule)) => (rule.get("mode") == Some(&Value::text("required"))).then_some(true),
                _ => Some(false),
            };
            native.set("tls", tls);
        }
        if socket.has(HTTP3) && !proxy.is_tcp() {
            native.set("http3", Value::plain(true));
        }
        if let Some(from) = self.proxy_protocol(proxy, socket) {
            native.set("proxy_protocol", from);
        }
        if !proxy.is_tcp() {
            let mut limits = Map::default();
            let header = proxy.timeout("http-request");
            let keep_alive = proxy.timeout("http-keep-alive").or(header).or(proxy.timeout("client"));
            for (key, time) in [
                ("client_idle_timeout", proxy.timeout("client")),
                ("request_header_timeout", header.or(proxy.timeout("client"))),
                ("keep_alive_timeout", keep_alive),
            ] {
                if let Some(time) = time {
                    limits.set(key, duration(time));
                }
            }
            if !limits.is_empty() {
                native.set("limits", limits);
            }
        }
        Ok((native, facts))
    }

    /// An address with what `unix-bind` puts before the paths of Unix sockets.
    fn prefixed(&self, bind: &str) -> String {
        let prefix = self.global.one("unix-bind").and_then(|line| line.after("prefix"));
        match (bind.strip_prefix("unix:"), prefix) {
            (Some(path), Some(prefix)) => format!("unix:{prefix}{path}"),
            _ => bind.to_owned(),
        }
    }

    /// Who may connect to a Unix socket: what it says, else what `unix-bind` does.
    fn unix_socket(&self, socket: &Socket, native: &mut Map) {
        if socket.port.is_some() {
            return;
        }
        let general = self.global.one("unix-bind");
        let said = |option: &str| socket.value(option).or_else(|| general.and_then(|line| line.after(option)));
        if let Some(mode) = said("mode") {
            native.set("unix_socket", Map::of([("mode", Value::text(mode))]));
        }
        for (option, value) in OWNERS.iter().filter_map(|option| Some((option, said(option)?))) {
            let why = "a socket belongs to the user of the process; a folder with `chmod g+s` gives it its group";
            native.comment(self.report.left_out(&socket.place, &format!("bind … {option} {value}"), why));
        }
    }

    fn listener_name(&self, proxy: &Proxy, socket: &Socket) -> String {
        let wanted = crate::migration::name_of(&proxy.name);
        let is_free = |name: &String| {
            let name = Value::text(name.as_str());
            !self.draft.listeners.iter().any(|listener| listener.get("name") == Some(&name))
        };
        let by_port = socket.port.map(|port| format!("{wanted}-{port}"));
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        [wanted.clone()].into_iter().chain(by_port).chain(numbered).find(is_free).unwrap_or_default()
    }

    /// PROXY headers: believed from those that a rule names, else from this machine alone.
    fn proxy_protocol(&self, proxy: &Proxy, socket: &Socket) -> Option<Map> {
        let expected = proxy.lines.iter().find(|line| line.word(0) == "tcp-request" && line.word(2) == "expect-proxy");
        let nobody = || Map::of([("trust", Value::texts(["127.0.0.1", "::1"]))]);
        if let Some(line) = expected {
            if let Some(networks) = self.expected.get(&line.place).filter(|networks| !networks.is_empty()) {
                let networks = networks.iter().map(|network| Value::text(network.to_string())).collect();
                return Some(Map::of([("trust", Value::List(networks)), ("header", Value::text("optional"))]));
            }
            let mut map = nobody();
            let why = "whose PROXY headers are believed is not known: name the balancers in `trust`";
            map.comment(self.report.left_out(&line.place, &line.shown(), why));
            return Some(map);
        }
        socket.has("accept-proxy").then(|| {
            let mut map = nobody();
            let why = "whose PROXY headers are believed is not said (HAProxy believes everybody): name the balancers in `trust`";
            map.comment(self.report.left_out(&socket.place, "bind … accept-proxy", why));
            map
        })
    }

    /// The networks of `expect-proxy`, as its condition names them.
    pub(crate) fn expected_from(condition: &super::acl::Condition) -> Vec<ipnet::IpNet> {
        match condition.alternatives.as_slice() {
            [all] => match all.as_slice() {
                [(false, acl)] => {
                    let of = acl.iter().map(|test| match test {
                        Test::Like(whens) if whens.iter().all(|when| when.is_of_clients()) => {
                            Some(whens.iter().flat_map(|when| when.client.clone()).collect::<Vec<_>>())
                        }
                        _ => None,
                    });
                    of.collect::<Option<Vec<_>>>().map(|found| found.concat()).unwrap_or_default()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn tls(&mut self, socket: &Socket, is_tcp: bool) -> Result<Map, String> {
        let pairs = self.pairs(socket)?;
        if pairs.is_empty() {
            return Err("no certificate is named".to_owned());
        }
        let store = keystore(&pairs, None, &mut self.files, &mut self.links, self.report);
        let name = self.draft.keystores.intern("main", store);
        let mut tls = Map::of([("keystore", Value::text(name))]);
        let alpn = socket.value("alpn").filter(|_| !socket.has("no-alpn"));
        if let Some(alpn) = alpn.filter(|alpn| *alpn != "h2,http/1.1" || is_tcp) {
            tls.set("alpn", Value::texts(alpn.split(',').filter(|one| *one != "http/1.0")));
        } else if socket.has("no-alpn") && !is_tcp {
            tls.set("alpn", "http/1.1");
        }
        if socket.has("strict-sni") {
            tls.set("strict_sni", Value::plain(true));
            tls.set("require_sni", Value::plain(true));
        }
        self.versions(socket, &mut tls);
        let verify = socket.value("verify").unwrap_or("none");
        if matches!(verify, "required" | "optional") {
            let ca =
                socket.value("ca-file").ok_or("client certificates are to be verified, and no authority is named")?;
            let ca = self.global.file("ca-base", &self.root, ca);
            let crl = socket.value("crl-file").map(|crl| self.global.file("ca-base", &self.root, crl));
            self.report.expect(&self.files, [Some(&ca), crl.as_ref()].into_iter().flatten(), &socket.place);
            let mut rule = Map::of([("mode", Value::text(verify)), ("ca", Value::text(absolute(&ca)))]);
            if let Some(crl) = crl {
                rule.set("crl", absolute(&crl));
            }
            tls.set("client_certificate", rule);
        } else if verify != "none" {
            return Err(format!("`verify {verify}` is not understood"));
        }
        Ok(tls)
    }

    /// Versions of TLS.
    fn versions(&self, socket: &Socket, tls: &mut Map) {
        let general = self.global.one("ssl-default-bind-options");
        let said = |name: &str| socket.value(name).or_else(|| general.and_then(|line| line.after(name)));
        let has = |name: &str| socket.has(name) || general.is_some_and(|line| line.has(name));
        let least =
            if has("force-tlsv13") || has("no-tlsv12") { "TLSv1.3" } else { said("ssl-min-ver").unwrap_or("TLSv1.2") };
        let most =
            if has("force-tlsv12") || has("no-tlsv13") { "TLSv1.2" } else { said("ssl-max-ver").unwrap_or("TLSv1.3") };
        let versions: &[Version] = match least {
            "TLSv1.3" => &[Version::Tls13],
            "TLSv1.2" => &[Version::Tls12, Version::Tls13],
            _ => &[Version::Old, Version::Tls12, Version::Tls13],
        };
        let (policy, missing) = policy(versions);
        if let Some(policy) = policy {
            tls.set("policy", policy);
        }
        if let Some(why) = missing {
            tls.comment(self.report.left_out(&socket.place, &format!("ssl-min-ver {least}"), why));
        }
        if most != "TLSv1.3" {
            let why = "the newest version is always offered";
            tls.comment(self.report.left_out(&socket.place, &format!("ssl-max-ver {most}"), why));
        }
    }

    /// The certificates of a socket: files, folders, lists of files.
    fn pairs(&mut self, socket: &Socket) -> Result<Vec<Pair>, String> {
        let mut out: Vec<Pair> = Vec::new();
        let named = |option: &str| -> Vec<String> {
            socket.options.iter().filter(|(name, _)| name == option).map(|(_, value)| value.clone()).collect()
        };
        for name in named("crt") {
            if name.starts_with('@') {
                return Err("certificates of a `crt-store`".to_owned());
            }
            let path = self.global.file("crt-base", &self.root, &name);
            self.pairs_of(path, &socket.place, &mut out);
        }
        for name in named("crt-list") {
            let list = self.root.join(&name);
            let text = match self.files.read(&list) {
                Ok(text) => text,
                Err(Unread::Absent(_)) => {
                    self.report.expect(&self.files, [&list], &socket.place);
                    let why = format!(
                        "which certificates it names, and what it says of their clients, is not known; link them in {EXPECTED}"
                    );
                    self.draft.comment(self.report.left_out(&socket.place, &format!("crt-list {name}"), &why));
                    out.push(Pair::folder(EXPECTED.into(), &socket.place));
                    continue;
                }
                Err(why) => return Err(format!("{}: {why}", list.display())),
            };
            for (at, line) in text.lines().enumerate() {
                let line = line.split('#').next().unwrap_or_default().trim();
                let Some(file) = line.split_whitespace().next() else { continue };
                let filters = line.split(']').next_back().unwrap_or_default();
                let filters: Vec<&str> = filters.split_whitespace().skip(usize::from(!line.contains(']'))).collect();
                let place = Place { file: list.display().to_string().into(), line: at + 1 };
                if !filters.is_empty() {
                    if socket.has("strict-sni") {
                        return Err(format!("names are picked from those of a certificate ({place})"));
                    }
                    let why = "a certificate is there for all names that it has";
                    self.draft.comment(self.report.left_out(&place, &filters.join(" "), why));
                }
                if let Some((_, options)) = line.split_once('[') {
                    let options = options.split(']').next().unwrap_or_default();
                    let decides = ["verify", "ca-file", "crl-file"].iter().any(|word| options.contains(word));
                    if decides {
                        return Err(format!("clients of single names are verified otherwise ({place})"));
                    }
                    let why = "names have the settings of their listener";
                    self.draft.comment(self.report.left_out(&place, &format!("[{options}]"), why));
                }
                let path = self.global.file("crt-base", &self.root, file);
                self.pairs_of(path, &place, &mut out);
            }
        }
        out.truncate(MAX_PAIRS);
        Ok(out)
    }

    fn pairs_of(&self, path: PathBuf, place: &Place, out: &mut Vec<Pair>) {
        let is_folder = self.files.is_folder(&path);
        if is_folder && !self.files.exists(&path) {
            return out.push(Pair::folder(path, place));
        }
        let found = match is_folder {
            true => self.files.matching(&path.join("*")),
            false => vec![path],
        };
        for certificate in found {
            let kind = certificate.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
            let is_other = is_folder
                && (matches!(kind, "key" | "ocsp" | "issuer" | "sctl" | "dh" | "crt-list")
                    || self.files.is_folder(&certificate));
            if is_other || out.iter().any(|other| other.certificate == certificate) {
                continue;
            }
            let mut key = certificate.clone().into_os_string();
            key.push(".key");
            let key = PathBuf::from(key);
            let key = (self.files.are_known() && self.files.exists(&key)).then_some(key);
            out.push(Pair::new(certificate, key, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on() {
        for (text, is_dual, expected) in [
            (":80", false, Some("0.0.0.0:80")),
            ("*:80", false, Some("0.0.0.0:80")),
            ("[::]:80", false, Some("[::]:80")),
            ("ipv6@:80", false, Some("[::]:80")),
            ("ipv6@:80", true, Some(":80")),
            (":::80", true, Some(":80")),
            ("127.0.0.1:8000-8002", false, Some("127.0.0.1:8000 127.0.0.1:8001 127.0.0.1:8002")),
            ("ipv6@[::1]:80", false, Some("[::1]:80")),
            ("unix@/run/a.sock", false, Some("unix:/run/a.sock")),
            ("/run/a.sock", false, Some("unix:/run/a.sock")),
            ("quic4@:443", false, None),
            ("abns@x", false, None),
            (":80-1000", false, None),
            (":x", false, None),
            ("www.example.com:80", false, None),
        ] {
            let found =
                addresses(text, is_dual).map(|all| all.into_iter().map(|(bind, _)| bind).collect::<Vec<_>>().join(" "));
            assert_eq!(found.ok().as_deref(), expected, "{text}");
        }
    }
}
