//! The fronts under test: started from a generated configuration, pinned to their cores, stopped again.
//!
//! Fair means: the same certificate and key (ECDSA P-256), X25519, TLS_AES_128_GCM_SHA256, no access log, deadlines out of the way, the same upstream
//! on a Unix socket. Only processes that were started here are ever signalled.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

use super::rows::{Kind, Row};
use crate::peers::{HOST, filled, free_address, pause, pinned, stop};

const START_TIMEOUT: Duration = Duration::from_secs(10);
const FRONT_CORES: &str = "0";

/// What clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Front {
    /// The application in the clear.
    NodeHttp,
    /// The application under its own TLS.
    NodeHttps,
    /// hitch.
    Hitch,
    /// HAProxy in TCP mode.
    Haproxy,
    /// nginx, module stream.
    Nginx,
    /// stunnel.
    Stunnel,
    /// Ourselves.
    Portunus,
}

impl Front {
    /// As it is called in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Front::NodeHttp => "node http",
            Front::NodeHttps => "node https",
            Front::Hitch => "hitch",
            Front::Haproxy => "haproxy",
            Front::Nginx => "nginx",
            Front::Stunnel => "stunnel",
            Front::Portunus => "portunus",
        }
    }

    fn is_application(self) -> bool {
        matches!(self, Front::NodeHttp | Front::NodeHttps)
    }
}

/// What all fronts share: a folder with the certificate.
#[derive(Debug)]
pub(super) struct Site {
    folder: tempfile::TempDir,
    portunus: PathBuf,
}

/// A front that runs, with its upstream, until this is dropped.
#[derive(Debug)]
pub(super) struct Started {
    /// Where clients connect.
    pub(super) address: SocketAddr,
    /// Whether they speak TLS there.
    pub(super) is_tls: bool,
    /// None where the application is the front.
    proxy: Option<Process>,
    upstream: Process,
    upstream_is_beside_load: bool,
}

impl Started {
    /// The process whose cost is reported: the proxy, or the application where there is none.
    pub(super) fn watched(&self) -> u32 {
        self.proxy.as_ref().unwrap_or(&self.upstream).0.id()
    }

    /// A process that shares the core of the load; the watched one where there is none.
    pub(super) fn beside(&self) -> u32 {
        if self.upstream_is_beside_load { self.upstream.0.id() } else { std::process::id() }
    }
}

/// A child that ends with its owner.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        stop(&mut self.0);
    }
}

impl Site {
    /// Makes the certificate.
    ///
    /// # Errors
    /// Making or writing it failed.
    pub(super) fn new(portunus: PathBuf) -> io::Result<Site> {
        let folder = tempfile::tempdir()?;
        let ca = DevCa::new("Portunus bench CA").map_err(io::Error::other)?;
        let pair = ca.issue(&[HOST], KeyType::Ecdsa, Purpose::Server).map_err(io::Error::other)?;
        let together = format!("{}{}", pair.certificate_pem, *pair.key_pem);
        fs::create_dir(folder.path().join("certs"))?;
        fs::write(folder.path().join("certs/site.pem"), together)?;
        fs::write(folder.path().join("app.js"), APPLICATION)?;
        // hitch may become another user before it reads.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), readable)?;
        Ok(Site { folder, portunus })
    }

