//! What only the library's own calls can provoke.
#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]
use super::*;

#[path = "../../tests/support/mod.rs"]
mod support;
use crate::{Choice, EchKey, EchKeys};
use support::{Authority, ECDSA, Pair, acceptor, choice, connector, read_all};

fn pair() -> Pair {
    let authority = Authority::new("root");
    let mut pair = Pair::connected(&connector(&authority), &acceptor(), choice(&authority.issue(ECDSA).identity));
    pair.echo();
    pair
}

/// A KeyUpdate from the client, with nothing around it. It is sent off with the next write, here of nothing.
fn update_key(pair: &mut Pair) {
    let Pair { client, to_server, .. } = pair;
    let call = |ssl| unsafe {
        assert_eq!(sys::SSL_key_update(ssl, sys::SSL_KEY_UPDATE_REQUESTED), 1);
        sys::SSL_write(ssl, std::ptr::null(), 0)
    };
    assert_eq!(client.call(&mut &[][..], to_server, call), Ok(0));
}

#[test]
fn a_flood_of_key_updates_is_rejected() {
    let mut pair = pair();
    for _ in 0..32 {
        update_key(&mut pair);
    }
    assert_eq!(read_all(&mut pair.server, &mut pair.to_server), Ok(vec![]));
    pair.client.write(b"data", &mut pair.to_server).unwrap();
    assert_eq!(read_all(&mut pair.server, &mut pair.to_server), Ok(b"data".to_vec()));
    for _ in 0..32 {
        update_key(&mut pair);
    }
    assert_eq!(read_all(&mut pair.server, &mut pair.to_server), Ok(vec![]), "data between them starts anew");
    for _ in 0..100 {
        update_key(&mut pair);
    }
    let (mut input, mut output) = (pair.to_server.as_slice(), Vec::new());
    let error = pair.server.read(&mut input, &mut [0; 100], &mut output);
    assert_eq!(error, Err(Error::Peer("TOO_MANY_POST_HANDSHAKE_MESSAGES".into())));
    assert!(input.len() > pair.to_server.len() / 2, "the rest is not even read");
    let alert = read_all(&mut pair.client, &mut output);
    assert_eq!(alert, Err(Error::PeerAlert(Alert::UNEXPECTED_MESSAGE)));
}

#[test]
fn responses_to_key_updates_wait_for_data() {
    let mut pair = pair();
    for _ in 0..10 {
        update_key(&mut pair);
    }
    let (mut input, mut output) = (pair.to_server.as_slice(), Vec::new());
    assert_eq!(pair.server.read(&mut input, &mut [0; 100], &mut output), Ok(Read::WantInput));
    assert!(output.is_empty(), "a flood does not make us write");
    pair.to_server.clear();
    pair.echo();
}

/// Notes which name each handshake is for.
struct Named(Choice, std::sync::Mutex<Vec<String>>);

impl Chooser for Named {
    fn choose(&self, hello: &wire::client_hello::ClientHello<'_>) -> Result<Choice, Alert> {
        self.1.lock().unwrap().push(String::from_utf8_lossy(hello.server_name.unwrap_or_default()).into_owned());
        Ok(self.0.clone())
    }

    fn asks_for_certificates(&self) -> bool {
        false
    }
}

/// A client that encrypts its hello for `key`, before a server that has these keys. Both know the names `site.example`, which the client asks for, and
/// `sub.site.example`, which everybody may see.
fn encrypted(key: &EchKey, keys: &[EchKey], groups: &str) -> (Pair, Arc<Named>) {
    let authority = Authority::new("root");
    let mut client = connector(&authority);
    client.limit_groups(groups).unwrap();
    let server = acceptor();
    server.open_hellos_for(&EchKeys::new(keys).unwrap()).unwrap();
    let named = Arc::new(Named(choice(&authority.issue(ECDSA).identity), Default::default()));
    let pair = Pair::new(&client, &server, Arc::clone(&named) as Arc<dyn Chooser + Send + Sync>);
    let list = crate::ech::list(&[key.config()]).unwrap();
    let set = unsafe { sys::SSL_set1_ech_config_list(pair.client.ssl.as_ptr(), list.as_ptr(), list.len()) };
    assert_eq!(set, 1);
    (pair, named)
}

