//! nginx beside its import. Each configuration is of a kind that documentation shows; what is compared is what a client gets and what upstreams see.

use std::collections::BTreeSet;

use super::beside::{Beside, Program, get};

fn beside(text: &str, listeners: &[&str]) -> Beside {
    Beside::start(&Program::Nginx, text, listeners)
}

/// What nginx sends unless it is told otherwise, and what people write most.
#[test]
fn a_plain_proxy() {
    let plain = beside("server { listen @web@; location / { proxy_pass http://@A@; } }", &["web"]);
    plain.compare_paths("a.test", &["/", "/a/b?c=d", "/~me/x%20y"]);
    plain.compare(&[
        ("web", "POST /x HTTP/1.1\nHost: a.test\nX-Mine: 1\nAccept-Encoding: gzip\n\nhello"),
        ("web", "GET / HTTP/1.1\nHost: a.test\nAuthorization: Basic x\nCookie: a=b"),
    ]);
    // What clients say of themselves goes through nginx, and ends here.
    let [theirs, ours] = plain.ask("web", "GET / HTTP/1.1\nHost: a.test\nX-Forwarded-Proto: https");
    assert!(theirs.seen.unwrap().3.contains_key("x-forwarded-proto") && ours.seen.unwrap().3.is_empty());
    assert_eq!(plain.left_out(), Vec::<String>::new());
    assert_eq!(plain.printed.status.code(), Some(0));

    let usual = beside(
        "server {
            listen @web@;
            server_name a.test;
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            location / { proxy_pass http://@A@; }
            location /chat/ {
                proxy_pass http://@B@;
                proxy_http_version 1.1;
                proxy_set_header Host $http_host;
                proxy_set_header Upgrade $http_upgrade;
                proxy_set_header Connection \"upgrade\";
                proxy_set_header X-Real-IP $remote_addr;
                proxy_set_header X-Forwarded-For $remote_addr;
                proxy_set_header X-Forwarded-Proto $scheme;
            }
        }",
        &["web"],
    );
    usual.compare_paths("a.test", &["/", "/x", "/chat/", "/chat", "/chat/x?y"]);
    assert!(
        usual.yaml().contains(
            "forwarding:\n  x_forwarded_host: false\n  x_forwarded_port: false\n  request_id: false\n  via: false\n"
        ),
        "{}",
        usual.yaml()
    );
    assert_eq!(usual.printed.status.code(), Some(0));
}

#[test]
fn a_server_is_chosen_by_name() {
    let text = "
        server { listen @web@; server_name one.test www.one.test; return 200 one; }
        server { listen @web@; server_name *.wild.test; return 200 wild; }
        server { listen @web@; server_name deep.wild.test; return 200 deep; }
        server { listen @web@; server_name .dot.test; return 200 dot; }
        server { listen @web@ default_server; server_name default.wild.test _; return 200 default; }
        server { listen @web@; server_name one.test; return 200 second; }
        server { listen @other@; return 200 other; }
        server { listen @other@; server_name one.test; return 200 other-one; }
    ";
    let both = beside(text, &["web", "other"]);
    let hosts = [
        "one.test",
        "WWW.one.test",
        "x.wild.test",
        "x.y.wild.test",
        "wild.test",
        "deep.wild.test",
        "a.deep.wild.test",
        "dot.test",
        "x.dot.test",
        "nobody.test",
        "default.wild.test",
        "one.test:8080",
        "one.test.",
        "127.0.0.1",
    ];
    let requests: Vec<String> = hosts.iter().map(|host| get(host, "/")).collect();
    let pairs: Vec<(&str, &str)> =
        requests.iter().flat_map(|request| [("web", request.as_str()), ("other", request.as_str())]).collect();
    both.compare(&pairs);
    // The second server of a name is never reached.
    assert!(both.yaml().contains("no request reaches this server"), "{}", both.yaml());
}

/// Paths made of pieces, so that all locations of a test meet.
fn paths(pieces: &[&str]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for one in pieces {
        for other in pieces {
            for third in ["", "/x", ".png"] {
                let path = format!("/{one}{other}{third}").replace("//", "/");
                out.insert(path);
            }
        }
    }
    out
}

