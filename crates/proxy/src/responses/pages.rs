//! Error pages: which one a client gets for a status, by what it accepts, and what is written into it.
//!
//! Nothing of a request gets into a page but its id, and that only escaped: a page that shows what was asked for shows what somebody else wrote.

use std::sync::Arc;

use config::{ErrorPagesConfig, StatusPattern};
use wire::http::RequestHead;
use wire::http::http1::reason_phrase;
use wire::http::quality::{FULL_WEIGHT, weighted};

/// Error pages under one name.
#[derive(Debug)]
pub struct ErrorPages {
    /// The name.
    pub name: Arc<str>,
    pages: Vec<Page>,
    intercept: Vec<StatusPattern>,
}

/// A page in the forms that it has.
#[derive(Debug)]
struct Page {
    statuses: StatusPattern,
    html: Option<Template>,
    text: Option<Template>,
}

/// What a client gets for an error.
#[derive(Debug, PartialEq, Eq)]
pub enum Chosen {
    /// This page, of this type.
    Page(Vec<u8>, &'static str),
    /// A problem document.
    Problem,
    /// A line of text.
    Line,
}

impl ErrorPages {
    /// Reads the files.
    ///
    /// # Errors
    /// Each that cannot be used, and why.
    pub fn load(config: &ErrorPagesConfig) -> Result<ErrorPages, Vec<String>> {
        let mut problems = Vec::new();
        let mut template = |path: &Option<std::path::PathBuf>| {
            let path = path.as_ref()?;
            let text = super::read(path).and_then(|content| {
                String::from_utf8(content).map_err(|_| format!("{}: is not UTF-8", path.display()))
            });
            let template = text
                .and_then(|text| Template::parse(&text).map_err(|problem| format!("{}: {problem}", path.display())));
            template.map_err(|problem| problems.push(format!("error_pages {}: {problem}", config.name))).ok()
        };
        let page = |page: &config::ErrorPageConfig| Page {
            statuses: page.statuses,
            html: template(&page.html),
            text: template(&page.text),
        };
        let pages = config.pages.iter().map(page).collect();
        match problems.is_empty() {
            true => Ok(ErrorPages { name: Arc::from(&*config.name), pages, intercept: config.intercept.clone() }),
            false => Err(problems),
        }
    }

    /// Whether a response of an upstream with this status is replaced.
    pub fn intercepts(&self, status: u16) -> bool {
        self.intercept.iter().any(|pattern| pattern.matches(status))
    }

    /// What a client gets for an error. `is_api`: it sent JSON, or broke a contract, so that a problem document is what it reads if it accepts anything.
    pub fn choose(&self, status: u16, head: &RequestHead, is_api: bool, request_id: &[u8]) -> Chosen {
        let of = |exact: bool| {
            self.pages.iter().find(|page| {
                matches!(page.statuses, StatusPattern::Status(_)) == exact && page.statuses.matches(status)
            })
        };
        let page = of(true).or_else(|| of(false));
        let (html, text) = (page.and_then(|page| page.html.as_ref()), page.and_then(|page| page.text.as_ref()));
        let json = accepted(head, "application/problem+json").max(accepted(head, "application/json"));
        let wants_html = html.map(|_| (accepted(head, "text/html"), Form::Html));
        // To accept anything is not to ask for JSON.
        let wants_json = Some((json, Form::Json)).filter(|((_, closeness), _)| is_api || *closeness > ANYTHING);
        let wants_text = Some((accepted(head, "text/plain"), Form::Text));
        let mut forms = [wants_html, wants_json, wants_text];
        if is_api {
            forms.swap(0, 1);
        }
        // The first of those that are wanted most.
        let best = forms.into_iter().flatten().rev().max_by_key(|(wanted, _)| *wanted);
        match (best, html, text) {
            (Some(((1.., _), Form::Html)), Some(html), _) => {
                Chosen::Page(html.render(status, request_id, true), "text/html; charset=utf-8")
            }
            (Some(((1.., _), Form::Json)), _, _) => Chosen::Problem,
            (_, _, Some(text)) => Chosen::Page(text.render(status, request_id, false), "text/plain; charset=utf-8"),
            _ => Chosen::Line,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Json,
    Text,
}

/// How closely `*/*` names a type.
const ANYTHING: u8 = 1;

/// The weight that a client gives to a media type, and how closely it names it: not at all, by `*/*`, by `type/*`, by itself (RFC 9110 §12.5.1).
fn accepted(head: &RequestHead, media_type: &str) -> (u16, u8) {
    let mut accepts = head.fields.get_all("accept").peekable();
    if accepts.peek().is_none() {
        return (FULL_WEIGHT, ANYTHING);
    }
    let kind = media_type.split('/').next().unwrap_or_default().as_bytes();
    let closeness = |range: &[u8]| match range {
        b"*/*" => ANYTHING,
        _ if range.eq_ignore_ascii_case(media_type.as_bytes()) => 3,
        _ if range.strip_suffix(b"/*").is_some_and(|range| range.eq_ignore_ascii_case(kind)) => 2,
        _ => 0,
    };
    let found = accepts.flat_map(weighted).map(|(range, weight)| (closeness(range), weight));
    let (closeness, weight) = found.filter(|(closeness, _)| *closeness > 0).max().unwrap_or_default();
    (weight, closeness)
}

/// The text of a page, with places in it.
#[derive(Debug)]
struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Status,
    Title,
    RequestId,
}

impl Template {
    /// Finds the places: a known name between `{{` and `}}`. Another name there is taken for a mistake; all else is text.
    fn parse(text: &str) -> Result<Template, String> {
        let (mut parts, mut rest, mut kept) = (Vec::new(), text, String::new());
        while let Some(at) = rest.find("{{") {
            let (before, behind) = rest.split_at(at);
            kept.push_str(before);
            let name = behind.get(2..).and_then(|behind| behind.split_once("}}")).map(|(name, _)| name);
            let is_name =
                |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            let Some(name) = name.filter(is_name) else {
                kept.push('{');
                rest = behind.get(1..).unwrap_or_default();
                continue;
            };
            let part = match name {
                "status" => Part::Status,
                "title" => Part::Title,
                "request_id" => Part::RequestId,
                _ => {
                    return Err(format!(
                        "`{{{{{name}}}}}` is not known; write `{{{{status}}}}`, `{{{{title}}}}` or `{{{{request_id}}}}`, or a space behind the braces for text"
                    ));
                }
            };
            if !kept.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut kept).into()));
            }
            parts.push(part);
            rest = behind.get(name.len() + 4..).unwrap_or_default();
        }
        kept.push_str(rest);
        parts.push(Part::Text(kept.into()));
        Ok(Template { parts })
    }

    fn render(&self, status: u16, request_id: &[u8], is_html: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Status => out.extend_from_slice(status.to_string().as_bytes()),
                Part::Title => out.extend_from_slice(reason_phrase(status).as_bytes()),
                Part::RequestId => escape(request_id, is_html, &mut out),
            }
        }
        out
    }
}

