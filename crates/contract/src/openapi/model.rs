//! What a document says, ready to validate with: operations, parameters, bodies, responses. Immutable. Owns no validating and no reading.

use super::read::Class;
use super::security::{Demand, Requirement, SchemeKind, holds};
use super::shape::{ShapeId, matching};
use super::template::PathValues;
use crate::media_type::{ContentType, INEXACT, MediaRange};
use crate::message::Part;
use crate::pattern::Pattern;
use crate::schema::{SchemaId, Types};

/// How a value is written into a path, query, field or cookie (OpenAPI 3.1.1 §4.8.12.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

/// What the text of a parameter is.
#[derive(Clone, Debug)]
pub(crate) enum Coding {
    /// Written in a style.
    Style { style: Style, explode: bool, shape: ShapeId },
    /// JSON text.
    Json,
    /// Plain text, of which becomes what its types allow.
    Text { types: Types },
}

/// A parameter, or a header of a response or part.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// As the document writes it; header fields in lower case.
    pub(crate) name: String,
    pub(crate) part: Part,
    pub(crate) required: bool,
    pub(crate) allow_empty: bool,
    pub(crate) allow_reserved: bool,
    pub(crate) coding: Coding,
    pub(crate) schema: SchemaId,
}

/// One media type or range that a body may have.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    pub(crate) range: MediaRange,
    /// What reads it: one reader for a media type, several for a range, none where nothing does.
    pub(crate) contents: Vec<(Class, Content)>,
    /// What becomes of bodies that nothing reads, where the document says that they are bytes.
    pub(crate) bytes: Option<Content>,
}

/// How the body of a media type is read.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// JSON text.
    Json { schema: SchemaId },
    /// `application/x-www-form-urlencoded`.
    Form { schema: SchemaId, fields: FormFields },
    /// `multipart/form-data`.
    Multipart { schema: SchemaId, fields: FormFields },
    /// UTF-8 text, validated as a string.
    Text { schema: SchemaId },
    /// UTF-8 text that stands for a number, boolean or null, or for a string beside these (OpenAPI 3.1.1, Appendix B).
    Scalar { schema: SchemaId, types: Types },
    /// Texts of JSON in a row, validated as an array: in lines, or behind record separators.
    Sequence { schema: SchemaId, is_records: bool },
    /// XML. `is_text`: the schema allows strings alone, so the string is the text of the body, once it is known to be XML.
    Xml { schema: SchemaId, shape: ShapeId, root: XmlRoot, is_text: bool },
    /// YAML, and the same.
    Yaml { schema: SchemaId, is_text: bool },
    /// Bytes that nobody looks into.
    Opaque { min_bytes: u64, max_bytes: Option<u64> },
}

impl Content {
    /// Whether no bytes at all are a body of it, which its schema then validates: an empty text, file or form (RFC 9110 §8.6).
    pub(crate) fn may_be_empty(&self) -> bool {
        matches!(self, Content::Text { .. } | Content::Scalar { .. } | Content::Form { .. } | Content::Opaque { .. })
    }
}

/// What the root of an XML body is called where no `xml` object says so: after the components that the schema, or its elements, refer to. None: anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct XmlRoot {
    pub(crate) name: Option<Box<str>>,
    pub(crate) element: Option<Box<str>>,
}

/// The fields of a form or multipart body.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormFields {
    pub(crate) fields: Vec<FormField>,
    /// Those of `patternProperties`: their names are those of the message.
    pub(crate) patterns: Vec<(Pattern, FormField)>,
    /// What every other field is, where `additionalProperties` says so.
    pub(crate) other: Option<Box<FormField>>,
    /// Fields that are not listed are expressly allowed.
    pub(crate) is_open: bool,
}

/// One field of a form or multipart body.
#[derive(Clone, Debug)]
pub(crate) struct FormField {
    /// Empty where it is not listed: then it is called what the message calls it.
    pub(crate) name: String,
    pub(crate) is_listed: bool,
    pub(crate) shape: ShapeId,
    pub(crate) style: Style,
    pub(crate) explode: bool,
    pub(crate) allow_reserved: bool,
    /// It is an exploded object: its members are fields of the form. None: it is a field itself.
    pub(crate) spread: Option<Spread>,
    /// Media types that the part may have; empty: by the kind of value.
    pub(crate) content_types: Vec<MediaRange>,
    pub(crate) kind: FieldKind,
    /// Headers of the part.
    pub(crate) headers: Vec<Parameter>,
}

