//! What is rejected, with which alert on the wire, and whose fault it is said to be.

use crate::support;

use std::sync::Arc;
use support::{
    Authority, ECDSA, Fixed, Pair, RSA, acceptor, choice, client_hello, connector, fixed, last_alert, peer_reason,
    read_all,
};
use tls::ProtocolVersion::{Tls10, Tls11, Tls12, Tls13};
use tls::{
    Alert, Choice, Chooser, Connector, Error, Handshake, Identity, KeyType, Policy, ProtocolVersion, Read, Session,
};
use wire::client_hello::ClientHello;
use zeroize::Zeroizing;

#[test]
fn the_choosers_alert_is_what_the_client_gets() {
    let authority = Authority::new("root");
    for alert in [Alert::UNRECOGNIZED_NAME, Alert::ACCESS_DENIED, Alert::HANDSHAKE_FAILURE, Alert(255)] {
        let chooser = Arc::new(Fixed(Err(alert), 0.into()));
        let hello = client_hello(&connector(&authority));
        let mut server = Session::server(&acceptor(), chooser).unwrap();
        let (mut input, mut output) = (hello.as_slice(), Vec::new());
        assert_eq!(server.handshake(&mut input, &mut output), Err(Error::Rejected(alert)));
        assert_eq!(output, [21, 3, 1, 0, 2, 2, alert.0], "one alert, and nothing else");
        assert_eq!(server.handshake(&mut input, &mut output), Err(Error::Ended));
        server.fail(Alert::INTERNAL_ERROR, &mut output);
        assert_eq!(output.len(), 7, "no second alert");
    }
}

/// The reason and the alert with which a server under `policy` and `min` rejects a client limited to `max`.
fn rejects(policy: Policy, min_version: ProtocolVersion, max: ProtocolVersion) -> Option<(String, u8)> {
    let authority = Authority::new("root");
    let mut connector = connector(&authority);
    connector.limit_version(max).unwrap();
    let choice = Choice { policy, min_version, ..choice(&authority.issue(RSA).identity) };
    let mut pair = Pair::new(&connector, &acceptor(), fixed(choice));
    let ends = pair.handshake();
    let alert = pair.alert_at_client(&ends)?;
    Some((peer_reason(&ends.server).to_owned(), alert))
}

#[test]
fn old_versions_are_rejected() {
    let too_old = || Some(("UNSUPPORTED_PROTOCOL".to_owned(), 70));
    let cases = [
        (Policy::Modern, Tls10, Tls12, too_old()),
        (Policy::Modern, Tls10, Tls13, None),
        (Policy::Intermediate, Tls10, Tls11, too_old()),
        (Policy::Intermediate, Tls13, Tls12, too_old()),
        (Policy::Intermediate, Tls10, Tls12, None),
        (Policy::Legacy, Tls12, Tls11, too_old()),
        (Policy::Legacy, Tls11, Tls10, too_old()),
        (Policy::Legacy, Tls10, Tls10, None),
    ];
    for (policy, min, max, expected) in cases {
        assert_eq!(rejects(policy, min, max), expected, "{policy:?} from {min:?}, client up to {max:?}");
    }
}

#[test]
fn alpn_without_overlap_is_rejected() {
    let authority = Authority::new("root");
    let offer = [b"http/1.1".to_vec()];
    let connector = Connector::new(std::slice::from_ref(&authority.der), true, None, &offer, Tls12).unwrap();
    let choice = Choice { alpn: Arc::new([b"h2".to_vec()]), ..choice(&authority.issue(ECDSA).identity) };
    let mut pair = Pair::new(&connector, &acceptor(), fixed(choice));
    let ends = pair.handshake();
    assert_eq!(peer_reason(&ends.server), "NO_APPLICATION_PROTOCOL");
    assert_eq!(pair.alert_at_client(&ends), Some(Alert::NO_APPLICATION_PROTOCOL.0));
}

/// A record with a ClientHello, changed.
fn changed_hello(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut hello = client_hello(&connector(&Authority::new("root")));
    change(&mut hello);
    // The lengths of record and message are set right again.
    let len = hello.len() - 5;
    hello[3..5].copy_from_slice(&(len as u16).to_be_bytes());
    hello[6..9].copy_from_slice(&(len as u32 - 4).to_be_bytes()[1..]);
    hello
}

/// Where the extensions' length stands in a record with a ClientHello.
fn extensions_at(hello: &[u8]) -> usize {
    let session_id = 5 + 4 + 2 + 32;
    let suites = session_id + 1 + usize::from(hello[session_id]);
    let compression = suites + 2 + usize::from(u16::from_be_bytes([hello[suites], hello[suites + 1]]));
    compression + 1 + usize::from(hello[compression])
}

