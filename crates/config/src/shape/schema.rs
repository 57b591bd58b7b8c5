//! The JSON Schema of a configuration file (draft 2020-12), from its shape. Editors complete and check by it.
//!
//! It accepts everything the program accepts; the program rejects more (references, addresses, contradictions).

use serde_json::{Map, Value, json};

use super::surface::OBJECTS;
use super::surface::key_server::KEY_SERVER_OBJECTS;
use crate::table::{Object, Shape};
use crate::units::{DURATION_PATTERN, SIZE_PATTERN};

/// The schema as a value; `docs/portunus.schema.json` is its committed copy.
pub fn json_schema() -> Value {
    schema_of("Portunus configuration", OBJECTS)
}

/// The schema of a key server's file; `docs/portunus-key-server.schema.json` is its committed copy.
pub fn key_server_json_schema() -> Value {
    schema_of("Portunus key server configuration", KEY_SERVER_OBJECTS)
}

/// The schema of the file that the first object describes; the others are used by it.
fn schema_of(title: &str, objects: &[&Object]) -> Value {
    let Some((root, others)) = objects.split_first() else { return Value::Null };
    let mut schema = object_schema(root);
    if let Some(root) = schema.as_object_mut() {
        root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".into(), json!(title));
        let definitions = others.iter().map(|object| (object.name.to_owned(), object_schema(object)));
        root.insert("$defs".into(), Value::Object(definitions.collect()));
    }
    schema
}

fn object_schema(object: &Object) -> Value {
    let mut properties = Map::new();
    for field in object.all_fields() {
        let mut schema = shape_schema(&field.shape);
        if let Some(map) = schema.as_object_mut() {
            map.insert("description".into(), json!(field.doc));
        }
        properties.insert(field.name.to_owned(), schema);
    }
    let mut schema = Map::new();
    schema.insert("description".into(), json!(object.doc));
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), Value::Object(properties));
    schema.insert("additionalProperties".into(), json!(false));
    let required: Vec<_> = object.all_fields().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    if !object.one_of.is_empty() {
        let each = object.one_of.iter().map(|name| json!({ "required": [name] }));
        schema.insert("oneOf".into(), each.collect());
    }
    Value::Object(schema)
}

fn shape_schema(shape: &Shape) -> Value {
    match shape {
        Shape::Object(object) => json!({ "$ref": format!("#/$defs/{}", object.name) }),
        Shape::Table(_, value) => json!({ "type": "object", "additionalProperties": shape_schema(value) }),
        Shape::List(item) => json!({ "type": "array", "items": shape_schema(item) }),
        Shape::OneOrMany(item) => {
            let item = shape_schema(item);
            json!({ "anyOf": [item, { "type": "array", "items": item }] })
        }
        Shape::Text(_) => json!({ "type": "string", "minLength": 1 }),
        Shape::Verbatim(_) => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Choice(words) => {
            // YAML reads an unquoted 1.2 or 308 as a number; the program takes it as written.
            let numbers =
                words.iter().filter_map(|word| serde_json::from_str::<Value>(word).ok().filter(Value::is_number));
            json!({ "enum": words.iter().map(|word| json!(word)).chain(numbers).collect::<Vec<_>>() })
        }
        Shape::Int(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Duration(..) => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        Shape::Size(min, max) => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": SIZE_PATTERN },
        ] }),
        Shape::Either(alternatives) => json!({ "anyOf": alternatives.iter().map(shape_schema).collect::<Vec<_>>() }),
    }
}
