//! Path patterns and the templates that use their parameters.
//!
//! `/api/{version}/{*rest}` to a [`PathPattern`]; `/v2/{rest}?v={version}` and `https://{tenant}.example.com/{rest}` to a [`Template`] whose
//! parameters are escaped by where they stand. Literal text is brought to the canonical form of RFC 3986 §6.2 that requests are matched in.

use wire::http::target::{canonical_authority, canonical_path, canonical_query};

use super::Fault;
use super::conditions::expression;
use super::placeholders::{Placeholder, Scope, placeholder};
use crate::expression::{Comparison, Expression};
use crate::model::{Escape, PathPattern, Segment, Template, TemplatePart, Variable};
use crate::problem::shown;

/// Parameters of one pattern; `route::Params` holds no more.
const MAX_PARAMETERS: usize = 16;

/// Reads a path pattern.
pub(super) fn path_pattern(text: &str) -> Result<PathPattern, Fault> {
    let Some(rest) = text.strip_prefix('/') else {
        return Err(Fault::new(format!("the path {} does not start with `/`", shown(text)), pattern_fix(text)));
    };
    if text.contains(['?', '#']) {
        let what = format!("the path {} holds a `?` or `#`", shown(text));
        return Err(Fault::new(what, "match the path only; a query is not part of it"));
    }
    let parts: Vec<&str> = rest.split('/').collect();
    let mut segments = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        segments.push(segment(part, at + 1 == parts.len())?);
    }
    let pattern = PathPattern { text: text.to_owned(), segments };
    let names = parameter_names(&pattern);
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names.iter().take(*at).any(|other| other == *name))
    {
        return Err(Fault::new(
            format!("the path has two parameters called {}", shown(twice.1)),
            "give each its own name",
        ));
    }
    if names.len() > MAX_PARAMETERS {
        let what = format!("the path has {} parameters", names.len());
        return Err(Fault::new(
            what,
            format!("use at most {MAX_PARAMETERS}; a catch-all `{{*rest}}` can take several segments"),
        ));
    }
    Ok(pattern)
}

/// Reads a path by regular expression: what is literal at its start, segment by segment, and the expression over the whole of it.
pub(super) fn path_expression(text: &str, except: &[Expression], is_decoded: bool) -> Result<PathPattern, Fault> {
    let expression = expression(text)?.except(except);
    let expression = if is_decoded { expression.decoded() } else { expression };
    let mut paths = if is_decoded { Comparison::of_decoded_paths() } else { Comparison::of_paths() };
    if expression.a_match(&mut paths).is_none() {
        let what = format!("no path matches {}", shown(text));
        let fix = match except {
            [] if is_decoded => "begin it with `/`; paths are compared without the query",
            [] => "begin it with `/`; paths are compared percent-encoded, without the query",
            _ => "begin it with `/`, and leave something of it outside of `except`",
        };
        return Err(Fault::new(what, fix));
    }
    if expression.groups().len() > MAX_PARAMETERS {
        let what = format!("the expression has {} groups", expression.groups().len());
        return Err(Fault::new(what, format!("use at most {MAX_PARAMETERS}; `(?:...)` groups without a parameter")));
    }
    let start = match is_decoded {
        true => encoded(expression.literal_start()),
        false => String::from_utf8_lossy(expression.literal_start()).into_owned(),
    };
    let whole = start.strip_prefix('/').and_then(|start| start.rsplit_once('/')).map(|(whole, _)| whole);
    if let Some(whole) = whole.filter(|whole| canonical(whole, "a path").as_deref() != Ok(*whole)) {
        let what = format!("no path matches {}: {} is not in canonical form", shown(text), shown(whole));
        return Err(Fault::new(what, path_fix(whole)));
    }
    let literal = whole.into_iter().flat_map(|whole| whole.split('/')).map(|name| Segment::Static(name.to_owned()));
    let mut segments: Vec<Segment> = literal.collect();
    segments.push(Segment::Regex(expression));
    Ok(PathPattern { text: format!("~{text}"), segments })
}

