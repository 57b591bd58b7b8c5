//! A key server with its keys in a folder of its own, and the load generator against it.
//!
//! Starts and stops processes; only those that were started here are signalled, by their number. Used by `bench keyless` and by the fault protocol.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::peers::stop;

/// A key that signatures are asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// RSA-2048.
    Rsa2048,
    /// ECDSA P-256.
    P256,
    /// RSA-4096: slow enough that two cores can ask for more than two cores can do.
    Rsa4096,
}

impl Key {
    fn chain(self) -> &'static str {
        match self {
            Key::Rsa2048 => "edge/chains/site-1.example.pem",
            Key::P256 => "edge/chains/site-2.example.pem",
            Key::Rsa4096 => "edge/chains/slow.pem",
        }
    }

    /// Where its private half lies.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Key::Rsa2048 => "key-server/keys/site-1.example.key",
            Key::P256 => "key-server/keys/site-2.example.key",
            Key::Rsa4096 => "key-server/keys/slow.key",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Key::Rsa2048 => "RSA-2048",
            Key::P256 => "ECDSA P-256",
            Key::Rsa4096 => "RSA-4096",
        }
    }
}

/// A running key server.
pub(crate) struct KeySite {
    folder: tempfile::TempDir,
    portunus: PathBuf,
    server: Child,
    address: String,
}

/// Changes that `key-server init` leaves to make: no audit log, since none of the figures is about a disk.
const MORE: &str = "audit: none\nlog_level: warn\nadmin: { bind: \"unix:admin.sock\" }\nlock_memory: false\n";

impl KeySite {
    /// Makes keys and certificates, and starts the server; `more` is added to its configuration.
    pub(crate) fn start(portunus: &Path, more: &str) -> io::Result<KeySite> {
        let folder = tempfile::tempdir()?;
        let root = folder.path();
        succeed(Command::new(portunus).args(["key-server", "init"]).arg(root).args([
            "--sites",
            "2",
            "--listen",
            "127.0.0.1:0",
        ]))?;
        let (key, chain) = (root.join(Key::Rsa4096.file()), root.join(Key::Rsa4096.chain()));
        let subject = ["-subj", "/CN=slow", "-addext", "subjectAltName=DNS:slow.example", "-days", "30"];
        succeed(
            Command::new("openssl")
                .args(["req", "-x509", "-newkey", "rsa:4096", "-nodes", "-keyout"])
                .arg(key)
                .arg("-out")
                .arg(chain)
                .args(subject),
        )?;
        let config = root.join("key-server/key-server.yaml");
        let text = fs::read_to_string(&config)? + MORE + more;
        fs::write(&config, text.replace("log_level: warn", "log_level: info"))?;
        let (server, address) = start_server(portunus, &root.join("key-server"))?;
        Ok(KeySite { portunus: portunus.to_owned(), server, address, folder })
    }

    /// The private half of a key, PEM.
    pub(crate) fn key_file(&self, key: Key) -> PathBuf {
        self.folder.path().join(key.file())
    }

    /// The load generator on one key, with further arguments, ready to run.
    pub(crate) fn load(&self, key: Key, arguments: &[String]) -> Command {
        let root = self.folder.path();
        let mut command = Command::new(&self.portunus);
        command.args(["key-server", "bench", "--json", "--server", &self.address, "--ca"]).arg(root.join("ca.pem"));
        command.arg("--certificate").arg(root.join("edge/client.pem")).arg("--key").arg(root.join("edge/client.key"));
        command
            .arg("--certificate-file")
            .arg(root.join(key.chain()))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command
    }
}

impl Drop for KeySite {
    fn drop(&mut self) {
        stop(&mut self.server);
    }
}

/// Starts the server and waits until it listens.
fn start_server(portunus: &Path, folder: &Path) -> io::Result<(Child, String)> {
    let mut server = Command::new(portunus)
        .args(["key-server", "run", "key-server.yaml"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = server.stderr.take().ok_or_else(|| io::Error::other("no standard error"))?;
    let mut lines = BufReader::new(stderr).lines();
    let mut said = String::new();
    while let Some(Ok(line)) = lines.next() {
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        if event["message"] == "listening" {
            let address = event["address"].as_str().unwrap_or_default().to_owned();
            std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
            return Ok((server, address));
        }
        said = line;
    }
    stop(&mut server);
    Err(io::Error::other(format!("the key server did not start: {said}")))
}

/// Runs the load generator to its end; its report.
pub(crate) fn report(command: &mut Command) -> io::Result<Value> {
    finished(command.spawn()?)
}

/// The report of a load generator that runs.
pub(crate) fn finished(load: Child) -> io::Result<Value> {
    let output = load.wait_with_output()?;
    // Rejected and late responses make it a failure for people; here they are figures.
    serde_json::from_slice(&output.stdout)
        .map_err(|error| io::Error::other(format!("the load generator gave no report: {error}")))
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
