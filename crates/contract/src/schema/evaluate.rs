//! Validates a recorded value by schemas of any kind: the whole of 2020-12, for the parts that cannot be validated in passing. Every application of a
//! schema to a value is a step, and so are comparisons and matching; steps are bounded.
//!
//! What a schema has looked at ("annotations" in 2020-12) is a log of cells: a branch that fails takes its entries back. Whatever was appended since
//! a schema began, and lies directly in its value, is what `unevaluated*` may not validate again.
//!
//! An evaluation may pause where it spends a step: it unwinds, loops keep where they stand, and begun again it finds what it knows in the memo.

mod alternatives;

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;

use super::constant::Values;
use super::ir::{ArrayRules, Contains, Id, NumberRules, ObjectRules, Resource, Schema, Schemas, StringRules};
use super::memo::{Key, Loop, Mark, Memo, Stand};
use super::tape::{Tag, Tape};
use super::types::Types;
use crate::json::Text;
use crate::number::Decimal;
use crate::reason::Reason;

/// How deep schemas may be applied within each other; beyond, the step budget counts as spent. Bounds the stack.
const MAX_DEPTH: u32 = 500;

/// Where each `$dynamicAnchor` stands.
pub(super) type Anchors = HashMap<Box<str>, HashMap<Resource, Id>>;

/// Why an evaluation ended.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub reason: Reason,
    /// The cell that broke the schema.
    pub cell: usize,
    /// A member that is missing there.
    pub missing: Option<Box<str>>,
    /// The schema that was broken.
    pub schema: Id,
}

impl Stop {
    /// Nothing more can be found out now.
    pub fn ends_all(&self) -> bool {
        matches!(self.reason, Reason::Budget | Reason::Paused)
    }
}

type Outcome = Result<(), Stop>;

/// Elements whose hashes are sorted rather than kept in a table.
const FEW_ELEMENTS: usize = 64;

/// Bytes of a text that are compared, hashed or matched by one pattern in the time of one step.
const BYTES_PER_STEP: usize = 32;

/// Names times members that are compared one by one.
const FEW: usize = 1_024;

/// Memory that evaluations use again and again.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub tape: Tape,
    memo: Memo,
    /// For each cell, the number of the last survey that found it in the log.
    surveyed: Vec<u32>,
    surveys: u32,
    scope: Vec<(Resource, u32)>,
    hashes: Vec<(u64, u32)>,
    secrets: [RandomState; 2],
    /// Objects that are not the subtype which their discriminator names, with why.
    missed: Vec<(usize, Stop)>,
}

impl Workspace {
    /// Frees what an unusually large value has left behind.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.tape.shrink(keep_bytes);
        self.memo.shrink(keep_bytes);
        self.surveyed.clear();
        self.surveyed.shrink_to(keep_bytes / 4);
        self.missed = Vec::new();
    }

    /// How much memory it holds.
    pub fn bytes_held(&self) -> usize {
        self.tape.bytes_held() + self.memo.bytes_held() + 4 * self.surveyed.capacity()
    }
}

/// An evaluation takes so many steps before what it has found out of one schema is worth keeping.
const STEPS_KEPT: u64 = 64;

/// In a scope: everything that is wrong is collected.
const COLLECTED: u32 = 1 << 31;

/// What is collected where everything that is wrong is wanted, not just the first thing.
#[derive(Debug)]
pub(super) struct Everything {
    pub stops: Vec<Stop>,
    pub wanted: usize,
    /// Values of which no alternative holds: nobody can say which of their parts are unknown.
    torn: HashSet<usize>,
}

impl Everything {
    pub fn new(wanted: usize) -> Everything {
        Everything { stops: Vec::new(), wanted, torn: HashSet::new() }
    }

    /// Whether this is collected already: what an evaluation had found when it paused is found again.
    fn knows(&self, stop: &Stop) -> bool {
        let is_it = |known: &Stop| {
            (known.cell, known.schema, known.reason) == (stop.cell, stop.schema, stop.reason)
                && known.missing == stop.missing
        };
        self.stops.iter().any(is_it)
    }
}

