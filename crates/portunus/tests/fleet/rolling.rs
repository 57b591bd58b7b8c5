//! What halts a roll-out, and what never begins one.

#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fleet::generation::{Bundle, Manifest, gather};
use fleet::rollout::{Phase, Rollout, Stage};
use fleet::seal::Seal;

use super::site::{Site, wait_until};
use crate::harness::{Reply, StopOnDrop, Upstream, exchange};

#[test]
fn what_check_rejects_never_reaches_etcd() {
    let site = Site::new();
    let outside = site.path("outside.txt");
    std::fs::write(&outside, "x").unwrap();
    let page =
        |path: &str| format!("  - {{ name: more, path: /more, respond: {{ status: 200, body_file: {path} }} }}\n");
    for (more, expected) in [
        ("upstreams: 7\n".to_owned(), "upstreams"),
        (page("pages/none.txt"), "none.txt"),
        (page("../outside.txt"), "lies outside of the folder of the configuration"),
        ("log: { access: { output: access.log } }\n".to_owned(), "nodes write it"),
        ("contracts: { api: { document: api.yaml } }\n".to_owned(), "api.yaml"),
    ] {
        site.write("one", &more);
        let (is_done, text) = site.push(&[]);
        assert!(!is_done && text.contains(expected), "{more}: {text}");
        assert!(site.everything().is_empty(), "{more}");
    }
    // What is named by its whole path is each node's own.
    site.write("one", &page(outside.to_str().unwrap()));
    let text = site.pushed(&[]);
    assert!(text.contains(&format!("each node's own: {}", outside.display())), "{text}");
}

#[test]
fn a_roll_out_halts_at_the_first_node_that_rejects_it() {
    let site = Site::new();
    site.pushed(&[]);
    // On the first node the address of the new listener is taken.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let mut nodes = vec![site.node("a", &[("MORE", &taken)])];
    nodes.extend(["b", "c"].map(|name| site.node(name, &[("MORE", "127.0.0.1:0")])));
    site.wait_for_nodes(3);
    site.write("two", "");
    let text = std::fs::read_to_string(site.path("site/portunus.yaml")).unwrap();
    let more = text.replacen("}]\n", "}, { name: more, bind: \"${MORE:-127.0.0.1:3}\" }]\n", 1);
    assert_ne!(more, text);
    std::fs::write(site.path("site/portunus.yaml"), more).unwrap();
    let (is_done, text) = site.push(&["--stages", "1", "--watch", "1"]);
    assert!(!is_done && text.contains("halted") && text.contains("a rejects"), "{text}");
    assert!(text.contains(&taken), "it says why: {text}");
    for node in &nodes {
        assert_eq!(node.says(), "one", "{}", node.name);
        let has_loaded = node.running.diagnostics().iter().any(|line| line.contains("serving another generation"));
        assert!(!has_loaded, "{}", node.name);
    }
    nodes[0].wait_for("/metrics", "portunus_fleet_rejections_total 1");
    // What is good goes on from there.
    site.write("three", "");
    site.pushed(&["--watch", "1"]);
    nodes.iter().for_each(|node| node.wait_to_say("three"));
}

#[test]
fn a_roll_out_halts_where_errors_rise() {
    let site = Site::new();
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b", "c"]);
    site.wait_for_nodes(3);
    site.write("broken", "");
    let is_over = AtomicBool::new(false);
    let (is_done, text) = std::thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    exchange(node.web, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                }
            });
        }
        let _ended = StopOnDrop(&is_over);
        site.push(&["--watch", "300"])
    });
    assert!(!is_done && text.contains("halted") && text.contains("responses of 5xx"), "{text}");
    nodes.iter().for_each(|node| node.wait_to_say("one"));
    let has_loaded = |line: &String| line.contains("serving another generation");
    assert!(nodes.iter().filter(|node| node.running.diagnostics().iter().any(has_loaded)).count() == 1);
}

