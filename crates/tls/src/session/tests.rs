//! What only the library's own calls can provoke.
#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]
use super::*;

#[path = "../../tests/support/mod.rs"]
mod support;
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
