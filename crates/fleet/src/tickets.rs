//! The masters of session tickets that all nodes of a fleet share, and when they rotate.
//!
//! ```text
//! MAGIC, serial number, when the current master began to seal (seconds since 1970), each 8 bytes;
//! then name and master of the current and the next one, and of the previous one if there is one
//! ```
//!
//! A rotation is one write that names what was read before it, so of several nodes that find it due one succeeds. Pure: time comes from outside.

use std::time::Duration;

use tls::{SharedMasters, TicketMaster};
use zeroize::Zeroizing;

use crate::kept::{Kept, Unread};

/// What the value begins with: its form, and the version of that.
const MAGIC: &[u8; 8] = b"PTFTKS1\n";
const MAGIC_OF_ANY: &[u8] = b"PTFTKS";

/// How long a master seals. Less than the 12 hours after which a node rotates by itself, which it does only if nobody tells it anything.
pub const PERIOD: Duration = Duration::from_secs(11 * 3600);

/// Nodes look at different times, within this, whether a rotation is due.
pub const SPREAD: Duration = Duration::from_secs(600);

/// The masters, as they are in the store.
#[derive(Debug, Clone)]
pub struct Tickets {
    /// Grows with every change.
    pub serial: u64,
    /// When the current master began to seal, seconds since 1970, by the clock of whoever rotated.
    pub since: u64,
    /// The masters.
    pub masters: SharedMasters,
}

impl Tickets {
    /// The first ones.
    pub fn first(now: u64) -> Tickets {
        Tickets { serial: now, since: now, masters: SharedMasters::random() }
    }

    /// Those after a rotation.
    #[must_use]
    pub fn rotated(&self, now: u64) -> Tickets {
        Tickets { serial: self.serial.saturating_add(1).max(now), since: now, masters: self.masters.rotated() }
    }

    /// New ones, under which nothing opens that was sealed before.
    #[must_use]
    pub fn replaced(&self, now: u64) -> Tickets {
        Tickets { serial: self.serial.saturating_add(1).max(now), ..Tickets::first(now) }
    }

    /// How long the current master has sealed.
    pub fn age(&self, now: u64) -> Duration {
        Duration::from_secs(now.saturating_sub(self.since))
    }
}

impl Kept for Tickets {
    const NAME: &'static str = "tickets";

    fn serial(&self) -> u64 {
        self.serial
    }

    fn write(&self) -> Zeroizing<Vec<u8>> {
        let SharedMasters { current, next, previous } = &self.masters;
        let masters: Vec<&TicketMaster> = [current, next].into_iter().chain(previous).collect();
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAGIC.len() + 16 + 3 * TicketMaster::BYTES));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.serial.to_be_bytes());
        bytes.extend_from_slice(&self.since.to_be_bytes());
        masters.into_iter().for_each(|master| bytes.extend_from_slice(master.bytes()));
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Tickets, Unread> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(if bytes.starts_with(MAGIC_OF_ANY) { Unread::Newer } else { Unread::Invalid });
        };
        read_members(rest).ok_or(Unread::Invalid)
    }
}

fn read_members(bytes: &[u8]) -> Option<Tickets> {
    let (serial, rest) = bytes.split_first_chunk()?;
    let (since, masters) = rest.split_first_chunk()?;
    let (masters, []) = masters.as_chunks::<{ TicketMaster::BYTES }>() else { return None };
    let (current, next, previous) = match masters {
        [current, next] => (current, next, None),
        [current, next, previous] => (current, next, Some(previous)),
        _ => return None,
    };
    let previous = match previous {
        None => None,
        Some(previous) => Some(TicketMaster::of(previous)?),
    };
    let masters = SharedMasters { current: TicketMaster::of(current)?, next: TicketMaster::of(next)?, previous };
    // Room is left for what is counted on.
    let serial = Some(u64::from_be_bytes(*serial)).filter(|serial| *serial < u64::MAX / 4)?;
    Some(Tickets { serial, since: u64::from_be_bytes(*since), masters })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn masters_are_read_as_they_were_written_and_nothing_else_is() {
        let first = Tickets::first(1_700_000_000);
        let second = first.rotated(1_700_000_000);
        assert_eq!(second.serial, first.serial + 1, "it grows where the clock does not");
        assert_eq!(second.masters.current.bytes(), first.masters.next.bytes());
        assert_eq!(second.masters.previous.as_ref().unwrap().bytes(), first.masters.current.bytes());
        assert!(second.replaced(1_700_000_009).masters.previous.is_none());
        for tickets in [&first, &second] {
            let bytes = tickets.write();
            let read = Tickets::read(&bytes).unwrap();
            assert_eq!((read.write(), read.age(read.since + 7)), (bytes.clone(), Duration::from_secs(7)));
            assert_eq!(read.age(0), Duration::ZERO, "a clock that is behind");
            for length in 0..bytes.len() {
                let is_shorter_form = length == first.write().len();
                assert_eq!(Tickets::read(&bytes[..length]).is_ok(), is_shorter_form, "{length} bytes");
            }
            assert!(Tickets::read(&[&bytes[..], &[0; TicketMaster::BYTES * 2]].concat()).is_err());
            let mut newer = bytes.to_vec();
            newer[6] = b'2';
            assert!(matches!(Tickets::read(&newer), Err(Unread::Newer)));
            let mut endless = bytes.to_vec();
            endless[8..16].fill(255);
            assert!(matches!(Tickets::read(&endless), Err(Unread::Invalid)));
        }
    }
}
