//! `multipart/form-data`: parts, files, encodings, and the tricks by which readers are made to disagree.

use contract::options::{Limits, Options};

use super::{Request, contract, contract_with, decision, problems};

const SCHEMA: &str = "{type: object, required: [name], additionalProperties: false, properties: {name: {type: string, maxLength: 5}, age: {type: integer}, tags: {type: array, items: {type: integer}}, meta: {type: object, properties: {x: {type: integer}}, additionalProperties: false}, file: {type: string, contentMediaType: application/octet-stream, maxLength: 10, minLength: 1}, files: {type: array, maxItems: 2, items: {type: string, contentMediaType: image/png}}}}";

fn document(encoding: &str) -> String {
    format!(
        "openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    post:\n      requestBody:\n        required: true\n        content: {{multipart/form-data: {{schema: {SCHEMA}{encoding}}}}}\n      responses: {{'200': {{description: ok}}}}\n"
    )
}

fn body(parts: &[(&str, &str)]) -> String {
    let parts: String = parts
        .iter()
        .map(|(head, content)| {
            format!("--b\r\nContent-Disposition: form-data; {}\r\n\r\n{content}\r\n", head.replace('\n', "\r\n"))
        })
        .collect();
    format!("{parts}--b--\r\n")
}

fn post(body: impl Into<Vec<u8>>) -> Request {
    Request::post("/a", "multipart/form-data; boundary=b", body)
}

#[test]
fn parts_are_validated_by_their_fields() {
    let contract = contract(&document(""));
    let name = ("name=\"name\"", "ann");
    let rows: [(&[(&str, &str)], &str); 18] = [
        (&[name], "ok"),
        (&[("name=name", "ann")], "ok"),
        (&[("name=\"name\"", "annabelle")], "max_length body /name"),
        (&[("name=\"age\"", "3")], "required body /name"),
        (&[name, ("name=\"age\"", "x")], "type body /age"),
        (&[name, ("name=\"age\"\nContent-Type: text/plain", "3")], "ok"),
        (&[name, ("name=\"age\"\nContent-Type: image/png", "3")], "part_content_type body age"),
        (&[name, name], "parameter_repeated body name"),
        (&[name, ("name=\"tags\"", "1"), ("name=\"tags\"", "2")], "ok"),
        (&[name, ("name=\"tags\"", "1"), ("name=\"tags\"", "x")], "type body /tags/1"),
        (&[name, ("name=\"meta\"\nContent-Type: application/json", "{\"x\":1}")], "ok"),
        (&[name, ("name=\"meta\"", "{\"x\":\"1\"}")], "type body /meta/x"),
        (&[name, ("name=\"meta\"", "1,\"age\":2")], "form_malformed body meta"),
        (&[name, ("name=\"x\"", "1")], "unknown_field body /x"),
        (&[name, ("name=\"x\"; filename=\"a\"", "1")], "part_content_type body x"),
        (&[("name=\"name\"; filename=\"a\"", "ann")], "part_content_type body name"),
        (
            &[name, ("name=\"file\"; filename=\"a.docx\"\nContent-Type: application/vnd.openxmlformats", "PK\u{0}")],
            "ok",
        ),
        (&[name, ("name=\"file\"; filename=\"a\"", "12345678901")], "max_length body /file"),
    ];
    for (parts, expected) in rows {
        assert_eq!(decision(&contract, &post(body(parts))), expected, "{parts:?}");
    }
    assert_eq!(decision(&contract, &post(body(&[name, ("name=\"file\"", "")]))), "min_length body /file");
    let file = ("name=\"files\"; filename=\"a\"\nContent-Type: image/png", "x");
    assert_eq!(decision(&contract, &post(body(&[name, file, file]))), "ok");
    assert_eq!(decision(&contract, &post(body(&[name, file, file, file]))), "max_items body /files");
}

