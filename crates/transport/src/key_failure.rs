//! Why an operation of a private key was not done: what the log says, and whether another server may be asked.

use std::fmt;
use std::time::Duration;

use reason::Reason;
use wire::keyless::{ErrorCode, Operation};

/// How long a busy server is left alone, whatever it says: a server cannot talk us out of asking it.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
/// See [`LEAST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFailure {
    /// No key server is connected.
    Unavailable,
    /// As many operations are under way in this worker as it may have.
    Overloaded,
    /// No answer in time.
    Timeout,
    /// The connection broke before the response came.
    Lost,
    /// The server has too much to do.
    Busy {
        /// It wants to be left alone for so long.
        retry_after: Duration,
    },
    /// The server rejected.
    Rejected(ErrorCode),
    /// The server's signature does not verify.
    WrongSignature,
    /// What was to be asked does not fit the protocol.
    Unaskable,
}

impl KeyFailure {
    /// The reason for logs and metrics.
    pub fn reason(self) -> Reason {
        match self {
            KeyFailure::Unavailable => Reason::KeylessUnavailable,
            KeyFailure::Overloaded => Reason::KeylessOverloaded,
            KeyFailure::Timeout => Reason::KeylessTimeout,
            KeyFailure::Lost => Reason::KeylessConnectionLost,
            KeyFailure::Busy { .. } => Reason::KeylessBusy,
            KeyFailure::Rejected(_) => Reason::KeylessRejected,
            KeyFailure::WrongSignature => Reason::KeylessWrongSignature,
            KeyFailure::Unaskable => Reason::KeylessUnsupportedOperation,
        }
    }

    /// The outcome of one try, for metrics.
    pub fn outcome(self) -> &'static str {
        match self {
            KeyFailure::Rejected(code) => code.name(),
            other => other.reason().code().trim_start_matches("keyless_"),
        }
    }

    /// What an error response means. `retry_after_us` comes with BUSY.
    pub fn of_code(code: ErrorCode, retry_after_us: Option<u32>) -> KeyFailure {
        match code {
            ErrorCode::BUSY => {
                let retry_after = Duration::from_micros(retry_after_us.unwrap_or_default().into());
                KeyFailure::Busy { retry_after: retry_after.clamp(LEAST_PAUSE, LONGEST_PAUSE) }
            }
            ErrorCode::DEADLINE_PASSED => KeyFailure::Timeout,
            code => KeyFailure::Rejected(code),
        }
    }

    /// Whether another server may have a better answer.
    pub fn may_go_elsewhere(self) -> bool {
        !matches!(self, KeyFailure::Overloaded | KeyFailure::Unaskable)
    }

    /// Whether it speaks against the server as such, not only against this operation.
    pub fn blames_server(self) -> bool {
        matches!(self, KeyFailure::Timeout | KeyFailure::Lost | KeyFailure::WrongSignature)
    }

    /// Whether the server looked at a ciphertext and did not like it. That must end as a wrong secret does (RFC 5246 §7.4.7.1).
    pub fn is_about_ciphertext(self, operation: Operation) -> bool {
        operation == Operation::RsaDecrypt && self == KeyFailure::Rejected(ErrorCode::CRYPTO)
    }
}

impl fmt::Display for KeyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFailure::Unavailable => f.write_str("no key server is connected"),
            KeyFailure::Overloaded => f.write_str("too many key operations under way"),
            KeyFailure::Timeout => f.write_str("the key servers did not answer in time"),
            KeyFailure::Lost => f.write_str("the connection to the key server broke"),
            KeyFailure::Busy { .. } => f.write_str("the key servers are busy"),
            KeyFailure::Rejected(code) => write!(f, "the key server rejected: {} ({})", code.name(), code.0),
            KeyFailure::WrongSignature => f.write_str("the key server's signature does not verify"),
            KeyFailure::Unaskable => f.write_str("the operation does not fit the protocol"),
        }
    }
}

impl std::error::Error for KeyFailure {}
