//! `routes`: what happens to which request.
//!
//! Conflicts between routes are `route::RouteTable::compile`'s to find; it knows which patterns overlap.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wire::http::Method;

use super::bodies::{body_template, escape_of};
use super::log_fields::Credentials;
use super::order::{Around, all_routes, entries, is_group, is_whole};
use super::placeholders::{Claims, Scope};
use super::policies::KnownPolicies;
use super::responses::{KnownResponses, media_type_of};
use super::template::{Target, parameter_names, path_pattern};
use super::variables::none_in_target;
use super::{Build, Fault, address, headers, identifier, names_in, read};
use crate::model::{
    Action, BodyVariables, Forward, ForwardTo, HeaderEdits, HostPattern, HostRewrite, Leniency, PathPattern,
    RouteConfig, Segment, Template, TemplatePart, UpstreamProtocol, UpstreamTls,
};
use crate::problem::{Span, shown};
use crate::shape::surface::{RedirectQuery, RouteOptions};
use crate::table::setting;
use crate::yaml::{Entry, Node, Value};

/// `hsts: true`: a year, this host only.
const HSTS: &str = "max-age=31536000";
/// Largest body of a fixed response, bytes.
const MAX_RESPOND_BYTES: usize = 64 * 1024;

/// Most paths of one route.
const MAX_PATHS: usize = 64;

/// Names that routes refer to.
pub(super) struct Known<'a> {
    pub(super) root: &'a Node,
    upstreams: BTreeMap<&'a str, Span>,
    listeners: BTreeMap<&'a str, Span>,
    contracts: BTreeMap<&'a str, Span>,
    policies: KnownPolicies<'a>,
    responses: KnownResponses<'a>,
    credentials: Credentials,
    /// Listeners that redirect everything, or carry bytes: no route is reached there.
    redirecting: Vec<&'a str>,
    tunnelling: Vec<&'a str>,
    /// Upstreams that only tunnels, or only UDP listeners, can use, with their protocol.
    not_for_requests: BTreeMap<&'a str, &'a str>,
}

/// One path of a route, none where no path could be read, and what is known of requests there.
#[derive(Clone, Copy)]
struct At<'a> {
    path: Option<&'a PathPattern>,
    scope: Scope<'a>,
}

/// Upstreams that only tunnels, or only UDP listeners, can use, with their protocol.
fn not_for_requests(root: &Node) -> BTreeMap<&str, &str> {
    let entries = root.get("upstreams").map(Node::entries).unwrap_or_default();
    let protocol = |node| read::text(node, "protocol").filter(|protocol| matches!(*protocol, "tcp" | "udp"));
    entries.iter().filter_map(|entry| Some((entry.key.as_str(), protocol(&entry.value)?))).collect()
}

/// Settings of a route, with what the file says for all of them.
fn options(node: &Node, root: &Node) -> RouteOptions {
    let options = RouteOptions::read(node);
    let of_file = || of_paths(root, "allow_encoded_slash");
    RouteOptions { allow_encoded_slash: options.allow_encoded_slash.or_else(of_file), ..options }
}

/// What the file says of all paths.
fn of_paths(root: &Node, key: &str) -> Option<bool> {
    root.get("paths").and_then(|paths| paths.get(key)).and_then(read::as_bool)
}

fn drops_empty_query(root: &Node) -> bool {
    of_paths(root, "drop_empty_query").unwrap_or_default()
}

/// A host that goes upstream: a fixed one, or that of the client with a port.
fn fixed_host(text: &str) -> Result<HostRewrite, Fault> {
    match text.strip_prefix("{host}:") {
        Some(port) => {
            let read = port.parse::<u16>().ok().filter(|read| *read > 0 && read.to_string() == port);
            let fault = || Fault::new(format!("{} is not a port", shown(port)), "use 1 to 65535, as in `{host}:8443`");
            read.map(HostRewrite::Port).ok_or_else(fault)
        }
        None => address::authority(text).map(HostRewrite::Fixed),
    }
}

