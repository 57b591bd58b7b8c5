//! `portunus check` and `portunus schema` as an operator runs them: exit status, and what goes where.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

fn portunus(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portunus")).args(arguments).output().unwrap()
}

/// Checks `text` as a file; gives status, stdout and stderr with the file called `FILE`.
fn check(text: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portunus.yaml");
    fs::write(&path, text).unwrap();
    let output = portunus(&["check", path.to_str().unwrap()]);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(path.to_str().unwrap(), "FILE");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_good_file_is_summed_up() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gate-minimal.yaml");
    let (status, out, err) = check(&fs::read_to_string(example).unwrap());
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_eq!(out, "FILE: ok (1 listener, 0 keystores, 1 upstream, 1 route)\n");
}

#[test]
fn every_problem_of_a_bad_file_is_reported_on_stderr() {
    let (status, out, err) = check("listeners:\n  - { name: edge, bind: ':99999' }\nroutes:\n  - { upstream: app }\n");
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert_eq!(
        err,
        "FILE:2:25: `:99999` is not an address to listen on; fix: use a port from 0 to 65535\n\
         FILE:4:17: there is no upstream `app`; fix: define it: the file has none yet\n"
    );
}

#[test]
fn routes_that_conflict_are_reported_with_both_places() {
    let (status, _, err) = check(
        "listeners: [{ name: edge, bind: '127.0.0.1:0' }]\nroutes:\n  - { path: '/{a}', respond: { status: 200 } }\n  - { path: '/{b}', respond: { status: 200 } }\n",
    );
    assert_eq!(status, Some(1));
    assert!(err.contains("FILE:3") && err.contains("FILE:4"), "{err}");
}

#[test]
fn routes_that_conflict_are_reported_beside_other_problems() {
    let (status, _, err) = check(
        "listeners: [{ name: edge, bind: ':99999' }]\nroutes:\n  - { path: '/{a}', respond: { status: 200 } }\n  - { path: '/{b}', respond: { status: 200 } }\n  - { path: /c, upstream: app }\n",
    );
    assert_eq!(status, Some(1));
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 3, "{err}");
    assert!(lines[0].starts_with("FILE:1:") && lines[1].starts_with("FILE:5:"), "{err}");
    assert!(lines[2].starts_with("FILE:4") && lines[2].contains("FILE:3"), "{err}");
}

