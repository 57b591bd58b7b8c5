//! What may stand between braces: parameters of the path, and variables of the request, a closed set. One syntax for all templates.
//!
//! A name without a dot is a parameter if the path of the route has one that is called so.

use super::variables::{native_of_caddy, native_variable, variable_in};
use super::{Fault, headers};
use crate::model::{Escape, FieldValue, Template, TemplatePart, Variable};
use crate::problem::{closest, listed, shown};

/// Names of variables as they are written; what `NAME` stands for is free.
const NAMES: [&str; 25] = [
    "client.address",
    "client.country",
    "client.asn",
    "request.id",
    "method",
    "scheme",
    "host",
    "path",
    "path.NAME",
    "query",
    "query.NAME",
    "uri",
    "url",
    "header.NAME",
    "cookie.NAME",
    "claim.NAME",
    "tls.server_name",
    "tls.version",
    "tls.cipher",
    "tls.ja4",
    "certificate.subject",
    "certificate.issuer",
    "certificate.serial",
    "certificate.fingerprint",
    "certificate.san",
];

/// Longest name of a value, bytes.
const MAX_NAME_BYTES: usize = 256;

/// What is known of a request where a template or a condition stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The parameters of its path.
    pub(super) parameters: &'a [&'a str],
    /// Parameters that are empty on its path.
    pub(super) empty: &'a [&'a str],
    /// Whether its token was verified.
    pub(super) claims: Claims,
}

impl Scope<'_> {
    /// Where there is no request.
    pub(super) const NOTHING: Scope<'static> = Scope { parameters: &[], empty: &[], claims: Claims::Unverified };
}

/// Whether claims of a token are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claims {
    /// Tokens are verified later.
    TooEarly,
    /// No policy verifies tokens of requests that come here.
    Unverified,
    /// A policy has verified the token, if there was one.
    Verified,
    /// A file reads them, which is opened when it is settled what is kept of tokens.
    InFile,
}

impl Claims {
    /// Rejects what reads claims where none are known.
    pub(super) fn check(self, what: &str) -> Result<(), Fault> {
        match self {
            Claims::Verified => Ok(()),
            Claims::Unverified => Err(Fault::new(
                format!("{what} a claim, and no policy verifies tokens here"),
                "name a policy with `jwt` in `policies` of the route, of its host or of its listener",
            )),
            Claims::InFile => Err(Fault::new(
                format!("{what} a claim, which no file can hold"),
                "write the text into `body`, or set a header field from the claim with the policy and read that",
            )),
            Claims::TooEarly => Err(Fault::new(
                format!("{what} a claim, and a route is chosen before a token is verified"),
                "demand it with a policy (`jwt: { claims: ... }`), or choose the upstream by it: `split: [{ when: { claim: ... } }]`",
            )),
        }
    }
}

/// The name of a claim: visible ASCII, so that URLs are among them.
pub(super) fn claim_name(text: &str) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
    if (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    let what = format!("{} is not the name of a claim", shown(text));
    Err(Fault::new(what, "write it as the token has it, with dots for a claim within an object: `realm_access.roles`"))
}

/// What stands between two braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Placeholder {
    /// A parameter of the path, by its place.
    Parameter(usize),
    /// A variable.
    Variable(Variable),
    /// Something that is known elsewhere, and nothing here.
    Nothing,
}

/// Reads what stands between two braces.
pub(super) fn placeholder(name: &str, scope: Scope<'_>) -> Result<Placeholder, Fault> {
    // The star belongs to the pattern; here it changes nothing and is a common slip.
    let parameter = name.strip_prefix("path.").unwrap_or(name);
    let parameter = parameter.strip_prefix('*').unwrap_or(parameter);
    if let Some(index) = scope.parameters.iter().position(|known| *known == parameter) {
        return Ok(Placeholder::Parameter(index));
    }
    if scope.empty.contains(&parameter) {
        return Ok(Placeholder::Nothing);
    }
    if let Some(claim) = name.strip_prefix("claim.") {
        scope.claims.check(&format!("{} is", shown(name)))?;
        return claim_name(claim).map(|claim| Placeholder::Variable(Variable::Claim(claim)));
    }
    let variable = match name {
        "client.address" => Variable::ClientAddress,
        "client.country" => Variable::ClientCountry,
        "client.asn" => Variable::ClientAsn,
        "request.id" => Variable::RequestId,
        "method" => Variable::Method,
        "scheme" => Variable::Scheme,
        "host" => Variable::Host,
        "authority" => Variable::Authority,
        "path" => Variable::Path,
        "query" => Variable::WholeQuery,
        "uri" => Variable::Uri,
        "url" => Variable::Url,
        "tls.server_name" => Variable::TlsServerName,
        "tls.version" => Variable::TlsVersion,
        "tls.cipher" => Variable::TlsCipher,
        "tls.ja4" => Variable::TlsJa4,
        "certificate.subject" => Variable::CertificateSubject,
        "certificate.issuer" => Variable::CertificateIssuer,
        "certificate.serial" => Variable::CertificateSerial,
        "certificate.fingerprint" => Variable::CertificateFingerprint,
        "certificate.san" => Variable::CertificateSan,
        _ => return named(name).ok_or_else(|| unknown(name, scope.parameters)),
    };
    Ok(Placeholder::Variable(variable))
}

