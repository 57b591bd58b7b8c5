//! `portunus check FILE`: every problem in a configuration and in what it names, without serving anything, and what is probably not meant.
//!
//! Loads the file and builds a generation of it, as a start or a reload would, and drops both.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use acme::preflight::{self, Finding, Verdict};
use config::{self, Config, InvalidFile};
use fleet::agent::node_name;
use fleet::seal::Seal;
use proxy::generation::Generation;

use super::progress;
use crate::admin::place;
use crate::edge::sandbox::Needs;
use crate::supervisor::{Beside, CONTROL, Control};

/// Checks `file`: 0 and a summary if it can be used, else 1 and every problem on stderr, with its source line for people at a terminal. `strict`: 1 also
/// if there is a warning. `sandbox`: also what the server would keep of its rights. `online`: 1 also if a name that a certificate is ordered for cannot be
/// proved, as far as can be seen from here.
pub fn run(file: &Path, strict: bool, sandbox: bool, online: bool) -> ExitCode {
    if config::is_fleet_file(file) {
        return check_node(file);
    }
    let Some((config, warnings)) = examine(file) else { return ExitCode::FAILURE };
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    println!("{}", summary(file, &config));
    let beside = Beside { read: vec![file.to_owned()], ..Beside::default() };
    // As far as is known here: nothing is made, and `run --control` may name another place.
    let named = std::env::var_os(CONTROL).filter(|path| !path.is_empty()).map(PathBuf::from);
    let needs = Needs::of(&config, &beside, &Control::of_option(named, Control::At(place::to_ask())));
    let shut_out = needs.problems(config.sandbox.mode);
    shut_out.iter().for_each(|problem| eprintln!("error: {problem}"));
    if sandbox {
        print!("{}", needs.explain(config.sandbox.mode));
    }
    let worst = if online { look(&config) } else { Verdict::Good };
    let is_uncertain = !warnings.is_empty() || worst == Verdict::Uncertain;
    if worst == Verdict::Bad || !shut_out.is_empty() || (strict && is_uncertain) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Loads `file` and builds a generation of it: what it says, and what is probably not meant. None, and every problem on stderr, if it cannot be used.
pub fn examine(file: &Path) -> Option<(Arc<Config>, Vec<String>)> {
    let config = match config::check_file(file) {
        Ok(config) => Arc::new(config),
        Err(invalid) => {
            report(&invalid);
            return None;
        }
    };
    match Generation::build(Arc::clone(&config), None) {
        Ok(generation) => {
            let stores = generation.stores.iter().flat_map(|(name, store)| {
                store.warnings.iter().map(move |warning| format!("keystore {name}: {warning}"))
            });
            let warnings = stores.chain(generation.warnings()).collect();
            Some((config, warnings))
        }
        Err(error) => {
            error.problems.iter().for_each(|problem| eprintln!("{problem}"));
            None
        }
    }
}

/// The file of a node of a fleet: itself, and the key that it names. What it serves was checked when it was pushed.
fn check_node(file: &Path) -> ExitCode {
    let problems = match config::load_fleet(file) {
        Ok(fleet) => Seal::read(&fleet.seal_key).map(drop).and(node_name(&fleet)).map_err(|problem| problem + "\n"),
        Err(problems) => Err(problems.to_string()),
    };
    match problems {
        Ok(node) => {
            println!("{}: ok (node {node} of a fleet)", file.display());
            ExitCode::SUCCESS
        }
        Err(problems) => {
            eprint!("{problems}");
            ExitCode::FAILURE
        }
    }
}

/// Says of each name that a certificate is ordered for whether it can be proved; gives the worst.
fn look(config: &Config) -> Verdict {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("nobody can be asked: {error}");
            return Verdict::Bad;
        }
    };
    let findings = runtime.block_on(preflight::run(config, |name| progress(&format!("looking at {name} ..."))));
    for Finding { keystore, name, text, verdict } in &findings {
        match verdict {
            Verdict::Good => println!("keystore {keystore}: {name}: ok, {text}"),
            Verdict::Uncertain => eprintln!("warning: keystore {keystore}: {name}: {text}"),
            Verdict::Bad => eprintln!("keystore {keystore}: {name}: {text}"),
        }
    }
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good)
}

fn report(invalid: &InvalidFile<Config>) {
    if std::io::stderr().is_terminal() {
        eprint!("{}", invalid.problems.render(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())));
    } else {
        eprint!("{}", invalid.problems);
    }
    // What is right in the file may still not be in what it names, and routes may be in each other's way.
    let beside = invalid.rest.as_deref().map(Generation::check);
    beside.into_iter().flatten().for_each(|problem| eprintln!("{problem}"));
}

fn summary(file: &Path, config: &Config) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let further = [
        (config.udp_listeners.len(), "UDP listener"),
        (config.contracts.len(), "contract"),
        (config.key_servers.len(), "key server group"),
    ];
    let further = further.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| count(number, what));
    let counts = [
        count(config.listeners.len(), "listener"),
        count(config.keystores.len(), "keystore"),
        count(config.upstreams.len(), "upstream"),
        count(config.routes.iter().filter(|route| !route.is_further_path).count(), "route"),
    ];
    let counts: Vec<String> = counts.into_iter().chain(further).collect();
    format!("{}: ok ({})", file.display(), counts.join(", "))
}
