//! A proof that nodes of a fleet show to a certificate authority, as any bytes that came out of their store: it is read or it is none, and what is read can
//! be shown and written again.

use acme::peers::{Proof, is_token};

/// What is read says the same once it is written; a token is no path, a name is short, a digest is one.
pub fn check(data: &[u8]) {
    let Some(proof) = Proof::read(data) else { return };
    assert_eq!(Proof::read(proof.write().as_bytes()).as_ref(), Some(&proof));
    match proof {
        Proof::Http { token, authorization } => {
            assert!(is_token(&token) && authorization.len() <= 1024);
            assert!(authorization.bytes().all(|byte| (b'!'..=b'~').contains(&byte)), "{authorization:?}");
        }
        Proof::Tls { name, server_name, digest } => {
            assert_eq!(digest.len(), 32);
            assert!([&name, &server_name].iter().all(|name| (1..=255).contains(&name.len())));
        }
    }
}
