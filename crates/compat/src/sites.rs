//! Cells with what is done in each, as routes.

use super::cells::{Language, Unplanned, plan};
use super::conditions::{When, weigh};
use super::native::{Map, Value};

/// Stands in a text for what follows the text of a cell in the path.
pub(crate) const REST: char = '\u{1}';
/// Most paths of a route.
const MAX_PATHS: usize = 64;

/// What is done with requests that are like this.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Variant {
    pub(crate) when: When,
    /// The keys of a route, beside those that it is matched by.
    pub(crate) keys: Map,
}

/// Paths, and what is done with requests for them: the first that holds counts. The last holds always.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) language: Language,
    pub(crate) variants: Vec<Variant>,
}

/// The cases of HEAD, which a route for GET would take with it although the condition names GET alone.
pub(crate) fn without_implied(when: &When, others: &[Variant]) -> Vec<Variant> {
    let names = |method: &str| when.methods.iter().any(|own| own == method);
    if !names("GET") || names("HEAD") {
        return Vec::new();
    }
    let head = When::methods(&["HEAD"]);
    let of = |variant: &Variant| Some(Variant { when: head.and(&variant.when).ok()??, keys: variant.keys.clone() });
    others.iter().filter_map(of).collect()
}

/// The keys of a route that responds by itself.
pub(crate) fn respond(status: u16) -> Map {
    Map::of([("respond", Map::of([("status", Value::plain(status))]).into())])
}

/// The routes of cells in their order, without hosts and listeners.
///
/// # Errors
/// The paths of a cell cannot be said.
pub(crate) fn routes(cells: &[Cell]) -> Result<Vec<Map>, Unplanned> {
    let wants_rest = |cell: &Cell| cell.variants.iter().any(|variant| variant.keys.holds(REST));
    let wanted: Vec<(Language, bool)> = cells.iter().map(|cell| (cell.language.clone(), wants_rest(cell))).collect();
    let mut out = Vec::new();
    for (cell, patterns) in cells.iter().zip(plan(&wanted)?) {
        let mut variants = cell.variants.clone();
        weigh(&mut variants.iter_mut().map(|variant| &mut variant.when).collect::<Vec<_>>());
        // The general one first, as people read it.
        for variant in variants.iter().rev() {
            // Paths with one way of writing what follows share a route.
            let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
            let takes_rest = variant.keys.holds(REST);
            for pattern in &patterns {
                let rest = if takes_rest { pattern.rest.clone() } else { String::new() };
                match groups.iter_mut().find(|(other, paths)| *other == rest && paths.len() < MAX_PATHS) {
                    Some((_, paths)) => paths.push(pattern.path.clone()),
                    None => groups.push((rest, vec![pattern.path.clone()])),
                }
            }
            out.extend(groups.into_iter().map(|(rest, paths)| route(variant, paths, &rest)));
        }
    }
    Ok(out)
}

fn route(variant: &Variant, mut paths: Vec<Value>, rest: &str) -> Map {
    let mut route = Map::default();
    variant.keys.comments().iter().for_each(|comment| route.comment(comment.as_str()));
    if variant.when.is_weighted() {
        route.comment("the cookie that may be there or not puts this route before others that could hold, too");
    }
    let path = if paths.len() == 1 { paths.remove(0) } else { Value::List(paths) };
    route.set("path", path);
    variant.when.write(&mut route);
    variant.keys.entries().for_each(|(key, value)| route.set(key, with_rest(value, rest)));
    route
}

fn with_rest(value: &Value, rest: &str) -> Value {
    match value {
        Value::Plain(text) => Value::Plain(text.clone()),
        Value::Text(text) => Value::Text(text.replace(REST, rest)),
        Value::List(list) => Value::List(list.iter().map(|item| with_rest(item, rest)).collect()),
        Value::Map(map) => {
            let mut out = Map::default();
            map.comments().iter().for_each(|comment| out.comment(comment.as_str()));
            map.entries().for_each(|(key, value)| out.set(key, with_rest(value, rest)));
            Value::Map(out)
        }
    }
}

/// Puts hosts and listeners before the other keys of a route.
pub(crate) fn placed(route: &Map, hosts: &[String], listeners: &[String]) -> Map {
    let mut out = Map::default();
    route.comments().iter().for_each(|comment| out.comment(comment.as_str()));
    if !listeners.is_empty() {
        out.set("listeners", Value::texts(listeners.iter().cloned()));
    }
    if !hosts.is_empty() {
        out.set("hosts", Value::texts(hosts.iter().cloned()));
    }
    route.entries().for_each(|(key, value)| out.set(key, value.clone()));
    out
}

/// Routes for the sites of listeners: what several listeners have alike stands once.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// Hosts (none for any), routes, listeners.
    sites: Vec<(Vec<String>, Vec<Map>, Vec<String>)>,
}

impl Sites {
    /// Adds what a listener does for hosts.
    pub(crate) fn add(&mut self, listener: &str, hosts: Vec<String>, routes: Vec<Map>) {
        match self.sites.iter_mut().find(|(other, same, _)| *other == hosts && *same == routes) {
            Some((_, _, listeners)) if listeners.iter().any(|name| name == listener) => {}
            Some((_, _, listeners)) => listeners.push(listener.to_owned()),
            None => self.sites.push((hosts, routes, vec![listener.to_owned()])),
        }
    }

    /// All routes; `all` are the listeners that a route without `listeners` is for.
    pub(crate) fn into_routes(self, all: &[String]) -> Vec<Map> {
        let mut out = Vec::new();
        for (hosts, routes, listeners) in self.sites {
            let is_everywhere = all.iter().all(|name| listeners.contains(name));
            let listeners = if is_everywhere { Vec::new() } else { listeners };
            out.extend(routes.iter().map(|route| placed(route, &hosts, &listeners)));
        }
        out
    }
}
