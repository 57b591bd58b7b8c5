//! Just enough of HTTP/1.1 responses to know when one is complete: Content-Length or chunked, on a connection that asks with GET or POST.

use std::io;
use std::mem::MaybeUninit;

const MAX_FIELDS: usize = 64;

/// Reads one response after the other from the bytes of a connection.
#[derive(Debug)]
pub(super) struct ResponseReader {
    /// The status that they must have.
    status: u16,
    partial: Vec<u8>,
    state: State,
    body_bytes: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Body(u64),
    ChunkSize,
    /// Data and the line end after it.
    Chunk(u64),
    /// The empty line after the last chunk.
    Last,
}

impl ResponseReader {
    pub(super) fn of_status(status: u16) -> ResponseReader {
        ResponseReader { status, partial: Vec::new(), state: State::Head, body_bytes: 0 }
    }

    /// Takes bytes; true when the response is complete. Nothing may follow it: the next request has not been sent.
    ///
    /// # Errors
    /// The end of the stream (no bytes), another status, or no HTTP.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.state {
                State::Head => self.head(rest)?,
                State::Body(left) | State::Chunk(left) => self.body(rest, left),
                State::ChunkSize | State::Last => self.line(rest)?,
            };
            if self.state == State::Body(0) {
                self.state = State::Head;
                return if rest.is_empty() { Ok(true) } else { Err(broken("bytes after the response")) };
            }
        }
        Ok(false)
    }

    /// Body bytes since this was last asked.
    pub(super) fn take_body_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.body_bytes)
    }

    fn head<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        if self.partial.is_empty() {
            if let Some((length, state)) = parse_head(bytes, self.status)? {
                self.state = state;
                return Ok(&bytes[length..]);
            }
            self.partial.extend_from_slice(bytes);
            return Ok(&[]);
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let Some((length, state)) = parse_head(&self.partial, self.status)? else { return Ok(&[]) };
        self.state = state;
        self.partial.clear();
        Ok(&bytes[length - before..])
    }

    fn body<'a>(&mut self, bytes: &'a [u8], left: u64) -> &'a [u8] {
        let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let left = left - taken as u64;
        self.body_bytes += taken as u64;
        self.state = match self.state {
            State::Chunk(_) if left == 0 => State::ChunkSize,
            State::Chunk(_) => State::Chunk(left),
            _ => State::Body(left),
        };
        &bytes[taken..]
    }

    fn line<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        self.partial.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        let Some(end) = end else { return Ok(&[]) };
        let line = std::mem::take(&mut self.partial);
        let line = std::str::from_utf8(&line).map_err(|_| broken("chunk line"))?.trim_end();
        self.state = match self.state {
            State::Last if line.is_empty() => State::Body(0),
            State::Last => State::Last,
            _ => match u64::from_str_radix(line, 16).map_err(|_| broken("chunk size"))? {
                0 => State::Last,
                size => State::Chunk(size + 2),
            },
        };
        Ok(&bytes[end + 1..])
    }
}

fn parse_head(bytes: &[u8], status: u16) -> io::Result<Option<(usize, State)>> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
    let length = match parsed.map_err(|error| broken(&error.to_string()))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    if head.code != Some(status) {
        return Err(broken(&format!("status {}", head.code.unwrap_or_default())));
    }
    for field in head.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(field.value).unwrap_or_default();
            return Ok(Some((length, State::Body(text.parse().map_err(|_| broken("content-length"))?))));
        }
        if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Some((length, State::ChunkSize)));
        }
    }
    Err(broken("a response of unknown length"))
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server answered: {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn responses_end_where_they_end_however_they_are_cut() {
        let rows: [(&[u8], u64); 4] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", 5),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nb\r\n0123456789a\r\n0\r\n\r\n", 18),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: u\r\n\r\n", 0),
        ];
        for (response, body) in rows {
            for step in [1, 7, response.len()] {
                let mut reader = ResponseReader::of_status(200);
                for _ in 0..2 {
                    let ends: Vec<bool> = response.chunks(step).map(|part| reader.feed(part).unwrap()).collect();
                    assert!(ends[ends.len() - 1] && !ends[..ends.len() - 1].contains(&true), "{ends:?}");
                    assert_eq!(reader.take_body_bytes(), body);
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_good_response_is_an_error() {
        for response in [
            "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "SMTP\r\n\r\n",
            "",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc",
        ] {
            assert!(ResponseReader::of_status(200).feed(response.as_bytes()).is_err(), "{response}");
        }
    }
}
