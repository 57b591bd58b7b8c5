//! nginx: its `http` on loopback, and what it names.
//!
//! Addresses of listeners and servers become marks, files of the machine are not touched (folders are an empty one, certificates and users throw-away ones), and
//! what writes, runs programs or asks the network is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::hints::{About, Part, Scope, clients};
use super::samples::samples;
use super::{CERTIFICATE_FILE, EMPTY_FOLDER, Listener, Staged, USERS_FILE};
use crate::migration::Given;
use crate::nginx::syntax::Directive;

/// Directives that are left out: they write, run programs, ask the network, or are of TLS and of files that are not compared. Those with a `_` at their end are
/// all that begin so.
const LEFT_OUT: &[&str] = &[
    "access_log",
    "error_log",
    "open_log_file_cache",
    "resolver",
    "resolver_timeout",
    "proxy_bind",
    "client_body_in_file_only",
    "client_body_temp_path",
    "proxy_temp_path",
    "fastcgi_temp_path",
    "uwsgi_temp_path",
    "scgi_temp_path",
    "http2",
    "http3",
    "http3_",
    "quic_",
    "aio",
    "aio_",
    "directio",
    "sendfile",
    "health_check",
    "ssl",
    "ssl_",
    "proxy_ssl_",
    "grpc_ssl_",
    "uwsgi_ssl_",
    "status_zone",
    "load_module",
    "env",
    "debug_connection",
];
/// The same, of what could matter to a request; said.
const NOT_COMPARED: &[&str] = &[
    "proxy_cache",
    "proxy_cache_",
    "proxy_store",
    "proxy_store_",
    "fastcgi_cache",
    "fastcgi_cache_",
    "fastcgi_store",
    "uwsgi_cache",
    "uwsgi_cache_",
    "uwsgi_store",
    "scgi_cache",
    "scgi_cache_",
    "scgi_store",
    "proxy_no_cache",
    "dav_",
    "memcached_",
    "autoindex",
];
/// Those whose modules run programs; said.
const PROGRAMS: &[&str] = &[
    "lua_",
    "js_",
    "perl",
    "perl_",
    "passenger_",
    "modsecurity",
    "modsecurity_",
    "njs_",
    "init_by",
    "access_by",
    "content_by",
];
/// Those by which requests are counted; said.
const RATES: &[&str] =
    &["limit_req", "limit_req_", "limit_conn", "limit_conn_", "limit_rate", "limit_rate_", "auth_delay"];
/// Those that name a server.
const PASSES: [&str; 6] = ["proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"];
/// Words of `listen` that stay.
const LISTEN_WORDS: [&str; 4] = ["default_server", "default", "ssl", "proxy_protocol"];

fn is_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|known| name == *known || known.ends_with('_') && name.starts_with(known))
}

/// What is to run, and what it names.
///
/// # Errors
/// Why there is nothing to compare.
pub(super) fn staged(given: Given) -> Result<Staged, String> {
    let (http, beside) = crate::nginx::read(given)?;
    let mut making = Making::default();
    for directive in &beside {
        match directive.name.as_str() {
            "stream" => making.staged.leave(format!("{}: `stream`: servers of TCP and UDP", directive.place)),
            "mail" => making.staged.leave(format!("{}: `mail`", directive.place)),
            "load_module" => making.staged.leave(format!("{}: `load_module`: modules are not loaded", directive.place)),
            _ => {}
        }
    }
    let upstreams =
        http.iter().filter(|directive| directive.name == "upstream").map(|directive| directive.arg(0).to_owned());
    making.upstreams = upstreams.collect();
    let kept = making.block(&http, None);
    let http: Vec<Directive> = http.into_iter().collect();
    making.hints(&http);
    if making.staged.listeners.is_empty() {
        return Err("there is no `server` in an `http`: nothing can be compared".to_owned());
    }
    let Making { mut staged, .. } = making;
    staged.leave("certificates, versions and ciphers of TLS: all listeners have a throw-away certificate, and clients are not asked for one");
    let mut lines: Vec<String> =
        ["daemon off;", "master_process off;", "pid \"@dir@/nginx.pid\";", "error_log \"@dir@/nginx.log\";"]
            .map(str::to_owned)
            .to_vec();
    lines.extend(["worker_processes 1;", "events {", "}", "http {", "access_log off;"].map(str::to_owned));
    for (at, of) in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter().enumerate() {
        lines.push(format!("{of}_temp_path \"@dir@/t{at}\";"));
    }
    kept.iter().for_each(|directive| write(directive, &mut lines));
    lines.push("}".to_owned());
    staged.lines = lines;
    Ok(staged)
}

