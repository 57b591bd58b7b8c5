//! Groups of routes in order: tables, and comparisons with a matcher that tries one route after the other.

use config::RouteConfig;
use fastrand::Rng;
use wire::http::{Method, RequestHead};

use super::differential::{implies_head, is_as_wanted, match_path, names_method};
use super::readings::{servers, serves};
use super::{ask, check, compile, head, route};
use crate::route::{RouteTable, Routed, Standing};

#[test]
fn the_first_that_fits_is_taken_however_specific_it_is() {
    check(
        &[
            "* * /private/{*rest} x=1 #1",
            "GET,HEAD * ^/static #1",
            "* * /private/open #1",
            "* * ~/.*\\.php #1",
            "POST * /only #1",
            "* * ~~/(.+)_(.+) #1",
            "* * ^/static/deep/er #1",
            "* * /{one}/{two} #1",
            "* * ^/ #1",
            "* * /never #1",
        ],
        &[
            ("GET h /private/open x=1", "* * /private/{*rest} x=1 #1 [open]"),
            ("GET h /private/open", "* * /private/open #1 []"),
            ("GET h /static", "GET,HEAD * ^/static #1 []"),
            ("HEAD h /staticky/a.php", "GET,HEAD * ^/static #1 [ky/a.php]"),
            ("GET h /static/deep/er", "GET,HEAD * ^/static #1 [/deep/er]"),
            ("POST h /static/deep/erx", "* * ^/static/deep/er #1 [x]"),
            ("POST h /static/deep/erx.php", "* * ~/.*\\.php #1 []"),
            ("GET h /a%20b%3Ac%20d", "* * ~~/(.+)_(.+) #1 [a%20b%3Ac d]"),
            ("POST h /only", "POST * /only #1 []"),
            ("GET h /only", "* * ^/ #1 [only]"),
            ("GET h /a/b", "* * /{one}/{two} #1 [a b]"),
            ("GET h /never", "* * ^/ #1 [never]"),
            ("GET h /", "* * ^/ #1 []"),
        ],
    );
}

#[test]
fn a_method_that_no_route_in_order_serves_is_not_allowed() {
    let routes = ["GET * ^/a #1", "PUT * /a/b #1", "POST * /a/b x=1 #1", "DELETE * /c #1"];
    check(
        &routes,
        &[
            ("HEAD h /a/b", "GET * ^/a #1 [/b]"),
            ("DELETE h /a/b", "405 GET, HEAD, PUT"),
            ("DELETE h /a/b x=1", "405 GET, HEAD, POST, PUT"),
            ("GET h /c", "405 DELETE"),
            ("GET h /d", "404"),
            ("OPTIONS h *", "200 DELETE, GET, HEAD, OPTIONS, POST, PUT"),
        ],
    );
}

#[test]
fn a_host_on_a_listener_has_a_group_or_other_routes() {
    let rejected = |routes: &[&str], parts: &[&str]| {
        let problems = compile(routes).unwrap_err();
        assert!(problems.len() == 1 && parts.iter().all(|part| problems[0].contains(part)), "{problems:?}");
    };
    let mixed = "h has routes in order, and others; put all routes of the host into the group";
    rejected(
        &["* h,i ^/a #1", "* h /b"],
        &["route `* h /b` (/b)", "route `* h,i ^/a #1` (^/a, at test.yaml:1)", mixed],
    );
    rejected(&["* * /b @web", "* * ^/a #1 @web", "* * /c #1 @web"], &["any host has routes in order, and others"]);
    rejected(&["* h ^/a #1 @api", "* h /b #2"], &["h has another group of routes in order; put the routes of both"]);
    // Neither another host nor another listener is the same.
    let table = compile(&["* h /{*rest} #1 @web", "* h /b @api", "* * /b", "* *.h /c", "* x ^/ #2"]).unwrap();
    for (listener, request, expected) in [
        ("web", "GET h /b", "* h /{*rest} #1 @web [b]"),
        ("api", "GET h /b", "* h /b @api []"),
        ("web", "GET i /b", "* * /b []"),
        ("web", "GET a.h /b", "404"),
        ("api", "GET x /b", "* x ^/ #2 [b]"),
    ] {
        assert_eq!(ask(&table, listener, request), expected, "{listener} {request}");
    }
}

