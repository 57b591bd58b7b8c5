//! Tables: which route a request takes, and what is said where there is none.

use wire::client_hello::ClientHello;
use wire::ja4::{Ja4, Over};

use super::{ask, check, compile};
use crate::geoip::Located;
use crate::route::{Arrival, RouteTable, Routed, Sought};

#[test]
fn static_beats_parameter_beats_catch_all_segment_by_segment() {
    check(
        &[
            "* * /",
            "* * /users",
            "* * /users/{id}",
            "* * /users/me",
            "* * /users/m{tail}",
            "* * /users/me-{tail}",
            "* * /users/{id}/files/{*rest}",
            "* * /users/me/settings",
            "* * /{*all}",
        ],
        &[
            ("GET h /", "* * / []"),
            ("GET h /users", "* * /users []"),
            ("GET h /users/", "* * /{*all} [users/]"),
            ("GET h /users/7", "* * /users/{id} [7]"),
            ("GET h /users/me", "* * /users/me []"),
            ("GET h /users/max", "* * /users/m{tail} [ax]"),
            ("GET h /users/me-too", "* * /users/me-{tail} [too]"),
            ("GET h /users/me-", "* * /users/m{tail} [e-]"),
            ("GET h /users/m", "* * /users/{id} [m]"),
            ("GET h /users/7/files/", "* * /users/{id}/files/{*rest} [7 ]"),
            ("GET h /users/7/files/a/b/", "* * /users/{id}/files/{*rest} [7 a/b/]"),
            ("GET h /users/7/files", "* * /{*all} [users/7/files]"),
            // The static child leads nowhere, so the search goes back to the parameter.
            ("GET h /users/me/files/x", "* * /users/{id}/files/{*rest} [me x]"),
            ("GET h /users/me/settings", "* * /users/me/settings []"),
            ("GET h /users/me/other", "* * /{*all} [users/me/other]"),
            ("GET h //", "400"),
            ("GET h //users", "400"),
            ("GET h /Users", "* * /{*all} [Users]"),
        ],
    );
}

#[test]
fn a_catch_all_needs_its_slash_and_parameters_are_not_empty() {
    check(
        &["* * /s/{*q}", "* * /a/{x}/b", "* * /p{x}", "* * /p{x}/c"],
        &[
            ("GET h /s", "404"),
            ("GET h /s/", "* * /s/{*q} []"),
            ("GET h /s//", "* * /s/{*q} [/]"),
            ("GET h /a//b", "404"),
            ("GET h /p", "404"),
            ("GET h /px", "* * /p{x} [x]"),
            ("GET h /p/c", "404"),
            ("GET h /px/c", "* * /p{x}/c [x]"),
        ],
    );
    check(
        &["* * /a/{x}/b +empty", "* * /a/{x} +empty", "* * /p{x}/c +empty", "* * /p{x}/{y}"],
        &[
            ("GET h /a//b", "* * /a/{x}/b +empty []"),
            ("GET h /a/", "404"),
            ("GET h /p/c", "* * /p{x}/c +empty []"),
            // Only the routes that ask for it take empty values.
            ("GET h /p/d", "404"),
        ],
    );
}

#[test]
fn the_host_chooses_exact_then_longest_wildcard_then_any() {
    let routes = [
        "* a.example.com /one",
        "* *.example.com /two",
        "* *.b.example.com /three",
        "* * /any",
        "* [::1] /six",
        "* c.test,*.c.test /both",
    ];
    check(
        &routes,
        &[
            ("GET a.example.com /one", "* a.example.com /one []"),
            ("GET a.example.com:8443 /one", "* a.example.com /one []"),
            ("GET a.example.com. /one", "* a.example.com /one []"),
            // Who names a host says all there is on it.
            ("GET a.example.com /two", "404"),
            ("GET a.example.com. /any", "404"),
            ("GET b.example.com /two", "* *.example.com /two []"),
            ("GET x.y.example.com /two", "* *.example.com /two []"),
            ("GET x.a.example.com /two", "* *.example.com /two []"),
            ("GET x.b.example.com /three", "* *.b.example.com /three []"),
            ("GET x.b.example.com /two", "404"),
            ("GET example.com /any", "* * /any []"),
            ("GET .example.com /any", "* * /any []"),
            ("GET other /any", "* * /any []"),
            ("GET [::1]:80 /six", "* [::1] /six []"),
            ("GET c.test /both", "* c.test,*.c.test /both []"),
            ("GET x.c.test /both", "* c.test,*.c.test /both []"),
        ],
    );
    // Far too long for a name: not walked label by label.
    let long = "a.".repeat(8000) + "example.com";
    assert_eq!(ask(&compile(&routes).unwrap(), "web", &format!("GET {long} /any")), "* * /any []");
}

