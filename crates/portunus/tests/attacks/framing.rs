//! Where a message ends: Content-Length, Transfer-Encoding, chunks, unread bodies, Expect (rows 1 to 5).

use std::io::{Read, Write};

use crate::harness::trial::{Parts, Trial, gate, server};
use crate::harness::{Reply, Upstream, connect, exchange, read_response, read_to_end, statuses};

/// A POST with these fields and, as its body, one chunk.
fn post(fields: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
}

#[test]
fn transfer_encoding_in_any_odd_form_closes() {
    let mut trial = Trial::start(Parts::default());
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Content-length: 15\r\nTRANSFER-ENCODING: chunked",
    ] {
        trial.reject(post(fields), 400, "length_and_transfer_encoding");
    }
    for (fields, status, reason) in [
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400, "duplicate_transfer_encoding"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400, "duplicate_transfer_encoding"),
        ("Transfer-Encoding: chunked, chunked", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: chunked, identity", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: chunked, gzip", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: identity", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: \"chunked\"", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: chunked;q=1", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: gzip,\tchunked", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: ,chunked", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding:", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding: \u{b}chunked", 400, "control_in_field_value"),
        ("Transfer-Encoding: chunked\0", 400, "control_in_field_value"),
        ("Transfer-Encoding: chunk\u{e9}d", 400, "bad_transfer_encoding"),
        ("Transfer-Encoding : chunked", 400, "space_before_colon"),
        ("Transfer-Encoding\t: chunked", 400, "space_before_colon"),
        ("Transfer_Encoding: chunked", 400, "underscore_in_field_name"),
        ("Transfer.Encoding: chunked", 400, "unusual_field_name"),
        ("Transfer-Encoding:\r\n chunked", 400, "folded_field"),
        ("X: y\r\n Transfer-Encoding: chunked", 400, "folded_field"),
        ("X: y\nTransfer-Encoding: chunked", 400, "bare_lf"),
        ("X: y\rTransfer-Encoding: chunked", 400, "bare_cr"),
        ("Transfer-Encoding: xchunked", 501, "unknown_transfer_coding"),
        ("Transfer-Encoding: gzip, chunked", 501, "unknown_transfer_coding"),
        ("Transfer-Encoding: gzip", 501, "unknown_transfer_coding"),
    ] {
        trial.reject(post(fields), status, reason);
    }
    let old = "POST /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    trial.reject(old, 400, "transfer_encoding_in_http_1_0");
    // The case of the coding and blanks at the end mean nothing (RFC 9112 §7, RFC 9110 §5.5); the framing is made anew all the same.
    let seen = trial.pass(post("Transfer-Encoding:\tcHuNkEd \t\r\nConnection: close"));
    assert_eq!(seen.fields("transfer-encoding"), ["chunked"]);
    assert_eq!((seen.fields("content-length").len(), &seen.body[..]), (0, &b"hello"[..]));
    trial.finish();
}

#[test]
fn content_length_in_any_odd_form_closes() {
    let mut trial = Trial::start(Parts::default());
    let post = |fields: &str| format!("POST /a HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\nhello");
    for fields in [
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 0",
    ] {
        trial.reject(post(fields), 400, "duplicate_content_length");
    }
    for value in [
        "5, 5",
        "5,5",
        "5,6",
        "+5",
        "-0",
        "-5",
        "0x5",
        "5_0",
        "5 0",
        "5.0",
        "5e0",
        "5;",
        "\"5\"",
        "",
        "five",
        "\u{665}",
        "18446744073709551616",
        "18446744073709551621",
        "99999999999999999999",
        "9223372036854775808",
        "0000000000000000005",
    ] {
        trial.reject(post(&format!("Content-Length: {value}")), 400, "bad_content_length");
    }
    trial.reject(post("Content-Length: 5\0"), 400, "control_in_field_value");
    trial.reject(post("Content-Length : 5"), 400, "space_before_colon");
    trial.reject(post("Content_Length: 5"), 400, "underscore_in_field_name");
    trial.reject(post("content!length: 5"), 400, "unusual_field_name");
    assert_eq!(trial.pass(post("Content-Length:\t5 \r\nConnection: close")).body, b"hello");
    trial.finish();
}

/// An upstream that knows what HEAD means.
fn upstream_for_any_method() -> Upstream {
    Upstream::start(|request| {
        let body = if request.head.starts_with("HEAD") { "" } else { "ok" };
        Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").into_bytes())
    })
}

