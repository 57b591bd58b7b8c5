//! Client certificates: who is let in, and what the upstream learns of them.

use std::fmt::Write as _;

use super::client::{openssl, openssl_get, request};
use super::material::ClientCa;
use super::{keystore, tls_listener, yaml};
use crate::harness::{Gate, Upstream, certificates, path, wait_until};

/// Clients by what they show, and the names they meet.
fn client_certificate_gate(upstream: &Upstream) -> Gate {
    let (ca, stranger) = (ClientCa::new("Client CA"), ClientCa::new("Stranger"));
    let dir = certificates(&[("default.example", false)]);
    let write = |name: &str, text: &[u8]| std::fs::write(dir.path().join(name), text).unwrap();
    write("clients.pem", ca.pem().as_bytes());
    write("revoked.crl", &ca.revoke(66));
    write("good.pem", ca.issue("good.client", 7).as_bytes());
    write("other.pem", ca.issue("other.client", 8).as_bytes());
    write("revoked.pem", ca.issue("good.client", 66).as_bytes());
    write("stranger.pem", stranger.issue("good.client", 7).as_bytes());
    let mut names = String::from(", names: [");
    let rules = [
        ("optional.example", "mode: optional"),
        ("required.example", "mode: required"),
        ("listed.example", "mode: required, allow_san: ['URI:spiffe://test/good.client', 'DNS:third.client']"),
        ("lists.example", "mode: required, crl: revoked.crl"),
    ];
    for (host, rule) in rules {
        let _ = write!(names, "{{ host: {host}, client_certificate: {{ ca: clients.pem, {rule} }} }}, ");
    }
    names.push(']');
    Gate::start_in(dir, &yaml(upstream, &tls_listener("tls", "127.0.0.3", &names), &keystore("default.example")))
}

/// A gate that asks for certificates and has a list of revoked ones, the certificate with number 7 of a client that is not in it, and who issued that.
fn gate_with_list(upstream: &Upstream) -> (Gate, String, ClientCa) {
    let (dir, ca) = (certificates(&[("default.example", false)]), ClientCa::new("Client CA"));
    let write = |name: &str, text: &[u8]| std::fs::write(dir.path().join(name), text).unwrap();
    write("clients.pem", ca.pem().as_bytes());
    write("clients.crl", &ca.revoke(66));
    write("client.pem", ca.issue("client", 7).as_bytes());
    let rule = ", client_certificate: { ca: clients.pem, mode: required, crl: clients.crl }";
    let listener = tls_listener("tls", "127.0.0.3", rule);
    let gate = Gate::start_in(dir, &yaml(upstream, &listener, &keystore("default.example")));
    let file = path(&gate.dir, "client.pem");
    (gate, file, ca)
}

/// Nobody asks for it: whoever has lost a key replaces the list, and is not to wait for the next reload.
#[test]
fn a_list_that_changes_holds_without_a_reload_that_is_asked_for() {
    let upstream = Upstream::ok();
    let (gate, file, ca) = gate_with_list(&upstream);
    let get = || openssl_get(gate.address("tls"), "default.example", &format!("-cert {file} -key {file}"));
    assert_eq!(get().status(), Some(200));
    std::fs::write(gate.dir.path().join("clients.crl"), ca.revoke(7)).unwrap();
    wait_until("the client to be rejected", || get().alert() == Some(44));
}

/// As whoever has stolen a key and its sessions comes back.
#[test]
fn a_session_of_a_client_that_was_revoked_is_resumed_over_no_protocol() {
    let upstream = Upstream::ok();
    let (gate, file, ca) = gate_with_list(&upstream);
    let shake = |protocol: &str, version: &str, session: &str| {
        let arguments =
            format!("-servername default.example -cert {file} -key {file} -alpn {protocol} {version} {session}");
        // No request of HTTP/2, which ends the connection, once the ticket has come.
        openssl(gate.address("tls"), &arguments, &request("default.example"))
    };
    let ways = ["http/1.1", "h2"].map(|protocol| ["-tls1_2", "-tls1_3"].map(|version| (protocol, version)));
    let kept = |protocol: &str, version: &str| path(&gate.dir, &format!("{}{version}", protocol.replace('/', "")));
    for (protocol, version) in ways.as_flattened() {
        let session = kept(protocol, version);
        assert_eq!(shake(protocol, version, &format!("-sess_out {session}")).resumed(), Some(false));
        let again = shake(protocol, version, &format!("-sess_in {session}"));
        assert_eq!((again.resumed(), again.alert()), (Some(true), None), "{protocol} {version}: {}", again.0);
    }
    std::fs::write(gate.dir.path().join("clients.crl"), ca.revoke(7)).unwrap();
    wait_until("the client to be rejected", || shake("http/1.1", "-tls1_3", "").alert() == Some(44));
    for (protocol, version) in ways.as_flattened() {
        let session = kept(protocol, version);
        let again = shake(protocol, version, &format!("-sess_in {session}"));
        assert_eq!((again.status(), again.alert()), (None, Some(44)), "{protocol} {version}: {}", again.0);
    }
}

