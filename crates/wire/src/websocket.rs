//! Frames of WebSockets (RFC 6455 §5): the messages of a client put together from them, and where those of a server begin and end.
//!
//! Strict: no extension is taken, so reserved bits are zero; lengths are as short as they can be (§5.2); control frames are whole and small (§5.5).

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// Goes on with a message.
    Continuation,
    /// Begins a message of text.
    Text,
    /// Begins a message of bytes.
    Binary,
    /// Ends the connection.
    Close,
    /// Asks for a sign of life.
    Ping,
    /// Gives one.
    Pong,
}

impl Opcode {
    fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0x0 => Opcode::Continuation,
            0x1 => Opcode::Text,
            0x2 => Opcode::Binary,
            0x8 => Opcode::Close,
            0x9 => Opcode::Ping,
            0xa => Opcode::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xa,
        }
    }

    fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// Why a frame is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// It is none by RFC 6455, or does not belong where it is.
    Malformed(&'static str),
    /// Its message is longer than the limit.
    TooLong,
}

/// Largest payload of a control frame (§5.5).
const MAX_CONTROL_BYTES: u64 = 125;

/// Largest head of a frame: two bytes, a length of eight, and a mask.
const MAX_HEAD_BYTES: usize = 14;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// It ends its message.
    pub is_last: bool,
    /// What it is.
    pub opcode: Opcode,
    /// What its payload is masked with.
    pub mask: Option<[u8; 4]>,
    /// Its own length, bytes.
    pub head_bytes: usize,
    /// That of the payload, bytes.
    pub payload_bytes: u64,
}

/// Reads the head of a frame; none if it is not all there.
///
/// # Errors
/// It is none.
pub fn read_head(bytes: &[u8]) -> Result<Option<FrameHead>, FrameError> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(FrameError::Malformed("a reserved bit is set"));
    }
    let opcode = Opcode::of(first & 0x0f).ok_or(FrameError::Malformed("the opcode is reserved"))?;
    let is_last = first & 0x80 != 0;
    let (payload_bytes, length_bytes) = match second & 0x7f {
        126 => {
            let Some(length) = rest.first_chunk::<2>() else { return Ok(None) };
            (u64::from(u16::from_be_bytes(*length)), 2)
        }
        127 => {
            let Some(length) = rest.first_chunk::<8>() else { return Ok(None) };
            (u64::from_be_bytes(*length), 8)
        }
        length => (u64::from(length), 0),
    };
    let is_shortest = match length_bytes {
        2 => payload_bytes > 125,
        8 => payload_bytes > 0xffff && payload_bytes <= i64::MAX as u64,
        _ => true,
    };
    if !is_shortest {
        return Err(FrameError::Malformed("the length is not written as short as it can be"));
    }
    if opcode.is_control() && (!is_last || payload_bytes > MAX_CONTROL_BYTES) {
        return Err(FrameError::Malformed("a control frame is in pieces or too long"));
    }
    let is_masked = second & 0x80 != 0;
    let mask = match (is_masked, rest.get(length_bytes..).and_then(<[u8]>::first_chunk::<4>)) {
        (false, _) => None,
        (true, Some(mask)) => Some(*mask),
        (true, None) => return Ok(None),
    };
    let head_bytes = 2 + length_bytes + if is_masked { 4 } else { 0 };
    Ok(Some(FrameHead { is_last, opcode, mask, head_bytes, payload_bytes }))
}

/// Writes a whole frame.
pub fn write_frame(opcode: Opcode, mask: Option<[u8; 4]>, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | opcode.bits());
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..=125), _) => out.push(masked | length),
        (_, Ok(length)) => {
            out.push(masked | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask.unwrap_or_default()[..if mask.is_some() { 4 } else { 0 }]);
    let start = out.len();
    out.extend_from_slice(payload);
    unmask(out.get_mut(start..).unwrap_or_default(), mask.unwrap_or_default());
}

/// Masks, or takes the mask off (§5.3).
fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

/// The frames of a client, put together to messages.
#[derive(Debug)]
pub struct ClientMessages {
    /// Largest message, bytes.
    limit: usize,
    /// What came and is not looked at yet, from `at`.
    pending: Vec<u8>,
    at: usize,
    /// The frames of the message under way, as they came.
    frames: Vec<u8>,
    /// Its payload.
    payload: Vec<u8>,
    /// What it is; none between messages.
    kind: Option<Opcode>,
    /// The message was handed out.
    is_over: bool,
}

/// Something whole that a client sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Whole<'m> {
    /// A control frame, as it came.
    Control(&'m [u8]),
    /// A message.
    Message {
        /// Its frames, as they came.
        frames: &'m [u8],
        /// What it says.
        payload: &'m [u8],
        /// It is text.
        is_text: bool,
    },
}

