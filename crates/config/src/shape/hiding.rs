//! What is hidden of a configuration wherever it is shown: `/config`, `/started`, what a reload changed, `portunus diff`. This is the only place that says so.
//!
//! Secrets stand in no file, only where they come from. But some values work as credentials: what a request must bring to be let through ([`SENSITIVE`]), what is sent under a name
//! that says so, arguments of programs, and the queries and the user of whatever is a path or URL, in any key.

use std::borrow::Cow;

use super::effective::is_field_with_credential;
use crate::table::{Object, Shape};

/// In place of a value that works as a credential.
pub const REDACTED: &str = "(redacted)";

/// What is hidden of the values below a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hiding {
    /// Queries and users of paths and URLs.
    Queries,
    /// All text.
    Values,
    /// All text but the first item.
    Arguments,
}

/// Keys whose values work as credentials, by their object.
const SENSITIVE: [(&str, &str, Hiding); 4] = [
    ("when", "header", Hiding::Values),
    ("when", "query", Hiding::Values),
    ("when", "cookie", Hiding::Values),
    ("keystore.acme.dns", "run", Hiding::Arguments),
];

impl Hiding {
    /// What is hidden of a key of an object.
    pub(crate) fn of_key(self, object: &Object, key: &str) -> Hiding {
        let row = SENSITIVE.iter().find(|(owner, name, _)| *owner == object.name && *name == key);
        row.map_or(self, |(_, _, hiding)| *hiding)
    }

    /// What is hidden of an entry whose key the user chose, such as the name of a header field.
    pub(crate) fn of_entry(self, value: &Shape, name: &str) -> Hiding {
        if is_text(value) && is_field_with_credential(name) { Hiding::Values } else { self }
    }

    /// What is hidden of an item of a list.
    pub(crate) fn of_item(self, index: usize) -> Hiding {
        match self {
            Hiding::Arguments if index == 0 => Hiding::Queries,
            Hiding::Arguments => Hiding::Values,
            same => same,
        }
    }

    /// What is shown of a text where this shape is asked for.
    pub(crate) fn shown<'t>(self, shape: &Shape, text: &'t str) -> Cow<'t, str> {
        match self {
            _ if !is_text(shape) => Cow::Borrowed(text),
            Hiding::Values => Cow::Borrowed(REDACTED),
            _ if is_expression(shape) => Cow::Borrowed(text),
            Hiding::Queries | Hiding::Arguments => without_query(text),
        }
    }
}

/// Whether a value is what [`Hiding::shown`] has put in its place, or has such a part.
pub(crate) fn is_hidden(text: &str) -> bool {
    let parts = [("?", ""), ("#", ""), ("//", "@")];
    text == REDACTED || parts.iter().any(|(before, behind)| text.contains(&format!("{before}{REDACTED}{behind}")))
}

/// Whether a value is text that nobody but the user knows.
fn is_text(shape: &Shape) -> bool {
    match shape {
        Shape::Text(_) | Shape::Verbatim(_) => true,
        Shape::OneOrMany(item) | Shape::List(item) => is_text(item),
        Shape::Either(alternatives) => alternatives.iter().any(is_text),
        _ => false,
    }
}

/// Regular expressions have `?` for other things.
fn is_expression(shape: &Shape) -> bool {
    matches!(shape, Shape::Text(what) if what.starts_with("an expression"))
}

/// A path or URL without what stands in its query, and without the user in front of its host.
fn without_query(text: &str) -> Cow<'_, str> {
    let is_path = text.starts_with(['/', '{', '?']);
    let Some(after_scheme) = text.find("://").map(|at| at + 3).or(is_path.then_some(0)) else {
        return Cow::Borrowed(text);
    };
    let (scheme, rest) = text.split_at(after_scheme);
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let user = rest.get(..authority).and_then(|authority| authority.rfind('@')).filter(|_| after_scheme > 0);
    // What is behind a fragment's `#` is as good a place for a token.
    let query = rest.find(['?', '#']).filter(|at| rest.get(at + 1..).is_some_and(says_something));
    if user.is_none() && query.is_none() {
        return Cow::Borrowed(text);
    }
    let path = rest.get(user.map_or(0, |at| at + 1)..query.map_or(rest.len(), |at| at + 1)).unwrap_or_default();
    let user = user.map_or(String::new(), |_| format!("{REDACTED}@"));
    let query = query.map_or("", |_| REDACTED);
    Cow::Owned(format!("{scheme}{user}{path}{query}"))
}

/// Whether a query is more than one variable, which says nothing by itself: `?{query}`.
fn says_something(query: &str) -> bool {
    let variable = query.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    !query.is_empty() && variable.is_none_or(|name| name.contains(['{', '}']))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Each key of the list is one: its object is found below the file, or a key server's.
    #[test]
    fn the_list_names_keys_that_there_are() {
        let mut seen = std::collections::HashMap::new();
        let mut open: Vec<&'static Object> = vec![&super::super::surface::ROOT];
        fn objects(shape: &'static Shape, open: &mut Vec<&'static Object>) {
            match shape {
                Shape::Object(object) => open.push(object),
                Shape::Table(_, shape) | Shape::List(shape) | Shape::OneOrMany(shape) => objects(shape, open),
                Shape::Either(shapes) => shapes.iter().for_each(|shape| objects(shape, open)),
                _ => {}
            }
        }
        while let Some(object) = open.pop() {
            if seen.insert(std::ptr::from_ref(object), object).is_none() {
                object.all_fields().for_each(|field| objects(&field.shape, &mut open));
            }
        }
        for (owner, key, _) in SENSITIVE {
            let of_name = || seen.values().filter(|object| object.name == owner);
            assert!(of_name().any(|object| object.all_fields().any(|field| field.name == key)), "{owner}.{key}");
        }
    }

    #[test]
    fn queries_and_users_are_hidden_and_nothing_else() {
        let rows = [
            ("/auth?key=1", "/auth?(redacted)"),
            ("https://user:pass@a.example/x?y=1#z", "https://(redacted)@a.example/x?(redacted)"),
            ("https://a.example/x#token", "https://a.example/x#(redacted)"),
            ("https://a.example?token", "https://a.example?(redacted)"),
            ("https://a.example/x@y", "https://a.example/x@y"),
            ("{scheme}://{host}{path}?a={query.a}&key=1", "{scheme}://{host}{path}?(redacted)"),
            ("{path}?key=1", "{path}?(redacted)"),
            ("/new{path}?{query}", "/new{path}?{query}"),
            ("/@admin", "/@admin"),
            ("/healthz", "/healthz"),
            ("is this a text?", "is this a text?"),
            ("redis://:secret@cache:6379", "redis://(redacted)@cache:6379"),
        ];
        for (text, shown) in rows {
            assert_eq!(Hiding::Queries.shown(&Shape::Text("a text"), text), shown);
        }
        let expression = Shape::Text("an expression such as `a?`");
        assert_eq!(Hiding::Queries.shown(&expression, "/a(?<b>.)"), "/a(?<b>.)");
        assert_eq!(Hiding::Values.shown(&expression, "secret-[0-9]"), REDACTED);
        assert_eq!(Hiding::Values.shown(&Shape::Bool, "true"), "true");
    }
}
