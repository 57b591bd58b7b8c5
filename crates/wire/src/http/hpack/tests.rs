//! Blocks, what is found in them, and what becomes of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// Reads blocks one after the other; after each, the table has so many entries and bytes, and what is expected was found, with nothing replaced.
fn check(capacity: usize, blocks: &[(&str, usize, usize, Found)]) {
    let mut table = HeaderTable { capacity, ..HeaderTable::default() };
    for (hex, entries, size, expected) in blocks {
        let (mut found, mut out) = (Found::default(), Vec::new());
        assert_eq!(table.read(&bytes(hex), Most::UNBOUNDED, &mut found, &mut out), Ok(false), "{hex}");
        assert_eq!((table.extent(), &found, &out[..]), ((*entries, *size), expected, &b""[..]), "{hex}");
    }
}

const PLAIN: Found =
    Found { pseudo: false, fragment: false, malformed: None, path: None, too_large: false, too_large_to_read: false };
const PSEUDO: Found = Found { pseudo: true, ..PLAIN };
const BOTH: Found = Found { fragment: true, ..PSEUDO };

#[test]
fn the_tables_of_rfc_7541_appendix_c_have_the_sizes_reported_there() {
    // C.3: requests without Huffman code. C.4: the same with it.
    let last = "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65";
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", 1, 57, PSEUDO),
            ("8286 84be 5808 6e6f 2d63 6163 6865", 2, 110, PSEUDO),
            (last, 3, 164, PSEUDO),
        ],
    );
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", 1, 57, PSEUDO),
            ("8286 84be 5886 a8eb 1064 9cbf", 2, 110, PSEUDO),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", 3, 164, PSEUDO),
        ],
    );
    // C.6: answers with Huffman code, whose table holds 256 bytes.
    let third =
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7
                 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
    check(256, &[
        ("4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718
          63c7 8f0b 97c8 e9ae 82ae 43d3", 4, 222, PSEUDO),
        ("4883 640e ffc1 c0bf", 4, 222, PSEUDO),
        (third, 3, 215, PSEUDO),
    ]);
}

#[test]
fn pseudo_fields_and_fragments_are_found_in_every_form() {
    for (hex, entries, size, expected) in [
        ("", 0, 0, PLAIN),
        ("0001 7801 79", 0, 0, PLAIN),
        // A field with a `#` that is no path.
        ("0001 7801 23", 0, 0, PLAIN),
        ("7301 23", 1, 40, PLAIN),
        // Pseudo-fields: of the static table, whole and by name; by a name spelt out.
        ("88", 0, 0, PSEUDO),
        ("0001 7801 7982", 0, 0, PSEUDO),
        ("0103 612e 62", 0, 0, PSEUDO),
        ("000a 3a61 7574 686f 7269 7479 0179", 0, 0, PSEUDO),
        // Paths: whole, kept or not, never kept, with the name spelt out, each with and without `#` (Huffman: ffaf).
        ("0402 2f61", 0, 0, PSEUDO),
        ("0402 2f23", 0, 0, BOTH),
        ("0482 ffaf", 0, 0, BOTH),
        ("1402 2f23", 0, 0, BOTH),
        ("4402 2f23", 1, 39, BOTH),
        ("0005 3a70 6174 6802 2f23", 0, 0, BOTH),
        ("0084 b958 d33f 022f 23", 0, 0, BOTH),
        // A size, then a path.
        ("20 3fe1 1f 0402 2f23", 0, 0, BOTH),
    ] {
        check(4096, &[(hex, entries, size, expected)]);
    }
    // By a reference to what was kept before: the entry, and its name beside another value.
    check(4096, &[("4402 2f23", 1, 39, BOTH), ("be", 1, 39, BOTH), ("7e 01 2f", 2, 77, PSEUDO)]);
    check(4096, &[("4401 2f", 1, 38, PSEUDO), ("be", 1, 38, PSEUDO), ("0f2f 01 23", 1, 38, BOTH)]);
    check(4096, &[("4001 7801 79", 1, 34, PLAIN), ("be", 1, 34, PLAIN), ("0f2f 01 23", 1, 34, PLAIN)]);
    // What is too large empties the table; a smaller table loses its oldest.
    check(40, &[("4402 2f23", 1, 39, BOTH), ("4001 7809 6162 6364 6566 6768 69", 0, 0, PLAIN)]);
    check(4096, &[("4402 2f23 4001 7801 79", 2, 73, BOTH), ("3f03", 1, 34, PLAIN), ("20", 0, 0, PLAIN)]);
}

