//! What nginx means by a word is what is imported, or the place is closed with a finding: nobody gets in by a near meaning.

use super::beside::{Beside, Program, import};

/// Beside nginx: method, path, fields, what nginx responds, and what the import does.
type Row = (&'static str, &'static str, &'static str, u16, u16);

fn check(text: &str, rows: &[Row]) -> Beside {
    let both = Beside::start(&Program::Nginx, text, &["web"]);
    let mut wrong = Vec::new();
    for (method, path, fields, theirs, ours) in rows {
        let host = if fields.contains("Host:") { "" } else { "\nHost: a.test" };
        let more = if fields.is_empty() { String::new() } else { format!("\n{fields}") };
        let found = both.ask("web", &format!("{method} {path} HTTP/1.1{host}{more}"));
        if found.clone().map(|one| one.status) != [*theirs, *ours] {
            wrong.push(format!("{method} {path} {fields}: {found:?}, not {:?}", [theirs, ours]));
        } else if theirs == ours && found[0] != found[1] {
            wrong.push(format!("{method} {path} {fields}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), both.yaml());
    both
}

/// Each decoded character of a path is one, however it is sent.
#[test]
fn expressions_are_on_decoded_paths() {
    let text = "server {
        listen @web@;
        location ~ ^/a.b$ { deny all; proxy_pass http://@B@; }
        location ~ \"^/.{3}/s\" { deny all; proxy_pass http://@B@; }
        location ~* \"^/secret (x|y)\" { deny all; proxy_pass http://@B@; }
        location ~ ^/@fs/ { deny all; proxy_pass http://@B@; }
        location / { proxy_pass http://@A@; }
    }";
    let both = check(
        text,
        &[
            ("GET", "/axb", "", 403, 403),
            ("GET", "/a%20b", "", 403, 403),
            ("GET", "/a%40b", "", 403, 403),
            ("GET", "/a%7bb", "", 403, 403),
            ("GET", "/a%20%20b", "", 200, 200),
            ("GET", "/a20b", "", 200, 200),
            ("GET", "/a%20b/s", "", 403, 403),
            ("GET", "/%20/s", "", 200, 200),
            ("GET", "/%20%40%7d/s", "", 403, 403),
            ("GET", "/secret%20x", "", 403, 403),
            ("GET", "/SECRET%20Y", "", 403, 403),
            ("GET", "/secretx", "", 200, 200),
            ("GET", "/@fs/x", "", 403, 403),
            ("GET", "/%40fs/x", "", 403, 403),
        ],
    );
    assert_eq!(both.printed.status.code(), Some(0), "{:?}", both.left_out());
}

/// A folder is redirected to before expressions are looked at, and before what stands within others; one rule for limited methods has all paths of its location.
#[test]
fn folders_and_limited_methods_come_before_what_is_within() {
    let both = check(
        "server {
            listen @web@;
            location ~ a$ { return 204; }
            location / { allow 127.0.0.1; deny all; location /a { proxy_pass http://@B@; } proxy_pass http://@A@; }
            location ^~ /a/ { proxy_pass http://@A@; }
            location /m/ { rewrite ^/m/q(/.*)?$ /q/$1 break; limit_except GET { allow 127.0.0.0/8; deny all; } proxy_pass http://@A@/y/; }
        }",
        &[
            ("GET", "/a", "", 301, 301),
            ("PUT", "/a?k=1", "", 301, 301),
            ("GET", "/ba", "", 204, 204),
            ("GET", "/a/x", "", 200, 200),
            ("GET", "/m/q/x", "", 200, 200),
            ("PUT", "/m/x", "", 200, 200),
            // What replaces the start of a location is not carried to paths by expression.
            ("PUT", "/m/q/x", "", 200, 501),
        ],
    );
    assert_eq!(both.printed.status.code(), Some(1));
}

/// What an audit reached: each word means here what it means there, or its place is closed.
#[test]
fn near_meanings_are_closed() {
    let both = check(
        "map $http_x $bad { default 0; \\~^x 1; }
         geo $twice { default 0; 127.0.0.1 0; 127.0.0.1 1; }
         geo $none { default 0; 10.0.0.0/8 1; 10.0.0.0/9 0; 10.128.0.0/9 0; }
         server {
            listen @web@;
            set $b @B@;
            location /map { if ($bad) { return 403; } proxy_pass http://@A@; }
            location /twice { if ($twice) { return 403; } proxy_pass http://@A@; }
            location /none { if ($none) { proxy_pass http://@B@; } proxy_pass http://@A@; }
            location /made/ { proxy_pass http://$b/pub/; }
            location /real { set_real_ip_from 127.0.0.0/8; real_ip_header X-Real-IP; deny 10.0.0.0/8; proxy_pass http://@A@; }
            location /mapped { allow ::ffff:127.0.0.0/104; deny all; proxy_pass http://@A@; }
            location /asked { auth_request /auth; proxy_pass http://@A@; }
            location = /auth { internal; proxy_pass http://@B@$request_uri; }
            location /slashes { deny all; }
            location //slashes { proxy_pass http://@A@; }
         }",
        &[
            ("GET", "/map", "X: ~^x", 403, 501),
            ("GET", "/twice", "", 403, 403),
            ("GET", "/none", "", 200, 501),
            ("GET", "/made/secret", "", 200, 501),
            ("GET", "/real", "X-Real-IP: 10.0.0.5", 403, 501),
            ("GET", "/mapped", "", 403, 403),
            ("GET", "/asked", "", 200, 403),
            ("GET", "//slashes", "", 403, 404),
        ],
    );
    assert_eq!(both.printed.status.code(), Some(1));
}

/// Rules that end a request count before those that only choose where it goes, of which the last that holds counts.
#[test]
fn rules_go_on_behind_an_if_that_forwards() {
    let text = "server {
        listen @web@;
        server_name a.test;
        location / { if ($request_method = POST) { proxy_pass http://@B@; } if ($http_y = 1) { return 403; } proxy_pass http://@A@; }
        location /two/ { if ($request_method = POST) { proxy_pass http://@B@; } if ($remote_addr = 127.0.0.1) { proxy_pass http://@C@; } proxy_pass http://@A@; }
        location /return/ { if ($request_method = POST) { proxy_pass http://@B@; } return 403; }
        location /constant/ { if ($scheme = http) { proxy_pass http://@B@; } if ($http_y) { return 403; } proxy_pass http://@A@; }
        location /empty/ { if ($request_method = POST) { proxy_pass http://@B@; } if ($http_y) { } proxy_pass http://@A@; }
        location /rewrite/ { if ($request_method = POST) { proxy_pass http://@B@; } rewrite ^/rewrite/(.*)$ /$1 break; proxy_pass http://@A@; }
        location /field/ { if ($http_x = 1) { proxy_pass http://@B@; } return 403; }
        location /value/ { if ($http_x = 1) { return 200 ok; } return 403; }
        location /get/ { if ($request_method = GET) { return 200 ok; } return 403; }
        location /break/ { if ($request_method = POST) { proxy_pass http://@B@; break; } if ($http_y) { return 403; } proxy_pass http://@A@; }
        location /part/ { if ($request_method ~ PO) { return 403; } proxy_pass http://@A@; }
        location /ends/ { if ($request_method ~ ^GET|POST$) { return 403; } proxy_pass http://@A@; }
        location /case/ { if ($request_method ~* ^(get|post)$) { return 403; } proxy_pass http://@A@; }
        location /network/ { if ($remote_addr = 127.0.0.0/8) { return 200 ok; } return 403; }
    }";
    let both = check(
        text,
        &[
            ("GET", "/", "", 200, 200),
            ("POST", "/", "", 200, 200),
            ("POST", "/", "Y: 1", 403, 403),
            ("GET", "/", "Y: 1", 403, 403),
            ("POST", "/two/", "", 200, 200),
            ("GET", "/return/", "", 403, 403),
            ("POST", "/return/", "", 403, 403),
            ("GET", "/constant/", "", 200, 200),
            ("GET", "/constant/", "Y: 1", 403, 403),
            ("POST", "/empty/", "Y: 1", 200, 501),
            ("GET", "/empty/", "", 200, 501),
            ("POST", "/rewrite/x", "", 200, 501),
            ("GET", "/field/", "X: 1", 403, 403),
            ("GET", "/field/", "X: 0\nX: 1", 403, 403),
            ("GET", "/value/", "X: 1", 200, 501),
            ("GET", "/value/", "X: 0\nX: 1", 403, 501),
            ("GET", "/value/", "", 403, 403),
            ("GET", "/get/", "", 200, 200),
            ("HEAD", "/get/", "", 403, 403),
            ("POST", "/break/", "Y: 1", 200, 501),
            ("GET", "/break/", "Y: 1", 403, 403),
            ("POST", "/part/", "", 403, 501),
            ("GET", "/part/", "", 200, 501),
            ("GET", "/ends/", "", 403, 501),
            ("POST", "/case/", "", 403, 403),
            ("PUT", "/case/", "", 200, 200),
            ("GET", "/network/", "", 403, 403),
        ],
    );
    assert_eq!(both.printed.status.code(), Some(1));
}

/// Methods that `limit_except` takes meet what stands in it, and no rule of the location.
#[test]
fn limited_methods_meet_no_rule() {
    let text = "server {
        listen @web@;
        location / { limit_except GET { deny all; } if ($http_x) { return 200 ok; } proxy_pass http://@A@; }
        location /return/ { limit_except GET { deny all; } return 200 ok; }
        location /allowed/ { limit_except GET { allow all; } return 403; }
        location /other/ { limit_except GET { proxy_pass http://@B@; } proxy_pass http://@A@; }
        location /rewrite/ { limit_except GET POST { deny all; } rewrite ^/rewrite/(.*)$ /$1 break; proxy_pass http://@A@; }
        location /listed/ { limit_except POST { allow 192.0.2.0/24; deny all; } proxy_pass http://@A@; }
    }";
    check(
        text,
        &[
            ("GET", "/", "", 200, 200),
            ("POST", "/", "X: 1", 403, 403),
            ("GET", "/return/", "", 200, 200),
            ("HEAD", "/return/", "", 200, 200),
            ("POST", "/return/", "", 403, 403),
            ("GET", "/allowed/", "", 403, 403),
            ("GET", "/other/x", "", 200, 200),
            ("POST", "/other/x", "", 200, 200),
            ("POST", "/rewrite/x", "", 200, 200),
            ("PUT", "/rewrite/x", "", 403, 403),
            ("GET", "/listed/x", "", 403, 403),
            ("POST", "/listed/x", "", 200, 200),
        ],
    );
}

/// A folder without its last slash is redirected to it, unless a location of its own takes it.
#[test]
fn folders_without_a_slash() {
    let text = "server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /one/ { proxy_pass http://@B@; }
        location = /one { return 403; }
        location /two/ { proxy_pass http://@B@; }
        location /two { return 403; }
        location /three { return 403; location /three/ { proxy_pass http://@B@; } }
        location = /four/ { proxy_pass http://@B@; }
        location /five/ { deny all; proxy_pass http://@B@; }
        location ~ ^/five$ { return 403; }
    }";
    let rows: Vec<Row> = [
        ("/one", 403),
        ("/one/", 200),
        ("/two", 403),
        ("/two/", 200),
        ("/twofold", 403),
        ("/three", 301),
        ("/three/", 200),
        ("/four", 301),
        ("/four/", 200),
        ("/five", 301),
        ("/five?a=b", 301),
        ("/five/", 403),
    ]
    .map(|(path, status)| ("GET", path, "", status, status))
    .to_vec();
    check(text, &rows);
}

/// Hosts of the default server are those that no other server has.
#[test]
fn hosts_belong_to_the_server_that_names_them() {
    let text = "
    server {
        listen @web@;
        server_name a.test;
        rewrite ^/adm /denied redirect;
        if ($host = x.b.test) { return 200 ok; }
        if ($host = z.test) { return 200 ok; }
        if ($host = A.test) { return 200 upper; }
        location / { proxy_pass http://@A@; }
    }
    server { listen @web@; server_name .b.test; deny all; location / { proxy_pass http://@B@; } }";
    check(
        text,
        &[
            ("GET", "/", "Host: a.test", 200, 200),
            ("GET", "/", "Host: A.test", 200, 200),
            ("GET", "/", "Host: x.b.test", 403, 403),
            ("GET", "/", "Host: b.test", 403, 403),
            ("GET", "/", "Host: z.test", 200, 200),
            ("GET", "/adm", "Host: z.test", 302, 302),
            ("GET", "/", "Host: y.test", 200, 200),
        ],
    );
    let text = "server { listen @web@; server_name a.test; if ($host = a.test) { return 403; } location / { proxy_pass http://@A@; } }";
    let both = check(text, &[("GET", "/", "Host: a.test", 403, 403), ("GET", "/", "Host: b.test", 200, 501)]);
    assert!(both.left_out().iter().any(|line| line.contains("without a host")), "{:?}", both.left_out());
    let text = "
    server { listen @web@; server_name a.test; location / { proxy_pass http://@A@; } }
    server { listen @web@; server_name ~^b c.*; location / { proxy_pass http://@B@; } }";
    let both = check(
        text,
        &[
            ("GET", "/", "Host: a.test", 200, 200),
            ("GET", "/", "Host: b.test", 200, 501),
            ("GET", "/", "Host: c.test", 200, 501),
        ],
    );
    assert_eq!(both.printed.status.code(), Some(1));
    let text = "
    server { listen @web@; server_name a.test; location / { proxy_pass http://@A@; } }
    server { listen @web@; server_name \"\"; deny all; location / { proxy_pass http://@B@; } }";
    let both = check(text, &[("GET", "/", "", 200, 200), ("GET", "/", "Host: b.test", 200, 501)]);
    assert!(both.left_out().iter().any(|line| line.contains("requests without a host")), "{:?}", both.left_out());
}

/// What an import prints for the inside of a server, with what stands before it.
fn printed(before: &str, inner: &str) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nginx.conf");
    std::fs::write(&file, format!("{before}\nserver {{ listen 127.0.0.1:8080; server_name a.test; {inner} }}"))
        .unwrap();
    let printed = import("nginx", &file);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (printed.status.code(), text(printed.stdout), text(printed.stderr))
}

const PASS: &str = "proxy_pass http://127.0.0.1:1;";

#[test]
fn conditions_that_are_not_the_same_are_closed() {
    for (before, inner) in [
        ("", "location / { if ($arg_x = 1) { return 403; } PASS }"),
        ("", "location / { if ($arg_x) { return 403; } PASS }"),
        ("", "location / { if ($cookie_x = 1) { return 403; } PASS }"),
        ("", "location / { if ($http_host = a.test) { return 403; } PASS }"),
        ("", "location / { if ($http_cookie ~ a=1) { return 403; } PASS }"),
        ("", "location / { if ($http_x_forwarded_for = 192.0.2.1) { return 403; } PASS }"),
        ("", "location / { if ($http_x_original_url) { return 403; } PASS }"),
        ("", "location / { if ($http_client_cert) { return 403; } PASS }"),
        ("", "location / { if ($http_cf_connecting_ip = \"\") { return 403; } PASS }"),
        ("", "location / { if ($http_connection = close) { return 403; } PASS }"),
        ("underscores_in_headers on;", "location / { if ($http_x_y = 1) { return 403; } PASS }"),
        ("split_clients $uri $http_k { * 1; }", "location / { if ($http_k) { return 403; } PASS }"),
        ("", "location / { set $http_x $uri; if ($http_x = /) { return 403; } PASS }"),
        ("", "location / { set $a $b; set $b 1; if ($a = 1) { return 403; } PASS }"),
        ("", "set $args a=1; location / { PASS }"),
        ("", "location ~ ^/(?<http_x>.*)$ { if ($http_x = a) { return 403; } PASS }"),
        ("", "location / { if (-f $request_filename) { return 403; } PASS }"),
        ("", "location / { secure_link x; if ($secure_link = 0) { return 403; } PASS }"),
        ("", "location / { try_files $uri =403; PASS }"),
        ("", "location / { stub_status; PASS }"),
        ("", "location / { of_another_module on; PASS }"),
        ("", "location / { limit_except GET { proxy_method POST; deny all; } PASS }"),
        ("", "location = /x { proxy_pass http://127.0.0.1:1/y?k=1; }"),
        ("", "location ~ ^/x(.*)$ { proxy_pass http://127.0.0.1:1/y$1; }"),
        ("", "location / { rewrite ^/x$ /y? break; PASS }"),
        ("", "rewrite ^/a/(.*)$ /b/$1 break; location / { PASS }"),
    ] {
        let inner = inner.replace("PASS", PASS);
        let (status, text, said) = printed(before, &inner);
        let is_said = said.contains("left out: ") && text.contains("status: 501");
        assert!(status == Some(1) && is_said, "{before} {inner}: {status:?} {said}\n{text}");
    }
}

#[test]
fn guards_that_are_not_the_same_let_nobody_pass() {
    let auth = |inner: &str| format!("location / {{ auth_request /auth; {PASS} }} {inner}");
    let off = "internal; proxy_pass_request_headers off;";
    let to = |more: &str| format!("{off} {more} proxy_pass http://127.0.0.1:1/check;");
    for (before, inner) in [
        ("", auth(&format!("location /auth {{ {} }} location ~ ^/auth {{ return 401; }}", to("")))),
        ("", auth(&format!("location = /auth {{ {} }}", to("proxy_set_header X-Key 1;")))),
        ("", auth(&format!("location /auth {{ {} location = /auth {{ return 401; }} }}", to("")))),
        ("", auth(&format!("rewrite ^/auth /no last; location = /auth {{ {} }}", to("")))),
        ("limit_req_zone $uri zone=z:1m rate=1r/s;", format!("location / {{ limit_req zone=z; {PASS} }}")),
        ("limit_conn_zone $uri zone=z:1m;", format!("location / {{ limit_conn z 1; {PASS} }}")),
        (
            "map $uri $http_k { default 1; } limit_req_zone $http_k zone=z:1m rate=1r/s;",
            format!("location / {{ limit_req zone=z; {PASS} }}"),
        ),
        (
            "",
            format!(
                "location / {{ satisfy any; auth_basic x; auth_basic_user_file u; auth_request /auth; {PASS} }} location = /auth {{ {} }}",
                to("")
            ),
        ),
    ] {
        let (status, text, said) = printed(before, &inner);
        let is_closed = text.contains("policies: [closed") || text.contains("closed]") || text.contains("status: 501");
        assert!(status == Some(1) && is_closed, "{before} {inner}: {status:?} {said}\n{text}");
    }
    // What the service gets is what is sent here, too.
    for (inner, piece) in [
        (to("proxy_set_header Authorization $http_authorization;"), "send: authorization"),
        (to("proxy_set_header Host $host;"), "host: \"{host}\""),
        (PASS.to_owned(), "send: \"*\""),
    ] {
        let exact = auth(&format!("location = /auth {{ {inner} }}"));
        let (status, text, said) = printed("", &exact);
        assert!(status == Some(0) && text.contains(piece), "{said}\n{text}");
    }
}

/// Handshakes for a name that is not the default one are not rejected here: nothing is served to it.
#[test]
fn a_name_whose_handshakes_are_rejected_gets_nothing() {
    let dir = crate::harness::certificates(&[("a.test", false), ("b.test", false)]);
    let at = dir.path().display();
    let server = |name: &str, number: usize, more: &str| {
        let pair = format!(
            "ssl_certificate {at}/certs/{number}-Ecdsa.pem; ssl_certificate_key {at}/certs/{number}-Ecdsa.pem;"
        );
        format!("server {{ listen 127.0.0.1:8443 ssl; server_name {name}; {pair} {more} location / {{ {PASS} }} }}\n")
    };
    let file = dir.path().join("nginx.conf");
    let rejected = server("b.test", 1, "ssl_reject_handshake on;");
    std::fs::write(&file, format!("{}{rejected}", server("a.test", 0, ""))).unwrap();
    let printed = import("nginx", &file);
    let said = String::from_utf8(printed.stderr).unwrap();
    assert!(printed.status.code() == Some(1) && said.contains("handshakes for one name are not rejected"), "{said}");
}

/// A variable of a `map` or `geo` is what that looks at: a field, the method, the client.
#[test]
fn conditions_on_what_the_configuration_defines() {
    let both = Beside::start(
        &Program::Nginx,
        "geo $blocked { default 0; 192.0.2.0/24 1; 127.0.0.0/8 0; 127.0.0.9 1; }
        geo $outside { default 1; 127.0.0.0/8 0; }
        map $http_user_agent $bad_agent { default 0; ~*(sqlmap|nikto) 1; curl 1; }
        map $http_x_key $has_no_key { default 1; secret 0; other-one 0; }
        map $http_x_kind $is_kind { a 1; b yes; '' 1; }
        map $http_x_kind $http_k { default 0; z 1; }
        map $request_method $is_write { default 0; POST 1; PUT 1; }
        map $request_method $is_read { default 0; GET 1; HEAD 1; }
        server { listen @web@;
            if ($blocked) { return 403; }
            if ($outside = 1) { return 403; }
            if ($bad_agent = 1) { return 403; }
            location / { proxy_pass http://@A@; }
            location /key/ { if ($has_no_key) { return 401; } proxy_pass http://@A@; }
            location /kind/ { if ($is_kind = 1) { return 402; } proxy_pass http://@A@; }
            location /named/ { if ($http_k) { return 410; } proxy_pass http://@A@; }
            location /write/ { if ($is_write) { return 405; } proxy_pass http://@A@; }
            location /read/ { if ($is_read = 0) { return 405; } proxy_pass http://@A@; }
        }",
        &["web"],
    );
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
    let mut requests = Vec::new();
    for path in ["/", "/key/", "/kind/", "/write/", "/read/"] {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            requests.push(format!("{method} {path} HTTP/1.1\nHost: a.test"));
        }
        for agent in ["curl", "CURL", "curl/8", "x SqlMap", "nikt"] {
            requests.push(format!("GET {path} HTTP/1.1\nHost: a.test\nUser-Agent: {agent}"));
        }
    }
    for value in ["secret", "Secret", "secre", "secrets", "other-one", "other-on", "x", ""] {
        requests.push(format!("GET /key/ HTTP/1.1\nHost: a.test\nX-Key: {value}"));
    }
    for value in ["x", "z", "1"] {
        requests.push(format!("GET /named/ HTTP/1.1\nHost: a.test\nX-Kind: {value}\nK: 1"));
    }
    for value in ["a", "A", "b", "c", ""] {
        requests.push(format!("GET /kind/ HTTP/1.1\nHost: a.test\nX-Kind: {value}"));
    }
    both.compare(&requests.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
}

/// What is defined twice, made of the request, or not of one thing, closes what it decides about.
#[test]
fn variables_that_cannot_be_said_close_their_place() {
    for definition in [
        "map $http_x_a $v { default 0; ~^a 1; abc 0; }",
        "map $http_x_a $v { default 1; ~^a 0; }",
        "map $http_x_a $v { default 0; a $http_x_b; }",
        "map $http_x_a$http_x_b $v { default 0; ab 1; }",
        "map $arg_a $v { default 0; a 1; }",
        "geo $http_x_a $v { default 0; 127.0.0.1 1; }",
        "map $remote_addr $v { default 0; 127.0.0.0/8 1; }",
        "geo $v { ranges; default 0; 127.0.0.1-127.0.0.2 1; }",
        "map $http_x_a $w { default 0; a 1; } map $w $v { default 0; 1 1; }",
    ] {
        let (yaml, said) = super::published::import(
            "nginx",
            &format!(
                "{definition}\nserver {{ listen 80; if ($v) {{ return 403; }} location / {{ proxy_pass http://127.0.0.1:1; }} }}"
            ),
        );
        assert!(said.contains("answered 501") && yaml.contains("status: 501"), "{definition}: {said}{yaml}");
    }
}

#[test]
fn what_must_not_follow_is_carried() {
    let both = Beside::start(
        &Program::Nginx,
        "server { listen @web@;
            location ~ /\\.(?!well-known) { deny all; }
            location ~ ^/app/(?!api/|static) { proxy_pass http://@B@; }
            location / { proxy_pass http://@A@; }
        }",
        &["web"],
    );
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
    let paths = [
        "/",
        "/.git",
        "/x/.env",
        "/.well-known/a",
        "/.well-know",
        "/a.b",
        "/app/",
        "/app/x",
        "/app/api",
        "/app/api/x",
        "/app/staticx",
        "/app/stat",
        "/app/.git",
        "/%2egit",
    ];
    both.compare_paths("a.test", &paths);
}

/// Clients get the status of the service, and nothing of its page.
#[test]
fn a_service_that_is_asked_responds_to_nobody() {
    for (status, rest) in [("401", ""), ("403", ""), ("302", ""), ("200", "error_page 404 /x;")] {
        let both = Beside::start(
            &Program::Nginx,
            &format!(
                "server {{ listen @web@; location = /auth {{ internal; proxy_pass http://@B@/status={status}; }}
                 location / {{ auth_request /auth; {rest} proxy_pass http://@A@; }} }}"
            ),
            &["web"],
        );
        let [theirs, ours] = both.ask("web", "GET / HTTP/1.1\nHost: a.test");
        let kept = |status: u16| if status >= 500 { 500 } else { status };
        assert_eq!((kept(theirs.status), &theirs.fields), (kept(ours.status), &ours.fields), "{}", both.yaml());
    }
}
