//! Keys, the requests that are signed with them, and what comes back: the chain that an authority issued, looked at before it is kept.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::CertificateIdentifier;
use keystore::pem::{self, Label};
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PublicKeyData, SignatureAlgorithm, SigningKey,
};
use tls::crypto::public_key::key_bits;
use tls::crypto::{Certificate, PrivateKey, digest};
use tls::{Identity, KeyType};
use zeroize::Zeroizing;

use crate::schedule::Validity;
use crate::wanted::{Subject, Wanted};

/// The label of a public key in PEM (RFC 7468 §13).
const PUBLIC_KEY: &str = "PUBLIC KEY";

/// Certificates in a chain.
const MAX_CHAIN: usize = 10;

/// Largest chain, bytes of DER without the leaf: OpenSSL's clients take 100 KiB in all.
const MAX_CHAIN_BYTES: usize = 64 * 1024;

/// How far the clock of an authority may be ahead of ours.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// A key of an order, as it is kept.
pub enum OrderKey {
    /// Itself.
    Here(PrivateKey),
    /// The public half of one that a key server has (RFC 5280 §4.1.2.7).
    Elsewhere(Vec<u8>),
}

impl OrderKey {
    /// Reads what is kept.
    ///
    /// # Errors
    /// It is neither.
    pub fn of_pem(text: &str) -> Result<OrderKey, String> {
        let unreadable = |error: String| format!("our key cannot be read: {error}");
        let blocks = pem::read(text.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
        let block = blocks.first().ok_or_else(|| unreadable("it is none".to_owned()))?;
        if block.label == Label::Other(PUBLIC_KEY.to_owned()) {
            return Ok(OrderKey::Elsewhere(block.der.to_vec()));
        }
        PrivateKey::from_der(&block.der).map(OrderKey::Here).map_err(|error| unreadable(error.to_string()))
    }

    /// Its public half.
    pub fn public_spki_der(&self) -> &[u8] {
        match self {
            OrderKey::Here(key) => key.public_spki_der(),
            OrderKey::Elsewhere(spki) => spki,
        }
    }
}

/// Whether a key that is kept is at a key server.
pub fn is_elsewhere(text: &str) -> bool {
    matches!(OrderKey::of_pem(text), Ok(OrderKey::Elsewhere(_)))
}

/// What is kept of a key that a key server has.
pub fn public_pem(spki: &[u8]) -> Zeroizing<String> {
    pem::write(&Label::Other(PUBLIC_KEY.to_owned()), spki)
}

/// The same of the key of the first certificate in a file.
pub fn public_half(text: &[u8]) -> Option<Zeroizing<String>> {
    let leaf = Certificate::from_der(&first_certificate(text)?).ok()?;
    Some(public_pem(leaf.public_spki_der()))
}

/// Whether a file holds a private key.
pub fn holds_private_key(text: &[u8]) -> bool {
    pem::read(text).is_ok_and(|blocks| blocks.iter().any(|block| block.label.is_private_key()))
}

/// The request for a certificate (PKCS#10, DER).
///
/// # Errors
/// The key cannot be read, or a name cannot stand in a certificate.
pub fn request(wanted: &Wanted, key_pem: &str) -> Result<Vec<u8>, String> {
    let key = KeyPair::from_pem(key_pem).map_err(|error| unmade(&error))?;
    Ok(parameters(wanted)?.serialize_request(&key).map_err(|error| unmade(&error))?.der().to_vec())
}

/// What a request must have signed whose key is elsewhere: with SHA-256, by RSA PKCS#1 v1.5 or ECDSA.
///
/// # Errors
/// As [`request`].
pub fn to_be_signed(wanted: &Wanted, spki: &[u8]) -> Result<Vec<u8>, String> {
    let signer = Signer { wanted, bits: bits(spki)?, signature: &[], message: RefCell::default() };
    parameters(wanted)?.serialize_request(&signer).map_err(|error| unmade(&error))?;
    Ok(signer.message.into_inner())
}

/// The request for a certificate (PKCS#10, DER), signed elsewhere.
///
/// # Errors
/// As [`request`].
pub fn signed_request(wanted: &Wanted, spki: &[u8], signature: &[u8]) -> Result<Vec<u8>, String> {
    let signer = Signer { wanted, bits: bits(spki)?, signature, message: RefCell::default() };
    Ok(parameters(wanted)?.serialize_request(&signer).map_err(|error| unmade(&error))?.der().to_vec())
}

fn parameters(wanted: &Wanted) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(wanted.names()).map_err(|error| unmade(&error))?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

fn bits(spki: &[u8]) -> Result<&[u8], String> {
    key_bits(spki).map_err(|error| format!("the public half of our key cannot be read: {error}"))
}

fn unmade(error: &rcgen::Error) -> String {
    format!("the request cannot be made: {error}")
}

/// A key that is elsewhere, for a library that waits for nobody: gives the signature that there is, and notes what it is for.
struct Signer<'a> {
    wanted: &'a Wanted,
    bits: &'a [u8],
    signature: &'a [u8],
    message: RefCell<Vec<u8>>,
}

