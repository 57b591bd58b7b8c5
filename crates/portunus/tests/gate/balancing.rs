//! Which server of a group gets which request: by load, by a hash of something in the request, by rank.

use std::net::TcpListener;

use crate::harness::{Gate, Reply, Seen, Upstream, connect, exchange, read_response, statuses, vacant};
use std::io::Write as _;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn text(group: &str, more: &str) -> String {
    format!(
        "workers: 2\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\" }}\nupstreams:\n  app: {{ {group} }}\nroutes:\n  \
         - {{ path: \"/{{tenant}}/{{*rest}}\", upstream: app }}\n{more}"
    )
}

fn servers<const N: usize>() -> [Upstream; N] {
    std::array::from_fn(|_| Upstream::ok())
}

fn list(servers: &[Upstream]) -> String {
    servers.iter().map(|server| format!("\"{}\"", server.address)).collect::<Vec<_>>().join(", ")
}

fn ask(gate: &Gate, target: &str, fields: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
}

fn counts<const N: usize>(servers: &[Upstream; N]) -> [usize; N] {
    std::array::from_fn(|index| servers[index].seen().len())
}

/// The server that got the last of these requests.
fn place_of<const N: usize>(servers: &[Upstream; N], ask: impl FnOnce()) -> usize {
    let before = counts(servers);
    ask();
    let after = counts(servers);
    let mut grown = (0..N).filter(|index| after[*index] > before[*index]);
    let place = grown.next().unwrap();
    assert_eq!(grown.next(), None);
    place
}

/// A way to put a value into a request: its target and its fields.
type Carries = fn(usize) -> (String, String);

#[test]
fn the_same_value_goes_to_the_same_server_and_values_are_spread() {
    let rows: [(&str, Carries); 6] = [
        ("{ header: X-Tenant }", |value| ("/a/".into(), format!("X-Tenant: tenant-{value}\r\n"))),
        ("{ cookie: sid }", |value| ("/a/".into(), format!("Cookie: a=b; sid=s{value}\r\n"))),
        ("{ path: tenant }", |value| (format!("/tenant-{value}/page"), String::new())),
        ("path", |value| (format!("/a/page-{value}"), String::new())),
        ("target", |value| (format!("/a/?page={value}"), String::new())),
        ("client", |value| ("/a/".into(), format!("X-Forwarded-For: 192.0.2.{value}\r\n"))),
    ];
    // So many that chance leaves no server without one.
    const VALUES: usize = 70;
    for (key, carries) in rows {
        let servers = servers::<3>();
        let yaml =
            text(&format!("servers: [{}], balance: {{ hash: {key} }}", list(&servers)), "trusted_proxies: 127.0.0.1\n");
        let gate = Gate::start(&yaml);
        let place = |value: usize| {
            let (target, fields) = carries(value);
            place_of(&servers, || assert_eq!(ask(&gate, &target, &fields), 200))
        };
        let first: Vec<_> = (0..VALUES).map(place).collect();
        assert_eq!((0..VALUES).map(place).collect::<Vec<_>>(), first, "{key}");
        assert!((0..3).all(|server| first.contains(&server)), "{key}: {first:?}");
        // The table is the same for whoever fills it: after a reload, and in another order.
        let mut reversed: Vec<_> = servers.iter().map(|server| format!("\"{}\"", server.address)).collect();
        reversed.reverse();
        gate.rewrite(&text(
            &format!("servers: [{}], balance: {{ hash: {key} }}", reversed.join(", ")),
            "trusted_proxies: 127.0.0.1\n",
        ));
        gate.signal("HUP");
        gate.wait_for("reloaded");
        assert_eq!((0..VALUES).map(place).collect::<Vec<_>>(), first, "{key}: after a reload");
    }
}

#[test]
fn what_has_no_value_takes_turns() {
    let servers = servers::<2>();
    let gate =
        Gate::start(&text(&format!("servers: [{}], balance: {{ hash: {{ cookie: sid }} }}", list(&servers)), ""));
    for _ in 0..10 {
        assert_eq!(ask(&gate, "/a/", "Cookie: other=1\r\n"), 200);
    }
    assert_eq!(counts(&servers), [5, 5]);
}

