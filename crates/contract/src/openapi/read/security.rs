//! Security schemes and requirements of a document.

use std::sync::Arc;

use super::{At, Reader};
use crate::openapi::security::{Demand, Requirement, Scheme, SchemeKind};

impl<'d> Reader<'d> {
    pub(super) fn read_schemes(&mut self, schemes: Option<At<'d>>) {
        for (name, scheme) in schemes.into_iter().flat_map(At::members) {
            let (kind, problems) = self.apart(|reader| {
                let scheme = reader.follow(scheme)?;
                reader.scheme_kind(scheme)
            });
            match kind.filter(|_| problems.faults.is_empty()) {
                Some(kind) => {
                    self.schemes.insert(name.to_owned(), Arc::new(Scheme { name: name.to_owned(), kind }));
                }
                None => {
                    self.bad_schemes.insert(name.to_owned(), problems.faults);
                }
            }
        }
    }

    fn scheme_kind(&mut self, at: At<'d>) -> Option<SchemeKind> {
        let known = [
            "type",
            "description",
            "name",
            "in",
            "scheme",
            "bearerFormat",
            "flows",
            "openIdConnectUrl",
            "deprecated",
            "oauth2MetadataUrl",
        ];
        self.known(at, "a security scheme", &known);
        match self.text(at, "type")? {
            "apiKey" => {
                let name = self.text(at, "name")?.to_owned();
                match self.text(at, "in")? {
                    "query" => Some(SchemeKind::KeyInQuery(name)),
                    "header" => Some(SchemeKind::KeyInField(name.to_ascii_lowercase())),
                    "cookie" => Some(SchemeKind::KeyInCookie(name)),
                    other => {
                        self.fault(at, format!("a key cannot be in `{other}`; in query, header or cookie"));
                        None
                    }
                }
            }
            "http" => Some(match self.text(at, "scheme")?.to_ascii_lowercase().as_str() {
                "basic" => SchemeKind::Basic,
                "bearer" => SchemeKind::Bearer,
                other => SchemeKind::Http(other.to_owned()),
            }),
            "mutualTLS" => Some(SchemeKind::MutualTls),
            "oauth2" => Some(SchemeKind::OAuth2),
            "openIdConnect" => {
                Some(SchemeKind::OpenIdConnect(self.text(at, "openIdConnectUrl").unwrap_or_default().to_owned()))
            }
            other => {
                self.fault(at, format!("the type `{other}` of a security scheme is not known"));
                None
            }
        }
    }

    /// The alternatives of a `security` list; none if there is no list.
    pub(super) fn requirements(&mut self, list: Option<At<'d>>) -> Option<Vec<Requirement>> {
        let list = list?;
        if !matches!(list.node.kind, crate::document::Kind::Array(_)) {
            self.fault(list, "`security` must be a list");
        }
        let mut alternatives = Vec::new();
        for at in list.elements() {
            let (alternative, problems) = self.apart(|reader| reader.requirement(at));
            match problems.faults.is_empty() {
                true => alternatives.push(alternative),
                // Nobody can meet it: another alternative must be.
                false => problems.faults.into_iter().for_each(|fault| self.warn_at(fault.place, fault.message)),
            }
        }
        if alternatives.is_empty() && !list.node.elements().is_empty() {
            self.fault(list, "no alternative of `security` can be met, since none has schemes that are declared");
        }
        Some(alternatives)
    }

    fn requirement(&mut self, at: At<'d>) -> Requirement {
        let mut requirement = Requirement::default();
        if !matches!(at.node.kind, crate::document::Kind::Object(_)) {
            self.fault(at, format!("a security requirement must be an object, not {}", at.node.kind_name()));
        }
        for (name, scopes) in at.members() {
            let scopes = scopes.elements().filter_map(|scope| scope.node.as_str()).map(str::to_owned).collect();
            match self.schemes.get(name) {
                Some(scheme) => requirement.demands.push(Demand { scheme: Arc::clone(scheme), scopes }),
                None => {
                    self.faults.extend(self.bad_schemes.get(name).into_iter().flatten().cloned());
                    self.fault(at, format!("the security scheme `{name}` is not declared, so nothing could meet it"))
                }
            }
        }
        requirement
    }
}
