//! What was seen of one operation: parameters of the query, credentials, bodies and statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::paths::Template;
use super::seen::Seen;
use super::{Bodies, Body, Credentials, Exchange, flag, list, number, object, text};
use crate::document;
use crate::escape::unescape;
use crate::media_type::ContentType;
use crate::node::Node;
use crate::openapi::{Class, METHODS};

/// Values of one JSON body.
const MAX_VALUES: usize = 1_000_000;
/// Longest media type, bytes.
const MAX_MEDIA_TYPE_BYTES: usize = 100;
/// Different media types of one body, and different parameters.
const MAX_DIFFERENT: usize = 200;

/// What was seen of one operation.
#[derive(Debug, Default)]
pub(super) struct Operation {
    count: usize,
    query: BTreeMap<String, Parameter>,
    request: Media,
    responses: BTreeMap<u16, Media>,
    credentials: BTreeSet<Option<Credentials>>,
    /// Its method has a body by its meaning.
    may_have_body: bool,
}

#[derive(Debug, Default)]
struct Parameter {
    seen_in: usize,
    is_repeated: bool,
    has_semicolon: bool,
    values: Seen,
}

/// Bodies by media type.
#[derive(Debug, Default)]
struct Media {
    /// Messages without a body.
    without: usize,
    with: usize,
    /// Messages of which nobody knows.
    unknown: usize,
    types: BTreeMap<String, Content>,
}

#[derive(Debug, Default)]
struct Content {
    seen: Seen,
    longest: usize,
    /// Some body was there and is not known.
    is_unknown: bool,
    fields: BTreeMap<String, bool>,
}

/// Whether a path item has a member for a method.
pub(super) fn is_method(method: &str) -> bool {
    METHODS.contains(&method.to_ascii_lowercase().as_str()) && method.bytes().all(|byte| byte.is_ascii_uppercase())
}

impl Operation {
    /// Whether anything is known of it: what could not be read leaves nothing behind.
    pub(super) fn is_known(&self) -> bool {
        self.count > 0
    }

