//! Paths and their operations.

use super::{At, Reader};
use crate::document::{Fault, Kind};
use crate::openapi::model::{Operation, Parameter};
use crate::openapi::template::Template;
use crate::validate::Part;

/// Methods that a path item has a member for; `query` since OpenAPI 3.2.
const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// What the operations of one path have in common.
struct Shared<'d> {
    text: &'d str,
    template: Template,
    bases: Vec<Template>,
    parameters: Vec<Parameter>,
}

impl<'d> Reader<'d> {
    pub(super) fn paths(&mut self, paths: At<'d>) {
        if !matches!(paths.node.kind, Kind::Object(_)) {
            return self.fault(paths, format!("`paths` must be an object, not {}", paths.node.kind_name()));
        }
        for (key, node) in paths.node.members() {
            if key.text.starts_with("x-") {
                continue;
            }
            match Template::parse(&key.text) {
                Ok(template) => self.path_item(&key.text, template, At { node, base: paths.base }),
                Err(why) => {
                    let text = crate::validate::shown(key.text.as_bytes());
                    self.faults.push(Fault::new(key.place, format!("the path `{text}`: {why}")));
                }
            }
        }
    }

    fn path_item(&mut self, text: &'d str, template: Template, at: At<'d>) {
        if at.get("$ref").is_some() && at.members().any(|(name, _)| METHODS.contains(&name) || name == "parameters") {
            return self.fault(at, "a path item has operations beside its `$ref`; what that means is not defined");
        }
        let Some(item) = self.follow(at) else { return };
        let known: Vec<&str> = ["$ref", "summary", "description", "servers", "parameters", "additionalOperations"]
            .iter()
            .chain(METHODS)
            .copied()
            .collect();
        if !self.known(item, "a path item", &known) {
            return;
        }
        let bases = self.base_paths(item.get("servers")).unwrap_or_else(|| self.bases.clone());
        let parameters = self.parameters(item.get("parameters"));
        let shared = Shared { text, template, bases, parameters };
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                self.operation(&shared, &method.to_ascii_uppercase(), operation);
            }
        }
        for (method, operation) in item.get("additionalOperations").into_iter().flat_map(At::members) {
            match crate::body::media_type::is_token(method) && !METHODS.contains(&method.to_ascii_lowercase().as_str())
            {
                true => self.operation(&shared, method, operation),
                false => self.fault(operation, format!("`{method}` is no method, or has a member of its own")),
            }
        }
    }

    fn operation(&mut self, shared: &Shared<'d>, method: &str, at: At<'d>) {
        let known = [
            "tags",
            "summary",
            "description",
            "externalDocs",
            "operationId",
            "parameters",
            "requestBody",
            "responses",
            "callbacks",
            "deprecated",
            "security",
            "servers",
        ];
        if !self.known(at, "an operation", &known) {
            return;
        }
        let id = self.text(at, "operationId");
        if let Some(id) = id
            && let Some(first) = self.operation_ids.insert(id, at.node.place)
        {
            self.warn(at, format!("the operationId `{id}` is here twice, first in line {}", first.line));
        }
        let mut parameters = shared.parameters.clone();
        for own in self.parameters(at.get("parameters")) {
            parameters.retain(|shared| (shared.part, &shared.name) != (own.part, &own.name));
            parameters.push(own);
        }
        let of = |part| parameters.iter().filter(|one| one.part == part).cloned().collect::<Vec<_>>();
        let path = self.path_values(shared, at, of(Part::Path));
        let body = at.get("requestBody").and_then(|body| self.request_body(body));
        let responses = self.responses(at.get("responses"));
        let security = self.requirements(at.get("security")).unwrap_or_else(|| self.security.clone());
        let number = self.operations.len();
        let bases = self.base_paths(at.get("servers")).unwrap_or_else(|| shared.bases.clone());
        for base in &bases {
            if let Err(other) = self.router.add(&shared.template.below(base), shared.text, method, number) {
                self.fault(at, format!("`{other}` and `{}` match the same paths", shared.text));
                break;
            }
        }
        self.operations.push(Operation {
            number,
            id: id.map(str::to_owned),
            method: method.to_owned(),
            template: shared.text.to_owned(),
            path,
            query: of(Part::Query),
            fields: of(Part::Header),
            cookies: of(Part::Cookie),
            body,
            responses,
            security,
        });
    }

    /// The path parameters in the order of the template's expressions.
    fn path_values(&mut self, shared: &Shared<'d>, at: At<'d>, declared: Vec<Parameter>) -> Vec<Parameter> {
        for parameter in &declared {
            if !shared.template.names.contains(&parameter.name) {
                self.warn(at, format!("the path `{}` has no `{{{}}}`", shared.text, parameter.name));
            }
        }
        let mut ordered = Vec::new();
        for name in &shared.template.names {
            match declared.iter().find(|parameter| parameter.name == *name) {
                Some(parameter) => ordered.push(parameter.clone()),
                None => self.fault(at, format!("`{{{name}}}` of the path `{}` is no declared parameter", shared.text)),
            }
        }
        ordered
    }
}
