//! Which route a request takes: listener, host, method, path, conditions. Pure; decides on the canonical path that is also forwarded.
//!
//! The rules, in the order they are applied:
//! 1. A listener sees the routes that name it and those that name none.
//! 2. The host chooses one set of routes: its exact name, else the longest wildcard (`crate::host_map`), else the routes for any host. There is no
//!    falling back from a named host to a less specific one: who names a host says all there is on it. One final dot is ignored, so
//!    `example.com.` cannot slip past the routes of `example.com`.
//! 3. Among the patterns that match the path and hold a route for the request's method and conditions, the most specific wins, segment by
//!    segment from the left: static text, then a regular expression over the rest, then the longest literal prefix, then a parameter, then a
//!    catch-all. Of two expressions that begin at one place, one that matches only what the other does goes first.
//! 4. Routes with one pattern: more conditions first, then more exact ones, then listeners named, then methods named. What is still equal must
//!    differ in its methods or have conditions that exclude each other, or the table is rejected; so must two expressions of which neither
//!    contains the other, and that have a path in common.
//! 5. A path that another server could read as one of another route that is no less specific (escapes decoded, `//`, `;parameters`) is rejected, unless
//!    its route opts out; and so is one with a parameter that is empty there (`/;/public`), which is another path for it.
//! 6. HEAD is served by a route that names GET, unless a route of the same rank names HEAD.
//! 7. A host (on a listener) whose routes are in order has no other routes. Of these, the first whose pattern, methods and conditions fit wins, in place
//!    of rules 3 and 4; HEAD fits where GET does. A path that other servers could read as one of any other of them, or of none, is rejected.
//!
//! 8. What a condition says of the path holds of each reading as rules 5 and 7 have it, as if it were part of the pattern.
//!
//! `tree.rs` searches, `starts.rs` finds prefixes, `compile.rs` builds and reports conflicts, `template.rs` writes what goes upstream, `lenient.rs` holds what only
//! front doors ask for. The answers to what is not found are given by `http/`.

mod ambiguous;
mod compile;
pub(crate) mod conditions;
mod contenders;
mod decoded_path;
mod exclusion;
mod lenient;
mod methods;
mod params;
mod reasons;
mod single_pattern;
mod starts;
mod template;
#[cfg(test)]
mod tests;
mod tree;
mod unreachable;
mod values;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use config::{Conditions, Config, RouteConfig, Segment, Service};

use wire::http::Method;
use wire::http::readings::{Patterns, escaped, is_void};

use crate::host_map::HostMap;
pub(crate) use ambiguous::readings;
use ambiguous::{MAX_COMPARED_BYTES, is_more_specific};
pub use conditions::{Arrival, Sought, held_share, share};
pub use contenders::{Contender, Standing};
use methods::MethodSet;
pub use params::{MAX_PARAMS, Params};
pub(crate) use reasons::unmet;
pub use template::{BadParameter, build_authority, build_location, build_target};
use tree::{Candidates, Tree};
pub use values::{Noted, Values};

/// The routes of a generation, compiled. A parameter is a range of the canonical path.
#[derive(Debug)]
pub struct RouteTable {
    routes: Vec<CompiledRoute>,
    /// Which view each listener has. Few, so they are compared one after the other.
    listeners: Vec<(Box<str>, usize)>,
    /// Listeners that see the same routes share a view.
    views: Vec<View>,
    /// Listeners of which some route lets connections become WebSockets.
    websockets: Vec<Box<str>>,
    /// Methods that routes name and `Method` does not.
    methods: BTreeSet<Box<str>>,
    forbid_unknown_hosts: bool,
}

/// What one listener sees.
#[derive(Debug, Default)]
struct View {
    hosts: HostMap<Tree>,
    any: Option<Tree>,
    /// The same with all text decoded, where that makes a difference: what readings of a path are looked up in.
    decoded: Option<Box<View>>,
}

impl View {
    /// The routes of `host` (lower case, without port).
    fn tree(&self, host: &[u8]) -> Option<&Tree> {
        self.hosts.find(host).or(self.any.as_ref())
    }
}

/// What the table says to a request.
#[derive(Debug)]
pub enum Routed<'a> {
    /// This route, with the parameters of its pattern.
    Found(&'a CompiledRoute, Params),
    /// No route knows the host: 403 where front doors ask for it, else 404 ([`RouteTable::unknown_host_status`]).
    UnknownHost,
    /// The host is known, the path is not: 404.
    NotFound,
    /// The path is known under other methods: 405 with this Allow value.
    MethodNotAllowed(String),
    /// `OPTIONS *`, or a front door's automatic OPTIONS: 200 with this Allow value.
    Options(String),
    /// A front door's redirect to the matching path: status and Location, a path on the same host with the query.
    RedirectTo(u16, Vec<u8>),
    /// `%2F` in a path whose route does not opt in, or that has no route: 400.
    EncodedSlash,
    /// The method is one that a route names, but for the case of its letters: 400.
    MethodInOtherCase,
    /// A server that decodes a path, makes slashes one or drops `;` parameters would read a path of another route: 400.
    AmbiguousPath,
}

