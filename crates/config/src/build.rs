//! The checked tree of a file to the immutable [`Config`]: what keys mean, alone and together. Every problem is noted, none ends the work.
//!
//! Structural problems are `shape.rs`'s business and reported before: a value of the wrong shape is skipped here without a word. Touches no
//! disk; the files a configuration names are gathered for `load` to look at.

mod access_log;
mod acme;
mod address;
mod bodies;
mod conditions;
mod contracts;
mod datagrams;
mod discovery;
mod fleet;
mod geoip;
mod graphql;
mod headers;
mod health;
mod key_servers;
mod key_server;
mod keystores;
mod listeners;
mod log_fields;
mod loops;
mod order;
mod placeholders;
mod policies;
mod process;
mod read;
mod responses;
mod rewrites;
mod routes;
mod split;
mod template;
mod tokens;
mod tracing;
mod tunnels;
mod unix_sockets;
mod upstreams;
mod validate;
mod variables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

pub use bodies::body_of_file;
pub(super) use fleet::build_fleet;
use geoip::Databases;
pub(super) use key_server::build_key_server;
pub use policies::is_subject_field;
pub use variables::warnings as variable_warnings;

use super::environment::FromEnvironment;
use super::limits::Limits;
use super::machine::Machine;
use super::model::{Config, ListenerConfig, LogField, Output, PolicyConfig, RouteConfig, Unused, Written};
use super::problem::{Collector, Span, closest, listed, shown};
use super::shape::effective::Effective;
use super::shape::surface::ROOT;
use super::sources::Sources;
use super::yaml::Node;

/// A file or folder that the configuration names and that must exist.
#[derive(Debug)]
pub(super) struct Referenced {
    pub(super) path: PathBuf,
    pub(super) is_folder: bool,
    /// It is read, not only looked for.
    pub(super) is_read: bool,
    pub(super) span: Span,
}

/// What is wrong with one value.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    what: String,
    fix: String,
}

impl Fault {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Fault {
        Fault { what: what.into(), fix: fix.into() }
    }
}

/// The state of the work.
struct Build<'a> {
    sources: &'a Sources,
    machine: &'a Machine,
    problems: &'a mut Collector,
    referenced: Vec<Referenced>,
    /// What is written, and the Unix sockets that are made.
    written: Vec<Written>,
    /// The Unix sockets that servers are behind.
    sockets: BTreeSet<PathBuf>,
    /// Which databases of addresses there are.
    databases: Databases,
    /// Directories of servers, and whether instances have tags there.
    directories: BTreeMap<String, (Span, bool)>,
    /// Names that are referred to, with what they name.
    used: BTreeSet<(&'static str, String)>,
}

