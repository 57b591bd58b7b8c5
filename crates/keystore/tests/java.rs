//! Java keystores and PKCS#12 files: what keytool and openssl write is read, what we write they read, and so is what SillyProxy writes.

use crate::material;

use std::path::{Path, PathBuf};
use std::process::Command;

use keystore::edit::{self, AddOptions, EditError, NewPair};
use keystore::jks::{self, Certificate, Content, Entry, Keystore, PasswordBytes};
use keystore::{LoadError, Location, Password, Store};
use tempfile::TempDir;

use material::{EC, EC_OTHER, ED25519, GOOD, RSA};

const PASSWORD: &str = "changeit";

fn password() -> Password {
    Password::new(PASSWORD.to_owned())
}

fn load(path: &Path) -> Result<Store, LoadError> {
    Store::load(&Location::detect(path).expect("the file tells what it is"), Some(&password()), None)
}

/// Names and key types of the entries, sorted.
fn entries(store: &Store) -> Vec<String> {
    let mut found: Vec<String> = store
        .entries
        .iter()
        .map(|entry| format!("{} / {:?}", entry.names.join(" "), entry.identity.key_type()))
        .collect();
    found.sort();
    found
}

fn run(program: &str, folder: &Path, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program} must be installed: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {text}");
    text
}

/// A store file as SillyProxy writes it: PEM text as keys, odd certificate types.
fn sillyproxy_store(entries: &[(&str, &str, Vec<u8>)]) -> Vec<u8> {
    let form = PasswordBytes::sillyproxy(PASSWORD);
    let entries = entries.iter().map(|(alias, key, certificate)| Entry {
        alias: alias.as_bytes().to_vec(),
        created_ms: 1_600_000_000_000,
        content: Content::Key {
            protected: form.protect_key(key.as_bytes()).unwrap(),
            chain: vec![Certificate {
                kind: format!("1st Certificate in {alias}").into_bytes(),
                der: certificate.clone(),
            }],
        },
    });
    form.encode(&Keystore { entries: entries.collect() }).unwrap()
}

