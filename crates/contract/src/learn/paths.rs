//! Path templates: a tree of segments. Under each node the segments that look like identifiers become one expression; so do all of them where there are
//! too many. What follows them is merged.
//!
//! Identifiers are told by their form alone: integers, UUIDs, dates, and long texts of letters and digits.

use std::collections::BTreeMap;

use super::{Node, bound, number, object, text};
use crate::format::Format;
use crate::json::Text;

/// Different words under one node; more are values.
const MAX_WORDS: usize = 24;
/// Longest word, bytes.
const MAX_WORD_BYTES: usize = 64;
/// Shortest text of letters and digits that is taken for an identifier.
const MIN_OPAQUE_BYTES: usize = 16;
/// As the router of a contract has them.
const MAX_SEGMENTS: usize = 60;
const MAX_VALUES: usize = 16;
/// Different paths that are kept.
const MAX_PATHS: usize = 200_000;
/// Digits of a number that every reader has.
const MAX_DIGITS: usize = 18;

/// What a segment looks like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Look {
    Word,
    Integer,
    Uuid,
    Date,
    Opaque,
}

/// What is known of the values of an expression.
#[derive(Clone, Debug, Default)]
struct Values {
    count: usize,
    integers: usize,
    uuids: usize,
    dates: usize,
    longest: usize,
}

#[derive(Clone, Debug, Default)]
struct Branch {
    words: BTreeMap<String, Branch>,
    value: Option<Box<(Values, Branch)>>,
}

/// All paths that were seen.
#[derive(Debug, Default)]
pub(super) struct Paths {
    root: Branch,
    count: usize,
    assumptions: Vec<String>,
}

/// A template, with what its expressions hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Template {
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
enum Segment {
    Text(String),
    Value(String, Values),
}

impl Paths {
    /// Takes a canonical path.
    pub(super) fn add(&mut self, path: &str) -> Result<(), &'static str> {
        let Some(rest) = path.strip_prefix('/') else { return Err("the path does not begin with a slash") };
        let is_canonical = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte);
        if !rest.bytes().all(is_canonical) || rest.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("the path is not canonical");
        }
        if rest.split('/').count() > MAX_SEGMENTS {
            return Err("the path has too many segments");
        }
        if self.count == MAX_PATHS && !self.root.has(rest) {
            return Err("there are too many different paths");
        }
        self.count += usize::from(!self.root.has(rest));
        let mut branch = &mut self.root;
        for segment in rest.split('/') {
            branch = branch.words.entry(segment.to_owned()).or_default();
        }
        Ok(())
    }

    /// Makes expressions of what looks like values.
    pub(super) fn generalize(&mut self) {
        let mut above = Vec::new();
        self.root.generalize(&mut above, 0, &mut self.assumptions);
    }

    /// The template of a path.
    pub(super) fn find(&self, path: &str) -> Option<Template> {
        let mut template = Template::default();
        let mut branch = &self.root;
        for segment in path.strip_prefix('/')?.split('/') {
            if let Some(next) = branch.words.get(segment) {
                template.segments.push(Segment::Text(segment.to_owned()));
                branch = next;
                continue;
            }
            let (values, next) = branch.value.as_deref().filter(|_| !segment.is_empty())?;
            template.segments.push(Segment::Value(template.free_name(), values.clone()));
            branch = next;
        }
        Some(template)
    }

    /// What was taken for what.
    pub(super) fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}

impl Branch {
    fn has(&self, path: &str) -> bool {
        let mut branch = Some(self);
        for segment in path.split('/') {
            branch = branch.and_then(|branch| branch.words.get(segment));
        }
        branch.is_some()
    }

    fn generalize(&mut self, above: &mut Vec<String>, values: usize, assumptions: &mut Vec<String>) {
        if values < MAX_VALUES {
            let words = self.words.keys().filter(|segment| look(segment) == Look::Word && !segment.is_empty()).count();
            let is_crowded = words > MAX_WORDS;
            let is_value = |segment: &str| !segment.is_empty() && (is_crowded || look(segment) != Look::Word);
            let taken: Vec<String> = self.words.keys().filter(|segment| is_value(segment)).cloned().collect();
            if is_crowded {
                let place = above.concat();
                assumptions.push(format!("{words} different words under `{place}/` are values of one expression"));
            }
            for segment in taken {
                let Some(branch) = self.words.remove(&segment) else { continue };
                let (seen, merged) = &mut **self.value.get_or_insert_default();
                seen.take(&segment);
                merged.merge(branch);
            }
        }
        for (segment, branch) in &mut self.words {
            above.push(format!("/{segment}"));
            branch.generalize(above, values, assumptions);
            above.pop();
        }
        if let Some(value) = &mut self.value {
            above.push("/{}".to_owned());
            value.1.generalize(above, values + 1, assumptions);
            above.pop();
        }
    }

    /// Takes in what was seen below another segment. Both are as they were seen, without expressions.
    fn merge(&mut self, other: Branch) {
        for (segment, branch) in other.words {
            self.words.entry(segment).or_default().merge(branch);
        }
    }
}

impl Values {
    fn take(&mut self, segment: &str) {
        self.count += 1;
        self.longest = self.longest.max(segment.len());
        match look(segment) {
            Look::Integer => self.integers += 1,
            Look::Uuid => self.uuids += 1,
            Look::Date => self.dates += 1,
            Look::Word | Look::Opaque => {}
        }
    }

