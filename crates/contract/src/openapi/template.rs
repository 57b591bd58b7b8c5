//! Path templates (OpenAPI 3.1.1 §4.8.2): parsing, canonical text, and what of a path each expression covers.
//!
//! A template matches canonical paths: its own text is brought into the same percent-encoded form. Does not choose among templates.

/// Most segments of a template.
const MAX_SEGMENTS: usize = 64;
/// Most expressions of a template; their places are kept without allocation.
pub const MAX_VALUES: usize = 16;

/// A piece of a segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Piece {
    /// Canonical text.
    Text(Vec<u8>),
    /// An expression, by its number in the template.
    Value(usize),
}

/// A template, split at its slashes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Template {
    /// Segments after the first slash; `/` has one, empty.
    pub(crate) segments: Vec<Vec<Piece>>,
    /// Names of the expressions, in order.
    pub(crate) names: Vec<String>,
}

/// Why a template cannot be used, in words that follow its text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Unusable {
    /// No path of a request is like that.
    Unreachable(String),
    /// It is not clear which paths it matches, or where their values are.
    Unclear(String),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Unusable::Unreachable(why) | Unusable::Unclear(why)) = self;
        f.write_str(why)
    }
}

fn unclear<T>(why: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable::Unclear(why.into()))
}

impl Template {
    /// Parses a template, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Template, Unusable> {
        if !text.starts_with('/') {
            return unclear("a path must start with `/`");
        }
        let mut template = Template { segments: Vec::new(), names: Vec::new() };
        let mut segment: Vec<Piece> = Vec::new();
        let mut rest = text.get(1..).unwrap_or_default();
        loop {
            let end = rest.find(['/', '{', '}', '?', '#']).unwrap_or(rest.len());
            let (plain, after) = rest.split_at(end);
            if !plain.is_empty() {
                segment.push(Piece::Text(canonical_text(plain)?));
            }
            let mut chars = after.chars();
            match chars.next() {
                Some('/') => template.segments.push(std::mem::take(&mut segment)),
                None => break,
                Some('{') => {
                    let unclosed = || Unusable::Unclear("a `{` is never closed".to_owned());
                    let (name, after) = chars.as_str().split_once('}').ok_or_else(unclosed)?;
                    template.add_value(name, &mut segment)?;
                    rest = after;
                    continue;
                }
                Some('}') => return unclear("a `}` without its `{`"),
                Some(c) => return Err(Unusable::Unreachable(format!("`{c}` is no part of a path"))),
            }
            rest = chars.as_str();
        }
        template.segments.push(segment);
        let is_dots = |segment: &Vec<Piece>| matches!(segment.as_slice(), [Piece::Text(text)] if matches!(text.as_slice(), b"." | b".."));
        if template.segments.iter().any(is_dots) {
            return Err(Unusable::Unreachable("dot segments never reach a path".to_owned()));
        }
        match template.segments.len() > MAX_SEGMENTS {
            true => Err(Unusable::Unreachable(format!("it has more than {MAX_SEGMENTS} segments"))),
            false => Ok(template),
        }
    }

    /// A template that matches every path which one that cannot be parsed may match: segments that are not clear match anything.
    pub(crate) fn loose(text: &str) -> Template {
        let segment = |text: &str| match Template::parse(&format!("/{text}")) {
            Ok(template) => template.segments.into_iter().next().unwrap_or_default(),
            Err(_) => vec![Piece::Value(0)],
        };
        let segments = text.split('/').skip(1).take(MAX_SEGMENTS).map(segment).collect();
        Template { segments, names: Vec::new() }
    }

    /// The template with its text decoded as often as it can be, as servers see it that decode paths before they match them; a second one where that gives
    /// slashes, which divide there.
    pub(crate) fn decoded(&self) -> Vec<Template> {
        let mut whole = self.clone();
        let mut divided = Template { segments: Vec::new(), names: self.names.clone() };
        for segment in &mut whole.segments {
            let mut rest: Vec<Piece> = Vec::new();
            for piece in segment {
                let Piece::Text(text) = piece else {
                    rest.push(piece.clone());
                    continue;
                };
                *text = decoded_text(text);
                for part in text.split_inclusive(|byte| *byte == b'/') {
                    let kept = part.strip_suffix(b"/").unwrap_or(part);
                    if !kept.is_empty() {
                        rest.push(Piece::Text(kept.to_vec()));
                    }
                    if kept.len() < part.len() {
                        divided.segments.push(std::mem::take(&mut rest));
                    }
                }
                *text = text
                    .iter()
                    .flat_map(|byte| if *byte == b'/' { &b"%2F"[..] } else { std::slice::from_ref(byte) })
                    .copied()
                    .collect();
            }
            divided.segments.push(rest);
        }
        if divided.segments.len() > whole.segments.len() { vec![whole, divided] } else { vec![whole] }
    }

    fn add_value(&mut self, name: &str, segment: &mut Vec<Piece>) -> Result<(), Unusable> {
        if name.is_empty() || name.contains(['{', '/', '?', '#']) {
            return unclear(format!("`{{{name}}}` is no template expression"));
        }
        if self.names.iter().any(|have| have == name) {
            return unclear(format!("`{{{name}}}` is here twice"));
        }
        if matches!(segment.last(), Some(Piece::Value(_))) {
            return unclear(format!(
                "`{{{name}}}` follows another expression without text between them, so neither has an end"
            ));
        }
        if self.names.len() == MAX_VALUES {
            return unclear(format!("more than {MAX_VALUES} expressions"));
        }
        segment.push(Piece::Value(self.names.len()));
        self.names.push(name.to_owned());
        Ok(())
    }

    /// The same template below a base path.
    pub(crate) fn below(&self, base: &Template) -> Template {
        let mut segments = base.segments.clone();
        if segments.last().is_some_and(Vec::is_empty) {
            segments.pop();
        }
        segments.extend(self.segments.iter().cloned());
        Template { segments, names: self.names.clone() }
    }
}

