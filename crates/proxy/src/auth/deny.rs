//! Tokens that are rejected wherever they turn up: an exact set, of which memory holds keyed hashes only.
//!
//! Every token of the file is in the set and nothing else is; a set is read whole or rejected. A token is compared by what identifies it: of a
//! signed one its header and its claims (of a PASETO message and footer), since the spelling of the signature, and with ECDSA the signature itself, can be changed by whoever
//! holds the token. Knows nothing else of what a token means.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use config::TokenPlaces;
use tls::crypto::digest;
use tls::crypto::verify::keyed_hash;
use wire::http::RequestHead;

use super::base64url;
use crate::client::read_list;

/// The tokens that are rejected.
pub struct DeniedTokens {
    places: TokenPlaces,
    key: [u8; 32],
    hashes: HashSet<[u8; 32], BuildHasherDefault<FirstBytes>>,
}

impl std::fmt::Debug for DeniedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeniedTokens({})", self.hashes.len())
    }
}

impl DeniedTokens {
    /// Reads the list; empty lines do not count, blanks around a token neither.
    ///
    /// # Errors
    /// The file cannot be read, or there is no entropy for the key.
    pub fn load(places: &TokenPlaces) -> Result<DeniedTokens, String> {
        DeniedTokens::parse(places, &read_list(Path::new(&places.file))?)
    }

    fn parse(places: &TokenPlaces, text: &str) -> Result<DeniedTokens, String> {
        let key = digest::random::<32>().map_err(|error| error.to_string())?;
        let tokens = text.lines().map(str::trim).filter(|token| !token.is_empty());
        let hashes = tokens.map(|token| keyed_hash(&key, &identity(token.as_bytes()))).collect();
        Ok(DeniedTokens { places: places.clone(), key, hashes })
    }

    /// Whether a request carries one of them, in any of the places and in any of several fields or cookies by the same name.
    pub fn denies(&self, head: &RequestHead) -> bool {
        self.carries(head, &|token| self.hashes.contains(&keyed_hash(&self.key, &identity(token))))
    }

    /// Whether a request carries one, in any of the same places, whose [`fingerprint`] is denied elsewhere.
    pub fn denies_by(&self, head: &RequestHead, is_denied: impl Fn([u8; 32]) -> bool) -> bool {
        self.carries(head, &|token| is_denied(fingerprint(token)))
    }

    fn carries(&self, head: &RequestHead, holds: &Holds<'_>) -> bool {
        let cookie = self.places.cookie.as_ref().is_some_and(|name| {
            head.fields
                .get_all("cookie")
                .flat_map(|field| cookies(field, name.as_bytes()))
                .any(|value| holds_cookie(value, holds))
        });
        cookie
            || self
                .places
                .header
                .as_ref()
                .is_some_and(|name| head.values(name).any(|field| self.holds_field(field, holds)))
    }

    /// Several fields and one with commas say the same (RFC 9110 §5.3), so each part counts, and the whole.
    fn holds_field(&self, field: &[u8], holds: &Holds<'_>) -> bool {
        let holds = |part: &[u8]| {
            let part = part.trim_ascii();
            is_held(part, holds) || (self.places.trim_bearer && is_held(without_bearer(part), holds))
        };
        holds(field) || (field.contains(&b',') && field.split(|byte| *byte == b',').any(holds))
    }
}

/// Whether a token is meant.
type Holds<'h> = dyn Fn(&[u8]) -> bool + 'h;

fn is_held(token: &[u8], holds: &Holds<'_>) -> bool {
    !token.is_empty() && holds(token)
}

/// Servers differ in what they make of a cookie: each reading of it counts, with and without its quotes and its escapes.
fn holds_cookie(value: &[u8], holds: &Holds<'_>) -> bool {
    let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let holds = |value: &[u8]| is_held(value, holds) || (value.contains(&b'%') && is_held(&unescaped(value), holds));
    holds(value) || bare.is_some_and(holds)
}

/// What stands for a token in lists that are not to hold it: SHA-256 of what identifies it, whatever its spelling.
pub fn fingerprint(token: &[u8]) -> [u8; 32] {
    digest::sha256(&identity(token))
}

