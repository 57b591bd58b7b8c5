//! `when`: whether a request is as a route, a share or a policy demands. How that is said to people is in `reasons.rs`, and whether two demands can hold at
//! once in `exclusion.rs`.

use std::borrow::Cow;
use std::net::IpAddr;

use config::{
    Condition, Conditions, Forwarding, HostPattern, Ja4Pattern, Scheme, Share, ValueCondition, ValueMatch, ValueOf,
    Which, is_in_network,
};
use ipnet::IpNet;
use wire::http::percent;
use wire::http::{Method, RequestHead};

use super::single_pattern::takes;
use crate::auth::Subject;
use crate::client;
use crate::geoip::Located;

/// What routes look at: the head of a request, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    /// The head.
    pub head: &'a RequestHead,
    /// Who sent it; none on Unix sockets.
    pub client: Option<IpAddr>,
    /// Its connection's TLS, if it is under TLS.
    pub tls: Option<&'a tls::Info>,
    /// Who it was verified to come from; none before policies were asked.
    pub subject: Option<&'a Subject>,
    /// Where its client is.
    pub located: Located<'a>,
    /// How it came here.
    pub arrival: Arrival<'a>,
}

/// How a request came here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrival<'a> {
    /// The port that its client connected to; 0 where none is known.
    pub port: u16,
    /// Over TLS.
    pub is_secure: bool,
    /// By a trusted proxy: what is believed of such.
    pub trusted: Option<&'a Forwarding>,
    /// Another proxy asks about it: how it came to that one is not known, unless it says so.
    pub is_relayed: bool,
}

impl Arrival<'_> {
    /// The scheme that the client used: what a trusted proxy says, else that of the connection. None where neither is known, or it is another one.
    pub fn scheme(&self, head: &RequestHead) -> Option<Scheme> {
        let trusted = self.trusted.filter(|forwarding| forwarding.trusts_field(b"x-forwarded-proto"));
        match trusted.and_then(|_| client::reported(&head.fields, "x-forwarded-proto")) {
            // Some proxies name that of a WebSocket, which is any client's to ask for.
            Some(said) if [&b"https"[..], b"wss"].iter().any(|one| said.eq_ignore_ascii_case(one)) => {
                Some(Scheme::Https)
            }
            Some(said) if [&b"http"[..], b"ws"].iter().any(|one| said.eq_ignore_ascii_case(one)) => Some(Scheme::Http),
            Some(_) => None,
            None if self.is_relayed => None,
            None => Some(if self.is_secure { Scheme::Https } else { Scheme::Http }),
        }
    }
}

impl<'a> From<&'a RequestHead> for Sought<'a> {
    /// From nobody in particular, in the clear.
    fn from(head: &'a RequestHead) -> Sought<'a> {
        let (located, arrival) = (Located::default(), Arrival::default());
        Sought { head, client: None, tls: None, subject: None, located, arrival }
    }
}

/// Whether all conditions hold.
pub(crate) fn hold(conditions: &Conditions, sought: &Sought<'_>) -> bool {
    hold_at(conditions, sought, sought.head.path())
}

/// Whether all conditions hold if this is the path: that of the request, or a reading of it.
pub(super) fn hold_at(conditions: &Conditions, sought: &Sought<'_>, path: &[u8]) -> bool {
    conditions.0.iter().all(|condition| holds(condition, sought, path))
}

/// Whether a condition holds. What is not known of a request is not as wanted.
pub(super) fn holds(condition: &Condition, sought: &Sought<'_>, path: &[u8]) -> bool {
    match condition {
        Condition::Value(value) => has_value(value, sought),
        Condition::Method(methods) => has_method(methods, &sought.head.method),
        Condition::Path(patterns) => patterns.iter().any(|pattern| takes(pattern, path)),
        Condition::Scheme(scheme) => sought.arrival.scheme(sought.head) == Some(*scheme),
        Condition::Port(ports) => ports.contains(&sought.arrival.port),
        Condition::Version(versions) => !sought.arrival.is_relayed && versions.contains(&sought.head.version),
        Condition::Client(networks) => is_client(networks, sought.client),
        Condition::Certificate(names) => has_certificate(names, sought.tls),
        Condition::ServerName(names) => has_server_name(names, sought.tls),
        Condition::Ja4(patterns) => has_fingerprint(patterns, sought.tls),
        Condition::Country(countries) => countries.contains(&sought.located.country()),
        Condition::Asn(asns) => asns.contains(&sought.located.asn()),
        Condition::All(items) => items.iter().all(|item| hold_at(item, sought, path)),
        Condition::Any(items) => items.iter().any(|item| hold_at(item, sought, path)),
        Condition::Not(conditions) => !hold_at(conditions, sought, path),
    }
}

fn has_value(condition: &ValueCondition, sought: &Sought<'_>) -> bool {
    let (name, head) = (condition.name.as_str(), sought.head);
    match condition.of {
        ValueOf::Header => suits(&condition.any, || head.values(name).map(Cow::Borrowed)),
        ValueOf::Cookie => suits(&condition.any, || head.fields.cookies(name.as_bytes()).map(Cow::Borrowed)),
        ValueOf::Claim => {
            let bytes = |value: Cow<'_, str>| Cow::<[u8]>::Owned(value.into_owned().into_bytes());
            suits(&condition.any, || {
                sought.subject.into_iter().flat_map(|subject| subject.claim_values(name)).map(bytes)
            })
        }
        ValueOf::Query => suits(&condition.any, || query_values(head.query(), name.as_bytes())),
    }
}

