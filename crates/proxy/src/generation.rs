//! One immutable generation of everything a reload can change.
//!
//! A generation is built whole or not at all. Requests pin the newest one when they begin; what keeps running in the background
//! (server health, connection pools) belongs to groups that pass from one generation to the next where their configuration is equal.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use config::{
    Action, Config, Endpoint, Forward, ForwardTo, HostPattern, KeystoreConfig, ListenerConfig, Place, Secret,
    ServerAddress, Service, TargetsConfig, TlsConfig, TlsSettings, Trust, UdpListenerConfig, is_in_network,
};

use telemetry::UpstreamView;

use crate::ambiguous_routes;
use crate::auth::{KeyRing, Verifiers, verifiers};
use crate::certificates::{self, IdentityTable, TlsFront, TlsRule};
use crate::client::TrustList;
use crate::configured_map::ConfiguredMap;
use crate::contracts::unusual_names::UnusualNames;
use crate::contracts::{ActiveContract, Contracts};
use crate::demands::OnDemand;
use crate::discovery::{Source, Sources};
use crate::doubtful;
use crate::geoip::Geoip;
use crate::hello_keys::HelloKeys;
use crate::issuance::Issuance;
use crate::keyless::KeyGroup;
use crate::policies::{List, Policies};
use crate::reach;
use crate::redirects;
use crate::responses::Responses;
use crate::route::RouteTable;
use crate::tunnel_routes::TunnelRoutes;
use crate::twins;
use crate::upstream::{Group, Name};

/// A key ring that is fetched, and the way to its set.
pub type Fetched = (Arc<KeyRing>, Arc<Group>);

/// Why a generation could not be built.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BuildError {
    /// Everything that is wrong.
    pub problems: Vec<String>,
    /// Keystores that are among it.
    pub failed_keystores: Vec<String>,
}

impl From<Vec<String>> for BuildError {
    fn from(problems: Vec<String>) -> BuildError {
        BuildError { problems, failed_keystores: Vec::new() }
    }
}

/// Everything a request is served under.
#[derive(Debug)]
pub struct Generation {
    /// Counts up from 1.
    pub number: u64,
    /// As configured.
    pub config: Arc<Config>,
    /// Its routes.
    pub routes: RouteTable,
    /// Where addresses are.
    pub geoip: Arc<Geoip>,
    /// How tokens are verified.
    verifiers: Verifiers,
    /// Its contracts.
    pub contracts: Contracts,
    /// Its policies.
    pub policies: Policies,
    /// Field names that may be read as others.
    pub unusual_names: UnusualNames,
    /// Its error pages, and bodies from files.
    pub responses: Responses,
    /// What ClientHellos may be encrypted for.
    pub hello_keys: Option<HelloKeys>,
    /// Its keystores as read from disk.
    pub stores: BTreeMap<String, Arc<keystore::Store>>,
    tables: BTreeMap<String, Arc<IdentityTable>>,
    /// Looked up for every request under TLS.
    fronts: ConfiguredMap<String, Arc<TlsFront>>,
    /// Peers whose PROXY headers are believed, by listener.
    balancers: HashMap<String, TrustList>,
    /// Who gets the bytes of listeners that tunnel, by listener.
    tunnel_routes: HashMap<String, Arc<TunnelRoutes>>,
    groups: BTreeMap<String, Arc<Group>>,
    /// Directories that say which servers there are.
    pub sources: Sources,
    key_groups: BTreeMap<String, Arc<KeyGroup>>,
    /// What is needed to order certificates.
    pub issuance: Issuance,
    /// What groups made from requests are modelled on, by route.
    models: HashMap<usize, Group>,
    /// Groups made from requests, by authority. Locked only by routes that make them.
    made: Mutex<HashMap<Vec<u8>, Arc<Group>>>,
    listeners: HashMap<Place<Endpoint>, Arc<ListenerConfig>>,
    udp_listeners: HashMap<Place<SocketAddr>, Arc<UdpRule>>,
    quic_listeners: HashMap<Place<SocketAddr>, Arc<ListenerConfig>>,
}

