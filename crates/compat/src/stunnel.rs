//! `portunus import stunnel FILE`: stunnel's services as listeners with a tunnel and an upstream each.
//!
//! A service that terminates TLS becomes a listener with `tls`, one with `client = yes` an upstream with it; services by server name become rules of the
//! service that they belong to. What decides who may come in and cannot be carried closes its service: it is left out. `docs/migration.md` is the guide.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::Front;
use crate::addresses::is_host;
use crate::certificates::{self, Links, Pair, Version, keystore, policy};
use crate::draft::Draft;
use crate::files::Files;
use crate::migration::{self, Given, Place, Problem, Report, absolute, shown};
use crate::native::{Map, Value};

/// What `--help` prints.
const USAGE: &str = "\
Usage: portunus import stunnel [--keys FOLDER] [--files-from FOLDER] FILE

Prints the native configuration for FILE (stunnel.conf; `-` is standard input).

  --keys FOLDER   make FOLDER with links to the certificates and keys that FILE names, and serve it
  --files-from FOLDER  look for FILE and what it names in FOLDER, which holds a copy of the other machine's files (/etc/x is FOLDER/etc/x)

Exit status: 0 if everything was carried, 1 if something was left out (each such thing is a comment with file, line and reason), 2 if nothing was written.
";

/// Most lines with something in them.
const MAX_LINES: usize = 50_000;
/// stunnel ends a connection without a byte after this time, seconds.
const IDLE: u64 = 43_200;

/// A line of a service: its name in small letters, its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    name: String,
    value: String,
    place: Place,
}

impl Line {
    fn shown(&self) -> String {
        shown(&format!("{} = {}", self.name, self.value))
    }
}

/// A service, with what holds for all before its own.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Service {
    name: String,
    lines: Vec<Line>,
    place: Place,
}

impl Service {
    fn one(&self, name: &str) -> Option<&Line> {
        self.lines.iter().rev().find(|line| line.name == name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.one(name).map(|line| line.value.as_str())
    }

    fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text.eq_ignore_ascii_case("yes"))
    }

    fn seconds(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(|text| text.parse().ok()).filter(|seconds| (1..=86_400).contains(seconds))
    }

    fn is_client(&self) -> bool {
        self.is_on("client")
    }

    /// The service that it belongs to, and the names that it is for.
    fn belongs_to(&self) -> Option<(&str, &str)> {
        self.text("sni").filter(|_| !self.is_client()).and_then(|sni| sni.split_once(':'))
    }
}

/// Prints the native configuration.
pub fn import(words: &[OsString]) -> Front {
    let Given { path, text, files, keys, .. } = match Given::read_one(words, USAGE) {
        Ok(given) => given,
        Err(ended) => return ended,
    };
    let report = Report::default();
    let made = translate(files, (&path, &text), Links { folder: keys, links: Vec::new() }, &report);
    certificates::printed(&format!("stunnel {}", path.display()), made, &report)
}

/// Makes a native configuration of a text alone, which names no files.
///
/// # Errors
/// What is wrong with the text, with its place; or, of what was made of it, why that is none.
pub fn of_text(text: &str) -> Result<Result<String, Vec<String>>, String> {
    let report = Report::default();
    let files = Files::given(BTreeMap::new());
    let made = translate(files, (Path::new("stunnel.conf"), text), Links::default(), &report);
    let (root, _) = made.map_err(|problem| problem.to_string())?;
    let text = migration::served(root, &report).write();
    Ok(migration::accepted(&text).map(|()| text))
}

