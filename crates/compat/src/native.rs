//! A native configuration as it is made: an ordered tree of YAML with comments, and its text.
//!
//! Writes what it is given; whether that is a configuration is for the reader of configurations to say.

use std::fmt::Write as _;

/// Widest line of what may stand in one.
const MAX_LINE: usize = 120;
/// Longest comment, characters.
const MAX_COMMENT: usize = 400;
/// The longest time that settings take.
const MAX_TIME: u64 = 86_400_000;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A number or a switch.
    Plain(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// A mapping.
    Map(Map),
}

/// A mapping in the order in which it was made, and comments that stand before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map {
    comments: Vec<String>,
    entries: Vec<(String, Value)>,
}

/// Comments make no difference.
impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        self.entries == other.entries
    }
}

impl Value {
    fn holds(&self, character: char) -> bool {
        match self {
            Value::Plain(_) => false,
            Value::Text(text) => text.contains(character),
            Value::List(list) => list.iter().any(|item| item.holds(character)),
            Value::Map(map) => map.holds(character),
        }
    }

    /// Text.
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    /// A list of texts; one alone stands without a list.
    pub(crate) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Value {
        let mut all: Vec<Value> = texts.into_iter().map(Value::text).collect();
        match all.len() {
            1 => all.remove(0),
            _ => Value::List(all),
        }
    }

    /// A number or a switch.
    pub(crate) fn plain(value: impl ToString) -> Value {
        Value::Plain(value.to_string())
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Value {
        Value::Map(map)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::text(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl Map {
    /// A mapping of these.
    pub(crate) fn of<const N: usize>(entries: [(&str, Value); N]) -> Map {
        let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Map { comments: Vec::new(), entries }
    }

    /// Sets a key.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.entries.push((key.to_owned(), value)),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Changes the mapping under a key, made if there is none.
    pub(crate) fn update(&mut self, key: &str, change: impl FnOnce(&mut Map)) {
        let mut map = match self.get(key) {
            Some(Value::Map(map)) => map.clone(),
            _ => Map::default(),
        };
        change(&mut map);
        self.set(key, map);
    }

    /// Changes the mapping under a key, if there is one.
    pub(crate) fn update_if(&mut self, key: &str, change: impl FnOnce(&mut Map)) {
        if let Some((_, Value::Map(map))) = self.entries.iter_mut().find(|(name, _)| name == key) {
            change(map);
        }
    }

    /// Takes a key away.
    pub(crate) fn remove(&mut self, key: &str) {
        self.entries.retain(|(name, _)| name != key);
    }

    /// Adds to the list under a key.
    pub(crate) fn push(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, Value::List(list))) => list.push(value),
            Some((_, other)) => *other = Value::List(vec![other.clone(), value]),
            None => self.entries.push((key.to_owned(), Value::List(vec![value]))),
        }
    }

    /// Whether a text in it has this character.
    pub(crate) fn holds(&self, character: char) -> bool {
        self.entries().any(|(_, value)| value.holds(character))
    }

    /// Whether nothing stands in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its keys and values.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Puts a comment before it, once.
    pub(crate) fn comment(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.comments.contains(&text) {
            self.comments.push(text);
        }
    }

    /// The comments before it.
    pub(crate) fn comments(&self) -> &[String] {
        &self.comments
    }

    /// Takes the comments of another one before its own.
    pub(crate) fn comment_first(&mut self, comments: &[String]) {
        let own = std::mem::take(&mut self.comments);
        comments.iter().chain(&own).for_each(|comment| self.comment(comment.as_str()));
    }

    /// The text, each part of the file with its comments before it.
    pub(crate) fn write(&self) -> String {
        let mut out = String::new();
        write_comments(&self.comments, 0, &mut out);
        write_entries(&self.entries, 0, &mut out);
        out
    }
}

/// A duration as it is written natively, from milliseconds.
pub(crate) fn duration(milliseconds: u64) -> String {
    let milliseconds = milliseconds.min(MAX_TIME);
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let whole = units.iter().find(|(_, unit)| milliseconds >= *unit && milliseconds.is_multiple_of(*unit));
    whole.map_or(format!("{milliseconds}ms"), |(name, unit)| format!("{}{name}", milliseconds / unit))
}

/// A size as it is written natively.
pub(crate) fn bytes(size: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let whole = units.iter().find(|(_, unit)| size >= *unit && size.is_multiple_of(*unit));
    whole.map_or(format!("{size}B"), |(name, unit)| format!("{}{name}", size / unit))
}

fn write_comments(comments: &[String], indent: usize, out: &mut String) {
    for comment in comments {
        let plain: String = comment.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_COMMENT).collect();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{:indent$}# {}", "", plain.trim_end());
    }
}

fn write_entries(entries: &[(String, Value)], indent: usize, out: &mut String) {
    for (key, value) in entries {
        if let Value::Map(map) = value {
            write_comments(&map.comments, indent, out);
        }
        let _ = write!(out, "{:indent$}{}:", "", scalar(key));
        write_value(value, indent + 2, key.len() + 1, out);
    }
}

