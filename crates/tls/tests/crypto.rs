//! Certificates, keys and PKCS#12 containers against what the `openssl` program makes and reads.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use tls::KeyType;
use tls::crypto::pkcs12::{self, Contents, Key, Label, LabelledCertificate};
use tls::crypto::{Certificate, Curve, Error, KeyKind, PrivateKey};

/// Runs `openssl` with `input` on its standard input; its standard output.
fn openssl(arguments: &str, input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(arguments.split(' ').map(|argument| argument.replace('~', " ")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    child.stdin.take().unwrap().write_all(input).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

const P256: &str = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256";
const RSA: &str = "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048";

/// Like `openssl`, for commands that read their input more than once: `@` stands for a file that holds it.
fn openssl_file(arguments: &str, input: &[u8]) -> Vec<u8> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("portunus-crypto-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, input).unwrap();
    let output = openssl(&arguments.replace('@', path.to_str().unwrap()), b"");
    std::fs::remove_file(&path).unwrap();
    output
}

fn certificate(key_pem: &[u8], arguments: &str) -> Vec<u8> {
    openssl(&format!("req -x509 -key /dev/stdin -outform DER -days 30 {arguments}"), key_pem)
}

#[test]
fn keys_of_every_kind_and_form_are_one_key() {
    let cases = [
        (RSA, "rsa -traditional", KeyKind::Rsa { bits: 2048 }, Some(KeyType::Rsa)),
        ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024", "rsa -traditional", KeyKind::Rsa { bits: 1024 }, None),
        (P256, "ec", KeyKind::Ec(Curve::P256), Some(KeyType::Ecdsa)),
        (
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384",
            "ec",
            KeyKind::Ec(Curve::P384),
            Some(KeyType::Ecdsa),
        ),
        (
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521",
            "ec",
            KeyKind::Ec(Curve::P521),
            Some(KeyType::Ecdsa),
        ),
        ("genpkey -algorithm ED25519", "", KeyKind::Ed25519, Some(KeyType::Ed25519)),
    ];
    for (generate, traditional, kind, key_type) in cases {
        let pem = openssl(generate, b"");
        let pkcs8 = openssl("pkcs8 -topk8 -nocrypt -outform DER", &pem);
        let spki = openssl("pkey -pubout -outform DER", &pem);
        let mut forms = vec![pkcs8.clone()];
        if !traditional.is_empty() {
            forms.push(openssl(&format!("{traditional} -outform DER"), &pem));
        }
        for form in forms {
            for key in [PrivateKey::from_der(&form).unwrap(), PrivateKey::outline_der(&form).unwrap()] {
                assert_eq!(key.public_spki_der(), spki, "{generate}");
                assert_eq!((key.kind(), key.kind().key_type()), (kind, key_type));
                assert_eq!(PrivateKey::from_der(&key.to_pkcs8_der()).unwrap().public_spki_der(), spki);
            }
            for cut in 0..form.len() {
                assert!(PrivateKey::outline_der(&form[..cut]).is_err(), "{generate} cut to {cut}");
            }
            let longer = [&form[..], b"x"].concat();
            assert_eq!(PrivateKey::from_der(&longer).unwrap_err(), Error::Malformed("bytes after the private key"));
        }
        let certified = Certificate::from_der(&certificate(&pem, "-subj /CN=x")).unwrap();
        assert_eq!((certified.public_spki_der(), certified.kind()), (&spki[..], kind));
    }
}

#[test]
fn wrong_private_numbers_are_found_by_the_full_reading() {
    let mut der = openssl(&format!("{P256} -outform DER"), b"");
    // PKCS#8 of a P-256 key: the 32 private octets begin at 36.
    der[40] ^= 1;
    assert!(matches!(PrivateKey::from_der(&der), Err(Error::Malformed(_))));
    assert!(matches!(PrivateKey::outline_der(&der), Err(Error::Malformed(_))), "cheap for EC, so checked at once");
}

#[test]
fn encrypted_keys_open_with_their_password_only() {
    let pem = openssl(P256, b"");
    let spki = openssl("pkey -pubout -outform DER", &pem);
    for scheme in [
        "-v2 aes-256-cbc",
        "-v2 aes-128-cbc -v2prf hmacWithSHA1",
        "-v2 aes-192-cbc -v2prf hmacWithSHA512",
        "-v2 des3",
        "-v1 PBE-SHA1-3DES",
    ] {
        let sealed = openssl(&format!("pkcs8 -topk8 -passout pass:secret -outform DER {scheme}"), &pem);
        assert_eq!(PrivateKey::from_encrypted_der(&sealed, "secret").unwrap().public_spki_der(), spki, "{scheme}");
        assert_eq!(PrivateKey::from_encrypted_der(&sealed, "Secret").unwrap_err(), Error::WrongPassword, "{scheme}");
        assert_eq!(PrivateKey::from_der(&sealed).unwrap_err(), Error::NeedsPassword);
        for cut in 0..sealed.len() {
            assert!(PrivateKey::from_encrypted_der(&sealed[..cut], "secret").is_err());
        }
    }
    let scrypt = openssl("pkcs8 -topk8 -passout pass:secret -outform DER -scrypt", &pem);
    assert!(matches!(PrivateKey::from_encrypted_der(&scrypt, "secret"), Err(Error::Unsupported(_))));
}

#[test]
fn certificates_say_names_dates_and_role() {
    let pem = openssl(P256, b"");
    let der = certificate(
        &pem,
        "-subj /O=A,~Ltd/CN=ignored.example -addext subjectAltName=DNS:A.example,DNS:*.b.example,IP:192.0.2.1,email:x@y -addext basicConstraints=critical,CA:FALSE",
    );
    let leaf = Certificate::from_der(&der).unwrap();
    assert_eq!(leaf.dns_names(), ["A.example", "*.b.example"]);
    assert_eq!(leaf.subject(), r"CN=ignored.example,O=A\, Ltd");
    assert!(!leaf.is_authority());
    assert_eq!(leaf.subject_der(), leaf.issuer_der(), "self-signed");
    assert_eq!(leaf.not_after().duration_since(leaf.not_before()).unwrap(), Duration::from_secs(30 * 86_400));
    assert!(leaf.not_before() <= SystemTime::now());

    let authority = Certificate::from_der(&certificate(&pem, "-subj /CN=ca")).unwrap();
    assert!(authority.is_authority(), "openssl req makes authorities unless configured otherwise");
    assert!(authority.dns_names().is_empty(), "the common name is not a name");
    assert_ne!(leaf.issuer_der(), authority.subject_der());

    for cut in 0..der.len() {
        assert!(Certificate::from_der(&der[..cut]).is_err());
    }
    let longer = [&der[..], b"x"].concat();
    assert_eq!(Certificate::from_der(&longer), Err(Error::Malformed("bytes after the certificate")));
}

fn sample() -> (Contents, Vec<u8>) {
    let mut contents = Contents::default();
    let mut first_pem = Vec::new();
    for (index, generate) in [P256, RSA].into_iter().enumerate() {
        let pem = openssl(generate, b"");
        let label = Label { friendly_name: Some(format!("näme {index}")), local_key_id: Some(vec![index as u8; 20]) };
        let pkcs8 = PrivateKey::from_der(&openssl("pkcs8 -topk8 -nocrypt -outform DER", &pem)).unwrap().to_pkcs8_der();
        contents.keys.push(Key { pkcs8, label: label.clone() });
        let der = certificate(&pem, "-subj /CN=x");
        contents.certificates.push(LabelledCertificate { der, label, trusted: false });
        first_pem = pem;
    }
    let der = certificate(&first_pem, "-subj /CN=trusted");
    contents.certificates.push(LabelledCertificate { der, label: Label::default(), trusted: true });
    (contents, first_pem)
}

#[test]
fn a_container_of_several_keys_round_trips_and_openssl_reads_it() {
    let (contents, _) = sample();
    for password in ["secret", "", "pässwörd-€"] {
        let sealed = pkcs12::seal(&contents, password).unwrap();
        assert_eq!(pkcs12::open(&sealed, password).unwrap(), contents);
        assert_eq!(pkcs12::open(&sealed, "wrong").unwrap_err(), Error::WrongPassword);
        let shown = openssl(&format!("pkcs12 -in /dev/stdin -nodes -passin pass:{password}"), &sealed);
        let shown = String::from_utf8_lossy(&shown);
        assert_eq!(shown.matches("BEGIN PRIVATE KEY").count(), 2, "{shown}");
        assert_eq!(shown.matches("BEGIN CERTIFICATE").count(), 3, "{shown}");
    }
}

#[test]
fn containers_of_openssl_are_read() {
    let pem = openssl(P256, b"");
    let der = certificate(&pem, "-subj /CN=x");
    let pem_of_both = [&pem[..], &openssl("x509 -inform DER", &der)].concat();
    let spki = openssl("pkey -pubout -outform DER", &pem);
    for options in
        ["", "-keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-3DES -macalg sha1", "-keypbe NONE -certpbe NONE", "-legacy"]
    {
        for password in ["secret", ""] {
            let made = format!("pkcs12 -export -in @ -name default -passout pass:{password} {options}");
            let file = openssl_file(made.trim_end(), &pem_of_both);
            let contents =
                pkcs12::open(&file, password).unwrap_or_else(|error| panic!("{options} {password}: {error}"));
            assert_eq!(contents.keys.len(), 1);
            assert_eq!(PrivateKey::from_der(&contents.keys[0].pkcs8).unwrap().public_spki_der(), spki);
            assert_eq!(contents.keys[0].label.friendly_name.as_deref(), Some("default"));
            assert_eq!(contents.certificates[0].der, der);
            assert_eq!(contents.certificates[0].label, contents.keys[0].label);
            assert_eq!(pkcs12::open(&file, "wrong").unwrap_err(), Error::WrongPassword);
        }
    }
    let unchecked = openssl_file("pkcs12 -export -in @ -nomac -passout pass:x", &pem_of_both);
    assert!(matches!(pkcs12::open(&unchecked, "x"), Err(Error::Unsupported(_))));
}

#[test]
fn damaged_containers_are_rejected_at_every_byte() {
    let pem = openssl(P256, b"");
    let both = [&pem[..], &openssl("x509 -inform DER", &certificate(&pem, "-subj /CN=x"))].concat();
    // One round of key derivation keeps the test quick.
    let file = openssl_file("pkcs12 -export -in @ -passout pass:x -iter 1", &both);
    for at in 0..file.len() {
        assert!(pkcs12::open(&file[..at], "x").is_err(), "cut to {at}");
        let mut changed = file.clone();
        changed[at] ^= 0x40;
        // A change outside the checked content may be harmless, for instance in an ignored parameter; it must not panic.
        let _ = pkcs12::open(&changed, "x");
    }
}