fn written(name: &str, content: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

#[test]
fn stores_of_sillyproxy_load_with_their_aliases() {
    let rsa_key = material::key(&RSA);
    let with_parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n".to_owned()
        + &material::key(&EC);
    let content = sillyproxy_store(&[
        ("a.example:ECDSA", &with_parameters, material::certificate_der(&EC, &["a.example", "b.example"], GOOD)),
        ("A.example:RSA", &rsa_key, material::certificate_der(&RSA, &["a.example"], GOOD)),
        ("default:RSA", &rsa_key, material::certificate_der(&RSA, &["c.example"], GOOD)),
        (
            "default.example.com:ECDSA",
            &material::key(&EC),
            material::certificate_der(&EC, &["default.example.com"], GOOD),
        ),
        ("other.example:ECDSA", &material::key(&EC), material::certificate_der(&EC, &["d.example"], GOOD)),
        ("wrong.example:RSA", &material::key(&EC), material::certificate_der(&EC, &["wrong.example"], GOOD)),
    ]);
    let (_folder, path) = written("keys", &content);
    let store = load(&path).unwrap();
    assert_eq!(
        entries(&store),
        [
            "a.example / Ecdsa",
            "a.example / Rsa",
            "default / Rsa",
            "default.example.com / Ecdsa",
            "other.example / Ecdsa",
            "wrong.example / Ecdsa"
        ]
    );
    assert_eq!(store.warnings.len(), 2, "{:#?}", store.warnings);
    assert!(store.warnings[0].contains("is not good for other.example"));
    assert!(store.warnings[1].contains("the alias says Rsa"));
}

#[test]
fn what_is_wrong_with_a_java_keystore_is_reported_at_once() {
    let key = material::key(&EC);
    let good = material::certificate_der(&EC, &["a.example"], GOOD);
    let content = sillyproxy_store(&[
        (
            "a.example:ECDSA",
            "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n",
            good.clone(),
        ),
        ("b.example:ECDSA", &material::key(&EC_OTHER), good.clone()),
        ("c.example:ECDSA", &key, b"no certificate".to_vec()),
        ("d.example:ECDSA", "no key", good.clone()),
    ]);
    let (_folder, path) = written("store.jks", &content);
    let error = load(&path).map(|store| entries(&store)).unwrap_err();
    for (problem, expected) in error.problems.iter().zip([
        "alias a.example:ECDSA: its key, as PEM text, has no private key",
        "alias b.example:ECDSA: the key (ECDSA P-384) does not belong to the certificate",
        "alias c.example:ECDSA: certificate 1 of its chain",
        "alias d.example:ECDSA: its key: private key damaged",
    ]) {
        assert!(problem.contains(expected), "{problem}\ndoes not contain\n{expected}");
    }
    assert_eq!(error.problems.len(), 4);

    let content = sillyproxy_store(&[("a.example:ECDSA", &key, good)]);
    let problem = |content: &[u8], password: Option<&str>| {
        let (_folder, path) = written("store.jks", content);
        let password = password.map(|text| Password::new(text.to_owned()));
        Store::load(&Location::Jks(path), password.as_ref(), None).map(|_| ()).map_err(|error| error.to_string())
    };
    let check = |content: &[u8], password, expected: &str| {
        let found = problem(content, password).unwrap_err();
        assert!(found.contains(expected), "{found}\ndoes not contain\n{expected}");
    };
    assert_eq!(problem(&content, Some(PASSWORD)), Ok(()));
    check(&content, Some("wrong1"), "wrong password");
    check(&content, None, "needs its password");
    let mut changed = content.clone();
    changed[20] ^= 1;
    check(&changed, Some(PASSWORD), "the password is right, but the content was changed");
    check(&content[..200], Some(PASSWORD), "damaged at byte");
    check(b"", None, "empty");
    check(b"\xce\xce\xce\xce", None, "JCEKS");
    check(b"-----BEGIN CERTIFICATE-----", None, "PEM text");
    check(b"MZ", None, "neither a Java keystore nor");
    for length in (0..content.len()).step_by(11) {
        assert!(problem(&content[..length], Some(PASSWORD)).is_err(), "cut to {length}");
    }
}

/// Makes two pairs and a trusted certificate with keytool, in a store of this type.
fn keytool_store(folder: &Path, store_type: &str) -> PathBuf {
    let common = format!("-keystore store -storetype {store_type} -storepass {PASSWORD}");
    let generate = format!("-genkeypair {common} -keypass {PASSWORD} -validity 3650");
    run(
        "keytool",
        folder,
        &format!(
            "{generate} -alias default -keyalg EC -groupname secp256r1 -dname CN=x -ext san=dns:a.example,dns:b.example"
        ),
    );
    run(
        "keytool",
        folder,
        &format!("{generate} -alias mykey -keyalg RSA -keysize 2048 -dname CN=y -ext san=dns:C.example"),
    );
    run("keytool", folder, &format!("-exportcert {common} -alias mykey -file trusted.der"));
    run("keytool", folder, &format!("-importcert -noprompt {common} -alias trusted -file trusted.der"));
    folder.join("store")
}

#[test]
fn stores_of_keytool_load() {
    for (store_type, expected) in [
        ("jks", ["c.example / Rsa", "default / Ecdsa"]),
        ("pkcs12", ["a.example b.example default / Ecdsa", "c.example / Rsa"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = load(&keytool_store(folder.path(), store_type)).unwrap();
        assert_eq!(entries(&store), expected, "{store_type}");
        assert_eq!(store.warnings.len(), 1, "{:#?}", store.warnings);
        assert!(store.warnings[0].contains("trusted certificate"));
    }
}

/// A pair as the operator gives it.
fn new_pair(key: &rcgen::KeyPair, chain: &str) -> NewPair {
    let folder = tempfile::tempdir().unwrap();
    let (chain_file, key_file) = (folder.path().join("chain"), folder.path().join("key"));
    std::fs::write(&chain_file, chain).unwrap();
    std::fs::write(&key_file, material::key(key)).unwrap();
    NewPair::read(&chain_file, &key_file, None).unwrap()
}

#[test]
fn keytool_reads_what_we_write() {
    for name in ["store.jks", "store.p12"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let location = Location::detect(&path).unwrap();
        let add = |name: &str, pair: &NewPair| {
            edit::add(&location, Some(&password()), name, pair, AddOptions::default()).unwrap();
        };
        add("A.example", &new_pair(&EC, &material::chain(&EC, &["a.example"], "root")));
        add("a.example", &new_pair(&RSA, &material::certificate(&RSA, &["a.example"])));
        add("default", &new_pair(&ED25519, &material::certificate(&ED25519, &[])));
        assert_eq!(entries(&load(&path).unwrap()), ["a.example / Ecdsa", "a.example / Rsa", "default / Ed25519"]);

        let listed = run("keytool", folder.path(), &format!("-list -v -keystore {name} -storepass {PASSWORD}"));
        assert_eq!(listed.matches("Entry type: PrivateKeyEntry").count(), 3, "{listed}");
        assert!(
            listed.contains("Alias name: a.example:ecdsa") && listed.contains("Certificate chain length: 2"),
            "{listed}"
        );
        let exported = run(
            "keytool",
            folder.path(),
            &format!("-exportcert -rfc -alias a.example:rsa -keystore {name} -storepass {PASSWORD}"),
        );
        assert!(exported.contains("BEGIN CERTIFICATE"));
        // Opens the keys, which -list does not, and gives them to openssl.
        run(
            "keytool",
            folder.path(),
            &format!(
                "-importkeystore -srckeystore {name} -srcstorepass {PASSWORD} -destkeystore out.p12 -deststoretype pkcs12 -deststorepass {PASSWORD} -noprompt"
            ),
        );
        let shown = run("openssl", folder.path(), &format!("pkcs12 -in out.p12 -nodes -passin pass:{PASSWORD}"));
        assert_eq!(shown.matches("BEGIN PRIVATE KEY").count(), 3);
        assert_eq!(entries(&load(&folder.path().join("out.p12")).unwrap()).len(), 3);
    }
}

#[test]
fn containers_of_openssl_load_and_ours_are_read_by_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.pem"), material::chain(&EC, &["a.example"], "root") + &material::key(&EC))
        .unwrap();
    for (options, expected) in [
        ("", "a.example / Ecdsa"),
        (" -name default", "a.example default / Ecdsa"),
        (" -name default.example", "a.example / Ecdsa"),
        (" -legacy", "a.example / Ecdsa"),
    ] {
        run(
            "openssl",
            folder.path(),
            &format!("pkcs12 -export -in all.pem -out a.p12 -passout pass:{PASSWORD}{options}"),
        );
        assert_eq!(entries(&load(&folder.path().join("a.p12")).unwrap()), [expected], "{options}");
    }
    let wrong = Password::new("wrong".to_owned());
    let location = Location::Pkcs12(folder.path().join("a.p12"));
    for (password, expected) in [(Some(&wrong), "wrong password"), (None, "needs a password")] {
        let error = Store::load(&location, password, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    run("openssl", folder.path(), "pkcs12 -export -in all.pem -out open.p12 -passout pass:");
    Store::load(&Location::Pkcs12(folder.path().join("open.p12")), None, None).unwrap();

    let pair = new_pair(&RSA, &material::certificate(&RSA, &["b.example"]));
    edit::add(&location, Some(&password()), "b.example", &pair, AddOptions::default()).unwrap();
    let shown = run("openssl", folder.path(), &format!("pkcs12 -in a.p12 -nodes -passin pass:{PASSWORD}"));
    assert_eq!((shown.matches("BEGIN PRIVATE KEY").count(), shown.matches("BEGIN CERTIFICATE").count()), (2, 3));
    let info = run("openssl", folder.path(), &format!("pkcs12 -in a.p12 -info -noout -passin pass:{PASSWORD}"));
    assert!(info.contains("AES-256-CBC") && !info.contains("RC2"), "{info}");
}

#[test]
fn a_store_for_sillyproxy_is_in_its_form_and_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Jks(folder.path().join("store.jks"));
    let sillyproxy = AddOptions { sillyproxy: true, overwrite: false };
    let chain = material::chain(&EC, &["a.example"], "root");
    edit::add(&location, Some(&password()), "a.example", &new_pair(&EC, &chain), sillyproxy).unwrap();
    let rsa = new_pair(&RSA, &material::certificate(&RSA, &["a.example"]));
    edit::add(&location, Some(&password()), "default", &rsa, AddOptions::default()).unwrap();
    let file = std::fs::read(location.path()).unwrap();
    let keystore = jks::parse(&file).unwrap();
    let form = PasswordBytes::sillyproxy(PASSWORD);
    let mut kinds = Vec::new();
    for entry in &keystore.entries {
        let Content::Key { protected, chain } = &entry.content else { panic!("keys only") };
        assert!(form.open_key(protected).unwrap().starts_with(b"-----BEGIN PRIVATE KEY-----\n"));
        kinds.extend(chain.iter().map(|certificate| String::from_utf8(certificate.kind.clone()).unwrap()));
    }
    assert_eq!(
        kinds,
        ["1st Certificate in a.example:ECDSA", "2nd Certificate in a.example:ECDSA", "1st Certificate in default:RSA"]
    );
    assert_eq!(entries(&load(location.path()).unwrap()), ["a.example / Ecdsa", "default / Rsa"]);

    let ed25519 = new_pair(&ED25519, &material::certificate(&ED25519, &["e.example"]));
    let rejected = edit::add(&location, Some(&password()), "e.example", &ed25519, sillyproxy);
    assert!(matches!(rejected, Err(EditError::Rejected(_))));
    let java = Location::Jks(folder.path().join("java.jks"));
    edit::add(&java, Some(&password()), "a.example", &rsa, AddOptions::default()).unwrap();
    let rejected = edit::add(&java, Some(&password()), "b.example", &rsa, sillyproxy).unwrap_err();
    assert!(rejected.to_string().contains("SillyProxy crashes"), "{rejected}");
}