impl Generation {
    /// Builds the generation after `previous`. Reads keystores and TLS files.
    ///
    /// # Errors
    /// Everything that is wrong; nothing was changed.
    pub fn build(config: Arc<Config>, previous: Option<&Generation>) -> Result<Generation, BuildError> {
        let mut problems = Vec::new();
        let mut failed_keystores = Vec::new();
        let stores = load_stores(&config, previous, &mut problems, &mut failed_keystores);
        let routes = RouteTable::compile(&config).map_err(|conflicts| problems.extend(conflicts)).ok();
        let tables = build_tables(&config, &stores, previous, &mut problems);
        let key_groups = build_key_groups(&config, previous, &mut problems);
        let issuance = Issuance::build(&config, previous.map(|previous| &previous.issuance), &mut problems);
        let fronts = build_fronts(&config, &tables, (&key_groups, &issuance), &mut problems);
        let balancers = load_balancers(&config, &mut problems);
        let groups = build_groups(&config, previous, &mut problems);
        let sources = Sources::load(&config, previous.map(|previous| &previous.sources));
        let sources = sources.map_err(|found| problems.extend(found)).unwrap_or_default();
        let models = build_models(&config, &mut problems);
        let verifiers = Verifiers::load(&config, previous.map(|previous| &previous.verifiers));
        let verifiers = verifiers.map_err(|found| problems.extend(found)).unwrap_or_default();
        let contracts = Contracts::load(&config, &verifiers, previous.map(|previous| &previous.contracts));
        let contracts = contracts.map_err(|found| problems.extend(found)).ok();
        let unusual_names = UnusualNames::of(&config, contracts.as_ref());
        let geoip = Geoip::load(&config.geoip, previous.map(|previous| &*previous.geoip));
        let geoip = Arc::new(geoip.map_err(|found| problems.extend(found)).unwrap_or_default());
        let policies = Policies::load(&config, (&verifiers, &geoip), previous.map(|previous| &previous.policies));
        let policies = policies.map_err(|found| problems.extend(found)).ok();
        // Where they could not be loaded, that is said already.
        let none = Policies::default();
        let connection_policies = policies.as_ref().unwrap_or(&none);
        let tunnel_routes = build_tunnel_routes(&config, &groups, connection_policies, &mut problems);
        let udp_listeners = build_udp_listeners(&config, (connection_policies, &groups), previous, &mut problems);
        let responses = Responses::load(&config).map_err(|found| problems.extend(found)).ok();
        let hello_keys = config.ech_keys.as_deref().map(HelloKeys::load).transpose();
        let hello_keys = hello_keys.map_err(|problem| problems.push(problem)).unwrap_or_default();
        match (routes, contracts, policies, responses) {
            (Some(routes), Some(contracts), Some(policies), Some(responses)) if problems.is_empty() => Ok(Generation {
                verifiers,
                geoip,
                contracts,
                policies,
                unusual_names,
                responses,
                hello_keys,
                number: previous.map_or(0, |previous| previous.number) + 1,
                routes,
                stores,
                tables,
                fronts,
                balancers,
                tunnel_routes,
                groups,
                sources,
                key_groups,
                issuance,
                models,
                made: Mutex::default(),
                listeners: listeners_by_place(&config),
                quic_listeners: quic_listeners_by_place(&config),
                udp_listeners,
                config,
            }),
            _ => Err(BuildError { problems, failed_keystores }),
        }
    }

