//! What differs between two configurations: by the name of each part, whatever the order and the files they stand in, and by what values mean (`60s` is `1m`).
//! What `shape/hiding.rs` hides is compared and never shown.
//!
//! Made from the completed trees and the table, so it knows no key. Knows nothing of what a difference does to those who are served.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::environment::FromEnvironment;
use crate::model::Config;
use crate::shape::hiding::{Hiding, REDACTED};
use crate::table::{Object, Shape};
use crate::units;
use crate::yaml::{Node, Scalar, Value};

/// Keys that name an item of a list among the others.
const NAMING: [&str; 4] = ["name", "host", "address", "srv"];

/// Most characters of a value that are shown.
const MOST_SHOWN: usize = 200;

/// A configuration that can be compared with another one.
#[derive(Debug, Clone)]
pub struct Comparable {
    root: Part,
}

/// A value of the tree.
#[derive(Debug, Clone)]
enum Part {
    /// By key; with whether the value is the default.
    Map(BTreeMap<String, (Part, bool)>),
    /// In order, each with what it is called among the others.
    List(Vec<(String, Part)>),
    Leaf(Leaf),
}

#[derive(Debug, Clone)]
struct Leaf {
    /// As people read it.
    shown: String,
    /// What it means; none of a value that somebody else hides.
    meant: Option<String>,
    /// It comes from a variable of the environment.
    is_variable: bool,
}

/// What differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Each difference, in the order of the keys.
    pub list: Vec<Change>,
    /// Values that are hidden on one side, so that nobody knows whether they differ.
    pub unknown: usize,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where: `routes.shop.upstream`. What is no plain word stands in brackets.
    pub path: String,
    /// What kind of difference.
    pub kind: ChangeKind,
    /// What was there, cut.
    pub old: Option<String>,
    /// What is there, cut.
    pub new: Option<String>,
}

/// What kind of difference it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the new one has it.
    Added,
    /// Only the old one has it.
    Removed,
    /// Both have it, with another value.
    Changed,
    /// Both have the same items in another order.
    Reordered,
}

impl Comparable {
    /// The completed tree of a configuration.
    pub(crate) fn of(object: &'static Object, root: &Node, config: &Config) -> Comparable {
        let mut root = of_object(object, root, Hiding::Queries);
        if let Part::Map(members) = &mut root
            && let Some((Part::List(routes), _)) = members.get_mut("routes")
        {
            // Routes have names also where the file gives none.
            let mut names = config.routes.iter().filter(|route| !route.is_further_path).map(|route| route.name.clone());
            routes.iter_mut().for_each(|(key, part)| part.name_routes(key, &mut names));
        }
        root.hide(&config.environment);
        Comparable { root }
    }

    /// As another process says it of itself: what its variables of the environment hold is not known here.
    pub(crate) fn of_another_process(mut self) -> Comparable {
        self.root.forget_variables();
        self
    }
}

impl Part {
    /// Forgets what variables of this process hold, where another process has its own.
    fn forget_variables(&mut self) {
        match self {
            Part::Map(members) => members.values_mut().for_each(|(part, _)| part.forget_variables()),
            Part::List(items) => items.iter_mut().for_each(|(_, part)| part.forget_variables()),
            Part::Leaf(leaf) => _ = leaf.meant.take_if(|_| leaf.is_variable),
        }
    }

    /// Gives a route its name, and the routes of a group theirs; the group is called after where it stands, which is its alone.
    fn name_routes(&mut self, key: &mut String, names: &mut impl Iterator<Item = String>) {
        let Part::Map(members) = self else { return };
        let Some((Part::List(entries), _)) = members.get_mut("in_order") else {
            return names.take(1).for_each(|name| *key = name);
        };
        entries.iter_mut().zip(names).for_each(|((key, _), name)| *key = name);
        let around = ["hosts", "listeners"]
            .into_iter()
            .filter_map(|key| Some(format!("{key} {}", members.get(key)?.0.in_words(true))));
        *key = std::iter::once("in_order".to_owned()).chain(around).collect::<Vec<_>>().join(" ");
    }

    /// Shows what variables of the environment put in by their names.
    fn hide(&mut self, environment: &FromEnvironment) {
        match self {
            Part::Map(members) => members.values_mut().for_each(|(part, _)| part.hide(environment)),
            Part::List(items) => items.iter_mut().for_each(|(_, part)| part.hide(environment)),
            Part::Leaf(leaf) => leaf.shown = environment.hide(&leaf.shown),
        }
    }
}

