//! Policies as they are active: their lists read, their rates counted, and which of them hold where.
//!
//! Counts pass from one generation to the next where what is counted apart is the same: a reload gives nobody a new burst.

pub mod cors;
mod rate;
pub mod switch;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{BasicRule, CertificateKey, Config, Cors, Networks, PolicyConfig, RateKey, RateLimit, TokenRule};
use tls::PeerCertificate;
use wire::http::{Fields, RequestHead};

use crate::auth::{Passwords, Subject, Verifier, Verifiers};
use crate::client::{AddressSet, RequestClient};
use crate::configured_map::ConfiguredMap;
use crate::host_map::HostMap;
use rate::RateTable;
use switch::Switch;

/// A policy that is active.
#[derive(Debug)]
pub struct ActivePolicy {
    /// As configured.
    pub config: Arc<PolicyConfig>,
    allow: Option<AddressSet>,
    deny: Option<AddressSet>,
    rate: Option<(RateLimit, Arc<RateTable>)>,
    token: Option<Arc<Verifier>>,
    passwords: Option<Arc<Passwords>>,
    maintenance: Option<Switch>,
}

/// Why a policy does not let a request pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// By its client's address.
    Address,
    /// It comes too early, by so much.
    Rate(Duration),
    /// There is maintenance, perhaps for so long.
    Maintenance(Duration),
}

impl ActivePolicy {
    fn load(
        config: &Arc<PolicyConfig>,
        verifiers: &Verifiers,
        previous: Option<&ActivePolicy>,
    ) -> Result<ActivePolicy, Vec<String>> {
        let mut problems = Vec::new();
        let switch = previous.and_then(|previous| previous.maintenance.as_ref());
        let set = |networks: &Option<Networks>, problems: &mut Vec<String>| {
            let networks = networks.as_ref()?;
            AddressSet::of(&networks.listed, networks.file.as_deref().map(Path::new))
                .map_err(|found| problems.extend(found))
                .ok()
        };
        let allow = set(&config.allow, &mut problems);
        let deny = set(&config.deny, &mut problems);
        let rate = config.rate_limit.as_ref().map(|limit| {
            let kept = previous.and_then(|previous| previous.rate.as_ref());
            let kept = kept.filter(|(before, _)| before.key == limit.key && before.max_keys == limit.max_keys);
            let table = kept.map_or_else(|| Arc::new(RateTable::new(limit.max_keys)), |(_, table)| Arc::clone(table));
            table.serve(limit);
            (limit.clone(), table)
        });
        let passwords = config.basic.as_ref().and_then(|basic| {
            let before = previous.and_then(|previous| previous.passwords.as_deref());
            let loaded = Passwords::load(&basic.file, basic.cache_ttl, before);
            loaded.map_err(|found| problems.extend(found)).ok().map(Arc::new)
        });
        match problems.is_empty() {
            true => Ok(ActivePolicy {
                passwords,
                allow,
                deny,
                rate,
                token: config.jwt.as_ref().and_then(|jwt| verifiers.get(&jwt.verifier)).cloned(),
                maintenance: config.maintenance.as_ref().map(|config| Switch::new(config, switch)),
                config: Arc::clone(config),
            }),
            false => Err(problems.into_iter().map(|problem| format!("policy {}: {problem}", config.name)).collect()),
        }
    }

    /// Whether a client may pass.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(&self, client: &RequestClient) -> Result<(), Denied> {
        if let Some(after) = self.maintenance.as_ref().and_then(|switch| switch.closed_for(client.certain())) {
            return Err(Denied::Maintenance(after));
        }
        let is_denied = |set: &AddressSet| client.address.is_some_and(|address| set.contains(address));
        // An address that is not certain is on no list of those who may.
        let is_allowed = |set: &AddressSet| client.certain().is_some_and(|address| set.contains(address));
        if self.deny.as_ref().is_some_and(is_denied) || self.allow.as_ref().is_some_and(|set| !is_allowed(set)) {
            return Err(Denied::Address);
        }
        Ok(())
    }

    /// Counts a request, if it does not come too early.
    ///
    /// # Errors
    /// By how much it does.
    pub fn count(&self, counted: &Counted<'_>) -> Result<(), Denied> {
        let Some((limit, table)) = &self.rate else { return Ok(()) };
        let mut hasher = table.hasher();
        // A trusted proxy, or a neighbour on a Unix socket, that speaks for itself is not limited where it would be by itself.
        let is_counted = limit.key.iter().all(|key| counted.part(key, &mut hasher).is_some());
        if is_counted { table.take(hasher.finish(), limit).map_err(Denied::Rate) } else { Ok(()) }
    }

    /// Whether it counts by what a token says, which has to be verified before.
    pub fn counts_by_claim(&self) -> bool {
        self.rate.as_ref().is_some_and(|(limit, _)| limit.claims().next().is_some())
    }
}

