//! A JSON-like value in the order it was written, with the place of every part. Owns no parsing and no meaning.
//!
//! JSON Pointer is RFC 6901.

use crate::json::push_string;

/// Where something stands in a document.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct Place {
    /// Which of the loaded files, counted from 0.
    pub file: u32,
    /// Counted from 1; 0 when unknown.
    pub line: u32,
    /// In characters, counted from 1; 0 when unknown.
    pub column: u32,
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Where it begins.
    pub place: Place,
}

/// The name of a member and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// The name, escapes resolved.
    pub text: String,
    /// Where it begins.
    pub place: Place,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it was written, in JSON's grammar (RFC 8259 §6).
    Number(String),
    /// A string, escapes resolved.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object's members in the order they were written. Names are unique: the loader rejects others.
    Object(Vec<(Key, Node)>),
}

impl Node {
    /// Whether all of it stands in one line.
    pub(crate) fn is_one_line(&self) -> bool {
        let mut last = self;
        loop {
            last = match &last.kind {
                Kind::Array(items) => match items.last() {
                    Some(item) => item,
                    None => break,
                },
                Kind::Object(members) => match members.last() {
                    Some((_, value)) => value,
                    None => break,
                },
                _ => break,
            };
        }
        last.place.line == self.place.line
    }

    /// The JSON Pointer to what stands at a place, a value or the name of a member; none if nothing begins there. Its parts stand in the order of the text.
    pub(crate) fn pointer_to(&self, place: Place) -> Option<String> {
        let (mut node, mut pointer) = (self, String::new());
        while node.place != place {
            match &node.kind {
                Kind::Array(items) => {
                    let at = items.partition_point(|item| item.place <= place).checked_sub(1)?;
                    escape_pointer_token(&mut pointer, &at.to_string());
                    node = items.get(at)?;
                }
                Kind::Object(members) => {
                    let at = members.partition_point(|(key, _)| key.place <= place).checked_sub(1)?;
                    let (key, value) = members.get(at)?;
                    escape_pointer_token(&mut pointer, &key.text);
                    if key.place == place {
                        break;
                    }
                    node = value;
                }
                _ => return None,
            }
        }
        Some(pointer)
    }

    /// The member of an object; `None` for other values and other names.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entry(name).map(|(_, value)| value)
    }

    /// Name and value of a member.
    pub fn entry(&self, name: &str) -> Option<(&Key, &Node)> {
        self.members().iter().find(|(key, _)| key.text == name).map(|(key, value)| (key, value))
    }

    /// The members of an object; empty for other values.
    pub fn members(&self) -> &[(Key, Node)] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    /// The elements of an array; empty for other values.
    pub fn elements(&self) -> &[Node] {
        match &self.kind {
            Kind::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.kind {
            Kind::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// What kind of value it is, in a word for messages.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::String(_) => "a string",
            Kind::Array(_) => "an array",
            Kind::Object(_) => "an object",
        }
    }

    /// The value that a JSON Pointer leads to (RFC 6901 §4): `""` is this one, anything else begins with `/`. Percent escapes of a URI
    /// fragment must have been resolved.
    pub fn pointer(&self, pointer: &str) -> Option<&Node> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |node, token| node.step(token))
    }

    /// Appends the value as JSON text. Documents are nested no deeper than their loader lets them.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match &self.kind {
            Kind::Null => out.extend_from_slice(b"null"),
            Kind::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Kind::Number(text) => out.extend_from_slice(text.as_bytes()),
            Kind::String(text) => push_string(text.as_bytes(), out),
            Kind::Array(elements) => {
                out.push(b'[');
                for (number, element) in elements.iter().enumerate() {
                    out.extend_from_slice(if number > 0 { b"," } else { b"" });
                    element.write_json(out);
                }
                out.push(b']');
            }
            Kind::Object(members) => {
                out.push(b'{');
                for (number, (key, value)) in members.iter().enumerate() {
                    out.extend_from_slice(if number > 0 { b"," } else { b"" });
                    push_string(key.text.as_bytes(), out);
                    out.push(b':');
                    value.write_json(out);
                }
                out.push(b'}');
            }
        }
    }

    fn step(&self, token: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Object(_) if token.contains('~') => self.get(&token.replace("~1", "/").replace("~0", "~")),
            Kind::Object(_) => self.get(token),
            Kind::Array(elements) => elements.get(array_index(token)?),
            _ => None,
        }
    }
}

/// An index without sign or leading zeros (RFC 6901 §4).
fn array_index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    if plain { token.parse().ok() } else { None }
}

/// Appends `/` and the token, escaped as RFC 6901 §3 wants it.
pub fn escape_pointer_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: Kind) -> Node {
        Node { kind, place: Place::default() }
    }

    #[test]
    fn pointers_lead_where_rfc_6901_says() {
        let member = |name: &str, value: u32| {
            (Key { text: name.to_owned(), place: Place::default() }, node(Kind::Number(value.to_string())))
        };
        let list = node(Kind::Array(vec![node(Kind::Null), node(Kind::Bool(true))]));
        let mut members = vec![member("", 0), member("a/b", 1), member("m~n", 8), member("~1", 9)];
        members.push((Key { text: "list".to_owned(), place: Place::default() }, list));
        let root = node(Kind::Object(members));
        let number = |text: &str| Some(Kind::Number(text.to_owned()));
        let rows = [
            ("/", number("0")),
            ("/a~1b", number("1")),
            ("/m~0n", number("8")),
            ("/~01", number("9")),
            ("/list/1", Some(Kind::Bool(true))),
            ("/list/01", None),
            ("/list/-", None),
            ("/list/2", None),
            ("/none", None),
            ("list", None),
        ];
        for (pointer, expected) in rows {
            assert_eq!(root.pointer(pointer).map(|found| found.kind.clone()), expected, "{pointer}");
        }
        assert_eq!(root.pointer(""), Some(&root));
    }
}
