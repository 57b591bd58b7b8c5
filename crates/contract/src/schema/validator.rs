//! Validates a value while it is read: one frame per open container, no recursion, and in steady state no allocation. What a plan says cannot be
//! validated in passing is recorded on the tape and evaluated at its end.

mod members;

use super::constant::has_number;
use super::evaluate::{Evaluation, Stop, Workspace, check_number, check_string};
use super::explain;
use super::keys::SeenKeys;
use super::program::{ACCEPT, ANYTHING, NumberPlan, Program, RECORD, REJECT, StringPlan, kind};
use super::tape::Tag;
use super::types::Types;
use crate::json::{Number, Sink, Taken, Text};
use crate::limits::Limits;
use crate::node::escape_pointer_token;
use crate::number::Decimal;
use crate::reason::{Reason, Violation};
use crate::turn::STEPS_PER_TURN;

/// An open container; the outermost frame stands for the value itself.
#[derive(Clone, Copy, Debug)]
struct Frame {
    is_object: bool,
    /// Number of the array or object block.
    block: u32,
    /// How many elements or members have begun.
    count: u32,
    /// The plan of the next value.
    next: u32,
    /// Of objects: the first 64 slots that were there, where the words for others begin, and where the unknown names do.
    seen: u64,
    more_seen: u32,
    first_unknown: u32,
    /// Of objects: the slot that is expected next, and what the present member is: a slot of the program, or an unknown name from [`UNKNOWN`] on.
    expected: u32,
    member: u32,
    /// A number that distinguishes objects while they are open.
    serial: u32,
}

/// How deep a recorded part may nest whatever the limit says: comparing recorded values takes stack.
const MAX_RECORDED_DEPTH: usize = 500;

/// Steps that an evaluation takes before what it finds out is kept.
const STEPS_WITHOUT_MEMORY: u64 = 4_096;

/// Strings of so many bytes are evaluated in turns where several patterns or formats read them. No window holds one.
pub(super) const LONG_TEXT_BYTES: usize = 64 << 10;

const UNKNOWN: u32 = 1 << 31;
const NO_SLOT: u32 = u32::MAX;

const ROOT: Frame = Frame {
    is_object: false,
    block: ANYTHING,
    count: 0,
    next: ANYTHING,
    seen: 0,
    more_seen: 0,
    first_unknown: 0,
    expected: NO_SLOT,
    member: 0,
    serial: 0,
};

/// The state of one value's way through a program.
#[derive(Debug)]
pub(super) struct Validator {
    top: Frame,
    frames: Vec<Frame>,
    /// Slots that were there in objects of more than 64.
    more_seen: Vec<u64>,
    unknown: SeenKeys,
    serials: u32,
    /// For each slot, the one that came next when it was last seen; at the end, for each object, the one that came first.
    successors: Vec<u32>,
    /// While something is recorded: the plan it is for, and how many frames were open when it began.
    recording: Option<(u32, usize)>,
    space: Workspace,
    steps_left: u64,
    /// Steps and bytes that were granted so far; the most steps there may be.
    granted: u64,
    bytes: u64,
    /// Bytes that steps were granted for and that were not read yet.
    ahead: usize,
    most_steps: u64,
    /// With so many steps left this turn is over.
    pause_at: u64,
    /// How many steps may be taken by the end of this turn, and how often the present evaluation has paused.
    turn_ends: u64,
    pauses: u64,
    turn_steps: u64,
    /// What is recorded waits for the rest of its evaluation.
    is_paused: bool,
    stop: Option<Stop>,
    /// What a missing or wrong member is called, where no frame says so.
    missing: Option<(u32, usize)>,
    /// The plan that a value broke, and the kind of the value.
    wrong: Option<(u32, usize)>,
}

/// A validate at work: what the scanner tells.
pub(super) struct Validating<'a> {
    pub program: &'a Program,
    pub validator: &'a mut Validator,
}

impl Default for Validator {
    fn default() -> Self {
        Self {
            top: ROOT,
            frames: Vec::new(),
            more_seen: Vec::new(),
            unknown: SeenKeys::new(),
            serials: 0,
            successors: Vec::new(),
            recording: None,
            space: Workspace::default(),
            steps_left: 0,
            granted: 0,
            ahead: 0,
            bytes: 0,
            most_steps: 0,
            pause_at: 0,
            turn_ends: 0,
            pauses: 0,
            turn_steps: STEPS_PER_TURN,
            is_paused: false,
            stop: None,
            missing: None,
            wrong: None,
        }
    }
}

