//! Proofs of names: what an authority asks for is put where it will look, and taken away again.

use std::net::IpAddr;
use std::sync::Arc;

use config::ChallengeKind;
use instant_acme::{ChallengeType, Identifier, KeyAuthorization};
use proxy::challenges::{Challenges, Published};

use crate::key;

/// Longest token. Authorities send 22 to 64 characters.
const MAX_TOKEN_BYTES: usize = 256;

/// How the library calls a kind of challenge.
pub fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
    }
}

/// Whether an identifier can be proved this way.
pub fn can_prove(kind: ChallengeKind, identifier: &Identifier, wildcard: bool) -> bool {
    (!wildcard || kind.proves_wildcards()) && (matches!(identifier, Identifier::Dns(_)) || kind.proves_addresses())
}

/// Whether a token is one (RFC 8555 §8.1): the alphabet of base64url, and no more of it than makes sense.
pub fn is_token(token: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(is_plain)
}

/// Shows that a name is ours to whoever connects to us, until what is given back is dropped.
///
/// # Errors
/// Why it cannot be shown.
pub fn publish(
    challenges: &Arc<Challenges>,
    kind: ChallengeKind,
    identifier: &Identifier,
    (token, authorization): (&str, &KeyAuthorization),
) -> Result<Published, String> {
    let (name, server_name) = match (kind, identifier) {
        (ChallengeKind::Http01, _) => return Ok(challenges.respond(token, authorization.as_str())),
        (ChallengeKind::TlsAlpn01, Identifier::Dns(name)) => (name.clone(), name.to_ascii_lowercase()),
        (ChallengeKind::TlsAlpn01, Identifier::Ip(address)) => (address.to_string(), reverse_name(*address)),
        _ => return Err("the authority asks for something else than a name or an address".to_owned()),
    };
    let identity = key::proof(&name, authorization.digest().as_ref())?;
    Ok(challenges.present(&server_name, identity))
}

/// The server name by which an address is asked for (RFC 8738 §6).
fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let digits = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            digits.map(|digit| format!("{digit:x}.")).collect::<String>() + "ip6.arpa"
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_is_no_path() {
        for (token, expected) in [
            ("LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0", true),
            ("-_", true),
            ("", false),
            ("../../etc/passwd", false),
            ("a/b", false),
            ("a.b", false),
            ("a b", false),
            ("a\r\nb", false),
            ("a%2e", false),
        ] {
            assert_eq!(is_token(token), expected, "{token:?}");
        }
        assert!(!is_token(&"a".repeat(257)));
    }

    #[test]
    fn addresses_are_asked_for_by_their_reverse_name() {
        let name = |address: &str| reverse_name(address.parse().unwrap());
        assert_eq!(name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert_eq!(name("2001:db8::5"), "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
    }
}
