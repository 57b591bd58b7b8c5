//! TCP onward from the client's own address: whom the application sees, which sources are rejected, and what happens when pairs collide.

use super::site::{Running, Site, find, run, tcp_echo, within};
use crate::harness::wait_until;

/// A listener at 198.51.100.1:25 and [2001:db8:1::1]:25 in front of applications on loopback.
pub fn config(listener: &str, upstream: &str) -> String {
    format!(
        "workers: 2\nadmin: {{ bind: \"127.0.0.1:9901\" }}\nlisteners:\n- name: mail\n  bind: [\":25\"]\n  {listener}\n  \
         tunnel: {{ upstream: app }}\nupstreams:\n  app:\n    {upstream}\n    protocol: tcp\n    transparent: true\n"
    )
}

pub const TRUSTED: &str = "proxy_protocol: { trust: [198.51.100.10, \"2001:db8:1::10\"], header_timeout: 1m }";
const BOTH: &str = "servers: [\"127.0.0.1:2525\", \"[::1]:2525\"]";

fn site(listener: &str, upstream: &str) -> (Site, Running) {
    let mut site = Site::new();
    let edge = site.edge.clone();
    for address in ["127.0.0.1", "::1"] {
        site.python(&edge, &tcp_echo(address, 2525));
    }
    let running = site.portunus(&config(listener, upstream)).listens("[::]:25").listens("127.0.0.1:9901");
    (site, running)
}

/// What client programs of this file begin with: a connection with a header, and the line that the application greets with.
const CLIENT: &str = r#"
edge, edge6 = ("198.51.100.1", 25), ("2001:db8:1::1", 25)
def passed(client, lb=("198.51.100.10", 0), to=None, head=None):
    six = ":" in client[0]
    s = tcp(edge6 if ":" in lb[0] else edge, lb)
    s.sendall(head or v2(client, to or (("2001:db8:1::1", 25) if six else edge), socket.SOCK_STREAM))
    return s
def line(s):
    out = b""
    while not out.endswith(b"\n"):
        more = s.recv(1)
        if not more:
            return out
        out += more
    return out
def rejected(s):
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True
"#;

pub fn client(site: &Site, program: &str) -> String {
    site.client(&format!("{CLIENT}\n{program}"))
}

#[test]
fn an_unmodified_server_sees_the_true_client() {
    let (site, running) = site(TRUSTED, BOTH);
    client(
        &site,
        r#"
for lb, host in [(("198.51.100.10", 0), "203.0.113.7"), (("2001:db8:1::10", 0), "2001:db8::7"), (("198.51.100.10", 0), "2001:db8::8"),
                 (("2001:db8:1::10", 0), "203.0.113.8")]:
    s = passed((host, 4711), lb)
    assert line(s) == ("%s 4711\n" % host).encode()
    s.sendall(b"x" * 300000)
    s.shutdown(socket.SHUT_WR)
    got = b""
    while True:
        more = s.recv(65536)
        if not more: break
        got += more
    assert got == b"x" * 300000, len(got)
# Version 1, byte by byte.
s = tcp(edge)
for byte in b"PROXY TCP4 203.0.113.7 198.51.100.1 4712 25\r\n":
    s.sendall(bytes([byte]))
assert line(s) == b"203.0.113.7 4712\n"
s.sendall(b"after")
assert s.recv(10) == b"after"
# A mapped address is IPv4.
s = passed(("::ffff:203.0.113.8", 4713))
assert line(s) == b"203.0.113.8 4713\n"
"#,
    );
    let reported = running.wait_for("self-test: 127.0.0.1:2525 answers to foreign addresses");
    assert!(
        reported.contains("\"to\":\"127.0.0.1:2525\"") && reported.matches("\"target\":").count() == 1,
        "{reported}"
    );
    running.wait_for("self-test: [::1]:2525 answers to foreign addresses");
    // Workers write their lines in turns, so all are waited for.
    let log = running.log(6);
    assert!(log.iter().any(|line| line["client_address"] == "2001:db8::7"));
}

