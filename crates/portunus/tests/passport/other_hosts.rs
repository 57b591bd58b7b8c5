//! Applications on another host: the recipe of docs/client-address.md, "Other hosts", to the letter.

use std::path::{Path, PathBuf};

use super::site::{Site, run, tcp_echo, udp_echo};
use super::tcp::{TRUSTED, client, config};

/// The site with another host, the policy routing that the recipe wants, and the recipe's firewall rules in a file.
fn site() -> (Site, String, PathBuf) {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/client-address.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let recipe = docs.split("```nft\n").nth(1).unwrap().split("```").next().unwrap();
    let mut site = Site::new();
    let other = site.other_host();
    let file = site.dir.path().join("recipe.nft");
    std::fs::write(&file, recipe).unwrap();
    let (done, reported) = site.routing(&["setup", "--mark", "0x7c"]);
    assert!(done, "{reported}");
    (site, other, file)
}

/// Loads the recipe.
fn load(site: &Site, recipe: &Path) {
    run(&["ip", "netns", "exec", &site.edge, "nft", "-f", recipe.to_str().unwrap()]);
}

/// Whether `portunus routing check` finds all well, and what it says.
fn check(site: &Site, send_mark: &str) -> (bool, String) {
    site.routing(&["check", "--mark", "0x7c", "--to", "198.18.0.2:2525", "--send-mark", send_mark])
}

#[test]
fn over_tcp_it_sees_the_true_client() {
    let (mut site, other, recipe) = site();
    for address in ["198.18.0.2", "2001:db8:2::2"] {
        site.python(&other, &tcp_echo(address, 2525));
    }
    let upstream = "servers: [\"198.18.0.2:2525\", \"[2001:db8:2::2]:2525\"]\n    mark: 123\n    connect_timeout: 1s";
    let running = site.portunus_as_it_is(&config(TRUSTED, upstream)).listens("[::]:25");
    // Without the firewall's part the responses of the other host go on to the client itself, which knows of no such connection.
    running.wait_for("self-test");
    let rejecting = "assert rejected(passed((\"203.0.113.7\", 0)))";
    client(&site, rejecting);
    let (good, reported) = check(&site, "0x7b");
    assert!(!good && reported.contains("does not answer to foreign addresses"), "{reported}");
    load(&site, &recipe);
    let (good, reported) = check(&site, "0x7b");
    assert!(good && reported.contains("198.18.0.2:2525 answers to foreign addresses"), "{reported}");
    // Without its mark the recipe does not take hold of what goes out.
    assert!(!check(&site, "0").0);
    client(
        &site,
        r#"
for lb, host in [(("198.51.100.10", 0), "203.0.113.7"), (("2001:db8:1::10", 0), "2001:db8::7")]:
    for port in [4711, 4712]:
        s = passed((host, port), lb)
        assert line(s) == ("%s %d\n" % (host, port)).encode()
        s.sendall(b"through")
        assert s.recv(10) == b"through"
        s.shutdown(socket.SHUT_WR)
        assert s.recv(10) == b""
"#,
    );
    let lines = running.log(5);
    let (rejected, carried): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["ended_by"] == "portunus");
    assert!(rejected.len() == 1 && rejected[0]["reason"] == "upstream_connect_timeout", "{lines:#?}");
    assert!(carried.iter().all(|line| line["ended_by"] == "client"), "{lines:#?}");
}

/// Also datagrams that are cut into fragments on the way, and empty ones.
#[test]
fn over_udp_it_sees_the_true_client() {
    let (mut site, other, recipe) = site();
    for address in ["198.18.0.2", "2001:db8:2::2"] {
        site.python(&other, &udp_echo(address, 5353));
    }
    let yaml = "workers: 2\nudp_listeners:\n- name: dns\n  bind: [\":53\"]\n  upstream: [\"198.18.0.2:5353\", \"[2001:db8:2::2]:5353\"]\n  \
                proxy_protocol: { mode: each, trust: [198.51.100.10, 2001:db8:1::10] }\n  transparent: true\n  mark: 123\n";
    let running = site.portunus_as_it_is(yaml).listens("[::]:53");
    let ask = |port: u16, check: &str| {
        site.client(&format!(
            r#"
for lb, edge, client in [(("198.51.100.10", 0), ("198.51.100.1", 53), ("203.0.113.7", {port})),
                         (("2001:db8:1::10", 0), ("2001:db8:1::1", 53), ("2001:db8::7", {port}))]:
    s = udp(lb)
    for payload in [b"one", b"x" * 1400, b"y" * 5000, b""]:
        s.sendto(v2(client, edge) + payload, edge)
        {check}
"#
        ))
    };
    // Without the firewall's part the responses of the other host go on to the client itself.
    ask(4711, "assert silent(s)");
    load(&site, &recipe);
    ask(4712, "assert s.recv(65536) == ((\"%s %d \" % client).encode() + payload if payload else b\"\")");
    running.signal("TERM");
    let lines = running.log(4);
    let answered = lines.iter().filter(|line| line["client_port"] == 4712);
    assert!(answered.clone().all(|line| line["datagrams_sent"] == 4 && line["port_kept"] == true), "{lines:#?}");
    assert_eq!((answered.count(), lines.len()), (2, 4), "{lines:#?}");
}
