//! From routes as configured to the table, with everything that is wrong with them reported together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use config::{Action, Comparison, Expression, ForwardTo, Relation, RouteConfig, Segment};

use super::ambiguous::{decoded, decoded_conditions, spells_escapes};
use super::exclusion::exclude;
use super::methods::{MethodSet, named_in};
use super::params::MAX_PARAMS;
use super::template::{check_authority, check_location, check_rewrite};
use super::tree::Tree;
use super::{CompiledRoute, RouteTable, View};

/// Most segments of a pattern: bounds how deep a search can go.
const MAX_SEGMENTS: usize = 64;

impl RouteTable {
    /// Compiles `routes` for the HTTP listeners called `listeners`.
    ///
    /// # Errors
    /// One text per conflict, and per pattern or template that cannot work.
    pub(super) fn compile_routes(listeners: &[&str], routes: &[RouteConfig]) -> Result<RouteTable, Vec<String>> {
        let mut problems: Vec<String> = routes.iter().flat_map(check_route).collect();
        let routes: Vec<CompiledRoute> =
            routes.iter().enumerate().map(|(index, config)| compiled(index, config)).collect();
        let mut conflicts = Conflicts::default();
        let mut seen_by: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let mut views = Vec::new();
        let mut named = Vec::with_capacity(listeners.len());
        let mut websockets = Vec::new();
        for listener in listeners {
            let visible = routes.iter().filter(|route| is_visible(&route.config, listener));
            let visible: Vec<usize> = visible.map(|route| route.index).collect();
            let view = *seen_by.entry(visible).or_insert_with_key(|visible| {
                let mut view = build_view(&routes, visible, &mut conflicts, false);
                if visible
                    .iter()
                    .filter_map(|index| routes.get(*index))
                    .any(|route| decoded(&route.config.path).is_some() || route.decoded_when.is_some())
                {
                    // Two routes whose text is one once it is decoded are no conflict: requests for either are rejected as ambiguous.
                    view.decoded = Some(Box::new(build_view(&routes, visible, &mut Conflicts::default(), true)));
                }
                views.push(view);
                views.len() - 1
            });
            named.push((Box::from(*listener), view));
            let is_websocket = |route: &&CompiledRoute| route.config.upgrades.iter().any(|token| token == "websocket");
            if routes.iter().filter(is_websocket).any(|route| is_visible(&route.config, listener)) {
                websockets.push(Box::from(*listener));
            }
        }
        problems.append(&mut conflicts.texts);
        if !problems.is_empty() {
            return Err(problems);
        }
        let forbid_unknown_hosts = routes.iter().any(|route| route.config.lenient.forbid_unknown_hosts);
        let conditions = routes.iter().flat_map(|route| route.config.conditions()).flat_map(named_in);
        let methods = routes.iter().flat_map(|route| route.methods.others().cloned()).chain(conditions).collect();
        Ok(RouteTable { routes, listeners: named, views, websockets, methods, forbid_unknown_hosts })
    }
}

/// A route ready to use.
fn compiled(index: usize, config: &RouteConfig) -> CompiledRoute {
    let when = &config.when;
    CompiledRoute {
        methods: MethodSet::new(&config.methods, !config.lenient.explicit_head),
        index,
        decoded_when: when.paths().any(|pattern| decoded(pattern).is_some()).then(|| decoded_conditions(when)),
        judges_path: when.paths().next().is_some(),
        spells_escapes: when.paths().chain([&config.path]).any(spells_escapes),
        config: Arc::new(config.clone()),
    }
}

/// Whether a listener sees a route.
fn is_visible(route: &RouteConfig, listener: &str) -> bool {
    route.listeners.is_empty() || route.listeners.iter().any(|name| name == listener)
}

/// The trees of a listener that sees the routes at these positions, with the text of their patterns as it is or decoded.
fn build_view(routes: &[CompiledRoute], visible: &[usize], conflicts: &mut Conflicts, decodes: bool) -> View {
    let mut view = View::default();
    for route in visible.iter().filter_map(|index| routes.get(*index)) {
        if route.config.hosts.is_empty() {
            insert(view.any.get_or_insert_with(Tree::new), route, decodes);
        }
        for host in &route.config.hosts {
            insert(view.hosts.entry(host, Tree::new), route, decodes);
        }
    }
    for (host, tree) in view.hosts.iter_mut() {
        conflicts.settle(routes, &host, tree);
    }
    if let Some(tree) = &mut view.any {
        conflicts.settle(routes, "any host", tree);
    }
    view
}