    /// What is wrong with the routes, and with the keystores, trust lists and contracts that a configuration with problems names, as far as it could
    /// be read. Files that are not there, or are none, are not told again.
    pub fn check(config: &Config) -> Vec<String> {
        let mut problems = RouteTable::compile(config).err().unwrap_or_default();
        for (name, keystore) in &config.keystores {
            let location = keystore.location.path();
            let has_password = !matches!(&keystore.password, Some(Secret::File(path)) if !path.is_file());
            if has_password && (location.is_file() || location.is_dir()) {
                note_keystore(name, load_store(keystore, None).err(), &mut problems);
            }
        }
        let is_there = |trust: &Trust| !matches!(trust, Trust::File(path) if !path.is_file());
        for listener in &config.listeners {
            let trust = listener.proxy_protocol.as_ref().map(|rule| &rule.trust).filter(|trust| is_there(trust));
            note_trust("listener", &listener.name, trust.and_then(|trust| TrustList::load(trust).err()), &mut problems);
        }
        for listener in config.udp_listeners.iter().filter(|listener| is_there(&listener.trust)) {
            note_trust("UDP listener", &listener.name, TrustList::load(&listener.trust).err(), &mut problems);
        }
        let whole = config.contracts.values().filter(|contract| contract.files().iter().all(|file| file.is_file()));
        problems
            .extend(whole.filter_map(|contract| ActiveContract::load(contract, config, None, None).err()).flatten());
        problems
    }