/// Row 23 of the attack matrix.
#[test]
fn sources_that_are_ours_or_nobodys_are_rejected() {
    let (site, running) = site(TRUSTED, BOTH);
    client(
        &site,
        r#"
for host in ["127.0.0.1", "198.51.100.1", "198.51.100.255", "0.0.0.0", "224.0.0.1", "255.255.255.255", "169.254.1.1",
             "::1", "2001:db8:1::1", "::", "ff02::1", "fe80::1", "::ffff:127.0.0.1"]:
    assert rejected(passed((host, 9))), host
assert line(passed(("203.0.113.7", 9))) == b"203.0.113.7 9\n"
"#,
    );
    let log = running.log(13);
    for (reason, count) in [("source_is_own_address", 3), ("source_is_loopback", 3), ("source_is_link_local", 2)] {
        assert_eq!(log.iter().filter(|line| line["reason"] == reason).count(), count, "{reason}: {log:#?}");
    }
}

/// The kernel tells of changes: nothing is asked for each connection.
#[test]
fn an_address_is_ours_from_when_it_comes_until_it_goes() {
    let (site, _running) = site(TRUSTED, BOTH);
    let others = "assert line(passed(('203.0.113.99', 0))).startswith(b'203.0.113.99 ')";
    let address = |action: &str| run(&["ip", "-n", &site.edge, "address", action, "203.0.113.99/32", "dev", "lo"]);
    client(&site, others);
    address("add");
    // Several times, so that each worker is asked.
    client(&site, "for _ in range(20):\n    assert rejected(passed(('203.0.113.99', 0)))");
    address("del");
    client(&site, &format!("for _ in range(20):\n    {others}"));
}

/// A loop through a rule that leads our own packets back to us ends at its first turn.
#[test]
fn a_loop_is_rejected_at_its_first_turn() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    site.routing(&["setup", "--from", "10.9.9.9/32"]);
    let yaml = config("proxy_protocol: { trust: 0.0.0.0/0, header: optional }", "servers: [\"10.9.9.9:25\"]");
    let running = site.portunus(&yaml).listens("[::]:25");
    // Known before, the address would be a problem of the file.
    run(&["ip", "-n", &edge, "address", "add", "10.9.9.9/32", "dev", "lo"]);
    // Our own connection to 10.9.9.9:25 would arrive at our own listener.
    client(&site, "s = passed(('203.0.113.7', 4711))\ns.sendall(b'x')\nassert rejected(s)");
    wait_until("the loop to be reported", || running.log(0).iter().any(|line| line["reason"] == "forwarding_loop"));
    // The self-test, the client, and one turn.
    let log = running.log(0);
    assert!(log.len() <= 3, "one turn, not {}: {log:#?}", log.len());
}

/// What is certain is a problem of the file: a target at one of this machine's own addresses. A name may mean another address when the proxy runs,
/// and is left to the loop guard.
#[test]
fn a_loop_through_this_machine_is_a_problem() {
    let site = Site::new();
    let file = site.dir.path().join("portunus.yaml");
    for (server, is_loop) in
        [("198.51.100.1:25", true), ("localhost:25", true), ("edge.test:25", false), ("203.0.113.9:25", false)]
    {
        std::fs::write(&file, config("", &format!("servers: [\"{server}\"]"))).unwrap();
        let check = [env!("CARGO_BIN_EXE_portunus"), "check", file.to_str().unwrap()];
        let output = within(&site.edge, &check).output().unwrap();
        let reported = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(reported.contains("`mail` leads to `mail`"), is_loop, "{server}: {reported}");
        assert_eq!(output.status.success(), !is_loop, "{server}: {reported}");
    }
}

/// What the file cannot show: two listeners that pass the same name to each other.
#[test]
fn a_loop_of_listeners_ends() {
    let mut site = Site::new();
    let passing = |name: &str, port: u16, upstream: &str| {
        format!(
            "- {{ name: {name}, bind: \":{port}\", tunnel: {{ rules: [{{ server_name: a.test, upstream: {upstream}, passthrough: true }}] }} }}\n"
        )
    };
    let yaml = format!(
        "workers: 2\nlisteners:\n{}{}upstreams:\n  there: {{ servers: [\"localhost:442\"], protocol: tcp }}\n  back: {{ servers: [\"127.0.0.1:441\"], protocol: tcp }}",
        passing("one", 441, "there"),
        passing("two", 442, "back")
    );
    let running = site.portunus(&yaml).listens("[::]:441").listens("[::]:442");
    client(
        &site,
        r#"
import ssl
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
hello = ssl.create_default_context().wrap_bio(into, out, server_hostname="a.test")
try:
    hello.do_handshake()
except ssl.SSLWantReadError:
    pass
s = tcp(("198.51.100.1", 441), ("203.0.113.7", 0))
s.sendall(out.read())
assert rejected(s)
"#,
    );
    let log = running.log(10);
    let count = |key: &str, value: &str| log.iter().filter(|line| line[key] == value).count();
    // Eight listeners are passed, one rejects, and one got nothing of it but the connection.
    assert_eq!((count("reason", "forwarding_loop"), count("kind", "tunnel"), log.len()), (1, 9, 10), "{log:#?}");
}

