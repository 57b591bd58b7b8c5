//! One message before a contract: from text through the head parser and the validators of the gate, to what is said of it.

use std::path::Path;

use contract::validate::{BodyPlan, Enough, FieldSource, Findings, Framing, RequestParts, ResponseParts, Scratch};
use contract::{Found, Matched};
use graphql::Cache;
use proxy::contracts::unusual_names::{UnusualNames, reason_of};
use reason::Reason;
use wire::http::readings::{Patterns, readings};
use wire::http::{BodyFraming, Fields, HeadLimits, Method, RequestHead, ResponseHead, http1};

use super::Loaded;

/// Largest message file, bytes.
const MAX_MESSAGE_BYTES: u64 = 64 * 1024 * 1024;

/// What is wrong with a message: stable codes, each with the line that says it.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) violations: Vec<(String, String)>,
    /// Undeclared names that pass.
    pub(super) shadows: Vec<String>,
}

/// A request, the operation that it asks for, and what is said of it.
pub(super) struct Validated<'c> {
    pub(super) operation: Option<Matched<'c>>,
    pub(super) method: Method,
    pub(super) decision: Decision,
}

/// Validates a request, and the response to it if there is one.
pub(super) fn test(loaded: &Loaded, request: &Path, response: Option<&Path>) -> Result<bool, String> {
    let message = Message::read(request)?;
    let validated = validate_request(loaded, &message)
        .map_err(|reason| format!("{}: no request that would be let in: {}", request.display(), reason.code()))?;
    let Validated { operation, method, decision } = validated;
    if let Some(matched) = operation {
        println!("operation: {} {}", matched.operation.method(), matched.operation.template());
    }
    let request_is_good = report("request", &decision);
    match (response, operation) {
        (Some(response), Some(matched)) => {
            let message = Message::read(response)?;
            let decision = validate_response(matched, &method, &message).map_err(|reason| {
                format!("{}: no response that would be let through: {}", response.display(), reason.code())
            })?;
            Ok(report("response", &decision) && request_is_good)
        }
        _ => Ok(request_is_good),
    }
}

/// What the contract says of a request.
///
/// # Errors
/// It would not get as far as a contract.
pub(super) fn validate_request<'c>(loaded: &'c Loaded, message: &Message) -> Result<Validated<'c>, Reason> {
    let contract = &loaded.contract;
    let mut head = RequestHead::default();
    http1::parse_request(&message.head, &head_limits(), &mut head).map_err(|error| error.reason)?;
    let unknown = |reason: Reason, what: String, method: Method| Validated {
        operation: None,
        method,
        decision: Decision { violations: vec![(reason.code().to_owned(), what)], shadows: Vec::new() },
    };
    let method = contract.method_of(head.method.as_str(), head.path());
    let (matched, values) = match contract.find(method, head.path()) {
        Found::Operation(matched, values) => (matched, values),
        Found::UnknownPath => {
            return Ok(unknown(Reason::PathUndeclared, "the document has no such path".to_owned(), head.method));
        }
        Found::UnknownMethod { allow } => {
            return Ok(unknown(Reason::MethodUndeclared, format!("the path takes {allow} only"), head.method));
        }
    };
    let patterns = Patterns { expressions: false, escapes: contract.has_escapes() };
    let is_other = |reading: &Vec<u8>| {
        let found = contract.find_decoded(method, reading);
        matches!(found, Found::Operation(other, _) if other.operation.number() != matched.operation.number())
    };
    if readings(head.path(), patterns).iter().any(is_other) {
        let what = format!("{}: some servers read the path as that of another operation", Reason::AmbiguousPath.code());
        return Ok(Validated { operation: Some(matched), ..unknown(Reason::AmbiguousPath, what, head.method) });
    }
    let (mut scratch, mut findings) = (Scratch::new(), Findings::all());
    let parts = RequestParts {
        path: head.path(),
        query: head.query().strip_prefix(b"?"),
        fields: &Given(&head.fields),
        framing: message.framing(head.framing),
        has_client_certificate: false,
    };
    let names = UnusualNames::default();
    let usable = names.usable(matched.operation);
    if let Some(name) = names.rejected(&head.fields, Some((matched.operation, &usable)), true) {
        let code = reason_of(name).code();
        let what = format!("{code}: {}: many servers take it for another field", String::from_utf8_lossy(name));
        let decision = Decision { violations: vec![(code.to_owned(), what)], shadows: Vec::new() };
        return Ok(Validated { operation: Some(matched), method: head.method, decision });
    }
    let plan = matched.validate_request(&values, &parts, &mut scratch, &mut findings);
    let text = finish(plan, &message.body, &mut findings);
    validate_graphql(loaded, matched, parts.query, &text, &mut findings);
    Ok(Validated { operation: Some(matched), method: head.method, decision: Decision::of(&findings) })
}

