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
