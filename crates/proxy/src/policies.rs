//! Policies as they are active: their lists read, their rates counted, and which of them hold where.
//!
//! Counts pass from one generation to the next where what is counted apart is the same: a reload gives nobody a new burst.

mod bandwidth;
mod concurrency;
mod connection;
pub mod denied;
pub mod cors;
pub mod counts;
mod key;
mod rate;
mod shared;
pub mod switch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{BandwidthLimit, BasicRule, ConcurrencyLimit, Config, Cors, LimitKey, Networks, PolicyConfig, TokenRule};
use reason::Reason;
use telemetry::WouldReject;
use wire::http::{Fields, RequestHead};

use crate::auth::{Grant, Passwords, Verifier, Verifiers};
use crate::client::AddressSet;
use crate::configured_map::ConfiguredMap;
use crate::geoip::{Geoip, Located};
use crate::host_map::HostMap;
use crate::route::{Sought, conditions, unmet};
use bandwidth::Tables;
pub use bandwidth::{ConnectionMeters, Throttle, Throttles};
use concurrency::ConcurrencyTable;
pub use concurrency::{Permit, Permits};
pub use connection::{Denial, Terms};
use denied::Denials;
pub use key::{Applicant, network_of};
use rate::ActiveRate;
pub use shared::{RateStore, SharedRate, Spent};
use switch::Switch;

/// A policy that is active.
#[derive(Debug)]
pub struct ActivePolicy {
    /// As configured.
    pub config: Arc<PolicyConfig>,
    allow: Option<AddressSet>,
    deny: Option<AddressSet>,
    rate: Option<Arc<ActiveRate>>,
    concurrency: Option<(ConcurrencyLimit, Arc<ConcurrencyTable>)>,
    bandwidth: Option<(BandwidthLimit, Tables)>,
    token: Option<Arc<Verifier>>,
    passwords: Option<Arc<Passwords>>,
    maintenance: Option<Switch>,
    geoip: Arc<Geoip>,
    /// Whom the operators of several machines deny, over its own lists.
    denials: Arc<Denials>,
}

/// Why a policy does not let a request pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// By its client's address.
    Address,
    /// It comes too early, by so much.
    Rate(Duration),
    /// Of what its limit counts it with, as many are under way as may be.
    Concurrency,
    /// There is maintenance, perhaps for so long.
    Maintenance(Duration),
}

impl ActivePolicy {
    fn load(
        config: &Arc<PolicyConfig>,
        (verifiers, geoip): (&Verifiers, &Arc<Geoip>),
        (store, denials): (Option<&RateStore>, &Arc<Denials>),
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
        let rate_before = previous.and_then(|previous| previous.rate.as_deref());
        let rate = config.rate_limit.as_ref().map(|limit| Arc::new(ActiveRate::of(limit, store, rate_before)));
        let concurrency = config.concurrency_limit.as_ref().map(|limit| {
            let kept = previous.and_then(|previous| previous.concurrency.as_ref());
            let kept = kept.filter(|(before, _)| before.key == limit.key && before.max_keys == limit.max_keys);
            let new = || Arc::new(ConcurrencyTable::new(limit.max_keys));
            (limit.clone(), kept.map_or_else(new, |(_, table)| Arc::clone(table)))
        });
        let bandwidth = config.bandwidth_limit.as_ref().map(|limit| {
            let kept = previous.and_then(|previous| previous.bandwidth.as_ref());
            (limit.clone(), Tables::of(limit, kept.map(|(before, tables)| (before, tables))))
        });
        let passwords = config.basic.as_ref().and_then(|basic| {
            let before = previous.and_then(|previous| previous.passwords.as_deref());
            let loaded = Passwords::load(&basic.file, basic.cache_ttl, before);
            loaded.map_err(|found| problems.extend(found)).ok().map(Arc::new)
        });
        match problems.is_empty() {
            true => Ok(ActivePolicy {
                passwords,
                geoip: Arc::clone(geoip),
                denials: Arc::clone(denials),
                allow,
                deny,
                rate,
                concurrency,
                bandwidth,
                token: config.jwt.as_ref().and_then(|jwt| verifiers.get(&jwt.verifier)).cloned(),
                maintenance: config.maintenance.as_ref().map(|config| Switch::new(config, switch)),
                config: Arc::clone(config),
            }),
            false => Err(problems.into_iter().map(|problem| format!("policy {}: {problem}", config.name)).collect()),
        }
    }

    /// What a log says of it where it only logs.
    pub fn would_reject(&self, reason: Reason) -> WouldReject {
        WouldReject { policy: self.config.name.as_str().into(), reason }
    }

    /// Whether it is asked about such a request.
    pub fn concerns(&self, sought: &Sought<'_>) -> bool {
        conditions::hold(&self.config.when, sought)
    }

    /// Why it is not asked about such a request, in words.
    pub fn unmet(&self, sought: &Sought<'_>) -> Option<String> {
        unmet(&self.config.when, sought)
    }

