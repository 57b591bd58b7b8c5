//! Signatures made by the `openssl` program, checked by every scheme: what is right passes, and nothing else does.

use std::process::Command;

use tls::crypto::Curve;
use tls::crypto::verify::{MacKey, PublicKey, Scheme, Sha2, keyed_hash};

const MESSAGE: &[u8] = b"eyJhbGciOiJub25lIn0.e30";

fn openssl(folder: &std::path::Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A sequence of two numbers as `size` bytes each.
fn raw(signature: &[u8], size: usize) -> Vec<u8> {
    let mut at = if signature[1] & 0x80 == 0 { 2 } else { 3 };
    let mut out = Vec::new();
    for _ in 0..2 {
        let length = usize::from(signature[at + 1]);
        let number = &signature[at + 2..at + 2 + length];
        let digits = number.strip_prefix(&[0]).unwrap_or(number);
        out.extend(vec![0; size - digits.len()]);
        out.extend_from_slice(digits);
        at += 2 + length;
    }
    out
}

fn check(generate: &str, sign: &str, scheme: Scheme, others: &[Scheme]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("message"), MESSAGE).unwrap();
    openssl(folder.path(), &format!("genpkey {generate} -out key"));
    openssl(folder.path(), "pkey -in key -pubout -outform DER -out public");
    openssl(folder.path(), &format!("{sign} -out signature{}", if sign.starts_with("dgst") { " message" } else { "" }));
    let key = PublicKey::from_spki(&std::fs::read(folder.path().join("public")).unwrap()).unwrap();
    let mut signature = std::fs::read(folder.path().join("signature")).unwrap();
    match scheme {
        Scheme::Ecdsa(Curve::P256, _) => signature = raw(&signature, 32),
        Scheme::Ecdsa(Curve::P384, _) => signature = raw(&signature, 48),
        Scheme::Ecdsa(Curve::P521, _) => signature = raw(&signature, 66),
        _ => {}
    }
    assert!(key.verify(scheme, MESSAGE, &signature), "{scheme:?}");
    assert!(!key.verify(scheme, b"another", &signature), "{scheme:?}");
    for at in 0..signature.len() {
        let mut wrong = signature.clone();
        wrong[at] ^= 1;
        assert!(!key.verify(scheme, MESSAGE, &wrong), "{scheme:?}, byte {at}");
    }
    assert!(!key.verify(scheme, MESSAGE, &signature[1..]) && !key.verify(scheme, MESSAGE, &[]), "{scheme:?}");
    for other in others {
        assert!(!key.verify(*other, MESSAGE, &signature), "{scheme:?} as {other:?}");
    }
}

#[test]
fn rsa() {
    use Sha2::{Sha256, Sha384, Sha512};
    let generate = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
    for (name, digest) in [("sha256", Sha256), ("sha384", Sha384), ("sha512", Sha512)] {
        let others = [Scheme::RsaPss(digest), Scheme::Ed25519, Scheme::Ecdsa(Curve::P256, digest)];
        check(generate, &format!("dgst -{name} -sign key"), Scheme::RsaPkcs1(digest), &others);
        let pss = "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest";
        check(generate, &format!("dgst -{name} -sign key {pss}"), Scheme::RsaPss(digest), &[Scheme::RsaPkcs1(digest)]);
    }
    // A salt of another length is another scheme.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("message"), MESSAGE).unwrap();
    openssl(folder.path(), &format!("genpkey {generate} -out key"));
    openssl(folder.path(), "pkey -in key -pubout -outform DER -out public");
    let pss = "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:20";
    openssl(folder.path(), &format!("dgst -sha256 -sign key {pss} -out signature message"));
    let key = PublicKey::from_spki(&std::fs::read(folder.path().join("public")).unwrap()).unwrap();
    let signature = std::fs::read(folder.path().join("signature")).unwrap();
    assert!(!key.verify(Scheme::RsaPss(Sha256), MESSAGE, &signature));
}

#[test]
fn elliptic_curves() {
    use Sha2::{Sha256, Sha384, Sha512};
    for (curve, name, digest, hash) in [
        (Curve::P256, "P-256", Sha256, "sha256"),
        (Curve::P384, "P-384", Sha384, "sha384"),
        (Curve::P521, "P-521", Sha512, "sha512"),
    ] {
        let generate = format!("-algorithm EC -pkeyopt ec_paramgen_curve:{name}");
        let other = if curve == Curve::P256 { Curve::P384 } else { Curve::P256 };
        let others = [Scheme::Ecdsa(other, digest), Scheme::RsaPkcs1(digest), Scheme::Ed25519];
        check(&generate, &format!("dgst -{hash} -sign key"), Scheme::Ecdsa(curve, digest), &others);
    }
    check(
        "-algorithm ED25519",
        "pkeyutl -sign -inkey key -rawin -in message",
        Scheme::Ed25519,
        &[Scheme::RsaPkcs1(Sha256)],
    );
}

#[test]
fn weak_and_broken_keys_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    openssl(folder.path(), "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 -out key");
    openssl(folder.path(), "pkey -in key -pubout -outform DER -out public");
    assert!(PublicKey::from_spki(&std::fs::read(folder.path().join("public")).unwrap()).is_err());
    assert!(PublicKey::from_spki(b"").is_err());
    assert!(PublicKey::from_ec(Curve::P256, &[1; 32], &[1; 32]).is_err());
    assert!(PublicKey::from_ec(Curve::P256, &[1; 31], &[1; 32]).is_err());
    assert!(PublicKey::from_ed25519(&[0; 31]).is_err());
    assert!(PublicKey::from_rsa(&[0xff; 128], &[1, 0, 1]).is_err());
}

#[test]
fn shared_secrets_must_be_as_long_as_the_digest() {
    let long = MacKey::new(vec![7; 64]);
    let mac = long.mac(Sha2::Sha256, MESSAGE).unwrap();
    assert!(long.verify(Sha2::Sha256, MESSAGE, &mac));
    assert!(!long.verify(Sha2::Sha384, MESSAGE, &mac) && !long.verify(Sha2::Sha256, MESSAGE, &mac[1..]));
    let short = MacKey::new(vec![7; 31]);
    assert!(!short.verify(Sha2::Sha256, MESSAGE, &short.mac(Sha2::Sha256, MESSAGE).unwrap()));
    assert_ne!(keyed_hash(&[1; 32], b"a"), keyed_hash(&[2; 32], b"a"));
}
