//! Handshakes whose private key is elsewhere: asked for, waited for, answered late, answered wrongly, never answered.
//!
//! The key is used by the `openssl` program, so that hashing, padding and encodings are checked by another implementation.

use crate::support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use support::{Authority, ECDSA, Ends, Issued, Pair, RSA, acceptor, choice, connector, fixed};
use tls::ProtocolVersion::{Tls10, Tls11, Tls12, Tls13};
use tls::remote::PREMASTER_BYTES;
use tls::{Choice, Handshake, Identity, KeyRequest, Policy, ProtocolVersion, Session};
use wire::keyless::{HashKind, Operation};

/// Longest wait for the `openssl` program.
const PATIENCE: Duration = Duration::from_secs(60);

const DONE: Ends = Ends { client: Ok(()), server: Ok(()) };

/// The same certificate without its key.
fn public_only(issued: &Issued) -> Arc<Identity> {
    let identity = Identity::remote(std::slice::from_ref(&issued.certificate), issued.identity.key_type());
    assert!(identity.is_remote() && !issued.identity.is_remote());
    identity
}

/// What the private key makes of a request.
fn use_key(issued: &Issued, request: &KeyRequest) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (key, input) = (folder.path().join("key.der"), folder.path().join("input"));
    // Without the public half that newer writers add, which older programs do not read.
    std::fs::write(&key, tls::crypto::PrivateKey::from_der(&issued.key).unwrap().to_pkcs8_der()).unwrap();
    std::fs::write(&input, request.input()).unwrap();
    let digest = |hash: HashKind| match hash {
        HashKind::Md5Sha1 => "digest:md5-sha1".to_owned(),
        hash => format!("digest:{hash:?}").to_lowercase(),
    };
    let options = match request.operation() {
        Operation::RsaPkcs1(hash) | Operation::Ecdsa(hash) => vec![digest(hash)],
        Operation::RsaPss(hash) => {
            vec![digest(hash), "rsa_padding_mode:pss".to_owned(), "rsa_pss_saltlen:digest".to_owned()]
        }
        Operation::RsaDecrypt => vec!["rsa_padding_mode:none".to_owned()],
        Operation::Ed25519 | Operation::Ping => vec![],
    };
    let mut command = Command::new("openssl");
    command.arg("pkeyutl").args(["-keyform", "DER", "-inkey"]).arg(key).arg("-in").arg(input);
    command.arg(if request.operation() == Operation::RsaDecrypt { "-decrypt" } else { "-sign" });
    if request.operation() == Operation::Ed25519 {
        command.arg("-rawin");
    }
    options.iter().for_each(|option| _ = command.args(["-pkeyopt", option]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A handshake in which the key answers only after the library was asked again and again.
fn operations(authority: &Authority, issued: &Issued, version: ProtocolVersion) -> Vec<Operation> {
    let mut connector = connector(authority);
    connector.limit_version(version).unwrap();
    let choice = Choice { policy: Policy::Legacy, min_version: Tls10, ..choice(&public_only(issued)) };
    let mut pair = Pair::new(&connector, &acceptor(), fixed(choice));
    let mut asked = Vec::new();
    loop {
        let ends = pair.handshake();
        let Some(request) = pair.server.key_request() else {
            assert_eq!(ends, DONE, "{version:?}");
            break;
        };
        for _ in 0..3 {
            assert_eq!(pair.server.handshake(&mut &[][..], &mut pair.to_client), Ok(Handshake::WantKey));
            assert!(pair.server.key_request().is_none(), "asked for once");
        }
        asked.push(request.operation());
        pair.server.respond(request.check(&use_key(issued, &request)).unwrap());
    }
    assert_eq!(pair.server.info().version, version);
    pair.echo();
    asked
}

#[test]
fn every_version_and_kind_of_key_waits_for_its_response() {
    let authority = Authority::new("root");
    let (ecdsa, rsa) = (authority.issue(ECDSA), authority.issue(RSA));
    let cases = [
        (&ecdsa, Tls10, Operation::Ecdsa(HashKind::Sha1)),
        (&ecdsa, Tls11, Operation::Ecdsa(HashKind::Sha1)),
        (&ecdsa, Tls12, Operation::Ecdsa(HashKind::Sha256)),
        (&ecdsa, Tls13, Operation::Ecdsa(HashKind::Sha256)),
        (&rsa, Tls10, Operation::RsaPkcs1(HashKind::Md5Sha1)),
        (&rsa, Tls11, Operation::RsaPkcs1(HashKind::Md5Sha1)),
        (&rsa, Tls12, Operation::RsaPss(HashKind::Sha256)),
        (&rsa, Tls13, Operation::RsaPss(HashKind::Sha256)),
    ];
    for (issued, version, operation) in cases {
        assert_eq!(operations(&authority, issued, version), [operation], "{version:?}");
    }
    for (algorithm, operation) in [
        (&rcgen::PKCS_ECDSA_P384_SHA384, Operation::Ecdsa(HashKind::Sha384)),
        (&rcgen::PKCS_ECDSA_P521_SHA512, Operation::Ecdsa(HashKind::Sha512)),
        (&rcgen::PKCS_ED25519, Operation::Ed25519),
    ] {
        assert_eq!(operations(&authority, &authority.issue(algorithm), Tls13), [operation]);
    }
}

#[test]
fn resumption_needs_no_key() {
    let authority = Authority::new("root");
    let issued = authority.issue(ECDSA);
    let (connector, acceptor) = (connector(&authority), acceptor());
    let chooser = fixed(choice(&public_only(&issued)));
    let mut first = Pair::new(&connector, &acceptor, chooser.clone());
    first.handshake();
    let request = first.server.key_request().unwrap();
    first.server.respond(request.check(&use_key(&issued, &request)).unwrap());
    assert_eq!(first.handshake(), DONE);
    first.echo();
    let mut second = Pair::new(&connector, &acceptor, chooser);
    assert_eq!(second.handshake(), DONE);
    assert!(second.server.info().resumed && second.server.key_request().is_none());
}

/// A server that waits for its key, and what it asked.
fn waiting(authority: &Authority, issued: &Issued) -> (Pair, KeyRequest) {
    let mut pair = Pair::new(&connector(authority), &acceptor(), fixed(choice(&public_only(issued))));
    pair.handshake();
    let request = pair.server.key_request().unwrap();
    (pair, request)
}

#[test]
fn a_wrong_signature_is_never_used() {
    let authority = Authority::new("root");
    for algorithm in [ECDSA, RSA] {
        let issued = authority.issue(algorithm);
        let (mut pair, request) = waiting(&authority, &issued);
        let right = use_key(&issued, &request);
        let mut flipped = right.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let (_, other_request) = waiting(&authority, &issued);
        let of_another = use_key(&issued, &other_request);
        let by_another =
            if algorithm == RSA { vec![7; right.len()] } else { use_key(&authority.issue(ECDSA), &request) };
        let cut = right[..right.len() - 1].to_vec();
        let longer = [&right[..], &[0]].concat();
        for wrong in [flipped, of_another, by_another, cut, longer, vec![], vec![0; 100_000]] {
            assert!(request.check(&wrong).is_err());
        }
        assert!(request.substitute().is_none());
        assert_eq!(pair.server.handshake(&mut &[][..], &mut pair.to_client), Ok(Handshake::WantKey));
        pair.server.respond(request.check(&right).unwrap());
        assert_eq!(pair.handshake(), DONE);
    }
}

#[test]
fn a_handshake_that_gives_up_sends_one_alert() {
    let authority = Authority::new("root");
    let (mut pair, _request) = waiting(&authority, &authority.issue(ECDSA));
    pair.to_client.clear();
    pair.server.fail(tls::Alert::INTERNAL_ERROR, &mut pair.to_client);
    pair.server.fail(tls::Alert::INTERNAL_ERROR, &mut pair.to_client);
    let client = pair.client.handshake(&mut &pair.to_client.clone()[..], &mut Vec::new());
    assert_eq!(client, Err(tls::Error::PeerAlert(tls::Alert::INTERNAL_ERROR)));
    assert_eq!(pair.server.handshake(&mut &[][..], &mut pair.to_client), Err(tls::Error::Ended));
}

/// RSA key exchange with `openssl s_client`: what the key is asked, and whether the client got its response.
fn key_exchange(response: impl Fn(&Issued, &KeyRequest) -> tls::KeyResponse) -> (Vec<Operation>, bool) {
    let authority = Authority::new("root");
    let issued = authority.issue(RSA);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-tls1_2", "-cipher", "AES128-GCM-SHA256", "-connect"])
        .arg(listener.local_addr().unwrap().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // In a thread: a program that has ended before it connects would be waited for for ever.
    let (sender, accepted) = channel();
    std::thread::spawn(move || sender.send(listener.accept()));
    let (mut socket, _) = accepted.recv_timeout(PATIENCE).expect("openssl connects").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let choice = Choice { policy: Policy::Legacy, min_version: Tls10, ..choice(&public_only(&issued)) };
    let mut server = Session::server(&acceptor(), fixed(choice)).unwrap();
    let (mut asked, mut input) = (Vec::new(), Vec::new());
    let done = loop {
        let mut output = Vec::new();
        let mut left = input.as_slice();
        let step = server.handshake(&mut left, &mut output);
        let taken = input.len() - left.len();
        input.drain(..taken);
        let _ = socket.write_all(&output);
        match step {
            Ok(Handshake::Done) => break true,
            Ok(Handshake::WantKey) => {
                let request = server.key_request().unwrap();
                asked.push(request.operation());
                server.respond(response(&issued, &request));
            }
            Ok(Handshake::WantInput) => {
                let mut bytes = [0; 4096];
                let count = socket.read(&mut bytes).unwrap();
                assert!(count > 0);
                input.extend_from_slice(&bytes[..count]);
            }
            Ok(Handshake::WantCertificate) => panic!("its certificate is there"),
            Err(error) => {
                // Every kind of wrong response looks the same: the Finished message does not open.
                assert!(error.to_string().contains("BAD_DECRYPT") || error.to_string().contains("BAD_RECORD_MAC"));
                break false;
            }
        }
    };
    drop(socket);
    drop(client.stdin.take());
    client.wait().unwrap();
    (asked, done)
}

#[test]
fn key_exchange_takes_a_block_or_a_bare_secret() {
    let whole = key_exchange(|issued, request| request.check(&use_key(issued, request)).unwrap());
    assert_eq!(whole, (vec![Operation::RsaDecrypt], true));
    let bare = key_exchange(|issued, request| {
        let block = use_key(issued, request);
        request.check(&block[block.len() - PREMASTER_BYTES..]).unwrap()
    });
    assert_eq!(bare, (vec![Operation::RsaDecrypt], true));
    for wrong in [0, 47, 49, 255, 256, 257] {
        let rejected = key_exchange(|_, request| request.check(&vec![1; wrong]).unwrap());
        assert_eq!(rejected, (vec![Operation::RsaDecrypt], false), "{wrong}");
    }
    assert!(!key_exchange(|_, request| request.substitute().unwrap()).1);
}
