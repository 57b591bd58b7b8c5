//! Keyless frames: what was read can be written and read again, and cutting changes no decision.

use wire::keyless::{Dialect, Frame, FrameError, HEADER_BYTES, MAX_FRAME_BYTES, PADDED_BYTES};

/// Any bytes as what a peer sent.
pub fn keyless(data: &[u8]) {
    for dialect in [Dialect::Plain, Dialect::Extended] {
        one(data, dialect);
    }
}

fn one(data: &[u8], dialect: Dialect) {
    match Frame::parse(data, dialect) {
        Ok(None) => assert!(data.len() < MAX_FRAME_BYTES),
        Err(error) => {
            // What was rejected stays rejected, whatever follows; only a wrong version is known before the end.
            assert_eq!(Frame::parse(&[data, &[0]].concat(), dialect), Err(error));
            assert!(matches!(error, FrameError::Version { .. }) || data.len() > HEADER_BYTES);
        }
        Ok(Some((frame, length))) => {
            assert!((HEADER_BYTES..=data.len()).contains(&length));
            for cut in super::cuts(length) {
                assert_eq!(Frame::parse(&data[..cut], dialect), Ok(None));
            }
            assert_eq!(Frame::parse(&data[..length], dialect), Ok(Some((frame, length))));
            let mut written = Vec::new();
            if frame.write_to(&mut written).is_err() {
                // Only what is read without an opcode can be longer when written.
                return assert!(length > MAX_FRAME_BYTES - 4);
            }
            assert!(written.len() >= PADDED_BYTES);
            let (again, again_length) = Frame::parse(&written, Dialect::Extended).unwrap().unwrap();
            assert_eq!(again_length, written.len());
            let canonical = |frame: Frame<'_>| {
                (frame.client_ip.map(|ip| ip.to_canonical()), frame.server_ip.map(|ip| ip.to_canonical()))
            };
            assert_eq!(canonical(again), canonical(frame));
            assert_eq!(
                Frame { client_ip: None, server_ip: None, ..again },
                Frame { client_ip: None, server_ip: None, ..frame }
            );
        }
    }
}
