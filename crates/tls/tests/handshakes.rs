//! Handshakes and data between our client and our server, in memory.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Authority, ECDSA, Ends, NAME, Pair, RSA, acceptor, choice, connector, fixed, name, read_all};
use tls::ProtocolVersion::{Tls10, Tls11, Tls12, Tls13};
use tls::{Choice, Connector, KeyType, Policy, ProtocolVersion, Read, ServerName, Session};

const DONE: Ends = Ends { client: Ok(()), server: Ok(()) };

/// The version and suite that a client limited to `max` gets.
fn negotiated(authority: &Authority, max: ProtocolVersion, choice: Choice) -> (ProtocolVersion, &'static str) {
    let mut connector = connector(authority);
    connector.limit_version(max).unwrap();
    let kind = choice.identity.key_type();
    let mut pair = Pair::connected(&connector, &acceptor(), choice);
    pair.echo();
    let (client, server) = (pair.client.info(), pair.server.info());
    assert_eq!((client.version, client.cipher, client.group), (server.version, server.cipher, server.group));
    assert_eq!((server.key_type, client.key_type), (Some(kind), None));
    assert_eq!(server.server_name.as_deref(), Some(NAME));
    assert!(!server.resumed && server.peer.is_none());
    (server.version, server.cipher)
}

