//! The table against a slow and obvious matcher that tries every route: same answer for random routes and requests.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use config::{HostPattern, RouteConfig, Segment, ValueCondition, ValueMatch};
use fastrand::Rng;
use wire::http::{Method, RequestHead};

use super::{head, route};
use crate::route::{RouteTable, Routed};

/// How specific a pattern is: one entry per segment, the smaller the more specific.
fn specificity(route: &RouteConfig) -> Vec<(u8, Reverse<usize>)> {
    let kind = |segment: &Segment| match segment {
        Segment::Static(_) => (0, Reverse(0)),
        Segment::Param { prefix, .. } if prefix.is_empty() => (3, Reverse(0)),
        Segment::Param { prefix, .. } => (2, Reverse(prefix.len())),
        Segment::CatchAll { .. } => (4, Reverse(0)),
        Segment::Regex(_) => (1, Reverse(0)),
        Segment::Prefix { .. } => unreachable!("only in order"),
    };
    route.path.segments.iter().map(kind).collect()
}

/// The groups of a path that is matched.
type Meaning = fn(&str) -> Option<Vec<String>>;

/// Expressions, each with what it means, and the values of its groups.
const EXPRESSIONS: [(&str, Meaning); 7] = [
    ("/[abc]+", |path| path.strip_prefix('/').filter(|rest| is_word(rest)).map(|_| Vec::new())),
    ("/a(b|bc)", |path| {
        path.strip_prefix("/a").filter(|rest| ["b", "bc"].contains(rest)).map(|rest| vec![rest.into()])
    }),
    ("/a/(?<x>[abc]+)", |path| path.strip_prefix("/a/").filter(|rest| is_word(rest)).map(|rest| vec![rest.into()])),
    ("/a/b.*", |path| path.starts_with("/a/b").then(Vec::new)),
    ("/.*", |path| path.starts_with('/').then(Vec::new)),
    ("/.*/b", |path| (path.starts_with('/') && path.len() >= 3 && path.ends_with("/b")).then(Vec::new)),
    ("/x/.*", |path| path.starts_with("/x/").then(Vec::new)),
];

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| b"abc".contains(&byte))
}

/// What an expression means.
fn meaning(text: &str) -> Meaning {
    EXPRESSIONS.iter().find(|(known, _)| *known == text).unwrap().1
}

/// Every path of up to six bytes of an alphabet.
fn all_paths() -> Vec<String> {
    let mut paths = vec!["/".to_string()];
    let mut last = paths.clone();
    for _ in 0..5 {
        last = last.iter().flat_map(|path| ["a", "b", "c", "x", "/"].map(|byte| format!("{path}{byte}"))).collect();
        paths.extend(last.iter().cloned());
    }
    paths
}

/// How many paths an expression matches: of two that match a path of both, and one of which contains the other, the one with fewer goes first.
fn size(route: &RouteConfig, paths: &[String]) -> usize {
    let Some(expression) = route.path.expression() else { return 0 };
    paths.iter().filter(|path| meaning(expression.text())(path).is_some()).count()
}

/// The values of the parameters if the pattern matches.
pub(super) fn match_path(route: &RouteConfig, path: &str) -> Option<Vec<String>> {
    if let Some(expression) = route.path.expression() {
        return meaning(expression.text())(path);
    }
    let pieces: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let mut values = Vec::new();
    for (at, segment) in route.path.segments.iter().enumerate() {
        match segment {
            Segment::Static(text) => {
                if pieces.get(at)? != text {
                    return None;
                }
            }
            Segment::Param { prefix, .. } => {
                let value = pieces.get(at)?.strip_prefix(prefix.as_str())?;
                let may_be_empty = route.lenient.empty_parameters && at + 1 < pieces.len();
                if value.is_empty() && !may_be_empty {
                    return None;
                }
                values.push(value.to_string());
            }
            Segment::CatchAll { .. } => {
                pieces.get(at)?;
                values.push(pieces[at..].join("/"));
                return Some(values);
            }
            Segment::Regex(_) | Segment::Prefix { .. } => return None,
        }
    }
    (pieces.len() == route.path.segments.len()).then_some(values)
}

