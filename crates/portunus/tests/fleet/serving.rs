//! What nodes serve while the store is there, is away, is poisoned, or has lost something.

use std::process::Command;

use super::site::{MARKER, Site, wait_until};
use crate::etcd::Etcd;
use crate::harness::PORTUNUS;

#[test]
fn what_is_pushed_is_served_everywhere_and_can_be_rolled_back() {
    pushed_served_and_rolled_back(&Site::new());
}

#[test]
#[ignore = "needs the current etcd: ./x verify ignored"]
fn on_the_current_release_of_etcd_it_is_the_same() {
    let Some(etcd) = Etcd::start_current() else { return };
    let mut site = Site::on(etcd);
    pushed_served_and_rolled_back(&site);
    // It goes away and comes back, and nodes notice that by themselves.
    let node = site.node("a", &[]);
    site.etcd.kill();
    node.wait_for("/metrics", "portunus_fleet_connected 0");
    site.etcd.begin();
    node.wait_for("/metrics", "portunus_fleet_connected 1");
    site.write("three", "");
    site.pushed(&["--all"]);
    node.wait_to_say("three");
}

fn pushed_served_and_rolled_back(site: &Site) {
    let text = site.pushed(&[]);
    assert!(text.contains("everywhere"), "{text}");
    let nodes = site.nodes(&["a", "b"]);
    nodes.iter().for_each(|node| assert_eq!(node.says(), "one"));
    site.wait_for_nodes(2);
    assert!(site.pushed(&[]).contains("serves this already"));
    site.write("two", "");
    let (is_done, text) = site.push(&["--dry-run"]);
    assert!(is_done && text.contains("~ routes.root.respond.body: one -> two"), "{text}");
    let text = site.pushed(&["--watch", "1"]);
    assert!(text.contains("1 of 2 nodes") && text.contains("everywhere"), "{text}");
    nodes.iter().for_each(|node| assert_eq!(node.says(), "two"));
    nodes.iter().for_each(|node| node.wait_for("/readyz", "fleet: generation"));
    nodes.iter().for_each(|node| node.wait_for("/metrics", "portunus_fleet_connected 1"));
    let (is_done, text) = site.portunus(&["fleet", "status"]);
    assert!(is_done && text.contains("2 of 2 nodes serve what they are to serve"), "{text}");
    let (is_done, text) = site.portunus(&["fleet", "nodes", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(is_done && value["nodes"].as_array().unwrap().len() == 2, "{text}");
    let (is_done, text) = site.portunus(&["fleet", "rollback"]);
    assert!(is_done, "{text}");
    nodes.iter().for_each(|node| assert_eq!(node.says(), "one"));
    let (is_done, text) = site.portunus(&["fleet", "history"]);
    assert!(is_done && text.contains("rolled back") && text.lines().count() >= 5, "{text}");
    nodes.into_iter().for_each(|node| node.end());
    assert!(site.reports().is_empty(), "who leaves in order says so");
}

#[test]
fn nothing_in_etcd_can_be_read_without_the_key() {
    let site = Site::new();
    let cert = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a.test"])
        .args([
            "-addext",
            "subjectAltName=DNS:a.test",
            "-days",
            "30",
            "-keyout",
            "site/keys/a.key",
            "-out",
            "site/keys/a.pem",
        ])
        .current_dir({
            std::fs::create_dir(site.path("site/keys")).unwrap();
            site.dir.path()
        })
        .output()
        .unwrap();
    assert!(cert.status.success());
    site.write("one", "keystores: { main: { folder: keys } }\n");
    site.pushed(&[]);
    let node = site.node("a", &[]);
    site.wait_for_nodes(1);
    let all = site.everything();
    let rollout = site.store().rollout().unwrap().unwrap().rollout;
    let (_, bundle) = site.store().download(&rollout.generation).unwrap();
    let key = std::fs::read(site.path("site/keys/a.key")).unwrap();
    assert_eq!(bundle.files["pages/page.txt"].as_slice(), MARKER.as_bytes());
    assert_eq!(*bundle.files["keys/a.key"], key, "it is all there for who has the key");
    assert!(all.len() >= 6, "{all:?}");
    let middle = &key[40..72];
    for entry in &all {
        for needle in [MARKER.as_bytes(), b"PRIVATE KEY", b"listeners", b"pages/page.txt", b"generation", middle] {
            let found = entry.value.windows(needle.len()).any(|window| window == needle);
            assert!(!found, "{} holds {}", entry.key, String::from_utf8_lossy(needle));
        }
    }
    // With another key there is nothing to be had, and nothing is changed.
    std::fs::remove_file(site.path("fleet.key")).unwrap();
    assert!(site.portunus(&["fleet", "key", "fleet.key"]).0);
    let (is_done, text) = site.push(&["--all"]);
    assert!(!is_done && text.contains("was not written for there by somebody who has the fleet's key"), "{text}");
    assert_eq!(node.says(), "one");
}

#[test]
fn a_node_starts_and_goes_on_without_etcd_and_catches_up() {
    let mut site = Site::new();
    site.pushed(&[]);
    let node = site.node("a", &[]);
    site.wait_for_nodes(1);
    site.etcd.kill();
    node.wait_for("/readyz", "etcd cannot be reached");
    node.wait_for("/metrics", "portunus_fleet_connected 0");
    assert_eq!(node.says(), "one");
    node.running.wait_for("this node goes on alone", 1);
    node.end();
    let node = site.node("a", &[]);
    assert_eq!(node.says(), "one", "it is in its cache");
    node.wait_for("/readyz", "etcd cannot be reached");
    site.etcd.begin();
    node.wait_for("/metrics", "portunus_fleet_connected 1");
    site.write("two", "");
    site.pushed(&[]);
    node.wait_to_say("two");
}

#[test]
fn a_damaged_cache_is_fetched_anew() {
    let site = Site::new();
    site.pushed(&[]);
    site.node("a", &[]).end();
    let generation = site.store().rollout().unwrap().unwrap().rollout.generation;
    let page = site.path("cache-a/generations").join(generation).join("pages/page.txt");
    std::fs::write(&page, "something else").unwrap();
    let node = site.node("a", &[]);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), MARKER);
    assert!(
        node.running.diagnostics().iter().any(|line| line.contains("is fetched anew")),
        "{:?}",
        node.running.diagnostics()
    );
}

