//! Asks directories which servers there are, for each service that an upstream names: one task for each, off the data path.
//!
//! How a directory is asked is a matter of the modules below, behind one trait. What is the same for all stands here: when somebody is asked, what becomes of
//! the response, and of its absence. Whoever is known stays in use while a directory is away.

mod consul;
mod docker;
mod etcd;
mod http;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use telemetry::Reporter;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use crate::discovery::{Listing, Source};
use crate::upstream::{Found, Group, Name, Records};
use crate::worker::Shared;

/// How often it is looked whether there are other services to ask for.
const TICK: Duration = Duration::from_millis(250);

/// Between two questions about one service, however often it changes.
const PAUSE: Duration = Duration::from_millis(100);

/// After a first failure; each one in a row doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Between two questions while they fail.
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// Of servers that are left out, so many are named in the log.
const MAX_NAMED: usize = 5;

/// A directory, as it is asked for one service.
trait Directory {
    /// Waits until the directory has something to say, hands that to `say`, perhaps again and again, and returns when it is to be called anew.
    ///
    /// # Errors
    /// It cannot be asked, or what it says cannot be believed; in words for the log.
    async fn turn(&mut self, say: &mut dyn FnMut(Listing)) -> Result<(), String>;
}

/// Follows the directories of whatever generation is active until it is dropped.
pub async fn run(shared: Arc<Shared>) {
    let mut following: HashMap<u64, (Arc<Source>, AbortHandle)> = HashMap::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let generation = shared.generation.load();
        if generation.sources.is_empty() && following.is_empty() {
            continue;
        }
        let mut live = HashMap::new();
        for (group, name, source) in generation.listed() {
            let known = following.remove(&name.id);
            let entry = match known {
                Some((before, task)) if Arc::ptr_eq(&before, &source) => (before, task),
                known => {
                    known.iter().for_each(|(_, task)| task.abort());
                    let follower = Follower {
                        group,
                        name: Arc::clone(&name),
                        source: Arc::clone(&source),
                        reporter: Arc::clone(&shared.reporter),
                        left_out: Vec::new(),
                    };
                    (source, tokio::task::spawn_local(follower.follow()).abort_handle())
                }
            };
            live.insert(name.id, entry);
        }
        following.drain().for_each(|(_, (_, task))| task.abort());
        shared.reporter.retain_directories(|source, upstream| {
            generation
                .group(upstream)
                .is_some_and(|group| group.names().iter().any(|name| name.source() == Some(source)))
        });
        following = live;
    }
}

/// Follows one service.
struct Follower {
    group: Arc<Group>,
    name: Arc<Name>,
    source: Arc<Source>,
    reporter: Arc<Reporter>,
    /// Those that were left out last.
    left_out: Vec<String>,
}

impl Follower {
    async fn follow(self) {
        let Records::Listed(listed) = &self.name.records else { return };
        let (source, listed) = (Arc::clone(&self.source), listed.clone());
        match &source.config.by {
            config::Directory::Consul { datacenter } => {
                self.follow_by(consul::Consul::new(&source, &listed, datacenter.as_deref())).await;
            }
            config::Directory::Docker { network } => {
                self.follow_by(docker::Docker::new(&source, &listed, network.as_deref())).await;
            }
            config::Directory::Etcd { prefix } => self.follow_by(etcd::Etcd::new(&source, &listed, prefix)).await,
        }
    }

    async fn follow_by(mut self, mut directory: impl Directory) {
        let (mut failures, mut problem) = (0_u32, None);
        loop {
            let outcome = directory.turn(&mut |listing| self.note(listing)).await;
            let pause = match outcome {
                Ok(()) => {
                    if problem.take().is_some() {
                        tracing::info!(source = self.source.config.name, service = %self.name.name, "directory responds again");
                    }
                    self.note_state(true);
                    failures = 0;
                    PAUSE
                }
                Err(found) => {
                    self.note_failure(&found, &mut problem);
                    failures = failures.saturating_add(1);
                    retry_after(failures - 1)
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Makes the servers that a directory names those of the group.
    fn note(&mut self, mut listing: Listing) {
        let (source, service, upstream) = (&self.source.config.name, &self.name.name, &self.group.config.name);
        let found = self.source.usable(&mut listing);
        if listing.left_out != self.left_out {
            let named: Vec<&str> = listing.left_out.iter().take(MAX_NAMED).map(String::as_str).collect();
            let count = listing.left_out.len();
            if count > 0 {
                tracing::warn!(source, %service, upstream, count, "servers of a directory are left out: {}", named.join("; "));
            }
            self.left_out = listing.left_out;
        }
        let before = self.group.addresses_of(&self.name);
        if self.group.note_resolved(&self.name, Some(&found)) {
            let list = |addresses: &[std::net::SocketAddr]| {
                addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            };
            let addresses: Vec<_> = found.iter().map(|found: &Found| found.address).collect();
            tracing::info!(source, %service, upstream, addresses = list(&addresses), before = list(&before), "servers of a service have changed");
        }
        self.note_state(true);
    }

    fn note_failure(&self, found: &str, problem: &mut Option<String>) {
        if problem.as_deref() != Some(found) {
            let known = self.group.addresses_of(&self.name).len();
            tracing::warn!(source = self.source.config.name, service = %self.name.name, upstream = self.group.config.name, known, "directory is away, the servers that are known stay in use: {found}");
            *problem = Some(found.to_owned());
        }
        self.group.note_resolved(&self.name, None);
        self.reporter.directory_failed(&self.source.config.name, &self.group.config.name);
        self.note_state(false);
    }

    fn note_state(&self, is_up: bool) {
        self.name.set_stale(!is_up);
        self.reporter.directory(&self.source.config.name, &self.group.config.name, is_up);
    }
}

/// How long to wait after so many failures before the last: not all nodes at once.
fn retry_after(failures: u32) -> Duration {
    (FIRST_RETRY * (1 << failures.min(8))).min(LONGEST_RETRY).mul_f64(0.75 + fastrand::f64() / 2.0)
}