#[test]
fn what_is_no_hpack_is_broken() {
    for hex in [
        "80",
        "be",
        "ffff ffff ff7f",
        "3fe2 1f",
        "0f30 01 23",
        "0081 ff01 79 81",
        "0401 23 be",
        "0484 ffff ffff",
        // Cut.
        "04",
        "0402 2f",
        "0f",
        "ff",
        "00",
        "0001 78",
        "0001 7801",
        "3f",
        // Nothing has the length of an entry without name and value.
        "4000 00",
    ] {
        let (mut table, mut found) = (HeaderTable::default(), Found::default());
        assert_eq!(table.read(&bytes(hex), Most::UNBOUNDED, &mut found, &mut Vec::new()), Err(BrokenBlock), "{hex}");
    }
}

/// A block of literals with these names and values, raw, the first octet of each given.
fn literals(fields: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (first, name, value) in fields {
        out.push(*first);
        for text in [name, value] {
            write_integer(0, 7, text.len(), &mut out);
            out.extend_from_slice(text);
        }
    }
    out
}

/// Reads a block whose literals are replaced: gives what it became, and checks that both tables stay in step.
fn replaced(table: &mut HeaderTable, block: &[u8]) -> (Vec<u8>, Found) {
    let mut clean = HeaderTable::default();
    let (mut found, mut out) = (Found::default(), Vec::new());
    let before = table.extent();
    assert_eq!(table.read(block, Most::UNBOUNDED, &mut found, &mut out), Ok(true), "{}", block.escape_ascii());
    if before == (0, 0) {
        let (mut again, mut none) = (Found::default(), Vec::new());
        clean.read(&out, Most::UNBOUNDED, &mut again, &mut none).unwrap();
        assert!(matches!(again.malformed, None | Some(Reason::BadScheme)), "{}", out.escape_ascii());
        assert_eq!(clean.extent(), table.extent(), "{}", out.escape_ascii());
    }
    (out, found)
}

#[test]
fn what_no_message_has_is_replaced_by_what_has_its_length() {
    for (name, value, expected, code) in [
        (&b"x"[..], &b"a\0b"[..], (&b"x"[..], &b"xxx"[..]), Reason::ControlInFieldValue),
        (b"x", b"\x7f", (b"x", b"x"), Reason::ControlInFieldValue),
        (b"cookie", b"a\r\nb", (b"cookie", b"xxxx"), Reason::ControlInFieldValue),
        (b"X-Upper", b"v", (b"xxxxxxx", b"x"), Reason::BadFieldName),
        (b"a b", b"v", (b"xxx", b"x"), Reason::BadFieldName),
        (b"a\xe9", b"", (b"xx", b""), Reason::BadFieldName),
        (b":unknown", b"v", (b"xxxxxxxx", b"x"), Reason::BadFieldName),
        (b"", b"v", (b"x", b""), Reason::BadFieldName),
        (b":method", b"G T", (b":method", b"xxx"), Reason::BadMethod),
        (b":method", b"", (b"xxxxxxx", b""), Reason::BadMethod),
        (b":scheme", b"ftp", (b":scheme", b"xxx"), Reason::BadScheme),
        (b":authority", b"a\xff", (b":authority", b"xx"), Reason::BadHost),
        (b":status", b"abc", (b":status", b"500"), Reason::BadStatus),
        (b":status", b"2000", (b"xxxxxxx", b"xxxx"), Reason::BadStatus),
        (b":path", b"\xff", (b":path", b"/"), Reason::BadPathByte),
    ] {
        for first in [0x40, 0, 0x10] {
            let before = literals(&[(0, b"before", b"1")]);
            let block = [&before, &literals(&[(first, name, value)])[..], &before].concat();
            let written = [&before, &literals(&[(first, expected.0, expected.1)])[..], &before].concat();
            let mut table = HeaderTable::default();
            let (out, found) = replaced(&mut table, &block);
            assert_eq!(out.escape_ascii().to_string(), written.escape_ascii().to_string());
            assert_eq!((found.malformed, found.path), (Some(code), None), "{}", block.escape_ascii());
            if first != 0x40 {
                continue;
            }
            // The entry is as bad when it is referred to; its name only if that is what is bad.
            let mut found = Found::default();
            assert_eq!(table.read(&[0xbe], Most::UNBOUNDED, &mut found, &mut Vec::new()), Ok(false));
            let is_name_made = expected.0 != name;
            assert_eq!(found.malformed, Some(if is_name_made { Reason::BadFieldName } else { code }));
            let (mut found, mut out) = (Found::default(), Vec::new());
            table.read(&[0x0f, 0x2f, 3, b'2', b'0', b'4'], Most::UNBOUNDED, &mut found, &mut out).unwrap();
            let is_name = code == Reason::BadFieldName || is_name_made;
            assert_eq!(
                found.malformed.is_some(),
                is_name || matches!(code, Reason::BadScheme),
                "{}",
                name.escape_ascii()
            );
        }
    }
    // In Huffman code: a value with NUL (ffc7), one with LF (fffffff3), a name with a capital (`A`, 87), by an index of the static table.
    for (hex, code) in [
        ("0001 7882 ffc7", Reason::ControlInFieldValue),
        ("0001 7884 ffff fff3", Reason::ControlInFieldValue),
        ("6084 ffff fff3", Reason::ControlInFieldValue),
        ("0081 8701 79", Reason::BadFieldName),
        ("4082 b9e7 0179", Reason::BadFieldName),
    ] {
        let (_, found) = replaced(&mut HeaderTable::default(), &bytes(hex));
        assert_eq!(found.malformed, Some(code), "{hex}");
    }
    // Good ones stay as they are, also those that are long or beyond ASCII.
    let good = literals(&[
        (0, b"x", "\t \u{e9}~\u{80}".as_bytes()),
        (0x40, b"a!#$%&'*+-.^_`|~0", b""),
        (0, b":method", b"M-SEARCH"),
    ]);
    assert_eq!(HeaderTable::default().read(&good, Most::UNBOUNDED, &mut Found::default(), &mut Vec::new()), Ok(false));
}

