//! JSON Web Tokens (RFC 7519) as bearer tokens (RFC 6750): signature, algorithm, times, issuer, audience, scopes.
//!
//! Follows RFC 8725: the algorithms are a list in the configuration, never what the token asks for; a key is used for its own kind only;
//! `crit` is rejected; claims are demanded as configured. Fetches nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::Algorithm;
use reason::Reason;

use super::base64url;
use super::json::{Object, Value};
use super::keys::KeyRing;

/// Longest token that is looked at, bytes. Heads are bounded anyway; this bounds what a signature is computed over.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Keys tried for a token that names none.
const MAX_KEYS_TRIED: usize = 8;

/// What a token must fulfil.
#[derive(Debug)]
pub struct TokenRule {
    /// The algorithms that are taken, exactly.
    pub algorithms: Vec<Algorithm>,
    /// The keys.
    pub keys: Arc<KeyRing>,
    /// What its claims must be.
    pub claims: ClaimRule,
}

/// What must hold for the claims of a token, wherever they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRule {
    /// `iss` must be one of these; empty for any.
    pub issuers: Vec<String>,
    /// `aud` must hold one of these; empty for any.
    pub audiences: Vec<String>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// A token without `exp` is rejected.
    pub require_expiry: bool,
}

/// Why a token is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    /// The reason, for logs and metrics.
    pub reason: Reason,
    /// It is whole and genuine, but does not reach as far: 403 rather than 401.
    pub insufficient: bool,
}

/// Rejected for this reason, as a token that is not good at all.
pub const fn rejected(reason: Reason) -> Rejected {
    Rejected { reason, insufficient: false }
}

/// What a genuine token says, as far as it is asked for.
#[derive(Debug)]
pub struct Claims(Object);

/// Whether a token is longer than any that is looked at.
pub(super) const fn is_too_long(token: &[u8]) -> bool {
    token.len() > MAX_TOKEN_BYTES
}

impl Claims {
    /// Whether every one of these scopes is granted: in `scope` (RFC 8693 §4.2), or in `scp` as some providers write it.
    pub fn grants(&self, scopes: &[impl AsRef<str>]) -> bool {
        scopes.iter().all(|wanted| {
            let wanted = wanted.as_ref();
            ["scope", "scp"].iter().any(|name| match self.0.get(name) {
                Some(Value::Text(text)) => text.split(' ').any(|scope| scope == wanted),
                Some(Value::List(list)) => {
                    list.iter().any(|scope| matches!(scope, Value::Text(scope) if scope == wanted))
                }
                _ => false,
            })
        })
    }
}

impl TokenRule {
    /// Checks a token at this moment; what it says if it is genuine and active.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self, token: &[u8], now: SystemTime) -> Result<Claims, Rejected> {
        if is_too_long(token) {
            return Err(rejected(Reason::JwtTooLong));
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(head), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(rejected(Reason::JwtMalformed));
        };
        let malformed = || rejected(Reason::JwtMalformed);
        let message = token.get(..head.len() + 1 + payload.len()).unwrap_or_default();
        let head = base64url::decode(head).ok_or_else(malformed)?;
        let head = Object::read(&head).map_err(|_| malformed())?;
        let signature = base64url::decode(signature).ok_or_else(malformed)?;
        self.check_signature(&head, message, &signature)?;
        let payload = base64url::decode(payload).ok_or_else(malformed)?;
        let claims = Object::read(&payload).map_err(|_| malformed())?;
        self.claims.check(&claims, now)?;
        Ok(Claims(claims))
    }

    fn check_signature(&self, head: &Object, message: &[u8], signature: &[u8]) -> Result<(), Rejected> {
        // What the token demands to be understood and is not (RFC 7515 §4.1.11); `b64` (RFC 7797) is among it.
        if head.get("crit").is_some() || head.get("b64").is_some() {
            return Err(rejected(Reason::JwtCriticalHeader));
        }
        let algorithm = head.text("alg").and_then(Algorithm::from_name).filter(|one| self.algorithms.contains(one));
        let Some(algorithm) = algorithm else { return Err(rejected(Reason::JwtAlgorithm)) };
        let id = match head.get("kid") {
            None => None,
            Some(Value::Text(id)) => Some(id.as_str()),
            Some(_) => return Err(rejected(Reason::JwtMalformed)),
        };
        let Some(keys) = self.keys.keys() else { return Err(rejected(Reason::JwtNoKeys)) };
        let mut any = false;
        for key in keys.iter().filter(|key| key.is_for(algorithm, id)).take(MAX_KEYS_TRIED) {
            any = true;
            if key.verify(algorithm, message, signature) {
                return Ok(());
            }
        }
        if any {
            return Err(rejected(Reason::JwtSignature));
        }
        self.keys.want();
        Err(rejected(Reason::JwtUnknownKey))
    }
}

impl ClaimRule {
    /// Checks claims at this moment.
    pub(super) fn check(&self, claims: &Object, now: SystemTime) -> Result<(), Rejected> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = self.leeway.as_secs_f64();
        let time = |name| match claims.get(name) {
            None => Ok(None),
            Some(Value::Number(seconds)) => Ok(Some(*seconds)),
            Some(_) => Err(rejected(Reason::JwtMalformed)),
        };
        match time("exp")? {
            Some(end) if now >= end + leeway => return Err(rejected(Reason::JwtExpired)),
            None if self.require_expiry => return Err(rejected(Reason::JwtNoExpiry)),
            _ => {}
        }
        if time("nbf")?.is_some_and(|start| now + leeway < start) {
            return Err(rejected(Reason::JwtNotYetValid));
        }
        // A token from the future is one whose clock cannot be believed.
        if time("iat")?.is_some_and(|at| now + leeway < at) {
            return Err(rejected(Reason::JwtNotYetValid));
        }
        if !self.issuers.is_empty() && !claims.text("iss").is_some_and(|iss| self.issuers.iter().any(|one| one == iss))
        {
            return Err(rejected(Reason::JwtIssuer));
        }
        let is_ours = |audience: &str| self.audiences.iter().any(|one| one == audience);
        let fits = match claims.get("aud") {
            _ if self.audiences.is_empty() => true,
            Some(Value::Text(audience)) => is_ours(audience),
            Some(Value::List(list)) => list.iter().any(|one| matches!(one, Value::Text(text) if is_ours(text))),
            _ => false,
        };
        if fits { Ok(()) } else { Err(rejected(Reason::JwtAudience)) }
    }
}

/// The token of an Authorization field of the Bearer scheme (RFC 6750 §2.1; the scheme's case does not matter).
pub fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = authorization.split_at_checked(7)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return None;
    }
    let token = rest.trim_ascii();
    (!token.is_empty() && !token.contains(&b' ')).then_some(token)
}
