//! Resumption: what a ticket opens, what it must not open, and for how long.

use crate::support;

use std::sync::Arc;
use std::time::Duration;
use support::{Authority, ECDSA, NAME, Pair, acceptor, choice, connector, fixed, tickets};
use tls::ProtocolVersion::{Tls10, Tls12, Tls13};
use tls::{Acceptor, Alert, Choice, ClientAuth, Connector, Error, ServerName, Session, TicketKeys};

/// Connects, exchanges data (which brings the tickets), and says whether both sides resumed.
fn resumes(connector: &Connector, acceptor: &Acceptor, choice: &Choice) -> bool {
    let mut pair = Pair::connected(connector, acceptor, choice.clone());
    pair.echo();
    let (client, server) = (pair.client.info(), pair.server.info());
    assert_eq!(client.resumed, server.resumed);
    assert_eq!((server.server_name.as_deref(), server.key_type.is_some()), (Some(NAME), true));
    server.resumed
}

/// A connector limited to one version, for each version with tickets.
fn connectors(authority: &Authority) -> [Connector; 3] {
    [Tls10, Tls12, Tls13].map(|version| {
        let mut connector = connector(authority);
        connector.limit_version(version).unwrap();
        connector
    })
}

/// The default choice, open to all versions.
fn open_choice(authority: &Authority) -> Choice {
    Choice { policy: tls::Policy::Legacy, min_version: Tls10, ..choice(&authority.issue(ECDSA).identity) }
}

#[test]
fn a_ticket_resumes_under_its_own_context_only() {
    let authority = Authority::new("root");
    let (choice, acceptor) = (open_choice(&authority), acceptor());
    let other = Choice { context: [8; 32], ..choice.clone() };
    for connector in connectors(&authority) {
        assert!(!resumes(&connector, &acceptor, &choice));
        assert!(resumes(&connector, &acceptor, &choice));
        assert!(resumes(&connector, &acceptor, &choice), "and again with the next ticket");
        assert!(!resumes(&connector, &acceptor, &other), "another context");
        assert!(resumes(&connector, &acceptor, &other), "which has tickets of its own");
    }
}

#[test]
fn tickets_follow_the_rotation() {
    let authority = Authority::new("root");
    let choice = open_choice(&authority);
    for connector in connectors(&authority) {
        let keys = tickets();
        let acceptor = Acceptor::new(Arc::clone(&keys)).unwrap();
        assert!(!resumes(&connector, &acceptor, &choice));
        keys.rotate();
        assert!(resumes(&connector, &acceptor, &choice), "the previous generation opens");
        keys.rotate();
        assert!(resumes(&connector, &acceptor, &choice), "because the ticket was renewed");
        keys.rotate();
        keys.rotate();
        assert!(!resumes(&connector, &acceptor, &choice), "an older one does not");
    }
}

#[test]
fn tickets_survive_a_new_acceptor_but_not_new_keys() {
    let authority = Authority::new("root");
    let choice = open_choice(&authority);
    for connector in connectors(&authority) {
        let keys = tickets();
        assert!(!resumes(&connector, &Acceptor::new(Arc::clone(&keys)).unwrap(), &choice));
        assert!(resumes(&connector, &Acceptor::new(keys).unwrap(), &choice));
        assert!(!resumes(&connector, &acceptor(), &choice));
    }
}

#[test]
fn keys_outlive_their_acceptor_in_a_session() {
    let authority = Authority::new("root");
    let connector = connector(&authority);
    let mut pair = {
        let acceptor = Acceptor::new(Arc::new(TicketKeys::new(Duration::ZERO))).unwrap();
        Pair::new(&connector, &acceptor, fixed(open_choice(&authority)))
    };
    assert_eq!(pair.handshake().server, Ok(()));
    pair.echo();
}

#[test]
fn a_session_is_offered_once_and_to_its_own_name() {
    let authority = Authority::new("root");
    let (choice, acceptor) = (open_choice(&authority), acceptor());
    let connector = connector(&authority);
    assert!(!resumes(&connector, &acceptor, &choice));
    let elsewhere = Session::client(&connector, &ServerName::Dns("sub.site.example".into())).unwrap();
    let mut pair = Pair { client: elsewhere, ..Pair::new(&connector, &acceptor, fixed(choice.clone())) };
    // `Pair::new` took the session for its own client, which was dropped: a TLS 1.3 session is not offered twice.
    assert_eq!(pair.handshake().client, Ok(()));
    assert!(!pair.client.info().resumed);
    pair.echo();
    assert!(!resumes(&connector, &acceptor, &choice), "the session kept now is that of another name");
    assert!(resumes(&connector, &acceptor, &choice));
}

