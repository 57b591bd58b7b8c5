//! The `Route` array of a routes file: strings and parameter numbers that make the upstream's URL, turned into a [`Forward`].
//!
//! Where a parameter stands decides how it is written: as a path segment, as a query value, or as one host label.

use std::net::{IpAddr, SocketAddr};

use config::{Escape, ServerAddress, Template, TemplatePart};
use wire::http::target::canonical_authority;

/// One element of a `Route` array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Element {
    /// Literal text.
    Text(String),
    /// The parameter with this number.
    Param(usize),
}

/// The upstream's URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UpstreamUrl {
    /// https.
    pub(super) tls: bool,
    /// Who is asked.
    pub(super) authority: Authority,
    /// Path and query.
    pub(super) rewrite: Template,
    /// What an operator should know.
    pub(super) warnings: Vec<String>,
}

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Authority {
    /// Always the same server.
    Fixed {
        /// Where it is.
        address: ServerAddress,
        /// The same as `host-port`, for the name of a group.
        name: String,
    },
    /// A server named by parameters.
    Dynamic(Template),
}

/// Takes a `Route` array apart; `params` is how many parameters its path has. `allows_port`: a parameter may stand in the port, because an
/// allow-list says which authorities may come out.
///
/// # Errors
/// Every problem.
pub(super) fn read(elements: &[Element], params: usize, allows_port: bool) -> Result<UpstreamUrl, Vec<String>> {
    let mut problems: Vec<String> = elements
        .iter()
        .filter_map(|element| match element {
            Element::Param(index) if *index >= params => {
                Some(format!("uses parameter {index}, but the path has {params} (they are counted from 0)"))
            }
            _ => None,
        })
        .collect();
    let parts = join(elements);
    let (tls, rest) = match split_scheme(&parts) {
        Ok(split) => split,
        Err(problem) => {
            problems.push(problem);
            return Err(problems);
        }
    };
    let (authority, rest) = split_at(&rest, &['/', '?', '#']);
    let (target, fragment) = split_at(&rest, &['#']);
    let (path, query) = split_at(&target, &['?']);
    let mut warnings = Vec::new();
    if !fragment.is_empty() {
        warnings.push("the fragment (`#…`) never reaches an upstream and is left out".to_string());
    }
    let mut rewrite = vec![TemplatePart::Text(String::new())];
    if path.is_empty() {
        rewrite.push(TemplatePart::Text("/".to_string()));
    }
    for (part, escape) in escaped(&path, Escape::PathSegment).chain(escaped(&query, Escape::Query)) {
        match part {
            Element::Param(index) => rewrite.push(TemplatePart::Param { index: *index, escape }),
            Element::Text(text) => match encode_literal(text) {
                Ok(text) => rewrite.push(TemplatePart::Text(text)),
                Err(problem) => problems.push(problem),
            },
        }
    }
    match read_authority(&authority, tls, allows_port) {
        Ok(authority) if problems.is_empty() => {
            Ok(UpstreamUrl { tls, authority, rewrite: Template { parts: merge(rewrite) }, warnings })
        }
        Ok(_) => Err(problems),
        Err(problem) => {
            problems.push(problem);
            Err(problems)
        }
    }
}

fn escaped(parts: &[Element], escape: Escape) -> impl Iterator<Item = (&Element, Escape)> {
    parts.iter().map(move |part| (part, escape))
}

/// The elements in a row: each string loses one leading slash (that is how `"/.com/"` after a parameter yields `.com/`), neighbours are joined.
fn join(elements: &[Element]) -> Vec<Element> {
    let mut parts: Vec<Element> = Vec::new();
    for element in elements {
        match (element, parts.last_mut()) {
            (Element::Text(text), Some(Element::Text(before))) => {
                before.push_str(text.strip_prefix('/').unwrap_or(text))
            }
            (Element::Text(text), _) => parts.push(Element::Text(text.strip_prefix('/').unwrap_or(text).to_string())),
            (Element::Param(index), _) => parts.push(Element::Param(*index)),
        }
    }
    parts
}

/// Joins neighbouring texts and drops empty ones.
fn merge(parts: Vec<TemplatePart>) -> Vec<TemplatePart> {
    let mut merged: Vec<TemplatePart> = Vec::with_capacity(parts.len());
    for part in parts {
        match (part, merged.last_mut()) {
            (TemplatePart::Text(text), Some(TemplatePart::Text(before))) => before.push_str(&text),
            (part, _) => merged.push(part),
        }
    }
    merged
}

fn split_scheme(parts: &[Element]) -> Result<(bool, Vec<Element>), String> {
    let Some(Element::Text(first)) = parts.first() else {
        return Err("the URL must begin with `http://` or `https://`; a parameter cannot stand there".to_string());
    };
    let (scheme, rest) = first.split_once("://").unwrap_or((first, ""));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => {
            return Err(format!(
                "the URL must begin with `http://` or `https://`, not with `{}`",
                first.escape_debug()
            ));
        }
    };
    let rest = std::iter::once(Element::Text(rest.to_string())).chain(parts.iter().skip(1).cloned());
    Ok((tls, rest.collect()))
}

