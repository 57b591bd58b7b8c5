//! From the text of a parameter to JSON text, by style and explode (OpenAPI 3.1.1 §4.8.12.4, RFC 6570).
//!
//! Splits at delimiters as they were sent and resolves escapes afterwards, so that an escaped delimiter is data. What the schema thinks of the
//! value is validated elsewhere.

use super::pairs::Pairs;
use super::text::{Reading, push_scalar};
use crate::escape::unescape;
use crate::json::push_string;
use crate::openapi::{Shape, ShapeId, Shapes, Style};
use crate::schema::Types;

/// Why a value cannot be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rejected {
    /// It is not written as the style says.
    Malformed(&'static str),
    /// It has one value and is there more than once.
    Repeated,
    /// It is empty, which no type of it can be.
    Empty,
    /// A bound is exceeded.
    Limit(&'static str),
}

/// How bytes of a part are escaped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Escapes {
    /// Percent escapes, and `+` for a space.
    Query,
    /// Percent escapes.
    Percent,
    /// None; white space around values does not count, as in lists of header fields.
    Raw,
    /// None.
    Verbatim,
}

/// One way to read ambiguous text. The first that satisfies the schema counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Attempt {
    pub(crate) reading: Reading,
    /// Where a scalar and an array or object are both allowed, take the latter.
    pub(crate) containers: bool,
}

impl Attempt {
    /// In the order in which they are made.
    pub(crate) const ALL: [Attempt; 3] = [
        Attempt { reading: Reading::Typed, containers: false },
        Attempt { reading: Reading::Strings, containers: false },
        Attempt { reading: Reading::Typed, containers: true },
    ];
}

/// Decodes values into JSON text.
pub(crate) struct Decoder<'s> {
    pub(crate) shapes: &'s Shapes,
    pub(crate) escapes: Escapes,
    pub(crate) attempt: Attempt,
    /// Most elements of an array.
    pub(crate) max_elements: usize,
    /// Most bytes of a scalar, before its escapes are resolved.
    pub(crate) max_bytes: usize,
    /// Room for decoded text.
    pub(crate) text: &'s mut Vec<u8>,
    /// Where the JSON text goes.
    pub(crate) json: &'s mut Vec<u8>,
    /// Another attempt would read something else.
    pub(crate) has_choice: bool,
    /// Delimiters separate after escapes are resolved, too.
    pub(crate) splits_escaped: bool,
    /// A value that is split holds an escaped delimiter.
    pub(crate) has_escaped: bool,
    /// How many elements the array had that was written last.
    pub(crate) elements: usize,
}

/// What a value is taken for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Scalar,
    Array,
    Object,
}

