//! Everything that a reload replaces at once: keys, access rules, the server's own identity and whom it trusts.
//!
//! Immutable. A rule sees only the keys it grants, in a map of its own: for whoever may not use a key, it is as unknown as one that does not exist.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use config::{AccessRule, KeyServerConfig, KeyServerTls, OperationSet};
use tls::crypto::{Certificate, digest};
use tls::{Alert, Choice, Chooser, ClientAuth, Identity, PeerCertificate, Policy, ProtocolVersion};
use wire::client_hello::ClientHello;
use wire::enrolment::ENROLMENT_ALPN;
use wire::keyless::EXTENSION_ALPN;

use super::access::{Enrolment, Peer};
use super::issuer::Issuer;
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
    issuer: Option<Arc<Issuer>>,
    /// How long loading took.
    pub load_time: Duration,
}

#[derive(Debug)]
struct Rule {
    config: AccessRule,
    view: Arc<View>,
}

/// What one access rule lets its clients see.
#[derive(Debug, Default, Clone)]
pub struct View {
    by_ski: HashMap<Ski, Granted>,
    by_digest: HashMap<[u8; 32], Ski>,
    pub(super) rate: Option<Arc<Rate>>,
    /// Where keys are made for its clients, if they may have some.
    pub(super) nursery: Option<Arc<Nursery>>,
}

/// A key set that keys are made for.
#[derive(Debug)]
pub(super) struct Nursery {
    /// Its name.
    pub(super) set: String,
    /// Where they are kept.
    pub(super) folder: PathBuf,
    /// What they may do at all.
    pub(super) operations: OperationSet,
}

impl Nursery {
    fn of(rule: &AccessRule, config: &KeyServerConfig) -> Option<Arc<Nursery>> {
        let name = rule.make_keys.as_ref()?;
        let set = config.keys.get(name)?;
        Some(Arc::new(Nursery { set: name.clone(), folder: set.folders.first()?.clone(), operations: set.operations }))
    }
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
    fn new(rule: &AccessRule, sets: &HashMap<&str, Vec<Arc<Key>>>, nursery: Option<Arc<Nursery>>) -> View {
        let rate = rule.rate_per_second.map(Rate::new).map(Arc::new);
        let mut view = View { rate, nursery, ..View::default() };
        let granted = sets.iter().filter(|(name, _)| grants(rule, name));
        granted.flat_map(|(_, keys)| keys).for_each(|key| view.add(key, rule));
        view
    }

