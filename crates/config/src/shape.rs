//! The shape of a configuration file as one declarative description, and the check of a file against it.
//!
//! The description itself is `shape/surface.rs`. From it come this structural check, the JSON Schema (`shape/schema.rs`) and the reference
//! (`shape/reference.rs`), so they cannot disagree. What keys mean together is checked in `build.rs`.

pub(crate) mod complete;
pub(crate) mod effective;
pub(crate) mod hiding;
mod foreign;
pub(crate) mod reference;
mod scalar;
pub(crate) mod schema;
pub(crate) mod surface;
#[cfg(test)]
mod tests;

use super::problem::{Collector, Span, closest, listed, shown};
use super::table::{Field, Object, Shape};
use super::yaml::{Node, Value};

/// How a value is called, and where.
#[derive(Debug, Clone, Copy)]
struct Named<'a> {
    /// Its key; for an item, that of its list.
    key: &'a str,
    kind: Kind,
    /// Where it is named, for what is missing in it.
    at: Span,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Root,
    Key,
    Item,
    /// A key that the user chose.
    Entry,
}

impl Named<'_> {
    /// The value as the subject of a sentence.
    fn subject(&self) -> String {
        match self.kind {
            Kind::Root => "the file".to_owned(),
            Kind::Key => format!("`{}`", self.key),
            Kind::Item => format!("this item of `{}`", self.key),
            Kind::Entry => shown(self.key),
        }
    }

    /// How it could be written: after its key, or alone.
    fn written(&self, value: &str) -> String {
        if self.kind == Kind::Item { format!("`{value}`") } else { format!("`{}: {value}`", self.key) }
    }
}

/// Checks a whole file against the shape of such files and notes every deviation.
pub(crate) fn check_file(shape: &'static Object, root: &Node, problems: &mut Collector) {
    check(&Shape::Object(shape), root, Named { key: "", kind: Kind::Root, at: root.span }, problems);
}

fn check(shape: &Shape, node: &Node, named: Named<'_>, problems: &mut Collector) {
    if matches!(node.value, Value::Rejected) {
        return;
    }
    match shape {
        Shape::Object(object) => check_object(object, node, named, problems),
        Shape::Table(_, value) => match &node.value {
            Value::Map(entries) => {
                for entry in entries {
                    let named = Named { key: &entry.key, kind: Kind::Entry, at: entry.key_span };
                    check(value, &entry.value, named, problems);
                }
            }
            _ => wrong_kind(shape, node, named, problems),
        },
        Shape::List(item) | Shape::OneOrMany(item) => match (&node.value, shape) {
            (Value::List(items), _) => {
                for node in items {
                    check(item, node, Named { kind: Kind::Item, at: node.span, ..named }, problems);
                }
            }
            (Value::Scalar(_) | Value::Map(_), Shape::OneOrMany(_)) => check(item, node, named, problems),
            _ => wrong_kind(shape, node, named, problems),
        },
        Shape::Either(alternatives) => check_either(alternatives, node, named, problems),
        _ => match &node.value {
            Value::Scalar(scalar) => {
                if let Err((what, fix)) = scalar::check(shape, scalar, node, named) {
                    problems.add(node.span, what, fix);
                }
            }
            _ => wrong_kind(shape, node, named, problems),
        },
    }
}

/// Notes a value that is not what `shape` wants at all.
fn wrong_kind(shape: &Shape, node: &Node, named: Named<'_>, problems: &mut Collector) {
    let (what, fix) = match &node.value {
        Value::Null => (format!("{} has no value", named.subject()), how_to_write(shape, named)),
        _ => (mismatch(shape, node, named), how_to_write(shape, named)),
    };
    problems.add(if matches!(node.value, Value::Null) { named.at } else { node.span }, what, fix);
}

fn mismatch(shape: &Shape, node: &Node, named: Named<'_>) -> String {
    let expected = if named.kind == Kind::Root { "a mapping".to_owned() } else { expected(shape) };
    format!("{} must be {expected}, not {}", named.subject(), node.kind())
}

fn check_object(object: &'static Object, node: &Node, named: Named<'_>, problems: &mut Collector) {
    let Value::Map(entries) = &node.value else {
        if object.secret && matches!(node.value, Value::Scalar(_)) {
            let what = format!("{} must not stand in the configuration itself", named.subject());
            let fix = format!("write {} or {}", named.written("{ file: PATH }"), named.written("{ env: NAME }"));
            return problems.add_secret(node.span, what, fix);
        }
        return wrong_kind(&Shape::Object(object), node, named, problems);
    };
    for entry in entries {
        match object.all_fields().find(|field| field.name == entry.key) {
            Some(field) => {
                let named = Named { key: field.name, kind: Kind::Key, at: entry.key_span };
                check(&field.shape, &entry.value, named, problems);
            }
            None if object.secret => {
                let fix = format!("known are {}", listed(object.all_fields().map(|field| field.name)));
                problems.add_secret(entry.key_span, format!("unknown key in {}", named.subject()), fix);
            }
            None => unknown_key(object, &entry.key, entry.key_span, named, problems),
        }
    }
    for field in object.all_fields().filter(|field| field.required && node.get(field.name).is_none()) {
        let what = format!("{} lacks `{}`", named.subject(), field.name);
        problems.add(named.at, what, format!("add `{}`: {}", field.name, example(&field.shape)));
    }
    check_one_of(object, node, named, problems);
}

