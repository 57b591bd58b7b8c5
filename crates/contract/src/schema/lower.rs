//! From schemas to plans. The schemas that apply at one place are taken together: `$ref` and `allOf` are dissolved, branches that cannot hold for a
//! kind of value are dropped, and if one way remains it is validated in passing. Everything else is left to evaluation, kind by kind.
//!
//! Sound means: a plan allows exactly what the schemas allow. Where that is not certain, the response here is "record".

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use super::evaluate::Anchors;
use super::fast_path::FastPath;
use super::ir::{self, Id, Schema, Schemas, TRUE};
use super::lower_blocks;
use super::program::{ACCEPT, ANYTHING, ArrayPlan, ObjectPlan, Plan, Program, RECORD, REJECT, SchemaId, kind};
use super::source::Options;
use super::types::Types;
use crate::reason::Reason;

/// Beyond this many plans per schema, combinations are recorded instead of being worked out.
const MAX_PLANS_PER_SCHEMA: usize = 8;

/// How deep branches are looked into to see whether they can hold.
const MAX_LOOK: u32 = 40;

/// The kinds in the order of a plan's blocks.
const KINDS: [Types; kind::COUNT] =
    [Types::NULL, Types::BOOLEAN, Types::INTEGER, Types::FRACTION, Types::STRING, Types::ARRAY, Types::OBJECT];

/// Looks at schemas that plans may take, for each schema there is. Beyond them, what is left is recorded.
const LOOKS_PER_SCHEMA: usize = 100;

/// The same for documents with few schemas.
const LOOKS_AT_LEAST: usize = 1_000_000;

/// Looks at schemas, counted.
#[derive(Debug, Default)]
pub(super) struct Looks(Cell<usize>);

impl Looks {
    pub fn add(&self, count: usize) {
        self.0.set(self.0.get().saturating_add(count));
    }

    pub fn count(&self) -> usize {
        self.0.get()
    }
}

/// A program under construction.
pub(super) struct Lowering<'l> {
    pub program: Program,
    looks: &'l Looks,
    /// The last one that plans may take.
    last_look: usize,
    known: HashMap<Box<[Id]>, u32>,
    queue: Vec<u32>,
}

/// What schemas come to for one kind of value.
pub(super) enum Closure {
    /// All of these hold, and nothing else is asked.
    Members(Vec<Id>),
    Reject(Reason),
    Record,
}

/// Whether a schema holds for values of one kind, as far as can be known without the value.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Decision {
    Always,
    Never,
    Perhaps,
}

/// The program for the schemas in `roots`.
pub(super) fn program(schemas: Schemas, anchors: Anchors, roots: &[Id], options: &Options, looks: &Looks) -> Program {
    let mut limits = options.limits.clone();
    let longest = schemas.iter().filter_map(|schema| schema.string.as_ref()?.max_length).max().unwrap_or(0);
    // A character takes up to twelve bytes, as two escapes.
    let longest_bytes = u32::try_from(longest.saturating_mul(12)).unwrap_or(limits.string_bytes).min(1 << 30);
    limits.string_bytes = limits.string_bytes.max(longest_bytes);
    let shared = shared(&schemas, &anchors);
    let is_costly = schemas.iter().any(is_costly);
    static SERIALS: AtomicU64 = AtomicU64::new(1);
    let program = Program {
        serial: SERIALS.fetch_add(1, Ordering::Relaxed),
        schemas,
        anchors,
        shared,
        is_costly,
        reject_unknown: options.reject_unknown_fields,
        limits,
        plans: Vec::new(),
        strings: Vec::new(),
        numbers: Vec::new(),
        arrays: vec![ArrayPlan { prefix: [].into(), rest: ANYTHING, min: 0, max: u32::MAX }],
        objects: vec![ObjectPlan::anything()],
        slots: Vec::new(),
        roots: Vec::new(),
    };
    let most_looks = LOOKS_AT_LEAST.max(program.schemas.len().saturating_mul(LOOKS_PER_SCHEMA));
    let last_look = looks.count().saturating_add(most_looks);
    let mut lowering = Lowering { program, looks, last_look, known: HashMap::new(), queue: Vec::new() };
    lowering.plan([]);
    for &root in roots {
        let plan = if lowering.needs_scope(root) { lowering.recorded(root) } else { lowering.plan([root]) };
        lowering.program.roots.push(plan);
    }
    while let Some(plan) = lowering.queue.pop() {
        lowering.fill(plan);
    }
    let mut program = lowering.program;
    // A name that a schema knows is not too long, or the decision would depend on how its bytes arrive.
    let longest_name = program.slots.iter().map(|slot| slot.written.len().saturating_sub(3)).max().unwrap_or(0);
    program.limits.key_bytes = program.limits.key_bytes.max(longest_name as u32);
    program.is_costly |=
        program.strings.iter().any(|plan| plan.steps > 0) || program.numbers.iter().any(|plan| plan.steps > 0);
    let fast_paths: Vec<FastPath> = program.slots.iter().map(|slot| FastPath::new(&program, slot)).collect();
    program.slots.iter_mut().zip(fast_paths).for_each(|(slot, fast_path)| slot.fast_path = fast_path);
    program
}

