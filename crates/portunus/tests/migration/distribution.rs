//! Which server gets which request, beside nginx and HAProxy before servers of their own: the same numbers where the rule gives numbers, the same
//! properties where it draws or hashes.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_response, statuses, vacant, wait_until};

/// A program of others, ended with the test.
struct Peer {
    child: Child,
    _dir: TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a group is balanced, as each program says it.
#[derive(Debug, Clone, Copy)]
struct Rule {
    nginx: &'static str,
    haproxy: &'static str,
    ours: &'static str,
}

const IN_TURN: Rule = Rule { nginx: "", haproxy: "roundrobin", ours: "round_robin" };
const LEAST: Rule = Rule { nginx: "least_conn;", haproxy: "leastconn", ours: "least_loaded" };
const RANDOM: Rule = Rule { nginx: "random two least_conn;", haproxy: "random(2)", ours: "random_two" };
const HASH: Rule = Rule {
    nginx: "hash $http_x_key consistent;",
    haproxy: "hdr(x-key)\n hash-type consistent",
    ours: "{ hash: { header: x-key } }",
};

/// A proxy before some servers.
pub struct Site {
    name: &'static str,
    pub address: SocketAddr,
    _theirs: Option<Peer>,
    _ours: Option<Gate>,
}

fn started(name: &'static str, text: &str, address: SocketAddr) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("the.conf");
    std::fs::write(&file, text.replace("@dir", &dir.path().display().to_string())).unwrap();
    let mut command = Command::new(name);
    match name {
        "nginx" => command.arg("-p").arg(dir.path()).arg("-c").arg(&file),
        _ => command.args(["-db", "-f"]).arg(&file),
    };
    let said = dir.path().join("said");
    let errors = std::fs::File::create(&said).unwrap();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    let mut peer = Peer { child, _dir: dir };
    wait_until(name, || {
        let ended = peer.child.try_wait().unwrap();
        assert!(ended.is_none(), "{name}: {}", read(&said));
        TcpStream::connect(address).is_ok()
    });
    Site { name, address, _theirs: Some(peer), _ours: None }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn nginx(rule: Rule, servers: &[(SocketAddr, u32)]) -> Site {
    let address = vacant();
    let list: String = servers
        .iter()
        .map(|(server, weight)| format!("server {server} weight={weight} max_fails=1 fail_timeout=1h;\n"))
        .collect();
    let rule = rule.nginx;
    nginx_with(
        address,
        &format!(
            "upstream app {{ zone app 64k; {rule} {list} }}\nserver {{ listen {address}; location / {{ proxy_pass http://app; }} }}"
        ),
    )
}

/// nginx with these directives in `http`, once it listens at this address.
pub fn nginx_with(address: SocketAddr, http: &str) -> Site {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path @dir/{kind};\n"))
        .concat();
    let text = format!(
        "daemon off; master_process off; pid @dir/pid; error_log stderr crit;\nevents {{}}\nhttp {{ access_log off;\n{temporary}{http}\n}}\n"
    );
    started("nginx", &text, address)
}

fn haproxy(rule: Rule, servers: &[(SocketAddr, u32)]) -> Site {
    let address = vacant();
    let list: String = servers
        .iter()
        .enumerate()
        .map(|(number, (server, weight))| {
            // That is also how long a check may take.
            format!(" server s{number} {server} weight {weight} check inter 2s fall 1\n")
        })
        .collect();
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 20s\n timeout client 60s\n timeout server 60s\n\
         frontend web\n bind {address}\n monitor-uri /alive\n acl down nbsrv(app) lt {}\n monitor fail if down\n default_backend app\n\
         backend app\n balance {}\n{list}",
        servers.len(),
        rule.haproxy
    );
    started("haproxy", &text, address)
}

fn ours(rule: Rule, servers: &[(SocketAddr, u32)]) -> Site {
    let list: Vec<_> =
        servers.iter().map(|(server, weight)| format!("{{ address: \"{server}\", weight: {weight} }}")).collect();
    let gate = Gate::start(&format!(
        "workers: 1\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\" }}\nupstreams:\n  app: {{ servers: [{}], balance: {}, ejection: {{ failures: 1, duration: 1h }} }}\n\
         routes:\n  - {{ upstream: app }}\n",
        list.join(", "),
        rule.ours
    ));
    Site { name: "portunus", address: gate.address("web"), _theirs: None, _ours: Some(gate) }
}

/// Starts a proxy before servers of these weights.
type Start = fn(Rule, &[(SocketAddr, u32)]) -> Site;

const ALL: [Start; 3] = [nginx, haproxy, ours];

fn ask(site: &Site, fields: &str) {
    let request = format!("GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    assert_eq!(statuses(&exchange(site.address, request.as_bytes())), [200], "{}", site.name);
}

fn counts(servers: &[Upstream]) -> Vec<usize> {
    let count = |server: &Upstream| server.seen().iter().filter(|seen| seen.line().starts_with("GET /r")).count();
    servers.iter().map(count).collect()
}

fn weighted(servers: &[Upstream], weights: &[u32]) -> Vec<(SocketAddr, u32)> {
    servers.iter().map(|server| server.address).zip(weights.iter().copied()).collect()
}

#[test]
fn in_turn_by_weight_all_give_each_server_the_same_number() {
    for start in ALL {
        let servers: Vec<_> = (0..3).map(|_| Upstream::ok()).collect();
        let site = start(IN_TURN, &weighted(&servers, &[1, 2, 5]));
        (0..80).for_each(|_| ask(&site, ""));
        assert_eq!(counts(&servers), [10, 20, 50], "{}", site.name);
    }
}

#[test]
fn the_share_of_a_server_that_is_down_goes_to_the_others_by_their_weight() {
    for start in ALL {
        let servers: Vec<_> = (0..2).map(|_| Upstream::ok()).collect();
        let mut list = weighted(&servers, &[1, 2]);
        list.push((vacant(), 5));
        let site = start(IN_TURN, &list);
        if site.name == "haproxy" {
            // It finds out by its checks.
            wait_until("the check to fail", || {
                let alive = exchange(site.address, b"GET /alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                statuses(&alive) == [503]
            });
        } else {
            // By the requests themselves, which go elsewhere.
            (0..8).for_each(|_| ask(&site, ""));
        }
        let before = counts(&servers);
        (0..60).for_each(|_| ask(&site, ""));
        let after: Vec<_> = counts(&servers).iter().zip(before).map(|(after, before)| after - before).collect();
        assert!(after[0].abs_diff(20) <= 1 && after[1].abs_diff(40) <= 1, "{}: {after:?}", site.name);
    }
}

#[test]
fn by_load_requests_under_way_are_in_proportion_to_weights() {
    for start in ALL {
        let servers: Vec<_> = (0..3)
            .map(|_| {
                Upstream::start(|seen| match seen.line().starts_with("GET /r") {
                    true => Reply::Silence,
                    false => Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
                })
            })
            .collect();
        let site = start(LEAST, &weighted(&servers, &[1, 2, 3]));
        let mut held = Vec::new();
        for number in 1..=30 {
            let mut client = connect(site.address);
            client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            held.push(client);
            wait_until("the request", || counts(&servers).iter().sum::<usize>() == number);
        }
        let counts = counts(&servers);
        let is_fair = counts.iter().zip([5_usize, 10, 15]).all(|(count, wanted)| count.abs_diff(wanted) <= 1);
        assert!(is_fair, "{}: {counts:?}", site.name);
    }
}

#[test]
fn of_two_random_servers_none_is_preferred() {
    for start in ALL {
        let servers: Vec<_> = (0..3).map(|_| Upstream::ok()).collect();
        let site = start(RANDOM, &weighted(&servers, &[1, 1, 1]));
        let mut client = connect(site.address);
        for _ in 0..600 {
            client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            read_response(&mut client);
        }
        // Six times the standard deviation beyond what they have on average, which is not the same for each with HAProxy: 177, 211 and 212.
        let counts = counts(&servers);
        let most = if site.name == "portunus" { 70 } else { 100 };
        assert!(counts.iter().all(|count| count.abs_diff(200) < most), "{}: {counts:?}", site.name);
    }
}

#[test]
fn by_hash_a_value_stays_when_another_server_goes() {
    const KEYS: usize = 300;
    for start in ALL {
        let servers: Vec<_> = (0..5).map(|_| Upstream::ok()).collect();
        let places = |servers: &[Upstream]| {
            let site = start(HASH, &weighted(servers, &[1; 5]));
            let before = counts(servers);
            (0..KEYS).for_each(|key| ask(&site, &format!("X-Key: key-{key}\r\n")));
            let mut places = vec![usize::MAX; KEYS];
            for (server, (upstream, before)) in servers.iter().zip(before).enumerate() {
                let seen: Vec<_> =
                    upstream.seen().into_iter().filter(|seen| seen.line().starts_with("GET /r")).collect();
                for seen in &seen[before..] {
                    places[seen.fields("x-key")[0][4..].parse::<usize>().unwrap()] = server;
                }
            }
            (places, site.name)
        };
        let (all, name) = places(&servers);
        assert_eq!(places(&servers).0, all, "{name}: another process makes the same choice");
        let without = places(&servers[..4]).0;
        let stayed = all.iter().zip(&without).filter(|(one, _)| **one != 4);
        let moved = stayed.clone().filter(|(one, other)| one != other).count();
        // Rings move none, Maglev few.
        assert!(moved * 20 <= stayed.count(), "{name}: {moved} moved");
        let of = |server: usize| all.iter().filter(|place| **place == server).count();
        let (least, most) = ((0..5).map(of).min().unwrap(), (0..5).map(of).max().unwrap());
        if name == "portunus" {
            // As even as chance lets it be: seven times the standard deviation. Rings are not.
            assert!(least > 12 && most < 110, "{least} to {most}");
        }
    }
}
