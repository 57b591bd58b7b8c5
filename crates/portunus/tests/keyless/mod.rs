//! The edge without keys: the real program, key servers written in another language, and clients as users have them.
//!
//! One binary, because each one links the whole program.

mod client;
mod connections;
mod failures;
mod http3;
mod interop;
pub mod key_server;
mod key_types;
mod set_up;
mod memory;
mod namespaces;
mod reload;

use std::path::Path;

use keystore::dev_ca::{DevCa, Purpose};
use tempfile::TempDir;
use tls::KeyType;

use crate::harness::Gate;
use key_server::KeyServer;

/// The name of the site.
const SITE: &str = "a.example";

/// Times that no operation takes, as further settings of a group: a busy machine may give a process no turn for seconds, and that is not what is tried.
const PATIENT: &str = ", connect_timeout: 1m, timeout: 1m, total_timeout: 1m, ping_interval: 1h";

/// A folder with everything: `ca.pem`; `edge` and `server` pairs for the mutual TLS; chains of the site in `chains/`, their keys in `keys/`.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let ca = DevCa::new("Test CA").unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    ["chains", "keys", "certs"].iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).unwrap());
    write("ca.pem", &ca.certificate_pem());
    let far = [1, 2, 11, 21].map(|number| namespaces::address(number, 2));
    let names: Vec<&str> = ["keys.example", "127.0.0.1"].into_iter().chain(far.iter().map(String::as_str)).collect();
    for (name, names, purpose) in
        [("server", &names[..], Purpose::Server), ("edge", &["edge.example"], Purpose::Client)]
    {
        let pair = ca.issue(names, KeyType::Ecdsa, purpose).unwrap();
        write(&format!("{name}.pem"), &pair.certificate_pem);
        write(&format!("{name}.key"), &pair.key_pem);
    }
    for kind in [KeyType::Ecdsa, KeyType::Rsa] {
        issue_site(dir.path(), &ca, kind, "");
    }
    dir
}

/// A pair for the site, chain and key in their folders.
fn issue_site(dir: &Path, ca: &DevCa, kind: KeyType, suffix: &str) {
    let pair = ca.issue(&[SITE], kind, Purpose::Server).unwrap();
    std::fs::write(dir.join(format!("chains/{kind:?}{suffix}.pem")), &pair.certificate_pem).unwrap();
    std::fs::write(dir.join(format!("keys/{kind:?}{suffix}.key")), pair.key_pem.as_bytes()).unwrap();
}

/// A gate whose keys are at these servers. `more` are further settings of the group, after a comma.
fn yaml(servers: &[&KeyServer], more: &str) -> String {
    let addresses: Vec<String> = servers.iter().map(|server| format!("{:?}", server.address)).collect();
    yaml_at(&addresses.join(", "), more)
}

fn yaml_at(addresses: &str, more: &str) -> String {
    format!(
        "workers: 1
listeners:
  - {{ name: edge, bind: \"127.0.0.3:0\", tls: {{ keystore: main, policy: legacy }} }}
keystores: {{ main: {{ folder: chains, default: {SITE}, key_servers: keys }} }}
key_servers:
  keys: {{ servers: [{addresses}], ca: ca.pem, client_certificate: edge.pem, client_key: edge.key{more} }}
routes:
  - {{ path: \"/{{*rest}}\", respond: {{ status: 200, body: ok }} }}
admin: {{ bind: \"127.0.0.2:0\" }}
limits: {{ handshake_timeout: 1m }}
"
    )
}

/// A gate that is connected to all of its key servers.
fn start(dir: TempDir, servers: &[&KeyServer], more: &str) -> Gate {
    let gate = Gate::start_in(dir, &yaml(servers, more));
    for server in servers {
        let name = &server.address;
        crate::harness::wait_until("connections", || {
            metric(&gate, &format!("portunus_keyless_connections{{group=\"keys\",server=\"{name}\"}}")) >= Some(1.0)
        });
    }
    gate
}

/// The value of a metric's sample, named with its labels; none if the page has no such sample.
fn metric(gate: &Gate, name: &str) -> Option<f64> {
    sample(&gate.metrics(), name)
}

/// The same of a page.
fn sample(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// How often operations at a server ended so.
fn outcomes(gate: &Gate, server: &KeyServer, outcome: &str) -> f64 {
    let labels = format!("{{group=\"keys\",server=\"{}\",outcome=\"{outcome}\"}}", server.address);
    metric(gate, &format!("portunus_keyless_operations_total{labels}")).unwrap_or(0.0)
}