#[test]
fn a_location_is_chosen_as_there() {
    let text = "types {} default_type text/plain; server {
        listen @web@;
        location = / { return 200 root; }
        location / { return 200 rest; }
        location /img { return 200 img; }
        location /img/ { return 200 folder; }
        location ^~ /static/ { return 200 static; }
        location ~ \\.png$ { return 200 png; }
        location ~* \\.(gif|PNG)$ { return 200 gif; }
        location ~ ^/api/v[0-9]+/ { return 200 api; }
        location ~ /\\. { return 200 hidden; }
        location /api/ { return 200 apis; }
        location = /api/v1/exact.png { return 200 exact; }
        location /nest/ {
            location ~ \\.png$ { return 200 nested-png; }
            location /nest/deep/ { return 200 nested-deep; }
            location = /nest/one { return 200 nested-one; }
            return 200 nest;
        }
        location /nest/other/ { return 200 nest-other; }
        location \"/sp ace/\" { return 200 space; }
    }";
    let both = beside(text, &["web"]);
    let pieces = [
        "",
        "img",
        "img/",
        "imgs",
        "static/",
        "static",
        "a.png",
        "b.GIF",
        ".git",
        "api/",
        "api/v1/",
        "api/vx",
        "exact.png",
        "nest/",
        "nest/deep/",
        "nest/one",
        "nest/other/",
        "nest",
        "x",
    ];
    let paths = paths(&pieces);
    let requests: Vec<String> =
        paths.iter().map(|path| get("a.test", path)).chain([get("a.test", "/sp%20ace/x")]).collect();
    both.compare(&requests.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
    assert!(requests.len() > 400);
}

