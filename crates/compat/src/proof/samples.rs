//! Texts that an expression matches: a few of each, always the same.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Most texts of one expression.
const MOST: usize = 6;
/// Longest text, bytes.
const LONGEST: usize = 2_048;

/// Texts in which the expression is found. Of one that cannot be read: its plain parts.
pub(super) fn samples(expression: &str) -> Vec<String> {
    let parsed = ParserBuilder::new().utf8(false).build().parse(expression);
    let mut found = match parsed {
        Ok(hir) => texts(&hir),
        Err(_) => plain(expression),
    };
    found.retain(|text| text.len() <= LONGEST);
    found.dedup();
    found
}

/// The first parts that are plain.
fn plain(expression: &str) -> Vec<String> {
    let unescaped = expression.replace("\\.", ".").replace("\\/", "/").replace("\\-", "-");
    let parts = unescaped.split(|c: char| !c.is_ascii_alphanumeric() && !"/._-".contains(c));
    parts.filter(|part| part.len() > 1).take(MOST / 2).map(str::to_owned).collect()
}

fn texts(hir: &Hir) -> Vec<String> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![String::new()],
        HirKind::Literal(literal) => vec![String::from_utf8_lossy(&literal.0).into_owned()],
        HirKind::Class(class) => vec![of_class(class)],
        HirKind::Capture(capture) => texts(&capture.sub),
        HirKind::Repetition(repetition) => {
            let least = repetition.min.min(64) as usize;
            let once_more = repetition.max.is_none_or(|max| max > repetition.min);
            let mut of_one = texts(&repetition.sub);
            of_one.retain(|text| text.len().saturating_mul(least + 1) <= LONGEST);
            let mut out: Vec<String> = of_one.iter().map(|text| text.repeat(least)).collect();
            if once_more {
                out.extend(of_one.iter().map(|text| text.repeat(least + 1)));
            }
            out.dedup();
            out.truncate(MOST);
            out
        }
        HirKind::Alternation(parts) => parts.iter().flat_map(texts).take(MOST).collect(),
        HirKind::Concat(parts) => {
            let mut out = vec![String::new()];
            for part in parts {
                let next = texts(part);
                let most = out.len().max(next.len());
                // Not each with each: every text of each part stands in one of them.
                let joined = (0..most).filter_map(|at| {
                    let before = out.get(at).or(out.first())?;
                    Some(format!("{before}{}", next.get(at).or(next.first())?)).filter(|text| text.len() <= LONGEST)
                });
                out = joined.take(MOST).collect();
            }
            out
        }
    }
}

/// A character of a class that stands in paths and names, if it has one.
fn of_class(class: &Class) -> String {
    let has = |wanted: char| match class {
        Class::Unicode(class) => class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&wanted)),
        Class::Bytes(class) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&(wanted as u8)))
        }
    };
    let usual = ['x', 'a', '1', 'A', '-', '_', '.', '/', ' '].into_iter().find(|wanted| has(*wanted));
    let first = || match class {
        Class::Unicode(class) => class.ranges().first().map(|range| range.start()),
        Class::Bytes(class) => class.ranges().first().map(|range| char::from(range.start())),
    };
    usual.or_else(first).map(String::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_samples() {
        for (expression, expected) in [
            ("^/a\\.git", "/a.git"),
            ("^/(a|bc)/d$", "/a/d /bc/d"),
            ("\\.(php|inc)$", ".php .inc"),
            ("^/x[0-9]+/y", "/x1/y /x11/y"),
            ("^/u(/)?$", "/u /u/"),
            ("(?i)^/adm", "/ADM"),
            ("^/(?!internal)api", "internal api"),
            ("PO", "PO"),
            // Too long for any request, and no work either.
            ("((((((a{64}){64}){64}){64}){64}){64})", ""),
        ] {
            assert_eq!(samples(expression).join(" ").to_lowercase(), expected.to_lowercase(), "{expression}");
        }
    }
}
