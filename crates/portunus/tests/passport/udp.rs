//! UDP flows: whom the application sees, how headers are taken, what ends a flow, and what does not.

use super::site::{Running, Site, find, udp_echo};
use crate::harness::wait_until;

/// A listener at 198.51.100.1:53 and [2001:db8:1::1]:53 in front of applications on loopback.
fn listener(settings: &str) -> String {
    format!(
        "workers: 2\nadmin: {{ bind: \"127.0.0.1:9901\" }}\nudp_listeners:\n- name: dns\n  bind: [\":53\"]\n  \
         upstream: [\"127.0.0.1:5353\", \"[::1]:5353\"]\n  {settings}\n"
    )
}

/// Settings of a listener that takes headers in this mode from the balancers, and goes on from the clients' addresses.
fn trusting(mode: &str) -> String {
    format!("proxy_protocol: {{ mode: {mode}, trust: [198.51.100.10, 2001:db8:1::10] }}\n  transparent: true")
}

/// The site with applications, and the program at work.
fn site(settings: &str) -> (Site, Running) {
    let mut site = Site::new();
    for address in ["127.0.0.1", "::1"] {
        let edge = site.edge.clone();
        site.python(&edge, &udp_echo(address, 5353));
    }
    let running = site.portunus(&listener(settings)).listens("[::]:53").listens("127.0.0.1:9901");
    (site, running)
}

fn metric(site: &Site, line: &str) -> bool {
    let page = super::site::run(&["ip", "netns", "exec", &site.edge, "curl", "-s", "http://127.0.0.1:9901/metrics"]);
    page.lines().any(|found| found == line)
}

/// Waits for a line of the metrics page.
fn counted(site: &Site, line: &str) {
    wait_until(line, || metric(site, line));
}

fn rejected(site: &Site, reason: &str, count: u64) {
    counted(site, &format!("portunus_datagrams_rejected_total{{listener=\"dns\",reason=\"{reason}\"}} {count}"));
}

#[test]
fn an_unmodified_server_sees_the_true_client() {
    let (site, running) = site(&trusting("each"));
    let reported = site.client(
        r#"
for lb, edge, client in [(("198.51.100.10", 0), ("198.51.100.1", 53), ("203.0.113.7", 4711)),
                         (("2001:db8:1::10", 0), ("2001:db8:1::1", 53), ("2001:db8::7", 4712)),
                         (("198.51.100.10", 0), ("198.51.100.1", 53), ("2001:db8::8", 4713))]:
    s = udp(lb)
    s.connect(edge)
    to = ("2001:db8:1::1", 53) if ":" in client[0] else ("198.51.100.1", 53)
    for payload in [b"one", b"two", b"x" * 1400]:
        s.send(v2(client, to) + payload)
        answer = s.recv(65536)
        assert answer.endswith(payload), answer
        print(answer[:40].decode().split()[:2])
    s.send(v2(client, to))
    assert s.recv(65536) == b""
"#,
    );
    let lines: Vec<&str> = reported.lines().collect();
    assert_eq!(lines.len(), 9, "{reported}");
    assert!(lines[..3].iter().all(|line| *line == "['203.0.113.7', '4711']"), "{reported}");
    assert!(lines[3..6].iter().all(|line| *line == "['2001:db8::7', '4712']"), "{reported}");
    assert!(lines[6..].iter().all(|line| *line == "['2001:db8::8', '4713']"), "{reported}");
    running.signal("TERM");
    let log = running.log(3);
    let flow = log.iter().find(|line| line["client_address"] == "203.0.113.7").unwrap();
    assert_eq!(
        (&flow["kind"], &flow["listener"], &flow["target"]),
        (&"flow".into(), &"dns".into(), &"127.0.0.1:5353".into())
    );
    assert_eq!((&flow["datagrams_received"], &flow["datagrams_sent"]), (&4.into(), &4.into()));
    assert_eq!((&flow["bytes_received"], &flow["reason"]), (&1406.into(), &"flow_closed".into()));
}

