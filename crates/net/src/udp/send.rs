//! Sending datagrams in as few calls as the kernel allows.
//!
//! Neighbours in a row that go the same way and are equally long leave as one piece that the kernel (or the network card) cuts (UDP_SEGMENT);
//! what remains leaves by one sendmmsg. Nothing is copied and nothing is kept.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use super::receive::no_header;
use super::wire_form::{Control, LocalAddress, Name};
use super::{last_error, raw};

/// Pieces per call.
const MOST_PIECES: usize = 64;

/// Datagrams per call; each takes two places in the table of slices.
const MOST_DATAGRAMS: usize = 128;

/// Datagrams the kernel cuts one piece into; 64 in older kernels.
const MOST_SEGMENTS: usize = 64;

/// Bytes of one piece; what fits behind the headers of an IP packet of full length.
const MOST_PIECE_BYTES: usize = 65_000;

/// A datagram to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Its first bytes; often empty.
    pub head: &'a [u8],
    /// Its other bytes.
    pub payload: &'a [u8],
    /// Where to; none on a connected socket.
    pub to: Option<SocketAddr>,
    /// From which address of ours; none for the socket's own.
    pub from: Option<LocalAddress>,
    /// Explicit congestion notification (RFC 3168 §5): 0 is not capable.
    pub ecn: u8,
}

impl Outgoing<'_> {
    fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Whether `next` may be cut off the same piece: each but the last is as long as the first.
    fn joins(&self, next: &Outgoing<'_>) -> bool {
        next.to == self.to
            && next.from == self.from
            && next.ecn == self.ecn
            && next.len() <= self.len()
            && next.len() > 0
    }
}

/// What became of the datagrams.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Taken by the kernel.
    pub sent: usize,
    /// Not taken: the buffer was full, the datagram too long, or the way unknown.
    pub lost: usize,
    /// The network has said of an earlier datagram that it could not be delivered, and those behind the ones counted here were not sent.
    pub is_refused: bool,
}

/// Tables for sending, made once and used for every call.
pub struct Mailer {
    names: Box<[Name]>,
    controls: Box<[Control]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    /// Datagrams in each piece.
    counts: Box<[usize]>,
    /// Whether the kernel cuts pieces.
    joins: bool,
    /// Whether what the network has said of earlier datagrams ends a call.
    stops: bool,
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailer")
    }
}

impl Default for Mailer {
    fn default() -> Mailer {
        Mailer::new()
    }
}

impl Mailer {
    /// Empty tables.
    pub fn new() -> Mailer {
        let no_vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Mailer {
            names: vec![Name::EMPTY; MOST_PIECES].into_boxed_slice(),
            controls: vec![Control::EMPTY; MOST_PIECES].into_boxed_slice(),
            vectors: vec![no_vector; 2 * MOST_DATAGRAMS].into_boxed_slice(),
            headers: vec![no_header(); MOST_PIECES].into_boxed_slice(),
            counts: vec![0; MOST_PIECES].into_boxed_slice(),
            joins: true,
            stops: false,
        }
    }

