//! Writes a value as YAML that people read: blocks, names without quotes where they need none. Reads nothing.

use crate::node::{Kind, Node};

/// Appends a value that is an object, from the first column.
pub(super) fn write(node: &Node, out: &mut String) {
    members(node, 0, out);
}

/// Text for a comment: one line.
pub(super) fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') { ' ' } else { c })
        .collect()
}

fn members(node: &Node, indent: usize, out: &mut String) {
    for (key, value) in node.members() {
        out.extend(std::iter::repeat_n(' ', indent));
        name(&key.text, out);
        out.push(':');
        below(value, indent, out);
    }
}

/// What follows a name or a dash.
fn below(value: &Node, indent: usize, out: &mut String) {
    match &value.kind {
        Kind::Object(list) if !list.is_empty() => {
            out.push('\n');
            members(value, indent + 2, out);
        }
        Kind::Array(elements) if elements.iter().any(|element| !element.members().is_empty()) => {
            out.push('\n');
            for element in elements {
                let start = out.len() + indent + 2;
                match element.members().is_empty() {
                    true => {
                        out.extend(std::iter::repeat_n(' ', indent + 3));
                        below(element, indent + 2, out);
                    }
                    false => members(element, indent + 4, out),
                }
                // The dash stands in the blanks before the first member.
                out.replace_range(start..=start, "-");
            }
        }
        _ => {
            out.push(' ');
            inline(value, out);
            out.push('\n');
        }
    }
}

fn inline(value: &Node, out: &mut String) {
    match &value.kind {
        Kind::Null => out.push_str("null"),
        Kind::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Kind::Number(text) => out.push_str(text),
        Kind::String(text) => name(text, out),
        Kind::Array(elements) => {
            out.push('[');
            for (number, element) in elements.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                inline(element, out);
            }
            out.push(']');
        }
        Kind::Object(_) => out.push_str("{}"),
    }
}

/// A text without quotes, where it is nothing else in YAML's core schema; else in double quotes.
fn name(text: &str, out: &mut String) {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '$'))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '{' | '}' | '-' | '$'))
        && text.len() < 100
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word));
    // Within brackets, braces mean something.
    if is_plain && (text.starts_with('/') || !text.contains(['{', '}'])) {
        return out.push_str(text);
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c if u32::from(c) > 0xffff => out.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    out.push('"');
}