impl Routed<'_> {
    /// The name of the route, if there is one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Routed::Found(route, _) => Some(&route.config.name),
            _ => None,
        }
    }
}

/// A route ready to use.
#[derive(Debug)]
pub struct CompiledRoute {
    /// The route as configured.
    pub config: Arc<RouteConfig>,
    /// Its position among `Config::routes`, for per-route counters.
    pub index: usize,
    methods: MethodSet,
    /// Its conditions with the text of paths in them decoded, where that makes a difference: what readings of a path are judged by.
    decoded_when: Option<Conditions>,
    /// Whether its conditions have paths in them.
    judges_path: bool,
    /// Whether its path, or one in its conditions, is an expression that spells escapes.
    spells_escapes: bool,
}

impl CompiledRoute {
    /// Whether the request is as the route demands beside host, method and path, if this is its path.
    fn suits(&self, sought: &Sought<'_>, path: &[u8], tree: &Tree) -> bool {
        let when = self.decoded_when.as_ref().filter(|_| tree.is_decoded).unwrap_or(&self.config.when);
        conditions::hold_at(when, sought, path)
    }

    /// Whether the route takes the parameters of a request and suits it, whatever its method.
    fn takes(&self, sought: &Sought<'_>, path: &[u8], tree: &Tree, candidates: &Candidates<'_, '_>) -> bool {
        (!candidates.has_empty || self.config.lenient.empty_parameters) && self.suits(sought, path, tree)
    }

    /// Whether what it does not take is left to others on purpose, or to nobody: that is so of expressions, and where conditions look at the path.
    fn leaves_others(&self) -> bool {
        self.judges_path || self.config.path.expression().is_some()
    }

    /// Whether both stand for one route of the file, which may have several paths.
    fn is_same_route(&self, other: &CompiledRoute) -> bool {
        self.index == other.index || (self.config.name == other.config.name && self.config.place == other.config.place)
    }
}

impl RouteTable {
    /// Compiles the routes; conflicts are reported together, each with both places.
    ///
    /// # Errors
    /// One text per conflict, and per pattern or template that cannot work.
    pub fn compile(config: &Config) -> Result<RouteTable, Vec<String>> {
        let http = config.listeners.iter().filter(|listener| matches!(listener.service, Service::Http));
        let listeners: Vec<&str> = http.map(|listener| listener.name.as_str()).collect();
        let mut table = RouteTable::compile_routes(&listeners, &config.routes)?;
        table.methods.extend(config.policies.values().flat_map(|policy| methods::named_in(&policy.when)));
        Ok(table)
    }

