//! What a generation knows of certificates that are ordered: the challenges that are responded to, and the ways to those who are asked.
//!
//! Orders nothing; that is the crate `acme`, which stands above.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use config::{AcmeConfig, Config};

use tokio::sync::Notify;

use crate::challenges::Challenges;
use crate::demands::Demands;
use crate::upstream::Group;

/// What is needed to order certificates, and to prove names.
#[derive(Debug, Default)]
pub struct Issuance {
    /// None if nothing is ordered: nobody then looks anything up.
    challenges: Option<Arc<Challenges>>,
    /// By name.
    groups: BTreeMap<String, Arc<Group>>,
    /// What is demanded of keystores, with the folders of their certificates.
    demands: BTreeMap<String, (PathBuf, Arc<Demands>)>,
    /// Wakes whoever orders.
    news: Arc<Notify>,
}

impl Issuance {
    /// What a configuration needs; what `previous` has goes on.
    pub fn build(config: &Config, previous: Option<&Issuance>, problems: &mut Vec<String>) -> Issuance {
        let mut groups = BTreeMap::new();
        for (keystore, acme) in ordered(config) {
            for upstream in acme.upstreams() {
                let before = previous.and_then(|previous| previous.groups.get(&upstream.name));
                let group = match before.filter(|group| group.is_current(upstream)) {
                    Some(group) => Ok(Arc::clone(group)),
                    None => Group::new(upstream).map(Arc::new),
                };
                match group {
                    Ok(group) => _ = groups.insert(upstream.name.clone(), group),
                    Err(problem) => problems.push(format!("keystore {keystore}: {problem}")),
                }
            }
        }
        let challenges = ordered(config).next().map(|_| {
            let before = previous.and_then(|previous| previous.challenges.clone());
            before.unwrap_or_default()
        });
        let news = previous.map(|previous| Arc::clone(&previous.news)).unwrap_or_default();
        let demanded = ordered(config).filter(|(_, acme)| acme.on_demand.is_some());
        let demands = demanded.map(|(keystore, acme)| {
            let before = previous.and_then(|previous| previous.demands.get(keystore));
            let kept = before.filter(|(folder, _)| *folder == acme.folder).map(|(_, demands)| Arc::clone(demands));
            let demands = kept.unwrap_or_else(|| Arc::new(Demands::new(Arc::clone(&news))));
            (keystore.to_owned(), (acme.folder.clone(), demands))
        });
        let demands = demands.collect();
        Issuance { challenges, groups, demands, news }
    }

    /// What is demanded of a keystore; none if it has no certificates on demand.
    pub fn demands(&self, keystore: &str) -> Option<&Arc<Demands>> {
        self.demands.get(keystore).map(|(_, demands)| demands)
    }

    /// Wakes whoever orders when a name is demanded.
    pub fn news(&self) -> &Arc<Notify> {
        &self.news
    }

    /// The challenges that are responded to; none if nothing is ordered.
    pub fn challenges(&self) -> Option<&Arc<Challenges>> {
        self.challenges.as_ref()
    }

    /// The way to somebody who is asked.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// All ways.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values()
    }
}

/// The keystores whose certificates are ordered.
fn ordered(config: &Config) -> impl Iterator<Item = (&str, &AcmeConfig)> {
    config.keystores.values().filter_map(|keystore| Some((keystore.name.as_str(), keystore.acme.as_deref()?)))
}
