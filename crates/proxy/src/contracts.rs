//! A contract active: its document compiled, or its GraphQL schema, its lists and keys read, what holds for each of its operations.
//!
//! Built whole by a generation, or rejected with every problem; afterwards immutable. Which contract a request is under is decided here, too.

pub mod forwarded;
pub mod unusual_names;

use std::collections::BTreeMap;
use std::sync::Arc;

use config::{Config, ContractChoice, ContractConfig, Mode, RouteConfig};
use contract::Contract;
use contract::openapi::{Operation, Scheme, SchemeKind};
use contract::options::Undeclared;
use graphql::{Endpoint, requires_document};
use wire::http::RequestHead;

use self::unusual_names::UnusualNames;
use crate::auth::{DeniedTokens, Verifier, Verifiers};
use crate::client::AddressSet;
use crate::configured_map::ConfiguredMap;
use crate::host_map::HostMap;
use crate::upstream::Group;

/// A contract active.
#[derive(Debug)]
pub struct ActiveContract {
    /// As configured.
    pub config: Arc<ContractConfig>,
    /// Its name, for counters.
    pub name: Arc<str>,
    /// The document; of a GraphQL endpoint, what its requests look like around the query.
    pub contract: Contract,
    /// The schema of a GraphQL endpoint, and what it takes.
    pub graphql: Option<Endpoint>,
    /// What holds for each operation, by its number.
    rules: Vec<Rule>,
    /// How tokens are verified.
    pub verifier: Option<Arc<Verifier>>,
    /// Tokens that are rejected.
    pub denied: Option<DeniedTokens>,
    /// Clients that may speak.
    pub allowed: Option<AddressSet>,
    /// What is allowed and may still not be meant.
    pub warnings: Vec<String>,
    /// The way to a document at a URL.
    document_group: Option<Arc<Group>>,
    /// The document was never fetched, and something would be blocked by it: nobody knows what may pass.
    pub awaits_document: bool,
}

/// What holds for one operation.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Method and path, for logs and counters.
    pub label: Box<str>,
    /// What becomes of requests.
    pub request: Mode,
    /// What becomes of responses.
    pub response: Mode,
    /// Largest body as sent, bytes.
    pub max_body_bytes: u64,
    /// The decision depends on a field that does not go on as the client sends it.
    pub reads_rewritten: bool,
    /// Header fields with unusual names that requests may hold.
    pub unusual_names: Box<[Box<str>]>,
}

impl ActiveContract {
    /// Reads everything that a contract of this configuration names. `verifier` is the one of its `tokens`.
    ///
    /// # Errors
    /// Everything that is wrong, with file and line where there is one.
    pub fn load(
        config: &Arc<ContractConfig>,
        whole: &Config,
        verifier: Option<&Arc<Verifier>>,
        previous: Option<&ActiveContract>,
    ) -> Result<ActiveContract, Vec<String>> {
        let mut problems = Vec::new();
        let denied = config.deny_tokens.as_ref().map(DeniedTokens::load).transpose();
        let denied = denied.map_err(|problem| problems.push(problem)).ok().flatten();
        let allowed = config.allow_addresses.as_ref().map(|list| AddressSet::load(&list.file)).transpose();
        let allowed = allowed.map_err(|found| problems.extend(found)).ok().flatten();
        let document_group = document_group(config, previous);
        let document_group = document_group.map_err(|problem| problems.push(problem)).ok().flatten();
        let awaits_document = config.document_url.is_some() && !config.document.exists();
        let compiled = match awaits_document {
            true => nothing_yet(config).map_err(|found| problems.extend(found)).ok(),
            false => compiled(config, whole).map_err(|found| problems.extend(found)).ok(),
        };
        match compiled {
            Some(Compiled { contract, graphql, rules, warnings }) if problems.is_empty() => Ok(ActiveContract {
                name: config.name.as_str().into(),
                config: Arc::clone(config),
                contract,
                graphql,
                rules,
                verifier: verifier.cloned(),
                denied,
                allowed,
                document_group,
                awaits_document: awaits_document && blocks_anything(config),
                warnings,
            }),
            _ => Err(problems.into_iter().map(|problem| format!("contract {}: {problem}", config.name)).collect()),
        }
    }

    /// What holds for the operation with this number.
    pub fn rule(&self, operation: usize) -> Option<&Rule> {
        self.rules.get(operation)
    }

