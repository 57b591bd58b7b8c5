//! `when`: whether a request is as a route demands, which of two demands is the more exact one, and whether two can hold at once.

use std::borrow::Cow;
use std::net::IpAddr;

use config::{
    Comparison, Conditions, Expression, HostPattern, Ja4Pattern, Origins, Relation, Share, ValueCondition, ValueMatch,
    ValueOf, is_in_network,
};
use ipnet::IpNet;
use wire::http::RequestHead;
use wire::http::percent;

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
}

impl<'a> From<&'a RequestHead> for Sought<'a> {
    /// From nobody in particular, in the clear.
    fn from(head: &'a RequestHead) -> Sought<'a> {
        Sought { head, client: None, tls: None, subject: None, located: Located::default() }
    }
}

/// Whether all conditions hold.
pub(crate) fn hold(conditions: &Conditions, sought: &Sought<'_>) -> bool {
    conditions.values.iter().all(|condition| holds(condition, sought))
        && (conditions.client.is_empty() || is_client(&conditions.client, sought.client))
        && (conditions.server_name.is_empty() || has_server_name(&conditions.server_name, sought.tls))
        && (conditions.certificate.is_empty() || has_certificate(&conditions.certificate, sought.tls))
        && (conditions.ja4.is_empty() || has_fingerprint(&conditions.ja4, sought.tls))
        && is_from(&conditions.origins, &sought.located)
}

/// The first condition that does not hold, in words.
pub(super) fn unmet(conditions: &Conditions, sought: &Sought<'_>) -> Option<String> {
    if let Some(condition) = conditions.values.iter().find(|condition| !holds(condition, sought)) {
        let of = match condition.of {
            ValueOf::Header => "header",
            ValueOf::Query => "query parameter",
            ValueOf::Cookie => "cookie",
            ValueOf::Claim => "claim",
        };
        let any: Vec<String> = condition.any.iter().map(in_words).collect();
        return Some(format!("{of} `{}` is not {}", condition.name, any.join(" or ")));
    }
    let list = |items: Vec<String>| items.join(", ");
    if !conditions.client.is_empty() && !is_client(&conditions.client, sought.client) {
        let networks = list(conditions.client.iter().map(ToString::to_string).collect());
        return Some(format!("the client is not in {networks}"));
    }
    if !conditions.server_name.is_empty() && !has_server_name(&conditions.server_name, sought.tls) {
        let names = list(conditions.server_name.iter().map(ToString::to_string).collect());
        return Some(format!("the TLS server name is not {names}"));
    }
    if !conditions.certificate.is_empty() && !has_certificate(&conditions.certificate, sought.tls) {
        return Some(format!("no client certificate with {}", list(conditions.certificate.clone())));
    }
    if !is_from(&conditions.origins, &sought.located) {
        let wanted = list(conditions.origins.texts().collect());
        return Some(format!("where the client is, as `geoip` has it, is not {wanted}"));
    }
    if !conditions.ja4.is_empty() && !has_fingerprint(&conditions.ja4, sought.tls) {
        let wanted = list(conditions.ja4.iter().map(|pattern| pattern.text.clone()).collect());
        return Some(format!("the JA4 fingerprint of the client is not {wanted}"));
    }
    None
}

fn in_words(wanted: &ValueMatch) -> String {
    match wanted {
        ValueMatch::Absent => "absent".to_owned(),
        ValueMatch::Present => "present".to_owned(),
        ValueMatch::Exact(text) => format!("`{text}`"),
        ValueMatch::Prefix(text) => format!("`{text}…`"),
        ValueMatch::Regex(expression) => format!("like `{}`", expression.text()),
    }
}