#[test]
fn the_first_datagram_may_speak_for_its_flow_and_no_later_one_changes_it() {
    let (site, _running) = site(&trusting("first"));
    let reported = site.client(
        r#"
edge, client = ("198.51.100.1", 53), ("203.0.113.7", 4711)
s = udp()
s.sendto(b"no header", edge)
assert silent(s)
s.sendto(v2(client, edge) + b"one", edge)
print(s.recv(65536))
s.sendto(b"two", edge)
print(s.recv(65536))
forged = v2(("203.0.113.8", 1), edge) + b"three"
s.sendto(forged, edge)
assert s.recv(65536) == b"203.0.113.7 4711 " + forged
"#,
    );
    assert_eq!(reported, "b'203.0.113.7 4711 one'\nb'203.0.113.7 4711 two'");
    rejected(&site, "proxy_header_missing", 1);
}

#[test]
fn the_habit_of_a_balancer_is_found_out_and_kept() {
    let (site, _running) = site(&trusting("auto"));
    let reported = site.client(
        r#"
edge, client, other = ("198.51.100.1", 53), ("203.0.113.7", 4711), ("203.0.113.8", 4711)
each = udp()
for payload in [b"one", b"two"]:
    each.sendto(v2(client, edge) + payload, edge)
    print(each.recv(65536))
each.sendto(b"bare", edge)
each.sendto(v2(other, edge) + b"forged", edge)
assert silent(each)
first = udp()
first.sendto(v2(other, edge) + b"one", edge)
print(first.recv(65536))
first.sendto(b"two", edge)
print(first.recv(65536))
forged = v2(client, edge) + b"three"
first.sendto(forged, edge)
assert first.recv(65536) == b"203.0.113.8 4711 " + forged
"#,
    );
    let lines: Vec<&str> = reported.lines().collect();
    let expected =
        ["b'203.0.113.7 4711 one'", "b'203.0.113.7 4711 two'", "b'203.0.113.8 4711 one'", "b'203.0.113.8 4711 two'"];
    assert_eq!(lines, expected);
    rejected(&site, "proxy_header_missing", 1);
    rejected(&site, "proxy_header_client_changed", 1);
}

#[test]
fn the_simple_header_goes_both_ways() {
    let (site, _running) = site(&trusting("simple, reply_header: true"));
    site.client(
        r#"
edge = ("198.51.100.1", 53)
s = udp()
for client in [("203.0.113.7", 4711), ("2001:db8::7", 4711)]:
    head = spp(client, edge)
    for payload in [b"one", b"two"]:
        s.sendto(head + payload, edge)
        answer = s.recv(65536)
        assert answer == head + ("%s %d " % client).encode() + payload, answer
s.sendto(b"short", edge)
assert silent(s)
"#,
    );
    rejected(&site, "proxy_header_missing", 1);
}

#[test]
fn responses_go_back_the_way_each_datagram_came() {
    let (site, _running) = site(&trusting("each"));
    site.client(
        r#"
# One client through two ports of the balancer: two flows, and the second has another source port.
edge, client = ("198.51.100.1", 53), ("203.0.113.7", 4711)
one, two = udp(), udp()
one.sendto(v2(client, edge) + b"one", edge)
assert one.recv(65536) == b"203.0.113.7 4711 one"
two.sendto(v2(client, edge) + b"two", edge)
host, port, payload = two.recv(65536).split()
assert host == b"203.0.113.7" and port != b"4711" and payload == b"two", (host, port, payload)
one.sendto(v2(client, edge) + b"three", edge)
assert one.recv(65536) == b"203.0.113.7 4711 three"
assert silent(two)
# Two clients through one port of the balancer.
for client in [("203.0.113.7", 5000), ("203.0.113.8", 5000)]:
    one.sendto(v2(client, edge) + b"x", edge)
    assert one.recv(65536) == ("%s 5000 x" % client[0]).encode()
"#,
    );
}

