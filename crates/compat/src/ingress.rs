//! `portunus import ingress FILE...`: Kubernetes Ingress objects, with the annotations of ingress-nginx, as a native configuration.
//!
//! `manifests.rs` reads the objects, `annotations.rs` what they say besides; here paths become routes in the order in which ingress-nginx asks them, and
//! services upstreams by their names in the cluster. `docs/migration.md` is the guide.

mod annotations;
mod manifests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path as File, PathBuf};

use super::Front;
use crate::addresses::is_host;
use crate::cells::{Language, canonical, canonical_start};
use crate::conditions::When;
use crate::draft::Draft;
use crate::expressions::{Subject, native};
use crate::files::{Files, read_standard_input};
use crate::migration::{self, Place, Problem, Report, finish, rejected};
use crate::native::{Map, Value, bytes};
use crate::sites::{Cell, REST, Sites, Variant, respond, routes};
use annotations::Wanted;
use manifests::{Backend, Ingress, Kind, Manifests, Path, Port};

/// What `--help` prints.
const USAGE: &str = "\
Usage: portunus import ingress FILE...

Prints the native configuration for the Ingress objects (networking.k8s.io/v1) in FILEs, which may hold several documents; `-` is standard input.
Services among them give the numbers of named ports.

Exit status: 0 if everything was carried, 1 if something was left out (each such thing is a comment with file, line and reason), 2 if nothing was written.
";

/// Where certificates of secrets are expected.
const KEYS: &str = "/etc/portunus/keys";
/// ingress-nginx takes bodies up to this size.
const DEFAULT_BODY: u64 = 1 << 20;
/// The expression that documentation has for a path and those below it, and what stands for the path itself.
const BELOW: &str = "(/|$)(.*)";
const ITSELF: &str = "(/|$)";
/// The one port of either kind.
const LISTENERS: [(&str, &str); 2] = [("http", ":80"), ("https", ":443")];

/// Prints the native configuration.
pub fn import(words: &[OsString]) -> Front {
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return Front::Exit { code: 0, output: USAGE.to_owned(), errors: String::new() };
    }
    if words.is_empty() || words.iter().any(|word| word != "-" && word.to_string_lossy().starts_with('-')) {
        return rejected(&format!("expected files\n{USAGE}"));
    }
    let mut files = Files::of_disk(None);
    let mut manifests = Manifests::default();
    for word in words {
        let path = PathBuf::from(word);
        let text = match word == "-" {
            true => read_standard_input(),
            false => files.read(&path).map_err(|why| why.to_string()),
        };
        let read = text
            .map_err(|why| format!("{}: {why}", path.display()))
            .and_then(|text| manifests.read(&path.display().to_string(), &text).map_err(|problem| problem.to_string()));
        if let Err(problem) = read {
            return rejected(&problem);
        }
    }
    let report = Report::default();
    match translate(&manifests, words.first().map(File::new), &report) {
        Ok(root) => {
            let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            finish(&format!("ingress {}", shown.join(" ")), root, &report)
        }
        Err(problem) => rejected(&problem.to_string()),
    }
}

/// Makes a native configuration of a text alone.
///
/// # Errors
/// What is wrong with the text, with its place; or, of what was made of it, why that is none.
pub fn of_text(text: &str) -> Result<Result<String, Vec<String>>, String> {
    let mut manifests = Manifests::default();
    manifests.read("ingress.yaml", text).map_err(|problem| problem.to_string())?;
    let report = Report::default();
    let made = translate(&manifests, Some(File::new("ingress.yaml")), &report);
    let root = made.map_err(|problem| problem.to_string())?;
    let text = migration::served(root, &report).write();
    Ok(migration::accepted(&text).map(|()| text))
}

struct Making<'m> {
    report: &'m Report,
    draft: Draft,
    manifests: &'m Manifests,
}

/// What is done at a path.
struct At<'m> {
    ingress: &'m Ingress,
    path: &'m Path,
    wanted: &'m Wanted,
}