/// Bug 9 of go-mmproxy: what counts is the family of the client, not that of its balancer. A missing family is reported once.
#[test]
fn a_family_without_a_target_is_rejected_and_reported_once() {
    let (site, running) = site(TRUSTED, "servers: [\"127.0.0.1:2525\"]");
    client(
        &site,
        "for _ in range(5):\n    assert rejected(passed(('2001:db8::7', 9)))\nassert line(passed(('203.0.113.7', 9))) == b'203.0.113.7 9\\n'",
    );
    // The sixth line is that of the connection that passed; the lines of two workers come in any order.
    let log = running.log(6);
    assert_eq!(log.iter().filter(|line| line["reason"] == "no_target_of_family").count(), 5, "{log:#?}");
    running.wait_for("no_target_of_family");
    let reported =
        running.diagnostics.lock().unwrap().iter().filter(|line| line.contains("no_target_of_family")).count();
    assert!((1..=2).contains(&reported), "told {reported} times by two workers");
}

/// Bug 10: the same client address and port towards one target, twice at once.
#[test]
fn the_same_pair_twice_gets_another_port() {
    let (site, running) = site(TRUSTED, BOTH);
    client(
        &site,
        r#"
first = passed(("203.0.113.7", 4711))
assert line(first) == b"203.0.113.7 4711\n"
second = passed(("203.0.113.7", 4711))
host, port = line(second).split()
assert host == b"203.0.113.7" and port != b"4711", (host, port)
for s, payload in [(first, b"one"), (second, b"two")]:
    s.sendall(payload)
    assert s.recv(10) == payload
# Any port.
assert line(passed(("203.0.113.7", 0))).startswith(b"203.0.113.7 ")
"#,
    );
    let kept = running.log(3).iter().filter_map(|line| line["port_kept"].as_bool()).filter(|kept| *kept).count();
    assert_eq!(kept, 2, "the second of the pair lost its port: {:#?}", running.log(3));
}

/// With the capabilities of the unit and no others: a port below 1024 is not ours to bind, but the address is.
#[test]
fn one_capability_is_enough() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    site.python(&edge, &tcp_echo("127.0.0.1", 2525));
    assert!(site.routing(&["setup"]).0);
    let file = site.dir.path().join("portunus.yaml");
    let yaml = config(TRUSTED, "servers: [\"127.0.0.1:2525\"]").replace("\":25\"", "\":2500\"");
    std::fs::write(&file, format!("{yaml}\nlog: {{ access: {{ output: access.log }} }}\n")).unwrap();
    let words = ["setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all", env!("CARGO_BIN_EXE_portunus"), "run"];
    let mut command = within(&edge, &[&words[..], &[file.to_str().unwrap()]].concat());
    let running = site.started(command.current_dir(site.dir.path())).listens("[::]:2500");
    client(
        &site,
        r#"
edge = ("198.51.100.1", 2500)
assert line(passed(("203.0.113.7", 4711))) == b"203.0.113.7 4711\n"
host, port = line(passed(("203.0.113.7", 53))).split()
assert host == b"203.0.113.7" and port != b"53", (host, port)
"#,
    );
    assert_eq!(running.log(2).len(), 2);
}

