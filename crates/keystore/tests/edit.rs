//! Adding to stores and removing from them: what is rejected, what is replaced, and that nothing else is lost.

use crate::material;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use keystore::edit::{self, AddOptions, EditError, NewPair};
use keystore::{Location, Password, Store, inspect};
use tempfile::TempDir;
use tls::KeyType;

use material::{EC, EC_OTHER, GOOD, RSA};

fn password() -> Password {
    Password::new("changeit".to_owned())
}

/// A place for a new store of each kind.
fn places() -> [(TempDir, Location); 3] {
    [Location::PemFolder as fn(_) -> _, Location::Jks, Location::Pkcs12].map(|kind| {
        let folder = tempfile::tempdir().unwrap();
        let location = kind(folder.path().join("store"));
        (folder, location)
    })
}

fn new_pair(key: &rcgen::KeyPair, names: &[&str], years: (i32, i32)) -> NewPair {
    new_pair_of(key, &material::certificate_within(key, names, years))
}

fn new_pair_of(key: &rcgen::KeyPair, chain: &str) -> NewPair {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.pem");
    std::fs::write(&file, chain.to_owned() + &material::key(key)).unwrap();
    NewPair::read(&file, &file, None).unwrap()
}

fn add(location: &Location, name: &str, pair: &NewPair, overwrite: bool) -> Result<Vec<String>, EditError> {
    edit::add(location, Some(&password()), name, pair, AddOptions { overwrite, sillyproxy: false })
}

fn remove(location: &Location, name: &str, key_type: Option<KeyType>, all: bool) -> Result<Vec<String>, EditError> {
    edit::remove(location, Some(&password()), name, key_type, all)
}

fn entries(location: &Location) -> Vec<String> {
    let Ok(store) = Store::load(location, Some(&password()), None) else { return Vec::new() };
    let mut found: Vec<String> = store
        .entries
        .iter()
        .map(|entry| format!("{} {:?}", entry.names.join(" "), entry.identity.key_type()))
        .collect();
    found.sort();
    found
}

/// Everything in a folder or file, to see that nothing changed.
fn content(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), std::fs::read(path).unwrap())];
    }
    let Ok(files) = std::fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<_> = files
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn pairs_come_and_go_in_every_kind_of_store() {
    for (_folder, location) in places() {
        let (ec, rsa) = (new_pair(&EC, &["a.example"], GOOD), new_pair(&RSA, &["a.example"], GOOD));
        add(&location, "a.example", &ec, false).unwrap();
        add(&location, "A.Example", &rsa, false).unwrap();
        add(&location, "default", &new_pair(&EC, &[], GOOD), false).unwrap();
        assert_eq!(entries(&location), ["a.example Ecdsa", "a.example Rsa", "default Ecdsa"], "{location:?}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        if location.path().is_dir() {
            assert_eq!(mode(location.path()), 0o700);
            let names: Vec<String> = content(location.path()).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["a.example.ecdsa.pem", "a.example.rsa.pem", "default.ecdsa.pem"]);
            assert_eq!(mode(&location.path().join("a.example.rsa.pem")), 0o600);
        } else {
            assert_eq!(mode(location.path()), 0o600);
        }
        assert_eq!(remove(&location, "a.example", Some(KeyType::Rsa), false).unwrap().len(), 1);
        assert_eq!(entries(&location), ["a.example Ecdsa", "default Ecdsa"], "{location:?}");
        assert!(matches!(remove(&location, "a.example", Some(KeyType::Rsa), false), Err(EditError::NotFound(_))));
        remove(&location, "a.example", None, false).unwrap();
        assert_eq!(entries(&location), ["default Ecdsa"]);
        remove(&location, "default", None, false).unwrap();
        assert_eq!(entries(&location), Vec::<String>::new());
        add(&location, "a.example", &ec, false).unwrap();
        assert_eq!(entries(&location), ["a.example Ecdsa"], "an emptied store takes pairs again");
    }
}

