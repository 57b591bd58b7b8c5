//! Encoded bodies, and bodies whose end nothing announces: validated decoded and whole, passed on as they came, and never complete where they were cut.

use std::io::Write;

use super::bodies::gzip;
use super::site::{ORDER, SHOP, Site, write, yaml};
use crate::harness::frames::{Frames, Outcome};
use crate::harness::{Gate, Reply, Upstream, certificates, connect, read_to_end};

const PRODUCT: &str = r#"{"name":"a","price":{"amount":1,"currency":"EUR"}}"#;

/// A mebibyte of spaces as the reference encoder of Brotli (RFC 7932) writes it.
const BROTLI_BOMB: &[u8] = &[0x5b, 0xff, 0xff, 0x8f, 0x5f, 0x02, 0x24, 0x1e, 0x0b, 0x04, 0x72, 0xef, 0x1f, 0x00];

/// Brotli without compression (RFC 7932 §9.2): one raw meta-block of up to 64 KiB, and an empty last one.
fn brotli(content: &[u8]) -> Vec<u8> {
    let bits = ((content.len() as u32 - 1) << 4) | 1 << 20;
    [&bits.to_le_bytes()[..3], content, &[3]].concat()
}

/// A text in an encoding, whole and broken in each way. The codes are those of a request.
fn cases(good: &str, bad: &str) -> Vec<(&'static str, &'static str, Vec<u8>, &'static str)> {
    let mut cases = Vec::new();
    for (coding, encode) in [("br", brotli as fn(&[u8]) -> Vec<u8>), ("gzip", gzip)] {
        let whole = encode(good.as_bytes());
        let broken = "content_encoding_malformed";
        cases.push((coding, "good", whole.clone(), ""));
        cases.push((coding, "against the contract", encode(bad.as_bytes()), "pattern"));
        cases.push((coding, "not encoded", good.as_bytes().to_vec(), broken));
        cases.push((coding, "followed by a byte", [&whole[..], b"x"].concat(), broken));
        for length in [1, whole.len() / 2, whole.len() - 1] {
            cases.push((coding, "cut", whole[..length].to_vec(), broken));
        }
    }
    cases.push(("br", "a bomb", BROTLI_BOMB.to_vec(), "body_ratio"));
    cases.push(("gzip", "a bomb", gzip(&[b' '; 1 << 20]), "body_ratio"));
    cases
}

#[test]
fn encoded_requests_are_validated_decoded() {
    let shop = Site::shop("");
    let mut passed = 0;
    for (coding, what, body, code) in cases(ORDER, &ORDER.replace("\"DE\"", "\"de\"")) {
        let head = format!(
            "POST /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\n"
        );
        let chunks: Vec<u8> = body
            .chunks(7)
            .flat_map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())
            .collect();
        let length = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
        for request in [[length.as_bytes(), &body].concat(), [chunked.as_bytes(), &chunks, b"0\r\n\r\n"].concat()] {
            let response = shop.send(&request);
            let expected = match code {
                "" => 201,
                "body_ratio" => 413,
                _ => 400,
            };
            assert_eq!(response.status, expected, "{coding}, {what}: {response:?}");
            if code.is_empty() {
                passed += 1;
                let seen = shop.upstream.seen();
                let last = seen.last().unwrap();
                assert_eq!((&last.body, last.fields("content-encoding")), (&body, vec![coding]), "{what}");
            } else {
                assert_eq!(response.json()["code"], code, "{coding}, {what}");
            }
            assert_eq!(shop.seen(), passed, "{coding}, {what}");
        }
    }
}

/// How an upstream says where its response ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Length,
    LastChunk,
    Close,
}

