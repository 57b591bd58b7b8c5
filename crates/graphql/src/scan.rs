//! The tokens of a document, read as the specification has them (September 2025, section 2.1) and counted before anything is built of them.
//!
//! What goes on to the library is made of these tokens alone, a space between each two: so white space, commas and comments cannot mean one thing here
//! and another there. What readers take differently is rejected: a carriage return alone, which ends a line and with it a comment for some, a byte order
//! mark, and controls.

use contract::validate::{Violation, code};

use crate::options::Limits;
use crate::violation::{over, violation};

/// Brackets within brackets: selection sets, lists, objects and types.
pub(crate) const MAX_NESTING: usize = 100;

/// A document, made anew of its tokens alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// The tokens, a space behind each.
    pub text: String,
    /// How many they are.
    pub count: usize,
}

/// Reads the tokens of a document.
///
/// # Errors
/// It is no sequence of tokens, or exceeds a limit.
pub fn scan(query: &str, limits: &Limits) -> Result<Tokens, Violation> {
    if query.len() > limits.query_bytes {
        return Err(over(code::GRAPHQL_QUERY_TOO_LONG, "the document has more bytes", limits.query_bytes));
    }
    let mut scanner = Scanner { text: query, at: 0, out: String::with_capacity(query.len() + 64), open: Vec::new() };
    let (mut tokens, mut directives) = (0_usize, 0_usize);
    loop {
        scanner.skip_ignored()?;
        let Some(byte) = scanner.peek() else { break };
        tokens += 1;
        if tokens > limits.tokens {
            return Err(over(code::GRAPHQL_TOKENS, "the document has more tokens", limits.tokens));
        }
        directives += usize::from(byte == b'@');
        if directives > limits.directives {
            return Err(over(code::GRAPHQL_DIRECTIVES, "the document has more directives", limits.directives));
        }
        let start = scanner.at;
        scanner.token(byte)?;
        scanner.out.push_str(query.get(start..scanner.at).unwrap_or_default());
        scanner.out.push(' ');
    }
    if !scanner.open.is_empty() {
        return Err(scanner.malformed("a bracket is not closed"));
    }
    if tokens == 0 {
        return Err(violation(code::GRAPHQL_MALFORMED, "the document is empty"));
    }
    Ok(Tokens { text: scanner.out, count: tokens })
}

