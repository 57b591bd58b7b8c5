//! HTTP/1.1 messages for the ledger's client and upstream: blocking, and only as lenient as telling whole from cut allows.

use std::io::{self, BufRead, ErrorKind, Read};

/// No head of the ledger's is near this.
const MAX_LINE: u64 = 64 * 1024;

/// A start line and fields.
#[derive(Debug)]
pub(super) struct Head {
    /// Request or status line, without its end.
    pub(super) first: String,
    /// Names in lower case.
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads one.
    ///
    /// # Errors
    /// Those of the stream; `UnexpectedEof` when it ends before the head does.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Head> {
        let first = line(reader)?;
        let mut fields = Vec::new();
        loop {
            let text = line(reader)?;
            if text.is_empty() {
                return Ok(Head { first, fields });
            }
            let (name, value) = text.split_once(':').ok_or(ErrorKind::InvalidData)?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// The first field of this name, in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A field that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// The status of a response; 0 if this is none.
    pub(super) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Whether the sender closes the connection after this message.
    pub(super) fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Reads a body by its framing. Without any, that of a response lasts to the end of the stream, and a request has none.
///
/// # Errors
/// Those of the stream; `UnexpectedEof` when it ends before the body does.
pub(super) fn read_body(reader: &mut impl BufRead, head: &Head, response: bool, body: &mut Vec<u8>) -> io::Result<()> {
    if head.field("transfer-encoding").is_some() {
        return read_chunks(reader, body);
    }
    match head.number("content-length") {
        Some(length) => read_exactly(reader, length, body),
        None if response => reader.read_to_end(body).map(drop),
        None => Ok(()),
    }
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = line(reader)?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).map_err(|_| ErrorKind::InvalidData)?;
        if size == 0 {
            while !line(reader)?.is_empty() {}
            return Ok(());
        }
        read_exactly(reader, size, body)?;
        line(reader)?;
    }
}

fn read_exactly(reader: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    match reader.take(length).read_to_end(body)? as u64 {
        read if read == length => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.take(MAX_LINE).read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidData.into())
}

/// A body that no other nonce has.
pub(super) fn filler(nonce: u64, size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(nonce);
    let mut bytes = vec![0; size];
    random.fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<&[u8], ErrorKind>) {
        let mut reader = bytes;
        let head = Head::read(&mut reader).unwrap();
        let mut body = Vec::new();
        let read = read_body(&mut reader, &head, true, &mut body).map_err(|error| error.kind());
        assert_eq!(read.map(|()| body.as_slice()), expected);
    }

    #[test]
    fn whole_and_cut_are_distinguished() {
        let cut = Err(ErrorKind::UnexpectedEof);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Ok(b"abc"));
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", cut);
        check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", Ok(b"ab"));
        for end in ["2\r\nab\r\n0\r\n", "2\r\nab\r\n0", "2\r\nab\r\n", "2\r\nab", "3\r\nab", "2", ""] {
            check(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{end}").as_bytes(), cut);
        }
        check(b"HTTP/1.1 200 OK\r\n\r\nab", Ok(b"ab"));
    }
}