/// Numbered bug 11 of go-mmproxy: a forged source cannot be distinguished from a true one, but it gains nothing without the network's help.
#[test]
fn a_peer_that_is_not_trusted_is_dropped_and_counted() {
    let (site, running) = site("proxy_protocol: { mode: each, trust: 198.51.100.10 }\n  transparent: true");
    site.client(
        r#"
edge = ("198.51.100.1", 53)
s = udp(("203.0.113.7", 0))
for _ in range(3):
    s.sendto(v2(("203.0.113.8", 1), edge) + b"x", edge)
assert silent(s)
"#,
    );
    rejected(&site, "proxy_untrusted_peer", 3);
    running.wait_for("\"reason\":\"proxy_untrusted_peer\"");
    assert!(!metric(&site, "portunus_connections_open{listener=\"dns\"} 1"));
    assert!(running.diagnostics.lock().unwrap().len() < 20);
}

/// Row 23 of the attack matrix.
#[test]
fn sources_that_are_ours_or_nobodys_are_rejected() {
    let (site, running) = site(&trusting("each"));
    site.client(
        r#"
edge = ("198.51.100.1", 53)
s = udp()
for host in ["127.0.0.1", "198.51.100.1", "198.51.100.255", "0.0.0.0", "224.0.0.1", "255.255.255.255", "169.254.1.1",
             "::1", "2001:db8:1::1", "::", "ff02::1", "fe80::1", "::ffff:127.0.0.1"]:
    to = ("2001:db8:1::1", 53) if ":" in host else edge
    s.sendto(v2((host, 9), to) + b"x", edge)
assert silent(s)
"#,
    );
    rejected(&site, "source_is_loopback", 3);
    rejected(&site, "source_is_own_address", 3);
    rejected(&site, "source_is_unspecified", 2);
    rejected(&site, "source_is_multicast", 2);
    rejected(&site, "source_is_broadcast", 1);
    rejected(&site, "source_is_link_local", 2);
    let reported =
        || running.diagnostics.lock().unwrap().iter().filter(|line| line.contains("logged once per reason")).count();
    wait_until("a line for each reason", || reported() >= 6);
    assert!(reported() <= 12, "once per reason and worker, not {} times", reported());
}

/// Bugs 2 and 3 of go-mmproxy: no header makes the program end, and payload is never taken for an address.
#[test]
fn hostile_headers_end_nothing() {
    let (site, _running) = site(&trusting("each"));
    site.client(
        r#"
edge = ("198.51.100.1", 53)
good = v2(("203.0.113.7", 4711), edge)
s = udp()
for length in range(12):
    s.sendto(SIGNATURE + struct.pack("!BBH", 0x21, 0x12, length) + good[16:] + b"payload", edge)
    s.sendto(SIGNATURE + struct.pack("!BBH", 0x21, 0x22, length) + b"p" * 64, edge)
    s.sendto(SIGNATURE + struct.pack("!BBH", 0x21, 0x12, length), edge)
for end in range(len(good)):
    s.sendto(good[:end], edge)
s.sendto(SIGNATURE + struct.pack("!BBH", 0x21, 0x12, 65535) + b"x" * 60000, edge)
s.sendto(v2(("203.0.113.7", 4711), edge, socket.SOCK_STREAM) + b"x", edge)
s.sendto(b"PROXY TCP4 203.0.113.7 198.51.100.1 99999 -1\r\n", edge)
assert silent(s)
s.sendto(good + b"still here", edge)
assert s.recv(65536) == b"203.0.113.7 4711 still here"
"#,
    );
}

/// LOCAL is the balancer asking for itself: it is answered, under our own address, since it is nobody's client.
#[test]
fn a_health_check_of_the_balancer_is_answered() {
    let (site, _running) = site(&trusting("each, header: optional"));
    site.client(
        r#"
edge = ("198.51.100.1", 53)
s = udp()
for head in [SIGNATURE + b"\x20\0\0\0", SIGNATURE + b"\x21\0\0\0", SIGNATURE + b"\x20\x12\0\x0c" + b"x" * 12]:
    s.sendto(head + b"alive?", edge)
    answer = s.recv(65536)
    assert answer.startswith(b"127.0.0.1 ") and answer.endswith(b"alive?"), answer
direct = udp()
direct.sendto(b"me", edge)
assert direct.recv(65536) == ("198.51.100.10 %d me" % direct.getsockname()[1]).encode()
"#,
    );
}

