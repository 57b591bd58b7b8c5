//! What is said of a dry run, as values that a command prints.

use config::{
    Action, Balance, Config, ForwardTo, HashKey, HeaderEdits, HostRewrite, ListenerConfig, Mode, REDACTED, RouteConfig,
    SendProxy, ServerConfig, Service, UpstreamConfig, UpstreamProtocol, is_field_with_credential,
};
use reason::Reason;
use telemetry::Decision;
use wire::http::RequestHead;

use super::kept::Kept;
use super::question::Question;
use crate::generation::Generation;
use crate::guard::rehearse_connection;
use crate::message::context::Context;
use crate::message::dry_run::{Check, DryRun, Forwarded, Outcome, PolicyNote};
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::policies::List;
use crate::route::{Contender, Routed, Standing};
use crate::tunnel_routes::Known;
use crate::upstream::Group;

/// A field: name and value.
pub type Field = (Vec<u8>, Vec<u8>);

/// What becomes of a request.
#[derive(Debug, Default)]
pub struct Explanation {
    /// The listener.
    pub listener: ListenerView,
    /// The handshake; none in the clear.
    pub tls: Option<TlsView>,
    /// Where bytes go, if the listener tunnels.
    pub tunnel: Option<TunnelView>,
    /// Whom trusted proxies name, if not who connects.
    pub client: Option<ClientView>,
    /// Fields of the request (lower case) that end before anything looks at it.
    pub removed: Vec<String>,
    /// It is a preflight (Fetch §3.3.5), and decided by the route of the request that it announces: the method of that.
    pub announced: Option<String>,
    /// Its routes; none where no head came to be routed.
    pub routes: Option<RoutesView>,
    /// Policies, in the order in which they are asked.
    pub policies: Vec<PolicyView>,
    /// Its contract, if it is under one that was asked.
    pub contract: Option<ContractView>,
    /// Who gets it.
    pub upstream: Option<UpstreamView>,
    /// The response, as far as it is ours.
    pub response: ResponseView,
}

/// A listener.
#[derive(Debug, Default)]
pub struct ListenerView {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub bind: Vec<String>,
    /// What it does: `http`, `tunnel` or `redirect_to_https`.
    pub service: &'static str,
    /// Why this one: `name` where it was said, `port`, or `scheme` where it is the only one of the URL's.
    pub chosen_by: &'static str,
    /// It takes PROXY headers.
    pub proxy_protocol: bool,
    pub(super) bound_port: u16,
}

/// A handshake.
#[derive(Debug, Default)]
pub struct TlsView {
    /// The server name that is sent.
    pub server_name: Option<String>,
    /// The keystore.
    pub keystore: String,
    /// Names of the certificate.
    pub names: Vec<String>,
    /// It is the one for clients without a known name.
    pub is_default: bool,
    /// Type of its key.
    pub key_type: String,
    /// A key server has the key.
    pub key_on_key_server: bool,
    /// The day on which it ends.
    pub not_after: Option<String>,
    /// File and alias.
    pub origin: String,
    /// The policy.
    pub policy: String,
    /// The lowest version.
    pub min_version: &'static str,
    /// Protocols, in our order.
    pub alpn: Vec<String>,
    /// Whether the client is asked for a certificate: `none`, `optional`, `required`.
    pub client_certificate: &'static str,
    /// One is required and none is shown: the handshake fails, and what is said of the request holds if it had been shown.
    pub lacks_certificate: bool,
    /// The alert that ends the handshake.
    pub rejected: Option<&'static str>,
}

/// A tunnel.
#[derive(Debug)]
pub struct TunnelView {
    /// Who gets it; none where no rule fits.
    pub upstream: Option<String>,
    /// Names of the rule; empty where it has none.
    pub rule: String,
    /// TLS is passed through.
    pub passthrough: bool,
    /// Its servers, as configured.
    pub servers: Vec<Server>,
    /// The PROXY header that goes ahead of the bytes.
    pub send_proxy: Option<&'static str>,
    /// Its connections come from the client's own address.
    pub is_transparent: bool,
    /// A policy keeps the connection out.
    pub is_denied: bool,
}

