//! What must hold for any bytes read as a header block.

use wire::http::hpack::{Found, HeaderTable};

/// Reads a block that comes in two parts, as the frames of a connection bring it; none if it is broken. Gives what is left as well.
fn read(parts: [&[u8]; 2]) -> Option<(Found, usize)> {
    let (mut table, mut found, mut held) = (HeaderTable::default(), Found::default(), Vec::new());
    for part in parts {
        held.extend_from_slice(part);
        let read = table.read(&held, &mut found).ok()?;
        held.drain(..read);
    }
    // A table that was read into serves for the next block.
    let _ = table.read(&[0xbe, 0xbf, 0xc0], &mut Found::default());
    Some((found, held.len()))
}

pub fn hpack(data: &[u8]) {
    let whole = read([data, &[]]);
    for cut in super::cuts(data.len()) {
        assert_eq!(read([&data[..cut], &data[cut..]]), whole, "cut at {cut}");
    }
    if let Some((found, _)) = whole {
        assert!(found.pseudo || !found.fragment, "a path that is no pseudo-field");
    }
}