fn of_value(shape: &'static Shape, node: &Node, hiding: Hiding) -> Part {
    let nothing = || Part::Leaf(Leaf { shown: String::new(), meant: Some(String::new()), is_variable: false });
    match (shape, &node.value) {
        (Shape::Object(object), Value::Map(_)) => of_object(object, node, hiding),
        (Shape::Table(_, value), Value::Map(entries)) => {
            let members = entries.iter().map(|entry| {
                let part = of_value(value, &entry.value, hiding.of_entry(value, &entry.key));
                (entry.key.clone(), (part, false))
            });
            Part::Map(members.collect())
        }
        (Shape::List(item), Value::List(_)) => of_list(item, node, hiding),
        (Shape::OneOrMany(item), _) => of_list(item, node, hiding),
        (Shape::Either(alternatives), Value::Map(_)) => {
            match alternatives.iter().find(|shape| matches!(shape, Shape::Object(_) | Shape::Table(..))) {
                Some(shape) => of_value(shape, node, hiding),
                None => nothing(),
            }
        }
        (Shape::Either(alternatives), Value::List(_)) => {
            match alternatives.iter().find(|shape| matches!(shape, Shape::List(_) | Shape::OneOrMany(_))) {
                Some(shape) => of_value(shape, node, hiding),
                None => Part::List(Vec::new()),
            }
        }
        (_, Value::Scalar(scalar)) => {
            let shown = hiding.shown(shape, &scalar.text).into_owned();
            let meant = Some(meaning(shape, scalar)).filter(|meant| !meant.contains(HIDDEN));
            Part::Leaf(Leaf { shown, meant, is_variable: scalar.written.is_some() })
        }
        _ => nothing(),
    }
}

fn of_object(object: &'static Object, node: &Node, hiding: Hiding) -> Part {
    let entries = node.entries();
    let member = |name: &'static str, shape: &'static Shape| {
        let entry = entries.iter().find(|entry| entry.key == name)?;
        let part = of_value(shape, &entry.value, hiding.of_key(object, name));
        Some((name.to_owned(), (part, entry.is_default)))
    };
    Part::Map(object.all_fields().filter_map(|field| member(field.name, &field.shape)).collect())
}

/// The items, each called by what names it, or by what it says.
fn of_list(shape: &'static Shape, node: &Node, hiding: Hiding) -> Part {
    let mut items: Vec<(String, Part)> = Vec::new();
    for (index, item) in node.one_or_many().iter().enumerate() {
        let part = of_value(shape, item, hiding.of_item(index));
        let name = NAMING.iter().find_map(|key| item.get(key)?.text());
        let mut key = name.map_or_else(|| part.in_words(true), str::to_owned);
        let again = items.iter().filter(|(other, _)| *other == key).count();
        if again > 0 {
            key = format!("{key}#{}", again + 1);
        }
        items.push((key, part));
    }
    Part::List(items)
}

/// What stands for a hidden value in a text that is to be read again.
const HIDDEN: &str = "hidden-by-the-running-process";

impl Comparable {
    /// The text of a running process for reading it again: what it hides is marked as such, each value in its own way, since they may not be the same.
    pub(crate) fn readable(effective: &str) -> String {
        let mut pieces = effective.split(REDACTED).enumerate();
        let mut text = pieces.next().map_or(String::new(), |(_, first)| first.to_owned());
        text.extend(pieces.map(|(number, rest)| format!("{HIDDEN}-{number}{rest}")));
        text
    }
}

/// What a scalar means where this shape is asked for: the same text for `60s` and `1m`.
fn meaning(shape: &Shape, scalar: &Scalar) -> String {
    let text = &scalar.text;
    let amount = match shape {
        Shape::Duration(..) => units::duration(text).map(|duration| format!("{} ms", duration.as_millis())),
        Shape::Size(..) | Shape::Int(..) => units::size(text).map(|size| size.to_string()),
        Shape::Bool => Some(text.to_ascii_lowercase()),
        Shape::Either(alternatives) => alternatives
            .iter()
            .filter(|shape| !matches!(shape, Shape::Bool) || scalar.is_bool())
            .map(|shape| meaning(shape, scalar))
            .find(|meant| meant != text),
        _ => None,
    };
    amount.unwrap_or_else(|| text.clone())
}

impl Part {
    /// A collection of its kind without anything in it.
    fn emptied(&self) -> Option<Part> {
        match self {
            Part::Map(_) => Some(Part::Map(BTreeMap::new())),
            Part::List(_) => Some(Part::List(Vec::new())),
            Part::Leaf(_) => None,
        }
    }

