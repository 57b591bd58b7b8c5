//! Judges a recorded value by schemas of any kind: the whole of 2020-12, for the parts that cannot be judged in passing. Every application of a
//! schema to a value is a step, and steps are bounded.
//!
//! What a schema has looked at ("annotations" in 2020-12) is a log of cells: a branch that fails takes its entries back. Whatever was appended since
//! a schema began, and lies directly in its value, is what `unevaluated*` may not judge again.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;

use super::ir::{
    ArrayRules, Contains, Discriminator, Id, NumberRules, ObjectRules, Resource, Schema, Schemas, StringRules,
};
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
}

type Outcome = Result<(), Stop>;

/// Memory that evaluations use again and again.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub tape: Tape,
    /// Cells that some schema has looked at, in the order it happened.
    log: Vec<u32>,
    /// For each cell, the number of the last survey that found it in the log.
    surveyed: Vec<u32>,
    surveys: u32,
    /// Objects that a schema knows members of, and those about whose other members a schema says something.
    closed: Vec<u32>,
    opened: Vec<u32>,
    scope: Vec<Resource>,
    hashes: Vec<(u64, u32)>,
    secret: RandomState,
}

impl Workspace {
    /// Frees what an unusually large value has left behind.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.tape.shrink(keep_bytes);
        for list in [&mut self.log, &mut self.surveyed, &mut self.closed, &mut self.opened] {
            list.clear();
            list.shrink_to(keep_bytes / 4);
        }
        self.hashes.clear();
        self.hashes.shrink_to(keep_bytes / 16);
    }
}

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
}

/// One evaluation.
pub(super) struct Evaluation<'a> {
    pub schemas: &'a Schemas,
    pub anchors: &'a Anchors,
    pub refuse_unknown: bool,
    pub space: &'a mut Workspace,
    pub steps_left: u64,
    pub depth: u32,
    /// None while the first thing that is wrong ends the evaluation, as within branches that only might hold.
    pub everything: Option<Everything>,
}

impl<'a> Evaluation<'a> {
    /// Judges the value on the tape by all of `ids`.
    pub fn run(&mut self, ids: &[Id]) -> Outcome {
        self.space.log.clear();
        self.space.closed.clear();
        self.space.opened.clear();
        self.space.scope.clear();
        self.space.surveyed.clear();
        self.space.surveyed.resize(self.space.tape.len(), 0);
        self.space.surveys = 0;
        for &id in ids {
            self.apply(id, 0)?;
        }
        if self.refuse_unknown { self.find_unknown() } else { Ok(()) }
    }

    fn fail(&mut self, reason: Reason, cell: usize) -> Outcome {
        self.stop(Stop { reason, cell, missing: None })
    }

