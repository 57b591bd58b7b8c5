//! What a client sends into the access log (row 31).

use crate::harness::trial::{Parts, Trial};
use crate::harness::{exchange, statuses};

/// The log as it is on disk, once it has this many lines.
fn raw_lines(trial: &Trial, count: usize) -> Vec<String> {
    trial.gate.log(count);
    let text = std::fs::read(trial.gate.dir.path().join("access.log")).unwrap();
    assert!(text.ends_with(b"\n"));
    assert!(
        text.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')),
        "not printable ASCII: {}",
        text.escape_ascii()
    );
    let lines: Vec<_> = String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

#[test]
fn each_message_is_one_well_formed_line() {
    let trial = Trial::start(Parts { file: "limits: { max_header_bytes: 32KiB }", ..Parts::default() });
    let long = "u".repeat(20_000);
    let megabyte = format!("User-Agent: {}", "u".repeat(1 << 20));
    let fake = "{\"time\":\"x\",\"status\":200}";
    let mut sent = 0;
    for (target, fields, status) in [
        (r#"/?a="b"&c={d}&e=%0a%0d%00%1b"#, "User-Agent: a\"b\\c", 200),
        ("/\"\u{85}", "A: b", 200),
        ("/", "User-Agent: \u{1b}[31mred", 400),
        ("/", "User-Agent: a\nfake line", 400),
        ("/", "User-Agent: a\r\n\r\nfake", 200),
        ("/", "User-Agent: tab\there \u{2028} \u{85} \u{202e}", 200),
        ("/", &format!("User-Agent: {fake}"), 200),
        ("/", &format!("User-Agent: {long}"), 200),
        ("/", &megabyte, 431),
        (&format!("/{}", "t".repeat(7000)), "A: b", 200),
        (&format!("/{}", "t".repeat(70_000)), "A: b", 414),
        ("/a\u{1b}b", "A: b", 400),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n\r\n");
        let response = exchange(trial.gate.address("web"), head.as_bytes());
        assert_eq!(statuses(&response), [status], "{target} {}", &fields[..fields.len().min(60)]);
        sent += 1;
        let lines = raw_lines(&trial, sent);
        let line: serde_json::Value = serde_json::from_str(&lines[sent - 1]).unwrap();
        assert_eq!(line["status"], status);
        assert!(lines[sent - 1].len() < 8192, "{}", lines[sent - 1].len());
    }
    // Bytes that are no UTF-8, in the value and in the host.
    let response = exchange(
        trial.gate.address("web"),
        b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: \xff\xfe\xc0\x80\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(statuses(&response), [200]);
    let response = exchange(trial.gate.address("web"), b"GET / HTTP/1.1\r\nHost: \xff\x1b\"\r\n\r\n");
    assert_eq!(statuses(&response), [400]);
    // What never becomes a request.
    exchange(trial.gate.address("web"), b"\x16\x03\x01\n{\"fake\":1}\n");
    drop(crate::harness::connect(trial.gate.address("web")));
    let lines = raw_lines(&trial, sent + 4);
    let line = |number: usize| serde_json::from_str::<serde_json::Value>(&lines[number]).unwrap();
    assert_eq!(line(0)["target"], "/?a=%22b%22&c=%7Bd%7D&e=%0a%0d%00%1b");
    assert_eq!(line(0)["user_agent"], "a\"b\\c");
    assert_eq!(line(6)["user_agent"], fake);
    assert_eq!(line(7)["truncated"], serde_json::json!(["user_agent"]));
    assert!(line(7)["user_agent"].as_str().unwrap().len() < 300);
    assert_eq!(line(9)["truncated"], serde_json::json!(["target"]));
    assert_eq!(line(sent)["user_agent"], "\\xff\\xfe\\xc0\\x80");
    assert_eq!(line(sent + 3)["reason"], "closed_without_request");
}

/// Fields of the operator's own hold what clients send, and are no way out of their line or their place in it.
#[test]
fn added_fields_stay_in_their_place() {
    let file = "log: { access: { format: json, output: access.log, fields: { a: \"{header.x-a}\", b: \"{cookie.b}{query.b}\", c: \"{path}\" } } }";
    let trial = Trial::start(Parts { file, ..Parts::default() });
    let long = "\"\\\u{1f}".replace('\u{1f}', "").repeat(5_000);
    let odd = b"\xff\xfe\",\"status\":200}{\"x\":\"".to_vec();
    let mut sent = 0;
    for value in [
        b"\"}},\"status\":200,\"fields\":{\"z\":\"".to_vec(),
        b"\\".to_vec(),
        b"\\u0022".to_vec(),
        "\u{2028}\u{85}\u{202e}".into(),
        odd,
        long.into_bytes(),
        b"a\tb".to_vec(),
    ] {
        let head = [
            b"GET /%22%7D?b=%22%0d%0a\"} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: b=\"}\r\nX-A: ".as_slice(),
            &value,
            b"\r\n\r\n",
        ];
        assert_eq!(statuses(&exchange(trial.gate.address("web"), &head.concat())), [200], "{}", value.escape_ascii());
        sent += 1;
        let lines = raw_lines(&trial, sent);
        let line: serde_json::Value = serde_json::from_str(&lines[sent - 1]).unwrap();
        assert_eq!((&line["status"], &line["kind"]), (&200.into(), &"request".into()));
        let fields = line["fields"].as_object().unwrap();
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(fields["b"], "\"}%22%0d%0a%22%7D");
        let shown = fields["a"].as_str().unwrap();
        assert!(shown.len() <= 256 * 4, "{}", shown.len());
        match std::str::from_utf8(&value) {
            Ok(text) if text.len() <= 256 => assert_eq!(shown, text),
            Ok(_) => assert_eq!(line["truncated"], serde_json::json!(["fields"])),
            Err(_) => assert!(shown.starts_with("\\xff\\xfe\","), "{shown}"),
        }
    }
}

#[test]
fn credentials_are_not_logged() {
    let trial = Trial::start(Parts::default());
    let head = "GET /c HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret\r\nCookie: session=s3cret\r\nX-Api-Key: s3cret\r\nConnection: close\r\n\r\n";
    assert_eq!(statuses(&exchange(trial.gate.address("web"), head.as_bytes())), [200]);
    assert!(!raw_lines(&trial, 1)[0].contains("s3cret"));
}
