//! `portunus key-server check FILE`: every problem in a key server's configuration and in what it names, without serving anything.
//!
//! Loads the file and everything it names as a start would, looks further than a start does (who may read the keys, whom certificates name, how
//! long they are good), and drops all of it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use config::{self, EnrolmentConfig, KeyServerConfig, KeyServerTls};
use keyserver::confine::Needs;
use keyserver::holdings::Holdings;
use keyserver::register::Register;
use rustix::fs::Access;
use tls::crypto::Certificate;

/// A certificate that ends sooner than this is worth a warning.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Checks `file`: 0 with the keys and their identifiers if it can be used, else 1 and every problem on stderr.
pub fn run(file: &Path) -> ExitCode {
    let config = match config::load_key_server(file) {
        Ok(config) => config,
        Err(problems) => {
            eprint!("{problems}");
            return ExitCode::FAILURE;
        }
    };
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    for listener in &config.listeners {
        if let Some(tls) = &listener.tls {
            problems.extend(tls_problems(tls, &mut warnings));
        }
    }
    warnings.extend(open_files(&config));
    problems.extend(closed_folders(&config));
    // The admin socket, which only a start knows, changes nothing here.
    problems.extend(Needs::of(&config, None).problems(config.sandbox));
    match Holdings::load(&unchanged(config), None) {
        Ok(holdings) => print_keys(&holdings),
        Err(found) => problems.extend(found),
    }
    problems.sort();
    problems.dedup();
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    if problems.is_empty() {
        println!("{}: ok", file.display());
        return ExitCode::SUCCESS;
    }
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    ExitCode::FAILURE
}

/// The configuration without what a start would make: a check makes nothing, and is run as another user.
fn unchanged(config: KeyServerConfig) -> KeyServerConfig {
    let is_made = |enrolment: &EnrolmentConfig| Register::at(&enrolment.folder).authority_certificate().exists();
    let enrolment = config.enrolment.clone().filter(is_made);
    KeyServerConfig { enrolment, ..config }
}

fn print_keys(holdings: &Holdings) {
    let mut keys: Vec<_> = holdings.keys().collect();
    keys.sort_by(|a, b| a.origin.cmp(&b.origin));
    for key in keys {
        println!("{}  {:<11}  {}", key.ski_text(), key.signing.kind().to_string(), key.origin);
    }
}

/// What is wrong with the server's own certificate and its trust, beyond what loading them notices.
fn tls_problems(tls: &KeyServerTls, warnings: &mut Vec<String>) -> Vec<String> {
    let place = tls.certificate.display();
    let chain = match keystore::trust::certificates(&tls.certificate) {
        Ok(chain) => chain,
        Err(problem) => return vec![problem],
    };
    let read: Result<Vec<Certificate>, _> = chain.iter().map(|der| Certificate::from_der(der)).collect();
    let Ok(chain) = read else { return vec![format!("{place}: a certificate cannot be read")] };
    let mut problems = Vec::new();
    for links in chain.windows(2) {
        if links[0].issuer_der() != links[1].subject_der() {
            problems.push(format!(
                "{place}: {:?} does not certify {:?} before it; put each issuer after what it certified",
                links[1].subject(),
                links[0].subject()
            ));
        }
    }
    let Some(leaf) = chain.first() else { return problems };
    if leaf.alternative_names_are_empty() {
        problems.push(format!("{place}: names no host (no subject alternative name), so no client can verify it"));
    }
    if !leaf.is_for_servers() {
        problems.push(format!("{place}: is not for servers (extended key usage lacks serverAuth); clients reject it"));
    }
    problems.extend(validity(&place.to_string(), leaf, warnings));
    let Some(client_ca) = &tls.client_ca else { return problems };
    for der in keystore::trust::certificates(client_ca).unwrap_or_default() {
        let Ok(root) = Certificate::from_der(&der) else { continue };
        if !root.is_authority() {
            let place = client_ca.display();
            problems.push(format!("{place}: {:?} is no authority, so it vouches for nobody", root.subject()));
        }
        problems.extend(validity(&client_ca.display().to_string(), &root, warnings));
    }
    problems
}

fn validity(place: &str, certificate: &Certificate, warnings: &mut Vec<String>) -> Option<String> {
    let now = SystemTime::now();
    if now > certificate.not_after() {
        return Some(format!("{place}: {:?} has expired; renew it", certificate.subject()));
    }
    if now < certificate.not_before() {
        return Some(format!("{place}: {:?} is not valid yet; check the clock", certificate.subject()));
    }
    if certificate.not_after() < now + SOON {
        warnings.push(format!("{place}: {:?} expires within 14 days; renew it", certificate.subject()));
    }
    None
}

/// Folders that new keys are to be kept in, and cannot be.
fn closed_folders(config: &KeyServerConfig) -> Vec<String> {
    let folders = config.keys.values().filter(|set| set.grows).filter_map(|set| set.folders.first());
    let problem = |folder: &PathBuf| {
        let error = rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
        let place = folder.display();
        Some(format!(
            "{place}: {error}; new keys are kept there (`make_keys`): make it writable for the user of the key server"
        ))
    };
    folders.filter_map(problem).collect()
}

/// Private files that others on the machine may read.
fn open_files(config: &KeyServerConfig) -> Vec<String> {
    let own = config.listeners.iter().filter_map(|listener| listener.tls.as_ref()).map(|tls| tls.private_key.clone());
    let files = config.keys.values().flat_map(|set| set.files.clone());
    let folders = config.keys.values().flat_map(|set| set.folders.clone());
    let inside = folders.flat_map(|folder| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ending| ending == "key"))
    });
    let mode = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o077);
    own.chain(files)
        .chain(inside)
        .filter(|path| mode(path).is_ok_and(|others| others != 0))
        .map(|path| format!("{}: others may read or write it; `chmod 600` it", path.display()))
        .collect()
}
