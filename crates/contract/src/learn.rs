//! A first document from requests and responses that were seen: path templates, parameters, statuses, and schemas of bodies where those are known.
//!
//! `paths` finds templates, `seen` the types of values, `operations` what belongs to an operation, `yaml` writes; `har` and `access_log` read what was
//! recorded. What was written is loaded again and tried with all that it was learnt from (`trial`). Knows no sockets and keeps no value that it saw.

mod access_log;
mod har;
mod operations;
mod paths;
mod seen;
mod trial;
mod yaml;

pub use access_log::{LogLine, exchange_of_line};
pub use har::exchanges_of_har;

use std::collections::{BTreeMap, BTreeSet};

use crate::node::{Key, Kind, Node, Place};
use operations::Operation;
use paths::{Paths, Template};

/// Longest template that is written, bytes: a member name in YAML is no longer than 1,024 characters.
const MAX_TEMPLATE_BYTES: usize = 900;

/// Messages of the trial that are kept.
const MAX_REJECTED: usize = 100;

/// A request that was seen, and what came back.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// The host, where it is known.
    pub host: String,
    /// The canonical path, percent-encoded, and behind `?` the query as sent.
    pub target: String,
    /// The status that came back; 0 if none did.
    pub status: u16,
    /// How the request shows who sends it; none where fields are not known.
    pub credentials: Option<Credentials>,
    /// What is known of the bodies.
    pub bodies: Bodies,
}

/// What a request shows of who sends it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Credentials {
    /// No Authorization field.
    Nothing,
    /// `Authorization: Basic`.
    Basic,
    /// `Authorization: Bearer`.
    Bearer,
    /// Another scheme of HTTP.
    Other,
}

/// Bodies of an exchange.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum Bodies {
    /// Nobody recorded them.
    #[default]
    Unknown,
    /// Of the request and of the response; none where there was none.
    Known(Option<Body>, Option<Body>),
}

/// A body.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Body {
    /// The Content-Type, as sent.
    pub content_type: String,
    /// Its bytes; none where only that it was there is known.
    pub bytes: Option<Vec<u8>>,
    /// Names of form fields, each with whether it is a file, where only those are known.
    pub fields: Vec<(String, bool)>,
}

/// What was learnt.
#[derive(Clone, Debug, Default)]
pub struct Learnt {
    /// The document, OpenAPI 3.1 in YAML.
    pub document: String,
    /// Operations in it.
    pub operations: usize,
    /// Exchanges that it was learnt from.
    pub used: usize,
    /// What was assumed, one sentence each.
    pub assumptions: Vec<String>,
    /// Exchanges that were left out, by why.
    pub left_out: BTreeMap<&'static str, usize>,
    /// What the document rejects of what it was learnt from, and why; a hundred at most.
    pub rejected: Vec<(String, String)>,
}

/// Learns from exchanges. Those that were answered with 2xx or 3xx say which operations there are; others add statuses to these.
pub fn learn(exchanges: &[Exchange], title: &str) -> Learnt {
    let mut learnt = Learnt::default();
    let mut paths = Paths::default();
    let good: Vec<&Exchange> = exchanges.iter().filter(|one| is_good(one.status)).collect();
    for exchange in &good {
        if let Err(why) = paths.add(path_of(exchange)) {
            *learnt.left_out.entry(why).or_default() += 1;
        }
    }
    paths.generalize();
    let mut operations: BTreeMap<(String, String), (Template, Operation)> = BTreeMap::new();
    let mut used: Vec<&Exchange> = Vec::new();
    for exchange in good {
        let Some(template) = paths.find(path_of(exchange)) else { continue };
        let text = template.text();
        if text.len() > MAX_TEMPLATE_BYTES || !operations::is_method(&exchange.method) {
            let why = if operations::is_method(&exchange.method) {
                "the path is too long"
            } else {
                "the method has no member in a path item"
            };
            *learnt.left_out.entry(why).or_default() += 1;
            continue;
        }
        let fresh = || (template.clone(), Operation::default());
        let (_, operation) = operations.entry((text, exchange.method.clone())).or_insert_with(fresh);
        match operation.add_good(exchange) {
            Ok(()) => used.push(exchange),
            Err(why) => *learnt.left_out.entry(why).or_default() += 1,
        }
    }
    operations.retain(|_, (_, operation)| operation.is_known());
    for exchange in exchanges.iter().filter(|one| !is_good(one.status)) {
        let key = paths.find(path_of(exchange)).map(|template| (template.text(), exchange.method.clone()));
        match key.and_then(|key| operations.get_mut(&key)).filter(|_| exchange.status >= 400) {
            Some((_, operation)) => operation.add_failed(exchange),
            None => *learnt.left_out.entry("no such request was answered with 2xx or 3xx").or_default() += 1,
        }
    }
    learnt.operations = operations.len();
    learnt.used = used.len();
    learnt.assumptions = assumptions(&paths, &operations);
    learnt.document = written(title, &operations, &learnt.assumptions);
    learnt.rejected = trial::rejected(&learnt.document, &used, MAX_REJECTED);
    learnt
}

