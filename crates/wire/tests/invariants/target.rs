//! Paths, queries and authorities: canonical forms are fixed points, and no reading of them leaves its place.

use wire::http::target::{canonical_authority, canonical_path, canonical_query};

/// Any bytes as a path, as a query and as an authority.
pub fn target(data: &[u8]) {
    let mut canonical = Vec::new();
    match canonical_path(data, &mut canonical) {
        Ok(has_encoded_slash) => {
            let mut again = Vec::new();
            assert_eq!(canonical_path(&canonical, &mut again), Ok(has_encoded_slash), "{}", data.escape_ascii());
            assert_eq!(again, canonical);
            assert_eq!(decoded(data), decoded(&canonical));
            check_readings(&canonical, has_encoded_slash);
        }
        Err(error) => assert_eq!(error.status, 400),
    }
    canonical.clear();
    match canonical_query(data, &mut canonical) {
        Ok(()) => {
            let mut again = Vec::new();
            assert_eq!(canonical_query(&canonical, &mut again), Ok(()), "{}", data.escape_ascii());
            assert_eq!(again, canonical);
            assert_eq!(decoded(data), decoded(&canonical));
            assert!(canonical.iter().all(|octet| octet.is_ascii_graphic() && !b"#\"<>[\\]^`{|}".contains(octet)));
        }
        Err(error) => assert_eq!(error.status, 400),
    }
    canonical.clear();
    match canonical_authority(data, &mut canonical) {
        Ok(()) => {
            let mut again = Vec::new();
            assert_eq!(canonical_authority(&canonical, &mut again), Ok(()));
            assert_eq!(again, canonical);
            assert!(!canonical.is_empty() && canonical.is_ascii() && !canonical.iter().any(u8::is_ascii_uppercase));
        }
        Err(error) => assert_eq!(error.status, 400),
    }
}

/// However often an upstream decodes the path, and whatever it takes for a separator, no segment is a dot segment.
fn check_readings(canonical: &[u8], has_encoded_slash: bool) {
    let slashes = canonical.iter().filter(|&&octet| octet == b'/').count();
    assert!(std::str::from_utf8(&decoded(canonical)).is_ok());
    let mut reading = canonical.to_vec();
    loop {
        for segment in reading.split(|octet| matches!(octet, b'/' | b'\\')) {
            let name = segment.split(|&octet| octet == b';').next().unwrap_or_default();
            assert!(name != b"." && name != b"..", "{}", canonical.escape_ascii());
        }
        assert!(!reading.iter().any(u8::is_ascii_control), "{}", canonical.escape_ascii());
        let found = reading.iter().filter(|&&octet| octet == b'/').count();
        assert!(has_encoded_slash || found == slashes, "{}", canonical.escape_ascii());
        let next = decoded(&reading);
        if next == reading {
            return;
        }
        reading = next;
    }
}

/// Decodes every escape once; what is no escape stands for itself.
fn decoded(mut path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [first, rest @ ..] = path {
        let escape = path.get(1..3).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let escape = escape.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(octet) => {
                out.push(octet);
                path = &path[3..];
            }
            None => {
                out.push(*first);
                path = rest;
            }
        }
    }
    out
}
