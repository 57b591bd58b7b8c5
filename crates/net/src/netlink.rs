//! Asking the kernel about addresses, rules and routes, and changing them: as much of rtnetlink as that takes.
//!
//! Owns the encoding of messages and the conversation. Knows no meaning of theirs. Ruled by `netlink(7)` and `rtnetlink(7)`. Synchronous: the kernel
//! answers within the call.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const HEAD_BYTES: usize = 16;

/// A dump comes in pieces of at most this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Messages that end a response.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Flags of a request.
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const DUMP: u16 = 0x300;
/// Make it; fail if it exists.
pub(crate) const CREATE: u16 = 0x600;

/// A message: its kind, then its fixed part and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// A message with this fixed part.
    pub(crate) fn new(kind: u16, fixed: &[u8]) -> Message {
        Message { kind, body: fixed.to_vec() }
    }

    /// Appends an attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Message {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.body.extend_from_slice(&length.to_ne_bytes());
        self.body.extend_from_slice(&kind.to_ne_bytes());
        self.body.extend_from_slice(value);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
        self
    }

    /// Its attributes behind a fixed part of `fixed` bytes.
    pub(crate) fn attributes(&self, fixed: usize) -> Attributes<'_> {
        Attributes { rest: self.body.get(fixed..).unwrap_or_default() }
    }

    /// A byte of the fixed part.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.body.get(at).copied().unwrap_or(0)
    }
}

/// Attributes in order: kind and value. Ends at the first malformed one.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        /// Says that attributes are nested, or in network byte order.
        const FLAGS: u16 = 0xc000;
        let (length, rest) = self.rest.split_first_chunk()?;
        let (kind, _) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let value = self.rest.get(4..length)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes(*kind) & !FLAGS, value))
    }
}

/// Reads an attribute's value as a number; none if it is not one.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// A conversation with the kernel.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens one; `groups` are the kinds of changes that the kernel is to report.
    pub(crate) fn open(groups: u32) -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC;
        // Without a protocol: rtnetlink, which is number 0.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// The descriptor, for calls that need some socket.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Asks for a change and waits until it is made.
    pub(crate) fn change(&mut self, message: &Message, flags: u16) -> io::Result<()> {
        self.send(message, REQUEST | ACKNOWLEDGE | flags)?;
        self.responses(|_| ())
    }

    /// Asks for all there is of a kind.
    pub(crate) fn dump(&mut self, message: &Message) -> io::Result<Vec<Message>> {
        self.send(message, REQUEST | DUMP)?;
        let mut all = Vec::new();
        self.responses(|message| all.push(message))?;
        Ok(all)
    }

    /// Whether news have come since the last look. Takes them off.
    pub(crate) fn has_news(&self) -> bool {
        let mut found = false;
        let mut buffer = [0; 4096];
        loop {
            match rustix::net::recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok(_) => found = true,
                Err(rustix::io::Errno::INTR) => {}
                // Some were lost for want of room: all the more reason to ask.
                Err(rustix::io::Errno::NOBUFS) => found = true,
                Err(_) => return found,
            }
        }
    }

    fn send(&mut self, message: &Message, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = u32::try_from(HEAD_BYTES + message.body.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEAD_BYTES + message.body.len());
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&message.kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&self.sequence.to_ne_bytes());
        bytes.extend_from_slice(&0_u32.to_ne_bytes());
        bytes.extend_from_slice(&message.body);
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, &bytes, SendFlags::empty(), &kernel)?;
        Ok(())
    }

    /// Reads answers to the last request until its end.
    fn responses(&mut self, mut each: impl FnMut(Message)) -> io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let (_, length) = match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => continue,
                received => received?,
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some((kind, sequence, body, later)) = first_message(rest) {
                rest = later;
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    DONE => return Ok(()),
                    ERROR => return outcome(body),
                    kind => each(Message { kind, body: body.to_vec() }),
                }
            }
        }
    }
}

/// Kind, sequence number and body of the first message of `bytes`, and what follows it.
fn first_message(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let length = usize::try_from(number(bytes.get(..4)?)?).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let sequence = number(bytes.get(8..12)?)?;
    let body = bytes.get(HEAD_BYTES..length)?;
    Some((kind, sequence, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// What an error message says; error 0 is success.
fn outcome(body: &[u8]) -> io::Result<()> {
    match body.get(..4).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were_put_in() {
        let message = Message::new(32, &[1, 2, 3, 4]).with(3, b"lo\0").with(10, &7_u32.to_ne_bytes()).with(0x8004, b"");
        let read: Vec<(u16, &[u8])> = message.attributes(4).collect();
        assert_eq!(read, [(3, b"lo\0".as_slice()), (10, 7_u32.to_ne_bytes().as_slice()), (4, b"".as_slice())]);
        assert_eq!(message.byte(1), 2);
    }

    #[test]
    fn what_is_cut_ends_the_reading() {
        let message = Message::new(0, &[]).with(1, &[9; 8]);
        for length in 0..message.body.len() {
            let cut = Message { kind: 0, body: message.body[..length].to_vec() };
            assert_eq!(cut.attributes(0).count(), 0, "{length}");
        }
        for length in [0_u16, 3, 0xffff] {
            let mut wrong = message.clone();
            wrong.body[..2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(wrong.attributes(0).count(), 0, "{length}");
        }
        assert!(first_message(&[0; 15]).is_none() && first_message(&[0; 16]).is_none());
        assert!(outcome(&[]).is_err());
    }
}
