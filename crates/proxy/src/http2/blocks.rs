//! Header blocks of an HTTP/2 connection, put together from their frames before the `h2` crate gets them (RFC 9113 §4.3).
//!
//! The crate drops some of what makes a message malformed without a word, and takes the rest for an error of the connection, where only the
//! stream is to end (§8.1.1): behind an intermediary one user would cut all others. Owns which streams are malformed, and what the crate gets to
//! see of them. Reads no more of a block than that takes (`wire::http::hpack`); a good one in one frame passes as it is, without a copy.

use reason::Reason;
use wire::http::hpack::{Found, HeaderTable, Most};

use crate::http2::floods::FrameHead;
use crate::http2::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, MAX_FRAME, Noticed, PADDED, PRIORITY, Sender,
};

/// Bytes of a block in more than one frame, which is held until it is whole, and bytes that the crate may get of a field section beyond the limit: what
/// changes its table. Beyond either the connection ends; up to them only the request is rejected.
const MAX_BLOCK: usize = 16 * MAX_FRAME;

/// Bytes of any field section, which keep what is written in its place in bounds.
const MAX_SECTION: usize = 1024 * 1024;

/// What the values of the static table may add to what is counted here.
const STATIC_VALUES: usize = 8 * 1024;

/// The bound that the crate is to have, so that whatever goes on to it is within: it answers what is beyond with no word to us.
pub(crate) fn list_bound(max_head_bytes: usize) -> u32 {
    u32::try_from(max_head_bytes.saturating_add(MAX_BLOCK + STATIC_VALUES)).unwrap_or(u32::MAX)
}

/// A block that is no HPACK: an entry with the number 0.
const BROKEN: &[u8] = &[0x80];

/// The blocks of one direction.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Whose they are.
    pub(crate) sender: Sender,
    table: HeaderTable,
    /// The highest stream the client has opened.
    newest: u32,
    /// A block that lacks its end: the head of its first frame, and what has come.
    open: Option<(FrameHead, Vec<u8>)>,
    /// The connection has been given up.
    is_broken: bool,
}

impl Blocks {
    /// At the beginning of a connection.
    pub(crate) fn new(sender: Sender) -> Blocks {
        Blocks { sender, table: HeaderTable::default(), newest: 0, open: None, is_broken: false }
    }

    /// Whether a frame is part of a block that is to be looked at.
    pub(crate) fn takes(&self, head: FrameHead) -> bool {
        matches!(head.kind, HEADERS | CONTINUATION) && !self.is_broken
    }

    /// Whether a block lacks its end and this frame is not its continuation, which ends the connection (RFC 9113 §6.10).
    pub(crate) fn is_interrupted_by(&self, head: FrameHead) -> bool {
        self.open.as_ref().is_some_and(|(first, _)| head.kind != CONTINUATION || head.stream != first.stream)
    }

    /// Takes a frame of a block. True if it is to go on as it is; else what goes on in its place was appended to `out`.
    pub(crate) fn frame(&mut self, head: FrameHead, payload: &[u8], noticed: &Noticed, out: &mut Vec<u8>) -> bool {
        if head.kind == CONTINUATION {
            let Some((first, mut block)) = self.open.take() else { return true };
            block.extend_from_slice(payload);
            if block.len() > MAX_BLOCK {
                self.end_for_size(noticed, out);
            } else if head.flags & END_HEADERS != 0 {
                self.block(first, &block, true, noticed, out);
            } else {
                self.open = Some((first, block));
            }
            return false;
        }
        let Some(fragment) = fragment(head, payload) else {
            self.give_up(out);
            return false;
        };
        let depends_on_itself = head.flags & PRIORITY != 0
            && payload
                .get(usize::from(head.flags & PADDED != 0)..)
                .and_then(<[u8]>::first_chunk)
                .is_some_and(|dependency| u32::from_be_bytes(*dependency) & 0x7fff_ffff == head.stream);
        if depends_on_itself {
            // A stream error (RFC 7540 §5.3.1, which clients that send priorities follow).
            noticed.remember(head.stream, Reason::StreamDependsOnItself);
        }
        if head.flags & END_HEADERS == 0 {
            self.open = Some((head, fragment.to_vec()));
            return false;
        }
        // As it is, the crate would not unpack the block, and its table would lack what is in it.
        self.block(head, fragment, depends_on_itself, noticed, out)
    }

