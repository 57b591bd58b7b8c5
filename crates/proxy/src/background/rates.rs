//! Has rates forget the keys that have their whole burst again: their times wrap, and would look like ones ahead after hours or days.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::worker::Shared;

/// Time between two rounds: much less than what the times of a table wrap after.
const PERIOD: Duration = Duration::from_secs(600);

/// Looks after the policies of whatever generation is active until it is dropped.
pub async fn run(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let generation = shared.generation.load_full();
        // Tables may be large. It cannot fail but by a panic, which is reported where it happens.
        let _ = tokio::task::spawn_blocking(move || generation.policies.forget_old()).await;
    }
}