#[test]
fn clients_are_let_in_by_their_certificates() {
    const ACCESS_DENIED: u8 = 49;
    const UNKNOWN_CA: u8 = 48;
    const REVOKED: u8 = 44;
    const REQUIRED: u8 = 116;
    let upstream = Upstream::ok();
    let gate = client_certificate_gate(&upstream);
    let mut accepted = 0;
    let mut check = |name: &str, shown: &str, expected: Result<bool, u8>| {
        for version in ["-tls1_2", "-tls1_3"] {
            let what = format!("{shown} at {name} {version}");
            let file = path(&gate.dir, &format!("{shown}.pem"));
            let certificate = if shown == "none" { String::new() } else { format!("-cert {file} -key {file}") };
            let reported = openssl_get(gate.address("tls"), name, &format!("{version} {certificate}"));
            match expected {
                Ok(reported_upstream) => {
                    assert_eq!(reported.status(), Some(200), "{what}: {}", reported.0);
                    accepted += 1;
                    let seen = upstream.seen().pop().unwrap();
                    let verified: &[&str] = if reported_upstream { &["SUCCESS"] } else { &[] };
                    assert_eq!(seen.fields("x-client-cert-verified"), verified, "{what}");
                }
                Err(alert) => {
                    // Before TLS 1.3 there was no alert of its own for a missing certificate.
                    let alert = if alert == REQUIRED && version == "-tls1_2" { 40 } else { alert };
                    assert_eq!((reported.status(), reported.alert()), (None, Some(alert)), "{what}: {}", reported.0);
                }
            }
            assert_eq!(upstream.seen().len(), accepted, "{what}");
        }
    };
    check("default.example", "good", Ok(false));
    check("optional.example", "none", Ok(false));
    check("optional.example", "good", Ok(true));
    check("optional.example", "stranger", Err(UNKNOWN_CA));
    check("required.example", "none", Err(REQUIRED));
    check("required.example", "good", Ok(true));
    check("required.example", "other", Ok(true));
    check("required.example", "stranger", Err(UNKNOWN_CA));
    check("listed.example", "good", Ok(true));
    check("listed.example", "other", Err(ACCESS_DENIED));
    check("listed.example", "none", Err(REQUIRED));
    check("lists.example", "good", Ok(true));
    check("lists.example", "revoked", Err(REVOKED));
    check("required.example", "revoked", Ok(true));
    let reasons =
        |lines: &[serde_json::Value], reason: &str| lines.iter().filter(|line| line["reason"] == reason).count();
    wait_until("every rejection's line", || {
        let lines = gate.log(1);
        reasons(&lines, "client_certificate_not_allowed") == 2 && reasons(&lines, "client_certificate_invalid") == 10
    });
}

#[test]
fn a_rate_counts_each_certificate_for_itself() {
    let upstream = Upstream::ok();
    let ca = ClientCa::new("Client CA");
    let dir = certificates(&[("default.example", false)]);
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
    write("clients.pem", ca.pem());
    write("one.pem", ca.issue_odd("one", "spiffe://test/one"));
    write("again.pem", ca.issue_odd("one", "spiffe://test/one"));
    write("two.pem", ca.issue_odd("two", "spiffe://test/two"));
    let policies = ["fingerprint", "san", "subject"]
        .map(|part| format!("{part}: {{ rate_limit: {{ rate: 1/h, burst: 1, key: {{ certificate: {part} }} }} }}"));
    let hosts = ["fingerprint", "san", "subject"].map(|part| format!("{part}.example: {{ policies: {part} }}"));
    let more = format!(
        "{}\npolicies: {{ {} }}\nhosts: {{ {} }}\n",
        keystore("default.example"),
        policies.join(", "),
        hosts.join(", ")
    );
    let client_certificate = ", client_certificate: { ca: clients.pem, mode: optional }";
    let gate = Gate::start_in(dir, &yaml(&upstream, &tls_listener("tls", "127.0.0.3", client_certificate), &more));
    let ask = |host: &str, shown: &str| {
        let file = path(&gate.dir, &format!("{shown}.pem"));
        let certificate = if shown == "none" { String::new() } else { format!("-cert {file} -key {file}") };
        openssl_get(gate.address("tls"), host, &certificate).status().unwrap()
    };
    for (part, again) in [("fingerprint", 200), ("san", 429), ("subject", 429)] {
        let host = format!("{part}.example");
        let asked = ["one", "one", "again", "two", "none", "none"].map(|shown| ask(&host, shown));
        assert_eq!(asked, [200, 429, again, 200, 200, 429], "{part}");
    }
}

