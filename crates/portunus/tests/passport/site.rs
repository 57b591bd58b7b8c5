//! A small site in network namespaces of its own: clients with public addresses on one side, the edge with its applications on the other.
//!
//! ```text
//!   client namespace                      edge namespace
//!   203.0.113.7, .8, 2001:db8::7, ::8     198.51.100.1, 2001:db8:1::1      applications on loopback
//!   198.51.100.10 (the balancer), 2001:db8:1::10
//! ```
//!
//! Names carry the process id and a count, so that runs do not meet. Everything is taken down with the value.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::harness::{end_of, wait_until};

/// Two namespaces, joined.
pub struct Site {
    pub client: String,
    pub edge: String,
    others: Vec<String>,
    children: Vec<Child>,
    /// Its folder.
    pub dir: TempDir,
}

/// Runs a command that must succeed; gives its output.
pub fn run(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{words:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A program in a namespace.
pub fn within(namespace: &str, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).args(words);
    command
}

impl Site {
    pub fn new() -> Site {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| format!("passport-{}-{number}-{side}", std::process::id());
        let site = Site {
            client: name("client"),
            edge: name("edge"),
            others: Vec::new(),
            children: Vec::new(),
            dir: tempfile::tempdir().unwrap(),
        };
        for namespace in [&site.client, &site.edge] {
            run(&["ip", "netns", "add", namespace]);
            run(&["ip", "-n", namespace, "link", "set", "lo", "up"]);
        }
        run(&[
            "ip",
            "-n",
            &site.client,
            "link",
            "add",
            "east",
            "type",
            "veth",
            "peer",
            "name",
            "west",
            "netns",
            &site.edge,
        ]);
        let address = |namespace: &str, link: &str, address: &str| {
            let mut words = vec!["ip", "-n", namespace, "address", "add", address, "dev", link];
            words.extend(address.contains("::").then_some("nodad"));
            run(&words);
        };
        for own in [
            "198.51.100.10/24",
            "203.0.113.7/32",
            "203.0.113.8/32",
            "2001:db8:1::10/64",
            "2001:db8::7/128",
            "2001:db8::8/128",
        ] {
            address(&site.client, "east", own);
        }
        for own in ["198.51.100.1/24", "2001:db8:1::1/64"] {
            address(&site.edge, "west", own);
        }
        run(&["ip", "-n", &site.client, "link", "set", "east", "up"]);
        run(&["ip", "-n", &site.edge, "link", "set", "west", "up"]);
        for (network, via) in [("203.0.113.0/24", "198.51.100.10"), ("2001:db8::/64", "2001:db8:1::10")] {
            run(&["ip", "-n", &site.edge, "route", "add", network, "via", via]);
        }
        site
    }

    /// Another host behind the edge: 198.18.0.2 and 2001:db8:2::2, whose way to everywhere is the edge. Gives its namespace.
    pub fn other_host(&mut self) -> String {
        let other = self.edge.replace("edge", "other");
        self.others.push(other.clone());
        run(&["ip", "netns", "add", &other]);
        let peer = ["type", "veth", "peer", "name", "north", "netns", &other];
        run(&[&["ip", "-n", &self.edge, "link", "add", "south"], &peer[..]].concat());
        for (namespace, link, v4, v6) in [
            (&self.edge, "south", "198.18.0.1/24", "2001:db8:2::1/64"),
            (&other, "north", "198.18.0.2/24", "2001:db8:2::2/64"),
        ] {
            run(&["ip", "-n", namespace, "address", "add", v4, "dev", link]);
            run(&["ip", "-n", namespace, "address", "add", v6, "dev", link, "nodad"]);
            run(&["ip", "-n", namespace, "link", "set", link, "up"]);
        }
        run(&["ip", "-n", &other, "route", "add", "default", "via", "198.18.0.1"]);
        run(&["ip", "-n", &other, "-6", "route", "add", "default", "via", "2001:db8:2::1"]);
        other
    }

    /// `portunus routing` with these arguments, in the edge namespace; gives exit status and output.
    pub fn routing(&self, arguments: &[&str]) -> (bool, String) {
        let mut words = vec![env!("CARGO_BIN_EXE_portunus"), "routing"];
        words.extend(arguments);
        let output = within(&self.edge, &words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Starts the program in the edge namespace, with the policy routing set up.
    pub fn portunus(&mut self, yaml: &str) -> Running {
        let (done, reported) = self.routing(&["setup"]);
        assert!(done, "{reported}");
        self.portunus_as_it_is(yaml)
    }

    /// Starts the program in the edge namespace.
    pub fn portunus_as_it_is(&mut self, yaml: &str) -> Running {
        let file = self.dir.path().join("portunus.yaml");
        std::fs::write(&file, format!("{yaml}\nlog: {{ access: {{ output: access.log }} }}\n")).unwrap();
        self.program(&["run", file.to_str().unwrap()])
    }

    /// Starts the program with these arguments in the edge namespace, and waits until it serves.
    pub fn program(&mut self, arguments: &[&str]) -> Running {
        let mut words = vec![env!("CARGO_BIN_EXE_portunus")];
        words.extend(arguments);
        let mut command = within(&self.edge, &words);
        self.started(command.current_dir(self.dir.path()))
    }

    /// Starts a program that logs as ours does.
    pub fn started(&mut self, command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let running = Running {
            pid: child.id(),
            output: gather(child.stdout.take().unwrap()),
            diagnostics: gather(child.stderr.take().unwrap()),
            log: self.dir.path().join("access.log"),
        };
        self.children.push(child);
        running
    }

    /// Starts a Python program in a namespace; waits until it has printed a first line, which says that it is ready.
    pub fn python(&mut self, namespace: &str, program: &str) -> Lines {
        let mut child = within(namespace, &["python3", "-u", "-c", program]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = gather(child.stdout.take().unwrap());
        self.children.push(child);
        wait_until("the Python program", || !lines.lock().unwrap().is_empty());
        lines
    }

    /// Takes care of a program that was started elsewhere.
    pub fn keep(&mut self, child: Child) {
        self.children.push(child);
    }

    /// Whether the program that was started last has ended.
    pub fn has_ended(&mut self) -> bool {
        self.children.last_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Ends the program that was started last.
    pub fn end_last(&mut self) {
        let mut child = self.children.pop().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits for the end of the program that was started last; gives its exit code.
    pub fn wait_last(&mut self) -> Option<i32> {
        end_of(&mut self.children.pop().unwrap()).code()
    }

    /// Runs a Python program in the client namespace to its end; gives what it printed.
    pub fn client(&self, program: &str) -> String {
        let program = format!("{CLIENT}\n{program}");
        let output = within(&self.client, &["python3", "-c", &program]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        assert!(output.status.success(), "{text}");
        text
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for namespace in [&self.client, &self.edge].into_iter().chain(&self.others) {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).status();
        }
    }
}

/// Lines that a program has printed so far.
pub type Lines = Arc<Mutex<Vec<String>>>;

fn gather(stream: impl std::io::Read + Send + 'static) -> Lines {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    std::thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line));
    });
    lines
}

/// The program at work.
pub struct Running {
    pub pid: u32,
    pub output: Lines,
    pub diagnostics: Lines,
    log: std::path::PathBuf,
}

impl Running {
    /// Waits for a diagnostic line that contains `text`; gives it.
    pub fn wait_for(&self, text: &str) -> String {
        find(&self.diagnostics, text)
    }

    /// Waits until it listens at `address`.
    pub fn listens(self, address: &str) -> Running {
        let wanted = format!("\"address\":\"{address}\"");
        wait_until(&format!("listening at {address}: {:#?}", self.diagnostics.lock().unwrap()), || {
            self.diagnostics.lock().unwrap().iter().any(|line| line.contains("listening") && line.contains(&wanted))
        });
        self
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        run(&["kill", &format!("-{name}"), &self.pid.to_string()]);
    }

    /// Access-log lines once there are at least `count`.
    pub fn log(&self, count: usize) -> Vec<serde_json::Value> {
        let mut lines = Vec::new();
        wait_until(&format!("{count} log lines"), || {
            let text = std::fs::read_to_string(Path::new(&self.log)).unwrap_or_default();
            lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            lines.len() >= count
        });
        lines
    }
}

/// Waits for a line that contains `text`; gives it.
pub fn find(lines: &Lines, text: &str) -> String {
    let mut found = None;
    wait_until(&format!("{text:?} in {:#?}", lines.lock().unwrap()), || {
        found = lines.lock().unwrap().iter().find(|line| line.contains(text)).cloned();
        found.is_some()
    });
    found.unwrap()
}

/// What client programs begin with.
pub const CLIENT: &str = r#"
import socket, struct, sys, time
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
def v2(source, destination, kind=socket.SOCK_DGRAM, command=0x21, tlvs=b""):
    six = ":" in source[0]
    pack = lambda host: socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, host)
    block = pack(source[0]) + pack(destination[0]) + struct.pack("!HH", source[1], destination[1]) + tlvs
    family = (0x20 if six else 0x10) | (1 if kind == socket.SOCK_STREAM else 2)
    return SIGNATURE + struct.pack("!BBH", command, family, len(block)) + block
def spp(client, proxy):
    pack = lambda host: socket.inet_pton(socket.AF_INET6, host if ":" in host else "::ffff:" + host)
    return b"\x56\xec" + pack(client[0]) + pack(proxy[0]) + struct.pack("!HH", client[1], proxy[1])
def udp(source=("198.51.100.10", 0), timeout=60):
    s = socket.socket(socket.AF_INET6 if ":" in source[0] else socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(source)
    s.settimeout(timeout)
    return s
def tcp(target, source=("198.51.100.10", 0)):
    s = socket.socket(socket.AF_INET6 if ":" in source[0] else socket.AF_INET, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(source)
    s.settimeout(60)
    s.connect(target)
    return s
def silent(s, seconds=0.3):
    s.settimeout(seconds)
    try:
        return s.recv(65536) == b"" and False
    except (TimeoutError, socket.timeout):
        s.settimeout(60)
        return True
"#;

/// A Python UDP server on loopback that responds each datagram with the sender's address and the datagram.
pub fn udp_echo(address: &str, port: u16) -> String {
    format!(
        r#"
import socket
s = socket.socket(socket.AF_INET6 if ":" in "{address}" else socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("{address}", {port}))
print("ready")
while True:
    data, peer = s.recvfrom(65536)
    print(peer[0], peer[1], data[:64])
    if data != b"hush":
        s.sendto(("%s %d " % peer[:2]).encode() + data if data else b"", peer)
"#
    )
}

/// A Python TCP server on loopback that tells each client its address, and then sends back what it gets.
pub fn tcp_echo(address: &str, port: u16) -> String {
    format!(
        r#"
import socket, threading
s = socket.socket(socket.AF_INET6 if ":" in "{address}" else socket.AF_INET, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("{address}", {port}))
s.listen(128)
print("ready")
def serve(c, peer):
    print("from", peer[0], peer[1])
    c.sendall(("%s %d\n" % peer[:2]).encode())
    while True:
        data = c.recv(65536)
        if not data:
            break
        c.sendall(data)
    c.shutdown(socket.SHUT_WR)
    c.close()
while True:
    c, peer = s.accept()
    threading.Thread(target=serve, args=(c, peer), daemon=True).start()
"#
    )
}
