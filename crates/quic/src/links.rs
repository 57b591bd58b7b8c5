//! Datagrams that two processes which read one socket pass each other, from the beginning of an upgrade until the older one has ended.
//!
//! The newer process reads the socket and knows only its own connections. What it does not know it passes on to the older one, which sends its responses over
//! the same socket. A third process may follow before the first has ended: then what is unknown goes on, away from where it came.

use std::task::{Context, Poll};

use net::{Link, Linked};

use crate::lanes::{Strayed, Whence};

/// The hubs on the same socket in the process before this one and in the one after it, as long as there are such.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) older: Option<Link>,
    pub(crate) newer: Option<Link>,
}

impl Links {
    /// Whether no other process is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.older.is_none() && self.newer.is_none()
    }

    /// Passes a datagram on to whom it may be for, but not back. False if there is nobody.
    pub(crate) fn pass(&mut self, datagram: Linked<'_>, whence: Whence) -> bool {
        let mut has_passed = false;
        for (slot, side) in [(&mut self.older, Whence::Older), (&mut self.newer, Whence::Newer)] {
            let Some(link) = slot.as_ref().filter(|_| side != whence) else { continue };
            if link.pass(datagram) {
                has_passed = true;
            } else {
                *slot = None;
            }
        }
        has_passed
    }

    /// What another process passed to this one. A link that has ended is forgotten, as is one that says what cannot be.
    pub(crate) fn poll_take(&mut self, context: &mut Context<'_>) -> Option<Strayed> {
        for (slot, side) in [(&mut self.older, Whence::Older), (&mut self.newer, Whence::Newer)] {
            let Some(link) = slot else { continue };
            match link.poll_take(context) {
                Poll::Pending => {}
                Poll::Ready(Ok(Some(linked))) => return Some(Strayed::of(linked, side)),
                Poll::Ready(Ok(None) | Err(_)) => *slot = None,
            }
        }
        None
    }
}