#[test]
fn encodings_restrict_parts() {
    let encoding = ", encoding: {file: {contentType: 'image/png, image/jpeg', headers: {X-Sum: {required: true, schema: {type: integer}}}}}";
    let contract = contract(&document(encoding));
    let with = |head: &str| body(&[("name=\"name\"", "ann"), (head, "x")]);
    let rows = [
        ("name=\"file\"; filename=\"a\"\nContent-Type: image/png\nX-Sum: 5", "ok"),
        ("name=\"file\"; filename=\"a\"\nContent-Type: image/gif\nX-Sum: 5", "part_content_type body file"),
        ("name=\"file\"; filename=\"a\"\nX-Sum: 5", "part_content_type body file"),
        ("name=\"file\"; filename=\"a\"\nContent-Type: image/png", "part_header_missing header x-sum"),
        ("name=\"file\"; filename=\"a\"\nContent-Type: image/png\nX-Sum: a", "type header x-sum"),
    ];
    for (head, expected) in rows {
        assert_eq!(decision(&contract, &post(with(head))), expected, "{head}");
    }
    assert!(problems(&document(", encoding: {file: {contentTyp: image/png}}")).contains("has no `contentTyp`"));
}

/// Style, heads and contents of parts, decision.
type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], &'r str);

/// OpenAPI 3.1.1 §4.8.15: an explicit style counts for parts as for fields. In 3.0 it counts for the other kind of form only.
#[test]
fn styles_of_parts() {
    let name = ("name=\"name\"", "ann");
    let validate = |style: &str, parts: &[(&str, &str)]| {
        let text = document(&format!(", encoding: {{meta: {{style: {style}}}, tags: {{style: spaceDelimited}}}}"));
        let contract = contract(&text);
        decision(&contract, &post(body(&[&[name], parts].concat())))
    };
    let rows: [Row<'_>; 12] = [
        ("form", &[("name=\"x\"", "1")], "ok"),
        ("form", &[("name=\"x\"", "y")], "type body /meta/x"),
        ("form", &[("name=\"x\"; filename=\"a\"", "1")], "part_content_type body x"),
        ("form", &[("name=\"meta\"", "{\"x\":1}")], "form_malformed body meta"),
        ("form, explode: false", &[("name=\"meta\"", "x,1")], "ok"),
        ("pipeDelimited", &[("name=\"meta\"", "x|y")], "type body /meta/x"),
        ("deepObject", &[("name=\"meta[x]\"", "1")], "ok"),
        ("deepObject", &[("name=\"meta[x]\"", "y")], "type body /meta/x"),
        ("deepObject", &[("name=\"meta[y]\"", "1")], "unknown_field body /meta/y"),
        ("form", &[("name=\"tags\"", "1 2")], "ok"),
        // Nothing is escaped in a part.
        ("form", &[("name=\"tags\"", "1+2")], "type body /tags/0"),
        ("form", &[("name=\"tags\"", "1%202")], "type body /tags/0"),
    ];
    for (style, parts, expected) in rows {
        assert_eq!(validate(style, parts), expected, "{style} {parts:?}");
    }
    let text = "openapi: 3.0.3
info: {title: t, version: '1'}
paths:
  /a:
    post:
      requestBody:
        content:
          multipart/form-data:
            schema: {type: object, properties: {name: {type: string}, file: {type: string, format: binary}, meta: {type: object, properties: {x: {type: integer}}}}}
            encoding: {name: {style: form}, file: {style: form}, meta: {style: deepObject, explode: true}}
      responses: {'200': {description: ok}}
";
    let contract = contract(text);
    for (part, expected) in [
        (("name=\"meta\"", "{\"x\":1}"), "ok"),
        (("name=\"meta\"", "{\"x\":\"y\"}"), "type body /meta/x"),
        (("name=\"meta[x]\"", "1"), "unknown_field body /meta[x]"),
        (("name=\"file\"; filename=\"a\"\nContent-Type: image/png", "\u{0}"), "ok"),
    ] {
        assert_eq!(decision(&contract, &post(body(&[name, part]))), expected, "{part:?}");
    }
}

