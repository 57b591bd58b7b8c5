//! `portunus contract test SPEC CASES`: recorded requests and responses, each with the decision that is expected, before a contract.
//!
//! A file is a list of cases (YAML or JSON), or one case in each line (`.jsonl`, `.ndjson`). Strict: what a case must not have is an error.

use std::path::Path;

use contract::Matched;
use contract::document::{Kind, Node, parse};
use wire::http::Method;

use super::Loaded;
use super::counted;
use super::messages::{Decision, Message, validate_request, validate_response};

/// Largest file, bytes, and its values.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
const MAX_VALUES: usize = 5_000_000;

/// Differences that are printed.
const MAX_PRINTED: usize = 1_000;

/// Tries all cases, and says which differ; whether none does.
pub(super) fn run(loaded: &Loaded, file: &Path) -> Result<bool, String> {
    let cases = read(file)?;
    let mut differing = 0;
    for case in &cases {
        let said = Case::of(case, file).and_then(|case| case.differences(loaded))?;
        differing += usize::from(!said.is_empty());
        if differing <= MAX_PRINTED {
            said.iter().for_each(|line| say!("{line}"));
        }
    }
    let (all, name) = (counted(cases.len(), "case"), file.display());
    match differing {
        0 => say!("{name}: ok ({all})"),
        some => say!("{name}: {some} of {all} differ"),
    }
    Ok(differing == 0)
}

fn read(file: &Path) -> Result<Vec<Node>, String> {
    let text = keystore::files::text(file, MAX_FILE_BYTES).map_err(|error| format!("{}: {error}", file.display()))?;
    let reported =
        |problems: Vec<contract::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    if file.extension().is_some_and(|end| end == "jsonl" || end == "ndjson") {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        return lines
            .map(|(number, line)| {
                let mut case = parse(&file.with_extension("json"), line, MAX_VALUES).map_err(|mut problems| {
                    problems.iter_mut().for_each(|problem| {
                        (problem.file, problem.line) = (file.to_owned(), number as u32 + 1);
                    });
                    reported(problems)
                })?;
                case.place.line = number as u32 + 1;
                Ok(case)
            })
            .collect();
    }
    let root = parse(file, &text, MAX_VALUES).map_err(reported)?;
    match root.kind {
        Kind::Array(cases) => Ok(cases),
        _ => Err(format!(
            "{}: is no list of cases; write `- request: {{ method: GET, target: /, expect: pass }}`",
            file.display()
        )),
    }
}

/// What a case expects of a message.
enum Expected<'n> {
    Pass,
    Reject,
    Code(&'n str),
}

/// A case, and where it stands.
struct Case<'n> {
    place: String,
    request: &'n Node,
    response: Option<&'n Node>,
}

