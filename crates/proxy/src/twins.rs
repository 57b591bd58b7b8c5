//! Paths that frameworks take for one and routes do not: what `check` warns of where one of them is protected and the other is open. Decides nothing; which
//! route a path takes is asked of those that serve.

use std::collections::BTreeMap;

use config::{Action, Config, Forward, ForwardTo, Mode, PolicyConfig, PolicyMode, RouteConfig, Segment, ServerAddress};
use contract::Found;

use crate::contracts::Contracts;
use crate::route::{RouteTable, Routed};
use crate::samples::{self, Step};
use wire::http::target::read_origin_form;

/// How a path may be written otherwise, so that some framework serves the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Twin {
    /// With a final slash, or without (Django, Express, Flask, Spring).
    Slash,
    /// In another case (ASP.NET, Express, IIS).
    Case,
    /// With an extension (Rails, older Spring).
    Extension,
    /// With a final dot (Windows).
    Dot,
}

/// The other paths that some framework takes for this one.
fn twins(path: &str) -> Vec<(Twin, String)> {
    let mut twins = Vec::new();
    match path.strip_suffix('/') {
        Some("") => {}
        Some(shorter) => twins.push((Twin::Slash, shorter.to_owned())),
        None => twins.push((Twin::Slash, format!("{path}/"))),
    }
    let other_case = |case: fn(&str) -> String| Some(case(path)).filter(|other| other != path);
    let case = other_case(|path| in_case(path, u8::to_ascii_uppercase));
    twins.extend(case.or(other_case(|path| in_case(path, u8::to_ascii_lowercase))).map(|other| (Twin::Case, other)));
    if !path.ends_with('/') {
        twins.push((Twin::Extension, format!("{path}.json")));
        twins.push((Twin::Dot, format!("{path}.")));
    }
    twins
}

/// The path in another case, but for the digits of its escapes.
fn in_case(path: &str, case: fn(&u8) -> u8) -> String {
    let mut within_escape = 0;
    let letter = |byte: u8| {
        let is_kept = within_escape > 0 || byte == b'%';
        within_escape = if byte == b'%' { 2_u8 } else { within_escape.saturating_sub(1) };
        char::from(if is_kept { byte } else { case(&byte) })
    };
    path.bytes().map(letter).collect()
}

/// A text for each two routes of which one lets in by another spelling whom a policy of the other keeps out.
pub fn warnings(config: &Config, routes: &RouteTable, contracts: &Contracts) -> Vec<String> {
    // A route of the file may have several paths, and is one here.
    let mut found: BTreeMap<(&str, &str), Pair<'_>> = BTreeMap::new();
    for (number, route) in config.routes.iter().enumerate() {
        let Action::Forward(forward) = &route.action else { continue };
        let guard = Guard::of(config, route);
        if guard == Guard::default() {
            continue;
        }
        for path in samples::paths(&route.path) {
            for start in samples::starts(config, route, std::slice::from_ref(&path)) {
                if taken(routes, &start).is_none_or(|own| own != number) {
                    continue;
                }
                for (twin, path) in twins(&path) {
                    let Some(other) = opened(routes, contracts, &start, &path).filter(|other| *other != number) else {
                        continue;
                    };
                    let Some(open) = config.routes.get(other) else { continue };
                    let Action::Forward(to) = &open.action else { continue };
                    let is_open = open.place != route.place && Guard::of(config, open).lacks(guard);
                    if is_open && share_servers(config, forward, to) {
                        let entry = found.entry((&route.place, &open.place));
                        let entry = entry.or_insert_with(|| Pair { route, open, paths: BTreeMap::new() });
                        entry.paths.entry(twin).or_insert(path);
                    }
                }
            }
        }
    }
    found.values().map(text).collect()
}

/// A protected route, an open one, and other spellings of paths of the former that take the latter, one of each kind.
struct Pair<'c> {
    route: &'c RouteConfig,
    open: &'c RouteConfig,
    paths: BTreeMap<Twin, String>,
}

