//! Taking a PROXY header from the start of a connection, under its listener's rule.
//!
//! Owns the rule: only peers on the trust list are believed, and a header from anybody else ends the connection; what has none is rejected unless
//! the listener lets it pass. The form of headers is `wire::proxy_protocol`. What comes behind a header is kept for whoever reads on, so that TLS
//! may follow. Nothing has gone upstream when a connection ends here.

use std::io;
use std::net::SocketAddr;

use config::ProxyHeaderRule;
use net::clock::coarse;
use net::transparent::canonical;
use net::{Chunk, Deadline, Stream};
use reason::Reason;
use wire::proxy_protocol::{Found, Header, HeaderError, MAX_HEADER_BYTES, Origin, ProxyInfo, Transport, read};

use super::{Identified, itself};

/// Why a connection ended before its client was known.
#[derive(Debug)]
pub enum NotIdentified {
    /// The peer is not on the trust list, and everybody else is rejected.
    UntrustedPeer,
    /// A peer that is not on the trust list sent a header.
    UntrustedHeader,
    /// A header was due, and something else came.
    Missing,
    /// A header was due, and its time is over: nothing came, or not all of it.
    Slow,
    /// The peer went away before its header was whole; true if a part of it had come.
    Gone(bool),
    /// The header is malformed.
    Invalid(HeaderError),
    /// The header speaks of datagrams, and this is a stream.
    OfDatagrams,
    /// The socket failed.
    Broken(io::Error),
}

impl NotIdentified {
    /// The reason for logs and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            NotIdentified::UntrustedPeer => Reason::ProxyUntrustedPeer,
            NotIdentified::UntrustedHeader => Reason::ProxyHeaderUntrusted,
            NotIdentified::Missing => Reason::ProxyHeaderMissing,
            NotIdentified::Slow => Reason::ProxyHeaderTimeout,
            NotIdentified::Gone(true) => Reason::ProxyHeaderTruncated,
            NotIdentified::Gone(false) => Reason::ClosedWithoutHeader,
            NotIdentified::Invalid(_) | NotIdentified::OfDatagrams => Reason::ProxyHeaderInvalid,
            NotIdentified::Broken(_) => Reason::ProxyHeaderReset,
        }
    }

    /// For people; may be empty.
    pub fn detail(&self) -> String {
        match self {
            NotIdentified::UntrustedPeer => "the peer is not on the trust list".to_owned(),
            NotIdentified::UntrustedHeader => "a peer that is not on the trust list sent a PROXY header".to_owned(),
            NotIdentified::Missing => "this listener takes connections with a PROXY header only; \
                 `header: optional` would take others as themselves"
                .to_owned(),
            NotIdentified::Slow | NotIdentified::Gone(_) => String::new(),
            NotIdentified::Invalid(error) => error.to_string(),
            NotIdentified::OfDatagrams => "the header speaks of datagrams, and this is a stream".to_owned(),
            NotIdentified::Broken(error) => error.to_string(),
        }
    }
}

/// Reads the header of a fresh connection. `is_trusted`: whether the peer may speak for others.
///
/// # Errors
/// [`NotIdentified`]; the socket is closed then.
pub async fn read_header(
    stream: Stream,
    peer: Option<SocketAddr>,
    rule: &ProxyHeaderRule,
    is_trusted: bool,
) -> Result<Identified, NotIdentified> {
    if !is_trusted && !rule.header_optional {
        return Err(NotIdentified::UntrustedPeer);
    }
    let until = coarse() + rule.header_timeout;
    let mut deadline = Deadline::new();
    let mut first = Chunk::empty();
    loop {
        match read(&first, MAX_HEADER_BYTES) {
            Ok(Found::Partial) => {}
            Ok(Found::Absent) if rule.header_optional => return Ok(Identified { first, ..itself(stream, peer) }),
            Ok(Found::Absent) => return Err(NotIdentified::Missing),
            Ok(Found::Whole(_)) | Err(_) if !is_trusted => return Err(NotIdentified::UntrustedHeader),
            Err(error) => return Err(NotIdentified::Invalid(error)),
            Ok(Found::Whole(header)) if speaks_of_datagrams(&header) => return Err(NotIdentified::OfDatagrams),
            Ok(Found::Whole(header)) => {
                let (client, reported, len) = believe(peer, &header);
                first.advance(len);
                return Ok(Identified { stream, first, client, reported: Some(Box::new(reported)) });
            }
        }
        match deadline.until(until, stream.recv_more(&mut first)).await {
            Ok(Ok(0)) => return Err(NotIdentified::Gone(!first.is_empty())),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(NotIdentified::Broken(error)),
            // In some protocols the server speaks first: who is silent for that long sends no header any more.
            Err(_) if first.is_empty() && rule.header_optional => return Ok(itself(stream, peer)),
            Err(_) => return Err(NotIdentified::Slow),
        }
    }
}

fn speaks_of_datagrams(header: &Header<'_>) -> bool {
    matches!(header.origin, Origin::Inet { transport, .. } | Origin::Unix { transport, .. } if transport == Transport::Datagram)
}

/// The client that a believed header names, what else it says, and its length.
fn believe(peer: Option<SocketAddr>, header: &Header<'_>) -> (Option<SocketAddr>, ProxyInfo, usize) {
    let (client, destination) = match header.origin {
        Origin::Inet { source, destination, .. } => (Some(canonical(source)), Some(canonical(destination))),
        // A Unix socket has no address to know a client by.
        Origin::Unix { .. } => (None, None),
        Origin::Local | Origin::Unspecified => (peer.map(canonical), None),
    };
    let reported = ProxyInfo::new(header, peer.map(canonical), destination);
    (client, reported, header.len)
}
