//! YAML text to a tree in which every key and value knows where it stands. JSON is YAML.
//!
//! Variables of the environment are put into scalars here (`environment.rs`). Bounded in size, nodes and depth. Anchors, aliases, merge keys, tags, duplicate keys and several documents are rejected: a configuration says
//! what it says, once. Knows nothing of what the keys mean (that is `shape.rs`).

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span as YamlSpan};

use super::environment::{self, FromEnvironment};
use super::problem::{Collector, Span, shown};

/// Largest file, bytes. A generated file beyond it is a fault of the generator.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Most nodes (keys, values, lists, mappings) in a file.
const MAX_NODES: usize = 200_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// A value and where it stands. A collection's span is its opening bracket or first key.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub value: Value,
}

/// What a value is.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A scalar.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in file order.
    Map(Vec<Entry>),
    /// Something rejected, reported already.
    Rejected,
}

/// A scalar as written.
#[derive(Debug, Clone)]
pub struct Scalar {
    /// Its text after unquoting.
    pub text: String,
    /// Written without quotes, so numbers and booleans are meant as such.
    pub plain: bool,
    /// As the file has it, where variables of the environment were put in.
    pub(crate) written: Option<Box<Written>>,
}

/// A scalar before variables of the environment were put in.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    /// Its text, with the names of the variables.
    pub(crate) text: String,
    /// One of them may hold a secret.
    pub(crate) is_hidden: bool,
}

/// One key of a mapping with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key's text after unquoting.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// Its value.
    pub value: Node,
    /// It stands in the file.
    pub is_written: bool,
    /// Its value is the default, whether it was written or not.
    pub is_default: bool,
    /// What is written does not fit, which was reported; the default stands in for it.
    pub is_replaced: bool,
}

impl Entry {
    /// A key that stands in no file, at its default.
    pub fn at_default(key: &str, key_span: Span, value: Node) -> Entry {
        Entry { key: key.to_owned(), key_span, value, is_written: false, is_default: true, is_replaced: false }
    }
}

impl Node {
    /// The value of a key, if this is a mapping that has it; once defaults are filled in, also a default.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Takes a key away, if this is a mapping that has it.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Value::Map(entries) = &mut self.value {
            entries.retain(|entry| entry.key != key);
        }
    }

    /// Whether this is a mapping with a value under this key that does not fit.
    pub fn is_replaced(&self, key: &str) -> bool {
        self.entries().iter().any(|entry| entry.key == key && entry.is_replaced)
    }

    /// The entry of a key, if this is a mapping that sets it to something else than its default.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key && !entry.is_default)
    }

    /// The entries of a mapping; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The items of a list, or the one scalar or mapping itself.
    pub fn one_or_many(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            Value::Scalar(_) | Value::Map(_) => std::slice::from_ref(self),
            Value::Null | Value::Rejected => &[],
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// What this is, for messages.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Scalar(scalar) if scalar.is_number() => format!("the number {}", shown(&scalar.text)),
            Value::Scalar(scalar) if scalar.is_bool() => shown(&scalar.text),
            Value::Scalar(scalar) => format!("the text {}", shown(&scalar.text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
            Value::Rejected => "something unusable".to_owned(),
        }
    }
}

impl Scalar {
    /// A plain `true` or `false` (YAML 1.2.2 §10.3.2).
    pub fn is_bool(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
    }

    /// A plain scalar that the core schema reads as a number (YAML 1.2.2 §10.3.2).
    pub fn is_number(&self) -> bool {
        let text = self.text.as_str();
        let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        self.plain
            && (text.strip_prefix("0x").is_some_and(|rest| digits(rest, 16))
                || text.strip_prefix("0o").is_some_and(|rest| digits(rest, 8))
                || matches!(unsigned.to_ascii_lowercase().as_str(), ".inf" | ".nan")
                || (unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && unsigned.parse::<f64>().is_ok()))
    }
}

/// Reads one document. What is wrong goes to `problems`; none if nothing can be made of the text.
pub fn parse(text: &str, problems: &mut Collector) -> Option<Node> {
    parse_file(text, 0, problems)
}