/// One evaluation.
pub(super) struct Evaluation<'a> {
    pub schemas: &'a Schemas,
    pub anchors: &'a Anchors,
    pub shared: &'a [bool],
    pub reject_unknown: bool,
    pub space: &'a mut Workspace,
    pub steps_left: u64,
    /// With so many steps left it pauses; 0 for never.
    pub pause_at: u64,
    /// It takes long, so that what it finds out is kept for after a pause.
    pub keeps: bool,
    pub depth: u32,
    /// The schema that validates now.
    pub current: Id,
    /// None while the first thing that is wrong ends the evaluation, as within branches that only might hold.
    pub everything: Option<Everything>,
}

impl<'a> Evaluation<'a> {
    /// Validates the value on the tape by all of `ids`; `goes_on`: after a pause. What is found out is kept if it may pause, but for evaluations of few
    /// steps, which are done again.
    pub fn run(&mut self, ids: &[Id], goes_on: bool) -> Outcome {
        self.space.scope.clear();
        if goes_on {
            self.space.memo.restart();
        } else {
            self.space.memo.clear();
            self.space.missed.clear();
            self.space.surveyed.clear();
            self.space.surveys = 0;
        }
        for &id in ids {
            self.apply(id, 0)?;
        }
        if self.reject_unknown { self.find_unknown() } else { Ok(()) }
    }

    fn fail(&mut self, reason: Reason, cell: usize) -> Outcome {
        self.stop(Stop { reason, cell, missing: None, schema: self.current })
    }

    /// Ends the evaluation, or goes on if more is wanted.
    fn stop(&mut self, stop: Stop) -> Outcome {
        match &mut self.everything {
            Some(everything) if !stop.ends_all() && everything.knows(&stop) => Ok(()),
            Some(everything) if !stop.ends_all() && everything.stops.len() + 1 < everything.wanted => {
                everything.stops.push(stop);
                Ok(())
            }
            _ => Err(stop),
        }
    }

    /// No alternative holds.
    fn tear(&mut self, reason: Reason, at: usize) -> Outcome {
        self.note_torn(at);
        self.fail(reason, at)
    }

    fn note_torn(&mut self, at: usize) {
        if let Some(everything) = &mut self.everything {
            everything.torn.insert(at);
        }
    }

    fn is_torn(&self, at: usize) -> bool {
        self.everything.as_ref().is_some_and(|everything| everything.torn.contains(&at))
    }

    /// Takes steps. The last one before a pause may overdraw, so that each go makes progress.
    #[inline(always)]
    fn spend(&mut self, steps: usize, cell: usize) -> Outcome {
        let steps = steps as u64;
        if self.steps_left <= self.pause_at || self.steps_left < steps {
            return self.cannot_spend(steps, cell);
        }
        self.steps_left -= steps;
        Ok(())
    }

    #[cold]
    fn cannot_spend(&mut self, steps: u64, cell: usize) -> Outcome {
        if self.pause_at > 0 && self.steps_left <= self.pause_at {
            return Err(Stop { reason: Reason::Paused, cell, missing: None, schema: self.current });
        }
        if self.steps_left < steps { self.fail(Reason::Budget, cell) } else { Ok(()) }
    }

    fn apply(&mut self, id: Id, at: usize) -> Outcome {
        self.spend(1, at)?;
        if self.depth >= MAX_DEPTH {
            return self.fail(Reason::Budget, at);
        }
        let schema = &self.schemas[id as usize];
        if self.anchors.is_empty() {
            // Nothing asks for the scope.
            return self.validate_once(schema, Key { id, at: at as u32, scope: 0 });
        }
        let outer = self.space.scope.last().copied();
        let in_scope = outer.is_some_and(|(resource, _)| resource == schema.resource);
        if !in_scope {
            let outer = outer.map_or(0, |(_, number)| number);
            let is_known = self.space.scope.iter().any(|(known, _)| *known == schema.resource);
            let number = if is_known { outer } else { self.space.memo.scope(outer, schema.resource) };
            self.space.scope.push((schema.resource, number));
        }
        let key = Key { id, at: at as u32, scope: self.space.scope.last().map_or(0, |(_, number)| *number) };
        let outcome = self.validate_once(schema, key);
        if !in_scope {
            self.space.scope.pop();
        }
        outcome
    }

