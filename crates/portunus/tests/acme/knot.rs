//! A name server of another make that takes signed updates: Knot (Debian packages knot, knot-dnsutils).

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{vacant, wait_until};

/// The key of updates, in base64.
pub const SECRET: &str = "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiBQb3J0dW51cyE=";

/// A running name server.
pub struct Knot {
    child: Child,
    dir: TempDir,
    /// Where it listens, over UDP and TCP.
    pub address: SocketAddr,
}

impl Knot {
    /// Starts it with these zones; each has its records beside those of the name server itself.
    pub fn start(zones: &[(&str, &str)]) -> Knot {
        Knot::start_at(vacant(), zones)
    }

    /// The same at this address.
    pub fn start_at(address: SocketAddr, zones: &[(&str, &str)]) -> Knot {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().display().to_string();
        let (ip, port) = (address.ip(), address.port());
        let mut conf = format!(
            "server:
    rundir: \"{folder}\"
    listen: {ip}@{port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
control:
    listen: \"{folder}/knot.sock\"
database:
    storage: \"{folder}\"
log:
  - target: stderr
    any: info
key:
  - id: portunus
    algorithm: hmac-sha256
    secret: {SECRET}
acl:
  - id: updates
    key: portunus
    action: update
    update-type: [TXT]
template:
  - id: default
    storage: \"{folder}\"
    file: \"%s\"
    acl: updates
    zonefile-sync: -1
    journal-content: none
zone:
"
        );
        for (zone, records) in zones {
            let text =
                format!("$TTL 1\n@ IN SOA ns1 hostmaster 1 3600 600 86400 1\n@ IN NS ns1\nns1 IN A {ip}\n{records}\n");
            std::fs::write(dir.path().join(zone), text).unwrap();
            conf.push_str(&format!("  - domain: {zone}\n"));
        }
        std::fs::write(dir.path().join("knot.conf"), conf).unwrap();
        let log = std::fs::File::create(dir.path().join("knot.log")).unwrap();
        let program = if Path::new("/usr/sbin/knotd").exists() { "/usr/sbin/knotd" } else { "knotd" };
        let child = Command::new(program)
            .arg("-c")
            .arg(dir.path().join("knot.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("knotd is installed (Debian package knot)");
        let knot = Knot { child, dir, address };
        for (zone, _) in zones {
            wait_until("the name server", || knot.ask(&format!("ns1.{zone}"), "A").trim() == ip.to_string());
        }
        knot
    }

    /// What it responds, a record to a line.
    pub fn ask(&self, name: &str, kind: &str) -> String {
        let (server, port) = (format!("@{}", self.address.ip()), self.address.port().to_string());
        let output = Command::new("kdig")
            .args(["+tcp", "+short", "+retry=0", "+time=2", "+norecurse", &server, "-p", &port, name, kind])
            .output()
            .expect("kdig is installed (Debian package knot-dnsutils)");
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter(|line| !line.starts_with(';')).map(|line| format!("{line}\n")).collect()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("knot.log")).unwrap_or_default()
    }

    /// Updates of a zone that it has made.
    pub fn updates(&self, zone: &str) -> usize {
        self.log().matches(&format!("[{zone}.] DDNS, finished")).count()
    }

    /// The settings of `dns` that have records set here.
    pub fn update(&self, zones: &str) -> String {
        let address = self.address;
        format!(
            "update: {{ server: \"{address}\", zone: [{zones}], key: {{ name: portunus, secret: {{ file: tsig }} }} }}"
        )
    }
}

impl Drop for Knot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("knotd said: {}", self.log());
        }
    }
}
