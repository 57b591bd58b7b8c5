//! What black-box tests share: the real program on ports the kernel chose, an upstream that records every byte, and a raw client.
//!
//! Owns processes, sockets and folders of a test and takes them down with it. Asserts nothing about the product.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a harness that cannot go on fails the test"
)]
#![allow(dead_code, reason = "each test uses some of it")]
#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

pub mod frames;
pub mod http2;
mod running;
pub mod secure;
pub mod signing;
pub mod trial;
pub mod websocket;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keystore::dev_ca::{DevCa, Purpose};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

pub use running::{Running, member};

/// Longest wait for anything that must happen; a test that gets there fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What keeps `openssl s_client` from reading all CA certificates of the machine first, which takes it longer than its connection.
pub const NO_SYSTEM_CAS: [&str; 3] = ["-no-CAfile", "-no-CApath", "-no-CAstore"];

/// The program.
pub const PORTUNUS: &str = env!("CARGO_BIN_EXE_portunus");

/// An address that nobody listens at, and nobody will but who is given it: each call has a loopback address of its own, so no other test can be given
/// the port meanwhile. Never listened at either: a process that was just forked would go on listening until it runs its program.
pub fn vacant() -> SocketAddr {
    static CALLS: AtomicU16 = AtomicU16::new(1);
    let [.., process] = std::process::id().to_be_bytes();
    let [high, low] = CALLS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let address = Ipv4Addr::new(127, 64 | (process & 63), high, low);
    rejecting(address).0
}

/// A port of this address that rejects connections for as long as the socket lives: bound, never listened at.
pub fn rejecting(address: Ipv4Addr) -> (SocketAddr, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    (socket.local_addr().unwrap().as_socket().unwrap(), socket)
}

/// A running gate.
pub struct Gate {
    running: Running,
    /// Its folder: configuration, certificates, log.
    pub dir: TempDir,
    addresses: HashMap<String, SocketAddr>,
}

impl Gate {
    /// Starts the program on this YAML, in a fresh folder. Listeners bind port 0, each on a loopback address of its own. The access log is
    /// `access.log` unless the text has a `log:` of its own.
    pub fn start(yaml: &str) -> Gate {
        Gate::start_in(tempfile::tempdir().unwrap(), yaml)
    }

    /// As [`Gate::start`], in a folder that holds certificates or other files already.
    pub fn start_in(dir: TempDir, yaml: &str) -> Gate {
        Gate::start_by(dir, yaml, Command::new(PORTUNUS))
    }

    /// As [`Gate::start_in`], by a command that runs the program with the arguments it is given more.
    pub fn start_by(dir: TempDir, yaml: &str, mut command: Command) -> Gate {
        write_config(dir.path(), yaml);
        // Most tests count their reloads.
        command.args(["run", "--no-watch"]).arg(dir.path().join("portunus.yaml"));
        let listeners = yaml.matches("bind:").count() - usize::from(yaml.contains("admin:"));
        Gate::start_command(dir, command, listeners + usize::from(yaml.contains("admin:")))
    }

    /// Starts the program by this command in this folder and waits for it to tell so many addresses. Unless the command says otherwise, its admin
    /// socket is `control.sock` there.
    pub fn start_command(dir: TempDir, mut command: Command, wanted: usize) -> Gate {
        if !command.get_envs().any(|(name, _)| name == "PORTUNUS_CONTROL") {
            command.env("PORTUNUS_CONTROL", dir.path().join("control.sock"));
        }
        let file = dir.path().join("portunus.yaml");
        if let Ok(text) = std::fs::read_to_string(&file)
            && fit_for_kernel(&text) != text
        {
            std::fs::write(file, fit_for_kernel(&text)).unwrap();
        }
        let mut addresses = HashMap::new();
        let running = Running::start(command.current_dir(dir.path()), |event| {
            if let Some(address) = member(event, "address").and_then(|address| address.parse().ok()) {
                addresses.insert(member(event, "listener").unwrap_or("admin").to_owned(), address);
            }
            addresses.len() >= wanted
        });
        Gate { running, dir, addresses }
    }

