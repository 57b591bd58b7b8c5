//! Stores whose certificates may come without their keys: what loads, under which names, and how they mix with whole pairs.

use crate::material;

use std::process::Command;

use keystore::{Keys, Location, Password, Store};
use tempfile::TempDir;

use material::{EC, EC_OTHER, RSA};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, content)| std::fs::write(folder.path().join(name), content).unwrap());
    folder
}

/// Each entry as `names / key type / where its key is`, sorted.
fn entries(store: &Store) -> Vec<String> {
    let shown = |entry: &keystore::Entry| {
        let place = if entry.identity.is_remote() { "elsewhere" } else { "here" };
        format!("{} / {:?} / {place}", entry.names.join(" "), entry.identity.key_type())
    };
    let mut entries: Vec<String> = store.entries.iter().map(shown).collect();
    entries.sort();
    entries
}

/// Loads a folder with these files where keys may be elsewhere.
fn check(files: &[(&str, &str)], expected: &[&str], warnings: &[&str]) {
    let folder = folder(files);
    let location = Location::PemFolder(folder.path().to_owned());
    let store = Store::load_with(&location, None, Keys::InStoreOrElsewhere, None).unwrap();
    assert_eq!(entries(&store), expected);
    assert_eq!(store.warnings.len(), warnings.len(), "{:#?}", store.warnings);
    for (warning, expected) in store.warnings.iter().zip(warnings) {
        assert!(warning.contains(expected), "{warning}");
    }
}

#[test]
fn chains_come_with_and_without_keys() {
    let (ec, rsa) = (material::certificate(&EC, &["a.example"]), material::certificate(&RSA, &["a.example"]));
    check(&[("a.pem", &ec)], &["a.example / Ecdsa / elsewhere"], &[]);
    check(
        &[("ec.pem", &ec), ("rsa.pem", &rsa), ("rsa.key", &material::key(&RSA))],
        &["a.example / Ecdsa / elsewhere", "a.example / Rsa / here"],
        &[],
    );
    check(
        &[("default.pem", &ec), ("b.pem", &material::pair(&EC_OTHER, &["b.example"]))],
        &["a.example default / Ecdsa / elsewhere", "b.example / Ecdsa / here"],
        &[],
    );
    let chain = material::chain(&EC, &["a.example"], "root");
    check(&[("a.pem", &chain)], &["a.example / Ecdsa / elsewhere"], &[]);
    check(
        &[("a.pem", &(chain.clone() + &rsa))],
        &["a.example / Ecdsa / elsewhere", "a.example / Rsa / elsewhere"],
        &[],
    );
}

#[test]
fn a_file_may_be_called_after_its_host() {
    let named = material::certificate(&EC, &["www.1.example"]);
    check(&[("www.1.example", &named)], &["www.1.example / Ecdsa / elsewhere"], &[]);
    check(&[("www.1.example.pem", &named)], &["www.1.example / Ecdsa / elsewhere"], &[]);
    check(
        &[("www.2.example", &named)],
        &["www.1.example www.2.example / Ecdsa / elsewhere"],
        &["not good for www.2.example"],
    );
    let nameless = material::certificate(&EC, &[]);
    check(&[("www.1.example.crt", &nameless)], &["www.1.example / Ecdsa / elsewhere"], &["not good for"]);
    check(
        &[("README", "nothing"), ("a.example", &material::certificate(&EC, &["a.example"]))],
        &["a.example / Ecdsa / elsewhere"],
        &[],
    );
}

#[test]
fn a_certificate_made_for_oneself_is_served_although_it_says_it_is_an_authority() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "own.key"])
        .args(["-out", "own.pem", "-days", "30", "-subj", "/CN=own", "-addext", "subjectAltName=DNS:own.example"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let own = std::fs::read_to_string(dir.path().join("own.pem")).unwrap();
    check(&[("own.example", &own)], &["own.example / Ecdsa / elsewhere"], &[]);
    // Behind what it issued it is the end of a chain, as any authority.
    let chain = material::chain(&EC, &["a.example"], "root");
    check(&[("a.pem", &chain)], &["a.example / Ecdsa / elsewhere"], &[]);
}

#[test]
fn without_key_servers_a_missing_key_stays_a_problem() {
    let folder = folder(&[("a.pem", &material::certificate(&EC, &["a.example"]))]);
    let error = Store::load(&Location::PemFolder(folder.path().to_owned()), None, None).unwrap_err();
    assert!(error.to_string().contains("has no key in this folder"), "{error}");
    assert!(error.to_string().contains("`key_servers`"), "{error}");
}

#[test]
fn a_key_that_comes_or_goes_makes_another_entry() {
    let folder = folder(&[("a.pem", &material::certificate(&EC, &["a.example"]))]);
    let location = Location::PemFolder(folder.path().to_owned());
    let load = |before: Option<&Store>| Store::load_with(&location, None, Keys::InStoreOrElsewhere, before).unwrap();
    let first = load(None);
    let again = load(Some(&first));
    assert!(std::sync::Arc::ptr_eq(&first.entries[0].identity, &again.entries[0].identity));
    std::fs::write(folder.path().join("a.key"), material::key(&EC)).unwrap();
    assert_eq!(entries(&load(Some(&again))), ["a.example / Ecdsa / here"]);
}

#[test]
fn containers_may_hold_chains_alone() {
    let folder = folder(&[("chain.pem", &material::chain(&EC, &["a.example"], "root"))]);
    let path = |name: &str| folder.path().join(name);
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    let password = Password::new("password".to_owned());
    run("openssl", &["pkcs12", "-export", "-nokeys", "-in", "chain.pem", "-out", "a.p12", "-passout", "pass:password"]);
    let load = |location, keys| Store::load_with(&location, Some(&password), keys, None);
    let store = load(Location::Pkcs12(path("a.p12")), Keys::InStoreOrElsewhere).unwrap();
    assert_eq!(entries(&store), ["a.example / Ecdsa / elsewhere"]);
    assert!(load(Location::Pkcs12(path("a.p12")), Keys::InStore).is_err());

    std::fs::write(path("leaf.pem"), material::certificate(&RSA, &["b.example"])).unwrap();
    for (alias, file) in [("a.example:ECDSA", "chain.pem"), ("default", "leaf.pem")] {
        let store = ["-keystore", "a.jks", "-storetype", "JKS", "-storepass", "password", "-noprompt"];
        run("keytool", &[&["-importcert", "-alias", alias, "-file", file][..], &store].concat());
    }
    let store = load(Location::Jks(path("a.jks")), Keys::InStoreOrElsewhere).unwrap();
    assert_eq!(entries(&store), ["a.example / Ecdsa / elsewhere", "default / Rsa / elsewhere"]);
    assert!(load(Location::Jks(path("a.jks")), Keys::InStore).is_err());
}
