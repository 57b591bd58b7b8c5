//! An etcd for a test: the Debian package's program, or the current release, on loopback, with ports and a folder of its own.
//!
//! Shared by the tests of several crates. Asserts nothing about ours.
#![allow(dead_code, reason = "each test uses some of it")]
#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for it to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// An etcd; killed when dropped.
pub struct Etcd {
    program: PathBuf,
    process: Option<Child>,
    clients: SocketAddr,
    peers: SocketAddr,
    /// Where it says in the clear whether it serves.
    health: SocketAddr,
    is_tls: bool,
    folder: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An address that nobody else will be given: each call has a loopback address of its own. Its port is found with a socket that takes no connections: one that
/// does would go on doing so in a process that was just forked, until that runs its program.
fn vacant() -> SocketAddr {
    static CALLS: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 128 | (high & 63), low, CALLS.fetch_add(1, Ordering::Relaxed));
    UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap()
}

impl Etcd {
    /// Starts one, and waits until it serves.
    pub fn start() -> Etcd {
        Etcd::start_program(Path::new("etcd"))
    }

    /// As [`Etcd::start`], of the current release: where `ETCD_CURRENT` says, or where `./x verify` puts it. None, said, if it is nowhere.
    pub fn start_current() -> Option<Etcd> {
        let said = std::env::var_os("ETCD_CURRENT").map(PathBuf::from);
        let this = std::env::current_exe().unwrap();
        let tools = this.ancestors().nth(3).map(|target| target.join("tools/etcd/etcd"));
        let found = said.into_iter().chain(tools).find(|path| path.is_file());
        if found.is_none() {
            eprintln!("skipped: no current release of etcd; `./x verify` builds it with Go");
        }
        found.map(|program| Etcd::start_program(&program))
    }

    fn start_program(program: &Path) -> Etcd {
        let mut etcd = Etcd::new(false);
        etcd.program = program.to_owned();
        etcd.begin();
        etcd
    }

    /// As [`Etcd::start`], under TLS, for clients with a certificate of its authority alone: see [`Etcd::certificate`].
    pub fn start_tls() -> Etcd {
        let mut etcd = Etcd::new(true);
        let authority = ["-subj", "/CN=authority", "-addext", "keyUsage=keyCertSign"];
        openssl(etcd.folder.path(), "ca", &authority);
        etcd.certificate("server");
        etcd.begin();
        etcd
    }

    fn new(is_tls: bool) -> Etcd {
        let [clients, peers, health] = [vacant(), vacant(), vacant()];
        let program = PathBuf::from("etcd");
        Etcd { program, process: None, clients, peers, health, is_tls, folder: tempfile::tempdir().unwrap() }
    }

    /// Makes NAME.pem and NAME.key in its folder, for servers and clients: the gateway of etcd shows its own certificate to itself.
    pub fn certificate(&self, name: &str) {
        let address = format!("subjectAltName=IP:{}", self.clients.ip());
        let subject = format!("/CN={name}");
        let usage = "extendedKeyUsage=serverAuth,clientAuth";
        let of_leaf =
            ["-subj", &subject, "-addext", &address, "-addext", usage, "-addext", "basicConstraints=critical,CA:FALSE"];
        openssl(self.folder.path(), name, &[&of_leaf[..], &["-CA", "ca.pem", "-CAkey", "ca.key"]].concat());
    }

    /// A file in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As `http://HOST:PORT`.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.clients)
    }

    /// The number of its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again where it was.
    pub fn begin(&mut self) {
        let (clients, peers) = (self.endpoint(), format!("http://{}", self.peers));
        let mut command = Command::new(&self.program);
        command.args(["--name", "a", "--data-dir"]).arg(self.data());
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("a={peers}"), "--unsafe-no-fsync"]);
        command.args(["--listen-metrics-urls", &format!("http://{}", self.health)]);
        if self.is_tls {
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(self.path("ca.pem"));
            command.arg("--cert-file").arg(self.path("server.pem")).arg("--key-file").arg(self.path("server.key"));
        }
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.process = Some(process.expect("etcd is needed: the Debian package etcd-server"));
        let until = Instant::now() + PATIENCE;
        while !self.serves() {
            assert!(Instant::now() < until, "etcd does not serve");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn serves(&self) -> bool {
        use std::io::{Read as _, Write as _};
        let Ok(mut stream) = TcpStream::connect(self.health) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let mut response = String::new();
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").is_ok()
            && stream.read_to_string(&mut response).is_ok()
            && response.contains("\"true\"")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Copies what it has on its disk; it must not run.
    pub fn back_up(&self) -> tempfile::TempDir {
        assert!(self.process.is_none());
        let backup = tempfile::tempdir().unwrap();
        copy(&self.data(), &backup.path().join("data"));
        backup
    }

    /// Puts a copy in the place of what it has; it must not run.
    pub fn restore(&self, backup: &tempfile::TempDir) {
        assert!(self.process.is_none());
        std::fs::remove_dir_all(self.data()).unwrap();
        copy(&backup.path().join("data"), &self.data());
    }
}

/// Makes a certificate, signed by itself unless the arguments say otherwise.
fn openssl(folder: &Path, name: &str, arguments: &[&str]) {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]);
    command.args(arguments).args(["-keyout", &key, "-out", &certificate]).current_dir(folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}