/// A client with a certificate.
fn proving(authority: &Authority, version: tls::ProtocolVersion) -> Connector {
    let identity = authority.issue(ECDSA).identity;
    let roots = std::slice::from_ref(&authority.der);
    let mut connector = Connector::new(roots, true, Some(identity), &[], Tls12).unwrap();
    connector.limit_version(version).unwrap();
    connector
}

#[test]
fn resumed_sessions_still_prove_the_client() {
    let authority = Authority::new("root");
    let rule = |required| Arc::new(ClientAuth::new(std::slice::from_ref(&authority.der), &[], required).unwrap());
    let acceptor = acceptor();
    for version in [Tls12, Tls13] {
        for required in [true, false] {
            let connector = proving(&authority, version);
            let choice = Choice { client_auth: Some(rule(required)), ..open_choice(&authority) };
            for resumed in [false, true, true] {
                let mut pair = Pair::connected(&connector, &acceptor, choice.clone());
                pair.echo();
                let info = pair.server.info();
                assert_eq!(info.resumed, resumed, "{version:?}");
                assert_eq!(info.peer.expect("a client certificate").subject, "O=Ports\\, Doors & Keys,CN=a leaf");
            }
        }
    }
}

#[test]
fn no_ticket_crosses_into_a_client_certificate_rule() {
    let authority = Authority::new("root");
    let roots = std::slice::from_ref(&authority.der);
    let acceptor = acceptor();
    let open = open_choice(&authority);
    let guarded = |required, crls: &[Vec<u8>]| Choice {
        client_auth: Some(Arc::new(ClientAuth::new(roots, crls, required).unwrap())),
        ..open.clone()
    };
    let list = [authority.revoke(&[])];
    for version in [Tls12, Tls13] {
        // The chooser gives all of them the same context: the rule alone must keep them apart.
        let mut without = connector(&authority);
        without.limit_version(version).unwrap();
        assert!(!resumes(&without, &acceptor, &open));
        let mut pair = Pair::new(&without, &acceptor, fixed(guarded(true, &[])));
        let ends = pair.handshake();
        assert_eq!(ends.server, Err(Error::PeerCertificate("none was sent".into())));
        let rejected = if version == Tls13 { Alert::CERTIFICATE_REQUIRED } else { Alert::HANDSHAKE_FAILURE };
        assert_eq!(pair.alert_at_client(&ends), Some(rejected.0));

        let with = proving(&authority, version);
        assert!(!resumes(&with, &acceptor, &guarded(false, &[])));
        assert!(!resumes(&with, &acceptor, &guarded(true, &[])), "optional is not required");
        assert!(!resumes(&with, &acceptor, &guarded(true, &list)), "a new revocation list");
        assert!(resumes(&with, &acceptor, &guarded(true, &list)), "the same rule, built anew: {version:?}");
    }
}

/// A client certificate of about this many bytes.
fn large_certificate(authority: &Authority, bytes: usize) -> Arc<tls::Identity> {
    let issued = authority.issue_with(ECDSA, |params| {
        for number in 0..bytes / 34 {
            let name = format!("client-{number:05}.a-long-name.example");
            params.subject_alt_names.push(rcgen::SanType::DnsName(name.as_str().try_into().unwrap()));
        }
    });
    assert!(issued.certificate.len() >= bytes, "{} bytes", issued.certificate.len());
    issued.identity
}

#[test]
fn clients_with_large_certificates_resume() {
    let authority = Authority::new("root");
    let roots = std::slice::from_ref(&authority.der);
    let rule = Arc::new(ClientAuth::new(roots, &[], true).unwrap());
    let acceptor = acceptor();
    for version in [Tls12, Tls13] {
        for bytes in [8_000, 17_000, 31_000] {
            let identity = large_certificate(&authority, bytes);
            let mut connector = Connector::new(roots, true, Some(identity), &[], Tls12).unwrap();
            connector.limit_version(version).unwrap();
            let choice = Choice { client_auth: Some(Arc::clone(&rule)), ..open_choice(&authority) };
            for resumed in [false, true, true] {
                assert_eq!(resumes(&connector, &acceptor, &choice), resumed, "{version:?}, {bytes} bytes");
            }
        }
    }
}

#[test]
fn a_hello_is_long_only_where_clients_prove_themselves() {
    let authority = Authority::new("root");
    let roots = std::slice::from_ref(&authority.der);
    let rule = Arc::new(ClientAuth::new(roots, &[], true).unwrap());
    let open = open_choice(&authority);
    let guarded = Choice { client_auth: Some(rule), ..open.clone() };
    let acceptor = acceptor();
    let connector = Connector::new(roots, true, Some(large_certificate(&authority, 17_000)), &[], Tls12).unwrap();
    assert!(!resumes(&connector, &acceptor, &guarded));
    let mut pair = Pair::new(&connector, &acceptor, fixed(open));
    let ends = pair.handshake();
    assert_eq!(ends.server, Err(Error::Peer("EXCESSIVE_MESSAGE_SIZE".into())));
}
