//! Which certificate a client gets: by the name it asks for, and by what it can verify.

use super::client::{openssl, openssl_get, request};
use super::{keystore, tls_listener, yaml};
use crate::harness::{Gate, Upstream, certificates, wait_until};

/// Listeners `tls`, `strict` with strict_sni, and `named` with require_sni, over these certificates. The first name is the default.
fn gate(upstream: &Upstream, names: &[(&str, bool)]) -> Gate {
    let listeners = [
        tls_listener("tls", "127.0.0.3", ""),
        tls_listener("strict", "127.0.0.4", ", strict_sni: true"),
        tls_listener("named", "127.0.0.5", ", require_sni: true"),
    ]
    .join("\n");
    Gate::start_in(certificates(names), &yaml(upstream, &listeners, &keystore(names[0].0)))
}

#[test]
fn a_name_gets_its_own_certificate_then_its_wildcards_then_the_default() {
    const NAMES: &[(&str, bool)] = &[
        ("default.example", false),
        ("a.example", false),
        ("*.w.example", false),
        ("x.w.example", false),
        ("xn--bcher-kva.example", false),
    ];
    fn check(gate: &Gate, listener: &str, arguments: &str, expected: Result<&str, u8>) {
        let reported = openssl(gate.address(listener), arguments, &request("a.example"));
        match expected {
            Ok(name) => {
                assert_eq!((reported.name(), reported.status()), (Some(name), Some(200)), "{listener} {arguments}");
            }
            Err(alert) => {
                assert_eq!((reported.name(), reported.alert()), (None, Some(alert)), "{listener} {arguments}")
            }
        }
    }
    const UNRECOGNIZED_NAME: u8 = 112;
    let upstream = Upstream::ok();
    let gate = gate(&upstream, NAMES);
    for listener in ["tls", "strict"] {
        check(&gate, listener, "-servername a.example", Ok("a.example"));
        check(&gate, listener, "-servername A.eXAMPLE", Ok("a.example"));
        check(&gate, listener, "-servername a.example.", Ok("a.example"));
        check(&gate, listener, "-servername x.w.example", Ok("x.w.example"));
        check(&gate, listener, "-servername X.W.Example", Ok("x.w.example"));
        check(&gate, listener, "-servername y.w.example", Ok("*.w.example"));
        check(&gate, listener, "-servername xn--bcher-kva.example", Ok("xn--bcher-kva.example"));
        check(&gate, listener, "-noservername", Ok("default.example"));
    }
    check(&gate, "named", "-servername a.example", Ok("a.example"));
    check(&gate, "named", "-servername other.example", Ok("default.example"));
    check(&gate, "named", "-noservername", Err(UNRECOGNIZED_NAME));
    // A wildcard stands for exactly one label, and no name that was not published tells of another.
    for unknown in ["w.example", "b.a.w.example", "other.example", "127.0.0.1", "::1", "*.w.example", "default"] {
        check(&gate, "tls", &format!("-servername {unknown}"), Ok("default.example"));
        check(&gate, "strict", &format!("-servername {unknown}"), Err(UNRECOGNIZED_NAME));
    }
    let mut line = None;
    wait_until("the line of a handshake that failed", || {
        line = gate.log(1).into_iter().find(|line| line["kind"] == "connection");
        line.is_some()
    });
    let line = line.unwrap();
    assert_eq!((&line["fault"], &line["phase"]), (&"client".into(), &"tls_handshake".into()), "{line}");
}

#[test]
fn a_client_gets_ecdsa_if_it_can_verify_it_and_rsa_if_not() {
    fn check(gate: &Gate, arguments: &str, expected: &str) {
        let reported = openssl_get(gate.address("tls"), "both.example", arguments);
        assert_eq!(
            (reported.name(), reported.status()),
            (Some("both.example"), Some(200)),
            "{arguments}: {}",
            reported.0
        );
        assert!(reported.contains(&format!("Peer signature type: {expected}\n")), "{arguments}: {}", reported.0);
    }
    let upstream = Upstream::ok();
    let gate = gate(&upstream, &[("both.example", true)]);
    check(&gate, "", "ECDSA");
    check(&gate, "-tls1_3", "ECDSA");
    check(&gate, "-tls1_2", "ECDSA");
    check(&gate, "-tls1_3 -sigalgs RSA-PSS+SHA256:ECDSA+SHA256", "ECDSA");
    check(&gate, "-tls1_3 -sigalgs RSA-PSS+SHA256:RSA-PSS+SHA384", "RSA-PSS");
    check(&gate, "-sigalgs RSA-PSS+SHA256:RSA+SHA256", "RSA-PSS");
    // A TLS 1.3 scheme names its curve, and the key is on P-256 (RFC 8446 §4.2.3).
    check(&gate, "-tls1_3 -sigalgs ECDSA+SHA384:RSA-PSS+SHA256", "RSA-PSS");
    check(&gate, "-sigalgs ECDSA+SHA384:RSA-PSS+SHA256", "RSA-PSS");
    check(&gate, "-tls1_2 -sigalgs RSA+SHA256:RSA-PSS+SHA256", "RSA-PSS");
    check(&gate, "-tls1_2 -sigalgs RSA+SHA256", "RSA");
    check(&gate, "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256", "RSA-PSS");
    check(&gate, "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", "ECDSA");
    // Before TLS 1.3 the groups also name the curves of certificates (RFC 8422 §5.1).
    check(&gate, "-tls1_2 -groups P-384", "RSA-PSS");
    check(&gate, "-tls1_3 -groups P-384", "ECDSA");
    let types: Vec<_> = gate.log(2).iter().map(|line| line["tls"]["key_type"].clone()).take(2).collect();
    assert_eq!(types, ["ECDSA", "ECDSA"]);
}