/// Whether this is the name of a variable somewhere.
pub(super) fn is_variable(name: &str) -> bool {
    placeholder(name, Scope { parameters: &[], empty: &[], claims: Claims::Verified }).is_ok()
}

/// A variable with a name of the user's.
fn named(text: &str) -> Option<Placeholder> {
    let (of, name) = text.split_once('.')?;
    let is_token = name.len() <= MAX_NAME_BYTES && headers::is_token(name);
    let variable = match of {
        "header" => Variable::Header(headers::field_name(name).ok()?),
        "query" if is_token && name != "*" => Variable::Query(name.to_owned()),
        "cookie" if is_token => Variable::Cookie(name.to_owned()),
        _ => return None,
    };
    Some(Placeholder::Variable(variable))
}

fn unknown(name: &str, parameters: &[&str]) -> Fault {
    if !name.contains('.') && !parameters.is_empty() && !NAMES.contains(&name) {
        let fix =
            format!("the path of this route has {}; variables are {}", listed(parameters.iter().copied()), variables());
        return Fault::new(format!("unknown parameter {}", shown(name)), fix);
    }
    if name.strip_prefix("path.").is_some() {
        let fix = "the path of this route has no such parameter; write it as `{name}` there";
        return Fault::new(format!("unknown parameter {}", shown(name)), fix);
    }
    if name == "query.*" {
        let fix = "write `{query}` for all of the query, `{query.NAME}` for the first value of a name";
        return Fault::new("`query.*` names no value", fix);
    }
    let native = || native_variable(name).or_else(|| native_of_caddy(name));
    let fix = match closest(name, NAMES.into_iter()).map(|known| format!("{{{known}}}")) {
        Some(known) => format!("did you mean `{known}`?"),
        None if native().is_some() => format!("write `{}`", native().unwrap_or_default()),
        None => format!(
            "variables are {}; the path of this route has no parameters, which are written as `{{name}}` there",
            variables()
        ),
    };
    Fault::new(format!("unknown parameter or variable {}", shown(name)), fix)
}

fn variables() -> String {
    NAMES.map(|name| format!("`{{{name}}}`")).join(", ")
}

/// Reads the value of a header field: text, `{...}` for what is replaced, `{{` and `}}` for braces.
pub(super) fn field_template(text: &str, scope: Scope<'_>) -> Result<FieldValue, Fault> {
    let parts = parts(text, scope, Escape::Field)?;
    Ok(match parts.as_slice() {
        [] if text.is_empty() => FieldValue::Text(String::new()),
        [TemplatePart::Text(text)] => FieldValue::Text(text.clone()),
        _ => FieldValue::Template(Template { parts }),
    })
}

/// Reads a text with placeholders, all of which are written by one rule.
pub(super) fn parts(text: &str, scope: Scope<'_>, escape: Escape) -> Result<Vec<TemplatePart>, Fault> {
    cut(text, escape, true, |name| placeholder(name, scope))
}

/// Cuts a text at what stands between braces, which `read` reads. `is_value`: it is short, so that what looks like a variable of another proxy is meant as one.
pub(super) fn cut(
    text: &str,
    escape: Escape,
    is_value: bool,
    read: impl Fn(&str) -> Result<Placeholder, Fault>,
) -> Result<Vec<TemplatePart>, Fault> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        literal.push_str(before);
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            literal.push_str(from.get(..1).unwrap_or_default());
            rest = after;
            continue;
        }
        let inner = from.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let Some((name, after)) = inner else {
            let what = format!("{} has a brace without its other one", shown(text));
            return Err(Fault::new(what, "write `{name}` for what is replaced, and `{{` or `}}` for a brace"));
        };
        // `${host}` is another proxy's.
        if !is_value || !literal.ends_with(['$', '%']) {
            let part = match read(name)? {
                Placeholder::Parameter(index) => Some(TemplatePart::Param { index, escape }),
                Placeholder::Variable(variable) => Some(TemplatePart::Variable { variable, escape }),
                Placeholder::Nothing => None,
            };
            if is_value {
                foreign(&literal, text)?;
            }
            if let Some(part) = part {
                parts.extend((!literal.is_empty()).then(|| TemplatePart::Text(std::mem::take(&mut literal))));
                parts.push(part);
            }
        } else {
            literal.push('{');
            literal.push_str(name);
            literal.push('}');
        }
        rest = after;
    }
    literal.push_str(rest);
    if is_value {
        foreign(&literal, text)?;
    }
    if !literal.is_empty() {
        parts.push(TemplatePart::Text(literal));
    }
    Ok(parts)
}

/// Rejects a variable of another proxy in literal text, and says how it is written here.
fn foreign(literal: &str, text: &str) -> Result<(), Fault> {
    let Some(variable) = variable_in(literal) else { return Ok(()) };
    let what = format!("{} holds {}, a variable of another proxy", shown(text), shown(variable));
    let fix = match native_variable(variable) {
        Some(native) => format!("write {}", shown(&text.replace(variable, &native))),
        None => format!("variables are {}", variables()),
    };
    Err(Fault::new(what, fix))
}