#[test]
fn a_value_whose_server_is_down_goes_to_another_one_and_the_others_stay() {
    // One that refuses connections from the beginning.
    let dead = vacant();
    let servers = servers::<2>();
    let group = format!("servers: [{}, \"{dead}\"], balance: {{ hash: {{ header: x-key }} }}", list(&servers));
    let gate = Gate::start(&text(&group, ""));
    for value in 0..60 {
        assert_eq!(ask(&gate, "/a/", &format!("X-Key: {value}\r\n")), 200);
    }
    let first = counts(&servers);
    assert_eq!(first[0] + first[1], 60);
    // Six times the standard deviation to either side.
    assert!(first.iter().all(|count| *count > 6), "{first:?}");
    for value in 0..60 {
        assert_eq!(ask(&gate, "/a/", &format!("X-Key: {value}\r\n")), 200);
    }
    assert_eq!(counts(&servers), first.map(|count| 2 * count), "each went where it went before");
}

#[test]
fn one_hot_value_does_not_take_more_than_its_bound_of_a_server() {
    let hold = |_: &Seen| Reply::Silence;
    let servers: [Upstream; 2] = std::array::from_fn(|_| Upstream::start(hold));
    let group = format!("servers: [{}], balance: {{ hash: {{ header: x-key }}, balance_factor: 120 }}", list(&servers));
    let gate = Gate::start(&text(&group, ""));
    let held: Vec<_> = (0..20)
        .map(|number| {
            let mut client = connect(gate.address("web"));
            client.write_all(b"GET /a/b HTTP/1.1\r\nHost: x\r\nX-Key: hot\r\n\r\n").unwrap();
            crate::harness::wait_until("the request", || counts(&servers).iter().sum::<usize>() > number);
            client
        })
        .collect();
    let mut counts = counts(&servers);
    counts.sort();
    assert_eq!(counts, [8, 12], "120 percent of a half of 20");
    drop(held);
}

#[test]
fn a_backup_serves_while_all_others_are_down_and_no_longer() {
    let place = vacant();
    let backup = Upstream::ok();
    let group = format!(
        "servers: [{{ address: \"{}\", backup: true }}, \"{place}\"], health: {{ path: none, interval: 1s, timeout: 1s, rise: 1 }}",
        backup.address
    );
    let gate = Gate::start(&text(&group, ""));
    gate.wait_for("\"healthy\":false");
    for _ in 0..5 {
        assert_eq!(ask(&gate, "/r/", ""), 200);
    }
    let requests =
        |upstream: &Upstream| upstream.seen().iter().filter(|seen| seen.line().starts_with("GET /r/")).count();
    assert_eq!(requests(&backup), 5);
    let main = Upstream::on(TcpListener::bind(place).unwrap(), |_| Reply::Keep(OK.to_vec()));
    gate.wait_for("\"healthy\":true");
    for _ in 0..5 {
        assert_eq!(ask(&gate, "/r/", ""), 200);
    }
    assert_eq!((requests(&backup), requests(&main)), (5, 5));
}

#[test]
fn servers_of_a_higher_priority_number_serve_only_while_lower_ones_are_down() {
    let dead = vacant();
    let servers = servers::<2>();
    let group = format!(
        "servers: [{{ address: \"{}\", priority: 2 }}, {{ address: \"{}\", priority: 1 }}, \"{dead}\"], ejection: {{ failures: 1, duration: 1h }}",
        servers[0].address, servers[1].address
    );
    let gate = Gate::start(&text(&group, ""));
    for _ in 0..10 {
        assert_eq!(ask(&gate, "/r/", ""), 200);
    }
    assert_eq!(counts(&servers), [0, 10]);
}