    /// Takes an exchange that went well. Nothing is kept of one that cannot be read.
    pub(super) fn add_good(&mut self, exchange: &Exchange) -> Result<(), &'static str> {
        let pairs = pairs(&exchange.target)?;
        let (request, response) = match &exchange.bodies {
            Bodies::Unknown => (None, None),
            Bodies::Known(request, response) => {
                (Some(read(request.as_ref(), "request")?), Some(read(response.as_ref(), "response")?))
            }
        };
        let is_new = |(name, _): &&(String, Vec<String>)| !self.query.contains_key(name);
        if self.query.len() + pairs.iter().filter(is_new).count() > MAX_DIFFERENT {
            return Err("the query has too many different parameters");
        }
        self.count += 1;
        self.may_have_body = matches!(exchange.method.as_str(), "POST" | "PUT" | "PATCH" | "QUERY");
        self.credentials.insert(exchange.credentials);
        for (name, values) in pairs {
            let parameter = self.query.entry(name).or_default();
            parameter.seen_in += 1;
            parameter.is_repeated |= values.len() > 1;
            parameter.has_semicolon |= values.iter().any(|value| value.contains(';'));
            values.iter().for_each(|value| parameter.values.take_text(value));
        }
        self.request.add(request);
        self.responses.entry(exchange.status).or_default().add(response);
        Ok(())
    }

    /// Takes an exchange that failed: what came back may come back.
    pub(super) fn add_failed(&mut self, exchange: &Exchange) {
        let body = match &exchange.bodies {
            Bodies::Unknown => None,
            Bodies::Known(_, response) => match read(response.as_ref(), "response") {
                Ok(body) => Some(body),
                Err(_) => return,
            },
        };
        self.responses.entry(exchange.status).or_default().add(body);
    }

    pub(super) fn assumptions(&self, notes: &mut BTreeSet<String>) {
        if self.request.unknown > 0 || self.responses.values().any(|media| media.unknown > 0) {
            notes.insert("Bodies were not recorded: any media type that can be read passes, unvalidated".to_owned());
        }
        match self.credentials.iter().flatten().collect::<Vec<_>>().as_slice() {
            [] => notes.insert("Header fields were not recorded: `security` is not declared".to_owned()),
            [Credentials::Nothing] => notes
                .insert("Operations that were called without `Authorization` are public (`security: []`)".to_owned()),
            _ => false,
        };
        let contents = || self.responses.values().chain([&self.request]).flat_map(|media| media.types.values());
        if contents().any(|content| content.is_unknown) {
            notes.insert(
                "Bodies that were not recorded, or are neither JSON nor forms nor text, have no schema".to_owned(),
            );
        }
    }

    /// The operation as a document has it.
    pub(super) fn node(&self, template: &Template, schemes: &mut BTreeSet<&'static str>) -> Node {
        let mut members: Vec<(&str, Node)> = Vec::new();
        let query = self.query.iter().map(|(name, parameter)| parameter.node(name, self.count));
        let parameters: Vec<Node> = template.parameters().chain(query).collect();
        if !parameters.is_empty() {
            members.push(("parameters", list(parameters)));
        }
        if let Some(security) = self.security(schemes) {
            members.push(("security", security));
        }
        if self.request.with > 0 {
            let is_required = self.request.without == 0 && self.request.unknown == 0;
            members
                .push(("requestBody", object([("required", flag(is_required)), ("content", self.request.content())])));
        }
        let response = |(status, media): (&u16, &Media)| {
            let mut members = vec![("description", text("Seen"))];
            if media.with > 0 {
                members.push(("content", media.content()));
            } else if media.unknown > 0 && !matches!(status, 101 | 204 | 205 | 304) {
                members.push(("content", object([("*/*", object::<String>([])), ("image/*", object::<String>([]))])));
            }
            (status.to_string(), object(members))
        };
        members.push(("responses", object(self.responses.iter().map(response).collect::<Vec<_>>())));
        if self.request.unknown > 0 && self.request.with == 0 && self.may_have_body {
            let any = object([("*/*", object::<String>([]))]);
            members.push(("requestBody", object([("required", flag(false)), ("content", any)])));
        }
        object(members)
    }

    fn security(&self, schemes: &mut BTreeSet<&'static str>) -> Option<Node> {
        let mut alternatives = Vec::new();
        for credentials in &self.credentials {
            let name = match (*credentials)? {
                Credentials::Nothing => "",
                Credentials::Basic => "basic",
                Credentials::Bearer => "bearer",
                // Which scheme it is, and what it wants, is not known.
                Credentials::Other => return None,
            };
            schemes.extend(Some(name).filter(|name| !name.is_empty()));
            alternatives.push(name);
        }
        let alternative = |name: &&str| match *name {
            "" => object::<String>([]),
            name => object([(name, list([]))]),
        };
        match alternatives.as_slice() {
            [""] => Some(list([])),
            some => Some(list(some.iter().map(alternative))),
        }
    }
}

impl Parameter {
    fn node(&self, name: &str, count: usize) -> Node {
        let mut values = self.values.schema(true);
        if self.is_repeated {
            values = object([("type", text("array")), ("items", values), ("maxItems", number(256))]);
        }
        let mut members = vec![
            ("name", text(name)),
            ("in", text("query")),
            ("required", flag(self.seen_in == count)),
            ("schema", values),
        ];
        if self.has_semicolon {
            members.push(("allowReserved", flag(true)));
        }
        object(members)
    }
}

/// A body that was read.
struct Read {
    media_type: String,
    what: What,
    len: usize,
}

enum What {
    Json(Node),
    Fields(Vec<(String, Vec<String>)>),
    Parts(Vec<(String, bool)>),
    /// Text, by the number of its characters.
    Text,
    Bytes,
    Unknown,
}

impl Media {
    /// Takes a body; none if nobody knows whether there was one.
    fn add(&mut self, body: Option<Option<Read>>) {
        let Some(body) = body else { return self.unknown += 1 };
        let Some(body) = body else { return self.without += 1 };
        self.with += 1;
        let content = self.types.entry(body.media_type).or_default();
        content.longest = content.longest.max(body.len);
        match body.what {
            What::Json(node) => content.seen.take(&node),
            What::Fields(fields) => content.seen.take_fields(&fields),
            What::Parts(parts) => content.fields.extend(parts),
            What::Text | What::Bytes => {}
            What::Unknown => content.is_unknown = true,
        }
    }