/// Writes a value behind its key, or behind the dash of a list. `before` is what stands before it in its line.
fn write_value(value: &Value, indent: usize, before: usize, out: &mut String) {
    // What a file is made of has lines of its own.
    let is_section = indent == 2 && matches!(value, Value::Map(map) if !map.is_empty());
    let of_maps = matches!(value, Value::List(list) if list.iter().any(|item| matches!(item, Value::Map(_))));
    if let Some(line) = inline(value).filter(|line| !is_section && !of_maps && indent + before + line.len() <= MAX_LINE)
    {
        let _ = writeln!(out, " {line}");
        return;
    }
    match value {
        Value::Map(map) => {
            out.push('\n');
            write_entries(&map.entries, indent, out);
        }
        Value::List(list) => {
            out.push('\n');
            list.iter().for_each(|item| write_item(item, indent, out));
        }
        Value::Plain(_) | Value::Text(_) => {
            let _ = writeln!(out, " {}", inline(value).unwrap_or_default());
        }
    }
}

fn write_item(item: &Value, indent: usize, out: &mut String) {
    if let Value::Map(map) = item {
        write_comments(&map.comments, indent, out);
    }
    match (item, inline(item).filter(|line| indent + 2 + line.len() <= MAX_LINE)) {
        (_, Some(line)) => _ = writeln!(out, "{:indent$}- {line}", ""),
        (Value::Map(map), None) => {
            let mut text = String::new();
            write_entries(&map.entries, indent + 2, &mut text);
            // The first key stands behind the dash, unless a comment stands before it.
            match text.trim_start().starts_with('#') {
                true => _ = write!(out, "{:indent$}-\n{text}", ""),
                false => _ = write!(out, "{:indent$}- {}", "", text.trim_start()),
            }
        }
        (other, None) => {
            let _ = write!(out, "{:indent$}-", "");
            write_value(other, indent + 2, 0, out);
        }
    }
}

/// A value in one line, if no comment stands in it.
fn inline(value: &Value) -> Option<String> {
    match value {
        Value::Plain(text) => Some(text.clone()),
        Value::Text(text) => Some(scalar(text)),
        Value::List(list) => {
            let items: Option<Vec<String>> =
                list.iter().map(|item| inline(item).filter(|_| !has_comments(item))).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) if map.is_empty() => Some("{}".to_owned()),
        Value::Map(map) => {
            let entry = |(key, value): &(String, Value)| {
                inline(value).filter(|_| !has_comments(value)).map(|value| format!("{}: {value}", scalar(key)))
            };
            let entries: Option<Vec<String>> = map.entries.iter().map(entry).collect();
            Some(format!("{{ {} }}", entries?.join(", ")))
        }
    }
}

fn has_comments(value: &Value) -> bool {
    matches!(value, Value::Map(map) if !map.comments.is_empty())
}

/// A text as it may stand anywhere: as it is if YAML takes it for text, else in quotes. A reference to the environment is text, too.
pub(crate) fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && text.chars().all(is_plain);
    let is_word = is_word || is_quantity(text);
    let is_taken = matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "inf" | "nan"
    );
    if is_word && !is_taken {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.replace("${", "$${").chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a text is a number with a unit: `30s`, `1MiB`, `10/m`.
fn is_quantity(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let units = ["ms", "s", "m", "h", "d", "B", "KiB", "MiB", "GiB", "TiB", "/s", "/m", "/h"];
    unit.len() < text.len() && units.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars() {
        for (text, expected) in [
            ("app", "app"),
            ("/a/b.c", "/a/b.c"),
            ("10.0.0.1", "\"10.0.0.1\""),
            ("127.0.0.1:80", "\"127.0.0.1:80\""),
            ("no", "\"no\""),
            ("30s", "30s"),
            ("1MiB", "1MiB"),
            ("12", "\"12\""),
            ("1e5", "\"1e5\""),
            ("", "\"\""),
            ("/{*rest}", "\"/{*rest}\""),
            ("a\"b\\c\n\u{7f}", "\"a\\\"b\\\\c\\n\\u007F\""),
            ("${HOME}", "\"$${HOME}\""),
            ("é", "\"é\""),
        ] {
            assert_eq!(scalar(text), expected);
        }
    }

    #[test]
    fn a_file() {
        let mut root = Map::default();
        root.comment("Made\nby");
        let mut route = Map::of([("path", Value::text("/{*rest}")), ("upstream", Value::text("app"))]);
        route.comment("nginx.conf:3: location /");
        let long = Map::of([
            ("hosts", Value::texts(["a.example.com", "b.example.com", "c.example.com"])),
            ("path", Value::texts(["/aaaaaaaaaaaaaaaaaaaaaaaaaaa", "/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"])),
        ]);
        root.push("routes", route);
        root.push("routes", long);
        let mut app = Map::of([("servers", Value::List(vec![Value::text("127.0.0.1:80")]))]);
        app.comment("nginx.conf:1");
        root.update("upstreams", |upstreams| upstreams.set("app", app));
        root.set("workers", Value::plain(4));
        let expected = "\
# Made by
routes:
  # nginx.conf:3: location /
  - { path: \"/{*rest}\", upstream: app }
  - hosts: [a.example.com, b.example.com, c.example.com]
    path: [/aaaaaaaaaaaaaaaaaaaaaaaaaaa, /bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb]
upstreams:
  # nginx.conf:1
  app: { servers: [\"127.0.0.1:80\"] }
workers: 4
";
        assert_eq!(root.write(), expected);
    }
}
