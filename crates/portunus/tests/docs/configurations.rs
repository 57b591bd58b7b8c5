//! Configurations in the documentation are read by the program's own parser. A block of YAML is a whole file unless its info string says otherwise:
//! `fragment` is completed by a frame, `fragment=upstreams.web` is put under that key first, `key-server` is a file for a key server, and
//! `other: WHAT` is not ours.

use std::path::Path;

use super::markdown::{Block, Page, pages};

/// What a fragment may refer to without saying it: by top-level key, the rest of a file.
const FRAME: &[(&str, &str)] = &[
    ("listeners", "listeners: [{ name: http, bind: ':8080' }]"),
    ("keystores", "keystores: { main: { folder: keys, default: www.example.com } }"),
    ("key_servers", "key_servers: { vault: { servers: ['unix:/run/portunus/keys.sock'] } }"),
    (
        "upstreams",
        "upstreams: { web: { servers: ['127.0.0.1:9000'] }, api: { servers: ['127.0.0.1:9001'] }, shop: { servers: ['127.0.0.1:9002'] } }",
    ),
    ("contracts", "contracts: { shop: { document: openapi.yaml } }"),
    ("routes", "routes: [{ respond: { status: 204 } }]"),
];

/// Why this block is no valid configuration; none if it is one, or is not ours.
pub fn problem(block: &Block) -> Option<String> {
    let base = Path::new("/etc/portunus");
    let whole = match block.note.as_str() {
        "" => block.text.clone(),
        "key-server" => {
            return config::parse_key_server("block", &block.text, base).err().map(|found| found.to_string());
        }
        note if note.strip_prefix("other: ").is_some_and(|what| !what.is_empty()) => return None,
        "fragment" => framed(&block.text),
        note => match note.strip_prefix("fragment=") {
            Some(place) => framed(&under(place, &block.text)),
            None => return Some(format!("`{note}` says nothing to the test")),
        },
    };
    config::parse("block", &whole, base).err().map(|found| format!("{found}\n--- in\n{whole}"))
}

/// Puts a fragment under keys such as `upstreams.web`; `-` is an item of a list.
fn under(place: &str, text: &str) -> String {
    let mut out = String::new();
    let mut indent = String::new();
    for key in place.split('.') {
        out.push_str(&if key == "-" { format!("{indent}-\n") } else { format!("{indent}{key}:\n") });
        indent.push_str("  ");
    }
    for line in text.lines() {
        out.push_str(&format!("{indent}{line}\n"));
    }
    out
}

fn framed(text: &str) -> String {
    let mut whole = format!("{}\n", text.trim_end());
    for (key, rest) in FRAME {
        if !text.lines().any(|line| line.starts_with(&format!("{key}:"))) {
            whole.push_str(rest);
            whole.push('\n');
        }
    }
    whole
}

#[test]
fn every_configuration_is_valid() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.language == "yaml") {
            count += 1;
            problems.extend(problem(block).map(|found| format!("{}:{}: {found}", page.path, block.line)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 25, "only {count} configurations were found");
}

/// In the pages for those who come from elsewhere, the second column of each table holds pieces of configurations.
#[test]
fn what_stands_beside_other_programs_settings_is_valid() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages().iter().filter(|page| ["docs/nginx.md", "docs/haproxy.md"].contains(&page.path.as_str())) {
        for (at, line) in page.text.lines().enumerate() {
            let Some(cell) = line.strip_prefix("| ").and_then(|row| row.split(" | ").nth(1)) else { continue };
            for span in cell.split('`').skip(1).step_by(2).filter(|span| is_configuration(span)) {
                count += 1;
                // What has braces around it is several keys; else it is one.
                let text =
                    span.strip_prefix("{ ").and_then(|span| span.strip_suffix(" }")).map_or(span.to_owned(), apart);
                let found = config::parse("row", &framed(&text), Path::new("/etc/portunus")).err();
                problems.extend(found.map(|found| format!("{}:{}: {found}\n{}", page.path, at + 1, framed(&text))));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 80, "only {count} rows were found");
}

/// Whether a code span is a piece of a configuration: a top-level key with a value.
fn is_configuration(span: &str) -> bool {
    let key = span.trim_start_matches("{ ").split(": ").next().unwrap_or("");
    span.contains(": ") && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The keys of a flow mapping, each on a line of its own.
fn apart(inner: &str) -> String {
    let mut depth = 0;
    let mut lines = vec![String::new()];
    for character in inner.chars() {
        depth += i32::from(matches!(character, '{' | '[')) - i32::from(matches!(character, '}' | ']'));
        match character {
            ',' if depth == 0 => lines.push(String::new()),
            character => lines.last_mut().unwrap().push(character),
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn an_invalid_configuration_is_seen() {
    for (note, text, valid) in [
        ("", "listeners: [{ name: a, bind: ':80' }]\n", true),
        ("", "listeners: [{ name: a, bind: ':80', cert: x }]\n", false),
        ("fragment", "routes: [{ upstream: web }]\n", true),
        ("fragment", "routes: [{ upstream: nobody }]\n", false),
        ("fragment=upstreams.web", "servers: ['127.0.0.1:1']\nbalance: least_loaded\n", true),
        ("fragment=upstreams.web", "servers: ['127.0.0.1:1']\nbalance: fastest\n", false),
        ("fragment=routes.-", "path: /a\nupstream: web\n", true),
        ("key-server", "listeners: [{ name: a, bind: 'unix:/a' }]\n", false),
        ("other: Kubernetes", "kind: Secret\n", true),
        ("other: ", "kind: Secret\n", false),
        ("sample", "kind: Secret\n", false),
    ] {
        let page = Page { path: String::new(), text: format!("```yaml {note}\n{text}```\n") };
        assert_eq!(problem(&page.blocks()[0]).is_none(), valid, "{note}: {text}");
    }
}
