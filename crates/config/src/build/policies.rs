//! `policies`: who may pass, how often, and how many at once.

mod connections;
mod limits;
mod store;

pub(super) use connections::Carried;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::http::field_kind::{FieldKind, is_own_of_client};

use super::conditions::{Place, claim_of};
use super::placeholders::{Claims, Scope};
use super::routes::method;
use super::template::Target;
use super::variables::none_in_target;
use super::{Build, Fault, address, headers, names_in, read};
use crate::model::{
    BasicRule, Conditions, Cors, ForwardAuth, HostPattern, HostRewrite, Maintenance, Networks, OriginPattern,
    PolicyConfig, PolicyMode, Template, TokenRule,
};
use crate::problem::{Span, shown};
use crate::table::setting;
use crate::yaml::{Entry, Node};

/// The keys of which a policy has one.
const AUTHENTICATION: [&str; 3] = ["jwt", "basic", "forward_auth"];
/// The policies that listeners, hosts and routes refer to, and what their order makes known.
pub(super) struct KnownPolicies<'a> {
    names: BTreeMap<&'a str, Span>,
    entries: &'a [Entry],
    /// Those that verify a token.
    verifying: BTreeSet<&'a str>,
    /// Those that count by a claim.
    counting: BTreeSet<&'a str>,
    /// Those that are asked by a claim, and where they say so.
    demanding: BTreeMap<&'a str, Span>,
    /// Listeners and hosts with policies that verify.
    listeners: BTreeSet<&'a str>,
    hosts: Vec<HostPattern>,
}

impl<'a> KnownPolicies<'a> {
    /// Those of a file.
    pub(super) fn of(root: &'a Node) -> KnownPolicies<'a> {
        let entries = root.get("policies").map(Node::entries).unwrap_or_default();
        let those = |is: &dyn Fn(&Node) -> bool| -> BTreeSet<&'a str> {
            entries.iter().filter(|entry| is(&entry.value)).map(|entry| entry.key.as_str()).collect()
        };
        let verifying = those(&|policy| read::mapping(policy, "jwt").is_some());
        let counting = those(&|policy| {
            let keys = limits::LIMITS.iter().filter_map(|limit| policy.get(limit)?.get("key"));
            keys.flat_map(Node::one_or_many).any(|part| part.get("claim").is_some())
        });
        let demanding = entries.iter().filter_map(|entry| {
            let claim = claim_of(read::mapping(&entry.value, "when")?)?;
            Some((entry.key.as_str(), claim.key_span))
        });
        let demanding = demanding.collect();
        let verify = |node: &Node| {
            let names = node.get("policies").map(Node::one_or_many).unwrap_or_default();
            names.iter().filter_map(Node::text).any(|name| verifying.contains(name))
        };
        let listeners = root.get("listeners").map(Node::items).unwrap_or_default();
        let listeners = listeners.iter().filter(|listener| verify(listener));
        let listeners = listeners.filter_map(|listener| listener.get("name")?.text()).collect();
        let hosts = root.get("hosts").map(Node::entries).unwrap_or_default();
        let hosts = hosts.iter().filter(|entry| verify(&entry.value));
        let hosts = hosts.filter_map(|entry: &Entry| address::host_pattern(&entry.key).ok()).collect();
        KnownPolicies { names: names_in(root, "policies"), entries, verifying, counting, demanding, listeners, hosts }
    }

    /// Whether a policy verifies a token.
    pub(super) fn verifies(&self, name: &str) -> bool {
        self.verifying.contains(name)
    }

    /// Whether the token of a request may have been verified before the policies of its host are asked.
    pub(super) fn verify_on_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Whether requests of these listeners and hosts (of all, if none is named) may have had their token verified before they are routed.
    pub(super) fn verify_around(&self, listeners: &[String], hosts: &[HostPattern]) -> bool {
        let of_listener = |name: &String| self.listeners.contains(name.as_str());
        let of_host = |host: &HostPattern| self.hosts.iter().any(|other| host.overlaps(other));
        let by_listener = match listeners {
            [] => self.verify_on_listeners(),
            names => names.iter().any(of_listener),
        };
        by_listener || if hosts.is_empty() { !self.hosts.is_empty() } else { hosts.iter().any(of_host) }
    }
}