    /// Validates by a schema, unless the outcome is known; keeps it if it may be asked for again or was dear.
    #[inline]
    fn validate_once(&mut self, schema: &'a Schema, key: Key) -> Outcome {
        let is_shared = self.shared[key.id as usize];
        if is_shared || self.keeps {
            self.validate_and_keep(schema, key, is_shared)
        } else {
            self.validate_within(schema, key)
        }
    }

    #[inline]
    fn validate_within(&mut self, schema: &'a Schema, key: Key) -> Outcome {
        self.depth += 1;
        let outer = std::mem::replace(&mut self.current, key.id);
        let outcome = self.validate(schema, key);
        self.current = outer;
        self.depth -= 1;
        outcome
    }

    #[inline(never)]
    fn validate_and_keep(&mut self, schema: &'a Schema, key: Key, is_shared: bool) -> Outcome {
        // Where everything that is wrong is collected, that a schema has been applied is known, not that it holds.
        let key = if self.everything.is_some() { Key { scope: key.scope | COLLECTED, ..key } } else { key };
        if let Some(known) = self.space.memo.recall(&key) {
            return known;
        }
        let (steps, began) = (self.steps_left, self.space.memo.log_len());
        let outcome = self.validate_within(schema, key);
        let is_dear = self.keeps && steps - self.steps_left >= STEPS_KEPT;
        if !(is_shared || is_dear) || outcome.as_ref().is_err_and(Stop::ends_all) {
            return outcome;
        }
        self.space.memo.remember(key, began, &outcome);
        if self.space.memo.is_too_long(self.space.tape.len()) {
            return self.fail(Reason::Budget, key.at as usize);
        }
        outcome
    }

    /// Whether the schema holds. What a failed one has logged is taken back; running out of steps ends everything.
    fn holds(&mut self, id: Id, at: usize) -> Result<bool, Stop> {
        Ok(self.attempt(id, at)?.is_none())
    }

    /// As [`Evaluation::holds`]; gives why it does not.
    fn attempt(&mut self, id: Id, at: usize) -> Result<Option<Stop>, Stop> {
        let began = self.space.memo.log_len();
        let everything = self.everything.take();
        let outcome = self.apply(id, at);
        self.everything = everything;
        match outcome {
            Ok(()) => Ok(None),
            Err(stop) if stop.ends_all() => Err(stop),
            Err(stop) => {
                self.space.memo.take_back(began);
                Ok(Some(stop))
            }
        }
    }

    fn validate(&mut self, schema: &'a Schema, key: Key) -> Outcome {
        let at = key.at as usize;
        if let Some(reason) = schema.never {
            return self.fail(reason, at);
        }
        let kind = self.space.tape.kind(at);
        if !schema.types.has(kind) {
            return self.fail(Reason::Type, at);
        }
        for (values, reason) in &schema.values {
            if !self.is_one_of(values, at)? {
                return self.fail(*reason, at);
            }
        }
        let began = self.space.memo.log_len();
        match kind {
            Types::STRING => self.string(schema.string.as_deref(), at)?,
            Types::INTEGER | Types::FRACTION => self.number(schema.number.as_deref(), at, kind)?,
            _ => {}
        }
        self.compose(schema, at, kind)?;
        match (kind, &schema.array, &schema.object) {
            (Types::ARRAY, Some(rules), _) => self.array(rules, key, began),
            (Types::OBJECT, _, Some(rules)) => self.object(rules, key, began),
            _ => Ok(()),
        }
    }

