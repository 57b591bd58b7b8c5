//! The set of methods a route serves, as bits. `Method` itself is ruled by `wire`.

use std::collections::BTreeSet;

use config::{Condition, Conditions};
use wire::http::Method;

/// Every method there is.
const ANY: u16 = 1 << 15;

/// Methods of one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MethodSet {
    /// Methods the route names, or [`ANY`].
    named: u16,
    /// Methods it serves although it does not name them: HEAD where it names GET.
    implied: u16,
    /// Named methods that have no bit.
    others: Box<[Box<str>]>,
}

/// The bit of a method; none for methods without a name of their own in `Method`.
fn bit(method: &Method) -> Option<u16> {
    Some(match method {
        Method::Get => 1,
        Method::Head => 1 << 1,
        Method::Post => 1 << 2,
        Method::Put => 1 << 3,
        Method::Delete => 1 << 4,
        Method::Connect => 1 << 5,
        Method::Options => 1 << 6,
        Method::Trace => 1 << 7,
        Method::Patch => 1 << 8,
        Method::Other(_) => return None,
    })
}

/// The methods that have a bit.
const NAMED: [Method; 9] = [
    Method::Get,
    Method::Head,
    Method::Post,
    Method::Put,
    Method::Delete,
    Method::Connect,
    Method::Options,
    Method::Trace,
    Method::Patch,
];

/// Methods in conditions that `Method` does not name.
pub(super) fn named_in(conditions: &Conditions) -> Vec<Box<str>> {
    let of_leaf = |leaf: &Condition| match leaf {
        Condition::Method(methods) => methods.clone(),
        _ => Vec::new(),
    };
    let methods = conditions.leaves().into_iter().flat_map(of_leaf);
    methods.filter_map(|method| if let Method::Other(token) = method { Some(token) } else { None }).collect()
}

impl MethodSet {
    /// The set that a route with these methods serves; no method means any. `head_by_get`: HEAD is served where GET is named.
    pub(super) fn new(methods: &[Method], head_by_get: bool) -> MethodSet {
        let named = methods.iter().filter_map(bit).fold(0, |bits, bit| bits | bit);
        let others = methods.iter().filter_map(|method| match method {
            Method::Other(token) => Some(token.clone()),
            _ => None,
        });
        let get_only = named & 0b11 == 0b01;
        MethodSet {
            named: if methods.is_empty() { ANY } else { named },
            implied: if get_only && head_by_get { 1 << 1 } else { 0 },
            others: others.collect(),
        }
    }

    /// Whether a request with this method is served.
    pub(super) fn contains(&self, method: &Method) -> bool {
        let all = self.named | self.implied;
        all & ANY != 0
            || match method {
                Method::Other(token) => self.others.contains(token),
                _ => bit(method).is_some_and(|bit| all & bit != 0),
            }
    }

    /// Named methods that `Method` does not name.
    pub(super) fn others(&self) -> impl Iterator<Item = &Box<str>> {
        self.others.iter()
    }

    /// Whether every method is served.
    pub(super) fn is_any(&self) -> bool {
        self.named & ANY != 0
    }

    /// Whether HEAD is served only because GET is.
    pub(super) fn implies_head(&self) -> bool {
        self.implied != 0
    }

    /// Whether both name a method in common. Implied ones do not count: a route that names HEAD goes before one that implies it.
    pub(super) fn overlaps(&self, other: &MethodSet) -> bool {
        self.is_any()
            || other.is_any()
            || self.named & other.named != 0
            || self.others.iter().any(|token| other.others.contains(token))
    }

    /// Whether some method is served by both, implied or not.
    pub(super) fn meets(&self, other: &MethodSet) -> bool {
        self.overlaps(other) || (self.named | self.implied) & (other.named | other.implied) != 0
    }

    /// Whether every method that the other one serves is served.
    pub(super) fn includes(&self, other: &MethodSet) -> bool {
        let (all, others) = (self.named | self.implied, other.named | other.implied);
        self.is_any()
            || (!other.is_any() && others & !all == 0 && other.others.iter().all(|token| self.others.contains(token)))
    }

    /// Adds the tokens of all methods served to an Allow list. For "any" there is nothing to add.
    pub(super) fn list<'m>(&'m self, allow: &mut BTreeSet<&'m str>) {
        let all = self.named | self.implied;
        for method in &NAMED {
            if bit(method).is_some_and(|bit| all & bit != 0) {
                allow.insert(method.as_str());
            }
        }
        allow.extend(self.others.iter().map(|token| &**token));
    }
}
