//! Messages with descriptors between two processes on this machine: a connected pair of Unix sockets that keep messages whole (unix(7), SOCK_SEQPACKET,
//! SCM_RIGHTS).
//!
//! Owns sizes and deadlines. Knows nothing of what is said. It blocks, so it is nothing for the data path.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Longest message, bytes.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024;

/// Most descriptors in a message; the kernel takes 253.
pub const MAX_DESCRIPTORS_PER_MESSAGE: usize = 64;

/// A message, and the descriptors that came with it.
pub type Received = (Vec<u8>, Vec<OwnedFd>);

/// One end.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Two ends that are connected; the second is for another process.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (one, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(one), other))
    }

    /// The end that another process was given.
    pub fn of(socket: OwnedFd) -> Channel {
        Channel(socket)
    }

    /// The end that is this process's standard input, which is empty from now on.
    ///
    /// # Errors
    /// Standard input is no such socket.
    pub fn from_standard_input() -> io::Result<Channel> {
        let input = rustix::stdio::stdin();
        let is_channel = sockopt::socket_domain(input).is_ok_and(|domain| domain == AddressFamily::UNIX)
            && sockopt::socket_type(input).is_ok_and(|kind| kind == SocketType::SEQPACKET);
        if !is_channel {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "standard input is no such socket"));
        }
        let channel = Channel(rustix::io::fcntl_dupfd_cloexec(input, 3)?);
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        Ok(channel)
    }

    /// Sends a message; waits until `until` for it to be taken.
    ///
    /// # Errors
    /// It is too long, the other end is closed, or time is over ([`io::ErrorKind::WouldBlock`]).
    pub fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>], until: Instant) -> io::Result<()> {
        if message.len() > MAX_MESSAGE_BYTES || descriptors.len() > MAX_DESCRIPTORS_PER_MESSAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.wait(Timeout::Send, until)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS_PER_MESSAGE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.0, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// The next message, waited for until `until`; none if the other end is closed.
    ///
    /// # Errors
    /// It is too long, or time is over ([`io::ErrorKind::WouldBlock`]).
    pub fn receive(&self, until: Instant) -> io::Result<Option<Received>> {
        self.wait(Timeout::Recv, until)?;
        let mut message = vec![0; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS_PER_MESSAGE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let received = rustix::net::recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut message)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            match received {
                Ok(received) => break received,
                // The other process ended with something unread; what it had said before follows.
                Err(rustix::io::Errno::CONNRESET | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let descriptors: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message was too long, or the limit of open files is too low",
            ));
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        message.truncate(received.bytes);
        Ok(Some((message, descriptors)))
    }

    fn wait(&self, direction: Timeout, until: Instant) -> io::Result<()> {
        // 0 would be for ever.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        Ok(sockopt::set_socket_timeout(&self.0, direction, Some(left))?)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn messages_stay_whole_and_bring_their_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let other = Channel(other);
        let until = Instant::now() + Duration::from_secs(20);
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_at(&file, b"passed", 0).unwrap();
        one.send(b"first", &[file.as_fd(), one.as_fd()], until).unwrap();
        one.send(b"second", &[], until).unwrap();
        assert!(one.send(&vec![1; MAX_MESSAGE_BYTES + 1], &[], until).is_err());
        let (message, descriptors) = other.receive(until).unwrap().unwrap();
        assert_eq!((&message[..], descriptors.len()), (&b"first"[..], 2));
        let mut text = [0; 6];
        let received = std::fs::File::from(descriptors.into_iter().next().unwrap());
        std::os::unix::fs::FileExt::read_exact_at(&received, &mut text, 0).unwrap();
        assert_eq!(&text, b"passed");
        assert_eq!(other.receive(until).unwrap().unwrap().0, b"second");
        assert_eq!(other.receive(Instant::now()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Last words are heard, also of one that did not read all that it was told.
        other.send(b"unread", &[], until).unwrap();
        one.send(b"last", &[], until).unwrap();
        drop(one);
        assert_eq!(other.receive(until).unwrap().unwrap().0, b"last");
        assert!(other.receive(until).unwrap().is_none());
        assert!(other.send(b"late", &[], until).is_err());
    }
}