#[test]
fn overwriting_must_be_asked_for() {
    for (_folder, location) in places() {
        add(&location, "a.example", &new_pair(&EC, &["a.example"], GOOD), false).unwrap();
        let before = content(location.path());
        // Also an older one, which would lose to what is there if both stayed.
        let chain = material::certificate_within(&EC_OTHER, &["a.example"], (2020, 2100));
        let other = new_pair_of(&EC_OTHER, &chain);
        let rejected = add(&location, "a.example", &other, false).unwrap_err();
        assert!(matches!(&rejected, EditError::Exists(text) if text.contains("--overwrite")), "{rejected}");
        assert_eq!(content(location.path()), before);
        add(&location, "a.example", &other, true).unwrap();
        let store = Store::load(&location, Some(&password()), None).unwrap();
        assert_eq!((store.entries.len(), store.warnings.len()), (1, 0));
        assert_ne!(content(location.path()), before);
        let exported = inspect::export(&location, Some(&password()), "a.example", None).unwrap();
        assert_eq!(exported[0].chain, chain);
        assert_eq!(exported[0].key_type, KeyType::Ecdsa);
    }
}

#[test]
fn no_other_name_loses_its_certificate() {
    for (_folder, location) in places() {
        if matches!(location, Location::Jks(_)) {
            continue; // One alias, one name.
        }
        add(&location, "a.example", &new_pair(&EC, &["a.example", "b.example"], (2022, 2122)), false).unwrap();
        let before = content(location.path());
        let rejected =
            add(&location, "a.example", &new_pair(&EC_OTHER, &["a.example"], (2020, 2122)), true).unwrap_err();
        assert!(rejected.to_string().contains("also serves b.example"), "{rejected}");
        let rejected = remove(&location, "a.example", None, false).unwrap_err();
        assert!(rejected.to_string().contains("--all-names"), "{rejected}");
        assert_eq!(content(location.path()), before);
        if matches!(location, Location::Pkcs12(_)) {
            let notes = add(&location, "a.example", &new_pair(&EC_OTHER, &["a.example"], (2023, 2122)), true).unwrap();
            assert!(notes.iter().any(|note| note.contains("stays, because it also serves b.example")), "{notes:?}");
            assert_eq!(entries(&location), ["a.example Ecdsa", "b.example Ecdsa"]);
        }
        remove(&location, "b.example", None, true).unwrap();
    }
}

#[test]
fn the_name_must_suit_the_certificate_where_that_gives_the_names() {
    let pair = new_pair(&EC, &["*.a.example"], GOOD);
    for (_folder, location) in places() {
        add(&location, "www.a.example", &pair, false).unwrap();
        let other = add(&location, "b.example", &pair, false);
        match location {
            Location::Jks(_) => {
                assert!(other.unwrap()[0].contains("clients will reject it for b.example"));
                assert_eq!(entries(&location), ["b.example Ecdsa", "www.a.example Ecdsa"]);
            }
            _ => {
                assert!(matches!(other, Err(EditError::Rejected(_))));
                assert_eq!(entries(&location), ["*.a.example Ecdsa"]);
            }
        }
        assert!(matches!(add(&location, "not a host", &pair, false), Err(EditError::Rejected(_))));
    }
}

#[test]
fn a_wrong_password_changes_nothing() {
    for (_folder, location) in places() {
        let pair = new_pair(&EC, &["a.example"], GOOD);
        add(&location, "a.example", &pair, false).unwrap();
        if location.path().is_dir() {
            continue;
        }
        let before = content(location.path());
        let rsa = new_pair(&RSA, &["a.example"], GOOD);
        for wrong in [None, Some(Password::new("wrong!".to_owned()))] {
            let rejected = edit::add(&location, wrong.as_ref(), "a.example", &rsa, AddOptions::default());
            assert!(matches!(rejected, Err(EditError::Store(_))), "{rejected:?}");
            assert!(edit::remove(&location, wrong.as_ref(), "a.example", None, false).is_err());
        }
        assert_eq!(content(location.path()), before);
    }
    for (_folder, location) in places() {
        let short = Password::new(String::new());
        let made = edit::add(
            &location,
            Some(&short),
            "a.example",
            &new_pair(&EC, &["a.example"], GOOD),
            AddOptions::default(),
        );
        assert_eq!(made.is_ok(), matches!(location, Location::PemFolder(_)), "a new file needs a password");
    }
}