/// Reads the start of paths.
pub(super) fn path_prefix(text: &str) -> Result<PathPattern, Fault> {
    let Some(rest) = text.strip_prefix('/') else {
        return Err(Fault::new(format!("the prefix {} does not start with `/`", shown(text)), "write `/` before it"));
    };
    if text.contains(['?', '#', '{', '}']) {
        let what = format!("the prefix {} holds a `?`, `#` or brace", shown(text));
        return Err(Fault::new(what, "write text alone: a prefix has no parameters, and a query is no part of a path"));
    }
    // What follows may make more than dots of the last segment.
    let whole = match canonical(&format!("{rest}x"), "the prefix") {
        Ok(whole) => whole.strip_suffix('x').unwrap_or_default().to_owned(),
        Err(fault) => return Err(canonical(rest, "the prefix").err().unwrap_or(fault)),
    };
    let mut parts: Vec<&str> = whole.split('/').collect();
    let last = parts.pop().unwrap_or_default().to_owned();
    let mut segments: Vec<Segment> = parts.into_iter().map(|part| Segment::Static(part.to_owned())).collect();
    segments.push(Segment::Prefix { text: last, name: "rest".to_owned() });
    Ok(PathPattern { text: format!("{text}*"), segments })
}

/// A piece of a decoded path in canonical form.
fn encoded(piece: &[u8]) -> String {
    let mut out = String::with_capacity(piece.len());
    for byte in piece {
        match char::from(*byte) {
            c if c != '%' && c.is_ascii() && encode_in_path(c).len() == 1 => out.push(c),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// How a path that is no pattern could be written. What is suggested is a pattern.
fn pattern_fix(text: &str) -> String {
    let text = text.trim_start_matches(['~', '*', '^', ' ']);
    let text = text.strip_suffix('$').unwrap_or(text);
    let rest = ["(.*)", ".*", "(.+)", ".+", "**", "*"].iter().find_map(|rest| text.strip_suffix(rest));
    let text = rest.map_or_else(|| text.to_owned(), |start| format!("{}/{{*rest}}", start.trim_end_matches('/')));
    let native = if text.starts_with('/') { text } else { format!("/{text}") };
    // Tried before it is said: `*` and the like in the middle have no such form.
    let start = native.strip_suffix("/{*rest}").unwrap_or(&native);
    if !start.contains(['^', '$', '(', ')', '*', '\\', '+', '|']) && path_pattern(&native).is_ok() {
        return format!("write {}", shown(&native));
    }
    "write `{name}` for one segment and `{*rest}` for all that follow; a regular expression is written `{ regex: ... }`"
        .to_owned()
}

/// The parameters of a pattern, in path order.
pub(crate) fn parameter_names(pattern: &PathPattern) -> Vec<&str> {
    pattern.parameters().collect()
}

fn segment(part: &str, is_last: bool) -> Result<Segment, Fault> {
    let Some((prefix, parameter)) = part.split_once('{') else {
        return static_segment(part, is_last);
    };
    let fault = |what: &str, fix: &str| Fault::new(format!("the segment {} {what}", shown(part)), fix);
    let Some(name) = parameter.strip_suffix('}') else {
        return Err(if parameter.contains('}') {
            fault("goes on after its parameter", "end the segment with the parameter: `/v{number}/`")
        } else {
            fault("has a `{` without `}`", "write a parameter as `{name}`")
        });
    };
    if let Some(name) = name.strip_prefix('*') {
        if !prefix.is_empty() {
            return Err(fault(
                "has text before a catch-all",
                "give the catch-all a segment of its own: `/files/{*rest}`",
            ));
        }
        if !is_last {
            return Err(fault(
                "is a catch-all but not the last",
                "move it to the end, or use `{name}` for one segment",
            ));
        }
        return Ok(Segment::CatchAll { name: parameter_name(name)? });
    }
    let name = parameter_name(name)?;
    // The prefix alone may be `.`, which together with a parameter is no dot segment.
    let prefix = canonical(&format!("{prefix}x"), "the path")?.strip_suffix('x').unwrap_or_default().to_owned();
    Ok(Segment::Param { prefix, name })
}

fn static_segment(part: &str, is_last: bool) -> Result<Segment, Fault> {
    if part.contains('}') {
        return Err(Fault::new(
            format!("the segment {} has a `}}` without `{{`", shown(part)),
            "write a parameter as `{name}`",
        ));
    }
    // Other programs' syntax would be a literal here and silently match nothing.
    let is_regex = [".*", ".+", "(.", "[^"].iter().any(|regex| part.contains(regex)) || part.starts_with('^');
    let name = part.strip_prefix([':', '*']).filter(|_| part != ":");
    if is_regex || name.is_some() {
        let is_many = is_regex || part.starts_with('*');
        let name = name.map(|name| name.trim_matches('*')).filter(|name| parameter_name(name).is_ok());
        let native = match (is_many && is_last, name) {
            (true, name) => format!("{{*{}}}", name.unwrap_or("rest")),
            (false, name) => format!("{{{}}}", name.unwrap_or("name")),
        };
        return Err(Fault::new(
            format!("the segment {} is not written as parameters are here", shown(part)),
            format!("write {}", shown(&native)),
        ));
    }
    canonical(part, "the path").map(Segment::Static)
}

fn parameter_name(name: &str) -> Result<String, Fault> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(name.to_owned());
    }
    Err(Fault::new(
        format!("{} cannot be the name of a parameter", shown(name)),
        "use up to 32 letters, digits and `_`, a letter first",
    ))
}

/// The canonical form of a piece of a path without its first slash; `owner` is what it belongs to.
fn canonical(piece: &str, owner: &str) -> Result<String, Fault> {
    // A pattern of another kind is more likely to be meant than a path with such characters in it.
    if piece.contains(|c: char| c > ' ' && c != '\\' && encode_in_path(c).starts_with('%') && c != '%') {
        return Err(Fault::new(format!("{owner} cannot hold {} (bad path byte)", shown(piece)), path_fix(piece)));
    }
    let mut out = Vec::new();
    match canonical_path(format!("/{piece}").as_bytes(), &mut out) {
        Ok(false) => {
            let text = String::from_utf8(out).unwrap_or_default();
            Ok(text.strip_prefix('/').unwrap_or_default().to_owned())
        }
        Ok(true) => Err(Fault::new(
            format!("{owner} has an encoded slash in {}", shown(piece)),
            "an encoded slash can only be part of a parameter (`allow_encoded_slash: true`)",
        )),
        Err(error) => {
            let reason = error.reason.code().replace('_', " ");
            Err(Fault::new(format!("{owner} cannot hold {} ({reason})", shown(piece)), path_fix(piece)))
        }
    }
}

fn path_fix(piece: &str) -> String {
    let is_dots = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if piece.split('/').any(is_dots) {
        return "leave out `.` and `..`; also beside a parameter a segment needs more than dots".to_owned();
    }
    if piece.contains('\\') {
        return "write `/`; a backslash is rejected in every form".to_owned();
    }
    let encoded: String = piece.chars().map(encode_in_path).collect();
    if encoded != piece && canonical_path(format!("/{encoded}").as_bytes(), &mut Vec::new()).is_ok() {
        return format!("percent-encode it: {}", shown(&encoded));
    }
    "use letters, digits and the punctuation of RFC 3986 paths; percent-encode everything else".to_owned()
}

/// A character as it may stand in a path (RFC 3986 §3.3), `%` and `/` as they are.
fn encode_in_path(c: char) -> String {
    if c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/%".contains(c) {
        return c.to_string();
    }
    let mut bytes = [0; 4];
    c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A target that a template describes, cut where escaping changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// `https` rather than `http`; none if it is a path only.
    pub(super) tls: Option<bool>,
    /// `host[:port]`; empty if it is a path only.
    pub(super) authority: &'a str,
    /// From the first `/` on; empty if there is none.
    pub(super) path: &'a str,
    /// After `?`.
    pub(super) query: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Cuts `https://host/path?query` or `/path?query`.
    pub(super) fn cut(text: &'a str) -> Result<Target<'a>, Fault> {
        if text.contains('#') {
            return Err(Fault::new(
                format!("{} holds a `#`", shown(text)),
                "leave out the fragment; browsers keep their own",
            ));
        }
        let (before, query) = match text.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (text, None),
        };
        let (tls, rest) = match (before.strip_prefix("https://"), before.strip_prefix("http://")) {
            (Some(rest), _) => (Some(true), rest),
            (None, Some(rest)) => (Some(false), rest),
            (None, None) if before.starts_with('/') => (None, before),
            (None, None) => {
                let what = format!("{} starts with neither `/` nor `https://` nor `http://`", shown(text));
                return Err(Fault::new(what, "write a path from `/` on, or a whole URL"));
            }
        };
        // The path of the request begins with a slash, too.
        let path = [rest.find('/'), rest.find("{path}")].into_iter().flatten().min();
        let split = if tls.is_some() { path.unwrap_or(rest.len()) } else { 0 };
        let (authority, path) = rest.split_at_checked(split).unwrap_or((rest, ""));
        Ok(Target { tls, authority, path, query })
    }

    /// Cuts `/path?query`, for places where the server is known already.
    pub(super) fn cut_path(text: &'a str) -> Result<Target<'a>, Fault> {
        if text.contains("://") {
            return Err(Fault::new(format!("{} is a whole URL", shown(text)), "write the path alone, from `/` on"));
        }
        if !text.starts_with('/') {
            let what = format!("the path {} does not start with `/`", shown(text));
            return Err(Fault::new(what, format!("write {}", shown(&format!("/{text}")))));
        }
        Target::cut(text)
    }

    /// The path and query as a template.
    pub(super) fn path_template(&self, scope: Scope<'_>) -> Result<Template, Fault> {
        let mut parts = path_parts(self.path, scope)?;
        if let Some(query) = self.query {
            parts.push(TemplatePart::Text("?".to_owned()));
            parts.extend(query_parts(query, scope)?);
        }
        Ok(Template { parts: joined(parts) })
    }

    /// The same where an upstream is asked, to whom the query of the request goes anyhow.
    pub(super) fn upstream_template(&self, scope: Scope<'_>) -> Result<Template, Fault> {
        let template = self.path_template(scope)?;
        let is_pairs = |part: &TemplatePart| {
            matches!(part, TemplatePart::Variable { variable: Variable::WholeQuery, escape: Escape::Raw })
        };
        if template.parts.iter().any(is_pairs) {
            let what = "`{query}` would send the query of the request twice";
            return Err(Fault::new(what, "leave it out; the query is appended by itself"));
        }
        Ok(template)
    }

    /// The authority as a template.
    pub(super) fn authority_template(&self, scope: Scope<'_>) -> Result<Template, Fault> {
        authority_parts(self.authority, scope).map(|parts| Template { parts: joined(parts) })
    }

    /// All of it as a template, scheme included if there is one.
    pub(super) fn whole_template(&self, scope: Scope<'_>) -> Result<Template, Fault> {
        let mut parts = Vec::new();
        if let Some(tls) = self.tls {
            parts.push(TemplatePart::Text(if tls { "https://" } else { "http://" }.to_owned()));
            parts.extend(authority_parts(self.authority, scope)?);
        }
        parts.extend(self.path_template(scope)?.parts);
        Ok(Template { parts: joined(parts) })
    }
}

impl Template {
    /// Whether a parameter stands in it.
    pub(super) fn has_parameters(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, TemplatePart::Param { .. }))
    }

    /// Whether `text` can come out of this template of an authority, its parameters being host labels.
    pub fn can_become(&self, text: &str) -> bool {
        can_become(&self.parts, text)
    }
}