/// Writes a directive, one line each. Quotes do not change what a word means there.
fn write(directive: &Directive, lines: &mut Vec<String>) {
    let is_plain =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./@:".contains(&b));
    let word = |word: &str| match is_plain(word) {
        true => word.to_owned(),
        false => {
            format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r"))
        }
    };
    let words: Vec<String> = std::iter::once(&directive.name).chain(&directive.args).map(|text| word(text)).collect();
    match &directive.block {
        None => lines.push(format!("{};", words.join(" "))),
        Some(inner) => {
            lines.push(format!("{} {{", words.join(" ")));
            inner.iter().for_each(|directive| write(directive, lines));
            lines.push("}".to_owned());
        }
    }
}

#[derive(Default)]
struct Making {
    staged: Staged,
    upstreams: BTreeSet<String>,
    /// Listeners by the address that is theirs.
    listeners: BTreeMap<String, usize>,
    /// Marks of servers by upstream and address.
    servers: BTreeMap<(String, String), String>,
}

impl Making {
    /// What stays of a block. `upstream` is the name of the one that it is of.
    fn block(&mut self, directives: &[Directive], upstream: Option<&str>) -> Vec<Directive> {
        let kept = directives.iter().filter_map(|directive| self.directive(directive, upstream));
        kept.collect()
    }

    fn directive(&mut self, directive: &Directive, upstream: Option<&str>) -> Option<Directive> {
        let name = directive.name.as_str();
        let mut out = Directive { block: None, ..directive.clone() };
        let shown = || format!("{}: `{name}`", directive.place);
        match name {
            // What stands in these are values.
            "map" | "geo" | "types" | "split_clients" => return Some(directive.clone()),
            "ssl_certificate" | "ssl_certificate_key" => {
                out.args = vec![format!("@dir@/{CERTIFICATE_FILE}")];
                return Some(out);
            }
            "ssl_reject_handshake" => return Some(out),
            "ssl_verify_client" if directive.arg(0) != "off" => {
                self.staged.leave(format!("{}: certificates of clients", shown()));
                return None;
            }
            "server" if upstream.is_some() => {
                out.args = self.server(directive, upstream.unwrap_or_default());
                return Some(out);
            }
            "server" => return Some(self.site(directive)),
            "upstream" => {
                let kept = self.block(directive.inner(), Some(directive.arg(0)));
                return Some(Directive { block: Some(kept), ..out });
            }
            "root" | "alias" => {
                self.staged.leave(format!("{}: files", shown()));
                out.args = vec![format!("@dir@/{EMPTY_FOLDER}/")];
                return Some(out);
            }
            "auth_basic_user_file" => {
                self.staged.leave(format!("{}: its users; one is made up", shown()));
                out.args = vec![format!("@dir@/{USERS_FILE}")];
                return Some(out);
            }
            "auth_request" => self.staged.asks_service |= directive.arg(0) != "off",
            _ => {}
        }
        if PASSES.contains(&name) {
            out.args = self.pass(directive);
            return Some(out);
        }
        if is_of(name, PROGRAMS) || name.contains("_by_lua") {
            self.staged.leave(format!("{}: it runs a program", shown()));
            return None;
        }
        if is_of(name, RATES) {
            self.staged.leave(format!("{}: rates and numbers of requests", shown()));
            return None;
        }
        if is_of(name, LEFT_OUT) {
            return None;
        }
        if is_of(name, NOT_COMPARED) {
            self.staged.leave(format!("{}: `{name}`", directive.place));
            return None;
        }
        if name.ends_with("_pass") {
            self.staged.leave(format!("{}: `{name}`: it is not known here whom it asks", directive.place));
            return None;
        }
        let inner = directive.block.as_ref().map(|_| self.block(directive.inner(), None));
        Some(Directive { block: inner, ..out })
    }

