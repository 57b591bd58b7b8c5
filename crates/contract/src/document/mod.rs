//! Documents as values that remember where each part stands. Loading and references come here; schemas are compiled elsewhere.

mod node;

pub use node::{Key, Kind, Node, Place, escape_pointer_token};
