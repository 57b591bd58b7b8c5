//! From an order to specificity: cells, of which the first that a path fits counts, as paths of routes, of which the most specific counts.
//!
//! Ours looks at whole literal segments first, from the deepest on, at each of them at expressions before parameters and catch-alls, and of two expressions
//! at the narrower one. Where a cell would be looked at before an earlier one that it shares paths with, it becomes an expression that leaves those paths
//! out (`except`). Whether paths are shared is asked of the automata that serve.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use config::{Comparison, Expression, MAX_EXCEPTIONS, MAX_EXPRESSION_BYTES, Relation, TooMuchWork};
use wire::http::target::canonical_path;

use super::expressions::literal;
use super::native::{Map, Value};

/// Pairs of states that the plan of one site may look at.
const MAX_WORK: usize = 40_000_000;
/// Most cells of a site, where there are expressions among them.
const MAX_CELLS: usize = 500;

/// The paths of a cell. Texts are canonical paths, or the starts of such.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(dead_code, reason = "not every importer has all of them")]
pub(crate) enum Language {
    /// This one.
    Exact(String),
    /// Those that begin with this text, which may end within a segment.
    Prefix(String),
    /// This one, and those below it. No slash at the end.
    Below(String),
    /// Those that an expression matches and none of the others does.
    Expression { text: String, except: Vec<String> },
}

/// A path of a route.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    /// As it stands in a file.
    pub(crate) path: Value,
    /// How what follows the text of the cell is written in a template.
    pub(crate) rest: String,
}

/// Why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unplanned {
    /// The paths of this cell, by its position, cannot be said.
    Cell(usize),
    /// It would take too much work.
    TooMuch,
}

impl From<TooMuchWork> for Unplanned {
    fn from(_: TooMuchWork) -> Unplanned {
        Unplanned::TooMuch
    }
}

/// The canonical form of a path as it is meant, decoded. None if no request has it.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    let mut out = Vec::new();
    match canonical_path(encoded.as_bytes(), &mut out) {
        Ok(false) => String::from_utf8(out).ok(),
        Ok(true) | Err(_) => None,
    }
}

/// The same of the start of a path, which may end within a segment.
pub(crate) fn canonical_start(text: &str) -> Option<String> {
    match text.ends_with('/') {
        true => canonical(text),
        false => canonical(&format!("{text}x"))?.strip_suffix('x').map(str::to_owned),
    }
}

impl Language {
    /// The expression for its paths, without those that it leaves out; `rest` names the group of what follows its text.
    fn expression(&self, rest: bool) -> String {
        let group = |inner: &str| if rest { format!("(?<rest>{inner})") } else { inner.to_owned() };
        match self {
            Language::Exact(path) => literal(path),
            Language::Prefix(start) => format!("{}{}", literal(start), group(".*")),
            Language::Below(path) => format!("{}{}", literal(path), group("(?:/.*)?")),
            Language::Expression { text, .. } => text.clone(),
        }
    }

    fn exceptions(&self) -> &[String] {
        match self {
            Language::Expression { except, .. } => except,
            _ => &[],
        }
    }

    /// What it is made of, where that is text alone.
    fn parts(&self) -> Option<Vec<Part>> {
        match self {
            Language::Exact(path) => Some(vec![Part { text: path.clone(), is_start: false }]),
            Language::Prefix(start) => Some(vec![Part { text: start.clone(), is_start: true }]),
            Language::Below(path) => Some(vec![
                Part { text: path.clone(), is_start: false },
                Part { text: format!("{path}/"), is_start: true },
            ]),
            Language::Expression { .. } => None,
        }
    }