/// Who a request comes from.
#[derive(Debug)]
pub struct ClientView {
    /// The client.
    pub address: String,
    /// The proxy that names it, or says something that is no address.
    pub proxy: String,
    /// It says something that is no address.
    pub is_doubtful: bool,
}

/// The routes of a request.
#[derive(Debug, Default)]
pub struct RoutesView {
    /// Those whose path fits; the one that is taken is among them, if there is one.
    pub contenders: Vec<RouteView>,
    /// Routes whose path does not fit.
    pub others: usize,
    /// Parameters of the path that is taken.
    pub parameters: Vec<(String, String)>,
}

impl RoutesView {
    /// The one that is taken.
    pub fn taken(&self) -> Option<&RouteView> {
        self.contenders.iter().find(|route| route.standing == Standing::Taken)
    }
}

/// A route.
#[derive(Debug)]
pub struct RouteView {
    /// Its name.
    pub name: String,
    /// Where it stands: file and line.
    pub place: String,
    /// Its path.
    pub path: String,
    /// Its hosts; empty for any.
    pub hosts: Vec<String>,
    /// What it does: `forward`, `redirect`, `respond` or `validate`.
    pub action: &'static str,
    /// How it stands to the request.
    pub standing: Standing,
    /// If it is taken: what of its conditions, if they are a tree, makes them hold.
    pub because: Option<String>,
}

/// A policy.
#[derive(Debug)]
pub struct PolicyView {
    /// Its name.
    pub name: String,
    /// Where it is named: `listener`, `host`, `route`, or `rule` of a tunnel.
    pub named_by: &'static str,
    /// It only logs.
    pub logs_only: bool,
    /// What it looks at.
    pub checks: Vec<Check>,
}

impl PolicyView {
    /// What it says in all.
    pub fn outcome(&self) -> Outcome {
        let all = || self.checks.iter().map(|check| check.outcome);
        let rejected = all().find(|outcome| matches!(outcome, Outcome::Rejected(..)));
        let unknown = all().find(|outcome| *outcome == Outcome::Unknown);
        rejected.or(unknown).unwrap_or(Outcome::Passed)
    }
}

/// What a contract says.
#[derive(Debug)]
pub struct ContractView {
    /// Its name.
    pub name: String,
    /// Method and path of the operation; empty where the document has none.
    pub operation: String,
    /// What becomes of requests that break it: `block`, `log` or `off`.
    pub mode: &'static str,
    /// `passed`, `blocked`, `logged`, `off`; `unknown` of a request of which only the line is known.
    pub decision: &'static str,
    /// Why, if it is broken.
    pub reason: Option<Reason>,
    /// Where.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// How much is.
    pub violations: u32,
    /// It holds a token of which only others know whether it is good.
    pub leaves_token: bool,
}

