//! `portunus run`: serves what a configuration file describes.

use std::path::Path;
use std::process::ExitCode;

use config::Config;
use proxy::server::Source;

use crate::edge;
use crate::supervisor::{Options, Origin};

/// Runs the edge that `file` describes until it is told to end.
pub fn run(file: &Path, options: Options) -> ExitCode {
    match read(file) {
        Ok((config, source)) => edge::run(config, source, Origin::of_file(file, options), |_| ()),
        Err(status) => status,
    }
}

/// The configuration in `file`, and how to read it again.
///
/// # Errors
/// The status to end with; what is wrong has been said.
pub fn read(file: &Path) -> Result<(Config, Source), ExitCode> {
    let config = config::load(file).map_err(|problems| {
        complain!("{problems}");
        ExitCode::FAILURE
    })?;
    let file = file.to_owned();
    let source: Source = Box::new(move || {
        config::load(&file).map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
    });
    Ok((config, source))
}
