//! The ways to prove names, and what certificates may be like.

use std::process::Command;

use serde_json::json;

use super::edge::{Wanted, is_served, is_served_with, kept, ports, start, wait_for_kept};
use super::pebble::Planned;
use crate::harness::{Gate, PORTUNUS, Upstream, ask_on, wait_until};

const HOST: &str = "www.portunus.test";
const STEM: &str = "www.portunus.test.ecdsa";
const STEM_OF_LOCALHOST: &str = "localhost.ecdsa";

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_request_proves_a_name_before_redirects_and_policies() {
    for web in [", redirect_to_https: true", ", policies: nobody"] {
        let Some(planned) = Planned::new() else { return };
        let upstream = Upstream::ok();
        let more = "policies: { nobody: { allow: 192.0.2.0/24 } }";
        let wanted = Wanted { acme: ", challenges: http-01", web, more, ..Wanted::from(&planned, &[HOST]) };
        let gate = start(&upstream, &wanted);
        let (http, tls) = ports(&gate);
        let pebble = planned.start(http, tls);
        pebble.write_root(gate.dir.path());
        wait_for_kept(&gate, STEM);
        wait_until("the name to be served", || is_served(&gate, HOST));
        let proof = gate.log(1).into_iter().find(|line| line["status"] == 200 && line["listener"] == "web").unwrap();
        assert!(proof["target"].as_str().unwrap().starts_with("/.well-known/acme-challenge/"), "{proof}");
        // A token that nobody waits for is a request like any other.
        let token = proof["target"].as_str().unwrap();
        let (head, _) = ask_on(gate.address("web"), &format!("GET {token} HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
        assert!(head.starts_with(if web.contains("redirect") { "HTTP/1.1 308 " } else { "HTTP/1.1 403 " }), "{head}");
    }
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn an_application_may_have_an_acme_client_of_its_own() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let gate = start(&upstream, &Wanted { acme: ", challenges: http-01", ..Wanted::from(&planned, &[HOST]) });
    let (http, tls) = ports(&gate);
    let _pebble = planned.start(http, tls);
    wait_for_kept(&gate, STEM);
    assert!(upstream.seen().is_empty(), "proofs are ours");
    let request = format!("GET /.well-known/acme-challenge/theirs HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let (head, _) = ask_on(gate.address("web"), &request);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(upstream.seen()[0].line(), "GET /.well-known/acme-challenge/theirs HTTP/1.1");
}

/// Long chains, several roots to choose from, rules of the future, nonces that are rejected, and orders that it takes a while to look at again.
#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn an_authority_may_be_awkward() {
    let Some(planned) = Planned::new() else { return };
    let planned = planned.with("PEBBLE_CHAIN_LENGTH", "3").with("PEBBLE_ALTERNATE_ROOTS", "2").strict();
    let planned = planned.with("PEBBLE_WFE_NONCEREJECT", "30").set("retryAfter", json!({ "authz": 1, "order": 2 }));
    let upstream = Upstream::ok();
    let gate = start(&upstream, &Wanted::from(&planned, &[HOST]));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    wait_for_kept(&gate, STEM);
    wait_until("the name to be served", || is_served(&gate, HOST));
    let text = std::fs::read_to_string(gate.dir.path().join(format!("store/certificates/{STEM}.pem"))).unwrap();
    // The leaf and three intermediates; the root is what clients have.
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 4, "{text}");
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn both_types_of_key_are_had_and_served() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let gate = start(&upstream, &Wanted { acme: ", key_types: [ecdsa, rsa]", ..Wanted::from(&planned, &[HOST]) });
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    for (stem, arguments) in [
        (STEM, ["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"]),
        ("www.portunus.test.rsa", ["--tls-max", "1.2", "--ciphers", "ECDHE-RSA-AES128-GCM-SHA256"]),
    ] {
        let leaf = wait_for_kept(&gate, stem);
        assert_eq!(leaf.dns_names(), [HOST]);
        wait_until("the certificate to be served", || is_served_with(&gate, HOST, &arguments));
    }
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn addresses_share_a_certificate_that_clients_without_a_name_get() {
    for challenge in [", challenges: tls-alpn-01", ", challenges: http-01"] {
        let Some(planned) = Planned::new() else { return };
        let upstream = Upstream::ok();
        let address = planned.gate.to_string();
        let acme = format!("{challenge}, names: [{HOST}, {address}]");
        let gate = start(&upstream, &Wanted { acme: &acme, ..Wanted::from(&planned, &[HOST, &address]) });
        let (http, tls) = ports(&gate);
        let pebble = planned.start(http, tls);
        pebble.write_root(gate.dir.path());
        wait_for_kept(&gate, STEM);
        let leaf = wait_for_kept(&gate, "default.ecdsa");
        assert!(leaf.dns_names().is_empty() && !leaf.alternative_names_are_empty());
        wait_until("the name to be served", || is_served(&gate, HOST));
        wait_until("the address to be served", || is_served(&gate, &address));
    }
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn an_account_is_bound_to_another_one_where_the_authority_wants_that() {
    let Some(planned) = Planned::new() else { return };
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let planned = planned
        .set("externalAccountBindingRequired", json!(true))
        .set("externalAccountMACKeys", json!({ "kid-1": key }));
    let upstream = Upstream::ok();
    let without = Wanted::from(&planned, &[HOST]);
    let bound = "external_account: { key_id: kid-1, hmac_key: { file: hmac.txt } }";
    let with = Wanted { directories: planned.directory_with(bound), ..without.clone() };
    let gate = start(&upstream, &without);
    let (http, tls) = ports(&gate);
    let _pebble = planned.start(http, tls);
    gate.wait_for("externalAccountRequired");
    std::fs::write(gate.dir.path().join("hmac.txt"), format!("{key}\n")).unwrap();
    gate.rewrite(&super::edge::yaml(&upstream, &with));
    gate.signal("HUP");
    wait_for_kept(&gate, STEM);
    assert!(!gate.diagnostics().iter().any(|line| line.contains(key)), "no secret in the log");
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_profile_says_what_a_certificate_is_like() {
    let Some(planned) = Planned::new() else { return };
    let profiles = json!({
        "classic": { "description": "90 days", "validityPeriod": 90 * 86400 },
        "shortlived": { "description": "6 days", "validityPeriod": 6 * 86400 },
    });
    let planned = planned.set("profiles", profiles);
    let upstream = Upstream::ok();
    let wanted =
        Wanted { directories: planned.directory_with("profile: shortlived"), ..Wanted::from(&planned, &[HOST]) };
    let gate = start(&upstream, &wanted);
    let (http, tls) = ports(&gate);
    let _pebble = planned.start(http, tls);
    let leaf = wait_for_kept(&gate, STEM);
    let lifetime = leaf.not_after().duration_since(leaf.not_before()).unwrap();
    assert_eq!(lifetime.as_secs().div_ceil(86400), 6);
    gate.wait_for("\"message\":\"reloaded\"");
    assert!(!gate.diagnostics().iter().any(|line| line.contains("renew it")), "six days are not soon for such a one");
    assert!(kept(gate.dir.path(), STEM).is_some());
}

#[test]
fn a_development_ca_issues_at_once_and_renews_when_the_clock_moves() {
    let upstream = Upstream::ok();
    let own = crate::harness::vacant().ip();
    let text = format!(
        "workers: 1
listeners: [{{ name: tls, bind: \"{own}:0\", tls: {{ keystore: main }} }}]
keystores: {{ main: {{ acme: {{ folder: store, directory: internal, names: [localhost, \"*.dev.test\", \"{own}\"] }} }} }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes: [{{ path: \"/{{*rest}}\", upstream: app }}]
",
        upstream.address
    );
    let dir = tempfile::tempdir().unwrap();
    let clock = dir.path().join("clock");
    let set = |offset: &str| {
        std::fs::write(clock.with_extension("new"), offset).unwrap();
        std::fs::rename(clock.with_extension("new"), &clock).unwrap();
    };
    set("+0");
    let mut command = Command::new(PORTUNUS);
    command
        .env("LD_PRELOAD", crate::harness::faketime())
        .env("FAKETIME_TIMESTAMP_FILE", &clock)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let gate = Gate::start_by(dir, &text, command);
    gate.wait_for("clients must trust this development CA");
    let ca = gate.dir.path().join("store/ca/ca.pem");
    std::fs::copy(&ca, gate.dir.path().join("ca.pem")).unwrap();
    let address = own.to_string();
    for (host, stem) in
        [("localhost", STEM_OF_LOCALHOST), ("www.dev.test", "_wildcard.dev.test.ecdsa"), (&address, "default.ecdsa")]
    {
        let leaf = wait_for_kept(&gate, stem);
        assert!(leaf.not_after().duration_since(leaf.not_before()).unwrap().as_secs() < 8 * 86400);
        wait_until("the name to be served", || is_served(&gate, host));
    }
    let before = std::fs::read(&ca).unwrap();
    // Back and forth: half of the lifetime is over, it never began, it ended long ago. One that is made while the clock jumps would not be valid.
    let serials = || {
        [STEM_OF_LOCALHOST, "_wildcard.dev.test.ecdsa", "default.ecdsa"]
            .map(|stem| kept(gate.dir.path(), stem).map(|leaf| leaf.serial().to_vec()))
    };
    for offset in ["+4d", "-400d", "+30d"] {
        let old = serials();
        set(offset);
        if offset.starts_with('+') {
            wait_until("renewals", || std::iter::zip(&serials(), &old).all(|(new, old)| new.is_some() && new != old));
        }
    }
    assert_eq!(std::fs::read(&ca).unwrap(), before, "the CA stays");
    assert!(!gate.diagnostics().iter().any(|line| line.contains("not issued")), "{:#?}", gate.diagnostics());
}
