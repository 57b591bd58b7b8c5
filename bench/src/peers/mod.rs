//! The proxies under test: started from a generated configuration, pinned to their cores, stopped again.
//!
//! Only processes that were started here are ever signalled. Their configurations are in `configs.rs`.

mod configs;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use keystore::dev_ca::{DevCa, Purpose};
use rustix::process::{Pid, Signal};
use tls::KeyType;

/// The name that all certificates are for.
pub(crate) const HOST: &str = "www.portunus.test";

const START_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// nginx: what all others are compared with.
    Nginx,
    /// Another nginx, such as one that speaks HTTP/3.
    #[value(skip)]
    OtherNginx,
    /// HAProxy.
    Haproxy,
    /// Another HAProxy, such as one built with AWS-LC.
    #[value(skip)]
    OtherHaproxy,
    /// An earlier program of ours.
    #[value(skip)]
    Earlier,
    /// Ourselves.
    Portunus,
}

impl Peer {
    /// As it is called in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx",
            Peer::OtherNginx => "other nginx",
            Peer::Haproxy => "haproxy",
            Peer::OtherHaproxy => "other haproxy",
            Peer::Earlier => "earlier portunus",
            Peer::Portunus => "portunus",
        }
    }
}

/// Whom a run compares.
#[derive(Debug, clap::Args)]
pub(crate) struct Compared {
    /// Proxies to run.
    #[arg(long, value_delimiter = ',', default_value = "nginx,haproxy,portunus")]
    peers: Vec<Peer>,
    /// Another nginx, such as one that speaks HTTP/3, as a peer beside Debian's.
    #[arg(long, value_name = "FILE")]
    peer_nginx: Option<PathBuf>,
    /// Another HAProxy, such as one built with AWS-LC, as a peer beside Debian's.
    #[arg(long, value_name = "FILE")]
    peer_haproxy: Option<PathBuf>,
    /// An earlier portunus program, to be compared with round by round.
    #[arg(long, value_name = "FILE")]
    earlier: Option<PathBuf>,
}

impl Compared {
    /// All of them.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        let given = [
            (Peer::OtherNginx, &self.peer_nginx),
            (Peer::OtherHaproxy, &self.peer_haproxy),
            (Peer::Earlier, &self.earlier),
        ];
        let given = given.into_iter().filter_map(|(peer, file)| file.as_ref().map(|_| peer));
        self.peers.iter().copied().chain(given).collect()
    }

    /// Their programs, where `portunus` is ours.
    pub(crate) fn programs(&self, portunus: &Path) -> Programs {
        Programs {
            portunus: portunus.to_owned(),
            other_nginx: self.peer_nginx.clone(),
            other_haproxy: self.peer_haproxy.clone(),
            earlier: self.earlier.clone(),
        }
    }
}

/// Programs that are not found by name.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// The portunus program.
    pub(crate) portunus: PathBuf,
    /// Another nginx, if there is one.
    pub(crate) other_nginx: Option<PathBuf>,
    /// Another HAProxy, if there is one.
    pub(crate) other_haproxy: Option<PathBuf>,
    /// An earlier portunus program, if there is one.
    pub(crate) earlier: Option<PathBuf>,
}

impl Programs {
    fn path(&self, peer: Peer) -> PathBuf {
        let given = |file: &Option<PathBuf>, name: &str| file.clone().unwrap_or_else(|| PathBuf::from(name));
        match peer {
            Peer::Nginx => PathBuf::from("nginx"),
            Peer::OtherNginx => given(&self.other_nginx, "nginx"),
            Peer::Haproxy => PathBuf::from("haproxy"),
            Peer::OtherHaproxy => given(&self.other_haproxy, "haproxy"),
            Peer::Earlier => given(&self.earlier, "portunus"),
            Peer::Portunus => self.portunus.clone(),
        }
    }
}

/// Everything that all proxies of a run share.
#[derive(Debug)]
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    programs: Programs,
}

/// What is asked of a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// Workers.
    pub(crate) workers: usize,
    /// HTTP/3, too.
    pub(crate) http3: bool,
}

/// Where a proxy listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    /// HTTP in the clear.
    pub(crate) plain: SocketAddr,
    /// TLS with an ECDSA P-256 certificate.
    pub(crate) ecdsa: SocketAddr,
    /// TLS with an RSA-2048 certificate.
    pub(crate) rsa: SocketAddr,
    /// HTTP/3, and TLS over TCP, with an ECDSA P-256 certificate; only where HTTP/3 is asked for.
    pub(crate) http3: SocketAddr,
}

/// A proxy that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    /// Which.
    pub(crate) peer: Peer,
    /// Where.
    pub(crate) ports: Ports,
    child: Child,
}

impl Setup {
    /// Makes the certificates that all proxies use, in a temporary folder.
    ///
    /// # Errors
    /// Making or writing them failed.
    pub(crate) fn new(programs: Programs) -> io::Result<Setup> {
        let folder = tempfile::tempdir()?;
        let ca = DevCa::new("Portunus bench CA").map_err(io::Error::other)?;
        for (name, key_type) in [("ecdsa", KeyType::Ecdsa), ("rsa", KeyType::Rsa)] {
            let pair = ca.issue(&[HOST], key_type, Purpose::Server).map_err(io::Error::other)?;
            fs::create_dir(folder.path().join(name))?;
            let together = format!("{}{}", pair.certificate_pem, *pair.key_pem);
            fs::write(folder.path().join(name).join(format!("{HOST}.pem")), together)?;
        }
        Ok(Setup { folder, programs })
    }

