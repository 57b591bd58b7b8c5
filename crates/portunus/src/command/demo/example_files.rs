//! The certificates, keys and lists that the configurations in `examples/` name: from a development CA, into the folder of a copy of them.
//!
//! A test checks every example with these files, so what is missing here is noticed.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use keystore::dev_ca::{DevCa, Purpose};
use keystore::edit::{self, AddOptions, NewPair};
use keystore::{Location, Password};
use tls::KeyType;

/// Names of the keystores: file, and the names in its certificate.
const SITES: [(&str, &[&str]); 6] = [
    ("www", &["www.example.com", "example.com"]),
    ("shop", &["*.shop.example.com"]),
    ("admin", &["admin.example.com"]),
    ("partners", &["partners.example.com"]),
    ("public", &["public.example.com"]),
    ("mail", &["mail.example.com"]),
];

/// Writes them, unless they are there.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn write(folder: &Path) -> Result<(), String> {
    if folder.join("names.p12").exists() {
        return Ok(());
    }
    let failed = |error: rcgen::Error| format!("a certificate cannot be made: {error}");
    let ca = DevCa::only_for("Portunus examples CA", &["example.com", "keys.internal", "edge.portunus.test"]);
    let ca = ca.map_err(failed)?;
    for inner in ["certs", "chains", "key-server/keys", "key-server/ordered", "key-server/old-keys"] {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join(inner));
        made.map_err(|error| format!("{}: {error}", folder.join(inner).display()))?;
    }
    let put = |name: &str, content: &str| place(&folder.join(name), content);
    for (file, names) in SITES {
        let pair = ca.issue(names, KeyType::Ecdsa, Purpose::Server).map_err(failed)?;
        put(&format!("certs/{file}.pem"), &pair.in_one_file())?;
        put(&format!("chains/{file}.pem"), &pair.certificate_pem)?;
        put(&format!("key-server/keys/{file}.key"), &pair.key_pem)?;
    }
    let old = ca.issue(&["old.example.com"], KeyType::Rsa, Purpose::Server).map_err(failed)?;
    put("key-server/old-keys/old.key", &old.key_pem)?;
    let server =
        ca.issue(&["keys.internal", "localhost", "127.0.0.1"], KeyType::Ecdsa, Purpose::Server).map_err(failed)?;
    put("key-server/server.pem", &server.certificate_pem)?;
    put("key-server/server.key", &server.key_pem)?;
    let edge = ca.issue(&["edge.portunus.test"], KeyType::Ecdsa, Purpose::Client).map_err(failed)?;
    put("edge.pem", &edge.certificate_pem)?;
    put("edge.key", &edge.key_pem)?;
    for name in ["key-server/ca.pem", "keyless-ca.pem", "internal-ca.pem", "clients-ca.pem", "partners-ca.pem"] {
        put(name, &ca.certificate_pem())?;
    }
    put("partners.crl", &ca.empty_revocation_list().map_err(failed)?)?;
    put("names.password", "for-the-example-only\n")?;
    pkcs12(folder)
}

/// The sites again, in one PKCS#12 file.
fn pkcs12(folder: &Path) -> Result<(), String> {
    let path = folder.join("names.p12");
    if path.exists() {
        return Ok(());
    }
    let password = fs::read_to_string(folder.join("names.password")).map_err(|error| error.to_string())?;
    let password = Password::new(password.trim_end().to_owned());
    let location = Location::Pkcs12(path);
    let names = SITES.iter().filter_map(|(file, names)| Some((*file, *names.first()?)));
    for (file, name) in names.chain([("www", "default")]) {
        let pem = folder.join(format!("certs/{file}.pem"));
        let pair = NewPair::read(&pem, &pem, None).map_err(|error| error.problems.join("; "))?;
        let options = AddOptions { overwrite: true, sillyproxy: false };
        edit::add(&location, Some(&password), name, &pair, options).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Writes a file that only its owner reads, unless it is there.
fn place(path: &Path, content: &str) -> Result<(), String> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(content.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
    .map_err(|error| format!("{}: {error}", path.display()))
}