impl Build<'_> {
    pub(super) fn policies(&mut self, root: &Node) -> BTreeMap<String, Arc<PolicyConfig>> {
        let entries = root.get("policies").map(Node::entries).unwrap_or_default();
        let (verifiers, upstreams) = (names_in(root, "tokens"), names_in(root, "upstreams"));
        let policy = |entry: &crate::yaml::Entry| {
            (entry.key.clone(), Arc::new(self.policy(&entry.key, &entry.value, &verifiers, &upstreams)))
        };
        let policies = entries.iter().map(policy).collect();
        entries.iter().for_each(|entry| self.speaks_http1(&entry.value, root));
        policies
    }

    /// An authentication service is asked in HTTP/1.1.
    fn speaks_http1(&mut self, policy: &Node, root: &Node) {
        let Some(name) = policy.get("forward_auth").and_then(|node| node.get("upstream")) else { return };
        let upstream = name.text().and_then(|text| root.get("upstreams")?.get(text));
        if upstream.and_then(|upstream| read::text(upstream, "protocol")).is_some_and(|protocol| protocol != "http1") {
            let what = "an authentication service is asked in HTTP/1.1, which this upstream does not speak";
            self.problems.add(name.span, what, "use an upstream with `protocol: http1`");
        }
    }

    fn policy(
        &mut self,
        name: &str,
        node: &Node,
        verifiers: &BTreeMap<&str, Span>,
        upstreams: &BTreeMap<&str, Span>,
    ) -> PolicyConfig {
        if node.entries().iter().all(|entry| matches!(entry.key.as_str(), "mode" | "when")) {
            let what = format!("the policy {} lets everything pass", shown(name));
            self.problems.add(node.span, what, "add `allow`, `deny`, `rate_limit` or `jwt`, or remove it");
        }
        self.one_way_to_authenticate(node);
        let is_log = matches!(setting(node, "mode"), PolicyMode::Log);
        if let Some(entry) = node.entry("cors").filter(|_| is_log) {
            let what = "`cors` has no effect with `mode: log`: browsers decide by what the response says";
            self.problems.add(entry.key_span, what, "write a policy of its own for it");
        }
        if let Some(entry) = node.entry("bandwidth_limit").filter(|_| is_log) {
            let what = "`bandwidth_limit` has no effect with `mode: log`: it rejects nothing";
            self.problems.add(entry.key_span, what, "write a policy of its own for it");
        }
        PolicyConfig {
            name: name.to_owned(),
            mode: setting(node, "mode"),
            when: self.policy_conditions(node),
            allow: self.networks(node, ("allow", "allow_file"), true),
            deny: self.networks(node, ("deny", "deny_file"), false),
            rate_limit: read::mapping(node, "rate_limit").and_then(|node| self.rate_limit(node)),
            concurrency_limit: read::mapping(node, "concurrency_limit").and_then(|node| self.concurrency_limit(node)),
            bandwidth_limit: read::mapping(node, "bandwidth_limit").and_then(|node| self.bandwidth_limit(node)),
            jwt: read::mapping(node, "jwt").and_then(|node| self.token_rule(node, verifiers)),
            basic: read::mapping(node, "basic").and_then(|node| self.basic_rule(name, node)),
            forward_auth: read::mapping(node, "forward_auth").and_then(|node| self.forward_auth(node, upstreams)),
            cors: read::mapping(node, "cors").map(|node| self.cors(node)),
            maintenance: read::mapping(node, "maintenance").and_then(|node| self.maintenance(node)),
        }
    }

    /// The requests that a policy is asked about. Whether somebody must say who they are is not left to what a request looks like.
    fn policy_conditions(&mut self, node: &Node) -> Conditions {
        let Some(entry) = node.entry("when") else { return Conditions::default() };
        if let Some(other) = AUTHENTICATION.iter().chain(&["cors"]).find_map(|key| node.entry(key)) {
            let what = format!("`when` beside `{}`, which is asked for on all requests or on none", other.key);
            self.problems.add(entry.key_span, what, "name the policy on routes of their own, which may have a `when`");
        }
        // Whether a claim is known then is seen where the policy is named.
        self.conditions(&entry.value, Place { claims: Claims::Verified, is_route: false }).unwrap_or_default()
    }

    /// A request shows one credential in `Authorization`.
    fn one_way_to_authenticate(&mut self, node: &Node) {
        let mut ways = AUTHENTICATION.iter().filter_map(|key| node.entry(key));
        if let (Some(first), Some(second)) = (ways.next(), ways.next()) {
            let what =
                format!("`{}` beside `{}`: a policy demands to know who comes in one way", second.key, first.key);
            self.problems.add(second.key_span, what, "write two policies, and name both where requests must pass both");
        }
    }

    fn token_rule(&mut self, node: &Node, verifiers: &BTreeMap<&str, Span>) -> Option<TokenRule> {
        let claims = node.get("claims").map(Node::entries).unwrap_or_default();
        let values = |entry: &crate::yaml::Entry| {
            let values = entry.value.one_or_many().iter().filter_map(Node::text).map(str::to_owned).collect();
            (entry.key.clone(), values)
        };
        Some(TokenRule {
            verifier: self.name_of(node.get("verifier")?, "verifier", verifiers)?,
            cookie: self.parsed(node, "cookie", cookie_name),
            allow_missing: setting(node, "allow_missing"),
            scopes: self.parsed_list(node, "scopes", scope),
            claims: claims.iter().map(values).collect(),
            set: self.fields(node, "set", subject_field),
        })
    }

    fn basic_rule(&mut self, policy: &str, node: &Node) -> Option<BasicRule> {
        let realm = self.parsed(node, "realm", |text| match text.contains(['"', '\\']) {
            true => Err(Fault::new("a realm cannot hold quotes or backslashes", "leave them out")),
            false => headers::field_value(text),
        });
        Some(BasicRule {
            file: self.file(node, "file")?,
            realm: realm.unwrap_or_else(|| policy.to_owned()),
            user_header: self.parsed(node, "user_header", |text| headers::field_name(text).and_then(subject_field)),
            cache_ttl: setting(node, "cache_ttl"),
        })
    }

    fn forward_auth(&mut self, node: &Node, upstreams: &BTreeMap<&str, Span>) -> Option<ForwardAuth> {
        let upstream = self.name_of(node.get("upstream")?, "upstream", upstreams)?;
        let path = self.parsed(node, "path", question_path)?;
        let host = match self.parsed(node, "host", headers::field_value) {
            None => HostRewrite::Upstream,
            Some(host) if host == "{host}" => HostRewrite::Keep,
            Some(host) => HostRewrite::Fixed(host),
        };
        let send = self.parsed_list(node, "send", |text| headers::field_name(text).and_then(question_field));
        Some(ForwardAuth {
            upstream,
            path,
            append_path: setting(node, "append_path"),
            host,
            sends_all: send.iter().any(|name| name == "*"),
            send,
            copy: self.parsed_list(node, "copy", |text| headers::field_name(text).and_then(subject_field)),
            set_cookies: setting(node, "set_cookies"),
            relay: node.get("relay").and_then(read::as_bool).unwrap_or(true),
            sign_in: self.parsed(node, "sign_in", sign_in_page),
            timeout: setting(node, "timeout"),
        })
    }

    fn cors(&mut self, node: &Node) -> Cors {
        let origins = node.get("origins").map(Node::one_or_many).unwrap_or_default();
        let any_origin = origins.iter().any(|item| item.text() == Some("*"));
        let cors = Cors {
            any_origin,
            origins: if any_origin { Vec::new() } else { self.parsed_list(node, "origins", origin) },
            credentials: setting(node, "credentials"),
            methods: self.parsed_list(node, "methods", method),
            headers: self.parsed_list(node, "headers", headers::field_name),
            expose_headers: self.parsed_list(node, "expose_headers", headers::field_name),
            max_age: setting(node, "max_age"),
        };
        if let Some(at) = node.get("origins").filter(|_| any_origin && (cors.credentials || origins.len() > 1)) {
            let what = match cors.credentials {
                true => "pages of every origin could act with the credentials of whoever visits them",
                false => "`*` beside other origins: it is all of them",
            };
            self.problems.add(at.span, what, "name the origins, or write `*` alone without `credentials`");
        }
        cors
    }

    fn maintenance(&mut self, node: &Node) -> Option<Maintenance> {
        Some(Maintenance {
            // It need not be there.
            file: self.sources.folder(node.span).join(node.get("file")?.text()?),
            retry_after: setting(node, "retry_after"),
            except: self.parsed_list(node, "except", address::network),
        })
    }

    fn networks(&mut self, node: &Node, (list, file): (&str, &str), is_allowed: bool) -> Option<Networks> {
        if node.entry(list).is_none() && node.entry(file).is_none() {
            return None;
        }
        Some(Networks { file: self.file(node, file), ..self.clients(node, list, is_allowed) })
    }

    /// The policies that something names. `is_verified`: a token may have been verified before the first of them is asked.
    pub(super) fn policy_names(
        &mut self,
        node: &Node,
        known: &KnownPolicies<'_>,
        mut is_verified: bool,
    ) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for item in node.get("policies").map(Node::one_or_many).unwrap_or_default() {
            let Some(name) = self.name_of(item, "policy", &known.names) else { continue };
            is_verified |= known.verifies(&name);
            if known.counting.contains(name.as_str()) && !is_verified {
                let what =
                    format!("{} counts by a claim, and no token is verified before its turn comes", shown(&name));
                self.problems.add(item.span, what, "name a policy with `jwt` before it");
            }
            if let Some(claim) = known.demanding.get(name.as_str()).filter(|_| !is_verified) {
                let place = self.sources.seen_from(item.span, *claim);
                let what =
                    format!("{} demands a claim {place}, and no token is verified before its turn comes", shown(&name));
                self.problems.add(item.span, what, "name a policy with `jwt` before it");
            }
            self.one_more_policy(item, name, &mut out);
        }
        out
    }

    fn one_more_policy(&mut self, item: &Node, name: String, out: &mut Vec<String>) {
        if out.contains(&name) {
            let what = format!("{} is in `policies` twice", shown(&name));
            self.problems.add(item.span, what, "remove one of the two");
        } else {
            out.push(name);
        }
    }
}

