//! Requests that a route takes, put together from its host, path and conditions, to try what becomes of them. For warnings; decides nothing.

use std::net::IpAddr;
use std::sync::Arc;

use config::{
    Comparison, Condition, Conditions, Config, Endpoint, HostPattern, ListenerConfig, PathPattern, RouteConfig,
    Segment, Service, ValueCondition, ValueMatch, ValueOf,
};
use tls::{Info, PeerCertificate};
use wire::http::RequestHead;
use wire::http::percent;
use wire::http::target::{canonical_authority, read_origin_form};

use crate::addressed;
use crate::geoip::Located;
use crate::route::conditions::hold;
use crate::route::{Arrival, Sought};

/// Most values by one name, and most bytes of one, that an example has.
const MOST: usize = 64;

/// A request on its way.
#[derive(Debug)]
pub struct Step<'a> {
    /// Where it comes in.
    pub listener: &'a Arc<ListenerConfig>,
    /// What it says.
    pub head: RequestHead,
    /// Who sends it, where a condition says so.
    pub client: Option<IpAddr>,
    /// Names that the client's certificate has.
    pub certificate: Option<PeerCertificate>,
}

/// Requests that a route takes, one for each listener, host and path of these.
pub fn starts<'a>(config: &'a Config, route: &RouteConfig, paths: &[String]) -> Vec<Step<'a>> {
    let is_visible = |listener: &&Arc<ListenerConfig>| {
        matches!(listener.service, Service::Http)
            && (route.listeners.is_empty() || route.listeners.contains(&listener.name))
    };
    let host = |host: &HostPattern| match host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(parent) => format!("any.{parent}"),
    };
    let hosts: Vec<String> = match &route.hosts[..] {
        [] => vec!["any.example".to_owned()],
        hosts => hosts.iter().map(host).collect(),
    };
    let mut steps = Vec::new();
    for listener in config.listeners.iter().filter(is_visible) {
        for host in &hosts {
            steps.extend(paths.iter().filter_map(|path| sample(route, listener, host, path)));
        }
    }
    steps
}

impl Step<'_> {
    /// Its URL.
    pub fn url(&self) -> String {
        let scheme = if self.listener.tls.is_some() { "https" } else { "http" };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{scheme}://{}{}", text(&self.head.authority), text(&self.head.target))
    }

    /// What its handshake would have agreed on.
    pub fn info(&self) -> Option<Info> {
        self.listener.tls.as_ref()?;
        let host = std::str::from_utf8(self.head.host()).ok();
        Some(addressed::usual_tls(host, self.certificate.clone().map(Box::new)))
    }

    /// What routes and conditions are asked about it; `tls`: its [`Step::info`].
    pub fn sought<'s>(&'s self, tls: Option<&'s Info>) -> Sought<'s> {
        let (head, client, located, arrival) = (&self.head, self.client, Located::default(), self.arrival());
        Sought { head, client, tls, subject: None, located, arrival }
    }

    /// How it comes here.
    fn arrival(&self) -> Arrival<'static> {
        let port = |endpoint: &Endpoint| match endpoint {
            Endpoint::Tcp(address) => Some(address.port()),
            Endpoint::Unix(_) => None,
        };
        let port = self.listener.options.public_port.or_else(|| self.listener.bind.iter().find_map(port));
        Arrival { port: port.unwrap_or(0), is_secure: self.listener.tls.is_some(), ..Arrival::default() }
    }

    /// Whether it is as conditions demand.
    fn meets(&self, conditions: &Conditions) -> bool {
        hold(conditions, &self.sought(self.info().as_ref()))
    }
}

/// A request that a route takes, unless another one goes before it; none where its conditions cannot be met here, or nobody knows how.
fn sample<'a>(route: &RouteConfig, listener: &'a Arc<ListenerConfig>, host: &str, path: &str) -> Option<Step<'a>> {
    let head = RequestHead { method: route.methods.first().cloned().unwrap_or_default(), ..RequestHead::default() };
    let mut draft = Draft { target: path.to_owned(), head, client: None, certificate: None };
    draft.meet(&route.when)?;
    let Draft { target, mut head, client, certificate } = draft;
    read_origin_form(target.as_bytes(), &mut head).ok()?;
    canonical_authority(host.as_bytes(), &mut head.authority).ok()?;
    let step = Step { listener, head, client, certificate };
    // Of a tree one way was tried, and what `not` demands was left to chance.
    (!route.when.has_groups() || step.meets(&route.when)).then_some(step)
}

/// A request that is put together.
struct Draft {
    target: String,
    head: RequestHead,
    client: Option<IpAddr>,
    certificate: Option<PeerCertificate>,
}