impl Build<'_> {
    pub(super) fn routes(&mut self, root: &Node) -> Vec<RouteConfig> {
        let mut known = Known {
            root,
            upstreams: names_in(root, "upstreams"),
            listeners: BTreeMap::new(),
            contracts: names_in(root, "contracts"),
            policies: KnownPolicies::of(root),
            responses: KnownResponses::of(root),
            credentials: Credentials::of(root),
            redirecting: Vec::new(),
            tunnelling: Vec::new(),
            not_for_requests: not_for_requests(root),
        };
        for listener in root.get("listeners").map(Node::items).unwrap_or_default() {
            let Some(name) = listener.get("name").and_then(Node::text) else { continue };
            known.listeners.insert(name, listener.span);
            if listener.get("redirect_to_https").is_some_and(|node| read::as_bool(node) != Some(false)) {
                known.redirecting.push(name);
            }
            if listener.entry("tunnel").is_some() {
                known.tunnelling.push(name);
            }
        }
        let mut names: HashMap<String, Span> = HashMap::new();
        let nodes = root.get("routes").map(Node::items).unwrap_or_default();
        let mut routes: Vec<Vec<RouteConfig>> = Vec::with_capacity(nodes.len());
        for (number, node) in nodes.iter().enumerate() {
            let around = self.around(node, &known, is_group(node).then_some(number));
            routes.extend(entries(node).iter().filter_map(|node| {
                self.validate_trust(root, node);
                self.route(node, &around, &known, &mut names)
            }));
        }
        // A route that vanishes without a word would open or close what the user did not mean to.
        debug_assert!(routes.len() == all_routes(root).count() || !self.problems.is_empty());
        distinguish(&mut routes);
        routes.into_iter().flatten().collect()
    }

    /// A route: once for each of its paths, since what a template takes from a path depends on it.
    fn route(
        &mut self,
        node: &Node,
        around: &Around,
        known: &Known<'_>,
        names: &mut HashMap<String, Span>,
    ) -> Option<Vec<RouteConfig>> {
        let place = self.sources.place(node.span);
        let name = self.parsed(node, "name", identifier);
        if let (Some(name), Some(at)) = (&name, node.get("name")) {
            self.unique(name, "route", at.span, names);
        }
        let paths = self.route_paths(node, around.group.is_some());
        let Around { listeners, hosts, .. } = around;
        let methods = self.parsed_list(node, "methods", method);
        let is_matched = around.is_whole
            && is_whole(node, "methods", methods.len())
            && is_whole(node, "path", paths.len())
            // `host` is taken for `hosts` now and then: what the route matches is not known.
            && ["host", "methods", "headers", "path"].iter().all(|key| !node.is_replaced(key));
        let when = self.route_conditions(node);
        let hsts = self.hsts(node);
        let upgrades = self.upgrades(node);
        let contract = self.contract_choice(node, &known.contracts);
        let is_verified = known.policies.verify_around(listeners, hosts);
        let policies = self.policy_names(node, &known.policies, is_verified);
        let is_verified = is_verified || policies.iter().any(|name| known.policies.verifies(name));
        let claims = if is_verified { Claims::Verified } else { Claims::Unverified };
        let of_path = |build: &mut Build<'_>, path| {
            let (parameters, empty) = (parameter_names(path), empty_names(path, &paths));
            let at = At { path: Some(path), scope: Scope { parameters: &parameters, empty: &empty, claims } };
            let log_fields = build.route_log_fields(node, at.scope, &known.credentials);
            (build.action(node, at, known), build.edits(node, at.scope), log_fields)
        };
        let of_paths: Vec<_> = paths.iter().map(|path| of_path(self, path)).collect();
        if paths.is_empty() {
            self.action(node, At { path: None, scope: Scope { parameters: &[], empty: &[], claims } }, known);
        }
        let name = name.unwrap_or_else(|| label(&methods, hosts, &paths));
        let when = when.filter(|_| is_matched)?;
        let responses = self.response_rules(node, &known.responses);
        let options = options(node, known.root);
        let mut routes = Vec::with_capacity(paths.len());
        for (path, (action, (request_headers, response_headers), log_fields)) in paths.into_iter().zip(of_paths) {
            routes.push(RouteConfig {
                name: name.clone(),
                place: place.clone(),
                listeners: listeners.clone(),
                hosts: hosts.clone(),
                methods: methods.clone(),
                path,
                is_further_path: !routes.is_empty(),
                group: around.group,
                when: when.clone(),
                action: action?,
                request_headers,
                response_headers,
                hsts: hsts.clone(),
                max_body_bytes: read::size(node, "max_body"),
                options: options.clone(),
                upgrades: upgrades.clone(),
                contract: contract.clone(),
                policies: policies.clone(),
                responses: responses.clone(),
                log_fields,
                lenient: Leniency::default(),
            });
        }
        Some(routes)
    }

    /// The paths of a route.
    fn route_paths(&mut self, node: &Node, is_in_order: bool) -> Vec<PathPattern> {
        let Some(list) = node.get("path") else { return Vec::new() };
        self.not_empty(list, "path", "name a path, or remove `path` for all of them");
        if let Some(item) = list.one_or_many().get(MAX_PATHS) {
            let what = format!("the route has more than {MAX_PATHS} paths");
            self.problems.add(item.span, what, "give what they have in common a path, or make two routes of it");
        }
        let mut paths: Vec<PathPattern> = Vec::new();
        for item in list.one_or_many().iter().take(MAX_PATHS) {
            let path = match item.text() {
                Some(text) => self.take(item.span, path_pattern(text)),
                None => self.path_mapping(item, is_in_order),
            };
            let Some(path) = path else { continue };
            if paths.iter().any(|other| other.segments == path.segments) {
                self.problems.add(
                    item.span,
                    format!("{} is in `path` twice", shown(&path.text)),
                    "remove one of the two",
                );
            } else {
                paths.push(path);
            }
        }
        paths
    }

    fn edits(&mut self, node: &Node, scope: Scope<'_>) -> (HeaderEdits, HeaderEdits) {
        let request = self.header_edits(node, "request_headers", scope);
        (request, self.header_edits(node, "response_headers", scope))
    }

    pub(super) fn route_listeners(&mut self, node: &Node, known: &Known<'_>) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        let Some(list) = node.get("listeners") else { return out };
        self.not_empty(list, "listeners", "name a listener, or remove `listeners` for all of them");
        for item in list.one_or_many() {
            let Some(name) = self.name_of(item, "listener", &known.listeners) else { continue };
            if known.redirecting.contains(&name.as_str()) {
                let what = format!(
                    "the listener {} redirects everything to https, so no route is reached there",
                    shown(&name)
                );
                self.problems.add(item.span, what, "name another listener, or remove its `redirect_to_https`");
            } else if known.tunnelling.contains(&name.as_str()) {
                let what = format!("the listener {} is a tunnel, so no route is reached there", shown(&name));
                self.problems.add(item.span, what, "name another listener, or remove its `tunnel`");
            } else if out.contains(&name) {
                self.problems.add(
                    item.span,
                    format!("{} is in `listeners` twice", shown(&name)),
                    "remove one of the two",
                );
            } else {
                out.push(name);
            }
        }
        out
    }

    /// Empty for any host.
    pub(super) fn hosts(&mut self, node: &Node) -> Vec<HostPattern> {
        let Some(list) = node.get("hosts") else { return Vec::new() };
        self.not_empty(list, "hosts", "name a host, or remove `hosts` for any host");
        match list.one_or_many().iter().find(|item| item.text() == Some("*")) {
            Some(_) if list.one_or_many().len() == 1 => Vec::new(),
            Some(any) => {
                self.problems.add(any.span, "`*` makes the other hosts superfluous", "keep `*` alone, or remove it");
                Vec::new()
            }
            None => self.parsed_list(node, "hosts", address::host_pattern),
        }
    }

    /// An empty list would match nothing, while no list matches everything.
    pub(super) fn not_empty(&mut self, list: &Node, key: &str, fix: &str) {
        if matches!(&list.value, Value::List(items) if items.is_empty()) {
            self.problems.add(list.span, format!("`{key}` is empty"), fix);
        }
    }

    fn hsts(&mut self, node: &Node) -> Option<String> {
        match read::as_bool(node.get("hsts")?) {
            Some(true) => Some(HSTS.to_owned()),
            Some(false) => None,
            None => self.parsed(node, "hsts", hsts_value),
        }
    }

    fn upgrades(&mut self, node: &Node) -> Vec<String> {
        self.parsed_list(node, "upgrades", |text| {
            if !headers::is_token(text) {
                return Err(Fault::new(
                    format!("{} is not a protocol", shown(text)),
                    "write its token, as in `websocket`",
                ));
            }
            if text.eq_ignore_ascii_case("h2c") {
                return Err(Fault::new("an upgrade to h2c is rejected", "clients that speak HTTP/2 say so by ALPN"));
            }
            Ok(text.to_ascii_lowercase())
        })
    }

    /// The one action of a route. None if a problem was noted.
    fn action(&mut self, route: &Node, at: At<'_>, known: &Known<'_>) -> Option<Action> {
        let key = ["upstream", "split", "upstream_url", "redirect", "respond", "validate"];
        let key = key.into_iter().find_map(|key| route.entry(key))?;
        if !matches!(key.key.as_str(), "upstream" | "upstream_url" | "split") {
            for only in ["rewrite", "host", "mirror", "request_headers", "keep_method_override", "upgrades"]
                .into_iter()
                .filter(|only| *only != "keep_method_override" || key.key != "validate")
                .filter_map(|only| route.entry(only))
            {
                let what = format!("`{}` has no effect beside `{}`", only.key, key.key);
                self.problems.add(
                    only.key_span,
                    what,
                    "remove it; it is for routes with `upstream`, `split` or `upstream_url`",
                );
            }
        }
        match key.key.as_str() {
            "upstream" => {
                let group = self.route_upstream(&key.value, known);
                self.forward(route, at, known, ForwardTo::Group(group?))
            }
            "split" => {
                let shares = self.split(&key.value, at.scope.claims, |build, name| build.route_upstream(name, known));
                self.forward(route, at, known, ForwardTo::Split(shares?))
            }
            "upstream_url" => self.upstream_url(route, key, at, known),
            "redirect" => self.redirect(&key.value, at),
            "validate" => self.validate(route, &key.value, at.path, &known.contracts),
            _ => self.respond(&key.value, at, known),
        }
    }

    /// The upstream of a route.
    pub(super) fn route_upstream(&mut self, name: &Node, known: &Known<'_>) -> Option<String> {
        let group = self.name_of(name, "upstream", &known.upstreams)?;
        match known.not_for_requests.get(group.as_str()) {
            Some(&"tcp") => {
                let what = "no route can use an upstream with `protocol: tcp`: it is for tunnels";
                self.problems.add(name.span, what, "use another upstream, or a listener with `tunnel`");
            }
            Some(_) => {
                let what = "no route can use an upstream with `protocol: udp`: it is for UDP listeners";
                self.problems.add(name.span, what, "use another upstream");
            }
            None => {}
        }
        Some(group)
    }

    fn forward(&mut self, route: &Node, at: At<'_>, known: &Known<'_>, to: ForwardTo) -> Option<Action> {
        let rewrite = self.rewrite(route, at);
        let host = self.host_rewrite(route);
        let drops_empty_query = drops_empty_query(known.root);
        let forward = Forward { to, rewrite, drops_empty_query, host, mirror: self.mirror(route, known) };
        let mirrored = forward.mirror.as_ref().filter(|mirror| forward.groups().any(|group| group == mirror.group));
        if let (Some(_), Some(node)) = (mirrored, route.get("mirror")) {
            let what = "the copies go where the requests go, which would carry out each twice";
            self.problems.add(node.span, what, "name another upstream");
        }
        Some(Action::Forward(forward))
    }

    fn rewrite(&mut self, route: &Node, at: At<'_>) -> Option<Template> {
        at.path?;
        self.parsed(route, "rewrite", |text| {
            none_in_target(text, at.path)?;
            Target::cut_path(text)?.upstream_template(at.scope)
        })
    }

    fn host_rewrite(&mut self, route: &Node) -> HostRewrite {
        let Some(node) = route.get("host") else { return HostRewrite::Keep };
        match node.text() {
            Some("upstream") => HostRewrite::Upstream,
            Some("name") => HostRewrite::Name,
            Some(_) => HostRewrite::Keep,
            None => self.parsed(node, "set", fixed_host).unwrap_or(HostRewrite::Keep),
        }
    }

    fn upstream_url(&mut self, route: &Node, entry: &Entry, at: At<'_>, known: &Known<'_>) -> Option<Action> {
        let node = &entry.value;
        let mut settings = self.connection_settings("upstream_url", node);
        let other = match settings.protocol {
            UpstreamProtocol::Tcp => Some("no route can use `protocol: tcp`: it is for tunnels"),
            UpstreamProtocol::Udp => Some("no route can use `protocol: udp`: it is for UDP listeners"),
            UpstreamProtocol::Auto => Some("no version is negotiated with servers that a URL names"),
            UpstreamProtocol::Http1 | UpstreamProtocol::Http2 => None,
        };
        if let Some(what) = other {
            let at = node.get("protocol").map_or(node.span, |node| node.span);
            self.problems.add(at, what, "write `http1` or `http2`");
        }
        let rewrite = self.rewrite(route, at);
        let host = self.host_rewrite(route);
        let to = node.get("url")?;
        self.take(to.span, none_in_target(to.text()?, at.path))?;
        let target = self.take(to.span, Target::cut(to.text()?))?;
        let Some(tls) = target.tls else {
            self.problems.add(to.span, "`url` names no server", "write a whole URL: `https://{tenant}.example.com/`");
            return None;
        };
        match (tls, settings.tls.is_some(), node.entry("tls")) {
            (false, true, Some(entry)) => {
                self.problems.add(entry.key_span, "`tls` beside an `http://` URL", "write `https://`, or remove `tls`")
            }
            (true, false, Some(entry)) => self.problems.add(
                entry.key_span,
                "`tls: false` beside an `https://` URL",
                "write `http://`, or remove `tls`",
            ),
            (true, false, None) => settings.tls = Some(UpstreamTls::default()),
            _ => {}
        }
        at.path?;
        let authority = self.take(to.span, target.authority_template(at.scope))?;
        if authority.parts.iter().any(|part| matches!(part, TemplatePart::Variable { .. })) {
            let fix = "use a parameter of the path, and list what may come out of it in `allow`";
            self.problems.add(to.span, "the host of a request cannot choose the server", fix);
            return None;
        }
        let allow = self.allow(node, to, &authority);
        let has_path = !target.path.is_empty() || target.query.is_some();
        if let (true, Some(entry)) = (has_path, route.entry("rewrite")) {
            self.problems.add(
                entry.key_span,
                "`rewrite` beside a URL that has a path itself",
                "keep the path in one of the two",
            );
        }
        let from_url = if has_path { Some(self.take(to.span, target.upstream_template(at.scope))?) } else { None };
        let to = ForwardTo::Authority { tls, authority, allow, settings: Arc::new(settings) };
        let mirror = self.mirror(route, known);
        let drops_empty_query = drops_empty_query(known.root);
        Some(Action::Forward(Forward { to, rewrite: from_url.or(rewrite), drops_empty_query, host, mirror }))
    }

    /// The allow-list of a template of an authority: demanded if a parameter stands in it, and every entry can come out of it.
    fn allow(&mut self, node: &Node, to: &Node, authority: &Template) -> Vec<String> {
        let allow = self.parsed_list(node, "allow", |text| {
            let allowed = address::authority(text)?;
            if authority.can_become(&allowed) {
                Ok(allowed)
            } else {
                Err(Fault::new(
                    format!("{} can never be the host of the URL", shown(text)),
                    "correct it or remove it; a parameter is (part of) one label",
                ))
            }
        });
        if authority.has_parameters() && node.get("allow").is_none_or(|list| list.one_or_many().is_empty()) {
            let what = "a parameter chooses the host, so a client could reach any server";
            self.problems.add(
                to.span,
                what,
                "list the hosts that may come out of it: `allow: [a.example.com, b.example.com]`",
            );
        }
        allow
    }

    fn redirect(&mut self, node: &Node, at: At<'_>) -> Option<Action> {
        let status = read::text(node, "status").and_then(|text| text.parse().ok()).unwrap_or(308);
        let query = setting::<RedirectQuery>(node, "query");
        let to = node.get("to")?;
        self.take(to.span, none_in_target(to.text()?, at.path))?;
        let target = self.take(to.span, Target::cut(to.text()?))?;
        at.path?;
        let template = self.take(to.span, target.whole_template(at.scope))?;
        if target.tls.is_some() {
            let authority = self.take(to.span, target.authority_template(at.scope))?;
            let allow = self.allow(node, to, &authority);
            return Some(Action::Redirect { status, to: template, allow, query });
        }
        // RFC 3986 §4.2. That parameters do not make one of it is seen to when it is rendered.
        if target.path.starts_with("//") {
            self.problems.add(
                to.span,
                "a Location that starts with `//` leads to another host",
                "write the whole URL, or a path with one `/`",
            );
        }
        if let Some(entry) = node.entry("allow") {
            self.problems.add(entry.key_span, "`allow` beside a path", "remove it; a path stays on the same host");
        }
        Some(Action::Redirect { status, to: template, allow: Vec::new(), query })
    }

    fn respond(&mut self, node: &Node, at: At<'_>, known: &Known<'_>) -> Option<Action> {
        let status = read::int(node, "status")?;
        let body = read::text(node, "body").unwrap_or_default();
        let file = node.entry("body_file");
        for entry in [node.entry("body").filter(|_| !body.is_empty()), file].into_iter().flatten() {
            if matches!(status, 204 | 205 | 304) {
                let fix = format!("remove `{}`, or use another status", entry.key);
                self.problems.add(entry.value.span, format!("a response {status} has no body"), fix);
            }
        }
        if let (Some(entry), Some(_)) = (node.entry("body"), file) {
            self.problems.add(entry.key_span, "`body` and `body_file` exclude each other", "keep one of the two");
        }
        if let Some(at) = node.get("body").filter(|_| body.len() > MAX_RESPOND_BYTES) {
            self.problems.add(at.span, "the body is longer than 64 KiB", "put it into a file: `body_file`");
        }
        let body_file = self.file(node, "body_file");
        let content_type = match (node.get("content_type"), &body_file, file) {
            (Some(_), _, _) => self.parsed(node, "content_type", content_type)?,
            (None, Some(path), Some(entry)) => self.take(entry.value.span, media_type_of(path))?.to_owned(),
            _ => "text/plain; charset=utf-8".to_owned(),
        };
        let if_healthy = node.get("if_healthy").and_then(|name| self.name_of(name, "upstream", &known.upstreams));
        let variables = match (setting(node, "template"), node.get("body").filter(|_| !body.is_empty())) {
            (false, _) => BodyVariables::None,
            (true, None) if file.is_some() => {
                self.take(file?.value.span, escape_of(&content_type))?;
                BodyVariables::File
            }
            (true, None) => {
                let span = node.entry("template").map_or(node.span, |entry| entry.key_span);
                self.problems.add(span, "there is no body to write variables into", "add `body`, or remove `template`");
                BodyVariables::None
            }
            (true, Some(text)) => {
                BodyVariables::Text(self.take(text.span, body_template(body, at.scope, &content_type))?)
            }
        };
        let body = body.as_bytes().into();
        Some(Action::Respond { status, content_type, body, body_file, variables, if_healthy })
    }
}

