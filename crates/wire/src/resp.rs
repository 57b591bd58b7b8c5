//! RESP, version 2: what Valkey and Redis speak (the Redis serialization protocol specification). Commands written, replies read.
//!
//! Owns the bytes, not what a command means. Replies are bounded before anything is kept of them: a length that a server merely announces costs nothing.

/// Longest line: a number, a status or the text of an error, bytes without CRLF.
pub const MAX_LINE_BYTES: usize = 512;

/// Longest bulk string, bytes.
pub const MAX_BULK_BYTES: usize = 4 * 1024;

/// Most items of an array.
pub const MAX_ITEMS: usize = 1_024;

/// Arrays within arrays: none is read.
const MAX_DEPTH: usize = 1;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status such as `OK`.
    Status(String),
    /// The command failed: `WRONGPASS ...`, `NOSCRIPT ...`.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes; none where there is no value.
    Bulk(Option<Vec<u8>>),
    /// Replies, none of them an array; none where there is no value.
    Array(Option<Vec<Reply>>),
}

/// Why bytes are no reply that is read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The first byte names no type of RESP2.
    Type,
    /// A line is longer than [`MAX_LINE_BYTES`], ends with something else than CRLF, or is not text.
    Line,
    /// What should be a number is none, or not in its shortest form.
    Number,
    /// A bulk string is longer than [`MAX_BULK_BYTES`], or not followed by CRLF.
    Bulk,
    /// An array has more than [`MAX_ITEMS`] items, or is within another one.
    Array,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Malformed::Type => "a reply is of no type of RESP2",
            Malformed::Line => "a line of a reply is too long or no text",
            Malformed::Number => "a number of a reply is none",
            Malformed::Bulk => "a string of a reply is too long or does not end",
            Malformed::Array => "an array of a reply is too long or nested",
        })
    }
}

/// The reply at the beginning of `bytes`, and how many of them it is; none while it is not whole.
///
/// # Errors
/// It is no reply, or one beyond the bounds; what follows on the connection means nothing then.
pub fn read(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let mut reader = Reader { rest: bytes };
    let reply = reader.reply(MAX_DEPTH)?;
    Ok(reply.map(|reply| (reply, bytes.len() - reader.rest.len())))
}

/// Writes a command: an array of bulk strings.
pub fn put_command(parts: &[&[u8]], out: &mut Vec<u8>) {
    put_length(b'*', parts.len(), out);
    for part in parts {
        put_length(b'$', part.len(), out);
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

fn put_length(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn reply(&mut self, depth: usize) -> Result<Option<Reply>, Malformed> {
        let Some((&kind, rest)) = self.rest.split_first() else { return Ok(None) };
        if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') {
            return Err(Malformed::Type);
        }
        self.rest = rest;
        let Some(line) = self.line()? else { return Ok(None) };
        Ok(match kind {
            b'+' => Some(Reply::Status(line.to_owned())),
            b'-' => Some(Reply::Error(line.to_owned())),
            b':' => Some(Reply::Integer(number(line)?)),
            b'$' => self.bulk(line)?.map(Reply::Bulk),
            _ => self.array(line, depth)?.map(Reply::Array),
        })
    }

    /// A line without its end; none while that is not there.
    fn line(&mut self) -> Result<Option<&'b str>, Malformed> {
        let seen = self.rest.get(..MAX_LINE_BYTES + 2).unwrap_or(self.rest);
        let Some(end) = seen.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            return if seen.len() > MAX_LINE_BYTES { Err(Malformed::Line) } else { Ok(None) };
        };
        let (line, rest) = self.rest.split_at(end);
        match rest {
            [b'\r', b'\n', rest @ ..] => {
                self.rest = rest;
                std::str::from_utf8(line).map(Some).map_err(|_| Malformed::Line)
            }
            [b'\r'] => Ok(None),
            _ => Err(Malformed::Line),
        }
    }

    /// The inner none is the string that is not there.
    fn bulk(&mut self, line: &str) -> Result<Option<Option<Vec<u8>>>, Malformed> {
        let length = match number(line)? {
            -1 => return Ok(Some(None)),
            length => usize::try_from(length).map_err(|_| Malformed::Bulk)?,
        };
        if length > MAX_BULK_BYTES {
            return Err(Malformed::Bulk);
        }
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else { return Ok(None) };
        match rest {
            [b'\r', b'\n', rest @ ..] => {
                self.rest = rest;
                Ok(Some(Some(bytes.to_vec())))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(Malformed::Bulk),
        }
    }

    fn array(&mut self, line: &str, depth: usize) -> Result<Option<Option<Vec<Reply>>>, Malformed> {
        let length = match number(line)? {
            -1 => return Ok(Some(None)),
            length => usize::try_from(length).map_err(|_| Malformed::Array)?,
        };
        if length > MAX_ITEMS || depth == 0 {
            return Err(Malformed::Array);
        }
        let mut items = Vec::new();
        for _ in 0..length {
            let Some(item) = self.reply(depth - 1)? else { return Ok(None) };
            items.push(item);
        }
        Ok(Some(Some(items)))
    }
}

