//! What must hold for any bytes, shared by the fuzz targets and the replay of their corpora.

use bytes::BytesMut;

/// Nothing but zeros is left out, nothing changes its place, and of what is left nothing more would be.
pub fn quic_padding(data: &[u8]) {
    let once = taken_out(data);
    assert_eq!(once.is_empty(), data.is_empty(), "a packet keeps a frame");
    assert_eq!(taken_out(&once), once);
    let mut rest = data.iter();
    for byte in &once {
        assert!(rest.any(|other| other == byte), "the order has changed");
    }
    let others = |bytes: &[u8]| bytes.iter().filter(|byte| **byte != 0).count();
    assert_eq!(others(&once), others(data));
}

fn taken_out(data: &[u8]) -> Vec<u8> {
    let mut payload = BytesMut::from(data);
    quic::padding::take_out(&mut payload);
    payload.to_vec()
}
