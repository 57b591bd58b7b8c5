//! Control streams and SETTINGS, and what ends their connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Frames as (type, payload).
fn bytes(frames: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|(kind, payload)| frame::write(*kind, payload, &mut bytes));
    bytes
}

fn check(frames: &[(u64, &[u8])], expected: &[Control], error: Option<Code>) {
    let bytes = bytes(frames);
    for step in 1..=bytes.len() {
        let (mut reader, mut said, mut failed) = (ControlReader::default(), Vec::new(), None);
        'stream: for mut piece in bytes.chunks(step) {
            loop {
                match reader.next(&mut piece) {
                    Ok(Some(control)) => said.push(control),
                    Ok(None) => break,
                    Err(code) => {
                        failed = Some(code);
                        break 'stream;
                    }
                }
            }
        }
        assert_eq!((&said[..], failed), (expected, error), "{frames:02x?} by {step}");
    }
}

const PLAIN: Control = Control::Settings(Settings { max_field_section_size: None });
const FIRST: (u64, &[u8]) = (SETTINGS, &[]);

#[test]
fn settings_come_first_and_once() {
    check(&[FIRST], &[PLAIN], None);
    check(&[(0x21, b"x")], &[], Some(Code::MISSING_SETTINGS));
    check(&[(GOAWAY, &[0])], &[], Some(Code::MISSING_SETTINGS));
    check(&[(DATA, &[0])], &[], Some(Code::MISSING_SETTINGS));
    check(&[FIRST, FIRST], &[PLAIN], Some(Code::FRAME_UNEXPECTED));
    for kind in [DATA, HEADERS, PUSH_PROMISE, 0x02, 0x06, 0x08, 0x09] {
        check(&[FIRST, (kind, &[0])], &[PLAIN], Some(Code::FRAME_UNEXPECTED));
    }
    // Priorities (RFC 9218 §7.2), and what nobody knows.
    check(
        &[FIRST, (0xf0700, b"\0u=1"), (0x21, b""), FIRST],
        &[PLAIN, Control::Nothing, Control::Nothing],
        Some(Code::FRAME_UNEXPECTED),
    );
}

#[test]
fn settings_are_bounded_and_true() {
    let sized = |size| Control::Settings(Settings { max_field_section_size: Some(size) });
    check(&[(SETTINGS, &[0x06, 0x41, 0x00, 0x01, 0x00, 0x21, 0x07])], &[sized(0x100)], None);
    // What a client offers for tables of ours is not taken up.
    check(&[(SETTINGS, &[0x01, 0x50, 0x00, 0x07, 0x10, 0x08, 0x01, 0x33, 0x01])], &[PLAIN], None);
    for payload in [
        // Of HTTP/2.
        &[0x00, 0x01][..],
        &[0x02, 0x00],
        &[0x03, 0x01],
        &[0x04, 0x01],
        &[0x05, 0x01],
        // Twice, also in another form.
        &[0x06, 0x01, 0x06, 0x01],
        &[0x21, 0x00, 0x40, 0x21, 0x00],
        &[0x21, 0x00, 0x06, 0x00, 0x21, 0x01],
        // Neither yes nor no.
        &[0x08, 0x02],
        &[0x33, 0x40, 0x02],
    ] {
        check(&[(SETTINGS, payload)], &[], Some(Code::SETTINGS_ERROR));
    }
    for cut in [&[0x06][..], &[0x06, 0x40], &[0x40], &[0x06, 0x00, 0x21], &[0x06, 0x00, 0xc0, 0x00]] {
        check(&[(SETTINGS, cut)], &[], Some(Code::FRAME_ERROR));
    }
    check(&[(SETTINGS, &[0x21; MAX_SETTINGS_BYTES + 1])], &[], Some(Code::EXCESSIVE_LOAD));
}

#[test]
fn ids_go_one_way_and_nothing_is_pushed() {
    check(&[FIRST, (MAX_PUSH_ID, &[5]), (MAX_PUSH_ID, &[5])], &[PLAIN, Control::Nothing, Control::Nothing], None);
    check(&[FIRST, (MAX_PUSH_ID, &[5]), (MAX_PUSH_ID, &[4])], &[PLAIN, Control::Nothing], Some(Code::ID_ERROR));
    check(&[FIRST, (CANCEL_PUSH, &[0])], &[PLAIN], Some(Code::ID_ERROR));
    check(&[FIRST, (GOAWAY, &[4]), (GOAWAY, &[0])], &[PLAIN, Control::Goaway(4), Control::Goaway(0)], None);
    check(&[FIRST, (GOAWAY, &[4]), (GOAWAY, &[5])], &[PLAIN, Control::Goaway(4)], Some(Code::ID_ERROR));
    for kind in [GOAWAY, MAX_PUSH_ID, CANCEL_PUSH] {
        for payload in [&[][..], &[0x40], &[0, 0], &[0x40, 0, 0], &[0; 9]] {
            check(&[FIRST, (kind, payload)], &[PLAIN], Some(Code::FRAME_ERROR));
        }
    }
}

#[test]
fn what_we_say_is_read_the_same() {
    let mut out = Vec::new();
    write_beginning(40_000, true, 255, &mut out);
    write_goaway(12, &mut out);
    assert_eq!(out.first(), Some(&0));
    let (mut reader, mut rest) = (ControlReader::default(), &out[1..]);
    let settings = Settings { max_field_section_size: Some(40_000) };
    assert_eq!(reader.next(&mut rest), Ok(Some(Control::Settings(settings))));
    assert_eq!(reader.next(&mut rest), Ok(Some(Control::Goaway(12))));
    assert_eq!(reader.next(&mut rest), Ok(None));
}
