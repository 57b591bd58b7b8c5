//! TXT records that prove names (RFC 8555 §8.4): set, waited for at the name servers that have to know them, and removed.

mod acme_dns;
mod program;
mod propagation;
mod standing;
mod update;

pub use propagation::{alias_of, records_to_end, resolver, zone_of};
pub use standing::StandingRecord;

use std::sync::Arc;

use arc_swap::ArcSwap;
use config::{DnsConfig, DnsUpdater};
use proxy::generation::Generation;
use proxy::upstream::{Group, Target, Wish, connect};
use transport::Transport;

/// What stands before the name in that of its record.
const PREFIX: &str = "_acme-challenge.";

/// Sets records and removes them, as configured.
#[derive(Clone)]
pub struct Zones {
    config: Arc<DnsConfig>,
    generations: Arc<ArcSwap<Generation>>,
}

/// A TXT record that proves a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxtRecord {
    /// The host, without `*.`.
    pub host: String,
    /// Its text.
    pub value: String,
}

/// What is done with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Set,
    Remove,
}

impl TxtRecord {
    /// The record for a host (lower case, A-labels).
    pub fn new(host: &str, value: String) -> TxtRecord {
        TxtRecord { host: host.to_owned(), value }
    }

    /// Its name, without a final dot.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.host)
    }
}

impl Zones {
    /// As configured; ways to servers are those of the active generation.
    pub fn new(config: Arc<DnsConfig>, generations: Arc<ArcSwap<Generation>>) -> Zones {
        Zones { config, generations }
    }

    /// Sets a record, and waits until the name servers that authorities ask have it.
    ///
    /// # Errors
    /// It could not be set, or does not appear; says why.
    pub async fn set(&self, record: &TxtRecord) -> Result<(), String> {
        let set = self.change(Change::Set, record).await;
        set.map_err(|problem| format!("the record {} cannot be set: {problem}", record.name()))?;
        propagation::wait(&self.config, record).await?;
        tokio::time::sleep(self.config.options.propagation_delay).await;
        Ok(())
    }

    /// Removes a record. What stays behind does no harm.
    pub async fn remove(&self, record: &TxtRecord) {
        if let Err(problem) = self.change(Change::Remove, record).await {
            tracing::warn!(record = record.name(), "the record is still there: {problem}");
        }
    }

    async fn change(&self, change: Change, record: &TxtRecord) -> Result<(), String> {
        let limit = self.config.options.timeout;
        let changed = tokio::time::timeout(limit, self.change_unbounded(change, record)).await;
        changed.unwrap_or_else(|_| Err(format!("it took longer than {limit:?}")))
    }

    async fn change_unbounded(&self, change: Change, record: &TxtRecord) -> Result<(), String> {
        match &self.config.by {
            DnsUpdater::Program(program) => program::run(program, change, record).await,
            DnsUpdater::Update(update) => {
                let transport = self.connect(&update.upstream.name).await?;
                update::send(update, &transport, change, record).await
            }
            // It keeps the last two by itself.
            DnsUpdater::AcmeDns(_) if change == Change::Remove => Ok(()),
            DnsUpdater::AcmeDns(server) => {
                let transport = self.connect(&server.upstream.name).await?;
                acme_dns::send(server, &transport, record).await
            }
        }
    }

    async fn connect(&self, name: &str) -> Result<Transport, String> {
        let group: Option<Arc<Group>> = self.generations.load().issuance.group(name).cloned();
        let group = group.ok_or_else(|| "its server is configured no more".to_owned())?;
        group.resolved(group.config.connect_timeout).await;
        let taken = group.take(Wish::default()).map_err(|_| "the name of its server cannot be resolved".to_owned())?;
        let connected = connect(Target::own(&group, &taken.server)).await;
        connected
            .map_err(|error| format!("{} cannot be connected to: {}", taken.server.authority, error.reason().code()))
    }
}
