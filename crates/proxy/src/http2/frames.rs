//! The frames of an HTTP/2 connection, seen as their bytes pass (RFC 9113 §4).
//!
//! The `h2` crate answers PING and SETTINGS, and bookkeeps PRIORITY and WINDOW_UPDATE, without asking whether it is being made to work for
//! nothing: each frame is handed to `h2_floods`, which counts. And of malformed messages it knows too little, or too much: header blocks go
//! through `h2_blocks`. Owns finding frames among bytes, and what was noticed of streams. Judges nothing that the crate judges.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use reason::Reason;

use crate::http2::blocks::Blocks;
use crate::http2::floods::{FRAME_HEAD, Floods, FrameHead};
use crate::http2::windows::Taken;

/// The connection preface of the client (RFC 9113 §3.4).
const PREFACE: usize = 24;

/// The largest frame that the crate takes, since we allow no larger one (RFC 9113 §6.5.2).
pub(crate) const MAX_FRAME: usize = 16_384;

/// Streams that something is remembered of until somebody asks. Those of which nobody asks were given up before.
const MAX_MARKS: usize = 1024;

/// Bytes of paths that are remembered in the same way.
const MAX_PATHS: usize = 128 * 1024;

/// Frame types and flags (RFC 9113 §6).
pub(crate) const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const PRIORITY: u8 = 0x20;

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
    /// What was taken of what it has sent.
    pub taken: Taken,
    /// Bytes that went out and came in.
    sent: Cell<u64>,
    heard: Cell<u64>,
    /// The last stream that the peer will look at, once it has said so (RFC 9113 §6.8).
    last_stream: Cell<Option<u32>>,
    marks: RefCell<BTreeMap<u32, Mark>>,
    /// Bytes of paths among them.
    paths: Cell<usize>,
}

/// What was noticed of one stream.
#[derive(Debug, Default)]
struct Mark {
    malformed: Option<Reason>,
    trailers: Option<Reason>,
    is_too_large: bool,
    path: Vec<u8>,
}

