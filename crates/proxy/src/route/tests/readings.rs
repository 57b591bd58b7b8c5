//! What other servers read a path as, by generation: for random patterns and paths, each server that decodes before it matches finds the route that the
//! table found, or the request is rejected. The servers here are written without the code that they try.

use std::cmp::Reverse;

use config::{Condition, Conditions, PathPattern, RouteConfig, Segment};
use fastrand::Rng;

use super::{check, compile, head, route};
use crate::route::{RouteTable, Routed};

/// What a path is after `times` decodings of all its escapes.
pub(super) fn decode(path: &[u8], times: u32) -> Vec<u8> {
    let mut path = path.to_vec();
    for _ in 0..times {
        let mut out = Vec::new();
        let mut at = 0;
        while at < path.len() {
            let digits = path.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
            match digits.filter(|_| path[at] == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(octet) => (out.push(octet), at += 3).1,
                None => (out.push(path[at]), at += 1).1,
            }
        }
        path = out;
    }
    path
}

fn merge(path: &[u8]) -> Vec<u8> {
    let mut out = path.to_vec();
    out.dedup_by(|one, other| *one == b'/' && *other == b'/');
    out
}

fn cut(path: &[u8]) -> Vec<u8> {
    let name = |segment: &[u8]| segment.split(|octet| *octet == b';').next().unwrap().to_vec();
    path.split(|octet| *octet == b'/').map(name).collect::<Vec<_>>().join(&b'/')
}

/// What servers match of a path: decoded once and twice, before or after parameters are cut and slashes merged, or neither.
pub(super) fn servers(path: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for times in [1, 2] {
        let decoded = decode(path, times);
        all.extend([
            decoded.clone(),
            merge(&decoded),
            cut(&decoded),
            merge(&cut(&decoded)),
            decode(&cut(path), times),
            decode(&merge(path), times),
            decode(&merge(&cut(path)), times),
        ]);
    }
    all
}

/// Whether a server that decodes, and has the same routes, takes this decoded path for one of the route.
pub(super) fn serves(route: &RouteConfig, path: &[u8]) -> bool {
    fn hold(conditions: &Conditions, path: &[u8]) -> bool {
        conditions.0.iter().all(|condition| match condition {
            Condition::Path(patterns) => patterns.iter().any(|pattern| takes(pattern, path)),
            Condition::Not(conditions) => !hold(conditions, path),
            other => panic!("{other:?} is not on the path"),
        })
    }
    takes(&route.path, path) && hold(&route.when, path)
}

/// The same of a pattern.
fn takes(pattern: &PathPattern, path: &[u8]) -> bool {
    if let Some(expression) = pattern.expression().filter(|expression| expression.is_decoded()) {
        return expression.matches(path);
    }
    if let Some(expression) = pattern.expression() {
        let mut written = Vec::new();
        for octet in path {
            let is_kept = octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(octet);
            match is_kept {
                true => written.push(*octet),
                false => written.extend_from_slice(format!("%{octet:02X}").as_bytes()),
            }
        }
        return expression.matches(&written);
    }
    let pieces: Vec<&[u8]> = path[1..].split(|octet| *octet == b'/').collect();
    for (at, segment) in pattern.segments.iter().enumerate() {
        let Some(piece) = pieces.get(at) else { return false };
        let suits = match segment {
            Segment::Static(text) => decode(text.as_bytes(), 1) == *piece,
            Segment::Param { prefix, .. } => {
                piece.strip_prefix(&*decode(prefix.as_bytes(), 1)).is_some_and(|value| !value.is_empty())
            }
            Segment::CatchAll { .. } => return true,
            Segment::Regex(_) => false,
            Segment::Prefix { text, .. } => {
                return pieces[at..].join(&b'/').starts_with(&decode(text.as_bytes(), 1));
            }
        };
        if !suits {
            return false;
        }
    }
    pieces.len() == pattern.segments.len()
}