#[test]
fn paths_that_are_no_uris_are_handed_over_beside() {
    for path in [&b"/a|b"[..], b"/\xff\x00", b"/a b", b"|/", b"/s?a[]=\\"] {
        let mut table = HeaderTable::default();
        let (out, found) = replaced(&mut table, &literals(&[(0x40, b":path", path)]));
        let filler = [b"/", &vec![PATH_FILLER; path.len() - 1][..]].concat();
        assert_eq!(out, literals(&[(0x40, b":path", &filler)]));
        assert_eq!((found.path.as_deref(), found.malformed), (Some(path), None));
        let mut found = Found::default();
        assert_eq!(table.read(&[0xbe], Most::UNBOUNDED, &mut found, &mut Vec::new()), Ok(false));
        assert_eq!(found.path.as_deref(), Some(path));
        // Another path under its name is another path.
        let mut found = Found::default();
        assert_eq!(table.read(&[0x0f, 0x2f, 1, b'/'], Most::UNBOUNDED, &mut found, &mut Vec::new()), Ok(false));
        assert_eq!((found.path, found.pseudo), (None, true));
    }
    // Huffman code of `/|`, by name of the static table.
    let (out, found) = replaced(&mut HeaderTable::default(), &bytes("0483 63fe 7f"));
    assert_eq!((&out[..], found.path.as_deref()), (&b"\x04\x02/|"[..], Some(&b"/|"[..])));
    let good = literals(&[(0x40, b":path", b"/a-._~!$&'()*+,;=:@%zz?/?"), (0, b":path", b"*")]);
    assert_eq!(HeaderTable::default().read(&good, Most::UNBOUNDED, &mut Found::default(), &mut Vec::new()), Ok(false));
}