#[test]
fn every_policy_version_and_key() {
    let authority = Authority::new("root");
    let (ecdsa, rsa) = (authority.issue(ECDSA).identity, authority.issue(RSA).identity);
    let cases = [
        (Policy::Modern, &ecdsa, Tls13, "TLS_AES_128_GCM_SHA256"),
        (Policy::Modern, &rsa, Tls13, "TLS_AES_128_GCM_SHA256"),
        (Policy::Intermediate, &ecdsa, Tls13, "TLS_AES_128_GCM_SHA256"),
        (Policy::Intermediate, &rsa, Tls13, "TLS_AES_128_GCM_SHA256"),
        (Policy::Intermediate, &ecdsa, Tls12, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        (Policy::Intermediate, &rsa, Tls12, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        (Policy::Legacy, &ecdsa, Tls13, "TLS_AES_128_GCM_SHA256"),
        (Policy::Legacy, &rsa, Tls12, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        (Policy::Legacy, &ecdsa, Tls11, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
        (Policy::Legacy, &rsa, Tls11, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
        (Policy::Legacy, &ecdsa, Tls10, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
        (Policy::Legacy, &rsa, Tls10, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    ];
    for (policy, identity, version, cipher) in cases {
        let choice = Choice { policy, min_version: Tls10, ..choice(identity) };
        assert_eq!(negotiated(&authority, version, choice), (version, cipher), "{policy:?} {version:?}");
    }
}

#[test]
fn other_curves_and_ed25519() {
    let authority = Authority::new("root");
    for algorithm in [&rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ECDSA_P521_SHA512, &rcgen::PKCS_ED25519] {
        for version in [Tls12, Tls13] {
            let choice = choice(&authority.issue(algorithm).identity);
            assert_eq!(negotiated(&authority, version, choice).0, version, "{algorithm:?}");
        }
    }
}

#[test]
fn the_hybrid_group_comes_first() {
    let authority = Authority::new("root");
    let identity = authority.issue(ECDSA).identity;
    let pair = Pair::connected(&connector(&authority), &acceptor(), choice(&identity));
    assert_eq!(pair.server.info().group, Some("X25519MLKEM768"));
    let mut older = connector(&authority);
    older.limit_version(Tls12).unwrap();
    let pair = Pair::connected(&older, &acceptor(), choice(&identity));
    assert_eq!(pair.server.info().group, Some("X25519"), "no hybrid group before TLS 1.3");
}

#[test]
fn the_chooser_is_asked_once() {
    let authority = Authority::new("root");
    let chooser = fixed(choice(&authority.issue(ECDSA).identity));
    let mut pair = Pair::new(&connector(&authority), &acceptor(), chooser.clone());
    assert_eq!(pair.handshake_in_steps(1), DONE, "one byte at a time");
    pair.echo();
    assert_eq!(chooser.1.load(Ordering::Relaxed), 1);
    assert_eq!(Arc::strong_count(&chooser), 1, "the session let go of it after the handshake");
}

#[test]
fn data_may_come_in_any_pieces() {
    let authority = Authority::new("root");
    let mut pair = Pair::connected(&connector(&authority), &acceptor(), choice(&authority.issue(ECDSA).identity));
    let sent: Vec<u8> = (0..40_000u32).map(|n| n as u8).collect();
    pair.client.write(&sent, &mut pair.to_server).unwrap();
    let (mut got, mut plain, mut output) = (Vec::new(), [0; 1000], Vec::new());
    for byte in std::mem::take(&mut pair.to_server) {
        let one = [byte];
        let mut input = &one[..];
        while let Read::Plain(count) = pair.server.read(&mut input, &mut plain, &mut output).unwrap() {
            got.extend_from_slice(&plain[..count]);
        }
        assert!(input.is_empty());
    }
    assert!(got == sent && output.is_empty());
}

#[test]
fn many_records_per_call_both_ways() {
    let authority = Authority::new("root");
    let mut pair = Pair::connected(&connector(&authority), &acceptor(), choice(&authority.issue(ECDSA).identity));
    pair.echo();
    let sent = vec![42; 1 << 20];
    let mut output = Vec::new();
    pair.server.write(&sent, &mut output).unwrap();
    assert!(output.capacity() < sent.len() + 64 * 200, "reserved once: {}", output.capacity());
    let mut input = output.as_slice();
    let mut plain = vec![0; 1 << 20];
    let read = pair.client.read(&mut input, &mut plain, &mut Vec::new()).unwrap();
    assert_eq!((read, input.len()), (Read::Plain(1 << 20), 0));
    assert!(plain == sent);
}

#[test]
fn a_full_slice_leaves_the_rest_for_later() {
    let authority = Authority::new("root");
    let mut pair = Pair::connected(&connector(&authority), &acceptor(), choice(&authority.issue(ECDSA).identity));
    pair.client.write(&[1; 100], &mut pair.to_server).unwrap();
    let (mut input, mut plain, mut output) = (pair.to_server.as_slice(), [0; 64], Vec::new());
    assert_eq!(pair.server.read(&mut input, &mut [], &mut output), Ok(Read::Plain(0)));
    assert_eq!(pair.server.read(&mut input, &mut plain, &mut output), Ok(Read::Plain(64)));
    assert!(input.is_empty() && pair.server.has_plaintext(), "the rest is inside");
    assert_eq!(pair.server.read(&mut input, &mut plain, &mut output), Ok(Read::Plain(36)));
    assert!(!pair.server.has_plaintext());
    assert_eq!(pair.server.read(&mut input, &mut plain, &mut output), Ok(Read::WantInput));
}

#[test]
fn either_side_may_close_first() {
    let authority = Authority::new("root");
    for version in [Tls12, Tls13] {
        let mut connector = connector(&authority);
        connector.limit_version(version).unwrap();
        let mut pair = Pair::connected(&connector, &acceptor(), choice(&authority.issue(ECDSA).identity));
        pair.client.close(&mut pair.to_server);
        let closed = pair.to_server.len();
        pair.client.close(&mut pair.to_server);
        assert!(closed > 0 && pair.to_server.len() == closed, "close_notify goes out once");
        assert_eq!(pair.client.write(b"late", &mut pair.to_server), Err(tls::Error::Ended));

        let mut input = pair.to_server.as_slice();
        let mut plain = [0; 64];
        assert_eq!(pair.server.read(&mut input, &mut plain, &mut Vec::new()), Ok(Read::Closed), "{version:?}");
        assert_eq!(pair.server.read(&mut &[][..], &mut plain, &mut Vec::new()), Ok(Read::Closed), "and stays so");
        pair.server.write(b"still here", &mut pair.to_client).unwrap();
        assert_eq!(read_all(&mut pair.client, &mut pair.to_client), Ok(b"still here".to_vec()));
        pair.server.close(&mut pair.to_client);
        let mut input = pair.to_client.as_slice();
        assert_eq!(pair.client.read(&mut input, &mut plain, &mut Vec::new()), Ok(Read::Closed));
    }
}

#[test]
fn data_before_the_handshake_is_an_error() {
    let authority = Authority::new("root");
    let mut client = Session::client(&connector(&authority), &name()).unwrap();
    let mut output = Vec::new();
    assert!(client.write(b"too early", &mut output).is_err());
    assert!(client.read(&mut &[][..], &mut [0; 10], &mut output).is_err());
    client.close(&mut output);
    assert!(output.is_empty());
}

/// How a client that expects `expected` ends with a server that shows a certificate for `NAME` and 127.0.0.1.
fn meets(authority: &Authority, trusted: &Authority, verify: bool, expected: ServerName) -> Ends {
    let connector = Connector::new(std::slice::from_ref(&trusted.der), verify, None, &[], Tls12).unwrap();
    let client = Session::client(&connector, &expected).unwrap();
    let chooser = fixed(choice(&authority.issue(ECDSA).identity));
    let mut pair = Pair { client, ..Pair::new(&connector, &acceptor(), chooser) };
    pair.handshake()
}

#[test]
fn servers_are_verified() {
    let (authority, stranger) = (Authority::new("root"), Authority::new("stranger"));
    let dns = |name: &str| ServerName::Dns(name.into());
    let address = |text: &str| ServerName::Ip(text.parse().unwrap());
    let no_address = "the server's address is not among its subject alternative names; a common name does not count";
    let cases = [
        (&authority, true, dns(NAME), None),
        (&authority, true, dns("SITE.example."), None),
        (
            &authority,
            true,
            dns("other.example"),
            Some("the server's name is not among its subject alternative names; a common name does not count"),
        ),
        (&authority, true, address("127.0.0.1"), None),
        (&authority, true, address("127.0.0.2"), Some(no_address)),
        (&authority, true, address("::1"), Some(no_address)),
        (&stranger, true, dns(NAME), Some("unable to get local issuer certificate")),
        (&stranger, false, dns("other.example"), None),
    ];
    for (trusted, verify, expected, rejected) in cases {
        let ends = meets(&authority, trusted, verify, expected.clone());
        match rejected {
            None => assert_eq!(ends, DONE, "{expected:?}"),
            Some(why) => {
                let lower = why.to_lowercase();
                let Err(tls::Error::PeerCertificate(said)) = &ends.client else { panic!("{expected:?}: {ends:?}") };
                assert_eq!(said.to_lowercase(), lower);
                assert!(matches!(ends.server, Err(tls::Error::PeerAlert(_))), "{ends:?}");
            }
        }
    }
}

#[test]
fn only_alternative_names_count() {
    let authority = Authority::new("root");
    let issued = authority.issue_with(ECDSA, |params| {
        params.subject_alt_names.clear();
        params.distinguished_name.push(rcgen::DnType::CommonName, NAME);
    });
    let mut pair = Pair::new(&connector(&authority), &acceptor(), fixed(choice(&issued.identity)));
    let why = "the server's name is not among its subject alternative names; a common name does not count";
    assert_eq!(pair.handshake().client, Err(tls::Error::PeerCertificate(why.into())));
}

#[test]
fn a_self_signed_certificate_may_be_its_own_root() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new([NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
    let chain = vec![certificate.der().to_vec()];
    let connector = Connector::new(&chain, true, None, &[], Tls12).unwrap();
    let identity = tls::Identity::new(chain, zeroize::Zeroizing::new(key.serialize_der()), KeyType::Ecdsa);
    Pair::connected(&connector, &acceptor(), choice(&identity)).echo();
}

#[test]
fn unfit_names_are_rejected() {
    let authority = Authority::new("root");
    for unfit in ["", ".", "a\0b", &"a".repeat(254)] {
        assert!(Session::client(&connector(&authority), &ServerName::Dns(unfit.into())).is_err(), "{unfit:?}");
    }
}

#[test]
fn a_server_certificate_is_described() {
    let authority = Authority::new("root");
    let issued = authority.issue(ECDSA);
    let pair = Pair::connected(&connector(&authority), &acceptor(), choice(&issued.identity));
    let peer = pair.client.info().peer.unwrap();
    assert_eq!(peer.der, issued.certificate);
    assert_eq!(peer.subject, "O=Ports\\, Doors & Keys,CN=a leaf");
    assert_eq!(peer.issuer, "CN=root");
    assert_eq!(peer.serial, "0ABC");
    assert_eq!(peer.fingerprint.len(), 64);
    assert_eq!(peer.dns_names, [NAME, "sub.site.example"]);
    assert_eq!(peer.uris, ["spiffe://site.example/leaf"]);
    assert_eq!(peer.emails, ["leaf@site.example"]);
    assert_eq!(peer.addresses, ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn an_unverified_certificate_is_not_described() {
    let authority = Authority::new("root");
    let connector = Connector::new(std::slice::from_ref(&authority.der), false, None, &[], Tls12).unwrap();
    let pair = Pair::connected(&connector, &acceptor(), choice(&authority.issue(ECDSA).identity));
    assert_eq!(pair.client.info().peer, None, "not even where it would pass, since nobody looked at its name");
}

#[test]
fn alpn_follows_the_servers_order() {
    let authority = Authority::new("root");
    let identity = authority.issue(ECDSA).identity;
    let list = |protocols: &[&str]| protocols.iter().map(|one| one.as_bytes().to_vec()).collect::<Vec<_>>();
    let cases: [(&[&str], &[&str], Option<&str>); 5] = [
        (&["http/1.1", "h2"], &["h2", "http/1.1"], Some("h2")),
        (&["http/1.1"], &["h2", "http/1.1"], Some("http/1.1")),
        (&[], &["h2"], None),
        (&["h2"], &[], None),
        (&["h", "h2"], &["h2"], Some("h2")),
    ];
    for (offered, ours, agreed) in cases {
        let connector =
            Connector::new(std::slice::from_ref(&authority.der), true, None, &list(offered), Tls12).unwrap();
        let choice = Choice { alpn: list(ours).into(), ..choice(&identity) };
        let pair = Pair::connected(&connector, &acceptor(), choice);
        for info in [pair.client.info(), pair.server.info()] {
            assert_eq!(info.alpn.as_deref(), agreed.map(str::as_bytes), "{offered:?} {ours:?}");
        }
    }
}

#[test]
fn sessions_may_move_between_threads_and_contexts_be_shared() {
    fn check<T: Send>() {}
    fn check_shared<T: Send + Sync>() {}
    check::<Session>();
    check_shared::<tls::Acceptor>();
    check_shared::<Connector>();
    check_shared::<tls::Identity>();
    check_shared::<tls::TicketKeys>();
    check_shared::<tls::ClientAuth>();
    assert_eq!(KeyType::Ecdsa.min(KeyType::Rsa), KeyType::Ecdsa, "ECDSA sorts first, as it is preferred");
}

#[test]
fn a_client_may_offer_less() {
    let authority = Authority::new("root");
    let identity = authority.issue(ECDSA).identity;
    let acceptor = acceptor();
    let mut narrow = connector(&authority);
    narrow.limit_groups("P-384").unwrap();
    assert!(narrow.limit_groups("no-such-group").is_err());
    for (never_resume, expected) in [(false, [false, true]), (true, [false, false])] {
        if never_resume {
            narrow.never_resume();
        }
        for resumed in expected {
            let mut pair = Pair::connected(&narrow, &acceptor, choice(&identity));
            pair.echo();
            let info = pair.client.info();
            assert_eq!((info.group, info.resumed), (Some("P-384"), resumed), "never_resume: {never_resume}");
        }
    }
}
