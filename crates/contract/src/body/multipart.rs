//! `multipart/form-data` (RFC 7578, RFC 2046 §5.1) as it arrives: part heads, and what of the content belongs to which part.
//!
//! Strict where readers differ: no preamble, no epilogue, no bare line feeds around boundaries, no folded or repeated fields, no transfer
//! encodings. Does not know what the fields mean.

use crate::media_type::is_token;

/// What the reader tells of a body.
pub(crate) trait Parts {
    /// Why it stops the reading.
    type Stop;
    /// A part begins.
    fn begin(&mut self, head: &PartHead) -> Result<(), Self::Stop>;
    /// Content of the part, in pieces.
    fn content(&mut self, bytes: &[u8]) -> Result<(), Self::Stop>;
    /// The part ends.
    fn end(&mut self) -> Result<(), Self::Stop>;
    /// Whether it may go on at once.
    fn wants_more(&self) -> bool {
        true
    }
}

/// The head of one part.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct PartHead {
    /// The field's name.
    pub(crate) name: String,
    pub(crate) has_filename: bool,
    pub(crate) content_type: Option<Vec<u8>>,
    /// What the head says of the length of the content.
    length: Option<u64>,
    /// All fields, names in lower case.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
}

/// Why reading ended.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Failed<S> {
    Malformed(&'static str),
    Limit(&'static str),
    Stopped(S),
}

impl<S> From<S> for Failed<S> {
    fn from(stop: S) -> Failed<S> {
        Failed::Stopped(stop)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Before the first boundary.
    Start,
    /// Right behind a boundary.
    Boundary,
    Head,
    Content,
    /// Behind the last boundary.
    Close,
    /// Behind the line end that may follow it.
    End,
}

/// Splits a body into parts.
pub(crate) struct Splitter {
    /// `--` and the boundary.
    delimiter: Vec<u8>,
    state: State,
    /// Bytes that are not understood yet.
    pending: Vec<u8>,
    /// No byte of the content of this part has been handed on.
    is_fresh: bool,
    /// What the head of this part says of its length, in bytes.
    announced: Option<u64>,
    /// Bytes of its content so far.
    received: u64,
    parts: usize,
    max_parts: usize,
    max_head_bytes: usize,
}

impl Splitter {
    /// A splitter for a boundary of 1 to 70 characters.
    pub(crate) fn new(boundary: &str, max_parts: usize, max_head_bytes: usize) -> Splitter {
        Splitter {
            delimiter: [b"--", boundary.as_bytes()].concat(),
            state: State::Start,
            pending: Vec::new(),
            is_fresh: true,
            announced: None,
            received: 0,
            parts: 0,
            max_parts,
            max_head_bytes,
        }
    }

    /// Takes the next bytes, and reads for as long as `to` wants more of them. Says whether it has read what it can: if not, call it again, with
    /// nothing.
    pub(crate) fn feed<P: Parts>(&mut self, bytes: &[u8], to: &mut P) -> Result<bool, Failed<P::Stop>> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let (mut at, mut is_done) = (0, false);
        while !is_done && to.wants_more() {
            match self.step(pending.get(at..).unwrap_or_default(), to)? {
                Some(used) => at += used,
                None => is_done = true,
            }
        }
        pending.drain(..at.min(pending.len()));
        self.pending = pending;
        Ok(is_done)
    }

    /// Says that the body is over.
    pub(crate) fn finish<S>(&self) -> Result<(), Failed<S>> {
        match self.state {
            State::Close | State::End if self.pending.is_empty() => Ok(()),
            State::Close | State::End => Err(Failed::Malformed("something stands behind the last boundary")),
            _ => Err(Failed::Malformed("ends before its last boundary")),
        }
    }

    /// Understands the start of `rest`; none if more bytes are needed.
    fn step<P: Parts>(&mut self, rest: &[u8], to: &mut P) -> Result<Option<usize>, Failed<P::Stop>> {
        match self.state {
            State::Start => self.start(rest),
            State::Boundary => self.boundary(rest),
            State::Head => self.head(rest, to),
            State::Content => self.content(rest, to),
            State::Close => match rest {
                [] | b"\r" => Ok(None),
                b"\r\n" => {
                    self.state = State::End;
                    Ok(Some(2))
                }
                _ => Err(Failed::Malformed("something stands behind the last boundary")),
            },
            State::End if rest.is_empty() => Ok(None),
            State::End => Err(Failed::Malformed("something stands behind the last boundary")),
        }
    }

    fn start<S>(&mut self, rest: &[u8]) -> Result<Option<usize>, Failed<S>> {
        if rest.starts_with(&self.delimiter) {
            self.state = State::Boundary;
            return Ok(Some(self.delimiter.len()));
        }
        match self.delimiter.starts_with(rest) {
            true => Ok(None),
            false => Err(Failed::Malformed("does not start with its boundary")),
        }
    }

    fn boundary<S>(&mut self, rest: &[u8]) -> Result<Option<usize>, Failed<S>> {
        match rest {
            [b'\r', b'\n', ..] => {
                self.parts += 1;
                if self.parts > self.max_parts {
                    return Err(Failed::Limit("has too many parts"));
                }
                self.state = State::Head;
                Ok(Some(2))
            }
            [b'-', b'-', ..] => {
                self.state = State::Close;
                Ok(Some(2))
            }
            [] | [b'\r'] | [b'-'] => Ok(None),
            _ => Err(Failed::Malformed("a boundary is followed by something else than a line end")),
        }
    }

    fn head<P: Parts>(&mut self, rest: &[u8], to: &mut P) -> Result<Option<usize>, Failed<P::Stop>> {
        let searched = rest.get(..rest.len().min(self.max_head_bytes + 4)).unwrap_or_default();
        let Some(end) = memchr::memmem::find(searched, b"\r\n\r\n") else {
            return match rest.len() >= self.max_head_bytes + 4 {
                true => Err(Failed::Limit("the head of a part is too large")),
                false => Ok(None),
            };
        };
        let head = parse_head(rest.get(..end).unwrap_or_default()).map_err(Failed::Malformed)?;
        to.begin(&head)?;
        self.state = State::Content;
        (self.is_fresh, self.announced, self.received) = (true, head.length, 0);
        Ok(Some(end + 4))
    }

    fn content<P: Parts>(&mut self, rest: &[u8], to: &mut P) -> Result<Option<usize>, Failed<P::Stop>> {
        let length = self.delimiter.len();
        if self.is_fresh {
            if rest.len() < length && self.delimiter.starts_with(rest) {
                return Ok(None);
            }
            if rest.starts_with(&self.delimiter) {
                return Err(Failed::Malformed("a boundary stands right behind the head of a part"));
            }
        }
        for at in memchr::memmem::find_iter(rest, &self.delimiter) {
            let content = rest.get(..at).unwrap_or_default();
            if let Some(content) = content.strip_suffix(b"\r\n") {
                self.hand_on(content, to)?;
                if self.announced.is_some_and(|announced| announced != self.received) {
                    return Err(Failed::Malformed("the Content-Length of a part is not its length"));
                }
                to.end()?;
                self.state = State::Boundary;
                return Ok(Some(at + length));
            }
            if content.ends_with(b"\n") || content.ends_with(b"\r") {
                return Err(Failed::Malformed("a boundary stands behind a bare line feed or carriage return"));
            }
        }
        // What may be the start of a boundary stays, with the line end before it.
        let safe = rest.len().saturating_sub(length + 1);
        if safe == 0 {
            return Ok(None);
        }
        self.hand_on(rest.get(..safe).unwrap_or_default(), to)?;
        self.is_fresh = false;
        Ok(Some(safe))
    }

    fn hand_on<P: Parts>(&mut self, content: &[u8], to: &mut P) -> Result<(), P::Stop> {
        self.received = self.received.saturating_add(content.len() as u64);
        to.content(content)
    }
}

/// The fields of a part's head.
fn parse_head(head: &[u8]) -> Result<PartHead, &'static str> {
    let mut parsed = PartHead::default();
    let mut has_disposition = false;
    for line in head.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = line.iter().position(|byte| *byte == b':').ok_or("the head of a part has a line that is no field")?;
        let (name, value) = line.split_at(at);
        let name =
            std::str::from_utf8(name).ok().filter(|name| is_token(name)).ok_or("the head of a part has a bad name")?;
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
            return Err("the head of a part holds a control character");
        }
        let name = name.to_ascii_lowercase();
        if parsed.fields.iter().any(|(have, _)| *have == name) {
            return Err("the head of a part has a field twice");
        }
        match name.as_str() {
            "content-disposition" => {
                has_disposition = true;
                disposition(value, &mut parsed)?;
            }
            "content-type" => parsed.content_type = Some(value.to_vec()),
            // Some readers decode it, most do not; some go by the length and not by the boundary.
            "content-encoding" if !value.eq_ignore_ascii_case(b"identity") => {
                return Err("a part has a content coding, which RFC 7578 does not know");
            }
            "content-length" => {
                let digits =
                    std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let length = digits.and_then(|digits| digits.parse().ok());
                parsed.length = Some(length.ok_or("the Content-Length of a part is no number")?);
            }
            "content-transfer-encoding" if !is_plain_transfer(value) => {
                return Err("a part has a transfer encoding, which RFC 7578 does away with");
            }
            _ => {}
        }
        parsed.fields.push((name, value.to_vec()));
    }
    // A bare line feed would have made a line of what others read as one field.
    let line_feeds = head.iter().filter(|byte| **byte == b'\n').count();
    if memchr::memmem::find_iter(head, b"\r\n").count() != line_feeds
        || head.iter().filter(|byte| **byte == b'\r').count() != line_feeds
    {
        return Err("the head of a part has a bare carriage return or line feed");
    }
    if has_disposition { Ok(parsed) } else { Err("a part has no Content-Disposition") }
}

