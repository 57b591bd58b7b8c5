//! Caps on connections, and what the admin side shows and to whom.

use std::io::{Read, Write};

use super::{ask, get, metric, yaml};
use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_response, statuses, wait_until};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[test]
fn one_client_may_have_so_many_connections_and_no_more() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&yaml(&upstream, "", "limits: { max_connections_per_client: 3 }"));
    let mut held: Vec<_> = (0..3).map(|_| connect(gate.address("web"))).collect();
    for client in &mut held {
        client.write_all(REQUEST).unwrap();
        assert!(read_response(client).0.starts_with("HTTP/1.1 200 "));
    }
    let mut rejected = connect(gate.address("web"));
    assert_eq!(rejected.read(&mut [0; 1]).unwrap_or(0), 0, "closed at once");
    let log = gate.log(4);
    let line = log.iter().find(|line| line["kind"] == "connection").unwrap();
    assert_eq!((&line["reason"], &line["phase"]), (&"too_many_connections_from_client".into(), &"accept".into()));
    for client in &mut held {
        client.write_all(REQUEST).unwrap();
        assert!(read_response(client).0.starts_with("HTTP/1.1 200 "), "those inside are not touched");
    }
    held.pop();
    wait_until("a place to be free", || statuses(&exchange(gate.address("web"), &last_request())) == [200]);
    let rejections =
        "portunus_connections_rejected_total{listener=\"web\",reason=\"too_many_connections_from_client\"}";
    assert!(metric(&gate, rejections).unwrap() >= 1.0, "{}", gate.metrics());
}

/// A load balancer brings everybody's requests over its connections. Each request counts for the client it names.
#[test]
fn a_trusted_proxy_may_have_any_number_of_connections() {
    let upstream = Upstream::ok();
    let text = "trusted_proxies: 127.0.0.0/8\nlimits: { max_connections_per_client: 3 }";
    let gate = Gate::start(&yaml(&upstream, "", text));
    let mut held: Vec<_> = (0..8).map(|_| connect(gate.address("web"))).collect();
    for (number, client) in held.iter_mut().enumerate() {
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 203.0.113.{}\r\n\r\n", number % 2);
        client.write_all(request.as_bytes()).unwrap();
        assert!(read_response(client).0.starts_with("HTTP/1.1 200 "), "{number}");
    }
    drop(held);
    let served = |address: &str| {
        let page = gate.operate("GET /clients", "");
        let page: serde_json::Value = serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap();
        let clients = page["clients"].as_array().unwrap();
        let of = clients.iter().find(|client| client["address"] == address).cloned();
        of.map(|client| (client["requests"].as_u64().unwrap(), client["bytes_sent"].as_u64().unwrap()))
    };
    wait_until("both clients in the table", || {
        ["203.0.113.0", "203.0.113.1"].iter().all(|client| served(client) == Some((4, 8)))
    });
    assert_eq!(served("127.0.0.1"), None, "what the proxy carried is its clients'");
}

fn last_request() -> Vec<u8> {
    b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n".to_vec()
}

