//! What must hold for any document, query, form or multipart body at all. Each function panics where it does not.
//!
//! Shared by the test `message_corpus` and by the fuzz targets in `/fuzz`, which include it by path. Owns no inputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unreachable_pub)]

use std::sync::LazyLock;

use contract::options::{Limits, Options};
use contract::validate::{BodyPlan, Findings, Framing, RequestParts, Scratch};
use contract::{Contract, Found};

/// Takes any bytes, and panics where an invariant does not hold for them.
pub type Check = fn(&[u8]);

/// Every reader by the name of its fuzz target and corpus folder.
pub const ALL: [(&str, Check); 7] = [
    ("contract_parameters", contract_parameters),
    ("contract_multipart", contract_multipart),
    ("contract_xml", contract_xml),
    ("contract_yaml", contract_yaml),
    ("contract_sequence", contract_sequence),
    ("contract_document", contract_document),
    ("contract_learn", contract_learn),
];

/// Every style in every place, a form and a multipart body.
static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let limits =
        Limits { array_elements: 20, multipart_parts: 8, part_head_bytes: 200, part_bytes: 200, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    Contract::from_text("fuzz.yaml", include_str!("messages.yaml"), &options).unwrap()
});

/// The first line is the path, the second the query, the third a field value and a cookie, the rest a form.
pub fn contract_parameters(bytes: &[u8]) {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (path, query, field, body) = (line(), line(), line(), line());
    let path = [b"/p/", path].concat();
    let fields = vec![
        ("X-List".to_owned(), field.to_vec()),
        ("X-Object".to_owned(), field.to_vec()),
        ("X-Json".to_owned(), field.to_vec()),
        ("Cookie".to_owned(), field.to_vec()),
        ("Content-Type".to_owned(), b"application/x-www-form-urlencoded".to_vec()),
    ];
    let Found::Operation(..) = CONTRACT.find("POST", &path) else { return };
    validate_every_way(&path, Some(query), &fields, body);
}

/// The bytes are a body with the boundary `b`.
pub fn contract_multipart(bytes: &[u8]) {
    let fields = vec![("Content-Type".to_owned(), b"multipart/form-data; boundary=b".to_vec())];
    let is_good = validate_every_way(b"/m", None, &fields, bytes);
    if is_good && !bytes.is_empty() {
        let end: &[u8] = if bytes.ends_with(b"\r\n") { b"--b--\r\n" } else { b"--b--" };
        assert!(bytes.starts_with(b"--b") && bytes.ends_with(end), "preamble or epilogue passed");
        let text = String::from_utf8_lossy(bytes);
        let heads = text.matches("\r\n--b\r\n").count() + usize::from(text.starts_with("--b\r\n"));
        assert!(heads <= 8, "too many parts passed");
    }
}

fn of_type(content_type: &str) -> Vec<(String, Vec<u8>)> {
    vec![("Content-Type".to_owned(), content_type.as_bytes().to_vec())]
}

/// The bytes are XML. What passes is XML to another reader, and holds nothing that only some expand.
pub fn contract_xml(bytes: &[u8]) {
    validate_every_way(b"/x", None, &of_type("application/xml"), bytes);
    let is_good = validate_every_way(b"/x", None, &of_type("text/xml"), bytes);
    if is_good && !bytes.is_empty() {
        let text = std::str::from_utf8(bytes).unwrap();
        let read = roxmltree::Document::parse_with_options(text, roxmltree::ParsingOptions::default());
        let read = read.unwrap_or_else(|error| panic!("another reader says {error}: {text:?}"));
        assert!(!read.descendants().any(|node| node.is_pi()) && !text.contains("<!D"), "{text:?}");
    }
}

/// The bytes are YAML.
pub fn contract_yaml(bytes: &[u8]) {
    validate_every_way(b"/y", None, &of_type("application/yaml"), bytes);
    let is_good = validate_every_way(b"/y", None, &of_type("application/x-yaml"), bytes);
    if is_good {
        assert!(!bytes.starts_with(b"%") && !bytes.starts_with(b"!"), "a directive or a tag passed");
    }
}