/// Bug 1 and 2: no header ends the program, whatever it says.
#[test]
fn hostile_headers_end_nothing() {
    let (site, _running) = site(TRUSTED, BOTH);
    client(
        &site,
        r#"
heads = [b"PROXY TCP4 203.0.113.7 198.51.100.1 65536 25\r\n", b"PROXY TCP4 203.0.113.7 198.51.100.1 -1 25\r\n",
         b"PROXY TCP4 203.0.113.7 198.51.100.1 1 99999999999999999999\r\n", b"PROXY TCP4 2001:db8::7 198.51.100.1 1 2\r\n"]
for length in range(12):
    heads.append(SIGNATURE + struct.pack("!BBH", 0x21, 0x11, length) + b"\x7f\0\0\1" * 4)
    heads.append(SIGNATURE + struct.pack("!BBH", 0x21, 0x21, length) + b"p" * 64)
for head in heads:
    s = tcp(edge)
    s.sendall(head)
    s.shutdown(socket.SHUT_WR)
    assert rejected(s), head
assert line(passed(("203.0.113.7", 4711))) == b"203.0.113.7 4711\n"
"#,
    );
}

#[test]
fn a_health_check_of_the_balancer_goes_under_our_own_address() {
    let (site, _running) = site(TRUSTED, BOTH);
    client(
        &site,
        r#"
for head in [SIGNATURE + b"\x20\0\0\0", SIGNATURE + b"\x21\0\0\0", b"PROXY UNKNOWN\r\n"]:
    assert line(passed(("203.0.113.7", 1), head=head)).startswith(b"127.0.0.1 ")
"#,
    );
}

#[test]
fn destinations_of_the_header_stand_on_a_list() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    for port in [2525, 2526] {
        site.python(&edge, &tcp_echo("127.0.0.1", port));
    }
    let yaml = config(TRUSTED, "original_dst: [{ network: 127.0.0.0/8, ports: 2525 }, { network: 198.51.100.1 }]");
    let running = site.portunus(&yaml).listens("[::]:25");
    client(
        &site,
        r#"
assert line(passed(("203.0.113.7", 9), to=("127.0.0.1", 2525))) == b"203.0.113.7 9\n"
for to in [("127.0.0.1", 2526), ("10.0.0.1", 2525), edge]:
    assert rejected(passed(("203.0.113.7", 9), to=to)), to
"#,
    );
    let log = running.log(4);
    // What was reached, and what was rejected, is reported.
    let served = log.iter().find(|line| line["reason"].is_null()).unwrap();
    assert_eq!((&served["upstream"]["server"], &served["port_kept"]), (&"127.0.0.1:2525".into(), &true.into()));
    let wanted: Vec<_> = log.iter().map(|line| line["proxy_protocol"]["destination"].as_str().unwrap()).collect();
    assert!(["127.0.0.1:2526", "10.0.0.1:2525"].iter().all(|one| wanted.contains(one)), "{log:#?}");
    assert_eq!(log.iter().filter(|line| line["reason"] == "destination_not_allowed").count(), 2, "{log:#?}");
    assert_eq!(log.iter().filter(|line| line["reason"] == "forwarding_loop").count(), 1, "{log:#?}");
}

#[test]
fn the_self_test_says_what_is_missing() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    site.python(&edge, &tcp_echo("127.0.0.1", 2525));
    let yaml = config(TRUSTED, "servers: [\"127.0.0.1:2525\"]");
    site.portunus_as_it_is(&yaml).wait_for("the policy routing is missing; run `portunus routing setup`");
    site.end_last();
    let (good, reported) = site.routing(&["check", "--to", "127.0.0.1:2525"]);
    assert!(
        !good && reported.contains("missing answers of 127.0.0.1:2525 to clients do not come back here"),
        "{reported}"
    );
    site.routing(&["setup"]);
    let (good, reported) = site.routing(&["check", "--to", "127.0.0.1:2525", "--to", "127.0.0.1:1"]);
    assert!(good && reported.contains("127.0.0.1:2525 answers to foreign addresses"), "{reported}");
    // Without the capability.
    let file = site.dir.path().join("portunus.yaml");
    let words = [
        "setpriv",
        "--bounding-set=-net_admin,-net_raw",
        "--inh-caps=-net_admin,-net_raw",
        env!("CARGO_BIN_EXE_portunus"),
        "run",
    ];
    let mut command = within(&edge, &[&words[..], &[file.to_str().unwrap()]].concat());
    let unprivileged = site.started(command.current_dir(site.dir.path()));
    unprivileged.wait_for("lacks CAP_NET_ADMIN");
}

