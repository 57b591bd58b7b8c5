//! Why a connection is no more.

use quinn_proto::ConnectionError;

/// Why a connection is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// We closed it.
    Closed,
    /// The peer closed it with an error code of the application (CONNECTION_CLOSE of type 0x1d).
    ByPeer(u64),
    /// The peer closed it with an error code of the transport, or for what it said TLS failed with.
    ByPeerTransport(u64),
    /// The peer broke the protocol; the transport error code we sent, and what was wrong.
    Violation(u64, Box<str>),
    /// The peer has forgotten the connection (stateless reset).
    Reset,
    /// Nothing came for the idle timeout.
    TimedOut,
    /// The hub is gone.
    Gone,
}

impl From<ConnectionError> for Lost {
    fn from(error: ConnectionError) -> Lost {
        match error {
            ConnectionError::TransportError(error) => Lost::Violation(error.code.into(), error.reason.into()),
            ConnectionError::ConnectionClosed(close) => Lost::ByPeerTransport(close.error_code.into()),
            ConnectionError::ApplicationClosed(close) => Lost::ByPeer(close.error_code.into()),
            ConnectionError::Reset => Lost::Reset,
            ConnectionError::TimedOut => Lost::TimedOut,
            ConnectionError::LocallyClosed => Lost::Closed,
            ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => {
                Lost::Violation(0x1, error.to_string().into())
            }
        }
    }
}
