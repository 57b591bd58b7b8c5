//! JSON Web Tokens (RFC 7519) as bearer tokens (RFC 6750): signature, algorithm, times, issuer, audience, scopes.
//!
//! Follows RFC 8725: the algorithms are a list in the configuration, never what the token asks for; a key is used for its own kind only;
//! `crit` is rejected; claims are demanded as configured. Fetches nothing.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use config::{Algorithm, ClaimRule};
use reason::Reason;

use super::base64url;
use super::deny::unescaped;
use super::json::{Object, Value};
use super::keys::KeyRing;
use wire::http::Fields;
use wire::http::fields::is_token;

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
#[derive(Debug, PartialEq)]
pub struct Claims(pub(super) Object);

/// Longest text of a claim that goes into a field, bytes.
const MAX_CLAIM_BYTES: usize = 4 * 1024;

/// Largest whole number that all readers of JSON agree on (RFC 8259 §6).
const MAX_WHOLE: f64 = 9_007_199_254_740_991.0;

/// A claim cannot be told in one text: it is an object, too long, or a list whose items hold commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untellable;

/// Whether a token is longer than any that is looked at.
pub(super) const fn is_too_long(token: &[u8]) -> bool {
    token.len() > MAX_TOKEN_BYTES
}

impl Claims {
    /// The claim of this name: a member, or one within objects, with dots between (`realm_access.roles`).
    fn get(&self, name: &str) -> Option<&Value> {
        let mut found = self.0.get(name);
        let (mut object, mut rest) = (&self.0, name);
        while found.is_none() {
            let (outer, inner) = rest.split_once('.')?;
            let Some(Value::Object(next)) = object.get(outer) else { return None };
            (object, rest) = (next, inner);
            found = object.get(rest);
        }
        found
    }

    /// A claim as one text: a list with commas between; none if it is missing, null or empty.
    ///
    /// # Errors
    /// It cannot be told so that every reader takes it for the same.
    pub fn text(&self, name: &str) -> Result<Option<Cow<'_, str>>, Untellable> {
        let text = match self.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::List(items)) => {
                let mut out = String::new();
                for item in items {
                    let item = scalar(item).filter(|item| !item.is_empty() && !item.contains(',')).ok_or(Untellable)?;
                    out.push_str(if out.is_empty() { "" } else { "," });
                    out.push_str(&item);
                }
                Cow::Owned(out)
            }
            Some(value) => scalar(value).ok_or(Untellable)?,
        };
        if text.len() > MAX_CLAIM_BYTES {
            return Err(Untellable);
        }
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// The values of a claim: itself, or the items of a list, as far as they are no lists or objects.
    pub fn values(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let items = match self.get(name) {
            Some(Value::List(items)) => items.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        items.iter().filter_map(scalar)
    }

    /// Whether a claim is one of these values, or a list that holds one.
    pub fn is_any(&self, name: &str, values: &[String]) -> bool {
        self.values(name).any(|value| values.iter().any(|one| *one == value))
    }

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
        check_claims(&self.claims, &claims, now)?;
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
        // Also where a key was tried: it may have been replaced under the same name, or have none.
        self.keys.want();
        Err(rejected(if any { Reason::JwtSignature } else { Reason::JwtUnknownKey }))
    }
}