    /// A server of an upstream.
    fn server(&mut self, directive: &Directive, upstream: &str) -> Vec<String> {
        let mark = self.mark(upstream, directive.arg(0));
        let stays = |word: &&String| {
            ["weight=", "max_fails=", "fail_timeout=", "max_conns="].iter().any(|start| word.starts_with(start))
                || ["backup", "down"].contains(&word.as_str())
        };
        std::iter::once(mark).chain(directive.args.iter().skip(1).filter(stays).cloned()).collect()
    }

    fn mark(&mut self, upstream: &str, address: &str) -> String {
        let key = (upstream.to_owned(), address.to_owned());
        if let Some(mark) = self.servers.get(&key) {
            return mark.clone();
        }
        let mark = self.staged.server(upstream);
        self.servers.insert(key, mark.clone());
        mark
    }

    /// Where a directive forwards to.
    fn pass(&mut self, directive: &Directive) -> Vec<String> {
        let target = directive.arg(0);
        let (name, place) = (&directive.name, &directive.place);
        if name != "proxy_pass" {
            self.staged.leave(format!("{place}: `{name}`: only HTTP/1 is spoken with the servers here"));
        }
        let (scheme, rest) = match target.split_once("://") {
            Some((scheme, rest)) => (format!("{}://", if scheme == "grpcs" { "grpc" } else { "http" }), rest),
            None => (String::new(), target),
        };
        if target.starts_with("https://") {
            self.staged.leave(format!("{place}: `{name}`: TLS to the servers"));
        }
        let end = match rest.strip_prefix("unix:") {
            Some(path) => path.find(':').map_or(rest.len(), |at| at + "unix:".len() + 1),
            None => rest.find(['/', '?']).unwrap_or(rest.len()),
        };
        let (authority, uri) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if self.upstreams.contains(authority) {
            return vec![format!("{scheme}{rest}")];
        }
        // `$scheme://…`, or a variable that is the whole URL.
        if target.contains('$') && (authority.contains('$') || scheme.is_empty() || target.starts_with('$')) {
            self.staged.leave(format!("{place}: `{name} {target}`: which server a variable names; one stands for all"));
        }
        let uri = if authority.starts_with('$') && uri.is_empty() { "" } else { uri };
        let authority = authority.trim_end_matches(':');
        let at = authority.find('$').filter(|_| !authority.starts_with('$')).unwrap_or(authority.len());
        // What stands behind a port, as in `127.0.0.1:80$request_uri`, is a path.
        let (address, behind) =
            match authority.get(..at).is_some_and(|text| text.ends_with(|c: char| c.is_ascii_digit())) {
                true => authority.split_at_checked(at).unwrap_or((authority, "")),
                false => (authority, ""),
            };
        let mark = self.mark(address, address);
        let scheme = if scheme.is_empty() && name == "proxy_pass" { "http://".to_owned() } else { scheme };
        vec![format!("{scheme}{mark}{behind}{uri}")]
    }

    /// A server of `http`: its addresses become marks, one each.
    fn site(&mut self, directive: &Directive) -> Directive {
        let mut kept = self.block(directive.inner(), None);
        let mut own = BTreeSet::new();
        kept.retain_mut(|inner| {
            if inner.name != "listen" {
                return true;
            }
            if inner.args.iter().any(|word| word == "quic") {
                self.staged.leave(format!("{}: `listen … quic`: HTTP/3", inner.place));
                return false;
            }
            let has = |word: &str| inner.args.iter().any(|other| other == word);
            let (is_tls, takes_proxy_header) = (has("ssl"), has("proxy_protocol"));
            let at = self.listener(inner.arg(0));
            if let Some(listener) = self.staged.listeners.get_mut(at) {
                listener.is_tls |= is_tls;
                listener.takes_proxy_header |= takes_proxy_header;
            }
            let words = inner.args.iter().skip(1).filter(|word| LISTEN_WORDS.contains(&word.as_str())).cloned();
            inner.args = std::iter::once(format!("@listen{at}@")).chain(words).collect();
            own.insert(at)
        });
        if own.is_empty() {
            let at = self.listener("80");
            let listen = Directive {
                name: "listen".to_owned(),
                args: vec![format!("@listen{at}@")],
                block: None,
                place: directive.place.clone(),
            };
            kept.insert(0, listen);
        }
        Directive { block: Some(kept), ..directive.clone() }
    }

