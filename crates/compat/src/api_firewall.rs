//! `portunus as api-firewall …`: the environment, flags and `apifw.yaml` of Wallarm's API Firewall, translated into a native configuration.
//!
//! `settings.rs` is the table of settings, `arguments.rs` reads them from their three sources, `native.rs` writes the configuration. What runs is what
//! `portunus import api-firewall` prints: the printed file is parsed like any other. `docs/api-firewall.md` is the guide for users, with every
//! departure and its reason.

mod arguments;
mod native;
mod settings;

use std::ffi::OsString;
use std::path::Path;

use config;

use super::Front;
use arguments::{Rejected, usage};

/// The name of the file that is made, for messages.
const MADE: &str = "(made from the settings)";

/// Does what the API firewall would do with these arguments (without the program's name) and this process's environment.
pub fn run(words: &[OsString]) -> Front {
    let (text, warnings) = match translate(words) {
        Ok(translated) => translated,
        Err(ended) => return ended,
    };
    match config::parse(MADE, &text, Path::new("")) {
        Ok(config) => Front::Run { config: Box::new(config), warnings },
        Err(problems) => failure(&problems.list().iter().map(ToString::to_string).collect::<Vec<_>>()),
    }
}

/// Prints the native configuration that does what the API firewall would do.
pub fn import(words: &[OsString]) -> Front {
    let (text, warnings) = match translate(words) {
        Ok(translated) => translated,
        Err(ended) => return ended,
    };
    if let Err(problems) = config::parse(MADE, &text, Path::new("")) {
        return failure(&problems.list().iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    let errors = warnings.iter().map(|warning| format!("portunus: {warning}\n")).collect();
    Front::Exit { code: 0, output: text, errors }
}

fn translate(words: &[OsString]) -> Result<(String, Vec<String>), Front> {
    let environment = |name: &str| std::env::var(name).ok();
    let present: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    let settings = match arguments::read(words, environment, &present, Path::new("apifw.yaml")) {
        Ok(settings) => settings,
        Err(Rejected::Help) => return Err(Front::Exit { code: 0, output: usage(), errors: String::new() }),
        Err(Rejected::Version) => {
            let output = format!("portunus {}\n", env!("CARGO_PKG_VERSION"));
            return Err(Front::Exit { code: 0, output, errors: String::new() });
        }
        Err(Rejected::Problems(problems)) => return Err(failure(&problems)),
    };
    native::write(&settings).map_err(|problems| failure(&problems))
}

fn failure(problems: &[String]) -> Front {
    let errors = problems.iter().map(|problem| format!("portunus: {problem}\n")).collect();
    Front::Exit { code: 1, output: String::new(), errors }
}