#[test]
fn a_body_is_framed_whatever_the_method() {
    let inner = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "PURGE"] {
        let trial = Trial::before(upstream_for_any_method(), Parts::default());
        let chunk = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
        let sent = format!(
            "{method} /1 HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{inner}\
             {method} /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}\
             {method} /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            inner.len(),
        );
        let response = exchange(trial.gate.address("web"), sent.as_bytes());
        assert_eq!(statuses(&response), [200, 200, 200], "{method}");
        let seen = trial.upstream.seen();
        let lines: Vec<_> = seen.iter().map(|request| (request.line(), request.body.len())).collect();
        let line = |number: u8| format!("{method} /{number} HTTP/1.1");
        assert_eq!(lines, [(&*line(1), inner.len()), (&line(2), inner.len()), (&line(3), 0)]);
        assert!(seen.iter().all(|request| request.whole));
        assert_eq!(trial.gate.log(3).len(), 3);
    }
}

#[test]
fn a_body_left_unread_by_a_rejection_is_drained_or_ends_the_connection() {
    let parts = Parts { route: ", methods: [GET]", file: "limits: { max_discarded_body: 1KiB }", ..Parts::default() };
    let inner = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    for (repeats, statuses_expected, seen_expected) in [(1, &[405, 200][..], 1), (100, &[405], 0)] {
        let body = inner.repeat(repeats);
        let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        for (field, body) in
            [(format!("Content-Length: {}", body.len()), &body), ("Transfer-Encoding: chunked".into(), &chunked)]
        {
            let trial = Trial::start(parts);
            let sent = format!(
                "POST /p HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n{body}GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            );
            let response = exchange(trial.gate.address("web"), sent.as_bytes());
            assert_eq!(statuses(&response), statuses_expected, "{field}");
            // Who keeps connections must know that this one ends, or would send the next request into its end.
            let text = String::from_utf8_lossy(&response).to_ascii_lowercase();
            let first = text.split("\r\n\r\n").next().unwrap();
            assert_eq!(first.contains("\r\nconnection: close"), statuses_expected.len() == 1, "{field}: {first}");
            let seen = trial.upstream.seen();
            assert_eq!(seen.len(), seen_expected, "{field}");
            assert!(seen.iter().all(|request| request.line() == "GET /next HTTP/1.1"));
            assert_eq!(trial.gate.log(statuses_expected.len()).len(), statuses_expected.len());
        }
    }
}

/// Reads to the end of a head.
fn read_head(stream: &mut impl Read) -> Vec<u8> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    head
}

