//! Cases written down from the OpenAPI specification, as data: `tests/specification/*.cases`. Each file is a document, a line `---`, and a row per message:
//!
//! `METHOD TARGET | fields | body | what is said`, for a response `STATUS METHOD TARGET | …`. Fields are `Name: value; Name: value`, or a short name for a
//! media type: `json`, `form`, `parts` (of `name=value` or `name:type:Field=value=content`). What is said is `ok`, a code, or `*` for any rejection.

use std::fs;
use std::path::Path;

use super::{Request, contract, decision, response_decision};

/// What a file of cases holds at least, so that one that is not read is noticed.
const LEAST: usize = 50;

fn fields(short: &str) -> Vec<(String, String)> {
    let kind = match short {
        "json" => "application/json",
        "form" => "application/x-www-form-urlencoded",
        "parts" => "multipart/form-data; boundary=b",
        "" => return Vec::new(),
        // A parameter of a media type stands behind a semicolon, too.
        fields => {
            let lines = fields.split("; ").fold(Vec::<String>::new(), |mut lines, piece| {
                match lines.last_mut() {
                    Some(last) if !piece.contains(": ") => *last = format!("{last}; {piece}"),
                    _ => lines.push(piece.to_owned()),
                }
                lines
            });
            let split = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
            return lines.iter().map(|line| split(line).unwrap_or_else(|| panic!("no field: {line}"))).collect();
        }
    };
    vec![("Content-Type".to_owned(), kind.to_owned())]
}

/// Parts from their short form.
fn multipart(short: &str) -> String {
    let part = |part: &str| {
        let (head, content) =
            if part.starts_with("file") { part.rsplit_once('=') } else { part.split_once('=') }.unwrap();
        let mut words = head.split(':');
        let name = words.next().unwrap();
        let file = if name == "file" { "; filename=\"f\"" } else { "" };
        let mut lines = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n");
        if let Some(kind) = words.next() {
            lines += &format!("Content-Type: {kind}\r\n");
        }
        for field in words {
            lines += &format!("{}\r\n", field.replace('=', ": "));
        }
        format!("{lines}\r\n{content}\r\n")
    };
    short.split(' ').map(part).collect::<String>() + "--b--\r\n"
}

fn said(contract: &contract::Contract, line: &str, short: &str, body: &str) -> String {
    let fields = fields(short);
    let body = if short == "parts" { multipart(body) } else { body.to_owned() };
    let words: Vec<&str> = line.split(' ').collect();
    if let [status, method, path] = words[..] {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        return response_decision(contract, method, path, status.parse().unwrap(), &fields, body.as_bytes());
    }
    let method = ["GET", "POST", "PUT", "DELETE"].into_iter().find(|method| *method == words[0]).unwrap();
    let request = Request { method, body: body.into_bytes(), ..Request::get(words[1]) };
    decision(contract, &fields.iter().fold(request, |request, (name, value)| request.with(name, value)))
}

#[test]
fn what_the_specification_says_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specification");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (document, rows) = text.split_once("\n---\n").unwrap();
        let contract = contract(document);
        let rows: Vec<&str> = rows.lines().filter(|row| !row.is_empty() && !row.starts_with('#')).collect();
        assert!(rows.len() >= LEAST, "{}: {} rows", file.display(), rows.len());
        for row in rows {
            let cells: Vec<&str> = row.split(" | ").collect();
            let (line, body, expected) = match cells[..] {
                [line, fields, body, expected] => ((line, fields), body, expected),
                _ => panic!("{}: {row}", file.display()),
            };
            let found = said(&contract, line.0, line.1.trim(), body.trim());
            let is_as_expected = match expected {
                "*" => found != "ok",
                expected => {
                    found == expected
                        || found.starts_with(&format!("{expected} "))
                        || found.starts_with(&format!("{expected},"))
                }
            };
            if !is_as_expected {
                wrong.push(format!("{}: {row}: {found}", file.file_name().unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
