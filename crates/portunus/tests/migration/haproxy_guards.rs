//! What HAProxy keeps out is kept out here, too: by the same rule, or because its place is closed.
//!
//! Each row is a frontend of its own; all run in one HAProxy and one Portunus. Whatever is not the same must be a finding, and must let nothing in.

use super::beside::{Beside, Program};
use super::guards::Carried::{Closed, Exactly};
use super::guards::{Row, compare, findings};

/// Rules of frontends whose default is the backend `aa`.
const HTTP: &[Row] = &[
    // A condition on the client does not go before an earlier one on a field.
    (
        "http-request deny if { hdr_sub(user-agent) -i sqlmap }\nuse_backend bb if { src 127.0.0.0/8 }",
        Exactly,
        &["GET / User-Agent: sqlmap/1", "GET / User-Agent: curl", "GET /"],
    ),
    (
        "http-request deny if METH_POST\nuse_backend bb if { src 127.0.0.0/8 }\nuse_backend cc if { hdr(x) a }",
        Exactly,
        &["POST / X: a", "GET / X: a", "GET /"],
    ),
    // Items of lists, and whole lines.
    ("http-request deny if { hdr(x) a }", Exactly, ITEMS),
    ("http-request deny unless { hdr(x) -i A }", Exactly, ITEMS),
    ("http-request deny if { req.hdr(x) -m beg a }", Exactly, ITEMS),
    ("http-request deny if { hdr_end(x) a }", Exactly, ITEMS),
    ("http-request deny if { hdr_sub(x) a }", Exactly, ITEMS),
    ("http-request deny if { req.fhdr(x) a }", Exactly, ITEMS),
    ("http-request deny unless { hdr_cnt(x) 0 }", Exactly, ITEMS),
    ("http-request deny if { hdr(x,1) a }", Closed, ITEMS),
    ("http-request deny if { hdr_dom(x) a }", Closed, ITEMS),
    ("http-request deny if { hdr_len(x) gt 1 }", Closed, ITEMS),
    ("http-request deny if { hdr_reg(x) ^a }", Closed, ITEMS),
    // Two values of one field are both looked at.
    ("http-request deny if { hdr(x) a }\nuse_backend bb if { hdr(x) b }", Exactly, ITEMS),
    ("http-request set-header y 1 if { hdr(x) b }\nhttp-request deny if { hdr(x) a }", Closed, ITEMS),
    // What edits leave is what conditions see.
    ("http-request del-header x\nhttp-request deny unless { hdr(x) a }", Exactly, ITEMS),
    ("http-request del-header x\nhttp-request deny if { hdr_cnt(x) 0 }", Exactly, ITEMS),
    ("http-request set-header x b\nhttp-request deny unless { hdr(x) a }", Closed, ITEMS),
    ("http-request add-header x a if { src 127.0.0.0/8 }\nhttp-request deny if { hdr(x) a }", Closed, ITEMS),
    ("http-request replace-header x a b\nhttp-request deny if { hdr(x) b }", Closed, ITEMS),
    ("http-request set-header host b.test\nhttp-request deny if { hdr(host) b.test }", Closed, &["GET /"]),
    // Fields that say who the client is end before any condition.
    ("http-request deny unless { hdr_cnt(x-real-ip) 0 }", Closed, &["GET / X-Real-IP: 1.2.3.4"]),
    ("http-request deny if { hdr(x-forwarded-for) 1.2.3.4 }", Closed, &["GET / X-Forwarded-For: 1.2.3.4"]),
    ("http-request deny if { hdr(cf-connecting-ip) -m found }", Closed, &["GET / CF-Connecting-IP: 1.2.3.4"]),
    // Types, converters, delimiters.
    ("http-request deny if { req.hdr(x) -m int gt 5 }", Closed, &["GET / X: 6"]),
    ("http-request deny if { req.hdr(x) -m ip 10.0.0.0/8 }", Closed, &["GET / X: 10.0.0.1"]),
    ("http-request deny if { req.hdr(x),field(1,:) admin }", Closed, &["GET / X: admin:x"]),
    ("http-request deny if { req.hdr(x),word(2,:) admin }", Closed, &["GET / X: x:admin"]),
    ("http-request deny if { req.hdr(x),url_dec admin }", Closed, &["GET / X: %61dmin"]),
    ("http-request deny unless { req.hdr(x),lower ADMIN }", Closed, &["GET / X: ADMIN"]),
    ("http-request deny if { req.hdr(x),lower admin }", Exactly, &["GET / X: ADMIN", "GET / X: user"]),
    ("http-request deny if { url_beg /x?debug }", Closed, &["GET /x?debug=1"]),
    ("http-request deny if { url_sub debug }", Closed, &["GET /x?debug=1"]),
    ("http-request deny if { url_end debug }", Closed, &["GET /x?debug"]),
    ("http-request deny if { path_sub %2e }", Closed, &["GET /x%2ey"]),
    ("http-request deny if { path_beg /x }", Exactly, &["GET /x?debug=1", "GET /y"]),
    ("http-request deny unless { urlp(a,;) 1 }", Closed, &["GET /?a=1"]),
    ("http-request deny if { urlp(a) 1 }", Closed, &["GET /?a=1;b=2", "GET /?b=2;a=1"]),
    // Hosts by their ends.
    ("http-request deny if { hdr_dom(host) b.test }", Exactly, HOSTS),
    ("http-request deny if { hdr_end(host) b.test }", Exactly, HOSTS),
    ("http-request deny if { hdr_end(host) .b.test }", Exactly, HOSTS),
    ("http-request deny unless { hdr(host) -i b.test }", Exactly, HOSTS),
    ("http-request deny unless { hdr(host) -i B.test }", Exactly, HOSTS),
    ("http-request deny unless { hdr(host) B.test }", Closed, HOSTS),
    ("http-request deny unless { hdr_sub(host) B }", Closed, HOSTS),
    ("http-request deny unless { hdr_reg(host) ^B }", Closed, HOSTS),
    ("http-request deny unless { hdr_reg(host) ^[A-Zb]\\. }", Closed, HOSTS),
    ("http-request deny unless { hdr_reg(host) ^[a-zA-Z]\\. }", Exactly, HOSTS),
    // A method that is not named, constants that are none.
    ("http-request deny unless { method GET }", Exactly, &["GET /", "HEAD /", "POST /"]),
    ("use_backend bb if { method GET }", Exactly, &["GET /", "HEAD /", "POST /"]),
    ("http-request deny if HTTP_1.1", Closed, &["GET /"]),
    ("http-request deny if { req.len gt 0 }", Closed, &["GET /"]),
    ("http-request deny unless HTTP", Exactly, &["GET /"]),
    ("http-request deny if { src ::/0 }", Exactly, &["GET /"]),
    ("http-request deny unless { src 127.0.0.1 ::1 }", Exactly, &["GET /"]),
    ("http-request deny if { src_port gt 1 }", Closed, &["GET /"]),
    ("http-request deny if { src_is_local }", Closed, &["GET /"]),
    ("http-request deny if { fe_conn gt 0 }", Closed, &["GET /"]),
    // Limits beside other conditions, and as what lets in.
    (
        "stick-table type ip size 1k expire 60s store http_req_rate(60s)\nhttp-request track-sc0 src\n\
         http-request deny if { sc_http_req_rate(0) gt 3 } or { src 127.0.0.2 }",
        Closed,
        &["GET /6"],
    ),
    (
        "stick-table type ip size 1k expire 60s store http_req_rate(60s)\nhttp-request track-sc0 src\n\
         http-request allow if { sc_http_req_rate(0) lt 3 }\nhttp-request deny",
        Closed,
        &["GET /6"],
    ),
    (
        "stick-table type ip size 1k expire 60s store gpc0,http_req_rate(60s)\nhttp-request track-sc0 src\n\
         http-request sc-inc-gpc0(0)\nhttp-request deny if { sc_get_gpc0(0) gt 3 }",
        Closed,
        &["GET /6"],
    ),
    ("http-request deny if { req.body_size gt 3 } or { src 127.0.0.1 }", Exactly, &["GET /", "POST /"]),
    // What holds for who has given no password holds for nobody else.
    ("use_backend bb unless { http_auth(l) }", Closed, USERS),
    ("acl known http_auth(l)\nuse_backend bb if METH_GET !known", Closed, USERS),
    ("http-request deny unless { http_auth(l) }", Closed, USERS),
    ("http-request deny if { src 127.0.0.0/8 } !{ http_auth(l) }", Closed, USERS),
    ("http-request auth if { path_beg /x } or !{ http_auth(l) }", Closed, USERS),
    ("http-request set-path /z unless { http_auth(l) }", Closed, USERS),
    ("http-request deny if { req.body_size gt 3 } !{ http_auth(l) }", Closed, USERS),
    ("http-request auth if { req.body_size gt 3 } !{ http_auth(l) }", Closed, USERS),
    ("use_backend bb if !{ http_auth(l) } or { req.body_size gt 3 }", Closed, USERS),
    ("http-request allow unless { http_auth(l) }", Exactly, USERS),
    // Cookies are a field, too.
    ("http-request del-header cookie\nhttp-request deny unless { cook(k) 1 }", Closed, COOKIES),
    ("http-request set-header cookie k=1\nhttp-request deny if { cook(k) 1 }", Closed, COOKIES),
    // Words: a dollar, a byte by its number, an empty one, blanks of others.
    ("http-request deny unless { path_reg ^/pub\\$ }", Closed, &["GET /pub", "GET /x"]),
    ("http-request deny if { req.fhdr(x) \\x61 }", Exactly, ITEMS),
    ("http-request deny if { path_beg /a } \"\" { path /b }", Closed, &["GET /a", "GET /b"]),
    ("acl ok path_beg /a \"\" /b\nhttp-request deny unless ok", Closed, &["GET /a", "GET /b"]),
    // What is counted, and by what.
    (
        "stick-table type ip size 1k expire 60s store http_req_rate(60s)\nhttp-request track-sc0 src\n\
         http-request deny if { sc_http_req_rate(0) gt 0 }",
        Closed,
        &["GET /"],
    ),
    (
        "stick-table type string len 3 size 1k expire 60s store http_req_rate(60s)\nhttp-request track-sc0 req.fhdr(x)\n\
         http-request deny if { sc_http_req_rate(0) gt 1 }",
        Closed,
        &["GET /6 X: abcd"],
    ),
    (
        "stick-table type string size 1k expire 60s store http_req_rate(60s)\nhttp-request set-header x 1\n\
         http-request track-sc0 req.fhdr(x)\nhttp-request deny if { sc_http_req_rate(0) gt 1 }",
        Closed,
        &["GET /6 X: abcd"],
    ),
    // What is not there where it is asked for never holds.
    ("tcp-request connection reject unless { hdr(host) a.test }", Closed, &["GET /"]),
    ("tcp-request session reject unless METH_GET", Closed, &["GET /"]),
    ("http-request deny unless { req.ssl_sni a.test }", Closed, &["GET /"]),
    ("http-request deny unless { url_beg /pub }", Closed, &["GET /pub", "GET http://a.test/pub"]),
    ("http-request deny unless { hdr(connection) -i close }", Closed, &["GET /"]),
    ("http-request deny unless { nbsrv(aa) gt 5 }", Closed, &["GET /"]),
    ("http-request deny if { nbsrv(aa) lt 1 }", Closed, &["GET /"]),
    // What is taken away is not asked for, and what is changed is not put in.
    ("http-request del-header authorization\nhttp-request auth unless { http_auth(l) }", Closed, USERS),
    ("http-request set-header x b\nhttp-request redirect location /%[req.fhdr(x)]", Closed, ITEMS),
    // Fields by the start of their names; what is done to paths before rules.
    ("http-request del-header x -m beg\nhttp-request deny if { hdr(xy) a }", Closed, &["GET / Xy: a"]),
    ("http-request del-header x -m str\nhttp-request deny if { hdr(x) a }", Exactly, ITEMS),
    ("http-request normalize-uri path-merge-slashes\nhttp-request deny if { path_beg /x }", Closed, &["GET //x"]),
    // Each list ends for itself, and what is about connections comes first.
    (
        "tcp-request connection accept if { src 127.0.0.0/24 }\ntcp-request session reject if { src 127.0.0.1 }",
        Closed,
        &["GET /"],
    ),
    (
        "tcp-request session accept if { src 127.0.0.0/24 }\ntcp-request content reject if { src 127.0.0.1 }",
        Closed,
        &["GET /"],
    ),
    ("monitor-uri /pub\ntcp-request connection reject if { src 127.0.0.1 }", Closed, &["GET /pub", "GET /"]),
    ("monitor-uri /pub\nhttp-request deny", Exactly, &["GET /pub", "GET /"]),
    ("tcp-request inspect-delay 1s\ntcp-request content accept if HTTP", Exactly, &["GET /"]),
    // Options and responses.
    ("option http-restrict-req-hdr-names delete", Exactly, &["GET / X.Y: 1"]),
    ("http-response deny if { status 200 }", Closed, &["GET /"]),
    ("http-response set-header x-a 1 if { hdr(x) a }", Closed, &["GET / X: a"]),
    ("use_backend off if { path_beg /off }", Exactly, &["GET /off", "GET /"]),
];

