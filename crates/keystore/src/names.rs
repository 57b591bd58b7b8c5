//! The names a pair is served under: host names as TLS clients ask for them, wildcards, and `default`.
//!
//! One form only leaves this file: lower case, A-labels (RFC 5890), no final dot. Matching a client's name is the program's business, but for
//! `covers`, which the checks here need.

use std::fmt;

use idna::AsciiDenyList;

/// The name of what is served to a client that asks for no name, or for an unknown one.
pub const DEFAULT: &str = "default";

/// Longest host name, bytes without a final dot (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;
/// Longest label, bytes (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// Why a text is no name to serve under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// Nothing there.
    Empty,
    /// Longer than DNS allows.
    TooLong,
    /// An address: clients send no server name for those (RFC 6066 §3).
    Address,
    /// A wildcard elsewhere than as the whole first label.
    Wildcard,
    /// A label is empty, too long, or holds something else than letters, digits, hyphens and underscores.
    Label,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameError::Empty => "a name is missing",
            NameError::TooLong => "longer than the 253 characters a host name may have",
            NameError::Address => "an address, for which clients send no server name; use `default`",
            NameError::Wildcard => "a wildcard must be the whole first label, as in `*.example.com`",
            NameError::Label => "not a host name (letters, digits, hyphens and dots)",
        })
    }
}

impl std::error::Error for NameError {}

/// The canonical form of a host name, of a wildcard such as `*.example.com`, or of `default`.
///
/// # Errors
/// It is none of these.
pub fn canonical(text: &str) -> Result<String, NameError> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    let (prefix, host) = text.strip_prefix("*.").map_or(("", text), |host| ("*.", host));
    if host.contains('*') {
        return Err(NameError::Wildcard);
    }
    let host = if host.is_ascii() {
        host.to_ascii_lowercase()
    } else {
        // An internationalised name in the form people write it (UTS 46).
        let ascii = idna::domain_to_ascii_cow(host.as_bytes(), AsciiDenyList::STD3).map_err(|_| NameError::Label)?;
        ascii.strip_suffix('.').unwrap_or(&ascii).to_owned()
    };
    if prefix.len() + host.len() > MAX_NAME {
        return Err(NameError::TooLong);
    }
    if host.contains(':') || host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return Err(if host.ends_with('.') || host.is_empty() { NameError::Label } else { NameError::Address });
    }
    if host.split('.').all(is_label) { Ok(format!("{prefix}{host}")) } else { Err(NameError::Label) }
}

/// Letters, digits, hyphens inside, and underscores, which some private networks use and no client forbids.
fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether a certificate's name (exact or wildcard, canonical) is good for `name` (canonical). A wildcard stands for one label
/// (RFC 9525 §6.3), and is good for itself.
pub fn covers(pattern: &str, name: &str) -> bool {
    pattern == name
        || pattern
            .strip_prefix("*.")
            .is_some_and(|parent| name.split_once('.').is_some_and(|(first, rest)| first != "*" && rest == parent))
}

/// Whether a label that people gave to a pair (a file's stem, an alias) makes it the default: `default`, optionally followed by a key type as
/// in `default.rsa` or `default:ECDSA`. `default.example.com` is a host.
pub(crate) fn is_default_label(label: &str) -> bool {
    let label = label.to_ascii_lowercase();
    match label.split_once(['.', ':']) {
        None => label == DEFAULT,
        Some((name, suffix)) => name == DEFAULT && matches!(suffix, "ecdsa" | "rsa" | "ed25519"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn names_take_one_form() {
        let long_label = "a".repeat(63);
        let long_name = [&long_label[..]; 4].join(".");
        let cases = [
            ("example.com", Ok("example.com")),
            ("WWW.Example.COM.", Ok("www.example.com")),
            ("*.Example.com", Ok("*.example.com")),
            ("Default", Ok("default")),
            ("localhost", Ok("localhost")),
            ("_acme.example.com", Ok("_acme.example.com")),
            ("xn--bcher-kva.example", Ok("xn--bcher-kva.example")),
            ("Bücher.example", Ok("xn--bcher-kva.example")),
            ("*.bücher.example", Ok("*.xn--bcher-kva.example")),
            ("例え。テスト", Ok("xn--r8jz45g.xn--zckzah")),
            ("1and1.com", Ok("1and1.com")),
            ("", Err(NameError::Empty)),
            (".", Err(NameError::Empty)),
            ("*", Err(NameError::Wildcard)),
            ("*.*.example.com", Err(NameError::Wildcard)),
            ("f*o.example.com", Err(NameError::Wildcard)),
            ("www.*.com", Err(NameError::Wildcard)),
            ("192.0.2.1", Err(NameError::Address)),
            ("2001:db8::1", Err(NameError::Address)),
            ("a..b", Err(NameError::Label)),
            (".example.com", Err(NameError::Label)),
            ("example.com..", Err(NameError::Label)),
            ("-a.example", Err(NameError::Label)),
            ("a b.example", Err(NameError::Label)),
            ("a/b.example", Err(NameError::Label)),
            ("a\0.example", Err(NameError::Label)),
            ("ü b.example", Err(NameError::Label)),
            (&long_name, Err(NameError::TooLong)),
            (&format!("{long_label}a.example"), Err(NameError::Label)),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text), expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn wildcards_stand_for_one_label() {
        for (pattern, name, expected) in [
            ("a.example", "a.example", true),
            ("a.example", "b.example", false),
            ("*.example", "a.example", true),
            ("*.example", "example", false),
            ("*.example", "a.b.example", false),
            ("*.example", "*.example", true),
            ("*.b.example", "*.example", false),
            ("*.example", "*.b.example", false),
        ] {
            assert_eq!(covers(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn only_default_is_the_default() {
        for (label, expected) in [
            ("default", true),
            ("DEFAULT", true),
            ("default.rsa", true),
            ("default:ECDSA", true),
            ("default.example.com", false),
            ("default.example.com:ECDSA", false),
            ("defaults", false),
            ("default.", false),
            ("rsa", false),
        ] {
            assert_eq!(is_default_label(label), expected, "{label}");
        }
    }
}
