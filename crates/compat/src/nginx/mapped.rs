//! Conditions on variables that a `map` or `geo` defines, as conditions on what those look at: a field, the method, the client.
//!
//! Carried is what can be said exactly: values that are texts, of one definition. `known.rs` knows which definitions are used by nothing else.

use super::defined;
use super::rewrite::{NOTHING, Reading, Whom, holds};
use super::syntax::Directive;
use super::values::variable_of;
use crate::addresses::{self, Rule, network};
use crate::conditions::{Match, When, is_method};
use crate::expressions::{Subject, literal, native, other_than};

/// Words of a `map` or `geo` that are no keys, and change what keys mean.
const WORDS: [&str; 7] = ["hostnames", "volatile", "include", "ranges", "delete", "proxy", "proxy_recursive"];

/// The definition of a variable, if it has one alone.
fn definition<'h>(http: &'h [Directive], name: &str) -> Option<&'h Directive> {
    let is_of = |directive: &&Directive| {
        let variable = match directive.name.as_str() {
            "map" => directive.arg(1),
            "geo" => directive.args.last().map_or("", String::as_str),
            _ => return false,
        };
        variable.strip_prefix('$') == Some(name)
    };
    let found = http.iter().find(is_of)?;
    let others: Vec<Directive> = http.iter().filter(|directive| !std::ptr::eq(*directive, found)).cloned().collect();
    (!defined::names(&others).contains(name)).then_some(found)
}

/// The keys of a definition, each with whether the condition holds of its value; and whether it does where no key fits.
struct Keys<'h> {
    all: Vec<(&'h str, bool)>,
    otherwise: bool,
}

impl<'h> Keys<'h> {
    fn of(definition: &'h Directive, operator: &str, right: &str) -> Result<Keys<'h>, String> {
        let mut keys = Keys { all: Vec::new(), otherwise: holds("", operator, right)? };
        for entry in definition.inner() {
            let key = entry.name.as_str();
            if WORDS.contains(&key) {
                return Err(format!("`{key}` of its `{}`", definition.name));
            }
            let [value] = entry.args.as_slice() else { return Err("an entry of it is not understood".to_owned()) };
            if value.contains('$') {
                return Err("a value of it is made of the request".to_owned());
            }
            match key {
                "default" => keys.otherwise = holds(value, operator, right)?,
                key if key.starts_with("\\~") => {
                    return Err("a key of it is no expression, and begins like one".to_owned());
                }
                key => keys.all.push((key.strip_prefix('\\').unwrap_or(key), holds(value, operator, right)?)),
            }
        }
        Ok(keys)
    }

    /// The keys of which the condition holds, or does not.
    fn that(&self, holds: bool) -> impl Iterator<Item = &'h str> {
        self.all.iter().filter(move |(_, of_key)| *of_key == holds).map(|(key, _)| *key)
    }
}

fn is_expression(key: &str) -> bool {
    key.starts_with('~')
}

