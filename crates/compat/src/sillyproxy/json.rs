//! The JSON that SillyProxy's documents use: standard JSON (RFC 8259) in which a comma may also follow the last element. Reads one value with
//! the place of each part, and ignores what comes after it. Knows nothing of routes.

use std::fmt;

/// Deepest nesting read; a routes file needs five.
const MAX_DEPTH: usize = 64;

/// A place in the text: line and column, both from 1. Columns count bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Value {
    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// Why the text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) place: Place,
    pub(super) text: String,
}

/// Reads the first value of `text`.
///
/// # Errors
/// The first problem, where it is.
pub(super) fn read(text: &[u8]) -> Result<Node, Problem> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut reader = Reader { text, at: 0, line: 1, line_start: 0 };
    reader.value(0)
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    /// Where the line begins.
    line_start: usize,
}

impl Reader<'_> {
    fn place(&self) -> Place {
        Place { line: self.line, column: self.at - self.line_start + 1 }
    }

    fn problem<T>(&self, text: impl Into<String>) -> Result<T, Problem> {
        Err(Problem { place: self.place(), text: text.into() })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the file".to_string(),
            Some(byte) if byte.is_ascii_graphic() => format!("`{}`", char::from(byte)),
            Some(byte) => format!("byte {byte:#04x}"),
        }
    }

    fn skip_space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek() {
            self.at += 1;
            if byte == b'\n' {
                self.line += 1;
                self.line_start = self.at;
            }
        }
    }

    /// Skips space, then `byte` if it is next; says whether it was.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn value(&mut self, depth: usize) -> Result<Node, Problem> {
        self.skip_space();
        let place = self.place();
        if depth > MAX_DEPTH {
            return self.problem(format!("nested more than {MAX_DEPTH} deep"));
        }
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { place, value })
    }

    fn object(&mut self, depth: usize) -> Result<Value, Problem> {
        self.at += 1;
        let mut members = Vec::new();
        while !self.take(b'}') {
            if self.peek() != Some(b'"') {
                return self.problem(format!("expected a key in quotes or `}}`, found {}", self.found()));
            }
            let key = self.string()?;
            if !self.take(b':') {
                return self.problem(format!("expected `:` after the key \"{key}\", found {}", self.found()));
            }
            members.push((key, self.value(depth + 1)?));
            self.separator(b'}')?;
        }
        Ok(Value::Object(members))
    }

    fn array(&mut self, depth: usize) -> Result<Value, Problem> {
        self.at += 1;
        let mut elements = Vec::new();
        while !self.take(b']') {
            elements.push(self.value(depth + 1)?);
            self.separator(b']')?;
        }
        Ok(Value::Array(elements))
    }

    /// A comma, or `end` to come.
    fn separator(&mut self, end: u8) -> Result<(), Problem> {
        if self.take(b',') || self.peek() == Some(end) {
            return Ok(());
        }
        self.problem(format!("expected `,` or `{}`, found {}", char::from(end), self.found()))
    }

    fn word(&mut self) -> Result<Value, Problem> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.problem(format!("expected a value, found {}", self.found()))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Value, Problem> {
        let (start, place) = (self.at, self.place());
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        let mut well_formed = whole > 0 && !(leading_zero && whole > 1);
        if self.peek() == Some(b'.') {
            self.at += 1;
            well_formed &= self.digits() > 0;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            well_formed &= self.digits() > 0;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        match number.filter(|number| well_formed && number.is_finite()) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(Problem { place, text: format!("`{}` is not a number", String::from_utf8_lossy(text)) }),
        }
    }

    fn string(&mut self) -> Result<String, Problem> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None => return self.problem("the string has no end"),
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut bytes)?,
                Some(0..=0x1f) => {
                    return self.problem(format!("{} cannot stand in a string; is a `\"` missing?", self.found()));
                }
                Some(byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { return self.problem("the string before this is not UTF-8") };
        self.at += 1;
        Ok(text)
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Problem> {
        let escape = self.text.get(self.at + 1).copied();
        let character = match escape {
            Some(b'u') => {
                let character = self.unicode_escape()?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            _ => return self.problem("unknown escape; write `\\\\` for a backslash"),
        };
        bytes.push(character);
        self.at += 2;
        Ok(())
    }

    /// `\uXXXX`, or two of them for a character beyond U+FFFF. Half a pair stands for nothing and is read as U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, Problem> {
        let first = self.hex_escape()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let before = self.at;
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(b"\\u")) {
            let second = self.hex_escape()?;
            if (0xdc00..0xe000).contains(&second) {
                let both = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(both).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex_escape(&mut self) -> Result<u32, Problem> {
        let digits = self.text.get(self.at + 2..self.at + 6).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(code) = code else { return self.problem("`\\u` needs four hexadecimal digits") };
        self.at += 6;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Null => "null".to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Number(value) => value.to_string(),
            Value::String(value) => format!("{value:?}"),
            Value::Array(elements) => format!("[{}]", elements.iter().map(shown).collect::<Vec<_>>().join(",")),
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| format!("{key}={}", shown(value)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn check(text: &str, expected: Result<&str, (usize, usize, &str)>) {
        match (read(text.as_bytes()), expected) {
            (Ok(node), Ok(expected)) => assert_eq!(shown(&node), expected, "{text}"),
            (Err(problem), Err((line, column, part))) => {
                assert_eq!(problem.place, Place { line, column }, "{text}: {}", problem.text);
                assert!(problem.text.contains(part), "{text}: {}", problem.text);
            }
            (got, expected) => panic!("{text}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn reads_json_and_commas_too_many() {
        check(" {\"a\": [1, -2.5e1, \"x\",], \"b\": {},} rest is ignored", Ok("{a=[1,-25,\"x\"],b={}}"));
        check("\u{feff}[true,false,null]", Ok("[true,false,null]"));
        check(r#""\u00fc\ud83d\ude00\ud83dx\"\\\/\n""#, Ok("\"ü😀\u{fffd}x\\\"\\\\/\\n\""));
        check("[]", Ok("[]"));
        check("{\"a\":1,\"a\":2}", Ok("{a=1,a=2}"));
    }

    #[test]
    fn a_problem_has_a_place() {
        check("", Err((1, 1, "the end of the file")));
        check("{\n  \"a\": [1 2]\n}", Err((2, 11, "expected `,` or `]`, found `2`")));
        check("[,]", Err((1, 2, "expected a value")));
        check("[1,,2]", Err((1, 4, "expected a value")));
        check("{a: 1}", Err((1, 2, "a key in quotes")));
        check("{\"a\" 1}", Err((1, 6, "expected `:`")));
        check("{\"a\":", Err((1, 6, "the end of the file")));
        check("[\"a\nb\"]", Err((1, 4, "cannot stand in a string")));
        check("[\"a", Err((1, 4, "no end")));
        check("[\"\\x\"]", Err((1, 3, "unknown escape")));
        check("[\"\\u12g4\"]", Err((1, 3, "four hexadecimal digits")));
        check("[01]", Err((1, 2, "not a number")));
        check("[1.]", Err((1, 2, "not a number")));
        check("[-]", Err((1, 2, "not a number")));
        check("[1e999]", Err((1, 2, "not a number")));
        check(&"[".repeat(70), Err((1, 66, "nested")));
        assert!(read(b"[\"\xff\"]").is_err());
    }
}
