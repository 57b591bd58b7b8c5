//! Servers that directories name: etcd as Debian packages it, and stand-ins that speak Consul's and Docker's API, of which neither is packaged here.
#![allow(clippy::disallowed_methods, reason = "tests poll, and measure nothing")]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Gate, PATIENCE, Reply, Upstream, ask_on, connect, exchange, read_response, vacant, wait_until};

/// A change is in use sooner than that, since it is waited for: everything is asked for anew only after 48 seconds at the earliest.
const AT_ONCE: Duration = Duration::from_secs(45);

/// A server that says who it is.
fn named(name: &'static str) -> Upstream {
    Upstream::start(move |_| {
        Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).into_bytes())
    })
}

fn gate(directory: &str, server: &str) -> Gate {
    gate_in(tempfile::tempdir().unwrap(), directory, server)
}

fn gate_in(dir: TempDir, directory: &str, server: &str) -> Gate {
    Gate::start_in(
        dir,
        &format!(
            "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
discovery:
  registry: {{ {directory}, networks: [127.0.0.0/8] }}
upstreams:
  app: {{ servers: [{{ source: registry, service: app{server} }}] }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
admin: {{ bind: \"127.0.0.2:0\" }}
"
        ),
    )
}

/// Who serves four requests in a row, each name once; statuses of those that nobody serves.
fn servers(gate: &Gate) -> Vec<String> {
    let ask = |_| {
        let (head, body) = ask_on(gate.address("web"), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        if head.starts_with("HTTP/1.1 200") { String::from_utf8(body).unwrap() } else { head[9..12].to_owned() }
    };
    let mut names: Vec<String> = (0..4).map(ask).collect();
    names.sort();
    names.dedup();
    names
}

/// Waits until these serve, and nobody else; gives how long it took.
fn until_served_by(gate: &Gate, expected: &[&str]) -> Duration {
    let began = Instant::now();
    wait_until(&format!("{expected:?}"), || servers(gate) == expected);
    began.elapsed()
}

fn readiness(gate: &Gate) -> String {
    let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    String::from_utf8_lossy(&exchange(gate.address("admin"), request)).into_owned()
}

fn is_up(gate: &Gate) -> bool {
    gate.metrics().contains("portunus_discovery_up{source=\"registry\",upstream=\"app\"} 1")
}

/// What a stand-in for Consul knows.
#[derive(Default)]
struct Registry {
    state: Mutex<(u64, Vec<Value>)>,
    changed: Condvar,
    is_broken: AtomicBool,
    asked: AtomicUsize,
}

impl Registry {
    fn instance(address: SocketAddr) -> Value {
        json!({ "Node": { "Node": "n", "Address": address.ip().to_string() }, "Service": { "Service": "app", "Address": "", "Port": address.port(), "Weights": { "Passing": 1, "Warning": 1 } }, "Checks": [] })
    }

    fn set(&self, index: u64, servers: &[&Upstream]) {
        self.set_values(index, servers.iter().map(|server| Registry::instance(server.address)).collect());
    }

    fn set_values(&self, index: u64, values: Vec<Value>) {
        *self.state.lock().unwrap() = (index, values);
        self.changed.notify_all();
    }

    /// From now on it responds with an error, also to what it was asked before.
    fn break_down(&self) {
        // Under the lock, or a question that is about to wait would miss it.
        let state = self.state.lock().unwrap();
        self.is_broken.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    /// Serves it as Consul does: a question with an index waits until there is another one.
    fn serve(self: &Arc<Registry>) -> Upstream {
        let registry = Arc::clone(self);
        Upstream::start(move |seen| {
            registry.asked.fetch_add(1, Ordering::Relaxed);
            let known = seen
                .line()
                .split_once("index=")
                .and_then(|(_, rest)| rest.split(['&', ' ']).next()?.parse::<u64>().ok());
            let state = registry.state.lock().unwrap();
            let same =
                |state: &mut (u64, Vec<Value>)| known == Some(state.0) && !registry.is_broken.load(Ordering::Relaxed);
            let (state, _) = registry.changed.wait_timeout_while(state, 3 * PATIENCE, same).unwrap();
            if registry.is_broken.load(Ordering::Relaxed) {
                return Reply::Close(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec());
            }
            let body = serde_json::to_string(&state.1).unwrap();
            Reply::Close(format!("HTTP/1.1 200 OK\r\nX-Consul-Index: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", state.0, body.len()).into_bytes())
        })
    }
}

#[test]
fn consul_says_who_is_healthy_and_changes_are_in_use_within_a_second() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let registry = Arc::new(Registry::default());
    registry.set(10, &[&a, &b]);
    let consul = registry.serve();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "b1gs33cr3t").unwrap();
    let directory = format!("consul: {{ address: \"{}\", datacenter: eu, token: {{ file: token }} }}", consul.address);
    let gate = gate_in(dir, &directory, ", tag: v2");
    until_served_by(&gate, &["a", "b"]);
    let question = &consul.seen()[0];
    assert_eq!(question.line(), "GET /v1/health/service/app?passing=true&tag=v2&dc=eu HTTP/1.1");
    assert_eq!(question.fields("x-consul-token"), ["b1gs33cr3t"]);
    wait_until("the directory", || is_up(&gate));

    registry.set(11, &[&a, &b, &c]);
    let took = until_served_by(&gate, &["a", "b", "c"]);
    assert!(took < AT_ONCE, "{took:?}");
    registry.set(12, &[&c]);
    let took = until_served_by(&gate, &["c"]);
    assert!(took < AT_ONCE, "{took:?}");
    assert!(!gate.diagnostics().join("\n").contains("b1gs33cr3t"));

    // Nobody is healthy, and Consul says so.
    registry.set(13, &[]);
    until_served_by(&gate, &["503"]);
    registry.set(14, &[&a]);
    until_served_by(&gate, &["a"]);
    assert!(!gate.diagnostics().iter().any(|line| line.contains("reload")));
}

#[test]
fn who_is_known_serves_on_while_a_directory_is_away_or_has_forgotten() {
    let (a, b) = (named("a"), named("b"));
    let registry = Arc::new(Registry::default());
    registry.set(100, &[&a]);
    let consul = registry.serve();
    let gate = gate(&format!("consul: {{ address: \"{}\" }}", consul.address), "");
    until_served_by(&gate, &["a"]);
    registry.break_down();
    gate.wait_for("directory is away, the servers that are known stay in use: the response was 500");
    assert_eq!(servers(&gate), ["a"]);
    wait_until("its absence", || !is_up(&gate));
    let page = readiness(&gate);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("discovery: registry is away"), "{page}");

    // Set up anew, it knows of nobody.
    registry.set(3, &[]);
    registry.is_broken.store(false, Ordering::Relaxed);
    gate.wait_for("its index went backwards, and it knows no instance any more");
    assert_eq!(servers(&gate), ["a"]);
    registry.set(4, &[&b]);
    until_served_by(&gate, &["b"]);
    wait_until("the directory", || is_up(&gate) && readiness(&gate).ends_with("\r\nready\n"));

    // A reload that makes the upstream anew forgets nobody either.
    registry.break_down();
    wait_until("its absence", || !is_up(&gate));
    let text = std::fs::read_to_string(gate.dir.path().join("portunus.yaml")).unwrap();
    gate.rewrite(&text.replace("service: app }]", "service: app }], connect_timeout: 4s"));
    gate.signal("HUP");
    gate.wait_for("reload");
    assert_eq!(servers(&gate), ["b"]);
}

/// What is under way at a server that leaves goes on to its end.
#[test]
fn a_server_that_leaves_drops_nothing() {
    let slow = Upstream::start(|_| {
        Reply::Take(Box::new(|mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfir").unwrap();
            std::thread::sleep(Duration::from_secs(3));
            stream.write_all(b"st\n").unwrap();
        }))
    });
    let other = named("other");
    let registry = Arc::new(Registry::default());
    registry.set(1, &[&slow]);
    let consul = registry.serve();
    let gate = gate(&format!("consul: {{ address: \"{}\" }}", consul.address), "");
    gate.wait_for("servers of a service have changed");
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the request", || slow.seen().len() == 1);
    registry.set(2, &[&other]);
    until_served_by(&gate, &["other"]);
    let (head, body) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 200") && body == b"first\n", "{head}");
}

#[test]
fn what_a_hostile_directory_says_is_bounded_and_leads_nowhere() {
    let good = named("good");
    let turn = Arc::new(AtomicUsize::new(0));
    let (served, count) = (Arc::clone(&turn), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::clone(&count);
    let address = good.address;
    let consul = Upstream::start(move |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        let whole = |index: &str, body: String| {
            format!("HTTP/1.1 200 OK\r\n{index}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        let at = |address: &str| json!([{ "Node": { "Address": address }, "Service": { "Port": 80 } }]).to_string();
        let step = served.load(Ordering::Relaxed);
        let index = format!("X-Consul-Index: {}\r\n", 100 + asked.load(Ordering::Relaxed));
        Reply::Close(match step {
            0 => whole(&index, serde_json::to_string(&[Registry::instance(address)]).unwrap()),
            1 => whole(&index, "[".repeat(1_000_000)),
            2 => format!("HTTP/1.1 200 OK\r\n{index}Content-Length: 9999999999\r\n\r\n{}", " ".repeat(8 << 20))
                .into_bytes(),
            3 => whole("X-Consul-Index: 18446744073709551616\r\n", "[]".to_owned()),
            4 => whole("", "[]".to_owned()),
            5 => whole(&index, at("169.254.169.254")),
            6 => whole(&index, at("evil.example\u{1b}[31m")),
            _ => format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(10_000)).into_bytes(),
        })
    });
    let gate = gate(&format!("consul: {{ address: \"{}\" }}", consul.address), "");
    until_served_by(&gate, &["good"]);
    let since = Instant::now();
    let before = count.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(1));
    let asked = count.load(Ordering::Relaxed) - before;
    // The sleep may have been a long one.
    let time = since.elapsed();
    assert!(
        asked as u128 <= 1 + time.as_millis().div_ceil(100),
        "a directory that never waits is asked {asked} times in {time:?}"
    );
    for step in [1, 2, 3, 4, 7] {
        turn.store(step, Ordering::Relaxed);
        let before = count.load(Ordering::Relaxed);
        wait_until("two questions", || count.load(Ordering::Relaxed) >= before + 2);
        assert_eq!(servers(&gate), ["good"], "step {step}");
        turn.store(0, Ordering::Relaxed);
        wait_until("the directory", || is_up(&gate));
    }
    // It says who there is, and none of them can be.
    for (step, text) in [(5, "169.254.169.254:80: not an address"), (6, "is no address")] {
        turn.store(step, Ordering::Relaxed);
        gate.wait_for(text);
        until_served_by(&gate, &["503"]);
        turn.store(0, Ordering::Relaxed);
        until_served_by(&gate, &["good"]);
    }
    assert!(gate.diagnostics().iter().all(|line| !line.contains('\x1b')));
}

/// A stand-in for a Docker engine on a Unix socket.
struct Engine {
    containers: Arc<Mutex<Vec<Value>>>,
    listeners: Arc<Mutex<Vec<UnixStream>>>,
    questions: Arc<Mutex<Vec<String>>>,
}

impl Engine {
    fn serve(dir: &TempDir) -> Engine {
        let socket = UnixListener::bind(dir.path().join("docker.sock")).unwrap();
        let engine = Engine { containers: Arc::default(), listeners: Arc::default(), questions: Arc::default() };
        let (containers, listeners, questions) =
            (Arc::clone(&engine.containers), Arc::clone(&engine.listeners), Arc::clone(&engine.questions));
        std::thread::spawn(move || {
            for stream in socket.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        break;
                    }
                    head.push(byte[0]);
                }
                let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
                questions.lock().unwrap().push(line.clone());
                if line.starts_with("GET /events?") {
                    stream
                        .write_all(
                            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
                        )
                        .unwrap();
                    listeners.lock().unwrap().push(stream);
                } else {
                    let body = serde_json::to_string(&*containers.lock().unwrap()).unwrap();
                    let _ = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                }
            }
        });
        engine
    }

    fn container(server: &Upstream) -> Value {
        json!({ "Id": "0123456789abcdef", "Labels": { "portunus.service": "app" }, "State": "running", "Status": "Up 2 seconds", "Ports": [{ "PrivatePort": server.address.port(), "Type": "tcp" }], "NetworkSettings": { "Networks": { "bridge": { "IPAddress": server.address.ip().to_string() } } } })
    }

    /// Changes what runs, and reports it to whoever listens.
    fn set(&self, servers: &[&Upstream]) {
        *self.containers.lock().unwrap() = servers.iter().map(|server| Engine::container(server)).collect();
        let event = "{\"Type\":\"container\",\"Action\":\"start\"}\n";
        for stream in &mut *self.listeners.lock().unwrap() {
            let _ = write!(stream, "{:x}\r\n{event}\r\n", event.len());
        }
    }
}