impl Validator {
    /// Begins a value. `is_same_program`: what was learned of the order of members still holds.
    pub fn reset(&mut self, program: &Program, root: u32, is_same_program: bool) {
        self.top = Frame { next: root, ..ROOT };
        self.frames.clear();
        self.more_seen.clear();
        self.unknown.clear();
        self.serials = 0;
        self.recording = None;
        self.space.tape.clear();
        self.space.tape.plain_integers = false;
        (self.steps_left, self.granted, self.bytes) = (0, 0, 0);
        self.ahead = 0;
        (self.turn_ends, self.pause_at, self.pauses, self.is_paused) = (u64::MAX, 0, 0, false);
        (self.most_steps, self.turn_steps) = (program.limits.steps, STEPS_PER_TURN);
        self.grant(&program.limits, 0);
        self.stop = None;
        self.missing = None;
        self.wrong = None;
        if !is_same_program {
            // Until learned otherwise, members come in the order of the schema.
            self.successors.clear();
            self.successors.resize(program.slots.len(), NO_SLOT);
            for object in &program.objects {
                // Never from one object's slots to another's: that would count members where they are not.
                let behind_last = object.first_slot + object.keys.len() as u32;
                (object.first_slot + 1..behind_last).for_each(|next| self.successors[next as usize - 1] = next);
            }
            self.successors.extend(program.objects.iter().map(|object| object.first_slot));
        }
    }

