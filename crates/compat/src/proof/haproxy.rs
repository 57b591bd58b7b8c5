//! HAProxy: its proxies on loopback, and what they name.
//!
//! Addresses of listeners and servers become marks; of `global` what changes how requests are read stays, and what runs programs, logs, checks or asks the network
//! is left out.

use std::collections::BTreeMap;

use super::hints::{About, Part, Scope, clients};
use super::samples::samples;
use super::{CERTIFICATE_FILE, EMPTY_FILE, Listener, Staged};
use crate::haproxy::syntax::{self, Line, Section};
use crate::migration::{Given, Place};

/// Settings of `global` that stay.
const GLOBAL: [&str; 6] = [
    "maxconn",
    "expose-experimental-directives",
    "h1-case-adjust",
    "tune.bufsize",
    "tune.maxrewrite",
    "tune.http.maxhdr",
];
/// Sections that stay.
const SECTIONS: [&str; 7] = ["global", "defaults", "frontend", "backend", "listen", "userlist", "cache"];
/// Lines of proxies that are left out, by their first word.
const LEFT_OUT: [&str; 14] = [
    "log",
    "log-format",
    "log-format-sd",
    "log-tag",
    "email-alert",
    "external-check",
    "http-check",
    "tcp-check",
    "bind-process",
    "server-state-file-name",
    "load-server-state-from-file",
    "persist",
    "error-log-format",
    "dynamic-cookie-key",
];
/// The same, of what could matter to a request.
const NOT_COMPARED: [&str; 10] = [
    "errorfile",
    "errorfiles",
    "errorloc",
    "default-server",
    "server-template",
    "filter",
    "use-fcgi-app",
    "unique-id-format",
    "unique-id-header",
    "source",
];
/// The same, of `option`.
const OPTIONS: [&str; 16] = [
    "httplog",
    "tcplog",
    "httpslog",
    "dontlognull",
    "dontlog-normal",
    "log-separate-errors",
    "logasap",
    "log-health-checks",
    "httpchk",
    "tcp-check",
    "external-check",
    "ssl-hello-chk",
    "mysql-check",
    "pgsql-check",
    "redis-check",
    "transparent",
];
/// Words of `server` that stay alone, and those that stay with the next one.
const SERVER_WORDS: [&str; 2] = ["backup", "disabled"];
const SERVER_VALUES: [&str; 3] = ["weight", "cookie", "maxconn"];
/// Sources of numbers that grow with each request.
const RATES: [&str; 15] = [
    "_rate", "conn_cnt", "sess_cnt", "req_cnt", "err_cnt", "fail_cnt", "kbytes_", "gpc", "gpt", "conn_cur", "fe_conn",
    "be_conn", "queue", "rand(", "table_",
];

/// What is to run, and what it names.
///
/// # Errors
/// Why there is nothing to compare.
pub(super) fn staged(given: Given) -> Result<Staged, String> {
    let environment = |name: &str| std::env::var(name).ok();
    let Given { path, text, more, .. } = given;
    let (mut sections, mut set) = (Vec::new(), syntax::Variables::new());
    for (path, text) in std::iter::once((path, text)).chain(more) {
        let read = syntax::read(&path.display().to_string(), &text, &environment, &mut set);
        sections.extend(read.map_err(|problem| problem.to_string())?);
    }
    let mut making = Making::default();
    // Servers that are listeners of the same file stay connected with them.
    for line in sections.iter().filter(|section| is_proxy(section)).flat_map(|section| &section.lines) {
        if line.word(0) == "bind" && !line.word(1).starts_with("quic") {
            line.word(1).split(',').for_each(|address| _ = making.listener(address));
        }
    }
    for section in &sections {
        making.section(section);
    }
    making.hints(&sections);
    if making.staged.listeners.is_empty() {
        return Err("there is no `bind`: nothing can be compared".to_owned());
    }
    let mut staged = making.staged;
    staged.leave("certificates, versions and ciphers of TLS: all listeners have a throw-away certificate, and clients are not asked for one");
    staged.leave("which server of a backend is taken, and health checks");
    Ok(staged)
}

fn is_proxy(section: &Section) -> bool {
    ["defaults", "frontend", "backend", "listen"].contains(&section.kind.as_str())
}