    /// What is allowed and may still not be meant, for `check` and the log.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let contracts = self.contracts.all().flat_map(|contract| {
            contract.warnings.iter().map(|warning| format!("contract {}: {warning}", contract.name))
        });
        let routes = reach::warnings(&self.config).into_iter().chain(config::variable_warnings(&self.config));
        let doubtful = doubtful::warnings(&self.config, |listener| self.front(listener).map(Arc::as_ref));
        let redirects = redirects::warnings(&self.config, &self.routes);
        let routes = routes.chain(self.routes.unreachable());
        let routes = routes.chain(ambiguous_routes::warnings(&self.config, &self.routes));
        let twins = twins::warnings(&self.config, &self.routes, &self.contracts);
        let public_names = self.hello_keys.iter().flat_map(|keys| keys.public_names.iter().map(|name| &**name));
        let doubtful =
            doubtful.into_iter().chain(doubtful::covers_without_certificate(&self.config, public_names, |listener| {
                self.front(listener).map(Arc::as_ref)
            }));
        contracts.chain(routes).chain(redirects).chain(twins).chain(verifiers::warnings(&self.config)).chain(doubtful)
    }

    /// The listener whose socket this is.
    pub fn listener(&self, place: &Place<Endpoint>) -> Option<&Arc<ListenerConfig>> {
        self.listeners.get(place)
    }

    /// The UDP listener whose socket this is.
    pub fn udp_listener(&self, place: &Place<SocketAddr>) -> Option<&Arc<UdpRule>> {
        self.udp_listeners.get(place)
    }

    /// The listener that serves HTTP/3 on this socket.
    pub fn quic_listener(&self, place: &Place<SocketAddr>) -> Option<&Arc<ListenerConfig>> {
        self.quic_listeners.get(place)
    }

    /// Whether any listener serves HTTP/3.
    pub fn serves_http3(&self) -> bool {
        !self.quic_listeners.is_empty()
    }

    /// Whether responses of a listener say that it serves HTTP/3: not where keys are on a key server, for which handshakes of QUIC cannot wait.
    pub fn announces_http3(&self, listener: &str) -> bool {
        self.quic_listeners.values().any(|one| one.name == listener)
            && self.front(listener).is_some_and(|front| front.key_group().is_none())
    }

    /// Names and rules of a TLS listener.
    pub fn front(&self, listener: &str) -> Option<&Arc<TlsFront>> {
        self.fronts.get(listener)
    }

    /// Peers whose PROXY headers a listener believes; none if it takes no headers.
    pub fn balancers(&self, listener: &str) -> Option<&TrustList> {
        self.balancers.get(listener)
    }

    /// Who gets the bytes of a listener that tunnels.
    pub fn tunnel_routes(&self, listener: &str) -> Option<&Arc<TunnelRoutes>> {
        self.tunnel_routes.get(listener)
    }

    /// An upstream group.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// How the upstreams of the configuration stand; not those that requests made.
    pub fn upstream_views(&self) -> Vec<UpstreamView> {
        self.groups.values().map(|group| group.view()).collect()
    }

    /// All upstream groups, those made from requests and those of key servers included.
    pub fn all_groups(&self) -> Vec<Arc<Group>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let key_servers = self.key_groups.values().map(|group| &group.servers);
        let keys = self.verifiers.fetched_keys().map(|(_, group)| group);
        let documents = self.contracts.all().filter_map(|contract| contract.fetched_document());
        let own = self.groups.values().chain(made.values()).chain(key_servers).chain(self.issuance.groups()).cloned();
        let store = self.policies.rate_store().map(|store| Arc::clone(&store.group));
        let asked = self.verifiers.asked().chain(store).chain(self.sources.groups());
        own.chain(keys).chain(documents).chain(asked).collect()
    }

    /// Services that directories are asked for: the group whose servers they are, and where they are listed.
    pub fn listed(&self) -> Vec<(Arc<Group>, Arc<Name>, Arc<Source>)> {
        let names = self.groups.values().flat_map(|group| group.names().iter().map(move |name| (group, name)));
        let listed = names.filter_map(|(group, name)| {
            let source = self.sources.get(name.source()?)?;
            Some((Arc::clone(group), Arc::clone(name), Arc::clone(source)))
        });
        listed.collect()
    }

    /// The group of key servers with this name.
    pub fn key_group(&self, name: &str) -> Option<&Arc<KeyGroup>> {
        self.key_groups.get(name)
    }

    /// All groups of key servers.
    pub fn key_groups(&self) -> impl Iterator<Item = &Arc<KeyGroup>> + Clone {
        self.key_groups.values()
    }

    /// Keys that are fetched, and the ways to them.
    pub fn fetched_keys(&self) -> Vec<Fetched> {
        self.verifiers.fetched_keys().collect()
    }

    /// The group for an authority (canonical) that a request gave to the route with this index; made at its first use.
    /// `check_addresses`: see [`Group::with_server`].
    pub fn made_group(&self, route: usize, authority: &[u8], check_addresses: bool) -> Option<Arc<Group>> {
        let model = self.models.get(&route)?;
        let mut key = route.to_be_bytes().to_vec();
        key.extend_from_slice(authority);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = made.get(&key) {
            return Some(Arc::clone(group));
        }
        if made.len() >= MOST_MADE_GROUPS {
            // Whoever asks for that many names gets no place to remember them in; those in use are kept by their requests.
            made.clear();
        }
        let name = std::str::from_utf8(authority).ok()?;
        let group =
            Arc::new(model.with_server(name, parse_authority(name, model.connector().is_some())?, check_addresses));
        made.insert(key, Arc::clone(&group));
        Some(group)
    }

    /// Whether a peer may speak for others.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        let proxies = &self.config.trusted_proxies;
        !proxies.is_empty() && peer.is_some_and(|peer| proxies.iter().any(|network| is_in_network(network, peer)))
    }
}

/// Groups made from requests that are remembered at once.
const MOST_MADE_GROUPS: usize = 1024;

/// `host[:port]` as the address of a server; the port of the scheme if there is none.
fn parse_authority(text: &str, is_tls: bool) -> Option<ServerAddress> {
    let default_port = if is_tls { 443 } else { 80 };
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(ServerAddress::Ip(address));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(ServerAddress::Ip(SocketAddr::new(address, default_port)));
    }
    match text.rsplit_once(':') {
        Some((host, port)) => Some(ServerAddress::Name(host.to_owned(), port.parse().ok()?)),
        None => Some(ServerAddress::Name(text.to_owned(), default_port)),
    }
}