    fn schema(&self) -> Node {
        match self.count {
            count if count == self.integers => object([("type", text("integer"))]),
            count if count == self.uuids => object([("type", text("string")), ("format", text("uuid"))]),
            count if count == self.dates => object([("type", text("string")), ("format", text("date"))]),
            _ => object([("type", text("string")), ("maxLength", number(bound(self.longest, 64)))]),
        }
    }
}

impl Template {
    pub(super) fn text(&self) -> String {
        let segment = |segment: &Segment| match segment {
            Segment::Text(text) => format!("/{text}"),
            Segment::Value(name, _) => format!("/{{{name}}}"),
        };
        self.segments.iter().map(segment).collect()
    }

    /// Its expressions as parameters.
    pub(super) fn parameters(&self) -> impl Iterator<Item = Node> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Text(_) => None,
            Segment::Value(name, values) => Some(object([
                ("name", text(name)),
                ("in", text("path")),
                ("required", super::flag(true)),
                ("schema", values.schema()),
            ])),
        })
    }

    /// A name for the next expression, after the word before it: `/users/{user_id}`.
    fn free_name(&self) -> String {
        let stem = match self.segments.last() {
            Some(Segment::Text(word)) => stem(word),
            _ => String::new(),
        };
        let name = if stem.is_empty() { "id".to_owned() } else { format!("{stem}_id") };
        let is_taken =
            |name: &str| self.segments.iter().any(|one| matches!(one, Segment::Value(have, _) if have == name));
        let mut free = name.clone();
        let mut next = 2;
        while is_taken(&free) {
            free = format!("{name}{next}");
            next += 1;
        }
        free
    }
}

/// A word as a name, in the singular where that is its form without an `s`.
fn stem(word: &str) -> String {
    let kept: String = word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(40).collect();
    let kept = kept.trim_matches('_').to_ascii_lowercase();
    match kept.strip_suffix('s') {
        Some(singular) if singular.len() > 2 && !singular.ends_with('s') => singular.to_owned(),
        _ => kept,
    }
}

fn look(segment: &str) -> Look {
    let bytes = segment.as_bytes();
    let is_digit = u8::is_ascii_digit;
    let (digits, letters) =
        (bytes.iter().filter(|b| is_digit(b)).count(), bytes.iter().filter(|b| b.is_ascii_alphabetic()).count());
    if is_integer(segment) {
        return Look::Integer;
    }
    if is_uuid(segment) {
        return Look::Uuid;
    }
    if is_date(segment) {
        return Look::Date;
    }
    let is_opaque = digits == bytes.len() && digits > 0
        || bytes.len() >= MIN_OPAQUE_BYTES && digits > 0 && letters > 0 && !bytes.contains(&b'-')
        || bytes.len() > MAX_WORD_BYTES
        || segment.contains("%40")
        || segment.contains('@');
    if is_opaque { Look::Opaque } else { Look::Word }
}

/// As a parameter of type `integer` is written.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.len() <= MAX_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain && (digits == "0" && !text.starts_with('-') || !digits.starts_with('0'))
}

pub(super) fn is_uuid(text: &str) -> bool {
    Format::Uuid.is_match(Text::new(text))
}

pub(super) fn is_date(segment: &str) -> bool {
    Format::Date.is_match(Text::new(segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(paths: &[&str]) -> Vec<String> {
        let mut all = Paths::default();
        paths.iter().for_each(|path| all.add(path).unwrap());
        all.generalize();
        let mut found: Vec<String> = paths.iter().map(|path| all.find(path).unwrap().text()).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn segments_that_look_like_identifiers_become_one_expression() {
        let rows: [(&[&str], &[&str]); 9] = [
            (&["/"], &["/"]),
            (&["/users/1", "/users/2", "/users/me"], &["/users/me", "/users/{user_id}"]),
            (&["/users/1/orders/7", "/users/2/orders/9"], &["/users/{user_id}/orders/{order_id}"]),
            (&["/v1/a", "/v2/a"], &["/v1/a", "/v2/a"]),
            (&["/a/550e8400-e29b-41d4-a716-446655440000/"], &["/a/{a_id}/"]),
            (&["/1/2/3"], &["/{id}/{id2}/{id3}"]),
            (&["/days/2026-11-22", "/days/today"], &["/days/today", "/days/{day_id}"]),
            (&["/t/007", "//x"], &["//x", "/t/{t_id}"]),
            (&["/files/a1b2c3d4e5f6a7b8c9"], &["/files/{file_id}"]),
        ];
        for (paths, expected) in rows {
            assert_eq!(templates(paths), expected, "{paths:?}");
        }
    }

    #[test]
    fn too_many_words_are_values() {
        let letters = |n: usize| char::from(b'a' + u8::try_from(n).unwrap());
        let few: Vec<String> = (0..24).map(|n| format!("/tags/{}", letters(n))).collect();
        assert_eq!(templates(&few.iter().map(String::as_str).collect::<Vec<_>>()).len(), 24);
        let many: Vec<String> = (0..25).map(|n| format!("/tags/{}/x", letters(n))).collect();
        assert_eq!(templates(&many.iter().map(String::as_str).collect::<Vec<_>>()), ["/tags/{tag_id}/x"]);
    }

    #[test]
    fn integers_are_those_of_parameters() {
        for good in ["0", "7", "-1", "123456789012345678"] {
            assert!(is_integer(good), "{good}");
        }
        for bad in ["", "-", "-0", "00", "01", "1.0", "1e3", "+1", "1234567890123456789"] {
            assert!(!is_integer(bad), "{bad}");
        }
    }
}
