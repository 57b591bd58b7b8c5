//! Folders of PEM files: what loads, under which names, and what is reported about the rest.

use crate::material;

use std::path::Path;
use std::sync::Arc;

use keystore::{LoadError, Location, Password, Store};
use tempfile::TempDir;
use tls::KeyType;

use material::{EC, EC_OTHER, ED25519, RSA};

/// A folder with these files; a name with a slash makes the folder before it.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

fn load(folder: &Path) -> Result<Store, LoadError> {
    Store::load(&Location::PemFolder(folder.to_owned()), None, None)
}

/// Loads the files: each entry as `names / key type`, sorted, and how many warnings contain each text.
fn check(files: &[(&str, &str)], entries: &[&str], warnings: &[&str]) {
    let folder = folder(files);
    let store = load(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let mut found: Vec<String> = store
        .entries
        .iter()
        .map(|entry| format!("{} / {:?}", entry.names.join(" "), entry.identity.key_type()))
        .collect();
    found.sort();
    assert_eq!(found, entries);
    assert_eq!(store.warnings.len(), warnings.len(), "{:#?}", store.warnings);
    for (warning, expected) in store.warnings.iter().zip(warnings) {
        assert!(warning.contains(expected), "{warning}\ndoes not contain\n{expected}");
    }
}

/// Loads the files, which must fail with these problems.
fn check_fails(files: &[(&str, &str)], problems: &[&str]) {
    let folder = folder(files);
    let error = load(folder.path()).map(|store| store.entries).unwrap_err();
    assert_eq!(error.problems.len(), problems.len(), "{error}");
    for (problem, expected) in error.problems.iter().zip(problems) {
        assert!(problem.contains(expected), "{problem}\ndoes not contain\n{expected}");
    }
}

#[test]
fn pairs_are_found_by_public_key() {
    let (ec, rsa) = (material::pair(&EC, &["a.example"]), material::pair(&RSA, &["a.example"]));
    check(&[("one.pem", &ec)], &["a.example / Ecdsa"], &[]);
    check(&[("ec.pem", &ec), ("rsa.pem", &rsa)], &["a.example / Ecdsa", "a.example / Rsa"], &[]);
    check(&[("both.pem", &(ec.clone() + &rsa))], &["a.example / Ecdsa", "a.example / Rsa"], &[]);
    let ed25519 = material::pair(&ED25519, &["*.b.example", "B.example"]);
    check(&[("x.pem", &ed25519)], &["*.b.example b.example / Ed25519"], &[]);
    check(
        &[
            ("site/chain.crt", &material::certificate(&EC, &["a.example"])),
            ("keys/other-name.KEY", &material::key(&EC)),
            ("notes.txt", "nothing"),
            (".hidden.pem", "-----BEGIN"),
            ("site/deeper/no.pem", "-----BEGIN"),
        ],
        &["a.example / Ecdsa"],
        &[],
    );
    // One key may serve several certificates, and may lie there twice.
    check(
        &[
            ("a.crt", &material::certificate(&EC, &["a.example"])),
            ("b.crt", &material::certificate(&EC, &["b.example"])),
            ("key.key", &material::key(&EC)),
            ("copy.key", &material::key(&EC)),
        ],
        &["a.example / Ecdsa", "b.example / Ecdsa"],
        &[],
    );
}

#[test]
fn the_default_is_named_by_the_file() {
    check(&[("default.pem", &material::pair(&EC, &["a.example"]))], &["a.example default / Ecdsa"], &[]);
    check(
        &[("default.ecdsa.pem", &material::pair(&EC, &[])), ("DEFAULT.rsa.pem", &material::pair(&RSA, &[]))],
        &["default / Ecdsa", "default / Rsa"],
        &[],
    );
    // The key of the default may serve other certificates too.
    check(
        &[("default.pem", &material::pair(&EC, &[])), ("a.pem", &material::pair(&EC, &["a.example"]))],
        &["a.example / Ecdsa", "default / Ecdsa"],
        &[],
    );
    check(&[("default.example.pem", &material::pair(&EC, &["a.example"]))], &["a.example / Ecdsa"], &[]);
    let store = load(folder(&[("default.pem", &material::pair(&EC, &[]))]).path()).unwrap();
    assert!(store.has_default());
    let store = load(folder(&[("other.pem", &material::pair(&EC, &["default.example"]))]).path()).unwrap();
    assert!(!store.has_default());
}

#[test]
fn chains_follow_their_leaf() {
    let chain = material::chain(&EC, &["a.example"], "root");
    let root = material::authority("root");
    check(&[("a.pem", &(chain.clone() + &material::key(&EC)))], &["a.example / Ecdsa"], &[]);
    check(&[("a.pem", &(material::key(&EC) + &chain + &root))], &["a.example / Ecdsa"], &[]);
    check(
        &[("a.pem", &(chain.clone() + &material::authority("other"))), ("a.key", &material::key(&EC))],
        &["a.example / Ecdsa"],
        &["\"CN=other\" does not certify \"CN=root intermediate\""],
    );
    // As certbot leaves it: the leaf alone and with its chain, and the chain alone.
    let leaf = chain.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
    let middle = &chain[leaf.len()..];
    check(
        &[
            ("a/cert.pem", leaf),
            ("a/chain.pem", middle),
            ("a/fullchain.pem", &chain),
            ("a/privkey.pem", &material::key(&EC)),
        ],
        &["a.example / Ecdsa"],
        &[],
    );
    // A development authority beside what it issued, with its key.
    check(
        &[("a.pem", &(chain + &material::key(&EC))), ("ca.pem", &root), ("ca.key", &material::authority_key())],
        &["a.example / Ecdsa"],
        &["an authority with its key"],
    );
    check(
        &[("a.pem", &material::pair(&EC, &["a.example"])), ("ca.pem", &root)],
        &["a.example / Ecdsa"],
        &["the authority \"CN=root\" is not used"],
    );
}

/// Some write the root first, or in the middle: the chain is what each one's issuer makes of it.
#[test]
fn chains_are_put_in_order_by_issuer() {
    let chain = material::chain(&EC, &["a.example"], "root");
    let root = material::authority("root");
    let leaf = chain.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
    let (middle, key) = (&chain[leaf.len()..], material::key(&EC));
    let chain_of = |text: String| {
        let folder = folder(&[("a.pem", &text)]);
        let store = load(folder.path()).unwrap();
        assert!(store.warnings.is_empty(), "{:?}", store.warnings);
        store.entries[0].digest
    };
    let expected = chain_of([&key, leaf, middle, &root].concat());
    for (what, text) in [
        ("root first", [&root, middle, leaf, &key].concat()),
        ("key first", [&key, &root, middle, leaf].concat()),
        ("leaf first, root next", [leaf, &root, middle, &key].concat()),
        ("root ahead of the leaf", [&root, leaf, middle, &key].concat()),
        ("intermediate first", [middle, leaf, &key, &root].concat()),
    ] {
        assert_eq!(chain_of(text), expected, "{what}");
    }
}

#[test]
fn the_newest_certificate_has_the_name() {
    let older = material::certificate_within(&EC, &["a.example", "b.example"], (2021, 2122)) + &material::key(&EC);
    let newer = material::certificate_within(&EC_OTHER, &["a.example"], (2023, 2122)) + &material::key(&EC_OTHER);
    for (first, second) in [(&older, &newer), (&newer, &older)] {
        check(
            &[("1.pem", first), ("2.pem", second)],
            &["a.example / Ecdsa", "b.example / Ecdsa"],
            &["not served as a.example, because the certificate of"],
        );
    }
    let newest = material::certificate_within(&EC, &["a.example", "b.example"], (2024, 2122)) + &material::key(&EC);
    check(
        &[("1.pem", &newest), ("2.pem", &newer)],
        &["a.example b.example / Ecdsa"],
        &["2.pem: not served as a.example"],
    );
}

#[test]
fn dates_are_warned_of() {
    let expired = material::certificate_within(&EC, &["a.example"], (2001, 2011)) + &material::key(&EC);
    check(&[("a.pem", &expired)], &["a.example / Ecdsa"], &["a.pem: expired on 2011-01-01"]);
    let future = material::certificate_within(&EC, &["a.example"], (2090, 2122)) + &material::key(&EC);
    check(&[("a.pem", &future)], &["a.example / Ecdsa"], &["a.pem: not valid before 2090-01-01"]);
}

#[test]
fn names_that_cannot_be_served_are_warned_of() {
    let pair = material::pair(&EC, &["a.example", "b*.example", "default"]);
    check(
        &[("a.pem", &pair)],
        &["a.example / Ecdsa"],
        &["\"b*.example\" in the certificate", "\"default\" in the certificate"],
    );
    let nameless = material::pair(&RSA, &[]);
    check(
        &[("a.pem", &pair), ("n.pem", &nameless)],
        &["a.example / Ecdsa"],
        &["b*", "default", "n.pem: the certificate names no host"],
    );
}

#[test]
fn every_problem_is_reported_at_once() {
    let (certificate, key) = (material::certificate(&EC, &["a.example"]), material::key(&EC));
    check_fails(&[], &["holds no certificate with its key"]);
    check_fails(&[("a.crt", &certificate)], &["has no key in this folder"]);
    check_fails(&[("a.key", &key)], &["has no certificate in this folder"]);
    check_fails(&[("a.crt", &certificate), ("a.key", &material::key(&RSA))], &["do not belong together"]);
    check_fails(&[("a.pem", &(certificate.clone() + &material::key(&EC_OTHER)))], &["do not belong together"]);
    check_fails(&[("a.crt", &certificate), ("b.key", &material::key(&RSA))], &["has no key", "has no certificate"]);
    check_fails(
        &[("a.pem", &certificate[..certificate.len() - 30])],
        &["line 1: the block that begins here has no END"],
    );
    check_fails(&[("a.cer", "\x30\x01")], &["DER instead of PEM"]);
    check_fails(
        &[("a.pem", "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n")],
        &["certificate damaged"],
    );
    check_fails(
        &[("a.pem", "-----BEGIN PRIVATE KEY-----\nYWJj\n-----END PRIVATE KEY-----\n")],
        &["private key damaged"],
    );
    check_fails(
        &[
            ("a.pem", "-----BEGIN X-----\n"),
            ("b.crt", &certificate),
            ("good.pem", &material::pair(&RSA, &["c.example"])),
        ],
        &["a.pem: line 1", "b.crt: the certificate of \"CN=a.example\""],
    );
    let missing = load(Path::new("/nonexistent/folder")).unwrap_err();
    assert!(missing.problems[0].contains("/nonexistent/folder"), "{missing}");
}

#[test]
fn broken_links_are_reported_and_good_ones_followed() {
    let folder = folder(&[("archive.d/deep/a1.pem", &material::pair(&EC, &["a.example"]))]);
    std::os::unix::fs::symlink("archive.d/deep/a1.pem", folder.path().join("a.pem")).unwrap();
    assert_eq!(load(folder.path()).unwrap().entries[0].names, ["a.example"]);
    std::os::unix::fs::symlink("nowhere", folder.path().join("b.pem")).unwrap();
    let error = load(folder.path()).unwrap_err();
    assert!(error.problems.len() == 1 && error.problems[0].contains("b.pem"), "{error}");
}

#[test]
fn encrypted_keys_need_the_password() {
    let plain = folder(&[("key", &material::key(&RSA))]);
    let sealed = std::process::Command::new("openssl")
        .args(["pkcs8", "-topk8", "-passout", "pass:secret", "-in", "key"])
        .current_dir(plain.path())
        .output()
        .expect("openssl is installed");
    let sealed = String::from_utf8(sealed.stdout).unwrap();
    let folder = folder(&[("a.crt", &material::certificate(&RSA, &["a.example"])), ("a.key", &sealed)]);
    let location = Location::PemFolder(folder.path().to_owned());
    let problem = |password: Option<&str>| {
        let password = password.map(|text| Password::new(text.to_owned()));
        Store::load(&location, password.as_ref(), None).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
    };
    assert!(problem(None).contains("the key is encrypted"));
    assert!(problem(Some("wrong")).contains("does not open this key"));
    assert_eq!(problem(Some("secret")), "");
}

#[test]
fn unchanged_pairs_keep_their_identity() {
    let folder =
        folder(&[("a.pem", &material::pair(&EC, &["a.example"])), ("b.pem", &material::pair(&RSA, &["b.example"]))]);
    let location = Location::PemFolder(folder.path().to_owned());
    let first = Store::load(&location, None, None).unwrap();
    std::fs::write(folder.path().join("b.pem"), material::pair(&EC_OTHER, &["b.example"])).unwrap();
    let second = Store::load(&location, None, Some(&first)).unwrap();
    let kept: Vec<bool> =
        first.entries.iter().zip(&second.entries).map(|(a, b)| Arc::ptr_eq(&a.identity, &b.identity)).collect();
    assert_eq!(kept, [true, false]);
    let third = Store::load(&location, None, None).unwrap();
    assert!(!Arc::ptr_eq(&third.entries[0].identity, &first.entries[0].identity), "only what is given is reused");
    assert_eq!(third.entries[1].identity.key_type(), KeyType::Ecdsa);
}

#[test]
fn a_half_written_pair_fails_at_every_length() {
    let text = material::pair(&EC, &["a.example"]);
    let folder = folder(&[("other.pem", &material::pair(&RSA, &["b.example"]))]);
    let path = folder.path().join("a.pem");
    for length in (1..text.trim_end().len()).step_by(7) {
        std::fs::write(&path, &text[..length]).unwrap();
        // Cut inside the first BEGIN line's dashes there is no block yet, which is a warning and not a pair.
        match load(folder.path()) {
            Ok(store) => assert!(length < 5 && store.entries.len() == 1, "cut to {length}"),
            Err(error) => assert!(error.problems.iter().all(|problem| problem.contains("a.pem")), "{error}"),
        }
    }
    std::fs::write(&path, &text).unwrap();
    assert_eq!(load(folder.path()).unwrap().entries.len(), 2);
}