    /// Frees what an unusually large value has left behind.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.unknown.shrink(keep_bytes);
        self.space.shrink(keep_bytes);
        self.more_seen.clear();
        self.more_seen.shrink_to(keep_bytes / 8);
    }

    /// Grants the steps for the bytes that are read next, once.
    pub fn grant(&mut self, limits: &Limits, bytes: usize) {
        self.bytes += bytes.saturating_sub(self.ahead) as u64;
        self.ahead = self.ahead.max(bytes);
        let granted = limits.steps_of(self.bytes).min(self.most_steps);
        self.steps_left += granted.saturating_sub(self.granted);
        self.granted = self.granted.max(granted);
        self.pause_at = self.granted.saturating_sub(self.turn_ends);
    }

    /// So many bytes were read.
    pub fn read(&mut self, bytes: usize) {
        self.ahead = self.ahead.saturating_sub(bytes);
    }

    /// What is left is done at once.
    pub fn end_turns(&mut self) {
        (self.turn_ends, self.pause_at) = (u64::MAX, 0);
    }

    /// Shorter turns than usual.
    pub fn set_turn(&mut self, steps: u64) {
        self.turn_steps = steps;
    }

    /// No more steps than that.
    pub fn set_most_steps(&mut self, steps: u64) {
        self.most_steps = self.most_steps.min(steps);
        let excess = self.granted.saturating_sub(self.most_steps);
        (self.granted, self.steps_left) = (self.granted - excess, self.steps_left.saturating_sub(excess));
    }

    /// A turn begins. Those of one evaluation get longer, since it spends some of each on finding where it was.
    pub fn begin_turn(&mut self) {
        let steps = self.turn_steps + (self.turn_steps / 64).max(1) * self.pauses;
        self.turn_ends = self.steps_taken() + steps;
        self.pause_at = self.granted.saturating_sub(self.turn_ends);
    }

    /// Whether others should have their turn.
    pub fn is_turn_over(&self) -> bool {
        self.is_paused || self.turn_ends == u64::MAX || (self.pause_at > 0 && self.steps_left <= self.pause_at)
    }

    /// Whether a turn has begun.
    pub fn has_begun(&self) -> bool {
        self.turn_ends != u64::MAX
    }

    /// Whether an evaluation has to go on.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Steps that were taken.
    pub fn steps_taken(&self) -> u64 {
        self.granted - self.steps_left
    }

    /// How much memory the value takes here.
    pub fn bytes_held(&self) -> usize {
        self.space.bytes_held() + self.unknown.bytes_held()
    }

    /// Whether what was recorded takes more memory than that.
    #[inline]
    pub fn has_recorded(&self, bytes: usize) -> bool {
        self.space.tape.bytes_held() > bytes
    }

    /// Only numbers without fraction and exponent are integers.
    pub fn set_plain_integers(&mut self) {
        self.space.tape.plain_integers = true;
    }

    /// How many containers are open.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    pub fn in_object(&self) -> bool {
        self.top.is_object
    }

    /// Whether the value has ended.
    pub fn is_done(&self) -> bool {
        self.frames.is_empty() && self.top.count == 1
    }

    /// What is said of the first thing that was wrong.
    pub fn violation(&self, program: &Program, reason: Reason) -> Violation {
        let mut pointer = String::new();
        let open = self.frames.iter().skip(1).chain((!self.frames.is_empty()).then_some(&self.top));
        let outer = self.recording.map_or(usize::MAX, |(_, depth)| depth);
        for frame in open.take(outer) {
            self.push_token(program, frame, &mut pointer);
        }
        if let Some(stop) = &self.stop {
            self.space.tape.pointer(stop.cell, &mut pointer);
            if let Some(name) = &stop.missing {
                escape_pointer_token(&mut pointer, name);
            }
        } else if self.recording.is_some() {
            for frame in self.frames.iter().chain([&self.top]).skip(outer + 1) {
                self.push_token(program, frame, &mut pointer);
            }
        }
        if let Some((block, number)) = self.missing {
            escape_pointer_token(&mut pointer, program.objects[block as usize].keys.name(number));
        }
        if let Some(stop) = &self.stop {
            return program.stopped(&self.space.tape, stop, pointer);
        }
        let wrong = self.wrong.filter(|(_, index)| *index < kind::COUNT);
        let expected = match wrong {
            Some((plan, index)) => explain::of_plan(program, plan, index, reason),
            None => explain::of_container(program, self.top.is_object, self.top.block, reason),
        };
        Violation { expected: expected.map(String::into_boxed_str), ..Violation::new(reason, pointer) }
    }

    fn push_token(&self, program: &Program, frame: &Frame, pointer: &mut String) {
        if frame.count == 0 {
            return;
        }
        if !frame.is_object {
            escape_pointer_token(pointer, &(frame.count - 1).to_string());
        } else if frame.member >= UNKNOWN {
            let name = self.unknown.name((frame.member - UNKNOWN) as usize);
            escape_pointer_token(pointer, &String::from_utf8_lossy(name));
        } else {
            let number = program.slots[frame.member as usize].number as usize;
            escape_pointer_token(pointer, program.objects[frame.block as usize].keys.name(number));
        }
    }
}

