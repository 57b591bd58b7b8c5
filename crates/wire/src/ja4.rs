//! JA4: which program a TLS client is, by what it offers in its ClientHello.
//!
//! Pure; the digest is passed in, since this crate has no cryptography. Follows FoxIO's specification of JA4 for TLS over TCP and QUIC: what is random by design
//! (GREASE, RFC 8701) does not count, and neither does the order of suites and extensions.

use std::fmt;

use crate::client_hello::{ALPN, ClientHello, SERVER_NAME};

/// Characters of a fingerprint: 10, 12 and 12, with `_` between them.
const LENGTH: usize = 36;
/// Characters of a digest that count.
const DIGEST_CHARACTERS: usize = 12;
/// What stands in the place of the digest of nothing.
const OF_NOTHING: &[u8] = b"000000000000";

/// A fingerprint such as `t13d1516h2_8daaf6152771_e5627efa2ab1`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ja4([u8; LENGTH]);

/// What a ClientHello came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// TCP.
    Tcp,
    /// QUIC.
    Quic,
}

impl Ja4 {
    /// That of a ClientHello.
    pub fn of(hello: &ClientHello<'_>, over: Over, sha256: impl Fn(&[u8]) -> [u8; 32]) -> Ja4 {
        let mut suites = meant(&hello.cipher_suites);
        suites.sort_unstable();
        // Sorted already, each once.
        let kinds = meant(&hello.extensions);
        let schemes = meant(&hello.signature_schemes);
        let mut fingerprint = Vec::with_capacity(LENGTH);
        fingerprint.push(if over == Over::Quic { b'q' } else { b't' });
        fingerprint.extend_from_slice(version(hello));
        fingerprint.push(if kinds.contains(&SERVER_NAME) { b'd' } else { b'i' });
        fingerprint.extend(count(suites.len()));
        fingerprint.extend(count(kinds.len()));
        fingerprint.extend(protocol(hello.alpn.first().copied()));
        fingerprint.push(b'_');
        let mut text = Vec::with_capacity(256);
        list(&suites, &mut text);
        digest(&text, &sha256, &mut fingerprint);
        fingerprint.push(b'_');
        text.clear();
        // What these two say stands in the first part.
        let others: Vec<u16> = kinds.into_iter().filter(|kind| ![SERVER_NAME, ALPN].contains(kind)).collect();
        list(&others, &mut text);
        if !others.is_empty() && !schemes.is_empty() {
            text.push(b'_');
            list(&schemes, &mut text);
        }
        digest(&text, &sha256, &mut fingerprint);
        let mut whole = [b'0'; LENGTH];
        whole.iter_mut().zip(fingerprint).for_each(|(place, character)| *place = character);
        Ja4(whole)
    }

    /// As it is written: visible ASCII.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The numbers that mean something.
fn meant(numbers: &[u16]) -> Vec<u16> {
    numbers.iter().copied().filter(|number| !is_grease(*number)).collect()
}

/// Two equal bytes that end in `a` (RFC 8701 §2).
fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

/// The highest version that is offered.
fn version(hello: &ClientHello<'_>) -> &'static [u8; 2] {
    let highest = match hello.versions.as_slice() {
        [] => Some(hello.legacy_version),
        offered => offered.iter().copied().filter(|version| !is_grease(*version)).max(),
    };
    match highest {
        Some(0x0304) => b"13",
        Some(0x0303) => b"12",
        Some(0x0302) => b"11",
        Some(0x0301) => b"10",
        Some(0x0300) => b"s3",
        Some(0x0002) => b"s2",
        _ => b"00",
    }
}

/// Two decimal digits.
fn count(number: usize) -> [u8; 2] {
    // At most 99.
    let number = number.min(99) as u8;
    [b'0' + number / 10, b'0' + number % 10]
}

/// First and last character of a protocol's name; where one of them is no letter or digit, those of the name in hexadecimal.
fn protocol(name: Option<&[u8]>) -> [u8; 2] {
    let Some((first, last)) = name.and_then(|name| Some((*name.first()?, *name.last()?))) else { return *b"00" };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [first, last];
    }
    [hexadecimal(first >> 4), hexadecimal(last & 0x0f)]
}

/// Appends numbers as four hexadecimal digits each, with commas between them.
fn list(numbers: &[u16], text: &mut Vec<u8>) {
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend(
            number.to_be_bytes().into_iter().flat_map(|byte| [hexadecimal(byte >> 4), hexadecimal(byte & 0x0f)]),
        );
    }
}

