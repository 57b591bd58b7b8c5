//! What a hub is set up with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{IdleTimeout, TransportConfig, VarInt};
use tls::crypto::digest::random;

/// Streams in both directions that a peer may have open before it has shown that it wants more: each takes memory, used or not, and with the few of the
/// other kind these fill the smallest table.
pub(crate) const FIRST_BI_STREAMS: u32 = 24;

/// Handshake bytes that are kept until those before them have come: a ClientHello with a ticket.
const CRYPTO_BYTES: usize = 16 * 1024;

/// The same where clients may send certificates, which `tls` bounds.
const CRYPTO_BYTES_WITH_CHAIN: usize = 40 * 1024;

/// How the connections of a hub behave, and what bounds them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Connections without a packet for this long end silently.
    pub idle_timeout: Duration,
    /// Handshakes that take longer end.
    pub handshake_timeout: Duration,
    /// Streams in both directions that a peer may have open at once.
    pub max_bi_streams: u32,
    /// Streams in one direction that a peer may have open at once.
    pub max_uni_streams: u32,
    /// Bytes a peer may send ahead of us on one stream.
    pub stream_window: u32,
    /// Bytes a peer may send ahead of us on one connection.
    pub connection_window: u32,
    /// Bytes of ours that a connection may hold, sent and not yet acknowledged or waiting to be sent.
    pub send_buffer: u32,
    /// Handshakes under way of addresses that are not proved, from which on clients must prove theirs first (Retry): of all, and of one address.
    pub handshakes_before_retry: (usize, usize),
    /// How long what a Retry gave proves an address.
    pub retry_lifetime: Duration,
    /// Handshakes under way of addresses that are proved, of all and of one address, from which on the oldest gives way.
    pub max_handshakes: (usize, usize),
    /// The error code of streams and connections that are dropped without a word.
    pub abandoned: u64,
}

impl Settings {
    /// What the library has each connection behave by, without and with client certificates.
    pub(crate) fn transport(&self) -> (Arc<TransportConfig>, Arc<TransportConfig>) {
        let make = |crypto_bytes| {
            let mut transport = TransportConfig::default();
            transport
                .max_concurrent_bidi_streams(self.max_bi_streams.min(FIRST_BI_STREAMS).into())
                .max_concurrent_uni_streams(self.max_uni_streams.into())
                .max_idle_timeout(IdleTimeout::try_from(self.idle_timeout).ok())
                .stream_receive_window(self.stream_window.into())
                .receive_window(self.connection_window.into())
                .send_window(self.send_buffer.into())
                .crypto_buffer_size(crypto_bytes)
                .datagram_receive_buffer_size(None);
            Arc::new(transport)
        };
        (make(CRYPTO_BYTES), make(CRYPTO_BYTES_WITH_CHAIN))
    }
}

/// An error code as the wire has it; what is beyond its range is the largest.
pub(crate) fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// Secrets that all workers of a process share, so that their stateless resets and address tokens are alike.
#[derive(Clone)]
pub struct Secrets {
    pub(crate) reset: [u8; 32],
    pub(crate) token: [u8; 32],
}

impl Secrets {
    /// Length of what [`Secrets::to_bytes`] gives.
    pub const BYTES: usize = 64;

    /// New ones.
    ///
    /// # Errors
    /// There are no random bytes.
    pub fn random() -> Result<Secrets, tls::crypto::Error> {
        Ok(Secrets { reset: random()?, token: random()? })
    }

    /// These: for stateless resets, and for address tokens.
    pub fn of(reset: &[u8; 32], token: &[u8; 32]) -> Secrets {
        Secrets { reset: *reset, token: *token }
    }

    /// Those that another process passed.
    pub fn of_bytes(bytes: &[u8]) -> Option<Secrets> {
        let (reset, token) = bytes.split_first_chunk()?;
        Some(Secrets { reset: *reset, token: token.try_into().ok()? })
    }

    /// For another process.
    pub fn to_bytes(&self) -> [u8; Secrets::BYTES] {
        let mut bytes = [0; Secrets::BYTES];
        bytes[..32].copy_from_slice(&self.reset);
        bytes[32..].copy_from_slice(&self.token);
        bytes
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}
