//! What guards a place in nginx guards it here, too, or the place is closed.

use std::path::Path;

use super::beside::{Beside, Program, import};
use crate::harness::certificates;

const GUARDED: &str = "
    server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /set/ { set $may 0; if ($arg_key = k) { set $may 1; } if ($may = 0) { return 403; } proxy_pass http://@A@; }
        location = /file { deny 127.0.0.1; alias @dir@/file; }
        location = /open { alias @dir@/file; }
        location /limited/ { limit_except GET { deny all; } rewrite ^/limited/(.*)$ /$1 break; proxy_pass http://@A@; }
        location /within/ { limit_except GET { deny all; } if ($arg_b = 1) { proxy_pass http://@B@; } proxy_pass http://@A@; }
        location /tried/ { root /nowhere; deny 127.0.0.1; try_files $uri @app; }
        location @app { proxy_pass http://@A@; }
        location /host/ { proxy_set_header Host $arg_tenant.x.test; proxy_pass http://@A@; }
        location /outer/ { internal; location /outer/in/ { return 200 in; } location /outer/pass/ { proxy_pass http://@A@; } }
        location = /inner { internal; return 200 in; }
        location /unread/ { if ($http_x !~ y) { return 200 instead; } proxy_pass http://@A@; }
        location /empty/ { if ($http_x_key = \"\") { return 403; } proxy_pass http://@A@; }
        location /full/ { if ($http_x_key != \"\") { return 403; } proxy_pass http://@A@; }
        location /star/ { if ($arg_k ~ ^a*$) { return 403; } proxy_pass http://@A@; }
        location /asked/ { auth_request /auth; proxy_pass http://@A@; }
        location /over/ { deny 127.0.0.1; if ($arg_b = 1) { break; } return 200 open; }
        location = /auth { if ($arg_no) { return 403; } proxy_pass http://@C@; }
    }";

#[test]
fn what_guards_a_place_guards_it_here() {
    let dir = certificates(&[("a.test", false)]);
    std::fs::write(dir.path().join("file"), "a file").unwrap();
    let both = Beside::start_in(&Program::Nginx, GUARDED, &["web"], dir);
    let rows = [
        ("GET", "/", "", 200, 200),
        ("GET", "/set/", "", 403, 501),
        ("GET", "/set/?key=k", "", 200, 501),
        ("GET", "/file", "", 403, 501),
        ("GET", "/open", "", 200, 200),
        ("POST", "/limited/x", "", 403, 403),
        ("POST", "/within/x?b=1", "", 403, 403),
        ("GET", "/tried/x", "", 403, 501),
        ("GET", "/host/x?tenant=a", "", 200, 501),
        ("GET", "/outer/in/x", "", 404, 404),
        ("GET", "/outer/pass/x", "", 404, 404),
        ("GET", "/inner", "", 404, 404),
        ("GET", "/unread/x", "", 200, 501),
        ("GET", "/empty/x", "", 403, 403),
        ("GET", "/empty/x", "X-Key:", 403, 403),
        ("GET", "/empty/x", "X-Key: k", 200, 200),
        ("GET", "/full/x", "", 200, 200),
        ("GET", "/full/x", "X-Key:", 200, 200),
        ("GET", "/full/x", "X-Key: k", 403, 403),
        ("GET", "/star/x", "", 403, 501),
        ("GET", "/star/x?k=", "", 403, 501),
        ("GET", "/star/x?k=aa", "", 403, 501),
        ("GET", "/star/x?k=b", "", 200, 501),
        ("GET", "/asked/x", "", 200, 403),
        ("GET", "/over/x?b=1", "", 403, 501),
        ("GET", "/over/x", "", 200, 501),
    ];
    let mut wrong = Vec::new();
    for (method, path, field, theirs, ours) in rows {
        let more = if field.is_empty() { String::new() } else { format!("\n{field}") };
        let found = both.ask("web", &format!("{method} {path} HTTP/1.1\nHost: a.test{more}")).map(|one| one.status);
        if (theirs != 0 && found[0] != theirs) || found[1] != ours {
            wrong.push(format!("{method} {path} {field}: {found:?}, not {:?}", [theirs, ours]));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), both.yaml());
    assert_eq!(both.printed.status.code(), Some(1));
}

/// A field that cannot be made is not that of the client.
#[test]
fn a_field_that_cannot_be_carried_is_not_the_clients() {
    let text = "server {
        listen @web@;
        location / { proxy_set_header X-User $remote_user; proxy_pass http://@A@; }
    }";
    let both = Beside::start(&Program::Nginx, text, &["web"]);
    let seen = both.ask("web", "GET / HTTP/1.1\nHost: a.test\nX-User: admin").map(|outcome| outcome.seen.unwrap().3);
    assert!(seen.iter().all(|fields| !fields.contains_key("x-user")), "{seen:?}");
}

/// The last address is the client, whether it is a proxy or not: ours would believe what stands before.
#[test]
fn a_list_is_not_asked_about_somebody_else() {
    let text = "
    set_real_ip_from 127.0.0.0/8;
    real_ip_header X-Forwarded-For;
    server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /office/ { allow 192.0.2.0/24; deny all; proxy_pass http://@A@; }
        location /if/ { if ($remote_addr = 127.0.0.9) { return 403; } proxy_pass http://@A@; }
    }";
    let both = Beside::start(&Program::Nginx, text, &["web"]);
    for (path, expected) in [("/", [200, 200]), ("/office/x", [403, 403]), ("/if/x", [403, 501])] {
        let request = format!("GET {path} HTTP/1.1\nHost: a.test\nX-Forwarded-For: 192.0.2.7, 127.0.0.9");
        assert_eq!(both.ask("web", &request).map(|outcome| outcome.status), expected, "{path}\n{}", both.yaml());
    }
}

/// nginx here has none of these modules, so that only what is written is looked at.
#[test]
fn what_other_modules_guard_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nginx.conf");
    let of = |inner: &str| {
        let location = format!("location / {{ {inner} proxy_pass http://127.0.0.1:1; }}");
        std::fs::write(&file, format!("server {{ listen 127.0.0.1:8080; {location} }}")).unwrap();
        let printed = import("nginx", Path::new(&file));
        (printed.status.code(), String::from_utf8(printed.stdout).unwrap())
    };
    for inner in ["auth_spnego on;", "auth_oidc x;", "auth_radius on;", "app_protect_enable on;"] {
        let (status, text) = of(inner);
        assert!(status == Some(1) && text.contains("policies: [closed]"), "{inner}: {text}");
    }
    for inner in [
        "proxy_pass_request_headers on; rewrite_by_lua_block { x }",
        "server_rewrite_by_lua_file x;",
        "set_by_lua $x 'return 1';",
        "set $x 0; set_by_lua $x 'return 1'; if ($x) { return 403; }",
    ] {
        let (status, text) = of(inner);
        assert!(status == Some(1) && text.contains("status: 501"), "{inner}: {text}");
    }
    assert_eq!(of("auth_delay 1s;").0, Some(0));
}

#[test]
fn names_that_cannot_be_carried_open_no_other_server() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nginx.conf");
    let open = "server { listen 127.0.0.1:8080; location / { proxy_pass http://127.0.0.1:1; } }";
    for (name, inner, status) in [
        ("adm.*", "deny all;", 2),
        ("~^adm", "auth_basic x;", 2),
        ("~^adm", "location / { return 403; }", 2),
        ("~^adm", "", 1),
        ("adm.test", "deny all;", 0),
    ] {
        let guarded = format!("server {{ listen 127.0.0.1:8080; server_name {name}; {inner} }}");
        std::fs::write(&file, format!("{open}\n{guarded}\n")).unwrap();
        let printed = import("nginx", &file);
        let said = String::from_utf8(printed.stderr).unwrap();
        let is_refused = said.contains("nginx.conf:2: a server that keeps somebody out has names");
        assert!(printed.status.code() != Some(0) || status == 0, "{name} {inner}: {said}");
        assert_eq!(
            (is_refused, printed.status.code() == Some(2)),
            (status == 2, status == 2),
            "{name} {inner}: {said}"
        );
    }
}

#[test]
fn certificates_that_ocsp_would_be_asked_about_are_not_taken() {
    let dir = certificates(&[("a.test", false)]);
    let at = dir.path().display().to_string();
    let file = dir.path().join("nginx.conf");
    let of = |more: &str| {
        let pair = format!("ssl_certificate {at}/certs/0-Ecdsa.pem; ssl_certificate_key {at}/certs/0-Ecdsa.pem;");
        let other = "server { listen 127.0.0.1:8080; return 204; }";
        let client = format!("ssl_verify_client on; ssl_client_certificate {at}/certs/0-Ecdsa.pem; {more}");
        std::fs::write(&file, format!("server {{ listen 127.0.0.1:8443 ssl; {pair} {client} return 204; }}\n{other}"))
            .unwrap();
        let printed = import("nginx", &file);
        (printed.status.code(), String::from_utf8(printed.stderr).unwrap())
    };
    assert_eq!(of("").0, Some(0));
    let (status, said) = of("ssl_ocsp on;");
    assert!(status == Some(1) && said.contains("not asked by OCSP"), "{said}");
    let (status, said) = of("ssl_verify_depth 3;");
    assert!(status == Some(1) && said.contains("ssl_verify_depth 3"), "{said}");
}
