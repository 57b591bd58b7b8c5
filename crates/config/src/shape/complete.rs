//! A tree with everything that its file leaves out: each key at the default that its row states. So a default is written once, in the table, and what
//! reads the tree needs none of its own.
//!
//! Keys whose default is a phrase stay absent. A value that is written out and is the default counts as not written, so that a configuration
//! that is printed whole can be read again.

use super::scalar;
use crate::problem::{Collector, Span};
use crate::table::{Field, Object, Shape};
use crate::units;
use crate::yaml::{Entry, Node, Value};

/// The default of a key whose value is a mapping: all defaults in it.
const SEE_THERE: &str = "(see there)";

/// Completes the tree of a file of this shape. Values that do not fit were reported before, and the default stands in for them.
pub(crate) fn complete(object: &'static Object, root: &mut Node, problems: &mut Collector) {
    complete_object(object, root, problems);
}

fn complete_value(shape: &'static Shape, node: &mut Node, problems: &mut Collector) {
    match (shape, &mut node.value) {
        (Shape::Object(object), Value::Map(_)) => complete_object(object, node, problems),
        (Shape::Table(_, value), Value::Map(entries)) => {
            entries.iter_mut().for_each(|entry| complete_value(value, &mut entry.value, problems));
        }
        (Shape::List(item) | Shape::OneOrMany(item), Value::List(items)) => {
            items.iter_mut().for_each(|node| complete_value(item, node, problems));
        }
        (Shape::OneOrMany(item), Value::Map(_)) => complete_value(item, node, problems),
        (Shape::Either(alternatives), Value::Map(_)) => {
            if let Some(object) = alternatives.iter().find(|shape| matches!(shape, Shape::Object(_))) {
                complete_value(object, node, problems);
            }
        }
        _ => {}
    }
}

fn complete_object(object: &'static Object, node: &mut Node, problems: &mut Collector) {
    let span = node.span;
    let Value::Map(entries) = &mut node.value else { return };
    let is_there = |field: &Field| entries.iter().any(|entry| entry.key == field.name);
    let has_no_defaults = object.inherits || object.all_fields().any(|field| field.is_alone && is_there(field));
    for field in object.all_fields() {
        match entries.iter_mut().find(|entry| entry.key == field.name) {
            None if has_no_defaults => {}
            None => entries.extend(absent(field, span, problems)),
            Some(entry) => {
                let default = field.default_node(span).filter(|_| !has_no_defaults);
                if let (Some(default), false) = (&default, fits(&field.shape, &entry.value)) {
                    entry.value = Node { span: entry.value.span, ..default.clone() };
                    entry.is_replaced = true;
                }
                complete_value(&field.shape, &mut entry.value, problems);
                entry.is_default = match default {
                    Some(default) => same(&field.shape, &default, &entry.value),
                    None => field.default == SEE_THERE && entry.value.entries().iter().all(|entry| entry.is_default),
                };
            }
        }
    }
    for field in object.all_fields() {
        if let Some(whole) = field.at_most {
            keep_below(field, whole, entries, problems);
        }
    }
}

/// The entry of a key that is not there, if its row states what then holds.
fn absent(field: &'static Field, span: Span, problems: &mut Collector) -> Option<Entry> {
    let mut value = match field.default_node(span) {
        Some(default) => default,
        None if field.default == SEE_THERE => Node { span, value: Value::Map(Vec::new()) },
        None => return None,
    };
    complete_value(&field.shape, &mut value, problems);
    Some(Entry::at_default(field.name, span, value))
}

/// A part cannot exceed its whole: if the file says so that is a problem, and a default follows.
fn keep_below(field: &Field, whole: &str, entries: &mut [Entry], problems: &mut Collector) {
    let amount = |entry: &Entry| amount(&field.shape, &entry.value);
    let Some(whole) = entries.iter().find(|entry| entry.key == whole).cloned() else { return };
    let Some(part) = entries.iter_mut().find(|entry| entry.key == field.name) else { return };
    if amount(part) <= amount(&whole) {
        return;
    }
    if !part.is_written {
        part.value = Node { span: part.value.span, ..whole.value };
        return;
    }
    let (part_key, whole_key) = (field.name, whole.key);
    let what = format!("`{part_key}` is more than `{whole_key}`");
    problems.add(part.value.span, what, format!("lower `{part_key}` or raise `{whole_key}`"));
}

/// Whether a value is of the kind, and within the bounds, that its row asks for.
fn fits(shape: &Shape, node: &Node) -> bool {
    match (shape, &node.value) {
        (Shape::Object(_) | Shape::Table(..), Value::Map(_))
        | (Shape::List(_) | Shape::OneOrMany(_), Value::List(_)) => true,
        (Shape::OneOrMany(item), _) => fits(item, node),
        (Shape::Either(alternatives), _) => alternatives.iter().any(|shape| fits(shape, node)),
        (_, Value::Scalar(scalar)) => scalar::fits(shape, scalar, node),
        _ => false,
    }
}

