//! HAProxy beside its import. Each configuration is of a kind that documentation shows; what is compared is what a client gets and what upstreams see.

use std::io::Write as _;

use super::beside::{Beside, Program, get};
use crate::harness::{connect, read_response};

/// What a configuration needs to be served at all.
const DEFAULTS: &str = "
global
    maxconn 1000
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
";

fn beside(text: &str, listeners: &[&str]) -> Beside {
    Beside::start(&Program::Haproxy, &format!("{DEFAULTS}{text}\n"), listeners)
}

#[test]
fn a_frontend_and_its_backend() {
    let plain = beside(
        "frontend www
            bind @web@
            default_backend app
        backend app
            balance leastconn
            server one @A@ weight 10 maxconn 50
            server spare @B@ backup",
        &["web"],
    );
    plain.compare_paths("a.test", &["/", "/a/b?c=d", "/~me/x%20y"]);
    plain.compare(&[
        ("web", "POST /x HTTP/1.1\nHost: a.test\nX-Mine: 1\nAccept-Encoding: gzip\n\nhello"),
        ("web", "GET / HTTP/1.1\nHost: a.test\nAuthorization: Basic x\nCookie: a=b"),
    ]);
    assert_eq!(plain.left_out(), Vec::<String>::new(), "{}", plain.yaml());
    assert_eq!(plain.printed.status.code(), Some(0));
    assert!(plain.yaml().contains("balance: least_loaded"), "{}", plain.yaml());

    // In one section; without servers there is nobody to ask.
    let listen = beside("listen all\n bind @web@\n server one @A@\nlisten none\n bind @other@", &["web", "other"]);
    listen.compare_paths("a.test", &["/", "/x"]);
    listen.compare(&[("other", "GET / HTTP/1.1\nHost: a.test")]);
}

#[test]
fn backends_are_chosen_as_there() {
    let both = beside(
        "frontend www
            bind @web@
            acl is_static path_beg /static/ /images
            acl is_static path_end -i .jpg .gif
            acl is_api path_beg /api
            acl is_post method POST PUT
            acl on_b hdr(host) -i b.test www.b.test
            acl below hdr_end(host) -i .wild.test
            acl begins hdr_beg(host) -i img.
            use_backend statics if is_static || begins
            use_backend api if is_api is_post
            use_backend api if is_api { req.hdr(X-Beta) -m found }
            use_backend other if on_b !is_api
            use_backend other if below { path /exact }
            use_backend statics if { path_reg ^/v[0-9]+/ } { cook(debug) 1 }
            use_backend other if { cook(beta) yes }
            default_backend app
        backend app
            server one @A@
        backend api
            http-request set-header X-Which api
            server one @A@
        backend statics
            server two @B@
        backend other
            server three @C@",
        &["web"],
    );
    let hosts = ["a.test", "b.test", "www.b.test", "x.wild.test", "wild.test", "img.a.test"];
    let paths = [
        "/",
        "/static/x",
        "/staticx",
        "/images",
        "/images/x",
        "/imagesx.jpg",
        "/a/b.JPG",
        "/api",
        "/api/x",
        "/apix.gif",
        "/exact",
        "/exact/x",
        "/v1/x",
        "/v1/x?debug=1",
        "/v1/x.gif?debug=1",
        "/vx/x?debug=1",
        "/api/v1/?debug=1",
    ];
    for host in hosts {
        both.compare_paths(host, &paths);
    }
    let extras = [
        "POST /api/x HTTP/1.1\nHost: a.test\n\nx",
        "PUT /api/x HTTP/1.1\nHost: b.test\n\nx",
        "POST / HTTP/1.1\nHost: a.test\n\nx",
    ];
    both.compare(&extras.map(|request| ("web", request)));
    let more = [
        "GET /api/x HTTP/1.1\nHost: b.test\nX-Beta: 1",
        "GET /api/x HTTP/1.1\nHost: a.test\nX-Beta: 0",
        "GET /x HTTP/1.1\nHost: a.test\nCookie: beta=yes",
        "GET /x HTTP/1.1\nHost: a.test\nCookie: beta=no",
        "GET /v2/x HTTP/1.1\nHost: a.test\nCookie: debug=1; beta=yes",
        "GET /vx/x HTTP/1.1\nHost: a.test\nCookie: debug=1",
    ];
    both.compare(&more.map(|request| ("web", request)));
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
}

