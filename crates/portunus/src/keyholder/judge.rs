//! What a request may: pure judgement of a frame under a rule's view. Does no work and answers nothing.

use wire::keyless::{ErrorCode, Frame, KeyFamily, Operation};

use super::holdings::{Granted, View};
use super::keys::Key;

/// Longest message that is signed whole with Ed25519, bytes. What TLS signs is below 200.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// What is to become of a request.
#[derive(Debug)]
pub(super) enum Verdict<'v> {
    /// An echo.
    Pong,
    /// Work with a key.
    Work(Operation, &'v Granted),
}

/// Judges a request. `mixed` answers ECDSA opcodes for RSA keys, too.
///
/// The order matters: the key is looked for before anything is said about the operation, and a key that is not granted is not in the view, so that
/// nothing tells it from one that does not exist.
///
/// # Errors
/// The code to answer with.
pub(super) fn judge<'v>(frame: &Frame<'_>, view: &'v View, mixed: bool) -> Result<Verdict<'v>, ErrorCode> {
    let operation = Operation::from_opcode(frame.opcode)?;
    if operation == Operation::Ping {
        return Ok(Verdict::Pong);
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
    Ok(Verdict::Work(operation, granted))
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
