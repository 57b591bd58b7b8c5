//! `portunus as hitch …` and `portunus import hitch …`: hitch's arguments and its file as a native configuration.
//!
//! `settings.rs` reads the grammar and the arguments into one list of settings; here they become listeners with a tunnel, a keystore and an upstream. What
//! runs is the text that is printed. `docs/migration.md` is the guide.

mod settings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Front;
use crate::addresses::is_host;
use crate::certificates::{self, Links, Pair, Version, keystore, put_policy};
use crate::draft::Draft;
use crate::files::Files;
use crate::migration::{self, Place, Problem, Report, absolute, finish, rejected};
use crate::native::{Map, Value};
use settings::{Content, Given, Setting};

/// What `--help` prints.
const USAGE: &str = "\
Usage: portunus as hitch [OPTIONS] [PEM...]                      run the proxy
       portunus import hitch [--keys FOLDER] [--files-from FOLDER] FILE                print the native configuration for FILE (hitch.conf)
       portunus import hitch [--keys FOLDER] [--files-from FOLDER] [OPTIONS] [PEM...]  print the same for arguments

hitch's options (--name=VALUE, --name VALUE, or the short form):
  --config=FILE                       hitch.conf
  -f, --frontend=[HOST]:PORT[+CERT]   where to listen (default [*]:8443)
  -b, --backend=[HOST]:PORT           where to go: an address, or the path of a socket (default [127.0.0.1]:8000)
  --tls-protos=LIST, --alpn-protos=LIST, --sni-nomatch-abort
  --write-proxy, --write-proxy-v2, --write-proxy-v1, --proxy-proxy, --client
  -n, --workers=NUMBER
  All others are read, and have no effect here or are left out with a comment.

Exit status of import: 0 if everything was carried, 1 if something was left out, 2 if nothing was written.
";

/// hitch ends no idle connection.
const IDLE: &str = "30d";

/// Does what hitch would do with these arguments: the configuration to run with, or the end.
pub fn run(words: &[OsString]) -> Front {
    let report = Report::default();
    let root = match translated(words, (Files::of_disk(None), Links::default()), &report) {
        Ok((root, _)) => root,
        Err(ended) => return ended,
    };
    match config::parse("hitch", &root.write(), Path::new("")) {
        Ok(config) => {
            let warnings = report.all_left_out().into_iter().map(|finding| format!("left out: {finding}")).collect();
            Front::Run { config: Box::new(config), warnings }
        }
        Err(problems) => {
            let errors = problems.list().iter().map(|problem| format!("portunus: {problem}\n")).collect();
            Front::Exit { code: 1, output: String::new(), errors }
        }
    }
}

/// Prints the native configuration.
pub fn import(words: &[OsString]) -> Front {
    let options = migration::keys_option(words)
        .and_then(|(words, keys)| Ok((migration::folder_option(&words, "--files-from")?, keys)));
    let ((words, root), folder) = match options {
        Ok(found) => found,
        Err(problem) => return rejected(&format!("{problem}\n{USAGE}")),
    };
    // A word alone that is no option is the file; with options it is a certificate.
    let words = match words.as_slice() {
        [file] if !file.to_string_lossy().starts_with('-') || file == "-" => {
            vec![OsString::from("--config"), file.clone()]
        }
        _ => words,
    };
    let report = Report::default();
    match translated(&words, (Files::of_disk(root), Links { folder, links: Vec::new() }), &report) {
        Ok((root, links)) => match certificates::make(&links) {
            Ok(()) => {
                let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                finish(&format!("hitch {}", shown.join(" ")), root, &report)
            }
            Err(problem) => rejected(&problem),
        },
        Err(ended) => ended,
    }
}

fn translated(words: &[OsString], (mut files, links): (Files, Links), report: &Report) -> Result<(Map, Links), Front> {
    let given = match settings::arguments(words, &mut files) {
        Ok(Given::Settings(settings)) => settings,
        Ok(Given::Help) => return Err(Front::Exit { code: 0, output: USAGE.to_owned(), errors: String::new() }),
        Err(problem) => return Err(rejected(&problem)),
    };
    translate(files, &given, links, report).map_err(|problem| rejected(&problem.to_string()))
}

