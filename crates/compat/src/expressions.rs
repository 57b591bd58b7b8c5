//! Regular expressions of other programs (PCRE, searched for anywhere in a text) as native ones, which match the whole of a canonical path or of a value.
//!
//! What native expressions cannot say (looking around, references to groups) and what means something else there is rejected with the reason.

mod escaped;
mod look_ahead;

use regex_syntax::ast::{self, AssertionKind, Ast, FlagsItemKind};
use regex_syntax::hir::{Class, Hir, HirKind};

use config::Expression;
pub(crate) use look_ahead::other_than;

/// What an expression is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A canonical path: percent-encoded, beginning with a slash.
    Path,
    /// A path with its escapes decoded, as nginx compares it.
    Decoded,
    /// A value as it is sent.
    Value,
}

/// Bytes that do not stand in canonical paths, but percent-encoded, beside controls and what is not ASCII.
const ENCODED: &[u8] = b" \"<>\\^`{|}[]#?%";

/// The native expression for one of PCRE.
///
/// # Errors
/// Why there is none.
pub(crate) fn native(text: &str, ignores_case: bool, subject: Subject) -> Result<String, String> {
    if let Some((before, others)) = look_ahead::split(text) {
        let start = native(before, ignores_case, subject)?;
        let whole = start.strip_suffix(".*").map(|start| format!("{start}{others}"));
        let whole = whole.ok_or("its expression has something behind it that must not follow")?;
        Expression::new(&whole).map_err(|(what, _)| what)?;
        return Ok(whole);
    }
    let text = unquoted_differences(text)?;
    let parsed = ast::parse::Parser::new().parse(&text).map_err(|error| {
        let what = error.kind().to_string();
        format!("its expression cannot be carried: {what}")
    })?;
    let alternatives = match &parsed {
        Ast::Alternation(alternation) => alternation.asts.iter().collect(),
        one => vec![one],
    };
    let whole: Result<Vec<String>, String> = alternatives.into_iter().map(|one| whole(one, &text)).collect();
    let whole = format!("{}{}", if ignores_case { "(?i)" } else { "" }, whole?.join("|"));
    let whole = match subject {
        Subject::Decoded => escaped::in_paths(&whole)?,
        Subject::Path => stands_in_paths(&whole).map(|()| whole)?,
        Subject::Value => whole,
    };
    Expression::new(&whole).map_err(|(what, _)| what)?;
    Ok(whole)
}

/// One alternative, so that it matches a whole text where it was found somewhere in it.
fn whole(alternative: &Ast, text: &str) -> Result<String, String> {
    let parts: Vec<&Ast> = match alternative {
        Ast::Concat(concat) => concat.asts.iter().collect(),
        one => vec![one],
    };
    let is = |ast: &Ast, kinds: [AssertionKind; 2]| matches!(ast, Ast::Assertion(assertion) if kinds.contains(&assertion.kind));
    let flags = parts.iter().take_while(|part| matches!(part, Ast::Flags(_) | Ast::Empty(_))).count();
    for part in parts.iter().take(flags) {
        if let Ast::Flags(flags) = part
            && flags
                .flags
                .items
                .iter()
                .any(|item| !matches!(item.kind, FlagsItemKind::Flag(ast::Flag::CaseInsensitive)))
        {
            return Err("its expression has flags other than `i`".to_owned());
        }
    }
    let (leading, rest) = parts.split_at_checked(flags).unwrap_or_default();
    let starts = rest.first().is_some_and(|part| is(part, [AssertionKind::StartLine, AssertionKind::StartText]));
    let rest = rest.get(usize::from(starts)..).unwrap_or_default();
    let ends = rest.last().is_some_and(|part| is(part, [AssertionKind::EndLine, AssertionKind::EndText]));
    let rest = rest.get(..rest.len() - usize::from(ends)).unwrap_or_default();
    let slice = |parts: &[&Ast]| {
        parts.iter().filter_map(|part| text.get(part.span().start.offset..part.span().end.offset)).collect::<String>()
    };
    let before = if starts { "" } else { ".*" };
    // What ends in `.*` needs no second one.
    let after = if ends || slice(rest).ends_with(".*") && !slice(rest).ends_with("\\.*") { "" } else { ".*" };
    Ok(format!("{}{before}{}{after}", slice(leading), slice(rest)))
}

