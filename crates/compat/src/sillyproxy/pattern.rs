//! Path patterns as SillyProxy's router writes them: `:name` for one segment or its end, `*name` last for all that follows.

use config::{PathPattern, Segment};
use wire::http::target::canonical_path;

/// Reads a pattern. The text stands for a decoded path, so what cannot stand in a URL is encoded.
///
/// # Errors
/// The first problem.
pub(super) fn read(text: &str) -> Result<PathPattern, String> {
    let Some(rest) = text.strip_prefix('/') else { return Err("the path must begin with `/`".to_string()) };
    let pieces: Vec<&str> = rest.split('/').collect();
    let last = pieces.len() - 1;
    let segments = pieces.iter().enumerate().map(|(at, piece)| segment(piece, at == last));
    Ok(PathPattern { text: text.to_string(), segments: segments.collect::<Result<_, _>>()? })
}

fn segment(piece: &str, is_last: bool) -> Result<Segment, String> {
    let Some(at) = piece.find([':', '*']) else { return Ok(Segment::Static(encode(piece))) };
    let (prefix, wildcard) = piece.split_at(at);
    let mut name = wildcard.chars();
    let is_catch_all = name.next() == Some('*');
    let name = name.as_str();
    if name.is_empty() {
        return Err(format!("the wildcard in `{piece}` has no name"));
    }
    if name.contains([':', '*']) {
        return Err(format!("`{piece}` has two wildcards; one segment may have one"));
    }
    if !is_catch_all {
        return Ok(Segment::Param { prefix: encode(prefix), name: name.to_string() });
    }
    if !prefix.is_empty() {
        return Err(format!("`{piece}`: a `/` must stand before a `*`"));
    }
    if !is_last {
        return Err(format!("`{piece}`: a `*` must be the last part of the path"));
    }
    Ok(Segment::CatchAll { name: name.to_string() })
}

/// Decoded text as the canonical path has it (RFC 3986 §3.3).
fn encode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(byte);
        } else {
            wire::http::percent::push(byte, &mut out);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether no request can match, because every path with these literals is rejected before routing.
pub(super) fn is_unreachable(pattern: &PathPattern) -> bool {
    let sample = pattern.segments.iter().map(|segment| match segment {
        Segment::Static(text) => text.clone(),
        Segment::Param { prefix, .. } => format!("{prefix}x"),
        Segment::CatchAll { .. } | Segment::Regex(_) | Segment::Prefix { .. } => "x".to_string(),
    });
    let sample = format!("/{}", sample.collect::<Vec<_>>().join("/"));
    !matches!(canonical_path(sample.as_bytes(), &mut Vec::new()), Ok(false))
}
