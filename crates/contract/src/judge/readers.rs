//! The readers of decoded bodies: JSON and text go straight to the schema, forms become objects first, files are counted.

use super::code;
use super::findings::{Findings, MAX_SHADOWS, MAX_VIOLATIONS, Part, Violation, Where};
use super::multipart::MultipartReader;
use super::scratch::Rooms;
use super::value::{everything, judge_json, of_schema};
use crate::body::{Assembly, split};
use crate::contract::Contract;
use crate::openapi::{Content, FormFields};
use crate::options::Undeclared;
use crate::parameter::{Attempt, Escapes, Pairs, Refused};
use crate::schema::{Check, SchemaId};

/// Reads one body.
pub(super) enum Reader<'s> {
    Json(JsonReader<'s>),
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
        collects: bool,
        body: &'s mut Vec<u8>,
        rooms: &'s mut Rooms,
    ) -> Reader<'s> {
        match content {
            Content::Json { schema } => {
                let Rooms { run, shadow_run, .. } = rooms;
                let shadows = contract.closed_program.as_ref().map(|program| program.check(*schema, shadow_run));
                body.clear();
                Reader::Json(JsonReader {
                    contract,
                    schema: *schema,
                    check: contract.program.check(*schema, run),
                    first: None,
                    shadows,
                    shadow: None,
                    at: 0,
                    shadow_at: 0,
                    kept: (collects || contract.closed_program.is_some()).then_some(body),
                })
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

    /// Reads for a turn; says whether it is done with these bytes. If not, it is to be called with them again.
    pub(super) fn feed_some(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<bool, Violation> {
        match self {
            Reader::Json(json) => json.feed_some(bytes, findings),
            other => other.feed(bytes, findings).map(|()| true),
        }
    }

    /// How much memory it takes.
    pub(super) fn bytes_held(&self) -> usize {
        match self {
            Reader::Json(json) => {
                let kept = json.kept.as_ref().map_or(0, |kept| kept.capacity());
                kept + json.check.bytes_held() + json.shadows.as_ref().map_or(0, Check::bytes_held)
            }
            Reader::Text(text) => text.check.bytes_held(),
            Reader::Form(form) => form.body.capacity(),
            Reader::Multipart(reader) => reader.bytes_held(),
            Reader::Opaque { .. } => 0,
        }
    }

    fn feed(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<(), Violation> {
        match self {
            Reader::Json(_) => Ok(()),
            Reader::Text(text) => text.feed(bytes),
            Reader::Form(form) => {
                form.body.extend_from_slice(bytes);
                Ok(())
            }
            Reader::Multipart(reader) => reader.feed(bytes, findings),
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
            Reader::Json(json) => json.finish(findings),
            Reader::Text(text) => text.finish(),
            Reader::Form(FormReader { body, mut form }) => {
                let mut pairs = Pairs::default();
                split(body, form.contract.options.limits.form_fields, &mut pairs)
                    .map_err(|refused| form_violation(refused, b""))?;
                form.judge(&pairs, Escapes::Query, Vec::new(), findings)
            }
            Reader::Multipart(reader) => reader.finish(findings),
            Reader::Opaque { received, min_bytes, .. } if received < min_bytes => Err(of_body(too_short())),
            Reader::Opaque { .. } => Ok(()),
        }
    }
}

/// Bytes of a JSON body that are kept for telling everything that is wrong with it. Of a longer one the first thing is told.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// JSON goes straight to its schema. Where everything that is wrong is wanted, or every undeclared field, the text is kept meanwhile and looked at
/// once more if there is something.
pub(super) struct JsonReader<'s> {
    contract: &'s Contract,
    schema: SchemaId,
    check: Check<'s>,
    /// What is wrong first, where judging goes on.
    first: Option<crate::reason::Violation>,
    /// A second judge that looks for undeclared fields, and the first one it has found.
    shadows: Option<Check<'s>>,
    shadow: Option<crate::reason::Violation>,
    kept: Option<&'s mut Vec<u8>>,
    /// How far each judge has come in the bytes that were given last.
    at: usize,
    shadow_at: usize,
}

impl JsonReader<'_> {
    fn feed_some(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<bool, Violation> {
        if let Some(shadows) = &mut self.shadows
            && (self.shadow_at < bytes.len() || shadows.is_pending())
        {
            match turn(shadows, bytes, &mut self.shadow_at) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(violation) => (self.shadow, self.shadows) = (Some(violation), None),
            }
        }
        if self.first.is_none() {
            match turn(&mut self.check, bytes, &mut self.at) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(violation) if findings.collects() => self.first = Some(violation),
                Err(violation) => {
                    self.shadow.iter().for_each(|shadow| note_shadow(shadow, findings));
                    return Err(of_body(violation));
                }
            }
        }
        (self.at, self.shadow_at) = (0, 0);
        match &mut self.kept {
            Some(kept) if kept.len() + bytes.len() <= MAX_KEPT_BYTES => kept.extend_from_slice(bytes),
            kept => *kept = None,
        }
        Ok(true)
    }

    fn finish(mut self, findings: &mut Findings) -> Result<(), Violation> {
        if let Some(Err(violation)) = self.shadows.map(Check::finish) {
            self.shadow = Some(violation);
        }
        let kept = self.kept.as_deref().map(|kept| (kept.as_slice(), false));
        if let (Some(first), Some(closed)) = (self.shadow, &self.contract.closed_program) {
            let found = everything(closed, self.schema, kept, first, MAX_SHADOWS);
            found.iter().for_each(|violation| note_shadow(violation, findings));
        }
        let judged = match self.first.take() {
            Some(first) => Err(first),
            None => self.check.finish(),
        };
        let Err(first) = judged else { return Ok(()) };
        if !findings.collects() {
            return Err(of_body(first));
        }
        let found = everything(&self.contract.program, self.schema, kept, first, MAX_VIOLATIONS);
        let _ = found.into_iter().try_for_each(|violation| findings.add(of_body(violation)));
        Ok(())
    }
}

