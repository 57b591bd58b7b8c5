//! The frames of an HTTP/2 connection, seen from beside as their bytes pass (RFC 9113 §4).
//!
//! The `h2` crate answers PING and SETTINGS, and bookkeeps PRIORITY and WINDOW_UPDATE, without asking whether it is being made to work for
//! nothing: each frame is handed to `h2_floods`, which counts. And of a message it drops what it does not understand, where the message is to be
//! refused: owns the streams of such messages. Judges nothing that the crate judges.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use wire::http::hpack::{Found, HeaderTable};

use super::h2_floods::{FRAME_HEAD, Floods, FrameHead};

/// The connection preface of the client (RFC 9113 §3.4).
const PREFACE: usize = 24;

/// The largest frame that the crate takes, since we allow no larger one (RFC 9113 §6.5.2).
const MAX_FRAME: usize = 16_384;

/// Streams of malformed messages that are remembered until somebody asks. Those of which nobody asks were given up before.
const MAX_MALFORMED: usize = 1024;

/// Frame types and flags (RFC 9113 §6).
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// Whose frames these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A client's.
    Client,
    /// An upstream's.
    Upstream,
}

/// What was noticed, for those who work on the messages.
#[derive(Debug)]
pub struct Noticed {
    /// What the peer may still have us do for nothing.
    pub floods: Floods,
    /// Bytes that went out and came in.
    sent: Cell<u64>,
    heard: Cell<u64>,
    /// The last stream that the peer will look at, once it has said so (RFC 9113 §6.8).
    last_stream: Cell<Option<u32>>,
    malformed: RefCell<BTreeSet<u32>>,
}

impl Noticed {
    /// Nothing yet.
    pub fn new(floods: Floods) -> Noticed {
        let (sent, heard, last_stream) = (Cell::new(0), Cell::new(0), Cell::new(None));
        Noticed { floods, sent, heard, last_stream, malformed: RefCell::default() }
    }

    /// Whether the peer has said that it takes no further streams.
    pub fn is_going_away(&self) -> bool {
        self.last_stream.get().is_some()
    }

    /// Whether the peer has said that it has not looked at this stream, and will not.
    pub fn is_ignored(&self, stream: u32) -> bool {
        self.last_stream.get().is_some_and(|last| stream > last)
    }

    /// Bytes that went out and came in so far.
    pub fn traffic(&self) -> (u64, u64) {
        (self.sent.get(), self.heard.get())
    }

    /// Notes bytes that went out.
    pub fn count_sent(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes as u64);
    }

    /// Notes a GOAWAY. A later one may name a lower stream, never a higher one.
    fn note_last_stream(&self, payload: &[u8]) {
        if let Some((last, _)) = payload.split_first_chunk() {
            let last = u32::from_be_bytes(*last) & 0x7fff_ffff;
            self.last_stream.set(Some(self.last_stream.get().unwrap_or(last).min(last)));
        }
    }

    /// Whether a message of this stream had something that the crate dropped: a request's `:path` a fragment (RFC 9113 §8.3.1), trailers a
    /// pseudo-field (§8.1). Of an upstream that is to be asked with trailers only: an answer whose head is all it has looks the same.
    pub fn is_malformed(&self, stream: u32) -> bool {
        self.malformed.borrow().contains(&stream)
    }

    /// Forgets a stream that has ended.
    pub fn forget(&self, stream: u32) {
        self.malformed.borrow_mut().remove(&stream);
    }

    fn remember(&self, stream: u32) {
        let mut malformed = self.malformed.borrow_mut();
        malformed.insert(stream);
        if malformed.len() > MAX_MALFORMED {
            malformed.pop_first();
        }
    }
}

/// Header blocks put together from their frames.
#[derive(Debug)]
struct Blocks {
    sender: Sender,
    table: HeaderTable,
    /// The highest stream the client has opened.
    newest: u32,
    /// Whether the block that is being read ends its stream, and begins it.
    ends: bool,
    begins: bool,
    found: Found,
    /// A representation whose end is missing.
    held: Vec<u8>,
    /// The blocks are no HPACK: the crate ends the connection.
    is_broken: bool,
}

