//! JSON text to events, as bytes arrive. Builds no values and knows no schema. Ruled by RFC 8259; stricter than it where it leaves a choice:
//! UTF-8 only, no byte order mark, no lone surrogates.

mod scan;
mod simd;
mod text;
mod token;
mod write;

pub(crate) use scan::skip_space;
pub use scan::{Scanner, Sink, Stand, Taken};
#[doc(hidden)]
pub use simd::{plain_end, plain_end_scalar, quoted_end, quoted_end_scalar};
pub use text::{Number, Text};
pub(crate) use text::{digit_count, small_integer};
pub(crate) use write::{is_number, push_string};
