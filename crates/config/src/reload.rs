//! What became of a reload: the active generation now, and which settings wait for the next start. Activates nothing itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Config, Endpoint, ListenerConfig};
use crate::model::UnixSocket;

/// A reload that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Number of the active generation.
    pub generation: u64,
    /// Settings that differ from those the process was started with and are only read then, one text each.
    pub waiting: Vec<String>,
}

/// What `wanted` changes that a process started with `running` goes on without.
pub fn waits_for_restart(running: &Config, wanted: &Config) -> Vec<String> {
    let mut waiting = Vec::new();
    if running.workers != wanted.workers {
        let (now, then) = (running.workers, wanted.workers);
        waiting.push(format!("workers stays {now} until a restart or `portunus upgrade` (the file says {then})"));
    }
    if running.sandbox.mode > wanted.sandbox.mode {
        waiting.push("sandbox stays as it is until a restart: an upgrade never lowers it".to_owned());
    } else if running.sandbox != wanted.sandbox {
        waiting.push("sandbox stays as it is until a restart or `portunus upgrade`".to_owned());
    }
    let sockets = |config: &Config| -> BTreeMap<Endpoint, UnixSocket> {
        let unix = |endpoint: &&Endpoint| matches!(endpoint, Endpoint::Unix(_));
        let of = |one: &Arc<ListenerConfig>| {
            one.bind.iter().filter(unix).map(|endpoint| (endpoint.clone(), one.unix_socket)).collect::<Vec<_>>()
        };
        config.listeners.iter().flat_map(of).collect()
    };
    let before = sockets(running);
    let changed = |(endpoint, socket): &(Endpoint, UnixSocket)| before.get(endpoint).is_some_and(|one| one != socket);
    for (endpoint, _) in sockets(wanted).into_iter().filter(changed) {
        waiting.push(format!("unix_socket: {endpoint} keeps its mode until a restart, which makes it anew"));
    }
    waiting
}
