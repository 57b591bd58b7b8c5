//! What is wrong with a document, or worth knowing about it, and where.

use std::fmt::{self, Display};
use std::path::PathBuf;

/// Something wrong with a document, or worth knowing about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1; 0 if the file as a whole is meant.
    pub line: u32,
    /// Column in characters, from 1; 0 if the file as a whole is meant.
    pub column: u32,
    /// What is wrong and what would be right. One line.
    pub what: String,
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.what),
            line => write!(f, "{}:{line}:{}: {}", self.file.display(), self.column, self.what),
        }
    }
}
