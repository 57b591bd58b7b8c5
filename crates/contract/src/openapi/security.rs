//! Security schemes and requirements (OpenAPI 3.1.1 §4.8.27, §4.8.30), and where in a request their credentials are.
//!
//! Finds credentials; that they are genuine is for the caller to check.

use std::sync::Arc;

use crate::message::RequestParts;

/// A security scheme that operations use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scheme {
    /// Its name in the document.
    pub name: String,
    /// What it asks for.
    pub kind: SchemeKind,
}

/// What a scheme asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SchemeKind {
    /// `Authorization: Basic` (RFC 7617).
    Basic,
    /// `Authorization: Bearer` (RFC 6750).
    Bearer,
    /// `Authorization` with another scheme of HTTP, in lower case.
    Http(String),
    /// A key in a query parameter.
    KeyInQuery(String),
    /// A key in a header field, name in lower case.
    KeyInField(String),
    /// A key in a cookie.
    KeyInCookie(String),
    /// A client certificate.
    MutualTls,
    /// OAuth 2: a bearer token.
    OAuth2,
    /// OpenID Connect: a bearer token; the URL of its discovery document.
    OpenIdConnect(String),
}

/// One scheme of a requirement with the scopes or roles it must grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Demand {
    /// The scheme.
    pub scheme: Arc<Scheme>,
    /// Scopes (OAuth 2, OpenID Connect) or roles.
    pub scopes: Vec<String>,
}

/// One alternative: all its demands must be met. Without demands it is met by everybody.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Requirement {
    /// What must be shown together.
    pub demands: Vec<Demand>,
}

impl Requirement {
    /// The credentials that the request shows, one per demand in order; none if one is missing or is there twice.
    pub fn credentials<'a>(&self, parts: &RequestParts<'a>) -> Option<Vec<&'a [u8]>> {
        self.demands.iter().map(|demand| demand.scheme.credential(parts)).collect()
    }
}

impl Scheme {
    /// The credential that a request shows for this scheme: the token, the key, what follows `Basic `; empty for a client certificate. None if it
    /// is missing, empty, or there more than once. Query values are as sent, percent-encoded.
    pub fn credential<'a>(&self, parts: &RequestParts<'a>) -> Option<&'a [u8]> {
        match &self.kind {
            SchemeKind::Basic => authorization(parts, "basic").filter(|credential| is_user_and_password(credential)),
            SchemeKind::Bearer | SchemeKind::OAuth2 | SchemeKind::OpenIdConnect(_) => authorization(parts, "bearer"),
            SchemeKind::Http(scheme) => authorization(parts, scheme),
            SchemeKind::KeyInField(name) => Values::default().of_field(parts, name).single(),
            SchemeKind::KeyInCookie(name) => cookie(parts, name.as_bytes()),
            SchemeKind::KeyInQuery(name) => query(parts.query.unwrap_or_default(), name.as_bytes()),
            SchemeKind::MutualTls => parts.has_client_certificate.then_some(&[]),
        }
    }

    /// The header field that holds the scheme's credential, in lower case.
    pub fn field(&self) -> Option<&str> {
        match &self.kind {
            SchemeKind::KeyInField(name) => Some(name),
            SchemeKind::KeyInCookie(_) => Some("cookie"),
            SchemeKind::KeyInQuery(_) | SchemeKind::MutualTls => None,
            SchemeKind::Basic
            | SchemeKind::Bearer
            | SchemeKind::Http(_)
            | SchemeKind::OAuth2
            | SchemeKind::OpenIdConnect(_) => Some("authorization"),
        }
    }

    /// Whether the scheme's credential is a bearer token.
    pub fn is_bearer(&self) -> bool {
        matches!(self.kind, SchemeKind::Bearer | SchemeKind::OAuth2 | SchemeKind::OpenIdConnect(_))
    }
}

