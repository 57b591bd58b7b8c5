//! What other dialects of regular expressions write, and ECMA-262 reads as something else without an error. Changes no pattern.

/// What of a valid pattern its author will not have meant, for a warning.
pub fn foreign(text: &str) -> Option<String> {
    slashes(text).or_else(|| classes(text.as_bytes()))
}

/// A literal of JavaScript or PHP: `/…/i`. Slashes that may be meant are left alone.
fn slashes(text: &str) -> Option<String> {
    let (inner, flags) = text.strip_prefix('/')?.rsplit_once('/')?;
    let are_flags = flags.bytes().all(|flag| b"dgimsuvxyUD".contains(&flag));
    let is_meant = flags.is_empty() && !inner.starts_with('^') && !inner.ends_with('$');
    (are_flags && !is_meant && !inner.is_empty()).then(|| {
        "its slashes belong to the text here, so that flags and anchors do not work; write what stands between them"
            .to_owned()
    })
}

fn classes(text: &[u8]) -> Option<String> {
    let (mut rest, mut is_class) = (text, false);
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'\\' => rest = rest.get(1..).unwrap_or_default(),
            b'[' if is_class && matches!(rest.first(), Some(b':' | b'.' | b'=')) => {
                let kind = rest[0];
                let end = rest[1..].windows(2).position(|two| two == [kind, b']'])?;
                let name = String::from_utf8_lossy(&rest[..end + 2]).into_owned();
                return Some(format!("`[{}]` is no class here but its characters", name.trim_end_matches(']')));
            }
            b'[' => is_class = true,
            b']' => is_class = false,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::foreign;
    use crate::pattern::Pattern;

    #[test]
    fn what_others_write_is_told() {
        for text in ["/^[a-z]+$/", "/abc/i", "/^a/", "/a$/u", "[[:alpha:]]+", "[a[:digit:]]"] {
            assert!(foreign(text).is_some(), "{text}");
        }
        let own = [
            "(?i)abc",
            "^[a-z]+$",
            "^/api/[a-z]+/$",
            "/api/",
            r"\/a\/",
            "[:a]",
            "[a:]]",
            r"[\[:a:]",
            "(?:a)",
            "(?=a)",
            "(?<a>b)",
            r"\d\w\s\b\p{L}",
            r"\\A",
            "/",
            "//",
            "",
            r"\",
        ];
        for text in own {
            assert_eq!(foreign(text), None, "{text}");
        }
    }

    /// What other dialects write as escapes does not load at all.
    #[test]
    fn what_is_told_of_loads() {
        for text in ["/^[a-z]+$/", "/abc/i", "[[:alpha:]]+", "[a[:digit:]]"] {
            assert!(foreign(text).is_some() && Pattern::new(text).is_ok(), "{text}");
        }
        for text in [r"\Aabc\z", r"a\Z", r"\h+", r"\Qa\E"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
    }
}
