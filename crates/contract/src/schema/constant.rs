//! Values that `enum` and `const` name.

use crate::node::{Kind, Node};

use super::types::Types;
use crate::message::shown;
use crate::number::Decimal;

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

    /// How many comparisons it may take: of containers, one for each member and element, and the search for each member.
    fn weight(&self) -> usize {
        match self {
            Self::Null | Self::Boolean(_) | Self::Number(_) | Self::String(_) => 1,
            Self::Array(elements) => 1 + elements.iter().map(Self::weight).sum::<usize>(),
            Self::Object(members) => {
                let search = 1 + members.len() / 8;
                1 + members.iter().map(|(_, value)| search + value.weight()).sum::<usize>()
            }
        }
    }

    /// Its very kind: of a number, whether it has a fraction.
    pub fn kind(&self) -> Types {
        match self {
            Self::Number(text) if Decimal::new(text.as_bytes()).is_integer() => Types::INTEGER,
            Self::Number(_) => Types::FRACTION,
            other => other.types(),
        }
    }

    /// For messages: a scalar as JSON has it, in short.
    pub fn shown(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Boolean(value) => value.to_string(),
            Self::Number(text) => shown(text.as_bytes()),
            Self::String(text) => format!("\"{}\"", shown(text.as_bytes())),
            Self::Array(_) => "an array".to_owned(),
            Self::Object(_) => "an object".to_owned(),
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

/// The values that one `enum` or `const` allows, prepared so that a text or a number is found among many without comparing each.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    all: Box<[Constant]>,
    /// The texts, in order; the numbers, by value.
    texts: Box<[Box<str>]>,
    numbers: Box<[Box<str>]>,
    /// How many members and elements the others have in all.
    weight: usize,
}

impl Values {
    pub fn has_text(&self, text: &[u8]) -> bool {
        self.texts.binary_search_by(|known| known.as_bytes().cmp(text)).is_ok()
    }

    /// The texts, in order, if there is nothing else.
    pub fn only_texts(&self) -> Option<&[Box<str>]> {
        (self.texts.len() == self.all.len()).then_some(&*self.texts)
    }

    pub fn has_number(&self, number: &Decimal<'_>) -> bool {
        has_number(&self.numbers, number)
    }

    /// How many comparisons a value may take.
    pub fn weight(&self) -> usize {
        self.weight
    }
}

/// Whether a number is among some that are in order.
pub(super) fn has_number(numbers: &[Box<str>], number: &Decimal<'_>) -> bool {
    numbers.binary_search_by(|known| Decimal::new(known.as_bytes()).cmp(number)).is_ok()
}

/// Puts numbers in order.
pub(super) fn sort_numbers(numbers: &mut [Box<str>]) {
    numbers.sort_by(|a, b| Decimal::new(a.as_bytes()).cmp(&Decimal::new(b.as_bytes())));
}

impl FromIterator<Constant> for Values {
    fn from_iter<I: IntoIterator<Item = Constant>>(values: I) -> Self {
        let all: Box<[Constant]> = values.into_iter().collect();
        let text = |value: &Constant| if let Constant::String(text) = value { Some(text.clone()) } else { None };
        let number = |value: &Constant| if let Constant::Number(text) = value { Some(text.clone()) } else { None };
        let mut texts: Box<[Box<str>]> = all.iter().filter_map(text).collect();
        let mut numbers: Box<[Box<str>]> = all.iter().filter_map(number).collect();
        texts.sort_unstable();
        sort_numbers(&mut numbers);
        let weight = all.iter().map(Constant::weight).sum();
        Self { all, texts, numbers, weight }
    }
}

impl std::ops::Deref for Values {
    type Target = [Constant];

    fn deref(&self) -> &[Constant] {
        &self.all
    }
}
