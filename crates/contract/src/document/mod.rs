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

use std::path::Path;

use crate::problem::Problem;

/// Reads a text as documents are read: JSON where its name ends in `.json`, else YAML. `max_values` bounds it once its aliases are expanded.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &Path, text: &str, max_values: usize) -> Result<Node, Vec<Problem>> {
    let problem = |fault: Fault| Problem {
        file: name.to_owned(),
        line: fault.place.line,
        column: fault.place.column,
        what: fault.message,
    };
    match set::parse(name, text, 0, max_values) {
        Ok((node, faults, _)) if faults.is_empty() => Ok(node),
        Ok((_, faults, _)) => Err(faults.into_iter().map(problem).collect()),
        Err(fault) => Err(vec![problem(fault)]),
    }
}