impl Program {
    /// The plan of a schema.
    pub(super) fn root(&self, id: SchemaId) -> u32 {
        self.roots.get(id.0 as usize).copied().unwrap_or(ANYTHING)
    }
}

impl ObjectPlan {
    fn anything() -> Self {
        Self {
            keys: Default::default(),
            first_slot: 0,
            required: [].into(),
            patterns: [].into(),
            unknown: [ANYTHING].into(),
            names: ACCEPT,
            min: 0,
            max: u32::MAX,
        }
    }
}

impl Lowering<'_> {
    /// Takes looks; says whether there were so many left.
    pub fn may_look(&self, count: usize) -> bool {
        self.looks.add(count);
        self.looks.count() <= self.last_look
    }

    pub fn schema(&self, id: Id) -> &Schema {
        &self.program.schemas[id as usize]
    }

    /// The plan for all of these schemas together; its blocks are filled in later.
    pub fn plan(&mut self, ids: impl IntoIterator<Item = Id>) -> u32 {
        let ids: BTreeSet<Id> = ids.into_iter().filter(|&id| id != TRUE).collect();
        let ids: Box<[Id]> = ids.into_iter().collect();
        if let Some(&plan) = self.known.get(&ids) {
            return plan;
        }
        let plan = self.push(ids.clone());
        self.known.insert(ids, plan);
        self.queue.push(plan);
        plan
    }

    fn push(&mut self, ids: Box<[Id]>) -> u32 {
        let reasons = [Reason::Type; kind::COUNT];
        self.program.plans.push(Plan { blocks: [RECORD; kind::COUNT], reasons, ids });
        (self.program.plans.len() - 1) as u32
    }

    /// A plan that records everything, because evaluation has to begin at the root.
    fn recorded(&mut self, root: Id) -> u32 {
        self.push([root].into())
    }

    /// Whether a `$dynamicRef` that may lead to different places is in reach of a schema.
    fn needs_scope(&self, root: Id) -> bool {
        let mut seen = BTreeSet::from([root]);
        let mut queue = vec![root];
        while let Some(id) = queue.pop() {
            let schema = self.schema(id);
            if schema.dynamic.is_some() {
                return true;
            }
            queue.extend(children(schema).into_iter().filter(|&child| seen.insert(child)));
        }
        false
    }

    fn fill(&mut self, plan: u32) {
        if self.program.plans.len() > MAX_PLANS_PER_SCHEMA * self.program.schemas.len() + 1000 {
            return;
        }
        let ids = self.program.plans[plan as usize].ids.clone();
        for (index, &types) in KINDS.iter().enumerate() {
            let (block, reason) = match self.closure(&ids, types) {
                Closure::Reject(reason) => (REJECT, reason),
                Closure::Record => (RECORD, Reason::Type),
                Closure::Members(members) => match lower_blocks::block(self, &members, index) {
                    Ok(block) => (block, Reason::Type),
                    Err(reason) => (REJECT, reason),
                },
            };
            let plan = &mut self.program.plans[plan as usize];
            plan.blocks[index] = block;
            plan.reasons[index] = reason;
        }
    }

    /// Everything that has to hold for values of one kind where these schemas apply.
    pub fn closure(&self, ids: &[Id], types: Types) -> Closure {
        let mut members = Vec::new();
        let mut seen: BTreeSet<Id> = ids.iter().copied().collect();
        let mut queue: Vec<Id> = ids.iter().rev().copied().collect();
        let mut is_recorded = false;
        while let Some(id) = queue.pop() {
            let schema = self.schema(id);
            if !self.may_look(1) {
                return Closure::Record;
            }
            if let Some(reason) = schema.never {
                return Closure::Reject(reason);
            }
            if !schema.types.has(types) {
                return Closure::Reject(Reason::Type);
            }
            let mut more = schema.all_of.clone();
            match self.composition(schema, types, &mut more) {
                Ok(is_plain) => is_recorded |= !is_plain,
                Err(reason) => return Closure::Reject(reason),
            }
            members.push(id);
            queue.extend(more.into_iter().filter(|&next| seen.insert(next)));
        }
        if is_recorded { Closure::Record } else { Closure::Members(members) }
    }

    /// Adds what is certain to apply to `more`; says whether that is everything.
    fn composition(&self, schema: &Schema, types: Types, more: &mut Vec<Id>) -> Result<bool, Reason> {
        let is_object = types == Types::OBJECT;
        if schema.dynamic.is_some() || (is_object && schema.discriminator.is_some()) {
            return Ok(false);
        }
        more.extend(schema.base());
        // What was looked at in a branch counts for objects and arrays, so a branch that always holds cannot be left out there.
        let may_drop = !matches!(types, Types::OBJECT | Types::ARRAY);
        let mut is_plain = true;
        let (certain, perhaps) = self.branches(&schema.any_of, types);
        match (certain.len(), perhaps.len()) {
            (0, 0) if !schema.any_of.is_empty() => return Err(Reason::AnyOf),
            (0, 0) => {}
            (1, 0) => more.extend(certain),
            (0, 1) => more.extend(perhaps),
            (0, _) => is_plain = false,
            _ => is_plain &= may_drop,
        }
        let (certain, perhaps) = self.branches(&schema.one_of, types);
        match (certain.len(), perhaps.len()) {
            (0, 0) if !schema.one_of.is_empty() => return Err(Reason::OneOf),
            (2.., _) => return Err(Reason::OneOf),
            (0, 0) => {}
            (1, 0) => more.extend(certain),
            (0, 1) => more.extend(perhaps),
            _ => is_plain = false,
        }
        match schema.not.map(|id| self.decision(id, types, 0)) {
            Some(Decision::Always) => return Err(Reason::Not),
            Some(Decision::Perhaps) => is_plain = false,
            Some(Decision::Never) | None => {}
        }
        if let Some(condition) = schema.condition {
            match self.decision(condition.test, types, 0) {
                Decision::Always => more.extend([condition.test, condition.then]),
                Decision::Never => more.push(condition.otherwise),
                Decision::Perhaps => is_plain &= may_drop && condition.then == TRUE && condition.otherwise == TRUE,
            }
        }
        Ok(is_plain)
    }

    /// The branches that hold for every value of a kind, and those that may.
    fn branches(&self, ids: &[Id], types: Types) -> (Vec<Id>, Vec<Id>) {
        let with = |wanted| move |id: &Id| self.decision(*id, types, 0) == wanted;
        let all = |wanted| ids.iter().copied().filter(with(wanted)).collect();
        (all(Decision::Always), all(Decision::Perhaps))
    }

    fn decision(&self, id: Id, types: Types, depth: u32) -> Decision {
        let schema = self.schema(id);
        let has_value = |values: &[super::constant::Constant]| values.iter().any(|value| value.types().has(types));
        if schema.never.is_some()
            || !schema.types.has(types)
            || schema.values.iter().any(|(values, _)| !has_value(values))
        {
            return Decision::Never;
        }
        if depth >= MAX_LOOK {
            return Decision::Perhaps;
        }
        let decisions = |ids: &[Id]| ids.iter().map(|&id| self.decision(id, types, depth + 1)).collect::<Vec<_>>();
        let mut parts = decisions(&schema.all_of);
        parts.extend(decisions(schema.base().as_slice()));
        let any = decisions(&schema.any_of);
        let one = decisions(&schema.one_of);
        let is_never = |decision: &Decision| *decision == Decision::Never;
        if parts.iter().any(is_never)
            || (!any.is_empty() && any.iter().all(is_never))
            || (!one.is_empty() && one.iter().all(is_never))
            || schema.not.is_some_and(|not| self.decision(not, types, depth + 1) == Decision::Always)
        {
            return Decision::Never;
        }
        let is_always = parts.iter().all(|part| *part == Decision::Always)
            && any.is_empty()
            && one.is_empty()
            && schema.not.is_none()
            && schema.condition.is_none()
            && schema.dynamic.is_none()
            && schema.discriminator.is_none()
            && schema.values.is_empty()
            && says_nothing(schema, types);
        if is_always { Decision::Always } else { Decision::Perhaps }
    }
}