impl Noticed {
    /// Nothing yet.
    pub fn new(floods: Floods) -> Noticed {
        let (sent, heard, last_stream) = (Cell::new(0), Cell::new(0), Cell::new(None));
        Noticed {
            floods,
            taken: Taken::default(),
            sent,
            heard,
            last_stream,
            marks: RefCell::default(),
            paths: Cell::new(0),
        }
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

    /// Notes bytes that came in.
    pub fn count_heard(&self, bytes: usize) {
        self.heard.set(self.heard.get() + bytes as u64);
    }

    /// Notes a GOAWAY. A later one may name a lower stream, never a higher one.
    fn note_last_stream(&self, payload: &[u8]) {
        if let Some((last, _)) = payload.split_first_chunk() {
            let last = u32::from_be_bytes(*last) & 0x7fff_ffff;
            self.last_stream.set(Some(self.last_stream.get().unwrap_or(last).min(last)));
        }
    }

    /// Why a message of this stream is malformed, if it is: it has what no message has (RFC 9113 §8.2.1, §8.3), or a request's `:path` a
    /// fragment (§8.3.1).
    pub fn malformed(&self, stream: u32) -> Option<Reason> {
        self.marks.borrow().get(&stream)?.malformed
    }

    /// The same of a message with trailers, which may have pseudo-fields in addition (RFC 9113 §8.1).
    pub fn malformed_trailers(&self, stream: u32) -> Option<Reason> {
        let marks = self.marks.borrow();
        let mark = marks.get(&stream)?;
        mark.malformed.or(mark.trailers)
    }

    /// The `:path` of a request whose path was replaced, as it came. It is given once.
    pub fn take_path(&self, stream: u32) -> Option<Vec<u8>> {
        let path = std::mem::take(&mut self.marks.borrow_mut().get_mut(&stream)?.path);
        self.paths.set(self.paths.get() - path.len());
        Some(path).filter(|path| !path.is_empty())
    }

    /// Whether the head of a request is larger than it may be, and was cut.
    pub fn is_too_large(&self, stream: u32) -> bool {
        self.marks.borrow().get(&stream).is_some_and(|mark| mark.is_too_large)
    }

    /// Forgets a stream that has ended.
    pub fn forget(&self, stream: u32) {
        if let Some(mark) = self.marks.borrow_mut().remove(&stream) {
            self.paths.set(self.paths.get() - mark.path.len());
        }
    }

    /// Remembers that a stream is malformed.
    pub(crate) fn remember(&self, stream: u32, reason: Reason) {
        self.mark(stream, |mark| mark.malformed = mark.malformed.or(Some(reason)));
    }

    /// Remembers that a stream is malformed if the block that was just read is of trailers.
    pub(crate) fn remember_trailers(&self, stream: u32, reason: Reason) {
        self.mark(stream, |mark| mark.trailers = Some(reason));
    }

    /// Remembers that the head of a stream is too large.
    pub(crate) fn remember_size(&self, stream: u32) {
        self.mark(stream, |mark| mark.is_too_large = true);
    }

    /// Remembers the path of a stream. One that is forgotten again has its stream refused.
    pub(crate) fn remember_path(&self, stream: u32, path: Vec<u8>) {
        self.paths.set(self.paths.get() + path.len());
        self.mark(stream, |mark| mark.path = path);
    }

    fn mark(&self, stream: u32, note: impl FnOnce(&mut Mark)) {
        let mut marks = self.marks.borrow_mut();
        note(marks.entry(stream).or_default());
        while marks.len() > MAX_MARKS || self.paths.get() > MAX_PATHS {
            let Some((_, oldest)) = marks.pop_first() else { return };
            self.paths.set(self.paths.get() - oldest.path.len());
        }
    }
}

/// What becomes of the bytes that were looked at: the first go on as they are; those behind were taken, and what goes on in their place was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// How many go on.
    pub passed: usize,
    /// How many were taken.
    pub taken: usize,
}

