//! `when` and `headers` of a route: what else a request must be like.

use super::listeners::subject_alternative_name;
use super::placeholders::{Claims, claim_name};
use super::{Build, Fault, address, headers};
use crate::expression::Expression;
use crate::model::{Conditions, Ja4Pattern, ValueCondition, ValueMatch, ValueOf};
use crate::problem::shown;
use crate::yaml::{Node, Value};

/// Longest name of a cookie or of a part of the query, bytes.
const MAX_NAME_BYTES: usize = 256;

/// Reads a regular expression.
pub(super) fn expression(text: &str) -> Result<Expression, Fault> {
    Expression::new(text).map_err(|(what, fix)| Fault::new(what, fix))
}

impl Build<'_> {
    /// The conditions under `headers` and `when`; none if one of them could not be read: without it the route would match more than it says.
    pub(super) fn route_conditions(&mut self, route: &Node) -> Option<Conditions> {
        let mut conditions = Conditions::default();
        let fields = self.fields(route, "headers", Ok);
        let is_whole = route.get("headers").map_or(0, |table| table.entries().len()) == fields.len();
        fields.into_iter().for_each(|(name, value)| conditions.demand_field(name, value));
        let whole = match route.get("when") {
            Some(node) => self.conditions(node, Claims::TooEarly, &mut conditions),
            None => true,
        };
        (is_whole && whole && !route.is_replaced("headers")).then_some(conditions)
    }

    /// Adds the conditions of a `when`; whether all of them could be read.
    pub(super) fn conditions(&mut self, node: &Node, claims: Claims, conditions: &mut Conditions) -> bool {
        if !matches!(node.value, Value::Map(_)) {
            return false;
        }
        let mut is_whole = true;
        if let Some(entry) = node.entry("claim") {
            is_whole &= self.take(entry.key_span, claims.check("this demands")).is_some();
        }
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
                    (Some(name), Some(any)) => conditions.values.push(ValueCondition { of, name, any }),
                    _ => is_whole = false,
                }
            }
        }
        conditions.client = self.parsed_list(node, "client", address::network);
        conditions.server_name = self.parsed_list(node, "server_name", address::host_pattern);
        conditions.ja4 = self.parsed_list(node, "ja4", ja4);
        conditions.origins = self.origins(node);
        let certificate = node.get("certificate");
        conditions.certificate =
            certificate.map(|node| self.parsed_list(node, "san", subject_alternative_name)).unwrap_or_default();
        let read = [
            (node.get("client"), conditions.client.len()),
            (node.get("server_name"), conditions.server_name.len()),
            (node.get("ja4"), conditions.ja4.len()),
            (node.get("country"), conditions.origins.countries.len()),
            (node.get("asn"), conditions.origins.asns.len()),
            (certificate.and_then(|node| node.get("san")), conditions.certificate.len()),
        ];
        for (list, taken) in read {
            let Some(list) = list else { continue };
            let given = list.one_or_many().len();
            if given == 0 && matches!(list.value, Value::List(_)) {
                self.problems.add(
                    list.span,
                    "the list is empty, so the condition never holds",
                    "name something, or remove it",
                );
            }
            is_whole &= given > 0 && given == taken;
        }
        is_whole && certificate.is_none_or(|node| node.get("san").is_some())
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
        if let Some(exact) = self.parsed(node, "exact", headers::field_value) {
            return Some(ValueMatch::Exact(exact));
        }
        if let Some(prefix) = self.parsed(node, "prefix", prefix) {
            return Some(ValueMatch::Prefix(prefix));
        }
        if let Some(regex) = self.parsed(node, "regex", expression) {
            return Some(ValueMatch::Regex(regex));
        }
        match super::read::boolean(node, "present")? {
            true => Some(ValueMatch::Present),
            false => Some(ValueMatch::Absent),
        }
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
