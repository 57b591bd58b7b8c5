//! Bodies: content codings, multipart as it is split into parts, and what is no JSON text on its way to one. Knows no schema.

mod coding;
mod multipart;
mod sequence;
pub(crate) mod xml;
pub(crate) mod yaml;

pub(crate) use coding::{Bounds, Coding, Decoding, Stopped};
pub(crate) use multipart::{Failed, PartHead, Parts, Splitter};
pub(crate) use sequence::{Separator, Sequence};
