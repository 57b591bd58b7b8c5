//! A certificate authority of our own that is kept: a key (ECDSA P-256), and a name that follows from it, so that no certificate need be read to sign.
//!
//! Where its files lie, and what it certifies for whom, is its owner's business. Ruled by RFC 5280.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, NameConstraints, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
};
use tls::crypto::{Certificate, digest};
use zeroize::Zeroizing;

use crate::dev_ca::Purpose;
use crate::pem::{self, Label};

/// Validity begins so much earlier, since clocks differ.
pub const SKEW: Duration = Duration::from_secs(3600);

/// An authority, ready to sign.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    /// When it ends.
    pub not_after: SystemTime,
}

impl std::fmt::Debug for Authority {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

/// The files of an authority, as PEM.
#[derive(Debug)]
pub struct Files {
    /// Its certificate, for others to trust.
    pub certificate: String,
    /// Its key.
    pub key: Zeroizing<String>,
}

/// What a certificate says.
#[derive(Debug)]
pub struct Leaf {
    /// Its subject alternative names.
    pub names: Vec<SanType>,
    /// Beginning and end of its validity; it does not outlast its authority.
    pub validity: (SystemTime, SystemTime),
    /// What it proves.
    pub purpose: Purpose,
    /// Its serial number; none for one that follows from its key.
    pub serial: Option<Vec<u8>>,
}

/// A public key on P-256: an uncompressed point.
#[derive(Debug)]
pub struct Point<'a>(pub &'a [u8; 65]);

impl PublicKeyData for Point<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// A host name, and never an address, as a certificate says it.
///
/// # Errors
/// It is none that could stand there.
pub fn dns_name(name: &str) -> Result<SanType, String> {
    let name =
        name.try_into().map_err(|error: rcgen::Error| format!("{name:?} cannot stand in a certificate: {error}"))?;
    Ok(SanType::DnsName(name))
}

impl Authority {
    /// A new one that is called so, and its files. It is believed for the names of `constraints` alone, if there are any.
    ///
    /// # Errors
    /// The library could not make it.
    pub fn make(
        called: &str,
        constraints: Option<NameConstraints>,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<(Authority, Files), String> {
        let failed = |error: rcgen::Error| format!("no authority can be made: {error}");
        let key = KeyPair::generate().map_err(failed)?;
        let not_after = now.checked_add(lifetime).unwrap_or(now);
        let mut params = parameters(name_of(called, &key), (now.checked_sub(SKEW).unwrap_or(now), not_after));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.name_constraints = constraints;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        let files = Files { certificate, key: Zeroizing::new(key.serialize_pem()) };
        Ok((Authority { params, key, not_after }, files))
    }

    /// That of files, as it was made under this name.
    ///
    /// # Errors
    /// One cannot be read, or they do not belong together.
    pub fn kept(called: &str, certificate: &str, key: &str) -> Result<Authority, String> {
        let key = KeyPair::from_pem(key).map_err(|error| format!("the key cannot be read: {error}"))?;
        let blocks = pem::read(certificate.as_bytes()).map_err(|error| error.to_string());
        let block = blocks.and_then(|blocks| {
            let first = blocks.into_iter().find(|block| block.label == Label::Certificate);
            first.ok_or_else(|| "there is none".to_owned())
        });
        let read = block.and_then(|block| Certificate::from_der(&block.der).map_err(|error| error.to_string()));
        let certificate = read.map_err(|error| format!("the certificate cannot be read: {error}"))?;
        if certificate.public_spki_der() != key.subject_public_key_info() {
            return Err("key and certificate do not belong together".to_owned());
        }
        let not_after = certificate.not_after();
        let mut params = parameters(name_of(called, &key), (certificate.not_before(), not_after));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Authority { params, key, not_after })
    }