/// The values seen for one name.
#[derive(Default)]
struct Values<'a> {
    first: Option<&'a [u8]>,
    count: usize,
}

impl<'a> Values<'a> {
    fn add(&mut self, value: &'a [u8]) {
        self.count += 1;
        self.first = self.first.or(Some(value));
    }

    fn of_field(mut self, parts: &RequestParts<'a>, name: &str) -> Values<'a> {
        parts.fields.each(&mut |have, value| {
            if have.eq_ignore_ascii_case(name.as_bytes()) {
                self.add(value);
            }
        });
        self
    }

    fn single(self) -> Option<&'a [u8]> {
        self.first.filter(|value| self.count == 1 && !value.is_empty())
    }
}

/// Whether this is a user and a password with a colon between them, in base64 (RFC 7617 §2).
fn is_user_and_password(credential: &[u8]) -> bool {
    let mut text = Vec::new();
    crate::format::decode_base64(credential, &mut text)
        && text.contains(&b':')
        && !text.iter().any(|byte| byte.is_ascii_control())
}

/// What follows the scheme in the only Authorization field, which holds one credential (RFC 9110 §11.6.2).
fn authorization<'a>(parts: &RequestParts<'a>, scheme: &str) -> Option<&'a [u8]> {
    let value = Values::default().of_field(parts, "authorization").single()?;
    let (have, rest) = value.split_at_checked(scheme.len())?;
    let credential = rest.strip_prefix(b" ")?.trim_ascii();
    let is_one = match scheme {
        "basic" | "bearer" => !credential.iter().any(|byte| matches!(byte, b' ' | b'\t' | b',')),
        _ => is_one_credential(credential),
    };
    (have.eq_ignore_ascii_case(scheme.as_bytes()) && is_one && !credential.is_empty()).then_some(credential)
}

/// Whether nothing in a list behind a scheme could be another scheme: what follows a comma is a parameter, `name=value`.
fn is_one_credential(credential: &[u8]) -> bool {
    let (mut is_quoted, mut is_escaped, mut begin) = (false, false, 0);
    for (at, byte) in credential.iter().chain(b",").enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                if begin > 0 && !is_parameter(credential.get(begin..at).unwrap_or_default()) {
                    return false;
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
    begin > credential.len()
}

/// Whether this element of a list is empty or a parameter (RFC 9110 §11.2).
fn is_parameter(element: &[u8]) -> bool {
    let element = element.trim_ascii();
    let end = element.iter().position(|byte| matches!(byte, b'=' | b' ' | b'\t'));
    let (name, rest) = element.split_at(end.unwrap_or(element.len()));
    element.is_empty() || (!name.is_empty() && rest.trim_ascii_start().first() == Some(&b'='))
}

fn cookie<'a>(parts: &RequestParts<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let mut values = Values::default();
    parts.fields.each(&mut |field, value| {
        if field.eq_ignore_ascii_case(b"cookie") {
            crate::escape::cookie_pairs(value)
                .filter(|(have, _)| *have == name)
                .for_each(|(_, value)| values.add(value));
        }
    });
    values.single()
}

/// Whether a query has a parameter of this name.
pub(super) fn holds(query: &[u8], name: &[u8]) -> bool {
    let mut decoded = Vec::new();
    let mut names = query.split(|byte| *byte == b'&').filter_map(|pair| pair.split(|byte| *byte == b'=').next());
    names.any(|have| {
        decoded.clear();
        // Each character as itself or as three.
        (name.len()..=3 * name.len()).contains(&have.len())
            && crate::escape::unescape(have, true, &mut decoded)
            && decoded == name
    })
}

fn query<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut values = Values::default();
    for pair in query.split(|byte| *byte == b'&') {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (have, value) = pair.split_at(at);
        let mut decoded = Vec::new();
        if crate::escape::unescape(have, true, &mut decoded) && decoded == name {
            values.add(value.get(1..).unwrap_or_default());
        }
    }
    values.single()
}