/// Reads one document, which is the file of this number.
pub(crate) fn parse_file(text: &str, file: u16, problems: &mut Collector) -> Option<Node> {
    if let Some(span) = first_control(text) {
        let span = Span { file, ..span };
        problems.add(span, "a control character stands here", "remove it; a configuration is plain UTF-8 text");
        return None;
    }
    let mut tree = Tree::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                report_scan_error(&error, text, file, problems);
                return None;
            }
        };
        if !tree.take(event, Span { file, ..span_of(&span) }, problems) {
            return None;
        }
    }
    if tree.root.is_none() && problems.is_empty() {
        let start = Span { start: 0, end: 0, line: 1, file };
        problems.add(
            start,
            "the file is empty",
            "write at least `listeners` and `routes`; see examples/gate-minimal.yaml",
        );
    }
    tree.root
}

/// The first character that YAML forbids (YAML 1.2.2 §5.1); the parser would take a NUL for the end of the file.
fn first_control(text: &str) -> Option<Span> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    // A byte order mark within the text would start another document.
    let (at, _) =
        text.chars().enumerate().find(|(_, c)| is_control(*c) || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}'))?;
    Some(Span { start: at, end: at + 1, line: 0, file: 0 })
}

fn report_scan_error(error: &saphyr_parser::ScanError, text: &str, file: u16, problems: &mut Collector) {
    let span = Span { file, ..point(error.marker()) };
    let info = error.info();
    let line = text.lines().nth(error.marker().line().saturating_sub(1)).unwrap_or_default();
    if let Some(fix) = address_fix(line) {
        problems.add(span, "an address stands here without quotes", fix);
    } else if info.contains("unknown anchor") {
        problems.add(span, "aliases (`*name`) are not allowed", "write the value out where it is needed");
    } else if info.contains("tab") {
        problems.add(span, format!("not valid YAML: {info}"), "indent with spaces");
    } else {
        problems.add(
            span,
            format!("not valid YAML: {info}"),
            "check indentation, colons and quotes here and just above",
        );
    }
}

/// The fix for a line whose value is an address in which YAML sees something else: `*:443` an alias, `[::]:443` a list.
fn address_fix(line: &str) -> Option<String> {
    let (_, value) = line.split_once(": ").or_else(|| line.split_once("- "))?;
    let value = value.trim();
    let is_port = |text: &str| !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(port) = value.strip_prefix("*:").filter(|port| is_port(port)) {
        return Some(format!("write `\":{port}\"` for this port of every address"));
    }
    let (address, port) = value.strip_prefix('[')?.split_once("]:")?;
    let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
    (is_address && is_port(port)).then(|| format!("quote an IPv6 address: `\"[{address}]:{port}\"`"))
}

fn point(marker: &Marker) -> Span {
    Span { start: marker.index(), end: marker.index() + 1, line: marker.line(), file: 0 }
}

fn span_of(span: &YamlSpan) -> Span {
    Span { end: span.end.index(), ..point(&span.start) }
}

/// A collection that is still open.
enum Open {
    List { span: Span, items: Vec<Node> },
    Map { span: Span, entries: Vec<Entry>, seen: HashMap<String, usize>, key: Option<Key> },
}

/// A key that waits for its value.
enum Key {
    Named(String, Span),
    /// Reported; the value is dropped.
    Rejected,
}

/// The tree as it grows.
#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    documents: usize,
}