/// Reads the services of a file.
fn read(name: &str, text: &str) -> Result<(Vec<Line>, Vec<Service>), Problem> {
    let file: Rc<str> = name.into();
    let mut general: Vec<Line> = Vec::new();
    let mut services: Vec<Service> = Vec::new();
    for (number, raw) in text.lines().enumerate() {
        let place = Place { file: Rc::clone(&file), line: number + 1 };
        let line = raw.strip_prefix('\u{feff}').unwrap_or(raw).trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if number > MAX_LINES {
            return Err(Problem::new(&place, format!("more than {MAX_LINES} lines")));
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| Problem::new(&place, "a `[` is not closed"))?.trim();
            services.push(Service { name: name.to_owned(), lines: Vec::new(), place });
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::new(&place, "it is no `name = value`"))?;
        let line = Line { name: name.trim().to_ascii_lowercase(), value: value.trim().to_owned(), place };
        match services.last_mut() {
            Some(service) => service.lines.push(line),
            None => general.push(line),
        }
    }
    let lines = services.len().saturating_mul(general.len());
    if lines > 1_000_000 {
        let place = services.first().map(|service| service.place.clone());
        return Err(place.map_or_else(
            || Problem::new(&Place { file, line: 1 }, "too many lines"),
            |place| Problem::new(&place, "too many services with too many settings of all"),
        ));
    }
    // What stands before the first service holds for all of them.
    for service in &mut services {
        let own = std::mem::take(&mut service.lines);
        service.lines = general.iter().cloned().chain(own).collect();
    }
    Ok((general, services))
}

/// Options that have no meaning here, are done by themselves, or are read where they count.
const KNOWN: &[&str] = &[
    "accept",
    "capath",
    "cafile",
    "cert",
    "checkhost",
    "checkip",
    "chroot",
    "ciphers",
    "ciphersuites",
    "client",
    "compression",
    "config",
    "connect",
    "crlfile",
    "curves",
    "debug",
    "delay",
    "egd",
    "engine",
    "enginectrl",
    "enginedefault",
    "engineid",
    "enginenum",
    "failover",
    "fips",
    "foreground",
    "key",
    "libwrap",
    "local",
    "log",
    "logid",
    "options",
    "output",
    "pid",
    "protocol",
    "renegotiation",
    "requirecert",
    "reset",
    "rndbytes",
    "rndfile",
    "rndoverwrite",
    "securitylevel",
    "service",
    "sessioncachesize",
    "sessioncachetimeout",
    "sessionresume",
    "setgid",
    "setuid",
    "sni",
    "socket",
    "sslversion",
    "sslversionmax",
    "sslversionmin",
    "stack",
    "syslog",
    "taskbar",
    "ticketkeysecret",
    "ticketmacsecret",
    "timeoutbusy",
    "timeoutclose",
    "timeoutconnect",
    "timeoutidle",
    "timeoutocsp",
    "transparent",
    "verify",
    "verifychain",
    "verifypeer",
    "iconactive",
    "iconerror",
    "iconidle",
];
/// Folders of `CApath` that are where systems have the authorities that all programs trust.
const SYSTEM_AUTHORITIES: [&str; 3] = ["/etc/ssl/certs", "/etc/pki/tls/certs", "/usr/lib/ssl/certs"];
/// Options that decide who may come in, or what is done with them, in a way that is not there.
const CLOSING: &[&str] = &[
    "exec",
    "execargs",
    "redirect",
    "pskidentity",
    "psksecrets",
    "ident",
    "checkemail",
    "crlpath",
    "ocsp",
    "ocspaia",
    "ocsprequire",
    "pty",
    "sessiond",
    "include",
];

struct Making<'m> {
    report: &'m Report,
    draft: Draft,
    files: Files,
    links: Links,
    root: PathBuf,
}

