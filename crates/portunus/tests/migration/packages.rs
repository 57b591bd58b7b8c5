//! Configurations that Debian packages bring, imported and run beside the originals on the same requests.
//!
//! What is changed in them is what no test can have: addresses, users, folders of the machine, and checks of servers, whose requests would count with those
//! of clients. What is left out of them is listed here, so that nothing gets lost unseen.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::beside::{Beside, Program, get};
use super::terminators::{server, through};
use crate::harness::secure::Secure;
use crate::harness::{Gate, PORTUNUS, certificates, connect, path, read_response};

const EXAMPLES: &str = "/usr/share/doc/haproxy/examples";

/// A file of a package.
fn shipped(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// An example of HAProxy's, with other texts in place of some.
fn example(file: &str, changes: &[(&str, &str)]) -> String {
    let text = shipped(&format!("{EXAMPLES}/{file}"));
    let text = changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{file} has no {from:?}");
        text.replace(from, to)
    });
    let word = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let is_of_machine = |line: &&str| {
        matches!(&*word(line), "chroot" | "user" | "group" | "uid" | "gid" | "daemon" | "pidfile" | "log")
    };
    let kept: Vec<&str> =
        text.lines().filter(|line| !is_of_machine(line) && !line.trim().starts_with("stats socket")).collect();
    kept.join("\n") + "\n"
}

/// What is left out, without the file.
fn reasons(both: &Beside) -> Vec<String> {
    both.left_out()
        .iter()
        .map(|line| line.split_once("the.conf:").unwrap().1.split_once(": ").unwrap().1.to_owned())
        .collect()
}

/// Static and dynamic content at servers of their own, by host and path.
#[test]
fn haproxy_content_switching() {
    let text = example(
        "content-sw-sample.cfg",
        &[
            ("192.168.1.10:80", "@web@"),
            // Descriptors that a test may not have.
            ("maxconn         10000", "maxconn 1000"),
            ("192.168.1.8:80 check inter 1000", "@A@"),
            ("server          statsrv2", "# server statsrv2"),
            ("192.168.1.1:80", "@B@"),
            ("server          dynsrv2", "# server dynsrv2"),
            ("server          dynsrv3", "# server dynsrv3"),
            ("server          dynsrv4", "# server dynsrv4"),
            (" check inter 1000", ""),
        ],
    );
    let both = Beside::start(&Program::Haproxy, &text, &["web"]);
    both.compare_paths(
        "shop.test",
        &[
            "/",
            "/img",
            "/img/a.png",
            "/images",
            "/imgs?x=1",
            "/css/a.css",
            "/cs",
            "/monitoruri",
            "/login.php?a=b",
            "/IMG/a",
        ],
    );
    both.compare_paths("img.shop.test", &["/", "/other", "/css"]);
    // Names go on in lower case.
    let hosts =
        both.ask("web", &get("IMG1.shop.test", "/")).map(|outcome| outcome.seen.unwrap()).map(|seen| (seen.0, seen.2));
    assert_eq!(hosts, [('A', "IMG1.shop.test".to_owned()), ('A', "img1.shop.test".to_owned())]);
    both.compare(&[("web", "POST /form HTTP/1.1\nHost: shop.test\n\na=1"), ("web", "GET /css HTTP/1.1\nHost: x")]);
    let left = reasons(&both);
    assert_eq!(left.len(), 2, "{left:#?}");
    assert!(left[0].starts_with("maxconn 8000: ") && left[1].starts_with("stats uri /admin/stats: "), "{left:#?}");
}

/// The edge of its documentation: a redirect to TLS, and behind it a cluster with a cookie.
#[test]
fn haproxy_edge() {
    let dir = certificates(&[("a.test", false), ("b.test", false)]);
    let keys = dir.path().join("keys");
    let text = example(
        "basic-config-edge.cfg",
        &[
            ("bind :8181", "bind @stats@"),
            ("bind :80 name clear", "bind @web@ name clear"),
            ("bind :443 name secure", "bind @webs@ name secure"),
            ("crt pub1.pem", "crt @dir@/certs/0-Ecdsa.pem"),
            ("192.0.2.1:80", "@A@"),
            ("server srv2", "# server srv2"),
            ("server srv3", "# server srv3"),
            ("server srv4", "# server srv4"),
            (" check inter 1s", ""),
            ("default-path config", ""),
            // One of them is that nothing is logged here.
            ("zero-warning", ""),
        ],
    );
    let options = ["--keys".as_ref(), keys.as_os_str()];
    let both = Beside::start_given(&Program::Haproxy, &text, &["web", "webs", "stats"], dir, &options);
    // Nothing is cached here: each path is asked for once.
    for path in ["/", "/a/b?c=d"] {
        let [theirs, mut ours] = both.ask("web", &get("a.test", path));
        // In the clear browsers ignore this; ours says it of responses of servers alone, and the import says that.
        let field = "strict-transport-security".to_owned();
        assert!(
            both.yaml().contains("differs: ") && !ours.fields.contains_key(&field) && ours.status == 301,
            "{ours:?}"
        );
        ours.fields.insert(field, "max-age=31536000".to_owned());
        assert_eq!(theirs, ours);
    }
    for path in ["/", "/app", "/app?x=1"] {
        both.compare(&[("webs", &get("a.test", path))]);
    }
    both.compare(&[("webs", "GET /forged HTTP/1.1\nHost: a.test\nX-Forwarded-For: 192.0.2.77")]);
    let left = reasons(&both);
    for part in ["stats uri /", "http-request cache-use", "http-response cache-store", "cache cache"] {
        assert!(left.iter().any(|line| line.starts_with(part)), "{part}: {left:#?}");
    }
    assert_eq!(left.len(), 4, "{left:#?}");
}

