//! Keeps API documents that come from URLs fresh: one task per process, off the data path.
//!
//! A document is fetched at start and then by its period, within bounds of size and time. One that is good under the active configuration takes the
//! place of the file that keeps the last good copy, whole or not at all; the change of that file is what makes a new generation, as with any document.
//! One that is no good leaves everything as it is.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, ContractConfig, DocumentUrl};
use net::Deadline;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::background::get::get;
use crate::contracts::ActiveContract;
use crate::upstream::{Group, Target, connect};
use crate::worker::Shared;

/// How often what is due is looked for.
const TICK: Duration = Duration::from_millis(250);

/// After a fetch that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// What a request says beside where it goes and what is configured.
const FIELDS: &str = "User-Agent: portunus\r\nAccept: application/json, application/yaml, */*\r\n";

/// Keeps the documents of whatever generation is active until it is dropped. Needs a runtime that takes local tasks.
pub async fn run(shared: Arc<Shared>) {
    let mut due: HashMap<String, Due> = HashMap::new();
    let (ends, mut ended) = unbounded_channel();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => start_due(&shared, &mut due, &ends),
            Some((name, well)) = ended.recv() => {
                if let Some(due) = due.get_mut(&name) {
                    *due = Due { last: Instant::now(), running: false, failed: !well, ..due.clone() };
                }
            }
        }
    }
}

/// When the document of one contract was fetched last, and from where.
#[derive(Clone)]
struct Due {
    url: DocumentUrl,
    last: Instant,
    running: bool,
    failed: bool,
}

impl Due {
    fn is_now(&self, url: &DocumentUrl) -> bool {
        let period = if self.failed { url.refresh.min(PAUSE) } else { url.refresh };
        !self.running && (self.url != *url || self.last.elapsed() >= period)
    }
}

fn start_due(shared: &Shared, due: &mut HashMap<String, Due>, ends: &UnboundedSender<(String, bool)>) {
    let generation = shared.generation.load();
    due.retain(|name, due| due.running || generation.config.contracts.contains_key(name));
    for active in generation.contracts.all() {
        let (Some(group), Some(url)) = (active.fetched_document(), &active.config.document_url) else { continue };
        let name = active.config.name.clone();
        if due.get(&name).is_some_and(|due| !due.is_now(url)) {
            continue;
        }
        due.insert(name.clone(), Due { url: url.clone(), last: Instant::now(), running: true, failed: false });
        let (config, whole, ends) = (Arc::clone(&active.config), Arc::clone(&generation.config), ends.clone());
        tokio::task::spawn_local(async move {
            let well = refresh(&config, &whole, &group).await;
            let _ = ends.send((name, well));
        });
    }
}

async fn refresh(config: &Arc<ContractConfig>, whole: &Arc<Config>, group: &Group) -> bool {
    let Some(url) = &config.document_url else { return true };
    let most = config.options.limits.document_bytes;
    let fetched = match Deadline::new().within(url.timeout, fetch(url, group, most)).await {
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
async fn fetch(url: &DocumentUrl, group: &Group, most: usize) -> Result<Vec<u8>, String> {
    let mut fields = FIELDS.to_owned();
    for (name, value) in &url.headers {
        let value = value.read()?;
        if value.as_str().bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(format!("the value of {name} holds a control character"));
        }
        // Writing to a String cannot fail.
        let _ = write!(fields, "{name}: {}\r\n", value.as_str());
    }
    group.resolved(group.config.connect_timeout).await;
    let Some(server) = group.choose(&[]) else { return Err("no server".to_owned()) };
    let _busy = server.busy();
    let transport = connect(Target::own(group, &server)).await.map_err(|error| error.reason().code().to_owned())?;
    let got = get(&transport, &url.host, &url.target, &fields).await?;
    match got.status() {
        200 => got.body(most).await,
        status => Err(format!("the response was {status}")),
    }
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