impl PublicKeyData for Signer<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self.wanted.key_type {
            KeyType::Rsa => &rcgen::PKCS_RSA_SHA256,
            KeyType::Ecdsa | KeyType::Ed25519 => &rcgen::PKCS_ECDSA_P256_SHA256,
        }
    }
}

impl SigningKey for Signer<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.message.replace(message.to_vec());
        Ok(self.signature.to_vec())
    }
}

/// The certificate to present in a handshake of a challenge (RFC 8737 §3): for that name alone, with the digest of the key authorization.
///
/// # Errors
/// The library could not make it.
pub fn proof(name: &str, digest: &[u8]) -> Result<Arc<Identity>, String> {
    let make = || {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
        Ok::<_, rcgen::Error>((params.self_signed(&key)?.der().to_vec(), Zeroizing::new(key.serialize_der())))
    };
    let (certificate, key) =
        make().map_err(|error| format!("no certificate for the challenge can be made: {error}"))?;
    Ok(Identity::new(vec![certificate], key, KeyType::Ecdsa))
}

/// A certificate that we have.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// When it is valid.
    pub validity: Validity,
    /// The identifier of its issuer's key.
    pub authority_key_id: Vec<u8>,
    /// The content of its serial number.
    pub serial: Vec<u8>,
}

impl Held {
    /// What authorities call it where they say when to renew it (RFC 9773 §4.1); none if it lacks what that is made of.
    pub fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes).into();
        (!self.authority_key_id.is_empty() && !self.serial.is_empty()).then(|| CertificateIdentifier {
            authority_key_identifier: text(&self.authority_key_id),
            serial: text(&self.serial),
        })
    }

    fn of(leaf: &Certificate, der: &[u8]) -> Held {
        Held {
            validity: Validity::new(leaf.not_before(), leaf.not_after(), &digest::sha256(der)),
            authority_key_id: leaf.authority_key_id().to_vec(),
            serial: leaf.serial().to_vec(),
        }
    }
}

/// The first certificate in a file of ours, if it is for what is wanted now.
pub fn held(wanted: &Wanted, text: &[u8]) -> Option<Held> {
    let der = first_certificate(text)?;
    let leaf = Certificate::from_der(&der).ok()?;
    check_names(wanted, &leaf).ok()?;
    Some(Held::of(&leaf, &der))
}

/// Key and chain in a file of ours, to be served, if they are for what is wanted.
pub fn identity(wanted: &Wanted, text: &[u8]) -> Option<Arc<Identity>> {
    let chain = certificates(text).ok()?;
    let leaf = Certificate::from_der(chain.first()?).ok()?;
    check_names(wanted, &leaf).ok()?;
    let key = private_key(std::str::from_utf8(text).ok()?).ok()?;
    if leaf.public_spki_der() != key.public_spki_der() {
        return None;
    }
    Some(Identity::new(chain, key.to_pkcs8_der(), wanted.key_type))
}

