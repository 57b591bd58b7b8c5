//! What these tests share: configurations of tunnels, raw upstreams that record, and other people's programs as peers.
//!
//! Owns the processes it starts. Asserts nothing about the product.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::secure::Secure;
use crate::harness::{PATIENCE, certificates, wait_until};

/// A configuration: these listener items, these upstream items, and the keystore `main` with a certificate for `a.test` and `b.test`.
pub fn yaml(listeners: &str, upstreams: &str, more: &str) -> String {
    format!(
        "workers: 1
listeners:
{listeners}
keystores: {{ main: {{ folder: certs, default: a.test }} }}
upstreams:
{upstreams}
{more}
"
    )
}

/// A folder with what [`yaml`] names.
pub fn folder() -> TempDir {
    certificates(&[("a.test", false), ("b.test", false)])
}

/// Either kind of stream.
pub trait Duplex: Read + Write + Send {
    /// Ends our direction.
    fn end(&mut self);
}

impl Duplex for TcpStream {
    fn end(&mut self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Duplex for UnixStream {
    fn end(&mut self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

/// A raw TCP upstream: its address, and each connection as it comes.
pub fn tcp_upstream() -> (SocketAddr, Receiver<TcpStream>) {
    connections_of(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
}

/// The address of a listener, and each connection as it comes.
pub fn connections_of(listener: TcpListener) -> (SocketAddr, Receiver<TcpStream>) {
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

/// An upstream under TLS that does `serve` with each connection.
pub fn tls_upstream(dir: &Path, serve: impl Fn(Secure) + Send + 'static) -> SocketAddr {
    let (dir, listener) = (dir.to_owned(), TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(Secure::accept(stream.unwrap(), &dir));
        }
    });
    address
}

/// A raw Unix upstream at this path.
pub fn unix_upstream(path: &Path) -> Receiver<UnixStream> {
    let listener = UnixListener::bind(path).unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The next connection of an upstream.
pub fn next<T>(connections: &Receiver<T>) -> T {
    connections.recv_timeout(PATIENCE).expect("no connection came upstream")
}

/// Bytes that repeat nowhere, always the same for a seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Writes in pieces of random size, small ones and large ones.
pub fn write_in_pieces(stream: &mut dyn Write, mut bytes: &[u8], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !bytes.is_empty() {
        let most = if random.bool() { 64 } else { 200_000 };
        let (piece, rest) = bytes.split_at(random.usize(1..=most).min(bytes.len()));
        stream.write_all(piece).unwrap();
        bytes = rest;
    }
}

/// Reads to an orderly end; anything else fails the test.
pub fn read_all(stream: &mut dyn Read) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap_or_else(|error| panic!("no orderly end after {} bytes: {error}", all.len()));
    all
}

/// Another program, ended with the test.
pub struct Peer(Child);

impl Peer {
    /// Starts it in `dir` and waits until `ready`.
    pub fn start(program: &str, arguments: &[&str], dir: &Path, ready: impl Fn() -> bool) -> Peer {
        let child = Command::new(program)
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join(format!("{program}.err"))).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
        let peer = Peer(child);
        wait_until(&format!("{program} to be ready"), ready);
        peer
    }

    /// HAProxy on this configuration.
    pub fn haproxy(dir: &Path, config: &str, ready: impl Fn() -> bool) -> Peer {
        let text = format!("defaults\n  timeout client 30s\n  timeout server 30s\n  timeout connect 5s\n{config}");
        std::fs::write(dir.join("haproxy.cfg"), text).unwrap();
        Peer::start("haproxy", &["-db", "-f", "haproxy.cfg"], dir, ready)
    }

    /// nginx on this content of its `http` block.
    pub fn nginx(dir: &Path, http: &str, ready: impl Fn() -> bool) -> Peer {
        let dir_text = dir.display();
        let text = format!(
            "daemon off; master_process off; pid {dir_text}/nginx.pid; error_log {dir_text}/nginx.log;\n\
             events {{}}\nhttp {{ access_log off; client_body_temp_path {dir_text}/t1; proxy_temp_path {dir_text}/t2;\n\
             fastcgi_temp_path {dir_text}/t3; uwsgi_temp_path {dir_text}/t4; scgi_temp_path {dir_text}/t5;\n{http}\n}}\n"
        );
        std::fs::write(dir.join("nginx.conf"), text).unwrap();
        let config = dir.join("nginx.conf");
        Peer::start("nginx", &["-p", &dir_text.to_string(), "-c", config.to_str().unwrap()], dir, ready)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a Unix socket takes connections.
pub fn listens(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Reads exactly `length` bytes.
pub fn read_exactly(stream: &mut dyn Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// A moment that is long for a proxy on the same machine; only for showing that something does not happen.
pub const MOMENT: Duration = Duration::from_millis(200);
