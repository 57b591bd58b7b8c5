//! What goes wrong: at the authority, on the way, on the disk, and with ourselves.

use serde_json::json;

use super::disk::SmallDisk;
use super::edge::{Wanted, folder, is_served, kept, ports, start, wait_for_kept, yaml};
use super::pebble::{LONG_AGO, Planned};
use crate::harness::{Gate, Upstream, wait_until};

const HOST: &str = "www.portunus.test";
const STEM: &str = "www.portunus.test.ecdsa";

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
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
#[ignore = "needs Pebble: ./x verify ignored"]
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
#[ignore = "needs Pebble: ./x verify ignored"]
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
#[ignore = "needs Pebble: ./x verify ignored"]
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
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_full_disk_costs_nothing_but_the_order() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let wanted = Wanted { acme: ", renewal_info_interval: 1s", ..Wanted::from(&planned, &[HOST]) };
    let Some((gate, disk)) = SmallDisk::start(&yaml(&upstream, &wanted)) else { return };
    let inside = |script: &str| disk.run(&gate, script);
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let serial = || inside("openssl x509 -noout -serial -in \"$STORE/certificates/www.portunus.test.ecdsa.pem\" 2>&1");
    wait_until("a certificate", || serial().starts_with("serial="));
    wait_until("the name to be served", || is_served(&gate, HOST));
    disk.fill(&gate);
    pebble.suggest(&inside("cat \"$STORE/certificates/www.portunus.test.ecdsa.pem\""), LONG_AGO);
    let (first, orders) = (serial(), pebble.log().matches("Added order").count());
    gate.wait_for("free disk space");
    assert_eq!(serial(), first, "the last good one is there");
    assert_eq!(pebble.log().matches("Added order").count(), orders, "nothing is ordered that cannot be kept");
    assert!(is_served(&gate, HOST));
    disk.free(&gate);
    wait_until("a renewal", || serial() != first);
    wait_until("it to be served", || is_served(&gate, HOST));
}

/// Killed when the authority has just read that it is to issue, and when it hands over what it has issued: whatever had been kept, it is one order.
#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn an_order_that_was_finalized_goes_on_after_the_process_was_killed() {
    for (step, path) in [("finalization", "/finalize-order/"), ("download", "/certZ/")] {
        let Some(planned) = Planned::new() else { return };
        let upstream = Upstream::ok();
        let wanted = Wanted::from(&planned, &[HOST]);
        let gate = start(&upstream, &wanted);
        let (http, tls) = ports(&gate);
        let pebble = planned.start(http, tls);
        pebble.write_root(gate.dir.path());
        wait_until(step, || pebble.log().contains(path));
        gate.signal("KILL");
        let (_, dir) = gate.stop_and_keep();
        let again = Gate::start_in(dir, &yaml(&upstream, &Wanted { ports: (http, tls), ..wanted }));
        wait_for_kept(&again, STEM);
        wait_until("the name to be served", || is_served(&again, HOST));
        let log = pebble.log();
        assert_eq!(log.matches("Added order").count(), 1, "{step}: {log}");
        assert_eq!(log.matches("Issued certificate serial").count(), 1, "{step}: {log}");
    }
}

/// Beyond the time for a renewal, far back, and right again, while the authority's clock is right: it is not asked without an end.
#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_clock_that_jumps_renews_and_orders_no_more_often_than_that() {
    let Some(planned) = Planned::new() else { return };
    let planned = planned.set("profiles", json!({ "default": { "description": "long", "validityPeriod": 86_400 } }));
    let upstream = Upstream::ok();
    let dir = folder();
    let clock = dir.path().join("clock");
    let set = |offset: &str| {
        let fresh = clock.with_extension("fresh");
        std::fs::write(&fresh, offset).unwrap();
        std::fs::rename(fresh, &clock).unwrap();
    };
    set("+0");
    let mut command = std::process::Command::new(crate::harness::PORTUNUS);
    let variables = [("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    command.env("LD_PRELOAD", crate::harness::faketime()).env("FAKETIME_TIMESTAMP_FILE", &clock).envs(variables);
    let text =
        yaml(&upstream, &Wanted::from(&planned, &[HOST])).replace("retry_interval: 200ms", "retry_interval: 10s");
    let gate = Gate::start_by(dir, &text, command);
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    wait_for_kept(&gate, STEM);
    wait_until("the name to be served", || is_served(&gate, HOST));
    let orders = || pebble.log().matches("Added order").count();
    assert_eq!(orders(), 1);
    // Two thirds of a day and more: each new certificate is old when it comes.
    set("+60000");
    wait_until("a renewal, and another one", || orders() == 3);
    // More than one turn of the task that orders, and less than the shortest pause; by a clock that is right or behind there is nothing to renew.
    for offset in ["+60000", "-60000", "+0"] {
        set(offset);
        std::thread::sleep(std::time::Duration::from_millis(1_500));
    }
    assert_eq!(orders(), 3, "it pauses before the next one");
    assert!(is_served(&gate, HOST));
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn one_process_orders_for_a_folder_and_the_next_one_takes_over() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let wanted = Wanted::from(&planned, &[HOST]);
    let first = start(&upstream, &wanted);
    first.wait_for("certificate not issued");
    let folder = first.dir.path().join("store");
    let text = yaml(&upstream, &wanted).replace("folder: store", &format!("folder: {}", folder.display()));
    let second = Gate::start_in(super::edge::folder(), &text);
    second.wait_for("another process orders certificates into this folder");
    let (http, tls) = ports(&second);
    let _pebble = planned.start(http, tls);
    first.signal("KILL");
    wait_until("a certificate from the other process", || folder.join(format!("certificates/{STEM}.pem")).is_file());
}
