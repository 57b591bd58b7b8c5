//! Requests of one route that go to several upstreams: by weight, by what they are like, and as copies that nobody waits for.

use std::net::{SocketAddr, TcpListener};

use crate::harness::{Gate, Reply, Upstream, exchange, statuses, vacant, wait_until};

fn get(gate: &Gate, target: &str, fields: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    String::from_utf8(exchange(gate.address("web"), request.as_bytes())).unwrap()
}

fn post(gate: &Gate, body: &str) -> Vec<u16> {
    let length = body.len();
    let request =
        format!("POST /p?q HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    statuses(&exchange(gate.address("web"), request.as_bytes()))
}

fn says(text: &'static str) -> Upstream {
    Upstream::start(move |_| {
        Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into())
    })
}

#[test]
fn shares_follow_their_weights_and_conditions() {
    let (old, new, beta) = (says("old"), says("new"), says("beta"));
    let gate = Gate::start(&format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams:
  old: {{ servers: [\"{}\"] }}
  new: {{ servers: [\"{}\"] }}
  beta: {{ servers: [\"{}\"] }}
routes:
  - split:
      - {{ upstream: old, weight: 3 }}
      - {{ upstream: new, weight: 1 }}
      - {{ upstream: beta, when: {{ header: {{ x-canary: \"1\" }} }} }}
    rewrite: \"/v2{{path}}\"
",
        old.address, new.address, beta.address
    ));
    for _ in 0..400 {
        assert!(get(&gate, "/a", "").starts_with("HTTP/1.1 200"));
    }
    let (to_old, to_new) = (old.seen().len(), new.seen().len());
    // A binomial distribution: 100 of 400 in the mean, with a deviation of 9.
    assert!(to_old + to_new == 400 && (45..=155).contains(&to_new), "{to_old} {to_new}");
    assert!(beta.seen().is_empty());
    for _ in 0..5 {
        assert!(get(&gate, "/a", "X-Canary: 1\r\n").ends_with("beta"));
    }
    assert!(beta.seen()[0].head.starts_with("GET /v2/a "), "{}", beta.seen()[0].head);
    assert_eq!((old.seen().len(), new.seen().len()), (to_old, to_new));
    let line = gate.log(405).into_iter().find(|line| line["upstream"]["name"] == "beta");
    assert!(line.is_some(), "the log says who got it");
    gate.stop();
}

/// A gate whose requests for `main` are copied to `shadow`: further keys of that upstream, and what `mirror` and keys behind it say.
fn mirroring([main, shadow]: [SocketAddr; 2], upstream: &str, mirror: &str) -> Gate {
    Gate::start(&format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
admin: {{ bind: \"127.0.0.1:0\" }}
upstreams:
  main: {{ servers: [\"{main}\"] }}
  shadow: {{ servers: [\"{shadow}\"]{upstream} }}
routes:
  - {{ upstream: main, mirror: {mirror} }}
"
    ))
}

#[test]
fn copies_go_to_another_upstream_and_nobody_notices() {
    let (main, shadow) =
        (says("main"), Upstream::start(|_| Reply::Keep("HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nbad".into())));
    let gate = mirroring(
        [main.address, shadow.address],
        "",
        "{ upstream: shadow, max_body: 16B }, request_headers: { set: { x-by: \"{client.address}\" } }",
    );
    assert!(get(&gate, "/a", "Cookie: a=b\r\n").ends_with("main"));
    wait_until("the copy", || shadow.seen().len() == 1);
    let copy = shadow.seen().remove(0);
    assert!(copy.head.starts_with("GET /a HTTP/1.1"), "{}", copy.head);
    assert_eq!(
        (copy.fields("host"), copy.fields("cookie"), copy.fields("x-by")),
        (vec!["x"], vec!["a=b"], vec!["127.0.0.1"])
    );
    assert_eq!(copy.fields("x-request-id"), main.seen()[0].fields("x-request-id"));
    assert_eq!(post(&gate, "0123456789abcdef"), [200]);
    wait_until("the copy of a body", || shadow.seen().len() == 2);
    assert_eq!(String::from_utf8_lossy(&shadow.seen()[1].body), "0123456789abcdef");
    // Too long to be copied, whether it says so or not.
    assert_eq!(post(&gate, "0123456789abcdefg"), [200]);
    let chunked = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n012345678\r\n9\r\n012345678\r\n0\r\n\r\n";
    assert_eq!(statuses(&exchange(gate.address("web"), chunked.as_bytes())), [200]);
    let count = |outcome: &str, count: u64| {
        let wanted = format!("portunus_mirrored_requests_total{{upstream=\"shadow\",outcome=\"{outcome}\"}} {count}\n");
        wait_until(&wanted, || gate.metrics().contains(&wanted));
    };
    count("dropped", 2);
    count("sent", 2);
    assert_eq!((main.seen().len(), shadow.seen().len()), (4, 2));
    let log = gate.log(4);
    assert!(log.iter().all(|line| line["status"] == 200 && line["upstream"]["name"] == "main"));
    let copied: Vec<_> = log.iter().map(|line| line["upstream"]["mirror"].as_str()).collect();
    assert_eq!(copied, [Some("shadow"), Some("shadow"), None, None], "where each was copied to");
    gate.stop();
}

#[test]
fn of_a_percentage_so_many_are_copied() {
    let (main, shadow) = (says("main"), says("shadow"));
    let gate = mirroring([main.address, shadow.address], "", "{ upstream: shadow, percent: 25 }");
    for _ in 0..400 {
        assert!(get(&gate, "/", "").ends_with("main"));
    }
    let counted = || {
        let metrics = gate.metrics();
        let sent = "portunus_mirrored_requests_total{upstream=\"shadow\",outcome=\"sent\"} ";
        metrics.lines().find_map(|line| line.strip_prefix(sent)?.parse::<usize>().ok()).unwrap_or_default()
    };
    // Seven times the standard deviation to either side.
    wait_until("the copies", || (40..=160).contains(&counted()) && counted() == shadow.seen().len());
    gate.stop();
}

#[test]
fn a_copy_that_hangs_or_fails_is_only_counted() {
    let main = says("main");
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = mirroring(
        [main.address, silent.local_addr().unwrap()],
        ", total_timeout: 200ms, max_in_flight: 2",
        "{ upstream: shadow }",
    );
    for _ in 0..20 {
        assert!(get(&gate, "/", "").ends_with("main"));
    }
    let wanted = "portunus_mirrored_requests_total{upstream=\"shadow\",outcome=\"failed\"} 20\n";
    wait_until(wanted, || gate.metrics().contains(wanted));
    gate.stop();
}

/// What reached nobody is not for the other upstream either.
#[test]
fn a_request_that_fails_is_not_copied() {
    let shadow = says("shadow");
    let gate = mirroring([vacant(), shadow.address], "", "{ upstream: shadow }");
    assert!(get(&gate, "/", "Authorization: Bearer s\r\n").starts_with("HTTP/1.1 502 "));
    let wanted = "portunus_mirrored_requests_total{upstream=\"shadow\",outcome=\"dropped\"} 1\n";
    wait_until(wanted, || gate.metrics().contains(wanted));
    assert!(shadow.seen().is_empty());
}

#[test]
fn what_cannot_be_split_is_said_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for (route, said) in [
        ("split: [{ upstream: u, when: { client: 10.0.0.0/8 } }]", "no share takes the requests that are left"),
        ("split: [{ upstream: u, weight: 0 }]", "no share takes the requests that are left"),
        ("split: [{ upstream: x }]", "p.yaml:2:27: there is no upstream `x`"),
        ("split: [{ upstream: u, weight: 2, when: { query: { a: b } } }, { upstream: u }]", "`weight` beside `when`"),
        ("split: [{ upstream: t }]", "no route can use an upstream with `protocol: tcp`"),
        ("split: [{ upstream: u }], upstream: u", "exclude each other"),
        ("upstream: u, mirror: { upstream: h }", "does not speak HTTP/1"),
        ("upstream: u, mirror: { upstream: t }", "no route can use an upstream with `protocol: tcp`"),
        ("upstream: u, mirror: { upstream: u }", "which would carry out each twice"),
        ("respond: { status: 200 }, mirror: { upstream: u }", "`mirror` has no effect beside `respond`"),
    ] {
        let file = dir.path().join("p.yaml");
        let text = format!(
            "routes:\n  - {{ {route} }}\nlisteners: [{{ name: web, bind: \":80\" }}]\nupstreams: {{ u: {{ servers: \"192.0.2.1:80\" }}, \
             h: {{ servers: \"192.0.2.1:81\", protocol: http2 }}, t: {{ servers: \"192.0.2.1:82\", protocol: tcp }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = std::process::Command::new(crate::harness::PORTUNUS).arg("check").arg(&file).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(said), "{route}: {errors}");
    }
}
