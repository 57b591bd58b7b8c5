//! What operators write often, beside the originals: names of fields that are restricted, https by a field of a proxy, values that are not so; and what the
//! findings say of things that are for other programs.

use super::beside::{Beside, HAPROXY_DEFAULTS, Program, import};

/// What `import` prints for a text, and what it says beside.
fn imported(program: &str, text: &str) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("the.conf");
    std::fs::write(&file, text).unwrap();
    let output = import(program, &file);
    let said = String::from_utf8(output.stderr).unwrap();
    let said = said.lines().filter_map(|line| line.strip_prefix("portunus: left out: ")).map(str::to_owned).collect();
    (String::from_utf8(output.stdout).unwrap(), said)
}

/// Which names of fields are invalid, and what becomes of these.
#[test]
fn names_of_fields_are_restricted_as_by_the_original() {
    let server = |more: &str| format!("server {{ listen @web@; {more} location / {{ proxy_pass http://@A@; }} }}");
    let haproxy = |more: &str| {
        format!(
            "{HAPROXY_DEFAULTS}frontend www\n bind @web@\n {more}\n default_backend app\nbackend app\n server one @A@\n"
        )
    };
    let request = "GET / HTTP/1.1\nHost: a.test\nx-my_key: 1\nx-my.key: 2";
    for (program, text, status, left) in [
        (Program::Nginx, server(""), 200, ""),
        (Program::Nginx, server("underscores_in_headers on;"), 200, "x-my_key"),
        (Program::Nginx, server("ignore_invalid_headers off;"), 200, "x-my_key x-my.key"),
        (Program::Nginx, server("ignore_invalid_headers off; underscores_in_headers on;"), 200, "x-my_key x-my.key"),
        (Program::Haproxy, haproxy(""), 200, "x-my_key x-my.key"),
        (Program::Haproxy, haproxy("option http-restrict-req-hdr-names preserve"), 200, "x-my_key x-my.key"),
        (Program::Haproxy, haproxy("option http-restrict-req-hdr-names delete"), 200, ""),
        (Program::Haproxy, haproxy("option http-restrict-req-hdr-names reject"), 403, ""),
    ] {
        let site = Beside::start(&program, &text, &["web"]);
        assert_eq!(site.left_out(), Vec::<String>::new(), "{}", site.yaml());
        for (at, outcome) in site.ask("web", request).into_iter().enumerate() {
            // The reason is the same, and its status ours.
            let expected = if at == 1 && status == 403 { 400 } else { status };
            assert_eq!(outcome.status, expected, "{at} {text}");
            let fields = outcome.seen.map(|seen| seen.3).unwrap_or_default();
            let seen: Vec<&str> =
                ["x-my_key", "x-my.key"].into_iter().filter(|name| fields.contains_key(*name)).collect();
            assert_eq!(seen.join(" "), left, "{at} {text}");
        }
    }
}

/// Sections that differ: all are as the strictest, which is said.
#[test]
fn the_strictest_restriction_of_names_holds_for_all() {
    let section = |name: &str, option: &str| {
        format!("frontend {name}\n bind :80{}\n {option}\n default_backend app\n", name.len())
    };
    let option = "option http-restrict-req-hdr-names";
    let text = format!(
        "{HAPROXY_DEFAULTS}{}{}backend app\n server one 127.0.0.1:1\n",
        section("a", &format!("{option} delete")),
        section("bc", "")
    );
    let (yaml, said) = imported("haproxy", &text);
    assert!(yaml.contains("unusual_names: drop") && said.len() == 1 && said[0].contains(option), "{said:?}\n{yaml}");
    let (yaml, said) = imported(
        "nginx",
        "server { listen 80; underscores_in_headers on; location / { proxy_pass http://127.0.0.1:1; } }\nserver { listen 81; location / { proxy_pass http://127.0.0.1:1; } }",
    );
    assert!(
        yaml.contains("unusual_names: drop") && said.len() == 1 && said[0].contains("underscores"),
        "{said:?}\n{yaml}"
    );
}

