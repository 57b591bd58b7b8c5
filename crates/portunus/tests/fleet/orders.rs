//! What operators set over the configuration: that all nodes obey at once, through restarts and without etcd, and what nobody else can do to it.

use std::net::SocketAddr;
use std::time::Instant;

use fleet::orders::Orders;

use super::site::{Node, Site, wait_until};
use crate::harness::signing::{SECRET, token};
use crate::harness::{Upstream, ask_on};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A site with policies that deny, that are in maintenance and that demand tokens, and two upstream servers.
fn site(servers: [&Upstream; 2]) -> Site {
    let site = Site::new();
    let [one, two] = servers.map(|server| server.address);
    std::fs::write(site.path("site/secret"), SECRET).unwrap();
    let file = site.path("closed");
    let yaml = format!(
        "listeners: [{{ name: web, bind: \"${{WEB:-127.0.0.1:1}}\" }}]
admin: {{ bind: \"${{ADMIN:-127.0.0.1:2}}\" }}
tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}
policies:
  guard: {{ deny: [] }}
  other: {{ deny: [192.0.2.1] }}
  works: {{ maintenance: {{ file: {} }} }}
  token: {{ jwt: {{ verifier: id }} }}
upstreams: {{ app: {{ servers: [\"{one}\", \"{two}\"] }} }}
routes:
  - {{ name: open, path: /open, respond: {{ status: 200, body: open }} }}
  - {{ name: guarded, path: /guarded, policies: guard, respond: {{ status: 200, body: guarded }} }}
  - {{ name: other, path: /other, policies: other, respond: {{ status: 200, body: other }} }}
  - {{ name: shop, path: /shop, policies: works, respond: {{ status: 200, body: shop }} }}
  - {{ name: token, path: /token, policies: token, respond: {{ status: 200, body: token }} }}
  - {{ upstream: app }}
",
        file.display()
    );
    std::fs::write(site.path("site/portunus.yaml"), yaml).unwrap();
    site
}

fn ask(address: SocketAddr, path: &str, fields: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n");
    let (head, body) = ask_on(address, &request);
    (head[9..12].parse().unwrap(), format!("{head}{}", String::from_utf8_lossy(&body)))
}

fn status(node: &Node, path: &str) -> u16 {
    ask(node.web, path, "").0
}

/// Runs a command that must succeed, and waits until something holds of all nodes; says how long that took.
fn at_once(site: &Site, arguments: &[&str], nodes: &[Node], holds: impl Fn(&Node) -> bool) -> String {
    let since = Instant::now();
    let text = std::thread::scope(|scope| {
        let command = scope.spawn(|| site.portunus(&[&["fleet"], arguments].concat()));
        nodes.iter().for_each(|node| wait_until(&node.name, || holds(node)));
        println!("{}: {} nodes obeyed {:?} after the command began", arguments.join(" "), nodes.len(), since.elapsed());
        let (is_done, text) = command.join().unwrap();
        assert!(is_done, "{text}");
        text
    });
    println!("{}", text.trim_end());
    text
}

#[test]
fn all_nodes_deny_close_and_drain_at_once_and_take_it_back() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let nodes = site.nodes(&NAMES);
    site.wait_for_nodes(3);
    assert!(site.portunus(&["fleet", "set"]).1.contains("nothing is set"));
    let deny = ["set", "deny", "127.0.0.0/8", "--note", "too many"];
    let text = at_once(&site, &deny, &nodes, |node| status(node, "/guarded") == 403);
    assert!(text.contains("3 of 3 nodes obey"), "{text}");
    nodes.iter().for_each(|node| assert_eq!((status(node, "/open"), status(node, "/other")), (200, 403)));
    at_once(&site, &["set", "maintenance", "works"], &nodes, |node| status(node, "/shop") == 503);
    let drained = servers[0].address.to_string();
    at_once(&site, &["set", "drain", &drained], &nodes, |node| {
        let before = servers[0].seen().len();
        (0..8).for_each(|_| assert_eq!(status(node, "/"), 200));
        servers[0].seen().len() == before
    });
    let (is_done, text) = site.portunus(&["fleet", "set"]);
    let all = ["127.0.0.0/8", "too many", "works", drained.as_str()];
    assert!(is_done && all.iter().all(|what| text.contains(what)), "{text}");
    let (is_done, text) = site.portunus(&["fleet", "set", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(is_done && value["orders"].as_array().unwrap().len() == 3, "{text}");
    // What an operator of one node says, and what those of the fleet say, are two things.
    at_once(&site, &["unset", "deny", "127.0.0.0/8"], &nodes, |node| status(node, "/guarded") == 200);
    at_once(&site, &["unset", "maintenance", "works"], &nodes, |node| status(node, "/shop") == 200);
    at_once(&site, &["unset", "drain", &drained], &nodes, |node| {
        let before = servers[0].seen().len();
        (0..8).for_each(|_| assert_eq!(status(node, "/"), 200));
        servers[0].seen().len() > before
    });
    // In one policy alone; and what is none there.
    at_once(&site, &["set", "deny", "127.0.0.1", "--only", "guard"], &nodes, |node| status(node, "/guarded") == 403);
    nodes.iter().for_each(|node| assert_eq!(status(node, "/other"), 200));
    for (arguments, expected) in [
        (&["set", "deny", "127.0.0.1/8"][..], "has bits set beyond its prefix"),
        (&["set", "maintenance", "works", "--only", "x"], "holds for no other"),
        (&["unset", "deny", "127.0.0.1"], "this is not set"),
        (&["set", "maintenance", "nothing"], "there is no such policy with `maintenance`"),
        (&["set", "drain", "192.0.2.1:80"], "no upstream has such a server"),
    ] {
        let (is_done, text) = site.portunus(&[&["fleet"], arguments].concat());
        assert!(!is_done && text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn users_and_api_keys_are_denied_where_they_are_looked_for() {
    let site = Site::new();
    let file = |name: &str, text: &str| std::fs::write(site.path("site").join(name), text).unwrap();
    // Of the password `secret`, as `htpasswd -B` makes it.
    let hash = "$2y$05$pj3yNZ3HmjIozktUMpu1VO7M2D1C8kxwmTI6DOOb6WhBLqzMkptAK";
    file("users", &format!("anna:{hash}\nben:{hash}\n"));
    file("none", "");
    file(
        "api.yaml",
        "openapi: 3.1.0\ninfo: { title: a, version: \"1\" }\npaths: { /key: { get: { responses: { \"200\": { description: ok } } } } }\n",
    );
    file(
        "portunus.yaml",
        "listeners: [{ name: web, bind: \"${WEB:-127.0.0.1:1}\" }]
admin: { bind: \"${ADMIN:-127.0.0.1:2}\" }
policies:
  staff: { basic: { file: users } }
contracts: { api: { document: api.yaml, deny_tokens: { file: none, header: x-api-key } } }
routes:
  - { name: staff, path: /staff, policies: staff, respond: { status: 200, body: staff } }
  - { name: key, path: /key, contract: api, respond: { status: 200, body: key } }
",
    );
    site.pushed(&[]);
    let nodes = site.nodes(&NAMES);
    site.wait_for_nodes(3);
    // `anna:secret` and `ben:secret`.
    let [anna, ben] = ["YW5uYTpzZWNyZXQ=", "YmVuOnNlY3JldA=="].map(|user| format!("Authorization: Basic {user}\r\n"));
    let of = |node: &Node, path: &str, fields: &str| ask(node.web, path, fields).0;
    for node in &nodes {
        assert_eq!((of(node, "/staff", &anna), of(node, "/key", "X-Api-Key: k1\r\n")), (200, 200));
    }
    at_once(&site, &["set", "deny-token", "user:anna"], &nodes, |node| of(node, "/staff", &anna) == 403);
    at_once(&site, &["set", "deny-token", "k1"], &nodes, |node| of(node, "/key", "X-Api-Key: k1\r\n") == 403);
    for node in &nodes {
        assert_eq!((of(node, "/staff", &ben), of(node, "/key", "X-Api-Key: k2\r\n")), (200, 200));
        // `anna:wrong`: nobody learns who is denied without the password.
        assert_eq!(of(node, "/staff", "Authorization: Basic YW5uYTp3cm9uZw==\r\n"), 401);
    }
    let (_, text) = site.portunus(&["fleet", "set"]);
    assert!(!text.contains(" k1 ") && text.contains("sha256:"), "{text}");
    at_once(&site, &["unset", "deny-token", "user:anna"], &nodes, |node| of(node, "/staff", &anna) == 200);
    at_once(&site, &["unset", "deny-token", "k1"], &nodes, |node| of(node, "/key", "X-Api-Key: k1\r\n") == 200);
    // What nothing obeys is an error, and says what would.
    for (arguments, expected) in [
        (["set", "deny-token", "jti:7"], "there is no policy with `jwt` that would"),
        (["set", "deny-token", "jti:"], "write `jti:ID`"),
        (["set", "deny-token", "sha256:7"], "write `jti:ID`"),
        (["set", "deny-token", "user:"], "write `jti:ID`"),
    ] {
        let (is_done, text) = site.portunus(&[&["fleet"], &arguments[..]].concat());
        assert!(!is_done && text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn denied_tokens_are_denied_by_their_id_and_by_what_they_are() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b"]);
    site.wait_for_nodes(2);
    let (one, two) = (token("\"jti\":\"one\""), token("\"jti\":\"two\""));
    let shown = |node: &Node, token: &str| ask(node.web, "/token", &format!("Authorization: Bearer {token}\r\n")).0;
    nodes.iter().for_each(|node| assert_eq!((shown(node, &one), shown(node, &two)), (200, 200)));
    at_once(&site, &["set", "deny-token", "jti:one"], &nodes, |node| shown(node, &one) == 403);
    nodes.iter().for_each(|node| assert_eq!(shown(node, &two), 200));
    at_once(&site, &["set", "deny-token", &two], &nodes, |node| shown(node, &two) == 403);
    let (_, text) = site.portunus(&["fleet", "set"]);
    assert!(text.contains("sha256:") && !text.contains(&two), "{text}");
    at_once(&site, &["unset", "deny-token", &two, "jti:one"], &nodes, |node| {
        (shown(node, &one), shown(node, &two)) == (200, 200)
    });
}

#[test]
fn what_is_set_outlives_restarts_and_etcd_and_ends_by_itself() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let mut site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b"]);
    site.wait_for_nodes(2);
    at_once(&site, &["set", "deny", "127.0.0.1"], &nodes, |node| status(node, "/guarded") == 403);
    at_once(&site, &["set", "maintenance", "works", "--for", "20s"], &nodes, |node| status(node, "/shop") == 503);
    site.etcd.kill();
    nodes.into_iter().for_each(Node::end);
    let nodes = site.nodes(&["a", "b"]);
    nodes.iter().for_each(|node| assert_eq!(status(node, "/guarded"), 403, "from the first request on"));
    // It ends by the clock of each node, and a reload changes nothing.
    nodes.iter().for_each(|node| wait_until("the maintenance to end", || status(node, "/shop") == 200));
    nodes[0].running.signal("HUP");
    nodes[0].running.wait_for("\"generation\":2", 1);
    assert_eq!(status(&nodes[0], "/guarded"), 403);
    site.etcd.begin();
    at_once(&site, &["unset", "deny", "127.0.0.1"], &nodes, |node| status(node, "/guarded") == 200);
}

#[test]
fn nobody_without_the_key_takes_back_what_is_set() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b"]);
    site.wait_for_nodes(2);
    at_once(&site, &["set", "drain", &servers[0].address.to_string()], &nodes, |_| true);
    let (key, mut client) = ("/test/fleet/orders", site.client());
    let older = client.get(key).unwrap().unwrap().value;
    at_once(&site, &["set", "deny", "127.0.0.1"], &nodes, |node| status(node, "/guarded") == 403);
    let newest = site.store().kept::<Orders>().unwrap().unwrap().0;
    let is_back = || site.store().kept::<Orders>().unwrap().is_some_and(|(orders, _)| orders == newest);
    let denies = || nodes.iter().for_each(|node| assert_eq!(status(node, "/guarded"), 403, "{}", node.name));
    client.put(key, &older, 0).unwrap();
    wait_until("what is set to be there again", is_back);
    denies();
    client.delete(key).unwrap();
    wait_until("what is set to be there again", is_back);
    denies();
    client.put(key, b"garbage", 0).unwrap();
    nodes.iter().for_each(|node| node.wait_for("/readyz", "was not written for there"));
    denies();
    let (is_done, text) = site.portunus(&["fleet", "set", "deny", "192.0.2.1"]);
    assert!(!is_done && text.contains("was not written for there"), "{text}");
    client.delete(key).unwrap();
    wait_until("what is set to be there again", is_back);
    nodes.iter().for_each(|node| node.wait_for("/metrics", "portunus_fleet_problem 0"));
}

#[test]
fn a_node_is_drained_and_comes_back() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let site = site([&servers[0], &servers[1]]);
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b"]);
    site.wait_for_nodes(2);
    let ready = |node: &Node| ask(node.admin, "/readyz", "").0;
    let closes = |node: &Node| {
        let (head, _) = ask_on(node.web, "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        head.to_ascii_lowercase().contains("connection: close")
    };
    assert_eq!((ready(&nodes[0]), closes(&nodes[0])), (200, false));
    at_once(&site, &["drain", "a"], &nodes[..1], |node| ready(node) == 503 && closes(node));
    assert_eq!((ready(&nodes[1]), closes(&nodes[1])), (200, false));
    nodes[0].wait_for("/readyz", "set aside by an operator of the fleet");
    let (is_done, text) = site.portunus(&["fleet", "drain", "b"]);
    assert!(!is_done && text.contains("no other node would be left"), "{text}");
    let (is_done, text) = site.portunus(&["fleet", "drain", "z"]);
    assert!(!is_done && text.contains("no node is called z"), "{text}");
    let (is_done, text) = site.portunus(&["fleet", "nodes"]);
    assert!(is_done && text.contains("drained"), "{text}");
    // It follows what is pushed all the same, and stays drained when it starts anew.
    let file = site.path("site/portunus.yaml");
    let text = std::fs::read_to_string(&file).unwrap().replace("body: open", "body: opened");
    std::fs::write(&file, text).unwrap();
    site.pushed(&["--watch", "1"]);
    nodes.iter().for_each(|node| wait_until("the change", || ask(node.web, "/open", "").1.ends_with("opened")));
    let mut nodes = nodes;
    nodes.remove(0).end();
    nodes.insert(0, site.node("a", &[]));
    assert_eq!(ready(&nodes[0]), 503, "from the first question on");
    at_once(&site, &["drain", "a", "--undo"], &nodes[..1], |node| ready(node) == 200 && !closes(node));
    at_once(&site, &["drain", "a", "--for", "15s"], &nodes[..1], |node| ready(node) == 503);
    wait_until("the drain to end", || ready(&nodes[0]) == 200);
}