    /// Where a listener (or `admin`) listens.
    pub fn address(&self, listener: &str) -> SocketAddr {
        *self.addresses.get(listener).unwrap_or_else(|| panic!("no listener {listener}"))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Sends it a signal by name, e.g. `HUP`.
    pub fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Replaces its configuration file (the access log stays).
    pub fn rewrite(&self, yaml: &str) {
        write_config(self.dir.path(), yaml);
    }

    /// Diagnostic lines so far.
    pub fn diagnostics(&self) -> Vec<String> {
        self.running.diagnostics()
    }

    /// Waits for a diagnostic line that contains `text`.
    pub fn wait_for(&self, text: &str) {
        self.running.wait_for(text, 1);
    }

    /// Access-log lines once there are at least `count`.
    pub fn log(&self, count: usize) -> Vec<serde_json::Value> {
        let path = self.dir.path().join("access.log");
        let mut lines = Vec::new();
        wait_until(&format!("{count} log lines"), || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            lines.len() >= count
        });
        lines
    }

    /// The metrics page.
    pub fn metrics(&self) -> String {
        let response =
            exchange(self.address("admin"), b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        String::from_utf8_lossy(&response).into_owned()
    }

    /// A request over its admin socket, where everything is allowed; gives the whole response as text.
    pub fn operate(&self, line: &str, fields: &str) -> String {
        ask_socket(&self.dir.path().join("control.sock"), line, fields)
    }

    /// The exit code of a process that ends by itself.
    pub fn running_exit(&mut self) -> Option<i32> {
        end_of(&mut self.running.child).code()
    }

    /// Ends it with SIGTERM, unless it was told to end already (a second signal would cut its drain short); gives its exit code.
    pub fn stop(self) -> Option<i32> {
        self.stop_and_keep().0
    }

    /// As [`Gate::stop`]; gives its folder too.
    pub fn stop_and_keep(mut self) -> (Option<i32>, TempDir) {
        if !self.running.was_reported_to_end() {
            self.signal("TERM");
        }
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.running.child.try_wait().unwrap() {
                let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
                return (status.code(), dir);
            }
            assert!(Instant::now() < until, "the gate does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn write_config(dir: &Path, yaml: &str) {
    let mut text = yaml.to_owned();
    if !yaml.contains("\nlog:") {
        text.push_str("\nlog: { access: { format: json, output: access.log }, level: info }\n");
    }
    let fresh = dir.join("portunus.yaml.new");
    std::fs::write(&fresh, fit_for_kernel(&text)).unwrap();
    std::fs::rename(fresh, dir.join("portunus.yaml")).unwrap();
}

/// A configuration as it can start here: on a kernel without Landlock the default mode of the sandbox would not let it.
fn fit_for_kernel(yaml: &str) -> String {
    if net::confine::landlock_version().is_some() || yaml.contains("mode: auto") {
        return yaml.to_owned();
    }
    match yaml.contains("sandbox:") {
        true => yaml.replace("sandbox: { ", "sandbox: { mode: auto, "),
        false => format!("{yaml}\nsandbox: auto\n"),
    }
}

/// Polls until `done`; fails the test after [`PATIENCE`].
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, done);
}

/// Polls until `done`; fails the test after `patience`.
pub fn wait_within(patience: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !done() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a program ends that is to end by itself; one that does not is killed, and fails the test.
pub fn end_of(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    let mut status = None;
    wait_within(2 * PATIENCE, "a program that was killed", || {
        status = child.try_wait().unwrap();
        if status.is_none() && Instant::now() > until {
            let _ = child.kill();
        }
        status.is_some()
    });
    assert!(Instant::now() <= until, "process {} did not end", child.id());
    status.unwrap()
}

/// What a program says until its end, as its pipes have it; one that does not end is killed, and fails the test.
pub fn output_of(child: Child) -> Output {
    let pid = child.id().to_string();
    let (sender, ended) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    // Longer than what the programs of these tests wait for themselves.
    let Ok(output) = ended.recv_timeout(2 * PATIENCE) else {
        let _ = Command::new("kill").args(["-KILL", &pid]).status();
        panic!("process {pid} did not end");
    };
    output.unwrap()
}

/// A command that runs this program, and kills it if it takes longer than that.
pub fn timed(patience: Duration, program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &patience.as_secs().to_string(), program]);
    command
}