/// Of each schema: whether there are several ways to it, and it leads further.
fn shared(schemas: &Schemas, anchors: &Anchors) -> Box<[bool]> {
    let mut ways = vec![0u32; schemas.len()];
    let fallbacks = schemas.iter().filter_map(|schema| schema.dynamic.as_ref().map(|dynamic| dynamic.fallback));
    let dynamic = anchors.values().flat_map(|places| places.values().copied());
    // Whatever `$dynamicRef` may lead to may be reached from anywhere.
    dynamic.chain(fallbacks).for_each(|id| ways[id as usize] += 2);
    schemas.iter().flat_map(children).for_each(|id| ways[id as usize] += 1);
    let leads_on = |schema: &Schema| schema.dynamic.is_some() || !children(schema).is_empty();
    ways.iter().zip(schemas).map(|(&ways, schema)| ways > 1 && leads_on(schema)).collect()
}

/// Whether matching one of its patterns is charged for.
fn is_costly(schema: &Schema) -> bool {
    let of_strings = schema.string.iter().flat_map(|rules| &rules.patterns);
    let of_names = schema.object.iter().flat_map(|rules| rules.patterns.iter().map(|(pattern, _)| pattern));
    of_strings.chain(of_names).any(|pattern| !pattern.is_cheap())
}

