//! The OpenAPI document of the API under `/api/v1/`, and requests validated by it: with the engine that validates those of the gate.

use std::sync::OnceLock;

use contract::options::Options;
use contract::validate::{Enough, FieldSource, Findings, Framing, RequestParts, Scratch};
use contract::{Contract, Found};

/// The document.
pub const DOCUMENT: &str = include_str!("openapi.json");

/// A request as it is validated.
pub struct Asked<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path.
    pub path: &'a str,
    /// Its query, without the question mark.
    pub query: Option<&'a str>,
    /// Its `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// Its body.
    pub body: &'a [u8],
}

impl FieldSource for Asked<'_> {
    fn each<'f>(&'f self, visit: &mut dyn FnMut(&'f [u8], &'f [u8])) {
        if let Some(kind) = self.content_type {
            visit(b"content-type", kind);
        }
    }
}

/// The document, compiled.
fn compiled() -> Option<&'static Contract> {
    static CONTRACT: OnceLock<Option<Contract>> = OnceLock::new();
    CONTRACT.get_or_init(|| Contract::from_text("openapi.json", DOCUMENT, &Options::default()).ok()).as_ref()
}

/// What is wrong with a request by the document: a status, and each problem. Paths and methods that it does not have are for the router to answer.
///
/// # Errors
/// It is not what the document says.
pub fn check(asked: &Asked<'_>) -> Result<(), (u16, Vec<String>)> {
    let Some(contract) = compiled() else {
        return Err((500, vec!["the document of the API cannot be read; this is a defect of the program".to_owned()]));
    };
    let path = asked.path.as_bytes();
    let Found::Operation(matched, values) = contract.find(contract.method_of(asked.method, path), path) else {
        return Ok(());
    };
    let framing = if asked.body.is_empty() { Framing::Empty } else { Framing::Length(asked.body.len() as u64) };
    let parts = RequestParts {
        path,
        query: asked.query.map(str::as_bytes),
        fields: asked,
        framing,
        has_client_certificate: false,
    };
    let (mut scratch, mut findings) = (Scratch::new(), Findings::all());
    if let Ok(plan) = matched.validate_request(&values, &parts, &mut scratch, &mut findings) {
        let mut validator = plan.validator;
        let mut read = || {
            validator.feed(asked.body, &mut findings)?;
            while !validator.finish_some(&mut findings)? {}
            Ok::<_, Enough>(())
        };
        if read().is_ok() {
            // What is found stands in `findings`.
            let _ = validator.finish(&mut findings);
        }
    }
    match findings.violations() {
        [] => Ok(()),
        all => {
            let status = all.first().map_or(400, contract::validate::Violation::status);
            Err((status, all.iter().map(ToString::to_string).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::admin::PAGES;
    use crate::admin::api::CHANGES;

    #[test]
    fn the_document_has_each_page_and_nothing_is_wrong_with_it() {
        let contract = Contract::from_text("openapi.json", DOCUMENT, &Options::default()).unwrap();
        assert!(contract.warnings().is_empty() && contract.errors().is_empty(), "{:?}", contract.warnings());
        let mut paths: Vec<_> = contract.operations().iter().map(|one| (one.method(), one.template())).collect();
        let mut pages: Vec<_> = PAGES
            .iter()
            .filter(|(_, path, _)| path.starts_with("/api/"))
            .map(|(method, path, _)| (*method, *path))
            .collect();
        paths.sort_unstable();
        pages.sort_unstable();
        assert_eq!(paths, pages);
    }

    fn ask(method: &str, path: &str, query: Option<&str>, kind: Option<&str>, body: &str) -> Result<(), u16> {
        let content_type = kind.map(str::as_bytes);
        check(&Asked { method, path, query, content_type, body: body.as_bytes() }).map_err(|(status, _)| status)
    }

    #[test]
    fn requests_are_what_the_document_says() {
        let json = Some("application/json");
        let post = |name: &str, body: &str| ask("POST", &format!("/api/v1/{name}"), None, json, body);
        for (name, body) in [
            ("drain", r#"{"server":"10.0.0.1:80","drained":true}"#),
            ("drain", r#"{"server":"10.0.0.1:80","drained":true,"upstream":null}"#),
            ("weight", r#"{"server":"10.0.0.1:80","weight":null}"#),
            ("weight", r#"{"server":"10.0.0.1:80"}"#),
            ("maintenance", r#"{"on":true}"#),
            ("log-level", r#"{"level":"debug","seconds":60}"#),
        ] {
            assert_eq!(post(name, body), Ok(()), "{name} {body}");
        }
        for (name, body) in [
            ("drain", r#"{"server":"10.0.0.1:80"}"#),
            ("drain", r#"{"server":"10.0.0.1:80","drained":true,"x":1}"#),
            ("drain", r#"{"server":"","drained":true}"#),
            ("drain", r#"{"server":"a","server":"b","drained":true}"#),
            ("weight", r#"{"server":"10.0.0.1:80","weight":0}"#),
            ("log-level", r#"{"level":"loud"}"#),
            ("log-level", "[]"),
            ("log-level", ""),
        ] {
            assert_eq!(post(name, body), Err(400), "{name} {body}");
        }
        assert_eq!(ask("POST", "/api/v1/drain", None, Some("text/plain"), "{}"), Err(415));
        assert_eq!(ask("GET", "/api/v1/status", None, None, ""), Ok(()));
        assert_eq!(ask("HEAD", "/api/v1/status", None, None, ""), Ok(()));
        assert_eq!(ask("GET", "/api/v1/status", Some("a=b"), None, ""), Err(400));
        assert_eq!(ask("POST", "/api/v1/reload", None, None, ""), Ok(()));
        assert_eq!(ask("PUT", "/api/v1/status", None, None, ""), Ok(()), "for the router to answer");
        assert_eq!(CHANGES.len(), 4);
    }
}
