//! What the compiler is given: targets, how references resolve, and options; and what it answers when it rejects. Compiles nothing.

use crate::limits::Limits;
use crate::node::{Node, Place};

/// Which vocabulary a schema is written in.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Dialect {
    /// OpenAPI 3.0's schema object: an extended subset of an early draft, `nullable`, boolean exclusive bounds, `$ref` without siblings.
    OpenApi30,
    /// JSON Schema 2020-12 with the OpenAPI 3.1 vocabulary.
    OpenApi31,
}

/// Which way the value travels: decides about `readOnly` and `writeOnly`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Direction {
    /// From client to upstream: where `readOnly` counts, such members are rejected and never required.
    Request,
    /// From upstream to client: `writeOnly` members are rejected and never required.
    Response,
}

/// A schema resource: a file, or the part of one that has an `$id`. The numbers are the resolver's own.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Base(pub u32);

/// A schema and what is needed to read it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'n> {
    /// The schema itself.
    pub node: &'n Node,
    /// The resource that its references are relative to.
    pub base: Base,
    /// The vocabulary of that resource.
    pub dialect: Dialect,
}

/// Finds what a reference means. Never goes to the network: what was not loaded before is an error.
pub trait Resolver<'n> {
    /// The schema that `reference`, as written in resource `base`, leads to; or why there is none.
    fn resolve(&self, reference: &str, base: Base) -> Result<Target<'n>, String>;

    /// The resource that begins at this node because it has an `$id`; `base` itself for all others.
    fn enter(&self, _node: &'n Node, base: Base) -> Base {
        base
    }

    /// The schema in resource `base` that carries this `$dynamicAnchor`.
    fn dynamic_anchor(&self, _name: &str, _base: Base) -> Option<Target<'n>> {
        None
    }

    /// The schemas that take in, through `allOf`, the schema at this node, whose `discriminator` distinguishes them; with their names.
    fn subtypes(&self, _node: &'n Node) -> Vec<(&'n str, Target<'n>)> {
        Vec::new()
    }

    /// Whether this is the reference by which such a schema takes in its base: there the base is meant, and nothing else.
    fn is_link_to_base(&self, _node: &'n Node) -> bool {
        false
    }
}

/// What the compiler may decide.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Reject members that no part of the composed schema knows, at every depth, unless `additionalProperties` or `unevaluatedProperties` says
    /// something about them. An object schema that names no members at all stays free.
    pub reject_unknown_fields: bool,
    /// `format` says nothing about validity, as plain JSON Schema has it. A contract asserts it.
    pub formats_are_annotations: bool,
    /// The formats that are asserted; none for all that are known.
    pub formats: Option<Vec<String>>,
    /// A `date-time` or `time` may lack its offset, and a `duration` may end in a fraction of a second.
    pub lenient_times: bool,
    /// In 3.0, `nullable: true` allows null whatever stands beside it.
    pub nullable_by_intent: bool,
    /// Whether members that may only be read are rejected in requests, and those that may only be written in responses. None: as the version has it.
    /// 3.0 says that they should not be sent; to 3.1 both are annotations (3.1.1 §4.8.24, JSON Schema 2020-12 Validation §9.4).
    pub reject_read_only: Option<bool>,
    /// In 3.1, keywords that nobody knows say nothing about validity, as plain JSON Schema has it, and nothing is said of them. A contract has
    /// warnings of them, and what looks like a misspelt keyword is a problem.
    pub unknown_keywords_are_annotations: bool,
    /// What would be a warning is a problem.
    pub strict: bool,
    /// Bounds for each value.
    pub limits: Limits,
}

/// One reason why a schema was rejected, with its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Where in the documents.
    pub place: Place,
    /// What is wrong and what would be right, in one line.
    pub message: String,
}