    fn is_one_of(&mut self, values: &Values, at: usize) -> Result<bool, Stop> {
        match self.space.tape.tag(at) {
            Tag::String | Tag::Key => Ok(values.has_text(self.space.tape.bytes(at))),
            Tag::Number => Ok(values.has_number(&self.space.tape.decimal(at))),
            _ => {
                self.spend(values.weight(), at)?;
                Ok(values.iter().any(|value| self.space.tape.is_constant(at, value)))
            }
        }
    }

    // --- scalars ---

    fn string(&mut self, rules: Option<&StringRules>, at: usize) -> Outcome {
        let Some(rules) = rules else { return Ok(()) };
        self.spend(rules.looks() * (self.space.tape.byte_count(at) / BYTES_PER_STEP), at)?;
        match check_string(rules, self.space.tape.text(at), &mut self.steps_left) {
            Some(reason) => self.fail(reason, at),
            None => Ok(()),
        }
    }

    fn number(&mut self, rules: Option<&NumberRules>, at: usize, kind: Types) -> Outcome {
        let Some(rules) = rules else { return Ok(()) };
        match check_number(rules, &self.space.tape.decimal(at), kind) {
            Some(reason) => self.fail(reason, at),
            None => Ok(()),
        }
    }

    // --- composition ---

    fn compose(&mut self, schema: &'a Schema, at: usize, kind: Types) -> Outcome {
        for &id in &schema.all_of {
            self.apply(id, at)?;
        }
        match &schema.discriminator {
            Some(discriminator) if kind == Types::OBJECT => self.discriminate(discriminator, at)?,
            // The subtypes are objects; the base says whether something else may be.
            Some(discriminator) => self.apply(discriminator.base, at)?,
            None => {}
        }
        match &schema.tags {
            Some(tags) if kind == Types::OBJECT => self.tagged(schema, tags, at)?,
            _ => {
                self.any_of(&schema.any_of, at)?;
                self.one_of(&schema.one_of, at)?;
            }
        }
        if let Some(id) = schema.not {
            let began = self.space.memo.log_len();
            if self.holds(id, at)? {
                return self.fail(Reason::Not, at);
            }
            self.space.memo.take_back(began);
        }
        if let Some(condition) = schema.condition {
            let next = if self.holds(condition.test, at)? { condition.then } else { condition.otherwise };
            self.apply(next, at)?;
        }
        if let Some(dynamic) = &schema.dynamic {
            let anchors = self.anchors.get(&dynamic.name);
            let found =
                anchors.and_then(|anchors| self.space.scope.iter().find_map(|(base, _)| anchors.get(base))).copied();
            self.apply(found.unwrap_or(dynamic.fallback), at)?;
        }
        Ok(())
    }

    // --- containers ---

    fn look_at(&mut self, cell: usize) {
        self.space.memo.note(Mark::Seen, cell);
    }

    /// The value of a member.
    fn find_member(&mut self, at: usize, name: &str) -> Result<Option<usize>, Stop> {
        self.spend(self.space.tape.child_count(at) / 8, at)?;
        Ok(self.space.tape.member(at, name.as_bytes()))
    }

    /// Does something for each cell of a container: elements, or names of members. If it pauses, it goes on from there.
    fn each(
        &mut self,
        key: Key,
        kind: Loop,
        mut act: impl FnMut(&mut Self, usize, &mut Stand) -> Outcome,
    ) -> Result<Stand, Stop> {
        let at = key.at as usize;
        let (end, began) = (self.space.tape.behind(at), self.space.memo.log_len());
        let is_object = self.space.tape.tag(at) == Tag::Object;
        let mut stand = self.space.memo.enter(key, kind);
        if stand.cell == 0 {
            stand.cell = at + 1;
        }
        while stand.cell < end {
            let cell = stand.cell;
            let mark = self.space.memo.log_len();
            if let Err(stop) = act(self, cell, &mut stand) {
                if stop.reason == Reason::Paused {
                    self.space.memo.take_back(mark);
                    self.space.memo.leave(key, kind, began, stand);
                }
                return Err(stop);
            }
            stand.cell = self.space.tape.behind(if is_object { cell + 1 } else { cell });
        }
        Ok(stand)
    }