/// Makes a native configuration of the text of a file, which names no others.
///
/// # Errors
/// What is wrong with the text, with its place; or, of what was made of it, why that is none.
pub fn of_text(text: &str) -> Result<Result<String, Vec<String>>, String> {
    let report = Report::default();
    let given = settings::read("hitch.conf", text).map_err(|problem| problem.to_string())?;
    let files = Files::given(BTreeMap::new());
    let (root, _) = translate(files, &given, Links::default(), &report).map_err(|problem| problem.to_string())?;
    let text = migration::served(root, &report).write();
    Ok(migration::accepted(&text).map(|()| text))
}

/// Settings that have no meaning here, or are done by themselves.
const HARMLESS: &[&str] = &[
    "backend-refresh",
    "backlog",
    "chroot",
    "config",
    "daemon",
    "default-config",
    "enable-tcp-fastopen",
    "tcp-fastopen",
    "group",
    "log-filename",
    "log-level",
    "ocsp-connect-tmo",
    "ocsp-dir",
    "ocsp-refresh-interval",
    "ocsp-resp-tmo",
    "ocsp-verify-staple",
    "pidfile",
    "pid-file",
    "prefer-server-ciphers",
    "quiet",
    "recv-bufsize",
    "send-bufsize",
    "session-cache",
    "shared-cache",
    "shared-cache-listen",
    "shared-cache-peer",
    "shared-cache-if",
    "ssl-engine",
    "syslog",
    "syslog-facility",
    "user",
    "worker-ocsp",
    "proxy-tlv",
    "proxy-authority",
    "ecdh-curve",
    "ocsp-resp-file",
    "dhparams",
];

/// What a frontend, or the whole, says of itself.
struct Scope<'s> {
    levels: Vec<&'s [Setting]>,
}

impl<'s> Scope<'s> {
    /// The last setting by this name, of the innermost level that has one.
    fn one(&self, name: &str) -> Option<&'s Setting> {
        self.levels.iter().rev().find_map(|level| level.iter().rev().find(|setting| setting.name == name))
    }

    fn text(&self, name: &str) -> Option<&'s str> {
        self.one(name).and_then(Setting::text)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name), Some("on" | "yes" | "true" | ""))
    }
}

struct Making<'m> {
    report: &'m Report,
    draft: Draft,
    files: Files,
    links: Links,
    settings: &'m [Setting],
}

fn translate(files: Files, settings: &[Setting], links: Links, report: &Report) -> Result<(Map, Links), Problem> {
    let mut making = Making { report, draft: Draft::default(), files, links, settings };
    let nowhere = Place { file: "hitch.conf".into(), line: 1 };
    let start = settings.first().map_or(nowhere, |setting| setting.place.clone());
    making.process();
    let upstream = making.upstream(&start)?;
    let default =
        [Setting { name: "frontend".to_owned(), content: Content::Text("[*]:8443".to_owned()), place: start.clone() }];
    let mut frontends: Vec<&Setting> = settings.iter().filter(|setting| setting.name == "frontend").collect();
    if frontends.is_empty() {
        frontends.extend(default.iter());
    }
    let mut first: Option<Problem> = None;
    for frontend in frontends {
        match making.listener(frontend, &upstream) {
            Ok(listener) => match making.draft.rejects_listener(&listener) {
                None => making.draft.listeners.push(listener),
                Some(why) => {
                    making.left_out(frontend, &format!("{why}; nothing listens there"));
                    first.get_or_insert_with(|| Problem::new(&frontend.place, why));
                }
            },
            Err(why) => {
                making.left_out(frontend, &format!("{why}; nothing listens there"));
                first.get_or_insert_with(|| Problem::new(&frontend.place, why));
            }
        }
    }
    if making.draft.listeners.is_empty() {
        return Err(first.unwrap_or_else(|| Problem::new(&start, "no frontend of it can be carried")));
    }
    Ok((making.draft.into_map(), making.links))
}

