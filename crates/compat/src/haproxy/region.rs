//! Sets of paths in which the tests of conditions all come out alike: exact ones, starts, and expressions that cut through them where somebody asks.

use std::collections::BTreeMap;

use config::{Comparison, Expression, Relation};

use super::acl::Truth;
use crate::cells::Language;
use crate::expressions::literal;

/// Pairs of states that the comparisons of one import may look at.
const MAX_WORK: usize = 100_000_000;

/// How expressions and sets of paths meet, each found out once.
#[derive(Debug)]
pub(crate) struct Meetings {
    work: Comparison,
    found: BTreeMap<(String, String), Truth>,
    inside: BTreeMap<(String, String), Option<String>>,
}

impl Default for Meetings {
    fn default() -> Meetings {
        let work = Comparison { work: MAX_WORK, ..Comparison::of_paths() };
        Meetings { work, found: BTreeMap::new(), inside: BTreeMap::new() }
    }
}

/// Paths of one cell.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    /// One path, or all that begin so; those of longer starts are others'.
    base: Language,
    /// Those that this expression matches, which is all that is said of them.
    inside: Option<String>,
    /// Those that these match.
    included: Vec<String>,
    /// Those that these do not match.
    excluded: Vec<String>,
    /// Those that these match are others'.
    others: Vec<String>,
}

impl Region {
    /// The paths of a plain language.
    pub(crate) fn of(base: Language) -> Region {
        Region { base, inside: None, included: Vec::new(), excluded: Vec::new(), others: Vec::new() }
    }

    /// All regions of plain languages, the narrow ones first, and the last of which has what is left.
    pub(crate) fn all<'l>(languages: impl Iterator<Item = &'l Language>) -> Vec<Region> {
        let mut exact: Vec<&String> = Vec::new();
        let mut starts: Vec<&String> = Vec::new();
        for language in languages {
            match language {
                Language::Exact(path) => exact.push(path),
                Language::Prefix(start) if start != "/" => starts.push(start),
                _ => {}
            }
        }
        exact.sort();
        exact.dedup();
        starts.sort_by_key(|start| (std::cmp::Reverse(start.len()), start.as_str()));
        starts.dedup();
        let exact = exact.into_iter().map(|path| Language::Exact(path.clone()));
        let starts = starts.into_iter().map(|start| Language::Prefix(start.clone()));
        exact.chain(starts).chain([Language::Prefix("/".to_owned())]).map(Region::of).collect()
    }

    /// One path, or the start of all.
    pub(crate) fn base(&self) -> &Language {
        &self.base
    }

    /// Whether it is all of its base.
    pub(crate) fn is_whole(&self) -> bool {
        self.inside.is_none() && self.included.is_empty() && self.excluded.is_empty()
    }

    /// The parts that an expression cuts it into, in the order in which their languages must stand.
    pub(crate) fn cut(&self, by: &str, meetings: &mut Meetings) -> [Region; 2] {
        let (mut with, mut without) = (self.clone(), self.clone());
        with.included.push(by.to_owned());
        if let Some(inside) = self.meeting(by, meetings) {
            with.inside = Some(inside);
            without.others.push(by.to_owned());
            return [with, without];
        }
        without.excluded.push(by.to_owned());
        [without, with]
    }

    /// The expression for those of its paths that an expression matches, if that can be said without exceptions.
    fn meeting(&self, by: &str, meetings: &mut Meetings) -> Option<String> {
        let Language::Prefix(start) = &self.base else { return None };
        if self.inside.is_some() || !self.excluded.is_empty() {
            return None;
        }
        if start == "/" {
            return Some(by.to_owned());
        }
        let key = (start.clone(), by.to_owned());
        if let Some(known) = meetings.inside.get(&key) {
            return known.clone();
        }
        let inside = match by.strip_prefix("(?i)") {
            Some(by) => format!("{}(?i:{by})", literal(start)),
            None => format!("{}(?:{by})", literal(start)),
        };
        let is_all = self.says_all(&inside, by, &mut meetings.work) == Some(true);
        let found = is_all.then_some(inside);
        meetings.inside.insert(key, found.clone());
        found
    }

    /// Whether an expression matches all paths of it that another one does.
    fn says_all(&self, inside: &str, by: &str, work: &mut Comparison) -> Option<bool> {
        let (own, by) = (Expression::new(&self.text()).ok()?, Expression::new(by).ok()?);
        let outside = own.except(&[Expression::new(inside).ok()?]);
        Some(matches!(Expression::shared(&[&outside, &by], work), Ok(None)))
    }

    /// As a cell says it. What parts before it have is not said.
    pub(crate) fn language(&self) -> Language {
        if self.is_whole() {
            return self.base.clone();
        }
        Language::Expression { text: self.text(), except: self.excluded.clone() }
    }

    fn text(&self) -> String {
        match (&self.inside, &self.base) {
            (Some(text), _) => text.clone(),
            (None, Language::Exact(path)) => literal(path),
            (None, Language::Prefix(start)) => format!("{}.*", literal(start)),
            (None, other) => format!("{other:?}"),
        }
    }

    /// Whether its paths are in a language.
    pub(crate) fn holds(&self, language: &Language, meetings: &mut Meetings) -> Truth {
        let known = |is_in: bool| if is_in { Truth::Yes } else { Truth::No };
        match (language, &self.base) {
            (Language::Exact(path), Language::Exact(own)) => known(path == own),
            (Language::Exact(_), _) => Truth::No,
            (Language::Prefix(start), Language::Exact(own) | Language::Prefix(own)) => {
                known(own.starts_with(start.as_str()))
            }
            (Language::Expression { text, .. }, Language::Exact(own)) => match Expression::new(text) {
                Ok(expression) => known(expression.matches(own.as_bytes())),
                Err(_) => Truth::Unknown("its expression is too large".to_owned()),
            },
            (Language::Expression { text, .. }, _) => self.meets(text, meetings),
            _ => Truth::Unknown("paths that cannot be compared".to_owned()),
        }
    }

    fn meets(&self, text: &String, meetings: &mut Meetings) -> Truth {
        if self.included.contains(text) {
            return Truth::Yes;
        }
        if self.excluded.contains(text) || self.others.contains(text) {
            return Truth::No;
        }
        let key = (self.text(), text.clone());
        if let Some(known) = meetings.found.get(&key) {
            return known.clone();
        }
        let found = met(&key.0, text, &mut meetings.work);
        meetings.found.insert(key, found.clone());
        found
    }
}

/// Whether the paths that one expression matches are matched by another one.
fn met(own: &str, text: &str, work: &mut Comparison) -> Truth {
    let (Ok(own), Ok(other)) = (Expression::new(own), Expression::new(text)) else {
        return Truth::Unknown("its expression is too large".to_owned());
    };
    // Two expressions for the same paths overlap, and neither leaves the other any.
    let outside = own.clone().except(std::slice::from_ref(&other));
    if matches!(Expression::shared(&[&outside], work), Ok(None)) {
        return Truth::Yes;
    }
    match own.relation(&other, work) {
        Relation::Apart => Truth::No,
        Relation::Within => Truth::Yes,
        Relation::Around | Relation::Overlapping(_) => Truth::Path(text.to_owned()),
        Relation::Unknown => Truth::Unknown("its expressions are too many to compare".to_owned()),
    }
}