/// Gives a judge the rest of some bytes for a turn; says whether it is done with them.
fn turn(check: &mut Check<'_>, bytes: &[u8], at: &mut usize) -> Result<bool, crate::reason::Violation> {
    *at += check.feed_some(bytes.get(*at..).unwrap_or_default())?;
    Ok(*at == bytes.len() && !check.is_pending())
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
    /// Judges all fields: the first reading that satisfies the schema counts. `refused`: names of fields that are left out of `pairs`, because they
    /// are among the findings already.
    pub(super) fn judge(
        &mut self,
        pairs: &Pairs,
        escapes: Escapes,
        mut refused: Vec<String>,
        findings: &mut Findings,
    ) -> Result<(), Violation> {
        self.report_shadows(pairs, findings);
        let Rooms { text, json, run, .. } = &mut *self.rooms;
        let mut found = Vec::new();
        // Parts that are JSON stand in the same value, with the integers of JSON.
        let from_text = !Assembly::has_json(self.contract, self.fields);
        for attempt in Attempt::ALL {
            let assembly = Assembly { contract: self.contract, fields: self.fields, escapes, attempt };
            let mut unread = Vec::new();
            let has_choice = assembly.write(pairs, text, json, run, &mut unread) && unread.is_empty();
            let mut wrong: Vec<Violation> = unread.iter().map(|(name, why)| form_violation(*why, name)).collect();
            refused.extend(unread.into_iter().map(|(name, _)| String::from_utf8_lossy(&name).into_owned()));
            // What is told of the rest must not come of what was left out.
            if wrong.is_empty() || findings.collects() {
                match judge_json(self.contract, self.schema, json, from_text, run) {
                    Ok(()) if wrong.is_empty() => return Ok(()),
                    Ok(()) => {}
                    Err(violation) if findings.collects() && found.is_empty() => {
                        let program = &self.contract.program;
                        let all = everything(program, self.schema, Some((json, from_text)), violation, MAX_VIOLATIONS);
                        wrong.extend(all.into_iter().filter(|other| is_of_its_own(other, &refused)).map(of_body));
                    }
                    Err(violation) => wrong.push(of_body(violation)),
                }
            }
            if found.is_empty() {
                found = wrong;
            }
            if !has_choice {
                break;
            }
        }
        let last = found.pop();
        let _ = found.into_iter().try_for_each(|violation| findings.add(violation));
        last.map_or(Ok(()), Err)
    }

    fn report_shadows(&self, pairs: &Pairs, findings: &mut Findings) {
        if self.contract.options.undeclared_body_fields != Undeclared::Report || self.fields.is_open {
            return;
        }
        for (name, _) in pairs.iter().filter(|(name, _)| self.fields.find(name).is_none()) {
            findings.add_shadow(Part::Body, name);
        }
    }
}

/// Whether a violation of the whole form is no consequence of fields that were left out of it.
fn is_of_its_own(violation: &crate::reason::Violation, left_out: &[String]) -> bool {
    let is_below = |name: &String| {
        let mut pointer = String::new();
        crate::document::escape_pointer_token(&mut pointer, name);
        let rest = violation.pointer.strip_prefix(&pointer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    left_out.is_empty() || !(violation.pointer.is_empty() || left_out.iter().any(is_below))
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
    crate::reason::Violation::new(crate::reason::Reason::MaxLength, String::new())
}

pub(super) fn too_short() -> crate::reason::Violation {
    crate::reason::Violation::new(crate::reason::Reason::MinLength, String::new())
}
