//! The head of a request: path values, query, header fields, cookies, security, and what is to become of the body.

use super::body::{BodyPlan, BodyValidator};
use super::code;
use super::content_type::choose;
use super::findings::{Enough, Findings, Violation, Where};
use super::parameters::Declared;
use super::scratch::Scratch;
use super::value::STEPS_PER_HEAD;
use crate::contract::Matched;
use crate::escape::{cookie_pairs, unescape};
use crate::message::Part;
use crate::message::{Framing, RequestParts};
use crate::openapi::{Operation, PathValues, SchemeKind};
use crate::options::Undeclared;
use crate::parameter::{Escapes, Pairs};

/// Validates the head and says how the body is to be validated.
pub(crate) fn validate<'c: 's, 's>(
    matched: Matched<'c>,
    values: &PathValues,
    parts: &RequestParts<'_>,
    scratch: &'s mut Scratch,
    findings: &mut Findings,
) -> Result<BodyPlan<'s>, Enough> {
    if let Some(why) = matched.operation.unsupported_request() {
        return unsupported(matched, why, parts.framing, findings);
    }
    scratch.rooms.steps = STEPS_PER_HEAD;
    let request = Request { matched, operation: matched.operation, parts };
    request.security(findings)?;
    request.path(values, scratch, findings)?;
    request.query(scratch, findings)?;
    request.fields(scratch, findings)?;
    request.cookies(scratch, findings)?;
    request.body(scratch, findings)
}

/// Of a message that nobody can validate as the document says, nothing is validated: it is rejected, or passes where nothing is.
pub(super) fn unsupported<'s>(
    matched: Matched<'s>,
    why: &str,
    framing: Framing,
    findings: &mut Findings,
) -> Result<BodyPlan<'s>, Enough> {
    findings.add(Violation::new(code::OPERATION_UNSUPPORTED, Where::of(Part::Operation), why))?;
    BodyValidator::undeclared(matched.contract, Undeclared::Ignore, framing, findings)
}

struct Request<'c, 'a> {
    matched: Matched<'c>,
    operation: &'c Operation,
    parts: &'a RequestParts<'a>,
}

