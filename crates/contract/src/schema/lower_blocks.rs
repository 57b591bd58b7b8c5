//! The blocks of a plan: what a list of schemas, all of which hold, comes to for one kind of value. `Err`: no value of the kind is right.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::constant::{Constant, sort_numbers};
use super::ir::{ArrayRules, Id, NumberRules, ObjectRules, StringRules, TRUE, UNKNOWN_FIELD};
use super::keys::KeyTable;
use super::lower::{Closure, Lowering};
use super::program::{ACCEPT, ANYTHING, ArrayPlan, NumberPlan, ObjectPlan, RECORD, Slot, StringPlan, kind, steps_of};
use super::types::Types;
use crate::number::Decimal;
use crate::pattern::Pattern;
use crate::reason::Reason;

/// More names than this in one object are recorded: the table counts in 16 bits.
const MAX_NAMES: usize = 10_000;

/// More strings than this in one enumeration are recorded: the table counts in 16 bits.
const MAX_TEXTS: usize = 65_000;

/// More patterns than this are recorded: each doubles the number of plans for unknown names.
const MAX_PATTERNS: usize = 4;

/// Values that `enum` or `const` leave.
type Allowed<'a> = Option<(Vec<&'a Constant>, Reason)>;

pub(super) fn block(lowering: &mut Lowering<'_>, members: &[Id], index: usize) -> Result<u32, Reason> {
    match index {
        kind::NULL => constants(lowering, members, Types::NULL).map(|_| ACCEPT),
        kind::BOOLEAN => boolean(lowering, members),
        kind::INTEGER => number(lowering, members, Types::INTEGER),
        kind::FRACTION => number(lowering, members, Types::FRACTION),
        kind::STRING => string(lowering, members),
        kind::ARRAY if names_values(lowering, members) => constants(lowering, members, Types::ARRAY).map(|_| RECORD),
        kind::OBJECT if names_values(lowering, members) => constants(lowering, members, Types::OBJECT).map(|_| RECORD),
        kind::ARRAY => array(lowering, members),
        _ => object(lowering, members),
    }
}

fn names_values(lowering: &Lowering<'_>, members: &[Id]) -> bool {
    members.iter().any(|&id| !lowering.schema(id).values.is_empty())
}

/// The values of one kind that every `enum` and `const` names; `None` if there is none of these keywords.
fn constants<'a>(lowering: &'a Lowering<'_>, members: &[Id], types: Types) -> Result<Allowed<'a>, Reason> {
    let mut allowed: Allowed<'a> = None;
    for (values, reason) in
        members.iter().flat_map(|&id| &lowering.schema(id).values).map(|(values, reason)| (&**values, reason))
    {
        let of_kind = values.iter().filter(|value| value.types().has(types));
        let left: Vec<&Constant> = match &allowed {
            None => of_kind.collect(),
            Some((known, _)) => of_kind.filter(|value| known.iter().any(|known| is_same(known, value))).collect(),
        };
        if left.is_empty() {
            return Err(*reason);
        }
        allowed = Some((left, *reason));
    }
    Ok(allowed)
}

fn is_same(left: &Constant, right: &Constant) -> bool {
    match (left, right) {
        (Constant::Number(left), Constant::Number(right)) => {
            Decimal::new(left.as_bytes()) == Decimal::new(right.as_bytes())
        }
        // For containers only whether there is one matters here; they are compared when recorded.
        (Constant::Array(_), Constant::Array(_)) | (Constant::Object(_), Constant::Object(_)) => true,
        _ => left == right,
    }
}

fn boolean(lowering: &Lowering<'_>, members: &[Id]) -> Result<u32, Reason> {
    let Some((values, _)) = constants(lowering, members, Types::BOOLEAN)? else { return Ok(ACCEPT) };
    let bit = |value: &&Constant| if **value == Constant::Boolean(true) { 2 } else { 1 };
    Ok(values.iter().map(bit).fold(0, |set, bit| set | bit))
}

