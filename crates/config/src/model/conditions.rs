//! What a request must be like, beside its host, method and path: `when`, a tree.
//!
//! It is made once, when a file is loaded, and is what requests are judged by (`proxy::route`): lists in a row, no name is looked up and nothing is made for a request.

use ipnet::IpNet;
use wire::http::{Method, Version};

use super::{Country, HostPattern, PathPattern, Segment};
use crate::expression::Expression;

/// Conditions, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions(pub Vec<Condition>);

/// A condition. Of a list one item is enough, but for those of `All`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// A value of the head is as wanted.
    Value(ValueCondition),
    /// The method is one of these. GET includes HEAD.
    Method(Vec<Method>),
    /// The path is one of these.
    Path(Vec<PathPattern>),
    /// The client's scheme.
    Scheme(Scheme),
    /// The client came to one of these ports.
    Port(Vec<u16>),
    /// The request is of one of these versions of HTTP.
    Version(Vec<Version>),
    /// The client is in one of these networks.
    Client(Vec<IpNet>),
    /// The client's certificate has one of these alternative names (`DNS:`, `URI:`, `EMAIL:`, `IP:` prefixed).
    Certificate(Vec<String>),
    /// The TLS server name is one of these.
    ServerName(Vec<HostPattern>),
    /// The client's JA4 fingerprint is one of these.
    Ja4(Vec<Ja4Pattern>),
    /// The client is in one of these countries; none stands for those that the database does not know.
    Country(Vec<Option<Country>>),
    /// The client is in one of these autonomous systems; none as above.
    Asn(Vec<Option<u32>>),
    /// All of these hold.
    All(Vec<Conditions>),
    /// One of these holds.
    Any(Vec<Conditions>),
    /// These do not all hold.
    Not(Conditions),
}

/// How much a value leaves open, for those of which one goes first: nothing, a part (and how long the rest is), what an expression matches.
const EXACT: u64 = 3 << 32;
const PREFIX: u64 = 2 << 32;
const REGEX: u64 = 1 << 32;

impl Conditions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All conditions of the tree that have none in them.
    pub fn leaves(&self) -> Vec<&Condition> {
        let mut leaves = Vec::new();
        self.add_leaves(&mut leaves);
        leaves
    }

    fn add_leaves<'c>(&'c self, leaves: &mut Vec<&'c Condition>) {
        for condition in &self.0 {
            match condition {
                Condition::All(items) | Condition::Any(items) => items.iter().for_each(|item| item.add_leaves(leaves)),
                Condition::Not(conditions) => conditions.add_leaves(leaves),
                leaf => leaves.push(leaf),
            }
        }
    }

    /// Those of the tree that are on values of the head.
    pub fn values(&self) -> impl Iterator<Item = &ValueCondition> {
        self.leaves().into_iter().filter_map(|leaf| match leaf {
            Condition::Value(value) => Some(value),
            _ => None,
        })
    }

    /// The patterns of paths in the tree.
    pub fn paths(&self) -> impl Iterator<Item = &PathPattern> {
        fn of_leaf(leaf: &Condition) -> &[PathPattern] {
            match leaf {
                Condition::Path(patterns) => patterns,
                _ => &[],
            }
        }
        self.leaves().into_iter().flat_map(of_leaf)
    }

    /// Whether it is a tree: some of them have others in them.
    pub fn has_groups(&self) -> bool {
        self.0.iter().any(|one| matches!(one, Condition::All(_) | Condition::Any(_) | Condition::Not(_)))
    }

    /// How exact they are, for those of which one goes first: their number, then how little each leaves open. Of `any` the item counts that leaves most open,
    /// `not` is one condition that leaves all open but one thing.
    pub fn exactness(&self) -> (usize, u64) {
        let all = self.0.iter().map(Condition::exactness);
        all.fold((0, 0), |(count, exactness), (further, more)| (count + further, exactness + more))
    }

    /// Demands that a header field (name in lower case) has exactly this value.
    pub fn demand_field(&mut self, name: String, value: String) {
        let any = vec![ValueMatch::Exact(value)];
        self.0.push(Condition::Value(ValueCondition { of: ValueOf::Header, name, any }));
    }

    /// Whether they hold wherever these do, as far as that is plain to see.
    pub fn follow_from(&self, others: &Conditions) -> bool {
        self.0.iter().all(|condition| condition.follows_from(others))
    }
}

