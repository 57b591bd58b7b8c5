//! Key material that changes under a running gate: picked up whole, or not at all.

use std::fs;

use super::client::{TlsClient, openssl_get};
use super::material::{replace, server_pair};
use super::{keystore, metric, tls_listener, yaml};
use crate::harness::{Gate, Upstream, certificates, read_response, wait_until};

fn gate(upstream: &Upstream) -> Gate {
    let names = certificates(&[("a.example", false), ("b.example", false)]);
    Gate::start_in(names, &yaml(upstream, &tls_listener("tls", "127.0.0.3", ""), &keystore("a.example")))
}

/// The name in the certificate that a client asking for `name` gets; the default's is `a.example`.
fn shown(gate: &Gate, name: &str) -> String {
    let reported = openssl_get(gate.address("tls"), name, "");
    assert_eq!(reported.status(), Some(200), "{name}: {}", reported.0);
    reported.name().unwrap().to_owned()
}

fn failures(gate: &Gate) -> f64 {
    metric(gate, "portunus_keystore_loads_total{keystore=\"main\",result=\"failure\"}").unwrap_or(0.0)
}

#[test]
fn names_come_and_go_with_their_files() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream);
    let certs = gate.dir.path().join("certs");
    let mut old = TlsClient::connect(gate.address("tls"), "b.example", "http/1.1");
    let mut ask_on_old_connection = || {
        std::io::Write::write_all(&mut old, b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n").unwrap();
        read_response(&mut old).0
    };
    assert_eq!((shown(&gate, "new.example"), shown(&gate, "b.example")), ("a.example".into(), "b.example".into()));
    assert!(ask_on_old_connection().starts_with("HTTP/1.1 200 "));

    // At once: one without the other would be a failure.
    let (certificate, key) = server_pair("new.example");
    replace(&certs.join("new.pem"), &(certificate + &key));
    wait_until("the new name", || shown(&gate, "new.example") == "new.example");
    assert!(metric(&gate, "portunus_keystore_certificates{keystore=\"main\"}") == Some(3.0), "{}", gate.metrics());
    let expiry = "portunus_certificate_expiry_days{keystore=\"main\",name=\"new.example\",key_type=\"ECDSA\"}";
    assert!((390.0..398.0).contains(&metric(&gate, expiry).unwrap()), "{}", gate.metrics());

    fs::remove_file(certs.join("1-Ecdsa.pem")).unwrap();
    wait_until("the name to go", || shown(&gate, "b.example") == "a.example");
    assert!(ask_on_old_connection().starts_with("HTTP/1.1 200 "), "live connections are not touched");
    assert_eq!(failures(&gate), 0.0);
}

#[test]
fn a_signal_reads_them_too() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream);
    let (certificate, key) = server_pair("new.example");
    // Hidden from the first look of the watch: what counts is what the signal finds.
    let staged = gate.dir.path().join("staged.pem");
    fs::write(&staged, certificate + &key).unwrap();
    fs::rename(staged, gate.dir.path().join("certs/new.pem")).unwrap();
    gate.signal("HUP");
    gate.wait_for("\"reason\":\"SIGHUP\"");
    assert_eq!(shown(&gate, "new.example"), "new.example");
}

/// What no watch tells of: a file that changes by another of its names.
#[test]
fn the_period_reads_them_too() {
    let upstream = Upstream::ok();
    let names = certificates(&[("a.example", false)]);
    let other = names.path().join("other.pem");
    let (certificate, key) = server_pair("old.example");
    fs::write(&other, certificate + &key).unwrap();
    fs::hard_link(&other, names.path().join("certs/changing.pem")).unwrap();
    let store = keystore("a.example").replace("default:", "reload_interval: 1s, default:");
    assert!(store.contains("reload_interval"));
    let gate = Gate::start_in(names, &yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &store));
    assert_eq!(shown(&gate, "old.example"), "old.example");
    let (certificate, key) = server_pair("new.example");
    fs::write(gate.dir.path().join("other.pem"), certificate + &key).unwrap();
    wait_until("the new name", || shown(&gate, "new.example") == "new.example");
}