/// What is empty on a path of a route: the catch-all of another of its paths that begins below this one, as of `/app/{*rest}` beside `/app`.
fn empty_names<'p>(path: &PathPattern, paths: &'p [PathPattern]) -> Vec<&'p str> {
    let below = |other: &'p PathPattern| match other.segments.split_last()? {
        (Segment::CatchAll { name }, start) if start == path.segments => Some(name.as_str()),
        _ => None,
    };
    paths.iter().filter_map(below).collect()
}

/// Longest label of a route without a name, bytes.
const MAX_LABEL_BYTES: usize = 96;

/// What a route without a name is called in logs and metrics: methods, first host and path, so that it stays when lines of the file move.
fn label(methods: &[Method], hosts: &[HostPattern], paths: &[PathPattern]) -> String {
    let methods: Vec<&str> = methods.iter().map(Method::as_str).collect();
    let host = match hosts.first() {
        None => "*".to_owned(),
        Some(HostPattern::Exact(name)) => name.clone(),
        Some(HostPattern::Wildcard(parent)) => format!("*.{parent}"),
    };
    let further = if hosts.len() > 1 { format!("+{}", hosts.len() - 1) } else { String::new() };
    let space = if methods.is_empty() { "" } else { " " };
    let path = paths.first().map_or("/", |path| path.text.as_str());
    let other_paths = if paths.len() > 1 { format!("+{}", paths.len() - 1) } else { String::new() };
    let text = format!("{}{space}{host}{further}{path}{other_paths}", methods.join(","));
    let plain = |c: char| if c.is_ascii_alphanumeric() || " ._~/{}*:+,-%@=&;!()".contains(c) { c } else { '_' };
    // One byte for each character from here on.
    text.chars().map(plain).take(MAX_LABEL_BYTES).collect()
}

