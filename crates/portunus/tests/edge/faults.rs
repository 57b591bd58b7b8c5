//! What breaks around the gate: upstreams, the log's target, descriptors. Checked by what was lost, doubled or cut, never by time.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use super::{ask, get, metric, yaml};
use crate::harness::{
    Gate, Reply, Upstream, connect, exchange, read_response, read_to_end, statuses, vacant, wait_until,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

fn status(response: &str) -> u16 {
    response.get(9..12).unwrap_or_else(|| panic!("no response: {response:?}")).parse().unwrap()
}

/// Serves one connection with one request on it, then is gone: nothing listens any more.
fn serve_one_and_die(listener: TcpListener) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(OK).unwrap();
    })
}

#[test]
fn an_upstream_that_died_is_used_again_when_it_is_back() {
    let listener = TcpListener::bind(vacant()).unwrap();
    let address = listener.local_addr().unwrap();
    let other = Upstream::ok();
    let ejection = "], ejection: { failures: 2, duration: 100ms }";
    let config = yaml(&other, "", "").replace(&other.address.to_string(), &address.to_string()).replace(']', ejection);
    let gate = Gate::start(&config);
    let dead = serve_one_and_die(listener);
    assert_eq!(status(&get(gate.address("web"))), 200);
    dead.join().unwrap();
    for _ in 0..4 {
        let rejected = status(&get(gate.address("web")));
        assert!(matches!(rejected, 502 | 503), "{rejected}");
    }
    let log = gate.log(5);
    assert!(log[1..].iter().all(|line| line["fault"] == "upstream"), "{log:?}");
    let mut listener = None;
    // A process that was just forked may have the one before until it runs its program.
    wait_until("the address to be free", || {
        listener = TcpListener::bind(address).ok();
        listener.is_some()
    });
    let listener = listener.unwrap();
    let back = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(OK).unwrap();
    });
    wait_until("the server to be used again", || status(&get(gate.address("web"))) == 200);
    back.join().unwrap();
}

#[test]
fn a_request_that_is_not_idempotent_is_never_sent_twice() {
    // Reads the request and resets: whether it was executed nobody knows.
    let (first, second) =
        (Upstream::start(|_| Reply::Reset(Vec::new())), Upstream::start(|_| Reply::Reset(Vec::new())));
    let both = format!("{}\", \"{}", first.address, second.address);
    let gate = Gate::start(&yaml(&first, "", "").replace(&first.address.to_string(), &both));
    let sent = || first.seen().len() + second.seen().len();
    for number in 1..=4 {
        assert_eq!(status(&ask(gate.address("web"), "POST /", "Host: x\r\nContent-Length: 0\r\n")), 502);
        assert_eq!(sent(), number);
    }
    let before = sent();
    assert_eq!(status(&get(gate.address("web"))), 502);
    assert!(sent() <= before + 2, "an idempotent one may be tried once at each server");
}

#[test]
fn a_frozen_upstream_is_given_up_at_the_deadline_and_harms_no_other() {
    let (frozen, well) = (Upstream::start(|_| Reply::Silence), Upstream::ok());
    let more = format!("  - {{ path: \"/well/{{*rest}}\", upstream: well }}\n{}", "admin: {");
    let config = yaml(&frozen, "", "")
        .replace("admin: {", &more)
        .replace("upstreams:\n", &format!("upstreams:\n  well: {{ servers: [\"{}\"] }}\n", well.address));
    let gate = Gate::start(&config.replace("\"] }\nroutes", "\"], response_header_timeout: 300ms }\nroutes"));
    let mut client = connect(gate.address("web"));
    for number in 1..=2 {
        client.write_all(REQUEST).unwrap();
        assert_eq!(status(&read_response(&mut client).0), 504);
        // It may read the request after that.
        wait_until("the request upstream", || frozen.seen().len() >= number);
        assert_eq!(frozen.seen().len(), number, "a late response is no reason to ask again");
        client.write_all(b"GET /well/x HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        assert_eq!(status(&read_response(&mut client).0), 200, "the client's connection lives on");
    }
    let connections: Vec<usize> = frozen.seen().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 1], "a connection that owes a response is never used again");
    let log = gate.log(4);
    let line = log.iter().find(|line| line["status"] == 504).unwrap();
    assert_eq!(line["fault"], "upstream", "{line}");
}

