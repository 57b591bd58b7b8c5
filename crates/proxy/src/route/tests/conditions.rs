//! `when` as a tree: each leaf, what decides, which of two goes first and which exclude each other, readings of a path, and a comparison with a model that asks
//! one condition after the other.

use std::rc::Rc;

use config::Config;
use fastrand::Rng;
use wire::http::{Method, RequestHead, Version};

use super::{ask, head};
use crate::geoip::Located;
use crate::route::{Arrival, RouteTable, Routed, Sought, Standing};

fn config(routes: &str) -> Result<Config, String> {
    let text = format!("listeners: [{{ name: web, bind: ':80' }}]\nroutes: {routes}\n");
    config::parse("test.yaml", &text, std::path::Path::new("/")).map_err(|problems| problems.to_string())
}

fn table(routes: &str) -> RouteTable {
    RouteTable::compile(&config(routes).unwrap()).unwrap_or_else(|problems| panic!("{routes}: {problems:?}"))
}

/// A table of one route for all paths, `allow_ambiguous_path`, with this `when`.
fn only(when: &str) -> RouteTable {
    table(&format!("[{{ name: only, when: {when}, allow_ambiguous_path: true, respond: {{ status: 200 }} }}]"))
}

/// A request from somewhere.
fn sought<'a>(head: &'a RequestHead, client: &str, port: u16, is_secure: bool) -> Sought<'a> {
    let client = Some(client.parse().unwrap());
    let arrival = Arrival { port, is_secure, ..Arrival::default() };
    Sought { head, client, tls: None, subject: None, located: Located::default(), arrival }
}

fn is_found(table: &RouteTable, sought: Sought<'_>) -> bool {
    matches!(table.find("web", sought), Routed::Found(..))
}