fn can_become(parts: &[TemplatePart], text: &str) -> bool {
    match parts.split_first() {
        None => text.is_empty(),
        Some((TemplatePart::Text(literal), rest)) => {
            text.strip_prefix(literal.as_str()).is_some_and(|after| can_become(rest, after))
        }
        Some((TemplatePart::Param { .. } | TemplatePart::Variable { .. }, rest)) => {
            let label = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
            (1..=label).any(|end| text.get(end..).is_some_and(|after| can_become(rest, after)))
        }
    }
}

/// A piece of template text.
enum Piece<'a> {
    Text(&'a str),
    Param(usize),
    Variable(Variable),
}

/// Cuts text at its parameters and finds their indices.
fn pieces<'a>(text: &'a str, scope: Scope<'_>) -> Result<Vec<Piece<'a>>, Fault> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            return Err(Fault::new(
                format!("{} has a `{{` without `}}`", shown(text)),
                "write a parameter as `{name}`",
            ));
        };
        out.push(Piece::Text(before));
        out.push(match placeholder(name, scope)? {
            Placeholder::Parameter(index) => Piece::Param(index),
            Placeholder::Variable(variable) => Piece::Variable(variable),
            Placeholder::Nothing => Piece::Text(""),
        });
        rest = after;
    }
    out.push(Piece::Text(rest));
    if out.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains('}'))) {
        return Err(Fault::new(format!("{} has a `}}` without `{{`", shown(text)), "write a parameter as `{name}`"));
    }
    out.retain(|piece| !matches!(piece, Piece::Text("")));
    Ok(out)
}

