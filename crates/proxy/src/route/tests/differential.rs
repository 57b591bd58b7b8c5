//! The table against a slow and obvious matcher that tries every route: same answer for random routes and requests.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use config::{HostPattern, RouteConfig, Segment};
use fastrand::Rng;
use wire::http::{Method, RequestHead};

use super::{head, route};
use crate::route::{RouteTable, Routed};

/// How specific a pattern is: one entry per segment, the smaller the more specific.
fn specificity(route: &RouteConfig) -> Vec<(u8, Reverse<usize>)> {
    let kind = |segment: &Segment| match segment {
        Segment::Static(_) => (0, Reverse(0)),
        Segment::Param { prefix, .. } if prefix.is_empty() => (2, Reverse(0)),
        Segment::Param { prefix, .. } => (1, Reverse(prefix.len())),
        Segment::CatchAll { .. } => (3, Reverse(0)),
    };
    route.path.segments.iter().map(kind).collect()
}

/// The values of the parameters if the pattern matches.
fn match_path(route: &RouteConfig, path: &str) -> Option<Vec<String>> {
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

fn names_method(route: &RouteConfig, method: &Method) -> bool {
    route.methods.is_empty() || route.methods.contains(method)
}

fn implies_head(route: &RouteConfig) -> bool {
    !route.lenient.explicit_head && route.methods.contains(&Method::Get) && !route.methods.contains(&Method::Head)
}

/// The answer of the obvious matcher, as text.
fn obvious(routes: &[RouteConfig], listener: &str, head: &RequestHead) -> String {
    let host = String::from_utf8_lossy(head.host()).into_owned();
    let path = String::from_utf8_lossy(head.path()).into_owned();
    let visible =
        |route: &&RouteConfig| route.listeners.is_empty() || route.listeners.iter().any(|name| name == listener);
    let visible: Vec<&RouteConfig> = routes.iter().filter(visible).collect();
    let Some(best_host) = visible.iter().filter_map(|route| host_rank(route, &host)).min() else {
        return "unknown host".to_string();
    };
    let has_fields = |route: &RouteConfig| {
        let sent = |name: &str, value: &str| head.fields.get_all(name).any(|sent| sent == value.as_bytes());
        route.headers.iter().all(|(name, value)| sent(name, value))
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
        let rank = (Reverse(route.headers.len()), route.listeners.is_empty(), route.methods.is_empty());
        (specificity(route), rank, implies_head(route), routes.iter().position(|other| std::ptr::eq(other, *route)))
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
    let extra = pick(
        random,
        &["", "", "", " x=1", " x=2", " y=1", " x=1 y=1", " @web", " @api", " +empty", " +empty", " +head"],
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
            Some(Segment::Param { prefix, .. }) => prefix,
            _ => "",
        });
        if !matches!(model.and_then(|route| route.path.segments.get(at)), Some(Segment::Static(_))) {
            path.push_str(pick(random, &["a", "b", "ab", "abc", "abcd", "", "c"]));
        }
    }
    let fields = pick(random, &["", "", " x=1", " x=2", " y=1", " x=1 y=1", " x=3"]);
    head(&format!("{method} {host} {path}{fields}")).unwrap()
}

/// Whether two routes cannot be distinguished, by definition.
fn conflict(first: &RouteConfig, second: &RouteConfig) -> bool {
    let sees = |route: &RouteConfig, listener: &str| route.listeners.is_empty() || route.listeners[0] == listener;
    let shape = |route: &RouteConfig| {
        let segments = route.path.segments.iter().map(|segment| match segment {
            Segment::Static(text) => format!("={text}"),
            Segment::Param { prefix, .. } => format!(":{prefix}"),
            Segment::CatchAll { .. } => "*".to_string(),
        });
        segments.collect::<Vec<_>>()
    };
    let rank = |route: &RouteConfig| (route.headers.len(), route.listeners.is_empty(), route.methods.is_empty());
    let share_host =
        first.hosts.iter().any(|host| second.hosts.contains(host)) || first.hosts.is_empty() && second.hosts.is_empty();
    let share_method = first.methods.is_empty() || first.methods.iter().any(|method| second.methods.contains(method));
    let differ = first.headers.iter().any(|(name, value)| second.headers.iter().any(|(n, v)| n == name && v != value));
    ["web", "api"].iter().any(|listener| sees(first, listener) && sees(second, listener))
        && shape(first) == shape(second)
        && rank(first) == rank(second)
        && share_host
        && share_method
        && !differ
}

#[test]
fn the_table_agrees_with_the_obvious_matcher() {
    let mut found = 0;
    for seed in 0..150 {
        let random = &mut Rng::with_seed(seed);
        let mut routes: Vec<RouteConfig> = Vec::new();
        for _ in 0..random.usize(1..40) {
            let new = random_route(random);
            let conflicts = routes.iter().any(|old| conflict(old, &new));
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
            let expected = obvious(&routes, listener, &request);
            found += usize::from(expected.ends_with(']'));
            let target = String::from_utf8_lossy(&request.target);
            assert_eq!(table_says(&table, listener, &request), expected, "seed {seed}: {target} {request:?}");
        }
    }
    assert!(found > 8_000, "only {found} requests found a route: the test has become blind");
}
