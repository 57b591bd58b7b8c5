//! Templates with parameters in them, written for one request: target and authority of a forwarded request, Location of a redirect.
//!
//! A parameter is a piece of the client's path, so this file is where a client could steer: each place escapes for itself, and the result is
//! checked as a whole where joining harmless pieces could make something else (a dot segment, another host).

use std::fmt;
use std::net::Ipv4Addr;

use config::{Escape, Forward, RedirectQuery, Template, TemplatePart, Variable};
use wire::http::RequestHead;
use wire::http::percent::{self, is_unreserved};
use wire::http::target::{canonical_authority, canonical_path, canonical_query};

use super::{Params, Values};

/// A parameter had a value its place does not allow (400).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadParameter;

impl fmt::Display for BadParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of the path cannot stand where the route puts it")
    }
}

impl std::error::Error for BadParameter {}

/// Appends the target of a forwarded request to `out`: the rewritten path, or the path as matched; then the query. `values` are asked for where there
/// is something to rewrite.
///
/// # Errors
/// A parameter whose value makes a dot segment where it is put, or that `render` rejects.
pub fn build_target<'v>(
    forward: &Forward,
    head: &RequestHead,
    values: impl FnOnce() -> Values<'v>,
    out: &mut Vec<u8>,
) -> Result<(), BadParameter> {
    let Some(rewrite) = &forward.rewrite else {
        out.extend_from_slice(&head.target);
        return Ok(());
    };
    let start = out.len();
    values().render(rewrite, out)?;
    let written = out.get(start..).unwrap_or_default();
    let path = split_query(written).0;
    // What has no value would take its segment away, where slashes are merged.
    let lacks_segment = holds_variables(rewrite) && memchr::memmem::find(path, b"//").is_some();
    if lacks_segment || has_dot_segment(path) {
        return Err(BadParameter);
    }
    let query = head.query();
    append_query(if forward.drops_empty_query && query == b"?" { b"" } else { query }, start, out);
    Ok(())
}

/// The query that is appended to a redirect. One that is empty goes on behind a path that does as well, as part of the same text.
fn query_behind<'q>(template: &Template, query: &'q [u8]) -> &'q [u8] {
    let is_path = matches!(template.parts.last(), Some(TemplatePart::Variable { variable: Variable::Path, .. }));
    if query == b"?" && !is_path { b"" } else { query }
}

/// Appends the authority of an upstream that is named by parameters to `out`, in canonical form.
///
/// # Errors
/// A parameter is not one host label, the whole is no authority, is not on the list (if there is one), or is a number that a resolver would
/// take for an IPv4 address though it is not written as one.
pub fn build_authority(
    authority: &Template,
    allow: &[String],
    head: &RequestHead,
    params: &Params,
    out: &mut Vec<u8>,
) -> Result<(), BadParameter> {
    let mut written = Vec::with_capacity(64);
    Values::of(head, params).render(authority, &mut written)?;
    let mut canonical = Vec::with_capacity(written.len());
    canonical_authority(&written, &mut canonical).map_err(|_| BadParameter)?;
    if !allow.is_empty() && !is_listed(&canonical, allow) || is_disguised_address(&canonical) {
        return Err(BadParameter);
    }
    out.extend_from_slice(&canonical);
    Ok(())
}

/// Appends the Location of a redirect to `out`. `allow`: what its authority may be, if not
/// empty.
///
/// # Errors
/// What `render` rejects, a host that is not allowed, and a value that makes `//host` of a template that begins with one slash.
pub fn build_location(
    to: &Template,
    allow: &[String],
    query: RedirectQuery,
    values: &Values<'_>,
    out: &mut Vec<u8>,
) -> Result<(), BadParameter> {
    let start = out.len();
    values.render(to, out)?;
    let written = out.get(start..).unwrap_or_default();
    let meant = matches!(to.parts.first(), Some(TemplatePart::Text(text)) if text.starts_with("//"));
    let is_moved = !is_text(to) && has_dot_segment(path_of(written));
    if (written.starts_with(b"//") && !meant) || is_moved {
        return Err(BadParameter);
    }
    if !allow.is_empty() {
        let after = memchr::memmem::find(written, b"//").and_then(|at| written.get(at + 2..)).unwrap_or_default();
        let authority = after.split(|byte| matches!(byte, b'/' | b'?')).next().unwrap_or_default();
        if !is_listed(authority, allow) {
            return Err(BadParameter);
        }
    }
    match query {
        RedirectQuery::Keep if written.contains(&b'?') => {}
        RedirectQuery::Keep | RedirectQuery::Append => {
            append_query(query_behind(to, values.head().query()), start, out)
        }
        RedirectQuery::Drop => {}
    }
    Ok(())
}