    /// Finds the route for a request on `listener`. Allocates nothing if one is found.
    pub fn find<'a>(&self, listener: &str, sought: impl Into<Sought<'a>>) -> Routed<'_> {
        let sought = &sought.into();
        let head = sought.head;
        let view = self.listeners.iter().find(|(name, _)| **name == *listener).and_then(|(_, at)| self.views.get(*at));
        let Some((view, tree)) = view.and_then(|view| Some((view, view.tree(head.host())?))) else {
            return Routed::UnknownHost;
        };
        if self.is_in_other_case(&head.method) {
            return Routed::MethodInOtherCase;
        }
        match self.search(tree, sought, head.path()) {
            Some((route, _)) if head.has_encoded_slash && route.config.options.allow_encoded_slash != Some(true) => {
                Routed::EncodedSlash
            }
            Some((route, params)) if self.hides_another(view, tree, sought, route, &params) => Routed::AmbiguousPath,
            Some((route, params)) => Routed::Found(route, params),
            None if head.has_encoded_slash => Routed::EncodedSlash,
            None => self.not_found(tree, sought),
        }
    }

    /// Whether no route names a method, and some route names it in another case. Those that are registered are rejected before they come here.
    fn is_in_other_case(&self, method: &Method) -> bool {
        let Method::Other(token) = method else { return false };
        !self.methods.contains(token) && self.methods.iter().any(|named| named.eq_ignore_ascii_case(token))
    }

    /// The status that [`Routed::UnknownHost`] deserves: 403 or 404.
    pub fn unknown_host_status(&self) -> u16 {
        if self.forbid_unknown_hosts { 403 } else { 404 }
    }

    /// Whether a WebSocket can be opened on a listener.
    pub fn allow_websockets(&self, listener: &str) -> bool {
        self.websockets.iter().any(|name| **name == *listener)
    }

    /// The routes in the order of `Config::routes`.
    pub fn routes(&self) -> &[CompiledRoute] {
        &self.routes
    }

    /// Whether the path, as other servers may read it, belongs to another route than this one, which it belongs to as it is written, and one that is no
    /// less specific; or, where one of its parameters is empty for them, to any other route or to none. What an expression does not take it leaves to
    /// others on purpose, or to nobody. A path whose readings cost too much to compare may hide anything.
    fn hides_another(
        &self,
        view: &View,
        tree: &Tree,
        sought: &Sought<'_>,
        route: &CompiledRoute,
        params: &Params,
    ) -> bool {
        let head = sought.head;
        if route.config.options.allow_ambiguous_path {
            return false;
        }
        let decoded = view.decoded.as_ref().and_then(|view| view.tree(head.host()));
        let expressions = tree.most_expressions + tree.judging;
        let patterns = Patterns { expressions: expressions > 0, escapes: decoded.is_some() };
        let readings = readings(head, patterns);
        let length: usize = readings.iter().map(Vec::len).sum();
        if length.saturating_mul(expressions) > MAX_COMPARED_BYTES {
            return true;
        }
        let is_hidden = |reading: Vec<u8>| {
            let other = self.search(decoded.unwrap_or(tree), sought, &reading).map(|(other, _)| other);
            let is_another = other.is_none_or(|other| !other.is_same_route(route));
            let is_guarded = other.is_some_and(|other| {
                let (one, other) = (&route.config.path, &other.config.path);
                is_more_specific(other, one) || !is_more_specific(one, other)
            }) || other.is_some_and(|other| other.judges_path);
            let is_left = route.leaves_others() && !self.is_meant_escaped(tree, sought, route, &reading);
            is_another && (tree.is_ordered || is_guarded || is_left || has_void_parameter(head.path(), route, params))
        };
        readings.into_iter().any(is_hidden) || self.is_spelled_otherwise(tree, sought, route)
    }

    /// Whether the expression of a route spells escapes, and takes a reading if that is escaped.
    fn is_meant_escaped(&self, tree: &Tree, sought: &Sought<'_>, route: &CompiledRoute, reading: &[u8]) -> bool {
        let escaped = if route.spells_escapes { escaped(reading) } else { None };
        let found = escaped.and_then(|escaped| self.search(tree, sought, &escaped));
        found.is_some_and(|(found, _)| found.is_same_route(route))
    }

    /// Whether a path belongs to the expression of another route that spells escapes, if what it has as it is were escaped.
    fn is_spelled_otherwise(&self, tree: &Tree, sought: &Sought<'_>, route: &CompiledRoute) -> bool {
        let escaped = if tree.spells_escapes { escaped(sought.head.path()) } else { None };
        let other = escaped.and_then(|escaped| self.search(tree, sought, &escaped));
        other.is_some_and(|(other, _)| !other.is_same_route(route) && other.spells_escapes)
    }

    /// The most specific route of `tree` for what is sought, but with this path; where its routes are in order, the first.
    fn search<'t>(&'t self, tree: &'t Tree, sought: &Sought<'_>, path: &[u8]) -> Option<(&'t CompiledRoute, Params)> {
        let (mut found, before) = (None, Cell::new(u32::MAX));
        tree.search_before(path, &before, |candidates| {
            let numbers = candidates.routes.iter().take_while(|number| **number < before.get());
            let mut routes = numbers.filter_map(|number| Some((*number, self.routes.get(*number as usize)?)));
            let taken = routes.find(|(_, route)| {
                route.methods.contains(&sought.head.method) && route.takes(sought, path, tree, &candidates)
            });
            let Some((number, route)) = taken else { return false };
            found = Some((route, *candidates.params));
            if tree.is_ordered {
                before.set(number);
            }
            !tree.is_ordered
        });
        found
    }

    fn numbered<'t>(&'t self, numbers: &'t [u32]) -> impl Iterator<Item = &'t CompiledRoute> {
        numbers.iter().filter_map(|number| self.routes.get(*number as usize))
    }
}

/// Whether a parameter of the path, catch-alls aside, is empty for servers that drop `;` parameters.
fn has_void_parameter(path: &[u8], route: &CompiledRoute, params: &Params) -> bool {
    let catch_all = matches!(route.config.path.segments.last(), Some(Segment::CatchAll { .. }));
    (0..params.len().saturating_sub(usize::from(catch_all))).any(|index| params.value(path, index).is_some_and(is_void))
}
