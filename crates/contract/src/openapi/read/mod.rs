//! Reads the nodes of a document into the model. Finds every problem; what it does not know and what could weaken a check is one.
//!
//! References are followed here except within schemas, whose compiler follows its own.

mod content;
mod operation;
mod parameter;
mod response;
mod security;
mod servers;

pub(crate) use content::Class;

use std::collections::HashMap;
use std::sync::Arc;

use super::model::Operation;
use super::router::Router;
use super::security::{Requirement, Scheme};
use super::shape::{ShapeBuilder, Shapes};
use super::template::Template;
use crate::document::{Documents, Fault, Kind, Node, Place, References};
use crate::options::{Options, Undeclared};
use crate::schema::{Base, Builder, Dialect, Direction, Program, SchemaId, Target};

/// References in a row that are followed.
const MAX_HOPS: usize = 32;

/// A schema that every value satisfies, for content without one.
static ANYTHING: Node = Node { kind: Kind::Object(Vec::new()), place: Place { file: 0, line: 0, column: 0 } };

/// A document, read.
pub(crate) struct Read {
    pub(crate) operations: Vec<Operation>,
    pub(crate) router: Router,
    pub(crate) shapes: Shapes,
    pub(crate) program: Program,
    pub(crate) closed_program: Option<Program>,
    /// The schema that every value satisfies.
    pub(crate) anything: SchemaId,
    pub(crate) title: String,
    pub(crate) warnings: Vec<Fault>,
}

/// A node and the resource that its references are relative to.
#[derive(Clone, Copy)]
struct At<'d> {
    node: &'d Node,
    base: Base,
}

impl<'d> At<'d> {
    fn get(self, name: &str) -> Option<At<'d>> {
        self.node.get(name).map(|node| At { node, base: self.base })
    }

    fn members(self) -> impl Iterator<Item = (&'d str, At<'d>)> {
        let base = self.base;
        self.node.members().iter().map(move |(key, node)| (key.text.as_str(), At { node, base }))
    }

    fn elements(self) -> impl Iterator<Item = At<'d>> {
        let base = self.base;
        self.node.elements().iter().map(move |node| At { node, base })
    }
}

struct Reader<'d> {
    references: &'d References<'d>,
    dialect: Dialect,
    options: &'d Options,
    schemas: Builder<'d>,
    /// Where undeclared fields are to be reported: the same schemas without them, under the same numbers.
    closed_schemas: Option<Builder<'d>>,
    shapes: ShapeBuilder<'d>,
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
    schemes: HashMap<String, Arc<Scheme>>,
    operations: Vec<Operation>,
    operation_ids: HashMap<&'d str, Place>,
    router: Router,
    /// Base paths of the document as a whole.
    bases: Vec<Template>,
    /// Requirement where an operation has none of its own.
    security: Vec<Requirement>,
}

/// Reads the first file of `documents` as an OpenAPI document.
pub(crate) fn read(documents: &Documents, options: &Options) -> Result<Read, Vec<Fault>> {
    let Some(root) = documents.root() else { return Err(Vec::new()) };
    let mut warnings = Vec::new();
    let dialect = dialect(root, &mut warnings).map_err(|fault| vec![fault])?;
    let references = documents.references(dialect);
    let schema_options = crate::schema::Options {
        reject_unknown_fields: options.undeclared_body_fields == Undeclared::Reject,
        limits: options.limits.json.clone(),
        ..crate::schema::Options::default()
    };
    let mut reader = Reader {
        references: &references,
        dialect,
        options,
        closed_schemas: (options.undeclared_body_fields == Undeclared::Report).then(|| {
            let closed = crate::schema::Options { reject_unknown_fields: true, ..schema_options.clone() };
            Builder::new(&references, closed)
        }),
        schemas: Builder::new(&references, schema_options),
        shapes: ShapeBuilder::new(&references, dialect),
        faults: references.faults.clone(),
        warnings,
        schemes: HashMap::new(),
        operations: Vec::new(),
        operation_ids: HashMap::new(),
        router: Router::new(),
        bases: Vec::new(),
        security: Vec::new(),
    };
    reader.document(At { node: root, base: references.base_of_file(0) });
    reader.finish(root)
}

/// The dialect that the document declares.
fn dialect(root: &Node, warnings: &mut Vec<Fault>) -> Result<Dialect, Fault> {
    if root.get("swagger").is_some() {
        return Err(Fault::new(root.place, "is a Swagger 2.0 document; convert it to OpenAPI 3.0 or 3.1"));
    }
    let Some(version) = root.get("openapi") else {
        return Err(Fault::new(root.place, "is no OpenAPI document: it has no `openapi` version"));
    };
    // An unquoted 3.1 is a number.
    let text = match &version.kind {
        Kind::String(text) | Kind::Number(text) => text.as_str(),
        _ => "",
    };
    let mut parts = text.split(['.', '-']);
    match (parts.next(), parts.next()) {
        (Some("3"), Some("0")) => Ok(Dialect::OpenApi30),
        (Some("3"), Some("1")) => Ok(Dialect::OpenApi31),
        (Some("3"), Some("2")) => {
            warnings.push(Fault::new(version.place, "OpenAPI 3.2 is read as 3.1; what only 3.2 has is rejected"));
            Ok(Dialect::OpenApi31)
        }
        _ => Err(Fault::new(version.place, format!("`openapi: {text}` is no version that is known: 3.0, 3.1 or 3.2"))),
    }
}