#[test]
fn of_too_many_fields_only_what_changes_the_table_goes_on() {
    // Crumbs, kept, not kept and never kept; then a reference, which changes nothing.
    let crumb = |first| literals(&[(first, b"cookie", b"a=1")]);
    let block = [&[0x82][..], &crumb(0), &crumb(0), &crumb(0), &crumb(0x40), &crumb(0x10), &[0xbe, 0xbe]].concat();
    for (most, expected) in [
        (5, [&block[..block.len() - 2]].concat()),
        (2, [&[0x82][..], &crumb(0), &crumb(0), &crumb(0x40)].concat()),
        (1, [&[0x82][..], &crumb(0), &crumb(0x40)].concat()),
    ] {
        let (mut table, mut found, mut out) = (HeaderTable::default(), Found::default(), Vec::new());
        assert_eq!(table.read(&block, Most::fields(most), &mut found, &mut out), Ok(true));
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "at most {most}");
        assert_eq!((found, table.extent()), (PSEUDO, (1, 41)));
    }
    let (mut found, mut out) = (Found::default(), Vec::new());
    assert_eq!(HeaderTable::default().read(&block, Most::fields(7), &mut found, &mut out), Ok(false));
    // Whatever else they are: the request is rejected. But what is no HPACK is broken there, too.
    let bad = [&block[..], &literals(&[(0, b"x", b"a\0b")])].concat();
    assert_eq!(HeaderTable::default().read(&bad, Most::fields(2), &mut found, &mut out), Ok(true));
    assert_eq!(found.malformed, None);
    for hex in ["c8", "80", "0f30 01 23", "0081 ff01 79", "0001 7881 ff", "0402 2f", "00", "0001 78"] {
        let broken = [&block[..], &bytes(hex)].concat();
        assert_eq!(
            HeaderTable::default().read(&broken, Most::fields(2), &mut found, &mut out),
            Err(BrokenBlock),
            "{hex}"
        );
    }
}

#[test]
fn of_a_field_section_that_is_too_large_only_what_changes_the_table_goes_on() {
    // `:method` counts for 39 bytes, a field for 34 and its value.
    let field = |first, len: usize| literals(&[(first, b"xy", &vec![b'v'; len])]);
    let most = |bytes| Most { fields: 100, bytes, read_bytes: bytes + 5000 };
    let filler = literals(&[(0x40, b"x", &[b'x'; CAPACITY])]);
    let read = |block: &[u8], most| {
        let (mut table, mut found, mut out) = (HeaderTable::default(), Found::default(), Vec::new());
        let read = table.read(block, most, &mut found, &mut out);
        (read, out, found, table.extent())
    };
    let head = [&[0x82][..], &field(0, 1)].concat();
    let (read_at, _, found, _) = read(&head, most(39 + 35));
    assert_eq!((read_at, found.too_large), (Ok(false), false));
    let (read_at, out, found, _) = read(&head, most(39 + 34));
    assert_eq!((read_at, out, found.too_large), (Ok(true), vec![0x82], true));
    // What is kept goes on; a reference to it and what is not kept do not.
    let block = [&head[..], &field(0, 3000), &field(0x40, 1), &[0xbe], &field(0x10, 1), &field(0x40, 2)].concat();
    let (read_at, out, found, extent) = read(&block, most(200));
    let expected = [&head[..], &field(0x40, 1), &field(0x40, 2)].concat();
    assert_eq!((read_at, out, found.too_large, extent), (Ok(true), expected, true, (2, 71)));
    // One that empties the table is made as small as it may be.
    let block = [&field(0x40, 1)[..], &field(0x40, 90_000), &field(0x40, 2)].concat();
    let (read_at, out, found, extent) = read(&block, most(200));
    let expected = [&field(0x40, 1)[..], &filler, &field(0x40, 2)].concat();
    assert_eq!((read_at, out, found.too_large, extent), (Ok(true), expected, true, (1, 36)));
    // Pseudo-fields are never left out, wherever the bound is passed.
    let block = [&literals(&[(0, b":authority", &[b'a'; 3000])])[..], &[0x82], &field(0, 1)].concat();
    let (read_at, out, found, _) = read(&block, most(200));
    assert_eq!((read_at, out.len(), found.too_large), (Ok(true), block.len() - field(0, 1).len(), true));
    // Names of the table stand for far more than their octets.
    let name = literals(&[(0x40, &[b'n'; 2000], b"")]);
    let (read_at, out, found, _) = read(&[&name[..], &[0x7e, 0].repeat(1000)].concat(), most(200));
    assert_eq!((read_at, found.too_large, found.too_large_to_read), (Err(BrokenBlock), true, true));
    assert!(out.len() < 6000);
    // And those that are no names are written out in their place.
    let name = literals(&[(0x40, &[b'N'; 2000], b"")]);
    let (read_at, out, found, _) = read(&[&name[..], &[0x7e, 0].repeat(1000)].concat(), most(200));
    assert_eq!((read_at, found.too_large_to_read), (Err(BrokenBlock), true));
    assert!(out.len() < 6000);
}