#[test]
fn requests_that_end_here() {
    let both = beside(
        "frontend www
            bind @web@
            acl local src 127.0.0.0/8
            acl private path_beg /private
            http-request deny if private !local
            http-request deny if { path_beg /.git }
            http-request deny deny_status 404 if { path_end .php }
            http-request return status 200 content-type text/plain string \"pong\" if { path /ping }
            http-request redirect location https://new.test/x code 301 if { path /old }
            http-request redirect prefix https://www.a.test code 308 if { hdr(host) -i a.test } { path_beg /moved/ }
            http-request redirect prefix /up drop-query if { path_beg /down/ }
            http-request deny if { path_beg /nobody } { src 10.0.0.0/8 }
            http-request deny if { path_beg /all } { src 127.0.0.1 }
            redirect scheme https code 301 if { path_beg /secure } !{ ssl_fc }
            use_backend gone if { path_beg /gone }
            default_backend app
        backend gone
            http-request deny deny_status 410
        backend app
            server one @A@",
        &["web"],
    );
    let paths = [
        "/",
        "/private/x",
        "/privatex",
        "/.git/config",
        "/a.php",
        "/a.php/x",
        "/ping",
        "/ping/",
        "/old",
        "/old?x",
        "/moved/x?y=z",
        "/down/x?y",
        "/nobody/x",
        "/all/x",
        "/secure/x?y=1",
        "/gone/x",
        "/private/a.php",
    ];
    both.compare_paths("a.test", &paths);
    both.compare_paths("b.test", &paths);
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
}

#[test]
fn addresses_that_may_come() {
    let both = beside(
        "frontend www
            bind @web@
            http-request deny if { path_beg /office/ } !{ src 10.0.0.0/8 192.0.2.1 }
            http-request deny if { path_beg /loopback/ } !{ src 127.0.0.1 }
            default_backend app
        frontend closed
            bind @other@
            tcp-request connection accept if { src 10.0.0.0/8 }
            tcp-request content reject if { src 192.0.2.0/24 }
            http-request deny unless { src 10.0.0.0/8 } || { path_beg /public/ }
            default_backend app
        backend app
            server one @A@",
        &["web", "other"],
    );
    both.compare_paths("a.test", &["/", "/office/x", "/loopback/x"]);
    both.compare(&[("other", "GET /x HTTP/1.1\nHost: a.test"), ("other", "GET /public/x HTTP/1.1\nHost: a.test")]);
    assert!(both.yaml().contains("allow: [\"10.0.0.0/8\", \"192.0.2.1\"]"), "{}", both.yaml());
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
}

#[test]
fn fields_and_paths_are_changed() {
    let both = beside(
        "frontend www
            bind @web@
            option forwardfor
            http-request set-header X-Forwarded-Proto http
            http-request set-header X-Client %[src]
            http-request set-header X-Host %[req.hdr(host)] if { path_beg /host }
            http-request add-header X-More \"a b\"
            http-request del-header X-Secret
            http-response set-header X-Frame-Options DENY
            http-response del-header X-Powered-By
            http-response del-header Server
            use_backend api if { path_beg /api/ }
            use_backend new if { path_beg /v1/ }
            use_backend fixed if { path_beg /fixed }
            default_backend app
        backend api
            http-request replace-path ^/api/(.*)$ /inner/\\1
            http-response set-header X-Backend api
            server one @B@
        backend new
            http-request set-path %[path,regsub(^/v1/,/)]
            http-request set-header Host internal.test
            server one @B@
        backend fixed
            http-request set-path /one
            server one @B@
        backend app
            server one @A@",
        &["web"],
    );
    both.compare_paths(
        "a.test",
        &["/", "/host/x", "/api/", "/api/x?y=1", "/api/x/y", "/v1/x", "/v1/", "/fixed/a?b", "/v1"],
    );
    both.compare(&[("web", "GET /x HTTP/1.1\nHost: a.test\nX-Secret: 1\nX-More: 2")]);
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
    assert!(both.yaml().contains("x_forwarded: true"), "{}", both.yaml());
}

