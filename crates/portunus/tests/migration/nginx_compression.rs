//! Compression beside nginx's `gzip`: which responses are compressed, what their fields say of it, and what a client reads of them. Where ours differs,
//! the row stands apart and says why.

use std::io::{Read as _, Write as _};

use super::distribution::{Site, nginx_with};
use crate::harness::{Gate, Reply, Seen, Upstream, connect, read_to_end, vacant};

/// A body of so many bytes that compresses well.
fn body(size: usize) -> Vec<u8> {
    b"a line of a page that says much the same\n".iter().copied().cycle().take(size).collect()
}

/// A server whose responses are what the path says, `/STATUS/SIZE/TYPE?FIELD=value&...`, with `;` for `/` in the type, `-` for none, and a size of
/// `chunked` for 3000 bytes without a length.
fn reply(seen: &Seen) -> Reply {
    let target = seen.line().split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut words = path.split('/').skip(1);
    let (status, size, kind) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let mut head = format!("HTTP/1.1 {status} X\r\n");
    if kind != "-" {
        head.push_str(&format!("Content-Type: {}\r\n", kind.replace(';', "/").replace('+', "; ")));
    }
    for field in query.split('&').filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once('=').unwrap();
        head.push_str(&format!("{name}: {}\r\n", value.replace('+', " ").replace("%22", "\"")));
    }
    let is_bare = seen.line().starts_with("HEAD ") || matches!(status, "204" | "304");
    let content = body(size.parse().unwrap_or(3000));
    let mut message = match size {
        _ if matches!(status, "204" | "304") => format!("{head}\r\n"),
        "chunked" => format!("{head}Transfer-Encoding: chunked\r\n\r\n"),
        _ => format!("{head}Content-Length: {}\r\n\r\n", content.len()),
    }
    .into_bytes();
    match size {
        _ if is_bare => {}
        "chunked" => {
            for piece in content.chunks(700) {
                message.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                message.extend_from_slice(piece);
                message.extend_from_slice(b"\r\n");
            }
            message.extend_from_slice(b"0\r\n\r\n");
        }
        _ => message.extend_from_slice(&content),
    }
    Reply::Keep(message)
}

/// nginx and ours before one server.
struct Both {
    theirs: Site,
    ours: Gate,
    _upstream: Upstream,
}

/// What a client gets.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    status: u16,
    coding: Option<String>,
    /// Whether Vary names Accept-Encoding.
    varies: bool,
    etag: Option<String>,
    has_length: bool,
    /// Accept-Ranges, Content-Range, Last-Modified and Content-Type.
    others: Vec<Option<String>>,
    /// Without the coding that was put on here.
    body: Vec<u8>,
}

impl Both {
    fn start() -> Both {
        let upstream = Upstream::start(reply);
        let address = vacant();
        let theirs = nginx_with(
            address,
            &format!(
                "gzip on; gzip_types text/plain text/css application/json; gzip_min_length 1000; gzip_vary on; gzip_proxied any;\n\
                 server {{ listen {address}; location / {{ proxy_pass http://{}; proxy_http_version 1.1; }} }}",
                upstream.address
            ),
        );
        let ours = Gate::start(&format!(
            "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\", compression: web }}]\nupstreams: {{ app: {{ servers: [\"{}\"] }} }}\n\
             compression: {{ web: {{ encodings: gzip, types: [text/html, text/plain, text/css, application/json], min_size: 1000B }} }}\n\
             routes:\n  - {{ upstream: app }}\n",
            upstream.address
        ));
        Both { theirs, ours, _upstream: upstream }
    }

    /// `request`: its line without the version, which is 1.1 unless there is one; what came of it at theirs and at ours.
    fn ask(&self, request: &str, fields: &str) -> [Got; 2] {
        [self.theirs.address, self.ours.address("web")].map(|address| {
            let version = if request.contains(" HTTP/") { "" } else { " HTTP/1.1" };
            let mut stream = connect(address);
            write!(stream, "{request}{version}\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n").unwrap();
            got(&read_to_end(&mut stream))
        })
    }

    /// Both do the same, and compress or do not, as expected.
    fn same(&self, request: &str, fields: &str, is_compressed: bool) -> Got {
        let [theirs, ours] = self.ask(request, fields);
        assert_eq!(theirs, ours, "{request} {fields}");
        let is_ours = ours.coding.as_deref() == Some("gzip") && !request.contains("Content-Encoding");
        assert_eq!(is_ours, is_compressed, "{request} {fields}");
        if !request.starts_with("HEAD ") && !matches!(ours.status, 204 | 304) {
            let size = request.split('/').nth(2).unwrap();
            assert_eq!(ours.body, body(size.parse().unwrap_or(3000)), "{request} {fields}");
        }
        ours
    }

