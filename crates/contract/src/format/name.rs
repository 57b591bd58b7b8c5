//! Mailboxes, host names and addresses: RFC 5321 §4.1.2, RFC 1123 §2.1, RFC 4291 §2.2. Nothing is looked up.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Letters, digits and dashes in labels of 1 to 63, at most 253 in all. `is_idn`: anything beyond ASCII counts as a letter.
pub(super) fn is_hostname(text: &[u8], is_idn: bool) -> bool {
    text.len() <= 253 && text.split(|&byte| byte == b'.').all(|label| is_label(label, is_idn))
}

fn is_label(label: &[u8], is_idn: bool) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || (is_idn && *byte >= 0x80);
    (1..=63).contains(&label.len())
        && label.first() != Some(&b'-')
        && label.last() != Some(&b'-')
        && label.iter().all(is_letter)
}

/// Four numbers without leading zeros.
pub(super) fn is_ipv4(text: &[u8]) -> bool {
    parse::<Ipv4Addr>(text)
}

/// Without a zone.
pub(super) fn is_ipv6(text: &[u8]) -> bool {
    parse::<Ipv6Addr>(text)
}

fn parse<A: std::str::FromStr>(text: &[u8]) -> bool {
    text.len() <= 45 && std::str::from_utf8(text).is_ok_and(|text| text.parse::<A>().is_ok())
}

/// A local part, dotted or quoted, and a host name or an address in brackets.
pub(super) fn is_email(text: &[u8], is_idn: bool) -> bool {
    let Some(at) = memchr::memrchr(b'@', text) else { return false };
    let (local, domain) = (&text[..at], &text[at + 1..]);
    local.len() <= 64 && is_local_part(local, is_idn) && is_mail_domain(domain, is_idn)
}

fn is_local_part(local: &[u8], is_idn: bool) -> bool {
    if let [b'"', quoted @ .., b'"'] = local {
        return is_quoted(quoted, is_idn);
    }
    let is_atom =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(byte) || (is_idn && *byte >= 0x80);
    local.split(|&byte| byte == b'.').all(|atom| !atom.is_empty() && atom.iter().all(is_atom))
}

fn is_quoted(text: &[u8], is_idn: bool) -> bool {
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        let is_plain = match byte {
            b'\\' => bytes.next().is_some_and(|escaped| (0x20..0x7f).contains(escaped)),
            b'"' => false,
            0x20..0x7f => true,
            _ => is_idn && byte >= 0x80,
        };
        if !is_plain {
            return false;
        }
    }
    true
}

fn is_mail_domain(domain: &[u8], is_idn: bool) -> bool {
    match domain {
        [b'[', b'I', b'P', b'v', b'6', b':', address @ .., b']'] => is_ipv6(address),
        [b'[', address @ .., b']'] => is_ipv4(address),
        _ => is_hostname(domain, is_idn),
    }
}
