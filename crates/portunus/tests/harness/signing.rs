//! Tokens that are genuine, and their parts.

use std::time::{SystemTime, UNIX_EPOCH};

use tls::crypto::verify::{MacKey, Sha2};

/// The secret that [`token`] is signed with.
pub const SECRET: &str = "a secret of thirty-two bytes or so";

/// Bytes as tokens have them (RFC 7515 §2).
pub fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        (0..=three.len()).for_each(|at| out.push(DIGITS[(word >> (18 - 6 * at)) as usize & 63] as char));
    }
    out
}

/// Header and claims, as they are signed.
pub fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()))
}

/// A message with its HMAC by this secret (HS256).
pub fn signed(secret: &str, message: &str) -> String {
    let mac = MacKey::new(secret.as_bytes().to_vec()).mac(Sha2::Sha256, message.as_bytes()).unwrap();
    format!("{message}.{}", base64url(&mac))
}

/// A genuine token with these claims beside `exp`.
pub fn token(claims: &str) -> String {
    let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 6000;
    signed(SECRET, &unsigned(r#"{"alg":"HS256"}"#, &format!(r#"{{"exp":{exp},{claims}}}"#)))
}