/// Adds an extension at the front.
fn add_extension(hello: &mut Vec<u8>, extension: &[u8]) {
    let at = extensions_at(hello);
    let len = u16::from_be_bytes([hello[at], hello[at + 1]]) + extension.len() as u16;
    hello[at..at + 2].copy_from_slice(&len.to_be_bytes());
    hello.splice(at + 2..at + 2, extension.iter().copied());
}

#[test]
fn hostile_hellos_get_the_right_alert() {
    let authority = Authority::new("root");
    let identity = authority.issue(ECDSA).identity;
    let server_name = |name: &[u8]| {
        let len = name.len() as u8;
        let mut extension = vec![0, 0, 0, len + 5, 0, len + 3, 0, 0, len];
        extension.extend_from_slice(name);
        extension
    };
    let cases = [
        ("an SSLv2 ClientHello", vec![0x80, 0x2e, 1, 3, 3, 0, 0x15, 0, 0, 0, 0x10], Some(70)),
        ("a plain HTTP request", b"GET / HTTP/1.1\r\n\r\n".to_vec(), None),
        ("a second server_name", changed_hello(|hello| add_extension(hello, &server_name(b"other.example"))), Some(50)),
        ("an empty host name", changed_hello(|hello| add_extension(hello, &server_name(b""))), Some(50)),
        ("a byte too many", changed_hello(|hello| hello.push(0)), Some(50)),
        (
            "SSL 3.0",
            changed_hello(|hello| {
                hello.truncate(extensions_at(hello));
                hello[10] = 0
            }),
            Some(70),
        ),
    ];
    let share = |change: fn(&mut [u8])| {
        changed_hello(|hello| {
            // The first key share that is offered: the group's number, the length, the ML-KEM-768 key of 1184 bytes, the X25519 one of 32.
            let at = hello.windows(4).position(|bytes| bytes == [0x11, 0xec, 0x04, 0xc0]).unwrap() + 4;
            change(&mut hello[at..at + 1216]);
        })
    };
    let cases = cases.into_iter().chain([
        // Coefficients are below 3329 (FIPS 203 §7.2).
        ("a malformed ML-KEM share", share(|key| key[..1184].fill(0xff)), Some(47)),
        ("an X25519 share of order 1", share(|key| key[1184..].fill(0)), Some(47)),
        ("SSL 3.0 with TLS 1.3 beside it", changed_hello(|hello| hello[10] = 0), Some(70)),
        ("a version before SSL 3.0 with TLS 1.3 beside it", changed_hello(|hello| hello[9] = 2), Some(70)),
    ]);
    for (what, hello, alert) in cases {
        let mut server = Session::server(&acceptor(), fixed(choice(&identity))).unwrap();
        let (mut input, mut output) = (hello.as_slice(), Vec::new());
        let error = server.handshake(&mut input, &mut output).expect_err(what);
        assert!(matches!(error, Error::Peer(_)), "{what}: {error:?}");
        assert_eq!(last_alert(&output), alert, "{what}: {error:?} {output:?}");
    }
}

#[test]
fn garbage_never_panics() {
    let authority = Authority::new("root");
    let identity = authority.issue(ECDSA).identity;
    let acceptor = acceptor();
    let hello = client_hello(&connector(&authority));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    let mut rejected = 0;
    for round in 0..3000 {
        let bytes: Vec<u8> = if round % 3 == 0 {
            (0..random() % 300).map(|_| random() as u8).collect()
        } else {
            let mut mutated = hello.clone();
            for _ in 0..=random() % 4 {
                let at = random() % mutated.len();
                mutated[at] = random() as u8;
            }
            mutated.truncate(1 + random() % (2 * hello.len()));
            mutated
        };
        let mut server = Session::server(&acceptor, fixed(choice(&identity))).unwrap();
        let (mut input, mut output) = (bytes.as_slice(), Vec::new());
        if server.handshake(&mut input, &mut output).is_err() {
            rejected += 1;
            assert_eq!(server.handshake(&mut input, &mut output), Err(Error::Ended));
            assert_eq!(server.read(&mut input, &mut [0; 16], &mut output), Err(Error::Ended));
            assert_eq!(server.write(b"x", &mut output), Err(Error::Ended));
        }
    }
    assert!(rejected > 1000, "most of it is rejected at once: {rejected}");
}

