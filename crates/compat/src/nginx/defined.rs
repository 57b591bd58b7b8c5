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