/// Who gets a request, and how.
#[derive(Debug)]
pub struct UpstreamView {
    /// Its group of servers, or those that share such requests by their weights.
    pub groups: Vec<GroupView>,
    /// The request line, as for the first group.
    pub line: String,
    /// The fields.
    pub fields: Vec<Field>,
    /// The PROXY header that goes ahead, and whom it names; nobody where that is not certain.
    pub header: Option<(&'static str, Option<String>)>,
    /// The client's own address, where the connection comes from it.
    pub source: Option<String>,
    /// The server decides on Host.
    pub host_of_server: bool,
    /// Who gets copies, and of how many in a hundred.
    pub mirror: Option<(String, u32)>,
}

/// A group of servers as configured.
#[derive(Debug)]
pub struct GroupView {
    /// Its name.
    pub name: String,
    /// Its weight among those that share a request.
    pub weight: u32,
    /// The protocol: `http1`, `http2` or `auto`.
    pub protocol: &'static str,
    /// TLS to the servers.
    pub tls: bool,
    /// How a server is chosen; empty where the request names it.
    pub balance: String,
    /// The servers.
    pub servers: Vec<Server>,
}

/// A server as configured.
#[derive(Debug)]
pub struct Server {
    /// Its address.
    pub address: String,
    /// Its weight.
    pub weight: u32,
    /// Servers of a lower number go first.
    pub priority: u32,
    /// It stands in for all others.
    pub is_backup: bool,
}

/// A response.
#[derive(Debug, Default)]
pub struct ResponseView {
    /// Its status; none where the upstream responds, or the connection ends.
    pub status: Option<u16>,
    /// Why it is not what was asked for.
    pub reason: Option<Reason>,
    /// Its fields; of an upstream's response, those that a policy sets.
    pub fields: Vec<Field>,
    /// Its body, cut.
    pub body: Vec<u8>,
}

/// The response to a head that could not be read.
pub(super) fn rejected(rejection: &Rejection, ledger: &Ledger) -> ResponseView {
    ResponseView { status: Some(rejection.status), reason: ledger.reason(), ..ResponseView::default() }
}

/// Where a tunnel leads, and what its policies say of the client.
pub(super) fn tunnel(
    generation: &Generation,
    listener: &ListenerConfig,
    question: &Question,
) -> Option<(TunnelView, Vec<PolicyView>)> {
    let routes = generation.tunnel_routes(&listener.name)?;
    let name = Some(question.url.host.as_str()).filter(|_| question.url.is_https);
    let known = Known {
        name,
        protocols: &[b"h2", b"http/1.1"],
        client: Some(question.client),
        is_opened: !routes.has_passthrough(),
    };
    let found = routes.find(known);
    // Those of the listener are asked before anything is read, those of the rule once it is known.
    let own = generation.policies.of_listener(&listener.name);
    let mut notes = DryRun::default();
    let mut ask =
        |list: &List| list.iter().all(|policy| rehearse_connection(policy, Some(question.client), &mut notes));
    let is_denied = !(ask(&own) && found.is_none_or(|route| ask(&route.policies)));
    let view = |(at, note): (usize, &PolicyNote)| policy_view(note, if at < own.len() { "listener" } else { "rule" });
    let policies = notes.policies.iter().enumerate().map(view).collect();
    let config = found.map(|route| &route.group.config);
    let view = TunnelView {
        servers: config.map(|config| servers(config)).unwrap_or_default(),
        send_proxy: config.and_then(|config| header(config.send_proxy)),
        is_transparent: config.is_some_and(|config| config.source.client),
        is_denied,
        upstream: found.map(|route| route.group.config.name.clone()),
        rule: found.map(|route| route.whom()).unwrap_or_default(),
        passthrough: found.is_some_and(|route| route.passthrough),
    };
    Some((view, policies))
}

/// What a PROXY header is called in the configuration; none for none.
fn header(version: SendProxy) -> Option<&'static str> {
    match version {
        SendProxy::Off => None,
        SendProxy::V1 => Some("v1"),
        SendProxy::V2 => Some("v2"),
        SendProxy::V2Tlvs => Some("v2_tlvs"),
    }
}

fn servers(config: &UpstreamConfig) -> Vec<Server> {
    let view = |server: &ServerConfig| Server {
        address: address(&server.address),
        weight: server.weight,
        priority: server.priority,
        is_backup: server.is_backup,
    };
    config.servers.iter().map(view).collect()
}