    /// One compresses and the other does not; both send the same content.
    fn differ(&self, request: &str, fields: &str, [theirs_compressed, ours_compressed]: [bool; 2]) {
        let [theirs, ours] = self.ask(request, fields);
        let compressed = [&theirs, &ours].map(|got| got.coding.as_deref() == Some("gzip"));
        assert_eq!(compressed, [theirs_compressed, ours_compressed], "{request} {fields}");
        assert_eq!((theirs.status, &theirs.body), (ours.status, &ours.body), "{request} {fields}");
    }
}

fn got(response: &[u8]) -> Got {
    let end = memchr::memmem::find(response, b"\r\n\r\n").unwrap();
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    let all = |wanted: &str| -> Vec<String> {
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned()).collect()
    };
    let one = |wanted: &str| {
        let mut values = all(wanted);
        assert!(values.len() <= 1, "{wanted} twice: {head}");
        values.pop()
    };
    let rest = &response[end + 4..];
    let mut body = if one("transfer-encoding").is_some() { unchunked(rest) } else { rest.to_vec() };
    let coding = one("content-encoding");
    // Of what came encoded, the test's server sends plain bytes.
    if coding.as_deref() == Some("gzip") && body.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let varies = all("vary").iter().any(|value| value.to_ascii_lowercase().contains("accept-encoding"));
    let others = ["accept-ranges", "content-range", "last-modified", "content-type"].map(one);
    Got {
        status: head[9..12].parse().unwrap(),
        coding,
        varies,
        etag: one("etag"),
        has_length: one("content-length").is_some(),
        others: others.to_vec(),
        body,
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let end = memchr::memmem::find(rest, b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            assert_eq!(&rest[end..], b"\r\n\r\n", "the end of the body");
            return out;
        }
        out.extend_from_slice(&rest[end + 2..][..length]);
        rest = &rest[end + 4 + length..];
    }
}

const GZIP: &str = "Accept-Encoding: gzip\r\n";

#[test]
fn who_accepts_it_gets_it() {
    let both = Both::start();
    let page = "GET /200/3000/text;html?ETag=%22x%22&Accept-Ranges=bytes&Last-Modified=Mon,+02+Nov+2026+10:00:00+GMT";
    for (accepted, is_compressed) in [
        ("gzip", true),
        ("GZip", true),
        ("gzip, deflate, br, zstd", true),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", true),
        ("br, gzip", true),
        ("deflate,gzip;q=0.001", true),
        ("identity;q=0.5, gzip;q=1.0", true),
        ("gzip;q=0", false),
        ("gzip;q=0.000", false),
        ("gzip; q=0, deflate", false),
        ("*;q=0", false),
        ("identity", false),
        ("br", false),
        ("deflate, br", false),
        ("gzipped", false),
        ("", false),
    ] {
        let got = both.same(page, &format!("Accept-Encoding: {accepted}\r\n"), is_compressed);
        assert!(got.varies, "{accepted}: a cache may give it to somebody else");
        let etag = if is_compressed { "W/\"x\"" } else { "\"x\"" };
        assert_eq!((got.etag.as_deref(), got.has_length), (Some(etag), !is_compressed), "{accepted}");
        assert_eq!(got.others[0].is_some(), !is_compressed, "{accepted}: Accept-Ranges");
    }
    assert!(both.same(page, "", false).varies);
    for (accepted, compressed) in [
        // nginx looks for the word `gzip`. Any coding is accepted here, so gzip is (RFC 9110 §12.5.3), and `x-gzip` is gzip (§8.4.1.3).
        ("*", [false, true]),
        ("br;q=0.5, *", [false, true]),
        ("x-gzip", [false, true]),
        // Their client prefers the body as it is.
        ("identity, gzip;q=0.1", [true, false]),
        // Said twice, the lower weight counts.
        ("gzip, gzip;q=0", [true, false]),
    ] {
        both.differ(page, &format!("Accept-Encoding: {accepted}\r\n"), compressed);
    }
}

