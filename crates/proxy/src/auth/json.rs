//! JSON objects of tokens and key sets, read strictly: a name that occurs twice is rejected, since two readers would see two tokens.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Deepest nesting that is looked into; deeper is rejected by the reader beneath.
const MAX_ELEMENTS: usize = 10_000;

/// A value, as far as tokens and keys need it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number; whole seconds and their fractions fit.
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Object),
}

/// An object whose names are all different.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Object(Vec<(String, Value)>);

impl Object {
    /// Reads an object that fills `bytes`.
    ///
    /// # Errors
    /// Not JSON, not an object, a name twice.
    pub(super) fn read(bytes: &[u8]) -> Result<Object, String> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err("not a JSON object".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The members whose names are wanted.
    pub(super) fn only(self, is_wanted: impl Fn(&str) -> bool) -> Object {
        Object(self.0.into_iter().filter(|(name, _)| is_wanted(name)).collect())
    }

    pub(super) fn list(&self, name: &str) -> Option<&[Value]> {
        match self.get(name) {
            Some(Value::List(items)) => Some(items),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            if list.len() >= MAX_ELEMENTS {
                return Err(A::Error::custom("too many elements"));
            }
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut names = std::collections::HashSet::new();
        let mut object = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.len() >= MAX_ELEMENTS {
                members.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom("too many members"));
            }
            if !names.insert(name.clone()) {
                return Err(A::Error::custom("a name occurs twice"));
            }
            object.push((name, members.next_value()?));
        }
        Ok(Value::Object(Object(object)))
    }
}
