//! The route table, any routes and requests: one line is `METHODS HOSTS PATH [REWRITE]` (a path behind `~` is an expression) or, after `~`, the same with all conveniences of front
//! doors, or, after `>`, the request `METHOD HOST TARGET`. Where the first line is `#`, all routes are in order, for any host, a path behind `~~` is an
//! expression on decoded paths, and one behind `^` a prefix.

use std::fmt::Write as _;

use config::{self, Action, Config, Forward, Leniency, PathPattern, RouteConfig, Segment};
use proxy::route::{RouteTable, Routed, Values, build_target};
use wire::http::head::HeadLimits;
use wire::http::http1::{Parsed, parse_request};
use wire::http::target::{canonical_path, canonical_query};
use wire::http::{Method, RequestHead};

/// Checks one input.
pub fn check(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let Some(config) = config(&text) else { return };
    let table = match RouteTable::compile(&config) {
        Ok(table) => table,
        Err(problems) => {
            assert!(!problems.is_empty(), "rejected without a reason");
            return;
        }
    };
    for line in text.lines() {
        let Some(head) = line.strip_prefix('>').and_then(request) else { continue };
        check_lookup(&table, &config, &head);
    }
}

/// The routes of the text; none if the configuration rejects one.
fn config(text: &str) -> Option<Config> {
    let is_ordered = text.lines().next() == Some("#");
    let mut yaml = String::new();
    let mut lenient = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('>')) {
        let mut words = line.strip_prefix('~').unwrap_or(line).split(' ');
        let (Some(methods), Some(hosts), Some(path)) = (words.next(), words.next(), words.next()) else { continue };
        let list = |text: &str| text.split(',').map(quoted).collect::<Vec<_>>().join(", ");
        let path = match (path.strip_prefix("~~"), path.strip_prefix('~'), path.strip_prefix('^')) {
            (Some(expression), _, _) if is_ordered => format!("{{ regex: {}, decoded: true }}", quoted(expression)),
            (_, Some(expression), _) => format!("{{ regex: {} }}", quoted(expression)),
            (_, _, Some(prefix)) if is_ordered => format!("{{ prefix: {} }}", quoted(prefix)),
            _ => quoted(path),
        };
        let _ = write!(yaml, "  - path: {path}\n    upstream: u\n");
        if methods != "*" {
            let _ = writeln!(yaml, "    methods: [{}]", list(methods));
        }
        if hosts != "*" && !is_ordered {
            let _ = writeln!(yaml, "    hosts: [{}]", list(hosts));
        }
        if let Some(rewrite) = words.next() {
            let _ = writeln!(yaml, "    rewrite: {}", quoted(rewrite));
        }
        lenient.push(line.starts_with('~'));
    }
    let start =
        "listeners: [{ name: web, bind: \"127.0.0.1:0\" }]\nupstreams: { u: { servers: [\"192.0.2.1:80\"] } }\nroutes:";
    let text = match (yaml.is_empty(), is_ordered) {
        (true, _) => format!("{start} []"),
        (false, true) => format!("{start}\n- in_order:\n{yaml}"),
        (false, false) => format!("{start}\n{yaml}"),
    };
    let mut config = config::parse("fuzz.yaml", &text, std::path::Path::new("")).ok()?;
    for (route, lenient) in config.routes.iter_mut().zip(lenient) {
        if lenient && !is_ordered {
            route.lenient = Leniency {
                redirect_to_match: true,
                response_options: true,
                explicit_head: true,
                empty_parameters: true,
                forbid_unknown_hosts: true,
            };
        }
    }
    Some(config)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn request(line: &str) -> Option<RequestHead> {
    let mut words = line.splitn(3, ' ');
    let (method, host, target) = (words.next()?, words.next()?, words.next()?);
    read(&format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

fn read(text: &str) -> Option<RequestHead> {
    let limits = HeadLimits { head_bytes: 1 << 16, request_line_bytes: 1 << 15, fields: 20 };
    let mut head = RequestHead::default();
    match parse_request(text.as_bytes(), &limits, &mut head) {
        Ok(Parsed::Complete { .. }) => Some(head),
        _ => None,
    }
}

fn check_lookup(table: &RouteTable, config: &Config, head: &RequestHead) {
    match table.find("web", head) {
        Routed::Found(found, params) => {
            let route = &found.config;
            assert_eq!(config.routes[found.index].name, route.name);
            let values: Vec<&[u8]> =
                (0..params.len()).map(|at| params.value(head.path(), at).expect("a value")).collect();
            match route.path.expression() {
                Some(expression) if expression.is_decoded() => assert_eq!(values.len(), expression.groups().len()),
                Some(expression) => {
                    assert!(expression.matches(head.path()) && values.len() == expression.groups().len())
                }
                None => assert_eq!(rebuilt(&route.path, &values), head.path(), "the parameters of {:?}", route.path),
            }
            assert!(serves(route, &head.method), "{} by {:?}", head.method.as_str(), route.methods);
            assert!(!head.has_encoded_slash || route.options.allow_encoded_slash == Some(true));
            check_other_readings(table, head, found.index);
            let Action::Forward(forward) = &route.action else { return };
            check_target(forward, head, &params);
        }
        Routed::RedirectTo(status, location) => {
            assert_eq!(status, if head.method == Method::Get { 301 } else { 307 });
            assert!(location.starts_with(b"/") && !location.starts_with(b"//"), "another host: {location:?}");
            assert_ne!(location, head.target, "a redirect to itself");
            let authority = String::from_utf8_lossy(&head.authority);
            let location = String::from_utf8_lossy(&location);
            let next = format!("{} {location} HTTP/1.1\r\nHost: {authority}\r\n\r\n", head.method.as_str());
            let next = read(&next).expect("a Location is a target");
            assert!(
                matches!(table.find("web", &next), Routed::Found(..) | Routed::AmbiguousPath),
                "{location} is no end"
            );
        }
        Routed::MethodNotAllowed(allow) | Routed::Options(allow) => {
            let methods: Vec<&str> = allow.split(", ").collect();
            assert!(methods.is_sorted() && !methods.contains(&""), "{allow}");
        }
        Routed::UnknownHost | Routed::NotFound => {
            let any = config.routes.iter().find(|route| {
                route.hosts.is_empty()
                    && config.routes.len() == 1
                    && serves(route, &head.method)
                    && route.path == PathPattern::any()
            });
            assert!(any.is_none() || !head.path().starts_with(b"/"), "a route for everything was not found");
        }
        Routed::EncodedSlash => assert!(head.has_encoded_slash),
        Routed::MethodInOtherCase => assert!(head.method.as_str().bytes().any(|byte| byte.is_ascii_lowercase())),
        Routed::AmbiguousPath => {
            let has_escapes =
                head.path().contains(&b'%') || config.routes.iter().any(|route| route.path.text.contains('%'));
            assert!(has_escapes || simple(head.path()) != head.path(), "there is one way to read it");
        }
    }
}

/// The path without parameters and without empty segments.
fn simple(path: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(path).replace("%3B", ";").replace("%2F", "/");
    let names: Vec<&str> = text.split('/').map(|segment| segment.split(';').next().unwrap_or("")).collect();
    let kept: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
    let end = if names.last() == Some(&"") && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}", kept.join("/")).into_bytes()
}

/// A server that simplifies paths finds itself on the same route, or on one that is no more specific.
fn check_other_readings(table: &RouteTable, head: &RequestHead, found: usize) {
    let mut other = head.clone();
    other.target = simple(head.path());
    other.path_len = other.target.len();
    other.has_encoded_slash = false;
    if let Routed::Found(simplified, _) = table.find("web", &other) {
        let written = &table.routes()[found].config.path.segments;
        let read = &simplified.config.path.segments;
        if table.routes()[found].config.group.is_some() {
            assert_eq!(simplified.index, found, "in order each reading is of one route");
            return;
        }
        let rank = |segment: Option<&Segment>| match segment {
            Some(Segment::Static(_)) => (2, 0),
            Some(Segment::Param { prefix, .. }) => (1, prefix.len()),
            Some(Segment::Regex(_)) => (1, usize::MAX),
            Some(Segment::CatchAll { .. } | Segment::Prefix { .. }) | None => (0, 0),
        };
        let differs = (0..written.len().max(read.len())).find(|at| rank(written.get(*at)) != rank(read.get(*at)));
        assert!(
            differs.is_none_or(|at| rank(written.get(at)) > rank(read.get(at))),
            "{read:?} is hidden behind {written:?}"
        );
    }
}

fn serves(route: &RouteConfig, method: &Method) -> bool {
    let by_get = *method == Method::Head && !route.lenient.explicit_head && route.methods.contains(&Method::Get);
    route.methods.is_empty() || route.methods.contains(method) || by_get
}

fn check_target(forward: &Forward, head: &RequestHead, params: &proxy::route::Params) {
    let mut out = Vec::new();
    if build_target(forward, head, || Values::of(head, params), &mut out).is_ok() {
        assert_is_target(&out);
        if forward.rewrite.is_none() {
            assert_eq!(out, head.target, "decided on one path, forwarded another");
        }
    }
}

/// The path that a pattern with these values stands for.
fn rebuilt(pattern: &PathPattern, values: &[&[u8]]) -> Vec<u8> {
    let mut values = values.iter();
    let mut path = Vec::new();
    for segment in &pattern.segments {
        path.push(b'/');
        match segment {
            Segment::Static(text) => path.extend_from_slice(text.as_bytes()),
            Segment::Param { prefix, .. } => {
                path.extend_from_slice(prefix.as_bytes());
                path.extend_from_slice(values.next().expect("a value for each parameter"));
            }
            Segment::CatchAll { .. } => path.extend_from_slice(values.next().expect("a value for each parameter")),
            Segment::Prefix { text, .. } => {
                path.extend_from_slice(text.as_bytes());
                path.extend_from_slice(values.next().expect("a value for each parameter"));
            }
            Segment::Regex(_) => panic!("the text has no expressions"),
        }
    }
    assert!(values.next().is_none(), "more values than parameters");
    path
}

/// A path that matches a pattern.
pub fn sample_path(pattern: &PathPattern) -> String {
    let values =
        vec![&b"1"[..]; pattern.segments.iter().filter(|segment| !matches!(segment, Segment::Static(_))).count()];
    String::from_utf8(rebuilt(pattern, &values)).expect("patterns are ASCII")
}

/// A path that `wire` would let in, and a query.
pub fn assert_is_target(target: &[u8]) {
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let shown = String::from_utf8_lossy(target);
    assert!(canonical_path(path, &mut Vec::new()).is_ok(), "{shown}: not a path");
    assert!(query.is_empty() || canonical_query(&query[1..], &mut Vec::new()).is_ok(), "{shown}: not a query");
}