fn translate(
    files: Files,
    (path, text): (&Path, &str),
    links: Links,
    report: &Report,
) -> Result<(Map, Links), Problem> {
    let name = path.display().to_string();
    let (general, services) = read(&name, text)?;
    let root = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut making = Making { report, draft: Draft::default(), files, links, root };
    // A file without services is one for inetd.
    let place =
        general.first().map(|line| line.place.clone()).or(services.first().map(|service| service.place.clone()));
    let place = place.unwrap_or_else(|| Place { file: name.as_str().into(), line: 1 });
    for service in &services {
        if service.belongs_to().is_some() {
            let is_there = |main: &str| services.iter().any(|other| other.name == main && other.belongs_to().is_none());
            if !service.belongs_to().is_some_and(|(main, _)| is_there(main)) {
                making.left_out(service, "the service that it belongs to is not there");
            }
            continue;
        }
        let inner: Vec<&Service> =
            services.iter().filter(|other| other.belongs_to().is_some_and(|(main, _)| main == service.name)).collect();
        if let Err(why) = making.service(service, &inner) {
            making.left_out(service, &why);
        }
    }
    match making.draft.listeners.is_empty() {
        true => {
            let why = report.all_left_out().into_iter().next().map_or(String::new(), |first| format!("; {first}"));
            Err(Problem::new(&place, format!("no service of it can be carried{why}")))
        }
        false => Ok((making.draft.into_map(), making.links)),
    }
}

