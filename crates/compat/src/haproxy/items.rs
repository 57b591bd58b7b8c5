//! Items of fields as HAProxy parts them: at each comma that does not stand in quotes, without the blanks around.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Matches whole items with the commas between and behind them, up to any place outside of quotes.
pub(super) const BEFORE: &str = r#"(?:[^"]|"(?:[^"\\]|\\.)*")*"#;

/// Whether a native expression matches a whole field exactly where one of the field's items has a part that it was searched for: each of its alternatives
/// begins and ends in `.*`, and between those it can match neither what parts items nor blanks.
pub(super) fn is_within_items(expression: &str) -> bool {
    let mut parser = regex_syntax::ParserBuilder::new();
    let parsed = parser.utf8(false).unicode(false).nest_limit(32).build().parse(expression);
    parsed.is_ok_and(|hir| is_search(&hir))
}

/// `.*`, something, `.*`, or several of that.
fn is_search(part: &Hir) -> bool {
    match part.kind() {
        HirKind::Alternation(alternatives) => alternatives.iter().all(is_search),
        HirKind::Concat(parts) => {
            parts.split_first().is_some_and(|(first, rest)| is_anything(first) && ends_in_anything(rest))
        }
        _ => false,
    }
}

/// Something, `.*`. What several begin with alike stands once, before them.
fn ends_in_anything(parts: &[Hir]) -> bool {
    let Some((last, before)) = parts.split_last() else { return false };
    let of_one = |part: &Hir| match part.kind() {
        HirKind::Concat(parts) => ends_in_anything(parts),
        _ => ends_in_anything(std::slice::from_ref(part)),
    };
    let ends = match last.kind() {
        HirKind::Alternation(alternatives) => alternatives.iter().all(of_one),
        _ => is_anything(last),
    };
    ends && before.iter().all(is_of_item)
}

fn is_anything(part: &Hir) -> bool {
    let HirKind::Repetition(repetition) = part.kind() else { return false };
    let is_any = |class: &Class| match class {
        Class::Bytes(class) => class.ranges().iter().map(|range| range.len()).sum::<usize>() >= 255,
        Class::Unicode(_) => false,
    };
    (repetition.min, repetition.max) == (0, None)
        && matches!(repetition.sub.kind(), HirKind::Class(class) if is_any(class))
}

fn is_of_item(part: &Hir) -> bool {
    let parts = |byte: u8| matches!(byte, b',' | b'"' | b'\\' | b' ' | b'\t');
    match part.kind() {
        HirKind::Empty => true,
        HirKind::Literal(literal) => !literal.0.iter().any(|byte| parts(*byte)),
        HirKind::Class(Class::Bytes(class)) => {
            !class.ranges().iter().any(|range| (range.start()..=range.end()).any(parts))
        }
        HirKind::Class(Class::Unicode(_)) | HirKind::Look(_) => false,
        HirKind::Repetition(repetition) => is_of_item(&repetition.sub),
        HirKind::Capture(capture) => is_of_item(&capture.sub),
        HirKind::Concat(inner) | HirKind::Alternation(inner) => inner.iter().all(is_of_item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_find_a_part_of_an_item() {
        for (expression, expected) in [
            (".*bot.*", true),
            ("(?i).*(?:bot|spider).*", true),
            ("(?i).*bot.*|.*spider[0-9]+.*", true),
            ("bot.*", false),
            (".*bot", false),
            (".*a.b.*", false),
            (".*a[^/]*b.*", false),
            (".*a b.*", false),
            (".*,a.*", false),
            (".*bot.*|spider", false),
        ] {
            assert_eq!(is_within_items(expression), expected, "{expression}");
        }
    }
}
