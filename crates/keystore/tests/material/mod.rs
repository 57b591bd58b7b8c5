//! Keys and certificates for the tests, made in memory: one key of each kind, since making RSA keys is slow.
#![allow(dead_code, unreachable_pub)]

use std::sync::LazyLock;

use keystore::pem::{self, Label};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Years of validity that hold for as long as these tests are likely to run.
pub const GOOD: (i32, i32) = (2022, 2122);

pub static EC: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap());
pub static EC_OTHER: LazyLock<KeyPair> =
    LazyLock::new(|| KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap());
pub static RSA: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap());
pub static ED25519: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap());
static AUTHORITY_KEY: LazyLock<KeyPair> =
    LazyLock::new(|| KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap());

/// Parameters of a certificate for these names, valid from the start of one year to the start of another.
fn parameters(names: &[&str], years: (i32, i32)) -> CertificateParams {
    let mut parameters = CertificateParams::new(names.iter().map(|name| name.to_string()).collect::<Vec<_>>()).unwrap();
    parameters.not_before = date_time_ymd(years.0, 1, 1);
    parameters.not_after = date_time_ymd(years.1, 1, 1);
    parameters.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or("nameless"));
    parameters
}

/// A self-signed certificate, DER.
pub fn certificate_der(key: &KeyPair, names: &[&str], years: (i32, i32)) -> Vec<u8> {
    parameters(names, years).self_signed(key).unwrap().der().to_vec()
}

/// A self-signed certificate, PEM, good now.
pub fn certificate(key: &KeyPair, names: &[&str]) -> String {
    certificate_within(key, names, GOOD)
}

/// A self-signed certificate, PEM, valid from one year to another.
pub fn certificate_within(key: &KeyPair, names: &[&str], years: (i32, i32)) -> String {
    pem::write(&Label::Certificate, &certificate_der(key, names, years)).to_string()
}

/// A private key, PEM.
pub fn key(key: &KeyPair) -> String {
    key.serialize_pem()
}

/// Both, as one file.
pub fn pair(key_pair: &KeyPair, names: &[&str]) -> String {
    certificate(key_pair, names) + &key(key_pair)
}

fn authority_parameters(name: &str) -> CertificateParams {
    let mut parameters = parameters(&[], GOOD);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

/// An authority's own certificate, PEM.
pub fn authority(name: &str) -> String {
    let made = authority_parameters(name).self_signed(&*AUTHORITY_KEY).unwrap();
    pem::write(&Label::Certificate, made.der()).to_string()
}

/// The authority's key, PEM.
pub fn authority_key() -> String {
    AUTHORITY_KEY.serialize_pem()
}

/// A chain of two that the authority of that name issued, PEM: the leaf, and the intermediate certificate after it.
pub fn chain(key: &KeyPair, names: &[&str], authority: &str) -> String {
    let root = Issuer::new(authority_parameters(authority), &*AUTHORITY_KEY);
    let middle_name = format!("{authority} intermediate");
    let middle = authority_parameters(&middle_name).signed_by(&*AUTHORITY_KEY, &root).unwrap();
    let issuer = Issuer::new(authority_parameters(&middle_name), &*AUTHORITY_KEY);
    let leaf = parameters(names, GOOD).signed_by(key, &issuer).unwrap();
    [leaf.der(), middle.der()].map(|der| pem::write(&Label::Certificate, der).to_string()).concat()
}
