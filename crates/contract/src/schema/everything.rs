//! All that is wrong with a value, not just the first thing: for logs and people, after the judge has said that something is. The value is
//! recorded as a whole and evaluated, which takes memory and time that no verdict depends on.

use std::collections::HashSet;

use super::evaluate::{Evaluation, Everything, Stop, Workspace};
use super::explain;
use super::judge::STEPS_AT_ONCE;
use super::program::{Program, SchemaId};
use super::tape::{Tag, Tape};
use crate::document::escape_pointer_token;
use crate::json::{Number, Scanner, Sink, Text};
use crate::reason::{Reason, Violation};

impl Program {
    /// What is wrong with JSON text, in the order of the text, at most `wanted` violations. If it is not JSON within the limits, only that. Nothing
    /// may be found in a text that was refused for the steps it took.
    pub fn everything_wrong(&self, id: SchemaId, text: &[u8], wanted: usize) -> Vec<Violation> {
        self.everything_wrong_with(id, text, wanted, false)
    }

    /// As [`Program::everything_wrong`], for a value that may have been made from text: see [`super::Check::with_plain_integers`].
    pub(crate) fn everything_wrong_with(
        &self,
        id: SchemaId,
        text: &[u8],
        wanted: usize,
        plain_integers: bool,
    ) -> Vec<Violation> {
        let mut space = Workspace::default();
        space.tape.plain_integers = plain_integers;
        let mut recorder = Recorder { tape: &mut space.tape, names: Vec::new() };
        let mut scanner = Scanner::new(&self.limits);
        if let Err(reason) = scanner.feed(text, &mut recorder).and_then(|()| scanner.finish(&mut recorder)) {
            return vec![Violation::new(reason, String::new())];
        }
        let mut evaluation = Evaluation {
            schemas: &self.schemas,
            anchors: &self.anchors,
            shared: &self.shared,
            refuse_unknown: self.refuse_unknown,
            space: &mut space,
            steps_left: self.limits.steps_of(text.len() as u64).min(STEPS_AT_ONCE),
            pause_at: 0,
            depth: 0,
            current: 0,
            everything: Some(Everything::new(wanted)),
        };
        let last = evaluation.run(&self.plans[self.root(id) as usize].ids, false).err();
        let mut stops = evaluation.everything.take().map(|everything| everything.stops).unwrap_or_default();
        stops.extend(last);
        stops.sort_by_key(|stop| stop.cell);
        let mut found: Vec<Violation> = Vec::new();
        for stop in stops {
            let mut pointer = String::new();
            space.tape.pointer(stop.cell, &mut pointer);
            if let Some(name) = &stop.missing {
                escape_pointer_token(&mut pointer, name);
            }
            let violation = self.stopped(&space.tape, &stop, pointer);
            if !found.contains(&violation) {
                found.push(violation);
            }
        }
        found
    }
}

impl Program {
    /// The violation that ended an evaluation, with what was expected.
    pub(super) fn stopped(&self, tape: &Tape, stop: &Stop, pointer: String) -> Violation {
        let found = (stop.cell < tape.len()).then(|| tape.kind(stop.cell));
        let schema = self.schemas.get(stop.schema as usize);
        let expected = schema.and_then(|schema| explain::of_schema(schema, found, stop.reason));
        Violation { expected: expected.map(String::into_boxed_str), ..Violation::new(stop.reason, pointer) }
    }
}

/// Records a whole value.
struct Recorder<'t> {
    tape: &'t mut Tape,
    /// Names so far of each open object; nothing for arrays.
    names: Vec<HashSet<Box<[u8]>>>,
}

impl Recorder<'_> {
    fn begin(&mut self, tag: Tag) -> Result<(), Reason> {
        self.tape.begin(tag);
        self.names.push(HashSet::new());
        Ok(())
    }

    fn end(&mut self) -> Result<(), Reason> {
        self.tape.end();
        self.names.pop();
        Ok(())
    }
}

impl Sink for Recorder<'_> {
    fn null(&mut self) -> Result<(), Reason> {
        self.tape.constant(Tag::Null);
        Ok(())
    }

    fn boolean(&mut self, value: bool) -> Result<(), Reason> {
        self.tape.constant(if value { Tag::True } else { Tag::False });
        Ok(())
    }

    fn number(&mut self, number: Number<'_>) -> Result<(), Reason> {
        self.tape.number(number);
        Ok(())
    }

    fn string(&mut self, text: Text<'_>) -> Result<(), Reason> {
        self.tape.string(text);
        Ok(())
    }

    fn begin_array(&mut self) -> Result<(), Reason> {
        self.begin(Tag::Array)
    }

    fn end_array(&mut self) -> Result<(), Reason> {
        self.end()
    }

    fn begin_object(&mut self) -> Result<(), Reason> {
        self.begin(Tag::Object)
    }

    fn key(&mut self, text: Text<'_>) -> Result<(), Reason> {
        self.tape.key(text);
        let is_new = self.names.last_mut().is_none_or(|names| names.insert(text.bytes.into()));
        if is_new { Ok(()) } else { Err(Reason::DuplicateKey) }
    }

    fn end_object(&mut self) -> Result<(), Reason> {
        self.end()
    }
}
