//! Templates: text, and what stands between braces in it.

use super::{Action, Condition, Conditions, Config, Forward, ForwardTo, RouteConfig, ValueOf};

/// Literal text with parameters in it. How a parameter is escaped depends on where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The parts in order.
    pub parts: Vec<TemplatePart>,
}

/// One part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Literal.
    Text(String),
    /// The parameter with this index among the pattern's parameters.
    Param {
        /// Index in path order.
        index: usize,
        /// How it is written.
        escape: Escape,
    },
    /// A value of the request.
    Variable {
        /// Which.
        variable: Variable,
        /// How it is written.
        escape: Escape,
    },
}

/// How a parameter or variable is written into a template. What may not stand in its place cannot get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// As it stood in the canonical path (already a valid piece of a path); native rewrites.
    Raw,
    /// Decoded, then everything but letters, digits and `-_.~$&+=:@` percent-encoded (`/` too).
    PathSegment,
    /// Percent-encoded for a query value.
    Query,
    /// One letter-digit-hyphen label of 1 to 63 bytes, or the request is rejected.
    HostLabel,
    /// A host, canonical, as it was asked for.
    Host,
    /// A piece of a field value: octets that cannot stand there become `?`.
    Field,
    /// A piece of a JSON string.
    Json,
    /// Text of HTML or XML, also between quotes.
    Markup,
    /// Plain text: controls become `?`.
    Text,
}

/// A value of the request that a template may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// `{client.address}`.
    ClientAddress,
    /// `{client.country}`: its code.
    ClientCountry,
    /// `{client.asn}`: the number of its autonomous system.
    ClientAsn,
    /// `{request.id}`.
    RequestId,
    /// `{method}`.
    Method,
    /// `{scheme}`: `https` under TLS.
    Scheme,
    /// `{host}`: without port.
    Host,
    /// `{authority}`: the host with its port, if one was sent.
    Authority,
    /// `{path}`: canonical, as it is matched.
    Path,
    /// `{query}`: all of it, canonical, without the `?`.
    WholeQuery,
    /// `{uri}`: path and query, as they go on where nothing rewrites them.
    Uri,
    /// `{url}`: scheme, host with its port, path and query.
    Url,
    /// `{query.NAME}`: the first value, as it was sent.
    Query(String),
    /// `{header.NAME}`: the first value (name in lower case).
    Header(String),
    /// `{cookie.NAME}`: the first value.
    Cookie(String),
    /// `{claim.NAME}` of a verified token.
    Claim(String),
    /// `{tls.server_name}`.
    TlsServerName,
    /// `{tls.version}`.
    TlsVersion,
    /// `{tls.cipher}`.
    TlsCipher,
    /// `{tls.ja4}`: the client's fingerprint.
    TlsJa4,
    /// `{certificate.subject}` of the client.
    CertificateSubject,
    /// `{certificate.issuer}`.
    CertificateIssuer,
    /// `{certificate.serial}`.
    CertificateSerial,
    /// `{certificate.fingerprint}`.
    CertificateFingerprint,
    /// `{certificate.san}`: its first alternative name.
    CertificateSan,
}

/// The value of a field that a route writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// The same for each message.
    Text(String),
    /// With values of the request in it.
    Template(Template),
}

impl FieldValue {
    /// Its text, where that is the same for each message.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            FieldValue::Text(text) => Some(text),
            FieldValue::Template(_) => None,
        }
    }
}

/// Whether variables stand in the body of a fixed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyVariables {
    /// None: it is sent as it is.
    None,
    /// This is the body.
    Text(Template),
    /// In the file that has the body.
    File,
}

/// A field that the configuration adds to the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogField {
    /// Its name.
    pub name: String,
    /// Its value, as bytes that the log escapes.
    pub value: Template,
}

impl Template {
    /// The variables in it.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Variable { variable, .. } => Some(variable),
            TemplatePart::Text(_) | TemplatePart::Param { .. } => None,
        })
    }

    /// The claims of tokens that it reads.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &str> {
        self.variables().filter_map(|variable| match variable {
            Variable::Claim(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

impl RouteConfig {
    /// Its templates.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let edits = [&self.request_headers, &self.response_headers];
        let fields = edits.into_iter().flat_map(|edits| edits.set.iter().chain(&edits.add));
        let fields = fields.filter_map(|(_, value)| match value {
            FieldValue::Template(template) => Some(template),
            FieldValue::Text(_) => None,
        });
        let of_action = match &self.action {
            Action::Forward(Forward { to, rewrite, .. }) => [
                rewrite.as_ref(),
                match to {
                    ForwardTo::Authority { authority, .. } => Some(authority),
                    ForwardTo::Group(_) | ForwardTo::Split(_) => None,
                },
            ],
            Action::Redirect { to, .. } => [Some(to), None],
            Action::Respond { variables: BodyVariables::Text(body), .. } => [Some(body), None],
            Action::Respond { .. } | Action::Validate(_) => [None, None],
        };
        let logged = self.log_fields.iter().map(|field| &field.value);
        let rewrites = self.response_headers.rewrites.iter().flat_map(|rewrites| rewrites.templates());
        fields.chain(of_action.into_iter().flatten()).chain(logged).chain(rewrites)
    }

    /// Its conditions, and those of its shares.
    pub fn conditions(&self) -> impl Iterator<Item = &Conditions> {
        let shares = match &self.action {
            Action::Forward(Forward { to: ForwardTo::Split(shares), .. }) => shares.as_slice(),
            _ => &[],
        };
        std::iter::once(&self.when).chain(shares.iter().map(|share| &share.when))
    }

    /// The claims of tokens that it reads.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &str> {
        let written = self.templates().flat_map(Template::claims);
        let demanded = self.conditions().flat_map(Conditions::values).filter(|value| value.of == ValueOf::Claim);
        written.chain(demanded.map(|value| value.name.as_str()))
    }
}

impl Config {
    /// Whether anything reads the fingerprints of TLS clients. A file with variables may.
    pub fn reads_ja4(&self) -> bool {
        let logged = self.log.access.iter().flat_map(|access| access.fields.iter()).map(|field| &field.value);
        let asked = self.policies.values().filter_map(|policy| policy.forward_auth.as_ref()?.sign_in.as_ref());
        let mut templates = self.routes.iter().flat_map(RouteConfig::templates).chain(logged).chain(asked);
        let of_policies = self.policies.values().map(|policy| &policy.when);
        let mut conditions = self.routes.iter().flat_map(RouteConfig::conditions).chain(of_policies);
        let reads_file =
            |route: &RouteConfig| matches!(route.action, Action::Respond { variables: BodyVariables::File, .. });
        conditions.any(|when| when.leaves().iter().any(|leaf| matches!(leaf, Condition::Ja4(_))))
            || templates.any(|template| template.variables().any(|variable| *variable == Variable::TlsJa4))
            || self.routes.iter().any(reads_file)
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> FieldValue {
        FieldValue::Text(text.to_owned())
    }
}
