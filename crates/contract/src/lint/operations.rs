//! What stands around schemas: paths, security, parameters, bodies, responses. Hands the schemas on.

use std::collections::HashMap;

use super::Noted;
use super::rule::Rule;
use super::schemas::{At, Schemas};
use crate::document::{Kind, Node, References};
use crate::media_type::MediaRange;
use crate::openapi::{Class, METHODS, is_of_bytes};
use crate::schema::Direction;

/// Looks at every operation of the document.
pub(super) fn look<'d>(root: &'d Node, references: &'d References<'d>, schemas: &mut Schemas<'d>, noted: &mut Noted) {
    let mut look = Look { references, schemas, noted, operation: String::new() };
    let root = At { node: root, base: references.base_of_file(0) };
    look.schemes(root);
    let mut shapes: HashMap<String, &'d str> = HashMap::new();
    for (path, node) in root.get("paths").map(At::keyed).into_iter().flatten() {
        if path.text.starts_with("x-") {
            continue;
        }
        let first = *shapes.entry(shape(&path.text)).or_insert(&path.text);
        if first != path.text {
            look.noted.add(
                Rule::SameShape,
                path.place,
                format!("`{first}` and `{}` match the same paths", path.text),
                "",
            );
        }
        look.path(root, &path.text, node);
    }
}

/// A template without the names of its expressions.
fn shape(template: &str) -> String {
    let mut out = String::new();
    let mut rest = template.trim_end_matches('/');
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        out.push_str("{}");
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    out + rest
}

struct Look<'d, 'n> {
    references: &'d References<'d>,
    schemas: &'n mut Schemas<'d>,
    noted: &'n mut Noted,
    /// The operation that is looked at.
    operation: String,
}

impl<'d> Look<'d, '_> {
    fn note(&mut self, rule: Rule, at: At<'d>, what: impl Into<String>) {
        self.noted.add(rule, at.node.place, what, &self.operation);
    }

    fn follow(&self, at: At<'d>) -> Option<At<'d>> {
        at.followed(self.references)
    }

    fn schemes(&mut self, root: At<'d>) {
        let schemes = root.get("components").and_then(|components| components.get("securitySchemes"));
        for (key, at) in schemes.map(At::keyed).into_iter().flatten() {
            let Some(at) = self.follow(at) else { continue };
            if at.text("type") == Some("apiKey") && at.text("in") == Some("query") {
                self.note(Rule::KeyInQuery, at, format!("the key of `{}` is in the query", key.text));
            }
        }
    }

    fn path(&mut self, root: At<'d>, path: &str, item: At<'d>) {
        let Some(item) = self.follow(item) else { return };
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            self.operation = format!("{} {path}", method.to_ascii_uppercase());
            self.security(root, operation);
            for list in [item.get("parameters"), operation.get("parameters")].into_iter().flatten() {
                list.elements().for_each(|parameter| self.parameter(parameter));
            }
            if let Some(body) = operation.get("requestBody").and_then(|body| self.follow(body)) {
                self.request_body(body);
            }
            self.responses(method, operation);
        }
        self.operation.clear();
    }

    fn security(&mut self, root: At<'d>, operation: At<'d>) {
        let own = operation.get("security");
        let Some(security) = own.or(root.get("security")) else {
            return self.note(Rule::SecurityUndeclared, operation, "`security` is not declared");
        };
        let alternatives = security.node.elements();
        if let Some(empty) = alternatives.iter().find(|one| one.members().is_empty()).filter(|_| alternatives.len() > 1)
        {
            let at = At { node: empty, base: security.base };
            self.note(Rule::SecurityOptional, at, "one alternative of `security` is empty");
        }
    }

    fn parameter(&mut self, at: At<'d>) {
        let Some(at) = self.follow(at) else { return };
        match (at.get("schema"), at.get("content")) {
            (Some(schema), _) => {
                self.schemas.add(schema, Direction::Request, &self.operation);
                self.schemas.add_examples(at, schema, Direction::Request, &self.operation);
            }
            (None, Some(content)) => {
                for (_, media) in content.keyed() {
                    self.media_schema(media, Direction::Request, true);
                }
            }
            (None, None) => {}
        }
    }

    fn request_body(&mut self, body: At<'d>) {
        if body.get("required").and_then(|flag| flag.node.as_bool()) != Some(true) {
            self.note(Rule::BodyOptional, body, "the body may be missing");
        }
        for (key, media) in body.get("content").map(At::keyed).into_iter().flatten() {
            let Some(range) = MediaRange::parse(&key.text) else { continue };
            if range.is_range() {
                self.note(Rule::MediaRange, media, format!("`{}` is a range of media types", key.text));
            }
            let class = Class::of(&range.kind, &range.subtype);
            let has_schema = self.media_schema(media, Direction::Request, class == Some(Class::Json));
            let schema = media.get("schema").and_then(|schema| self.follow(schema));
            let is_declared = || is_of_bytes(&range) || schema.is_some_and(|at| at.text("format") == Some("binary"));
            // What nothing reads is rejected, and the loader has said so.
            let is_unread = !range.is_range() && (class == Some(Class::Binary) || class.is_none() && is_declared());
            let has_schema = has_schema || class.is_none();
            if is_unread || !has_schema {
                self.note(Rule::BodyUnchecked, media, format!("bodies of `{}` are not looked into", key.text));
            }
        }
    }

    /// Hands on the schema of a media type or of a parameter's content; whether there is one.
    fn media_schema(&mut self, media: At<'d>, direction: Direction, has_examples: bool) -> bool {
        let Some(media) = self.follow(media) else { return false };
        let Some(schema) = media.get("schema") else { return false };
        self.schemas.add(schema, direction, &self.operation);
        if has_examples {
            self.schemas.add_examples(media, schema, direction, &self.operation);
        }
        true
    }

    fn responses(&mut self, method: &str, operation: At<'d>) {
        let (mut is_described, mut has_success) = (false, false);
        for (status, response) in operation.get("responses").map(At::keyed).into_iter().flatten() {
            let Some(response) = self.follow(response) else { continue };
            if status.text == "default" {
                self.note(Rule::AnyStatus, response, "`default` declares every status");
            }
            let is_success = status.text.starts_with('2') || status.text == "default";
            has_success |= is_success;
            is_described |= matches!(status.text.as_str(), "204" | "205") || method == "head";
            for (key, media) in response.get("content").map(At::keyed).into_iter().flatten() {
                is_described |= is_success;
                let is_json =
                    MediaRange::parse(&key.text).and_then(|it| Class::of(&it.kind, &it.subtype)) == Some(Class::Json);
                if !self.media_schema(media, Direction::Response, is_json) {
                    self.note(Rule::ResponseUnchecked, media, format!("bodies of `{}` are not looked into", key.text));
                }
            }
            for (_, header) in response.get("headers").map(At::keyed).into_iter().flatten() {
                let _ = self.media_schema(header, Direction::Response, true);
            }
        }
        if has_success && !is_described {
            self.note(Rule::ResponseUndescribed, operation, "no successful response declares a body");
        }
    }
}

/// An object that says nothing, or `true`.
pub(super) fn says_nothing(node: &Node) -> bool {
    match &node.kind {
        Kind::Bool(value) => *value,
        Kind::Object(members) => members.is_empty(),
        _ => false,
    }
}
