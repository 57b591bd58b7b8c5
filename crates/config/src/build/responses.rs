//! `error_pages`, `compression`, and what listeners, hosts and routes choose of it; bodies of fixed responses from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{Build, Fault, headers, names_in};
use crate::model::{
    Choice, CompressionConfig, CompressionOptions, Encoding, ErrorPageConfig, ErrorPagesConfig, MediaTypePattern,
    ResponseRules, StatusPattern,
};
use crate::problem::{Span, shown};
use crate::table::Setting as _;
use crate::yaml::{Entry, Node, Value};

/// Names that listeners, hosts and routes refer to.
pub(super) struct KnownResponses<'a> {
    error_pages: BTreeMap<&'a str, Span>,
    compression: BTreeMap<&'a str, Span>,
}

impl<'a> KnownResponses<'a> {
    /// Those of a file.
    pub(super) fn of(root: &'a Node) -> KnownResponses<'a> {
        KnownResponses { error_pages: names_in(root, "error_pages"), compression: names_in(root, "compression") }
    }
}

/// Keys about responses that a listener, a host or a route may have.
pub(super) const RESPONSE_KEYS: [&str; 2] = ["error_pages", "compression"];

impl Build<'_> {
    pub(super) fn error_pages(&mut self, root: &Node) -> BTreeMap<String, Arc<ErrorPagesConfig>> {
        let entries = root.get("error_pages").map(Node::entries).unwrap_or_default();
        entries.iter().map(|entry| (entry.key.clone(), Arc::new(self.error_pages_of(entry)))).collect()
    }

    fn error_pages_of(&mut self, entry: &Entry) -> ErrorPagesConfig {
        self.take(entry.key_span, not_none(&entry.key));
        let node = &entry.value;
        let pages = node.get("pages").map(Node::entries).unwrap_or_default();
        if let (Some(list), true) = (node.get("pages"), pages.is_empty()) {
            self.problems.add(list.span, "`pages` is empty", "name a file for a status: `404: pages/404.html`");
        }
        let pages: Vec<_> = pages.iter().filter_map(|page| self.error_page(page)).collect();
        let intercept = self.parsed_list(node, "intercept", status_pattern);
        for (pattern, item) in intercept.iter().zip(node.get("intercept").map(Node::one_or_many).unwrap_or_default()) {
            let is_there = |page: &ErrorPageConfig| match (*pattern, page.statuses) {
                (StatusPattern::Class(class), StatusPattern::Status(status)) => status / 100 == class,
                (StatusPattern::Status(status), statuses) => statuses.matches(status),
                (class, statuses) => class == statuses,
            };
            if !pages.iter().any(is_there) {
                self.problems.add(item.span, "no page is for this status", "add one to `pages`, or remove the status");
            }
        }
        ErrorPagesConfig { name: entry.key.clone(), pages, intercept }
    }

    fn error_page(&mut self, entry: &Entry) -> Option<ErrorPageConfig> {
        let statuses = self.take(entry.key_span, status_pattern(&entry.key))?;
        let node = &entry.value;
        if !matches!(node.value, Value::Map(_)) {
            return Some(ErrorPageConfig { statuses, html: self.reference(node, false), text: None });
        }
        if node.entry("html").is_none() && node.entry("text").is_none() {
            let what = format!("the page for {} is no file", entry.key);
            self.problems.add(node.span, what, "add `html` or `text`, or remove it");
        }
        Some(ErrorPageConfig { statuses, html: self.file(node, "html"), text: self.file(node, "text") })
    }

    pub(super) fn compression(&mut self, root: &Node) -> BTreeMap<String, Arc<CompressionConfig>> {
        let entries = root.get("compression").map(Node::entries).unwrap_or_default();
        entries.iter().map(|entry| (entry.key.clone(), Arc::new(self.compression_of(entry)))).collect()
    }

    fn compression_of(&mut self, entry: &Entry) -> CompressionConfig {
        self.take(entry.key_span, not_none(&entry.key));
        let node = &entry.value;
        let mut encodings: Vec<Encoding> = Vec::new();
        for item in node.get("encodings").map(Node::one_or_many).unwrap_or_default() {
            let Some(encoding) = Encoding::of(item) else { continue };
            if encodings.contains(&encoding) {
                let what = format!("{} is in `encodings` twice", shown(item.text().unwrap_or_default()));
                self.problems.add(item.span, what, "remove one of the two");
            }
            encodings.push(encoding);
        }
        let types = self.parsed_list(node, "types", media_type_pattern);
        for (key, is_empty) in [("encodings", encodings.is_empty()), ("types", types.is_empty())] {
            if let Some(list) = node.get(key).filter(|list| is_empty && list.one_or_many().is_empty()) {
                let fix = "remove it for the default, or choose `compression: none` where nothing is to be compressed";
                self.problems.add(list.span, format!("`{key}` is empty"), fix);
            }
        }
        CompressionConfig { name: entry.key.clone(), encodings, types, options: CompressionOptions::read(node) }
    }