/// A number in its shortest form, so that each has one.
fn number(line: &str) -> Result<i64, Malformed> {
    let number: i64 = line.parse().map_err(|_| Malformed::Number)?;
    if number.to_string() == line { Ok(number) } else { Err(Malformed::Number) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn replies_are_read_as_the_specification_shows_them() {
        let text = |text: &str| text.to_owned();
        for (bytes, expected) in [
            ("+OK\r\n", Reply::Status(text("OK"))),
            ("+\r\n", Reply::Status(text(""))),
            ("-WRONGPASS no\r\n", Reply::Error(text("WRONGPASS no"))),
            (":0\r\n", Reply::Integer(0)),
            (":-7\r\n", Reply::Integer(-7)),
            (":9223372036854775807\r\n", Reply::Integer(i64::MAX)),
            ("$5\r\nhello\r\n", Reply::Bulk(Some(b"hello".to_vec()))),
            ("$2\r\n\r\n\r\n", Reply::Bulk(Some(b"\r\n".to_vec()))),
            ("$0\r\n\r\n", Reply::Bulk(Some(Vec::new()))),
            ("$-1\r\n", Reply::Bulk(None)),
            ("*-1\r\n", Reply::Array(None)),
            ("*0\r\n", Reply::Array(Some(Vec::new()))),
            ("*2\r\n:1\r\n$1\r\na\r\n", Reply::Array(Some(vec![Reply::Integer(1), Reply::Bulk(Some(b"a".to_vec()))]))),
        ] {
            assert_eq!(read(bytes.as_bytes()), Ok(Some((expected.clone(), bytes.len()))), "{bytes:?}");
            let behind = format!("{bytes}+next");
            assert_eq!(read(behind.as_bytes()), Ok(Some((expected, bytes.len()))), "{behind:?}");
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes.as_bytes()[..cut]), Ok(None), "{:?}", &bytes[..cut]);
            }
        }
    }

    #[test]
    fn what_a_hostile_server_sends_is_rejected_before_it_costs_anything() {
        let long = format!("+{}", "a".repeat(MAX_LINE_BYTES + 1));
        let deep = "*1\r\n".repeat(100_000);
        for (bytes, expected) in [
            ("HTTP/1.1 200 OK\r\n", Malformed::Type),
            ("%1\r\n+a\r\n+b\r\n", Malformed::Type),
            ("\r\n", Malformed::Type),
            ("+a\nb\r\n", Malformed::Line),
            ("+a\rb\r\n", Malformed::Line),
            (&long, Malformed::Line),
            (":\r\n", Malformed::Number),
            (":+1\r\n", Malformed::Number),
            (":01\r\n", Malformed::Number),
            (":1 \r\n", Malformed::Number),
            (":9223372036854775808\r\n", Malformed::Number),
            ("$9223372036854775807\r\n", Malformed::Bulk),
            ("$-2\r\n", Malformed::Bulk),
            ("$4097\r\n", Malformed::Bulk),
            ("$1\r\nab\r\n", Malformed::Bulk),
            ("*2147483647\r\n", Malformed::Array),
            ("*1025\r\n", Malformed::Array),
            ("*-2\r\n", Malformed::Array),
            (&deep, Malformed::Array),
        ] {
            assert_eq!(read(bytes.as_bytes()), Err(expected), "{:?}", bytes.get(..40).unwrap_or(bytes));
        }
        assert_eq!(read(b"+\xff\r\n"), Err(Malformed::Line));
    }

    #[test]
    fn commands_are_written_as_arrays_of_strings() {
        let mut out = Vec::new();
        put_command(&[b"AUTH", b"", b"p\r\n w"], &mut out);
        assert_eq!(out, b"*3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$5\r\np\r\n w\r\n");
    }
}
