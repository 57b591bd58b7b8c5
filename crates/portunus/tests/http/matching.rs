//! What a route matches by: several paths, expressions, `when`; what client and upstream see of it, and what nginx does with the same.

use std::process::{Child, Command, Stdio};

use crate::harness::secure::Secure;
use crate::harness::{Gate, Upstream, exchange, statuses, wait_until};

/// The body of the response to a request on a connection of its own.
fn ask(address: std::net::SocketAddr, request: &str) -> String {
    let response = exchange(address, format!("{request}\r\nConnection: close\r\n\r\n").as_bytes());
    let text = String::from_utf8(response).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    if head.starts_with("HTTP/1.1 200") { body.to_owned() } else { head[9..12].to_owned() }
}

fn respond(name: &str) -> String {
    format!("respond: {{ status: 200, body: \"{name}\" }}")
}

#[test]
fn one_route_has_several_paths_and_expressions() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes:
  - name: many
    path: [\"/a/{{*rest}}\", \"/b/{{rest}}/end\", {{ regex: \"/c-([0-9]+)/(?<rest>.*)\" }}]
    rewrite: /x/{{rest}}
    upstream: app
  - {{ path: {{ regex: \"/cut/(.).*\" }}, rewrite: \"/{{1}}?q={{1}}\", upstream: app }}
",
        upstream.address
    ));
    let web = gate.address("web");
    for (target, seen) in [
        ("/a/1/2?q=1", "/x/1/2?q=1"),
        ("/b/1/end", "/x/1"),
        ("/c-12/y/z", "/x/y/z"),
        ("/c-12/%2e%7e", "/x/.~"),
        ("/c-1a/y", "404"),
        ("/cut/ab", "/a?q=a"),
        // Half of an escape is no part of a path.
        ("/cut/%20", "400"),
        ("/cut/.x", "400"),
    ] {
        let before = upstream.seen().len();
        let response =
            exchange(web, format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
        if let Ok(status) = seen.parse() {
            assert_eq!((statuses(&response), upstream.seen().len()), (vec![status], before), "{target}");
        } else {
            assert_eq!(upstream.seen().last().unwrap().head.split(' ').nth(1), Some(seen), "{target}");
        }
    }
    assert!(gate.log(8).iter().filter(|line| line["route"] == "many").count() >= 3, "one name for all its paths");
    gate.stop();
}

/// Expressions of which neither contains the other are no conflict where one leaves to the other what both match.
#[test]
fn an_expression_leaves_paths_to_another() {
    let gate = Gate::start(&format!(
        "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nroutes:
  - {{ path: {{ regex: '.*/\\.(?<hidden>.*)' }}, {} }}
  - {{ path: {{ regex: '/.*\\.(png|css)', except: '.*/\\..*' }}, {} }}
  - {{ path: {{ regex: '/admin/(?<rest>.*)', except: ['.*/\\..*', '/.*\\.(png|css)'] }}, {} }}
  - {{ {} }}
",
        respond("hidden"),
        respond("files"),
        respond("admin"),
        respond("rest"),
    ));
    for (path, expected) in [
        ("/a.png", "files"),
        ("/x/.git/a.png", "hidden"),
        ("/admin/a.css", "files"),
        ("/admin/.a.css", "hidden"),
        ("/admin/a", "admin"),
        ("/admin", "rest"),
        ("/.png", "hidden"),
    ] {
        assert_eq!(ask(gate.address("web"), &format!("GET {path} HTTP/1.1\r\nHost: x")), expected, "{path}");
    }
    gate.stop();
}

/// Servers that join slashes and drop parameters would get a path that was left to another route, or to none.
#[test]
fn what_an_expression_leaves_is_not_reached_by_another_spelling() {
    let gate = Gate::start(&format!(
        "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nroutes:
  - {{ hosts: a, path: {{ regex: '/e/.*', except: '/e/secret.*' }}, {} }}
  - {{ hosts: b, path: {{ regex: '/e/.*', except: '/e/secret.*' }}, {} }}
  - {{ hosts: b, {} }}
",
        respond("open"),
        respond("open"),
        respond("guarded"),
    ));
    let status = |host: &str, path: &str| {
        let sent = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        crate::harness::statuses(&crate::harness::exchange(gate.address("web"), sent.as_bytes()))
    };
    for host in ["a", "b"] {
        assert_eq!(status(host, "/e/x//y"), [200]);
        for path in ["/e//secret", "/e/;x/secret", "/e/%2Fsecret"] {
            assert_eq!(status(host, path), [400], "{host}{path}");
        }
    }
    gate.stop();
}

#[test]
fn a_redirect_says_what_becomes_of_the_query() {
    let route = |path: &str, query: &str| {
        format!("  - {{ path: {path}, redirect: {{ to: \"https://x.test/?a=1\", query: {query} }} }}\n")
    };
    let routes = [route("/keep", "keep"), route("/append", "append"), route("/drop", "drop")].concat();
    let gate =
        Gate::start(&format!("workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nroutes:\n{routes}"));
    for (path, expected) in [("/keep", "/?a=1"), ("/append", "/?a=1&b=2"), ("/drop", "/?a=1")] {
        let request = format!("GET {path}?b=2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let response = String::from_utf8(exchange(gate.address("web"), request.as_bytes())).unwrap();
        assert!(response.contains(&format!("\r\nLocation: https://x.test{expected}\r\n")), "{path}: {response}");
    }
    gate.stop();
}

#[test]
fn a_redirect_has_the_fields_of_its_route() {
    let gate = Gate::start(
        "workers: 1
listeners: [{ name: web, bind: \"127.0.0.1:0\" }]
routes: [{ redirect: { to: /there }, response_headers: { set: { x-host: \"{host}\" }, add: { cache-control: no-store } } }]
",
    );
    let response = exchange(gate.address("web"), b"GET / HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n");
    let response = String::from_utf8(response).unwrap();
    for field in
        ["HTTP/1.1 308", "\r\nLocation: /there\r\n", "\r\nx-host: h.test\r\n", "\r\ncache-control: no-store\r\n"]
    {
        assert!(response.contains(field), "{field}: {response}");
    }
    assert_eq!(response.matches("\r\nDate: ").count(), 1, "{response}");
    gate.stop();
}

#[test]
fn a_route_is_chosen_by_what_a_request_is_like() {
    let route = |when: &str, name: &str| format!("  - {{ path: /, when: {when}, {} }}\n", respond(name));
    let routes = [
        route("{ header: { x-beta: { present: true } } }", "header"),
        route("{ header: { x-beta: [\"1\", { prefix: v }] } }", "beta"),
        route("{ query: { debug: { present: true } }, header: { x-beta: { present: false } } }", "query"),
        route(
            "{ cookie: { plan: { regex: \"pro|team-[0-9]+\" } }, client: 127.0.0.0/8, query: { debug: { present: false } } }",
            "cookie",
        ),
    ];
    let gate = Gate::start(&format!(
        "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nroutes:\n{}  - {{ path: /, {} }}\n  - {{ path: /office, when: {{ client: 192.0.2.0/24 }}, {} }}\n",
        routes.concat(),
        respond("plain"),
        respond("office"),
    ));
    for (target, fields, expected) in [
        ("/", "", "plain"),
        ("/", "X-Beta: 2", "header"),
        ("/", "X-Beta: 1", "beta"),
        ("/", "X-Beta: v7", "beta"),
        ("/?debug", "", "query"),
        ("/?x=1&%64ebug=", "", "query"),
        ("/?debug", "x-beta: 0", "header"),
        ("/", "Cookie: a=b; plan=team-12", "cookie"),
        ("/", "Cookie: plan=team-12x", "plain"),
        ("/office", "", "404"),
        // Nobody is believed about who the client is.
        ("/office", "X-Forwarded-For: 192.0.2.1", "404"),
    ] {
        let fields = if fields.is_empty() { String::new() } else { format!("\r\n{fields}") };
        let got = ask(gate.address("web"), &format!("GET {target} HTTP/1.1\r\nHost: x{fields}"));
        assert_eq!(got, expected, "{target} {fields}");
    }
    gate.stop();
}

#[test]
fn a_route_is_chosen_by_the_server_name_of_the_handshake() {
    let dir = crate::harness::certificates(&[("a.test", false), ("b.test", false)]);
    let gate = Gate::start_in(
        dir,
        &format!(
            "workers: 1\nkeystores: {{ main: {{ folder: certs, default: a.test }} }}\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\", tls: {{ keystore: main }} }}]\nroutes:\n  - {{ when: {{ server_name: b.test }}, {} }}\n  - {{ {} }}\n",
            respond("b"),
            respond("any"),
        ),
    );
    use std::io::Write as _;
    for (name, expected) in [("b.test", "b"), ("a.test", "any")] {
        let mut client = Secure::connect(gate.address("web"), gate.dir.path(), name, "http/1.1");
        // The host says something else: what counts is the handshake.
        client.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
        let response = String::from_utf8(crate::harness::read_to_end(&mut client)).unwrap();
        assert!(response.ends_with(&format!("\r\n\r\n{expected}")), "{name}: {response}");
    }
    gate.stop();
}

#[test]
fn what_cannot_be_matched_is_said_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for (route, said) in [
        ("path: { regex: \"/(\" }", "p.yaml:2:35: the expression is not valid: unclosed group"),
        ("path: { regex: \"/((a{1,99}){1,99}){1,99}\" }", "the expression needs more than 512 KiB"),
        ("path: { regex: \"a b\" }", "no path matches `a b`; fix: begin it with `/`"),
        ("path: { regex: '/x/\\.\\./y/.*' }", "is not in canonical form"),
        ("path: [/a, /a]", "p.yaml:2:31: `/a` is in `path` twice"),
        ("path: [/a, \"/b/{n}\"], rewrite: \"/{n}\"", "unknown parameter or variable `n`"),
        ("path: \"^/x(/.*)?$\"", "a regular expression is written `{ regex: ... }`"),
        ("path: { regex: \"/a.*\", except: \"(\" }", "the expression is not valid: unclosed group"),
        (
            "path: { regex: \"/a\", except: \"/.*\" }",
            "no path matches `/a`; fix: begin it with `/`, and leave something of it",
        ),
        ("when: { client: [] }", "the list is empty, so the condition never holds"),
        ("when: { header: { x: { regex: \"[\" } } }", "the expression is not valid"),
        ("when: { certificate: { san: a.b } }", "start it with `DNS:`"),
        (
            "path: /, when: { query: { a: b } } }\n  - { upstream: u, path: /, when: { cookie: { a: b } }",
            "match the same requests on any host",
        ),
        (
            "path: { regex: \"/a.*\" } }\n  - { upstream: u, path: { regex: \"/.*z\" }",
            "match the same requests on any host, for example `/az`",
        ),
    ] {
        let file = dir.path().join("p.yaml");
        let text = format!(
            "routes:\n  - {{ upstream: u, {route} }}\nlisteners: [{{ name: web, bind: \":80\" }}]\nupstreams: {{ u: {{ servers: \"192.0.2.1:80\" }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = Command::new(crate::harness::PORTUNUS).arg("check").arg(&file).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(said), "{route}: {errors}");
    }
}

/// nginx, ended with the test.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// nginx's location, our path, and the name that both respond with.
const SAME_AS_NGINX: [(&str, &str, &str); 11] = [
    ("= /", "/", "root"),
    ("= /exact", "/exact", "exact"),
    ("= /img/logo.png", "/img/logo.png", "logo"),
    ("/", "\"/{*rest}\"", "rest"),
    ("/img/", "\"/img/{*rest}\"", "img"),
    ("^~ /static/", "\"/static/{*rest}\"", "static"),
    ("/api/v1/", "\"/api/v1/{*rest}\"", "v1"),
    ("~ ^/img/thumb-[0-9]+\\.png$", "{ regex: '/img/thumb-[0-9]+\\.png' }", "thumb"),
    ("~ ^/img/.*\\.png$", "{ regex: '/img/.*\\.png' }", "png"),
    ("~ ^/api/v1/users/[0-9]+$", "{ regex: '/api/v1/users/[0-9]+' }", "user"),
    ("~ ^/[a-z]+\\.php$", "{ regex: '/[a-z]+\\.php' }", "php"),
];

/// Where the rules mean the same, nginx takes the same location as we take the route: exact before all, literal starts by whole segments, an expression
/// before the start that it is in. (Of nginx's expressions the first of the file wins; ours must exclude or contain each other.)
#[test]
fn nginx_takes_the_same_way() {
    let rules = SAME_AS_NGINX;
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let locations: String =
        rules.iter().map(|(location, _, name)| format!("location {location} {{ return 200 \"{name}\"; }}\n")).collect();
    let config = format!(
        "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/nginx.log;\nevents {{}}\nhttp {{ access_log off; client_body_temp_path {at}/t1; \
         proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;\nserver {{ listen unix:{at}/nginx.sock;\n\
         server_name _; merge_slashes off;\n{locations}}}\n}}\n"
    );
    std::fs::write(dir.path().join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(dir.path()).arg("-c").arg(dir.path().join("nginx.conf"));
    let _nginx = Nginx(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let socket = dir.path().join("nginx.sock");
    wait_until("nginx", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let routes: String =
        rules.iter().map(|(_, path, name)| format!("  - {{ path: {path}, {} }}\n", respond(name))).collect();
    let gate =
        Gate::start(&format!("workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nroutes:\n{routes}"));
    let random = &mut fastrand::Rng::with_seed(14);
    let pieces = [
        "",
        "exact",
        "img",
        "img/",
        "logo.png",
        "thumb-7.png",
        "thumb-7.jpg",
        "thumb-.png",
        "a.png",
        "static",
        "static/",
        "api/v1",
        "api/v1/",
        "users/12",
        "users/a",
        "img/thumb-7.png",
        "img/logo.png",
        "api/v1/users/12",
        "index.php",
        "Index.php",
        "x/",
        "/",
    ];
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..400 {
        let mut path = "/".to_owned();
        (0..random.usize(0..3)).for_each(|_| path.push_str(random.choice(pieces).unwrap()));
        if path.contains("//") {
            continue;
        }
        let ours = ask(gate.address("web"), &format!("GET {path} HTTP/1.1\r\nHost: x"));
        let theirs = ask_nginx(&socket, &path);
        assert_eq!(ours, theirs, "{path}");
        seen.insert(ours);
    }
    assert_eq!(seen.len(), rules.len(), "each was met: {seen:?}");
    gate.stop();
}

fn ask_nginx(socket: &std::path::Path, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}
