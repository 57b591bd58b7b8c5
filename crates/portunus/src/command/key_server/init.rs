//! `portunus key-server init DIR`: a CA, certificates for both sides, site keys for the server and chains for the edge, and a configuration for each.
//!
//! To try it out and to measure: the CA's key is thrown away at the end, so nothing more can be issued. Writes into a folder that is new or empty.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use keystore::dev_ca::{DevCa, IssuedPair, Purpose};
use tls::KeyType;

/// Most sites that are made.
const MAX_SITES: u32 = 100_000;

/// What to make.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// Folder for everything; new or empty
    dir: PathBuf,
    /// Sites to make: site-1.example, site-2.example, ...; even ones with ECDSA keys, odd ones with RSA keys
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SITES)))]
    sites: u32,
    /// Name of the key server, which its certificate holds; may be given again
    #[arg(long = "server-name", default_values = ["localhost", "127.0.0.1"])]
    server_names: Vec<String>,
    /// Where the key server listens
    #[arg(long, default_value = "127.0.0.1:2407")]
    listen: String,
    /// Where the edge listens
    #[arg(long, default_value = "127.0.0.1:8443")]
    edge: String,
    /// Where the edge sends requests; without it, it answers them itself
    #[arg(long)]
    upstream: Option<String>,
}

/// Makes everything; gives the exit status.
pub fn run(init: &Init) -> ExitCode {
    match make(init) {
        Ok(()) => {
            println!("{}", next_steps(init));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn make(init: &Init) -> Result<(), String> {
    let dir = &init.dir;
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("{} is not empty; name a new folder", dir.display()));
    }
    let (server, edge) = (dir.join("key-server"), dir.join("edge"));
    let (keys, chains) = (server.join("keys"), edge.join("chains"));
    for folder in [&keys, &chains] {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let failed = |error: rcgen::Error| format!("a certificate cannot be made: {error}");
    let names: Vec<&str> = init.server_names.iter().map(String::as_str).collect();
    // Those of the sites are below `example`.
    let permitted = [&names[..], &["edge.portunus.test", "example"]].concat();
    let ca = DevCa::only_for("Portunus key server test CA", &permitted).map_err(failed)?;
    for folder in [dir, &server, &edge] {
        write(&folder.join("ca.pem"), &ca.certificate_pem(), 0o644)?;
    }
    let pair = ca.issue(&names, KeyType::Ecdsa, Purpose::Server).map_err(failed)?;
    write_pair(&server.join("server"), &pair)?;
    let pair = ca.issue(&["edge.portunus.test"], KeyType::Ecdsa, Purpose::Client).map_err(failed)?;
    write_pair(&edge.join("client"), &pair)?;
    for number in 1..=init.sites {
        let name = format!("site-{number}.example");
        let key_type = if number % 2 == 0 { KeyType::Ecdsa } else { KeyType::Rsa };
        let pair = ca.issue(&[&name], key_type, Purpose::Server).map_err(failed)?;
        write(&keys.join(format!("{name}.key")), &pair.key_pem, 0o600)?;
        write(&chains.join(format!("{name}.pem")), &pair.certificate_pem, 0o644)?;
    }
    write(&server.join("key-server.yaml"), &server_config(init), 0o644)?;
    write(&edge.join("portunus.yaml"), &edge_config(init), 0o644)
}

fn write_pair(stem: &Path, pair: &IssuedPair) -> Result<(), String> {
    write(&stem.with_extension("pem"), &pair.certificate_pem, 0o644)?;
    write(&stem.with_extension("key"), &pair.key_pem, 0o600)
}

fn write(path: &Path, content: &str, mode: u32) -> Result<(), String> {
    let written = keystore::files::replace(path, content.as_bytes());
    let moded: io::Result<()> = written.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    moded.map_err(|error| format!("{}: {error}", path.display()))
}

fn server_config(init: &Init) -> String {
    format!(
        "# The key server: `portunus key-server run key-server.yaml`
listeners:
  - name: edges
    bind: \"{}\"
    tls:
      certificate: server.pem
      private_key: server.key
      client_ca: ca.pem
keys:
  sites:
    folders: keys
access:
  - clients: edge.portunus.test
    keys: sites
",
        init.listen
    )
}

fn edge_config(init: &Init) -> String {
    let name = init.server_names.first().map_or("localhost", String::as_str);
    let path = "routes:\n  - path: \"/{*rest}\"\n";
    let routes = match &init.upstream {
        Some(upstream) => format!("upstreams:\n  app:\n    servers: \"{upstream}\"\n{path}    upstream: app\n"),
        None => format!(
            "{path}    respond:\n      status: 200\n      body: \"The key server signed for this handshake.\\n\"\n"
        ),
    };
    format!(
        "# The edge: `portunus run portunus.yaml`. It holds certificates and no key of theirs.
listeners:
  - name: edge
    bind: \"{}\"
    tls:
      keystore: sites
keystores:
  sites:
    folder: chains
    key_servers: key-server
    default: site-1.example
key_servers:
  key-server:
    servers: \"{}\"
    ca: ca.pem
    server_name: {name}
    client_certificate: client.pem
    client_key: client.key
{routes}",
        init.edge, init.listen
    )
}

fn next_steps(init: &Init) -> String {
    let dir = init.dir.display();
    let port = init.edge.rsplit(':').next().unwrap_or("8443");
    format!(
        "made {sites} sites in {dir}; now, each in a terminal of its own:
  portunus key-server run {dir}/key-server/key-server.yaml
  portunus run {dir}/edge/portunus.yaml
  curl --cacert {dir}/ca.pem --connect-to ::127.0.0.1:{port} https://site-1.example/
  portunus key-server bench --server {listen} --ca {dir}/ca.pem --certificate {dir}/edge/client.pem --key {dir}/edge/client.key --certificate-file {dir}/edge/chains/site-1.example.pem",
        sites = init.sites,
        listen = init.listen,
    )
}
