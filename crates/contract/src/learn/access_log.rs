//! Lines of the access log, in the JSON form, to exchanges. A line has no header fields and no bodies.

use std::path::Path;

use super::Exchange;
use crate::document;
use crate::node::{Kind, Node};

/// Values of one line.
const MAX_VALUES: usize = 1_000;

/// What a line tells of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogLine {
    /// A request, with the target as it was logged.
    Request(Box<Exchange>),
    /// Another thing, or a request whose target was cut.
    Other,
    /// It is no JSON object.
    Unreadable,
}

/// Reads a line.
pub fn exchange_of_line(line: &str) -> LogLine {
    match document::parse(Path::new("line.json"), line, MAX_VALUES) {
        Ok(root) if matches!(root.kind, Kind::Object(_)) => {
            exchange(&root).map_or(LogLine::Other, |read| LogLine::Request(Box::new(read)))
        }
        _ => LogLine::Unreadable,
    }
}

fn exchange(root: &Node) -> Option<Exchange> {
    let text = |name: &str| root.get(name).and_then(Node::as_str).map(str::to_owned);
    let cut = root.get("truncated").map(Node::elements).unwrap_or_default();
    if text("kind")? != "request" || cut.iter().any(|name| matches!(name.as_str(), Some("target" | "method"))) {
        return None;
    }
    let Kind::Number(status) = &root.get("status")?.kind else { return None };
    Some(Exchange {
        method: text("method")?,
        host: text("host").unwrap_or_default(),
        target: text("target")?,
        status: status.parse().ok()?,
        ..Exchange::default()
    })
}