impl Validating<'_> {
    /// The plan of the value that begins now.
    #[inline(always)]
    fn plan(&mut self) -> u32 {
        let top = &mut self.validator.top;
        if !top.is_object {
            let array = &self.program.arrays[top.block as usize];
            if let Some(&plan) = array.prefix.get(top.count as usize) {
                top.next = plan;
            } else if top.count as usize == array.prefix.len() && !self.validator.frames.is_empty() {
                top.next = array.rest;
            }
            top.count += 1;
        }
        top.next
    }

    #[inline(always)]
    fn block(&self, plan: u32, index: usize) -> u32 {
        self.program.plans[plan as usize].blocks[index]
    }

    #[cold]
    fn reject(&mut self, plan: u32, index: usize) -> Result<(), Reason> {
        Err(self.broken(plan, index, self.program.plans[plan as usize].reasons[index]))
    }

    /// Notes which plan a value broke.
    #[cold]
    fn broken(&mut self, plan: u32, index: usize, reason: Reason) -> Reason {
        self.validator.wrong = Some((plan, index));
        reason
    }

    #[inline(never)]
    fn is_integer(&self, number: Number<'_>) -> bool {
        match self.validator.space.tape.plain_integers {
            true => number.is_plain_integer(),
            false => Decimal::new(number.text).is_integer(),
        }
    }

    /// A scalar that must be evaluated: a tape of one cell.
    #[inline(never)]
    fn evaluate_scalar(&mut self, plan: u32, record: impl FnOnce(&mut super::tape::Tape)) -> Result<(), Reason> {
        self.validator.space.tape.clear();
        record(&mut self.validator.space.tape);
        let pause_at = std::mem::take(&mut self.validator.pause_at);
        let outcome = self.evaluate(plan);
        self.validator.pause_at = pause_at;
        self.validator.space.tape.clear();
        outcome
    }

    /// A string that must be evaluated; a long one may pause, as containers do.
    #[inline(never)]
    fn evaluate_text(&mut self, plan: u32, text: Text<'_>) -> Result<(), Reason> {
        if text.bytes.len() < LONG_TEXT_BYTES {
            return self.evaluate_scalar(plan, |tape| tape.string(text));
        }
        self.validator.space.tape.clear();
        self.validator.space.tape.string(text);
        self.validator.recording = Some((plan, self.validator.frames.len()));
        self.evaluate_recorded()
    }

    #[cold]
    fn check_long_text(&mut self, plan: u32, strings: &StringPlan, text: Text<'_>) -> Result<(), Reason> {
        if strings.rules.looks() > 2 {
            return self.evaluate_text(plan, text);
        }
        check_text(strings, text, &mut self.validator.steps_left)
            .map_err(|reason| self.broken(plan, kind::STRING, reason))
    }

    fn evaluate(&mut self, plan: u32) -> Result<(), Reason> {
        let pause_at = self.validator.pause_at;
        let goes_on = std::mem::take(&mut self.validator.is_paused);
        if goes_on || pause_at == 0 {
            return self.evaluate_until(plan, pause_at, goes_on, goes_on);
        }
        // Most take few steps, for which it is not worth while to keep anything.
        let soon = self.validator.steps_left.saturating_sub(STEPS_WITHOUT_MEMORY).max(pause_at);
        match self.evaluate_until(plan, soon, false, false) {
            Err(Reason::Paused) if self.validator.steps_left > pause_at => {
                self.validator.pauses -= 1;
                self.validator.is_paused = false;
                self.evaluate_until(plan, pause_at, true, true)
            }
            outcome => outcome,
        }
    }

    /// Evaluates until so many steps are left; `goes_on` where it has paused, `keeps` where it takes long.
    fn evaluate_until(&mut self, plan: u32, pause_at: u64, goes_on: bool, keeps: bool) -> Result<(), Reason> {
        let mut evaluation = Evaluation {
            schemas: &self.program.schemas,
            anchors: &self.program.anchors,
            shared: &self.program.shared,
            reject_unknown: self.program.reject_unknown,
            space: &mut self.validator.space,
            steps_left: self.validator.steps_left,
            pause_at,
            keeps,
            depth: 0,
            current: 0,
            everything: None,
        };
        let outcome = evaluation.run(&self.program.plans[plan as usize].ids, goes_on);
        self.validator.steps_left = evaluation.steps_left;
        outcome.map_err(|stop| {
            let reason = stop.reason;
            match reason {
                Reason::Paused => {
                    self.validator.is_paused = true;
                    self.validator.pauses += 1;
                }
                _ => self.validator.stop = Some(stop),
            }
            reason
        })
    }

    #[inline(always)]
    fn constant(&mut self, index: usize, tag: Tag, bit: u32) -> Result<(), Reason> {
        let plan = self.plan();
        if self.validator.recording.is_some() {
            self.validator.space.tape.constant(tag);
            return Ok(());
        }
        match self.block(plan, index) {
            ACCEPT => Ok(()),
            RECORD => self.evaluate_scalar(plan, |tape| tape.constant(tag)),
            REJECT => self.reject(plan, index),
            allowed if allowed & bit != 0 => Ok(()),
            _ => Err(self.broken(plan, index, Reason::Enum)),
        }
    }

    #[inline(always)]
    fn begin(&mut self, is_object: bool) -> Result<(), Reason> {
        let plan = self.plan();
        let index = if is_object { kind::OBJECT } else { kind::ARRAY };
        let mut block = self.block(plan, index);
        if block >= RECORD || self.validator.recording.is_some() {
            block = self.begin_unusual(plan, index, block)?;
        }
        self.validator.frames.push(self.validator.top);
        let mut top = Frame { is_object, block, first_unknown: self.validator.unknown.len() as u32, ..ROOT };
        if is_object {
            self.validator.serials += 1;
            top.serial = self.validator.serials;
            top.more_seen = self.validator.more_seen.len() as u32;
            let object = &self.program.objects[block as usize];
            if object.keys.len() > 64 {
                let words = object.keys.len().div_ceil(64);
                self.validator.more_seen.resize(self.validator.more_seen.len() + words, 0);
            }
            if object.names == ACCEPT && object.keys.len() > 0 && self.validator.recording.is_none() {
                top.expected = self.validator.successors[self.program.slots.len() + block as usize];
            }
        }
        self.validator.top = top;
        Ok(())
    }

    /// A container that is accepted, refused or recorded as a whole.
    #[inline(never)]
    fn begin_unusual(&mut self, plan: u32, index: usize, block: u32) -> Result<u32, Reason> {
        let is_recording = self.validator.recording.is_some();
        if block == REJECT && !is_recording {
            return self.reject(plan, index).map(|()| ANYTHING);
        }
        if is_recording || block == RECORD {
            if self.validator.space.tape.depth() >= MAX_RECORDED_DEPTH {
                return Err(Reason::Depth);
            }
            if !is_recording {
                self.validator.space.tape.clear();
                self.validator.recording = Some((plan, self.validator.frames.len()));
            }
            self.validator.space.tape.begin(if index == kind::OBJECT { Tag::Object } else { Tag::Array });
        }
        Ok(ANYTHING)
    }

    #[inline(always)]
    fn end(&mut self) -> Result<(), Reason> {
        self.validator.top = self.validator.frames.pop().ok_or(Reason::Syntax)?;
        if self.validator.recording.is_some() { self.end_recorded() } else { Ok(()) }
    }

    #[inline(never)]
    fn end_recorded(&mut self) -> Result<(), Reason> {
        if self.validator.space.tape.end() { self.evaluate_recorded() } else { Ok(()) }
    }

    /// Evaluates what was recorded, or goes on with that; [`Reason::Paused`] if others should have their turn meanwhile.
    pub fn evaluate_recorded(&mut self) -> Result<(), Reason> {
        let Some((plan, _)) = self.validator.recording else { return Ok(()) };
        self.evaluate(plan)?;
        self.validator.recording = None;
        self.validator.pauses = 0;
        self.validator.space.tape.clear();
        Ok(())
    }

    #[inline(always)]
    fn known_member(&mut self, slot: u32) -> Result<(), Reason> {
        let child = &self.program.slots[slot as usize];
        let top = &mut self.validator.top;
        if child.number < 64 {
            let bit = 1 << child.number;
            if top.seen & bit != 0 {
                return Err(Reason::DuplicateKey);
            }
            top.seen |= bit;
        } else {
            let word = &mut self.validator.more_seen[top.more_seen as usize + child.number as usize / 64];
            let bit = 1 << (child.number % 64);
            if *word & bit != 0 {
                return Err(Reason::DuplicateKey);
            }
            *word |= bit;
        }
        top.count += 1;
        top.member = slot;
        top.next = child.child;
        top.expected = self.validator.successors[slot as usize];
        Ok(())
    }

    /// A name that was not the expected one.
    #[inline(never)]
    fn other_key(&mut self, text: Text<'_>) -> Result<(), Reason> {
        let object = &self.program.objects[self.validator.top.block as usize];
        if self.validator.recording.is_some() {
            self.validator.space.tape.key(text);
        } else if object.names != ACCEPT {
            self.key_name(object.names, text)?;
        }
        let Some(number) = object.keys.find(text.bytes) else { return self.unknown_key(text) };
        let slot = object.first_slot + number as u32;
        let top = &self.validator.top;
        let before = if top.count == 0 {
            self.program.slots.len() + top.block as usize
        } else if top.member < UNKNOWN {
            top.member as usize
        } else {
            slot as usize
        };
        if before != slot as usize {
            self.validator.successors[before] = slot;
        }
        self.known_member(slot)?;
        if object.names != ACCEPT {
            self.validator.top.expected = NO_SLOT;
        }
        Ok(())
    }

    fn unknown_key(&mut self, text: Text<'_>) -> Result<(), Reason> {
        let object = &self.program.objects[self.validator.top.block as usize];
        if !object.patterns.is_empty() {
            let looks = object.patterns.len() * (1 + text.bytes.len() / 32);
            self.validator.steps_left = self.validator.steps_left.saturating_sub(looks as u64);
        }
        let mut set = 0;
        for (index, pattern) in object.patterns.iter().enumerate() {
            let is_match = pattern.matches(text.bytes, &mut self.validator.steps_left).ok_or(Reason::Budget)?;
            set |= usize::from(is_match) << index;
        }
        let plan = object.unknown[set];
        let top = &mut self.validator.top;
        let entry = self.validator.unknown.insert(top.serial, text.bytes);
        top.count += 1;
        top.next = plan;
        match entry {
            Ok(entry) => top.member = UNKNOWN | entry as u32,
            Err(reason) => {
                top.count = 0;
                return Err(reason);
            }
        }
        if top.count > self.program.limits.keys_per_object {
            return Err(Reason::Keys);
        }
        // An unknown field is rejected at its name: its value may be anything, and long.
        let plan = &self.program.plans[plan as usize];
        if plan.blocks == [REJECT; kind::COUNT] { Err(plan.reasons[kind::NULL]) } else { Ok(()) }
    }

    fn key_name(&mut self, plan: u32, text: Text<'_>) -> Result<(), Reason> {
        let block = self.block(plan, kind::STRING);
        let outcome = match block {
            ACCEPT => Ok(()),
            REJECT => Err(Reason::PropertyNames),
            RECORD => self.evaluate_scalar(plan, |tape| tape.string(text)),
            block => check_text(&self.program.strings[block as usize], text, &mut self.validator.steps_left),
        };
        outcome.map_err(|reason| if reason == Reason::Budget { reason } else { Reason::PropertyNames })
    }
}

