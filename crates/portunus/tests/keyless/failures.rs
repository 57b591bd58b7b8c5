//! Key servers that are wrong, busy, frozen or gone, and clients that leave: each handshake ends well or with one alert, and soon.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use tls::{ServerName, Session};

use super::client::{End, Ended, connect, connector, visit};
use super::key_server::KeyServer;
use super::{PATIENT, SITE, folder, metric, outcomes, start};
use crate::harness::{Gate, vacant, wait_until};

const ANSWERED: End = End::Answered { resumed: false };
const INTERNAL_ERROR: End = End::Alert(80);

/// A full handshake and a request.
fn full(gate: &Gate) -> Ended {
    visit(&connector(gate.dir.path()), gate.address("edge"))
}

/// Whether the only server, behaving so, leads to this alert and reason. `more` are settings of the group.
fn fails_with(behave: &str, reason: &str, more: &str) {
    let dir = folder();
    let server = KeyServer::start(dir.path(), behave);
    let gate = start(dir, &[&server], more);
    assert_eq!(full(&gate).end, INTERNAL_ERROR, "{behave}");
    wait_until("the request to be logged", || server.count("request") > 0);
    assert_eq!(server.count("request"), 1, "{behave}: never the same server again");
    let line = gate.log(1).remove(0);
    assert_eq!(
        (&line["reason"], &line["phase"], &line["fault"]),
        (&reason.into(), &"tls_handshake".into(), &"key_server".into())
    );
}

#[test]
fn each_kind_of_failure_is_one_alert_and_has_its_reason() {
    fails_with("wrong", "keyless_wrong_signature", PATIENT);
    fails_with("silent", "keyless_timeout", "");
    fails_with("close", "keyless_connection_lost", PATIENT);
    fails_with("garbage", "keyless_connection_lost", PATIENT);
    fails_with("stranger", "keyless_connection_lost", PATIENT);
}

#[test]
fn where_all_are_busy_the_handshake_comes_again_while_it_has_time() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "alpn,busy_at_first");
    let gate = start(dir, &[&server], PATIENT);
    assert_eq!(full(&gate).end, ANSWERED);
    assert_eq!(outcomes(&gate, &server, "busy"), 3.0);
    assert_eq!(metric(&gate, "portunus_keyless_retries_total{group=\"keys\"}"), Some(0.0), "nothing was begun");

    let dir = folder();
    let server = KeyServer::start(dir.path(), "alpn,busy=500");
    let gate = start(dir, &[&server], &PATIENT.replace("timeout: 1m", "timeout: 2s"));
    // The time may also be over while the server is asked once more, which is a timeout.
    let mut visits = 0;
    wait_until("a handshake to end while it waits to come again", || {
        assert_eq!(full(&gate).end, INTERNAL_ERROR);
        visits += 1;
        gate.log(visits)[visits - 1]["reason"] == "keyless_busy"
    });
}

#[test]
fn an_unknown_key_is_rejected() {
    let dir = folder();
    let keys = dir.path().join("keys");
    std::fs::rename(keys.join("Ecdsa.key"), dir.path().join("kept.key")).unwrap();
    let server = KeyServer::start(dir.path(), "");
    let gate = start(dir, &[&server], PATIENT);
    assert_eq!(full(&gate).end, INTERNAL_ERROR);
    assert_eq!(gate.log(1)[0]["reason"], "keyless_rejected");
    assert_eq!(outcomes(&gate, &server, "key_not_found"), 1.0);
}

/// Handshakes beside a good server and one that behaves so: none may fail. `more` are settings of the group.
fn beside_a_good_one(behave: &str, outcome: &str, more: &str) {
    let dir = folder();
    let (good, bad) = (KeyServer::start(dir.path(), "alpn"), KeyServer::start(dir.path(), behave));
    let gate = start(dir, &[&good, &bad], more);
    // Either may be chosen first: until the bad one was.
    let mut visits = 0;
    while outcomes(&gate, &bad, outcome) == 0.0 {
        assert_eq!(full(&gate).end, ANSWERED, "{behave}");
        visits += 1;
        assert!(visits < 1_000, "{behave}: {}", gate.metrics());
    }
    assert!(metric(&gate, "portunus_keyless_retries_total{group=\"keys\"}") >= Some(1.0), "{behave}");
}

