//! Bodies: media types, what reads each of them, and the fields of forms.

use super::{At, Reader};
use crate::document::{Kind, Node};
use crate::media_type::MediaRange;
use crate::openapi::model::{Body, Content, FieldKind, FormField, FormFields, Media, Spread, Style, XmlRoot};
use crate::schema::Types;
use crate::schema::{Base, Dialect, Direction, SchemaId};

/// Longest `minLength` of a file; a text of that length stands for it.
const MAX_FILE_MINIMUM: u64 = 64 * 1024;

/// What one text may stand for.
const SCALARS: Types = Types::STRING.with(Types::NUMBER).with(Types::BOOLEAN).with(Types::NULL);

/// What a plain text stands for: what its schema says, and a string where that says nothing.
pub(super) fn scalars_of(types: Types) -> Types {
    if types == Types::ALL { Types::STRING } else { types.within(SCALARS) }
}

/// Media types that one reader reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Class {
    Json,
    Form,
    Multipart,
    Text,
    Binary,
    /// JSON texts, one in each line.
    Lines,
    /// JSON texts behind record separators (RFC 7464).
    Records,
    Xml,
    Yaml,
}

impl Class {
    /// Every class.
    const ALL: [Class; 9] = [
        Class::Json,
        Class::Form,
        Class::Multipart,
        Class::Text,
        Class::Binary,
        Class::Lines,
        Class::Records,
        Class::Xml,
        Class::Yaml,
    ];

    /// What reads bodies of a media type; none if nothing does. Both in any case.
    pub(crate) fn of_body(kind: &str, subtype: &str) -> Option<Class> {
        match Class::of(kind, subtype) {
            None | Some(Class::Text) => Class::of_whole_body(kind, subtype).or_else(|| Class::of(kind, subtype)),
            known => known,
        }
    }

    /// What reads a media type that only whole bodies have here.
    fn of_whole_body(kind: &str, subtype: &str) -> Option<Class> {
        const LINES: [&str; 7] =
            ["x-ndjson", "ndjson", "jsonl", "x-jsonl", "jsonlines", "x-jsonlines", "x-json-stream"];
        const YAML: [&str; 4] = ["yaml", "x-yaml", "vnd.yaml", "x-yml"];
        let subtype = subtype.to_ascii_lowercase();
        let is_text = kind.eq_ignore_ascii_case("text");
        let is_plain = is_text || kind.eq_ignore_ascii_case("application");
        if (is_plain && LINES.contains(&subtype.as_str())) || subtype.ends_with("+jsonl") {
            Some(Class::Lines)
        } else if (is_plain && subtype == "json-seq") || subtype.ends_with("+json-seq") {
            Some(Class::Records)
        } else if (is_plain && subtype == "xml") || subtype.ends_with("+xml") {
            Some(Class::Xml)
        } else if (is_plain && YAML.contains(&subtype.as_str())) || subtype.ends_with("+yaml") {
            Some(Class::Yaml)
        } else {
            None
        }
    }

    /// Whether a document, or the configuration, may say that nobody reads it.
    pub(crate) fn may_pass_unread(self) -> bool {
        matches!(self, Class::Lines | Class::Records | Class::Xml | Class::Yaml)
    }

    /// What reads a part or a parameter of a media type; none if nothing does. Both in any case.
    pub(crate) fn of(kind: &str, subtype: &str) -> Option<Class> {
        let is = |text: &str, other: &str| text.eq_ignore_ascii_case(other);
        let ends_in = |suffix: &str| {
            subtype.len().checked_sub(suffix.len()).and_then(|at| subtype.get(at..)).is_some_and(|end| is(end, suffix))
        };
        if ends_in("+json") || (is(subtype, "json") && (is(kind, "application") || is(kind, "text"))) {
            Some(Class::Json)
        } else if is(kind, "application") && is(subtype, "x-www-form-urlencoded") {
            Some(Class::Form)
        } else if is(kind, "application") && is(subtype, "octet-stream") {
            Some(Class::Binary)
        } else if is(kind, "multipart") && is(subtype, "form-data") {
            Some(Class::Multipart)
        } else if is(kind, "text") && !ends_in("+xml") && !is(subtype, "xml") {
            Some(Class::Text)
        } else {
            None
        }
    }
}

