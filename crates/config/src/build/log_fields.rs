//! Fields that the configuration adds to the access log: for all requests (`log.access.fields`), and for those of a route (`log_fields`).
//!
//! Settled for each route at load: which of its path's parameters are meant, and what it replaces of the fields for all requests. Credentials never get there.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::order::all_routes;
use super::placeholders::{Claims, Placeholder, Scope, cut, parts, placeholder};
use super::{Build, Fault, access_log, identifier, read};
use crate::model::{Escape, LogField, RouteConfig, Template, TemplatePart, Variable};
use crate::problem::shown;
use crate::yaml::Node;

/// Most fields of one table.
const MAX_FIELDS: usize = 32;

/// Names under which clients show credentials.
pub(super) struct Credentials {
    /// Header fields, in lower case.
    headers: BTreeSet<String>,
    cookies: BTreeSet<String>,
    /// Query parameters that the log does not show.
    redacted: BTreeSet<String>,
}

impl Credentials {
    /// Those that a configuration reads.
    pub(super) fn of(root: &Node) -> Credentials {
        let mut headers: BTreeSet<String> =
            ["authorization", "proxy-authorization", "cookie"].map(str::to_owned).into_iter().collect();
        let mut cookies = BTreeSet::new();
        let policies = root.get("policies").map(Node::entries).unwrap_or_default();
        let contracts = root.get("contracts").map(Node::entries).unwrap_or_default();
        let of_policies = policies.iter().filter_map(|entry| entry.value.get("jwt"));
        let of_contracts = contracts.iter().filter_map(|entry| entry.value.get("deny_tokens"));
        for node in of_policies.chain(of_contracts) {
            headers.extend(read::text(node, "header").map(str::to_ascii_lowercase));
            cookies.extend(read::text(node, "cookie").map(str::to_owned));
        }
        let access = root.get("log").and_then(|log| log.get("access"));
        let redacted = access.map(access_log::redacted).unwrap_or_default().into_iter().collect();
        Credentials { headers, cookies, redacted }
    }

    /// The value of a field, unless a credential stands in it.
    fn none_in(&self, parts: Vec<TemplatePart>) -> Result<Template, Fault> {
        let template = Template { parts };
        let is_redacted = |name: &str| {
            access_log::folded(name).split(['[', ']']).any(|part| self.redacted.contains(part.trim_matches('_')))
        };
        if template.variables().any(|variable| *variable == Variable::WholeQuery) {
            let what = "`{query}` would show what the log redacts";
            return Err(Fault::new(what, "write `{uri}`, whose query is redacted as in the request line"));
        }
        let redacted = template.variables().find_map(|variable| match variable {
            Variable::Query(name) if is_redacted(name) => Some(name),
            _ => None,
        });
        if let Some(name) = redacted {
            let what = format!("the query parameter {} is redacted in the log", shown(name));
            let fix = "leave it out; if it is no secret, set `log.access.redact: { well_known: false }` and list in `query` what is one";
            return Err(Fault::new(what, fix));
        }
        let is_one = |variable: &&Variable| match variable {
            Variable::Header(name) => self.headers.contains(name),
            Variable::Cookie(name) => self.cookies.contains(name),
            _ => false,
        };
        if let Some(Variable::Header(name) | Variable::Cookie(name)) = template.variables().find(is_one) {
            let fix = "leave it out; `user` and `{claim.NAME}` say who has shown it";
            return Err(Fault::new(format!("{} is a credential, which no log may hold", shown(name)), fix));
        }
        Ok(template)
    }
}

