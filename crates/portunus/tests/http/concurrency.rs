//! Limits on requests under way: who has too many is rejected, whoever ends gives a place back however it ends, and nothing depends on time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};

use crate::harness::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, Outcome, RST_STREAM, block, frame};
use crate::harness::signing::token;
use crate::harness::{Gate, Reply, Upstream, ask_on, connect, exchange, read_response, statuses, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An upstream whose responses to `/hold` come when the test says so, all at once.
#[derive(Clone, Default)]
struct Held(Arc<(Mutex<bool>, Condvar)>);

impl Held {
    fn upstream(&self) -> Upstream {
        let held = self.clone();
        Upstream::start(move |seen| {
            if seen.line().contains("/hold") {
                let (ends, changed) = &*held.0;
                drop(changed.wait_while(ends.lock().unwrap(), |ends| !*ends).unwrap());
            }
            Reply::Keep(OK.to_vec())
        })
    }

    fn end(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A gate in front of one upstream; `keys`: further keys of the listener and of the route.
fn gate(workers: usize, upstream: &Upstream, policies: &str, keys: [&str; 2]) -> Gate {
    Gate::start(&yaml(workers, upstream, policies, keys))
}

fn yaml(workers: usize, upstream: &Upstream, policies: &str, [listener, route]: [&str; 2]) -> String {
    format!(
        "workers: {workers}
trusted_proxies: [127.0.0.1]
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\"{listener} }}
upstreams:
  app: {{ servers: [\"{}\"] }}
routes:
  - {{ name: all, path: \"/{{*rest}}\", upstream: app{route} }}
  - {{ name: other, path: /other, upstream: app{route} }}
policies: {{ {policies} }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        upstream.address
    )
}

fn send(gate: &Gate, path: &str, client: &str, fields: &str) -> TcpStream {
    let mut stream = connect(gate.address("web"));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n{fields}\r\n").unwrap();
    stream
}

fn get(gate: &Gate, path: &str, client: &str, fields: &str) -> (u16, String) {
    let (head, _) = read_response(&mut send(gate, path, client, fields));
    (head[9..12].parse().unwrap(), head)
}

fn status(stream: &mut TcpStream) -> u16 {
    read_response(stream).0[9..12].parse().unwrap()
}

#[test]
fn a_client_has_so_many_requests_under_way_and_no_more() {
    let held = Held::default();
    let upstream = held.upstream();
    let gate = gate(1, &upstream, "few: { concurrency_limit: { max_in_flight: 2 } }", ["", ", policies: few"]);
    let mut under_way: Vec<_> = (0..2).map(|_| send(&gate, "/hold", "192.0.2.1", "")).collect();
    wait_until("two requests at the upstream", || upstream.seen().len() == 2);
    let (status_now, head) = get(&gate, "/now", "192.0.2.1", "");
    assert_eq!(status_now, 429);
    assert!(head.contains("\r\nRetry-After: 1\r\n"), "{head}");
    assert_eq!(get(&gate, "/now", "192.0.2.2", "").0, 200, "another client");
    assert_eq!(upstream.seen().len(), 3, "what is rejected does not reach the upstream");
    let log = &gate.log(2)[0];
    let expected = ("concurrency_limited", "few", "client");
    assert_eq!(
        (log["reason"].as_str(), log["policy"].as_str(), log["fault"].as_str()),
        (Some(expected.0), Some(expected.1), Some(expected.2))
    );
    held.end();
    under_way.iter_mut().for_each(|stream| assert_eq!(status(stream), 200));
    assert_eq!(get(&gate, "/now", "192.0.2.1", "").0, 200, "both have given their places back");
    let line = "portunus_policy_decisions_total{policy=\"few\",decision=\"rejected\",reason=\"concurrency_limited\"} 1";
    assert!(gate.metrics().contains(line), "{}", gate.metrics());
}

#[test]
fn what_is_counted_apart_is_the_key() {
    for (key, same, others) in [
        ("client", ["/hold", "2001:db8::1", ""], ["/hold", "2001:db8::2", ""]),
        (
            "{ header: X-Api-Key }",
            ["/hold", "192.0.2.1", "X-Api-Key: a\r\n"],
            ["/hold", "192.0.2.2", "x-api-key: a\r\n"],
        ),
        (
            "{ cookie: sid }",
            ["/hold", "192.0.2.1", "Cookie: x=1; sid=a\r\n"],
            ["/hold", "192.0.2.2", "Cookie: sid=a\r\n"],
        ),
        ("route", ["/hold", "192.0.2.1", ""], ["/elsewhere", "192.0.2.2", ""]),
        ("all", ["/hold", "192.0.2.1", ""], ["/other", "192.0.2.2", ""]),
    ] {
        let held = Held::default();
        let upstream = held.upstream();
        let policies = format!("few: {{ concurrency_limit: {{ max_in_flight: 1, key: {key} }} }}");
        // On the listener, before anything is routed.
        let gate = gate(1, &upstream, &policies, [", policies: few", ""]);
        let mut first = send(&gate, same[0], same[1], same[2]);
        wait_until("a request at the upstream", || upstream.seen().len() == 1);
        // Whom a limit counts apart is told so; where it is all of them, it is nobody's fault but ours.
        let expected = if matches!(key, "all" | "route") {
            (503, "overall_concurrency_limited", "proxy")
        } else {
            (429, "concurrency_limited", "client")
        };
        assert_eq!(get(&gate, others[0], others[1], others[2]).0, expected.0, "{key}");
        let apart = if key == "all" { expected.0 } else { 200 };
        assert_eq!(get(&gate, "/other", "192.0.2.9", "X-Api-Key: b\r\nCookie: sid=b\r\n").0, apart, "{key}");
        let log = &gate.log(2)[0];
        assert_eq!((log["reason"].as_str(), log["fault"].as_str()), (Some(expected.1), Some(expected.2)), "{key}");
        held.end();
        assert_eq!(status(&mut first), 200, "{key}");
    }
}

#[test]
fn a_verified_claim_is_counted_and_no_other() {
    let held = Held::default();
    let upstream = held.upstream();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "a secret of thirty-two bytes or so").unwrap();
    let gate = Gate::start_in(
        folder,
        &format!(
            "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\", policies: [known, few] }}]
tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}
policies:
  known: {{ jwt: {{ verifier: id, allow_missing: true }}, rate_limit: {{ rate: 1/h, burst: 2, key: {{ claim: org }} }} }}
  few: {{ concurrency_limit: {{ max_in_flight: 1, key: {{ claim: sub }} }} }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes: [{{ upstream: app }}]
",
            upstream.address
        ),
    );
    let with = |sub: &str, org: &str| {
        format!("Authorization: Bearer {}\r\n", token(&format!(r#""sub":"{sub}","org":"{org}""#)))
    };
    let _first = send(&gate, "/hold", "192.0.2.1", &with("u1", "a"));
    wait_until("a request at the upstream", || upstream.seen().len() == 1);
    assert_eq!(get(&gate, "/now", "192.0.2.1", &with("u1", "b")).0, 429, "the same user");
    assert_eq!(get(&gate, "/now", "192.0.2.1", &with("u2", "b")).0, 200, "another one");
    assert_eq!(get(&gate, "/now", "192.0.2.1", &with("u3", "b")).0, 429, "the third of an organisation");
    // Without a token all are one client.
    let _second = send(&gate, "/hold", "192.0.2.1", "");
    wait_until("another request at the upstream", || upstream.seen().len() == 3);
    assert_eq!(get(&gate, "/now", "192.0.2.1", "").0, 429);
    let reasons: Vec<_> = gate.log(4).iter().map(|line| (line["reason"].clone(), line["policy"].clone())).collect();
    let rejected = |reason: &str, policy: &str| (reason.into(), policy.into());
    assert_eq!(reasons[0], rejected("concurrency_limited", "few"));
    assert_eq!(reasons[2..], [rejected("rate_limited", "known"), rejected("concurrency_limited", "few")]);
    held.end();
}

#[test]
fn the_number_is_that_of_all_workers_together() {
    let held = Held::default();
    let upstream = held.upstream();
    let gate =
        gate(4, &upstream, "few: { concurrency_limit: { max_in_flight: 7, key: all } }", ["", ", policies: few"]);
    let mut streams: Vec<_> = (0..60).map(|_| send(&gate, "/hold", "192.0.2.1", "")).collect();
    // Whoever has no place has a response; the others wait for the upstream.
    let log = gate.log(53);
    assert!(log.iter().all(|line| line["status"] == 503), "{log:?}");
    wait_until("seven requests at the upstream", || upstream.seen().len() == 7);
    held.end();
    let statuses: Vec<_> = streams.iter_mut().map(status).collect();
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((passed, upstream.seen().len()), (7, 7), "{statuses:?}");
}

#[test]
fn a_policy_that_only_logs_lets_pass_and_counts() {
    let held = Held::default();
    let upstream = held.upstream();
    let policies = "try: { mode: log, concurrency_limit: { max_in_flight: 1 } }";
    let gate = gate(1, &upstream, policies, ["", ", policies: try"]);
    let mut first = send(&gate, "/hold", "192.0.2.1", "");
    wait_until("a request at the upstream", || upstream.seen().len() == 1);
    assert_eq!([(); 2].map(|()| get(&gate, "/now", "192.0.2.1", "").0), [200, 200]);
    held.end();
    assert_eq!(status(&mut first), 200);
    let log = gate.log(3);
    assert!(log.iter().all(|line| line["policy"].is_null() && line["reason"].is_null()));
    // The first one found nobody there.
    let logged: Vec<_> = log.iter().map(|line| line["would_reject"]["try"].as_str().unwrap_or("")).collect();
    assert_eq!(logged, ["concurrency_limited", "concurrency_limited", ""]);
    let line = "portunus_policy_decisions_total{policy=\"try\",decision=\"logged\",reason=\"concurrency_limited\"} 2";
    assert!(gate.metrics().contains(line), "{}", gate.metrics());
}

#[test]
fn a_reload_keeps_what_is_counted() {
    let held = Held::default();
    let upstream = held.upstream();
    let policies = |most: u32| format!("few: {{ concurrency_limit: {{ max_in_flight: {most}, key: all }} }}");
    let gate = gate(2, &upstream, &policies(2), ["", ", policies: few"]);
    let mut first = send(&gate, "/hold", "192.0.2.1", "");
    wait_until("a request at the upstream", || upstream.seen().len() == 1);
    assert_eq!(get(&gate, "/now", "192.0.2.1", "").0, 200);
    let text = std::fs::read_to_string(gate.dir.path().join("portunus.yaml")).unwrap();
    gate.rewrite(&text.replace("max_in_flight: 2", "max_in_flight: 1"));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    assert_eq!(get(&gate, "/now", "192.0.2.1", "").0, 503, "what began before it counts");
    held.end();
    assert_eq!(status(&mut first), 200);
    wait_until("a free place", || get(&gate, "/now", "192.0.2.1", "").0 == 200);
}

/// What the upstream of the next test does, by path.
fn ending(seen: &crate::harness::Seen) -> Reply {
    let path = seen.line().split(' ').nth(1).unwrap();
    match path {
        "/reset" => Reply::Reset(Vec::new()),
        "/cut" => Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec()),
        "/malformed" => Reply::Close(b"nonsense\r\n\r\n".to_vec()),
        "/endless" => Reply::Take(Box::new(|mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            while stream.write_all(&[b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n"].concat()).is_ok() {}
        })),
        "/silent" | "/late" => Reply::Silence,
        "/socket" => Reply::Take(Box::new(|mut stream| {
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                .unwrap();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && byte != *b"q" {
                stream.write_all(&byte).unwrap();
            }
        })),
        _ => Reply::Keep(OK.to_vec()),
    }
}

const UPGRADE: &str = "Connection: upgrade\r\nUpgrade: websocket\r\n";

/// Opens a WebSocket and waits until bytes pass.
fn socket(gate: &Gate) -> TcpStream {
    let mut stream = send(gate, "/socket", "192.0.2.1", UPGRADE);
    assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 101 "));
    stream.write_all(b"a").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    stream
}

fn request(path: &'static str) -> Vec<(&'static str, &'static [u8])> {
    let mut fields = crate::harness::frames::get(path);
    fields.push(("x-forwarded-for", b"192.0.2.1"));
    fields
}

/// One request at a time: after each way to end, the next request has the place, and while it lasts no other has it.
#[test]
fn a_place_is_free_again_however_a_request_ends() {
    let upstream = Upstream::start(ending);
    let route = ", policies: [one, nobody], upgrades: [websocket], max_body: 1KiB";
    let policies = "one: { concurrency_limit: { max_in_flight: 1 } }, nobody: { deny: 192.0.2.66 }";
    // What must not be late has more time.
    let text = yaml(1, &upstream, policies, ["", route]);
    let gate = Gate::start(&text.replace("path: /other, ", "path: /late, response_header_timeout: 3s, "));
    let is_taken = || get(&gate, "/now", "192.0.2.1", "").0 == 429;
    let is_free = |after: &str| wait_until(&format!("a free place after {after}"), || !is_taken());
    // Of each path by itself: one that breaks on a connection that was used before is sent again.
    let reaches = |path: &str| {
        let seen = || upstream.seen().iter().any(|seen| seen.line().contains(path));
        wait_until(&format!("{path} at the upstream"), seen);
    };
    for path in ["/whole", "/reset", "/cut", "/malformed"] {
        let _ = exchange(
            gate.address("web"),
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        reaches(path);
        is_free(path);
    }
    // The upstream says nothing in time.
    let mut late = send(&gate, "/late", "192.0.2.1", "");
    assert_eq!(status(&mut late), 504);
    is_free("a timeout");
    // The client leaves while it waits, and in the middle of the response; one that reads nothing keeps its place until then.
    for path in ["/silent", "/endless"] {
        let stream = send(&gate, path, "192.0.2.1", "");
        reaches(path);
        assert!(is_taken(), "{path}");
        drop(stream);
        is_free(path);
    }
    // Either side of a WebSocket ends.
    for by_client in [true, false] {
        let mut stream = socket(&gate);
        assert!(is_taken(), "an open WebSocket has its place");
        if !by_client {
            stream.write_all(b"q").unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the end of the upstream");
        }
        drop(stream);
        is_free("a WebSocket");
    }
    // A body that is too large, one that is cut, and one whose client leaves.
    for (head, body) in [
        ("Content-Length: 2000", ""),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\nx"),
        ("Content-Length: 10", "hello"),
    ] {
        let mut stream = connect(gate.address("web"));
        write!(stream, "POST /whole HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n{head}\r\n\r\n{body}")
            .unwrap();
        drop(stream);
        is_free(head);
    }
    // Rejected by what is asked next.
    assert_eq!(get(&gate, "/now", "192.0.2.66", "").0, 403);
    assert_eq!(get(&gate, "/now", "192.0.2.66", "").0, 403);
}

#[test]
fn a_place_is_free_again_when_a_stream_is_reset_or_its_connection_ends() {
    let upstream = Upstream::start(ending);
    let gate = gate(1, &upstream, "one: { concurrency_limit: { max_in_flight: 1 } }", ["", ", policies: one"]);
    let is_taken = || get(&gate, "/now", "192.0.2.1", "").0 == 429;
    let seen = |path: &str| upstream.seen().iter().filter(|seen| seen.line().contains(path)).count();
    for (path, count) in [("/silent", 1), ("/endless", 1), ("/silent", 2)] {
        let mut frames = Frames::open_plain(gate.address("web"));
        frames.headers(1, &request(path), true);
        wait_until("the stream at the upstream", || seen(path) == count);
        assert!(is_taken(), "{path}");
        // Another stream of the connection counts as any other request. (Beside a stream without end there is no window for its response.)
        if path == "/silent" {
            frames.headers(3, &request("/now"), true);
            assert!(matches!(frames.outcome(3), Outcome::Response(429, _)));
        }
        // The last one ends with its connection.
        if count == 1 {
            frames.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
            wait_until("a free place", || !is_taken());
        }
        drop(frames);
        wait_until("a free place", || !is_taken());
    }
    // A body that breaks the rules of HTTP/2 ends its stream, too.
    let mut frames = Frames::open_plain(gate.address("web"));
    let post: Vec<_> = request("/whole").into_iter().chain([("content-length", b"3".as_slice())]).collect();
    frames.send(&frame(HEADERS, END_HEADERS, 1, &block(&post)));
    frames.send(&frame(DATA, END_STREAM, 1, b"too long"));
    assert!(matches!(frames.outcome(1), Outcome::Reset(_)));
    wait_until("a free place", || !is_taken());
}

/// A key has its number whatever others do: a flood of values of a field takes no memory beyond the table, and nobody's place.
#[test]
fn a_flood_of_keys_takes_nobodys_place() {
    let held = Held::default();
    let upstream = held.upstream();
    let policies = "few: { concurrency_limit: { max_in_flight: 2, key: { header: X-Api-Key }, max_keys: 1024 } }";
    // What holds its place does so for as long as the flood lasts.
    let gate = gate(1, &upstream, policies, ["", ", policies: few, response_header_timeout: 10m"]);
    let _mine = send(&gate, "/hold", "192.0.2.1", "X-Api-Key: mine\r\n");
    wait_until("a request at the upstream", || upstream.seen().len() == 1);
    let mut client = connect(gate.address("web"));
    for key in 0..3_000 {
        write!(client, "GET /now HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.7\r\nX-Api-Key: {key}\r\n\r\n")
            .unwrap();
        assert_eq!(status(&mut client), 200, "{key}");
    }
    let _second = send(&gate, "/hold", "192.0.2.1", "X-Api-Key: mine\r\n");
    wait_until("another request at the upstream", || {
        upstream.seen().iter().filter(|seen| seen.line().contains("/hold")).count() == 2
    });
    assert_eq!(get(&gate, "/now", "192.0.2.2", "X-Api-Key: mine\r\n").0, 429);
    held.end();
}

#[test]
fn whoever_has_no_place_may_have_the_next_one_on_the_same_connection() {
    let held = Held::default();
    let upstream = held.upstream();
    let gate = gate(1, &upstream, "one: { concurrency_limit: { max_in_flight: 1 } }", ["", ", policies: one"]);
    let mut first = send(&gate, "/hold", "192.0.2.1", "");
    wait_until("a request at the upstream", || upstream.seen().len() == 1);
    let mut waiting = connect(gate.address("web"));
    let ask = b"GET /now HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
    waiting.write_all(ask).unwrap();
    assert_eq!(status(&mut waiting), 429);
    held.end();
    assert_eq!(status(&mut first), 200);
    waiting.write_all(ask).unwrap();
    assert_eq!(status(&mut waiting), 200);
    let (head, _) = ask_on(gate.address("web"), "GET /now HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(head.as_bytes()), [200]);
}
