//! Parameters and headers.

use super::{At, Reader};
use crate::message::Part;
use crate::openapi::model::{Coding, Parameter, Style};
use crate::schema::{Direction, SchemaId, Types};

/// Members that say what the value of a parameter or header is.
const VALUE: &[&str] =
    &["description", "required", "deprecated", "style", "explode", "schema", "content", "example", "examples"];

impl<'d> Reader<'d> {
    pub(super) fn parameters(&mut self, list: Option<At<'d>>) -> Vec<Parameter> {
        let mut parameters: Vec<Parameter> = Vec::new();
        if let Some(list) = list.filter(|list| !matches!(list.node.kind, crate::document::Kind::Array(_))) {
            self.fault(list, "`parameters` must be a list");
        }
        for at in list.into_iter().flat_map(At::elements) {
            let Some(parameter) = self.follow(at).and_then(|at| self.parameter(at)) else { continue };
            match parameters.iter().any(|have| (have.part, &have.name) == (parameter.part, &parameter.name)) {
                true => self
                    .fault(at, format!("the {} parameter `{}` is here twice", parameter.part.as_str(), parameter.name)),
                false => parameters.push(parameter),
            }
        }
        parameters
    }

    /// A parameter; none if it is rejected, or is a header that is described elsewhere (OpenAPI 3.1.1 §4.8.12.1).
    fn parameter(&mut self, at: At<'d>) -> Option<Parameter> {
        let known: Vec<&str> =
            ["name", "in", "allowEmptyValue", "allowReserved"].iter().chain(VALUE).copied().collect();
        if !self.known_around_schema(at, "a parameter", &known) {
            return None;
        }
        let (Some(name), Some(place)) = (self.text(at, "name"), self.text(at, "in")) else {
            self.fault(at, "a parameter needs `name` and `in`");
            return None;
        };
        let part = match place {
            "path" => Part::Path,
            "query" => Part::Query,
            "header" => Part::Header,
            "cookie" => Part::Cookie,
            other => {
                self.fault(at, format!("a parameter cannot be in `{other}`; in path, query, header or cookie"));
                return None;
            }
        };
        let name = if part == Part::Header { name.to_ascii_lowercase() } else { name.to_owned() };
        if part == Part::Header && matches!(name.as_str(), "accept" | "content-type" | "authorization") {
            return None;
        }
        let required = self.flag_or(at, "required", part == Part::Path);
        if part == Part::Path && !required {
            self.warn(at, "a path parameter is always required");
        } else if part == Part::Path && at.node.get("required").is_none() {
            self.warn(at, "OpenAPI wants `required: true` at a path parameter; it is required anyway");
        }
        let allow_empty = part == Part::Query && self.flag(at, "allowEmptyValue");
        let allow_reserved = part == Part::Query && self.flag(at, "allowReserved");
        let (coding, schema) = self.value(at, part, Direction::Request)?;
        Some(Parameter { name, part, required, allow_empty, allow_reserved, coding, schema })
    }

    /// Headers of a response or a part; `Content-Type` is described elsewhere.
    pub(super) fn headers(&mut self, headers: Option<At<'d>>, direction: Direction) -> Vec<Parameter> {
        let mut found = Vec::new();
        for (name, at) in headers.into_iter().flat_map(At::members) {
            let name = name.to_ascii_lowercase();
            let Some(at) = self.follow(at).filter(|_| name != "content-type") else { continue };
            // `name` and `in` mean nothing here, and real documents have them.
            let known: Vec<&str> = VALUE.iter().chain(&["allowEmptyValue", "name", "in"]).copied().collect();
            if !self.known_around_schema(at, "a header", &known) {
                continue;
            }
            let required = self.flag(at, "required");
            let Some((coding, schema)) = self.value(at, Part::Header, direction) else { continue };
            found.push(Parameter {
                name,
                part: Part::Header,
                required,
                allow_empty: false,
                allow_reserved: false,
                coding,
                schema,
            });
        }
        found
    }

    /// How the value is written, and the schema that validates it.
    fn value(&mut self, at: At<'d>, part: Part, direction: Direction) -> Option<(Coding, SchemaId)> {
        match (at.get("schema"), at.get("content")) {
            (Some(_), Some(content)) => {
                self.fault(content, "has both `schema` and `content`; keep one");
                None
            }
            (Some(schema), None) => {
                let style = self.style(at, part)?;
                let explode = self.flag_or(at, "explode", style == Style::Form);
                let shape = self.shapes.add(schema.node, schema.base);
                let id = self.schema(Some(schema), schema.base, direction);
                Some((Coding::Style { style, explode, shape }, id))
            }
            (None, Some(content)) => self.content_value(content, direction),
            (None, None) => {
                self.fault(at, "says nothing of its value; add a `schema`");
                None
            }
        }
    }

    fn content_value(&mut self, content: At<'d>, direction: Direction) -> Option<(Coding, SchemaId)> {
        let mut entries = content.members();
        let (Some((name, media)), None) = (entries.next(), entries.next()) else {
            self.fault(content, "`content` of a parameter or header has exactly one media type");
            return None;
        };
        let media = self.follow(media)?;
        let coding = match super::content::class_of_name(name) {
            Some(super::content::Class::Json) => Coding::Json,
            Some(super::content::Class::Text) => {
                let schema = media.get("schema");
                let types = schema.map_or(Types::ALL, |schema| self.shapes.types_of(schema.node, schema.base));
                Coding::Text { types: super::content::scalars_of(types) }
            }
            _ => {
                self.fault(media, format!("there is no reader for `{name}` in a parameter; JSON and text have one"));
                return None;
            }
        };
        self.known_around_schema(media, "a media type", &["schema", "example", "examples", "encoding"]);
        let schema = self.schema(media.get("schema"), media.base, direction);
        Some((coding, schema))
    }

    /// The style, if the part of the message may have it.
    fn style(&mut self, at: At<'d>, part: Part) -> Option<Style> {
        let default = match part {
            Part::Query | Part::Cookie => "form",
            _ => "simple",
        };
        let name = if at.get("style").is_some() { self.text(at, "style")? } else { default };
        let style = match (part, name) {
            (Part::Path | Part::Header, "simple") => Style::Simple,
            (Part::Path, "label") => Style::Label,
            (Part::Path, "matrix") => Style::Matrix,
            (Part::Query | Part::Cookie, "form") => Style::Form,
            (Part::Query, "spaceDelimited") => Style::SpaceDelimited,
            (Part::Query, "pipeDelimited") => Style::PipeDelimited,
            (Part::Query, "deepObject") => Style::DeepObject,
            _ => {
                self.fault(at, format!("the style `{name}` is none for a {} parameter", part.as_str()));
                return None;
            }
        };
        Some(style)
    }
}
