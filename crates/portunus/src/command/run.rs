//! `portunus run`: serves what a configuration file describes.

use std::path::Path;
use std::process::ExitCode;

use config::{Config, Problems};
use proxy::server::Source;

use crate::edge;
use crate::supervisor::{self, Control, Options, Origin};

/// Runs the edge that `file` describes, or the fleet that it names, until it is told to end.
pub fn run(file: &Path, options: Options) -> ExitCode {
    if config::is_fleet_file(file) {
        return edge::fleet::run(file, options);
    }
    match read(file) {
        Ok((config, source)) => edge::run(config, source, Origin::of_file(file, options, Control::Usual), |_, _| ()),
        Err(problems) => supervisor::reject(&problems),
    }
}

/// The configuration in `file`, and how to read it again.
///
/// # Errors
/// Everything that is wrong.
pub fn read(file: &Path) -> Result<(Config, Source), Problems> {
    let config = config::load(file)?;
    let file = file.to_owned();
    let source: Source = Box::new(move || {
        config::load(&file).map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
    });
    Ok((config, source))
}