impl Reading<'_> {
    /// For whom a condition holds on a variable that the configuration defines; none if for nobody.
    pub(super) fn mapped(&self, name: &str, operator: &str, right: &str) -> Result<Option<Whom>, String> {
        let unknown = || format!("`${name}` has no counterpart: the configuration defines it");
        let definition = definition(self.http, name).ok_or_else(unknown)?;
        let of_it = |why: String| format!("`${name}` has no counterpart: {why} ({})", definition.place);
        let keys = Keys::of(definition, operator, right).map_err(of_it)?;
        if keys.that(!keys.otherwise).next().is_none() {
            return Ok(keys.otherwise.then_some(Whom::All));
        }
        let source = match definition.args.as_slice() {
            [_] => "$remote_addr",
            [source, _] => source.as_str(),
            _ => return Err(unknown()),
        };
        let source = variable_of(source).ok_or_else(|| of_it("it is made of several things".to_owned()))?;
        if self.values.unknown.contains(source) {
            return Err(of_it(format!("`${source}` is defined by the configuration, too")));
        }
        let is_map = definition.name == "map";
        let whom = match source {
            "remote_addr" => self.of_clients(&keys, is_map),
            _ if !is_map => Err("it is about addresses in something else".to_owned()),
            "request_method" => of_methods(&keys),
            _ => self.of_field(source, &keys),
        };
        whom.map(Some).map_err(of_it)
    }

    /// The longest network that holds an address counts.
    fn of_clients(&self, keys: &Keys<'_>, is_text: bool) -> Result<Whom, String> {
        if !self.is_client_known {
            return Err("it is not known who the client is".to_owned());
        }
        let read = |(key, allows): &(&str, bool)| -> Result<Rule, String> {
            // A map compares addresses as texts.
            let is_address = || key.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_string() == *key);
            let network = network(key).filter(|_| !is_text || is_address());
            let network = network.ok_or_else(|| format!("`{key}` is no network or address"))?;
            Ok(Rule { allows: *allows, network: Some(network) })
        };
        let mut rules: Vec<Rule> = Vec::new();
        for rule in keys.all.iter().map(read) {
            let rule = rule?;
            // Of a network that is there twice the last counts.
            rules.retain(|other| other.network != rule.network);
            rules.push(rule);
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.network.map_or(0, |network| network.prefix_len())));
        let networks = addresses::networks(&rules, keys.otherwise).map_err(|()| "too many networks".to_owned())?;
        // A condition on no network would be none.
        match networks.is_empty() {
            true => Err("no client is among its networks".to_owned()),
            false => Ok(Whom::Like(When::of_clients(networks))),
        }
    }

    /// Texts are compared in any case, and before expressions, which are tried in their order. What is not there is an empty text.
    fn of_field(&self, source: &str, keys: &Keys<'_>) -> Result<Whom, String> {
        let mut when = self.value(source, "", "")?;
        let mut any = Vec::new();
        if keys.otherwise {
            let others: Vec<&str> = keys.that(false).collect();
            if others.iter().any(|key| is_expression(key)) {
                return Err("what an expression does not match cannot be a condition".to_owned());
            }
            let text = other_than(&others).ok_or("its keys are too long")?;
            any.push(Match::Regex(format!("(?i){text}")));
            any.extend((!others.contains(&"")).then_some(Match::Absent));
        } else {
            let has_others = keys.that(false).any(is_expression);
            for key in keys.that(true) {
                let Some(expression) = key.strip_prefix('~') else {
                    match key {
                        "" => any.extend([Match::Regex(NOTHING.to_owned()), Match::Absent]),
                        key => any.push(Match::Regex(format!("(?i){}", literal(key)))),
                    }
                    continue;
                };
                // Another key may come first.
                if has_others || keys.that(false).next().is_some() {
                    return Err("an expression beside keys that mean the opposite".to_owned());
                }
                let (expression, ignores_case) =
                    expression.strip_prefix('*').map_or((expression, false), |rest| (rest, true));
                let text = native(expression, ignores_case, Subject::Value)?;
                let takes_nothing = config::Expression::new(&text).map_err(|(what, _)| what)?.matches(b"");
                any.extend(takes_nothing.then_some(Match::Absent));
                any.push(Match::Regex(if text.is_empty() { NOTHING.to_owned() } else { text }));
            }
        }
        when.values.iter_mut().for_each(|condition| condition.any = any.clone());
        Ok(Whom::Like(when))
    }
}

fn of_methods(keys: &Keys<'_>) -> Result<Whom, String> {
    let listed: Vec<String> = keys.that(!keys.otherwise).map(str::to_ascii_uppercase).collect();
    if !keys.all.iter().all(|(key, _)| is_method(&key.to_ascii_uppercase())) {
        return Err("its keys are no list of methods".to_owned());
    }
    Ok(match keys.otherwise {
        true => Whom::NotMethods(listed),
        false => Whom::Like(When::of_methods(listed)),
    })
}
