//! Documents as values that remember where each part stands. Loading and references come here; schemas are compiled elsewhere.

mod inheritance;
mod json;
mod set;
mod swagger;
mod tree;
mod uri;
mod yaml;

pub use crate::node::{Key, Kind, Node, Place, escape_pointer_token};
pub(crate) use set::{Documents, References};
pub(crate) use tree::Fault;