/// Fields of which some have the item `a`.
const ITEMS: &[&str] = &[
    "GET /",
    "GET / X: a",
    "GET / X: A",
    "GET / X: b",
    "GET / X: b, a",
    "GET / X: a ,b",
    "GET / X: ab,ba",
    "GET / X: \"b,a\"",
    "GET / X: \"b,a",
    "GET / X: b|X: a",
    "GET / X: a|X: b",
];

const COOKIES: &[&str] = &["GET /", "GET / Cookie: k=1", "GET / Cookie: k=2"];

const USERS: &[&str] = &[
    "GET /",
    "GET /x",
    "GET / Authorization: Basic dTpw",
    "GET /x Authorization: Basic dTpw",
    "GET / Authorization: Basic dTp4",
];

const HOSTS: &[&str] = &[
    "GET /",
    "GET / Host: b.test",
    "GET / Host: www.b.test",
    "GET / Host: xb.test",
    "GET / Host: b.test.evil.example",
    "GET / Host: b.testing",
];

/// Frontends that forward bytes. Their default is the backend `ta`.
const TCP: &[Row] = &[
    ("tcp-request inspect-delay 1s\ntcp-request content accept if { req.ssl_hello_type 1 }", Exactly, &["GET /bytes"]),
    (
        "tcp-request inspect-delay 1s\ntcp-request content accept if { req.ssl_hello_type 1 }\n\
         tcp-request content reject",
        Closed,
        &["GET /bytes"],
    ),
    ("tcp-request content reject if !{ req.ssl_hello_type 1 }", Closed, &["GET /bytes"]),
    ("tcp-request content reject if HTTP", Closed, &["GET /bytes"]),
    ("use_backend tb if { ssl_fc_sni a.test }", Closed, &["GET /bytes"]),
    ("use_backend aa if { src 127.0.0.0/8 }", Closed, &["GET /bytes"]),
    ("use_backend tr if { src 127.0.0.1 }", Closed, &["GET /bytes"]),
    ("use_backend hh if { src 127.0.0.1 }", Closed, &["GET /secret/bytes"]),
    ("use_backend toff if { src 127.0.0.1 }", Closed, &["GET /bytes"]),
    (
        "tcp-request connection accept if { src 127.0.0.0/24 }\ntcp-request content reject if { src 127.0.0.1 }",
        Closed,
        &["GET /bytes"],
    ),
    (
        "tcp-request connection reject if { src 127.0.0.2 }\ntcp-request content accept if { src 127.0.0.1 }\n\
         tcp-request content reject",
        Exactly,
        &["GET /bytes"],
    ),
    ("tcp-request connection reject unless { src 127.0.0.1 }", Exactly, &["GET /bytes"]),
    ("tcp-request connection reject if { src ::/0 }", Closed, &["GET /bytes"]),
    ("tcp-request content reject if { src_port gt 1 }", Closed, &["GET /bytes"]),
    (
        "stick-table type ip size 1k expire 60s store conn_rate(60s)\ntcp-request connection track-sc0 src\n\
         use_backend tb if { sc_conn_rate(0) gt 3 }",
        Closed,
        &["GET /bytes/6"],
    ),
    (
        "stick-table type ip size 1k expire 60s store conn_rate(60s)\ntcp-request connection track-sc0 src\n\
         tcp-request connection reject if { sc_conn_rate(0) gt 3 } or { src 127.0.0.2 }",
        Closed,
        &["GET /bytes/6"],
    ),
];

