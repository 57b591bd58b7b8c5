//! What a request must be like, beside its host, method and path: `when`.

use ipnet::IpNet;

use super::{HostPattern, Origins};
use crate::expression::Expression;

/// Conditions, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// On values of the head.
    pub values: Vec<ValueCondition>,
    /// The client is in one of these networks; empty for any client.
    pub client: Vec<IpNet>,
    /// The client's certificate has one of these alternative names (`DNS:`, `URI:`, `EMAIL:`, `IP:` prefixed); empty for any, and for none.
    pub certificate: Vec<String>,
    /// The TLS server name is one of these; empty for any, and for none.
    pub server_name: Vec<HostPattern>,
    /// The client's JA4 fingerprint is one of these; empty for any, and for none.
    pub ja4: Vec<Ja4Pattern>,
    /// The client is in one of these countries, and in one of these autonomous systems; empty for any.
    pub origins: Origins,
}

impl Conditions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let others = [
            self.client.is_empty(),
            self.certificate.is_empty(),
            self.server_name.is_empty(),
            self.ja4.is_empty(),
            self.origins.countries.is_empty(),
            self.origins.asns.is_empty(),
        ];
        self.values.len() + others.into_iter().filter(|is_empty| !is_empty).count()
    }

    /// How exact they are, for those of which one goes first: their number, then how little each leaves open.
    pub fn exactness(&self) -> (usize, u64) {
        const EXACT: u64 = 3 << 32;
        const PREFIX: u64 = 2 << 32;
        const REGEX: u64 = 1 << 32;
        let of_match = |wanted: &ValueMatch| match wanted {
            ValueMatch::Exact(_) => EXACT,
            ValueMatch::Prefix(text) => PREFIX + text.len() as u64,
            ValueMatch::Regex(_) => REGEX,
            ValueMatch::Present | ValueMatch::Absent => 0,
        };
        let of_name = |pattern: &HostPattern| match pattern {
            HostPattern::Exact(_) => EXACT,
            HostPattern::Wildcard(parent) => PREFIX + parent.len() as u64,
        };
        let of_fingerprint = |pattern: &Ja4Pattern| match pattern.open_parts() {
            0 => EXACT,
            open => PREFIX - open as u64,
        };
        let of_san = |san: &String| if san.contains('*') { PREFIX + san.len() as u64 } else { EXACT };
        let of_network = |network: &IpNet| {
            let before = if network.addr().is_ipv4() { 96 } else { 0 };
            PREFIX + before + u64::from(network.prefix_len())
        };
        let values: u64 = self.values.iter().filter_map(|condition| condition.any.iter().map(of_match).min()).sum();
        let others = [
            self.client.iter().map(of_network).min(),
            self.server_name.iter().map(of_name).min(),
            self.certificate.iter().map(of_san).min(),
            self.ja4.iter().map(of_fingerprint).min(),
            self.origins.countries.first().map(|_| EXACT),
            self.origins.asns.first().map(|_| EXACT),
        ];
        (self.len(), values + others.into_iter().flatten().sum::<u64>())
    }

    /// Demands that a header field (name in lower case) has exactly this value.
    pub fn demand_field(&mut self, name: String, value: String) {
        self.values.push(ValueCondition { of: ValueOf::Header, name, any: vec![ValueMatch::Exact(value)] });
    }
}

/// A JA4 fingerprint, or several that share parts of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ja4Pattern {
    /// As it is written, `*` standing for a whole part.
    pub text: String,
}

impl Ja4Pattern {
    /// Whether a fingerprint is one of these.
    pub fn matches(&self, fingerprint: &str) -> bool {
        let mut parts = self.text.split('_').zip(fingerprint.split('_'));
        parts.all(|(wanted, part)| wanted == "*" || wanted == part)
    }

    /// How many of its parts it leaves open.
    pub fn open_parts(&self) -> usize {
        self.text.split('_').filter(|part| *part == "*").count()
    }

    /// Whether no fingerprint is one of both.
    pub fn excludes(&self, other: &Ja4Pattern) -> bool {
        let mut parts = self.text.split('_').zip(other.text.split('_'));
        parts.any(|(one, other)| one != "*" && other != "*" && one != other)
    }
}

/// A condition on a value of the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCondition {
    /// Where it stands.
    pub of: ValueOf,
    /// Its name; of header fields in lower case.
    pub name: String,
    /// What it may be: one of these.
    pub any: Vec<ValueMatch>,
}

/// Where a value of a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueOf {
    /// In header fields.
    Header,
    /// In the query, decoded.
    Query,
    /// In cookies.
    Cookie,
    /// Among the claims of a verified token. Of a list each item is a value.
    Claim,
}

/// What a value may be. A name that comes more than once matches by any of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueMatch {
    /// Exactly this.
    Exact(String),
    /// Begins with this.
    Prefix(String),
    /// Matched as a whole.
    Regex(Expression),
    /// There, whatever it is.
    Present,
    /// Not there.
    Absent,
}
