//! JSON text (RFC 8259) to a [`Node`] in which every part knows its line and column. For documents, not for messages: the scanner validates those.

use super::tree::{Fault, Tree};
use crate::json::is_number;
use crate::node::{Kind, Node, Place};

/// Reads one JSON text. Problems that do not stop the reading come with the tree.
pub(super) fn parse(text: &str, file: u32, max_nodes: usize) -> Result<(Node, Vec<Fault>, usize), Fault> {
    let mut reader = Reader { text: text.as_bytes(), at: 0, line: 1, line_start: 0, source: text, file };
    let mut tree = Tree::new(max_nodes);
    reader.document(&mut tree)?;
    let nodes = tree.nodes();
    let end = reader.place();
    let (root, faults) = tree.finish();
    root.map(|root| (root, faults, nodes)).ok_or_else(|| Fault::new(end, "the file is empty"))
}

struct Reader<'t> {
    text: &'t [u8],
    source: &'t str,
    at: usize,
    line: u32,
    line_start: usize,
    file: u32,
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// After `[`: a value or `]`.
    FirstElement,
    /// After `{`: a name or `}`.
    FirstName,
    Name,
    /// A comma, or the end of what is open.
    After,
}

impl Reader<'_> {
    fn document(&mut self, tree: &mut Tree) -> Result<(), Fault> {
        // One byte per open container: whether it is an object.
        let mut open: Vec<bool> = Vec::new();
        let mut next = Next::Value;
        loop {
            self.skip_blanks();
            if next == Next::After && open.is_empty() {
                return if self.at == self.text.len() {
                    Ok(())
                } else {
                    Err(self.fault("text stands behind the document"))
                };
            }
            let Some(&byte) = self.text.get(self.at) else { return Err(self.fault("the file ends in the middle")) };
            next = match (next, byte) {
                (Next::After, b',') => {
                    self.at += 1;
                    if open.last() == Some(&true) { Next::Name } else { Next::Value }
                }
                (Next::After, b'}') | (Next::FirstName, b'}') if open.last() == Some(&true) => {
                    self.close(tree, &mut open)?
                }
                (Next::After, b']') | (Next::FirstElement, b']') if open.last() == Some(&false) => {
                    self.close(tree, &mut open)?
                }
                (Next::FirstName | Next::Name, b'"') => self.name(tree)?,
                (Next::Value | Next::FirstElement, _) => self.value(byte, tree, &mut open)?,
                (Next::After, _) => return Err(self.fault("expected a comma or the end of what is open")),
                _ => return Err(self.fault("expected a name in double quotes")),
            };
        }
    }

    fn close(&mut self, tree: &mut Tree, open: &mut Vec<bool>) -> Result<Next, Fault> {
        self.at += 1;
        open.pop();
        if let Some(node) = tree.close() {
            tree.place(node)?;
        }
        Ok(Next::After)
    }

    fn name(&mut self, tree: &mut Tree) -> Result<Next, Fault> {
        let place = self.place();
        let name = self.string()?;
        tree.name(name, place);
        self.skip_blanks();
        if self.text.get(self.at) != Some(&b':') {
            return Err(self.fault("expected a colon"));
        }
        self.at += 1;
        Ok(Next::Value)
    }

    fn value(&mut self, byte: u8, tree: &mut Tree, open: &mut Vec<bool>) -> Result<Next, Fault> {
        let place = self.place();
        match byte {
            b'{' | b'[' => {
                let is_object = byte == b'{';
                if is_object {
                    tree.open_object(place)?
                } else {
                    tree.open_array(place)?
                }
                open.push(is_object);
                self.at += 1;
                return Ok(if is_object { Next::FirstName } else { Next::FirstElement });
            }
            b'"' => {
                let text = self.string()?;
                tree.scalar(Kind::String(text), place)?;
            }
            b'-' | b'0'..=b'9' => {
                let number = self.number()?;
                tree.scalar(Kind::Number(number), place)?;
            }
            _ => {
                let words = [("null", Kind::Null), ("true", Kind::Bool(true)), ("false", Kind::Bool(false))];
                let rest = self.text.get(self.at..).unwrap_or_default();
                let Some((word, kind)) = words.into_iter().find(|(word, _)| rest.starts_with(word.as_bytes())) else {
                    return Err(self.fault("expected a value"));
                };
                self.at += word.len();
                tree.scalar(kind, place)?;
            }
        }
        Ok(Next::After)
    }

    fn skip_blanks(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.text.get(self.at) {
            self.at += 1;
            if *byte == b'\n' {
                self.line += 1;
                self.line_start = self.at;
            }
        }
    }

    /// RFC 8259 §6.
    fn number(&mut self) -> Result<String, Fault> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'))
            .count();
        let text = self.source.get(self.at..self.at + len).unwrap_or_default();
        if !is_number(text.as_bytes()) {
            return Err(self.fault("not a number as JSON writes it"));
        }
        self.at += len;
        Ok(text.to_owned())
    }

    /// The string whose opening quote is next (RFC 8259 §7).
    fn string(&mut self) -> Result<String, Fault> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count();
            // Both ends stand beside ASCII bytes, so they are character boundaries.
            out.push_str(self.source.get(self.at..self.at + plain).unwrap_or_default());
            self.at += plain;
            match rest.get(plain) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(self.fault("a control character stands in a string; escape it")),
                None => return Err(self.fault("the file ends in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let letter = self.text.get(self.at + 1).copied();
        let simple = match letter {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.fault("an escape that JSON does not have")),
        };
        self.at += 2;
        Ok(simple)
    }

    fn unicode_escape(&mut self) -> Result<char, Fault> {
        let unit = |at: usize| {
            let digits = self.source.get(at..at + 6)?.strip_prefix("\\u")?;
            digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
        };
        let (found, len) = match unit(self.at) {
            Some(high @ 0xd800..=0xdbff) => match unit(self.at + 6) {
                Some(low @ 0xdc00..=0xdfff) => {
                    (char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)), 12)
                }
                _ => (None, 0),
            },
            Some(unit) => (char::from_u32(unit), 6),
            None => (None, 0),
        };
        let found =
            found.ok_or_else(|| self.fault("\\u needs four hexadecimal digits, and surrogates come in pairs"))?;
        self.at += len;
        Ok(found)
    }

    fn place(&self) -> Place {
        let before = self.source.get(self.line_start..self.at).unwrap_or_default();
        // Minified files are one line: counting its characters for every node would be quadratic.
        let column = if before.len() < 4096 { before.chars().count() } else { before.len() } + 1;
        Place { file: self.file, line: self.line, column: column as u32 }
    }

    fn fault(&self, message: &str) -> Fault {
        Fault::new(self.place(), format!("not valid JSON: {message}"))
    }
}