/// What identifies a token, whatever its spelling: of a JSON Web Signature (RFC 7515 §3.1) the header and the payload as bytes; of a JSON Web
/// Encryption (RFC 7516 §3.1) all five parts as bytes; of a PASETO its kind, message and footer; of anything else the text without the `=` that base64
/// may end with.
fn identity(token: &[u8]) -> Cow<'_, [u8]> {
    let read = paseto_identity(token).or_else(|| jose_identity(token));
    read.map_or_else(|| Cow::Borrowed(trim_padding(token)), Cow::Owned)
}

/// Of `version.purpose.body[.footer]` the two words, the body without its signature and the footer, as bytes. Signatures may be random (version 1) or
/// be turned into others (version 3); what is encrypted is authenticated as a whole.
fn paseto_identity(token: &[u8]) -> Option<Vec<u8>> {
    let mut parts = token.split(|byte| *byte == b'.');
    let (version, purpose, body) = (parts.next()?, parts.next()?, parts.next()?);
    let signature = match (version, purpose) {
        (b"v1" | b"v2" | b"v3" | b"v4", b"local") => 0,
        (b"v1", b"public") => 256,
        (b"v2" | b"v4", b"public") => 64,
        (b"v3", b"public") => 96,
        _ => return None,
    };
    let (body, footer) = (base64url::decode_leniently(body), parts.next().unwrap_or_default());
    let message = body.len().checked_sub(signature).and_then(|length| body.get(..length)).unwrap_or(&body);
    let mut out = [version, b".", purpose].concat();
    push_part(message, &mut out);
    push_part(&base64url::decode_leniently(footer), &mut out);
    Some(out)
}

/// So that no part can be taken for the end of another one.
fn push_part(part: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(part.len() as u64).to_be_bytes());
    out.extend_from_slice(part);
}

fn jose_identity(token: &[u8]) -> Option<Vec<u8>> {
    let count = token.split(|byte| *byte == b'.').count();
    let parts = match count {
        0..3 => return None,
        5 => 5,
        // A signature, and what a lenient reader drops behind it.
        _ => 2,
    };
    let mut out = Vec::with_capacity(token.len());
    for part in token.split(|byte| *byte == b'.').take(parts) {
        push_part(&base64url::decode_leniently(part), &mut out);
    }
    let header = out.get(8..)?.trim_ascii_start();
    header.starts_with(b"{").then_some(out)
}

fn trim_padding(token: &[u8]) -> &[u8] {
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    token.get(..token.len() - padding).unwrap_or_default()
}

fn without_bearer(field: &[u8]) -> &[u8] {
    match field.split_at_checked(7) {
        Some((scheme, token)) if scheme.trim_ascii_end().eq_ignore_ascii_case(b"bearer") => token.trim_ascii(),
        _ => &[],
    }
}

/// The text with its percent escapes resolved; what is no escape stays.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        let escaped = if byte == b'%' { digit(at + 1).zip(digit(at + 2)) } else { None };
        out.push(escaped.map_or(byte, |(high, low)| (high << 4 | low) as u8));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    out
}

/// The values of the cookies by this name.
fn cookies<'f>(field: &'f [u8], name: &[u8]) -> impl Iterator<Item = &'f [u8]> {
    field.split(|byte| *byte == b';').filter_map(move |pair| {
        let at = memchr::memchr(b'=', pair)?;
        let (found, value) = pair.split_at(at);
        (found.trim_ascii() == name).then(|| value.get(1..).unwrap_or_default().trim_ascii())
    })
}

