//! What upstream groups need besides requests: names resolved again, health checked. One task per process, off the data path.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;

use crate::background::health::Checks;
use crate::upstream::resolve::Names;
use crate::worker::Shared;

/// How often what is due is looked for.
const TICK: Duration = Duration::from_millis(100);

/// Keeps the groups of whatever generation is active until it is dropped. Needs a runtime that takes local tasks.
pub async fn run(shared: Arc<Shared>) {
    let mut names = Names::new();
    let mut checks = Checks::default();
    let (responses, mut answered) = unbounded_channel();
    let (findings, mut found) = unbounded_channel();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let groups = shared.generation.load().all_groups();
                names.refresh(&groups, &responses);
                checks.start_due(&groups, &findings);
            }
            Some(reply) = answered.recv() => names.note(&reply, &shared.reporter),
            Some(finding) = found.recv() => {
                if let Some((group, server, healthy)) = checks.note(&finding) {
                    tracing::warn!(upstream = group.config.name, server = %server.name, healthy, "health changed");
                    group.note_up();
                }
            }
        }
    }
}
