//! `when` and `headers` of a route: what else a request must be like. A `when` is a tree, of which depth and size are bounded here.

use wire::http::Version;

use super::listeners::subject_alternative_name;
use super::placeholders::{Claims, claim_name};
use super::template::path_pattern;
use super::{Build, Fault, address, headers, read};
use crate::expression::Expression;
use crate::model::{
    Bounds, Condition, Conditions, Ja4Pattern, Origins, Scheme, ValueCondition, ValueMatch, ValueOf, Which,
};
use crate::problem::shown;
use crate::yaml::{Entry, Node, Value};

/// Longest name of a cookie or of a part of the query, bytes.
const MAX_NAME_BYTES: usize = 256;
/// Most conditions of one `when`, groups among them: how long it takes to judge a request.
const MAX_CONDITIONS: usize = 256;
/// Deepest nesting of groups: how deep judging goes.
const MAX_DEPTH: usize = 8;

/// Reads a regular expression.
pub(super) fn expression(text: &str) -> Result<Expression, Fault> {
    Expression::new(text).map_err(|(what, fix)| Fault::new(what, fix))
}

/// Where a `when` stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// What is known of claims there.
    pub(super) claims: Claims,
    /// It chooses a route, so that all readings of a path are judged by it.
    pub(super) is_route: bool,
}

/// A `when` that is being read.
struct Reading {
    place: Place,
    /// Conditions in it so far, groups among them.
    count: usize,
}

