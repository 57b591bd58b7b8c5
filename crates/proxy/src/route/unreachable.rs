//! Routes in order that no request takes, because one before them takes all of theirs: what `check` warns of. Only what the patterns make certain is said.

use std::collections::HashMap;

use config::{Comparison, PathPattern, Relation, Segment};

use super::decoded_path::decoded;
use super::{CompiledRoute, RouteTable};

/// Pairs of routes that are compared in all, of the few that begin alike.
const MAX_PAIRS: usize = 4_000_000;

impl RouteTable {
    /// A text for each path of a route in order that is never taken.
    pub fn unreachable(&self) -> Vec<String> {
        let mut search = Search {
            routes: &self.routes,
            group: None,
            by_start: HashMap::new(),
            expressions: Vec::new(),
            comparisons: [Comparison::of_paths(), Comparison::of_decoded_paths()],
            pairs: MAX_PAIRS,
        };
        let in_order = self.routes.iter().filter(|route| route.config.group.is_some());
        in_order.filter_map(|route| search.unreached(route)).collect()
    }
}

/// A search for routes that are never taken, group by group.
struct Search<'t> {
    routes: &'t [CompiledRoute],
    /// The group at hand.
    group: Option<usize>,
    /// Its routes up to here, by what their paths begin with, but for expressions: what takes all paths of another route begins it.
    by_start: HashMap<String, Vec<usize>>,
    /// Its routes with expressions up to here.
    expressions: Vec<usize>,
    /// Work that is left for expressions, on paths as they are and on decoded ones.
    comparisons: [Comparison; 2],
    /// Pairs that may still be compared.
    pairs: usize,
}

impl Search<'_> {
    fn unreached(&mut self, route: &CompiledRoute) -> Option<String> {
        if self.group != route.config.group {
            self.group = route.config.group;
            self.by_start.clear();
            self.expressions.clear();
        }
        let start = literal_start(&route.config.path);
        let covering = self.covering(route, &start);
        match route.config.path.expression() {
            Some(_) => self.expressions.push(route.index),
            None => self.by_start.entry(start).or_default().push(route.index),
        }
        let other = &self.routes.get(covering?)?.config;
        let one = &route.config;
        let has_others = self.routes.iter().any(|path| path.index != route.index && path.is_same_route(route));
        let what = match has_others {
            true => format!("path `{}` of route `{}` is never taken", one.path.text, one.name),
            false => format!("route `{}` ({}) is never taken", one.name, one.path.text),
        };
        Some(format!(
            "{}: {what}: route `{}` ({}, at {}) stands before it and takes all its requests; move it before that one, or remove it",
            one.place, other.name, other.path.text, other.place,
        ))
    }

    /// The first route of the group up to here that takes all requests of this one.
    fn covering(&mut self, route: &CompiledRoute, start: &str) -> Option<usize> {
        let prefixes = (0..=start.len()).filter_map(|length| start.get(..length));
        let beginning = prefixes.filter_map(|prefix| self.by_start.get(prefix)).flatten();
        let mut before: Vec<usize> = beginning.chain(&self.expressions).copied().collect();
        before.sort_unstable();
        let (routes, comparisons, pairs) = (self.routes, &mut self.comparisons, &mut self.pairs);
        before.into_iter().find(|index| {
            *pairs = pairs.saturating_sub(1);
            let one = routes.get(*index).filter(|one| *pairs > 0 && !one.is_same_route(route));
            one.is_some_and(|one| demands_no_more(one, route) && covers(one, route, comparisons))
        })
    }
}

/// Whether methods and conditions of a route let pass whatever those of another one do.
fn demands_no_more(one: &CompiledRoute, other: &CompiledRoute) -> bool {
    one.config.when.follow_from(&other.config.when) && one.methods.includes(&other.methods)
}

/// Whether a route matches each path that another one does, as far as that is plain to see.
fn covers(one: &CompiledRoute, other: &CompiledRoute, comparisons: &mut [Comparison; 2]) -> bool {
    let (one, other) = (&one.config.path, &other.config.path);
    if one.segments == other.segments {
        return true;
    }
    if let Some(expression) = one.expression() {
        return match other.expression() {
            Some(narrow) if narrow.is_decoded() == expression.is_decoded() => {
                let [encoded, decoded] = comparisons;
                let comparison = if narrow.is_decoded() { decoded } else { encoded };
                narrow.relation(expression, comparison) == Relation::Within
            }
            Some(_) => false,
            None => {
                let path = whole_path(other).unwrap_or_default().into_bytes();
                let text = if expression.is_decoded() { decoded(&path) } else { None };
                !path.is_empty() && expression.matches(text.as_deref().unwrap_or(&path))
            }
        };
    }
    if let Some(Segment::Prefix { .. }) = one.segments.last() {
        return literal_start(other).starts_with(&literal_start(one));
    }
    covers_segments(&one.segments, &other.segments)
}

/// The same, segment by segment; neither expressions nor prefixes cover anything here.
fn covers_segments(ones: &[Segment], others: &[Segment]) -> bool {
    for (at, one) in ones.iter().enumerate() {
        let covered = match (one, others.get(at)) {
            (Segment::CatchAll { .. }, other) => return other.is_some(),
            (Segment::Static(one), Some(Segment::Static(other))) => one == other,
            (Segment::Param { prefix, .. }, Some(Segment::Static(text))) => {
                text.len() > prefix.len() && text.starts_with(prefix.as_str())
            }
            (Segment::Param { prefix: one, .. }, Some(Segment::Param { prefix: other, .. })) => {
                other.starts_with(one.as_str())
            }
            _ => false,
        };
        if !covered {
            return false;
        }
    }
    ones.len() == others.len()
}

/// What each path of a pattern begins with.
fn literal_start(pattern: &PathPattern) -> String {
    let mut start = String::new();
    for segment in &pattern.segments {
        start.push('/');
        match segment {
            Segment::Static(text) => start.push_str(text),
            Segment::Param { prefix: text, .. } | Segment::Prefix { text, .. } => {
                start.push_str(text);
                break;
            }
            Segment::CatchAll { .. } => break,
            Segment::Regex(expression) => {
                let whole = std::str::from_utf8(expression.literal_start()).unwrap_or_default();
                if !expression.is_decoded() && whole.len() > start.len() {
                    whole.clone_into(&mut start);
                }
                break;
            }
        }
    }
    start
}

/// The one path of a pattern without parameters.
fn whole_path(pattern: &PathPattern) -> Option<String> {
    let is_static = pattern.segments.iter().all(|segment| matches!(segment, Segment::Static(_)));
    is_static.then(|| literal_start(pattern))
}
