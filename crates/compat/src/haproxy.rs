//! `portunus import haproxy FILE`: a configuration of HAProxy as a native one.
//!
//! `syntax.rs` reads the grammar, `sections.rs` what `defaults` gives to frontends and backends, `acl.rs` conditions (`criterion.rs` what each of their tests asks, `items.rs` of which values), `rules.rs` what is done under them;
//! `program.rs` goes through the rules for each host and each set of paths (`region.rs`) and makes cells of what it finds; `bind.rs`, `servers.rs`, `source.rs` and
//! `tunnel.rs` carry sockets, backends, whose address servers see, and TCP mode, `written.rs` users and pages for errors, which are files natively, `template.rs` the expressions in texts, `known.rs` says of every other keyword why it is left out.
//! `docs/migration.md` is the guide.

mod tunnel;
mod program;
mod written;
mod region;
mod bind;
mod source;
mod servers;
mod checks;
mod rules;
mod template;
mod acl;
mod address;
mod criterion;
mod items;
mod known;
mod sections;
pub(crate) mod syntax;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::Front;
use crate::cells::{Language, Unplanned};
use crate::certificates::{self, Links};
use crate::conditions::is_in;
use crate::draft::Draft;
use crate::files::Files;
use crate::migration::{self, Given, Place, Problem, Report};
use crate::native::{Map, Value, bytes, duration};
use crate::sites::{Sites, respond, routes};
use acl::{About, Condition, Counted, Reader, Test};
use program::Site;
use region::Meetings;
use rules::{Action, Rule, Rules};
use sections::{Global, Kind, Proxy, milliseconds, proxies};
use syntax::Section;
use template::Facts;
use written::Written;

/// What `--help` prints.
const USAGE: &str = "\
Usage: portunus import haproxy [--keys FOLDER] [--files FOLDER] [--files-from FOLDER] [--prove [--requests NUMBER]] FILE...

Prints the native configuration for FILE (haproxy.cfg; `-` is standard input; several are read one after the other, as HAProxy reads them). Variables of the
environment that it names must be set.

  --files-from FOLDER  look for FILE and what it names in FOLDER, which holds a copy of the other machine's files (/etc/x is FOLDER/etc/x)
  --keys FOLDER   make FOLDER with links to the certificates that FILE names, and serve it
  --files FOLDER  write into FOLDER what is a file natively and is not there: users with hashes of their passwords, pages for errors
  --prove         run the installed HAProxy and Portunus side by side on loopback, send the same requests to both, those that the rules of FILE are about, and print what differs, the worst
                  first
  --requests NUMBER  how many requests --prove sends (2000)

Exit status: 0 if everything was carried, 1 if something was left out (each such thing is a comment with file, line and reason), 2 if nothing was written. With --prove
also 1 if something differs, 2 if nothing could be compared, and 3 if the import lets through what the original rejects.
";

/// The buffer of HAProxy, bytes, which a request's header must fit in.
const BUFFER: u64 = 16 << 10;
/// HAProxy has no limit for bodies.
const MAX_BODY: u64 = 1 << 40;
/// Most hosts of a frontend.
const MAX_HOSTS: usize = 2_000;
/// Most steps through rules.
const MAX_STEPS: usize = 1_000_000;
/// Most paths of a frontend times its hosts.
const MAX_CELLS: usize = 40_000;

/// Prints the native configuration.
pub fn import(words: &[OsString]) -> Front {
    let (words, folder) = match migration::folder_option(words, "--files") {
        Ok(found) => found,
        Err(problem) => return migration::rejected(&format!("{problem}\n{USAGE}")),
    };
    let Given { path, text, more, files, keys } = match Given::read(&words, USAGE) {
        Ok(given) => given,
        Err(ended) => return ended,
    };
    let links = Links { folder: keys, links: Vec::new() };
    let report = Report::default();
    let environment = |name: &str| std::env::var(name).ok();
    let texts: Vec<(PathBuf, String)> = std::iter::once((path.clone(), text)).chain(more).collect();
    let made = translate(files, &texts, (links, Written::into(folder)), &report, &environment);
    let made = made.and_then(|(root, links, written)| match written.write() {
        Ok(()) => Ok((root, links)),
        Err(why) => Err(Problem::new(&Place { file: path.display().to_string().into(), line: 1 }, why)),
    });
    certificates::printed(&format!("haproxy {}", path.display()), made, &report)
}

