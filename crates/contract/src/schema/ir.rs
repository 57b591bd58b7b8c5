//! A schema as the compiler understood it: every dialect in the one meaning of 2020-12, references as numbers. Decides nothing at run time.

use std::collections::{BTreeSet, HashMap};

use super::constant::Values;
use super::source::{Base, Direction};
use super::tags::Tags;
use super::types::Types;
use crate::format::Format;
use crate::node::Place;
use crate::number::Divisor;
use crate::pattern::Pattern;
use crate::reason::Reason;

/// Number of a schema in [`Schemas`].
pub(super) type Id = u32;

/// The schema that allows everything, and the one that allows nothing.
pub(super) const TRUE: Id = 0;
pub(super) const FALSE: Id = 1;

/// The same in the places of `additionalProperties: false` and `items: false`, where what is rejected is a member or an element.
pub(super) const UNKNOWN_FIELD: Id = 2;
pub(super) const UNKNOWN_ITEM: Id = 3;

/// The schema that allows null alone.
pub(super) const NULL: Id = 4;

/// The schemas with the numbers above.
pub(super) fn fixed_schemas() -> Schemas {
    let never = |reason| Schema { never: Some(reason), ..Schema::default() };
    let null = Schema { types: Types::NULL, ..Schema::default() };
    vec![Schema::default(), never(Reason::False), never(Reason::UnknownField), never(Reason::UnknownItem), null]
}

/// Where a schema stands for `$dynamicRef`: the two directions never meet.
pub(super) type Resource = (Base, Direction);

/// Every schema of a program.
pub(super) type Schemas = Vec<Schema>;

/// What one schema object says of a value, its subschemas by number. The default says nothing.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub place: Place,
    pub resource: Resource,
    pub types: Types,
    /// Nothing is allowed, for this reason.
    pub never: Option<Reason>,
    /// The value must be one of these; [`Reason::Enum`] or [`Reason::Const`].
    pub values: Vec<(Values, Reason)>,
    pub number: Option<Box<NumberRules>>,
    pub string: Option<Box<StringRules>>,
    pub array: Option<Box<ArrayRules>>,
    pub object: Option<Box<ObjectRules>>,
    /// `$ref` and `allOf`.
    pub all_of: Vec<Id>,
    pub any_of: Vec<Id>,
    pub one_of: Vec<Id>,
    pub not: Option<Id>,
    pub condition: Option<Condition>,
    pub dynamic: Option<Dynamic>,
    pub discriminator: Option<Box<Discriminator>>,
    /// What its `discriminator` says of `one_of` or `any_of`.
    pub tags: Option<Box<Tags>>,
    /// As the schema of a member: the member may not be there, because of the direction.
    pub forbidden: Option<Reason>,
}

impl Default for Schema {
    fn default() -> Self {
        Self {
            place: Place::default(),
            resource: (Base::default(), Direction::Request),
            types: Types::ALL,
            never: None,
            values: Vec::new(),
            number: None,
            string: None,
            array: None,
            object: None,
            all_of: Vec::new(),
            any_of: Vec::new(),
            one_of: Vec::new(),
            not: None,
            condition: None,
            dynamic: None,
            discriminator: None,
            tags: None,
            forbidden: None,
        }
    }
}

impl Schema {
    /// Of one that stands for a base and its subtypes: the base.
    pub fn base(&self) -> Option<Id> {
        self.discriminator.as_ref().map(|discriminator| discriminator.base)
    }

    /// Whether it requires one of these members.
    pub fn requires(&self, names: &BTreeSet<Box<str>>) -> bool {
        self.object.as_ref().is_some_and(|object| object.required.iter().any(|name| names.contains(name)))
    }

    /// Requires none of these members any more.
    pub fn exempt(&mut self, names: &BTreeSet<Box<str>>) {
        if let Some(object) = &mut self.object {
            object.required.retain(|name| !names.contains(name));
        }
    }
}

/// `if`, `then` and `else`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub test: Id,
    pub then: Id,
    pub otherwise: Id,
}

/// `$dynamicRef`: the outermost resource of the dynamic scope with that anchor, or `fallback`.
#[derive(Clone, Debug)]
pub(super) struct Dynamic {
    pub name: Box<str>,
    pub fallback: Id,
}

/// The subtype of a base is named by a member.
#[derive(Clone, Debug)]
pub(super) struct Discriminator {
    pub property: Box<str>,
    pub branches: HashMap<Box<str>, Id>,
    /// The subtypes, each once.
    pub distinct: Box<[Id]>,
    /// The base itself, for names that are no subtype's.
    pub base: Id,
}

/// A bound as written.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub text: Box<str>,
    pub is_exclusive: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NumberRules {
    pub lower: Vec<Bound>,
    pub upper: Vec<Bound>,
    pub multiples: Vec<Divisor>,
    /// A format for integers stands here.
    pub integers_only: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StringRules {
    pub min_length: u64,
    pub max_length: Option<u64>,
    pub patterns: Vec<Pattern>,
    pub formats: Vec<Format>,
}

impl StringRules {
    /// How often it reads a string, at most.
    pub fn looks(&self) -> usize {
        1 + self.patterns.len() + self.formats.len()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct ArrayRules {
    pub prefix: Vec<Id>,
    pub items: Option<Id>,
    pub contains: Option<Contains>,
    pub min_items: u64,
    pub max_items: Option<u64>,
    pub is_unique: bool,
    pub unevaluated: Option<Id>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Contains {
    pub id: Id,
    pub min: u64,
    pub max: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ObjectRules {
    pub properties: HashMap<Box<str>, Id>,
    pub patterns: Vec<(Pattern, Id)>,
    pub additional: Option<Id>,
    pub names: Option<Id>,
    pub required: Vec<Box<str>>,
    pub dependent_required: Vec<(Box<str>, Vec<Box<str>>)>,
    pub dependent_schemas: Vec<(Box<str>, Id)>,
    pub min_properties: u64,
    pub max_properties: Option<u64>,
    pub unevaluated: Option<Id>,
}

impl ObjectRules {
    /// Whether it names members, so that others can be called unknown.
    pub fn names_members(&self) -> bool {
        !self.properties.is_empty() || !self.patterns.is_empty()
    }

    /// Whether it says anything of members one by one.
    pub fn looks_at_members(&self) -> bool {
        self.names_members() || self.names.is_some() || self.additional.is_some()
    }

    /// Whether it says itself what becomes of members it does not name.
    pub fn has_policy(&self) -> bool {
        self.additional.is_some() || self.unevaluated.is_some()
    }
}