/// Looks at a chain that an authority issued for our key: the file to keep (key, if it is here, then chain), and what is in it.
///
/// # Errors
/// It is not what was ordered; says how.
pub fn check(wanted: &Wanted, key_pem: &str, chain: &str) -> Result<(Zeroizing<String>, Held), String> {
    let chain = certificates(chain.as_bytes())?;
    if chain.len() > MAX_CHAIN {
        return Err(format!("the chain has {} certificates, more than {MAX_CHAIN}", chain.len()));
    }
    let Some((der, rest)) = chain.split_first() else { return Err("the response holds no certificate".to_owned()) };
    let leaf = Certificate::from_der(der).map_err(|error| format!("the certificate cannot be read: {error}"))?;
    let key = OrderKey::of_pem(key_pem)?;
    if leaf.public_spki_der() != key.public_spki_der() {
        return Err("the certificate is for another key than ours".to_owned());
    }
    check_names(wanted, &leaf)?;
    if !leaf.is_for_servers() {
        return Err("the certificate is not for servers".to_owned());
    }
    let now = SystemTime::now();
    if leaf.not_after() <= now {
        return Err("the certificate has expired already".to_owned());
    }
    if leaf.not_before() > now + CLOCK_SKEW {
        return Err("the certificate is not valid yet".to_owned());
    }
    let issuers = issuers(&leaf, rest)?;
    let own = match &key {
        OrderKey::Here(key) => Some(pem::write(&Label::PrivateKey, &key.to_pkcs8_der())),
        OrderKey::Elsewhere(_) => None,
    };
    let sent = std::iter::once(der).chain(issuers).map(|der| pem::write(&Label::Certificate, der));
    let blocks: Vec<_> = own.into_iter().chain(sent).collect();
    let mut text = Zeroizing::new(String::new());
    text.reserve_exact(blocks.iter().map(|block| block.len()).sum());
    blocks.iter().for_each(|block| text.push_str(block));
    Ok((text, Held::of(&leaf, der)))
}

/// Those of these certificates that lead from the leaf to its root, in this order. What else an authority sends would be kept for nothing, and a keystore
/// has no place for it.
///
/// # Errors
/// One is no certificate, or they are larger than clients take.
fn issuers<'c>(leaf: &Certificate, rest: &'c [Vec<u8>]) -> Result<Vec<&'c Vec<u8>>, String> {
    let read = |der: &'c Vec<u8>| match Certificate::from_der(der) {
        Ok(certificate) => Ok((der, certificate)),
        Err(error) => Err(format!("a certificate of the chain cannot be read: {error}")),
    };
    let mut rest: Vec<_> = rest.iter().map(read).collect::<Result<_, String>>()?;
    let mut found = Vec::new();
    let mut wanted = Some(leaf.issuer_der().to_vec());
    while let Some(issuer) = wanted.take() {
        let is_it = |(_, one): &(_, Certificate)| one.is_authority() && one.subject_der() == issuer;
        let Some(at) = rest.iter().position(is_it) else { break };
        let (der, certificate) = rest.remove(at);
        wanted = (certificate.issuer_der() != certificate.subject_der()).then(|| certificate.issuer_der().to_vec());
        found.push(der);
    }
    match found.iter().map(|der| der.len()).sum::<usize>() {
        size if size > MAX_CHAIN_BYTES => Err(format!("the chain has {size} bytes, more than {MAX_CHAIN_BYTES}")),
        _ => Ok(found),
    }
}

/// A name that was not ordered would be served from this certificate, too.
fn check_names(wanted: &Wanted, leaf: &Certificate) -> Result<(), String> {
    let names: BTreeSet<String> = leaf.dns_names().iter().map(|name| name.to_ascii_lowercase()).collect();
    let addresses: BTreeSet<IpAddr> = leaf.addresses().iter().copied().collect();
    let is_as_ordered = match &wanted.subject {
        Subject::Name(name) => addresses.is_empty() && names.iter().eq([name]),
        Subject::Addresses(ordered) => names.is_empty() && addresses == *ordered,
    };
    if is_as_ordered {
        return Ok(());
    }
    Err("the certificate has other names than were ordered".to_owned())
}

/// The first certificate in a text, as DER.
pub fn first_certificate(text: &[u8]) -> Option<Vec<u8>> {
    certificates(text).ok()?.into_iter().next()
}

fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let blocks = pem::read(text).map_err(|error| format!("the chain cannot be read: {error}"))?;
    let mut blocks: Vec<_> = blocks.into_iter().filter(|block| block.label == Label::Certificate).collect();
    Ok(blocks.iter_mut().map(|block| std::mem::take(&mut *block.der)).collect())
}

