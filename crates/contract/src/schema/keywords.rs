//! Reads the keywords of one schema object. Every keyword is honoured, known to say nothing about validity, or a problem; none is passed over.
//! Ruled by JSON Schema 2020-12 (core and validation) and the schema objects of OpenAPI 3.0 and 3.1.

use super::compile::Builder;
use super::constant::Constant;
use super::ir::{
    ArrayRules, Bound, Condition, Contains, Dynamic, FALSE, Id, NumberRules, ObjectRules, Schema, StringRules, TRUE,
    UNKNOWN_FIELD, UNKNOWN_ITEM,
};
use super::source::{Dialect, Direction, Target};
use super::tags::Tags;
use super::types::Types;
use super::vocabulary;
use crate::format::Format;
use crate::message::shown;
use crate::node::{Key, Kind, Node};
use crate::number::{Decimal, Divisor};
use crate::pattern::foreign;
use crate::reason::Reason;

/// Says nothing about validity, in either dialect.
const ANNOTATIONS: &[&str] = &[
    "title",
    "description",
    "default",
    "example",
    "deprecated",
    "externalDocs",
    "xml",
    "contentEncoding",
    "contentMediaType",
];

/// Says nothing about validity by itself in 2020-12: names, comments, and places for other schemas.
const NAMES_2020: &[&str] = &[
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$comment",
    "$defs",
    "definitions",
    "$vocabulary",
    "examples",
    "contentSchema",
];

/// One schema object on its way from node to [`Schema`].
struct Reader<'b, 'n> {
    builder: &'b mut Builder<'n>,
    target: Target<'n>,
    direction: Direction,
    out: Schema,
    number: NumberRules,
    string: StringRules,
    array: ArrayRules,
    object: ObjectRules,
}

/// What a schema object says. Problems go to the builder.
pub(super) fn read<'n>(builder: &mut Builder<'n>, target: Target<'n>, direction: Direction) -> Schema {
    let out = Schema { place: target.node.place, resource: (target.base, direction), ..Schema::default() };
    let mut reader = Reader {
        builder,
        target,
        direction,
        out,
        number: NumberRules::default(),
        string: StringRules::default(),
        array: ArrayRules::default(),
        object: ObjectRules::default(),
    };
    reader.schema();
    let is_nullable = reader.is_null_meant();
    let schema = reader.into_schema();
    if is_nullable { builder.or_null(schema) } else { schema }
}