#[test]
fn a_host_without_routes_is_unknown() {
    check(&["* a.test /"], &[("GET b.test /", "host 404"), ("GET a.test /x", "404")]);
    check(&["* a.test / +forbid"], &[("GET b.test /", "host 403"), ("GET a.test /x", "404")]);
    assert_eq!(ask(&compile(&["* * /"]).unwrap(), "no such listener", "GET a.test /"), "host 404");
}

#[test]
fn listeners_see_their_own_routes() {
    let table = compile(&["* a.test /x @api", "* * /x", "* b.test /y @web", "* b.test /y", "* * /z @admin"]).unwrap();
    let cases = [
        ("api", "GET a.test /x", "* a.test /x @api []"),
        // On `web` nothing names the host, so the routes for any host hold.
        ("web", "GET a.test /x", "* * /x []"),
        ("web", "GET b.test /y", "* b.test /y @web []"),
        ("api", "GET b.test /y", "* b.test /y []"),
        ("web", "GET c.test /z", "404"),
    ];
    for (listener, request, response) in cases {
        assert_eq!(ask(&table, listener, request), response, "{listener} {request}");
    }
}

#[test]
fn fields_and_methods_decide_among_routes_with_one_pattern() {
    check(
        &[
            "* * /v",
            "GET * /v",
            "* * /v x-version=1",
            "* * /v x-version=2",
            "* * /v x-version=2 x-canary=yes",
            "GET,POST * /w",
            "HEAD * /w",
            "PURGE * /w",
            "SPELL * /s",
        ],
        &[
            ("GET h /v", "GET * /v []"),
            ("HEAD h /v", "GET * /v []"),
            ("PUT h /v", "* * /v []"),
            ("GET h /v x-version=1", "* * /v x-version=1 []"),
            ("GET h /v X-Version=2", "* * /v x-version=2 []"),
            ("GET h /v x-version=3", "GET * /v []"),
            ("GET h /v x-version=2 x-canary=yes", "* * /v x-version=2 x-canary=yes []"),
            ("GET h /v x-version=9 x-version=1", "* * /v x-version=1 []"),
            ("GET h /w", "GET,POST * /w []"),
            ("HEAD h /w", "HEAD * /w []"),
            ("PURGE h /w", "PURGE * /w []"),
            ("DELETE h /w", "405 GET, HEAD, POST, PURGE"),
            ("spell h /w", "400"),
            ("Spell h /v", "400"),
            ("SPELLS h /w", "405 GET, HEAD, POST, PURGE"),
            ("spells h /v", "* * /v []"),
            ("SPELL h /s", "SPELL * /s []"),
            ("OPTIONS h /w", "405 GET, HEAD, POST, PURGE"),
        ],
    );
}

#[test]
fn another_method_is_found_under_a_less_specific_pattern() {
    check(
        &["GET * /users/me", "GET,PUT * /users/{id}", "DELETE * /{*all}", "GET * /f x=1"],
        &[
            ("GET h /users/me", "GET * /users/me []"),
            ("HEAD h /users/me", "GET * /users/me []"),
            ("PUT h /users/me", "GET,PUT * /users/{id} [me]"),
            ("DELETE h /users/me", "DELETE * /{*all} [users/me]"),
            ("PATCH h /users/me", "405 DELETE, GET, HEAD, PUT"),
            // The field is missing, so that route is no reason to name its method.
            ("GET h /f", "405 DELETE"),
        ],
    );
}

#[test]
fn native_routes_have_no_conveniences() {
    check(
        &["GET * /Users/{id}", "GET * /s/{*rest}"],
        &[
            ("GET h /users/7", "404"),
            ("GET h /Users/7/", "404"),
            ("GET h //Users/7", "404"),
            ("GET h /s", "404"),
            ("OPTIONS h /Users/7", "405 GET, HEAD"),
            ("OPTIONS h *", "200 GET, HEAD, OPTIONS"),
        ],
    );
}

