//! All that is wrong with a value, not just the first thing: for logs and people, after the validator has said that something is. The value is
//! recorded as a whole and evaluated, which takes memory and time that no decision depends on.

use std::collections::HashSet;

use super::evaluate::{Evaluation, Everything, Stop, Workspace};
use super::explain;
use super::program::{Program, SchemaId};
use super::tape::{Tag, Tape};
use crate::json::{Number, Scanner, Sink, Text};
use crate::node::escape_pointer_token;
use crate::reason::{Reason, Violation};
use crate::turn::{STEPS_PER_TURN, Turn, at_once};

/// Bytes that are recorded between two looks at the turn.
const PIECE_BYTES: usize = 8 * 1024;

/// How much is wanted, and what it may take.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'t> {
    /// Violations.
    pub count: usize,
    pub most_steps: u64,
    pub turn: &'t Turn,
}

impl Program {
    /// What is wrong with JSON text, in the order of the text, at most `wanted` violations. If it is not JSON within the limits, only that. Nothing
    /// may be found in a text that was rejected for the steps it took.
    pub fn everything_wrong(&self, id: SchemaId, text: &[u8], wanted: usize) -> Vec<Violation> {
        let most_steps = u64::MAX;
        at_once(async |turn| {
            self.everything_wrong_with(id, text, Wanted { count: wanted, most_steps, turn }, false).await
        })
    }

    /// As [`Program::everything_wrong`], in turns, for a value that may have been made from text: see [`super::Check::with_plain_integers`].
    pub(crate) async fn everything_wrong_with(
        &self,
        id: SchemaId,
        text: &[u8],
        wanted: Wanted<'_>,
        plain_integers: bool,
    ) -> Vec<Violation> {
        let Wanted { count, most_steps, turn } = wanted;
        let mut space = Workspace::default();
        space.tape.plain_integers = plain_integers;
        if let Err(reason) = self.record(text, &mut space, turn).await {
            return vec![Violation::new(reason, String::new())];
        }
        let (mut everything, mut pauses) = (Some(Everything::new(count)), 0);
        let mut steps_left = self.limits.steps_of(text.len() as u64).min(most_steps);
        let last = loop {
            // Longer from time to time, since each turn spends some steps on finding where it was.
            let steps = STEPS_PER_TURN + STEPS_PER_TURN / 64 * pauses;
            let mut evaluation = Evaluation {
                schemas: &self.schemas,
                anchors: &self.anchors,
                shared: &self.shared,
                reject_unknown: self.reject_unknown,
                space: &mut space,
                steps_left,
                pause_at: steps_left.saturating_sub(steps),
                keeps: true,
                depth: 0,
                current: 0,
                everything: everything.take(),
            };
            let outcome = evaluation.run(&self.plans[self.root(id) as usize].ids, pauses > 0);
            let taken = steps_left - evaluation.steps_left;
            (steps_left, everything) = (evaluation.steps_left, evaluation.everything.take());
            match outcome {
                Err(Stop { reason: Reason::Paused, .. }) => pauses += 1,
                outcome => break outcome.err(),
            }
            turn.hold(text.len() + space.bytes_held());
            turn.spend(usize::try_from(taken).unwrap_or(usize::MAX)).await;
        };
        let mut stops = everything.map(|everything| everything.stops).unwrap_or_default();
        stops.extend(last);
        stops.sort_by_key(|stop| stop.cell);
        let mut found: Vec<Violation> = Vec::new();
        for stop in stops {
            let mut pointer = String::new();
            space.tape.pointer(stop.cell, &mut pointer);
            turn.spend(space.tape.len() / 8).await;
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

    /// Records a whole text.
    async fn record(&self, text: &[u8], space: &mut Workspace, turn: &Turn) -> Result<(), Reason> {
        let mut recorder = Recorder { tape: &mut space.tape, names: Vec::new() };
        let mut scanner = Scanner::new(&self.limits);
        for piece in text.chunks(PIECE_BYTES) {
            scanner.feed(piece, &mut recorder)?;
            turn.hold(text.len() + recorder.tape.bytes_held());
            turn.spend(piece.len()).await;
        }
        scanner.finish(&mut recorder)
    }
}

impl Program {
    /// The violation that ended an evaluation, with what was expected.
    pub(super) fn stopped(&self, tape: &Tape, stop: &Stop, pointer: String) -> Violation {
        let found = (stop.cell < tape.len()).then(|| tape.kind(stop.cell));
        let schema = self.schemas.get(stop.schema as usize);
        let expected = schema.and_then(|schema| {
            let of_kinds = || explain::of_kinds(self, schema, found?, stop.reason);
            explain::of_schema(schema, found, stop.reason).or_else(of_kinds)
        });
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