/// A `when`, a request, and whether it holds.
const LEAVES: &[(&str, &str, bool)] = &[
    ("{ method: POST }", "POST h /", true),
    ("{ method: POST }", "GET h /", false),
    ("{ method: [PUT, GET] }", "HEAD h /", true),
    ("{ method: HEAD }", "GET h /", false),
    ("{ method: PURGE }", "PURGE h /", true),
    ("{ path: /a }", "GET h /a", true),
    ("{ path: /a }", "GET h /a/", false),
    ("{ path: /a }", "GET h /ab", false),
    ("{ path: /a/ }", "GET h /a/", true),
    ("{ path: / }", "GET h /", true),
    ("{ path: '/a/{x}' }", "GET h /a/b", true),
    ("{ path: '/a/{x}' }", "GET h /a/", false),
    ("{ path: '/a/v{x}/c' }", "GET h /a/v1/c", true),
    ("{ path: '/a/v{x}/c' }", "GET h /a/v/c", false),
    ("{ path: '/a/{*rest}' }", "GET h /a/b/c", true),
    ("{ path: '/a/{*rest}' }", "GET h /a/", true),
    ("{ path: '/a/{*rest}' }", "GET h /a", false),
    ("{ path: { prefix: /a/b } }", "GET h /a/bc/d", true),
    ("{ path: { prefix: /a/b } }", "GET h /a", false),
    ("{ path: { regex: '/a[0-9]', except: /a5 } }", "GET h /a4", true),
    ("{ path: { regex: '/a[0-9]', except: /a5 } }", "GET h /a5", false),
    ("{ path: { regex: '/a b.*', decoded: true } }", "GET h /a%20b%20c", true),
    ("{ path: [/a, { prefix: /b }] }", "GET h /bc", true),
    ("{ header: { x: { which: first, exact: a } } }", "GET h / x=a x=b", true),
    ("{ header: { x: { which: first, exact: b } } }", "GET h / x=a x=b", false),
    ("{ header: { x: { which: last, exact: b } } }", "GET h / x=a x=b", true),
    ("{ header: { x: { which: last, exact: a } } }", "GET h / x=a x=b", false),
    ("{ header: { x: { which: any, exact: b } } }", "GET h / x=a x=b", true),
    ("{ header: { x: { which: all, regex: '[ab]' } } }", "GET h / x=a x=b", true),
    ("{ header: { x: { which: all, regex: '[ab]' } } }", "GET h / x=a x=c", false),
    ("{ header: { x: { which: all, regex: '.*' } } }", "GET h /", false),
    ("{ header: { x: { count: { equals: 2 } } } }", "GET h / x=a x=b", true),
    ("{ header: { x: { count: { at_most: 1 } } } }", "GET h / x=a x=b", false),
    ("{ header: { x: { count: { equals: 0 } } } }", "GET h /", true),
    ("{ query: { q: { length: { at_least: 3 } } } }", "GET h /?q=a%20b", true),
    ("{ query: { q: { length: { at_least: 4 } } } }", "GET h /?q=a%20b", false),
    ("{ query: { q: { number: { at_least: 5, at_most: 10 } } } }", "GET h /?q=10", true),
    ("{ query: { q: { number: { at_least: 5, at_most: 10 } } } }", "GET h /?q=11", false),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=18446744073709551615", true),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=18446744073709551616", true),
    ("{ query: { q: { number: { at_least: 1000 } } } }", "GET h /?q=99999999999999999999999999", true),
    ("{ query: { q: { number: { at_most: 1000 } } } }", "GET h /?q=99999999999999999999999999", false),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=0", true),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=+5", false),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=-5", false),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=05", false),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=0x5", false),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=5.0", false),
    ("{ query: { q: { number: { at_least: 0 } } } }", "GET h /?q=", false),
    ("{ cookie: { c: { number: { equals: 7 } } } }", "GET h / cookie=c=7", true),
    ("{ not: { header: { x: { number: { at_most: 5 } } } } }", "GET h / x=none", true),
    ("{ all: [{ header: { x: a } }, { header: { x: b } }] }", "GET h / x=a x=b", true),
    ("{ all: [{ header: { x: a } }, { header: { x: b } }] }", "GET h / x=a", false),
    ("{ any: [{ header: { x: a } }, { query: { q: '1' } }] }", "GET h /?q=1", true),
    ("{ any: [{ header: { x: a } }, { query: { q: '1' } }] }", "GET h /", false),
    ("{ any: [{ header: { x: a }, query: { q: '1' } }] }", "GET h / x=a", false),
    ("{ not: { header: { x: a } } }", "GET h / x=b x=a", false),
    ("{ not: { header: { x: a } } }", "GET h /", true),
    ("{ not: { header: { x: a, y: b } } }", "GET h / x=a", true),
    ("{ not: { any: [{ header: { x: a } }, { header: { y: b } }] } }", "GET h / x=a", false),
    ("{ not: { not: { header: { x: a } } } }", "GET h / x=a", true),
    ("{ header: { y: b }, not: { header: { x: a } } }", "GET h / y=b", true),
    ("{ not: { certificate: { san: 'DNS:a' } } }", "GET h /", true),
    ("{ not: { server_name: a.example } }", "GET h /", true),
];

#[test]
fn each_leaf_and_each_group_holds_where_it_says() {
    for (when, request, expected) in LEAVES {
        let (table, head) = (only(when), head(request).unwrap());
        assert_eq!(is_found(&table, (&head).into()), *expected, "{when} {request}");
    }
    let mut head = head("GET h /").unwrap();
    for (when, version, port, is_secure, expected) in [
        ("{ scheme: https }", Version::H11, 443, true, true),
        ("{ scheme: https }", Version::H11, 443, false, false),
        ("{ scheme: http }", Version::H11, 443, false, true),
        ("{ not: { scheme: http } }", Version::H11, 443, true, true),
        ("{ port: 443 }", Version::H11, 443, false, true),
        ("{ port: [80, 8443] }", Version::H11, 8443, false, true),
        ("{ port: [80, 8443] }", Version::H11, 443, false, false),
        ("{ not: { port: 80 } }", Version::H11, 0, false, true),
        ("{ version: '1.0' }", Version::H10, 80, false, true),
        ("{ version: 1.1 }", Version::H10, 80, false, false),
        ("{ version: ['1.1', 2] }", Version::H2, 80, false, true),
        ("{ version: 3 }", Version::H3, 80, false, true),
    ] {
        head.version = version;
        assert_eq!(is_found(&only(when), sought(&head, "192.0.2.1", port, is_secure)), expected, "{when} {version:?}");
    }
    // Of a request that another proxy asks about, what that one does not say is not known.
    let arrival = Arrival { is_relayed: true, ..Arrival::default() };
    let relayed = Sought { arrival, ..sought(&head, "192.0.2.1", 0, false) };
    for when in ["{ scheme: http }", "{ scheme: https }", "{ port: 80 }", "{ version: ['1.0', '1.1', 2, 3] }"] {
        assert!(!is_found(&only(when), relayed), "{when}");
        assert!(is_found(&only(&format!("{{ not: {when} }}")), relayed), "{when}");
    }
}

