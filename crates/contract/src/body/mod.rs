//! Bodies: media types, content codings, and the readers of each kind of body.

mod coding;
mod form;
pub(crate) mod media_type;
mod multipart;

pub(crate) use coding::{Bounds, Coding, Decoding, Stopped};
pub(crate) use form::{Assembly, split};
pub(crate) use multipart::{Failed, PartHead, Parts, Splitter};