/// How well a route's hosts suit: none, or the smaller the better.
fn host_rank(route: &RouteConfig, host: &str) -> Option<Reverse<usize>> {
    if route.hosts.is_empty() {
        return Some(Reverse(0));
    }
    let suits = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(name) => (name == host).then_some(Reverse(1000)),
        HostPattern::Wildcard(suffix) => host
            .strip_suffix(suffix.as_str())
            .is_some_and(|start| start.len() > 1 && start.ends_with('.'))
            .then_some(Reverse(suffix.len())),
    };
    route.hosts.iter().filter_map(suits).min()
}

pub(super) fn names_method(route: &RouteConfig, method: &Method) -> bool {
    route.methods.is_empty() || route.methods.contains(method)
}

pub(super) fn implies_head(route: &RouteConfig) -> bool {
    !route.lenient.explicit_head && route.methods.contains(&Method::Get) && !route.methods.contains(&Method::Head)
}

/// Whether the values of a field are as one condition wants them.
pub(super) fn is_as_wanted(condition: &ValueCondition, values: &[String]) -> bool {
    condition.any.iter().any(|wanted| match wanted {
        ValueMatch::Absent => values.is_empty(),
        ValueMatch::Present => !values.is_empty(),
        ValueMatch::Exact(text) => values.contains(text),
        ValueMatch::Prefix(text) => values.iter().any(|value| value.starts_with(text)),
        ValueMatch::Regex(expression) => {
            let one_of = expression.text().trim_matches(['[', ']']);
            values.iter().any(|value| value.len() == 1 && one_of.contains(value.as_str()))
        }
        other => panic!("{other:?} is tried in conditions.rs"),
    })
}

/// How exact the conditions of a route are: their number, and what each leaves open at most.
fn exactness(route: &RouteConfig) -> (usize, Vec<usize>) {
    let of_match = |wanted: &ValueMatch| match wanted {
        ValueMatch::Exact(_) => 1000,
        ValueMatch::Prefix(text) => 500 + text.len(),
        ValueMatch::Regex(_) => 400,
        ValueMatch::Present | ValueMatch::Absent => 0,
        other => panic!("{other:?} is tried in conditions.rs"),
    };
    let sum: usize = route.when.values().filter_map(|condition| condition.any.iter().map(of_match).min()).sum();
    (route.when.0.len(), vec![sum])
}

/// The answer of the obvious matcher, as text.
fn obvious(routes: &[RouteConfig], listener: &str, head: &RequestHead, paths: &[String]) -> String {
    let host = String::from_utf8_lossy(head.host()).into_owned();
    let path = String::from_utf8_lossy(head.path()).into_owned();
    let visible =
        |route: &&RouteConfig| route.listeners.is_empty() || route.listeners.iter().any(|name| name == listener);
    let visible: Vec<&RouteConfig> = routes.iter().filter(visible).collect();
    let Some(best_host) = visible.iter().filter_map(|route| host_rank(route, &host)).min() else {
        return "unknown host".to_string();
    };
    let has_fields = |route: &RouteConfig| {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let sent = |name: &str| -> Vec<String> { head.fields.get_all(name).map(text).collect() };
        route.when.values().all(|condition| is_as_wanted(condition, &sent(&condition.name)))
    };
    // The host's routes are those with that very pattern, also where another pattern of the same route suits better.
    let on_host = visible.into_iter().filter(|route| host_rank(route, &host) == Some(best_host));
    let matching: Vec<(&RouteConfig, Vec<String>)> = on_host
        .filter(|route| has_fields(route))
        .filter_map(|route| match_path(route, &path).map(|values| (route, values)))
        .collect();
    let serving = matching
        .iter()
        .filter(|(route, _)| names_method(route, &head.method) || head.method == Method::Head && implies_head(route));
    let best = serving.min_by_key(|(route, _)| {
        let rank = (Reverse(exactness(route)), route.listeners.is_empty(), route.methods.is_empty());
        (
            specificity(route),
            size(route, paths),
            rank,
            implies_head(route),
            routes.iter().position(|other| std::ptr::eq(other, *route)),
        )
    });
    if let Some((route, values)) = best {
        return format!("{} [{}]", route.name, values.join(" "));
    }
    let mut allow: BTreeSet<&str> =
        matching.iter().flat_map(|(route, _)| route.methods.iter().map(Method::as_str)).collect();
    if matching.iter().any(|(route, _)| implies_head(route)) {
        allow.insert("HEAD");
    }
    if allow.is_empty() { "404".to_string() } else { format!("405 {}", Vec::from_iter(allow).join(", ")) }
}

