//! Heads that are meant to fill memory: what a connection can make the program hold is bounded (row 11).
//!
//! Measured as resident memory of the whole process over many connections, after a round that warms its pools.

use std::io::Write;
use std::net::TcpStream;

use crate::harness::frames::{CONTINUATION, Frames, HEADERS, SETTINGS, WINDOW_UPDATE, block, frame, get};
use crate::harness::trial::{Parts, gate, secure_gate};
use crate::harness::{Gate, Reply, Upstream, connect, wait_until};

const CONNECTIONS: usize = 200;

/// Resident memory, KiB.
fn resident(gate: &Gate) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Whether all its threads wait for something. One that is kept from running has yet to do what it could.
fn is_at_rest(gate: &Gate) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", gate.pid())).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state stands behind the name, which may hold anything. A thread that has just ended has none.
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" S"))
    })
}

/// Holds many connections of this kind, twice, and expects each of the second round to cost no more than `bound` KiB.
fn check<C>(gate: &Gate, what: &str, bound: usize, open: impl Fn() -> C) {
    check_for(gate, what, CONNECTIONS, bound, open);
}

/// As [`check`], with so many connections.
fn check_for<C>(gate: &Gate, what: &str, connections: usize, bound: usize, open: impl Fn() -> C) {
    let held = || (0..connections).map(|_| open()).collect::<Vec<C>>();
    // What the program has read is gone from the queues of the kernel; a pause in which nothing changes is all that can be seen of it.
    let settled = || {
        let mut last = (0, 0);
        wait_until("memory to settle", || {
            let now = resident(gate);
            last = match now.abs_diff(last.0) < 64 {
                true => (last.0, last.1 + usize::from(is_at_rest(gate))),
                false => (now, 0),
            };
            last.1 >= 100
        });
        resident(gate)
    };
    let empty = settled();
    let first = held();
    let peak = settled();
    drop(first);
    let rest = settled();
    let second = held();
    let again = settled();
    drop(second);
    let each = peak.saturating_sub(empty).max(again.saturating_sub(rest)) / connections;
    eprintln!("{what}: {each} KiB each of {connections} connections; {empty}, {peak}, {rest}, {again} KiB resident");
    assert!(each <= bound, "{what}: {each} KiB each, {bound} allowed");
    assert!(again < peak + peak / 4, "{what}: a second round takes more: {empty}, {peak}, {rest}, {again} KiB");
}

#[test]
fn heads_without_end_take_bounded_memory() {
    let upstream = Upstream::ok();
    // The clients wait; the gate must as well, or it would be measured without them.
    let file = "limits: { request_header_timeout: 5m, keep_alive_timeout: 5m, max_connections_per_client: 1000 }";
    let parts = Parts { file, ..Parts::default() };
    let plain = gate(upstream.address, parts);
    let endless = |field: &str| -> TcpStream {
        let mut client = connect(plain.address("web"));
        let head = format!("GET /bomb HTTP/1.1\r\nHost: x\r\n{}", field.repeat(15_000 / field.len()));
        client.write_all(head.as_bytes()).unwrap();
        client
    };
    check(&plain, "HTTP/1.1, many fields", 64, || endless("a: b\r\n"));
    check(&plain, "HTTP/1.1, one long field", 64, || endless("c"));
    let secure = secure_gate(upstream.address, parts);
    let bomb = || -> Frames {
        let mut client = Frames::open(secure.address("web"), secure.dir.path());
        // A field of 3.8 kB goes into the table of the decoder, then is named again and again: 4 kB stand for 760 kB.
        let mut bytes = block(&get("/bomb"));
        bytes.extend_from_slice(&[0x40, 1, b'b', 0x7f, 0xc1, 0x1d]);
        bytes.extend(std::iter::repeat_n(b'x', 127 + 0x41 + 0x1d * 128));
        bytes.extend(std::iter::repeat_n(0xbe, 200));
        client.send(&frame(HEADERS, 0, 1, &bytes));
        // And it does not end.
        client.send(&frame(CONTINUATION, 0, 1, &block(&[("c", &[b'c'; 4000][..])])));
        client
    };
    check(&secure, "HTTP/2, a compressed bomb without end", 128, bomb);
    assert!(upstream.seen().is_empty());
}

/// Requests on one connection, each for more than anything here holds.
const STREAMS: u32 = 128;

#[test]
fn responses_that_nobody_reads_take_bounded_memory() {
    // Endless enough, and written only as fast as it is taken: in small pieces, in chunks that arrive many at once, or whole buffers at once.
    let upstream = Upstream::start(|request| {
        let (head, piece) = match request.line() {
            line if line.starts_with("GET /small") => ("", vec![b'x'; 4000]),
            line if line.starts_with("GET /chunks") => {
                let chunk = [b"fa0\r\n", &[b'x'; 4000][..], b"\r\n"].concat();
                ("Transfer-Encoding: chunked\r\n", chunk.repeat(64))
            }
            _ => ("", vec![b'x'; 256 * 1024]),
        };
        Reply::Take(Box::new(move |mut stream| {
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes());
            while stream.write_all(&piece).is_ok() {}
        }))
    });
    let parts = Parts { file: "limits: { client_idle_timeout: 5m }", ..Parts::default() };
    // With windows wide open the library's buffers fill; without a window each stream has a piece in hand; in between it has both.
    // A stream holds 16 KiB of its own and what was received for it at once, 32 KiB, and nothing that was joined beside them: 16 KiB more each would be
    // 10,800 KiB. Usual are 8,700; a little more is what the allocator keeps on a busy machine.
    for (what, window, path) in [
        ("the socket is not read, chunks", 0x7fff_ffff_u32, "/chunks"),
        ("the socket is not read", 0x7fff_ffff, "/small"),
        ("the socket is not read, whole buffers", 0x7fff_ffff, "/large"),
        ("no window", 0, "/small"),
        ("a window each", 65535, "/small"),
        ("a window each, chunks", 65535, "/chunks"),
        ("a window each, whole buffers", 65535, "/large"),
    ] {
        // Each its own: a process seldom gives back what it once needed.
        let secure = secure_gate(upstream.address, parts);
        let open = || {
            let mut client = Frames::open(secure.address("web"), secure.dir.path());
            client.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
            client.send(&frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65535).to_be_bytes()));
            for stream in 0..STREAMS {
                client.headers(2 * stream + 1, &get(path), true);
            }
            client
        };
        check_for(&secure, what, 3, 10_000, open);
    }
}