#[test]
fn what_a_bad_file_names_is_looked_into_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("certs")).unwrap();
    fs::write(at("certs/a.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    fs::write(at("api.yaml"), "openapi: 9.9\n").unwrap();
    fs::write(at("trust"), "10.0.0.0/8\nnobody\n").unwrap();
    fs::write(
        at("portunus.yaml"),
        "keystores: { main: { folder: certs }, gone: { folder: nowhere } }
contracts: { api: { document: api.yaml } }
listeners:
  - { name: edge, bind: ':99999', tls: { keystore: main } }
  - { name: mail, bind: '127.0.0.1:0', proxy_protocol: { trust_file: trust } }
",
    )
    .unwrap();
    let output = portunus(&["check", at("portunus.yaml").to_str().unwrap()]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    for (reported, what) in
        [(1, ":99999"), (1, "nowhere"), (1, "keystore main: "), (1, "listener mail: trust list "), (1, "api.yaml")]
    {
        assert_eq!(err.lines().filter(|line| line.contains(what)).count(), reported, "{what} in {err}");
    }
}

#[test]
fn pipes_and_devices_are_rejected_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // The time only ends a program that waits for ever.
    let check = |file: &str| {
        let output = Command::new("timeout").args(["60", env!("CARGO_BIN_EXE_portunus"), "check", file]).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    for file in [at("pipe"), "/dev/zero".to_owned()] {
        let (status, err) = check(&file);
        assert_eq!(status, Some(1), "{err}");
        assert!(err.contains("not a regular file"), "{err}");
    }
    fs::write(at("empty"), "").unwrap();
    for named in [
        "keystores: { main: { pkcs12: pipe } }",
        "keystores: { main: { jks: pipe } }",
        "keystores: { main: { pkcs12: empty, password: { file: pipe } } }",
        "contracts: { api: { document: pipe } }",
        "listeners: [{ name: mail, bind: '127.0.0.1:0', proxy_protocol: { trust_file: pipe } }]",
        "upstreams: { app: { servers: ['a.test:1'], tls: { ca: pipe } } }",
    ] {
        fs::write(at("portunus.yaml"), named).unwrap();
        let (status, err) = check(&at("portunus.yaml"));
        assert_eq!(status, Some(1), "{named}: {err}");
        assert_eq!(err.matches("not a regular file").count(), 1, "{named}: {err}");
        assert!(err.contains("pipe` is not a regular file"), "{named}: {err}");
    }
}

#[test]
fn the_schema_is_printed() {
    let output = portunus(&["schema"]);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/portunus.schema.json");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), fs::read_to_string(committed).unwrap());
    assert!(output.status.success());
}

/// The fix that is suggested for the only problem of `text`.
fn fix(text: &str) -> String {
    let (status, _, err) = check(text);
    assert_eq!((status, err.lines().count()), (Some(1), 1), "{text}: {err}");
    err.trim_end().rsplit_once("; fix: ").unwrap_or_else(|| panic!("no fix in {err}")).1.to_owned()
}

/// What is put between the last two backticks of a text.
fn quoted(text: &str) -> &str {
    text.split('`').nth(1).unwrap_or_else(|| panic!("nothing to write in {text}"))
}

#[test]
fn what_is_suggested_is_right_itself() {
    let file = |bind: &str, path: &str, more: &str| {
        format!(
            "listeners: [{{ name: edge, bind: {bind} }}]\nupstreams: {{ app: {{ servers: ['127.0.0.1:1'] }} }}\nroutes:\n  - {{ path: '{path}', upstream: app{more} }}\n"
        )
    };
    let good = "':8080'";
    for (path, expected) in [
        ("/api/**", "/api/{*rest}"),
        ("/api/*", "/api/{*rest}"),
        ("/a/*/b", "/a/{name}/b"),
        ("/a/:user-id/b", "/a/{name}/b"),
        ("/a/:id", "/a/{id}"),
        ("^/x/", "/x/"),
        ("^/x/.*$", "/x/{*rest}"),
        ("~ ^/x/(.*)$", "/x/{*rest}"),
        ("/x/.*", "/x/{*rest}"),
        ("x/y", "/x/y"),
    ] {
        let mut path = path.to_owned();
        // A segment is suggested alone.
        let suggested = fix(&file(good, &path, ""));
        let written = quoted(&suggested).to_owned();
        path = match written.strip_prefix('/') {
            Some(_) => written,
            None => {
                let wrong = path.split('/').find(|part| part.starts_with([':', '*']) || part.contains(".*")).unwrap();
                path.replace(&format!("/{wrong}"), &format!("/{written}"))
            }
        };
        assert_eq!(path, expected);
        assert_eq!(check(&file(good, &path, "")).0, Some(0), "{path}");
    }
    for bind in ["80", "'80'", "*:80"] {
        let bind = if bind.starts_with('*') { "'*:80'" } else { bind };
        let suggested = fix(&file(bind, "/", ""));
        let written = quoted(&suggested).trim_start_matches("bind: ").trim_matches('"').to_owned();
        assert_eq!(written, ":80", "{suggested}");
    }
    let suggested = fix(&file(good, "/", ", host: other.example.com"));
    assert_eq!(quoted(&suggested), "hosts: [other.example.com]");
    assert_eq!(check(&file(good, "/", &format!(", {}", quoted(&suggested)))).0, Some(0));
    let suggested = fix(&file(good, "/", ", response_headers: { X-A: b }"));
    assert_eq!(suggested, "write it under `set`: `set: { X-A: ... }`");
    assert_eq!(fix(&file(good, "/", ", methods: [ALL]")), "remove `methods` for any method");
    for value in ["{client_ip}", "$remote_addr", "%[src]"] {
        let suggested = fix(&file(good, "/", &format!(", request_headers: {{ set: {{ X-Real-IP: \"{value}\" }} }}")));
        assert!(suggested.starts_with("remove it: Portunus writes `x-real-ip` itself"), "{suggested}");
    }
}

/// Whatever the name is, what is suggested is the YAML that means it.
#[test]
fn a_suggested_name_is_valid_yaml() {
    let file = |host: &str| {
        format!(
            "listeners: [{{ name: edge, bind: ':8080' }}]\nupstreams: {{ app: {{ servers: ['127.0.0.1:1'] }} }}\nroutes:\n  - {{ path: /, upstream: app, {host} }}\n"
        )
    };
    for (name, is_host) in [
        ("app.internal", true),
        ("app.internal:8080", true),
        ("[::1]:8080", true),
        ("10.0.0.1", true),
        ("a-b.c_d", true),
        ("123", true),
        ("null", true),
        ("true", true),
        ("1e3", true),
        ("0x10", true),
        ("-a", false),
        ("a: b", false),
        ("a #b", false),
        ("it's", false),
        ("'a'", false),
        ("{a}", false),
        ("a, b", false),
        ("*a", false),
        ("&a", false),
        ("!a", false),
        ("@a", false),
        ("%a", false),
        ("a:", false),
        ("~", false),
        ("\\\\a", false),
        ("", false),
        (" a", false),
        ("\\ta", false),
    ] {
        let suggested = fix(&file(&format!("host: \"{name}\"")));
        if suggested.starts_with("to match requests for a host, ") {
            assert!(!is_host, "{name}: {suggested}");
            continue;
        }
        let (matching, written) = suggested
            .strip_prefix("to match requests for this host, write `")
            .and_then(|rest| rest.strip_suffix('`')?.split_once("`; to send it upstream, write `"))
            .unwrap_or_else(|| panic!("{name}: {suggested}"));
        let (status, _, err) = check(&file(written));
        // It means the name, which may be wrong itself.
        assert_eq!(status == Some(0), is_host, "{name}: {written}: {err}");
        assert!(is_host || (err.lines().count() == 1 && !err.contains("must be")), "{name}: {written}: {err}");
        if is_host {
            let (status, _, err) = check(&file(matching));
            assert_eq!(status, Some(0), "{name}: {matching}: {err}");
            let config = config::parse("p.yaml", &file(written), Path::new("/")).unwrap();
            assert!(
                format!("{:?}", config.routes[0].action).contains(&format!("Fixed({name:?})")),
                "{name}: {written}"
            );
        }
    }
}

/// Variables of other proxies would be literal text: in targets they are rejected, in bodies, which may be any text, warned of.
#[test]
fn variables_of_other_proxies_are_reported_wherever_they_stand() {
    let file = |route: &str| {
        format!(
            "listeners: [{{ name: edge, bind: ':8080' }}]\nupstreams: {{ app: {{ servers: ['127.0.0.1:1'] }} }}\nroutes:\n  - {{ path: '/{{*rest}}', {route} }}\n  - {{ path: /app, upstream: app }}\n"
        )
    };
    for (route, expected) in [
        ("redirect: { to: 'https://www.example.com$request_uri' }", "`https://www.example.com/{rest}`"),
        ("redirect: { to: '/new$uri' }", "`/new/{rest}`"),
        ("redirect: { to: '/new/$1' }", "`/new/{rest}`"),
        ("redirect: { to: 'https://$host/new' }", "write `{host}`"),
        ("redirect: { to: 'https://%[req.hdr(host)]/new' }", "write `{host}`"),
        ("redirect: { to: '/new?$args' }", "leave it out"),
        ("redirect: { to: '/new?%[query]' }", "leave it out"),
        ("redirect: { to: '/new?x=%REQ(X-A)%' }", "path"),
        ("upstream: app, rewrite: '/new$uri'", "`/new/{rest}`"),
        ("upstream: app, rewrite: '/new/${request_uri}'", "`/new/{rest}`"),
        ("upstream_url: { url: 'http://10.0.0.1$uri' }", "`http://10.0.0.1/{rest}`"),
    ] {
        let (status, _, err) = check(&file(route));
        assert_eq!((status, err.lines().count()), (Some(1), 1), "{route}: {err}");
        assert!(err.contains("looks like a variable") && err.contains(expected), "{route}: {err}");
    }
    for route in [
        "redirect: { to: 'http://other.example/odata/$metadata' }",
        "redirect: { to: 'http://other.example/a?$filter=x&b=100%25' }",
        "upstream: app, rewrite: '/a$b/{rest}'",
    ] {
        let (status, _, err) = check(&file(route));
        assert_eq!((status, err.as_str()), (Some(0), ""), "{route}");
    }
    for body in ["you asked for $request_uri", "from %[src]", "%REQ(:PATH)% is away", "hello $remote_addr"] {
        let (status, _, err) = check(&file(&format!("respond: {{ status: 503, body: \"{body}\" }}")));
        assert_eq!((status, err.lines().count()), (Some(0), 1), "{body}: {err}");
        assert!(err.starts_with("warning: FILE:4: ") && err.contains("looks like a variable"), "{body}: {err}");
    }
    for body in ["{}", "{{a}}", "costs $5", "100% [sure]", "$", "a $b"] {
        let (status, _, err) = check(&file(&format!("respond: {{ status: 200, body: \"{body}\" }}")));
        assert_eq!((status, err.as_str()), (Some(0), ""), "{body}");
    }
}

#[test]
fn routes_with_a_problem_in_what_they_match_conflict_with_nothing() {
    let route = |matched: &str| format!("  - {{ path: /a, {matched}, respond: {{ status: 200 }} }}\n");
    for matched in ["hosts: 'a_.-x'", "methods: [get]", "listeners: nobody", "headers: { 'x y': a }"] {
        let text =
            format!("listeners: [{{ name: edge, bind: ':8080' }}]\nroutes:\n{}{}", route(matched), route("hosts: '*'"));
        let (status, _, err) = check(&text);
        assert_eq!((status, err.lines().count()), (Some(1), 1), "{err}");
    }
    let (_, _, err) = check(&format!(
        "listeners: [{{ name: edge, bind: ':8080' }}]\nroutes:\n{}{}",
        route("hosts: 'a..b'"),
        route("hosts: 'c..d'")
    ));
    assert!(err.lines().count() == 2 && !err.contains("match the same requests"), "{err}");
    let host = |name: &str| format!("  - {{ path: /a, host: {name}, upstream: app }}\n");
    let upstreams = "upstreams: { app: { servers: '127.0.0.1:9' } }";
    let (_, _, err) = check(&format!(
        "listeners: [{{ name: edge, bind: ':8080' }}]\n{upstreams}\nroutes:\n{}{}",
        host("a.example"),
        host("b.example")
    ));
    assert!(!err.is_empty() && !err.contains("match the same requests"), "{err}");
}

/// One certificate is the default by itself; of several, one must be named, unless nobody gets a default.
#[test]
fn a_keystore_needs_a_default_only_where_it_is_not_plain() {
    let folder = tempfile::tempdir().unwrap();
    let ca = DevCa::new("check").unwrap();
    let add = |name: &str| {
        let pair = ca.issue(&[name], KeyType::Ecdsa, Purpose::Server).unwrap();
        let text = format!("{}{}", pair.certificate_pem, pair.key_pem.as_str());
        fs::write(folder.path().join(format!("{name}.pem")), text).unwrap();
    };
    let check = |keystore: &str, tls: &str| {
        let text = format!(
            "keystores: {{ main: {{ folder: {}{keystore} }} }}\nroutes: [{{ respond: {{ status: 200 }} }}]\n\
             listeners: [{{ name: edge, bind: '127.0.0.1:0', tls: {{ keystore: main{tls} }} }}]\n",
            folder.path().display()
        );
        check(&text).2
    };
    add("a.example");
    assert_eq!(check("", ""), "");
    add("b.example");
    assert_eq!(
        check("", ""),
        "keystore main: no default certificate for clients that send no server name or an unknown one; \
         add `default: HOST`; there are certificates for a.example, b.example\n"
    );
    assert_eq!(check("", ", strict_sni: true"), "");
    assert_eq!(check(", default: b.example", ""), "");
    assert_eq!(
        check(", default: c.example", ""),
        "keystore main: no certificate is for `default: c.example`; name one that is here: a.example, b.example\n"
    );
}

#[test]
fn everything_is_counted() {
    let (status, out, err) =
        check("udp_listeners: [{ name: dns, bind: '127.0.0.1:5300', upstream: '127.0.0.1:5301' }]\n");
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(out, "FILE: ok (0 listeners, 0 keystores, 0 upstreams, 0 routes, 1 UDP listener)\n");
}

/// By a pipe that is closed before anything is written to it.
#[test]
fn a_closed_pipe_ends_a_command_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.yaml");
    fs::write(&good, "listeners: [{ name: edge, bind: ':8080', tunnel: { upstream: app } }]\nupstreams: { app: { servers: ['127.0.0.1:1'] } }\n").unwrap();
    let good = good.to_str().unwrap();
    let missing = folder.path().join("missing.yaml");
    let missing = missing.to_str().unwrap();
    let (demo, init) = (folder.path().join("demo"), folder.path().join("init"));
    for arguments in [
        &["check", good][..],
        &["check", missing],
        &["contract", "check", missing],
        &["routing", "check"],
        &["key-server", "check", missing],
        &["key-server", "schema"],
        &["key-server", "run", missing],
        &["run", missing],
        &["reload", "--control", missing],
        &["demo", "--prepare-only", "--dir", demo.to_str().unwrap()],
        &["key-server", "init", init.to_str().unwrap(), "--sites", "1"],
        &["import", "go-mmproxy", "--help"],
        &["as", "go-mmproxy", "--help"],
        &["schema"],
        &["man"],
        &["help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        // Whichever of the two it writes to.
        let errors = folder.path().join("errors");
        for both in [false, true] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_portunus"));
            command.args(arguments).stdout(writer.try_clone().unwrap());
            if both {
                command.stderr(writer.try_clone().unwrap());
            } else {
                command.stderr(fs::File::create(&errors).unwrap());
            }
            let status = command.status().unwrap();
            // 101 is the status of a panic.
            assert_ne!(status.code(), Some(101), "{arguments:?}");
            let reported = fs::read_to_string(&errors).unwrap_or_default();
            assert!(!reported.contains("panicked"), "{arguments:?}: {reported}");
        }
        let _ = fs::remove_dir_all(&init);
    }
}

#[test]
fn help_is_no_problem() {
    for (arguments, expected) in [
        (&["help"][..], "Usage: portunus"),
        (&["help", "run"], "Configuration file (YAML)"),
        (&["as", "--help"], "go-mmproxy"),
        (&["import", "-h"], "api-firewall"),
    ] {
        let output = portunus(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn a_route_without_a_name_is_called_by_what_it_matches() {
    let text = "listeners: [{ name: edge, bind: ':8080' }]
routes:
  - { path: '/a/{*rest}', hosts: [www.example.com, b.example], methods: [GET], respond: { status: 200 } }
  - { path: '/a/{*rest}', headers: { x-a: '1' }, respond: { status: 200 } }
  - { path: '/a/{*rest}', respond: { status: 200 } }
  - { path: '/x', name: named, respond: { status: 200 } }
";
    let config = config::parse("p.yaml", text, Path::new("/")).unwrap();
    let names: Vec<&str> = config.routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names[..3], ["GET www.example.com+1/a/{*rest}", "*/a/{*rest}", "*/a/{*rest}#2"]);
    assert_eq!(names[3], "named");
}

/// Checks a file beside a keystore `certs` with a certificate for `a.test`; gives the exit status and the warnings.
fn warned(text: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let certs = folder.path().join("certs");
    fs::create_dir(&certs).unwrap();
    let pair = DevCa::new("check").unwrap().issue(&["a.test"], KeyType::Ecdsa, Purpose::Server).unwrap();
    fs::write(certs.join("a.pem"), format!("{}{}", pair.certificate_pem, pair.key_pem.as_str())).unwrap();
    let path = folder.path().join("portunus.yaml");
    fs::write(&path, text).unwrap();
    let output = portunus(&[&["check", path.to_str().unwrap()], arguments].concat());
    let said = String::from_utf8(output.stderr).unwrap().replace(path.to_str().unwrap(), "FILE");
    (output.status.code(), said.lines().map(str::to_owned).collect())
}

/// Certificates that are ordered need not be there, but authorities must find what they look for; nothing is made by looking.
#[test]
fn the_ports_that_authorities_look_at_are_listened_on() {
    let text = "keystores:
  main: { acme: { folder: store, directory: letsencrypt, accept_terms: true, names: [a.test, c.test] } }
listeners: [{ name: edge, bind: '127.0.0.1:8443', tls: { keystore: main } }]
routes: [{ hosts: [a.test, b.test], path: /, respond: { status: 200 } }]
";
    let (status, warnings) = warned(text, &[]);
    let expected = [
        "warning: keystore `main`: certificate authorities connect to port 443 (tls-alpn-01) or port 80 (http-01), and no listener",
        "warning: FILE:4: route `a.test+1/`: no certificate of keystore `main` covers `b.test`",
    ];
    assert_eq!((status, warnings.len()), (Some(0), expected.len()), "{warnings:#?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(expected), "{warning}");
    }
    let reached =
        text.replace("listeners: [", "listeners: [{ name: web, bind: '127.0.0.1:80' }, ").replace(", b.test", "");
    assert_eq!(warned(&reached, &["--strict"]), (Some(0), Vec::new()));
    let reached = text.replace("8443", "443").replace(", b.test", "");
    assert_eq!(warned(&reached, &["--strict"]), (Some(0), Vec::new()));
}

/// Whoever reads `contract` there takes the route for guarded.
#[test]
fn a_contract_that_validates_nothing_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let document = "openapi: 3.1.0\ninfo: { title: a, version: '1' }\npaths: { /a: { get: { responses: { '200': { description: ok } } } } }\n";
    fs::write(folder.path().join("api.yaml"), document).unwrap();
    let check = |action: &str| {
        let path = folder.path().join("portunus.yaml");
        let text = format!(
            "listeners: [{{ name: web, bind: '127.0.0.1:80' }}]
upstreams: {{ app: {{ servers: ['127.0.0.1:1'] }} }}
contracts: {{ api: {{ document: api.yaml }} }}
routes: [{{ name: r, path: /a, contract: {action} }}]
"
        );
        fs::write(&path, text).unwrap();
        String::from_utf8(portunus(&["check", path.to_str().unwrap()]).stderr).unwrap()
    };
    let said = |does: &str| format!("route `r` {does}: of contract `api` its lists of tokens and addresses hold there");
    assert!(check("api, respond: { status: 200 }").contains(&said("responds itself")));
    assert!(check("api, redirect: { to: /b }").contains(&said("redirects")));
    assert!(!check("api, upstream: app").contains("route `r`"));
    assert!(!check("none, respond: { status: 200 }").contains("route `r`"));
}

/// Strangers make names up, and each costs an order.
#[test]
fn names_that_anybody_can_have_ordered_are_warned_of() {
    let check = |directory: &str, settings: &str| {
        let text = format!(
            "keystores:
  main: {{ acme: {{ folder: store, directory: {directory}, accept_terms: true, on_demand: {{ {settings} }} }} }}
listeners: [{{ name: edge, bind: '127.0.0.1:443', tls: {{ keystore: main }} }}]
routes: [{{ path: /, respond: {{ status: 200 }} }}]
"
        );
        warned(&text, &[]).1
    };
    for directory in ["letsencrypt", "internal"] {
        for settings in ["allow: '*.shop.test'", "allow: [a.test, '*.shop.test', '*.b.test']"] {
            let warnings = check(directory, settings);
            assert_eq!(warnings.len(), 1, "{warnings:#?}");
            let expected =
                "warning: keystore `main`: anybody can have certificates ordered for made-up names below shop.test";
            assert!(warnings[0].starts_with(expected), "{warnings:?}");
        }
        for settings in ["allow: [a.test, b.test]", "allow: '*.shop.test', ask: 'http://127.0.0.1:9000/may'"] {
            assert_eq!(check(directory, settings), Vec::<String>::new());
        }
    }
}

/// Warned of when two thirds of its life are over, and at most 14 days are left.
#[test]
fn certificates_that_end_soon_are_warned_of() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let check = |age: u32, left: u32, expected: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("certs")).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        parameters.not_before = (SystemTime::now() - age * DAY).into();
        parameters.not_after = (SystemTime::now() + left * DAY + DAY / 2).into();
        let pair = format!("{}{}", parameters.self_signed(&key).unwrap().pem(), key.serialize_pem());
        fs::write(folder.path().join("certs/a.pem"), pair).unwrap();
        let text = "keystores: { main: { folder: certs } }
listeners: [{ name: edge, bind: '127.0.0.1:0', tls: { keystore: main } }]
routes: [{ hosts: [a.test], path: /, respond: { status: 200 } }]
";
        fs::write(folder.path().join("portunus.yaml"), text).unwrap();
        let path = folder.path().join("portunus.yaml");
        let output = portunus(&["check", path.to_str().unwrap(), "--strict"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(expected.is_some())), "{said}");
        assert!(expected.map_or(said.is_empty(), |expected| said.contains(expected)), "{age} {left}: {said}");
    };
    check(80, 10, Some("in 10 days; renew it"));
    check(60, 30, None);
    check(0, 6, None);
}