/// The answer of the table, as text.
fn table_says(table: &RouteTable, listener: &str, head: &RequestHead) -> String {
    match table.find(listener, head) {
        Routed::Found(route, params) => {
            let value = |index| String::from_utf8_lossy(params.value(head.path(), index).unwrap()).into_owned();
            format!("{} [{}]", route.config.name, (0..params.len()).map(value).collect::<Vec<_>>().join(" "))
        }
        Routed::UnknownHost => "unknown host".to_string(),
        Routed::NotFound => "404".to_string(),
        Routed::MethodNotAllowed(allow) => format!("405 {allow}"),
        other => panic!("{other:?} is not for native routes"),
    }
}

fn pick<'a>(random: &mut Rng, from: &[&'a str]) -> &'a str {
    random.choice(from).unwrap()
}

fn random_route(random: &mut Rng) -> RouteConfig {
    let methods = pick(random, &["*", "*", "GET", "GET,POST", "HEAD", "PUT,HEAD", "PURGE"]);
    let hosts = pick(random, &["*", "h.test", "*.h.test", "*.test", "a.h.test,h.test", "b.a.h.test"]);
    let mut path = String::new();
    for _ in 0..random.usize(1..5) {
        path.push('/');
        path.push_str(pick(random, &["a", "b", "ab", "abc", "{x}", "{x}", "a{x}", "ab{x}", ""]));
    }
    if random.u8(..4) == 0 {
        path.push_str("/{*rest}");
    }
    if random.u8(..3) == 0 {
        path = format!("~{}", random.choice(EXPRESSIONS).unwrap().0);
    }
    let extra = pick(
        random,
        &[
            "", "", "", " x=1", " x=2", " y=1", " x=1 y=1", " @web", " @api", " +empty", " +empty", " +head", " x?",
            " x!", " x^=1", " x~=[12]", " x~=[34]", " x=1|=3", " y! x^=1", " x!|=2",
        ],
    );
    let route = route(&format!("{methods} {hosts} {path}{extra}"));
    // What it does about paths that can be read in two ways is tested by itself.
    RouteConfig { options: config::RouteOptions { allow_ambiguous_path: true, ..route.options.clone() }, ..route }
}

/// A request that has nothing to do with the routes, or one after the pattern of one of them.
fn random_request(random: &mut Rng, routes: &[RouteConfig]) -> RequestHead {
    let method = pick(random, &["GET", "GET", "HEAD", "POST", "PUT", "PURGE", "DELETE"]);
    let model = if random.bool() { random.choice(routes) } else { None };
    let host = match model.and_then(|route| route.hosts.first()) {
        Some(HostPattern::Exact(name)) => name.clone(),
        Some(HostPattern::Wildcard(suffix)) => format!("{}.{suffix}", pick(random, &["a", "c", "b.a"])),
        None => {
            pick(random, &["h.test", "a.h.test", "b.a.h.test", "c.test", "x.y.h.test", "other", ".test", "h.test:80"])
                .into()
        }
    };
    let mut path = String::new();
    let segments = model.map_or_else(|| random.usize(1..6), |route| route.path.segments.len());
    for at in 0..segments {
        path.push('/');
        path.push_str(match model.and_then(|route| route.path.segments.get(at)) {
            Some(Segment::Static(text)) => text,
            Some(Segment::Regex(_)) => pick(random, &["a", "ab", "abc", "b", "x/a", "a/b"]),
            Some(Segment::Param { prefix, .. }) => prefix,
            _ => "",
        });
        if !matches!(model.and_then(|route| route.path.segments.get(at)), Some(Segment::Static(_))) {
            path.push_str(pick(random, &["a", "b", "ab", "abc", "abcd", "", "c"]));
        }
    }
    let fields = pick(random, &["", "", " x=1", " x=2", " y=1", " x=1 y=1", " x=3", " x=12", " x=4 y=2"]);
    head(&format!("{method} {host} {path}{fields}")).unwrap()
}