/// Whether a media type is bytes that no schema describes.
pub(crate) fn is_of_bytes(range: &MediaRange) -> bool {
    const ARCHIVES: [&str; 8] = ["pdf", "zip", "gzip", "x-gzip", "x-tar", "x-7z-compressed", "x-bzip2", "vnd.rar"];
    let is_archive = || range.kind == "application" && ARCHIVES.contains(&range.subtype.as_str());
    // SVG is XML.
    let is_markup = range.subtype.ends_with("+xml");
    (matches!(range.kind.as_str(), "image" | "audio" | "video" | "font") && !is_markup) || is_archive()
}

/// The class of a media type that a document names.
pub(super) fn class_of_name(name: &str) -> Option<Class> {
    let range = MediaRange::parse(name)?;
    Class::of(&range.kind, &range.subtype)
}

impl<'d> Reader<'d> {
    pub(super) fn request_body(&mut self, at: At<'d>) -> Option<Body> {
        let at = self.follow(at)?;
        if !self.known(at, "a request body", &["description", "content", "required"]) {
            return None;
        }
        let required = self.flag(at, "required");
        match at.get("content") {
            Some(content) => Some(Body { required, media: self.media_types(content, Direction::Request) }),
            None => {
                self.fault(at, "a request body needs its `content`");
                None
            }
        }
    }

    pub(super) fn media_types(&mut self, content: At<'d>, direction: Direction) -> Vec<Media> {
        let mut found = Vec::new();
        if !matches!(content.node.kind, Kind::Object(_)) {
            self.fault(content, format!("`content` must be an object, not {}", content.node.kind_name()));
        }
        for (key, node) in content.node.members() {
            let name = crate::message::shown(key.text.as_bytes());
            let Some(range) = MediaRange::parse(&key.text) else {
                if !key.text.starts_with("x-") {
                    self.warn_at(key.place, format!("`{name}` is no media type; it is left out"));
                }
                continue;
            };
            let Some(at) = self.follow(At { node, base: content.base }) else { continue };
            let is_list = matches!(Class::of_body(&range.kind, &range.subtype), Some(Class::Lines | Class::Records));
            let is_stream = range.kind == "text" && range.subtype == "event-stream" && direction == Direction::Response;
            if let Some(element) = at.get("itemSchema").filter(|_| is_stream) {
                self.warn(element, "`itemSchema` of `text/event-stream` is not validated: events pass as they come");
            }
            let is_list = is_list || is_stream;
            let known = ["schema", "example", "examples", "encoding", "itemSchema"];
            let known = known.get(..if is_list { 5 } else { 4 }).unwrap_or_default();
            if self.known_around_schema(at, "a media type", known) {
                found.push(self.media(range, at, direction));
            }
        }
        found
    }

    fn media(&mut self, range: MediaRange, at: At<'d>, direction: Direction) -> Media {
        let mut contents = Vec::new();
        if direction == Direction::Response && range.kind == "text" && range.subtype == "event-stream" {
            // It passes as it comes, and its schema would be one of all events together.
            return Media { range, contents, bytes: None };
        }
        let bytes = self.declared_bytes(&range, at);
        if range.is_range() {
            let is_fit = |class: &&Class| match range.kind.as_str() {
                "*" => true,
                "application" => !matches!(class, Class::Text | Class::Multipart),
                "text" => matches!(class, Class::Text | Class::Lines | Class::Records | Class::Xml | Class::Yaml),
                "multipart" => **class == Class::Multipart,
                _ => **class == Class::Xml,
            };
            let is_read = |class: &&Class| bytes.is_none() || !class.may_pass_unread();
            for class in Class::ALL.iter().filter(is_fit).filter(is_read) {
                contents.extend(self.content(*class, at, direction, false).map(|content| (*class, content)));
            }
        } else if let Some(class) = Class::of_body(&range.kind, &range.subtype)
            && !(class.may_pass_unread() && (bytes.is_some() || self.is_opaque(&range)))
        {
            contents.extend(self.content(class, at, direction, true).map(|content| (class, content)));
        } else if bytes.is_none() && !self.is_opaque(&range) {
            let message = format!(
                "nothing reads `{}/{}`, so bodies of that type are rejected; list it in `opaque_media_types` to let them pass unread",
                range.kind, range.subtype
            );
            self.warn(at, message);
        }
        Media { range, contents, bytes }
    }

