//! Messages of Envoy's: what is read lies in the message, within its bounds, and no cut makes the reader panic.

use wire::envoy::{Processing, read_check, read_processing};

/// Most header fields that are read.
const MAX_FIELDS: usize = 8;

/// Any bytes as either message.
pub fn envoy(data: &[u8]) {
    let lies_within = |part: &[u8]| part.is_empty() || data.as_ptr_range().contains(&part.as_ptr());
    if let Ok(check) = read_check(data, MAX_FIELDS) {
        assert!(check.fields.len() <= MAX_FIELDS);
        assert!(check.fields.iter().all(|(name, value)| lies_within(name) && lies_within(value)));
        assert!(
            [check.method, check.target, check.host].into_iter().flatten().all(lies_within) && lies_within(check.body)
        );
    }
    match read_processing(data, MAX_FIELDS) {
        Ok(Processing::RequestHead { fields, .. }) => {
            assert!(fields.len() <= MAX_FIELDS);
            assert!(fields.iter().all(|(name, value)| lies_within(name) && lies_within(value)));
        }
        Ok(Processing::RequestBody { piece, .. }) => assert!(lies_within(piece)),
        Ok(Processing::RequestTrailers | Processing::Response) | Err(_) => {}
    }
    for len in super::cuts(data.len()) {
        let _ = (read_check(&data[..len], MAX_FIELDS), read_processing(&data[..len], MAX_FIELDS));
    }
}
