//! `docs/observability.md`, made of the definitions that the program uses: fields of the logs, reason codes, metrics, admin pages.
//!
//! `UPDATE=1` writes it anew. What has no documentation fails here.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use reason::{Reason, Side};
use serde_json::Value;
use telemetry::reference::{self, Example};
use telemetry::{KeyServerReporter, Metric, Reporter};

const INTRO: &str = "# Observability

<!-- Generated from the program: UPDATE=1 cargo test -p portunus --test all observability::. Do not edit. -->

What Portunus says of itself.

- [The logs](#the-logs): one line for each request, connection, tunnel, UDP flow and key operation, when it ends.
- [Reason codes](#reason-codes): why something ended as it did, whose fault that is, and what to do.
- [Metrics](#metrics): for Prometheus, on the admin side.
- [Admin pages](#admin-pages).
";

#[test]
fn the_page_is_what_the_program_does() {
    let mut page = INTRO.to_owned();
    logs(&mut page);
    reasons(&mut page);
    metrics(&mut page);
    page.push_str("\n## Admin pages\n\nOn the [admin socket, and on the address of `admin`](admin.md), which describes `/api/v1/`. `GET /` lists those that the role has.\n\n| method | path | |\n|---|---|---|\n");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/admin.md");
    let guide = fs::read_to_string(guide).unwrap();
    for (method, path, about) in portunus::admin::PAGES {
        if path.starts_with("/api/") {
            assert!(guide.contains(path), "docs/admin.md does not describe {path}");
            continue;
        }
        writeln!(page, "| {method} | `{path}` | {about} |").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/observability.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
        return;
    }
    let differs = fs::read_to_string(&path).unwrap_or_default() != page;
    assert!(!differs, "docs/observability.md is not what the program does; UPDATE=1 writes it anew");
}

fn logs(page: &mut String) {
    page.push_str("\n## The logs\n\nThe access log (`log.access`) has one JSON object per line, or text for people. A field without a value is left out.\n");
    let mut documented = BTreeSet::new();
    for example in reference::examples() {
        let Example { kind, about, json, text } = &example;
        write!(page, "\n### {kind}\n\n{about}\n\n| field | type | meaning |\n|---|---|---|\n").unwrap();
        let line: Value = serde_json::from_str(json).unwrap();
        let mut fields = Vec::new();
        collect(&line, "", &mut fields);
        for (path, kind_of_value) in fields {
            let meaning = reference::meaning(kind, &path);
            let meaning =
                meaning.unwrap_or_else(|| panic!("{path} of {kind} has no meaning in telemetry/src/reference.rs"));
            writeln!(page, "| `{path}` | {kind_of_value} | {meaning} |").unwrap();
            documented.insert(path);
        }
        write!(page, "\n```json\n{json}\n```\n").unwrap();
        if !text.is_empty() {
            write!(page, "\n```text\n{text}\n```\n").unwrap();
        }
    }
    // Fields that no example shows: those of lines with something cut, of a sample, and the address of a proxy in front.
    let shown_nowhere = ["truncated", "client_port", "peer_address", "sampled"];
    for (field, meaning) in reference::FIELDS {
        let path = field.rsplit(':').next().unwrap();
        if shown_nowhere.contains(&path) && !documented.contains(path) {
            writeln!(page, "\n`{path}`: {meaning}").unwrap();
        } else {
            assert!(documented.contains(path), "no record has the field {field}");
        }
    }
}

/// The fields of an object, with those of objects in it, in their order.
fn collect(value: &Value, prefix: &str, fields: &mut Vec<(String, &'static str)>) {
    for (name, value) in value.as_object().unwrap() {
        let path = format!("{prefix}{name}");
        let kind = match value {
            Value::Object(_) => "object",
            Value::Number(_) => "number",
            Value::Bool(_) => "boolean",
            _ => "string",
        };
        fields.push((path.clone(), kind));
        if value.is_object() {
            collect(value, &format!("{path}."), fields);
        }
    }
}

fn reasons(page: &mut String) {
    page.push_str(
        "\n## Reason codes\n\nThe codes of `reason` in the logs and of the label `reason` in metrics. Side: who is at fault; `sender` is the client of a request \
         (with the status given) or the upstream server of a response (then 502). Status: what the client gets, where it can get one.\n",
    );
    let mut group = "";
    for facts in Reason::ALL.iter().map(|reason| reason.facts()) {
        if facts.group != group {
            group = facts.group;
            write!(page, "\n### {group}\n\n| code | side | status | meaning | what to do |\n|---|---|---|---|---|\n")
                .unwrap();
        }
        let status = if facts.status == 0 { String::new() } else { facts.status.to_string() };
        let side = if facts.side == Side::Nobody { "" } else { facts.side.word() };
        writeln!(page, "| `{}` | {side} | {status} | {} | {} |", facts.code, facts.meaning, facts.remedy).unwrap();
    }
    page.push_str(
        "\n### What a message breaks of its API document\n\nIn `reason` of rejected messages, and in `contract.reason`. The side is that of the sender; a response is answered 502. \
         To do: correct the sender, or the document.\n\n| code | status | meaning |\n|---|---|---|\n",
    );
    for code in contract::validate::code::ALL {
        writeln!(page, "| `{}` | {} | {} |", code.code, code.status, code.meaning).unwrap();
    }
    for reason in contract::reason::Reason::ALL {
        writeln!(page, "| `{}` | 400 | {} |", reason.code(), reason.meaning()).unwrap();
    }
}

fn metrics(page: &mut String) {
    page.push_str("\n## Metrics\n\n`GET /metrics` on the admin side. A metric without a value yet is left out.\n");
    let log = config::LogConfig { access: None, ..config::LogConfig::default() };
    let gate = Reporter::start(&log, 1).unwrap();
    table(page, "The gate", &reference::metrics(&gate));
    let key_server = KeyServerReporter::start(None).unwrap();
    table(page, "The key server", &reference::key_server_metrics(&key_server));
}

fn table(page: &mut String, title: &str, metrics: &[Metric]) {
    assert!(metrics.len() > 10, "{title}: the metrics were not found");
    write!(page, "\n### {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n").unwrap();
    for metric in metrics {
        assert!(!metric.help.is_empty(), "{} has no meaning", metric.name);
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(page, "| `{}` | {} | {} | {} |", metric.name, metric.kind, labels.join(", "), metric.help).unwrap();
    }
}

/// A field that the log writes and no example shows would stand nowhere.
#[test]
fn every_field_that_is_written_has_a_meaning() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../telemetry/src/line.rs");
    let code = fs::read_to_string(source).unwrap();
    let known: BTreeSet<_> =
        reference::FIELDS.iter().map(|(field, _)| field.rsplit([':', '.']).next().unwrap()).collect();
    let mut written = BTreeSet::new();
    for call in ["text", "some", "number", "flag", "seconds", "address", "bounded", "open", "key"] {
        for object in ["json", "self"] {
            let opening = format!("{object}.{call}(\"");
            let names = code.split(opening.as_str()).skip(1).map(|rest| rest.split('"').next().unwrap());
            written.extend(names);
        }
    }
    assert!(written.len() > 30, "the calls were not found");
    let missing: Vec<_> = written.difference(&known).collect();
    assert!(missing.is_empty(), "without a meaning in telemetry/src/reference.rs: {missing:?}");
}