fn is_good(status: u16) -> bool {
    matches!(status, 101 | 200..=399)
}

fn path_of(exchange: &Exchange) -> &str {
    exchange.target.split('?').next().unwrap_or_default()
}

/// By template and method.
type Operations = BTreeMap<(String, String), (Template, Operation)>;

fn assumptions(paths: &Paths, operations: &Operations) -> Vec<String> {
    let mut assumed: Vec<String> = paths.assumptions().to_vec();
    let mut notes: BTreeSet<String> = BTreeSet::new();
    operations.values().for_each(|(_, operation)| operation.assumptions(&mut notes));
    assumed.push(
        "Query parameters and members that were there each time are required; bounds of lengths are powers of two, four times what was seen at least"
            .to_owned(),
    );
    assumed.extend(notes);
    assumed
}

fn written(title: &str, operations: &Operations, assumptions: &[String]) -> String {
    let mut out = String::from("# Learnt from recorded traffic. Assumed:\n");
    assumptions.iter().for_each(|assumption| out.push_str(&format!("# - {}\n", yaml::comment(assumption))));
    let mut paths: BTreeMap<&str, Vec<(String, Node)>> = BTreeMap::new();
    let mut schemes: BTreeSet<&'static str> = BTreeSet::new();
    for ((text, method), (template, operation)) in operations {
        let node = operation.node(template, &mut schemes);
        paths.entry(text).or_default().push((method.to_ascii_lowercase(), node));
    }
    let paths = paths.into_iter().map(|(path, methods)| (path, object(methods)));
    let mut document = vec![
        ("openapi", text("3.1.0")),
        ("info", object([("title", text(title)), ("version", text("0"))])),
        ("paths", object(paths)),
    ];
    if !schemes.is_empty() {
        let scheme = |name: &&'static str| (*name, object([("type", text("http")), ("scheme", text(*name))]));
        let schemes = object(schemes.iter().map(scheme).collect::<Vec<_>>());
        document.push(("components", object([("securitySchemes", schemes)])));
    }
    yaml::write(&object(document), &mut out);
    out
}

/// A node that stands nowhere.
fn node(kind: Kind) -> Node {
    Node { kind, place: Place::default() }
}

fn text(text: impl Into<String>) -> Node {
    node(Kind::String(text.into()))
}

fn number(number: usize) -> Node {
    node(Kind::Number(number.to_string()))
}

fn flag(flag: bool) -> Node {
    node(Kind::Bool(flag))
}

fn list(elements: impl IntoIterator<Item = Node>) -> Node {
    node(Kind::Array(elements.into_iter().collect()))
}

fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Node)>) -> Node {
    let member = |(name, value): (K, Node)| (Key { text: name.into(), place: Place::default() }, value);
    node(Kind::Object(members.into_iter().map(member).collect()))
}

/// A bound well above what was seen: the power of two that is four times as much at least, and no less than `least`.
fn bound(seen: usize, least: usize) -> usize {
    seen.saturating_mul(4).max(least).next_power_of_two()
}