/// Bugs 6 and 7: neither a rejected target nor a datagram of length zero ends the way back, and a target may come back.
#[test]
fn a_target_that_was_away_is_reached_again_by_the_same_flow() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    let running = site.portunus(&listener(&trusting("each"))).listens("[::]:53");
    let client = site.client.clone();
    let asking = format!(
        "{}\n{}",
        super::site::CLIENT,
        r#"
edge = ("198.51.100.1", 53)
s = udp(timeout=1)
print("asking")
count = 0
while True:
    # What came too late is no response to what is sent now.
    s.setblocking(False)
    try:
        while True:
            s.recv(65536)
    except BlockingIOError:
        s.settimeout(1)
    s.sendto(v2(("203.0.113.7", 4711), edge) + b"there?", edge)
    try:
        answer = s.recv(65536)
        count += 1
        print("answer", count, answer)
        s.sendto(v2(("203.0.113.7", 4711), edge), edge)
        print("empty", s.recv(65536))
    except (TimeoutError, socket.timeout):
        print("nothing")
    time.sleep(0.02)
"#
    );
    let reported = site.python(&client, &asking);
    find(&reported, "nothing");
    let before = site.python(&edge, &udp_echo("127.0.0.1", 5353));
    find(&reported, "answer 1 b'203.0.113.7 4711 there?'");
    find(&reported, "empty b''");
    find(&before, "203.0.113.7 4711");
    site.end_last();
    let seen = reported.lock().unwrap().len();
    wait_until("the target to be away", || reported.lock().unwrap().iter().skip(seen).any(|line| line == "nothing"));
    let seen = reported.lock().unwrap().len();
    site.python(&edge, &udp_echo("127.0.0.1", 5353));
    wait_until("the target to be back", || {
        reported.lock().unwrap().iter().skip(seen).any(|line| line.starts_with("answer"))
    });
    // The application, then the client.
    site.end_last();
    site.end_last();
    running.signal("TERM");
    let log = running.log(1);
    assert_eq!(log.len(), 1, "one flow through it all");
    assert!(log[0]["unreachable"].as_u64().unwrap() > 0);
}

/// One target that rejects does not disturb flows to another.
#[test]
fn a_rejection_stays_with_its_own_flow() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    site.python(&edge, &udp_echo("127.0.0.1", 5353));
    // Nobody listens for IPv6.
    let running = site.portunus(&listener(&trusting("each"))).listens("[::]:53");
    site.client(
        r#"
edge = ("198.51.100.1", 53)
s = udp()
for turn in range(50):
    s.sendto(v2(("2001:db8::7", 9), ("2001:db8:1::1", 53)) + b"lost", edge)
    s.sendto(v2(("203.0.113.7", 9), edge) + b"%d" % turn, edge)
    assert s.recv(65536) == b"203.0.113.7 9 %d" % turn
"#,
    );
    running.signal("TERM");
    assert_eq!(running.log(2).len(), 2);
}

