//! Client certificates: who is let in, and with which alert the others are turned away.

use crate::support;

use std::sync::Arc;
use support::{Authority, ECDSA, Ends, Issued, Pair, RSA, acceptor, choice, fixed};
use tls::ProtocolVersion::{Tls10, Tls12, Tls13};
use tls::{Choice, ClientAuth, Connector, Error, Identity, Policy, ProtocolVersion};

/// The two sides' ends and the alert that the client got.
fn meet(
    authority: &Authority,
    rule: &Arc<ClientAuth>,
    identity: Option<Arc<Identity>>,
    version: ProtocolVersion,
) -> (Ends, Option<u8>, bool) {
    let roots = std::slice::from_ref(&authority.der);
    let mut connector = Connector::new(roots, true, identity, &[], Tls10).unwrap();
    connector.limit_version(version).unwrap();
    let choice = Choice {
        policy: Policy::Legacy,
        min_version: Tls10,
        client_auth: Some(Arc::clone(rule)),
        ..choice(&authority.issue(ECDSA).identity)
    };
    let mut pair = Pair::new(&connector, &acceptor(), fixed(choice));
    let ends = pair.handshake();
    let alert = pair.alert_at_client(&ends);
    let proven = ends.server.is_ok() && pair.server.info().peer.is_some();
    (ends, alert, proven)
}

struct Case {
    what: &'static str,
    identity: Option<Arc<Identity>>,
    rule: Arc<ClientAuth>,
    /// The alerts before and in TLS 1.3; none: let in.
    alerts: Option<[u8; 2]>,
}

fn cases(authority: &Authority) -> Vec<Case> {
    let roots = std::slice::from_ref(&authority.der);
    let rule = |crls: &[Vec<u8>], required| Arc::new(ClientAuth::new(roots, crls, required).unwrap());
    let stranger = Authority::new("stranger");
    let with = |change: fn(&mut rcgen::CertificateParams)| authority.issue_with(ECDSA, change);
    let some = |issued: &Issued| Some(Arc::clone(&issued.identity));
    let good = authority.issue(ECDSA);
    let expired = with(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let future = with(|params| params.not_before = rcgen::date_time_ymd(3000, 1, 1));
    let server_only = with(|params| params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth]);
    let case = |what, identity, rule, alerts| Case { what, identity, rule, alerts };
    vec![
        case("a good one", some(&good), rule(&[], true), None),
        case("a good RSA one", some(&authority.issue(RSA)), rule(&[], true), None),
        case("none, required", None, rule(&[], true), Some([40, 116])),
        case("none, optional", None, rule(&[], false), None),
        case("a stranger's", some(&stranger.issue(ECDSA)), rule(&[], true), Some([48, 48])),
        case("a stranger's, optional", some(&stranger.issue(ECDSA)), rule(&[], false), Some([48, 48])),
        case("an expired one", some(&expired), rule(&[], true), Some([45, 45])),
        case("one from the future", some(&future), rule(&[], true), Some([45, 45])),
        case("one for servers only", some(&server_only), rule(&[], true), Some([43, 43])),
        case("covered by a list", some(&good), rule(&[authority.revoke(&[])], true), None),
        case("revoked", some(&good), rule(&[authority.revoke(&[&[0x0a, 0xbc]])], true), Some([44, 44])),
        case("an expired list", some(&good), rule(&[authority.revocation_list(&[], 2021)], true), Some([45, 45])),
        case("a stranger's list", some(&good), rule(&[stranger.revoke(&[])], true), Some([48, 48])),
    ]
}

#[test]
fn clients_are_let_in_or_turned_away() {
    let authority = Authority::new("root");
    for case in cases(&authority) {
        for (index, version) in [Tls12, Tls13].into_iter().enumerate() {
            let (ends, alert, proven) = meet(&authority, &case.rule, case.identity.clone(), version);
            let what = format!("{} {version:?}: {ends:?}", case.what);
            assert_eq!(alert, case.alerts.map(|alerts| alerts[index]), "{what}");
            match case.alerts {
                None => assert_eq!((&ends.server, proven), (&Ok(()), case.identity.is_some()), "{what}"),
                Some(_) => assert!(matches!(ends.server, Err(Error::PeerCertificate(_))), "{what}"),
            }
        }
    }
}

#[test]
fn old_clients_can_prove_themselves_too() {
    let authority = Authority::new("root");
    let rule = Arc::new(ClientAuth::new(std::slice::from_ref(&authority.der), &[], true).unwrap());
    for algorithm in [ECDSA, RSA] {
        let (ends, _, proven) = meet(&authority, &rule, Some(authority.issue(algorithm).identity), Tls10);
        assert!(ends == Ends { client: Ok(()), server: Ok(()) } && proven, "{ends:?}");
    }
}

#[test]
fn a_long_chain_is_turned_away_early() {
    let authority = Authority::new("root");
    let rule = Arc::new(ClientAuth::new(std::slice::from_ref(&authority.der), &[], true).unwrap());
    let issued = authority.issue(ECDSA);
    let chain = std::iter::once(issued.certificate).chain((0..100).map(|_| authority.der.clone())).collect();
    let identity = Identity::new(chain, zeroize::Zeroizing::new(issued.key), tls::KeyType::Ecdsa);
    let (ends, alert, _) = meet(&authority, &rule, Some(identity), Tls13);
    assert_eq!(ends.server, Err(Error::Peer("EXCESSIVE_MESSAGE_SIZE".into())));
    assert_eq!(alert, Some(47));
}

