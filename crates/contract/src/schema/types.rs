//! The seven kinds of values that `type` distinguishes, as a set. Integers are numbers without a fraction, however written.

use crate::node::{Kind, Node};

/// A set of value kinds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Types(pub u8);

impl Types {
    pub const NONE: Self = Self(0);
    pub const NULL: Self = Self(1);
    pub const BOOLEAN: Self = Self(2);
    pub const INTEGER: Self = Self(4);
    /// Numbers that are not integers.
    pub const FRACTION: Self = Self(8);
    pub const STRING: Self = Self(16);
    pub const ARRAY: Self = Self(32);
    pub const OBJECT: Self = Self(64);
    pub const NUMBER: Self = Self(4 | 8);
    pub const ALL: Self = Self(127);

    /// What a schema calls a type.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The kinds that are in both sets.
    pub const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The names of its kinds, as `type` calls them.
    pub fn names(self) -> String {
        let fraction = Self::FRACTION.0;
        let named = |name: &&str| {
            Self::from_name(name).is_some_and(|kind| match *name {
                "integer" => self.has(Self::INTEGER) && self.0 & fraction == 0,
                "number" => self.has(Self::FRACTION),
                _ => self.has(kind),
            })
        };
        let all = ["string", "integer", "number", "boolean", "array", "object", "null"];
        all.iter().filter(|name| named(name)).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
    }

    /// Whether a value of these may be a text, number or boolean, so that one text stands for it. Null does not count: a list that may be null is a
    /// list, as an object that may be null is an object.
    pub const fn has_scalar(self) -> bool {
        self.0 & !(Self::NULL.0 | Self::ARRAY.0 | Self::OBJECT.0) != 0
    }

    /// Whether this very text may be one value that is neither array nor object.
    pub fn may_be_scalar(self, text: &[u8]) -> bool {
        self.has_scalar() || (self.has(Self::NULL) && text == b"null")
    }

    /// Whether a value of these is an object, or null, which no text of a form or query stands for.
    pub const fn is_object(self) -> bool {
        self.0 & !Self::NULL.0 == Self::OBJECT.0
    }

    /// The kind of a value in a document. A number counts as an integer and as a fraction.
    pub fn of_node(node: &Node) -> Self {
        match node.kind {
            Kind::Null => Self::NULL,
            Kind::Bool(_) => Self::BOOLEAN,
            Kind::Number(_) => Self::NUMBER,
            Kind::String(_) => Self::STRING,
            Kind::Array(_) => Self::ARRAY,
            Kind::Object(_) => Self::OBJECT,
        }
    }
}
