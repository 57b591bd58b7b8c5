//! TCP keep-alive: the kernel asks peers that are silent whether they are there. What it has been set to do stands in `/proc/net/tcp`.

use std::io::Write;
use std::net::SocketAddr;

use super::site::{folder, next, read_exactly, tcp_upstream, yaml};
use crate::harness::{Gate, Upstream, connect, wait_until};

/// Whether the kernel keeps a timer of this kind for the socket with these ends: 2 is that of keep-alive, or of an acknowledgement that waits.
/// Nothing where the table shows no such socket, as it may by chance: it changes while it is read.
fn has_timer(local: SocketAddr, remote: SocketAddr) -> Option<bool> {
    let shown = |address: SocketAddr| {
        let SocketAddr::V4(address) = address else { panic!("{address}") };
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = (shown(local), shown(remote));
    let found = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut found = found.filter(|words| words.get(1) == Some(&&*ends.0) && words.get(2) == Some(&&*ends.1));
    found.next().map(|words| words[5].starts_with("02:"))
}

fn settles(what: &str, local: SocketAddr, remote: SocketAddr, expected: bool) {
    wait_until(what, || has_timer(local, remote) == Some(expected));
}

#[test]
fn both_sides_of_a_tunnel_are_asked_whether_they_are_there() {
    let (address, connections) = tcp_upstream();
    for (limits, listener, upstream, expected) in [
        ("", "", "", (true, true)),
        ("limits: { keepalive: 0s }", "", "", (false, true)),
        ("limits: { keepalive: 0s }", ", limits: { keepalive: 5m }", ", keepalive: 0s", (true, false)),
        ("", ", limits: { keepalive: 0s }", ", keepalive: 2h", (false, true)),
    ] {
        let listeners = format!(
            "  - {{ name: plain, bind: \"127.0.0.1:0\"{listener}, tunnel: {{ upstream: u }} }}
  - {{ name: tls, bind: \"127.0.0.1:0\"{listener}, tls: {{ keystore: main }}, tunnel: {{ upstream: u }} }}"
        );
        let upstreams = format!("  u: {{ servers: [\"{address}\"], protocol: tcp{upstream} }}");
        let gate = Gate::start_in(folder(), &yaml(&listeners, &upstreams, limits));
        let mut near = connect(gate.address("plain"));
        near.write_all(b"x").unwrap();
        let mut far = next(&connections);
        read_exactly(&mut far, 1);
        let (client, server) = (near.local_addr().unwrap(), far.peer_addr().unwrap());
        settles("the client's side", gate.address("plain"), client, expected.0);
        settles("the server's side", server, address, expected.1);
    }
}

#[test]
fn connections_of_http_are_kept_alive_on_both_sides() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&format!(
        "workers: 1
listeners: [ {{ name: web, bind: \"127.0.0.1:0\" }} ]
upstreams: {{ u: {{ servers: [\"{}\"] }} }}
routes: [ {{ upstream: u }} ]
",
        upstream.address
    ));
    let mut near = connect(gate.address("web"));
    near.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    read_exactly(&mut near, 12);
    settles("the client's side", gate.address("web"), near.local_addr().unwrap(), true);
    // The idle connection to the server waits for the next request.
    let table = || std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{:04X}", upstream.address.port());
    wait_until("the server's side", || {
        table().lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words[2] == remote && words[3] == "01" && words[5].starts_with("02:")
        })
    });
}

#[test]
fn a_reload_changes_it_for_new_connections() {
    let (address, connections) = tcp_upstream();
    let with = |limits: &str| {
        let listeners = "  - { name: t, bind: \"127.0.0.1:0\", tunnel: { upstream: u } }";
        yaml(listeners, &format!("  u: {{ servers: [\"{address}\"], protocol: tcp }}"), limits)
    };
    let gate = Gate::start_in(folder(), &with(""));
    let open = || {
        let near = connect(gate.address("t"));
        let far = next(&connections);
        (near, far)
    };
    let old = open();
    gate.rewrite(&with("limits: { keepalive: 0s }"));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    let new = open();
    settles("the old one", gate.address("t"), old.0.local_addr().unwrap(), true);
    settles("the new one", gate.address("t"), new.0.local_addr().unwrap(), false);
}