impl Condition {
    fn exactness(&self) -> (usize, u64) {
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
        let of_path = |pattern: &PathPattern| match pattern.segments.last() {
            Some(Segment::Regex(_)) => REGEX,
            _ if pattern.parameters().next().is_some() => PREFIX + pattern.text.len() as u64,
            _ => EXACT,
        };
        let least = match self {
            Condition::All(items) => {
                let all = items.iter().map(Conditions::exactness);
                return all.fold((0, 0), |(count, exactness), (further, more)| (count + further, exactness + more));
            }
            Condition::Any(items) => return items.iter().map(Conditions::exactness).min().unwrap_or_default(),
            Condition::Not(_) => Some(0),
            Condition::Value(value) => value.any.iter().map(ValueMatch::exactness).min(),
            Condition::Path(patterns) => patterns.iter().map(of_path).min(),
            Condition::Client(networks) => networks.iter().map(of_network).min(),
            Condition::ServerName(names) => names.iter().map(of_name).min(),
            Condition::Certificate(names) => names.iter().map(of_san).min(),
            Condition::Ja4(patterns) => patterns.iter().map(of_fingerprint).min(),
            Condition::Method(_) | Condition::Scheme(_) | Condition::Port(_) | Condition::Version(_) => Some(EXACT),
            Condition::Country(_) | Condition::Asn(_) => Some(EXACT),
        };
        (1, least.unwrap_or_default())
    }

    fn follows_from(&self, others: &Conditions) -> bool {
        let is_within = |other: &Condition| match other {
            Condition::All(items) => items.iter().any(|item| self.follows_from(item)),
            other => self == other,
        };
        others.0.iter().any(is_within)
            || match self {
                Condition::All(items) => items.iter().all(|item| item.follow_from(others)),
                Condition::Any(items) => items.iter().any(|item| item.follow_from(others)),
                _ => false,
            }
    }
}

/// The scheme of the URL that a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
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
    /// There so often.
    Count(Bounds),
    /// Of so many bytes.
    Length(Bounds),
    /// Such a number: digits alone, the first of several not a zero.
    Number(Bounds),
    /// As this says, but not of any value.
    Of(Which, Box<ValueMatch>),
}

impl ValueMatch {
    fn exactness(&self) -> u64 {
        match self {
            ValueMatch::Exact(_) => EXACT,
            ValueMatch::Prefix(text) => PREFIX + text.len() as u64,
            ValueMatch::Regex(_) | ValueMatch::Count(_) | ValueMatch::Length(_) | ValueMatch::Number(_) => REGEX,
            ValueMatch::Present | ValueMatch::Absent => 0,
            ValueMatch::Of(_, wanted) => wanted.exactness(),
        }
    }
}

/// Which of several values of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first one.
    First,
    /// The last one.
    Last,
    /// Each of them, and there is one.
    All,
}

/// Bounds of a number, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Bounds {
    /// Whether a number is within.
    pub fn hold(self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }

    /// Whether a text is a number within.
    pub fn hold_text(self, text: &[u8]) -> bool {
        let is_number =
            !text.is_empty() && text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || text.first() != Some(&b'0'));
        // One that is too long to be held is above every bound, and below none.
        let number = || std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
        is_number && self.hold(number())
    }

    /// Whether no number is within both.
    pub fn exclude(self, other: Bounds) -> bool {
        self.most < other.least || other.most < self.least
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.least, self.most) {
            (least, most) if least == most => write!(f, "{least}"),
            (least, u64::MAX) => write!(f, "at least {least}"),
            (0, most) => write!(f, "at most {most}"),
            (least, most) => write!(f, "{least} to {most}"),
        }
    }
}