/// Numbers the labels that several routes have. No name that a user gives has a `/`, so none of those is among them.
fn distinguish(routes: &mut [Vec<RouteConfig>]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for paths in routes {
        let Some(name) = paths.first().map(|route| route.name.clone()) else { continue };
        let count = seen.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 && name.contains('/') {
            paths.iter_mut().for_each(|route| route.name = format!("{name}#{count}"));
        }
    }
}

/// Reads a method (RFC 9110 §9.1: case-sensitive).
pub(super) fn method(text: &str) -> Result<Method, Fault> {
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) && headers::is_token(text) {
        let upper = text.to_ascii_uppercase();
        method(&upper)?;
        let what = format!("the method {} is in lower case; methods are case-sensitive", shown(text));
        return Err(Fault::new(what, format!("write {}", shown(&upper))));
    }
    match Method::from_bytes(text.as_bytes()) {
        Some(Method::Connect | Method::Trace) => {
            Err(Fault::new(format!("{} is never routed", shown(text)), "remove it; Portunus rejects it everywhere"))
        }
        Some(_) if matches!(text, "ALL" | "ANY" | "*") => {
            Err(Fault::new(format!("{} is not a method", shown(text)), "remove `methods` for any method"))
        }
        Some(method) => Ok(method),
        None => Err(Fault::new(
            format!("{} is not a method", shown(text)),
            "use a token of at most 32 characters, such as `GET`",
        )),
    }
}

