//! SillyProxy's `routes.json`: the vectors of its documented behaviour, its departures (docs/sillyproxy.md), and every problem with its place.

use std::ffi::OsString;

use compat::{Front, sillyproxy};
use config::{self, Action, Config, ForwardTo, HostRewrite, Secret, ServerAddress};
use proxy::route::{RouteTable, Routed, Values, build_authority, build_target};
use wire::http::RequestHead;
use wire::http::head::HeadLimits;
use wire::http::http1::{Parsed, parse_request};

/// What the front door makes of a routes file and further arguments.
fn front(routes: &str, arguments: &[&str]) -> Front {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes.json");
    std::fs::write(&file, routes).unwrap();
    sillyproxy::run(&words(&file, arguments))
}

fn words(file: &std::path::Path, arguments: &[&str]) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["-keystore", "store.jks", "-keypass", "opensesame", "-routes"].map(OsString::from).into();
    words.push(file.into());
    words.extend(arguments.iter().map(OsString::from));
    words
}

/// The configuration, which must be made, and the warnings.
fn load(routes: &str, arguments: &[&str]) -> (Config, Vec<String>) {
    match front(routes, arguments) {
        Front::Run { config, warnings } => (*config, warnings),
        other => panic!("{other:?}"),
    }
}

/// The problems, which there must be, without the folder of the file.
fn problems(routes: &str) -> Vec<String> {
    match front(routes, &[]) {
        Front::Exit { code: 1, errors, .. } => {
            let short = |line: &str| line.split_once("/routes.json:").map_or(line, |(_, rest)| rest).to_string();
            errors.lines().map(short).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// One route: host `h.test`, method GET.
fn one(path: &str, route: &str) -> String {
    format!(
        r#"{{"Routes":[{{"Host":"h.test","MethodPathMaps":[{{"Method":"GET","Path":"{path}","Route":{route}}}]}}]}}"#
    )
}

/// A head from `METHOD host target`, read as from the wire; none if it is rejected there.
fn head(request: &str) -> Option<RequestHead> {
    let mut words = request.splitn(3, ' ');
    let (method, host, target) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let bytes = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let limits = HeadLimits { head_bytes: 1 << 16, request_line_bytes: 1 << 15, fields: 10 };
    let mut head = RequestHead::default();
    match parse_request(bytes.as_bytes(), &limits, &mut head) {
        Ok(Parsed::Complete { .. }) => Some(head),
        Ok(Parsed::Partial) => panic!("{request} is not whole"),
        Err(_) => None,
    }
}

/// The URL asked upstream, or what is answered instead.
fn ask(config: &Config, request: &str) -> String {
    let table = RouteTable::compile(config).unwrap();
    let Some(head) = head(request) else { return "400".to_string() };
    let (route, params) = match table.find("sillyproxy", &head) {
        Routed::Found(route, params) => (route, params),
        Routed::UnknownHost => return table.unknown_host_status().to_string(),
        Routed::NotFound => return "404".to_string(),
        Routed::MethodNotAllowed(allow) => return format!("405 {allow}"),
        Routed::Options(allow) => return format!("200 {allow}"),
        Routed::RedirectTo(status, location) => return format!("{status} {}", String::from_utf8(location).unwrap()),
        Routed::EncodedSlash | Routed::AmbiguousPath | Routed::MethodInOtherCase => return "400".to_string(),
    };
    let Action::Forward(forward) = &route.config.action else { panic!("not forwarded") };
    assert_eq!(forward.host, HostRewrite::Upstream);
    let mut url = Vec::new();
    match &forward.to {
        ForwardTo::Group(name) => {
            let group = &config.upstreams[name];
            let (scheme, default_port) = if group.tls.is_some() { ("https", 443) } else { ("http", 80) };
            let authority = match &group.servers[0].address {
                ServerAddress::Name(name, port) if *port == default_port => name.clone(),
                ServerAddress::Name(name, port) => format!("{name}:{port}"),
                ServerAddress::Ip(address) => address.to_string(),
                other => panic!("{other:?}"),
            };
            url.extend_from_slice(format!("{scheme}://{authority}").as_bytes());
        }
        ForwardTo::Split(_) => panic!("no file of routes holds one"),
        ForwardTo::Authority { tls, authority, allow, settings } => {
            assert_eq!(*tls, settings.tls.is_some());
            url.extend_from_slice(if *tls { b"https://" } else { b"http://" });
            if build_authority(authority, allow, &head, &params, &mut url).is_err() {
                return "400".to_string();
            }
        }
    }
    if build_target(forward, &head, || Values::of(&head, &params), &mut url).is_err() {
        return "400".to_string();
    }
    String::from_utf8(url).unwrap()
}

/// Asks each request of the table that `routes` makes.
fn check(routes: &str, arguments: &[&str], expected: &[(&str, &str)]) {
    let (config, _) = load(routes, arguments);
    for (request, response) in expected {
        assert_eq!(ask(&config, request), *response, "{request}");
    }
}

/// In the manner of SillyProxy's own sample: mixed case, commas after the last elements, a parameter in the host, unknown keys, and text after
/// the end.
const SAMPLE: &str = r#"{
    "routes": [
        {
            "Host": "Www.Shop.Example",
            "MethodPathMaps": [
                { "Method": "GET", "Path": "/API/:category/:item", "Route": ["http://stock.internal/", 1], },
                { "Method": "POST", "Path": "/API/orders", "Route": ["https://orders.internal:8443/v1/new"], "Note": {"any": [1, 2,],}, },
                { "METHOD": "GET", "path": "/wild/:domain/*end", "Route": ["https://www.", 0, "/.com/", 1], },
            ],
        },
        { "Host": "search.example", "MethodPathMaps": [
            { "Method": "GET", "Path": "/find/:words", "Route": ["https://engine.example/search?q=", 0], },
        ], },
    ],
    "Comment": "not read",
}
and this is not read at all"#;

#[test]
fn the_sample_loads_and_routes() {
    check(
        SAMPLE,
        &[],
        &[
            ("GET www.shop.example /wild/acme/x/y?k=1", "https://www.acme.com/x%2Fy?k=1"),
            ("GET WWW.SHOP.EXAMPLE:8443 /API/a/b%20c", "http://stock.internal/b%20c"),
            ("POST www.shop.example /API/orders?a=1", "https://orders.internal:8443/v1/new?a=1"),
            ("GET search.example /find/a%20b?page=2", "https://engine.example/search?q=a%20b&page=2"),
            ("GET other.example /", "403"),
            ("GET www.shop.example /none", "404"),
            ("POST search.example /find/x", "405 GET, OPTIONS"),
        ],
    );
}

#[test]
fn parameters_are_escaped_as_path_segments() {
    let routes = one("/p/:x/*rest", r#"["http://h/",0,"-",1]"#);
    check(
        &routes,
        &[],
        &[
            ("GET h.test /p/a/b", "http://h/a-b"),
            ("GET h.test /p/azAZ09-_.~/x", "http://h/azAZ09-_.~-x"),
            ("GET h.test /p/$&+=:@/x", "http://h/$&+=:@-x"),
            ("GET h.test /p/a;b,c!d'e(f)g*h/x", "http://h/a%3Bb%2Cc%21d%27e%28f%29g%2Ah-x"),
            ("GET h.test /p/%3f%23%25/x", "http://h/%3F%23%25-x"),
            ("GET h.test /p/%c3%bc/x", "http://h/%C3%BC-x"),
            ("GET h.test /p/a/", "http://h/a-"),
            ("GET h.test /p/a/b/c/", "http://h/a-b%2Fc%2F"),
            ("GET h.test /p/a//b", "http://h/a-%2Fb"),
            ("GET h.test /p//b", "http://h/-b"),
            // An encoded slash would be a slash to SillyProxy; here it is rejected, as everywhere.
            ("GET h.test /p/a%2Fb/c", "400"),
            ("GET h.test /p/a/../b", "400"),
        ],
    );
}

#[test]
fn strings_lose_one_leading_slash_and_nothing_else() {
    for (route, expected) in [
        (r#"["http://h/",0]"#, "http://h/v"),
        (r#"["http://h",  "/a/", 0]"#, "http://ha/v"),
        (r#"["http://h/", "//a/", 0, "/b"]"#, "http://h//a/vb"),
        (r#"["/http://h/a"]"#, "http://h/a"),
        (r#"["http://h"]"#, "http://h/"),
        (r#"["HTTP://H.Test:80?a=b"]"#, "http://h.test/?a=b"),
        (r#"["http://h/a b\"<ü>%41%2f"]"#, "http://h/a%20b%22%3C%C3%BC%3EA%2F"),
        (r#"["http://h/x#frag"]"#, "http://h/x"),
        (r#"["http://h/x", 0.9]"#, "http://h/xv"),
        (r#"["http://[::1]:81/x"]"#, "http://[::1]:81/x"),
        (r#"["https://192.0.2.1/x"]"#, "https://192.0.2.1:443/x"),
        (r#"["https://bücher.example/"]"#, "https://xn--bcher-kva.example/"),
    ] {
        check(&one("/x/:v", route), &[], &[("GET h.test /x/v", expected)]);
    }
}

#[test]
fn the_query_is_appended_once() {
    let routes = one("/q/:v", r#"["http://h/s?q=",0,"&r=1"]"#);
    check(
        &routes,
        &[],
        &[
            ("GET h.test /q/a", "http://h/s?q=a&r=1"),
            ("GET h.test /q/a?y=1", "http://h/s?q=a&r=1&y=1"),
            // In a query a parameter is a value: it cannot bring further pairs.
            ("GET h.test /q/a&b=c+d", "http://h/s?q=a%26b%3Dc%2Bd&r=1"),
        ],
    );
    check(
        &one("/q", r#"["http://h/s"]"#),
        &[],
        &[("GET h.test /q?y=1&y=2", "http://h/s?y=1&y=2"), ("GET h.test /q?", "http://h/s?")],
    );
}

#[test]
fn a_parameter_in_the_host_is_one_label() {
    let routes = one("/wild/:d/*end", r#"["https://www.",0,"/.com/",1]"#);
    let requests = [
        ("GET h.test /wild/acme/x", "https://www.acme.com/x"),
        ("GET h.test /wild/ACME-2/x", "https://www.acme-2.com/x"),
        ("GET h.test /wild/evil@host/x", "400"),
        ("GET h.test /wild/evil.test:443%23/x", "400"),
        ("GET h.test /wild/evil.test/x", "400"),
        ("GET h.test /wild/a_b/x", "400"),
        ("GET h.test /wild/-a/x", "400"),
        ("GET h.test /wild/%C3%BC/x", "400"),
        ("GET h.test /wild//x", "400"),
    ];
    check(&routes, &[], &requests);
    let (_, warnings) = load(&routes, &[]);
    assert!(
        warnings.iter().any(|warning| warning.contains("routes.json:1:") && warning.contains("-allow-host")),
        "{warnings:?}"
    );
    let arguments = ["-allow-host", "WWW.acme.com", "-allow-host", "www.b.com", "-allow-host", "unused.test"];
    let listed = [
        ("GET h.test /wild/acme/x", "https://www.acme.com/x"),
        ("GET h.test /wild/b/x", "https://www.b.com/x"),
        ("GET h.test /wild/c/x", "400"),
        ("GET h.test /wild/unused/x", "400"),
    ];
    check(&routes, &arguments, &listed);
    assert!(!load(&routes, &arguments).1.iter().any(|warning| warning.contains("clients choose")));
    // A list of which nothing fits must not turn into "any".
    assert!(
        matches!(front(&routes, &["-allow-host", "unused.test"]), Front::Exit { code: 1, errors, .. } if errors.contains("-allow-host"))
    );
    // Numbers that resolvers take for addresses.
    check(
        &one("/:d", r#"["http://",0,"/"]"#),
        &[],
        &[("GET h.test /2130706433", "400"), ("GET h.test /0x7f000001", "400")],
    );
    // The port only with a list.
    let port = one("/:p", r#"["http://h:",0,"//x"]"#);
    assert!(problems(&port)[0].contains("a parameter in the port"), "{:?}", problems(&port));
    check(&port, &["-allow-host", "h:81"], &[("GET h.test /81", "http://h:81/x"), ("GET h.test /82", "400")]);
}

#[test]
fn paths_match_as_in_its_router() {
    let map = |method: &str, path: &str, name: &str| {
        format!(r#"{{"Method":"{method}","Path":"{path}","Route":["http://{name}/"]}}"#)
    };
    let maps = [
        map("GET", "/", "root"),
        map("GET", "/a/:x/b", "axb"),
        map("GET", "/a:x", "tail"),
        map("GET", "/s/*q", "rest"),
        map("GET", "/u/:id", "id"),
        map("GET", "/u/new", "new"),
        map("POST", "/u/:name", "post"),
        map("GET", "/Dir/", "dir"),
        map("GET", "/with space", "space"),
    ];
    let routes = format!(r#"{{"Routes":[{{"Host":"h.test","MethodPathMaps":[{}]}}]}}"#, maps.join(","));
    check(
        &routes,
        &[],
        &[
            ("GET h.test /", "http://root/"),
            ("GET h.test /a//b", "http://axb/"),
            ("GET h.test /a/c/b", "http://axb/"),
            ("GET h.test /abc", "http://tail/"),
            ("GET h.test /a", "404"),
            ("GET h.test /s/", "http://rest/"),
            ("GET h.test /s/x/y", "http://rest/"),
            ("GET h.test /s", "301 /s/"),
            ("GET h.test /s?q=1", "301 /s/?q=1"),
            ("GET h.test /u/7", "http://id/"),
            // SillyProxy refuses to start with this pair; here the literal goes first.
            ("GET h.test /u/new", "http://new/"),
            ("POST h.test /u/new", "http://post/"),
            ("POST h.test /u/new/?a=b", "307 /u/new?a=b"),
            ("GET h.test /u/", "404"),
            ("GET h.test /dir", "301 /Dir/"),
            ("GET h.test /DIR/", "301 /Dir/"),
            ("GET h.test //Dir//", "301 /Dir/"),
            ("GET h.test //evil.test/", "404"),
            ("GET h.test /with%20space", "http://space/"),
            ("HEAD h.test /Dir/", "405 GET, OPTIONS"),
            ("OPTIONS h.test /u/7", "200 GET, OPTIONS, POST"),
            ("OPTIONS h.test *", "200 GET, OPTIONS, POST"),
            ("DELETE h.test /u/7", "405 GET, OPTIONS, POST"),
        ],
    );
}

#[test]
fn hosts_are_compared_as_names() {
    let routes = |hosts: &[&str]| {
        let hosts = hosts.iter().enumerate().map(|(at, host)| {
            format!(
                r#"{{"Host":"{host}","MethodPathMaps":[{{"Method":"GET","Path":"/{at}","Route":["http://h{at}/"]}}]}}"#
            )
        });
        format!(r#"{{"Routes":[{}]}}"#, hosts.collect::<Vec<_>>().join(","))
    };
    // The same spelling again: the later one replaces the earlier one, and that is reported.
    let repeated = routes(&["a.test", "A.test", "a.test"]);
    check(
        &repeated,
        &[],
        &[("GET a.test /0", "404"), ("GET a.test /1", "http://h1/"), ("GET a.test /2", "http://h2/")],
    );
    assert!(load(&repeated, &[]).1.iter().any(|warning| warning.contains("comes again at 1:")));
    check(
        &routes(&["[::1]", "bücher.test", "dot.test.", "localhost"]),
        &[],
        &[
            ("GET [::1]:443 /0", "http://h0/"),
            ("GET xn--bcher-kva.test /1", "http://h1/"),
            ("GET dot.test /2", "http://h2/"),
            ("GET dot.test. /2", "http://h2/"),
            ("GET LOCALHOST:1 /3", "http://h3/"),
        ],
    );
    // What never matched does not match now, and is reported.
    let never = routes(&["a.test:443", "*.test", ""]);
    let (config, warnings) = load(&never, &[]);
    assert_eq!(config.routes.len(), 0);
    assert_eq!(
        warnings.iter().filter(|warning| warning.contains("no request matches the host")).count(),
        3,
        "{warnings:?}"
    );
    assert_eq!(ask(&config, "GET a.test /0"), "404");
}

#[test]
fn every_problem_has_its_place() {
    for (routes, expected) in [
        ("", "1:1: expected a value, found the end of the file"),
        ("{\n \"Routes\": [\n  {\"Host\" \"x\"}", "3:11: expected `:`"),
        ("[]", "1:1: expected an object, found a list"),
        (r#"{"Routes": {}}"#, "1:12: Routes: expected a list, found an object"),
        (r#"{"Routes": [1]}"#, "1:13: expected an object, found a number"),
        (r#"{"Routes": [{"Host": 1}]}"#, "1:22: Host: expected a string, found a number"),
        (&one("x", r#"["http://h/"]"#), "1:47: Path: the path must begin with `/`"),
        (&one("/a/:", r#"["http://h/"]"#), "1:47: Path: the wildcard in `:` has no name"),
        (&one("/a/:x:y", r#"["http://h/"]"#), "1:47: Path: `:x:y` has two wildcards"),
        (&one("/*a/b", r#"["http://h/"]"#), "1:47: Path: `*a`: a `*` must be the last part"),
        (&one("/x*a", r#"["http://h/"]"#), "1:47: Path: `x*a`: a `/` must stand before a `*`"),
        (&one("/", r#"["http://h/", 0]"#), "1:47: Route: uses parameter 0, but the path has 0"),
        (&one("/:x", r#"["http://h/", -1]"#), "1:98: Route: there is no parameter number -1"),
        (&one("/:x", r#"["http://h/", true]"#), "1:98: Route: expected a string or a number, found true or false"),
        (&one("/:x", "[]"), "1:47: Route: expected a list of strings and parameter numbers"),
        (&one("/:x", r#""http://h/""#), "1:84: Route: expected a list, found a string"),
        (
            &one("/:x", "[0]"),
            "1:47: Route: the URL must begin with `http://` or `https://`; a parameter cannot stand there",
        ),
        (&one("/:x", r#"["ftp://h/"]"#), "1:47: Route: the URL must begin with"),
        (&one("/:x", r#"["http://u:p@h/"]"#), "1:47: Route: the URL holds a user name"),
        (&one("/:x", r#"["http://h:x/"]"#), "1:47: Route: `h:x` is not `host` or `host:port`"),
        (&one("/:x", r#"["http:///x"]"#), "1:47: Route: `` is not `host`"),
        (&one("/:x", r#"["http://h/%zz"]"#), "1:47: Route: `/%zz` has a `%` without two"),
        (&one("/:x", r#"["http://h/../x"]"#), "1:47: route `routes.json:1:47` (/:x): the rewrite is not a path"),
        (&one("/:x", r#"["http://h/%2e./x"]"#), "1:47: route `routes.json:1:47` (/:x): the rewrite is not a path"),
    ] {
        let got = problems(routes);
        assert!(got.iter().any(|problem| problem.starts_with(expected)), "{routes}\nexpected {expected}\ngot {got:#?}");
    }
    let bad_method =
        r#"{"Routes":[{"Host":"h","MethodPathMaps":[{"Method":"G T","Path":"/","Route":["http://h/"]}]}]}"#;
    assert_eq!(problems(bad_method), ["1:42: Method: `G T` is not a method"]);
}

#[test]
fn conflicts_and_problems_are_reported_together() {
    let map = |path: &str| format!(r#"{{"Method":"GET","Path":"{path}","Route":["http://h/"]}}"#);
    let maps = ["/a", "/a", "/u/:id", "/u/:name"].map(map).join(",\n");
    let routes = format!("{{\"Routes\":[{{\"Host\":\"h.test\",\"MethodPathMaps\":[\n{maps}]}}]}}");
    let got = problems(&routes);
    assert_eq!(got.len(), 2, "{got:#?}");
    assert!(got[0].starts_with("3:1: ") && got[0].contains("routes.json:2:1"), "{got:#?}");
    assert!(got[1].starts_with("5:1: ") && got[1].contains("routes.json:4:1"), "{got:#?}");
    let maps = [map("x"), map("/:"), map("/ok")].join(",\n");
    let routes = format!("{{\"Routes\":[{{\"Host\":\"h.test\",\"MethodPathMaps\":[\n{maps}]}}]}}");
    assert_eq!(problems(&routes).len(), 2);
}

#[test]
fn the_rest_of_the_configuration_is_what_sillyproxy_did_and_safer() {
    let (config, warnings) = load(SAMPLE, &["-minTLSVer", "2", "-bind", "127.0.0.1:8443"]);
    let tls = config.listeners[0].tls.as_ref().unwrap();
    assert_eq!((tls.settings.policy, tls.settings.min_version), (tls::Policy::Legacy, tls::ProtocolVersion::Tls11));
    assert!(!tls.strict_sni);
    let keystore = &config.keystores[&tls.keystore];
    assert_eq!(keystore.location, keystore::Location::Jks("store.jks".into()));
    assert!(matches!(&keystore.password, Some(Secret::Argument(password)) if password.0.as_str() == "opensesame"));
    assert!(!format!("{config:?}").contains("opensesame"), "a password must not be shown");
    let group = &config.upstreams["https-orders.internal-8443"];
    assert!(group.tls.as_ref().unwrap().verify);
    assert_eq!(group.total_timeout, Some(std::time::Duration::from_secs(15)));
    assert!(warnings.iter().any(|warning| warning.contains("-upstream-ca") && warning.contains("-insecure-upstreams")));
    let (config, _) = load(SAMPLE, &["-insecure-upstreams", "-keypass-file", "pass.txt"]);
    assert!(!config.upstreams["https-orders.internal-8443"].tls.as_ref().unwrap().verify);
    assert_eq!(config.keystores["sillyproxy"].password, Some(Secret::File("pass.txt".into())));
    let (config, _) = load(SAMPLE, &["-upstream-ca", "ca.pem"]);
    assert_eq!(config.upstreams["https-orders.internal-8443"].tls.as_ref().unwrap().ca, Some("ca.pem".into()));
}

#[test]
fn exit_codes_are_those_of_sillyproxy() {
    let run = |text: &str| match sillyproxy::run(&text.split(' ').map(OsString::from).collect::<Vec<_>>()) {
        Front::Exit { code, output, errors } => (code, output, errors),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(run("-h").0, 0);
    assert!(run("-h").1.contains("-minTLSver"));
    assert_eq!(run("-unknown").0, 2);
    let (code, _, errors) = run("-routes /nonexistent/routes.json -bind nowhere");
    assert_eq!(code, 1);
    for part in ["/nonexistent/routes.json", "no keystore", "-bind nowhere"] {
        assert!(errors.contains(part), "{errors} lacks {part}");
    }
}

#[test]
fn the_imported_file_is_the_same_natively() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes.json");
    let routes = r#"{"Routes":[{"Host":"H.test","MethodPathMaps":[
        {"Method":"GET","Path":"/a/:x-y/b:x-y/*1","Route":["https://one.test/v\"{1}/",1,"/q?z=",0]},
        {"Method":"POST","Path":"/sp ace/:x","Route":["http://192.0.2.1:81/",0]},
        {"Method":"GET","Path":"/t/:t","Route":["https://",0,"/.tenants.test/"]},
        {"Method":"get","Path":"/lower","Route":["http://h/"]},
        {"Method":"GET","Path":"/100%","Route":["http://h/"]},
        {"Method":"GET","Path":"/a/../b","Route":["http://h/"]},
        {"Method":"GET","Path":"/slash","Route":["http://h/a%2Fb"]}]}]}"#;
    std::fs::write(&file, routes).unwrap();
    let arguments =
        ["-minTLSver", "2", "-upstream-ca", "/etc/ca.pem", "-allow-host", "a.tenants.test", "-bind", ":8443"];
    let words = words(&file, &arguments);
    let Front::Run { config: expected, .. } = sillyproxy::run(&words) else { panic!("does not run") };
    let Front::Exit { code: 0, output, .. } = sillyproxy::import(&words) else { panic!("cannot be imported") };
    assert!(!output.contains("opensesame"), "{output}");
    let native = config::parse("native.yaml", &output, std::path::Path::new(""))
        .unwrap_or_else(|problems| panic!("{output}\n{problems:?}"));
    assert_eq!(output.matches("# Left out").count(), 3, "{output}");

    // The same but for what the comments in the file say, and for names and places.
    let comparable = |config: &Config| {
        let mut config = config.clone();
        config.routes.clear();
        // What a file names, arguments name by themselves.
        config.named_files.clear();
        for keystore in config.keystores.values_mut() {
            keystore.password = None;
            keystore.location = keystore::Location::Jks("store.jks".into());
        }
        format!("{config:#?}")
    };
    assert_eq!(comparable(&native), comparable(&expected), "{output}");
    for request in [
        "GET h.test /a/1/b2/3?k=v",
        "POST h.test /sp%20ace/7",
        "GET h.test /t/a",
        "GET h.test /t/b",
        "GET h.test /none",
        "GET h.test /100%25",
    ] {
        assert_eq!(ask(&native, request), ask(&expected, request), "{request}\n{output}");
    }
    let kept =
        expected.routes.iter().filter(|route| !["/lower", "/a/../b", "/slash"].contains(&route.path.text.as_str()));
    let kept: Vec<_> = kept.collect();
    assert_eq!(native.routes.len(), kept.len());
    for (ours, theirs) in native.routes.iter().zip(kept) {
        assert_eq!(
            (&ours.hosts, &ours.methods, &ours.request_headers),
            (&theirs.hosts, &theirs.methods, &theirs.request_headers)
        );
        assert_eq!(ours.max_body_bytes, theirs.max_body_bytes);
    }
    // Without an allow-list the file cannot be used as it is, and says where.
    let words = &words[..words.len() - 4];
    let Front::Exit { code: 0, output, errors } = sillyproxy::import(words) else { panic!("cannot be imported") };
    assert!(output.contains("# allow: []") && errors.contains("-allow-host"), "{output}\n{errors}");
}