impl Tree {
    /// Takes one event; false if reading is to stop.
    fn take(&mut self, event: Event<'_>, span: Span, problems: &mut Collector) -> bool {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => return true,
            Event::DocumentStart(_) => return self.start_document(span, problems),
            _ => {}
        }
        if matches!(event, Event::Scalar(..) | Event::Alias(_) | Event::SequenceStart(..) | Event::MappingStart(..)) {
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                problems.add(
                    span,
                    format!("the file has more than {MAX_NODES} values"),
                    "make it smaller; check what generated it",
                );
                return false;
            }
        }
        match event {
            Event::Alias(_) => {
                problems.add(span, "aliases (`*name`) are not allowed", "write the value out where it is needed");
                self.place(Node { span, value: Value::Rejected }, problems);
            }
            Event::Scalar(text, style, anchor, tag) => {
                reject_properties(anchor, tag.is_some(), span, problems);
                let plain = style == ScalarStyle::Plain;
                let is_null = plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
                let value = match is_null {
                    true => Value::Null,
                    false => self.scalar(Scalar { text: text.into_owned(), plain, written: None }, span, problems),
                };
                self.place(Node { span, value }, problems);
            }
            Event::SequenceStart(anchor, tag) => {
                reject_properties(anchor, tag.is_some(), span, problems);
                return self.push(Open::List { span, items: Vec::new() }, span, problems);
            }
            Event::MappingStart(anchor, tag) => {
                reject_properties(anchor, tag.is_some(), span, problems);
                let open = Open::Map { span, entries: Vec::new(), seen: HashMap::new(), key: None };
                return self.push(open, span, problems);
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(problems),
            _ => {}
        }
        true
    }

    /// A scalar with the variables of the environment in it put in, unless it is a key.
    fn scalar(&self, scalar: Scalar, span: Span, problems: &mut Collector) -> Value {
        if matches!(self.open.last(), Some(Open::Map { key: None, .. })) {
            return Value::Scalar(scalar);
        }
        let get = |name: &str| std::env::var(name).ok();
        match environment::substituted(&scalar.text, get) {
            Ok(None) => Value::Scalar(scalar),
            // What is nothing but a variable may be a number or a boolean, between quotes, too.
            Ok(Some(text)) => {
                let is_whole = scalar.text.starts_with("${") && scalar.text.find('}') == Some(scalar.text.len() - 1);
                let is_hidden = !FromEnvironment::of([scalar.text.as_str()].into_iter(), get).is_empty();
                let written = text != scalar.text && scalar.text != text.replace("${", "$${");
                let written = written.then(|| Box::new(Written { text: scalar.text, is_hidden }));
                Value::Scalar(Scalar { text, plain: scalar.plain || is_whole, written })
            }
            Err((what, fix)) => {
                problems.add(span, what, fix);
                Value::Rejected
            }
        }
    }

    fn start_document(&mut self, span: Span, problems: &mut Collector) -> bool {
        self.documents += 1;
        if self.documents > 1 {
            problems.add(span, "a second document starts here", "keep one document per file; remove the `---` line");
        }
        self.documents == 1
    }

    fn push(&mut self, open: Open, span: Span, problems: &mut Collector) -> bool {
        if self.open.len() >= MAX_DEPTH {
            problems.add(
                span,
                format!("nested deeper than {MAX_DEPTH} levels"),
                "no configuration needs this; check what generated it",
            );
            return false;
        }
        self.open.push(open);
        true
    }

    fn close(&mut self, problems: &mut Collector) {
        let node = match self.open.pop() {
            Some(Open::List { span, items }) => Node { span, value: Value::List(items) },
            Some(Open::Map { span, entries, .. }) => {
                let span =
                    if span.start == span.end { entries.first().map_or(span, |entry| entry.key_span) } else { span };
                Node { span, value: Value::Map(entries) }
            }
            None => return,
        };
        self.place(node, problems);
    }

    /// Puts a finished node where it belongs: an item, a key, a value or the root.
    fn place(&mut self, node: Node, problems: &mut Collector) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, seen, key, .. }) => match key.take() {
                None => *key = Some(key_of(node, entries, seen, problems)),
                Some(Key::Named(name, key_span)) => {
                    seen.insert(name.clone(), entries.len());
                    entries.push(Entry {
                        key: name,
                        key_span,
                        value: node,
                        is_written: true,
                        is_default: false,
                        is_replaced: false,
                    });
                }
                Some(Key::Rejected) => {}
            },
        }
    }
}

fn reject_properties(anchor: usize, tagged: bool, span: Span, problems: &mut Collector) {
    if anchor != 0 {
        problems.add(
            span,
            "anchors (`&name`) are not allowed",
            "remove the anchor and write the value out where it is needed",
        );
    }
    if tagged {
        problems.add(span, "tags (`!name`) are not allowed", "remove the tag; quote the value if it is meant as text");
    }
}

/// What a node becomes as a key.
fn key_of(node: Node, entries: &[Entry], seen: &HashMap<String, usize>, problems: &mut Collector) -> Key {
    match node.value {
        Value::Scalar(scalar) if scalar.plain && scalar.text == "<<" => {
            problems.add(node.span, "merge keys (`<<`) are not allowed", "write the keys out");
            Key::Rejected
        }
        Value::Scalar(scalar) => match seen.get(&scalar.text).and_then(|at| entries.get(*at)) {
            Some(first) => {
                let what =
                    format!("the key {} is here twice, first in line {}", shown(&scalar.text), first.key_span.line);
                problems.add(node.span, what, "keep one of the two");
                Key::Rejected
            }
            None => Key::Named(scalar.text, node.span),
        },
        Value::Rejected => Key::Rejected,
        Value::Null | Value::List(_) | Value::Map(_) => {
            problems.add(
                node.span,
                "a key must be text",
                "write `key: value`; quote a value that starts with `{` or `[`",
            );
            Key::Rejected
        }
    }
}