fn insert(tree: &mut Tree, route: &CompiledRoute, decodes: bool) {
    let config = &route.config;
    let number = u32::try_from(route.index).unwrap_or(u32::MAX);
    let decoded = if decodes { decoded(&config.path) } else { None };
    tree.insert(decoded.as_ref().unwrap_or(&config.path), number, config.lenient.empty_parameters);
    tree.redirects |= config.lenient.redirect_to_match;
    tree.is_ordered |= config.group.is_some();
    tree.is_decoded = decodes;
    // What is said of a path in a condition may be denied there, so that no reading stands for others.
    tree.judging += route.config.when.paths().count();
    tree.spells_escapes |= route.spells_escapes;
}

/// How specific a route is among those with its pattern: smaller goes first.
fn rank(route: &CompiledRoute) -> (Reverse<(usize, u64)>, bool, bool) {
    (Reverse(route.config.when.exactness()), route.config.listeners.is_empty(), route.methods.is_any())
}

/// Conflicts found so far.
struct Conflicts {
    texts: Vec<String>,
    /// Two routes may meet on several hosts and listeners; that is one problem.
    pairs: BTreeSet<(usize, usize)>,
    /// How expressions stand to each other, for those that meet on several hosts.
    relations: BTreeMap<(String, String), Relation>,
    paths: Comparison,
    values: Comparison,
}

impl Default for Conflicts {
    fn default() -> Conflicts {
        let (paths, values) = (Comparison::of_paths(), Comparison::of_values());
        Conflicts { texts: Vec::new(), pairs: BTreeSet::new(), relations: BTreeMap::new(), paths, values }
    }
}

impl Conflicts {
    /// Puts the routes of a host into order: that of their group, or by how specific they are.
    fn settle(&mut self, routes: &[CompiledRoute], host: &str, tree: &mut Tree) {
        if !tree.is_ordered {
            return self.arrange(routes, host, tree);
        }
        tree.arrange(|numbers| numbers.sort_unstable());
        let numbers: BTreeSet<u32> = tree.routes().collect();
        let mut all = numbers.iter().filter_map(|number| routes.get(*number as usize));
        let Some(first) = all.next() else { return };
        if let Some(other) = all.find(|route| route.config.group != first.config.group) {
            self.note_mix(host, first, other);
        }
    }

    /// Notes that a host has routes in order, and others.
    fn note_mix(&mut self, host: &str, first: &CompiledRoute, other: &CompiledRoute) {
        if !self.pairs.insert((first.index, other.index)) {
            return;
        }
        let (what, fix) = match (first.config.group, other.config.group) {
            (Some(_), Some(_)) => ("another group of routes in order", "put the routes of both into one group"),
            _ => (
                "routes in order, and others",
                "put all routes of the host into the group, where they count as they are written",
            ),
        };
        self.texts.push(format!(
            "{}: route `{}` ({}) and route `{}` ({}, at {}): {host} has {what}; {fix}",
            other.config.place,
            other.config.name,
            other.config.path.text,
            first.config.name,
            first.config.path.text,
            first.config.place,
        ));
    }

    /// Puts the routes of each pattern into order and notes those between which no order exists.
    fn arrange(&mut self, routes: &[CompiledRoute], host: &str, tree: &mut Tree) {
        tree.arrange(|numbers| {
            let mut same_pattern: Vec<&CompiledRoute> =
                numbers.iter().filter_map(|number| routes.get(*number as usize)).collect();
            // Among equals a route that names HEAD goes before one that only implies it; then file order, which decides for a request
            // that carries one field twice.
            same_pattern.sort_by_key(|route| (rank(route), route.methods.implies_head(), route.index));
            for (at, first) in same_pattern.iter().enumerate() {
                let rest = same_pattern.iter().skip(at + 1);
                for second in rest.take_while(|second| rank(second) == rank(first)) {
                    if first.methods.overlaps(&second.methods) && !self.exclude(first, second) {
                        self.note(host, first, second, "");
                    }
                }
            }
            *numbers = same_pattern.iter().map(|route| u32::try_from(route.index).unwrap_or(u32::MAX)).collect();
        });
        tree.order_expressions(|expressions| self.order(routes, host, expressions));
    }

