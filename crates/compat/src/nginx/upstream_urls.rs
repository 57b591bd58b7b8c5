//! URLs and cookies of upstreams: `proxy_redirect`, `proxy_cookie_path`, `proxy_cookie_domain` and `proxy_cookie_flags`.
//!
//! What stands at the beginning of a URL or path is carried; expressions are a finding.

use super::scope::Scope;
use super::site::Making;
use super::syntax::Directive;
use super::values::Values;
use crate::header_fields::field_fits;
use crate::native::{Map, Value};

const EXPRESSION: &str = "beginnings are replaced, and no expressions";
const VARIABLE: &str = "what is replaced is a text, and holds no variable";
const SEGMENTS: &str = "whole segments are replaced: what goes on without a slash stays as it is";

/// Attributes of `proxy_cookie_flags`, or behind a path.
type Flags = Vec<(&'static str, &'static str)>;

impl Making<'_> {
    /// What becomes of URLs and cookies in responses of upstreams.
    pub(crate) fn upstream_urls(&self, scope: &Scope<'_>, values: &Values, edits: &mut Map, route: &mut Map) {
        let mut location = Vec::new();
        for directive in scope.all(&["proxy_redirect"]) {
            if matches!(directive.arg(0), "off" | "default") {
                continue;
            }
            match pair(directive, values, url_start, url_target) {
                Ok(pair) => {
                    self.note_segments(directive, route, directive.arg(0).split_once("://").is_none());
                    location.push(Value::from(pair));
                }
                Err(why) => route.comment(self.report.left_out(&directive.place, &directive.shown(), &why)),
            }
        }
        if !location.is_empty() {
            edits.set("rewrite_location", Value::List(location));
        }
        let cookies = self.cookie_rules(scope, values, route);
        if !cookies.is_empty() {
            edits.set("cookies", Value::List(cookies.into_iter().map(Value::from).collect()));
        }
    }

    fn note_segments(&self, directive: &Directive, route: &mut Map, is_path: bool) {
        if is_path && !directive.arg(0).ends_with('/') {
            route.comment(self.report.differs(&directive.place, &directive.shown(), SEGMENTS));
        }
    }

    fn cookie_rules(&self, scope: &Scope<'_>, values: &Values, route: &mut Map) -> Vec<Map> {
        let mut all = Map::default();
        let mut flags = Flags::new();
        for (name, key) in [("proxy_cookie_path", "path"), ("proxy_cookie_domain", "domain")] {
            let mut pairs = Vec::new();
            for directive in scope.all(&[name]).into_iter().filter(|one| one.arg(0) != "off") {
                let read = match key {
                    "path" => self.cookie_path(directive, values, &mut flags, route),
                    _ => pair(directive, values, domain, one_attribute),
                };
                match read {
                    Ok(pair) => pairs.push(Value::from(pair)),
                    Err(why) => route.comment(self.report.left_out(&directive.place, &directive.shown(), &why)),
                }
            }
            if !pairs.is_empty() {
                all.set(key, Value::List(pairs));
            }
        }
        let mut rules = Vec::new();
        let mut is_for_all = false;
        for directive in scope.all(&["proxy_cookie_flags"]).into_iter().filter(|one| one.arg(0) != "off") {
            let words = directive.args.iter().skip(1).map(|word| flag(word));
            let read: Option<Flags> = words.collect();
            let name = directive.arg(0);
            let why = match (&read, name) {
                (None, _) => Some("a flag that is not known"),
                (_, "~" | "~*") => None,
                (_, name) if name.starts_with('~') => Some("cookies are named, and no expressions"),
                (_, name) if name.contains('$') => Some("the name of a cookie is a text, and holds no variable"),
                (_, name) if field_fits(name, "").is_err() => Some("it is no name of a cookie"),
                _ => None,
            };
            let (Some(read), None) = (read, why) else {
                let why = why.unwrap_or(EXPRESSION);
                route.comment(self.report.left_out(&directive.place, &directive.shown(), why));
                continue;
            };
            // The first that fits a cookie counts for it, here as there.
            if !is_for_all && name.starts_with('~') {
                is_for_all = true;
                flags.retain(|(key, _)| !read.iter().any(|(other, _)| other == key));
                flags.extend(read);
            } else if !is_for_all {
                let mut rule = Map::of([("name", Value::text(name))]);
                merge(&mut rule, &all);
                read.iter().for_each(|(key, value)| rule.set(key, Value::plain(value)));
                rules.push(rule);
            }
        }
        flags.iter().for_each(|(key, value)| all.set(key, Value::plain(value)));
        if !all.is_empty() {
            rules.push(all);
        }
        rules
    }

    /// A path, behind which flags may stand: `/ "/; secure"`.
    fn cookie_path(
        &self,
        directive: &Directive,
        values: &Values,
        flags: &mut Flags,
        route: &mut Map,
    ) -> Result<Map, String> {
        let (path, behind) = directive.arg(1).split_once(';').unwrap_or((directive.arg(1), ""));
        let words = behind.split(';').map(str::trim).filter(|word| !word.is_empty());
        let read: Option<Flags> = words.map(|word| flag(&word.to_ascii_lowercase())).collect();
        let read = read.ok_or("an attribute that is not known")?;
        if !read.is_empty() && directive.arg(0) != "/" {
            return Err("flags of cookies whose path begins so".to_owned());
        }
        let alone = Directive { args: vec![directive.arg(0).to_owned(), path.trim().to_owned()], ..directive.clone() };
        let pair = pair(&alone, values, cookie_start, cookie_target)?;
        self.note_segments(directive, route, true);
        if !read.is_empty() {
            let how = "cookies without a path get the flags, too";
            route.comment(self.report.differs(&directive.place, &directive.shown(), how));
            flags.extend(read);
        }
        Ok(pair)
    }
}

