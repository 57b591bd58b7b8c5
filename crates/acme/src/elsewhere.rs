//! Keys that key servers make and keep: the gate has their public halves alone, and has requests for certificates signed there.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use net::clock::coarse;
use proxy::generation::Generation;
use proxy::keyless::{Ask, Client};
use telemetry::{Reporter, WorkerReport};
use tls::crypto::{Curve, KeyKind, PublicKey, digest};
use tls::{KeyRequest, KeyType};
use transport::KeyFailure;
use wire::keyless::{ErrorCode, HashKind, KeyFamily, Operation};

/// Where the counters of this thread are among those of workers, of which there are fewer.
const OWN_COUNTERS: usize = usize::MAX;

/// The key servers of one keystore, asked by this thread. Connections last as long as a question.
pub struct KeyServers {
    generations: Arc<ArcSwap<Generation>>,
    /// Name of the group.
    pub group: String,
    report: WorkerReport,
    /// Bound on one question.
    timeout: Duration,
}

/// Why there is no signature.
pub enum Unsigned {
    /// No key server has the key.
    Unknown,
    /// Anything else, in words.
    Other(String),
}

impl KeyServers {
    /// Those of a group; whatever generation is active says where they are.
    pub fn new(
        generations: &Arc<ArcSwap<Generation>>,
        group: &str,
        reporter: &Arc<Reporter>,
        timeout: Duration,
    ) -> Rc<KeyServers> {
        let report = reporter.worker(OWN_COUNTERS);
        Rc::new(KeyServers { generations: Arc::clone(generations), group: group.to_owned(), report, timeout })
    }

    /// Has a key made: its public half, as a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// Why there is none, with the fix if it is known.
    pub async fn make(&self, key_type: KeyType) -> Result<Vec<u8>, String> {
        let family = if key_type == KeyType::Rsa { KeyFamily::Rsa } else { KeyFamily::Ecdsa };
        let made = self.client()?.make_key(family, coarse() + self.timeout).await;
        let spki = made.map_err(|failure| format!("no key was made at `{}`: {}", self.group, explain(failure)))?;
        if !is_of_type(key_type, &spki) {
            return Err(format!(
                "what the key servers `{}` sent is no public key of the type that was asked for",
                self.group
            ));
        }
        Ok(spki)
    }

    /// Has a message signed (SHA-256 with RSA PKCS#1 v1.5 or ECDSA) by the key with this public half. The signature was verified.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn sign(&self, key_type: KeyType, spki: &[u8], message: &[u8]) -> Result<Vec<u8>, Unsigned> {
        let key = PublicKey::from_spki_der(spki).map_err(|error| Unsigned::Other(error.to_string()))?;
        let request = KeyRequest::signature(operation(key_type), digest::sha256(message).to_vec(), Arc::new(key));
        let client = self.client().map_err(Unsigned::Other)?;
        let ask = Ask { server_name: "", until: coarse() + self.timeout };
        match client.perform(&request, ask).await {
            Ok(response) => Ok(response.bytes().to_vec()),
            Err(KeyFailure::Rejected(ErrorCode::KEY_NOT_FOUND)) => Err(Unsigned::Unknown),
            Err(failure) => Err(Unsigned::Other(format!("not signed at `{}`: {}", self.group, explain(failure)))),
        }
    }

    fn client(&self) -> Result<Rc<Client>, String> {
        let generation = self.generations.load();
        let group = generation.key_group(&self.group);
        let group = group.ok_or_else(|| format!("the key servers `{}` are configured no more", self.group))?;
        Ok(Client::start(group, self.report.key_counts(&self.group)))
    }
}

/// Whether this is the public half of a key that requests of this type are signed with: RSA of 2048 bits or more, or ECDSA on P-256.
pub fn is_of_type(key_type: KeyType, spki: &[u8]) -> bool {
    let kind = PublicKey::from_spki_der(spki).map(|key| key.kind());
    match key_type {
        KeyType::Rsa => kind.is_ok_and(|kind| kind.key_type() == Some(KeyType::Rsa)),
        KeyType::Ecdsa | KeyType::Ed25519 => kind == Ok(KeyKind::Ec(Curve::P256)),
    }
}

/// What certificates of a type of key have their requests signed with.
fn operation(key_type: KeyType) -> Operation {
    match key_type {
        KeyType::Rsa => Operation::RsaPkcs1(HashKind::Sha256),
        KeyType::Ecdsa | KeyType::Ed25519 => Operation::Ecdsa(HashKind::Sha256),
    }
}

/// A failure in words, with the fix where it is at the key server.
fn explain(failure: KeyFailure) -> String {
    match failure {
        KeyFailure::Rejected(ErrorCode::BAD_OPCODE) => {
            "the key server does not offer that to this gate; give its access rule there `make_keys`, and `operations` that hold `sign`".to_owned()
        }
        KeyFailure::Rejected(ErrorCode::NOT_KEPT) => {
            "the key server cannot keep another key; its log says why".to_owned()
        }
        KeyFailure::Unaskable => {
            "the key server makes no keys: that takes a Portunus that knows how, connected to over TLS".to_owned()
        }
        failure => failure.to_string(),
    }
}
