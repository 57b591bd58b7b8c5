//! Sessions that go on at another node: of TLS by tickets, of applications by cookies.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use fleet::tickets::Tickets;

use super::site::{Node, Site, wait_until};
use crate::harness::{NO_SYSTEM_CAS, Upstream, certificates};

/// How often each pair of nodes is tried with each version of TLS.
const TRIES: usize = 4;

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

/// A site whose nodes speak TLS and have two upstream servers behind sticky sessions without a key.
fn site(servers: [&Upstream; 2]) -> Site {
    let site = Site::new();
    let made = certificates(&[("a.test", false)]);
    std::fs::rename(made.path().join("certs"), site.path("site/certs")).unwrap();
    let [one, two] = servers.map(|server| server.address);
    std::fs::write(
        site.path("site/portunus.yaml"),
        format!(
            "listeners: [{{ name: web, bind: \"${{WEB:-127.0.0.1:1}}\", tls: {{ keystore: main }} }}]
admin: {{ bind: \"${{ADMIN:-127.0.0.1:2}}\" }}
keystores: {{ main: {{ folder: certs }} }}
upstreams: {{ app: {{ servers: [\"{one}\", \"{two}\"], sticky: {{ cookie: sid }} }} }}
routes: [{{ upstream: app }}]
"
        ),
    )
    .unwrap();
    site
}

/// One request by `openssl s_client`: whether its session was resumed, and the response.
fn request(node: &Node, version: &str, session: (&str, &Path), fields: &str) -> (bool, String) {
    let (option, file) = session;
    let mut command = Command::new("timeout");
    command
        .args(["60", "openssl", "s_client", "-connect", &node.web.to_string(), "-ign_eof", "-servername", "a.test"])
        .args(NO_SYSTEM_CAS);
    let piped = command.arg(version).arg(option).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::null()).spawn().expect("openssl is installed (Debian package openssl)");
    let text = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let text = String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
    assert!(text.contains("HTTP/1.1 200"), "{}: {text}", node.name);
    (text.lines().any(|line| line.starts_with("Reused, ")), text)
}

/// Sessions of each node and version, in files of this name.
fn begin(site: &Site, nodes: &[Node], name: &str) {
    for (node, version) in nodes.iter().flat_map(|node| VERSIONS.map(|version| (node, version))) {
        let file = site.path(&format!("{name}-{}{version}", node.name));
        assert!(!request(node, version, ("-sess_out", &file), "").0);
    }
}

/// How many of how many attempts at all nodes but the one that a session is of were resumed.
fn resumed(site: &Site, nodes: &[Node], name: &str) -> (usize, usize) {
    let (mut resumed, mut tried) = (0, 0);
    for from in nodes {
        for (to, version) in nodes.iter().flat_map(|node| VERSIONS.map(|version| (node, version))) {
            let file = site.path(&format!("{name}-{}{version}", from.name));
            let tries = if to.name == from.name { 0 } else { TRIES };
            let again = || request(to, version, ("-sess_in", &file), "").0;
            resumed += (0..tries).filter(|_| again()).count();
            tried += tries;
        }
    }
    (resumed, tried)
}

fn check(what: &str, (resumed, tried): (usize, usize)) {
    println!("{what}: {resumed} of {tried} sessions were resumed at another node");
    assert!(tried >= 16 && resumed * 100 > tried * 95, "{what}: {resumed} of {tried}");
}

fn serial(site: &Site) -> u64 {
    site.store().kept::<Tickets>().unwrap().map_or(0, |(tickets, _)| tickets.serial)
}

/// Waits until all nodes report that they use the newest masters.
fn wait_for_masters(site: &Site, count: usize) {
    wait_until("all nodes to use the newest masters", || {
        let (serial, reports) = (serial(site), site.reports());
        serial > 0 && reports.len() == count && reports.values().all(|report| report.tickets == serial)
    });
}

#[test]
fn tls_sessions_go_on_at_any_node_across_rotations_and_a_restart_without_etcd() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let mut site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let names = ["a", "b", "c"];
    let nodes = site.nodes(&names);
    wait_for_masters(&site, 3);
    begin(&site, &nodes, "first");
    check("at first", resumed(&site, &nodes, "first"));
    assert!(site.portunus(&["fleet", "rotate"]).0);
    wait_for_masters(&site, 3);
    check("after a rotation", resumed(&site, &nodes, "first"));
    begin(&site, &nodes, "second");
    // A node that hears of no rotation for a while opens what the others seal by then.
    nodes[2].running.signal("STOP");
    assert!(site.portunus(&["fleet", "rotate"]).0);
    wait_for_masters(&site, 2);
    nodes[2].running.signal("CONT");
    check("across another one", resumed(&site, &nodes, "second"));
    site.etcd.kill();
    nodes.into_iter().for_each(Node::end);
    let nodes = site.nodes(&names);
    check("after a restart of everything without etcd", resumed(&site, &nodes, "second"));
    let mode = std::fs::metadata(site.path("cache-a/tickets")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    site.etcd.begin();
    wait_for_masters(&site, 3);
    assert!(site.portunus(&["fleet", "rotate", "--all"]).0);
    wait_for_masters(&site, 3);
    assert_eq!(resumed(&site, &nodes, "second").0, 0, "what others may know opens nothing any more");
}

#[test]
fn masters_that_etcd_has_lost_or_shows_again_are_put_right_by_nodes() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b"]);
    wait_for_masters(&site, 2);
    let (key, mut client) = ("/test/fleet/tickets", site.client());
    let old = client.get(key).unwrap().unwrap().value;
    assert!(site.portunus(&["fleet", "rotate"]).0);
    wait_for_masters(&site, 2);
    let known = serial(&site);
    client.put(key, &old, 0).unwrap();
    wait_until("the newest masters to be there again", || serial(&site) == known);
    client.delete(key).unwrap();
    wait_until("the newest masters to be there again", || serial(&site) == known);
    begin(&site, &nodes, "kept");
    // What nobody of the fleet has written is left as it is, and changes nothing.
    client.put(key, b"garbage", 0).unwrap();
    nodes.iter().for_each(|node| node.wait_for("/readyz", "was not written for there"));
    assert_eq!(client.get(key).unwrap().unwrap().value, b"garbage");
    check("with garbage in etcd", resumed(&site, &nodes, "kept"));
    let (is_done, text) = site.portunus(&["fleet", "rotate"]);
    assert!(is_done && text.contains("new keys are made"), "{text}");
    wait_for_masters(&site, 2);
    nodes.iter().for_each(|node| node.wait_for("/metrics", "portunus_fleet_problem 0"));
}

#[test]
fn a_sticky_session_of_one_node_holds_at_another() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let names = ["a", "b", "c"];
    let nodes = site.nodes(&names);
    let nowhere = site.path("nowhere");
    let mut cookies = Vec::new();
    for _ in 0..8 {
        let before = servers.each_ref().map(|server| server.seen().len());
        let (_, text) = request(&nodes[0], "-tls1_3", ("-sess_out", &nowhere), "");
        let cookie =
            text.lines().find_map(|line| line.strip_prefix("set-cookie: ").or(line.strip_prefix("Set-Cookie: ")));
        let at = usize::from(servers[1].seen().len() > before[1]);
        cookies.push((at, cookie.expect("a cookie").split(';').next().unwrap().to_owned()));
    }
    let given: BTreeMap<usize, ()> = cookies.iter().map(|(at, _)| (*at, ())).collect();
    assert_eq!(given.len(), 2, "both servers were given");
    let check = |nodes: &[Node]| {
        for (node, (at, cookie)) in nodes.iter().flat_map(|node| cookies.iter().map(move |cookie| (node, cookie))) {
            let before = servers[*at].seen().len();
            let (_, text) = request(node, "-tls1_3", ("-sess_out", &nowhere), &format!("Cookie: {cookie}\r\n"));
            assert_eq!(servers[*at].seen().len(), before + 1, "{}", node.name);
            assert!(!text.to_ascii_lowercase().contains("set-cookie"), "{}: {text}", node.name);
        }
    };
    check(&nodes);
    nodes.into_iter().for_each(Node::end);
    check(&site.nodes(&names));
}