impl Build<'_> {
    /// The conditions under `headers` and `when`; none if one of them could not be read: without it the route would match more than it says.
    pub(super) fn route_conditions(&mut self, route: &Node) -> Option<Conditions> {
        let mut conditions = Conditions::default();
        let fields = self.fields(route, "headers", Ok);
        let is_whole = route.get("headers").map_or(0, |table| table.entries().len()) == fields.len();
        fields.into_iter().for_each(|(name, value)| conditions.demand_field(name, value));
        let place = Place { claims: Claims::TooEarly, is_route: true };
        let when = match route.get("when") {
            Some(node) => self.conditions(node, place),
            None => Some(Conditions::default()),
        };
        conditions.0.append(&mut when?.0);
        (is_whole && !route.is_replaced("headers")).then_some(conditions)
    }

    /// The conditions of a `when`; none if one of them could not be read.
    pub(super) fn conditions(&mut self, node: &Node, place: Place) -> Option<Conditions> {
        let mut reading = Reading { place, count: 0 };
        let conditions = self.all_of(node, &mut reading, 0);
        if reading.count > MAX_CONDITIONS {
            let what = format!("the `when` has {} conditions, {MAX_CONDITIONS} is the most", reading.count);
            self.problems.add(node.span, what, "write values as lists (`[a, b]`), or divide it into several routes");
            return None;
        }
        conditions
    }

    /// Conditions that stand beside each other.
    fn all_of(&mut self, node: &Node, reading: &mut Reading, depth: usize) -> Option<Conditions> {
        if !matches!(node.value, Value::Map(_)) {
            return None;
        }
        let mut found = Vec::new();
        let mut is_whole = true;
        if let Some(entry) = node.entry("claim") {
            is_whole &= self.take(entry.key_span, reading.place.claims.check("this demands")).is_some();
        }
        is_whole &= self.of_values(node, &mut found);
        is_whole &= self.of_request(node, reading.place, &mut found);
        is_whole &= self.of_client(node, &mut found);
        reading.count += found.len();
        is_whole &= self.groups(node, reading, depth, &mut found);
        is_whole.then_some(Conditions(found))
    }

    /// Those on values of the head, by their names. Whether all could be read, as of the following.
    fn of_values(&mut self, node: &Node, found: &mut Vec<Condition>) -> bool {
        let mut is_whole = true;
        let tables = [
            ("header", ValueOf::Header),
            ("query", ValueOf::Query),
            ("cookie", ValueOf::Cookie),
            ("claim", ValueOf::Claim),
        ];
        for (key, of) in tables {
            let Some(table) = node.get(key) else { continue };
            is_whole &= matches!(table.value, Value::Map(_));
            for entry in table.entries() {
                let name = self.take(entry.key_span, value_name(of, &entry.key));
                let any = self.value_matches(&entry.value);
                match (name, any) {
                    (Some(name), Some(any)) => found.push(Condition::Value(ValueCondition { of, name, any })),
                    _ => is_whole = false,
                }
            }
        }
        is_whole
    }

    /// Those on the request line, and on how it came.
    fn of_request(&mut self, node: &Node, place: Place, found: &mut Vec<Condition>) -> bool {
        let mut is_whole = self.of_list(node, "method", super::routes::method, Condition::Method, found);
        if let Some(entry) = node.entry("path") {
            is_whole &= self.of_path(entry, place, found);
        }
        if let Some(scheme) = node.get("scheme") {
            let scheme = match scheme.text() {
                Some("http") => Some(Scheme::Http),
                Some("https") => Some(Scheme::Https),
                _ => None,
            };
            is_whole &= scheme.is_some();
            found.extend(scheme.map(Condition::Scheme));
        }
        is_whole &= self.of_list(node, "port", port, Condition::Port, found);
        is_whole & self.of_list(node, "version", version, Condition::Version, found)
    }

    /// One on the path. Only of a route all readings of a path are judged: elsewhere, `//admin` would get around it.
    fn of_path(&mut self, entry: &Entry, place: Place, found: &mut Vec<Condition>) -> bool {
        if !place.is_route {
            let what = "`path` in a `when` that chooses no route";
            self.problems.add(entry.key_span, what, "write a route of its own for the path");
            return false;
        }
        let given = entry.value.one_or_many();
        let mut patterns = Vec::with_capacity(given.len());
        for item in given {
            patterns.extend(match item.text() {
                Some(text) => self.take(item.span, path_pattern(text)),
                None => self.path_mapping(item, true),
            });
        }
        let is_whole = self.is_some(&entry.value) && patterns.len() == given.len();
        found.push(Condition::Path(patterns));
        is_whole
    }

    /// Those on who sends a request.
    fn of_client(&mut self, node: &Node, found: &mut Vec<Condition>) -> bool {
        let mut is_whole = self.of_list(node, "client", address::network, Condition::Client, found);
        is_whole &= self.of_list(node, "server_name", address::host_pattern, Condition::ServerName, found);
        is_whole &= self.of_list(node, "ja4", ja4, Condition::Ja4, found);
        if let Some(certificate) = node.get("certificate") {
            let read = subject_alternative_name;
            is_whole &= certificate.get("san").is_some();
            is_whole &= self.of_list(certificate, "san", read, Condition::Certificate, found);
        }
        let Origins { countries, asns } = self.origins(node);
        for (key, taken) in [("country", countries.len()), ("asn", asns.len())] {
            let Some(list) = node.get(key) else { continue };
            is_whole &= self.is_some(list) && list.one_or_many().len() == taken;
        }
        found.extend((!countries.is_empty()).then_some(Condition::Country(countries)));
        found.extend((!asns.is_empty()).then_some(Condition::Asn(asns)));
        is_whole
    }

    /// One of which the file lists what it may be.
    fn of_list<T: PartialEq>(
        &mut self,
        node: &Node,
        key: &str,
        read: impl Fn(&str) -> Result<T, Fault>,
        condition: impl FnOnce(Vec<T>) -> Condition,
        found: &mut Vec<Condition>,
    ) -> bool {
        let Some(list) = node.get(key) else { return true };
        let taken = self.parsed_list(node, key, read);
        let is_whole = self.is_some(list) && taken.len() == list.one_or_many().len();
        found.push(condition(taken));
        is_whole
    }

    /// Notes a list of nothing, by which a condition would never hold.
    fn is_some(&mut self, list: &Node) -> bool {
        let is_empty = list.one_or_many().is_empty() && matches!(list.value, Value::List(_));
        if is_empty {
            self.problems.add(
                list.span,
                "the list is empty, so the condition never holds",
                "name something, or remove it",
            );
        }
        !is_empty
    }

    /// Conditions with others in them.
    fn groups(&mut self, node: &Node, reading: &mut Reading, depth: usize, found: &mut Vec<Condition>) -> bool {
        let mut is_whole = true;
        for key in ["all", "any", "not"] {
            let Some(entry) = node.entry(key) else { continue };
            if depth >= MAX_DEPTH {
                let what = format!("conditions are nested deeper than {MAX_DEPTH} levels");
                self.problems.add(entry.key_span, what, "write `all` in `all` as one list, and so with `any`");
                return false;
            }
            reading.count += 1;
            let Some(items) = self.group_items(entry, reading, depth + 1) else {
                is_whole = false;
                continue;
            };
            match key {
                "all" => found.push(Condition::All(items)),
                "any" => found.push(Condition::Any(items)),
                _ => found.extend(items.into_iter().next().map(Condition::Not)),
            }
        }
        is_whole
    }

    /// What stands under `all`, `any` or `not`: of the last it is one mapping.
    fn group_items(&mut self, entry: &Entry, reading: &mut Reading, depth: usize) -> Option<Vec<Conditions>> {
        let nodes = match (&entry.value.value, entry.key.as_str()) {
            (Value::List(items), "all" | "any") => items.as_slice(),
            (Value::Map(_), "not") => std::slice::from_ref(&entry.value),
            _ => return None,
        };
        if nodes.is_empty() {
            let what = format!("`{}` has no conditions", entry.key);
            self.problems.add(entry.value.span, what, "name some, or remove it");
            return None;
        }
        let mut items = Vec::with_capacity(nodes.len());
        for node in nodes {
            let conditions = self.all_of(node, reading, depth);
            if conditions.as_ref().is_some_and(Conditions::is_empty) {
                let what = format!("{} has no conditions, so it always holds", shown(&entry.key));
                self.problems.add(node.span, what, "name some, or remove it");
                return None;
            }
            items.push(conditions);
        }
        items.into_iter().collect()
    }

    /// What a value may be: a text, a mapping, or a list of such.
    fn value_matches(&mut self, node: &Node) -> Option<Vec<ValueMatch>> {
        let given = node.one_or_many();
        if given.is_empty() && matches!(node.value, Value::List(_)) {
            self.problems.add(
                node.span,
                "the list is empty, so the condition never holds",
                "name a value, or remove it",
            );
        }
        let any: Vec<ValueMatch> = given.iter().filter_map(|item| self.value_match(item)).collect();
        (!any.is_empty() && any.len() == given.len()).then_some(any)
    }

    fn value_match(&mut self, node: &Node) -> Option<ValueMatch> {
        if let Some(text) = node.text() {
            return self.take(node.span, headers::field_value(text)).map(ValueMatch::Exact);
        }
        if let Some(wanted) = self.of_all_values(node) {
            if let Some(entry) = node.entry("which") {
                let what = "`which` beside `present` or `count`, which are about all values";
                self.problems.add(entry.key_span, what, "remove it");
            }
            return Some(wanted);
        }
        let wanted = self.of_one_value(node)?;
        let of = |which| ValueMatch::Of(which, Box::new(wanted.clone()));
        match node.get("which").map(Node::text) {
            None | Some(Some("any")) => Some(wanted),
            Some(Some("first")) => Some(of(Which::First)),
            Some(Some("last")) => Some(of(Which::Last)),
            Some(Some("all")) => Some(of(Which::All)),
            Some(_) => None,
        }
    }

    /// What there may be by a name.
    fn of_all_values(&mut self, node: &Node) -> Option<ValueMatch> {
        match super::read::boolean(node, "present") {
            Some(true) => Some(ValueMatch::Present),
            Some(false) => Some(ValueMatch::Absent),
            None => self.bounds(node, "count").map(ValueMatch::Count),
        }
    }

    /// What one value may be.
    fn of_one_value(&mut self, node: &Node) -> Option<ValueMatch> {
        if let Some(exact) = self.parsed(node, "exact", headers::field_value) {
            return Some(ValueMatch::Exact(exact));
        }
        if let Some(prefix) = self.parsed(node, "prefix", prefix) {
            return Some(ValueMatch::Prefix(prefix));
        }
        if let Some(regex) = self.parsed(node, "regex", expression) {
            return Some(ValueMatch::Regex(regex));
        }
        let length = self.bounds(node, "length").map(ValueMatch::Length);
        length.or_else(|| self.bounds(node, "number").map(ValueMatch::Number))
    }

    /// Bounds of a number.
    fn bounds(&mut self, node: &Node, key: &str) -> Option<Bounds> {
        let entry = node.entry(key)?;
        let bounds = &entry.value;
        let [equals, least, most] = ["equals", "at_least", "at_most"].map(|key| read::int::<u64>(bounds, key));
        if bounds.entries().is_empty() {
            let what = format!("`{key}` has no bound");
            self.problems.add(bounds.span, what, "add `equals`, `at_least` or `at_most`");
            return None;
        }
        if equals.is_some() && (least.is_some() || most.is_some()) {
            self.problems.add(bounds.span, "`equals` beside another bound", "keep one of the two");
            return None;
        }
        let bounds_of = Bounds { least: equals.or(least).unwrap_or(0), most: equals.or(most).unwrap_or(u64::MAX) };
        if bounds_of.least > bounds_of.most {
            let what = format!("no number is at least {} and at most {}", bounds_of.least, bounds_of.most);
            self.problems.add(bounds.span, what, "exchange the two");
            return None;
        }
        // A bound that could not be read was reported: without it there would be none.
        let given = bounds.entries().len();
        ([equals, least, most].into_iter().flatten().count() == given).then_some(bounds_of)
    }
}

