//! What a value should have been, and what it is, in words for people: built only when something is wrong. Decides nothing.

use super::constant::Constant;
use super::ir::Schema;
use super::program::{ACCEPT, Program, RECORD, REJECT, kind};
use super::types::Types;
use crate::reason::Reason;

/// Allowed values that are listed, and characters of them.
const MAX_VALUES: usize = 12;
const MAX_CHARS: usize = 240;

/// Schemas that are looked through for what one of them expects.
const MAX_SCHEMAS: usize = 100;

/// The kinds in words, in the order of a plan's blocks.
const KINDS: [(Types, &str); kind::COUNT] = [
    (Types::NULL, "null"),
    (Types::BOOLEAN, "a boolean"),
    (Types::INTEGER, "an integer"),
    (Types::FRACTION, "a number"),
    (Types::STRING, "a string"),
    (Types::ARRAY, "an array"),
    (Types::OBJECT, "an object"),
];

/// What a plan expects where a value of this kind broke it.
pub(super) fn of_plan(program: &Program, plan: u32, index: usize, reason: Reason) -> Option<String> {
    let plan = program.plans.get(plan as usize)?;
    match reason {
        Reason::Type | Reason::AnyOf | Reason::OneOf => {
            let is_allowed = |at: &usize| plan.blocks[*at] != REJECT;
            let types = (0..kind::COUNT).filter(is_allowed).fold(Types::NONE, |all, at| all.with(KINDS[at].0));
            let found = KINDS[index].0;
            // Of a kind that alternatives allow, something else is wrong; and where two allow integers, it helps nobody that fractions pass.
            let is_allowed = types.has(found) || (found == Types::INTEGER && types.has(Types::FRACTION));
            (reason == Reason::Type || !is_allowed).then(|| must_be(types, found)).flatten()
        }
        Reason::Enum | Reason::Const => {
            let strings = program.strings.get(plan.blocks[kind::STRING] as usize).and_then(|plan| plan.values.as_ref());
            let texts = strings.iter().flat_map(|(names, _)| (0..names.len()).map(|at| quoted(names.name(at))));
            let numbers = [kind::INTEGER, kind::FRACTION].map(|at| program.numbers.get(plan.blocks[at] as usize));
            let numbers = numbers.into_iter().flatten().flat_map(|plan| &plan.values).flat_map(|(values, _)| values);
            let set = plan.blocks[kind::BOOLEAN];
            let booleans = [(1, "false"), (2, "true")].into_iter().filter(|(bit, _)| set < RECORD && set & bit != 0);
            let null = (plan.blocks[kind::NULL] == ACCEPT).then(|| "null".to_owned());
            let all = texts.chain(numbers.map(|text| text.to_string()));
            one_of(all.chain(booleans.map(|(_, word)| word.to_owned())).chain(null))
        }
        _ => {
            // What a plan is made of stands behind references.
            let (mut ids, mut alternatives) = (plan.ids.to_vec(), Vec::new());
            let mut at = 0;
            while at < ids.len().min(MAX_SCHEMAS) {
                let schema = program.schemas.get(ids[at] as usize)?;
                if let Some(words) = of_schema(schema, None, reason) {
                    return Some(words);
                }
                ids.extend(&schema.all_of);
                alternatives.extend(schema.any_of.iter().chain(&schema.one_of));
                at += 1;
            }
            of_alternatives(program, alternatives, reason)
        }
    }
}

/// What an array or object expects that holds too little or too much.
pub(super) fn of_container(program: &Program, is_object: bool, block: u32, reason: Reason) -> Option<String> {
    let (min, max) = match is_object {
        true => program.objects.get(block as usize).map(|plan| (plan.min, plan.max))?,
        false => program.arrays.get(block as usize).map(|plan| (plan.min, plan.max))?,
    };
    holds(reason, u64::from(min), Some(u64::from(max)))
}

/// What alternatives expect, where all but those were dropped that a kind of value leaves.
fn of_alternatives(program: &Program, mut ids: Vec<u32>, reason: Reason) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    let mut at = 0;
    while at < ids.len().min(MAX_SCHEMAS) {
        let schema = program.schemas.get(ids[at] as usize)?;
        match of_schema(schema, None, reason) {
            Some(own) if words.contains(&own) => {}
            Some(own) => words.push(own),
            None => ids.extend(schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of)),
        }
        at += 1;
    }
    (!words.is_empty()).then(|| short(words.join(" or ")))
}

/// What alternatives expect of which none allows a value of these types.
pub(super) fn of_kinds(program: &Program, schema: &Schema, found: Types, reason: Reason) -> Option<String> {
    let branches = match reason {
        Reason::AnyOf => &schema.any_of,
        Reason::OneOf => &schema.one_of,
        _ => return None,
    };
    let types = branches.iter().take(MAX_SCHEMAS).fold(Types::NONE, |all, id| all.with(kinds_of(program, *id)));
    (branches.len() <= MAX_SCHEMAS && !types.has(found)).then(|| must_be(types, found)).flatten()
}

