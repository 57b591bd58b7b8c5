//! Request targets and authorities (RFC 9112 §3.2, RFC 3986): one canonical form, decided and forwarded alike.

use super::head::HeadError;

/// Writes the canonical form of an absolute path to `out`; says whether it holds an encoded slash.
///
/// Percent-encoded unreserved characters are decoded, other escapes get upper-case digits. Refused: anything not starting with `/`, bytes
/// outside RFC 3986 `pchar` and `/`, malformed escapes, `%00` and other encoded controls, backslash in any form, dot segments in any form (`.`,
/// `..`, `%2e`, `..;x`), escapes that do not decode to UTF-8, and `#`.
///
/// # Errors
/// 400 with a code.
pub fn canonical_path(path: &[u8], out: &mut Vec<u8>) -> Result<bool, HeadError> {
    let _ = (path, out);
    todo!()
}

/// Checks a query (without `?`) and nothing else: RFC 3986 §3.4 bytes plus `[]{}|^"<>` and backquote, which browsers and tools send raw; never controls, space, `#` or non-ASCII.
///
/// # Errors
/// 400 with a code.
pub fn check_query(query: &[u8]) -> Result<(), HeadError> {
    let _ = query;
    todo!()
}

/// Writes `host[:port]` to `out` in lower case: a registered name of letter, digit, hyphen, dot and underscore, an IPv4 address or a bracketed IPv6
/// address; port 1 to 65535. Userinfo, empty hosts and anything else are refused.
///
/// # Errors
/// 400 with a code.
pub fn canonical_authority(authority: &[u8], out: &mut Vec<u8>) -> Result<(), HeadError> {
    let _ = (authority, out);
    todo!()
}
