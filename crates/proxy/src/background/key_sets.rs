//! Keeps key sets that come from URLs fresh: one task per process, off the data path.
//!
//! A set is fetched when it is first needed, then by its period, and soon after a token has named a key that is not in it. A response is read
//! within bounds and deadlines, and one that is no good leaves the last good set active.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::KeySource;
use net::Deadline;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::auth::keys::{KeyRing, MAX_KEYS_BYTES};
use crate::background::get::get;
use crate::upstream::{Group, Target, connect};
use crate::worker::Shared;

/// How often what is due is looked for.
const TICK: Duration = Duration::from_millis(250);

/// One fetch, from name to last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// After a fetch that failed, or before one that an unknown key asked for: strangers cannot make us ask more often.
const PAUSE: Duration = Duration::from_secs(5);

/// What a request says beside where it goes.
const FIELDS: &str = "User-Agent: portunus\r\nAccept: application/json\r\n";

/// Keeps the rings of whatever generation is active until it is dropped. Needs a runtime that takes local tasks.
pub async fn run(shared: Arc<Shared>) {
    let mut due: HashMap<usize, Due> = HashMap::new();
    let (ends, mut ended) = unbounded_channel();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => start_due(&shared, &mut due, &ends),
            Some((ring, well)) = ended.recv() => {
                let pause = if well { None } else { Some(PAUSE) };
                due.insert(ring, Due { last: Instant::now(), running: false, pause });
            }
        }
    }
}

/// When one ring was fetched last.
struct Due {
    last: Instant,
    running: bool,
    /// The last fetch failed: try again after this.
    pause: Option<Duration>,
}

impl Due {
    fn is_now(&self, ring: &KeyRing) -> bool {
        let period = self.pause.or(ring.period()).unwrap_or(Duration::MAX);
        let waited = self.last.elapsed();
        !self.running && (waited >= period || (waited >= PAUSE && ring.take_wanted()))
    }
}

fn start_due(shared: &Shared, due: &mut HashMap<usize, Due>, ends: &UnboundedSender<(usize, bool)>) {
    let rings = shared.generation.load().fetched_keys();
    due.retain(|known, due| due.running || rings.iter().any(|(ring, _)| address(ring) == *known));
    for (ring, group) in rings {
        let known = address(&ring);
        if due.get(&known).is_some_and(|due| !due.is_now(&ring)) {
            continue;
        }
        due.insert(known, Due { last: Instant::now(), running: true, pause: None });
        let ends = ends.clone();
        tokio::task::spawn_local(async move {
            let well = refresh(&ring, &group).await;
            let _ = ends.send((known, well));
        });
    }
}

/// Distinguishes rings for as long as they live.
fn address(ring: &Arc<KeyRing>) -> usize {
    Arc::as_ptr(ring).addr()
}

async fn refresh(ring: &KeyRing, group: &Group) -> bool {
    let fetched = Deadline::new().within(FETCH_TIMEOUT, fetch(ring, group)).await;
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
async fn fetch(ring: &KeyRing, group: &Group) -> Result<Vec<u8>, String> {
    let KeySource::Url { host, target, .. } = &ring.source else { return Err("no URL".to_owned()) };
    group.resolved(group.config.connect_timeout).await;
    let Some(server) = group.choose(&[]) else { return Err("no server".to_owned()) };
    let _busy = server.busy();
    let transport = connect(Target::own(group, &server)).await.map_err(|error| error.reason().code().to_owned())?;
    let got = get(&transport, host, target, FIELDS).await?;
    match got.status() {
        200 => got.body(MAX_KEYS_BYTES).await,
        status => Err(format!("the response was {status}")),
    }
}