    /// What becomes of bodies of a media type that nothing reads and the document declares as bytes: by `format: binary`, or by a type that is nothing else.
    fn declared_bytes(&mut self, range: &MediaRange, at: At<'d>) -> Option<Content> {
        let is_read = !range.is_range() && Class::of(&range.kind, &range.subtype).is_some();
        if is_read || !self.options.pass_declared_binary {
            return None;
        }
        let schema = at.get("schema");
        let parts = schema.map(|schema| self.shapes.composed(schema.node, schema.base)).unwrap_or_default();
        let is_declared = parts.iter().any(|(node, base)| is_binary(At { node, base: *base }, self.dialect));
        let types = |schema: At<'d>| self.shapes.types_of(schema.node, schema.base);
        let may_be_text = schema.is_none_or(|schema| types(schema).has(Types::STRING));
        if !(may_be_text && (is_declared || is_of_bytes(range))) {
            return None;
        }
        // Its keywords are read, so that a schema that is none is a problem here, too.
        self.opaque(schema, !range.is_range())
    }

    fn is_opaque(&self, range: &MediaRange) -> bool {
        self.options.opaque_media_types.iter().filter_map(|name| MediaRange::parse(name)).any(|opaque| {
            opaque.kind == "*" || (opaque.kind == range.kind && (opaque.is_range() || opaque.subtype == range.subtype))
        })
    }

    /// What reads bodies of a class. A schema that no body of the class can satisfy leaves the class without a reader; documents that are made by
    /// programs list forms and text beside JSON with one schema for all.
    fn content(&mut self, class: Class, at: At<'d>, direction: Direction, is_named: bool) -> Option<Content> {
        let schema = at.get("schema");
        let types = schema.map_or(Types::ALL, |schema| self.shapes.types_of(schema.node, schema.base));
        let (needed, what) = match class {
            Class::Json | Class::Lines | Class::Records | Class::Xml | Class::Yaml => (Types::ALL, ""),
            Class::Form | Class::Multipart => (Types::OBJECT, "a form is an object"),
            Class::Text => (SCALARS, "text stands for no array and no object"),
            Class::Binary => (Types::STRING, "bytes are a string"),
        };
        // What nothing satisfies may be a problem, such as a type that does not exist: reading the schema tells.
        if types == Types::NONE {
            let _ = self.schema(schema, at.base, direction);
        }
        if !types.has(needed) && needed != Types::ALL {
            if is_named {
                let message =
                    format!("no body of this media type satisfies the schema ({what}), so such bodies are rejected");
                self.warn(schema.unwrap_or(at), message);
            }
            return None;
        }
        // Null is what an absent value is, where nothing else says so.
        let is_text = schema.is_some() && types.with(Types::NULL) == Types::STRING.with(Types::NULL);
        match class {
            Class::Binary => self.opaque(schema, is_named),
            Class::Lines | Class::Records if is_text && at.get("itemSchema").is_none() => {
                Some(Content::Text { schema: self.schema(schema, at.base, direction) })
            }
            Class::Lines | Class::Records => {
                let is_records = class == Class::Records;
                Some(Content::Sequence { schema: self.sequence(at, types, direction), is_records })
            }
            Class::Xml => {
                let whole = schema.unwrap_or(At { node: &super::ANYTHING, base: at.base });
                let root = XmlRoot {
                    name: component_name(whole),
                    element: self
                        .shapes
                        .composed(whole.node, whole.base)
                        .iter()
                        .find_map(|(node, base)| component_name(At { node: node.get("items")?, base: *base })),
                };
                let shape = self.shapes.add(whole.node, whole.base);
                let is_text = is_text && self.shapes.get(shape).xml.is_none();
                Some(Content::Xml { schema: self.schema(schema, at.base, direction), shape, root, is_text })
            }
            Class::Yaml => Some(Content::Yaml { schema: self.schema(schema, at.base, direction), is_text }),
            Class::Json => Some(Content::Json { schema: self.schema(schema, at.base, direction) }),
            Class::Text => {
                let types = scalars_of(types);
                let schema = self.schema(schema, at.base, direction);
                // Null is what nothing stands for where a string may.
                let is_string = types.with(Types::NULL) == Types::STRING.with(Types::NULL);
                Some(if is_string { Content::Text { schema } } else { Content::Scalar { schema, types } })
            }
            Class::Form | Class::Multipart => {
                let is_multipart = class == Class::Multipart;
                let fields = self.form_fields(schema, at.get("encoding"), is_multipart, direction);
                let schema = self.schema(schema, at.base, direction);
                Some(if is_multipart {
                    Content::Multipart { schema, fields }
                } else {
                    Content::Form { schema, fields }
                })
            }
        }
    }

