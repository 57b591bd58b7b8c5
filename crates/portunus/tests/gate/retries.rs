//! What is sent to another server, on which condition, how often and when; and what never is.

use std::io::Write as _;
use std::time::Duration;

use super::upstreams::gate;
use crate::harness::http2::http2_server;
use crate::harness::{Gate, Reply, Seen, Upstream, connect, exchange, read_response, statuses, vacant, wait_until};

fn responds(status: u16) -> impl Fn(&Seen) -> Reply {
    move |_| {
        Reply::Keep(format!("HTTP/1.1 {status} Status\r\nContent-Length: 4\r\nX-Own: yes\r\n\r\nbody").into_bytes())
    }
}

fn ask(gate: &Gate, method: &str, body: &str) -> (u16, String) {
    let request =
        format!("{method} /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let response = exchange(gate.address("web"), request.as_bytes());
    (statuses(&response)[0], String::from_utf8_lossy(&response).into_owned())
}

/// A gate whose servers take turns and are never ejected.
fn in_turn(servers: &[&Upstream], retries: &str) -> Gate {
    let list: Vec<_> = servers.iter().map(|server| format!("\"{}\"", server.address)).collect();
    gate(&format!("servers: [{}], ejection: {{ failures: 0 }}, retries: {{ {retries} }}", list.join(", ")))
}

#[test]
fn a_status_is_retried_where_that_is_asked_for_and_safe() {
    let (bad, good) = (Upstream::start(responds(503)), Upstream::ok());
    let gate = in_turn(&[&bad, &good], "on: [connect, 503]");
    for _ in 0..10 {
        assert_eq!(ask(&gate, "GET", "").0, 200);
    }
    assert_eq!((bad.seen().len(), good.seen().len()), (5, 10));
    let log = gate.log(10);
    assert_eq!(log.iter().map(|line| line["upstream"]["retries"].as_u64().unwrap()).sum::<u64>(), 5);
    let labels = format!("upstream=\"app\",server=\"{}\",code=\"503\"", bad.address);
    let metrics = gate.metrics();
    assert!(metrics.contains(&format!("portunus_upstream_responses_total{{{labels}}} 5")), "{metrics}");
    // A POST was executed, and so may have been what has a body: the response is theirs.
    for (method, body) in [("POST", ""), ("PUT", "x")] {
        let statuses: Vec<_> = (0..4).map(|_| ask(&gate, method, body).0).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 2, "{method}: {statuses:?}");
    }
    let posts = |upstream: &Upstream| upstream.seen().iter().filter(|seen| seen.line().starts_with("POST")).count();
    assert_eq!((posts(&bad), posts(&good)), (2, 2), "each once");
}

#[test]
fn the_last_response_is_the_clients_whatever_its_status() {
    let servers = [Upstream::start(responds(503)), Upstream::start(responds(503))];
    let both = in_turn(&[&servers[0], &servers[1]], "on: 503");
    let (status, text) = ask(&both, "GET", "");
    assert!(status == 503 && text.contains("X-Own: yes") && text.ends_with("body"), "the server's own: {text}");
    assert_eq!(servers.each_ref().map(|server| server.seen().len()), [1, 1]);
    // A status that is not listed, and a budget that is used up.
    let other = in_turn(&[&servers[0], &servers[1]], "on: 502");
    assert!(ask(&other, "GET", "").1.contains("X-Own: yes"));
    let none = in_turn(&[&servers[0], &servers[1]], "on: 503, budget: 0");
    assert!(ask(&none, "GET", "").1.contains("X-Own: yes"));
    assert_eq!(servers.iter().map(|server| server.seen().len()).sum::<usize>(), 4);
}

#[test]
fn retries_that_the_budget_has_no_room_for_are_counted() {
    let (bad, good) = (Upstream::start(responds(503)), Upstream::ok());
    // One of a hundred requests, beside the ten that a quiet group has.
    let gate = in_turn(&[&bad, &good], "on: 503, budget: 1");
    let rejected = (0..40).filter(|_| ask(&gate, "GET", "").0 == 503).count();
    assert!((5..=10).contains(&rejected), "{rejected} of 20");
    let metrics = gate.metrics();
    let wanted = format!("portunus_upstream_retries_over_budget_total{{upstream=\"app\"}} {rejected}\n");
    assert!(metrics.contains(&wanted), "{metrics}");
    // Where they are switched off, nothing is refused.
    let none = in_turn(&[&bad, &good], "on: 503, budget: 0");
    assert_eq!((0..4).filter(|_| ask(&none, "GET", "").0 == 503).count(), 2);
    assert!(!none.metrics().contains("portunus_upstream_retries_over_budget_total{"));
}

#[test]
fn attempts_are_bounded() {
    for (attempts, expected) in [("attempts: 1", 1), ("attempts: 2", 2), ("attempts: all", 4)] {
        let servers: [Upstream; 4] = std::array::from_fn(|_| Upstream::start(responds(502)));
        let list: Vec<_> = servers.iter().collect();
        let gate = in_turn(&list, &format!("on: 502, {attempts}"));
        assert_eq!(ask(&gate, "GET", "").0, 502);
        assert_eq!(servers.iter().map(|server| server.seen().len()).sum::<usize>(), expected, "{attempts}");
    }
}

