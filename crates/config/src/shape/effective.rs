//! The configuration as it is active, in the shape of its file: what was written and the defaults beside it, as JSON, which is YAML. It can be read again.
//!
//! Made from the completed tree and the table, so it knows no key. What is hidden `hiding.rs` says, and of what variables of the environment hold the file's `${NAME}` is shown.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::hiding::Hiding;
use crate::table::{Object, Shape};
use crate::units;
use crate::yaml::{Node, Scalar, Value};

/// A configuration in the shape of its file, with its defaults; empty if it comes from no file.
#[derive(Clone, Default)]
pub struct Effective(Arc<str>);

impl Effective {
    /// Prints a completed tree.
    pub(crate) fn of(object: &'static Object, root: &Node) -> Effective {
        let mut out = String::new();
        write_object(object, root, (Hiding::Queries, 0), &mut out);
        out.push('\n');
        Effective(out.into())
    }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "{}\n" } else { &self.0 })
    }
}

/// The text is long, and says what the configuration around it says.
impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effective")
    }
}

fn write_value(shape: &Shape, node: &Node, (hiding, depth): (Hiding, usize), out: &mut String) {
    match (shape, &node.value) {
        (Shape::Object(object), Value::Map(_)) => write_object(object, node, (hiding, depth), out),
        (Shape::Table(_, value), Value::Map(entries)) => {
            let items = entries.iter().map(|entry| {
                let key = entry.key.as_str();
                (Some(key), *value, &entry.value, hiding.of_entry(value, key))
            });
            write_items(('{', '}'), items, depth, out);
        }
        (Shape::List(item) | Shape::OneOrMany(item), Value::List(items)) => {
            let items = items.iter().enumerate().map(|(index, node)| (None, *item, node, hiding.of_item(index)));
            write_items(('[', ']'), items, depth, out);
        }
        (Shape::OneOrMany(item), _) => write_value(item, node, (hiding.of_item(0), depth), out),
        (Shape::Either(alternatives), Value::Map(_)) => {
            match alternatives.iter().find(|shape| matches!(shape, Shape::Object(_))) {
                Some(object) => write_value(object, node, (hiding, depth), out),
                None => out.push_str("null"),
            }
        }
        (_, Value::Scalar(scalar)) => write_scalar(shape, scalar, hiding, out),
        _ => out.push_str("null"),
    }
}

/// Its keys in the order of the table.
fn write_object(object: &'static Object, node: &Node, (hiding, depth): (Hiding, usize), out: &mut String) {
    let items = object.all_fields().filter_map(|field| {
        Some((Some(field.name), &field.shape, node.get(field.name)?, hiding.of_key(object, field.name)))
    });
    write_items(('{', '}'), items, depth, out);
}

fn write_items<'a>(
    (open, close): (char, char),
    items: impl Iterator<Item = (Option<&'a str>, &'a Shape, &'a Node, Hiding)>,
    depth: usize,
    out: &mut String,
) {
    let indent = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    out.push(open);
    let mut is_empty = true;
    for (key, shape, node, hiding) in items {
        if !is_empty {
            out.push(',');
        }
        is_empty = false;
        indent(depth + 1, out);
        if let Some(key) = key {
            write_text(key, out);
            out.push_str(": ");
        }
        write_value(shape, node, (hiding, depth + 1), out);
    }
    if !is_empty {
        indent(depth, out);
    }
    out.push(close);
}

fn write_scalar(shape: &Shape, scalar: &Scalar, hiding: Hiding, out: &mut String) {
    let may_be = |wanted: fn(&Shape) -> bool| match shape {
        Shape::Either(alternatives) => alternatives.iter().any(wanted),
        shape => wanted(shape),
    };
    if scalar.is_bool() && may_be(|shape| matches!(shape, Shape::Bool)) {
        out.push_str(&scalar.text.to_ascii_lowercase());
    } else if may_be(|shape| matches!(shape, Shape::Int(..) | Shape::Size(..)))
        && let Some(number) = units::whole(&scalar.text)
    {
        // Writing to a String cannot fail.
        let _ = write!(out, "{number}");
    } else {
        match scalar.written.as_ref().filter(|written| written.is_hidden) {
            Some(written) => write_text(&hiding.shown(shape, &written.text), out),
            // Not to be taken for a variable when it is read again.
            None => write_text(&hiding.shown(shape, &scalar.text).replace("${", "$${"), out),
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{}", serde_json::Value::from(text));
}

/// Whether the value of a header field is likely to be a credential.
pub fn is_field_with_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let known = ["authorization", "cookie"];
    let telling = ["auth", "token", "secret", "password", "passwd", "key", "credential", "session", "signature"];
    known.iter().any(|known| name.ends_with(known)) || telling.iter().any(|telling| name.contains(telling))
}
