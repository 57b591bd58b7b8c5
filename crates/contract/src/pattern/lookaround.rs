//! Patterns with lookaround anywhere, in time linear in the text: what each lookaround says is worked out for every place of the text at once, in one pass,
//! and is then a fact like "here the text ends". Inner ones first; lookahead from the end to the start, everything else from the start.
//!
//! All ways through the pattern are followed side by side, one character after the other, so none is gone back to. Each state that is visited is
//! charged. No reference to what was matched before; that would need going back.

use std::collections::HashMap;

use regex_syntax::hir::ClassUnicode;

use super::parse::Part;

/// Most states of one pattern, its lookaround included: copies that repetitions ask for.
const MAX_STATES: usize = 20_000;

/// Most passes over a text.
const MAX_LOOKS: usize = 64;

/// States that are visited in the time of one step.
const VISITS_PER_STEP: u64 = 4;

/// The most steps that matching one text may take, since nothing else has its turn meanwhile.
const MAX_STEPS: u64 = 400_000;

/// A pattern with lookaround.
pub(super) struct Lookaround {
    sets: Vec<Set>,
    /// Inner ones before those that they are part of.
    looks: Vec<Look>,
    states: Vec<State>,
    start: u32,
}

struct Look {
    start: u32,
    is_ahead: bool,
}

/// Characters: those of ASCII by bit, the others by ascending ranges.
struct Set {
    ascii: [u64; 2],
    beyond: Vec<(char, char)>,
}

/// A place in the pattern.
enum State {
    Match,
    /// One character of a set.
    One(u32, u32),
    /// Either of two.
    Split(u32, u32),
    /// Only where this holds.
    If(Check, u32),
}

#[derive(Clone, Copy)]
enum Check {
    Start,
    End,
    WordBoundary { is_negated: bool },
    Look { number: usize, is_negated: bool },
}

/// What one lookaround says of each place, by byte.
type Holds = Vec<u64>;

impl Lookaround {
    /// # Errors
    /// It refers to what was matched before, or is too large.
    pub fn new(part: &Part) -> Result<Self, String> {
        let mut compiler =
            Compiler { sets: Vec::new(), looks: Vec::new(), known: HashMap::new(), states: vec![State::Match] };
        let start = compiler.part(part, 0, false)?;
        let Compiler { sets, looks, states, .. } = compiler;
        Ok(Self { sets, looks, states, start })
    }

    /// Whether it matches anywhere in the text; none if that takes more than `steps`, from which it takes what it costs.
    pub fn is_match(&self, text: &[u8], steps: &mut u64) -> Option<bool> {
        let text = std::str::from_utf8(text).ok()?;
        let most = (*steps).min(MAX_STEPS);
        let mut left = most;
        let found = self.search(text, &mut left);
        *steps -= most - left;
        found
    }

    fn search(&self, text: &str, steps: &mut u64) -> Option<bool> {
        let mut holds: Vec<Holds> = Vec::with_capacity(self.looks.len());
        for look in &self.looks {
            let mut found = vec![0u64; text.len() / 64 + 1];
            let mut pass = Pass::new(self, text, &holds);
            pass.run(look.start, look.is_ahead, steps, |at| {
                found[at / 64] |= 1 << (at % 64);
                false
            })?;
            holds.push(found);
        }
        Pass::new(self, text, &holds).run(self.start, false, steps, |_| true)
    }
}

/// One way over a text with all states that it may be in.
struct Pass<'p> {
    pattern: &'p Lookaround,
    text: &'p str,
    holds: &'p [Holds],
    /// Where each state was visited last, counted from 1.
    seen: Vec<u64>,
    open: Vec<u32>,
    visits: u64,
}

impl<'p> Pass<'p> {
    fn new(pattern: &'p Lookaround, text: &'p str, holds: &'p [Holds]) -> Self {
        Self { pattern, text, holds, seen: vec![0; pattern.states.len()], open: Vec::new(), visits: 0 }
    }

    /// Begins anew at every place; reports each at which there is a match, until that wants no more. Says whether it did.
    fn run(
        &mut self,
        start: u32,
        is_backward: bool,
        steps: &mut u64,
        mut report: impl FnMut(usize) -> bool,
    ) -> Option<bool> {
        let (mut now, mut next) = (Vec::new(), Vec::new());
        let mut at = if is_backward { self.text.len() } else { 0 };
        let mut turn = 1;
        let mut is_match = false;
        loop {
            is_match |= self.reach(start, at, turn, &mut now);
            if is_match && report(at) {
                return Some(true);
            }
            *steps = steps.checked_sub(self.visits / VISITS_PER_STEP)?;
            self.visits %= VISITS_PER_STEP;
            let c = if is_backward { self.text[..at].chars().next_back() } else { self.text[at..].chars().next() };
            let Some(c) = c else { return Some(false) };
            at = if is_backward { at - c.len_utf8() } else { at + c.len_utf8() };
            turn += 1;
            is_match = false;
            for state in now.drain(..) {
                if let State::One(set, behind) = self.pattern.states[state as usize]
                    && self.pattern.sets[set as usize].has(c)
                {
                    is_match |= self.reach(behind, at, turn, &mut next);
                }
            }
            std::mem::swap(&mut now, &mut next);
        }
    }