    /// Whether requests of any operation, or without one, are rejected for what the document says.
    pub fn blocks_requests(&self) -> bool {
        self.config.request == Mode::Block || self.rules.iter().any(|rule| rule.request == Mode::Block)
    }

    /// Whether a request may ask for another protocol, of which nothing can be validated: where the document declares the response 101 for its
    /// operation, or where neither requests nor responses are blocked.
    pub fn may_upgrade(&self, operation: Option<&Operation>) -> bool {
        let rule = operation.and_then(|operation| self.rule(operation.number()));
        let modes = rule.map_or([self.config.request, self.config.response], |rule| [rule.request, rule.response]);
        !modes.contains(&Mode::Block) || operation.is_some_and(|operation| operation.declares_status(101))
    }

    /// The way to a document that is fetched.
    pub fn fetched_document(&self) -> Option<Arc<Group>> {
        self.document_group.clone()
    }

    /// Whether this text could be the document of a contract.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check_document(config: &ContractConfig, whole: &Config, text: &str) -> Result<(), Vec<String>> {
        let file = config.document.to_string_lossy();
        let name = config.document_text.as_ref().map_or(&*file, |held| &held.name);
        of_document(config, whole, Contract::from_text(name, text, &options(config))).map(drop)
    }
}

/// Warnings of one document that are listed; `portunus contract check` lists all.
const MAX_LISTED: usize = 20;

/// What is wrong with the document and does not keep it from being loaded, the worse first.
fn document_warnings(contract: &Contract) -> Vec<String> {
    let errors = contract.errors().iter().map(|problem| format!("{problem}; its messages are rejected"));
    let all: Vec<String> = errors.chain(contract.warnings().iter().map(ToString::to_string)).collect();
    let more = all.len().saturating_sub(MAX_LISTED);
    let mut listed: Vec<String> = all.into_iter().take(MAX_LISTED).collect();
    if more > 0 {
        listed.push(format!("and {more} more; `portunus contract check` lists all"));
    }
    listed
}

/// A document, and what it comes to under a configuration.
struct Compiled {
    contract: Contract,
    graphql: Option<Endpoint>,
    rules: Vec<Rule>,
    warnings: Vec<String>,
}

/// The document in its file. One that was fetched may not lead to other files of this machine.
fn compiled(config: &ContractConfig, whole: &Config) -> Result<Compiled, Vec<String>> {
    if let Some(graphql) = &config.graphql {
        return of_schema(config, &graphql.options, whole);
    }
    let contract = match (&config.document_text, &config.document_url) {
        (Some(held), _) => Contract::from_text(&held.name, &held.text, &options(config)),
        (None, None) => Contract::load(&config.document, &options(config)),
        (None, Some(_)) => {
            let text = keystore::files::text(&config.document, config.options.limits.document_bytes as u64);
            let text = text.map_err(|error| vec![format!("{}: {error}", config.document.display())])?;
            Contract::from_text(&config.document.to_string_lossy(), &text, &options(config))
        }
    };
    of_document(config, whole, contract)
}

/// The schema in its file, and the document of what its requests look like.
fn of_schema(config: &ContractConfig, endpoint: &graphql::Options, whole: &Config) -> Result<Compiled, Vec<String>> {
    let name = config.document.display().to_string();
    let text = keystore::files::text(&config.document, config.options.limits.document_bytes as u64);
    let text = text.map_err(|error| vec![format!("{name}: {error}")])?;
    let endpoint = Endpoint::load(&name, &text, endpoint.clone())?;
    let contract = Contract::from_text("graphql.json", &requires_document(endpoint.options()), &options(config));
    let compiled = of_document(config, whole, contract)?;
    Ok(Compiled { graphql: Some(endpoint), ..compiled })
}

fn of_document(
    config: &ContractConfig,
    whole: &Config,
    contract: Result<Contract, Vec<contract::Problem>>,
) -> Result<Compiled, Vec<String>> {
    let contract = contract.map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let mut problems = Vec::new();
    let names = UnusualNames::of_config(whole);
    let rules = rules(config, &contract, (whole, &names), &mut problems);
    let mut warnings = document_warnings(&contract);
    warnings.extend(check_responses(config, &contract, &rules));
    warnings.extend(check_schemes(config, &contract, &mut problems));
    warnings.extend(check_fields(config, &contract, &rules, (whole, &names), &mut problems));
    if problems.is_empty() { Ok(Compiled { contract, graphql: None, rules, warnings }) } else { Err(problems) }
}