/// Where the values of the expressions stand in a path: byte ranges by number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PathValues {
    ranges: [(u32, u32); MAX_VALUES],
}

impl PathValues {
    /// The value of an expression, percent-encoded as in the path.
    pub fn get<'p>(&self, number: usize, path: &'p [u8]) -> &'p [u8] {
        let (start, end) = self.ranges.get(number).copied().unwrap_or_default();
        path.get(start as usize..end as usize).unwrap_or_default()
    }

    fn set(&mut self, number: usize, start: usize, end: usize) {
        if let Some(range) = self.ranges.get_mut(number) {
            *range = (start as u32, end as u32);
        }
    }
}

/// Whether the pieces cover `segment`, which starts at byte `start` of the path; notes the values. Each expression takes at least one byte, and of several the
/// first takes as much as it can, then the second: `{name}.{kind}` is split at the last dot, as servers do whose routes become regular expressions.
pub(crate) fn covers(pieces: &[Piece], segment: &[u8], start: usize, values: &mut PathValues) -> bool {
    let mut end = segment.len();
    for (index, piece) in pieces.iter().enumerate().rev() {
        let rest = segment.get(..end).unwrap_or_default();
        match piece {
            Piece::Text(text) => {
                if !rest.ends_with(text) {
                    return false;
                }
                end -= text.len();
            }
            Piece::Value(number) => {
                let Some(len) = value_len(pieces.get(..index).unwrap_or_default(), rest) else { return false };
                values.set(*number, start + end - len, start + end);
                end -= len;
            }
        }
    }
    end == 0
}

/// How much of the end of `rest` an expression takes that `before` precedes.
fn value_len(before: &[Piece], rest: &[u8]) -> Option<usize> {
    let len = match before {
        [] => rest.len(),
        // The first text of a segment stands at its start.
        [Piece::Text(text)] => rest.len().checked_sub(text.len())?,
        [.., Piece::Text(text)] => {
            let at = find_last(rest.get(..rest.len().checked_sub(1)?)?, text)?;
            rest.len().checked_sub(at + text.len())?
        }
        [.., Piece::Value(_)] => return None,
    };
    (len > 0).then_some(len)
}

fn find_last(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).rposition(|window| window == needle)
}

/// Text of a template in the form of canonical paths: unreserved characters as they are, escapes in upper case, anything that a path cannot hold
/// escaped.
fn canonical_text(text: &str) -> Result<Vec<u8>, Unusable> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped =
            text.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (value, was_escaped) = escaped.map_or((byte, false), |value| (value, true));
        at += if was_escaped { 3 } else { 1 };
        if value < 0x20 || value == 0x7f || value == b'\\' {
            return Err(Unusable::Unreachable("control characters and `\\` cannot be part of a path".to_owned()));
        }
        match is_unreserved(value) || (is_delimiter(value) && !was_escaped) {
            true => out.push(value),
            false => out.extend_from_slice(format!("%{value:02X}").as_bytes()),
        }
    }
    Ok(out)
}