/// The smaller the more specific.
fn rank(route: &RouteConfig) -> Vec<(u8, Reverse<usize>)> {
    let of = |segment: &Segment| match segment {
        Segment::Static(_) => (0, Reverse(0)),
        Segment::Regex(_) => (1, Reverse(0)),
        Segment::Param { prefix, .. } => (2, Reverse(decode(prefix.as_bytes(), 1).len())),
        Segment::CatchAll { .. } | Segment::Prefix { .. } => (3, Reverse(0)),
    };
    route.path.segments.iter().map(of).collect()
}

const SEGMENTS: [&str; 18] = [
    "a", "b", "a:b", "@a", "a+b", "a=b", "b,a", "a!", "$a", "a%3Ab", "a%20b", "{x}", "{x}", "{x}", "a:{x}", "a{x}",
    "@{x}", "%40{x}",
];

const EXPRESSIONS: [&str; 5] = ["~/a/[a-z]+:b", "~/b/[a-z]+", "~/a/[a-z+]+", "~/[a-z]+:[a-z]+/(a|b)", "~/b/[^:]+:b"];

fn random_routes(random: &mut Rng) -> Vec<String> {
    let mut routes = vec!["* * /{*rest}".to_owned()];
    for _ in 0..random.usize(1..6) {
        let mut path = String::new();
        for _ in 0..random.usize(1..4) {
            path.push('/');
            path.push_str(random.choice(SEGMENTS).unwrap());
        }
        if random.u8(..5) == 0 {
            path = (*random.choice(EXPRESSIONS).unwrap()).to_owned();
        }
        let options = random.choice(["", "", " %2F"]).unwrap();
        routes.push(format!("* * {path}{options}"));
    }
    routes
}

/// A path after one of the patterns, of which some characters are escaped, once or more often.
fn random_path(random: &mut Rng, routes: &[String]) -> String {
    let pattern = random.choice(routes).unwrap().split(' ').nth(2).unwrap();
    let mut plain = match pattern.strip_prefix('~') {
        Some(_) => format!(
            "/{}/{}",
            random.choice(["a", "b", "a:b"]).unwrap(),
            random.choice(["a:b", "b", "a+b", "a"]).unwrap()
        ),
        None => pattern.replace("{*rest}", "a:b/@a"),
    };
    while plain.contains("{x}") {
        plain = plain.replacen("{x}", random.choice(["a", "b", "a:b", "+b", "x y", "=", "\u{f6}"]).unwrap(), 1);
    }
    let odd = random.choice(["", "", "", "", ";a", "/", ";", "%2F", "%3B", "%3b;"]).unwrap();
    let places: Vec<usize> = plain.match_indices('/').map(|(at, _)| at).chain([plain.len()]).collect();
    plain.insert_str(*random.choice(&places).unwrap(), odd);
    let mut out = String::new();
    for byte in plain.bytes() {
        let is_reserved = b":@!$&'()*+,;=".contains(&byte);
        match random.u8(..4) {
            _ if !byte.is_ascii() || byte == b' ' => out.push_str(&format!("%{byte:02X}")),
            0 if is_reserved => out.push_str(&format!("%{byte:02X}")),
            1 if is_reserved => out.push_str(&format!("%25{byte:02x}")),
            2 if is_reserved && random.bool() => out.push_str(&format!("%2525{byte:02X}")),
            _ => out.push(char::from(byte)),
        }
    }
    out
}

#[test]
fn servers_that_decode_first_find_the_same_route_or_nothing_is_forwarded() {
    let mut random = Rng::with_seed(36);
    let (mut passed, mut with_escapes, mut rejected) = (0, 0, 0);
    for _ in 0..1500 {
        let texts = random_routes(&mut random);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let Ok(table) = compile(&texts) else { continue };
        let owned: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        for _ in 0..30 {
            let request = format!("GET h.test {}", random_path(&mut random, &owned));
            let Some(head) = head(&request) else { continue };
            match table.find("web", &head) {
                Routed::Found(found, _) => {
                    passed += 1;
                    with_escapes += u32::from(head.path().contains(&b'%'));
                    let path = String::from_utf8(head.path().to_vec()).unwrap();
                    check_servers(&table, &found.config, &path, &texts);
                }
                Routed::AmbiguousPath => rejected += 1,
                _ => {}
            }
        }
    }
    assert!(passed > 5_000 && with_escapes > 2_500 && rejected > 2_500, "{passed} {with_escapes} {rejected}");
}

