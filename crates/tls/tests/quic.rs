//! Handshakes under QUIC, in memory: what both sides agree on, what is rejected and with which alert, tickets, late keys.

use crate::support;

use std::sync::Arc;

use support::{Authority, ECDSA, Issued, NAME, Pair, acceptor, choice, fixed, name};
use tls::crypto::{PrivateKey, SigningKey};
use tls::quic::{Level, Secrets};
use tls::{
    Acceptor, Alert, Choice, ClientAuth, Connector, Error, Handshake, Identity, Policy, ProtocolVersion, QuicSession,
};

const LEVELS: [Level; 3] = [Level::Initial, Level::Handshake, Level::Application];

fn connector(authority: &Authority, alpn: &[&str], identity: Option<&Issued>) -> Connector {
    let alpn: Vec<Vec<u8>> = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let identity = identity.map(|issued| Arc::clone(&issued.identity));
    Connector::new(std::slice::from_ref(&authority.der), true, identity, &alpn, ProtocolVersion::Tls12).unwrap()
}

/// A choice that speaks HTTP/3.
fn h3(issued: &Issued) -> Choice {
    Choice { alpn: Arc::new([b"h3".to_vec()]), ..choice(&issued.identity) }
}

struct Sides {
    client: QuicSession,
    server: QuicSession,
}

impl Sides {
    fn new(connector: &Connector, acceptor: &Acceptor, choice: Choice) -> Sides {
        let client = QuicSession::client(connector, &name(), b"of the client").unwrap();
        let server = QuicSession::server(acceptor, fixed(choice), b"of the server").unwrap();
        Sides { client, server }
    }

    /// Carries handshake bytes to and fro, `step` at a time, until nobody has more to say.
    fn run(&mut self, step: usize) -> (Result<Handshake, Error>, Result<Handshake, Error>) {
        let mut ends = (Ok(Handshake::WantInput), Ok(Handshake::WantInput));
        loop {
            let moved = carry(&mut self.client, &mut self.server, &mut ends.1, step);
            let back = carry(&mut self.server, &mut self.client, &mut ends.0, step);
            if !moved && !back {
                return ends;
            }
        }
    }
}

fn carry(from: &mut QuicSession, to: &mut QuicSession, end: &mut Result<Handshake, Error>, step: usize) -> bool {
    let mut moved = false;
    for level in LEVELS {
        for part in from.take(level).chunks(step) {
            moved = true;
            if end.is_ok() {
                *end = to.provide(level, part);
            }
        }
    }
    moved
}

/// Whether what one side seals under these secrets opens under those of the other.
fn fit(write: &Secrets, read: &Secrets) -> bool {
    let mut packet = [&[0x40, 0, 0, 0, 0][..], b"payload", &[0; 16]].concat();
    write.write.packet_key().seal(3, &mut packet, 5);
    let (header, payload) = packet.split_at_mut(5);
    read.read.packet_key().open(3, header, payload) == Some(7) && payload.starts_with(b"payload")
}

#[test]
fn both_sides_agree_on_parameters_protocol_and_secrets() {
    let authority = Authority::new("root");
    let issued = authority.issue(ECDSA);
    for step in [usize::MAX, 100, 1] {
        let mut sides = Sides::new(&connector(&authority, &["h3"], None), &acceptor(), h3(&issued));
        assert_eq!(sides.run(step), (Ok(Handshake::Done), Ok(Handshake::Done)));
        assert_eq!(sides.client.peer_parameters(), Some(&b"of the server"[..]));
        assert_eq!(sides.server.peer_parameters(), Some(&b"of the client"[..]));
        let info = sides.server.info().unwrap();
        assert_eq!((info.version, info.alpn.as_deref()), (ProtocolVersion::Tls13, Some(&b"h3"[..])));
        assert_eq!((info.server_name.as_deref(), info.resumed), (Some(NAME), false));
        for level in [Level::Handshake, Level::Application] {
            let (client, server) = (sides.client.secrets(level).unwrap(), sides.server.secrets(level).unwrap());
            assert!(fit(&client, &server) && fit(&server, &client), "{level:?}");
            assert!(!fit(&client, &client), "each direction has its own");
            assert!(sides.server.secrets(level).is_none(), "given out once");
        }
        assert!(sides.server.secrets(Level::Initial).is_none());
    }
}

#[test]
fn secrets_of_the_last_level_wait_for_the_client() {
    let authority = Authority::new("root");
    let mut sides = Sides::new(&connector(&authority, &["h3"], None), &acceptor(), h3(&authority.issue(ECDSA)));
    let hello = sides.client.take(Level::Initial);
    assert_eq!(sides.server.provide(Level::Initial, &hello), Ok(Handshake::WantInput));
    assert!(sides.server.secrets(Level::Handshake).is_some());
    assert!(sides.server.secrets(Level::Application).is_none());
    assert!(sides.server.take(Level::Application).is_empty(), "no ticket before the client has proved itself");
}