impl<'n> Reader<'_, 'n> {
    fn schema(&mut self) {
        let node = self.target.node;
        let Kind::Object(members) = &node.kind else {
            return self.builder.problem(node.place, format!("a schema is an object, not {}", node.kind_name()));
        };
        if self.is_30()
            && let Some(reference) = node.get("$ref")
        {
            // Siblings are ignored there (OpenAPI 3.0.3, "Reference Object").
            return self.reference(reference);
        }
        if let Some(metaschema) = node.get("$schema").filter(|_| !self.is_30()) {
            self.metaschema(metaschema);
        }
        for (key, value) in members {
            let name = key.text.as_str();
            if self.builder.is_idle(name, self.target.base) {
                continue;
            }
            let is_read = self.any_value(name, value)
                || self.scalar(name, value)
                || self.array(name, value)
                || self.object(name, value)
                || self.composition(name, value)
                || self.names(name, value);
            if !is_read && !name.starts_with("x-") && !self.is_annotation(name) {
                self.unknown(key);
            } else if is_read && self.is_30() && vocabulary::is_beyond_30(name) {
                let what = format!("OpenAPI 3.0 has no {name:?}; it is validated as 3.1 has it");
                self.builder.warn(key.place, what);
            }
        }
        self.relate(node);
    }

    /// A keyword that nobody knows says nothing about validity (OpenAPI 3.1.1 §4.8.24), unless it is one that validates, misspelt.
    fn unknown(&mut self, key: &Key) {
        let name = key.text.as_str();
        if let Some(meant) = vocabulary::meant(name) {
            let what =
                format!("the keyword {name:?} is not known; write {meant:?}, which would otherwise not be validated");
            return self.builder.problem(key.place, what);
        }
        let what = match name {
            "nullable" => {
                "\"nullable\" says nothing in OpenAPI 3.1, so null is rejected; write `type: [..., \"null\"]`"
                    .to_owned()
            }
            _ => format!("the keyword {name:?} is not known and says nothing about validity; name extensions x-…"),
        };
        self.builder.warn(key.place, what);
    }

    /// Whether null is to be allowed beside what everything else says.
    fn is_null_meant(&self) -> bool {
        let node = self.target.node;
        self.is_30()
            && self.builder.options.nullable_by_intent
            && node.get("nullable").and_then(Node::as_bool) == Some(true)
            && (node.get("type").is_none()
                || ["$ref", "enum", "allOf", "anyOf", "oneOf", "not"].iter().any(|name| node.get(name).is_some()))
    }

    /// Keywords that only mean something together.
    fn relate(&mut self, node: &'n Node) {
        if self.is_30() {
            let has_type = node.get("type").is_some();
            if has_type && node.get("nullable").and_then(Node::as_bool) == Some(true) {
                self.out.types = self.out.types.with(Types::NULL);
            }
        }
        for (flag, bounds) in
            [("exclusiveMinimum", &mut self.number.lower), ("exclusiveMaximum", &mut self.number.upper)]
        {
            let is_exclusive = node.get(flag).and_then(Node::as_bool) == Some(true);
            bounds.iter_mut().for_each(|bound| bound.is_exclusive |= is_exclusive);
        }
        if let Some(contains) = node.get("contains") {
            let id = self.child(contains);
            let mut bound = |name| {
                let value = node.get(name).filter(|_| !self.builder.is_idle(name, self.target.base));
                value.map(|value| self.count(name, value))
            };
            let (min, max) = (bound("minContains").unwrap_or(1), bound("maxContains"));
            self.array.contains = Some(Contains { id, min, max });
        }
        if let Some(test) = node.get("if") {
            let mut branch = |name| node.get(name).map_or(TRUE, |node| self.child(node));
            let (then, otherwise) = (branch("then"), branch("else"));
            self.out.condition = Some(Condition { test: self.child(test), then, otherwise });
        }
        if let Some(discriminator) = node.get("discriminator") {
            self.discriminator(node, discriminator);
        }
    }

    fn into_schema(self) -> Schema {
        let Self { mut out, number, string, array, object, .. } = self;
        let NumberRules { lower, upper, multiples, integers_only } = &number;
        let has_number = !(lower.is_empty() && upper.is_empty() && multiples.is_empty()) || *integers_only;
        out.number = has_number.then(|| Box::new(number));
        let has_string = string.min_length > 0
            || string.max_length.is_some()
            || !string.patterns.is_empty()
            || !string.formats.is_empty();
        out.string = has_string.then(|| Box::new(string));
        out.array = Some(Box::new(array));
        out.object = Some(Box::new(object));
        out
    }

    fn is_30(&self) -> bool {
        self.target.dialect == Dialect::OpenApi30
    }

    fn is_annotation(&self, name: &str) -> bool {
        ANNOTATIONS.contains(&name)
            || (!self.is_30() && NAMES_2020.contains(&name))
            || (!self.is_30() && self.builder.options.unknown_keywords_are_annotations)
    }

    // --- any value ---

    fn any_value(&mut self, name: &str, value: &'n Node) -> bool {
        match name {
            "type" => self.out.types = self.types(value),
            "nullable" if self.is_30() => {
                self.flag(name, value);
            }
            "enum" => match &value.kind {
                Kind::Array(values) => {
                    self.out.values.push((values.iter().map(Constant::new).collect(), Reason::Enum));
                }
                _ => self.wrong(name, value, "an array"),
            },
            "const" => self.out.values.push(([Constant::new(value)].into_iter().collect(), Reason::Const)),
            "readOnly" => {
                if self.flag(name, value) && self.direction == Direction::Request && self.travels_one_way() {
                    self.out.forbidden = Some(Reason::ReadOnly);
                }
            }
            "writeOnly" => {
                if self.flag(name, value) && self.direction == Direction::Response && self.travels_one_way() {
                    self.out.forbidden = Some(Reason::WriteOnly);
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether `readOnly` and `writeOnly` are more than annotations: in 3.0 they change what is required, whatever becomes of such members.
    fn travels_one_way(&self) -> bool {
        self.builder.options.reject_read_only.unwrap_or_default() || self.is_30()
    }

    fn types(&mut self, value: &'n Node) -> Types {
        let names: &[Node] = match &value.kind {
            Kind::Array(names) => names,
            _ => std::slice::from_ref(value),
        };
        let is_of_31 = matches!(value.kind, Kind::Array(_)) || value.as_str() == Some("null");
        if self.is_30() && is_of_31 {
            let what = "OpenAPI 3.0 has neither lists of types nor \"null\"; validated as 3.1 has them";
            self.builder.warn(value.place, what);
        }
        names.iter().fold(Types::NONE, |types, name| match name.as_str().and_then(Types::from_name) {
            Some(known) => types.with(known),
            None => {
                self.wrong(
                    "type",
                    name,
                    "one of array, boolean, integer, number, object, string (3.1: null, or a list)",
                );
                types
            }
        })
    }

    // --- numbers and strings ---

    fn scalar(&mut self, name: &str, value: &'n Node) -> bool {
        match name {
            "minimum" => {
                let bound = self.bound(name, value, false);
                self.number.lower.extend(bound);
            }
            "maximum" => {
                let bound = self.bound(name, value, false);
                self.number.upper.extend(bound);
            }
            "exclusiveMinimum" | "exclusiveMaximum" if self.is_flag(name, value) => {}
            "exclusiveMinimum" => {
                let bound = self.bound(name, value, true);
                self.number.lower.extend(bound);
            }
            "exclusiveMaximum" => {
                let bound = self.bound(name, value, true);
                self.number.upper.extend(bound);
            }
            "multipleOf" => match number_text(value).and_then(Divisor::new) {
                Some(divisor) => self.number.multiples.push(divisor),
                None => self.wrong(name, value, "a number above 0 with at most 36 digits"),
            },
            "minLength" => self.string.min_length = self.count(name, value),
            "maxLength" => self.string.max_length = Some(self.count(name, value)),
            "pattern" => {
                let pattern = self.pattern(value);
                self.string.patterns.extend(pattern);
            }
            "format" => self.format(value),
            _ => return false,
        }
        true
    }

    /// Whether an exclusive bound is 3.0's flag beside another one, rather than a bound itself. The other dialect's form is validated, and warned of.
    fn is_flag(&mut self, name: &str, value: &'n Node) -> bool {
        let is_flag = value.as_bool().is_some();
        if is_flag != self.is_30() && (is_flag || number_text(value).is_some()) {
            let own = if self.is_30() { "is true or false, beside minimum or maximum" } else { "is a number" };
            self.builder
                .warn(value.place, format!("{name} {own} in this version of OpenAPI; validated as the other has it"));
        }
        is_flag
    }

    fn bound(&mut self, name: &str, value: &'n Node, is_exclusive: bool) -> Option<Bound> {
        let text = number_text(value);
        if text.is_none() {
            self.wrong(name, value, "a number");
        }
        text.map(|text| Bound { text: text.into(), is_exclusive })
    }

    fn pattern(&mut self, value: &'n Node) -> Option<crate::pattern::Pattern> {
        let Some(text) = value.as_str() else {
            self.wrong("pattern", value, "a string");
            return None;
        };
        match self.builder.patterns.compile(text) {
            Ok(pattern) => {
                if let Some(what) = foreign(text) {
                    self.builder
                        .warn(value.place, format!("`{}` is read as ECMA-262 has it: {what}", shown(text.as_bytes())));
                }
                Some(pattern)
            }
            Err(why) => {
                self.builder.problem(value.place, format!("pattern {text:?}: {why}"));
                None
            }
        }
    }

    /// What a format asserts; formats without a test of their own say nothing.
    fn format(&mut self, value: &'n Node) {
        let Some(name) = value.as_str() else { return self.wrong("format", value, "a string") };
        let options = &self.builder.options;
        let is_asserted = |formats: &Vec<String>| formats.iter().any(|known| known == name);
        if options.formats_are_annotations || !options.formats.as_ref().is_none_or(is_asserted) {
            return;
        }
        let integer_bounds = match name {
            "int32" => Some(("-2147483648", "2147483647")),
            "int64" => Some(("-9223372036854775808", "9223372036854775807")),
            _ => None,
        };
        if let Some((min, max)) = integer_bounds {
            self.number.lower.push(Bound { text: min.into(), is_exclusive: false });
            self.number.upper.push(Bound { text: max.into(), is_exclusive: false });
            self.number.integers_only = true;
        }
        let format = Format::from_name(name);
        let is_lenient = self.builder.options.lenient_times;
        self.string.formats.extend(if is_lenient { format.map(Format::lenient) } else { format });
    }

    // --- arrays and objects ---

    fn array(&mut self, name: &str, value: &'n Node) -> bool {
        match name {
            "items" => self.array.items = Some(unless_false(self.child(value), UNKNOWN_ITEM)),
            "minItems" => self.array.min_items = self.count(name, value),
            "maxItems" => self.array.max_items = Some(self.count(name, value)),
            "uniqueItems" => self.array.is_unique = self.flag(name, value),
            "prefixItems" => self.array.prefix = self.list(name, value),
            "unevaluatedItems" => self.array.unevaluated = Some(unless_false(self.child(value), UNKNOWN_ITEM)),
            "contains" | "minContains" | "maxContains" => {}
            _ => return false,
        }
        true
    }

    fn object(&mut self, name: &str, value: &'n Node) -> bool {
        match name {
            "properties" => {
                let children = self.map(name, value);
                self.object.properties = children.into_iter().map(|(key, id)| (key.into(), id)).collect();
            }
            "additionalProperties" => self.object.additional = Some(unless_false(self.child(value), UNKNOWN_FIELD)),
            "required" => self.object.required = self.strings(name, value),
            "minProperties" => self.object.min_properties = self.count(name, value),
            "maxProperties" => self.object.max_properties = Some(self.count(name, value)),
            "patternProperties" => self.pattern_properties(value),
            "propertyNames" => self.object.names = Some(self.child(value)),
            "unevaluatedProperties" => self.object.unevaluated = Some(unless_false(self.child(value), UNKNOWN_FIELD)),
            "dependentSchemas" => {
                let children = self.map(name, value);
                self.object.dependent_schemas = children.into_iter().map(|(key, id)| (key.into(), id)).collect();
            }
            "dependentRequired" => {
                let names =
                    value.members().iter().map(|(key, list)| (key.text.as_str().into(), self.strings(name, list)));
                self.object.dependent_required = names.collect();
            }
            _ => return false,
        }
        true
    }

    fn pattern_properties(&mut self, value: &'n Node) {
        for (key, id) in self.map("patternProperties", value) {
            match self.builder.patterns.compile(key) {
                Ok(pattern) => self.object.patterns.push((pattern, id)),
                Err(why) => self.builder.problem(value.place, format!("patternProperties {key:?}: {why}")),
            }
        }
    }

    // --- composition and references ---

    fn composition(&mut self, name: &str, value: &'n Node) -> bool {
        match name {
            "allOf" => {
                let parts = self.list(name, value);
                self.out.all_of.extend(parts);
            }
            "anyOf" => self.out.any_of = self.list(name, value),
            "oneOf" => self.out.one_of = self.list(name, value),
            "not" => self.out.not = Some(self.child(value)),
            "if" | "then" | "else" => {}
            "discriminator" => {}
            _ => return false,
        }
        true
    }

    fn names(&mut self, name: &str, value: &'n Node) -> bool {
        match name {
            "$ref" => self.reference(value),
            // Read before all others.
            "$schema" if !self.is_30() => {}
            "$dynamicRef" if !self.is_30() => self.dynamic_reference(value),
            _ => return false,
        }
        true
    }

    fn metaschema(&mut self, value: &'n Node) {
        let Some(uri) = value.as_str() else { return self.wrong("$schema", value, "a string") };
        if let Err(why) = self.builder.metaschema(uri, self.target.base) {
            self.builder.problem(value.place, format!("$schema {uri:?}: {why}"));
        }
    }

    fn reference(&mut self, value: &'n Node) {
        let Some(text) = value.as_str() else { return self.wrong("$ref", value, "a string") };
        if let Some(target) = self.builder.reference(text, self.target, value.place) {
            let id = self.builder.referred(self.target.node, target, self.direction);
            self.out.all_of.push(id);
        }
    }

    fn dynamic_reference(&mut self, value: &'n Node) {
        let Some(text) = value.as_str() else { return self.wrong("$dynamicRef", value, "a string") };
        let Some(target) = self.builder.reference(text, self.target, value.place) else { return };
        let id = self.builder.schema(target, self.direction);
        let name = text.rsplit_once('#').map_or("", |(_, fragment)| fragment);
        if self.builder.is_dynamic_anchor(name, target) {
            self.builder.dynamic_name(name);
            self.out.dynamic = Some(Dynamic { name: name.into(), fallback: id });
        } else {
            self.out.all_of.push(id);
        }
    }

    /// What the document calls the branches of `oneOf` or `anyOf`: the last segment of each `$ref`, and what `mapping` adds.
    fn discriminator(&mut self, node: &'n Node, discriminator: &'n Node) {
        let Some(property) = discriminator.get("propertyName").and_then(Node::as_str) else {
            // It changes no outcome.
            return self
                .builder
                .warn(discriminator.place, "discriminator is no object with propertyName and says nothing");
        };
        let Some((list, is_one_of)) =
            [("oneOf", true), ("anyOf", false)].iter().find_map(|&(name, is)| Some((node.get(name)?, is)))
        else {
            return;
        };
        let mut tags = Tags::new(property, is_one_of);
        let references: Vec<Option<&str>> =
            list.elements().iter().map(|branch| branch.get("$ref").and_then(Node::as_str)).collect();
        let named = references.iter().enumerate().filter_map(|(index, reference)| Some((index, (*reference)?)));
        tags.names.extend(named.map(|(index, reference)| (last_segment(reference).into(), index)));
        for (key, value) in discriminator.get("mapping").map_or(&[][..], Node::members) {
            let text = value.as_str().unwrap_or_default();
            let by_name = tags.names.get(text).copied();
            let index = by_name.or_else(|| {
                let Some(found) = self.builder.find(text, self.target) else {
                    self.builder.warn(value.place, format!("mapping {:?} leads nowhere and says nothing", key.text));
                    return None;
                };
                let node = std::ptr::from_ref(found.node);
                let mut leads_there = |reference: &Option<&str>| {
                    let found = reference.and_then(|reference| self.builder.find(reference, self.target));
                    found.is_some_and(|found| std::ptr::eq(found.node, node))
                };
                references.iter().position(&mut leads_there)
            });
            tags.names.extend(index.map(|index| (key.text.as_str().into(), index)));
        }
        self.out.tags = Some(Box::new(tags));
    }

    // --- parts of keywords ---

    fn child(&mut self, node: &'n Node) -> Id {
        if self.is_30() && matches!(node.kind, Kind::Array(_)) {
            self.wrong("items", node, "one schema");
        }
        self.builder.schema(Target { node, ..self.target }, self.direction)
    }

    fn list(&mut self, name: &str, value: &'n Node) -> Vec<Id> {
        match &value.kind {
            Kind::Array(nodes) if !nodes.is_empty() => nodes.iter().map(|node| self.child(node)).collect(),
            _ => {
                self.wrong(name, value, "a list of schemas that is not empty");
                Vec::new()
            }
        }
    }

    fn map(&mut self, name: &str, value: &'n Node) -> Vec<(&'n str, Id)> {
        match &value.kind {
            Kind::Object(members) => members.iter().map(|(key, node)| (key.text.as_str(), self.child(node))).collect(),
            _ => {
                self.wrong(name, value, "an object of schemas");
                Vec::new()
            }
        }
    }

    fn strings(&mut self, name: &str, value: &'n Node) -> Vec<Box<str>> {
        let texts: Option<Vec<Box<str>>> = match &value.kind {
            Kind::Array(nodes) => nodes.iter().map(|node| node.as_str().map(Into::into)).collect(),
            _ => None,
        };
        texts.unwrap_or_else(|| {
            self.wrong(name, value, "a list of strings");
            Vec::new()
        })
    }

    fn flag(&mut self, name: &str, value: &'n Node) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.wrong(name, value, "true or false");
            false
        })
    }

    /// A count: an integer from 0, also written `2.0`.
    fn count(&mut self, name: &str, value: &'n Node) -> u64 {
        let count = number_text(value).and_then(|text| Decimal::new(text.as_bytes()).to_i128());
        count.and_then(|count| u64::try_from(count).ok()).unwrap_or_else(|| {
            self.wrong(name, value, "an integer from 0");
            0
        })
    }

    fn wrong(&mut self, name: &str, value: &Node, wanted: &str) {
        self.builder.problem(value.place, format!("{name} is {}; it must be {wanted}", value.kind_name()));
    }
}

fn number_text(value: &Node) -> Option<&str> {
    match &value.kind {
        Kind::Number(text) => crate::json::Number::parse(text.as_bytes()).map(|_| text.as_str()),
        _ => None,
    }
}

/// `false` where it means something more definite.
fn unless_false(id: Id, meaning: Id) -> Id {
    if id == FALSE { meaning } else { id }
}

fn last_segment(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}
