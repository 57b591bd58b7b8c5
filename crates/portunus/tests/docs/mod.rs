//! The documentation against the program: every configuration in it is parsed, every command runs or says why not, every link leads somewhere, and
//! what is generated is what the program says.
//!
//! A block says by its info string what it is (CONTRIBUTING.md, "Documentation"). `UPDATE=1` writes the generated parts anew. Whether a page reads
//! well is for people to check.

mod commands;
mod configurations;
mod crates;
mod generated;
mod layouts;
mod lexicon;
mod links;
mod markdown;
mod named_tests;