#[test]
fn another_server_is_asked() {
    beside_a_good_one("wrong", "wrong_signature", PATIENT);
    beside_a_good_one("alpn,busy", "busy", PATIENT);
    // The good one has this time, too.
    beside_a_good_one("silent", "timeout", &PATIENT.replace(" timeout: 1m", " timeout: 10s"));
    beside_a_good_one("close", "connection_lost", PATIENT);
    beside_a_good_one("garbage", "connection_lost", PATIENT);
}

#[test]
fn without_a_budget_nothing_is_tried_again() {
    let dir = folder();
    let servers = [KeyServer::start(dir.path(), "wrong"), KeyServer::start(dir.path(), "wrong")];
    let gate = start(dir, &[&servers[0], &servers[1]], &format!(", retry_budget: 0{PATIENT}"));
    assert_eq!(full(&gate).end, INTERNAL_ERROR);
    assert_eq!(servers[0].count("request") + servers[1].count("request"), 1);
}

#[test]
fn a_budget_ends_further_tries() {
    /// Tries on another server that may be made before anything went well.
    const RESERVE: usize = 256;
    let dir = folder();
    // Two that do not know the key, which is nobody's fault and ejects nobody.
    std::fs::rename(dir.path().join("keys/Ecdsa.key"), dir.path().join("kept.key")).unwrap();
    let servers = [KeyServer::start(dir.path(), ""), KeyServer::start(dir.path(), "")];
    let gate = start(dir, &[&servers[0], &servers[1]], PATIENT);
    let visits = RESERVE + 44;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..visits / 4).for_each(|_| assert_eq!(full(&gate).end, INTERNAL_ERROR)));
        }
    });
    let retries = metric(&gate, "portunus_keyless_retries_total{group=\"keys\"}");
    assert_eq!(retries, Some(RESERVE as f64));
    wait_until("all requests to be logged", || {
        servers[0].count("request") + servers[1].count("request") == visits + RESERVE
    });
}

#[test]
fn a_server_that_lies_is_asked_once_and_then_left_out() {
    let dir = folder();
    let (good, bad) = (KeyServer::start(dir.path(), "alpn"), KeyServer::start(dir.path(), "wrong"));
    let gate = start(dir, &[&good, &bad], &format!(", ejection: {{ duration: 10m }}{PATIENT}"));
    wait_until("the bad one to be asked", || {
        assert_eq!(full(&gate).end, ANSWERED);
        bad.count("request") == 1
    });
    let up = format!("portunus_keyless_server_up{{group=\"keys\",server=\"{}\"}}", bad.address);
    wait_until("the metric to say so", || metric(&gate, &up) == Some(0.0));
    (0..30).for_each(|_| assert_eq!(full(&gate).end, ANSWERED));
    assert_eq!(bad.count("request"), 1);
}

#[test]
fn the_faster_server_is_asked_more_and_the_slower_one_is_not_forgotten() {
    let dir = folder();
    let (fast, slow) = (KeyServer::start(dir.path(), "alpn"), KeyServer::start(dir.path(), "alpn,delay=400"));
    let gate = start(dir, &[&fast, &slow], PATIENT);
    // In twenty visits one response of the fast one that was held up decides nothing.
    let mut visits = 0;
    wait_until("the slow one to be asked a third time", || {
        assert_eq!(full(&gate).end, ANSWERED);
        visits += 1;
        visits >= 20 && slow.count("request") >= 3
    });
    assert!(fast.count("request") > 2 * slow.count("request"), "{} at the fast one", fast.count("request"));
}

#[test]
fn a_frozen_server_costs_no_handshake() {
    let dir = folder();
    let (good, frozen) = (KeyServer::start(dir.path(), "alpn"), KeyServer::start(dir.path(), ""));
    let gate = start(dir, &[&good, &frozen], &PATIENT.replace(" timeout: 1m", " timeout: 10s"));
    frozen.signal("STOP");
    for _ in 0..30 {
        assert_eq!(full(&gate).end, ANSWERED);
    }
    good.signal("STOP");
    let ended = full(&gate);
    assert_eq!(ended.end, INTERNAL_ERROR);
    assert!(ended.after < crate::harness::PATIENCE, "{ended:?}");
    good.signal("CONT");
    frozen.signal("CONT");
    wait_until("handshakes to succeed again", || full(&gate).end == ANSWERED);
}

