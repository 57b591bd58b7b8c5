//! Certificates that are ordered when a client first asks for their name, by the development CA.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::disk::SmallDisk;
use super::edge::{self, Wanted, is_served_with, metric, ports};
use super::pebble::Planned;
use crate::harness::secure::Secure;
use crate::harness::{Gate, Reply, Upstream, connect, wait_until, wait_within};

fn yaml(upstream: &Upstream, on_demand: &str) -> String {
    let address = upstream.address;
    format!(
        "workers: 1
listeners: [{{ name: tls, bind: \"127.0.0.1:0\", tls: {{ keystore: main }} }}]
keystores:
  main: {{ acme: {{ folder: store, directory: internal, accept_terms: true, on_demand: {{ {on_demand} }} }} }}
upstreams: {{ app: {{ servers: [\"{address}\"] }} }}
routes: [{{ path: \"/{{*rest}}\", upstream: app }}]
admin: {{ bind: \"127.0.0.2:0\" }}
"
    )
}

/// Whether curl, which trusts the development CA alone, gets a response for this host.
fn is_served(gate: &Gate, host: &str) -> bool {
    is_served_under(&gate.dir.path().join("store"), gate, host)
}

/// The same with the CA of another folder.
fn is_served_under(store: &Path, gate: &Gate, host: &str) -> bool {
    let address = gate.address("tls");
    let mut command = Command::new("curl");
    command.args(["--silent", "--fail", "--max-time", "60", "--output", "/dev/null", "--resolve"]);
    command.arg(format!("{host}:{}:{}", address.port(), address.ip())).arg("--cacert");
    command.arg(store.join("ca/ca.pem")).arg(format!("https://{host}:{}/", address.port()));
    command.status().expect("curl is installed (Debian package curl)").success()
}

/// Has the CA made, which its clients must know before they can trust it: by one that trusts anybody.
fn make_ca(gate: &Gate) {
    let address = gate.address("tls");
    let host = "first.shop.test";
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "60", "--output", "/dev/null", "--resolve"]);
    command
        .arg(format!("{host}:{}:{}", address.port(), address.ip()))
        .arg(format!("https://{host}:{}/", address.port()));
    assert!(command.status().expect("curl is installed (Debian package curl)").success());
}

#[test]
fn the_first_client_of_an_allowed_name_waits_for_its_certificate() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "allow: \"*.shop.test\", max_names: 3, refusal_time: 100ms");
    let gate = Gate::start(&text);
    make_ca(&gate);
    assert!(is_served(&gate, "a.shop.test"), "the first handshake waits");
    assert!(is_served(&gate, "b.shop.test"));
    assert!(gate.dir.path().join("store/on-demand/certificates/a.shop.test.ecdsa.pem").is_file());
    for host in ["other.test", "a_b.shop.test", "c.shop.test"] {
        assert!(!is_served(&gate, host), "{host}");
    }
    assert_eq!(metric(&gate, "portunus_acme_names_on_demand{keystore=\"main\"}"), Some(3.0));
}

#[test]
fn who_is_asked_decides_and_what_was_issued_outlives_a_restart() {
    let upstream = Upstream::ok();
    let asked = Upstream::start(|request| match request.line() {
        line if line.contains("domain=no.") => {
            Reply::Keep(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec())
        }
        line if line.contains("domain=silent.") => Reply::Silence,
        _ => Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    });
    let on_demand = format!("ask: \"http://{}/may\", ask_timeout: 10s, max_orders_per_hour: 2", asked.address);
    let text = yaml(&upstream, &on_demand);
    let gate = Gate::start(&text);
    make_ca(&gate);
    assert!(!is_served(&gate, "no.shop.test") && !is_served(&gate, "no.shop.test"));
    assert!(!is_served(&gate, "silent.shop.test"));
    assert!(is_served(&gate, "yes.shop.test"));
    let questions = |name: &str| asked.seen().iter().filter(|request| request.line().contains(name)).count();
    assert_eq!(questions("/may?domain=no.shop.test"), 1, "a rejection is remembered");
    assert!(!is_served(&gate, "third.shop.test"), "there were two orders in this hour");
    assert_eq!(questions("third.shop.test"), 0, "nobody is asked about an order that there cannot be");
    let (_, dir) = gate.stop_and_keep();
    let gate = Gate::start_in(dir, &text);
    assert!(is_served(&gate, "yes.shop.test"), "no order is left, and none is needed");
    assert!(!is_served(&gate, "fourth.shop.test"), "a restart gives no further orders");
}

/// Whoever makes names up has its share of what may be ordered, and the others have the rest.
#[test]
fn one_client_does_not_have_all_orders() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "allow: \"*.shop.test\", max_orders_per_hour: 4, refusal_time: 1h");
    let gate = Gate::start(&text);
    make_ca(&gate);
    std::fs::copy(gate.dir.path().join("store/ca/ca.pem"), gate.dir.path().join("ca.pem")).unwrap();
    let is_served_from = |client: &str, host: &str| is_served_with(&gate, host, &["--interface", client]);
    // The CA was made with the first.
    assert!(is_served(&gate, "a.shop.test") && is_served(&gate, "b.shop.test"));
    assert!(!is_served(&gate, "c.shop.test"), "three of four");
    gate.wait_for("this client has had its share of `max_orders_per_hour`");
    assert!(is_served(&gate, "a.shop.test"), "what is there is served");
    assert!(
        is_served_from("127.0.0.77", "c.shop.test"),
        "another client: what was refused to one is not refused to all"
    );
    assert!(!is_served_from("127.0.0.77", "e.shop.test"), "there are no more than four");
}

/// As after an upgrade, while the process before still has the right to order.
#[test]
fn who_may_not_order_serves_what_another_process_has_ordered() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "allow: \"*.shop.test\", wait: 100ms");
    let first = Gate::start(&text.replace(", wait: 100ms", ""));
    make_ca(&first);
    assert!(is_served(&first, "a.shop.test"));
    let store = first.dir.path().join("store");
    let second = Gate::start(&text.replace("folder: store", &format!("folder: {}", store.display())));
    let demanded = || {
        let issued = "portunus_acme_demands_total{keystore=\"main\",result=\"issued\"}";
        metric(&second, issued).unwrap_or_default()
    };
    wait_until("the name to be served", || is_served_under(&store, &second, "a.shop.test"));
    assert!(!is_served_under(&store, &second, "b.shop.test"), "it may not order");
    assert_eq!(demanded(), 0.0);
    assert!(is_served(&first, "b.shop.test"));
    let (_, _kept) = first.stop_and_keep();
    wait_until("the right to order", || is_served_under(&store, &second, "c.shop.test"));
    assert!(is_served_under(&store, &second, "b.shop.test"), "what was ordered meanwhile is read");
}

/// Any name below the one that is ordered anyway.
const BELOW: &[&str] = &["www.portunus.test", "\"*.portunus.test\""];

fn below(planned: &Planned, upstream: &Upstream, settings: &str) -> String {
    let acme = format!(", names: [www.portunus.test], {settings}");
    edge::yaml(upstream, &Wanted { acme: &acme, ..Wanted::from(planned, BELOW) })
}

/// Longest time that clients wait here, on a machine that does much else.
const LONG: Duration = Duration::from_secs(120);

/// Many names, always some of them at once and each for two clients at once: each is ordered once, and no other one is.
#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn clients_of_many_names_wait_for_one_order_of_each() {
    const NAMES: usize = 48;
    const AT_ONCE: usize = 8;
    let Some(planned) = Planned::new() else { return };
    // Pebble gives a validation a few seconds, and a name whose order failed is rejected for an hour: no order may depend on how fast it is.
    let planned = planned.with("PEBBLE_VA_ALWAYS_VALID", "1");
    let (upstream, authority) = (Upstream::ok(), planned.host());
    // One client has three quarters of the orders.
    let caps = format!("max_names: {NAMES}, max_orders_per_hour: {}, refusal_time: 1h", 2 * NAMES);
    let settings = format!("max_orders: {AT_ONCE}, on_demand: {{ allow: \"*.portunus.test\", wait: 2m, {caps} }}");
    let gate = Gate::start_in(edge::folder(), &below(&planned, &upstream, &settings));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let gate = &gate;
    // The handshake is what waits.
    let shake = |name: usize| {
        let stream = connect(gate.address("tls"));
        stream.set_read_timeout(Some(LONG)).unwrap();
        Secure::over(stream, gate.dir.path(), &format!("n{name}.portunus.test"), "http/1.1")
    };
    std::thread::scope(|scope| {
        for client in 0..2 * AT_ONCE {
            scope.spawn(move || (client % AT_ONCE..NAMES).step_by(AT_ONCE).for_each(|name| drop(shake(name))));
        }
    });
    assert_eq!(metric(gate, "portunus_acme_names_on_demand{keystore=\"main\"}"), Some(NAMES as f64));
    let orders =
        format!("portunus_acme_orders_total{{keystore=\"main\",authority=\"{authority}\",result=\"success\"}}");
    wait_until("the name that is ordered anyway", || metric(gate, &orders) == Some(NAMES as f64 + 1.0));
    assert!(!is_served_with(gate, "one-more.portunus.test", &[]), "there are as many as there may be");
    let last = format!("n{}.portunus.test", NAMES - 1);
    assert!(is_served_with(gate, "n0.portunus.test", &[]) && is_served_with(gate, &last, &[]));
}

/// A client that asks for a name, whatever comes of it.
fn ask_for<'s>(scope: &'s std::thread::Scope<'s, '_>, gate: &'s Gate, host: &'static str) {
    scope.spawn(move || is_served_with(gate, host, &["--insecure", "--max-time", "60"]));
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn an_order_on_demand_goes_on_after_the_process_was_killed() {
    let Some(planned) = Planned::new() else { return };
    // Validation takes its time, so that the process can be killed in it, and finds what it looks for in any case.
    let planned = planned.with("PEBBLE_VA_NOSLEEP", "0").with("PEBBLE_VA_SLEEPTIME", "4");
    let planned = planned.with("PEBBLE_VA_ALWAYS_VALID", "1");
    let upstream = Upstream::ok();
    let settings = "on_demand: { allow: \"*.portunus.test\", wait: 2m, max_orders_per_hour: 1, refusal_time: 100ms }";
    let text = below(&planned, &upstream, settings);
    let gate = Gate::start_in(edge::folder(), &text);
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let name = "late.portunus.test";
    let record = gate.dir.path().join(format!("store/on-demand/records/{name}.ecdsa.json"));
    let order = || {
        let text = std::fs::read_to_string(&record).ok()?;
        text.split_once("/my-order/").map(|(_, rest)| rest.split('"').next().unwrap_or_default().to_owned())
    };
    std::thread::scope(|scope| {
        ask_for(scope, &gate, name);
        wait_until("an order", || order().is_some());
        gate.signal("KILL");
    });
    let begun = order();
    let (_, dir) = gate.stop_and_keep();
    let bound = |name: &str, port: u16| format!("{{ name: {name}, bind: \"{}:{port}\"", pebble.gate());
    let text = text.replace(&bound("web", 0), &bound("web", http)).replace(&bound("tls", 0), &bound("tls", tls));
    let again = Gate::start_in(dir, &text);
    assert!(
        !is_served_with(&again, "other.portunus.test", &["--max-time", "60"]),
        "it counts among the orders of the hour"
    );
    let is_served = is_served_with(&again, name, &["--max-time", "60"]);
    assert!(is_served, "{:#?}", again.diagnostics());
    let orders: Vec<_> = pebble.log().lines().filter(|line| line.contains("Added order")).map(str::to_owned).collect();
    assert!(orders.iter().any(|line| line.contains(&begun.clone().unwrap())), "{begun:?} {orders:#?}");
    assert_eq!(orders.len(), 2, "the same order, and that of the name that is ordered anyway: {orders:#?}");
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn on_a_full_disk_nothing_is_ordered_on_demand_and_what_is_there_is_served() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let settings = "on_demand: { allow: \"*.portunus.test\", wait: 2m, refusal_time: 100ms }";
    let Some((gate, disk)) = SmallDisk::start(&below(&planned, &upstream, settings)) else { return };
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    wait_until("the first name", || is_served_with(&gate, "first.portunus.test", &["--max-time", "60"]));
    wait_until("the name that is ordered anyway", || is_served_with(&gate, "www.portunus.test", &[]));
    disk.fill(&gate);
    let orders = || pebble.log().matches("Added order").count();
    let before = orders();
    assert!(!is_served_with(&gate, "second.portunus.test", &["--max-time", "60"]));
    gate.wait_for("free disk space");
    assert_eq!(orders(), before, "nothing is ordered that cannot be kept");
    assert!(is_served_with(&gate, "first.portunus.test", &[]), "the last good one is there");
    disk.free(&gate);
    wait_until("the second name", || is_served_with(&gate, "second.portunus.test", &["--max-time", "60"]));
}

/// Two names whose certificates end soon, one of which may not be renewed.
#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn before_a_renewal_is_asked_again_and_who_may_have_none_any_more_gets_none() {
    let Some(planned) = Planned::new() else { return };
    let planned = planned.set("profiles", json!({ "default": { "description": "short", "validityPeriod": 24 } }));
    let upstream = Upstream::ok();
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let rejections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (said, rejected) = (std::sync::Arc::clone(&is_over), std::sync::Arc::clone(&rejections));
    let asked = Upstream::start(move |request| {
        let is_rejected = request.line().contains("=gone.") && said.load(std::sync::atomic::Ordering::Relaxed);
        rejected.fetch_add(usize::from(is_rejected), std::sync::atomic::Ordering::Relaxed);
        let status = if is_rejected { "404 Not Found" } else { "200 OK" };
        Reply::Keep(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    let settings = format!("on_demand: {{ ask: \"http://{}/may\", wait: 2m, refusal_time: 1h }}", asked.address);
    let gate = Gate::start_in(edge::folder(), &below(&planned, &upstream, &settings));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let file =
        |name: &str| gate.dir.path().join(format!("store/on-demand/certificates/{name}.portunus.test.ecdsa.pem"));
    let certificate = |name: &str| std::fs::read(file(name)).ok();
    std::thread::scope(|scope| {
        ask_for(scope, &gate, "kept.portunus.test");
        ask_for(scope, &gate, "gone.portunus.test");
        wait_until("both", || certificate("kept").is_some() && certificate("gone").is_some());
    });
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    let questions = |name: &str| asked.seen().iter().filter(|seen| seen.line().contains(&format!("={name}."))).count();
    let first = certificate("kept");
    // The authority suggests when to renew, at any time of the certificate's life.
    let life = Duration::from_secs(60);
    wait_within(life, "a renewal", || certificate("kept").is_some_and(|now| Some(now) != first));
    assert!(questions("kept") >= 2, "it was asked again");
    // One renewal may have been under way.
    wait_within(2 * life, "the end of the other one", || certificate("gone").is_none());
    assert_eq!(rejections.load(std::sync::atomic::Ordering::Relaxed), 1, "the rejection holds for refusal_time");
    assert!(!is_served_with(&gate, "gone.portunus.test", &[]));
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_name_whose_order_failed_waits_and_takes_no_orders_from_others() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let settings = "on_demand: { allow: \"*.portunus.test\", max_orders_per_hour: 2, refusal_time: 100ms, wait: 60s }";
    let text = below(&planned, &upstream, settings).replace("retry_interval: 200ms", "retry_interval: 1h");
    let gate = Gate::start_in(edge::folder(), &text);
    let (http, tls) = ports(&gate);
    std::fs::write(gate.dir.path().join("ca.pem"), "").unwrap();
    for _ in 0..4 {
        assert!(!is_served_with(&gate, "bad.portunus.test", &["--insecure"]), "the authority is not there");
        // Longer than `refusal_time`: what rejects the next one is the pause after a failure.
        std::thread::sleep(Duration::from_millis(150));
    }
    let demands = |result: &str| {
        let sample = format!("portunus_acme_demands_total{{keystore=\"main\",result=\"{result}\"}}");
        metric(&gate, &sample).unwrap_or_default()
    };
    assert_eq!(demands("failed"), 1.0, "it is ordered once");
    assert!(demands("refused") >= 1.0);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    assert!(is_served_with(&gate, "good.portunus.test", &["--max-time", "60"]), "an order was left");
}
