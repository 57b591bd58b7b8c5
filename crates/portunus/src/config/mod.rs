//! Configuration: one YAML file to one immutable [`Config`], every mistake reported at once with file, line, what and fix.

mod model;

pub use model::*;