#[test]
fn a_store_that_went_back_changes_nothing_until_the_next_push() {
    let mut site = Site::new();
    site.pushed(&[]);
    let node = site.node("a", &[]);
    site.wait_for_nodes(1);
    site.etcd.kill();
    let backup = site.etcd.back_up();
    site.etcd.begin();
    node.wait_for("/metrics", "portunus_fleet_connected 1");
    site.write("two", "");
    site.pushed(&[]);
    node.wait_to_say("two");
    site.etcd.kill();
    site.etcd.restore(&backup);
    site.etcd.begin();
    node.wait_for("/readyz", "etcd went back");
    assert_eq!(node.says(), "two");
    wait_until("the node to report it", || {
        site.reports()
            .get("a")
            .is_some_and(|report| report.problems.iter().any(|problem| problem.contains("went back")))
    });
    site.write("three", "");
    site.pushed(&["--all"]);
    node.wait_to_say("three");
    node.wait_for("/metrics", "portunus_fleet_problem 0");
}

#[test]
fn a_state_that_is_poisoned_or_gone_changes_nothing() {
    let site = Site::new();
    site.pushed(&[]);
    let node = site.node("a", &[]);
    site.wait_for_nodes(1);
    let mut client = site.client();
    let state = client.get("/test/fleet/rollout").unwrap().unwrap().value;
    let older = client.list("/test/fleet/history/", false).unwrap().remove(0).value;
    for poison in [b"{}".to_vec(), state[..20].to_vec(), older] {
        client.put("/test/fleet/rollout", &poison, 0).unwrap();
        node.wait_for("/readyz", "was not written for there");
        client.put("/test/fleet/rollout", &state, 0).unwrap();
        node.wait_for("/metrics", "portunus_fleet_problem 0");
    }
    client.put("/test/fleet/nodes/stranger", b"x", 0).unwrap();
    let (is_done, text) = site.portunus(&["fleet", "status"]);
    assert!(is_done && text.contains("nodes/stranger was not written for there"), "{text}");
    client.delete("/test/fleet/rollout").unwrap();
    node.wait_for("/readyz", "etcd has no state of the fleet any more");
    assert_eq!(node.says(), "one");
    site.write("two", "");
    site.pushed(&["--all"]);
    node.wait_to_say("two");
}

#[test]
fn a_node_without_anything_to_serve_says_so_and_ends() {
    let site = Site::new();
    let output = Command::new(PORTUNUS).arg("run").arg(site.path("fleet.yaml")).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("the fleet serves nothing yet"), "{text}");
    let (is_done, text) = site.portunus(&["check", "fleet.yaml"]);
    assert!(is_done && text.contains("ok (node operator of a fleet)"), "{text}");
    std::fs::write(
        site.path("bad.yaml"),
        "fleet: { etcd: 'http://192.0.2.1:1', seal: { key_file: none }, further: 1 }\n",
    )
    .unwrap();
    let (is_done, text) = site.portunus(&["check", "bad.yaml"]);
    let all = ["is another machine, in the clear", "unknown key", "cannot use the file"];
    assert!(!is_done && all.iter().all(|what| text.contains(what)), "{text}");
}

#[test]
fn what_needs_more_than_the_sandbox_left_open_is_loaded_by_a_restart() {
    let site = Site::new();
    site.pushed(&[]);
    let node = site.node("a", &[]);
    site.wait_for_nodes(1);
    let elsewhere = tempfile::tempdir().unwrap();
    let page = elsewhere.path().join("page.txt");
    std::fs::write(&page, "elsewhere").unwrap();
    let route =
        format!("  - {{ name: more, path: /more, respond: {{ status: 200, body_file: {} }} }}\n", page.display());
    site.write("two", &route);
    let (is_done, text) = site.push(&["--all"]);
    // Where the kernel has no Landlock, nothing is closed off.
    assert!(is_done || text.contains("outside of what the sandbox left open"), "{text}");
    assert_eq!(node.says(), if is_done { "two" } else { "one" });
    node.end();
    let node = site.node("a", &[]);
    assert_eq!(node.says(), "two");
}

#[test]
fn what_passes_the_check_and_does_not_start_ends_one_start_alone() {
    let site = Site::new();
    site.pushed(&[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let more = [("MORE", address.as_str())];
    let node = site.node("a", &more);
    site.wait_for_nodes(1);
    site.write("two", "");
    let file = site.path("site/portunus.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replacen("}]\n", "}, { name: more, bind: \"${MORE:-127.0.0.1:3}\" }]\n", 1);
    std::fs::write(&file, text).unwrap();
    let (is_done, text) = site.push(&["--all"]);
    assert!(!is_done && text.contains("a does not serve it") && text.contains(&address), "{text}");
    assert_eq!(node.says(), "one");
    node.end();
    let mut command = Command::new(PORTUNUS);
    command.arg("run").arg(site.path("a.yaml")).env("PORTUNUS_CONTROL", "none");
    let output = command.env("WEB", "127.0.0.1:0").env("ADMIN", "127.0.0.1:0").envs(more).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains(&address), "{text}");
    let node = site.node("a", &more);
    assert_eq!(node.says(), "one");
}