#[test]
fn a_roll_out_can_be_paused_and_ended() {
    let site = Site::new();
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b", "c"]);
    site.wait_for_nodes(3);
    site.write("two", "");
    site.pushed(&["--watch", "3600", "--no-wait"]);
    nodes[0].wait_to_say("two");
    let (is_done, text) = site.push(&[]);
    assert!(!is_done && text.contains("is under way"), "{text}");
    assert!(site.portunus(&["fleet", "pause"]).0);
    let (is_done, text) = site.portunus(&["fleet", "status"]);
    assert!(is_done && text.contains("paused at 1 nodes"), "{text}");
    assert!(site.portunus(&["fleet", "pause", "--undo"]).0);
    let (is_done, text) = site.portunus(&["fleet", "rollback"]);
    assert!(is_done && text.contains("ended by"), "{text}");
    nodes[0].wait_to_say("one");
}

#[test]
fn a_roll_out_survives_its_driver() {
    let site = Site::new();
    site.pushed(&[]);
    let mut nodes = site.nodes(&["a", "b", "c"]);
    site.wait_for_nodes(3);
    site.write("two", "");
    // So long that the driver is known to be gone when the next nodes are chosen.
    site.pushed(&["--watch", "40", "--no-wait"]);
    nodes[0].wait_to_say("two");
    let driver = wait_for_driver(&site);
    let at = nodes.iter().position(|node| node.name == driver).unwrap();
    drop(nodes.remove(at));
    let end = || site.store().rollout().unwrap().unwrap().rollout.phase;
    let is_over = || matches!(end(), Phase::Complete | Phase::Halted);
    crate::harness::wait_within(Duration::from_secs(180), "somebody to drive it to its end", is_over);
    // A node that serves the change and is gone halts it.
    let expected = if driver == "a" { "one" } else { "two" };
    nodes.iter().for_each(|node| node.wait_to_say(expected));
}

/// Who drives.
fn wait_for_driver(site: &Site) -> String {
    let mut driver = String::new();
    wait_until("a driver", || {
        let entry = site.client().get("/test/fleet/driver").unwrap();
        let seal = Seal::read(&site.path("fleet.key")).unwrap();
        let name = entry.and_then(|entry| Some(seal.open(&entry.key, &entry.value)?.to_vec()));
        driver = name.map(|name| String::from_utf8(name).unwrap()).unwrap_or_default();
        !driver.is_empty()
    });
    driver
}

fn bundle(site: &Site) -> Bundle {
    let file = site.path("site/portunus.yaml");
    gather(&file, &config::load(&file).unwrap()).unwrap().bundle
}

/// A state that has all nodes serve a generation, one after the other.
fn rolling(site: &Site, generation: &str) -> (Rollout, i64) {
    let stored = site.store().rollout().unwrap().unwrap();
    let rollout = Rollout {
        serial: stored.rollout.serial + 1,
        generation: generation.to_owned(),
        previous: stored.rollout.settled().map(str::to_owned),
        phase: Phase::Running,
        stages: vec![Stage::Nodes(1)],
        at: stored.rollout.at + 1,
        ..stored.rollout
    };
    (rollout, stored.changed)
}

fn halts(site: &Site, generation: &str, expected: &str) {
    let (rollout, changed) = rolling(site, generation);
    assert!(site.store().change(&rollout, changed, None).unwrap());
    let mut note = String::new();
    wait_until("the roll-out to halt", || {
        let state = site.store().rollout().unwrap().unwrap().rollout;
        note = state.note.clone();
        state.phase == Phase::Halted
    });
    assert!(note.contains(expected), "{note}");
}

