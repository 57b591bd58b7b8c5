//! URIs and IRIs by the grammar of RFC 3986 and RFC 3987, and templates of RFC 6570. Letters beyond ASCII are the caller's decision; here they pass.

use super::name::is_ipv6;

/// With a scheme.
pub(super) fn is_uri(text: &[u8]) -> bool {
    let Some(colon) = scheme_end(text) else { return false };
    is_hier_part(&text[colon + 1..])
}

/// With or without a scheme.
pub(super) fn is_reference(text: &[u8]) -> bool {
    if is_uri(text) {
        return true;
    }
    // Without a scheme, the first segment may not hold a colon (RFC 3986 §4.2).
    let segment = text.split(|byte| matches!(byte, b'/' | b'?' | b'#')).next().unwrap_or_default();
    !segment.contains(&b':') && is_hier_part(text)
}

/// Where the colon behind a scheme stands (§3.1).
fn scheme_end(text: &[u8]) -> Option<usize> {
    let colon = memchr::memchr(b':', text)?;
    let scheme = &text[..colon];
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then_some(colon)
}

/// Everything behind the scheme: authority, path, query, fragment.
fn is_hier_part(text: &[u8]) -> bool {
    let (text, fragment) = split(text, b'#');
    let (text, query) = split(text, b'?');
    let path = match text.strip_prefix(b"//") {
        Some(rest) => {
            let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
            if !is_authority(&rest[..end]) {
                return false;
            }
            &rest[end..]
        }
        None => text,
    };
    is_made_of(path, b":@/") && is_made_of(query, b":@/?") && is_made_of(fragment, b":@/?")
}

fn split(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match memchr::memchr(at, text) {
        Some(found) => (&text[..found], &text[found + 1..]),
        None => (text, b""),
    }
}

/// §3.2: `userinfo@host:port`.
fn is_authority(text: &[u8]) -> bool {
    let (user, host) = match memchr::memchr(b'@', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (&b""[..], text),
    };
    let host_end = match host.first() {
        Some(b'[') => memchr::memchr(b']', host).map_or(0, |end| end + 1),
        _ => memchr::memchr(b':', host).unwrap_or(host.len()),
    };
    let (name, port) = host.split_at(host_end);
    let is_name = match name {
        [b'[', address @ .., b']'] => is_ipv6(address) || is_future_address(address),
        _ => is_made_of(name, b""),
    };
    let is_port = port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit));
    is_made_of(user, b":") && is_name && is_port
}

/// `IPvFuture` (§3.2.2).
fn is_future_address(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"v").or_else(|| text.strip_prefix(b"V")) else { return false };
    let (version, address) = split(rest, b'.');
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && !address.contains(&b'%')
        && is_made_of(address, b":")
}

/// Unreserved characters, sub-delimiters, percent escapes (§2), and the bytes of `more`.
fn is_made_of(text: &[u8], more: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte == b'%' {
            let Some(digits) = text.get(at + 1..at + 3) else { return false };
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return false;
            }
            at += 3;
            continue;
        }
        let is_known = byte.is_ascii_alphanumeric() || byte >= 0x80 || b"-._~!$&'()*+,;=".contains(&byte);
        if !is_known && !more.contains(&byte) {
            return false;
        }
        at += 1;
    }
    true
}

/// Literals and expressions in braces.
pub(super) fn is_template(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(open) = rest.iter().position(|byte| matches!(byte, b'{' | b'}')) {
        let Some(close) = memchr::memchr(b'}', &rest[open..]).filter(|_| rest[open] == b'{') else { return false };
        if !is_literal(&rest[..open]) || !is_expression(&rest[open + 1..open + close]) {
            return false;
        }
        rest = &rest[open + close + 1..];
    }
    is_literal(rest)
}

fn is_literal(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte > b' ' && *byte != 0x7f && !b"\"'<>\\^`{|}".contains(byte))
}

fn is_expression(text: &[u8]) -> bool {
    let variables = match text.first() {
        Some(b'+' | b'#' | b'.' | b'/' | b';' | b'?' | b'&') => &text[1..],
        _ => text,
    };
    variables.split(|&byte| byte == b',').all(is_variable)
}

fn is_variable(text: &[u8]) -> bool {
    let name = match text {
        [name @ .., b'*'] => name,
        _ => {
            let (name, length) = split(text, b':');
            if name.len() != text.len()
                && (length.is_empty() || length.len() > 4 || !length.iter().all(u8::is_ascii_digit))
            {
                return false;
            }
            name
        }
    };
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'%') || *byte >= 0x80)
}
