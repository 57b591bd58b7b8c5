//! Swagger 2.0 as OpenAPI 3.0: the same places, other members. What 2.0 leaves open and 3.0 does not is assumed, and each assumption is a warning.
//!
//! Converts the first file; schemas in other files are converted too, and what else they hold stays as it is, so that an operation that needs it
//! cannot be validated. Looks at no values and validates nothing.

use super::tree::Fault;
use crate::node::{Key, Kind, Node, Place};

/// Media types of forms.
const URLENCODED: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

/// Members of a path item that are operations.
const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch"];

/// References in a row that are followed to a parameter or a response.
const MAX_HOPS: usize = 32;

/// Members of a parameter or header that are its schema in 3.0.
const SCHEMA: &[&str] = &[
    "type",
    "format",
    "items",
    "default",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "enum",
    "multipleOf",
    "x-nullable",
];

/// Whether a document is of this version.
pub(super) fn is_swagger_2(root: &Node) -> bool {
    match root.get("swagger").map(|version| &version.kind) {
        Some(Kind::String(version) | Kind::Number(version)) => version == "2.0" || version == "2",
        _ => false,
    }
}

/// The document as one of OpenAPI 3.0, with what was assumed. What is shared stands at each place that uses it, so `max_nodes` bounds that.
pub(super) fn convert(root: &Node, max_nodes: usize) -> Result<(Node, Vec<Fault>), Fault> {
    let mut converter = Converter { root, assumed: Vec::new(), left: max_nodes };
    converter.assume(root.place, "Swagger 2.0 is read as OpenAPI 3.0");
    let converted = converter.document();
    converter.finish(converted)
}

/// A file of schemas that a document of Swagger 2.0 refers to, with what was assumed.
pub(super) fn convert_schemas(root: &Node, max_nodes: usize) -> Result<(Node, Vec<Fault>), Fault> {
    let mut converter = Converter { root, assumed: Vec::new(), left: max_nodes };
    // Files are schemas, or maps of schemas without any name around them.
    let is_schema = SCHEMA.iter().chain(&["$ref", "properties", "allOf"]).any(|name| root.get(name).is_some());
    let mut converted = if is_schema { converter.schema(root) } else { converter.each(root, Converter::schema) };
    for name in ["definitions", "schemas"] {
        if let Some(schemas) = root.get(name) {
            let schemas = converter.each_named(schemas, Converter::schema);
            set(&mut converted, name, schemas);
        }
    }
    converter.finish(converted)
}

struct Converter<'n> {
    root: &'n Node,
    assumed: Vec<Fault>,
    /// Values that may still be made.
    left: usize,
}

fn node(kind: Kind, place: Place) -> Node {
    Node { kind, place }
}

fn text(text: &str, place: Place) -> Node {
    node(Kind::String(text.to_owned()), place)
}

fn flag(value: bool, place: Place) -> Node {
    node(Kind::Bool(value), place)
}

fn object(members: Vec<(&str, Node)>, place: Place) -> Node {
    let members = members.into_iter().map(|(name, value)| (Key { text: name.to_owned(), place: value.place }, value));
    node(Kind::Object(members.collect()), place)
}

/// Puts a member in the place of one of this name, or behind the others.
fn set(target: &mut Node, name: &str, value: Node) {
    let Kind::Object(members) = &mut target.kind else { return };
    match members.iter_mut().find(|(key, _)| key.text == name) {
        Some((_, old)) => *old = value,
        None => members.push((Key { text: name.to_owned(), place: value.place }, value)),
    }
}

/// The object with those of its members that `keeps` names.
fn only(source: &Node, keeps: impl Fn(&str) -> bool) -> Node {
    let members = source.members().iter().filter(|(key, _)| keeps(&key.text)).cloned().collect();
    node(Kind::Object(members), source.place)
}

fn is(source: &Node, name: &str, value: &str) -> bool {
    source.get(name).and_then(Node::as_str) == Some(value)
}

impl<'n> Converter<'n> {
    fn assume(&mut self, place: Place, what: impl Into<String>) {
        self.assumed.push(Fault::new(place, what));
    }

    fn finish(self, converted: Node) -> Result<(Node, Vec<Fault>), Fault> {
        match self.left {
            0 => Err(Fault::new(self.root.place, "has too many values once it is read as OpenAPI 3.0")),
            _ => Ok((converted, self.assumed)),
        }
    }

    /// Takes what making these values costs; without anything left, nothing more is made.
    fn spend(&mut self, values: usize) {
        self.left = self.left.saturating_sub(values);
    }

