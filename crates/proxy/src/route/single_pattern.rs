//! Whether one pattern takes a path, without the tree: for conditions on paths, which are few and stand behind the path of a route.

use std::borrow::Cow;

use config::{PathPattern, Segment};

use super::decoded_path;

/// Whether a pattern takes a path. What its parameters match is not kept, and each has something to match, as in the tree.
pub(super) fn takes(pattern: &PathPattern, path: &[u8]) -> bool {
    if let Some(expression) = pattern.expression() {
        let decoded = if expression.is_decoded() { decoded_path::decoded(path) } else { None };
        return expression.matches(&decoded.map_or(Cow::Borrowed(path), Cow::Owned));
    }
    let Some(mut rest) = path.strip_prefix(b"/").map(Some) else { return false };
    for segment in &pattern.segments {
        // There is one more slash than segments before the path ends.
        let Some(text) = rest else { return false };
        let end = memchr::memchr(b'/', text);
        let value = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        let is_taken = match segment {
            Segment::CatchAll { .. } => return true,
            Segment::Prefix { text: start, .. } => return text.starts_with(start.as_bytes()),
            Segment::Static(text) => value == text.as_bytes(),
            Segment::Param { prefix, .. } => value.strip_prefix(prefix.as_bytes()).is_some_and(|rest| !rest.is_empty()),
            Segment::Regex(_) => false,
        };
        if !is_taken {
            return false;
        }
        rest = end.and_then(|end| text.get(end + 1..));
    }
    rest.is_none()
}
