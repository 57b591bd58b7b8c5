//! HAR 1.2 files, as browsers and debugging proxies write them, to exchanges.

use std::path::Path;

use super::{Bodies, Body, Credentials, Exchange};
use crate::document;
use crate::format::decode_base64;
use crate::node::{Kind, Node};
use crate::problem::Problem;

/// Values of one file.
const MAX_VALUES: usize = 20_000_000;

/// The exchanges of a HAR file, in its order. Targets are as they were sent: whoever calls brings them into canonical form.
///
/// # Errors
/// It is no JSON, or has no `log.entries`.
pub fn exchanges_of_har(name: &Path, text: &str) -> Result<Vec<Exchange>, Vec<Problem>> {
    let root = document::parse(&name.with_extension("json"), text, MAX_VALUES);
    let root = root.map_err(|problems| {
        problems.into_iter().map(|one| Problem { file: name.to_owned(), ..one }).collect::<Vec<_>>()
    })?;
    match root.pointer("/log/entries").map(|entries| &entries.kind) {
        Some(Kind::Array(entries)) => Ok(entries.iter().filter_map(exchange).collect()),
        _ => {
            let what = "is no HAR file: it has no `log.entries`".to_owned();
            Err(vec![Problem { file: name.to_owned(), line: 0, column: 0, what }])
        }
    }
}

fn exchange(entry: &Node) -> Option<Exchange> {
    let (request, response) = (entry.get("request")?, entry.get("response")?);
    let (_, rest) = request.get("url")?.as_str()?.split_once("://")?;
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    let target = target.split('#').next().unwrap_or_default();
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let status = response.get("status").and_then(whole).and_then(|status| u16::try_from(status).ok());
    Some(Exchange {
        method: request.get("method")?.as_str()?.to_owned(),
        host: host.to_owned(),
        target,
        status: status.unwrap_or_default(),
        credentials: request.get("headers").map(credentials),
        bodies: Bodies::Known(request_body(request), response_body(response)),
    })
}

fn whole(node: &Node) -> Option<i64> {
    match &node.kind {
        Kind::Number(text) => text.parse().ok(),
        _ => None,
    }
}

fn field<'n>(headers: &'n Node, name: &str) -> Option<&'n str> {
    let is_it =
        |header: &&Node| header.get("name").and_then(Node::as_str).is_some_and(|have| have.eq_ignore_ascii_case(name));
    headers.elements().iter().find(is_it)?.get("value")?.as_str()
}

fn credentials(headers: &Node) -> Credentials {
    match field(headers, "authorization").map(|value| value.split(' ').next().unwrap_or_default().to_ascii_lowercase())
    {
        None => Credentials::Nothing,
        Some(scheme) if scheme == "basic" => Credentials::Basic,
        Some(scheme) if scheme == "bearer" => Credentials::Bearer,
        Some(_) => Credentials::Other,
    }
}

fn request_body(request: &Node) -> Option<Body> {
    let data = request.get("postData")?;
    let named = data.get("mimeType").and_then(Node::as_str);
    let content_type = request.get("headers").and_then(|headers| field(headers, "content-type")).or(named)?.to_owned();
    let is_file = |part: &Node| part.get("fileName").is_some();
    let part = |part: &Node| Some((part.get("name")?.as_str()?.to_owned(), is_file(part)));
    let fields = data.get("params").map(Node::elements).unwrap_or_default().iter().filter_map(part).collect::<Vec<_>>();
    let bytes = data.get("text").and_then(Node::as_str).map(|text| text.as_bytes().to_vec());
    let is_there = bytes.as_ref().is_some_and(|bytes| !bytes.is_empty()) || !fields.is_empty();
    is_there.then_some(Body { content_type, bytes, fields })
}

fn response_body(response: &Node) -> Option<Body> {
    let content = response.get("content")?;
    let named = content.get("mimeType").and_then(Node::as_str);
    let size = content.get("size").and_then(whole).unwrap_or_default();
    let content_type = response.get("headers").and_then(|headers| field(headers, "content-type")).or(named)?.to_owned();
    let text = content.get("text").and_then(Node::as_str);
    let bytes = match (text, content.get("encoding").and_then(Node::as_str)) {
        (Some(text), Some("base64")) => {
            let mut out = Vec::new();
            decode_base64(text.as_bytes(), &mut out).then_some(out)
        }
        (Some(text), None) => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    let is_there = bytes.as_ref().map_or(size > 0, |bytes| !bytes.is_empty());
    is_there.then_some(Body { content_type, bytes, fields: Vec::new() })
}
