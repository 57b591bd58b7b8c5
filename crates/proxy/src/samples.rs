//! Requests that a route takes, put together from its host, path and conditions, to try what becomes of them. For warnings; decides nothing.

use std::net::IpAddr;
use std::sync::Arc;

use config::{
    Comparison, Conditions, Config, HostPattern, ListenerConfig, PathPattern, RouteConfig, Segment, Service,
    ValueCondition, ValueMatch, ValueOf,
};
use tls::{Info, PeerCertificate};
use wire::http::RequestHead;
use wire::http::percent;
use wire::http::target::{canonical_authority, read_origin_form};

use crate::addressed;

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
}

/// A request that a route takes, unless another one goes before it; none where its conditions cannot be met here.
fn sample<'a>(route: &RouteConfig, listener: &'a Arc<ListenerConfig>, host: &str, path: &str) -> Option<Step<'a>> {
    let Conditions { values, client, certificate, .. } = &route.when;
    let mut head = RequestHead { method: route.methods.first().cloned().unwrap_or_default(), ..RequestHead::default() };
    let mut target = path.to_owned();
    for condition in values {
        add(condition, &mut target, &mut head)?;
    }
    read_origin_form(target.as_bytes(), &mut head).ok()?;
    canonical_authority(host.as_bytes(), &mut head.authority).ok()?;
    let certificate = match certificate.first() {
        None => None,
        // Of other kinds of names, and of wildcards, no example is made.
        Some(san) => Some(with_name(san.strip_prefix("DNS:").filter(|name| !name.contains('*'))?)),
    };
    Some(Step { listener, head, client: client.first().map(|network| network.addr()), certificate })
}

/// Has a request meet a condition.
fn add(condition: &ValueCondition, target: &mut String, head: &mut RequestHead) -> Option<()> {
    let value = match condition.any.first()? {
        ValueMatch::Absent => return Some(()),
        ValueMatch::Present => "x".to_owned(),
        ValueMatch::Exact(text) | ValueMatch::Prefix(text) => text.clone(),
        ValueMatch::Regex(expression) => expression.a_match(&mut Comparison::of_values())?,
    };
    match condition.of {
        ValueOf::Header => head.fields.push(condition.name.as_bytes(), value.as_bytes()),
        ValueOf::Cookie => head.fields.push(b"cookie", format!("{}={value}", condition.name).as_bytes()),
        ValueOf::Query => {
            target.push(if target.contains('?') { '&' } else { '?' });
            let mut encoded = Vec::new();
            for (at, text) in [&condition.name, &value].into_iter().enumerate() {
                encoded.extend((at > 0).then_some(b'='));
                text.bytes().for_each(|byte| match percent::is_unreserved(byte) {
                    true => encoded.push(byte),
                    false => percent::push(byte, &mut encoded),
                });
            }
            target.push_str(std::str::from_utf8(&encoded).ok()?);
        }
        // Whose claims these are is known once a route is taken.
        ValueOf::Claim => return None,
    }
    Some(())
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
