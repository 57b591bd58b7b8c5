//! Why a request takes the route that it takes: the routes whose path fits it, and what each of them lacks. For people; nothing is decided here, and each
//! question is put to the trees and conditions that serve.

use super::reasons::{met, unmet};
use super::tree::Tree;
use super::{CompiledRoute, RouteTable, Routed, Sought};

/// Most routes that are listed.
const MOST: usize = 100;

/// A route whose path fits a request.
#[derive(Debug)]
pub struct Contender<'t> {
    /// The route.
    pub route: &'t CompiledRoute,
    /// How it stands to the request.
    pub standing: Standing,
    /// If it is taken: what of its conditions, if they are a tree, makes them hold.
    pub because: Option<String>,
}

/// How a route stands to a request whose path it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The request takes it.
    Taken,
    /// It would serve the request, and the one that is taken goes before it: what of that does.
    GivesPlace(&'static str),
    /// It would serve the request, and stands behind the one that is taken in their group.
    Later,
    /// It would serve the request if its path could not be read as that of another route, or held no encoded slash.
    PathRejected,
    /// It serves other methods.
    Method,
    /// A condition of it does not hold.
    Condition(String),
    /// A parameter of its path is empty.
    EmptyParameter,
    /// It is for a host that is less specific than one that has routes, and those are all there is for the host.
    Host,
    /// It is for other listeners.
    Listener,
}

impl RouteTable {
    /// The routes whose path fits a request on `listener`: those of its host, most specific first or as they are in order, then those of less specific
    /// hosts, then those of other listeners.
    pub fn contenders(&self, listener: &str, sought: &Sought<'_>) -> Vec<Contender<'_>> {
        let taken = match self.find(listener, *sought) {
            Routed::Found(route, _) => Some(route),
            _ => None,
        };
        let mut found = Found { table: self, contenders: Vec::new() };
        let host = sought.head.host();
        let own = self.listeners.iter().find(|(name, _)| **name == *listener).map(|(_, view)| *view);
        if let Some(view) = own.and_then(|view| self.views.get(view)) {
            let mut trees = view.hosts.matches(host).chain(&view.any);
            if let Some(tree) = trees.next() {
                found.add(tree, sought, |route, has_empty| standing(route, taken, has_empty, sought));
            }
            trees.for_each(|tree| found.add(tree, sought, |_, _| Standing::Host));
        }
        for (_, view) in self.views.iter().enumerate().filter(|(view, _)| Some(*view) != own) {
            if let Some(tree) = view.tree(host) {
                found.add(tree, sought, |_, _| Standing::Listener);
            }
        }
        found.contenders
    }
}

/// Contenders so far; each route is there once.
struct Found<'t> {
    table: &'t RouteTable,
    contenders: Vec<Contender<'t>>,
}

impl<'t> Found<'t> {
    /// Those of a tree.
    fn add(&mut self, tree: &'t Tree, sought: &Sought<'_>, standing: impl Fn(&CompiledRoute, bool) -> Standing) {
        let known = self.contenders.len();
        tree.search(sought.head.path(), |candidates| {
            for route in self.table.numbered(candidates.routes) {
                if self.contenders.iter().all(|known| known.route.index != route.index) {
                    let standing = standing(route, candidates.has_empty);
                    let because = if standing == Standing::Taken { met(&route.config.when, sought) } else { None };
                    self.contenders.push(Contender { route, standing, because });
                }
            }
            // Those in order come in none: which are the first is known once all are there.
            !tree.is_ordered && self.contenders.len() >= MOST
        });
        if let Some(added) = self.contenders.get_mut(known..).filter(|_| tree.is_ordered) {
            added.sort_by_key(|contender| contender.route.index);
            // The one that is taken is shown in any case.
            if let Some(at) = added.iter().position(|contender| contender.standing == Standing::Taken)
                && at + known >= MOST
            {
                added.swap(at, MOST - 1 - known);
            }
        }
        self.contenders.truncate(MOST);
    }
}

/// How a route of the request's own host stands.
fn standing(route: &CompiledRoute, taken: Option<&CompiledRoute>, has_empty: bool, sought: &Sought<'_>) -> Standing {
    if taken.is_some_and(|taken| taken.index == route.index) {
        return Standing::Taken;
    }
    if !route.methods.contains(&sought.head.method) {
        return Standing::Method;
    }
    if let Some(unmet) = unmet(&route.config.when, sought) {
        return Standing::Condition(unmet);
    }
    match taken {
        _ if has_empty && !route.config.lenient.empty_parameters => Standing::EmptyParameter,
        Some(_) if route.config.group.is_some() => Standing::Later,
        Some(taken) => Standing::GivesPlace(advantage(taken, route)),
        None => Standing::PathRejected,
    }
}

/// What has one route go before another that serves the same request: the first of the rules of `route` in which they differ.
fn advantage(taken: &CompiledRoute, other: &CompiledRoute) -> &'static str {
    let (one, two) = (&taken.config, &other.config);
    if one.path.segments != two.path.segments {
        return "its path is more specific";
    }
    if one.when.exactness() != two.when.exactness() {
        return "its conditions are more exact";
    }
    if one.listeners.is_empty() != two.listeners.is_empty() {
        return "it names the listener";
    }
    if taken.methods.is_any() != other.methods.is_any() {
        return "it names the method";
    }
    if taken.methods.implies_head() != other.methods.implies_head() {
        return "it names HEAD";
    }
    "it stands first in the file"
}
