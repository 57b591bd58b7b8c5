//! What nginx keeps out is kept out here, too: by the same rule, or because its place is closed.
//!
//! Each row is a server of its own; all run in one nginx and one Portunus. Whatever is not the same must be a finding, and must let nothing in.

use super::beside::{Beside, Program};
use super::guards::Carried::{Closed, Exactly};
use super::guards::{Row, compare, findings};

/// Directives of servers.
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

#[test]
fn what_is_rejected_there_is_rejected_here() {
    let place = |server: &str, name: &str| format!("server {{ listen @{name}@; server_name a.test; {server} }}\n");
    compare(&Program::Nginx, ROWS, place, (MAPS, ""));
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

#[test]
fn what_is_closed_is_a_finding() {
    findings("nginx", ROWS, |server| format!("events {{}} http {{ server {{ listen 127.0.0.1:8080; {server} }} }}"));
}