    /// The number of a listener: all addresses of a port are one, as are those of both families.
    fn listener(&mut self, address: &str) -> usize {
        let text = address
            .strip_prefix("*:")
            .or(address.strip_prefix("0.0.0.0:"))
            .or(address.strip_prefix("[::]:"))
            .unwrap_or(address);
        let has_port = text.bytes().all(|b| b.is_ascii_digit())
            || text.starts_with("unix:")
            || text.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let key = if has_port { text.to_owned() } else { format!("{text}:80") };
        let key = key.strip_prefix("*:").map_or(key.clone(), str::to_owned);
        let next = self.staged.listeners.len();
        let at = *self.listeners.entry(key).or_insert(next);
        if at == next {
            self.staged.listeners.push(Listener::default());
        }
        at
    }

    /// What the servers name, each in a scope of its own; what stands in `http` is of all of them.
    fn hints(&mut self, http: &[Directive]) {
        let mut shared = Scope::default();
        for directive in http.iter().filter(|directive| !["server", "upstream"].contains(&directive.name.as_str())) {
            self.noted(directive, &mut shared, None);
        }
        for server in http.iter().filter(|directive| directive.name == "server") {
            let mut scope = Scope::default();
            let listens: Vec<&str> = server
                .inner()
                .iter()
                .filter(|inner| inner.name == "listen" && !inner.args.iter().any(|word| word == "quic"))
                .map(|inner| inner.arg(0))
                .collect();
            let listens = if listens.is_empty() { vec!["80"] } else { listens };
            for listen in listens {
                let at = self.listener(listen);
                if !scope.listeners.contains(&at) {
                    scope.listeners.push(at);
                }
            }
            for names in server.inner().iter().filter(|inner| inner.name == "server_name") {
                for name in &names.args {
                    let hosts = hosts(name);
                    self.staged.names.extend(hosts.iter().cloned());
                    scope.hosts.extend(hosts.into_iter().map(|host| (host, Some(names.place.clone()))));
                }
            }
            if scope.hosts.is_empty() {
                scope.hosts.push(("default.test".to_owned(), Some(server.place.clone())));
            }
            server.inner().iter().for_each(|inner| self.noted(inner, &mut scope, None));
            scope.hints.extend(shared.hints.iter().cloned());
            self.staged.scopes.push(scope);
        }
    }

