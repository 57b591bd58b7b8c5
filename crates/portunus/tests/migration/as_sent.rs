//! What upstreams see, and where redirects lead, is what the original sends: host and port, fields about the client, methods, an empty query.

use super::beside::{Beside, get};

/// Requests that are sent to both, each of which is to have one outcome.
fn compare(site: &Beside, requests: &[&str]) {
    site.compare(&requests.iter().map(|request| ("web", *request)).collect::<Vec<_>>());
}

const HOSTS: [&str; 4] = [
    "GET /a/x HTTP/1.1\nHost: a.test",
    "GET /a/x HTTP/1.1\nHost: a.test:8080",
    "GET /a/x HTTP/1.1\nHost: [::1]:81",
    "GET /a/x HTTP/1.1\nHost: 127.0.0.1:81",
];

#[test]
fn the_host_of_nginx_has_a_port_where_it_is_said() {
    for value in ["$host", "$http_host", "app.internal", "app.internal:81", "$proxy_host"] {
        let fields = "proxy_set_header X-Forwarded-Host $host; proxy_set_header X-Seen $http_host; proxy_set_header X-Url $scheme://$http_host$uri;";
        let site = Beside::nginx(&format!(
            "server {{ listen @web@; location / {{ proxy_pass http://@A@; proxy_set_header Host {value}; {fields} }}
             location /r/ {{ return 302 http://$http_host/x; }} location /s/ {{ return 302 http://$host/x$is_args$args; }} }}"
        ));
        site.nothing_is_left_out();
        compare(&site, if value == "$proxy_host" { &[] } else { &HOSTS });
        for path in ["/r/", "/s/", "/s/?", "/s/?y"] {
            compare(&site, &[&format!("GET {path} HTTP/1.1\nHost: a.test:8080"), &get("a.test", path)]);
        }
    }
    // The port of the listener, which is another one for each of the two.
    let site = Beside::nginx(
        "server { listen @web@; location / { proxy_pass http://@A@; proxy_set_header Host $host:$server_port; } }",
    );
    site.nothing_is_left_out();
    let [_, port] = site.addresses("web").map(|address| address.port());
    for request in &HOSTS[..2] {
        let [theirs, ours] = site.ask("web", request);
        assert_eq!(theirs.status, 200);
        assert_eq!(ours.seen.unwrap().2, format!("a.test:{port}"));
    }
}

#[test]
fn the_host_of_haproxy_has_a_port_where_it_is_said() {
    for value in [
        "%[hdr(host)]",
        "%[req.hdr(host),lower]",
        "%[hdr(host),field(1,:)]",
        "%[req.hdr(host),lower,field(1,:)]:99",
        "x.test:1",
    ] {
        let site = Beside::haproxy(&format!(
            "frontend f\n bind @web@\n http-request set-header X-Before %[hdr(host)]\n http-request set-header Host {value}\n \
             default_backend b\nbackend b\n server s @A@"
        ));
        site.nothing_is_left_out();
        compare(&site, &HOSTS[..2]);
    }
    // What stands for the host behind the change is the changed one.
    let site = Beside::haproxy(
        "frontend f\n bind @web@\n http-request set-header Host x.test:1\n http-request set-header X-Host %[hdr(host)]\n \
         http-request set-header X-One 1\n http-request set-header X-Two %[req.hdr(x-one)]\n default_backend b\nbackend b\n server s @A@",
    );
    site.nothing_is_left_out();
    compare(&site, &["GET / HTTP/1.1\nHost: a.test\nX-One: 2"]);
}

/// A field that is added twice has two values, and of one with several HAProxy puts in the last.
#[test]
fn values_of_fields_are_all_there() {
    let site = Beside::haproxy(
        "frontend f\n bind @web@\n http-request add-header X-Two a\n http-request set-header X-Whole %[req.fhdr(x)]\n default_backend b\n\
         backend b\n http-request add-header X-Two %[src]\n server s @A@",
    );
    site.nothing_is_left_out();
    compare(&site, &["GET / HTTP/1.1\nHost: a.test\nX: 1, 2", "GET / HTTP/1.1\nHost: a.test\nX-Two: b\nX: 1"]);
}

#[test]
fn a_redirect_keeps_the_port_that_it_was_asked_by() {
    for rule in [
        "http-request redirect scheme https",
        "redirect scheme https code 301",
        "http-request redirect code 307 scheme https if { path_beg /a }",
        "http-request redirect location https://%[hdr(host)]%[capture.req.uri]",
        "http-request redirect location https://%[hdr(host),field(1,:)]:8443%[capture.req.uri]",
        "http-request redirect prefix https://%[req.hdr(host)]/x",
        "http-request redirect prefix /x drop-query",
    ] {
        let site =
            Beside::haproxy(&format!("frontend f\n bind @web@\n {rule}\n default_backend b\nbackend b\n server s @A@"));
        site.nothing_is_left_out();
        compare(&site, &HOSTS[..2]);
        compare(&site, &["GET /a/y?z=1 HTTP/1.1\nHost: a.test:8080", &get("a.test", "/a?")]);
    }
}

/// Whatever other places send, one that names no field of these sends none.
#[test]
fn places_that_send_nothing_of_the_client_send_nothing() {
    let usual = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Real-IP $remote_addr;";
    let site = Beside::nginx(&format!(
        "server {{ listen @web@; {usual}
            location / {{ proxy_pass http://@A@; }}
            location /none/ {{ proxy_pass http://@A@; proxy_set_header Host $host; }}
            location /some/ {{ proxy_pass http://@A@; proxy_set_header X-Real-IP $remote_addr; }}
            location /fixed/ {{ proxy_pass http://@A@; proxy_set_header X-Forwarded-For 192.0.2.1; proxy_set_header X-Forwarded-Proto https; }}
            location /empty/ {{ proxy_pass http://@A@; proxy_set_header X-Forwarded-For ''; }}
            location /id/ {{ proxy_pass http://@A@; proxy_set_header X-Forwarded-Port 443; }}
        }}
        server {{ listen @web@; server_name b.test; location / {{ proxy_pass http://@B@; }} }}"
    ));
    site.nothing_is_left_out();
    let paths = ["/", "/none/", "/some/", "/fixed/", "/empty/", "/id/"];
    site.compare_paths("a.test", &paths);
    site.compare_paths("b.test", &["/"]);
}

/// A port or a scheme that is always the same is that, whatever the listener is.
#[test]
fn fields_of_haproxy_that_are_fixed_stay_so() {
    for (rules, fields) in [
        (
            "http-request set-header X-Forwarded-Proto https\n http-request set-header X-Forwarded-Port 443",
            ["https", "443"],
        ),
        (
            "http-request set-header X-Forwarded-Proto http\n http-request add-header X-Forwarded-Port 80",
            ["http", "80"],
        ),
    ] {
        let site = Beside::haproxy(&format!(
            "frontend f\n bind @web@\n option forwardfor\n {rules}\n default_backend b\nbackend b\n server s @A@"
        ));
        site.nothing_is_left_out();
        compare(&site, &[&get("a.test", "/")]);
        let written = |field: &str, value: &str| site.yaml().contains(&format!("{field}: {value}"));
        assert!(written("x-forwarded-port", &format!("\"{}\"", fields[1])), "{}", site.yaml());
    }
}

/// nginx reads capital letters, `-` and `_` alone; HAProxy any token.
#[test]
fn methods_are_those_that_the_original_takes() {
    let text = "server { listen @web@; location / { proxy_pass http://@A@; } location /no/ { return 204; } }";
    let requests: Vec<String> = ["foo", "Purge", "X.Y", "M1", "PROPFIND", "A_B", "VERSION-CONTROL", "FOO"]
        .iter()
        .flat_map(|method| ["/", "/no/"].map(|path| format!("{method} {path} HTTP/1.1\nHost: a.test")))
        .collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare(&Beside::nginx(text), &requests);
    // One that is written in small letters is rejected, whoever would take it.
    let requests: Vec<&str> = requests.into_iter().filter(|request| !request.starts_with("Purge")).collect();
    compare(&Beside::haproxy("frontend f\n bind @web@\n default_backend b\nbackend b\n server s @A@"), &requests);
}

#[test]
fn an_empty_query_goes_on_as_it_does() {
    let site = Beside::nginx(
        "server { listen @web@;
            location / { proxy_pass http://@A@; }
            location /a/ { proxy_pass http://@A@/b/; }
            location = /e { proxy_pass http://@A@/f; }
            location /c/ { rewrite ^/c/(.*)$ /d/$1 break; proxy_pass http://@A@; }
            location /u/ { proxy_pass http://@A@$request_uri; }
            location /m/ { return 301 /n$request_uri; }
            location /o/ { return 301 /n/$is_args$args; }
            location /p/ { rewrite ^/p/(.*)$ /q/$1 permanent; }
        }",
    );
    site.nothing_is_left_out();
    let paths = ["/", "/a/", "/a/x", "/a", "/e", "/c/y", "/u/z", "/m/", "/o/", "/p/r"];
    let all: Vec<String> =
        paths.iter().flat_map(|path| ["", "?", "?x", "?x="].map(|query| format!("{path}{query}"))).collect();
    site.compare_paths("a.test", &all.iter().map(String::as_str).collect::<Vec<_>>());
}