/// What the contract says of a response to a request of this method.
///
/// # Errors
/// It would not get as far as a contract.
pub(super) fn validate_response(matched: Matched<'_>, method: &Method, message: &Message) -> Result<Decision, Reason> {
    let mut head = ResponseHead::default();
    http1::parse_response(&message.head, &head_limits(), method, &mut head).map_err(|error| error.reason)?;
    let (mut scratch, mut findings) = (Scratch::new(), Findings::all());
    let parts = ResponseParts {
        status: head.status,
        fields: &Given(&head.fields),
        framing: message.framing(head.framing),
        responds_head: *method == Method::Head,
    };
    let plan = matched.validate_response(&parts, &mut scratch, &mut findings);
    finish(plan, &message.body, &mut findings);
    Ok(Decision::of(&findings))
}

impl Decision {
    fn of(findings: &Findings) -> Decision {
        let violation = |one: &contract::validate::Violation| (one.code.to_owned(), one.to_string());
        let shadow = |one: &contract::validate::Shadow| format!("not declared: {} {}", one.part.as_str(), one.name);
        Decision {
            violations: findings.violations().iter().map(violation).collect(),
            shadows: findings.shadows().iter().map(shadow).collect(),
        }
    }
}

/// What a request asks for, where that is to be validated by a schema of GraphQL.
fn validate_graphql(loaded: &Loaded, matched: Matched<'_>, query: Option<&[u8]>, body: &[u8], findings: &mut Findings) {
    let Some(endpoint) = loaded.graphql.as_ref().filter(|_| findings.violations().is_empty()) else { return };
    let mut cache = Cache::default();
    let checked = match matched.operation.method() {
        "GET" => endpoint.check_query_string(query, false, &mut cache),
        _ => endpoint.check_body(body, &mut cache),
    };
    if let Err(violation) = checked {
        let _ = findings.add(violation);
    }
}

/// Gives the body to its validator; everything found is in `findings`. The decoded text.
fn finish(plan: Result<BodyPlan<'_>, Enough>, body: &[u8], findings: &mut Findings) -> Vec<u8> {
    let Ok(BodyPlan { mut validator, .. }) = plan else { return Vec::new() };
    validator.keep_text();
    let mut read = || {
        validator.feed(body, findings)?;
        while !validator.finish_some(findings)? {}
        Ok::<_, Enough>(())
    };
    let is_read = read().is_ok();
    let text = validator.take_text().unwrap_or_default();
    if is_read {
        // What is found stands in `findings`.
        let _ = validator.finish(findings);
    }
    text
}

fn report(what: &str, decision: &Decision) -> bool {
    println!("{what}: {}", if decision.violations.is_empty() { "ok" } else { "rejected" });
    decision.violations.iter().for_each(|(_, line)| println!("  {line}"));
    decision.shadows.iter().for_each(|line| println!("  {line}"));
    decision.violations.is_empty()
}

fn head_limits() -> HeadLimits {
    let limits = config::limits::Limits::default();
    HeadLimits {
        head_bytes: limits.max_head_bytes,
        request_line_bytes: limits.max_request_line_bytes,
        fields: limits.max_headers,
    }
}

/// A message from a file: its head as HTTP/1 writes it, and its body.
pub(super) struct Message {
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Message {
    fn read(file: &Path) -> Result<Message, String> {
        let cannot = |error: std::io::Error| format!("{}: cannot be read: {error}", file.display());
        if std::fs::metadata(file).map_err(cannot)?.len() > MAX_MESSAGE_BYTES {
            return Err(format!("{}: larger than {MAX_MESSAGE_BYTES} bytes", file.display()));
        }
        Ok(Message::of(&std::fs::read(file).map_err(cannot)?))
    }

    /// Splits at the first empty line, whatever the line ends are.
    fn of(bytes: &[u8]) -> Message {
        let mut head = Vec::new();
        let mut rest = bytes;
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                break;
            }
            head.extend_from_slice(line);
            head.extend_from_slice(b"\r\n");
        }
        let names_framing = |name: &[u8]| {
            head.split(|byte| *byte == b'\n')
                .any(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
        };
        let says_length = names_framing(b"content-length:") || names_framing(b"transfer-encoding:");
        // An editor ends a file with a line feed that is no part of the body.
        let body = if says_length { rest } else { rest.strip_suffix(b"\n").unwrap_or(rest) };
        if !says_length && !body.is_empty() {
            head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        Message { body: body.to_vec(), head }
    }

    fn framing(&self, framing: BodyFraming) -> Framing {
        match framing {
            BodyFraming::None => Framing::Empty,
            BodyFraming::Length(0) => Framing::Empty,
            BodyFraming::Length(length) => Framing::Length(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => Framing::Unknown,
        }
    }
}

/// Fields of a parsed head, as validates take them.
struct Given<'f>(&'f Fields);

impl FieldSource for Given<'_> {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.0.iter().for_each(|(name, value)| visit(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_whatever_their_line_ends() {
        let rows: [(&[u8], &[u8], &[u8]); 4] = [
            (b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b""),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b""),
            (b"POST / HTTP/1.1\nHost: a\n\n{}\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", b"{}"),
            (b"POST / HTTP/1.1\ncontent-length: 3\n\n{}\n", b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n", b"{}\n"),
        ];
        for (text, head, body) in rows {
            let message = Message::of(text);
            assert_eq!((message.head.as_slice(), message.body.as_slice()), (head, body));
        }
    }
}