/// The true client through a balancer that is not of our making.
#[test]
fn haproxy_in_front_passes_the_true_client_on() {
    let (mut site, _running) = site(TRUSTED, BOTH);
    let file = site.dir.path().join("haproxy.cfg");
    std::fs::write(
        &file,
        "global\n  maxconn 100\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n\
         frontend f4\n  bind 198.51.100.10:2500\n  default_backend b\nfrontend f6\n  bind [2001:db8:1::10]:2500\n  default_backend b\n\
         backend b\n  server s 198.51.100.1:25 send-proxy-v2\n",
    )
    .unwrap();
    let haproxy = within(&site.client, &["haproxy", "-db", "-f", file.to_str().unwrap()]).spawn().unwrap();
    site.keep(haproxy);
    let program = r#"
for source, to in [("203.0.113.7", ("198.51.100.10", 2500)), ("2001:db8::7", ("2001:db8:1::10", 2500))]:
    for attempt in range(1200):
        try:
            s = tcp(to, (source, 0))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    assert line(s) == ("%s %d\n" % s.getsockname()[:2]).encode()
    s.sendall(b"through")
    assert s.recv(10) == b"through"
"#;
    client(&site, program);
}

/// Another program that connects from the client's address, at port 2501, and at 2502 what its import does instead: the server sees the same clients.
fn beside_its_import(program: &str, before: &[&str], text: impl Fn(u16) -> String) {
    let mut site = Site::new();
    let edge = site.edge.clone();
    ["127.0.0.1", "::1"].iter().for_each(|address| _ = site.python(&edge, &tcp_echo(address, 2525)));
    let [theirs, ours] = [2501, 2502].map(|port| {
        let file = site.dir.path().join(format!("{port}.conf"));
        std::fs::write(&file, text(port).replace("@dir@", site.dir.path().to_str().unwrap())).unwrap();
        file.to_str().unwrap().to_owned()
    });
    assert!(site.routing(&["setup"]).0);
    let words = [&[program], before, &[theirs.as_str()]].concat();
    let peer = within(&site.edge, &words).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").spawn().unwrap();
    site.keep(peer);
    let imported = run(&[env!("CARGO_BIN_EXE_portunus"), "import", program, &ours]);
    assert!(imported.contains("transparent: true"), "{imported}");
    let running = site.portunus_as_it_is(&imported).listens("198.51.100.1:2502").listens("[2001:db8:1::1]:2502");
    client(
        &site,
        r#"
for port in (2501, 2502):
    for source, to in [("203.0.113.7", ("198.51.100.1", port)), ("2001:db8::7", ("2001:db8:1::1", port))]:
        for attempt in range(600):
            try:
                s = tcp(to, (source, 0))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        seen = line(s).decode().split()
        assert seen[0] == source, (port, seen)
        # Over IPv6 the other one was asked for the address alone; ours keeps the client's port, unless that is taken.
        assert port == 2501 and ":" in source or int(seen[1]) == s.getsockname()[1], (port, seen)
        s.sendall(b"through")
        assert s.recv(10) == b"through"
"#,
    );
    running.log(2);
}

#[test]
fn haproxys_usesrc_and_its_import_show_the_same_clients() {
    beside_its_import("haproxy", &["-db", "-f"], |port| {
        format!(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\nfrontend f4\n  bind 198.51.100.1:{port}\n  \
             default_backend b4\nbackend b4\n  source 0.0.0.0 usesrc client\n  server s 127.0.0.1:2525\n\
             frontend f6\n  bind [2001:db8:1::1]:{port}\n  default_backend b6\nbackend b6\n  server s [::1]:2525 source 0.0.0.0 usesrc clientip\n"
        )
    });
}

#[test]
fn nginxs_proxy_bind_and_its_import_show_the_same_clients() {
    beside_its_import("nginx", &["-c"], |port| {
        format!(
            "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\ndaemon off; master_process off; pid @dir@/pid; error_log stderr;\nevents {{}}\nstream {{\n\
             server {{ listen 198.51.100.1:{port}; proxy_bind $remote_addr:$remote_port transparent; proxy_pass 127.0.0.1:2525; }}\n\
             server {{ listen [2001:db8:1::1]:{port}; proxy_bind $remote_addr transparent; proxy_pass [::1]:2525; }}\n}}\n"
        )
    });
}

