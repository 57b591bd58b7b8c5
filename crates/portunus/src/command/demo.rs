//! What a demonstration needs: the gate with a dashboard, HTTP/3, an API under its contract, a rate limit, tunnels and a key server, and commands to try.
//!
//! ```text
//! portunus demo: writes files, small servers ── warden ─┬─ portunus run demo/portunus.yaml
//!                                                       └─ portunus key-server run demo/key-server/key-server.yaml
//! ```
//!
//! Both run as anywhere else, with configurations to look at and to change, sandboxes and admin sockets. They end with the demo, whatever ends that.

mod example_files;
mod files;
mod guide;
mod servers;
mod warden;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use super::server::{Reach, Server};
use files::{CONFIG_FILE, GATE_LOG, GATE_SOCKET, KEY_SERVER_FILE, KEY_SERVER_LOG, KEY_SERVER_SOCKET};
use servers::Servers;
use warden::{Planned, Warden};

/// Where the demonstration lives.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Folder for configurations, keys and logs; made anew
    #[arg(long, default_value = "demo")]
    pub dir: PathBuf,
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,
    /// Port for HTTPS and HTTP/3
    #[arg(long, default_value_t = 8443)]
    pub https_port: u16,
    /// Port for plain HTTP, which redirects
    #[arg(long, default_value_t = 8080)]
    pub http_port: u16,
    /// Port of the tunnels, TCP and UDP
    #[arg(long, default_value_t = 8444)]
    pub tunnel_port: u16,
    /// Port for the name whose key is on the key server
    #[arg(long, default_value_t = 8445)]
    pub keyless_port: u16,
    /// Port of the admin listener, on the loopback address
    #[arg(long, default_value_t = 9901)]
    pub admin_port: u16,
    /// Port of the key server, on the loopback address
    #[arg(long, default_value_t = 2407)]
    pub key_server_port: u16,
    /// Upstream of the website [default: a small server of the demo's own]
    #[arg(long)]
    pub upstream: Option<String>,
}

impl Options {
    fn key_server(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.key_server_port).into()
    }

    /// Takes each address for a moment, and all of them together.
    ///
    /// # Errors
    /// One is not free; says which option changes it.
    fn try_ports(&self) -> io::Result<()> {
        let at = |port| SocketAddr::new(self.bind, port);
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let tcp = [
            ("--https-port", at(self.https_port)),
            ("--http-port", at(self.http_port)),
            ("--tunnel-port", at(self.tunnel_port)),
            ("--keyless-port", at(self.keyless_port)),
            ("--admin-port", local(self.admin_port)),
            ("--key-server-port", local(self.key_server_port)),
        ];
        let failed = |option: &str, kind: &str, address: SocketAddr, error: io::Error| {
            let text = format!("{kind} {address}: {error}; choose another port with {option}");
            io::Error::new(error.kind(), text)
        };
        let bound = tcp
            .map(|(option, address)| TcpListener::bind(address).map_err(|error| failed(option, "TCP", address, error)));
        let datagrams = [tcp[0], tcp[2]]
            .map(|(option, address)| UdpSocket::bind(address).map_err(|error| failed(option, "UDP", address, error)));
        let problem = bound.into_iter().find_map(Result::err).or(datagrams.into_iter().find_map(Result::err));
        problem.map_or(Ok(()), Err)
    }
}

/// How long everything may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How often is asked whether it serves.
const POLL: Duration = Duration::from_millis(20);

/// Most lines of the logs that are shown where the start fails.
const SHOWN_LINES: usize = 10;

/// `portunus demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoCommand {
    #[command(flatten)]
    options: Options,
    /// Write the files and say what to type, but start nothing
    #[arg(long)]
    prepare_only: bool,
    /// Only write the certificates and keys that the configurations in this folder of examples name
    #[arg(long, value_name = "DIR", conflicts_with_all = ["prepare_only", "dir"])]
    example_files: Option<PathBuf>,
}

impl DemoCommand {
    /// Whether it prints and ends.
    pub fn is_brief(&self) -> bool {
        self.prepare_only || self.example_files.is_some()
    }
}

/// Prepares the demonstration and, unless configured otherwise, runs it until Ctrl-C.
pub fn run(command: DemoCommand) -> ExitCode {
    let done = match &command.example_files {
        Some(folder) => example_files::write(folder),
        None => demonstrate(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            complain!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn demonstrate(command: &DemoCommand) -> Result<(), String> {
    let options = &command.options;
    let folder = &options.dir;
    let failed = |error: io::Error| format!("cannot prepare the demo: {error}");
    if !command.prepare_only {
        options.try_ports().map_err(failed)?;
    }
    let servers = Servers::bind().map_err(failed)?;
    let token = servers.addresses().and_then(|addresses| files::write(options, &addresses)).map_err(failed)?;
    let place = folder.canonicalize().map_err(failed)?;
    let text = guide::text(options, &place, &token);
    if command.prepare_only {
        say!("{text}");
        return Ok(());
    }
    // Before there is a thread.
    let planned = [
        Planned {
            arguments: vec!["key-server", "run", KEY_SERVER_FILE, "--control", KEY_SERVER_SOCKET],
            log: folder.join(KEY_SERVER_LOG),
        },
        Planned { arguments: vec!["run", CONFIG_FILE, "--control", GATE_SOCKET], log: folder.join(GATE_LOG) },
    ];
    let warden = Warden::begin(folder, &planned).map_err(failed)?;
    servers.serve();
    serve(warden, folder, &text).map_err(|problem| format!("the demo has ended: {problem}{}", last_words(folder)))
}

/// Waits until the servers serve, says so, and waits for the end.
fn serve(warden: Warden, folder: &Path, text: &str) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [mut interrupt, mut terminate, mut hangup] = match kinds.map(signal) {
            [Ok(interrupt), Ok(terminate), Ok(hangup)] => [interrupt, terminate, hangup],
            _ => return Err("signals cannot be caught".to_owned()),
        };
        let watched = warden.clone();
        let (sender, mut ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || sender.send(watched.wait()));
        let shown = async {
            until_ready(folder).await?;
            warden.ready();
            say!("{text}");
            std::future::pending::<Result<(), String>>().await
        };
        let outcome = tokio::select! {
            // Ctrl-C reaches the servers, too, which may have ended by now.
            biased;
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            _ = hangup.recv() => Ok(()),
            problem = &mut ended => return problem.ok().flatten().map_or(Ok(()), Err),
            outcome = shown => outcome,
        };
        warden.end();
        let _ = ended.await;
        outcome
    })
}

/// Waits until both servers say on their admin sockets, which nobody else has, that they serve.
async fn until_ready(folder: &Path) -> Result<(), String> {
    let begun = Instant::now();
    for socket in [KEY_SERVER_SOCKET, GATE_SOCKET] {
        let server = Server::of(Some(&folder.join(socket)), &Reach::default())?;
        while !matches!(server.exchange("GET", "/readyz", None), Ok((200, _))) {
            if begun.elapsed() > START_TIMEOUT {
                return Err(format!("the server of {socket} is not ready after {} s", START_TIMEOUT.as_secs()));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// What the logs say of errors.
fn last_words(folder: &Path) -> String {
    let logs = [KEY_SERVER_LOG, GATE_LOG].map(|log| fs::read_to_string(folder.join(log)).unwrap_or_default());
    let lines = logs.iter().flat_map(|log| log.lines());
    let errors = lines.filter(|line| line.starts_with("error") || line.contains("\"level\":\"ERROR\""));
    errors.take(SHOWN_LINES).map(|line| format!("\n  {line}")).collect()
}