impl Decoder<'_> {
    /// Appends the value that stands under `name`. The caller has seen that it is there.
    pub(crate) fn named(
        &mut self,
        pairs: &Pairs,
        name: &[u8],
        shape: ShapeId,
        style: Style,
        explode: bool,
    ) -> Result<(), Rejected> {
        let shapes = self.shapes;
        let shape = shapes.get(shape);
        let count = pairs.count(name);
        let value = pairs.values(name).next().unwrap_or_default();
        let kind = self.pick(shape.types, count, value);
        // A list may be spread over several fields (RFC 9110 §5.3) or, exploded, over several parameters.
        if count > 1 && !(kind == Kind::Array && (explode || style == Style::Simple)) {
            return Err(Rejected::Repeated);
        }
        if kind != Kind::Scalar && pairs.values(name).any(|value| self.has_escaped(value, kind, style, explode)) {
            self.has_escaped = true;
            if self.splits_escaped {
                return self.unescaped(pairs, name, (kind, style, explode), shape);
            }
        }
        self.taken_for((kind, style, explode), pairs, name, value, shape)
    }

    /// Whether what separates the parts of a value is among its escapes.
    fn has_escaped(&self, value: &[u8], kind: Kind, style: Style, explode: bool) -> bool {
        let delimiters: &[u8] = match (style, kind, explode) {
            // Their delimiters separate however they are written.
            (Style::SpaceDelimited | Style::PipeDelimited | Style::DeepObject, ..) | (Style::Form, _, true) => &[],
            (Style::Label, Kind::Array, true) => b".",
            (Style::Label, Kind::Object, true) => b".=",
            (Style::Matrix, _, true) => b";=",
            (Style::Simple, Kind::Object, true) => b",=",
            _ => b",",
        };
        matches!(self.escapes, Escapes::Query | Escapes::Percent)
            && memchr::memchr_iter(b'%', value).any(|at| {
                let mut byte = Vec::with_capacity(1);
                unescape(value.get(at..at + 3).unwrap_or_default(), false, &mut byte);
                byte.first().is_some_and(|byte| delimiters.contains(byte))
            })
    }

    /// Appends a value whose escapes are resolved before it is split.
    fn unescaped(
        &mut self,
        pairs: &Pairs,
        name: &[u8],
        taken_for: (Kind, Style, bool),
        shape: &Shape,
    ) -> Result<(), Rejected> {
        let mut plain = Pairs::default();
        for value in pairs.values(name) {
            self.decode(value)?;
            plain.add(name, self.text);
        }
        let escapes = std::mem::replace(&mut self.escapes, Escapes::Verbatim);
        let value = plain.values(name).next().unwrap_or_default();
        let taken = self.taken_for(taken_for, &plain, name, value, shape);
        self.escapes = escapes;
        taken
    }

    fn taken_for(
        &mut self,
        (kind, style, explode): (Kind, Style, bool),
        pairs: &Pairs,
        name: &[u8],
        value: &[u8],
        shape: &Shape,
    ) -> Result<(), Rejected> {
        match (kind, style) {
            (Kind::Scalar, Style::Label) => self.scalar(value.strip_prefix(b".").ok_or(NO_DOT)?, shape.types),
            (Kind::Scalar, Style::Matrix) => self.scalar(matrix_value(value, name)?, shape.types),
            (Kind::Scalar, _) => self.scalar(value, shape.types),
            (Kind::Array, Style::Label) => {
                let list = value.strip_prefix(b".").ok_or(NO_DOT)?;
                self.array(list.split(move |byte| *byte == if explode { b'.' } else { b',' }), shape)
            }
            (Kind::Array, Style::Matrix) if explode => {
                let parts = || value.strip_prefix(b";").unwrap_or_default().split(|byte| *byte == b';');
                if !value.starts_with(b";") || parts().any(|part| matrix_part(part, name).is_none()) {
                    return Err(NO_MATRIX);
                }
                self.array(parts().filter_map(|part| matrix_part(part, name)), shape)
            }
            (Kind::Array, Style::Matrix) => self.array(matrix_value(value, name)?.split(|byte| *byte == b','), shape),
            (Kind::Array, Style::Simple) => {
                self.array(pairs.values(name).flat_map(|value| value.split(|byte| *byte == b',')), shape)
            }
            (Kind::Array, _) if explode => self.array(pairs.values(name), shape),
            (Kind::Array, style) => self.array(Split::new(value, style, self.escapes), shape),
            (Kind::Object, style) => self.object(value, name, shape, style, explode),
        }
    }

    /// Appends an exploded object whose properties are names of their own, in the order they came.
    pub(crate) fn properties(
        &mut self,
        pairs: &Pairs,
        shape: &Shape,
        belongs: impl Fn(usize) -> bool,
    ) -> Result<(), Rejected> {
        self.json.push(b'{');
        let mut is_first = true;
        let mut mine = Pairs::default();
        let places = pairs.groups(|at| pairs.get(at).0);
        for group in places.chunk_by(|one, next| one.0 == next.0) {
            let Some((_, at)) = group.first().filter(|(_, at)| belongs(*at)) else { continue };
            let (name, _) = pairs.get(*at);
            mine.select(pairs, group);
            self.comma(&mut is_first);
            self.key(name)?;
            match std::str::from_utf8(name).ok().and_then(|name| shape.property(name)) {
                Some(shape) => self.named(&mine, name, shape, Style::Form, true)?,
                None => self.free(&mine, name)?,
            }
        }
        self.json.push(b'}');
        Ok(())
    }

    /// Appends a value nothing is known of.
    pub(crate) fn free(&mut self, pairs: &Pairs, name: &[u8]) -> Result<(), Rejected> {
        match pairs.count(name) {
            1 => self.scalar(pairs.values(name).next().unwrap_or_default(), Types::ALL),
            _ => Err(Rejected::Repeated),
        }
    }

    /// What a value is taken for, by its types, how often it is there, and the first text.
    fn pick(&mut self, types: Types, count: usize, first: &[u8]) -> Kind {
        if types == Types::ALL {
            return Kind::Scalar;
        }
        let container = match (types.has(Types::ARRAY), types.has(Types::OBJECT)) {
            (true, _) => Kind::Array,
            (_, true) => Kind::Object,
            _ => return Kind::Scalar,
        };
        if !types.may_be_scalar(first) || (container == Kind::Array && count > 1) {
            return container;
        }
        self.has_choice = true;
        if self.attempt.containers { container } else { Kind::Scalar }
    }

    /// Appends one scalar. An empty text is a string, so it is nothing where no string is allowed.
    pub(crate) fn scalar(&mut self, raw: &[u8], types: Types) -> Result<(), Rejected> {
        if raw.is_empty() && !types.has(Types::STRING) {
            return Err(Rejected::Empty);
        }
        if raw.len() > self.max_bytes {
            return Err(Rejected::Limit("a value is longer than a string may be"));
        }
        self.decode(raw)?;
        self.has_choice |= push_scalar(self.text, types, self.attempt.reading, self.json);
        Ok(())
    }

    /// Appends JSON text as it is once its escapes are resolved.
    pub(crate) fn verbatim(&mut self, raw: &[u8]) -> Result<(), Rejected> {
        self.decode(raw)?;
        self.json.extend_from_slice(self.text);
        Ok(())
    }

    /// The decoded text, in `self.text`.
    fn decode(&mut self, raw: &[u8]) -> Result<(), Rejected> {
        self.text.clear();
        match self.escapes {
            Escapes::Raw | Escapes::Verbatim => self.text.extend_from_slice(raw),
            escapes => {
                if !unescape(raw, escapes == Escapes::Query, self.text) {
                    return Err(Rejected::Malformed("a percent escape is broken"));
                }
            }
        }
        match std::str::from_utf8(self.text) {
            Ok(_) => Ok(()),
            Err(_) => Err(Rejected::Malformed("it is not UTF-8")),
        }
    }

    fn array<'v>(&mut self, values: impl Iterator<Item = &'v [u8]>, shape: &Shape) -> Result<(), Rejected> {
        let types = shape.items.map_or(Types::ALL, |items| self.shapes.get(items).types);
        self.json.push(b'[');
        let mut is_first = true;
        for (count, value) in values.enumerate() {
            if count == self.max_elements {
                return Err(Rejected::Limit("too many elements"));
            }
            self.comma(&mut is_first);
            let value = if self.escapes == Escapes::Raw { value.trim_ascii() } else { value };
            self.scalar(value, types)?;
            self.elements = count + 1;
        }
        self.json.push(b']');
        Ok(())
    }

    /// Appends an object that stands in one value.
    fn object(
        &mut self,
        value: &[u8],
        name: &[u8],
        shape: &Shape,
        style: Style,
        explode: bool,
    ) -> Result<(), Rejected> {
        match (style, explode) {
            (Style::Label, true) => self.assignments(value.strip_prefix(b".").ok_or(NO_DOT)?, b'.', shape),
            (Style::Matrix, true) => self.assignments(value.strip_prefix(b";").ok_or(NO_MATRIX)?, b';', shape),
            (Style::Simple, true) => self.assignments(value, b',', shape),
            (Style::Label, false) => {
                self.alternating(Split::new(value.strip_prefix(b".").ok_or(NO_DOT)?, style, self.escapes), shape)
            }
            (Style::Matrix, false) => {
                self.alternating(Split::new(matrix_value(value, name)?, style, self.escapes), shape)
            }
            // Its members are names of their own; what stands under its name is no object.
            (Style::Form | Style::SpaceDelimited | Style::PipeDelimited, true) => Err(EXPLODED),
            (style, _) => self.alternating(Split::new(value, style, self.escapes), shape),
        }
    }

    /// `R=100,G=200`
    fn assignments(&mut self, value: &[u8], separator: u8, shape: &Shape) -> Result<(), Rejected> {
        self.json.push(b'{');
        let mut is_first = true;
        for part in value.split(|byte| *byte == separator) {
            let at = part.iter().position(|byte| *byte == b'=').ok_or(Rejected::Malformed("a property has no `=`"))?;
            let (name, value) = part.split_at(at);
            self.member(name, value.get(1..).unwrap_or_default(), shape, &mut is_first)?;
        }
        self.json.push(b'}');
        Ok(())
    }

    /// `R,100,G,200`
    fn alternating<'v>(&mut self, mut parts: impl Iterator<Item = &'v [u8]>, shape: &Shape) -> Result<(), Rejected> {
        self.json.push(b'{');
        let mut is_first = true;
        while let Some(name) = parts.next() {
            let value = parts.next().ok_or(Rejected::Malformed("a property has no value"))?;
            self.member(name, value, shape, &mut is_first)?;
        }
        self.json.push(b'}');
        Ok(())
    }

    fn member(&mut self, name: &[u8], value: &[u8], shape: &Shape, is_first: &mut bool) -> Result<(), Rejected> {
        self.comma(is_first);
        let is_raw = self.escapes == Escapes::Raw;
        let (name, value) = if is_raw { (name.trim_ascii(), value.trim_ascii()) } else { (name, value) };
        self.decode(name)?;
        let property = std::str::from_utf8(self.text).ok().and_then(|name| shape.property(name));
        push_string(self.text, self.json);
        self.json.push(b':');
        self.scalar(value, property.map_or(Types::ALL, |shape| self.shapes.get(shape).types))
    }

    /// Appends a name that is decoded already.
    pub(crate) fn key(&mut self, name: &[u8]) -> Result<(), Rejected> {
        if std::str::from_utf8(name).is_err() {
            return Err(Rejected::Malformed("a name is not UTF-8"));
        }
        push_string(name, self.json);
        self.json.push(b':');
        Ok(())
    }

    pub(crate) fn comma(&mut self, is_first: &mut bool) {
        if !std::mem::replace(is_first, false) {
            self.json.push(b',');
        }
    }
}

