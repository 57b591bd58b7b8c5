//! From a parsed alternative to something that runs: lookaround at the edges split off, the rest to the automata library; where lookaround is elsewhere,
//! all of it to `lookaround`. Rejects what cannot be run in linear time.

use regex_syntax::hir::{Class, Hir, Look, Repetition};

use super::Branch;
use super::automaton::Automaton;
use super::lookaround::Lookaround;
use super::parse::Part;
use super::sequence::Sequence;

/// The most copies of a part that nested repetitions may ask for.
const MAX_COPIES: u64 = 100_000;

/// One alternative at the top of the pattern.
pub(super) fn branch(part: Part) -> Result<Branch, String> {
    let mut parts = Vec::new();
    flatten(part.clone(), &mut parts);
    let (mut also, mut never) = (Vec::new(), Vec::new());
    take_ahead(&mut parts, &mut also, &mut never)?;
    take_behind(&mut parts, &mut also, &mut never)?;
    take_tail(&mut parts);
    let main = Part::Sequence(parts);
    if also.iter().chain(&never).chain([&main]).any(has_lookaround) {
        return Lookaround::new(&part).map(Branch::Lookaround);
    }
    if also.is_empty()
        && never.is_empty()
        && let Some(sequence) = Sequence::new(&main)
    {
        return Ok(Branch::Sequence(sequence));
    }
    let automata = |parts: Vec<Part>| parts.iter().map(automaton).collect::<Result<Vec<_>, _>>();
    Ok(Branch::Automaton { main: automaton(&main)?, also: automata(also)?, never: automata(never)? })
}

fn has_lookaround(part: &Part) -> bool {
    match part {
        Part::Look { .. } => true,
        Part::Repeat { part, .. } => has_lookaround(part),
        Part::Sequence(parts) | Part::Either(parts) => parts.iter().any(has_lookaround),
        Part::One(_) | Part::Start | Part::End | Part::WordBoundary { .. } | Part::BackReference(_) => false,
    }
}

fn flatten(part: Part, out: &mut Vec<Part>) {
    match part {
        Part::Sequence(parts) => parts.into_iter().for_each(|part| flatten(part, out)),
        other => out.push(other),
    }
}

/// `^(?=X)(?!Y)Z` is `^Z` and `^X` and not `^Y`: all three begin at the same place.
fn take_ahead(parts: &mut Vec<Part>, also: &mut Vec<Part>, never: &mut Vec<Part>) -> Result<(), String> {
    while let [Part::Start, Part::Look { is_ahead: true, .. }, ..] = parts.as_slice() {
        if let Part::Look { is_negated, part, .. } = parts.remove(1) {
            let anchored = Part::Sequence(vec![Part::Start, *part]);
            if is_negated { never.push(anchored) } else { also.push(anchored) }
        }
    }
    Ok(())
}

/// `Z(?<=X)(?<!Y)$` is `Z$` and `X$` and not `Y$`: all three end at the same place.
fn take_behind(parts: &mut Vec<Part>, also: &mut Vec<Part>, never: &mut Vec<Part>) -> Result<(), String> {
    while let [.., Part::Look { is_ahead: false, .. }, Part::End] = parts.as_slice() {
        let place = parts.len() - 2;
        if let Part::Look { is_negated, part, .. } = parts.remove(place) {
            let anchored = Part::Sequence(vec![*part, Part::End]);
            if is_negated { never.push(anchored) } else { also.push(anchored) }
        }
    }
    Ok(())
}

/// `Z(?=X)` at the end matches where `ZX` does.
fn take_tail(parts: &mut [Part]) {
    if let Some(last) = parts.last_mut()
        && let Part::Look { is_ahead: true, is_negated: false, part } = last
    {
        *last = std::mem::replace(part, Part::Start);
    }
}

fn automaton(part: &Part) -> Result<Automaton, String> {
    Automaton::new(&hir(part, 1)?)
}

/// `copies`: how many times the part will stand in the automaton.
fn hir(part: &Part, copies: u64) -> Result<Hir, String> {
    Ok(match part {
        Part::One(set) => Hir::class(Class::Unicode(set.clone())),
        Part::Start => Hir::look(Look::Start),
        Part::End => Hir::look(Look::End),
        Part::WordBoundary { is_negated: false } => Hir::look(Look::WordAscii),
        Part::WordBoundary { is_negated: true } => Hir::look(Look::WordAsciiNegate),
        Part::Repeat { part, min, max } => {
            let copies = copies.saturating_mul(u64::from(max.unwrap_or(*min).max(1)));
            if copies > MAX_COPIES {
                return Err(format!("its repetitions multiply to more than {MAX_COPIES}"));
            }
            let sub = Box::new(hir(part, copies)?);
            Hir::repetition(Repetition { min: *min, max: *max, greedy: true, sub })
        }
        Part::Sequence(parts) => Hir::concat(parts.iter().map(|part| hir(part, copies)).collect::<Result<_, _>>()?),
        Part::Either(parts) => Hir::alternation(parts.iter().map(|part| hir(part, copies)).collect::<Result<_, _>>()?),
        Part::BackReference(place) => {
            return Err(format!("a reference to what was matched before, at character {}: not linear", place + 1));
        }
        Part::Look { .. } => {
            return Err("lookaround where no automaton has it".to_owned());
        }
    })
}