/// The row "table full" of the fault protocol.
#[test]
fn a_flood_pushes_out_itself_and_not_flows_that_live() {
    let (site, running) = site(&format!("{}\n  max_flows: 64\n  max_flows_per_client: 8", trusting("each")));
    site.client(
        r#"
edge, client = ("198.51.100.1", 53), ("203.0.113.7", 4711)
alive = udp(timeout=1)
def ask(payload):
    # A burst fills the buffers of sockets where its reader has to wait for a processor: what is lost there is asked again.
    for _ in range(60):
        alive.sendto(v2(client, edge) + payload, edge)
        try:
            assert alive.recv(65536).startswith(b"203.0.113.7 4711 ")
            return
        except TimeoutError:
            pass
    raise AssertionError("never answered")
ask(b"before")
port = alive.getsockname()[1]
for turn in range(10):
    for i in range(200):
        # `hush` is never answered.
        alive.sendto(v2(("203.0.113.%d" % (20 + i), 1000 + turn), edge) + b"hush", edge)
    ask(b"during")
# A client with too many flows only loses its own.
for i in range(40):
    alive.sendto(v2(("203.0.113.99", 2000 + i), edge) + b"hush", edge)
ask(b"after")
"#,
    );
    // The live flow is the one that was there first.
    counted(&site, "portunus_connections_open{listener=\"dns\"} 64");
    running.signal("TERM");
    let mut log = Vec::new();
    wait_until("the line of the live flow", || {
        log = running.log(2001);
        log.iter().any(|line| line["client_address"] == "203.0.113.7")
    });
    let evicted = log.iter().filter(|line| line["reason"] == "flow_evicted");
    assert!(evicted.clone().count() > 1500);
    assert!(evicted.clone().all(|line| line["client_address"] != "203.0.113.7"));
    let alive: Vec<_> = log.iter().filter(|line| line["client_address"] == "203.0.113.7").collect();
    assert_eq!(alive.len(), 1, "one flow through it all");
    assert!(alive[0]["datagrams_received"].as_u64().unwrap() >= 12);
}

/// Bug 8 and the doubled idle times: a flow ends when it has been idle for its time, and what moves keeps it.
#[test]
fn idle_flows_end_and_busy_ones_do_not() {
    let (site, running) = site(&format!("{}\n  idle_timeout: 10s", trusting("each")));
    site.client(
        r#"
edge = ("198.51.100.1", 53)
s = udp()
s.sendto(v2(("203.0.113.8", 9), edge) + b"once", edge)
s.recv(65536)
for _ in range(12):
    s.sendto(v2(("203.0.113.7", 9), edge) + b"x", edge)
    s.recv(65536)
    time.sleep(0.1)
"#,
    );
    let log = running.log(2);
    let lived = |client: &str| {
        let line = log.iter().find(|line| line["client_address"] == client).unwrap();
        assert_eq!(line["reason"], "flow_idle");
        line["duration_seconds"].as_f64().unwrap()
    };
    assert!(lived("203.0.113.8") >= 9.99, "{}", lived("203.0.113.8"));
    assert!(lived("203.0.113.7") >= 11.1, "{}", lived("203.0.113.7"));
    counted(&site, "portunus_connections_open{listener=\"dns\"} 0");
}

/// Bug 7, and idle times that were once to twice what was said: flows end in their time, however many, and though nothing comes any more.
///
/// The machine may be busy, so one round of several must be good; where flows end at a sweep, none is.
#[test]
fn many_flows_end_in_time_though_nothing_comes_any_more() {
    let (site, running) = site(&format!("{}\n  idle_timeout: 1s\n  max_flows_per_client: 2000", trusting("each")));
    let is_good = |round: usize| {
        site.client(&format!(
            r#"
edge = ("198.51.100.1", 53)
s = udp()
for i in range(1200):
    s.sendto(v2(("203.0.113.{round}", 10000 + i), edge) + b"hush", edge)
    if i % 10 == 0: time.sleep(0.005)
"#
        ));
        let log = running.log(1200 * round);
        counted(&site, "portunus_connections_open{listener=\"dns\"} 0");
        let client = format!("203.0.113.{round}");
        let lived = log.iter().filter(|line| line["client_address"] == *client);
        let lived: Vec<f64> = lived.map(|line| line["duration_seconds"].as_f64().unwrap()).collect();
        assert_eq!(lived.len(), 1200);
        // Idle since a datagram came, told since its socket was there: a little less, where many came at once.
        lived.iter().filter(|seconds| (0.9..1.5).contains(*seconds)).count() >= 1100
    };
    assert!((1..=20).any(is_good), "in each round flows ended too early or too late");
}