/// Bug 5: running out of descriptors neither ends a listener nor the process.
#[test]
fn a_shortage_of_descriptors_passes() {
    let (site, running) = site(TRUSTED, BOTH);
    let limit = |count: &str| run(&["prlimit", "--pid", &running.pid.to_string(), &format!("--nofile={count}:")]);
    let open = std::fs::read_dir(format!("/proc/{}/fd", running.pid)).unwrap().count();
    limit(&(open + 2).to_string());
    client(
        &site,
        "held = []\nfor number in range(20):\n    s = tcp(edge)\n    s.settimeout(0.05)\n    held.append(s)\ntime.sleep(0.3)\n",
    );
    limit("4096");
    let served = "for _ in range(100):\n    try:\n        s = passed(('203.0.113.7', 0))\n        if line(s).startswith(b'203.0.113.7 '):\n            break\n    \
                  except OSError:\n        pass\n    time.sleep(0.05)\nelse:\n    raise SystemExit('never served again')";
    client(&site, served);
}

#[test]
fn the_front_door_does_what_go_mmproxy_does() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    for address in ["127.0.0.1", "::1"] {
        site.python(&edge, &tcp_echo(address, 2525));
    }
    site.routing(&["setup"]);
    let list = site.dir.path().join("subnets");
    std::fs::write(&list, "# balancers\n198.51.100.10/32\n\n").unwrap();
    let list = list.display().to_string();
    let arguments =
        ["-l", "0.0.0.0:25", "--4=127.0.0.1:2525", "-6", "[::1]:2525", "-v", "2", "-allowed-subnets", &list];
    let running = site.program(&[&["as", "go-mmproxy"], &arguments[..]].concat());
    find(&running.output, "\"msg\":\"listening\"");
    find(&running.output, "\"subnet\":\"198.51.100.10/32\"");
    client(
        &site,
        r#"
assert line(passed(("203.0.113.7", 4711))) == b"203.0.113.7 4711\n"
assert line(passed(("2001:db8::7", 4711))) == b"2001:db8::7 4711\n"
assert rejected(tcp(edge, ("203.0.113.8", 0)))
s = tcp(edge)
s.sendall(b"EHLO nobody.example\r\n")
assert rejected(s)
"#,
    );
    for wanted in [
        "\"msg\":\"new connection\",\"listenerNum\":0,\"protocol\":\"tcp\",\"remoteAddr\":\"198.51.100.10:",
        "\"clientAddr\":\"203.0.113.7:4711\",\"targetAddr\":\"127.0.0.1:2525\"",
        "\"clientAddr\":\"[2001:db8::7]:4711\",\"targetAddr\":\"[::1]:2525\"",
        "connection origin not in allowed subnets",
        "failed to parse PROXY header",
    ] {
        let found = find(&running.output, wanted);
        assert!(serde_json::from_str::<serde_json::Value>(&found).is_ok(), "{found}");
    }
    // A broken list keeps the old one active, and is reported.
    std::fs::write(&list, "198.51.100.10/32\nten\n").unwrap();
    running.signal("HUP");
    running.wait_for(":2: `ten` is not an address or network");
    client(&site, "assert line(passed((\"203.0.113.7\", 4712))) == b\"203.0.113.7 4712\\n\"");
    running.signal("TERM");
    wait_until("the end", || !std::path::Path::new(&format!("/proc/{}", running.pid)).exists() || site.has_ended());
}

