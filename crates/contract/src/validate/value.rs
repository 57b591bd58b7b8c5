//! One decoded value before its schema.

use super::findings::{Enough, Findings, MAX_VIOLATIONS, Violation, Where};
use super::scratch::Rooms;
use crate::contract::Contract;
use crate::escape::brackets_of;
use crate::openapi::{Coding, Parameter, Style};
use crate::options::EscapedDelimiters;
use crate::parameter::{Attempt, Decoder, Escapes, Pairs, Rejected, decode_deep_object};
use crate::reason;
use crate::schema::{Check, SchemaId, Wanted};
use crate::turn::{BYTES_PER_STEP, Turn, at_once};

use super::code;

/// What is wrong with a value.
pub(super) enum Fault {
    Rejected(Rejected),
    Schema(reason::Violation),
}

/// The most steps that the values of one head may take together, since nothing else has its turn meanwhile.
pub(super) const STEPS_PER_HEAD: u64 = 300_000;

/// Validates JSON text at once. `from_text`: it was made from text by a style, so integers are what parsers of integers read.
fn validate_at_once(
    contract: &Contract,
    schema: SchemaId,
    from_text: bool,
    rooms: &mut Rooms,
) -> Result<(), reason::Violation> {
    let Rooms { json, run, steps, .. } = rooms;
    let check = contract.program.check(schema, run).with_most_steps(*steps);
    let mut check = if from_text { check.with_plain_integers() } else { check };
    let fed = check.feed(json);
    *steps = steps.saturating_sub(check.steps_taken());
    fed?;
    check.finish()
}

/// Validates text in turns, while so much memory is held beside.
pub(crate) async fn in_turns(
    mut check: Check<'_>,
    text: &[u8],
    beside: usize,
    turn: &Turn,
) -> Result<(), reason::Violation> {
    for piece in text.chunks(PIECE_BYTES) {
        let mut rest = piece;
        while !rest.is_empty() || check.is_pending() {
            let before = check.steps_taken();
            let taken = check.feed_some(rest)?;
            let steps = usize::try_from(check.steps_taken() - before).unwrap_or(usize::MAX);
            turn.hold(beside + text.len() + check.bytes_held());
            turn.spend(steps.saturating_add(taken / BYTES_PER_STEP)).await;
            rest = rest.get(taken..).unwrap_or_default();
        }
    }
    check.finish()
}

/// Bytes that are validated between two looks at the turn.
const PIECE_BYTES: usize = 32 * 1024;

/// Everything that is wrong with a text, first what the validator has found: a log then says what a rejection would. Only that if the text was not kept. Of
/// the text: whether a style made it.
pub(super) async fn everything(
    program: &crate::schema::Program,
    schema: SchemaId,
    text: Option<(&[u8], bool)>,
    first: reason::Violation,
    wanted: Wanted<'_>,
) -> Vec<reason::Violation> {
    let found = match text {
        Some((text, from_text)) => program.everything_wrong_with(schema, text, wanted, from_text).await,
        None => Vec::new(),
    };
    // A text that is no JSON has no places; that no more could be found out is nothing that is wrong.
    let is_other = |found: &reason::Violation| {
        *found != first
            && found.reason != reason::Reason::Budget
            && !(found.reason == first.reason && found.reason.code().starts_with("json_"))
    };
    let others: Vec<reason::Violation> = found.into_iter().filter(is_other).collect();
    std::iter::once(first).chain(others).take(wanted.count).collect()
}

/// Said of what is valid as sent, but not for servers that separate at escaped delimiters.
pub(super) const SPLIT: &str = " once escaped delimiters separate (`escaped_delimiters`)";

/// Said of what is not valid as sent, and may be meant otherwise.
const DATA: &str = "; an escaped delimiter is part of its element (`escaped_delimiters`)";