impl Making<'_> {
    fn left_out(&mut self, service: &Service, why: &str) {
        let what = format!("[{}]", service.name);
        let comment = self.report.left_out(&service.place, &what, &format!("{why}; the service is left out"));
        self.draft.comment(comment);
    }

    /// A service, with those that it has for single names.
    fn service(&mut self, service: &Service, inner: &[&Service]) -> Result<(), String> {
        decides(service)?;
        let bind = service.text("accept").ok_or("it says no `accept`")?;
        let bind = listening(bind).ok_or_else(|| format!("`accept = {bind}` is no address"))?;
        let mut comments = self.audit(service);
        let mut listener = Map::of([("name", Value::text(self.free(&service.name))), ("bind", Value::text(bind))]);
        listener.comment(format!("{}: [{}]", service.place, service.name));
        let mut rules = Vec::new();
        let mut pairs = Vec::new();
        if !service.is_client() {
            pairs.push(self.pair(service)?);
        }
        for other in inner {
            match self.named(service, other, &mut pairs) {
                Ok(rule) => rules.push(rule),
                // A name whose service is not there would go to the main one.
                Err(why) => return Err(format!("[{}] ({}): {why}", other.name, other.place)),
            }
            comments.extend(self.audit(other));
        }
        if !service.is_client() {
            let tls = self.tls(service, &pairs, &mut comments)?;
            listener.set("tls", tls);
        }
        let upstream = self.upstream(service, &mut comments)?;
        let mut tunnel = Map::of([("upstream", Value::text(upstream))]);
        rules.into_iter().for_each(|rule| tunnel.push("rules", rule));
        tunnel.set("idle_timeout", format!("{}s", service.seconds("timeoutidle").unwrap_or(IDLE)));
        listener.set("tunnel", tunnel);
        comments.into_iter().for_each(|comment| listener.comment(comment));
        if let Some(why) = self.draft.rejects_listener(&listener) {
            return Err(why);
        }
        self.draft.listeners.push(listener);
        Ok(())
    }

    fn free(&self, wanted: &str) -> String {
        let wanted = migration::name_of(wanted);
        let is_free = |name: &String| {
            let name = Value::text(name.as_str());
            !self.draft.listeners.iter().any(|listener| listener.get("name") == Some(&name))
        };
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        [wanted.clone()].into_iter().chain(numbered).find(is_free).unwrap_or_default()
    }

    /// Settings that are left out, with the reason.
    fn audit(&self, service: &Service) -> Vec<String> {
        let mut out = Vec::new();
        for line in &service.lines {
            let why = match line.name.as_str() {
                "ciphers" | "ciphersuites" | "curves" => "suites and groups are those of a policy",
                "transparent" if !matches!(line.value.as_str(), "no" | "none") => {
                    "the client's own address as source takes `transparent` and `portunus routing setup`"
                }
                "local" => "addresses to connect from are chosen by the system",
                "libwrap" if line.value == "yes" => continue,
                name if KNOWN.contains(&name) => continue,
                _ => "it is not known here",
            };
            out.push(self.report.left_out(&line.place, &line.shown(), why));
        }
        out
    }

    fn file(&self, name: &str, place: &Place) -> PathBuf {
        let path = self.root.join(name);
        self.report.expect(&self.files, [&path], place);
        path
    }

    fn pair(&self, service: &Service) -> Result<Pair, String> {
        let certificate = service.one("cert").ok_or("no certificate is named")?;
        let key = service.text("key").map(|key| self.root.join(key));
        Ok(Pair::new(self.root.join(&certificate.value), key, &certificate.place))
    }

    /// A service for a name of another one, as a rule of that.
    fn named(&mut self, main: &Service, service: &Service, pairs: &mut Vec<Pair>) -> Result<Map, String> {
        decides(service)?;
        let (_, name) = service.belongs_to().unwrap_or_default();
        if !is_host(name.strip_prefix("*.").unwrap_or(name)) {
            return Err(format!("`{name}` is no name"));
        }
        let verified = ["verify", "verifychain", "verifypeer", "requirecert", "cafile", "crlfile"];
        if main.is_client() || verified.iter().any(|option| service.text(option) != main.text(option)) {
            return Err("its clients are verified otherwise than those of the main service".to_owned());
        }
        let pair = self.pair(service)?;
        if !pairs.iter().any(|other| other.certificate == pair.certificate) {
            pairs.push(pair);
        }
        let mut comments = Vec::new();
        let upstream = self.upstream(service, &mut comments)?;
        let mut rule =
            Map::of([("server_name", Value::text(name.to_ascii_lowercase())), ("upstream", Value::text(upstream))]);
        rule.comment(format!("{}: [{}]", service.place, service.name));
        comments.into_iter().for_each(|comment| rule.comment(comment));
        Ok(rule)
    }

    fn tls(&mut self, service: &Service, pairs: &[Pair], comments: &mut Vec<String>) -> Result<Map, String> {
        let client = self.client_certificate(service)?;
        let store = keystore(pairs, None, &mut self.files, &mut self.links, self.report);
        let mut tls = Map::of([("keystore", Value::text(self.draft.keystores.intern("main", store)))]);
        let (versions, line) = versions(service);
        let (policy, missing) = policy(&versions);
        if let Some(policy) = policy {
            tls.set("policy", policy);
        }
        if let (Some(why), Some(line)) = (missing, line) {
            comments.push(self.report.left_out(&line.place, &line.shown(), why));
        }
        if let Some(client) = client {
            tls.set("client_certificate", client);
        }
        Ok(tls)
    }

    /// Who must show which certificate.
    fn client_certificate(&self, service: &Service) -> Result<Option<Map>, String> {
        let level =
            service.text("verify").map(|level| level.parse::<u8>().map_err(|_| "`verify` is no number")).transpose()?;
        if service.is_on("verifypeer") || level.is_some_and(|level| level > 2) {
            return Err("certificates of clients are compared with a list of them (`verifyPeer`)".to_owned());
        }
        // A chain can only be verified where there is one: `verifyChain` requires a certificate, the older `verify = 1` does not.
        let required = service.is_on("requirecert") || service.is_on("verifychain") || level == Some(2);
        let is_verified = service.is_on("verifychain") || level.is_some_and(|level| level > 0);
        if !is_verified {
            return match required {
                true => Err("a certificate is required and not verified".to_owned()),
                false => Ok(None),
            };
        }
        let ca = service.one("cafile").ok_or("client certificates are to be verified, and no `CAfile` is named")?;
        let mode = if required { "required" } else { "optional" };
        let mut rule =
            Map::of([("mode", Value::text(mode)), ("ca", Value::text(absolute(&self.file(&ca.value, &ca.place))))]);
        if let Some(crl) = service.one("crlfile") {
            rule.set("crl", absolute(&self.file(&crl.value, &crl.place)));
        }
        let names: Vec<String> = service
            .lines
            .iter()
            .filter_map(|line| match line.name.as_str() {
                "checkhost" => Some(format!("DNS:{}", line.value)),
                "checkip" => Some(format!("IP:{}", line.value)),
                _ => None,
            })
            .collect();
        if !names.is_empty() {
            rule.set("allow_san", Value::texts(names));
        }
        Ok(Some(rule))
    }

    fn upstream(&mut self, service: &Service, comments: &mut Vec<String>) -> Result<String, String> {
        let connect: Vec<&Line> = service.lines.iter().filter(|line| line.name == "connect").collect();
        let mut servers = Vec::new();
        for (at, line) in connect.iter().enumerate() {
            let address = connecting(&line.value).ok_or_else(|| format!("`connect = {}` is no address", line.value))?;
            // One after the other, unless they take turns.
            let is_spare = at > 0 && service.text("failover") == Some("prio");
            servers.push(match is_spare {
                true => Map::of([("address", Value::text(address)), ("priority", Value::plain(at.min(100)))]).into(),
                false => Value::text(address),
            });
        }
        if servers.is_empty() {
            return Err("it says no `connect`".to_owned());
        }
        let mut upstream = Map::of([("servers", Value::List(servers)), ("protocol", Value::text("tcp"))]);
        upstream.comment(format!("{}: [{}]", service.place, service.name));
        match service.text("protocol") {
            None => {}
            Some("proxy") => upstream.set("send_proxy", "v1"),
            Some(other) => return Err(format!("`protocol = {other}` begins TLS within another protocol")),
        }
        if service.is_client() {
            let tls = self.to_server(service, comments)?;
            upstream.set("tls", if tls.is_empty() { Value::plain(true) } else { tls.into() });
        }
        if let Some(time) = service.seconds("timeoutconnect") {
            upstream.set("connect_timeout", format!("{time}s"));
        }
        upstream.set("ejection", Map::of([("failures", Value::plain(0))]));
        match Draft::rejects_upstream(&upstream) {
            Some(why) => Err(why),
            None => Ok(self.draft.upstreams.intern(&service.name, upstream)),
        }
    }

    /// TLS to the server of a service with `client = yes`.
    fn to_server(&self, service: &Service, comments: &mut Vec<String>) -> Result<Map, String> {
        let mut tls = Map::default();
        let level = service.text("verify").and_then(|level| level.parse::<u8>().ok()).unwrap_or(0);
        if service.is_on("verifypeer") || level > 2 {
            return Err("the certificate of the server is compared with a list of them (`verifyPeer`)".to_owned());
        }
        if service.text("crlfile").is_some() {
            return Err("certificates of servers are not compared with revocation lists".to_owned());
        }
        match service.is_on("verifychain") || level > 1 {
            true => {
                // Without `ca` those of the system are trusted.
                let is_of_system = |folder: &str| SYSTEM_AUTHORITIES.contains(&folder.trim_end_matches('/'));
                match service.one("cafile") {
                    Some(ca) => tls.set("ca", absolute(&self.file(&ca.value, &ca.place))),
                    None if service.text("capath").is_some_and(is_of_system) => {}
                    None => return Err("the server is to be verified, and no `CAfile` is named".to_owned()),
                }
                if service.text("checkhost").is_none() && service.text("checkip").is_none() {
                    let how = "the name of the server is verified, too; `server_name` says another one";
                    comments.push(self.report.differs(&service.place, &format!("[{}]", service.name), how));
                }
            }
            false => {
                tls.set("insecure_skip_verify", Value::plain(true));
                comments.push(
                    "stunnel does not verify the certificate of this server either; better name its authority in `ca`"
                        .to_owned(),
                );
            }
        }
        let name = service.text("checkhost").or(service.text("sni")).filter(|name| !name.is_empty());
        match name {
            Some(name) if is_host(name) => tls.set("server_name", name),
            Some(name) => return Err(format!("`{name}` is no host")),
            None => {}
        }
        if let Some(certificate) = service.one("cert") {
            let file = self.file(&certificate.value, &certificate.place);
            let key = service.one("key").map_or(file.clone(), |key| self.file(&key.value, &key.place));
            tls.set("client_certificate", absolute(&file));
            tls.set("client_key", absolute(&key));
        }
        let (versions, _) = versions(service);
        if let (Some(policy), _) = policy(&versions) {
            tls.set("policy", policy);
        }
        Ok(tls)
    }
}

