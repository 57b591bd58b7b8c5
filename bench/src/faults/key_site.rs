//! An edge without keys and two key servers, as processes of their own, with clients that make nothing but full handshakes.
//!
//! The key servers are `portunus key-server`. What a client saw is written down here and counted by the caller.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use keystore::dev_ca::{DevCa, Purpose};
use rustix::process::Signal;
use tls::{Connector, Error, Handshake, KeyType, ProtocolVersion, Read as Plain, ServerName, Session};

use super::site::signal;
use crate::peers::{HOST, pause, stop};

/// A handshake that takes longer hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// Everything of one run.
pub(super) struct KeySite {
    folder: tempfile::TempDir,
    edge: Child,
    /// Where the edge listens under TLS.
    pub(super) address: SocketAddr,
    /// The key servers.
    pub(super) servers: Vec<KeyServer>,
}

/// A key server.
pub(super) struct KeyServer {
    pub(super) child: Child,
    portunus: PathBuf,
    folder: PathBuf,
    number: usize,
    port: u16,
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The handshake succeeded and a request was answered.
    Answered,
    /// One fatal alert.
    Alert,
    /// The connection was cut without a word, or could not be made.
    Cut,
    /// Nothing for [`PATIENCE`].
    Hung,
}

/// A visit: when it began, since the start of the load; how long it took; how it ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) began: Duration,
    pub(super) took: Duration,
    pub(super) end: End,
}

impl KeySite {
    /// Starts two key servers and an edge with two workers.
    ///
    /// # Errors
    /// Something does not start.
    pub(super) fn start(portunus: &Path) -> io::Result<KeySite> {
        let folder = tempfile::tempdir()?;
        lay_out(folder.path()).map_err(io::Error::other)?;
        let servers = [1, 2].map(|number| KeyServer::start(portunus, folder.path(), number, 0));
        let servers = servers.into_iter().collect::<io::Result<Vec<_>>>()?;
        fs::write(folder.path().join("portunus.yaml"), config(&servers))?;
        let mut edge = Command::new(portunus)
            .args(["run", "portunus.yaml"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let Some(address) = listening(&mut edge, "edge")? else {
            stop(&mut edge);
            return Err(io::Error::other("the edge did not start"));
        };
        let site = KeySite { folder, edge, address, servers };
        site.wait_for_success()?;
        Ok(site)
    }

    /// A client of this site.
    ///
    /// # Errors
    /// The library could not make one.
    pub(super) fn client(&self) -> io::Result<Client> {
        let roots = keystore::trust::certificates(&self.folder.path().join("ca.pem")).map_err(io::Error::other)?;
        let mut connector = Connector::new(&roots, true, None, &[b"http/1.1".to_vec()], ProtocolVersion::Tls12)
            .map_err(io::Error::other)?;
        connector.never_resume();
        Ok(Client { connector, address: self.address })
    }

    /// Full handshakes of `clients` clients, one after the other each, until the load is finished.
    ///
    /// # Errors
    /// As [`KeySite::client`].
    pub(super) fn load(&self, clients: usize) -> io::Result<Load> {
        let (stop, started) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let visitor = |client: Client| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut visits = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let began = started.elapsed();
                    let end = client.visit();
                    visits.push(Visit { began, took: started.elapsed() - began, end });
                    if end != End::Answered {
                        pause(Duration::from_millis(20));
                    }
                }
                visits
            })
        };
        let threads = (0..clients).map(|_| Ok(visitor(self.client()?))).collect::<io::Result<_>>()?;
        Ok(Load { stop, started, threads })
    }

    /// Log lines of handshakes that ended for want of a key.
    pub(super) fn logged_failures(&self) -> usize {
        let text = fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"reason\":\"keyless_")).count()
    }

    /// Waits until a full handshake succeeds; gives how long that took.
    ///
    /// # Errors
    /// None does within [`PATIENCE`].
    pub(super) fn wait_for_success(&self) -> io::Result<Duration> {
        let (client, started) = (self.client()?, Instant::now());
        while client.visit() != End::Answered {
            if started.elapsed() > PATIENCE {
                return Err(io::Error::other("no handshake succeeds"));
            }
            pause(Duration::from_millis(5));
        }
        Ok(started.elapsed())
    }
}

/// Where a program that was just started says it listens; none if it ends before. What it says later is read and dropped.
fn listening(child: &mut Child, listener: &str) -> io::Result<Option<SocketAddr>> {
    let Some(output) = child.stderr.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next().transpose()? {
        let reported: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let address = reported["address"].as_str().filter(|_| reported["listener"] == listener);
        if let Some(address) = address.and_then(|text| text.parse().ok()) {
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(Some(address));
        }
    }
    Ok(None)
}

impl Drop for KeySite {
    fn drop(&mut self) {
        stop(&mut self.edge);
    }
}

