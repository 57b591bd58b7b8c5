//! Variables that a configuration defines: whatever a name of theirs would mean by itself, it is not that.

use std::collections::BTreeSet;

use super::syntax::Directive;

/// The names of all variables that are defined anywhere at a level or within.
pub(crate) fn names(level: &[Directive]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    collect(level, &mut out);
    out
}

fn collect(level: &[Directive], out: &mut BTreeSet<String>) {
    for directive in level {
        let name = directive.name.as_str();
        let variable = match name {
            "map" | "split_clients" => Some(directive.arg(1)),
            "geo" => directive.args.last().map(String::as_str),
            // Of other modules, too: `auth_request_set`, `js_set`, `set_by_lua_block`, `js_var` and rows of `geoip2`.
            _ if name.starts_with("set") || name.contains("_set") || name.ends_with("_var") => Some(directive.arg(0)),
            _ if name.starts_with('$') => Some(name),
            _ => None,
        };
        out.extend(variable.and_then(|text| text.strip_prefix('$')).map(str::to_owned));
        for text in directive.args.iter().map(String::as_str).chain([name]) {
            groups(text, out);
        }
        collect(directive.inner(), out);
    }
}

/// Maps that give what the program knows by itself where a client, or a proxy that is not trusted, says nothing: their source, what stands in for an empty one,
/// and the variable that means the same here.
const USUAL: [(&str, &str, &str); 3] = [
    // Of proxies that are trusted the scheme is believed, and of nobody else.
    ("$http_x_forwarded_proto", "$scheme", "$scheme"),
    ("$http_host", "$host", "$http_host"),
    ("$http_x_forwarded_host", "$host", "$host"),
];

/// The variable that the one of a `map` stands for, if the map says no more than that.
pub(crate) fn usual(map: &Directive) -> Option<&'static str> {
    let [one, other] = map.inner() else { return None };
    // Of proxies that are trusted, a client under https is one here.
    let is = |entry: &Directive, key: &str, value: &str| entry.name == key && entry.args == [value];
    let is_https = |one, other| is(one, "default", "$scheme") && is(other, "https", "https");
    if map.args.len() == 2 && map.arg(0) == "$http_x_forwarded_proto" && (is_https(one, other) || is_https(other, one))
    {
        return Some("$scheme");
    }
    let entry = |key: &str| [one, other].into_iter().find(|entry| entry.name == key && entry.args.len() == 1);
    let (default, empty) = (entry("default")?.arg(0), entry("")?.arg(0));
    let found =
        USUAL.iter().find(|(source, stand_in, _)| map.arg(0) == *source && default == *source && empty == *stand_in);
    found.filter(|_| map.args.len() == 2).map(|(_, _, same)| *same)
}

/// The variable that another one stands for, if one `map` defines it and nothing else does.
pub(crate) fn stands_for(level: &[Directive], variable: &str) -> Option<&'static str> {
    let map = level.iter().find(|directive| directive.name == "map" && directive.arg(1) == variable)?;
    let others: Vec<Directive> = level.iter().filter(|directive| !std::ptr::eq(*directive, map)).cloned().collect();
    let defined = names(&others);
    let is_own = |name: &str| defined.contains(name.trim_start_matches('$'));
    usual(map).filter(|same| !is_own(variable) && !is_own(same) && !is_own(map.arg(0)))
}

/// The named groups of an expression, which are variables, too.
fn groups(text: &str, out: &mut BTreeSet<String>) {
    for piece in text.split("(?").skip(1) {
        let named = piece.strip_prefix('P').unwrap_or(piece);
        if let Some(named) = named.strip_prefix(['<', '\'']) {
            let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let name: String = named.chars().take_while(is_of_name).collect();
            out.extend((!name.is_empty()).then_some(name));
        }
    }
}
