//! How many calls into the kernel a burst of datagrams costs, as `strace` counts them.
//!
//! The program is stopped while the burst arrives, so that what waits for it does not depend on who is faster.

use std::process::{Command, Stdio};

use super::site::{CLIENT, Running, Site, find};
use crate::harness::{end_of, wait_until};

/// Datagrams of one burst.
const BURST: usize = 256;

/// Tells its readiness, takes a burst, tells that, waits for a word on another port, and answers the burst.
const APPLICATION: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
s.bind(("127.0.0.1", 5353))
go = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
go.bind(("127.0.0.1", 5354))
print("ready")
data, peer = s.recvfrom(65536)
s.sendto(data, peer)
burst = [s.recvfrom(65536) for _ in range(256)]
print("taken", len(set(data for data, _ in burst)))
go.recvfrom(100)
for data, peer in burst:
    s.sendto(data, peer)
print("answered")
go.recvfrom(100)
"#;

/// Opens a flow, waits for a word, sends a burst, and takes the responses.
const ASKING: &str = r#"
edge = ("198.51.100.1", 53)
s = udp(timeout=60)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
go = udp(("203.0.113.8", 5355), timeout=60)
s.sendto(v2(("203.0.113.7", 4711), edge) + b"first", edge)
assert s.recv(65536) == b"first"
print("open")
go.recv(100)
for i in range(256):
    s.sendto(v2(("203.0.113.7", 4711), edge) + b"%03d" % i + b"x" * 61, edge)
print("sent")
got = [s.recv(65536) for _ in range(256)]
print("got", len(set(got)))
"#;

/// Wakes the Python program that waits at this address.
fn go(namespace: &str, address: &str) {
    let word = format!("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'go', {address})");
    super::site::run(&["ip", "netns", "exec", namespace, "python3", "-c", &word]);
}

/// Stops the program, and waits until it is.
fn stop(running: &Running) {
    running.signal("STOP");
    wait_until("all threads to be stopped", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", running.pid)).unwrap();
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['t', 'T']))
        })
    });
}

/// How often each call was made, from the table of `strace -c`.
fn calls(table: &str, name: &str) -> usize {
    let line = table.lines().find(|line| line.split_whitespace().last() == Some(name));
    line.map_or(0, |line| line.split_whitespace().nth(3).unwrap().parse().unwrap())
}

#[test]
fn a_burst_costs_few_calls_each_way() {
    let mut site = Site::new();
    let (edge, client) = (site.edge.clone(), site.client.clone());
    let application = site.python(&edge, APPLICATION);
    let yaml = "workers: 1\nudp_listeners:\n- name: dns\n  bind: \"198.51.100.1:53\"\n  upstream: \"127.0.0.1:5353\"\n  \
                proxy_protocol: { mode: each, trust: 198.51.100.10 }\n  transparent: true\n";
    let running = site.portunus(yaml).listens("198.51.100.1:53");
    let asking = site.python(&client, &format!("{CLIENT}\n{ASKING}"));
    find(&asking, "open");

    let table = site.dir.path().join("calls");
    let pid = running.pid.to_string();
    let arguments = ["-f", "-c", "-e", "trace=recvmmsg,sendmmsg,recvmsg,sendmsg,recvfrom,sendto", "-o"];
    let mut strace = Command::new("strace")
        .args(arguments)
        .args([table.to_str().unwrap(), "-p", &pid])
        .stderr(Stdio::null())
        .spawn()
        .expect("strace, a Debian package of this name");
    wait_until("strace to watch all threads", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.flatten().all(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        })
    });

    stop(&running);
    go(&client, "('203.0.113.8', 5355)");
    find(&asking, "sent");
    running.signal("CONT");
    find(&application, &format!("taken {BURST}"));
    stop(&running);
    go(&edge, "('127.0.0.1', 5354)");
    find(&application, "answered");
    running.signal("CONT");
    find(&asking, &format!("got {BURST}"));
    super::site::run(&["kill", "-INT", &strace.id().to_string()]);
    end_of(&mut strace);

    let table = std::fs::read_to_string(table).unwrap();
    let count = |name: &str| calls(&table, name);
    let alone = count("recvfrom") + count("sendto") + count("recvmsg") + count("sendmsg");
    // Four times each datagram crosses the border of the kernel. A flow's answers are taken sixteen at a time, so that others get their turn.
    let most = 4 * BURST / 16;
    let together = count("recvmmsg") + count("sendmmsg");
    assert!(together > 0 && together <= most, "{together} calls, not at most {most}:\n{table}");
    assert!(alone <= 8, "{alone} calls for one datagram each:\n{table}");
}
