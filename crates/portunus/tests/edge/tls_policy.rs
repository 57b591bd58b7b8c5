//! What may be negotiated, what is rejected and with which alert, and that requests stay under the policy of their name.

use std::io::Write;
use std::process::Command;

use super::client::{TlsClient, openssl, openssl_command, openssl_get, request};
use super::{ask, keystore, tls_listener, yaml};
use crate::harness::{Gate, Upstream, ask_on, certificates, read_response};

const PROTOCOL_VERSION: u8 = 70;
const INAPPROPRIATE_FALLBACK: u8 = 86;
const NO_RENEGOTIATION: u8 = 100;
const NO_APPLICATION_PROTOCOL: u8 = 120;
const HANDSHAKE_FAILURE: u8 = 40;

/// The old versions sign with SHA-1, which OpenSSL leaves out at higher levels.
const OLD: &str = "-cipher ALL:@SECLEVEL=0";

fn gate(upstream: &Upstream, listeners: &[String]) -> Gate {
    let names = certificates(&[("a.example", true), ("old.example", true), ("b.example", false)]);
    Gate::start_in(names, &yaml(upstream, &listeners.join("\n"), &keystore("a.example")))
}

#[test]
fn old_versions_are_served_only_where_the_policy_says_so() {
    fn check(gate: &Gate, listener: &str, name: &str, arguments: &str, expected: Result<&str, u8>) {
        let reported = openssl_get(gate.address(listener), name, arguments);
        match expected {
            Ok(version) => {
                assert_eq!(reported.status(), Some(200), "{listener} {name} {arguments}: {}", reported.0);
                assert!(reported.contains(&format!("New, {version}, Cipher is")), "{listener} {name} {arguments}");
            }
            Err(alert) => assert_eq!(reported.alert(), Some(alert), "{listener} {name} {arguments}: {}", reported.0),
        }
    }
    let upstream = Upstream::ok();
    let listeners = [
        tls_listener("tls", "127.0.0.3", ", names: [{ host: old.example, policy: legacy }]"),
        tls_listener("legacy", "127.0.0.4", ", policy: legacy"),
        tls_listener("modern", "127.0.0.5", ", policy: modern"),
    ];
    let gate = gate(&upstream, &listeners);
    let rows: [(&str, [Result<&str, u8>; 4]); 4] = [
        (&format!("-tls1 {OLD}"), [Err(PROTOCOL_VERSION), Ok("TLSv1.0"), Ok("TLSv1.0"), Err(PROTOCOL_VERSION)]),
        (&format!("-tls1_1 {OLD}"), [Err(PROTOCOL_VERSION), Ok("TLSv1.0"), Ok("TLSv1.0"), Err(PROTOCOL_VERSION)]),
        ("-tls1_2", [Ok("TLSv1.2"), Ok("TLSv1.2"), Ok("TLSv1.2"), Err(PROTOCOL_VERSION)]),
        ("-tls1_3", [Ok("TLSv1.3"), Ok("TLSv1.3"), Ok("TLSv1.3"), Ok("TLSv1.3")]),
    ];
    for (arguments, expected) in rows {
        check(&gate, "tls", "a.example", arguments, expected[0]);
        check(&gate, "tls", "old.example", arguments, expected[1]);
        check(&gate, "legacy", "a.example", arguments, expected[2]);
        check(&gate, "modern", "a.example", arguments, expected[3]);
    }
    let reported = openssl_get(gate.address("legacy"), "a.example", &format!("-tls1_1 {OLD}"));
    assert!(reported.contains("Protocol  : TLSv1.1\n"), "{}", reported.0);
    // A client that fell back where it need not have gets an alert that says so (RFC 7507).
    for (listener, name) in [("tls", "a.example"), ("tls", "old.example"), ("legacy", "a.example")] {
        check(&gate, listener, name, "-tls1_2 -fallback_scsv", Err(INAPPROPRIATE_FALLBACK));
    }
    for weak in ["NULL", "aNULL", "RC4", "3DES", "AES128-SHA", "DHE-RSA-AES128-GCM-SHA256", "AES128-GCM-SHA256"] {
        // Some of these the client's library does not have at all; then there is no handshake either.
        let reported = openssl_get(gate.address("tls"), "a.example", &format!("-tls1_2 -cipher {weak}:@SECLEVEL=0"));
        assert!(
            reported.name().is_none() && matches!(reported.alert(), None | Some(HANDSHAKE_FAILURE)),
            "{weak}: {}",
            reported.0
        );
    }
}

