//! Which branches of `oneOf` or `anyOf` a value can follow at all, by the member that its `discriminator` names. A branch is left out only if its own schema
//! rejects the value: it requires the member, or allows only other strings there. So the outcome is that of plain `oneOf` or `anyOf`, as OpenAPI
//! 3.0.4 and 3.1.1 demand ("MUST NOT change the validation outcome"), whatever the discriminator's names say; those only choose whose error is reported.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ir::{Id, Schema, Schemas};

/// Schemas that are looked through for what one branch says of the member.
const MAX_PARTS: usize = 1_000;

/// A `oneOf` or `anyOf` whose branches a member distinguishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tags {
    /// The member.
    pub property: Box<str>,
    /// Whether `oneOf` is meant, else `anyOf`.
    pub is_one_of: bool,
    /// What the document calls branches, by their place in the list.
    pub names: HashMap<Box<str>, usize>,
    /// Branches that allow only certain strings, by string.
    by_text: BTreeMap<Box<str>, Vec<Id>>,
    /// Branches that may hold whatever the member is.
    open: Vec<Id>,
    /// Branches that may hold without the member.
    without: Vec<Id>,
}

impl Tags {
    pub fn new(property: &str, is_one_of: bool) -> Tags {
        Tags { property: property.into(), is_one_of, ..Tags::default() }
    }

    /// The branches that may hold for a value whose member is this text.
    pub fn of_text(&self, text: &[u8]) -> (&[Id], &[Id]) {
        let text = std::str::from_utf8(text).ok();
        let pinned = text.and_then(|text| self.by_text.get(text)).map_or(&[][..], Vec::as_slice);
        (pinned, &self.open)
    }

    /// Those that may hold where the member is no string.
    pub fn of_others(&self) -> &[Id] {
        &self.open
    }

    /// Those that may hold where the member is missing.
    pub fn of_none(&self) -> &[Id] {
        &self.without
    }

    /// The strings that the branches allow, if each allows only some.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.by_text.keys().map(|text| &**text)
    }

    /// Finds out what each branch says of the member.
    pub fn learn(&mut self, schemas: &Schemas, branches: &[Id]) {
        for &branch in branches {
            let pin = Pin::of(schemas, branch, &self.property);
            if !pin.is_required {
                self.without.push(branch);
            }
            match pin.texts {
                Some(texts) => {
                    texts.into_iter().for_each(|text| self.by_text.entry(text.into()).or_default().push(branch))
                }
                None => self.open.push(branch),
            }
        }
    }
}

/// What a schema says of one member of an object.
struct Pin<'s> {
    is_required: bool,
    /// The strings that it may be; none if it may be anything else, too.
    texts: Option<BTreeSet<&'s str>>,
}

impl<'s> Pin<'s> {
    fn of(schemas: &'s Schemas, branch: Id, property: &str) -> Pin<'s> {
        let mut pin = Pin { is_required: false, texts: None };
        for object in parts(schemas, branch).filter_map(|part| part.object.as_deref()) {
            pin.is_required |= object.required.iter().any(|name| &**name == property);
            let Some(&member) = object.properties.get(property) else { continue };
            for values in parts(schemas, member).flat_map(|part| &part.values).map(|(values, _)| values) {
                let Some(texts) = values.only_texts() else { continue };
                match &mut pin.texts {
                    Some(known) => known.retain(|text| texts.iter().any(|other| &**other == *text)),
                    None => pin.texts = Some(texts.iter().map(|text| &**text).collect()),
                }
            }
        }
        pin
    }
}

/// A schema and what it takes in through `$ref` and `allOf`: all of them hold where it holds.
fn parts(schemas: &Schemas, id: Id) -> impl Iterator<Item = &Schema> {
    let mut ids = vec![id];
    let mut next = 0;
    while next < ids.len().min(MAX_PARTS) {
        let schema = &schemas[ids[next] as usize];
        next += 1;
        for inner in schema.all_of.iter().copied().chain(schema.base()) {
            if !ids.contains(&inner) {
                ids.push(inner);
            }
        }
    }
    ids.into_iter().map(|id| &schemas[id as usize])
}

/// Fills in what every `discriminator` beside `oneOf` or `anyOf` comes to. After everything else that changes schemas.
pub(super) fn learn_all(schemas: &mut Schemas) {
    for index in 0..schemas.len() {
        let Some(mut tags) = schemas[index].tags.take() else { continue };
        let branches = if tags.is_one_of { &schemas[index].one_of } else { &schemas[index].any_of };
        tags.learn(schemas, branches);
        schemas[index].tags = Some(tags);
    }
}