    /// Ends the evaluation, or goes on if more is wanted.
    fn stop(&mut self, stop: Stop) -> Outcome {
        match &mut self.everything {
            Some(everything) if stop.reason != Reason::Budget && everything.stops.len() + 1 < everything.wanted => {
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

    fn spend(&mut self, steps: usize, cell: usize) -> Outcome {
        match self.steps_left.checked_sub(steps as u64) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => self.fail(Reason::Budget, cell),
        }
    }

    fn apply(&mut self, id: Id, at: usize) -> Outcome {
        self.spend(1, at)?;
        if self.depth >= MAX_DEPTH {
            return self.fail(Reason::Budget, at);
        }
        let schema = &self.schemas[id as usize];
        let in_scope = self.space.scope.last() == Some(&schema.resource);
        if !in_scope {
            self.space.scope.push(schema.resource);
        }
        self.depth += 1;
        let outcome = self.judge(schema, at);
        self.depth -= 1;
        if !in_scope {
            self.space.scope.pop();
        }
        outcome
    }

    /// Whether the schema holds. What a failed one has logged is taken back; running out of steps ends everything.
    fn holds(&mut self, id: Id, at: usize) -> Result<bool, Stop> {
        let marks = (self.space.log.len(), self.space.closed.len(), self.space.opened.len());
        let everything = self.everything.take();
        let outcome = self.apply(id, at);
        self.everything = everything;
        match outcome {
            Ok(()) => Ok(true),
            Err(stop) if stop.reason == Reason::Budget => Err(stop),
            Err(_) => {
                self.take_back(marks);
                Ok(false)
            }
        }
    }

    fn take_back(&mut self, (log, closed, opened): (usize, usize, usize)) {
        self.space.log.truncate(log);
        self.space.closed.truncate(closed);
        self.space.opened.truncate(opened);
    }

    fn judge(&mut self, schema: &'a Schema, at: usize) -> Outcome {
        if let Some(reason) = schema.never {
            return self.fail(reason, at);
        }
        let kind = self.space.tape.kind(at);
        if !schema.types.has(kind) {
            return self.fail(Reason::Type, at);
        }
        for (values, reason) in &schema.values {
            self.spend(values.len(), at)?;
            if !values.iter().any(|value| self.space.tape.is_constant(at, value)) {
                return self.fail(*reason, at);
            }
        }
        let began = self.space.log.len();
        match kind {
            Types::STRING => self.string(schema.string.as_deref(), at)?,
            Types::INTEGER | Types::FRACTION => self.number(schema.number.as_deref(), at, kind)?,
            _ => {}
        }
        self.compose(schema, at, kind)?;
        match (kind, &schema.array, &schema.object) {
            (Types::ARRAY, Some(rules), _) => self.array(rules, at, began),
            (Types::OBJECT, _, Some(rules)) => self.object(rules, at, began),
            _ => Ok(()),
        }
    }

    // --- scalars ---

    fn string(&mut self, rules: Option<&StringRules>, at: usize) -> Outcome {
        let Some(rules) = rules else { return Ok(()) };
        match check_string(rules, self.space.tape.text(at)) {
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
            _ => match schema.base() {
                // The heirs are objects; the base says whether something else may be.
                Some(base) => self.apply(base, at)?,
                None => self.alternatives(schema, at)?,
            },
        }
        if let Some(id) = schema.not {
            let marks = (self.space.log.len(), self.space.closed.len(), self.space.opened.len());
            if self.holds(id, at)? {
                return self.fail(Reason::Not, at);
            }
            self.take_back(marks);
        }
        if let Some(condition) = schema.condition {
            let next = if self.holds(condition.test, at)? { condition.then } else { condition.otherwise };
            self.apply(next, at)?;
        }
        if let Some(dynamic) = &schema.dynamic {
            let anchors = self.anchors.get(&dynamic.name);
            let found = anchors.and_then(|anchors| self.space.scope.iter().find_map(|base| anchors.get(base))).copied();
            self.apply(found.unwrap_or(dynamic.fallback), at)?;
        }
        Ok(())
    }

    fn discriminate(&mut self, discriminator: &Discriminator, at: usize) -> Outcome {
        let value = self.space.tape.member(at, discriminator.property.as_bytes());
        let value = value.filter(|&value| self.space.tape.tag(value) == Tag::String);
        let name = value.map(|value| String::from_utf8_lossy(self.space.tape.bytes(value)));
        let branch = name.and_then(|name| discriminator.branches.get(name.as_ref()).copied());
        match (branch.or(discriminator.base), value) {
            (Some(branch), _) => self.apply(branch, at),
            (None, Some(value)) => {
                self.note_torn(at);
                self.fail(Reason::Enum, value)
            }
            (None, None) => {
                self.note_torn(at);
                let missing = Some(discriminator.property.clone());
                self.stop(Stop { reason: Reason::Discriminator, cell: at, missing })
            }
        }
    }

    fn alternatives(&mut self, schema: &'a Schema, at: usize) -> Outcome {
        let mut any = schema.any_of.is_empty();
        for &id in &schema.any_of {
            any |= self.holds(id, at)?;
        }
        if !any {
            return self.tear(Reason::AnyOf, at);
        }
        let mut held = 0;
        for &id in &schema.one_of {
            held += usize::from(self.holds(id, at)?);
            if held > 1 {
                return self.tear(Reason::OneOf, at);
            }
        }
        if held == 0 && !schema.one_of.is_empty() { self.tear(Reason::OneOf, at) } else { Ok(()) }
    }

    // --- containers ---

    fn look_at(&mut self, cell: usize) {
        self.space.log.push(cell as u32);
    }

    fn array(&mut self, rules: &'a ArrayRules, at: usize, began: usize) -> Outcome {
        let count = self.space.tape.child_count(at) as u64;
        if count < rules.min_items {
            self.fail(Reason::MinItems, at)?;
        }
        if rules.max_items.is_some_and(|max| count > max) {
            self.fail(Reason::MaxItems, at)?;
        }
        let end = self.space.tape.behind(at);
        let (mut element, mut index) = (at + 1, 0);
        while element < end && (index < rules.prefix.len() || rules.items.is_some()) {
            if let Some(id) = rules.prefix.get(index).copied().or(rules.items) {
                self.apply(id, element)?;
                self.look_at(element);
            }
            element = self.space.tape.behind(element);
            index += 1;
        }
        if let Some(contains) = rules.contains {
            self.contains(contains, at)?;
        }
        if rules.is_unique && count > 1 {
            self.unique(at)?;
        }
        match rules.unevaluated {
            Some(id) if !self.is_torn(at) => self.unevaluated_items(id, at, began),
            _ => Ok(()),
        }
    }

    fn contains(&mut self, contains: Contains, at: usize) -> Outcome {
        let end = self.space.tape.behind(at);
        let (mut element, mut found) = (at + 1, 0u64);
        while element < end {
            if self.holds(contains.id, element)? {
                self.look_at(element);
                found += 1;
            }
            element = self.space.tape.behind(element);
        }
        let is_enough = found >= contains.min && contains.max.is_none_or(|max| found <= max);
        if is_enough { Ok(()) } else { self.tear(Reason::Contains, at) }
    }

    /// Sorted by hash, equal elements are neighbours.
    fn unique(&mut self, at: usize) -> Outcome {
        self.spend(self.space.tape.behind(at) - at, at)?;
        let space = &mut *self.space;
        space.hashes.clear();
        for element in space.tape.elements(at) {
            space.hashes.push((space.tape.hash(element, &space.secret), element as u32));
        }
        space.hashes.sort_unstable();
        let twin = (space.hashes.windows(2))
            .find(|pair| pair[0].0 == pair[1].0 && space.tape.is_equal(pair[0].1 as usize, pair[1].1 as usize));
        match twin.map(|pair| pair[1].1 as usize) {
            Some(element) => self.fail(Reason::UniqueItems, element),
            None => Ok(()),
        }
    }

    fn object(&mut self, rules: &'a ObjectRules, at: usize, began: usize) -> Outcome {
        let count = self.space.tape.child_count(at);
        if (count as u64) < rules.min_properties {
            self.fail(Reason::MinProperties, at)?;
        }
        if rules.max_properties.is_some_and(|max| count as u64 > max) {
            self.fail(Reason::MaxProperties, at)?;
        }
        if rules.names_members() {
            self.space.closed.push(at as u32);
        }
        if rules.has_policy() {
            self.space.opened.push(at as u32);
        }
        self.required(&rules.required, at)?;
        let end = self.space.tape.behind(at);
        let mut key = at + 1;
        while key < end {
            self.member(rules, key)?;
            key = self.space.tape.behind(key + 1);
        }
        for (name, others) in &rules.dependent_required {
            if self.space.tape.member(at, name.as_bytes()).is_some() {
                self.required(others, at)?;
            }
        }
        for (name, id) in &rules.dependent_schemas {
            if self.space.tape.member(at, name.as_bytes()).is_some() {
                self.apply(*id, at)?;
            }
        }
        match rules.unevaluated {
            Some(id) if !self.is_torn(at) => self.unevaluated_properties(id, at, began),
            _ => Ok(()),
        }
    }

    fn required(&mut self, names: &[Box<str>], at: usize) -> Outcome {
        self.spend(names.len() * self.space.tape.child_count(at) / 8, at)?;
        for name in names {
            if self.space.tape.member(at, name.as_bytes()).is_none() {
                self.stop(Stop { reason: Reason::Required, cell: at, missing: Some(name.clone()) })?;
            }
        }
        Ok(())
    }

    fn member(&mut self, rules: &'a ObjectRules, key: usize) -> Outcome {
        self.spend(1 + rules.patterns.len(), key)?;
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
            if pattern.is_match(self.space.tape.bytes(key)) {
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

    /// Marks every cell in the log since `began`; [`Self::was_seen`] then answers for this survey.
    fn survey(&mut self, began: usize, at: usize) -> Result<u32, Stop> {
        self.spend(self.space.log.len() - began, at)?;
        self.space.surveys += 1;
        let survey = self.space.surveys;
        for &cell in &self.space.log[began..] {
            self.space.surveyed[cell as usize] = survey;
        }
        Ok(survey)
    }

    fn was_seen(&self, cell: usize, survey: u32) -> bool {
        self.space.surveyed[cell] == survey
    }

    fn unevaluated_items(&mut self, id: Id, at: usize, began: usize) -> Outcome {
        let survey = self.survey(began, at)?;
        let end = self.space.tape.behind(at);
        let mut element = at + 1;
        while element < end {
            if !self.was_seen(element, survey) {
                self.apply(id, element)?;
                self.look_at(element);
            }
            element = self.space.tape.behind(element);
        }
        Ok(())
    }

    fn unevaluated_properties(&mut self, id: Id, at: usize, began: usize) -> Outcome {
        let survey = self.survey(began, at)?;
        let end = self.space.tape.behind(at);
        let mut key = at + 1;
        while key < end {
            if !self.was_seen(key + 1, survey) {
                self.apply(id, key + 1)?;
                self.look_at(key + 1);
            }
            key = self.space.tape.behind(key + 1);
        }
        Ok(())
    }

    /// Members that nothing has looked at, in objects that a schema knows members of and no schema leaves open.
    fn find_unknown(&mut self) -> Outcome {
        let survey = self.survey(0, 0)?;
        let mut objects = std::mem::take(&mut self.space.closed);
        let mut opened = std::mem::take(&mut self.space.opened);
        objects.sort_unstable();
        objects.dedup();
        opened.sort_unstable();
        let tape = &self.space.tape;
        let is_closed = |object: &&u32| opened.binary_search(object).is_err() && !self.is_torn(**object as usize);
        let closed = objects.iter().filter(is_closed);
        let values = closed.flat_map(|&object| tape.members(object as usize).map(|key| key + 1));
        let wanted = self.everything.as_ref().map_or(1, |everything| everything.wanted);
        let unknown: Vec<usize> = values.filter(|&value| !self.was_seen(value, survey)).take(wanted).collect();
        self.space.closed = objects;
        self.space.opened = opened;
        unknown.into_iter().try_for_each(|value| self.fail(Reason::UnknownField, value))
    }
}

/// What a string breaks, if anything.
pub(super) fn check_string(rules: &StringRules, text: Text<'_>) -> Option<Reason> {
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
    let is_match = rules.patterns.iter().all(|pattern| pattern.is_match(text.bytes));
    if is_match { None } else { Some(Reason::Pattern) }
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