#[test]
fn what_a_trusted_proxy_says_of_the_scheme_counts() {
    let mut trusting = config("[{ respond: { status: 200 } }]").unwrap().forwarding;
    trusting.trusted_fields.push("x-forwarded-proto".to_owned());
    let (http, https) = (only("{ scheme: http }"), only("{ scheme: https }"));
    for (fields, is_secure, expected) in [
        ("", false, Some("http")),
        ("", true, Some("https")),
        (" x-forwarded-proto=https", false, Some("https")),
        (" x-forwarded-proto=HTTPS", false, Some("https")),
        (" x-forwarded-proto=http", true, Some("http")),
        (" x-forwarded-proto=wss", false, Some("https")),
        (" x-forwarded-proto=ws", true, Some("http")),
        (" x-forwarded-proto=gopher", true, None),
        // Malformed, or there twice: not believed.
        (" x-forwarded-proto=http,https", true, Some("https")),
        (" x-forwarded-proto=http x-forwarded-proto=http", true, Some("https")),
    ] {
        let head = head(&format!("GET h /{fields}")).unwrap();
        let said = Sought {
            arrival: Arrival { is_secure, trusted: Some(&trusting), ..Arrival::default() },
            ..sought(&head, "192.0.2.1", 0, is_secure)
        };
        assert_eq!(is_found(&http, said), expected == Some("http"), "{fields}");
        assert_eq!(is_found(&https, said), expected == Some("https"), "{fields}");
        // From anybody else only the connection counts.
        assert_eq!(is_found(&https, sought(&head, "192.0.2.1", 0, is_secure)), is_secure, "{fields}");
    }
}

#[test]
fn a_request_is_judged_without_an_allocation() {
    let table = only(
        "{ any: [{ header: { x: { number: { at_least: 5 } } } }, { all: [{ method: GET }, { not: { path: { prefix: /b } } },
           { query: { q: { which: last, regex: 'a+' } } }, { cookie: { c: { count: { equals: 1 } } } }] }] }",
    );
    let head = head("GET h /a?q=b&q=aa cookie=c=1 x=4").unwrap();
    let counted = allocation_counter::measure(|| assert!(is_found(&table, sought(&head, "192.0.2.1", 80, false))));
    assert_eq!(counted.count_total, 0);
}

/// The standing of the first of some routes in order, in words.
fn why(when: &str, request: &str) -> (Option<String>, Option<String>) {
    let (ok, head) = ("respond: { status: 200 }", head(request).unwrap());
    let table = table(&format!("[{{ in_order: [{{ name: one, when: {when}, {ok} }}, {{ name: other, {ok} }}] }}]"));
    let first = table.contenders("web", &(&head).into()).into_iter().next().unwrap();
    let lacks = match first.standing {
        Standing::Condition(text) => Some(text),
        _ => None,
    };
    (lacks, first.because)
}

