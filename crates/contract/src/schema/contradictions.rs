//! What a schema asks and nothing can be: values of `enum` that are of none of its types, bounds that cross, a member that is required and forbidden.
//! Looks at a schema with all that `$ref` and `allOf` add to it; each is told where it begins to contradict itself, not of all that refer to it.
//! For authors alone: such a schema is validated as written, and rejects.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};

use super::constant::Constant;
use super::ir::{Bound, FALSE, Id, ObjectRules, Schema, Schemas, UNKNOWN_FIELD};
use super::types::Types;
use crate::message::shown;
use crate::node::Place;
use crate::number::Decimal;
use crate::reason::Reason;

/// Schemas that are looked at in all, each as often as others take it in, and members that they require; a document with more is looked at in part.
const MAX_LOOKS: usize = 500_000;

/// Says why nothing can be all of some schemas at once, of one kind of values.
type Look = fn(&[&Schema]) -> Option<String>;

/// What a pattern costs beside a name.
const DEAR: usize = 20;

/// Every contradiction, with the schema it is in, in the order of places.
pub(super) fn find(schemas: &Schemas) -> Vec<(Id, Place, String)> {
    let mut found = BTreeSet::new();
    let mut looks = 0;
    for (id, schema) in (0..).zip(schemas) {
        let parts = parts(schemas, id);
        let objects = || parts.iter().filter_map(|id| schemas[*id as usize].object.as_deref());
        let required: usize = objects().map(|object| object.required.len()).sum();
        let named: usize = objects().map(|object| 1 + object.patterns.len() * DEAR).sum();
        // Each part, and for each member that is required what each part names.
        looks += parts.len() + required * named;
        if looks > MAX_LOOKS {
            break;
        }
        values(schema, |what| _ = found.insert((schema.place, what, id)));
        if let Some(what) = contradiction(schemas, &parts) {
            found.insert((schema.place, what, id));
        }
    }
    // The two directions of one schema say the same.
    let mut told = HashSet::new();
    let found = found.into_iter().filter(|(place, what, _)| told.insert((*place, what.clone())));
    found.map(|(place, what, id)| (id, place, what)).collect()
}

/// A schema and all that it takes in.
fn parts(schemas: &Schemas, id: Id) -> Vec<Id> {
    let (mut found, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![id]);
    while let Some(id) = open.pop() {
        if seen.insert(id) && found.len() < MAX_LOOKS {
            found.push(id);
            open.extend(&schemas[id as usize].all_of);
        }
    }
    found
}

/// What one `enum` or `const` names beside the types of its own schema.
fn values(schema: &Schema, mut tell: impl FnMut(String)) {
    for (values, reason) in &schema.values {
        let is_other = |value: &&Constant| !value.kind().has(schema.types);
        let others: Vec<_> = values.iter().filter(is_other).collect();
        let Some(first) = others.first() else { continue };
        let keyword = if *reason == Reason::Const { "const" } else { "enum" };
        let types = schema.types.names();
        tell(match others.len() == values.len() {
            true => format!("no value of `{keyword}` is of the type {types}, so that nothing is valid"),
            false => format!("{} in `{keyword}` is not of the type {types}, so that it is never valid", first.shown()),
        });
    }
}

/// The first reason for which nothing can be all of these at once, unless one of them says so by itself.
fn contradiction(schemas: &Schemas, parts: &[Id]) -> Option<String> {
    let parts: Vec<&Schema> = parts.iter().map(|id| &schemas[*id as usize]).collect();
    if parts.iter().any(|part| part.never.is_some()) {
        return None;
    }
    let is_whole = parts.len() == 1;
    let types = parts.iter().fold(Types::ALL, |types, part| types.within(part.types));
    if types == Types::NONE {
        let empty = parts.iter().any(|part| part.types == Types::NONE);
        return (!empty).then(|| "`allOf` asks for types that exclude each other, so that nothing is valid".to_owned());
    }
    let own = |look: Look| {
        // Who contradicts itself has been told of by itself.
        let alone = !is_whole && parts.iter().any(|part| look(&[part]).is_some());
        if alone { None } else { look(&parts) }
    };
    let kinds: [(Types, Look); 4] =
        [(Types::NUMBER, numbers), (Types::STRING, strings), (Types::ARRAY, arrays), (Types::OBJECT, objects)];
    kinds.iter().filter(|(kind, _)| types.has(*kind)).find_map(|(_, look)| own(*look))
}

fn strings(parts: &[&Schema]) -> Option<String> {
    let strings = parts.iter().filter_map(|part| part.string.as_deref());
    counts("Length", strings.map(|string| (string.min_length, string.max_length)))
}

fn arrays(parts: &[&Schema]) -> Option<String> {
    let arrays = parts.iter().filter_map(|part| part.array.as_deref());
    counts("Items", arrays.map(|array| (array.min_items, array.max_items)))
}

fn numbers(parts: &[&Schema]) -> Option<String> {
    let rules: Vec<_> = parts.iter().filter_map(|part| part.number.as_deref()).collect();
    let order = |a: &&Bound, b: &&Bound| Decimal::new(a.text.as_bytes()).cmp(&Decimal::new(b.text.as_bytes()));
    // Of equal ones the exclusive one says more.
    let lower = rules.iter().flat_map(|rules| &rules.lower);
    let low = lower.max_by(|a, b| order(a, b).then(a.is_exclusive.cmp(&b.is_exclusive)))?;
    let upper = rules.iter().flat_map(|rules| &rules.upper);
    let high = upper.min_by(|a, b| order(a, b).then(b.is_exclusive.cmp(&a.is_exclusive)))?;
    let order = order(&low, &high);
    let has_none = order == Ordering::Greater || order == Ordering::Equal && (low.is_exclusive || high.is_exclusive);
    let (low, high) = (shown(low.text.as_bytes()), shown(high.text.as_bytes()));
    has_none
        .then(|| format!("no number is above the minimum {low} and below the maximum {high}, so that none is valid"))
}

/// Least and most of something that is counted.
fn counts(of: &str, bounds: impl Iterator<Item = (u64, Option<u64>)>) -> Option<String> {
    let (least, most) =
        bounds.fold((0, u64::MAX), |(least, most), (min, max)| (min.max(least), max.map_or(most, |max| max.min(most))));
    (least > most).then(|| format!("`min{of}` {least} is above `max{of}` {most}, so that none is valid"))
}

fn objects(parts: &[&Schema]) -> Option<String> {
    let rules: Vec<&ObjectRules> = parts.iter().filter_map(|part| part.object.as_deref()).collect();
    let bounds = rules.iter().map(|object| (object.min_properties, object.max_properties));
    if let Some(what) = counts("Properties", bounds) {
        return Some(what);
    }
    let required = rules.iter().flat_map(|object| &object.required);
    let forbids = |name: &str| rules.iter().any(|object| forbids(object, name));
    let name = required.into_iter().find(|name| forbids(name))?;
    let name = shown(name.as_bytes());
    Some(format!(
        "`{name}` is required, and `additionalProperties: false` forbids it where `properties` does not name it: no object is valid"
    ))
}

fn forbids(object: &ObjectRules, name: &str) -> bool {
    match object.properties.get(name) {
        Some(id) => *id == FALSE,
        None if !matches!(object.additional, Some(FALSE | UNKNOWN_FIELD)) => false,
        None => !object.patterns.iter().any(|(pattern, _)| pattern.is_match(name.as_bytes())),
    }
}
