//! The readers of decoded bodies: JSON and text go straight to the schema, forms become objects first, files are counted.

use super::code;
use super::findings::{Findings, Part, Violation, Where};
use super::multipart::MultipartReader;
use super::scratch::Rooms;
use super::value::{judge_json, of_schema};
use crate::body::{Assembly, field_of, split};
use crate::contract::Contract;
use crate::openapi::{Content, FormFields};
use crate::options::Undeclared;
use crate::parameter::{Attempt, Escapes, Pairs, Refused};
use crate::schema::{Check, SchemaId};

/// Reads one body.
pub(super) enum Reader<'s> {
    Json { check: Check<'s>, shadows: Option<Check<'s>> },
    Text(TextReader<'s>),
    Form(FormReader<'s>),
    Multipart(Box<MultipartReader<'s>>),
    Opaque { received: u64, min_bytes: u64, max_bytes: Option<u64> },
}

impl<'s> Reader<'s> {
    pub(super) fn new(
        contract: &'s Contract,
        content: &'s Content,
        boundary: &str,
        body: &'s mut Vec<u8>,
        rooms: &'s mut Rooms,
    ) -> Reader<'s> {
        match content {
            Content::Json { schema } => {
                let Rooms { run, shadow_run, .. } = rooms;
                let shadows = contract.closed_program.as_ref().map(|program| program.check(*schema, shadow_run));
                Reader::Json { check: contract.program.check(*schema, run), shadows }
            }
            Content::Text { schema } => {
                Reader::Text(TextReader { check: contract.program.check(*schema, &mut rooms.run), has_begun: false })
            }
            Content::Form { schema, fields } => {
                body.clear();
                Reader::Form(FormReader { body, form: Form { contract, fields, schema: *schema, rooms } })
            }
            Content::Multipart { schema, fields } => {
                let form = Form { contract, fields, schema: *schema, rooms };
                Reader::Multipart(Box::new(MultipartReader::new(form, boundary)))
            }
            Content::Opaque { min_bytes, max_bytes } => {
                Reader::Opaque { received: 0, min_bytes: *min_bytes, max_bytes: *max_bytes }
            }
        }
    }

    /// Whether parts of the body are files, which nobody holds.
    pub(super) fn holds_files(&self) -> bool {
        match self {
            Reader::Opaque { .. } => true,
            Reader::Multipart(reader) => reader.holds_files(),
            _ => false,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<(), Violation> {
        match self {
            Reader::Json { check, shadows } => {
                look_for_shadows(shadows, findings, |shadows| shadows.feed(bytes));
                check.feed(bytes).map_err(of_body)
            }
            Reader::Text(text) => text.feed(bytes),
            Reader::Form(form) => {
                form.body.extend_from_slice(bytes);
                Ok(())
            }
            Reader::Multipart(reader) => reader.feed(bytes),
            Reader::Opaque { received, max_bytes, .. } => {
                *received = received.saturating_add(bytes.len() as u64);
                match max_bytes {
                    Some(max) if *received > *max => Err(of_body(too_long())),
                    _ => Ok(()),
                }
            }
        }
    }

    pub(super) fn finish(self, findings: &mut Findings) -> Result<(), Violation> {
        match self {
            Reader::Json { check, shadows } => {
                if let Some(Err(violation)) = shadows.map(Check::finish) {
                    note_shadow(&violation, findings);
                }
                check.finish().map_err(of_body)
            }
            Reader::Text(text) => text.finish(),
            Reader::Form(FormReader { body, mut form }) => {
                let mut pairs = Pairs::default();
                split(body, form.contract.options.limits.form_fields, &mut pairs)
                    .map_err(|refused| form_violation(refused, b""))?;
                form.judge(&pairs, Escapes::Query, findings)
            }
            Reader::Multipart(reader) => reader.finish(findings),
            Reader::Opaque { received, min_bytes, .. } if received < min_bytes => Err(of_body(too_short())),
            Reader::Opaque { .. } => Ok(()),
        }
    }
}

/// Gives a piece to the judge that looks for undeclared fields; it is of no use once it has found something.
fn look_for_shadows<'s>(
    shadows: &mut Option<Check<'s>>,
    findings: &mut Findings,
    give: impl FnOnce(&mut Check<'s>) -> Result<(), crate::reason::Violation>,
) {
    if let Some(Err(violation)) = shadows.as_mut().map(give) {
        note_shadow(&violation, findings);
        *shadows = None;
    }
}

/// Reports an undeclared field; other violations are the first judge's.
fn note_shadow(violation: &crate::reason::Violation, findings: &mut Findings) {
    if violation.reason == crate::reason::Reason::UnknownField {
        findings.add_shadow(Part::Body, violation.pointer.as_bytes());
    }
}

/// Text on its way to a schema, as a JSON string.
pub(super) struct TextReader<'s> {
    check: Check<'s>,
    has_begun: bool,
}

impl TextReader<'_> {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let mut json = Vec::with_capacity(bytes.len() + 2);
        crate::parameter::push_string(bytes, &mut json);
        // The quotes stand around the whole text, not around its pieces.
        let from = usize::from(self.has_begun);
        self.has_begun = true;
        self.check.feed(json.get(from..json.len() - 1).unwrap_or_default()).map_err(of_text)
    }

    fn finish(mut self) -> Result<(), Violation> {
        let rest: &[u8] = if self.has_begun { b"\"" } else { b"\"\"" };
        self.check.feed(rest).and_then(|()| self.check.finish()).map_err(of_text)
    }
}