#[test]
fn lenient_routes_redirect_to_what_would_match() {
    check(
        &[
            "GET,POST * /Users/:all/{id} +redirect +options +head",
            "GET * /dir/ +redirect +options +head",
            "GET * /s/{*rest} +redirect +options +head",
            "GET * /p-{x}/End +redirect +options +head",
            "GET * /native",
        ],
        &[
            ("GET h /dir?q=1", "301 /dir/?q=1"),
            ("GET h /s", "301 /s/"),
            ("GET h /Users/:all/7/", "301 /Users/:all/7"),
            ("POST h /Users/:all/7/?a=b", "307 /Users/:all/7?a=b"),
            ("GET h /uSERS/:ALL/Seven", "301 /Users/:all/Seven"),
            ("GET h /users/:all/Seven/", "301 /Users/:all/Seven"),
            ("GET h /users//:all///7", "301 /Users/:all/7"),
            ("GET h /P-Q/end", "301 /p-Q/End"),
            ("GET h //dir", "301 /dir/"),
            ("GET h /S/A//b", "301 /s/A/b"),
            ("GET h /Native", "404"),
            ("GET h /native/", "404"),
            ("CONNECT h /dir", "404"),
            ("CONNECT h /dir/", "405 GET, OPTIONS"),
            ("POST h /dir/", "405 GET, OPTIONS"),
            ("HEAD h /dir/", "405 GET, OPTIONS"),
            // No redirect for a method that would not match there either.
            ("POST h /dir", "404"),
            ("OPTIONS h /dir/", "200 GET, OPTIONS"),
            ("OPTIONS h /Users/:all/7", "200 GET, OPTIONS, POST"),
            ("OPTIONS h /none", "404"),
            ("OPTIONS h *", "200 GET, HEAD, OPTIONS, POST"),
            ("GET h *", "405 GET, HEAD, OPTIONS, POST"),
        ],
    );
    check(&["GET * /a/ +redirect"], &[("GET h /", "404"), ("GET h /b", "404")]);
}

#[test]
fn a_redirect_never_names_another_host() {
    let routes = [
        "GET * /{a}/{b}/ +redirect +empty",
        "GET * /{a}/{b}/{c} +redirect +empty",
        "GET * /{a}/x/{*rest} +redirect +empty",
        "GET * /evil.test/ +redirect",
    ];
    let table = compile(&routes).unwrap();
    for request in [
        "GET h //evil.test",
        "GET h //evil.test/",
        "GET h ///evil.test",
        "GET h //evil.test/x",
        "GET h //evil.test//",
        "GET h //Evil.test//X//",
        "GET h //x",
    ] {
        let response = ask(&table, "web", request);
        let location = response.strip_prefix("301 ");
        assert!(location.is_none_or(|to| to.starts_with('/') && !to.starts_with("//")), "{request}: {response}");
    }
    assert_eq!(ask(&table, "web", "GET h //evil.test"), "301 /evil.test/");
}

#[test]
fn an_encoded_slash_needs_a_route_that_wants_it() {
    check(
        &["* * /pkg/{name} %2F", "* * /plain/{name}", "GET * /only", "GET * /dir/ +redirect"],
        &[
            ("GET h /pkg/@scope%2fname", "* * /pkg/{name} %2F [@scope%2Fname]"),
            ("GET h /plain/a%2Fb", "400"),
            ("GET h /none/a%2Fb", "400"),
            ("POST h /only%2F", "400"),
            ("GET h /Dir%2F", "400"),
            ("GET h /pkg%2Fa", "400"),
        ],
    );
}