/// `X-Forwarded-Proto` decides where a proxy in front is named; the finding says how, and that is all it takes.
#[test]
fn redirects_to_https_by_the_field_of_a_proxy_are_carried() {
    for condition in ["= http", "= \"http\"", "!= https", "!= \"https\"", "~ ^http$"] {
        let text = format!(
            "server {{ listen @web@; if ($http_x_forwarded_proto {condition}) {{ return 301 https://$host$request_uri; }} location / {{ proxy_pass http://@A@; }} }}"
        );
        let edit = "trusted_proxies: [127.0.0.1]\n";
        let site = Beside::start_edited(&Program::Nginx, &text, &["web"], edit);
        let said = site.left_out();
        assert!(said.len() == 1 && said[0].contains("add `trusted_proxies: [ADDRESS]`"), "{said:?}");
        let request = |field: &str| format!("GET /a?b=c HTTP/1.1\nHost: a.test{field}");
        let all = ["", "\nX-Forwarded-Proto: http", "\nX-Forwarded-Proto: https"].map(request);
        site.compare(&all.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
        // Until then, who comes through no such proxy is redirected, or not, as who sends no such field.
        let site = Beside::nginx(&text);
        let without = site.ask("web", &request(""));
        for request in &all {
            assert_eq!(site.ask("web", request)[1].status, without[1].status, "{condition}");
        }
        assert_eq!(without[0].status, without[1].status);
    }
    // Nothing but redirects hangs on it.
    let text = "server { listen 80; if ($http_x_forwarded_proto != https) { return 403; } location / { proxy_pass http://127.0.0.1:1; } }";
    let (yaml, said) = imported("nginx", text);
    assert!(yaml.contains("status: 501") && said[0].contains("any client may send"), "{said:?}\n{yaml}");
}

/// The same of HAProxy, with other conditions beside it.
#[test]
fn redirects_to_https_by_the_field_of_a_proxy_are_carried_from_haproxy() {
    for (acl, condition) in [
        ("", "if { hdr(X-Forwarded-Proto) http }"),
        ("", "unless { req.hdr(x-forwarded-proto) -i https }"),
        ("acl plain hdr(x-forwarded-proto) -i http", "if plain"),
        ("acl plain hdr(x-forwarded-proto) http", "if plain { path_beg /a }"),
    ] {
        let text = format!(
            "{HAPROXY_DEFAULTS}frontend www\n mode http\n bind @web@\n {acl}\n http-request redirect scheme https code 301 {condition}\n default_backend app\nbackend app\n mode http\n server one @A@\n"
        );
        let site = Beside::start_edited(&Program::Haproxy, &text, &["web"], "trusted_proxies: [127.0.0.1]\n");
        let said = site.left_out();
        assert!(said.len() == 1 && said[0].contains("add `trusted_proxies: [ADDRESS]`"), "{said:?}");
        let request = |field: &str| format!("GET /a?b=c HTTP/1.1\nHost: a.test{field}");
        let all = ["", "\nX-Forwarded-Proto: http", "\nX-Forwarded-Proto: https"].map(request);
        site.compare(&all.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
        let site = Beside::start(&Program::Haproxy, &text, &["web"]);
        let without = site.ask("web", &request(""));
        for request in &all {
            assert_eq!(site.ask("web", request)[1].status, without[1].status, "{condition}");
        }
    }
    // Nothing but redirects hangs on it.
    for rule in [
        "deny if { hdr(x-forwarded-proto) http }",
        "deny unless { hdr(x-forwarded-proto) https }",
        "set-header X-A 1 if { hdr(x-forwarded-proto) http }",
    ] {
        let text = format!(
            "frontend www\n mode http\n bind :80\n http-request {rule}\n default_backend app\nbackend app\n mode http\n server one 127.0.0.1:1"
        );
        let (_, said) = imported("haproxy", &text);
        assert!(said.iter().any(|line| line.contains("nothing is decided by it")), "{rule}: {said:?}");
    }
}

#[test]
fn a_value_that_is_not_a_text_is_a_condition() {
    let site = Beside::nginx(
        "server { listen @web@; if ($http_x_key != \"k-1\") { return 403; } location / { proxy_pass http://@A@; } }",
    );
    assert_eq!(site.left_out(), Vec::<String>::new(), "{}", site.yaml());
    for value in ["", "k-1", "k-", "k", "k-2", "K-1", "k-11", "x", "k_1", "\u{e9}", "k-1, k-1"] {
        let field = if value.is_empty() { String::new() } else { format!("\nX-Key: {value}") };
        site.compare(&[("web", &format!("GET / HTTP/1.1\nHost: a.test{field}"))]);
    }
    site.compare(&[("web", "GET / HTTP/1.1\nHost: a.test\nX-Key:")]);
}

/// A path as it is by then, and the query.
#[test]
fn a_target_of_path_and_query_is_forwarded() {
    for end in ["$uri$is_args$args", "$uri$is_args$query_string"] {
        let site = Beside::nginx(&format!(
            "server {{ listen @web@; location / {{ proxy_pass http://@A@{end}; }} location /b/ {{ rewrite ^/b/(.*) /$1 break; proxy_pass http://@B@{end}; }} }}"
        ));
        assert_eq!(site.left_out(), Vec::<String>::new(), "{}", site.yaml());
        site.compare_paths("a.test", &["/", "/a?b=c", "/a/b/?x=%2F&y", "/b/", "/b/c?d"]);
    }
}

/// All that is for a server beside is one finding, which names it and the way to it.
#[test]
fn files_and_fastcgi_are_one_finding_that_names_a_server_beside() {
    let text = "server { listen 80; root /var/www; index index.php;
        location / { try_files $uri $uri/ /index.php?$args; }
        location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; fastcgi_index index.php; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }
        location /static/ { alias /srv/static/; }
        location /app/ { uwsgi_pass unix:/run/app.sock; uwsgi_read_timeout 9s; } }";
    let (yaml, said) = imported("nginx", text);
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["127.0.0.1:8081", "upstreams: { beside:", "upstream: beside"] {
        assert!(said[0].contains(part) && yaml.contains(part), "{part}: {said:?}");
    }
    assert!(!yaml.contains("upstream: \"") && yaml.contains("status: 501"), "{yaml}");
    // What it names, works.
    let edited = yaml.replace("respond: { status: 501 }", "upstream: beside, host: keep");
    let edited = format!("{edited}upstreams: {{ beside: {{ servers: [\"127.0.0.1:8081\"] }} }}\n");
    assert!(config_is_good(&edited), "{edited}");
}

