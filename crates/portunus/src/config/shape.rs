//! The shape of a configuration file as one declarative description, and the check of a file against it.
//!
//! The description itself is `shape/surface.rs`. From it come this structural check, the JSON Schema (`shape/schema.rs`) and the reference
//! (`shape/reference.rs`), so they cannot disagree. What keys mean together is judged in `build.rs`.

pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod surface;
#[cfg(test)]
mod tests;

use super::problem::{Collector, Span, closest, listed, shown};
use super::units;
use super::yaml::{Node, Scalar, Value};

/// What a value must look like.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A mapping with known keys.
    Object(&'static Object),
    /// A mapping whose keys the user names; the text says what they are.
    Table(&'static str, &'static Shape),
    /// A list.
    List(&'static Shape),
    /// A list, or one item without the list.
    OneOrMany(&'static Shape),
    /// Text; what it is and an example.
    Text(&'static str),
    /// Any scalar, taken as it is written; what it is.
    Verbatim(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number within bounds.
    Int(u64, u64),
    /// `true` or `false`.
    Bool,
    /// A duration within bounds, in milliseconds.
    Duration(u64, u64),
    /// A size within bounds, in bytes.
    Size(u64, u64),
    /// Any of these; the kind of the value decides which is meant.
    Either(&'static [Shape]),
}

/// A mapping with known keys.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its name in schema and reference.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) doc: &'static str,
    /// Its keys, in groups so that objects can share some.
    pub(crate) fields: &'static [&'static [Field]],
    /// Exactly one of these keys must be there; empty = no such rule.
    pub(crate) one_of: &'static [&'static str],
    /// It stands for a secret: plain text in its place is neither accepted nor shown.
    pub(crate) secret: bool,
}

/// A key of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Whether it must be there.
    pub(crate) required: bool,
    /// What it means.
    pub(crate) doc: &'static str,
    /// What holds without it, as it would be written; or a phrase in parentheses.
    pub(crate) default: &'static str,
}

impl Object {
    /// All its keys.
    pub(crate) fn all_fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().flat_map(|group| group.iter())
    }
}

/// Checks `node` against `shape` and notes every deviation. `key` is what it is called; `at` is where it is named, for what is missing in it.
pub(crate) fn check(shape: &Shape, node: &Node, key: &str, at: Span, problems: &mut Collector) {
    if matches!(node.value, Value::Refused) {
        return;
    }
    match shape {
        Shape::Object(object) => check_object(object, node, key, at, problems),
        Shape::Table(what, value) => check_table(what, value, node, key, at, problems),
        Shape::List(item) => match &node.value {
            Value::List(items) => items.iter().for_each(|node| check(item, node, key, node.span, problems)),
            _ => wrong_kind(shape, node, key, at, problems),
        },
        Shape::OneOrMany(item) => match &node.value {
            Value::List(items) => items.iter().for_each(|node| check(item, node, key, node.span, problems)),
            Value::Null => wrong_kind(shape, node, key, at, problems),
            _ => check(item, node, key, at, problems),
        },
        Shape::Either(alternatives) => check_either(alternatives, node, key, at, problems),
        _ => match &node.value {
            Value::Scalar(scalar) => {
                if let Err((what, fix)) = check_scalar(shape, scalar, node, key) {
                    problems.add(node.span, what, fix);
                }
            }
            _ => wrong_kind(shape, node, key, at, problems),
        },
    }
}

fn wrong_kind(shape: &Shape, node: &Node, key: &str, at: Span, problems: &mut Collector) {
    if let Value::Null = node.value {
        problems.add(at, format!("`{key}` has no value"), format!("write {} after it, or remove the key", expected(shape)));
    } else {
        let what = format!("`{key}` must be {}, not {}", expected(shape), node.kind());
        problems.add(node.span, what, example(shape, key));
    }
}

fn check_object(object: &'static Object, node: &Node, key: &str, at: Span, problems: &mut Collector) {
    let Value::Map(entries) = &node.value else {
        if object.secret && matches!(node.value, Value::Scalar(_)) {
            let what = format!("`{key}` must not stand in the configuration itself");
            problems.add_secret(node.span, what, format!("write `{key}: {{ file: PATH }}` or `{key}: {{ env: NAME }}`"));
        } else {
            wrong_kind(&Shape::Object(object), node, key, at, problems);
        }
        return;
    };
    for entry in entries {
        match object.all_fields().find(|field| field.name == entry.key) {
            Some(field) => check(&field.shape, &entry.value, field.name, entry.key_span, problems),
            None => unknown_key(object, &entry.key, entry.key_span, key, problems),
        }
    }
    for field in object.all_fields().filter(|field| field.required && node.entry(field.name).is_none()) {
        let what = format!("{} lacks `{}`", subject(key), field.name);
        problems.add(at, what, format!("add `{}`: {}", field.name, expected(&field.shape)));
    }
    let mut present = object.one_of.iter().filter_map(|name| node.entry(name));
    match (present.next(), present.next()) {
        (None, _) if !object.one_of.is_empty() => {
            let what = format!("{} says none of {}", subject(key), listed(object.one_of.iter().copied()));
            problems.add(at, what, "add exactly one of them");
        }
        (Some(first), Some(second)) => {
            let what = format!("`{}` and `{}` exclude each other", first.key, second.key);
            problems.add(second.key_span, what, "keep one of the two");
        }
        _ => {}
    }
}