/// Each server finds the route of the gate; a less specific one only where slashes or parameters are the reason.
fn check_servers(table: &RouteTable, own: &RouteConfig, path: &str, texts: &[&str]) {
    let divides = path.contains(';') || path.contains("//") || path.contains("%2F") || path.contains("3B");
    let divides = divides || path.contains("3b");
    for reading in servers(path.as_bytes()) {
        let serving = table.routes().iter().map(|route| &*route.config).filter(|route| serves(route, &reading));
        let best = serving.min_by_key(|route| rank(route));
        let is_same = best.is_some_and(|best| best.name == own.name || rank(best) == rank(own));
        let is_less = best.is_none_or(|best| rank(best) > rank(own));
        let reading = reading.escape_ascii();
        assert!(is_same || (divides && is_less), "{path} is of {}, and as {reading} of {best:?}: {texts:?}", own.name);
    }
}

/// Which escapes matter is a question of the patterns.
#[test]
fn an_escape_matters_where_a_pattern_cares() {
    let routes = [
        "* * /{*rest}",
        "* * /v1/items:delete",
        "* * /v1/{name}",
        "* * /@admin",
        "* * /a+b/{*rest}",
        "* * ~/r/[a-z]+:purge",
        "* * /e%3Ae",
        "* * ~/s/[a-z]+%3Ax",
        "* * /tag",
        "* * /lit;eral",
    ];
    let mut expected: Vec<(&str, &str)> = Vec::new();
    for path in [
        "/v1/items%3Adelete",
        "/v1/items%3adelete",
        "/v1/items%253Adelete",
        "/v1/items%253adelete",
        "/v1/items%25253adelete",
        "/%40admin",
        "/%2540admin",
        "/a%2Bb/x",
        "/a%2bb/",
        "/r/x%3Apurge",
        "/r/x%253apurge",
        "/e:e",
        "/e%253ae",
        "/s/a:x",
        "/tag%3Fx",
        "/tag%23",
        "/tag%253f",
        "/lit%3Beral",
        "//v1/items%3Adelete",
        "/v1;x/items%3Adelete;y",
    ] {
        expected.push((path, "400"));
    }
    let others = [
        ("/files/a%20b", "* * /{*rest} [files/a%20b]"),
        ("/files/a%2Bb%3Ac%40", "* * /{*rest} [files/a%2Bb%3Ac%40]"),
        ("/v1/a%3Ab", "* * /v1/{name} [a%3Ab]"),
        ("/v1/a%2Bb", "* * /v1/{name} [a%2Bb]"),
        ("/v1/%C3%B6%2525", "* * /v1/{name} [%C3%B6%2525]"),
        ("/v1/items:delete", "* * /v1/items:delete []"),
        ("/a+b/c%3Ad", "* * /a+b/{*rest} [c%3Ad]"),
        ("/r/x:purge", "* * ~/r/[a-z]+:purge []"),
        ("/s/a%3Ax", "* * ~/s/[a-z]+%3Ax []"),
        ("/tags/%23rust%3F", "* * /{*rest} [tags/%23rust%3F]"),
    ];
    expected.extend(others);
    let expected: Vec<(String, &str)> =
        expected.into_iter().map(|(path, said)| (format!("GET h.test {path}"), said)).collect();
    let expected: Vec<(&str, &str)> = expected.iter().map(|(request, said)| (request.as_str(), *said)).collect();
    check(&routes, &expected);
    let open = route("* * /v1/{name} ;");
    assert!(open.options.allow_ambiguous_path);
    check(
        &["* * /v1/{name} ;", "* * /v1/items:delete"],
        &[("GET h.test /v1/items%3Adelete", "* * /v1/{name} ; [items%3Adelete]")],
    );
}