/// Everything that is wrong with the parts is reported, and nothing that only follows from it.
#[test]
fn all_that_is_wrong_with_parts_is_reported() {
    let encoding =
        ", encoding: {file: {contentType: 'image/png', headers: {X-Sum: {required: true, schema: {type: integer}}}}}";
    let contract = contract(&document(encoding));
    let all = |parts: &[(&str, &str)]| super::all_decisions(&contract, &post(body(parts)));
    assert_eq!(all(&[("name=\"name\"", "ann")]), [""; 0]);
    let found = all(&[
        ("name=\"name\"\nContent-Type: image/png", "ann"),
        ("name=\"file\"; filename=\"a\"\nContent-Type: image/gif", "12345678901"),
        ("name=\"x\"; filename=\"a\"", "1"),
        ("name=\"age\"", "y"),
        ("name=\"tags\"", "1"),
        ("name=\"tags\"", "z"),
        ("name=\"meta\"", "{"),
        ("name=\"u\"", "1"),
    ]);
    let expected = [
        "part_content_type body name",
        "part_content_type body file",
        "part_header_missing header x-sum",
        "part_content_type body x",
        "form_malformed body meta",
        "type body /age",
        "type body /tags/1",
        "unknown_field body /u",
    ];
    assert_eq!(found, expected);
    let found = all(&[
        ("name=\"name\"", "annabelle"),
        ("name=\"file\"; filename=\"a\"\nContent-Type: image/png\nX-Sum: 1", "12345678901"),
        ("name=\"files\"; filename=\"a\"\nContent-Type: image/png", "x"),
    ]);
    assert_eq!(found, ["max_length body /file", "max_length body /name"]);
    // Where the parts end too early, what came before is reported all the same.
    let cut = body(&[("name=\"name\"; filename=\"a\"", "ann")]).replace("--b--", "");
    assert_eq!(
        super::all_decisions(&contract, &post(cut)),
        ["part_content_type body name", "multipart_malformed body"]
    );
}

