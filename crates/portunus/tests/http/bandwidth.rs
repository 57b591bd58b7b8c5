//! Limits of bandwidth: nothing goes faster than they say, on a connection or in what shares them, and who has to wait is neither slow nor idle.
//!
//! What has gone is compared with the time that it took at least, so a slow machine changes nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::frames::{DATA, END_STREAM, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, frame, get};
use crate::harness::{Gate, PATIENCE, Reply, Seen, Upstream, connect, read_response, read_to_end, wait_until};

const KIB: usize = 1024;

/// A response of so many KiB as its path says.
fn response(seen: &Seen) -> Reply {
    let path = seen.line().split(' ').nth(1).unwrap();
    let count = path.trim_start_matches('/').parse().unwrap_or(0) * KIB;
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n").into_bytes();
    bytes.extend(body(count));
    Reply::Keep(bytes)
}

/// Bytes of which no two near each other are the same.
fn body(count: usize) -> impl Iterator<Item = u8> {
    (0..count).map(|at| (at % 251) as u8)
}

/// A gate with this policy on a route `/{kib}` and on one with a response of its own; further keys of the file.
fn gate(upstream: &Upstream, policy: &str, further: &str) -> Gate {
    let own = "x".repeat(48 * KIB);
    Gate::start(&format!(
        "workers: 2
trusted_proxies: [127.0.0.1]
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
upstreams:
  app: {{ servers: [\"{}\"] }}
routes:
  - {{ name: free, path: \"/free/{{kib}}\", upstream: app, rewrite: \"/{{kib}}\" }}
  - {{ name: own, path: /own, policies: slow, respond: {{ status: 200, content_type: text/plain, body: {own} }} }}
  - {{ name: slow, path: \"/{{*rest}}\", policies: slow, upstream: app, upgrades: [websocket] }}
policies: {{ slow: {{ {policy} }} }}
admin: {{ bind: \"127.0.0.2:0\" }}
{further}
",
        upstream.address
    ))
}

fn send(gate: &Gate, path: &str, client: &str) -> TcpStream {
    let mut stream = connect(gate.address("web"));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n\r\n").unwrap();
    stream
}

fn receive(mut stream: TcpStream) -> Vec<u8> {
    let (head, bytes) = read_response(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    bytes
}

/// The time that so many KiB take at least, of which `free` need not wait.
fn least(kib: u64, free: u64, rate: u64) -> Duration {
    Duration::from_millis((kib - free) * 1000 / rate)
}

fn decided(gate: &Gate, count: usize) {
    let line = "portunus_policy_decisions_total{policy=\"slow\",decision=\"throttled\",reason=\"bandwidth_limited\"} ";
    let metrics = gate.metrics();
    let found = metrics.lines().find_map(|found| found.strip_prefix(line)).unwrap_or("0");
    assert_eq!(found, count.to_string());
}

#[test]
fn a_response_comes_no_faster_than_its_rate_behind_a_burst() {
    let upstream = Upstream::start(response);
    let gate = gate(&upstream, "bandwidth_limit: { download: 64KiB, burst: 16KiB }", "");
    // Behind the burst, a piece of a sixteenth of a second more may be on its way.
    let most_at_once = 16 + 4;
    for (count, path) in [(48, "/48"), (48, "/own")] {
        let before = Instant::now();
        let bytes = receive(send(&gate, path, "192.0.2.1"));
        assert!(before.elapsed() >= least(count, most_at_once, 64), "{path}: {:?}", before.elapsed());
        assert!(bytes.len() == 48 * KIB && (path == "/own" || bytes.iter().copied().eq(body(48 * KIB))), "{path}");
    }
    let log = gate.log(2);
    for line in &log {
        let waited = line["throttled_seconds"].as_f64().unwrap();
        assert!(waited > 0.0 && line["policy"].is_null() && line["status"] == 200, "{line}");
    }
    // What fits into the burst does not wait, and what has no limit never does.
    receive(send(&gate, "/8", "192.0.2.1"));
    receive(send(&gate, "/free/256", "192.0.2.1"));
    assert!(gate.log(4)[2..].iter().all(|line| line.get("throttled_seconds").is_none()));
    decided(&gate, 2);
}

#[test]
fn what_one_client_has_its_connections_share_on_all_workers() {
    let upstream = Upstream::start(response);
    for (key, clients, shared) in [
        ("client", ["192.0.2.1"; 4], true),
        ("all", ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"], true),
        ("connection", ["192.0.2.1"; 4], false),
    ] {
        let policy = format!("bandwidth_limit: {{ download: 64KiB, burst: 8KiB, key: {key} }}");
        let gate = gate(&upstream, &policy, "");
        let before = Instant::now();
        let streams: Vec<_> = clients.iter().map(|client| send(&gate, "/16", client)).collect();
        for stream in streams {
            assert_eq!(receive(stream).len(), 16 * KIB, "{key}");
        }
        // Each waits for what all have booked before: together they take as long as one that has all of it.
        let waited: f64 = gate.log(4).iter().filter_map(|line| line["throttled_seconds"].as_f64()).sum();
        if shared {
            assert!(before.elapsed() >= least(64, 8 + 4, 64), "{key}: {:?}", before.elapsed());
        } else {
            assert!(waited <= 4.0 * 0.26, "{key}: {waited}");
        }
    }
}

#[test]
fn a_request_comes_no_faster_and_is_not_too_slow_for_that() {
    let upstream = Upstream::start(response);
    let limits = "limits: { client_idle_timeout: 500ms, min_body_rate: 1MiB }";
    let gate = gate(&upstream, "bandwidth_limit: { upload: 32KiB, burst: 0 }", limits);
    let mut stream = connect(gate.address("web"));
    let before = Instant::now();
    let mut request = format!("POST /0 HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 96 * KIB).into_bytes();
    request.extend(body(96 * KIB));
    stream.write_all(&request).unwrap();
    assert_eq!(receive(stream), b"");
    // What is read first does not wait.
    assert!(before.elapsed() >= least(96, 64, 32), "{:?}", before.elapsed());
    assert!(upstream.seen()[0].body.iter().copied().eq(body(96 * KIB)));
    assert!(gate.log(1)[0]["throttled_seconds"].as_f64().unwrap() > 0.0);
    decided(&gate, 1);
}

/// A stream that waits for its bandwidth keeps no window from others of its connection.
#[test]
fn streams_of_a_connection_do_not_wait_for_each_other() {
    let upstream = Upstream::start(response);
    let policy =
        "bandwidth_limit: { download: 1KiB, burst: 1KiB }, concurrency_limit: { max_in_flight: 2, key: route }";
    let gate = gate(&upstream, policy, "");
    let mut frames = Frames::open_plain(gate.address("web"));
    for stream in [1, 3] {
        frames.headers(stream, &get("/64"), true);
    }
    wait_until("both requests at the upstream", || upstream.seen().len() == 2);
    frames.headers(5, &get("/free/200"), true);
    let mut received = [0; 6];
    loop {
        let one = frames.next().expect("the connection ended");
        if one.kind != DATA {
            assert!(one.kind != RST_STREAM, "{one:?}");
            continue;
        }
        received[one.stream as usize] += one.payload.len();
        if one.stream == 5 && one.flags & END_STREAM != 0 {
            break;
        }
        let count = (one.payload.len() as u32).to_be_bytes();
        for stream in [0, one.stream] {
            frames.send(&frame(WINDOW_UPDATE, 0, stream, &count));
        }
    }
    assert_eq!(received[5], 200 * KIB);
    assert!(received[1] < 64 * KIB && received[3] < 64 * KIB, "{received:?}");
    // Those that wait have their places; one that is reset gives its own back, and so does one whose client leaves.
    let status = |gate: &Gate| read_response(&mut send(gate, "/0", "192.0.2.1")).0[9..12].to_owned();
    assert_eq!(status(&gate), "503");
    frames.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    wait_until("the place of the stream", || status(&gate) == "200");
    drop(frames);
    // One after the other, each kept once it is had: a try that lets go of one of both would stand in the way of the next.
    let slow = [(); 2].map(|()| {
        let mut held = None;
        wait_until("the place of the connection", || {
            let (mut stream, mut head) = (send(&gate, "/64", "192.0.2.1"), [0; 12]);
            held = (stream.read_exact(&mut head).is_ok() && head == *b"HTTP/1.1 200").then_some(stream);
            held.is_some()
        });
        held
    });
    drop(slow);
    wait_until("the places of HTTP/1", || status(&gate) == "200");
}

/// What waits fills no memory: who sends it is not read from, a server like a client.
#[test]
fn what_waits_stays_with_its_sender() {
    const MIB: usize = 1024 * KIB;
    /// As much as is taken, until nothing has been for a while.
    fn pour(stream: &mut TcpStream) -> usize {
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let piece = [b'x'; 64 * KIB];
        let mut poured = 0;
        while poured < 64 * MIB
            && let Ok(count @ 1..) = stream.write(&piece)
        {
            poured += count;
        }
        poured
    }
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |seen| {
        if seen.line().starts_with("POST") {
            return Reply::Keep(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
        }
        let tell = tell.clone();
        Reply::Take(Box::new(move |mut stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 * MIB).unwrap();
            tell.send(pour(&mut stream)).unwrap();
        }))
    });
    let gate = gate(&upstream, "bandwidth_limit: { download: 1KiB, upload: 1KiB, burst: 0 }", "");
    let client = send(&gate, "/64", "192.0.2.1");
    // Sockets of the kernel hold some.
    let most = 32 * MIB;
    let of_server = told.recv_timeout(PATIENCE).unwrap();
    drop(client);
    let mut client = connect(gate.address("web"));
    write!(client, "POST /0 HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 64 * MIB).unwrap();
    let of_client = pour(&mut client);
    assert!(of_server < most && of_client < most, "{of_server} and {of_client} bytes were taken");
}

/// Twenty streams book a second each, and are reset while they wait: who comes after them does not wait for what nobody sends.
#[test]
fn clients_that_come_and_go_do_not_make_others_wait() {
    let upstream = Upstream::start(response);
    let gate = gate(&upstream, "bandwidth_limit: { download: 1KiB, burst: 0, key: all }", "");
    let mut frames = Frames::open_plain(gate.address("web"));
    for stream in (1..40).step_by(2) {
        frames.headers(stream, &get("/8"), true);
    }
    let mut begun = 0;
    while begun < 20 {
        begun += usize::from(frames.next().expect("the connection ended").kind == HEADERS);
    }
    for stream in (1..40).step_by(2) {
        frames.send(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    gate.log(20);
    assert_eq!(receive(send(&gate, "/1", "192.0.2.2")).len(), KIB);
    let line = gate.log(21).pop().unwrap();
    // One piece may have gone, and one be on its way.
    let waited = line["throttled_seconds"].as_f64().unwrap_or(0.0);
    assert!(line["status"] == 200 && waited <= 3.0, "{line}");
}

/// A body that a contract holds waits for its bandwidth for half a minute; its client leaves, and so its request ends. What it has sent fits in the
/// server's buffer, or its end would wait behind that.
#[test]
fn a_held_body_that_must_wait_ends_with_its_client() {
    let upstream = Upstream::start(response);
    let folder = tempfile::tempdir().unwrap();
    let document = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths:\n  /up:\n    post:\n      requestBody: { content: \
                    { application/json: { schema: { type: string } } } }\n      responses: { '200': { description: ok } }\n";
    std::fs::write(folder.path().join("openapi.yaml"), document).unwrap();
    let yaml = format!(
        "listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", contract: api }}
upstreams:
  app: {{ servers: [\"{}\"] }}
contracts:
  api: {{ document: openapi.yaml, response: off }}
routes:
  - {{ path: /up, policies: slow, upstream: app }}
policies: {{ slow: {{ bandwidth_limit: {{ upload: 1KiB, burst: 0 }} }} }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        upstream.address
    );
    let gate = Gate::start_in(folder, &yaml);
    let mut client = connect(gate.address("web"));
    let head = "POST /up HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 300000\r\n\r\n\"";
    client.write_all(&head.bytes().chain([b'x'; 40_000]).collect::<Vec<_>>()).unwrap();
    drop(client);
    let line = gate.log(1).pop().unwrap();
    assert_eq!(
        (line["reason"].as_str(), line["fault"].as_str()),
        (Some("client_disconnected"), Some("client")),
        "{line}"
    );
    assert!(upstream.seen().is_empty());
}

/// Both sides of three WebSockets send at once, and each waits for longer than it may rest.
#[test]
fn a_websocket_that_must_wait_is_not_idle() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |_| {
        let tell = tell.clone();
        Reply::Take(Box::new(move |mut stream| {
            let mut bytes =
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
            bytes.extend(body(2 * KIB));
            stream.write_all(&bytes).unwrap();
            // All is on its way from here on, so that only the gate can make it rest.
            let mut received = vec![0; 2 * KIB];
            stream.read_exact(&mut received).unwrap();
            tell.send(received).unwrap();
        }))
    });
    let policy = "bandwidth_limit: { download: 1KiB, upload: 1KiB, burst: 0, key: client }";
    let gate = gate(&upstream, policy, "limits: { tunnel_idle_timeout: 2s }");
    let before = Instant::now();
    let streams = [(); 3].map(|()| {
        let mut stream = connect(gate.address("web"));
        let head = "GET /ws HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(&head.bytes().chain(body(2 * KIB)).collect::<Vec<_>>()).unwrap();
        stream
    });
    for mut stream in streams {
        let all = read_to_end(&mut stream);
        let begin = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(all[begin..].iter().copied().eq(body(2 * KIB)), "{} bytes", all.len() - begin);
        assert!(told.recv_timeout(PATIENCE).unwrap().into_iter().eq(body(2 * KIB)));
    }
    // A hundredth of a second's worth is the least burst.
    assert!(before.elapsed() >= least(6, 1, 1) - Duration::from_millis(10), "{:?}", before.elapsed());
    let log = gate.log(3);
    // One that has ended may rest until its client is read from.
    assert!(log.iter().all(|line| line["status"] == 101), "{log:#?}");
    assert!(log.iter().any(|line| line["throttled_seconds"].as_f64() > Some(0.0)), "{log:#?}");
}

/// The same on a stream of HTTP/2.
#[test]
fn a_websocket_on_a_stream_is_as_slow() {
    let upstream = crate::harness::websocket::granting(crate::harness::websocket::echo);
    let policy =
        "bandwidth_limit: { download: 1KiB, burst: 1KiB }, concurrency_limit: { max_in_flight: 1, key: route }";
    let gate = gate(&upstream, policy, "");
    let mut frames = Frames::open_plain(gate.address("web"));
    let fields: [(&str, &[u8]); 6] = [
        (":method", b"CONNECT"),
        (":protocol", b"websocket"),
        (":scheme", b"http"),
        (":authority", b"a.test"),
        (":path", b"/ws"),
        ("sec-websocket-version", b"13"),
    ];
    frames.headers(1, &fields, false);
    while frames.next().expect("a response").kind != HEADERS {}
    let before = Instant::now();
    frames.send(&frame(DATA, 0, 1, &body(3 * KIB).collect::<Vec<_>>()));
    let mut received = Vec::new();
    while received.len() < 3 * KIB {
        let one = frames.next().expect("the connection ended");
        if one.kind == DATA {
            received.extend(one.payload);
        }
    }
    assert!(before.elapsed() >= Duration::from_millis(900), "{:?}", before.elapsed());
    assert!(received.into_iter().eq(body(3 * KIB)));
    // It has its place for as long as it is open.
    let status = || read_response(&mut send(&gate, "/0", "192.0.2.1")).0[9..12].to_owned();
    assert_eq!(status(), "503");
    frames.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    wait_until("a free place", || status() != "503");
}