fn translate(manifests: &Manifests, first: Option<&File>, report: &Report) -> Result<Map, Problem> {
    let nowhere = Place { file: first.map_or_else(String::new, |file| file.display().to_string()).into(), line: 1 };
    let Some(start) = manifests.ingresses.first().map(|ingress| ingress.place.clone()) else {
        return Err(Problem::new(&nowhere, "there is no Ingress in it"));
    };
    let mut making = Making { report, draft: Draft::default(), manifests };
    for (kind, place) in
        manifests.others.iter().filter(|(kind, _)| !matches!(kind.as_str(), "Namespace" | "IngressClass"))
    {
        let comment = report.left_out(place, kind, "only Ingress and Service are read");
        making.draft.comment(comment);
    }
    making.draft.settings.set("limits", Map::of([("max_body", Value::text(bytes(DEFAULT_BODY)))]));
    making.draft.encoded_slashes_pass();
    let mut wanted = Vec::new();
    for ingress in &manifests.ingresses {
        let own = making.wanted(ingress);
        wanted.push(own);
    }
    making.serve(&wanted);
    match making.draft.routes.is_empty() {
        true => Err(Problem::new(&start, "no path of it can be carried")),
        false => Ok(making.draft.into_map()),
    }
}

impl Making<'_> {
    fn serve(&mut self, wanted: &[Wanted]) {
        let manifests = self.manifests;
        let secure: BTreeSet<String> = manifests
            .ingresses
            .iter()
            .flat_map(|ingress| ingress.tls.iter().flat_map(|(hosts, ..)| hosts.clone()))
            .collect();
        let has_tls = manifests.ingresses.iter().any(|ingress| !ingress.tls.is_empty());
        self.listeners(has_tls);
        let mut by_host: BTreeMap<Option<String>, Vec<At<'_>>> = BTreeMap::new();
        for (ingress, wanted) in manifests.ingresses.iter().zip(wanted).filter(|(_, wanted)| !wanted.is_canary) {
            for path in &ingress.paths {
                let aliases = wanted.aliases.iter().map(|alias| Some(alias.clone()));
                for host in [path.host.clone()].into_iter().chain(aliases) {
                    by_host.entry(host).or_default().push(At { ingress, path, wanted });
                }
            }
        }
        let mut sites = Sites::default();
        let mut names: Vec<String> = LISTENERS.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.truncate(1 + usize::from(has_tls));
        for (host, mut places) in by_host {
            let hosts: Vec<String> = host.iter().cloned().collect();
            if hosts.iter().any(|host| !is_host(host.strip_prefix("*.").unwrap_or(host))) {
                if let Some(first) = places.first() {
                    let comment = self.report.left_out(&first.path.place, &hosts.concat(), "no host name");
                    self.draft.comment(comment);
                }
                continue;
            }
            // As ingress-nginx: exact ones, then the longest.
            places.sort_by_key(|place| (place.path.kind != Kind::Exact, std::cmp::Reverse(place.path.path.len())));
            let has_certificate = host.as_ref().is_some_and(|host| is_secure(host, &secure));
            for name in &names {
                let routes = self.site(&places, name == "https", has_certificate);
                sites.add(name, hosts.clone(), routes);
            }
        }
        if !manifests.ingresses.iter().any(|ingress| ingress.paths.iter().any(|path| path.host.is_none()))
            && let Some((ingress, wanted)) =
                manifests.ingresses.iter().zip(wanted).find(|(ingress, _)| ingress.default.is_some())
        {
            let keys = self.forwarded(ingress, wanted, ingress.default.as_ref(), &ingress.place, "");
            let cell = Cell {
                language: Language::Prefix("/".to_owned()),
                variants: vec![Variant { when: When::default(), keys }],
            };
            if let Ok(routes) = routes(&[cell]) {
                names.iter().for_each(|name| sites.add(name, Vec::new(), routes.clone()));
            }
        }
        self.draft.routes = sites.into_routes(&names);
    }

    fn listeners(&mut self, has_tls: bool) {
        for (name, bind) in LISTENERS.iter().take(1 + usize::from(has_tls)) {
            self.draft.listeners.push(Map::of([("name", Value::text(*name)), ("bind", Value::text(*bind))]));
        }
        if !has_tls {
            return;
        }
        let mut store = Map::of([("folder", Value::text(KEYS))]);
        let mut default = None;
        for (hosts, secret, place) in self.manifests.ingresses.iter().flat_map(|ingress| &ingress.tls) {
            let why = format!("write its tls.crt and tls.key to {KEYS} as PEM files");
            store.comment(self.report.left_out(place, &format!("secret {secret}"), &why));
            default = default.or(hosts.iter().find(|host| is_host(host)).cloned());
        }
        if let Some(default) = default {
            store.set("default", default);
        }
        let store = self.draft.keystores.intern("main", store);
        if let Some(listener) = self.draft.listeners.last_mut() {
            listener.set("tls", Map::of([("keystore", Value::text(store))]));
        }
    }

    /// The routes of a host for a listener.
    fn site(&mut self, places: &[At<'_>], tls: bool, has_certificate: bool) -> Vec<Map> {
        let mut cells: Vec<Cell> = Vec::new();
        for place in places {
            let At { ingress, path, wanted } = place;
            let one = |keys: Map| vec![Variant { when: When::default(), keys }];
            let is_redirected = !tls && ((has_certificate && wanted.redirects_to_tls) || wanted.forces_tls);
            match language(path, wanted) {
                Ok(found) => {
                    for (language, expression) in found {
                        let keys = match is_redirected {
                            true => Map::of([(
                                "redirect",
                                Map::of([("to", Value::text("https://{host}{path}")), ("status", Value::plain(308))])
                                    .into(),
                            )]),
                            false => self.forwarded(ingress, wanted, path.backend.as_ref(), &path.place, &expression),
                        };
                        cells.push(Cell { language, variants: one(keys) });
                    }
                }
                Err(why) => {
                    // Nobody knows which paths these are.
                    let mut keys = respond(501);
                    keys.comment(self.report.left_out(
                        &path.place,
                        &path.path,
                        &format!("{why}; its host is answered 501"),
                    ));
                    return vec![keys];
                }
            }
            if let Some(root) = wanted.app_root.clone().filter(|_| path.path == "/" && !is_redirected) {
                let keys =
                    Map::of([("redirect", Map::of([("to", Value::text(root)), ("status", Value::plain(302))]).into())]);
                cells.insert(0, Cell { language: Language::Exact("/".to_owned()), variants: one(keys) });
            }
        }
        routes(&cells).unwrap_or_else(|_| {
            let mut keys = respond(501);
            if let Some(first) = places.first() {
                let why = "the order of its paths cannot be said; its host is answered 501";
                keys.comment(self.report.left_out(&first.path.place, "paths", why));
            }
            vec![keys]
        })
    }

    /// The keys for a path that leads to a service.
    fn forwarded(
        &mut self,
        ingress: &Ingress,
        wanted: &Wanted,
        backend: Option<&Backend>,
        place: &Place,
        expression: &str,
    ) -> Map {
        let mut route = Map::default();
        route.comment(format!("{place}: ingress {}", ingress.name));
        if let Some((place, shown, why)) = &wanted.closed {
            let mut keys = respond(501);
            keys.comment(self.report.left_out(place, shown, &format!("{why}; its paths are answered 501")));
            return keys;
        }
        if let Some((to, status)) = &wanted.redirect {
            route.set("redirect", Map::of([("to", Value::text(to.as_str())), ("status", Value::plain(*status))]));
            return route;
        }
        let upstream = match self.upstream(ingress, wanted, backend) {
            Ok(upstream) => upstream,
            Err(why) => {
                let mut keys = respond(501);
                keys.comment(self.report.left_out(
                    place,
                    &format!("ingress {}", ingress.name),
                    &format!("{why}; answered 501"),
                ));
                return keys;
            }
        };
        route.set("upstream", upstream);
        if let Some(target) = &wanted.rewrite {
            match rewrite(target, expression) {
                Ok(rewrite) => {
                    route.set("rewrite", rewrite);
                    route.set("allow_encoded_slash", Value::plain(false));
                }
                Err(why) => {
                    let mut keys = respond(501);
                    keys.comment(self.report.left_out(
                        place,
                        &format!("rewrite-target: {target}"),
                        &format!("{why}; answered 501"),
                    ));
                    return keys;
                }
            }
        }
        wanted.keys.entries().for_each(|(key, value)| route.set(key, value.clone()));
        if !wanted.policies.is_empty() {
            route.set("policies", Value::List(wanted.policies.iter().map(|name| Value::text(name.as_str())).collect()));
        }
        wanted.comments.iter().for_each(|comment| route.comment(comment.as_str()));
        route
    }

    /// The upstream for a service.
    fn upstream(&mut self, ingress: &Ingress, wanted: &Wanted, backend: Option<&Backend>) -> Result<String, String> {
        let backend = backend.ok_or("its backend is no service with a port")?;
        let port = match &backend.port {
            Port::Number(number) => *number,
            Port::Name(name) => {
                let key = (ingress.namespace.clone(), backend.service.clone(), name.clone());
                *self.manifests.ports.get(&key).ok_or_else(|| {
                    format!(
                        "port `{name}` of service `{}` is a name, and the Service is not among the files",
                        backend.service
                    )
                })?
            }
        };
        let host = format!("{}.{}.svc", backend.service, ingress.namespace);
        if !is_host(&host) || port == 0 {
            return Err(format!("`{host}:{port}` is no server"));
        }
        let mut upstream = Map::of([("servers", Value::List(vec![Value::text(format!("{host}:{port}"))]))]);
        wanted.upstream.comments().iter().for_each(|comment| upstream.comment(comment.as_str()));
        wanted.upstream.entries().for_each(|(key, value)| upstream.set(key, value.clone()));
        match Draft::rejects_upstream(&upstream) {
            Some(why) => Err(why),
            None => Ok(self.draft.upstreams.intern(&format!("{}-{}", ingress.namespace, backend.service), upstream)),
        }
    }
}

