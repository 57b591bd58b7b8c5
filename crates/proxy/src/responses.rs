//! What the configuration says of responses: error pages, bodies of fixed responses from files, compression. All of it is read with the generation; nothing that a
//! request names is ever opened.
//!
//! Owns which of it holds where: the choice of the route, else of the host, else of the listener. What a response looks like is decided in `message/` and
//! `exchange/`.

mod compression;
mod pages;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use config::{Action, BodyVariables, Choice, Config, ResponseRules, RouteConfig, Template};
use wire::http::RequestHead;

use crate::configured_map::ConfiguredMap;
use crate::host_map::HostMap;
pub use compression::{Compressible, Compression, Verdict, varies, weakened};
pub use pages::{Chosen, ErrorPages};

/// Largest file of a page or a fixed response, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What of one kind holds where.
#[derive(Debug)]
struct Attached<T> {
    listeners: ConfiguredMap<String, Arc<T>>,
    /// None where the host says so.
    hosts: HostMap<Option<Arc<T>>>,
    /// By name; none where the route says so.
    routes: ConfiguredMap<String, Option<Arc<T>>>,
}

impl<T> Default for Attached<T> {
    fn default() -> Attached<T> {
        Attached { listeners: ConfiguredMap::default(), hosts: HostMap::default(), routes: ConfiguredMap::default() }
    }
}

impl<T> Attached<T> {
    fn new(
        config: &Config,
        by_name: &BTreeMap<&str, Arc<T>>,
        choice: impl Fn(&ResponseRules) -> &Choice,
    ) -> Attached<T> {
        let mut attached = Attached::default();
        // The configuration was checked: every name is there.
        let chosen = |rules: &ResponseRules| match choice(rules) {
            Choice::Inherited => None,
            Choice::None => Some(None),
            Choice::Named(name) => Some(by_name.get(name.as_str()).cloned()),
        };
        for listener in &config.listeners {
            if let Some(Some(value)) = chosen(&listener.responses) {
                attached.listeners.insert(listener.name.clone(), value);
            }
        }
        let hosts = config.host_rules.iter().filter_map(|rule| Some((rule.host.clone(), chosen(&rule.responses)?)));
        attached.hosts = hosts.collect();
        let routes = config.routes.iter().filter_map(|route| Some((route.name.clone(), chosen(&route.responses)?)));
        attached.routes = routes.collect();
        attached
    }

    fn of(&self, route: Option<&str>, listener: &str, head: &RequestHead) -> Option<&Arc<T>> {
        if self.routes.is_empty() && self.hosts.is_empty() && self.listeners.is_empty() {
            return None;
        }
        match route.and_then(|route| self.routes.get(route)).or_else(|| self.hosts.find(head.host())) {
            Some(chosen) => chosen.as_ref(),
            None => self.listeners.get(listener),
        }
    }
}

/// What holds for responses.
#[derive(Debug, Default)]
pub struct Responses {
    error_pages: Attached<ErrorPages>,
    compression: Attached<Compression>,
    /// Bodies that are not the configuration's own, by route.
    bodies: Vec<Option<Body>>,
}

/// A body that is not the configuration's own.
#[derive(Debug, Clone)]
enum Body {
    /// Sent as it is.
    Bytes(Arc<[u8]>),
    /// Made for each request.
    Made(Arc<Template>),
}

impl Responses {
    /// Reads everything that the configuration names.
    ///
    /// # Errors
    /// Every file that cannot be used, and why.
    pub fn load(config: &Config) -> Result<Responses, Vec<String>> {
        let mut problems = Vec::new();
        let mut pages = BTreeMap::new();
        for (name, settings) in &config.error_pages {
            match ErrorPages::load(settings) {
                Ok(loaded) => _ = pages.insert(name.as_str(), Arc::new(loaded)),
                Err(found) => problems.extend(found),
            }
        }
        let mut bodies = Vec::new();
        for (index, route) in config.routes.iter().enumerate() {
            match load_body(route) {
                Ok(None) => {}
                Ok(body) => {
                    bodies.resize(index, None);
                    bodies.push(body);
                }
                Err(problem) => problems.push(format!("route {}: {problem}", route.name)),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let compression = config
            .compression
            .iter()
            .map(|(name, settings)| (name.as_str(), Arc::new(Compression { config: Arc::clone(settings) })));
        let compression = compression.collect();
        Ok(Responses {
            error_pages: Attached::new(config, &pages, |rules| &rules.error_pages),
            compression: Attached::new(config, &compression, |rules| &rules.compression),
            bodies,
        })
    }

    /// The error pages of a request.
    pub fn error_pages(&self, route: Option<&str>, listener: &str, head: &RequestHead) -> Option<&Arc<ErrorPages>> {
        self.error_pages.of(route, listener, head)
    }

    /// The compression of the response to a request.
    pub fn compression(&self, route: &str, listener: &str, head: &RequestHead) -> Option<&Arc<Compression>> {
        self.compression.of(Some(route), listener, head)
    }

    /// The body that a route has from a file.
    pub fn body(&self, route: usize) -> Option<&[u8]> {
        match self.bodies.get(route)?.as_ref()? {
            Body::Bytes(bytes) => Some(bytes),
            Body::Made(_) => None,
        }
    }

    /// The body of a route that is made for each request.
    pub fn template(&self, route: usize) -> Option<&Template> {
        match self.bodies.get(route)?.as_ref()? {
            Body::Bytes(_) => None,
            Body::Made(template) => Some(template),
        }
    }
}

/// The body of a route, unless it is the configuration's own.
fn load_body(route: &RouteConfig) -> Result<Option<Body>, String> {
    let Action::Respond { body_file, variables, content_type, .. } = &route.action else { return Ok(None) };
    match (variables, body_file) {
        (BodyVariables::Text(template), _) => Ok(Some(Body::Made(Arc::new(template.clone())))),
        (BodyVariables::None, Some(path)) => read(path).map(|bytes| Some(Body::Bytes(bytes.into()))),
        (BodyVariables::File, Some(path)) => {
            let text = String::from_utf8(read(path)?).map_err(|_| format!("{}: is not UTF-8", path.display()))?;
            let template = config::body_of_file(&text, &route.path, content_type);
            let template = template.map_err(|problem| format!("{}: {problem}", path.display()))?;
            Ok(Some(Body::Made(Arc::new(template))))
        }
        (BodyVariables::None | BodyVariables::File, None) => Ok(None),
    }
}

/// A regular file within bounds.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut content = Vec::new();
    let file = keystore::files::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{}: larger than 1 MiB; serve it from an upstream", path.display()));
    }
    Ok(content)
}
