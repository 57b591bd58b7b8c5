//! Who the client is: fields that a client must not be able to forge, hide or remove (row 10).

use crate::harness::trial::{Parts, Trial};

/// Every name by which a client might speak of itself.
const FORGED: &str = "Forwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 2.2.2.2\r\nX-Forwarded-Proto: https\r\n\
    X-Forwarded-Host: evil.example\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Server: evil\r\nX-Forwarded-By: evil\r\nX-Real-IP: 1.1.1.1\r\n\
    X-Client-IP: 1.1.1.1\r\nTrue-Client-IP: 1.1.1.1\r\nClient-Cert: :AAAA:\r\nClient-Cert-Chain: :AAAA:\r\nX-Client-Cert-Verified: SUCCESS\r\n\
    X-Client-Cert-Subject: CN=evil\r\nX-Client-Cert-San: DNS:evil\r\nX-Client-Cert-Anything: evil\r\nX-Request-Id: evil\r\n\
    X-Client-Cert-Subject-Alternative-Name: evil\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded-Ssl: evil\r\nX-Forwarded-Client-Cert: evil\r\n\
    X-Forwarded-Tls-Client-Cert-Info: evil\r\nX-Original-URL: /evil\r\nX-Rewrite-URL: /evil\r\nX-Original-Host: evil\r\n\
    X-Original-Forwarded-For: evil\r\nX-Cluster-Client-IP: evil\r\n";

fn get(fields: &str) -> String {
    format!("GET /i HTTP/1.1\r\nHost: x.example:81\r\n{fields}\r\n")
}

#[test]
fn identity_is_ours_whatever_the_client_says() {
    let mut trial = Trial::start(Parts::default());
    let port = trial.gate.address("web").port().to_string();
    let names = "X-Real-IP, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Request-Id, Via, Host, Forwarded";
    for connection in ["close", &format!("close, {names}"), &format!("{names}, close")] {
        for forged in ["", FORGED] {
            let seen = trial.pass(get(&format!("Connection: {connection}\r\n{forged}")));
            for (name, expected) in [
                ("x-forwarded-for", &["127.0.0.1"][..]),
                ("x-forwarded-proto", &["http"]),
                ("x-forwarded-host", &["x.example:81"]),
                ("x-forwarded-port", &[&port]),
                ("x-real-ip", &["127.0.0.1"]),
                ("host", &["x.example:81"]),
                ("forwarded", &[]),
                ("x-forwarded-server", &[]),
                ("x-forwarded-by", &[]),
                ("x-client-ip", &[]),
                ("true-client-ip", &[]),
                ("client-cert", &[]),
                ("client-cert-chain", &[]),
                ("connection", &[]),
            ] {
                assert_eq!(seen.fields(name), expected, "{name} in {}", seen.head);
            }
            assert_eq!(seen.fields("x-request-id").len(), 1);
            assert_eq!(seen.fields("via").len(), 1);
            assert!(!seen.head.to_ascii_lowercase().contains("evil"), "{}", seen.head);
            assert!(!seen.head.to_ascii_lowercase().contains("x-client-cert-"), "{}", seen.head);
        }
    }
    trial.finish();
}

#[test]
fn a_trusted_peer_is_believed_but_for_certificates() {
    let file = "trusted_proxies: 127.0.0.0/8\nforwarding: { forwarded: true, trusted_fields: [X-Real-IP, X-Forwarded-For, X-Forwarded-Proto, \
                X-Forwarded-Host, X-Forwarded-Port, X-Forwarded-Prefix, X-Request-Id, Forwarded] }\n";
    let mut trial = Trial::start(Parts { file, ..Parts::default() });
    let reported = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: told.example\r\n\
                X-Forwarded-Port: 443\r\nX-Forwarded-Prefix: /told\r\nX-Real-IP: 192.0.2.1\r\nX-Request-Id: told-id\r\nForwarded: for=192.0.2.1\r\nClient-Cert: :AAAA:\r\n";
    let seen = trial.pass(get(&format!("Connection: close\r\n{reported}")));
    for (name, expected) in [
        ("x-forwarded-for", &["192.0.2.1, 192.0.2.2, 127.0.0.1"][..]),
        ("x-forwarded-proto", &["https"]),
        ("x-forwarded-host", &["told.example"]),
        ("x-forwarded-port", &["443"]),
        ("x-forwarded-prefix", &["/told"]),
        ("x-real-ip", &["192.0.2.1"]),
        ("x-request-id", &["told-id"]),
        ("forwarded", &["for=192.0.2.1, for=127.0.0.1;host=\"x.example:81\";proto=https"]),
        ("client-cert", &[]),
    ] {
        assert_eq!(seen.fields(name), expected, "{name} in {}", seen.head);
    }
    trial.finish();
}