    /// Takes a whole block. True if its frame is to go on as it is.
    fn block(&mut self, head: FrameHead, block: &[u8], must_write: bool, noticed: &Noticed, out: &mut Vec<u8>) -> bool {
        let begins = head.stream > self.newest;
        self.newest = self.newest.max(head.stream);
        if begins {
            noticed.floods.opened();
        }
        let (mut found, mut replaced) = (Found::default(), Vec::new());
        // A request with more is rejected for the first of them. Trailers have no such bound, and go on whole.
        let bytes = noticed.floods.max_head_bytes();
        let most = Most {
            fields: if begins { noticed.floods.max_headers().saturating_add(1) } else { usize::MAX },
            bytes,
            read_bytes: bytes.saturating_add(MAX_BLOCK).min(MAX_SECTION),
        };
        let Ok(is_replaced) = self.table.read(block, most, &mut found, &mut replaced) else {
            if found.too_large_to_read {
                self.end_for_size(noticed, out);
            } else {
                self.give_up(out);
            }
            return false;
        };
        self.note(head, begins, found, noticed);
        if is_replaced {
            write_block(head, &replaced, out);
        } else if must_write {
            write_block(head, block, out);
        }
        !is_replaced && !must_write
    }

    fn note(&self, head: FrameHead, begins: bool, found: Found, noticed: &Noticed) {
        let is_trailers = match self.sender {
            Sender::Client => !begins,
            // A response whose head is all it has looks the same.
            Sender::Upstream => head.flags & END_STREAM != 0,
        };
        if is_trailers && found.pseudo {
            noticed.remember_trailers(head.stream, Reason::PseudoFieldInTrailers);
        }
        if found.too_large {
            if begins {
                noticed.remember_size(head.stream)
            } else {
                noticed.remember(head.stream, Reason::TrailersTooLarge)
            }
        }
        if let Some(code) = found.malformed {
            noticed.remember(head.stream, code);
        }
        if self.sender == Sender::Client && begins {
            if found.fragment {
                noticed.remember(head.stream, Reason::MalformedMessage);
            }
            if let Some(path) = found.path {
                noticed.remember_path(head.stream, path);
            }
        }
    }

    /// Has the connection ended for a block that is too large: where floods are counted, whoever drives it does so and says why.
    fn end_for_size(&mut self, noticed: &Noticed, out: &mut Vec<u8>) {
        noticed.floods.exhaust(Reason::HeadTooLarge);
        (self.is_broken, self.open) = (true, None);
        if !noticed.floods.is_flooded() {
            self.give_up(out);
        }
    }

    /// Has the crate end the connection.
    pub(crate) fn give_up(&mut self, out: &mut Vec<u8>) {
        self.is_broken = true;
        self.open = None;
        FrameHead { length: BROKEN.len(), kind: HEADERS, flags: END_HEADERS, stream: 1 }.write(out);
        out.extend_from_slice(BROKEN);
    }
}

/// Writes a block in as many frames as it takes, without padding and priority.
fn write_block(head: FrameHead, block: &[u8], out: &mut Vec<u8>) {
    let (mut kind, mut flags, mut rest) = (HEADERS, head.flags & END_STREAM, block);
    loop {
        let (piece, behind) = rest.split_at(rest.len().min(MAX_FRAME));
        rest = behind;
        if rest.is_empty() {
            flags |= END_HEADERS;
        }
        FrameHead { length: piece.len(), kind, flags, stream: head.stream }.write(out);
        out.extend_from_slice(piece);
        if rest.is_empty() {
            return;
        }
        (kind, flags) = (CONTINUATION, 0);
    }
}

/// What a HEADERS frame has of its block: the payload without padding and priority (RFC 9113 §6.2).
fn fragment(head: FrameHead, payload: &[u8]) -> Option<&[u8]> {
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
