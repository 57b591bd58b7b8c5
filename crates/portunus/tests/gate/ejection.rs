//! Servers that are left out: for what they respond, because they cannot be reached, and what becomes of requests when none is left.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::upstreams::gate;
use crate::harness::{Gate, Reply, Upstream, exchange, statuses, vacant, wait_until};

fn get(gate: &Gate) -> u16 {
    statuses(&exchange(gate.address("web"), b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))[0]
}

/// A server that responds with this status to everything, but to its checks.
fn always(status: u16) -> Upstream {
    Upstream::start(move |_| {
        Reply::Keep(format!("HTTP/1.1 {status} Status\r\nContent-Length: 2\r\n\r\nno").into_bytes())
    })
}

/// How many of so many requests got which status: 200, 502 to 504, others.
fn tally(gate: &Gate, requests: usize) -> [usize; 3] {
    let mut tally = [0; 3];
    for _ in 0..requests {
        match get(gate) {
            200 => tally[0] += 1,
            502..=504 => tally[1] += 1,
            _ => tally[2] += 1,
        }
    }
    tally
}

#[test]
fn a_server_that_is_never_able_to_serve_is_ejected() {
    for status in [502, 503, 504] {
        let (bad, good) = (always(status), Upstream::ok());
        let servers = format!("servers: [\"{}\", \"{}\"]", bad.address, good.address);
        let gate = gate(&format!("{servers}, ejection: {{ failures: 3, duration: 1h }}"));
        assert_eq!(tally(&gate, 40), [37, 3, 0], "{status}");
        assert_eq!((bad.seen().len(), good.seen().len()), (3, 37));
        gate.wait_for("server ejected");
        let labels = format!("upstream=\"app\",server=\"{}\",code=\"{status}\"", bad.address);
        let metrics = gate.metrics();
        assert!(metrics.contains(&format!("portunus_upstream_responses_total{{{labels}}} 3")), "{metrics}");
    }
}

#[test]
fn which_statuses_are_failures_can_be_chosen() {
    // 500 says nothing of the server, unless the configuration does.
    for (status, statuses, ejected) in
        [(500, "", false), (500, ", statuses: [500]", true), (503, ", statuses: []", false)]
    {
        let (bad, good) = (always(status), Upstream::ok());
        let servers = format!("servers: [\"{}\", \"{}\"]", bad.address, good.address);
        let gate = gate(&format!("{servers}, ejection: {{ failures: 2, duration: 1h{statuses} }}"));
        (0..20).for_each(|_| _ = get(&gate));
        let expected = if ejected { (2, 18) } else { (10, 10) };
        assert_eq!((bad.seen().len(), good.seen().len()), expected, "{status}{statuses}");
    }
}

#[test]
fn not_all_servers_are_ejected_for_their_statuses() {
    // A client that finds a page which responds with 503 must not be able to turn the whole group off.
    let alone = always(503);
    let gate_alone = gate(&format!("servers: [\"{}\"], ejection: {{ failures: 1, duration: 1h }}", alone.address));
    assert_eq!(tally(&gate_alone, 20), [0, 20, 0]);
    assert_eq!(alone.seen().len(), 20, "an only server is never ejected for what it responds");
    let three = [always(503), always(503), always(503)];
    let servers = three.each_ref().map(|server| format!("\"{}\"", server.address)).join(", ");
    let gate_three = gate(&format!("servers: [{servers}], ejection: {{ failures: 2, duration: 1h, max_percent: 70 }}"));
    assert_eq!(tally(&gate_three, 40), [0, 40, 0]);
    let mut seen = three.each_ref().map(|server| server.seen().len());
    seen.sort();
    assert_eq!(seen, [2, 2, 36], "two of three may be, at 70 percent");
}

#[test]
fn a_group_whose_servers_all_fail_their_checks_is_503_at_once() {
    // They respond to requests, and are not asked.
    let ill = always(500);
    let health = "health: { path: /healthz, interval: 1s, timeout: 1s, fall: 1, rise: 1 }";
    let gate = gate(&format!("servers: [\"{}\"], {health}", ill.address));
    gate.wait_for("\"healthy\":false");
    assert_eq!(get(&gate), 503);
    let line = &gate.log(1)[0];
    assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some("no_healthy_upstream"), Some("upstream")));
    assert!(ill.seen().iter().all(|seen| seen.line().contains("/healthz")));
}

#[test]
fn an_ejected_server_is_back_as_soon_as_it_can_be_connected_to_where_there_is_no_other() {
    let place = vacant();
    let gate = gate(&format!("servers: [\"{place}\"], ejection: {{ failures: 1, duration: 1h }}"));
    for _ in 0..3 {
        assert_eq!(get(&gate), 502, "each tries by itself, none waits for another");
    }
    assert!(gate.log(3).iter().all(|line| line["reason"] == "upstream_refused"));
    let up = Upstream::on(TcpListener::bind(place).unwrap(), |_| {
        Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    assert_eq!(tally(&gate, 5), [5, 0, 0]);
    assert_eq!(up.seen().len(), 5);
}

#[test]
fn nobody_waits_for_an_ejected_server_that_does_not_respond() {
    // A socket whose queue is full: the kernel takes no further connection and says nothing.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let place = full.local_addr().unwrap().as_socket().unwrap();
    let _held: Vec<_> = (0..3)
        .map(|_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&place.into());
            socket
        })
        .collect();
    let gate = gate(&format!("servers: [\"{place}\"], connect_timeout: 2s, ejection: {{ failures: 1, duration: 1h }}"));
    assert_eq!(get(&gate), 504);
    // Of what comes while it is ejected nobody waits, one after the other or together.
    assert_eq!([get(&gate), get(&gate)], [503, 503]);
    let codes: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(|| get(&gate))).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    assert_eq!(codes, [503; 4]);
    wait_until("the log", || gate.log(7).iter().filter(|line| line["reason"] == "no_healthy_upstream").count() == 6);
}

/// A rolling restart: the first server is back, but still ejected, when the second one goes.
#[test]
fn an_ejected_server_that_is_back_serves_everybody_when_the_other_one_rejects() {
    let ok = || Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let first = vacant();
    let second = vacant();
    let listener = TcpListener::bind(second).unwrap();
    let up = std::thread::spawn(move || {
        for _ in 0..4 {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                head.extend_from_slice(&byte);
            }
            client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").unwrap();
        }
    });
    let gate = gate(&format!("servers: [\"{first}\", \"{second}\"], ejection: {{ failures: 1, duration: 1h }}"));
    assert_eq!(tally(&gate, 4), [4, 0, 0], "the first one refuses, the second one serves");
    gate.wait_for("server ejected");
    up.join().unwrap();
    // A process that was just forked goes on listening until it runs its program.
    wait_until("the second one to reject", || TcpStream::connect(second).is_err());
    let back = Upstream::on(TcpListener::bind(first).unwrap(), move |_| ok());
    let codes: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..32).map(|_| scope.spawn(|| get(&gate))).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    assert!(codes.iter().all(|code| *code == 200), "{codes:?}");
    assert_eq!(back.seen().len(), 32);
}