/// Finds frames in a byte stream that arrives in any pieces. Heads and frames of header blocks that are cut are held until they are whole.
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
        let skip = if sender == Sender::Client { PREFACE } else { 0 };
        Frames { skip, head: [0; FRAME_HEAD], held: 0, open: None, blocks: Blocks::new(sender) }
    }

    /// Looks at the next bytes, as far as they go on together and to the frame with which the connection's turn is over.
    pub fn see(&mut self, bytes: &[u8], noticed: &Noticed, out: &mut Vec<u8>) -> Seen {
        if let Some((head, mut payload)) = self.open.take() {
            let (more, _) = bytes.split_at((head.length - payload.len()).min(bytes.len()));
            payload.extend_from_slice(more);
            if payload.len() < head.length {
                self.open = Some((head, payload));
            } else if self.whole(head, &payload, noticed, out) {
                head.write(out);
                out.extend_from_slice(&payload);
            }
            return Seen { passed: 0, taken: more.len() };
        }
        if self.held > 0 {
            return self.rest_of_head(bytes, noticed, out);
        }
        let mut passed = 0;
        loop {
            let skipped = self.skip.min(bytes.len() - passed);
            self.skip -= skipped;
            passed += skipped;
            if noticed.floods.is_turn_over() {
                return Seen { passed, taken: 0 };
            }
            let rest = bytes.get(passed..).unwrap_or_default();
            let Some((head, behind)) = rest.split_first_chunk() else {
                self.hold(rest);
                return Seen { passed, taken: rest.len() };
            };
            let head = FrameHead::read(*head);
            if self.blocks.is_interrupted_by(head) {
                self.blocks.give_up(out);
                return Seen { passed, taken: 0 };
            }
            noticed.floods.received(head);
            // A frame that is too long ends the connection.
            if !self.takes(head) || head.length > MAX_FRAME {
                passed += FRAME_HEAD;
                self.skip = head.length;
                continue;
            }
            let Some(payload) = behind.get(..head.length) else {
                self.open = Some((head, behind.to_vec()));
                return Seen { passed, taken: rest.len() };
            };
            let length = FRAME_HEAD + head.length;
            if !self.whole(head, payload, noticed, out) {
                return Seen { passed, taken: length };
            }
            passed += length;
        }
    }

    /// Whether a frame is looked into.
    fn takes(&self, head: FrameHead) -> bool {
        self.blocks.takes(head) || (head.kind == GOAWAY && self.blocks.sender == Sender::Upstream)
    }

    /// Takes a frame that is looked into. True if it is to go on as it is.
    fn whole(&mut self, head: FrameHead, payload: &[u8], noticed: &Noticed, out: &mut Vec<u8>) -> bool {
        if head.kind == GOAWAY {
            noticed.note_last_stream(payload);
            return true;
        }
        self.blocks.frame(head, payload, noticed, out)
    }

    /// Holds the beginning of a head.
    fn hold(&mut self, bytes: &[u8]) {
        self.head.iter_mut().skip(self.held).zip(bytes).for_each(|(held, byte)| *held = *byte);
        self.held += bytes.len();
    }

    /// Looks at the rest of a head whose beginning is held.
    fn rest_of_head(&mut self, bytes: &[u8], noticed: &Noticed, out: &mut Vec<u8>) -> Seen {
        let (more, _) = bytes.split_at((FRAME_HEAD - self.held).min(bytes.len()));
        self.hold(more);
        if self.held == FRAME_HEAD {
            self.held = 0;
            let head = FrameHead::read(self.head);
            if self.blocks.is_interrupted_by(head) {
                self.blocks.give_up(out);
            }
            noticed.floods.received(head);
            if self.takes(head) && (1..=MAX_FRAME).contains(&head.length) {
                self.open = Some((head, Vec::new()));
            } else if !self.takes(head) || head.length > 0 || self.whole(head, &[], noticed, out) {
                head.write(out);
                self.skip = head.length;
            }
        }
        Seen { passed: 0, taken: more.len() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use config::limits::Limits;

    fn on_stream(stream: u8, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len();
        [&[0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// Gives the reader the next bytes, in as many turns as it takes; what goes on of them is appended to `out`.
    fn give(reader: &mut Frames, mut bytes: &[u8], noticed: &Noticed, out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            noticed.floods.begin_turn();
            let mut written = Vec::new();
            let Seen { passed, taken } = reader.see(bytes, noticed, &mut written);
            out.extend_from_slice(&bytes[..passed]);
            out.extend(written);
            bytes = &bytes[passed + taken..];
        }
    }

    /// Sees the frames in pieces of a length. Gives what goes on of them, too.
    fn seen(sender: Sender, frames: &[Vec<u8>], piece: usize) -> (Noticed, Vec<u8>) {
        let (mut reader, noticed) = (Frames::new(sender), Noticed::new(Floods::of_client(&Limits::default())));
        let preface = vec![b'P'; if sender == Sender::Client { PREFACE } else { 0 }];
        let (bytes, mut out) = ([&preface, &frames.concat()[..]].concat(), Vec::new());
        bytes.chunks(piece).for_each(|piece| give(&mut reader, piece, &noticed, &mut out));
        assert!(out.starts_with(&preface));
        (noticed, out.split_off(preface.len()))
    }

    #[test]
    fn frames_are_found_however_they_are_split() {
        // SETTINGS, HEADERS, PING, empty DATA, DATA, which is free, and WINDOW_UPDATE.
        let frames = [(4, 0, 18), (1, 4, 300), (6, 0, 8), (0, 0, 0), (0, 0, 1000), (8, 0, 4)];
        let bytes = frames.map(|(kind, flags, length)| on_stream(1, kind, flags, &vec![0xaa; length])).concat();
        for (burst, piece) in [1, 7, 9, 10, 4096].into_iter().flat_map(|piece| [(4, piece), (5, piece)]) {
            let limits = Limits { h2_control_frame_burst: burst, h2_control_frame_rate: 0, ..Limits::default() };
            let (mut reader, noticed) = (Frames::new(Sender::Upstream), Noticed::new(Floods::of_client(&limits)));
            let mut out = Vec::new();
            bytes.chunks(piece).for_each(|piece| give(&mut reader, piece, &noticed, &mut out));
            assert_eq!(noticed.floods.is_flooded(), burst == 4, "pieces of {piece}");
        }
    }

    #[test]
    fn a_turn_ends_between_two_frames() {
        let (mut reader, noticed) =
            (Frames::new(Sender::Upstream), Noticed::new(Floods::of_client(&Limits::default())));
        let frame = on_stream(1, 6, 0, &[0; 8]);
        let frames = frame.repeat(1000);
        let mut see = |bytes: &[u8]| reader.see(bytes, &noticed, &mut Vec::new()).passed;
        let first = see(&frames);
        assert!(first > 0 && first < frames.len(), "{first} bytes");
        assert_eq!(first % frame.len(), 0);
        assert_eq!(see(&frames[first..]), 0);
        noticed.floods.begin_turn();
        assert_eq!(see(&frames[first..]), frames.len() - first);
    }

    /// The streams that are malformed, however the bytes are split.
    fn check(sender: Sender, frames: &[Vec<u8>], expected: &[u32]) {
        for piece in [1, 2, 10, 4096] {
            let (noticed, _) = seen(sender, frames, piece);
            let marks = noticed.marks.borrow();
            let malformed: Vec<u32> =
                marks.keys().copied().filter(|stream| noticed.malformed_trailers(*stream).is_some()).collect();
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
    fn good_frames_go_on_as_they_are_and_others_as_what_can_be_read() {
        const END: u8 = END_HEADERS | END_STREAM;
        let get = &[0x82][..];
        let padded = on_stream(3, HEADERS, END | PADDED, &[&[2][..], get, &[0; 2]].concat());
        let good = [
            on_stream(1, 4, 0, &[0xaa; 0]),
            on_stream(1, HEADERS, END, get),
            on_stream(1, 0, 0, &[0xaa; 300]),
            padded,
            on_stream(1, 6, 0, &[0xaa; 8]),
            on_stream(1, 0, 1, &[0xaa; 0]),
        ];
        // A path that the crate does not take, kept in the table; a field with NUL.
        let (path, nul) = (&[0x44, 2, b'/', b'|'][..], &[0, 1, b'x', 1, 0][..]);
        let (filler, x) = (&[0x44, 2, b'/', b'|'][..], &[0, 1, b'x', 1, b'x'][..]);
        let depends_on_itself = [&[0, 0, 0, 7, 1][..], get].concat();
        for piece in [1, 2, 9, 10, 11, 4096] {
            assert_eq!(seen(Sender::Client, &good, piece).1, good.concat(), "pieces of {piece}");
            for (frames, expected) in [
                (
                    vec![on_stream(1, HEADERS, END, nul), good[1].clone()],
                    vec![on_stream(1, HEADERS, END, x), good[1].clone()],
                ),
                (vec![on_stream(1, HEADERS, END_HEADERS, path)], vec![on_stream(1, HEADERS, END_HEADERS, filler)]),
                // Dressed, and cut into three in the midst of a representation.
                (
                    vec![on_stream(
                        5,
                        HEADERS,
                        END | PADDED | PRIORITY,
                        &[&[3, 0, 0, 0, 0, 9][..], nul, &[0; 3]].concat(),
                    )],
                    vec![on_stream(5, HEADERS, END, x)],
                ),
                (
                    vec![
                        on_stream(7, HEADERS, END_STREAM, &nul[..2]),
                        on_stream(7, CONTINUATION, 0, &[]),
                        on_stream(7, CONTINUATION, END_HEADERS, &nul[2..]),
                        on_stream(1, 6, 0, &[0xaa; 8]),
                    ],
                    vec![on_stream(7, HEADERS, END, x), on_stream(1, 6, 0, &[0xaa; 8])],
                ),
                (
                    vec![on_stream(7, HEADERS, END | PRIORITY, &depends_on_itself)],
                    vec![on_stream(7, HEADERS, END, get)],
                ),
                // What ends the connection: a block that is none, one that is interrupted, padding that is longer than its frame.
                (vec![on_stream(1, HEADERS, END, &[0xbe])], vec![on_stream(1, HEADERS, END_HEADERS, &[0x80])]),
                (
                    vec![on_stream(1, HEADERS, 0, get), on_stream(1, 6, 0, &[0xaa; 8])],
                    vec![on_stream(1, HEADERS, END_HEADERS, &[0x80]), on_stream(1, 6, 0, &[0xaa; 8])],
                ),
                (vec![on_stream(1, HEADERS, END | PADDED, &[9, 0])], vec![on_stream(1, HEADERS, END_HEADERS, &[0x80])]),
            ] {
                let (_, out) = seen(Sender::Client, &frames, piece);
                assert_eq!(out, expected.concat(), "{frames:?} in pieces of {piece}");
            }
        }
        let (noticed, _) =
            seen(Sender::Client, &[on_stream(1, HEADERS, END, path), on_stream(3, HEADERS, END, &[0xbe])], 5);
        assert_eq!(noticed.malformed_trailers(1), None);
        assert_eq!((noticed.take_path(1), noticed.take_path(1)), (Some(b"/|".to_vec()), None));
        assert_eq!(noticed.take_path(3), Some(b"/|".to_vec()));
        assert_eq!(noticed.paths.get(), 0);
    }

    #[test]
    fn a_block_without_end_is_a_flood() {
        let mut frames = vec![on_stream(1, HEADERS, 0, &[0x82])];
        frames.resize(66, on_stream(1, CONTINUATION, 0, &[0x82; 4096]));
        let (noticed, out) = seen(Sender::Client, &frames, 4096);
        assert!(noticed.floods.is_flooded() && out.len() < 4096 + 20, "{}", out.len());
        assert_eq!(noticed.floods.why(), Reason::HeadTooLarge);
        let (noticed, _) = seen(Sender::Client, &frames[..60], 4096);
        assert!(!noticed.floods.is_flooded());
    }

    #[test]
    fn the_last_stream_of_a_server_that_goes_away_only_sinks() {
        let go_away = |last: u32| on_stream(0, GOAWAY, 0, &[last.to_be_bytes(), [0; 4], *b"more"].concat());
        let check = |sender, frames: &[Vec<u8>], expected: Option<u32>| {
            for piece in [1, 7, 4096] {
                let (noticed, out) = seen(sender, frames, piece);
                assert_eq!(out, frames.concat());
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
        let (noticed, _) = seen(Sender::Upstream, &[go_away(5)], 4096);
        assert!(!noticed.is_ignored(5) && noticed.is_ignored(7));
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let noticed = Noticed::new(Floods::unbounded());
        (0..3000).for_each(|stream| noticed.remember(stream, Reason::BadHost));
        assert_eq!(noticed.marks.borrow().len(), MAX_MARKS);
        assert_eq!((noticed.malformed(2999), noticed.malformed(0)), (Some(Reason::BadHost), None));
        noticed.forget(2999);
        assert_eq!(noticed.malformed(2999), None);
        (0..100).for_each(|stream| noticed.remember_path(stream, vec![b'|'; 2000]));
        assert!(noticed.paths.get() <= MAX_PATHS && noticed.take_path(0).is_none() && noticed.take_path(99).is_some());
    }
}
