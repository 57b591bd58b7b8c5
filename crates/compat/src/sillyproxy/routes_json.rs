//! `routes.json`: hosts, methods, path patterns and `Route` arrays, turned into routes and upstream groups. Every problem is reported at once,
//! with line and column.
//!
//! `docs/sillyproxy.md` lists where this departs from SillyProxy, and why.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use config::{
    Action, ContractChoice, Ejection, Forward, ForwardTo, HeaderEdits, HostPattern, HostRewrite, Leniency,
    ResponseRules, RouteConfig, RouteOptions, Segment, ServerConfig, UpstreamConfig, UpstreamTls,
};
use wire::http::Method;
use wire::http::target::canonical_authority;

use super::json::{self, Node, Place, Value};
use super::pattern;
use super::upstream_url::{self, Authority, Element};

/// Largest request body: SillyProxy bounds bodies by time only, so this is as good as none. Bytes.
const MAX_BODY_BYTES: u64 = 1 << 40;

/// What every route of a file does beyond native matching.
const LENIENCY: Leniency = Leniency {
    redirect_to_match: true,
    response_options: true,
    explicit_head: true,
    empty_parameters: true,
    forbid_unknown_hosts: true,
};

/// What the arguments say about upstreams.
#[derive(Debug, Clone, Default)]
pub struct UpstreamOptions {
    /// PEM file of the roots that upstreams are verified with; none = the system's.
    pub ca: Option<std::path::PathBuf>,
    /// Upstreams are not verified.
    pub insecure: bool,
    /// What may come out of an authority with parameters; empty = anything made of single labels.
    pub allow: Vec<String>,
}

/// A routes file, translated.
#[derive(Debug)]
pub struct RoutesFile {
    /// The routes in file order.
    pub routes: Vec<RouteConfig>,
    /// One group for each server that a route names outright.
    pub upstreams: BTreeMap<String, Arc<UpstreamConfig>>,
    /// What an operator should know though the file can be used.
    pub warnings: Vec<String>,
}

/// One element of `Routes`.
struct Host<'j> {
    place: Place,
    name: String,
    maps: &'j [Node],
}

/// Reads a routes file; `file` is its name for messages.
///
/// # Errors
/// Every problem, each with its place. Conflicts between routes are found when the table is compiled.
pub fn read(text: &[u8], file: &str, options: &UpstreamOptions) -> Result<RoutesFile, Vec<String>> {
    let root = json::read(text).map_err(|problem| vec![format!("{file}:{}: {}", problem.place, problem.text)])?;
    let mut reader = Reader {
        file,
        options,
        problems: Vec::new(),
        result: RoutesFile { routes: Vec::new(), upstreams: BTreeMap::new(), warnings: Vec::new() },
    };
    let hosts = reader.hosts(&root);
    for host in reader.last_of_each_name(hosts) {
        let pattern = reader.host_pattern(&host);
        for map in host.maps {
            reader.map(map, pattern.as_ref());
        }
    }
    if reader.problems.is_empty() { Ok(reader.result) } else { Err(reader.problems) }
}

struct Reader<'a> {
    file: &'a str,
    options: &'a UpstreamOptions,
    problems: Vec<String>,
    result: RoutesFile,
}