#[test]
fn damaged_stores_are_left_alone() {
    for (folder, location) in places() {
        let pair = new_pair(&EC, &["a.example"], GOOD);
        let path = location.path();
        match location {
            Location::PemFolder(_) => std::fs::write(path, "a file is in the way").unwrap(),
            _ => {
                add(&location, "a.example", &pair, false).unwrap();
                let mut bytes = std::fs::read(path).unwrap();
                bytes.truncate(bytes.len() / 2);
                std::fs::write(path, bytes).unwrap();
            }
        }
        let before = content(path);
        assert!(add(&location, "default", &pair, true).is_err());
        assert!(remove(&location, "a.example", None, true).is_err());
        assert_eq!(content(path), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }
}

#[test]
fn hand_made_folders_are_edited_with_care() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::PemFolder(folder.path().to_owned());
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // Two pairs in one file: neither can be taken out.
    write("both.pem", &(material::pair(&EC, &["a.example"]) + &material::pair(&RSA, &["a.example"])));
    let rejected = remove(&location, "a.example", Some(KeyType::Rsa), false).unwrap_err();
    assert!(rejected.to_string().contains("by hand"), "{rejected}");
    // All of the file goes: that is possible.
    remove(&location, "a.example", None, false).unwrap();
    assert_eq!(content(folder.path()), []);
    // A key that two certificates share, and lies there twice, stays until the second goes.
    write("a.crt", &material::certificate(&EC, &["a.example"]));
    write("b.crt", &material::certificate(&EC, &["b.example"]));
    write("k.key", &material::key(&EC));
    write("copy.key", &material::key(&EC));
    remove(&location, "a.example", None, false).unwrap();
    assert_eq!(entries(&location), ["b.example Ecdsa"]);
    remove(&location, "b.example", None, false).unwrap();
    assert_eq!(content(folder.path()), []);
    // A file of our own name that holds something else is not overwritten.
    write("c.example.ecdsa.pem", &material::pair(&RSA, &["d.example"]));
    let rejected = add(&location, "c.example", &new_pair(&EC, &["c.example"], GOOD), true).unwrap_err();
    assert!(rejected.to_string().contains("is in the way"), "{rejected}");
}

#[test]
fn a_given_pair_is_checked_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("c"), folder.path().join("k"));
    let check = |certificate_text: &str, key_text: &str, expected: &[&str]| {
        std::fs::write(&certificate, certificate_text).unwrap();
        std::fs::write(&key, key_text).unwrap();
        let error = NewPair::read(&certificate, &key, None).map(|_| ()).unwrap_err();
        assert_eq!(error.problems.len(), expected.len(), "{error}");
        for (problem, expected) in error.problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}\ndoes not contain\n{expected}");
        }
    };
    let (good, good_key) = (material::certificate(&EC, &["a.example"]), material::key(&EC));
    check(&good, &material::key(&EC_OTHER), &["does not belong to the certificate"]);
    check(&material::certificate_within(&EC, &["a.example"], (2000, 2010)), &good_key, &["expired on 2010-01-01"]);
    check("", &good_key, &["holds no PEM certificate"]);
    check(&good, &good, &["must hold exactly one PEM private key"]);
    check(&good, &(good_key.clone() + &good_key), &["must hold exactly one PEM private key"]);
    check("-----BEGIN X-----", "-----BEGIN Y-----", &["c: line 1", "k: line 1"]);
    assert!(NewPair::read(Path::new("/nonexistent/c"), Path::new("/nonexistent/k"), None).is_err());
}

#[test]
fn checking_finds_what_loading_lets_pass() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::PemFolder(folder.path().to_owned());
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("good.pem", &material::pair(&EC, &["a.example"]));
    let found = inspect::check(&location, None);
    assert_eq!((found.problems.len(), found.warnings.len()), (0, 0), "the only certificate is the default: {found:?}");
    write("other.pem", &material::pair(&EC_OTHER, &["c.example"]));
    let found = inspect::check(&location, None);
    assert_eq!((found.problems.len(), found.warnings.len()), (0, 1), "{found:?}");
    assert!(found.warnings[0].contains("has no `default`"));
    std::fs::remove_file(folder.path().join("other.pem")).unwrap();
    write("default.pem", &(material::certificate_within(&EC, &[], (2000, 2010)) + &material::key(&EC)));
    // An RSA key with a wrong private number: its public half still pairs it.
    let mut der = RSA.serialize_der();
    let at = der.len() - 400;
    der[at] ^= 1;
    let key = keystore::pem::write(&keystore::pem::Label::PrivateKey, &der);
    write("rsa.pem", &(material::certificate(&RSA, &["b.example"]) + &key));
    assert_eq!(entries(&location).len(), 3);
    let found = inspect::check(&location, None);
    assert_eq!((found.problems.len(), found.warnings.len()), (2, 0), "{found:?}");
    assert!(
        found.problems[0].contains("expired on 2010-01-01")
            && found.problems[1].contains("rsa.pem: private key damaged")
    );
    assert_eq!(inspect::inspect(&location, None).problems, Vec::<String>::new());
}