/// Makes a native configuration of a text alone, which names no files.
///
/// # Errors
/// What is wrong with the text, with its place; or, of what was made of it, why that is none.
pub fn of_text(text: &str) -> Result<Result<String, Vec<String>>, String> {
    let path = Path::new("haproxy.cfg");
    let report = Report::default();
    let nothing = (Links::default(), Written::default());
    let texts = [(path.to_owned(), text.to_owned())];
    let made = translate(Files::given(BTreeMap::new()), &texts, nothing, &report, &|_| None);
    let (root, ..) = made.map_err(|problem| problem.to_string())?;
    let text = migration::served(root, &report).write();
    Ok(migration::accepted(&text).map(|()| text))
}

/// A backend, one server of it, and whether bytes are forwarded.
type Wanted = (String, Option<String>, bool);

/// What an import is made with.
pub(crate) struct Making<'d> {
    report: &'d Report,
    draft: Draft,
    files: Files,
    links: Links,
    written: Written,
    /// Where relative names of files start.
    root: PathBuf,
    global: Global,
    /// `userlist` sections.
    users: Vec<Section>,
    proxies: Vec<Proxy>,
    rules: Vec<Rules>,
    /// What was made of backends.
    upstreams: BTreeMap<Wanted, Result<Option<String>, String>>,
    /// Whose PROXY headers are believed, by the place of the rule that says so.
    expected: BTreeMap<Place, Vec<ipnet::IpNet>>,
    meetings: Meetings,
    /// Steps through rules that may still be taken.
    steps: usize,
}

