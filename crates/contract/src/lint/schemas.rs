//! Holes in schemas: what has no type, no bound or no end. Each schema is looked at once per direction, with what `$ref` and `allOf` add to it, and a
//! branch of `anyOf` or `oneOf` with what is said around it.
//!
//! Goes through a queue, so that no document exhausts the stack.

use std::collections::HashSet;

use super::Noted;
use super::operations::says_nothing;
use super::rule::Rule;
use crate::document::{Key, Node, References};
use crate::format::Format;
use crate::schema::{Base, Dialect, Direction, Resolver as _, Types};

/// Schemas that one is composed of, at most.
const MAX_PARTS: usize = 1_000;

/// References in a row that are followed.
const MAX_HOPS: usize = 32;

/// Formats whose texts are of bounded length, or that are no text.
const BOUNDED_FORMATS: [&str; 13] = [
    "date-time",
    "date",
    "time",
    "duration",
    "uuid",
    "ipv4",
    "ipv6",
    "hostname",
    "idn-hostname",
    "email",
    "binary",
    "int32",
    "int64",
];

/// Formats of numbers and of files, and `password`, of which nobody expects an assertion.
const PLAIN_FORMATS: [&str; 6] = ["int32", "int64", "float", "double", "binary", "password"];

/// A node and the resource that its references are relative to.
#[derive(Clone, Copy)]
pub(super) struct At<'d> {
    pub(super) node: &'d Node,
    pub(super) base: Base,
}

impl<'d> At<'d> {
    pub(super) fn get(self, name: &str) -> Option<At<'d>> {
        self.node.get(name).map(|node| At { node, base: self.base })
    }

    pub(super) fn text(self, name: &str) -> Option<&'d str> {
        self.node.get(name).and_then(Node::as_str)
    }

    pub(super) fn keyed(self) -> impl Iterator<Item = (&'d Key, At<'d>)> {
        self.node.members().iter().map(move |(key, node)| (key, At { node, base: self.base }))
    }

    pub(super) fn elements(self) -> impl Iterator<Item = At<'d>> {
        self.node.elements().iter().map(move |node| At { node, base: self.base })
    }

    /// Behind `$ref`, where it is one; none where that leads nowhere.
    pub(super) fn followed(mut self, references: &References<'d>) -> Option<At<'d>> {
        for _ in 0..MAX_HOPS {
            let Some(reference) = self.text("$ref") else { return Some(self) };
            let (node, base) = references.find(reference, self.base).ok()?;
            self = At { node, base };
        }
        None
    }
}

/// A value that a document gives as an example of a schema.
#[derive(Clone, Copy)]
pub(super) struct Example<'d> {
    pub(super) schema: At<'d>,
    pub(super) value: &'d Node,
    pub(super) direction: Direction,
    /// The operation, by its number among those that were named.
    operation: usize,
}

/// What is said of a value so far.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Said {
    /// What `type` says, of all that say something.
    types: Option<u8>,
    /// The values are listed.
    is_listed: bool,
    is_string_bounded: bool,
    is_array_bounded: bool,
    is_object_bounded: bool,
    has_items: bool,
    has_members: bool,
    is_closed: bool,
    has_branches: bool,
    /// Some keyword says something.
    has_keywords: bool,
    /// Some keyword speaks of one type only.
    is_of_one_type: bool,
}

/// A schema to look at.
struct Job<'d> {
    at: At<'d>,
    direction: Direction,
    /// What the schemas around a branch say; none for a value of its own.
    around: Option<Said>,
    operation: usize,
}

/// The schemas of a document, as they are found.
pub(super) struct Schemas<'d> {
    references: &'d References<'d>,
    dialect: Dialect,
    open: Vec<Job<'d>>,
    seen: HashSet<(usize, Direction, Option<Said>)>,
    examples: Vec<Example<'d>>,
    known_examples: HashSet<(usize, Direction)>,
    operations: Vec<String>,
}