/// What decides about a service in a way that is not there.
fn decides(service: &Service) -> Result<(), String> {
    match service
        .lines
        .iter()
        .find(|line| CLOSING.contains(&line.name.as_str()) || (line.name == "libwrap" && line.value == "yes"))
    {
        Some(line) => Err(format!("`{}` ({}) has no counterpart", line.shown(), line.place)),
        None => Ok(()),
    }
}

/// The versions that a service allows, and the line that says so.
fn versions(service: &Service) -> (Vec<Version>, Option<&Line>) {
    let number = |text: &str| match text {
        "TLSv1.3" => 3,
        "TLSv1.2" => 2,
        "all" | "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.1" => 1,
        _ => 2,
    };
    let exact = service.one("sslversion").filter(|line| line.value != "all");
    let least = exact.or(service.one("sslversionmin"));
    let said = least.map_or(2, |line| number(&line.value));
    let off = |name: &str| service.lines.iter().any(|line| line.name == "options" && line.value == name);
    let least_number = if off("NO_TLSv1.2") { 3 } else { said };
    let all = [(1, Version::Old), (2, Version::Tls12), (3, Version::Tls13)];
    (all.into_iter().filter(|(number, _)| *number >= least_number).map(|(_, version)| version).collect(), least)
}

fn port_of(text: &str) -> Option<u16> {
    text.parse::<u16>().ok().filter(|port| *port > 0 && !text.starts_with('+'))
}

