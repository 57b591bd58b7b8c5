//! A certificate found in a store: its bytes, and the facts by which it is paired, chained and named. Small, since ten thousands are held at once.

use std::time::SystemTime;

use tls::crypto::{self, Certificate, KeyKind, PrivateKey, digest};

use crate::names::{self, NameError};

/// SHA-256 of something that is only ever compared.
pub(crate) type Digest = [u8; 32];

/// A certificate and what matters of it.
#[derive(Debug, Clone)]
pub(crate) struct Certified {
    pub(crate) der: Vec<u8>,
    /// Of its public key.
    pub(crate) public_key: Digest,
    pub(crate) kind: KeyKind,
    subject_digest: Digest,
    issuer_digest: Digest,
    /// Subject, for messages.
    pub(crate) subject: String,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
    /// Canonical DNS names, sorted, once each.
    pub(crate) names: Vec<String>,
    /// DNS names that cannot be served, and why.
    pub(crate) unusable_names: Vec<(String, NameError)>,
    pub(crate) is_authority: bool,
}

impl Certified {
    /// Reads a certificate.
    pub(crate) fn from_der(der: Vec<u8>) -> Result<Certified, crypto::Error> {
        let certificate = Certificate::from_der(&der)?;
        let (mut good, mut unusable) = (Vec::new(), Vec::new());
        for name in certificate.dns_names() {
            match names::canonical(name) {
                // A certificate cannot claim the default: that is for the operator to say.
                Ok(canonical) if canonical == names::DEFAULT => unusable.push((name.clone(), NameError::Label)),
                Ok(canonical) => good.push(canonical),
                Err(error) => unusable.push((name.clone(), error)),
            }
        }
        good.sort();
        good.dedup();
        Ok(Certified {
            public_key: digest::sha256(certificate.public_spki_der()),
            kind: certificate.kind(),
            subject_digest: digest::sha256(certificate.subject_der()),
            issuer_digest: digest::sha256(certificate.issuer_der()),
            subject: certificate.subject().to_owned(),
            not_before: certificate.not_before(),
            not_after: certificate.not_after(),
            names: good,
            unusable_names: unusable,
            is_authority: certificate.is_authority(),
            der,
        })
    }

    /// Whether it names `other` as its issuer.
    pub(crate) fn is_issued_by(&self, other: &Certified) -> bool {
        self.issuer_digest == other.subject_digest
    }

    /// Whether it names itself as its issuer: a root, or a certificate made for oneself.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.issuer_digest == self.subject_digest
    }

    /// Whether its names are good for `name`, canonical.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| names::covers(pattern, name))
    }
}

/// The digest by which a key finds its certificate.
pub(crate) fn public_key_digest(key: &PrivateKey) -> Digest {
    digest::sha256(key.public_spki_der())
}
