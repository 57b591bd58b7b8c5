//! Which server of a group gets a request, and who we are to it.

use std::io::Write as _;
use std::sync::Arc;

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

use crate::harness::{Gate, Reply, Upstream, connect, exchange, statuses, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A gate whose one group has these members.
fn gate(group: &str) -> Gate {
    Gate::start(&format!(
        "workers: 1\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\" }}\nupstreams:\n  app: {{ {group} }}\nroutes:\n  - {{ upstream: app }}\n"
    ))
}

fn get(gate: &Gate, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
}

#[test]
fn a_server_that_is_busy_is_spared_where_that_is_asked_for() {
    let server = || {
        Upstream::start(|seen| if seen.line().contains("/hold") { Reply::Silence } else { Reply::Keep(OK.to_vec()) })
    };
    let (one, two) = (server(), server());
    let gate = gate(&format!("servers: [\"{}\", \"{}\"], balance: least_loaded", one.address, two.address));
    let mut held = connect(gate.address("web"));
    held.write_all(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("a busy server", || one.seen().len() + two.seen().len() == 1);
    let (busy, free) = if one.seen().is_empty() { (two, one) } else { (one, two) };
    for _ in 0..10 {
        assert_eq!(get(&gate, "/"), 200);
    }
    assert_eq!((busy.seen().len(), free.seen().len()), (1, 10));
}

#[test]
fn servers_that_ask_for_a_certificate_get_ours() {
    let dir = tempfile::tempdir().unwrap();
    let ca = DevCa::new("Test CA").unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("ca.pem", &ca.certificate_pem());
    std::fs::create_dir(dir.path().join("certs")).unwrap();
    let inner = ca.issue(&["inner.example"], KeyType::Ecdsa, Purpose::Server).unwrap();
    write("certs/inner.pem", &format!("{}{}", inner.certificate_pem, inner.key_pem.as_str()));
    for (name, issuer) in [("gate", &ca), ("stranger", &DevCa::new("Other CA").unwrap())] {
        let pair = issuer.issue(&["gate.example"], KeyType::Ecdsa, Purpose::Client).unwrap();
        write(&format!("{name}.pem"), &pair.certificate_pem);
        write(&format!("{name}.key"), &pair.key_pem);
    }
    let inner = Arc::new(Gate::start_in(
        dir,
        "workers: 1\nlisteners:\n  - name: tls\n    bind: \"127.0.0.1:0\"\n    tls: { keystore: main, client_certificate: { mode: required, ca: ca.pem } }\n\
         keystores:\n  main: { folder: certs, default: inner.example }\nroutes:\n  - { respond: { status: 200, body: inner } }\n",
    ));
    let (address, folder) = (inner.address("tls"), inner.dir.path().display());
    for (ours, status) in [
        (format!(", client_certificate: {folder}/gate.pem, client_key: {folder}/gate.key"), 200),
        (format!(", client_certificate: {folder}/stranger.pem, client_key: {folder}/stranger.key"), 502),
        (String::new(), 502),
    ] {
        let gate = gate(&format!(
            "servers: [\"{address}\"], connect_timeout: 1m, tls: {{ ca: {folder}/ca.pem, server_name: inner.example{ours} }}"
        ));
        assert_eq!(get(&gate, "/"), status, "{ours}");
    }
}
