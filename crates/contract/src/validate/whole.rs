//! Bodies that are read as a whole, and become JSON text before their schema sees them: XML, YAML, and text that stands for a number or boolean.

use super::code;
use super::findings::{Findings, MAX_SHADOWS, MAX_VIOLATIONS, Violation, Where};
use super::markup::{Composer, Unread};
use super::readers::{note_shadow, of_body};
use super::scratch::Rooms;
use super::value::{everything, in_turns};
use crate::body::{xml, yaml};
use crate::contract::Contract;
use crate::json::push_string;
use crate::message::Part;
use crate::openapi::Content;
use crate::parameter::{Attempt, Reading, push_scalar};
use crate::schema::{SchemaId, Types, Wanted};
use crate::turn::Turn;

/// Reads one body.
pub(super) struct WholeReader<'s> {
    pub(super) contract: &'s Contract,
    pub(super) content: &'s Content,
    pub(super) body: &'s mut Vec<u8>,
    pub(super) rooms: &'s mut Rooms,
}

impl WholeReader<'_> {
    /// Reads and validates the body, which is here.
    pub(super) async fn finish(self, findings: &mut Findings, turn: &Turn) -> Result<(), Violation> {
        let WholeReader { contract, content, body, rooms } = self;
        Complete { contract, content, rooms, held: body.capacity() }.validate(body, findings, turn).await
    }
}

/// A body that is here.
struct Complete<'s> {
    contract: &'s Contract,
    content: &'s Content,
    rooms: &'s mut Rooms,
    /// What the body takes of memory.
    held: usize,
}

/// Readings of one text that were tried: the first that satisfies its schema counts, and if none does, what is wrong with the first.
#[derive(Default)]
struct Tried {
    first: Option<Findings>,
}

impl Tried {
    /// Whether a reading satisfies, by how it was validated and what was found; then what is to be noted of it is.
    fn satisfies(&mut self, validated: Result<(), Violation>, mut found: Findings, findings: &mut Findings) -> bool {
        let _ = validated.or_else(|violation| found.add(violation));
        let is_right = found.is_empty();
        match is_right {
            true => _ = findings.take(found),
            false => _ = self.first.get_or_insert(found),
        }
        is_right
    }

    /// None does. What is full stays full, and says so by itself.
    fn report(self, findings: &mut Findings) {
        let _ = self.first.map_or(Ok(()), |first| findings.take(first));
    }
}