#[test]
fn what_is_not_http3_or_not_tls_1_3_is_rejected() {
    let authority = Authority::new("root");
    let issued = authority.issue(ECDSA);
    for (offered, ours, expected) in [
        (&["hq-interop"][..], "h3", Alert::NO_APPLICATION_PROTOCOL),
        (&[], "h3", Alert::NO_APPLICATION_PROTOCOL),
        (&["h3"], "", Alert::NO_APPLICATION_PROTOCOL),
    ] {
        let alpn = if ours.is_empty() { vec![] } else { vec![ours.as_bytes().to_vec()] };
        let choice = Choice { alpn: alpn.into(), ..h3(&issued) };
        let mut server = QuicSession::server(&acceptor(), fixed(choice), b"p").unwrap();
        let connector = connector(&authority, offered, None);
        // The client's own library does not let it go without a protocol.
        let Ok(mut client) = QuicSession::client(&connector, &name(), b"p") else {
            assert!(offered.is_empty());
            continue;
        };
        let error = server.provide(Level::Initial, &client.take(Level::Initial)).unwrap_err();
        assert_eq!(server.alert(), Some(expected), "{offered:?} {error}");
        assert_eq!(server.provide(Level::Initial, b""), Err(Error::Ended));
    }
    // A policy that goes lower does not make QUIC go lower, and whoever speaks no QUIC has no transport parameters.
    let choice = Choice { policy: Policy::Legacy, min_version: ProtocolVersion::Tls10, ..h3(&issued) };
    let mut client = tls::Session::client(&connector(&authority, &["h3"], None), &name()).unwrap();
    let mut records = Vec::new();
    client.handshake(&mut &[][..], &mut records).unwrap();
    let mut server = QuicSession::server(&acceptor(), fixed(choice), b"p").unwrap();
    // Without the head of the record it is the handshake message that QUIC carries.
    server.provide(Level::Initial, &records[5..]).unwrap_err();
    assert_eq!(server.alert(), Some(Alert(109)), "missing_extension");
}

#[test]
fn a_chooser_rejects_with_its_alert() {
    let authority = Authority::new("root");
    let fixed = support::Fixed(Err(Alert::UNRECOGNIZED_NAME), 0.into());
    let mut server = QuicSession::server(&acceptor(), Arc::new(fixed), b"p").unwrap();
    let mut client = QuicSession::client(&connector(&authority, &["h3"], None), &name(), b"p").unwrap();
    assert_eq!(
        server.provide(Level::Initial, &client.take(Level::Initial)),
        Err(Error::Rejected(Alert::UNRECOGNIZED_NAME))
    );
    assert_eq!(server.alert(), Some(Alert::UNRECOGNIZED_NAME));
}

#[test]
fn tickets_resume_over_quic_only() {
    let authority = Authority::new("root");
    let (choice, acceptor) = (h3(&authority.issue(ECDSA)), acceptor());
    let connector = connector(&authority, &["h3"], None);
    let resumed = || {
        let mut sides = Sides::new(&connector, &acceptor, choice.clone());
        assert_eq!(sides.run(usize::MAX), (Ok(Handshake::Done), Ok(Handshake::Done)));
        sides.server.info().unwrap().resumed
    };
    assert!(!resumed());
    assert!(resumed());
    let mut pair = Pair::connected(&connector, &acceptor, choice.clone());
    pair.echo();
    assert!(!pair.server.info().resumed, "a ticket of QUIC is none over TCP");
    assert!(!resumed(), "and the reverse");
}

#[test]
fn client_certificates_are_asked_for_and_verified() {
    let authority = Authority::new("root");
    let stranger = Authority::new("another").issue(ECDSA);
    let (issued, own) = (authority.issue(ECDSA), authority.issue(ECDSA));
    let rule = Arc::new(ClientAuth::new(std::slice::from_ref(&authority.der), &[], true).unwrap());
    let choice = Choice { client_auth: Some(rule), ..h3(&issued) };
    for (identity, alert) in
        [(Some(&own), None), (None, Some(Alert::CERTIFICATE_REQUIRED)), (Some(&stranger), Some(Alert(48)))]
    {
        let connector = connector(&authority, &["h3"], identity);
        let mut sides = Sides::new(&connector, &acceptor(), choice.clone());
        let (_, server) = sides.run(usize::MAX);
        assert_eq!((server.is_ok(), sides.server.alert()), (alert.is_none(), alert), "{server:?}");
        if alert.is_none() {
            let peer = sides.server.info().unwrap().peer.unwrap();
            assert_eq!(peer.der, own.certificate);
        }
    }
}

