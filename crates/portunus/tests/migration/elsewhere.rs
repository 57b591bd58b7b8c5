//! Imports on another machine than the one that served: the files that a configuration names are not there, or in a copy.

use std::io::Write;
use std::process::Output;

use tempfile::TempDir;

use super::beside::{import_in, serve};
use crate::harness::secure::Secure;
use crate::harness::{Reply, Upstream, certificates, path, read_response, vacant};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Imports a configuration while the folders `certs` and `lists`, and `ca.pem`, are not there; then puts them there, and asks for `/` and `/b`.
fn away_and_back(program: &str, template: &str) -> (Output, [String; 2]) {
    let dir = certificates(&[("a.test", false)]);
    let upstreams = ["one", "two"].map(|name| {
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{name}");
        Upstream::start(move |_| Reply::Keep(response.clone().into_bytes()))
    });
    let listen = vacant();
    let filled = template
        .replace("@dir@", &path(&dir, ""))
        .replace("@listen@", &listen.to_string())
        .replace("@A@", &upstreams[0].address.to_string())
        .replace("@B@", &upstreams[1].address.to_string());
    std::fs::write(dir.path().join("file"), filled).unwrap();
    let files = ["certs", "ca.pem"].map(|name| (dir.path().join(name), dir.path().join(format!("away-{name}"))));
    files.iter().for_each(|(here, away)| std::fs::rename(here, away).unwrap());
    let printed = import_in(&[program, "file"], dir.path());
    files.iter().for_each(|(here, away)| std::fs::rename(away, here).unwrap());
    let gate = serve(&printed, dir.path(), 1);
    let bodies = ["/", "/b"].map(|path| {
        let mut client = Secure::connect(listen, dir.path(), "a.test", "http/1.1");
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n").as_bytes()).unwrap();
        self::text(&read_response(&mut client).1)
    });
    drop(gate);
    (printed, bodies)
}

/// What the import says of files that are not here: each once, with its place.
fn not_here(printed: &Output) -> Vec<String> {
    let said = text(&printed.stderr);
    let files = said.lines().filter_map(|line| line.strip_prefix("portunus: not here: "));
    let files = files.map(|line| line.rsplit_once('/').unwrap().1.to_owned());
    files.collect()
}

#[test]
fn listeners_and_routes_stay_when_certificates_are_not_here() {
    let (printed, bodies) = away_and_back(
        "nginx",
        "server {
            listen @listen@ ssl; server_name a.test;
            ssl_certificate @dir@certs/0-Ecdsa.pem; ssl_certificate_key @dir@certs/0-Ecdsa.pem;
            ssl_client_certificate @dir@ca.pem; ssl_verify_client optional;
            location / { proxy_pass http://@A@; }
            location /b { proxy_pass http://@B@; }
        }",
    );
    assert_eq!(bodies, ["one", "two"]);
    assert_eq!(
        not_here(&printed),
        [
            "ca.pem (file:4): no such file; it is named as it was",
            "0-Ecdsa.pem (file:3): no such file; it is named as it was"
        ]
    );
    assert!(text(&printed.stdout).contains("# Nothing was left out.\n# not here: /"), "{}", text(&printed.stdout));
    assert_eq!(printed.status.code(), Some(0));

    let haproxy = |certificate: &str| {
        format!(
            "frontend f\n mode http\n bind @listen@ ssl crt {certificate}\n use_backend b if {{ path_beg /b }}\n default_backend a\n\
             backend a\n mode http\n server s @A@\nbackend b\n mode http\n server s @B@\n"
        )
    };
    for (certificate, named) in [("@dir@certs/", ""), ("@dir@certs/0-Ecdsa.pem", "0-Ecdsa.pem")] {
        let (printed, bodies) = away_and_back("haproxy", &haproxy(certificate));
        assert_eq!(bodies, ["one", "two"], "{certificate}");
        assert_eq!(
            not_here(&printed),
            [format!("{named} (file:3): no such file; it is named as it was")],
            "{certificate}"
        );
        assert_eq!(printed.status.code(), Some(0), "{certificate}: {}", text(&printed.stderr));
    }
}

#[test]
fn terminators_stay_when_certificates_are_not_here() {
    for (program, of) in [
        ("hitch", "frontend = \"[@ip@]:@port@\"\nbackend = \"[127.0.0.1]:80\"\npem-dir = \"@dir@certs\"\n"),
        ("hitch", "frontend = \"[@ip@]:@port@\"\nbackend = \"[127.0.0.1]:80\"\npem-file = \"@dir@certs/a.pem\"\n"),
        ("stunnel", "[a]\naccept = @ip@:@port@\nconnect = 127.0.0.1:80\ncert = @dir@certs/a.pem\n"),
    ] {
        let (dir, listen) = (tempfile::tempdir().unwrap(), vacant());
        let of = of.replace("@ip@", &listen.ip().to_string()).replace("@port@", &listen.port().to_string());
        std::fs::write(dir.path().join("file"), of.replace("@dir@", &path(&dir, ""))).unwrap();
        let printed = import_in(&[program, "file"], dir.path());
        let yaml = text(&printed.stdout);
        assert!(yaml.contains(&listen.to_string()) && yaml.contains(&path(&dir, "certs")), "{program}: {yaml}");
        assert_eq!(not_here(&printed).len(), 1, "{program}: {}", text(&printed.stderr));
        assert!(!text(&printed.stderr).contains("left out"), "{program}: {}", text(&printed.stderr));
        assert_eq!(printed.status.code(), Some(0), "{program}");
    }
}

/// What a file would have said and nobody knows is closed, and the rest stays.
#[test]
fn files_that_decide_and_are_not_here_close_what_they_decide() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("h.cfg"),
        "frontend f\n mode http\n bind 127.0.0.1:1 ssl crt-list /nowhere/list.txt\n http-request deny if { path_beg /x } { src -f /nowhere/bad.lst }\n\
         default_backend a\nbackend a\n mode http\n server s 127.0.0.1:2\n",
    )
    .unwrap();
    let printed = import_in(&["haproxy", "h.cfg"], dir.path());
    let (yaml, said) = (text(&printed.stdout), text(&printed.stderr));
    assert_eq!(printed.status.code(), Some(1), "{said}");
    assert!(said.contains("crt-list /nowhere/list.txt: which certificates it names"), "{said}");
    assert!(said.contains("/nowhere/bad.lst: no such file; answered 501"), "{said}");
    assert!(yaml.contains("127.0.0.1:1") && yaml.contains("127.0.0.1:2") && yaml.contains("status: 501"), "{yaml}");
}