/// Several servers, each of which sees the client's own address and port; also the one that a flow goes on at.
#[test]
fn servers_of_an_upstream_see_the_client_also_after_a_move() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    site.python(&edge, &udp_echo("127.0.0.1", 5354));
    site.python(&edge, &udp_echo("::1", 5355));
    let stays = site.python(&edge, &udp_echo("127.0.0.1", 5356));
    let goes = site.python(&edge, &format!("import os\nprint('pid', os.getpid())\n{}", udp_echo("127.0.0.1", 5353)));
    find(&goes, "ready");
    let servers = "servers: [\"127.0.0.1:5353\", { address: \"127.0.0.1:5354\", backup: true, priority: 2 }, \"[::1]:5355\", \
                   { address: \"127.0.0.1:5356\", backup: true }]";
    let mut yaml = listener(&trusting("each"));
    yaml = yaml.replace("upstream: [\"127.0.0.1:5353\", \"[::1]:5353\"]", "upstream: app");
    yaml.push_str(&format!("upstreams:\n  app: {{ protocol: udp, {servers} }}\n"));
    let ends = site.dir.path().join("goes");
    let running = site.portunus(&yaml).listens("[::]:53").listens("127.0.0.1:9901");
    let asking = format!(
        r#"{}
import os
edge = ("198.51.100.1", 53)
s, six = udp(timeout=0.2), udp(("2001:db8:1::10", 0))
def ask(payload):
    for _ in range(100):
        s.sendto(v2(("203.0.113.7", 4711), edge) + payload, edge)
        try:
            while True:
                # A response to what was sent before may be late.
                response = s.recv(65536)
                if response.endswith(payload):
                    return response
        except (TimeoutError, socket.timeout):
            pass
assert ask(b"one") == b"203.0.113.7 4711 one"
# Of IPv6 only that server is reached from the client's address.
six.sendto(v2(("2001:db8::7", 4711), ("2001:db8:1::1", 53)) + b"six", ("2001:db8:1::1", 53))
assert six.recv(65536) == b"2001:db8::7 4711 six"
print("asked")
while not os.path.exists("{}"):
    time.sleep(0.02)
assert ask(b"two") == b"203.0.113.7 4711 two"
assert ask(b"three") == b"203.0.113.7 4711 three"
print("moved")
time.sleep(100)
"#,
        super::site::CLIENT,
        ends.display()
    );
    let client = site.client.clone();
    let reported = site.python(&client, &asking);
    find(&reported, "asked");
    find(&goes, "203.0.113.7 4711");
    let gone = find(&goes, "pid ");
    super::site::run(&["kill", "-9", gone.trim_start_matches("pid ")]);
    std::fs::write(&ends, "").unwrap();
    find(&reported, "moved");
    find(&stays, "203.0.113.7 4711");
    running.signal("TERM");
    let log = running.log(2);
    let line = log.iter().find(|line| line["client_address"] == "203.0.113.7").unwrap();
    assert_eq!((&line["target"], &line["port_kept"]), (&"127.0.0.1:5356".into(), &true.into()), "{line}");
    assert_eq!(line["upstream"]["moves"], 1, "{line}");
}

#[test]
fn destinations_of_the_header_stand_on_a_list() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    for port in [5353, 5354] {
        site.python(&edge, &udp_echo("127.0.0.1", port));
    }
    let yaml = "udp_listeners:\n- name: dns\n  bind: 198.51.100.1:53\n  proxy_protocol: { mode: each, trust: 198.51.100.10 }\n  \
                transparent: true\n  original_dst: [{ network: 127.0.0.0/8, ports: 5353 }]\n";
    site.portunus(yaml).listens("198.51.100.1:53");
    site.client(
        r#"
edge = ("198.51.100.1", 53)
s = udp()
s.sendto(v2(("203.0.113.7", 9), ("127.0.0.1", 5353)) + b"x", edge)
assert s.recv(65536) == b"203.0.113.7 9 x"
for to in [("127.0.0.1", 5354), ("198.51.100.1", 5353), ("198.51.100.1", 53)]:
    s.sendto(v2(("203.0.113.7", 9), to) + b"x", edge)
assert silent(s)
"#,
    );
}