/// A form that is read as a whole.
pub(super) struct FormReader<'s> {
    body: &'s mut Vec<u8>,
    form: Form<'s>,
}

/// What judges the fields of a form.
pub(super) struct Form<'s> {
    pub(super) contract: &'s Contract,
    pub(super) fields: &'s FormFields,
    pub(super) schema: SchemaId,
    pub(super) rooms: &'s mut Rooms,
}

impl Form<'_> {
    /// Judges all fields: the first reading that satisfies the schema counts.
    pub(super) fn judge(&mut self, pairs: &Pairs, escapes: Escapes, findings: &mut Findings) -> Result<(), Violation> {
        self.report_shadows(pairs, findings);
        let Rooms { text, json, run, .. } = &mut *self.rooms;
        let mut first = None;
        for attempt in Attempt::ALL {
            let assembly = Assembly { contract: self.contract, fields: self.fields, escapes, attempt };
            let (violation, has_choice) = match assembly.write(pairs, text, json, run) {
                Err((name, refused)) => (form_violation(refused, &name), false),
                Ok(has_choice) => match judge_json(self.contract, self.schema, json, run) {
                    Ok(()) => return Ok(()),
                    Err(violation) => (of_body(violation), has_choice),
                },
            };
            first = first.or(Some(violation));
            if !has_choice {
                break;
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn report_shadows(&self, pairs: &Pairs, findings: &mut Findings) {
        if self.contract.options.undeclared_body_fields != Undeclared::Report || self.fields.is_open {
            return;
        }
        for (name, _) in pairs.iter().filter(|(name, _)| field_of(self.fields, name).is_none()) {
            findings.add_shadow(Part::Body, name);
        }
    }
}

pub(super) fn form_violation(refused: Refused, name: &[u8]) -> Violation {
    let place = Where::named(Part::Body, name);
    match refused {
        Refused::Malformed(what) => Violation::new(code::FORM_MALFORMED, place, what),
        Refused::Repeated => Violation::new(code::PARAMETER_REPEATED, place, "is there more than once"),
        Refused::Empty => Violation::new(code::PARAMETER_EMPTY, place, "is empty"),
        Refused::Limit(what) => Violation::new(code::FORM_LIMIT, place, what),
    }
}

/// A violation of the body's schema.
pub(super) fn of_body(violation: crate::reason::Violation) -> Violation {
    of_schema(violation, Where::of(Part::Body))
}

/// The same for text, which was never JSON.
fn of_text(violation: crate::reason::Violation) -> Violation {
    use crate::reason::Reason;
    match violation.reason {
        Reason::Utf8 | Reason::Syntax | Reason::LoneSurrogate => {
            Violation::new(code::TEXT_MALFORMED, Where::of(Part::Body), "is not UTF-8")
        }
        _ => of_body(violation),
    }
}

pub(super) fn too_long() -> crate::reason::Violation {
    crate::reason::Violation { reason: crate::reason::Reason::MaxLength, pointer: String::new() }
}

pub(super) fn too_short() -> crate::reason::Violation {
    crate::reason::Violation { reason: crate::reason::Reason::MinLength, pointer: String::new() }
}