/// The `claim` of a `when`, at whatever depth.
pub(super) fn claim_of(when: &Node) -> Option<&Entry> {
    let groups = ["all", "any"].into_iter().filter_map(|key| when.get(key)).flat_map(Node::items);
    let mut further = groups.chain(when.get("not"));
    when.entry("claim").or_else(|| further.find_map(claim_of))
}

/// How many regular expressions stand in a `when`.
pub(super) fn expressions_in(when: &Node) -> usize {
    match &when.value {
        Value::Map(entries) => {
            let of_entry = |entry: &Entry| match entry.key.as_str() {
                "regex" if entry.value.text().is_some() => 1,
                _ => expressions_in(&entry.value),
            };
            entries.iter().map(of_entry).sum()
        }
        Value::List(items) => items.iter().map(expressions_in).sum(),
        _ => 0,
    }
}

fn port(text: &str) -> Result<u16, Fault> {
    let read = text.parse::<u16>().ok().filter(|port| *port > 0);
    read.ok_or_else(|| Fault::new(format!("{} is not a port", shown(text)), "use 1 to 65535"))
}

fn version(text: &str) -> Result<Version, Fault> {
    match text {
        "1.0" => Ok(Version::H10),
        "1.1" => Ok(Version::H11),
        "2" => Ok(Version::H2),
        "3" => Ok(Version::H3),
        _ => Err(Fault::new(format!("{} is no version of HTTP", shown(text)), "use `1.0`, `1.1`, `2` or `3`")),
    }
}

