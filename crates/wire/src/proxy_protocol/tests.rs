//! Tables for reading and writing headers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn inet(transport: Transport, source: &str, destination: &str) -> Origin<'static> {
    Origin::Inet { transport, source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

/// Reads `bytes` whole, longer and cut everywhere.
fn check(bytes: &[u8], expected: Result<Found<'_>, HeaderError>) {
    let context = String::from_utf8_lossy(bytes);
    assert_eq!(read(bytes, MAX_HEADER_BYTES), expected, "{context:?}");
    for len in 0..bytes.len() {
        match (read(&bytes[..len], MAX_HEADER_BYTES), expected) {
            (Ok(Found::Partial), _) => {}
            (Ok(Found::Absent), Ok(Found::Absent)) => {}
            (Err(error), Err(expected)) if error == expected => {}
            (Ok(Found::Whole(header)), Ok(Found::Whole(expected))) => assert_eq!(header, expected),
            (other, _) => panic!("{other:?} for the first {len} bytes of {context:?}"),
        }
    }
    if let Ok(Found::Whole(_)) | Err(_) = expected {
        let longer = [bytes, b"\r\nGET / HTTP/1.1\r\n"].concat();
        assert_eq!(read(&longer, MAX_HEADER_BYTES), expected, "longer: {context:?}");
    }
}

fn check_line(line: &str, expected: Option<Origin<'static>>) {
    let bytes = format!("{line}\r\n");
    let header = |origin| Header { version: Version::V1, origin, tlvs: Tlvs::default(), len: bytes.len() };
    check(bytes.as_bytes(), expected.map(|origin| Found::Whole(header(origin))).ok_or(HeaderError::Line));
}

#[test]
fn lines() {
    let v4 = inet(Transport::Stream, "192.0.2.1:56324", "198.51.100.7:443");
    let v6 = inet(Transport::Stream, "[2001:db8::1]:0", "[::ffff:192.0.2.1]:65535");
    check_line("PROXY TCP4 192.0.2.1 198.51.100.7 56324 443", Some(v4));
    check_line("PROXY TCP6 2001:db8::1 ::ffff:192.0.2.1 0 65535", Some(v6));
    // As nginx writes them.
    let mixed = |source: &str, destination: &str| Some(inet(Transport::Stream, source, destination));
    check_line("PROXY TCP6 2001:db8::1 192.0.2.1 1 2", mixed("[2001:db8::1]:1", "192.0.2.1:2"));
    check_line("PROXY TCP6 192.0.2.1 2001:db8::1 1 2", mixed("192.0.2.1:1", "[2001:db8::1]:2"));
    check_line("PROXY TCP6 192.0.2.1 198.51.100.7 80 443", mixed("192.0.2.1:80", "198.51.100.7:443"));
    check_line("PROXY TCP4 192.0.2.1 2001:db8::1 1 2", mixed("192.0.2.1:1", "[2001:db8::1]:2"));
    check_line("PROXY UNKNOWN", Some(Origin::Unspecified));
    check_line("PROXY UNKNOWN whatever  there is", Some(Origin::Unspecified));
    for bad in [
        "PROXY ",
        "PROXY  TCP4 192.0.2.1 198.51.100.7 56324 443",
        "PROXY TCP4 192.0.2.1 198.51.100.7 56324",
        "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443 ",
        "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443 1",
        "PROXY TCP4 192.0.2.1  198.51.100.7 56324 443",
        "PROXY TCP4 192.0.2.1 198.51.100.7 65536 443",
        "PROXY TCP4 192.0.2.1 198.51.100.7 -1 443",
        "PROXY TCP4 192.0.2.1 198.51.100.7 +1 443",
        "PROXY TCP4 192.0.2.1 198.51.100.7 080 443",
        "PROXY TCP4 192.0.2.1 198.51.100.7 0x50 443",
        "PROXY TCP4 192.0.2.01 198.51.100.7 80 443",
        "PROXY TCP4 192.0.2.256 198.51.100.7 80 443",
        "PROXY TCP4 2001:db8::1 2001:db8::2 80 443",
        "PROXY TCP6 fe80::1%eth0 2001:db8::2 80 443",
        "PROXY TCP6 [2001:db8::1] 2001:db8::2 80 443",
        "PROXY UDP4 192.0.2.1 198.51.100.7 80 443",
        "PROXY tcp4 192.0.2.1 198.51.100.7 80 443",
        "PROXY unknown",
        "PROXY UNKNOWN\t",
        "PROXY UNKNOWN \u{e9}",
    ] {
        check_line(bad, None);
    }
}

#[test]
fn line_ends_and_lengths() {
    check(b"PROXY UNKNOWN\n", Err(HeaderError::Line));
    check(b"PROXY UNKNOWN\r\r\n", Err(HeaderError::Line));
    check(b"PROXY UNKNOWN\0\r\n", Err(HeaderError::Line));
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(107 - 16));
    let header = Header { version: Version::V1, origin: Origin::Unspecified, tlvs: Tlvs::default(), len: 107 };
    check(longest.as_bytes(), Ok(Found::Whole(header)));
    for more in 1..4 {
        let line = format!("PROXY UNKNOWN {}\r\n", "x".repeat(107 - 16 + more));
        check(line.as_bytes(), Err(HeaderError::TooLong));
    }
}

