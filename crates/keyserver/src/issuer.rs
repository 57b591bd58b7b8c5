//! Who gets a client certificate: decision of a request by the register, and the certificate.
//!
//! What is asked for is a key alone; the name is that of the token or of the certificate that is renewed, the lifetime is the operator's. Blocks while it
//! writes to the disk; knows no connection.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use config::EnrolmentConfig;
use keystore::authority::{Authority, Leaf, Point, SKEW, dns_name};
use keystore::dev_ca::Purpose;
use tls::PeerCertificate;
use tls::crypto::{Certificate, PublicKey, digest};
use wire::enrolment::{MAX_AUTHORITIES, PUBLIC_KEY_BYTES, Proof, Request, is_node_name};
use wire::hexadecimal::from_hexadecimal;
use wire::keyless::{ErrorCode, HashKind, Operation};

use super::register::{EnrolmentId, Register, SERIAL_BYTES};

/// A SubjectPublicKeyInfo of P-256 up to its point (RFC 5480 section 2).
const SPKI_BEGINNING: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Enrolment, as of one generation.
#[derive(Debug)]
pub struct Issuer {
    register: Register,
    authority: Authority,
    /// The certificate of the authority, DER.
    pub(super) root: Vec<u8>,
    /// The authority's name, as certificates of it say it.
    name: String,
    lifetime: Duration,
    /// Whom nodes are to trust, DER.
    pub(super) server_ca: Vec<Vec<u8>>,
    revoked: HashSet<EnrolmentId>,
}

/// A certificate that was issued.
#[derive(Debug)]
pub(super) struct Issued {
    /// It, DER.
    pub(super) certificate: Vec<u8>,
    /// Whom it names.
    pub(super) name: String,
}

/// Why there is none.
#[derive(Debug)]
pub(super) struct Denied {
    /// What the response says.
    pub(super) code: ErrorCode,
    /// What the log says.
    pub(super) why: String,
}

impl Issuer {
    /// Reads what enrolment needs, and makes what is missing.
    ///
    /// # Errors
    /// What cannot be read or made.
    pub fn load(config: &EnrolmentConfig) -> Result<Issuer, String> {
        let register = Register::at(&config.folder);
        register.make_folders()?;
        let authority = register.authority()?;
        let own = register.authority_certificate();
        let root = keystore::trust::certificates(&own)?.swap_remove(0);
        let server_ca = keystore::trust::certificates(&config.server_ca)?;
        if server_ca.len() > MAX_AUTHORITIES {
            let (place, found) = (config.server_ca.display(), server_ca.len());
            return Err(format!(
                "{place}: {found} certificates; name those that certify this server, at most {MAX_AUTHORITIES}"
            ));
        }
        let name = subject(&root).map_err(|problem| format!("{}: {problem}", own.display()))?;
        let revoked = register.revoked()?;
        Ok(Issuer { register, authority, root, name, lifetime: config.lifetime, server_ca, revoked })
    }

    /// A revocation list of the authority, which has no entries: what is revoked is looked up by name of the enrolment.
    pub(super) fn empty_revocation_list(&self) -> Result<Vec<u8>, String> {
        self.authority.empty_revocation_list()
    }

    /// Which enrolment a verified certificate comes from; none if it is of another authority.
    pub(super) fn enrolment_of(&self, certificate: &PeerCertificate) -> Option<EnrolmentId> {
        let serial: [u8; SERIAL_BYTES] = from_hexadecimal(&certificate.serial.to_ascii_lowercase())?;
        (certificate.issuer == self.name).then_some(())?;
        serial.first_chunk().copied()
    }

    /// Whether certificates of an enrolment are accepted no more.
    pub(super) fn is_revoked(&self, id: &EnrolmentId) -> bool {
        self.revoked.contains(id)
    }

    /// The certificate that a request is for. `peer` is the certificate of the connection, which the authority has issued.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn answer(
        &self,
        request: &Request<'_>,
        peer: Option<&PeerCertificate>,
        now: SystemTime,
    ) -> Result<Issued, Denied> {
        let not_entitled = |why: String| Denied { code: ErrorCode::NOT_ENTITLED, why };
        // Before anything is used up.
        if !is_signed(request) {
            return Err(Denied { code: ErrorCode::FORMAT, why: "the signature is not that of the key".to_owned() });
        }
        let (name, id, is_new) = match request.proof {
            Proof::Token { secret, name } => {
                (name.to_owned(), self.register.redeem(secret, name, now).map_err(not_entitled)?, true)
            }
            Proof::Certificate => {
                let (name, id) = self.renewed(peer).map_err(not_entitled)?;
                (name, id, false)
            }
        };
        let certificate = self.certify(&name, id, request.public_key, now);
        let certificate = certificate.map_err(|why| Denied { code: ErrorCode::INTERNAL, why })?;
        let ends = Certificate::from_der(&certificate).map(|read| read.not_after()).unwrap_or(now);
        match self.register.note_issued(&name, id, ends, is_new) {
            Ok(()) => Ok(Issued { certificate, name }),
            Err(why) if is_new => Err(Denied { code: ErrorCode::NOT_KEPT, why }),
            Err(why) => Err(not_entitled(why)),
        }
    }

    /// Whose certificate is renewed, and which enrolment it comes from.
    fn renewed(&self, peer: Option<&PeerCertificate>) -> Result<(String, EnrolmentId), String> {
        let peer = peer.ok_or("a renewal without a client certificate")?;
        let id = self.enrolment_of(peer).ok_or("a renewal with a certificate of another authority")?;
        match peer.dns_names.as_slice() {
            [name] if is_node_name(name) => Ok((name.clone(), id)),
            names => Err(format!("a renewal for other than one name: {names:?}")),
        }
    }

    fn certify(
        &self,
        name: &str,
        id: EnrolmentId,
        key: &[u8; PUBLIC_KEY_BYTES],
        now: SystemTime,
    ) -> Result<Vec<u8>, String> {
        let rest: [u8; SERIAL_BYTES - 8] = digest::random().map_err(|error| error.to_string())?;
        let begins = now.checked_sub(SKEW.min(self.lifetime / 10)).unwrap_or(now);
        let ends = now.checked_add(self.lifetime).ok_or("the end of its validity cannot be said")?;
        let leaf = Leaf {
            names: vec![dns_name(name)?],
            validity: (begins, ends),
            purpose: Purpose::Client,
            serial: Some([&id[..], &rest].concat()),
        };
        Ok(self.authority.certify(&leaf, &Point(key))?.der().to_vec())
    }
}

/// Whether whoever asks has the key.
fn is_signed(request: &Request<'_>) -> bool {
    let spki = [&SPKI_BEGINNING[..], request.public_key].concat();
    let digest = digest::sha256(&request.signed());
    let verifies = |key: PublicKey| key.verifies(Operation::Ecdsa(HashKind::Sha256), &digest, request.signature);
    PublicKey::from_spki_der(&spki).is_ok_and(verifies)
}

fn subject(der: &[u8]) -> Result<String, String> {
    PeerCertificate::read(der).map(|read| read.subject).map_err(|error| error.to_string())
}

/// What a token is good for: who has it is to connect to a server that shows this certificate.
///
/// # Errors
/// The file holds no certificate.
pub fn pin_of(certificate: &Path) -> Result<[u8; 32], String> {
    let chain = keystore::trust::certificates(certificate)?;
    let leaf = chain.first().map(|der| Certificate::from_der(der));
    match leaf {
        Some(Ok(leaf)) => Ok(digest::sha256(leaf.public_spki_der())),
        _ => Err(format!("{}: no certificate", certificate.display())),
    }
}
