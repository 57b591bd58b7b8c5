//! Forms as JSON: `application/x-www-form-urlencoded` text, and the object that the fields of any form make.
//!
//! Each field is decoded by its own schema and encoding; the schema of the body judges the object afterwards.

use crate::contract::Contract;
use crate::openapi::{FieldKind, FormField, FormFields, Shape, ShapeId, Style};
use crate::parameter::{
    Attempt, Decoder, Escapes, Pairs, Refused, brackets_of, decode_deep_object, push_string, unescape,
};
use crate::schema::Run;
use crate::schema::Types;

/// Splits a form body into its fields.
pub(crate) fn split(body: &[u8], max_fields: usize, pairs: &mut Pairs) -> Result<(), Refused> {
    pairs.clear();
    for piece in body.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty()) {
        if pairs.len() == max_fields {
            return Err(Refused::Limit("has too many fields"));
        }
        let at = piece.iter().position(|byte| *byte == b'=').unwrap_or(piece.len());
        let (name, value) = piece.split_at(at);
        if name.contains(&b';') {
            return Err(SEMICOLON);
        }
        if !pairs.add_decoded(value.get(1..).unwrap_or_default(), |out| unescape(name, true, out)) {
            return Err(Refused::Malformed("a percent escape is broken"));
        }
    }
    Ok(())
}

/// Servers disagree about whether it separates fields.
const SEMICOLON: Refused = Refused::Malformed("holds an unescaped `;`, which separates fields for some servers");

/// Its members are fields, and it is none.
const EXPLODED: Refused = Refused::Malformed("is written as its members");

/// The pairs that make one member of the object.
#[derive(Clone, Copy)]
struct Mine<'m> {
    pairs: &'m Pairs,
    /// The member's name.
    name: &'m [u8],
    is_mine: &'m dyn Fn(usize) -> bool,
}

/// The fields of one form on their way to a JSON object.
pub(crate) struct Assembly<'a> {
    pub(crate) contract: &'a Contract,
    pub(crate) fields: &'a FormFields,
    pub(crate) escapes: Escapes,
    pub(crate) attempt: Attempt,
}

/// What keeps the fields of a form from becoming an object: the name of a field, and why it cannot be read.
pub(crate) type Unread = (Vec<u8>, Refused);

impl<'a> Assembly<'a> {
    /// Writes the object into `json`, without the fields that cannot be read: those are added to `unread`. Says whether another attempt would
    /// read something else.
    pub(crate) fn write(
        &self,
        pairs: &Pairs,
        text: &mut Vec<u8>,
        json: &mut Vec<u8>,
        run: &mut Run,
        unread: &mut Vec<Unread>,
    ) -> bool {
        json.clear();
        json.push(b'{');
        let mut decoder = Decoder {
            shapes: &self.contract.shapes,
            escapes: self.escapes,
            attempt: self.attempt,
            max_elements: self.contract.options.limits.array_elements,
            text,
            json,
            has_choice: false,
        };
        let owners: Vec<Option<&FormField>> = pairs.iter().map(|(sent, _)| self.fields.find(sent)).collect();
        let is_same = |one: usize, other: usize| match (owners.get(one), owners.get(other)) {
            (Some(Some(one)), Some(Some(other))) => std::ptr::eq(*one, *other),
            (Some(None), Some(None)) => pairs.get(one).0 == pairs.get(other).0,
            _ => false,
        };
        let mut is_first = true;
        for (at, (sent, _)) in pairs.iter().enumerate() {
            if (0..at).any(|earlier| is_same(earlier, at)) {
                continue;
            }
            let owner = owners.get(at).copied().flatten();
            let name = owner.map_or(sent, |field| field.name.as_bytes());
            let (start, was_first) = (decoder.json.len(), is_first);
            decoder.comma(&mut is_first);
            let mine = Mine { pairs, name, is_mine: &|other| is_same(at, other) };
            let written = decoder.key(name).and_then(|()| self.value(&mut decoder, owner, &mine, run));
            if let Err(why) = written {
                decoder.json.truncate(start);
                is_first = was_first;
                unread.push((name.to_vec(), why));
            }
        }
        decoder.json.push(b'}');
        decoder.has_choice
    }

    fn value(
        &self,
        decoder: &mut Decoder<'_>,
        owner: Option<&FormField>,
        mine: &Mine<'_>,
        run: &mut Run,
    ) -> Result<(), Refused> {
        let Mine { pairs, name, is_mine } = *mine;
        let is_split = |at: usize| is_mine(at) && pairs.get(at).1.contains(&b';');
        if self.escapes == Escapes::Query
            && !owner.is_some_and(|field| field.allow_reserved)
            && (0..pairs.len()).any(is_split)
        {
            return Err(SEMICOLON);
        }
        let Some(field) = owner else {
            let is_exploded = |field: &FormField| field.spread.is_some() && field.name.as_bytes() == name;
            return match self.fields.other {
                _ if self.fields.fields.iter().any(is_exploded) => Err(EXPLODED),
                Some(shape) if is_json(self.contract, shape) => {
                    self.each(decoder, pairs, shape, name, |decoder, value| self.json(decoder, value, run))
                }
                Some(shape) => decoder.named(pairs, name, shape, Style::Form, true),
                None => decoder.free(pairs, name),
            };
        };
        match field.kind {
            FieldKind::Scalar if field.spread.is_some() => {
                let shape = self.contract.shapes.get(field.shape);
                decoder.properties(pairs, shape, is_mine)
            }
            FieldKind::Scalar if field.style == Style::DeepObject => self.deep(decoder, pairs, field),
            FieldKind::Scalar => decoder.named(pairs, name, field.shape, field.style, field.explode),
            FieldKind::Json => {
                self.each(decoder, pairs, field.shape, name, |decoder, value| self.json(decoder, value, run))
            }
            FieldKind::File { min_bytes, .. } => self.each(decoder, pairs, field.shape, name, |decoder, _| {
                // The schema sees a text of the least length; the real one was counted as it passed.
                let stand_in = vec![b'x'; min_bytes as usize];
                push_string(&stand_in, decoder.json);
                Ok(())
            }),
        }
    }