impl<'d> Reader<'d> {
    fn document(&mut self, root: At<'d>) {
        let known = [
            "openapi",
            "info",
            "servers",
            "paths",
            "components",
            "security",
            "tags",
            "externalDocs",
            "webhooks",
            "jsonSchemaDialect",
            "$self",
        ];
        self.known(root, "the document", &known);
        if let Some(dialect) = root.get("jsonSchemaDialect") {
            let known =
                ["https://json-schema.org/draft/2020-12/schema", "https://spec.openapis.org/oas/3.1/dialect/base"];
            let text = dialect.node.as_str().unwrap_or_default();
            let is_known = known.contains(&text) || text.starts_with("https://spec.openapis.org/oas/3.");
            if !is_known {
                self.fault(dialect, "this dialect of JSON Schema is not built in; 2020-12 is");
            }
        }
        self.read_schemes(root.get("components").and_then(|components| components.get("securitySchemes")));
        self.security = self.requirements(root.get("security")).unwrap_or_default();
        self.bases = self.base_paths(root.get("servers")).unwrap_or_else(|| self.root_base());
        match root.get("paths") {
            Some(paths) => self.paths(paths),
            None if self.dialect == Dialect::OpenApi30 => self.fault(root, "has no `paths`"),
            None => self.warn(root, "has no `paths`, so nothing passes"),
        }
    }

    fn finish(mut self, root: &Node) -> Result<Read, Vec<Fault>> {
        let anything = self.schema(None, Base::default(), Direction::Request);
        let title = root.get("info").and_then(|info| info.get("title")).and_then(Node::as_str).unwrap_or_default();
        let program = match self.schemas.finish() {
            Ok(program) => Some(program),
            Err(problems) => {
                self.faults.extend(problems.into_iter().map(|problem| Fault::new(problem.place, problem.message)));
                None
            }
        };
        match program {
            Some(program) if self.faults.is_empty() => Ok(Read {
                operations: self.operations,
                router: self.router,
                shapes: self.shapes.finish(),
                program,
                // The same problems have been reported already.
                closed_program: self.closed_schemas.and_then(|closed| closed.finish().ok()),
                anything,
                title: title.to_owned(),
                warnings: self.warnings,
            }),
            _ => Err(self.faults),
        }
    }

    /// Notes a problem.
    fn fault(&mut self, at: At<'d>, message: impl Into<String>) {
        self.faults.push(Fault::new(at.node.place, message));
    }

    /// Notes what is worth knowing and weakens nothing.
    fn warn(&mut self, at: At<'d>, message: impl Into<String>) {
        self.warnings.push(Fault::new(at.node.place, message));
    }

    /// Checks that this is an object without members that are not known; extensions (`x-`) are always allowed.
    fn known(&mut self, at: At<'d>, what: &str, known: &[&str]) -> bool {
        if !matches!(at.node.kind, Kind::Object(_)) {
            self.fault(at, format!("{what} must be an object, not {}", at.node.kind_name()));
            return false;
        }
        for (key, _) in at.node.members() {
            if !known.contains(&key.text.as_str()) && !key.text.starts_with("x-") {
                let name = crate::validate::shown(key.text.as_bytes());
                self.faults.push(Fault::new(key.place, format!("{what} has no `{name}`; known: {}", known.join(", "))));
            }
        }
        true
    }

    /// Follows the `$ref` of a reference object, and those of what it leads to.
    fn follow(&mut self, mut at: At<'d>) -> Option<At<'d>> {
        for _ in 0..MAX_HOPS {
            let Some(reference) = at.get("$ref") else { return Some(at) };
            let Some(text) = reference.node.as_str() else {
                self.fault(reference, "`$ref` must be text");
                return None;
            };
            match self.references.find(text, at.base) {
                Ok((node, base)) => at = At { node, base },
                Err(why) => {
                    self.fault(reference, why);
                    return None;
                }
            }
        }
        self.fault(at, "references lead in a circle");
        None
    }

    /// A boolean member; absent is false.
    fn flag(&mut self, at: At<'d>, name: &str) -> bool {
        self.flag_or(at, name, false)
    }

    fn flag_or(&mut self, at: At<'d>, name: &str, default: bool) -> bool {
        let Some(value) = at.get(name) else { return default };
        value.node.as_bool().unwrap_or_else(|| {
            self.fault(value, format!("`{name}` must be true or false"));
            default
        })
    }

    /// A text member.
    fn text(&mut self, at: At<'d>, name: &str) -> Option<&'d str> {
        let value = at.get(name)?;
        if value.node.as_str().is_none() {
            self.fault(value, format!("`{name}` must be text, not {}", value.node.kind_name()));
        }
        value.node.as_str()
    }

    /// Has a schema compiled; without one every value is good.
    fn schema(&mut self, at: Option<At<'d>>, base: Base, direction: Direction) -> SchemaId {
        let at = at.unwrap_or(At { node: &ANYTHING, base });
        let target = Target { node: at.node, base: at.base, dialect: self.dialect };
        if let Some(closed) = &mut self.closed_schemas {
            closed.add(target, direction);
        }
        self.schemas.add(target, direction)
    }
}