fn build_models(config: &Config, problems: &mut Vec<String>) -> HashMap<usize, Group> {
    let mut models = HashMap::new();
    for (index, route) in config.routes.iter().enumerate() {
        let Action::Forward(Forward { to: ForwardTo::Authority { settings, .. }, .. }) = &route.action else {
            continue;
        };
        match Group::new(settings) {
            Ok(group) => _ = models.insert(index, group),
            Err(problem) => problems.push(format!("route {}: {problem}", route.name)),
        }
    }
    models
}

fn listeners_by_place(config: &Config) -> HashMap<Place<Endpoint>, Arc<ListenerConfig>> {
    let places =
        config.listeners.iter().flat_map(|listener| listener.places().map(|place| (place, Arc::clone(listener))));
    places.collect()
}

fn quic_listeners_by_place(config: &Config) -> HashMap<Place<SocketAddr>, Arc<ListenerConfig>> {
    let listeners = config.listeners.iter().filter(|listener| listener.options.http3.is_served);
    let places = |listener: &Arc<ListenerConfig>| {
        let listener = Arc::clone(listener);
        let places: Vec<_> = listener.places().filter_map(|place| place.of_udp()).collect();
        places.into_iter().map(move |place| (place, Arc::clone(&listener)))
    };
    listeners.flat_map(places).collect()
}

/// What datagrams of a UDP listener are served under.
#[derive(Debug)]
pub struct UdpRule {
    /// As configured.
    pub config: Arc<UdpListenerConfig>,
    /// Balancers whose headers are believed.
    pub trusted: TrustList,
    /// Policies that flows must pass.
    pub policies: List,
    /// Whose servers they go to, if that is no fixed target.
    pub group: Option<Arc<Group>>,
}

impl UdpRule {
    /// Whether another one says nothing else. Policies are made anew for each generation.
    fn is_same(&self, other: &UdpRule) -> bool {
        self.config == other.config
            && self.trusted == other.trusted
            && self.policies.is_empty()
            && other.policies.is_empty()
            && self.group.as_ref().map(Arc::as_ptr) == other.group.as_ref().map(Arc::as_ptr)
    }
}

/// With their lists of trusted networks read. What did not change stays the same value.
fn build_udp_listeners(
    config: &Config,
    (policies, groups): (&Policies, &BTreeMap<String, Arc<Group>>),
    previous: Option<&Generation>,
    problems: &mut Vec<String>,
) -> HashMap<Place<SocketAddr>, Arc<UdpRule>> {
    let mut by_place = HashMap::new();
    for listener in &config.udp_listeners {
        let trusted = TrustList::load(&listener.trust).unwrap_or_else(|texts| {
            note_trust("UDP listener", &listener.name, Some(texts), problems);
            TrustList::default()
        });
        let policies = policies.named(&listener.policies);
        let group = match &listener.to {
            TargetsConfig::Group(name) => groups.get(name).cloned(),
            TargetsConfig::Fixed { .. } | TargetsConfig::Destination { .. } => None,
        };
        let rule = UdpRule { config: Arc::clone(listener), trusted, policies, group };
        let before = listener.places().next().and_then(|place| previous?.udp_listener(&place));
        let rule = before.filter(|before| before.is_same(&rule)).cloned().unwrap_or_else(|| Arc::new(rule));
        by_place.extend(listener.places().map(|place| (place, Arc::clone(&rule))));
    }
    by_place
}

fn load_stores(
    config: &Config,
    previous: Option<&Generation>,
    problems: &mut Vec<String>,
    failed: &mut Vec<String>,
) -> BTreeMap<String, Arc<keystore::Store>> {
    let mut stores = BTreeMap::new();
    for (name, keystore) in &config.keystores {
        let before = previous.and_then(|previous| previous.stores.get(name));
        match load_store(keystore, before) {
            Ok(store) => _ = stores.insert(name.clone(), store),
            Err(texts) => {
                note_keystore(name, Some(texts), problems);
                failed.push(name.clone());
            }
        }
    }
    stores
}

