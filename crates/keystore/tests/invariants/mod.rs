//! What must hold for any input of the Java keystore and PEM readers. Shared by the fuzz targets and by the corpus replay.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unreachable_pub)]

use keystore::ech;
use keystore::jks::{self, Content, PasswordBytes};
use keystore::pem::{self, Label};
use tls::crypto::{Certificate, PrivateKey};

/// The password of the seeds that have one.
const PASSWORD: &str = "changeit";

/// A Java keystore: what is read is bounded by the input, and writes back to what it was.
pub fn jks(input: &[u8]) {
    let Ok(keystore) = jks::parse(input) else { return };
    let held: usize = keystore
        .entries
        .iter()
        .map(|entry| match &entry.content {
            Content::Key { protected, chain } => {
                protected.len() + chain.iter().map(|link| link.der.len()).sum::<usize>()
            }
            Content::Trusted(certificate) => certificate.der.len(),
        })
        .sum();
    assert!(held <= input.len() && keystore.entries.len() <= input.len());

    let form = PasswordBytes::java(PASSWORD);
    let written = form.encode(&keystore).unwrap();
    assert_eq!(jks::parse(&written).unwrap(), keystore);
    assert!(PasswordBytes::find(PASSWORD, &written, &keystore).is_ok());
    let is_version_2 = input[4..8] == [0, 0, 0, 2];
    if is_version_2 {
        assert_eq!(written[..written.len() - 20], input[..input.len() - 20], "there is one way to write a keystore");
        assert_eq!(PasswordBytes::find(PASSWORD, input, &keystore).is_ok(), written == input);
    }
    for entry in &keystore.entries {
        if let Content::Key { protected, .. } = &entry.content
            && let Ok(plain) = form.open_key(protected)
        {
            assert_eq!(form.open_key(&form.protect_key(&plain).unwrap()).unwrap(), plain);
        }
    }
}

/// A file of keys for Encrypted Client Hello: what is read writes back to what reads alike.
pub fn ech(input: &[u8]) {
    let Ok(keys) = ech::of_text(input) else { return };
    assert!((1..=ech::MAX_KEYS).contains(&keys.len()));
    let again = ech::of_text(ech::to_text(&keys).as_bytes()).unwrap();
    let shown = |keys: &[tls::EchKey]| {
        keys.iter().map(|key| (key.config().to_vec(), key.id(), key.public_name().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(shown(&again), shown(&keys));
}

/// PEM text: blocks are bounded by the input, and what they hold reads alike however it is read.
pub fn pem(input: &[u8]) {
    let Ok(blocks) = pem::read(input) else { return };
    assert!(blocks.len() <= pem::MAX_BLOCKS);
    assert!(blocks.iter().map(|block| block.der.len()).sum::<usize>() <= input.len());
    for block in blocks {
        assert!(!block.der.is_empty());
        let written = pem::write(&block.label, &block.der);
        let again = pem::read(written.as_bytes()).unwrap();
        assert_eq!((again.len(), &again[0].label, &again[0].der), (1, &block.label, &block.der));
        match &block.label {
            Label::Certificate => certificate(&block.der),
            Label::EncryptedPrivateKey | Label::EcParameters | Label::Other(_) => {}
            _ => private_key(&block.der),
        }
    }
}

fn certificate(der: &[u8]) {
    let Ok(certificate) = Certificate::from_der(der) else { return };
    assert!(certificate.public_spki_der().len() < der.len());
    for name in certificate.dns_names() {
        // Taking the canonical form twice changes nothing.
        if let Ok(canonical) = keystore::names::canonical(name) {
            assert_eq!(keystore::names::canonical(&canonical).as_deref(), Ok(canonical.as_str()));
            assert!(keystore::names::covers(&canonical, &canonical));
        }
    }
}

fn private_key(der: &[u8]) {
    let (outlined, full) = (PrivateKey::outline_der(der), PrivateKey::from_der(der));
    if let Ok(full) = full {
        // A sound key of a form that the cheap reading rejects would fail at load: there is none but RSA of more than two primes.
        let outlined = outlined.unwrap();
        assert_eq!((outlined.public_spki_der(), outlined.kind()), (full.public_spki_der(), full.kind()));
        assert_eq!(PrivateKey::from_der(&full.to_pkcs8_der()).unwrap().public_spki_der(), full.public_spki_der());
    }
}
