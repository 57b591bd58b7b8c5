//! Proofs of names: what an authority asks for is put where it will look: here, and on the other nodes of a fleet.

use std::net::IpAddr;

use config::ChallengeKind;
use instant_acme::{ChallengeType, Identifier, KeyAuthorization};

use crate::peers::Proof;

/// How the library calls a kind of challenge.
pub fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
        ChallengeKind::DnsPersist01 => ChallengeType::Unknown(kind.name().to_owned()),
    }
}

/// Whether an identifier can be proved this way.
pub fn can_prove(kind: ChallengeKind, identifier: &Identifier, wildcard: bool) -> bool {
    (!wildcard || kind.proves_wildcards()) && (matches!(identifier, Identifier::Dns(_)) || kind.proves_addresses())
}

/// What shows that a name is ours to whoever connects to us.
///
/// # Errors
/// It cannot be shown so.
pub fn of(
    kind: ChallengeKind,
    identifier: &Identifier,
    (token, authorization): (&str, &KeyAuthorization),
) -> Result<Proof, String> {
    let (name, server_name) = match (kind, identifier) {
        (ChallengeKind::Http01, _) => {
            return Ok(Proof::Http { token: token.to_owned(), authorization: authorization.as_str().to_owned() });
        }
        (ChallengeKind::TlsAlpn01, Identifier::Dns(name)) => (name.clone(), name.to_ascii_lowercase()),
        (ChallengeKind::TlsAlpn01, Identifier::Ip(address)) => (address.to_string(), reverse_name(*address)),
        _ => return Err("the authority asks for something else than a name or an address".to_owned()),
    };
    Ok(Proof::Tls { name, server_name, digest: authorization.digest().as_ref().to_vec() })
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
    fn addresses_are_asked_for_by_their_reverse_name() {
        let name = |address: &str| reverse_name(address.parse().unwrap());
        assert_eq!(name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert_eq!(name("2001:db8::5"), "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
    }
}