#[test]
fn what_is_not_listed_is_not_retried() {
    let dead = vacant();
    let dying = Upstream::start(|_| Reply::Reset(Vec::new()));
    let up = Upstream::ok();
    for (bad, on, expected) in [
        (dead, "[connect]", 200),
        (dead, "[reset]", 502),
        (dying.address, "[reset]", 200),
        (dying.address, "[connect]", 502),
        (dying.address, "[]", 502),
    ] {
        let gate = gate(&format!(
            "servers: [\"{bad}\", \"{}\"], ejection: {{ failures: 0 }}, retries: {{ on: {on} }}",
            up.address
        ));
        let mut statuses: Vec<_> = (0..2).map(|_| ask(&gate, "GET", "").0).collect();
        statuses.sort();
        assert_eq!(statuses, [200, expected], "{on}");
    }
}

/// A server that takes its time.
fn slow(milliseconds: u64) -> Upstream {
    Upstream::start(move |_| {
        #[expect(clippy::disallowed_methods, reason = "a server of a test")]
        std::thread::sleep(Duration::from_millis(milliseconds));
        Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    })
}

#[test]
fn a_slow_try_makes_room_for_the_next_one_and_the_last_has_its_time() {
    let (silent, good) = (Upstream::start(|_| Reply::Silence), Upstream::ok());
    // The silent one is always asked first.
    let first = gate(&format!(
        "servers: [\"{}\", {{ address: \"{}\", priority: 1 }}], ejection: {{ failures: 0 }}, retries: {{ per_try_timeout: 2s }}",
        silent.address, good.address
    ));
    assert_eq!([ask(&first, "GET", "").0, ask(&first, "GET", "").0], [200, 200]);
    wait_until("the tries", || (silent.seen().len(), good.seen().len()) == (2, 2));
    // Nobody else can be asked: the time of a try does not end it. It takes longer than that.
    let one = slow(600);
    let alone = in_turn(&[&one], "per_try_timeout: 100ms");
    assert_eq!(ask(&alone, "GET", "").0, 200);
    // Nor does it end what must not be sent twice.
    let both = in_turn(&[&one, &slow(600)], "per_try_timeout: 100ms");
    assert_eq!([ask(&both, "POST", "").0, ask(&both, "POST", "").0], [200, 200]);
}

#[test]
fn total_timeout_bounds_all_tries_together() {
    let silent = [Upstream::start(|_| Reply::Silence), Upstream::start(|_| Reply::Silence)];
    let list = silent.each_ref().map(|server| format!("\"{}\"", server.address)).join(", ");
    let gate =
        gate(&format!("servers: [{list}], total_timeout: 3s, retries: {{ per_try_timeout: 100ms, backoff: 1ms }}"));
    assert_eq!(ask(&gate, "GET", "").0, 504);
    assert_eq!(gate.log(1)[0]["reason"], "upstream_total_timeout");
    wait_until("both tries", || silent.iter().map(|server| server.seen().len()).sum::<usize>() == 2);
}

#[test]
fn a_server_whose_responses_take_too_long_is_ejected() {
    let (late, good) = (slow(4500), Upstream::ok());
    let gate = gate(&format!(
        "servers: [\"{}\", \"{}\"], ejection: {{ failures: 2, duration: 1h, latency: 4s }}",
        late.address, good.address
    ));
    for _ in 0..12 {
        assert_eq!(ask(&gate, "GET", "").0, 200);
    }
    assert_eq!((late.seen().len(), good.seen().len()), (2, 10));
    gate.wait_for("server ejected");
}

#[test]
fn a_client_that_uploads_slowly_ejects_nobody() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let gate = gate(&format!(
        "servers: [\"{}\", \"{}\"], ejection: {{ failures: 1, duration: 1h, latency: 4s }}",
        servers[0].address, servers[1].address
    ));
    let mut client = connect(gate.address("web"));
    write!(client, "POST /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nab").unwrap();
    #[expect(clippy::disallowed_methods, reason = "a client of a test that takes its time")]
    std::thread::sleep(Duration::from_millis(4200));
    client.write_all(b"cd").unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"));
    let metrics = gate.metrics();
    for server in &servers {
        let ejected = format!("portunus_upstream_server_ejected{{upstream=\"app\",server=\"{}\"}} 0", server.address);
        assert!(metrics.contains(&ejected), "{metrics}");
    }
}

#[test]
fn a_status_of_an_http2_server_is_retried_and_its_connection_goes_on() {
    let server = |status: u16| {
        http2_server(move |_, mut respond: h2::server::SendResponse<bytes::Bytes>| async move {
            let response = http::Response::builder().status(status).body(()).unwrap();
            if let Ok(mut stream) = respond.send_response(response, false) {
                let _ = stream.send_data(bytes::Bytes::from_static(b"body"), true);
            }
        })
    };
    let gate = gate(&format!(
        "servers: [\"{}\", \"{}\"], protocol: http2, ejection: {{ failures: 0 }}, retries: {{ on: 503, budget: 100 }}",
        server(503),
        server(200)
    ));
    for _ in 0..10 {
        assert_eq!(ask(&gate, "GET", "").0, 200);
    }
    let retries: u64 = gate.log(10).iter().map(|line| line["upstream"]["retries"].as_u64().unwrap()).sum();
    assert_eq!(retries, 5);
}