/// How an object is called in a message. The root has no key.
fn subject(key: &str) -> String {
    if key.is_empty() { "the file".to_owned() } else { format!("`{key}`") }
}

fn unknown_key(object: &Object, given: &str, span: Span, key: &str, problems: &mut Collector) {
    let place = if key.is_empty() { "at the top of the file".to_owned() } else { format!("in `{key}`") };
    let names = || object.all_fields().map(|field| field.name);
    let fix = match (problems.is_full(), closest(given, names())) {
        (false, Some(name)) => format!("did you mean `{name}`?"),
        _ => format!("remove it; known are {}", names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    };
    problems.add(span, format!("unknown key {} {place}", shown(given)), fix);
}

fn check_table(what: &str, value: &'static Shape, node: &Node, key: &str, at: Span, problems: &mut Collector) {
    let Value::Map(entries) = &node.value else {
        if matches!(node.value, Value::Null) {
            problems.add(at, format!("`{key}` has no value"), format!("write `{what}: ...` lines below it, or remove the key"));
        } else {
            let found = node.kind();
            problems.add(node.span, format!("`{key}` must be a mapping, not {found}"), format!("write `{what}: ...` lines below it"));
        }
        return;
    };
    for entry in entries {
        check(value, &entry.value, &entry.key, entry.key_span, problems);
    }
}

/// Picks the alternative the value is meant to be by its kind; for scalars, any that fits.
fn check_either(alternatives: &'static [Shape], node: &Node, key: &str, at: Span, problems: &mut Collector) {
    let meant = alternatives.iter().find(|shape| match (&node.value, shape) {
        (Value::Map(_), Shape::Object(_) | Shape::Table(..)) => true,
        (Value::List(_), Shape::List(_) | Shape::OneOrMany(_)) => true,
        (Value::Scalar(scalar), shape) => check_scalar(shape, scalar, node, key).is_ok(),
        _ => false,
    });
    if let Some(shape) = meant {
        return check(shape, node, key, at, problems);
    }
    // One scalar alternative only: its own message is the better one.
    let mut scalars = alternatives.iter().filter(|shape| shape.is_scalar());
    match (&node.value, scalars.next(), scalars.next()) {
        (Value::Scalar(_), Some(only), None) => check(only, node, key, at, problems),
        (Value::Scalar(_), None, _) => match alternatives.first() {
            Some(shape) => check(shape, node, key, at, problems),
            None => wrong_kind(&Shape::Either(alternatives), node, key, at, problems),
        },
        _ => wrong_kind(&Shape::Either(alternatives), node, key, at, problems),
    }
}

impl Shape {
    fn is_scalar(&self) -> bool {
        !matches!(
            self,
            Shape::Object(_) | Shape::Table(..) | Shape::List(_) | Shape::OneOrMany(_) | Shape::Either(_)
        )
    }
}

/// What and fix.
type Fault = (String, String);

/// Checks a scalar against a shape for scalars.
fn check_scalar(shape: &Shape, scalar: &Scalar, node: &Node, key: &str) -> Result<(), Fault> {
    let text = scalar.text.as_str();
    let mismatch = || (format!("`{key}` must be {}, not {}", expected(shape), node.kind()), example(shape, key));
    match shape {
        Shape::Verbatim(_) => Ok(()),
        Shape::Text(_) if scalar.is_bool() || scalar.is_number() => {
            Err((mismatch().0, format!("quote it if it is meant as text: `{key}: \"{text}\"`")))
        }
        Shape::Text(_) if text.is_empty() => Err((format!("`{key}` is empty"), example(shape, key))),
        Shape::Text(_) => Ok(()),
        Shape::Bool if scalar.is_bool() => Ok(()),
        Shape::Bool => Err((mismatch().0, bool_fix(key, text))),
        Shape::Choice(words) if words.contains(&text) => Ok(()),
        Shape::Choice(words) => match closest(text, words.iter().copied()) {
            Some(word) => Err((mismatch().0, format!("did you mean `{word}`?"))),
            None => Err(mismatch()),
        },
        Shape::Int(min, max) => {
            let number = if scalar.plain { units::whole(text) } else { None };
            within(number, *min, *max, key, u64::to_string).unwrap_or_else(|| Err(mismatch()))
        }
        Shape::Duration(min, max) => {
            let millis = units::duration(text).and_then(|duration| u64::try_from(duration.as_millis()).ok());
            within(millis, *min, *max, key, |millis| units::duration_text(std::time::Duration::from_millis(*millis)))
                .unwrap_or_else(|| Err((mismatch().0, guess_fix(units::duration_guess(text), shape, key))))
        }
        Shape::Size(min, max) => within(units::size(text), *min, *max, key, |bytes| units::size_text(*bytes))
            .unwrap_or_else(|| Err((mismatch().0, guess_fix(units::size_guess(text), shape, key)))),
        Shape::Object(_) | Shape::Table(..) | Shape::List(_) | Shape::OneOrMany(_) => Err(mismatch()),
        Shape::Either(alternatives) => {
            if alternatives.iter().any(|shape| check_scalar(shape, scalar, node, key).is_ok()) { Ok(()) } else { Err(mismatch()) }
        }
    }
}

/// Judges a number that could be read against its bounds; none if it could not be read.
fn within(number: Option<u64>, min: u64, max: u64, key: &str, text: impl Fn(&u64) -> String) -> Option<Result<(), Fault>> {
    let number = number?;
    Some(if number < min {
        Err((format!("`{key}` must be at least {}, not {}", text(&min), text(&number)), format!("write `{key}: {}` or more", bare(&text(&min)))))
    } else if number > max {
        Err((format!("`{key}` must be at most {}, not {}", text(&max), text(&number)), format!("write `{key}: {}` or less", bare(&text(&max)))))
    } else {
        Ok(())
    })
}

/// A size text as it may be written in a file.
fn bare(text: &str) -> &str {
    text.strip_suffix(" bytes").unwrap_or(text)
}

fn bool_fix(key: &str, text: &str) -> String {
    match text.to_lowercase().as_str() {
        "yes" | "on" | "1" | "true" => format!("write `{key}: true`"),
        "no" | "off" | "0" | "false" => format!("write `{key}: false`"),
        _ => format!("write `{key}: true` or `{key}: false`"),
    }
}

fn guess_fix(guess: Option<String>, shape: &Shape, key: &str) -> String {
    guess.map_or_else(|| example(shape, key), |guess| format!("did you mean `{key}: {guess}`?"))
}

/// What a shape expects, as part of a sentence.
pub(crate) fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Object(object) => format!("a mapping ({})", object.doc),
        Shape::Table(what, _) => format!("a mapping of `{what}`"),
        Shape::List(item) => format!("a list, each item {}", expected(item)),
        Shape::OneOrMany(item) => format!("{}, or a list of such", expected(item)),
        Shape::Text(what) | Shape::Verbatim(what) => (*what).to_owned(),
        Shape::Choice([word]) => format!("`{word}`"),
        Shape::Choice(words) => format!("one of {}", listed(words.iter().copied())),
        Shape::Int(min, max) => format!("a whole number from {min} to {max}"),
        Shape::Bool => "`true` or `false`".to_owned(),
        Shape::Duration(..) => "a duration such as `30s`, `5m` or `100ms`".to_owned(),
        Shape::Size(..) => "a size such as `64KiB`, `10MB` or plain bytes".to_owned(),
        Shape::Either(alternatives) => alternatives.iter().map(expected).collect::<Vec<_>>().join(", or "),
    }
}

/// A fix that shows how the value could be written.
fn example(shape: &Shape, key: &str) -> String {
    match shape {
        Shape::Object(object) => {
            let names: Vec<_> = object.all_fields().take(6).map(|field| format!("`{}`", field.name)).collect();
            format!("write keys below `{key}:`, such as {}", names.join(", "))
        }
        Shape::Table(what, _) => format!("write `{what}: ...` lines below `{key}:`"),
        Shape::List(_) | Shape::OneOrMany(_) => format!("write a list: `{key}: [a, b]`, or `- a` lines below it"),
        Shape::Duration(..) => format!("write a whole number and one of ms, s, m, h, d: `{key}: 30s`"),
        Shape::Size(..) => format!("write a whole number and a unit, or plain bytes: `{key}: 64KiB`"),
        Shape::Int(min, _) => format!("write digits only, without quotes: `{key}: {}`", (*min).max(1)),
        _ => format!("write `{key}: ` followed by {}", expected(shape)),
    }
}
