//! A document, compiled: finds the operation of a request and hands out its judges. Immutable and shared by all threads.

use std::path::{Path, PathBuf};

use crate::document::{Documents, Fault, Place};
use crate::media_type::MediaRange;
use crate::openapi::{self, Leaf, Operation, PathValues, Router, Shapes};
use crate::options::Options;
use crate::problem::Problem;
use crate::schema::{Program, SchemaId};

/// Problems of a document that are kept; one with more has one cause, and the first hundreds show it.
const MAX_PROBLEMS: usize = 1_000;

/// An API document, compiled.
#[derive(Debug)]
pub struct Contract {
    pub(crate) options: Options,
    pub(crate) program: Program,
    /// The same schemas without undeclared fields, where those are to be reported.
    pub(crate) closed_program: Option<Program>,
    pub(crate) shapes: Shapes,
    /// The schema that every value satisfies.
    pub(crate) anything: SchemaId,
    /// Media types that may pass unread.
    pub(crate) opaque: Vec<MediaRange>,
    operations: Vec<Operation>,
    router: Router,
    title: String,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// What a document says of a method and a path.
#[derive(Clone, Copy, Debug)]
pub enum Found<'c> {
    /// An operation, with the values of its path.
    Operation(Matched<'c>, PathValues),
    /// No path of the document matches.
    UnknownPath,
    /// The path is known, the method is not.
    UnknownMethod {
        /// The methods of the path, for Allow.
        allow: &'c str,
    },
}

/// An operation of a contract.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'c> {
    pub(crate) contract: &'c Contract,
    /// The operation.
    pub operation: &'c Operation,
}

impl Contract {
    /// Reads and compiles the document in a file, or the `openapi.yaml`, `.yml` or `.json` in a folder. Blocks; reads files.
    ///
    /// # Errors
    /// Every problem found, at most a thousand, in the order of the files.
    pub fn load(path: &Path, options: &Options) -> Result<Contract, Vec<Problem>> {
        let (names, documents) = Documents::load(path, options.folder.as_deref(), &options.limits);
        of_documents(documents, &names, |documents| Contract::compile(documents, &names, options))
    }

    /// Compiles a document from text that refers to no other file. `name` tells JSON from YAML and stands in messages.
    ///
    /// # Errors
    /// Every problem found, at most a thousand.
    pub fn from_text(name: &str, text: &str, options: &Options) -> Result<Contract, Vec<Problem>> {
        let names = [PathBuf::from(name)];
        let documents = Documents::from_text(Path::new(name), text, &options.limits);
        of_documents(documents, &names, |documents| Contract::compile(documents, &names, options))
    }

    pub(crate) fn compile(documents: &Documents, names: &[PathBuf], options: &Options) -> Result<Contract, Vec<Fault>> {
        let mut opaque = Vec::new();
        let mut faults = Vec::new();
        for name in &options.opaque_media_types {
            match MediaRange::parse(name) {
                Some(range) => opaque.push(range),
                None => faults.push(Fault::new(
                    Default::default(),
                    format!("`{name}` among the opaque media types is no media type"),
                )),
            }
        }
        let read = match openapi::read(documents, options) {
            Ok(read) if faults.is_empty() => read,
            Ok(_) => return Err(faults),
            Err(more) => {
                faults.extend(more);
                return Err(faults);
            }
        };
        Ok(Contract {
            options: options.clone(),
            program: read.program,
            closed_program: read.closed_program,
            shapes: read.shapes,
            anything: read.anything,
            opaque,
            operations: read.operations,
            router: read.router,
            title: read.title,
            errors: problems(read.errors, names, Some(documents)),
            warnings: problems(read.warnings, names, Some(documents)),
        })
    }

    /// What the document says of a request for this canonical path (percent-encoded, starting with `/`).
    pub fn find(&self, method: &str, path: &[u8]) -> Found<'_> {
        self.found(method, self.router.find(path))
    }

    /// As [`Contract::find`], for a path of which all is decoded that a path can hold as it is: templates are compared with it decoded likewise.
    pub fn find_decoded(&self, method: &str, path: &[u8]) -> Found<'_> {
        self.found(method, self.router.find_decoded(path))
    }

    /// Whether some template has escapes that a server which decodes would not tell from what they stand for.
    pub fn has_escapes(&self) -> bool {
        self.router.has_escapes()
    }

    fn found<'c>(&'c self, method: &str, at: Option<(&'c Leaf, PathValues)>) -> Found<'c> {
        let Some((leaf, values)) = at else { return Found::UnknownPath };
        let number = leaf.operations.iter().find(|(have, _)| have == method).map(|(_, number)| *number);
        match number.and_then(|number| self.operation(number)) {
            Some(matched) => Found::Operation(matched, values),
            None => Found::UnknownMethod { allow: &leaf.allow },
        }
    }

    /// The method that a request is validated under: HEAD as itself where the document lists it, else as the GET whose head it asks for (RFC 9110
    /// §9.3.2).
    pub fn method_of<'m>(&self, method: &'m str, path: &[u8]) -> &'m str {
        match method {
            "HEAD" if matches!(self.find("HEAD", path), Found::UnknownMethod { .. }) => "GET",
            method => method,
        }
    }

    /// An operation by its number.
    pub fn operation(&self, number: usize) -> Option<Matched<'_>> {
        Some(Matched { contract: self, operation: self.operations.get(number)? })
    }

    /// All operations, by number.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The title of the document.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What is wrong with the document, with the operations that it concerns: their messages break the contract.
    pub fn errors(&self) -> &[Problem] {
        &self.errors
    }

    /// What is worth knowing about the document and weakens nothing.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// How the document is applied.
    pub fn options(&self) -> &Options {
        &self.options
    }
}

/// What is made of documents, or every problem with them.
pub(crate) fn of_documents<T>(
    documents: Result<Documents, Vec<Fault>>,
    names: &[PathBuf],
    make: impl FnOnce(&Documents) -> Result<T, Vec<Fault>>,
) -> Result<T, Vec<Problem>> {
    let documents = documents.map_err(|faults| problems(faults, names, None))?;
    make(&documents).map_err(|faults| problems(faults, names, Some(&documents)))
}

/// Faults in the order of the files, at most a thousand.
fn problems(mut faults: Vec<Fault>, names: &[PathBuf], documents: Option<&Documents>) -> Vec<Problem> {
    faults.sort_by_key(|fault| fault.place);
    faults.dedup();
    faults.truncate(MAX_PROBLEMS);
    faults.into_iter().map(|fault| problem(fault.place, fault.message, names, documents)).collect()
}

/// Something wrong at a place.
pub(crate) fn problem(place: Place, mut what: String, names: &[PathBuf], documents: Option<&Documents>) -> Problem {
    let file = names.get(place.file as usize).cloned().unwrap_or_default();
    // Nobody counts a hundred thousand characters.
    if let Some(pointer) = documents.and_then(|documents| documents.pointer(place)) {
        what = format!("{what} (at `#{pointer}`)");
    }
    Problem { file, line: place.line, column: place.column, what }
}