/// A value that was read in one way.
struct Read {
    /// What is wrong with it.
    faults: Vec<Fault>,
    /// It holds an escaped delimiter.
    has_escaped: bool,
    /// How many elements it has, if it is an array.
    elements: usize,
}

impl Read {
    /// Whether nothing is wrong but the elements, and with every one of them what their text is: then no server takes these pieces for elements, since
    /// none of them is one (`lat,lon` as one element, under a pattern).
    fn is_of_pieces(&self) -> bool {
        use reason::Reason as R;
        let index = |fault: &Fault| match fault {
            Fault::Schema(reason::Violation {
                reason: R::Pattern | R::Format | R::Enum | R::Const | R::MinLength,
                pointer,
                ..
            }) => pointer.strip_prefix('/')?.parse::<usize>().ok(),
            _ => None,
        };
        let wrong: Option<std::collections::BTreeSet<usize>> = self.faults.iter().map(index).collect();
        wrong.is_some_and(|wrong| !wrong.is_empty() && wrong.len() == self.elements)
    }
}

/// A parameter whose value is there, and how it is escaped.
pub(super) struct Present<'p> {
    pub(super) parameter: &'p Parameter,
    pub(super) pairs: &'p Pairs,
    pub(super) escapes: Escapes,
}

impl Present<'_> {
    /// Validates the value: the first reading that satisfies the schema counts, and if none does, the first one's fault.
    pub(super) fn validate(
        &self,
        contract: &Contract,
        rooms: &mut Rooms,
        findings: &mut Findings,
    ) -> Result<(), Enough> {
        let mode = contract.options.escaped_delimiters;
        let Read { mut faults, has_escaped, .. } =
            self.reading(contract, rooms, findings.collects(), mode == EscapedDelimiters::Split);
        let is_split = faults.is_empty() && has_escaped && mode == EscapedDelimiters::Both;
        if is_split {
            let read = self.reading(contract, rooms, true, true);
            faults = if read.is_of_pieces() { Vec::new() } else { read.faults };
            if !findings.collects() {
                faults.truncate(1);
            }
        }
        let note = match is_split {
            true => SPLIT,
            false if has_escaped && mode != EscapedDelimiters::Split => DATA,
            false => "",
        };
        faults.into_iter().try_for_each(|fault| {
            let mut violation = violation(fault, self.place());
            violation.what.push_str(note);
            findings.add(violation)
        })
    }

    /// Reads the value in one way.
    fn reading(&self, contract: &Contract, rooms: &mut Rooms, collects: bool, splits_escaped: bool) -> Read {
        let mut first: Vec<Fault> = Vec::new();
        let (mut has_escaped, mut elements) = (false, 0);
        let from_text = !matches!(self.parameter.coding, Coding::Json);
        for attempt in Attempt::ALL {
            rooms.json.clear();
            let mut decoder = Decoder {
                shapes: &contract.shapes,
                escapes: self.escapes,
                attempt,
                max_elements: contract.options.limits.array_elements,
                max_bytes: contract.program.longest_escaped(),
                text: &mut rooms.text,
                json: &mut rooms.json,
                has_choice: false,
                splits_escaped,
                has_escaped: false,
                elements: 0,
            };
            let decoded = self.decode(contract, &mut decoder);
            let has_choice = decoder.has_choice;
            has_escaped |= decoder.has_escaped;
            let read = decoder.elements;
            let fault = match decoded {
                Ok(()) => match validate_at_once(contract, self.parameter.schema, from_text, rooms) {
                    Ok(()) => return Read { faults: Vec::new(), has_escaped, elements: read },
                    Err(violation) => Fault::Schema(violation),
                },
                Err(rejected) => Fault::Rejected(rejected),
            };
            if first.is_empty() {
                elements = read;
                first = match fault {
                    Fault::Schema(violation) if collects => {
                        let (program, schema) = (&contract.program, self.parameter.schema);
                        // What is said of one value leaves most for the decisions on the others.
                        let most_steps = rooms.steps / 8;
                        rooms.steps -= most_steps;
                        let text = Some((rooms.json.as_slice(), from_text));
                        let found = at_once(async |turn| {
                            let wanted = Wanted { count: MAX_VIOLATIONS, most_steps, turn };
                            everything(program, schema, text, violation, wanted).await
                        });
                        found.into_iter().map(Fault::Schema).collect()
                    }
                    fault => vec![fault],
                };
            }
            if !has_choice {
                break;
            }
        }
        Read { faults: first, has_escaped, elements }
    }

    fn place(&self) -> Where {
        Where::named(self.parameter.part, self.parameter.name.as_bytes())
    }

    fn decode(&self, contract: &Contract, decoder: &mut Decoder<'_>) -> Result<(), Rejected> {
        let name = self.parameter.name.as_bytes();
        match &self.parameter.coding {
            Coding::Style { style: Style::DeepObject, shape, .. } => {
                decode_deep_object(decoder, self.pairs, name, *shape, contract.options.limits.deep_object_levels)
            }
            Coding::Style { shape, .. } if is_spread(contract, self.parameter) => {
                let shape = contract.shapes.get(*shape);
                decoder.properties(self.pairs, shape, |at| belongs(contract, self.parameter, self.pairs, at))
            }
            Coding::Style { style, explode, shape } => decoder.named(self.pairs, name, *shape, *style, *explode),
            Coding::Json | Coding::Text { .. } if self.pairs.count(name) > 1 => Err(Rejected::Repeated),
            Coding::Json => decoder.verbatim(self.pairs.values(name).next().unwrap_or_default()),
            Coding::Text { types } => decoder.scalar(self.pairs.values(name).next().unwrap_or_default(), *types),
        }
    }
}

