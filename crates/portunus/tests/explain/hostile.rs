//! Requests that are asked about are as hostile as any: they stay one request, one line of text, and bounded.

use std::fs;

use super::{explained, portunus};

const SITE: &str = "listeners: [{ name: web, bind: \":8080\" }]
routes: [{ path: \"/{*rest}\", respond: { status: 204 } }]
";

#[test]
fn hostile_requests_are_rejected_as_they_are_when_they_come() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("portunus.yaml"), SITE).unwrap();
    let long = format!("http://a.example:8080/{}", "a".repeat(60_000));
    let field = format!("X: {}", "a".repeat(60_000));
    for (arguments, reason) in [
        (&["GET", "http://a.example:8080/%00"][..], "encoded_control_in_path"),
        (&["GET", "http://a.example:8080/../../etc"], "dot_segment"),
        (&["GET", "http://a.example:8080/%zz"], "bad_percent_encoding"),
        (&["GET", &long], "request_line_too_long"),
        (&["GET", "http://a.example:8080/", "-H", &field], "head_too_large"),
        (&["GET", "http://a.example:8080/", "-H", "A B: c"], "space_before_colon"),
        (&["GET", "http://a.example:8080/", "-H", "Host: a", "-H", "Host: b"], "duplicate_host"),
        (&["GET", "http://a.example:8080/", "-H", "Transfer-Encoding: x"], "unknown_transfer_coding"),
        (&["CONNECT", "http://a.example:8080/"], "bad_host"),
    ] {
        let said = explained(folder.path(), arguments);
        let shown = said["response"]["reason"].as_str().unwrap_or_default().to_owned();
        assert_eq!(shown, reason, "{:.200?}", arguments);
        assert!(said.get("upstream").is_none());
    }
}

#[test]
fn what_could_be_another_request_or_move_a_terminal_is_no_argument() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("portunus.yaml"), SITE).unwrap();
    for arguments in [
        &["GET", "http://a.example:8080/\r\nX: y"][..],
        &["GET", "http://a.example:8080/ HTTP/1.1"],
        &["GET / HTTP/1.1\r\nX:", "http://a.example:8080/"],
        &["GET", "http://a.example:8080/", "-H", "A: b\r\n\r\nGET / HTTP/1.1"],
        &["GET", "http://a.example:8080/", "-H", "A: \u{1b}[2J\n"],
        &["GET", "http://a\u{1b}[2J.example:8080/"],
    ] {
        let output = portunus(folder.path(), &[&["explain", "portunus.yaml"], arguments].concat());
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!((output.status.code(), printed.lines().count()), (Some(1), 1), "{arguments:?}: {printed}");
        assert!(printed.starts_with("error: ") && !printed.trim_end().contains(char::is_control), "{printed:?}");
    }
    // Bytes that a field may hold are shown so that nothing moves.
    let output = portunus(folder.path(), &["explain", "portunus.yaml", "GET", "http://a.example:8080/\u{9b}2J"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!printed.chars().any(|c| c.is_control() && c != '\n'), "{printed:?}");
}
