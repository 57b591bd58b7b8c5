//! All that is wrong with a request, for whoever wants a list and forwards nothing: another proxy asked, and has the request itself.

use std::sync::Arc;

use contract::Found;
use contract::validate::{BodyPlan, Findings, Framing, Part, RequestParts, Violation, Where, code};
use tokio::task::yield_now;
use wire::http::RequestHead;

use crate::contracts::ActiveContract;
use crate::guard::graphql;
use crate::guard::request::Visited;
use crate::guard::validation::{ScratchSpace, Side, Validation, caught, panicked};

/// What a document says of a request.
#[derive(Debug)]
pub enum Everything {
    /// It has no such path, or not with this method.
    Unknown,
    /// The operation with this number, and what was found.
    Found(usize, Findings),
}

/// Validates a request, its whole body included, to its end. In turns, so that others have theirs.
pub async fn find_all(active: &Arc<ActiveContract>, head: &RequestHead, body: &[u8]) -> Everything {
    let method = active.contract.method_of(head.method.as_str(), head.path());
    let Found::Operation(matched, values) = active.contract.find(method, head.path()) else {
        return Everything::Unknown;
    };
    let number = matched.operation.number();
    let fields = Visited(&head.fields);
    let parts = RequestParts {
        path: head.path(),
        query: head.query().strip_prefix(b"?"),
        fields: &fields,
        framing: if body.is_empty() { Framing::Empty } else { Framing::Length(body.len() as u64) },
        has_client_certificate: false,
    };
    let mut findings = Findings::all();
    let mut space = ScratchSpace::take();
    let planned =
        space.as_mut().and_then(|space| caught(|| matched.validate_request(&values, &parts, space, &mut findings)));
    if planned.is_none() {
        let _ = findings.add(panicked(Part::Header));
    }
    if findings.violations().is_empty() {
        graphql::check_head(active, matched, head, &mut findings);
    }
    let limit = active.rule(number).map_or(0, |rule| rule.max_body_bytes);
    if body.len() as u64 > limit {
        let what = format!("is larger than {limit} bytes");
        let _ = findings.add(Violation::new(code::BODY_TOO_LARGE, Where::of(Part::Body), what));
        return Everything::Found(number, findings);
    }
    let validator = planned.and_then(Result::ok).map(|BodyPlan { mut validator, .. }| {
        if graphql::reads_body(active, matched) {
            validator.keep_text();
        }
        validator
    });
    let mut validation = Validation::new(active, Side::Request, validator, findings);
    // An error says that enough was found.
    while let Ok(false) = validation.feed(body) {
        yield_now().await;
    }
    while let Ok(false) = validation.finish() {
        yield_now().await;
    }
    Everything::Found(number, validation.findings)
}