#[test]
fn broken_records_end_the_session_after_what_was_good() {
    let authority = Authority::new("root");
    let mut pair = Pair::connected(&connector(&authority), &acceptor(), choice(&authority.issue(ECDSA).identity));
    pair.client.write(b"good", &mut pair.to_server).unwrap();
    let good = pair.to_server.len();
    pair.client.write(b"broken", &mut pair.to_server).unwrap();
    pair.to_server[good + 7] ^= 1;
    let (mut input, mut plain, mut output) = (pair.to_server.as_slice(), [0; 64], Vec::new());
    assert_eq!(pair.server.read(&mut input, &mut plain, &mut output), Ok(Read::Plain(4)));
    let error = pair.server.read(&mut input, &mut plain, &mut output);
    assert_eq!(error, Err(Error::Peer("DECRYPTION_FAILED_OR_BAD_RECORD_MAC".into())));
    assert_eq!(pair.server.read(&mut input, &mut plain, &mut output), Err(Error::Ended));
    assert_eq!(read_all(&mut pair.client, &mut output), Err(Error::PeerAlert(Alert(20))));
}

#[test]
fn a_session_may_be_failed() {
    let authority = Authority::new("root");
    let mut pair = Pair::connected(&connector(&authority), &acceptor(), choice(&authority.issue(ECDSA).identity));
    pair.server.fail(Alert::ACCESS_DENIED, &mut pair.to_client);
    assert_eq!(pair.server.write(b"x", &mut pair.to_client), Err(Error::Ended));
    assert_eq!(read_all(&mut pair.client, &mut pair.to_client), Err(Error::PeerAlert(Alert::ACCESS_DENIED)));
}

struct Panicking;

impl Chooser for Panicking {
    fn choose(&self, _: &ClientHello<'_>) -> Result<Choice, Alert> {
        panic!("on purpose")
    }

    fn asks_for_certificates(&self) -> bool {
        false
    }
}

#[test]
fn our_own_faults_end_in_internal_error() {
    let authority = Authority::new("root");
    let (one, other) = (authority.issue(ECDSA), authority.issue(ECDSA));
    let with = |chain: &[u8], key: &[u8]| {
        let identity = Identity::new(vec![chain.to_vec()], Zeroizing::new(key.to_vec()), KeyType::Ecdsa);
        fixed(choice(&identity)) as Arc<dyn Chooser + Send + Sync>
    };
    let no_chain = fixed(choice(&Identity::new(vec![], Zeroizing::new(one.key.clone()), KeyType::Ecdsa)));
    let mut trailing = one.key.clone();
    trailing.push(0);
    let cases: [(&str, Arc<dyn Chooser + Send + Sync>); 6] = [
        ("another's key", with(&one.certificate, &other.key)),
        ("no key", with(&one.certificate, b"")),
        ("a key and more", with(&one.certificate, &trailing)),
        ("no certificate", with(b"not a certificate", &one.key)),
        ("no chain", no_chain),
        ("a panic", Arc::new(Panicking)),
    ];
    for (what, chooser) in cases {
        // Twice: what does not parse must not parse the second time either.
        for _ in 0..2 {
            let mut pair = Pair::new(&connector(&authority), &acceptor(), Arc::clone(&chooser));
            let ends = pair.handshake();
            assert!(matches!(ends.server, Err(Error::Ours(_))), "{what}: {ends:?}");
            assert_eq!(pair.alert_at_client(&ends), Some(Alert::INTERNAL_ERROR.0), "{what}");
        }
    }
}

#[test]
fn unfit_client_set_up_is_rejected() {
    let rejected = |result: Result<Connector, Error>| match result {
        Err(Error::Ours(what)) => what,
        other => panic!("{other:?}"),
    };
    let authority = Authority::new("root");
    let roots = [authority.der.clone(), b"nonsense".to_vec()];
    assert!(rejected(Connector::new(&roots, true, None, &[], Tls12)).starts_with("trusted root 1: "));
    rejected(Connector::new(&[], true, None, &[vec![b'x'; 256]], Tls12));
    rejected(Connector::new(&[], true, None, &[vec![]], Tls12));
    let identity = Identity::new(vec![authority.der], Zeroizing::new(vec![1]), KeyType::Ecdsa);
    rejected(Connector::new(&[], true, Some(identity), &[], Tls12));
}

#[test]
fn a_server_that_says_too_much_is_rejected() {
    // Bytes behind the handshake that are no TLS record.
    let authority = Authority::new("root");
    let mut pair = Pair::connected(&connector(&authority), &acceptor(), choice(&authority.issue(ECDSA).identity));
    pair.echo();
    let mut output = Vec::new();
    let result = pair.client.read(&mut &b"HTTP/1.1 200 OK\r\n\r\n"[..], &mut [0; 64], &mut output);
    assert!(matches!(result, Err(Error::Peer(_))), "{result:?}");
    assert_eq!(pair.client.handshake(&mut &[][..], &mut output), Err(Error::Ended));
    assert_eq!(pair.server.handshake(&mut &[][..], &mut output), Ok(Handshake::Done), "asking again does no harm");
}
