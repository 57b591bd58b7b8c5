//! `portunus as PROGRAM` and `portunus import PROGRAM`: what a front door made of its arguments is run or printed.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::compat::Front;

use super::run::serve;

/// Runs what a front door makes of `arguments`; a reload asks it again, since it reads files.
pub fn run(arguments: Vec<OsString>, front_door: fn(&[OsString]) -> Front) -> ExitCode {
    match front_door(&arguments) {
        Front::Run { config, warnings } => {
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            let source = Box::new(move || match front_door(&arguments) {
                Front::Run { config, .. } => Ok(*config),
                Front::Exit { errors, .. } => Err(errors.lines().map(str::to_owned).collect()),
            });
            serve(*config, source)
        }
        ended @ Front::Exit { .. } => finish(ended),
    }
}

/// Prints how a front door ended.
pub fn finish(front: Front) -> ExitCode {
    let Front::Exit { code, output, errors } = front else { return ExitCode::SUCCESS };
    print!("{output}");
    eprint!("{errors}");
    ExitCode::from(code)
}