fn number(lowering: &mut Lowering<'_>, members: &[Id], types: Types) -> Result<u32, Reason> {
    let values = match constants(lowering, members, types)? {
        Some((values, reason)) => {
            let text = |value: &&Constant| match value {
                Constant::Number(text) => Some(text.clone()),
                _ => None,
            };
            let mut texts: Vec<Box<str>> = values.iter().filter_map(text).collect();
            sort_numbers(&mut texts);
            vec![(texts, reason)]
        }
        None => Vec::new(),
    };
    let rules: Vec<NumberRules> =
        members.iter().filter_map(|&id| lowering.schema(id).number.as_deref().cloned()).collect();
    if types == Types::FRACTION && rules.iter().any(|rules| rules.integers_only) {
        return Err(Reason::Format);
    }
    if rules.is_empty() && values.is_empty() {
        return Ok(ACCEPT);
    }
    let small = if values.is_empty() { small_range(&rules) } else { None };
    let integers = |values: &[(Vec<Box<str>>, Reason)]| -> Option<Box<[i64]>> {
        let texts = values.first().filter(|_| rules.is_empty()).map(|(texts, _)| texts)?;
        texts.iter().map(|text| i64::try_from(Decimal::new(text.as_bytes()).to_i128()?).ok()).collect()
    };
    let mut small_values = integers(&values).unwrap_or_default();
    small_values.sort_unstable();
    let count = |rules: &NumberRules| rules.lower.len() + rules.upper.len() + rules.multiples.len();
    let steps = steps_of(rules.iter().map(count).sum());
    lowering.program.numbers.push(NumberPlan { small, rules, values, small_values, steps });
    Ok((lowering.program.numbers.len() - 1) as u32)
}

/// The range of small integers that all rules allow, if they are nothing but bounds that are integers.
fn small_range(rules: &[NumberRules]) -> Option<(i64, i64)> {
    let (mut min, mut max) = (i64::MIN, i64::MAX);
    for rules in rules {
        if !rules.multiples.is_empty() {
            return None;
        }
        for bound in &rules.lower {
            let least = Decimal::new(bound.text.as_bytes()).to_i128()? + i128::from(bound.is_exclusive);
            min = min.max(clamp(least));
        }
        for bound in &rules.upper {
            let most = Decimal::new(bound.text.as_bytes()).to_i128()? - i128::from(bound.is_exclusive);
            max = max.min(clamp(most));
        }
    }
    Some((min, max))
}

/// Small integers have 18 digits, so nothing is lost at the ends.
fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn string(lowering: &mut Lowering<'_>, members: &[Id]) -> Result<u32, Reason> {
    let values = match constants(lowering, members, Types::STRING)? {
        Some((values, reason)) => {
            let texts: BTreeSet<Box<str>> = values.iter().filter_map(|value| text_of(value)).collect();
            if texts.len() > MAX_TEXTS {
                return Ok(RECORD);
            }
            Some((KeyTable::new(texts.into_iter().collect()), reason))
        }
        None => None,
    };
    let mut all = StringRules::default();
    for rules in members.iter().filter_map(|&id| lowering.schema(id).string.as_deref()) {
        all.min_length = all.min_length.max(rules.min_length);
        all.max_length = [all.max_length, rules.max_length].into_iter().flatten().min();
        all.patterns.extend(rules.patterns.iter().cloned());
        all.formats.extend(&rules.formats);
    }
    let is_length = values.is_none() && all.patterns.is_empty() && all.formats.is_empty();
    if is_length && all.min_length == 0 && all.max_length.is_none() {
        return Ok(ACCEPT);
    }
    let bytes = |length: u64| usize::try_from(length).unwrap_or(usize::MAX);
    let (min_bytes, max_bytes) = (bytes(all.min_length), all.max_length.map_or(usize::MAX, bytes));
    let steps = steps_of(all.patterns.len() + all.formats.len());
    lowering.program.strings.push(StringPlan { rules: all, max_bytes, min_bytes, is_length, values, steps });
    Ok((lowering.program.strings.len() - 1) as u32)
}

fn text_of(value: &Constant) -> Option<Box<str>> {
    match value {
        Constant::String(text) => Some(text.clone()),
        _ => None,
    }
}

// --- arrays ---

fn array(lowering: &mut Lowering<'_>, members: &[Id]) -> Result<u32, Reason> {
    let rules = || members.iter().filter_map(|&id| Some((id, lowering.schema(id).array.as_deref()?)));
    let min = rules().map(|(_, rules)| rules.min_items).max().unwrap_or(0);
    let max = rules().filter_map(|(_, rules)| rules.max_items).min();
    if max.is_some_and(|max| max < min) {
        return Err(Reason::MinItems);
    }
    if rules().any(|(_, rules)| rules.contains.is_some() || (rules.is_unique && max != Some(1) && max != Some(0))) {
        return Ok(RECORD);
    }
    let length = rules().map(|(_, rules)| rules.prefix.len()).max().unwrap_or(0);
    // The last one stands for everything behind the prefixes.
    let places: Vec<Vec<Id>> = (0..=length)
        .map(|index| rules().flat_map(|(id, rules)| element(lowering, id, rules, index, length)).collect())
        .collect();
    let mut plans: Vec<u32> = places.into_iter().map(|ids| lowering.plan(ids)).collect();
    let rest = plans.pop().unwrap_or(ANYTHING);
    let (min, max) = (cap(min), max.map_or(u32::MAX, cap));
    if plans.is_empty() && rest == ANYTHING && min == 0 && max == u32::MAX {
        return Ok(ANYTHING);
    }
    lowering.program.arrays.push(ArrayPlan { prefix: plans.into(), rest, min, max });
    Ok((lowering.program.arrays.len() - 1) as u32)
}