    /// The value in one line, but for defaults; `whole`: not cut.
    fn in_words(&self, whole: bool) -> String {
        let mut out = String::new();
        self.write(&mut out);
        if !whole && out.chars().count() > MOST_SHOWN {
            out = out.chars().take(MOST_SHOWN).collect();
            out.push('…');
        }
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Part::Leaf(leaf) => write_text(&leaf.shown, out),
            Part::List(items) => {
                out.push('[');
                for (at, (_, item)) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    item.write(out);
                }
                out.push(']');
            }
            Part::Map(members) => {
                out.push_str("{ ");
                let written = members.iter().filter(|(_, (_, is_default))| !is_default);
                for (at, (key, (value, _))) in written.enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    write_text(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push_str(" }");
            }
        }
    }
}

/// A text, in quotes unless it is plain.
fn write_text(text: &str, out: &mut String) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/*:%+@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        out.push_str(text);
    } else {
        // Writing to a String cannot fail.
        let _ = write!(out, "{}", serde_json::Value::from(text));
    }
}

/// What differs between an old configuration and a new one.
pub fn changes(old: &Comparable, new: &Comparable) -> Changes {
    let mut changes = Changes::default();
    changes.compare("", Some(&old.root), Some(&new.root));
    changes
}

impl Changes {
    fn compare(&mut self, path: &str, old: Option<&Part>, new: Option<&Part>) {
        // Of a section that is new or gone, each part is.
        let is_section = !path.contains(['.', '[']);
        let empty = old.or(new).filter(|_| is_section).and_then(Part::emptied);
        let (old, new) = (old.or(empty.as_ref()), new.or(empty.as_ref()));
        match (old, new) {
            (Some(Part::Map(old)), Some(Part::Map(new))) => {
                let mut keys: Vec<&String> =
                    old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))).collect();
                keys.sort();
                for key in keys {
                    self.compare(
                        &below(path, key),
                        old.get(key).map(|(part, _)| part),
                        new.get(key).map(|(part, _)| part),
                    );
                }
            }
            (Some(Part::List(old)), Some(Part::List(new))) => self.compare_lists(path, old, new),
            (Some(Part::Leaf(old)), Some(Part::Leaf(new))) => match (&old.meant, &new.meant) {
                (Some(one), Some(other)) if one == other => {}
                (Some(_), Some(_)) => self.note(
                    path,
                    ChangeKind::Changed,
                    &[Some(&Part::Leaf(old.clone())), Some(&Part::Leaf(new.clone()))],
                ),
                _ => self.unknown += 1,
            },
            (Some(_), Some(_)) => self.note(path, ChangeKind::Changed, &[old, new]),
            (Some(_), None) => self.note(path, ChangeKind::Removed, &[old, None]),
            (None, Some(_)) => self.note(path, ChangeKind::Added, &[None, new]),
            (None, None) => {}
        }
    }

    fn compare_lists(&mut self, path: &str, old: &[(String, Part)], new: &[(String, Part)]) {
        let find = |list: &'_ [(String, Part)], key: &str| list.iter().position(|(other, _)| other == key);
        for (key, part) in old {
            let other = find(new, key).and_then(|at| new.get(at)).map(|(_, part)| part);
            self.compare(&below(path, key), Some(part), other);
        }
        for (key, part) in new.iter().filter(|(key, _)| find(old, key).is_none()) {
            self.compare(&below(path, key), None, Some(part));
        }
        let kept: Vec<usize> = old.iter().filter_map(|(key, _)| find(new, key)).collect();
        // Lists at the top are sets: the most specific route wins, wherever it stands.
        let is_set = !path.contains(['.', '[']);
        if !is_set && !kept.is_sorted() {
            let keys =
                |list: &[(String, Part)]| list.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", ");
            let (old, new) = (Some(keys(old)), Some(keys(new)));
            self.list.push(Change { path: path.to_owned(), kind: ChangeKind::Reordered, old, new });
        }
    }

    fn note(&mut self, path: &str, kind: ChangeKind, sides: &[Option<&Part>; 2]) {
        let [old, new] = sides.map(|part| part.map(|part| part.in_words(false)));
        self.list.push(Change { path: path.to_owned(), kind, old, new });
    }
}

/// The path of a member, or of an item.
fn below(path: &str, key: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match (path.is_empty(), !key.is_empty() && key.chars().all(is_word)) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => {
            let cut: String = key.chars().take(MOST_SHOWN).collect();
            format!("{path}[{}]", cut.escape_debug())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::path::Path;

    use super::*;
    use crate::parse_comparable;

    const BASE: &str = "listeners: [{ name: http, bind: ':8080' }]\n";

    fn read(text: &str) -> Comparable {
        parse_comparable("a.yaml", &format!("{BASE}{text}"), Path::new("/")).unwrap().1
    }

    /// `expected`: a line for each difference, and `?` with the number of those that nobody knows.
    fn check(old: &str, new: &str, expected: &[&str]) {
        let changes = changes(&read(old), &read(new));
        let shown = |value: &Option<String>| value.clone().unwrap_or_default();
        let mut lines: Vec<String> = changes
            .list
            .iter()
            .map(|change| match change.kind {
                ChangeKind::Added => format!("+ {} {}", change.path, shown(&change.new)),
                ChangeKind::Removed => format!("- {} {}", change.path, shown(&change.old)),
                ChangeKind::Changed => format!("~ {} {} -> {}", change.path, shown(&change.old), shown(&change.new)),
                ChangeKind::Reordered => format!("^ {} {} -> {}", change.path, shown(&change.old), shown(&change.new)),
            })
            .collect();
        lines.extend((changes.unknown > 0).then(|| format!("? {}", changes.unknown)));
        assert_eq!(lines, expected, "{old} / {new}");
    }

    #[test]
    fn parts_are_compared_by_name_and_values_by_meaning() {
        let ok = "routes: [{ respond: { status: 200 } }]\n";
        check(ok, ok, &[]);
        let routes = |list: &str| {
            format!("upstreams: {{ a: {{ servers: 'x:1' }}, b: {{ servers: 'y:1' }} }}\nroutes: [{list}]\n")
        };
        let (a, b) = ("{ name: a, path: /a, upstream: a }", "{ path: '/{x}', upstream: b }");
        check(&routes(&format!("{a}, {b}")), &routes(&format!("{b}, {a}")), &[]);
        check(
            &routes(&format!("{a}, {b}")),
            &routes(&format!("{}, {}", a.replace("/a", "[/a, /c]"), b.replace("b }", "a }"))),
            &["+ routes.a.path[/c] /c", "~ routes[*/{x}].upstream b -> a"],
        );
        check(
            &routes(&format!("{a}, {b}")),
            &routes(b).replace("y:1", "y:2"),
            &[
                "- routes.a { name: a, path: [/a], upstream: a }",
                "- upstreams.b.servers[y:1] y:1",
                "+ upstreams.b.servers[y:2] y:2",
            ],
        );
    }

    #[test]
    fn order_counts_where_it_decides() {
        let with = |list: &str| {
            format!(
                "policies: {{ a: {{ allow: 10.0.0.0/8 }}, b: {{ rate_limit: {{ rate: 1/s, burst: 1 }} }} }}\nroutes: [{{ name: r, respond: {{ status: 200 }}, policies: {list} }}]\n"
            )
        };
        check(&with("[a, b]"), &with("[b, a]"), &["^ routes.r.policies a, b -> b, a"]);
        check(&with("a"), &with("[a]"), &[]);
        check(&with("a"), &with("[a, b]"), &["+ routes.r.policies.b b"]);
    }

    #[test]
    fn values_that_mean_the_same_are_the_same() {
        let with = |text: &str| format!("routes: [{{ respond: {{ status: 200 }} }}]\nlimits: {{ {text} }}\n");
        check(&with("keep_alive_timeout: 60s"), &with("keep_alive_timeout: 1m"), &[]);
        check(&with("max_body: 1MiB"), &with("max_body: 1048576"), &[]);
        check(&with("max_body: 1MiB"), &with("max_body: 2MiB"), &["~ limits.max_body 1MiB -> 2MiB"]);
        // A default that is written out is no difference.
        check(
            "routes: [{ name: r, respond: { status: 200 } }]\n",
            "routes: [{ name: r, respond: { status: 200 }, policies: p }]\npolicies: { p: { allow: 10.0.0.0/8 } }\n",
            &["+ policies.p { allow: [10.0.0.0/8] }", "+ routes.r.policies [p]"],
        );
        check("routes: [{ respond: { status: 200 } }]\n", &with("max_headers: 100"), &[]);
    }

    #[test]
    fn credentials_are_compared_and_not_shown() {
        let with = |value: &str| {
            format!(
                "upstreams: {{ a: {{ servers: 'x:1' }} }}\nroutes: [{{ name: r, upstream: a, request_headers: {{ set: {{ Authorization: '{value}' }} }} }}]\n"
            )
        };
        let path = "routes.r.request_headers.set.Authorization";
        let shown = format!("~ {path} \"(redacted)\" -> \"(redacted)\"");
        check(&with("Basic one"), &with("Basic two"), &[&shown]);
        check(&with("Basic one"), &with("Basic one"), &[]);
        let running = Comparable::readable("\"(redacted)\"");
        check(&with(running.trim_matches('"')), &with("Basic two"), &["? 1"]);
    }
}