fn merge(rule: &mut Map, all: &Map) {
    for key in ["path", "domain"] {
        if let Some(value) = all.get(key) {
            rule.set(key, value.clone());
        }
    }
}

/// A flag as a key and its value.
fn flag(word: &str) -> Option<(&'static str, &'static str)> {
    Some(match word {
        "secure" => ("secure", "true"),
        "nosecure" => ("secure", "false"),
        "httponly" => ("http_only", "true"),
        "nohttponly" => ("http_only", "false"),
        "samesite=strict" => ("same_site", "strict"),
        "samesite=lax" => ("same_site", "lax"),
        "samesite=none" => ("same_site", "none"),
        "nosamesite" => ("same_site", "remove"),
        _ => return None,
    })
}

/// `from` and `to` of a directive.
fn pair(
    directive: &Directive,
    values: &Values,
    from: impl Fn(&str) -> Option<String>,
    to: impl Fn(&str, &str) -> bool,
) -> Result<Map, String> {
    let (first, second) = (directive.arg(0), directive.arg(1));
    if first.starts_with('~') {
        return Err(EXPRESSION.to_owned());
    }
    let first = values.constant(first).ok_or(VARIABLE)?;
    let is_plain = first.bytes().all(|byte| byte.is_ascii_graphic() && !b"{};".contains(&byte));
    let replaced = from(&first).filter(|_| is_plain).ok_or("what is replaced is no beginning of a path or URL")?;
    field_fits("location", second)?;
    let by = values.field(second)?;
    if !to(&replaced, &by) {
        return Err("what comes in its place could lead elsewhere".to_owned());
    }
    Ok(Map::of([("from", Value::text(replaced)), ("to", Value::text(by))]))
}

fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://", "{scheme}://"].iter().find_map(|scheme| text.strip_prefix(scheme))
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.starts_with("//")
}

fn url_start(text: &str) -> Option<String> {
    (is_path(text) || after_scheme(text).is_some_and(|_| !text.starts_with('{'))).then(|| text.to_owned())
}

/// Whether what follows `from` stays what it is behind `to`.
fn url_target(from: &str, to: &str) -> bool {
    match (after_scheme(from), after_scheme(to)) {
        (Some(""), Some("")) => true,
        (Some(""), _) | (_, Some("")) => false,
        (from, Some(to)) => to.contains('/') || from.is_some_and(|from| !from.contains('/')),
        (_, None) => is_path(to),
    }
}

fn cookie_start(text: &str) -> Option<String> {
    text.starts_with('/').then(|| text.to_owned())
}

fn cookie_target(_: &str, to: &str) -> bool {
    to.starts_with('/')
}

fn domain(text: &str) -> Option<String> {
    let text = text.strip_prefix('.').unwrap_or(text);
    let is_host = crate::addresses::is_authority(text) && !text.contains([':', '[']);
    is_host.then(|| text.to_owned())
}

fn one_attribute(_: &str, to: &str) -> bool {
    !to.is_empty() && to != "none" && !to.contains(';')
}
