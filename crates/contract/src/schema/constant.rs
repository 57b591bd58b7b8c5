//! Values that `enum` and `const` name. Compares nothing: what it means to be equal is decided where values meet.

use crate::document::{Kind, Node};

use super::types::Types;

/// A value from the schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Null,
    Boolean(bool),
    /// As written, in JSON's grammar.
    Number(Box<str>),
    String(Box<str>),
    Array(Box<[Constant]>),
    Object(Box<[(Box<str>, Constant)]>),
}

impl Constant {
    pub fn new(node: &Node) -> Self {
        match &node.kind {
            Kind::Null => Self::Null,
            Kind::Bool(value) => Self::Boolean(*value),
            Kind::Number(text) => Self::Number(text.as_str().into()),
            Kind::String(text) => Self::String(text.as_str().into()),
            Kind::Array(elements) => Self::Array(elements.iter().map(Self::new).collect()),
            Kind::Object(members) => {
                Self::Object(members.iter().map(|(key, value)| (key.text.as_str().into(), Self::new(value))).collect())
            }
        }
    }

    pub fn types(&self) -> Types {
        match self {
            Self::Null => Types::NULL,
            Self::Boolean(_) => Types::BOOLEAN,
            Self::Number(_) => Types::NUMBER,
            Self::String(_) => Types::STRING,
            Self::Array(_) => Types::ARRAY,
            Self::Object(_) => Types::OBJECT,
        }
    }
}