/// A word, so that it means itself.
fn quoted(word: &str) -> String {
    if word.is_empty() {
        return "''".to_owned();
    }
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' ' | '#' | '\\' | '"' | '\'' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[derive(Default)]
struct Making {
    staged: Staged,
    /// Listeners by the address that is theirs.
    listeners: BTreeMap<String, usize>,
    /// Marks of servers by backend and address.
    servers: BTreeMap<(String, String), String>,
    /// Which listeners each frontend has.
    own: BTreeMap<String, Vec<usize>>,
    /// What variables are set to.
    variables: BTreeMap<String, String>,
}

impl Making {
    fn section(&mut self, section: &Section) {
        let kind = section.kind.as_str();
        if !SECTIONS.contains(&kind) {
            if ["program", "fcgi-app"].contains(&kind) {
                self.staged.leave(format!("{}: `{kind}`: programs are not run", section.place));
            }
            return;
        }
        let mut head = vec![kind.to_owned()];
        head.extend(Some(section.name.clone()).filter(|name| !name.is_empty()));
        head.extend(section.from.iter().flat_map(|from| ["from".to_owned(), from.clone()]));
        self.staged.lines.push(head.join(" "));
        for line in &section.lines {
            let words = match kind {
                "global" => GLOBAL.contains(&line.word(0)).then(|| line.words.clone()),
                "userlist" | "cache" => Some(line.words.clone()),
                _ => self.line(line, section),
            };
            if kind == "global"
                && ["lua-load", "lua-load-per-thread", "external-check", "insecure-fork-wanted"].contains(&line.word(0))
            {
                self.staged.leave(format!("{}: `{}`: programs are not run", line.place, line.word(0)));
            }
            if let Some(words) = words {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                self.staged.lines.push(format!("    {}", words.join(" ")));
            }
        }
        // A proxy needs these, and they are to end what nobody ends.
        if kind == "defaults" {
            self.staged.lines.push("    timeout tarpit 100ms".to_owned());
        }
    }

    /// What becomes of a line of a proxy.
    fn line(&mut self, line: &Line, section: &Section) -> Option<Vec<String>> {
        let (first, place) = (line.word(0), &line.place);
        if line.words.iter().any(|word| word.contains("lua.")) {
            self.staged.leave(format!("{place}: `{}`: programs are not run", line.shown()));
            return None;
        }
        match (first, line.word(1)) {
            ("bind", _) => return self.bind(line, section),
            ("server", _) => return Some(self.server(line, section)),
            ("dispatch", address) => {
                let mark = self.mark(&section.name, address);
                return Some(vec!["dispatch".to_owned(), mark]);
            }
            ("option", word) if OPTIONS.contains(&word) => return None,
            ("no", "option") if OPTIONS.contains(&line.word(2)) || line.word(2) == "log" => return None,
            ("timeout", "tarpit") => return None,
            ("stats", "socket") => return None,
            ("http-request" | "tcp-request", word) if word.starts_with("do-resolve") || line.has("do-resolve") => {
                self.staged.leave(format!("{place}: `do-resolve`: names are not resolved"));
                return None;
            }
            (first, _) if LEFT_OUT.contains(&first) => return None,
            (first, _) if NOT_COMPARED.contains(&first) => {
                self.staged.leave(format!("{place}: `{first}`"));
                return None;
            }
            _ => {}
        }
        if line.words.iter().any(|word| RATES.iter().any(|rate| word.contains(rate))) || first == "stick-table" {
            self.staged.has_rates = true;
            self.staged.leave(format!("{place}: `{}`: rates and counters", line.shown()));
        }
        let mut words = line.words.clone();
        if first == "stick-table"
            && let Some(at) = words.iter().position(|word| word == "peers")
        {
            words.drain(at..(at + 2).min(words.len()));
        }
        self.without_files(&mut words, line);
        Some(words)
    }

    /// Lists that are not here are empty ones.
    fn without_files(&mut self, words: &mut [String], line: &Line) {
        let (mut is_file, mut is_page) = (false, false);
        for word in words {
            let absent = |path: &str| path.starts_with('/') && !std::path::Path::new(path).is_file();
            if is_file && absent(word) {
                self.staged.leave(format!("{}: {word}: a list that is not here; it is taken as empty", line.place));
                *word = format!("@dir@/{EMPTY_FILE}");
            }
            if is_page {
                self.staged.leave(format!("{}: {word}: a file; it is taken as empty", line.place));
                *word = format!("@dir@/{EMPTY_FILE}");
            }
            is_page = ["file", "lf-file", "errorfile", "lf-string-file"].contains(&word.as_str());
            is_file = *word == "-f" || *word == "-M";
            if let Some(at) = word.find("map").filter(|_| !is_file)
                && let Some(begin) = word.get(at..).and_then(|rest| rest.find("(/")).map(|found| at + found + 1)
                && let Some(end) = word.get(begin..).and_then(|rest| rest.find([',', ')'])).map(|found| begin + found)
                && let Some(path) = word.get(begin..end).filter(|path| absent(path))
            {
                self.staged.leave(format!("{}: {path}: a map that is not here; it is taken as empty", line.place));
                *word = format!(
                    "{}@dir@/{EMPTY_FILE}{}",
                    word.get(..begin).unwrap_or_default(),
                    word.get(end..).unwrap_or_default()
                );
            }
        }
    }

    fn bind(&mut self, line: &Line, section: &Section) -> Option<Vec<String>> {
        if line.word(1).starts_with("quic") {
            self.staged.leave(format!("{}: `bind {}`: HTTP/3", line.place, line.word(1)));
            return None;
        }
        let is_tls = line.has("ssl");
        let takes_proxy_header = line.has("accept-proxy");
        let mut marks = Vec::new();
        for address in line.word(1).split(',') {
            let at = self.listener(address);
            let of = self.own.entry(section.name.clone()).or_default();
            // Both families of a port are one.
            if of.contains(&at) {
                continue;
            }
            of.push(at);
            if let Some(listener) = self.staged.listeners.get_mut(at) {
                *listener = Listener { is_tls, takes_proxy_header };
            }
            marks.push(format!("@listen{at}@"));
        }
        if marks.is_empty() {
            return None;
        }
        let mut words = vec!["bind".to_owned(), marks.join(",")];
        if is_tls {
            words.extend(["ssl".to_owned(), "crt".to_owned(), format!("@dir@/{CERTIFICATE_FILE}")]);
            if line.word(line.words.iter().position(|word| word == "verify").map_or(0, |at| at + 1)) == "required" {
                self.staged.leave(format!("{}: `verify required`: certificates of clients", line.place));
            }
            if line.has("strict-sni") {
                words.push("strict-sni".to_owned());
            }
        }
        if takes_proxy_header {
            words.push("accept-proxy".to_owned());
        }
        Some(words)
    }

    /// The number of a listener.
    fn listener(&mut self, address: &str) -> usize {
        let next = self.staged.listeners.len();
        let at = *self.listeners.entry(bare(address)).or_insert(next);
        if at == next {
            self.staged.listeners.push(Listener::default());
        }
        at
    }

    fn server(&mut self, line: &Line, section: &Section) -> Vec<String> {
        let address = line.word(2);
        let is_path = address.contains('@') || address.starts_with('/');
        let own = self.listeners.get(&bare(address)).filter(|_| is_path).copied();
        let mark = own.map_or_else(|| self.mark(&section.name, address), |at| format!("@listen{at}@"));
        if line.has("ssl") {
            self.staged.leave(format!("{}: `server {}`: TLS to the servers", line.place, line.word(1)));
        }
        let mut words = vec!["server".to_owned(), line.word(1).to_owned(), mark];
        let mut rest = line.rest(3).iter();
        while let Some(word) = rest.next() {
            // A listener of the same file expects them.
            let is_expected = own.is_some() && word.starts_with("send-proxy");
            if is_expected || SERVER_WORDS.contains(&word.as_str()) {
                words.push(word.clone());
            } else if SERVER_VALUES.contains(&word.as_str()) {
                words.extend([word.clone(), rest.next().cloned().unwrap_or_default()]);
            }
        }
        words
    }

    fn mark(&mut self, backend: &str, address: &str) -> String {
        let key = (backend.to_owned(), address.to_owned());
        if let Some(mark) = self.servers.get(&key) {
            return mark.clone();
        }
        let mark = self.staged.server(backend);
        self.servers.insert(key, mark.clone());
        mark
    }

    /// What frontends and the backends behind them name; a scope for each frontend.
    fn hints(&mut self, sections: &[Section]) {
        let mut behind = Scope::default();
        let shared =
            sections.iter().filter(|section| ["backend", "defaults", "userlist"].contains(&section.kind.as_str()));
        shared
            .clone()
            .chain(sections.iter().filter(|section| is_proxy(section)))
            .flat_map(|section| &section.lines)
            .for_each(|line| self.set_variable(line));
        shared.flat_map(|section| &section.lines).for_each(|line| self.noted(line, &mut behind));
        for section in sections.iter().filter(|section| ["frontend", "listen"].contains(&section.kind.as_str())) {
            let Some(listeners) = self.own.get(&section.name).cloned() else { continue };
            let mut scope = Scope { listeners, ..Scope::default() };
            scope.hosts.push(("default.test".to_owned(), Some(section.place.clone())));
            section.lines.iter().for_each(|line| self.noted(line, &mut scope));
            scope.hints.extend(behind.hints.iter().cloned());
            self.staged.names.extend(scope.hints.iter().filter_map(|hint| match &hint.about {
                About::Host(host) => Some(host.clone()),
                _ => None,
            }));
            self.staged.scopes.push(scope);
        }
    }

    fn set_variable(&mut self, line: &Line) {
        for at in 0..line.words.len() {
            let name = line.word(at).strip_prefix("set-var(").and_then(|rest| rest.split([',', ')']).next());
            if let Some(name) = name {
                self.variables.insert(name.to_owned(), line.word(at + 1).to_owned());
            }
        }
    }

    /// What a line names.
    fn noted(&mut self, line: &Line, scope: &mut Scope) {
        let place = &line.place;
        match (line.word(0), line.word(1)) {
            ("acl", _) => self.criterion(line.rest(2), scope, place),
            ("monitor-uri", path) => scope.note(About::Path(path.to_owned()), place, None),
            ("stats", "uri") => scope.note(About::Path(line.word(2).to_owned()), place, None),
            ("user", name) => {
                if let Some(password) = line.after("insecure-password") {
                    scope.note(About::User(name.to_owned(), password.to_owned()), place, None);
                }
            }
            ("cookie", name) => scope.note(About::Value(Part::Cookie, name.to_owned(), vec![]), place, None),
            ("http-request", "set-header" | "add-header" | "del-header" | "replace-header") => {
                let field = line.word(2).to_ascii_lowercase();
                if !self.staged.set_fields.contains(&field) {
                    self.staged.set_fields.push(field);
                }
            }
            ("http-request", "replace-path" | "replace-uri" | "replace-pathq") => {
                of_path(line.word(2)).into_iter().for_each(|path| scope.note(About::Path(path), place, None));
            }
            _ => {}
        }
        for (at, word) in line.words.iter().enumerate() {
            match word.as_str() {
                "{" | "!{" => {
                    let end = line.rest(at + 1).iter().position(|word| word == "}").unwrap_or(0);
                    self.criterion(line.rest(at + 1).get(..end).unwrap_or_default(), scope, place);
                }
                word if word.contains("%[") => {
                    let parts = word.split("%[").skip(1).filter_map(|part| part.split(']').next());
                    parts.for_each(|part| self.criterion(&[part.to_owned()], scope, place));
                }
                _ => {}
            }
        }
    }

    /// What a test names: `hdr_beg(x) -i a b`.
    fn criterion(&mut self, words: &[String], scope: &mut Scope, place: &Place) {
        let Some((first, rest)) = words.split_first() else { return };
        let fetch = first.split("),").next().unwrap_or(first);
        let (name, argument) =
            fetch.split_once('(').map_or((fetch, ""), |(name, rest)| (name, rest.trim_end_matches(')')));
        let argument = argument.split(',').next().unwrap_or_default();
        if name == "var" {
            if let Some(set) = self.variables.get(argument).cloned().filter(|set| !set.starts_with("var(")) {
                let words: Vec<String> = std::iter::once(set).chain(rest.iter().cloned()).collect();
                self.criterion(&words, scope, place);
            }
            return;
        }
        let (stem, mut how) = match name.rsplit_once('_') {
            Some((stem, how @ ("beg" | "end" | "sub" | "dir" | "dom" | "reg" | "len"))) => (stem, how),
            _ => (name, ""),
        };
        let mut values: Vec<String> = Vec::new();
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "-m" => how = rest.next().map_or("", String::as_str),
                "-f" | "-M" | "-u" => _ = rest.next(),
                "-i" | "-n" | "--" | "eq" | "ge" | "gt" | "le" | "lt" => {}
                value => values.push(value.to_owned()),
            }
        }
        self.about((stem, argument, how), &values, scope, place);
    }

    fn about(
        &mut self,
        (stem, argument, how): (&str, &str, &str),
        values: &[String],
        scope: &mut Scope,
        place: &Place,
    ) {
        let found = |is_path: bool| values.iter().flat_map(|value| matching(value, how, is_path)).collect::<Vec<_>>();
        let stem = stem.strip_prefix("req.").unwrap_or(stem);
        match stem {
            "path" | "capture.req.uri" | "pathq" | "url" | "baseq" | "base" | "url32" => {
                for value in found(true) {
                    match stem {
                        "path" => scope.note(About::Path(value), place, None),
                        "base" | "baseq" => {
                            let (host, path) = value.trim_start_matches('/').split_once('/').unwrap_or((&value, ""));
                            scope.note(About::Host(host.to_owned()), place, None);
                            scope.note(About::Target(format!("/{path}")), place, None);
                        }
                        _ => scope.note(About::Target(value), place, None),
                    }
                }
            }
            "method" => values.iter().for_each(|method| scope.note(About::Method(method.clone()), place, None)),
            "src" => {
                for value in values {
                    match clients(value) {
                        Some(found) => {
                            found.into_iter().for_each(|client| scope.note(About::Client(client), place, None))
                        }
                        None => {
                            self.staged.leave(format!("{place}: `src {value}`: clients that cannot be on loopback"))
                        }
                    }
                }
            }
            "ssl_sni" | "ssl_fc_sni" => {
                found(false).into_iter().for_each(|host| scope.note(About::Host(host), place, None))
            }
            "query" => {
                found(false).into_iter().for_each(|value| scope.note(About::Target(format!("/?{value}")), place, None))
            }
            stem if stem.contains("hdr") && argument.eq_ignore_ascii_case("host") => {
                found(false).into_iter().for_each(|host| scope.note(About::Host(host), place, None));
            }
            stem if stem.contains("hdr")
                || stem.contains("cook")
                || ["urlp", "url_param", "urlp_val", "url_param_val"].contains(&stem) =>
            {
                if argument.is_empty() || stem.starts_with("capture") || stem.starts_with("res") {
                    return;
                }
                let part = match stem {
                    stem if stem.contains("hdr") => Part::Header,
                    stem if stem.contains("cook") => Part::Cookie,
                    _ => Part::Argument,
                };
                scope.note(About::Value(part, argument.to_owned(), found(false)), place, None);
            }
            _ => {}
        }
    }
}