    /// What a listener, a host or a route says of responses.
    pub(super) fn response_rules(&mut self, node: &Node, known: &KnownResponses<'_>) -> ResponseRules {
        ResponseRules {
            error_pages: self.choice(node, "error_pages", "set of error pages", &known.error_pages),
            compression: self.choice(node, "compression", "compression", &known.compression),
        }
    }

    fn choice(&mut self, node: &Node, key: &str, what: &'static str, known: &BTreeMap<&str, Span>) -> Choice {
        match node.get(key) {
            None => Choice::Inherited,
            Some(name) if name.text() == Some("none") => Choice::None,
            Some(name) => self.name_of(name, what, known).map_or(Choice::None, Choice::Named),
        }
    }
}

/// `none` is no name, since it means none where a name is chosen.
fn not_none(name: &str) -> Result<(), Fault> {
    if name == "none" { Err(Fault::new("`none` cannot be a name", "use another name")) } else { Ok(()) }
}

/// Reads the status of an error, or a class.
fn status_pattern(text: &str) -> Result<StatusPattern, Fault> {
    match text {
        "4xx" => return Ok(StatusPattern::Class(4)),
        "5xx" => return Ok(StatusPattern::Class(5)),
        _ => {}
    }
    match text.parse::<u16>() {
        Ok(status) if (400..600).contains(&status) && text.len() == 3 => Ok(StatusPattern::Status(status)),
        _ => Err(Fault::new(
            format!("{} is not the status of an error", shown(text)),
            "write one from 400 to 599, or `4xx` or `5xx`",
        )),
    }
}

/// Reads a media type, `type/*` or `type/*+suffix`.
fn media_type_pattern(text: &str) -> Result<MediaTypePattern, Fault> {
    let fault = || {
        let fix = "write `type/subtype`, `type/*` or `type/*+suffix`, such as `application/*+json`";
        Fault::new(format!("{} is not a media type", shown(text)), fix)
    };
    let (kind, subtype) = text.split_once('/').ok_or_else(fault)?;
    let (subtype, is_suffix) = match subtype.strip_prefix('*') {
        Some("") => ("", false),
        Some(suffix) if suffix.len() > 1 && suffix.starts_with('+') => (suffix, true),
        Some(_) => return Err(fault()),
        None if subtype.is_empty() => return Err(fault()),
        None => (subtype, false),
    };
    let is_text = |text: &str| text.is_empty() || headers::is_token(text) && !text.contains('*');
    if kind.is_empty() || !is_text(kind) || !is_text(subtype) {
        return Err(fault());
    }
    Ok(MediaTypePattern { kind: kind.to_ascii_lowercase(), subtype: subtype.to_ascii_lowercase(), is_suffix })
}

/// The media type that a file's extension stands for.
pub(super) fn media_type_of(path: &Path) -> Result<&'static str, Fault> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    Ok(match extension.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        _ => {
            return Err(Fault::new(
                format!("no media type is known for {}", shown(&path.display().to_string())),
                "add `content_type`, such as `text/plain; charset=utf-8`",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn media_types() {
        for (pattern, matching, others) in [
            ("text/html", &["text/html", "Text/HTML"][..], &["text/htm", "text/htmlx", "text", "text/"][..]),
            ("text/*", &["text/html", "text/x"], &["texts/html", "application/text"]),
            (
                "application/*+json",
                &["application/ld+json", "application/a.b+JSON"],
                &["application/json", "text/x+json"],
            ),
        ] {
            let read = media_type_pattern(pattern).unwrap();
            assert!(matching.iter().all(|text| read.matches(text.as_bytes())), "{pattern}");
            assert!(!others.iter().any(|text| read.matches(text.as_bytes())), "{pattern}");
        }
        for text in ["", "text", "/", "/html", "text/", "*/*", "text/*json", "text/*+", "te xt/html", "text/html; q=1"]
        {
            assert!(media_type_pattern(text).is_err(), "{text}");
        }
    }

    #[test]
    fn statuses_of_errors() {
        for (text, expected) in [
            ("404", Some(StatusPattern::Status(404))),
            ("599", Some(StatusPattern::Status(599))),
            ("4xx", Some(StatusPattern::Class(4))),
            ("5xx", Some(StatusPattern::Class(5))),
            ("399", None),
            ("600", None),
            ("3xx", None),
            ("+404", None),
            ("0404", None),
            ("5XX", None),
            ("", None),
        ] {
            assert_eq!(status_pattern(text).ok(), expected, "{text}");
        }
    }
}
