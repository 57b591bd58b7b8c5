//! Variables of the environment in scalars: `${NAME}`, `${NAME:-default}`, and `$${` for the text itself.
//!
//! They are put in when a file is read, as part of one scalar: what a variable holds is never read as YAML. Names are capitals, so that nothing of
//! another proxy (`${host}`) or in a script is taken for one.

/// Largest value of a variable, bytes.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// What is wrong, and the fix.
pub(crate) type Fault = (String, String);

/// The text with variables put in; none if there are none.
///
/// # Errors
/// A variable is not set, or cannot be part of a configuration.
pub(crate) fn substituted(text: &str, get: impl Fn(&str) -> Option<String>) -> Result<Option<String>, Fault> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        match reference(after) {
            None => {
                out.push_str("${");
                rest = after;
            }
            Some((name, default, after)) => {
                out.push_str(&value(name, default, &get)?);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(Some(out))
}

/// Shorter values are no secrets, and would be found everywhere.
const SHORTEST_HIDDEN: usize = 6;

/// What variables of the environment put into a configuration, so that what is shown of it can name them instead. Shows none of it itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FromEnvironment(Vec<(String, String)>);

impl std::fmt::Debug for FromEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FromEnvironment")
    }
}

impl FromEnvironment {
    /// That of the texts of some files.
    pub(crate) fn of<'t>(
        texts: impl Iterator<Item = &'t str>,
        get: impl Fn(&str) -> Option<String>,
    ) -> FromEnvironment {
        let mut found: Vec<(String, String)> = Vec::new();
        for text in texts {
            for (at, _) in text.match_indices("${") {
                let Some((name, ..)) = text.get(at + 2..).and_then(reference) else { continue };
                let value = get(name).filter(|value| value.len() >= SHORTEST_HIDDEN);
                if let Some(value) = value.filter(|_| !found.iter().any(|(known, _)| known == name)) {
                    found.push((name.to_owned(), value));
                }
            }
        }
        // One may be a part of another.
        found.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        FromEnvironment(found)
    }

    /// Whether they put in nothing that may be a secret.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text, with the names of variables (`${NAME}`) in the place of what they hold.
    pub fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(value, &format!("${{{name}}}")))
    }
}

/// The name and default of a reference behind its `${`, and what follows it.
fn reference(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let length = text.bytes().take_while(|byte| is_name(*byte)).count();
    let (name, rest) = text.split_at_checked(length)?;
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Some(after) = rest.strip_prefix('}') {
        return Some((name, None, after));
    }
    let (default, after) = rest.strip_prefix(":-")?.split_once('}')?;
    Some((name, Some(default), after))
}

fn value(name: &str, default: Option<&str>, get: &impl Fn(&str) -> Option<String>) -> Result<String, Fault> {
    let set = get(name).filter(|value| !value.is_empty() || default.is_none());
    let Some(value) = set.or_else(|| default.map(str::to_owned)) else {
        let fix =
            format!("set it, write a default as in `${{{name}:-default}}`, or `$${{{name}}}` for the text itself");
        return Err((format!("the environment variable `{name}` is not set, or not text"), fix));
    };
    if value.len() > MAX_VALUE_BYTES || value.chars().any(|c| c.is_control() && c != '\t') {
        let what = format!("the environment variable `{name}` holds a control character, or more than 64 KiB");
        return Err((what, "set it to one line of text".to_owned()));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_variables_hold_is_shown_by_their_names() {
        let get = |name: &str| match name {
            "KEY" => Some("s3cret-key".to_owned()),
            "LONG" => Some("s3cret-key-of-more".to_owned()),
            "PORT" => Some("8080".to_owned()),
            _ => None,
        };
        let found = FromEnvironment::of(["a: ${KEY}${PORT}", "b: x${LONG}, ${UNSET:-default-value}"].into_iter(), get);
        assert_eq!(
            found.hide("k=s3cret-key&l=s3cret-key-of-more:8080 default-value"),
            "k=${KEY}&l=${LONG}:8080 default-value"
        );
        assert_eq!(format!("{found:?}"), "FromEnvironment");
        assert_eq!(FromEnvironment::default().hide("s3cret-key"), "s3cret-key");
    }

    #[test]
    fn variables_are_put_in() {
        let get = |name: &str| match name {
            "A" => Some("x: [1]".to_owned()),
            "EMPTY" => Some(String::new()),
            "BAD" => Some("a\nb".to_owned()),
            _ => None,
        };
        for (text, expected) in [
            ("a", None),
            ("${A}", Some("x: [1]")),
            ("b${A}${A}c", Some("bx: [1]x: [1]c")),
            ("${B:-d e}", Some("d e")),
            ("${EMPTY:-d}${EMPTY}", Some("d")),
            ("$${A}", Some("${A}")),
            ("${host} ${} ${A ${1}", Some("${host} ${} ${A ${1}")),
        ] {
            assert_eq!(substituted(text, get).unwrap_or_default().as_deref(), expected, "{text}");
        }
        for wrong in ["${B}", "x${BAD}"] {
            assert!(substituted(wrong, get).is_err(), "{wrong}");
        }
    }
}
