//! A key set, a list of addresses and a token, each of any bytes: none panics, and no token made by anybody else is genuine.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use config::Algorithm;
use config::ClaimRule;
use config::{KeySource, UpstreamConfig};
use proxy::auth::{KeyRing, TokenRule};
use proxy::client::AddressSet;

/// The set whose private halves nobody has.
const SET: &[u8] = br#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

fn ring(set: &[u8]) -> Result<KeyRing, String> {
    let source = KeySource::Url {
        upstream: UpstreamConfig::new("keys").into(),
        host: String::new(),
        target: String::new(),
        refresh: Duration::MAX,
    };
    let ring = KeyRing::load(&source, &[])?;
    ring.replace(set)?;
    Ok(ring)
}

fn rule() -> &'static TokenRule {
    static RULE: OnceLock<TokenRule> = OnceLock::new();
    RULE.get_or_init(|| TokenRule {
        algorithms: Algorithm::ALL.iter().map(|(_, algorithm)| *algorithm).collect(),
        keys: ring(SET).unwrap().into(),
        claims: ClaimRule { issuers: Vec::new(), audiences: Vec::new(), leeway: Duration::ZERO, require_expiry: false },
    })
}

/// Any bytes.
pub fn check(bytes: &[u8]) {
    if let Ok(ring) = ring(bytes) {
        assert!(ring.keys().is_some_and(|keys| (1..=100).contains(&keys.len())));
    }
    let rejected = rule().check(bytes, SystemTime::UNIX_EPOCH).map(|_| ()).unwrap_err();
    assert!(rejected.reason.code().starts_with("jwt_") && !rejected.insufficient);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match AddressSet::parse(text) {
        Ok(allowed) => assert_eq!(allowed, AddressSet::parse(&format!("{text}\n\n# more\n")).unwrap()),
        Err(problems) => assert!(!problems.is_empty() && problems.len() <= 100),
    }
}
