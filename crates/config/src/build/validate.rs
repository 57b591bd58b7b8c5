//! `validate` of a route: how another proxy asks, and by which contracts.

use std::collections::BTreeMap;

use super::{Build, read};
use crate::model::{Action, Bodies, PathPattern, Validate, ValidateProtocol};
use crate::problem::{Span, shown};
use crate::yaml::Node;

impl Build<'_> {
    /// Validation for another proxy. What a question could not be read by, or validated by, is a problem here and not of every question.
    pub(super) fn validate(
        &mut self,
        route: &Node,
        node: &Node,
        path: Option<&PathPattern>,
        contracts: &BTreeMap<&str, Span>,
    ) -> Option<Action> {
        let protocol = match read::text(node, "protocol")? {
            "auth_request" => ValidateProtocol::AuthRequest,
            "forward_auth" => ValidateProtocol::ForwardAuth,
            "ext_authz" => ValidateProtocol::ExtAuthz,
            "ext_authz_grpc" => ValidateProtocol::ExtAuthzGrpc,
            "ext_proc" => ValidateProtocol::ExtProc,
            _ => ValidateProtocol::Schemas,
        };
        let bodies = match (read::text(node, "bodies"), protocol) {
            (Some("whole"), _) | (None, ValidateProtocol::ExtProc | ValidateProtocol::Schemas) => Bodies::Whole,
            _ => Bodies::Unseen,
        };
        let is_schemas = protocol == ValidateProtocol::Schemas;
        if let Some(contract) = route.get("contract").filter(|name| is_schemas != (name.text() == Some("none"))) {
            let (what, fix) = match is_schemas {
                true => ("the contracts of `schemas` are named there", "remove `contract`"),
                false => ("`validate` without a contract", "name the contract to validate by"),
            };
            self.problems.add(contract.span, what, fix);
        }
        let prefix = match protocol {
            ValidateProtocol::ExtAuthz => self.prefix(node, path?)?,
            _ => String::new(),
        };
        let schemas = self.schemas(node, is_schemas, contracts);
        let max_errors = read::int(node, "max_errors").unwrap_or(0);
        Some(Action::Validate(Validate { protocol, bodies, prefix, schemas, max_errors }))
    }

    /// The fields of `forward_auth` are removed unless trusted proxies are known to set them, so that nobody else can say what is asked about.
    pub(super) fn validate_trust(&mut self, root: &Node, route: &Node) {
        let protocol = route.get("validate").and_then(|node| node.get("protocol"));
        let Some(protocol) = protocol.filter(|node| node.text() == Some("forward_auth")) else { return };
        let list = root.get("forwarding").and_then(|node| node.get("trusted_fields"));
        let fields: Vec<&str> = list.map(Node::one_or_many).unwrap_or_default().iter().filter_map(Node::text).collect();
        let trusts = |name: &str| fields.iter().any(|field| field.eq_ignore_ascii_case(name));
        let has_proxies = root.get("trusted_proxies").is_some_and(|list| !list.one_or_many().is_empty());
        if !has_proxies || !trusts("X-Forwarded-Method") || !trusts("X-Forwarded-Uri") {
            let what = "`forward_auth` without a proxy that is trusted to say what it asks about";
            let fix = "add the proxy to `trusted_proxies`, and `X-Forwarded-Method` and `X-Forwarded-Uri` to `forwarding.trusted_fields`";
            self.problems.add(protocol.span, what, fix);
        }
    }

    /// What stands before the path that a question is about.
    fn prefix(&mut self, node: &Node, path: &PathPattern) -> Option<String> {
        let text = Some(&path.text).filter(|_| path.expression().is_none());
        let before = text
            .and_then(|text| text.rsplit_once("/{*"))
            .map(|(before, _)| before)
            .filter(|before| !before.contains('{'));
        if before.is_none() {
            let what = "`ext_authz` with a path in which nothing stands for that of the request";
            self.problems.add(node.span, what, "write `path: /ext_authz/{*path}`, and the same prefix in Envoy");
        }
        before.map(str::to_owned)
    }

    fn schemas(&mut self, node: &Node, is_schemas: bool, contracts: &BTreeMap<&str, Span>) -> BTreeMap<u32, String> {
        let mut schemas = BTreeMap::new();
        let entries = node.get("schemas").map(Node::entries).unwrap_or_default();
        for entry in entries {
            match entry.key.parse() {
                Ok(id) if entry.key.bytes().all(|byte| byte.is_ascii_digit()) => {
                    if let Some(name) = self.name_of(&entry.value, "contract", contracts)
                        && schemas.insert(id, name).is_some()
                    {
                        let what = format!("{id} is in `schemas` twice");
                        self.problems.add(entry.key_span, what, "keep one of the two");
                    }
                }
                _ => self.problems.add(
                    entry.key_span,
                    format!("{} is no number of a schema", shown(&entry.key)),
                    "write a whole number up to 4294967295",
                ),
            }
        }
        match (is_schemas, node.entry("schemas")) {
            (true, None) => {
                self.problems.add(node.span, "`protocol: schemas` without `schemas`", "write `schemas: { 1: shop }`");
            }
            (false, Some(entry)) => {
                let fix = "remove it; the contract is the route's, its host's or its listener's";
                self.problems.add(entry.key_span, "`schemas` has no effect beside this `protocol`", fix);
            }
            _ => {}
        }
        schemas
    }
}
