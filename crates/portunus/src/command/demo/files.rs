//! The files of the demo: a development CA, certificates and keys for gate and key server, and the configurations of both, which its reader looks at and
//! changes. Everything lies in one folder, which is made anew each time.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;
use tls::crypto::digest::random;
use wire::hexadecimal::hexadecimal;

use super::super::quickstart::{reject_shared, sandbox, write_new};
use super::{Options, guide};

pub(super) const WEBSITE: &str = "www.portunus.test";
pub(super) const API: &str = "api.portunus.test";
const APPS: &str = "*.apps.portunus.test";
/// One of the names that the wildcard stands for.
pub(super) const APP: &str = "gopher.apps.portunus.test";
/// The name whose key is on the key server.
pub(super) const VAULT: &str = "vault.portunus.test";
const KEY_SERVER: &str = "keys.portunus.test";
const EDGE: &str = "edge.portunus.test";

pub(super) const CA_FILE: &str = "ca.pem";
pub(super) const CONFIG_FILE: &str = "portunus.yaml";
pub(super) const CURL_FILE: &str = "curl.conf";
pub(super) const MORE_FILE: &str = "more.txt";
pub(super) const PROGRAM: &str = "portunus";
pub(super) const KEYS: &str = "keys";
/// Certificates whose keys are elsewhere.
const CHAINS: &str = "chains";
const TOKEN_FILE: &str = "admin.token";
const CONTRACT_FILE: &str = "shop.yaml";
/// What the gate proves itself with at the key server.
const EDGE_FOLDER: &str = "edge";
const KEY_SERVER_FOLDER: &str = "key-server";
pub(super) const KEY_SERVER_FILE: &str = "key-server/key-server.yaml";
/// Apart from what is written by hand, or the sandbox could not tell them apart: sockets, and logs.
const SOCKETS: &str = "run";
const LOGS: &str = "log";
pub(super) const GATE_SOCKET: &str = "run/gate.sock";
pub(super) const KEY_SERVER_SOCKET: &str = "run/key-server.sock";
pub(super) const GATE_LOG: &str = "log/gate.log";
pub(super) const KEY_SERVER_LOG: &str = "log/key-server.log";
pub(super) const AUDIT_LOG: &str = "log/audit.log";

/// All that a demonstration makes, of this version and of earlier ones.
const FILES: [&str; 7] = [CA_FILE, CONFIG_FILE, CURL_FILE, MORE_FILE, PROGRAM, TOKEN_FILE, CONTRACT_FILE];
const FOLDERS: [&str; 6] = [KEYS, CHAINS, EDGE_FOLDER, KEY_SERVER_FOLDER, SOCKETS, LOGS];

/// Writes everything into the folder, which is made anew. `servers`: shop, Gopher, TFTP. Gives the dashboard's token.
///
/// # Errors
/// The folder holds something that no demonstration made, a demonstration runs in it, others can write to it, or it cannot be written.
pub(super) fn write(options: &Options, servers: &[SocketAddr; 3]) -> io::Result<String> {
    let folder = &options.dir;
    clear(folder)?;
    for name in FOLDERS {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join(name))?;
    }
    fs::DirBuilder::new().mode(0o700).create(folder.join(KEY_SERVER_FOLDER).join(KEYS))?;
    reject_shared(folder)?;
    issue(folder).map_err(io::Error::other)??;
    let token = hexadecimal(&random::<16>().map_err(|error| io::Error::other(error.to_string()))?);
    write_new(&folder.join(TOKEN_FILE), 0o600, &token)?;
    write_new(&folder.join(CONTRACT_FILE), 0o644, include_str!("shop.yaml"))?;
    write_new(&folder.join(CONFIG_FILE), 0o644, &filled(include_str!("portunus.yaml"), options, servers))?;
    write_new(&folder.join(KEY_SERVER_FILE), 0o644, &filled(include_str!("key-server.yaml"), options, servers))?;
    write_new(&folder.join(CURL_FILE), 0o644, &guide::curl_file(options))?;
    write_new(&folder.join(MORE_FILE), 0o644, &guide::more(options))?;
    std::os::unix::fs::symlink(std::env::current_exe()?, folder.join(PROGRAM))?;
    Ok(token)
}

