//! What the edge half runs: a key server (on loopback, or in a network namespace behind a veth pair), and edges with and without keys.
//!
//! Edges are pinned to core 0; the key server shares core 1 with the load. Everything started or made here ends with it.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

use crate::peers::{HOST, pinned, stop};

const EDGE_CORE: &str = "0";
/// Core of the load and the key server.
pub(super) const LOAD_CORE: &str = "1";

/// Addresses of the two ends of the veth pair.
const OUR_END: &str = "10.78.1.1";
const SERVER_END: &str = "10.78.1.2";

/// Where an edge's keys are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// In its own memory.
    Local,
    /// At a key server on loopback.
    Loopback,
    /// At a key server in another network namespace.
    Namespace,
}

impl Keys {
    /// As it is called in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Keys::Local => "local key",
            Keys::Loopback => "key server, loopback",
            Keys::Namespace => "key server, veth",
        }
    }
}

/// An edge that runs.
pub(super) struct Edge {
    child: Child,
    /// Its listener with an ECDSA P-256 certificate.
    pub(super) ecdsa: SocketAddr,
    /// Its listener with an RSA-2048 certificate.
    pub(super) rsa: SocketAddr,
}

/// A folder with all certificates and keys.
pub(super) struct Site {
    folder: tempfile::TempDir,
    portunus: PathBuf,
    key_servers: Vec<Child>,
    network: Option<Network>,
}

impl Site {
    /// Makes certificates and keys.
    ///
    /// # Errors
    /// The library or the file system failed.
    pub(super) fn new(portunus: &Path) -> io::Result<Site> {
        let folder = tempfile::tempdir()?;
        lay_out(folder.path()).map_err(io::Error::other)?;
        Ok(Site { folder, portunus: portunus.canonicalize()?, key_servers: Vec::new(), network: None })
    }

    /// Starts an edge, and the key server that it needs.
    ///
    /// # Errors
    /// One of them does not start, or no namespace can be made (that takes root).
    pub(super) fn start(&mut self, keys: Keys) -> io::Result<Edge> {
        let server = match keys {
            Keys::Local => None,
            Keys::Loopback => Some(self.start_key_server("127.0.0.1", &[])?),
            Keys::Namespace => {
                let network = Network::make()?;
                let before = ["ip", "netns", "exec", network.0.as_str()].map(str::to_owned);
                self.network = Some(network);
                Some(self.start_key_server(SERVER_END, &before)?)
            }
        };
        let file = self.folder.path().join(format!("edge-{keys:?}.yaml"));
        fs::write(&file, edge_config(server))?;
        let mut command = pinned(EDGE_CORE, &self.portunus);
        command.args(["run".as_ref(), file.as_os_str()]);
        let (child, addresses) = self.spawn(command, &["ecdsa", "rsa"])?;
        match addresses.as_slice() {
            [ecdsa, rsa] => Ok(Edge { child, ecdsa: *ecdsa, rsa: *rsa }),
            _ => Err(io::Error::other("an edge did not start")),
        }
    }

    fn start_key_server(&mut self, host: &str, before: &[String]) -> io::Result<SocketAddr> {
        let file = self.folder.path().join(format!("key server-{host}.yaml"));
        fs::write(&file, key_server_config(host))?;
        let mut command = match before.split_first() {
            None => pinned(LOAD_CORE, &self.portunus),
            Some((program, arguments)) => {
                let mut command = pinned(LOAD_CORE, Path::new(program));
                command.args(arguments).arg(&self.portunus);
                command
            }
        };
        command.args(["key-server".as_ref(), "run".as_ref(), file.as_os_str()]);
        let (child, addresses) = self.spawn(command, &["keys"])?;
        self.key_servers.push(child);
        addresses.first().copied().ok_or_else(|| io::Error::other("a key server did not start"))
    }