/// Where a service listens. A port alone is every address of both families.
fn listening(text: &str) -> Option<String> {
    if let Some(port) = port_of(text) {
        return Some(format!(":{port}"));
    }
    let (host, port) = text.rsplit_once(':')?;
    let port = port_of(port)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match host {
        "" | "::" => Some(format!(":{port}")),
        "*" => Some(format!("0.0.0.0:{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        host => {
            host.parse::<std::net::IpAddr>().ok().map(|address| std::net::SocketAddr::new(address, port).to_string())
        }
    }
}

/// Where a service connects to. A port alone is this machine.
fn connecting(text: &str) -> Option<String> {
    if text.starts_with('/') {
        return Some(format!("unix:{text}"));
    }
    if let Some(port) = port_of(text) {
        return Some(format!("127.0.0.1:{port}"));
    }
    let (host, port) = text.rsplit_once(':')?;
    let port = port_of(port)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => Some(std::net::SocketAddr::new(address, port).to_string()),
        Err(_) => is_host(host).then(|| format!("{host}:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, listen, connect) in [
            ("443", Some(":443"), Some("127.0.0.1:443")),
            ("127.0.0.1:443", Some("127.0.0.1:443"), Some("127.0.0.1:443")),
            (":::443", Some(":443"), Some("[::]:443")),
            ("*:443", Some("0.0.0.0:443"), None),
            ("app.internal:443", None, Some("app.internal:443")),
            ("/run/a.sock", None, Some("unix:/run/a.sock")),
            ("https", None, None),
            ("0", None, None),
        ] {
            assert_eq!((listening(text).as_deref(), connecting(text).as_deref()), (listen, connect), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (text, expected) in [("[a", "s:1: a `[` is not closed"), ("[a]\nconnect", "s:2: it is no `name = value`")] {
            assert_eq!(
                read("s", text).map_err(|problem| problem.to_string()).err().as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }
}