const COVER: &str = "sub.site.example";
const GROUPS: &str = "X25519:P-256";

fn was_asked_again(session: &Session) -> bool {
    unsafe { sys::SSL_used_hello_retry_request(session.ssl.as_ptr()) == 1 }
}

#[test]
fn an_encrypted_hello_is_opened_with_any_of_the_keys_also_after_a_retry() {
    let keys = [EchKey::generate(COVER, 1).unwrap(), EchKey::generate(COVER, 2).unwrap()];
    for (key, groups, retries) in
        [(0, GROUPS, false), (1, GROUPS, false), (0, "P-384:X25519", true), (1, "P-384:X25519", true)]
    {
        let (mut pair, named) = encrypted(&keys[key], &keys, groups);
        let mut first = Vec::new();
        assert_eq!(pair.client.handshake(&mut &[][..], &mut first), Ok(Handshake::WantInput));
        let shows = |name: &str| first.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(
            shows(COVER) && first.windows(13).filter(|window| window.ends_with(b"site.example")).count() == 1,
            "the name is not shown"
        );
        pair.to_server = first;
        let ends = pair.handshake();
        assert_eq!((ends.client, ends.server), (Ok(()), Ok(())), "{key} {groups}");
        assert_eq!(was_asked_again(&pair.server), retries, "{key} {groups}");
        let info = pair.server.info();
        assert!(info.ech && pair.client.info().ech);
        assert_eq!(info.server_name.as_deref(), Some("site.example"));
        assert_eq!(*named.1.lock().unwrap(), ["site.example"], "asked once, for the inner name");
        pair.echo();
    }
}

#[test]
fn who_has_an_outdated_key_is_told_the_new_one_by_the_public_name() {
    let keys = [EchKey::generate(COVER, 1).unwrap(), EchKey::generate(COVER, 2).unwrap()];
    // Of another pair with the same number, and with a number that is not known.
    for stranger in [EchKey::generate(COVER, 1).unwrap(), EchKey::generate(COVER, 77).unwrap()] {
        for groups in [GROUPS, "P-384:X25519"] {
            let (mut pair, named) = encrypted(&stranger, &keys, groups);
            let ends = pair.handshake();
            assert_eq!(*named.1.lock().unwrap(), [COVER], "the outer name");
            // The library's client ends the handshake before it says so.
            assert_eq!(ends.server, Ok(()));
            let said = read_all(&mut pair.server, &mut pair.to_server);
            assert_eq!(said, Err(Error::PeerAlert(Alert(121))), "ech_required");
            assert!(ends.client.is_err() && !pair.server.info().ech);
            let (mut told, mut length) = (std::ptr::null(), 0);
            unsafe { sys::SSL_get0_ech_retry_configs(pair.client.ssl.as_ptr(), &raw mut told, &raw mut length) };
            let told = unsafe { std::slice::from_raw_parts(told, length) };
            assert_eq!(told, crate::ech::list(&[keys[0].config()]).unwrap(), "the first alone");
        }
    }
}

#[test]
fn encrypted_hellos_that_were_tampered_with_open_nothing() {
    let keys = [EchKey::generate(COVER, 1).unwrap()];
    let hello = |pair: &mut Pair| {
        let mut first = Vec::new();
        assert_eq!(pair.client.handshake(&mut &[][..], &mut first), Ok(Handshake::WantInput));
        first
    };
    let length = hello(&mut encrypted(&keys[0], &keys, GROUPS).0).len();
    // Behind the headers of record and message, which are not part of it.
    for at in (9..length).step_by(3) {
        let (mut pair, named) = encrypted(&keys[0], &keys, GROUPS);
        let mut changed = hello(&mut pair);
        let at = at.min(changed.len() - 1);
        changed[at] ^= 1 << (at % 8);
        let mut output = Vec::new();
        let outcome = pair.server.handshake(&mut &changed[..], &mut output);
        // What was changed is authenticated as a whole, so that nothing of the inner hello comes out.
        let asked = named.1.lock().unwrap().clone();
        assert!(!asked.iter().any(|name| name == "site.example"), "byte {at}: {asked:?} {outcome:?}");
        assert!(!pair.server.info().ech, "byte {at}");
    }
}

