//! Paths and their operations.

use super::unsupported::{Gathered, Sides};
use super::{At, Reader};
use crate::document::{Fault, Key, Kind, Place};
use crate::message::Part;
use crate::openapi::model::{Operation, Parameter};
use crate::openapi::security::Requirement;
use crate::openapi::template::{Template, Unusable};

/// Methods that a path item has a member for; `query` since OpenAPI 3.2.
pub(crate) const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// Members of a path item that are no methods.
const COMMON: &[&str] = &["$ref", "summary", "description", "servers", "parameters", "additionalOperations"];

/// Members of an operation.
const OPERATION: &[&str] = &[
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

/// A path as the document writes it, and what it matches.
#[derive(Clone)]
struct Path<'d> {
    text: &'d str,
    template: Template,
    /// It is not known where its values are: the template matches whatever it may.
    is_loose: bool,
}

/// What the operations of one path have in common.
struct Shared<'d> {
    path: Path<'d>,
    bases: Vec<Template>,
    parameters: Vec<Parameter>,
    /// The path item and those that its `$ref` leads to; empty where they cannot be read.
    layers: Vec<At<'d>>,
}

/// What an operation says of its requests.
struct Asked<'d> {
    id: Option<&'d str>,
    parameters: Vec<Parameter>,
    path: Vec<Parameter>,
    body: Option<crate::openapi::model::Body>,
    security: Vec<Requirement>,
    bases: Option<Vec<Template>>,
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
            if key.text == "$ref" {
                let what =
                    "`paths` has no `$ref`; write each path with a `$ref` of its own: `/pets: { $ref: \"pets.yaml\" }`";
                self.fault_at(key.place, what.to_owned());
                continue;
            }
            let (path, problems) = self.apart(|reader| reader.path(key));
            let Some(path) = path else {
                self.others.extend(problems.faults);
                continue;
            };
            self.path_item(path, At { node, base: paths.base }, problems);
        }
    }

    /// What a path of the document matches; none if nothing can.
    fn path(&mut self, key: &'d Key) -> Option<Path<'d>> {
        let text = key.text.as_str();
        let shown = crate::message::shown(text.as_bytes());
        let rooted = if text.starts_with('/') {
            text.into()
        } else {
            self.warn_at(key.place, format!("the path `{shown}` does not start with `/`; read as `/{shown}`"));
            std::borrow::Cow::Owned(format!("/{text}"))
        };
        match Template::parse(&rooted) {
            Ok(template) => Some(Path { text, template, is_loose: false }),
            Err(Unusable::Unreachable(why)) => {
                self.warn_at(key.place, format!("the path `{shown}`: {why}, so no request reaches it; it is left out"));
                None
            }
            Err(Unusable::Unclear(why)) => {
                self.fault_at(key.place, format!("the path `{shown}`: {why}"));
                Some(Path { text, template: Template::loose(&rooted), is_loose: true })
            }
        }
    }

    fn path_item(&mut self, path: Path<'d>, at: At<'d>, mut problems: Gathered) {
        let (shared, more) = self.apart(|reader| reader.shared(path, at));
        problems.add(&more);
        self.others.extend(problems.faults.iter().cloned());
        if shared.layers.is_empty() {
            // Nobody knows which methods there are.
            METHODS.iter().for_each(|method| self.unreadable(&shared, &method.to_ascii_uppercase(), problems.clone()));
            return;
        }
        for method in METHODS {
            let (operation, twice) = self.apart(|reader| reader.only(&shared.layers, method));
            let Some(operation) = operation else { continue };
            let mut problems = problems.clone();
            problems.add(&twice);
            self.operation(&shared, &method.to_ascii_uppercase(), operation, problems);
        }
        let more: Vec<_> = shared.layers.iter().filter_map(|layer| layer.get("additionalOperations")).collect();
        for (method, operation) in more.into_iter().flat_map(At::members) {
            match crate::media_type::is_token(method) && !METHODS.contains(&method.to_ascii_lowercase().as_str()) {
                true => self.operation(&shared, method, operation, problems.clone()),
                false => {
                    self.warn(
                        operation,
                        format!("`{method}` is no method, or has a member of its own; it is left out"),
                    );
                }
            }
        }
    }

    /// What stands beside the operations of a path, and where they stand.
    fn shared(&mut self, path: Path<'d>, at: At<'d>) -> Shared<'d> {
        let bases = self.bases.0.clone();
        let mut shared = Shared { path, bases, parameters: Vec::new(), layers: Vec::new() };
        let Some(layers) = self.layers(at) else { return shared };
        let known: Vec<&str> = COMMON.iter().chain(METHODS).copied().collect();
        if layers.iter().all(|layer| self.known(*layer, "a path item", &known)) {
            let servers = self.only(&layers, "servers");
            shared.bases = self.base_paths(servers).unwrap_or(shared.bases);
            let parameters = self.only(&layers, "parameters");
            shared.parameters = self.parameters(parameters);
            shared.layers = layers;
        }
        shared
    }

    /// A path item, and those that its `$ref` leads to: they make one, of the members of all (OpenAPI 3.1.1 §4.8.9.1).
    fn layers(&mut self, mut at: At<'d>) -> Option<Vec<At<'d>>> {
        let mut layers = vec![at];
        while at.get("$ref").is_some() {
            at = self.follow_once(at)?;
            if layers.len() == super::MAX_HOPS {
                self.fault(at, "references form a cycle");
                return None;
            }
            layers.push(at);
        }
        Some(layers)
    }

    /// A member of a path item that its `$ref` makes one with others. What it means twice is not defined.
    fn only(&mut self, layers: &[At<'d>], name: &str) -> Option<At<'d>> {
        let mut found = layers.iter().filter_map(|layer| layer.get(name));
        let first = found.next();
        if let Some(other) = found.next() {
            let what = format!(
                "`{name}` stands beside the `$ref` of a path item and in what that leads to; which one counts is not defined"
            );
            self.fault(first.unwrap_or(other), what);
        }
        first
    }

    fn operation(&mut self, shared: &Shared<'d>, method: &str, at: At<'d>, mut request: Gathered) {
        let (asked, own) = self.apart(|reader| reader.asked(shared, at));
        request.add(&own);
        let Some(asked) = asked else { return self.unreadable(shared, method, request) };
        if at.get("security").is_none() {
            request.add(&self.security.1.clone());
        }
        let (responses, response) = self.apart(|reader| reader.responses(at.get("responses")));
        let of = |part| asked.parameters.iter().filter(|one| one.part == part).cloned().collect::<Vec<_>>();
        let operation = Operation {
            id: asked.id.map(str::to_owned),
            path: asked.path,
            query: of(Part::Query),
            fields: of(Part::Header),
            cookies: of(Part::Cookie),
            body: asked.body,
            responses,
            security: asked.security,
            ..Operation::unread(self.operations.len(), method, shared.path.text)
        };
        let bases = asked.bases.as_ref().unwrap_or(&shared.bases);
        self.add(operation, &shared.path, bases, Sides { request, response }, at.node.place);
    }

    /// Everything but responses; none if it is no operation at all.
    fn asked(&mut self, shared: &Shared<'d>, at: At<'d>) -> Option<Asked<'d>> {
        if !self.known(at, "an operation", OPERATION) {
            return None;
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
        let in_path = parameters.iter().filter(|one| one.part == Part::Path).cloned().collect();
        Some(Asked {
            id,
            path: if shared.path.is_loose { Vec::new() } else { self.path_values(&shared.path, at, in_path) },
            parameters,
            body: at.get("requestBody").and_then(|body| self.request_body(body)),
            security: self.requirements(at.get("security")).unwrap_or_else(|| self.security.0.clone()),
            bases: self.base_paths(at.get("servers")),
        })
    }

    /// A method of which nothing is known.
    fn unreadable(&mut self, shared: &Shared<'d>, method: &str, problems: Gathered) {
        let operation = Operation::unread(self.operations.len(), method, shared.path.text);
        let sides = Sides { request: problems.clone(), response: problems };
        let place = shared.layers.first().map(|item| item.node.place).unwrap_or_default();
        self.add(operation, &shared.path, &shared.bases, sides, place);
    }

    /// Puts an operation where its requests are looked for. Of two that the same requests would match, neither can be relied on.
    fn add(&mut self, operation: Operation, path: &Path<'d>, bases: &[Template], mut sides: Sides, place: Place) {
        if std::ptr::eq(bases, self.bases.0.as_slice()) || bases == self.bases.0 {
            sides.request.add(&self.bases.1.clone());
        }
        for base in bases {
            let added = self.router.add(&path.template.below(base), &operation.method, operation.number);
            let Err(other) = added else { continue };
            let first = self.operations.get(other).map_or("", |other| other.template.as_str());
            let message = format!("`{first}` and `{}` match the same paths, with the same method", path.text);
            let fault = Fault::new(place, message);
            if let Some(sides) = self.sides.get_mut(other) {
                sides.request.faults.push(fault.clone());
            }
            sides.request.faults.push(fault);
            break;
        }
        self.operations.push(operation);
        self.sides.push(sides);
    }

    /// The path parameters in the order of the template's expressions.
    fn path_values(&mut self, path: &Path<'d>, at: At<'d>, declared: Vec<Parameter>) -> Vec<Parameter> {
        for parameter in &declared {
            if !path.template.names.contains(&parameter.name) {
                self.warn(at, format!("the path `{}` has no `{{{}}}`", path.text, parameter.name));
            }
        }
        let mut ordered = Vec::new();
        for name in &path.template.names {
            match declared.iter().find(|parameter| parameter.name == *name) {
                Some(parameter) => ordered.push(parameter.clone()),
                None => self.fault(at, format!("`{{{name}}}` of the path `{}` is no declared parameter", path.text)),
            }
        }
        ordered
    }
}
