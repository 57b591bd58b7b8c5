//! Forms as JSON: `application/x-www-form-urlencoded` text, and the object that the fields of any form make.
//!
//! Each field is decoded by its own schema and encoding; the schema of the body validates the object afterwards.

use std::ops::Range;

use super::scratch::Rooms;
use super::value::in_turns;
use crate::contract::Contract;
use crate::escape::{brackets_of, unescape};
use crate::json::push_string;
use crate::openapi::{FieldKind, FormField, FormFields, ShapeId, Style};
use crate::options::Undeclared;
use crate::parameter::{Attempt, Decoder, Escapes, Pairs, Rejected, decode_deep_object};
use crate::schema::Run;
use crate::schema::Types;
use crate::turn::Turn;

/// Splits a form body into its fields.
pub(crate) async fn split(body: &[u8], max_fields: usize, pairs: &mut Pairs, turn: &Turn) -> Result<(), Rejected> {
    pairs.clear();
    let mut rest = body;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(memchr::memchr(b'&', rest).unwrap_or(rest.len()));
        rest = behind.get(1..).unwrap_or_default();
        if piece.is_empty() {
            continue;
        }
        if pairs.len() == max_fields {
            return Err(Rejected::Limit("has too many fields"));
        }
        let (name, value) = piece.split_at(memchr::memchr(b'=', piece).unwrap_or(piece.len()));
        if name.contains(&b';') {
            return Err(SEMICOLON);
        }
        if !pairs.add_decoded(value.get(1..).unwrap_or_default(), |out| unescape(name, true, out)) {
            return Err(Rejected::Malformed("a percent escape is broken"));
        }
        turn.hold(body.len() + pairs.bytes_held());
        turn.spend_on(piece.len()).await;
    }
    Ok(())
}

/// Servers disagree about whether it separates fields.
const SEMICOLON: Rejected = Rejected::Malformed("holds an unescaped `;`, which separates fields for some servers");

/// Its members are fields, and it is none.
const EXPLODED: Rejected = Rejected::Malformed("is written as its members");

/// The fields of one form on their way to a JSON object.
pub(crate) struct Assembly<'a> {
    pub(crate) contract: &'a Contract,
    pub(crate) fields: &'a FormFields,
    pub(crate) escapes: Escapes,
    pub(crate) attempt: Attempt,
    /// Delimiters separate after escapes are resolved, too.
    pub(crate) splits_escaped: bool,
}

/// What an object that was written leaves open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Another attempt would read something else.
    pub(crate) has_choice: bool,
    /// A value that is split holds an escaped delimiter.
    pub(crate) has_escaped: bool,
}

/// What keeps the fields of a form from becoming an object: the name of a field, and why it cannot be read.
pub(crate) type Unread = (Vec<u8>, Rejected);

impl<'a> Assembly<'a> {
    /// Writes the object into the room for JSON, without the fields that cannot be read: those are added to `unread`.
    pub(crate) async fn write(
        &self,
        pairs: &Pairs,
        rooms: &mut Rooms,
        unread: &mut Vec<Unread>,
        turn: &Turn,
    ) -> Written {
        let Rooms { text, json, run, .. } = rooms;
        json.clear();
        json.push(b'{');
        let (mut is_first, mut has_choice, mut has_escaped) = (true, false, false);
        let (mut mine, mut documents) = (Pairs::default(), Vec::new());
        let owners = self.owners(pairs, turn).await;
        let owner_of = |at: usize| owners.get(at).copied().flatten();
        let places = pairs.groups(|at| match owner_of(at) {
            Some(owner) if owner.is_listed => (std::ptr::from_ref(owner).addr(), &[][..]),
            _ => (0, pairs.get(at).0),
        });
        turn.spend(pairs.len()).await;
        for group in places.chunk_by(|one, next| one.0 == next.0) {
            let Some((_, at)) = group.first() else { continue };
            let owner = owner_of(*at);
            mine.select(pairs, group);
            let listed = owner.filter(|field| field.is_listed);
            let name = listed.map_or(pairs.get(*at).0, |field| field.name.as_bytes());
            let (start, was_first) = (json.len(), is_first);
            let mut decoder = Decoder {
                shapes: &self.contract.shapes,
                escapes: self.escapes,
                attempt: self.attempt,
                max_elements: self.contract.options.limits.array_elements,
                max_bytes: self.contract.program.longest_escaped(),
                text: &mut *text,
                json: &mut *json,
                has_choice,
                splits_escaped: self.splits_escaped,
                has_escaped,
                elements: 0,
            };
            decoder.comma(&mut is_first);
            let value = decoder.key(name).and_then(|()| self.value(&mut decoder, owner, &mine, name, &mut documents));
            (has_choice, has_escaped) = (decoder.has_choice, decoder.has_escaped);
            turn.hold(pairs.bytes_held() + mine.bytes_held() + text.capacity() + json.capacity());
            turn.spend_on(mine.bytes_held()).await;
            let mut written = value;
            for document in documents.drain(..) {
                if written.is_ok() {
                    written = self.is_document(json.get(document).unwrap_or_default(), run, turn).await;
                }
            }
            if let Err(why) = written {
                json.truncate(start);
                is_first = was_first;
                unread.push((name.to_vec(), why));
            }
        }
        json.push(b'}');
        Written { has_choice, has_escaped }
    }

