//! Golden bytes, and tables of what is rejected. The same vectors stand in `docs/keyless-extensions.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const SKI: [u8; 20] = *b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14";

/// Bytes from hexadecimal; spaces are for the reader.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A frame must be written as `head`, an item of padding, and zeros up to 1,024 bytes; and must be read from that again.
fn check_golden(frame: Frame<'_>, head: &str) {
    let mut written = Vec::new();
    frame.write_to(&mut written).unwrap();
    let head = hex(head);
    let mut expected = head.clone();
    expected.push(0x20);
    expected.extend_from_slice(&u16::try_from(1024 - 3 - head.len()).unwrap().to_be_bytes());
    expected.resize(1024, 0);
    assert_eq!(written, expected, "{frame:?}");
    assert_eq!(Frame::parse(&written, Dialect::Extended), Ok(Some((frame, 1024))));
}

#[test]
fn golden_requests() {
    let payload = [0xaa; 4];
    let sign = Frame { id: 7, opcode: 0x15, payload: &payload, ski: Some(&SKI), ..Frame::default() };
    let ski = "04 0014 0102030405060708090a0b0c0d0e0f1011121314";
    check_golden(sign, &format!("01 00 03f8 00000007  11 0001 15  12 0004 aaaaaaaa  {ski}"));
    let named = Frame {
        client_ip: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
        server_ip: Some(Ipv6Addr::LOCALHOST.into()),
        server_name: b"a.example",
        region: 1,
        ..sign
    };
    check_golden(
        named,
        &format!(
            "01 00 03f8 00000007  11 0001 15  12 0004 aaaaaaaa  {ski}  03 0004 c0000201
             05 0010 00000000000000000000000000000001  02 0009 612e6578616d706c65  17 0001 01"
        ),
    );
    let ping = Frame { id: u32::MAX, opcode: opcode::PING, payload: b"hi", ..Frame::default() };
    check_golden(ping, "01 00 03f8 ffffffff  11 0001 f1  12 0002 6869");
}

#[test]
fn golden_extension() {
    let payload = [0xaa; 4];
    let sign = Frame { id: 9, opcode: 0x05, payload: &payload, ski: Some(&SKI), ..Frame::default() };
    let urgent = Frame { deadline_us: Some(500_000), priority: 1, ..sign };
    check_golden(
        urgent,
        "01 00 03f8 00000009  11 0001 05  12 0004 aaaaaaaa  04 0014 0102030405060708090a0b0c0d0e0f1011121314
         40 0004 0007a120  41 0001 01",
    );
    check_golden(Frame { id: 9, opcode: opcode::CANCEL, ..Frame::default() }, "01 00 03f8 00000009  11 0001 40");
    let mut busy = Vec::new();
    write_error(&mut busy, 9, ErrorCode::BUSY, Some(20_000));
    let (frame, _) = Frame::parse(&busy, Dialect::Extended).unwrap().unwrap();
    assert_eq!((frame.error(), frame.retry_after_us), (Some(ErrorCode::BUSY), Some(20_000)));
    check_golden(frame, "01 00 03f8 00000009  11 0001 ff  12 0001 40  42 0004 00004e20");
    let mut late = Vec::new();
    write_error(&mut late, 9, ErrorCode::DEADLINE_PASSED, None);
    let (frame, _) = Frame::parse(&late, Dialect::Extended).unwrap().unwrap();
    check_golden(frame, "01 00 03f8 00000009  11 0001 ff  12 0001 41");
}

#[test]
fn the_extension_is_unknown_where_it_was_not_agreed_on() {
    // Even twice, and of a wrong length: what is unknown is ignored.
    let bytes = hex("01 00 0010 00000001  11 0001 15  40 0001 00  40 0001 00  41 0000 41");
    let (frame, length) = Frame::parse(&bytes[..24], Dialect::Plain).unwrap().unwrap();
    assert_eq!((frame.opcode, frame.deadline_us, frame.priority, length), (0x15, None, 0, 24));
    assert_eq!(Frame::parse(&bytes, Dialect::Extended), Err(FrameError::Length { tag: 0x40 }));
}

#[test]
fn padding_at_the_edge() {
    // Payloads so that header and items are 1,020 to 1,025 bytes long before padding; 15 bytes are not payload.
    for (unpadded, total) in [(1020, 1024), (1021, 1024), (1022, 1025), (1023, 1026), (1024, 1024), (1025, 1025)] {
        let payload = vec![1; unpadded - 15];
        let mut out = vec![0xee];
        Frame::response(1, &payload).write_to(&mut out).unwrap();
        assert_eq!(out.len() - 1, total, "{unpadded}");
        assert_eq!(Frame::parse(&out[1..], Dialect::Plain), Ok(Some((Frame::response(1, &payload), total))));
    }
}

