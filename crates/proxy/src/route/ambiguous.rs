//! Paths that an upstream may read as another path than we do.
//!
//! We match a path as it is written. Many servers decode it before they match it, make runs of slashes one, or drop what follows `;` in a segment; which
//! readings that gives, `wire::http::readings` says. Where one of them belongs to another route that is no less specific, or to another operation of a
//! contract, a request could get around what that demands. Such requests are rejected. What a reading is compared with are the patterns of the host, so
//! that an escape of which no pattern cares passes.
//!
//! Where routes are in order, each reading must be of the very route that the path as it is belongs to, or the request is rejected: who wrote the order meant
//! each path to meet the first route that fits it.
//!
//! Elsewhere a reading that leads to a less specific route passes where it comes about by slashes that the route lets be escaped, by a `;` or `//` that its own
//! pattern has, or by a `?` at which a path would end: each is somebody's data.

use config::{Condition, Conditions, PathPattern, Segment};
use wire::http::head::RequestHead;
use wire::http::readings::{self, Patterns};

/// Octets that are compared with expressions to find out whether a path is ambiguous: the lengths of its readings, times the expressions of one place.
pub(super) const MAX_COMPARED_BYTES: usize = 4 * 1024 * 1024;

/// The other paths that servers may read that of a request as.
pub fn readings(head: &RequestHead, patterns: Patterns) -> Vec<Vec<u8>> {
    if head.has_plain_path && !patterns.escapes { Vec::new() } else { readings::readings(head.path(), patterns) }
}

/// The pattern with its text decoded, as readings are; none if it is so already. An expression over the whole path stays as it is.
pub(super) fn decoded(pattern: &PathPattern) -> Option<PathPattern> {
    let decoded = |text: &str| String::from_utf8_lossy(&readings::decoded(text.as_bytes())).into_owned();
    let segments = pattern.segments.iter().map(|segment| match segment {
        Segment::Static(text) => Segment::Static(decoded(text)),
        Segment::Param { prefix, name } => Segment::Param { prefix: decoded(prefix), name: name.clone() },
        Segment::Prefix { text, name } => Segment::Prefix { text: decoded(text), name: name.clone() },
        other => other.clone(),
    });
    let segments: Vec<Segment> = segments.collect();
    let is_another = pattern.expression().is_none() && segments != pattern.segments;
    is_another.then(|| PathPattern { text: pattern.text.clone(), segments })
}

/// The conditions with the text of patterns in them decoded.
pub(super) fn decoded_conditions(conditions: &Conditions) -> Conditions {
    let all = |items: &[Conditions]| items.iter().map(decoded_conditions).collect();
    let of_one = |condition: &Condition| match condition {
        Condition::Path(patterns) => {
            Condition::Path(patterns.iter().map(|one| decoded(one).unwrap_or_else(|| one.clone())).collect())
        }
        Condition::All(items) => Condition::All(all(items)),
        Condition::Any(items) => Condition::Any(all(items)),
        Condition::Not(conditions) => Condition::Not(decoded_conditions(conditions)),
        other => other.clone(),
    };
    Conditions(conditions.0.iter().map(of_one).collect())
}

/// Whether a pattern is an expression that spells escapes, so that it may be meant for characters which a path has as they are.
pub(super) fn spells_escapes(pattern: &PathPattern) -> bool {
    pattern.expression().filter(|expression| !expression.is_decoded()).is_some_and(|expression| {
        expression.text().contains('%') || expression.exceptions().any(|text| text.contains('%'))
    })
}

/// Whether a pattern is more specific than another at the first segment where they differ in that. Of two other expressions each may be.
pub(super) fn is_more_specific(one: &PathPattern, other: &PathPattern) -> bool {
    let rank = |segment: Option<&Segment>| match segment {
        Some(Segment::Static(_)) => usize::MAX,
        Some(Segment::Regex(_)) => usize::MAX - 1,
        Some(Segment::Param { prefix, .. } | Segment::Prefix { text: prefix, .. }) => prefix.len() + 1,
        Some(Segment::CatchAll { .. }) | None => 0,
    };
    let longest = one.segments.len().max(other.segments.len());
    let ranks = (0..longest).map(|at| (rank(one.segments.get(at)), rank(other.segments.get(at))));
    // Two expressions: neither is known to be no more specific.
    let both_expressions = one.expression().is_some() && other.expression().is_some();
    ranks.into_iter().find(|(one, other)| one != other).map_or(both_expressions, |(one, other)| one > other)
}
