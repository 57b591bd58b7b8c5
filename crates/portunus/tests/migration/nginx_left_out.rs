//! What of nginx cannot be carried: it is said with file, line and reason, the exit status says so, and what keeps somebody out is closed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::beside::{Beside, Program, import, serve};
use crate::harness::{PORTUNUS, exchange, statuses};

fn ask(beside: &Beside, path: &str) -> [u16; 2] {
    beside.ask("web", &format!("GET {path} HTTP/1.1\nHost: a.test")).map(|outcome| outcome.status)
}

#[test]
fn what_cannot_be_said_is_closed() {
    let text = "server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location ~ ^/(?!public)[a-z]+/secret { deny all; }
    }";
    let both = Beside::start(&Program::Nginx, text, &["web"]);
    assert_eq!(ask(&both, "/x/secret"), [403, 501]);
    assert_eq!(ask(&both, "/"), [200, 501]);
    assert_eq!(both.printed.status.code(), Some(1));
    let left_out = both.left_out();
    assert!(left_out.len() == 1 && left_out[0].contains("the.conf:8: location ~ ^/(?!public)"), "{left_out:?}");

    let text = "
    geo $blocked { default 0; 127.0.0.1 1; }
    server {
        listen @web@;
        location / { proxy_pass http://@A@; }
        location /geo/ { if ($blocked) { return 403; } proxy_pass http://@A@; }
        location /referer/ { valid_referers none blocked a.test; if ($invalid_referer) { return 403; } proxy_pass http://@A@; }
        location /any/ { satisfy any; allow 192.0.2.1; deny all; auth_basic x; auth_basic_user_file /dev/null; proxy_pass http://@A@; }
        location /weak/ { auth_basic x; auth_basic_user_file @dir@/weak; proxy_pass http://@A@; }
        location /last/ { rewrite ^/last/(.*)$ /$1 last; }
        location /lua/ { proxy_pass http://@A@; proxy_method POST; }
        location /files/ { root /var/www; }
        location /cache/ { proxy_cache off; proxy_pass http://@A@; }
    }";
    let dir = crate::harness::certificates(&[("a.test", false)]);
    std::fs::write(dir.path().join("weak"), "ann:$apr1$abc$xyz\n").unwrap();
    let both = Beside::start_in(&Program::Nginx, text, &["web"], dir);
    for (path, ours) in [
        ("/", 200),
        ("/geo/", 403),
        ("/referer/", 501),
        ("/any/", 403),
        ("/weak/", 403),
        ("/last/x", 501),
        ("/lua/", 501),
        ("/files/x", 501),
        ("/cache/", 200),
    ] {
        assert_eq!(ask(&both, path)[1], ours, "{path}\n{}", both.yaml());
    }
    let left_out = both.left_out();
    for part in ["if ($invalid_referer)", "satisfy any", "the password of `ann` is no bcrypt hash", "proxy_method"] {
        assert!(left_out.iter().any(|line| line.contains(part)), "{part}: {left_out:#?}");
    }
}

/// The site that Debian's package brings serves files.
#[test]
fn the_site_of_the_package() {
    let file = Path::new("/etc/nginx/sites-available/default");
    if !file.exists() {
        panic!("the package nginx-common has no default site");
    }
    let printed = import("nginx", file);
    let text = String::from_utf8(printed.stdout.clone()).unwrap();
    assert_eq!(printed.status.code(), Some(1), "{}", String::from_utf8_lossy(&printed.stderr));
    assert!(text.contains("bind: \":80\"") && text.contains("/etc/nginx/sites-available/default:"), "{text}");
    // The same through the main file, which includes it.
    let printed = import("nginx", Path::new("/etc/nginx/nginx.conf"));
    assert_eq!(printed.status.code(), Some(1), "{}", String::from_utf8_lossy(&printed.stderr));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("portunus.yaml");
    std::fs::write(&file, &printed.stdout).unwrap();
    let checked = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn servers_of_other_protocols_are_left_out_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nginx.conf");
    let http = "http { server { listen 127.0.0.1:8080; location / { return 204; } } }";
    let of_mail = "mail { server { listen 25; protocol smtp; } }";
    std::fs::write(&file, format!("{http}\n{of_mail}\n")).unwrap();
    let printed = import("nginx", &file);
    let said = String::from_utf8(printed.stderr).unwrap();
    assert_eq!(printed.status.code(), Some(1), "{said}");
    assert!(said.contains("nginx.conf:2: mail"), "{said}");
}

#[test]
fn what_is_wrong_has_a_place_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nginx.conf");
    for (text, said) in [
        ("server { listen 80; location / {", "nginx.conf:1: a block is not closed"),
        ("include nowhere.conf;", "nowhere.conf: no such file"),
        ("user x;", "no server of it can be carried"),
    ] {
        std::fs::write(&file, text).unwrap();
        let printed = import("nginx", &file);
        let errors = String::from_utf8(printed.stderr).unwrap();
        assert_eq!(printed.status.code(), Some(2), "{text}");
        assert!(printed.stdout.is_empty() && errors.contains(said), "{text}: {errors}");
    }
    let printed = Command::new(PORTUNUS).args(["import", "nginx", "--help"]).output().unwrap();
    assert!(
        printed.status.success() && String::from_utf8(printed.stdout).unwrap().contains("Usage: portunus import nginx")
    );
    let printed = Command::new(PORTUNUS).args(["import", "nginx"]).output().unwrap();
    assert_eq!(printed.status.code(), Some(2));
}

/// Certificates that lie in several folders are linked into one.
#[test]
fn a_keystore_is_made_of_links() {
    let dir = crate::harness::certificates(&[("a.test", false), ("b.test", false)]);
    let at = dir.path().display().to_string();
    for (number, folder) in [(0, "one/certs"), (1, "two/private/pem")] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        std::fs::rename(dir.path().join(format!("certs/{number}-Ecdsa.pem")), dir.path().join(folder).join("site.pem"))
            .unwrap();
    }
    let port = crate::harness::vacant();
    let server = |name: &str, file: &str| {
        format!(
            "server {{ listen {port} ssl; server_name {name}; ssl_certificate {at}/{file}; ssl_certificate_key {at}/{file}; return 200 {name}; }}\n"
        )
    };
    let text = format!("{}{}", server("a.test", "one/certs/site.pem"), server("b.test", "two/private/pem/site.pem"));
    let file = dir.path().join("nginx.conf");
    std::fs::write(&file, text).unwrap();
    let printed = import("nginx", &file);
    let said = String::from_utf8(printed.stderr).unwrap();
    assert!(printed.status.code() == Some(1) && said.contains("certificates in several folders"), "{said}");
    let keys = dir.path().join("keys");
    let made = Command::new(PORTUNUS).args(["import", "nginx", "--keys"]).arg(&keys).arg(&file).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let gate = serve(&made, dir.path(), 1);
    let found: BTreeMap<&str, bool> = ["a.test", "b.test"]
        .into_iter()
        .map(|name| {
            use std::io::Write as _;
            let mut client = crate::harness::secure::Secure::connect(port, dir.path(), name, "http/1.1");
            client
                .write_all(format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n").as_bytes())
                .unwrap();
            let response = crate::harness::read_to_end(&mut client);
            (name, response.ends_with(name.as_bytes()))
        })
        .collect();
    assert_eq!(found, BTreeMap::from([("a.test", true), ("b.test", true)]));
    let _ = (exchange, statuses);
    gate.stop();
}