#[test]
fn killed_servers_cost_new_handshakes_only_and_only_while_they_are_gone() {
    let dir = folder();
    let path = dir.path().to_owned();
    // At an address of its own, so that nobody is given its port while it is gone.
    let first = KeyServer::at(&path, &vacant().to_string(), "alpn");
    let second = KeyServer::start(&path, "");
    let gate = start(dir, &[&first, &second], &format!(", server_name: keys.example{PATIENT}"));
    let address = gate.address("edge");
    let known = connector(&path);
    let mut open = connect(&known, address).unwrap();
    open.ask();

    first.signal("KILL");
    for _ in 0..10 {
        assert_eq!(full(&gate).end, ANSWERED, "one is left");
    }
    second.signal("KILL");
    wait_until("the gauge", || metric(&gate, "portunus_keyless_unavailable{group=\"keys\"}") == Some(1.0));
    for _ in 0..5 {
        assert_eq!(full(&gate).end, INTERNAL_ERROR);
    }
    open.ask();
    assert_eq!(visit(&known, address).end, End::Answered { resumed: true });

    let _again = KeyServer::at(&path, &first.address, "alpn");
    wait_until("the gauge", || metric(&gate, "portunus_keyless_unavailable{group=\"keys\"}") == Some(0.0));
    assert_eq!(full(&gate).end, ANSWERED);
    open.ask();
}

#[test]
fn under_full_handshakes_each_ends_whatever_is_killed() {
    let dir = folder();
    let path = dir.path().to_owned();
    let (first, second) = (KeyServer::start(&path, "alpn,delay=30"), KeyServer::start(&path, "alpn,delay=30"));
    let gate = start(dir, &[&first, &second], PATIENT);
    let (kill_one, kill_both) = (40, 80);
    std::thread::scope(|scope| {
        let visitors: Vec<_> =
            (0..8).map(|_| scope.spawn(|| (0..15).map(|_| full(&gate).end).collect::<Vec<_>>())).collect();
        let asked = || first.count("request") + second.count("request");
        wait_until("load", || asked() >= kill_one);
        first.signal("KILL");
        wait_until("load", || asked() >= kill_both);
        second.signal("KILL");
        let ends: Vec<End> = visitors.into_iter().flat_map(|visitor| visitor.join().unwrap()).collect();
        assert!(ends.iter().all(|end| [ANSWERED, INTERNAL_ERROR].contains(end)), "{ends:?}");
        let failed = ends.iter().filter(|end| **end == INTERNAL_ERROR).count();
        assert!(ends.len() - failed >= kill_both - 16, "those before the second was killed succeeded: {ends:?}");
    });
}

#[test]
fn a_client_that_leaves_cancels_its_operation() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "alpn,silent");
    let gate = start(dir, &[&server], PATIENT);
    let leave = |reset: bool| {
        let before = server.count("request");
        let mut socket = begin(gate.dir.path(), gate.address("edge"));
        wait_until("the operation", || server.count("request") == before + 1);
        if reset {
            rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
        }
        let _ = socket.flush();
    };
    leave(false);
    leave(true);
    wait_until("both to be cancelled", || server.count("cancel") == 2);
    let ids = |kind: &str| server.events(kind).iter().map(|event| event["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids("cancel"), ids("request"));
    assert!(gate.log(2).iter().all(|line| line["fault"] == "client"));
    wait_until("nothing under way", || metric(&gate, "portunus_keyless_in_flight{group=\"keys\"}") == Some(0.0));
}

/// A client that has said hello and nothing else.
fn begin(dir: &Path, address: std::net::SocketAddr) -> TcpStream {
    let mut hello = Vec::new();
    let mut session = Session::client(&connector(dir), &ServerName::Dns(SITE.to_owned())).unwrap();
    session.handshake(&mut &[][..], &mut hello).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&hello).unwrap();
    socket
}