struct Scanner<'q> {
    text: &'q str,
    at: usize,
    out: String,
    /// The brackets that are to come, innermost last.
    open: Vec<u8>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn malformed(&self, what: &str) -> Violation {
        violation(code::GRAPHQL_MALFORMED, format!("{what}, at byte {}", self.at))
    }

    /// White space, line ends, commas and comments.
    fn skip_ignored(&mut self) -> Result<(), Violation> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b',' => self.at += 1,
                b'\r' => self.carriage_return()?,
                b'#' => {
                    while let Some(byte) = self.peek().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
                        if is_control(byte) {
                            return Err(self.malformed("a comment holds a control character"));
                        }
                        self.at += 1;
                    }
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn carriage_return(&mut self) -> Result<(), Violation> {
        if self.rest().get(1) != Some(&b'\n') {
            return Err(self.malformed("a carriage return without a line feed"));
        }
        self.at += 2;
        Ok(())
    }

    fn token(&mut self, byte: u8) -> Result<(), Violation> {
        match byte {
            b'!' | b'$' | b'&' | b':' | b'=' | b'@' | b'|' => self.at += 1,
            b'.' if self.rest().starts_with(b"...") => self.at += 3,
            b'{' | b'[' | b'(' => {
                if self.open.len() == MAX_NESTING {
                    return Err(over(code::GRAPHQL_NESTING, "brackets are nested deeper", MAX_NESTING));
                }
                self.open.push(match byte {
                    b'{' => b'}',
                    b'[' => b']',
                    _ => b')',
                });
                self.at += 1;
            }
            b'}' | b']' | b')' => {
                if self.open.pop() != Some(byte) {
                    return Err(self.malformed("a bracket closes none"));
                }
                self.at += 1;
            }
            b'"' if self.rest().starts_with(b"\"\"\"") => self.block_string()?,
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number()?,
            byte if is_name_start(byte) => self.skip_while(|byte| is_name_start(byte) || byte.is_ascii_digit()),
            _ => return Err(self.malformed("a character that is in no token")),
        }
        Ok(())
    }

    fn skip_while(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_part) {
            self.at += 1;
        }
    }

    /// Digits; at least one.
    fn digits(&mut self) -> Result<(), Violation> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.malformed("a number lacks a digit"));
        }
        self.skip_while(|byte| byte.is_ascii_digit());
        Ok(())
    }

    /// Section 2.9.1 and 2.9.2: no leading zeros, and nothing behind it that could belong to it.
    fn number(&mut self) -> Result<(), Violation> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        match self.peek() {
            Some(byte) if byte == b'.' || byte.is_ascii_digit() || is_name_start(byte) => {
                Err(self.malformed("something follows a number without a gap"))
            }
            _ => Ok(()),
        }
    }

    fn string(&mut self) -> Result<(), Violation> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(byte) if byte != b'\n' && byte != b'\r' && !is_control(byte) => self.at += 1,
                _ => return Err(self.malformed("a string does not end in its line")),
            }
        }
    }

    /// Section 2.9.4. The form with braces is not taken: readers before 2025 do not have it.
    fn escape(&mut self) -> Result<(), Violation> {
        let rest = self.rest();
        let length = match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if rest.get(2..6).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) => 6,
            _ => return Err(self.malformed("an escape that is none")),
        };
        self.at += length;
        Ok(())
    }

    fn block_string(&mut self) -> Result<(), Violation> {
        self.at += 3;
        loop {
            let rest = self.rest();
            if rest.starts_with(b"\"\"\"") {
                self.at += 3;
                return Ok(());
            }
            match rest.first() {
                _ if rest.starts_with(b"\\\"\"\"") => self.at += 4,
                Some(b'\r') => self.carriage_return()?,
                Some(byte) if *byte == b'\n' || !is_control(*byte) => self.at += 1,
                _ => return Err(self.malformed("a block string does not end")),
            }
        }
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// A control other than the tab. What ends lines is looked at before.
fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(query: &str) -> Result<String, &'static str> {
        let limits = Limits { tokens: 20, query_bytes: 400, directives: 2, ..Limits::default() };
        scan(query, &limits).map(|tokens| tokens.text).map_err(|violation| violation.code)
    }

    #[test]
    fn tokens_are_read_as_the_specification_has_them() {
        for (query, expected) in [
            ("{a}", Ok("{ a } ")),
            ("\t{ a,,b # c }\n\r\n}", Ok("{ a b } ")),
            ("{a(x:-0.5e+3,y:\"\\u00e9 \\\" #\")}", Ok("{ a ( x : -0.5e+3 y : \"\\u00e9 \\\" #\" ) } ")),
            ("{a(x:\"\"\" \\\"\"\" \n \" \"\"\")}", Ok("{ a ( x : \"\"\" \\\"\"\" \n \" \"\"\" ) } ")),
            ("{a(x:\"\")}", Ok("{ a ( x : \"\" ) } ")),
            ("query($v:[Int!]=[1]){...F@skip(if:$v)}", Err("graphql_tokens")),
            ("{...F ...on A{b}}", Ok("{ ... F ... on A { b } } ")),
            ("", Err("graphql_malformed")),
            ("# only a comment", Err("graphql_malformed")),
            // To some a comment ends here, and what follows is part of the document.
            ("{a #\r b}", Err("graphql_malformed")),
            ("{a\r}", Err("graphql_malformed")),
            ("\u{feff}{a}", Err("graphql_malformed")),
            ("{a\u{a0}}", Err("graphql_malformed")),
            ("{a # \u{0}\n}", Err("graphql_malformed")),
            ("{a # \u{2028} é\n}", Ok("{ a } ")),
            ("{a(x:01)}", Err("graphql_malformed")),
            ("{a(x:1a)}", Err("graphql_malformed")),
            ("{a(x:1.)}", Err("graphql_malformed")),
            ("{a(x:1.2.3)}", Err("graphql_malformed")),
            ("{a(x:-)}", Err("graphql_malformed")),
            ("{a(x:1e)}", Err("graphql_malformed")),
            ("{a(x:\"\n\")}", Err("graphql_malformed")),
            ("{a(x:\"\\x\")}", Err("graphql_malformed")),
            ("{a(x:\"\\u{41}\")}", Err("graphql_malformed")),
            ("{a(x:\"abc)}", Err("graphql_malformed")),
            ("{a(x:\"\"\"abc)}", Err("graphql_malformed")),
            ("{a", Err("graphql_malformed")),
            ("{a)", Err("graphql_malformed")),
            ("a}", Err("graphql_malformed")),
            ("{a ..b}", Err("graphql_malformed")),
            ("{a ?}", Err("graphql_malformed")),
            ("{a@x@x@x}", Err("graphql_directives")),
        ] {
            assert_eq!(check(query).as_deref().map_err(|code| *code), expected, "{query:?}");
        }
        assert_eq!(check(&format!("{{{}}}", " ".repeat(400))), Err("graphql_query_too_long"));
    }

    #[test]
    fn brackets_within_brackets_are_counted() {
        let limits = Limits::default();
        let nested = |count: usize| "{a".repeat(count) + &"}".repeat(count);
        assert!(scan(&nested(MAX_NESTING), &limits).is_ok());
        assert_eq!(scan(&nested(MAX_NESTING + 1), &limits).unwrap_err().code, "graphql_nesting");
    }
}