#[test]
fn several_sockets_and_tls() {
    let both = beside(
        "frontend www
            bind @web@
            bind @tls@ ssl crt @dir@/certs/ alpn http/1.1
            http-request redirect scheme https code 301 unless { ssl_fc }
            http-request set-header X-Tls %[ssl_fc]
            http-response set-header Strict-Transport-Security max-age=31536000
            use_backend b if { ssl_fc_sni b.test }
            default_backend app
        backend app
            server one @A@
        backend b
            server two @B@",
        &["web", "tls"],
    );
    both.compare(&[("web", "GET /a?b HTTP/1.1\nHost: a.test")]);
    let left: Vec<String> = both.left_out();
    assert_eq!(left, Vec::<String>::new(), "{}", both.yaml());
    let yaml = both.yaml();
    assert!(
        yaml.contains("to: \"https://{authority}{path}\", status: 301") && yaml.contains("server_name: b.test"),
        "{yaml}"
    );
}

#[test]
fn tls_and_names() {
    let both = beside(
        "frontend www
            bind @webs@ ssl crt @dir@/certs/ alpn http/1.1
            http-request set-header X-Tls %[ssl_fc]
            use_backend b if { ssl_fc_sni b.test }
            default_backend app
        backend app
            server one @A@
        backend b
            server two @B@",
        &["webs"],
    );
    both.compare(&[("webs", "GET /a?b HTTP/1.1\nHost: a.test"), ("webs", "GET / HTTP/1.1\nHost: b.test")]);
}