    /// The schema of texts in a row, taken together as an array (OpenAPI 3.2.0 §4.14.3, "Sequential Media Types"): `itemSchema` is that of each text, and
    /// `schema` that of all of them. Before 3.2 nobody said so, and documents have the schema of each text under `schema`: it is taken for one of
    /// all where it allows only arrays, or says what is in them.
    fn sequence(&mut self, at: At<'d>, types: Types, direction: Direction) -> SchemaId {
        let schema = at.get("schema");
        let has_items = schema.is_some_and(|schema| {
            let parts = self.shapes.composed(schema.node, schema.base);
            parts.iter().any(|(part, _)| part.get("items").is_some() || part.get("prefixItems").is_some())
        });
        let is_whole =
            types.has(Types::ARRAY) && (has_items || types.with(Types::NULL) == Types::ARRAY.with(Types::NULL));
        match (at.get("itemSchema"), schema) {
            (Some(element), whole) => self.list_of(element, whole, direction),
            (None, Some(whole)) if is_whole => self.schema(Some(whole), whole.base, direction),
            (None, schema) => {
                self.list_of(schema.unwrap_or(At { node: &super::ANYTHING, base: at.base }), None, direction)
            }
        }
    }

    /// Bytes as they are: only their number can be validated.
    fn opaque(&mut self, schema: Option<At<'d>>, is_named: bool) -> Option<Content> {
        let parts = schema.map(|schema| self.shapes.composed(schema.node, schema.base)).unwrap_or_default();
        let parts: Vec<At<'d>> = parts.into_iter().map(|(node, base)| At { node, base }).collect();
        let (min_bytes, max_bytes) = self.file_bounds(&parts, is_named)?;
        Some(Content::Opaque { min_bytes, max_bytes })
    }

