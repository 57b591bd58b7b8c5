//! What must hold for lists with weights.

use wire::http::quality::{FULL_WEIGHT, weighted};

/// Names and weights in bounds; written out and read again they are the same list, and so they are behind another list.
pub fn quality(value: &[u8]) {
    let found: Vec<(Vec<u8>, u16)> = weighted(value).map(|(name, weight)| (name.to_vec(), weight)).collect();
    let mut written = Vec::new();
    for (name, weight) in &found {
        assert!(!name.is_empty() && *weight <= FULL_WEIGHT);
        assert!(!name.iter().any(|byte| b" \t,;\"\\".contains(byte)), "{}", name.escape_ascii());
        written.extend_from_slice(name);
        written.extend_from_slice(format!(";q={}.{:03},", weight / FULL_WEIGHT, weight % FULL_WEIGHT).as_bytes());
    }
    let read = |value: &[u8]| weighted(value).map(|(name, weight)| (name.to_vec(), weight)).collect::<Vec<_>>();
    assert_eq!(read(&written), found);
    let behind = [b"first;q=0.5,", value].concat();
    assert_eq!(read(&behind)[0], (b"first".to_vec(), 500));
    assert_eq!(read(&behind)[1..], found);
}