    fn array(&mut self, rules: &'a ArrayRules, key: Key, began: usize) -> Outcome {
        let at = key.at as usize;
        let count = self.space.tape.child_count(at) as u64;
        if count < rules.min_items {
            self.fail(Reason::MinItems, at)?;
        }
        if rules.max_items.is_some_and(|max| count > max) {
            self.fail(Reason::MaxItems, at)?;
        }
        if !rules.prefix.is_empty() || rules.items.is_some() {
            self.each(key, Loop::Items, |this, element, stand| {
                if let Some(id) = rules.prefix.get(stand.index).copied().or(rules.items) {
                    this.apply(id, element)?;
                    this.look_at(element);
                }
                stand.index += 1;
                Ok(())
            })?;
        }
        if let Some(contains) = rules.contains {
            self.contains(contains, key)?;
        }
        if rules.is_unique && count > 1 {
            self.unique(key)?;
        }
        match rules.unevaluated {
            Some(id) if !self.is_torn(at) => self.unevaluated(id, key, began),
            _ => Ok(()),
        }
    }

    fn contains(&mut self, contains: Contains, key: Key) -> Outcome {
        let at = key.at as usize;
        let stand = self.each(key, Loop::Contains, |this, element, stand| {
            if this.holds(contains.id, element)? {
                this.look_at(element);
                stand.index += 1;
            }
            Ok(())
        })?;
        let found = stand.index as u64;
        let is_enough = found >= contains.min && contains.max.is_none_or(|max| found <= max);
        if is_enough { Ok(()) } else { self.tear(Reason::Contains, at) }
    }

    /// Equal elements meet by their hashes.
    fn unique(&mut self, key: Key) -> Outcome {
        let count = self.space.tape.child_count(key.at as usize);
        if count <= FEW_ELEMENTS && !self.space.tape.is_large(key.at as usize) {
            return self.unique_among_few(key.at as usize);
        }
        self.each(key, Loop::Unique, |this, element, stand| {
            let twins = stand.twins.get_or_insert_default();
            twins.expect(count);
            let has_twin = loop {
                this.spend(1, element)?;
                let (mut work, space) = (0, &*this.space);
                let added = twins.add_some(&space.tape, element, &space.secrets, &mut work);
                this.steps_left = this.steps_left.saturating_sub(2 * work as u64);
                if let Some(has_twin) = added {
                    break has_twin;
                }
            };
            if has_twin { this.fail(Reason::UniqueItems, element) } else { Ok(()) }
        })?;
        Ok(())
    }

    /// Sorted by hash, equal elements are neighbours.
    fn unique_among_few(&mut self, at: usize) -> Outcome {
        self.spend(1, at)?;
        let Workspace { tape, hashes, secrets: [secret, _], .. } = &mut *self.space;
        hashes.clear();
        let mut work = 0;
        hashes.extend(tape.elements(at).map(|element| (tape.hash(element, secret, &mut work), element as u32)));
        hashes.sort_unstable();
        let is_twin =
            |pair: &&[(u64, u32)]| pair[0].0 == pair[1].0 && tape.is_equal(pair[0].1 as usize, pair[1].1 as usize);
        let twin = hashes.windows(2).find(is_twin).map(|pair| pair[1].1 as usize);
        self.steps_left = self.steps_left.saturating_sub(2 * work as u64);
        twin.map_or(Ok(()), |element| self.fail(Reason::UniqueItems, element))
    }