#[test]
fn the_path_that_goes_upstream() {
    let text = "server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /same/ { proxy_pass http://@A@/same/; }
        location /cut/ { proxy_pass http://@B@/; }
        location /moved/ { proxy_pass http://@B@/to/; }
        location /text { proxy_pass http://@B@/other; }
        location = /one { proxy_pass http://@B@/two; }
        location ~ ^/user/([0-9]+)/(?<rest>.*)$ { proxy_pass http://@C@/u/$1/$rest$is_args$args; }
        location /broken/ { rewrite ^/broken/(.*)$ /mended/$1 break; proxy_pass http://@C@; }
        location /every/ { rewrite ^(.*)$ /prefix$1 break; proxy_pass http://@C@; }
        location /some/ { rewrite ^/some/(\\d+)$ /number/$1 break; proxy_pass http://@C@; }
        location /named/ { set $to @B@; proxy_pass http://$to; }
    }";
    let both = beside(text, &["web"]);
    let paths = [
        "/",
        "/x?y=z",
        "/same/a",
        "/cut",
        "/cut?q",
        "/cut/",
        "/cut/a/b?c=d",
        "/moved/a",
        "/moved/",
        "/text",
        "/text/a",
        "/textual",
        "/textual/a?b",
        "/one",
        "/one?x=1",
        "/one/",
        "/user/12/a/b?x=1",
        "/user/x/a",
        "/broken/a?x=1",
        "/every/a",
        "/some/12",
        "/some/a",
        "/named/x",
        "/a%2520b",
    ];
    both.compare_paths("a.test", &paths);
}

#[test]
fn fields_of_requests() {
    let text = "
    proxy_set_header X-Everywhere http;
    server {
        listen @web@;
        server_name a.test;
        location / { proxy_pass http://@A@; }
        location /own/ {
            proxy_set_header Host fixed.test;
            proxy_set_header X-Own \"$remote_addr $request_method $host {x}\";
            proxy_set_header X-Uri $uri;
            proxy_set_header X-Arg $arg_q;
            proxy_set_header X-Sent $http_x_sent;
            proxy_set_header X-Cookie $cookie_c;
            proxy_set_header X-Empty \"\";
            proxy_set_header Accept-Encoding \"\";
            proxy_set_header X-Server $server_name;
            proxy_pass http://@A@;
        }
        location /inherited/ { proxy_pass http://@B@; proxy_hide_header X-Powered-By; }
    }
    server {
        listen @web@;
        server_name b.test;
        proxy_set_header X-Level server;
        set $constant \"a value\";
        location / { proxy_set_header X-Constant $constant; proxy_pass http://@A@; }
        location /server/ { proxy_pass http://@A@; }
    }";
    let both = beside(text, &["web"]);
    let sent = "X-Sent: 7\nX-Empty: no\nCookie: a=b; c=d\nX-Everywhere: client\nAccept-Encoding: br";
    let requests: Vec<String> = ["/", "/own/x?q=1%202&r", "/inherited/"]
        .iter()
        .map(|path| format!("{}\n{sent}", get("a.test", path)))
        .chain(["/", "/server/x"].iter().map(|path| get("b.test", path)))
        .collect();
    both.compare(&requests.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
}

#[test]
fn fields_of_responses() {
    let text = "
    add_header X-Http 1;
    server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /own/ {
            add_header X-Own \"$scheme $request_method\";
            add_header X-Always yes always;
            add_header Strict-Transport-Security \"max-age=31536000; includeSubDomains\" always;
            proxy_pass http://@A@;
            proxy_hide_header X-From-Upstream;
        }
        location /pass/ { proxy_pass http://@A@; proxy_pass_header Server; }
        location /moved { add_header X-Moved 1; return 301 /elsewhere; }
        location /gone { add_header X-Gone 1; add_header X-Gone-Always 1 always; return 410; }
    }";
    let both = beside(text, &["web"]);
    both.compare_paths("a.test", &["/", "/pass/", "/moved", "/gone"]);
    // Over plain HTTP the field has no meaning, and is not sent.
    let [theirs, mut ours] = both.ask("web", &get("a.test", "/own/"));
    ours.fields.insert("strict-transport-security".to_owned(), "max-age=31536000; includeSubDomains".to_owned());
    assert_eq!(theirs.fields, ours.fields);
}

#[test]
fn responses_without_an_upstream() {
    let text = "
    types { text/html html; application/json json; }
    default_type text/plain;
    server {
        listen @web@;
        server_name a.test b.test;
        location /ok { return 200 \"fine\\n\"; }
        location = /page.html { return 200 \"<p>{x}</p>\"; }
        location = /data.json { return 200 '{\"status\":\"up\"}'; }
        location /no { return 404; }
        location /nothing { return 204; }
        location /full { return 301 https://$host$request_uri; }
        location /same { return 308 https://www.a.test$uri; }
        location /fixed { return 302 https://elsewhere.test/; }
        location /relative { return 303 /there; }
        location /short { return https://x.test/a?b=c; }
        location /teapot { return 418 \"short and stout\"; }
        location /scheme { return 307 $scheme://other.test/$arg_to; }
        location ~ ^/v(\\d)/(.*)$ { return 301 /api/$1/$2?from=old; }
    }";
    let both = beside(text, &["web"]);
    let paths = [
        "/ok",
        "/ok/more?x",
        "/page.html",
        "/data.json",
        "/no",
        "/nothing",
        "/full/a?b=c",
        "/full",
        "/same/x?y=z",
        "/fixed/x?y=z",
        "/relative?x=1",
        "/short",
        "/teapot",
        "/scheme?to=here",
        "/v1/a/b?c=d",
    ];
    both.compare_paths("a.test", &paths);
    both.compare_paths("b.test", &["/full/a"]);
}

#[test]
fn rewrites_that_redirect() {
    let text = "server {
        listen @web@;
        server_name a.test;
        rewrite ^/old/(.*)$ /new/$1 permanent;
        rewrite ^/gone$ https://elsewhere.test/found redirect;
        rewrite ^/noquery/(.*)$ /q/$1? permanent;
        rewrite ^/withquery/(.*)$ /q?page=$1 redirect;
        location / { proxy_pass http://@A@; }
        location = /old/exact { return 200 never; }
        location ^~ /old/static/ { return 200 never; }
        location /in/ { rewrite ^/in/(.+)\\.html$ /in/$1 permanent; proxy_pass http://@B@; }
        location /all/ { rewrite ^/all/(.*) http://other.test/$1; }
    }";
    let both = beside(text, &["web"]);
    let paths = [
        "/old/a/b?c=d",
        "/old/exact",
        "/old/static/x",
        "/old",
        "/gone",
        "/gone?x=1",
        "/gone/x",
        "/noquery/a?b=c",
        "/withquery/a?b=c",
        "/in/page.html?x",
        "/in/page",
        "/all/x",
        "/x",
    ];
    both.compare_paths("a.test", &paths);
}

#[test]
fn conditions() {
    let text = "server {
        listen @web@;
        server_name a.test b.test c.test;
        if ($host = b.test) { return 301 http://a.test$request_uri; }
        if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; }
        if ($http_user_agent ~* (badbot|scraper)) { return 403; }
        if ($scheme = https) { return 500; }
        location / { proxy_pass http://@A@; }
        location /beta/ {
            if ($http_x_beta) { return 302 /new-beta/; }
            if ($request_method = POST) { proxy_pass http://@C@; }
            proxy_pass http://@B@;
        }
        location ~ \\.(env|bak)$ { return 404; }
    }";
    let both = beside(text, &["web"]);
    let line = |method: &str, host: &str, path: &str, more: &str| {
        let more = if more.is_empty() { String::new() } else { format!("\n{more}") };
        format!("{method} {path} HTTP/1.1\nHost: {host}{more}")
    };
    let mut requests = Vec::new();
    for path in ["/", "/beta/x", "/x.env", "/?debug=1", "/beta/?debug=1", "/x.env?debug=2"] {
        for (method, more) in [
            ("GET", ""),
            ("POST", ""),
            ("DELETE", ""),
            ("PATCH", "User-Agent: BadBot/1"),
            ("GET", "User-Agent: a BadBot/1"),
            ("GET", "User-Agent: fine"),
            ("GET", "X-Beta: 1"),
            ("GET", "X-Beta: 0"),
            ("GET", "X-Beta: 1\nUser-Agent: scraper"),
            ("POST", "X-Beta: 2"),
        ] {
            requests.push(line(method, "a.test", path, more));
        }
    }
    requests.push(line("GET", "b.test", "/x?y", ""));
    requests.push(line("GET", "c.test", "/x?y", ""));
    both.compare(&requests.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
}

#[test]
fn addresses_that_may_come() {
    let text = "server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /local/ { allow 127.0.0.0/8; deny all; proxy_pass http://@A@; }
        location /others/ { allow 192.0.2.0/24; allow 2001:db8::/32; deny all; proxy_pass http://@A@; }
        location /but/ { deny 127.0.0.0/9; allow all; proxy_pass http://@A@; }
        location /first/ { allow 127.0.0.1; deny 127.0.0.0/8; proxy_pass http://@A@; }
        location /nobody/ { deny all; proxy_pass http://@A@; }
        location ~ /\\.ht { deny all; }
        location /returned/ { deny all; return 200 open; }
        location /nested/ { deny all; location /nested/open/ { allow all; proxy_pass http://@B@; } proxy_pass http://@A@; }
        location /read/ { limit_except GET { deny all; } proxy_pass http://@C@; }
        location /write/ { limit_except GET POST { allow 127.0.0.1; deny all; } proxy_pass http://@C@; }
        location /admin { deny all; proxy_pass http://@A@; }
    }";
    let both = beside(text, &["web"]);
    let paths = [
        "/",
        "/local/",
        "/others/",
        "/but/",
        "/first/",
        "/nobody/",
        "/.htaccess",
        "/x/.htpasswd",
        "/returned/",
        "/nested/",
        "/nested/open/x",
        "/admin",
        "/admin.php",
        "/admin/x",
        "/administrator/x",
        "/adm",
    ];
    both.compare_paths("a.test", &paths);
    let mut requests = Vec::new();
    for path in ["/read/x", "/write/x"] {
        requests
            .extend(["GET", "HEAD", "POST", "DELETE"].map(|method| format!("{method} {path} HTTP/1.1\nHost: a.test")));
    }
    both.compare(&requests.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
}

#[test]
fn rates() {
    let text = "
    limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
    limit_req_status 429;
    server {
        listen @web@;
        location /none/ { limit_req zone=slow; proxy_pass http://@A@; }
        location / { proxy_pass http://@A@; }
    }
    server { listen @other@; location / { limit_req zone=slow burst=2 nodelay; proxy_pass http://@A@; } }";
    let both = beside(text, &["web", "other"]);
    let statuses = |listener: &str, path: &str| {
        let asked: Vec<[u16; 2]> =
            (0..5).map(|_| both.ask(listener, &get("a.test", path)).map(|outcome| outcome.status)).collect();
        [0, 1].map(|at| asked.iter().map(|pair| pair[at]).collect::<Vec<u16>>())
    };
    let [theirs, ours] = statuses("web", "/none/");
    assert_eq!(theirs, [200, 429, 429, 429, 429]);
    assert_eq!(ours, theirs);
    both.compare_paths("a.test", &["/", "/"]);
}

#[test]
fn a_burst_is_as_long_as_there() {
    let text = "
    limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
    limit_req_status 429;
    server { listen @web@; location / { limit_req zone=slow burst=2 nodelay; proxy_pass http://@A@; } }";
    let both = beside(text, &["web"]);
    for expected in [200, 200, 200, 429, 429] {
        assert_eq!(both.ask("web", &get("a.test", "/")).map(|outcome| outcome.status), [expected; 2]);
    }
}

#[test]
fn groups_of_servers() {
    let text = "
    upstream app { server @A@ weight=3; server @B@; server @C@ backup; keepalive 8; }
    upstream single { server @C@ max_fails=0; }
    upstream sick { server @A@; server @B@; }
    server {
        listen @web@;
        location / { proxy_pass http://app; }
        location /single/ { proxy_pass http://single; proxy_set_header Host $proxy_host; }
        location /sick/ { proxy_pass http://sick; proxy_next_upstream error timeout http_503; proxy_next_upstream_tries 2; }
    }";
    let both = beside(text, &["web"]);
    let mut counts = [[0; 3]; 2];
    for _ in 0..40 {
        for (at, outcome) in both.ask("web", &get("a.test", "/")).into_iter().enumerate() {
            let (name, _, host, _) = outcome.seen.unwrap();
            assert_eq!(host, "app");
            counts[at]["ABC".find(name).unwrap()] += 1;
        }
    }
    assert_eq!(counts[0], [30, 10, 0]);
    assert_eq!(counts[1], counts[0]);
    both.compare_paths("a.test", &["/single/x"]);
    // Both servers of the group are asked, and the second one's response is the client's.
    let [theirs, ours] = both.ask("web", &get("a.test", "/sick/?status=503"));
    assert_eq!((theirs.status, ours.status), (503, 503));
}

#[test]
fn passwords_and_services() {
    let dir = crate::harness::certificates(&[("a.test", false)]);
    let hash = bcrypt::hash_with_result("secret", 4).unwrap().format_for_version(bcrypt::Version::TwoY);
    std::fs::write(dir.path().join("users"), format!("# people\nann:{hash}\n")).unwrap();
    let text = "server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /staff/ { auth_basic Staff; auth_basic_user_file @dir@/users; proxy_pass http://@A@; }
        location /staff/open/ { auth_basic off; proxy_pass http://@A@; }
        location /signed/ { auth_request /auth; proxy_pass http://@B@; }
        location /refused/ { auth_request /no; proxy_pass http://@B@; }
        location = /auth { internal; proxy_pass_request_headers off; proxy_pass http://@C@/check; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; }
        location = /no { internal; proxy_pass_request_headers off; proxy_pass http://@C@/check?status=401; }
    }";
    let both = Beside::start_in(&Program::Nginx, text, &["web"], dir);
    // ann:secret, ann:wrong
    for authorization in ["", "\nAuthorization: Basic YW5uOnNlY3JldA==", "\nAuthorization: Basic YW5uOndyb25n"] {
        for path in ["/", "/staff/x", "/staff/open/x"] {
            let request = format!("{}{authorization}", get("a.test", path));
            both.compare(&[("web", &request)]);
        }
    }
    both.compare_paths("a.test", &["/signed/x", "/auth", "/no"]);
    let [theirs, ours] = both.ask("web", &get("a.test", "/refused/x"));
    assert_eq!((theirs.status, ours.status), (401, 401));
}

#[test]
fn pages_for_errors_and_single_files() {
    let dir = crate::harness::certificates(&[("a.test", false)]);
    std::fs::write(dir.path().join("50x.html"), "<h1>sorry</h1>").unwrap();
    std::fs::write(dir.path().join("404.html"), "<h1>not here</h1>").unwrap();
    std::fs::write(dir.path().join("robots.txt"), "User-agent: *\n").unwrap();
    let text = "
    types { text/html html; text/plain txt; }
    server {
        listen @web@;
        root @dir@;
        error_page 404 /404.html;
        error_page 500 502 503 504 /50x.html;
        location / { proxy_pass http://@A@; proxy_intercept_errors on; }
        location /plain/ { proxy_pass http://@A@; }
        location = /50x.html { root @dir@; }
        location = /robots.txt { }
        location /down/ { proxy_pass http://127.0.0.1:1; }
    }";
    let both = Beside::start_in(&Program::Nginx, text, &["web"], dir);
    for path in ["/?status=404", "/?status=503", "/?status=418", "/plain/?status=404", "/down/", "/robots.txt", "/x"] {
        let request = format!("{}\nAccept: text/html", get("a.test", path));
        let [theirs, ours] = both.ask("web", &request);
        assert_eq!(
            (theirs.status, theirs.body, theirs.location),
            (ours.status, ours.body, ours.location),
            "{path}\n{}",
            both.yaml()
        );
    }
}

#[test]
fn under_tls() {
    let text = "
    server { listen @web@; server_name a.test b.test; return 301 https://$host$request_uri; }
    server {
        listen @https@ ssl http2;
        server_name a.test;
        ssl_certificate @dir@/certs/0-Ecdsa.pem;
        ssl_certificate_key @dir@/certs/0-Ecdsa.pem;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ciphers HIGH:!aNULL:!MD5;
        ssl_session_cache shared:SSL:10m;
        add_header Strict-Transport-Security \"max-age=63072000\" always;
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Real-IP $remote_addr;
        location / { proxy_pass http://@A@; }
        location /http { return 302 $scheme://$host/x; }
    }
    server {
        listen @https@ ssl http2;
        server_name b.test;
        ssl_certificate @dir@/certs/1-Ecdsa.pem;
        ssl_certificate_key @dir@/certs/1-Ecdsa.pem;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Real-IP $remote_addr;
        location / { proxy_pass http://@B@; }
    }";
    let both = beside(text, &["web", "https"]);
    both.compare_paths("a.test", &["/x?y"]);
    both.compare_paths("c.test", &["/x?y"]);
    let requests: Vec<String> =
        ["a.test", "b.test"].iter().flat_map(|host| ["/", "/http", "/x?y"].map(|path| get(host, path))).collect();
    both.compare(&requests.iter().map(|request| ("https", request.as_str())).collect::<Vec<_>>());
    assert_eq!(both.left_out(), Vec::<String>::new());
}

#[test]
fn bodies_that_are_too_long() {
    let text = "
    client_max_body_size 1k;
    server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /large/ { client_max_body_size 1m; proxy_pass http://@A@; }
        location /any/ { client_max_body_size 0; proxy_pass http://@A@; }
    }";
    let both = beside(text, &["web"]);
    let body = "x".repeat(4_000);
    let requests: Vec<String> =
        ["/", "/large/", "/any/"].iter().map(|path| format!("POST {path} HTTP/1.1\nHost: a.test\n\n{body}")).collect();
    both.compare(&requests.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
}

#[test]
fn proxies_in_front() {
    let text = "
    set_real_ip_from 127.0.0.0/8;
    real_ip_header X-Forwarded-For;
    real_ip_recursive on;
    server {
        listen @web@;
        proxy_set_header X-Client $remote_addr;
        location / { proxy_pass http://@A@; }
        location /office/ { allow 192.0.2.0/24; deny all; proxy_pass http://@A@; }
    }";
    let both = beside(text, &["web"]);
    for forwarded in ["192.0.2.7", "198.51.100.1", "192.0.2.7, 127.0.0.9", "192.0.2.1, 203.0.113.5"] {
        for path in ["/", "/office/x"] {
            let request = format!("{}\nX-Forwarded-For: {forwarded}", get("a.test", path));
            let [theirs, ours] = both.ask("web", &request);
            let client = |seen: &Option<_>| {
                seen.as_ref().map(
                    |(_, _, _, fields): &(char, String, String, std::collections::BTreeMap<String, String>)| {
                        fields["x-client"].clone()
                    },
                )
            };
            assert_eq!((theirs.status, client(&theirs.seen)), (ours.status, client(&ours.seen)), "{forwarded} {path}");
        }
    }
}

#[test]
fn what_was_imported_is_compressed() {
    use std::io::Write as _;
    let text = "server {
        listen @web@;
        gzip on;
        gzip_types application/json;
        gzip_min_length 10;
        location / { proxy_pass http://@A@; }
    }";
    let both = beside(text, &["web"]);
    std::io::stdout().flush().unwrap();
    assert!(both.yaml().contains("types: [text/html, application/json]"), "{}", both.yaml());
    both.compare_paths("a.test", &["/"]);
}
