//! Query parameters whose values no log shows, found by name however the name is spelled.
//!
//! A name is compared decoded, without case, with `-`, `.` and spaces as `_`, and as part of `auth[token]`, since servers take all of these for the same parameter. Under a
//! name that is too long to compare the value is redacted. Names within an encoded URL that is itself a value are not looked for.

use std::sync::OnceLock;

use memchr::{memchr, memchr3};

/// What stands in place of a value.
pub(super) const REDACTED: &[u8] = b"REDACTED";

/// Decoded bytes of a name that are compared. The value under a longer one is redacted.
const MAX_NAME_BYTES: usize = 128;

/// Names of parameters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Redacted {
    /// In lower case, with `_`.
    names: Vec<Box<[u8]>>,
    /// Which lengths they have, one bit each.
    lengths: u64,
}

impl Redacted {
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Redacted {
        let names: Vec<Box<[u8]>> = names.into_iter().map(|name| name.bytes().map(folded).collect()).collect();
        let lengths = names.iter().fold(0, |all, name| all | bit(name.len()));
        Redacted { names, lengths }
    }

    /// No name at all.
    pub(super) const fn nothing() -> &'static Redacted {
        static NOTHING: Redacted = Redacted { names: Vec::new(), lengths: 0 };
        &NOTHING
    }

    /// Names that are known to hold secrets.
    pub(super) fn well_known() -> &'static Redacted {
        static KNOWN: OnceLock<Redacted> = OnceLock::new();
        KNOWN.get_or_init(|| Redacted::new(config::WELL_KNOWN_SECRETS.iter().copied()))
    }

    /// Gives the pieces of a target, or of any text with one in it, without what is not to be shown.
    pub(super) fn pieces(&self, text: &[u8], put: &mut dyn FnMut(&[u8])) {
        let query = memchr(b'?', text).filter(|_| !self.names.is_empty());
        let Some(query) = query else { return put(text) };
        let (mut shown, mut at) = (0, query + 1);
        while let Some(length) = memchr3(b'=', b'&', b';', &text[at..]) {
            let name = &text[at..at + length];
            let has_value = text[at + length] == b'=';
            at += length + 1;
            if has_value && self.has(name) {
                put(&text[shown..at]);
                put(REDACTED);
                // Whether a semicolon ends the value depends on the server.
                at += memchr(b'&', &text[at..]).unwrap_or(text.len() - at);
                shown = at;
                at = (at + 1).min(text.len());
            } else if has_value {
                at += memchr3(b'&', b';', b'?', &text[at..]).map_or(text.len() - at, |end| end + 1);
            }
        }
        put(&text[shown..]);
    }

    fn has(&self, name: &[u8]) -> bool {
        let mut decoded = [0; MAX_NAME_BYTES];
        let Some(name) = decode(name, &mut decoded) else { return true };
        name.split(|byte| matches!(byte, b'[' | b']' | b'?'))
            .map(trimmed)
            .any(|part| self.lengths & bit(part.len()) != 0 && self.names.iter().any(|known| **known == *part))
    }
}

const fn bit(length: usize) -> u64 {
    if length < 64 { 1 << length } else { 1 << 63 }
}

const fn folded(byte: u8) -> u8 {
    match byte {
        b'-' | b'.' | b' ' | b'+' => b'_',
        other => other.to_ascii_lowercase(),
    }
}

fn trimmed(mut part: &[u8]) -> &[u8] {
    while let [b'_', rest @ ..] | [rest @ .., b'_'] = part {
        part = rest;
    }
    part
}

/// The name without percent-encoding, folded; none if it is longer than what is compared.
fn decode<'a>(name: &[u8], decoded: &'a mut [u8; MAX_NAME_BYTES]) -> Option<&'a [u8]> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (mut at, mut length) = (0, 0);
    while let Some(&byte) = name.get(at) {
        let pair = (byte == b'%').then(|| digit(name.get(at + 1)).zip(digit(name.get(at + 2)))).flatten();
        *decoded.get_mut(length)? = folded(pair.map_or(byte, |(high, low)| (high << 4 | low) as u8));
        length += 1;
        at += if pair.is_some() { 3 } else { 1 };
    }
    Some(&decoded[..length])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn shown(names: &[&str], text: &[u8]) -> String {
        let mut out = Vec::new();
        Redacted::new(names.iter().copied()).pieces(text, &mut |piece| out.extend_from_slice(piece));
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn values_are_redacted_however_their_names_are_spelled() {
        fn check(text: &str, expected: &str) {
            assert_eq!(shown(&["token", "api_key"], text.as_bytes()), expected, "{text}");
        }
        check("/", "/");
        check("/?", "/?");
        check("/token=a", "/token=a");
        check("/?a=b&c", "/?a=b&c");
        check("/?token", "/?token");
        check("/?token=", "/?token=REDACTED");
        check("/?token=a", "/?token=REDACTED");
        check("/?x=1&token=a&y=2", "/?x=1&token=REDACTED&y=2");
        check("/?token=a&token=b", "/?token=REDACTED&token=REDACTED");
        check("/?ToKeN=a", "/?ToKeN=REDACTED");
        check("/?t%6fke%6E=a", "/?t%6fke%6E=REDACTED");
        check(
            "/?api-key=a&API.KEY=b&api%20key=c&api+key=d",
            "/?api-key=REDACTED&API.KEY=REDACTED&api%20key=REDACTED&api+key=REDACTED",
        );
        check(
            "/?auth[token]=a&token[]=b&x%5Btoken%5D=c",
            "/?auth[token]=REDACTED&token[]=REDACTED&x%5Btoken%5D=REDACTED",
        );
        check("/?_token=a&%20token=b", "/?_token=REDACTED&%20token=REDACTED");
        check("/?a=1;token=b;c=2&d=3", "/?a=1;token=REDACTED&d=3");
        check("/?next=/x?token=a", "/?next=/x?token=REDACTED");
        check("/?x?token=a", "/?x?token=REDACTED");
        check("/?tokens=a&mytoken=b&to=c", "/?tokens=a&mytoken=b&to=c");
        check("/?token=a=b?c", "/?token=REDACTED");
        check("/?&&=&token=a&&", "/?&&=&token=REDACTED&&");
        check("/?token%=a&%74oken%2=b", "/?token%=a&%74oken%2=b");
        let long = format!("/?{}=a&token=b", "x".repeat(MAX_NAME_BYTES + 1));
        check(&long, &format!("/?{}=REDACTED&token=REDACTED", "x".repeat(MAX_NAME_BYTES + 1)));
        assert_eq!(shown(&[], b"/?token=a"), "/?token=a");
    }

    /// Whatever a text is, what is shown of it is itself but for values, and the value never.
    #[test]
    fn nothing_else_changes_and_nothing_leaks() {
        let mut random = fastrand::Rng::with_seed(3);
        let parts = ["token", "%74oken", "=", "&", ";", "?", "a", "[", "]", "%", "%5", "api_key", "+", "/"];
        for _ in 0..50_000 {
            let text: String = (0..random.usize(..12)).map(|_| parts[random.usize(..parts.len())]).collect();
            let out = shown(&["token"], text.as_bytes());
            let mut rest = text.as_str();
            for piece in out.split("REDACTED") {
                let at = rest.find(piece).unwrap_or_else(|| panic!("{piece} of {out} is not in {text}"));
                rest = &rest[at + piece.len()..];
            }
            let whole = format!("/?{text}&token=secret");
            let leaks = shown(&["token"], whole.as_bytes()).contains("secret");
            assert!(!leaks, "{whole}");
        }
    }
}