/// The shortest one.
#[test]
fn haproxy_quick_test() {
    let text = example("quick-test.cfg", &[("bind :8000", "bind @web@"), ("172.31.32.33:8000", "@A@")]);
    let both = Beside::start(&Program::Haproxy, &text, &["web"]);
    both.compare_paths("a.test", &["/", "/x/y?z"]);
    assert_eq!(both.left_out(), Vec::<String>::new());
}

/// The others are for machines that are not there: what is made of them is a configuration, and says what is missing, if anything is.
#[test]
fn haproxy_other_examples() {
    for (file, parts) in [
        ("option-http_proxy.cfg", &["`url_ip` is not understood; answered 501", "maxconn 8000"][..]),
        ("socks4.cfg", &["socks4 127.0.0.1:1080", "check-via-socks4", "stats enable", "maxconn 2000", "maxconn 10"]),
        ("transparent_proxy.cfg", &["`TransparentBack_http` reads requests; nobody passes"]),
        ("wurfl-example.cfg", &["wurfl-get-all()"]),
    ] {
        let printed = super::beside::import("haproxy", &Path::new(EXAMPLES).join(file));
        let said = String::from_utf8(printed.stderr.clone()).unwrap();
        assert_eq!(printed.status.code(), Some(i32::from(!parts.is_empty())), "{file}: {said}");
        let unknown: Vec<&str> = said.lines().filter(|line| !parts.iter().any(|part| line.contains(part))).collect();
        assert!(unknown.is_empty() && parts.iter().all(|part| said.contains(part)), "{file}: {said}");
        is_accepted(&printed.stdout);
    }
}