    fn object(&mut self, rules: &'a ObjectRules, key: Key, began: usize) -> Outcome {
        let at = key.at as usize;
        let count = self.space.tape.child_count(at);
        if (count as u64) < rules.min_properties {
            self.fail(Reason::MinProperties, at)?;
        }
        if rules.max_properties.is_some_and(|max| count as u64 > max) {
            self.fail(Reason::MaxProperties, at)?;
        }
        if rules.names_members() {
            self.space.memo.note(Mark::Closed, at);
        }
        if rules.has_policy() {
            self.space.memo.note(Mark::Opened, at);
        }
        self.required(&rules.required, at)?;
        if rules.looks_at_members() {
            self.each(key, Loop::Members, |this, name, _| this.member(rules, name))?;
        }
        for (name, others) in &rules.dependent_required {
            if self.find_member(at, name)?.is_some() {
                self.required(others, at)?;
            }
        }
        for (name, id) in &rules.dependent_schemas {
            if self.find_member(at, name)?.is_some() {
                self.apply(*id, at)?;
            }
        }
        match rules.unevaluated {
            Some(id) if !self.is_torn(at) => self.unevaluated(id, key, began),
            _ => Ok(()),
        }
    }

    fn required(&mut self, names: &[Box<str>], at: usize) -> Outcome {
        let count = self.space.tape.child_count(at);
        // Few are looked for one by one, many in a table.
        if names.len() * count <= FEW {
            self.spend(names.len() * count / 8, at)?;
            for name in names {
                if self.space.tape.member(at, name.as_bytes()).is_none() {
                    self.is_missing(name, at)?;
                }
            }
            return Ok(());
        }
        self.spend(names.len() + 2 * count, at)?;
        let tape = &self.space.tape;
        let bytes: usize = tape.members(at).map(|key| tape.byte_count(key)).sum();
        let there: HashSet<&[u8]> = tape.members(at).map(|key| tape.bytes(key)).collect();
        let missing: Vec<&Box<str>> = names.iter().filter(|name| !there.contains(name.as_bytes())).collect();
        self.steps_left = self.steps_left.saturating_sub((bytes / BYTES_PER_STEP) as u64);
        missing.into_iter().try_for_each(|name| self.is_missing(name, at))
    }

    #[cold]
    fn is_missing(&mut self, name: &str, at: usize) -> Outcome {
        self.stop(Stop { reason: Reason::Required, cell: at, missing: Some(name.into()), schema: self.current })
    }

    fn member(&mut self, rules: &'a ObjectRules, key: usize) -> Outcome {
        self.spend((1 + rules.patterns.len()) * (1 + self.space.tape.byte_count(key) / BYTES_PER_STEP), key)?;
        if let Some(id) = rules.names
            && !self.holds(id, key)?
        {
            self.fail(Reason::PropertyNames, key + 1)?;
        }
        let name = std::str::from_utf8(self.space.tape.bytes(key)).unwrap_or_default();
        let mut is_known = false;
        if let Some(&id) = rules.properties.get(name) {
            is_known = true;
            self.apply(id, key + 1)?;
        }
        for (pattern, id) in &rules.patterns {
            let Some(is_match) = pattern.matches(self.space.tape.bytes(key), &mut self.steps_left) else {
                return self.fail(Reason::Budget, key);
            };
            if is_match {
                is_known = true;
                self.apply(*id, key + 1)?;
            }
        }
        if !is_known {
            let Some(id) = rules.additional else { return Ok(()) };
            self.apply(id, key + 1)?;
        }
        self.look_at(key + 1);
        Ok(())
    }

    // --- what was looked at ---

    /// Marks every cell in the log since `began`, and says by which number.
    fn survey(&mut self, began: usize, at: usize) -> Result<u32, Stop> {
        let Workspace { tape, memo, surveyed, surveys, .. } = &mut *self.space;
        surveyed.resize(tape.len(), 0);
        *surveys += 1;
        let survey = *surveys;
        let count = memo.walk(began, Some(at), &mut |mark, cell| {
            if mark == Mark::Seen {
                surveyed[cell] = survey;
            }
        });
        self.spend(count / 4, at)?;
        Ok(survey)
    }