/// Tells the threads of a scope to stop, also when an assertion fails: the scope would wait for them for ever.
pub struct StopOnDrop<'s>(pub &'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A request as the upstream saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Everything up to the empty line.
    pub head: String,
    /// The body, unframed.
    pub body: Vec<u8>,
    /// Whether the body came to its end; a request that was cut is recorded all the same.
    pub whole: bool,
    /// Which connection it came on, from 0.
    pub connection: usize,
}

impl Seen {
    /// The request line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// Values of a field, in order.
    pub fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

/// What a recording upstream does after each request.
pub enum Reply {
    /// Sends these bytes and keeps the connection.
    Keep(Vec<u8>),
    /// Sends these bytes and closes.
    Close(Vec<u8>),
    /// Sends these bytes and resets the connection.
    Reset(Vec<u8>),
    /// Sends nothing for so long that the test is over.
    Silence,
    /// Hands the connection over.
    Take(Box<dyn FnOnce(TcpStream) + Send>),
}

/// An upstream that records all it gets.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    raw: Arc<Mutex<Vec<u8>>>,
}

impl Upstream {
    /// An upstream that responds each request as `reply` says.
    pub fn start(reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Upstream {
        Upstream::on(TcpListener::bind("127.0.0.1:0").unwrap(), reply)
    }

    /// As [`Upstream::start`], on this socket.
    pub fn on(listener: TcpListener, reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Upstream {
        let address = listener.local_addr().unwrap();
        let (seen, raw) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (kept_seen, kept_raw, reply) = (Arc::clone(&seen), Arc::clone(&raw), Arc::new(reply));
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (seen, raw, reply) = (Arc::clone(&kept_seen), Arc::clone(&kept_raw), Arc::clone(&reply));
                std::thread::spawn(move || serve(stream.unwrap(), connection, &seen, &raw, &*reply));
            }
        });
        Upstream { address, seen, raw }
    }

    /// An upstream that responds `200` and `ok` to everything.
    pub fn ok() -> Upstream {
        Upstream::start(|_| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()))
    }

    /// Requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// All bytes so far, of all connections.
    pub fn raw(&self) -> Vec<u8> {
        self.raw.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    connection: usize,
    seen: &Mutex<Vec<Seen>>,
    raw: &Mutex<Vec<u8>>,
    reply: &dyn Fn(&Seen) -> Reply,
) {
    let mut reader = Recorder { stream: stream.try_clone().unwrap(), raw, held: Vec::new() };
    while let Some(head) = reader.head() {
        let mut request = Seen { head, body: Vec::new(), whole: true, connection };
        (request.body, request.whole) = match request.fields("content-length").first().map(|length| length.parse()) {
            Some(length) => reader.exactly(length.unwrap()),
            None if request.fields("transfer-encoding") == ["chunked"] => reader.chunked(),
            None => (Vec::new(), true),
        };
        seen.lock().unwrap().push(request.clone());
        match reply(&request) {
            Reply::Keep(bytes) => _ = stream.write_all(&bytes),
            Reply::Close(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            Reply::Reset(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                return;
            }
            Reply::Silence => std::thread::sleep(3 * PATIENCE),
            Reply::Take(take) => return take(stream),
        }
    }
}

struct Recorder<'r> {
    stream: TcpStream,
    raw: &'r Mutex<Vec<u8>>,
    held: Vec<u8>,
}