    /// Adds the states that wait for a character once this one is reached here; says whether the end is among them.
    fn reach(&mut self, state: u32, at: usize, turn: u64, waiting: &mut Vec<u32>) -> bool {
        let mut is_match = false;
        self.open.push(state);
        while let Some(state) = self.open.pop() {
            self.visits += 1;
            if std::mem::replace(&mut self.seen[state as usize], turn) == turn {
                continue;
            }
            match self.pattern.states[state as usize] {
                State::Match => is_match = true,
                State::One(..) => waiting.push(state),
                State::Split(one, other) => self.open.extend([other, one]),
                State::If(check, behind) if self.holds(check, at) => self.open.push(behind),
                State::If(..) => {}
            }
        }
        is_match
    }

    fn holds(&self, check: Check, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        let is_word = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at)).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        match check {
            Check::Start => at == 0,
            Check::End => at == bytes.len(),
            Check::WordBoundary { is_negated } => (is_word(at.checked_sub(1)) != is_word(Some(at))) != is_negated,
            Check::Look { number, is_negated } => {
                let word = self.holds.get(number).and_then(|holds| holds.get(at / 64)).copied().unwrap_or(0);
                (word >> (at % 64) & 1 == 1) != is_negated
            }
        }
    }
}

impl Set {
    fn new(class: &ClassUnicode) -> Self {
        let mut set = Self { ascii: [0; 2], beyond: Vec::new() };
        for range in class.ranges() {
            let (low, high) = (u32::from(range.start()), u32::from(range.end()));
            for c in low..=high.min(127) {
                set.ascii[c as usize / 64] |= 1 << (c % 64);
            }
            if high > 127 {
                set.beyond.push((range.start(), range.end()));
            }
        }
        set
    }

    fn has(&self, c: char) -> bool {
        if c.is_ascii() {
            let code = c as usize;
            return self.ascii[code / 64] >> (code % 64) & 1 == 1;
        }
        let index = self.beyond.partition_point(|&(_, high)| high < c);
        self.beyond.get(index).is_some_and(|&(low, _)| low <= c)
    }
}

struct Compiler {
    sets: Vec<Set>,
    looks: Vec<Look>,
    /// Sets and lookaround that are compiled already, by the address of their part: copies of a part share them.
    known: HashMap<*const Part, usize>,
    states: Vec<State>,
}

impl Compiler {
    fn push(&mut self, state: State) -> Result<u32, String> {
        if self.states.len() == MAX_STATES {
            return Err(format!("it has lookaround and more than {MAX_STATES} states; ask for fewer repetitions"));
        }
        self.states.push(state);
        Ok((self.states.len() - 1) as u32)
    }

    /// The state at which a part begins that is followed by `next`; read from its end to its start if so wanted.
    fn part(&mut self, part: &Part, next: u32, is_backward: bool) -> Result<u32, String> {
        match part {
            Part::One(class) => {
                let set = match self.known.get(&std::ptr::from_ref(part)) {
                    Some(&known) => known,
                    None => {
                        self.sets.push(Set::new(class));
                        self.known.insert(part, self.sets.len() - 1);
                        self.sets.len() - 1
                    }
                };
                self.push(State::One(set as u32, next))
            }
            Part::Start => self.push(State::If(Check::Start, next)),
            Part::End => self.push(State::If(Check::End, next)),
            Part::WordBoundary { is_negated } => {
                self.push(State::If(Check::WordBoundary { is_negated: *is_negated }, next))
            }
            Part::Sequence(parts) => {
                let step = |next: Result<u32, String>, part: &Part| self.part(part, next?, is_backward);
                match is_backward {
                    true => parts.iter().fold(Ok(next), step),
                    false => parts.iter().rev().fold(Ok(next), step),
                }
            }
            Part::Either(parts) => {
                let mut starts =
                    parts.iter().map(|part| self.part(part, next, is_backward)).collect::<Result<Vec<_>, _>>()?;
                let last = starts.pop().unwrap_or(next);
                starts.into_iter().rev().try_fold(last, |other, start| self.push(State::Split(start, other)))
            }
            Part::Repeat { part, min, max } => self.repeat(part, *min, *max, next, is_backward),
            Part::Look { is_ahead, is_negated, part: inner } => {
                let number = match self.known.get(&std::ptr::from_ref(part)) {
                    Some(&known) => known,
                    None => self.look(part, inner, *is_ahead)?,
                };
                self.push(State::If(Check::Look { number, is_negated: *is_negated }, next))
            }
            Part::BackReference(place) => {
                Err(format!("a reference to what was matched before, at character {}: not linear", place + 1))
            }
        }
    }

    fn look(&mut self, part: &Part, inner: &Part, is_ahead: bool) -> Result<usize, String> {
        // Ahead of a place is what ends there when it is read backwards.
        let start = self.part(inner, 0, is_ahead)?;
        if self.looks.len() == MAX_LOOKS {
            return Err(format!("it has more than {MAX_LOOKS} lookarounds"));
        }
        self.looks.push(Look { start, is_ahead });
        self.known.insert(part, self.looks.len() - 1);
        Ok(self.looks.len() - 1)
    }

    fn repeat(&mut self, part: &Part, min: u32, max: Option<u32>, next: u32, is_backward: bool) -> Result<u32, String> {
        let mut at = next;
        match max {
            None => {
                at = self.push(State::Split(next, next))?;
                let inner = self.part(part, at, is_backward)?;
                self.states[at as usize] = State::Split(inner, next);
            }
            Some(max) => {
                for _ in min..max {
                    let inner = self.part(part, at, is_backward)?;
                    at = self.push(State::Split(inner, next))?;
                }
            }
        }
        for _ in 0..min {
            at = self.part(part, at, is_backward)?;
        }
        Ok(at)
    }
}