/// A chain by `openssl`: a root, an intermediate CA and a leaf, each with this key and signed with this digest.
struct Made {
    root: Vec<u8>,
    identity: Arc<Identity>,
}

fn made(root: &str, ca: &str, leaf: &str, ca_digest: &str, leaf_digest: &str) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let openssl = |arguments: &str| {
        let mut command = std::process::Command::new("openssl");
        let done = command.args(arguments.split(' ')).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    };
    for (name, key) in [("root", root), ("ca", ca), ("leaf", leaf)] {
        openssl(&format!("genpkey {key} -out {name}.key"));
        openssl(&format!("req -new -key {name}.key -subj /CN={name} -out {name}.csr"));
    }
    let extensions = "[ca]\nbasicConstraints=critical,CA:TRUE\n[leaf]\nsubjectAltName=DNS:site.example\n";
    std::fs::write(folder.path().join("extensions"), extensions).unwrap();
    let sign = "x509 -req -days 30 -extfile extensions";
    // What a root is signed with counts for nothing.
    openssl(&format!("{sign} -in root.csr -signkey root.key -extensions ca -sha1 -out root.pem"));
    openssl(&format!(
        "{sign} -in ca.csr -CA root.pem -CAkey root.key -CAcreateserial -extensions ca -{ca_digest} -out ca.pem"
    ));
    openssl(&format!(
        "{sign} -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extensions leaf -{leaf_digest} -out leaf.pem"
    ));
    openssl("pkcs8 -topk8 -nocrypt -in leaf.key -outform DER -out key.der");
    let der = |name: &str| {
        openssl(&format!("x509 -in {name}.pem -outform DER -out {name}.der"));
        std::fs::read(folder.path().join(format!("{name}.der"))).unwrap()
    };
    let key = std::fs::read(folder.path().join("key.der")).unwrap();
    let kind = if leaf.contains("EC") { tls::KeyType::Ecdsa } else { tls::KeyType::Rsa };
    let chain = vec![der("leaf"), der("ca")];
    Made { root: der("root"), identity: Identity::new(chain, zeroize::Zeroizing::new(key), kind) }
}

/// What server and client say of the other's chain under a policy, with the chain on both sides.
fn proves(made: &Made, policy: Policy) -> [Result<(), Error>; 2] {
    let authority = Authority::new("another root");
    let roots = [made.root.clone(), authority.der.clone()];
    let min = if policy == Policy::Legacy { Tls10 } else { Tls12 };
    let meets = |ours: &Arc<Identity>, theirs: Option<Arc<Identity>>| {
        let connector = Connector::new(&roots, true, theirs, &[], min).unwrap();
        let rule = Arc::new(ClientAuth::new(&roots, &[], false).unwrap());
        let choice = Choice { policy, min_version: min, client_auth: Some(rule), ..choice(ours) };
        Pair::new(&connector, &acceptor(), fixed(choice)).handshake()
    };
    let good = authority.issue(ECDSA).identity;
    [meets(&good, Some(Arc::clone(&made.identity))).server, meets(&made.identity, None).client]
}

#[test]
fn weak_keys_and_digests_in_chains_are_rejected_by_policy() {
    let rsa = |bits: u32| format!("-algorithm RSA -pkeyopt rsa_keygen_bits:{bits}");
    let (p256, p224) =
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-256", "-algorithm EC -pkeyopt ec_paramgen_curve:P-224");
    let (small_leaf, small_ca) = ("its key is too small", "the key of a CA in its chain is too small");
    let weak_digest = "its chain holds a signature with a digest that is too weak";
    let good = rsa(2048);
    // Root, CA and leaf; digests; why not under `intermediate`, and whether `legacy` takes it.
    let cases = [
        (made(&good, &good, &good, "sha256", "sha256"), None, true),
        (made(&good, p256, p256, "sha384", "sha512"), None, true),
        (made(&good, &good, &rsa(1024), "sha256", "sha256"), Some(small_leaf), true),
        (made(&good, &rsa(1024), &good, "sha256", "sha256"), Some(small_ca), true),
        (made(&rsa(1024), &good, &good, "sha256", "sha256"), Some(small_ca), true),
        (made(&good, &good, &good, "sha1", "sha256"), Some(weak_digest), true),
        (made(&good, &good, p256, "sha256", "sha1"), Some(weak_digest), true),
        (made(&good, &rsa(768), &good, "sha256", "sha256"), Some(small_ca), false),
        (made(&good, p224, p256, "sha256", "sha256"), Some(small_ca), false),
    ];
    for (index, (made, why, legacy)) in cases.iter().enumerate() {
        for (side, said) in proves(made, Policy::Intermediate).into_iter().enumerate() {
            let expected = why.map_or(Ok(()), |why| Err(Error::PeerCertificate(why.into())));
            assert_eq!(said, expected, "case {index}, side {side}");
        }
        for (side, said) in proves(made, Policy::Legacy).into_iter().enumerate() {
            assert_eq!(said.is_ok(), *legacy, "case {index}, side {side}: {said:?}");
        }
    }
}

#[test]
fn what_does_not_parse_is_named() {
    let authority = Authority::new("root");
    let said = |roots: &[Vec<u8>], crls: &[Vec<u8>]| ClientAuth::new(roots, crls, true).unwrap_err().to_string();
    let good = authority.der.clone();
    let mut trailing = good.clone();
    trailing.push(0);
    assert!(said(&[good.clone(), vec![1, 2, 3]], &[]).contains("trusted root 1: "));
    assert!(said(&[trailing], &[]).contains("bytes after its end"));
    assert!(said(std::slice::from_ref(&good), std::slice::from_ref(&good)).contains("revocation list 0: "));
}