impl<'n> Case<'n> {
    fn of(node: &'n Node, file: &Path) -> Result<Case<'n>, String> {
        let mut place = format!("{}:{}", file.display(), node.place.line);
        members(node, &["name", "request", "response"], &place)?;
        if let Some(name) = node.get("name").and_then(Node::as_str) {
            place = format!("{place}: {}", name.chars().filter(|c| !c.is_control()).collect::<String>());
        }
        let request = node.get("request").ok_or_else(|| format!("{place}: has no `request`"))?;
        members(request, &["method", "target", "headers", "body", "json", "expect"], &place)?;
        let response = node.get("response");
        if let Some(response) = response {
            members(response, &["status", "headers", "body", "json", "expect"], &place)?;
        }
        Ok(Case { place, request, response })
    }

    /// Where the contract says another thing than what is expected, one line each.
    fn differences(&self, loaded: &Loaded) -> Result<Vec<String>, String> {
        let (method, target) = (self.text(self.request, "method")?, self.text(self.request, "target")?);
        let message = self.message(self.request, &format!("{method} {target} HTTP/1.1\r\nHost: api.example\r\n"))?;
        let mut said = Vec::new();
        let (operation, method, decision) = match validate_request(loaded, &message) {
            Ok(validated) => (validated.operation, validated.method, validated.decision),
            // What the gate rejects by itself is no less a rejection.
            Err(reason) => {
                let line = format!("{}: no request that would be let in", reason.code());
                let violations = vec![(reason.code().to_owned(), line)];
                (None, Method::Get, Decision { violations, ..Decision::default() })
            }
        };
        said.extend(self.difference("request", self.expected(self.request)?, &decision));
        if let Some(response) = self.response {
            let expected = self.expected(response)?;
            match operation {
                Some(matched) => {
                    let decision = self.response(matched, &method, response)?;
                    said.extend(self.difference("response", expected, &decision));
                }
                None => said.push(format!("{}: response: there is no operation that it could be of", self.place)),
            }
        }
        Ok(said)
    }

    fn response(&self, matched: Matched<'_>, method: &Method, response: &Node) -> Result<Decision, String> {
        let status = match response.get("status").map(|status| &status.kind) {
            Some(Kind::Number(status)) => status.as_str(),
            _ => return Err(format!("{}: the response has no `status`", self.place)),
        };
        let message = self.message(response, &format!("HTTP/1.1 {status} Recorded\r\n"))?;
        validate_response(matched, method, &message).or_else(|reason| {
            let line = format!("{}: no response that would be let through", reason.code());
            Ok(Decision { violations: vec![(reason.code().to_owned(), line)], ..Decision::default() })
        })
    }

    fn difference(&self, what: &str, expected: Expected<'_>, decision: &Decision) -> Option<String> {
        let found = match decision.violations.first() {
            Some((_, line)) => format!("is rejected: {line}"),
            None => "passes".to_owned(),
        };
        let code = decision.violations.first().map(|(code, _)| code.as_str());
        let expected = match (expected, code) {
            (Expected::Pass, None) | (Expected::Reject, Some(_)) => return None,
            (Expected::Code(wanted), Some(code)) if wanted == code => return None,
            (Expected::Pass, _) => "pass",
            (Expected::Reject, _) => "reject",
            (Expected::Code(wanted), _) => wanted,
        };
        Some(format!("{}: {what}: expected {expected}, {found}", self.place))
    }

    fn expected(&self, message: &'n Node) -> Result<Expected<'n>, String> {
        match message.get("expect").map(|expected| expected.as_str()) {
            None | Some(Some("pass")) => Ok(Expected::Pass),
            Some(Some("reject")) => Ok(Expected::Reject),
            Some(Some(code)) => Ok(Expected::Code(code)),
            Some(None) => Err(format!("{}: `expect` must be `pass`, `reject` or a reason code", self.place)),
        }
    }

    fn text(&self, node: &'n Node, name: &str) -> Result<&'n str, String> {
        let value = node.get(name).and_then(Node::as_str);
        value.ok_or_else(|| format!("{}: `{name}` must be there, as text", self.place))
    }

    /// The message with its start line and the Host field, as HTTP/1 writes it.
    fn message(&self, node: &Node, start: &str) -> Result<Message, String> {
        let mut head = start.as_bytes().to_vec();
        let mut body = Vec::new();
        match (node.get("body"), node.get("json")) {
            (Some(_), Some(_)) => return Err(format!("{}: has `body` and `json`; write one of them", self.place)),
            (Some(text), None) => {
                let text = text
                    .as_str()
                    .ok_or_else(|| format!("{}: `body` must be text; write `json` for a value", self.place))?;
                body.extend_from_slice(text.as_bytes());
            }
            (None, Some(value)) => value.write_json(&mut body),
            (None, None) => {}
        }
        let mut has_type = false;
        for (key, value) in node.get("headers").map(Node::members).unwrap_or_default() {
            has_type |= key.text.eq_ignore_ascii_case("content-type");
            let one = [value.clone()];
            let values = if matches!(value.kind, Kind::Array(_)) { value.elements() } else { &one };
            for value in values {
                let text =
                    value.as_str().filter(|text| !text.contains(['\r', '\n']) && !key.text.contains(['\r', '\n', ':']));
                let text =
                    text.ok_or_else(|| format!("{}: the field `{}` must be text in one line", self.place, key.text))?;
                head.extend_from_slice(format!("{}: {text}\r\n", key.text).as_bytes());
            }
        }
        if node.get("json").is_some() && !has_type {
            head.extend_from_slice(b"Content-Type: application/json\r\n");
        }
        if !body.is_empty() {
            head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        Ok(Message { head, body })
    }
}

/// Only these members may be there.
fn members(node: &Node, known: &[&str], place: &str) -> Result<(), String> {
    if !matches!(node.kind, Kind::Object(_)) {
        return Err(format!("{place}: must be an object, is {}", node.kind_name()));
    }
    match node.members().iter().find(|(key, _)| !known.contains(&key.text.as_str())) {
        Some((key, _)) => {
            let name: String = key.text.chars().filter(|c| !c.is_control()).take(60).collect();
            Err(format!("{place}: has no `{name}`; known: {}", known.join(", ")))
        }
        None => Ok(()),
    }
}