/// Seconds from 1970 to the beginning of a year, leap days aside: near enough between dates that are years apart.
fn year(number: i64) -> i64 {
    (number - 1970) * 31_557_600
}

/// What becomes of a client that comes back in 2100, then in 2200, each over TLS 1.2, TLS 1.3 and QUIC, where the intermediate of its chain is
/// good until `chain` and the revocation lists until `lists`: whether its session was resumed, or why it was rejected.
fn resumed_later(chain: i32, lists: i32) -> Vec<Result<bool, String>> {
    let root = Authority::new("root");
    let between = root.below("between", chain);
    let (server, client) = (root.issue(ECDSA), between.issue(ECDSA));
    let certificates = vec![client.certificate.clone(), between.der.clone()];
    let identity = crate::Identity::new(certificates, zeroize::Zeroizing::new(client.key), crate::KeyType::Ecdsa);
    let roots = std::slice::from_ref(&root.der);
    let crls = [root.revocation_list(&[], lists), between.revocation_list(&[], lists)];
    let rule = |time| {
        let client_auth = Some(Arc::new(ClientAuth::new(roots, &crls, true).unwrap().at(time)));
        Choice { client_auth, ..choice(&server.identity) }
    };
    let mut found = Vec::new();
    for later in [year(2100), year(2200)] {
        for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
            let (acceptor, own) = (acceptor(), Some(Arc::clone(&identity)));
            let mut connector = Connector::new(roots, true, own, &[], ProtocolVersion::Tls12).unwrap();
            connector.limit_version(version).unwrap();
            Pair::connected(&connector, &acceptor, rule(year(2050))).echo();
            let mut pair = Pair::new(&connector, &acceptor, support::fixed(rule(later)));
            let end = pair.handshake().server;
            found.push(end.map(|()| pair.server.info().resumed).map_err(|error| error.to_string()));
        }
        let (acceptor, alpn) = (acceptor(), [b"h3".to_vec()]);
        let own = Some(Arc::clone(&identity));
        let connector = Connector::new(roots, true, own, &alpn, ProtocolVersion::Tls13).unwrap();
        let over_quic = |time| {
            let choice = Choice { alpn: Arc::new(alpn.clone()), ..rule(time) };
            quic_handshake(&connector, &acceptor, choice).map_err(|error| error.to_string())
        };
        assert_eq!(over_quic(year(2050)), Ok(false));
        found.push(over_quic(later));
    }
    found
}

/// A handshake over QUIC: whether it resumed a session.
fn quic_handshake(connector: &Connector, acceptor: &Acceptor, choice: Choice) -> Result<bool, Error> {
    use crate::quic::{Level, QuicSession};
    let mut client = QuicSession::client(connector, &support::name(), b"p").unwrap();
    let mut server = QuicSession::server(acceptor, support::fixed(choice), b"p").unwrap();
    // Client, server, client; the last are tickets.
    for _ in 0..2 {
        for level in [Level::Initial, Level::Handshake, Level::Application] {
            let bytes = client.take(level);
            if !bytes.is_empty() {
                server.provide(level, &bytes)?;
            }
        }
        for level in [Level::Initial, Level::Handshake, Level::Application] {
            let bytes = server.take(level);
            if !bytes.is_empty() {
                client.provide(level, &bytes)?;
            }
        }
    }
    Ok(server.info().unwrap().resumed)
}

#[test]
fn a_resumed_session_is_verified_as_at_its_beginning() {
    let good = || vec![Ok(true); 3];
    let rejected = |why: &str| vec![Err(format!("the peer's certificate was not accepted: {why}")); 3];
    assert_eq!(resumed_later(4000, 4000), [good(), good()].concat());
    assert_eq!(resumed_later(2150, 4000), [good(), rejected("certificate has expired")].concat());
    assert_eq!(resumed_later(4000, 2150), [good(), rejected("CRL has expired")].concat());
}
