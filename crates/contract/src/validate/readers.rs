//! The readers of decoded bodies: JSON and text go straight to the schema, forms become objects first, files are counted.

use super::code;
use super::findings::{Findings, MAX_SHADOWS, MAX_VIOLATIONS, Violation, Where};
use super::form::{Assembly, split};
use super::multipart::MultipartReader;
use super::scratch::Rooms;
use super::sequence::SequenceReader;
use super::value::{SPLIT, everything, in_turns, of_schema};
use super::whole::WholeReader;
use crate::contract::Contract;
use crate::message::Part;
use crate::openapi::{Content, FormFields};
use crate::options::{EscapedDelimiters, Undeclared};
use crate::parameter::{Attempt, Escapes, Pairs, Rejected};
use crate::schema::{Check, SchemaId, Wanted};
use crate::turn::{Turn, Work};

/// Reads one body.
pub(super) enum Reader<'s> {
    Json(JsonReader<'s>),
    Text(TextReader<'s>),
    Form(FormReader<'s>),
    Multipart(Box<MultipartReader<'s>>),
    Sequence(Box<SequenceReader<'s>>),
    Whole(Box<WholeReader<'s>>),
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
            Content::Json { schema } => Reader::Json(JsonReader::new(contract, *schema, collects, body, rooms)),
            Content::Sequence { schema, is_records } => {
                let json = JsonReader::new(contract, *schema, collects, body, rooms);
                Reader::Sequence(Box::new(SequenceReader::new(json, *is_records)))
            }
            Content::Xml { .. } | Content::Yaml { .. } | Content::Scalar { .. } => {
                body.clear();
                Reader::Whole(Box::new(WholeReader { contract, content, body, rooms }))
            }
            Content::Text { schema } => {
                body.clear();
                let check = contract.program.check(*schema, &mut rooms.run);
                Reader::Text(TextReader { check, has_begun: false, json: body, at: 0 })
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

    /// Whether no bytes at all are a body that it reads.
    pub(super) fn may_be_empty(&self) -> bool {
        match self {
            Reader::Text(_) | Reader::Form(_) | Reader::Opaque { .. } => true,
            Reader::Whole(whole) => whole.content.may_be_empty(),
            Reader::Json(_) | Reader::Multipart(_) | Reader::Sequence(_) => false,
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
            Reader::Text(text) => text.feed_some(bytes),
            Reader::Multipart(reader) => reader.feed_some(bytes, findings),
            Reader::Sequence(sequence) => sequence.feed_some(bytes, findings),
            Reader::Whole(whole) => {
                whole.body.extend_from_slice(bytes);
                Ok(true)
            }
            Reader::Form(form) => {
                form.body.extend_from_slice(bytes);
                Ok(true)
            }
            Reader::Opaque { received, max_bytes, .. } => {
                *received = received.saturating_add(bytes.len() as u64);
                match max_bytes {
                    Some(max) if *received > *max => Err(of_body(too_long())),
                    _ => Ok(true),
                }
            }
        }
    }

    /// Whether others should have their turn before the next bytes.
    pub(super) fn is_turn_over(&self) -> bool {
        match self {
            Reader::Json(json) => json.is_turn_over(),
            Reader::Sequence(sequence) => sequence.is_turn_over(),
            Reader::Text(text) => text.check.is_turn_over(),
            Reader::Multipart(reader) => reader.is_turn_over(),
            Reader::Form(_) | Reader::Whole(_) | Reader::Opaque { .. } => false,
        }
    }

    /// How much memory it takes.
    pub(super) fn bytes_held(&self) -> usize {
        match self {
            Reader::Json(json) => json.bytes_held(),
            Reader::Sequence(sequence) => sequence.bytes_held(),
            Reader::Whole(whole) => whole.body.capacity(),
            Reader::Text(text) => text.json.capacity() + text.check.bytes_held(),
            Reader::Form(form) => form.body.capacity(),
            Reader::Multipart(reader) => reader.bytes_held(),
            Reader::Opaque { .. } => 0,
        }
    }

    /// Says that the body is over. Work, if that takes long: it gives what was found.
    pub(super) fn finish(self, findings: &mut Findings) -> Result<Option<Work<'s, Findings>>, Violation> {
        let fresh = findings.fresh();
        let work = match self {
            Reader::Json(json) => return json.finish(findings),
            Reader::Text(text) => return text.finish(fresh),
            Reader::Opaque { received, min_bytes, .. } if received < min_bytes => return Err(of_body(too_short())),
            Reader::Opaque { .. } => return Ok(None),
            Reader::Form(form) => Work::new(async |turn| {
                let mut found = fresh;
                let validated = form.finish(&mut found, &turn).await;
                let _ = validated.or_else(|violation| found.add(violation));
                found
            }),
            Reader::Sequence(sequence) => Work::new(async |turn| sequence.finish(fresh, &turn).await),
            Reader::Whole(whole) => Work::new(async |turn| {
                let mut found = fresh;
                let validated = whole.finish(&mut found, &turn).await;
                let _ = validated.or_else(|violation| found.add(violation));
                found
            }),
            Reader::Multipart(reader) => Work::new(async |turn| {
                let mut found = fresh;
                let validated = reader.finish(&mut found, &turn).await;
                let _ = validated.or_else(|violation| found.add(violation));
                found
            }),
        };
        Ok(Some(work))
    }
}

/// Bytes of a JSON body that are kept for telling everything that is wrong with it. Of a longer one the first thing is reported.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// JSON goes straight to its schema. Where everything that is wrong is wanted, or every undeclared field, the text is kept meanwhile and looked at
/// once more if there is something.
pub(super) struct JsonReader<'s> {
    contract: &'s Contract,
    schema: SchemaId,
    check: Check<'s>,
    /// What is wrong first, where validating goes on.
    first: Option<crate::reason::Violation>,
    /// A second validate that looks for undeclared fields, and the first one it has found.
    shadows: Option<Check<'s>>,
    shadow: Option<crate::reason::Violation>,
    kept: Option<&'s mut Vec<u8>>,
    /// How far each validator has come in the bytes that were given last.
    at: usize,
    shadow_at: usize,
}

impl<'s> JsonReader<'s> {
    fn new(
        contract: &'s Contract,
        schema: SchemaId,
        collects: bool,
        body: &'s mut Vec<u8>,
        rooms: &'s mut Rooms,
    ) -> JsonReader<'s> {
        let Rooms { run, shadow_run, .. } = rooms;
        body.clear();
        JsonReader {
            contract,
            schema,
            check: contract.program.check(schema, run),
            first: None,
            shadows: contract.closed_program.as_ref().map(|program| program.check(schema, shadow_run)),
            shadow: None,
            at: 0,
            shadow_at: 0,
            kept: (collects || contract.closed_program.is_some()).then_some(body),
        }
    }

    /// How much memory it takes.
    pub(super) fn bytes_held(&self) -> usize {
        let kept = self.kept.as_ref().map_or(0, |kept| kept.capacity());
        kept + self.check.bytes_held() + self.shadows.as_ref().map_or(0, Check::bytes_held)
    }

    pub(super) fn is_turn_over(&self) -> bool {
        self.check.is_turn_over() || self.shadows.as_ref().is_some_and(Check::is_turn_over)
    }

    /// What is wrong first of what was read so far, where reading went on.
    pub(super) fn take_first(&mut self) -> Option<Violation> {
        self.first.take().map(of_body)
    }

    /// Steps that were taken so far.
    pub(super) fn steps_taken(&self) -> u64 {
        self.check.steps_taken() + self.shadows.as_ref().map_or(0, Check::steps_taken)
    }

    pub(super) fn feed_some(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<bool, Violation> {
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

    pub(super) fn finish(mut self, findings: &mut Findings) -> Result<Option<Work<'s, Findings>>, Violation> {
        if let Some(Err(violation)) = self.shadows.map(Check::finish) {
            self.shadow = Some(violation);
        }
        let validated = match self.first.take() {
            Some(first) => Err(first),
            None => self.check.finish(),
        };
        let is_reported = findings.collects() || self.shadow.is_some();
        match validated {
            Ok(()) if self.shadow.is_none() => return Ok(None),
            Err(first) if !is_reported => return Err(of_body(first)),
            _ => {}
        }
        let (contract, schema, shadow, kept) = (self.contract, self.schema, self.shadow, self.kept);
        let mut found = findings.fresh();
        Ok(Some(Work::new(async move |turn| {
            let kept = kept.map(|kept| (kept.as_slice(), false));
            let most_steps = u64::MAX;
            if let (Some(first), Some(closed)) = (shadow, &contract.closed_program) {
                let wanted = Wanted { count: MAX_SHADOWS, most_steps, turn: &turn };
                let shadows = everything(closed, schema, kept, first, wanted).await;
                shadows.iter().for_each(|violation| note_shadow(violation, &mut found));
            }
            let wanted = Wanted { count: MAX_VIOLATIONS, most_steps, turn: &turn };
            let violations = match validated {
                Err(first) if found.collects() => everything(&contract.program, schema, kept, first, wanted).await,
                validated => validated.err().into_iter().collect(),
            };
            let _ = violations.into_iter().try_for_each(|violation| found.add(of_body(violation)));
            found
        })))
    }
}

/// Gives a validator the rest of some bytes for a turn; says whether it is done with them.
fn turn(check: &mut Check<'_>, bytes: &[u8], at: &mut usize) -> Result<bool, crate::reason::Violation> {
    *at += check.feed_some(bytes.get(*at..).unwrap_or_default())?;
    Ok(*at == bytes.len() && !check.is_pending())
}

/// Reports an undeclared field; other violations are the first validate's.
pub(super) fn note_shadow(violation: &crate::reason::Violation, findings: &mut Findings) {
    if violation.reason == crate::reason::Reason::UnknownField {
        findings.add_shadow(Part::Body, violation.pointer.as_bytes());
    }
}

/// Text on its way to a schema, as a JSON string.
pub(super) struct TextReader<'s> {
    check: Check<'s>,
    has_begun: bool,
    /// The bytes that were given last, as JSON, and how far the validator has come in them.
    json: &'s mut Vec<u8>,
    at: usize,
}

impl<'s> TextReader<'s> {
    fn feed_some(&mut self, bytes: &[u8]) -> Result<bool, Violation> {
        if self.json.is_empty() {
            crate::json::push_string(bytes, self.json);
            self.json.pop();
            // The quotes stand around the whole text, not around its pieces.
            self.at = usize::from(self.has_begun);
            self.has_begun = true;
        }
        let is_done = turn(&mut self.check, self.json, &mut self.at).map_err(of_text)?;
        if is_done {
            self.json.clear();
        }
        Ok(is_done)
    }

    /// Ends the string, of which everything may be left to say.
    fn finish(mut self, mut found: Findings) -> Result<Option<Work<'s, Findings>>, Violation> {
        let rest: &[u8] = if self.has_begun { b"\"" } else { b"\"\"" };
        let before = self.check.steps_taken();
        self.check.feed_some(rest).map_err(of_text)?;
        if !self.check.is_pending() {
            return self.check.finish().map(|()| None).map_err(of_text);
        }
        Ok(Some(Work::new(async move |turn| {
            let validated = self.evaluate(before, &turn).await;
            let _ = validated.or_else(|violation| found.add(of_text(violation)));
            found
        })))
    }

    async fn evaluate(mut self, mut before: u64, turn: &Turn) -> Result<(), crate::reason::Violation> {
        while self.check.is_pending() {
            let steps = self.check.steps_taken() - before;
            before += steps;
            turn.hold(self.json.capacity() + self.check.bytes_held());
            turn.spend(usize::try_from(steps).unwrap_or(usize::MAX)).await;
            self.check.feed_some(b"")?;
        }
        self.check.finish()
    }
}

/// A form that is read as a whole.
pub(super) struct FormReader<'s> {
    body: &'s mut Vec<u8>,
    form: Form<'s>,
}

impl FormReader<'_> {
    async fn finish(self, findings: &mut Findings, turn: &Turn) -> Result<(), Violation> {
        let FormReader { body, mut form } = self;
        let mut pairs = Pairs::default();
        let max_fields = form.contract.options.limits.form_fields;
        split(body, max_fields, &mut pairs, turn).await.map_err(|rejected| form_violation(rejected, b""))?;
        form.validate(&pairs, Escapes::Query, Vec::new(), findings, turn).await
    }
}

