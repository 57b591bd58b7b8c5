//! Error codes (RFC 9114 §8.1, RFC 9204 §6).

use std::fmt;

/// Why a stream or a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u64);

macro_rules! codes {
    ($($name:ident $value:literal $text:literal)*) => {
        impl Code {
            $(#[doc = concat!("`", $text, "`")] pub const $name: Code = Code($value);)*

            /// The name of a known code.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Code::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    NO_ERROR 0x100 "H3_NO_ERROR"
    GENERAL_PROTOCOL_ERROR 0x101 "H3_GENERAL_PROTOCOL_ERROR"
    INTERNAL_ERROR 0x102 "H3_INTERNAL_ERROR"
    STREAM_CREATION_ERROR 0x103 "H3_STREAM_CREATION_ERROR"
    CLOSED_CRITICAL_STREAM 0x104 "H3_CLOSED_CRITICAL_STREAM"
    FRAME_UNEXPECTED 0x105 "H3_FRAME_UNEXPECTED"
    FRAME_ERROR 0x106 "H3_FRAME_ERROR"
    EXCESSIVE_LOAD 0x107 "H3_EXCESSIVE_LOAD"
    ID_ERROR 0x108 "H3_ID_ERROR"
    SETTINGS_ERROR 0x109 "H3_SETTINGS_ERROR"
    MISSING_SETTINGS 0x10a "H3_MISSING_SETTINGS"
    REQUEST_REJECTED 0x10b "H3_REQUEST_REJECTED"
    REQUEST_CANCELLED 0x10c "H3_REQUEST_CANCELLED"
    REQUEST_INCOMPLETE 0x10d "H3_REQUEST_INCOMPLETE"
    MESSAGE_ERROR 0x10e "H3_MESSAGE_ERROR"
    CONNECT_ERROR 0x10f "H3_CONNECT_ERROR"
    VERSION_FALLBACK 0x110 "H3_VERSION_FALLBACK"
    QPACK_DECOMPRESSION_FAILED 0x200 "QPACK_DECOMPRESSION_FAILED"
    QPACK_ENCODER_STREAM_ERROR 0x201 "QPACK_ENCODER_STREAM_ERROR"
    QPACK_DECODER_STREAM_ERROR 0x202 "QPACK_DECODER_STREAM_ERROR"
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