/// A copy of the files of another machine, in which nothing is at its place.
fn copy() -> TempDir {
    let dir = certificates(&[("a.test", false)]);
    let etc = dir.path().join("copy/etc/portunus-nowhere");
    std::fs::create_dir_all(etc.join("conf.d")).unwrap();
    std::fs::rename(dir.path().join("certs"), etc.join("certs")).unwrap();
    std::fs::write(dir.path().join("outside.conf"), "server { listen 127.0.0.1:7; return 200; }").unwrap();
    std::fs::write(
        etc.join("nginx.conf"),
        "events {}\nhttp {\n include mime.types;\n include /etc/portunus-nowhere/conf.d/*.conf;\n include absent.d/*.conf;\n}\n",
    )
    .unwrap();
    std::fs::write(
        etc.join("conf.d/a.conf"),
        "server { listen 127.0.0.1:1 ssl; server_name a.test; ssl_certificate certs/0-Ecdsa.pem; ssl_certificate_key certs/0-Ecdsa.pem;\n\
         location / { proxy_pass http://127.0.0.1:2; } }\n",
    )
    .unwrap();
    std::fs::write(
        etc.join("haproxy.cfg"),
        "frontend f\n mode http\n bind 127.0.0.1:1 ssl crt /etc/portunus-nowhere/certs\n http-request deny if { src -f /etc/portunus-nowhere/bad.lst }\n\
         default_backend a\n",
    )
    .unwrap();
    std::fs::write(etc.join("more.cfg"), "backend a\n mode http\n server s 127.0.0.1:2\n").unwrap();
    std::fs::write(etc.join("bad.lst"), "192.0.2.0/24\n").unwrap();
    dir
}

