//! What a turn has to send, in buffers that are used again.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use net::udp::{LocalAddress, Mailer, Outgoing};
use quinn_proto::{EcnCodepoint, Transmit};

/// Buffers that are kept for the next turns.
const KEPT: usize = 64;

/// Datagrams one way, one behind the other.
struct Parcel {
    bytes: Vec<u8>,
    to: SocketAddr,
    from: Option<IpAddr>,
    ecn: u8,
    /// Length of each but the last.
    segment: usize,
}

/// What is to be sent.
#[derive(Default)]
pub(crate) struct Outbox {
    parcels: Vec<Parcel>,
    spare: Vec<Vec<u8>>,
    mailer: Mailer,
}

impl Outbox {
    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Puts what the library wrote to `bytes` on its way; without a transmission the buffer is kept.
    pub(crate) fn put(&mut self, transmit: Option<Transmit>, mut bytes: Vec<u8>) {
        let Some(transmit) = transmit else { return self.keep(bytes) };
        bytes.truncate(transmit.size);
        self.parcels.push(Parcel {
            to: transmit.destination,
            from: transmit.src_ip,
            ecn: transmit.ecn.map_or(0, ecn_bits),
            segment: transmit.segment_size.unwrap_or(bytes.len()).max(1),
            bytes,
        });
    }

    /// Sends all. What the kernel does not take is lost, as on any hop.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) {
        if self.parcels.is_empty() {
            return;
        }
        let datagrams = |parcel: &'_ Parcel| parcel.bytes.len().div_ceil(parcel.segment);
        let mut outgoing = Vec::with_capacity(self.parcels.iter().map(datagrams).sum());
        for parcel in &self.parcels {
            let (to, ecn) = (Some(parcel.to), parcel.ecn);
            let interface = if let SocketAddr::V6(to) = parcel.to { to.scope_id() } else { 0 };
            let from = parcel.from.map(|ip| LocalAddress::new(ip, interface));
            let payloads = parcel.bytes.chunks(parcel.segment);
            outgoing.extend(payloads.map(|payload| Outgoing { head: &[], payload, to, from, ecn }));
        }
        self.mailer.send(socket, &outgoing);
        drop(outgoing);
        while let Some(parcel) = self.parcels.pop() {
            self.keep(parcel.bytes);
        }
    }

    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < KEPT {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

/// RFC 3168 §5.
fn ecn_bits(ecn: EcnCodepoint) -> u8 {
    ecn as u8
}