#[test]
fn path_tricks_are_rejected_or_mean_one_thing() {
    check(
        &["* * /admin", "* * /pub/{*rest}"],
        &[
            ("GET h /pub/../admin", "rejected"),
            ("GET h /pub/%2e%2e/admin", "rejected"),
            ("GET h /pub/..;/admin", "rejected"),
            ("GET h /pub/.%2e;x/admin", "rejected"),
            ("GET h /pub/..%2fadmin", "rejected"),
            ("GET h /pub\\..\\admin", "rejected"),
            ("GET h /pub/%5c", "rejected"),
            ("GET h /admin%00", "rejected"),
            ("GET h /%c0%afadmin", "rejected"),
            ("GET h /admin%", "rejected"),
            ("GET h /%61dmin", "* * /admin []"),
            ("GET h /%2561dmin", "rejected"),
            ("GET h //admin", "404"),
            ("GET h /admin;x", "404"),
            ("GET h /admin/", "404"),
            ("GET h /ADMIN", "404"),
            ("GET h /pub/%252e%252e/admin", "rejected"),
        ],
    );
}

#[test]
fn conflicts_are_reported_together_with_both_places() {
    let mut routes = [
        super::route("GET a.test,b.test /users/{id}"),
        super::route("GET,POST a.test,b.test /users/{name}"),
        super::route("* c.test /x h=1"),
        super::route("* c.test /x g=1"),
        super::route("* d.test /{*a}"),
        super::route("* d.test /{*b}"),
        super::route("* d.test /{*b} @web"),
    ];
    for (line, route) in routes.iter_mut().enumerate() {
        route.place = format!("t.yaml:{}", line + 1);
    }
    let problems = super::RouteTable::compile_routes(&["web", "api"], &routes).unwrap_err();
    assert_eq!(problems.len(), 3, "{problems:#?}");
    for (first, second, host) in [(1, 2, "a.test"), (3, 4, "c.test"), (5, 6, "d.test")] {
        let found = problems.iter().any(|problem| {
            problem.starts_with(&format!("t.yaml:{second}: route "))
                && problem.contains(&format!("at t.yaml:{first})"))
                && (problem.contains(host) || host == "a.test" && problem.contains("b.test"))
        });
        assert!(found, "{first} and {second} in {problems:#?}");
    }
}

#[test]
fn what_only_looks_like_a_conflict_is_none() {
    for routes in [
        &["GET * /x", "POST * /x"][..],
        &["GET * /x", "HEAD * /x"],
        &["GET * /x", "* * /x"],
        &["* * /x h=1", "* * /x h=2"],
        &["* * /x h=1", "* * /x"],
        &["* * /x @web", "* * /x"],
        &["* * /x @web", "* * /x @api"],
        &["* a.test /x", "* *.test /x", "* * /x"],
        &["* * /u/new", "* * /u/{id}", "* * /u/n{x}", "* * /u/{*rest}"],
        &["* a.test,a.test /x"],
        &["* * /x", "* * /x/"],
    ] {
        assert!(compile(routes).is_ok(), "{routes:?}");
    }
    for routes in [&["* * /x", "* * /x"][..], &["GET * /x", "GET,PUT * /x"], &["PURGE * /x", "PURGE * /x"]] {
        assert_eq!(compile(routes).unwrap_err().len(), 1, "{routes:?}");
    }
}

#[test]
fn patterns_that_cannot_work_are_reported() {
    let many = "/{x}".repeat(17);
    let deep = "/x".repeat(65);
    for (path, expected) in [
        (many.as_str(), "17 parameters, 16 is the most"),
        (deep.as_str(), "65 segments, 64 is the most"),
        ("/{*a}/b", "a catch-all must be the last part"),
    ] {
        let problems = compile(&[&format!("* * {path}")]).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{problems:?}");
    }
    assert!(compile(&[&format!("* * {}", "/{x}".repeat(16))]).is_ok());
    assert!(compile(&[&format!("* * {}", "/x".repeat(64))]).is_ok());
}

#[test]
fn expressions_stand_between_literal_text_and_parameters() {
    check(
        &[
            "* * /{*all}",
            "* * /admin/{*rest}",
            "* * /admin/exact.php",
            "* * ~/.*\\.php",
            "* * ~/admin/[a-z]+\\.php",
            "* * ~/v(?<n>[0-9]+)/([^.]*)",
            "* * /{a}/{b}",
            "* * /v{n}/x",
        ],
        &[
            ("GET h /x.php", "* * ~/.*\\.php []"),
            ("GET h /a/b/x.php", "* * ~/.*\\.php []"),
            ("GET h /a/b", "* * /{a}/{b} [a b]"),
            // What is literal at the first segment goes first, whatever follows.
            ("GET h /admin/1.php", "* * /admin/{*rest} [1.php]"),
            ("GET h /admin/a.php", "* * ~/admin/[a-z]+\\.php []"),
            ("GET h /admin/exact.php", "* * /admin/exact.php []"),
            ("GET h /v12/x", "* * ~/v(?<n>[0-9]+)/([^.]*) [12 x]"),
            ("GET h /va/x", "* * /v{n}/x [a]"),
            ("GET h /v1/", "* * ~/v(?<n>[0-9]+)/([^.]*) [1 ]"),
            // A server that merges slashes would read it as another expression's.
            ("GET h //admin/a.php", "400"),
            ("GET h //x.php", "* * ~/.*\\.php []"),
        ],
    );
}