    /// Writes what stands in brackets behind the name. A value without brackets is one that is no object.
    fn deep(&self, decoder: &mut Decoder<'_>, pairs: &Pairs, field: &FormField) -> Result<(), Refused> {
        let name = field.name.as_bytes();
        if pairs.count(name) == 0 {
            let levels = self.contract.options.limits.deep_object_levels;
            return decode_deep_object(decoder, pairs, name, field.shape, levels);
        }
        match pairs.iter().any(|(sent, _)| brackets_of(sent, name).is_some()) {
            true => Err(Refused::Malformed("has a value and brackets")),
            false => decoder.named(pairs, name, field.shape, Style::Form, true),
        }
    }

    /// Whether some field of a form may be JSON.
    pub(crate) fn has_json(contract: &Contract, fields: &FormFields) -> bool {
        fields.fields.iter().any(|field| matches!(field.kind, FieldKind::Json))
            || fields.other.is_some_and(|shape| is_json(contract, shape))
    }

    /// Writes each value of a field: one, or the elements of an array.
    fn each(
        &self,
        decoder: &mut Decoder<'_>,
        pairs: &Pairs,
        shape: ShapeId,
        name: &[u8],
        mut write: impl FnMut(&mut Decoder<'_>, &[u8]) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let types = self.contract.shapes.get(shape).types;
        let is_list = types.has(Types::ARRAY) && !types.has_scalar() && !types.has(Types::OBJECT);
        let mut values = pairs.values(name);
        let only = if pairs.count(name) == 1 { values.next() } else { None };
        match only {
            Some(value) if !is_list || value.trim_ascii_start().starts_with(b"[") => write(decoder, value),
            None if !is_list => Err(Refused::Repeated),
            _ => {
                decoder.json.push(b'[');
                let mut is_first = true;
                for value in only.into_iter().chain(values) {
                    decoder.comma(&mut is_first);
                    write(decoder, value)?;
                }
                decoder.json.push(b']');
                Ok(())
            }
        }
    }

    /// JSON text as it is, after making sure that it is one whole value: it must not add members to the object around it.
    fn json(&self, decoder: &mut Decoder<'_>, value: &[u8], run: &mut Run) -> Result<(), Refused> {
        let start = decoder.json.len();
        decoder.verbatim(value)?;
        let text = decoder.json.get(start..).unwrap_or_default();
        let mut check = self.contract.program.check(self.contract.anything, run);
        check.feed(text).and_then(|()| check.finish()).map_err(|_| Refused::Malformed("is not JSON"))
    }
}

/// Whether values of a field that is not listed are JSON: objects are (OpenAPI 3.1.1 §4.8.15.1.1).
fn is_json(contract: &Contract, shape: ShapeId) -> bool {
    let Shape { types, items, .. } = contract.shapes.get(shape);
    let of_items = |items: &ShapeId| contract.shapes.get(*items).types.is_object();
    types.is_object() || (types.has(Types::ARRAY) && !types.has_scalar() && items.as_ref().is_some_and(of_items))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What our splitting accepts, the WHATWG's parser reads the same.
    #[test]
    fn forms_are_split_as_browsers_do() {
        const PIECES: [&str; 17] =
            ["a", "b", "=", "&", "+", "%20", "%26", "%3D", "%c3%a9", "é", ";", "%00", "%", "%zz", "[]", "%ff", "0"];
        let mut random = fastrand::Rng::with_seed(7);
        let mut accepted = 0;
        for _ in 0..5_000 {
            let body: String = (0..random.usize(0..12)).map(|_| *random.choice(PIECES.iter()).unwrap()).collect();
            let mut pairs = Pairs::default();
            if split(body.as_bytes(), 100, &mut pairs).is_err() {
                continue;
            }
            let decode = |value: &[u8]| {
                let mut out = Vec::new();
                unescape(value, true, &mut out).then_some(out)
            };
            let Some(ours) =
                pairs.iter().map(|(name, value)| Some((name.to_vec(), decode(value)?))).collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            if ours
                .iter()
                .any(|(name, value)| std::str::from_utf8(name).is_err() || std::str::from_utf8(value).is_err())
            {
                continue;
            }
            let theirs: Vec<(Vec<u8>, Vec<u8>)> = form_urlencoded::parse(body.as_bytes())
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect();
            assert_eq!(ours, theirs, "{body}");
            accepted += 1;
        }
        assert!(accepted > 1_000, "only {accepted}");
    }
}