/// A JA4 fingerprint, of which whole parts may be left open.
fn ja4(text: &str) -> Result<Ja4Pattern, Fault> {
    let wrong = |what: &str| {
        let fix = "copy it from the access log (`log: { access: { fields: { ja4: '{tls.ja4}' } } }`); `*` stands for a whole part";
        Err(Fault::new(format!("{} {what}", shown(text)), fix))
    };
    let parts: Vec<&str> = text.split('_').collect();
    let [first, suites, extensions] = parts[..] else {
        return wrong("is no JA4 fingerprint: it has three parts with `_` between them");
    };
    let is_digest = |part: &str| {
        part == "*" || (part.len() == 12 && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    };
    let is_first = first == "*" || (first.len() == 10 && first.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    if !is_first || !is_digest(suites) || !is_digest(extensions) {
        return wrong("is no JA4 fingerprint: its parts have 10, 12 and 12 characters, the last two in hexadecimal");
    }
    if !first.starts_with(['t', 'q', '*']) {
        return wrong("is of no client that comes here: fingerprints begin with `t` (TLS over TCP) or `q` (QUIC)");
    }
    match parts.iter().all(|part| *part == "*") {
        true => wrong("is any fingerprint"),
        false => Ok(Ja4Pattern { text: text.to_owned() }),
    }
}

/// The start of a value. Visible ASCII, and blanks within it.
fn prefix(text: &str) -> Result<String, Fault> {
    if text.is_empty() {
        return Err(Fault::new("each value begins with nothing", "write `present: true`"));
    }
    match text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) && !text.starts_with([' ', '\t']) {
        true => Ok(text.to_owned()),
        false => Err(Fault::new(format!("no value begins with {}", shown(text)), "use visible ASCII")),
    }
}

/// The name of a value.
fn value_name(of: ValueOf, text: &str) -> Result<String, Fault> {
    match of {
        ValueOf::Header => headers::field_name(text),
        ValueOf::Cookie if text.len() <= MAX_NAME_BYTES && headers::is_token(text) => Ok(text.to_owned()),
        ValueOf::Cookie => {
            Err(Fault::new(format!("{} is not the name of a cookie", shown(text)), "use letters, digits, `-` and `_`"))
        }
        ValueOf::Claim => claim_name(text),
        ValueOf::Query if !text.is_empty() && text.len() <= MAX_NAME_BYTES => Ok(text.to_owned()),
        ValueOf::Query => Err(Fault::new("this cannot be the name of a query parameter", "write the decoded name")),
    }
}