/// What validates the fields of a form.
pub(super) struct Form<'s> {
    pub(super) contract: &'s Contract,
    pub(super) fields: &'s FormFields,
    pub(super) schema: SchemaId,
    pub(super) rooms: &'s mut Rooms,
}

impl Form<'_> {
    /// Validates all fields: the first reading that satisfies the schema counts. `refused`: names of fields that are left out of `pairs`, because they
    /// are among the findings already.
    pub(super) async fn validate(
        &mut self,
        pairs: &Pairs,
        escapes: Escapes,
        rejected: Vec<String>,
        findings: &mut Findings,
        turn: &Turn,
    ) -> Result<(), Violation> {
        self.report_shadows(pairs, findings, turn).await;
        let mode = self.contract.options.escaped_delimiters;
        let form = (pairs, escapes, rejected.as_slice());
        let is_split = mode == EscapedDelimiters::Split;
        let (mut found, has_escaped) = self.reading(form, is_split, findings.collects(), turn).await;
        if found.is_empty() && has_escaped && mode == EscapedDelimiters::Both {
            (found, _) = self.reading(form, true, findings.collects(), turn).await;
            found.iter_mut().for_each(|violation| violation.what.push_str(SPLIT));
        }
        let last = found.pop();
        let _ = found.into_iter().try_for_each(|violation| findings.add(violation));
        last.map_or(Ok(()), Err)
    }

    /// What is wrong with the form, read in one way; and whether a value that is split holds an escaped delimiter.
    async fn reading(
        &mut self,
        (pairs, escapes, rejected): (&Pairs, Escapes, &[String]),
        splits_escaped: bool,
        collects: bool,
        turn: &Turn,
    ) -> (Vec<Violation>, bool) {
        let mut rejected = rejected.to_vec();
        let (mut found, mut has_escaped) = (Vec::new(), false);
        // Parts that are JSON stand in the same value, with the integers of JSON.
        let from_text = !Assembly::has_json(self.fields);
        for attempt in Attempt::ALL {
            let assembly = Assembly { contract: self.contract, fields: self.fields, escapes, attempt, splits_escaped };
            let mut unread = Vec::new();
            let written = assembly.write(pairs, self.rooms, &mut unread, turn).await;
            let has_choice = written.has_choice && unread.is_empty();
            has_escaped |= written.has_escaped;
            let mut wrong: Vec<Violation> = unread.iter().map(|(name, why)| form_violation(*why, name)).collect();
            rejected.extend(unread.into_iter().map(|(name, _)| String::from_utf8_lossy(&name).into_owned()));
            // What is said of the rest must not come of what was left out.
            if wrong.is_empty() || collects {
                let Rooms { json, run, .. } = &mut *self.rooms;
                let check = self.contract.program.check(self.schema, run);
                let check = if from_text { check.with_plain_integers() } else { check };
                match in_turns(check, json, pairs.bytes_held() + json.capacity(), turn).await {
                    Ok(()) if wrong.is_empty() => return (Vec::new(), has_escaped),
                    Ok(()) => {}
                    Err(violation) if collects && found.is_empty() => {
                        let program = &self.contract.program;
                        let wanted = Wanted { count: MAX_VIOLATIONS, most_steps: u64::MAX, turn };
                        let all = everything(program, self.schema, Some((json, from_text)), violation, wanted).await;
                        wrong.extend(all.into_iter().filter(|other| is_of_its_own(other, &rejected)).map(of_body));
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
        (found, has_escaped)
    }

    async fn report_shadows(&self, pairs: &Pairs, findings: &mut Findings, turn: &Turn) {
        if self.contract.options.undeclared_body_fields != Undeclared::Report || self.fields.is_open {
            return;
        }
        for (name, _) in pairs.iter() {
            turn.spend(1 + self.fields.fields.len() / 4 + self.fields.patterns.len()).await;
            if self.fields.find(name).is_none() {
                findings.add_shadow(Part::Body, name);
            }
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

pub(super) fn form_violation(rejected: Rejected, name: &[u8]) -> Violation {
    let place = Where::named(Part::Body, name);
    match rejected {
        Rejected::Malformed(what) => Violation::new(code::FORM_MALFORMED, place, what),
        Rejected::Repeated => Violation::new(code::PARAMETER_REPEATED, place, "is there more than once"),
        Rejected::Empty => Violation::new(code::PARAMETER_EMPTY, place, "is empty"),
        Rejected::Limit(what) => Violation::new(code::FORM_LIMIT, place, what),
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