    /// The paths that a tree of segments has for it, and how what follows its text is written in each. None if a tree has none.
    fn tree(&self) -> Option<Vec<(String, &'static str)>> {
        let is_taken = |segment: &str| {
            segment.starts_with([':', '*']) || [".*", ".+", "(."].iter().any(|piece| segment.contains(piece))
        };
        let paths = match self {
            Language::Exact(path) => vec![(path.clone(), "")],
            Language::Below(path) => vec![(path.clone(), ""), (format!("{path}/{{*rest}}"), "/{rest}")],
            Language::Prefix(start) if start.ends_with('/') => vec![(format!("{start}{{*rest}}"), "{rest}")],
            Language::Prefix(start) => {
                let mut paths = Vec::new();
                if canonical(start).is_some() {
                    paths.extend([(start.clone(), ""), (format!("{start}/{{*rest}}"), "/{rest}")]);
                }
                paths.extend([
                    (format!("{start}{{more}}"), "{more}"),
                    (format!("{start}{{more}}/{{*rest}}"), "{more}/{rest}"),
                ]);
                paths
            }
            Language::Expression { .. } => return None,
        };
        let text = self.parts()?.swap_remove(0).text;
        (!text.split('/').any(is_taken)).then_some(paths)
    }
}

/// One path, or all that begin so.
#[derive(Debug, Clone)]
struct Part {
    text: String,
    is_start: bool,
}

impl Part {
    fn covers(&self, other: &Part) -> bool {
        match self.is_start {
            true => other.text.starts_with(&self.text),
            false => !other.is_start && other.text == self.text,
        }
    }

    fn meets(&self, other: &Part) -> bool {
        self.covers(other) || other.covers(self)
    }
}

/// When ours looks at something, beside others that match the same path: smaller goes first.
type Rank = (Reverse<usize>, u8, Reverse<usize>);

/// Of an exact path: before everything.
const FIRST: Rank = (Reverse(usize::MAX), 0, Reverse(0));

/// A part of a cell that is looked at by itself.
struct Entry {
    rank: Rank,
    /// Text, or the expression of the cell.
    part: Option<Part>,
    expression: Expression,
}

struct Cell<'l> {
    language: &'l Language,
    /// Its paths.
    whole: Expression,
    is_expression: bool,
    /// Earlier cells, by position, whose paths it leaves out.
    except: BTreeSet<usize>,
    entries: Vec<Entry>,
    is_reached: bool,
}

impl<'l> Cell<'l> {
    fn of(language: &'l Language, at: usize) -> Result<Cell<'l>, Unplanned> {
        let compiled = |text: &str| Expression::new(text).map_err(|_| Unplanned::Cell(at));
        let except: Result<Vec<Expression>, Unplanned> =
            language.exceptions().iter().map(|text| compiled(text)).collect();
        let whole = compiled(&language.expression(false))?.except(&except?);
        let is_expression = language.tree().is_none();
        let mut cell =
            Cell { language, whole, is_expression, except: BTreeSet::new(), entries: Vec::new(), is_reached: true };
        cell.entries = cell.made_entries(at)?;
        Ok(cell)
    }

    fn made_entries(&self, at: usize) -> Result<Vec<Entry>, Unplanned> {
        if self.is_expression {
            let start = String::from_utf8_lossy(self.whole.literal_start()).into_owned();
            // Whole segments: what stands before the last slash.
            let depth = start.matches('/').count().saturating_sub(1);
            let rank = (Reverse(depth), 0, Reverse(0));
            return Ok(vec![Entry { rank, part: None, expression: self.whole.clone() }]);
        }
        let entry = |rank: Rank, text: &str, is_start: bool| -> Result<Entry, Unplanned> {
            let part = Part { text: text.to_owned(), is_start };
            let expression = format!("{}{}", literal(text), if is_start { ".*" } else { "" });
            let expression = Expression::new(&expression).map_err(|_| Unplanned::Cell(at))?;
            Ok(Entry { rank, part: Some(part), expression })
        };
        // Segments before the last slash.
        let depth = |text: &str| text.matches('/').count().saturating_sub(1);
        let rest = |start: &str| (Reverse(depth(start)), 2, Reverse(0));
        match self.language {
            Language::Exact(path) => Ok(vec![entry(FIRST, path, false)?]),
            Language::Below(path) => {
                let below = format!("{path}/");
                Ok(vec![entry(FIRST, path, false)?, entry(rest(&below), &below, true)?])
            }
            Language::Prefix(start) if start.ends_with('/') => Ok(vec![entry(rest(start), start, true)?]),
            Language::Prefix(start) => {
                let below = format!("{start}/");
                let length = start.rsplit('/').next().unwrap_or_default().len();
                Ok(vec![
                    entry(FIRST, start, false)?,
                    entry(rest(&below), &below, true)?,
                    entry((Reverse(depth(start)), 1, Reverse(length)), start, true)?,
                ])
            }
            Language::Expression { .. } => Ok(Vec::new()),
        }
    }
}

/// The paths of routes for cells in their order; none for a cell that no path reaches. `wants_rest`: what follows the text of a cell is put somewhere.
///
/// # Errors
/// There are none.
pub(crate) fn plan(cells: &[(Language, bool)]) -> Result<Vec<Vec<Pattern>>, Unplanned> {
    let languages: Vec<&Language> = cells.iter().map(|(language, _)| language).collect();
    if languages.len() > MAX_CELLS && languages.iter().any(|language| language.tree().is_none()) {
        return Err(Unplanned::TooMuch);
    }
    let mut plan =
        Plan { cells: Vec::with_capacity(cells.len()), work: Comparison { work: MAX_WORK, ..Comparison::of_paths() } };
    for (at, language) in languages.iter().enumerate() {
        plan.cells.push(Cell::of(language, at)?);
    }
    plan.drop_unreached()?;
    while plan.arrange()? {}
    (0..cells.len()).map(|at| plan.patterns(at, cells.get(at).is_some_and(|(_, wants_rest)| *wants_rest))).collect()
}

struct Plan<'l> {
    cells: Vec<Cell<'l>>,
    work: Comparison,
}