/// The bytes are JSON texts in a row, by lines and by records. What passes is read alike line by line.
pub fn contract_sequence(bytes: &[u8]) {
    validate_every_way(b"/s", None, &of_type("application/x-ndjson"), bytes);
    let all_json = |texts: &mut dyn Iterator<Item = &str>| {
        for text in texts {
            let read: Result<serde::de::IgnoredAny, _> = serde_json::from_str(text);
            assert!(read.is_ok(), "another reader does not take {text:?}");
        }
    };
    if validate_every_way(b"/s", None, &of_type("application/jsonl"), bytes) && !bytes.trim_ascii().is_empty() {
        let text = std::str::from_utf8(bytes).unwrap();
        all_json(&mut text.lines().filter(|line| !line.trim().is_empty()));
    }
    if validate_every_way(b"/s", None, &of_type("application/json-seq"), bytes) && !bytes.is_empty() {
        let text = std::str::from_utf8(bytes).unwrap();
        all_json(&mut text.split('\u{1e}').skip(1));
    }
}

/// Validates at once, byte by byte and in sevens, stopping early and collecting, with new room and with used: always the same.
fn validate_every_way(path: &[u8], query: Option<&[u8]>, fields: &Vec<(String, Vec<u8>)>, body: &[u8]) -> bool {
    let mut scratch = Scratch::new();
    let mut first: Option<Option<(&'static str, String)>> = None;
    for size in [usize::MAX, 1, 7] {
        for mut findings in [Findings::first(), Findings::all()] {
            validate(path, query, fields, body, size, &mut scratch, &mut findings);
            let said = findings.violations().first().map(|violation| (violation.code, violation.place.to_string()));
            assert!(findings.violations().iter().all(|violation| !violation.to_string().contains(['\n', '\r', '\0'])));
            let expected = first.get_or_insert_with(|| said.clone());
            assert_eq!(said, *expected, "in pieces of {size}: {}", body.escape_ascii());
        }
    }
    first.flatten().is_none()
}

fn validate(
    path: &[u8],
    query: Option<&[u8]>,
    fields: &Vec<(String, Vec<u8>)>,
    body: &[u8],
    size: usize,
    scratch: &mut Scratch,
    findings: &mut Findings,
) {
    let Found::Operation(matched, values) = CONTRACT.find("POST", path) else { panic!("a path got lost") };
    let framing = if body.is_empty() { Framing::Empty } else { Framing::Length(body.len() as u64) };
    let parts = RequestParts { path, query, fields, framing, has_client_certificate: false };
    let Ok(BodyPlan { mut validator, .. }) = matched.validate_request(&values, &parts, scratch, findings) else {
        return;
    };
    for piece in body.chunks(size.min(body.len().max(1))) {
        if validator.feed(piece, findings).is_err() {
            return;
        }
    }
    let _ = validator.finish(findings);
}

/// Documents: no problem stands behind the end of the text, and what loads once loads again.
pub fn contract_document(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let limits = Limits { document_nodes: 20_000, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    // A lone carriage return ends a line in YAML too, and what is missing at the end is missed in the line after it.
    let lines = text.matches(['\n', '\r']).count() as u32 + 2;
    for name in ["fuzz.yaml", "fuzz.json"] {
        match Contract::from_text(name, text, &options) {
            Ok(contract) => {
                let findings = contract::lint::lint_text(name, text, &options).expect("what loads can be linted");
                assert!(findings.iter().all(|finding| finding.problem.line <= lines), "{findings:?}");
                assert!(
                    contract.operations().iter().enumerate().all(|(number, operation)| operation.number() == number)
                );
                for operation in contract.operations() {
                    let is_plain = !operation.template().contains('{');
                    let found = contract.find(operation.method(), operation.template().as_bytes());
                    assert!(!is_plain || !matches!(found, Found::UnknownMethod { .. }), "{}", operation.template());
                }
            }
            Err(problems) => {
                assert!(!problems.is_empty(), "rejected without a reason");
                for problem in problems {
                    assert!(problem.line <= lines && !problem.what.is_empty(), "{problem}");
                }
            }
        }
    }
}

/// The bytes are a HAR file. What is learnt from it loads, and has no error; what is found in any document ends.
pub fn contract_learn(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(exchanges) = contract::learn::exchanges_of_har(std::path::Path::new("fuzz.har"), text) else { return };
    let learnt = contract::learn::learn(&exchanges, "fuzz");
    assert!(
        learnt.rejected.iter().all(|(what, _)| what != "the document"),
        "{:?}\n{}",
        learnt.rejected,
        learnt.document
    );
    let findings = contract::lint::lint_text("fuzz.yaml", &learnt.document, &Options::default()).unwrap();
    assert!(!findings.iter().any(|finding| finding.rule.is_error()), "{findings:?}\n{}", learnt.document);
}
