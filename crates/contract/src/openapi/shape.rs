//! What kinds of value a schema can hold, as far as text must be turned into values: `12` is a number where one is allowed, else a string.
//!
//! An over-approximation: the schema itself validates afterwards. Follows references and composition, and stops at cycles.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::document::{Kind, Node, References};
use crate::pattern::{Cache, Pattern};
use crate::schema::{Base, Dialect, Types};

/// A shape by its number.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct ShapeId(u32);

impl ShapeId {
    /// A shape that is not there, so it holds anything.
    pub(crate) const ANYTHING: ShapeId = ShapeId(u32::MAX);
}

/// One shape. Parts refer to shapes by number, so that schemas may be recursive.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) types: Types,
    pub(crate) items: Option<ShapeId>,
    pub(crate) properties: Vec<(String, ShapeId)>,
    /// Those of `patternProperties`, in their order.
    pub(crate) patterns: Vec<(Pattern, ShapeId)>,
    /// What `additionalProperties` says, if it allows any.
    pub(crate) other: Option<ShapeId>,
    /// It is said that there may be properties beyond those listed.
    pub(crate) is_open: bool,
    /// How it is written in XML, where something is said of that.
    pub(crate) xml: Option<Box<Xml>>,
}

/// The `xml` object of a schema (OpenAPI 3.1.1 §4.8.26).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Xml {
    pub(crate) name: Option<Box<str>>,
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) prefix: Option<Box<str>>,
    pub(crate) is_attribute: bool,
    pub(crate) is_wrapped: bool,
}

impl Xml {
    fn of(node: &Node) -> Xml {
        let text = |name: &str| node.get(name).and_then(Node::as_str).filter(|text| !text.is_empty()).map(Box::from);
        let is = |name: &str| node.get(name).and_then(Node::as_bool) == Some(true);
        // OpenAPI 3.2 says it in other words.
        let is_attribute = is("attribute") || node.get("nodeType").and_then(Node::as_str) == Some("attribute");
        let is_wrapped = is("wrapped");
        Xml { name: text("name"), namespace: text("namespace"), prefix: text("prefix"), is_attribute, is_wrapped }
    }
}

impl Shape {
    /// That of a schema that says nothing.
    const ANYTHING: Shape = Shape {
        types: Types::ALL,
        items: None,
        properties: Vec::new(),
        patterns: Vec::new(),
        other: None,
        is_open: true,
        xml: None,
    };

    /// The shape of a property: the one that is called so, the first one whose pattern the name matches, or that of all others.
    pub(crate) fn property(&self, name: &str) -> Option<ShapeId> {
        let listed = self.properties.iter().find(|(have, _)| have == name).map(|(_, shape)| *shape);
        let matched = || self.patterns.get(matching(self.patterns.iter().map(|(pattern, _)| pattern), name)?);
        listed.or_else(|| matched().map(|(_, shape)| *shape)).or(self.other)
    }
}

/// The place of the first pattern that a name matches. Longer names than JSON may have are rejected later, and match none.
pub(crate) fn matching<'p>(mut patterns: impl Iterator<Item = &'p Pattern>, name: &str) -> Option<usize> {
    if name.len() > MAX_MATCHED_BYTES {
        return None;
    }
    patterns.position(|pattern| pattern.is_match(name.as_bytes()))
}

/// Longest name that is held to patterns, bytes.
const MAX_MATCHED_BYTES: usize = 1_024;

/// All shapes of a document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes(Vec<Shape>);

impl Shapes {
    /// A shape. One that is not there holds anything.
    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        const ANYTHING: &Shape = &Shape::ANYTHING;
        self.0.get(id.0 as usize).unwrap_or(ANYTHING)
    }
}

/// A schema with the resource it is read in.
type Place<'d> = (&'d Node, Base);

/// Most schemas that one is composed of.
const MAX_PARTS: usize = 1_000;
/// Deepest composition that is followed.
const MAX_LEVELS: usize = 64;
/// Most schemas that are looked at for the types of one: branches of branches would double with each level.
const MAX_LOOKS: usize = 10_000;

/// Schemas that are looked at for all shapes of a document together: each may be composed of all others.
const MAX_ALL_PARTS: usize = 2_000_000;

/// Makes shapes of schemas.
pub(crate) struct ShapeBuilder<'d> {
    references: &'d References<'d>,
    dialect: Dialect,
    nullable_by_intent: bool,
    known: HashMap<Vec<usize>, ShapeId>,
    patterns: Cache,
    shapes: Shapes,
    /// Shapes that have a number and no content yet.
    waiting: Vec<(ShapeId, Vec<Place<'d>>)>,
    /// What references lead to, by the address of the schema that they stand in.
    referred: RefCell<HashMap<usize, Option<Place<'d>>>>,
    parts_left: Cell<usize>,
}

