//! Rates that nodes share by a real Redis (Debian package redis-server): several processes, one limit. Unless a test is about the pace, a rate is one request in an
//! hour, so that nothing depends on how long it takes.
#![allow(clippy::disallowed_methods, reason = "tests poll, and measure nothing")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::{Gate, certificates, connect, exchange, read_response, vacant, wait_until};

const SECRET: &str = "a secret that all nodes share";
const PASSWORD: &str = "open:sesame-4711";

/// What a user of the store needs to be allowed.
const USER: &str =
    "portunus on >open:sesame-4711 ~portunus:* resetchannels -@all +auth +ping +select +eval +get +set +time";

/// A running Redis; killed when dropped.
struct Store {
    child: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Store {
    fn start(more: &[&str]) -> Store {
        Store::start_at(vacant(), tempfile::tempdir().unwrap(), more)
    }

    fn start_at(address: SocketAddr, dir: TempDir, more: &[&str]) -> Store {
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let mut command = Command::new("redis-server");
        command.args(["--bind", &ip, "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"]).arg(dir.path());
        if !more.contains(&"--tls-port") {
            command.args(["--port", &port]);
        }
        let log = std::fs::File::create(dir.path().join("redis.log")).unwrap();
        command.args(more).stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
        let child = command.spawn().expect("redis-server is missing; install the Debian package redis-server");
        wait_until("Redis", || TcpStream::connect(address).is_ok());
        Store { child, address, _dir: dir }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Kills it; gives where it was.
    fn kill(mut self) -> SocketAddr {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.address
    }

    /// Sends a command, and gives all that comes until there is silence.
    fn ask(&self, parts: &[&str]) -> String {
        let mut stream = connect(self.address);
        send(&mut stream, parts);
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(stream: &mut TcpStream, parts: &[&str]) {
    let mut out = Vec::new();
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    wire::resp::put_command(&parts, &mut out);
    stream.write_all(&out).unwrap();
}

/// A node whose limit is `rate`, for each value of X-Key.
fn node(store: SocketAddr, rate: &str, nodes: usize, more: &str) -> Gate {
    node_in(tempfile::tempdir().unwrap(), store, rate, nodes, more)
}

fn node_in(dir: TempDir, store: SocketAddr, rate: &str, nodes: usize, more: &str) -> Gate {
    std::fs::write(dir.path().join("secret"), SECRET).unwrap();
    std::fs::write(dir.path().join("password"), PASSWORD).unwrap();
    // A store that is only slow is not away.
    let timeout = if more.contains("timeout:") { "" } else { ", timeout: 10s" };
    Gate::start_in(
        dir,
        &format!(
            "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
routes:
  - {{ path: \"/{{*rest}}\", policies: [shared], respond: {{ status: 204 }} }}
policies:
  shared: {{ rate_limit: {{ {rate}, key: {{ header: X-Key }}, scope: fleet }} }}
rate_store: {{ address: \"{store}\", nodes: {nodes}, secret: {{ file: secret }}{timeout}{more} }}
admin: {{ bind: \"127.0.0.2:0\" }}
"
        ),
    )
}

/// How many of so many requests with this key pass.
fn passed(node: &Gate, key: &str, requests: usize) -> usize {
    let mut client = connect(node.address("web"));
    (0..requests).filter(|_| ask(&mut client, key)).count()
}

/// Whether a request passes.
fn ask(client: &mut TcpStream, key: &str) -> bool {
    client.write_all(format!("GET / HTTP/1.1\r\nHost: x\r\nX-Key: {key}\r\n\r\n").as_bytes()).unwrap();
    let (head, _) = read_response(client);
    match head.get(9..12) {
        Some("204") => true,
        Some("429") => false,
        _ => panic!("{head}"),
    }
}

fn metric(node: &Gate, name: &str) -> f64 {
    let page = node.metrics();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(f64::NAN, |value| value.trim().parse().unwrap())
}

fn readiness(node: &Gate) -> String {
    let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    String::from_utf8_lossy(&exchange(node.address("admin"), request)).into_owned()
}

fn until_in_touch(node: &Gate, is_in_touch: bool) {
    let expected = if is_in_touch { 1.0 } else { 0.0 };
    wait_until("word of the store", || metric(node, "portunus_rate_store_up") == expected);
}

/// Waits until a node has reported all that it let pass so far, and so has learned of it what others did.
fn until_reported(node: &Gate) {
    let exchanges = || metric(node, "portunus_rate_store_exchanges_total{result=\"success\"}");
    // One may be under way already.
    let before = exchanges();
    wait_until("an exchange", || exchanges() >= before + 2.0);
}

#[test]
fn three_nodes_share_a_limit() {
    let store = Store::start(&[]);
    let nodes: Vec<Gate> = (0..3).map(|_| node(store.address, "rate: 3/h, burst: 30", 3, "")).collect();
    nodes.iter().for_each(|node| until_in_touch(node, true));
    assert_eq!(passed(&nodes[0], "a", 10), 10);
    until_reported(&nodes[0]);
    // Who knows nothing of a key lets one pass, and learns.
    assert_eq!(passed(&nodes[1], "a", 1), 1);
    until_reported(&nodes[1]);
    assert_eq!(passed(&nodes[1], "a", 40), 19, "10 + 1 + 19 are the burst");
    until_reported(&nodes[1]);
    assert_eq!(passed(&nodes[2], "a", 1), 1);
    until_reported(&nodes[2]);
    assert_eq!(passed(&nodes[2], "a", 20), 0);
    // Another key is another matter.
    assert_eq!(passed(&nodes[2], "b", 20), 20);
    assert!(readiness(&nodes[0]).ends_with("ready\n"), "{}", readiness(&nodes[0]));
    assert!(nodes.iter().all(|node| metric(node, "portunus_rate_store_waiting_keys") == 0.0));
}

#[test]
fn what_is_shared_outlives_a_reload_and_ends_with_its_secret() {
    let store = Store::start(&[]);
    let first = node(store.address, "rate: 1/h, burst: 5", 2, "");
    until_in_touch(&first, true);
    assert_eq!(passed(&first, "a", 3), 3);
    until_reported(&first);
    first.signal("HUP");
    first.wait_for("reload");
    assert_eq!(passed(&first, "a", 5), 2);
    until_reported(&first);
    // A node with another secret hashes otherwise, and so counts apart instead of somebody else's.
    let dir = tempfile::tempdir().unwrap();
    let other = node_in(dir, store.address, "rate: 1/h, burst: 5", 2, "");
    std::fs::write(other.dir.path().join("secret"), "another secret of enough bytes").unwrap();
    other.signal("HUP");
    other.wait_for("reload");
    until_in_touch(&other, true);
    assert_eq!(passed(&other, "a", 1), 1);
    until_reported(&other);
    assert_eq!(passed(&other, "a", 10), 4);
}

#[test]
fn a_store_that_is_killed_leaves_each_node_its_part_and_loses_nothing() {
    let store = Store::start(&[]);
    let nodes: Vec<Gate> = (0..3).map(|_| node(store.address, "rate: 3/h, burst: 30", 3, "")).collect();
    nodes.iter().for_each(|node| until_in_touch(node, true));
    assert_eq!(passed(&nodes[0], "before", 30), 30);
    until_reported(&nodes[0]);
    let address = store.kill();
    nodes.iter().for_each(|node| until_in_touch(node, false));
    nodes[0].wait_for("the store is away, each node has its part of a limit");
    let page = readiness(&nodes[0]);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("store is away, each node has 1/3 of a limit"), "{page}");
    let counts: Vec<usize> = nodes.iter().map(|node| passed(node, "during", 20)).collect();
    assert_eq!(counts, [10, 10, 10], "a third each");
    assert_eq!(passed(&nodes[0], "before", 1), 0, "what was counted before still counts");
    assert_eq!(passed(&nodes[1], "alone", 20), 10);

    // It comes back empty. What each node knows is there again, and only that.
    let _store = Store::start_at(address, tempfile::tempdir().unwrap(), &[]);
    nodes.iter().for_each(|node| until_in_touch(node, true));
    until_reported(&nodes[1]);
    assert_eq!(passed(&nodes[0], "alone", 1), 1, "it had not heard of it");
    until_reported(&nodes[0]);
    assert_eq!(passed(&nodes[0], "alone", 10), 0);
    assert_eq!(passed(&nodes[2], "during", 1), 0);
    assert!(readiness(&nodes[0]).ends_with("\r\nready\n"), "{}", readiness(&nodes[0]));
}

#[test]
fn a_store_that_is_frozen_holds_up_no_request() {
    let store = Store::start(&[]);
    let node = node(store.address, "rate: 100000/s, burst: 1000000", 2, "");
    until_in_touch(&node, true);
    store.signal("STOP");
    let (mut client, frozen, mut served) = (connect(node.address("web")), Instant::now(), 0);
    let is_up = || metric(&node, "portunus_rate_store_up") != 0.0;
    while is_up() {
        // By then an exchange hangs, and whom it holds up is served when it is over: the store is away then.
        let hangs = frozen.elapsed() > Duration::from_secs(1);
        assert!(ask(&mut client, "a"));
        served += usize::from(hangs && is_up());
    }
    assert!(served > 20, "{served} requests");
    node.wait_for("no response in 10s");
    store.signal("CONT");
    until_in_touch(&node, true);
}

#[test]
fn tls_a_user_and_a_database_are_used_and_a_wrong_password_is_said_without_it() {
    let dir = certificates(&[("valkey.test", false)]);
    let pair = std::fs::read_dir(dir.path().join("certs")).unwrap().next().unwrap().unwrap().path();
    let (pair, ca) = (pair.display().to_string(), dir.path().join("ca.pem").display().to_string());
    let address = vacant();
    let port = address.port().to_string();
    let tls = [
        "--port",
        "0",
        "--tls-port",
        &port,
        "--tls-cert-file",
        &pair,
        "--tls-key-file",
        &pair,
        "--tls-auth-clients",
        "no",
    ];
    let user = std::iter::once("--user").chain(USER.split(' ')).chain(["--user", "default", "off"]);
    let more: Vec<&str> = tls.into_iter().chain(user).collect();
    let store = Store::start_at(address, tempfile::tempdir().unwrap(), &more);
    let settings = |user: &str| {
        format!(
            ", tls: {{ ca: \"{ca}\", server_name: valkey.test }}, user: {user}, password: {{ file: password }}, database: 3"
        )
    };
    let nodes: Vec<Gate> =
        (0..2).map(|_| node(store.address, "rate: 1/h, burst: 4", 2, &settings("portunus"))).collect();
    nodes.iter().for_each(|node| until_in_touch(node, true));
    assert_eq!(passed(&nodes[0], "a", 3), 3);
    until_reported(&nodes[0]);
    assert_eq!(passed(&nodes[1], "a", 1), 1);
    until_reported(&nodes[1]);
    assert_eq!(passed(&nodes[1], "a", 9), 0);

    let wrong = node(store.address, "rate: 1/h, burst: 4", 2, &settings("somebody"));
    wrong.wait_for("the store does not accept the password: WRONGPASS");
    assert_eq!(passed(&wrong, "a", 9), 2, "half of the burst");
    let text = wrong.diagnostics().join("\n") + &wrong.metrics() + &readiness(&wrong);
    assert!(!text.contains(PASSWORD), "{text}");
    // Its certificate is verified.
    let unknown = node(
        store.address,
        "rate: 1/h, burst: 4",
        2,
        ", tls: { server_name: valkey.test }, password: { file: password }",
    );
    unknown.wait_for("upstream_certificate");
    assert_eq!(passed(&unknown, "a", 9), 2);
}

#[test]
fn a_store_learns_no_value_of_a_key() {
    let store = Store::start(&[]);
    let mut monitor = connect(store.address);
    send(&mut monitor, &["MONITOR"]);
    let node = node(store.address, "rate: 1/h, burst: 5", 2, ", prefix: \"{edge}\"");
    until_in_touch(&node, true);
    assert_eq!(passed(&node, "token-of-a-customer", 2), 2);
    until_reported(&node);
    let keys = store.ask(&["KEYS", "*"]);
    let names: Vec<&str> = keys.lines().filter(|line| line.starts_with("{edge}:")).collect();
    assert_eq!(names.len(), 2, "{keys}");
    let is_hex = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for name in names {
        match name.split(':').collect::<Vec<_>>()[1..] {
            ["node", id] => assert!(is_hex(id, 16), "{name}"),
            ["rate", rate, key] => assert!(is_hex(rate, 16) && is_hex(key, 11), "{name}"),
            _ => panic!("{name}"),
        }
    }
    // Nothing stays for ever.
    let left = store.ask(&["EVAL", "local out = {} for _, key in ipairs(redis.call('KEYS', '*')) do out[#out + 1] = redis.call('PTTL', key) end return out", "0"]);
    assert!(
        left.lines().skip(1).all(|line| line.strip_prefix(':').is_some_and(|time| time.parse::<u64>().is_ok())),
        "{left}"
    );
    let (mut seen, mut buffer) = (Vec::new(), [0; 65536]);
    // What it shows is over with the first sign of life after the message.
    while !String::from_utf8_lossy(&seen).contains("{edge}:rate:") || !seen.ends_with(b"\"PING\"\r\n") {
        let count = monitor.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..count]);
    }
    let seen = String::from_utf8_lossy(&seen);
    assert!(!seen.contains("token-of-a-customer") && !seen.contains(SECRET), "{seen}");
}

/// What a node says again since it heard no reply is charged once; and a message that is late is not.
#[test]
fn a_message_is_charged_once() {
    const SCRIPT: &str = include_str!("../../../proxy/src/background/rate_store/charge.lua");
    let store = Store::start(&[]);
    let say = |node: &str, number: &str, cost: &str, own: &str| -> u64 {
        let reply = store.ask(&["EVAL", SCRIPT, "2", node, "key", number, "0", "5000000000", cost, own]);
        let number = reply.strip_prefix("*1\r\n:").unwrap_or_else(|| panic!("{reply}")).trim();
        number.parse::<u64>().unwrap() / 100_000_000
    };
    // By now a little of what was charged before is over.
    assert_eq!(say("n:1", "1", "1000000000", "0"), 10);
    assert_eq!(say("n:1", "1", "1000000000", "0"), 9, "again");
    assert_eq!(say("n:2", "1", "1000000000", "0"), 19, "another node");
    assert_eq!(say("n:1", "2", "1000000000", "0"), 29);
    assert_eq!(say("n:1", "1", "1000000000", "0"), 29, "late");
    // What a node knows of all is there at least, and nothing is beyond the bound.
    assert_eq!(say("n:3", "1", "0", "4000000000"), 40);
    assert_eq!(say("n:3", "2", "0", "4000000000"), 40);
    assert_eq!(say("n:3", "3", "4000000000", "0"), 50);
    // Whatever somebody else wrote there.
    store.ask(&["SET", "key", "what?"]);
    store.ask(&["SET", "n:3", "what?"]);
    assert_eq!(say("n:3", "4", "1000000000", "0"), 10);
}

/// Each connection gets the next of these, once `speaks` says so; until then it is closed.
fn hostile(replies: Vec<Vec<u8>>, speaks: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, speaks) = (listener.local_addr().unwrap(), Arc::clone(speaks));
    std::thread::spawn(move || {
        let mut replies = replies.iter().cycle();
        while let Ok((mut stream, _)) = listener.accept() {
            if speaks.load(Ordering::SeqCst) {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(replies.next().unwrap());
            }
        }
    });
    address
}

fn resident_kib(node: &Gate) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_hostile_store_costs_nothing_but_its_help() {
    let replies = [
        b"$9223372036854775807\r\n".to_vec(),
        b"*2147483647\r\n".repeat(1_000),
        b"*1\r\n".repeat(1_000_000),
        vec![b'a'; 1 << 20],
        [b"+".to_vec(), vec![b'a'; 1 << 20]].concat(),
        b"$4096\r\n".to_vec(),
        b"+PONG\r\n".repeat(100_000),
        b":-1\r\n".to_vec(),
        b"-ERR \x1b[31m\r\n".to_vec(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        Vec::new(),
    ];
    let (count, speaks) = (replies.len() as f64, Arc::new(AtomicBool::new(false)));
    let store = hostile(replies.to_vec(), &speaks);
    let node = node(store, "rate: 1/h, burst: 10", 2, ", interval: 50ms, timeout: 200ms");
    assert_eq!(passed(&node, "a", 20), 5, "half of the burst");
    let before = resident_kib(&node);
    // Only now: before there was something to report, one of them would have been a good reply.
    speaks.store(true, Ordering::SeqCst);
    let failures = || metric(&node, "portunus_rate_store_exchanges_total{result=\"failure\"}");
    wait_until("a failure", || failures() > 0.0);
    let failed = failures();
    wait_until("each of them", || failures() > failed + count + 2.0);
    assert_eq!(passed(&node, "b", 20), 5);
    let after = resident_kib(&node);
    assert!(after < before + 16 * 1024, "{before} KiB before, {after} KiB after");
    assert!(node.diagnostics().iter().all(|line| !line.contains('\x1b')), "{:#?}", node.diagnostics());
}

/// How far what passes is from the limit, for so many nodes under so many times more than it. With `SHARED_RATES_SECONDS=10` it takes minutes, and prints what the guide
/// shows.
#[test]
fn what_passes_under_load_is_the_rate() {
    let seconds = std::env::var("SHARED_RATES_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let many = [(1, 2.0), (2, 0.5), (2, 2.0), (2, 10.0), (3, 2.0), (3, 10.0), (5, 4.0)];
    for &(nodes, load) in if seconds > 5.0 { &many[..] } else { &many[4..5] } {
        for is_skewed in [false, true] {
            // Again where it is not and the machine stood still, since a store that does shares nothing.
            let is_near = (0..3).any(|_| {
                let (is_near, stood) = is_near_the_rate(nodes, load, is_skewed, seconds);
                assert!(is_near || stood > 0.5, "{nodes} nodes");
                is_near
            });
            assert!(is_near, "{nodes} nodes");
        }
    }
}

fn is_near_the_rate(nodes: usize, load: f64, is_skewed: bool, seconds: f64) -> (bool, f64) {
    let Passed { asked, passed, took, stood } = under_load(nodes, load, is_skewed, seconds);
    let wanted = (RATE * took).min(asked);
    let off = (passed / wanted - 1.0) * 100.0;
    println!(
        "{nodes} nodes, {load} x: skewed {is_skewed}, asked {asked}, {passed} passed in {took:.1} s, {off:+.1} %; some stood still for {stood:.1} s"
    );
    // While clients stand still, nobody uses what a rate would let pass.
    let least = (RATE * (took - stood).max(0.0)).min(asked) * 0.8;
    // At the beginning each node may let a burst of a tenth of a second pass, and in the time of two exchanges what the others have let pass, too.
    let most = wanted + nodes as f64 * RATE * 0.5 + RATE;
    ((least..most).contains(&passed), stood)
}

/// Requests per second that may pass.
const RATE: f64 = 200.0;

/// What became of requests in so many seconds, in some of which clients or their nodes stood still.
struct Passed {
    asked: f64,
    passed: f64,
    took: f64,
    stood: f64,
}

/// A client that stands still for no longer than that leaves nothing of a burst unused.
const STEP: Duration = Duration::from_millis(50);

/// Asks nodes for so many times more than may pass. Skewed: the first one gets most of it.
fn under_load(count: usize, load: f64, is_skewed: bool, seconds: f64) -> Passed {
    let store = Store::start(&[]);
    let nodes: Vec<Gate> = (0..count).map(|_| node(store.address, "rate: 200/s, burst: 20", count, "")).collect();
    nodes.iter().for_each(|node| until_in_touch(node, true));
    let (total, is_over, began) = (Mutex::new((0, 0, Duration::ZERO)), AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        for (index, node) in nodes.iter().enumerate() {
            let share = match (is_skewed && count > 1, index) {
                (true, 0) => 0.8,
                (true, _) => 0.2 / (count - 1) as f64,
                (false, _) => 1.0 / count as f64,
            };
            let (total, is_over) = (&total, &is_over);
            scope.spawn(move || {
                let (mut client, mut asked, mut passed) = (Pipelined::to(node), 0, 0);
                let (mut last, mut stood) = (began, Duration::ZERO);
                while !is_over.load(Ordering::Relaxed) {
                    let due = (began.elapsed().as_secs_f64() * RATE * load * share) as usize;
                    let several = due.saturating_sub(asked).min(16);
                    passed += client.ask(several);
                    asked += several;
                    std::thread::sleep(Duration::from_millis(2));
                    let now = Instant::now();
                    stood += (now - last).saturating_sub(STEP);
                    last = now;
                }
                let mut total = total.lock().unwrap();
                *total = (total.0 + asked, total.1 + passed, total.2 + stood);
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        is_over.store(true, Ordering::Relaxed);
    });
    let took = began.elapsed().as_secs_f64();
    let (asked, passed, stood) = total.into_inner().unwrap();
    Passed { asked: asked as f64, passed: passed as f64, took, stood: stood.as_secs_f64() }
}

/// A client that sends several requests at once.
struct Pipelined {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Pipelined {
    fn to(node: &Gate) -> Pipelined {
        Pipelined { stream: connect(node.address("web")), received: Vec::new() }
    }

    /// How many of so many requests pass.
    fn ask(&mut self, requests: usize) -> usize {
        let request = "GET / HTTP/1.1\r\nHost: x\r\nX-Key: a\r\n\r\n".repeat(requests);
        self.stream.write_all(request.as_bytes()).unwrap();
        (0..requests).filter(|_| self.status() == "204").count()
    }

    fn status(&mut self) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.received).into_owned();
            if let Some(end) = text.find("\r\n\r\n") {
                let head = text[..end].to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let whole = end + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap());
                if text.len() >= whole {
                    self.received.drain(..whole);
                    return head[9..12].to_owned();
                }
            }
            let mut buffer = [0; 65536];
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the connection ended");
            self.received.extend_from_slice(&buffer[..count]);
        }
    }
}