fn holds(condition: &ValueCondition, sought: &Sought<'_>) -> bool {
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

/// Whether any of the values is one that may be.
fn suits<'v, I: Iterator<Item = Cow<'v, [u8]>>>(any: &[ValueMatch], values: impl Fn() -> I) -> bool {
    any.iter().any(|wanted| match wanted {
        ValueMatch::Absent => values().next().is_none(),
        ValueMatch::Present => values().next().is_some(),
        ValueMatch::Exact(text) => values().any(|value| *value == *text.as_bytes()),
        ValueMatch::Prefix(text) => values().any(|value| value.starts_with(text.as_bytes())),
        ValueMatch::Regex(expression) => values().any(|value| expression.matches(&value)),
    })
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

/// Where each is named, the country and the autonomous system are among them.
fn is_from(origins: &Origins, located: &Located<'_>) -> bool {
    (origins.countries.is_empty() || origins.countries.contains(&located.country()))
        && (origins.asns.is_empty() || origins.asns.contains(&located.asn()))
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

/// Whether no request suits both (but for one that carries a name twice).
pub(super) fn exclude(one: &Conditions, other: &Conditions, comparison: &mut Comparison) -> bool {
    let apart = |one: &IpNet, other: &IpNet| !one.contains(other) && !other.contains(one);
    let all_apart = |ones: &[IpNet], others: &[IpNet]| {
        !ones.is_empty() && !others.is_empty() && ones.iter().all(|one| others.iter().all(|other| apart(one, other)))
    };
    let (ones, others) = (&one.ja4, &other.ja4);
    let apart_by_fingerprint =
        !ones.is_empty() && !others.is_empty() && ones.iter().all(|one| others.iter().all(|other| one.excludes(other)));
    let (from, from_others) = (&one.origins, &other.origins);
    let apart_by_origin =
        no_common(&from.countries, &from_others.countries) || no_common(&from.asns, &from_others.asns);
    let (ones, others) = (&one.server_name, &other.server_name);
    apart_by_fingerprint
        || apart_by_origin
        || all_apart(&one.client, &other.client)
        || (!ones.is_empty()
            && !others.is_empty()
            && ones.iter().all(|one| !others.iter().any(|other| one.overlaps(other))))
        || one.values.iter().any(|first| {
            let same = |second: &&ValueCondition| (second.of, &second.name) == (first.of, &first.name);
            other.values.iter().filter(same).any(|second| values_exclude(first, second, comparison))
        })
}

/// Whether two lists, neither of them empty, have nothing in common.
fn no_common<T: PartialEq>(ones: &[T], others: &[T]) -> bool {
    !ones.is_empty() && !others.is_empty() && ones.iter().all(|one| !others.contains(one))
}

fn values_exclude(one: &ValueCondition, other: &ValueCondition, comparison: &mut Comparison) -> bool {
    one.any.iter().all(|one| other.any.iter().all(|other| matches_exclude(one, other, comparison)))
}

fn matches_exclude(one: &ValueMatch, other: &ValueMatch, comparison: &mut Comparison) -> bool {
    use ValueMatch::{Absent, Exact, Prefix, Present, Regex};
    match (one, other) {
        (Absent, Absent) => false,
        (Absent, _) | (_, Absent) => true,
        (Present, _) | (_, Present) => false,
        (Exact(one), Exact(other)) => one != other,
        (Exact(text), Prefix(start)) | (Prefix(start), Exact(text)) => !text.starts_with(start.as_str()),
        (Exact(text), Regex(expression)) | (Regex(expression), Exact(text)) => !expression.matches(text.as_bytes()),
        (Prefix(one), Prefix(other)) => !one.starts_with(other.as_str()) && !other.starts_with(one.as_str()),
        (Prefix(start), Regex(expression)) | (Regex(expression), Prefix(start)) => {
            Expression::of_prefix(start).is_some_and(|start| start.relation(expression, comparison) == Relation::Apart)
        }
        // Values may hold bytes that are not compared; those are no letters, so two expressions that share one of these share others.
        (Regex(one), Regex(other)) => one.relation(other, comparison) == Relation::Apart,
    }
}