#[test]
fn a_path_that_decoding_would_bring_to_another_route_in_order_is_rejected() {
    let routes = [
        "* * /v1/items:delete #1",
        "* * ^/a+b #1",
        "* * /private/{*rest} #1",
        "* * ~~/caf\u{e9}:x.* #1",
        "* * /raw/{*x} #1 ;",
        "* * /pkg/{name} #1 %2F",
        "* * /{*rest} #1 %2F",
    ];
    let last = |rest: &str| format!("* * /{{*rest}} #1 %2F [{rest}]");
    let passes = |path: &str| (path.to_owned(), last(&path[1..]));
    let rejected = |path: &str| (path.to_owned(), "400".to_owned());
    let mut rows = vec![
        passes("/x%3Ay"),
        passes("/x//y;z"),
        passes("/x%2Fy"),
        passes("/caf%C3%A9"),
        ("/v1/items:delete".to_owned(), "* * /v1/items:delete #1 []".to_owned()),
        ("/a+b:c/d%3Ae".to_owned(), "* * ^/a+b #1 [:c/d%3Ae]".to_owned()),
        ("/private/;a//b%3Ac".to_owned(), "* * /private/{*rest} #1 [;a//b%3Ac]".to_owned()),
        ("/caf%C3%A9:xy".to_owned(), "* * ~~/caf\u{e9}:x.* #1 []".to_owned()),
        ("/raw/;/..a//%3A".to_owned(), "* * /raw/{*x} #1 ; [;/..a//%3A]".to_owned()),
    ];
    rows.extend(
        [
            "/v1/items%3Adelete",
            "/v1/items%3adelete",
            "/v1/items%253adelete",
            "//v1/items:delete",
            "/v1//items:delete",
            "/v1;p/items:delete",
            "/v1/items:delete;p",
            "/v1%2Fitems:delete",
            "/v1/items:delete%3Fx",
            "/v1/items:delete%23",
            "/a%2Bb",
            "/a%2bbc/d",
            "/a%252Bb",
            "//private/x",
            "/private;p/x",
            "/private%3B/x",
            "/private%2Fx",
            "/private%252fx",
            "/x/..%3B/private/y",
            "/caf%C3%A9%3Axy",
            "/caf%C3%A9%253axy",
            // Its reading is of no less specific a route, but of another one.
            "/pkg/a%2Fb",
            "/pkg//a",
        ]
        .map(rejected),
    );
    let rows: Vec<(String, String)> = rows
        .into_iter()
        .map(|(path, said)| (format!("GET h {path}"), said))
        .filter(|(request, _)| head(request).is_some())
        .collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(request, said)| (&**request, &**said)).collect();
    check(&routes, &rows);
}

#[test]
fn comparing_readings_with_expressions_is_bounded() {
    let mut texts: Vec<String> = (0..256).map(|number| format!("* * ~/.*x{number} #1")).collect();
    texts.push("* * /{*rest} #1".to_owned());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let table = compile(&texts).unwrap();
    let is_found = |path: &str| match table.find("web", &head(&format!("GET h {path}")).unwrap()) {
        Routed::Found(..) => true,
        Routed::AmbiguousPath => false,
        other => panic!("{path}: {other:?}"),
    };
    let long = "a".repeat(8000);
    assert!(is_found("/a;b//c%3Ad") && is_found(&format!("/{long}")) && is_found(&format!("/%3A{long}")));
    assert!(!is_found(&format!("/;a//b%3Bc%253Ad{long}")));
}

/// Ones that are taken are shown as such, those before them with what they lack, those behind them as such.
#[test]
fn contenders_stand_in_order() {
    let mut texts: Vec<String> = (0..120).map(|number| format!("* * ^/a x={number} #1")).collect();
    texts.extend(["* * /a #1", "PUT * /{*rest} #1", "* * ^/ #1", "* * /b #1"].map(str::to_owned));
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let few: Vec<&str> = texts[118..].to_vec();
    let standings = |texts: &[&str], request: &str| -> Vec<(String, Standing)> {
        let (table, head) = (compile(texts).unwrap(), head(request).unwrap());
        let contenders = table.contenders("web", &(&head).into()).into_iter();
        contenders.map(|one| (one.route.config.name.clone(), one.standing)).collect()
    };
    let lacks = |number: u32| Standing::Condition(format!("header `x` is not `{number}`"));
    let expected = [
        ("* * ^/a x=118 #1", lacks(118)),
        ("* * ^/a x=119 #1", lacks(119)),
        ("* * /a #1", Standing::Taken),
        ("PUT * /{*rest} #1", Standing::Method),
        ("* * ^/ #1", Standing::Later),
    ];
    assert_eq!(standings(&few, "GET h /a"), expected.map(|(name, standing)| (name.to_owned(), standing)));
    let many = standings(&texts, "GET h /a");
    assert!(many.len() == 100 && many[99] == ("* * /a #1".to_owned(), Standing::Taken), "{many:?}");
}

