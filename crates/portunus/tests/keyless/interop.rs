//! What is asked of key servers, and that what they answer serves every client.

use std::process::Command;

use super::client::{End, connector, openssl, visit};
use super::key_server::KeyServer;
use super::{PATIENT, folder, metric, start, yaml};
use crate::harness::{Gate, wait_until};

/// Arguments of `openssl s_client`, and the opcodes that its handshake needs.
const CLIENTS: [(&str, u64); 12] = [
    ("-tls1_3", 0x15),
    ("-tls1_3 -sigalgs RSA-PSS+SHA256", 0x35),
    ("-tls1_3 -sigalgs RSA-PSS+SHA384", 0x36),
    ("-tls1_3 -sigalgs RSA-PSS+SHA512", 0x37),
    ("-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", 0x15),
    ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256 -sigalgs RSA-PSS+SHA256", 0x35),
    ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256 -sigalgs RSA+SHA256", 0x05),
    ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256 -sigalgs RSA+SHA512", 0x07),
    ("-tls1_2 -cipher AES128-GCM-SHA256", 0x01),
    ("-tls1_1 -cipher ECDHE-RSA-AES128-SHA:@SECLEVEL=0", 0x02),
    ("-tls1 -cipher ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0", 0x13),
    ("-tls1 -cipher AES128-SHA:@SECLEVEL=0", 0x01),
];

/// Every client through the edge to one server that behaves so.
fn every_client(behave: &str) -> KeyServer {
    let dir = folder();
    let server = KeyServer::start(dir.path(), behave);
    // What is asked again would be counted twice.
    let gate = start(dir, &[&server], PATIENT);
    for (index, (arguments, opcode)) in CLIENTS.iter().enumerate() {
        let reported = openssl(gate.dir.path(), gate.address("edge"), arguments);
        assert!(
            reported.contains("Verify return code: 0 (ok)") && reported.contains("Cipher is "),
            "{arguments}: {reported}"
        );
        assert!(!reported.contains("Cipher is (NONE)"), "{arguments}: {reported}");
        wait_until("the request to be logged", || server.count("request") > index);
        assert_eq!(server.opcodes().get(index), Some(opcode), "{arguments}");
    }
    server
}

#[test]
fn a_plain_peer_is_asked_in_its_own_protocol() {
    let server = every_client("tls12");
    for event in server.events("connected") {
        assert_eq!((&event["tls"], &event["alpn"]), (&"TLSv1.2".into(), &serde_json::Value::Null));
    }
    for event in server.events("request") {
        // Nothing of the extension, nothing unknown; padded, with key and name.
        assert_eq!((&event["deadline"], &event["unknown"]), (&"".into(), &serde_json::json!([])));
        assert_eq!((event["bytes"].as_u64(), event["sni"].as_str()), (Some(1024), Some(super::SITE)));
        assert_eq!(event["ski"].as_str().map(str::len), Some(40));
    }
}

#[test]
fn a_peer_with_the_extension_is_reported_deadlines() {
    // One that strips the padding, too: the edge puts it back.
    let server = every_client("alpn,strip");
    for event in server.events("request") {
        let deadline = u32::from_str_radix(event["deadline"].as_str().unwrap(), 16).unwrap();
        assert!((1..=60_000_000).contains(&deadline), "{deadline} us");
    }
}

#[test]
fn a_deadline_is_what_is_left_of_the_handshake() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "alpn");
    let text = yaml(&[&server], PATIENT).replace("handshake_timeout: 1m", "handshake_timeout: 40s");
    let gate = Gate::start_in(dir, &text);
    assert_eq!(visit(&connector(gate.dir.path()), gate.address("edge")).end, End::Answered { resumed: false });
    wait_until("the request to be logged", || server.count("request") > 0);
    let deadline = u32::from_str_radix(server.events("request")[0]["deadline"].as_str().unwrap(), 16).unwrap();
    assert!((1..=40_000_000).contains(&deadline), "{deadline} us");
}

#[test]
fn curl_is_served_and_resumption_asks_nothing() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "alpn");
    let gate = start(dir, &[&server], PATIENT);
    let address = gate.address("edge");
    let output = Command::new("curl")
        .args(["-sS", "--cacert"])
        .arg(gate.dir.path().join("ca.pem"))
        .args(["--resolve", &format!("a.example:{}:{}", address.port(), address.ip())])
        .arg(format!("https://a.example:{}/", address.port()))
        .output()
        .expect("curl is installed (Debian package curl)");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok", "{}", String::from_utf8_lossy(&output.stderr));
    let before = server.count("request");
    let connector = connector(gate.dir.path());
    assert_eq!(visit(&connector, address).end, End::Answered { resumed: false });
    for _ in 0..3 {
        assert_eq!(visit(&connector, address).end, End::Answered { resumed: true });
    }
    assert_eq!(server.count("request"), before + 1);
    let ratio = metric(&gate, "portunus_tls_resumption_ratio{listener=\"edge\"}");
    assert_eq!(ratio, Some(0.6), "three of five handshakes");
}

#[test]
fn local_and_remote_keys_mix() {
    let dir = folder();
    std::fs::copy(dir.path().join("keys/Rsa.key"), dir.path().join("chains/Rsa.key")).unwrap();
    let server = KeyServer::start(dir.path(), "");
    let gate = start(dir, &[&server], PATIENT);
    for (arguments, _) in CLIENTS {
        let reported = openssl(gate.dir.path(), gate.address("edge"), arguments);
        assert!(reported.contains("Verify return code: 0 (ok)"), "{arguments}: {reported}");
    }
    let asked: Vec<u64> =
        CLIENTS.iter().map(|(_, opcode)| *opcode).filter(|opcode| opcode & 0x10 != 0 && *opcode < 0x20).collect();
    assert_eq!(server.opcodes(), asked, "only the ECDSA key is elsewhere");
}

#[test]
fn responses_may_come_in_any_order() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "alpn,shuffle,jitter=20");
    let gate = start(dir, &[&server], &format!(", connections: 1{PATIENT}"));
    let address = gate.address("edge");
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                let ended = visit(&connector(gate.dir.path()), address);
                assert_eq!(ended.end, End::Answered { resumed: false });
            });
        }
    });
    assert_eq!(server.count("request"), 40);
    assert_eq!(server.count("connected"), 1, "all on one connection");
}

#[test]
fn a_unix_socket_needs_no_tls() {
    let dir = folder();
    let socket = dir.path().join("keys.sock");
    let server = KeyServer::start_with(dir.path(), &[], &["--unix", socket.to_str().unwrap()]);
    let gate = start(dir, &[&server], PATIENT);
    assert_eq!(visit(&connector(gate.dir.path()), gate.address("edge")).end, End::Answered { resumed: false });
    assert_eq!(server.events("request")[0]["deadline"], "", "the extension is agreed on by ALPN, which is not there");
}

#[test]
fn a_peer_that_closes_idle_connections_is_connected_to_again() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "idle=0.2");
    let gate = start(dir, &[&server], "");
    wait_until("a third connection", || server.count("connected") >= 5);
    let connector = connector(gate.dir.path());
    // A request may meet the very moment at which its connection is closed; the next one has a new connection.
    let visited = || visit(&connector, gate.address("edge")).end == End::Answered { resumed: false };
    wait_until("a handshake over a connection that was made again", visited);
}