/// Canonical text with the escapes decoded of what a path can hold as it is, and of slashes, however often they are escaped.
fn decoded_text(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some((&first, after)) = text.split_first() {
        text = after;
        if first != b'%' {
            out.push(first);
            continue;
        }
        while let Some(inner) = text.strip_prefix(b"25") {
            text = inner;
        }
        let octet = text.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        let octet = octet.inspect(|_| text = text.get(2..).unwrap_or_default()).unwrap_or(b'%');
        match is_unreserved(octet) || is_delimiter(octet) || octet == b'/' {
            true => out.push(octet),
            false => out.extend_from_slice(format!("%{octet:02X}").as_bytes()),
        }
    }
    out
}

fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"-._~".contains(&octet)
}

fn is_delimiter(octet: u8) -> bool {
    b"!$&'()*+,;=:@".contains(&octet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_parse_or_say_what_is_wrong() {
        let rows = [
            ("/", Ok(1)),
            ("/a/{x}", Ok(2)),
            ("/a/{x}.json", Ok(2)),
            ("/a/{x}-{y}/", Ok(3)),
            ("/größe/a b", Ok(2)),
            ("a", Err("start with")),
            ("/{x}/{x}", Err("twice")),
            ("/{x}{y}", Err("without text")),
            ("/{x", Err("never closed")),
            ("/x}", Err("without its")),
            ("/{}", Err("no template")),
            ("/a?b=c", Err("is no part of")),
            ("/a#b", Err("is no part of")),
            ("/../a", Err("dot segments")),
        ];
        for (text, expected) in rows {
            let parsed = Template::parse(text);
            match expected {
                Ok(segments) => assert_eq!(parsed.map(|t| t.segments.len()), Ok(segments), "{text}"),
                Err(part) => assert!(parsed.clone().is_err_and(|e| e.to_string().contains(part)), "{text} {parsed:?}"),
            }
        }
        let canonical = |text: &str| canonical_text(text).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(canonical("ö b%7e%2f:"), Ok("%C3%B6%20b~%2F:".to_owned()));
    }

    #[test]
    fn what_is_not_clear_matches_anything_it_may() {
        let rows = [("/a/{x}{y}/b.{z}", 3), ("/{a/b}/c", 3), ("/{x}/{x}", 2)];
        for (text, segments) in rows {
            let loose = Template::loose(text);
            assert_eq!(loose.segments.len(), segments, "{text}");
        }
        let loose = Template::loose("/a/{x}{y}/b.{z}");
        let is_any = |segment: &Vec<Piece>| matches!(segment.as_slice(), [Piece::Value(_)]);
        assert!(!is_any(&loose.segments[0]) && is_any(&loose.segments[1]) && !is_any(&loose.segments[2]));
    }

    #[test]
    fn pieces_cover_whole_segments() {
        let rows: [(&str, &str, Option<&[&str]>); 16] = [
            ("/{x}.json", "a.json", Some(&["a"])),
            ("/{x}.json", "a.b.json", Some(&["a.b"])),
            ("/{x}.json", ".json", None),
            ("/{x}.json", "a.xml", None),
            ("/{x}-{y}", "a-b-c", Some(&["a-b", "c"])),
            ("/{x}.{y}", "a.b.png", Some(&["a.b", "png"])),
            ("/{x}.{y}.{z}", "a.b.c.d", Some(&["a.b", "c", "d"])),
            ("/{x}-{y}.{z}", "x-y.z-w.v", Some(&["x-y.z", "w", "v"])),
            ("/{x}-{y}.{z}", "x-y.z.v-w", Some(&["x", "y.z", "v-w"])),
            ("/{x}.{y}", "a..", Some(&["a", "."])),
            ("/{x}.{y}", "..a", Some(&[".", "a"])),
            ("/v{x}.{y}w", "v1.2.3w", Some(&["1.2", "3"])),
            ("/{x}-{y}", "-b", None),
            ("/{x}..{y}", "1..2", Some(&["1", "2"])),
            ("/v{x}", "v1", Some(&["1"])),
            ("/v{x}", "v", None),
        ];
        for (template, segment, expected) in rows {
            let parsed = Template::parse(template).unwrap();
            let mut values = PathValues::default();
            let found = covers(&parsed.segments[0], segment.as_bytes(), 0, &mut values);
            let got: Vec<&str> = (0..parsed.names.len())
                .map(|number| std::str::from_utf8(values.get(number, segment.as_bytes())).unwrap())
                .collect();
            assert_eq!(found.then_some(got.as_slice()), expected, "{template} {segment}");
        }
    }
}
