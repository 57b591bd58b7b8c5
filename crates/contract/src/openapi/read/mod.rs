//! Reads the nodes of a document into the model. Finds every problem: what could weaken a check is one of the operations that it concerns, what
//! could not is a warning.
//!
//! References are followed here except within schemas, whose compiler follows its own.

mod content;
mod operation;
mod parameter;
mod response;
mod security;
mod servers;
mod unsupported;

pub(crate) use content::{Class, is_of_bytes};
pub(crate) use operation::METHODS;

use std::collections::HashMap;
use std::sync::Arc;

use super::model::Operation;
use super::router::Router;
use super::security::{Requirement, Scheme};
use super::shape::{ShapeBuilder, Shapes};
use super::template::Template;
use crate::document::{Documents, Fault, Kind, Node, Place, References};
use crate::options::{OnUnsupported, Options, Undeclared};
use crate::schema::{Base, Builder, Dialect, Direction, Program, SchemaId, Target};
use crate::spelling;
use unsupported::{Gathered, Sides};

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
    /// What makes operations unsupported.
    pub(crate) errors: Vec<Fault>,
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
    /// What is wrong with the part that is being read; in the end, with the document as a whole.
    faults: Vec<Fault>,
    /// The schemas that the part which is being read asks for.
    used: Vec<SchemaId>,
    warnings: Vec<Fault>,
    schemes: HashMap<String, Arc<Scheme>>,
    /// Security schemes that cannot be used, with what is wrong with them.
    bad_schemes: HashMap<String, Vec<Fault>>,
    operations: Vec<Operation>,
    /// What concerns each operation, by its number.
    sides: Vec<Sides>,
    /// What is wrong with parts that may be no operation's.
    others: Vec<Fault>,
    operation_ids: HashMap<&'d str, Place>,
    router: Router,
    /// Base paths of the document as a whole.
    bases: (Vec<Template>, Gathered),
    /// Requirement where an operation has none of its own.
    security: (Vec<Requirement>, Gathered),
}

/// Reads the first file of `documents` as an OpenAPI document.
pub(crate) fn read(documents: &Documents, options: &Options) -> Result<Read, Vec<Fault>> {
    let Some(root) = documents.root() else { return Err(Vec::new()) };
    let mut warnings = documents.assumed().unwrap_or_default().to_vec();
    let dialect = dialect(root, &mut warnings).map_err(|fault| vec![fault])?;
    let references = documents.references(dialect);
    if references.is_cut() {
        return Err(references.faults.clone());
    }
    let schema_options = crate::schema::Options {
        reject_unknown_fields: options.undeclared_body_fields == Undeclared::Reject,
        limits: options.limits.json.clone(),
        strict: options.strict,
        formats: options.formats.clone(),
        lenient_times: options.lenient_times,
        nullable_by_intent: options.nullable_by_intent,
        reject_read_only: options.reject_read_only,
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
        shapes: ShapeBuilder::new(&references, dialect, options.nullable_by_intent),
        faults: references.faults.clone(),
        used: Vec::new(),
        warnings: Vec::new(),
        schemes: HashMap::new(),
        bad_schemes: HashMap::new(),
        operations: Vec::new(),
        sides: Vec::new(),
        others: Vec::new(),
        operation_ids: HashMap::new(),
        router: Router::new(),
        bases: Default::default(),
        security: Default::default(),
    };
    match options.strict {
        true => reader.faults.extend(warnings),
        false => reader.warnings = warnings,
    }
    reader.document(At { node: root, base: references.base_of_file(0) }, documents.assumed().is_some());
    reader.finish(root)
}

