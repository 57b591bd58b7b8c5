//! Who may begin a tunnel, by client certificate, and which server gets it, by active checks.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;
use wire::proxy_protocol::{Found, MAX_HEADER_BYTES, kind, read};

use super::site::{folder, next, tcp_upstream, yaml};
use crate::harness::{Gate, NO_SYSTEM_CAS, accept, connect, vacant};

/// A folder with a CA for clients and a certificate of it for each of these names.
fn folder_with_clients(names: &[&str]) -> tempfile::TempDir {
    let dir = folder();
    let ca = DevCa::new("Clients CA").unwrap();
    std::fs::write(dir.path().join("clients.pem"), ca.certificate_pem()).unwrap();
    for name in names {
        let pair = ca.issue(&[name], KeyType::Ecdsa, Purpose::Client).unwrap();
        let text = format!("{}{}", pair.certificate_pem, pair.key_pem.as_str());
        std::fs::write(dir.path().join(format!("{name}.both")), text).unwrap();
    }
    dir
}

/// `openssl s_client` at a listener that says `hello`, with this client certificate if there is one.
fn client(gate: &Gate, listener: &str, certificate: Option<&str>) -> Child {
    let address = gate.address(listener).to_string();
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-quiet", "-no_ign_eof", "-connect", &address, "-servername", "a.test"])
        .args(NO_SYSTEM_CAS);
    if let Some(name) = certificate {
        let file = format!("{name}.both");
        command.args(["-cert", &file, "-key", &file]);
    }
    let mut child = command
        .current_dir(gate.dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Who is rejected may be gone by then.
    let _ = child.stdin.as_mut().unwrap().write_all(b"hello");
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    let _ = child.kill();
    child.wait().unwrap();
}

/// The header and the bytes behind it, up to `hello`.
fn reported(connections: &Receiver<std::net::TcpStream>) -> Vec<u8> {
    let mut far = next(connections);
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"hello") {
        let mut piece = [0; 4096];
        let count = far.read(&mut piece).unwrap();
        assert!(count > 0, "cut after {}", bytes.escape_ascii());
        bytes.extend_from_slice(&piece[..count]);
    }
    bytes
}

#[test]
fn client_certificates_are_checked_by_their_names_and_reported_upstream() {
    let (upstream, connections) = tcp_upstream();
    let rule = "ca: clients.pem, allow_san: ['DNS:good.client']";
    let listeners = format!(
        "  - {{ name: required, bind: \"127.0.0.1:0\", tls: {{ keystore: main, client_certificate: {{ mode: required, {rule} }} }}, tunnel: {{ upstream: app }} }}
  - {{ name: optional, bind: \"127.0.0.2:0\", tls: {{ keystore: main, client_certificate: {{ mode: optional, {rule} }} }}, tunnel: {{ upstream: app }} }}"
    );
    let upstreams = format!("  app: {{ servers: [\"{upstream}\"], send_proxy: v2_tlvs }}");
    let dir = folder_with_clients(&["good.client", "bad.client"]);
    let stranger = folder_with_clients(&["stranger.client"]);
    let copy = |from: &Path| std::fs::copy(from.join("stranger.client.both"), dir.path().join("stranger.client.both"));
    copy(stranger.path()).unwrap();
    let gate = Gate::start_in(dir, &yaml(&listeners, &upstreams, ""));
    let rejections = [
        ("required", None),
        ("required", Some("bad.client")),
        ("required", Some("stranger.client")),
        ("optional", Some("bad.client")),
        ("optional", Some("stranger.client")),
    ];
    for (number, (listener, certificate)) in rejections.into_iter().enumerate() {
        let child = client(&gate, listener, certificate);
        let line = gate.log(number + 1).remove(number);
        assert_eq!((&line["phase"], &line["fault"]), (&"tls_handshake".into(), &"client".into()), "{line}");
        if certificate == Some("bad.client") {
            assert_eq!(line["reason"], "client_certificate_not_allowed");
        }
        end(child);
    }
    assert!(connections.try_recv().is_err(), "nobody of them reached the upstream");
    for (listener, certificate) in
        [("required", Some("good.client")), ("optional", Some("good.client")), ("optional", None)]
    {
        let child = client(&gate, listener, certificate);
        let bytes = reported(&connections);
        let Ok(Found::Whole(header)) = read(&bytes, MAX_HEADER_BYTES) else { panic!("{}", bytes.escape_ascii()) };
        let ssl = header.tlvs.ssl().unwrap();
        let is_shown = certificate.is_some();
        assert_eq!((ssl.is_tls, ssl.is_verified, ssl.certificate_in_session), (true, is_shown, is_shown), "{listener}");
        let name = ssl.tlvs.get(kind::SSL_COMMON_NAME);
        assert_eq!(name, certificate.map(str::as_bytes), "{listener}");
        assert_eq!(&bytes[header.len..], b"hello");
        end(child);
    }
}

#[test]
fn a_server_that_takes_no_connections_gets_no_tunnels_until_it_does() {
    let (upstream, connections) = tcp_upstream();
    let away = vacant();
    let listeners = "  - { name: web, bind: \"127.0.0.1:0\", tunnel: { upstream: app } }";
    // Tunnels that fail leave a server in its place here, so that only the checks count.
    let upstreams = format!(
        "  app: {{ servers: [\"{away}\", \"{upstream}\"], protocol: tcp, ejection: {{ failures: 0 }},\n         \
         health: {{ interval: 1s, timeout: 1s, fall: 1, rise: 1 }} }}"
    );
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, ""));
    gate.wait_for("\"healthy\":false");
    // Checks connect as well; what comes from a tunnel says so.
    let carried = |word: &[u8]| {
        let mut near = connect(gate.address("web"));
        near.write_all(word).unwrap();
        near
    };
    let held: Vec<_> = (0..6).map(|_| carried(b"hello")).collect();
    let mut reached = 0;
    while reached < 6 {
        let mut bytes = [0; 5];
        reached += usize::from(next(&connections).read_exact(&mut bytes).is_ok() && &bytes == b"hello");
    }
    drop(held);
    assert!(gate.log(6).iter().all(|line| line["upstream"]["retries"] == 0), "nobody went there");
    let back = TcpListener::bind(away).unwrap();
    gate.wait_for("\"healthy\":true");
    let held: Vec<_> = (0..2).map(|_| carried(b"again")).collect();
    // One of two goes there.
    let mut found = false;
    while !found {
        let mut far = accept(&back);
        let mut bytes = [0; 5];
        found = far.read_exact(&mut bytes).is_ok() && &bytes == b"again";
    }
    drop(held);
}