#[test]
fn a_route_that_is_never_taken_is_named() {
    let never = |first: &str, second: &str| {
        let texts = [format!("{first} #1"), "PUT * /else x? #1".to_owned(), format!("{second} #1")];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let said = compile(&texts).unwrap().unreachable();
        said.iter().any(|text| text.contains(&format!("route `{second} #1`")))
    };
    for (first, second) in [
        ("* * /{*rest}", "* * /"),
        ("* * /{*rest}", "* * ^/a"),
        ("* * /{*rest}", "* * ~/a.*"),
        ("* * /a/{*rest}", "* * ^/a/b"),
        ("* * /a/{*rest}", "* * ~/a/b.*"),
        ("* * /{x}/{*rest}", "* * /a/b/c"),
        ("* * /{x}/b", "* * /a/b"),
        ("* * /p{x}", "* * /pa{y}"),
        ("* * ^/static", "* * /static/a"),
        ("* * ^/static", "* * /static{x}/y"),
        ("* * ^/static", "* * ^/static-too"),
        ("* * ^/static", "GET * /staticky x=1"),
        ("* * ^/a/b", "* * ~/a/bc[0-9]"),
        ("* * /same", "GET * /same"),
        ("* * ~/a[0-9]*", "* * /a17"),
        ("* * ~/a[0-9]*", "* * ~/a[0-4]*"),
        ("* * ~~/a_b", "* * /a%20b"),
        ("GET,PUT * /a", "PUT * /a"),
        ("GET * /a", "HEAD * /a"),
        ("* * /{*rest} x=1", "* * /a x=1"),
    ] {
        assert!(never(first, second), "{first} {second}");
    }
    for (first, second) in [
        ("* * /a/{*rest}", "* * ^/a"),
        ("* * /a/{*rest}", "* * /a"),
        ("* * /{x}", "* * ^/a"),
        ("* * /{x}", "* * /"),
        ("* * /p{x}", "* * /p"),
        ("* * /p{x}", "* * /{x}"),
        ("* * /{x}", "* * /a/b"),
        ("* * /{x}/{*rest}", "* * /a"),
        ("* * ^/static/", "* * /static"),
        ("* * ^/static", "* * ~/s.*"),
        ("* * ^/static", "* * /stat{x}"),
        ("* * ~/a[0-9]*", "* * ^/a"),
        ("* * ~/a[0-9]*", "* * ~~/a[0-4]*"),
        ("GET * /a", "* * /a"),
        ("GET,PUT * /a", "GET,POST * /a"),
        ("* * /{*rest} x=1", "* * /a"),
        ("* * /{*rest} x=1", "* * /a x=2"),
    ] {
        assert!(!never(first, second), "{first} {second}");
    }
    // Several paths of one route do not stand in each other's way, and other groups do not either.
    let twice = |name: &str, text: &str| RouteConfig { name: name.to_owned(), ..route(text) };
    let routes = [twice("a", "* h ^/ #1"), twice("a", "* h /b #1"), twice("c", "* i /b #2"), twice("d", "* k /b")];
    assert_eq!(RouteTable::compile_routes(&["web"], &routes).unwrap().unreachable(), [""; 0]);
}

const PATHS: [&str; 17] = [
    "/{*rest}",
    "/a/{*rest}",
    "/{x}",
    "/a/{x}",
    "/{x}/b",
    "/a",
    "/a/b",
    "/a{x}/b",
    "^/",
    "^/a",
    "^/a/",
    "^/ab",
    "^/a/b/c",
    "~/a(b|bc)",
    "~/.*/b",
    "~/a/[abc]+",
    "~~/a/b.*",
];

fn random_group(random: &mut Rng) -> Vec<RouteConfig> {
    let one = |random: &mut Rng| {
        let methods = random.choice(["*", "*", "*", "GET", "GET,POST", "HEAD", "PUT,HEAD", "PURGE"]).unwrap();
        let path = random.choice(PATHS).unwrap();
        let extra = random.choice(["", "", "", " x=1", " x=2", " x?", " x!", " x^=1 y=1"]).unwrap();
        // What is done about paths that can be read in two ways is tried by itself.
        route(&format!("{methods} * {path}{extra} #1 ;"))
    };
    (0..random.usize(1..30)).map(|_| one(random)).collect()
}

/// Whether the pattern takes a plain path.
fn fits(route: &RouteConfig, path: &str) -> bool {
    let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| b"abc".contains(&byte));
    match route.path.text.as_str() {
        "~/a(b|bc)" => matches!(path, "/ab" | "/abc"),
        "~/.*/b" => path.len() >= 3 && path.ends_with("/b"),
        "~/a/[abc]+" => path.strip_prefix("/a/").is_some_and(word),
        "~~/a/b.*" => path.starts_with("/a/b"),
        text => match text.strip_prefix('^') {
            Some(prefix) => path.starts_with(prefix),
            None => match_path(route, path).is_some(),
        },
    }
}

