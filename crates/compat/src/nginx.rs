//! `portunus import nginx FILE`: a configuration of nginx as a native one.
//!
//! `syntax.rs` reads the grammar and what is included, `scope.rs` has the rules of inheritance, `listen.rs` says which server a request goes to,
//! `location.rs` puts locations into their order, `rewrite.rs` reads `return`, `rewrite` and `if`, `defined.rs` the names of variables that are not what they seem, `site.rs` makes cells of all that; `forward.rs`, `fields.rs`,
//! `access.rs`, `responses.rs` and `tls.rs` carry what is done with requests, `stream.rs` servers of TCP and UDP, `values.rs` the variables in it, `known.rs` says of every other directive why it
//! is left out. `docs/migration.md` is the guide.

mod access;
mod defined;
mod fields;
mod forward;
mod guards;
mod known;
mod listen;
mod location;
mod mapped;
mod responses;
mod rewrite;
mod scope;
mod shipped;
mod sign_in;
mod site;
mod stream;
pub(crate) mod syntax;
mod tls;
mod upstream_urls;
pub(crate) mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use wire::http::field_kind::FieldKind;

use super::Front;
use crate::cells::Language;
use crate::certificates::{self, Links};
use crate::conditions::When;
use crate::draft::Draft;
use crate::files::Files;
use crate::migration::{self, Given, Problem, Report};
use crate::native::{Map, Value, bytes, duration};
use crate::sites::{Cell, Sites, Variant, respond, routes};
use fields::Forwarding;
use listen::{Listener, Names, Socket};
use scope::{Scope, milliseconds, number, size};
use site::{Facts, Making, native_body};
use syntax::Directive;

/// What `--help` prints.
const USAGE: &str = "\
Usage: portunus import nginx [--keys FOLDER] [--files-from FOLDER] [--prove [--requests NUMBER]] FILE...

Prints the native configuration for FILE (nginx.conf, a site of sites-enabled, or what `nginx -T` prints; `-` is standard input) and what it includes. Of several
files one may be a whole configuration; the others stand in its `http`.

  --files-from FOLDER  look for FILE and what it names in FOLDER, which holds a copy of the other machine's files (/etc/x is FOLDER/etc/x)
  --keys FOLDER   make FOLDER with links to the certificates and keys that FILE names, and serve it
  --prove         run the installed nginx and Portunus side by side on loopback, send the same requests to both, those that the rules of FILE are about, and print what differs, the worst
                  first
  --requests NUMBER  how many requests --prove sends (2000)

Exit status: 0 if everything was carried, 1 if something was left out (each such thing is a comment with file, line and reason), 2 if nothing was written. With --prove
also 1 if something differs, 2 if nothing could be compared, and 3 if the import lets through what the original rejects.
";

/// How large a header may be, there.
const HEADER_BUFFERS: &str = "large_client_header_buffers";
/// The largest header that is taken here, bytes.
const MAX_HEADER: u64 = 32 << 10;
/// nginx takes bodies up to this size unless it is said otherwise.
const DEFAULT_BODY: u64 = 1 << 20;

/// Prints the native configuration.
pub fn import(words: &[OsString]) -> Front {
    let Given { path, text, more, mut files, keys } = match Given::read(words, USAGE) {
        Ok(given) => given,
        Err(ended) => return ended,
    };
    let texts = std::iter::once((path, text)).chain(more);
    let paths: Vec<PathBuf> = texts.map(|(path, text)| begun(&mut files, path, text)).collect();
    let links = Links { folder: keys, links: Vec::new() };
    let report = Report::default();
    let made = translate(files, &paths, links, &report);
    let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    certificates::printed(&format!("nginx {}", shown.join(" ")), made, &report)
}

