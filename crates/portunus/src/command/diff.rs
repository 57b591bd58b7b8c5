//! `portunus diff`: what differs between two configurations, or between the one that a server runs and a file; what waits for a restart; and which requests of an
//! access log the two would treat differently. Decides nothing: configurations are compared by `config::changes`, requests are taken through the code that
//! serves (`proxy::explain`).

mod outcome;
mod replay;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use config::{Change, ChangeKind, Changes, Comparable, Config, waits_for_restart};
use proxy::explain::Explainer;
use serde_json::{Map, Value, json};

use super::control;
use super::explain::shown;
use super::server::{Reach, Server};
use replay::Replayed;

/// `portunus diff`.
#[derive(Debug, Args)]
#[command(override_usage = "portunus diff [OPTIONS] <OLD> <NEW>\n       portunus diff [OPTIONS] --running <FILE>")]
pub struct DiffCommand {
    /// The old and the new configuration file; with --running the new one alone
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Compare with the configuration that a server runs
    #[arg(long)]
    running: bool,
    /// Where to ask that server, if not at its usual socket
    #[command(flatten)]
    reach: Reach,
    /// Access log (JSON) whose requests are tried under both; those that are treated differently are listed
    #[arg(long, value_name = "LOG")]
    replay: Option<PathBuf>,
    /// Requests of the log that are tried at most
    #[arg(long, value_name = "NUMBER", requires = "replay", default_value_t = 1_000_000)]
    requests: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Exit status where something differs, as diff has it.
const DIFFERENT: u8 = 1;
/// Exit status where nobody can say.
const PROBLEM: u8 = 2;

/// What was found.
struct Found {
    changes: Changes,
    /// Settings that wait for a restart, one text each.
    restart: Vec<String>,
    replayed: Option<Replayed>,
}

impl Found {
    fn is_empty(&self) -> bool {
        let is_alike = self.replayed.as_ref().is_none_or(|replayed| replayed.different == 0);
        self.changes.list.is_empty() && self.restart.is_empty() && is_alike
    }
}

/// Compares: 0 if nothing differs, 1 if something does, 2 if nobody can say.
pub fn run(command: &DiffCommand) -> ExitCode {
    let found = match compare(command) {
        Ok(found) => found,
        Err(problems) => {
            problems.iter().for_each(|problem| complain!("{problem}"));
            return ExitCode::from(PROBLEM);
        }
    };
    if command.json {
        say!("{:#}", in_json(&found));
    } else {
        print(&found);
    }
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) }
}

/// A configuration, as it is compared.
struct Side {
    config: Config,
    comparable: Comparable,
}

impl Side {
    fn of_file(file: &Path) -> Result<Side, Vec<String>> {
        config::load_comparable(file).map(Side::from).map_err(|problems| texts(&problems))
    }

    /// What a running server says of itself. Relative paths in it start where those of the file start.
    fn of_server(text: &str, file: &Path) -> Result<Side, Vec<String>> {
        if text.trim() == "{}" {
            return Err(vec![
                "error: the running server has no configuration file, so there is nothing to compare".to_owned(),
            ]);
        }
        let base = file.parent().unwrap_or(Path::new(""));
        config::parse_running(text, base).map(Side::from).map_err(|problems| texts(&problems))
    }
}

impl From<(Config, Comparable)> for Side {
    fn from((config, comparable): (Config, Comparable)) -> Side {
        Side { config, comparable }
    }
}

fn texts(problems: &config::Problems) -> Vec<String> {
    problems.list().iter().map(ToString::to_string).collect()
}

fn compare(command: &DiffCommand) -> Result<Found, Vec<String>> {
    let one = |problem: String| vec![format!("error: {problem}")];
    let (old, new, started) = match (&command.files[..], command.running) {
        (_, false) if command.reach.admin.is_some() => return Err(one("--admin needs --running".to_owned())),
        ([old, new], false) => (Side::of_file(old)?, Side::of_file(new)?, None),
        ([file], true) => {
            let new = Side::of_file(file)?;
            let server = Server::of(None, &command.reach).map_err(one)?;
            let page = |path: &str| control::page(&server, path).map_err(one);
            let running =
                page("/config")?.ok_or_else(|| one("the server says nothing of its configuration".to_owned()))?;
            let started = page("/started")?.map(|text| Side::of_server(&text, file)).transpose()?;
            (Side::of_server(&running, file)?, new, started)
        }
        (_, false) => return Err(one("name two files, or one with --running".to_owned())),
        (_, true) => {
            return Err(one("with --running name one file: the running configuration is the old one".to_owned()));
        }
    };
    let changes = config::changes(&old.comparable, &new.comparable);
    let restart = waits_for_restart(&started.as_ref().unwrap_or(&old).config, &new.config);
    let replayed = match &command.replay {
        None => None,
        Some(log) => {
            let (old, new) = (Explainer::new(old.config)?, Explainer::new(new.config)?);
            Some(replay::replay(log, command.requests, &old, &new).map_err(one)?)
        }
    };
    Ok(Found { changes, restart, replayed })
}

/// Says what differs between two files.
///
/// # Errors
/// One of them cannot be read, or is none.
pub fn print_files(old: &Path, new: &Path) -> Result<(), Vec<String>> {
    let (old, new) = (Side::of_file(old)?, Side::of_file(new)?);
    let changes = config::changes(&old.comparable, &new.comparable);
    print(&Found { changes, restart: waits_for_restart(&old.config, &new.config), replayed: None });
    Ok(())
}

fn print(found: &Found) {
    for Change { path, kind, old, new } in &found.changes.list {
        let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
        let line = match kind {
            ChangeKind::Added => format!("+ {path}: {new}"),
            ChangeKind::Removed => format!("- {path}: {old}"),
            ChangeKind::Changed => format!("~ {path}: {old} -> {new}"),
            ChangeKind::Reordered => format!("~ {path}: order {old} -> {new}"),
        };
        say!("{}", shown(line.as_bytes()));
    }
    if found.changes.unknown > 0 {
        say!("not compared: {} values that the running server does not show", found.changes.unknown);
    }
    found.restart.iter().for_each(|setting| say!("restart: {setting}"));
    found.replayed.iter().for_each(Replayed::print);
}

fn in_json(found: &Found) -> Value {
    let change = |change: &Change| {
        let kind = match change.kind {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Changed => "changed",
            ChangeKind::Reordered => "reordered",
        };
        let mut members = Map::new();
        members.insert("path".to_owned(), change.path.as_str().into());
        members.insert("kind".to_owned(), kind.into());
        for (name, value) in [("old", &change.old), ("new", &change.new)] {
            value.iter().for_each(|value| _ = members.insert(name.to_owned(), value.as_str().into()));
        }
        Value::Object(members)
    };
    let mut document = json!({
        "version": 1,
        "changes": found.changes.list.iter().map(change).collect::<Value>(),
        "not_compared": found.changes.unknown,
        "restart": found.restart,
    });
    if let (Some(replayed), Value::Object(members)) = (&found.replayed, &mut document) {
        members.insert("replay".to_owned(), replayed.in_json());
    }
    document
}