    /// What a directive names, and those in it.
    fn noted(&mut self, directive: &Directive, scope: &mut Scope, below: Option<&str>) {
        let place = &directive.place;
        let (name, args) = (directive.name.as_str(), &directive.args);
        let mut inner_below = below.map(str::to_owned);
        let path = |scope: &mut Scope, path: String| scope.note(About::Path(path), place, None);
        match name {
            "location" => {
                let found = match (directive.arg(0), args.get(1)) {
                    ("=" | "^~", Some(text)) => vec![text.clone()],
                    ("~" | "~*", Some(expression)) => of_path(expression),
                    (text, _) if text.starts_with('@') => vec![],
                    (text, _) if text.starts_with('~') => of_path(text.trim_start_matches(['~', '*'])),
                    (text, _) => vec![text.trim_start_matches(['=', '^', '~']).to_owned()],
                };
                inner_below = found.first().cloned().or(inner_below);
                found.into_iter().for_each(|text| path(scope, text));
            }
            "rewrite" => of_path(directive.arg(0)).into_iter().for_each(|text| path(scope, text)),
            "error_page" | "auth_request" | "try_files" | "return" | "index" => {
                let texts = args.iter().filter(|text| text.starts_with('/') && !text.contains('$'));
                texts.for_each(|text| path(scope, text.clone()));
            }
            "limit_except" => args.iter().for_each(|method| scope.note(About::Method(method.clone()), place, below)),
            "allow" | "deny" | "set_real_ip_from" => self.client(directive, directive.arg(0), scope, below),
            "geo" => directive.inner().iter().for_each(|entry| self.client(directive, &entry.name, scope, below)),
            "valid_referers" => {
                let values = args
                    .iter()
                    .filter(|word| word.contains('.'))
                    .map(|host| format!("http://{}/", host.replace('*', "x")));
                scope.note(About::Value(Part::Header, "Referer".to_owned(), values.collect()), place, below);
            }
            "proxy_set_header" | "grpc_set_header" => {
                let field = directive.arg(0).to_ascii_lowercase();
                if !self.staged.set_fields.contains(&field) {
                    self.staged.set_fields.push(field);
                }
            }
            _ => {}
        }
        self.variables(directive, scope, below);
        if !matches!(name, "map" | "geo" | "types" | "split_clients") {
            directive.inner().iter().for_each(|inner| self.noted(inner, scope, inner_below.as_deref()));
        }
    }

    fn client(&mut self, of: &Directive, text: &str, scope: &mut Scope, below: Option<&str>) {
        if matches!(text, "all" | "unix:" | "default" | "ranges" | "proxy" | "include" | "delete" | "proxy_recursive") {
            return;
        }
        match clients(text) {
            Some(found) => found.into_iter().for_each(|client| scope.note(About::Client(client), &of.place, below)),
            None => {
                self.staged.leave(format!("{}: `{} {text}`: clients that cannot be on loopback", of.place, of.name))
            }
        }
    }

    /// The variables of a request that a directive reads, with the values that it compares them with.
    fn variables(&self, directive: &Directive, scope: &mut Scope, below: Option<&str>) {
        let read: Vec<String> = directive.args.iter().flat_map(|arg| variables(arg)).collect();
        if read.is_empty() {
            return;
        }
        let values: Vec<String> = match directive.name.as_str() {
            "map" => directive
                .inner()
                .iter()
                .filter(|entry| entry.name != "default")
                .flat_map(|entry| values(&entry.name))
                .collect(),
            "if" => match directive.args.as_slice() {
                [_, op, rest @ ..] if op.trim_end_matches(')') == op => {
                    let text = rest.join(" ");
                    let text = text.trim_end().trim_end_matches(')').trim_end();
                    if op.contains('~') { samples(text) } else { vec![text.to_owned()] }
                }
                _ => vec![],
            },
            _ => vec![],
        };
        let decides = matches!(directive.name.as_str(), "map" | "if");
        for variable in read {
            self.read(&variable, &values, (decides, directive), scope, below);
        }
    }

    fn read(
        &self,
        variable: &str,
        values: &[String],
        (decides, directive): (bool, &Directive),
        scope: &mut Scope,
        below: Option<&str>,
    ) {
        let place = &directive.place;
        let part = [("http_", Part::Header), ("arg_", Part::Argument), ("cookie_", Part::Cookie)];
        let found = part.iter().find_map(|(start, part)| Some((*part, variable.strip_prefix(start)?)));
        if let Some((part, name)) = found {
            if matches!(name, "host") {
                values.iter().for_each(|value| scope.note(About::Host(value.clone()), place, below));
                return;
            }
            if matches!(name, "upgrade" | "connection") {
                return;
            }
            let name = if part == Part::Header { name.replace('_', "-") } else { name.to_owned() };
            scope.note(About::Value(part, name, values.to_vec()), place, below);
            return;
        }
        if !decides {
            return;
        }
        for value in values {
            let starts = value.starts_with('/');
            match variable {
                "request_method" => scope.note(About::Method(value.to_ascii_uppercase()), place, below),
                "host" => scope.note(About::Host(value.clone()), place, below),
                "uri" | "document_uri" => {
                    scope.note(About::Path(if starts { value.clone() } else { format!("/x{value}") }), place, None)
                }
                "request_uri" | "request" => {
                    scope.note(About::Target(if starts { value.clone() } else { format!("/x{value}") }), place, None)
                }
                "args" | "query_string" => {
                    scope.note(About::Target(format!("{}?{value}", below.unwrap_or("/"))), place, None)
                }
                "content_type" => {
                    scope.note(About::Value(Part::Header, "Content-Type".to_owned(), vec![value.clone()]), place, below)
                }
                "remote_addr" => clients(value)
                    .unwrap_or_default()
                    .into_iter()
                    .for_each(|client| scope.note(About::Client(client), place, below)),
                _ => {}
            }
        }
    }
}

