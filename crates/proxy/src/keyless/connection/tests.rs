//! One connection over a socket pair, with a peer that is written out frame by frame.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use net::Stream;

use super::*;

struct Nobody;

impl Watch for Nobody {
    fn pong(&self, _after: Duration) {}
}

/// A connection, and the other end of it.
fn pair(dialect: Dialect) -> (Connection, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let connection = Connection::new(Transport::plain(Stream::new(ours.into()).unwrap()));
    (Connection { dialect, ..connection }, theirs)
}

/// The next request: its id, opcode and deadline.
fn request(peer: &mut UnixStream) -> (u32, u8, Option<u32>) {
    let mut bytes = [0; 1024];
    peer.read_exact(&mut bytes).unwrap();
    let (frame, length) = Frame::parse(&bytes, Dialect::Extended).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    (frame.id, frame.opcode, frame.deadline_us)
}

fn respond(peer: &mut UnixStream, id: u32, result: &[u8]) {
    let mut bytes = Vec::new();
    Frame::response(id, result).write_to(&mut bytes).unwrap();
    peer.write_all(&bytes).unwrap();
}

const SIGN: Frame<'_> = Frame {
    id: 0,
    opcode: 0x15,
    payload: b"digest",
    extra: b"",
    ski: None,
    digest: None,
    client_ip: None,
    server_ip: None,
    server_name: b"",
    certificate_id: b"",
    function: b"",
    span: b"",
    context: b"",
    region: 0,
    deadline_us: Some(500_000),
    priority: 0,
    retry_after_us: None,
};

const LONG: Duration = Duration::from_secs(1000);

#[tokio::test]
async fn responses_find_their_requests_and_the_last_ids_end_the_connection() {
    let (connection, mut peer) = pair(Dialect::Plain);
    connection.next_id.set(LAST_ID - 1);
    let connection = Rc::new(connection);
    let first = connection.ask(SIGN).unwrap();
    assert!(connection.is_open());
    let second = connection.ask(SIGN).unwrap();
    assert!(!connection.is_open(), "another connection takes over");
    let server = std::thread::spawn(move || {
        let (one, two) = (request(&mut peer), request(&mut peer));
        assert_eq!((one, two), ((LAST_ID - 1, 0x15, None), (LAST_ID, 0x15, None)), "no deadline for a plain peer");
        respond(&mut peer, two.0, b"second");
        respond(&mut peer, one.0, b"first");
        peer
    });
    let ask = async { (first.await, second.await) };
    let (responses, ended) = tokio::join!(ask, connection.serve(LONG, &Nobody));
    assert_eq!(responses, (Ok(b"first".to_vec()), Ok(b"second".to_vec())));
    assert!(matches!(ended, Ended::Left), "{ended}");
    drop(server.join().unwrap());
}

#[tokio::test]
async fn a_dropped_request_is_cancelled_and_its_late_response_ignored() {
    let (connection, mut peer) = pair(Dialect::Extended);
    let connection = Rc::new(connection);
    let server = std::thread::spawn(move || {
        let dropped = request(&mut peer);
        assert_eq!(dropped, (0, 0x15, Some(500_000)));
        let cancel = request(&mut peer);
        assert_eq!((cancel.0, cancel.1), (dropped.0, opcode::CANCEL));
        respond(&mut peer, dropped.0, b"late");
        let next = request(&mut peer);
        respond(&mut peer, next.0, b"next");
        peer
    });
    let ask = async {
        let mut dropped = connection.ask(SIGN).unwrap();
        // Until it is on its way.
        for _ in 0..3 {
            assert!(poll_fn(|context| Poll::Ready(Pin::new(&mut dropped).poll(context))).await.is_pending());
            tokio::task::yield_now().await;
        }
        drop(dropped);
        let next = connection.ask(SIGN).unwrap().await;
        connection.leave();
        next
    };
    let (next, ended) = tokio::join!(ask, connection.serve(LONG, &Nobody));
    assert_eq!(next, Ok(b"next".to_vec()));
    assert!(matches!(ended, Ended::Left), "{ended}");
    drop(server.join().unwrap());
}

/// What a peer that sends these bytes after the first request leads to.
async fn ended_by(dialect: Dialect, bytes: &[u8]) -> (Result<Vec<u8>, KeyFailure>, Ended) {
    let (connection, mut peer) = pair(dialect);
    let connection = Rc::new(connection);
    let asked = connection.ask(SIGN).unwrap();
    let bytes = bytes.to_vec();
    let server = std::thread::spawn(move || {
        request(&mut peer);
        // Refused within: the connection may be closed by then.
        let _ = peer.write_all(&bytes);
        peer
    });
    let both = tokio::join!(asked, connection.serve(LONG, &Nobody));
    drop(server.join().unwrap());
    both
}

#[tokio::test]
async fn what_is_no_response_ends_the_connection_and_its_operations() {
    let of = |frame: Frame<'_>| {
        let mut bytes = Vec::new();
        frame.write_to(&mut bytes).unwrap();
        bytes
    };
    let long = [&[1, 0, 0xff, 0xff, 0, 0, 0, 0][..], &[0; 40_000]].concat();
    let cases = [
        ("nobody asked", of(Frame::response(1, b"x"))),
        ("a request", of(Frame { id: 0, opcode: 0x15, payload: b"x", ..Frame::default() })),
        ("no opcode", of(Frame { id: 0, payload: b"x", ..Frame::default() })),
        ("another version", b"\x02\0\0\0\0\0\0\0".to_vec()),
        ("an item past its frame", b"\x01\0\0\x04\0\0\0\0\x11\xff\xff\0".to_vec()),
        ("an item twice", b"\x01\0\0\x08\0\0\0\0\x11\0\x01\xf0\x11\0\x01\xf0".to_vec()),
        ("too long", long),
    ];
    for (what, bytes) in cases {
        let (response, ended) = ended_by(Dialect::Plain, &bytes).await;
        assert_eq!(response, Err(KeyFailure::Lost), "{what}");
        assert!(matches!(ended, Ended::Protocol(_)), "{what}: {ended}");
    }
}

#[tokio::test]
async fn rejections_have_their_meaning() {
    use wire::keyless::ErrorCode;
    let busy = |milliseconds| KeyFailure::Busy { retry_after: Duration::from_millis(milliseconds) };
    for (code, retry_after_us, failure) in [
        (2, None, KeyFailure::Rejected(ErrorCode::KEY_NOT_FOUND)),
        (0x40, None, busy(20)),
        (0x40, Some(70_000), busy(70)),
        (0x40, Some(u32::MAX), busy(500)),
        (0x41, None, KeyFailure::Timeout),
        (200, None, KeyFailure::Rejected(ErrorCode(200))),
    ] {
        let mut bytes = Vec::new();
        wire::keyless::write_error(&mut bytes, 0, ErrorCode(code), retry_after_us);
        // Something after it that ends the connection.
        bytes.push(2);
        bytes.extend_from_slice(&[0; 7]);
        assert_eq!(ended_by(Dialect::Extended, &bytes).await.0, Err(failure), "{code} {retry_after_us:?}");
    }
}

#[test]
fn pings_do_not_march_in_step() {
    let period = Duration::from_secs(10);
    let pauses: Vec<Duration> = (0..100).map(|_| jittered(period)).collect();
    assert!(pauses.iter().all(|pause| (Duration::from_secs(8)..=Duration::from_secs(12)).contains(pause)));
    assert!(pauses.iter().any(|pause| pause != &pauses[0]));
}