impl Sink for Validating<'_> {
    #[inline(always)]
    fn null(&mut self) -> Result<(), Reason> {
        self.constant(kind::NULL, Tag::Null, 0)
    }

    #[inline(always)]
    fn boolean(&mut self, value: bool) -> Result<(), Reason> {
        let (tag, bit) = if value { (Tag::True, 2) } else { (Tag::False, 1) };
        self.constant(kind::BOOLEAN, tag, bit)
    }

    #[inline(always)]
    fn number(&mut self, number: Number<'_>) -> Result<(), Reason> {
        let plan = self.plan();
        if self.validator.recording.is_some() {
            self.validator.space.tape.number(number);
            return Ok(());
        }
        let is_integer = number.small.is_some() || self.is_integer(number);
        let index = if is_integer { kind::INTEGER } else { kind::FRACTION };
        match self.block(plan, index) {
            ACCEPT => Ok(()),
            REJECT => self.reject(plan, index),
            RECORD => self.evaluate_scalar(plan, |tape| tape.number(number)),
            block => {
                let numbers = &self.program.numbers[block as usize];
                match (number.small, numbers.small) {
                    (Some(value), Some((min, max))) if min <= value && value <= max => Ok(()),
                    (Some(value), None) if numbers.small_values.binary_search(&value).is_ok() => Ok(()),
                    _ => check_decimal(numbers, number, index, &mut self.validator.steps_left)
                        .map_err(|reason| self.broken(plan, index, reason)),
                }
            }
        }
    }

    #[inline(always)]
    fn string(&mut self, text: Text<'_>) -> Result<(), Reason> {
        let plan = self.plan();
        if self.validator.recording.is_some() {
            self.validator.space.tape.string(text);
            return Ok(());
        }
        match self.block(plan, kind::STRING) {
            ACCEPT => Ok(()),
            REJECT => self.reject(plan, kind::STRING),
            RECORD => self.evaluate_text(plan, text),
            block => {
                let strings = &self.program.strings[block as usize];
                if text.bytes.len() >= LONG_TEXT_BYTES {
                    return self.check_long_text(plan, strings, text);
                }
                check_text(strings, text, &mut self.validator.steps_left)
                    .map_err(|reason| self.broken(plan, kind::STRING, reason))
            }
        }
    }

    #[inline(always)]
    fn begin_array(&mut self) -> Result<(), Reason> {
        self.begin(false)
    }

    #[inline(always)]
    fn end_array(&mut self) -> Result<(), Reason> {
        let top = &self.validator.top;
        let array = &self.program.arrays[top.block as usize];
        if top.count < array.min || top.count > array.max {
            return Err(self.whole(if top.count < array.min { Reason::MinItems } else { Reason::MaxItems }));
        }
        self.end()
    }

    #[inline(always)]
    fn begin_object(&mut self) -> Result<(), Reason> {
        self.begin(true)
    }

    #[inline(always)]
    fn key(&mut self, text: Text<'_>) -> Result<(), Reason> {
        self.other_key(text)
    }

    #[inline(always)]
    fn end_object(&mut self) -> Result<(), Reason> {
        let top = self.validator.top;
        let object = &self.program.objects[top.block as usize];
        let (first, others) = object.required.split_first().unwrap_or((&0, &[]));
        if object.keys.len() <= 64 && top.seen & first != *first {
            return self.required(&[top.seen]);
        }
        if object.keys.len() > 64 {
            let start = top.more_seen as usize;
            self.validator.more_seen[start] = top.seen;
            let missing = others
                .iter()
                .zip(&self.validator.more_seen[start + 1..])
                .any(|(wanted, seen)| seen & wanted != *wanted);
            if missing || top.seen & first != *first {
                let seen = self.validator.more_seen[start..].to_vec();
                return self.required(&seen);
            }
            self.validator.more_seen.truncate(start);
        }
        if top.count < object.min || top.count > object.max {
            return Err(self.whole(if top.count < object.min { Reason::MinProperties } else { Reason::MaxProperties }));
        }
        if self.validator.unknown.len() > top.first_unknown as usize {
            self.validator.unknown.remove_from(top.first_unknown as usize);
        }
        self.end()
    }

    #[inline(always)]
    fn expected_key(&mut self, window: &[u8]) -> Result<usize, Reason> {
        let Some(slot) = self.program.slots.get(self.validator.top.expected as usize) else { return Ok(0) };
        if !slot.stands_at(window, 0) {
            return Ok(0);
        }
        self.known_member(self.validator.top.expected)?;
        Ok(slot.written.len())
    }

    #[inline(always)]
    fn expected_members(&mut self, window: &[u8], from: usize, values: u32) -> Taken {
        self.take_members(window, from, values)
    }
}