/// What stands before the first of `delimiters`, and from there on. Neither holds empty texts.
fn split_at(parts: &[Element], delimiters: &[char]) -> (Vec<Element>, Vec<Element>) {
    let mut before = Vec::new();
    let mut after = Vec::new();
    let mut found = false;
    let mut push = |found: bool, element: Element| {
        if element != Element::Text(String::new()) {
            if found { after.push(element) } else { before.push(element) }
        }
    };
    for part in parts {
        match part {
            Element::Text(text) if !found => {
                let (start, end) = text.split_at(text.find(delimiters).unwrap_or(text.len()));
                push(false, Element::Text(start.to_string()));
                found = !end.is_empty();
                push(found, Element::Text(end.to_string()));
            }
            part => push(found, part.clone()),
        }
    }
    (before, after)
}

/// Literal text of path or query as it may stand in a URL: escapes are kept (those of letters, digits and `-._~` decoded), what may
/// not stand there is encoded.
fn encode_literal(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let byte = wire::http::percent::decode(*high, *low).unwrap_or_default();
                // The canonical form, so that a dot segment cannot hide in it.
                if wire::http::percent::is_unreserved(byte) {
                    out.push(byte)
                } else {
                    wire::http::percent::push(byte, &mut out)
                }
                rest = after;
            }
            (b'%', _) => {
                return Err(format!("`{}` has a `%` without two hexadecimal digits; write `%25`", text.escape_debug()));
            }
            (byte, _) if byte.is_ascii_graphic() && !br#""<>\^`{|}[]"#.contains(byte) => out.push(*byte),
            (byte, _) => wire::http::percent::push(*byte, &mut out),
        }
    }
    String::from_utf8(out).map_err(|_| "the URL is not text".to_string())
}

fn read_authority(parts: &[Element], tls: bool, allows_port: bool) -> Result<Authority, String> {
    let text: String = parts
        .iter()
        .map(|part| match part {
            Element::Text(text) => text.as_str(),
            // One digit is a valid label and a valid port.
            Element::Param(_) => "1",
        })
        .collect();
    if text.contains('@') {
        return Err("the URL holds a user name; set an Authorization field in a native route instead".to_string());
    }
    let ascii = to_ascii(&text)?;
    let mut canonical = Vec::new();
    canonical_authority(ascii.as_bytes(), &mut canonical)
        .map_err(|_| format!("`{}` is not `host` or `host:port`", text.escape_debug()))?;
    if parts.iter().all(|part| matches!(part, Element::Text(_))) {
        return Ok(fixed(&String::from_utf8_lossy(&canonical), tls));
    }
    let mut in_port = false;
    for part in parts {
        match part {
            Element::Text(text) if !text.is_ascii() => {
                return Err(format!("`{}`: write the name in its ASCII form (`xn--…`)", text.escape_debug()));
            }
            Element::Text(text) => in_port |= text.contains(':'),
            Element::Param(_) if in_port && !allows_port => {
                return Err("a parameter in the port would let clients choose among all ports; list the upstreams meant with `-allow-host`".to_string());
            }
            Element::Param(_) => {}
        }
    }
    let parts = parts.iter().map(|part| match part {
        Element::Text(text) => TemplatePart::Text(text.to_ascii_lowercase()),
        Element::Param(index) => TemplatePart::Param { index: *index, escape: Escape::HostLabel },
    });
    Ok(Authority::Dynamic(Template { parts: parts.collect() }))
}

/// The authority with a name in other scripts in its ASCII form (RFC 5891).
fn to_ascii(authority: &str) -> Result<String, String> {
    if authority.is_ascii() {
        return Ok(authority.to_string());
    }
    let (host, port) = authority.split_at(authority.rfind(':').unwrap_or(authority.len()));
    let host = idna::domain_to_ascii(host).map_err(|_| format!("`{}` is not a host name", host.escape_debug()))?;
    Ok(host + port)
}

/// The server of a canonical authority.
fn fixed(authority: &str, tls: bool) -> Authority {
    let default_port = if tls { 443 } else { 80 };
    let after_literal = authority.rfind(']').map_or(0, |at| at + 1);
    let colon = authority.get(after_literal..).and_then(|rest| rest.find(':')).map(|at| at + after_literal);
    let (host, port) = match colon.and_then(|at| Some((authority.get(..at)?, authority.get(at + 1..)?))) {
        Some((host, port)) => (host, port.parse().unwrap_or(default_port)),
        None => (authority, default_port),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = match bare.parse::<IpAddr>() {
        Ok(ip) => ServerAddress::Ip(SocketAddr::new(ip, port)),
        Err(_) => ServerAddress::Name(host.to_string(), port),
    };
    Authority::Fixed { address, name: format!("{}-{port}", bare.replace(':', "_")) }
}