fn is_secure(host: &str, secure: &BTreeSet<String>) -> bool {
    secure.contains(host) || host.split_once('.').is_some_and(|(_, parent)| secure.contains(&format!("*.{parent}")))
}

/// The paths of a rule, and the expression that they are said by, if they are.
fn language(path: &Path, wanted: &Wanted) -> Result<Vec<(Language, String)>, String> {
    let text = path.path.as_str();
    if wanted.is_by_expression && path.kind != Kind::Exact {
        // As documentation has it: a segment, and what is below it.
        if let Some(start) = text.strip_suffix(BELOW)
            && let Some(own) = canonical(start).filter(|own| own == start && !own.ends_with('/'))
        {
            let below = Language::Prefix(format!("{own}/"));
            return Ok(vec![(Language::Exact(own), ITSELF.to_owned()), (below, BELOW.to_owned())]);
        }
        let whole = native(&format!("^{text}"), true, Subject::Decoded)?;
        return Ok(vec![(Language::Expression { text: whole, except: Vec::new() }, text.to_owned())]);
    }
    let language = match path.kind {
        Kind::Exact => canonical(text).map(Language::Exact),
        _ if text == "/" => Some(Language::Prefix("/".to_owned())),
        Kind::Prefix => canonical(text.trim_end_matches('/')).map(Language::Below),
        Kind::Implementation => canonical_start(text).map(Language::Prefix),
    };
    let is_path = |language: &Language| matches!(language, Language::Exact(text) | Language::Prefix(text) | Language::Below(text) if text.starts_with('/'));
    language
        .filter(is_path)
        .map(|language| vec![(language, String::new())])
        .ok_or_else(|| "no request has such a path".to_owned())
}

/// The path that goes upstream.
fn rewrite(target: &str, expression: &str) -> Result<String, String> {
    if !target.starts_with('/') || target.contains(['{', '}', '?']) {
        return Err("its target is no path".to_owned());
    }
    if expression == BELOW || expression == ITSELF {
        let rest = if expression == BELOW { REST.to_string() } else { String::new() };
        return match target.strip_suffix("/$2") {
            Some(start) if !start.contains('$') => Ok(format!("{start}/{rest}")),
            _ if !target.contains('$') => Ok(target.to_owned()),
            _ => Err("its target uses other groups".to_owned()),
        };
    }
    let mut out = String::new();
    let mut rest = target.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('$', Some(digit @ '1'..='9')) => {
                out.push_str(&format!("{{{digit}}}"));
                rest.next();
            }
            ('$', _) => return Err("a variable in its target".to_owned()),
            _ => out.push(c),
        }
    }
    match out.contains('{') && expression.is_empty() {
        true => Err("its target names a group, and its path has none".to_owned()),
        false => Ok(out),
    }
}