#[test]
fn the_leaf_that_decides_is_named_with_its_place() {
    for (when, request, expected) in [
        ("{ header: { x: a } }", "GET h /", "header `x` is not `a`"),
        ("{ not: { header: { x: a } } }", "GET h / x=a", "header `x` is `a` (when.not.header)"),
        (
            "{ any: [{ method: POST }, { not: { header: { x: a } } }] }",
            "GET h / x=a",
            "the method is not POST (when.any[0].method), header `x` is `a` (when.any[1].not.header)",
        ),
        (
            "{ all: [{ method: GET }, { path: [/a, { prefix: /b }] }] }",
            "GET h /c",
            "the path is not like /a, /b* (when.all[1].path)",
        ),
        (
            "{ not: { scheme: http, port: 0, version: 1.1 } }".replace("port: 0, ", "").as_str(),
            "GET h /",
            "the scheme is http (when.not.scheme), the protocol is HTTP/1.1 (when.not.version)",
        ),
        (
            "{ any: [{ header: { a: a } }, { header: { b: b } }, { port: 1 }, { scheme: https }, { version: 3 }] }",
            "GET h /",
            "header `a` is not `a` (when.any[0].header), header `b` is not `b` (when.any[1].header), \
             the port is not 1 (when.any[2].port), the scheme is not https (when.any[3].scheme), and 1 more",
        ),
        ("{ query: { q: { number: { at_least: 5 } } } }", "GET h /", "query parameter `q` is not a number: at least 5"),
        ("{ cookie: { c: { count: { equals: 2 } } } }", "GET h /", "cookie `c` is not there so often: 2"),
        (
            "{ header: { x: { which: first, length: { at_least: 1, at_most: 3 } } } }",
            "GET h /",
            "header `x` is not of so many bytes: 1 to 3 (the first of its values)",
        ),
        (
            "{ not: { not: { client: 192.0.2.0/24 } } }",
            "GET h /",
            "the client is not in 192.0.2.0/24 (when.not.not.client)",
        ),
    ] {
        assert_eq!(why(when, request), (Some(expected.to_owned()), None), "{when}");
    }
    // Of one that is taken, what makes its tree hold.
    let taken = why("{ any: [{ method: POST }, { header: { x: a }, query: { q: b } }] }", "GET h /?q=b x=a");
    let because = "header `x` is `a` (when.any[1].header), query parameter `q` is `b` (when.any[1].query)";
    assert_eq!(taken, (None, Some(because.to_owned())));
    assert_eq!(why("{ header: { x: a } }", "GET h / x=a"), (None, None));
}

#[test]
fn trees_rank_and_exclude_each_other_by_what_is_plain() {
    let both = |one: &str, other: &str| {
        let ok = "respond: { status: 200 }";
        config(&format!("[{{ name: one, when: {one}, {ok} }}, {{ name: other, when: {other}, {ok} }}]"))
            .and_then(|config| RouteTable::compile(&config).map_err(|problems| problems.join(" ")))
    };
    for (one, other) in [
        ("{ header: { x: a } }", "{ not: { header: { x: a } } }"),
        ("{ not: { header: { x: a } } }", "{ all: [{ header: { x: a } }] }"),
        ("{ header: { x: { present: true } } }", "{ not: { header: { x: { present: true } } } }"),
        ("{ any: [{ header: { x: a } }, { header: { x: b } }] }", "{ header: { x: c } }"),
        ("{ header: { x: a, y: a } }", "{ any: [{ header: { x: b, y: b } }, { header: { y: c, z: c } }] }"),
        ("{ method: GET }", "{ method: POST }"),
        ("{ scheme: http }", "{ scheme: https }"),
        ("{ port: [1, 2] }", "{ port: 3 }"),
        ("{ version: 2 }", "{ version: ['1.0', '1.1'] }"),
        ("{ header: { x: { number: { at_most: 3 } } } }", "{ header: { x: { number: { at_least: 4 } } } }"),
        ("{ header: { x: { count: { equals: 0 } } } }", "{ header: { x: { count: { at_least: 1 } } } }"),
        ("{ header: { x: { which: first, exact: a } } }", "{ header: { x: { which: first, exact: b } } }"),
        // One goes first: it has more conditions, or leaves less open.
        ("{ all: [{ header: { x: a } }, { header: { y: b } }] }", "{ header: { z: c } }"),
        ("{ any: [{ header: { x: a } }, { header: { y: b } }] }", "{ header: { z: { present: true } } }"),
        ("{ not: { header: { x: a } } }", "{ header: { y: a } }"),
    ] {
        assert!(both(one, other).is_ok(), "{one} {other}: {:?}", both(one, other).err());
        assert!(both(other, one).is_ok(), "{other} {one}");
    }
    for (one, other) in [
        ("{ not: { header: { x: a } } }", "{ not: { header: { y: b } } }"),
        ("{ any: [{ header: { x: a } }, { header: { y: a } }] }", "{ header: { x: b } }"),
        ("{ method: GET }", "{ method: HEAD }"),
        ("{ method: GET }", "{ scheme: http }"),
        ("{ header: { x: { number: { at_most: 4 } } } }", "{ header: { x: { number: { at_least: 4 } } } }"),
        ("{ header: { x: { which: first, exact: a } } }", "{ header: { x: { which: last, exact: b } } }"),
        ("{ all: [{ method: GET }] }", "{ any: [{ port: 1 }] }"),
    ] {
        assert!(both(one, other).is_err(), "{one} {other}");
    }
    // What has more conditions, or more exact ones, goes first.
    let table = both(
        "{ any: [{ header: { x: a } }, { header: { y: a } }] }",
        "{ all: [{ header: { x: a } }, { method: GET }] }",
    );
    assert_eq!(ask(&table.unwrap(), "web", "GET h / x=a"), "other [/]".replace("/", ""));
}