    /// Puts expressions that begin at one place into order: one that matches only what another does goes before it.
    fn order(&mut self, routes: &[CompiledRoute], host: &str, expressions: &mut Vec<(Expression, Vec<u32>)>) {
        let mut wider: Vec<usize> = vec![0; expressions.len()];
        for (at, (one, ones)) in expressions.iter().enumerate() {
            for (other_at, (other, others)) in expressions.iter().enumerate().skip(at + 1) {
                let shared = match self.relation(one, other) {
                    Relation::Apart => continue,
                    Relation::Within => {
                        wider.get_mut(at).into_iter().for_each(|count| *count += 1);
                        continue;
                    }
                    Relation::Around => {
                        wider.get_mut(other_at).into_iter().for_each(|count| *count += 1);
                        continue;
                    }
                    Relation::Overlapping(path) => format!(", for example `{path}`"),
                    Relation::Unknown => ", as far as can be found out".to_owned(),
                };
                let numbered = |number: &u32| routes.get(*number as usize);
                for first in ones.iter().filter_map(numbered) {
                    for second in others.iter().filter_map(numbered) {
                        // No order between them says which one answers HEAD where one of them only implies it.
                        if first.methods.meets(&second.methods) && !self.exclude(first, second) {
                            self.note(host, first, second, &shared);
                        }
                    }
                }
            }
        }
        let mut ordered: Vec<_> = wider.into_iter().zip(expressions.drain(..)).collect();
        ordered.sort_by_key(|(wider, _)| Reverse(*wider));
        expressions.extend(ordered.into_iter().map(|(_, expression)| expression));
    }

    fn relation(&mut self, one: &Expression, other: &Expression) -> Relation {
        let pair = (format!("{one:?}"), format!("{other:?}"));
        let comparison = &mut self.paths;
        self.relations.entry(pair).or_insert_with(|| one.relation(other, comparison)).clone()
    }

    /// Whether no request suits the conditions of both.
    fn exclude(&mut self, first: &CompiledRoute, second: &CompiledRoute) -> bool {
        exclude(&first.config.when, &second.config.when, &mut self.values)
    }

    /// Notes that both match the same requests, of which `shared` names one.
    fn note(&mut self, host: &str, first: &CompiledRoute, second: &CompiledRoute, shared: &str) {
        let (first, second) = if first.index < second.index { (first, second) } else { (second, first) };
        if self.pairs.insert((first.index, second.index)) {
            let (first, second) = (&first.config, &second.config);
            // Only of expressions a path that both match is not plain to see.
            let fix = if shared.is_empty() {
                "give one of them another path, method or field value, or remove it"
            } else {
                "have one leave the paths of the other out (`except`), or give it another method or condition"
            };
            self.texts.push(format!(
                "{}: route `{}` ({}) and route `{}` ({}, at {}) match the same requests on {host}{shared}; {fix}",
                second.place, second.name, second.path.text, first.name, first.path.text, first.place,
            ));
        }
    }
}

/// What is wrong with one route alone.
fn check_route(route: &RouteConfig) -> Vec<String> {
    let segments = &route.path.segments;
    let params = route.path.parameters().count();
    let mut problems = Vec::new();
    if segments.is_empty() {
        problems.push("the path has no segment; write `/`".into());
    }
    if segments.len() > MAX_SEGMENTS {
        problems.push(format!("the path has {} segments, {MAX_SEGMENTS} is the most", segments.len()));
    }
    if params > MAX_PARAMS {
        problems.push(format!("the path has {params} parameters, {MAX_PARAMS} is the most"));
    }
    if segments.iter().rev().skip(1).any(|segment| matches!(segment, Segment::CatchAll { .. } | Segment::Regex(_))) {
        problems.push("a catch-all must be the last part of the path".into());
    }
    match &route.action {
        Action::Forward(forward) => {
            problems.extend(forward.rewrite.as_ref().and_then(|template| check_rewrite(template, params)));
            if let ForwardTo::Authority { authority, .. } = &forward.to {
                problems.extend(check_authority(authority, params));
            }
        }
        Action::Redirect { to, .. } => problems.extend(check_location(to, params)),
        Action::Respond { .. } | Action::Validate(_) => {}
    }
    problems
        .iter()
        .map(|problem| format!("{}: route `{}` ({}): {problem}", route.place, route.name, route.path.text))
        .collect()
}