#[test]
fn a_full_process_lets_others_wait_and_serves_them_in_the_end() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&yaml(&upstream, "", "limits: { max_connections: 2 }"));
    let mut held: Vec<_> = (0..2).map(|_| connect(gate.address("web"))).collect();
    for client in &mut held {
        client.write_all(REQUEST).unwrap();
        assert!(read_response(client).0.starts_with("HTTP/1.1 200 "));
    }
    let mut waiting: Vec<_> = (0..5).map(|_| connect(gate.address("web"))).collect();
    for client in &mut waiting {
        client.write_all(&last_request()).unwrap();
    }
    gate.wait_for("max_connections reached");
    assert_eq!(upstream.seen().len(), 2, "those outside wait");
    assert!(gate.metrics().starts_with("HTTP/1.1 200 "), "the operator gets in");
    held.clear();
    for client in &mut waiting {
        assert!(read_response(client).0.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(upstream.seen().len(), 7);
}

#[test]
fn an_response_is_never_kept_for_others() {
    let upstream = Upstream::start(|request| {
        let who = request.fields("authorization").join(",");
        let fields = "Cache-Control: public, max-age=3600\r\nETag: \"1\"\r\nAge: 1";
        let length = who.len();
        Reply::Keep(format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{who}").into_bytes())
    });
    let gate = Gate::start(&yaml(&upstream, "", ""));
    for who in ["alice", "bob", "", "alice"] {
        let authorization = if who.is_empty() { String::new() } else { format!("Authorization: {who}\r\n") };
        let response = ask(gate.address("web"), "GET /me", &format!("Host: a.example\r\n{authorization}"));
        assert!(response.ends_with(&format!("\r\n\r\n{who}")), "{response}");
    }
    assert_eq!(upstream.seen().len(), 4);
}

#[test]
fn the_admin_side_is_nowhere_on_a_data_port() {
    let upstream = Upstream::ok();
    let config = yaml(&upstream, "", "").replace("path: \"/{*rest}\"", "path: \"/app/{*rest}\"");
    let gate = Gate::start(&config);
    let web = gate.address("web");
    for path in ["/metrics", "/healthz", "/readyz", "/config", "/clients", "/reload", "/"] {
        for host in ["localhost".to_owned(), gate.address("admin").to_string()] {
            for method in ["GET", "POST"] {
                let response = ask(web, &format!("{method} {path}"), &format!("Host: {host}\r\nContent-Length: 0\r\n"));
                assert!(response.starts_with("HTTP/1.1 404 "), "{method} {path}: {response}");
            }
        }
    }
    assert!(upstream.seen().is_empty());
    assert_eq!(metric(&gate, "portunus_config_generation"), Some(1.0), "nothing was reloaded");
    for (host, expected) in [("localhost", 200), ("127.0.0.1:1", 200), ("evil.example", 421), ("a.example", 421)] {
        let response = ask(gate.address("admin"), "GET /metrics", &format!("Host: {host}\r\n"));
        assert_eq!(statuses(response.as_bytes()), [expected], "{host}: {response}");
        assert_eq!(response.contains("portunus_"), expected == 200, "{host}");
    }
    // Nobody says who they are there, so the configuration is not for them.
    for request in ["GET /config", "GET /clients", "GET /dashboard", "GET /api/v1/status", "POST /reload"] {
        let response = ask(gate.address("admin"), request, "Host: localhost\r\nContent-Length: 0\r\n");
        assert!(response.starts_with("HTTP/1.1 403 ") && response.contains("admin.token"), "{request}: {response}");
    }
    assert_eq!(metric(&gate, "portunus_config_generation"), Some(1.0));
    let foreign = "Host: localhost\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n";
    let response = ask(gate.address("admin"), "POST /reload", foreign);
    assert!(response.starts_with("HTTP/1.1 403 ") && response.contains("other origins"), "{response}");
}

#[test]
fn the_configuration_is_shown_without_its_secrets() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("store.password"), "marker-one\n").unwrap();
    let openssl = |arguments: &str| {
        let status = std::process::Command::new("openssl").args(arguments.split(' ')).current_dir(dir.path()).status();
        assert!(status.unwrap().success(), "openssl {arguments}");
    };
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=a.example \
         -addext subjectAltName=DNS:a.example -keyout k.pem -out c.pem",
    );
    openssl("pkcs12 -export -in c.pem -inkey k.pem -passout pass:marker-one -out store.p12");
    let upstream = Upstream::ok();
    let edits = "upstream: app, request_headers: { set: { Authorization: 'Bearer marker-two', X-Api-Key: marker-three, X-Kind: shown } }";
    let more = "keystores: { main: { pkcs12: store.p12, password: { file: store.password }, default: a.example } }";
    let config = yaml(&upstream, "", more).replace("upstream: app", edits);
    let gate = Gate::start_in(dir, &config);
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    assert_eq!(upstream.seen()[0].fields("authorization"), ["Bearer marker-two"]);
    let shown = gate.operate("GET /config", "");
    assert!(shown.contains("store.password") && shown.contains("\"X-Kind\": \"shown\""), "{shown}");
    let everything = [shown, gate.metrics(), gate.diagnostics().join("\n"), format!("{:?}", gate.log(1))].concat();
    assert!(!everything.contains("marker-") && !everything.contains("PRIVATE KEY"), "{everything}");
}