#[test]
fn a_route_in_order_whose_conditions_an_earlier_one_is_content_with_is_never_taken() {
    let never = |one: &str, other: &str| {
        let ok = "respond: { status: 200 }";
        let table =
            table(&format!("[{{ in_order: [{{ name: a, when: {one}, {ok} }}, {{ name: b, when: {other}, {ok} }}] }}]"));
        !table.unreachable().is_empty()
    };
    for (one, other) in [
        ("{ header: { x: a } }", "{ header: { x: a, y: b } }"),
        ("{ all: [{ header: { x: a } }] }", "{ header: { x: a }, method: GET }"),
        ("{ any: [{ port: 1 }, { header: { x: a } }] }", "{ all: [{ header: { x: a } }, { port: 2 }] }"),
        ("{ not: { header: { x: a } } }", "{ method: GET, not: { header: { x: a } } }"),
    ] {
        assert!(never(one, other), "{one} {other}");
    }
    for (one, other) in [
        ("{ header: { x: a, y: b } }", "{ header: { x: a } }"),
        ("{ not: { header: { x: a } } }", "{ header: { x: a } }"),
        ("{ header: { x: a } }", "{ not: { header: { x: a } } }"),
        ("{ header: { x: a } }", "{ any: [{ header: { x: a } }, { port: 1 }] }"),
    ] {
        assert!(!never(one, other), "{one} {other}");
    }
}