#[test]
fn all_servers_are_tried_anyway_where_that_is_asked_for() {
    // They respond to requests, but not as their checks want it.
    let ill = || {
        Upstream::start(|seen| {
            if seen.line().contains("/healthz") {
                return Reply::Keep(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_vec());
            }
            Reply::Keep(OK.to_vec())
        })
    };
    let servers = [ill(), ill()];
    let health = "health: { path: /healthz, interval: 1s, timeout: 1s, fall: 1, rise: 1 }";
    for (rule, expected) in [("fail", 503), ("try_anyway", 200)] {
        let gate = Gate::start(&text(&format!("servers: [{}], {health}, when_all_down: {rule}", list(&servers)), ""));
        for server in &servers {
            crate::harness::wait_until("the checks of both to fail", || {
                gate.diagnostics()
                    .iter()
                    .any(|line| line.contains(&server.address.to_string()) && line.contains("\"healthy\":false"))
            });
        }
        assert_eq!(ask(&gate, "/r/", ""), expected, "{rule}");
    }
}

#[test]
fn a_kept_connection_of_a_client_changes_nothing_of_that() {
    let servers = servers::<3>();
    let group = format!("servers: [{}], balance: {{ hash: {{ path: tenant }} }}", list(&servers));
    let gate = Gate::start(&text(&group, ""));
    let mut client = connect(gate.address("web"));
    for round in 0..2 {
        for tenant in 0..9 {
            write!(client, "GET /t{tenant}/x HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"), "{round}");
        }
    }
    assert!(counts(&servers).iter().all(|count| count % 2 == 0), "{:?}", counts(&servers));
}

#[test]
fn servers_of_the_own_zone_come_first_while_enough_of_them_are_up() {
    for balance in ["round_robin", "least_loaded", "random_two", "{ hash: { header: x-key } }"] {
        let (near, far) = (servers::<2>(), servers::<2>());
        let server = |upstream: &Upstream, zone: &str| format!("{{ address: \"{}\", zone: {zone} }}", upstream.address);
        let list = |dead: &str| {
            let near = near.iter().map(|upstream| server(upstream, "eu-1a"));
            let far = far.iter().map(|upstream| server(upstream, "eu-1b"));
            near.chain(far).chain((!dead.is_empty()).then(|| dead.to_owned())).collect::<Vec<_>>().join(", ")
        };
        let health = "health: { path: none, interval: 1s, timeout: 1s }";
        let gate = Gate::start(&text(
            &format!("servers: [{}], balance: {balance}, {health}", list("")),
            "zone: eu-1a\nadmin: { bind: \"127.0.0.2:0\" }\n",
        ));
        let ask_all =
            |gate: &Gate| (0..40).for_each(|key| assert_eq!(ask(gate, "/a/", &format!("X-Key: {key}\r\n")), 200));
        ask_all(&gate);
        let sum = |servers: &[Upstream; 2]| {
            servers.iter().flat_map(Upstream::seen).filter(|seen| seen.line().starts_with("GET /a/")).count()
        };
        assert_eq!((sum(&near), sum(&far)), (40, 0), "{balance}");
        assert!(near.iter().all(|upstream| !upstream.seen().is_empty()), "{balance}: both of them");
        let info =
            format!("portunus_upstream_server_info{{upstream=\"app\",server=\"{}\",zone=\"eu-1b\"}} 1", far[0].address);
        assert!(gate.metrics().contains(&info), "{}", gate.metrics());
        // Two of three are fewer than 70 percent: all zones share.
        let dead = format!("{{ address: \"{}\", zone: eu-1a }}", vacant());
        let gate =
            Gate::start(&text(&format!("servers: [{}], balance: {balance}, {health}", list(&dead)), "zone: eu-1a\n"));
        gate.wait_for("\"healthy\":false");
        ask_all(&gate);
        assert!(sum(&far) > 0 && sum(&near) > 40, "{balance}: {} {}", sum(&near), sum(&far));
        assert_eq!(sum(&near) + sum(&far), 80, "{balance}");
    }
}