/// The whole of it.
fn translate(
    mut files: Files,
    texts: &[(PathBuf, String)],
    (links, written): (Links, Written),
    report: &Report,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(Map, Links, Written), Problem> {
    let (mut sections, mut set) = (Vec::new(), syntax::Variables::new());
    for (path, text) in texts {
        sections.extend(syntax::read(&path.display().to_string(), text, environment, &mut set)?);
    }
    let path = texts.first().map_or(Path::new(""), |(path, _)| path.as_path());
    let name = path.display().to_string();
    let proxies: Vec<Proxy> = proxies(&sections)?;
    let global = Global::of(&sections);
    let root = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut draft = Draft::default();
    known::audit_process(&global, &sections, report).into_iter().for_each(|comment| draft.comment(comment));
    let mut reader = Reader { files: &mut files, root: &root, report, comments: Vec::new() };
    let rules: Vec<Rules> =
        proxies.iter().enumerate().map(|(at, proxy)| rules::rules(at, proxy, &mut reader)).collect();
    let expected = proxies.iter().flat_map(|proxy| expectations(proxy, &mut reader)).collect();
    std::mem::take(&mut reader.comments).into_iter().for_each(|comment| draft.comment(comment));
    let upstreams = BTreeMap::new();
    let (meetings, steps) = (Meetings::default(), MAX_STEPS);
    let users = sections.iter().filter(|section| section.kind == "userlist").cloned().collect();
    let mut making = Making {
        report,
        draft,
        files,
        links,
        written,
        root,
        global,
        users,
        proxies,
        rules,
        upstreams,
        expected,
        meetings,
        steps,
    };
    making.process();
    making.serve();
    if making.draft.listeners.is_empty() {
        let place = sections.first().map(|section| section.place.clone());
        let place = place.unwrap_or_else(|| Place { file: name.as_str().into(), line: 1 });
        return Err(Problem::new(&place, "no frontend of it can be carried"));
    }
    making.forwarded_for();
    Ok((making.draft.into_map(), making.links, making.written))
}

/// Whose PROXY headers `expect-proxy` believes.
fn expectations(proxy: &Proxy, reader: &mut Reader<'_>) -> Vec<(Place, Vec<ipnet::IpNet>)> {
    let acls = acl::Acls::of(proxy.lines.iter(), reader);
    let of = proxy.lines.iter().filter(|line| line.word(0) == "tcp-request" && line.word(2) == "expect-proxy");
    of.map(|line| {
        let condition = acls.condition(line.parts().1, (About::Request, &line.place), reader);
        (line.place.clone(), Making::expected_from(&condition))
    })
    .collect()
}

impl Making<'_> {
    /// Settings of the process.
    fn process(&mut self) {
        let number = |word: &str| word.parse::<u64>().ok().filter(|number| *number > 0);
        let value = |keyword: &str| self.global.one(keyword).map(|line| line.word(1).to_owned());
        if let Some(count) = value("nbthread").as_deref().and_then(number).filter(|count| *count <= 1024) {
            self.draft.settings.set("workers", Value::plain(count));
        }
        let mut limits = Map::of([("max_body", Value::text(bytes(MAX_BODY)))]);
        if let Some(count) = value("maxconn").as_deref().and_then(number) {
            limits.set("max_connections", Value::plain(count.min(100_000_000)));
        }
        for (keyword, key) in [("hard-stop-after", "drain_timeout"), ("grace", "drain_delay")] {
            if let Some(time) = value(keyword).as_deref().and_then(milliseconds).filter(|time| *time > 0) {
                limits.set(key, duration(time));
            }
        }
        let tunnels = self.proxies.iter().filter(|proxy| !proxy.is_tcp()).filter_map(|proxy| proxy.timeout("tunnel"));
        if let Some(time) = tunnels.max() {
            limits.set("tunnel_idle_timeout", duration(time));
        }
        let size = |keyword: &str, default: u64| value(keyword).as_deref().and_then(number).unwrap_or(default);
        let head = size("tune.bufsize", BUFFER).saturating_sub(size("tune.maxrewrite", BUFFER / 16));
        let head = head.clamp(1 << 10, 32 << 10);
        for key in ["max_request_line", "max_header_bytes"] {
            limits.set(key, bytes(head));
        }
        self.draft.settings.set("limits", limits);
        self.draft.encoded_slashes_pass();
        self.unusual_names();
        let off = ["x_forwarded", "x_real_ip", "request_id", "via"].map(|key| (key, Value::plain(false)));
        self.draft.settings.set("forwarding", Map::of(off));
    }

    /// `option http-restrict-req-hdr-names` of all frontends and backends, which is one setting here: the strictest, said where others differ.
    fn unusual_names(&mut self) {
        const WORDS: [(&str, &str); 3] = [("preserve", "pass"), ("delete", "drop"), ("reject", "reject")];
        let rank = |word: &str| WORDS.iter().position(|(own, _)| *own == word).unwrap_or(WORDS.len() - 1);
        let http = || self.proxies.iter().filter(|proxy| !proxy.is_tcp());
        let said =
            |proxy: &Proxy| proxy.option("http-restrict-req-hdr-names").map(|line| (rank(line.word(2)), line.clone()));
        let fronts: Vec<_> = http().filter(|proxy| proxy.is_in_front()).map(said).collect();
        let all: Vec<_> = http().filter_map(said).collect();
        let strictest = all.iter().map(|(rank, _)| *rank).max().unwrap_or(0);
        // Requests pass a frontend first.
        let is_one = fronts.iter().all(|front| front.as_ref().map_or(0, |(rank, _)| *rank) == strictest);
        let word = WORDS.get(strictest).map_or("reject", |(_, word)| *word);
        let first = all.iter().find(|(rank, _)| *rank == strictest && *rank > 0).map(|(_, line)| line.clone());
        if let Some(line) = first {
            let comment = match (is_one, word) {
                (false, _) => {
                    let why = "other sections let more pass, and here all are as this one (`headers.unusual_names`)";
                    self.report.left_out(&line.place, &line.shown(), why)
                }
                (true, "reject") => {
                    self.report.differs(&line.place, &line.shown(), "the status is 400 in place of 403")
                }
                (true, _) => String::new(),
            };
            if !comment.is_empty() {
                self.draft.comment(comment);
            }
        }
        self.draft.unusual_names(word);
    }

    /// The frontends.
    fn serve(&mut self) {
        let mut sites = Sites::default();
        let mut names = Vec::new();
        let count = self.proxies.len();
        for at in 0..count {
            let Some(proxy) = self.proxies.get(at).cloned() else { continue };
            let comments = known::audit(&proxy, self.report);
            if !proxy.is_in_front() || proxy.one("bind").is_none() {
                comments.into_iter().for_each(|comment| self.draft.comment(comment));
                continue;
            }
            if proxy.is_disabled() {
                self.draft.comment(format!("{}: {} is disabled, and not there", proxy.place, proxy.name));
                continue;
            }
            self.frontend(at, &proxy, comments, &mut sites, &mut names);
        }
        self.draft.routes = sites.into_routes(&names);
    }

    fn frontend(
        &mut self,
        at: usize,
        proxy: &Proxy,
        comments: Vec<String>,
        sites: &mut Sites,
        names: &mut Vec<String>,
    ) {
        let mut unread = Vec::new();
        let sockets =
            bind::sockets(proxy, |line, why| unread.push(self.report.left_out(&line.place, &line.shown(), why)));
        unread.into_iter().for_each(|comment| self.draft.comment(comment));
        let mut comments = Some(comments);
        for socket in sockets {
            let (mut native, facts) = match self.listener(proxy, &socket) {
                Ok(found) => found,
                Err(why) => {
                    let what = format!("bind {}", socket.bind.join(","));
                    self.draft.comment(self.report.left_out(
                        &socket.place,
                        &what,
                        &format!("{why}; the listener is left out"),
                    ));
                    continue;
                }
            };
            comments.take().into_iter().flatten().for_each(|comment| native.comment(comment));
            if proxy.is_tcp() {
                self.tunnel(at, proxy, facts, &mut native);
            } else if let Some(pages) = self.error_pages(proxy) {
                native.set("error_pages", pages);
            }
            if let Some(why) = self.draft.rejects_listener(&native) {
                let what = format!("bind {}", socket.bind.join(","));
                native.comments().iter().for_each(|comment| self.draft.comment(comment.clone()));
                self.draft.comment(self.report.left_out(
                    &socket.place,
                    &what,
                    &format!("{why}; the listener is left out"),
                ));
                continue;
            }
            if !proxy.is_tcp()
                && let Some(Value::Text(name)) = native.get("name")
            {
                names.push(name.clone());
                self.sites(at, name.clone().as_str(), facts, sites);
            }
            self.draft.listeners.push(native);
        }
        comments.into_iter().flatten().for_each(|comment| self.draft.comment(comment));
    }

    /// The routes of a frontend for a listener.
    fn sites(&mut self, at: usize, listener: &str, facts: Facts, sites: &mut Sites) {
        let (mut hosts, languages) = self.asked(at);
        if hosts.len() > MAX_HOSTS || hosts.len().saturating_mul(languages.len()) > MAX_CELLS {
            let route = self.too_many(at);
            sites.add(listener, Vec::new(), vec![route]);
            return;
        }
        // Domains before the names below them, so that what a name has alike is known.
        hosts.sort_by_key(|host| (!host.starts_with("*."), host.len()));
        let others = self.site(at, &Site { facts, host: None }, &languages);
        let mut made: Vec<(String, Vec<Map>)> = Vec::new();
        for host in hosts {
            let own = self.site(at, &Site { facts, host: Some(&host) }, &languages);
            made.push((host, own));
        }
        let around = |host: &String| {
            let wider = made.iter().filter(|(other, _)| other != host && other.starts_with("*.") && is_in(host, other));
            wider.max_by_key(|(other, _)| other.len()).map_or(&others, |(_, routes)| routes)
        };
        let mut groups: Vec<(Vec<String>, Vec<Map>)> = Vec::new();
        for (host, routes) in made.iter().filter(|(host, routes)| around(host) != routes) {
            match groups.iter_mut().find(|(_, same)| same == routes) {
                Some((hosts, _)) => hosts.push(host.clone()),
                None => groups.push((vec![host.clone()], routes.clone())),
            }
        }
        groups.into_iter().for_each(|(hosts, routes)| sites.add(listener, hosts, routes));
        sites.add(listener, Vec::new(), others);
    }

    fn too_many(&self, at: usize) -> Map {
        let mut route = respond(501);
        if let Some(proxy) = self.proxies.get(at) {
            let why = "its hosts and paths are too many; all requests to it are answered 501";
            route.comment(self.report.left_out(&proxy.place, &format!("frontend {}", proxy.name), why));
        }
        route
    }

    fn site(&mut self, at: usize, site: &Site<'_>, languages: &[Language]) -> Vec<Map> {
        let cells = self.cells(at, site, languages);
        match routes(&cells) {
            Ok(routes) => routes,
            Err(Unplanned::Cell(_) | Unplanned::TooMuch) => vec![self.too_many(at)],
        }
    }

    /// The hosts and paths that rules of a frontend, and of its backends, ask about.
    fn asked(&self, at: usize) -> (Vec<String>, Vec<Language>) {
        let mut hosts: Vec<String> = Vec::new();
        let mut languages: Vec<Language> = Vec::new();
        let mut places = vec![at];
        for place in std::iter::once(at).chain(self.led_to(at)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for rules in places.iter().filter_map(|place| self.rules.get(*place)) {
            let all = [&rules.requests, &rules.switching, &rules.servers, &rules.responses];
            for rule in all.into_iter().flatten() {
                if let Action::Path { start, alone, .. } = &rule.action {
                    languages.push(Language::Prefix(start.clone()));
                    languages.extend(alone.clone().map(Language::Exact));
                }
                for test in rule.condition.tests() {
                    match test {
                        Test::Hosts(own) => hosts.extend(own.iter().cloned()),
                        Test::Paths(own) => languages.extend(own.iter().cloned()),
                        _ => {}
                    }
                }
            }
        }
        hosts.sort();
        hosts.dedup();
        (hosts, languages)
    }

    /// The backends that a frontend leads to.
    fn led_to(&self, at: usize) -> Vec<usize> {
        let rules = self.rules.get(at).map(|rules| rules.switching.as_slice()).unwrap_or_default();
        let named = rules.iter().filter_map(|rule| match &rule.action {
            Action::Backend(name) => {
                self.proxies.iter().position(|proxy| proxy.name == *name && proxy.kind != Kind::Frontend)
            }
            _ => None,
        });
        named.collect()
    }

    /// The rules that a request to a frontend meets, up to a backend.
    fn first_rules(&self, at: usize) -> Rc<[Rule]> {
        let (Some(rules), Some(proxy)) = (self.rules.get(at), self.proxies.get(at)) else { return Rc::new([]) };
        let mut out = rules.requests.clone();
        out.extend(rules.switching.iter().cloned());
        if proxy.kind == Kind::Listen && proxy.one("default_backend").is_none() {
            out.extend(rules.servers.iter().cloned());
            out.extend(rules.responses.iter().cloned());
            out.push(forward(proxy));
        }
        out.into()
    }

    /// The rules that a request meets in a backend.
    fn backend_rules(&self, name: &str, front: usize) -> Option<Rc<[Rule]>> {
        let at = self.proxies.iter().position(|proxy| proxy.name == name && proxy.kind != Kind::Frontend)?;
        let (rules, proxy) = (self.rules.get(at)?, self.proxies.get(at)?);
        if proxy.is_disabled() {
            return Some(Rc::new([]));
        }
        let mut out = if at == front { Vec::new() } else { rules.requests.clone() };
        out.extend(rules.servers.iter().cloned());
        out.extend(rules.responses.iter().cloned());
        if at != front {
            out.extend(self.rules.get(front).map(|rules| rules.responses.clone()).unwrap_or_default());
        }
        out.push(forward(proxy));
        Some(out.into())
    }

    /// The period of the rate that a table stores, in milliseconds.
    fn period(&self, table: &str, of: Counted) -> Option<u64> {
        let line = self.proxies.iter().find(|proxy| proxy.name == table)?.one("stick-table")?;
        let names: &[&str] = match of {
            Counted::Requests => &["http_req_rate("],
            Counted::Connections => &["conn_rate(", "sess_rate("],
            Counted::Open => return None,
        };
        let stored = names.iter().find_map(|name| line.words.iter().find_map(|word| word.split(name).nth(1)))?;
        milliseconds(stored.split(')').next()?).filter(|period| *period > 0)
    }

    /// The compression of a backend, or of its frontend.
    fn compression(&mut self, name: &str, front: usize) -> Option<String> {
        let back = self.proxies.iter().find(|proxy| proxy.name == name && proxy.kind != Kind::Frontend);
        let of = |proxy: &Proxy, what: &[&str]| -> Option<Vec<String>> {
            let line =
                proxy.lines.iter().rev().find(|line| line.word(0) == "compression" && what.contains(&line.word(1)))?;
            Some(line.rest(2).to_vec())
        };
        let proxy = [back, self.proxies.get(front)]
            .into_iter()
            .flatten()
            .find(|proxy| of(proxy, &["algo", "algo-res"]).is_some())?;
        let algorithms = of(proxy, &["algo", "algo-res"])?;
        if !algorithms.iter().any(|algorithm| algorithm == "gzip") {
            return None;
        }
        let mut native = Map::of([("encodings", Value::text("gzip"))]);
        if let Some(types) = of(proxy, &["type", "type-res"]).filter(|types| !types.is_empty()) {
            // By their start, as there: `text/` is every kind of text.
            let whole = |text: String| if text.ends_with('/') { format!("{text}*") } else { text };
            native.set("types", Value::texts(types.into_iter().map(whole)));
        }
        Some(self.draft.compression.intern("gzip", native))
    }

    /// Where every route sends who the client is, in the fields that ours are called, that is a setting of all.
    fn forwarded_for(&mut self) {
        let of = |route: &Map, field: &str| match route.get("request_headers") {
            Some(Value::Map(edits)) => match edits.get("set") {
                Some(Value::Map(set)) => set.get(field).cloned(),
                _ => None,
            },
            _ => None,
        };
        let forwards: Vec<&Map> = self.draft.routes.iter().filter(|route| route.get("upstream").is_some()).collect();
        // Ours is that of the connection: another one is a text of its own.
        let is_scheme = |route: &Map, value: Value| {
            let of = |listener: &Map| {
                let scheme = if listener.get("tls").is_some() { "https" } else { "http" };
                (listener.get("name").cloned(), Value::text(scheme))
            };
            let at: Vec<Value> = match route.get("listeners") {
                Some(Value::List(names)) => names.clone(),
                Some(name) => vec![name.clone()],
                None => Vec::new(),
            };
            let of_route = |name: &Option<Value>| at.is_empty() || name.as_ref().is_some_and(|name| at.contains(name));
            self.draft.listeners.iter().map(of).filter(|(name, _)| of_route(name)).all(|(_, scheme)| scheme == value)
        };
        let is_all = !forwards.is_empty()
            && forwards.iter().all(|route| {
                of(route, "x-forwarded-for") == Some(Value::text("{client.address}"))
                    && of(route, "x-forwarded-proto").is_some_and(|value| is_scheme(route, value))
            });
        if !is_all {
            return;
        }
        // The port and the host are those that a route says itself.
        self.draft.settings.update("forwarding", |map| {
            map.set("x_forwarded", Value::plain(true));
            map.set("x_forwarded_host", Value::plain(false));
            map.set("x_forwarded_port", Value::plain(false));
        });
        for route in &mut self.draft.routes {
            let Some(Value::Map(edits)) = route.get("request_headers").cloned() else { continue };
            let mut kept = Map::default();
            for (key, value) in edits.entries() {
                let Value::Map(fields) = value else {
                    kept.set(key, value.clone());
                    continue;
                };
                let mut left = Map::default();
                let is_ours = |field: &str| key == "set" && matches!(field, "x-forwarded-for" | "x-forwarded-proto");
                fields
                    .entries()
                    .filter(|(field, _)| !is_ours(field))
                    .for_each(|(field, value)| left.set(field, value.clone()));
                if !left.is_empty() {
                    kept.set(key, left);
                }
            }
            let mut out = Map::default();
            route.comments().iter().for_each(|comment| out.comment(comment.as_str()));
            for (key, value) in route.entries() {
                match key {
                    "request_headers" if kept.is_empty() => {}
                    "request_headers" => out.set(key, kept.clone()),
                    _ => out.set(key, value.clone()),
                }
            }
            *route = out;
        }
    }

    /// The keys for a rule that responds by itself.
    ///
    /// # Errors
    /// What cannot be said.
    fn responded(
        &self,
        (words, place): (&[String], &Place),
        facts: Facts,
        is_path_changed: bool,
    ) -> Result<Map, String> {
        let after = |word: &str| {
            words.iter().position(|other| other == word).and_then(|at| words.get(at + 1)).map(String::as_str)
        };
        let kind = words.first().map_or("", String::as_str);
        if kind == "redirect" {
            return redirect(words, facts, is_path_changed);
        }
        let default = match kind {
            "return" => 200,
            "tarpit" => 500,
            _ => 403,
        };
        let status =
            after("deny_status").or(after("status")).map_or(Some(default), |status| status.parse::<u16>().ok());
        let status = status.filter(|status| (200..600).contains(status)).ok_or("its status is none of a response")?;
        let mut response = Map::of([("status", Value::plain(status))]);
        let mut added = Map::default();
        for pair in words.windows(3) {
            if let [hdr, name, value] = pair
                && hdr == "hdr"
            {
                crate::header_fields::field_fits(&name.to_ascii_lowercase(), value)?;
                template::whole(value).map_or(Ok(()), |why| Err(why.to_owned()))?;
                added.set(name, template::field(value, facts)?);
            }
        }
        if let Some(text) = after("string") {
            response.set("body", text);
        } else if let Some(text) = after("lf-string") {
            response.set("body", template::constant(text, facts).ok_or("a body that is made of the request")?);
        } else if let Some(file) = after("file") {
            let path = self.root.join(file);
            let is_absent = self.files.absence(&path).is_some();
            if !is_absent && !self.files.is_small(&path, 1 << 20) {
                return Err(format!("{file}: it cannot be read"));
            }
            self.report.expect(&self.files, [&path], place);
            response.set("body_file", migration::absolute(&path));
        } else if ["lf-file", "errorfile", "errorfiles"].iter().any(|word| after(word).is_some()) && kind == "return" {
            return Err("a response that is a file with its fields".to_owned());
        }
        let has_body = ["body", "body_file"].iter().any(|key| response.get(key).is_some());
        if let Some(media) = after("content-type").filter(|_| has_body) {
            response.set("content_type", media);
        }
        let mut keys = Map::of([("respond", response.into())]);
        if !added.is_empty() {
            keys.set("response_headers", Map::of([("add", added.into())]));
        }
        Ok(keys)
    }
}

fn forward(proxy: &Proxy) -> Rule {
    Rule {
        action: Action::Forward(proxy.name.clone()),
        condition: Condition::always(),
        list: (usize::MAX, u8::MAX),
        place: proxy.place.clone(),
        shown: proxy.name.clone(),
        proxy: proxy.name.clone(),
    }
}

/// What the words of `redirect` say, in any order.
struct Redirect<'w> {
    kind: &'w str,
    to: &'w str,
    code: &'w str,
    drops_query: bool,
}

