//! A native configuration in parts, as an importer makes it: each part once, under a name of its own.

use super::addresses::NOBODY;
use super::migration::{accepted, name_of};
use super::native::{Map, Value};

/// Named parts of one kind, in the order in which they were made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named {
    entries: Vec<(String, Map)>,
}

impl Named {
    /// The name of a part like this one: that of one that is there already, else the wanted one, or that with a number.
    pub(crate) fn intern(&mut self, wanted: &str, part: Map) -> String {
        let wanted = name_of(wanted);
        let is_of = |name: &str| {
            let number = name.strip_prefix(wanted.as_str()).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if let Some((name, same)) = self.entries.iter_mut().find(|(name, other)| is_of(name) && *other == part) {
            part.comments().iter().for_each(|comment| same.comment(comment.as_str()));
            return name.clone();
        }
        let name = self.free(&wanted);
        self.entries.push((name.clone(), part));
        name
    }

    /// A name that nobody has yet.
    fn free(&self, wanted: &str) -> String {
        let is_free = |name: &String| !self.entries.iter().any(|(other, _)| other == name);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        std::iter::once(wanted.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn into_map(self) -> Map {
        let mut map = Map::default();
        self.entries.into_iter().for_each(|(name, part)| map.set(&name, part));
        map
    }
}

/// The parts of a configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    /// Comments about the whole.
    pub(crate) comments: Vec<String>,
    /// Settings that are there once: `workers`, `limits`, `forwarding`.
    pub(crate) settings: Map,
    pub(crate) listeners: Vec<Map>,
    pub(crate) udp_listeners: Vec<Map>,
    pub(crate) keystores: Named,
    pub(crate) upstreams: Named,
    pub(crate) policies: Named,
    pub(crate) error_pages: Named,
    pub(crate) compression: Named,
    pub(crate) routes: Vec<Map>,
}

fn first_problem(root: &Map) -> Option<String> {
    let problems = accepted(&root.write()).err()?;
    let first = problems.first().map_or("", String::as_str);
    Some(first.split_once(": ").map_or(first, |(_, why)| why).to_owned())
}

/// The name of the policy that lets nobody pass.
const CLOSED: &str = "closed";

impl Draft {
    /// A comment about the whole.
    pub(crate) fn comment(&mut self, text: String) {
        if !self.comments.contains(&text) {
            self.comments.push(text);
        }
    }

    /// `%2F` goes on as it came, as at proxies that forward the path of a request unchanged.
    pub(crate) fn encoded_slashes_pass(&mut self) {
        self.settings.set("paths", Map::of([("allow_encoded_slash", Value::plain(true))]));
    }

    /// What becomes of fields with `_` in their name.
    pub(crate) fn unusual_names(&mut self, what: &str) {
        self.settings.set("headers", Map::of([("unusual_names", Value::text(what))]));
    }

    /// The name of a policy that lets nobody pass, for what stands behind a rule that could not be carried.
    pub(crate) fn closed(&mut self) -> String {
        let mut policy = Map::of([("allow", Value::List(vec![Value::text(NOBODY)]))]);
        policy
            .comment("Lets nobody pass. It stands for rules that could not be carried: replace it where it is named.");
        self.policies.intern(CLOSED, policy)
    }

    /// Why a listener cannot be served beside what there is.
    pub(crate) fn rejects_listener(&self, listener: &Map) -> Option<String> {
        let mut draft = Draft { routes: Vec::new(), ..self.clone() };
        draft.listeners.push(listener.clone());
        first_problem(&draft.into_map())
    }

    /// Why a listener of datagrams cannot be served beside what there is.
    pub(crate) fn rejects_udp_listener(&self, listener: &Map) -> Option<String> {
        let mut draft = Draft { routes: Vec::new(), ..self.clone() };
        draft.udp_listeners.push(listener.clone());
        first_problem(&draft.into_map())
    }

    /// Why an upstream cannot be served.
    pub(crate) fn rejects_upstream(upstream: &Map) -> Option<String> {
        let listener = Map::of([("name", Value::text("x")), ("bind", Value::text("127.0.0.1:1"))]);
        let mut draft = Draft { listeners: vec![listener], ..Draft::default() };
        draft.upstreams.intern("x", upstream.clone());
        first_problem(&draft.into_map())
    }

    /// All of it as one tree.
    pub(crate) fn into_map(self) -> Map {
        let mut root = Map::default();
        self.comments.iter().for_each(|comment| root.comment(comment.as_str()));
        self.settings.entries().for_each(|(key, value)| root.set(key, value.clone()));
        let maps = |maps: Vec<Map>| Value::List(maps.into_iter().map(Value::Map).collect());
        let of_datagrams = maps(self.udp_listeners.clone());
        if !self.listeners.is_empty() || self.udp_listeners.is_empty() {
            root.set("listeners", maps(self.listeners));
        }
        if !self.udp_listeners.is_empty() {
            root.set("udp_listeners", of_datagrams);
        }
        let named = [
            ("keystores", self.keystores),
            ("upstreams", self.upstreams),
            ("policies", self.policies),
            ("error_pages", self.error_pages),
            ("compression", self.compression),
        ];
        for (key, named) in named.into_iter().filter(|(_, named)| !named.is_empty()) {
            root.set(key, named.into_map());
        }
        if !self.routes.is_empty() {
            root.set("routes", maps(self.routes));
        }
        root
    }
}
