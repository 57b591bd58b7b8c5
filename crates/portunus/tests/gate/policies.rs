//! Policies: who may pass, and how often. Rates are one request in an hour or slower, so that nothing depends on how long a test takes.

use std::fs;

use crate::harness::{Gate, Upstream, ask_on, connect, read_response};

/// A gate whose listener, host and route have these settings beside what they need.
struct Site {
    gate: Gate,
    upstream: Upstream,
}

/// `policies`: the table; `parts`: further keys of the listener, of the host `h.example` and of the route.
fn yaml(upstream: &Upstream, workers: usize, policies: &str, [listener, host, route]: [&str; 3]) -> String {
    let hosts = if host.is_empty() { String::new() } else { format!("hosts: {{ h.example: {{ {host} }} }}\n") };
    let comma = |text: &str| if text.is_empty() { String::new() } else { format!(", {text}") };
    format!(
        "workers: {workers}
trusted_proxies: [127.0.0.1]
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\"{} }}
upstreams:
  app: {{ servers: [\"{}\"] }}
{hosts}routes:
  - {{ path: /a, upstream: app{} }}
  - {{ path: /b, respond: {{ status: 204 }} }}
policies: {{ {policies} }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        comma(listener),
        upstream.address,
        comma(route)
    )
}

impl Site {
    fn start(workers: usize, policies: &str, parts: [&str; 3]) -> Site {
        let upstream = Upstream::ok();
        Site { gate: Gate::start(&yaml(&upstream, workers, policies, parts)), upstream }
    }

    /// Status and head of the response to a GET of `client`.
    fn get(&self, path: &str, client: &str, fields: &str) -> (u16, String) {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: h.example\r\nX-Forwarded-For: {client}\r\n{fields}Connection: close\r\n\r\n"
        );
        let (head, _) = ask_on(self.gate.address("web"), &request);
        (head[9..12].parse().unwrap(), head)
    }

    fn statuses(&self, path: &str, client: &str, fields: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(path, client, fields).0).collect()
    }
}

#[test]
fn a_client_beyond_its_rate_is_rejected_and_told_when_to_come_again() {
    let site = Site::start(1, "slow: { rate_limit: { rate: 1/h, burst: 3 } }", ["", "", "policies: slow"]);
    assert_eq!(site.statuses("/a", "192.0.2.1", "", 3), [200, 200, 200]);
    let (status, head) = site.get("/a", "192.0.2.1", "");
    assert_eq!(status, 429);
    let field = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {head}"))
    };
    assert_eq!(field("RateLimit-Policy: "), "\"slow\";q=3;w=10800");
    let wait: u64 = field("Retry-After: ").parse().unwrap();
    assert!((1..=3600).contains(&wait), "{head}");
    assert_eq!(field("RateLimit: "), format!("\"slow\";r=0;t={wait}"));
    // Others are not concerned, nor is the other route.
    assert_eq!(site.statuses("/a", "192.0.2.2", "", 1), [200]);
    assert_eq!(site.statuses("/b", "192.0.2.1", "", 1), [204]);
    assert_eq!(site.upstream.seen().len(), 4, "what is rejected does not reach the upstream");
    let log = site.gate.log(6);
    assert_eq!(
        (&log[3]["status"], &log[3]["reason"], &log[3]["fault"]),
        (&429.into(), &"rate_limited".into(), &"client".into())
    );
    let metrics = site.gate.metrics();
    let line = "portunus_policy_decisions_total{policy=\"slow\",decision=\"rejected\",reason=\"rate_limited\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn what_is_counted_apart_is_the_key() {
    let policies = "net: { rate_limit: { rate: 1/h, burst: 2 } }";
    let site = Site::start(1, policies, ["", "", "policies: net"]);
    // One subscriber has a /64.
    let clients = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "2001:db8:1:2::3", "2001:db8:1:3::1"];
    assert_eq!(clients.map(|client| site.get("/a", client, "").0), [200, 200, 429, 200]);

    let policies = "keys: { rate_limit: { rate: 1/h, burst: 1, key: { header: X-Api-Key } } }";
    let site = Site::start(1, policies, ["", "", "policies: keys"]);
    let ask = |client: &str, fields: &str| site.get("/a", client, fields).0;
    assert_eq!(ask("192.0.2.1", "X-Api-Key: a\r\n"), 200);
    assert_eq!(ask("192.0.2.2", "x-api-key: a\r\n"), 429, "the same key from elsewhere");
    assert_eq!(ask("192.0.2.1", "X-Api-Key: b\r\n"), 200);
    assert_eq!(
        [ask("192.0.2.1", ""), ask("192.0.2.1", ""), ask("192.0.2.2", "")],
        [200, 429, 200],
        "without it by address"
    );

    // Of two the upstream may take either.
    assert_eq!(ask("192.0.2.9", "X-Api-Key: junk\r\nX-Api-Key: a\r\n"), 200);
    assert_eq!(ask("192.0.2.9", "X-Api-Key: more\r\nX-Api-Key: a\r\n"), 429);

    let policies = "sid: { rate_limit: { rate: 1/h, burst: 1, key: { cookie: sid } } }";
    let site = Site::start(1, policies, ["", "", "policies: sid"]);
    let ask = |fields: &str| site.get("/a", "192.0.2.1", fields).0;
    assert_eq!([ask("Cookie: x=1; sid=a\r\n"), ask("Cookie: sid=a\r\n"), ask("Cookie: sid=b\r\n")], [200, 429, 200]);

    // Each route for itself; what no route takes is counted, too.
    let site = Site::start(1, "r: { rate_limit: { rate: 1/h, burst: 1, key: route } }", ["policies: r", "", ""]);
    let asked =
        [("/a", "192.0.2.1"), ("/a", "192.0.2.2"), ("/b", "192.0.2.2"), ("/n", "192.0.2.3"), ("/m", "192.0.2.4")];
    assert_eq!(asked.map(|(path, client)| site.get(path, client, "").0), [200, 429, 204, 404, 429]);
    let policies = "cr: { rate_limit: { rate: 1/h, burst: 1, key: [client, route] } }";
    let site = Site::start(1, policies, ["policies: cr", "", ""]);
    let asked = [("/a", "192.0.2.1"), ("/a", "192.0.2.1"), ("/b", "192.0.2.1"), ("/a", "192.0.2.2")];
    assert_eq!(asked.map(|(path, client)| site.get(path, client, "").0), [200, 429, 204, 200]);

    let site = Site::start(1, "all: { rate_limit: { rate: 1/h, burst: 2, key: all } }", ["", "", "policies: all"]);
    assert_eq!(["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|client| site.get("/a", client, "").0), [200, 200, 429]);
}

#[test]
fn the_rate_is_that_of_all_workers_together() {
    let site = Site::start(4, "n: { rate_limit: { rate: 3/h, burst: 50, key: all } }", ["", "", "policies: n"]);
    let passed: usize = std::thread::scope(|scope| {
        let ask = || {
            let mut stream = connect(site.gate.address("web"));
            let passed = (0..20).filter(|_| {
                use std::io::Write;
                stream.write_all(b"GET /a HTTP/1.1\r\nHost: h.example\r\n\r\n").unwrap();
                read_response(&mut stream).0.starts_with("HTTP/1.1 200")
            });
            passed.count()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((passed, site.upstream.seen().len()), (50, 50));
}

#[test]
fn a_policy_that_only_logs_lets_pass_and_counts() {
    let policies = "try: { mode: log, deny: 192.0.2.7, rate_limit: { rate: 1/h, burst: 1 } }";
    let site = Site::start(1, policies, ["", "", "policies: try"]);
    assert_eq!(site.statuses("/a", "192.0.2.1", "", 3), [200, 200, 200]);
    assert_eq!(site.statuses("/a", "192.0.2.7", "", 1), [200]);
    let log = site.gate.log(4);
    assert!(log.iter().all(|line| line["status"] == 200), "{log:?}");
    let logged: Vec<_> = log.iter().map(|line| line["would_reject"].to_string()).collect();
    let [rate, address] = ["rate_limited", "address_not_allowed"].map(|reason| format!("{{\"try\":\"{reason}\"}}"));
    assert_eq!(logged, ["null", &rate, &rate, &address]);
    let metrics = site.gate.metrics();
    for (reason, count) in [("rate_limited", 2), ("address_not_allowed", 1)] {
        let line = format!(
            "portunus_policy_decisions_total{{policy=\"try\",decision=\"logged\",reason=\"{reason}\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}

#[test]
fn policies_of_listener_and_host_hold_before_anything_is_routed() {
    let policies = "here: { deny: 192.0.2.0/24 }, host: { allow: [198.51.100.0/24, 192.0.2.1, \"2001:db8::/32\"] }";
    let site = Site::start(1, policies, ["policies: [here]", "policies: [host]", ""]);
    for (client, path, expected) in [
        ("198.51.100.7", "/a", 200),
        ("198.51.100.7", "/nowhere", 404),
        ("203.0.113.1", "/nowhere", 403),
        ("192.0.2.1", "/a", 403),
        ("192.0.2.9", "/nowhere", 403),
        ("2001:db8::1", "/b", 204),
        ("2001:db9::1", "/b", 403),
        ("nonsense", "/b", 403),
    ] {
        assert_eq!(site.get(path, client, "").0, expected, "{client} {path}");
    }
    assert_eq!(site.upstream.seen().len(), 1);
}

#[test]
fn a_reload_gives_nobody_a_new_burst_and_reads_lists_anew() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("deny");
    fs::write(&list, "# nobody yet\n203.0.113.1\n").unwrap();
    let policies =
        |burst: u32| format!("p: {{ deny_file: {}, rate_limit: {{ rate: 1/h, burst: {burst} }} }}", list.display());
    let site = Site::start(2, &policies(2), ["", "", "policies: p"]);
    assert_eq!(site.statuses("/a", "192.0.2.1", "", 3), [200, 200, 429]);
    assert_eq!(site.statuses("/a", "203.0.113.1", "", 1), [403]);
    fs::write(&list, "192.0.2.8\n").unwrap();
    // One more than before.
    site.gate.rewrite(&yaml(&site.upstream, 2, &policies(3), ["", "", "policies: p"]));
    site.gate.signal("HUP");
    site.gate.wait_for("reloaded");
    assert_eq!(site.statuses("/a", "192.0.2.1", "", 2), [200, 429]);
    assert_eq!(site.statuses("/a", "192.0.2.8", "", 1), [403]);
    assert_eq!(site.statuses("/a", "203.0.113.1", "", 1), [200]);
}

/// Number `at` of a hundred thousand networks that do not touch, IPv4 in the first half; an address in it, and one right behind it.
fn network_of(at: u32) -> [String; 3] {
    if at < 50_000 {
        let address = |offset: u32| std::net::Ipv4Addr::from(0x0100_0000 + at * 512 + offset).to_string();
        return [format!("{}/24", address(0)), address(255), address(256)];
    }
    let address = |offset: u128| {
        let first = 0x2001_u128 << 112 | u128::from(at - 50_000) << 81;
        std::net::Ipv6Addr::from(first + offset).to_string()
    };
    [format!("{}/48", address(0)), address((1 << 80) - 1), address(1 << 80)]
}

/// A file of networks, in no order.
fn list_of(numbers: impl Iterator<Item = u32>) -> String {
    numbers.map(|number| network_of((u64::from(number) * 61_803 % 100_000) as u32)[0].clone() + "\n").collect()
}

/// Where each of these addresses may go: to the route that denies the networks, and to the one that allows nobody else.
fn passes(site: &Site, addresses: &[String]) -> Vec<[bool; 2]> {
    let may = |path: &str, address: &String| match site.get(path, address, "").0 {
        200 | 204 => true,
        403 => false,
        other => panic!("{other} for {address}"),
    };
    addresses.iter().map(|address| ["/a", "/b"].map(|path| may(path, address))).collect()
}

#[test]
fn a_hundred_thousand_networks_are_denied_or_allowed_and_change_with_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("networks");
    fs::write(&file, list_of(0..100_000)).unwrap();
    let policies = format!("deny: {{ deny_file: {0} }}, allow: {{ allow_file: {0} }}", file.display());
    let upstream = Upstream::ok();
    let text = yaml(&upstream, 1, &policies, ["", "", "policies: deny"])
        .replace("respond: { status: 204 }", "respond: { status: 204 }, policies: allow");
    let site = Site { gate: Gate::start(&text), upstream };
    let (listed, other) = ([false, true], [true, false]);
    // The first, middle and last ones of each family in the order of addresses, and the first and last lines of the file.
    let ends = [0, 25_000, 49_999, 50_000, 75_000, 99_999, 99_999 * 61_803_u64 % 100_000].map(|at| at as u32);
    for [_, inside, behind] in ends.map(network_of) {
        assert_eq!(passes(&site, &[inside.clone(), behind.clone()]), [listed, other], "{inside} {behind}");
    }
    let none = ["0.255.255.255", "255.255.255.255", "::1", "2000:ffff::1", "ffff::1"].map(str::to_owned);
    assert_eq!(passes(&site, &none), [other; 5]);

    // One bad line of so many: the old list stays, and the line is named.
    fs::write(&file, list_of(0..99_999) + "1.2.3\n").unwrap();
    site.gate.signal("HUP");
    site.gate.wait_for("networks:100000: ");
    let line_0 = network_of(0)[1].clone();
    assert_eq!(passes(&site, std::slice::from_ref(&line_0)), [listed]);

    // Without the first line, and with one that was not there.
    fs::write(&file, list_of(1..100_000) + "203.0.113.0/24\n").unwrap();
    site.gate.signal("HUP");
    site.gate.wait_for("reloaded");
    let last = network_of(99_999)[1].clone();
    assert_eq!(passes(&site, &[line_0, "203.0.113.9".to_owned(), last]), [other, listed, listed]);
}