    /// Whether somebody may pass; counts it if it may. Where it is one of a number that is limited, the permit is to be held for as long as it lasts. What is counted by
    /// a claim is left to [`ActivePolicy::check_identified`].
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(&self, applicant: &Applicant<'_>) -> Result<Option<Permit>, Denied> {
        self.check_client(applicant)?;
        self.count(applicant, |keys| !has_claim(keys))
    }

    /// As [`ActivePolicy::check`], for what is counted by a claim, once it is known who sends a request.
    ///
    /// # Errors
    /// Why it may not pass.
    pub fn check_identified(&self, applicant: &Applicant<'_>) -> Result<Option<Permit>, Denied> {
        self.count(applicant, has_claim)
    }

    /// As both, for somebody who shows no token.
    ///
    /// # Errors
    /// Why it may not pass.
    pub fn check_unidentified(&self, applicant: &Applicant<'_>) -> Result<Option<Permit>, Denied> {
        self.check_client(applicant)?;
        self.count(applicant, |_| true)
    }

    /// Whether a client may pass, whatever is counted.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check_client(&self, applicant: &Applicant<'_>) -> Result<(), Denied> {
        let client = &applicant.client;
        if let Some(after) = self.maintenance.as_ref().and_then(|switch| switch.closed_for(client.certain())) {
            return Err(Denied::Maintenance(after));
        }
        // An address that is not certain is on no list of those who may, and in no country.
        let located = Located { geoip: &self.geoip, address: client.certain() };
        let is_from = |listed: &Option<Networks>| listed.as_ref().is_some_and(|one| located.is_in_any(&one.origins));
        let is_denied = |set: &AddressSet| {
            client.address.is_some_and(|address| set.contains(address)) || is_from(&self.config.deny)
        };
        let is_allowed = |set: &AddressSet| {
            client.certain().is_some_and(|address| set.contains(address)) || is_from(&self.config.allow)
        };
        let is_denied =
            |set: &AddressSet| is_denied(set) || self.denials.denies_address(&self.config.name, client.address);
        if self.deny.as_ref().is_some_and(is_denied) || self.allow.as_ref().is_some_and(|set| !is_allowed(set)) {
            return Err(Denied::Address);
        }
        Ok(())
    }

    /// Counts what is counted by such keys.
    fn count(&self, applicant: &Applicant<'_>, is_due: fn(&[LimitKey]) -> bool) -> Result<Option<Permit>, Denied> {
        if let Some(rate) = self.rate.as_ref().filter(|rate| is_due(&rate.limit.key))
            && let Some(hash) = applicant.counted(&rate.limit.key, rate.table.hasher())
        {
            rate.take(hash).map_err(Denied::Rate)?;
        }
        if let Some((limit, table)) = self.concurrency.as_ref().filter(|(limit, _)| is_due(&limit.key))
            && let Some(hash) = applicant.counted(&limit.key, table.hasher())
        {
            return table.enter(hash, limit.max_in_flight).map(Some).ok_or(Denied::Concurrency);
        }
        Ok(None)
    }

    /// Adds the bandwidth that somebody has who may pass, on a connection.
    pub fn throttle(&self, applicant: &Applicant<'_>, connection: &ConnectionMeters, throttles: &mut Throttles) {
        if let Some((limit, tables)) = &self.bandwidth {
            throttles.add(&self.config, (limit, tables), applicant, connection);
        }
    }

    /// The reason for logs and metrics.
    pub fn reason(&self, denied: Denied) -> Reason {
        // Where it is not its client who has too many, it is not its client's fault either.
        let is_of_clients = self.config.concurrency_limit.as_ref().is_some_and(ConcurrencyLimit::is_of_clients);
        match denied {
            Denied::Address => Reason::AddressNotAllowed,
            Denied::Rate(_) => Reason::RateLimited,
            Denied::Concurrency if is_of_clients => Reason::ConcurrencyLimited,
            Denied::Concurrency => Reason::OverallConcurrencyLimited,
            Denied::Maintenance(_) => Reason::Maintenance,
        }
    }
}

/// Whether a limit by these keys counts by what a token says, which has to be verified before.
fn has_claim(keys: &[LimitKey]) -> bool {
    keys.iter().any(|key| matches!(key, LimitKey::Claim(_)))
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

    /// Whether the operators of several machines deny a genuine token, as `shown` reads it from a request.
    pub fn denies_token<'t>(&self, grant: &Grant, shown: impl FnOnce() -> Option<&'t [u8]>) -> bool {
        let denials = &self.denials;
        denials.is_used() && shown().is_some_and(|token| denials.denies_token(&self.config.name, token, grant))
    }

    /// Whether the operators of several machines deny a user who has shown the right password.
    pub fn denies_user(&self, user: &str) -> bool {
        self.denials.denies_user(&self.config.name, user)
    }

    /// The token that requests must show, and how it is verified; the latter is missing where it could not be loaded.
    pub fn token(&self) -> Option<(&TokenRule, Option<&Verifier>)> {
        self.config.jwt.as_ref().map(|rule| (rule, self.token.as_deref()))
    }
}