/// An address without its family.
fn bare(address: &str) -> String {
    let text = ["ipv4@", "ipv6@", "*:", "0.0.0.0:", "[::]:", ":::", ":"]
        .iter()
        .fold(address, |text, start| text.strip_prefix(start).unwrap_or(text));
    text.strip_prefix("unix@").unwrap_or(text).to_owned()
}

/// Paths that an expression matches.
fn of_path(expression: &str) -> Vec<String> {
    samples(expression).into_iter().map(|text| if text.starts_with('/') { text } else { format!("/x{text}") }).collect()
}

/// Texts that a value matches, and one more.
fn matching(value: &str, how: &str, is_path: bool) -> Vec<String> {
    let slash = if is_path && !value.starts_with('/') { "/x" } else { "" };
    match how {
        "beg" if is_path => vec![value.to_owned(), format!("{value}x"), format!("{value}/x")],
        "beg" => vec![value.to_owned(), format!("{value}x")],
        "end" => vec![format!("{slash}{value}"), format!("{}x{value}", if is_path { "/" } else { "" })],
        "sub" => vec![format!("{slash}{value}"), format!("{slash}{value}x")],
        "dir" => vec![format!("/{0}", value.trim_matches('/')), format!("/x/{0}/y", value.trim_matches('/'))],
        "dom" => vec![value.to_owned(), format!("x.{value}")],
        "reg" if is_path => of_path(value),
        "reg" => samples(value),
        "len" => value.parse::<usize>().map(|length| vec!["x".repeat(length.min(1_000))]).unwrap_or_default(),
        "found" | "bool" => vec![],
        _ => vec![value.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::proof::tests::{given, has};

    fn of(text: &str) -> Staged {
        staged(given("/h.cfg", text)).unwrap()
    }

    #[test]
    fn what_runs_is_on_loopback_and_touches_nothing() {
        for (line, expected) in [
            ("server a 10.0.0.1:80 check ssl verify none weight 3 backup", "server a @server0@ weight 3 backup"),
            ("server a unix@/run/x.sock send-proxy", "server a @server0@"),
            (
                "server a unix@/run/y.sock send-proxy\n bind unix@/run/y.sock accept-proxy",
                "server a @listen1@ send-proxy bind @listen1@ accept-proxy",
            ),
            ("dispatch 10.0.0.1:80", "dispatch @server0@"),
            ("bind :81,[::]:81 interface eth0", "bind @listen1@"),
            (
                "bind 10.0.0.1:443 ssl crt /x alpn h2 accept-proxy",
                "bind @listen1@ ssl crt @dir@/certificate.pem accept-proxy",
            ),
            ("http-request lua.x", ""),
            ("option httpchk GET /", ""),
            ("log /dev/log local0", ""),
            ("external-check command /bin/x", ""),
            ("source 10.0.0.1", ""),
            ("http-request deny if { src -f /nowhere/x.lst }", "http-request deny if { src -f @dir@/empty }"),
            ("use_backend %[path,map(/nowhere/m.map,b)]", "use_backend %[path,map(@dir@/empty,b)]"),
            ("acl a path_reg ^/a\\.b\\ c", "acl a path_reg ^/a\\\\.b\\ c"),
        ] {
            let staged = of(&format!("global\n chroot /x\n lua-load x\nlisten f\n bind :80\n {line}"));
            let lines: Vec<&str> = staged.lines.iter().map(|line| line.trim()).collect();
            let expected = format!("global listen f bind @listen0@ {expected}");
            assert_eq!(lines.join(" "), expected.trim_end(), "{line}");
        }
    }

    #[test]
    fn requests_are_made_of_what_is_named() {
        let staged = of(
            "frontend f\n bind :80\n acl adm path_beg /admin\n acl h hdr(host) -i a.test\n http-request set-var(txn.x) req.hdr(X-Kind)\n \
             http-request deny if adm !{ req.hdr(X-Token) -m str s3 }\n http-request deny if { var(txn.x) odd } { method PURGE }\n \
             http-request deny if { src 127.9.0.0/16 } or { url_param(k) v } or { req.cook(c) w }\n http-request deny if { url_beg /q?d }\n \
             default_backend b\nbackend b\n server a 10.0.0.1:80",
        );
        let requests = staged.requests(20_000);
        let has = |host: &str, method: &str, target: &str, fields: &[(&str, &str)]| {
            has(&requests, (host, method, target, fields))
        };
        assert!(has("a.test", "GET", "/admin", &[("X-Token", "s3")]) && has("a.test", "GET", "/ADMIN", &[]));
        assert!(
            has("a.test", "PURGE", "/", &[("X-Kind", "odd")])
                && has("a.test", "GET", "/", &[("Cookie", "c=w; c=other")])
        );
        assert!(
            has("a.test", "GET", "/?k=v", &[])
                && has("a.test", "GET", "/q?d", &[])
                && has("default.test", "GET", "/admin/x", &[])
        );
        assert!(requests.iter().any(|request| request.client == Some(std::net::Ipv4Addr::new(127, 9, 0, 0))));
        assert!(requests.iter().all(|request| request.place.starts_with("/h.cfg:")));
    }
}
