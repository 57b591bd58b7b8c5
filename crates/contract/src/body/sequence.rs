//! JSON texts in a row, as one array: a text per line (JSON Lines, NDJSON) or between record separators (RFC 7464). Knows where texts begin and end; what
//! is in them is for the JSON reader, which gets every byte of them.
//!
//! Strict where readers differ: some skip empty lines, end lines at other characters than a line feed, or go on behind a text that is cut.

/// What stands between the texts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Separator {
    /// A line feed, with or without a carriage return before it.
    Line,
    /// U+001E before each text, and a line feed behind it.
    Record,
}

/// Turns texts in a row into an array, as bytes arrive.
#[derive(Debug)]
pub(crate) struct Sequence {
    separator: Separator,
    /// The array has begun.
    has_begun: bool,
    /// Between the separators: whether something of a text has come.
    is_within: bool,
    /// Arrays and objects that are open in the text.
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    /// The bytes before this one.
    before: [u8; 2],
}

impl Sequence {
    pub(crate) fn new(separator: Separator) -> Sequence {
        Sequence {
            separator,
            has_begun: false,
            is_within: false,
            depth: 0,
            in_string: false,
            is_escaped: false,
            before: [0; 2],
        }
    }

    /// Appends what the next bytes come to.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        bytes.iter().try_for_each(|&byte| {
            let taken = match self.separator {
                Separator::Line => self.of_lines(byte, out),
                Separator::Record => self.of_records(byte, out),
            };
            self.before = [self.before[1], byte];
            taken
        })
    }

    /// Appends the end of the array.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match self.separator {
            Separator::Line if self.before[1] == b'\r' => return Err(BARE),
            Separator::Record if self.before[1] != b'\n' => return Err("does not end with a line feed"),
            Separator::Record if !self.is_within => return Err(NOTHING),
            _ => {}
        }
        if self.depth > 0 || self.in_string {
            return Err("ends within a text");
        }
        out.extend_from_slice(if self.has_begun { b"]" } else { b"[]" });
        Ok(())
    }

    fn of_lines(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), &'static str> {
        // U+0085, U+2028 and U+2029 end a line for some (Unicode §5.8), and may stand in strings for JSON.
        if matches!((self.before, byte), ([_, 0xc2], 0x85) | ([0xe2, 0x80], 0xa8 | 0xa9)) {
            return Err("holds a line separator that is no line feed; escape it");
        }
        if self.before[1] == b'\r' && byte != b'\n' {
            return Err(BARE);
        }
        match byte {
            b'\n' if self.in_string || self.depth > 0 => Err("a text goes on behind the end of its line"),
            b'\n' if !self.is_within => Err("holds an empty line"),
            b'\n' => {
                self.is_within = false;
                Ok(())
            }
            b'\r' => Ok(()),
            _ => self.text(byte, out),
        }
    }

    fn of_records(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match byte {
            0x1e if self.in_string || self.depth > 0 => Err("a record separator stands within a text"),
            0x1e if !self.is_within && self.before != [0; 2] => Err(NOTHING),
            0x1e if self.is_within && self.before[1] != b'\n' => Err("a text does not end with a line feed"),
            0x1e => {
                self.is_within = false;
                Ok(())
            }
            _ if self.before == [0; 2] => Err("does not begin with a record separator"),
            _ => self.text(byte, out),
        }
    }

    /// A byte that belongs to a text, or to the space around it.
    fn text(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        if !self.is_within && !is_space {
            out.push(if self.has_begun { b',' } else { b'[' });
            (self.has_begun, self.is_within) = (true, true);
        }
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => self.in_string = true,
                b'[' | b'{' => self.depth = self.depth.saturating_add(1),
                b']' | b'}' if self.depth == 0 => return Err("a text ends that has not begun"),
                b']' | b'}' => self.depth -= 1,
                b',' if self.depth == 0 => return Err("a comma stands between texts"),
                _ => {}
            }
        }
        if self.is_within {
            out.push(byte);
        }
        Ok(())
    }
}

const BARE: &str = "holds a carriage return that no line feed follows";
const NOTHING: &str = "holds an empty text";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(separator: Separator, body: &str, size: usize) -> Result<String, &'static str> {
        let (mut sequence, mut out) = (Sequence::new(separator), Vec::new());
        for piece in body.as_bytes().chunks(size) {
            sequence.feed(piece, &mut out)?;
        }
        sequence.finish(&mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn texts_in_a_row_are_an_array() {
        let rows = [
            (Separator::Line, "1\n2\n", Ok("[1,2]")),
            (Separator::Line, "{\"a\":[1,2]}\r\n \"x,]\\\"\" \r\n", Ok("[{\"a\":[1,2]},\"x,]\\\"\" ]")),
            (Separator::Line, "1", Ok("[1]")),
            (Separator::Line, "1\n\n2", Err("holds an empty line")),
            (Separator::Line, "\n", Err("holds an empty line")),
            (Separator::Line, "1,2", Err("a comma stands between texts")),
            (Separator::Line, "1],[2", Err("a text ends that has not begun")),
            (Separator::Line, "{\n}", Err("a text goes on behind the end of its line")),
            (Separator::Line, "\"\n\"", Err("a text goes on behind the end of its line")),
            (Separator::Line, "[1", Err("ends within a text")),
            (Separator::Line, "\"a", Err("ends within a text")),
            (Separator::Line, "[1,\r2]", Err(BARE)),
            (Separator::Line, "1\r", Err(BARE)),
            (Separator::Line, "\"\u{2028}\"", Err("holds a line separator that is no line feed; escape it")),
            (Separator::Line, "\"\u{85}\"", Err("holds a line separator that is no line feed; escape it")),
            (Separator::Line, "\"\u{2027}\u{86}\"", Ok("[\"\u{2027}\u{86}\"]")),
            // Two values are no text: that is for the JSON reader to say.
            (Separator::Line, "1 2", Ok("[1 2]")),
            (Separator::Line, "{}{}", Ok("[{}{}]")),
            (Separator::Record, "\u{1e}1\n\u{1e}{\n\"a\":2}\n", Ok("[1\n,{\n\"a\":2}\n]")),
            (Separator::Record, "1\n", Err("does not begin with a record separator")),
            (Separator::Record, " \u{1e}1\n", Err("does not begin with a record separator")),
            (Separator::Record, "\u{1e}1", Err("does not end with a line feed")),
            (Separator::Record, "\u{1e}1\u{1e}2\n", Err("a text does not end with a line feed")),
            (Separator::Record, "\u{1e}\u{1e}1\n", Err(NOTHING)),
            (Separator::Record, "\u{1e}\n", Err(NOTHING)),
            (Separator::Record, "\u{1e}\n\u{1e}1\n", Err(NOTHING)),
            (Separator::Record, "\u{1e}1\n\u{1e}\n", Err(NOTHING)),
            (Separator::Record, "\u{1e}1\n\u{1e} \n\u{1e}2\n", Err(NOTHING)),
            (Separator::Record, "\u{1e}[\u{1e}1]\n", Err("a record separator stands within a text")),
            (Separator::Record, "\u{1e}[1\n", Err("ends within a text")),
            (Separator::Record, "\u{1e}1,2\n", Err("a comma stands between texts")),
        ];
        for (separator, body, expected) in rows {
            for size in [1, 2, 100] {
                assert_eq!(read(separator, body, size), expected.map(str::to_owned), "{body:?} by {size}");
            }
        }
    }
}