impl<'d> ShapeBuilder<'d> {
    pub(crate) fn new(references: &'d References<'d>, dialect: Dialect, nullable_by_intent: bool) -> ShapeBuilder<'d> {
        let nullable_by_intent = nullable_by_intent && dialect == Dialect::OpenApi30;
        ShapeBuilder {
            references,
            dialect,
            nullable_by_intent,
            known: HashMap::new(),
            patterns: Cache::default(),
            shapes: Shapes::default(),
            waiting: Vec::new(),
            referred: RefCell::default(),
            parts_left: Cell::new(MAX_ALL_PARTS),
        }
    }

    /// Whether there was more to look at than is looked at, so that shapes say less than their schemas.
    pub(crate) fn is_cut(&self) -> bool {
        self.parts_left.get() == 0
    }

    /// The kinds of value that a schema can hold.
    pub(crate) fn types_of(&self, node: &'d Node, base: Base) -> Types {
        self.types(node, base, 0, &mut 0)
    }

    /// The shape of a schema.
    pub(crate) fn add(&mut self, node: &'d Node, base: Base) -> ShapeId {
        let id = self.number(vec![(node, base)]);
        while let Some((id, schemas)) = self.waiting.pop() {
            let shape = self.shape_of(&schemas);
            if let Some(place) = self.shapes.0.get_mut(id.0 as usize) {
                *place = shape;
            }
        }
        id
    }

    /// A shape that is ready.
    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        self.shapes.get(id)
    }

    /// The schemas of a pattern of `patternProperties`, through references and composition.
    pub(crate) fn pattern_schemas(&self, node: &'d Node, base: Base, pattern: &str) -> Vec<Place<'d>> {
        let listed = |(part, base): &Place<'d>| Some((part.get("patternProperties")?.get(pattern)?, *base));
        self.parts(&[(node, base)]).iter().filter_map(listed).collect()
    }

    /// The schemas of properties that nothing lists, through references and composition.
    pub(crate) fn other_schemas(&self, node: &'d Node, base: Base) -> Vec<Place<'d>> {
        let other = |(part, base): &Place<'d>| Some((part.get("additionalProperties")?, *base));
        self.parts(&[(node, base)]).iter().filter_map(other).collect()
    }

    /// The schemas of a property, through references and composition; empty if none lists it.
    pub(crate) fn property_schemas(&self, node: &'d Node, base: Base, name: &str) -> Vec<Place<'d>> {
        let listed = |(part, base): &Place<'d>| Some((part.get("properties")?.get(name)?, *base));
        self.parts(&[(node, base)]).iter().filter_map(listed).collect()
    }

    /// A schema, and everything that its references and composition add to it.
    pub(crate) fn composed(&self, node: &'d Node, base: Base) -> Vec<Place<'d>> {
        self.parts(&[(node, base)])
    }

    /// All shapes.
    pub(crate) fn finish(self) -> Shapes {
        self.shapes
    }

    fn number(&mut self, schemas: Vec<Place<'d>>) -> ShapeId {
        let mut key: Vec<usize> = schemas.iter().map(|(node, _)| std::ptr::from_ref(*node).addr()).collect();
        key.sort_unstable();
        key.dedup();
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let id = ShapeId(self.shapes.0.len() as u32);
        self.known.insert(key, id);
        self.shapes.0.push(Shape::ANYTHING);
        self.waiting.push((id, schemas));
        id
    }

    fn shape_of(&mut self, schemas: &[Place<'d>]) -> Shape {
        let mut looks = 0;
        let types =
            schemas.iter().fold(Types::NONE, |all, (node, base)| all.with(self.types(node, *base, 0, &mut looks)));
        let parts = self.parts(schemas);
        let (named, matched) = (members(&parts, "properties"), members(&parts, "patternProperties"));
        let all = |keyword: &str| -> Vec<Place<'d>> {
            let schemas = parts.iter().filter_map(|(part, base)| Some((part.get(keyword)?, *base)));
            schemas.filter(|(node, _)| node.as_bool() != Some(false)).collect()
        };
        let (items, other) = (all("items"), all("additionalProperties"));
        let is_open = !other.is_empty() || !matched.is_empty();
        // One that cannot be translated is a problem of its schema.
        let matched =
            matched.into_iter().filter_map(|(text, schemas)| Some((self.patterns.compile(text).ok()?, schemas)));
        let matched: Vec<(Pattern, Vec<Place<'d>>)> = matched.collect();
        Shape {
            types,
            items: (!items.is_empty()).then(|| self.number(items)),
            properties: named.into_iter().map(|(name, schemas)| (name.to_owned(), self.number(schemas))).collect(),
            patterns: matched.into_iter().map(|(pattern, schemas)| (pattern, self.number(schemas))).collect(),
            other: (!other.is_empty()).then(|| self.number(other)),
            is_open,
            xml: parts.iter().find_map(|(part, _)| part.get("xml")).map(|node| Box::new(Xml::of(node))),
        }
    }

    /// Schemas and all that they are composed of.
    fn parts(&self, schemas: &[Place<'d>]) -> Vec<Place<'d>> {
        let mut found: Vec<Place<'d>> = Vec::new();
        let mut seen: std::collections::HashSet<usize> = std::collections::HashSet::new();
        let mut open: Vec<Place<'d>> = schemas.iter().rev().copied().collect();
        while let Some((node, base)) = open.pop() {
            if found.len() == MAX_PARTS || self.is_cut() || !seen.insert(std::ptr::from_ref(node).addr()) {
                continue;
            }
            self.parts_left.set(self.parts_left.get() - 1);
            let (target, is_alone) = self.reference(node, base);
            open.extend(target);
            if is_alone {
                continue;
            }
            found.push((node, base));
            for keyword in ["oneOf", "anyOf", "allOf"] {
                let elements = node.get(keyword).map(Node::elements).unwrap_or_default();
                open.extend(elements.iter().rev().map(|element| (element, base)));
            }
            open.extend(["if", "then", "else"].iter().filter_map(|keyword| Some((node.get(keyword)?, base))));
        }
        found
    }

    /// What a schema refers to, and whether nothing else of it counts.
    fn reference(&self, node: &'d Node, base: Base) -> (Option<Place<'d>>, bool) {
        let Some(reference) = node.get("$ref").and_then(Node::as_str) else { return (None, false) };
        let find = || self.references.find(reference, base).ok();
        let target = *self.referred.borrow_mut().entry(std::ptr::from_ref(node).addr()).or_insert_with(find);
        (target, self.dialect == Dialect::OpenApi30)
    }

    fn types(&self, node: &'d Node, base: Base, level: usize, looks: &mut usize) -> Types {
        let types = self.types_but_null(node, base, level, looks);
        if self.nullable_by_intent && is_nullable(node) { types.with(Types::NULL) } else { types }
    }

    fn types_but_null(&self, node: &'d Node, base: Base, level: usize, looks: &mut usize) -> Types {
        *looks += 1;
        if level == MAX_LEVELS || *looks > MAX_LOOKS {
            return Types::ALL;
        }
        let (target, is_alone) = self.reference(node, base);
        let target = target.map_or(Types::ALL, |(node, base)| self.types(node, base, level + 1, looks));
        if is_alone {
            return target;
        }
        let mut types = target.within(own_types(node, self.dialect));
        for element in node.get("allOf").map(Node::elements).unwrap_or_default() {
            types = types.within(self.types(element, base, level + 1, looks));
        }
        for keyword in ["anyOf", "oneOf"] {
            let Some(branches) = node.get(keyword).map(Node::elements).filter(|branches| !branches.is_empty()) else {
                continue;
            };
            let union =
                branches.iter().fold(Types::NONE, |all, branch| all.with(self.types(branch, base, level + 1, looks)));
            types = types.within(union);
        }
        types
    }
}

/// The members that parts of a schema have under a keyword, in their order, each with all of its schemas.
fn members<'d>(parts: &[Place<'d>], keyword: &str) -> Vec<(&'d str, Vec<Place<'d>>)> {
    let mut named: Vec<(&'d str, Vec<Place<'d>>)> = Vec::new();
    let mut index: HashMap<&'d str, usize> = HashMap::new();
    for (part, base) in parts {
        for (key, value) in part.get(keyword).map(Node::members).unwrap_or_default() {
            let at = *index.entry(key.text.as_str()).or_insert(named.len());
            if at == named.len() {
                named.push((&key.text, Vec::new()));
            }
            named.get_mut(at).into_iter().for_each(|(_, schemas)| schemas.push((value, *base)));
        }
    }
    named
}

/// What a schema calls a type.
fn named(name: &str) -> Types {
    Types::from_name(name).unwrap_or(Types::NONE)
}

/// The kind of a value in `enum` or `const`. Where no `type` allows fractions, integers stand for integers.
fn of_value(value: &Node, has_type: bool) -> Types {
    match &value.kind {
        Kind::Number(text) if !has_type && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => {
            Types::INTEGER
        }
        _ => Types::of_node(value),
    }
}

fn is_nullable(node: &Node) -> bool {
    node.get("nullable").and_then(Node::as_bool) == Some(true)
}

/// What `type`, `nullable`, `enum` and `const` of a schema say by themselves.
fn own_types(node: &Node, dialect: Dialect) -> Types {
    let has_type = node.get("type").is_some();
    let mut types = match node.get("type") {
        Some(node) if node.as_str().is_some() => named(node.as_str().unwrap_or_default()),
        Some(node) => {
            let names = node.elements().iter().filter_map(Node::as_str);
            names.fold(Types::NONE, |all, name| all.with(named(name)))
        }
        None => Types::ALL,
    };
    if dialect == Dialect::OpenApi30 && is_nullable(node) {
        types = types.with(Types::NULL);
    }
    if let Some(values) = node.get("enum") {
        types =
            types.within(values.elements().iter().fold(Types::NONE, |all, value| all.with(of_value(value, has_type))));
    }
    if let Some(value) = node.get("const") {
        types = types.within(of_value(value, has_type));
    }
    types
}