/// What one condition says of the path holds of each reading of it.
#[test]
fn no_reading_of_a_path_gets_around_a_condition_on_it() {
    let ok = "respond: { status: 200 }";
    let ordered = |when: &str| {
        table(&format!("[{{ in_order: [{{ name: closed, when: {when}, {ok} }}, {{ name: open, {ok} }}] }}]"))
    };
    let said = |table: &RouteTable, path: &str| {
        let said = ask(table, "web", &format!("GET h {path}"));
        said.split(' ').next().unwrap().to_owned()
    };
    for (when, path, expected) in [
        ("{ path: { prefix: /admin } }", "/admin/x", "closed"),
        ("{ path: { prefix: /admin } }", "/%61dmin", "closed"),
        ("{ path: { prefix: /admin } }", "/x", "open"),
        ("{ path: { prefix: /admin } }", "/x//y;z%3A", "open"),
        ("{ path: { prefix: /admin } }", "//admin", "400"),
        ("{ path: { prefix: /admin } }", "/%2561dmin", "rejected"),
        ("{ path: { prefix: /admin } }", "/;/admin", "400"),
        ("{ path: { prefix: /admin } }", "/admin%3Bx", "closed"),
        ("{ not: { path: { prefix: /public } } }", "/public/x", "open"),
        ("{ not: { path: { prefix: /public } } }", "//public/x", "400"),
        ("{ any: [{ method: PUT }, { path: /v1/items:delete }] }", "/v1/items:delete", "closed"),
        ("{ any: [{ method: PUT }, { path: /v1/items:delete }] }", "/v1/items%3Adelete", "400"),
        ("{ any: [{ method: PUT }, { path: /v1/items:delete }] }", "/v1/items%253Adelete", "400"),
        ("{ any: [{ method: PUT }, { path: /v1/items:delete }] }", "/v1/items%3Aget", "open"),
        ("{ path: { regex: '/v1/[a-z]+:delete' } }", "/v1/items%3Adelete", "400"),
        ("{ path: { regex: '/v1/[a-z]+%3Adelete' } }", "/v1/items%3Adelete", "400"),
        ("{ path: { regex: '/v1/[a-z]+%3Adelete' } }", "/v1/items:delete", "400"),
    ] {
        assert_eq!(said(&ordered(when), path), expected, "{when} {path}");
    }
    // By how specific routes are: a route that its conditions keep to a path counts, however specific the other one's path is.
    let specific = table(&format!(
        "[{{ name: files, path: '//{{*rest}}', {ok} }}, {{ name: secret, when: {{ path: {{ prefix: /secret }} }}, {ok} }}]"
    ));
    assert_eq!(said(&specific, "//x"), "files");
    assert_eq!(said(&specific, "/secret/x"), "secret");
    assert_eq!(said(&specific, "//secret/x"), "400");
    // What it leaves, it leaves to nobody on purpose.
    let alone = table(&format!("[{{ name: public, when: {{ path: {{ regex: '/x/[^/]+/ok' }} }}, {ok} }}]"));
    assert_eq!(said(&alone, "/x/y/ok"), "public");
    assert_eq!(said(&alone, "/x/y%3Fz/ok"), "400");
    assert_eq!(said(&alone, "/x/y"), "404");
    // But for what an expression spells escaped.
    let escaped = table(&format!("[{{ name: own, when: {{ path: {{ regex: '/v1/[a-z]+%3Adelete' }} }}, {ok} }}]"));
    assert_eq!(said(&escaped, "/v1/items%3Adelete"), "own");
    assert_eq!(said(&escaped, "/v1/items:delete"), "404");
}

/// A method that only a condition names counts as one that a route names.
#[test]
fn a_method_in_a_condition_is_not_got_around_by_its_case() {
    let ok = "respond: { status: 200 }";
    let table = table(&format!(
        "[{{ in_order: [{{ name: closed, when: {{ any: [{{ method: FLUSH }}] }}, {ok} }}, {{ {ok} }}] }}]"
    ));
    for (method, expected) in [("FLUSH", "closed []"), ("flush", "400"), ("FlusH", "400"), ("OTHER", "*/{*rest} []")] {
        let said = ask(&table, "web", &format!("{method} h /"));
        assert_eq!(said, expected, "{method}");
    }
}

