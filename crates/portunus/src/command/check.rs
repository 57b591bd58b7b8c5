//! `portunus check`.
use std::path::Path;
use std::process::ExitCode;
/// Checks a file.
pub fn run(file: &Path) -> ExitCode {
    match crate::config::load(file) { Ok(_) => ExitCode::SUCCESS, Err(problems) => { eprintln!("{problems}"); ExitCode::FAILURE } }
}
