//! What must hold for any bytes read as a header block.

use wire::http::hpack::{Found, HeaderTable, Most};

/// Reads a block twice, the second time from the table the first has left; what is read in its place leaves the same table, and is good. So it is
/// where only some of the fields may go on.
pub fn hpack(data: &[u8]) {
    read(data, Most::UNBOUNDED);
    read(data, Most::fields(2));
    read(data, Most { fields: 4, bytes: 100, read_bytes: 10_000 });
}

fn read(data: &[u8], most: Most) {
    let (mut theirs, mut ours) = (HeaderTable::default(), HeaderTable::default());
    for _ in 0..2 {
        let (mut found, mut out) = (Found::default(), Vec::new());
        let Ok(is_replaced) = theirs.read(data, most, &mut found, &mut out) else { return };
        assert!(found.pseudo || !(found.fragment || found.path.is_some()), "a path that is no pseudo-field");
        assert_eq!(is_replaced, !out.is_empty());
        let (mut again, mut none) = (Found::default(), Vec::new());
        let read = ours.read(if is_replaced { &out } else { data }, Most::UNBOUNDED, &mut again, &mut none);
        assert!(read.is_ok(), "{} became {}", data.escape_ascii(), out.escape_ascii());
        let is_clean = !is_replaced || matches!(again.malformed, None | Some(reason::Reason::BadScheme));
        assert!(is_clean, "{} became {}", data.escape_ascii(), out.escape_ascii());
        assert_eq!(ours.extent(), theirs.extent(), "{} became {}", data.escape_ascii(), out.escape_ascii());
    }
}