#[test]
fn an_response_that_was_cut_never_looks_whole() {
    const PIECES: [&str; 3] = [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes.",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nten bytes.\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nten bytes.",
    ];
    for piece in PIECES {
        for reset in [false, true] {
            let upstream = Upstream::start(move |_| match reset {
                false => Reply::Close(piece.into()),
                true => Reply::Reset(piece.into()),
            });
            let gate = Gate::start(&yaml(&upstream, "", ""));
            let mut client = connect(gate.address("web"));
            client.write_all(REQUEST).unwrap();
            let response = String::from_utf8(read_to_end(&mut client)).unwrap();
            assert!(!response.contains("\r\n0\r\n"), "{response:?}");
            if response.starts_with("HTTP/1.1 200 ") {
                let declared = response.to_ascii_lowercase().contains("content-length: 100");
                assert!(declared || response.to_ascii_lowercase().contains("chunked"), "{response:?}");
            } else if !response.is_empty() {
                // Nothing at all, on a connection that is reset, looks like what it is, too.
                assert_eq!(statuses(response.as_bytes()), [502], "{response:?}");
            }
            assert_eq!(gate.log(1)[0]["fault"], "upstream");
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_stops_no_traffic() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&yaml(&upstream, "", "log: { access: { output: /dev/full } }"));
    let mut client = connect(gate.address("web"));
    for _ in 0..50 {
        client.write_all(REQUEST).unwrap();
        assert_eq!(status(&read_response(&mut client).0), 200);
    }
    gate.wait_for("cannot write; lines that do not fit into memory will be lost");
    client.write_all(REQUEST).unwrap();
    assert_eq!(status(&read_response(&mut client).0), 200);
    assert_eq!(metric(&gate, "portunus_log_lines_written_total"), Some(0.0));
    drop(client);
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn a_log_that_was_moved_away_is_opened_again_without_a_line_lost() {
    let upstream = Upstream::ok();
    // The log lies beside the configuration.
    let gate = Gate::start(&yaml(&upstream, "", "sandbox: { write: . }"));
    let log = |name: &str| gate.dir.path().join(name);
    let mut client = connect(gate.address("web"));
    let mut sent = 0;
    for round in 0..5 {
        for _ in 0..10 {
            client.write_all(format!("GET /{sent} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(status(&read_response(&mut client).0), 200);
            sent += 1;
        }
        fs::rename(log("access.log"), log(&format!("access.log.{round}"))).unwrap();
        gate.signal("USR1");
        wait_until("the new file", || log("access.log").exists());
    }
    let mut targets = Vec::new();
    wait_until("every line", || {
        let names = (0..5).map(|round| format!("access.log.{round}")).chain(["access.log".to_owned()]);
        let text: String = names.map(|name| fs::read_to_string(log(&name)).unwrap()).collect();
        targets = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).collect();
        targets.len() >= sent
    });
    let targets: Vec<_> = targets.iter().map(|line| line["target"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<_> = (0..sent).map(|number| format!("/{number}")).collect();
    assert_eq!(targets, expected, "each once, in order");
}

fn limit_descriptors(gate: &Gate, soft: usize) {
    let status = Command::new("prlimit")
        .args(["--pid", &gate.pid().to_string(), &format!("--nofile={soft}:")])
        .status()
        .expect("prlimit is installed (Debian package util-linux)");
    assert!(status.success());
}

fn open_descriptors(gate: &Gate) -> usize {
    fs::read_dir(format!("/proc/{}/fd", gate.pid())).unwrap().count()
}

#[test]
fn without_descriptors_what_is_there_goes_on_and_what_waits_is_served_in_the_end() {
    let upstream = Upstream::ok();
    let fixed = "  - { path: \"/fixed\", respond: { status: 200, body: fixed } }\nadmin: {";
    let limits = "limits: { request_header_timeout: 1h, max_connections: 500 }";
    let gate = Gate::start(&yaml(&upstream, "", limits).replace("admin: {", fixed));
    let web: SocketAddr = gate.address("web");
    let mut inside = connect(web);
    let mut ask_inside = |path: &str| {
        write!(inside, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        status(&read_response(&mut inside).0)
    };
    assert_eq!(ask_inside("/through"), 200);
    gate.metrics();
    let enough = open_descriptors(&gate) + 1000;
    limit_descriptors(&gate, open_descriptors(&gate) + 3);
    let waiting: Vec<TcpStream> = (0..40).map(|_| connect(web)).collect();
    gate.wait_for("cannot accept");
    for _ in 0..20 {
        assert_eq!(ask_inside("/fixed"), 200);
    }
    assert!(gate.metrics().starts_with("HTTP/1.1 200 "), "the operator gets in");
    assert!(gate.diagnostics().iter().all(|line| !line.contains("panic")));
    limit_descriptors(&gate, enough);
    for mut client in waiting {
        client.write_all(b"GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(statuses(&read_to_end(&mut client)), [200]);
    }
    assert_eq!(ask_inside("/through"), 200);
    assert_eq!(upstream.seen().len(), 42);
    assert_eq!(statuses(&exchange(web, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), [200]);
}