impl Blocks {
    /// Takes a frame of a block.
    fn frame(&mut self, head: FrameHead, payload: &[u8], noticed: &Noticed) {
        if head.kind == HEADERS {
            self.begins = head.stream > self.newest;
            self.newest = self.newest.max(head.stream);
            self.ends = head.flags & END_STREAM != 0;
            self.found = Found::default();
        }
        let Some(fragment) = fragment(head, payload) else { return self.is_broken = true };
        let read = if self.held.is_empty() {
            self.table.read(fragment, &mut self.found).map(|read| {
                self.held.extend_from_slice(fragment.get(read..).unwrap_or_default());
            })
        } else {
            self.held.extend_from_slice(fragment);
            self.table.read(&self.held, &mut self.found).map(|read| drop(self.held.drain(..read)))
        };
        let is_end = head.flags & END_HEADERS != 0;
        if read.is_err() || (is_end && !self.held.is_empty()) {
            self.is_broken = true;
        }
        if self.is_broken || self.held.is_empty() {
            self.held = Vec::new();
        }
        if is_end && self.begins {
            noticed.floods.opened();
        }
        if is_end && !self.is_broken && self.is_malformed() {
            noticed.remember(head.stream);
        }
    }

    fn is_malformed(&self) -> bool {
        match self.sender {
            Sender::Client if self.begins => self.found.fragment,
            Sender::Client => self.found.pseudo,
            Sender::Upstream => self.found.pseudo && self.ends,
        }
    }
}

/// What a frame has of its block: the payload without padding and priority (RFC 9113 §6.2).
fn fragment(head: FrameHead, payload: &[u8]) -> Option<&[u8]> {
    if head.kind == CONTINUATION {
        return Some(payload);
    }
    let (mut padding, mut rest) = (0, payload);
    if head.flags & PADDED != 0 {
        let (length, behind) = rest.split_first()?;
        (padding, rest) = (usize::from(*length), behind);
    }
    if head.flags & PRIORITY != 0 {
        rest = rest.get(5..)?;
    }
    rest.get(..rest.len().checked_sub(padding)?)
}

/// Finds frames in a byte stream that arrives in any pieces.
#[derive(Debug)]
pub struct Frames {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; FRAME_HEAD],
    held: usize,
    /// A frame of a header block that has not come to its end.
    open: Option<(FrameHead, Vec<u8>)>,
    blocks: Blocks,
}

impl Frames {
    /// At the beginning of a connection.
    pub fn new(sender: Sender) -> Frames {
        let blocks = Blocks {
            sender,
            table: HeaderTable::default(),
            newest: 0,
            ends: false,
            begins: false,
            found: Found::default(),
            held: Vec::new(),
            is_broken: false,
        };
        let skip = if sender == Sender::Client { PREFACE } else { 0 };
        Frames { skip, head: [0; FRAME_HEAD], held: 0, open: None, blocks }
    }

    /// Looks at the next bytes, up to the frame with which the connection's turn is over. Gives how many these were.
    pub fn see(&mut self, all: &[u8], noticed: &Noticed) -> usize {
        let mut bytes = all;
        while !bytes.is_empty() && !noticed.floods.is_turn_over() {
            if let Some((head, mut payload)) = self.open.take() {
                let (more, rest) = bytes.split_at((head.length - payload.len()).min(bytes.len()));
                payload.extend_from_slice(more);
                bytes = rest;
                if payload.len() == head.length {
                    self.whole(head, &payload, noticed);
                } else {
                    self.open = Some((head, payload));
                }
                continue;
            }
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let wanted = (FRAME_HEAD - self.held).min(bytes.len());
            let (taken, rest) = bytes.split_at(wanted);
            self.head.iter_mut().skip(self.held).zip(taken).for_each(|(held, byte)| *held = *byte);
            self.held += wanted;
            bytes = rest;
            if self.held == FRAME_HEAD {
                self.held = 0;
                bytes = self.begin(bytes, noticed);
            }
        }
        let seen = all.len() - bytes.len();
        noticed.heard.set(noticed.heard.get() + seen as u64);
        seen
    }