/// What mmproxy does: an application that knows nothing of it sees the client of a header of version 1, and whoever is not on the list gets nothing.
#[test]
fn the_front_door_does_what_mmproxy_does() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    for address in ["127.0.0.1", "::1"] {
        site.python(&edge, &tcp_echo(address, 2525));
    }
    site.routing(&["setup"]);
    let list = site.dir.path().join("networks");
    std::fs::write(&list, "# balancers\n198.51.100.10/32\n2001:db8:1::10/128\n").unwrap();
    let list = list.display().to_string();
    let arguments =
        ["--allowed-networks", &list, "-l", "[::]:25", "-4", "127.0.0.1:2525", "-6", "[::1]:2525", "--quiet"];
    let running = site.program(&[&["as", "mmproxy"], &arguments[..]].concat()).listens("[::]:25");
    client(
        &site,
        r#"
def v1(client, lb=("198.51.100.10", 0)):
    six = ":" in client[0]
    head = "PROXY %s %s %s %d 25\r\n" % ("TCP6" if six else "TCP4", client[0], "2001:db8:1::1" if six else "198.51.100.1", client[1])
    return passed(client, lb=lb, head=head.encode())
assert line(v1(("203.0.113.7", 4711))).split()[0] == b"203.0.113.7"
assert line(v1(("2001:db8::7", 4711), lb=("2001:db8:1::10", 0))).split()[0] == b"2001:db8::7"
# Bytes behind the header, in the same segment and later, and half of the connection closed.
s = passed(("203.0.113.8", 4712), head=b"PROXY TCP4 203.0.113.8 198.51.100.1 4712 25\r\nHELO")
assert line(s).split()[0] == b"203.0.113.8"
s.sendall(b" there")
s.shutdown(socket.SHUT_WR)
got = b""
while True:
    more = s.recv(100)
    if not more:
        break
    got += more
assert got == b"HELO there", got
# A header in two segments.
s = tcp(edge)
s.sendall(b"PROXY TCP4 203.0.113.7 ")
time.sleep(0.2)
s.sendall(b"198.51.100.1 4713 25\r\n")
assert line(s).split()[0] == b"203.0.113.7"
# Who is not on the list, says nothing of a client, or lies about the family.
assert rejected(passed(("203.0.113.7", 4714), lb=("203.0.113.8", 0), head=b"PROXY TCP4 203.0.113.7 198.51.100.1 4714 25\r\n"))
for head in [b"EHLO nobody.example\r\n", b"PROXY TCP4 2001:db8::7 2001:db8:1::1 1 25\r\n", b"PROXY TCP4 203.0.113.7 198.51.100.1 70000 25\r\n",
             b"PROXY TCP4 127.0.0.1 127.0.0.1 1 25\r\n"]:
    assert rejected(passed(("203.0.113.7", 4715), head=head)), head
"#,
    );
    // A list without networks lets nobody pass, and a broken one does not start.
    for text in ["", "ten\n"] {
        let broken = site.dir.path().join("broken");
        std::fs::write(&broken, text).unwrap();
        let broken = broken.display().to_string();
        let words = ["as", "mmproxy", "-a", &broken, "-l", "[::]:26", "-4", "127.0.0.1:2525", "-6", "[::1]:2525"];
        site.program(&words);
        assert_eq!(site.wait_last(), Some(1), "{text:?}");
    }
    running.signal("TERM");
    wait_until("the end", || !std::path::Path::new(&format!("/proc/{}", running.pid)).exists() || site.has_ended());
}

#[test]
fn what_is_imported_is_what_runs() {
    let site = Site::new();
    let import = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_portunus"))
            .args(["import", "go-mmproxy"])
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for arguments in [
        &["-l", "0.0.0.0:25", "-4", "127.0.0.1:2525", "-mark", "123"][..],
        &["-p", "udp", "-close-after", "5", "-6", ""],
        &["-dynamic-destination"],
    ] {
        let (code, yaml) = import(arguments);
        assert_eq!(code, Some(0), "{yaml}");
        let file = site.dir.path().join("imported.yaml");
        std::fs::write(&file, &yaml).unwrap();
        run(&[env!("CARGO_BIN_EXE_portunus"), "check", file.to_str().unwrap()]);
        assert!(yaml.contains("transparent: true"), "{yaml}");
    }
    // Bug 8: there, 0 seconds end a flow almost at once.
    let (code, yaml) = import(&["-p", "udp", "-close-after", "0"]);
    assert!(code == Some(0) && yaml.contains("idle_timeout: 1s\n"), "{yaml}");
    let (code, reported) = import(&["-allowed-subnets", "/nonexistent/subnets"]);
    assert_eq!(code, Some(1));
    let line: serde_json::Value = serde_json::from_str(reported.trim()).unwrap();
    assert_eq!((&line["level"], &line["msg"]), (&"ERROR".into(), &"failed to start".into()));
    let (code, _) = import(&["-nosuch"]);
    assert_eq!(code, Some(2));
}