impl Redirect<'_> {
    /// # Errors
    /// What cannot be said.
    fn of(words: &[String]) -> Result<Redirect<'_>, String> {
        let mut found = Redirect { kind: "", to: "", code: "302", drops_query: false };
        let mut words = words.iter().skip(1).map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "scheme" | "prefix" | "location" if found.kind.is_empty() => {
                    (found.kind, found.to) = (word, words.next().ok_or("it says no target")?);
                }
                "code" => found.code = words.next().unwrap_or_default(),
                "drop-query" => found.drops_query = true,
                "append-slash" | "ignore-empty" | "set-cookie" | "clear-cookie" | "set-cookie-fmt" | "keep-query" => {
                    return Err(format!("its option `{word}` cannot be carried"));
                }
                _ => return Err(format!("`{word}` of it is not known")),
            }
        }
        match found.kind {
            "" => Err("it is to a scheme, a prefix or a location".to_owned()),
            _ => Ok(found),
        }
    }
}

/// `redirect`.
fn redirect(words: &[String], facts: Facts, is_path_changed: bool) -> Result<Map, String> {
    let Redirect { kind, to, code, drops_query } = Redirect::of(words)?;
    let (to, query) = match kind {
        "scheme" => {
            let scheme = template::constant(to, facts).ok_or("its scheme is made of the request")?;
            (format!("{scheme}://{{authority}}{{path}}"), template::Query::Keep)
        }
        "prefix" => {
            let (to, _) = template::target(to, facts)?;
            (format!("{}{{path}}", if to == "/" { "" } else { to.as_str() }), template::Query::Keep)
        }
        _ => template::target(to, facts)?,
    };
    if is_path_changed && to.contains("{path}") {
        return Err("the path was changed before".to_owned());
    }
    let status = code.parse::<u16>().ok().filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308));
    let status = status.ok_or("its code is none of a redirect")?;
    let mut keys = Map::of([("to", Value::text(to)), ("status", Value::plain(status))]);
    if query == template::Query::Drop || drops_query {
        keys.set("query", "drop");
    }
    Ok(Map::of([("redirect", keys.into())]))
}