#[test]
fn an_early_response_leaves_no_connection_in_doubt() {
    // The upstream answers on the head alone and would take what follows for requests, as a server does that ignores bodies.
    let heads = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = std::sync::Arc::clone(&heads);
    let address = server(move |connection, mut stream| {
        loop {
            let head = read_head(&mut stream);
            if !head.ends_with(b"\r\n\r\n") {
                break;
            }
            let line = String::from_utf8_lossy(&head).lines().next().unwrap().to_owned();
            kept.lock().unwrap().push((connection, line));
            stream.write_all(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno").unwrap();
        }
    });
    let gate = gate(address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n").unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 403 "));
    // The rest of the body comes late, and looks like a request.
    let rest = format!("GET /smuggled HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(1000));
    let _ = client.write_all(&rest.as_bytes()[..1000]);
    let _ = client.write_all(b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let after = statuses(&read_to_end(&mut client));
    assert!(after == [403] || after.is_empty(), "{after:?}");
    let other = exchange(gate.address("web"), b"GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&other), [403]);
    let heads = heads.lock().unwrap();
    assert_eq!(heads[0], (0, "POST /early HTTP/1.1".to_owned()));
    assert!(heads.iter().all(|(_, line)| !line.contains("smuggled")), "{heads:?}");
    // The connection with an unfinished request on it is not used again.
    assert!(heads.iter().skip(1).all(|(connection, _)| *connection > 0), "{heads:?}");
}

#[test]
fn only_the_one_expectation_passes() {
    let mut trial = Trial::start(Parts::default());
    let post = |fields: &str| format!("POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n{fields}\r\n\r\nhello");
    for value in [
        "100-continu",
        "100-continue, 100-continue",
        "100 continue",
        "",
        "200-ok",
        "\"100-continue\"",
        "100-continue;a=b",
    ] {
        trial.reject(post(&format!("Expect: {value}")), 417, "unknown_expectation");
    }
    trial.reject(post("Expect: 100-continue\r\nExpect: 100-continue"), 400, "duplicate_expect");
    trial.reject(post("Expect: 100-continue\r\nExpect: x"), 400, "duplicate_expect");
    trial.reject(post("Expect : 100-continue"), 400, "space_before_colon");
    for method in ["GET", "POST"] {
        let head = format!("{method} /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n");
        trial.reject(head, 417, "expectation_without_body");
    }
    assert_eq!(trial.pass(post("Expect: 100-Continue\r\nConnection: close")).body, b"hello");
    trial.finish();
}

#[test]
fn a_final_response_before_100_ends_the_connection() {
    let (reported, behind) = std::sync::mpsc::channel();
    let address = server(move |connection, mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n").unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        reported.send((connection, rest)).unwrap();
    });
    let gate = gate(address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 70\r\nExpect: 100-continue\r\n\r\n").unwrap();
    let (head, _) = read_response(&mut client);
    // A client that was never told to continue may go on with its next request or with the body: nobody can tell which.
    assert!(head.starts_with("HTTP/1.1 401 ") && head.contains("Connection: close\r\n"), "{head}");
    let _ = client.write_all(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(gate.log(1).len(), 1);
    // Neither as a body nor as a request, on this connection or on another one.
    assert_eq!(behind.recv(), Ok((0, Vec::new())));
    assert!(behind.try_recv().is_err());
}

/// What breaks the grammar of chunk extensions (RFC 9112 §7.1.1).
const BAD_EXTENSIONS: &[&str] = &[
    ";",
    "; ",
    ";;a",
    ";a;",
    ";=b",
    ";a=\"b",
    ";a=\"b\\\"",
    ";a=",
    ";a= ",
    ";a=;b",
    ";a b",
    ";a b=c",
    ";a =",
    ";a\"b\"",
    ";a=b\"c\"",
    ";a=\"b\"c",
    ";a=\"b\" c",
    ";a=b c",
    ";a==b",
    ";a=b=c",
    ";\"a\"",
    ";a@b",
    ";a=b@c",
    ";a=\"b\"\"c\"",
    ";a={}",
    ";a \u{e9}",
    ";a ",
    ";a=b ",
];

#[test]
fn chunks_in_any_odd_form_close() {
    let mut trial = Trial::start(Parts::default());
    let post = |body: &str| format!("POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    for size in ["0x5", "+5", "-5", " 5", "5 ", "5\t", "5_0", "g", "", "5 ;a", "\u{ff15}"] {
        trial.reject(post(&format!("{size}\r\nhello\r\n0\r\n\r\n")), 400, "bad_chunk_size");
    }
    for extension in BAD_EXTENSIONS {
        trial.reject(post(&format!("5{extension}\r\nhello\r\n0\r\n\r\n")), 400, "bad_chunk_extension");
        trial.reject(post(&format!("5\r\nhello\r\n0{extension}\r\n\r\n")), 400, "bad_chunk_extension");
    }
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(5000));
    let many_trailers = format!("0\r\n{}\r\n", "A: b\r\n".repeat(33));
    let huge_trailer = format!("0\r\nA: {}\r\n\r\n", "x".repeat(9000));
    for (body, status, reason) in [
        ("10000000000000005\r\nhello", 400, "chunk_size_too_long"),
        ("00000000000000005\r\nhello", 400, "chunk_size_too_long"),
        ("5\nhello\r\n0\r\n\r\n", 400, "bare_lf"),
        ("5\rhello\r\n0\r\n\r\n", 400, "bare_cr"),
        ("5;a\nhello\r\n0\r\n\r\n", 400, "bare_lf"),
        ("5;a\rb\r\nhello\r\n0\r\n\r\n", 400, "bare_cr"),
        ("5;\0\r\nhello\r\n0\r\n\r\n", 400, "control_in_chunk_extension"),
        ("5\r\nhellohello\r\n0\r\n\r\n", 400, "chunk_longer_than_its_size"),
        ("5\r\nhello\n0\r\n\r\n", 400, "chunk_longer_than_its_size"),
        ("5\r\nhello0\r\n\r\n", 400, "chunk_longer_than_its_size"),
        ("0\n\n", 400, "bare_lf"),
        ("0\r\n\n", 400, "bare_lf"),
        ("0\r\nA: b\n\r\n", 400, "bare_lf"),
        ("0\r\nContent-Length: 5\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nHost: evil\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nX-Client-Cert-Subject: evil\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nClient-Cert: :AAAA:\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nContent_Length: 5\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nX.Forwarded_For: 1.1.1.1\r\n\r\n", 400, "forbidden_trailer"),
        ("0\r\nA : b\r\n\r\n", 400, "bad_field_name"),
        ("5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n", 400, "folded_field"),
        (&long, 400, "chunk_extensions_too_long"),
        (&many_trailers, 431, "too_many_trailers"),
        (&huge_trailer, 431, "trailers_too_large"),
    ] {
        trial.reject(post(body), status, reason);
    }
    let close = "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    for extension in
        [";hidden=1;x=\"y\"", "; hidden\t=\t1\t;\tx", ";hidden=\"\\\";=,\"; x=\"\"", ";hidden = \"\u{e9} \t\";a"]
    {
        let seen = trial.pass(format!("{close}5{extension}\r\nhello\r\n000;hidden\r\n\r\n"));
        assert_eq!(seen.body, b"hello");
    }
    assert!(memchr::memmem::find(&trial.upstream.raw(), b"hidden").is_none());
    trial.finish();
}
