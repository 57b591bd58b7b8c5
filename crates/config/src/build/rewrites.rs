//! `rewrite_location` and `cookies` of `response_headers`: what stands in place of an upstream's own URLs, paths and domains.
//!
//! A beginning of a URL is replaced so that what follows cannot become part of a host.

use super::placeholders::{Scope, field_template};
use super::{Build, Fault, headers, read};
use crate::model::{CookieFlags, CookieRule, FieldValue, ResponseRewrites, Rewrite};
use crate::problem::shown;
use crate::yaml::Node;

impl Build<'_> {
    /// What becomes of URLs and cookies of a response; none if they stay.
    pub(super) fn rewrites(&mut self, edits: &Node, scope: Scope<'_>) -> Option<Box<ResponseRewrites>> {
        let location = self.pairs(edits, "rewrite_location", url_start, |text| url_target(text, scope));
        let items = edits.get("cookies").map(Node::one_or_many).unwrap_or_default();
        let cookies: Vec<CookieRule> = items.iter().map(|node| self.cookie_rule(node, scope)).collect();
        for node in edits.get("rewrite_location").map(Node::one_or_many).unwrap_or_default() {
            if let (Some(from), Some(to), Some(at)) = (read::text(node, "from"), read::text(node, "to"), node.get("to"))
            {
                self.take(at.span, fit(from, to));
            }
        }
        let is_empty = location.is_empty() && cookies.is_empty();
        (!is_empty).then(|| Box::new(ResponseRewrites { location, cookies }))
    }

    fn cookie_rule(&mut self, node: &Node, scope: Scope<'_>) -> CookieRule {
        let attribute = |text: &str| match text {
            "none" => Ok(None),
            text if text.contains(';') => {
                Err(Fault::new(format!("{} holds a `;`", shown(text)), "write the value of one attribute"))
            }
            text => value(text, scope).map(Some),
        };
        CookieRule {
            names: self.parsed_list(node, "name", cookie_name),
            path: self.pairs(node, "path", cookie_path, |text| match text.starts_with('/') {
                true => attribute(text),
                false => Err(Fault::new(format!("{} is not a path", shown(text)), "write it from `/` on: `/app/`")),
            }),
            domain: self.pairs(node, "domain", cookie_domain, attribute),
            flags: CookieFlags::read(node),
        }
    }

    /// The pairs of `from` and `to` under a key.
    fn pairs(
        &mut self,
        node: &Node,
        key: &str,
        from: impl Fn(&str) -> Result<String, Fault>,
        to: impl Fn(&str) -> Result<Option<FieldValue>, Fault>,
    ) -> Vec<Rewrite> {
        let items = node.get(key).map(Node::one_or_many).unwrap_or_default();
        let pair = |node: &Node| {
            let read = |build: &mut Build<'_>| Some((build.parsed(node, "from", &from), build.parsed(node, "to", &to)));
            match read(self)? {
                (Some(from), Some(to)) => Some(Rewrite { from, to }),
                _ => None,
            }
        };
        items.iter().filter_map(pair).collect()
    }
}

fn value(text: &str, scope: Scope<'_>) -> Result<FieldValue, Fault> {
    headers::field_value(text).and_then(|text| field_template(&text, scope))
}

/// What stands behind `http://` or `https://`.
fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://", "{scheme}://"].iter().find_map(|scheme| text.strip_prefix(scheme))
}

/// The beginning of a path or URL.
fn url_start(text: &str) -> Result<String, Fault> {
    let is_path = text.starts_with('/') && !text.starts_with("//");
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    if (is_path || is_url) && text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['{', '}']) {
        return Ok(text.to_owned());
    }
    let what = format!("{} is not the beginning of a path or URL", shown(text));
    Err(Fault::new(what, "write a path from `/` on, or a URL such as `http://app.internal:8080/`"))
}

fn url_target(text: &str, scope: Scope<'_>) -> Result<Option<FieldValue>, Fault> {
    let is_path = text.starts_with('/') && !text.starts_with("//");
    if let Some(rest) = after_scheme(text) {
        let host = rest.split('/').next().unwrap_or_default();
        // What a client sends must not lead anywhere else.
        if host.replace("{host}", "").contains(['{', '?', '#', '@', '\\']) {
            let what = format!("the host of {} is made of what it must not be made of", shown(text));
            return Err(Fault::new(what, "write the host as it is, or `{host}` for that of the request"));
        }
    }
    if is_path || after_scheme(text).is_some() {
        return value(text, scope).map(Some);
    }
    let what = format!("{} is neither a path nor a URL", shown(text));
    Err(Fault::new(what, "write a path from `/` on, or a URL such as `https://{host}/app/`"))
}

/// What follows may not become part of the host that is put in.
fn fit(from: &str, to: &str) -> Result<(), Fault> {
    let has_path = |rest: &str| rest.contains('/');
    match (after_scheme(from), after_scheme(to)) {
        // A scheme for a scheme: what follows is the host, as before.
        (Some(""), Some("")) => Ok(()),
        (Some(""), _) | (_, Some("")) => {
            Err(Fault::new("a scheme alone stands for a scheme alone", "write `from: http://` and `to: https://`"))
        }
        (from_host, Some(host)) if !has_path(host) && from_host.is_none_or(has_path) => {
            let what = format!("what follows {} would become part of the host", shown(to));
            Err(Fault::new(what, format!("write {}", shown(&format!("to: {to}/")))))
        }
        _ => Ok(()),
    }
}

fn cookie_name(text: &str) -> Result<String, Fault> {
    if headers::is_token(text) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not the name of a cookie", shown(text)), "write it as the server sets it: `session`"))
}

fn cookie_path(text: &str) -> Result<String, Fault> {
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';') {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not a path", shown(text)), "write the beginning of a path, from `/` on"))
}

fn cookie_domain(text: &str) -> Result<String, Fault> {
    let text = text.strip_prefix('.').unwrap_or(text);
    super::address::host_name(text)
}