/// Whether the properties of a parameter are names of their own: `form` with `explode` and nothing but objects.
pub(super) fn is_spread(contract: &Contract, parameter: &Parameter) -> bool {
    let Coding::Style { style: Style::Form | Style::SpaceDelimited | Style::PipeDelimited, explode: true, shape } =
        parameter.coding
    else {
        return false;
    };
    contract.shapes.get(shape).types.is_object()
}

/// Whether the pair at a place is part of a parameter.
pub(super) fn belongs(contract: &Contract, parameter: &Parameter, pairs: &Pairs, at: usize) -> bool {
    let (have, _) = pairs.get(at);
    let name = parameter.name.as_bytes();
    match &parameter.coding {
        Coding::Style { style: Style::DeepObject, .. } => brackets_of(have, name).is_some(),
        Coding::Style { shape, .. } if is_spread(contract, parameter) => {
            let shape = contract.shapes.get(*shape);
            let is_listed = shape.properties.iter().any(|(property, _)| property.as_bytes() == have);
            is_listed || (shape.is_open && !pairs.is_used(at))
        }
        _ => have == name,
    }
}

/// The violation that a fault is.
pub(super) fn violation(fault: Fault, place: Where) -> Violation {
    match fault {
        Fault::Rejected(Rejected::Malformed(what)) => Violation::new(code::PARAMETER_MALFORMED, place, what),
        Fault::Rejected(Rejected::Repeated) => {
            Violation::new(code::PARAMETER_REPEATED, place, "is there more than once")
        }
        Fault::Rejected(Rejected::Empty) => Violation::new(code::PARAMETER_EMPTY, place, "is empty"),
        Fault::Rejected(Rejected::Limit(what)) => Violation::new(code::PARAMETER_LIMIT, place, what),
        Fault::Schema(violation) => of_schema(violation, place),
    }
}

/// A violation of a schema at a place.
pub(super) fn of_schema(violation: reason::Violation, place: Where) -> Violation {
    let what = violation.expected.map_or_else(|| violation.reason.words().to_owned(), String::from);
    Violation::new(violation.reason.code(), place.at(&violation.pointer), what)
}