impl Plan<'_> {
    /// Cells whose paths belong to one before them.
    fn drop_unreached(&mut self) -> Result<(), Unplanned> {
        for at in 0..self.cells.len() {
            for before in 0..at {
                let (Some(cell), Some(other)) = (self.cells.get(at), self.cells.get(before)) else { continue };
                let is_covered = match (cell.language.parts(), other.language.parts()) {
                    (Some(parts), Some(others)) => {
                        parts.iter().all(|part| others.iter().any(|other| other.covers(part)))
                    }
                    _ if !other.language.exceptions().is_empty() => false,
                    _ => {
                        let left = cell.whole.clone().except(std::slice::from_ref(&other.whole));
                        Expression::shared(&[&left], &mut self.work)?.is_none()
                    }
                };
                if is_covered && let Some(cell) = self.cells.get_mut(at) {
                    cell.is_reached = false;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Has each cell leave out what an earlier one would lose to it; whether there was such a one.
    fn arrange(&mut self) -> Result<bool, Unplanned> {
        let mut is_changed = false;
        for at in 0..self.cells.len() {
            for before in 0..at {
                let (Some(cell), Some(other)) = (self.cells.get(at), self.cells.get(before)) else { continue };
                let counts = cell.is_reached && other.is_reached && !cell.except.contains(&before);
                if !counts || self.goes_first(before, at)? {
                    continue;
                }
                if !self.can_leave_out(before, at)? {
                    return Err(Unplanned::Cell(before));
                }
                is_changed = true;
                if let Some(cell) = self.cells.get_mut(at) {
                    cell.except.insert(before);
                    if !cell.is_expression {
                        cell.is_expression = true;
                        cell.entries = cell.made_entries(at)?;
                    }
                }
            }
        }
        Ok(is_changed)
    }

    /// Whether ours looks at an earlier cell first wherever both match.
    fn goes_first(&mut self, before: usize, at: usize) -> Result<bool, Unplanned> {
        let (Some(other), Some(cell)) = (self.cells.get(before), self.cells.get(at)) else { return Ok(true) };
        for first in &other.entries {
            for second in &cell.entries {
                if first.rank < second.rank {
                    continue;
                }
                let meets = match (&first.part, &second.part) {
                    (Some(first), Some(second)) => first.meets(second),
                    _ => Expression::shared(&[&first.expression, &second.expression], &mut self.work)?.is_some(),
                };
                if !meets {
                    continue;
                }
                // Of two expressions in one place the narrower one goes first.
                let is_equal = first.rank == second.rank && first.part.is_none() && second.part.is_none();
                if !is_equal {
                    return Ok(false);
                }
                let (ours, theirs) = (self.left(before)?, self.left(at)?);
                return match ours.relation(&theirs, &mut self.work) {
                    Relation::Apart | Relation::Within => Ok(true),
                    Relation::Around | Relation::Overlapping(_) => Ok(false),
                    Relation::Unknown => Err(Unplanned::TooMuch),
                };
            }
        }
        Ok(true)
    }

    /// What is left of a cell.
    fn left(&self, at: usize) -> Result<Expression, Unplanned> {
        let Some(cell) = self.cells.get(at) else { return Err(Unplanned::Cell(at)) };
        let plain = |other: &usize| {
            let language = self.cells.get(*other).map(|other| other.language.expression(false)).unwrap_or_default();
            Expression::new(&language).map_err(|_| Unplanned::Cell(*other))
        };
        let except: Result<Vec<Expression>, Unplanned> = cell.except.iter().map(plain).collect();
        Ok(cell.whole.clone().except(&except?))
    }

    /// Whether a cell may leave out all that the expression of an earlier one matches: what that leaves out itself must belong to others that go first.
    fn can_leave_out(&mut self, before: usize, at: usize) -> Result<bool, Unplanned> {
        let (Some(other), Some(cell)) = (self.cells.get(before), self.cells.get(at)) else { return Ok(false) };
        if other.language.exceptions().is_empty() {
            return Ok(true);
        }
        let compiled = |text: &str| Expression::new(text).map_err(|_| Unplanned::Cell(before));
        let plain = compiled(&other.language.expression(false))?;
        // What is the cell's own: no simple one before it has it.
        let simple = self.cells.iter().take(at).filter(|earlier| earlier.language.exceptions().is_empty());
        let simple: Vec<Expression> = simple.map(|earlier| earlier.whole.clone()).take(MAX_EXCEPTIONS).collect();
        let own = cell.whole.clone().except(&simple);
        for text in other.language.exceptions() {
            if Expression::shared(&[&own, &plain, &compiled(text)?], &mut self.work)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn patterns(&mut self, at: usize, wants_rest: bool) -> Result<Vec<Pattern>, Unplanned> {
        let left = self.left(at)?;
        let Some(cell) = self.cells.get(at).filter(|cell| cell.is_reached) else { return Ok(Vec::new()) };
        if !cell.is_expression {
            let paths = cell.language.tree().unwrap_or_default().into_iter();
            return Ok(paths.map(|(path, rest)| Pattern { path: path.into(), rest: rest.to_owned() }).collect());
        }
        if Expression::shared(&[&left], &mut self.work)?.is_none() {
            return Ok(Vec::new());
        }
        let others = cell.except.iter().filter_map(|other| self.cells.get(*other));
        let others = others.map(|other| other.language.expression(false));
        let mut except: Vec<String> = Vec::new();
        for text in cell.language.exceptions().iter().cloned().chain(others) {
            if !except.contains(&text) {
                except.push(text);
            }
        }
        let mut path = Map::of([("regex", Value::text(cell.language.expression(wants_rest)))]);
        if !except.is_empty() {
            path.set("except", Value::texts(fitting(except).ok_or(Unplanned::Cell(at))?));
        }
        let has_rest = wants_rest && cell.language.parts().is_some_and(|parts| parts.iter().any(|part| part.is_start));
        let rest = if has_rest { "{rest}".to_owned() } else { String::new() };
        Ok(vec![Pattern { path: path.into(), rest }])
    }
}

/// Exceptions, so few that they may stand beside an expression.
fn fitting(mut except: Vec<String>) -> Option<Vec<String>> {
    while except.len() > MAX_EXCEPTIONS {
        let (one, other) = (except.pop()?, except.pop()?);
        let joined = format!("(?:{other})|(?:{one})");
        if joined.len() > MAX_EXPRESSION_BYTES {
            return None;
        }
        except.insert(0, joined);
    }
    Some(except)
}

#[cfg(test)]
mod tests;