fn note_keystore(name: &str, texts: Option<Vec<String>>, problems: &mut Vec<String>) {
    problems.extend(texts.into_iter().flatten().map(|text| format!("keystore {name}: {text}")));
}

/// Notes what is wrong with the trust list of a listener of that kind.
fn note_trust(kind: &str, name: &str, texts: Option<Vec<String>>, problems: &mut Vec<String>) {
    problems.extend(texts.into_iter().flatten().map(|text| format!("{kind} {name}: trust list {text}")));
}

fn load_store(
    keystore: &KeystoreConfig,
    before: Option<&Arc<keystore::Store>>,
) -> Result<Arc<keystore::Store>, Vec<String>> {
    let password = keystore.password.as_ref().map(Secret::read).transpose().map_err(|problem| vec![problem])?;
    let location = &keystore.location;
    let keys = match keystore.key_servers {
        Some(_) => keystore::Keys::InStoreOrElsewhere,
        None => keystore::Keys::InStore,
    };
    let reuse = before.map(Arc::as_ref);
    let loaded = match before {
        Some(before) if before.is_current(location, password.as_ref(), keys) => return Ok(Arc::clone(before)),
        _ if keystore.acme.is_some() => keystore::Store::load_growing(location.path(), keys, reuse),
        _ => keystore::Store::load_with(location, password.as_ref(), keys, reuse),
    };
    loaded.map(Arc::new).map_err(|error| error.problems)
}

/// The names of every keystore that a listener uses. One that is as it was keeps its table.
fn build_tables(
    config: &Config,
    stores: &BTreeMap<String, Arc<keystore::Store>>,
    previous: Option<&Generation>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Arc<IdentityTable>> {
    let mut tables: BTreeMap<String, Arc<IdentityTable>> = BTreeMap::new();
    for tls in config.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        let name = &tls.keystore;
        let Some(store) = stores.get(name).filter(|_| !tables.contains_key(name)) else { continue };
        let default = |config: &Config| config.keystores.get(name).and_then(|keystore| keystore.default.clone());
        // A certificate that is ordered comes when it comes.
        let grows = config.keystores.get(name).is_some_and(|keystore| keystore.acme.is_some());
        let kept = previous.filter(|previous| {
            let same_store = previous.stores.get(name).is_some_and(|before| Arc::ptr_eq(before, store));
            same_store && default(&previous.config) == default(config)
        });
        let table = match kept.and_then(|previous| previous.tables.get(name)) {
            Some(table) => Ok(Arc::clone(table)),
            None if grows => Ok(Arc::new(IdentityTable::growing(store, default(config).as_deref()))),
            None => IdentityTable::new(store, default(config).as_deref()).map(Arc::new),
        };
        // Where every listener rejects names without a certificate, a default is a choice.
        let mut users = config.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        let needs_default = users.any(|user| user.keystore == *name && !user.strict_sni);
        match table {
            Ok(table) if needs_default && !grows && !table.has_default() => {
                problems.push(format!("keystore {name}: {}", certificates::no_default(store)));
            }
            Ok(table) => _ = tables.insert(name.clone(), table),
            Err(problem) => problems.push(format!("keystore {name}: {problem}")),
        }
    }
    tables
}

fn build_fronts(
    config: &Config,
    tables: &BTreeMap<String, Arc<IdentityTable>>,
    (key_groups, issuance): (&BTreeMap<String, Arc<KeyGroup>>, &Issuance),
    problems: &mut Vec<String>,
) -> ConfiguredMap<String, Arc<TlsFront>> {
    let mut fronts = ConfiguredMap::default();
    let reads_ja4 = config.reads_ja4();
    for listener in &config.listeners {
        let Some(tls) = &listener.tls else { continue };
        let Some(table) = tables.get(&tls.keystore) else { continue };
        let keystore = config.keystores.get(&tls.keystore);
        let key_servers = keystore.and_then(|keystore| keystore.key_servers.as_deref());
        let key_group = key_servers.and_then(|name| key_groups.get(name)).cloned();
        let challenges = keystore.filter(|keystore| keystore.acme.is_some()).and_then(|_| issuance.challenges());
        match build_front(tls, table, key_group) {
            Ok(front) => {
                let acme = keystore.and_then(|keystore| keystore.acme.as_ref());
                let on_demand = acme.and_then(|acme| OnDemand::of(acme, issuance.demands(&tls.keystore)));
                let front = front.proving(challenges.cloned()).demanding(on_demand).noting_fingerprints(reads_ja4);
                fronts.insert(listener.name.clone(), Arc::new(front));
            }
            Err(problem) => problems.push(format!("listener {}: {problem}", listener.name)),
        }
    }
    fronts
}

