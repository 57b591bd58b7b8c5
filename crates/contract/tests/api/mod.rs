//! Whole messages before whole documents, through the public validate: what passes, and with which code and place the rest is rejected.
//!
//! The schema's own keywords are tested beside the validator.

mod bodies;
mod documents;
mod loading;
mod multipart;
mod ordinary;
mod parameters;
mod responses;
mod security;
mod specification;
mod switches;
mod routing;
mod swagger;
mod turns;
mod whole;

use contract::options::{OnUnsupported, Options};
use contract::validate::{BodyPlan, Enough, Findings, Framing, RequestParts, ResponseParts, Scratch};
use contract::{Contract, Found};

/// A request to validate.
#[derive(Clone, Debug)]
struct Request {
    method: &'static str,
    target: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Request {
    fn get(target: &str) -> Request {
        Request { method: "GET", target: target.to_owned(), fields: Vec::new(), body: Vec::new() }
    }

    fn post(target: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        Request { method: "POST", body: body.into(), ..Request::get(target) }.with("Content-Type", content_type)
    }

    fn with(mut self, name: &str, value: &str) -> Request {
        self.fields.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }
}

/// A document that must load.
fn contract(text: &str) -> Contract {
    contract_with(text, &Options::default())
}

fn contract_with(text: &str, options: &Options) -> Contract {
    Contract::from_text("openapi.yaml", text, options).unwrap_or_else(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("the document is rejected:\n{}\n{text}", lines.join("\n"))
    })
}

/// What is wrong with a document or worth knowing about it, one per line.
fn problems(text: &str) -> String {
    let strict = Options { strict: true, on_unsupported: OnUnsupported::Fail, ..Options::default() };
    match Contract::from_text("openapi.yaml", text, &strict) {
        Ok(_) => "loads".to_owned(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

/// What the contract says of a request: `ok`, or code, place and pointer of the first violation. The body is fed whole, byte by byte and in
/// pieces of seven, and the decision must be the same.
fn decision(contract: &Contract, request: &Request) -> String {
    let decisions: Vec<String> =
        [usize::MAX, 1, 7].iter().map(|size| decision_in_pieces(contract, request, *size)).collect();
    assert!(decisions.iter().all(|decision| *decision == decisions[0]), "{decisions:?} {request:?}");
    decisions[0].clone()
}

fn decision_in_pieces(contract: &Contract, request: &Request, size: usize) -> String {
    let mut findings = Findings::first();
    validate(contract, request, size, &mut findings).unwrap_or_else(|| said(&findings))
}

/// The same of a body of which nobody knows how long it is.
fn chunked_decision(contract: &Contract, request: &Request) -> String {
    let mut findings = Findings::first();
    validate_framed(contract, request, Framing::Unknown, usize::MAX, &mut findings).unwrap_or_else(|| said(&findings))
}

/// Everything that is wrong with a request, in order.
fn all_decisions(contract: &Contract, request: &Request) -> Vec<String> {
    let mut findings = Findings::all();
    assert_eq!(validate(contract, request, usize::MAX, &mut findings), None);
    findings.violations().iter().map(|violation| format!("{} {}", violation.code, violation.place)).collect()
}

/// Undeclared names that were reported.
fn shadows(contract: &Contract, request: &Request) -> Vec<String> {
    let mut findings = Findings::all();
    assert_eq!(validate(contract, request, usize::MAX, &mut findings), None);
    assert_eq!(said(&findings), "ok");
    findings.shadows().iter().map(|shadow| format!("{} {}", shadow.part.as_str(), shadow.name)).collect()
}

fn validate(contract: &Contract, request: &Request, size: usize, findings: &mut Findings) -> Option<String> {
    validate_framed(contract, request, framing(&request.body), size, findings)
}

fn validate_framed(
    contract: &Contract,
    request: &Request,
    framing: Framing,
    size: usize,
    findings: &mut Findings,
) -> Option<String> {
    let (path, query) = match request.target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (request.target.as_str(), None),
    };
    let (matched, values) = match contract.find(request.method, path.as_bytes()) {
        Found::Operation(matched, values) => (matched, values),
        Found::UnknownPath => return Some("unknown path".to_owned()),
        Found::UnknownMethod { allow } => return Some(format!("unknown method, allow {allow}")),
    };
    let parts =
        RequestParts { path: path.as_bytes(), query, fields: &request.fields, framing, has_client_certificate: false };
    let mut scratch = Scratch::new();
    let plan = matched.validate_request(&values, &parts, &mut scratch, findings);
    finish(plan, &request.body, size, findings);
    None
}

/// What the contract says of a response to a request of this method and path.
fn response_decision(
    contract: &Contract,
    method: &str,
    path: &str,
    status: u16,
    fields: &[(&str, &str)],
    body: &[u8],
) -> String {
    let Found::Operation(matched, _) = contract.find(method, path.as_bytes()) else {
        panic!("no operation {method} {path}")
    };
    let fields: Vec<(String, String)> =
        fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let parts = ResponseParts { status, fields: &fields, framing: framing(body), responds_head: method == "HEAD" };
    let (mut scratch, mut findings) = (Scratch::new(), Findings::first());
    let plan = matched.validate_response(&parts, &mut scratch, &mut findings);
    finish(plan, body, usize::MAX, &mut findings);
    said(&findings)
}

fn framing(body: &[u8]) -> Framing {
    if body.is_empty() { Framing::Empty } else { Framing::Length(body.len() as u64) }
}

fn finish(plan: Result<BodyPlan<'_>, Enough>, body: &[u8], size: usize, findings: &mut Findings) {
    let Ok(BodyPlan { mut validator, .. }) = plan else { return };
    for piece in body.chunks(size.min(body.len().max(1))) {
        if validator.feed(piece, findings).is_err() {
            return;
        }
    }
    let _ = validator.finish(findings);
}

fn said(findings: &Findings) -> String {
    match findings.violations() {
        [] => "ok".to_owned(),
        [first, ..] => format!("{} {}", first.code, first.place),
    }
}