/// A field in which an upstream may be told who the client is: one that nobody else writes.
fn subject_field(name: String) -> Result<String, Fault> {
    let name = headers::editable(name, true)?;
    let is_free = match FieldKind::of(name.as_bytes()) {
        FieldKind::Plain => !matches!(name.as_str(), "authorization" | "cookie" | "via"),
        FieldKind::Forwarding => !headers::WRITTEN.contains(&name.as_str()),
        _ => false,
    };
    if is_free {
        return Ok(name);
    }
    let what = format!("{} cannot say who the client is: it has a meaning of its own", shown(&name));
    Err(Fault::new(what, "use another name such as `x-user`"))
}

/// Whether an upstream may be told in this field who the client is: `copy` of `forward_auth` takes it.
pub fn is_subject_field(name: &str) -> bool {
    subject_field(name.to_owned()).is_ok()
}

/// An origin as browsers write it (RFC 6454 §6.2): in lower case, without a path, and without the port that the scheme has by itself.
fn origin(text: &str) -> Result<OriginPattern, Fault> {
    let wrong = |what: &str| {
        let fix =
            "write it as browsers do: `https://app.example.com`, `https://*.example.com`, `http://localhost:3000`";
        Fault::new(format!("{} {what}", shown(text)), fix)
    };
    let (scheme, host) = match text.split_once("://") {
        Some((scheme @ ("http" | "https"), host)) => (scheme, host),
        _ => return Err(wrong("is no origin of http or https")),
    };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let own = if scheme == "https" { "443" } else { "80" };
    match port {
        Some(port) if port == own => {
            return Err(wrong("names the port that the scheme has by itself, which browsers leave out"));
        }
        Some(port) if port.parse::<u16>().is_err() || port.starts_with('0') => return Err(wrong("names no port")),
        _ => {}
    }
    let fits = |name: &str| {
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        name.split('.').all(is_label) || (name.starts_with('[') && name.ends_with(']'))
    };
    match name.strip_prefix("*.") {
        Some(below) if fits(below) => {
            let suffix = host.strip_prefix('*').unwrap_or_default().to_owned();
            Ok(OriginPattern::Below { scheme: format!("{scheme}://"), suffix })
        }
        None if fits(name) => Ok(OriginPattern::Exact(text.to_owned())),
        _ => Err(wrong("is no origin")),
    }
}

