//! A gate whose certificates are ordered, and its clients.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use super::pebble::Planned;
use crate::harness::secure::Secure;
use crate::harness::{Gate, Upstream, read_response, wait_until};
use keystore::pem::{self, Label};
use tempfile::TempDir;
use tls::crypto::Certificate;

/// What differs between gates.
#[derive(Clone)]
pub struct Wanted<'a> {
    /// Where it listens.
    pub gate: IpAddr,
    /// Ports of `web` and `tls`; 0 for any.
    pub ports: (u16, u16),
    /// Hosts of the route.
    pub hosts: &'a [&'a str],
    /// Items of `directory`.
    pub directories: String,
    /// Further settings of `acme`, each after a comma.
    pub acme: &'a str,
    /// Further settings of the listener `web`, each after a comma.
    pub web: &'a str,
    /// Further keys of the file, as lines.
    pub more: &'a str,
}

impl<'a> Wanted<'a> {
    /// Orders from one authority, with everything else at its default.
    pub fn from(planned: &Planned, hosts: &'a [&'a str]) -> Wanted<'a> {
        let directories = planned.directory();
        Wanted { gate: planned.gate, ports: (0, 0), hosts, directories, acme: "", web: "", more: "" }
    }
}

/// The configuration: a listener `web` in the clear, one `tls`, and a route for the hosts.
pub fn yaml(upstream: &Upstream, wanted: &Wanted<'_>) -> String {
    let Wanted { gate, ports: (http, tls), hosts, directories, acme, web, more } = wanted;
    let (hosts, upstream) = (hosts.join(", "), upstream.address);
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"{gate}:{http}\"{web} }}
  - {{ name: tls, bind: \"{gate}:{tls}\", tls: {{ keystore: main }} }}
keystores:
  main: {{ acme: {{ folder: store, directory: [{directories}], accept_terms: true, retry_interval: 200ms{acme} }} }}
upstreams:
  app: {{ servers: [\"{upstream}\"] }}
routes:
  - {{ hosts: [{hosts}], path: \"/{{*rest}}\", upstream: app }}
admin: {{ bind: \"127.0.0.2:0\" }}
{more}
"
    )
}

/// A folder with what clients of authorities trust.
pub fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    Planned::write_ca(dir.path());
    dir
}

/// Starts a gate.
pub fn start(upstream: &Upstream, wanted: &Wanted<'_>) -> Gate {
    Gate::start_in(folder(), &yaml(upstream, wanted))
}

/// The ports that an authority must look at.
pub fn ports(gate: &Gate) -> (u16, u16) {
    (gate.address("web").port(), gate.address("tls").port())
}

/// The leaf that is kept for a name and a type of key.
pub fn kept(dir: &Path, stem: &str) -> Option<Certificate> {
    let text = std::fs::read(dir.join(format!("store/certificates/{stem}.pem"))).ok()?;
    let blocks = pem::read(&text).ok()?;
    let block = blocks.iter().find(|block| block.label == Label::Certificate)?;
    Certificate::from_der(&block.der).ok()
}

/// Waits for a certificate that is kept.
pub fn wait_for_kept(gate: &Gate, stem: &str) -> Certificate {
    let mut found = None;
    wait_until(&format!("a certificate for {stem}"), || {
        found = kept(gate.dir.path(), stem);
        found.is_some()
    });
    found.unwrap()
}

/// Whether curl, which trusts the authority alone, gets a response over TLS for this host.
pub fn is_served(gate: &Gate, host: &str) -> bool {
    is_served_with(gate, host, &[])
}

/// The same with further arguments.
pub fn is_served_with(gate: &Gate, host: &str, arguments: &[&str]) -> bool {
    let address = gate.address("tls");
    let resolve = format!("{host}:{}:{}", address.port(), address.ip());
    let output = Command::new("curl")
        .args(["--silent", "--fail", "--max-time", "60", "--output", "/dev/null", "--resolve", &resolve])
        .args(arguments)
        .arg("--cacert")
        .arg(gate.dir.path().join("ca.pem"))
        .arg(format!("https://{host}:{}/", address.port()))
        .output();
    output.expect("curl is installed (Debian package curl)").status.success()
}

/// One request over TLS on a connection of its own: the status.
pub fn get(address: SocketAddr, dir: &Path, host: &str) -> u16 {
    let mut client = Secure::connect(address, dir, host, "http/1.1");
    ask(&mut client, host)
}

/// One request on a connection: the status.
pub fn ask(client: &mut Secure, host: &str) -> u16 {
    client.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let (head, _) = read_response(client);
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The value of a metric's sample, named with its labels; none if the page has no such sample.
pub fn metric(gate: &Gate, sample: &str) -> Option<f64> {
    let page = gate.metrics();
    page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}
