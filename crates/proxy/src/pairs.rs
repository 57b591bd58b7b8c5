//! The certificates of one name, and which of them a client can verify.

use std::sync::Arc;

use tls::{Identity, KeyType};
use wire::client_hello::ClientHello;

/// The identities of one name, at most one per key type.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    ecdsa: Option<Arc<Identity>>,
    rsa: Option<Arc<Identity>>,
    ed25519: Option<Arc<Identity>>,
}

impl Pairs {
    /// Puts one in the place of its key type.
    pub fn put(&mut self, identity: &Arc<Identity>) {
        let place = match identity.key_type() {
            KeyType::Ecdsa => &mut self.ecdsa,
            KeyType::Rsa => &mut self.rsa,
            KeyType::Ed25519 => &mut self.ed25519,
        };
        *place = Some(Arc::clone(identity));
    }

    /// The identity this client can verify: ECDSA, then Ed25519, then RSA. If it can verify none, the one most clients take, so that the
    /// handshake fails with the library's own alert.
    pub fn choose(&self, hello: &ClientHello<'_>) -> Option<&Arc<Identity>> {
        let ecdsa = self.ecdsa.as_ref().filter(|identity| can_verify_ecdsa(hello, identity.curve()));
        let ed25519 = || self.ed25519.as_ref().filter(|_| hello.signature_schemes.contains(&ED25519));
        let rest = || self.rsa.as_ref().or(self.ecdsa.as_ref()).or(self.ed25519.as_ref());
        ecdsa.or_else(ed25519).or_else(rest)
    }
}

/// RFC 8446 §4.2.3.
const ED25519: u16 = 0x0807;

/// Whether a client can verify an ECDSA signature on `curve` (a NamedGroup).
///
/// In TLS 1.3 a scheme names its curve. Before, schemes name only the digest, and the certificate's curve must be among the supported
/// groups (RFC 8422 §5.1); the client must also offer a suite that authenticates with ECDSA. A client without
/// signature_algorithms means SHA-1 with anything (RFC 5246 §7.4.1.4.1).
fn can_verify_ecdsa(hello: &ClientHello<'_>, curve: u16) -> bool {
    let scheme = match curve {
        tls::identity::CURVE_P384 => 0x0503,
        tls::identity::CURVE_P521 => 0x0603,
        _ => 0x0403,
    };
    // Every policy goes up to TLS 1.3, so that a client that offers it gets it, and only the strict rule counts.
    if hello.offers_tls13() {
        return hello.signature_schemes.contains(&scheme);
    }
    let schemes = &hello.signature_schemes;
    let any_scheme =
        schemes.is_empty() || schemes.iter().any(|scheme| matches!(scheme, 0x0403 | 0x0503 | 0x0603 | 0x0203));
    let suite = hello
        .cipher_suites
        .iter()
        .any(|suite| matches!(suite, 0xc009 | 0xc00a | 0xc023 | 0xc024 | 0xc02b | 0xc02c | 0xcca9 | 0xc0ac..=0xc0af));
    any_scheme && suite && (hello.groups.is_empty() || hello.groups.contains(&curve))
}