#[test]
fn files_are_looked_for_in_a_copy() {
    let dir = copy();
    let main = "/etc/portunus-nowhere/nginx.conf";
    let named = import_in(&["nginx", "--files-from", "copy", main], dir.path());
    let yaml = text(&named.stdout);
    assert_eq!(
        text(&named.stderr),
        "portunus: not here: /etc/portunus-nowhere/mime.types (/etc/portunus-nowhere/nginx.conf:3): no such file; taken as nginx has it\n\
         portunus: left out: /etc/portunus-nowhere/nginx.conf:5: include absent.d/*.conf: /etc/portunus-nowhere/absent.d: no such file; \
         with `--files-from FOLDER` it is looked for in a copy of the other machine's files\n"
    );
    assert!(yaml.contains("{ folder: /etc/portunus-nowhere/certs, default: a.test }"), "{yaml}");
    assert!(yaml.contains("127.0.0.1:2"), "{yaml}");
    let within =
        import_in(&["nginx", &format!("--files-from={}", path(&dir, "copy")), &format!("copy{main}")], dir.path());
    assert_eq!((text(&within.stdout), within.status.code()), (yaml, Some(1)));

    let of = |name: &str| format!("/etc/portunus-nowhere/{name}");
    let both = import_in(&["haproxy", "--files-from", "copy", &of("haproxy.cfg"), &of("more.cfg")], dir.path());
    let yaml = text(&both.stdout);
    assert_eq!((text(&both.stderr), both.status.code()), (String::new(), Some(0)), "{yaml}");
    assert!(yaml.contains("192.0.2.0/24") && yaml.contains("127.0.0.1:2"), "{yaml}");
    assert!(yaml.contains("/etc/portunus-nowhere/certs"), "{yaml}");
}

/// As Debian has its sites, and certbot its certificates.
#[test]
fn links_of_a_copy_lead_where_they_led() {
    let dir = copy();
    let etc = dir.path().join("copy/etc/portunus-nowhere");
    std::fs::create_dir(etc.join("sites-enabled")).unwrap();
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, etc.join(at)).unwrap();
    link("/etc/portunus-nowhere/conf.d/a.conf", "sites-enabled/a");
    link("../conf.d/a.conf", "sites-enabled/same");
    link("loop", "sites-enabled/loop");
    link("/../../../outside.conf", "sites-enabled/outside");
    let ask = |name: &str| {
        let name = format!("/etc/portunus-nowhere/sites-enabled/{name}");
        let named = import_in(&["nginx", "--files-from", "copy", &name], dir.path());
        let within = import_in(&["nginx", "--files-from", "copy", &format!("copy{name}")], dir.path());
        assert_eq!((&named.stdout, named.status.code()), (&within.stdout, within.status.code()), "{name}");
        named
    };
    for name in ["a", "same"] {
        let printed = ask(name);
        assert_eq!(printed.status.code(), Some(0), "{name}: {}", text(&printed.stderr));
        assert!(text(&printed.stdout).contains("{ folder: /etc/portunus-nowhere/certs, default: a.test }"), "{name}");
    }
    for name in ["loop", "outside"] {
        let printed = ask(name);
        assert_eq!(printed.status.code(), Some(2), "{name}: {}", text(&printed.stdout));
        assert!(text(&printed.stderr).contains("no such file"), "{name}: {}", text(&printed.stderr));
    }
}

#[test]
fn names_do_not_lead_out_of_a_copy() {
    let dir = copy();
    let main = dir.path().join("copy/etc/portunus-nowhere/nginx.conf");
    for name in ["/etc/portunus-nowhere/../../../outside.conf", "../../../outside.conf", &path(&dir, "outside.conf")] {
        std::fs::write(&main, format!("events {{}}\nhttp {{\n include {name};\n}}\n")).unwrap();
        let printed = import_in(&["nginx", "--files-from", "copy", "/etc/portunus-nowhere/nginx.conf"], dir.path());
        assert_eq!(printed.status.code(), Some(2), "{name}: {}", text(&printed.stdout));
        assert!(text(&printed.stderr).contains("outside.conf: no such file; with `--files-from FOLDER`"), "{name}");
    }
}

#[test]
fn several_files_are_one_configuration() {
    let dir = tempfile::tempdir().unwrap();
    for (name, what) in [
        ("main.conf", "events {}\nhttp { server { listen 127.0.0.1:1; return 200 main; } }\n"),
        ("a.conf", "server { listen 127.0.0.1:3; return 200 a; }\n"),
        ("b.conf", "server { listen 127.0.0.1:4; return 200 b; }\n"),
    ] {
        std::fs::write(dir.path().join(name), what).unwrap();
    }
    for words in [["nginx", "a.conf", "main.conf", "b.conf"].as_slice(), &["nginx", "a.conf", "b.conf"]] {
        let printed = import_in(words, dir.path());
        let yaml = text(&printed.stdout);
        assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
        assert!(yaml.contains("127.0.0.1:3") && yaml.contains("127.0.0.1:4"), "{yaml}");
        assert_eq!(yaml.contains("127.0.0.1:1"), words.len() == 4, "{yaml}");
    }
    std::fs::copy(dir.path().join("main.conf"), dir.path().join("second.conf")).unwrap();
    let twice = import_in(&["nginx", "main.conf", "second.conf"], dir.path());
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("second.conf:1: a second whole configuration"), "{}", text(&twice.stderr));
}
