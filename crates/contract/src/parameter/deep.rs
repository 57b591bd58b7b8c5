//! `deepObject`: `filter[owner][name]=x`, nested, with arrays by explicit index, by `[]`, or by repetition where the schema has an array.
//!
//! The specification leaves everything but one level undefined; what is read here is what common servers read, within bounds on levels and
//! indices.

use std::collections::HashMap;

use super::decode::{Decoder, Rejected};
use super::pairs::Pairs;
use crate::escape::brackets_of;
use crate::openapi::ShapeId;
use crate::schema::Types;

/// What stands under one bracket.
#[derive(Default)]
struct Branch<'p> {
    name: &'p [u8],
    branches: Vec<usize>,
    values: Vec<&'p [u8]>,
}

/// All brackets of one parameter; the first branch is the parameter itself.
struct Brackets<'p> {
    list: Vec<Branch<'p>>,
    /// Those under a branch, by name.
    known: HashMap<(usize, &'p [u8]), usize>,
}

/// Appends the value of a `deepObject` parameter.
pub(crate) fn decode(
    decoder: &mut Decoder<'_>,
    pairs: &Pairs,
    name: &[u8],
    shape: ShapeId,
    max_levels: usize,
) -> Result<(), Rejected> {
    let mut brackets = Brackets { list: vec![Branch::default()], known: HashMap::new() };
    for (have, value) in pairs.iter() {
        if let Some(rest) = brackets_of(have, name) {
            brackets.add(rest, value, max_levels)?;
        }
    }
    brackets.write(0, Some(shape), decoder)
}

impl<'p> Brackets<'p> {
    fn add(&mut self, mut rest: &'p [u8], value: &'p [u8], max_levels: usize) -> Result<(), Rejected> {
        const MALFORMED: Rejected = Rejected::Malformed("brackets of the name do not match");
        let mut at = 0;
        for _ in 0..max_levels {
            let Some(inner) = rest.strip_prefix(b"[") else { break };
            let end = inner.iter().position(|byte| *byte == b']').ok_or(MALFORMED)?;
            let (name, after) = inner.split_at(end);
            if name.contains(&b'[') {
                return Err(MALFORMED);
            }
            rest = after.get(1..).unwrap_or_default();
            at = self.branch(at, name);
        }
        match rest {
            [] => {}
            [b'[', ..] => return Err(Rejected::Limit("too many brackets in a name")),
            _ => return Err(MALFORMED),
        }
        self.list.get_mut(at).into_iter().for_each(|branch| branch.values.push(value));
        Ok(())
    }

    fn branch(&mut self, at: usize, name: &'p [u8]) -> usize {
        let new = self.list.len();
        let found = *self.known.entry((at, name)).or_insert(new);
        if found != new {
            return found;
        }
        self.list.push(Branch { name, ..Branch::default() });
        self.list.get_mut(at).into_iter().for_each(|branch| branch.branches.push(new));
        new
    }

    /// Recursion ends with the brackets, whose number is bounded.
    fn write(&self, at: usize, shape: Option<ShapeId>, decoder: &mut Decoder<'_>) -> Result<(), Rejected> {
        let Some(branch) = self.list.get(at) else { return Ok(()) };
        let known = shape.map(|shape| decoder.shapes.get(shape));
        let types = known.map_or(Types::ALL, |shape| shape.types);
        match (branch.branches.as_slice(), branch.values.as_slice()) {
            ([], values)
                if types != Types::ALL
                    && types.has(Types::ARRAY)
                    && (values.len() > 1 || !values.iter().any(|value| types.may_be_scalar(value))) =>
            {
                let items =
                    known.and_then(|shape| shape.items).map_or(Types::ALL, |items| decoder.shapes.get(items).types);
                write_values(values, items, decoder)
            }
            ([], [value]) => decoder.scalar(value, types),
            ([], _) => Err(Rejected::Repeated),
            ([only], [])
                if self.list.get(*only).is_some_and(|child| child.name.is_empty() && child.branches.is_empty()) =>
            {
                let items =
                    known.and_then(|shape| shape.items).map_or(Types::ALL, |items| decoder.shapes.get(items).types);
                write_values(
                    self.list.get(*only).map(|child| child.values.as_slice()).unwrap_or_default(),
                    items,
                    decoder,
                )
            }
            (branches, []) if types.has(Types::ARRAY) && !types.has(Types::OBJECT) => {
                self.write_elements(branches, known.and_then(|shape| shape.items), decoder)
            }
            (branches, []) => {
                decoder.json.push(b'{');
                let mut is_first = true;
                for child in branches {
                    let Some(name) = self.list.get(*child).map(|child| child.name) else { continue };
                    decoder.comma(&mut is_first);
                    decoder.key(name)?;
                    let property = std::str::from_utf8(name).ok().and_then(|name| known?.property(name));
                    self.write(*child, property, decoder)?;
                }
                decoder.json.push(b'}');
                Ok(())
            }
            _ => Err(Rejected::Malformed("a name has a value and brackets")),
        }
    }

    /// Elements by index: from 0, without gaps, each once.
    fn write_elements(
        &self,
        branches: &[usize],
        items: Option<ShapeId>,
        decoder: &mut Decoder<'_>,
    ) -> Result<(), Rejected> {
        let mut elements: Vec<(usize, usize)> = Vec::new();
        for child in branches {
            let name = self.list.get(*child).map(|child| child.name).unwrap_or_default();
            let index = index(name).ok_or(Rejected::Malformed("an index is no number"))?;
            if index >= decoder.max_elements {
                return Err(Rejected::Limit("an index is too large"));
            }
            elements.push((index, *child));
        }
        elements.sort_unstable();
        if elements.iter().enumerate().any(|(at, (index, _))| at != *index) {
            return Err(Rejected::Malformed("indices leave a gap"));
        }
        decoder.json.push(b'[');
        let mut is_first = true;
        for (_, child) in elements {
            decoder.comma(&mut is_first);
            self.write(child, items, decoder)?;
        }
        decoder.json.push(b']');
        Ok(())
    }
}

fn write_values(values: &[&[u8]], items: Types, decoder: &mut Decoder<'_>) -> Result<(), Rejected> {
    if values.len() > decoder.max_elements {
        return Err(Rejected::Limit("too many elements"));
    }
    decoder.json.push(b'[');
    let mut is_first = true;
    for value in values {
        decoder.comma(&mut is_first);
        decoder.scalar(value, items)?;
    }
    decoder.json.push(b']');
    Ok(())
}

/// A decimal index without sign and leading zeros.
fn index(name: &[u8]) -> Option<usize> {
    let is_plain = name == b"0" || (name.len() < 10 && !name.starts_with(b"0") && name.iter().all(u8::is_ascii_digit));
    std::str::from_utf8(name).ok().filter(|_| is_plain)?.parse().ok()
}
