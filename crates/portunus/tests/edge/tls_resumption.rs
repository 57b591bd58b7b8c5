//! Session tickets: what they open, and what they outlive.

use std::os::unix::fs::PermissionsExt;

use super::client::{Reported, openssl, openssl_get};
use super::material::ClientCa;
use super::{keystore, tls_listener, yaml};
use crate::harness::{Gate, Upstream, certificates, path, wait_until};

const NAMES: &[(&str, bool)] = &[("a.example", false), ("b.example", false), ("c.example", false)];

/// One handshake and request that leaves its session in `file`, or takes one from it.
fn with_session(gate: &Gate, name: &str, version: &str, option: &str, file: &str) -> Reported {
    let reported = openssl_get(gate.address("tls"), name, &format!("{version} {option} {}", path(&gate.dir, file)));
    assert_eq!(reported.status(), Some(200), "{name} {version} {option}: {}", reported.0);
    reported
}

fn reload(gate: &Gate, config: &str, generation: u32) {
    gate.rewrite(config);
    gate.signal("HUP");
    gate.wait_for(&format!("\"generation\":{generation}"));
}

#[test]
fn a_ticket_opens_its_own_name_only_outlives_reloads_and_not_its_rule() {
    let upstream = Upstream::ok();
    let listener = |rule: &str| tls_listener("tls", "127.0.0.3", rule);
    let dir = certificates(NAMES);
    std::fs::write(dir.path().join("clients.pem"), ClientCa::new("Client CA").pem()).unwrap();
    let config = yaml(&upstream, &listener(""), &keystore("a.example"));
    let gate = Gate::start_in(dir, &config);
    for version in ["-tls1_2", "-tls1_3"] {
        let file = format!("session{version}");
        let check = |name: &str, resumed: bool| {
            let reported = with_session(&gate, name, version, "-sess_in", &file);
            assert_eq!(
                (reported.resumed(), reported.name()),
                (Some(resumed), Some(name)),
                "{version} {name}: {}",
                reported.0
            );
        };
        assert_eq!(with_session(&gate, "a.example", version, "-sess_out", &file).resumed(), Some(false));
        check("a.example", true);
        check("a.example", true);
        // Shown to another name it is no ticket: a full handshake with that name's certificate.
        check("b.example", false);
    }
    // 0-RTT is off: there is nothing that could be replayed.
    let reported = with_session(&gate, "a.example", "-tls1_3", "-sess_in", "session-tls1_3");
    assert!(reported.contains("Max Early Data: 0") && reported.contains("Early data was not sent"), "{}", reported.0);
    let resumed: Vec<bool> = gate.log(9).iter().filter_map(|line| line["tls"]["resumed"].as_bool()).collect();
    assert_eq!(resumed, [false, true, true, false, false, true, true, false, true]);

    for generation in 2..=4 {
        reload(&gate, &config, generation);
    }
    for version in ["-tls1_2", "-tls1_3"] {
        let reported = with_session(&gate, "a.example", version, "-sess_in", &format!("session{version}"));
        assert_eq!(reported.resumed(), Some(true), "{version}: tickets outlive a reload");
    }

    let asked = ", client_certificate: { mode: optional, ca: clients.pem }";
    reload(&gate, &yaml(&upstream, &listener(asked), &keystore("a.example")), 5);
    for version in ["-tls1_2", "-tls1_3"] {
        let reported = with_session(&gate, "a.example", version, "-sess_in", &format!("session{version}"));
        assert_eq!(reported.resumed(), Some(false), "{version}: under another rule all is proven again");
        assert!(
            reported.contains("Acceptable client certificate CA names") || reported.contains("Requested"),
            "{}",
            reported.0
        );
    }
}

