//! What the HTTP/2 library drops from a message without a word, where the message is to be rejected (row 9; RFC 9113 §8.1, §8.3.1).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::harness::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, Outcome, PADDED, PROTOCOL_ERROR, SETTINGS, block,
    frame, get,
};
use crate::harness::trial::{Parts, gate, secure_gate, server};
use crate::harness::{Gate, Upstream, exchange, statuses, wait_until};

type Field = (&'static str, &'static [u8]);

/// The end of each good response of [`Upstream::ok`].
fn ok() -> Outcome {
    Outcome::Response(200, b"ok".to_vec())
}

/// The last of so many lines of the log is of the client's fault.
fn check_line(gate: &Gate, lines: usize, reason: &str) {
    let line = gate.log(lines).pop().unwrap();
    assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some(reason), Some("client")), "{line}");
}

#[test]
fn a_fragment_in_the_path_ends_its_stream() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let rest = block(&get("/")[..3]);
    // The path in each form that HPACK has: as it is and in Huffman code, kept in the table, and from there again.
    let forms: [&[u8]; 6] = [
        b"\x04\x08/smug#ed",
        b"\x14\x0b/smug?a#b=c",
        b"\x00\x05:path\x06/smug#",
        b"\x00\x84\xb9\x58\xd3\x3f\x06/smug#",
        b"\x44\x06/smug#",
        b"\xbe",
    ];
    let mut stream = 1;
    for form in forms {
        let head = [&rest, form].concat();
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
        assert_eq!(client.outcome(stream), Outcome::Reset(PROTOCOL_ERROR), "{}", form.escape_ascii());
        check_line(&gate, stream.div_ceil(2) as usize, "malformed_message");
        // The connection goes on; elsewhere a `#` is good.
        let good = [get("/probe"), vec![("x-colour", b"#fff")]].concat();
        client.headers(stream + 2, &good, true);
        assert_eq!(client.outcome(stream + 2), ok());
        stream += 4;
    }
    // In frames that cut it anywhere, with padding.
    let head = [&rest, forms[0]].concat();
    client.send(&frame(HEADERS, END_STREAM | PADDED, stream, &[&[2], &head[..head.len() - 3], &[0; 2]].concat()));
    client.send(&frame(CONTINUATION, 0, stream, &head[head.len() - 3..head.len() - 1]));
    client.send(&frame(CONTINUATION, END_HEADERS, stream, &head[head.len() - 1..]));
    assert_eq!(client.outcome(stream), Outcome::Reset(PROTOCOL_ERROR));
    assert!(memchr::memmem::find(&upstream.raw(), b"/smug").is_none());
}

#[test]
fn pseudo_fields_in_trailers_end_their_stream() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let post = |field: Field| if field.0 == ":method" { (":method", &b"POST"[..]) } else { field };
    let post: Vec<_> = get("/p").into_iter().map(post).collect();
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let mut stream = 1;
    // A field of the static table, one spelt out, one kept in the table by a head (`:authority`) and named from there.
    for trailers in [&b"\x85"[..], b"\x00\x05:path\x09/smuggled", b"\xbe", b"\x84\x00\x01x\x01y"] {
        let head = [&block(&post[..2]), &b"\x41\x06a.test"[..], &block(&post[3..])].concat();
        client.send(&frame(HEADERS, END_HEADERS, stream, &head));
        client.send(&frame(DATA, 0, stream, b"hello"));
        // The head is on its way upstream before the trailers come.
        let posts = stream.div_ceil(4) as usize;
        wait_until("the head upstream", || memchr::memmem::find_iter(&upstream.raw(), b"POST /p ").count() == posts);
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers));
        assert_eq!(client.outcome(stream), Outcome::Reset(PROTOCOL_ERROR), "{}", trailers.escape_ascii());
        check_line(&gate, stream.div_ceil(2) as usize, "pseudo_field_in_trailers");
        client.headers(stream + 2, &get("/probe"), true);
        assert_eq!(client.outcome(stream + 2), ok());
        stream += 4;
    }
    // All of it at once, and a body that is answered without being read.
    client.send(
        &[
            frame(HEADERS, END_HEADERS, stream, &block(&post)),
            frame(DATA, 0, stream, b"hello"),
            frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x85"),
        ]
        .concat(),
    );
    assert_eq!(client.outcome(stream), Outcome::Reset(PROTOCOL_ERROR));
    let whole: Vec<_> = upstream.seen().into_iter().filter(|seen| seen.whole).map(|seen| seen.head).collect();
    assert!(whole.iter().all(|head| head.starts_with("GET /probe ")), "{whole:?}");
}