const BACKENDS: &str = "
backend aa
    server one @A@
backend bb
    server one @B@
backend cc
    server one @C@
backend off
    disabled
    server one @B@
backend hh
    http-request deny if { path_beg /secret }
    server one @B@
backend ta
    mode tcp
    server one @A@
backend tb
    mode tcp
    server one @B@
backend tr
    mode tcp
    tcp-request content reject if { src 127.0.0.1 }
    server one @B@
backend toff
    mode tcp
    disabled
    server one @B@
";

const DEFAULTS: &str = "
global
    maxconn 1000
    expose-experimental-directives
userlist l
    user u insecure-password p
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
";

fn beside(rows: &[Row], mode: &str, default: &str) {
    let place = |rules: &str, name: &str| {
        let rules = rules.replace('\n', "\n    ");
        format!("frontend {name}\n    mode {mode}\n    bind @{name}@\n    {rules}\n    default_backend {default}\n")
    };
    compare(&Program::Haproxy, rows, place, (DEFAULTS, BACKENDS));
}

#[test]
fn what_requests_are_rejected_for() {
    beside(HTTP, "http", "aa");
}

#[test]
fn what_connections_are_rejected_for() {
    beside(TCP, "tcp", "ta");
}

/// What HAProxy looks at in what servers send is not looked at here, and so nobody gets there.
#[test]
fn what_servers_may_not_send_nobody_gets() {
    for (mode, why) in [("tcp", "nobody passes"), ("http", "answered 501")] {
        let both = Beside::start(
            &Program::Haproxy,
            &format!(
                "{DEFAULTS}frontend f\n    mode {mode}\n    bind @f@\n    default_backend b\n\
                 backend b\n    mode {mode}\n    tcp-response content reject\n    server one @A@\n"
            ),
            &["f"],
        );
        let [theirs, ours] = both.ask("f", "GET / HTTP/1.1\nHost: a.test");
        assert!([&theirs, &ours].iter().all(|outcome| outcome.status != 200), "{mode}: {theirs:?} {ours:?}");
        assert!(both.left_out().iter().any(|line| line.contains(why)), "{mode}: {:?}", both.left_out());
    }
}

#[test]
fn what_is_closed_is_a_finding() {
    findings("haproxy", HTTP, |rules| {
        let rules = rules.replace('\n', "\n    ");
        format!("{DEFAULTS}frontend f\n    bind 127.0.0.1:8080\n    {rules}\n    default_backend aa\n{BACKENDS}")
    });
}
