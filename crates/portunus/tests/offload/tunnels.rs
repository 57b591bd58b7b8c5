//! Bytes through a tunnel: whole, in order, half-closed either way, bounded while a reader is slow, and told of at the end.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use super::site::{
    Duplex, MOMENT, folder, next, noise, read_all, read_exactly, tcp_upstream, unix_upstream, write_in_pieces, yaml,
};
use crate::harness::secure::Secure;
use crate::harness::{Gate, connect, vacant, wait_until};

impl Duplex for Secure {
    fn end(&mut self) {
        self.finish();
    }
}

/// A plain and a TLS listener before each of a TCP and a Unix upstream.
fn four(tcp: std::net::SocketAddr) -> Gate {
    let listeners = "  - { name: plain-tcp, bind: \"127.0.0.1:0\", tunnel: { upstream: tcp } }
  - { name: plain-unix, bind: \"127.0.0.2:0\", tunnel: { upstream: local } }
  - { name: tls-tcp, bind: \"127.0.0.3:0\", tls: { keystore: main }, tunnel: { upstream: tcp } }
  - { name: tls-unix, bind: \"127.0.0.4:0\", tls: { keystore: main }, tunnel: { upstream: local } }";
    let upstreams = format!("  tcp: {{ servers: [\"{tcp}\"] }}\n  local: {{ servers: [\"unix:up.sock\"] }}");
    Gate::start_in(folder(), &yaml(listeners, &upstreams, "admin: { bind: \"127.0.0.5:0\" }"))
}

fn client(gate: &Gate, listener: &str) -> Box<dyn Duplex> {
    if listener.starts_with("tls") {
        Box::new(Secure::connect(gate.address(listener), gate.dir.path(), "a.test", "any"))
    } else {
        Box::new(connect(gate.address(listener)))
    }
}

#[test]
fn streams_arrive_whole_and_each_side_may_end_first() {
    let (tcp, tcp_connections) = tcp_upstream();
    let gate = four(tcp);
    let unix_connections = unix_upstream(&gate.dir.path().join("up.sock"));
    for (round, listener) in ["plain-tcp", "plain-unix", "tls-tcp", "tls-unix"].iter().cycle().take(8).enumerate() {
        let seed = round as u64;
        let sizes = [0, 1, 16_384, 32_768, 700_001, 3_000_000];
        let (up, down) = (noise(seed, sizes[round % 6]), noise(seed + 100, sizes[(round + 3) % 6]));
        let mut near = client(&gate, listener);
        let mut far: Box<dyn Duplex> = if listener.ends_with("tcp") {
            Box::new(next(&tcp_connections))
        } else {
            Box::new(next(&unix_connections))
        };
        // Who is first sends all of its stream and ends; the other side then still has its say.
        let ((first, first_bytes), (second, second_bytes)) =
            if round < 4 { ((&mut near, &up), (&mut far, &down)) } else { ((&mut far, &down), (&mut near, &up)) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                write_in_pieces(first, first_bytes, seed);
                first.end();
            });
            assert!(read_all(second) == *first_bytes, "{listener}, round {round}: the first stream");
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                write_in_pieces(second, second_bytes, seed);
                second.end();
            });
            assert!(read_all(first) == *second_bytes, "{listener}, round {round}: the second stream");
        });
        let line = gate.log(round + 1).pop().unwrap();
        assert_eq!(line["kind"], "tunnel");
        assert_eq!(line["listener"], *listener);
        assert_eq!((&line["bytes_received"], &line["bytes_sent"]), (&up.len().into(), &down.len().into()), "{line}");
        assert_eq!(line["ended_by"], if round < 4 { "client" } else { "upstream" }, "{line}");
        assert!(line["duration_seconds"].as_f64() >= line["ready_after_seconds"].as_f64());
        assert!(line["upstream"]["connect_seconds"].as_f64().is_some() && line["reason"].is_null(), "{line}");
    }
}

#[test]
fn both_directions_at_once() {
    let (tcp, connections) = tcp_upstream();
    let gate = four(tcp);
    let near = connect(gate.address("plain-tcp"));
    let far = next(&connections);
    let (up, down) = (noise(1, 8_000_000), noise(2, 8_000_000));
    std::thread::scope(|scope| {
        for (stream, bytes) in [(&near, &up), (&far, &down)] {
            scope.spawn(move || {
                write_in_pieces(&mut &*stream, bytes, 3);
                stream.shutdown(std::net::Shutdown::Write).unwrap();
            });
        }
        let reading = scope.spawn(|| read_all(&mut &far));
        assert!(read_all(&mut &near) == down);
        assert!(reading.join().unwrap() == up);
    });
}