impl ClientMessages {
    /// Messages of at most so many bytes.
    pub fn new(limit: usize) -> ClientMessages {
        let (pending, frames, payload) = (Vec::new(), Vec::new(), Vec::new());
        ClientMessages { limit, pending, at: 0, frames, payload, kind: None, is_over: false }
    }

    /// Takes what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.drain(..self.at);
        self.at = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// How much memory it takes.
    pub fn bytes_held(&self) -> usize {
        self.pending.capacity() + self.frames.capacity() + self.payload.capacity()
    }

    /// The next thing that is whole; none if more must come.
    ///
    /// # Errors
    /// See [`FrameError`]. Nothing more may be asked for then.
    pub fn next_whole(&mut self) -> Result<Option<Whole<'_>>, FrameError> {
        if self.is_over {
            self.is_over = false;
            self.kind = None;
            self.frames = Vec::new();
            self.payload = Vec::new();
        }
        loop {
            let pending = self.pending.get(self.at..).unwrap_or_default();
            let Some(head) = read_head(pending)? else { return Ok(self.none()) };
            let mask = head.mask.ok_or(FrameError::Malformed("a frame of a client is not masked"))?;
            let is_control = head.opcode.is_control();
            let before = if is_control { 0 } else { self.payload.len() };
            let payload_bytes = usize::try_from(head.payload_bytes).map_err(|_| FrameError::TooLong)?;
            if payload_bytes.saturating_add(before) > self.limit && !is_control {
                return Err(FrameError::TooLong);
            }
            let is_in_place = match head.opcode {
                Opcode::Continuation => self.kind.is_some(),
                Opcode::Text | Opcode::Binary => self.kind.is_none(),
                _ => true,
            };
            if !is_in_place {
                return Err(FrameError::Malformed("a message begins within another, or goes on before it began"));
            }
            let end = head.head_bytes.saturating_add(payload_bytes);
            let Some(frame) = pending.get(..end) else { return Ok(None) };
            let start = self.at;
            self.at += end;
            if is_control {
                return Ok(self.pending.get(start..self.at).map(Whole::Control));
            }
            // Empty frames make no message longer, but what is held of it.
            if self.frames.len().saturating_add(frame.len())
                > self.limit.saturating_mul(2).saturating_add(MAX_HEAD_BYTES)
            {
                return Err(FrameError::TooLong);
            }
            self.frames.extend_from_slice(frame);
            self.payload.extend_from_slice(frame.get(head.head_bytes..).unwrap_or_default());
            unmask(self.payload.get_mut(before..).unwrap_or_default(), mask);
            let kind = *self.kind.get_or_insert(head.opcode);
            if head.is_last {
                self.is_over = true;
                let is_text = kind == Opcode::Text;
                return Ok(Some(Whole::Message { frames: &self.frames, payload: &self.payload, is_text }));
            }
        }
    }

    /// Nothing is whole, and nothing of a frame is there: no memory is kept.
    fn none(&mut self) -> Option<Whole<'static>> {
        if self.at == self.pending.len() {
            (self.pending, self.at) = (Vec::new(), 0);
        }
        None
    }
}

/// The frames of a server, of which nothing matters but where messages end.
#[derive(Debug, Default)]
pub struct ServerFrames {
    head: [u8; MAX_HEAD_BYTES],
    head_bytes: usize,
    /// What is left of the payload.
    left: u64,
    /// A message has begun and not ended.
    is_within: bool,
    /// The frame under way ends its message.
    ends: bool,
}

impl ServerFrames {
    /// Whether a message of somebody else may stand here.
    pub fn is_between(&self) -> bool {
        self.head_bytes == 0 && self.left == 0 && !self.is_within
    }