#[test]
fn a_client_cannot_forge_what_its_certificate_says() {
    let upstream = Upstream::ok();
    let gate = client_certificate_gate(&upstream);
    let forged = "Client-Cert: :AAAA:\r\nclient-cert-chain: :AAAA:\r\nX-Client-Cert-Subject: CN=admin\r\nx-client-cert-verified: \
                  SUCCESS\r\nX-CLIENT-CERT-SAN: DNS:admin\r\nX-Client-Cert-Whatever: x\r\n";
    let send = |name: &str, arguments: &str, connection: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n{forged}Connection: close{connection}\r\n\r\n");
        let reported = openssl(gate.address("tls"), &format!("-servername {name} {arguments}"), &request);
        assert_eq!(reported.status(), Some(200), "{}", reported.0);
        upstream.seen().pop().unwrap()
    };
    let identity = |line: &&str| line.to_ascii_lowercase().contains("client-cert");
    for name in ["default.example", "optional.example"] {
        assert_eq!(send(name, "", "").head.lines().find(identity), None, "{name}");
    }
    super::ask(gate.address("web"), "GET /", &format!("Host: x\r\n{forged}"));
    assert_eq!(upstream.seen().pop().unwrap().head.lines().find(identity), None, "over plain HTTP");

    let file = path(&gate.dir, "good.pem");
    let certificate = format!("-cert {file} -key {file}");
    for connection in ["", ", Client-Cert, X-Client-Cert-Subject, X-Client-Cert-Verified"] {
        let seen = send("required.example", &certificate, connection);
        assert_eq!(seen.fields("x-client-cert-verified"), ["SUCCESS"]);
        assert_eq!(seen.fields("x-client-cert-san"), ["DNS:good.client, URI:spiffe://test/good.client"]);
        assert_eq!(seen.fields("x-client-cert-serial"), ["07"]);
        assert!(!seen.fields("x-client-cert-subject")[0].contains("admin"), "{}", seen.head);
        let pem = std::fs::read_to_string(&file).unwrap();
        let body = pem.split("-----").nth(2).unwrap().replace('\n', "");
        assert_eq!(seen.fields("client-cert"), [format!(":{}:", body.trim())]);
        assert!(seen.fields("x-client-cert-whatever").is_empty() && seen.fields("client-cert-chain").is_empty());
    }
}

/// Names in a certificate are anything its issuer let through. A comma in one is no separator, and a name in the subject is escaped (RFC 4514).
#[test]
fn a_name_with_a_comma_is_one_name() {
    let upstream = Upstream::ok();
    let ca = ClientCa::new("Client CA");
    let dir = certificates(&[("a.example", false)]);
    std::fs::write(dir.path().join("clients.pem"), ca.pem()).unwrap();
    let uri = "https://evil.example/,DNS:admin.example,URI:\"x\\";
    std::fs::write(dir.path().join("odd.pem"), ca.issue_odd("a, CN=admin+OU=b\"<;", uri)).unwrap();
    let rule = ", client_certificate: { ca: clients.pem, mode: required }";
    let gate = Gate::start_in(dir, &yaml(&upstream, &tls_listener("tls", "127.0.0.3", rule), &keystore("a.example")));
    let file = path(&gate.dir, "odd.pem");
    let reported = openssl_get(gate.address("tls"), "a.example", &format!("-cert {file} -key {file}"));
    assert_eq!(reported.status(), Some(200), "{}", reported.0);
    let seen = upstream.seen().pop().unwrap();
    let san = seen.fields("x-client-cert-san")[0];
    assert_eq!(san, "URI:\"https://evil.example/\\u002cDNS:admin.example\\u002cURI:\\u0022x\\u005c\"");
    assert_eq!(seen.fields("x-client-cert-subject"), ["CN=a\\, CN=admin\\+OU=b\\\"\\<\\;"]);
}
