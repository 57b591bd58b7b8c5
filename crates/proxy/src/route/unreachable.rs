//! Routes in order that no request takes, because one before them takes all of theirs: what `check` warns of. Only what the patterns make certain is said.

use config::{Comparison, PathPattern, Relation, Segment};

use super::decoded_path::decoded;
use super::{CompiledRoute, RouteTable};

impl RouteTable {
    /// A text for each path of a route in order that is never taken.
    pub fn unreachable(&self) -> Vec<String> {
        let mut search = Search {
            routes: &self.routes,
            starts: self.routes.iter().map(|route| literal_start(&route.config.path)).collect(),
            comparisons: [Comparison::of_paths(), Comparison::of_decoded_paths()],
        };
        let in_order = self.routes.iter().filter(|route| route.config.group.is_some());
        in_order.filter_map(|route| search.unreached(route)).collect()
    }
}

/// A search for routes that are never taken.
struct Search<'t> {
    routes: &'t [CompiledRoute],
    /// What the paths of each begin with: compared first, since groups are long.
    starts: Vec<String>,
    /// Work that is left for expressions, on paths as they are and on decoded ones.
    comparisons: [Comparison; 2],
}

impl Search<'_> {
    fn unreached(&mut self, route: &CompiledRoute) -> Option<String> {
        let before = self.routes.get(..route.index)?.iter().rev();
        let before = before.take_while(|other| other.config.group == route.config.group).count();
        let (start, mut other) = (self.starts.get(route.index)?.clone(), None);
        for index in route.index - before..route.index {
            let one = self.routes.get(index)?;
            let may_cover =
                one.config.path.expression().is_some() || start.starts_with(self.starts.get(index)?.as_str());
            if may_cover
                && demands_no_more(one, route)
                && !one.is_same_route(route)
                && covers(one, route, &mut self.comparisons)
            {
                other = Some(one);
                break;
            }
        }
        let (one, other) = (&route.config, &other?.config);
        Some(format!(
            "{}: route `{}` ({}) is never taken: route `{}` ({}, at {}) stands before it and takes all its requests; \
             move it before that one, or remove it",
            one.place, one.name, one.path.text, other.name, other.path.text, other.place,
        ))
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