/// Whether two values that fit a shape mean the same.
fn same(shape: &Shape, one: &Node, other: &Node) -> bool {
    if let (Some(one), Some(other)) = (amount(shape, one), amount(shape, other)) {
        return one == other;
    }
    let (ones, others) = (one.one_or_many(), other.one_or_many());
    ones.len() == others.len()
        && ones.iter().zip(others).all(|(one, other)| match (one.text(), other.text()) {
            (Some(one), Some(other)) => one == other || matches!(shape, Shape::Bool) && one.eq_ignore_ascii_case(other),
            _ => false,
        })
}

/// The number that a value stands for: milliseconds, bytes, or a count.
fn amount(shape: &Shape, node: &Node) -> Option<u64> {
    let text = node.text()?;
    match shape {
        Shape::Duration(..) => units::duration(text).and_then(|duration| u64::try_from(duration.as_millis()).ok()),
        Shape::Size(..) | Shape::Int(..) => units::size(text),
        Shape::Either(alternatives) => alternatives.iter().find_map(|shape| amount(shape, node)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::shape::effective::Effective;
    use crate::shape::surface::ROOT;
    use crate::yaml;

    fn completed(text: &str) -> (Node, Collector) {
        let mut problems = Collector::default();
        let mut root = yaml::parse(text, &mut problems).unwrap();
        complete(&ROOT, &mut root, &mut problems);
        (root, problems)
    }

    #[test]
    fn what_is_not_written_is_at_its_default_and_counts_as_absent() {
        let (root, problems) =
            completed("upstreams: { app: { servers: 'a:1', connect_timeout: 5000ms, balance: least_loaded } }");
        assert!(problems.is_empty());
        let app = root.get("upstreams").unwrap().get("app").unwrap();
        assert_eq!(app.get("response_header_timeout").unwrap().text(), Some("60s"));
        assert_eq!(app.get("ejection").unwrap().get("failures").unwrap().text(), Some("5"));
        // Written as it is anyhow: no deviation.
        assert!(app.entry("connect_timeout").is_none() && app.entry("ejection").is_none());
        assert!(app.entry("balance").is_some() && app.entry("servers").is_some());
        assert!(root.get("limits").unwrap().get("max_connections").is_some() && root.entry("limits").is_none());
        // A phrase is no value, and what is only there with its object stays away.
        assert!(
            app.get("max_in_flight_per_client").is_none() && app.get("health").is_none() && root.get("admin").is_none()
        );
    }

    #[test]
    fn a_name_inherits_instead_of_taking_defaults() {
        let (root, _) = completed(
            "listeners: [{ name: a, bind: ':1', tls: { keystore: k, policy: modern, names: [{ host: x }] } }]",
        );
        let tls = root.get("listeners").unwrap().items()[0].get("tls").unwrap();
        assert!(tls.get("names").unwrap().items()[0].get("policy").is_none());
        assert_eq!(tls.get("client_certificate").unwrap().text(), Some("none"));
    }

    #[test]
    fn a_part_follows_its_whole_unless_it_is_written() {
        let (root, problems) = completed("limits: { max_connections: 10 }");
        assert!(problems.is_empty());
        assert_eq!(root.get("limits").unwrap().get("max_connections_per_client").unwrap().text(), Some("10"));
        let (_, problems) = completed("limits: { max_connections: 10, max_connections_per_client: 11 }");
        let problems =
            problems.finish("p.yaml", "limits: { max_connections: 10, max_connections_per_client: 11 }").unwrap();
        assert!(problems.to_string().contains("is more than `max_connections`"), "{problems}");
    }

    #[test]
    fn a_value_that_does_not_fit_gives_way_to_the_default() {
        let (root, _) = completed("limits: { max_connections: many, drain_timeout: 5 }");
        let limits = root.get("limits").unwrap();
        assert_eq!(limits.get("max_connections").unwrap().text(), Some("100000"));
        assert_eq!(limits.get("drain_timeout").unwrap().text(), Some("30s"));
    }

    #[test]
    fn the_effective_configuration_hides_credentials_and_shows_where_secrets_are() {
        let (root, _) = completed(
            "keystores: { k: { pkcs12: a.p12, password: { env: PASS } } }
routes: [{ respond: { status: 200 }, headers: { x-api-key: hunter2 }, response_headers: { set: { b: '1', a: 2 } } }]",
        );
        let text = Effective::of(&ROOT, &root).to_string();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["keystores"]["k"]["password"]["env"], "PASS");
        assert_eq!(json["routes"][0]["headers"]["x-api-key"], "(redacted)");
        assert_eq!(json["routes"][0]["response_headers"]["set"]["a"], "2");
        assert!(text.find("\"b\"") < text.find("\"a\""), "the file's order");
        assert!(json["limits"]["max_connections"] == 100_000 && json["forwarding"]["via"] == true, "{text}");
    }
}
