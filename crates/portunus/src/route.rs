//! Which route a request takes: listener, host, method, path, fields. Pure.

use std::sync::Arc;

use wire::http::{Method, RequestHead};

use crate::config::{Config, RouteConfig, Template};

/// The routes of a generation, compiled. A parameter is a range of the canonical path.
#[derive(Debug)]
pub struct RouteTable {}

/// What the table says to a request.
#[derive(Debug)]
pub enum Routed<'a> {
    /// This route, with the parameters of its pattern.
    Found(&'a CompiledRoute, Params),
    /// No route knows the host: 403 where front doors ask for it, else 404.
    UnknownHost,
    /// The host is known, the path is not: 404.
    NotFound,
    /// The path is known under other methods: 405 with this Allow value.
    MethodNotAllowed(String),
    /// A front door's automatic OPTIONS: 200 with this Allow value.
    Options(String),
    /// A front door's redirect to the matching path.
    RedirectTo(u16, Vec<u8>),
    /// `%2F` in a path whose route does not opt in: 400.
    EncodedSlash,
}

/// A route ready to use.
#[derive(Debug)]
pub struct CompiledRoute {
    /// The route as configured.
    pub config: Arc<RouteConfig>,
}

/// Up to 16 parameters of a match, as ranges of the canonical path, without allocation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    _ranges: [(u32, u32); 16],
    _len: u8,
}

impl RouteTable {
    /// Compiles the routes; conflicts are reported together, each with both places.
    ///
    /// # Errors
    /// One text per conflict.
    pub fn compile(config: &Config) -> Result<RouteTable, Vec<String>> {
        let _ = config;
        Err(Vec::new())
    }

    /// Finds the route for a request on `listener`.
    pub fn find(&self, listener: &str, head: &RequestHead) -> Routed<'_> {
        let _ = (listener, head, Method::Get);
        Routed::NotFound
    }
}

/// A parameter had a value its place does not allow (400 in host position).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadParameter;

impl Template {
    /// Writes the template with the parameters of `path`.
    ///
    /// # Errors
    /// A parameter in host position is not one host label.
    pub fn render(&self, path: &[u8], params: &Params, out: &mut Vec<u8>) -> Result<(), BadParameter> {
        let _ = (path, params, out);
        Ok(())
    }
}
