//! The frames of an HTTP/2 connection, seen from beside as their bytes pass (RFC 9113 §4).
//!
//! The `h2` crate answers PING and SETTINGS, and bookkeeps PRIORITY and WINDOW_UPDATE, without asking whether it is being made to work for
//! nothing; and of a message it drops what it does not understand, where the message is to be refused. Owns the count of such frames and the
//! streams of such messages. Judges nothing that the crate judges.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Instant;

use wire::http::hpack::{Found, HeaderTable};

/// Frames that bring nothing a client may send at once.
const CREDIT: i64 = 1000;

/// Credit that comes back per second.
const REFILL_PER_SECOND: i64 = 100;

/// Bytes we send that give one credit back: a client must acknowledge what it receives with WINDOW_UPDATE.
const BYTES_PER_CREDIT: u64 = 2048;

/// Length of a frame head.
const FRAME_HEAD: usize = 9;

/// The connection preface of the client (RFC 9113 §3.4).
const PREFACE: usize = 24;

/// The largest frame that the crate takes, since we allow no larger one (RFC 9113 §6.5.2).
const MAX_FRAME: usize = 16_384;

/// Streams of malformed messages that are remembered until somebody asks. Those of which nobody asks were given up before.
const MAX_MALFORMED: usize = 1024;

/// Frame types and flags (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
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
    /// How much work for nothing the peer may still make.
    credit: Cell<i64>,
    refilled: Cell<Instant>,
    sent: Cell<u64>,
    /// Bytes that were received.
    heard: Cell<u64>,
    /// The last stream that the peer will look at, once it has said so (RFC 9113 §6.8).
    last_stream: Cell<Option<u32>>,
    malformed: RefCell<BTreeSet<u32>>,
}

impl Noticed {
    fn new() -> Noticed {
        let (credit, refilled, sent) = (Cell::new(CREDIT), Cell::new(Instant::now()), Cell::new(0));
        let (heard, last_stream) = (Cell::new(0), Cell::new(None));
        Noticed { credit, refilled, sent, heard, last_stream, malformed: RefCell::default() }
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

    /// Notes a GOAWAY. A later one may name a lower stream, never a higher one.
    fn note_last_stream(&self, payload: &[u8]) {
        if let Some((last, _)) = payload.split_first_chunk() {
            let last = u32::from_be_bytes(*last) & 0x7fff_ffff;
            self.last_stream.set(Some(self.last_stream.get().unwrap_or(last).min(last)));
        }
    }

    /// Whether the peer has used up its credit.
    pub fn is_flooded(&self) -> bool {
        self.credit.get() < 0
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

    /// Notes bytes that went out.
    pub fn count_sent(&self, bytes: usize) {
        let before = self.sent.get();
        let after = before + bytes as u64;
        self.sent.set(after);
        let credits = after / BYTES_PER_CREDIT - before / BYTES_PER_CREDIT;
        if credits > 0 {
            self.give(i64::try_from(credits).unwrap_or(CREDIT));
        }
    }

    fn remember(&self, stream: u32) {
        let mut malformed = self.malformed.borrow_mut();
        malformed.insert(stream);
        if malformed.len() > MAX_MALFORMED {
            malformed.pop_first();
        }
    }

    fn give(&self, credit: i64) {
        self.credit.set((self.credit.get() + credit).min(CREDIT));
    }

    /// Counts one frame by its type, flags and length.
    fn count(&self, head: FrameHead) {
        let cost = match head.kind {
            // Only empty frames that end nothing are free work.
            DATA if head.length > 0 || head.flags & END_STREAM != 0 => return,
            // Pays for a few control frames of its own stream.
            HEADERS => return self.give(2),
            // A request begun and thrown away.
            RST_STREAM => 10,
            // PRIORITY, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION, empty DATA, unknown ones.
            _ => 1,
        };
        if self.credit.get() < cost {
            let seconds = i64::try_from(self.refilled.replace(Instant::now()).elapsed().as_secs()).unwrap_or(0);
            self.give(seconds.saturating_mul(REFILL_PER_SECOND).min(CREDIT));
        }
        self.credit.set(self.credit.get() - cost);
    }
}

#[derive(Debug, Clone, Copy)]
struct FrameHead {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
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
    pub fn new(sender: Sender) -> (Frames, Noticed) {
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
        (Frames { skip, head: [0; FRAME_HEAD], held: 0, open: None, blocks }, Noticed::new())
    }

    /// Looks at the next bytes.
    pub fn see(&mut self, mut bytes: &[u8], noticed: &Noticed) {
        noticed.heard.set(noticed.heard.get() + bytes.len() as u64);
        while !bytes.is_empty() {
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
        let [high, middle, low, kind, flags, stream @ ..] = self.head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let head = FrameHead { length, kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff };
        noticed.count(head);
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

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        on_stream(1, kind, flags, &vec![0xaa; payload])
    }

    fn on_stream(stream: u8, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len();
        [&[0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// Sees the frames in pieces of a length.
    fn seen(sender: Sender, frames: &[Vec<u8>], piece: usize) -> Noticed {
        let (mut reader, noticed) = Frames::new(sender);
        let preface = vec![b'P'; if sender == Sender::Client { PREFACE } else { 0 }];
        let bytes = [preface, frames.concat()].concat();
        bytes.chunks(piece).for_each(|piece| reader.see(piece, &noticed));
        noticed
    }

    fn cost(frames: &[Vec<u8>], piece: usize) -> i64 {
        CREDIT - seen(Sender::Client, frames, piece).credit.get()
    }

    #[test]
    fn frames_are_found_however_they_are_split() {
        let frames =
            [frame(4, 0, 18), frame(1, 5, 300), frame(6, 0, 8), frame(0, 0, 0), frame(0, 0, 1000), frame(8, 0, 4)];
        for piece in [1, 7, 9, 10, 4096] {
            // SETTINGS and HEADERS cancel out up to the cap; PING, empty DATA and WINDOW_UPDATE remain.
            assert_eq!(cost(&frames, piece), 3, "pieces of {piece}");
        }
    }

    #[test]
    fn resets_weigh_more_than_pings() {
        assert_eq!(cost(&vec![frame(6, 0, 8); 50], 4096), 50);
        assert_eq!(cost(&vec![frame(3, 0, 4); 50], 4096), 500);
        assert_eq!(cost(&vec![frame(0, 1, 0); 50], 4096), 0);
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
        let ping = frame(6, 0, 8);
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
        let (_, noticed) = Frames::new(Sender::Client);
        (0..3000).for_each(|stream| noticed.remember(stream));
        assert_eq!(noticed.malformed.borrow().len(), MAX_MALFORMED);
        assert!(noticed.is_malformed(2999) && !noticed.is_malformed(0));
        noticed.forget(2999);
        assert!(!noticed.is_malformed(2999));
    }
}