#[test]
fn an_expression_within_another_goes_before_it() {
    check(
        &["* * ~/.*", "GET * ~/a/[0-9]+", "* * ~/a/.*", "* * ~/a/[0-9]{2}"],
        &[
            ("GET h /a/12", "* * ~/a/[0-9]{2} []"),
            ("GET h /a/123", "GET * ~/a/[0-9]+ []"),
            ("POST h /a/123", "* * ~/a/.* []"),
            ("GET h /a", "* * ~/.* []"),
        ],
    );
    let problems = compile(&["* * ~/a.*", "* * ~/.*z"]).unwrap_err();
    assert!(problems[0].contains("match the same requests on any host, for example `/az`"), "{problems:?}");
    assert!(problems[0].contains("have one leave the paths of the other out (`except`)"), "{problems:?}");
    assert!(compile(&["GET * ~/a.*", "POST * ~/.*z"]).is_ok());
    assert!(compile(&["* * ~/a.* x=1", "* * ~/.*z x=2"]).is_ok());
    assert!(compile(&["* * ~/a.* x=1", "* * ~/.*z"]).is_err());
}

#[test]
fn more_and_more_exact_conditions_go_first() {
    check(
        &["* * /", "* * / x?", "* * / x^=1", "* * / x^=12", "* * / x~=[34]", "* * / x=12", "* * / x=1 y=1"],
        &[
            ("GET h /", "* * / []"),
            ("GET h / x=", "* * / x? []"),
            ("GET h / x=5", "* * / x? []"),
            ("GET h / x=13", "* * / x^=1 []"),
            ("GET h / x=123", "* * / x^=12 []"),
            ("GET h / x=4", "* * / x~=[34] []"),
            ("GET h / x=34", "* * / x? []"),
            ("GET h / x=12", "* * / x=12 []"),
            ("GET h / x=1 y=1", "* * / x=1 y=1 []"),
            // A field that comes twice suits by either value; the more exact one wins.
            ("GET h / x=5 x=12", "* * / x=12 []"),
        ],
    );
    for (one, other) in [
        ("x?", "y?"),
        ("x!", "y!"),
        ("x^=1", "x^=1"),
        ("x~=1.*", "x~=.*2"),
        ("x=1", "y=1"),
        ("x=1|=2", "x=2|=3"),
        ("x~=[12]", "x~=[23]"),
    ] {
        let routes = [format!("* * / {one}"), format!("* * / {other}")];
        assert!(compile(&[&routes[0], &routes[1]]).is_err(), "{one} {other}");
    }
    for (one, other) in
        [("x!", "x=1"), ("x^=1", "x^=2"), ("x~=[12]", "x~=[34]"), ("x=1|=2", "x=3|=4"), ("x~=a.*", "x^=b")]
    {
        let routes = [format!("* * / {one}"), format!("* * / {other}")];
        assert!(compile(&[&routes[0], &routes[1]]).is_ok(), "{one} {other}");
    }
}

