//! A batch of received datagrams, in buffers that are made once.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use super::wire_form::{Arrival, Control, LocalAddress, NAME_BYTES, Name};
use super::{last_error, raw};

/// Room of one slot: the longest datagram there can be, or that many joined ones. Not a multiple of a page, or the beginnings of all
/// slots would fall on the same few lines of the processor's cache.
const SLOT_BYTES: usize = 65_536 + 1_088;

/// Longest piece the kernel hands over, bytes.
const PIECE_BYTES: usize = 65_535;

/// Room for received pieces: each is one datagram, or several of equal length that the kernel joined. Pages that no datagram has reached
/// take no memory.
pub struct Batch {
    buffer: Box<[u8]>,
    names: Box<[Name]>,
    controls: Box<[Control]>,
    /// Length of each piece, and what came with it.
    pieces: Box<[(usize, Arrival)]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    used: usize,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} of {})", self.used, Batch::SLOTS)
    }
}

/// One received piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// All its bytes.
    pub bytes: &'a [u8],
    /// Who sent it; none on connected sockets that do not say.
    pub from: Option<SocketAddr>,
    /// The address of ours it was sent to, where the socket is bound to all of them.
    pub to: Option<LocalAddress>,
    /// Explicit congestion notification, where the socket tells it: see [`UdpBound::prepare_for_quic`](crate::UdpBound::prepare_for_quic).
    pub ecn: u8,
    segment: usize,
}

impl<'a> Received<'a> {
    /// Its datagrams in order; one of them may be empty.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let length = if self.segment == 0 { self.bytes.len() } else { self.segment };
        let only_empty = self.bytes.is_empty().then_some(self.bytes);
        only_empty.into_iter().chain(self.bytes.chunks(length.max(1)))
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Batch {
    /// Pieces it has room for.
    pub const SLOTS: usize = 64;

    /// An empty batch.
    pub fn new() -> Batch {
        let no_vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Batch {
            buffer: vec![0; Batch::SLOTS * SLOT_BYTES].into_boxed_slice(),
            names: vec![Name::EMPTY; Batch::SLOTS].into_boxed_slice(),
            controls: vec![Control::EMPTY; Batch::SLOTS].into_boxed_slice(),
            pieces: vec![(0, Arrival::default()); Batch::SLOTS].into_boxed_slice(),
            vectors: vec![no_vector; Batch::SLOTS].into_boxed_slice(),
            headers: vec![no_header(); Batch::SLOTS].into_boxed_slice(),
            used: 0,
        }
    }

    /// Forgets what it holds.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Pieces it holds.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Pieces it can still take.
    pub fn free(&self) -> usize {
        Batch::SLOTS - self.used
    }

    /// The piece at `index`; an empty one beyond the last.
    pub fn get(&self, index: usize) -> Received<'_> {
        let (length, arrival) = self.pieces.get(index).copied().filter(|_| index < self.used).unwrap_or_default();
        let start = index * SLOT_BYTES;
        Received {
            bytes: self.buffer.get(start..start + length).unwrap_or_default(),
            from: self.names.get(index).filter(|_| index < self.used).and_then(Name::get),
            to: arrival.to,
            ecn: arrival.ecn,
            segment: arrival.segment,
        }
    }

    /// Receives up to `most` pieces behind those it holds, without waiting; gives their number.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, or what waits on the socket.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let first = self.used;
        let count = most.min(self.free());
        let slots = self.buffer.chunks_exact_mut(SLOT_BYTES).skip(first).take(count);
        let sides = self.names.iter_mut().zip(self.controls.iter_mut()).skip(first);
        let tables = self.vectors.iter_mut().zip(self.headers.iter_mut());
        for ((slot, (name, control)), (vector, header)) in slots.zip(sides).zip(tables) {
            // What the kernel does not overwrite must not be taken for news.
            name.0[..2].fill(0);
            *vector = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: PIECE_BYTES };
            header.msg_hdr.msg_name = name.0.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = NAME_BYTES as libc::socklen_t;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = Control::BYTES as _;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        let wanted = libc::c_uint::try_from(count).unwrap_or(0);
        // SAFETY: the first `count` headers were just filled with pointers into buffers of `self` of the lengths given with them. No two share
        // memory, and nothing else touches them during the call. No timeout is given.
        let result =
            unsafe { libc::recvmmsg(raw(socket), self.headers.as_mut_ptr(), wanted, flags as _, std::ptr::null_mut()) };
        let received = last_error(result)?;
        for (header, (piece, control)) in
            self.headers.iter().zip(self.pieces.iter_mut().zip(self.controls.iter()).skip(first)).take(received)
        {
            let length = usize::try_from(header.msg_len).unwrap_or(0).min(PIECE_BYTES);
            #[allow(clippy::unnecessary_cast, reason = "its type differs between C libraries")]
            let arrival = control.arrival(header.msg_hdr.msg_controllen as usize);
            *piece = (length, arrival);
        }
        self.used += received;
        Ok(received)
    }
}

pub(super) fn no_header() -> libc::mmsghdr {
    // SAFETY: a message header of zeros names no memory; it is what the kernel calls an empty one.
    unsafe { std::mem::zeroed() }
}
