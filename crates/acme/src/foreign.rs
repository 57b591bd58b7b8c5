//! What authorities write, and how URLs of directories are compared. Both come from outside, and neither is trusted.

use http::Uri;

/// Characters of what is shown of one thing that somebody else wrote.
const MAX_SHOWN_CHARS: usize = 400;

/// Characters of a whole problem, which may be made of several such things.
const MAX_PROBLEM_CHARS: usize = 4000;

/// What somebody else wrote, for a line of a log: at most 400 characters and a mark of what was cut off, none of which ends a line, controls a terminal or
/// changes the order of others.
pub fn shown(text: &str) -> String {
    printable(text, MAX_SHOWN_CHARS)
}

/// The same for a problem as a whole, whatever it was made of: at most 4,000 characters.
pub fn problem(text: &str) -> String {
    printable(text, MAX_PROBLEM_CHARS)
}

/// Characters that are not to be seen are written as `\u{…}`. What it gave is left as it is.
fn printable(text: &str, most: usize) -> String {
    let mut shown = String::new();
    let mut left = most;
    for c in text.chars() {
        let as_it_is = matches!(c, '"' | '\'' | '\\');
        let escaped: String = if as_it_is { c.into() } else { c.escape_debug().collect() };
        let Some(rest) = left.checked_sub(escaped.chars().count()) else {
            shown.push('…');
            break;
        };
        left = rest;
        shown.push_str(&escaped);
    }
    shown
}

/// The URL of a directory as all that name the same one have it (RFC 3986 §6.2): scheme and host in lower case, no default port, no slash at its end.
/// What is no URL stays as it is.
pub fn directory(url: &str) -> String {
    let Ok(uri) = url.parse::<Uri>() else { return url.to_owned() };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return url.to_owned() };
    let authority = authority.as_str().to_ascii_lowercase();
    let authority = authority.strip_suffix(":443").or_else(|| authority.strip_suffix(':')).unwrap_or(&authority);
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = uri.path();
    format!("{}://{authority}{}{query}", scheme.to_ascii_lowercase(), path.strip_suffix('/').unwrap_or(path))
}

/// Whether two URLs name the same directory.
pub fn is_same_directory(one: &str, other: &str) -> bool {
    one == other || directory(one) == directory(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_is_short_and_one_line() {
        assert_eq!(shown("a\nb\u{1b}[31m"), r"a\nb\u{1b}[31m");
        assert_eq!(shown("\u{202e}abc\u{2028}\u{200b}\0"), r"\u{202e}abc\u{2028}\u{200b}\0");
        assert_eq!(shown(r#"the "name" isn't C:\x, Zoë, 例"#), r#"the "name" isn't C:\x, Zoë, 例"#);
        for hostile in ["x", "\u{1b}", "\u{202e}", "例"] {
            let shown = shown(&hostile.repeat(1_000_000));
            assert!(shown.chars().count() <= 401 && shown.ends_with('…'), "{shown}");
            assert!(shown.chars().all(|c| !c.is_control() && c != '\u{202e}'));
            assert_eq!(problem(&shown), shown, "twice is as good as once");
        }
    }

    #[test]
    fn directories_are_compared_as_urls() {
        let url = "https://ca.example/directory";
        for same in [
            "https://CA.Example/directory",
            "HTTPS://ca.example/directory",
            "https://ca.example:443/directory",
            "https://ca.example:/directory",
            "https://ca.example/directory/",
            "https://cA.example:443/directory/",
        ] {
            assert!(is_same_directory(url, same), "{same}");
        }
        assert!(is_same_directory("https://ca.example", "https://ca.example/"));
        assert!(is_same_directory("https://[2001:DB8::1]:443/d", "https://[2001:db8::1]/d"));
        for other in [
            "https://ca.example/Directory",
            "https://ca.example:14000/directory",
            "https://ca.example:4430/directory",
            "http://ca.example/directory",
            "https://ca.example/directory?a",
            "https://user@ca.example/directory",
            "https://ca.example.evil.example/directory",
            "https://ca.example/directory/x",
            "nonsense",
        ] {
            assert!(!is_same_directory(url, other), "{other}");
        }
        assert_eq!(directory(url), url, "accounts of before are found");
    }
}