/// A rate by the client's address, as documentation shows it.
#[test]
fn a_rate_by_address() {
    let both = beside(
        "frontend www
            bind @web@
            stick-table type ip size 100k expire 30s store http_req_rate(1h)
            http-request track-sc0 src
            http-request deny deny_status 429 if { sc_http_req_rate(0) gt 3 }
            default_backend app
        backend app
            server one @A@",
        &["web"],
    );
    let mut statuses = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        let outcomes = both.ask("web", "GET / HTTP/1.1\nHost: a.test");
        statuses.iter_mut().zip(outcomes).for_each(|(statuses, outcome)| statuses.push(outcome.status));
    }
    assert_eq!(statuses, [vec![200, 200, 200, 429, 429], vec![200, 200, 200, 429, 429]], "{}", both.yaml());
    assert_eq!(both.left_out(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_carried_is_closed() {
    let both = beside(
        "userlist staff
            user ann insecure-password secret
        frontend www
            bind @web@
            acl signed http_auth(staff)
            http-request auth realm staff if { path_beg /staff/ } !signed
            http-request deny if { path_beg /odd/ } { rand(2) eq 5 }
            http-request replace-header X-A (.*) b\\1
            use_backend app if { path_beg /load/ } { nbsrv(app) gt 0 }
            http-request set-header X-User %[req.fhdr(x-name),upper]
            use_backend %[req.hdr(x-backend)] if { path_beg /dynamic/ }
            default_backend app
        backend app
            server one @A@",
        &["web"],
    );
    for (path, status) in [("/", 200), ("/staff/x", 403), ("/odd/x", 501), ("/load/x", 200), ("/dynamic/x", 501)] {
        let [_, ours] = both.ask("web", &get("a.test", path));
        assert_eq!(ours.status, status, "{path}\n{}", both.yaml());
    }
    // What a client says under a name that could not be set does not go on.
    let [_, ours] = both.ask("web", "GET /x HTTP/1.1\nHost: a.test\nX-User: root");
    assert!(!ours.seen.unwrap().3.contains_key("x-user"));
    let left = both.left_out();
    assert_eq!(left.len(), 6, "{left:#?}\n{}", both.yaml());
    assert_eq!(both.printed.status.code(), Some(1));
    for line in left {
        assert!(both.yaml().contains(&line), "{line}");
    }
}

/// What is a file natively is written where `--files` says: users, whose passwords are hashed, and pages.
#[test]
fn users_and_pages_become_files() {
    let dir = crate::harness::certificates(&[("a.test", false), ("b.test", false)]);
    std::fs::create_dir(dir.path().join("errors")).unwrap();
    let page = |name: &str, head: &str, body: &str| {
        let text = format!("{head}\r\nCache-Control: no-cache\r\nContent-Type: text/html\r\n\r\n{body}");
        std::fs::write(dir.path().join("errors").join(name), text).unwrap();
        format!("@dir@/errors/{name}")
    };
    let down = page("503.http", "HTTP/1.0 503 Service Unavailable", "<h1>ours is down</h1>");
    let strange = page("403.http", "HTTP/1.0 200 OK", "<h1>never</h1>");
    let files = dir.path().join("written");
    let text = format!(
        "{DEFAULTS}
        userlist staff
            group admins users ann
            group readers
            user ann insecure-password se:cret
            user bob insecure-password other groups readers
        userlist weak
            user eve password $5$abcdefgh$x
        frontend www
            bind @web@
            errorfile 503 {down}
            errorfile 403 {strange}
            acl signed http_auth(staff)
            acl is_admin http_auth_group(staff) admins
            http-request auth realm Staff if {{ path_beg /staff/ }} !signed
            http-request auth realm Admins if {{ path_beg /admins/ }} !is_admin
            http-request auth if {{ path_beg /weak/ }} !{{ http_auth(weak) }}
            use_backend away if {{ path_beg /away/ }}
            default_backend app
        backend app
            server one @A@
        backend away
            server one 127.0.0.1:1\n"
    );
    let options = ["--files".as_ref(), files.as_os_str()];
    let both = Beside::start_given(&Program::Haproxy, &text, &["web"], dir, &options);
    let basic = |user: &str| match user {
        "" => String::new(),
        user => format!("\nAuthorization: Basic {user}"),
    };
    // ann:se:cret, bob:other, ann:wrong
    for user in ["", "YW5uOnNlOmNyZXQ=", "Ym9iOm90aGVy", "YW5uOndyb25n"] {
        for path in ["/staff/x", "/admins/x", "/x"] {
            let request = format!("GET {path} HTTP/1.1\nHost: a.test{}", basic(user));
            both.compare(&[("web", request.as_str())]);
        }
    }
    let left = both.left_out();
    assert!(left.iter().any(|line| line.contains("the password of `eve` is no bcrypt hash")), "{left:#?}");
    assert!(left.iter().any(|line| line.contains("errorfile 403") && line.contains("another status")), "{left:#?}");
    assert_eq!(left.len(), 2, "{left:#?}");
    let [_, closed] = both.ask("web", &get("a.test", "/weak/x"));
    assert_eq!(closed.status, 403);
    for address in both.addresses("web") {
        let mut stream = connect(address);
        let request = b"GET /away/x HTTP/1.1\r\nHost: a.test\r\nAccept: text/html\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let response = crate::harness::read_to_end(&mut stream);
        assert!(response.ends_with(b"<h1>ours is down</h1>"), "{address}: {}", String::from_utf8_lossy(&response));
    }
    let written = std::fs::read_to_string(files.join("staff.users")).unwrap();
    assert!(written.starts_with("ann:$2") && written.lines().count() == 2 && !written.contains("cret"), "{written}");
    assert_eq!(std::fs::read_to_string(files.join("staff-admins.users")).unwrap().lines().count(), 1);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(files.join("staff.users")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

/// Rates of connections, and how many there are at once, in TCP mode.
#[test]
fn connections_are_limited_as_there() {
    let both = beside(
        "frontend db
            mode tcp
            bind @web@
            stick-table type ip size 100k expire 30s store conn_rate(1h),conn_cur
            tcp-request connection track-sc0 src
            tcp-request connection reject if { sc_conn_rate(0) gt 4 }
            default_backend app
        frontend few
            mode tcp
            bind @few@
            stick-table type ip size 100k expire 30s store conn_cur
            tcp-request connection track-sc0 src
            tcp-request connection reject if { sc_conn_cur(0) gt 2 }
            default_backend app
        backend app
            mode tcp
            server one @A@",
        &["web", "few"],
    );
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
    assert_holds(&both.yaml(), &["rate_limit: { rate: 4/h, burst: 4 }", "concurrency_limit: { max_in_flight: 2 }"]);
    // Both have been connected to once, to see whether they are there: theirs counts that.
    let passes = |address: std::net::SocketAddr| {
        let mut stream = connect(address);
        let _ = stream.write_all(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let mut byte = [0; 1];
        (std::io::Read::read(&mut stream, &mut byte).unwrap_or(0) == 1).then_some(stream)
    };
    let [theirs, ours] = both.addresses("web").map(|address| (0..6).filter(|_| passes(address).is_some()).count());
    assert!((3..=4).contains(&theirs) && ours == 4, "{theirs} {ours}");
    for address in both.addresses("few") {
        let held: Vec<_> = (0..2).map(|_| passes(address)).collect();
        assert!(held.iter().all(Option::is_some), "{address}");
        assert!(passes(address).is_none(), "{address}");
        drop(held);
        crate::harness::wait_until("a place", || passes(address).is_some());
    }
}

/// The file that Debian's package has, with a frontend behind it as its users write one.
#[test]
fn the_file_of_the_package() {
    let own = std::fs::read_to_string("/etc/haproxy/haproxy.cfg").unwrap();
    // Who starts the tests need not be root.
    let kept = own.lines().filter(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        !matches!(word, "chroot" | "user" | "group" | "daemon") && !line.contains("stats socket")
    });
    let text = format!(
        "{}\nfrontend www\n bind @web@\n default_backend app\nbackend app\n server one @A@ check\n",
        kept.collect::<Vec<_>>().join("\n")
    );
    let both = Beside::start(&Program::Haproxy, &text, &["web"]);
    both.compare_paths("a.test", &["/", "/x?y"]);
    let left = both.left_out();
    assert!(!left.is_empty() && left.iter().all(|line| line.contains(": errorfile ")), "{left:#?}");
    // Alone it serves nothing.
    let alone = super::beside::import("haproxy", std::path::Path::new("/etc/haproxy/haproxy.cfg"));
    assert_eq!(alone.status.code(), Some(2), "{}", String::from_utf8_lossy(&alone.stderr));
}

/// What is made of a file alone.
fn imported(text: &str) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("haproxy.cfg");
    std::fs::write(&file, format!("{text}\n")).unwrap();
    let printed = super::beside::import("haproxy", &file);
    let errors = String::from_utf8(printed.stderr).unwrap();
    let left =
        errors.lines().map(|line| line.replace(&format!("portunus: left out: {}:", file.display()), "")).collect();
    (String::from_utf8(printed.stdout).unwrap(), left)
}

fn assert_holds(yaml: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(yaml.contains(piece), "no {piece:?} in\n{yaml}");
    }
}

/// Bytes are forwarded, as there; by server name.
#[test]
fn tunnels() {
    let both = beside(
        "listen db\n mode tcp\n bind @web@\n tcp-request connection accept if { src 127.0.0.0/8 }\n tcp-request connection reject\n server one @A@",
        &["web"],
    );
    for address in both.addresses("web") {
        let mut stream = connect(address);
        stream.write_all(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        assert_eq!(read_response(&mut stream).1, b"upstream A");
    }
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());

    let (yaml, left) = imported(
        "defaults
            mode tcp
            timeout client 1m
        frontend tls
            bind :8443
            tcp-request inspect-delay 5s
            tcp-request content accept if { req.ssl_hello_type 1 }
            tcp-request connection reject if !{ src 10.0.0.0/8 }
            use_backend a if { req.ssl_sni -i a.test } or { req.ssl_sni -m end .b.test }
            use_backend b if { req.ssl_sni x.b.test }
            default_backend b
        frontend odd
            bind :8444
            use_backend a if { req.payload(0,1) x }
            default_backend b
        backend a
            server one 10.0.0.1:443 send-proxy-v2
        backend b
            balance source
            server one 10.0.0.2:443 check inter 5s fall 2",
    );
    assert_holds(
        &yaml,
        &[
            "rules: [{ server_name: [\"*.b.test\", a.test], upstream: a }]",
            "idle_timeout: 1m",
            "send_proxy: v2",
            "balance: { hash: client }",
            "health: { path: none, interval: 5s, timeout: 5s, fall: 2 }",
            "allow: [\"10.0.0.0/8\"]",
            "policies: [closed]",
        ],
    );
    assert_eq!(
        left,
        ["14: use_backend a if { req.payload(0,1) x }: `req.payload(0,1)` is not understood; nobody passes"]
    );
}

/// Bytes are forwarded by the client's address, as there: in the order of the rules, whatever networks lie in which others.
#[test]
fn tunnels_by_client() {
    let both = beside(
        "frontend db
            mode tcp
            bind @web@
            acl office src 127.0.1.0/24 127.0.2.0/24
            acl branch src 127.0.1.128/25
            use_backend b if office !branch
            use_backend c unless { src 127.0.0.0/16 }
            default_backend a
        frontend closed
            mode tcp
            bind @few@
            acl office src 127.0.1.0/24
            use_backend b if office
        backend a
            mode tcp
            server one @A@
        backend b
            mode tcp
            server one @B@
        backend c
            mode tcp
            server one @C@",
        &["web", "few"],
    );
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
    let reached = |source: &str, address| {
        let mut stream = crate::harness::connect_from(source, address);
        let _ = stream.write_all(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let mut got = Vec::new();
        let mut byte = [0; 1];
        while !got.ends_with(b"upstream ") && std::io::Read::read(&mut stream, &mut byte).unwrap_or(0) == 1 {
            got.push(byte[0]);
        }
        let named = std::io::Read::read(&mut stream, &mut byte).unwrap_or(0) == 1;
        if named { char::from(byte[0]) } else { '-' }
    };
    for (source, name, expected) in [
        ("127.0.0.1", "web", 'A'),
        ("127.0.1.5", "web", 'B'),
        ("127.0.1.200", "web", 'A'),
        ("127.0.2.200", "web", 'B'),
        ("127.9.9.9", "web", 'C'),
        ("127.0.1.5", "few", 'B'),
        ("127.0.0.1", "few", '-'),
    ] {
        let found = both.addresses(name).map(|address| reached(source, address));
        assert_eq!(found, [expected; 2], "{source} at {name}\n{}", both.yaml());
    }
}

/// By the order of the rules also where a name and an address both fit; ours asks for the name first.
#[test]
fn tunnels_by_client_and_name() {
    let (yaml, left) = imported(
        "defaults
            mode tcp
            timeout client 1m
        frontend tls
            bind :8443
            tcp-request inspect-delay 5s
            use_backend a if { src 10.0.0.0/8 }
            use_backend b if { req.ssl_sni b.test }
            use_backend a if { req.ssl_sni c.test } { src 192.0.2.0/24 }
        backend a
            server one 10.0.0.1:443
        backend b
            server one 10.0.0.2:443",
    );
    assert_eq!(left, Vec::<String>::new());
    assert_holds(
        &yaml,
        &[
            "{ client: \"10.0.0.0/8\", upstream: a }",
            "{ server_name: b.test, upstream: b }",
            "{ server_name: b.test, client: \"10.0.0.0/8\", upstream: a }",
            "{ server_name: c.test, client: \"192.0.2.0/24\", upstream: a }",
        ],
    );
}

/// Servers, balancing, checks and what else a backend says.
#[test]
fn backends() {
    let (yaml, left) = imported(
        "global
            nbthread 2
            hard-stop-after 30s
        defaults
            mode http
            timeout connect 3s
            timeout server 20s
            timeout queue 2s
            timeout tunnel 1h
            option redispatch
            retries 2
        frontend www
            bind :8080 accept-proxy
            bind [::1]:8081
            default_backend app
        backend app
            balance hdr(X-Tenant)
            hash-balance-factor 150
            option httpchk
            http-check send meth GET uri /health hdr Host app.test hdr X-Check 1
            http-check expect status 200-299
            cookie srv insert indirect nocache maxlife 1h
            retry-on conn-failure response-timeout 503
            default-server check inter 5s rise 3 maxconn 100
            server one 10.0.0.1:80 cookie a weight 5
            server two unix@/run/app.sock cookie b
            server off 10.0.0.3:80 disabled
            server spare 10.0.0.4:80 backup cookie c slowstart 10s observe layer7
            server tagged 10.0.0.5:80 cookie d namespace blue",
    );
    assert_holds(
        &yaml,
        &[
            "workers: 2",
            "drain_timeout: 30s",
            "tunnel_idle_timeout: 1h",
            "balance: { hash: { header: x-tenant }, balance_factor: 150 }",
            "path: /health",
            "host: app.test",
            "headers: { x-check: \"1\" }",
            "statuses: \"200-299\"",
            "rise: 3",
            "sticky: { cookie: srv, lifetime: 1h }",
            "queue: { size: 10000, timeout: 2s }",
            "attempts: 3",
            "address: \"unix:/run/app.sock\", max_in_flight: 100",
            "backup: true",
            "trust: [\"127.0.0.1\", \"::1\"]",
        ],
    );
    assert!(!yaml.contains("10.0.0.3:80\""), "{yaml}");
    let reasons = ["accept-proxy", "server spare … slowstart", "namespace blue"];
    for reason in reasons {
        assert!(left.iter().any(|line| line.contains(reason)), "{reason}: {left:#?}");
    }
}

/// Each URL has its server, as caches want it.
#[test]
fn urls_that_decide_on_the_server() {
    let backend = |balance: &str| {
        imported(&format!(
            "defaults\n mode http\nfrontend www\n bind :8080\n default_backend app\nbackend app\n balance {balance}\n server one 10.0.0.1:80\n server two 10.0.0.2:80"
        ))
    };
    for (balance, expected) in [
        ("uri", "hash: path"),
        ("uri whole", "hash: target"),
        ("hash path", "hash: path"),
        ("hash pathq", "hash: target"),
    ] {
        let (yaml, left) = backend(balance);
        assert!(yaml.contains(&format!("balance: {{ {expected} }}")), "{balance}: {yaml}");
        assert_eq!(left, Vec::<String>::new());
    }
    let (yaml, left) = backend("uri depth 2");
    assert!(!yaml.contains("hash:") && left[0].contains("balance uri depth 2: nothing here chooses so"), "{left:?}");
}

#[test]
fn what_is_no_configuration_is_rejected() {
    for (text, expected) in [
        ("bind :80", "1: `bind` stands before the first section"),
        ("global\n daemon", "1: no frontend of it can be carried"),
        ("frontend x from nobody\n bind :80", "1: there is no `defaults nobody` before it"),
        (".if x", "1: `.if`: conditional blocks are not read; remove them first"),
        ("frontend x\n bind \"$NOBODY_SETS_THIS\"", "2: the environment variable `NOBODY_SETS_THIS` is not set"),
    ] {
        let (yaml, errors) = imported(text);
        assert_eq!(yaml, "", "{text}");
        assert!(errors.concat().ends_with(expected), "{text}: {errors:?}");
    }
}