    /// Elements, or members, that nothing has looked at.
    fn unevaluated(&mut self, id: Id, key: Key, began: usize) -> Outcome {
        let at = key.at as usize;
        let is_object = self.space.tape.tag(at) == Tag::Object;
        let survey = self.survey(began, at)?;
        self.each(key, Loop::Unevaluated, |this, cell, _| {
            let value = if is_object { cell + 1 } else { cell };
            if this.space.surveyed[value] != survey {
                this.apply(id, value)?;
                this.look_at(value);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Members that nothing has looked at, in objects that a schema knows members of and no schema leaves open.
    fn find_unknown(&mut self) -> Outcome {
        const SEEN: u8 = 1;
        const CLOSED: u8 = 2;
        const OPENED: u8 = 4;
        // Done at once, so at the beginning of a turn rather than at its end.
        self.spend(self.space.tape.len() / 8, 0)?;
        let Workspace { tape, memo, .. } = &mut *self.space;
        let mut marks = vec![0u8; tape.len()];
        memo.walk(0, None, &mut |mark, cell| {
            marks[cell] |= match mark {
                Mark::Closed => CLOSED,
                Mark::Opened => OPENED,
                Mark::Seen | Mark::Part => SEEN,
            };
        });
        let tape = &self.space.tape;
        let is_closed = |at: &usize| marks[*at] & (CLOSED | OPENED) == CLOSED && !self.is_torn(*at);
        let values = (0..tape.len()).filter(is_closed).flat_map(|at| tape.members(at).map(move |key| (at, key + 1)));
        let wanted = self.everything.as_ref().map_or(1, |everything| everything.wanted);
        let unknown: Vec<_> = values.filter(|&(_, value)| marks[value] & SEEN == 0).take(wanted).collect();
        unknown.into_iter().try_for_each(|(at, value)| {
            // Of an object that is not what it calls itself, that says more than that a member is not declared.
            match self.space.missed.iter().find(|(missed, _)| *missed == at) {
                Some((_, why)) => self.stop(why.clone()),
                None => self.fail(Reason::UnknownField, value),
            }
        })
    }
}

/// What a string breaks, if anything; patterns take from `steps` what they cost.
pub(super) fn check_string(rules: &StringRules, text: Text<'_>, steps: &mut u64) -> Option<Reason> {
    let bytes = text.bytes.len() as u64;
    // A character takes one to four bytes, so most lengths are decided without counting.
    if rules.max_length.is_some_and(|max| bytes > max && text.chars() as u64 > max) {
        return Some(Reason::MaxLength);
    }
    if bytes < rules.min_length
        || (bytes < rules.min_length.saturating_mul(4) && (text.chars() as u64) < rules.min_length)
    {
        return Some(Reason::MinLength);
    }
    if !rules.formats.iter().all(|format| format.is_match(text)) {
        return Some(Reason::Format);
    }
    for pattern in &rules.patterns {
        match pattern.matches(text.bytes, steps) {
            Some(true) => {}
            Some(false) => return Some(Reason::Pattern),
            None => return Some(Reason::Budget),
        }
    }
    None
}

/// What a number breaks, if anything.
pub(super) fn check_number(rules: &NumberRules, value: &Decimal<'_>, kind: Types) -> Option<Reason> {
    if rules.integers_only && kind != Types::INTEGER {
        return Some(Reason::Format);
    }
    let is_below = |bound: &super::ir::Bound| {
        let limit = Decimal::new(bound.text.as_bytes());
        if bound.is_exclusive { *value <= limit } else { *value < limit }
    };
    let is_above = |bound: &super::ir::Bound| {
        let limit = Decimal::new(bound.text.as_bytes());
        if bound.is_exclusive { *value >= limit } else { *value > limit }
    };
    if rules.lower.iter().any(is_below) {
        return Some(Reason::Minimum);
    }
    if rules.upper.iter().any(is_above) {
        return Some(Reason::Maximum);
    }
    let is_multiple = rules.multiples.iter().all(|divisor| value.is_multiple_of(divisor));
    if is_multiple { None } else { Some(Reason::MultipleOf) }
}