#[test]
fn what_is_probably_not_meant_is_warned_of() {
    let text = "keystores: { main: { folder: certs }, spare: { folder: certs } }
upstreams: { app: { servers: ['127.0.0.1:1'] }, old: { servers: ['127.0.0.1:2'] } }
policies: { nobody: { deny: [127.0.0.1] } }
trusted_proxies: ['0.0.0.0/0']
admin: { bind: '0.0.0.0:0', allow_remote: true, token: { env: ADMIN_TOKEN } }
listeners:
  - name: edge
    bind: '127.0.0.1:0'
    tls: { keystore: main, policy: legacy, min_version: '1.3', names: [{ host: b.test, alpn: [http/1.1] }] }
routes:
  - { hosts: [a.test, c.test], path: '/{*rest}', upstream: app }
  - { hosts: a.test, path: '/old/{*rest}', redirect: { to: '/old/new/{rest}' } }
";
    let (status, warnings) = warned(text, &[]);
    let expected = [
        "warning: FILE:12: route `a.test/old/{*rest}` redirects https://a.test/old/x to /old/new/x, which it takes again: clients follow 20 times and give up",
        "warning: FILE:1: keystore `spare` is not used",
        "warning: FILE:2: upstream `old` is not used",
        "warning: FILE:3: policy `nobody` is not used",
        "warning: `trusted_proxies` holds 0.0.0.0/0: anybody who connects from there can claim any client address",
        "warning: the admin listener at 0.0.0.0:0 can be reached from other machines",
        "warning: listener `edge`: `min_version` excludes the clients that `policy: legacy` is there for",
        "warning: FILE:11: route `a.test+1/{*rest}`: no certificate of keystore `main` covers `c.test` on listener `edge`: clients get the default certificate",
        "warning: `tls.names`: no certificate of keystore `main` covers `b.test`",
    ];
    assert_eq!(status, Some(0));
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(expected), "{warning}");
    }
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    assert_eq!(warned(text, &["--strict"]).0, Some(1));
    let good = "keystores: { main: { folder: certs } }
