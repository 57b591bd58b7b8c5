//! What a demonstration needs: a development CA, certificates for two names and a wildcard, a configuration, and commands to try.
//!
//! Prepares files, says what to type, and runs the gate with a small upstream. Everything lies in one folder of its own, which is made anew
//! each time.

mod example_files;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use keystore::dev_ca::{DevCa, Purpose};

use tls::KeyType;

use super::quickstart::write_new;
use super::run::read;
use crate::edge;
use crate::supervisor::Origin;

const WEBSITE: &str = "www.portunus.test";
const API: &str = "api.portunus.test";
const APPS: &str = "*.apps.portunus.test";
/// One of the names that the wildcard stands for.
const APP: &str = "blog.apps.portunus.test";

const CA_FILE: &str = "ca.pem";
const CONFIG_FILE: &str = "portunus.yaml";
const KEYS_FOLDER: &str = "keys";

/// Where the demonstration lives.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Folder for CA, keys and configuration; made anew
    #[arg(long, default_value = "demo")]
    pub dir: PathBuf,
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,
    /// Port for HTTPS
    #[arg(long, default_value_t = 8443)]
    pub https_port: u16,
    /// Port for plain HTTP, which redirects
    #[arg(long, default_value_t = 8080)]
    pub http_port: u16,
    /// Port of the admin listener, on the loopback address
    #[arg(long, default_value_t = 9901)]
    pub admin_port: u16,
    /// Upstream to forward to
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub upstream: String,
}

/// How often the counters are shown anew.
const REFRESH: Duration = Duration::from_secs(2);

/// The program that brings the small upstream, beside this one.
const UPSTREAM_PROGRAM: &str = "bench";

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
    if let Some(folder) = &command.example_files {
        return match example_files::write(folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain!("error: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let prepared = match prepare(&command.options) {
        Ok(prepared) => prepared,
        Err(error) => {
            complain!("error: cannot prepare the demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    for (what, line) in &prepared.commands {
        say!("# {what}\n{line}\n");
    }
    if command.prepare_only {
        return ExitCode::SUCCESS;
    }
    let upstream = match start_upstream(&command.options.upstream) {
        Ok(upstream) => upstream,
        Err(error) => {
            complain!("error: cannot start the upstream: {error}; start one on {} yourself", command.options.upstream);
            return ExitCode::FAILURE;
        }
    };
    say!("Paste one of these into another terminal. Ctrl-C ends the demo.\n");
    let status = serve_prepared(&prepared.config);
    drop(upstream);
    status
}

fn serve_prepared(file: &Path) -> ExitCode {
    let (config, source) = match read(file) {
        Ok(read) => read,
        Err(problems) => {
            complain!("{problems}");
            return ExitCode::FAILURE;
        }
    };
    // It ends the upstream that it has started.
    let origin = Origin { is_unconfined: true, ..Origin::default() };
    edge::run(config, source, origin, |edge, _| {
        let reporter = Arc::clone(edge.reporter());
        // Ends with the process.
        #[expect(clippy::disallowed_methods, reason = "a thread of its own")]
        std::thread::spawn(move || {
            let mut shown = String::new();
            loop {
                std::thread::sleep(REFRESH);
                let summary = reporter.summary();
                if summary != shown {
                    say!("{summary}");
                    shown = summary;
                }
            }
        })
    })
}

/// The running upstream; ends with its guard.
#[derive(Debug)]
struct Upstream(Child);

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_upstream(address: &str) -> io::Result<Upstream> {
    let program = std::env::current_exe()?.with_file_name(UPSTREAM_PROGRAM);
    if !program.exists() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{} is not there; use `./x demo`", program.display()),
        ));
    }
    let child = Command::new(program).args(["upstream", "--listen", address]).stdout(Stdio::null()).spawn()?;
    Ok(Upstream(child))
}

/// What was prepared.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The configuration to run.
    pub config: PathBuf,
    /// The CA certificate for clients to trust.
    pub ca: PathBuf,
    /// What to try: a line that says what it shows, and the command.
    pub commands: Vec<(&'static str, String)>,
}

/// Writes CA, keys and configuration into the folder.
///
/// # Errors
/// The folder holds something that no demonstration made, or cannot be written.
pub fn prepare(options: &Options) -> io::Result<Prepared> {
    let folder = &options.dir;
    clear(folder)?;
    let keys = folder.join(KEYS_FOLDER);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&keys)?;
    let authority = DevCa::only_for("Portunus demo CA", &[WEBSITE, API, APPS]).map_err(io::Error::other)?;
    let ca = folder.join(CA_FILE);
    fs::write(&ca, authority.certificate_pem())?;
    for (file, name) in [("www", WEBSITE), ("api", API), ("apps", APPS)] {
        for (suffix, key_type) in [("ecdsa", KeyType::Ecdsa), ("rsa", KeyType::Rsa)] {
            let pair = authority.issue(&[name], key_type, Purpose::Server).map_err(io::Error::other)?;
            write_new(&keys.join(format!("{file}-{suffix}.pem")), 0o600, &pair.in_one_file())?;
        }
    }
    let config = folder.join(CONFIG_FILE);
    fs::write(&config, configuration(options))?;
    Ok(Prepared { config, commands: commands(options, &ca), ca })
}

