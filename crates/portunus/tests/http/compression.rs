//! Compression of responses: who gets which coding, what is never compressed, what the fields say of it, and that nothing of it waits or grows.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::harness::secure::Secure;
use crate::harness::{Gate, Reply, Upstream, connect, exchange, statuses};

/// What browsers and curl send.
const CHROME: &str = "gzip, deflate, br, zstd";
const SAFARI: &str = "gzip, deflate, br";

fn body() -> String {
    (0..400).map(|number| format!("line {number} of a page that says much the same\n")).collect()
}

/// A server whose responses are what the path says: `/STATUS/TYPE...?FIELD: VALUE&...`, with `;` for `/` in the type.
fn upstream() -> Upstream {
    Upstream::start(|seen| {
        let target = seen.line().split(' ').nth(1).unwrap().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut words = path.split('/').skip(1);
        let (status, kind) = (words.next().unwrap().to_owned(), words.next().unwrap_or("text;html").replace(';', "/"));
        let mut fields = format!("Content-Type: {kind}\r\n");
        query.split('&').filter(|field| !field.is_empty()).for_each(|field| {
            let (name, value) = field.split_once('=').unwrap();
            fields.push_str(&format!("{name}: {}\r\n", value.replace('+', " ").replace("%22", "\"")));
        });
        let body =
            if matches!(&*status, "204" | "304") || seen.line().starts_with("HEAD") { String::new() } else { body() };
        let length = if &*status == "204" || &*status == "304" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", self::body().len())
        };
        Reply::Keep(format!("HTTP/1.1 {status} X\r\n{fields}{length}\r\n{body}").into_bytes())
    })
}