    /// What a proxy says its version is, and the library it has TLS from if it says so.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn version(&self, peer: Peer) -> io::Result<String> {
        let text = self.told(peer)?;
        let library = text.lines().find_map(|line| line.strip_prefix("Running on OpenSSL version : "));
        let version = text.lines().next().unwrap_or_default();
        Ok(library.map_or_else(|| version.to_owned(), |library| format!("{version}, {library}")))
    }

    /// Whether a proxy was built with HTTP/3, as it says itself. One of ours is taken to be.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn speaks_http3(&self, peer: Peer) -> io::Result<bool> {
        let mark = match peer {
            Peer::Nginx | Peer::OtherNginx => "--with-http_v3_module",
            Peer::Haproxy | Peer::OtherHaproxy => "+QUIC ",
            Peer::Earlier | Peer::Portunus => return Ok(true),
        };
        Ok(self.told(peer)?.contains(mark))
    }

    /// What a proxy tells of its version and how it was built.
    fn told(&self, peer: Peer) -> io::Result<String> {
        let option = match peer {
            Peer::Nginx | Peer::OtherNginx => "-V",
            Peer::Haproxy | Peer::OtherHaproxy => "-vv",
            Peer::Earlier | Peer::Portunus => "--version",
        };
        let output = Command::new(self.programs.path(peer)).arg(option).output();
        let output = output.map_err(|error| io::Error::other(format!("{} cannot be run: {error}", peer.name())))?;
        Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// The configuration of a proxy; ports as placeholders, for people to read.
    pub(crate) fn describe(&self, peer: Peer) -> String {
        let port = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let ports = Ports { plain: port(8080), ecdsa: port(8443), rsa: port(8444), http3: port(8445) };
        let http3 = self.speaks_http3(peer).unwrap_or(false);
        let needs = Needs { workers: 1, http3 };
        let site = configs::Site { folder: Path::new("DIR"), ports, upstream: port(8000), needs };
        format!("# {}\n{}", peer.name(), configs::text(peer, &site))
    }

    /// Starts a proxy on these cores before that upstream, and waits until it accepts connections.
    ///
    /// # Errors
    /// It did not come up; its own words are part of the error.
    pub(crate) fn start(&self, peer: Peer, needs: Needs, cores: &str, upstream: SocketAddr) -> io::Result<Running> {
        let ports = free_ports()?;
        let folder = self.folder.path();
        let config = folder.join(format!("{}.conf", peer.name().replace(' ', "-")));
        let site = configs::Site { folder, ports, upstream, needs };
        fs::write(&config, configs::text(peer, &site))?;
        let log = folder.join(format!("{}.log", peer.name()));
        let arguments = match peer {
            Peer::Nginx | Peer::OtherNginx => {
                vec!["-p".as_ref(), folder.as_os_str(), "-c".as_ref(), config.as_os_str()]
            }
            Peer::Haproxy | Peer::OtherHaproxy => vec!["-db".as_ref(), "-f".as_ref(), config.as_os_str()],
            Peer::Earlier | Peer::Portunus => vec!["run".as_ref(), config.as_os_str()],
        };
        let output = File::create(&log)?;
        let child = pinned(cores, &self.programs.path(peer))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let mut running = Running { peer, ports, child };
        // HTTP/3 is served where TLS over TCP is, and bound with it.
        let http3 = needs.http3.then_some(ports.http3);
        let ready = [ports.plain, ports.ecdsa, ports.rsa]
            .into_iter()
            .chain(http3)
            .try_for_each(|address| running.wait_until_ready(address));
        ready.map_err(|error| {
            io::Error::other(format!("{}: {error}\n{}", peer.name(), fs::read_to_string(&log).unwrap_or_default()))
        })?;
        Ok(running)
    }
}

impl Running {
    /// Its first process; the others are below it.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_ready(&mut self, address: SocketAddr) -> io::Result<()> {
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("ended at once: {status}")));
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(format!("does not listen on {address}")));
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// A command that runs on these cores only, as `taskset` lists them.
pub(crate) fn pinned(cores: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cores]).arg(program);
    command
}

/// Ends a child of ours: politely, then not.
pub(crate) fn stop(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
    let started = Instant::now();
    while let Ok(None) = child.try_wait() {
        if started.elapsed() > STOP_TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        pause(Duration::from_millis(20));
    }
}

/// The bench itself serves nobody: it may block.
#[expect(clippy::disallowed_methods, reason = "called from the main thread only, outside any runtime")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Ports that were free a moment ago.
fn free_ports() -> io::Result<Ports> {
    let listeners = [(); 4].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut addresses = listeners.into_iter().map(|listener| listener?.local_addr());
    let mut next = || addresses.next().unwrap_or_else(|| Err(io::ErrorKind::AddrNotAvailable.into()));
    Ok(Ports { plain: next()?, ecdsa: next()?, rsa: next()?, http3: next()? })
}

/// An address that was free a moment ago.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A configuration from its template: every key replaced by its value.
pub(crate) fn filled(template: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(template.to_owned(), |text, (key, value)| text.replace(key, value))
}