/// What a rate may count a request by.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'c> {
    /// Its head.
    pub head: &'c RequestHead,
    /// Who sent it.
    pub client: &'c RequestClient,
    /// The client's certificate, verified.
    pub certificate: Option<&'c PeerCertificate>,
    /// The route that it takes.
    pub route: Option<&'c str>,
    /// Who it was verified to come from.
    pub subject: &'c Subject,
}

impl Counted<'_> {
    /// Adds one part of what is counted apart; none if the request has neither that nor a client.
    fn part(&self, key: &RateKey, hasher: &mut impl Hasher) -> Option<()> {
        let head = self.head;
        let value: Option<Cow<'_, [u8]>> = match key {
            RateKey::Client => None,
            RateKey::Route => {
                (2_u8, self.route).hash(hasher);
                return Some(());
            }
            RateKey::Header(name) => only(head.fields.get_all(name)).map(Cow::Borrowed),
            RateKey::Cookie(name) => only(head.fields.cookies(name.as_bytes())).map(Cow::Borrowed),
            RateKey::Claim(name) => match self.subject.claim(name) {
                Ok(Some(Cow::Borrowed(text))) => Some(text.as_bytes().into()),
                Ok(Some(Cow::Owned(text))) => Some(text.into_bytes().into()),
                // What readers could take for different things counts for nobody else.
                Ok(None) | Err(_) => None,
            },
            RateKey::Certificate(part) => self.certificate.and_then(|certificate| part_of(certificate, *part)),
        };
        match value {
            Some(value) => (1_u8, value).hash(hasher),
            None => {
                let client = self.client.of_share().or(self.client.address.filter(|_| self.client.is_doubtful));
                (0_u8, network_of(client?)).hash(hasher);
            }
        }
        Some(())
    }
}

/// What a certificate is counted by.
fn part_of(certificate: &PeerCertificate, part: CertificateKey) -> Option<Cow<'_, [u8]>> {
    let text = match part {
        CertificateKey::Fingerprint => &certificate.fingerprint,
        CertificateKey::Subject => &certificate.subject,
        CertificateKey::San => certificate.first_name()?,
    };
    Some(text.as_bytes().into()).filter(|text: &Cow<'_, [u8]>| !text.is_empty())
}

impl ActivePolicy {
    /// Whether it demands to know who sends a request.
    pub fn authenticates(&self) -> bool {
        let PolicyConfig { jwt, basic, forward_auth, .. } = &*self.config;
        jwt.is_some() || basic.is_some() || forward_auth.is_some()
    }

    /// The password that requests must show, and the users; the latter are missing where they could not be loaded.
    pub fn password(&self) -> Option<(&BasicRule, Option<&Arc<Passwords>>)> {
        self.config.basic.as_ref().map(|rule| (rule, self.passwords.as_ref()))
    }

    /// The token that requests must show, and how it is verified; the latter is missing where it could not be loaded.
    pub fn token(&self) -> Option<(&TokenRule, Option<&Verifier>)> {
        self.config.jwt.as_ref().map(|rule| (rule, self.token.as_deref()))
    }
}

/// The value, if there is one alone: of several, the upstream may take any.
fn only<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Option<&'v [u8]> {
    values.next().filter(|_| values.next().is_none())
}

/// An address as it is counted: of IPv6 the /64, which is what one subscriber has (RFC 6177).
pub fn network_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6) & !u128::from(u64::MAX),
    }
}

