//! What nginx keeps out is kept out here, too: by the same rule, or because its place is closed.
//!
//! Each row is a server of its own; all run in one nginx and one Portunus. Whatever is not the same must be a finding, and must let nothing in.

use super::beside::{Beside, Outcome, Program};

/// What the import makes of a row.
#[derive(Clone, Copy, PartialEq)]
enum Carried {
    /// Each request comes to the same.
    Exactly,
    /// Whoever is kept out there is kept out here.
    Closed,
}
use Carried::{Closed, Exactly};

/// Directives of a server, how they are carried, and requests: fields behind a method and a path.
type Row = (&'static str, Carried, &'static [&'static str]);

const ROWS: &[Row] = &[
    // Rules behind a handler are asked, too.
    (
        "location / { if ($http_x = 1) { proxy_pass http://@B@; } if ($http_y = 1) { return 403; } proxy_pass http://@A@; }",
        Closed,
        FIELDS,
    ),
    (
        "location / { if ($http_x = 1) { proxy_pass http://@B@; } if ($http_y = 1) { proxy_pass http://@C@; } \
         proxy_pass http://@A@; }",
        Closed,
        FIELDS,
    ),
    ("location / { if ($http_x = 1) { proxy_pass http://@B@; } return 403; }", Closed, FIELDS),
    (
        "location / { if ($http_x = 1) { proxy_pass http://@B@; break; } if ($http_y = 1) { return 403; } proxy_pass http://@A@; }",
        Closed,
        FIELDS,
    ),
    (
        "location / { if ($http_x = 1) { proxy_pass http://@B@; } rewrite ^/a /b break; proxy_pass http://@A@; }",
        Closed,
        FIELDS,
    ),
    // Content that is tried or made before anything is forwarded.
    ("location / { try_files $uri =403; proxy_pass http://@A@; }", Closed, &["GET /x"]),
    ("location / { try_files /none =404; if ($http_x = 1) { proxy_pass http://@A@; } }", Closed, FIELDS),
    // The location that a service is asked by, and what the service gets.
    (
        "location / { auth_request /auth; proxy_pass http://@A@; } location /auth { proxy_pass http://@B@/ok; } \
         location ~ ^/auth { proxy_set_header X-Deny 1; proxy_pass http://@B@; }",
        Closed,
        FIELDS,
    ),
    (
        "location / { auth_request /auth; proxy_pass http://@A@; } location = /auth { proxy_pass http://@B@/status=401; }",
        Closed,
        FIELDS,
    ),
    (
        "location / { auth_request /auth; proxy_pass http://@A@; } \
         location = /auth { proxy_set_header X-Api-Key secret; proxy_pass http://@B@; }",
        Closed,
        FIELDS,
    ),
    // Methods.
    (
        "location / { limit_except GET { deny all; } if ($http_x = 1) { return 204; } proxy_pass http://@A@; }",
        Closed,
        &["POST / X: 1", "GET / X: 1", "GET /", "POST /"],
    ),
    (
        "location / { limit_except GET { deny all; } if ($http_x = 1) { return 403; } proxy_pass http://@A@; }",
        Exactly,
        &["POST / X: 1", "GET / X: 1", "GET /", "HEAD /", "POST /"],
    ),
    ("location / { limit_except GET { proxy_pass http://@B@; } proxy_pass http://@A@; }", Closed, &["POST /", "GET /"]),
    ("location / { if ($request_method ~ PO) { return 403; } proxy_pass http://@A@; }", Closed, METHODS),
    ("location / { if ($request_method ~ ^PO|HEAD$) { return 403; } proxy_pass http://@A@; }", Closed, METHODS),
    ("location / { if ($request_method !~ ^(GET|HEAD)$) { return 403; } proxy_pass http://@A@; }", Exactly, METHODS),
    ("location / { if ($request_method = GET) { return 403; } proxy_pass http://@A@; }", Exactly, METHODS),
    ("location / { if ($request_method = GET) { proxy_pass http://@B@; } return 403; }", Exactly, METHODS),
    ("location / { if ($request_method != GET) { return 403; } proxy_pass http://@A@; }", Exactly, METHODS),
    // Variables: what they are worth where they stand, and whose they are.
    (
        "set $b 1; set $a $b; set $b 2; if ($a = 1) { return 403; } location / { proxy_pass http://@A@; }",
        Exactly,
        &["GET /"],
    ),
    ("set $a $b; set $b 1; if ($a = 1) { return 403; } location / { proxy_pass http://@A@; }", Closed, &["GET /"]),
    ("set $http_z 1; if ($http_z = 1) { return 403; } location / { proxy_pass http://@A@; }", Exactly, &["GET /"]),
    ("if ($http_x_mapped = 1) { return 403; } location / { proxy_pass http://@A@; }", Closed, &["GET / X: 1", "GET /"]),
    ("if ($arg_mapped = 1) { return 403; } location / { proxy_pass http://@A@; }", Closed, &["GET / X: 1", "GET /"]),
    (
        "if ($arg_k = a%20b) { return 403; } location / { proxy_pass http://@A@; }",
        Closed,
        &["GET /?k=a%20b", "GET /?K=a%20b"],
    ),
    ("if ($cookie_k = 1) { return 403; } location / { proxy_pass http://@A@; }", Closed, &["GET / Cookie: K=1"]),
    ("location / { if ($http_x = 1) { return 200 ok; } return 403; }", Closed, &["GET / X: 0|X: 1", "GET /"]),
    (
        "if ($http_x_real_ip = 1.2.3.4) { return 403; } location / { proxy_pass http://@A@; }",
        Closed,
        &["GET / X-Real-IP: 1.2.3.4"],
    ),
    (
        "if ($http_forwarded) { return 403; } location / { proxy_pass http://@A@; }",
        Closed,
        &["GET / Forwarded: for=1.2.3.4"],
    ),
    // Folders, and queries of their own.
    ("location /x/ { proxy_pass http://@A@; } location /x { return 403; }", Exactly, &["GET /x", "GET /x/", "GET /xy"]),
    ("location /x/ { proxy_pass http://@A@; } location = /x { return 403; }", Exactly, &["GET /x", "GET /x/"]),
    (
        "location /x/ { internal; proxy_pass http://@A@; } location / { proxy_pass http://@B@; }",
        Exactly,
        &["GET /x", "GET /x/", "GET /xy"],
    ),
    ("location = /x { proxy_pass http://@A@/y?own=1; }", Closed, &["GET /x", "GET /x?a=1"]),
    ("location /x { rewrite ^/x /y? break; proxy_pass http://@A@; }", Closed, &["GET /x?a=1"]),
    ("location /x { rewrite ^/x /y?own=1 break; proxy_pass http://@A@; }", Closed, &["GET /x?a=1"]),
    ("location /x { proxy_pass http://@A@$uri; }", Closed, &["GET /x?a=1"]),
    // Paths that rules before take, for hosts that rules behind take.
    (
        "rewrite ^/admin http://b.test/ permanent; if ($host = a.test) { return 204; } location / { proxy_pass http://@A@; }",
        Exactly,
        &["GET /admin", "GET /"],
    ),
];

const FIELDS: &[&str] = &["GET /", "GET / X: 1", "GET / Y: 1", "GET / X: 1|Y: 1", "GET /a X: 1"];
const METHODS: &[&str] = &["GET /", "HEAD /", "POST /", "PUT /", "OPTIONS /"];

const MAPS: &str = "map $http_x $http_x_mapped { default 0; 1 1; } map $http_x $arg_mapped { default 0; 1 1; }";

/// The request of a row's text: `GET / X: a|Y: b`.
fn request(text: &str) -> String {
    let mut words = text.splitn(3, ' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let fields = words.next().unwrap_or_default().split('|').filter(|field| !field.is_empty());
    let fields: String = fields.map(|field| format!("\n{field}")).collect();
    format!("{method} {path} HTTP/1.1\nHost: a.test{fields}")
}

fn is_kept_out(outcome: &Outcome) -> bool {
    outcome.status == 0 || outcome.status >= 400
}

#[test]
fn what_is_rejected_there_is_rejected_here() {
    let names: Vec<String> = (0..ROWS.len()).map(|at| format!("w{at}x")).collect();
    let mut text = MAPS.to_owned();
    for ((server, ..), name) in ROWS.iter().zip(&names) {
        text += &format!("server {{ listen @{name}@; server_name a.test; {server} }}\n");
    }
    let listeners: Vec<&str> = names.iter().map(String::as_str).collect();
    let both = Beside::start(&Program::Nginx, &text, &listeners);
    let mut problems = Vec::new();
    for ((server, carried, requests), name) in ROWS.iter().zip(&names) {
        for text in *requests {
            let [theirs, ours] = both.ask(name, &request(text));
            let is_right = match carried {
                Exactly => theirs == ours,
                Closed => theirs == ours || is_kept_out(&ours),
            };
            if !is_right || (is_kept_out(&theirs) && !is_kept_out(&ours)) {
                problems.push(format!("{server}\n{text}\n  theirs {theirs:?}\n  ours   {ours:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}\n\n{}", problems.join("\n\n"), both.yaml());
    assert_eq!(both.printed.status.code(), Some(1));
}

/// A default server's rule for a name does not take requests of the server that has it.
#[test]
fn names_stay_with_their_server() {
    let both = Beside::start(
        &Program::Nginx,
        "server { listen @web@ default_server; server_name a.test; if ($host = x.b.test) { return 204; } \
         if ($host = c.test) { return 204; } location / { proxy_pass http://@A@; } }
         server { listen @web@; server_name *.b.test; deny all; location / { proxy_pass http://@B@; } }",
        &["web"],
    );
    for host in ["a.test", "x.b.test", "y.b.test", "c.test", "other.test"] {
        both.compare_paths(host, &["/", "/x"]);
    }
}

/// Findings and closed places go together: without one, each word was carried exactly.
#[test]
fn what_is_closed_is_a_finding() {
    for (server, carried, _) in ROWS {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        let server = ["@A@", "@B@", "@C@"]
            .iter()
            .zip(1..)
            .fold((*server).to_owned(), |text, (name, port)| text.replace(name, &format!("127.0.0.1:{port}")));
        std::fs::write(&file, format!("events {{}} http {{ server {{ listen 127.0.0.1:8080; {server} }} }}")).unwrap();
        let printed = super::beside::import("nginx", &file);
        let yaml = String::from_utf8(printed.stdout).unwrap();
        assert_eq!(printed.status.code() == Some(1), yaml.contains("left out:"), "{server}\n{yaml}");
        assert!(*carried == Closed || printed.status.code() == Some(0), "{server}\n{yaml}");
    }
}