    /// As [`Mailer::send`], but sends no more once the network has said that an earlier datagram could not be delivered.
    pub fn send_unless_refused(&mut self, socket: BorrowedFd<'_>, datagrams: &[Outgoing<'_>]) -> Sent {
        self.stops = true;
        let sent = self.send(socket, datagrams);
        self.stops = false;
        sent
    }

    /// Sends all of `datagrams`, in order, without waiting.
    pub fn send(&mut self, socket: BorrowedFd<'_>, datagrams: &[Outgoing<'_>]) -> Sent {
        let mut sent = Sent::default();
        let mut rest = datagrams;
        while !rest.is_empty() && !sent.is_refused {
            let (pieces, taken) = self.lay_out(rest, self.joins);
            let (now, later) = rest.split_at(taken);
            self.send_pieces(socket, now, pieces, &mut sent);
            rest = later;
        }
        sent
    }

    /// Fills the tables with as many datagrams as fit; gives the number of pieces and of datagrams.
    fn lay_out(&mut self, datagrams: &[Outgoing<'_>], joins: bool) -> (usize, usize) {
        let (mut pieces, mut taken) = (0, 0);
        while pieces < MOST_PIECES && taken < datagrams.len().min(MOST_DATAGRAMS) {
            let rest = &datagrams[taken..datagrams.len().min(MOST_DATAGRAMS)];
            let count = if joins { joined(rest) } else { 1 };
            self.lay_out_piece(pieces, taken, &rest[..count]);
            taken += count;
            pieces += 1;
        }
        (pieces, taken)
    }

    fn lay_out_piece(&mut self, piece: usize, first: usize, datagrams: &[Outgoing<'_>]) {
        let Some(leading) = datagrams.first() else { return };
        let vectors = &mut self.vectors[2 * first..2 * (first + datagrams.len())];
        for (pair, datagram) in vectors.as_chunks_mut::<2>().0.iter_mut().zip(datagrams) {
            *pair = [datagram.head, datagram.payload]
                .map(|bytes| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
        }
        let control = &mut self.controls[piece];
        let mut used = leading.from.map_or(0, |from| control.push_source(0, from));
        if let Some(to) = leading.to.filter(|_| leading.ecn != 0) {
            used = control.push_ecn(used, to.is_ipv6(), leading.ecn);
        }
        if datagrams.len() > 1 {
            used = control.push_segment(used, u16::try_from(leading.len()).unwrap_or(u16::MAX));
        }
        let name = &mut self.names[piece];
        let header = &mut self.headers[piece].msg_hdr;
        header.msg_namelen = leading.to.map_or(0, |to| name.set(to));
        header.msg_name = if leading.to.is_some() { name.0.as_mut_ptr().cast() } else { std::ptr::null_mut() };
        header.msg_iov = vectors.as_mut_ptr();
        header.msg_iovlen = vectors.len() as _;
        header.msg_control = if used > 0 { control.0.as_mut_ptr().cast() } else { std::ptr::null_mut() };
        header.msg_controllen = used as _;
        self.counts[piece] = datagrams.len();
    }

    /// Sends the pieces laid out for `datagrams`.
    fn send_pieces(&mut self, socket: BorrowedFd<'_>, datagrams: &[Outgoing<'_>], pieces: usize, sent: &mut Sent) {
        let (mut piece, mut datagram) = (0, 0);
        let mut tried_again = false;
        while piece < pieces {
            match self.call(socket, piece, pieces) {
                Ok(count) if count > 0 => {
                    let carried: usize = self.counts[piece..piece + count].iter().sum();
                    sent.sent += carried;
                    datagram += carried;
                    piece += count;
                    tried_again = false;
                }
                Err(error) if self.stops && is_undelivered(&error) => {
                    sent.is_refused = true;
                    return;
                }
                // What an earlier datagram met waits on a connected socket and fails the next call, which has sent nothing then.
                Err(error) if !tried_again && is_old_news(&error) => tried_again = true,
                Err(error) if self.counts[piece] > 1 && is_about_joining(&error) => {
                    // This way the kernel cannot cut, or not at this length. The tables are filled anew for what is left.
                    self.joins &= error.raw_os_error() != Some(libc::EIO);
                    let rest = &datagrams[datagram..];
                    let (alone, later) = rest.split_at(self.counts[piece]);
                    self.send_one_by_one(socket, alone, sent);
                    if sent.is_refused {
                        return;
                    }
                    let more = self.send(socket, later);
                    sent.sent += more.sent;
                    sent.lost += more.lost;
                    sent.is_refused = more.is_refused;
                    return;
                }
                _ => {
                    sent.lost += self.counts[piece];
                    datagram += self.counts[piece];
                    piece += 1;
                    tried_again = false;
                }
            }
        }
    }

    fn send_one_by_one(&mut self, socket: BorrowedFd<'_>, datagrams: &[Outgoing<'_>], sent: &mut Sent) {
        // At most what one piece holds, so they fit.
        let (pieces, taken) = self.lay_out(datagrams, false);
        self.send_pieces(socket, &datagrams[..taken], pieces, sent);
    }

    fn call(&mut self, socket: BorrowedFd<'_>, from: usize, to: usize) -> io::Result<usize> {
        // Of several the kernel tells how many it took, and keeps to itself what the next one met.
        let to = if self.stops { from + 1 } else { to };
        let headers = &mut self.headers[from..to];
        let count = libc::c_uint::try_from(headers.len()).unwrap_or(0);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `lay_out` has just filled these headers with pointers into tables of `self` and into datagrams that the caller still
        // borrows, each with its length. The kernel only reads what they point to, and writes only `msg_len` of each header.
        last_error(unsafe { libc::sendmmsg(raw(socket), headers.as_mut_ptr(), count, flags as _) })
    }
}

/// How many of the first datagrams may leave as one piece. At least one.
fn joined(datagrams: &[Outgoing<'_>]) -> usize {
    let Some(first) = datagrams.first().filter(|first| first.len() > 0) else { return 1 };
    let mut bytes = first.len();
    let mut count = 1;
    for next in datagrams.iter().take(MOST_SEGMENTS).skip(1) {
        bytes += next.len();
        if !first.joins(next) || bytes > MOST_PIECE_BYTES {
            break;
        }
        count += 1;
        if next.len() < first.len() {
            break;
        }
    }
    count
}

/// What the network told of an earlier datagram, rather than why this one cannot go.
fn is_old_news(error: &io::Error) -> bool {
    is_undelivered(error) || error.kind() == io::ErrorKind::Interrupted
}

/// What the network says of datagrams that do not arrive.
fn is_undelivered(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
        || error.raw_os_error() == Some(libc::EPROTO)
}

fn is_about_joining(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_neighbours_of_one_way_and_length_are_joined() {
        fn check(lengths: &[usize], expected: usize) {
            let bytes = [0; 1500];
            let datagrams: Vec<Outgoing<'_>> = lengths
                .iter()
                .map(|length| Outgoing { head: &[], payload: &bytes[..*length], to: None, from: None, ecn: 0 })
                .collect();
            assert_eq!(joined(&datagrams), expected, "{lengths:?}");
        }
        check(&[], 1);
        check(&[10], 1);
        check(&[10, 10, 10], 3);
        check(&[10, 10, 4], 3);
        check(&[10, 4, 10], 2);
        check(&[10, 11], 1);
        check(&[0, 0], 1);
        check(&[10, 0], 1);
        check(&[10; 100], 64);
        check(&[1400; 64], 46);
        let to = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let towards = |port| Outgoing { head: &[1], payload: &[2], to: to(port), from: None, ecn: 0 };
        assert_eq!(joined(&[towards(1), towards(1), towards(2)]), 2);
        assert_eq!(joined(&[towards(1), Outgoing { ecn: 2, ..towards(1) }]), 1);
    }
}