fn path_parts(text: &str, scope: Scope<'_>) -> Result<Vec<TemplatePart>, Fault> {
    let is_doubled = |before: &Piece<'_>, after: &Piece<'_>| {
        matches!(before, Piece::Text(text) if text.ends_with('/')) && matches!(after, Piece::Variable(Variable::Path))
    };
    let pieces = pieces(text, scope)?;
    if pieces.iter().zip(pieces.iter().skip(1)).any(|(before, after)| is_doubled(before, after)) {
        let native = text.replace("/{path}", "{path}");
        return Err(Fault::new("`{path}` begins with a slash itself", format!("write {}", shown(&native))));
    }
    pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Param(index) => Ok(TemplatePart::Param { index, escape: Escape::Raw }),
            Piece::Variable(variable @ Variable::Path) => Ok(TemplatePart::Variable { variable, escape: Escape::Raw }),
            Piece::Variable(Variable::Uri | Variable::Url | Variable::WholeQuery) => {
                let what = format!("{} has the query of the request in its path", shown(text));
                Err(Fault::new(what, "write `{path}`; the query of the request is appended by itself"))
            }
            Piece::Variable(variable) => Ok(TemplatePart::Variable { variable, escape: Escape::PathSegment }),
            // Each literal alone: one that is only dots beside a parameter could become a dot segment.
            Piece::Text(text) => {
                let (slash, rest) = match text.strip_prefix('/') {
                    Some(rest) => ("/", rest),
                    None => ("", text),
                };
                Ok(TemplatePart::Text(format!("{slash}{}", canonical(rest, "the template")?)))
            }
        })
        .collect()
}