/// Whether nothing of the request stands in it.
fn is_text(template: &Template) -> bool {
    template.parts.iter().all(|part| matches!(part, TemplatePart::Text(_)))
}

/// Whether values of the request stand in it, which may be empty.
fn holds_variables(template: &Template) -> bool {
    template.parts.iter().any(|part| matches!(part, TemplatePart::Variable { .. }))
}

fn is_listed(authority: &[u8], allow: &[String]) -> bool {
    allow.iter().any(|allowed| authority.eq_ignore_ascii_case(allowed.as_bytes()))
}

/// Appends the client's query (with its `?`) to the target that begins at `start`: after `?`, or after `&` if the target has a query.
fn append_query(query: &[u8], start: usize, out: &mut Vec<u8>) {
    let written = out.get(start..).unwrap_or_default();
    if !written.contains(&b'?') {
        out.extend_from_slice(query);
        return;
    }
    let Some((_, pairs)) = query.split_first() else { return };
    if !pairs.is_empty() {
        if !written.ends_with(b"?") && !written.ends_with(b"&") {
            out.push(b'&');
        }
        out.extend_from_slice(pairs);
    }
}

/// Appends the value of one parameter to a target or an authority.
pub(super) fn write_param(value: &[u8], escape: Escape, out: &mut Vec<u8>) -> Result<(), BadParameter> {
    match escape {
        // A group of an expression may have cut an escape in two.
        Escape::Raw if !has_whole_escapes(value) => return Err(BadParameter),
        Escape::Raw => out.extend_from_slice(value),
        Escape::PathSegment => encode(value, out, |byte| is_unreserved(byte) || b"$&+=:@".contains(&byte)),
        Escape::Query => encode(value, out, is_unreserved),
        Escape::HostLabel => {
            if !is_host_label(value) {
                return Err(BadParameter);
            }
            out.extend(value.iter().map(u8::to_ascii_lowercase));
        }
        Escape::Host | Escape::Field | Escape::Json | Escape::Markup | Escape::Text => return Err(BadParameter),
    }
    Ok(())
}

/// Whether each `%` begins an escape.
fn has_whole_escapes(value: &[u8]) -> bool {
    memchr::memchr_iter(b'%', value).all(|at| {
        let digits = value.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// One label of letters, digits and inner hyphens (RFC 1123 §2.1). An escape is none of these, so the value need not be decoded.
fn is_host_label(value: &[u8]) -> bool {
    (1..=63).contains(&value.len())
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && !value.starts_with(b"-")
        && !value.ends_with(b"-")
}

/// Decodes `value`, which is canonical, and encodes everything but what `keep` says.
fn encode(value: &[u8], out: &mut Vec<u8>, keep: impl Fn(u8) -> bool) {
    let mut rest = value;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => (percent::decode(*high, *low).unwrap_or_default(), after),
            _ => (first, after),
        };
        if keep(byte) {
            out.push(byte);
        } else {
            percent::push(byte, out);
        }
        rest = after;
    }
}

/// What stands before the first `?`, and what after it.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    (target.get(..end).unwrap_or_default(), target.get(end + 1..).unwrap_or_default())
}

/// The path of a Location, which may begin with a scheme and a host.
fn path_of(location: &[u8]) -> &[u8] {
    let whole = split_query(location).0;
    let Some(at) = memchr::memmem::find(whole, b"//").filter(|at| *at == 0 || whole.get(at - 1) == Some(&b':')) else {
        return whole;
    };
    let after = whole.get(at + 2..).unwrap_or_default();
    after.get(memchr::memchr(b'/', after).unwrap_or(after.len())..).unwrap_or_default()
}

/// Whether putting pieces together made a segment `.` or `..`: `/a{x}` may match `/a..`, so a rewrite to `/{x}` could climb. What a dot segment
/// is, `wire` says; it is asked only where one can be.
fn has_dot_segment(path: &[u8]) -> bool {
    let after_slash = memchr::memmem::find(path, b"/.").is_some();
    let after_encoded_slash = path.contains(&b'%') && path.contains(&b'.');
    (after_slash || after_encoded_slash) && canonical_path(path, &mut Vec::with_capacity(path.len())).is_err()
}