#[test]
fn docker_says_which_containers_run() {
    let (a, b) = (named("a"), named("b"));
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::serve(&dir);
    engine.set(&[&a]);
    let gate = gate_in(dir, "docker: { address: \"unix:docker.sock\" }", "");
    until_served_by(&gate, &["a"]);
    let filter = "%22label%22%3A%5B%22portunus.service%3Dapp%22%5D";
    let questions = engine.questions.lock().unwrap().clone();
    // Where the engine is slow, it is asked for events more than once before.
    let list = questions.iter().position(|line| line.starts_with("GET /containers")).unwrap();
    assert_eq!(
        questions[list - 1],
        format!("GET /events?filters=%7B{filter}%2C%22type%22%3A%5B%22container%22%5D%7D HTTP/1.1")
    );
    assert_eq!(
        questions[list],
        format!("GET /containers/json?filters=%7B{filter}%2C%22status%22%3A%5B%22running%22%5D%7D HTTP/1.1")
    );
    engine.set(&[&a, &b]);
    let took = until_served_by(&gate, &["a", "b"]);
    assert!(took < AT_ONCE, "{took:?}");
    engine.set(&[&b]);
    until_served_by(&gate, &["b"]);
    // The engine is restarted: its containers run on.
    std::fs::remove_file(gate.dir.path().join("docker.sock")).unwrap();
    engine.listeners.lock().unwrap().clear();
    gate.wait_for("directory is away");
    assert_eq!(servers(&gate), ["b"]);
    let engine = Engine::serve_again(&gate);
    engine.set(&[&a]);
    until_served_by(&gate, &["a"]);
    wait_until("the engine", || is_up(&gate));
}