impl Reader<'_> {
    fn problem(&mut self, place: Place, text: impl std::fmt::Display) {
        self.problems.push(format!("{}:{place}: {text}", self.file));
    }

    fn warn(&mut self, place: Place, text: impl std::fmt::Display) {
        self.result.warnings.push(format!("{}:{place}: {text}", self.file));
    }

    /// The member of an object called `key`, in any case; of several the last. `null` is as good as none.
    fn member<'j>(&mut self, node: &'j Node, key: &str) -> Option<&'j Node> {
        let Value::Object(members) = &node.value else {
            self.problem(node.place, format_args!("expected an object, found {}", node.value.kind()));
            return None;
        };
        let member = members.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
        member.filter(|member| member.value != Value::Null)
    }

    fn list<'j>(&mut self, node: &'j Node, key: &str) -> &'j [Node] {
        match self.member(node, key) {
            Some(Node { value: Value::Array(elements), .. }) => elements,
            Some(other) => {
                self.problem(other.place, format_args!("{key}: expected a list, found {}", other.value.kind()));
                &[]
            }
            None => &[],
        }
    }

    fn text(&mut self, node: &Node, key: &str) -> Option<String> {
        match self.member(node, key) {
            Some(Node { value: Value::String(text), .. }) => Some(text.clone()),
            Some(other) => {
                self.problem(other.place, format_args!("{key}: expected a string, found {}", other.value.kind()));
                None
            }
            None => Some(String::new()),
        }
    }

    fn hosts<'j>(&mut self, root: &'j Node) -> Vec<Host<'j>> {
        let elements = self.list(root, "Routes");
        if elements.is_empty() && self.problems.is_empty() {
            self.warn(root.place, "there are no `Routes`, so every request is rejected");
        }
        let mut hosts = Vec::with_capacity(elements.len());
        for element in elements {
            if let Some(name) = self.text(element, "Host") {
                hosts.push(Host { place: element.place, name, maps: self.list(element, "MethodPathMaps") });
            }
        }
        hosts
    }

    /// Of several elements with one `Host` only the last counts, as in SillyProxy.
    fn last_of_each_name<'j>(&mut self, hosts: Vec<Host<'j>>) -> Vec<Host<'j>> {
        let last: BTreeMap<String, Place> = hosts.iter().map(|host| (host.name.clone(), host.place)).collect();
        let mut kept = Vec::with_capacity(hosts.len());
        for host in hosts {
            match last.get(&host.name) {
                Some(place) if *place != host.place => self.warn(
                    host.place,
                    format_args!(
                        "the host `{}` comes again at {place} and these routes are ignored, as SillyProxy does; put all its routes under one `Host`",
                        host.name
                    ),
                ),
                _ => kept.push(host),
            }
        }
        kept
    }

    /// The host as requests have it; none if no request can have it.
    fn host_pattern(&mut self, host: &Host<'_>) -> Option<HostPattern> {
        let name = host.name.trim_end_matches('.');
        let ascii = if name.starts_with('[') { Ok(name.to_string()) } else { idna::domain_to_ascii(name) };
        let mut canonical = Vec::new();
        let valid = ascii.is_ok_and(|ascii| canonical_authority(ascii.as_bytes(), &mut canonical).is_ok());
        let has_port = !canonical.ends_with(b"]") && canonical.contains(&b':');
        if !valid || has_port {
            let reason = if name.contains(':') { "it is compared without its port" } else { "it is not a host name" };
            self.warn(
                host.place,
                format_args!("no request matches the host `{}`: {reason}; its routes are ignored", host.name),
            );
            return None;
        }
        Some(HostPattern::Exact(String::from_utf8_lossy(&canonical).into_owned()))
    }

    /// One element of `MethodPathMaps`. Without a host it is only checked.
    fn map(&mut self, map: &Node, host: Option<&HostPattern>) {
        let (method, path) = (self.text(map, "Method"), self.text(map, "Path"));
        let elements = self.elements(map);
        let (Some(method), Some(path), Some(elements)) = (method, path, elements) else { return };
        let Some(parsed) = method_of(&method) else {
            return self.problem(map.place, format_args!("Method: `{}` is not a method", method.escape_debug()));
        };
        if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
            self.warn(
                map.place,
                format_args!("Method: methods are distinguished by case, and clients do not send `{method}`"),
            );
        }
        let pattern = match pattern::read(&path) {
            Ok(pattern) => pattern,
            Err(problem) => return self.problem(map.place, format_args!("Path: {problem}")),
        };
        if pattern::is_unreachable(&pattern) {
            self.warn(
                map.place,
                format_args!(
                    "Path: no request can match `{path}`: such paths are rejected, and patterns are not percent-encoded"
                ),
            );
        }
        let params = pattern.segments.iter().filter(|segment| !matches!(segment, Segment::Static(_))).count();
        let url = match upstream_url::read(&elements, params, !self.options.allow.is_empty()) {
            Ok(url) => url,
            Err(problems) => {
                for problem in problems {
                    self.problem(map.place, format_args!("Route: {problem}"));
                }
                return;
            }
        };
        for warning in &url.warnings {
            self.warn(map.place, format_args!("Route: {warning}"));
        }
        let Some(host) = host else { return };
        let Some(to) = self.forward_to(map.place, url.tls, url.authority) else { return };
        let forward = Forward::rewritten(to, url.rewrite, HostRewrite::Upstream);
        let file = self.file.rsplit('/').next().unwrap_or(self.file);
        self.result.routes.push(RouteConfig {
            name: format!("{file}:{}", map.place),
            place: format!("{}:{}", self.file, map.place),
            listeners: Vec::new(),
            hosts: vec![host.clone()],
            methods: vec![parsed],
            path: pattern,
            is_further_path: false,
            group: None,
            when: config::Conditions::default(),
            action: Action::Forward(forward),
            request_headers: HeaderEdits {
                set: vec![("x-forwarded-by".to_string(), "SillyProxy".into())],
                ..HeaderEdits::default()
            },
            response_headers: HeaderEdits::default(),
            hsts: None,
            options: RouteOptions::default(),
            max_body_bytes: Some(MAX_BODY_BYTES),
            upgrades: vec!["websocket".to_string()],
            contract: ContractChoice::Inherited,
            policies: Vec::new(),
            responses: ResponseRules::default(),
            log_fields: Arc::default(),
            lenient: LENIENCY,
        });
    }

    /// The `Route` array.
    fn elements(&mut self, map: &Node) -> Option<Vec<Element>> {
        let nodes = self.list(map, "Route");
        if nodes.is_empty() {
            self.problem(
                map.place,
                "Route: expected a list of strings and parameter numbers that make the upstream's URL",
            );
            return None;
        }
        let mut elements = Vec::with_capacity(nodes.len());
        for node in nodes {
            match &node.value {
                Value::String(text) => elements.push(Element::Text(text.clone())),
                // A fraction is cut off, as SillyProxy does; 16 bits are far more than a path has parameters.
                Value::Number(number) if *number > -1.0 && *number < 65_536.0 => {
                    elements.push(Element::Param(*number as usize))
                }
                Value::Number(number) => {
                    self.problem(node.place, format_args!("Route: there is no parameter number {number}"))
                }
                other => self
                    .problem(node.place, format_args!("Route: expected a string or a number, found {}", other.kind())),
            }
        }
        (elements.len() == nodes.len()).then_some(elements)
    }

    /// The group of a server, made when it is first named, or the settings of servers that parameters name. None if a problem was noted.
    fn forward_to(&mut self, place: Place, tls: bool, authority: Authority) -> Option<ForwardTo> {
        match authority {
            Authority::Fixed { address, name } => {
                let name = format!("{}-{name}", if tls { "https" } else { "http" });
                self.result.upstreams.entry(name.clone()).or_insert_with(|| {
                    let servers = vec![ServerConfig::at(address)];
                    Arc::new(UpstreamConfig { servers, ..settings(&name, tls, self.options) })
                });
                Some(ForwardTo::Group(name))
            }
            Authority::Dynamic(authority) => {
                let allowed = self.options.allow.iter().filter(|allowed| authority.can_become(allowed));
                let allow: Vec<String> = allowed.cloned().collect();
                if self.options.allow.is_empty() {
                    self.warn(
                        place,
                        "Route: clients choose the upstream's host by a parameter; it must be one label of letters, digits and hyphens. \
                         Name the hosts that are meant with -allow-host HOST, once for each",
                    );
                } else if allow.is_empty() {
                    // An empty list would mean any.
                    self.problem(
                        place,
                        "Route: no -allow-host can come out of the host of this route; add those that are meant",
                    );
                    return None;
                }
                let settings = Arc::new(settings(&format!("{}:{place}", self.file), tls, self.options));
                Some(ForwardTo::Authority { tls, authority, allow, settings })
            }
        }
    }
}

/// SillyProxy's settings of connections to upstreams, as far as they are sane.
fn settings(name: &str, tls: bool, options: &UpstreamOptions) -> UpstreamConfig {
    // The whole exchange is bounded by 15 s, so its longer bounds never had an effect.
    let total = Duration::from_secs(15);
    let verified = UpstreamTls { ca: options.ca.clone(), verify: !options.insecure, ..UpstreamTls::default() };
    UpstreamConfig {
        tls: tls.then_some(verified),
        connect_timeout: Duration::from_secs(5),
        response_header_timeout: total,
        idle_timeout: total,
        total_timeout: Some(total),
        // A single server is not left out: there is none to take its place.
        ejection: Ejection { failures: 0, ..Ejection::default() },
        ..UpstreamConfig::new(name)
    }
}

/// A method; also one in lower case, which no request has, so that its route is only warned of.
fn method_of(text: &str) -> Option<Method> {
    let in_lower_case = || Method::from_bytes(text.to_ascii_uppercase().as_bytes()).map(|_| Method::Other(text.into()));
    Method::from_bytes(text.as_bytes()).or_else(in_lower_case)
}
