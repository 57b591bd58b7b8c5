//! What goes wrong: at the authority, on the way, on the disk, and with ourselves.

use std::process::Command;

use serde_json::json;

use crate::edge::{Wanted, folder, is_served, kept, ports, start, wait_for_kept, yaml};
use crate::harness::{Gate, PORTUNUS, Upstream, wait_until};
use crate::pebble::{LONG_AGO, Planned};

const HOST: &str = "www.portunus.test";
const STEM: &str = "www.portunus.test.ecdsa";

#[test]
fn an_authority_that_rejects_nonces_and_reuses_authorizations_is_borne() {
    let Some(planned) = Planned::new() else { return };
    let planned = planned.with("PEBBLE_WFE_NONCEREJECT", "60").with("PEBBLE_AUTHZREUSE", "100");
    let upstream = Upstream::ok();
    let acme = ", key_types: [ecdsa, rsa]";
    let gate = start(&upstream, &Wanted { acme, ..Wanted::from(&planned, &[HOST]) });
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    wait_for_kept(&gate, STEM);
    wait_for_kept(&gate, "www.portunus.test.rsa");
    let rejected = gate.diagnostics().iter().filter(|line| line.contains("badNonce")).count();
    assert_eq!(rejected, 0, "{}", pebble.log());
}

#[test]
fn the_next_authority_is_asked_if_one_does_not_issue() {
    let (Some(first), Some(second)) = (Planned::new(), Planned::new()) else { return };
    let second = second.beside(&first);
    let first = first.set("domainBlocklist", json!(["portunus.test"]));
    let upstream = Upstream::ok();
    let directories = format!("{}, {}", first.directory(), second.directory());
    let gate = start(&upstream, &Wanted { directories, ..Wanted::from(&first, &[HOST]) });
    let (http, tls) = ports(&gate);
    let first = first.start(http, tls);
    let second = second.start(http, tls);
    second.write_root(gate.dir.path());
    wait_for_kept(&gate, STEM);
    wait_until("the name to be served", || is_served(&gate, HOST));
    let lines = gate.diagnostics();
    let about = |host: &str, text: &str| lines.iter().any(|line| line.contains(host) && line.contains(text));
    assert!(about(&second.host(), "certificate issued"), "{lines:#?}");
    wait_until("the rejection to be logged", || {
        gate.diagnostics().iter().any(|line| line.contains(&first.host()) && line.contains("rejectedIdentifier"))
    });
}

#[test]
fn an_authority_that_forgot_our_account_gets_a_new_one() {
    let Some(planned) = Planned::new() else { return };
    let planned = planned.set("profiles", json!({ "default": { "description": "short", "validityPeriod": 18 } }));
    let upstream = Upstream::ok();
    let gate = start(&upstream, &Wanted::from(&planned, &[HOST]));
    let (http, tls) = ports(&gate);
    let mut pebble = planned.start(http, tls);
    let first = wait_for_kept(&gate, STEM);
    pebble.restart();
    wait_until("a certificate under the new account", || {
        kept(gate.dir.path(), STEM).is_some_and(|leaf| leaf.issuer_der() != first.issuer_der())
    });
    gate.wait_for("does not know our account");
}

#[test]
fn an_order_goes_on_after_the_process_was_killed() {
    let Some(planned) = Planned::new() else { return };
    // Validation takes its time, so that the process can be killed in it, and finds what it looks for in any case.
    let planned = planned.with("PEBBLE_VA_NOSLEEP", "0").with("PEBBLE_VA_SLEEPTIME", "4");
    let planned = planned.with("PEBBLE_VA_ALWAYS_VALID", "1");
    let upstream = Upstream::ok();
    let wanted = Wanted { acme: ", challenges: tls-alpn-01", ..Wanted::from(&planned, &[HOST]) };
    let gate = start(&upstream, &wanted);
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    let record = gate.dir.path().join(format!("store/records/{STEM}.json"));
    let begun = || std::fs::read_to_string(&record).is_ok_and(|text| text.contains("/my-order/"));
    wait_until("an order", begun);
    gate.signal("KILL");
    let (_, dir) = gate.stop_and_keep();
    assert!(kept(dir.path(), STEM).is_none());
    let again = Gate::start_in(dir, &yaml(&upstream, &Wanted { ports: (http, tls), ..wanted }));
    wait_for_kept(&again, STEM);
    let orders = pebble.log().matches("Added order").count();
    assert_eq!(orders, 1, "{}", pebble.log());
}

#[test]
fn a_full_disk_costs_nothing_but_the_order() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let wanted = Wanted { acme: ", renewal_info_interval: 1s", ..Wanted::from(&planned, &[HOST]) };
    let dir = folder();
    std::fs::create_dir(dir.path().join("store")).unwrap();
    // A small disk of its own, which only the program sees.
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=256k,mode=0700 none store && exec \"$@\"";
    command.args(["--mount", "--", "sh", "-c", script, "sh", PORTUNUS]).current_dir(dir.path());
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a disk of one's own needs root");
        return;
    }
    let gate = Gate::start_by(dir, &yaml(&upstream, &wanted), command);
    let inside = |script: &str| {
        let output = Command::new("nsenter")
            .args(["--mount", "--target", &gate.pid().to_string(), "--", "sh", "-c", script])
            .current_dir("/")
            .env("STORE", gate.dir.path().join("store"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let serial = || inside("openssl x509 -noout -serial -in \"$STORE/certificates/www.portunus.test.ecdsa.pem\" 2>&1");
    wait_until("a certificate", || serial().starts_with("serial="));
    wait_until("the name to be served", || is_served(&gate, HOST));
    inside("dd if=/dev/zero of=\"$STORE/filler\" bs=4k 2>/dev/null");
    pebble.suggest(&inside("cat \"$STORE/certificates/www.portunus.test.ecdsa.pem\""), LONG_AGO);
    let (first, orders) = (serial(), pebble.log().matches("Added order").count());
    gate.wait_for("free disk space");
    assert_eq!(serial(), first, "the last good one is there");
    assert_eq!(pebble.log().matches("Added order").count(), orders, "nothing is ordered that cannot be kept");
    assert!(is_served(&gate, HOST));
    inside("rm \"$STORE/filler\"");
    wait_until("a renewal", || serial() != first);
    wait_until("it to be served", || is_served(&gate, HOST));
}

#[test]
fn one_process_orders_for_a_folder_and_the_next_one_takes_over() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let wanted = Wanted::from(&planned, &[HOST]);
    let first = start(&upstream, &wanted);
    first.wait_for("certificate not issued");
    let folder = first.dir.path().join("store");
    let text = yaml(&upstream, &wanted).replace("folder: store", &format!("folder: {}", folder.display()));
    let second = Gate::start_in(crate::edge::folder(), &text);
    second.wait_for("another process orders certificates into this folder");
    let (http, tls) = ports(&second);
    let _pebble = planned.start(http, tls);
    first.signal("KILL");
    wait_until("a certificate from the other process", || folder.join(format!("certificates/{STEM}.pem")).is_file());
}
