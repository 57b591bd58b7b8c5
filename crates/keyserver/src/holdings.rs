//! Everything that a reload replaces at once: keys, access rules, the server's own identity and whom it trusts.
//!
//! Immutable. A rule sees only the keys it grants, in a map of its own: for whoever may not use a key, it is as unknown as one that does not exist.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use config::{AccessRule, ClientPattern, KeyServerConfig, KeyServerTls, OperationSet};
use tls::crypto::{Certificate, digest};
use tls::{Alert, Choice, Chooser, ClientAuth, Identity, Policy};
use wire::client_hello::ClientHello;
use wire::keyless::EXTENSION_ALPN;

use super::access::Peer;
use super::keys::{self, Key, Ski};
use super::rate::Rate;

/// One generation of what the key server holds.
#[derive(Debug)]
pub struct Holdings {
    /// Counts up with each reload.
    pub generation: u64,
    rules: Vec<Rule>,
    /// For peers without a rule.
    nothing: Arc<View>,
    keys: HashMap<Ski, Arc<Key>>,
    fronts: HashMap<String, Arc<Front>>,
    /// How long loading took.
    pub load_time: Duration,
}

#[derive(Debug)]
struct Rule {
    clients: Vec<ClientPattern>,
    view: Arc<View>,
}

/// What one access rule lets its clients see.
#[derive(Debug, Default)]
pub struct View {
    by_ski: HashMap<Ski, Granted>,
    by_digest: HashMap<[u8; 32], Ski>,
    pub(super) rate: Option<Rate>,
}

/// A key and what may be asked of it under a rule.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The key.
    pub key: Arc<Key>,
    /// What both the rule and the key's set allow.
    pub operations: OperationSet,
}

impl View {
    fn new(rule: &AccessRule, sets: &HashMap<&str, Vec<Arc<Key>>>) -> View {
        let mut view = View { rate: rule.rate_per_second.map(Rate::new), ..View::default() };
        let granted = sets
            .iter()
            .filter(|(name, _)| rule.keys.as_ref().is_none_or(|names| names.iter().any(|granted| granted == *name)));
        for key in granted.flat_map(|(_, keys)| keys) {
            if let Some(digest) = key.digest {
                view.by_digest.insert(digest, key.ski);
            }
            let operations = key.operations.and(rule.operations);
            view.by_ski.insert(key.ski, Granted { key: Arc::clone(key), operations });
        }
        view
    }

    /// The key with this identifier, if the rule grants it.
    pub fn by_ski(&self, ski: &Ski) -> Option<&Granted> {
        self.by_ski.get(ski)
    }

    /// The key with this digest, if the rule grants it.
    pub fn by_digest(&self, digest: &[u8; 32]) -> Option<&Granted> {
        self.by_ski.get(self.by_digest.get(digest)?)
    }
}

impl Holdings {
    /// Reads everything that `config` names. Keys that `before` holds already are kept.
    ///
    /// # Errors
    /// Every problem found.
    pub fn load(config: &KeyServerConfig, before: Option<&Holdings>) -> Result<Holdings, Vec<String>> {
        let started = Instant::now();
        let mut problems = Vec::new();
        let none = HashMap::new();
        let known = before.map_or(&none, |before| &before.keys);
        let mut sets = HashMap::new();
        for (name, set) in &config.keys {
            match keys::load(set, known) {
                Ok(keys) => drop(sets.insert(name.as_str(), keys)),
                Err(found) => problems.extend(found),
            }
        }
        let mut fronts = HashMap::new();
        for listener in &config.listeners {
            let Some(tls) = &listener.tls else { continue };
            match Front::load(tls) {
                Ok(front) => drop(fronts.insert(listener.name.clone(), Arc::new(front))),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let rule = |rule: &AccessRule| Rule { clients: rule.clients.clone(), view: Arc::new(View::new(rule, &sets)) };
        Ok(Holdings {
            generation: before.map_or(1, |before| before.generation + 1),
            rules: config.access.iter().map(rule).collect(),
            nothing: Arc::default(),
            keys: sets.values().flatten().map(|key| (key.ski, Arc::clone(key))).collect(),
            fronts,
            load_time: started.elapsed(),
        })
    }

    /// What `peer` may see: that of the first rule that names it.
    pub fn view_for(&self, peer: &Peer) -> Arc<View> {
        let rule = self.rules.iter().find(|rule| rule.clients.iter().any(|pattern| peer.matches(pattern)));
        Arc::clone(rule.map_or(&self.nothing, |rule| &rule.view))
    }

    /// TLS of a listener; none for Unix sockets.
    pub fn front(&self, listener: &str) -> Option<Arc<Front>> {
        self.fronts.get(listener).cloned()
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.keys.values()
    }

    /// Listeners and the end of their certificates' validity.
    pub fn expiries(&self) -> impl Iterator<Item = (&str, SystemTime)> {
        self.fronts.iter().map(|(name, front)| (name.as_str(), front.not_after))
    }
}

/// The server's side of mutual TLS on one listener.
#[derive(Debug)]
pub struct Front {
    choice: Choice,
    not_after: SystemTime,
}

impl Front {
    fn load(tls: &KeyServerTls) -> Result<Front, String> {
        let identity: Arc<Identity> = keystore::trust::pair(&tls.certificate, &tls.private_key)?;
        let chain = keystore::trust::certificates(&tls.certificate)?;
        let leaf = chain.first().map(|der| Certificate::from_der(der)).transpose();
        let leaf = leaf.ok().flatten().ok_or_else(|| format!("{}: no certificate", tls.certificate.display()))?;
        let roots = keystore::trust::certificates(&tls.client_ca)?;
        let lists = tls.client_crl.as_ref().map(|path| keystore::trust::revocation_lists(path));
        let lists = lists.transpose()?.unwrap_or_default();
        let rule =
            ClientAuth::new(&roots, &lists, true).map_err(|error| format!("{}: {error}", tls.client_ca.display()))?;
        let choice = Choice {
            identity,
            policy: Policy::Intermediate,
            min_version: tls.min_version,
            alpn: Arc::new([EXTENSION_ALPN.to_vec()]),
            client_auth: Some(Arc::new(rule)),
            context: digest::sha256(b"key-server"),
        };
        Ok(Front { choice, not_after: leaf.not_after() })
    }
}

impl Chooser for Front {
    fn choose(&self, _hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        Ok(self.choice.clone())
    }

    fn asks_for_certificates(&self) -> bool {
        self.choice.client_auth.is_some()
    }
}