/// The number of the first route that fits; else whether one would for another method.
fn first(routes: &[RouteConfig], head: &RequestHead) -> Result<usize, bool> {
    let path = String::from_utf8(head.path().to_vec()).unwrap();
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    let sent = |name: &str| -> Vec<String> { head.fields.get_all(name).map(text).collect() };
    let holds = |route: &RouteConfig| route.when.values().all(|one| is_as_wanted(one, &sent(&one.name)));
    let serves =
        |route: &RouteConfig| names_method(route, &head.method) || head.method == Method::Head && implies_head(route);
    let open = |route: &RouteConfig| fits(route, &path) && holds(route);
    let found = routes.iter().position(|route| open(route) && serves(route));
    found.ok_or_else(|| routes.iter().any(open))
}

#[test]
fn the_table_agrees_with_trying_one_route_after_the_other() {
    let mut found = 0;
    for seed in 0..300 {
        let random = &mut Rng::with_seed(seed);
        let routes = random_group(random);
        let table = RouteTable::compile_routes(&["web"], &routes).unwrap();
        for _ in 0..200 {
            let method = random.choice(["GET", "GET", "HEAD", "POST", "PUT", "PURGE", "DELETE"]).unwrap();
            let path: String = (0..random.usize(1..5))
                .map(|_| random.choice(["/a", "/b", "/ab", "/abc", "/", "/c"]).unwrap())
                .collect();
            let fields = random.choice(["", "", " x=1", " x=2", " x=12 y=1", " y=1"]).unwrap();
            let head = head(&format!("{method} h {path}{fields}")).unwrap();
            let got = match table.find("web", &head) {
                Routed::Found(route, _) => Ok(route.index),
                Routed::MethodNotAllowed(_) => Err(true),
                Routed::NotFound => Err(false),
                other => panic!("{other:?}"),
            };
            found += usize::from(got.is_ok_and(|at| at > 0));
            assert_eq!(got, first(&routes, &head), "seed {seed}: {method} {path}{fields} {routes:?}");
        }
    }
    assert!(found > 20_000, "only {found} requests found a route: the test has become blind");
}

const ODD_PATHS: [&str; 15] = [
    "/a:b",
    "/a%3Ab",
    "/a%20b",
    "/{x}",
    "/a:b/{x}",
    "/@a/{*rest}",
    "/{x}/b",
    "^/a:b",
    "^/a+",
    "^/a%20",
    "^/",
    "^/a/b",
    "~/a[+:].*",
    "~~/a_b:.*",
    "~~/.*:b",
];

/// Each server that has the same routes in the same order, and decodes before it matches, takes the same one, or nothing is forwarded.
#[test]
fn servers_that_decode_first_take_the_same_route_in_order() {
    let random = &mut Rng::with_seed(37);
    let (mut passed, mut with_escapes, mut rejected) = (0, 0, 0);
    for _ in 0..3000 {
        let one = |random: &mut Rng| {
            let option = random.choice(["", "", " %2F"]).unwrap();
            let when = match random.u8(..4) {
                0 => format!(" &{}", random.choice(ODD_PATHS).unwrap()),
                1 => format!(" !{}", random.choice(ODD_PATHS).unwrap()),
                _ => String::new(),
            };
            format!("* * {}{when}{option} #1", random.choice(ODD_PATHS).unwrap())
        };
        let texts: Vec<String> = (0..random.usize(1..7)).map(|_| one(random)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let table = compile(&texts).unwrap();
        for _ in 0..30 {
            let piece = |random: &mut Rng| {
                random
                    .choice([
                        "a", "b", ":", "%3A", "%253a", "%20", "/", "/", "//", "%2F", ";", "%3B", "+", "%2B", "@",
                        "%40", "%3F",
                    ])
                    .unwrap()
            };
            let path: String = (0..random.usize(1..7)).map(|_| piece(random)).collect();
            let Some(head) = head(&format!("GET h /{path}")) else { continue };
            let own = match table.find("web", &head) {
                Routed::Found(route, _) => route,
                Routed::AmbiguousPath => {
                    rejected += 1;
                    continue;
                }
                _ => continue,
            };
            passed += 1;
            with_escapes += u32::from(head.path().contains(&b'%'));
            for reading in servers(head.path()) {
                let taken = table.routes().iter().find(|route| serves(&route.config, &reading));
                let shown = reading.escape_ascii();
                assert!(
                    taken.is_some_and(|taken| taken.is_same_route(own)),
                    "{path} is of {}, and as {shown} of {taken:?}: {texts:?}",
                    own.config.name
                );
            }
        }
    }
    assert!(passed > 10_000 && with_escapes > 5_000 && rejected > 2_000, "{passed} {with_escapes} {rejected}");
}