/// An upstream of HTTP/2 in the clear that sends these frames for its first stream.
fn answering(frames: Vec<u8>) -> SocketAddr {
    server(move |_, mut stream: TcpStream| {
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        // The preface, and a head behind it.
        while !seen.windows(5).any(|window| matches!(window, [HEADERS, _, 0, 0, 0])) {
            match stream.read(&mut piece) {
                Ok(count) if count > 0 => seen.extend_from_slice(&piece[..count]),
                _ => return,
            }
        }
        let _ = stream.write_all(&[frame(SETTINGS, 0, 0, &[]), frames.clone()].concat());
        while stream.read(&mut piece).is_ok_and(|count| count > 0) {}
    })
}

#[test]
fn a_malformed_response_ends_its_stream_and_no_other() {
    // A status that is none, a control in a value, a name with a capital; and good ones behind them, the last from the table.
    let heads =
        [&b"\x08\x032x0"[..], b"\x88\x00\x01x\x01\0", b"\x88\x40\x01X\x01y", b"\x88\x40\x01y\x01z", b"\x88\xbe"];
    let address = server(move |connection, mut stream: TcpStream| {
        assert_eq!(connection, 0, "the connection was given up");
        let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[]));
        let (mut seen, mut piece, mut answered) = (Vec::new(), [0; 4096], 0);
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            seen.extend_from_slice(&piece[..count]);
            while answered < heads.len() {
                let id = answered as u8 * 2 + 1;
                if !seen.windows(7).any(|window| matches!(window, [HEADERS, _, 0, 0, 0, stream, _] if *stream == id)) {
                    break;
                }
                let _ = stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, id.into(), heads[answered]));
                answered += 1;
            }
        }
    });
    let gate = gate(address, Parts { upstream: ", protocol: http2, ejection: { failures: 0 }", ..Parts::default() });
    for (number, status) in [502, 502, 502, 200, 200].into_iter().enumerate() {
        let response = exchange(
            gate.address("web"),
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(statuses(&response), [status], "{}", response.escape_ascii());
        if status == 502 {
            let line = gate.log(number + 1).pop().unwrap();
            assert_eq!(
                (line["reason"].as_str(), line["fault"].as_str()),
                (Some("response_malformed"), Some("upstream"))
            );
        }
    }
}

#[test]
fn pseudo_fields_in_an_upstreams_trailers_cut_the_response() {
    let head = |flags| frame(HEADERS, END_HEADERS | flags, 1, &[0x88]);
    let data = frame(DATA, 0, 1, b"hello");
    let trailers = |block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, 1, block);
    let hint = frame(HEADERS, END_HEADERS, 1, &[&[0x08, 3][..], b"103"].concat());
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for (frames, is_whole) in [
        (vec![head(0), data.clone(), trailers(b"\x00\x05x-sum\x01y")], true),
        (vec![hint, head(END_STREAM)], true),
        (vec![head(0), data.clone(), trailers(&[0x88])], false),
        (vec![head(0), data, trailers(b"\x00\x05:path\x01/")], false),
        (vec![head(0), trailers(&[0x8d])], false),
    ] {
        let gate = gate(answering(frames.concat()), Parts { upstream: ", protocol: http2", ..Parts::default() });
        let response = exchange(gate.address("web"), request);
        let shown = response.escape_ascii().to_string();
        assert!(response.starts_with(b"HTTP/1.1 "), "{shown}");
        let line = gate.log(1).pop().unwrap();
        if is_whole {
            assert_eq!((line["status"].as_u64(), line["reason"].as_str()), (Some(200), None), "{line}: {shown}");
        } else {
            assert_eq!(
                (line["reason"].as_str(), line["fault"].as_str()),
                (Some("response_malformed"), Some("upstream"))
            );
            assert!(!response.ends_with(b"0\r\n\r\n"), "a response that looks whole: {shown}");
        }
    }
}