/// What the document does not say of responses that are blocked: what passes, and is listed as a shadow.
fn check_responses(config: &ContractConfig, contract: &Contract, rules: &[Rule]) -> Vec<String> {
    let document = config.document.display();
    let blocked = contract.operations().iter().zip(rules).filter(|(_, rule)| rule.response == Mode::Block);
    let blocked: Vec<&Operation> = blocked.map(|(operation, _)| operation).collect();
    let count = |is_open: fn(&Operation) -> bool| blocked.iter().filter(|operation| is_open(operation)).count();
    let (bodies, responses) = (count(Operation::leaves_bodies_open), count(Operation::leaves_responses_open));
    let warning = |number: usize, what: &str| {
        let all = contract.operations().len();
        format!(
            "{document}: {number} of {all} operations {what} passes unvalidated, and is listed (see \"Where a document says nothing\" in docs/api-contracts.md)"
        )
    };
    let options = &config.options;
    let mut warnings = Vec::new();
    if bodies > 0 && options.undeclared_response_body == Undeclared::Report {
        warnings.push(warning(bodies, "have a response without `content`: a body of it"));
    }
    if responses > 0 && options.undeclared_status != Undeclared::Ignore {
        warnings.push(warning(responses, "have no `responses`: each response"));
    }
    warnings
}

/// Whether any message may be rejected under the contract.
fn blocks_anything(config: &ContractConfig) -> bool {
    let own = config.operations.iter().flat_map(|rule| [rule.request, rule.response]).flatten();
    [config.request, config.response].into_iter().chain(own).any(|mode| mode == Mode::Block)
}

/// What stands for a document that was never fetched: one in which there is nothing.
fn nothing_yet(config: &ContractConfig) -> Result<Compiled, Vec<String>> {
    const NOTHING: &str = r#"{"openapi":"3.1.0","info":{"title":"","version":""},"paths":{}}"#;
    let contract = Contract::from_text("nothing.json", NOTHING, &options(config));
    let contract = contract.map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let place = config.document.display();
    let warnings = vec![format!("{place} is not there yet; until the document is fetched, requests are answered 503")];
    Ok(Compiled { contract, graphql: None, rules: Vec::new(), warnings })
}

fn document_group(config: &ContractConfig, previous: Option<&ActiveContract>) -> Result<Option<Arc<Group>>, String> {
    let Some(url) = &config.document_url else { return Ok(None) };
    let kept = previous.and_then(|previous| previous.document_group.as_ref());
    match kept.filter(|group| group.config == url.upstream && group.config.tls.is_none()) {
        Some(group) => Ok(Some(Arc::clone(group))),
        None => Group::new(&url.upstream).map(|group| Some(Arc::new(group))),
    }
}

/// The rule of each operation. What the configuration names and the document has not is a problem, and so are tokens that nobody could check.
fn rules(
    config: &ContractConfig,
    contract: &Contract,
    (whole, names): (&Config, &UnusualNames),
    problems: &mut Vec<String>,
) -> Vec<Rule> {
    let mut used = vec![false; config.operations.len()];
    let mut rules = Vec::new();
    for operation in contract.operations() {
        let path = operation.template();
        let mut rule = Rule {
            label: format!("{} {path}", operation.method()).into(),
            request: config.request,
            response: config.response,
            max_body_bytes: config.options.limits.body_bytes,
            reads_rewritten: forwarded::is_needed(operation, whole),
            unusual_names: names.usable(operation),
        };
        for (own, used) in config.operations.iter().zip(&mut used) {
            let method = own.methods.is_empty() || own.methods.iter().any(|one| one.as_str() == operation.method());
            if method && is_path_of(&own.path, path, config) {
                *used = true;
                rule.request = own.request.unwrap_or(rule.request);
                rule.response = own.response.unwrap_or(rule.response);
                rule.max_body_bytes = own.max_body_bytes.unwrap_or(rule.max_body_bytes);
            }
        }
        rules.push(rule);
    }
    for (own, _) in config.operations.iter().zip(used).filter(|(_, used)| !used) {
        let named: Vec<&str> = own.methods.iter().map(|method| method.as_str()).chain([own.path.as_str()]).collect();
        let named = named.join(" ");
        problems.push(format!("{}: `operations` names {named}, which the document does not have", config.place));
    }
    rules
}

