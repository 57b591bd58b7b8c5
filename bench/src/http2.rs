//! HTTP/2 frames and literals as the load and the attackers send them (RFC 9113 §4.1, RFC 7541 §6.2.2).

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal of at most 126 bytes of which nothing is kept, named by an entry of the static table below 15.
pub(crate) fn literal(name: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(name);
    text(value, out);
}

/// The same with a name of its own.
pub(crate) fn literal_named(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    text(name, out);
    text(value, out);
}

/// A string without Huffman coding (RFC 7541 §5.2).
fn text(value: &[u8], out: &mut Vec<u8>) {
    out.push(u8::try_from(value.len()).unwrap_or(0));
    out.extend_from_slice(value);
}
