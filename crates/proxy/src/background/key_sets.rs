//! Keeps key sets that come from URLs fresh: one task per process, off the data path.
//!
//! A set is fetched when it is first needed, then by its period, and soon after a token came that no key in it has signed. A response is read
//! within bounds and deadlines, and one that is no good leaves the last good set active.

use std::sync::Arc;
use std::time::Duration;

use config::KeySource;
use net::Deadline;

use crate::auth::keys::{KeyRing, MAX_KEYS_BYTES};
use crate::background::schedule::{Fetch, PAUSE, Schedule};
use crate::own_request::fetch;
use crate::upstream::Group;
use crate::worker::Shared;

/// One fetch, from name to last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// What a request says beside where it goes.
const FIELDS: &str = "User-Agent: portunus\r\nAccept: application/json\r\n";

/// Keeps the rings of whatever generation is active until it is dropped. Needs a runtime that takes local tasks.
pub async fn run(shared: Arc<Shared>) {
    let mut schedule = Schedule::new();
    loop {
        schedule.tick().await;
        start_due(&shared, &mut schedule);
    }
}

fn start_due(shared: &Shared, schedule: &mut Schedule<usize, ()>) {
    let rings = shared.generation.load().fetched_keys();
    schedule.retain(|known| rings.iter().any(|(ring, _)| address(ring) == *known));
    for (ring, group) in rings {
        let is_due = |last: &Fetch<()>| {
            let period = if last.has_failed { PAUSE } else { ring.period().unwrap_or(Duration::MAX) };
            // Where an unknown key asks for it, not before the pause either: strangers cannot make us ask more often.
            last.waited() >= period || (last.waited() >= PAUSE && ring.take_wanted())
        };
        if schedule.is_due(&address(&ring), is_due) {
            schedule.start(address(&ring), (), async move { refresh(&ring, &group).await });
        }
    }
}

/// Distinguishes rings for as long as they live.
fn address(ring: &Arc<KeyRing>) -> usize {
    Arc::as_ptr(ring).addr()
}

async fn refresh(ring: &KeyRing, group: &Group) -> bool {
    let fetched = Deadline::new().within(FETCH_TIMEOUT, ask(ring, group)).await;
    let outcome = match fetched {
        Ok(Ok(set)) => ring.replace(&set),
        Ok(Err(problem)) => Err(problem),
        Err(_) => Err("no whole response in ten seconds".to_owned()),
    };
    match outcome {
        Ok(count) => {
            tracing::info!(upstream = group.config.name, keys = count, "key set fetched");
            true
        }
        Err(problem) => {
            let kept = ring.keys().is_some();
            tracing::warn!(upstream = group.config.name, kept, "key set not fetched: {problem}");
            false
        }
    }
}

/// Asks for the set; its bytes.
async fn ask(ring: &KeyRing, group: &Group) -> Result<Vec<u8>, String> {
    let KeySource::Url { host, target, .. } = &ring.source else { return Err("no URL".to_owned()) };
    fetch(group, host, target, FIELDS, MAX_KEYS_BYTES).await
}