impl Validating<'_> {
    /// What is wrong with the container that ends, not with its last part.
    #[cold]
    fn whole(&mut self, reason: Reason) -> Reason {
        self.validator.top.count = 0;
        reason
    }

    #[cold]
    fn required(&mut self, seen: &[u64]) -> Result<(), Reason> {
        let block = self.validator.top.block;
        let required = &self.program.objects[block as usize].required;
        let missing = |number: &usize| (required[number / 64] & !seen[number / 64]) >> (number % 64) & 1 == 1;
        let number = (0..required.len() * 64).find(missing);
        self.validator.missing = number.map(|number| (block, number));
        Err(self.whole(Reason::Required))
    }
}

#[inline(always)]
fn check_text(plan: &StringPlan, text: Text<'_>, steps: &mut u64) -> Result<(), Reason> {
    let length = text.bytes.len();
    if plan.is_length && text.is_ascii && plan.min_bytes <= length && length <= plan.max_bytes {
        return Ok(());
    }
    check_text_fully(plan, text, steps)
}

#[inline(never)]
pub(super) fn check_text_fully(plan: &StringPlan, text: Text<'_>, steps: &mut u64) -> Result<(), Reason> {
    *steps = steps.checked_sub(plan.steps).ok_or(Reason::Budget)?;
    if let Some((values, reason)) = &plan.values
        && values.find(text.bytes).is_none()
    {
        return Err(*reason);
    }
    check_string(&plan.rules, text, steps).map_or(Ok(()), Err)
}

#[inline(never)]
fn check_decimal(plan: &NumberPlan, number: Number<'_>, index: usize, steps: &mut u64) -> Result<(), Reason> {
    *steps = steps.checked_sub(plan.steps).ok_or(Reason::Budget)?;
    let value = Decimal::new(number.text);
    for (values, reason) in &plan.values {
        if !has_number(values, &value) {
            return Err(*reason);
        }
    }
    let types = if index == kind::INTEGER { Types::INTEGER } else { Types::FRACTION };
    plan.rules.iter().find_map(|rules| check_number(rules, &value, types)).map_or(Ok(()), Err)
}