    fn content(&self) -> Node {
        object(self.types.iter().map(|(name, content)| (name.clone(), content.node(name))).collect::<Vec<_>>())
    }
}

impl Content {
    fn node(&self, media_type: &str) -> Node {
        let class = media_type.split_once('/').and_then(|(kind, subtype)| Class::of(kind, subtype));
        let schema = match class {
            Some(Class::Json) if self.is_unknown => None,
            Some(Class::Json) => Some(self.seen.schema(false)),
            Some(Class::Form) if self.is_unknown => None,
            Some(Class::Form) => Some(self.seen.schema(true)),
            Some(Class::Multipart) => Some(self.parts()),
            Some(Class::Xml | Class::Yaml | Class::Lines | Class::Records) => None,
            Some(Class::Text) => {
                Some(object([("type", text("string")), ("maxLength", number(super::bound(self.longest, 65_536)))]))
            }
            _ => Some(object([("type", text("string")), ("format", text("binary"))])),
        };
        object(schema.map(|schema| ("schema", schema)))
    }

    fn parts(&self) -> Node {
        let part = |(name, is_file): (&String, &bool)| {
            let schema = match is_file {
                true => object([("type", text("string")), ("format", text("binary"))]),
                false => object([("type", text("string")), ("maxLength", number(65_536))]),
            };
            (name.clone(), schema)
        };
        let parts = object(self.fields.iter().map(part).collect::<Vec<_>>());
        object([("type", text("object")), ("properties", parts)])
    }
}

/// The pairs of a target's query, by name.
fn pairs(target: &str) -> Result<Vec<(String, Vec<String>)>, &'static str> {
    fields(target.split_once('?').map_or("", |(_, query)| query).as_bytes())
        .ok_or("the query is not written as its escapes want it")
}

/// Names and values of a form, in the order in which the names come first.
fn fields(text: &[u8]) -> Option<Vec<(String, Vec<String>)>> {
    let decoded = |text: &[u8]| {
        let mut out = Vec::new();
        unescape(text, true, &mut out).then_some(())?;
        String::from_utf8(out).ok()
    };
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for pair in text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(at);
        let (name, value) = (decoded(name)?, decoded(value.get(1..).unwrap_or_default())?);
        let number = *numbers.entry(name.clone()).or_insert(found.len());
        if number == found.len() {
            found.push((name, Vec::new()));
        }
        found.get_mut(number)?.1.push(value);
    }
    Some(found)
}

/// Reads a body by its media type; none if there is none.
fn read(body: Option<&Body>, what: &str) -> Result<Option<Read>, &'static str> {
    let Some(body) = body else { return Ok(None) };
    let of = |request: &'static str, response: &'static str| if what == "request" { request } else { response };
    let no_type = of("the request body has no media type", "the response body has no media type");
    let content_type = ContentType::parse(body.content_type.as_bytes()).ok_or(no_type)?;
    let media_type = format!("{}/{}", content_type.kind, content_type.subtype).to_ascii_lowercase();
    if media_type.len() > MAX_MEDIA_TYPE_BYTES {
        return Err(no_type);
    }
    let class = Class::of(content_type.kind, content_type.subtype);
    let len = body.bytes.as_ref().map_or(0, Vec::len);
    let unreadable =
        of("the request body is not what its media type says", "the response body is not what its media type says");
    let what = match (&body.bytes, class) {
        (Some(bytes), Some(Class::Json)) => {
            let text = std::str::from_utf8(bytes).map_err(|_| unreadable)?;
            What::Json(document::parse(Path::new("body.json"), text, MAX_VALUES).map_err(|_| unreadable)?)
        }
        (Some(bytes), Some(Class::Form)) => What::Fields(fields(bytes).ok_or(unreadable)?),
        (Some(_), Some(Class::Text)) => What::Text,
        (_, Some(Class::Multipart)) => What::Parts(body.fields.clone()),
        (_, None | Some(Class::Binary)) => What::Bytes,
        // What other media types hold is not learnt.
        _ => What::Unknown,
    };
    Ok(Some(Read { media_type, what, len }))
}