/// How the document is read: the largest body of any operation is the largest one of all, and each operation has its own bound below.
fn options(config: &ContractConfig) -> contract::options::Options {
    let mut options = config.options.clone();
    let largest = config.operations.iter().filter_map(|rule| rule.max_body_bytes).max().unwrap_or(0);
    options.limits.body_bytes = options.limits.body_bytes.max(largest);
    options.limits.decoded_body_bytes = options.limits.decoded_body_bytes.max(options.limits.body_bytes);
    options
}

/// Whether a path of the configuration is this template of the document, with the base path before it or without.
fn is_path_of(own: &str, template: &str, config: &ContractConfig) -> bool {
    let base = config.options.base_path.as_deref().unwrap_or_default().trim_end_matches('/');
    own == template || own.strip_prefix(base).is_some_and(|rest| rest == template)
}

/// Whether a scheme's credential is a token by its very type, so that a contract without `tokens` cannot be kept.
fn needs_token(kind: &SchemeKind) -> bool {
    matches!(kind, SchemeKind::OAuth2 | SchemeKind::OpenIdConnect(_))
}

/// Whether a scheme's credential may be a bearer token: one of HTTP, or what a document calls an API key in Authorization, which upstreams read as one.
fn may_be_token(kind: &SchemeKind) -> bool {
    *kind == SchemeKind::Bearer || matches!(kind, SchemeKind::KeyInField(name) if name == "authorization")
}

/// Whether the credential of a scheme is a token that this contract verifies.
pub fn verifies_token(config: &ContractConfig, scheme: &Scheme) -> bool {
    let is_named = || config.bearer_schemes.as_ref().is_none_or(|names| names.contains(&scheme.name));
    config.tokens.is_some() && (needs_token(&scheme.kind) || (may_be_token(&scheme.kind) && is_named()))
}

/// What is wrong between the document's security schemes and `tokens`, and warnings of bearer credentials that nobody verifies here.
fn check_schemes(config: &ContractConfig, contract: &Contract, problems: &mut Vec<String>) -> Vec<String> {
    let document = config.document.display();
    let mut first_uses = BTreeMap::new();
    for operation in contract.operations() {
        for demand in operation.security().iter().flat_map(|requirement| &requirement.demands) {
            let label = || format!("{} {}", operation.method(), operation.template());
            first_uses.entry(demand.scheme.name.as_str()).or_insert_with(|| (&*demand.scheme, label()));
        }
    }
    let mut warnings = Vec::new();
    let named = config.bearer_schemes.as_ref();
    for (name, (scheme, operation)) in &first_uses {
        if needs_token(&scheme.kind) && config.tokens.is_none() {
            problems.push(format!(
                "{document}: {operation}: the scheme {name} demands tokens, and nothing says how to verify them: add `tokens` to the contract"
            ));
        } else if may_be_token(&scheme.kind) && !verifies_token(config, scheme) {
            let fix = match config.tokens.is_some() {
                true => "name the scheme in `bearer_schemes`",
                false => "add `tokens`",
            };
            warnings.push(format!(
                "{document}: {operation}: the bearer token of the scheme {name} must be present and is not verified here; {fix} to verify it"
            ));
        }
    }
    if config.tokens.is_none() {
        return warnings;
    }
    for name in named.into_iter().flatten() {
        if first_uses.get(name.as_str()).is_none_or(|(scheme, _)| !may_be_token(&scheme.kind)) {
            let what = "which is no scheme of type `http` and scheme `bearer`, nor an API key in `Authorization`, that an operation uses";
            problems.push(format!("{}: `bearer_schemes` names {name}, {what}; remove it", config.place));
        }
    }
    if !first_uses.values().any(|(scheme, _)| verifies_token(config, scheme)) {
        let what = "no operation of the document demands a bearer token, so `tokens` verifies nothing";
        let fix = "add `security` to the document's operations, or remove `tokens`";
        problems.push(format!("{}: {what}; {fix}", config.place));
    }
    warnings
}

/// What is wrong between the fields that the document declares and those that can arrive, and warnings of the same.
fn check_fields(
    config: &ContractConfig,
    contract: &Contract,
    rules: &[Rule],
    (whole, names): (&Config, &UnusualNames),
    problems: &mut Vec<String>,
) -> Vec<String> {
    let (found, mut warnings) = forwarded::never_arrive(config, contract, rules, whole);
    problems.extend(found);
    let (found, more) = names.unusable(config, contract, rules);
    problems.extend(found);
    warnings.extend(more);
    for route in whole.routes.iter().filter(|route| may_hold(config, route, whole)) {
        warnings.extend(forwarded::edited_by(route, config, contract, rules));
    }
    warnings
}

