//! What of a document cannot be enforced, is ambiguous, or lets more pass than its author may mean. For authors: validates no message.
//!
//! What the loader finds is two of the rules; the others look at the nodes of a document that loads: `operations` at what stands around schemas,
//! `schemas` at those, `examples` at the values that the document gives as examples of them.

mod examples;
mod operations;
mod rule;
mod schemas;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::contract::{Contract, of_documents, problem};
use crate::document::{Documents, Fault, Place};
use crate::openapi;
use crate::options::{OnUnsupported, Options};
use crate::problem::Problem;

pub use rule::Rule;

/// Findings that are kept; a document with more has one cause, and the first thousands show it.
const MAX_FINDINGS: usize = 10_000;

/// One thing that an author should look at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Where, and what it is.
    pub problem: Problem,
    /// The operation through which it was reached first: `GET /pets`; empty where that is none.
    pub operation: String,
}

/// Looks at the document in a file or folder. Blocks; reads files.
///
/// # Errors
/// The document does not load: every problem found, as [`Contract::load`] gives them.
pub fn lint(path: &Path, options: &Options) -> Result<Vec<Finding>, Vec<Problem>> {
    let (names, documents) = Documents::load(path, options.folder.as_deref(), &options.limits);
    of_documents(documents, &names, |documents| findings(documents, &names, options))
}

/// Looks at a document from text, as [`lint`] does.
///
/// # Errors
/// As [`lint`].
pub fn lint_text(name: &str, text: &str, options: &Options) -> Result<Vec<Finding>, Vec<Problem>> {
    let names = [PathBuf::from(name)];
    let documents = Documents::from_text(Path::new(name), text, &options.limits);
    of_documents(documents, &names, |documents| findings(documents, &names, options))
}

fn findings(documents: &Documents, names: &[PathBuf], options: &Options) -> Result<Vec<Finding>, Vec<Fault>> {
    let options = Options { strict: false, on_unsupported: OnUnsupported::RejectOperation, ..options.clone() };
    let contract = Contract::compile(documents, names, &options)?;
    let loaded = |rule: Rule, problem: &Problem| Finding { rule, problem: problem.clone(), operation: String::new() };
    let mut found: Vec<Finding> = contract.errors().iter().map(|problem| loaded(Rule::Unsupported, problem)).collect();
    found.extend(contract.warnings().iter().map(|problem| loaded(Rule::WithoutEffect, problem)));
    let Some(root) = documents.root() else { return Ok(found) };
    let Ok(dialect) = openapi::dialect(root, &mut Vec::new()) else { return Ok(found) };
    let references = documents.references(dialect);
    let mut noted = Noted::default();
    let mut schemas = schemas::Schemas::new(&references, dialect);
    operations::look(root, &references, &mut schemas, &mut noted);
    schemas.look(&mut noted);
    examples::look(schemas.examples(), &references, dialect, &options, &mut noted);
    found.extend(noted.findings(names, documents));
    let order = |finding: &Finding| {
        let problem = &finding.problem;
        (problem.file.clone(), problem.line, problem.column, finding.rule)
    };
    found.sort_by_cached_key(order);
    found.truncate(MAX_FINDINGS);
    Ok(found)
}

/// What is found, once per place and rule.
#[derive(Default)]
struct Noted {
    found: BTreeMap<(Place, Rule), (String, String)>,
}

impl Noted {
    fn add(&mut self, rule: Rule, place: Place, what: impl Into<String>, operation: &str) {
        if self.found.len() < MAX_FINDINGS {
            self.found.entry((place, rule)).or_insert_with(|| (what.into(), operation.to_owned()));
        }
    }

    fn findings(self, names: &[PathBuf], documents: &Documents) -> impl Iterator<Item = Finding> {
        self.found.into_iter().map(move |((place, rule), (what, operation))| Finding {
            rule,
            problem: problem(place, what, names, Some(documents)),
            operation,
        })
    }
}