/// Whether two routes cannot be distinguished, by definition.
fn conflict(first: &RouteConfig, second: &RouteConfig, paths: &[String]) -> bool {
    let sees = |route: &RouteConfig, listener: &str| route.listeners.is_empty() || route.listeners[0] == listener;
    let shape = |route: &RouteConfig| {
        let segments = route.path.segments.iter().map(|segment| match segment {
            Segment::Static(text) => format!("={text}"),
            Segment::Param { prefix, .. } => format!(":{prefix}"),
            Segment::CatchAll { .. } => "*".to_string(),
            Segment::Regex(expression) => format!("~{}", expression.text()),
            Segment::Prefix { text, .. } => format!("^{text}"),
        });
        segments.collect::<Vec<_>>()
    };
    let rank = |route: &RouteConfig| (exactness(route), route.listeners.is_empty(), route.methods.is_empty());
    let share_host =
        first.hosts.iter().any(|host| second.hosts.contains(host)) || first.hosts.is_empty() && second.hosts.is_empty();
    let share_method = first.methods.is_empty()
        || second.methods.is_empty()
        || first.methods.iter().any(|method| second.methods.contains(method));
    let serves = |route: &RouteConfig, method: &Method| {
        names_method(route, method) || (*method == Method::Head && implies_head(route))
    };
    let all = ["GET", "HEAD", "POST", "PUT", "PURGE"].map(|method| Method::from_bytes(method.as_bytes()).unwrap());
    let both_serve = all.iter().any(|method| serves(first, method) && serves(second, method));
    // Some pair of values of both fields is as both want it.
    let values = ["", "1", "2", "3", "4", "12"];
    let suits = |route: &RouteConfig, x: &str, y: &str| {
        let sent = |name: &str| {
            let value = if name == "x" { x } else { y };
            if value.is_empty() { Vec::new() } else { vec![value.to_string()] }
        };
        route.when.values().all(|condition| is_as_wanted(condition, &sent(&condition.name)))
    };
    let agree = values.iter().any(|x| values.iter().any(|y| suits(first, x, y) && suits(second, x, y)));
    let overlap = |one: &RouteConfig, other: &RouteConfig| {
        let (Some(one), Some(other)) = (one.path.expression(), other.path.expression()) else { return false };
        let (one, other) = (meaning(one.text()), meaning(other.text()));
        let both: Vec<(bool, bool)> = paths.iter().map(|path| (one(path).is_some(), other(path).is_some())).collect();
        [(true, true), (true, false), (false, true)].iter().all(|kind| both.contains(kind))
    };
    let place = |route: &RouteConfig| shape(route).split_last().map(|(_, before)| before.to_vec());
    let same_pattern = shape(first) == shape(second) && rank(first) == rank(second);
    let same_place = place(first) == place(second) && shape(first) != shape(second) && overlap(first, second);
    ["web", "api"].iter().any(|listener| sees(first, listener) && sees(second, listener))
        && ((same_pattern && share_method) || (same_place && both_serve))
        && share_host
        && agree
}

#[test]
fn the_table_agrees_with_the_obvious_matcher() {
    let paths = all_paths();
    let mut found = 0;
    for seed in 0..75 {
        let random = &mut Rng::with_seed(seed);
        let mut routes: Vec<RouteConfig> = Vec::new();
        for _ in 0..random.usize(1..40) {
            let new = random_route(random);
            let conflicts = routes.iter().any(|old| conflict(old, &new, &paths));
            routes.push(new);
            let compiled = RouteTable::compile_routes(&["web", "api"], &routes);
            assert_eq!(compiled.is_err(), conflicts, "seed {seed}: {compiled:?}");
            if conflicts {
                routes.pop();
            }
        }
        let table = RouteTable::compile_routes(&["web", "api"], &routes).unwrap();
        for _ in 0..400 {
            let request = random_request(random, &routes);
            let listener = pick(random, &["web", "api"]);
            let expected = obvious(&routes, listener, &request, &paths);
            found += usize::from(expected.ends_with(']'));
            let target = String::from_utf8_lossy(&request.target);
            assert_eq!(table_says(&table, listener, &request), expected, "seed {seed}: {target} {request:?}");
        }
    }
    assert!(found > 4_000, "only {found} requests found a route: the test has become blind");
}