impl Recorder<'_> {
    fn more(&mut self) -> bool {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(count) if count > 0 => {
                self.raw.lock().unwrap().extend_from_slice(&buffer[..count]);
                self.held.extend_from_slice(&buffer[..count]);
                true
            }
            _ => false,
        }
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.held.windows(end.len()).position(|window| window == end) {
                let taken = self.held.drain(..at + end.len()).collect::<Vec<_>>();
                return Some(taken[..at].to_vec());
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n").map(|head| String::from_utf8_lossy(&head).into_owned())
    }

    fn exactly(&mut self, length: usize) -> (Vec<u8>, bool) {
        while self.held.len() < length && self.more() {}
        let taken = length.min(self.held.len());
        (self.held.drain(..taken).collect(), taken == length)
    }

    fn chunked(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        while let Some(line) = self.until(b"\r\n") {
            // What the product sends is strict: an extension, or anything else odd, ends this thread and so the connection.
            let size = usize::from_str_radix(&String::from_utf8_lossy(&line), 16).unwrap();
            if size == 0 {
                let mut last = None;
                while last.as_ref().is_none_or(|line: &Vec<u8>| !line.is_empty()) {
                    last = self.until(b"\r\n");
                    if last.is_none() {
                        return (body, false);
                    }
                }
                return (body, true);
            }
            body.extend(self.exactly(size).0);
            if self.until(b"\r\n").is_none() {
                break;
            }
        }
        (body, false)
    }
}

/// Connects as a client, with patience on every read and write.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Connects as a client that has this address, which on loopback can be any of 127.0.0.0/8.
pub fn connect_from(source: &str, address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(source.parse().unwrap(), 0).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Connects to a Unix socket as a client, with patience on every read and write.
pub fn connect_unix(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The next connection of a listener, with patience for it and on every read and write. The listener blocks nobody from then on.
pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    wait_until("a connection", || match listener.accept() {
        Ok((stream, _)) => accepted.replace(stream).is_none(),
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    });
    let stream = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes and reads until the other side closes.
pub fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    let _ = stream.write_all(bytes);
    read_to_end(&mut stream)
}

/// A request on a connection of its own to an admin socket; gives the whole response as text.
pub fn ask_socket(socket: &Path, line: &str, fields: &str) -> String {
    let mut stream = connect_unix(socket);
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    String::from_utf8_lossy(&read_to_end(&mut stream)).into_owned()
}

/// Reads until the other side closes or resets; fails the test if it does neither.
pub fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the other side neither answers nor closes; so far {:?}", String::from_utf8_lossy(&all))
            }
            Err(_) => return all,
        }
    }
}

/// Reads one HTTP/1 answer with a Content-Length or without a body; gives head and body.
pub fn read_response(stream: &mut impl Read) -> (String, Vec<u8>) {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => all.push(byte[0]),
            other => panic!("no whole response ({other:?}) in {:?}", String::from_utf8_lossy(&all)),
        }
    }
    let head = String::from_utf8_lossy(&all).into_owned();
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, value)| value.trim().parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

/// One request on a connection of its own, which stays open; gives head and body of the response.
pub fn ask_on(address: SocketAddr, request: &str) -> (String, Vec<u8>) {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    read_response(&mut stream)
}

/// The statuses of all responses in a byte stream, by their status lines.
pub fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    text.match_indices("HTTP/1.1 ").filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok()).collect()
}

/// A folder with a development CA (`ca.pem`) and certificates under `certs/`: for each entry an ECDSA pair and, if asked for, an RSA pair.
pub fn certificates(names: &[(&str, bool)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let ca = DevCa::new("Test CA").unwrap();
    std::fs::write(dir.path().join("ca.pem"), ca.certificate_pem()).unwrap();
    std::fs::create_dir(dir.path().join("certs")).unwrap();
    for (index, (name, rsa)) in names.iter().enumerate() {
        let mut kinds = vec![tls::KeyType::Ecdsa];
        kinds.extend(rsa.then_some(tls::KeyType::Rsa));
        for kind in kinds {
            let pair = ca.issue(&[name], kind, Purpose::Server).unwrap();
            let stem = dir.path().join("certs").join(format!("{index}-{kind:?}"));
            std::fs::write(stem.with_extension("pem"), format!("{}{}", pair.certificate_pem, pair.key_pem.as_str()))
                .unwrap();
        }
    }
    dir
}

/// Path of a file in a folder, as text.
pub fn path(dir: &TempDir, file: &str) -> String {
    PathBuf::from(dir.path()).join(file).display().to_string()
}

/// libfaketime, of Debian's package `faketime`, which `./x test` installs.
pub fn faketime() -> std::path::PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|folder| folder.path());
    let library = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    library.expect("libfaketimeMT.so.1 is missing; install the Debian package faketime")
}
