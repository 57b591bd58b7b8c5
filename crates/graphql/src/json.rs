//! Values of JSON, read strictly: a name that occurs twice in an object is rejected, since two readers would see two requests.

use std::fmt;

use apollo_compiler::response::serde_json_bytes::ByteString;
use apollo_compiler::response::{JsonMap, JsonValue};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Reads one value that fills `bytes`. Nested deeper than 128 it is rejected by the reader beneath.
///
/// # Errors
/// Not JSON, or a name twice.
pub(crate) fn read(bytes: &[u8]) -> Result<JsonValue, String> {
    serde_json::from_slice::<Strict>(bytes).map(|value| value.0).map_err(|error| error.to_string())
}

struct Strict(JsonValue);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(Reader).map(Strict)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = JsonValue;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<JsonValue, E> {
        Ok(JsonValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonValue, E> {
        Ok(JsonValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonValue, E> {
        Ok(JsonValue::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonValue, E> {
        Ok(JsonValue::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<JsonValue, E> {
        serde_json::Number::from_f64(value).map(JsonValue::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonValue, E> {
        Ok(JsonValue::String(ByteString::from(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonValue, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(JsonValue::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonValue, A::Error> {
        let mut object = JsonMap::new();
        while let Some(name) = members.next_key::<String>()? {
            let Strict(value) = members.next_value()?;
            if object.insert(ByteString::from(name), value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(JsonValue::Object(object))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_value_is_read_once_and_whole() {
        assert!(read(br#"{"a":[1,-2,0.5,true,null,"\u00e9"],"b":{}}"#).is_ok());
        for wrong in
            [r#"{"a":1,"a":2}"#, r#"{"a":{"b":1,"\u0062":2}}"#, "{} {}", "", "1e999", "{\"a\":1,}", "\u{feff}{}"]
        {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(read("[".repeat(200).as_bytes()).is_err());
        assert!(read(b"\"\xff\"").is_err());
    }
}