impl<'c> Request<'c, '_> {
    fn declared(&self, part: Part) -> Declared<'c> {
        let (parameters, escapes) = match part {
            Part::Path => (&self.operation.path, Escapes::Percent),
            Part::Query => (&self.operation.query, Escapes::Query),
            Part::Cookie => (&self.operation.cookies, Escapes::Percent),
            _ => (&self.operation.fields, Escapes::Raw),
        };
        Declared { contract: self.matched.contract, part, parameters, escapes, missing: code::PARAMETER_MISSING }
    }

    /// One alternative must be presented completely. That credentials are genuine is checked by the caller.
    fn security(&self, findings: &mut Findings) -> Result<(), Enough> {
        let alternatives = &self.operation.security;
        let is_met = |demands: &[crate::openapi::Demand]| {
            demands.iter().all(|demand| demand.scheme.credential(self.parts).is_some())
        };
        if alternatives.is_empty() || alternatives.iter().any(|requirement| is_met(&requirement.demands)) {
            return Ok(());
        }
        let names = |requirement: &crate::openapi::Requirement| {
            requirement.demands.iter().map(|demand| demand.scheme.name.as_str()).collect::<Vec<_>>().join(" and ")
        };
        let what = alternatives.iter().map(names).collect::<Vec<_>>().join(", or ");
        let what = format!("needs credentials for {what}");
        findings.add(Violation::new(code::SECURITY_MISSING, Where::of(Part::Security), what))
    }

    fn path(&self, values: &PathValues, scratch: &mut Scratch, findings: &mut Findings) -> Result<(), Enough> {
        let Scratch { path: pairs, rooms, .. } = scratch;
        pairs.clear();
        for (number, parameter) in self.operation.path.iter().enumerate() {
            pairs.add(parameter.name.as_bytes(), values.get(number, self.parts.path));
        }
        self.declared(Part::Path).validate(pairs, rooms, findings)
    }

    fn query(&self, scratch: &mut Scratch, findings: &mut Findings) -> Result<(), Enough> {
        let Scratch { query: pairs, rooms, .. } = scratch;
        pairs.clear();
        let limit = self.matched.contract.options.limits.query_parameters;
        let pieces = self.parts.query.unwrap_or_default().split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        for (count, piece) in pieces.enumerate() {
            if count == limit {
                let what = format!("has more than {limit} parameters");
                findings.add(Violation::new(code::PARAMETER_LIMIT, Where::of(Part::Query), what))?;
                break;
            }
            self.query_piece(piece, pairs, findings)?;
        }
        let declared = self.declared(Part::Query);
        declared.validate_separators(pairs, findings)?;
        declared.validate(pairs, rooms, findings)?;
        let is_key =
            |kind: &SchemeKind, name: &[u8]| matches!(kind, SchemeKind::KeyInQuery(key) if key.as_bytes() == name);
        let mode = self.matched.contract.options.undeclared_query;
        declared.validate_undeclared(pairs, mode, |name| self.is_credential(|kind| is_key(kind, name)), findings)
    }

    fn query_piece(&self, piece: &[u8], pairs: &mut Pairs, findings: &mut Findings) -> Result<(), Enough> {
        let at = piece.iter().position(|byte| *byte == b'=').unwrap_or(piece.len());
        let (name, value) = piece.split_at(at);
        let value = value.get(1..).unwrap_or_default();
        let is_good = pairs.add_decoded(value, |out| {
            let start = out.len();
            unescape(name, true, out) && std::str::from_utf8(out.get(start..).unwrap_or_default()).is_ok()
        });
        let what = match is_good {
            false => "a name is not made of escaped UTF-8",
            true if name.contains(&b';') => {
                "a name holds an unescaped `;`, which separates parameters for some servers"
            }
            true => return Ok(()),
        };
        findings.add(Violation::new(code::QUERY_MALFORMED, Where::named(Part::Query, name), what))
    }

    fn fields(&self, scratch: &mut Scratch, findings: &mut Findings) -> Result<(), Enough> {
        let Scratch { fields: pairs, rooms, .. } = scratch;
        pairs.clear();
        let mode = self.matched.contract.options.undeclared_fields;
        let names = &self.operation.fields;
        self.parts.fields.each(&mut |name, value| {
            let is_wanted = mode != Undeclared::Ignore
                || names.iter().any(|field| name.eq_ignore_ascii_case(field.name.as_bytes()));
            if is_wanted {
                pairs.add_lower(name, value.trim_ascii());
            }
        });
        let declared = self.declared(Part::Header);
        declared.validate(pairs, rooms, findings)?;
        let is_key =
            |kind: &SchemeKind, name: &[u8]| matches!(kind, SchemeKind::KeyInField(key) if key.as_bytes() == name);
        let is_spared = |name: &[u8]| is_everyday_field(name) || self.is_credential(|kind| is_key(kind, name));
        declared.validate_undeclared(pairs, mode, is_spared, findings)
    }

    fn cookies(&self, scratch: &mut Scratch, findings: &mut Findings) -> Result<(), Enough> {
        let Scratch { cookies: pairs, rooms, .. } = scratch;
        pairs.clear();
        let options = &self.matched.contract.options;
        let limit = options.limits.cookies;
        if self.operation.cookies.is_empty() && options.undeclared_cookies == Undeclared::Ignore {
            return Ok(());
        }
        let mut is_over = false;
        self.parts.fields.each(&mut |name, value| {
            if name.eq_ignore_ascii_case(b"cookie") {
                for (name, value) in cookie_pairs(value) {
                    is_over |= pairs.len() == limit;
                    if !is_over {
                        pairs.add(name, value);
                    }
                }
            }
        });
        if is_over {
            let what = format!("has more than {limit} cookies");
            findings.add(Violation::new(code::PARAMETER_LIMIT, Where::of(Part::Cookie), what))?;
        }
        let declared = self.declared(Part::Cookie);
        declared.validate(pairs, rooms, findings)?;
        let is_key =
            |kind: &SchemeKind, name: &[u8]| matches!(kind, SchemeKind::KeyInCookie(key) if key.as_bytes() == name);
        declared.validate_undeclared(
            pairs,
            options.undeclared_cookies,
            |name| self.is_credential(|kind| is_key(kind, name)),
            findings,
        )
    }

    /// Whether a scheme of the operation's security says this.
    fn is_credential(&self, says: impl Fn(&SchemeKind) -> bool) -> bool {
        self.operation
            .security
            .iter()
            .flat_map(|requirement| &requirement.demands)
            .any(|demand| says(&demand.scheme.kind))
    }

    fn body<'s>(&self, scratch: &'s mut Scratch, findings: &mut Findings) -> Result<BodyPlan<'s>, Enough>
    where
        'c: 's,
    {
        let contract = self.matched.contract;
        if self.parts.framing == Framing::Unseen {
            return self.unseen_body(findings);
        }
        let Some(body) = &self.operation.body else {
            return BodyValidator::undeclared(contract, contract.options.undeclared_body, self.parts.framing, findings);
        };
        if self.parts.framing == Framing::Empty {
            if body.required {
                if let Ok(chosen) = choose(contract, body, self.parts.fields)
                    && chosen.may_be_empty()
                {
                    return BodyValidator::of_nothing(contract, chosen, scratch, findings);
                }
                findings.add(Violation::new(code::BODY_MISSING, Where::of(Part::Body), "is required"))?;
            }
            return Ok(BodyValidator::empty(contract));
        }
        let chosen = choose(contract, body, self.parts.fields);
        BodyValidator::chosen(contract, chosen, body.required, self.parts.framing, scratch, findings)
    }

    /// What the head alone says of a body that may be there: its type must be one that is declared. Nothing is said where there is no type, since
    /// then there may be no body.
    fn unseen_body<'s>(&self, findings: &mut Findings) -> Result<BodyPlan<'s>, Enough>
    where
        'c: 's,
    {
        let contract = self.matched.contract;
        let mut has_type = false;
        self.parts.fields.each(&mut |name, _| has_type |= name.eq_ignore_ascii_case(b"content-type"));
        if let Some(body) = self.operation.body.as_ref().filter(|_| has_type)
            && let Err(violation) = choose(contract, body, self.parts.fields)
        {
            findings.add(violation)?;
        }
        Ok(BodyValidator::empty(contract))
    }
}

/// Fields of HTTP, browsers and proxies that no document declares. The name is in lower case.
pub fn is_everyday_field(name: &[u8]) -> bool {
    const PREFIXES: &[&[u8]] =
        &[b"accept", b"access-control-", b"content-", b"if-", b"sec-", b"x-forwarded-", b"proxy-", b"x-b3-"];
    const NAMES: &[&[u8]] = &[
        b"authorization",
        b"cache-control",
        b"connection",
        b"cookie",
        b"date",
        b"dnt",
        b"early-data",
        b"expect",
        b"forwarded",
        b"from",
        b"host",
        b"keep-alive",
        b"last-event-id",
        b"max-forwards",
        b"origin",
        b"pragma",
        b"priority",
        b"range",
        b"referer",
        b"te",
        b"traceparent",
        b"tracestate",
        b"baggage",
        b"b3",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"upgrade-insecure-requests",
        b"user-agent",
        b"via",
        b"x-real-ip",
        b"x-request-id",
        b"x-correlation-id",
        b"x-requested-with",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}
