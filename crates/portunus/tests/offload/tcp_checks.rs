//! Checks that say something on a connection and look at what comes back: of a real Redis, of a server that speaks first, and of odd ones.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::site::{folder, listens, yaml};
use crate::harness::{Gate, connect, read_to_end, trial, wait_until};

/// A Redis on a Unix socket, killed when dropped.
struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Redis {
    fn start(folder: &Path, name: &str, more: &[&str]) -> Redis {
        let socket = folder.join(name);
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder)
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server (the Debian package redis-server)");
        let redis = Redis { child, socket };
        wait_until("redis-server", || listens(&redis.socket));
        redis
    }

    fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tunnel to servers that are checked like this, each time so long after the last one.
fn gate(servers: &[String], interval: &str, health: &str) -> Gate {
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    Gate::start_in(
        folder(),
        &yaml(
            "  - { name: db, bind: \"127.0.0.1:0\", tunnel: { upstream: db } }",
            &format!(
                "  db: {{ servers: [{}], protocol: tcp, health: {{ interval: {interval}, timeout: {interval}, fall: 1, rise: 1, {health} }} }}",
                servers.join(", ")
            ),
            "",
        ),
    )
}

fn role(gate: &Gate) -> String {
    let mut stream = connect(gate.address("db"));
    // Where nobody is healthy at the moment, it is reset.
    let _ = stream.write_all(b"INFO replication\r\nQUIT\r\n");
    String::from_utf8_lossy(&read_to_end(&mut stream)).into_owned()
}

#[test]
fn the_primary_of_two_redis_gets_the_connections() {
    let dir = tempfile::tempdir().unwrap();
    let replica = Redis::start(dir.path(), "replica.sock", &["--replicaof", "127.0.0.1", "1"]);
    let primary = Redis::start(dir.path(), "primary.sock", &[]);
    let steps = "steps: [{ send: \"PING\\r\\n\", expect: \"+PONG\" }, { send: \"INFO replication\\r\\n\", expect: { expression: \"role:(master|primary)\" } }, \
        { send: { hex: \"51 55 49 54 0d0a\" }, expect: { hex: \"2b4f4b\" } }]";
    let gate = gate(&[replica.address(), primary.address()], "1s", steps);
    let is_checked =
        || gate.diagnostics().iter().any(|line| line.contains("\"healthy\":false") && line.contains("replica.sock"));
    wait_until("the replica to be left out", is_checked);
    // A loaded machine may be late for the primary, too.
    wait_until("connections to the primary", || (0..4).all(|_| role(&gate).contains("role:master")));
}

/// What a server says on each connection, until it has heard something; and how many of these have ended.
fn saying(what: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let address = trial::server(move |_, mut stream: TcpStream| {
        let _ = stream.write_all(what);
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
        count.fetch_add(1, Ordering::SeqCst);
    });
    (address, ended)
}

#[test]
fn what_a_server_says_first_or_not_decides() {
    let long = vec![b'x'; 20_000].leak();
    long[19_990..].copy_from_slice(b"220 mail\r\n");
    for (says, health, is_healthy) in [
        (&b"220 mail.example ESMTP\r\n"[..], "expect: { expression: \"^220 .*SMTP\" }", true),
        (b"SSH-2.0-x\r\n220 ", "expect: { expression: \"^220 \" }", false),
        (b"SSH-2.0-x\r\n", "expect: SSH-2.0-", true),
        (b"SSH-2.0-x\r\n", "send: x, expect: { hex: \"5353\" }", true),
        // What ends, and what is too long, before what is expected.
        (b"", "send: x, expect: y", false),
        (long, "expect: \"220 mail\"", false),
    ] {
        let (server, ended) = saying(says);
        // Of one that is healthy the first check may take long, and is the only one.
        let gate = gate(&[server.to_string()], if is_healthy { "1h" } else { "100ms" }, health);
        if is_healthy {
            wait_until("the check", || ended.load(Ordering::SeqCst) > 0);
            let mut stream = connect(gate.address("db"));
            let mut first = [0; 3];
            stream.read_exact(&mut first).unwrap();
            assert_eq!(first, says[..3], "{health}");
        } else {
            gate.wait_for("\"healthy\":false");
        }
    }
}
