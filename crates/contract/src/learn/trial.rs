//! Tries a document that was learnt with what it was learnt from, by the validators that serve.

use super::{Bodies, Body, Credentials, Exchange, path_of};
use crate::contract::{Contract, Found, Matched};
use crate::message::{Framing, RequestParts, ResponseParts};
use crate::options::Options;
use crate::validate::{BodyPlan, Enough, Findings, Scratch};

/// What the document rejects, each with why; `most` at most.
pub(super) fn rejected(document: &str, exchanges: &[&Exchange], most: usize) -> Vec<(String, String)> {
    let contract = match Contract::from_text("learnt.yaml", document, &Options::default()) {
        Ok(contract) => contract,
        Err(problems) => return problems.iter().map(|one| ("the document".to_owned(), one.to_string())).collect(),
    };
    let unusable = contract.errors().iter().map(|one| ("the document".to_owned(), one.to_string()));
    let mut scratch = Scratch::new();
    let tried = exchanges.iter().filter_map(|exchange| {
        let why = why(&contract, exchange, &mut scratch)?;
        Some((format!("{} {}", exchange.method, crate::message::shown(path_of(exchange).as_bytes())), why))
    });
    unusable.chain(tried).take(most).collect()
}

fn why(contract: &Contract, exchange: &Exchange, scratch: &mut Scratch) -> Option<String> {
    let (path, query) = match exchange.target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (exchange.target.as_str(), None),
    };
    let Found::Operation(matched, values) = contract.find(&exchange.method, path.as_bytes()) else {
        return Some("the document has no such operation".to_owned());
    };
    let (request, response) = match &exchange.bodies {
        Bodies::Unknown => (None, None),
        Bodies::Known(request, response) => (request.as_ref(), response.as_ref()),
    };
    let mut fields = fields(request);
    match exchange.credentials {
        Some(Credentials::Basic) => fields.push(("authorization", "Basic YTpi".to_owned())),
        Some(Credentials::Bearer) => fields.push(("authorization", "Bearer x".to_owned())),
        _ => {}
    }
    let mut findings = Findings::first();
    let parts = RequestParts {
        path: path.as_bytes(),
        query,
        fields: &fields,
        framing: framing(request),
        has_client_certificate: false,
    };
    // A body whose bytes are not known cannot be tried.
    if request.is_none_or(|body| body.bytes.is_some()) {
        let plan = matched.validate_request(&values, &parts, scratch, &mut findings);
        finish(plan, request, &mut findings);
    }
    let found = |findings: &Findings| findings.violations().first().map(ToString::to_string);
    found(&findings).or_else(|| {
        let mut findings = Findings::first();
        validate_response(matched, exchange, response, scratch, &mut findings);
        found(&findings).map(|why| format!("response: {why}"))
    })
}

fn validate_response(
    matched: Matched<'_>,
    exchange: &Exchange,
    response: Option<&Body>,
    scratch: &mut Scratch,
    findings: &mut Findings,
) {
    if response.is_some_and(|body| body.bytes.is_none()) {
        return;
    }
    let fields = fields(response);
    let responds_head = exchange.method == "HEAD";
    let parts = ResponseParts { status: exchange.status, fields: &fields, framing: framing(response), responds_head };
    let plan = matched.validate_response(&parts, scratch, findings);
    finish(plan, response, findings);
}

fn fields(body: Option<&Body>) -> Vec<(&'static str, String)> {
    body.map(|body| ("content-type", body.content_type.clone())).into_iter().collect()
}

fn framing(body: Option<&Body>) -> Framing {
    match body.and_then(|body| body.bytes.as_ref()) {
        Some(bytes) if !bytes.is_empty() => Framing::Length(bytes.len() as u64),
        _ => Framing::Empty,
    }
}

fn finish(plan: Result<BodyPlan<'_>, Enough>, body: Option<&Body>, findings: &mut Findings) {
    let (Ok(BodyPlan { mut validator, .. }), Some(bytes)) = (plan, body.and_then(|body| body.bytes.as_ref())) else {
        return;
    };
    if validator.feed(bytes, findings).is_ok() {
        // What is found stands in `findings`.
        let _ = validator.finish(findings);
    }
}