#[test]
fn a_client_without_a_common_protocol_is_rejected() {
    fn check(gate: &Gate, listener: &str, offered: &str, expected: Result<&str, u8>) {
        let reported = openssl(gate.address(listener), &format!("-servername a.example {offered}"), "x\r\n\r\n");
        match expected {
            Ok(text) => assert!(reported.contains(text), "{listener} {offered}: {}", reported.0),
            Err(alert) => assert_eq!(reported.alert(), Some(alert), "{listener} {offered}: {}", reported.0),
        }
    }
    let upstream = Upstream::ok();
    let listeners = [
        tls_listener("tls", "127.0.0.3", ""),
        tls_listener("h1", "127.0.0.4", ", alpn: [http/1.1]"),
        tls_listener("h2", "127.0.0.5", ", alpn: h2"),
    ];
    let gate = gate(&upstream, &listeners);
    for version in ["-tls1_2", "-tls1_3"] {
        check(&gate, "tls", &format!("{version} -alpn h2,http/1.1"), Ok("ALPN protocol: h2\n"));
        check(&gate, "tls", &format!("{version} -alpn http/1.1,h2"), Ok("ALPN protocol: h2\n"));
        check(&gate, "tls", &format!("{version} -alpn http/1.1"), Ok("ALPN protocol: http/1.1\n"));
        check(&gate, "tls", version, Ok("No ALPN negotiated\n"));
        check(&gate, "h1", &format!("{version} -alpn h2,http/1.1"), Ok("ALPN protocol: http/1.1\n"));
        for listener in ["tls", "h1"] {
            check(&gate, listener, &format!("{version} -alpn http/1.0,smtp"), Ok("ALPN protocol: http/1.0\n"));
            check(&gate, listener, &format!("{version} -alpn http/1.0,http/1.1"), Ok("ALPN protocol: http/1.1\n"));
        }
        for (listener, foreign) in [("tls", "ftp"), ("tls", "smtp,imap"), ("h1", "h2"), ("h2", "http/1.0")] {
            check(&gate, listener, &format!("{version} -alpn {foreign}"), Err(NO_APPLICATION_PROTOCOL));
        }
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn renegotiation_and_upgrades_to_tls_are_rejected() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream, &[tls_listener("tls", "127.0.0.3", ", policy: legacy")]);
    for version in ["-tls1_2".to_owned(), format!("-tls1_1 {OLD}"), format!("-tls1 {OLD}")] {
        let reported = openssl_command(gate.address("tls"), &format!("-servername a.example {version}"), "R\n");
        assert!(reported.contains("RENEGOTIATING"), "{version}: {}", reported.0);
        assert_eq!(reported.alert(), Some(NO_RENEGOTIATION), "{version}: {}", reported.0);
    }
    let fields = "Host: a.example\r\nUpgrade: TLS/1.0\r\nConnection: Upgrade\r\n";
    let request = format!("GET / HTTP/1.1\r\n{fields}\r\n");
    let (head, body) = ask_on(gate.address("web"), &request);
    assert!(head.starts_with("HTTP/1.1 200 ") && body == b"ok", "{head}");
    assert!(upstream.seen()[0].fields("upgrade").is_empty());
    assert!(!ask(gate.address("web"), "GET /", fields).contains("101"));
}

#[test]
fn a_request_for_a_name_under_another_policy_is_misdirected() {
    let upstream = Upstream::ok();
    let gate = gate(
        &upstream,
        &[tls_listener("tls", "127.0.0.3", ", names: [{ host: [old.example, '*.old.example'], policy: legacy }]")],
    );
    let address = gate.address("tls");
    let check = |sni: &str, host: &str, expected: u16| {
        let reported = openssl(address, &format!("-servername {sni}"), &request(host));
        assert_eq!(reported.status(), Some(expected), "HTTP/1.1, {sni} then {host}: {}", reported.0);
        let url = format!("https://{sni}:{}/", address.port());
        let output = Command::new("curl")
            .args([
                "--silent",
                "--insecure",
                "--http2",
                "--output",
                "/dev/null",
                "--write-out",
                "%{http_code} %{http_version}",
            ])
            .args(["--resolve", &format!("{sni}:{}:{}", address.port(), address.ip())])
            .args(["--header", &format!("Host: {host}"), &url])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{expected} 2"), "HTTP/2, {sni} then {host}");
    };
    check("a.example", "a.example", 200);
    check("a.example", "b.example", 200);
    check("a.example", "A.EXAMPLE:8443", 200);
    check("old.example", "x.old.example", 200);
    let served = upstream.seen().len();
    check("a.example", "old.example", 421);
    check("a.example", "OLD.example.:443", 421);
    check("a.example", "y.old.example", 421);
    check("old.example", "a.example", 421);
    check("x.old.example", "unknown.example", 421);
    assert_eq!(upstream.seen().len(), served, "nothing that was misdirected went on");
}