    fn document(&mut self) -> Node {
        const DROPPED: &[&str] = &[
            "swagger",
            "host",
            "basePath",
            "schemes",
            "consumes",
            "produces",
            "parameters",
            "responses",
            "securityDefinitions",
            "paths",
            "definitions",
        ];
        let root = self.root;
        let mut out = only(root, |name| !DROPPED.contains(&name));
        let place = root.get("swagger").map_or(root.place, |version| version.place);
        set(&mut out, "openapi", text("3.0.3", place));
        let base = root.get("basePath");
        let url = text(base.and_then(Node::as_str).unwrap_or("/"), base.map_or(place, |base| base.place));
        let servers = node(Kind::Array(vec![object(vec![("url", url)], place)]), place);
        set(&mut out, "servers", servers);
        if let Some(definitions) = root.get("definitions") {
            // References lead to them where they stand.
            let definitions = self.each_named(definitions, Self::schema);
            set(&mut out, "definitions", definitions);
        }
        if let Some(schemes) = root.get("securityDefinitions") {
            let schemes = self.each_named(schemes, Self::scheme);
            set(&mut out, "components", object(vec![("securitySchemes", schemes)], place));
        }
        if let Some(paths) = root.get("paths") {
            let paths = self.each(paths, Self::path_item);
            set(&mut out, "paths", paths);
        }
        out
    }