/// Whether the values are as one of these says.
fn suits<'v, I: Iterator<Item = Cow<'v, [u8]>>>(any: &[ValueMatch], values: impl Fn() -> I) -> bool {
    let count = || values().fold(0_u64, |count, _| count.saturating_add(1));
    any.iter().any(|wanted| match wanted {
        ValueMatch::Absent => values().next().is_none(),
        ValueMatch::Present => values().next().is_some(),
        ValueMatch::Count(bounds) => bounds.hold(count()),
        ValueMatch::Of(Which::First, wanted) => values().next().is_some_and(|value| is_as_wanted(wanted, &value)),
        ValueMatch::Of(Which::Last, wanted) => values().last().is_some_and(|value| is_as_wanted(wanted, &value)),
        ValueMatch::Of(Which::All, wanted) => {
            values().next().is_some() && values().all(|value| is_as_wanted(wanted, &value))
        }
        wanted => values().any(|value| is_as_wanted(wanted, &value)),
    })
}

/// Whether one value is as wanted.
fn is_as_wanted(wanted: &ValueMatch, value: &[u8]) -> bool {
    match wanted {
        ValueMatch::Exact(text) => *value == *text.as_bytes(),
        ValueMatch::Prefix(text) => value.starts_with(text.as_bytes()),
        ValueMatch::Regex(expression) => expression.matches(value),
        ValueMatch::Length(bounds) => bounds.hold(value.len() as u64),
        ValueMatch::Number(bounds) => bounds.hold_text(value),
        // What is said of all values together is said of none.
        ValueMatch::Present | ValueMatch::Absent | ValueMatch::Count(_) | ValueMatch::Of(..) => false,
    }
}

/// Whether a method is among these, HEAD by GET.
fn has_method(methods: &[Method], method: &Method) -> bool {
    methods.contains(method) || (*method == Method::Head && methods.contains(&Method::Get))
}

/// The values of a parameter of the query, which begins with its `?`; names and values decoded, `+` being a blank.
pub(crate) fn query_values<'q>(query: &'q [u8], name: &[u8]) -> impl Iterator<Item = Cow<'q, [u8]>> {
    sent_query_values(query, name).map(decoded)
}

/// The first value of a parameter of the query, as it was sent.
pub(super) fn sent_query_value<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    sent_query_values(query, name).next()
}

fn sent_query_values<'q>(query: &'q [u8], name: &[u8]) -> impl Iterator<Item = &'q [u8]> {
    let pairs = query.strip_prefix(b"?").unwrap_or_default().split(|byte| *byte == b'&');
    pairs.filter(|pair| !pair.is_empty()).filter_map(move |pair| {
        let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let (given, value) = pair.split_at_checked(at)?;
        (*decoded(given) == *name).then(|| value.strip_prefix(b"=").unwrap_or_default())
    })
}

pub(super) fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, low, further @ ..]) => match percent::decode(*high, *low) {
                Some(byte) => (rest, _) = (further, out.push(byte)),
                None => out.push(first),
            },
            _ => out.push(first),
        }
    }
    Cow::Owned(out)
}

fn is_client(networks: &[IpNet], client: Option<IpAddr>) -> bool {
    client.is_some_and(|client| networks.iter().any(|network| is_in_network(network, client)))
}

fn has_server_name(names: &[HostPattern], tls: Option<&tls::Info>) -> bool {
    let Some(name) = tls.and_then(|tls| tls.server_name.as_deref()) else { return false };
    names.iter().any(|wanted| match wanted {
        HostPattern::Exact(exact) => exact == name,
        HostPattern::Wildcard(parent) => is_below(name, parent),
    })
}

/// Whether a name is one or more labels before another.
fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
}

fn has_certificate(names: &[String], tls: Option<&tls::Info>) -> bool {
    let Some(certificate) = tls.and_then(|tls| tls.peer.as_deref()) else { return false };
    names.iter().any(|san| {
        if let Some(parent) = san.strip_prefix("DNS:*.") {
            return certificate.dns_names.iter().any(|name| is_below(&name.to_ascii_lowercase(), parent));
        }
        if let Some(start) = san.strip_prefix("URI:").and_then(|uri| uri.strip_suffix('*')) {
            return certificate.uris.iter().any(|uri| uri.starts_with(start));
        }
        client::holds(certificate, san)
    })
}

fn has_fingerprint(patterns: &[Ja4Pattern], tls: Option<&tls::Info>) -> bool {
    let Some(fingerprint) = tls.and_then(|tls| tls.fingerprint.as_deref()) else { return false };
    patterns.iter().any(|pattern| pattern.matches(fingerprint.as_str()))
}

/// The first share that has conditions and whose conditions hold.
pub fn held_share<'s>(shares: &'s [Share], sought: &Sought<'_>) -> Option<&'s Share> {
    shares.iter().find(|share| !share.when.is_empty() && hold(&share.when, sought))
}

/// The group that gets a request: that of the first share whose conditions hold, else one by weight.
pub fn share<'s>(shares: &'s [Share], sought: &Sought<'_>) -> Option<&'s str> {
    let held = held_share(shares, sought);
    let by_weight = || {
        let total: u64 = shares.iter().map(|share| u64::from(share.weight)).sum();
        let mut left = (total > 0).then(|| fastrand::u64(..total))?;
        shares.iter().find(|share| {
            let is_drawn = left < u64::from(share.weight);
            left = left.saturating_sub(u64::from(share.weight));
            is_drawn
        })
    };
    held.or_else(by_weight).map(|share| share.group.as_str())
}