/// The text with what PCRE reads otherwise than we do written alike.
fn unquoted_differences(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut class_at: Option<usize> = None;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                None => return Err("its expression ends in a backslash".to_owned()),
                // Literal there, the start and the end of a word here.
                Some(escaped @ ('<' | '>')) => out.push(escaped),
                Some(escaped @ ('1'..='9' | 'g' | 'k')) if class_at.is_none() => {
                    return Err(format!("its expression refers to a group (`\\{escaped}`)"));
                }
                Some(escaped) => {
                    out.push('\\');
                    out.push(escaped);
                }
            },
            '[' if class_at.is_none() => {
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                class_at = Some(out.len());
                // A bracket that stands first is one of those that are meant.
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            // Within a class it is a character, but for `[:alpha:]`.
            '[' if chars.peek() != Some(&':') => out.push_str("\\["),
            '[' => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ']' if class_at.is_some() => {
                class_at = None;
                out.push(']');
            }
            '&' | '~' if class_at.is_some() => {
                out.push('\\');
                out.push(c);
            }
            '-' if class_at.is_some() && chars.peek() == Some(&'-') => {
                return Err("its expression has `--` in a class".to_owned());
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Whether each literal of an expression can stand in a canonical path. Others would never match, where they did.
fn stands_in_paths(text: &str) -> Result<(), String> {
    let mut parser = regex_syntax::ParserBuilder::new();
    let parsed = parser.utf8(false).unicode(false).nest_limit(32).build().parse(text);
    let Ok(parsed) = parsed else { return Err("its expression cannot be carried".to_owned()) };
    literals_stand_in_paths(&parsed)
}

fn literals_stand_in_paths(hir: &Hir) -> Result<(), String> {
    let is_encoded = |byte: u8| !(b'!'..=b'~').contains(&byte) || ENCODED.contains(&byte);
    let refused =
        |byte: u8| Err(format!("its expression holds `{}`, which is percent-encoded in paths", byte.escape_ascii()));
    match hir.kind() {
        HirKind::Literal(literal) => {
            literal.0.iter().find(|byte| is_encoded(**byte)).map_or(Ok(()), |byte| refused(*byte))
        }
        // A class of a few characters means those; one of many means any but some.
        HirKind::Class(Class::Bytes(class)) => {
            let all = class.ranges().iter().map(|range| usize::from(range.end()) - usize::from(range.start()) + 1);
            if all.sum::<usize>() > 64 {
                return Ok(());
            }
            let mut bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            let blanks = [b'\t', b'\n', 0x0b, 0x0c, b'\r', b' '];
            bytes.find(|byte| is_encoded(*byte) && !blanks.contains(byte)).map_or(Ok(()), refused)
        }
        HirKind::Repetition(repetition) => literals_stand_in_paths(&repetition.sub),
        HirKind::Capture(capture) => literals_stand_in_paths(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().try_for_each(literals_stand_in_paths),
        HirKind::Class(Class::Unicode(_)) | HirKind::Empty | HirKind::Look(_) => Ok(()),
    }
}

/// An expression for the paths that begin with this text (canonical, or the start of such) however their reserved characters are escaped.
pub(crate) fn path_start(start: &str) -> String {
    let literal = literal(start);
    escaped::in_paths(&format!("{literal}.*")).unwrap_or_else(|_| format!("{literal}.*"))
}

/// An expression that matches this text alone.
pub(crate) fn literal(text: &str) -> String {
    regex_syntax::escape(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn expressions_match_whole_paths() {
        for (text, expected) in [
            (r"\.php$", r".*\.php"),
            (r"^/img/.*\.png$", r"/img/.*\.png"),
            (r"^/api/v[0-9]+/", r"/api/v[0-9]+/.*"),
            (r"^/a|b$", r"/a.*|.*b"),
            (r"\.(gif|jpe?g)$", r".*\.(gif|jpe?g)"),
            (r"^/(?<id>\d+)$", r"/(?<id>\d+)"),
            (r"^/x(.*)$", r"/x(.*)"),
            (r"^/x.*", r"/x.*"),
            (r"/\.", r".*/\..*"),
            (r"^/a\.*", r"/a\.*.*"),
            (r"(?i)^/a", r"(?i)/a.*"),
            (r"^/[^/]+\/x$", r"/[^/]+\/x"),
            (r"^/\<x$", r"/<x"),
        ] {
            let found = native(text, false, Subject::Value);
            assert_eq!(found.as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(native(r"\.PHP$", true, Subject::Path).unwrap(), r"(?i).*\.PHP");
    }

    #[test]
    fn what_cannot_be_said_is_rejected() {
        for (text, why) in [
            (r"^/(?=x)", "look-around"),
            (r"^/(a)\1$", "refers to a group"),
            (r"^/a b", "` `, which is percent-encoded"),
            (r"^/\{id\}", "percent-encoded"),
            ("^/é", "percent-encoded"),
            (r"(?x)^/a", "flags"),
            (r"^/(", "unclosed"),
            (r"^/a++b\K", "cannot be carried"),
        ] {
            let found = native(text, false, Subject::Path).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
        assert!(native(r"^/\s*[\w-]+$", false, Subject::Path).is_ok());
    }

    /// One decoded character is one, however it stands in the path.
    #[test]
    fn escaped_characters_count_as_one() {
        for (text, yes, no) in [
            ("^/a.b$", "/a%20b /a%40b /a@b /axb", "/a%20%20b /ab /a20b"),
            ("^/.$", "/%41 /x /%7B", "/%7B%7D /xx /"),
            ("^/a b$", "/a%20b", "/a+b"),
            (r"^/\{id\}$", "/%7Bid%7D", "/id"),
            ("^/é$", "/%C3%A9", "/e"),
            ("^/@fs/", "/@fs/x /%40fs/x", "/fs/x"),
            ("^/[a@]+$", "/a%40@a", "/b %40"),
            ("^/[^a-z]{2}$", "/%40%20 /@1", "/@ /ab /%40"),
            ("^/a (x|y)$", "/a%20x /a%20y", "/a%20z"),
            ("^/(@|b)$", "/%40 /b", "/%41"),
            ("2F$", "/2F /x2F", "/%C3%AF"),
            ("^/(?i)a(.{2})@$", "/A%7B%7D%40 /axx@", "/A%7B@"),
            ("/..$", "/%20%20 /ab", "/a /"),
            ("^/[^/]+/x$", "/a%20b/x /%40/x", "/a/b/x"),
            ("^/[^@]+$", "/ab%20", "/a%40b /a@b"),
            (r"^/\S+$", "/ab", "/a%20b"),
        ] {
            let native = native(text, false, Subject::Decoded).unwrap();
            let expression = Expression::new(&native).unwrap();
            let is = |path: &str| expression.matches(path.replace("%41", "A").as_bytes());
            assert!(yes.split(' ').all(is), "{text}: {native}");
            assert!(!no.split(' ').any(is), "{text}: {native}");
        }
        for (text, why) in [(r"^/a\bb", "ends of words"), (r"^/\x00", "no path has"), (r"^/(?!x+)", "look-around")] {
            let found = native(text, false, Subject::Decoded).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
        assert_eq!(path_start("/@fs/"), "/(?:@|%40)fs/.*");
        assert_eq!(path_start("/api/"), "/api/.*");
    }

    #[test]
    fn classes_are_read_as_there() {
        for (text, yes, no) in
            [(r"^[]x]$", "]", "y"), (r"^[a[b]$", "[", "c"), (r"^[a&&b]$", "&", "c"), (r"^[[:digit:]]$", "7", "d")]
        {
            let expression = Expression::new(&native(text, false, Subject::Value).unwrap()).unwrap();
            assert!(expression.matches(yes.as_bytes()) && !expression.matches(no.as_bytes()), "{text}");
        }
    }
}