fn check_one_of(object: &'static Object, node: &Node, named: Named<'_>, problems: &mut Collector) {
    let mut present = object.one_of.iter().filter_map(|name| node.entry(name));
    match (present.next(), present.next()) {
        (None, _) if !object.one_of.is_empty() => {
            let what = format!("{} has none of {}", named.subject(), listed(object.one_of.iter().copied()));
            problems.add(named.at, what, "add exactly one of them");
        }
        (Some(first), Some(second)) => {
            let what = format!("`{}` and `{}` exclude each other", first.key, second.key);
            problems.add(second.key_span, what, "keep one of the two");
        }
        _ => {}
    }
}

fn unknown_key(object: &'static Object, given: &str, span: Span, named: Named<'_>, problems: &mut Collector) {
    let names = || object.all_fields().map(|field| field.name);
    // A field name where the edit belongs.
    if matches!(object.name, "header_edits" | "response_edits") && given.contains('-') {
        let fix = format!("write it under `set`: `set: {{ {}: ... }}`", scalar_in_flow(given));
        return problems.add(span, format!("unknown key {} in {}", shown(given), named.subject()), fix);
    }
    // `and` is no slip of `any`, but its opposite.
    let near = if problems.is_full() || given == "and" { None } else { closest(given, names()) };
    let fix = match (foreign::fix(given), near) {
        (_, Some(name)) => format!("did you mean `{name}`?"),
        (Some(fix), None) => fix.to_owned(),
        (None, None) => match elsewhere(object, given) {
            Some(fix) => fix,
            None => {
                let known = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                format!("remove it; known are {known}")
            }
        },
    };
    problems.add(span, format!("unknown key {} in {}", shown(given), named.subject()), fix);
}

/// Where a key stands that was written in another place of the same kind of file.
fn elsewhere(object: &'static Object, given: &str) -> Option<String> {
    /// Places that are named; a key of many has no place of its own.
    const MOST_PLACES: usize = 3;
    if !surface::OBJECTS.iter().any(|known| std::ptr::eq(*known, object)) {
        return None;
    }
    let has_it = |other: &&&'static Object| other.all_fields().any(|field| field.name == given);
    let places: Vec<&str> = surface::OBJECTS.iter().filter(has_it).map(|other| other.name).collect();
    let named = match places.as_slice() {
        [] => return None,
        [only] => shown(only),
        [.., _] if places.len() > MOST_PLACES => return None,
        _ => listed(places.iter().copied()).replace(" and ", " or "),
    };
    Some(format!("write it in {named}, where it is a key; see docs/configuration.md"))
}

