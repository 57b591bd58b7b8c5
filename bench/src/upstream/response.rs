//! Responses of the upstream, ready to be written. Long bodies are not built, only counted.

use std::io::Write;
use std::time::Duration;

const FILLER_BYTES: usize = 128 * 1024;
/// Bodies up to this size go out together with their head.
const INLINE_BYTES: u64 = 64 * 1024;

static FILLER: [u8; FILLER_BYTES] = filler_text();

const fn filler_text() -> [u8; FILLER_BYTES] {
    let line = *b"all that passes the harbour passes under the eye of portunus. \r\n";
    let mut text = [0; FILLER_BYTES];
    let mut index = 0;
    while index < FILLER_BYTES {
        text[index] = line[index % line.len()];
        index += 1;
    }
    text
}

/// Up to `left` bytes of body.
pub(super) fn filler(left: u64) -> &'static [u8] {
    &FILLER[..usize::try_from(left).map_or(FILLER_BYTES, |left| left.min(FILLER_BYTES))]
}

/// What is to be written next: bytes, then filler. The buffer is kept from answer to answer.
#[derive(Debug, Default)]
pub(super) struct Responses {
    pub(super) bytes: Vec<u8>,
    /// Bytes of filler after `bytes`.
    pub(super) filler: u64,
    /// Wait this long before writing.
    pub(super) delay: Option<Duration>,
}

impl Responses {
    /// Appends bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        // Only a pipelined request makes something follow filler; then it has to be built after all.
        while self.filler > 0 {
            let part = filler(self.filler);
            self.bytes.extend_from_slice(part);
            self.filler -= part.len() as u64;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a whole response.
    pub(super) fn push(&mut self, status: &str, content_type: &str, body: &[u8], how: How) {
        self.head(status, content_type, body.len() as u64, how);
        if !how.without_body {
            self.raw(body);
        }
    }

    /// Appends a 200 with `length` bytes of filler.
    pub(super) fn push_filler(&mut self, length: u64, how: How) {
        self.head("200 OK", "text/plain", length, how);
        if how.without_body {
            return;
        }
        let inline = filler(length.min(INLINE_BYTES));
        self.raw(inline);
        self.filler = length - inline.len() as u64;
    }

    fn head(&mut self, status: &str, content_type: &str, length: u64, how: How) {
        let connection = if how.close { "Connection: close\r\n" } else { "" };
        self.raw(b"");
        // Writing to memory cannot fail.
        let _ = write!(
            self.bytes,
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{connection}\r\n"
        );
    }
}

/// How a response is framed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct How {
    /// The connection ends after it.
    pub(super) close: bool,
    /// It answers HEAD.
    pub(super) without_body: bool,
}
