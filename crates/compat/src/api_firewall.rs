//! `portunus as api-firewall …`: the environment, flags and `apifw.yaml` of Wallarm's API Firewall, translated into a native configuration.
//!
//! `settings.rs` is the table of settings, `arguments.rs` reads them from their three sources, `database.rs` the documents of the API mode, `native.rs`
//! writes the configuration. What runs is what `portunus import api-firewall` prints: the printed file is parsed like any other; only the documents of
//! the API mode, which no file holds, are put in behind it. `docs/api-firewall.md` is the guide for users, with every departure and its reason.

mod arguments;
mod database;
mod native;
mod settings;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::{self, Action, Config, DocumentText};
use proxy::contracts::ActiveContract;

use super::Front;
use crate::go_duration::milliseconds;
use arguments::{Rejected, Settings, usage};
use database::Schema;

/// The name of the file that is made, for messages.
const MADE: &str = "(made from the settings)";

/// Does what the API firewall would do with these arguments (without the program's name) and this process's environment. In the API mode it starts
/// without a database too, and waits for one.
pub fn run(words: &[OsString]) -> Front {
    let settings = match read(words) {
        Ok(settings) => settings,
        Err(ended) => return ended,
    };
    let made = match made(&settings) {
        Err(problems) if settings.is_api_mode() && database::place(&settings).is_ok_and(|place| !place.exists()) => {
            with_schemas(&settings, Vec::new(), problems)
        }
        made => made,
    };
    match made {
        Ok((config, warnings)) => Front::Run { config: Box::new(config), warnings },
        Err(problems) => failure(&problems),
    }
}

/// The same, once it runs: what cannot be read leaves everything as it is.
///
/// # Errors
/// Everything that is wrong.
pub fn reread(words: &[OsString]) -> Result<(Config, Vec<String>), Vec<String>> {
    match read(words) {
        Ok(settings) => made(&settings),
        Err(Front::Exit { errors, .. }) => Err(errors.lines().map(str::to_owned).collect()),
        Err(_) => Err(vec!["the settings cannot be read".to_owned()]),
    }
}

/// The database of the API mode, and how often it is to be looked at; none in the proxy mode.
pub fn watched(words: &[OsString]) -> Option<(PathBuf, Option<Duration>)> {
    let settings = read(words).ok().filter(Settings::is_api_mode)?;
    let period = milliseconds(settings.get("API_MODE_SPECIFICATION_UPDATE_PERIOD")).filter(|period| *period > 0);
    Some((database::place(&settings).ok()?, period.map(Duration::from_millis)))
}

/// Prints the native configuration that does what the API firewall would do.
pub fn import(words: &[OsString]) -> Front {
    let settings = match read(words) {
        Ok(settings) => settings,
        Err(ended) => return ended,
    };
    let translated = match settings.is_api_mode() {
        false => native::write(&settings, None),
        true => import_schemas(&settings),
    };
    let (text, warnings) = match translated {
        Ok(translated) => translated,
        Err(problems) => return failure(&problems),
    };
    if let Err(problems) = config::parse(MADE, &text, Path::new("")) {
        return failure(&lines(&problems));
    }
    let errors = warnings.iter().map(|warning| format!("portunus: {warning}\n")).collect();
    Front::Exit { code: 0, output: text, errors }
}

/// A file names files: where each document must be put is said, since a printed configuration writes none.
fn import_schemas(settings: &Settings) -> Result<(String, Vec<String>), Vec<String>> {
    let place = database::place(settings).map_err(|problem| vec![problem])?;
    let (schemas, mut warnings) = database::read(&place).map_err(|problem| vec![problem])?;
    let (mut text, more) = native::write(settings, Some((&place, &schemas)))?;
    warnings.extend(more);
    for schema in &schemas {
        let own = format!("  {}:\n    document: ", schema.contract());
        let Some((before, after)) =
            text.split_once(&own).and_then(|(before, rest)| Some((before, rest.split_once('\n')?.1)))
        else {
            continue;
        };
        text = format!("{before}{own}{}\n{after}", schema.file_name());
        warnings.push(format!(
            "save the document of schema {} as {}: sqlite3 {} 'SELECT schema_content FROM openapi_schemas WHERE schema_id = {}' > {}",
            schema.id,
            schema.file_name(),
            place.display(),
            schema.id,
            schema.file_name()
        ));
    }
    Ok((text, warnings))
}