/// A text as the host that was probably meant, without scheme, port and path; none if it holds none.
fn host_in(text: &str) -> Option<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if let Some((address, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok().then(|| format!("[{address}]"));
    }
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    let labels = host.strip_prefix("*.").unwrap_or(host);
    let fits = |label: &str| {
        let begins = label.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        begins && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_host = labels.split('.').all(fits);
    is_host.then(|| host.to_owned())
}

/// What `host` of a route was meant for by those who know it from elsewhere: which requests the route takes, and perhaps what a server gets.
fn host_fix(texts: &[&str], named: Named<'_>, key: &str) -> String {
    let hosts: Option<Vec<String>> = texts.iter().map(|text| host_in(text)).collect();
    let Some(hosts) = hosts.filter(|hosts| !hosts.is_empty()) else {
        let sent = named.written(&format!("{{ {key}: app.internal }}"));
        return format!(
            "to match requests for a host, write `hosts: [www.example.com]`; to send one upstream, write {sent}"
        );
    };
    let list = hosts.iter().map(|host| scalar_in_flow(host)).collect::<Vec<_>>().join(", ");
    let matching = format!(
        "to match requests for {}, write `hosts: [{list}]`",
        if hosts.len() == 1 { "this host" } else { "these hosts" }
    );
    match texts {
        // What a server gets is one name, with its port.
        [only] if !only.contains(['*', '/']) => {
            let sent = named.written(&format!("{{ {key}: {} }}", scalar_in_flow(only)));
            format!("{matching}; to send it upstream, write {sent}")
        }
        _ => matching,
    }
}

/// Picks the alternative the value is meant to be by its kind; for scalars, any that fits.
fn check_either(alternatives: &'static [Shape], node: &Node, named: Named<'_>, problems: &mut Collector) {
    let fits = |shape: &&Shape| match (&node.value, shape) {
        (Value::Map(_), Shape::Object(_)) => true,
        (Value::Scalar(scalar), shape) => scalar::check(shape, scalar, node, named).is_ok(),
        _ => false,
    };
    if let Some(shape) = alternatives.iter().find(fits) {
        return check(shape, node, named, problems);
    }
    // One scalar alternative only: its own message is the better one.
    let mut scalars = alternatives.iter().filter(|shape| !matches!(shape, Shape::Object(_)));
    match (&node.value, scalars.next(), scalars.next()) {
        (Value::Scalar(scalar), Some(only), None) => match wrapped(alternatives) {
            // Meant as the value of the mapping's one key.
            Some(key) if !scalar.is_bool() && !scalar.is_number() && !is_near(only, &scalar.text) => {
                let text = scalar_in_flow(&scalar.text);
                let value = named.written(&format!("{{ {key}: {text} }}"));
                // Elsewhere `host` says which requests are meant.
                let fix = match named.key {
                    "host" => host_fix(&[&scalar.text], named, key),
                    _ => format!("write {value}"),
                };
                problems.add(node.span, mismatch(&Shape::Either(alternatives), node, named), fix);
            }
            _ => check(only, node, named, problems),
        },
        (Value::List(items), ..) if named.key == "host" => {
            let texts: Vec<&str> = items.iter().filter_map(Node::text).collect();
            let fix = host_fix(&texts, named, wrapped(alternatives).unwrap_or_default());
            problems.add(node.span, mismatch(&Shape::Either(alternatives), node, named), fix);
        }
        _ => wrong_kind(&Shape::Either(alternatives), node, named, problems),
    }
}

/// A text as a scalar of YAML that is this text wherever it stands, between braces too: plain if nothing in it has a meaning, else quoted.
fn scalar_in_flow(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte))
        && !text.ends_with(':');
    let is_word =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain && !is_word {
        text.to_owned()
    } else if text.contains(|c: char| c.is_control()) {
        // The strings of JSON are YAML.
        serde_json::Value::from(text).to_string()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// Whether a text is one of the words of a choice, misspelt.
fn is_near(shape: &Shape, text: &str) -> bool {
    matches!(shape, Shape::Choice(words) if closest(text, words.iter().copied()).is_some())
}

/// The one key, for text, of a mapping among these.
fn wrapped(alternatives: &'static [Shape]) -> Option<&'static str> {
    let object = alternatives.iter().find_map(|shape| match shape {
        Shape::Object(object) => Some(object),
        _ => None,
    })?;
    let mut fields = object.all_fields();
    match (fields.next(), fields.next()) {
        (Some(Field { name, shape: Shape::Text(_), required: true, .. }), None) => Some(name),
        _ => None,
    }
}

/// What a shape expects, as part of a sentence, without examples.
fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Object(object) => format!("a mapping ({})", object.doc),
        Shape::Table(..) => "a mapping".to_owned(),
        Shape::List(_) => "a list".to_owned(),
        Shape::OneOrMany(item) => format!("{} or a list", expected(item)),
        Shape::Text(what) | Shape::Verbatim(what) => what.split(" such as ").next().unwrap_or(what).to_owned(),
        Shape::Choice([word]) => format!("`{word}`"),
        Shape::Choice(words) => format!("one of {}", listed(words.iter().copied())),
        Shape::Int(min, max) => format!("a whole number from {min} to {max}"),
        Shape::Bool => "`true` or `false`".to_owned(),
        Shape::Duration(..) => "a duration".to_owned(),
        Shape::Size(..) => "a size".to_owned(),
        Shape::Either(alternatives) => alternatives.iter().map(expected).collect::<Vec<_>>().join(" or "),
    }
}

/// What a shape expects, with examples.
fn example(shape: &Shape) -> String {
    match shape {
        Shape::Object(object) => {
            let names = object.all_fields().take(4).map(|field| field.name);
            format!("a mapping of {}", listed(names))
        }
        Shape::Table(name, _) => format!("a mapping, `{name}: ...`"),
        Shape::List(item) => format!("a list, each item {}", example(item)),
        Shape::OneOrMany(item) => format!("{}, or a list of such", example(item)),
        Shape::Text(what) | Shape::Verbatim(what) => (*what).to_owned(),
        Shape::Duration(..) => "a whole number and one of ms, s, m, h, d, such as `30s`".to_owned(),
        Shape::Size(..) => "bytes, or a whole number and a unit, such as `64KiB`".to_owned(),
        Shape::Either(alternatives) => alternatives.iter().map(example).collect::<Vec<_>>().join(", or "),
        Shape::Choice(_) | Shape::Int(..) | Shape::Bool => expected(shape),
    }
}

/// A fix for a value that is not what it should be.
fn how_to_write(shape: &Shape, named: Named<'_>) -> String {
    match shape {
        Shape::Object(object) => {
            let names = listed(object.all_fields().take(6).map(|field| field.name));
            match named.kind {
                Kind::Root => format!("write keys, such as {names}"),
                _ => format!("write keys below it, such as {names}, or remove it"),
            }
        }
        Shape::Table(name, _) => format!("write `{name}: ...` lines below it, or remove it"),
        Shape::List(_) => format!("write a list: {}, or `- ...` lines below it", named.written("[ ... ]")),
        _ => format!("write {}", example(shape)),
    }
}
