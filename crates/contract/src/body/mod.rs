//! Bodies: content codings, and multipart as it is split into parts. Knows no schema.

mod coding;
mod multipart;

pub(crate) use coding::{Bounds, Coding, Decoding, Stopped};
pub(crate) use multipart::{Failed, PartHead, Parts, Splitter};