/// The fields that are members of an exploded object.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) members: Vec<String>,
    /// It takes every field that is nobody else's, too.
    pub(crate) is_open: bool,
}

impl FormField {
    /// Whether a field as sent is this one, one of its brackets (`name[a][b]`), or one of its listed members.
    pub(crate) fn takes(&self, sent: &[u8]) -> bool {
        let name = self.name.as_bytes();
        match &self.spread {
            Some(spread) => spread.members.iter().any(|member| member.as_bytes() == sent),
            None => {
                sent == name || (self.style == Style::DeepObject && crate::escape::brackets_of(sent, name).is_some())
            }
        }
    }
}

impl FormFields {
    /// What a field is that is not listed.
    fn unlisted(&self, sent: &[u8]) -> Option<&FormField> {
        let name = std::str::from_utf8(sent).ok()?;
        if self.fields.iter().any(|field| field.name == name) {
            return None;
        }
        let at = matching(self.patterns.iter().map(|(pattern, _)| pattern), name);
        at.and_then(|at| self.patterns.get(at)).map(|(_, field)| field).or(self.other.as_deref())
    }

    /// All that there are.
    pub(crate) fn all(&self) -> impl Iterator<Item = &FormField> {
        self.fields.iter().chain(self.patterns.iter().map(|(_, field)| field)).chain(self.other.as_deref())
    }

    /// The declared field of a name: the one that is called so, then one whose brackets or members are, then one that takes what is left, then one whose pattern
    /// the name matches, then what every other field is. A field that is written as its members is none by its own name.
    pub(crate) fn find(&self, sent: &[u8]) -> Option<&FormField> {
        let is_called = |field: &&FormField| field.spread.is_none() && field.name.as_bytes() == sent;
        let takes_rest = |field: &&FormField| field.spread.as_ref().is_some_and(|spread| spread.is_open);
        let mut fields = self.fields.iter();
        let called = fields.find(is_called).or_else(|| self.fields.iter().find(|field| field.takes(sent)));
        called.or_else(|| self.fields.iter().find(takes_rest)).or_else(|| self.unlisted(sent))
    }
}

/// What the content of a form field is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FieldKind {
    /// A scalar, or an array of scalars in several fields.
    Scalar,
    /// JSON text.
    Json,
    /// Bytes that pass through: a file.
    File { min_bytes: u64, max_bytes: Option<u64> },
}

/// A body that may or must be there.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) required: bool,
    pub(crate) media: Vec<Media>,
}

impl Body {
    /// Whether the document names this very media type, by no range.
    pub(crate) fn declares(&self, sent: &ContentType<'_>) -> bool {
        self.media.iter().any(|media| media.range.fit(sent).is_some_and(|fit| fit >= INEXACT))
    }
}

/// What one status promises.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) headers: Vec<Parameter>,
    /// None: the document declares no content, so there is to be none.
    pub(crate) body: Option<Body>,
}

/// Responses by status; exact ones first, then `2XX`, then `default`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responses {
    pub(crate) exact: Vec<(u16, Response)>,
    /// 1XX to 5XX.
    pub(crate) ranges: [Option<Response>; 5],
    pub(crate) default: Option<Response>,
}

impl Responses {
    /// Whether the document says nothing of responses.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.default.is_none() && self.ranges.iter().all(Option::is_none)
    }

    /// What the document says of a status.
    pub(crate) fn find(&self, status: u16) -> Option<&Response> {
        let exact = self.exact.iter().find(|(have, _)| *have == status).map(|(_, response)| response);
        let range = || self.ranges.get(usize::from(status / 100).checked_sub(1)?)?.as_ref();
        exact.or_else(range).or(self.default.as_ref())
    }
}

/// One method of one path.
#[derive(Clone, Debug)]
pub struct Operation {
    pub(crate) number: usize,
    pub(crate) id: Option<String>,
    pub(crate) method: String,
    pub(crate) template: String,
    /// Path parameters, in the order of the template's expressions.
    pub(crate) path: Vec<Parameter>,
    pub(crate) query: Vec<Parameter>,
    pub(crate) fields: Vec<Parameter>,
    pub(crate) cookies: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    pub(crate) responses: Responses,
    pub(crate) security: Vec<Requirement>,
    /// Why its requests cannot be validated as the document says.
    pub(crate) bad_request: Option<Box<str>>,
    /// Why its responses cannot.
    pub(crate) bad_response: Option<Box<str>>,
}