/// The kinds that a schema allows with those that it refers to.
fn kinds_of(program: &Program, id: u32) -> Types {
    let (mut ids, mut types) = (vec![id], Types::ALL);
    let mut at = 0;
    while at < ids.len().min(MAX_SCHEMAS) {
        if let Some(schema) = program.schemas.get(ids[at] as usize) {
            types = types.within(schema.types);
            ids.extend(&schema.all_of);
        }
        at += 1;
    }
    types
}

/// What a schema expects that a value of these types broke.
pub(super) fn of_schema(schema: &Schema, found: Option<Types>, reason: Reason) -> Option<String> {
    let number = schema.number.as_deref();
    let string = schema.string.as_deref();
    let bound = |bounds: &[super::ir::Bound], inclusive: &str, exclusive: &str| {
        let words: Vec<String> = bounds
            .iter()
            .map(|bound| format!("{} {}", if bound.is_exclusive { exclusive } else { inclusive }, bound.text))
            .collect();
        (!words.is_empty()).then(|| format!("must be {}", words.join(" and ")))
    };
    match reason {
        Reason::Type => must_be(schema.types, found?),
        Reason::Enum if schema.values.is_empty() => one_of(schema.tags.as_deref()?.texts().map(quoted)),
        Reason::Enum | Reason::Const => {
            let (values, _) = schema.values.iter().find(|(_, known)| *known == reason)?;
            one_of(values.iter().map(shown))
        }
        Reason::Minimum => bound(&number?.lower, "at least", "greater than"),
        Reason::Maximum => bound(&number?.upper, "at most", "less than"),
        Reason::MinLength => Some(format!("must have at least {} characters", string?.min_length)),
        Reason::MaxLength => Some(format!("must have at most {} characters", string?.max_length?)),
        Reason::Pattern => {
            let patterns: Vec<&str> = string?.patterns.iter().map(|pattern| pattern.text()).collect();
            (!patterns.is_empty()).then(|| short(format!("must match the pattern {}", patterns.join(" and "))))
        }
        Reason::Format => {
            let formats: Vec<&str> = string?.formats.iter().map(|format| format.name()).collect();
            (!formats.is_empty()).then(|| format!("must have the format {}", formats.join(" and ")))
        }
        Reason::MultipleOf => {
            let divisors: Vec<String> = number?.multiples.iter().map(ToString::to_string).collect();
            (!divisors.is_empty()).then(|| format!("must be a multiple of {}", divisors.join(" and ")))
        }
        Reason::MinItems | Reason::MaxItems => {
            let rules = schema.array.as_deref()?;
            holds(reason, rules.min_items, rules.max_items)
        }
        Reason::MinProperties | Reason::MaxProperties => {
            let rules = schema.object.as_deref()?;
            holds(reason, rules.min_properties, rules.max_properties)
        }
        _ => None,
    }
}

/// How much a container holds by its bounds.
fn holds(reason: Reason, min: u64, max: Option<u64>) -> Option<String> {
    match reason {
        Reason::MinItems => Some(format!("must have at least {min} elements")),
        Reason::MaxItems => Some(format!("must have at most {} elements", max?)),
        Reason::MinProperties => Some(format!("must have at least {min} members")),
        Reason::MaxProperties => Some(format!("must have at most {} members", max?)),
        _ => None,
    }
}

fn must_be(types: Types, found: Types) -> Option<String> {
    let words: Vec<&str> = KINDS
        .iter()
        // A number may be an integer, too.
        .filter(|(kind, _)| types.has(*kind) && !(*kind == Types::INTEGER && types.has(Types::FRACTION)))
        .map(|(_, word)| *word)
        .collect();
    let (last, others) = words.split_last()?;
    let found = KINDS.iter().find(|(kind, _)| *kind == found).map_or("something else", |(_, word)| word);
    let expected = if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) };
    Some(format!("must be {expected}, is {found}"))
}

/// Looks at no more values than it lists: a rejection must not cost what the document is large. None is there more than a few times.
fn one_of(values: impl Iterator<Item = String>) -> Option<String> {
    let mut known: Vec<String> = Vec::new();
    for value in values {
        if known.len() > MAX_VALUES {
            break;
        }
        if !known.contains(&value) {
            known.push(value);
        }
    }
    match known.as_slice() {
        [] => None,
        [only] => Some(short(format!("must be {only}"))),
        _ => {
            let more = if known.len() > MAX_VALUES { ", ..." } else { "" };
            known.truncate(MAX_VALUES);
            Some(short(format!("must be one of {}{more}", known.join(", "))))
        }
    }
}

fn shown(value: &Constant) -> String {
    match value {
        Constant::Null => "null".into(),
        Constant::Boolean(value) => value.to_string(),
        Constant::Number(text) => text.to_string(),
        Constant::String(text) => quoted(text),
        Constant::Array(_) => "a certain array".into(),
        Constant::Object(_) => "a certain object".into(),
    }
}

fn quoted(text: &str) -> String {
    let mut json = Vec::new();
    crate::json::push_string(text.as_bytes(), &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

fn short(text: String) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