    fn add(&mut self, key: &Arc<Key>, rule: &AccessRule) {
        if let Some(digest) = key.digest {
            self.by_digest.insert(digest, key.ski);
        }
        let operations = key.operations.and(rule.operations);
        self.by_ski.insert(key.ski, Granted { key: Arc::clone(key), operations });
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

/// Whether a rule grants the keys of a set.
fn grants(rule: &AccessRule, set: &str) -> bool {
    rule.keys.as_ref().is_none_or(|names| names.iter().any(|granted| granted == set))
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
        let issuer = config.enrolment.as_ref().map(Issuer::load).transpose();
        let issuer = issuer.unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let mut fronts = HashMap::new();
        for listener in &config.listeners {
            let Some(tls) = &listener.tls else { continue };
            match Front::load(tls, issuer.as_ref()) {
                Ok(front) => drop(fronts.insert(listener.name.clone(), Arc::new(front))),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let rule = |rule: &AccessRule| Rule {
            view: Arc::new(View::new(rule, &sets, Nursery::of(rule, config))),
            config: rule.clone(),
        };
        Ok(Holdings {
            generation: before.map_or(1, |before| before.generation + 1),
            rules: config.access.iter().map(rule).collect(),
            nothing: Arc::default(),
            keys: sets.values().flatten().map(|key| (key.ski, Arc::clone(key))).collect(),
            fronts,
            issuer: issuer.map(Arc::new),
            load_time: started.elapsed(),
        })
    }

    /// The same with one key more, which was made for a set. Rules that do not grant it keep their views.
    pub(super) fn with(&self, set: &str, key: &Arc<Key>) -> Holdings {
        let view = |rule: &Rule| {
            if !grants(&rule.config, set) {
                return Arc::clone(&rule.view);
            }
            let mut view = View::clone(&rule.view);
            view.add(key, &rule.config);
            Arc::new(view)
        };
        let rules = self.rules.iter().map(|rule| Rule { view: view(rule), config: rule.config.clone() });
        let mut keys = self.keys.clone();
        keys.insert(key.ski, Arc::clone(key));
        Holdings {
            generation: self.generation + 1,
            rules: rules.collect(),
            nothing: Arc::clone(&self.nothing),
            keys,
            fronts: self.fronts.clone(),
            issuer: self.issuer.clone(),
            load_time: self.load_time,
        }
    }

    /// What `peer` may see: that of the first rule that names it.
    pub fn view_for(&self, peer: &Peer) -> Arc<View> {
        let rule = self.rules.iter().find(|rule| rule.config.clients.iter().any(|pattern| peer.matches(pattern)));
        Arc::clone(rule.map_or(&self.nothing, |rule| &rule.view))
    }

    /// The owner of a verified certificate.
    pub(super) fn peer(&self, certificate: &PeerCertificate, address: Option<SocketAddr>) -> Peer {
        let id = self.issuer.as_ref().and_then(|issuer| issuer.enrolment_of(certificate));
        let enrolment = id.map(|id| {
            // What cannot be read has ended.
            let read = Certificate::from_der(&certificate.der);
            Enrolment { id, ends: read.map_or(SystemTime::UNIX_EPOCH, |read| read.not_after()) }
        });
        let mut peer = Peer::of_certificate(certificate, address);
        peer.enrolment = enrolment;
        peer
    }

    /// Whether the certificate of a peer was revoked.
    pub(super) fn is_rejected(&self, peer: &Peer) -> bool {
        let issuer = self.issuer.as_ref();
        peer.enrolment.is_some_and(|enrolment| issuer.is_none_or(|issuer| issuer.is_revoked(&enrolment.id)))
    }

    /// Who issues client certificates, if that is configured.
    pub(super) fn issuer(&self) -> Option<&Arc<Issuer>> {
        self.issuer.as_ref()
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
    /// For whoever asks for a client certificate, if this server issues some.
    enrolment: Option<Choice>,
    not_after: SystemTime,
}

impl Front {
    fn load(tls: &KeyServerTls, issuer: Option<&Issuer>) -> Result<Front, String> {
        let identity: Arc<Identity> = keystore::trust::pair(&tls.certificate, &tls.private_key)?;
        let chain = keystore::trust::certificates(&tls.certificate)?;
        let leaf = chain.first().map(|der| Certificate::from_der(der)).transpose();
        let leaf = leaf.ok().flatten().ok_or_else(|| format!("{}: no certificate", tls.certificate.display()))?;
        let own = issuer.map(|issuer| issuer.root.clone());
        let roots = tls.client_ca.as_ref().map(|path| keystore::trust::certificates(path)).transpose()?;
        let roots: Vec<_> = roots.unwrap_or_default().into_iter().chain(own.clone()).collect();
        let lists = tls.client_crl.as_ref().map(|path| keystore::trust::revocation_lists(path));
        let mut lists = lists.transpose()?.unwrap_or_default();
        if let Some(issuer) = issuer.filter(|_| !lists.is_empty()) {
            lists.push(issuer.empty_revocation_list()?);
        }
        let of_clients = |error| {
            let place = tls.client_ca.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()));
            format!("{place}authorities of clients: {error}")
        };
        let rule = ClientAuth::new(&roots, &lists, true).map_err(of_clients)?;
        let choice = Choice {
            identity,
            policy: Policy::Intermediate,
            min_version: tls.min_version,
            alpn: Arc::new([EXTENSION_ALPN.to_vec()]),
            client_auth: Some(Arc::new(rule)),
            context: digest::sha256(b"key-server"),
        };
        // Whoever renews shows a certificate of this authority; no other counts there.
        let own = own.map(|own| ClientAuth::new(&[own], &[], false)).transpose().map_err(of_clients)?;
        let enrolment = own.map(|own| Choice {
            min_version: ProtocolVersion::Tls13,
            alpn: Arc::new([ENROLMENT_ALPN.to_vec()]),
            client_auth: Some(Arc::new(own)),
            context: digest::sha256(b"key-server enrolment"),
            ..choice.clone()
        });
        Ok(Front { choice, enrolment, not_after: leaf.not_after() })
    }
}

impl Chooser for Front {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        let wanted = self.enrolment.as_ref().filter(|_| hello.alpn == [ENROLMENT_ALPN]);
        Ok(wanted.unwrap_or(&self.choice).clone())
    }

    fn asks_for_certificates(&self) -> bool {
        self.choice.client_auth.is_some()
    }
}