impl<'d> Schemas<'d> {
    pub(super) fn new(references: &'d References<'d>, dialect: Dialect) -> Schemas<'d> {
        Schemas {
            references,
            dialect,
            open: Vec::new(),
            seen: HashSet::new(),
            examples: Vec::new(),
            known_examples: HashSet::new(),
            operations: Vec::new(),
        }
    }

    /// Takes a schema of an operation; it is looked at by [`Schemas::look`].
    pub(super) fn add(&mut self, at: At<'d>, direction: Direction, operation: &str) {
        let operation = self.number(operation);
        self.open.push(Job { at, direction, around: None, operation });
    }

    /// Takes the examples that stand in `holder`, beside its schema.
    pub(super) fn add_examples(&mut self, holder: At<'d>, schema: At<'d>, direction: Direction, operation: &str) {
        let operation = self.number(operation);
        if let Some(value) = holder.node.get("example") {
            self.example(schema, value, direction, operation);
        }
        for (_, example) in holder.get("examples").map(At::keyed).into_iter().flatten() {
            let value = example.followed(self.references).and_then(|example| example.node.get("value"));
            if let Some(value) = value {
                self.example(schema, value, direction, operation);
            }
        }
    }

    fn number(&mut self, operation: &str) -> usize {
        if self.operations.last().is_none_or(|last| last != operation) {
            self.operations.push(operation.to_owned());
        }
        self.operations.len() - 1
    }

    fn example(&mut self, schema: At<'d>, value: &'d Node, direction: Direction, operation: usize) {
        if self.known_examples.insert((std::ptr::from_ref(value).addr(), direction)) {
            self.examples.push(Example { schema, value, direction, operation });
        }
    }

    /// All examples, each with its operation. Call it after [`Schemas::look`].
    pub(super) fn examples(&self) -> Vec<(Example<'d>, &str)> {
        let named =
            |example: &Example<'d>| (*example, self.operations.get(example.operation).map_or("", String::as_str));
        self.examples.iter().map(named).collect()
    }

    /// Looks at all schemas that were taken, and at those within them.
    pub(super) fn look(&mut self, noted: &mut Noted) {
        // The first operation is to be named, so the queue begins at its front.
        self.open.reverse();
        while let Some(job) = self.open.pop() {
            let at = At { base: self.references.enter(job.at.node, job.at.base), ..job.at };
            if self.seen.insert((std::ptr::from_ref(at.node).addr(), job.direction, job.around)) {
                self.look_at(&Job { at, ..job }, noted);
            }
        }
    }

    fn look_at(&mut self, job: &Job<'d>, noted: &mut Noted) {
        // What is found belongs where the schema is, not where it is referred to.
        if let Some(reference) = job.at.text("$ref")
            && (self.dialect == Dialect::OpenApi30 || job.at.node.members().len() == 1)
        {
            let target = self.references.find(reference, job.at.base).ok();
            return self.open.extend(target.map(|(node, base)| Job { at: At { node, base }, ..*job }));
        }
        let parts = self.parts(job.at);
        let mut said = job.around.unwrap_or_default();
        // That there are branches around says nothing of the branch.
        said.has_branches = false;
        parts.iter().for_each(|part| said.read(part.node));
        for part in &parts {
            self.keywords(*part, job, said, noted);
        }
        self.holes(job, &parts, said, noted);
    }

    /// A schema with all that `$ref` and `allOf` add to it.
    fn parts(&self, at: At<'d>) -> Vec<At<'d>> {
        let (mut found, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![at]);
        while let Some(at) = open.pop() {
            if found.len() == MAX_PARTS || !seen.insert(std::ptr::from_ref(at.node).addr()) {
                continue;
            }
            if let Some(reference) = at.text("$ref") {
                let target = self.references.find(reference, at.base).ok();
                open.extend(target.map(|(node, base)| At { node, base }));
                if self.dialect == Dialect::OpenApi30 {
                    continue;
                }
            }
            found.push(at);
            open.extend(at.get("allOf").map(At::elements).into_iter().flatten());
        }
        found
    }

    /// What one schema says by itself, and the schemas within it.
    fn keywords(&mut self, part: At<'d>, job: &Job<'d>, said: Said, noted: &mut Noted) {
        let Job { direction, operation, .. } = *job;
        let name = self.operations.get(operation).map_or("", String::as_str);
        if let Some(pattern) = part.get("pattern")
            && let Some(text) = pattern.node.as_str()
            && !(text.starts_with('^') && text.ends_with('$') && !text.ends_with("\\$"))
        {
            let what = format!("`{}` is not bound to the whole text", crate::message::shown(text.as_bytes()));
            noted.add(Rule::PatternUnanchored, pattern.node.place, what, name);
        }
        if let Some(format) = part.get("format")
            && let Some(text) = format.node.as_str()
            && Format::from_name(text).is_none()
            && !PLAIN_FORMATS.contains(&text)
        {
            let what = format!("no format is called `{}` here", crate::message::shown(text.as_bytes()));
            noted.add(Rule::FormatUnknown, format.node.place, what, name);
        }
        for value in ["example", "default"].iter().filter_map(|keyword| part.node.get(keyword)) {
            self.example(job.at, value, direction, operation);
        }
        let examples = part.node.get("examples").map(Node::elements).unwrap_or_default();
        examples.iter().for_each(|value| self.example(job.at, value, direction, operation));
        let mut push = |at: At<'d>, around| self.open.push(Job { at, direction, around, operation });
        for keyword in ["additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems"] {
            part.get(keyword).into_iter().filter(|at| !says_nothing(at.node)).for_each(|at| push(at, None));
        }
        for keyword in ["properties", "patternProperties"] {
            part.get(keyword).map(At::keyed).into_iter().flatten().for_each(|(_, at)| push(at, None));
        }
        part.get("prefixItems").map(At::elements).into_iter().flatten().for_each(|at| push(at, None));
        let around = Some(Said { has_branches: false, ..said });
        for keyword in ["oneOf", "anyOf"] {
            part.get(keyword).map(At::elements).into_iter().flatten().for_each(|at| push(at, around));
        }
        ["then", "else"].iter().filter_map(|keyword| part.get(keyword)).for_each(|at| push(at, around));
    }

    /// What nothing says of a value.
    fn holes(&self, job: &Job<'d>, parts: &[At<'d>], said: Said, noted: &mut Noted) {
        let name = self.operations.get(job.operation).map_or("", String::as_str);
        let mut note = |rule: Rule, what: &str| noted.add(rule, job.at.node.place, what, name);
        if said.is_listed || said.has_branches || job.at.node.as_bool() == Some(false) {
            return;
        }
        let Some(types) = said.types.map(Types) else {
            // A branch may say no more than which members it wants.
            return match (job.around.is_some(), said.is_of_one_type, said.has_keywords) {
                (true, ..) => {}
                (_, true, _) => note(Rule::TypeMissing, "keywords for one type, and no `type`"),
                (_, _, false) => note(Rule::AnyValue, "the schema allows any value"),
                _ => {}
            };
        };
        let is_request = job.direction == Direction::Request;
        if types.has(Types::STRING) && is_request && !said.is_string_bounded {
            note(Rule::StringUnbounded, "the length of the string has no bound");
        }
        if types.has(Types::ARRAY) && is_request && !said.is_array_bounded {
            note(Rule::ArrayUnbounded, "the number of elements has no bound");
        }
        if types.has(Types::ARRAY) && !said.has_items {
            note(Rule::AnyValue, "elements may be any value");
        }
        if types.has(Types::OBJECT) && !said.is_closed {
            let others =
                |part: &At<'d>| part.node.get("additionalProperties").or(part.node.get("unevaluatedProperties"));
            let others: Vec<&Node> = parts.iter().filter_map(others).collect();
            match (others.is_empty(), others.iter().any(|other| says_nothing(other))) {
                (true, _) if said.has_members => {}
                (true, _) => note(Rule::ObjectOpen, "an object whose members are not named"),
                (_, true) => note(Rule::ObjectOpen, "members that are not named may be any value"),
                _ if is_request && !said.is_object_bounded => {
                    note(Rule::ObjectUnbounded, "the number of members has no bound");
                }
                _ => {}
            }
        }
    }
}