    /// Takes a frame that is looked into.
    fn whole(&mut self, head: FrameHead, payload: &[u8], noticed: &Noticed) {
        if head.kind == GOAWAY {
            noticed.note_last_stream(payload);
        } else {
            self.blocks.frame(head, payload, noticed);
        }
    }

    /// Begins with the frame whose head was just read. Gives the bytes behind what it took of them.
    fn begin<'b>(&mut self, bytes: &'b [u8], noticed: &Noticed) -> &'b [u8] {
        let head = FrameHead::read(self.head);
        let FrameHead { length, kind, .. } = head;
        noticed.floods.received(head);
        let is_looked_into = match kind {
            HEADERS | CONTINUATION => !self.blocks.is_broken,
            GOAWAY => self.blocks.sender == Sender::Upstream,
            _ => false,
        };
        // A frame that is too long, and a block that is broken, end the connection.
        if !is_looked_into || length > MAX_FRAME {
            self.skip = length;
            return bytes;
        }
        match bytes.split_at_checked(length) {
            Some((payload, rest)) => {
                self.whole(head, payload, noticed);
                rest
            }
            None => {
                self.open = Some((head, Vec::new()));
                bytes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::limits::Limits;

    fn on_stream(stream: u8, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len();
        [&[0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// Sees the frames in pieces of a length, in as many turns as it takes.
    fn seen(sender: Sender, frames: &[Vec<u8>], piece: usize) -> Noticed {
        let (mut reader, noticed) = (Frames::new(sender), Noticed::new(Floods::of_client(&Limits::default())));
        let preface = vec![b'P'; if sender == Sender::Client { PREFACE } else { 0 }];
        let bytes = [preface, frames.concat()].concat();
        for mut piece in bytes.chunks(piece) {
            while !piece.is_empty() {
                noticed.floods.begin_turn();
                piece = &piece[reader.see(piece, &noticed)..];
            }
        }
        noticed
    }

    #[test]
    fn frames_are_found_however_they_are_split() {
        // SETTINGS, HEADERS, PING, empty DATA, DATA, which is free, and WINDOW_UPDATE.
        let frames = [(4, 0, 18), (1, 4, 300), (6, 0, 8), (0, 0, 0), (0, 0, 1000), (8, 0, 4)];
        let bytes = frames.map(|(kind, flags, length)| on_stream(1, kind, flags, &vec![0xaa; length])).concat();
        for (burst, piece) in [1, 7, 9, 10, 4096].into_iter().flat_map(|piece| [(4, piece), (5, piece)]) {
            let limits = Limits { h2_control_frame_burst: burst, h2_control_frame_rate: 0, ..Limits::default() };
            let (mut reader, noticed) = (Frames::new(Sender::Upstream), Noticed::new(Floods::of_client(&limits)));
            bytes.chunks(piece).for_each(|piece| assert_eq!(reader.see(piece, &noticed), piece.len()));
            assert_eq!(noticed.floods.is_flooded(), burst == 4, "pieces of {piece}");
        }
    }

    #[test]
    fn a_turn_ends_between_two_frames() {
        let (mut reader, noticed) =
            (Frames::new(Sender::Upstream), Noticed::new(Floods::of_client(&Limits::default())));
        let frame = on_stream(1, 6, 0, &[0; 8]);
        let frames = frame.repeat(1000);
        let first = reader.see(&frames, &noticed);
        assert!(first > 0 && first < frames.len(), "{first} bytes");
        // The last frame's payload belongs to the next turn.
        assert_eq!(first % frame.len(), 9);
        assert_eq!(reader.see(&frames[first..], &noticed), 0);
        noticed.floods.begin_turn();
        assert_eq!(reader.see(&frames[first..], &noticed), frames.len() - first);
    }

    /// The streams that are malformed, however the bytes are split.
    fn check(sender: Sender, frames: &[Vec<u8>], expected: &[u32]) {
        for piece in [1, 2, 10, 4096] {
            let noticed = seen(sender, frames, piece);
            let malformed: Vec<u32> = noticed.malformed.borrow().iter().copied().collect();
            assert_eq!(malformed, expected, "{frames:?} in pieces of {piece}");
        }
    }

    #[test]
    fn malformed_messages_are_found_in_any_frames() {
        const END: u8 = END_HEADERS | END_STREAM;
        // `:path: /#`, kept; a reference to it; and to `:method: GET`.
        let (path, again, get) = (&[0x44, 2, b'/', b'#'][..], &[0xbe][..], &[0x82][..]);
        let good = on_stream(1, HEADERS, END_HEADERS, get);
        check(Sender::Client, &[on_stream(1, HEADERS, END, path), on_stream(3, HEADERS, END, again)], &[1, 3]);
        check(Sender::Client, &[good.clone(), on_stream(3, HEADERS, END, get)], &[]);
        // Padding and priority around it; cut into three frames in the midst of a representation.
        let dressed = [&[3, 0, 0, 0, 0, 9][..], path, &[0; 3]].concat();
        check(Sender::Client, &[on_stream(5, HEADERS, END | PADDED | PRIORITY, &dressed)], &[5]);
        let cut = [
            on_stream(7, HEADERS, END_STREAM, &path[..1]),
            on_stream(7, CONTINUATION, 0, &path[1..3]),
            on_stream(7, CONTINUATION, END_HEADERS, &path[3..]),
        ];
        check(Sender::Client, &cut, &[7]);
        // Trailers: a field is good, a pseudo-field is not.
        let field = [0, 1, b'x', 1, b'#'];
        check(Sender::Client, &[good.clone(), on_stream(1, HEADERS, END, &field)], &[]);
        check(Sender::Client, &[good.clone(), on_stream(1, HEADERS, END, get)], &[1]);
        // An upstream's head is good unless it could be trailers.
        check(Sender::Upstream, &[good.clone(), on_stream(1, HEADERS, END, &field)], &[]);
        check(Sender::Upstream, &[good, on_stream(1, HEADERS, END, get)], &[1]);
        // What is broken says nothing more, and breaks nothing here.
        check(Sender::Client, &[on_stream(1, HEADERS, END, &[0xbe]), on_stream(3, HEADERS, END, path)], &[]);
        check(Sender::Client, &[on_stream(1, HEADERS, END | PADDED, &[9, 0]), on_stream(3, HEADERS, END, path)], &[]);
    }

    #[test]
    fn the_last_stream_of_a_server_that_goes_away_only_sinks() {
        let go_away = |last: u32| on_stream(0, GOAWAY, 0, &[last.to_be_bytes(), [0; 4], *b"more"].concat());
        let check = |sender, frames: &[Vec<u8>], expected: Option<u32>| {
            for piece in [1, 7, 4096] {
                let noticed = seen(sender, frames, piece);
                assert_eq!(noticed.last_stream.get(), expected, "{frames:?} in pieces of {piece}");
                assert_eq!(noticed.is_going_away(), expected.is_some());
            }
        };
        let ping = on_stream(1, 6, 0, &[0; 8]);
        check(Sender::Upstream, std::slice::from_ref(&ping), None);
        check(Sender::Upstream, &[ping.clone(), go_away(7), ping.clone()], Some(7));
        // First to say that no more will be taken, then what was the last (RFC 9113 §6.8). The first bit means nothing.
        check(Sender::Upstream, &[go_away(0xffff_ffff), ping.clone(), go_away(5)], Some(5));
        check(Sender::Upstream, &[go_away(5), go_away(9)], Some(5));
        check(Sender::Upstream, &[on_stream(0, GOAWAY, 0, &[0; 3])], None);
        check(Sender::Client, &[go_away(5)], None);
        let noticed = seen(Sender::Upstream, &[go_away(5)], 4096);
        assert!(!noticed.is_ignored(5) && noticed.is_ignored(7));
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let noticed = Noticed::new(Floods::unbounded());
        (0..3000).for_each(|stream| noticed.remember(stream));
        assert_eq!(noticed.malformed.borrow().len(), MAX_MALFORMED);
        assert!(noticed.is_malformed(2999) && !noticed.is_malformed(0));
        noticed.forget(2999);
        assert!(!noticed.is_malformed(2999));
    }
}
