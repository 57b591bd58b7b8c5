//! What decides a `when`, in words: the leaves that make it hold or not, each with its place in the tree. For people; what holds is asked of `conditions.rs`.

use config::{Condition, Conditions, Origins, ValueCondition, ValueMatch, ValueOf, Which};

use super::conditions::{Sought, hold, holds};

/// Most leaves that are named: of alternatives none of which holds, each decides.
const MOST: usize = 4;

/// Why conditions do not hold; none where they do.
pub(crate) fn unmet(conditions: &Conditions, sought: &Sought<'_>) -> Option<String> {
    (!hold(conditions, sought)).then(|| decided(conditions, sought, false))
}

/// Which leaves of a tree hold, so that it does; none where it does not, or is none.
pub(super) fn met(conditions: &Conditions, sought: &Sought<'_>) -> Option<String> {
    (conditions.has_groups() && hold(conditions, sought)).then(|| decided(conditions, sought, true))
}

fn decided(conditions: &Conditions, sought: &Sought<'_>, is_held: bool) -> String {
    let mut leaves = Vec::new();
    let mut walk = Walk { sought, leaves: &mut leaves };
    walk.conditions(conditions, is_held, "when");
    let further = leaves.len().saturating_sub(MOST);
    leaves.truncate(MOST);
    let text = leaves.join(", ");
    if further > 0 { format!("{text}, and {further} more") } else { text }
}

/// A walk to the leaves that decide.
struct Walk<'w, 's> {
    sought: &'w Sought<'s>,
    leaves: &'w mut Vec<String>,
}

impl Walk<'_, '_> {
    /// To those of conditions that all hold, or do not: of those that do not, the first decides.
    fn conditions(&mut self, conditions: &Conditions, is_held: bool, place: &str) {
        let path = self.sought.head.path();
        if is_held {
            conditions.0.iter().for_each(|condition| self.condition(condition, true, place));
        } else if let Some(unmet) = conditions.0.iter().find(|condition| !holds(condition, self.sought, path)) {
            self.condition(unmet, false, place);
        }
    }

    fn condition(&mut self, condition: &Condition, is_held: bool, place: &str) {
        let holds = |item: &Conditions| hold(item, self.sought);
        match condition {
            Condition::All(items) => {
                let first = items.iter().position(|item| !holds(item));
                self.items(items, is_held, first, &format!("{place}.all"));
            }
            Condition::Any(items) => {
                let first = items.iter().position(holds);
                self.items(items, is_held, first, &format!("{place}.any"));
            }
            Condition::Not(conditions) => self.conditions(conditions, !is_held, &format!("{place}.not")),
            leaf => {
                let (key, text) = in_words(leaf, is_held);
                // Right below the root there is nothing to look for.
                let is_flat = place == "when" && !is_held;
                self.leaves.push(if is_flat { text } else { format!("{text} ({place}.{key})") });
            }
        }
    }

    /// To the one item that decides, else to each of them.
    fn items(&mut self, items: &[Conditions], is_held: bool, first: Option<usize>, place: &str) {
        for (at, item) in items.iter().enumerate() {
            if first.is_none_or(|first| first == at) {
                self.conditions(item, is_held, &format!("{place}[{at}]"));
            }
        }
    }
}

/// The key of a leaf, and that it holds or does not.
fn in_words(leaf: &Condition, is_held: bool) -> (&'static str, String) {
    let is = if is_held { "is" } else { "is not" };
    fn list<T: ToString>(items: &[T]) -> String {
        items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
    }
    let origin = |origins: Origins| {
        let wanted: Vec<String> = origins.texts().collect();
        format!("where the client is, as `geoip` has it, {is} {}", wanted.join(", "))
    };
    match leaf {
        Condition::Value(value) => of_value(value, is),
        Condition::Method(methods) => {
            let methods: Vec<&str> = methods.iter().map(wire::http::Method::as_str).collect();
            ("method", format!("the method {is} {}", methods.join(", ")))
        }
        Condition::Path(patterns) => {
            let texts: Vec<&str> = patterns.iter().map(|pattern| pattern.text.as_str()).collect();
            ("path", format!("the path {is} like {}", texts.join(", ")))
        }
        Condition::Scheme(scheme) => ("scheme", format!("the scheme {is} {}", scheme.as_str())),
        Condition::Port(ports) => ("port", format!("the port {is} {}", list(ports))),
        Condition::Version(versions) => {
            let texts: Vec<&str> = versions.iter().map(|version| version.as_str()).collect();
            ("version", format!("the protocol {is} {}", texts.join(", ")))
        }
        Condition::Client(networks) => ("client", format!("the client {is} in {}", list(networks))),
        Condition::Certificate(names) => {
            let some = if is_held { "a" } else { "no" };
            ("certificate", format!("{some} client certificate with {}", names.join(", ")))
        }
        Condition::ServerName(names) => ("server_name", format!("the TLS server name {is} {}", list(names))),
        Condition::Ja4(patterns) => {
            let texts: Vec<&str> = patterns.iter().map(|pattern| pattern.text.as_str()).collect();
            ("ja4", format!("the JA4 fingerprint of the client {is} {}", texts.join(", ")))
        }
        Condition::Country(countries) => {
            ("country", origin(Origins { countries: countries.clone(), ..Origins::default() }))
        }
        Condition::Asn(asns) => ("asn", origin(Origins { asns: asns.clone(), ..Origins::default() })),
        Condition::All(_) | Condition::Any(_) | Condition::Not(_) => ("", String::new()),
    }
}

fn of_value(value: &ValueCondition, is: &str) -> (&'static str, String) {
    let (key, of) = match value.of {
        ValueOf::Header => ("header", "header"),
        ValueOf::Query => ("query", "query parameter"),
        ValueOf::Cookie => ("cookie", "cookie"),
        ValueOf::Claim => ("claim", "claim"),
    };
    let any: Vec<String> = value.any.iter().map(of_match).collect();
    (key, format!("{of} `{}` {is} {}", value.name, any.join(" or ")))
}

fn of_match(wanted: &ValueMatch) -> String {
    match wanted {
        ValueMatch::Absent => "absent".to_owned(),
        ValueMatch::Present => "present".to_owned(),
        ValueMatch::Exact(text) => format!("`{text}`"),
        ValueMatch::Prefix(text) => format!("`{text}…`"),
        ValueMatch::Regex(expression) => format!("like `{}`", expression.text()),
        ValueMatch::Count(bounds) => format!("there so often: {bounds}"),
        ValueMatch::Length(bounds) => format!("of so many bytes: {bounds}"),
        ValueMatch::Number(bounds) => format!("a number: {bounds}"),
        ValueMatch::Of(which, wanted) => {
            let which = match which {
                Which::First => "the first of its values",
                Which::Last => "the last of its values",
                Which::All => "each of its values",
            };
            format!("{} ({which})", of_match(wanted))
        }
    }
}