const NO_DOT: Rejected = Rejected::Malformed("a label starts with `.`");
const EXPLODED: Rejected = Rejected::Malformed("an exploded object is written as its members");
const NO_MATRIX: Rejected = Rejected::Malformed("a matrix value is written `;name=value`");

/// The value in `;name=value`.
fn matrix_value<'v>(value: &'v [u8], name: &[u8]) -> Result<&'v [u8], Rejected> {
    value.strip_prefix(b";").and_then(|part| matrix_part(part, name)).ok_or(NO_MATRIX)
}

/// The value in `name=value`; `name` alone has an empty one (RFC 6570 §3.2.7).
fn matrix_part<'v>(part: &'v [u8], name: &[u8]) -> Option<&'v [u8]> {
    let rest = part.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"=") }
}

/// The parts of one value between the delimiters of a style. Some delimiters may be escaped, because a query cannot hold them.
struct Split<'v> {
    rest: Option<&'v [u8]>,
    delimiters: &'static [&'static [u8]],
}

impl<'v> Split<'v> {
    fn new(value: &'v [u8], style: Style, escapes: Escapes) -> Split<'v> {
        let delimiters: &[&[u8]] = match (style, escapes) {
            (Style::SpaceDelimited, Escapes::Query) => &[b"%20", b"+", b" "],
            (Style::SpaceDelimited, _) => &[b" "],
            (Style::PipeDelimited, Escapes::Query) => &[b"|", b"%7C", b"%7c"],
            (Style::PipeDelimited, _) => &[b"|"],
            _ => &[b","],
        };
        Split { rest: Some(value), delimiters }
    }
}

impl<'v> Iterator for Split<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let rest = self.rest?;
        for at in 0..rest.len() {
            let here = rest.get(at..).unwrap_or_default();
            if let Some(delimiter) = self.delimiters.iter().find(|delimiter| here.starts_with(delimiter)) {
                self.rest = here.get(delimiter.len()..);
                return rest.get(..at);
            }
        }
        self.rest = None;
        Some(rest)
    }
}