listeners: [{ name: edge, bind: '127.0.0.1:0', tls: { keystore: main } }]
routes: [{ hosts: [a.test], path: /, respond: { status: 200 } }]
";
    assert_eq!(warned(good, &["--strict"]), (Some(0), Vec::new()));
}

/// Everybody may be written as two halves, and 128.0.0.0/2 is more than anybody's own network.
#[test]
fn twins_of_a_protected_path_that_are_open_are_warned_of() {
    let text = |paths: &str| {
        format!(
            "listeners: [{{ name: web, bind: ':8080' }}]\nupstreams: {{ app: {{ servers: ['127.0.0.1:1'] }} }}\npolicies: {{ staff: {{ allow: 10.0.0.0/8 }} }}\nroutes:\n  \
             - {{ name: orders, path: {paths}, upstream: app, policies: staff }}\n  - {{ name: rest, path: '/{{*rest}}', upstream: app }}\n"
        )
    };
    let (code, warnings) = warned(&text("/orders"), &["--strict"]);
    let warning = warnings.concat();
    for part in ["`orders`", "`rest`", "`/orders/`", "`/ORDERS`", "`/orders.json`", "`/orders.`"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    assert_eq!((code, warnings.len()), (Some(1), 1), "{warning}");
    // The fix that it names.
    let expression = warning.split('`').find(|text| text.starts_with("{ regex:")).unwrap();
    let (code, warnings) = warned(&text(&format!("[/orders, {expression}]")), &["--strict"]);
    assert_eq!((code, warnings.len()), (Some(0), 0), "{warnings:?}");
}

#[test]
fn whom_everybody_may_impersonate_is_warned_of() {
    let check = |networks: &str, expected: Option<&str>| {
        let text = format!(
            "trusted_proxies: [{networks}]
listeners: [{{ name: web, bind: '127.0.0.1:0' }}]
routes: [{{ path: /, respond: {{ status: 200 }} }}]
"
        );
        let (_, warnings) = warned(&text, &[]);
        let expected = expected.map(|network| format!("warning: `trusted_proxies` holds {network}: anybody"));
        assert_eq!(warnings.len(), usize::from(expected.is_some()), "{networks}: {warnings:?}");
        assert!(expected.is_none_or(|expected| warnings[0].starts_with(&expected)), "{networks}: {warnings:?}");
    };
    check("0.0.0.0/1, 128.0.0.0/1", Some("0.0.0.0/0"));
    check("10.0.0.0/8, '8000::/1', '::/1'", Some("::/0"));
    check("128.0.0.0/2", Some("128.0.0.0/2"));
    check("10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 'fc00::/7', 100.64.0.0/10", None);
}

#[test]
fn who_may_change_the_server_is_warned_of() {
    let check = |admin: &str, server: &str, expected: &[&str]| {
        let text = format!(
            "admin: {{ {admin} }}
upstreams: {{ app: {{ servers: ['{server}'] }} }}
listeners: [{{ name: web, bind: '127.0.0.1:0' }}]
routes: [{{ path: /, upstream: app }}]
"
        );
        let (_, warnings) = warned(&text, &[]);
        assert_eq!(warnings.len(), expected.len(), "{admin} {server}: {warnings:?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.starts_with(expected), "{admin} {server}: {warning}");
        }
    };
    let leads = "warning: FILE:4: route `*/` leads to the admin listener, which asks for no token";
    check("bind: '127.0.0.1:9'", "127.0.0.1:9", &[leads]);
    check("bind: '127.0.0.1:9'", "localhost:9", &[leads]);
    check("bind: 'unix:/run/a.sock'", "unix:/run/a.sock", &[leads]);
    check("bind: '127.0.0.1:9', token: { env: TOKEN }", "127.0.0.1:9", &[]);
    check("bind: '127.0.0.1:9'", "127.0.0.1:8", &[]);
    let clear = "warning: the admin listener at 192.0.2.1:9 can be reached from other machines, and its token travels in the clear";
    check("bind: '192.0.2.1:9', allow_remote: true, token: { env: TOKEN }", "127.0.0.1:9", &[clear]);
}

#[test]
fn conditions_that_never_hold_are_warned_of() {
    let text = "keystores: { main: { folder: certs } }
upstreams: { app: { servers: ['127.0.0.1:1'] }, beta: { servers: ['127.0.0.1:2'] } }
listeners:
  - { name: edge, bind: '127.0.0.1:0', tls: { keystore: main } }
  - { name: web, bind: '127.0.0.1:0' }
routes:
  - { hosts: [a.test], path: /, upstream: app }
  - { path: /a, listeners: [web], when: { server_name: a.test }, upstream: app }
  - { path: /b, when: { ja4: t13d1516h2_8daaf6152771_02713d6af862 }, upstream: app }
  - { path: /c, when: { certificate: { san: 'DNS:b.test' } }, upstream: app }
  - { path: /d, listeners: [web], split: [{ upstream: app, weight: 1 }, { upstream: beta, when: { ja4: 't13d1516h2_*_*' } }] }
";
    let (_, warnings) = warned(text, &[]);
    let expected = [
        "warning: FILE:8: route `*/a`: the condition `server_name` never holds: none of its listeners has `tls`",
        "warning: FILE:10: route `*/c`: the condition `certificate` never holds: none of its listeners asks for client certificates",
        "warning: FILE:11: route `*/d`: the condition `ja4` never holds: none of its listeners has `tls`",
    ];
    assert_eq!(warnings, expected);
}