/// What the model knows of a request.
struct Asked {
    method: &'static str,
    path: &'static str,
    /// By header, query and cookie.
    values: [Vec<&'static str>; 3],
    is_secure: bool,
    port: u16,
    version: (Version, &'static str),
    client: &'static str,
}

type Holds = Rc<dyn Fn(&Asked) -> bool>;
type OfValues = Rc<dyn Fn(&[&str]) -> bool>;
type OfValue = Rc<dyn Fn(&str) -> bool>;

/// A condition as it is written, and what it means.
type Written = (String, Holds);

/// A random test of values by one name.
fn random_values(random: &mut Rng) -> (String, OfValues) {
    let bound = random.u64(..4);
    let (text, one): (String, OfValue) = match random.u8(..9) {
        0 | 1 => ("exact: '1'".to_owned(), Rc::new(|value: &str| value == "1")),
        2 => ("prefix: '1'".to_owned(), Rc::new(|value: &str| value.starts_with('1'))),
        3 => (
            "regex: '[12]+'".to_owned(),
            Rc::new(|value: &str| !value.is_empty() && value.bytes().all(|byte| b"12".contains(&byte))),
        ),
        4 => (format!("length: {{ at_least: {bound} }}"), Rc::new(move |value: &str| value.len() as u64 >= bound)),
        5 => (
            format!("number: {{ at_most: {bound} }}"),
            Rc::new(move |value: &str| {
                matches!(value, "0" | "1" | "2" | "12") && value.parse::<u64>().unwrap() <= bound
            }),
        ),
        6 => return ("{ present: true }".to_owned(), Rc::new(|values: &[&str]| !values.is_empty())),
        7 => return ("{ present: false }".to_owned(), Rc::new(|values: &[&str]| values.is_empty())),
        _ => {
            return (
                format!("{{ count: {{ equals: {bound} }} }}"),
                Rc::new(move |values: &[&str]| values.len() as u64 == bound),
            );
        }
    };
    let which = random.choice(["any", "first", "last", "all"]).unwrap();
    let holds = move |values: &[&str]| match which {
        "first" => values.first().is_some_and(|value| one(value)),
        "last" => values.last().is_some_and(|value| one(value)),
        "all" => !values.is_empty() && values.iter().all(|value| one(value)),
        _ => values.iter().any(|value| one(value)),
    };
    (format!("{{ which: {which}, {text} }}"), Rc::new(holds))
}

fn random_leaf(random: &mut Rng, key: &str) -> Written {
    let of_values = |random: &mut Rng, at: usize, name: &str| -> Written {
        let (one, other) = (random_values(random), random_values(random));
        let is_list = random.bool();
        let text = if is_list { format!("[{}, {}]", one.0, other.0) } else { one.0.clone() };
        let holds = move |asked: &Asked| one.1(&asked.values[at]) || is_list && other.1(&asked.values[at]);
        (format!("{{ {name}: {text} }}"), Rc::new(holds))
    };
    match key {
        "header" => of_values(random, 0, "x"),
        "query" => of_values(random, 1, "q"),
        "cookie" => of_values(random, 2, "c"),
        "method" => {
            let method = random.choice(["GET", "POST", "HEAD", "PURGE"]).unwrap();
            (
                method.to_owned(),
                Rc::new(move |asked| asked.method == method || (asked.method, method) == ("HEAD", "GET")),
            )
        }
        "path" => {
            let (text, takes): (&str, fn(&str) -> bool) = random
                .choice([
                    ("/a", (|path| path == "/a") as fn(&str) -> bool),
                    ("'/a/{x}'", |path| {
                        path.strip_prefix("/a/").is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
                    }),
                    ("'/a/{*rest}'", |path| path.starts_with("/a/")),
                    ("{ prefix: /a }", |path| path.starts_with("/a")),
                    ("{ regex: '/(a|b)' }", |path| matches!(path, "/a" | "/b")),
                    ("[/b, { regex: '/a b', decoded: true }]", |path| matches!(path, "/b" | "/a%20b")),
                ])
                .unwrap();
            (text.to_owned(), Rc::new(move |asked| takes(asked.path)))
        }
        "scheme" => {
            let is_secure = random.bool();
            (if is_secure { "https" } else { "http" }.to_owned(), Rc::new(move |asked| asked.is_secure == is_secure))
        }
        "port" => ("[80, 443]".to_owned(), Rc::new(|asked| matches!(asked.port, 80 | 443))),
        "version" => {
            let version = random.choice(["1.0", "1.1", "2", "3"]).unwrap();
            (format!("'{version}'"), Rc::new(move |asked| asked.version.1 == version))
        }
        _ => ("192.0.2.0/24".to_owned(), Rc::new(|asked| asked.client.starts_with("192.0.2."))),
    }
}

/// Random conditions beside each other.
fn random_tree(random: &mut Rng, depth: u32) -> Written {
    let leaves = ["header", "query", "cookie", "method", "path", "scheme", "port", "version", "client"];
    let mut keys: Vec<&str> = (0..random.usize(1..3)).map(|_| random.choice(leaves).unwrap()).collect();
    if depth > 0 && random.u8(..4) > 0 {
        keys.push(random.choice(["all", "any", "not"]).unwrap());
        if random.bool() {
            keys.remove(0);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let mut texts = Vec::new();
    let mut all: Vec<Holds> = Vec::new();
    for key in keys {
        let (text, holds): Written = match key {
            "not" => {
                let (text, holds) = random_tree(random, depth - 1);
                (text, Rc::new(move |asked| !holds(asked)))
            }
            "all" | "any" => {
                let items: Vec<Written> = (0..random.usize(1..4)).map(|_| random_tree(random, depth - 1)).collect();
                let texts: Vec<&str> = items.iter().map(|(text, _)| text.as_str()).collect();
                let text = format!("[{}]", texts.join(", "));
                let is_all = key == "all";
                let holds = move |asked: &Asked| match is_all {
                    true => items.iter().all(|(_, holds)| holds(asked)),
                    false => items.iter().any(|(_, holds)| holds(asked)),
                };
                (text, Rc::new(holds))
            }
            leaf => random_leaf(random, leaf),
        };
        texts.push(format!("{key}: {text}"));
        all.push(holds);
    }
    (format!("{{ {} }}", texts.join(", ")), Rc::new(move |asked| all.iter().all(|holds| holds(asked))))
}

fn random_request(random: &mut Rng) -> Asked {
    let values = |random: &mut Rng| -> Vec<&'static str> {
        (0..random.choice([0, 1, 1, 2, 3]).unwrap())
            .map(|_| random.choice(["1", "2", "12", "0", "01", "x"]).unwrap())
            .collect()
    };
    let versions = [(Version::H10, "1.0"), (Version::H11, "1.1"), (Version::H2, "2"), (Version::H3, "3")];
    Asked {
        method: random.choice(["GET", "HEAD", "POST", "PURGE", "PUT"]).unwrap(),
        path: random.choice(["/", "/a", "/a/", "/a/b", "/ab", "/b", "/a%20b", "/c"]).unwrap(),
        values: [values(random), values(random), values(random)],
        is_secure: random.bool(),
        port: random.choice([80, 443, 8080]).unwrap(),
        version: random.choice(versions).unwrap(),
        client: random.choice(["192.0.2.1", "198.51.100.1"]).unwrap(),
    }
}

#[test]
fn trees_agree_with_asking_one_condition_after_the_other() {
    let (mut held, mut deep) = (0, 0);
    for seed in 0..600 {
        let random = &mut Rng::with_seed(seed);
        let (when, holds) = random_tree(random, 3);
        deep += usize::from(when.matches("not:").count() > 0 && when.matches("any:").count() > 0);
        let table = only(&when);
        for _ in 0..100 {
            let asked = random_request(random);
            let [fields, query, cookies] = &asked.values;
            let query: Vec<String> = query.iter().map(|value| format!("q={value}")).collect();
            let mut head = head(&format!("GET h {}?{}", asked.path, query.join("&"))).unwrap();
            head.method = Method::from_bytes(asked.method.as_bytes()).unwrap();
            head.version = asked.version.0;
            fields.iter().for_each(|value| head.fields.push(b"x", value.as_bytes()));
            cookies.iter().for_each(|value| head.fields.push(b"cookie", format!("d=1; c={value}").as_bytes()));
            let expected = holds(&asked);
            held += usize::from(expected);
            let got = is_found(&table, sought(&head, asked.client, asked.port, asked.is_secure));
            assert_eq!(got, expected, "seed {seed}: {when}: {} {} {:?}", asked.method, asked.path, asked.values);
        }
    }
    assert!((10_000..50_000).contains(&held) && deep > 60, "{held} held, {deep} deep: the test has become blind");
}