impl KeyServer {
    /// Starts the `number`th one of the folder; on a free port, if `port` is 0.
    fn start(portunus: &Path, folder: &Path, number: usize, port: u16) -> io::Result<KeyServer> {
        let file = folder.join(format!("key server-{number}.yaml"));
        fs::write(&file, key_server_config(port))?;
        let mut child = Command::new(portunus)
            .args(["key-server".as_ref(), "run".as_ref(), file.as_os_str()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let Some(address) = listening(&mut child, "keys")? else {
            stop(&mut child);
            return Err(io::Error::other("a key server did not start"));
        };
        let (portunus, folder) = (portunus.to_owned(), folder.to_owned());
        Ok(KeyServer { child, portunus, folder, number, port: address.port() })
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again where it was.
    ///
    /// # Errors
    /// It does not come up.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        *self = KeyServer::start(&self.portunus, &self.folder, self.number, self.port)?;
        Ok(())
    }

    /// Freezes it, or lets it go on.
    pub(super) fn freeze(&mut self, frozen: bool) {
        signal(&mut self.child, if frozen { Signal::STOP } else { Signal::CONT });
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Clients that make full handshakes.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    pub(super) started: Instant,
    threads: Vec<JoinHandle<Vec<Visit>>>,
}

impl Load {
    /// Ends it; gives every visit.
    pub(super) fn finish(self) -> Vec<Visit> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

/// A client that trusts the site's CA.
pub(super) struct Client {
    connector: Connector,
    address: SocketAddr,
}

/// A connection whose handshake is done.
pub(super) struct Open {
    session: Session,
    socket: TcpStream,
    input: Vec<u8>,
}

impl Client {
    /// A full handshake and a request.
    fn visit(&self) -> End {
        match self.open() {
            Ok(mut open) => match open.ask() {
                Ok(()) => End::Answered,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => End::Hung,
                Err(_) => End::Cut,
            },
            Err(end) => end,
        }
    }

    /// A full handshake.
    ///
    /// # Errors
    /// How it ended instead.
    pub(super) fn open(&self) -> Result<Open, End> {
        let session = Session::client(&self.connector, &ServerName::Dns(HOST.to_owned())).map_err(|_| End::Cut)?;
        let socket = TcpStream::connect(self.address).map_err(|_| End::Cut)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(|_| End::Cut)?;
        let mut open = Open { session, socket, input: Vec::new() };
        loop {
            let (mut left, mut output) = (open.input.as_slice(), Vec::new());
            let step = open.session.handshake(&mut left, &mut output);
            let left = left.len();
            open.input.drain(..open.input.len() - left);
            let _ = open.socket.write_all(&output);
            match step {
                Ok(Handshake::Done) => return Ok(open),
                Ok(_) => {}
                Err(Error::PeerAlert(_)) => return Err(End::Alert),
                Err(_) => return Err(End::Cut),
            }
            match open.receive() {
                Ok(0) => return Err(End::Cut),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(End::Hung),
                Err(_) => return Err(End::Cut),
            }
        }
    }
}

impl Open {
    /// One request on this connection, which goes on.
    ///
    /// # Errors
    /// No whole answer came.
    pub(super) fn ask(&mut self) -> io::Result<()> {
        let mut output = Vec::new();
        let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
        self.session.write(request.as_bytes(), &mut output).map_err(io::Error::other)?;
        self.socket.write_all(&output)?;
        let (mut response, mut plain) = (Vec::new(), [0; 4096]);
        while !response.ends_with(b"\r\n\r\nok") {
            let mut left = self.input.as_slice();
            let read = self.session.read(&mut left, &mut plain, &mut Vec::new()).map_err(io::Error::other)?;
            let left = left.len();
            self.input.drain(..self.input.len() - left);
            match read {
                Plain::Plain(count) => response.extend_from_slice(plain.get(..count).unwrap_or_default()),
                Plain::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
                Plain::WantInput if self.receive()? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Plain::WantInput => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let count = self.socket.read(&mut buffer)?;
        self.input.extend_from_slice(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// A CA, the edge's and the servers' certificates, and the site's: the chain for the edge, its key for the servers.
fn lay_out(folder: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let ca = DevCa::new("Fault CA")?;
    fs::create_dir(folder.join("chains"))?;
    fs::create_dir(folder.join("keys"))?;
    fs::write(folder.join("ca.pem"), ca.certificate_pem())?;
    let pairs = [
        ("server.pem", "server.key", "127.0.0.1", Purpose::Server),
        ("edge.pem", "edge.key", "edge.portunus.test", Purpose::Client),
        ("chains/site.pem", "keys/site.key", HOST, Purpose::Server),
    ];
    for (certificate, key, name, purpose) in pairs {
        let pair = ca.issue(&[name], KeyType::Ecdsa, purpose)?;
        fs::write(folder.join(certificate), &pair.certificate_pem)?;
        fs::write(folder.join(key), pair.key_pem.as_bytes())?;
    }
    Ok(())
}

fn key_server_config(port: u16) -> String {
    format!(
        "listeners:
  - {{ name: keys, bind: \"127.0.0.1:{port}\", tls: {{ certificate: server.pem, private_key: server.key, client_ca: ca.pem }} }}
keys: {{ site: {{ folders: keys }} }}
access: [{{ clients: edge.portunus.test, keys: site }}]
lock_memory: false
audit: none
"
    )
}

fn config(servers: &[KeyServer]) -> String {
    let addresses: Vec<String> = servers.iter().map(|server| format!("\"127.0.0.1:{}\"", server.port)).collect();
    format!(
        "workers: 2
listeners:
  - {{ name: edge, bind: \"127.0.0.1:0\", tls: {{ keystore: main }} }}
keystores: {{ main: {{ folder: chains, default: {HOST}, key_servers: keys }} }}
key_servers:
  keys: {{ servers: [{}], ca: ca.pem, client_certificate: edge.pem, client_key: edge.key }}
routes:
  - {{ path: \"/{{*rest}}\", respond: {{ status: 200, body: ok }} }}
log: {{ access: {{ format: json, output: access.log }}, level: info }}
",
        addresses.join(", ")
    )
}
