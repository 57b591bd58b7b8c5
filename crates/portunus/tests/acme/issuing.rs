//! The ways to prove names, and what certificates may be like.

use serde_json::json;

use crate::edge::{Wanted, is_served, is_served_with, kept, ports, start, wait_for_kept};
use crate::harness::{Upstream, ask_on, wait_until};
use crate::pebble::Planned;

const HOST: &str = "www.portunus.test";
const STEM: &str = "www.portunus.test.ecdsa";

#[test]
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

#[test]
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
    gate.rewrite(&crate::edge::yaml(&upstream, &with));
    gate.signal("HUP");
    wait_for_kept(&gate, STEM);
    assert!(!gate.diagnostics().iter().any(|line| line.contains(key)), "no secret in the log");
}

#[test]
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