    /// Starts a program and reads from its diagnostics where its listeners are; their addresses in the order of `names`.
    fn spawn(&self, mut command: Command, names: &[&str]) -> io::Result<(Child, Vec<SocketAddr>)> {
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let Some(output) = child.stderr.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut lines = BufReader::new(output).lines();
        let mut found = vec![None; names.len()];
        let mut said = String::new();
        while found.contains(&None) {
            let Some(line) = lines.next().transpose()? else {
                stop(&mut child);
                return Err(io::Error::other(format!("{command:?} did not start: {said}")));
            };
            let reported: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            let place = names.iter().position(|name| reported["listener"] == *name);
            if let (Some(place), Some(address)) =
                (place.and_then(|place| found.get_mut(place)), reported["address"].as_str())
            {
                *place = address.parse().ok();
            }
            said = line;
        }
        // Whoever does not read may stop who writes.
        std::thread::spawn(move || lines.for_each(drop));
        Ok((child, found.into_iter().flatten().collect()))
    }
}

impl Edge {
    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.key_servers.iter_mut().for_each(stop);
    }
}

/// A network namespace joined to ours by a veth pair.
struct Network(String);

fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output()?;
    let reported = || format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(io::Error::other(reported())) }
}

impl Network {
    fn make() -> io::Result<Network> {
        let name = format!("keyless-bench{}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let network = Network(name.clone());
        ip("link add klbench0 type veth peer name klbench1")?;
        ip(&format!("link set klbench1 netns {name}"))?;
        ip(&format!("addr add {OUR_END}/24 dev klbench0"))?;
        ip("link set klbench0 up")?;
        ip(&format!("-n {name} addr add {SERVER_END}/24 dev klbench1"))?;
        ip(&format!("-n {name} link set klbench1 up"))?;
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

fn lay_out(folder: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let ca = DevCa::new("Bench CA")?;
    for inner in ["keys", "ecdsa-chain", "rsa-chain", "ecdsa-pair", "rsa-pair"] {
        fs::create_dir(folder.join(inner))?;
    }
    fs::write(folder.join("ca.pem"), ca.certificate_pem())?;
    for (name, names, purpose) in [
        ("server", &["127.0.0.1", SERVER_END][..], Purpose::Server),
        ("edge", &["edge.portunus.test"], Purpose::Client),
    ] {
        let pair = ca.issue(names, KeyType::Ecdsa, purpose)?;
        fs::write(folder.join(format!("{name}.pem")), &pair.certificate_pem)?;
        fs::write(folder.join(format!("{name}.key")), pair.key_pem.as_bytes())?;
    }
    for (name, kind) in [("ecdsa", KeyType::Ecdsa), ("rsa", KeyType::Rsa)] {
        let pair = ca.issue(&[HOST], kind, Purpose::Server)?;
        for inner in ["chain", "pair"] {
            fs::write(folder.join(format!("{name}-{inner}/site.pem")), &pair.certificate_pem)?;
        }
        for place in [format!("{name}-pair/site.key"), format!("keys/{name}.key")] {
            fs::write(folder.join(place), pair.key_pem.as_bytes())?;
        }
    }
    Ok(())
}

fn edge_config(server: Option<SocketAddr>) -> String {
    // Each on an address of its own: what names the same address and port is one socket.
    let listener =
        |name: &str, host: &str| format!("  - {{ name: {name}, bind: \"{host}:0\", tls: {{ keystore: {name} }} }}\n");
    let (inner, more) = if server.is_some() { ("chain", ", key_servers: keys") } else { ("pair", "") };
    let keystore = |name: &str| format!("  {name}: {{ folder: {name}-{inner}, default: {HOST}{more} }}\n");
    let group = server.map_or_else(String::new, |address| {
        format!(
            "key_servers:\n  keys: {{ servers: \"{address}\", ca: ca.pem, client_certificate: edge.pem, client_key: edge.key }}\n"
        )
    });
    format!(
        "workers: 1\nlisteners:\n{}{}keystores:\n{}{}{group}routes:\n  - {{ path: \"/{{*rest}}\", respond: {{ status: 200, body: ok }} }}\n\
         log: {{ access: none, level: info }}\n",
        listener("ecdsa", "127.0.0.1"),
        listener("rsa", "127.0.0.2"),
        keystore("ecdsa"),
        keystore("rsa")
    )
}

fn key_server_config(host: &str) -> String {
    format!(
        "workers: 1
crypto_threads: 1
listeners:
  - {{ name: keys, bind: \"{host}:0\", tls: {{ certificate: server.pem, private_key: server.key, client_ca: ca.pem }} }}
keys: {{ sites: {{ folders: keys }} }}
access: [{{ clients: edge.portunus.test, keys: sites }}]
lock_memory: false
audit: none
"
    )
}
