//! The proxies of `bench passport`: started fresh for each sample, pinned, stopped again.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::Work;
use crate::measure;
use crate::peers::{pause, pinned, stop};

/// Of the load and the application.
pub(super) const LOAD_CORES: &str = "1";
const PROXY_CORES: &str = "0";
const ALL_CORES: &str = "0,1";
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the proxy listens and where the application does; a namespace of our own has no other listeners.
pub(super) const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 8443);
pub(super) const APPLICATION: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);

/// What stands between load and application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Proxy {
    /// Nothing: the load reaches the application directly.
    None,
    /// The floor: accept, read a header, connect, splice both ways; see `splice_loop.rs`.
    SpliceLoop,
    /// go-mmproxy with GOMAXPROCS=1 on one core.
    #[value(name = "go-mmproxy-1")]
    GoMmproxy1,
    /// go-mmproxy with all cores.
    GoMmproxy,
    /// Ourselves, one worker on one core.
    Portunus,
}

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Proxy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Proxy::None => "no proxy",
            Proxy::SpliceLoop => "splice loop",
            Proxy::GoMmproxy1 => "go-mmproxy, 1 processor",
            Proxy::GoMmproxy => "go-mmproxy, all",
            Proxy::Portunus => "portunus",
        }
    }

    /// Whether it can do this row at all.
    pub(super) fn takes(self, work: Work) -> bool {
        self != Proxy::SpliceLoop || !matches!(work, Work::Datagrams { .. })
    }
}

/// A proxy that runs, until this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    /// Where the load goes.
    pub(super) address: SocketAddr,
    /// Whether a PROXY header is due.
    pub(super) header: bool,
    child: Option<Child>,
    _folder: tempfile::TempDir,
}

impl Running {
    pub(super) fn start(proxy: Proxy, transport: Transport, portunus: &Path) -> io::Result<Running> {
        let folder = tempfile::tempdir()?;
        let cores = if proxy == Proxy::GoMmproxy { ALL_CORES } else { PROXY_CORES };
        let mut command = match proxy {
            Proxy::None => return Ok(Running { address: APPLICATION, header: false, child: None, _folder: folder }),
            Proxy::SpliceLoop => {
                let mut command = pinned(cores, &std::env::current_exe()?);
                command.args(["splice-loop", "--listen", &LISTEN.to_string(), "--to", &APPLICATION.to_string()]);
                command
            }
            Proxy::GoMmproxy1 | Proxy::GoMmproxy => {
                let mut command = pinned(cores, Path::new("go-mmproxy"));
                let protocol = if transport == Transport::Tcp { "tcp" } else { "udp" };
                command.args(["-l", &LISTEN.to_string(), "-4", &APPLICATION.to_string(), "-p", protocol]);
                if proxy == Proxy::GoMmproxy1 {
                    command.env("GOMAXPROCS", "1");
                }
                command
            }
            Proxy::Portunus => {
                let file = folder.path().join("portunus.yaml");
                std::fs::write(&file, config(transport))?;
                let mut command = pinned(cores, portunus);
                command.arg("run").arg(file);
                command
            }
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut running = Running { address: LISTEN, header: true, child: Some(child), _folder: folder };
        running.wait_until_ready(transport)?;
        Ok(running)
    }

    fn wait_until_ready(&mut self, transport: Transport) -> io::Result<()> {
        let started = Instant::now();
        let is_ready = || match transport {
            Transport::Tcp => TcpStream::connect(LISTEN).is_ok(),
            // Taken once it cannot be bound any more.
            Transport::Udp => std::net::UdpSocket::bind(LISTEN).is_err(),
        };
        while !is_ready() {
            if let Some(status) = self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                return Err(io::Error::other(format!("ended at once: {status}")));
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(io::Error::other("does not listen"));
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    /// CPU time it has used so far.
    pub(super) fn cpu_time(&self) -> Duration {
        self.child.as_ref().map_or(Duration::ZERO, |child| measure::cpu_time(&measure::process_tree(child.id())))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            stop(child);
        }
    }
}

/// Our own configuration, without an access log, as go-mmproxy runs without one.
fn config(transport: Transport) -> String {
    let log = "workers: 1\nlog: { access: none, level: warn }\nlimits: { max_connections_per_client: 100000, drain_timeout: 1s }\n";
    match transport {
        Transport::Tcp => format!(
            "{log}listeners:\n- name: passport\n  bind: \"{LISTEN}\"\n  proxy_protocol: {{ trust: 127.0.0.0/8 }}\n  \
             tunnel: {{ upstream: app }}\nupstreams:\n  app: {{ servers: \"{APPLICATION}\", protocol: tcp, transparent: true }}\n"
        ),
        Transport::Udp => format!(
            "{log}udp_listeners:\n- name: passport\n  bind: \"{LISTEN}\"\n  proxy_protocol: {{ mode: each, trust: 127.0.0.0/8 }}\n  \
             upstream: \"{APPLICATION}\"\n  transparent: true\n  max_flows_per_client: 65536\n"
        ),
    }
}
