//! One table that says what each octet may be part of (RFC 9110 §5.6.2, §5.5; RFC 3986 §2, §3).
//!
//! Owns the character classes of every HTTP parser here, so that no two of them can disagree. Parses nothing itself.

/// `tchar`: methods, field names, connection options (RFC 9110 §5.6.2).
pub(super) const TOKEN: u16 = 1 << 0;
/// What a field value may hold: visible characters, SP, HTAB and obs-text (RFC 9110 §5.5).
pub(super) const VALUE: u16 = 1 << 2;
/// `pchar` without `%`, and `/`: what stands for itself in a path (RFC 3986 §3.3).
pub(super) const PATH: u16 = 1 << 3;
/// `pchar`, `/` and `?`: what stands for itself in a query (RFC 3986 §3.4), and `%`.
pub(super) const QUERY: u16 = 1 << 4;
/// Letters, digits, `-`, `.` and `_`: a registered name as far as we accept one.
pub(super) const HOST: u16 = 1 << 5;
/// `unreserved` (RFC 3986 §2.3): an escape of one of these is decoded.
pub(super) const UNRESERVED: u16 = 1 << 6;
/// Visible ASCII and octets beyond ASCII: what a request target may hold before its form is known.
pub(super) const TARGET: u16 = 1 << 7;

/// Letters, digits and `-`: field names that nobody takes for another one.
pub(super) const ORDINARY: u16 = 1 << 1;

static CLASSES: [u16; 256] = classes();

/// Whether `octet` belongs to one of the `classes`.
#[inline(always)]
pub(super) fn is(octet: u8, classes: u16) -> bool {
    CLASSES[octet as usize] & classes != 0
}

/// How many octets at the start of `bytes` belong to one of the `classes`.
#[inline(always)]
pub(super) fn span(bytes: &[u8], classes: u16) -> usize {
    bytes.iter().position(|&octet| !is(octet, classes)).unwrap_or(bytes.len())
}

const fn classes() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut octet = 0;
    while octet < 256 {
        table[octet] = class_of(octet as u8);
        octet += 1;
    }
    table
}

const fn class_of(octet: u8) -> u16 {
    let alphanumeric = octet.is_ascii_alphanumeric();
    let unreserved = alphanumeric || matches!(octet, b'-' | b'.' | b'_' | b'~');
    let sub_delimiter = matches!(octet, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
    let path = unreserved || sub_delimiter || matches!(octet, b':' | b'@' | b'/');
    let token = alphanumeric
        || matches!(octet, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_')
        || matches!(octet, b'`' | b'|' | b'~');

    let mut class = 0;
    if token {
        class |= TOKEN;
    }
    if alphanumeric || octet == b'-' {
        class |= ORDINARY;
    }
    if octet == b'\t' || (octet >= b' ' && octet != 0x7f) {
        class |= VALUE;
    }
    if path {
        class |= PATH;
    }
    if path || octet == b'%' || octet == b'?' {
        class |= QUERY;
    }
    if alphanumeric || matches!(octet, b'-' | b'.' | b'_') {
        class |= HOST;
    }
    if unreserved {
        class |= UNRESERVED;
    }
    if octet > b' ' && octet != 0x7f {
        class |= TARGET;
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(classes: u16, members: &[u8]) {
        for octet in 0..=255u8 {
            assert_eq!(is(octet, classes), members.contains(&octet), "octet {octet:#04x}, classes {classes:#010b}");
        }
    }

    const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    #[test]
    fn tokens_and_names() {
        let token = [ALPHANUMERIC, b"!#$%&'*+-.^_`|~"].concat();
        check(TOKEN, &token);
        check(ORDINARY, &[ALPHANUMERIC, b"-"].concat());
    }

    #[test]
    fn values() {
        let value: Vec<u8> = (0..=255u8).filter(|&octet| octet == 9 || (octet >= 32 && octet != 127)).collect();
        check(VALUE, &value);
    }

    #[test]
    fn uri_parts() {
        let path = [ALPHANUMERIC, b"-._~!$&'()*+,;=:@/"].concat();
        check(PATH, &path);
        check(QUERY, &[&path[..], b"%?"].concat());
        check(HOST, &[ALPHANUMERIC, b"-._"].concat());
        check(UNRESERVED, &[ALPHANUMERIC, b"-._~"].concat());
        let target: Vec<u8> = (0x21..=0x7e).chain(0x80..=0xff).collect();
        check(TARGET, &target);
    }
}