/// Whether the rules for one kind are empty.
fn says_nothing(schema: &Schema, types: Types) -> bool {
    match types {
        Types::INTEGER | Types::FRACTION => schema.number.is_none(),
        Types::STRING => schema.string.is_none(),
        Types::ARRAY => schema.array.is_none(),
        Types::OBJECT => schema.object.is_none(),
        _ => true,
    }
}

/// Every schema that this one applies, to the same value or to parts of it.
pub(super) fn children(schema: &Schema) -> Vec<Id> {
    let mut ids = applied_aside(schema);
    ids.extend(schema.all_of.iter().copied().chain(schema.base()));
    ids.retain(|&id| id > ir::NULL);
    ids
}

/// Those of them that are no parts of it.
pub(super) fn applied_aside(schema: &Schema) -> Vec<Id> {
    let mut ids = super::compile::aside(schema);
    ids.extend(schema.discriminator.iter().flat_map(|discriminator| discriminator.branches.values()));
    if let Some(array) = &schema.array {
        ids.extend(&array.prefix);
        ids.extend([array.items, array.unevaluated, array.contains.map(|contains| contains.id)].into_iter().flatten());
    }
    if let Some(object) = &schema.object {
        ids.extend(object.properties.values());
        ids.extend(object.patterns.iter().map(|(_, id)| id));
        ids.extend([object.additional, object.names, object.unevaluated].into_iter().flatten());
    }
    ids
}