impl<'a> Build<'a> {
    /// Nothing is built yet.
    fn new(sources: &'a Sources, machine: &'a Machine, problems: &'a mut Collector) -> Build<'a> {
        let (databases, directories, used, sockets) = Default::default();
        let (referenced, written) = (Vec::new(), Vec::new());
        Build { sources, machine, problems, referenced, written, sockets, databases, directories, used }
    }
}

/// What variables of the environment put into the files.
fn environment(sources: &Sources) -> FromEnvironment {
    FromEnvironment::of(sources.files.iter().map(|file| file.text.as_str()), |name| std::env::var(name).ok())
}

/// Builds the configuration, of all that is right if a problem is noted.
pub(super) fn build(
    root: &Node,
    sources: &Sources,
    machine: &Machine,
    problems: &mut Collector,
) -> (Option<Config>, Vec<Referenced>) {
    let mut build = Build { databases: Databases::of(root), ..Build::new(sources, machine, problems) };
    let keystores = build.keystores(root);
    let discovery = build.discovery(root);
    let upstreams = build.upstreams(root);
    let (listeners, admin) = build.listeners_and_admin(root);
    let limits = root.get("limits").map(Limits::read).unwrap_or_default();
    let mut routes = build.routes(root);
    let own =
        |listener: &Arc<ListenerConfig>| Some((listener.name.clone(), limits.at(listener.options.limits.as_ref()?)));
    let listener_limits = listeners.iter().filter_map(own).collect();
    let policies = build.policies(root);
    let log_fields = build.log_fields(root, &mut routes);
    let templates = routes.iter().flat_map(RouteConfig::templates).chain(log_fields.iter().map(|field| &field.value));
    build.variables_have_databases(root, templates);
    let tokens = build.tokens(root, &policies, &claims_read(&routes, &policies, &log_fields));
    let mut config = Config {
        workers: process::workers(root),
        ticket_keys: build.ticket_keys(root),
        ech_keys: build.file(root, "ech_keys"),
        listeners,
        udp_listeners: build.udp_listeners(root),
        keystores,
        key_servers: build.key_servers(root),
        routes,
        discovery,
        upstreams,
        policies,
        error_pages: build.error_pages(root),
        compression: build.compression(root),
        contracts: build.contracts(root, &tokens),
        tokens,
        host_rules: build.host_rules(root),
        rate_store: build.rate_store(root),
        geoip: build.geoip(root),
        trusted_proxies: build.trusted_proxies(root),
        forwarding: build.forwarding(root),
        unusual_names: process::unusual_names(root),
        methods: crate::table::setting(root, "methods"),
        admin,
        log: build.log(root, log_fields),
        tracing: build.tracing(root),
        limits,
        listener_limits,
        sandbox: build.sandbox(root),
        included: sources.included.clone(),
        named_files: Vec::new(),
        named_sockets: Vec::new(),
        written: Vec::new(),
        effective: Effective::of(&ROOT, root),
        environment: environment(sources),
        unused: Unused(build.unused(root)),
    };
    acme::add_names(root, &mut config, build.problems);
    build.forwarding_loops(root, &config);
    build.hash_rules(root, &config);
    build.datagram_rules(root, &config);
    build.http3_rules(root, &config);
    let Build { referenced, written, sockets, .. } = build;
    config.written = written;
    config.named_sockets = sockets.into_iter().collect();
    config.named_files = referenced.iter().filter(|one| one.is_read).map(|one| one.path.clone()).collect();
    (Some(config), referenced)
}

/// The claims of tokens that are read, whichever policy verified them.
fn claims_read(
    routes: &[RouteConfig],
    policies: &BTreeMap<String, Arc<PolicyConfig>>,
    log_fields: &[LogField],
) -> BTreeSet<String> {
    let counted = policies.values().flat_map(|policy| policy.claims_counted());
    let logged = log_fields.iter().flat_map(|field| field.value.claims());
    routes.iter().flat_map(RouteConfig::claims).chain(counted).chain(logged).map(str::to_owned).collect()
}

impl Build<'_> {
    /// The value, or its fault noted, unless the scalar is known to be wrong already.
    fn take<T>(&mut self, span: Span, result: Result<T, Fault>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(fault) => {
                if !self.problems.knows(span) {
                    self.problems.add(span, fault.what, fault.fix);
                }
                None
            }
        }
    }

    /// Reads the scalar under `key`, if it is there.
    fn parsed<T>(&mut self, node: &Node, key: &str, read: impl FnOnce(&str) -> Result<T, Fault>) -> Option<T> {
        let node = node.get(key)?;
        let text = node.text()?;
        self.take(node.span, read(text))
    }

    /// Reads each scalar of the list (or the one scalar) under `key`; duplicates are noted and left out.
    fn parsed_list<T: PartialEq>(&mut self, node: &Node, key: &str, read: impl Fn(&str) -> Result<T, Fault>) -> Vec<T> {
        let mut out: Vec<T> = Vec::new();
        for item in node.get(key).map(Node::one_or_many).unwrap_or_default() {
            let Some(text) = item.text() else { continue };
            let Some(value) = self.take(item.span, read(text)) else { continue };
            if out.contains(&value) {
                self.problems.add(item.span, format!("{} is in `{key}` twice", shown(text)), "remove one of the two");
            } else {
                out.push(value);
            }
        }
        out
    }

    /// A path under `key`, relative to the folder of the configuration file; it must exist at load.
    fn file(&mut self, node: &Node, key: &str) -> Option<PathBuf> {
        self.reference(node.get(key)?, false)
    }

    /// The same for a folder.
    fn folder(&mut self, node: &Node, key: &str) -> Option<PathBuf> {
        self.reference(node.get(key)?, true)
    }

    fn reference(&mut self, node: &Node, is_folder: bool) -> Option<PathBuf> {
        let path = self.sources.folder(node.span).join(node.text()?);
        self.referenced.push(Referenced { path: path.clone(), is_folder, is_read: true, span: node.span });
        Some(path)
    }

    /// The path of something that is written, relative in the same way; it need not be there.
    fn written(&mut self, node: &Node, what: &'static str, how: Output) -> Option<PathBuf> {
        let path = self.sources.folder(node.span).join(node.text()?);
        self.written.push(Written { path: path.clone(), what, how });
        Some(path)
    }

    /// Notes a name that something of the same kind has already; `names` holds the places.
    fn unique(&mut self, name: &str, what: &str, at: Span, names: &mut HashMap<String, Span>) {
        if let Some(first) = names.insert(name.to_owned(), at) {
            let taken = format!("there is already a {what} {} {}", shown(name), self.sources.seen_from(at, first));
            self.problems.add(at, taken, format!("give each {what} its own name"));
        }
    }

    /// The name under `key`, which must be among `known`; `what` is what it names.
    fn name_of(&mut self, node: &Node, what: &'static str, known: &BTreeMap<&str, Span>) -> Option<String> {
        let text = node.text()?;
        if known.contains_key(text) {
            self.used.insert((what, text.to_owned()));
            return Some(text.to_owned());
        }
        let fix = match (self.problems.is_full(), closest(text, known.keys().copied())) {
            (false, Some(name)) => format!("did you mean {}?", shown(name)),
            _ if known.is_empty() => "define it: the file has none yet".to_owned(),
            _ => format!("define it, or use one of {}", listed(known.keys().copied())),
        };
        self.problems.add(node.span, format!("there is no {what} {}", shown(text)), fix);
        None
    }

    /// What is defined and nothing refers to.
    fn unused(&self, root: &Node) -> Vec<String> {
        let kinds = [
            ("keystores", "keystore"),
            ("key_servers", "group of key servers"),
            ("upstreams", "upstream"),
            ("discovery", "directory"),
            ("tokens", "verifier"),
            ("policies", "policy"),
            ("contracts", "contract"),
        ];
        let defined = kinds.iter().flat_map(|(section, what)| {
            names_in(root, section).into_iter().map(move |(name, span)| (*what, name, span))
        });
        let unused = defined.filter(|(what, name, _)| !self.used.contains(&(*what, (*name).to_owned())));
        let text = |(what, name, span): (&str, &str, Span)| {
            format!("{}: {what} `{name}` is not used; refer to it or remove it", self.sources.place(span))
        };
        unused.map(text).collect()
    }
}

/// Reads an address or a network that stands in another file.
pub(super) fn network(text: &str) -> Result<ipnet::IpNet, String> {
    address::network(text).map_err(|fault| format!("{}; {}", fault.what, fault.fix))
}

/// The keys of the table under `key`, with their places.
fn names_in<'a>(root: &'a Node, key: &str) -> BTreeMap<&'a str, Span> {
    let entries = root.get(key).map(Node::entries).unwrap_or_default();
    entries.iter().map(|entry| (entry.key.as_str(), entry.key_span)).collect()
}

/// A name that the user gives to something: it appears in metrics, logs and file names.
fn identifier(text: &str) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts && text.len() <= 64 && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(
        format!("{} cannot be a name", shown(text)),
        "use up to 64 letters, digits, `.`, `_` and `-`, a letter or digit first",
    ))
}
