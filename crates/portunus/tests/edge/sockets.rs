//! Listeners and upstreams beyond IPv4: Unix sockets and IPv6.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::upgrade::{self, Upgradable};
use super::{get, yaml};
use crate::harness::{Gate, Upstream, connect_unix, read_response, vacant, wait_until};

#[test]
fn a_unix_socket_is_listened_on_and_goes_with_the_gate() {
    let upstream = Upstream::ok();
    let config = yaml(&upstream, "", "").replace("\"127.0.0.1:0\"", "[\"127.0.0.1:0\", \"unix:edge.sock\"]");
    let gate = Gate::start(&config);
    let socket = gate.dir.path().join("edge.sock");
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket());
    let mut stream = connect_unix(&socket);
    for _ in 0..3 {
        stream.write_all(b"GET /u HTTP/1.1\r\nHost: x.example\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n").unwrap();
        let (head, body) = read_response(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200 ") && body == b"ok", "{head}");
    }
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    let seen = upstream.seen();
    assert_eq!(seen[0].line(), "GET /u HTTP/1.1");
    assert!(
        seen[0].fields("x-forwarded-for").is_empty(),
        "the peer has no address, and the client's word does not count"
    );
    assert_eq!(seen[3].fields("x-forwarded-for"), ["127.0.0.1"]);
    let line = gate.log(1).remove(0);
    assert_eq!((&line["listener"], line.get("client_address")), (&"web".into(), None), "{line}");
    drop(stream);
    assert_eq!(gate.stop(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn the_file_of_a_removed_listener_goes_unless_it_is_anothers() {
    let upstream = Upstream::ok();
    let without = yaml(&upstream, "", "");
    let with = without.replace("\"127.0.0.1:0\"", "[\"127.0.0.1:0\", \"unix:a.sock\", \"unix:b.sock\"]");
    let gate = Gate::start(&with);
    let (ours, taken) = (gate.dir.path().join("a.sock"), gate.dir.path().join("b.sock"));
    std::fs::remove_file(&taken).unwrap();
    let other = UnixListener::bind(&taken).unwrap();
    gate.rewrite(&without);
    gate.signal("HUP");
    wait_until("the file to go", || !ours.exists());
    gate.wait_for("reloaded");
    assert!(UnixStream::connect(&taken).is_ok(), "the socket of another program stays");
    drop(other);
    let (code, _dir) = gate.stop_and_keep();
    assert_eq!(code, Some(0));
    assert!(taken.exists(), "nor is it removed at the end");
}

#[test]
fn an_upstream_is_reached_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("app.sock")).unwrap();
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.extend(lines.by_ref().take_while(|line| !line.is_empty()));
            (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix").unwrap();
        }
        seen
    });
    let nobody = Upstream::ok();
    let config = yaml(&nobody, "", "").replace(&nobody.address.to_string(), "unix:app.sock");
    let gate = Gate::start_in(dir, &config);
    for _ in 0..2 {
        let response = get(gate.address("web"));
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("unix"), "{response}");
    }
    let seen = server.join().unwrap();
    assert_eq!(seen.iter().filter(|line| *line == "GET / HTTP/1.1").count(), 2, "on one connection: {seen:?}");
    assert!(seen.contains(&"Host: a.example".to_owned()), "{seen:?}");
}

#[test]
fn ipv6_is_listened_on() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&yaml(&upstream, "  - { name: six, bind: \"[::1]:0\" }", "forwarding: { forwarded: true }"));
    let address = gate.address("six");
    assert!(address.is_ipv6());
    assert!(get(address).starts_with("HTTP/1.1 200 "));
    let seen = upstream.seen();
    assert_eq!(seen[0].fields("x-forwarded-for"), ["::1"]);
    assert!(seen[0].fields("forwarded")[0].contains("for=\"[::1]\""), "{}", seen[0].head);
    assert_eq!(gate.log(1)[0]["client_address"], "::1");
}

#[test]
fn each_listener_that_asks_for_a_port_gets_its_own_and_keeps_it() {
    let listener = |name: &str, bind: &str| {
        let route = format!("  - {{ listeners: [{name}], respond: {{ status: 200, body: {name} }} }}\n");
        (format!("  - {{ name: {name}, bind: {bind} }}\n"), route)
    };
    let config = |listeners: &[(String, String)]| {
        let (heads, routes): (Vec<_>, Vec<_>) = listeners.iter().map(|(head, route)| (&**head, &**route)).unzip();
        format!("workers: 2\nlisteners:\n{}routes:\n{}", heads.concat(), routes.concat())
    };
    // On an address that no other test has, so that nobody else is given a port that was closed.
    let any = format!("\"{}:0\"", vacant().ip());
    let [one, two, three] = ["one", "two", "three"].map(|name| listener(name, &any));
    let gate = Gate::start(&config(&[one.clone(), two.clone()]));
    let respond = |name: &str| get(gate.address(name));
    assert_ne!(gate.address("one"), gate.address("two"));
    assert!(respond("one").ends_with("one") && respond("two").ends_with("two"));
    // Another one that asks changes nothing for those that have theirs; one that goes takes its own port with it.
    gate.rewrite(&config(&[three, two]));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    assert!(respond("two").ends_with("two"));
    wait_until("the port to close", || std::net::TcpStream::connect(gate.address("one")).is_err());
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A gate with a Unix socket of this mode beside its address.
fn with_mode(upstream: &Upstream, mode: &str) -> String {
    let both = format!("[\"127.0.0.1:0\", \"unix:edge.sock\"], unix_socket: {{ mode: {mode} }}");
    yaml(upstream, "", "").replace("\"127.0.0.1:0\"", &both)
}

fn answers(socket: &Path) {
    let mut stream = connect_unix(socket);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 200 "));
}

/// What keeps a socket keeps its mode: a reload and an upgrade say so.
#[test]
fn a_unix_socket_is_made_with_its_mode() {
    let upstream = Upstream::ok();
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &with_mode(&upstream, "0606"), 2);
    let socket = site.dir().join("edge.sock");
    assert_eq!(mode(&socket), 0o606);
    answers(&socket);
    upgrade::write(site.dir(), &with_mode(&upstream, "\"600\""));
    site.gate.signal("HUP");
    site.gate.wait_for("keeps its mode until a restart");
    assert_eq!(mode(&socket), 0o606);
    site.upgrade();
    site.gate.wait_for("keeps its mode 0606 until a restart, which makes it anew with 0600");
    assert_eq!(mode(&socket), 0o606);
    answers(&socket);
    site.end();
}