impl Complete<'_> {
    async fn validate(&mut self, body: &[u8], findings: &mut Findings, turn: &Turn) -> Result<(), Violation> {
        let Ok(text) = std::str::from_utf8(body) else {
            return Err(Violation::new(code::TEXT_MALFORMED, Where::of(Part::Body), "is not UTF-8"));
        };
        self.rooms.json.clear();
        match self.content {
            Content::Xml { schema, is_text: true, .. } => {
                xml::parse(&xml::line_ends(text), self.xml_bounds(), turn).await.map_err(of_xml)?;
                push_string(body, &mut self.rooms.json);
                self.json(*schema, false, findings, turn).await
            }
            Content::Xml { .. } => self.xml(text, findings, turn).await,
            Content::Scalar { schema, types } => self.scalar(body, *schema, *types, findings, turn).await,
            Content::Yaml { schema, is_text } => {
                let limits = &self.contract.options.limits;
                let bounds = yaml::Bounds {
                    depth: limits.json.depth as usize,
                    aliases: limits.yaml_aliases,
                    bytes: usize::try_from(limits.decoded_body_bytes).unwrap_or(usize::MAX),
                };
                yaml::to_json(text, bounds, &mut self.rooms.json, turn).await.map_err(of_yaml)?;
                if *is_text {
                    self.rooms.json.clear();
                    push_string(body, &mut self.rooms.json);
                }
                self.json(*schema, false, findings, turn).await
            }
            _ => Ok(()),
        }
    }

    /// Text as its types allow: the first reading that satisfies the schema counts, and if none does, what is wrong with the first.
    async fn scalar(
        &mut self,
        body: &[u8],
        schema: SchemaId,
        types: Types,
        findings: &mut Findings,
        turn: &Turn,
    ) -> Result<(), Violation> {
        let mut tried = Tried::default();
        for reading in [Reading::Typed, Reading::Strings] {
            self.rooms.json.clear();
            let has_choice = push_scalar(body, types, reading, &mut self.rooms.json);
            let mut found = findings.fresh();
            let validated = self.json(schema, true, &mut found, turn).await;
            if tried.satisfies(validated, found, findings) {
                return Ok(());
            }
            if !has_choice {
                break;
            }
        }
        tried.report(findings);
        Ok(())
    }

    fn xml_bounds(&self) -> xml::Bounds {
        let limits = &self.contract.options.limits;
        xml::Bounds {
            depth: limits.json.depth as usize,
            nodes: limits.json.values as usize,
            attributes: limits.xml_attributes,
            name_bytes: limits.json.key_bytes as usize,
        }
    }

    /// Text may be read in several ways where several types are allowed: the first one that satisfies the schema counts, and if none does, what is wrong with
    /// the first.
    async fn xml(&mut self, text: &str, findings: &mut Findings, turn: &Turn) -> Result<(), Violation> {
        let Content::Xml { schema, shape, root, .. } = self.content else { return Ok(()) };
        let text = xml::line_ends(text);
        let tree = xml::parse(&text, self.xml_bounds(), turn).await.map_err(of_xml)?;
        let mut tried = Tried::default();
        for attempt in Attempt::ALL {
            let mut composer = Composer::new(self.contract, &tree, attempt, self.rooms);
            let composed = composer.compose(*shape, root, text.len(), turn).await;
            let has_choice = composer.has_choice;
            let mut found = findings.fresh();
            let validated = match composed {
                Ok(()) => self.json(*schema, true, &mut found, turn).await,
                Err(unread) => Err(of_unread(unread)),
            };
            if tried.satisfies(validated, found, findings) {
                return Ok(());
            }
            if !has_choice {
                break;
            }
        }
        tried.report(findings);
        Ok(())
    }

    /// Validates the JSON text that the body has become.
    async fn json(
        &mut self,
        schema: SchemaId,
        from_text: bool,
        findings: &mut Findings,
        turn: &Turn,
    ) -> Result<(), Violation> {
        let beside = self.held;
        let Rooms { json, run, shadow_run, .. } = &mut *self.rooms;
        let text = Some((json.as_slice(), from_text));
        let most_steps = u64::MAX;
        if let Some(closed) = &self.contract.closed_program {
            let check = closed.check(schema, shadow_run);
            let check = if from_text { check.with_plain_integers() } else { check };
            if let Err(first) = in_turns(check, json, beside, turn).await {
                let wanted = Wanted { count: MAX_SHADOWS, most_steps, turn };
                let shadows = everything(closed, schema, text, first, wanted).await;
                shadows.iter().for_each(|violation| note_shadow(violation, findings));
            }
        }
        let program = &self.contract.program;
        let check = program.check(schema, run);
        let check = if from_text { check.with_plain_integers() } else { check };
        let Err(first) = in_turns(check, json, beside, turn).await else { return Ok(()) };
        if !findings.collects() {
            return Err(of_body(first));
        }
        let wanted = Wanted { count: MAX_VIOLATIONS, most_steps, turn };
        let all = everything(program, schema, text, first, wanted).await;
        let _ = all.into_iter().try_for_each(|violation| findings.add(of_body(violation)));
        Ok(())
    }
}

fn of_xml(failed: xml::Failed) -> Violation {
    let place = Where::of(Part::Body);
    match failed {
        xml::Failed::Malformed(what) => Violation::new(code::XML_MALFORMED, place, what),
        xml::Failed::Limit(what) => Violation::new(code::XML_LIMIT, place, what),
    }
}

fn of_yaml(failed: yaml::Failed) -> Violation {
    let place = Where::of(Part::Body);
    match failed {
        yaml::Failed::Malformed(what) => Violation::new(code::YAML_MALFORMED, place, what),
        yaml::Failed::Limit(what) => Violation::new(code::YAML_LIMIT, place, what),
    }
}

fn of_unread(Unread { name, what }: Unread) -> Violation {
    Violation::new(code::XML_MALFORMED, Where::named(Part::Body, name.as_bytes()), what)
}