fn is_plain_transfer(value: &[u8]) -> bool {
    ["7bit", "8bit", "binary"].iter().any(|known| value.eq_ignore_ascii_case(known.as_bytes()))
}

/// `form-data; name="a"; filename="b"` (RFC 7578 §4.2).
fn disposition(value: &[u8], parsed: &mut PartHead) -> Result<(), &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "Content-Disposition of a part is not UTF-8")?;
    let (kind, mut rest) = text.split_at(text.find(';').unwrap_or(text.len()));
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return Err("Content-Disposition of a part is not form-data");
    }
    let mut name = None;
    while let Some(after) = rest.trim_start().strip_prefix(';') {
        let (key, value, after) = disposition_parameter(after.trim_start())?;
        match key.to_ascii_lowercase().as_str() {
            "name" if name.is_none() && !value.contains('\\') => name = Some(value.to_owned()),
            "name" => return Err("the name of a part is there twice, or holds a backslash"),
            "filename" if parsed.has_filename => return Err("a part has two file names"),
            "filename" | "filename*" => parsed.has_filename = true,
            _ => return Err("Content-Disposition of a part has a parameter that RFC 7578 does not know"),
        }
        rest = after;
    }
    if !rest.trim().is_empty() {
        return Err("Content-Disposition of a part cannot be read");
    }
    parsed.name = name.ok_or("a part has no name")?;
    Ok(())
}

/// One parameter, and what follows it. Browsers escape a quote as `%22`; a backslash stays, it may be part of a path.
fn disposition_parameter(text: &str) -> Result<(&str, &str, &str), &'static str> {
    const BAD: &str = "Content-Disposition of a part cannot be read";
    let (key, rest) = text.split_once('=').ok_or(BAD)?;
    if !is_token(key) {
        return Err(BAD);
    }
    match rest.strip_prefix('"') {
        Some(quoted) => {
            let (value, rest) = quoted.split_once('"').ok_or(BAD)?;
            // `\"` is a quote to some readers and the end to others.
            if value.ends_with('\\') { Err(BAD) } else { Ok((key, value, rest)) }
        }
        None => {
            let (value, rest) = rest.split_at(rest.find(';').unwrap_or(rest.len()));
            let value = value.trim_end();
            if value.is_empty() || value.contains([' ', '"']) { Err(BAD) } else { Ok((key, value, rest)) }
        }
    }
}
