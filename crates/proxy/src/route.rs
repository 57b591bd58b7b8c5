//! Which route a request takes: listener, host, method, path, fields. Pure; decides on the canonical path that is also forwarded.
//!
//! The rules, in the order they are applied:
//! 1. A listener sees the routes that name it and those that name none.
//! 2. The host chooses one set of routes: its exact name, else the longest wildcard (`crate::host_map`), else the routes for any host. There is no
//!    falling back from a named host to a less specific one: who names a host says all there is on it. One final dot is ignored, so
//!    `example.com.` cannot slip past the routes of `example.com`.
//! 3. Among the patterns that match the path and hold a route for the request's method and fields, the most specific wins, segment by
//!    segment from the left: static text, then the longest literal prefix, then a parameter, then a catch-all.
//! 4. Routes with one pattern: more fields demanded first, then listeners named, then methods named. What is still equal must differ in its
//!    methods or in the value of a field, or the table is rejected.
//! 5. A path that another server could read as one of a more specific route (`//`, `;parameters`) is rejected, unless its route opts out; and so is one
//!    with a parameter that is empty there (`/;/public`), which is another path for it.
//! 6. HEAD is served by a route that names GET, unless a route of the same rank names HEAD.
//!
//! `tree.rs` searches, `compile.rs` builds and reports conflicts, `template.rs` writes what goes upstream, `lenient.rs` holds what only
//! front doors ask for. The answers to what is not found are given by `http/`.

mod ambiguous;
mod compile;
mod lenient;
mod methods;
mod params;
mod template;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;

use config::{Config, RouteConfig, Segment, Service};
use wire::http::RequestHead;

use crate::host_map::HostMap;
use ambiguous::is_more_specific;
pub(crate) use ambiguous::{is_void, readings};
use methods::MethodSet;
pub use params::{MAX_PARAMS, Params};
pub use template::{BadParameter, build_authority, build_location, build_target};
use tree::{Candidates, Tree};

/// The routes of a generation, compiled. A parameter is a range of the canonical path.
#[derive(Debug)]
pub struct RouteTable {
    routes: Vec<CompiledRoute>,
    /// Which view each listener has. Few, so they are compared one after the other.
    listeners: Vec<(Box<str>, usize)>,
    /// Listeners that see the same routes share a view.
    views: Vec<View>,
    forbid_unknown_hosts: bool,
}

/// What one listener sees.
#[derive(Debug, Default)]
struct View {
    hosts: HostMap<Tree>,
    any: Option<Tree>,
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
    /// A server that makes slashes one or drops `;` parameters would read a path of a more specific route: 400.
    AmbiguousPath,
}

/// A route ready to use.
#[derive(Debug)]
pub struct CompiledRoute {
    /// The route as configured.
    pub config: Arc<RouteConfig>,
    /// Its position among `Config::routes`, for per-route counters.
    pub index: usize,
    methods: MethodSet,
}

impl CompiledRoute {
    /// Whether the request has every field the route demands.
    fn fields_match(&self, head: &RequestHead) -> bool {
        let demanded = &self.config.headers;
        demanded.iter().all(|(name, value)| head.fields.get_all(name).any(|sent| sent == value.as_bytes()))
    }

    /// Whether the route takes the parameters and fields of a request, whatever its method.
    fn takes(&self, head: &RequestHead, candidates: &Candidates<'_, '_>) -> bool {
        (!candidates.has_empty || self.config.lenient.empty_parameters) && self.fields_match(head)
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
        RouteTable::compile_routes(&listeners, &config.routes)
    }

    /// Finds the route for a request on `listener`. Allocates nothing if one is found.
    pub fn find(&self, listener: &str, head: &RequestHead) -> Routed<'_> {
        let view = self.listeners.iter().find(|(name, _)| **name == *listener).and_then(|(_, at)| self.views.get(*at));
        let Some(tree) = view.and_then(|view| view.tree(head.host())) else { return Routed::UnknownHost };
        match self.search(tree, head, head.path()) {
            Some((route, _)) if head.has_encoded_slash && !route.config.options.allow_encoded_slash => {
                Routed::EncodedSlash
            }
            Some((route, params)) if self.hides_another(tree, head, route, &params) => Routed::AmbiguousPath,
            Some((route, params)) => Routed::Found(route, params),
            None if head.has_encoded_slash => Routed::EncodedSlash,
            None => self.not_found(tree, head),
        }
    }

    /// The status that [`Routed::UnknownHost`] deserves: 403 or 404.
    pub fn unknown_host_status(&self) -> u16 {
        if self.forbid_unknown_hosts { 403 } else { 404 }
    }

    /// The routes in the order of `Config::routes`.
    pub fn routes(&self) -> &[CompiledRoute] {
        &self.routes
    }

    /// Whether the path, as other servers may read it, belongs to a more specific route than this one, which it belongs to as it is written; or, where one
    /// of its parameters is empty for them, to any other route or to none.
    fn hides_another(&self, tree: &Tree, head: &RequestHead, route: &CompiledRoute, params: &Params) -> bool {
        let is_hidden = |reading: &Vec<u8>| {
            let other = self.search(tree, head, reading).map(|(other, _)| other);
            let is_another = other.is_none_or(|other| other.index != route.index);
            let is_guarded = other.is_some_and(|other| is_more_specific(&other.config.path, &route.config.path));
            is_guarded || (is_another && has_void_parameter(head.path(), route, params))
        };
        let is_hidden = |reading: &Vec<u8>| !reading.is_empty() && is_hidden(reading);
        !route.config.options.allow_ambiguous_path && readings(head.path()).iter().any(is_hidden)
    }

    /// The most specific route of `tree` for the method and fields of `head` and this path.
    fn search<'t>(&'t self, tree: &'t Tree, head: &RequestHead, path: &[u8]) -> Option<(&'t CompiledRoute, Params)> {
        let mut found = None;
        tree.search(path, |candidates| {
            let mut routes = self.numbered(candidates.routes);
            let taken = routes.find(|route| route.methods.contains(&head.method) && route.takes(head, &candidates));
            found = taken.map(|route| (route, *candidates.params));
            found.is_some()
        });
        found
    }

    fn numbered<'t>(&'t self, numbers: &'t [u32]) -> impl Iterator<Item = &'t CompiledRoute> {
        numbers.iter().filter_map(|number| self.routes.get(*number as usize))
    }
}

/// Whether a parameter of the path, catch-alls aside, is empty for servers that drop `;` parameters.
fn has_void_parameter(path: &[u8], route: &CompiledRoute, params: &Params) -> bool {
    let parameters = route.config.path.segments.iter().filter(|segment| !matches!(segment, Segment::Static(_)));
    let mut parameters = parameters.enumerate().filter(|(_, segment)| matches!(segment, Segment::Param { .. }));
    parameters.any(|(index, _)| params.value(path, index).is_some_and(is_void))
}