/// The policies of one listener, host or route.
pub type List = Box<[Arc<ActivePolicy>]>;

/// All policies, and where each holds.
#[derive(Debug, Default)]
pub struct Policies {
    by_name: BTreeMap<String, Arc<ActivePolicy>>,
    listeners: ConfiguredMap<String, List>,
    hosts: HostMap<List>,
    routes: Vec<List>,
    /// Fields (lower case) in which policies say who the client is.
    subject_fields: Box<[Box<str>]>,
    /// Whether any says which pages of other origins may use a resource.
    has_cors: bool,
}

impl Policies {
    /// Reads everything that the policies of a configuration name.
    ///
    /// # Errors
    /// Everything that is wrong, with file and line where there is one.
    pub fn load(config: &Config, verifiers: &Verifiers, previous: Option<&Policies>) -> Result<Policies, Vec<String>> {
        let (mut policies, mut problems) = (Policies::default(), Vec::new());
        for (name, policy) in &config.policies {
            let before = previous.and_then(|previous| previous.by_name.get(name)).map(Arc::as_ref);
            match ActivePolicy::load(policy, verifiers, before) {
                Ok(active) => _ = policies.by_name.insert(name.clone(), Arc::new(active)),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() || policies.by_name.is_empty() {
            return if problems.is_empty() { Ok(policies) } else { Err(problems) };
        }
        // The configuration was checked: every name is there.
        let by_name = &policies.by_name;
        let list = |names: &[String]| names.iter().filter_map(|name| by_name.get(name)).cloned().collect::<List>();
        policies.listeners = config.listeners.iter().map(|one| (one.name.clone(), list(&one.policies))).collect();
        // A host that names none is under those of the wildcard above it.
        let hosts = config.host_rules.iter().filter(|rule| !rule.policies.is_empty());
        policies.hosts = hosts.map(|rule| (rule.host.clone(), list(&rule.policies))).collect();
        policies.routes = config.routes.iter().map(|route| list(&route.policies)).collect();
        policies.has_cors = config.policies.values().any(|policy| policy.cors.is_some());
        policies.subject_fields = config.subject_fields().map(Box::from).collect();
        Ok(policies)
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether a policy says in this field who the client is, so that nobody else may.
    pub fn is_subject_field(&self, name: &[u8]) -> bool {
        self.subject_fields.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Removes what a client says of itself in such fields, whatever its route: behind another one may be the same upstream.
    pub fn remove_subject_fields(&self, fields: &mut Fields) {
        if !self.subject_fields.is_empty() && fields.iter().any(|(name, _)| self.is_subject_field(name)) {
            fields.retain(|name, _| !self.is_subject_field(name));
        }
    }

    /// Whether any policy says which pages of other origins may use a resource.
    pub fn has_cors(&self) -> bool {
        self.has_cors
    }

    /// What holds for pages of other origins: the word of the route, else of the host, else of the listener.
    pub fn cors(&self, route: Option<usize>, listener: &str, head: &RequestHead) -> Option<(&ActivePolicy, &Cors)> {
        let route = route.map(|route| self.of_route(route)).unwrap_or_default();
        let around = [self.hosts.find(head.host()), self.listeners.get(listener)];
        let mut all = route.iter().chain(around.into_iter().flatten().flatten());
        all.find_map(|policy| Some((&**policy, policy.config.cors.as_ref()?)))
    }

    /// The switches of policies, which somebody has to look after.
    pub fn switches(&self) -> Vec<Switch> {
        self.by_name.values().filter_map(|policy| policy.maintenance.clone()).collect()
    }

    /// Those of the listener and the host of a request, whatever its route.
    pub fn around(&self, listener: &str, head: &RequestHead) -> impl Iterator<Item = &Arc<ActivePolicy>> {
        let lists = [self.listeners.get(listener), self.hosts.find(head.host())];
        lists.into_iter().flatten().flatten()
    }

    /// Those of a route.
    pub fn of_route(&self, route: usize) -> &[Arc<ActivePolicy>] {
        self.routes.get(route).map(|list| &**list).unwrap_or_default()
    }
}