/// Whether the host of a canonical authority ends in a number, so that resolvers may read it as an IPv4 address (`2130706433`, `0x7f.1`), but
/// is not four plain decimal numbers.
fn is_disguised_address(authority: &[u8]) -> bool {
    if authority.starts_with(b"[") {
        return false;
    }
    let host = authority.split(|byte| *byte == b':').next().unwrap_or_default();
    let host = host.strip_suffix(b".").unwrap_or(host);
    let last = host.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let number = last.iter().all(u8::is_ascii_digit)
        || last.strip_prefix(b"0x").is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    number && std::str::from_utf8(host).ok().and_then(|host| host.parse::<Ipv4Addr>().ok()).is_none()
}

/// What is wrong with a rewrite template, seen without a request.
pub(super) fn check_rewrite(template: &Template, params: usize) -> Option<String> {
    let Some(TemplatePart::Text(first)) = template.parts.first() else {
        return Some("the rewrite must begin with `/`".into());
    };
    if !first.starts_with('/') {
        return Some("the rewrite must begin with `/`".into());
    }
    check_parts(template, params).or_else(|| {
        let sample = render_sample(template);
        let (path, query) = split_query(&sample);
        let (mut canonical, mut canonical_rest) = (Vec::new(), Vec::new());
        match canonical_path(path, &mut canonical).and_then(|_| canonical_query(query, &mut canonical_rest)) {
            Ok(()) if canonical == path && canonical_rest == query => None,
            Ok(()) => Some("the rewrite is not a path with a query in canonical form".into()),
            Err(error) => {
                Some(format!("the rewrite is not a path with a query ({})", error.reason.code().replace('_', " ")))
            }
        }
    })
}

/// What is wrong with the template of an upstream's authority, seen without a request.
pub(super) fn check_authority(template: &Template, params: usize) -> Option<String> {
    check_parts(template, params).or_else(|| {
        let sample = render_sample(template);
        canonical_authority(&sample, &mut Vec::new())
            .err()
            .map(|_| format!("`{}` is not `host` or `host:port`", String::from_utf8_lossy(&sample)))
    })
}

/// The template with `1` for every parameter: valid as a label, a port and a piece of a path.
fn render_sample(template: &Template) -> Vec<u8> {
    let parts = template.parts.iter().map(|part| match part {
        TemplatePart::Text(text) => text.as_bytes(),
        TemplatePart::Variable { variable: Variable::Path, .. } => b"/1",
        TemplatePart::Param { .. } | TemplatePart::Variable { .. } => b"1",
    });
    parts.collect::<Vec<_>>().concat()
}

/// What is wrong with the template of a Location, seen without a request.
pub(super) fn check_location(template: &Template, params: usize) -> Option<String> {
    let first = match template.parts.first() {
        Some(TemplatePart::Text(first)) => first.as_str(),
        _ => "",
    };
    let after_scheme = first.strip_prefix("https://").or_else(|| first.strip_prefix("http://"));
    if let Some(host) = after_scheme.or_else(|| first.strip_prefix("//")) {
        let mut host_ends = host.contains(['/', '?']);
        for part in template.parts.iter().skip(1) {
            match part {
                _ if host_ends => break,
                TemplatePart::Text(text) => host_ends = text.contains(['/', '?']),
                TemplatePart::Param { escape: Escape::HostLabel, .. } => {}
                TemplatePart::Variable { escape: Escape::Host, .. } => {}
                TemplatePart::Variable { variable: Variable::Path, .. } => host_ends = true,
                TemplatePart::Param { .. } | TemplatePart::Variable { .. } => {
                    return Some("a parameter would become part of the redirect's host; put a `/` before it".into());
                }
            }
        }
    } else if !first.starts_with('/') {
        return Some("the redirect must begin with `/`, `http://` or `https://`".into());
    }
    check_parts(template, params)
}

/// Literals that are valid pieces of a URI, and parameters that exist.
fn check_parts(template: &Template, params: usize) -> Option<String> {
    template.parts.iter().find_map(|part| match part {
        TemplatePart::Param { index, .. } if *index >= params => {
            Some(format!("the template uses parameter {index}, but the path has only {params}"))
        }
        TemplatePart::Param { .. } | TemplatePart::Variable { .. } => None,
        TemplatePart::Text(text) => (!is_uri_text(text.as_bytes()))
            .then(|| format!("`{}` is not valid in a URL; percent-encode it", text.escape_debug())),
    })
}

/// Visible ASCII without backslash: cannot end the line it is written into, nor be taken for a slash.
fn is_uri_text(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\')
}