#[test]
fn what_readers_disagree_about_is_rejected() {
    let contract = contract(&document(""));
    let part = "Content-Disposition: form-data; name=\"name\"\r\n\r\nann";
    let rows = [
        (format!("--b\r\n{part}\r\n--b--\r\n"), "ok"),
        (format!("--b\r\n{part}\r\n--b--"), "ok"),
        (format!("preamble\r\n--b\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("\r\n--b\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\n{part}\r\n--b--\r\nepilogue"), "multipart_malformed body"),
        (format!("--b\r\n{part}\r\n--b--\r\n\r\n"), "multipart_malformed body"),
        (format!("--b\r\n{part}\r\n"), "multipart_malformed body"),
        (format!("--b\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b \r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\n{part}\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\n{part}\r\n--bc\r\nx\r\n--b--\r\n"), "multipart_malformed body"),
        ("--b\r\n\r\nann\r\n--b--\r\n".to_owned(), "multipart_malformed body"),
        ("--b\r\nContent-Disposition: form-data\r\n\r\nann\r\n--b--\r\n".to_owned(), "multipart_malformed body"),
        (
            "--b\r\nContent-Disposition: attachment; name=\"name\"\r\n\r\nann\r\n--b--\r\n".to_owned(),
            "multipart_malformed body",
        ),
        (
            "--b\r\nContent-Disposition: form-data; name=\"name\"; name=\"age\"\r\n\r\nann\r\n--b--\r\n".to_owned(),
            "multipart_malformed body",
        ),
        (
            "--b\r\nContent-Disposition: form-data; name=\"a\\\"; x=\"\r\n\r\nann\r\n--b--\r\n".to_owned(),
            "multipart_malformed body",
        ),
        (
            format!("--b\r\nContent-Disposition: form-data; name=\"age\"\r\n{part}\r\n--b--\r\n"),
            "multipart_malformed body",
        ),
        (format!("--b\r\nContent-Transfer-Encoding: base64\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\nContent-Encoding: gzip\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\nContent-Length: 3\r\n{part}\r\n--b--\r\n"), "ok"),
        (format!("--b\r\nContent-Length: 4\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\nContent-Length: +3\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\nContent-Length: 3\r\nContent-Length: 3\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\n{part}\r--b--\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\n{part}--b\r\n--b--\r\n"), "max_length body /name"),
        (format!("--b\r\n{}-b\r\n--b--\r\n", part.replace("ann", "a-")), "ok"),
        (format!("--b\r\nX: a\r\n b\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (format!("--b\r\nX: a\nY: b\r\n{part}\r\n--b--\r\n"), "multipart_malformed body"),
        (
            "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n--b--\r\n".to_owned(),
            "multipart_malformed body",
        ),
        ("--b--\r\n".to_owned(), "required body /name"),
    ];
    for (body, expected) in rows {
        assert_eq!(decision(&contract, &post(body.clone())), expected, "{body:?}");
    }
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a\u{e9}\"",
        "multipart/form-data; boundary=b; boundary*=utf-8''c",
    ] {
        let request = Request::post("/a", content_type, "--b--");
        assert_eq!(decision(&contract, &request), "content_type_malformed header content-type", "{content_type}");
    }
}

#[test]
fn parts_are_bounded() {
    let limits = Limits { multipart_parts: 3, part_head_bytes: 200, part_bytes: 20, ..Limits::default() };
    let contract = contract_with(&document(""), &Options { limits, ..Options::default() });
    let tag = ("name=\"tags\"", "1");
    assert_eq!(decision(&contract, &post(body(&[("name=\"name\"", "a"), tag, tag]))), "ok");
    assert_eq!(decision(&contract, &post(body(&[("name=\"name\"", "a"), tag, tag, tag]))), "multipart_limit body");
    let long = format!("name=\"name\"\nX-Long: {}", "x".repeat(300));
    assert_eq!(decision(&contract, &post(body(&[(&long, "a")]))), "multipart_limit body");
    assert_eq!(decision(&contract, &post(body(&[("name=\"name\"", &"x".repeat(30))]))), "multipart_limit body name");
}

#[test]
fn what_cannot_be_validated_of_a_file_is_a_problem() {
    let text = document("").replace("maxLength: 10, minLength: 1", "pattern: '^PK'");
    assert!(problems(&text).contains("the bytes of a file are not looked into"), "{}", problems(&text));
}

/// What curl sends for `-F` is read as curl means it.
#[test]
fn forms_that_curl_sends() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), b"\x89PNG\r\n--").unwrap();
    let mut curl = std::process::Command::new("curl")
        .args([
            "--silent",
            "--max-time",
            "60",
            "--header",
            "Expect:",
            "-F",
            "name=ann",
            "-F",
            "age=3",
            "-F",
            "tags=1",
            "-F",
            "tags=2",
        ])
        .args(["-F", "meta={\"x\":1};type=application/json", "-F", "file=@a.bin"])
        .arg(format!("http://{}/a", listener.local_addr().unwrap()))
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"--\r\n") {
        let mut piece = [0; 4096];
        let len = stream.read(&mut piece).unwrap();
        assert!(len > 0, "curl gave up");
        bytes.extend_from_slice(&piece[..len]);
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert!(curl.wait().unwrap().success());
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let content_type = head.lines().find_map(|line| line.strip_prefix("Content-Type: ")).unwrap();
    let request = Request::post("/a", content_type, bytes[end + 4..].to_vec());
    assert_eq!(decision(&contract(&document("")), &request), "ok");
    assert_eq!(
        decision(&contract(&document("").replace("maxLength: 5", "maxLength: 2")), &request),
        "max_length body /name"
    );
}
