//! The first message of a TLS stream: no cut changes a decision, and other records of the same message find the same.

use wire::hello_records::client_hello;

/// Any bytes as the beginning of a stream.
pub fn hello_records(data: &[u8]) {
    let found = client_hello(data);
    for len in super::cuts(data.len()) {
        match (client_hello(&data[..len]), &found) {
            (Ok(None), _) => {}
            (part, whole) => assert_eq!(part, *whole, "cut to {len} bytes"),
        }
    }
    let Ok(Some(body)) = found else { return };
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1, length[1], length[2], length[3]], &body[..]].concat();
    for size in [1, 7, 16_384] {
        let record = |content: &[u8]| [&[22, 3, 3][..], &(content.len() as u16).to_be_bytes(), content].concat();
        let records: Vec<u8> = message.chunks(size).flat_map(record).collect();
        assert_eq!(client_hello(&records), Ok(Some(body.clone())), "records of {size} bytes");
    }
}