impl Operation {
    /// One of which only its place is known.
    pub(crate) fn unread(number: usize, method: &str, template: &str) -> Operation {
        Operation {
            number,
            id: None,
            method: method.to_owned(),
            template: template.to_owned(),
            path: Vec::new(),
            query: Vec::new(),
            fields: Vec::new(),
            cookies: Vec::new(),
            body: None,
            responses: Responses::default(),
            security: Vec::new(),
            bad_request: None,
            bad_response: None,
        }
    }

    /// Why its requests cannot be validated as the document says; none if they can.
    pub fn unsupported_request(&self) -> Option<&str> {
        self.bad_request.as_deref()
    }

    /// Why its responses cannot be validated as the document says; none if they can.
    pub fn unsupported_response(&self) -> Option<&str> {
        self.bad_response.as_deref()
    }

    /// Its number: operations of a contract are numbered from 0 without gaps.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its `operationId`.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Its method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path template as the document writes it, without base path.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// The alternatives of its security requirement, of which one must hold; none: it needs no credentials.
    pub fn security(&self) -> &[Requirement] {
        &self.security
    }
}

impl Operation {
    /// The header fields it declares as parameters, in lower case, each with whether it is required.
    pub fn header_parameters(&self) -> impl Iterator<Item = (&str, bool)> {
        self.fields.iter().map(|field| (field.name.as_str(), field.required))
    }

    /// Whether a decision on its requests depends on a field, credentials aside. The name is in lower case.
    pub fn reads_field(&self, name: &str) -> bool {
        let is_of_body = || self.body.is_some() && matches!(name, "content-type" | "content-encoding");
        let is_of_cookies = || name == "cookie" && !self.cookies.is_empty();
        self.fields.iter().any(|field| field.name == name) || is_of_body() || is_of_cookies()
    }

    /// The values of a path's parameters, percent-encoded as in the path, but those in the styles that begin with a `;` or `.` of their own.
    pub fn plain_path_values<'p>(&'p self, values: &'p PathValues, path: &'p [u8]) -> impl Iterator<Item = &'p [u8]> {
        let is_plain = |parameter: &Parameter| {
            !matches!(parameter.coding, Coding::Style { style: Style::Matrix | Style::Label, .. })
        };
        let numbered = self.path.iter().enumerate().filter(move |(_, parameter)| is_plain(parameter));
        numbered.map(move |(number, _)| values.get(number, path))
    }

    /// Whether a query holds a bearer token that the document knows nothing of, neither as a parameter nor as a key (RFC 6750 §2.3).
    pub fn leaves_token_in_query(&self, query: &[u8]) -> bool {
        let name = "access_token";
        let is_key = |demand: &Demand| matches!(&demand.scheme.kind, SchemeKind::KeyInQuery(key) if key == name);
        let mut demands = self.security.iter().flat_map(|requirement| &requirement.demands);
        holds(query, name.as_bytes())
            && !self.query.iter().any(|parameter| parameter.name == name)
            && !demands.any(is_key)
    }

    /// Whether the document says nothing of its responses.
    pub fn leaves_responses_open(&self) -> bool {
        self.responses.is_empty()
    }

    /// Whether some response that may have a body has no `content`, which says nothing of it.
    pub fn leaves_bodies_open(&self) -> bool {
        let Responses { exact, ranges, default } = &self.responses;
        let has_body = |status: u16| !matches!(status, 100..=199 | 204 | 205 | 304);
        let exact = exact.iter().filter(|(status, _)| has_body(*status)).map(|(_, response)| response);
        let mut all = exact.chain(ranges.iter().skip(1).flatten()).chain(default);
        self.method != "HEAD" && all.any(|response| response.body.is_none())
    }

    /// Whether the document declares this very status. What it says of a class, or by `default`, does not speak of it.
    pub fn declares_status(&self, status: u16) -> bool {
        self.responses.exact.iter().any(|(have, _)| *have == status)
    }
}
