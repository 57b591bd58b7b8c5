//! The keyless TLS protocol: frames between an edge that holds no keys and a key server.
//!
//! Owns the bytes of a frame, the numbers of the protocol, and the numbers of our extension (`docs/keyless-extensions.md`). Does not select keys, does
//! not sign, keeps no connection. All integers are big-endian. A frame is a header of eight bytes and a body of items:
//!
//! ```text
//! header   major u8 = 1 | minor u8 = 0 | body length u16 | request id u32
//! item     tag u8 | length u16 | value
//! ```

mod frame;
mod operation;

pub use frame::{Dialect, Frame, FrameError, TooLong, write_error};
pub use operation::{HashKind, KeyFamily, MAKE_KEY_NAME, OPERATION_NAMES, Operation};

/// The protocol that both ends name in ALPN if they speak the extension; without it neither end sends anything of it.
pub const EXTENSION_ALPN: &[u8] = b"portunus-keyless/1";

/// Registered-by-use TCP port of key servers.
pub const DEFAULT_PORT: u16 = 2407;

/// Size of the header, bytes.
pub const HEADER_BYTES: usize = 8;

/// Longest body, bytes: its length is a `u16`.
pub const MAX_BODY_BYTES: usize = 65_535;

/// Longest frame, bytes.
pub const MAX_FRAME_BYTES: usize = HEADER_BYTES + MAX_BODY_BYTES;

/// Frames are padded to this size, bytes, so that success, error and size of a payload look alike on the wire.
pub const PADDED_BYTES: usize = 1024;

/// Opcodes that are not an [`Operation`].
pub mod opcode {
    /// A successful answer; the payload is the result.
    pub const RESPONSE: u8 = 0xf0;
    /// The request for an echo.
    pub const PING: u8 = 0xf1;
    /// The answer to a ping; the payload is the request's.
    pub const PONG: u8 = 0xf2;
    /// A response of one byte, an [`ErrorCode`](super::ErrorCode).
    pub const ERROR: u8 = 0xff;
    /// Extension: the operation with this frame's request id is not wanted any more. Has no response of its own.
    pub const CANCEL: u8 = 0x40;
    /// Extension: the request for a new key. Its payload is the [code](super::KeyFamily::code) of the type; the result is the public half, a
    /// SubjectPublicKeyInfo.
    pub const MAKE_KEY: u8 = 0x41;
}

/// Tags of items.
pub mod tag {
    /// SHA-256 of the public key's number in upper-case hexadecimal.
    pub const DIGEST: u8 = 0x01;
    /// The host name the client asked for.
    pub const SERVER_NAME: u8 = 0x02;
    /// The client's address.
    pub const CLIENT_IP: u8 = 0x03;
    /// Subject key identifier.
    pub const SKI: u8 = 0x04;
    /// The address the client connected to.
    pub const SERVER_IP: u8 = 0x05;
    /// An opaque certificate name.
    pub const CERTIFICATE_ID: u8 = 0x06;
    /// Opcode of a request or status of a response.
    pub const OPCODE: u8 = 0x11;
    /// The operation's input or result.
    pub const PAYLOAD: u8 = 0x12;
    /// Name of a custom function.
    pub const FUNCTION: u8 = 0x13;
    /// Meaning private to the two ends.
    pub const EXTRA: u8 = 0x14;
    /// Tracing context.
    pub const SPAN: u8 = 0x15;
    /// A JSON object about the request, for logs.
    pub const CONTEXT: u8 = 0x16;
    /// Compliance region.
    pub const REGION: u8 = 0x17;
    /// Zeros that are ignored.
    pub const PADDING: u8 = 0x20;
    /// Extension: microseconds that the response is still of use, `u32`, counted from sending.
    pub const DEADLINE_US: u8 = 0x40;
    /// Extension: one byte; 0 is normal, anything above is dropped first.
    pub const PRIORITY: u8 = 0x41;
    /// Extension: in a BUSY answer, microseconds after which to try again, `u32`.
    pub const RETRY_AFTER_US: u8 = 0x42;
}

/// Why an operation was not done: the one byte of an error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u8);

impl ErrorCode {
    /// The cryptographic operation failed, or the key is of another type.
    pub const CRYPTO: ErrorCode = ErrorCode(1);
    /// No such key, or none that the asking peer may use.
    pub const KEY_NOT_FOUND: ErrorCode = ErrorCode(2);
    /// A read failed.
    pub const READ: ErrorCode = ErrorCode(3);
    /// The frame is of another major version.
    pub const VERSION: ErrorCode = ErrorCode(4);
    /// The opcode is not known or not offered.
    pub const BAD_OPCODE: ErrorCode = ErrorCode(5);
    /// The opcode belongs into a response.
    pub const UNEXPECTED_OPCODE: ErrorCode = ErrorCode(6);
    /// The frame is malformed.
    pub const FORMAT: ErrorCode = ErrorCode(7);
    /// Anything else; also: no key was named.
    pub const INTERNAL: ErrorCode = ErrorCode(8);
    /// No such certificate.
    pub const CERTIFICATE_NOT_FOUND: ErrorCode = ErrorCode(9);
    /// The sealing key has been retired.
    pub const EXPIRED_SEAL: ErrorCode = ErrorCode(10);
    /// Remote configuration failed.
    pub const REMOTE_CONFIGURATION: ErrorCode = ErrorCode(11);
    /// Extension: too much to do; try another server, or this one after the time in the response.
    pub const BUSY: ErrorCode = ErrorCode(0x40);
    /// Extension: the deadline passed before the operation was begun.
    pub const DEADLINE_PASSED: ErrorCode = ErrorCode(0x41);
    /// Extension: no key was made, since the server cannot keep another one.
    pub const NOT_KEPT: ErrorCode = ErrorCode(0x42);
    /// Enrolment: neither the token nor the certificate entitles to another certificate.
    pub const NOT_ENTITLED: ErrorCode = ErrorCode(0x43);

    /// A short stable name, for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::CRYPTO => "crypto",
            ErrorCode::KEY_NOT_FOUND => "key_not_found",
            ErrorCode::READ => "read",
            ErrorCode::VERSION => "version",
            ErrorCode::BAD_OPCODE => "bad_opcode",
            ErrorCode::UNEXPECTED_OPCODE => "unexpected_opcode",
            ErrorCode::FORMAT => "format",
            ErrorCode::INTERNAL => "internal",
            ErrorCode::CERTIFICATE_NOT_FOUND => "certificate_not_found",
            ErrorCode::EXPIRED_SEAL => "expired_seal",
            ErrorCode::REMOTE_CONFIGURATION => "remote_configuration",
            ErrorCode::BUSY => "busy",
            ErrorCode::DEADLINE_PASSED => "deadline_passed",
            ErrorCode::NOT_KEPT => "not_kept",
            ErrorCode::NOT_ENTITLED => "not_entitled",
            ErrorCode(_) => "unknown",
        }
    }
}