impl Making<'_> {
    fn left_out(&mut self, setting: &Setting, why: &str) {
        let comment = self.report.left_out(&setting.place, &setting.shown(), why);
        self.draft.comment(comment);
    }

    fn whole(&self) -> Scope<'_> {
        Scope { levels: vec![self.settings] }
    }

    /// Settings of the process, and those that are left out.
    fn process(&mut self) {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
        let workers = number(self.whole().text("workers")).filter(|count| *count <= 1_024);
        let handshake = number(self.whole().text("ssl-handshake-timeout")).unwrap_or(30);
        if let Some(count) = workers {
            self.draft.settings.set("workers", Value::plain(count));
        }
        let mut limits = Map::of([("handshake_timeout", Value::text(format!("{}s", handshake.min(3_600))))]);
        // hitch bounds no client, and all may come by one balancer.
        limits.set("max_connections_per_client", Value::plain(100_000));
        if let Some(seconds) = number(self.whole().text("keepalive")) {
            limits.set("keepalive", format!("{}s", seconds.min(32_400)));
        }
        self.draft.settings.set("limits", limits);
        let carried = [
            "frontend",
            "backend",
            "pem-file",
            "pem-dir",
            "pem-dir-glob",
            "private-key",
            "workers",
            "ssl-handshake-timeout",
            "keepalive",
            "backend-connect-timeout",
            "tls-protos",
            "alpn-protos",
            "npn-protos",
            "sni-nomatch-abort",
            "client-verify",
            "client-verify-ca",
            "write-proxy",
            "write-proxy-v1",
            "write-proxy-v2",
            "proxy-proxy",
            "client",
            "ssl",
            "tls",
            "host",
            "port",
            "match-global-certs",
        ];
        let mut found = Vec::new();
        for setting in self.settings.iter().flat_map(|setting| [setting].into_iter().chain(setting.inner())) {
            let value = setting.text().unwrap_or_default();
            let why = match setting.name.as_str() {
                name if carried.contains(&name) || HARMLESS.contains(&name) => continue,
                "ciphers" | "ciphersuites" => "suites are those of a policy",
                "write-ip" if matches!(value, "off" | "no" | "false") => continue,
                "client-verify-crl" => continue,
                "write-ip" => "servers get a PROXY header (`send_proxy`), or nothing",
                "proxy-client-cert" if matches!(value, "off" | "no" | "false") => continue,
                "proxy-client-cert" => "the PROXY header names the client's certificate, and does not hold it",
                _ => "it is not known here",
            };
            found.push((setting.clone(), why));
        }
        found.iter().for_each(|(setting, why)| self.left_out(setting, why));
    }

    /// The backend.
    fn upstream(&mut self, start: &Place) -> Result<String, Problem> {
        let whole = self.whole();
        let setting = whole.one("backend");
        let place = setting.map_or(start, |setting| &setting.place).clone();
        let text = setting.and_then(Setting::text).unwrap_or("[127.0.0.1]:8000").to_owned();
        let address = match text.starts_with('/') {
            true => format!("unix:{text}"),
            false => {
                let (host, port) =
                    endpoint(&text).ok_or_else(|| Problem::new(&place, format!("`{text}` is no backend")))?;
                match host.as_str() {
                    "" | "*" => return Err(Problem::new(&place, "a backend has an address")),
                    host if host.contains(':') => format!("[{host}]:{port}"),
                    host => format!("{host}:{port}"),
                }
            }
        };
        let mut upstream =
            Map::of([("servers", Value::List(vec![Value::text(address)])), ("protocol", Value::text("tcp"))]);
        let send = if whole.is_on("write-proxy-v1") {
            Some("v1")
        } else if whole.is_on("write-proxy-v2") || whole.is_on("write-proxy") {
            Some("v2_tlvs")
        } else if whole.is_on("proxy-proxy") {
            Some("v2")
        } else {
            None
        };
        if let Some(send) = send {
            upstream.set("send_proxy", send);
        }
        let connect =
            whole.text("backend-connect-timeout").and_then(|text| text.parse::<u64>().ok()).filter(|time| *time > 0);
        upstream.set("connect_timeout", format!("{}s", connect.unwrap_or(30).min(3_600)));
        if whole.is_on("client") {
            upstream.set("tls", Map::of([("insecure_skip_verify", Value::plain(true))]));
            upstream.comment(
                "hitch does not verify the certificate of this server either; better name its authority in `ca`",
            );
        }
        upstream.set("ejection", Map::of([("failures", Value::plain(0))]));
        if let Some(why) = Draft::rejects_upstream(&upstream) {
            return Err(Problem::new(&place, why));
        }
        Ok(self.draft.upstreams.intern("backend", upstream))
    }

    fn listener(&mut self, frontend: &Setting, upstream: &str) -> Result<Map, String> {
        let scope = Scope { levels: vec![self.settings, frontend.inner()] };
        let (address, certificate) = match frontend.text() {
            Some(text) => match text.split_once('+') {
                Some((address, certificate)) => (endpoint(address), Some(certificate)),
                None => (endpoint(text), None),
            },
            None => {
                let own = |name: &str| {
                    frontend.inner().iter().rev().find(|setting| setting.name == name).and_then(Setting::text)
                };
                let port = own("port").ok_or("its port is not said")?.parse::<u16>().ok().filter(|port| *port > 0);
                (port.map(|port| (own("host").unwrap_or("*").to_owned(), port)), None)
            }
        };
        let (host, port) = address.ok_or("its address is not understood")?;
        let bind = match host.as_str() {
            "*" | "" => format!(":{port}"),
            "localhost" => format!("127.0.0.1:{port}"),
            host => match host.parse::<std::net::IpAddr>() {
                Ok(address) => std::net::SocketAddr::new(address, port).to_string(),
                Err(_) => return Err("it names an address by a host name; write the address".to_owned()),
            },
        };
        let count = self.draft.listeners.len();
        let name = if count == 0 { "hitch".to_owned() } else { format!("hitch-{}", count + 1) };
        let mut listener = Map::of([("name", Value::text(name)), ("bind", Value::text(bind))]);
        listener.comment(format!("{}: {}", frontend.place, frontend.shown()));
        if !scope.is_on("client") {
            let tls = self.tls(frontend, certificate)?;
            listener.set("tls", tls);
        }
        if self.whole().is_on("proxy-proxy") {
            let mut trust = Map::of([("trust", Value::texts(["127.0.0.1", "::1"]))]);
            let setting = self.whole().one("proxy-proxy").cloned();
            if let Some(setting) = setting {
                let why = "whose PROXY headers are believed is not said: name the balancers in `trust`";
                trust.comment(self.report.left_out(&setting.place, &setting.shown(), why));
            }
            listener.set("proxy_protocol", trust);
        }
        listener.set("tunnel", Map::of([("upstream", Value::text(upstream)), ("idle_timeout", Value::text(IDLE))]));
        Ok(listener)
    }

    fn tls(&mut self, frontend: &Setting, certificate: Option<&str>) -> Result<Map, String> {
        let scope = Scope { levels: vec![self.settings, frontend.inner()] };
        let mut pairs: Vec<Pair> = Vec::new();
        let levels = [self.settings, frontend.inner()];
        for setting in levels.into_iter().flatten().filter(|setting| setting.name == "pem-file") {
            pairs.push(pair(setting).ok_or("a `pem-file` without its file")?);
        }
        if let Some(file) = certificate {
            pairs.push(Pair::new(PathBuf::from(file), None, &frontend.place));
        }
        // The last one is for whoever asks for none of them.
        pairs.reverse();
        if let Some(folder) = scope.one("pem-dir") {
            let pattern = scope.text("pem-dir-glob").unwrap_or("*");
            let path = PathBuf::from(folder.text().unwrap_or_default());
            match self.files.exists(&path) {
                true => {
                    let found = self.files.matching(&path.join(pattern)).into_iter();
                    pairs.extend(found.map(|certificate| Pair::new(certificate, None, &folder.place)));
                }
                false => pairs.push(Pair::folder(path, &folder.place)),
            }
        }
        if pairs.is_empty() {
            return Err("no certificate is named".to_owned());
        }
        let (strict, alpn) = (scope.is_on("sni-nomatch-abort"), scope.text("alpn-protos").map(str::to_owned));
        let protocols = ["tls-protos", "ssl", "tls"].iter().find_map(|name| scope.one(name)).cloned();
        let client = self.client_certificate(&scope)?;
        let store = keystore(&pairs, None, &mut self.files, &mut self.links, self.report);
        let store = self.draft.keystores.intern("main", store);
        let mut tls = Map::of([("keystore", Value::text(store))]);
        if strict {
            tls.set("strict_sni", Value::plain(true));
        }
        if let Some(alpn) = alpn {
            let protocols: Vec<&str> = alpn.split([',', ' ']).map(str::trim).filter(|one| !one.is_empty()).collect();
            if !protocols.is_empty() {
                tls.set("alpn", Value::texts(protocols));
            }
        }
        if let Some(setting) = protocols {
            self.versions(&setting, &mut tls);
        }
        if let Some(client) = client {
            tls.set("client_certificate", client);
        }
        Ok(tls)
    }

    /// Versions of TLS.
    fn versions(&self, setting: &Setting, tls: &mut Map) {
        let words =
            if setting.name == "tls-protos" { setting.text().unwrap_or_default() } else { "TLSv1.0 TLSv1.2 TLSv1.3" };
        let versions: Vec<Version> = words
            .split([',', ' '])
            .filter(|word| !word.is_empty())
            .map(|word| match word {
                "TLSv1.3" => Version::Tls13,
                "TLSv1.2" => Version::Tls12,
                _ => Version::Old,
            })
            .collect();
        put_policy(tls, &versions, (&setting.place, &setting.shown()), self.report);
    }

    fn client_certificate(&self, scope: &Scope<'_>) -> Result<Option<Map>, String> {
        let mode = match scope.text("client-verify") {
            None | Some("none") => return Ok(None),
            Some(mode @ ("optional" | "required")) => mode,
            Some(other) => return Err(format!("`client-verify = {other}` is not understood")),
        };
        let ca = scope
            .text("client-verify-ca")
            .ok_or("client certificates are to be verified, and no authority is named")?;
        let mut rule = Map::of([("mode", Value::text(mode)), ("ca", Value::text(absolute(Path::new(ca))))]);
        if let Some(crl) = scope.text("client-verify-crl") {
            rule.set("crl", absolute(Path::new(crl)));
        }
        let lists = ["client-verify-ca", "client-verify-crl"].into_iter().filter_map(|name| scope.one(name));
        lists.for_each(|list| self.report.expect(&self.files, list.text(), &list.place));
        Ok(Some(rule))
    }
}

/// A certificate with its key.
fn pair(setting: &Setting) -> Option<Pair> {
    let inner = |name: &str| setting.inner().iter().find(|inner| inner.name == name).and_then(Setting::text);
    let certificate = setting.text().or_else(|| inner("cert"))?;
    let key = inner("private-key").map(PathBuf::from);
    Some(Pair::new(PathBuf::from(certificate), key, &setting.place))
}

/// Host and port of `[HOST]:PORT`, with or without the brackets.
fn endpoint(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse::<u16>().ok().filter(|number| *number > 0 && !port.starts_with('+'))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_known = matches!(host, "" | "*") || is_host(host) || host.parse::<std::net::IpAddr>().is_ok();
    is_known.then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (text, expected) in [
            ("[*]:8443", Some(("*", 8443))),
            ("[127.0.0.1]:80", Some(("127.0.0.1", 80))),
            ("[::1]:80", Some(("::1", 80))),
            ("app.internal:80", Some(("app.internal", 80))),
            ("[*]:0", None),
            ("[a b]:80", None),
            ("80", None),
        ] {
            let found = endpoint(text);
            assert_eq!(found.as_ref().map(|(host, port)| (host.as_str(), *port)), expected, "{text}");
        }
    }
}