#[test]
fn tickets_outlive_a_restart_by_a_file_that_is_ours_alone() {
    let upstream = Upstream::ok();
    let more = format!("{}\nsandbox: {{ write: . }}\nticket_keys: tickets", keystore("a.example"));
    let config = yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &more);
    let started = |dir| {
        let gate = Gate::start_in(dir, &config);
        wait_until("the file", || gate.dir.path().join("tickets").exists());
        gate
    };
    let resumes = |gate: &Gate, expected: bool| {
        for version in ["-tls1_2", "-tls1_3"] {
            let reported = with_session(gate, "a.example", version, "-sess_in", &format!("session{version}"));
            assert_eq!(reported.resumed(), Some(expected), "{version}: {}", reported.0);
        }
    };
    let gate = started(certificates(NAMES));
    for version in ["-tls1_2", "-tls1_3"] {
        with_session(&gate, "a.example", version, "-sess_out", &format!("session{version}"));
    }
    let file = gate.dir.path().join("tickets");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    gate.signal("KILL");
    let gate = started(gate.stop_and_keep().1);
    resumes(&gate, true);
    let gate = started(gate.stop_and_keep().1);
    resumes(&gate, true);

    // Others may have read it: nothing is resumed, and nothing is written there.
    let (_, dir) = gate.stop_and_keep();
    let before = std::fs::read(dir.path().join("tickets")).unwrap();
    std::fs::set_permissions(dir.path().join("tickets"), PermissionsExt::from_mode(0o640)).unwrap();
    let gate = started(dir);
    gate.wait_for("no session from before is resumed");
    gate.wait_for("the keys of session tickets are not kept");
    resumes(&gate, false);
    assert_eq!(std::fs::read(gate.dir.path().join("tickets")).unwrap(), before);
}

#[test]
fn each_process_has_keys_of_its_own() {
    let upstream = Upstream::ok();
    let dir = certificates(NAMES);
    let other_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(other_dir.path().join("certs")).unwrap();
    for file in std::fs::read_dir(dir.path().join("certs")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), other_dir.path().join("certs").join(file.file_name())).unwrap();
    }
    let config = yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &keystore("a.example"));
    let (gate, other) = (Gate::start_in(dir, &config), Gate::start_in(other_dir, &config));
    for version in ["-tls1_2", "-tls1_3"] {
        with_session(&gate, "a.example", version, "-sess_out", "session");
        let file = path(&gate.dir, "session");
        let reported = openssl_get(other.address("tls"), "a.example", &format!("{version} -sess_in {file}"));
        assert_eq!((reported.status(), reported.resumed()), (Some(200), Some(false)), "{version}: {}", reported.0);
    }
}

#[test]
fn a_ticket_made_with_a_certificate_does_not_help_where_one_is_required() {
    let upstream = Upstream::ok();
    let ca = ClientCa::new("Client CA");
    let dir = certificates(NAMES);
    std::fs::write(dir.path().join("clients.pem"), ca.pem()).unwrap();
    std::fs::write(dir.path().join("good.pem"), ca.issue("good.client", 7)).unwrap();
    let rule = "client_certificate: { mode: required, ca: clients.pem }";
    let names = format!(", names: [{{ host: b.example, {rule} }}, {{ host: c.example, {rule} }}]");
    let gate = Gate::start_in(dir, &yaml(&upstream, &tls_listener("tls", "127.0.0.3", &names), &keystore("a.example")));
    let certificate = format!("-cert {0} -key {0}", path(&gate.dir, "good.pem"));
    for version in ["-tls1_2", "-tls1_3"] {
        let rejected = |from: &str, name: &str| {
            let arguments = format!("-servername {name} {version} -sess_in {}", path(&gate.dir, from));
            let reported = openssl(gate.address("tls"), &arguments, &super::client::request(name));
            assert_eq!(reported.status(), None, "{version} {from} at {name}: {}", reported.0);
            assert!(matches!(reported.alert(), Some(40 | 116)), "{version} {from} at {name}: {}", reported.0);
        };
        with_session(&gate, "a.example", version, "-sess_out", "of-a");
        with_session(&gate, "b.example", &format!("{version} {certificate}"), "-sess_out", "of-b");
        rejected("of-a", "b.example");
        rejected("of-b", "c.example");
        let reported = with_session(&gate, "b.example", version, "-sess_in", "of-b");
        assert_eq!(reported.resumed(), Some(true), "{version}: its own ticket carries the proof");
        let seen = upstream.seen();
        assert_eq!(
            seen.last().unwrap().fields("x-client-cert-san"),
            ["DNS:good.client, URI:spiffe://test/good.client"]
        );
    }
    assert_eq!(upstream.seen().len(), 6);
}
