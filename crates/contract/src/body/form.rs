//! Forms as JSON: `application/x-www-form-urlencoded` text, and the object that the fields of any form make.
//!
//! Each field is decoded by its own schema and encoding; the schema of the body judges the object afterwards.

use crate::contract::Contract;
use crate::openapi::{FieldKind, FormField, FormFields, ShapeId, Style};
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
        if !pairs.add_decoded(value.get(1..).unwrap_or_default(), |out| unescape(name, true, out)) {
            return Err(Refused::Malformed("a percent escape is broken"));
        }
    }
    Ok(())
}

/// The fields of one form on their way to a JSON object.
pub(crate) struct Assembly<'a> {
    pub(crate) contract: &'a Contract,
    pub(crate) fields: &'a FormFields,
    pub(crate) escapes: Escapes,
    pub(crate) attempt: Attempt,
}

impl<'a> Assembly<'a> {
    /// Writes the object into `json`; says whether another attempt would read something else. On error: the name of the field.
    pub(crate) fn write(
        &self,
        pairs: &Pairs,
        text: &mut Vec<u8>,
        json: &mut Vec<u8>,
        run: &mut Run,
    ) -> Result<bool, (Vec<u8>, Refused)> {
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
        let mut is_first = true;
        for (at, (sent, _)) in pairs.iter().enumerate() {
            let field = self.field(sent);
            let is_same = |earlier: &[u8]| match field {
                Some(field) => {
                    field.takes(earlier) && self.field(earlier).is_some_and(|other| std::ptr::eq(other, field))
                }
                None => earlier == sent,
            };
            if pairs.iter().take(at).any(|(earlier, _)| is_same(earlier)) {
                continue;
            }
            let name = field.map_or(sent, |field| field.name.as_bytes());
            decoder.comma(&mut is_first);
            decoder
                .key(name)
                .and_then(|()| self.value(&mut decoder, pairs, name, run))
                .map_err(|why| (name.to_vec(), why))?;
        }
        decoder.json.push(b'}');
        Ok(decoder.has_choice)
    }

    fn value(&self, decoder: &mut Decoder<'_>, pairs: &Pairs, name: &[u8], run: &mut Run) -> Result<(), Refused> {
        let Some(field) = self.field(name) else {
            return match self.fields.other {
                Some(shape) => decoder.named(pairs, name, shape, Style::Form, true),
                None => decoder.free(pairs, name),
            };
        };
        match field.kind {
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

    /// The declared field of a name.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&'a FormField> {
        field_of(self.fields, name)
    }
}

/// The declared field of a name: the one that is called so before one whose brackets are.
pub(crate) fn field_of<'a>(fields: &'a FormFields, name: &[u8]) -> Option<&'a FormField> {
    let is_called = |field: &&FormField| field.name.as_bytes() == name;
    fields.fields.iter().find(is_called).or_else(|| fields.fields.iter().find(|field| field.takes(name)))
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