/// Reads a Strict-Transport-Security value (RFC 6797 §6.1).
fn hsts_value(text: &str) -> Result<String, Fault> {
    let fault = || {
        Fault::new(
            format!("{} is not a Strict-Transport-Security value", shown(text)),
            "write `max-age=31536000; includeSubDomains`, or `true`",
        )
    };
    let mut has_age = false;
    for directive in text.split(';').map(str::trim) {
        let known = match directive.split_once('=') {
            Some((name, age)) if name.eq_ignore_ascii_case("max-age") && !has_age => {
                has_age = true;
                !age.is_empty() && age.len() <= 10 && age.bytes().all(|byte| byte.is_ascii_digit())
            }
            Some(_) => false,
            None => directive.eq_ignore_ascii_case("includeSubDomains") || directive.eq_ignore_ascii_case("preload"),
        };
        if !known {
            return Err(fault());
        }
    }
    if has_age { Ok(text.to_owned()) } else { Err(fault()) }
}

/// Reads a media type: `type/subtype` and what follows, as a field value.
fn content_type(text: &str) -> Result<String, Fault> {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    match essence.split_once('/') {
        Some((kind, subtype)) if headers::is_token(kind) && headers::is_token(subtype) => headers::field_value(text),
        _ => Err(Fault::new(
            format!("{} is not a media type", shown(text)),
            "write `type/subtype`, such as `text/plain`",
        )),
    }
}