#[test]
fn conditions_on_query_cookies_and_the_client() {
    use config::*;
    let base = super::route("* * /");
    let value = |of, name: &str, any| {
        Conditions(vec![Condition::Value(ValueCondition { of, name: name.to_string(), any: vec![any] })])
    };
    let exact = |text: &str| ValueMatch::Exact(text.to_string());
    // No digest, but one that is always the same.
    let hello = ClientHello { versions: vec![0x0304], extensions: vec![43], ..ClientHello::default() };
    let fingerprint = Ja4::of(&hello, Over::Tcp, |_| [0x1b; 32]);
    assert_eq!(fingerprint.as_str(), "t13i000100_000000000000_1b1b1b1b1b1b");
    let fingerprint = Some(Box::new(fingerprint));
    let tls = tls::Info { server_name: Some("a.b.example".into()), fingerprint, ..info() };
    let ja4 = |text: &str| Conditions(vec![Condition::Ja4(vec![Ja4Pattern { text: text.to_string() }])]);
    let networks = |text: &str| Conditions(vec![Condition::Client(vec![text.parse().unwrap()])]);
    let names = |text| Conditions(vec![Condition::ServerName(vec![HostPattern::of_text(text)])]);
    let sans = |text: &str| Conditions(vec![Condition::Certificate(vec![text.to_string()])]);
    for (when, target, suits) in [
        (value(ValueOf::Query, "a", exact("x y")), "/?b=1&a=x+y", true),
        (value(ValueOf::Query, "a", exact("x y")), "/?%61=x%20y", true),
        (value(ValueOf::Query, "a", exact("x")), "/?a=1&a=x", true),
        (value(ValueOf::Query, "a", exact("x")), "/?ab=x", false),
        (value(ValueOf::Query, "a", ValueMatch::Present), "/?a", true),
        (value(ValueOf::Query, "a", ValueMatch::Present), "/", false),
        (value(ValueOf::Query, "a", ValueMatch::Absent), "/?", true),
        (value(ValueOf::Query, "a", exact("%")), "/?a=%", true),
        (value(ValueOf::Cookie, "plan", exact("pro")), "/", true),
        (value(ValueOf::Cookie, "Plan", exact("pro")), "/", false),
        (value(ValueOf::Cookie, "plan", ValueMatch::Absent), "/", false),
        (networks("192.0.2.0/24"), "/", true),
        (networks("192.0.3.0/24"), "/", false),
        (names("*.example"), "/", true),
        (names("a.b.example"), "/", true),
        (names("*.a.b.example"), "/", false),
        (sans("DNS:*.corp"), "/", true),
        (sans("DNS:x.y.CORP"), "/", true),
        (sans("DNS:*.y.corp.z"), "/", false),
        (sans("URI:spiffe://corp/*"), "/", true),
        (sans("URI:spiffe://corp/"), "/", false),
        (ja4("t13i000100_000000000000_1b1b1b1b1b1b"), "/", true),
        (ja4("t13i000100_000000000000_1b1b1b1b1b1c"), "/", false),
        (ja4("t13i000100_*_1b1b1b1b1b1b"), "/", true),
        (ja4("*_000000000000_*"), "/", true),
        (ja4("t13d000100_*_*"), "/", false),
    ] {
        let route = RouteConfig { when: when.clone(), ..base.clone() };
        let table = RouteTable::compile_routes(&["web"], &[route]).unwrap();
        let head = super::head(&format!("GET h {target} cookie=a=b;plan=pro")).unwrap();
        let client = Some("::ffff:192.0.2.7".parse().unwrap());
        let located = Located::default();
        let arrival = Arrival::default();
        let sought = Sought { head: &head, client, tls: Some(&tls), subject: None, located, arrival };
        assert_eq!(matches!(table.find("web", sought), Routed::Found(..)), suits, "{when:?} {target}");
        // From nobody, in the clear: what is said of client and TLS does not hold.
        let is_found = matches!(table.find("web", &head), Routed::Found(..));
        assert_eq!(is_found, suits && when.values().next().is_some(), "{when:?} {target}");
    }
}

fn info() -> tls::Info {
    let certificate = tls::PeerCertificate {
        der: Vec::new(),
        subject: String::new(),
        issuer: String::new(),
        serial: String::new(),
        fingerprint: String::new(),
        dns_names: vec!["X.y.corp".to_string()],
        uris: vec!["spiffe://corp/a".to_string()],
        emails: Vec::new(),
        addresses: Vec::new(),
    };
    tls::Info {
        version: tls::ProtocolVersion::Tls13,
        cipher: "",
        group: None,
        server_name: None,
        alpn: None,
        key_type: None,
        key_algorithm: None,
        signature_algorithm: None,
        resumed: false,
        ech: false,
        peer: Some(Box::new(certificate)),
        fingerprint: None,
    }
}