fn text(Pair { route, open, paths }: &Pair<'_>) -> String {
    let shown: Vec<String> = paths.values().map(|path| format!("`{path}`")).collect();
    let mut fixes = Vec::new();
    let slash = paths.get(&Twin::Slash).filter(|_| route.path.expression().is_none());
    if slash.is_some() {
        let text = route.path.text.trim_end_matches('*');
        let other = text.strip_suffix('/').map_or_else(|| format!("{text}/"), ToOwned::to_owned);
        // Below it are paths with a slash; the twin of a tree is its root.
        let other = text.rfind("/{*").map_or(other, |at| text.chars().take(at).collect());
        fixes.push(format!("add `{other}` to the paths of `{}`", route.name));
    }
    if paths.keys().any(|twin| *twin != Twin::Slash) {
        let start = route.path.text.split(['{', '*']).next().unwrap_or_default().trim_end_matches('/');
        let literal =
            |letter: char| if ".+*?()|$".contains(letter) { format!("[{letter}]") } else { letter.to_string() };
        let start: String = match route.path.expression() {
            None => start.chars().map(literal).collect(),
            Some(_) => start.to_owned(),
        };
        let is_prefix = matches!(route.path.segments.last(), Some(Segment::Prefix { .. }));
        let rest = if is_prefix { ".*" } else { "([./].*)?" };
        let decoded =
            route.path.expression().filter(|expression| expression.is_decoded()).map_or("", |_| ", decoded: true");
        fixes.push(format!("add `{{ regex: \"(?i){start}{rest}\"{decoded} }}` to the paths of `{}`", route.name));
    }
    fixes.push(format!("put `policies` of `{}` on `{}` or its host as well", route.name, open.name));
    format!(
        "{}: route `{}` has policies, and {} {} open by route `{}` ({}): many frameworks take such paths for one; {}",
        route.place,
        route.name,
        shown.join(", "),
        if shown.len() == 1 { "is" } else { "are" },
        open.name,
        open.place,
        fixes.join(", or ")
    )
}

/// What the policies of a route do to keep somebody out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Guard {
    /// They ask who it is, or where from.
    admits: bool,
    /// They bound how much.
    bounds: bool,
}

impl Guard {
    fn of(config: &Config, route: &RouteConfig) -> Guard {
        let policies = route.policies.iter().filter_map(|name| config.policies.get(name));
        policies.fold(Guard::default(), |guard, policy| guard.with(policy))
    }

    fn with(self, policy: &PolicyConfig) -> Guard {
        if policy.mode != PolicyMode::Enforce {
            return self;
        }
        let asks = policy.jwt.is_some() || policy.basic.is_some() || policy.forward_auth.is_some();
        let has_addresses = policy.allow.is_some() || policy.deny.is_some();
        let counts = policy.rate_limit.is_some() || policy.concurrency_limit.is_some();
        Guard { admits: self.admits || asks || has_addresses, bounds: self.bounds || counts }
    }

    /// Whether the other one does what this one does not.
    fn lacks(self, other: Guard) -> bool {
        (other.admits && !self.admits) || (other.bounds && !self.bounds)
    }
}

/// The route that a request takes.
fn taken(routes: &RouteTable, step: &Step<'_>) -> Option<usize> {
    match routes.find(&step.listener.name, step.sought(step.info().as_ref())) {
        Routed::Found(route, _) => Some(route.index),
        _ => None,
    }
}

/// The route that serves the same request for another path; none where nothing does, or where a contract does not know the path.
fn opened(routes: &RouteTable, contracts: &Contracts, start: &Step<'_>, path: &str) -> Option<usize> {
    let mut head = start.head.clone();
    let target = [path.as_bytes(), start.head.query()].concat();
    head.target.clear();
    read_origin_form(&target, &mut head).ok()?;
    let step = Step { head, certificate: start.certificate.clone(), ..*start };
    let route = taken(routes, &step)?;
    let active = contracts.of(route, &start.listener.name, &step.head);
    let is_unknown = active.is_some_and(|active| {
        let method = active.contract.method_of(step.head.method.as_str(), step.head.path());
        active.config.request == Mode::Block
            && !matches!(active.contract.find(method, step.head.path()), Found::Operation(..))
    });
    (!is_unknown).then_some(route)
}