    /// Bounds on the length of a file. A keyword that would have to look into the bytes is a problem.
    fn file_bounds(&mut self, parts: &[At<'d>], is_named: bool) -> Option<(u64, Option<u64>)> {
        let (mut min, mut max) = (0, None);
        for part in parts {
            let number = |name: &str| match part.node.get(name).map(|node| &node.kind) {
                Some(Kind::Number(text)) => text.parse::<u64>().ok(),
                _ => None,
            };
            min = min.max(number("minLength").unwrap_or(0));
            max = number("maxLength").into_iter().chain(max).min();
            if let Some(unvalidated) = ["pattern", "enum", "const", "not", "if"].iter().find_map(|name| part.get(name))
            {
                if is_named {
                    self.fault(
                        unvalidated,
                        "the bytes of a file are not looked into, so only minLength and maxLength can be validated",
                    );
                }
                return None;
            }
        }
        if min > MAX_FILE_MINIMUM {
            self.faults.extend(parts.first().map(|part| {
                let message = format!("minLength of a file beyond {MAX_FILE_MINIMUM} cannot be validated");
                crate::document::Fault::new(part.node.place, message)
            }));
        }
        Some((min, max))
    }

    fn form_fields(
        &mut self,
        schema: Option<At<'d>>,
        encoding: Option<At<'d>>,
        is_multipart: bool,
        direction: Direction,
    ) -> FormFields {
        let Some(schema) = schema else { return FormFields::default() };
        let id = self.shapes.add(schema.node, schema.base);
        let shape = self.shapes.get(id).clone();
        let mut fields = Vec::new();
        for (name, property) in &shape.properties {
            let encoding = encoding.and_then(|encoding| encoding.get(name));
            let schemas = self.shapes.property_schemas(schema.node, schema.base, name);
            let schemas = self.all_of(schemas);
            let kind_of = FieldSource { schemas: &schemas, shape: *property, is_multipart };
            fields.push(self.form_field(Some(name), &kind_of, encoding, direction));
        }
        self.distinguish(schema, &fields, shape.is_open);
        let mut patterns = Vec::new();
        for (pattern, property) in &shape.patterns {
            let schemas = self.shapes.pattern_schemas(schema.node, schema.base, pattern.text());
            let schemas = self.all_of(schemas);
            let kind_of = FieldSource { schemas: &schemas, shape: *property, is_multipart };
            patterns.push((pattern.clone(), self.form_field(None, &kind_of, None, direction)));
        }
        let other = shape.other.map(|other| {
            let schemas = self.shapes.other_schemas(schema.node, schema.base);
            let schemas = self.all_of(schemas);
            let kind_of = FieldSource { schemas: &schemas, shape: other, is_multipart };
            Box::new(self.form_field(None, &kind_of, None, direction))
        });
        FormFields { fields, patterns, other, is_open: shape.is_open || shape.properties.is_empty() }
    }

    /// Schemas, and everything that their references and composition add to them.
    fn all_of(&self, schemas: Vec<(&'d Node, Base)>) -> Vec<At<'d>> {
        let composed = schemas.into_iter().flat_map(|(node, base)| self.shapes.composed(node, base));
        composed.map(|(node, base)| At { node, base }).collect()
    }

    fn form_field(
        &mut self,
        name: Option<&str>,
        source: &FieldSource<'_, 'd>,
        encoding: Option<At<'d>>,
        direction: Direction,
    ) -> FormField {
        let mut field = FormField {
            name: name.unwrap_or_default().to_owned(),
            is_listed: name.is_some(),
            shape: source.shape,
            style: Style::Form,
            explode: true,
            allow_reserved: false,
            spread: None,
            content_types: Vec::new(),
            kind: FieldKind::Scalar,
            headers: Vec::new(),
        };
        let mut has_style = false;
        if let Some(at) = encoding {
            self.known(at, "an encoding", &["contentType", "headers", "style", "explode", "allowReserved"]);
            has_style = self.encoding(at, &mut field, source.is_multipart, direction);
        }
        field.kind = self.field_kind(source, &field, has_style);
        if let (FieldKind::Json, true, Some(at)) = (field.kind, has_style, encoding) {
            field.kind = FieldKind::Scalar;
            field.spread = self.spread(at, source, field.style);
        }
        field
    }

    /// The members of an object that is written as fields of the form.
    fn spread(&mut self, at: At<'d>, source: &FieldSource<'_, 'd>, style: Style) -> Option<Spread> {
        let shape = self.shapes.get(source.shape).clone();
        let is_object = !shape.types.has(Types::ARRAY);
        let why = match style {
            Style::Form if is_object => None,
            Style::Form => Some(
                "objects in a list have no place beside each other; remove `style` and `explode`: each is JSON then",
            ),
            _ => Some(
                "the specification does not say how objects are exploded in this style; say `explode: false`, or `form` or `deepObject`",
            ),
        };
        if let Some(why) = why {
            self.fault(at, why);
            return None;
        }
        let members: Vec<String> = shape.properties.into_iter().map(|(name, _)| name).collect();
        let is_open = shape.is_open || members.is_empty();
        Some(Spread { members, is_open })
    }

    /// A field of a form must belong to one member of its schema only.
    fn distinguish(&mut self, at: At<'d>, fields: &[FormField], is_open: bool) {
        let spreads = || fields.iter().filter_map(|field| Some((field, field.spread.as_ref()?)));
        let mut takers = spreads().filter(|(_, spread)| spread.is_open).map(|(field, _)| field.name.as_str());
        if let (Some(one), other) = (takers.next(), takers.next())
            && (is_open || other.is_some())
        {
            let other = other.map_or("the form itself".to_owned(), |name| format!("`{name}`"));
            let what =
                format!("`{one}` and {other} both take fields that are not listed, and nothing says which is whose");
            self.fault(at, what);
        }
        let mut wrong = Vec::new();
        for (field, spread) in spreads() {
            for member in &spread.members {
                let is_other = |other: &&FormField| !std::ptr::eq(*other, field) && other.takes(member.as_bytes());
                wrong.extend(fields.iter().find(is_other).map(|other| {
                    format!("`{member}` would belong to the exploded `{}` and to `{}`", field.name, other.name)
                }));
            }
        }
        wrong.into_iter().for_each(|what| self.fault(at, what));
    }

    /// Reads an encoding; says whether it asks for a style, in place of a media type.
    fn encoding(&mut self, at: At<'d>, field: &mut FormField, is_multipart: bool, direction: Direction) -> bool {
        for name in self.text(at, "contentType").unwrap_or_default().split(',').filter(|name| !name.trim().is_empty()) {
            match MediaRange::parse(name) {
                Some(range) => field.content_types.push(range),
                None => self.fault(at, format!("`{name}` is no media type")),
            }
        }
        if is_multipart {
            field.headers = self.headers(at.get("headers"), direction);
        }
        field.style = match self.text(at, "style") {
            None | Some("form") => Style::Form,
            Some("spaceDelimited") => Style::SpaceDelimited,
            Some("pipeDelimited") => Style::PipeDelimited,
            Some("deepObject") => Style::DeepObject,
            Some(other) => {
                self.fault(at, format!("the style `{other}` is not read in forms"));
                Style::Form
            }
        };
        field.explode = self.flag_or(at, "explode", field.style == Style::Form);
        field.allow_reserved = self.flag(at, "allowReserved");
        let has_style = at.get("style").is_some() || at.get("explode").is_some();
        if has_style && is_multipart && self.dialect == Dialect::OpenApi30 {
            // They count for the other kind of form only (OpenAPI 3.0.3 §4.7.15).
            (field.style, field.explode) = (Style::Form, true);
            return false;
        }
        has_style
    }

    /// What a field holds, by its schema and the media types of its encoding (OpenAPI 3.1.1 §4.8.15.1.1).
    fn field_kind(&mut self, source: &FieldSource<'_, 'd>, field: &FormField, has_style: bool) -> FieldKind {
        let shape = self.shapes.get(source.shape).clone();
        let is_array = shape.types.has(Types::ARRAY) && !shape.types.has_scalar();
        let items: Vec<At<'d>> = source.items(self);
        let (schemas, types) = match is_array {
            true => (items.as_slice(), shape.items.map_or(Types::ALL, |items| self.shapes.get(items).types)),
            false => (source.schemas, shape.types),
        };
        let classes: Vec<Option<Class>> =
            field.content_types.iter().map(|range| Class::of(&range.kind, &range.subtype)).collect();
        let says_json = !has_style && !classes.is_empty() && classes.iter().all(|class| *class == Some(Class::Json));
        let says_text = !classes.is_empty() && classes.iter().all(|class| *class == Some(Class::Text));
        let is_object = types.is_object();
        let is_binary = schemas.iter().any(|at| is_binary(*at, self.dialect));
        if has_style && (is_array || is_object) && !is_binary {
            // Elements that are objects have no place between delimiters.
            let is_delimited = !(field.explode || (is_array && is_object));
            let is_written_out = !is_object || is_delimited || field.style == Style::DeepObject;
            return if is_written_out { FieldKind::Scalar } else { FieldKind::Json };
        }
        if says_json || (is_object && classes.is_empty()) || (is_object && !source.is_multipart && !has_style) {
            return FieldKind::Json;
        }
        let is_untyped = types == Types::ALL && self.dialect == Dialect::OpenApi31 && classes.is_empty();
        let is_file = source.is_multipart && !says_text && (is_binary || is_untyped || !classes.is_empty());
        if !is_file {
            return FieldKind::Scalar;
        }
        match self.file_bounds(schemas, true) {
            Some((min_bytes, max_bytes)) => FieldKind::File { min_bytes, max_bytes },
            None => FieldKind::Scalar,
        }
    }
}

/// The name of the component that a schema refers to.
fn component_name(at: At<'_>) -> Option<Box<str>> {
    let (place, name) = at.node.get("$ref")?.as_str()?.rsplit_once('/')?;
    let is_component = place.ends_with("/schemas") || place.ends_with("/definitions");
    is_component.then(|| name.replace("~1", "/").replace("~0", "~").into())
}

/// The schemas of a form field.
struct FieldSource<'s, 'd> {
    schemas: &'s [At<'d>],
    shape: crate::openapi::shape::ShapeId,
    is_multipart: bool,
}

impl<'d> FieldSource<'_, 'd> {
    /// The schemas of its elements.
    fn items(&self, reader: &Reader<'d>) -> Vec<At<'d>> {
        let items = self.schemas.iter().filter_map(|at| at.get("items"));
        let composed = items.flat_map(|at| reader.shapes.composed(at.node, at.base));
        composed.map(|(node, base)| At { node, base }).collect()
    }
}

/// Whether a schema says that its string is bytes (OpenAPI 3.0.4 §4.7.14.3, 3.1.1 §4.8.24.5.2).
fn is_binary(at: At<'_>, dialect: Dialect) -> bool {
    let text = |name: &str| at.node.get(name).and_then(crate::document::Node::as_str);
    if text("format") == Some("binary") {
        return true;
    }
    let is_json_or_text = |name: &str| matches!(class_of_name(name), Some(Class::Json | Class::Text));
    dialect == Dialect::OpenApi31
        && at.node.get("contentEncoding").is_none()
        && text("contentMediaType").is_some_and(|name| !is_json_or_text(name))
}