/// Checks claims at this moment.
pub(super) fn check_claims(rule: &ClaimRule, claims: &Object, now: SystemTime) -> Result<(), Rejected> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let leeway = rule.leeway.as_secs_f64();
    let time = |name| match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(seconds)) => Ok(Some(*seconds)),
        Some(_) => Err(rejected(Reason::JwtMalformed)),
    };
    match time("exp")? {
        Some(end) if now >= end + leeway => return Err(rejected(Reason::JwtExpired)),
        None if rule.require_expiry => return Err(rejected(Reason::JwtNoExpiry)),
        _ => {}
    }
    if time("nbf")?.is_some_and(|start| now + leeway < start) {
        return Err(rejected(Reason::JwtNotYetValid));
    }
    // A token from the future is one whose clock cannot be believed.
    if time("iat")?.is_some_and(|at| now + leeway < at) {
        return Err(rejected(Reason::JwtNotYetValid));
    }
    if !rule.issuers.is_empty() && !claims.text("iss").is_some_and(|iss| rule.issuers.iter().any(|one| one == iss)) {
        return Err(rejected(Reason::JwtIssuer));
    }
    let is_ours = |audience: &str| rule.audiences.iter().any(|one| one == audience);
    let fits = match claims.get("aud") {
        _ if rule.audiences.is_empty() => true,
        Some(Value::Text(audience)) => is_ours(audience),
        Some(Value::List(list)) => list.iter().any(|one| matches!(one, Value::Text(text) if is_ours(text))),
        _ => false,
    };
    if fits { Ok(()) } else { Err(rejected(Reason::JwtAudience)) }
}

/// A claim that is no list and no object, as text.
fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Text(text) => Some(Cow::Borrowed(text)),
        Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
        // A larger one may have lost its last digits, and so be another user's.
        Value::Number(number) if number.abs() <= MAX_WHOLE => Some(Cow::Owned(number.to_string())),
        Value::Number(_) | Value::Null | Value::List(_) | Value::Object(_) => None,
    }
}

/// Whether a query holds a bearer token (RFC 6750 §2.3), which nobody here has verified.
pub fn is_in_query(query: &[u8]) -> bool {
    let mut names =
        query.split(|byte| matches!(byte, b'&' | b';')).filter_map(|pair| pair.split(|byte| *byte == b'=').next());
    names.any(|name| unescaped(name) == b"access_token")
}

/// The token that a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown<'h> {
    /// None.
    None,
    /// This one.
    One(&'h [u8]),
    /// Readers would not agree: several, or one that is not written as RFC 6750 has it.
    Unclear,
}

/// The token in `Authorization`, or in the cookie of this name.
pub fn shown_in<'h>(fields: &'h Fields, cookie: Option<&str>) -> Shown<'h> {
    if let Some(name) = cookie {
        // Readers differ in whether blanks around a name belong to it, and a token beside the cookie would go on unverified.
        let is_beside = !matches!(shown_in(fields, None), Shown::None);
        let mut values = fields.cookies(name.as_bytes());
        return match (values.next(), values.next(), named_like(fields, name.as_bytes())) {
            _ if is_beside => Shown::Unclear,
            (None, _, 0) => Shown::None,
            (Some(token), None, 1) => Shown::One(token),
            _ => Shown::Unclear,
        };
    }
    let mut values = fields.get_all("authorization");
    match (values.next(), values.next()) {
        (None, _) => Shown::None,
        (Some(_), Some(_)) => Shown::Unclear,
        (Some(value), None) => match bearer(value).filter(|token| !token.contains(&b',')) {
            Some(token) => Shown::One(token),
            // Readers differ in what may stand around the name of a scheme, and in which of several credentials they take; so whatever no name may
            // hold ends it here.
            None => {
                let names_bearer = value.split(|byte| *byte == b',').any(|credential| {
                    let mut words = credential.split(|byte| !is_token(&[*byte])).filter(|word| !word.is_empty());
                    words.next().is_some_and(|first| first.eq_ignore_ascii_case(b"bearer"))
                });
                if names_bearer { Shown::Unclear } else { Shown::None }
            }
        },
    }
}

/// How many cookies some reader could take for this one.
fn named_like(fields: &Fields, name: &[u8]) -> usize {
    let pairs = fields.get_all("cookie").flat_map(|value| value.split(|byte| matches!(byte, b';' | b',')));
    let names = pairs.filter_map(|pair| pair.split(|byte| *byte == b'=').next());
    names.filter(|found| found.trim_ascii() == name).count()
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