/// Whether what both forward may come to one server.
fn share_servers(config: &Config, one: &Forward, other: &Forward) -> bool {
    let addresses = |forward: &Forward| -> Vec<ServerAddress> {
        let groups = forward.groups().filter_map(|name| config.upstreams.get(name));
        groups.flat_map(|group| &group.servers).map(|server| server.address.clone()).collect()
    };
    if let (ForwardTo::Authority { .. }, _) | (_, ForwardTo::Authority { .. }) = (&one.to, &other.to) {
        return true;
    }
    let others = addresses(other);
    one.groups().any(|name| other.groups().any(|other| other == name))
        || addresses(one).iter().any(|address| others.contains(address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// `expected`: parts of the warning; none for no warning.
    fn check(routes: &str, expected: Option<&[&str]>) {
        let text = format!(
            "listeners: [{{ name: web, bind: ':80' }}]\n\
             upstreams: {{ app: {{ servers: ['127.0.0.1:1'] }}, same: {{ servers: ['127.0.0.1:1'] }}, other: {{ servers: ['127.0.0.1:2'] }} }}\n\
             policies: {{ staff: {{ allow: ['10.0.0.0/8'] }}, few: {{ rate_limit: {{ rate: 1/s }} }}, all: {{ cors: {{ origins: ['*'] }} }} }}\n\
             routes: [{}]\n",
            // Each on a line of its own, which is its place.
            routes.replace("}, {", "},\n  {")
        );
        let config = config::parse("portunus.yaml", &text, std::path::Path::new("/")).unwrap();
        let table = RouteTable::compile(&config).unwrap();
        let texts = warnings(&config, &table, &Contracts::default());
        match expected {
            None => assert!(texts.is_empty(), "{routes}: {texts:?}"),
            Some(parts) => {
                assert_eq!(texts.len(), 1, "{routes}: {texts:?}");
                parts.iter().for_each(|part| assert!(texts[0].contains(part), "{part}: {}", texts[0]));
            }
        }
    }

    const OPEN: &str = "{ name: rest, path: '/{*rest}', upstream: app }";

    fn guarded(path: &str) -> String {
        format!("{{ name: own, path: {path}, upstream: app, policies: staff }}")
    }

    #[test]
    fn a_twin_that_is_open_is_warned_of_with_both_routes() {
        let all = ["route `own`", "route `rest`", "`/orders/`", "`/ORDERS`", "`/orders.json`", "`/orders.`"];
        check(&format!("{}, {OPEN}", guarded("/orders")), Some(&all));
        check(&format!("{}, {OPEN}", guarded("/Orders/")), Some(&["`/Orders`", "`/ORDERS/`"]));
        check(&format!("{}, {OPEN}", guarded("'/orders/{id}'")), Some(&["`/orders/x/`", "`/ORDERS/X`"]));
        check(&format!("{}, {OPEN}", guarded("'/orders/{*rest}'")), Some(&["`/orders`", "`/ORDERS/X`"]));
        check(&format!("{}, {OPEN}", guarded("{ regex: '/r/[a-c]+' }")), Some(&["route `own`", "/`", "`/R/"]));
        let same = OPEN.replace("app", "same");
        check(&format!("{}, {same}", guarded("/orders")), Some(&all));
        let limited = guarded("/orders").replace("staff", "few");
        check(&format!("{limited}, {}", OPEN.replace("app", "app, policies: staff")), Some(&all));
    }

    #[test]
    fn what_is_as_well_guarded_or_leads_elsewhere_is_not() {
        let one = guarded("/orders");
        check(&one, None);
        check(&format!("{one}, {}", OPEN.replace("app", "app, policies: [staff, few]")), None);
        check(&format!("{one}, {}", OPEN.replace("app", "other")), None);
        check(&format!("{one}, {{ path: '/{{*rest}}', respond: {{ status: 404 }} }}"), None);
        check(&format!("{}, {OPEN}", one.replace("staff", "all")), None);
        check(&format!("{one}, {{ path: /about, upstream: app }}"), None);
        let wide = guarded("['/orders/{*rest}', { regex: '(?i)/orders([./].*)?' }]");
        check(&format!("{wide}, {OPEN}"), None);
    }

    #[test]
    fn twins_keep_their_escapes() {
        let twins: Vec<String> = twins("/a%c3%b6").into_iter().map(|(_, path)| path).collect();
        assert_eq!(twins, ["/a%c3%b6/", "/A%c3%b6", "/a%c3%b6.json", "/a%c3%b6."]);
        assert_eq!(super::twins("/"), []);
    }
}