#[test]
fn what_is_worth_it_is_compressed() {
    let both = Both::start();
    for (path, is_compressed) in [
        // By media type.
        ("200/3000/text;html", true),
        ("200/3000/text;plain", true),
        ("200/3000/text;css", true),
        ("200/3000/application;json", true),
        ("200/3000/application;json+charset=utf-8", true),
        ("200/3000/Text;HTML", true),
        ("200/3000/text;html-x", false),
        ("200/3000/text;javascript", false),
        ("200/3000/image;png", false),
        ("200/3000/application;octet-stream", false),
        ("200/3000/-", false),
        // By size.
        ("200/0/text;html", false),
        ("200/1/text;html", false),
        ("200/999/text;html", false),
        ("200/1000/text;html", true),
        ("200/1001/text;html", true),
        ("200/200000/text;html", true),
        ("200/chunked/text;html", true),
        ("200/chunked/image;png", false),
        // By status.
        ("403/3000/text;html", true),
        ("404/3000/text;html", true),
        ("404/10/text;html", false),
        ("204/0/-", false),
        ("304/0/-?ETag=%22x%22", false),
        // A part, and what is encoded already.
        ("206/3000/text;html?Content-Range=bytes+0-2999/9000&ETag=%22x%22", false),
        ("416/3000/image;png?Content-Range=bytes+*/9000", false),
        ("200/3000/text;html?Content-Encoding=br&ETag=%22x%22", false),
        ("200/3000/text;html?Content-Encoding=gzip&ETag=%22x%22", false),
        ("200/3000/text;html?Content-Encoding=compress", false),
        // What it says of itself stays.
        ("200/3000/text;html?ETag=W/%22x%22", true),
        ("200/3000/text;html?Vary=Origin", true),
        ("200/3000/text;html?Vary=accept-encoding", true),
        ("200/3000/text;html?Cache-Control=public,max-age=60", true),
    ] {
        let got = both.same(&format!("GET /{path}"), GZIP, is_compressed);
        if path.contains("ETag") {
            let weak = path.contains("W/") || is_compressed;
            assert_eq!(got.etag.as_deref(), Some(if weak { "W/\"x\"" } else { "\"x\"" }), "{path}");
        }
        assert_eq!(
            got.has_length,
            !is_compressed && !path.contains("chunked") && !matches!(got.status, 204 | 304),
            "{path}"
        );
    }
    for (path, compressed) in [
        // nginx compresses 200, 403 and 404. Pages of other errors and responses to POST are no different.
        ("201/3000/application;json", [false, true]),
        ("500/3000/text;html", [false, true]),
        // Nobody on the way may change it (RFC 9111 §5.2.2.6), and a digest is that of the bytes that the server sent (RFC 9530).
        ("200/3000/text;html?Cache-Control=no-transform", [true, false]),
        ("200/3000/text;html?Content-Digest=sha-256=:AA==:", [true, false]),
        // It says that it is a part, whatever its status.
        ("200/3000/text;html?Content-Range=bytes+0-2999/9000", [true, false]),
    ] {
        both.differ(&format!("GET /{path}"), GZIP, compressed);
    }
}

#[test]
fn requests_of_other_kinds() {
    let both = Both::start();
    let page = "/200/3000/text;html?ETag=%22x%22&Accept-Ranges=bytes";
    both.same(&format!("POST {page}"), &format!("{GZIP}Content-Length: 0\r\n"), true);
    both.same(&format!("DELETE {page}"), GZIP, true);
    // Its server answers with the whole, so the whole is compressed; a server that gives a part gives it as it is.
    both.same(&format!("GET {page}"), &format!("{GZIP}Range: bytes=0-9\r\n"), true);
    both.same("GET /206/10/text;html?Content-Range=bytes+0-9/3000", &format!("{GZIP}Range: bytes=0-9\r\n"), false);
    both.same(&format!("GET {page}"), &format!("{GZIP}If-None-Match: W/\"y\"\r\n"), true);
    both.same("GET /304/0/-?ETag=%22x%22", &format!("{GZIP}If-None-Match: W/\"x\"\r\n"), false);
    // Over HTTP/1.0 a body that is cut would look whole.
    let [theirs, ours] = both.ask(&format!("GET {page} HTTP/1.0"), GZIP);
    assert_eq!([theirs.coding, ours.coding], [None, None]);
    assert_eq!(theirs.body, ours.body);
    // HEAD has the fields that GET would have, but for the length; the server's tells whether it would be too short (RFC 9110 §9.3.2).
    for (path, is_compressed) in
        [(page, true), ("/200/999/text;html", false), ("/200/1000/text;html", true), ("/200/chunked/text;html", true)]
    {
        let got = both.same(&format!("HEAD {path}"), GZIP, is_compressed);
        assert!(got.body.is_empty() && got.varies != (path == "/200/999/text;html"), "{path}: {got:?}");
        assert_eq!(got.has_length, !is_compressed, "{path}");
    }
}

/// nginx compresses them with `gzip_proxied any`. Ours does not unless `with_credentials` says so: a body may hold a secret of its client beside text that
/// somebody else chose, and its compressed length tells whether the two are alike (BREACH).
#[test]
fn what_may_be_meant_for_one_client_alone() {
    let both = Both::start();
    for (path, fields) in [
        ("", "Cookie: session=1\r\n"),
        ("", "Authorization: Basic eA==\r\n"),
        ("?Set-Cookie=a=b", ""),
        ("?Cache-Control=private", ""),
        ("?Cache-Control=no-store", ""),
    ] {
        both.differ(&format!("GET /200/3000/text;html{path}"), &format!("{GZIP}{fields}"), [true, false]);
    }
    both.same("GET /200/3000/text;html?Cache-Control=public", &format!("{GZIP}Cookie: session=1\r\n"), true);
}
