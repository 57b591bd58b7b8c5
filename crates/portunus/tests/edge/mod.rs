//! The gate as its operators and their clients meet it: TLS, key material, reload, drain, faults, sockets. The real program, checked from outside
//! on both sides.
//!
//! One binary, because each one links the whole program. Requests that attack the framing have tests of their own.

mod activation;
mod admin_socket;
mod admin_tls;
mod api_document;
mod client;
mod clock;
mod decisions;
mod demo;
mod drain;
mod ech;
mod faults;
mod fingerprints;
mod geoip;
mod includes;
mod keystores;
mod limits;
mod listener_limits;
mod material;
mod names;
mod operate;
mod quickstart;
mod reload;
mod sandbox;
mod shutdown;
mod sockets;
mod tls_clients;
mod tls_names;
mod tls_policy;
mod tls_resumption;
mod top;
mod upgrade;
mod upgrade_container;
mod upgrade_state;

use std::net::SocketAddr;

use crate::harness::{Upstream, exchange, vacant};

/// A configuration: a plain listener `web`, an upstream group `app` for everything, the admin side, and whatever `more` says. `listeners` are further
/// items of that list.
pub fn yaml(upstream: &Upstream, listeners: &str, more: &str) -> String {
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
{listeners}
upstreams:
  app: {{ servers: [\"{}\"] }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
admin: {{ bind: \"127.0.0.2:0\" }}
{more}
",
        upstream.address
    )
}

/// The same with the listener `web` on a loopback address that no other test has: nobody is given its port once it is closed.
fn yaml_apart(upstream: &Upstream, listeners: &str, more: &str) -> String {
    yaml(upstream, listeners, more).replace("\"127.0.0.1:0\"", &format!("\"{}:0\"", vacant().ip()))
}

/// A listener item under TLS, with the settings given, on a loopback address of its own.
fn tls_listener(name: &str, address: &str, settings: &str) -> String {
    format!("  - {{ name: {name}, bind: \"{address}:0\", tls: {{ keystore: main{settings} }} }}")
}

/// The keystore that [`tls_listener`] uses: a folder of PEM files.
fn keystore(default: &str) -> String {
    format!("keystores: {{ main: {{ folder: certs, default: {default} }} }}")
}

/// A request on a connection of its own; gives the whole response as text.
fn ask(address: SocketAddr, line: &str, fields: &str) -> String {
    let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n");
    String::from_utf8_lossy(&exchange(address, request.as_bytes())).into_owned()
}

/// `GET /` for a host on a connection of its own.
fn get(address: SocketAddr) -> String {
    ask(address, "GET /", "Host: a.example\r\n")
}

/// The value of a metric's sample, named with its labels; none if the page has no such sample.
fn metric(gate: &crate::harness::Gate, sample: &str) -> Option<f64> {
    let page = gate.metrics();
    page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

/// The process that starts the program again for a gate; waits until it is there.
fn launcher_of(gate: u32) -> u32 {
    let is_it = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{gate}")) && status.contains("portunus-launch")
    };
    let find = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|entry| entry.file_name().into_string().ok()).find(|name| is_it(name))
    };
    // It may come to itself later than the gate.
    crate::harness::wait_until("a launcher", || find().is_some());
    find().unwrap().parse().unwrap()
}
