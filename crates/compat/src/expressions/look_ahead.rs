//! What must not follow, and what is another text: sets of texts as expressions for all that is none of them, which native expressions can say.

use config::Expression;

/// Longest expression that is made so, bytes.
const MAX_BYTES: usize = 4_096;

/// Texts by their first characters.
#[derive(Default)]
struct Tree {
    /// A text ends here.
    ends: bool,
    next: Vec<(char, Tree)>,
}

impl Tree {
    fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Tree {
        let mut tree = Tree::default();
        for text in texts {
            let mut at = &mut tree;
            for c in text.chars() {
                let place = at.next.iter().position(|(own, _)| *own == c).unwrap_or_else(|| {
                    at.next.push((c, Tree::default()));
                    at.next.len() - 1
                });
                let Some((_, inner)) = at.next.get_mut(place) else { return tree };
                at = inner;
            }
            at.ends = true;
        }
        tree
    }

    /// Each beginning of a text, with what else may follow it: a class, if a text goes on there; none if no text does.
    fn beginnings(&self, so_far: &str, is_start: bool, out: &mut Vec<(String, bool, String)>) {
        if self.ends && is_start {
            return;
        }
        let class: String = self.next.iter().map(|(c, _)| shown(*c)).collect();
        let other = if class.is_empty() { ".".to_owned() } else { format!("[^{class}]") };
        out.push((so_far.to_owned(), !self.ends, other));
        for (c, inner) in &self.next {
            inner.beginnings(&format!("{so_far}{}", shown(*c)), is_start, out);
        }
    }
}

fn shown(c: char) -> String {
    if c.is_ascii_alphanumeric() || "/_".contains(c) { c.to_string() } else { regex_syntax::escape(&c.to_string()) }
}

/// A native expression for all texts but these; none if it would be too long.
pub(crate) fn other_than(texts: &[&str]) -> Option<String> {
    if !texts.iter().all(|text| text.is_ascii()) {
        return None;
    }
    let mut all = Vec::new();
    Tree::of(texts.iter().copied()).beginnings("", false, &mut all);
    let one = |(start, is_other, other): &(String, bool, String)| match is_other {
        true => format!("{start}(?:{other}.*)?"),
        false => format!("{start}{other}.*"),
    };
    let text = all.iter().map(one).collect::<Vec<_>>().join("|");
    (text.len() <= MAX_BYTES && Expression::new(&text).is_ok()).then_some(text)
}

/// An expression of PCRE that ends in `(?!…)` of plain texts, behind which anything may come: what stands before it, and a native expression for all that may follow.
/// None if it is no such one.
pub(super) fn split(text: &str) -> Option<(&str, String)> {
    let (before, inner) = text.split_once("(?!")?;
    let (inner, behind) = inner.split_once(')')?;
    if !matches!(behind, "" | ".*" | ".*$")
        || !before.ends_with(|c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c))
    {
        return None;
    }
    // A dot alone is any character.
    if before.ends_with('.') && !before.ends_with("\\.") || before.rfind('[') > before.rfind(']') {
        return None;
    }
    let plain = inner.replace("\\.", ".").replace("\\/", "/").replace("\\-", "-");
    // Dots that are not escaped are any character, too.
    let has_classes = inner.matches('.').count() != inner.matches("\\.").count();
    if has_classes || !plain.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.|".contains(c)) {
        return None;
    }
    let mut all = Vec::new();
    Tree::of(plain.split('|')).beginnings("", true, &mut all);
    let one = |(start, _, other): &(String, bool, String)| format!("{start}{other}");
    let others: Vec<String> = all.iter().map(one).collect();
    let starts: Vec<&str> = all.iter().map(|(start, ..)| start.as_str()).filter(|start| !start.is_empty()).collect();
    // What comes last stands once, so that few ways lead there.
    let starts = starts.iter().map(|start| format!("|{start}")).collect::<String>();
    (!all.is_empty()).then(|| (before, format!("(?:(?:{}).*{starts})?", others.join("|"))))
}

#[cfg(test)]
mod tests {
    use super::super::{Subject, native};
    use super::*;

    #[test]
    fn what_must_not_follow() {
        for (text, yes, no) in [
            (
                r"/\.(?!well-known)",
                "/.git /.x/y /.well /a/.well-know /.",
                "/a /.well-known /.well-known/x /.well-knownx",
            ),
            (r"/\.(?!well-known\/)", "/.well-known /.git", "/.well-known/x"),
            (r"^/(?!api|static/).*$", "/ /a /ap /stat /static", "/api /apix /static/x"),
            (r"^/a(?!b).*", "/a /ac", "/ab /b"),
        ] {
            let native = native(text, false, Subject::Decoded).unwrap_or_default();
            let expression = Expression::new(&native).ok();
            let is = |path: &str| expression.as_ref().is_some_and(|expression| expression.matches(path.as_bytes()));
            for path in yes.split(' ') {
                assert!(is(path), "{text} {path}: {native}");
            }
            for path in no.split(' ') {
                assert!(!is(path), "{text} {path}: {native}");
            }
        }
        for text in ["^/(?!a+)", "^/(?!a)b", "^/(?!)", "^/(?!a)(?!b)", "^/(?!a|.b)", "^/.(?!a)", "^(/a(?!b))"] {
            assert!(native(text, false, Subject::Decoded).is_err(), "{text}");
        }
    }

    #[test]
    fn all_but_a_few_texts() {
        let text = other_than(&["a", "ab", "c.d"]).unwrap_or_default();
        let expression = Expression::new(&text).ok();
        let is = |value: &str| expression.as_ref().is_some_and(|expression| expression.matches(value.as_bytes()));
        for value in ["", "b", "abc", "ax", "c.", "cxd", "c.de"] {
            assert!(is(value), "{value}: {text}");
        }
        for value in ["a", "ab", "c.d"] {
            assert!(!is(value), "{value}: {text}");
        }
        assert_eq!(other_than(&["é"]), None);
    }
}
