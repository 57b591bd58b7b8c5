//! Routes whose own paths other servers read as paths of another route, or of none, so that what they are for is rejected: what `check` warns of. Decides
//! nothing; what becomes of a path is asked of the routes that serve.

use config::{Config, RouteConfig};

use crate::route::{RouteTable, Routed};
use crate::samples::{self, Step};

/// A text for each path of a route that spells what is ambiguous, and is rejected for it.
pub fn warnings(config: &Config, routes: &RouteTable) -> Vec<String> {
    config
        .routes
        .iter()
        .filter(|route| spells_ambiguity(route))
        .filter_map(|route| rejected(config, routes, route))
        .collect()
}

/// Whether the path of a route spells an escape, an empty segment, or the `;` of a parameter.
fn spells_ambiguity(route: &RouteConfig) -> bool {
    let text = &route.path.text;
    !route.options.allow_ambiguous_path && (text.contains(['%', ';']) || text.contains("//"))
}

fn rejected(config: &Config, routes: &RouteTable, route: &RouteConfig) -> Option<String> {
    let paths = samples::paths(&route.path);
    let starts = samples::starts(config, route, &paths);
    let start = starts.iter().find(|start| is_ambiguous(routes, start))?;
    Some(format!(
        "{}: route `{}` ({}): {} is rejected with 400, because servers that decode paths, merge slashes or drop `;` parameters would read it as a path of \
         another route, or of none; `allow_ambiguous_path: true` lets it pass",
        route.place,
        route.name,
        route.path.text,
        String::from_utf8_lossy(start.head.path()),
    ))
}

fn is_ambiguous(routes: &RouteTable, step: &Step<'_>) -> bool {
    matches!(routes.find(&step.listener.name, step.sought(step.info().as_ref())), Routed::AmbiguousPath)
}