impl Draft {
    /// Has it meet conditions; of alternatives the first.
    fn meet(&mut self, conditions: &Conditions) -> Option<()> {
        conditions.0.iter().try_for_each(|condition| match condition {
            Condition::Value(value) => self.add(value),
            Condition::All(items) => items.iter().try_for_each(|item| self.meet(item)),
            Condition::Any(items) => self.meet(items.first()?),
            Condition::Method(methods) => {
                self.head.method = methods.first()?.clone();
                Some(())
            }
            Condition::Version(versions) => {
                self.head.version = *versions.first()?;
                Some(())
            }
            Condition::Client(networks) => {
                self.client = Some(networks.first()?.addr());
                Some(())
            }
            Condition::Certificate(names) => {
                // Of other kinds of names, and of wildcards, no example is made.
                let name = names.first()?.strip_prefix("DNS:").filter(|name| !name.contains('*'))?;
                self.certificate = Some(with_name(name));
                Some(())
            }
            Condition::Path(_)
            | Condition::Scheme(_)
            | Condition::Port(_)
            | Condition::ServerName(_)
            | Condition::Ja4(_)
            | Condition::Country(_)
            | Condition::Asn(_)
            | Condition::Not(_) => Some(()),
        })
    }

    /// Has it meet one on a value.
    fn add(&mut self, condition: &ValueCondition) -> Option<()> {
        let mut wanted = condition.any.first()?;
        if let ValueMatch::Of(_, one) = wanted {
            wanted = one;
        }
        let (count, value) = match wanted {
            ValueMatch::Absent => return Some(()),
            ValueMatch::Present => (1, "x".to_owned()),
            ValueMatch::Exact(text) | ValueMatch::Prefix(text) => (1, text.clone()),
            ValueMatch::Regex(expression) => (1, expression.a_match(&mut Comparison::of_values())?),
            ValueMatch::Number(bounds) => (1, bounds.least.to_string()),
            ValueMatch::Count(bounds) => (usize::try_from(bounds.least).ok()?, "x".to_owned()),
            ValueMatch::Length(bounds) => (1, "x".repeat(usize::try_from(bounds.least).ok().filter(is_little)?)),
            ValueMatch::Of(..) => return None,
        };
        if !is_little(&count) {
            return None;
        }
        (0..count).try_for_each(|_| self.add_value(condition.of, &condition.name, &value))
    }

    fn add_value(&mut self, of: ValueOf, name: &str, value: &str) -> Option<()> {
        match of {
            ValueOf::Header => self.head.fields.push(name.as_bytes(), value.as_bytes()),
            ValueOf::Cookie => self.head.fields.push(b"cookie", format!("{name}={value}").as_bytes()),
            ValueOf::Query => {
                self.target.push(if self.target.contains('?') { '&' } else { '?' });
                let mut encoded = Vec::new();
                for (at, text) in [name, value].into_iter().enumerate() {
                    encoded.extend((at > 0).then_some(b'='));
                    text.bytes().for_each(|byte| match percent::is_unreserved(byte) {
                        true => encoded.push(byte),
                        false => percent::push(byte, &mut encoded),
                    });
                }
                self.target.push_str(std::str::from_utf8(&encoded).ok()?);
            }
            // Whose claims these are is known once a route is taken.
            ValueOf::Claim => return None,
        }
        Some(())
    }
}

/// Whether an example may have so much of something.
fn is_little(count: &usize) -> bool {
    *count <= MOST
}

/// A certificate with this name.
fn with_name(name: &str) -> PeerCertificate {
    PeerCertificate {
        der: Vec::new(),
        subject: String::new(),
        issuer: String::new(),
        serial: String::new(),
        fingerprint: String::new(),
        dns_names: vec![name.to_owned()],
        uris: Vec::new(),
        emails: Vec::new(),
        addresses: Vec::new(),
    }
}

/// Paths that a pattern matches; none if it is an expression of which no example is found. The first one has something for each parameter.
pub fn paths(pattern: &PathPattern) -> Vec<String> {
    if let Some(expression) = pattern.expression() {
        // One for decoded paths has an example here if it needs no escapes.
        return expression.a_match(&mut Comparison::of_paths()).into_iter().collect();
    }
    let mut path = String::new();
    for segment in &pattern.segments {
        path.push('/');
        match segment {
            Segment::Static(text) => path.push_str(text),
            Segment::Param { prefix, .. } => {
                path.push_str(prefix);
                path.push('x');
            }
            Segment::CatchAll { .. } => return vec![format!("{path}x"), path],
            Segment::Prefix { text, .. } => return vec![format!("{path}{text}x"), format!("{path}{text}")],
            Segment::Regex(_) => return Vec::new(),
        }
    }
    vec![path]
}