#[test]
fn a_session_of_a_client_that_was_revoked_is_not_resumed() {
    let authority = Authority::new("root");
    let (issued, own, acceptor) = (authority.issue(ECDSA), authority.issue(ECDSA), acceptor());
    let rule = |revoked: &[&[u8]]| {
        let list = authority.revoke(revoked);
        Some(Arc::new(ClientAuth::new(std::slice::from_ref(&authority.der), &[list], true).unwrap()))
    };
    let (connector, current) = (connector(&authority, &["h3"], Some(&own)), rule(&[]));
    for resumed in [false, true] {
        let mut sides = Sides::new(&connector, &acceptor, Choice { client_auth: current.clone(), ..h3(&issued) });
        assert_eq!(sides.run(usize::MAX).1, Ok(Handshake::Done));
        assert_eq!(sides.server.info().unwrap().resumed, resumed);
    }
    let revoked = rule(&[&[0x0a, 0xbc]]);
    let mut sides = Sides::new(&connector, &acceptor, Choice { client_auth: revoked, ..h3(&issued) });
    assert_eq!(sides.run(usize::MAX).1, Err(Error::PeerCertificate("certificate revoked".into())));
    assert_eq!(sides.server.alert(), Some(Alert(44)));
}

#[test]
fn a_key_elsewhere_is_waited_for() {
    let authority = Authority::new("root");
    let issued = authority.issue(ECDSA);
    let remote = Identity::remote(std::slice::from_ref(&issued.certificate), issued.identity.key_type());
    let choice = Choice { identity: remote, ..h3(&issued) };
    let mut sides = Sides::new(&connector(&authority, &["h3"], None), &acceptor(), choice);
    assert_eq!(sides.run(usize::MAX).1, Ok(Handshake::WantKey));
    let request = sides.server.key_request().unwrap();
    assert_eq!(sides.server.resume(), Ok(Handshake::WantKey), "as often as one asks");
    let key = SigningKey::new(&PrivateKey::from_der(&issued.key).unwrap()).unwrap();
    let mut signature = Vec::new();
    key.perform(request.operation(), request.input(), &mut signature).unwrap();
    sides.server.respond(request.check(&signature).unwrap());
    assert_eq!(sides.server.resume(), Ok(Handshake::WantInput));
    assert_eq!(sides.run(usize::MAX), (Ok(Handshake::Done), Ok(Handshake::Done)));
}

#[test]
fn a_released_session_takes_nothing_more() {
    let authority = Authority::new("root");
    let mut sides = Sides::new(&connector(&authority, &["h3"], None), &acceptor(), h3(&authority.issue(ECDSA)));
    assert_eq!(sides.run(usize::MAX), (Ok(Handshake::Done), Ok(Handshake::Done)));
    sides.server.release();
    assert_eq!(
        sides.server.provide(Level::Application, b"\x18\0\0\x01\0"),
        Err(Error::Peer("UNEXPECTED_MESSAGE".into()))
    );
    assert!(sides.server.info().is_none() && sides.server.take(Level::Application).is_empty());
}

#[test]
fn bytes_behind_the_last_message_of_a_level_belong_to_no_other() {
    let authority = Authority::new("root");
    let choice = h3(&authority.issue(ECDSA));
    // A message that would do at the next level, and the beginning of one.
    for behind in [&b"\x14\0\0\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[..], b"\x14"] {
        for joined in [true, false] {
            let mut sides = Sides::new(&connector(&authority, &["h3"], None), &acceptor(), choice.clone());
            let mut hello = sides.client.take(Level::Initial);
            if joined {
                hello.extend_from_slice(behind);
            }
            let taken = sides.server.provide(Level::Initial, &hello);
            let outcome = if joined { taken } else { sides.server.provide(Level::Initial, behind) };
            let expected = if joined { "EXCESS_HANDSHAKE_DATA" } else { "WRONG_ENCRYPTION_LEVEL_RECEIVED" };
            assert_eq!(outcome, Err(Error::Peer(expected.into())), "{joined} {behind:?}");
        }
    }
}

#[test]
fn garbage_ends_the_handshake() {
    for bytes in [&b"\x01\0\0\x04abcd"[..], b"\x02\0\0\0", b"\x18\0\0\x01\0"] {
        let authority = Authority::new("root");
        let mut server = QuicSession::server(&acceptor(), fixed(h3(&authority.issue(ECDSA))), b"p").unwrap();
        let outcome = server.provide(Level::Initial, bytes);
        assert!(matches!(outcome, Err(Error::Peer(_))), "{bytes:?} {outcome:?}");
        assert!(server.alert().is_some());
    }
}