fn query_parts(text: &str, scope: Scope<'_>) -> Result<Vec<TemplatePart>, Fault> {
    let pieces = pieces(text, scope)?;
    let begins = |at: usize| match at.checked_sub(1).and_then(|at| pieces.get(at)) {
        None => true,
        Some(before) => matches!(before, Piece::Text(text) if text.ends_with('&')),
    };
    let ends = |at: usize| match pieces.get(at + 1) {
        None => true,
        Some(after) => matches!(after, Piece::Text(text) if text.starts_with('&')),
    };
    // Where it is pairs among others it stays pairs; where it is a value, or part of one, that is all it is.
    let is_pairs: Vec<bool> = (0..pieces.len()).map(|at| begins(at) && ends(at)).collect();
    pieces
        .into_iter()
        .zip(is_pairs)
        .map(|(piece, is_pairs)| match piece {
            Piece::Variable(variable @ Variable::WholeQuery) if is_pairs => {
                Ok(TemplatePart::Variable { variable, escape: Escape::Raw })
            }
            Piece::Param(index) => Ok(TemplatePart::Param { index, escape: Escape::Query }),
            Piece::Variable(variable) => Ok(TemplatePart::Variable { variable, escape: Escape::Query }),
            Piece::Text(text) => match query_text(text) {
                Some(text) => Ok(TemplatePart::Text(text)),
                None => Err(Fault::new(
                    format!("the query cannot hold {}", shown(text)),
                    "percent-encode what is not a letter, digit or query punctuation",
                )),
            },
        })
        .collect()
}

/// The canonical form of a piece of a query, if it is one.
fn query_text(text: &str) -> Option<String> {
    let mut out = Vec::new();
    canonical_query(text.as_bytes(), &mut out).ok()?;
    String::from_utf8(out).ok()
}

fn authority_parts(text: &str, scope: Scope<'_>) -> Result<Vec<TemplatePart>, Fault> {
    let parts: Vec<TemplatePart> = pieces(text, scope)?
        .into_iter()
        .map(|piece| match piece {
            Piece::Param(index) => Ok(TemplatePart::Param { index, escape: Escape::HostLabel }),
            Piece::Variable(variable @ (Variable::Host | Variable::Authority)) => {
                Ok(TemplatePart::Variable { variable, escape: Escape::Host })
            }
            Piece::Variable(_) => Err(Fault::new(
                format!("{} holds a variable from which no host is made", shown(text)),
                "use a parameter of the path, or `{host}` for that of the request",
            )),
            Piece::Text(text) => Ok(TemplatePart::Text(text.to_ascii_lowercase())),
        })
        .collect::<Result<_, Fault>>()?;
    let sample: String = parts
        .iter()
        .map(|part| match part {
            TemplatePart::Text(text) => text.as_str(),
            TemplatePart::Param { .. } | TemplatePart::Variable { .. } => "x",
        })
        .collect();
    match canonical_authority(sample.as_bytes(), &mut Vec::new()) {
        Ok(()) => Ok(parts),
        Err(_) => Err(Fault::new(
            format!("{} is not a host with an optional port", shown(text)),
            "write `host` or `host:port`; a parameter can be (part of) a label of the host, not the port",
        )),
    }
}

/// The parts with neighbouring literals made one.
fn joined(parts: Vec<TemplatePart>) -> Vec<TemplatePart> {
    let mut out: Vec<TemplatePart> = Vec::with_capacity(parts.len());
    for part in parts {
        match (out.last_mut(), part) {
            (Some(TemplatePart::Text(before)), TemplatePart::Text(text)) => before.push_str(&text),
            (_, part) => out.push(part),
        }
    }
    out
}