/// The policies of one listener, host, route, or rule of a tunnel.
pub type List = Arc<[Arc<ActivePolicy>]>;

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
    /// Where nodes share rates, if they do.
    store: Option<Arc<RateStore>>,
    denials: Arc<Denials>,
}

impl Policies {
    /// Reads everything that the policies of a configuration name.
    ///
    /// # Errors
    /// Everything that is wrong, with file and line where there is one.
    pub fn load(
        config: &Config,
        context: (&Verifiers, &Arc<Geoip>),
        previous: Option<&Policies>,
    ) -> Result<Policies, Vec<String>> {
        let (mut policies, mut problems) = (Policies::default(), Vec::new());
        policies.denials = previous.map(|previous| Arc::clone(&previous.denials)).unwrap_or_default();
        let store_before = previous.and_then(|previous| previous.store.as_deref());
        if let Some(store) = &config.rate_store {
            let store = RateStore::load(store, store_before).map_err(|problem| problems.push(problem));
            policies.store = store.ok().map(Arc::new);
        }
        for (name, policy) in &config.policies {
            let before = previous.and_then(|previous| previous.by_name.get(name)).map(Arc::as_ref);
            match ActivePolicy::load(policy, context, (policies.store.as_deref(), &policies.denials), before) {
                Ok(active) => _ = policies.by_name.insert(name.clone(), Arc::new(active)),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() || policies.by_name.is_empty() {
            return if problems.is_empty() { Ok(policies) } else { Err(problems) };
        }
        let list = |names: &[String]| policies.named(names);
        let listeners = config.listeners.iter().map(|one| (one.name.clone(), list(&one.policies))).collect();
        // A host that names none is under those of the wildcard above it.
        let hosts = config.host_rules.iter().filter(|rule| !rule.policies.is_empty());
        let hosts = hosts.map(|rule| (rule.host.clone(), list(&rule.policies))).collect();
        let routes = config.routes.iter().map(|route| list(&route.policies)).collect();
        (policies.listeners, policies.hosts, policies.routes) = (listeners, hosts, routes);
        policies.has_cors = config.policies.values().any(|policy| policy.cors.is_some());
        policies.subject_fields = config.subject_fields().map(Box::from).collect();
        Ok(policies)
    }

    /// Those of these names. The configuration was checked: every name is there.
    pub fn named(&self, names: &[String]) -> List {
        names.iter().filter_map(|name| self.by_name.get(name)).cloned().collect()
    }

    /// Those of a listener.
    pub fn of_listener(&self, listener: &str) -> List {
        self.listeners.get(listener).cloned().unwrap_or_default()
    }

    /// Whom the operators of several machines deny.
    pub fn denials(&self) -> &Denials {
        &self.denials
    }

    /// The policies that deny addresses, those that demand tokens, and those that demand passwords, of which some may be denied; by their names.
    pub fn denying(&self) -> [Vec<&str>; 3] {
        let named = |holds: fn(&ActivePolicy) -> bool| {
            let all = self.by_name.iter().filter(|(_, policy)| holds(policy));
            all.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        [
            named(|policy| policy.deny.is_some()),
            named(|policy| policy.config.jwt.is_some()),
            named(|policy| policy.config.basic.is_some()),
        ]
    }

    /// Has rates forget the keys that have their whole burst again.
    pub fn forget_old(&self) {
        for policy in self.by_name.values() {
            policy.rate.iter().for_each(|rate| rate.table.forget_old());
            policy.bandwidth.iter().for_each(|(_, tables)| tables.forget_old());
        }
    }

    /// Where nodes share rates, if they do.
    pub fn rate_store(&self) -> Option<&Arc<RateStore>> {
        self.store.as_ref()
    }

    /// The rates that nodes share.
    pub fn shared_rates(&self) -> Vec<SharedRate> {
        self.by_name.values().filter_map(|policy| policy.shared_rate()).collect()
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
        let mut all = route.iter().chain(around.into_iter().flatten().flat_map(|list| &**list));
        all.find_map(|policy| Some((&**policy, policy.config.cors.as_ref()?)))
    }

    /// The switches of policies, which somebody has to look after.
    pub fn switches(&self) -> Vec<Switch> {
        self.by_name.values().filter_map(|policy| policy.maintenance.clone()).collect()
    }

    /// The switches of policies, with the names of these.
    pub fn named_switches(&self) -> Vec<(&str, Switch)> {
        let switch = |policy: &'_ Arc<ActivePolicy>| policy.maintenance.clone();
        let named = self.by_name.iter().filter_map(|(name, policy)| Some((name.as_ref(), switch(policy)?)));
        let mut named: Vec<(&str, Switch)> = named.collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named
    }

    /// Those of the listener and the host of a request, whatever its route.
    pub fn around(&self, listener: &str, head: &RequestHead) -> impl Iterator<Item = &Arc<ActivePolicy>> {
        let lists = [self.listeners.get(listener), self.hosts.find(head.host())];
        lists.into_iter().flatten().flat_map(|list| &**list)
    }

    /// Those of a route.
    pub fn of_route(&self, route: usize) -> &[Arc<ActivePolicy>] {
        self.routes.get(route).map(|list| &**list).unwrap_or_default()
    }
}