/// Says what became of a request.
pub(super) fn fill(
    explanation: &mut Explanation,
    context: Context<'_>,
    head: &RequestHead,
    (kept, ledger): (&Kept, &Ledger),
    is_aborted: bool,
) {
    let generation = context.generation;
    let client = &context.client;
    explanation.client = client.via_trusted.then(|| ClientView {
        address: client.address.map(|address| address.to_string()).unwrap_or_default(),
        proxy: client.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        is_doubtful: client.is_doubtful,
    });
    if let Service::Http = context.conn.listener.service {
        let announced = ledger.dry_run.as_ref().and_then(|notes| notes.announced.clone());
        explanation.announced = announced.as_ref().map(|method| method.as_str().to_owned());
        explanation.routes = Some(match announced {
            Some(method) => routes(context, &RequestHead { method, ..head.clone() }),
            None => routes(context, head),
        });
    }
    let Some(notes) = ledger.dry_run.as_deref() else { return };
    explanation.policies = policies(context, head, &notes.policies);
    explanation.contract = contract(ledger, notes);
    let route = ledger.route.as_deref();
    let forwarded = notes.forwarded.as_ref().filter(|_| !is_aborted && kept.status == 0);
    explanation.upstream = forwarded.zip(route).map(|(sent, route)| upstream(generation, sent, route));
    let is_ours = kept.status != 0;
    explanation.response = ResponseView {
        status: is_ours.then_some(if ledger.status == 0 { kept.status } else { ledger.status }),
        reason: ledger.reason(),
        fields: without_secrets(
            &if is_ours { kept.fields.clone() } else { kept.decoration() },
            route.map(|route| &route.response_headers),
            &generation.config,
        ),
        body: kept.body.clone(),
    };
}

fn routes(context: Context<'_>, head: &RequestHead) -> RoutesView {
    let table = &context.generation.routes;
    let (listener, sought) = (&context.conn.listener.name, context.sought(head));
    let contenders = table.contenders(listener, &sought);
    let others = table.routes().len() - contenders.len();
    let contenders = contenders.into_iter().map(route_view).collect();
    let parameters = match table.find(listener, sought) {
        Routed::Found(route, params) => {
            let value = |at: usize| params.value(head.path(), at).unwrap_or_default();
            let named = route.config.path.parameters().enumerate();
            named.map(|(at, name)| (name.to_owned(), String::from_utf8_lossy(value(at)).into_owned())).collect()
        }
        _ => Vec::new(),
    };
    RoutesView { contenders, others, parameters }
}

fn route_view(contender: Contender<'_>) -> RouteView {
    let config = &contender.route.config;
    RouteView {
        name: config.name.clone(),
        place: config.place.clone(),
        path: config.path.text.clone(),
        hosts: config.hosts.iter().map(ToString::to_string).collect(),
        action: match config.action {
            Action::Forward(_) => "forward",
            Action::Redirect { .. } => "redirect",
            Action::Respond { .. } => "respond",
            Action::Validate(_) => "validate",
        },
        standing: contender.standing,
        because: contender.because,
    }
}

/// They are asked in this order: those of the listener, of the host, of the route.
fn policies(context: Context<'_>, head: &RequestHead, notes: &[PolicyNote]) -> Vec<PolicyView> {
    let listener = &context.conn.listener;
    let of_listener = listener.policies.len();
    let around = context.generation.policies.around(&listener.name, head).count();
    let named_by = |at: usize| match at {
        at if at < of_listener => "listener",
        at if at < around => "host",
        _ => "route",
    };
    let hide = |mut view: PolicyView| {
        let environment = &context.generation.config.environment;
        view.checks.iter_mut().for_each(|check| check.about = environment.hide(&check.about));
        view
    };
    notes.iter().enumerate().map(|(at, note)| hide(policy_view(note, named_by(at)))).collect()
}

fn policy_view(note: &PolicyNote, named_by: &'static str) -> PolicyView {
    PolicyView { name: note.name.clone(), named_by, logs_only: note.logs_only, checks: note.checks.clone() }
}