fn is_accepted(yaml: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("portunus.yaml");
    std::fs::write(&file, yaml).unwrap();
    let checked = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// The `http` part of Debian's nginx.conf with its default site, whose files an application takes the place of by the snippet that the package has for that.
#[test]
fn nginx_default_site() {
    let main = shipped("/etc/nginx/nginx.conf");
    let http = main.split_once("http {").unwrap().1.split_once("\n}\n").unwrap().0;
    let site = shipped("/etc/nginx/sites-available/default");
    assert!(site.contains("try_files $uri $uri/ =404;") && http.contains("include /etc/nginx/sites-enabled/*;"));
    let site = site
        .replace("listen 80 default_server;", "listen @web@ default_server;")
        .replace("listen [::]:80 default_server;", "")
        .replace("try_files $uri $uri/ =404;", "proxy_pass http://@A@; include /etc/nginx/proxy_params;");
    let http: String = http
        .lines()
        .filter(|line| !line.trim().starts_with("access_log") && !line.contains("/etc/nginx/conf.d"))
        .map(|line| match line.trim() {
            "include /etc/nginx/sites-enabled/*;" => format!("{site}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let both = Beside::start(&Program::Nginx, &http, &["web"]);
    both.compare_paths("a.test", &["/", "/x?y=z", "/deep/path", "/a%20b"]);
    both.compare(&[
        ("web", "POST /form HTTP/1.1\nHost: other.test\n\na=1"),
        ("web", "GET / HTTP/1.1\nHost: a.test\nX-Custom: 1"),
    ]);
    both.compare(&[("web", "GET / HTTP/1.1\nHost: a.test:8080")]);
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
}

/// Where the header of the PROXY protocol ends, and the addresses that it has.
fn header(bytes: &[u8]) -> (&[u8], &[u8]) {
    assert!(bytes.starts_with(b"\r\n\r\n\0\r\nQUIT\n"), "{bytes:?}");
    let length = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    // Command, family, and both addresses with the port that was connected to.
    (&bytes[12..14], &bytes[16 + length..])
}

/// hitch's example in front of Varnish, which gets a PROXY header.
#[test]
fn hitch_example() {
    let dir = certificates(&[("a.test", false)]);
    let (server, told) = server();
    let example = shipped("/usr/share/doc/hitch/examples/hitch.conf.example");
    for wanted in ["host = \"*\"", "port = \"443\"", "[127.0.0.1]:6086", "write-proxy-v2 = on"] {
        assert!(example.contains(wanted), "{wanted}");
    }
    let text = |listen: SocketAddr| {
        let kept =
            example.lines().filter(|line| !["daemon", "user", "group"].iter().any(|word| line.starts_with(word)));
        let text = kept.collect::<Vec<_>>().join("\n");
        let text = text
            .replace("host = \"*\"", &format!("host = \"{}\"", listen.ip()))
            .replace("port = \"443\"", &format!("port = \"{}\"", listen.port()))
            .replace("[127.0.0.1]:6086", &format!("[127.0.0.1]:{}", server.port()));
        // It names no certificate; its users must.
        format!("{text}\npem-file = \"{}\"\n", path(&dir, "certs/0-Ecdsa.pem"))
    };
    let found = through("hitch", &dir, text, &|address| {
        let mut client = Secure::connect(address, dir.path(), "a.test", "http/1.1");
        let local = client.socket().local_addr().unwrap().port();
        client.write_all(b"GET / HTTP/1.1\r\nend\n").unwrap();
        assert_eq!(read_response(&mut client).1, b"ok");
        let got = told.recv_timeout(crate::harness::PATIENCE).unwrap();
        let (kind, payload) = header(&got);
        let [theirs, here] = [&got[24..26], &got[26..28]].map(|port| u16::from_be_bytes([port[0], port[1]]));
        assert_eq!((theirs, here), (local, address.port()));
        assert!(
            got[16..20] == [127, 0, 0, 1]
                && address.ip().to_string() == got[20..24].iter().map(u8::to_string).collect::<Vec<_>>().join(".")
        );
        (kind.to_vec(), String::from_utf8_lossy(payload).into_owned())
    });
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].0, [0x21, 0x11]);
}

/// stunnel's sample asks authorities whether a server's certificate still holds, which is not done here; without that it is the same.
#[test]
fn stunnel_sample() {
    let sample = shipped("/usr/share/doc/stunnel4/examples/stunnel.conf-sample");
    let dir = certificates(&[("a.test", false)]);
    let file = dir.path().join("sample.conf");
    std::fs::write(&file, &sample).unwrap();
    let whole = super::beside::import("stunnel", &file);
    let said = String::from_utf8(whole.stderr).unwrap();
    assert!(whole.status.code() == Some(2) && said.contains("`ocspaia = yes`"), "{said}");

    let kept: String =
        sample.lines().filter(|line| !line.starts_with("OCSPaia")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, &kept).unwrap();
    let without = super::beside::import("stunnel", &file);
    let yaml = String::from_utf8(without.stdout).unwrap();
    assert_eq!(without.status.code(), Some(0), "{}", String::from_utf8_lossy(&without.stderr));
    assert!(yaml.contains("tls: { server_name: pop.gmail.com }") && yaml.contains("127.0.0.1:143"), "{yaml}");

    // One service of it, with a server that is there.
    let pop = kept.split_once("[gmail-pop3]").unwrap().1.split_once('[').unwrap().0;
    let server = Gate::start_in(
        certificates(&[("a.test", false)]),
        "workers: 1\nlisteners:\n  - { name: pop, bind: \"127.0.0.1:0\", tls: { keystore: main } }\nkeystores: { main: { folder: certs, default: a.test } }\n\
         routes:\n  - respond: { status: 200, body: hello }\n",
    );
    let at = server.address("pop");
    std::fs::copy(server.dir.path().join("ca.pem"), dir.path().join("servers.pem")).unwrap();
    let of = |checked: &'static str| {
        let (pop, authorities) = (pop.to_owned(), path(&dir, "servers.pem"));
        move |listen: SocketAddr| {
            let pop = pop
                .replace("127.0.0.1:110", &listen.to_string())
                .replace("pop.gmail.com:995", &at.to_string())
                .replace("pop.gmail.com", checked)
                .replace("CApath = /etc/ssl/certs", &format!("CAfile = {authorities}"));
            format!("foreground = yes\npid =\n[gmail-pop3]\n{pop}")
        }
    };
    let ask = |address: SocketAddr| {
        let mut client = connect(address);
        let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        let mut got = Vec::new();
        let _ = client.read_to_end(&mut got);
        String::from_utf8_lossy(&got).ends_with("hello")
    };
    assert_eq!(through("stunnel", &dir, of("a.test"), &ask), [true; 2]);
    // Whose name is another one gets nothing.
    assert_eq!(through("stunnel", &dir, of("b.test"), &ask), [false; 2]);
}
