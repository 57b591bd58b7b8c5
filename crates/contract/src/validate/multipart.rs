//! Multipart bodies before the contract: each part by the encoding of its field; files are counted as they pass, everything else becomes a
//! field of a form.

use super::code;
use super::findings::{Findings, Violation, Where};
use super::readers::{Form, of_body, too_long, too_short};
use super::value::STEPS_PER_HEAD;
use crate::body::{Failed, PartHead, Parts, Splitter};
use crate::media_type::ContentType;
use crate::message::Part;
use crate::openapi::{Class, FieldKind, FormField};
use crate::parameter::{Escapes, Pairs};
use crate::turn::{BYTES_PER_STEP, STEPS_PER_TURN, Turn};
use crate::validate::parameters::Declared;

/// Steps that reading the head of a part counts for.
const STEPS_PER_PART: u64 = 100;

/// Reads one multipart body.
pub(super) struct MultipartReader<'s> {
    splitter: Splitter,
    form: Form<'s>,
    fields: Pairs,
    /// Names of parts that are rejected by themselves and do not get into the form.
    rejected: Vec<String>,
    part: Option<OpenPart<'s>>,
    /// Steps that are left of this turn.
    steps_left: u64,
    /// The bytes that are given now were given before: the turn ended within them.
    goes_on: bool,
}

/// The part that is being read.
struct OpenPart<'s> {
    name: String,
    field: Option<&'s FormField>,
    /// Content so far; empty for files.
    content: Vec<u8>,
    received: u64,
    /// Something is wrong with it that was reported: the rest of it is passed over.
    is_rejected: bool,
}