/// Fields without secrets of the configuration: what a route writes into a field that looks like a credential, and what a variable of the environment put in.
fn without_secrets(fields: &[Field], edits: Option<&HeaderEdits>, config: &Config) -> Vec<Field> {
    let edited = |name: &str| edits.is_some_and(|edits| edits.set.iter().chain(&edits.add).any(|(own, _)| own == name));
    let shown = |(name, value): &Field| {
        let text = String::from_utf8_lossy(name).to_ascii_lowercase();
        if is_field_with_credential(&text) && edited(&text) {
            return (name.clone(), REDACTED.as_bytes().to_vec());
        }
        match std::str::from_utf8(value) {
            Ok(value) => (name.clone(), config.environment.hide(value).into_bytes()),
            Err(_) => (name.clone(), value.clone()),
        }
    };
    fields.iter().map(shown).collect()
}

fn contract(ledger: &Ledger, notes: &DryRun) -> Option<ContractView> {
    let note = ledger.contract.as_ref()?;
    let record = note.record();
    let decision = match record.decision {
        // Its head and body would have been validated.
        Decision::Off if notes.is_partial && note.mode() != Mode::Off => "unknown",
        decision => decision.as_str(),
    };
    Some(ContractView {
        name: record.contract.to_owned(),
        operation: record.operation.to_owned(),
        mode: match note.mode() {
            Mode::Block => "block",
            Mode::Log => "log",
            Mode::Off => "off",
        },
        decision,
        reason: record.reason,
        place: record.place.to_owned(),
        what: note.what().to_owned(),
        violations: record.violations,
        leaves_token: notes.leaves_token,
    })
}

fn upstream(generation: &Generation, sent: &Forwarded, route: &RouteConfig) -> UpstreamView {
    let forward = match &route.action {
        Action::Forward(forward) => Some(forward),
        _ => None,
    };
    let mirror = forward.and_then(|forward| forward.mirror.as_ref());
    let is_made = forward.is_some_and(|forward| matches!(forward.to, ForwardTo::Authority { .. }));
    UpstreamView {
        groups: sent.groups.iter().map(|(group, weight)| group_view(group, *weight, is_made)).collect(),
        line: generation.config.environment.hide(&sent.line),
        fields: without_secrets(&sent.fields, Some(&route.request_headers), &generation.config),
        header: sent
            .header
            .and_then(|(version, client)| Some((header(version)?, client.map(|client| client.to_string())))),
        source: sent.source.map(|source| source.to_string()),
        host_of_server: forward.is_some_and(|forward| forward.host == HostRewrite::Upstream),
        mirror: mirror
            .filter(|mirror| generation.group(&mirror.group).is_some())
            .map(|mirror| (mirror.group.clone(), mirror.percent)),
    }
}

fn group_view(group: &Group, weight: u32, is_made: bool) -> GroupView {
    let config = &group.config;
    GroupView {
        name: config.name.clone(),
        weight,
        protocol: match config.protocol {
            UpstreamProtocol::Http2 => "http2",
            UpstreamProtocol::Auto => "auto",
            _ => "http1",
        },
        tls: group.connector().is_some(),
        balance: if is_made { String::new() } else { balance(&config.balance) },
        servers: servers(config),
    }
}

fn address(address: &config::ServerAddress) -> String {
    match address {
        config::ServerAddress::Ip(address) => address.to_string(),
        config::ServerAddress::Name(name, port) => format!("{name}:{port}"),
        config::ServerAddress::Service(name) => format!("srv:{name}"),
        config::ServerAddress::Listed(listed) => listed.to_string(),
        config::ServerAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn balance(balance: &Balance) -> String {
    match balance {
        Balance::RoundRobin => "round_robin".to_owned(),
        Balance::LeastLoaded => "least_loaded".to_owned(),
        Balance::RandomTwo => "random_two".to_owned(),
        Balance::Hash { key, .. } => match key {
            HashKey::Client => "hash of client".to_owned(),
            HashKey::WholePath => "hash of path".to_owned(),
            HashKey::Target => "hash of path and query".to_owned(),
            HashKey::Header(name) => format!("hash of header {name}"),
            HashKey::Cookie(name) => format!("hash of cookie {name}"),
            HashKey::Path(name) => format!("hash of path parameter {name}"),
        },
    }
}
