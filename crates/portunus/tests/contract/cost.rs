//! What validation may take from others: turns of the worker, and memory of the process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::site::{Site, folder, yaml};
use crate::harness::{Gate, Reply, Seen, Upstream, connect, read_response, wait_until};

const DOCUMENT: &str = "openapi: 3.1.0
info: { title: t, version: '1' }
paths:
  /list:
    get: { responses: { '204': { description: none } } }
    post:
      requestBody: { required: true, content: { application/json: { schema: SCHEMA } } }
      responses: { '204': { description: none }, '200': { description: l, content: { application/json: { schema: SCHEMA } } } }
";

fn none(_: &Seen) -> Reply {
    Reply::Keep(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())
}

fn post(client: &mut TcpStream, length: usize) {
    write!(
        client,
        "POST /list HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    .unwrap();
}

/// While the dearest body is validated, another connection of the same worker has its turn again and again.
#[test]
fn others_have_their_turn_while_a_body_is_validated() {
    // Nothing but the range of `v` says which branch is meant, so that each is tried.
    let branch = |n: u32| {
        let (least, most) = (n * 100, n * 100 + 99);
        format!(
            "{{ type: object, required: [v], properties: {{ v: {{ type: integer, minimum: {least}, maximum: {most} }} }} }}"
        )
    };
    let branches: Vec<String> = (0..60).map(branch).collect();
    let schema = format!(
        "{{ anyOf: [{{ type: array, items: {{ oneOf: [{}] }} }}, {{ type: array, maxItems: 0 }}] }}",
        branches.join(", ")
    );
    let site = Site::with(&DOCUMENT.replace("SCHEMA", &schema), "", &[], none);
    let items: Vec<String> = (0..16_000).map(|n| format!("{{\"v\":{}}}", n % 6_000)).collect();
    let body = format!("[{}]", items.join(","));
    let address = site.gate.address("web");
    let mut beside = connect(address);
    let mut ask = || {
        beside.write_all(b"GET /list HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(read_response(&mut beside).0.starts_with("HTTP/1.1 204 "));
    };
    ask();
    let mut beside_one = || {
        std::thread::scope(|scope| {
            let dear = scope.spawn(|| {
                let mut client = connect(address);
                post(&mut client, body.len());
                client.write_all(body.as_bytes()).unwrap();
                read_response(&mut client).0
            });
            let (begun, mut longest) = (Instant::now(), Duration::ZERO);
            while !dear.is_finished() {
                let asked = Instant::now();
                ask();
                longest = longest.max(asked.elapsed());
            }
            let all = begun.elapsed();
            let head = dear.join().unwrap();
            assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
            longest * 3 < all
        })
    };
    // Validated in one go, it would keep one request waiting for nearly all of the time. Who asks may have no processor for so long, but not each time.
    assert!((0..10).any(|_| beside_one()), "one response takes as long as the body is validated");
}

const RECORDS: &str =
    "{ type: array, uniqueItems: true, items: { type: object, properties: { id: { type: integer } } } }";

/// A gate with little memory for bodies under validation.
fn small(contract: &str, reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Site {
    let upstream = Upstream::start(reply);
    let limits = "limits: { max_validation_memory: 1MiB, max_validation_memory_per_connection: 640KiB }";
    let text = yaml(&upstream, contract, limits);
    let gate = Gate::start_in(folder(&DOCUMENT.replace("SCHEMA", RECORDS), &[]), &text);
    Site { gate, upstream }
}

/// A metric of the memory of bodies under validation.
fn metric(site: &Site, name: &str) -> usize {
    let name = format!("portunus_validation_memory_{name} ");
    let page = site.gate.metrics();
    let value = page.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("{name} in {page}")).parse().unwrap()
}

/// The beginning of a list of records, about so long.
fn records(bytes: usize) -> String {
    let mut body = "[".to_owned();
    for number in 0.. {
        body += &format!("{{\"id\":{number}}},");
        if body.len() >= bytes {
            break;
        }
    }
    body
}

/// Many connections that keep a part of a body waiting take no more than what is there for all; it is given back.
#[test]
fn bodies_under_validation_share_a_bounded_memory() {
    let site = small("", none);
    assert_eq!(metric(&site, "bytes"), 0);
    assert_eq!(metric(&site, "limit_bytes"), 1 << 20);
    let part = records(50_000);
    let rest = "{\"id\":-1}]";
    let mut clients: Vec<(TcpStream, bool)> = (0..10)
        .map(|_| {
            let mut client = connect(site.gate.address("web"));
            post(&mut client, part.len() + rest.len());
            client.write_all(part.as_bytes()).unwrap();
            client.set_nonblocking(true).unwrap();
            (client, false)
        })
        .collect();
    // Each takes about five times its part: few find room, the others are rejected for it and nothing of them goes on.
    let mut reported = Vec::new();
    wait_until("four of ten to be rejected", || {
        for (client, is_rejected) in clients.iter_mut().filter(|(_, is_rejected)| !is_rejected) {
            let mut bytes = [0; 4096];
            if let Ok(count) = client.read(&mut bytes) {
                reported.push(String::from_utf8_lossy(&bytes[..count]).into_owned());
                *is_rejected = true;
            }
        }
        reported.len() >= 4
    });
    assert!(
        reported.iter().all(|head| head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nRetry-After: ")),
        "{reported:?}"
    );
    assert_eq!(site.seen(), 0);
    let used = metric(&site, "bytes");
    assert!((32 << 10..=1 << 20).contains(&used), "{used}");
    assert!(metric(&site, "rejections_total{limit=\"process\"}") >= 4);
    assert_eq!(metric(&site, "rejections_total{limit=\"connection\"}"), 0);
    // Of the others some may be reported so only now.
    let mut passed = 0;
    for (client, _) in clients.iter_mut().filter(|(_, is_rejected)| !is_rejected) {
        client.set_nonblocking(false).unwrap();
        let _ = client.write_all(rest.as_bytes());
        let (head, _) = read_response(client);
        assert!(head.starts_with("HTTP/1.1 204 ") || head.starts_with("HTTP/1.1 503 "), "{head}");
        passed += usize::from(head.starts_with("HTTP/1.1 204 "));
    }
    assert!(passed >= 1, "nothing passed");
    assert_eq!(site.seen(), passed);
    drop(clients);
    // What they took is there again.
    wait_until("the memory to be given back", || metric(&site, "bytes") == 0);
    for _ in 0..10 {
        let response = site.post("POST /list", "application/json", format!("{part}{rest}"));
        assert_eq!(response.status, 204, "{response:?}");
    }
}

/// Both ways: one body that is more than a connection's share, and a response.
#[test]
fn one_connection_has_a_share_and_responses_count() {
    let large = format!("{}{{\"id\":-1}}]", records(300_000));
    let reply = large.clone();
    let site = small(", response: block", move |seen: &Seen| {
        if seen.body.len() > 100 {
            return none(seen);
        }
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", reply.len());
        Reply::Keep([head.as_bytes(), reply.as_bytes()].concat())
    });
    let response = site.post("POST /list", "application/json", &large);
    assert_eq!((response.status, response.fields("retry-after").len(), site.seen()), (503, 1, 0), "{response:?}");
    assert_eq!(metric(&site, "rejections_total{limit=\"connection\"}"), 1);
    let response = site.post("POST /list", "application/json", "[]");
    assert_eq!((response.status, response.fields("retry-after").len(), site.seen()), (503, 1, 1), "{}", response.head);
    let small = format!("{}{{\"id\":-1}}]", records(60_000));
    assert_eq!(site.post("POST /list", "application/json", small).status, 204);
}
