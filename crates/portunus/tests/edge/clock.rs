//! The wall clock jumps: what is measured and waited for follows the monotonic clock, so that nothing is closed, rejected or logged wrong for it.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use keystore::date::date;

use super::client::TlsClient;
use super::{get, keystore, metric, tls_listener, yaml};
use crate::harness::{Gate, PORTUNUS, Upstream, certificates, connect, faketime, read_response, wait_until};

/// The program with a wall clock that is off by what stands in the file `clock` of its folder.
fn with_clock(dir: &Path) -> Command {
    let mut command = Command::new(PORTUNUS);
    command
        .env("LD_PRELOAD", faketime())
        .env("FAKETIME_TIMESTAMP_FILE", dir.join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    command
}

fn ask(client: &mut (impl std::io::Read + Write)) {
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    assert!(read_response(client).0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_wall_clock_that_jumps_ends_nothing() {
    let upstream = Upstream::ok();
    let listener = tls_listener("tls", "127.0.0.3", "");
    let dir = certificates(&[("a.example", false)]);
    let clock = dir.path().join("clock");
    let set = |offset: &str| super::material::replace(&clock, offset);
    set("+0");
    let command = with_clock(dir.path());
    let gate = Gate::start_by(dir, &yaml(&upstream, &listener, &keystore("a.example")), command);
    let mut plain: TcpStream = connect(gate.address("web"));
    let mut sealed = TlsClient::connect(gate.address("tls"), "a.example", "http/1.1");
    ask(&mut plain);
    ask(&mut sealed);
    let mut lines = 2;
    // Ahead, back, behind, and far beyond the end of every certificate and ticket.
    let day = |offset: i64| {
        let (now, by) = (SystemTime::now(), Duration::from_secs(offset.unsigned_abs()));
        date(if offset < 0 { now - by } else { now + by })
    };
    for seconds in [3600, 0, -3600, 400 * 86_400, 0] {
        set(&format!("{seconds:+}"));
        let before = day(seconds);
        ask(&mut plain);
        ask(&mut sealed);
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
        // Our own certificate may have ended: who connects learns it from the certificate, not from us.
        ask(&mut TlsClient::connect(gate.address("tls"), "a.example", "http/1.1"));
        lines += 4;
        let log = gate.log(lines);
        for line in &log[lines - 4..] {
            let took = line["duration_seconds"].as_f64().unwrap();
            assert!((0.0..60.0).contains(&took), "{line}");
        }
        let reported = log[lines - 1]["time"].as_str().unwrap();
        assert!(
            reported.starts_with(&before) || reported.starts_with(&day(seconds)),
            "the log tells the wall clock: {reported}"
        );
        assert!(metric(&gate, "portunus_connections_open{listener=\"web\"}").is_some_and(|open| open >= 1.0));
    }
    // A reload under a wrong clock is taken as well, and drains as ever.
    set("-3600");
    gate.signal("HUP");
    wait_until("the reload", || gate.diagnostics().iter().any(|line| line.contains("reloaded")));
    ask(&mut plain);
    drop((plain, sealed));
    assert_eq!(gate.stop(), Some(0));
}