impl<'s> MultipartReader<'s> {
    pub(super) fn new(form: Form<'s>, boundary: &str) -> MultipartReader<'s> {
        let limits = &form.contract.options.limits;
        let splitter = Splitter::new(boundary, limits.multipart_parts, limits.part_head_bytes);
        MultipartReader {
            splitter,
            form,
            fields: Pairs::default(),
            rejected: Vec::new(),
            part: None,
            steps_left: STEPS_PER_TURN,
            goes_on: false,
        }
    }

    /// Whether a field of the form is a file.
    pub(super) fn holds_files(&self) -> bool {
        self.form.fields.all().any(|field| matches!(field.kind, FieldKind::File { .. }))
    }

    /// How much memory it takes.
    pub(super) fn bytes_held(&self) -> usize {
        self.fields.bytes_held() + self.part.as_ref().map_or(0, |part| part.content.capacity())
    }

    /// Reads for a turn; says whether it is done with these bytes.
    pub(super) fn feed_some(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<bool, Violation> {
        let MultipartReader { splitter, form, fields, rejected, part, steps_left, goes_on } = self;
        if *steps_left == 0 {
            *steps_left = STEPS_PER_TURN;
        }
        let fresh = if *goes_on { &[] } else { bytes };
        let mut receiver = Receiver { form, fields, rejected, part, steps_left, findings };
        let is_done = splitter.feed(fresh, &mut receiver).map_err(violation)?;
        *goes_on = !is_done;
        Ok(is_done)
    }

    pub(super) fn is_turn_over(&self) -> bool {
        self.steps_left == 0
    }

    pub(super) async fn finish(mut self, findings: &mut Findings, turn: &Turn) -> Result<(), Violation> {
        self.splitter.finish().map_err(violation)?;
        self.form.validate(&self.fields, Escapes::Verbatim, self.rejected, findings, turn).await
    }
}

fn violation(failed: Failed<Violation>) -> Violation {
    let place = Where::of(Part::Body);
    match failed {
        Failed::Malformed(what) => Violation::new(code::MULTIPART_MALFORMED, place, what),
        Failed::Limit(what) => Violation::new(code::MULTIPART_LIMIT, place, what),
        Failed::Stopped(violation) => violation,
    }
}

/// Takes the parts as the splitter finds them.
struct Receiver<'r, 's> {
    form: &'r mut Form<'s>,
    fields: &'r mut Pairs,
    rejected: &'r mut Vec<String>,
    part: &'r mut Option<OpenPart<'s>>,
    steps_left: &'r mut u64,
    findings: &'r mut Findings,
}

impl Parts for Receiver<'_, '_> {
    type Stop = Violation;

    fn wants_more(&self) -> bool {
        *self.steps_left > 0
    }

    fn begin(&mut self, head: &PartHead) -> Result<(), Violation> {
        self.form.rooms.steps = STEPS_PER_HEAD;
        let field = self.form.fields.find(head.name.as_bytes());
        let mut wrong: Vec<Violation> = validate_content_type(head, field).err().into_iter().collect();
        if let Some(field) = field {
            wrong.extend(self.validate_fields(head, field));
        }
        self.spend(self.form.fields.patterns.len() as u64 + STEPS_PER_PART + STEPS_PER_HEAD - self.form.rooms.steps);
        let name = head.name.clone();
        *self.part = Some(OpenPart { name, field, content: Vec::new(), received: 0, is_rejected: false });
        wrong.into_iter().try_for_each(|violation| self.reject(violation))
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        self.spend((bytes.len() / BYTES_PER_STEP) as u64);
        let Some(part) = self.part.as_mut().filter(|part| !part.is_rejected) else { return Ok(()) };
        part.received = part.received.saturating_add(bytes.len() as u64);
        let limit = self.form.contract.options.limits.part_bytes;
        let wrong = match part.field.map(|field| field.kind) {
            Some(FieldKind::File { max_bytes: Some(max), .. }) if part.received > max => {
                at(of_body(too_long()), &part.name)
            }
            Some(FieldKind::File { .. }) => return Ok(()),
            _ if part.received > limit as u64 => {
                let what = format!("is a part of more than {limit} bytes that is not declared as a file");
                Violation::new(code::MULTIPART_LIMIT, Where::named(Part::Body, part.name.as_bytes()), what)
            }
            _ => {
                part.content.extend_from_slice(bytes);
                return Ok(());
            }
        };
        self.reject(wrong)
    }

    fn end(&mut self) -> Result<(), Violation> {
        if let Some(part) = self.part.as_ref()
            && let Some(FieldKind::File { min_bytes, .. }) = part.field.map(|field| field.kind)
            && part.received < min_bytes
            && !part.is_rejected
        {
            self.reject(at(of_body(too_short()), &part.name))?;
        }
        let Some(part) = self.part.take() else { return Ok(()) };
        match part.is_rejected {
            true => self.rejected.push(match part.field.filter(|field| field.is_listed) {
                Some(field) => field.name.clone(),
                None => part.name,
            }),
            false => self.fields.add(part.name.as_bytes(), &part.content),
        }
        Ok(())
    }
}

impl Receiver<'_, '_> {
    fn spend(&mut self, steps: u64) {
        *self.steps_left = self.steps_left.saturating_sub(steps);
    }

    /// The part that is open is wrong: that ends the reading, unless everything that is wrong is wanted.
    fn reject(&mut self, violation: Violation) -> Result<(), Violation> {
        if !self.findings.collects() {
            return Err(violation);
        }
        // Beyond as many as are wanted, the rest is still read to its end.
        let _ = self.findings.add(violation);
        self.part.iter_mut().for_each(|part| (part.is_rejected, part.content) = (true, Vec::new()));
        Ok(())
    }

    /// What is wrong with the headers that the encoding of the field declares.
    fn validate_fields(&mut self, head: &PartHead, field: &FormField) -> Vec<Violation> {
        if field.headers.is_empty() {
            return Vec::new();
        }
        let mut pairs = Pairs::default();
        head.fields.iter().for_each(|(name, value)| pairs.add(name.as_bytes(), value));
        let declared = Declared {
            contract: self.form.contract,
            part: Part::Header,
            parameters: &field.headers,
            escapes: Escapes::Raw,
            missing: code::PART_HEADER_MISSING,
        };
        let mut found = if self.findings.collects() { Findings::all() } else { Findings::first() };
        // What is wrong is in `found`, whether or not more would have been.
        let _ = declared.validate(&mut pairs, self.form.rooms, &mut found);
        found.into_violations()
    }
}

/// Whether a part may have its media type (OpenAPI 3.1.1 §4.8.15).
fn validate_content_type(head: &PartHead, field: Option<&FormField>) -> Result<(), Violation> {
    let reject =
        |what: &str| Err(Violation::new(code::PART_CONTENT_TYPE, Where::named(Part::Body, head.name.as_bytes()), what));
    let sent = match &head.content_type {
        Some(value) => match ContentType::parse(value) {
            Some(sent) => Some(sent),
            None => return reject("has a Content-Type that is no media type"),
        },
        None => None,
    };
    let class = sent.as_ref().map_or(Some(Class::Text), |sent| Class::of(sent.kind, sent.subtype));
    let is_utf8 = sent.as_ref().is_none_or(ContentType::is_utf8);
    let Some(field) = field else {
        return match class {
            Some(Class::Text) if is_utf8 && !head.has_filename => Ok(()),
            _ => reject("is not declared by the schema, and only plain text may be there undeclared"),
        };
    };
    if !field.content_types.is_empty() {
        // Text needs no Content-Type (RFC 7578 §4.4).
        let fits = match &sent {
            Some(sent) => field.content_types.iter().any(|range| range.fit(sent).is_some()),
            None => field.kind == FieldKind::Scalar,
        };
        if !fits {
            return reject("has a Content-Type that its encoding does not allow");
        }
    }
    match field.kind {
        FieldKind::File { .. } => Ok(()),
        _ if !is_utf8 => reject("names a charset other than UTF-8"),
        FieldKind::Json if sent.is_none() || class == Some(Class::Json) => Ok(()),
        FieldKind::Json => reject("is not JSON"),
        FieldKind::Scalar if head.has_filename => reject("is sent as a file and declared as text"),
        FieldKind::Scalar if class == Some(Class::Text) => Ok(()),
        FieldKind::Scalar => reject("is not plain text"),
    }
}

fn at(violation: Violation, name: &str) -> Violation {
    let mut pointer = String::new();
    crate::document::escape_pointer_token(&mut pointer, name);
    Violation { place: violation.place.clone().at(&pointer), ..violation }
}
