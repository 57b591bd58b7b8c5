//! Connection ids: random but for their first byte, which names the socket that the connection lives on.
//!
//! What reads it is the program that `net::udp` attaches to the sockets. Ruled by RFC 9000 §5.1.

use std::time::Duration;

use net::udp::ID_BYTES;
use quinn_proto::{ConnectionId, ConnectionIdGenerator};
use tls::crypto::digest::random;

/// Makes the ids of one socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    lane: u8,
    lanes: u8,
}

impl Ids {
    /// Ids for the socket at position `lane` of `lanes`. Of more sockets than a byte tells apart all make ids alike, and none is steered.
    pub(crate) fn new((lane, lanes): (usize, usize)) -> Ids {
        match (u8::try_from(lane), u8::try_from(lanes)) {
            (Ok(lane), Ok(lanes)) if lane < lanes => Ids { lane, lanes },
            _ => Ids { lane: 0, lanes: 1 },
        }
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        // The library ends the process rather than give no random bytes.
        let mut id = random::<ID_BYTES>().unwrap_or_default();
        let floor = id[0] - id[0] % self.lanes;
        id[0] = floor.checked_add(self.lane).unwrap_or_else(|| floor - self.lanes + self.lane);
        ConnectionId::new(&id)
    }

    // `validate` takes any id: one that names no socket here may be of a process with another number of them, whose clients are told that it is gone.

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_name_their_lane_and_are_no_two_alike() {
        for lanes in [1, 2, 3, 4, 7, 64, 255] {
            for lane in [0, lanes / 2, lanes - 1] {
                let mut ids = Ids::new((lane, lanes));
                let mut seen = HashSet::new();
                for _ in 0..300 {
                    let id = ids.generate_cid();
                    assert_eq!((id.len(), usize::from(id[0]) % lanes), (ID_BYTES, lane));
                    assert!(seen.insert(id));
                }
            }
        }
        // Of more sockets than a byte tells apart all make ids alike.
        assert_eq!(Ids::new((300, 400)).generate_cid().len(), ID_BYTES);
    }
}