#[test]
fn a_poisoned_or_newer_generation_is_rejected_and_halts() {
    let site = Site::new();
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b"]);
    site.wait_for_nodes(2);
    let (mut client, mut store) = (site.client(), site.store());
    // A content that somebody wrote over, one that belongs elsewhere, and one that is gone.
    for (number, expected) in
        ["was not written for there", "was not written for there", "etcd has nothing at"].iter().enumerate()
    {
        site.write(&format!("poisoned {number}"), "");
        let generation = store.upload(&bundle(&site)).unwrap();
        let manifest = store.manifest(&generation).unwrap();
        let place = |name: &str| format!("/test/fleet/contents/{name}/0000");
        let item = |path: &str| manifest.files.iter().find(|item| item.path == path).unwrap();
        let (yaml, page) = (place(&item("portunus.yaml").name), place(&item("pages/page.txt").name));
        match number {
            0 => client.put(&yaml, b"garbage", 0).unwrap(),
            1 => {
                let other = client.get(&page).unwrap().unwrap().value;
                client.put(&yaml, &other, 0).unwrap();
            }
            _ => client.delete(&yaml).unwrap(),
        }
        halts(&site, &generation, expected);
    }
    // One of a later version of the program.
    let seal = Seal::read(&site.path("fleet.key")).unwrap();
    let text = Manifest::of(&bundle(&site), &seal).write().replace("\"format\":1", "\"format\":2");
    let name = seal.name(text.as_bytes());
    let key = format!("/test/fleet/generations/{name}/0000");
    client.put(&key, &seal.close(&key, text.as_bytes()).unwrap(), 0).unwrap();
    halts(&site, &name, "upgrade this node first");
    nodes.iter().for_each(|node| assert_eq!(node.says(), "one"));
    // A push puts in order what it needs.
    site.write("poisoned 0", "");
    site.pushed(&["--watch", "1"]);
    nodes.iter().for_each(|node| node.wait_to_say("poisoned 0"));
}

#[test]
fn a_roll_out_halts_where_requests_become_slow() {
    let site = Site::new();
    let upstream = Upstream::start(|seen| {
        // The change sends them where responses take ten times as long; before, they take as long as keeps clients from burning processor time.
        let is_slow = seen.line().contains("/slow");
        std::thread::sleep(Duration::from_millis(if is_slow { 1_000 } else { 100 }));
        Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec())
    });
    let write = |path: &str| {
        let address = upstream.address;
        site.write("one", &format!("  - {{ name: app, path: /app, upstream: app, rewrite: {path} }}\nupstreams: {{ app: {{ servers: [\"{address}\"] }} }}\n"));
    };
    write("/fast");
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b", "c"]);
    site.wait_for_nodes(3);
    write("/slow");
    let is_over = AtomicBool::new(false);
    let (is_done, text) = std::thread::scope(|scope| {
        // A hundred requests are what is compared.
        for node in std::iter::repeat_n(&nodes, 8).flatten() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    exchange(node.web, b"GET /app HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                }
            });
        }
        let _ended = StopOnDrop(&is_over);
        site.push(&["--watch", "300"])
    });
    assert!(!is_done && text.contains("halted") && text.contains("90 % of the requests take up to"), "{text}");
    let has_loaded = |line: &String| line.contains("serving another generation");
    nodes[0].running.wait_for("serving another generation", 2);
    assert!(nodes.iter().filter(|node| node.running.diagnostics().iter().any(has_loaded)).count() == 1);
}

#[test]
fn a_rollback_goes_in_stages_if_it_is_to() {
    let site = Site::new();
    site.pushed(&[]);
    site.write("two", "");
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b", "c"]);
    site.wait_for_nodes(3);
    let (is_done, text) = site.portunus(&["fleet", "rollback", "--staged", "--stages", "1", "--watch", "1"]);
    assert!(is_done && text.contains("1 of 3 nodes") && text.contains("everywhere"), "{text}");
    nodes.iter().for_each(|node| assert_eq!(node.says(), "one", "{}", node.name));
    let (is_done, text) = site.portunus(&["fleet", "history"]);
    assert!(is_done && text.contains("rolled back"), "{text}");
}