    /// The configuration of a front, for people to read.
    pub(super) fn describe(&self, front: Front) -> String {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8443));
        let text = config(front, Path::new("DIR"), address, Path::new("DIR/up.sock"), 1);
        format!("# {}\n{text}\n", front.name())
    }

    /// What each program says its version is.
    pub(super) fn versions(&self, fronts: &[Front]) -> Vec<(Front, String)> {
        let version = |front: &Front| {
            let output = match front {
                Front::NodeHttp | Front::NodeHttps => Command::new("node").arg("--version").output(),
                Front::Hitch => Command::new("hitch").arg("--version").output(),
                Front::Haproxy => Command::new("haproxy").arg("-v").output(),
                Front::Nginx => Command::new("nginx").arg("-v").output(),
                Front::Stunnel => Command::new("stunnel4").arg("-version").output(),
                Front::Portunus => Command::new(&self.portunus).arg("--version").output(),
            };
            let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let line = text.lines().find(|line| line.contains('.')).unwrap_or("(cannot be run)");
            (*front, line.to_owned())
        };
        fronts.iter().map(version).collect()
    }

    /// Starts a front and its upstream for a row, and waits until both listen.
    ///
    /// # Errors
    /// One did not come up; its own words are part of the error.
    pub(super) fn start(&self, front: Front, row: &Row) -> io::Result<Started> {
        let with_application = matches!(row.kind, Kind::WithApplication { .. });
        let socket = self.folder.path().join(format!("{}.sock", front.name().replace(' ', "-")));
        let _ = fs::remove_file(&socket);
        let address = free_address()?;
        let upstream =
            if with_application { self.application(&socket, address, front)? } else { fast_upstream(&socket)? };
        let proxy = if front.is_application() { None } else { Some(self.proxy(front, row, address, &socket)?) };
        let is_tls = front != Front::NodeHttp;
        Ok(Started { address, is_tls, proxy, upstream, upstream_is_beside_load: !with_application })
    }

    /// Node, with one worker in its cluster, as there is one core for it.
    fn application(&self, socket: &Path, address: SocketAddr, front: Front) -> io::Result<Process> {
        let mode = match front {
            Front::NodeHttp => "http",
            Front::NodeHttps => "https",
            _ => "unix",
        };
        let mut command = pinned(FRONT_CORES, Path::new("node"));
        command.arg(self.folder.path().join("app.js")).args([mode, &address.port().to_string()]).arg(socket);
        command.arg(self.folder.path().join("certs/site.pem"));
        let mut process = self.spawn(&mut command, "node")?;
        let ready = || {
            if front.is_application() {
                TcpStream::connect(address).is_ok()
            } else {
                UnixStream::connect(socket).is_ok()
            }
        };
        self.wait(&mut process, "node", ready)?;
        Ok(process)
    }

    fn proxy(&self, front: Front, row: &Row, address: SocketAddr, socket: &Path) -> io::Result<Process> {
        let folder = self.folder.path();
        let file = folder.join(format!("{}.conf", front.name()));
        fs::write(&file, config(front, folder, address, socket, row.workers()))?;
        let cores = if row.workers() == 1 { FRONT_CORES } else { "0,1" };
        let program: &Path = match front {
            Front::Portunus => &self.portunus,
            Front::Stunnel => Path::new("stunnel4"),
            other => Path::new(other.name()),
        };
        let mut command = pinned(cores, program);
        match front {
            Front::Portunus => command.arg("run").arg(&file),
            Front::Haproxy => command.args(["-db", "-f"]).arg(&file),
            Front::Nginx => command.arg("-p").arg(folder).arg("-c").arg(&file),
            Front::Hitch => command.arg(format!("--config={}", file.display())),
            _ => command.arg(&file),
        };
        let mut process = self.spawn(&mut command, front.name())?;
        self.wait(&mut process, front.name(), || TcpStream::connect(address).is_ok())?;
        Ok(process)
    }

    fn spawn(&self, command: &mut Command, name: &str) -> io::Result<Process> {
        let log = File::create(self.folder.path().join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn().map(Process)
    }

    fn wait(&self, process: &mut Process, name: &str, ready: impl Fn() -> bool) -> io::Result<()> {
        let started = Instant::now();
        while !ready() {
            let ended = process.0.try_wait()?;
            if ended.is_some() || started.elapsed() > START_TIMEOUT {
                let said = fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
                return Err(io::Error::other(format!("does not come up ({ended:?}):\n{said}")));
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Our own upstream on a Unix socket, beside the load.
fn fast_upstream(socket: &Path) -> io::Result<Process> {
    let mut command = pinned(super::LOAD_CORES, &std::env::current_exe()?);
    command.args(["upstream", "--listen", &format!("unix:{}", socket.display())]);
    let mut process = Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    if let Some(output) = process.0.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    // hitch and nginx reach it as another user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(socket, open)?;
    Ok(process)
}

fn config(front: Front, folder: &Path, address: SocketAddr, socket: &Path, workers: usize) -> String {
    let template = match front {
        Front::NodeHttp | Front::NodeHttps => APPLICATION,
        Front::Hitch => HITCH,
        Front::Haproxy => HAPROXY,
        Front::Nginx => NGINX,
        Front::Stunnel => STUNNEL,
        Front::Portunus => PORTUNUS,
    };
    filled(
        template,
        &[
            ("@folder", folder.display().to_string()),
            ("@host", HOST.to_owned()),
            ("@workers", workers.to_string()),
            ("@address", address.to_string()),
            ("@ip", address.ip().to_string()),
            ("@port", address.port().to_string()),
            ("@socket", socket.display().to_string()),
            // hitch refuses to work as root.
            ("@user", if rustix::process::geteuid().is_root() { "user = \"nobody\"" } else { "" }.to_owned()),
        ],
    )
}

/// An echo server: body in, body out.
const APPLICATION: &str = "\
const cluster = require('cluster'), http = require('http'), https = require('https'), fs = require('fs');
const [mode, port, socket, pem] = process.argv.slice(2);
if (cluster.isPrimary) {
  cluster.fork();
  cluster.on('exit', () => process.exit(1));
} else {
  const echo = (request, response) => {
    const parts = [];
    request.on('data', part => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': body.length });
      response.end(body);
    });
  };
  const tls = () => ({
    key: fs.readFileSync(pem), cert: fs.readFileSync(pem), minVersion: 'TLSv1.3', ecdhCurve: 'X25519',
    ciphers: 'TLS_AES_128_GCM_SHA256',
  });
  const server = mode === 'https' ? https.createServer(tls(), echo) : http.createServer(echo);
  server.keepAliveTimeout = 3600000;
  const where = mode === 'unix' ? { path: socket, writableAll: true } : { host: '127.0.0.1', port: Number(port) };
  server.listen({ ...where, backlog: 4096 });
}
";

const PORTUNUS: &str = "\
workers: @workers
listeners:
  - { name: tls, bind: \"@address\", tls: { keystore: main }, tunnel: { upstream: app } }
keystores:
  main: { folder: @folder/certs, default: @host }
upstreams:
  app: { servers: [\"unix:@socket\"], protocol: tcp }
log: { access: none, level: warn }
limits: { max_connections_per_client: 100000 }
";

const HITCH: &str = "\
frontend = \"[@ip]:@port\"
backend = \"@socket\"
pem-file = \"@folder/certs/site.pem\"
workers = @workers
backlog = 4096
tls-protos = TLSv1.2 TLSv1.3
ciphersuites = \"TLS_AES_128_GCM_SHA256\"
ecdh-curve = \"X25519\"
daemon = off
syslog = off
@user
";

const HAPROXY: &str = "\
global
    nbthread @workers
    maxconn 20000
    no strict-limits
    ssl-default-bind-options ssl-min-ver TLSv1.2
    ssl-default-bind-curves X25519
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
    tune.ssl.cachesize 0
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend bench
    bind @address backlog 4096 ssl crt @folder/certs/site.pem
    default_backend bench
backend bench
    server app unix@@socket
";

const NGINX: &str = "\
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off;
worker_processes @workers;
worker_rlimit_nofile 100000;
pid @folder/nginx.pid;
error_log stderr crit;
events {
    worker_connections 50000;
    multi_accept on;
}
stream {
    tcp_nodelay on;
    proxy_timeout 1h;
    server {
        listen @address ssl backlog=4096;
        ssl_certificate @folder/certs/site.pem;
        ssl_certificate_key @folder/certs/site.pem;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ecdh_curve X25519;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
        ssl_session_cache off;
        proxy_pass unix:@socket;
    }
}
";

const STUNNEL: &str = "\
foreground = yes
pid =
debug = crit
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
[bench]
accept = @address
connect = @socket
cert = @folder/certs/site.pem
sslVersionMin = TLSv1.2
ciphersuites = TLS_AES_128_GCM_SHA256
curves = X25519
sessionCacheSize = 1
";
