//! The frames of a request (RFC 9114 §4.1): one HEADERS, any DATA, perhaps one HEADERS more.

use std::borrow::Cow;

use super::Code;
use super::frame::{self, DATA, FrameHead, FrameReader, HEADERS, Piece};

/// What a stream brings next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'i> {
    /// A field section that is whole: the first is the head, the second the trailers.
    Section(Cow<'i, [u8]>),
    /// The beginning of one that is longer than it may be. The rest of the stream is not to be read.
    TooLarge(Vec<u8>),
    /// Some of the content, never empty.
    Data(&'i [u8]),
    /// A frame that carries nothing, for nobody here, begins.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Content,
    /// Behind a CONNECT there are no trailers (RFC 9114 §4.4).
    Tunnel,
    /// Behind the trailers.
    End,
}

/// Reads the frames of one request. Holds nothing of them but a field section that is not whole.
#[derive(Debug)]
pub struct RequestReader {
    frames: FrameReader,
    kind: u64,
    stage: Stage,
    section: Vec<u8>,
    most: usize,
}

impl RequestReader {
    /// At the beginning of a stream, whose field sections may be of so many bytes as they come.
    pub fn new(most_section_bytes: usize) -> RequestReader {
        let frames = FrameReader::default();
        RequestReader { frames, kind: 0, stage: Stage::Head, section: Vec::new(), most: most_section_bytes }
    }

    /// What the stream brings next, taken off the front of `input`; none if that has no more.
    ///
    /// # Errors
    /// The code that the connection ends with.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, Code> {
        while let Some(piece) = self.frames.next(input) {
            match (piece, self.kind) {
                (Piece::Head(head), _) => {
                    self.begin(head)?;
                    match head.kind {
                        HEADERS if head.length == 0 => return Ok(Some(Event::Section(Cow::Borrowed(&[])))),
                        DATA | HEADERS if head.length > 0 => {}
                        _ => return Ok(Some(Event::Nothing)),
                    }
                }
                (Piece::Payload(bytes), DATA) => return Ok(Some(Event::Data(bytes))),
                (Piece::Payload(bytes), HEADERS) => {
                    if let Some(event) = self.gather(bytes) {
                        return Ok(Some(event));
                    }
                }
                (Piece::Payload(_), _) => {}
            }
        }
        Ok(None)
    }

    /// A frame begins: whether it may stand here.
    fn begin(&mut self, head: FrameHead) -> Result<(), Code> {
        self.kind = head.kind;
        self.stage = match (head.kind, self.stage) {
            (HEADERS, Stage::Head) => Stage::Content,
            (HEADERS, Stage::Content) => Stage::End,
            (DATA, Stage::Content | Stage::Tunnel) => self.stage,
            (kind, _) if frame::is_known(kind) => return Err(Code::FRAME_UNEXPECTED),
            _ => self.stage,
        };
        Ok(())
    }

    /// Takes more of a field section.
    fn gather<'i>(&mut self, bytes: &'i [u8]) -> Option<Event<'i>> {
        if self.section.len() as u64 + bytes.len() as u64 + self.frames.rest() > self.most as u64 {
            let room = self.most.saturating_sub(self.section.len()).min(bytes.len());
            self.section.extend_from_slice(bytes.get(..room).unwrap_or_default());
            return Some(Event::TooLarge(std::mem::take(&mut self.section)));
        }
        let is_whole = self.frames.rest() == 0;
        if is_whole && self.section.is_empty() {
            return Some(Event::Section(Cow::Borrowed(bytes)));
        }
        self.section.extend_from_slice(bytes);
        is_whole.then(|| Event::Section(Cow::Owned(std::mem::take(&mut self.section))))
    }

    /// The request, whose head was read, is a CONNECT.
    pub fn begin_tunnel(&mut self) {
        self.stage = Stage::Tunnel;
    }

    /// Whether nothing but the end of the stream may come any more.
    pub fn is_behind_trailers(&self) -> bool {
        self.stage == Stage::End && self.frames.rest() == 0
    }

    /// The stream has ended. Says whether it held a head.
    ///
    /// # Errors
    /// The code that the connection ends with: the stream ended in the middle of a frame.
    pub fn finish(&self) -> Result<bool, Code> {
        self.frames.finish().map(|()| self.stage != Stage::Head)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const SMALL: usize = 16;

    /// Frames as (type, payload).
    fn bytes(frames: &[(u64, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|(kind, payload)| frame::write(*kind, payload, &mut bytes));
        bytes
    }

    /// What a stream brings, in short, with DATA joined; and how it ends.
    fn read(bytes: &[u8], step: usize, is_tunnel: bool) -> (String, Result<bool, Code>) {
        let (mut reader, mut found, mut in_data) = (RequestReader::new(SMALL), String::new(), false);
        for mut piece in bytes.chunks(step) {
            loop {
                let event = match reader.next(&mut piece) {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(code) => return (found, Err(code)),
                };
                let was_in_data = std::mem::replace(&mut in_data, matches!(event, Event::Data(_)));
                let text = match &event {
                    Event::Section(section) => format!("[{}]", section.escape_ascii()),
                    Event::TooLarge(section) => return (format!("{found}[{}", section.escape_ascii()), Ok(true)),
                    Event::Data(data) => format!("{}{}", if was_in_data { "" } else { ":" }, data.escape_ascii()),
                    Event::Nothing => "-".to_owned(),
                };
                if matches!(event, Event::Section(_)) && is_tunnel {
                    reader.begin_tunnel();
                }
                found.push_str(&text);
            }
        }
        (found, reader.finish())
    }

    fn check(frames: &[(u64, &[u8])], expected: &str, end: Result<bool, Code>) {
        let bytes = bytes(frames);
        for step in 1..=bytes.len().max(1) {
            assert_eq!(read(&bytes, step, false), (expected.to_owned(), end), "{frames:?} by {step}");
        }
    }

    #[test]
    fn messages_are_headers_data_and_trailers() {
        const GREASE: u64 = 0x21;
        check(&[], "", Ok(false));
        check(&[(GREASE, b"abc")], "-", Ok(false));
        check(&[(HEADERS, b"head")], "[head]", Ok(true));
        check(&[(HEADERS, b"")], "[]", Ok(true));
        check(&[(HEADERS, b"head"), (DATA, b"ab"), (DATA, b"c")], "[head]:abc", Ok(true));
        check(&[(GREASE, b""), (HEADERS, b"head"), (DATA, b""), (GREASE, b"x"), (DATA, b"c")], "-[head]--:c", Ok(true));
        check(&[(HEADERS, b"head"), (DATA, b"ab"), (HEADERS, b"tail"), (GREASE, b"x")], "[head]:ab[tail]-", Ok(true));
        check(&[(HEADERS, b"head"), (HEADERS, b"tail")], "[head][tail]", Ok(true));
    }

    #[test]
    fn frames_in_wrong_places_end_the_connection() {
        const UNEXPECTED: Result<bool, Code> = Err(Code::FRAME_UNEXPECTED);
        check(&[(DATA, b"x")], "", UNEXPECTED);
        check(&[(DATA, b"")], "", UNEXPECTED);
        check(&[(HEADERS, b"h"), (HEADERS, b"t"), (DATA, b"x")], "[h][t]", UNEXPECTED);
        check(&[(HEADERS, b"h"), (HEADERS, b"t"), (HEADERS, b"u")], "[h][t]", UNEXPECTED);
        for kind in [0x03, 0x04, 0x05, 0x07, 0x0d, 0x02, 0x06, 0x08, 0x09] {
            check(&[(kind, b"\0")], "", UNEXPECTED);
            check(&[(HEADERS, b"h"), (kind, b"\0")], "[h]", UNEXPECTED);
        }
    }

    #[test]
    fn no_more_of_a_section_is_held_than_it_may_have() {
        check(&[(HEADERS, &[b'a'; SMALL])], &format!("[{}]", "a".repeat(SMALL)), Ok(true));
        let frames: &[(u64, &[u8])] = &[(HEADERS, &[b'a'; SMALL + 1])];
        let bytes = bytes(frames);
        for step in 1..=bytes.len() {
            let (found, end) = read(&bytes, step, false);
            assert!(found.starts_with('[') && found.len() <= SMALL + 1 && end == Ok(true), "{found} by {step}");
        }
    }

    #[test]
    fn behind_a_connect_there_is_only_data() {
        let frames: &[(u64, &[u8])] = &[(HEADERS, b"h"), (DATA, b"ab"), (0x21, b"x"), (HEADERS, b"t")];
        assert_eq!(read(&bytes(frames), 1, true), ("[h]:ab-".to_owned(), Err(Code::FRAME_UNEXPECTED)));
    }
}