#[test]
fn a_slow_reader_holds_its_sender_up() {
    let (tcp, connections) = tcp_upstream();
    let gate = four(tcp);
    for listener in ["plain-tcp", "tls-tcp"] {
        let mut near = client(&gate, listener);
        let mut far = next(&connections);
        let piece = noise(4, 64 * 1024);
        // The far side is written to while the near side does not read; then it must block.
        far.set_write_timeout(Some(MOMENT)).unwrap();
        let mut written = 0;
        let blocked = loop {
            match far.write(&piece) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
            assert!(written < 64 << 20, "{listener}: {written} bytes were taken");
        };
        assert!(matches!(blocked.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{blocked}");
        assert!(memory_kib(&gate) < 64 * 1024, "{listener}: {} KiB", memory_kib(&gate));
        far.end();
        assert_eq!(read_all(&mut near).len(), written, "{listener}");
    }
}

/// Nobody reads from a client whose upstream takes nothing, and its reset is noticed all the same.
#[test]
fn a_client_that_leaves_a_blocked_upstream_is_noticed() {
    let (tcp, connections) = tcp_upstream();
    let gate = four(tcp);
    let fill = |near: &mut dyn Write| {
        let piece = noise(7, 64 * 1024);
        let mut written = 0;
        while let Ok(count) = near.write(&piece) {
            written += count;
            assert!(written < 256 << 20, "{written} bytes were taken");
        }
    };
    let reset_on_close = |near: &std::net::TcpStream| {
        rustix::net::sockopt::set_socket_linger(near, Some(Duration::ZERO)).unwrap();
    };
    let mut near = connect(gate.address("plain-tcp"));
    let mut plain_far = next(&connections);
    near.set_write_timeout(Some(MOMENT)).unwrap();
    fill(&mut near);
    reset_on_close(&near);
    drop(near);
    let mut near = Secure::connect(gate.address("tls-tcp"), gate.dir.path(), "a.test", "any");
    let mut tls_far = next(&connections);
    near.socket().set_write_timeout(Some(MOMENT)).unwrap();
    fill(&mut near);
    reset_on_close(near.socket());
    drop(near);
    for line in gate.log(2) {
        assert_eq!((&line["reason"], &line["ended_by"]), (&"tunnel_client_reset".into(), &"client".into()), "{line}");
    }
    // What it could not take is lost, which must not look like an end.
    for far in [&mut plain_far, &mut tls_far] {
        let mut all = Vec::new();
        assert_eq!(far.read_to_end(&mut all).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

/// A client that has said all may wait for an upstream that is slow to take it.
#[test]
fn a_client_that_finishes_before_a_blocked_upstream_waits_for_it() {
    let dir = folder();
    let connections = unix_upstream(&dir.path().join("up.sock"));
    let listeners = "  - { name: web, bind: [\"127.0.0.1:0\", \"unix:near.sock\"], tunnel: { upstream: local } }";
    let gate = Gate::start_in(dir, &yaml(listeners, "  local: { servers: [\"unix:up.sock\"] }", ""));
    let path = gate.dir.path().join("near.sock");
    let mut near = None;
    wait_until("the socket", || {
        near = std::os::unix::net::UnixStream::connect(&path).ok();
        near.is_some()
    });
    let mut near = near.unwrap();
    let mut far = next(&connections);
    near.set_write_timeout(Some(MOMENT)).unwrap();
    let (piece, mut written) = (noise(8, 64 * 1024), 0);
    while let Ok(count) = near.write(&piece) {
        written += count;
    }
    near.end();
    assert_eq!(read_all(&mut far).len(), written);
    far.write_all(b"all of it").unwrap();
    far.end();
    assert_eq!(read_all(&mut near), b"all of it");
}

fn memory_kib(gate: &Gate) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn an_idle_tunnel_holds_little_memory() {
    let (tcp, connections) = tcp_upstream();
    let gate = four(tcp);
    let open = |count: usize| -> Vec<_> {
        (0..count)
            .map(|_| {
                let mut near = client(&gate, "tls-tcp");
                let mut far = next(&connections);
                near.write_all(b"hello").unwrap();
                read_exactly(&mut far, 5);
                far.write_all(b"there").unwrap();
                read_exactly(&mut near, 5);
                (near, far)
            })
            .collect()
    };
    // Many, since the allocator takes memory from the system by the megabyte.
    const HELD: usize = 600;
    let _warm = open(100);
    let before = memory_kib(&gate);
    let _held = open(HELD);
    let each = (memory_kib(&gate) - before) as f64 / HELD as f64;
    println!("{each:.1} KiB for each idle tunnel under TLS");
    assert!(each < 15.0, "{each} KiB for each idle tunnel");
}

#[test]
fn a_cut_is_not_an_orderly_end() {
    let (tcp, connections) = tcp_upstream();
    let gate = four(tcp);
    // The client's TLS ends without close_notify: what it sent arrives, and then a reset.
    let mut near = Secure::connect(gate.address("tls-tcp"), gate.dir.path(), "a.test", "any");
    let mut far = next(&connections);
    near.write_all(&noise(5, 100_000)).unwrap();
    near.socket().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_exactly(&mut far, 100_000), noise(5, 100_000));
    assert_eq!(far.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);

    // The upstream breaks: what it sent arrives, and no close_notify.
    let mut near = Secure::connect(gate.address("tls-tcp"), gate.dir.path(), "a.test", "any");
    let mut far = next(&connections);
    near.write_all(b"x").unwrap();
    read_exactly(&mut far, 1);
    far.write_all(&noise(6, 50_000)).unwrap();
    assert_eq!(read_exactly(&mut near, 50_000), noise(6, 50_000));
    rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
    drop(far);
    assert!(near.read(&mut [0; 1]).is_err(), "an orderly end");

    let lines = gate.log(2);
    assert_eq!((&lines[0]["fault"], &lines[0]["reason"]), (&"client".into(), &"close_notify_missing".into()));
    assert_eq!((&lines[1]["fault"], &lines[1]["reason"]), (&"upstream".into(), &"tunnel_upstream_reset".into()));
    assert_eq!(lines[1]["ended_by"], "upstream");
}

#[test]
fn deadlines_end_a_tunnel_and_say_so() {
    let (tcp, connections) = tcp_upstream();
    let listeners = "  - { name: idle, bind: \"127.0.0.1:0\", tunnel: { upstream: tcp, idle_timeout: 1s } }
  - { name: life, bind: \"127.0.0.2:0\", tunnel: { upstream: tcp, max_lifetime: 1s } }
  - { name: shake, bind: \"127.0.0.3:0\", tls: { keystore: main }, tunnel: { upstream: tcp } }
  - { name: own, bind: \"127.0.0.4:0\", tls: { keystore: main }, tunnel: { upstream: tcp }, limits: { tunnel_idle_timeout: 1s, handshake_timeout: 10s } }";
    let upstreams = format!("  tcp: {{ servers: [\"{tcp}\"] }}");
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, "limits: { handshake_timeout: 300ms }"));
    let mut idle = connect(gate.address("idle"));
    let _far = next(&connections);
    assert!(idle.read(&mut [0; 1]).is_err(), "reset");
    let mut own = Secure::connect(gate.address("own"), gate.dir.path(), "a.test", "any");
    let _far = next(&connections);
    assert!(own.read(&mut [0; 1]).is_err(), "reset");
    let mut life = connect(gate.address("life"));
    let mut far = next(&connections);
    // It is never idle, and ends all the same.
    wait_until("the end of its life", || life.write_all(b"x").is_err() || far.write_all(b"x").is_err());
    for listener in ["shake", "own"] {
        let mut shake = connect(gate.address(listener));
        // A slow machine may be too late for it.
        let _ = shake.write_all(b"\x16\x03\x01");
        assert_eq!(shake.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    let reasons: Vec<_> = gate.log(5).iter().map(|line| line["reason"].as_str().unwrap().to_owned()).collect();
    let expected = ["tunnel_idle", "tunnel_idle", "tunnel_lifetime", "tls_handshake_timeout", "tls_handshake_timeout"];
    assert_eq!(reasons, expected);
}

#[test]
fn a_group_takes_no_more_tunnels_than_it_may() {
    let (tcp, connections) = tcp_upstream();
    let listeners = "  - { name: web, bind: \"127.0.0.1:0\", tunnel: { upstream: tcp } }
  - { name: tls, bind: \"127.0.0.2:0\", tls: { keystore: main }, tunnel: { upstream: tcp } }";
    let upstreams = format!("  tcp: {{ servers: [\"{tcp}\"], max_in_flight: 2 }}");
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, "admin: { bind: \"127.0.0.5:0\" }"));
    let mut held: Vec<_> = (0..2).map(|_| (connect(gate.address("web")), next(&connections))).collect();
    let mut third = connect(gate.address("web"));
    assert!(third.read(&mut [0; 1]).is_err(), "reset");
    let mut fourth = Secure::connect(gate.address("tls"), gate.dir.path(), "a.test", "any");
    assert!(fourth.read(&mut [0; 1]).is_err(), "no orderly end");
    for line in gate.log(2) {
        assert_eq!((&line["fault"], &line["reason"]), (&"proxy".into(), &"upstream_overflow".into()), "{line}");
        assert_eq!((&line["upstream"]["name"], &line["upstream"]["server"]), (&"tcp".into(), &serde_json::Value::Null));
    }
    assert!(gate.metrics().contains("portunus_faults_total{side=\"proxy\",reason=\"upstream_overflow\"} 2\n"));
    // A place that is given back is taken again.
    let (mut near, mut far) = held.pop().unwrap();
    near.end();
    far.end();
    assert_eq!(read_all(&mut near), b"");
    gate.log(3);
    let mut near = connect(gate.address("web"));
    near.write_all(b"x").unwrap();
    near.end();
    assert_eq!(read_all(&mut next(&connections)), b"x");
}

#[test]
fn connecting_fails_over_and_a_server_that_rejects_is_left_out() {
    let (tcp, connections) = tcp_upstream();
    let dead = vacant();
    let listeners = "  - { name: web, bind: \"127.0.0.1:0\", tunnel: { upstream: app } }
  - { name: gone, bind: \"127.0.0.2:0\", tls: { keystore: main }, tunnel: { upstream: gone } }";
    let upstreams = format!(
        "  app: {{ servers: [\"{dead}\", \"{tcp}\"], ejection: {{ failures: 2, duration: 1h }} }}\n  gone: {{ servers: [\"{dead}\"] }}"
    );
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, "admin: { bind: \"127.0.0.5:0\" }"));
    for _ in 0..8 {
        let mut near = connect(gate.address("web"));
        let mut far = next(&connections);
        near.write_all(b"x").unwrap();
        near.end();
        assert_eq!(read_all(&mut far), b"x");
        far.end();
        assert_eq!(read_all(&mut near), b"");
    }
    let lines = gate.log(8);
    let retried = lines.iter().filter(|line| line["upstream"]["retries"] == 1).count();
    assert_eq!(retried, 2, "ejected after two failures");
    assert!(lines.iter().all(|line| line["upstream"]["server"] == tcp.to_string()));
    let mut near = Secure::connect(gate.address("gone"), gate.dir.path(), "a.test", "any");
    assert!(near.read(&mut [0; 1]).is_err(), "no orderly end where nobody was reached");
    let line = gate.log(9).pop().unwrap();
    assert_eq!((&line["fault"], &line["reason"]), (&"upstream".into(), &"upstream_refused".into()), "{line}");
}

#[test]
fn live_tunnels_outlast_reloads_and_are_drained() {
    let (tcp, connections) = tcp_upstream();
    let gate = four(tcp);
    let mut near = client(&gate, "tls-tcp");
    let mut far = next(&connections);
    let mut round = |what: &[u8]| {
        near.write_all(what).unwrap();
        assert_eq!(read_exactly(&mut far, what.len()), what);
        far.write_all(what).unwrap();
        assert_eq!(read_exactly(&mut near, what.len()), what);
    };
    round(b"before");
    let (other, _others) = tcp_upstream();
    let listeners = "  - { name: plain-tcp, bind: \"127.0.0.1:0\", tunnel: { upstream: other } }";
    gate.rewrite(&yaml(listeners, &format!("  other: {{ servers: [\"{other}\"] }}"), ""));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    round(b"after the reload");
    gate.signal("TERM");
    gate.wait_for("draining");
    round(b"while draining");
    near.end();
    assert_eq!(read_all(&mut far), b"");
    far.end();
    assert_eq!(read_all(&mut near), b"");
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn metrics_count_by_name_and_upstream() {
    let (tcp, connections) = tcp_upstream();
    let gate = four(tcp);
    let unknown = "x.invalid";
    for name in ["a.test", "b.test"] {
        let mut near = Secure::connect(gate.address("tls-tcp"), gate.dir.path(), name, "any");
        let mut far = next(&connections);
        near.write_all(b"four").unwrap();
        near.end();
        assert_eq!(read_all(&mut far), b"four");
        far.write_all(b"seventy").unwrap();
        far.end();
        assert_eq!(read_all(&mut near), b"seventy");
    }
    gate.log(2);
    let labels =
        |name: &str| format!("{{listener=\"tls-tcp\",server_name=\"{name}\",upstream=\"tcp\",server=\"{tcp}\"}}");
    let page = gate.metrics();
    for name in ["a.test", "b.test"] {
        for (metric, value) in [("tunnels", 1), ("tunnel_received_bytes", 4), ("tunnel_sent_bytes", 7)] {
            let sample = format!("portunus_{metric}_total{} {value}", labels(name));
            assert!(page.contains(&sample), "{sample} in {page}");
        }
    }
    assert!(page.contains("portunus_tunnel_duration_seconds_count") && !page.contains(unknown));
    // What is known of clients is shown once a second.
    let sample = "portunus_client_tunnels_total{client=\"127.0.0.1\"} 2";
    wait_until(sample, || gate.metrics().contains(sample));
}