#[test]
fn a_reload_that_changes_the_policy_reaches_connections_that_were_there() {
    let upstream = Upstream::ok();
    let plain = yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &keystore("a.example"));
    let gate = gate(&upstream, &[tls_listener("tls", "127.0.0.3", "")]);
    let mut old = TlsClient::connect(gate.address("tls"), "a.example", "http/1.1");
    let mut other = TlsClient::connect(gate.address("tls"), "b.example", "http/1.1");
    let ask = |client: &mut TlsClient, host: &str| {
        write!(client, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        read_response(client).0.get(9..12).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(ask(&mut old, "a.example"), 200);
    assert_eq!(ask(&mut other, "b.example"), 200);

    gate.rewrite(&plain);
    gate.signal("HUP");
    gate.wait_for("\"generation\":2");
    assert_eq!(ask(&mut old, "a.example"), 200, "the same policy is no reason to part");

    let tight = tls_listener("tls", "127.0.0.3", ", names: [{ host: a.example, policy: modern }]");
    gate.rewrite(&yaml(&upstream, &tight, &keystore("a.example")));
    gate.signal("HUP");
    gate.wait_for("\"generation\":3");
    assert_eq!(ask(&mut old, "a.example"), 421);
    assert_eq!(ask(&mut other, "b.example"), 200, "its name is under the policy it was");
    assert_eq!(upstream.seen().len(), 4);
    let mut fresh = TlsClient::connect(gate.address("tls"), "a.example", "http/1.1");
    assert_eq!(ask(&mut fresh, "a.example"), 200);
}

/// `*.w.example` is the same names for routes, contracts and TLS settings: however many labels a name has, and whatever name TLS was opened under.
#[test]
fn a_wildcard_covers_the_same_names_everywhere() {
    const CERTIFICATE_REQUIRED: u8 = 116;
    const UNRECOGNIZED_NAME: u8 = 112;
    let upstream = Upstream::ok();
    let names = ", names: [{ host: '*.w.example', client_certificate: { mode: required, ca: ca.pem } }]";
    let listeners = [
        tls_listener("tls", "127.0.0.3", names),
        tls_listener("strict", "127.0.0.4", &format!(", strict_sni: true{names}")),
    ];
    let dir = certificates(&[("w.example", false), ("*.w.example", false), ("*.b.w.example", false)]);
    let text = yaml(&upstream, &listeners.join("\n"), &keystore("w.example"));
    let text = text.replace("{ path:", "{ hosts: ['w.example', '*.w.example'], path:");
    let gate = Gate::start_in(dir, &text);
    let check = |listener: &str, sni: &str, host: &str, expected: Result<u16, u8>| {
        let reported = openssl(gate.address(listener), &format!("-tls1_3 {sni}"), &request(host));
        let found = reported.alert().map_or(Ok(reported.status()), Err);
        assert_eq!(found, expected.map(Some), "{listener} {sni} {host}: {}", reported.0);
    };
    for listener in ["tls", "strict"] {
        for sni in ["", "-noservername", "-servername w.example"] {
            let sni = if sni.is_empty() { "-servername w.example." } else { sni };
            check(listener, sni, "w.example", Ok(200));
            for host in [
                "a.w.example",
                "a.b.w.example",
                "x.y.z.w.example",
                "A.B.W.Example",
                "a.b.w.example.",
                "a.b.w.example:443",
            ] {
                check(listener, sni, host, Ok(421));
            }
        }
        for name in ["a.w.example", "a.b.w.example"] {
            check(listener, &format!("-servername {name}"), name, Err(CERTIFICATE_REQUIRED));
        }
    }
    check("tls", "-servername x.y.z.w.example", "x.y.z.w.example", Err(CERTIFICATE_REQUIRED));
    check("strict", "-servername x.y.z.w.example", "x.y.z.w.example", Err(UNRECOGNIZED_NAME));
    let mut client = TlsClient::connect(gate.address("tls"), "w.example", "http/1.1");
    client.write_all(request("a.b.w.example").as_bytes()).unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 421 "));
    assert!(upstream.seen().iter().all(|seen| seen.fields("host") == ["w.example"]), "{:?}", upstream.seen());
}

/// What `check` said, but for names that the one certificate does not cover.
fn beside_certificates(said: &[u8]) -> String {
    let lines = std::str::from_utf8(said).unwrap().lines();
    lines.filter(|line| !line.contains("no certificate of keystore")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn check_warns_of_routes_that_reach_past_what_seems_to_cover_them() {
    let upstream = Upstream::ok();
    let names = ", names: [{ host: '*.w.example', client_certificate: { mode: required, ca: ca.pem } }]";
    let listeners = tls_listener("tls", "127.0.0.3", names);
    let check = |route: &str| {
        let dir = certificates(&[("w.example", false)]);
        let text = yaml(&upstream, &listeners, &keystore("w.example"))
            .replace("{ path:", &format!("{{ name: r, {route} path:"));
        std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
        let output = Command::new(crate::harness::PORTUNUS)
            .args(["check", "portunus.yaml"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{route} {}", String::from_utf8_lossy(&output.stderr));
        beside_certificates(&output.stderr)
    };
    for (route, reported) in [
        ("listeners: tls, hosts: '*.w.example',", ""),
        ("listeners: tls, hosts: other.example,", ""),
        ("listeners: tls,", "has no `hosts`: listener `tls` demands a client certificate for `*.w.example`"),
        ("listeners: web, hosts: '*.w.example',", ""),
        (
            "listeners: tls, hosts: [w.example, a.w.example],",
            "`w.example` is not covered by `*.w.example` in `tls.names` of listener `tls`",
        ),
        (
            "hosts: a.b.w.example,",
            "listener `tls` demands a client certificate for `a.b.w.example`, and listener `web` serves",
        ),
        ("", "listener `tls` demands a client certificate for `*.w.example`, and listener `web` serves"),
    ] {
        let warnings = check(route);
        // A route for any host on any listener reaches past the rule twice.
        let expected = if route.is_empty() { 2 } else { usize::from(!reported.is_empty()) };
        assert_eq!(warnings.lines().count(), expected, "{route}: {warnings}");
        assert!(
            warnings.contains(reported) && (reported.is_empty() || warnings.starts_with("warning: portunus.yaml:")),
            "{route}: {warnings}"
        );
    }
}

/// A wildcard route serves what a required certificate seems to guard under any other name.
#[test]
fn check_warns_of_wildcard_routes_wider_than_what_seems_to_cover_them() {
    let upstream = Upstream::ok();
    let required = "client_certificate: { mode: required, ca: ca.pem }";
    let names = format!(", names: [{{ host: admin.w.example, {required} }}, {{ host: '*.in.w.example', {required} }}]");
    let listeners = tls_listener("tls", "127.0.0.3", &names);
    let route = |name: &str, keys: &str| format!("{{ name: {name}, {keys} path: \"/{{*rest}}\", upstream: app }}");
    let check = |routes: &[String]| {
        let dir = certificates(&[("w.example", false)]);
        let text = yaml(&upstream, &listeners, &keystore("w.example"));
        let at = text.find("routes:").unwrap();
        let end = text[at..].find("\n  - ").unwrap() + at;
        let rest = text[end + 1..].find('\n').map_or("", |line| &text[end + 1 + line..]);
        let routes: String = routes.iter().map(|route| format!("\n  - {route}")).collect();
        let text = format!("{}{routes}{rest}", &text[..end]);
        std::fs::write(dir.path().join("portunus.yaml"), &text).unwrap();
        let mut command = Command::new(crate::harness::PORTUNUS);
        let output = command.args(["check", "portunus.yaml"]).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
        beside_certificates(&output.stderr)
    };
    let wide = route("wide", "listeners: tls, hosts: '*.w.example',");
    for (others, reported) in [
        (&[][..], &["`admin.w.example`", "`*.in.w.example`"][..]),
        (&["hosts: admin.w.example,"], &["`*.in.w.example`"]),
        (&["hosts: '*.in.w.example',"], &["`admin.w.example`"]),
        (&["hosts: [admin.w.example, '*.in.w.example'],"], &[]),
        (&["hosts: [other.w.example],"], &["`admin.w.example`", "`*.in.w.example`"]),
    ] {
        let others = others.iter().map(|keys| route("own", &format!("listeners: tls, {keys}")));
        let routes: Vec<String> = std::iter::once(wide.clone()).chain(others).collect();
        let warnings = check(&routes);
        assert_eq!(warnings.lines().count(), reported.len(), "{warnings}");
        for name in reported {
            let is_reported =
                |line: &str| line.contains("route `wide`") && line.contains("`*.w.example`") && line.contains(name);
            assert!(warnings.lines().any(is_reported), "{name}: {warnings}");
        }
    }
    // Nothing of it is under a rule, or all of it; and a listener without TLS is another way past it.
    assert_eq!(check(&[route("wide", "listeners: tls, hosts: '*.other.example',")]), "");
    assert_eq!(check(&[route("wide", "listeners: tls, hosts: '*.a.in.w.example',")]), "");
    let warnings = check(&[route("wide", "hosts: '*.in.w.example',")]);
    assert!(warnings.contains("listener `web` serves the route without one"), "{warnings}");
    let warnings =
        check(&[route("wide", "hosts: '*.w.example',"), route("own", "hosts: '*.in.w.example', listeners: tls,")]);
    let elsewhere =
        |line: &str| line.contains("demands a client certificate for `admin.w.example`, and listener `web` serves");
    assert!(warnings.lines().any(elsewhere), "{warnings}");
}
