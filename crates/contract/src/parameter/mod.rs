//! Parameters: their text, split and decoded by style, as JSON text that a schema judges.

mod decode;
mod deep;
mod pairs;
mod text;

pub(crate) use decode::{Attempt, Decoder, Escapes, Rejected};
pub(crate) use deep::{brackets_of, decode as decode_deep_object};
pub(crate) use pairs::Pairs;
pub(crate) use text::{cookie_pairs, is_number, push_string, unescape};
