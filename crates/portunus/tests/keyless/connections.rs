//! How connections to key servers are made, kept and shared: one try at a time, pings before the peer's patience ends, and no operation that takes
//! others with it.

use std::io::ErrorKind;
use std::net::TcpListener;

use super::client::{End, connector, visit};
use super::key_server::KeyServer;
use super::{PATIENT, folder, metric, start, yaml_at};
use crate::harness::{Gate, accept, wait_until};

const ANSWERED: End = End::Answered { resumed: false };

#[test]
fn one_try_to_connect_at_a_time_however_many_wait() {
    let dir = folder();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("{:?}", silent.local_addr().unwrap().to_string());
    // Nobody answers, and the try goes on for as long as this test may.
    let gate = Gate::start_in(dir, &yaml_at(&address, &format!(", connections: 8{PATIENT}")));
    let first = accept(&silent);
    std::thread::scope(|scope| {
        let wait = || visit(&connector(gate.dir.path()), gate.address("edge")).end;
        let waiting: Vec<_> = (0..5).map(|_| scope.spawn(wait)).collect();
        wait_until("handshakes to wait", || metric(&gate, "portunus_keyless_in_flight{group=\"keys\"}") == Some(5.0));
        assert_eq!(silent.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "a second try beside the first");
        // Nobody listens any more: all is over at once, one alert each.
        drop((first, silent));
        waiting.into_iter().for_each(|waiting| assert_eq!(waiting.join().unwrap(), End::Alert(80)));
    });
}

#[test]
fn a_timeout_fails_its_own_operation_only() {
    let dir = folder();
    // The first request is never answered, everything else is.
    let server = KeyServer::start(dir.path(), "alpn,mute=1");
    // Of all the times only this one is to pass, and only where nothing responds.
    let more = format!(", connections: 1{}", PATIENT.replace(" timeout: 1m", " timeout: 10s"));
    let gate = start(dir, &[&server], &more);
    let full = || visit(&connector(gate.dir.path()), gate.address("edge")).end;
    std::thread::scope(|scope| {
        let lost = scope.spawn(full);
        wait_until("the first request", || server.count("request") == 1);
        (0..10).for_each(|_| assert_eq!(full(), ANSWERED));
        assert_eq!(lost.join().unwrap(), End::Alert(80));
    });
    assert_eq!(gate.log(11).iter().filter(|line| line["reason"] == "keyless_timeout").count(), 1);
    (0..3).for_each(|_| assert_eq!(full(), ANSWERED));
    assert_eq!((server.count("connected"), server.count("closed")), (1, 0), "the same connection all along");
}

#[test]
fn pings_come_before_the_peer_loses_its_patience() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "idle=15");
    let more = format!(", connections: 2{}", PATIENT.replace("ping_interval: 1h", "ping_interval: 1s"));
    let gate = start(dir, &[&server], &more);
    // Two connections, a ping each second on each: longer than the peer would wait.
    wait_until("pings", || server.count("ping") >= 40);
    assert_eq!(server.count("idle"), 0);
    // A peer that had no turn for seconds answers no ping; then another connection takes the place of that one.
    let given_up = || gate.diagnostics().iter().filter(|line| line.contains("a ping was not answered")).count();
    wait_until("no more connections than those", || server.count("connected") == 2 + given_up());
    assert!(given_up() <= 4, "each is answered as long as the peer has a turn");
    assert_eq!(visit(&connector(gate.dir.path()), gate.address("edge")).end, ANSWERED);
}