/// The hashes are uniform already: their first bytes are hash enough.
#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 ^= u64::from_ne_bytes(*first);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::path::PathBuf;

    use super::*;

    fn check(denied: &DeniedTokens, fields: &[(&str, &str)], expected: bool) {
        let mut head = RequestHead::default();
        fields.iter().for_each(|(name, value)| head.fields.push(name.as_bytes(), value.as_bytes()));
        assert_eq!(denied.denies(&head), expected, "{fields:?}");
    }

    #[test]
    fn a_token_is_found_wherever_it_is_looked_for() {
        let places = TokenPlaces {
            file: PathBuf::new(),
            cookie: Some("session".into()),
            header: Some("authorization".into()),
            trim_bearer: true,
        };
        let denied = DeniedTokens::parse(&places, "abc\n\n  def \r\n").unwrap();
        check(&denied, &[("Authorization", "Bearer abc")], true);
        check(&denied, &[("authorization", "bearer  def")], true);
        check(&denied, &[("Authorization", "abc")], true);
        check(&denied, &[("Authorization", "Bearer x"), ("Authorization", "Bearer def")], true);
        check(&denied, &[("Authorization", "Bearer x, Bearer def")], true);
        check(&denied, &[("Authorization", "Bearer abc,Bearer x")], true);
        check(&denied, &[("Authorization", "Bearer x, y")], false);
        check(&denied, &[("Cookie", "a=b; session=abc")], true);
        check(&denied, &[("Cookie", "session=\"abc\"")], true);
        check(&denied, &[("Cookie", "session=%61b%63")], true);
        check(&denied, &[("Cookie", "session=\"a%62c\"")], true);
        check(&denied, &[("Cookie", "session=%2561bc")], false);
        check(&denied, &[("Cookie", "session=abc%")], false);
        check(&denied, &[("Authorization", "Bearer\tabc")], true);
        check(&denied, &[("Cookie", "session=x"), ("Cookie", "session=def; session=y")], true);
        check(&denied, &[("Authorization", "Bearer abcd")], false);
        check(&denied, &[("Cookie", "other=abc"), ("X-Token", "abc")], false);
        check(&denied, &[("Authorization", "Bearer ")], false);
        check(&denied, &[], false);
    }

    #[test]
    fn a_token_is_found_however_it_is_spelled() {
        let places =
            TokenPlaces { file: PathBuf::new(), cookie: None, header: Some("x-token".into()), trim_bearer: false };
        // `{"alg":"ES256"}` and `{"sub":"a"}`; an encrypted one; base64 of no structure.
        let (header, payload) = ("eyJhbGciOiJFUzI1NiJ9", "eyJzdWIiOiJhIn0");
        let denied =
            DeniedTokens::parse(&places, &format!("{header}.{payload}.c2ln\n{header}.QQ.Qg.Qw.RA\nb3BhcXVl\na.b.c"))
                .unwrap();
        for found in [
            format!("{header}.{payload}.c2ln"),
            // Another signature of the same claims, padding, bits that are no byte's, the other alphabet.
            format!("{header}.{payload}.b3RoZXI"),
            format!("{header}.{payload}.c2lu"),
            format!("{header}.{payload}."),
            format!("{header}.{payload}=.c2ln=="),
            format!("{header}.{}1.c2ln", &payload[..payload.len() - 1]),
            format!("{header}.QR.Qg==.Qw.RA"),
            format!("{header}.QQ.Qg.Q!w.RA"),
            format!("{header}.{payload}.c2ln."),
            "b3BhcXVl==".to_owned(),
            "a.b.c=".to_owned(),
        ] {
            check(&denied, &[("X-Token", &found)], true);
        }
        for other in [
            format!("{header}.eyJzdWIiOiJiIn0.c2ln"),
            format!("eyJhbGciOiJFUzM4NCJ9.{payload}.c2ln"),
            format!("{header}.{payload}"),
            format!("{header}.QQ.Qg.Qw.RQ"),
            "b3BhcXVm".to_owned(),
            "a.b.d".to_owned(),
        ] {
            check(&denied, &[("X-Token", &other)], false);
        }
    }

    #[test]
    fn a_hundred_thousand_tokens_are_all_there() {
        let places =
            TokenPlaces { file: PathBuf::new(), cookie: None, header: Some("x-token".into()), trim_bearer: false };
        let text: String = (0..100_000).map(|number| format!("token-{number}\n")).collect();
        let denied = DeniedTokens::parse(&places, &text).unwrap();
        for number in (0..100_000).step_by(997) {
            check(&denied, &[("X-Token", &format!("token-{number}"))], true);
            check(&denied, &[("X-Token", &format!("token+{number}"))], false);
        }
    }
}