/// What runs, and warnings.
fn made(settings: &Settings) -> Result<(Config, Vec<String>), Vec<String>> {
    if !settings.is_api_mode() {
        let (text, warnings) = native::write(settings, None)?;
        return config::parse(MADE, &text, Path::new(""))
            .map(|config| (config, warnings))
            .map_err(|found| lines(&found));
    }
    let place = database::place(settings).map_err(|problem| vec![problem])?;
    let (schemas, left_out) = database::read(&place).map_err(|problem| vec![problem])?;
    with_schemas(settings, schemas, left_out)
}

/// The configuration of the API mode. A document that cannot be used is left out, and named.
fn with_schemas(
    settings: &Settings,
    schemas: Vec<Schema>,
    mut warnings: Vec<String>,
) -> Result<(Config, Vec<String>), Vec<String>> {
    let place = database::place(settings).map_err(|problem| vec![problem])?;
    let (mut config, mut good) = configured(settings, &place, &schemas, &mut warnings)?;
    if good.len() < schemas.len() {
        let before = warnings.clone();
        (config, good) = configured(settings, &place, &good, &mut warnings)?;
        warnings = before;
    }
    if let Err(problem) = database::mark_applied(&place, &good) {
        warnings.push(problem);
    }
    Ok((config, warnings))
}

/// A configuration of these documents, and those of them that can be used.
fn configured(
    settings: &Settings,
    place: &Path,
    schemas: &[Schema],
    warnings: &mut Vec<String>,
) -> Result<(Config, Vec<Schema>), Vec<String>> {
    let (text, more) = native::write(settings, Some((place, schemas)))?;
    let known: BTreeSet<String> = warnings.iter().cloned().collect();
    warnings.extend(more.into_iter().filter(|line| !known.contains(line)));
    let mut config = config::parse(MADE, &text, Path::new("")).map_err(|found| lines(&found))?;
    let mut good = Vec::new();
    for schema in schemas {
        let Some(contract) = config.contracts.get(&schema.contract()) else { continue };
        let mut contract = (**contract).clone();
        let text: Arc<str> = schema.text.as_str().into();
        contract.document_text = Some(DocumentText { name: schema.file_name(), text: Arc::clone(&text) });
        match ActiveContract::check_document(&contract, &config, &text) {
            Ok(()) => good.push(schema.clone()),
            Err(problems) => {
                let (first, others) =
                    problems.split_first().map_or(("", 0), |(first, rest)| (first.as_str(), rest.len()));
                let more = if others > 0 { format!(" (and {others} more)") } else { String::new() };
                warnings.push(format!("schema {} is left out: {first}{more}", schema.id));
            }
        }
        config.contracts.insert(schema.contract(), Arc::new(contract));
    }
    debug_assert!(config.routes.iter().any(|route| matches!(route.action, Action::Validate(_))));
    Ok((config, good))
}

fn read(words: &[OsString]) -> Result<Settings, Front> {
    let environment = |name: &str| std::env::var(name).ok();
    let present: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    match arguments::read(words, environment, &present, Path::new("apifw.yaml")) {
        Ok(settings) => Ok(settings),
        Err(Rejected::Help) => Err(Front::Exit { code: 0, output: usage(), errors: String::new() }),
        Err(Rejected::Version) => {
            let output = format!("portunus {}\n", env!("CARGO_PKG_VERSION"));
            Err(Front::Exit { code: 0, output, errors: String::new() })
        }
        Err(Rejected::Problems(problems)) => Err(failure(&problems)),
    }
}

fn lines(problems: &config::Problems) -> Vec<String> {
    problems.list().iter().map(ToString::to_string).collect()
}

fn failure(problems: &[String]) -> Front {
    let errors = problems.iter().map(|problem| format!("portunus: {problem}\n")).collect();
    Front::Exit { code: 1, output: String::new(), errors }
}