/// Counts beyond this are never reached: there are limits for values.
fn cap(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What one schema says of the element at `index`; `length` stands for all from there on.
fn element(lowering: &Lowering<'_>, id: Id, rules: &ArrayRules, index: usize, length: usize) -> Vec<Id> {
    let mut ids: Vec<Id> = rules.prefix.get(index).copied().or(rules.items).into_iter().collect();
    if let Some(unevaluated) = rules.unevaluated {
        // The schema itself still applies with everything that it is made of.
        let is_seen = match lowering.closure(&[id], Types::ARRAY) {
            Closure::Members(parts) => parts.iter().any(|&part| {
                let rules = lowering.schema(part).array.as_deref();
                rules.is_some_and(|rules| {
                    rules.items.is_some()
                        || (index < rules.prefix.len() && index < length)
                        || (part != id && rules.unevaluated.is_some())
                })
            }),
            _ => false,
        };
        if !is_seen {
            ids.push(unevaluated);
        }
    }
    ids
}

// --- objects ---

/// The rules of every schema that says something of objects, and patterns in one list.
struct Objects<'a> {
    rules: Vec<(Id, &'a ObjectRules)>,
    patterns: Vec<Pattern>,
    /// What they say of each member by its name.
    named: HashMap<&'a str, Vec<Id>>,
    /// Those that say something of members which they do not name, with the number of their first pattern.
    of_others: Vec<(Id, &'a ObjectRules, usize)>,
}

impl<'a> Objects<'a> {
    fn of(lowering: &'a Lowering<'_>, members: &[Id]) -> Objects<'a> {
        let rules: Vec<_> =
            members.iter().filter_map(|&id| Some((id, lowering.schema(id).object.as_deref()?))).collect();
        let (mut patterns, mut of_others) = (Vec::new(), Vec::new());
        let mut named: HashMap<&str, Vec<Id>> = HashMap::new();
        for &(id, rules) in &rules {
            if !rules.patterns.is_empty() || rules.has_policy() {
                of_others.push((id, rules, patterns.len()));
            }
            patterns.extend(rules.patterns.iter().map(|(pattern, _)| pattern.clone()));
            for (name, child) in &rules.properties {
                named.entry(name).or_default().push(*child);
            }
        }
        Objects { rules, patterns, named, of_others }
    }
}

fn object(lowering: &mut Lowering<'_>, members: &[Id]) -> Result<u32, Reason> {
    let Some(draft) = draft(lowering, members) else { return Ok(RECORD) };
    let Draft { names, required, children, unknown, patterns, key_names, min, max } = draft;
    if min > max {
        return Err(Reason::MinProperties);
    }
    let children: Vec<u32> = children.into_iter().map(|ids| lowering.plan(ids)).collect();
    let unknown: Vec<u32> = unknown.into_iter().map(|ids| lowering.plan(ids)).collect();
    let key_names = if key_names.is_empty() { ACCEPT } else { lowering.plan(key_names) };
    if names.is_empty() && unknown == [ANYTHING] && key_names == ACCEPT && min == 0 && max == u32::MAX {
        return Ok(ANYTHING);
    }
    let first_slot = lowering.program.slots.len() as u32;
    for (number, (name, child)) in names.iter().zip(&children).enumerate() {
        lowering.program.slots.push(Slot::new(name, number, *child));
    }
    let mut required_bits = vec![0u64; names.len().div_ceil(64)];
    for (number, _) in names.iter().enumerate().filter(|(_, name)| required.contains(*name)) {
        required_bits[number / 64] |= 1 << (number % 64);
    }
    lowering.program.objects.push(ObjectPlan {
        keys: KeyTable::new(names),
        first_slot,
        required: required_bits.into(),
        patterns: patterns.into(),
        unknown: unknown.into(),
        names: key_names,
        min,
        max,
    });
    Ok((lowering.program.objects.len() - 1) as u32)
}

/// What an object block is made from, schemas still by number.
struct Draft {
    names: Vec<Box<str>>,
    required: BTreeSet<Box<str>>,
    children: Vec<Vec<Id>>,
    unknown: Vec<Vec<Id>>,
    patterns: Vec<Pattern>,
    key_names: Vec<Id>,
    min: u32,
    max: u32,
}

/// `None`: it has to be recorded.
fn draft(lowering: &Lowering<'_>, members: &[Id]) -> Option<Draft> {
    let objects = Objects::of(lowering, members);
    let each = || objects.rules.iter().map(|(_, rules)| *rules);
    let is_conditional =
        each().any(|rules| !rules.dependent_required.is_empty() || !rules.dependent_schemas.is_empty());
    if is_conditional || objects.patterns.len() > MAX_PATTERNS {
        return None;
    }
    let required: BTreeSet<Box<str>> = each().flat_map(|rules| rules.required.iter().cloned()).collect();
    let first = |name: &str| objects.named.get(name).and_then(|children| children.iter().min().copied());
    let names: BTreeSet<&str> = objects.named.keys().copied().chain(required.iter().map(|name| &**name)).collect();
    let mut names: Vec<Box<str>> = names.into_iter().map(Box::from).collect();
    names.sort_by_cached_key(|name| (first(name), name.clone()));
    let looks = objects.rules.len() + names.len() * (1 + objects.of_others.len());
    if names.len() > MAX_NAMES || !lowering.may_look(looks) {
        return None;
    }
    let is_closed = lowering.program.reject_unknown
        && each().any(ObjectRules::names_members)
        && !each().any(ObjectRules::has_policy);
    let children = names.iter().map(|name| {
        let is_match = |index: usize| objects.patterns[index].is_match(name.as_bytes());
        member(lowering, &objects, Some(name), &is_match, is_closed)
    });
    let children = children.collect();
    let unknown = (0..1usize << objects.patterns.len())
        .map(|set| member(lowering, &objects, None, &|index| set >> index & 1 == 1, is_closed))
        .collect();
    let key_names = each().filter_map(|rules| rules.names).collect();
    let min = each().map(|rules| cap(rules.min_properties)).max().unwrap_or(0);
    let max = each().filter_map(|rules| rules.max_properties).map(cap).min().unwrap_or(u32::MAX);
    Some(Draft { names, required, children, unknown, patterns: objects.patterns, key_names, min, max })
}

/// What the schemas say of a member: of a known one by its name, of others by the patterns it matches.
fn member(
    lowering: &Lowering<'_>,
    objects: &Objects<'_>,
    name: Option<&str>,
    is_match: &dyn Fn(usize) -> bool,
    is_closed: bool,
) -> Vec<Id> {
    let named = name.and_then(|name| objects.named.get(name));
    let mut ids: Vec<Id> = named.cloned().unwrap_or_default();
    let mut is_known = named.is_some();
    for (id, rules, first_pattern) in &objects.of_others {
        let by_pattern = (rules.patterns.iter().enumerate())
            .filter(|(index, _)| is_match(first_pattern + index))
            .map(|(_, (_, child))| *child);
        let before = ids.len();
        ids.extend(by_pattern);
        let is_by_pattern = ids.len() > before;
        is_known |= is_by_pattern;
        if !is_by_pattern && !name.is_some_and(|name| rules.properties.contains_key(name)) {
            ids.extend(rules.additional);
        }
        if let Some(unevaluated) = rules.unevaluated
            && !is_seen(lowering, *id, objects, name, is_match)
        {
            ids.push(unevaluated);
        }
    }
    if is_closed && !is_known {
        ids.push(UNKNOWN_FIELD);
    }
    ids.retain(|&id| id != TRUE);
    ids
}

/// Whether a schema with `unevaluatedProperties` has looked at the member otherwise: itself or in what it is made of.
fn is_seen(
    lowering: &Lowering<'_>,
    id: Id,
    objects: &Objects<'_>,
    name: Option<&str>,
    is_match: &dyn Fn(usize) -> bool,
) -> bool {
    let Closure::Members(parts) = lowering.closure(&[id], Types::OBJECT) else { return false };
    let parts: HashSet<Id> = parts.into_iter().collect();
    let mut first_pattern = 0;
    for (part, rules) in &objects.rules {
        let patterns = first_pattern..first_pattern + rules.patterns.len();
        first_pattern = patterns.end;
        let is_seen = rules.additional.is_some()
            || (part != &id && rules.unevaluated.is_some())
            || name.is_some_and(|name| rules.properties.contains_key(name))
            || patterns.into_iter().any(is_match);
        if parts.contains(part) && is_seen {
            return true;
        }
    }
    false
}
