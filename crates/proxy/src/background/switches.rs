//! Looks for the files of maintenance switches, once a second: a request must not ask the disk, a reload may be rejected for another reason, and folders
//! on a network send no news. A disk that does not answer delays the next look and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::worker::Shared;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// Looks after the switches of whatever generation is active until it is dropped.
pub async fn run(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let switches = shared.generation.load().policies.switches();
        if switches.is_empty() {
            continue;
        }
        let looked = tokio::task::spawn_blocking(move || {
            for switch in switches {
                if let Some(is_closed) = switch.look() {
                    let state = if is_closed { "begins" } else { "ends" };
                    tracing::warn!(file = %switch.file().display(), "maintenance {state}");
                }
            }
        });
        // It cannot fail but by a panic, which is reported where it happens.
        let _ = looked.await;
    }
}
