//! From nothing to a certificate that is served, and renewed under clients that stay connected.

use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::edge::{Wanted, ask, get, is_served, kept, metric, ports, start, wait_for_kept};
use super::pebble::{LONG_AGO, Planned};
use crate::harness::secure::Secure;
use crate::harness::{Upstream, wait_until};

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_gate_without_a_certificate_gets_one_and_serves_it() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let hosts = ["www.portunus.test", "api.portunus.test"];
    let gate = start(&upstream, &Wanted::from(&planned, &hosts));
    // There is no authority yet: the gate is up all the same, and says what it lacks.
    gate.wait_for("certificate not issued");
    assert!(metric(&gate, "portunus_acme_missing_certificates{keystore=\"main\"}") == Some(2.0), "{}", gate.metrics());
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    for host in hosts {
        let leaf = wait_for_kept(&gate, &format!("{host}.ecdsa"));
        assert_eq!(leaf.dns_names(), [host]);
        wait_until("the name to be served", || is_served(&gate, host));
    }
    wait_until("the metrics", || metric(&gate, "portunus_acme_missing_certificates{keystore=\"main\"}") == Some(0.0));
    let days = "portunus_certificate_expiry_days{keystore=\"main\",name=\"www.portunus.test\",key_type=\"ECDSA\"}";
    wait_until("the days that are left", || metric(&gate, days).is_some_and(|days| (89.0..90.1).contains(&days)));
    let store = gate.dir.path().join("store");
    for path in ["", "certificates", "accounts", "records"] {
        assert_eq!(std::fs::metadata(store.join(path)).unwrap().mode() & 0o777, 0o700, "{path}");
    }
    for folder in ["certificates", "accounts", "records"] {
        for file in std::fs::read_dir(store.join(folder)).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
        }
    }
    let mut challenge = None;
    wait_until("the line of a challenge", || {
        challenge = gate.log(0).into_iter().find(|line| line["reason"] == "acme_challenge");
        challenge.is_some()
    });
    let challenge = challenge.unwrap();
    assert_eq!((challenge["kind"].as_str(), challenge["phase"].as_str()), (Some("connection"), Some("acme")));
    assert!(!upstream.seen().iter().any(|seen| seen.head.contains("acme")), "nothing of it goes upstream");
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_certificate_is_renewed_and_no_connection_is_dropped() {
    let Some(planned) = Planned::new() else { return };
    let planned = planned.set("profiles", json!({ "default": { "description": "short", "validityPeriod": 18 } }));
    let upstream = Upstream::ok();
    let host = "www.portunus.test";
    let gate = start(&upstream, &Wanted::from(&planned, &[host]));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let stem = format!("{host}.ecdsa");
    let mut serials = vec![wait_for_kept(&gate, &stem).serial().to_vec()];
    wait_until("the name to be served", || is_served(&gate, host));
    let mut client = Secure::connect(gate.address("tls"), gate.dir.path(), host, "http/1.1");
    let (mut requests, mut handshakes) = (0, 0);
    while serials.len() < 3 {
        wait_until("a renewal", || {
            // One connection is there all the time, others come and go: each gets its response.
            assert_eq!(ask(&mut client, host), 200);
            assert_eq!(get(gate.address("tls"), gate.dir.path(), host), 200);
            (requests, handshakes) = (requests + 1, handshakes + 1);
            kept(gate.dir.path(), &stem).is_some_and(|leaf| !serials.iter().any(|serial| serial == leaf.serial()))
        });
        serials.push(kept(gate.dir.path(), &stem).unwrap().serial().to_vec());
    }
    assert_eq!(upstream.seen().len(), requests + handshakes + 1, "each request was answered, and forwarded once");
    assert!(!gate.diagnostics().iter().any(|line| line.contains("reload rejected")), "{:#?}", gate.diagnostics());
    let orders =
        format!("portunus_acme_orders_total{{keystore=\"main\",authority=\"{}\",result=\"success\"}}", pebble.host());
    wait_until("the metric", || metric(&gate, &orders).is_some_and(|orders| orders >= 3.0));
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn the_authority_says_when_to_renew() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let hosts = ["www.portunus.test"];
    let wanted = Wanted { acme: ", renewal_info_interval: 1s", ..Wanted::from(&planned, &hosts) };
    let gate = start(&upstream, &wanted);
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    let stem = format!("{}.ecdsa", hosts[0]);
    let first = wait_for_kept(&gate, &stem);
    gate.wait_for("the authority says when to renew");
    let says = |response: &str| {
        let file = gate.dir.path().join(format!("store/certificates/{stem}.pem"));
        pebble.suggest(&std::fs::read_to_string(file).unwrap(), response);
    };
    // What makes no sense is said and changes nothing.
    says("not JSON");
    gate.wait_for("the authority does not say when to renew");
    says(r#"{"suggestedWindow":{"start":"2021-01-03T00:00:00Z","end":"2021-01-01T00:00:00Z"}}"#);
    gate.wait_for("the window ends before it begins");
    assert_eq!(kept(gate.dir.path(), &stem).unwrap().serial(), first.serial());
    says(LONG_AGO);
    gate.wait_for("https://ca.example/incident");
    wait_until("the renewal", || kept(gate.dir.path(), &stem).is_some_and(|leaf| leaf.serial() != first.serial()));
    assert!(pebble.log().contains("is a replacement of"), "{}", pebble.log());
}