    /// A certificate for a key, and the names and times of `leaf`.
    ///
    /// # Errors
    /// The library could not make it.
    pub fn certify(&self, leaf: &Leaf, key: &impl PublicKeyData) -> Result<rcgen::Certificate, String> {
        let (not_before, not_after) = leaf.validity;
        let mut params = parameters(DistinguishedName::new(), (not_before, not_after.min(self.not_after)));
        params.subject_alt_names.clone_from(&leaf.names);
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![leaf.purpose.usage()];
        params.serial_number = leaf.serial.clone().map(SerialNumber::from);
        let signed = params.signed_by(key, &Issuer::from_params(&self.params, &self.key));
        signed.map_err(|error| format!("no certificate can be made: {error}"))
    }

    /// A revocation list without entries, DER, until the authority ends: for whoever demands one of each authority.
    ///
    /// # Errors
    /// The library could not sign it.
    pub fn empty_revocation_list(&self) -> Result<Vec<u8>, String> {
        let list = CertificateRevocationListParams {
            this_update: self.params.not_before,
            next_update: self.params.not_after,
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let signed = list.signed_by(&Issuer::from_params(&self.params, &self.key));
        signed.map(|list| list.der().to_vec()).map_err(|error| format!("no revocation list can be made: {error}"))
    }
}

/// The name of an authority: each has another one, so that whoever trusts two of them finds the right one.
fn name_of(called: &str, key: &KeyPair) -> DistinguishedName {
    let digest = digest::sha256(&key.subject_public_key_info());
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Portunus");
    name.push(DnType::CommonName, format!("{called} {short}"));
    name
}

fn parameters(name: DistinguishedName, (not_before, not_after): (SystemTime, SystemTime)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    let date = |time: SystemTime| {
        rcgen::date_time_ymd(1970, 1, 1) + time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    };
    (params.not_before, params.not_after) = (date(not_before), date(not_after));
    params
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn what_it_certifies_is_what_is_asked_for_and_never_outlasts_it() {
        let now = SystemTime::now();
        let (authority, files) = Authority::make("Test CA", None, now, DAY).unwrap();
        let kept = Authority::kept("Test CA", &files.certificate, &files.key).unwrap();
        let key = KeyPair::generate().unwrap();
        let point: [u8; 65] = key.der_bytes().try_into().unwrap();
        for (one, asked) in [(&authority, DAY / 2), (&kept, 2 * DAY)] {
            let leaf = Leaf {
                names: vec![dns_name("edge.example").unwrap()],
                validity: (now, now + asked),
                purpose: Purpose::Client,
                serial: Some(vec![0x41; 16]),
            };
            let der = one.certify(&leaf, &Point(&point)).unwrap().der().to_vec();
            let read = Certificate::from_der(&der).unwrap();
            assert!(read.is_for_clients() && !read.is_for_servers() && !read.is_authority());
            assert_eq!((read.dns_names(), read.serial()), (&["edge.example".to_owned()][..], &[0x41; 16][..]));
            assert_eq!(read.public_spki_der(), key.subject_public_key_info());
            let until = read.not_after().duration_since(now).unwrap();
            assert!(until <= DAY && (until + Duration::from_secs(1) >= asked.min(DAY)), "{until:?}");
            let issuer = Certificate::from_der(&pem::read(files.certificate.as_bytes()).unwrap()[0].der).unwrap();
            assert_eq!(read.issuer_der(), issuer.subject_der());
        }
        assert!(!kept.empty_revocation_list().unwrap().is_empty());
        assert!(!format!("{authority:?}").contains("PRIVATE"));
    }

    #[test]
    fn files_that_do_not_belong_together_are_none() {
        let now = SystemTime::now();
        let (_, one) = Authority::make("Test CA", None, now, DAY).unwrap();
        let (_, other) = Authority::make("Test CA", None, now, DAY).unwrap();
        for (certificate, key, expected) in [
            (one.certificate.as_str(), other.key.as_str(), "do not belong together"),
            ("", &one.key, "there is none"),
            (&one.certificate, "", "the key cannot be read"),
        ] {
            let problem = Authority::kept("Test CA", certificate, key).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
