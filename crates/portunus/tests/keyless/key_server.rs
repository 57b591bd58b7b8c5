//! A key server of the tests (`tests/keyless/key_server.py`) as a process, and what it tells.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, wait_until};

/// A running key server.
pub struct KeyServer {
    child: Child,
    /// Where it listens, as the configuration of an edge has it.
    pub address: String,
    events: Arc<Mutex<Vec<serde_json::Value>>>,
    /// Reads what it tells, until it ends.
    reader: JoinHandle<()>,
    /// Its standard input, and how many marks were asked for there.
    marks: Mutex<(ChildStdin, usize)>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/keyless/key_server.py")
}

impl KeyServer {
    /// Starts one that serves `keys/` of a folder and behaves as told.
    pub fn start(dir: &Path, behave: &str) -> KeyServer {
        KeyServer::start_with(dir, &[], &["--behave", behave])
    }

    /// Starts it at this address, where another one may have been.
    pub fn at(dir: &Path, address: &str, behave: &str) -> KeyServer {
        let (host, port) = address.rsplit_once(':').unwrap();
        KeyServer::start_with(dir, &[], &["--host", host, "--port", port, "--behave", behave])
    }

    /// Starts it behind a command (such as one that enters a network namespace), with further arguments.
    pub fn start_with(dir: &Path, before: &[&str], arguments: &[&str]) -> KeyServer {
        let words: Vec<&str> = before.iter().copied().chain(["python3", "-B"]).collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .arg(script())
            .args(["--keys", "keys", "--ca", "ca.pem", "--cert", "server.pem", "--key", "server.key"])
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed (Debian packages python3 and python3-cryptography)");
        let events = Arc::new(Mutex::new(Vec::new()));
        let (kept, output) = (Arc::clone(&events), child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines
                .filter_map(|line| serde_json::from_str(&line).ok())
                .for_each(|event| kept.lock().unwrap().push(event));
        });
        let marks = Mutex::new((child.stdin.take().unwrap(), 0));
        let mut server = KeyServer { child, address: String::new(), events, reader, marks };
        wait_until("the key server to listen", || server.count("listening") == 1);
        let host =
            arguments.iter().position(|argument| *argument == "--host").map_or("127.0.0.1", |at| arguments[at + 1]);
        let listening = server.events("listening").remove(0);
        server.address = match listening["port"].as_u64() {
            Some(port) => format!("{host}:{port}"),
            None => format!("unix:{}", listening["unix"].as_str().unwrap()),
        };
        server
    }

    /// What it told of one kind of event. It tells of a request before it answers, so what was answered is there.
    pub fn events(&self, kind: &str) -> Vec<serde_json::Value> {
        self.catch_up();
        self.known(kind)
    }

    /// Waits until all that it told so far is read; of one that is gone, until no more comes.
    fn catch_up(&self) {
        let mut marks = self.marks.lock().unwrap();
        marks.1 += 1;
        let is_gone = writeln!(marks.0).is_err();
        let since = Instant::now();
        while !self.reader.is_finished() && since.elapsed() < PATIENCE {
            if !is_gone && self.known("mark").len() >= marks.1 {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn known(&self, kind: &str) -> Vec<serde_json::Value> {
        self.events.lock().unwrap().iter().filter(|event| event["event"] == kind).cloned().collect()
    }

    /// How many of them there were.
    pub fn count(&self, kind: &str) -> usize {
        self.events(kind).len()
    }

    /// The opcodes it was asked for, but for pings.
    pub fn opcodes(&self) -> Vec<u64> {
        self.events("request").iter().map(|event| event["opcode"].as_u64().unwrap()).collect()
    }

    /// Sends it a signal by name, e.g. `STOP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
