//! Parameters: their text, split and decoded by style, as JSON text that a schema validates.

mod decode;
mod deep;
mod pairs;
mod text;

pub(crate) use decode::{Attempt, Decoder, Escapes, Rejected};
pub(crate) use deep::decode as decode_deep_object;
pub(crate) use pairs::Pairs;
pub(crate) use text::{Reading, push_scalar};