#[test]
fn half_a_pair_leaves_everything_as_it_was() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream);
    let certs = gate.dir.path().join("certs");
    let (first, first_key) = server_pair("pair.example");
    fs::write(certs.join("pair.crt"), &first).unwrap();
    fs::write(certs.join("pair.key"), &first_key).unwrap();
    wait_until("the pair", || shown(&gate, "pair.example") == "pair.example");
    // It is counted a moment after it is active.
    gate.wait_for("reloaded");
    let before = gate.metrics();
    let good = metric(&gate, "portunus_config_generation").unwrap();
    // The first file may have been seen without the second one.
    let earlier = failures(&gate);

    // The certificate is new, the key is not; another name was removed meanwhile. All or nothing: that one stays as well.
    let (second, second_key) = server_pair("pair.example");
    replace(&certs.join("pair.crt"), &second);
    fs::remove_file(certs.join("1-Ecdsa.pem")).unwrap();
    let last = || metric(&gate, "portunus_config_last_reload_successful");
    wait_until("the metrics", || failures(&gate) > earlier && last() == Some(0.0));
    gate.wait_for("reload rejected");
    let line = gate.diagnostics().into_iter().rev().find(|line| line.contains("reload rejected")).unwrap();
    assert!(line.contains("pair.crt") && line.contains("keystore main"), "the line names the file: {line}");
    assert!(!line.contains("PRIVATE"), "{line}");
    assert_eq!(metric(&gate, "portunus_config_generation"), Some(good), "before: {before}");
    assert_eq!(shown(&gate, "pair.example"), "pair.example");
    assert_eq!(shown(&gate, "b.example"), "b.example");

    replace(&certs.join("pair.key"), &second_key);
    wait_until("the whole pair", || shown(&gate, "b.example") == "a.example");
    assert_eq!(shown(&gate, "pair.example"), "pair.example");
    wait_until("the metric", || last() == Some(1.0));
}

#[test]
fn what_cannot_be_read_raises_a_metric_and_a_line_and_nothing_else() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream);
    let certs = gate.dir.path().join("certs");
    let mut wanted = 0.0;
    for garbage in [
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\nMIGHAgEA",
        "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
    ] {
        replace(&certs.join("broken.pem"), garbage);
        gate.signal("HUP");
        wanted += 1.0;
        wait_until("the metric", || failures(&gate) >= wanted);
        assert_eq!((shown(&gate, "a.example"), shown(&gate, "b.example")), ("a.example".into(), "b.example".into()));
    }
    assert!(gate.diagnostics().iter().any(|line| line.contains("reload rejected") && line.contains("broken.pem")));
    fs::remove_file(certs.join("broken.pem")).unwrap();
    gate.signal("HUP");
    wait_until("recovery", || metric(&gate, "portunus_config_last_reload_successful") == Some(1.0));
}

#[test]
fn a_folder_that_a_reload_brought_is_watched_too() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream);
    let (certificate, key) = server_pair("moved.example");
    fs::create_dir(gate.dir.path().join("moved")).unwrap();
    replace(&gate.dir.path().join("moved/first.pem"), &(certificate + &key));
    let config = yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &keystore("moved.example"));
    gate.rewrite(&config.replace("folder: certs", "folder: moved"));
    let response = gate.operate("POST /reload", "Content-Length: 0\r\n");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert_eq!(shown(&gate, "late.example"), "moved.example");
    let (certificate, key) = server_pair("late.example");
    replace(&gate.dir.path().join("moved/late.pem"), &(certificate + &key));
    wait_until("the name in the new folder", || shown(&gate, "late.example") == "late.example");
}

#[test]
fn a_folder_that_is_swapped_by_a_link_is_read_again() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    let certs = dir.path().join("certs");
    let version = |number: u32| {
        // Made first: what takes its time is not to lie between the first change and the last one.
        let (certificate, key) = server_pair("a.example");
        let folder = certs.join(format!("..{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tls.crt"), &certificate).unwrap();
        fs::write(folder.join("tls.key"), key).unwrap();
        std::os::unix::fs::symlink(format!("..{number}"), certs.join("..fresh")).unwrap();
        fs::rename(certs.join("..fresh"), certs.join("..data")).unwrap();
        certificate
    };
    // As container platforms mount secrets: links to files behind one link, which is replaced at once.
    let first = version(1);
    for file in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), certs.join(file)).unwrap();
    }
    let gate = Gate::start_in(dir, &yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &keystore("a.example")));
    let shows = |pem: &str| {
        let reported = openssl_get(gate.address("tls"), "a.example", "");
        reported.contains(pem.trim())
    };
    assert!(shows(&first));
    let second = version(2);
    fs::remove_dir_all(certs.join("..1")).unwrap();
    wait_until("the second version", || shows(&second));
    assert_eq!(failures(&gate), 0.0);
}