impl Build<'_> {
    /// The fields that a route adds.
    pub(super) fn route_log_fields(
        &mut self,
        route: &Node,
        scope: Scope<'_>,
        credentials: &Credentials,
    ) -> Arc<[LogField]> {
        let read = |text: &str| credentials.none_in(parts(text, scope, Escape::Raw)?);
        self.log_table(route.get("log_fields"), read).into()
    }

    /// The fields for all requests, as they are where no route is known; each route gets them as they are there.
    pub(super) fn log_fields(&mut self, root: &Node, routes: &mut [RouteConfig]) -> Arc<[LogField]> {
        let access = root.get("log").and_then(|log| log.get("access"));
        if access.is_some_and(|access| access.text() == Some("none")) {
            for entry in all_routes(root).filter_map(|node| node.entry("log_fields")) {
                let what = "`log_fields` beside `log: { access: none }`";
                self.problems.add(entry.key_span, what, "remove one of the two");
            }
        }
        let credentials = Credentials::of(root);
        let policies = root.get("policies").map(Node::entries).unwrap_or_default();
        let is_verified = policies.iter().any(|entry| read::mapping(&entry.value, "jwt").is_some());
        let claims = if is_verified { Claims::Verified } else { Claims::Unverified };
        let known: BTreeSet<String> =
            routes.iter().flat_map(|route| route.path.parameters()).map(str::to_owned).collect();
        let read = |text: &str, parameters: &[&str]| {
            credentials.none_in(cut(text, Escape::Raw, true, |name| of_any_route(name, parameters, &known, claims))?)
        };
        let table = access.and_then(|access| access.get("fields"));
        let fields: Arc<[LogField]> = self.log_table(table, |text| read(text, &[])).into();
        // The text of each that could be read.
        let entries = table.map(Node::entries).unwrap_or_default();
        let text_of = |name: &str| entries.iter().find(|entry| entry.key == name)?.value.text();
        let is_same_everywhere =
            !entries.iter().any(|entry| entry.value.text().is_some_and(|text| text.contains("{path.")));
        for route in routes {
            if is_same_everywhere && route.log_fields.is_empty() {
                route.log_fields = Arc::clone(&fields);
                continue;
            }
            let parameters: Vec<&str> = route.path.parameters().collect();
            let is_own = |field: &&LogField| !route.log_fields.iter().any(|own| own.name == field.name);
            let here = fields.iter().filter(is_own).filter_map(|field| {
                let value = read(text_of(&field.name)?, &parameters).ok()?;
                Some(LogField { name: field.name.clone(), value })
            });
            route.log_fields = here.chain(route.log_fields.iter().cloned()).collect();
        }
        fields
    }

    fn log_table(&mut self, table: Option<&Node>, read: impl Fn(&str) -> Result<Template, Fault>) -> Vec<LogField> {
        let entries = table.map(Node::entries).unwrap_or_default();
        if let Some(entry) = entries.get(MAX_FIELDS) {
            self.problems.add(entry.key_span, format!("more than {MAX_FIELDS} fields"), "add fewer");
        }
        let mut fields = Vec::new();
        for entry in entries.iter().take(MAX_FIELDS) {
            let name = self.take(entry.key_span, identifier(&entry.key));
            let value = entry.value.text().and_then(|text| self.take(entry.value.span, read(text)));
            fields.extend(name.zip(value).map(|(name, value)| LogField { name, value }));
        }
        fields
    }
}

/// Reads a placeholder of a text that is meant for all routes: parameters of the path are written `path.NAME`, and a route that has none of that name leaves
/// it out.
fn of_any_route(
    name: &str,
    parameters: &[&str],
    known: &BTreeSet<String>,
    claims: Claims,
) -> Result<Placeholder, Fault> {
    let Some(parameter) = name.strip_prefix("path.") else {
        return placeholder(name, Scope { parameters: &[], empty: &[], claims }).map_err(|fault| {
            match known.contains(name) {
                true => Fault::new(
                    format!("{} is a parameter, and not of every path", shown(name)),
                    format!("write `{{path.{name}}}`"),
                ),
                false => fault,
            }
        });
    };
    match parameters.iter().position(|own| *own == parameter) {
        Some(index) => Ok(Placeholder::Parameter(index)),
        None if known.contains(parameter) => Ok(Placeholder::Nothing),
        None => {
            let what = format!("no route has a path parameter {}", shown(parameter));
            Err(Fault::new(what, "write the name of one, as in `{path.tenant}` for `/{tenant}/{*rest}`"))
        }
    }
}
