//! JA4: always of one shape, and the same whatever the order and the GREASE of what is offered.

use wire::client_hello::ClientHello;
use wire::ja4::{Ja4, Over};

/// Any bytes as the body of a ClientHello, whose fingerprint is computed in two ways.
pub fn ja4(data: &[u8]) {
    let Ok(hello) = ClientHello::parse(data) else { return };
    let fingerprint = Ja4::of(&hello, Over::Tcp, sum);
    let text = fingerprint.as_str();
    let parts: Vec<&str> = text.split('_').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [10, 12, 12], "{text}");
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{text}");
    assert_eq!(text, described(&hello));
    let over_quic = Ja4::of(&hello, Over::Quic, sum);
    assert_eq!(over_quic.as_str(), format!("q{}", &text[1..]), "only the first character says what it came over");
    let mut other = hello.clone();
    other.cipher_suites.reverse();
    other.cipher_suites.insert(0, 0x3a3a);
    other.signature_schemes.push(0xfafa);
    assert_eq!(Ja4::of(&other, Over::Tcp, sum), fingerprint, "order and GREASE");
}

/// The fingerprint as its specification tells it, in text from the beginning.
fn described(hello: &ClientHello<'_>) -> String {
    let meant = |list: &[u16]| -> Vec<String> {
        let text = list.iter().map(|number| format!("{number:04x}"));
        text.filter(|text| !(text.as_bytes()[1] == b'a' && text[..2] == text[2..])).collect()
    };
    let version = match hello.versions.iter().filter(|version| **version & 0x0f0f != 0x0a0a).max() {
        Some(version) => *version,
        None if hello.versions.is_empty() => hello.legacy_version,
        None => 0,
    };
    let version = match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        2 => "s2",
        _ => "00",
    };
    let (mut suites, kinds) = (meant(&hello.cipher_suites), meant(&hello.extensions));
    suites.sort();
    let protocol = hello.alpn.first().map_or("00".to_owned(), |name| {
        let ends = [name[0], name[name.len() - 1]];
        match ends.iter().all(u8::is_ascii_alphanumeric) {
            true => String::from_utf8(ends.to_vec()).unwrap(),
            false => format!("{:x}{:x}", ends[0] >> 4, ends[1] & 15),
        }
    });
    let named = if kinds.contains(&"0000".to_owned()) { 'd' } else { 'i' };
    let others: Vec<String> = kinds.iter().filter(|kind| *kind != "0000" && *kind != "0010").cloned().collect();
    let mut offered = others.join(",");
    let schemes = meant(&hello.signature_schemes).join(",");
    if !others.is_empty() && !schemes.is_empty() {
        offered = format!("{offered}_{schemes}");
    }
    let (most, digest) = (99, |text: &str| match text {
        "" => "0".repeat(12),
        text => sum(text.as_bytes())[..6].iter().map(|byte| format!("{byte:02x}")).collect(),
    });
    let counts = format!("{:02}{:02}", suites.len().min(most), kinds.len().min(most));
    format!("t{version}{named}{counts}{protocol}_{}_{}", digest(&suites.join(",")), digest(&offered))
}

/// Stands for a digest.
fn sum(text: &[u8]) -> [u8; 32] {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    text.iter().for_each(|byte| state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    std::array::from_fn(|at| state.to_be_bytes()[at % 8])
}
