//! Replies of Valkey and Redis.

use wire::resp::{MAX_BULK_BYTES, MAX_ITEMS, MAX_LINE_BYTES, Reply, read};

/// What was read is written again the same, no cut of it is a reply, and what follows it changes nothing.
pub fn resp(data: &[u8]) {
    let Ok(Some((reply, length))) = read(data) else {
        // What is wrong stays wrong, whatever follows.
        if let Err(malformed) = read(data) {
            assert_eq!(read(&[data, b"\r\n+OK\r\n"].concat()), Err(malformed));
        }
        return;
    };
    let whole = &data[..length];
    assert_eq!(write(&reply, false), whole);
    assert_eq!(read(whole), Ok(Some((reply.clone(), length))));
    for cut in 0..length.min(200) {
        assert_eq!(read(&whole[..cut]), Ok(None), "cut at {cut}");
    }
}

fn write(reply: &Reply, is_inner: bool) -> Vec<u8> {
    let line = |kind: char, text: &str| {
        assert!(text.len() <= MAX_LINE_BYTES);
        format!("{kind}{text}\r\n").into_bytes()
    };
    match reply {
        Reply::Status(text) => line('+', text),
        Reply::Error(text) => line('-', text),
        Reply::Integer(number) => line(':', &number.to_string()),
        Reply::Bulk(None) => line('$', "-1"),
        Reply::Bulk(Some(bytes)) => {
            assert!(bytes.len() <= MAX_BULK_BYTES);
            [line('$', &bytes.len().to_string()), bytes.clone(), b"\r\n".to_vec()].concat()
        }
        Reply::Array(items) => {
            assert!(!is_inner, "an array within an array");
            let Some(items) = items else { return line('*', "-1") };
            assert!(items.len() <= MAX_ITEMS);
            let written = items.iter().flat_map(|item| write(item, true));
            line('*', &items.len().to_string()).into_iter().chain(written).collect()
        }
    }
}