/// Where those go who have not signed in: a path of this host, or a URL.
fn sign_in_page(text: &str) -> Result<Template, Fault> {
    none_in_target(text, None)?;
    let target = Target::cut(text)?;
    if target.tls.is_none() && target.path.starts_with("//") {
        let what = "a Location that starts with `//` leads to another host";
        return Err(Fault::new(what, "write the whole URL, or a path with one `/`"));
    }
    target.whole_template(Scope::NOTHING)
}

/// Path and query of a question: as they go over the wire.
fn question_path(text: &str) -> Result<String, Fault> {
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not a path", shown(text)), "write it as it is sent, such as `/oauth2/auth`"))
}

/// A field of a client that an authentication service may get: none that says who the client is, which we write ourselves.
fn question_field(name: String) -> Result<String, Fault> {
    let name = headers::not_framing(name)?;
    if is_own_of_client(name.as_bytes()) {
        return Ok(name);
    }
    Err(Fault::new(format!("{} is not the client's to send", shown(&name)), "leave it out; Portunus writes it itself"))
}

/// The name of a cookie (RFC 6265 §4.1.1).
fn cookie_name(text: &str) -> Result<String, Fault> {
    if headers::is_token(text) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not the name of a cookie", shown(text)), "use letters, digits, `-` and `_`"))
}

/// A scope (RFC 6749 §3.3).
fn scope(text: &str) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if !text.is_empty() && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not a scope", shown(text)), "write each scope as an item of its own, without spaces"))
}