impl Engine {
    fn serve_again(gate: &Gate) -> Engine {
        // The folder is the gate's.
        let link = tempfile::tempdir().unwrap();
        let engine = Engine::serve(&link);
        std::fs::rename(link.path().join("docker.sock"), gate.dir.path().join("docker.sock")).unwrap();
        engine
    }
}

/// A running etcd; killed when dropped.
struct Etcd {
    child: Child,
    address: SocketAddr,
    dir: Option<TempDir>,
}

impl Etcd {
    fn start() -> Etcd {
        Etcd::start_at(vacant(), tempfile::tempdir().unwrap())
    }

    fn start_at(address: SocketAddr, dir: TempDir) -> Etcd {
        let (own, peer) = (format!("http://{address}"), format!("http://{}", vacant()));
        let log = std::fs::File::create(dir.path().join("etcd.log")).unwrap();
        let child = Command::new("etcd")
            .args(["--name", "a", "--listen-client-urls", &own, "--advertise-client-urls", &own])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &format!("a={peer}"),
            ])
            .arg("--unsafe-no-fsync")
            .args(["--data-dir", dir.path().join("data").to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd is missing; install the Debian package etcd-server");
        let etcd = Etcd { child, address, dir: Some(dir) };
        wait_until("etcd", || {
            std::net::TcpStream::connect(address).is_ok()
                && etcd.call("/v3/kv/range", json!({ "key": "YQ==" })).is_some()
        });
        etcd
    }

    fn call(&self, path: &str, question: Value) -> Option<Value> {
        let body = question.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let response = exchange(self.address, request.as_bytes());
        let text = String::from_utf8_lossy(&response);
        let (head, body) = text.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).unwrap())
    }

    /// Registers a server, with a lease of so many seconds.
    fn register(&self, name: &str, server: &Upstream, seconds: u64) -> String {
        let mut lease = None;
        wait_until("the registration", || {
            lease = self.try_register(name, server, seconds);
            lease.is_some()
        });
        lease.unwrap()
    }

    /// The same, unless the lease has run out before it is used, or etcd is too slow for its own limits.
    fn try_register(&self, name: &str, server: &Upstream, seconds: u64) -> Option<String> {
        let granted = self.call("/v3/lease/grant", json!({ "TTL": seconds.to_string() }))?;
        let lease = granted["ID"].as_str().unwrap().to_owned();
        let value = server.address.to_string();
        let put = json!({ "key": base64(&format!("/services/app/{name}")), "value": base64(&value), "lease": lease });
        self.call("/v3/kv/put", put).map(|_| lease)
    }

    fn kill(mut self) -> (SocketAddr, TempDir) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.address, self.dir.take().unwrap())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn base64(text: &str) -> String {
    let mut out = Vec::new();
    proxy::auth::base64url::encode_base64(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn etcd_says_who_has_registered_and_forgets_who_lets_a_lease_end() {
    let (a, b) = (named("a"), named("b"));
    let etcd = Etcd::start();
    etcd.register("one", &a, 600);
    let gate = gate(&format!("etcd: {{ addresses: [\"{}\", \"{}\"] }}", vacant(), etcd.address), "");
    until_served_by(&gate, &["a"]);
    let lease = etcd.register("two", &b, 600);
    let took = until_served_by(&gate, &["a", "b"]);
    assert!(took < AT_ONCE, "{took:?}");
    // As it is when a lease runs out, only at a known time.
    etcd.call("/v3/lease/revoke", json!({ "ID": lease })).unwrap();
    let took = until_served_by(&gate, &["a"]);
    assert!(took < AT_ONCE, "{took:?}");
    // Again until it is seen, however soon the lease runs out; then it does.
    wait_until("both", || {
        etcd.register("three", &b, 3);
        servers(&gate) == ["a", "b"]
    });
    until_served_by(&gate, &["a"]);

    let (address, dir) = etcd.kill();
    gate.wait_for("directory is away");
    assert_eq!(servers(&gate), ["a"]);
    // Its data are lost, too.
    drop(dir);
    let etcd = Etcd::start_at(address, tempfile::tempdir().unwrap());
    gate.wait_for("its revision went backwards, and it knows no server any more");
    assert_eq!(servers(&gate), ["a"]);
    etcd.register("two", &b, 600);
    until_served_by(&gate, &["b"]);
    wait_until("etcd", || is_up(&gate));
}