    /// The declared field of each pair.
    async fn owners(&self, pairs: &Pairs, turn: &Turn) -> Vec<Option<&'a FormField>> {
        let mut owners = Vec::with_capacity(pairs.len());
        for (sent, _) in pairs.iter() {
            owners.push(self.fields.find(sent));
            turn.spend(1 + self.fields.fields.len() / 4 + self.fields.patterns.len()).await;
        }
        owners
    }

    /// Writes the value of one member of the object, of which `pairs` are all. What has to be JSON text is added to `documents`.
    fn value(
        &self,
        decoder: &mut Decoder<'_>,
        owner: Option<&FormField>,
        pairs: &Pairs,
        name: &[u8],
        documents: &mut Vec<Range<usize>>,
    ) -> Result<(), Rejected> {
        if self.escapes == Escapes::Query
            && !owner.is_some_and(|field| field.allow_reserved)
            && pairs.iter().any(|(_, value)| value.contains(&b';'))
        {
            return Err(SEMICOLON);
        }
        let mut json = |decoder: &mut Decoder<'_>, value: &[u8]| {
            let start = decoder.json.len();
            decoder.verbatim(value)?;
            documents.push(start..decoder.json.len());
            Ok(())
        };
        let Some(field) = owner else {
            let is_exploded = |field: &FormField| field.spread.is_some() && field.name.as_bytes() == name;
            return match () {
                () if self.fields.fields.iter().any(is_exploded) => Err(EXPLODED),
                () if self.contract.options.undeclared_body_fields != Undeclared::Reject && pairs.len() > 1 => {
                    // Nobody says that it has one value.
                    self.each_free(decoder, pairs, name)
                }
                () => decoder.free(pairs, name),
            };
        };
        match field.kind {
            FieldKind::Scalar if field.spread.is_some() => {
                let shape = self.contract.shapes.get(field.shape);
                decoder.properties(pairs, shape, |_| true)
            }
            FieldKind::Scalar if field.style == Style::DeepObject => self.deep(decoder, pairs, field),
            FieldKind::Scalar => decoder.named(pairs, name, field.shape, field.style, field.explode),
            FieldKind::Json => self.each(decoder, pairs, field.shape, name, &mut json),
            FieldKind::File { min_bytes, .. } => self.each(decoder, pairs, field.shape, name, |decoder, _| {
                // The schema sees a text of the least length; the real one was counted as it passed.
                let stand_in = vec![b'x'; min_bytes as usize];
                push_string(&stand_in, decoder.json);
                Ok(())
            }),
        }
    }

    /// Writes what stands in brackets behind the name. A value without brackets is one that is no object.
    fn deep(&self, decoder: &mut Decoder<'_>, pairs: &Pairs, field: &FormField) -> Result<(), Rejected> {
        let name = field.name.as_bytes();
        if pairs.count(name) == 0 {
            let levels = self.contract.options.limits.deep_object_levels;
            return decode_deep_object(decoder, pairs, name, field.shape, levels);
        }
        match pairs.iter().any(|(sent, _)| brackets_of(sent, name).is_some()) {
            true => Err(Rejected::Malformed("has a value and brackets")),
            false => decoder.named(pairs, name, field.shape, Style::Form, true),
        }
    }

    /// Writes a list of values that nothing is known of.
    fn each_free(&self, decoder: &mut Decoder<'_>, pairs: &Pairs, name: &[u8]) -> Result<(), Rejected> {
        decoder.json.push(b'[');
        let mut is_first = true;
        for value in pairs.values(name) {
            decoder.comma(&mut is_first);
            decoder.scalar(value, Types::ALL)?;
        }
        decoder.json.push(b']');
        Ok(())
    }

    /// Whether some field of a form may be JSON.
    pub(crate) fn has_json(fields: &FormFields) -> bool {
        fields.all().any(|field| matches!(field.kind, FieldKind::Json))
    }

    /// Writes each value of a field: one, or the elements of an array.
    fn each(
        &self,
        decoder: &mut Decoder<'_>,
        pairs: &Pairs,
        shape: ShapeId,
        name: &[u8],
        mut write: impl FnMut(&mut Decoder<'_>, &[u8]) -> Result<(), Rejected>,
    ) -> Result<(), Rejected> {
        let types = self.contract.shapes.get(shape).types;
        let is_list = types.has(Types::ARRAY) && !types.has_scalar() && !types.has(Types::OBJECT);
        let mut values = pairs.values(name);
        let only = if pairs.count(name) == 1 { values.next() } else { None };
        match only {
            Some(value) if !is_list || value.trim_ascii_start().starts_with(b"[") => write(decoder, value),
            None if !is_list => Err(Rejected::Repeated),
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

    /// Whether JSON text is one whole value: it must not add members to the object around it.
    async fn is_document(&self, text: &[u8], run: &mut Run, turn: &Turn) -> Result<(), Rejected> {
        let check = self.contract.program.check(self.contract.anything, run);
        in_turns(check, text, 0, turn).await.map_err(|_| Rejected::Malformed("is not JSON"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::at_once;

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
            if at_once(async |turn| split(body.as_bytes(), 100, &mut pairs, turn).await).is_err() {
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