/// Makes a native configuration of a text alone, which includes nothing.
///
/// # Errors
/// What is wrong with the text, with its place; or, of what was made of it, why that is none.
pub fn of_text(text: &str) -> Result<Result<String, Vec<String>>, String> {
    let path = Path::new("nginx.conf");
    let files = Files::given(BTreeMap::from([(path.to_owned(), text.to_owned())]));
    let report = Report::default();
    let (root, _) =
        translate(files, &[path.to_owned()], Links::default(), &report).map_err(|problem| problem.to_string())?;
    let text = migration::served(root, &report).write();
    Ok(migration::accepted(&text).map(|()| text))
}

/// The file to begin with, of a text: what `nginx -T` prints has several in it.
fn begun(files: &mut Files, path: PathBuf, text: String) -> PathBuf {
    const MARK: &str = "# configuration file ";
    let mut parts: Vec<(PathBuf, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(':')) {
            Some(name) => parts.push((PathBuf::from(name), String::new())),
            None => {
                if let Some((_, text)) = parts.last_mut() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    if let Some(first) = parts.first().map(|(name, _)| name.clone()) {
        files.put(parts.into_iter().collect());
        return first;
    }
    let is_input = path == Path::new("-");
    let name = if is_input { std::path::absolute("standard-input").unwrap_or(path) } else { path };
    files.put(BTreeMap::from([(name.clone(), text)]));
    name
}

/// Reads files that stand beside each other: one whole configuration at most, and pieces that stand where `http` would be.
fn trees(
    files: &mut Files,
    (paths, root): (&[PathBuf], &Path),
    report: &Report,
) -> Result<(Vec<Directive>, Vec<Directive>), Problem> {
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    for path in paths {
        let tree = syntax::read(files, path, root, report)?;
        let is_whole =
            tree.iter().any(|directive| matches!(directive.name.as_str(), "http" | "events" | "stream" | "mail"));
        match is_whole {
            true if !whole.is_empty() => {
                return Err(Problem::new(&start_of(&tree, path), "a second whole configuration; name one"));
            }
            true => whole = tree,
            false => pieces.extend(tree),
        }
    }
    Ok((whole, pieces))
}

/// The directives in the `http` of what a command names, and those beside it.
///
/// # Errors
/// What is wrong with the files, with its place.
pub(crate) fn read(given: Given) -> Result<(Vec<Directive>, Vec<Directive>), String> {
    let Given { path, text, more, mut files, .. } = given;
    let texts = std::iter::once((path, text)).chain(more);
    let paths: Vec<PathBuf> = texts.map(|(path, text)| begun(&mut files, path, text)).collect();
    let root = access::root_of(paths.first().map_or(Path::new(""), PathBuf::as_path));
    let read = trees(&mut files, (&paths, &root), &Report::default());
    let (tree, pieces) = read.map_err(|problem| problem.to_string())?;
    let (http, beside): (Vec<_>, Vec<_>) = tree.into_iter().partition(|directive| directive.name == "http");
    let inner = http.into_iter().flat_map(|directive| directive.block.unwrap_or_default());
    Ok((inner.chain(pieces).collect(), beside))
}

/// The whole of it.
fn translate(mut files: Files, paths: &[PathBuf], links: Links, report: &Report) -> Result<(Map, Links), Problem> {
    let path = paths.first().map_or(Path::new(""), PathBuf::as_path);
    let root = access::root_of(path);
    let (tree, pieces) = trees(&mut files, (paths, &root), report)?;
    let mut draft = Draft::default();
    let is_whole = !tree.is_empty();
    let in_http = tree.iter().filter(|directive| directive.name == "http").flat_map(Directive::inner);
    let http: Vec<Directive> = in_http.chain(&pieces).cloned().collect();
    let tree = if is_whole { tree } else { pieces };
    let in_stream = tree.iter().filter(|directive| directive.name == "stream").flat_map(Directive::inner);
    let stream: Vec<Directive> = in_stream.cloned().collect();
    let mut comments = Vec::new();
    if is_whole {
        known::audit(&tree, report, &mut comments);
    }
    known::audit(&http, report, &mut comments);
    // Its maps of names and of addresses say where connections go; who uses one that cannot be carried says so.
    let is_map = |directive: &&Directive| matches!(directive.name.as_str(), "map" | "geo");
    let without_maps: Vec<Directive> = stream.iter().filter(|directive| !is_map(directive)).cloned().collect();
    known::audit(&without_maps, report, &mut comments);
    comments.into_iter().for_each(|comment| draft.comment(comment));
    let servers: Vec<&Directive> = http.iter().filter(|directive| directive.name == "server").collect();
    guards::names_are_safe(&servers, &http)?;
    let mut making = Making {
        report,
        draft,
        files,
        links,
        root,
        http: &http,
        server: None,
        server_scope: Scope::new(&http),
        forwarding: Forwarding::default(),
        has_trusted: false,
        unknown_client: None,
        defined: defined::names(&http),
        max_body: DEFAULT_BODY,
    };
    making.process(&tree);
    making.servers();
    let mut making =
        Making { http: &stream, server: None, server_scope: Scope::new(&stream), unknown_client: None, ..making };
    making.streams();
    if making.draft.listeners.is_empty() && making.draft.udp_listeners.is_empty() {
        return Err(Problem::new(&start_of(&tree, path), "no server of it can be carried"));
    }
    Ok((making.draft.into_map(), making.links))
}

fn start_of(tree: &[Directive], path: &Path) -> migration::Place {
    let first = tree.first().map(|directive| directive.place.clone());
    first.unwrap_or_else(|| migration::Place { file: path.display().to_string().into(), line: 1 })
}

impl<'d> Making<'d> {
    /// Settings of the process.
    fn process(&mut self, tree: &[Directive]) {
        let scope = Scope::new(self.http);
        let main = Scope::new(tree);
        match main.word("worker_processes") {
            Some("auto") | None => {}
            Some(count) => {
                if let Some(count) = number(count).filter(|count| (1..=1024).contains(count)) {
                    self.draft.settings.set("workers", Value::plain(count));
                }
            }
        }
        let mut limits = Map::default();
        self.max_body = scope.word("client_max_body_size").and_then(size).map_or(DEFAULT_BODY, native_body);
        limits.set("max_body", bytes(self.max_body));
        let mut time = |name: &str, key: &str, from: &Scope<'_>| {
            if let Some(time) = from.word(name).and_then(milliseconds).filter(|time| *time > 0) {
                limits.set(key, duration(time));
            }
        };
        time("client_header_timeout", "request_header_timeout", &scope);
        time("client_body_timeout", "client_idle_timeout", &scope);
        time("keepalive_timeout", "keep_alive_timeout", &scope);
        time("worker_shutdown_timeout", "drain_timeout", &main);
        if scope.word("keepalive_timeout").and_then(milliseconds) == Some(0) {
            limits.set("max_requests_per_connection", Value::plain(1));
        } else if let Some(count) = scope.word("keepalive_requests").and_then(number).filter(|count| *count > 0) {
            limits.set("max_requests_per_connection", Value::plain(count.min(1 << 40)));
        }
        if let Some(buffers) = scope.one(HEADER_BUFFERS) {
            self.header_limits(buffers, &mut limits);
        }
        self.draft.settings.set("limits", limits);
        self.draft.encoded_slashes_pass();
        self.draft.settings.update("paths", |paths| paths.set("drop_empty_query", Value::plain(true)));
    }

    /// The sizes of headers that are taken: at most what is taken here.
    fn header_limits(&mut self, buffers: &Directive, limits: &mut Map) {
        let (Some(count), Some(line)) = (number(buffers.arg(0)), size(buffers.arg(1))) else { return };
        let all = count.saturating_mul(line);
        if all > MAX_HEADER {
            let why = format!("headers have at most {}", bytes(MAX_HEADER));
            limits.comment(self.report.differs(&buffers.place, &buffers.shown(), &why));
        }
        let all = all.clamp(1 << 10, MAX_HEADER);
        limits.set("max_header_bytes", bytes(all));
        limits.set("max_request_line", bytes(line.clamp(64, all)));
    }

    /// The servers of `http`.
    fn servers(&mut self) {
        let servers: Vec<&'d Directive> = self.http.iter().filter(|directive| directive.name == "server").collect();
        let mut comments = Vec::new();
        let sockets = listen::sockets(&servers, self.report, &mut comments);
        let scopes: Vec<(Scope<'d>, Names)> = servers
            .iter()
            .map(|server| {
                (Scope::new(self.http).within(server.inner()), listen::names(server, self.report, &mut comments))
            })
            .collect();
        comments.into_iter().for_each(|comment| self.draft.comment(comment));
        let clients = self.clients(&scopes);
        self.unusual_names(&scopes);
        self.sent_fields(&servers);
        let mut listeners = Vec::new();
        for listener in listen::listeners(&sockets) {
            if let Some(native) = self.listener(&listener, &scopes, &servers, &clients) {
                self.draft.listeners.push(native);
                listeners.push(listener);
            }
        }
        let all: Vec<String> = listeners.iter().map(|listener| listener.name.clone()).collect();
        let mut sites = Sites::default();
        for (at, server) in servers.iter().enumerate() {
            let Some((scope, names)) = scopes.get(at) else { continue };
            self.server = Some(server);
            self.server_scope = scope.clone();
            self.unknown_client = clients.unknown.get(at).cloned().flatten();
            let mut is_reached = false;
            for listener in listeners.iter().filter(|listener| listener.socket.servers.contains(&at)) {
                is_reached |= self.placed(at, names, listener, &scopes, &mut sites);
            }
            if !is_reached && sockets.iter().any(|socket| socket.servers.contains(&at)) {
                self.draft.comment(listen::unreachable(&server.place));
            }
        }
        self.draft.routes = sites.into_routes(&all);
    }

    /// Fields with `_` in their name: those that a server drops do not pass at another one either.
    fn unusual_names(&mut self, scopes: &[(Scope<'d>, Names)]) {
        // Names with an underscore are invalid ones unless that is said, and invalid ones are dropped unless that is.
        let said = |scope: &Scope<'d>| {
            let invalid = scope.one("ignore_invalid_headers").filter(|one| one.arg(0) == "off");
            let underscores = scope.one("underscores_in_headers").filter(|one| one.arg(0) == "on");
            let word = if invalid.is_some() { "pass" } else { underscores.map_or("drop", |_| "underscores") };
            (word, invalid.or(underscores))
        };
        let found: Vec<(&str, Option<&Directive>)> = scopes.iter().map(|(scope, _)| said(scope)).collect();
        let first = found.first().map_or("drop", |(word, _)| *word);
        let is_one = found.iter().all(|(word, _)| *word == first);
        for directive in found.iter().filter(|_| !is_one).filter_map(|(_, directive)| *directive) {
            let why = "other servers drop such fields, and here all do";
            self.draft.comment(self.report.left_out(&directive.place, &directive.shown(), why));
        }
        self.draft.unusual_names(if is_one { first } else { "drop" });
        if !scopes.is_empty() {
            self.draft.settings.set("methods", "capitals");
        }
    }

    /// The routes of a server for a listener; whether a request reaches it there.
    fn placed(
        &mut self,
        at: usize,
        names: &Names,
        listener: &Listener,
        scopes: &[(Scope<'d>, Names)],
        sites: &mut Sites,
    ) -> bool {
        let socket = &listener.socket;
        // Of servers with one name the first has it.
        let names_of = |others: &mut dyn Iterator<Item = &usize>| -> BTreeSet<String> {
            others.filter_map(|other| scopes.get(*other)).flat_map(|(_, names)| names.hosts.iter().cloned()).collect()
        };
        let earlier = names_of(&mut socket.servers.iter().take_while(|other| **other != at));
        let others = names_of(&mut socket.servers.iter().filter(|other| **other != at));
        let own: Vec<String> = names.hosts.iter().filter(|host| !earlier.contains(*host)).cloned().collect();
        let is_default = socket.default == at;
        // A default server takes every host, but one that a wildcard of another server would take is named.
        let hosts: Vec<String> = match is_default {
            true => own.iter().filter(|host| listen::is_below(host, &others)).cloned().collect(),
            false => own.clone(),
        };
        if hosts.is_empty() && !is_default {
            return false;
        }
        let (scope, _) = match scopes.get(at) {
            Some(found) => found,
            None => return false,
        };
        let has_certificate = socket.tls && scope.word("ssl_verify_client") == Some("on");
        let facts = Facts { tls: socket.tls, port: socket.port, has_certificate, is_default };
        let own_hosts = own.clone();
        let site = self.site(&Names { hosts: own, ..names.clone() }, &facts);
        let mut hosts = hosts;
        let mut taken = BTreeSet::new();
        for (apart, of_them) in site.apart.clone() {
            let is_own = |host: &String| {
                listen::server_of(host, socket, |other| scopes.get(other).map(|(_, names)| names)) == at
            };
            // Of a host the first rule counts.
            let is_new = |host: &String| !taken.contains(host);
            let apart: Vec<String> = apart.into_iter().filter(|host| is_own(host) && is_new(host)).collect();
            taken.extend(apart.iter().cloned());
            hosts.retain(|host| !apart.contains(host));
            if !apart.is_empty() {
                sites.add(&listener.name, apart, of_them);
            }
        }
        let is_first = is_default && self.is_first_apart(at, names, &site);
        if is_default && (self.is_lost(socket, scopes) || is_first) {
            // Some hosts that no route names belong to another server.
            sites.add(&listener.name, Vec::new(), unnamed());
            hosts = own_hosts;
            hosts.retain(|host| !taken.contains(host));
        } else if is_default {
            sites.add(&listener.name, Vec::new(), site.routes.clone());
        }
        if !hosts.is_empty() {
            sites.add(&listener.name, hosts, site.routes);
        }
        true
    }

    /// Whether a rule holds for the first name of a default server, which to nginx is the host of requests without one, while others are served.
    fn is_first_apart(&mut self, at: usize, names: &Names, site: &site::Site) -> bool {
        let is_apart = site.apart.iter().any(|(hosts, _)| hosts.contains(&names.first));
        let found = is_apart && site.routes.iter().any(|route| route.get("upstream").is_some());
        let mut servers = self.http.iter().filter(|directive| directive.name == "server");
        if let Some(server) = servers.nth(at).filter(|_| found) {
            let why = "it holds for requests without a host, too, which no route can name; hosts that no server names are answered 501";
            let what = format!("if ($host = {})", names.first);
            self.draft.comment(self.report.left_out(&server.place, &what, why));
        }
        found
    }

    /// Whether requests that would come to the default server of a socket belong to another one, by a name that cannot be carried.
    fn is_lost(&mut self, socket: &Socket, scopes: &[(Scope<'d>, Names)]) -> bool {
        let names = |at: &usize| scopes.get(*at).map(|(_, names)| names);
        let others = || socket.servers.iter().filter(|at| **at != socket.default);
        // Requests without a host go to the first server that has the empty name, or none.
        let nameless = socket.servers.iter().find(|at| names(at).is_some_and(|names| names.is_nameless));
        let nameless = nameless.copied().filter(|at| *at != socket.default);
        let mut servers = self.http.iter().filter(|directive| directive.name == "server");
        if let Some(server) = nameless.and_then(|at| servers.nth(at)) {
            let why = "requests without a host go to it, and here to the default server; hosts that no server names are answered 501";
            self.draft.comment(self.report.left_out(&server.place, "server_name \"\"", why));
        }
        nameless.is_some() || others().any(|at| names(at).is_some_and(|names| names.are_lost))
    }

    /// A listener; none if it cannot be served as it was.
    fn listener(
        &mut self,
        listener: &Listener,
        scopes: &[(Scope<'d>, Names)],
        servers: &[&'d Directive],
        clients: &Clients,
    ) -> Option<Map> {
        let Listener { name, socket } = listener;
        let mut native =
            Map::of([("name", Value::text(name.clone())), ("bind", Value::texts(socket.bind.iter().cloned()))]);
        listen::open_unix_socket(socket, &mut native);
        if socket.tls {
            match self.listener_tls(listener, scopes) {
                Ok(tls) => native.set("tls", tls),
                Err(why) => {
                    let place = servers.get(socket.default)?.place.clone();
                    let what = format!("listen {}", socket.bind.join(" "));
                    self.draft.comment(self.report.left_out(
                        &place,
                        &what,
                        &format!("{why}; the listener is left out"),
                    ));
                    return None;
                }
            }
        }
        if socket.http3 {
            let advertised = servers.get(socket.default).and_then(|server| listen::advertised(server));
            let is_bound =
                |port: u16| socket.bind.iter().any(|address| address.rsplit(':').next() == Some(&port.to_string()));
            match advertised.filter(|port| !is_bound(*port)) {
                Some(port) => native.set("http3", Map::of([("advertise", Value::plain(port))])),
                None => native.set("http3", Value::plain(true)),
            }
        }
        if socket.proxy_protocol {
            native.set("proxy_protocol", self.proxy_protocol(socket, servers, clients));
        }
        // As in nginx, what the default server says counts before a name is known.
        if let Some(buffers) = servers.get(socket.default)?.inner().iter().find(|one| one.name == HEADER_BUFFERS) {
            let mut limits = Map::default();
            self.header_limits(buffers, &mut limits);
            native.set("limits", limits);
        }
        Some(native)
    }

    /// PROXY headers: believed from those that `set_real_ip_from` names, else from nobody but this machine.
    fn proxy_protocol(&mut self, socket: &Socket, servers: &[&'d Directive], clients: &Clients) -> Map {
        if clients.by_header.as_deref() == Some("proxy_protocol") && !clients.trusted.is_empty() {
            return Map::of([("trust", Value::texts(clients.trusted.iter().cloned()))]);
        }
        if let Some(server) = servers.get(socket.default) {
            let why =
                "whose PROXY headers are believed is not said (`set_real_ip_from`): name the balancers in `trust`";
            self.draft.comment(self.report.left_out(&server.place, "listen … proxy_protocol", why));
        }
        Map::of([("trust", Value::texts(["127.0.0.1", "::1"]))])
    }

    /// Who the client is behind proxies in front: said once for all servers, or not at all.
    fn clients(&mut self, scopes: &[(Scope<'d>, Names)]) -> Clients {
        let said = |scope: &Scope<'_>| {
            let networks: Vec<String> =
                scope.all(&["set_real_ip_from"]).iter().map(|one| one.arg(0).to_owned()).collect();
            let header = scope.word("real_ip_header").unwrap_or("X-Real-IP").to_ascii_lowercase();
            (networks, header, scope.is_on("real_ip_recursive"))
        };
        let all: Vec<(Vec<String>, String, bool)> = scopes.iter().map(|(scope, _)| said(scope)).collect();
        let Some((networks, header, recurses)) = all.iter().find(|(networks, ..)| !networks.is_empty()).cloned() else {
            return Clients::default();
        };
        let read =
            |text: &String| crate::addresses::network(text).filter(|network| !crate::addresses::is_mapped(network));
        let parsed: Option<Vec<String>> =
            networks.iter().map(|text| read(text).map(|network| network.to_string())).collect();
        let is_known = header == "proxy_protocol" || FieldKind::of(header.as_bytes()) == FieldKind::Forwarding;
        let is_one = is_known && all.iter().all(|said| *said == (networks.clone(), header.clone(), recurses));
        // Of several addresses nginx takes the last, unless it is said otherwise; ours takes the last that is no proxy.
        let takes_last = !recurses && header != "proxy_protocol" && !is_one_address(&networks);
        let (Some(trusted), true) = (parsed, is_one && !takes_last) else {
            let of_many = "proxies in front are believed for all servers or none, in a field that names clients; nobody passes a list of addresses";
            let of_last = "without `real_ip_recursive on` a client is the last address, whether that is a proxy or not; nobody passes a list of addresses";
            let why = if takes_last { of_last } else { of_many };
            if let Some(directive) = scopes.iter().find_map(|(scope, _)| scope.one("set_real_ip_from")) {
                self.draft.comment(self.report.left_out(&directive.place, &directive.shown(), why));
            }
            let of = |(networks, ..): &(Vec<String>, String, bool)| (!networks.is_empty()).then(|| why.to_owned());
            return Clients { unknown: all.iter().map(of).collect(), ..Clients::default() };
        };
        if header != "proxy_protocol" {
            self.has_trusted = true;
            self.draft.settings.set("trusted_proxies", Value::texts(trusted.iter().cloned()));
            let name = if header == "x-forwarded-for" { "X-Forwarded-For".to_owned() } else { header.clone() };
            let mut believed = vec![Value::text(name)];
            if mentions(self.http, "$http_x_forwarded_proto") {
                believed.push("X-Forwarded-Proto".into());
            }
            self.draft.settings.update("forwarding", |map| map.set("trusted_fields", Value::List(believed)));
        }
        Clients { trusted, by_header: Some(header), unknown: Vec::new() }
    }

    /// Which fields about the client all places send that forward.
    fn sent_fields(&mut self, servers: &[&'d Directive]) {
        let mut places = Vec::new();
        for server in servers {
            collect(&Scope::new(self.http).within(server.inner()), &mut places);
        }
        if let Some(forwarding) = Forwarding::of(&places) {
            self.forwarding = forwarding;
            let native = forwarding.native();
            self.draft.settings.update("forwarding", |map| {
                native.entries().for_each(|(key, value)| map.set(key, value.clone()));
            });
        }
    }
}

/// The routes for hosts that have none of their own, where names of some servers could not be carried.
fn unnamed() -> Vec<Map> {
    let mut keys = respond(501);
    keys.comment("hosts that no route names may belong to a server whose names could not be carried: write those out");
    let variants = vec![Variant { when: When::default(), keys }];
    let cell = Cell { language: Language::Prefix("/".to_owned()), variants };
    routes(&[cell]).unwrap_or_default()
}

/// The fields that each place sets which forwards, from a level inwards.
fn collect<'d>(scope: &Scope<'d>, places: &mut Vec<Vec<&'d Directive>>) {
    for directive in scope.own() {
        match directive.name.as_str() {
            "location" => collect(&scope.within(directive.inner()), places),
            "proxy_pass" => places.push(scope.all(&["proxy_set_header"])),
            "grpc_pass" => places.push(scope.all(&["grpc_set_header"])),
            _ => {}
        }
    }
}

/// Whether these are one address alone.
fn is_one_address(networks: &[String]) -> bool {
    let of = |text: &String| crate::addresses::network(text);
    matches!(networks, [one] if of(one).is_some_and(|network| network.prefix_len() == network.max_prefix_len()))
}

/// Whether a text stands somewhere in the arguments.
fn mentions(level: &[Directive], text: &str) -> bool {
    level
        .iter()
        .any(|directive| directive.args.iter().any(|arg| arg.contains(text)) || mentions(directive.inner(), text))
}

/// Who the client is behind proxies.
#[derive(Debug, Default)]
struct Clients {
    /// Networks of proxies that are believed.
    trusted: Vec<String>,
    /// The field, or `proxy_protocol`.
    by_header: Option<String>,
    /// By server: why it is not known.
    unknown: Vec<Option<String>>,
}