fn respond(end: End, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{fields}");
    match end {
        End::Length => [format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat(),
        End::LastChunk => {
            let chunks =
                body.chunks(9).flat_map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            [format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes(), &chunks.collect::<Vec<_>>(), b"0\r\n\r\n"]
                .concat()
        }
        End::Close => [format!("{head}\r\n").as_bytes(), body].concat(),
    }
}

/// A shop over HTTP/1.1 and HTTP/2 whose upstream sends these bytes and closes.
struct Both {
    gate: Gate,
    _upstream: Upstream,
}

impl Both {
    fn start(contract: &str, bytes: Vec<u8>) -> Both {
        let upstream = Upstream::start(move |_| Reply::Close(bytes.clone()));
        let folder = certificates(&[("a.test", false)]);
        write(folder.path(), "openapi.yaml", SHOP);
        let text = yaml(&upstream, contract, "keystores: { main: { folder: certs, default: a.test } }").replace(
            "listeners:\n",
            "listeners:\n  - { name: tls, bind: \"127.0.0.3:0\", contract: api, tls: { keystore: main } }\n",
        );
        Both { gate: Gate::start_in(folder, &text), _upstream: upstream }
    }

    /// What a client has after asking over both: status and body, if the response was whole.
    fn ask(&self) -> [Option<(u16, Vec<u8>)>; 2] {
        let mut client = connect(self.gate.address("web"));
        client.write_all(b"GET /v1/products/7 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
        let first = whole(&read_to_end(&mut client));
        let mut frames = Frames::open(self.gate.address("tls"), self.gate.dir.path());
        frames.headers(1, &crate::harness::frames::get("/v1/products/7"), true);
        let second = match frames.outcome(1) {
            Outcome::Response(status, body) => Some((status, body)),
            _ => None,
        };
        [first, second]
    }
}

/// An HTTP/1.1 answer, if it says itself that it is whole.
fn whole(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, mut rest) = (String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase(), &bytes[at + 4..]);
    let status = head.get(9..12)?.parse().ok()?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()));
    if let Some(length) = field("content-length:") {
        return (rest.len() == length.parse::<usize>().ok()?).then(|| (status, rest.to_vec()));
    }
    assert_eq!(field("transfer-encoding:").as_deref(), Some("chunked"), "an end by close says nothing: {head}");
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        rest = rest.get(line + 2..)?;
        if size == 0 {
            return (rest == b"\r\n").then_some((status, body));
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[test]
fn encoded_responses_are_validated_decoded() {
    for (coding, what, body, code) in cases(PRODUCT, &PRODUCT.replace("EUR", "euro")) {
        for end in [End::Length, End::LastChunk, End::Close] {
            let bytes = respond(end, &format!("Content-Encoding: {coding}\r\n"), &body);
            let shop = Both::start("", bytes);
            for (got, version) in shop.ask().into_iter().zip(["1.1", "2"]) {
                let (status, got) = got.unwrap_or_else(|| panic!("{coding}, {what}, {end:?}, HTTP/{version}: cut"));
                if code.is_empty() {
                    assert_eq!((status, &got), (200, &body), "{coding}, {what}, {end:?}, HTTP/{version}");
                    continue;
                }
                let reported: serde_json::Value = serde_json::from_slice(&got).unwrap();
                assert_eq!(
                    (status, &reported["code"]),
                    (502, &code.into()),
                    "{coding}, {what}, {end:?}, HTTP/{version}"
                );
            }
        }
    }
}

/// Where nothing is blocked, what cannot be decoded passes as it is, and is reported.
#[test]
fn log_says_of_encoded_responses_what_block_would_reject() {
    for (coding, what, body, code) in cases(PRODUCT, &PRODUCT.replace("EUR", "euro")) {
        let shop =
            Both::start(", response: log", respond(End::Close, &format!("Content-Encoding: {coding}\r\n"), &body));
        for got in shop.ask() {
            assert_eq!(got, Some((200, body.clone())), "{coding}, {what}");
        }
        for line in shop.gate.log(2) {
            let reported = line["contract"]["reason"].as_str().unwrap_or_default();
            assert_eq!(reported, code, "{coding}, {what}: {line}");
        }
    }
}

/// A response that is cut in the middle: rejected where it is held, and a cut for the client where it is not.
#[test]
fn a_cut_response_never_looks_whole() {
    let chunked = respond(End::LastChunk, "", PRODUCT.as_bytes());
    let length = respond(End::Length, "", PRODUCT.as_bytes());
    let head = chunked.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let cuts = [
        ("before its first chunk", &chunked[..head]),
        ("in a chunk", &chunked[..head + 7]),
        ("behind a chunk", &chunked[..head + 14]),
        ("before the last chunk", &chunked[..chunked.len() - 5]),
        ("in the last chunk", &chunked[..chunked.len() - 4]),
        ("before the last line end", &chunked[..chunked.len() - 2]),
        ("before its length", &length[..length.len() - 1]),
    ];
    for (what, bytes) in cuts {
        for mode in ["block", "log", "off"] {
            let shop = Both::start(&format!(", response: {mode}"), bytes.to_vec());
            for (got, version) in shop.ask().into_iter().zip(["1.1", "2"]) {
                match got {
                    Some((status, body)) => {
                        assert_eq!(status, 502, "{what}, {mode}, HTTP/{version}: {}", String::from_utf8_lossy(&body));
                    }
                    None => assert_ne!(mode, "block", "{what}, HTTP/{version}: a held answer is no response yet"),
                }
            }
        }
    }
    // Without a length and without chunks, an end by close is all there is; the value itself must be whole.
    let shop = Both::start("", respond(End::Close, "", PRODUCT.as_bytes()));
    assert_eq!(shop.ask(), [Some((200, PRODUCT.as_bytes().to_vec())), Some((200, PRODUCT.as_bytes().to_vec()))]);
    let shop = Both::start("", respond(End::Close, "", &PRODUCT.as_bytes()[..20]));
    assert!(shop.ask().iter().all(|got| got.as_ref().is_some_and(|(status, _)| *status == 502)));
}