fn build_front(
    tls: &TlsConfig,
    table: &Arc<IdentityTable>,
    key_group: Option<Arc<KeyGroup>>,
) -> Result<TlsFront, String> {
    let rule = |settings: &Arc<TlsSettings>| TlsRule::new(settings).map(Arc::new);
    let rules = tls
        .names
        .iter()
        .map(|(host, settings)| Ok((HostPattern::of_text(host), rule(settings)?)))
        .collect::<Result<_, String>>()?;
    let front = TlsFront::new(Arc::clone(table), rule(&tls.settings)?, rules, tls.strict_sni, key_group);
    Ok(front.requiring_sni(tls.require_sni))
}

fn build_key_groups(
    config: &Config,
    previous: Option<&Generation>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Arc<KeyGroup>> {
    let mut groups = BTreeMap::new();
    for (name, settings) in &config.key_servers {
        let before = previous.and_then(|previous| previous.key_groups.get(name));
        match KeyGroup::new(settings, before) {
            Ok(group) => _ = groups.insert(name.clone(), group),
            Err(problem) => problems.push(format!("key servers {name}: {problem}")),
        }
    }
    groups
}

fn load_balancers(config: &Config, problems: &mut Vec<String>) -> HashMap<String, TrustList> {
    let mut balancers = HashMap::new();
    for listener in &config.listeners {
        let Some(rule) = &listener.proxy_protocol else { continue };
        match TrustList::load(&rule.trust) {
            Ok(list) => _ = balancers.insert(listener.name.clone(), list),
            Err(texts) => note_trust("listener", &listener.name, Some(texts), problems),
        }
    }
    balancers
}

fn build_tunnel_routes(
    config: &Config,
    groups: &BTreeMap<String, Arc<Group>>,
    policies: &Policies,
    problems: &mut Vec<String>,
) -> HashMap<String, Arc<TunnelRoutes>> {
    let mut all = HashMap::new();
    for listener in &config.listeners {
        let Service::Tunnel(tunnel) = &listener.service else { continue };
        match TunnelRoutes::new(tunnel, groups, policies) {
            Ok(tunnel_routes) => _ = all.insert(listener.name.clone(), Arc::new(tunnel_routes)),
            // A group that could not be made has been reported.
            Err(_) if !problems.is_empty() => {}
            Err(problem) => problems.push(format!("listener {}: {problem}", listener.name)),
        }
    }
    all
}

fn build_groups(
    config: &Config,
    previous: Option<&Generation>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Arc<Group>> {
    let mut groups = BTreeMap::new();
    for (name, upstream) in &config.upstreams {
        let kept = previous.and_then(|previous| previous.group(name)).filter(|group| group.is_current(upstream));
        if let Some(group) = kept {
            groups.insert(name.clone(), Arc::clone(group));
            continue;
        }
        match Group::new(upstream) {
            Ok(group) => {
                // What operators say of a server is not of the configuration, and outlives a change of it.
                previous.and_then(|previous| previous.group(name)).iter().for_each(|before| group.go_on_from(before));
                groups.insert(name.clone(), Arc::new(group));
            }
            Err(problem) => problems.push(format!("upstream {name}: {problem}")),
        }
    }
    groups
}
