//! `portunus as PROGRAM` and `portunus import PROGRAM`: what a front door made of its arguments is run or printed.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;

use compat::gokeyless::{self, Translated};
use compat::{Front, api_firewall};
use proxy::server::Source;

use crate::supervisor::{Beside, Origin};
use crate::{edge, key_server};

/// Runs what a front door makes of `arguments`; a reload asks it again, since it reads files.
pub fn run(arguments: Vec<OsString>, front_door: fn(&[OsString]) -> Front) -> ExitCode {
    run_announced(arguments, front_door, |_| Vec::new())
}

/// As [`run`]; prints what `announce` makes of the arguments once it serves.
pub fn run_announced(
    arguments: Vec<OsString>,
    front_door: fn(&[OsString]) -> Front,
    announce: fn(&[OsString]) -> Vec<String>,
) -> ExitCode {
    match front_door(&arguments) {
        Front::Run { config, warnings } => {
            warnings.iter().for_each(|warning| complain!("warning: {warning}"));
            let announcements = announce(&arguments);
            let origin = Origin { beside: Beside::of_arguments(&arguments), ..unsaid() };
            let source: Source = Box::new(move || match front_door(&arguments) {
                Front::Run { config, .. } => Ok(*config),
                Front::Rejected { problems, .. } => Err(problems),
                Front::Exit { errors, .. } => Err(errors.lines().map(str::to_owned).collect()),
            });
            edge::run(*config, source, origin, |_, _| announcements.iter().for_each(|line| say!("{line}")))
        }
        ended @ (Front::Rejected { .. } | Front::Exit { .. }) => finish(ended),
    }
}

/// Of a server whose settings cannot say how far it shuts itself in.
fn unsaid() -> Origin {
    Origin { is_front_door: true, ..Origin::default() }
}

/// Runs API Firewall's settings. In its API mode the documents are in a database, which is looked at again now and then; what is wrong with one of them is
/// reported once.
pub fn run_api_firewall(arguments: Vec<OsString>) -> ExitCode {
    let Some((database, period)) = api_firewall::watched(&arguments) else {
        return run(arguments, api_firewall::run);
    };
    let (config, warnings) = match api_firewall::run(&arguments) {
        Front::Run { config, warnings } => (config, warnings),
        ended @ (Front::Rejected { .. } | Front::Exit { .. }) => return finish(ended),
    };
    warnings.iter().for_each(|warning| complain!("warning: {warning}"));
    let reported = Mutex::new(warnings);
    // It notes in the database which documents it has taken.
    let beside = Beside { write: vec![database.clone()], ..Beside::of_arguments(&arguments) };
    let source: Source = Box::new(move || {
        let (config, warnings) = api_firewall::reread(&arguments)?;
        let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.iter().filter(|line| !reported.contains(line)).for_each(|line| tracing::warn!("{line}"));
        *reported = warnings;
        Ok(config)
    });
    let origin = Origin { watched: Some(database), remade: period, beside, ..unsaid() };
    edge::run(*config, source, origin, |_, _| ())
}

/// Prints how a front door ended.
pub fn finish(front: Front) -> ExitCode {
    match front {
        Front::Run { .. } => ExitCode::SUCCESS,
        Front::Rejected { problems, line } => {
            problems.iter().for_each(|problem| say!("{}", line(problem)));
            ExitCode::FAILURE
        }
        Front::Exit { code, output, errors } => {
            let _ = write!(io::stdout(), "{output}");
            let _ = write!(io::stderr(), "{errors}");
            ExitCode::from(code)
        }
    }
}

/// Runs the key server that the arguments mean; a reload reads the files again.
pub fn run_gokeyless(arguments: Vec<OsString>) -> ExitCode {
    match gokeyless::translate(&arguments) {
        Translated::Config { warnings, .. } => warnings.iter().for_each(|warning| complain!("warning: {warning}")),
        ended => return import_gokeyless(ended),
    }
    match gokeyless::load(&arguments) {
        Ok(config) => key_server::run(config, Box::new(move || gokeyless::load(&arguments)), unsaid()),
        Err(problems) => {
            problems.iter().for_each(|problem| complain!("error: {problem}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the native configuration, or why there is none.
pub fn import_gokeyless(translated: Translated) -> ExitCode {
    match translated {
        Translated::Config { yaml, warnings, .. } => {
            warnings.iter().for_each(|warning| complain!("warning: {warning}"));
            let _ = write!(io::stdout(), "{yaml}");
            ExitCode::SUCCESS
        }
        Translated::Help(text) => {
            let _ = write!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Translated::Rejected(problems) => {
            problems.iter().for_each(|problem| complain!("error: {problem}"));
            ExitCode::from(2)
        }
    }
}