impl Said {
    /// Takes in what a schema says by itself.
    fn read(&mut self, node: &Node) {
        let has = |keyword: &str| node.get(keyword).is_some();
        let any = |keywords: &[&str]| keywords.iter().any(|keyword| has(keyword));
        if let Some(named) = types_of(node) {
            self.types = Some(self.types.map_or(named, |types| types & named));
        }
        self.is_listed |= any(&["enum", "const"]);
        let format = node.get("format").and_then(Node::as_str);
        self.is_string_bounded |= has("maxLength") || format.is_some_and(|format| BOUNDED_FORMATS.contains(&format));
        self.is_array_bounded |= has("maxItems")
            || node.get("items").or(node.get("unevaluatedItems")).and_then(Node::as_bool) == Some(false);
        self.is_object_bounded |= any(&["maxProperties"]);
        self.has_items |= any(&["items", "prefixItems", "unevaluatedItems"]);
        self.has_members |= any(&["properties", "patternProperties", "discriminator"]);
        let closes = |keyword: &str| node.get(keyword).and_then(Node::as_bool) == Some(false);
        self.is_closed |= closes("additionalProperties") || closes("unevaluatedProperties");
        self.has_branches |= any(&["oneOf", "anyOf", "if", "$dynamicRef"]);
        let of_strings = any(&["minLength", "maxLength", "pattern"]);
        let of_numbers = any(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]);
        let of_arrays = any(&["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"]);
        let of_objects = any(&["properties", "required", "additionalProperties", "minProperties", "maxProperties"]);
        self.is_of_one_type |= of_strings || of_numbers || of_arrays || of_objects;
        self.has_keywords |= self.is_of_one_type || any(&["not", "patternProperties", "propertyNames", "format"]);
    }
}

/// What `type` says, if it is there.
fn types_of(node: &Node) -> Option<u8> {
    let node = node.get("type")?;
    let named = |name: Option<&str>| name.and_then(Types::from_name).unwrap_or(Types::NONE);
    match node.as_str() {
        Some(name) => Some(named(Some(name)).0),
        None => Some(node.elements().iter().fold(0, |all, name| all | named(name.as_str()).0)),
    }
}