    /// How many of these bytes come before the next place between two messages: all, if there is none.
    ///
    /// # Errors
    /// A frame is none, or is masked.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<usize, FrameError> {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let rest = (bytes.len() - at) as u64;
                let count = self.left.min(rest);
                self.left -= count;
                at += usize::try_from(count).unwrap_or(bytes.len());
            } else {
                let rest = bytes.get(at..).unwrap_or_default();
                at += self.read(rest)?;
            }
            if self.left == 0 && self.head_bytes == 0 {
                if self.ends {
                    self.is_within = false;
                }
                if !self.is_within {
                    return Ok(at);
                }
            }
        }
        Ok(at)
    }

    /// Takes bytes of a head; says how many.
    fn read(&mut self, bytes: &[u8]) -> Result<usize, FrameError> {
        let mut taken = 0;
        for byte in bytes {
            if let Some(place) = self.head.get_mut(self.head_bytes) {
                *place = *byte;
            }
            self.head_bytes += 1;
            taken += 1;
            let Some(head) = read_head(self.head.get(..self.head_bytes).unwrap_or_default())? else { continue };
            if head.mask.is_some() {
                return Err(FrameError::Malformed("a frame of a server is masked"));
            }
            self.left = head.payload_bytes;
            self.head_bytes = 0;
            let is_control = head.opcode.is_control();
            if !is_control {
                self.is_within = true;
            }
            // A control frame within a message ends nothing.
            self.ends = head.is_last && !is_control;
            break;
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(Opcode::Text, MASK, payload, &mut out);
        out[0] = first;
        out
    }

    /// What comes out, in whatever pieces it goes in.
    fn read(bytes: &[u8], limit: usize) -> Result<Vec<(String, Vec<u8>)>, FrameError> {
        let run = |size: usize| {
            let (mut messages, mut found) = (ClientMessages::new(limit), Vec::new());
            for piece in bytes.chunks(size) {
                messages.push(piece);
                while let Some(whole) = messages.next_whole()? {
                    found.push(match whole {
                        Whole::Control(frame) => ("control".to_owned(), frame.to_vec()),
                        Whole::Message { frames, payload, is_text } => {
                            (format!("{is_text} {}", frames.len()), payload.to_vec())
                        }
                    });
                }
            }
            Ok(found)
        };
        let whole = run(bytes.len().max(1));
        for size in 1..8 {
            assert_eq!(run(size), whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn messages_are_put_together() {
        let hello = frame(0x81, b"hello");
        assert_eq!(read(&hello, 100).unwrap(), [("true 11".to_owned(), b"hello".to_vec())]);
        let ping = frame(0x89, b"p");
        let parts = [frame(0x01, b"hel"), ping.clone(), frame(0x00, b""), frame(0x80, b"lo")].concat();
        let found = read(&[parts, hello].concat(), 100).unwrap();
        assert_eq!(found[0], ("control".to_owned(), ping));
        assert_eq!(found[1], ("true 23".to_owned(), b"hello".to_vec()));
        assert_eq!(found[2].1, b"hello");
        let long = vec![b'x'; 70_000];
        assert_eq!(read(&frame(0x82, &long), 100_000).unwrap(), [("false 70014".to_owned(), long)]);
    }

    #[test]
    fn what_is_no_frame_of_a_client_is_rejected() {
        let unmasked = vec![0x81, 1, b'a'];
        let wrong = |bytes: &[u8]| read(bytes, 1_000).unwrap_err();
        for (bytes, what) in [
            (frame(0xc1, b"a"), "a compressed message"),
            (frame(0x83, b"a"), "a reserved opcode"),
            (frame(0x09, b"a"), "a control frame in pieces"),
            (frame(0x89, &[0; 126]), "a long control frame"),
            (frame(0x80, b"a"), "a continuation of nothing"),
            ([frame(0x01, b"a"), frame(0x81, b"b")].concat(), "a message within another"),
            (unmasked, "no mask"),
            (vec![0x81, 0x80 | 126, 0, 5, 0, 0, 0, 0], "a long length"),
            (vec![0x81, 0x80 | 127, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0], "a longer length"),
            (vec![0x81, 0x80 | 127, 0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0], "a negative length"),
        ] {
            assert!(matches!(wrong(&bytes), FrameError::Malformed(_)), "{what}");
        }
        assert_eq!(read(&frame(0x81, &[0; 11]), 10), Err(FrameError::TooLong));
        assert_eq!(read(&[frame(0x01, &[0; 6]), frame(0x80, &[0; 6])].concat(), 10), Err(FrameError::TooLong));
        let empty = [frame(0x01, b""), frame(0x00, b"").repeat(10)].concat();
        assert_eq!(read(&empty, 10), Err(FrameError::TooLong), "frames without an end");
    }

    #[test]
    fn the_end_of_each_message_of_a_server_is_found() {
        let plain = |first: u8, payload: &[u8]| {
            let mut out = Vec::new();
            write_frame(Opcode::Text, None, payload, &mut out);
            out[0] = first;
            out
        };
        let parts = [
            plain(0x81, b"abc"),
            plain(0x01, b"de"),
            plain(0x89, b"p"),
            plain(0x80, b""),
            plain(0x8a, b""),
            plain(0x82, &[7; 300]),
        ];
        let ends = [5, 5 + 4 + 3 + 2, 5 + 4 + 3 + 2 + 2, 5 + 4 + 3 + 2 + 2 + 304];
        let all = parts.concat();
        for size in [1, 2, 3, 7, all.len()] {
            let (mut frames, mut found, mut passed) = (ServerFrames::default(), Vec::new(), 0);
            for piece in all.chunks(size) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let count = frames.follow(rest).unwrap();
                    passed += count;
                    rest = &rest[count..];
                    if frames.is_between() {
                        found.push(passed);
                    }
                }
            }
            assert_eq!(found, ends, "in pieces of {size}");
        }
        assert!(ServerFrames::default().follow(&frame(0x81, b"a")).is_err());
        assert!(ServerFrames::default().follow(&plain(0xc1, b"a")).is_err());
    }
}
