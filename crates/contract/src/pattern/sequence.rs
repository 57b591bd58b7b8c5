//! Patterns that are one run of characters after another, as a loop over the text: `^[a-z]{0,64}$`, `^\d{4}-\d{2}$`, `^https://`.
//!
//! Taking as many characters as each part allows is exact when no character could belong to the next part as well; other patterns are rejected here.

use regex_syntax::hir::ClassUnicode;

use super::parse::Part;

/// Parts to match from the start of the text.
pub(super) struct Sequence {
    runs: Vec<Run>,
    /// Whether the text must end with the last run.
    is_whole: bool,
}

/// Between `min` and `max` characters of a set.
struct Run {
    /// For each byte, whether it is an ASCII character of the set.
    ascii: Box<[bool; 256]>,
    /// The ranges beyond ASCII, ascending.
    beyond: Vec<(u32, u32)>,
    min: u32,
    max: u32,
}

impl Sequence {
    /// `None` if the pattern has another shape.
    pub fn new(pattern: &Part) -> Option<Self> {
        let mut parts = Vec::new();
        flatten(pattern, &mut parts);
        let is_whole = matches!(parts.last(), Some(Part::End));
        let last = parts.len() - usize::from(is_whole);
        if !matches!(parts.first(), Some(Part::Start)) || last == 0 {
            return None;
        }
        let runs: Vec<(&ClassUnicode, u32, u32)> =
            parts[1..last].iter().map(|part| run(part)).collect::<Option<_>>()?;
        let is_exact = (0..runs.len()).all(|index| is_greedy_exact(&runs[index], &runs[index + 1..]));
        let runs = runs.into_iter().map(|(set, min, max)| Run::new(set, min, max)).collect();
        is_exact.then_some(Self { runs, is_whole })
    }

    pub fn is_match(&self, text: &[u8]) -> bool {
        if let ([run], true) = (self.runs.as_slice(), self.is_whole)
            && run.beyond.is_empty()
        {
            return run.min as usize <= text.len() && text.len() <= run.max as usize && run.are_all_ascii(text);
        }
        let mut rest = text;
        for run in &self.runs {
            let Some(behind) = run.take(rest) else { return false };
            rest = behind;
        }
        !self.is_whole || rest.is_empty()
    }
}

fn flatten<'a>(part: &'a Part, out: &mut Vec<&'a Part>) {
    match part {
        Part::Sequence(parts) => parts.iter().for_each(|part| flatten(part, out)),
        other => out.push(other),
    }
}

fn run(part: &Part) -> Option<(&ClassUnicode, u32, u32)> {
    match part {
        Part::One(set) => Some((set, 1, 1)),
        Part::Repeat { part, min, max } => match single(part)? {
            Part::One(set) => Some((set, *min, max.unwrap_or(u32::MAX))),
            _ => None,
        },
        _ => None,
    }
}

/// The only part of a group, however often wrapped.
fn single(part: &Part) -> Option<&Part> {
    match part {
        Part::Sequence(parts) => match parts.as_slice() {
            [only] => single(only),
            _ => None,
        },
        other => Some(other),
    }
}

/// Whether what follows a run of open length never begins with a character that the run would take.
fn is_greedy_exact(run: &(&ClassUnicode, u32, u32), behind: &[(&ClassUnicode, u32, u32)]) -> bool {
    let (set, min, max) = run;
    if min == max {
        return true;
    }
    for (next, next_min, _) in behind {
        let mut both = (*set).clone();
        both.intersect(next);
        if !both.ranges().is_empty() {
            return false;
        }
        if *next_min > 0 {
            break;
        }
    }
    true
}

impl Run {
    fn new(set: &ClassUnicode, min: u32, max: u32) -> Self {
        let mut run = Self { ascii: Box::new([false; 256]), beyond: Vec::new(), min, max };
        for range in set.ranges() {
            let (low, high) = (u32::from(range.start()), u32::from(range.end()));
            for c in low..=high.min(127) {
                run.ascii[c as usize] = true;
            }
            if high >= 128 {
                run.beyond.push((low.max(128), high));
            }
        }
        run
    }

    /// What is left of the text behind the run; `None` if it is too short.
    #[inline]
    fn take<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let max = self.max as usize;
        if self.min == self.max && self.beyond.is_empty() {
            let (run, rest) = text.split_at_checked(max)?;
            return self.are_all_ascii(run).then_some(rest);
        }
        let ascii = text.iter().take(max).position(|&byte| !self.ascii[usize::from(byte)]);
        let count = ascii.unwrap_or(text.len().min(max));
        let is_end = count == max || self.beyond.is_empty() || text.get(count).is_none_or(u8::is_ascii);
        if is_end {
            return (count >= self.min as usize).then(|| &text[count..]);
        }
        self.take_beyond(text)
    }

    /// Without a way out at the first wrong byte, which is what makes it quick.
    fn are_all_ascii(&self, text: &[u8]) -> bool {
        text.iter().fold(true, |all, &byte| all & self.ascii[usize::from(byte)])
    }

    #[cold]
    fn take_beyond<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = text;
        let mut count = 0;
        while count < self.max {
            let Some(length) = self.first(rest) else { break };
            rest = &rest[length..];
            count += 1;
        }
        (count >= self.min).then_some(rest)
    }

    /// The length of the first character, if it is in the set.
    #[inline]
    fn first(&self, text: &[u8]) -> Option<usize> {
        let &byte = text.first()?;
        if byte < 128 {
            return self.ascii[usize::from(byte)].then_some(1);
        }
        if self.beyond.is_empty() { None } else { self.first_beyond(text) }
    }

    #[cold]
    fn first_beyond(&self, text: &[u8]) -> Option<usize> {
        let length = match text[0] {
            0xf0.. => 4,
            0xe0.. => 3,
            _ => 2,
        };
        let c = std::str::from_utf8(text.get(..length)?).ok()?.chars().next()?;
        let code = u32::from(c);
        let index = self.beyond.partition_point(|&(_, high)| high < code);
        self.beyond.get(index).is_some_and(|&(low, _)| low <= code).then_some(length)
    }
}
