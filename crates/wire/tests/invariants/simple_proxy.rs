//! What must hold for any datagram read as one with a header of the Simple Proxy Protocol.

use wire::simple_proxy::{HEADER_BYTES, read, write};

pub fn simple_proxy(data: &[u8]) {
    for length in 0..data.len().min(HEADER_BYTES) {
        assert_eq!(read(&data[..length]), None, "a header that is cut at {length}");
    }
    let Some(header) = read(data) else { return };
    // Mapped addresses are reported as IPv4, and written mapped again.
    assert_eq!(write(&header), data[..HEADER_BYTES]);
    assert_eq!(read(&data[..HEADER_BYTES]), Some(header));
}