fn private_key(pem: &str) -> Result<PrivateKey, String> {
    let unreadable = |error: String| format!("our key cannot be read: {error}");
    let blocks = pem::read(pem.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
    let block = blocks.iter().find(|block| block.label.is_private_key());
    let block = block.ok_or_else(|| unreadable("it is none".to_owned()))?;
    PrivateKey::from_der(&block.der).map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use keystore::keys::generate;
    use rcgen::{CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa};

    fn wanted(key_type: KeyType) -> Wanted {
        Wanted { subject: Subject::Name("www.example.com".to_owned()), key_type }
    }

    /// What an authority issues for these names and this key.
    fn issued(names: &[&str], key_pem: &str, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let leaf = params.signed_by(&KeyPair::from_pem(key_pem).unwrap(), &issuer).unwrap();
        leaf.pem() + &issuer.pem()
    }

    #[test]
    fn a_chain_is_kept_if_it_is_what_was_ordered() {
        for key_type in [KeyType::Ecdsa, KeyType::Rsa] {
            let (wanted, key) = (wanted(key_type), generate(key_type).unwrap());
            assert!(!request(&wanted, &key).unwrap().is_empty());
            let chain = issued(&["www.example.com"], &key, |_| ());
            let (text, held) = check(&wanted, &key, &chain).unwrap();
            assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
            assert!(text.starts_with("-----BEGIN PRIVATE KEY-----"));
            assert!(!held.serial.is_empty() && held.authority_key_id.len() >= 20, "{held:?}");
            assert_eq!(super::held(&wanted, text.as_bytes()), Some(held));
            assert!(identity(&wanted, text.as_bytes()).is_some());
            let other = Wanted { subject: Subject::Name("other.example.com".to_owned()), key_type };
            assert!(identity(&other, text.as_bytes()).is_none() && identity(&wanted, b"").is_none());
        }
    }

    #[test]
    fn a_request_is_signed_elsewhere_and_nothing_secret_is_kept() {
        for key_type in [KeyType::Ecdsa, KeyType::Rsa] {
            let (wanted, key) = (wanted(key_type), generate(key_type).unwrap());
            let spki = private_key(&key).unwrap().public_spki_der().to_vec();
            let public = public_pem(&spki);
            assert!(is_elsewhere(&public) && !is_elsewhere(&key));
            let message = to_be_signed(&wanted, &spki).unwrap();
            let signature = KeyPair::from_pem(&key).unwrap().sign(&message).unwrap();
            let request = signed_request(&wanted, &spki, &signature).unwrap();
            assert!(request.windows(message.len()).any(|part| part == message), "what was signed is what is sent");
            if key_type == KeyType::Rsa {
                assert_eq!(request, super::request(&wanted, &key).unwrap(), "as if the key were here");
            }
            let chain = issued(&["www.example.com"], &key, |_| ());
            let (text, held) = check(&wanted, &public, &chain).unwrap();
            assert!(text.starts_with("-----BEGIN CERTIFICATE-----") && !holds_private_key(text.as_bytes()));
            assert_eq!(super::held(&wanted, text.as_bytes()), Some(held));
            assert_eq!(public_half(text.as_bytes()), Some(public));
            let other = public_pem(private_key(&generate(key_type).unwrap()).unwrap().public_spki_der());
            assert!(check(&wanted, &other, &chain).unwrap_err().contains("another key"));
        }
        assert!(bits(b"no key").is_err() && OrderKey::of_pem("").is_err());
    }

    /// rcgen writes names that are addresses as such.
    #[test]
    fn addresses_are_those_that_were_ordered() {
        let addresses = |list: &[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        let wanted =
            Wanted { subject: Subject::Addresses(addresses(&["192.0.2.1", "2001:db8::1"])), key_type: KeyType::Ecdsa };
        let key = generate(KeyType::Ecdsa).unwrap();
        assert!(check(&wanted, &key, &issued(&["2001:db8::1", "192.0.2.1"], &key, |_| ())).is_ok());
        for other in [
            &["192.0.2.1"][..],
            &["192.0.2.1", "2001:db8::2"],
            &["192.0.2.1", "2001:db8::1", "192.0.2.9"],
            &["192.0.2.1", "2001:db8::1", "www.example.com"],
        ] {
            let refused = check(&wanted, &key, &issued(other, &key, |_| ())).unwrap_err();
            assert!(refused.contains("other names than were ordered"), "{other:?}: {refused}");
        }
    }

    #[test]
    fn what_was_not_ordered_is_not_kept() {
        let (wanted, key) = (wanted(KeyType::Ecdsa), generate(KeyType::Ecdsa).unwrap());
        let other = generate(KeyType::Ecdsa).unwrap();
        let good = issued(&["www.example.com"], &key, |_| ());
        let cases = [
            (issued(&["www.example.com"], &other, |_| ()), "another key"),
            (issued(&["other.example.com"], &key, |_| ()), "other names"),
            (issued(&["www.example.com", "bank.example"], &key, |_| ()), "other names"),
            (issued(&["*.example.com"], &key, |_| ()), "other names"),
            (issued(&[], &key, |_| ()), "other names"),
            (
                issued(&["www.example.com"], &key, |params| {
                    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                }),
                "not for servers",
            ),
            (
                issued(&["www.example.com"], &key, |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)),
                "expired already",
            ),
            (String::new(), "no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(), "cannot be read"),
            ("-----BEGIN CERTIFICATE-----\n".to_owned(), "cannot be read"),
            (good.repeat(6), "more than 10"),
            (
                format!("{good}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                "of the chain cannot be read",
            ),
            (
                issued(&["www.example.com"], &key, |params| params.not_before = rcgen::date_time_ymd(2090, 1, 1)),
                "not valid yet",
            ),
        ];
        for (chain, why) in cases {
            let problem = check(&wanted, &key, &chain).unwrap_err();
            assert!(problem.contains(why), "{why}: {problem}");
        }
    }

    /// What leads nowhere would keep the whole keystore from being read.
    #[test]
    fn of_a_chain_is_kept_what_leads_upwards() {
        let (wanted, key) = (wanted(KeyType::Ecdsa), generate(KeyType::Ecdsa).unwrap());
        let named = |name: &str, is_ca: bool| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.is_ca = if is_ca { IsCa::Ca(rcgen::BasicConstraints::Unconstrained) } else { IsCa::NoCa };
            params
        };
        let key_pair = || KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(named("root", true), key_pair()).unwrap();
        let middle = CertifiedIssuer::signed_by(named("middle", true), key_pair(), &root).unwrap();
        let stranger = named("stranger", false).signed_by(&key_pair(), &root).unwrap();
        let other_root = CertifiedIssuer::self_signed(named("other", true), key_pair()).unwrap();
        let mut params = CertificateParams::new(vec!["www.example.com".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "leaf");
        let leaf = params.signed_by(&KeyPair::from_pem(&key).unwrap(), &middle).unwrap().pem();
        let sent = [leaf.clone(), root.pem(), stranger.pem(), other_root.pem(), middle.pem()].concat();
        let (text, _) = check(&wanted, &key, &sent).unwrap();
        let kept = [leaf, middle.pem(), root.pem()].concat().replace("\r\n", "\n");
        assert!(text.replace("\r\n", "\n").ends_with(&kept), "{}", *text);
    }

    /// The example of RFC 9773 §4.1.
    #[test]
    fn a_certificate_is_called_by_issuer_and_serial() {
        let issuer = "69:88:5B:6B:87:46:40:41:E1:B3:7B:84:7B:A0:AE:2C:DE:01:C8:D4";
        let bytes = |text: &str| text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect::<Vec<_>>();
        let validity = Validity::new(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH, &[0; 32]);
        let held = Held { validity, authority_key_id: bytes(issuer), serial: bytes("00:87:65:43:21") };
        assert_eq!(held.identifier().unwrap().to_string(), "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE");
        assert_eq!(Held { authority_key_id: Vec::new(), ..held }.identifier(), None);
    }

    #[test]
    fn the_certificate_of_a_challenge_can_be_presented() {
        for name in ["www.example.com", "192.0.2.1", "2001:db8::1"] {
            proof(name, &[7; 32]).unwrap();
        }
    }
}