#[test]
fn what_is_no_header() {
    for other in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"POST / HTTP/1.1\r\n",
        b"PROXYTCP4",
        b"proxy TCP4",
        b"\r\n\r\nGET",
        b"\r\n\r\n\0\r\nQUIT\r\n",
        b"\x16\x03\x01",
        b"\0",
    ] {
        check(other, Ok(Found::Absent));
    }
    check(b"", Ok(Found::Partial));
}

fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [v2::SIGNATURE, &[command, family], &length, block].concat()
}

/// A PROXY header for TCP over IPv4, with these TLVs.
fn with_tlvs(tlvs: &[u8]) -> Vec<u8> {
    binary(0x21, 0x11, &[&[192, 0, 2, 1, 198, 51, 100, 7, 0xdc, 4, 1, 0xbb][..], tlvs].concat())
}

/// TLVs by type and value.
type Listed<'a> = &'a [(u8, &'a [u8])];

fn check_binary(bytes: &[u8], expected: Result<(Origin<'_>, Listed<'_>), HeaderError>) {
    let found = read(bytes, MAX_HEADER_BYTES);
    match expected {
        Ok((origin, tlvs)) => {
            let Ok(Found::Whole(header)) = found else { panic!("{found:?} for {bytes:02x?}") };
            assert_eq!((header.version, header.origin, header.len), (Version::V2, origin, bytes.len()));
            let found: Vec<(u8, &[u8])> = header.tlvs.iter().map(|tlv| (tlv.kind, tlv.value)).collect();
            assert_eq!(found, tlvs);
        }
        Err(error) => assert_eq!(found, Err(error), "{bytes:02x?}"),
    }
    check(bytes, found);
}

#[test]
fn families_and_commands() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 7, 0xdc, 4, 1, 0xbb];
    let mut v6 = [0; 36];
    (v6[0], v6[1], v6[15], v6[16], v6[31], v6[33], v6[35]) = (0x20, 1, 1, 0xfe, 2, 53, 54);
    let mut unix = [0; 216];
    unix[..4].copy_from_slice(b"/a/b");
    unix[108..110].copy_from_slice(b"/c");
    let (from, to) = (unix.first_chunk().unwrap(), unix.last_chunk().unwrap());
    type Row<'a> = (u8, u8, &'a [u8], Result<Origin<'a>, HeaderError>);
    let table: [Row<'_>; 18] = [
        (0x21, 0x11, &v4, Ok(inet(Transport::Stream, "192.0.2.1:56324", "198.51.100.7:443"))),
        (0x21, 0x12, &v4, Ok(inet(Transport::Datagram, "192.0.2.1:56324", "198.51.100.7:443"))),
        (0x21, 0x21, &v6, Ok(inet(Transport::Stream, "[2001::1]:53", "[fe00::2]:54"))),
        (0x21, 0x22, &v6, Ok(inet(Transport::Datagram, "[2001::1]:53", "[fe00::2]:54"))),
        (0x21, 0x31, &unix, Ok(Origin::Unix { transport: Transport::Stream, source: from, destination: to })),
        (0x21, 0x32, &unix, Ok(Origin::Unix { transport: Transport::Datagram, source: from, destination: to })),
        (0x21, 0x00, &[], Ok(Origin::Unspecified)),
        (0x20, 0x00, &[], Ok(Origin::Local)),
        (0x20, 0x11, &v4, Ok(Origin::Local)),
        (0x20, 0xff, b"not looked at", Ok(Origin::Local)),
        (0x21, 0x01, &[], Err(HeaderError::Family)),
        (0x21, 0x10, &v4, Err(HeaderError::Family)),
        (0x21, 0x13, &v4, Err(HeaderError::Family)),
        (0x21, 0x41, &v4, Err(HeaderError::Family)),
        (0x22, 0x11, &v4, Err(HeaderError::Command)),
        (0x11, 0x11, &v4, Err(HeaderError::Version)),
        (0x31, 0x11, &v4, Err(HeaderError::Version)),
        (0x01, 0x11, &v4, Err(HeaderError::Version)),
    ];
    for (command, family, block, expected) in table {
        check_binary(&binary(command, family, block), expected.map(|origin| (origin, &[][..])));
    }
}