/// A load balancer as most are: it appends the client to X-Forwarded-For, sets -Proto and -Port, and lets everything else of the client through.
#[test]
fn behind_a_balancer_the_client_is_the_client_and_nothing_forged_passes() {
    let mut trial = Trial::start(Parts {
        file: "trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]\nforwarding: { forwarded: true }\n",
        ..Parts::default()
    });
    let forged = FORGED.replace("X-Forwarded-Proto: https\r\n", "").replace("X-Forwarded-Port: 1\r\n", "");
    let forged = format!(
        "{forged}CF-Connecting-IP: 1.1.1.1\r\nX-Envoy-External-Address: 1.1.1.1\r\nFastly-Client-IP: 1.1.1.1\r\n"
    );
    let reported = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n";
    for sent in [
        format!("{forged}{reported}"),
        format!("{reported}{}", forged.replace("X-Forwarded-For", "X-Nothing").replace("x-forwarded-for", "x-none")),
    ] {
        let seen = trial.pass(get(&format!("Connection: close\r\n{sent}")));
        for (name, expected) in [
            ("x-real-ip", &["203.0.113.9"][..]),
            ("x-forwarded-proto", &["https"]),
            ("x-forwarded-port", &["443"]),
            ("x-forwarded-host", &["x.example:81"]),
            ("forwarded", &["for=203.0.113.9, for=127.0.0.1;host=\"x.example:81\";proto=https"]),
            ("x-forwarded-prefix", &[]),
            ("cf-connecting-ip", &[]),
            ("true-client-ip", &[]),
            ("x-envoy-external-address", &[]),
            ("fastly-client-ip", &[]),
        ] {
            assert_eq!(seen.fields(name), expected, "{name} in {}", seen.head);
        }
        let chain = seen.fields("x-forwarded-for");
        assert!(chain.len() == 1 && chain[0].ends_with("203.0.113.9, 127.0.0.1"), "{}", seen.head);
        assert_eq!(seen.fields("x-request-id")[0].len(), 32, "{}", seen.head);
        assert!(!seen.head.to_ascii_lowercase().contains("evil"), "{}", seen.head);
    }
    let lines = trial.gate.log(2);
    for line in lines {
        assert_eq!(
            (&line["client_address"], &line["peer_address"]),
            (&"203.0.113.9".into(), &"127.0.0.1".into()),
            "{line}"
        );
        assert_ne!(line["request_id"], "evil");
    }
    trial.finish();
}

#[test]
fn what_a_proxy_says_of_the_client_is_read_strictly() {
    let mut trial = Trial::start(Parts { file: "trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]\n", ..Parts::default() });
    for (sent, client) in [
        ("X-Forwarded-For: 203.0.113.9, 10.1.1.1\r\n", "203.0.113.9"),
        ("X-Forwarded-For: 1.1.1.1, 203.0.113.9:4711\r\n", "203.0.113.9"),
        ("X-Forwarded-For: [2001:db8::9]:4711\r\n", "2001:db8::9"),
        ("X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 203.0.113.9\r\n", "203.0.113.9"),
        // Who sent what is no address is as far as anybody can tell.
        ("X-Forwarded-For: 1.1.1.1, unknown, 10.1.1.1\r\n", "10.1.1.1"),
        ("X-Forwarded-For: 1.1.1.1,\r\n", "127.0.0.1"),
        ("X-Real-IP: 1.1.1.1\r\n", "127.0.0.1"),
        ("", "127.0.0.1"),
    ] {
        let seen = trial.pass(get(&format!("Connection: close\r\n{sent}")));
        assert_eq!(seen.fields("x-real-ip"), [client], "{sent}");
    }
    // What came twice, or is none, may be the client's: then ours is written.
    let port = trial.gate.address("web").port().to_string();
    for sent in [
        "X-Forwarded-Proto: https\r\nX-Forwarded-Proto: https\r\n",
        "X-Forwarded-Proto: https, x\r\nX-Forwarded-Port: 44a\r\n",
    ] {
        let seen = trial.pass(get(&format!("Connection: close\r\n{sent}")));
        assert_eq!(seen.fields("x-forwarded-proto"), ["http"], "{sent}");
        assert_eq!(seen.fields("x-forwarded-port"), [port.as_str()], "{sent}");
    }
    trial.finish();
}

/// The same over HTTP/2, with another field that names the client.
#[test]
fn a_key_says_which_fields_the_proxies_set() {
    let file = "trusted_proxies: 127.0.0.0/8\nforwarding: { trusted_fields: [CF-Connecting-IP] }\n";
    let mut trial = Trial::start(Parts { file, ..Parts::default() });
    let sent = "CF-Connecting-IP: 203.0.113.9\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Real-IP: 1.1.1.1\r\n";
    let seen = trial.pass(get(&format!("Connection: close\r\n{sent}")));
    for (name, expected) in [
        ("cf-connecting-ip", "203.0.113.9"),
        ("x-real-ip", "203.0.113.9"),
        ("x-forwarded-for", "203.0.113.9, 127.0.0.1"),
        ("x-forwarded-proto", "http"),
    ] {
        assert_eq!(seen.fields(name), [expected], "{name} in {}", seen.head);
    }
    trial.finish();
}

