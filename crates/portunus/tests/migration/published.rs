//! Idioms of configurations that applications publish, beside the originals: subpaths, fields behind proxies, who has signed in, redirects.

use super::beside::{Beside, get};

/// An expression that covers the whole of another, longer location.
#[test]
fn a_subpath_is_stripped_in_a_location_within_it() {
    let site = Beside::nginx(
        "server {
            listen @web@;
            location /grafana/ { rewrite ^/grafana/(.*) /$1 break; proxy_pass http://@A@; }
            location /grafana/api/live/ { rewrite ^/grafana/(.*) /$1 break; proxy_pass http://@B@; }
            location ^~ /app/api { rewrite ^/app/(.*)$ /$1 break; proxy_pass http://@C@; }
            location / { proxy_pass http://@C@; }
        }",
    );
    site.nothing_is_left_out();
    let paths = [
        "/grafana/",
        "/grafana/d/x?y=1",
        "/grafana/api/live/ws",
        "/grafana/api/live/",
        "/grafana/api/lively",
        "/grafana/api/live/a%20b",
        "/app/api",
        "/app/apis/x",
        "/app/x",
        "/",
    ];
    site.compare_paths("a.test", &paths);
}

/// As Gitea's documentation has it: escapes stay as they are.
#[test]
fn a_subpath_is_taken_from_the_target_as_it_was_sent() {
    let site = Beside::nginx(
        "server {
            listen @web@;
            location /gitea/ { rewrite ^ $request_uri; rewrite ^/gitea(/.*) $1 break; proxy_pass http://@A@$uri; }
            location /sub/ { rewrite ^/sub(.*) $1 break; proxy_pass http://@C@; }
            location /more { rewrite ^/more(/.*)$ $1 break; proxy_pass http://@C@; }
            location / { proxy_pass http://@B@; }
        }",
    );
    site.nothing_is_left_out();
    site.compare_paths("a.test", &["/sub/", "/sub/x/y?z", "/sub", "/more", "/more/x", "/morex"]);
    site.compare_paths("a.test", &["/gitea/", "/gitea/a%2Fb", "/gitea/x?y=%2F", "/gitea/a%20b", "/gitea", "/x"]);
    let closed = Beside::nginx(
        "server {
            listen @web@;
            location /a/ { rewrite ^/a/(.*) /$1 break; proxy_pass http://@A@$uri; }
            location /b/ { rewrite ^/b/(.*) /$1 break; proxy_pass http://@A@/x$uri; }
            location /c/ { rewrite ^ $request_uri; proxy_pass http://@A@$uri; }
            location /d { rewrite ^/d(.*) $1 break; proxy_pass http://@A@; }
        }",
    );
    for path in ["/a/x", "/b/x", "/c/x", "/dx"] {
        assert_eq!(closed.ask("web", &get("a.test", path))[1].status, 501, "{path}: {}", closed.yaml());
    }
}

#[test]
fn a_target_is_handed_on_untouched() {
    let site = Beside::nginx(
        "server {
            listen @web@;
            location / { proxy_pass http://@A@$request_uri; }
            location /b/ { proxy_pass http://@B@$request_uri; }
        }",
    );
    site.nothing_is_left_out();
    site.compare_paths("a.test", &["/", "/a?b=c", "/a%2Fb?x=%2F", "/b/x%20y?z", "/b/a//b"]);
    let closed = Beside::nginx(
        "server {
            listen @web@;
            location / { proxy_pass http://@A@; }
            location /c/ { rewrite ^/c/(.*)$ /$1 break; proxy_pass http://@A@$request_uri; }
            location /d/ { proxy_pass http://@A@/x$request_uri; }
        }",
    );
    for path in ["/c/x", "/d/x"] {
        assert_eq!(closed.ask("web", &get("a.test", path))[1].status, 501, "{path}: {}", closed.yaml());
    }
}

/// Only the four fields that the program writes itself stand for those of the file.
#[test]
fn further_fields_of_proxies_go_on() {
    let site = Beside::nginx(
        "server {
            listen @web@;
            location / {
                proxy_pass http://@A@;
                proxy_set_header Host $http_host;
                proxy_set_header X-Forwarded-For $remote_addr;
                proxy_set_header X-Forwarded-Proto $scheme;
                proxy_set_header X-Forwarded-Host $host;
                proxy_set_header X-Forwarded-Port $server_port;
                proxy_set_header X-Forwarded-Ssl on;
                proxy_set_header X-Forwarded-Prefix /app;
                proxy_set_header X-Forwarded-Scheme $scheme;
                proxy_set_header X-Forwarded-Server edge;
            }
        }",
    );
    site.nothing_is_left_out();
    let [_, ours] = site.ask("web", "GET / HTTP/1.1\nHost: a.test\nX-Forwarded-Ssl: off\nX-Forwarded-Prefix: /evil");
    let fields = ours.seen.unwrap().3;
    for (field, value) in [
        ("x-forwarded-ssl", "on"),
        ("x-forwarded-prefix", "/app"),
        ("x-forwarded-scheme", "http"),
        ("x-forwarded-server", "edge"),
        ("x-forwarded-proto", "http"),
    ] {
        assert_eq!(fields.get(field).map(String::as_str), Some(value), "{field}: {fields:?}");
    }
}

/// Maps that take what a proxy in front says, and know it by themselves where nobody does: Harbor, Discourse, OnlyOffice, Home Assistant.
#[test]
fn maps_that_stand_for_what_is_known_anyway() {
    let site = Beside::nginx(
        "map $http_x_forwarded_proto $proto { default $http_x_forwarded_proto; '' $scheme; }
        map $http_host $forward_host { default $http_host; '' $host; }
        server {
            listen @web@;
            location / {
                proxy_pass http://@A@;
                proxy_set_header Host $forward_host;
                proxy_set_header X-Forwarded-Proto $proto;
                proxy_set_header X-Scheme $proto;
            }
        }",
    );
    site.nothing_is_left_out();
    assert!(site.yaml().contains("is believed of `trusted_proxies` alone"), "{}", site.yaml());
    site.compare_paths("a.test", &["/", "/x"]);
    let [_, ours] = site.ask("web", "GET / HTTP/1.1\nHost: a.test\nX-Forwarded-Proto: https");
    let fields = ours.seen.unwrap().3;
    for field in ["x-forwarded-proto", "x-scheme"] {
        assert_eq!(fields.get(field).map(String::as_str), Some("http"), "{fields:?}");
    }
    // A variable that is defined by anything else, too, is not known.
    for other in ["set $proto https;", "set $http_x_forwarded_proto https;"] {
        let site = Beside::nginx(&format!(
            "map $http_x_forwarded_proto $proto {{ default $http_x_forwarded_proto; '' $scheme; }}
            server {{ listen @web@; {other} location / {{ proxy_pass http://@A@; proxy_set_header X-Scheme $proto; }} }}"
        ));
        assert!(!site.yaml().contains("x-scheme: \"{scheme}\""), "{other}: {}", site.yaml());
    }
}

/// The service says who it is, and the application learns it, whatever the client says.
#[test]
fn who_has_signed_in_goes_on_under_the_name_that_the_application_reads() {
    let site = Beside::nginx(
        "server {
            listen @web@;
            location = /auth {
                internal;
                proxy_pass http://@B@/verify;
                proxy_pass_request_body off;
                proxy_set_header Content-Length \"\";
            }
            location / {
                auth_request /auth;
                auth_request_set $from $upstream_http_x_from_upstream;
                auth_request_set $by $upstream_http_x_powered_by;
                proxy_set_header X-From-Upstream $from;
                proxy_set_header X-User $by;
                proxy_pass http://@A@;
            }
        }",
    );
    site.nothing_is_left_out();
    let [theirs, ours] =
        site.ask("web", "GET / HTTP/1.1\nHost: a.test\nX-From-Upstream: evil\nX-User: evil\nX-Powered-By: evil");
    let (theirs, ours) = (theirs.seen.unwrap().3, ours.seen.unwrap().3);
    for (field, value) in [("x-from-upstream", "yes"), ("x-user", "x")] {
        assert_eq!(theirs.get(field).map(String::as_str), Some(value));
        assert_eq!(ours.get(field).map(String::as_str), Some(value), "{ours:?}: {}", site.yaml());
    }
}

/// What the service says of the client's address cannot be copied under that name, and what the client says of it is not what was meant.
#[test]
fn a_field_with_a_meaning_of_its_own_is_not_copied_and_not_believed() {
    for (from, to) in [("x_real_ip", "X-Real-IP"), ("authorization", "Authorization"), ("x_forwarded_for", "X-User")] {
        let site = Beside::nginx(&format!(
            "server {{ listen @web@;
            location = /auth {{ internal; proxy_pass http://@B@/verify; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; }}
            location / {{ auth_request /auth; auth_request_set $it $upstream_http_{from}; proxy_set_header {to} $it; proxy_pass http://@A@; }} }}"
        ));
        let left = site.left_out();
        assert!(left.iter().any(|line| line.contains("auth_request_set")), "{left:?}: {}", site.yaml());
        let [theirs, ours] = site.ask("web", &format!("GET / HTTP/1.1\nHost: a.test\n{to}: evil"));
        let (theirs, ours) = (theirs.seen.unwrap().3, ours.seen.unwrap().3);
        let field = to.to_ascii_lowercase();
        assert_eq!((theirs.get(&field), ours.get(&field)), (None, None), "{}", site.yaml());
    }
}

/// As the documentation of Authelia, authentik, oauth2-proxy and Vouch has it. What to come back to is one value here; nginx lets its `&` begin the next.
#[test]
fn who_has_not_signed_in_is_sent_to_the_page() {
    let named = |location: &str| format!("error_page 401 = @in; proxy_pass http://@A@; }} location @in {{ {location}");
    for (page, rest) in [
        ("http://in.test/start?rd=", named("return 302 http://in.test/start?rd=$scheme://$http_host$request_uri;")),
        ("/outpost/start?rd=", named("internal; add_header Set-Cookie $cookie; return 302 /outpost/start?rd=$request_uri;")),
        ("/oauth2/start?rd=", named("return 302 $scheme://$host/oauth2/start?rd=$request_uri;").replace("$scheme://$host/", "/")),
        (
            "http://in.test/?url=",
            "set $back $scheme://$host$request_uri; error_page 401 =302 http://in.test/?url=$back; proxy_pass http://@A@;".to_owned(),
        ),
        ("http://in.test/x", "error_page 401 http://in.test/x; proxy_pass http://@A@;".to_owned()),
    ] {
        let site = Beside::nginx(&format!(
            "server {{ listen @web@; absolute_redirect off;
            location = /auth {{ internal; proxy_pass http://@B@/status=401; }}
            location / {{ auth_request /auth; auth_request_set $cookie $upstream_http_set_cookie; {rest} }} }}"
        ));
        let left = site.left_out();
        assert!(left.iter().all(|line| line.contains("auth_request_set")), "{left:?}: {}", site.yaml());
        let [theirs, ours] = site.ask("web", &get("a.test", "/x%20y?z=1"));
        assert_eq!((theirs.status, ours.status), (302, 302), "{page}: {}", site.yaml());
        let (theirs, ours) = (theirs.location.unwrap(), ours.location.unwrap());
        assert!(theirs.starts_with(page), "{theirs}");
        let escapes = [("%3A", ":"), ("%2F", "/"), ("%3F", "?"), ("%3D", "="), ("%25", "%")];
        assert_eq!(escapes.iter().fold(ours, |text, (escape, plain)| text.replace(escape, plain)), theirs);
    }
}

/// nginx shows the page in place, where a redirect leads to it here; a page that needs a user itself would lead to itself.
#[test]
fn a_page_in_place_is_redirected_to() {
    let site = |page: &str| {
        Beside::nginx(&format!(
            "server {{ listen @web@;
            location = /auth {{ internal; proxy_pass http://@B@/status=401; }}
            location /oauth2/ {{ {page} proxy_pass http://@C@; }}
            location / {{ auth_request /auth; error_page 401 =403 /oauth2/sign_in; proxy_pass http://@A@; }} }}"
        ))
    };
    let open = site("");
    open.nothing_is_left_out();
    let [theirs, ours] = open.ask("web", &get("a.test", "/x"));
    assert_eq!((theirs.status, ours.status), (403, 302), "{}", open.yaml());
    assert_eq!(ours.location.as_deref(), Some("/oauth2/sign_in?rd=%2Fx"));
    let guarded = site("auth_request /auth;");
    assert!(guarded.left_out().iter().any(|line| line.contains("error_page 401")), "{:?}", guarded.left_out());
}

/// An application that reads a port where none was sent before builds other URLs.
#[test]
fn fields_of_the_client_that_were_never_sent_are_not_sent() {
    let usual =
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;";
    let of_nginx = |more: &str| {
        Beside::nginx(&format!("server {{ listen @web@; location / {{ {usual} {more} proxy_pass http://@A@; }} }}"))
    };
    let of_haproxy = |more: &str| {
        Beside::haproxy(&format!(
            "frontend www\n bind @web@\n option forwardfor\n http-request set-header X-Forwarded-Proto http\n {more}\n default_backend app\nbackend app\n server one @A@"
        ))
    };
    for (site, names) in [
        (of_nginx(""), ""),
        (of_nginx("proxy_set_header X-Forwarded-Host $host;"), "x-forwarded-host"),
        (
            of_nginx("proxy_set_header X-Forwarded-Host $host; proxy_set_header X-Forwarded-Port $server_port;"),
            "x-forwarded-host x-forwarded-port",
        ),
        (of_haproxy(""), ""),
        (of_haproxy("http-request set-header X-Forwarded-Port %[dst_port]"), "x-forwarded-port"),
    ] {
        for outcome in site.ask("web", &get("a.test", "/")) {
            let seen = outcome.seen.unwrap().3;
            let sent = ["x-forwarded-host", "x-forwarded-port"].into_iter().filter(|name| seen.contains_key(*name));
            assert_eq!(sent.collect::<Vec<_>>().join(" "), names, "{seen:?}: {}", site.yaml());
            assert!(seen.contains_key("x-forwarded-for") && seen.contains_key("x-forwarded-proto"), "{seen:?}");
        }
    }
}

#[test]
fn words_of_a_redirect_stand_in_any_order() {
    let site = Beside::haproxy(
        "frontend www
            bind @web@
            acl in_place path_beg /jenkins
            http-request redirect code 301 prefix /jenkins unless in_place
            http-request redirect drop-query code 307 location /jenkins/new if { path /jenkins/old }
            default_backend app
        backend app
            server one @A@",
    );
    site.nothing_is_left_out();
    site.compare_paths("a.test", &["/", "/a?b=c", "/jenkins", "/jenkins/x", "/jenkins/old?x=1", "/jenkins/old"]);
}

/// As documentation of Grafana, Gitea and Jenkins has it.
#[test]
fn a_subpath_is_stripped_for_a_backend() {
    let site = Beside::haproxy(
        "frontend www
            bind @web@
            use_backend a if { path_beg /a/ }
            use_backend b if { path_beg /b }
            use_backend c if { path /c } or { path_beg /c/ }
            use_backend d if { path_beg /d/ } or { path /d }
            default_backend other
        backend a
            http-request replace-path /a/(.*) /\\1
            server s @A@
        backend b
            http-request replace-path /b(/)?(.*) /\\2
            server s @B@
        backend c
            http-request set-path %[path,regsub(^/c/?,/)]
            server s @C@
        backend d
            http-request replace-path /d\\/?(.*) \\/\\1
            server s @A@
        backend other
            http-request replace-path /old/(.*) /new/\\1
            server s @B@",
    );
    let paths = [
        "/a/", "/a/x/y?z", "/a/a/x", "/a/b/a/", "/b", "/b/", "/b/x", "/b/b/x?y", "/c", "/c/", "/c/c/x", "/c/x%20y",
        "/d", "/d/", "/d/x", "/old/x", "/old/",
    ];
    site.compare_paths("a.test", &paths);
    // What the expressions match within a segment, or further on in a path, is closed.
    for path in ["/bx", "/x/old/y", "/x"] {
        assert_eq!(site.ask("web", &get("a.test", path))[1].status, 501, "{path}: {}", site.yaml());
    }
}

/// What is printed of a file, and what is said of it.
pub(super) fn import(program: &str, text: &str) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, text).unwrap();
    let printed = super::beside::import(program, &file);
    (String::from_utf8(printed.stdout).unwrap(), String::from_utf8(printed.stderr).unwrap())
}

#[test]
fn http3_of_haproxy_is_http3_here() {
    let frontend = |quic: &str| {
        let text = format!(
            "frontend f\n mode http\n bind :443 ssl crt /no/a.pem alpn h2\n {quic}\n default_backend b\n\
             backend b\n mode http\n server s 127.0.0.1:1\n"
        );
        import("haproxy", &text)
    };
    let (yaml, said) = frontend("bind quic4@:443 ssl crt /no/a.pem alpn h3");
    assert!(yaml.contains("http3: true") && !said.contains("left out"), "{yaml}\n{said}");
    let (yaml, said) = frontend("bind quic4@:8443 ssl crt /no/a.pem alpn h3");
    let why = "HTTP/3 is served beside TLS on the same addresses";
    assert!(!yaml.contains("http3: true") && said.contains(why), "{yaml}\n{said}");
}

#[test]
fn http3_of_nginx_is_http3_here() {
    let server = |listen: &str| {
        format!(
            "server {{ {listen} server_name a.test; ssl_certificate /no/a.pem; ssl_certificate_key /no/a.key;
               large_client_header_buffers 4 4k; add_header Alt-Svc 'h3=\":443\"; ma=86400'; location / {{ proxy_pass http://127.0.0.1:1; }} }}"
        )
    };
    let (yaml, said) = import(
        "nginx",
        &server("listen 443 quic reuseport; listen 443 ssl; listen [::]:443 quic; listen [::]:443 ssl; http3 on;"),
    );
    assert!(yaml.contains("http3: true") && !yaml.contains("Alt-Svc") && !said.contains("left out"), "{yaml}\n{said}");
    assert!(yaml.contains("limits: { max_header_bytes: 16KiB, max_request_line: 4KiB }"), "{yaml}");
    // In a container whose port is published as 443.
    let (yaml, said) = import("nginx", &server("listen 8443 quic; listen 8443 ssl;"));
    assert!(yaml.contains("http3: { advertise: 443 }") && !said.contains("left out"), "{yaml}\n{said}");
    for (listen, part) in [
        ("listen 443 ssl;", "add_header Alt-Svc h3=\":443\"; ma=86400: HTTP/3 is not served"),
        ("listen 443 ssl; listen 8443 quic;", "listen 8443 quic: HTTP/3 is served beside TLS on the same addresses"),
        ("listen 443 ssl; listen 443 quic; http3 off;", ""),
    ] {
        let (yaml, said) = import("nginx", &server(listen));
        assert!(!yaml.contains("http3: true") && said.contains(part), "{listen}: {yaml}\n{said}");
    }
}

/// User metadata of object stores, and what other applications call their fields.
#[test]
fn fields_with_an_underscore_are_treated_as_by_the_original() {
    let request = "GET / HTTP/1.1\nHost: a.test\nx-amz-meta-my_key: 1\nX_Forwarded_For: 2";
    let server = |more: &str| format!("server {{ listen @web@; {more} location / {{ proxy_pass http://@A@; }} }}");
    let haproxy_text = "frontend www\n bind @web@\n default_backend app\nbackend app\n server one @A@";
    for (site, passes) in [
        (Beside::nginx(&server("")), false),
        (Beside::nginx(&server("underscores_in_headers on;")), true),
        (Beside::nginx(&server("ignore_invalid_headers off;")), true),
        (Beside::haproxy(haproxy_text), true),
    ] {
        site.nothing_is_left_out();
        let [theirs, ours] = site.ask("web", request).map(|outcome| (outcome.status, outcome.seen.unwrap().3));
        assert_eq!((theirs.0, ours.0), (200, 200), "{}", site.yaml());
        for (_, fields) in [&theirs, &ours] {
            assert_eq!(fields.contains_key("x-amz-meta-my_key"), passes, "{fields:?}: {}", site.yaml());
        }
        // Behind CGI it would be the field that says who the client is.
        assert!(!ours.1.contains_key("x_forwarded_for"), "{}", site.yaml());
    }
}
