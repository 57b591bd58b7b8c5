//! The reference `docs/configuration.md`, from the shape: a table per object with type, default and meaning.
//!
//! The prose before the tables is `reference_intro.txt`.

use std::fmt::Write as _;

use super::surface::OBJECTS;
use super::surface::fleet::FLEET_OBJECTS;
use super::surface::key_server::KEY_SERVER_OBJECTS;
use crate::limits::FIXED;
use crate::table::{Field, Object, Shape};

/// The whole page, in Markdown.
pub fn reference() -> String {
    let mut page = page_of(include_str!("reference_intro.txt"), OBJECTS);
    fixed_bounds(&mut page);
    page
}

/// The bounds that no file sets.
fn fixed_bounds(page: &mut String) {
    page.push_str("\n## Fixed bounds\n\nWhat a peer can reach and no setting changes, by the peer.\n");
    for group in FIXED {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n### {}\n\n| what | bound | reason |\n|---|---|---|\n", group.peer);
        for bound in group.bounds {
            let _ = writeln!(page, "| {} | {} | {} |", bound.name, bound.value, bound.reason);
        }
    }
}

/// The reference of a key server's file, `docs/key-server-configuration.md`.
pub fn key_server_reference() -> String {
    page_of(include_str!("key_server_intro.txt"), KEY_SERVER_OBJECTS)
}

/// The reference of the file of a node of a fleet, `docs/fleet-configuration.md`.
pub fn fleet_reference() -> String {
    page_of(include_str!("fleet_intro.txt"), FLEET_OBJECTS)
}

fn page_of(intro: &str, objects: &[&Object]) -> String {
    let mut page = intro.to_owned();
    for object in objects {
        section(object, objects, &mut page);
    }
    page
}

/// Whether it is the first of the objects: the file itself.
fn is_root(object: &Object, objects: &[&Object]) -> bool {
    objects.first().is_some_and(|root| std::ptr::eq(*root, object))
}

fn section(object: &Object, objects: &[&Object], page: &mut String) {
    let title = if is_root(object, objects) { "The file" } else { object.name };
    // Writing to a String cannot fail.
    let _ = write!(page, "\n### {title}\n\n{}.", sentence(object.doc));
    let used: Vec<String> = objects
        .iter()
        .flat_map(|user| {
            let fields = user.all_fields().filter(|field| uses(&field.shape, object));
            fields.map(|field| place(user, is_root(user, objects), field))
        })
        .collect();
    if !used.is_empty() {
        let _ = write!(page, " Used by {}.", used.join(", "));
    }
    if !object.one_of.is_empty() {
        let names: Vec<_> = object.one_of.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(page, " Exactly one of {} must be there.", names.join(", "));
    }
    page.push_str("\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for field in object.all_fields() {
        let default = match field.default {
            _ if field.required => "**required**".to_owned(),
            "" => "one of these".to_owned(),
            text if text.starts_with('(') => text.trim_matches(['(', ')']).to_owned(),
            text => format!("`{text}`"),
        };
        let _ = writeln!(page, "| `{}` | {} | {default} | {} |", field.name, kind(&field.shape), field.doc);
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn place(user: &Object, is_root: bool, field: &Field) -> String {
    if is_root { format!("`{}`", field.name) } else { format!("`{}` of [{}]({})", field.name, user.name, anchor(user)) }
}

/// The anchor that Markdown renderers give a heading: dots go.
fn anchor(object: &Object) -> String {
    format!("#{}", object.name.replace('.', "").replace(' ', "-"))
}

fn uses(shape: &Shape, object: &Object) -> bool {
    match shape {
        Shape::Object(used) => std::ptr::eq(*used, object),
        Shape::Table(_, inner) | Shape::List(inner) | Shape::OneOrMany(inner) => uses(inner, object),
        Shape::Either(alternatives) => alternatives.iter().any(|shape| uses(shape, object)),
        _ => false,
    }
}

/// A shape in a table cell.
fn kind(shape: &Shape) -> String {
    match shape {
        Shape::Object(object) => format!("[{}]({})", object.name, anchor(object)),
        Shape::Table(name, value) => format!("{name} → {}", kind(value)),
        Shape::List(item) => format!("list of {}", kind(item)),
        Shape::OneOrMany(item) => format!("{}, or a list of such", kind(item)),
        Shape::Text(what) | Shape::Verbatim(what) => (*what).to_owned(),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Int(min, max) => format!("number, {min} to {max}"),
        Shape::Bool => "`true`, `false`".to_owned(),
        Shape::Duration(..) => "duration".to_owned(),
        Shape::Size(..) => "size".to_owned(),
        Shape::Either(alternatives) => alternatives.iter().map(kind).collect::<Vec<_>>().join(", or "),
    }
}
