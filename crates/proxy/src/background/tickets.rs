//! Keeps the keys of session tickets and the secrets of QUIC on disk, where the configuration says so: whenever they have changed, and when it names another file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::MissedTickBehavior;
use zeroize::Zeroizing;

use crate::ticket_file;
use crate::worker::Shared;

/// How often it is looked whether keys have changed. Tickets of this time are lost in a crash.
const PERIOD: Duration = Duration::from_secs(5);

/// Looks after the keys until it is dropped.
pub async fn run(shared: Arc<Shared>, keys: Arc<tls::TicketKeys>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut written: Option<(PathBuf, Zeroizing<Vec<u8>>)> = None;
    let mut problem = None;
    loop {
        tick.tick().await;
        let Some(path) = shared.generation.load().config.ticket_keys.clone() else {
            written = None;
            continue;
        };
        let secrets = keys.secrets();
        if written.as_ref().is_some_and(|(file, masters)| *file == path && ***masters == *secrets.masters()) {
            continue;
        }
        let masters = Zeroizing::new(secrets.masters().to_vec());
        let (file, quic) = (path.clone(), shared.quic_secrets.clone());
        let outcome =
            tokio::task::spawn_blocking(move || ticket_file::write(&file, &secrets, &quic, SystemTime::now())).await;
        match outcome.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(()) => (written, problem) = (Some((path, masters)), None),
            Err(text) => {
                if problem.as_ref() != Some(&text) {
                    tracing::warn!("the keys of session tickets are not kept: {text}");
                }
                problem = Some(text);
            }
        }
    }
}