/// The address that was reached is known whether the socket is bound to it or to all.
#[test]
fn a_destination_that_is_the_listener_itself_is_a_loop() {
    for bind in ["198.51.100.1:53", ":53"] {
        let mut site = Site::new();
        let yaml = format!(
            "admin: {{ bind: \"127.0.0.1:9901\" }}\nudp_listeners:\n- name: dns\n  bind: \"{bind}\"\n  proxy_protocol: {{ mode: each, trust: 0.0.0.0/0 }}\n  \
             transparent: true\n  original_dst: [198.51.100.1]\n"
        );
        let _running = site.portunus(&yaml).listens("127.0.0.1:9901");
        site.client(
            "edge = ('198.51.100.1', 53)\nhead = v2(('203.0.113.7', 9), edge)\ns = udp()\ns.sendto(head * 3 + b'x', edge)\nassert silent(s)",
        );
        rejected(&site, "forwarding_loop", 1);
        counted(&site, "portunus_datagrams_received_total{listener=\"dns\"} 1");
    }
}

#[test]
fn without_a_header_clients_are_passed_on_as_they_are() {
    let (site, _running) = site("transparent: true");
    site.client(
        r#"
for source, edge in [(("203.0.113.7", 4711), ("198.51.100.1", 53)), (("2001:db8::7", 4711), ("2001:db8:1::1", 53))]:
    s = udp(source)
    s.connect(edge)
    s.send(b"x")
    assert s.recv(65536) == ("%s 4711 x" % source[0]).encode()
"#,
    );
}

#[test]
fn a_reload_keeps_flows_and_takes_a_new_list_of_networks() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    site.python(&edge, &udp_echo("127.0.0.1", 5353));
    let list = site.dir.path().join("balancers");
    std::fs::write(&list, "# nobody yet\n10.77.0.0/16\n").unwrap();
    let yaml = listener("proxy_protocol: { mode: each, trust_file: balancers }\n  transparent: true");
    let running = site.portunus(&yaml).listens("[::]:53").listens("127.0.0.1:9901");
    let ask = "edge = ('198.51.100.1', 53)\ns = udp(('198.51.100.10', 7777))\ns.sendto(v2(('203.0.113.7', 9), edge) + b'x', edge)\n";
    site.client(&format!("{ask}assert silent(s)"));
    rejected(&site, "proxy_untrusted_peer", 1);
    std::fs::write(&list, "198.51.100.0/24\n").unwrap();
    running.signal("HUP");
    running.wait_for("reloaded");
    site.client(&format!("{ask}print(s.recv(65536))"));
    // A broken list keeps the old one active.
    std::fs::write(&list, "198.51.100.0/240\n").unwrap();
    running.signal("HUP");
    running.wait_for("is not an address or network");
    site.client(&format!("{ask}print(s.recv(65536))"));
    running.signal("TERM");
    let log = running.log(1);
    assert_eq!((log.len(), &log[0]["datagrams_received"]), (1, &2.into()));
}

/// Bug 4: no filter is never taken for an open one.
#[test]
fn a_missing_or_broken_list_rejects_to_start() {
    let mut site = Site::new();
    for content in [None, Some("10.0.0.0/8\nten\n"), Some(""), Some("# none\n\n")] {
        let list = site.dir.path().join("balancers");
        let _ = std::fs::remove_file(&list);
        if let Some(content) = content {
            std::fs::write(&list, content).unwrap();
        }
        let running = site.portunus_as_it_is(&listener("proxy_protocol: { mode: each, trust_file: balancers }"));
        let reported = running.wait_for("balancers");
        assert!(reported.contains("error") || reported.contains("cannot use the file"), "{reported}");
        assert_eq!(site.wait_last(), Some(1), "{content:?}");
    }
}