/// Removes an earlier demonstration; anything else in the folder is left alone and rejected.
fn clear(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name();
        if ![CA_FILE, CONFIG_FILE, KEYS_FOLDER].iter().any(|ours| name == *ours) {
            let text = format!(
                "{} holds {}, which no demo made; name another folder with --dir, or remove it",
                folder.display(),
                name.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
    }
    let keys = folder.join(KEYS_FOLDER);
    if keys.exists() { fs::remove_dir_all(keys) } else { Ok(()) }
}

fn configuration(options: &Options) -> String {
    let https = SocketAddr::new(options.bind, options.https_port);
    let http = SocketAddr::new(options.bind, options.http_port);
    let (https_port, admin_port, upstream) = (options.https_port, options.admin_port, &options.upstream);
    format!(
        "\
# Made by `portunus demo`, and made anew each time. Try: portunus check portunus.yaml

listeners:
  - name: https
    bind: \"{https}\"
    tls: {{ keystore: demo }}
    http3: true
  - name: http
    bind: \"{http}\"
    redirect_to_https: {{ port: {https_port} }}

# An ECDSA and an RSA certificate for each of two names and a wildcard.
keystores:
  demo: {{ folder: {KEYS_FOLDER}, default: {WEBSITE} }}

upstreams:
  demo:
    servers: [\"{upstream}\"]

routes:
  - name: website
    hosts: {WEBSITE}
    upstream: demo
    hsts: true
  - name: moved
    hosts: {WEBSITE}
    path: /old/{{*rest}}
    redirect: {{ to: \"/{{rest}}\", status: \"301\" }}
  - name: api
    hosts: {API}
    path: /v1/{{*rest}}
    rewrite: /{{rest}}
    upstream: demo
    response_headers: {{ set: {{ X-Api: v1 }} }}
  - name: apps
    hosts: \"{APPS}\"
    upstream: demo

admin:
  bind: \"127.0.0.1:{admin_port}\"

log:
  access: {{ format: text }}
"
    )
}

fn commands(options: &Options, ca: &Path) -> Vec<(&'static str, String)> {
    let address = if options.bind.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { options.bind };
    let shown = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
    let (https, http) = (options.https_port, options.http_port);
    let call = |scheme: &str, port: u16, host: &str, extra: &str, path: &str| {
        let ca = if scheme == "https" { format!(" --cacert {}", ca.display()) } else { String::new() };
        format!("curl{ca} --resolve {host}:{port}:{shown}{extra} {scheme}://{host}:{port}{path}")
    };
    let old_client = " --verbose --tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256";
    let http3 = " --http3-only --include";
    vec![
        ("what the upstream sees", call("https", https, WEBSITE, "", "/headers")),
        ("another name, another certificate, a rewritten path", call("https", https, API, " --include", "/v1/small")),
        ("a name of the wildcard", call("https", https, APP, "", "/small")),
        ("an old client gets the RSA certificate", call("https", https, WEBSITE, old_client, "/small")),
        ("one megabyte down", call("https", https, WEBSITE, " --output /dev/null", "/bytes/1000000")),
        ("a redirect of the route", call("https", https, WEBSITE, " --include", "/old/small")),
        ("a path that no route knows", call("https", https, API, " --include", "/v2/")),
        ("plain HTTP is redirected", call("http", http, WEBSITE, " --include", "/small")),
        ("HTTP/3, by a curl whose --version lists HTTP3", call("https", https, WEBSITE, http3, "/headers")),
        ("HTTP/3 by a browser", chromium(options, &shown)),
        ("metrics", format!("curl http://127.0.0.1:{}/metrics", options.admin_port)),
    ]
}

/// Chromium, which speaks QUIC with servers of public CAs alone unless it is told otherwise, and is to know the certificate by its key.
fn chromium(options: &Options, shown: &str) -> String {
    let Options { dir, https_port: port, .. } = options;
    let certificate = dir.join(KEYS_FOLDER).join("www-ecdsa.pem");
    let key = format!(
        "$(openssl x509 -in {} -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64)",
        certificate.display()
    );
    format!(
        "chromium --user-data-dir=\"$(mktemp -d)\" --origin-to-force-quic-on={WEBSITE}:{port} \
         --host-resolver-rules=\"MAP *.portunus.test {shown}\" --ignore-certificate-errors-spki-list=\"{key}\" \
         https://{WEBSITE}:{port}/headers"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn options(dir: &Path) -> Options {
        Options {
            dir: dir.to_owned(),
            bind: "::1".parse().unwrap(),
            https_port: 18443,
            http_port: 18080,
            admin_port: 19901,
            upstream: "unix:/run/app.sock".to_owned(),
        }
    }

    #[test]
    fn what_is_prepared_is_a_valid_configuration_with_loadable_keys() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(&folder.path().join("demo"));
        for _ in 0..2 {
            let prepared = prepare(&options).expect("it can be made, and made again");
            let config = config::load(&prepared.config).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!((config.listeners.len(), config.routes.len()), (2, 4));
            let store = keystore::Store::load(&config.keystores["demo"].location, None, None).unwrap();
            assert_eq!(store.entries.len(), 6);
            assert!(store.warnings.is_empty(), "{:?}", store.warnings);
            for name in [WEBSITE, API, APPS] {
                let of_name = store.entries.iter().filter(|entry| entry.names.iter().any(|other| other == name));
                assert_eq!(of_name.count(), 2, "{name} has both key types");
            }
            let (_, first) = &prepared.commands[0];
            assert!(
                first.contains("--resolve www.portunus.test:18443:[::1] https://www.portunus.test:18443/"),
                "{first}"
            );
            assert!(config.listeners[0].options.http3.is_served);
            let over_http3 =
                |part| prepared.commands.iter().any(|(what, line)| what.contains("HTTP/3") && line.contains(part));
            assert!(over_http3("curl --cacert") && over_http3("--origin-to-force-quic-on=www.portunus.test:18443 "));
        }
        for entry in fs::read_dir(options.dir.join(KEYS_FOLDER)).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_folder_with_other_things_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "years").unwrap();
        let error = prepare(&options(folder.path())).unwrap_err();
        assert!(error.to_string().contains("thesis.txt") && error.to_string().contains("--dir"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