#[test]
fn sizes_at_the_limit() {
    let mut out = b"before".to_vec();
    let longest = vec![0; MAX_BODY_BYTES - 4 - 3];
    assert_eq!(Frame::response(1, &longest).write_to(&mut out), Ok(()));
    assert_eq!(out.len(), 6 + crate::keyless::MAX_FRAME_BYTES);
    let mut out = b"before".to_vec();
    for length in [MAX_BODY_BYTES - 4 - 2, MAX_BODY_BYTES - 2, MAX_BODY_BYTES, MAX_BODY_BYTES + 1] {
        assert_eq!(Frame::response(1, &vec![0; length]).write_to(&mut out), Err(TooLong));
        assert_eq!(out, b"before");
    }
}

#[test]
fn what_is_accepted() {
    let cases: [(&str, Frame<'_>); 8] = [
        ("01 00 0000 00000000", Frame::default()),
        // The minor version is not looked at.
        ("01 77 0004 00000001 11 0001 15", Frame { id: 1, opcode: 0x15, ..Frame::default() }),
        // One or two bytes may be left over.
        ("01 00 0005 00000001 11 0001 15 99", Frame { id: 1, opcode: 0x15, ..Frame::default() }),
        ("01 00 0006 00000001 11 0001 15 9900", Frame { id: 1, opcode: 0x15, ..Frame::default() }),
        // Unknown tags, also twice, and any order.
        ("01 00 000c 00000001 99 0001 00 99 0001 00 11 0001 15", Frame { id: 1, opcode: 0x15, ..Frame::default() }),
        // Selectors of a wrong length are as good as absent.
        ("01 00 0008 00000001 04 0001 00 01 0001 00", Frame { id: 1, ..Frame::default() }),
        ("01 00 0004 00000001 17 0001 01", Frame { id: 1, region: 1, ..Frame::default() }),
        ("01 00 0003 00000001 12 0000", Frame { id: 1, ..Frame::default() }),
    ];
    for (text, expected) in cases {
        let bytes = hex(text);
        assert_eq!(Frame::parse(&bytes, Dialect::Plain), Ok(Some((expected, bytes.len()))), "{text}");
        for cut in 0..bytes.len() {
            assert_eq!(Frame::parse(&bytes[..cut], Dialect::Plain), Ok(None), "{text} cut to {cut}");
        }
    }
}

#[test]
fn what_is_rejected() {
    let cases = [
        ("00 00 0000 00000005", FrameError::Version { id: 5 }),
        ("02 00 0000 00000005", FrameError::Version { id: 5 }),
        ("16 03 0100 01000000", FrameError::Version { id: 0x0100_0000 }),
        ("01 00 0004 00000001 11 0002 15", FrameError::Overrun),
        ("01 00 0003 00000001 12 ffff", FrameError::Overrun),
        ("01 00 0008 00000001 11 0001 15 11 0001 15", FrameError::Duplicate { tag: 0x11 }),
        ("01 00 0006 00000001 20 0000 20 0000", FrameError::Duplicate { tag: 0x20 }),
        // A selector that is ignored still counts.
        ("01 00 0006 00000001 04 0000 04 0000", FrameError::Duplicate { tag: 0x04 }),
        ("01 00 0003 00000001 11 0000", FrameError::Length { tag: 0x11 }),
        ("01 00 0005 00000001 11 0002 1515", FrameError::Length { tag: 0x11 }),
        ("01 00 0005 00000001 17 0002 0101", FrameError::Length { tag: 0x17 }),
        ("01 00 0008 00000001 03 0005 0102030405", FrameError::Length { tag: 0x03 }),
        ("01 00 0003 00000001 05 0000", FrameError::Length { tag: 0x05 }),
    ];
    for (text, expected) in cases {
        assert_eq!(Frame::parse(&hex(text), Dialect::Plain), Err(expected), "{text}");
    }
}

#[test]
fn errors_have_a_code() {
    let cases = [("12 0001 02", Some(ErrorCode::KEY_NOT_FOUND)), ("12 0000", Some(ErrorCode::INTERNAL))];
    for (payload, code) in cases {
        let items = hex(&format!("11 0001 ff {payload}"));
        let mut bytes = vec![1, 0, 0, u8::try_from(items.len()).unwrap(), 0, 0, 0, 1];
        bytes.extend_from_slice(&items);
        assert_eq!(Frame::parse(&bytes, Dialect::Plain).unwrap().unwrap().0.error(), code);
    }
    assert_eq!(Frame::response(1, &[2]).error(), None);
}