/// To a server beside, all clients come from here: what nginx keeps from some of them is not handed to it.
#[test]
fn what_is_guarded_is_not_for_a_server_beside() {
    for guarded in [
        "location /status { allow 127.0.0.1; deny all; fastcgi_pass unix:/run/php.sock; }",
        "location /login { limit_req zone=one; fastcgi_pass unix:/run/php.sock; }",
        "allow 127.0.0.1; deny all; root /var/www;",
        "location / { allow 127.0.0.1; deny all; try_files $uri /index.html; }",
    ] {
        let text =
            format!("limit_req_zone $binary_remote_addr zone=one:1m rate=1r/s; server {{ listen 80; {guarded} }}");
        let (yaml, said) = imported("nginx", &text);
        assert!(said.iter().any(|line| line.contains("guards it")), "{guarded}: {said:?}");
        assert!(
            !said.iter().any(|line| line.contains("127.0.0.1:8081")) && yaml.contains("status: 501"),
            "{yaml}\n{said:?}"
        );
    }
}

/// A condition that would be too long to be read closes its place alone.
#[test]
fn a_long_secret_that_something_is_not_closes_its_place() {
    for (secret, is_short) in
        [("0123456789abcdef".repeat(4), false), ("0123456789abcdef".repeat(2), true), ("short".to_owned(), true)]
    {
        let text = format!(
            "server {{ listen 80; location / {{ if ($http_x_key != \"{secret}\") {{ return 403; }} proxy_pass http://127.0.0.1:1; }} }}"
        );
        let (yaml, said) = imported("nginx", &text);
        assert!(config_is_good(&yaml), "{yaml}");
        assert_eq!(said.is_empty(), is_short, "{said:?}");
        assert_eq!(yaml.contains("upstream: "), is_short, "{yaml}");
    }
}

fn config_is_good(text: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("portunus.yaml");
    std::fs::write(&file, text).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_portunus")).arg("check").arg(&file).output().unwrap();
    output.status.success()
}

#[test]
fn findings_name_what_is_built_in() {
    let acme = "server { listen 80; location /.well-known/acme-challenge/ { root /var/www/certbot; } location / { return 301 https://$host$request_uri; } }";
    let (_, said) = imported("nginx", acme);
    assert!(said.len() == 1 && said[0].contains("acme: { folder:"), "{said:?}");
    let stats = format!("{HAPROXY_DEFAULTS}listen stats\n bind :8404\n stats enable\n stats uri /\n");
    let (_, said) = imported("haproxy", &stats);
    assert!(said.len() == 1 && said[0].contains("admin: { bind:"), "{said:?}");
    let text = "server { listen 80; location = /auth { internal; proxy_pass http://127.0.0.1:1; }
        location / { auth_request /auth; error_page 401 = @in; proxy_pass http://127.0.0.1:2; } location @in { proxy_pass http://127.0.0.1:3; } }";
    for text in [text.to_owned(), text.replace("401 = @in", "403 =302 https://in.test/")] {
        let (yaml, said) = imported("nginx", &text);
        assert!(said.len() == 1 && said[0].contains("in `forward_auth`, write the `path`"), "{said:?}");
        assert!(yaml.contains("forward_auth: {") && yaml.contains("policies: [signed-in]"), "{yaml}");
    }
}
