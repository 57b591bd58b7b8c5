//! What a request may: pure decision of a frame under a rule's view. Does no work and answers nothing.

use wire::keyless::{ErrorCode, Frame, KeyFamily, Operation};

use super::holdings::{Granted, View};
use super::keys::Key;

/// Longest message that is signed whole with Ed25519, bytes. What TLS signs is below 200.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// What is to become of a request.
#[derive(Debug)]
pub(super) enum Decision<'v> {
    /// An echo.
    Pong,
    /// Work with a key.
    Work(Operation, &'v Granted),
}

/// Checks a request. `mixed` answers ECDSA opcodes for RSA keys, too.
///
/// The order matters: the key is looked for before anything is said about the operation, and a key that is not granted is not in the view, so that
/// nothing tells it from one that does not exist.
///
/// # Errors
/// The code to answer with.
pub(super) fn check<'v>(frame: &Frame<'_>, view: &'v View, mixed: bool) -> Result<Decision<'v>, ErrorCode> {
    let operation = Operation::from_opcode(frame.opcode)?;
    if operation == Operation::Ping {
        return Ok(Decision::Pong);
    }
    let granted = match (frame.ski, frame.digest) {
        (Some(ski), _) => view.by_ski(ski),
        (None, Some(digest)) => view.by_digest(digest),
        (None, None) => return Err(ErrorCode::INTERNAL),
    };
    let granted = granted.ok_or(ErrorCode::KEY_NOT_FOUND)?;
    let operation = if mixed { for_family(operation, granted.key.family()) } else { operation };
    if operation.family() != granted.key.family() {
        return Err(ErrorCode::CRYPTO);
    }
    if !granted.operations.contains(operation) {
        return Err(ErrorCode::BAD_OPCODE);
    }
    if !fits(operation, frame.payload, &granted.key) {
        return Err(ErrorCode::CRYPTO);
    }
    Ok(Decision::Work(operation, granted))
}

/// With the compatibility switch, an ECDSA opcode for an RSA key means PKCS#1 v1.5 over the same hash.
fn for_family(operation: Operation, family: Option<KeyFamily>) -> Operation {
    match (operation, family) {
        (Operation::Ecdsa(hash), Some(KeyFamily::Rsa)) => Operation::RsaPkcs1(hash),
        (operation, _) => operation,
    }
}

/// Whether the payload has the exact length that the operation demands.
fn fits(operation: Operation, payload: &[u8], key: &Key) -> bool {
    match operation {
        Operation::RsaDecrypt => payload.len() == key.signing.signature_bytes(),
        Operation::Ed25519 => !payload.is_empty() && payload.len() <= MAX_MESSAGE_BYTES,
        operation => operation.payload_bytes() == Some(payload.len()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::path::Path;

    use super::super::access::Peer;
    use super::super::holdings::Holdings;
    use super::*;
    use keystore::dev_ca::{DevCa, Purpose};

    /// The identifier and the digest of a key.
    type Names = ([u8; 20], [u8; 32]);

    /// Two sets of one key each; Unix clients may use the first. What the two keys are called.
    fn holdings() -> (Holdings, [Names; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::new("Test CA").unwrap();
        let named = ["granted", "forbidden"].map(|name| {
            let pair = ca.issue(&["a.example"], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("one.key"), pair.key_pem.as_bytes()).unwrap();
            let block = keystore::pem::read(pair.key_pem.as_bytes()).unwrap().remove(0);
            let key = tls::crypto::PrivateKey::from_der(&block.der).unwrap();
            let spki = key.public_spki_der();
            let digest = tls::crypto::public_key::key_digest(spki).unwrap().unwrap();
            (tls::crypto::public_key::key_identifier(spki).unwrap(), digest)
        });
        let text = "listeners: [{ name: local, bind: 'unix:keys.sock' }]
keys: { granted: { folders: granted }, forbidden: { folders: forbidden } }
access: [{ clients: unix, keys: granted }]
";
        let config = config::parse_key_server("test", text, Path::new(dir.path())).unwrap();
        (Holdings::load(&config, None).unwrap(), named)
    }

    #[test]
    fn a_forbidden_key_is_the_same_miss_as_an_unknown_one_whatever_is_asked() {
        let (holdings, [granted, forbidden]) = holdings();
        let view = holdings.view_for(&Peer::unix());
        assert_eq!(holdings.keys().count(), 2);
        // The tables that are searched hold nothing of the other key: there is no step that only a forbidden key would cause.
        assert!(view.by_ski(&granted.0).is_some() && view.by_digest(&granted.1).is_some());
        assert!(view.by_ski(&forbidden.0).is_none() && view.by_digest(&forbidden.1).is_none());
        let (digest, long) = ([0x5a; 32], [0x5a; 300]);
        for operation in Operation::all().filter(|operation| *operation != Operation::Ping) {
            let opcode = operation.opcode().unwrap();
            for (payload, mixed) in [(&digest[..], false), (&long[..], false), (&[][..], true)] {
                for (ski, digest) in [
                    (Some(&forbidden.0), None),
                    (Some(&[7; 20]), None),
                    (None, Some(&forbidden.1)),
                    (None, Some(&[7; 32])),
                ] {
                    let frame = Frame { opcode, payload, ski, digest, ..Frame::default() };
                    let response = check(&frame, &view, mixed).err();
                    assert_eq!(response, Some(ErrorCode::KEY_NOT_FOUND), "{operation:?}");
                }
            }
        }
        let frame = Frame { opcode: 0x15, payload: &digest, ski: Some(&granted.0), ..Frame::default() };
        assert!(matches!(check(&frame, &view, false), Ok(Decision::Work(..))));
    }
}
