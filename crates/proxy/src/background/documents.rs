//! Keeps API documents that come from URLs fresh: one task per process, off the data path.
//!
//! A document is fetched at start and then by its period, within bounds of size and time. One that is good under the active configuration takes the
//! place of the file that keeps the last good copy, whole or not at all; the change of that file is what makes a new generation, as with any document.
//! One that is no good leaves everything as it is.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use config::{Config, ContractConfig, DocumentUrl};
use net::Deadline;

use crate::background::schedule::{Fetch, PAUSE, Schedule};
use crate::contracts::ActiveContract;
use crate::own_request::fetch;
use crate::upstream::Group;
use crate::worker::Shared;

/// What a request says beside where it goes and what is configured.
const FIELDS: &str = "User-Agent: portunus\r\nAccept: application/json, application/yaml, */*\r\n";

/// Keeps the documents of whatever generation is active until it is dropped. Needs a runtime that takes local tasks.
pub async fn run(shared: Arc<Shared>) {
    let mut schedule = Schedule::new();
    loop {
        schedule.tick().await;
        start_due(&shared, &mut schedule);
    }
}

fn start_due(shared: &Shared, schedule: &mut Schedule<String, DocumentUrl>) {
    let generation = shared.generation.load();
    schedule.retain(|name| generation.config.contracts.contains_key(name));
    for active in generation.contracts.all() {
        let (Some(group), Some(url)) = (active.fetched_document(), &active.config.document_url) else { continue };
        let is_due = |last: &Fetch<DocumentUrl>| {
            let period = if last.has_failed { url.refresh.min(PAUSE) } else { url.refresh };
            last.source != *url || last.waited() >= period
        };
        if schedule.is_due(&active.config.name, is_due) {
            let (config, whole) = (Arc::clone(&active.config), Arc::clone(&generation.config));
            let refreshed = async move { refresh(&config, &whole, &group).await };
            schedule.start(active.config.name.clone(), url.clone(), refreshed);
        }
    }
}

async fn refresh(config: &Arc<ContractConfig>, whole: &Arc<Config>, group: &Group) -> bool {
    let Some(url) = &config.document_url else { return true };
    let most = config.options.limits.document_bytes;
    let fetched = match Deadline::new().within(url.timeout, ask(url, group, most)).await {
        Ok(fetched) => fetched,
        Err(_) => Err("no whole response in time".to_owned()),
    };
    let outcome = match fetched {
        Ok(bytes) => take(config, whole, bytes).await,
        Err(problem) => Err(problem),
    };
    match outcome {
        Ok(true) => tracing::info!(contract = config.name, file = %config.document.display(), "document fetched"),
        Ok(false) => {}
        Err(problem) => {
            let kept = config.document.exists();
            tracing::warn!(contract = config.name, kept, "document not fetched: {problem}");
            return false;
        }
    }
    true
}

/// Asks for the document; its bytes.
async fn ask(url: &DocumentUrl, group: &Group, most: usize) -> Result<Vec<u8>, String> {
    let mut fields = FIELDS.to_owned();
    for (name, value) in &url.headers {
        let value = value.read()?;
        if value.as_str().bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(format!("the value of {name} holds a control character"));
        }
        // Writing to a String cannot fail.
        let _ = write!(fields, "{name}: {}\r\n", value.as_str());
    }
    fetch(group, &url.host, &url.target, &fields, most).await
}

/// Keeps the document if it is good and new; says whether it was new. Compiling may take seconds, in which nothing else is to wait.
async fn take(config: &Arc<ContractConfig>, whole: &Arc<Config>, bytes: Vec<u8>) -> Result<bool, String> {
    let (config, whole) = (Arc::clone(config), Arc::clone(whole));
    let taken = tokio::task::spawn_blocking(move || {
        if std::fs::read(&config.document).is_ok_and(|have| have == bytes) {
            return Ok(false);
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        ActiveContract::check_document(&config, &whole, text).map_err(|found| {
            let more = found.len().saturating_sub(1);
            let first = found.into_iter().next().unwrap_or_default();
            if more > 0 { format!("{first} (and {more} more problems)") } else { first }
        })?;
        replace(&config.document, &bytes)
            .map(|()| true)
            .map_err(|error| format!("{} cannot be written: {error}", config.document.display()))
    });
    taken.await.unwrap_or_else(|_| Err("it could not be compiled".to_owned()))
}

/// Puts a file in the place of another one, whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}
