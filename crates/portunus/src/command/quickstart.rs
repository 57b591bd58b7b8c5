//! `portunus quickstart`: a page over TLS within a second, without a file, a certificate or a privilege, to go on from.
//!
//! Writes a development CA, a certificate and a configuration into a folder, and serves it as `portunus run` does. What is there already stays, so that
//! the folder is the user's own from the first change on.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

use super::run;
use crate::supervisor::Options;

const CONFIG_FILE: &str = "portunus.yaml";
const CA_FILE: &str = "ca.pem";
const PAGE_FILE: &str = "index.html";
const KEYS_FOLDER: &str = "keys";
const KEY_FILE: &str = "localhost.pem";

const PAGE: &str = include_str!("quickstart/index.html");

/// `portunus quickstart`.
#[derive(Debug, Clone, clap::Args)]
pub struct QuickstartCommand {
    /// Folder for configuration, page, CA and key; what is in it stays
    #[arg(long, default_value = "portunus-quickstart")]
    dir: PathBuf,
    /// Address to listen on, for a new configuration
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Port to listen on, for a new configuration
    #[arg(long, default_value_t = 8443)]
    port: u16,
    #[command(flatten)]
    options: Options,
}

/// Prepares the folder if it has no configuration, and serves it until Ctrl-C.
pub fn run(command: QuickstartCommand) -> ExitCode {
    let file = command.dir.join(CONFIG_FILE);
    let address = SocketAddr::new(command.bind, command.port);
    if file.exists() {
        if let Err(error) = reject_shared(&command.dir) {
            complain!("error: cannot serve {}: {error}", file.display());
            return ExitCode::FAILURE;
        }
        say!("Serving {}, which is there already.", file.display());
    } else if let Err(error) = prepare(&command.dir, address) {
        complain!("error: cannot prepare {}: {error}; name another folder with --dir", command.dir.display());
        return ExitCode::FAILURE;
    } else {
        say!("{}", next_steps(&command.dir, address));
    }
    run::run(&file, command.options)
}

/// Writes everything that a first run needs. The configuration comes last: with it the folder is whole.
///
/// # Errors
/// A file is there already, and stays as it is; or the folder is not the user's alone to write to.
fn prepare(folder: &Path, address: SocketAddr) -> io::Result<()> {
    let keys = folder.join(KEYS_FOLDER);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&keys)?;
    reject_shared(folder)?;
    let ip = address.ip().to_string();
    let names = ["localhost", "127.0.0.1", "::1", &ip];
    let authority = DevCa::only_for("Portunus quickstart CA", &names).map_err(io::Error::other)?;
    let pair = authority.issue(&names, KeyType::Ecdsa, Purpose::Server).map_err(io::Error::other)?;
    write_new(&folder.join(PAGE_FILE), 0o644, PAGE)?;
    write_new(&folder.join(CA_FILE), 0o644, &authority.certificate_pem())?;
    write_new(&keys.join(KEY_FILE), 0o600, &pair.in_one_file())?;
    write_new(&folder.join(CONFIG_FILE), 0o644, &(configuration(address) + sandbox()))
}

/// Whoever else can write to the folder could have it serve other files, or other things than its user wants.
pub(super) fn reject_shared(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    let is_ours = found.uid() == net::process::effective_user() && found.mode() & 0o022 == 0;
    if is_ours { Ok(()) } else { Err(io::Error::other("others can write to that folder")) }
}

/// Never writes over a file, nor through a link.
pub(super) fn write_new(path: &Path, mode: u32, content: &str) -> io::Result<()> {
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    opened.and_then(|mut file| file.write_all(content.as_bytes())).map_err(named)
}

/// What the configuration needs on a kernel that the default is too much for.
pub(super) fn sandbox() -> &'static str {
    match net::confine::landlock_version() {
        Some(_) => "",
        None => {
            "\n# The kernel has no Landlock: other files than those named here are not closed off.\nsandbox: auto\n"
        }
    }
}

fn configuration(address: SocketAddr) -> String {
    format!(
        "\
# Made by `portunus quickstart`, and yours from now on: a running gate loads each change by itself, and says what is wrong with one.
# Without running it: portunus check {CONFIG_FILE}

listeners:
  - {{ name: local, bind: \"{address}\", tls: {{ keystore: local }} }}

# A certificate for localhost, of a CA that only {CA_FILE} knows.
keystores:
  local: {{ folder: {KEYS_FOLDER}, default: localhost }}

routes:
  - {{ path: /, respond: {{ status: 200, body_file: {PAGE_FILE} }} }}

# To forward what is not / to an application, take the `#` away:
#  - {{ path: \"/{{*rest}}\", upstream: app }}
# upstreams:
#   app: {{ servers: [\"127.0.0.1:3000\"] }}

log:
  access: {{ format: text }}
"
    )
}

fn next_steps(folder: &Path, address: SocketAddr) -> String {
    let is_usual = address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST);
    let host = if is_usual { format!("localhost:{}", address.port()) } else { address.to_string() };
    let (ca, file) = (folder.join(CA_FILE), folder.join(CONFIG_FILE));
    let (ca, file) = (ca.display(), file.display());
    format!(
        "\
Serving https://{host}/, with a certificate of a CA made for it. Try it from another terminal:

  curl --cacert {ca} https://{host}/

Then change {file}: each change is loaded at once. Ctrl-C ends it; the same command serves the folder again.
"
    )
}