fn text(upstream: &Upstream) -> String {
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", compression: web }}
upstreams:
  app: {{ servers: [\"{0}\"] }}
compression:
  web: {{ min_size: 100B }}
  all: {{ with_credentials: true, encodings: [gzip] }}
hosts:
  never.test: {{ compression: none }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
  - {{ path: \"/all/{{*rest}}\", upstream: app, rewrite: \"/{{rest}}\", compression: all }}
  - {{ path: \"/edited\", upstream: app, rewrite: /200, response_headers: {{ set: {{ Cache-Control: no-transform }} }} }}
  - {{ path: \"/fixed\", respond: {{ status: 200, body: \"{1}\" }} }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        upstream.address,
        "a".repeat(2000)
    )
}

/// The head and the body of the response to one request, without its framing.
fn ask(gate: &Gate, line: &str, fields: &str) -> (String, Vec<u8>) {
    let request = format!("{line} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n");
    let response = exchange(gate.address("web"), request.as_bytes());
    let end = memchr::memmem::find(&response, b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    let is_chunked = head.contains("\r\nTransfer-Encoding: chunked\r\n");
    let body = if is_chunked { unchunked(&response[end..]) } else { response[end..].to_vec() };
    (head, body)
}

/// What a client reads of a body.
fn decoded(head: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let coding = head.lines().find_map(|line| line.strip_prefix("Content-Encoding: "));
    match coding {
        Some("gzip") => _ = flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap(),
        Some("br") => _ = brotli::Decompressor::new(body, 4096).read_to_end(&mut out).unwrap(),
        Some("zstd") => _ = zstd::stream::read::Decoder::new(body).unwrap().read_to_end(&mut out).unwrap(),
        _ => out.extend_from_slice(body),
    }
    out
}

#[test]
fn each_client_gets_the_coding_that_it_prefers() {
    let upstream = upstream();
    let gate = Gate::start(&text(&upstream));
    let rows = [
        (CHROME, Some("zstd")),
        (SAFARI, Some("br")),
        ("gzip", Some("gzip")),
        ("br;q=0.5, gzip;q=0.9", Some("gzip")),
        ("*", Some("zstd")),
        ("identity, gzip;q=0.1", None),
        ("gzip;q=0", None),
        ("deflate", None),
        ("", None),
    ];
    for (at, (accepted, coding)) in rows.into_iter().enumerate() {
        let (head, body) =
            ask(&gate, "GET /200?ETag=%22x%22&Accept-Ranges=bytes", &format!("Accept-Encoding: {accepted}\r\n"));
        let found = head.lines().find_map(|line| line.strip_prefix("Content-Encoding: "));
        assert_eq!(found, coding, "{accepted}: {head}");
        assert_eq!(decoded(&head, &body), self::body().as_bytes(), "{accepted}");
        assert!(head.contains("\r\nVary: Accept-Encoding"), "{head}");
        let is_compressed = coding.is_some();
        assert_eq!(head.contains("\r\nETag: W/\"x\""), is_compressed, "{head}");
        assert_eq!(head.contains("\r\nContent-Length: "), !is_compressed, "{head}");
        assert_eq!(head.contains("\r\nAccept-Ranges: bytes"), !is_compressed, "{head}");
        assert!(!is_compressed || body.len() * 4 < self::body().len(), "{}", body.len());
        let line = gate.log(at + 1).pop().unwrap();
        assert_eq!(line["compression"]["encoding"].as_str(), coding, "{line}");
        if is_compressed {
            assert_eq!(line["compression"]["bytes"], self::body().len());
            assert_eq!(line["bytes_sent"], body.len());
        }
    }
    assert_eq!(upstream.seen()[0].fields("accept-encoding"), [CHROME]);
    let metrics = gate.metrics();
    assert!(metrics.contains("portunus_compressed_responses_total{encoding=\"zstd\"} 2"), "{metrics}");
    assert!(metrics.contains(&format!("portunus_compression_input_bytes_total{{encoding=\"br\"}} {}", body().len())));
}

/// HEAD says of a resource what GET would, but for the length, which only compressing would tell (RFC 9110 §9.3.2).
#[test]
fn head_has_the_fields_that_get_would_have() {
    let upstream = upstream();
    let gate = Gate::start(&text(&upstream));
    for target in ["/200?ETag=%22x%22&Accept-Ranges=bytes", "/200/image;png?ETag=%22x%22", "/fixed", "/edited"] {
        for accepted in [CHROME, "deflate"] {
            let [get, head] = ["GET", "HEAD"].map(|method| {
                let (head, body) =
                    ask(&gate, &format!("{method} {target}"), &format!("Accept-Encoding: {accepted}\r\n"));
                assert_eq!(method == "HEAD", body.is_empty(), "{head}");
                let of_framing = ["Date:", "Content-Length:", "Transfer-Encoding:"];
                let is_other = |line: &&str| !of_framing.iter().any(|name| line.starts_with(name));
                let mut fields: Vec<String> = head.lines().filter(is_other).map(str::to_owned).collect();
                fields.sort();
                (fields, head.contains("\r\nContent-Length: "), head.contains("\r\nContent-Encoding: "))
            });
            assert_eq!(get.0, head.0, "{target} {accepted}");
            assert_eq!(head.1, !head.2, "{target} {accepted}: a length where nothing is compressed");
        }
    }
}

#[test]
fn what_must_stay_as_it_is_stays() {
    let upstream = upstream();
    let gate = Gate::start(&text(&upstream));
    for (line, fields, is_compressed) in [
        ("GET /200", "", true),
        ("GET /404", "", true),
        ("GET /200/application;json", "", true),
        ("GET /200/text;html?Vary=Origin,+accept-encoding", "", true),
        ("GET /200/image;png", "", false),
        ("GET /200/application;grpc+json", "", false),
        ("GET /206?Content-Range=bytes+0-1/2", "", false),
        ("GET /200?Content-Encoding=br", "", false),
        ("GET /200?Cache-Control=no-transform", "", false),
        ("GET /200?Content-Digest=x", "", false),
        ("GET /304", "", false),
        ("GET /204", "", false),
        ("GET /edited", "", false),
        ("GET /fixed", "", true),
        // What may be meant for one client alone: its length could tell a secret (BREACH).
        ("GET /200", "Cookie: session=1\r\n", false),
        ("GET /200", "Authorization: Basic eA==\r\n", false),
        ("GET /200?Cache-Control=public,max-age=60", "Cookie: session=1\r\n", true),
        ("GET /200?Set-Cookie=a", "", false),
        ("GET /200?Cache-Control=private", "", false),
        ("GET /all/200?Cache-Control=private", "Cookie: session=1\r\n", true),
        ("GET /all/200?Cache-Control=private,no-transform", "", false),
    ] {
        let fields = format!("Accept-Encoding: {CHROME}\r\n{fields}");
        let (head, body) = ask(&gate, line, &fields);
        let ours = ["zstd", "gzip"].iter().any(|coding| head.contains(&format!("\r\nContent-Encoding: {coding}\r\n")));
        assert_eq!(ours, is_compressed, "{line} {fields}: {head}");
        if is_compressed && !line.contains("fixed") {
            assert_eq!(decoded(&head, &body), self::body().as_bytes(), "{line}");
            assert_eq!(head.to_ascii_lowercase().matches("accept-encoding").count(), 1, "{head}");
        }
    }
    let other = exchange(
        gate.address("web"),
        format!("GET /200 HTTP/1.1\r\nHost: never.test\r\nAccept-Encoding: {CHROME}\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    );
    assert!(statuses(&other) == [200] && other.ends_with(body().as_bytes()));
    // A client of HTTP/1.0 knows no chunks, so that it could not tell the end from a cut.
    let old = exchange(
        gate.address("web"),
        format!("GET /200 HTTP/1.0\r\nHost: a.test\r\nAccept-Encoding: {CHROME}\r\n\r\n").as_bytes(),
    );
    assert!(old.ends_with(body().as_bytes()), "{}", old.escape_ascii());
}

/// A server that sends a part of a response, and the next one when it is told to.
fn slow(kind: &'static str) -> (Upstream, std::sync::mpsc::Sender<&'static str>) {
    let (tell, told) = std::sync::mpsc::channel::<&str>();
    let told = std::sync::Mutex::new(Some(told));
    let upstream = Upstream::start(move |_| {
        let told = told.lock().unwrap().take().unwrap();
        Reply::Take(Box::new(move |mut stream: TcpStream| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            for piece in told {
                if piece == "cut" {
                    return;
                }
                write!(stream, "{:x}\r\n{piece}\r\n", piece.len()).unwrap();
            }
            write!(stream, "0\r\n\r\n").unwrap();
        }))
    });
    (upstream, tell)
}

/// Reads chunks until what came can be decoded to this.
fn read_until(client: &mut impl Read, raw: &mut Vec<u8>, expected: &str) {
    let mut piece = [0; 4096];
    loop {
        let mut out = Vec::new();
        let body = raw.windows(4).position(|end| end == b"\r\n\r\n").map(|at| unchunked(&raw[at + 4..]));
        if let Some(body) = body {
            let mut decoder = flate2::read::GzDecoder::new(&body[..]);
            let mut byte = [0; 64];
            while let Ok(count @ 1..) = decoder.read(&mut byte) {
                out.extend_from_slice(&byte[..count]);
            }
            if out == expected.as_bytes() {
                return;
            }
        }
        let count = client.read(&mut piece).unwrap();
        assert!(count > 0, "ended before {expected}: {}", raw.escape_ascii());
        raw.extend_from_slice(&piece[..count]);
    }
}

fn unchunked(mut raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(at) = raw.windows(2).position(|end| end == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&raw[..at]).unwrap(), 16).unwrap();
        out.extend_from_slice(&raw[at + 2..raw.len().min(at + 2 + length)]);
        if length == 0 || raw.len() < at + 4 + length {
            break;
        }
        raw = &raw[at + 4 + length..];
    }
    out
}

#[test]
fn what_trickles_in_is_not_held_back() {
    for kind in ["text/event-stream", "text/html"] {
        let (upstream, tell) = slow(kind);
        let gate = Gate::start(&text(&upstream));
        let mut client = connect(gate.address("web"));
        write!(client, "GET /events HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
        let (mut raw, mut expected) = (Vec::new(), String::new());
        for event in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
            tell.send(event).unwrap();
            expected.push_str(event);
            read_until(&mut client, &mut raw, &expected);
        }
        drop(tell);
        while !raw.ends_with(b"0\r\n\r\n") {
            let mut piece = [0; 4096];
            let count = client.read(&mut piece).unwrap();
            assert!(count > 0, "{kind}: no end");
            raw.extend_from_slice(&piece[..count]);
        }
    }
}

#[test]
fn a_body_that_is_cut_does_not_look_whole() {
    let (upstream, tell) = slow("text/html");
    let gate = Gate::start(&text(&upstream));
    let mut client = connect(gate.address("web"));
    write!(client, "GET /cut HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
    tell.send("begun").unwrap();
    let mut raw = Vec::new();
    read_until(&mut client, &mut raw, "begun");
    tell.send("cut").unwrap();
    let _ = client.read_to_end(&mut raw);
    assert!(!raw.ends_with(b"0\r\n\r\n"), "{}", raw.escape_ascii());
    assert_eq!(gate.log(1)[0]["fault"], "upstream");
}

#[test]
fn without_room_for_an_encoder_responses_go_on_as_they_are() {
    let upstream = upstream();
    // Room for one of gzip.
    let gate = Gate::start(&format!("{}limits: {{ max_compression_memory: 600KiB }}\n", text(&upstream)));
    let (head, body) = ask(&gate, "GET /200", "Accept-Encoding: br, zstd\r\n");
    assert!(!head.contains("Content-Encoding") && head.contains("\r\nVary: Accept-Encoding"), "{head}");
    assert_eq!(body, self::body().as_bytes());
    for _ in 0..3 {
        let (head, body) = ask(&gate, "GET /200", "Accept-Encoding: gzip\r\n");
        assert!(head.contains("\r\nContent-Encoding: gzip\r\n"), "{head}");
        assert_eq!(decoded(&head, &body), self::body().as_bytes());
    }
}

#[test]
fn curl_reads_it_over_http2() {
    let upstream = upstream();
    let text = text(&upstream).replace("bind: \"127.0.0.1:0\"", "bind: \"127.0.0.1:0\", tls: { keystore: main }");
    let text = format!("{text}keystores: {{ main: {{ folder: certs, default: a.test }} }}\n");
    let gate = Gate::start_in(crate::harness::certificates(&[("a.test", false)]), &text);
    let address = gate.address("web");
    let output = std::process::Command::new("curl")
        .args(["--silent", "--show-error", "--http2", "--compressed", "--dump-header", "head", "--cacert", "ca.pem"])
        .args(["--connect-to", &format!("a.test:443:{address}"), "https://a.test/200"])
        .current_dir(gate.dir.path())
        .output()
        .expect("curl is installed (Debian package curl)");
    assert_eq!(output.stdout, body().as_bytes(), "{output:?}");
    let head = std::fs::read_to_string(gate.dir.path().join("head")).unwrap();
    assert!(head.starts_with("HTTP/2 200") && head.contains("\r\ncontent-encoding: "), "{head}");
    // A certificate of the client is a credential, too; without one, TLS changes nothing.
    let mut client = Secure::connect(address, gate.dir.path(), "a.test", "http/1.1");
    write!(client, "GET /200 HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: br\r\nConnection: close\r\n\r\n").unwrap();
    let response = crate::harness::read_to_end(&mut client);
    assert!(memchr::memmem::find(&response, b"\r\nContent-Encoding: br\r\n").is_some(), "{}", response.escape_ascii());
}