/// Makes CA, certificates and keys; the CA's key is thrown away.
fn issue(folder: &Path) -> Result<io::Result<()>, rcgen::Error> {
    let authority = DevCa::only_for("Portunus demo CA", &[WEBSITE, API, APPS, VAULT, KEY_SERVER, EDGE])?;
    let mut files: Vec<(String, u32, String)> = Vec::new();
    for (file, name) in [("www", WEBSITE), ("api", API), ("apps", APPS)] {
        for (suffix, key_type) in [("ecdsa", KeyType::Ecdsa), ("rsa", KeyType::Rsa)] {
            let pair = authority.issue(&[name], key_type, Purpose::Server)?;
            files.push((format!("{KEYS}/{file}-{suffix}.pem"), 0o600, pair.in_one_file().to_string()));
        }
    }
    let sides = [
        (VAULT, Purpose::Server, format!("{CHAINS}/vault.pem"), format!("{KEY_SERVER_FOLDER}/{KEYS}/vault.key")),
        (KEY_SERVER, Purpose::Server, "key-server/server.pem".to_owned(), "key-server/server.key".to_owned()),
        (EDGE, Purpose::Client, "edge/client.pem".to_owned(), "edge/client.key".to_owned()),
    ];
    for (name, purpose, chain, key) in sides {
        let pair = authority.issue(&[name], KeyType::Ecdsa, purpose)?;
        files.push((chain, 0o644, pair.certificate_pem.clone()));
        files.push((key, 0o600, pair.key_pem.to_string()));
    }
    for place in [CA_FILE.to_owned(), format!("{KEY_SERVER_FOLDER}/{CA_FILE}")] {
        files.push((place, 0o644, authority.certificate_pem()));
    }
    Ok(files.iter().try_for_each(|(name, mode, content)| write_new(&folder.join(name), *mode, content)))
}

/// A configuration with addresses and ports in their places.
fn filled(template: &str, options: &Options, [shop, gopher, tftp]: &[SocketAddr; 3]) -> String {
    let at = |port: u16| SocketAddr::new(options.bind, port).to_string();
    let places = [
        ("@HTTPS@", at(options.https_port)),
        ("@HTTP@", at(options.http_port)),
        ("@TUNNEL@", at(options.tunnel_port)),
        ("@KEYLESS@", at(options.keyless_port)),
        ("@HTTPS_PORT@", options.https_port.to_string()),
        ("@ADMIN_PORT@", options.admin_port.to_string()),
        ("@KEY_SERVER@", options.key_server().to_string()),
        ("@WEBSITE@", options.upstream.clone().unwrap_or_else(|| shop.to_string())),
        ("@SHOP@", shop.to_string()),
        ("@GOPHER@", gopher.to_string()),
        ("@TFTP@", tftp.to_string()),
    ];
    let filled = places.iter().fold(template.to_owned(), |text, (place, value)| text.replace(place, value));
    filled + sandbox()
}

/// Removes an earlier demonstration; anything else in the folder is left alone and rejected.
fn clear(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let rejected = |what: String| {
        let text = format!("{} {what}; name another folder with --dir, or remove it", folder.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
    };
    for entry in entries {
        let name = entry?.file_name();
        if !FILES.iter().chain(&FOLDERS).any(|ours| name == *ours) {
            return rejected(format!("holds {}, which no demo made", name.display()));
        }
    }
    if UnixStream::connect(folder.join(GATE_SOCKET)).is_ok() {
        return rejected("is that of a demo that is running".to_owned());
    }
    let missing_is_fine = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    FOLDERS.iter().try_for_each(|name| missing_is_fine(fs::remove_dir_all(folder.join(name))))?;
    FILES.iter().try_for_each(|name| missing_is_fine(fs::remove_file(folder.join(name))))
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
            tunnel_port: 18444,
            keyless_port: 18445,
            admin_port: 19901,
            key_server_port: 12407,
            upstream: Some("unix:/run/app.sock".to_owned()),
        }
    }

    fn written(options: &Options) -> io::Result<String> {
        write(options, &["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(|address| address.parse().unwrap()))
    }

    #[test]
    fn what_is_written_is_a_valid_configuration_with_loadable_keys() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(&folder.path().join("demo"));
        for _ in 0..2 {
            written(&options).expect("it can be made, and made again");
            let config = config::load(&options.dir.join(CONFIG_FILE)).unwrap_or_else(|problems| panic!("{problems}"));
            let store = keystore::Store::load(&config.keystores["demo"].location, None, None).unwrap();
            assert_eq!(store.entries.len(), 6);
            assert!(store.warnings.is_empty(), "{:?}", store.warnings);
            for name in [WEBSITE, API, APPS] {
                let of_name = store.entries.iter().filter(|entry| entry.names.iter().any(|other| other == name));
                assert_eq!(of_name.count(), 2, "{name} has both key types");
            }
            assert!(config.listeners[0].options.http3.is_served);
            let curl = fs::read_to_string(options.dir.join(CURL_FILE)).unwrap();
            assert!(curl.contains("resolve = \"*:18443:[::1]\""), "{curl}");
        }
        for name in [KEYS, EDGE_FOLDER, "key-server/keys"] {
            for entry in fs::read_dir(options.dir.join(name)).unwrap().map(Result::unwrap) {
                let expected = if entry.file_name() == "client.pem" { 0o644 } else { 0o600 };
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, expected, "{:?}", entry.path());
            }
        }
    }

    #[test]
    fn a_folder_with_other_things_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "years").unwrap();
        let error = written(&options(folder.path())).unwrap_err();
        assert!(error.to_string().contains("thesis.txt") && error.to_string().contains("--dir"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