/// Whether requests on a route may be under a contract.
fn may_hold(config: &ContractConfig, route: &RouteConfig, whole: &Config) -> bool {
    match &route.contract {
        ContractChoice::Named(name) => *name == config.name,
        ContractChoice::None => false,
        ContractChoice::Inherited => {
            let is_visible =
                |listener: &str| route.listeners.is_empty() || route.listeners.iter().any(|own| own == listener);
            let names = |contract: &Option<String>| contract.as_deref() == Some(config.name.as_str());
            whole.host_rules.iter().any(|rule| rule.contract.as_ref() == Some(&config.name))
                || whole.listeners.iter().any(|listener| names(&listener.contract) && is_visible(&listener.name))
        }
    }
}

/// Which contract holds where.
#[derive(Debug, Default)]
pub struct Contracts {
    by_name: BTreeMap<String, Arc<ActiveContract>>,
    /// By route number.
    routes: Vec<OfRoute>,
    listeners: ConfiguredMap<String, Arc<ActiveContract>>,
    hosts: HostMap<Arc<ActiveContract>>,
}

/// Which contract a route is under.
#[derive(Debug, Default)]
enum OfRoute {
    #[default]
    Inherited,
    None,
    Named(Arc<ActiveContract>),
}

impl Contracts {
    /// Loads every contract of a configuration.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn load(
        config: &Config,
        verifiers: &Verifiers,
        previous: Option<&Contracts>,
    ) -> Result<Contracts, Vec<String>> {
        let mut contracts = Contracts::default();
        let mut problems = Vec::new();
        for (name, contract) in &config.contracts {
            let before = previous.and_then(|previous| previous.by_name.get(name)).map(Arc::as_ref);
            let verifier = contract.tokens.as_ref().and_then(|tokens| verifiers.get(&tokens.name));
            match ActiveContract::load(contract, config, verifier, before) {
                Ok(active) => _ = contracts.by_name.insert(name.clone(), Arc::new(active)),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let named = |name: &str| contracts.by_name.get(name).cloned();
        let of_route = |route: &RouteConfig| match &route.contract {
            ContractChoice::Inherited => Ok(OfRoute::Inherited),
            ContractChoice::None => Ok(OfRoute::None),
            // The configuration was checked; should a name not be there all the same, nothing may stand open for it.
            ContractChoice::Named(name) => {
                let missing = || vec![format!("route {}: there is no contract {name}", route.name)];
                named(name).map(OfRoute::Named).ok_or_else(missing)
            }
        };
        contracts.routes = config.routes.iter().map(of_route).collect::<Result<_, _>>()?;
        let of_listener = |listener: &Arc<config::ListenerConfig>| {
            Some((listener.name.clone(), named(listener.contract.as_deref()?)?))
        };
        contracts.listeners = config.listeners.iter().filter_map(of_listener).collect();
        contracts.hosts = config
            .host_rules
            .iter()
            .filter_map(|rule| Some((rule.host.clone(), named(rule.contract.as_ref()?)?)))
            .collect();
        Ok(contracts)
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The contract with this name.
    pub fn named(&self, name: &str) -> Option<&Arc<ActiveContract>> {
        self.by_name.get(name)
    }

    /// Whether any has a list of denied tokens.
    pub fn denies_tokens(&self) -> bool {
        self.by_name.values().any(|contract| contract.denied.is_some())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ActiveContract>> {
        self.by_name.values()
    }

    /// The contracts of the listener and the host of a request, whose lists hold whatever its route says.
    pub fn around(&self, listener: &str, head: &RequestHead) -> [Option<&Arc<ActiveContract>>; 2] {
        [self.listeners.get(listener), self.of_host(head.host())]
    }

    /// The contract that a request on a route is under.
    pub fn of(&self, route: usize, listener: &str, head: &RequestHead) -> Option<&Arc<ActiveContract>> {
        match self.routes.get(route) {
            Some(OfRoute::Named(contract)) => Some(contract),
            Some(OfRoute::None) => None,
            Some(OfRoute::Inherited) | None => self.of_host(head.host()).or_else(|| self.listeners.get(listener)),
        }
    }

    /// As routes are chosen.
    fn of_host(&self, host: &[u8]) -> Option<&Arc<ActiveContract>> {
        self.hosts.find(host)
    }
}