/// Appends a text that somebody else may have written: printable ASCII, and in HTML nothing that ends a text or an attribute.
fn escape(text: &[u8], is_html: bool, out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'&' if is_html => out.extend_from_slice(b"&amp;"),
            b'<' if is_html => out.extend_from_slice(b"&lt;"),
            b'>' if is_html => out.extend_from_slice(b"&gt;"),
            b'"' if is_html => out.extend_from_slice(b"&quot;"),
            b'\'' if is_html => out.extend_from_slice(b"&#39;"),
            b'`' if is_html => out.extend_from_slice(b"&#96;"),
            0x20..0x7f => out.push(byte),
            _ => out.push(b'?'),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn page(statuses: StatusPattern, html: Option<&str>, text: Option<&str>) -> Page {
        let template = |text: &str| Template::parse(text).unwrap();
        Page { statuses, html: html.map(template), text: text.map(template) }
    }

    #[test]
    fn the_form_is_what_the_client_accepts() {
        let pages = ErrorPages {
            name: "site".into(),
            pages: vec![
                page(StatusPattern::Class(5), Some("class {{status}}"), None),
                page(
                    StatusPattern::Status(503),
                    Some("<b>{{status}} {{title}}</b> {{request_id}}"),
                    Some("text {{status}}"),
                ),
                page(StatusPattern::Status(404), None, Some("lost")),
            ],
            intercept: vec![StatusPattern::Class(5)],
        };
        let html = |text: &str| Chosen::Page(text.into(), "text/html; charset=utf-8");
        let text = |text: &str| Chosen::Page(text.into(), "text/plain; charset=utf-8");
        let whole = || html("<b>503 Service Unavailable</b> &lt;i&gt;");
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        for (status, accept, is_api, expected) in [
            (503, Some(browser), false, whole()),
            (503, Some(browser), true, whole()),
            (503, Some("*/*"), false, whole()),
            (503, None, false, whole()),
            (503, Some("*/*"), true, Chosen::Problem),
            (503, None, true, Chosen::Problem),
            (503, Some("application/json, text/plain, */*"), false, Chosen::Problem),
            (503, Some("application/problem+json"), false, Chosen::Problem),
            (503, Some("application/*"), false, Chosen::Problem),
            (503, Some("application/json;q=0.5, text/html"), false, whole()),
            (503, Some("text/html;q=0, */*"), false, text("text 503")),
            (503, Some("text/plain"), false, text("text 503")),
            (503, Some("image/png"), false, text("text 503")),
            (502, Some(browser), false, html("class 502")),
            (502, Some("text/plain"), false, Chosen::Line),
            (404, Some(browser), false, text("lost")),
            (404, Some("application/json"), false, Chosen::Problem),
            (403, Some(browser), false, Chosen::Line),
        ] {
            let mut head = RequestHead::default();
            accept.iter().for_each(|accept| head.fields.push(b"accept", accept.as_bytes()));
            assert_eq!(pages.choose(status, &head, is_api, b"<i>"), expected, "{status} {accept:?} {is_api}");
        }
        assert!(pages.intercepts(502) && !pages.intercepts(404));
    }

    #[test]
    fn places_in_pages() {
        let parts = |text: &str| Template::parse(text).map(|template| template.parts);
        let text = |text: &str| Part::Text(text.into());
        assert_eq!(parts("a{{status}}b").unwrap(), [text("a"), Part::Status, text("b")]);
        assert_eq!(parts("{{{title}}}").unwrap(), [text("{"), Part::Title, text("}")]);
        for as_it_is in ["", "a { b } {{ status }} {{", "{{}}", "{{Status}}", "{{a.b}}", "}}{{\u{e9}}}"] {
            assert_eq!(parts(as_it_is).unwrap(), [text(as_it_is)], "{as_it_is}");
        }
        assert!(parts("{{request}}").unwrap_err().contains("`{{request}}` is not known"));
        let mut out = Vec::new();
        escape(b"\"<a href='x'>&`\r\n\xff", true, &mut out);
        assert_eq!(out, b"&quot;&lt;a href=&#39;x&#39;&gt;&amp;&#96;???");
    }
}