/// The dialect that the document declares.
pub(crate) fn dialect(root: &Node, warnings: &mut Vec<Fault>) -> Result<Dialect, Fault> {
    if let Some(version) = root.get("swagger") {
        return Err(Fault::new(version.place, "this version of Swagger is not known; 2.0 is"));
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
    fn document(&mut self, root: At<'d>, was_swagger: bool) {
        let mut known = vec![
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
        if was_swagger {
            // Where references to schemas lead.
            known.push("definitions");
        }
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
        self.security = self.apart(|reader| reader.requirements(root.get("security")).unwrap_or_default());
        self.bases = self.apart(|reader| match reader.base_paths(root.get("servers")) {
            Some(bases) => bases,
            None => reader.root_base(),
        });
        match root.get("paths") {
            Some(paths) => self.paths(paths),
            None if self.dialect == Dialect::OpenApi30 => self.fault(root, "has no `paths`"),
            None => self.warn(root, "has no `paths`, so nothing passes"),
        }
    }

    fn finish(mut self, root: &Node) -> Result<Read, Vec<Fault>> {
        let anything = self.schema(None, Base::default(), Direction::Request);
        let title = root.get("info").and_then(|info| info.get("title")).and_then(Node::as_str).unwrap_or_default();
        if self.shapes.is_cut() {
            let what = "the schemas of parameters, forms and XML are composed of too many others; use fewer";
            self.faults.push(Fault::new(root.place, what));
        }
        let built = self.schemas.finish_usable();
        let mut others = self.others;
        others.extend([self.security.1, self.bases.1].into_iter().flat_map(|gathered| gathered.faults));
        others.extend(self.bad_schemes.into_values().flatten());
        let errors = unsupported::charge(&mut self.operations, self.sides, others, &built);
        if !self.faults.is_empty() || (self.options.on_unsupported == OnUnsupported::Fail && !errors.is_empty()) {
            self.faults.extend(errors);
            return Err(self.faults);
        }
        let of_schemas = built.warnings.into_iter().map(|warning| Fault::new(warning.place, warning.message));
        self.warnings.extend(of_schemas);
        Ok(Read {
            operations: self.operations,
            router: self.router,
            shapes: self.shapes.finish(),
            program: built.program,
            // The same problems have been reported already.
            closed_program: self.closed_schemas.map(|closed| closed.finish_usable().program),
            anything,
            title: title.to_owned(),
            errors,
            warnings: self.warnings,
        })
    }

    /// Reads a part of the document whose problems concern some operations only.
    fn apart<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> (T, Gathered) {
        let (faults, used) = (std::mem::take(&mut self.faults), std::mem::take(&mut self.used));
        let value = read(self);
        let faults = std::mem::replace(&mut self.faults, faults);
        (value, Gathered { faults, schemas: std::mem::replace(&mut self.used, used) })
    }

    /// Notes a problem of the part that is being read.
    fn fault(&mut self, at: At<'d>, message: impl Into<String>) {
        self.fault_at(at.node.place, message);
    }

    fn fault_at(&mut self, place: Place, message: impl Into<String>) {
        self.faults.push(Fault::new(place, message));
    }

    /// Notes what is worth knowing and weakens nothing; a problem where options are strict.
    fn warn(&mut self, at: At<'d>, message: impl Into<String>) {
        self.warn_at(at.node.place, message);
    }

    fn warn_at(&mut self, place: Place, message: impl Into<String>) {
        match self.options.strict {
            true => self.fault_at(place, message),
            false => self.warnings.push(Fault::new(place, message)),
        }
    }

    /// Checks that this is an object. Members that are not known say nothing, unless they are known ones, misspelt; extensions (`x-`) are always
    /// allowed.
    fn known(&mut self, at: At<'d>, what: &str, known: &[&str]) -> bool {
        if !matches!(at.node.kind, Kind::Object(_)) {
            self.fault(at, format!("{what} must be an object, not {}", at.node.kind_name()));
            return false;
        }
        for (key, _) in at.node.members() {
            if known.contains(&key.text.as_str()) || key.text.starts_with("x-") {
                continue;
            }
            let name = crate::message::shown(key.text.as_bytes());
            let is_status =
                key.text == "default" || key.text.len() == 3 && key.text.starts_with(['1', '2', '3', '4', '5']);
            if is_status && known.contains(&"responses") {
                self.warn_at(
                    key.place,
                    format!("`{name}` is a response: write it below `responses`, one level deeper"),
                );
                continue;
            }
            match spelling::meant(&key.text, known.iter().copied()) {
                Some(meant) => self.fault_at(key.place, format!("{what} has no `{name}`; write `{meant}`")),
                None => self.warn_at(
                    key.place,
                    format!("{what} has no `{name}`, which says nothing; known: {}", known.join(", ")),
                ),
            }
        }
        true
    }

    /// As [`Reader::known`], for what holds a schema: a keyword that stands beside it would not be validated.
    fn known_around_schema(&mut self, at: At<'d>, what: &str, known: &[&str]) -> bool {
        for (key, _) in at.node.members() {
            if !known.contains(&key.text.as_str()) && crate::schema::validates(&key.text) {
                self.fault_at(key.place, format!("{what} has no `{}`; it belongs into its `schema`", key.text));
            }
        }
        self.known(at, what, known)
    }

    /// Follows the `$ref` of a reference object, and those of what it leads to.
    fn follow(&mut self, mut at: At<'d>) -> Option<At<'d>> {
        for _ in 0..MAX_HOPS {
            if at.get("$ref").is_none() {
                return Some(at);
            }
            at = self.follow_once(at)?;
        }
        self.fault(at, "references form a cycle");
        None
    }

    /// Follows a `$ref` that is there, and none of what it leads to.
    fn follow_once(&mut self, at: At<'d>) -> Option<At<'d>> {
        let reference = at.get("$ref")?;
        let Some(text) = reference.node.as_str() else {
            self.fault(reference, "`$ref` must be text");
            return None;
        };
        match self.references.find(text, at.base) {
            Ok((node, base)) => Some(At { node, base }),
            Err(why) => {
                self.fault(reference, why);
                None
            }
        }
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
        let id = self.schemas.add(target, direction);
        self.used.push(id);
        id
    }

    /// Has the schema of an array compiled by that of its elements, and one of it as a whole.
    fn list_of(&mut self, element: At<'d>, whole: Option<At<'d>>, direction: Direction) -> SchemaId {
        let target = |at: At<'d>| Target { node: at.node, base: at.base, dialect: self.dialect };
        let (element, whole) = (target(element), whole.map(target));
        if let Some(closed) = &mut self.closed_schemas {
            closed.add_list_of(element, whole, direction);
        }
        let id = self.schemas.add_list_of(element, whole, direction);
        self.used.push(id);
        id
    }
}