#[test]
fn addresses_longer_than_the_block_are_not_read_from_what_follows() {
    for (family, needed) in [(0x11, 12), (0x12, 12), (0x21, 36), (0x22, 36), (0x31, 216), (0x32, 216)] {
        for len in [0, 1, needed - 1] {
            check_binary(&binary(0x21, family, &vec![1; len]), Err(HeaderError::Addresses));
        }
    }
}

#[test]
fn tlvs() {
    let origin = inet(Transport::Stream, "192.0.2.1:56324", "198.51.100.7:443");
    let longest_id = [&[5, 0, 128][..], &[7; 128]].concat();
    let good: [(&[u8], Listed<'_>); 4] = [
        (&[4, 0, 0], &[(4, &[])]),
        (b"\x01\0\x02h2\x02\0\x01a\xee\0\0", &[(1, b"h2"), (2, b"a"), (0xee, b"")]),
        (b"\x20\0\x0c\x07\0\0\0\0\x21\0\x04TLSv", &[(0x20, b"\x07\0\0\0\0\x21\0\x04TLSv")]),
        (&longest_id, &[(5, &[7; 128])]),
    ];
    for (tlvs, expected) in good {
        check_binary(&with_tlvs(tlvs), Ok((origin, expected)));
    }
    let long_id = [&[5, 0, 129][..], &[7; 129]].concat();
    for bad in [
        &b"\x01"[..],
        b"\x01\0",
        b"\x01\0\x01",
        b"\x01\xff\xffab",
        b"\x04\0\0\0",
        b"\x03\0\x03abc",
        b"\x03\0\x05abcde",
        b"\x20\0\x04\0\0\0\0",
        b"\x20\0\x07\x01\0\0\0\0\x21\0",
        b"\x20\0\x09\x01\0\0\0\0\x21\0\x02x",
        &long_id,
    ] {
        check_binary(&with_tlvs(bad), Err(HeaderError::Tlv));
    }
}

#[test]
fn what_is_said_of_tls() {
    let read_flags = |flags: u8, verify: u8| {
        let bytes = with_tlvs(&[0x20, 0, 5, flags, 0, 0, 0, verify]);
        let Ok(Found::Whole(header)) = read(&bytes, MAX_HEADER_BYTES) else { panic!() };
        let ssl = header.tlvs.ssl().unwrap();
        (ssl.is_tls, ssl.certificate_on_connection, ssl.certificate_in_session, ssl.is_verified)
    };
    assert_eq!(read_flags(7, 0), (true, true, true, true));
    assert_eq!(read_flags(7, 1), (true, true, true, false));
    assert_eq!(read_flags(5, 0), (true, false, true, true));
    assert_eq!(read_flags(1, 0), (true, false, false, false), "nothing was there to verify");
    assert_eq!(read_flags(0, 0), (false, false, false, false));
}

#[test]
fn checksums() {
    let origin = inet(Transport::Stream, "192.0.2.1:56324", "198.51.100.7:443");
    let mut bytes = Vec::new();
    write_v2(&mut bytes, &origin, &Extras { alpn: Some(b"h2"), crc32c: true, ..Extras::default() });
    let crc: Vec<u8> = bytes[bytes.len() - 4..].to_vec();
    check_binary(&bytes, Ok((origin, &[(1, b"h2"), (3, &crc)])));
    for at in 16..bytes.len() {
        // Changing a type or a length makes it another header; the others are caught by the checksum.
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        assert!(read(&changed, MAX_HEADER_BYTES).is_err() || !(28..31).contains(&at), "byte {at}");
        if (16..28).contains(&at) {
            check(&changed, Err(HeaderError::Checksum));
        }
    }
    let twice = [&bytes[28..], &bytes[33..]].concat();
    check_binary(&with_tlvs(&twice), Err(HeaderError::Checksum));
}

#[test]
fn a_bound_is_kept() {
    let bytes = with_tlvs(&[&[4, 0, 100][..], &[0; 100]].concat());
    assert!(matches!(read(&bytes, bytes.len()), Ok(Found::Whole(_))));
    assert_eq!(read(&bytes, bytes.len() - 1), Err(HeaderError::TooLong));
    assert_eq!(read(&bytes[..16], bytes.len() - 1), Err(HeaderError::TooLong), "as soon as the length is there");
}

#[test]
fn written_lines() {
    let table = [
        (inet(Transport::Stream, "192.0.2.1:1", "198.51.100.7:443"), "PROXY TCP4 192.0.2.1 198.51.100.7 1 443\r\n"),
        (
            inet(Transport::Stream, "[::ffff:192.0.2.1]:1", "198.51.100.7:2"),
            "PROXY TCP4 192.0.2.1 198.51.100.7 1 2\r\n",
        ),
        (inet(Transport::Stream, "[2001:db8::1]:1", "[::1]:2"), "PROXY TCP6 2001:db8::1 ::1 1 2\r\n"),
        (inet(Transport::Stream, "192.0.2.1:1", "[::1]:2"), "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n"),
        (inet(Transport::Datagram, "192.0.2.1:1", "198.51.100.7:2"), "PROXY UNKNOWN\r\n"),
        (Origin::Local, "PROXY UNKNOWN\r\n"),
        (Origin::Unspecified, "PROXY UNKNOWN\r\n"),
    ];
    for (origin, expected) in table {
        let mut out = b"kept".to_vec();
        write_v1(&mut out, &origin);
        assert_eq!(out, [b"kept", expected.as_bytes()].concat());
    }
}

#[test]
fn written_tlvs() {
    let origin = inet(Transport::Stream, "[2001:db8::1]:56324", "[2001:db8::2]:443");
    let received = with_tlvs(b"\x02\0\x03old\x04\0\x02..\xe0\0\x01x\x20\0\x05\x01\0\0\0\x01\x05\0\x02id");
    let Ok(Found::Whole(received)) = read(&received, MAX_HEADER_BYTES) else { panic!() };
    let ssl = SslExtras {
        version: "TLSv1.3",
        cipher: "TLS_AES_128_GCM_SHA256",
        signature_algorithm: Some("SHA256"),
        key_algorithm: Some("EC256"),
        certificate: Some(CertificateExtras { common_name: Some("alice"), on_connection: true }),
    };
    let extras = Extras {
        alpn: Some(b"h2"),
        authority: Some(b"a.example"),
        unique_id: None,
        ssl: Some(ssl),
        received: received.tlvs,
        crc32c: true,
    };
    let mut out = b"kept".to_vec();
    write_v2(&mut out, &origin, &extras);
    let Ok(Found::Whole(header)) = read(&out[4..], MAX_HEADER_BYTES) else { panic!() };
    assert_eq!((header.origin, header.len), (origin, out.len() - 4));
    let kinds: Vec<u8> = header.tlvs.iter().map(|tlv| tlv.kind).collect();
    assert_eq!(kinds, [1, 2, 0x20, 0xe0, 5, 3]);
    assert_eq!(header.tlvs.get(kind::AUTHORITY), Some(&b"a.example"[..]), "ours, not the one that came in");
    assert_eq!(header.tlvs.get(kind::UNIQUE_ID), Some(&b"id"[..]), "passed on");
    let reported = header.tlvs.ssl().unwrap();
    assert!(reported.is_tls && reported.is_verified && reported.certificate_on_connection);
    let reported: Vec<_> =
        reported.tlvs.iter().map(|tlv| (tlv.kind, std::str::from_utf8(tlv.value).unwrap())).collect();
    let expected =
        [(0x21, "TLSv1.3"), (0x22, "alice"), (0x23, "TLS_AES_128_GCM_SHA256"), (0x24, "SHA256"), (0x25, "EC256")];
    assert_eq!(reported, expected);
}

#[test]
fn what_does_not_fit_is_left_out() {
    let origin = inet(Transport::Stream, "192.0.2.1:1", "198.51.100.7:443");
    let long = vec![b'x'; 40_000];
    let extras = Extras {
        alpn: Some(&long),
        authority: Some(&long),
        unique_id: Some(&long[..129]),
        crc32c: true,
        ..Extras::default()
    };
    let mut out = Vec::new();
    write_v2(&mut out, &origin, &extras);
    let Ok(Found::Whole(header)) = read(&out, usize::MAX) else { panic!() };
    assert_eq!(header.tlvs.iter().map(|tlv| tlv.kind).collect::<Vec<_>>(), [1, 3]);
}