/// Appends the start of a text's digest.
fn digest(text: &[u8], sha256: impl Fn(&[u8]) -> [u8; 32], out: &mut Vec<u8>) {
    if text.is_empty() {
        out.extend_from_slice(OF_NOTHING);
        return;
    }
    let characters = sha256(text).into_iter().flat_map(|byte| [hexadecimal(byte >> 4), hexadecimal(byte & 0x0f)]);
    out.extend(characters.take(DIGEST_CHARACTERS));
}

/// A number below 16 as a digit.
fn hexadecimal(number: u8) -> u8 {
    if number < 10 { b'0' + number } else { b'a' + (number - 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands for SHA-256: the text itself, so that a test sees it.
    fn show(hello: &ClientHello<'_>) -> (String, Vec<String>) {
        let seen = std::cell::RefCell::new(Vec::new());
        let fingerprint = Ja4::of(hello, Over::Tcp, |text| {
            seen.borrow_mut().push(String::from_utf8_lossy(text).into_owned());
            [0xab; 32]
        });
        (fingerprint.as_str().to_owned(), seen.into_inner())
    }

    fn check(hello: &ClientHello<'_>, expected: &str, digested: &[&str]) {
        let (fingerprint, seen) = show(hello);
        assert_eq!((fingerprint.as_str(), seen), (expected, digested.iter().map(ToString::to_string).collect()));
    }

    #[test]
    fn what_a_browser_offers_is_sorted_and_what_is_random_is_left_out() {
        let hello = ClientHello {
            legacy_version: 0x0303,
            cipher_suites: vec![0x2a2a, 0x1302, 0x1301, 0xc02b],
            server_name: Some(b"a.example"),
            alpn: vec![b"h2", b"http/1.1"],
            signature_schemes: vec![0x0804, 0x0403, 0x1a1a],
            versions: vec![0x8a8a, 0x0303, 0x0304],
            extensions: vec![0, 10, 13, 16, 43, 0x3a3a, 0xff01],
            ..ClientHello::default()
        };
        let digested = ["1301,1302,c02b", "000a,000d,002b,ff01_0804,0403"];
        check(&hello, "t13d0306h2_abababababab_abababababab", &digested);
        // Without a name; and nobody but GREASE among the versions.
        let hello = ClientHello { versions: vec![0x0a0a], extensions: vec![10, 43], alpn: vec![], ..hello };
        check(&hello, "t00i030200_abababababab_abababababab", &["1301,1302,c02b", "000a,002b_0804,0403"]);
    }

    #[test]
    fn an_old_client_offers_nothing_but_suites() {
        let hello = ClientHello { legacy_version: 0x0301, cipher_suites: vec![0x002f], ..ClientHello::default() };
        check(&hello, "t10i010000_abababababab_000000000000", &["002f"]);
        let only_name = ClientHello { extensions: vec![0, 16], signature_schemes: vec![0x0403], ..hello.clone() };
        check(&only_name, "t10d010200_abababababab_000000000000", &["002f"]);
        let no_schemes = ClientHello { extensions: vec![0x17], legacy_version: 0x0303, ..hello };
        check(&no_schemes, "t12i010100_abababababab_abababababab", &["002f", "0017"]);
        let only_grease = ClientHello { cipher_suites: vec![0xfafa], ..ClientHello::default() };
        check(&only_grease, "t00i000000_000000000000_000000000000", &[]);
    }

    #[test]
    fn counts_end_at_99_and_protocols_are_two_characters() {
        let many = ClientHello { cipher_suites: (0..300).collect(), ..ClientHello::default() };
        assert!(show(&many).0.starts_with("t00i990000_"), "{}", show(&many).0);
        for (name, expected) in [
            (&b"h2"[..], "h2"),
            (b"http/1.1", "h1"),
            (b"h", "hh"),
            (b"\xab", "ab"),
            (b"\xab\xcd", "ad"),
            (b"0\xab", "3b"),
            (b"01\xab\xcd", "3d"),
            (b"0\xab\xcd1", "01"),
            (b"_a", "51"),
        ] {
            assert_eq!(protocol(Some(name)), expected.as_bytes(), "{name:02x?}");
        }
        for (version, expected) in [(0x0304, "13"), (0x0302, "11"), (0x0300, "s3"), (0x0002, "s2"), (0x7f12, "00")] {
            let hello = ClientHello { legacy_version: version, ..ClientHello::default() };
            assert_eq!(super::version(&hello), expected.as_bytes(), "{version:04x}");
        }
    }
}