    /// Every member of an object, but extensions.
    fn each(&mut self, source: &'n Node, mut convert: impl FnMut(&mut Self, &'n Node) -> Node) -> Node {
        let Kind::Object(members) = &source.kind else { return source.clone() };
        let convert = |(key, value): &'n (Key, Node)| match key.text.starts_with("x-") {
            true => (key.clone(), value.clone()),
            false => (key.clone(), convert(self, value)),
        };
        node(Kind::Object(members.iter().map(convert).collect()), source.place)
    }

    /// As [`Converter::each`], where names are the author's, also those that look like extensions.
    fn each_named(&mut self, source: &'n Node, mut convert: impl FnMut(&mut Self, &'n Node) -> Node) -> Node {
        let Kind::Object(members) = &source.kind else { return source.clone() };
        let members = members.iter().map(|(key, value)| (key.clone(), convert(self, value))).collect();
        node(Kind::Object(members), source.place)
    }

    /// What a reference within the file leads to; itself where it is none or leads elsewhere.
    fn follow(&self, mut at: &'n Node) -> &'n Node {
        for _ in 0..MAX_HOPS {
            let pointer = at.get("$ref").and_then(Node::as_str).and_then(|text| text.strip_prefix('#'));
            match pointer.and_then(|pointer| self.root.pointer(&super::uri::unescape(pointer))) {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }

    fn scheme(&mut self, source: &'n Node) -> Node {
        let place = source.place;
        if is(source, "type", "basic") {
            return object(vec![("type", text("http", place)), ("scheme", text("basic", place))], place);
        }
        only(source, |name| ["type", "name", "in", "description"].contains(&name))
    }

    // --- paths ---

    fn path_item(&mut self, source: &'n Node) -> Node {
        if source.get("$ref").is_some() {
            return source.clone();
        }
        let mut out = only(source, |name| name != "parameters");
        let shared = source.get("parameters").map_or(&[][..], Node::elements);
        for method in METHODS {
            if let Some(operation) = source.get(method) {
                let operation = self.operation(operation, shared);
                set(&mut out, method, operation);
            }
        }
        out
    }

    fn operation(&mut self, source: &'n Node, shared: &'n [Node]) -> Node {
        const DROPPED: &[&str] = &["consumes", "produces", "schemes", "parameters"];
        let mut out = only(source, |name| !DROPPED.contains(&name));
        let own = source.get("parameters").map_or(&[][..], Node::elements);
        let mut parameters: Vec<&'n Node> = shared.iter().map(|one| self.follow(one)).collect();
        for one in own.iter().map(|one| self.follow(one)) {
            let same = |other: &&Node| {
                let have = |name: &str| one.get(name).and_then(Node::as_str) == other.get(name).and_then(Node::as_str);
                have("in") && (have("name") || is(one, "in", "body"))
            };
            // Of two in one list each counts, so that the reader finds them.
            let is_shared = |other: &&Node| !own.iter().any(|own| std::ptr::eq(self.follow(own), *other));
            parameters.retain(|other| !(is_shared(other) && same(other)));
            parameters.push(one);
        }
        let (bodies, others): (Vec<&Node>, Vec<&Node>) =
            parameters.into_iter().partition(|one| is(one, "in", "body") || is(one, "in", "formData"));
        if !others.is_empty() {
            let list = others.iter().map(|one| self.parameter(one)).collect();
            set(&mut out, "parameters", node(Kind::Array(list), source.place));
        }
        if let Some(body) = self.body(source, &bodies) {
            set(&mut out, "requestBody", body);
        }
        if let Some(responses) = source.get("responses") {
            let produces = self.media_types(source, "produces");
            let responses = self.each(responses, |converter, response| converter.response(response, &produces));
            set(&mut out, "responses", responses);
        }
        out
    }

    /// The media types of an operation, or of all of them.
    fn media_types(&self, operation: &'n Node, name: &str) -> Vec<(&'n str, Place)> {
        let list = operation.get(name).or_else(|| self.root.get(name)).map_or(&[][..], Node::elements);
        list.iter().filter_map(|name| Some((name.as_str()?, name.place))).collect()
    }

    fn parameter(&mut self, source: &'n Node) -> Node {
        let mut out = only(source, |name| !SCHEMA.contains(&name) && name != "collectionFormat");
        if source.get("$ref").is_none() {
            let schema = self.inline_schema(source);
            set(&mut out, "schema", schema);
            self.style(source, &mut out, is(source, "in", "query"));
        }
        out
    }

    /// How a list is written. What 3.0 cannot say is a style that does not exist, so that the reader rejects it.
    fn style(&mut self, source: &'n Node, out: &mut Node, is_form: bool) {
        if !is(source, "type", "array") {
            return;
        }
        let format = source.get("collectionFormat").and_then(Node::as_str).unwrap_or("csv");
        let (style, explode) = match (format, is_form) {
            ("csv", true) => ("form", false),
            ("multi", true) => ("form", true),
            ("ssv", true) => ("spaceDelimited", false),
            ("pipes", true) => ("pipeDelimited", false),
            ("csv", false) => ("simple", false),
            (other, _) => (other, false),
        };
        set(out, "style", text(style, source.place));
        set(out, "explode", flag(explode, source.place));
    }

    /// The schema of what has none in 2.0.
    fn inline_schema(&mut self, source: &'n Node) -> Node {
        let mut schema = self.schema(source);
        if let Kind::Object(members) = &mut schema.kind {
            members.retain(|(key, _)| SCHEMA.contains(&key.text.as_str()) || key.text == "nullable");
        }
        schema
    }

    // --- bodies ---

    fn body(&mut self, operation: &'n Node, parameters: &[&'n Node]) -> Option<Node> {
        let first = parameters.first()?;
        let consumes = self.media_types(operation, "consumes");
        if !is(first, "in", "body") {
            return Some(self.form(operation, parameters, &consumes));
        }
        let place = first.place;
        if let Some(second) = parameters.get(1) {
            self.assume(place, "it has two bodies, or a body beside a form, which OpenAPI 3.0 has not");
            // One of the two would not be validated.
            return Some(object(vec![("description", second.get("name").cloned().unwrap_or(text("", place)))], place));
        }
        let schema = first.get("schema").map(|schema| self.schema(schema));
        let types = self.assumed_types(&consumes, "consumes", &["application/json"], operation.place);
        let mut body = object(vec![("content", self.content(&types, schema.as_ref(), place))], place);
        if let Some(required) = first.get("required") {
            set(&mut body, "required", required.clone());
        }
        Some(body)
    }

    fn form(&mut self, operation: &'n Node, parameters: &[&'n Node], consumes: &[(&'n str, Place)]) -> Node {
        let place = operation.place;
        let has_file = parameters.iter().any(|one| is(one, "type", "file"));
        let (mut properties, mut encodings, mut required) = (Vec::new(), Vec::new(), Vec::new());
        for one in parameters {
            let Some(name) = one.get("name").and_then(Node::as_str).filter(|_| is(one, "in", "formData")) else {
                self.assume(
                    place,
                    "it has a body beside a form, or a form field without a name, which OpenAPI 3.0 has not",
                );
                // Without content the reader rejects it.
                return object(Vec::new(), place);
            };
            let mut encoding = object(Vec::new(), one.place);
            self.style(one, &mut encoding, true);
            if !encoding.members().is_empty() {
                encodings.push((name, encoding));
            }
            properties.push((name, self.inline_schema(one)));
            if one.get("required").and_then(Node::as_bool) == Some(true) {
                required.push(text(name, one.place));
            }
        }
        let is_required = !required.is_empty();
        let mut schema =
            object(vec![("type", text("object", place)), ("properties", object(properties, place))], place);
        if is_required {
            set(&mut schema, "required", node(Kind::Array(required), place));
        }
        let is_form = |(name, _): &&(&str, Place)| {
            name.eq_ignore_ascii_case(MULTIPART) || (!has_file && name.eq_ignore_ascii_case(URLENCODED))
        };
        let forms: Vec<(&str, Place)> = consumes.iter().filter(is_form).copied().collect();
        let assumed: &[&str] = if has_file { &[MULTIPART] } else { &[URLENCODED, MULTIPART] };
        let types = self.assumed_types(&forms, "consumes", assumed, place);
        let mut content = self.content(&types, Some(&schema), place);
        if let Kind::Object(media) = &mut content.kind
            && !encodings.is_empty()
        {
            media.iter_mut().for_each(|(_, media)| set(media, "encoding", object(encodings.clone(), place)));
        }
        object(vec![("content", content), ("required", flag(is_required, place))], place)
    }

    /// The media types, or those that are assumed where there are none.
    fn assumed_types<'t>(
        &mut self,
        types: &[(&'t str, Place)],
        name: &str,
        assumed: &[&'t str],
        place: Place,
    ) -> Vec<(&'t str, Place)> {
        if !types.is_empty() {
            return types.to_vec();
        }
        self.assume(place, format!("`{name}` names no media type that fits; {} is assumed", assumed.join(" or ")));
        assumed.iter().map(|name| (*name, place)).collect()
    }

    fn response(&mut self, source: &'n Node, produces: &[(&'n str, Place)]) -> Node {
        let source = self.follow(source);
        let mut out = only(source, |name| !["schema", "headers", "examples"].contains(&name));
        if let Some(schema) = source.get("schema") {
            let is_file = is(self.follow(schema), "type", "file");
            let assumed: &[&str] = if is_file { &["application/octet-stream"] } else { &["application/json"] };
            let types = self.assumed_types(produces, "produces", assumed, source.place);
            let schema = self.schema(schema);
            let content = self.content(&types, Some(&schema), source.place);
            set(&mut out, "content", content);
        }
        if let Some(headers) = source.get("headers") {
            let headers = self.each_named(headers, Self::parameter);
            set(&mut out, "headers", headers);
        }
        out
    }

    // --- schemas ---

    fn schema(&mut self, source: &'n Node) -> Node {
        let Kind::Object(members) = &source.kind else { return source.clone() };
        self.spend(members.len() + 1);
        if self.left == 0 {
            return node(Kind::Null, source.place);
        }
        let mut out = node(Kind::Object(Vec::with_capacity(members.len())), source.place);
        for (key, value) in members {
            let converted = match key.text.as_str() {
                "properties" | "patternProperties" => self.each_named(value, Self::schema),
                "items" | "additionalProperties" | "not" => self.schema(value),
                "allOf" | "anyOf" | "oneOf" => {
                    let parts = value.elements().iter().map(|part| self.schema(part)).collect();
                    node(Kind::Array(parts), value.place)
                }
                "discriminator" if value.as_str().is_some() => {
                    object(vec![("propertyName", value.clone())], value.place)
                }
                "type" if value.as_str() == Some("file") => {
                    set(&mut out, "format", text("binary", value.place));
                    text("string", value.place)
                }
                "x-nullable" if value.as_bool() == Some(true) => {
                    self.assume(key.place, "`x-nullable` is taken for `nullable` of OpenAPI 3.0");
                    set(&mut out, "nullable", value.clone());
                    continue;
                }
                "collectionFormat" => continue,
                _ => {
                    self.spend(count(value));
                    value.clone()
                }
            };
            if let Kind::Object(out) = &mut out.kind {
                out.retain(|(have, _)| have.text != key.text);
                out.push((key.clone(), converted));
            }
        }
        out
    }

    /// One schema for all media types.
    fn content(&mut self, types: &[(&str, Place)], schema: Option<&Node>, place: Place) -> Node {
        self.spend(schema.map_or(1, count).saturating_mul(types.len()));
        let types = if self.left == 0 { &[] } else { types };
        let mut media: Vec<(Key, Node)> = Vec::new();
        for (name, place) in types {
            if !media.iter().any(|(have, _)| have.text == *name) {
                let schema = schema.map(|schema| ("schema", schema.clone()));
                let key = Key { text: (*name).to_owned(), place: *place };
                media.push((key, object(schema.into_iter().collect(), *place)));
            }
        }
        node(Kind::Object(media), place)
    }
}

/// How many values there are in this one, itself included.
fn count(source: &Node) -> usize {
    let (mut count, mut open) = (0, vec![source]);
    while let Some(node) = open.pop() {
        count += 1;
        open.extend(node.elements());
        open.extend(node.members().iter().map(|(_, value)| value));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the schemas, once for each operation that uses a shared response, and so on: what is made is bounded, not only what is read.
    #[test]
    fn what_is_made_is_bounded() {
        let responses: String = (100..400).map(|status| format!("'{status}': {{$ref: '#/responses/R'}}, ")).collect();
        let values = vec!["1"; 1_000].join(", ");
        let text = format!(
            "swagger: '2.0'\nproduces: [a/b, c/d]\nresponses: {{R: {{description: d, schema: {{enum: [{values}]}}}}}}\npaths: {{/a: {{get: {{responses: {{{responses}}}}}}}}}\n"
        );
        let (root, _, _) = super::super::yaml::parse(&text, 0, 10_000).unwrap();
        assert!(convert(&root, 10_000).is_err_and(|fault| fault.message.contains("too many values")));
        assert!(convert(&root, 2_000_000).is_ok());
    }
}