#[test]
fn only_the_listed_networks_are_trusted() {
    let mut trial =
        Trial::start(Parts { file: "trusted_proxies: [192.0.2.0/24, \"2001:db8::/32\"]\n", ..Parts::default() });
    let seen = trial.pass(get(&format!("Connection: close\r\n{FORGED}")));
    assert_eq!(seen.fields("x-forwarded-for"), ["127.0.0.1"]);
    trial.finish();
}

#[test]
fn a_field_that_ends_here_chooses_no_route() {
    let routes = "  - { name: beta, path: \"/{*rest}\", headers: { x-beta: \"1\" }, upstream: app, request_headers: { set: { x-route: beta } } }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    for (connection, route) in [("close", &["beta"][..]), ("close, X-Beta", &[]), ("X-BETA, close", &[])] {
        let seen = trial.pass(get(&format!("Connection: {connection}\r\nX-Beta: 1\r\n")));
        assert_eq!(seen.fields("x-route"), route, "{connection}");
        assert_eq!(seen.fields("x-beta").len(), route.len(), "{connection}");
    }
    trial.finish();
}

/// Who is let through by a field must be somebody whose field arrives.
#[test]
fn an_identity_that_is_not_believed_chooses_no_route() {
    for field in ["X-Forwarded-User: admin", "X-Real-IP: 10.0.0.1", "X-Client-Cert-Subject: CN=admin", "Client-Cert: x"]
    {
        let (name, value) = field.split_once(": ").unwrap();
        let routes = format!(
            "  - {{ name: inner, path: \"/{{*rest}}\", headers: {{ {name}: \"{value}\" }}, upstream: app, request_headers: {{ set: {{ x-route: inner }} }} }}\n"
        );
        let mut trial = Trial::start(Parts { routes: &routes, ..Parts::default() });
        let seen = trial.pass(get(&format!("Connection: close\r\n{field}\r\n")));
        assert_eq!(seen.fields("x-route"), [""; 0], "{field}");
        trial.finish();
    }
}

#[test]
fn hop_by_hop_fields_end_here_and_the_message_cannot_be_nominated_away() {
    let mut trial = Trial::start(Parts::default());
    let seen = trial.pass(
        "POST /i HTTP/1.1\r\nHost: x\r\nConnection: close, X-Hop, Cookie, Authorization, Content-Length, Content-Type, TE\r\nX-Hop: 1\r\n\
         Cookie: a=b\r\nAuthorization: Basic YTpi\r\nContent-Type: text/plain\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n\
         Proxy-Authorization: Basic YTpi\r\nTE: gzip, trailers\r\nX-Kept: 1\r\nContent-Length: 5\r\n\r\nhello",
    );
    for name in
        ["connection", "x-hop", "keep-alive", "proxy-connection", "proxy-authorization", "te", "transfer-encoding"]
    {
        assert_eq!(seen.fields(name).len(), 0, "{name} in {}", seen.head);
    }
    for name in ["cookie", "authorization", "content-type", "x-kept"] {
        assert_eq!(seen.fields(name).len(), 1, "{name} in {}", seen.head);
    }
    assert_eq!(seen.body, b"hello");
    assert_eq!(trial.pass(get("Connection: close, TE\r\nTE: trailers\r\n")).fields("te"), ["trailers"]);
    for (field, reason) in [
        ("Proxy_Authorization: Basic YTpi", "underscore_in_field_name"),
        ("Proxy.Connection: close", "unusual_field_name"),
        ("X-Forwarded-For : 1.1.1.1", "space_before_colon"),
        ("X-Forwarded-For\0: 1.1.1.1", "bad_field_name"),
    ] {
        trial.reject(get(&format!("{field}\r\n")), 400, reason);
    }
    trial.finish();
}

/// Servers that turn names into variables take whatever is no letter or digit for one character: `X.Real.IP` is `HTTP_X_REAL_IP` there.
#[test]
fn names_that_some_servers_take_for_ours_end_here() {
    let routes = "  - { name: set, path: /set, upstream: app, request_headers: { set: { X-Tenant: one }, remove: [X-Debug-Mode] } }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    for mark in ["!", "#", "$", "%", "&", "'", "*", "+", ".", "^", "_", "`", "|", "~"] {
        let names = [
            "X-Forwarded-For",
            "x-real-IP",
            "X-Client-Cert-Verified",
            "Client-Cert",
            "X-Request-Id",
            "X-Tenant",
            "X-Debug-Mode",
            "content-type",
        ];
        let forged: String = names
            .iter()
            .map(|name| format!("{}: evil\r\n{}: evil\r\n", name.replace('-', mark), name.replacen('-', mark, 1)))
            .collect();
        let others = format!("App{mark}Version: 7\r\nX-Tenants{mark}: kept\r\n");
        let seen = trial.pass(format!("GET /set HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{forged}{others}\r\n"));
        assert!(!seen.head.contains("evil"), "{mark}: {}", seen.head);
        assert_eq!(seen.fields("x-tenant"), ["one"]);
        assert!(seen.head.contains(&format!("App{mark}Version: 7\r\n")), "{mark}: {}", seen.head);
    }
    trial.finish();
}
