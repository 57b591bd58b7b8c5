//! JSON texts in a row: on their way to the reader of JSON, as one array.

use super::code;
use super::findings::{Findings, Violation, Where};
use super::readers::JsonReader;
use crate::body::{Separator, Sequence};
use crate::message::Part;
use crate::turn::Turn;

/// Reads one body.
pub(super) struct SequenceReader<'s> {
    sequence: Sequence,
    json: JsonReader<'s>,
    /// What the bytes that were given last came to.
    text: Vec<u8>,
    /// The bytes that are given now were given before: the turn ended within them.
    goes_on: bool,
    /// What is wrong behind them.
    broken: Option<&'static str>,
}

impl<'s> SequenceReader<'s> {
    pub(super) fn new(json: JsonReader<'s>, is_records: bool) -> SequenceReader<'s> {
        let separator = if is_records { Separator::Record } else { Separator::Line };
        SequenceReader { sequence: Sequence::new(separator), json, text: Vec::new(), goes_on: false, broken: None }
    }

    /// Reads for a turn; says whether it is done with these bytes. If not, it is to be called with them again.
    pub(super) fn feed_some(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<bool, Violation> {
        if !self.goes_on {
            self.text.clear();
            self.broken = self.sequence.feed(bytes, &mut self.text).err();
            if self.broken.is_some() {
                // Ends a number or a word that is not whole yet, so that what is wrong with it is said however the bytes arrive.
                self.text.push(b' ');
            }
        }
        let is_done = self.json.feed_some(&self.text, findings)?;
        self.goes_on = !is_done;
        match self.broken.filter(|_| is_done) {
            Some(what) => Err(self.malformed(what, findings)),
            None => Ok(is_done),
        }
    }

    pub(super) fn is_turn_over(&self) -> bool {
        self.json.is_turn_over()
    }

    /// How much memory it takes.
    pub(super) fn bytes_held(&self) -> usize {
        self.text.capacity() + self.json.bytes_held()
    }

    /// Ends the array, of which everything may be left to say.
    pub(super) async fn finish(self, mut found: Findings, turn: &Turn) -> Findings {
        let validated = self.end(&mut found, turn).await;
        let _ = validated.or_else(|violation| found.add(violation));
        found
    }

    /// What keeps the texts from being distinguished, behind what was wrong before it.
    fn malformed(&mut self, what: &'static str, findings: &mut Findings) -> Violation {
        let _ = self.json.take_first().map(|first| findings.add(first));
        Violation::new(code::SEQUENCE_MALFORMED, Where::of(Part::Body), what)
    }

    async fn end(mut self, found: &mut Findings, turn: &Turn) -> Result<(), Violation> {
        self.text.clear();
        let broken = self.sequence.finish(&mut self.text).err();
        if broken.is_some() {
            // As in `feed_some`.
            self.text.push(b' ');
        }
        let mut before = self.json.steps_taken();
        loop {
            let is_done = self.json.feed_some(&self.text, found)?;
            let steps = self.json.steps_taken().saturating_sub(before);
            before += steps;
            turn.hold(self.bytes_held());
            turn.spend(usize::try_from(steps).unwrap_or(usize::MAX)).await;
            if is_done {
                break;
            }
        }
        if let Some(what) = broken {
            return Err(self.malformed(what, found));
        }
        let held = self.bytes_held();
        let Some(mut work) = self.json.finish(found)? else { return Ok(()) };
        loop {
            turn.hold(held + work.bytes_held());
            if let Some(more) = work.go_on() {
                let _ = found.take(more);
                return Ok(());
            }
            // It has had a turn of its own.
            turn.spend(usize::MAX).await;
        }
    }
}
