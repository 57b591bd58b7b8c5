//! Sections, what they hold, and what is none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// Fields as `name: value` lines.
fn read(section: &[u8], most: usize) -> (String, Result<(), SectionError>) {
    let mut lines = String::new();
    let read = SectionReader::default().read(section, most, |name, value| {
        lines.push_str(&format!("{}: {}\n", name.escape_ascii(), value.escape_ascii()));
    });
    (lines, read)
}

fn check(hex: &str, expected: &str) {
    assert_eq!(read(&bytes(hex), usize::MAX), (expected.to_owned(), Ok(())), "{hex}");
}

fn check_broken(hex: &str) {
    assert_eq!(read(&bytes(hex), usize::MAX).1, Err(SectionError::Broken), "{hex}");
}

#[test]
fn each_form_of_a_field_is_read() {
    check("0000", "");
    // RFC 9204 §B.1.
    check("0000 510b 2f69 6e64 6578 2e68 746d 6c", ":path: /index.html\n");
    // Any base will do where nothing counts from it (§4.5.1.2).
    check("0005 c1", ":path: /\n");
    check("007f 8001 c1", ":path: /\n");
    // Indexed, in one and in two octets.
    check(
        "0000 d1 d7 c1 ff00 ff23",
        ":method: GET\n:scheme: https\n:path: /\n:status: 100\nx-frame-options: sameorigin\n",
    );
    // A name of the table, whether or not it may be indexed; in two octets; with Huffman code (RFC 7541 §C.4.1).
    check("0000 5000 7001 61", ":authority: \n:authority: a\n");
    check("0000 5f50 0178", "user-agent: x\n");
    check("0000 508c f1e3 c2e5 f23a 6ba0 ab90 f4ff", ":authority: www.example.com\n");
    // A name spelt out, plain and coded (RFC 7541 §C.4.3), also longer than seven octets, also never to be indexed.
    check("0000 2378 2d61 0162", "x-a: b\n");
    check("0000 3378 2d61 0162", "x-a: b\n");
    check("0000 2f01 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", "custom-key: custom-value\n");
    check("0000 2703 6375 7374 6f6d 2d6b 6579 00", "custom-key: \n");
}

#[test]
fn what_refers_to_a_dynamic_table_is_broken() {
    // A section that needs entries of it, or counts from below its beginning.
    for hex in ["0100", "0200 80", "ff0000", "0080", "00ff01 c1"] {
        check_broken(hex);
    }
    // Indexed, before and behind the base; names likewise.
    for hex in ["0000 80", "0000 bf01", "0000 10", "0000 1f01", "0000 4000", "0000 6000", "0000 0000", "0000 0800"] {
        check_broken(hex);
    }
}

#[test]
fn what_is_cut_or_beyond_the_static_table_is_broken() {
    let sections = ["0000 ff24", "0000 5f54 00", "0000 ffffffffff0f", "0000 ff80808080 00", "0000 5fff"];
    for hex in sections.into_iter().chain(["", "00", "00ff", "0000 ff", "0000 51", "0000 5102 2f", "0000 23 7861"]) {
        check_broken(hex);
    }
    // Huffman code with its end in it, with a whole octet of padding, and with padding of zeros.
    for hex in ["0000 5184 ffff ffff", "0000 5182 63ff", "0000 5181 60", "0000 2a ff ff 00"] {
        check_broken(hex);
    }
    let whole = bytes("0000 d1 510b 2f69 6e64 6578 2e68 746d 6c 2f01 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
    let good = (0..=whole.len()).filter(|cut| read(&whole[..*cut], usize::MAX).1.is_ok()).collect::<Vec<_>>();
    assert_eq!(good, [2, 3, 16, whole.len()]);
}

#[test]
fn fields_beyond_the_bound_are_not_given_out() {
    let section = bytes("0000 d1 c1 2378 2d61 0162");
    let (first, second, third) = (7 + 3 + 32, 5 + 1 + 32, 3 + 1 + 32);
    for (most, fields, is_whole) in [
        (first - 1, "", false),
        (first, ":method: GET\n", false),
        (first + second, ":method: GET\n:path: /\n", false),
        (first + second + third - 1, ":method: GET\n:path: /\n", false),
        (first + second + third, ":method: GET\n:path: /\nx-a: b\n", true),
    ] {
        let expected = if is_whole { Ok(()) } else { Err(SectionError::TooLarge) };
        assert_eq!(read(&section, most), (fields.to_owned(), expected), "{most}");
    }
}

#[test]
fn what_is_written_is_short_and_reads_the_same() {
    for (name, value, hex) in [
        (":status", "200", "d9"),
        (":status", "421", "ff06"),
        (":status", "418", "5f09 0334 3138"),
        ("Content-Type", "text/html; charset=utf-8", "f4"),
        ("content-type", "text/html", "5f1d 0974 6578 742f 6874 6d6c"),
        ("DATE", "x", "5601 78"),
        ("X-Frame-Options", "deny", "ff22"),
        ("x-y", "", "2378 2d79 00"),
        ("X-Request-Id", "7", "2705 782d 7265 7175 6573 742d 6964 0137"),
    ] {
        let mut out = Vec::new();
        write_field(name.as_bytes(), value.as_bytes(), &mut out);
        assert_eq!(out, bytes(hex), "{name}: {value}: {out:02x?}");
    }
    for status in 100..=599 {
        let mut out = Vec::new();
        begin_section(&mut out);
        write_status(status, &mut out);
        assert_eq!(read(&out, usize::MAX), (format!(":status: {status}\n"), Ok(())));
    }
    for (index, (name, value)) in STATIC.iter().enumerate() {
        let mut out = Vec::new();
        begin_section(&mut out);
        write_field(name.as_bytes(), value.as_bytes(), &mut out);
        assert_eq!(read(&out, usize::MAX), (format!("{name}: {value}\n").replace('\'', "\\'"), Ok(())));
        assert_eq!(static_table::find(name.as_bytes(), value.as_bytes()), Some((index, true)), "{name}: {value}");
        let first = STATIC.iter().position(|(other, _)| other == name).unwrap();
        assert_eq!(static_table::find(name.to_uppercase().as_bytes(), b"\0"), Some((first, false)), "{name}");
    }
    for unknown in ["", "x", "hosts", &"x".repeat(32), &"x".repeat(33), &"x".repeat(300)] {
        assert_eq!(static_table::find(unknown.as_bytes(), b""), None, "{unknown}");
    }
}

#[test]
fn random_fields_are_written_and_read_again() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut reader = SectionReader::default();
    for _ in 0..2_000 {
        let mut out = Vec::new();
        begin_section(&mut out);
        let fields: Vec<(Vec<u8>, Vec<u8>)> = (0..random.usize(..12))
            .map(|_| {
                let name = match random.bool() {
                    true => STATIC[random.usize(..STATIC.len())].0.as_bytes().to_vec(),
                    false => (0..random.usize(1..300)).map(|_| random.lowercase() as u8).collect(),
                };
                let value = match random.bool() {
                    true => STATIC[random.usize(..STATIC.len())].1.as_bytes().to_vec(),
                    false => (0..random.usize(..300)).map(|_| random.u8(..)).collect(),
                };
                (name, value)
            })
            .collect();
        fields.iter().for_each(|(name, value)| write_field(name, value, &mut out));
        let mut again = Vec::new();
        reader.read(&out, usize::MAX, |name, value| again.push((name.to_vec(), value.to_vec()))).unwrap();
        assert_eq!(again, fields);
    }
}
