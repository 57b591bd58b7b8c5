//! What other dialects of regular expressions write, and ECMA-262 reads as something else without an error. Changes no pattern.

/// What of a valid pattern its author will not have meant, for a warning.
pub fn foreign(text: &str) -> Option<String> {
    slashes(text).or_else(|| classes(text.as_bytes()))
}

/// A literal of JavaScript or PHP: `/…/i`. Slashes that may be meant are left alone.
fn slashes(text: &str) -> Option<String> {
    let (inner, flags) = text.strip_prefix('/')?.rsplit_once('/')?;
    let are_flags = flags
        .bytes()
        .enumerate()
        .all(|(at, flag)| b"dgimsuvxyUD".contains(&flag) && !flags[..at].contains(char::from(flag)));
    // A path has more slashes, which a literal would escape, or nothing but letters.
    let is_path = inner.replace("\\/", "").contains('/')
        || inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_meant = is_path || flags.is_empty() && !inner.starts_with('^') && !inner.ends_with('$');
    (are_flags && !is_meant).then(|| {
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
                let letters = rest[1..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
                if letters > 0 && rest.get(letters + 1..letters + 3) == Some(&[kind, b']']) {
                    let name = String::from_utf8_lossy(&rest[..letters + 2]);
                    return Some(format!("`[{name}]` is no class here but its characters"));
                }
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
        for text in ["/^[a-z]+$/", "/a.c/i", "/^a/", "/a$/u", r"/^a\/b$/", "[[:alpha:]]+", "[a[:digit:]]"] {
            assert!(foreign(text).is_some(), "{text}");
        }
        let own = [
            "(?i)abc",
            "/v1/img",
            "/maps/gis",
            "/tiles/x/y",
            "/^items/[a-z]+/d",
            "[[.]+[^.]",
            "[^[=]+=[^=]",
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
        for text in ["/^[a-z]+$/", "/a.c/i", "[[:alpha:]]+", "[a[:digit:]]"] {
            assert!(foreign(text).is_some() && Pattern::new(text).is_ok(), "{text}");
        }
        for text in [r"\Aabc\z", r"a\Z", r"\h+", r"\Qa\E"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
    }
}