/// Paths that an expression of a location matches.
fn of_path(expression: &str) -> Vec<String> {
    let found = samples(expression).into_iter();
    found.map(|text| if text.starts_with('/') { text } else { format!("/x{text}") }).collect()
}

/// Hosts that a name of a server means.
fn hosts(name: &str) -> Vec<String> {
    if let Some(expression) = name.strip_prefix('~') {
        return samples(expression);
    }
    if let Some(rest) = name.strip_prefix('.') {
        return vec![rest.to_owned(), format!("x.{rest}")];
    }
    match name {
        "_" => vec!["default.test".to_owned()],
        "" => vec![],
        name if name.contains('$') => vec![],
        name => vec![name.replace('*', "x")],
    }
}

/// The values that an entry of a map matches.
fn values(key: &str) -> Vec<String> {
    match key.strip_prefix('~') {
        Some(expression) => samples(expression.trim_start_matches('*')),
        None => vec![key.strip_prefix('\\').unwrap_or(key).replace('*', "x")],
    }
}

/// The names of variables in a text.
fn variables(text: &str) -> Vec<String> {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let parts = text.split('$').skip(1);
    let names = parts.map(|part| part.trim_start_matches('{').chars().take_while(is_name).collect::<String>());
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::proof::tests::{given, has};

    fn of(text: &str) -> Staged {
        staged(given("/n/nginx.conf", text)).unwrap()
    }

    /// The part that is of the file.
    fn lines(staged: &Staged) -> String {
        let own = staged.lines.iter().skip_while(|line| !line.starts_with("scgi_temp_path")).skip(1);
        let own: Vec<&str> = own.map(String::as_str).collect();
        own.join(" ").strip_suffix(" }").unwrap().to_owned()
    }

    #[test]
    fn what_runs_is_on_loopback_and_touches_nothing() {
        let server = |text: &str| format!("http {{ server {{ listen 80; {text} }} }}");
        for (text, expected) in [
            ("proxy_pass http://10.0.0.1:80/x;", "proxy_pass http://@server0@/x;"),
            ("proxy_pass https://a.example;", "proxy_pass http://@server0@;"),
            ("proxy_pass http://unix:/run/a.sock:/x;", "proxy_pass http://@server0@/x;"),
            ("set $b 10.0.0.1; proxy_pass http://$b;", "set \"$b\" 10.0.0.1; proxy_pass http://@server0@;"),
            ("set $b http://10.0.0.1; proxy_pass $b;", "set \"$b\" http://10.0.0.1; proxy_pass http://@server0@;"),
            ("proxy_pass http://10.0.0.1:80$request_uri;", "proxy_pass \"http://@server0@$request_uri\";"),
            ("proxy_pass $scheme://10.0.0.1;", "proxy_pass http://@server0@;"),
            ("fastcgi_pass unix:/run/php.sock;", "fastcgi_pass @server0@;"),
            ("root /var/www; access_log /x; dav_methods PUT DELETE;", "root @dir@/files/;"),
            ("content_by_lua_block { os.execute('x') } resolver 10.0.0.1;", ""),
            ("proxy_cache_path /c; proxy_store on; client_body_temp_path /t;", ""),
            (
                "auth_basic_user_file /x; ssl_certificate /x; ssl_trusted_certificate /x;",
                "auth_basic_user_file @dir@/users; ssl_certificate @dir@/certificate.pem;",
            ),
            ("if ($a = \"x y\") { return 403; }", "if \"($a\" \"=\" \"x y\" \")\" { return 403; }"),
        ] {
            assert_eq!(
                lines(&of(&server(text))),
                format!("server {{ listen @listen0@; {expected} }}").replace("  ", " "),
                "{text}"
            );
        }
    }

    #[test]
    fn values_are_no_directives() {
        let staged = of("http { map $http_x $y { server 1; root 2; ssl_x 3; } server { listen 80; } }");
        assert_eq!(
            lines(&staged),
            "map \"$http_x\" \"$y\" { server 1; root 2; ssl_x 3; } server { listen @listen0@; }"
        );
    }

    #[test]
    fn addresses_become_listeners() {
        let staged = of(
            "http { server { listen 80; listen [::]:80; listen 443 ssl http2; } server { listen *:443 ssl default_server; } server { } \
                         server { listen 10.0.0.1:81 proxy_protocol; } }",
        );
        assert_eq!(
            lines(&staged),
            "server { listen @listen0@; listen @listen1@ ssl; } server { listen @listen1@ ssl default_server; } server { listen @listen0@; } \
             server { listen @listen2@ proxy_protocol; }"
        );
        let found: Vec<(bool, bool)> =
            staged.listeners.iter().map(|listener| (listener.is_tls, listener.takes_proxy_header)).collect();
        assert_eq!(found, [(false, false), (true, false), (false, true)]);
    }

    #[test]
    fn what_is_unknown_is_taken_out_whole() {
        let mut staged = of("http { server { listen 80; odd_block { a b { c; } } odd_one x; return 200; } }");
        assert!(staged.without("odd_block") && staged.without("odd_one") && !staged.without("odd_one"));
        assert_eq!(lines(&staged), "server { listen @listen0@; return 200; }");
        assert_eq!(staged.not_compared.iter().filter(|line| line.contains("does not know")).count(), 2);
    }

    /// Requests for what only two conditions together, a header within a location, or an expression lead to.
    #[test]
    fn requests_are_made_of_what_is_named() {
        let staged = of(
            "http { map $http_x_role $r { admin 1; } server { listen 80; server_name a.test *.b.test;
             location /a/ { if ($http_x = 1) { return 403; } if ($http_y = 2) { return 403; } }
             location ~ \\.php$ { allow 127.0.0.2; deny all; } if ($arg_k = 3) { return 403; } location /w { limit_except GET { deny all; } } } }",
        );
        let requests = staged.requests(10_000);
        let has = |host: &str, method: &str, target: &str, fields: &[(&str, &str)]| {
            has(&requests, (host, method, target, fields))
        };
        assert!(has("a.test", "GET", "/a/", &[("x", "1")]) && has("a.test", "GET", "/a/", &[("x", "1"), ("y", "2")]));
        assert!(
            has("a.test", "GET", "/a/", &[("x", "1"), ("x", "other")])
                && has("a.test", "GET", "/a/", &[("x", "other, 1")])
        );
        assert!(
            has("x.b.test", "GET", "/x.php", &[])
                && has("unknown.test", "GET", "/a/", &[])
                && has("a.test", "GET", "/a", &[])
        );
        assert!(
            has("a.test", "GET", "/%61/", &[])
                && has("a.test", "GET", "/x/../a/", &[])
                && has("a.test", "GET", "/?k=3", &[])
        );
        assert!(has("a.test", "POST", "/w", &[]) && has("a.test", "GET", "/", &[("x-role", "admin")]));
        assert!(requests.iter().any(|request| request.client == Some(std::net::Ipv4Addr::new(127, 0, 0, 2))));
        assert!(requests.iter().all(|request| request.place.starts_with("/n/nginx.conf:")), "{requests:?}");
        // The same each time, and no more than is asked for, of each kind some.
        assert_eq!(requests, staged.requests(10_000));
        let few = staged.requests(40);
        assert_eq!(few.len(), 40);
        assert!(
            few.iter().any(|request| !request.fields.is_empty()) && few.iter().any(|request| request.method == "POST")
        );
    }
}
