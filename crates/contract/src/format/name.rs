//! Mailboxes, host names and addresses: RFC 5321 §4.1.2, RFC 1123 §2.1, RFC 4291 §2.2. Nothing is looked up.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Letters, digits and dashes in labels of 1 to 63, at most 253 in all. `is_idn`: labels beyond ASCII are what IDNA (RFC 5891 §4.2, RFC 5892) has them be,
/// and so long in ASCII.
pub(super) fn is_hostname(text: &[u8], is_idn: bool) -> bool {
    let is_encoded = |label: &[u8]| label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"xn--"));
    if !is_idn || (text.is_ascii() && !text.split(|&byte| byte == b'.').any(is_encoded)) {
        return text.len() <= 253 && text.split(|&byte| byte == b'.').all(is_label);
    }
    // No encoding of a name takes more bytes than this, so that long text costs nothing.
    text.len() <= 253 * 4 && std::str::from_utf8(text).is_ok_and(is_idn_hostname)
}

fn is_label(label: &[u8]) -> bool {
    (1..=63).contains(&label.len())
        && label.first() != Some(&b'-')
        && label.last() != Some(&b'-')
        && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Names whose labels IDNA allows, and have a form in ASCII. Its three other full stops separate, too.
fn is_idn_hostname(text: &str) -> bool {
    use idna::uts46::{DnsLength, Hyphens, Uts46};
    let (rules, denied) = (Uts46::new(), idna::AsciiDenyList::STD3);
    let (unicode, decoded) = rules.to_unicode(text.as_bytes(), denied, Hyphens::Check);
    let ascii = rules.to_ascii(text.as_bytes(), denied, Hyphens::Check, DnsLength::Verify);
    decoded.is_ok()
        && unicode.split('.').all(is_in_context)
        && ascii.is_ok_and(|ascii| is_hostname(ascii.as_bytes(), false))
}

/// What RFC 5892 asks beyond the tables of UTS 46: its exceptions (§2.6), and the characters that need others beside them (appendix A).
fn is_in_context(label: &str) -> bool {
    let is_greek = |c: char| matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}');
    let is_hebrew = |c: char| matches!(c, '\u{590}'..='\u{5ff}');
    let is_arabic_digit = |c: char| matches!(c, '\u{660}'..='\u{669}');
    let is_extended_digit = |c: char| matches!(c, '\u{6f0}'..='\u{6f9}');
    let is_japanese = |c: char| {
        let is_kana =
            matches!(c, '\u{3041}'..='\u{309f}' | '\u{30a0}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}') && c != '\u{30fb}';
        is_kana
            || matches!(c, '\u{3005}' | '\u{3007}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
    };
    let mut before = None;
    let mut rest = label.chars();
    while let Some(c) = rest.next() {
        let after = rest.clone().next();
        let is_allowed = match c {
            '\u{640}' | '\u{7fa}' | '\u{302e}' | '\u{302f}' | '\u{3031}'..='\u{3035}' | '\u{303b}' => false,
            '\u{b7}' => before == Some('l') && after == Some('l'),
            '\u{375}' => after.is_some_and(is_greek),
            '\u{5f3}' | '\u{5f4}' => before.is_some_and(is_hebrew),
            '\u{30fb}' => label.chars().any(is_japanese),
            _ if is_arabic_digit(c) => !label.chars().any(is_extended_digit),
            _ => true,
        };
        if !is_allowed {
            return false;
        }
        before = Some(c);
    }
    true
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
