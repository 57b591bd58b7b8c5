//! Regular expressions of a configuration: they match the whole of a text, byte by byte, in time linear in its length, whatever it is.
//!
//! Each is a deterministic automaton that is made at load within fixed bounds, so no request can make one grow or go back. Two can be compared: whether
//! they have a text in common, and whether one matches only what the other does; that is how routes with expressions are put into order. The syntax is
//! that of the crate `regex-syntax` over bytes, which has neither back-references nor looking around.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::{NonMaxUsize, StateID};
use regex_automata::{Anchored, Input, MatchKind, meta};
use regex_syntax::hir::{Hir, HirKind, Look};

/// Longest expression, bytes.
pub const MAX_EXPRESSION_BYTES: usize = 1024;
/// Deepest nesting of one.
const MAX_NESTING: u32 = 32;
/// Memory of an automaton; a bounded repetition of a repetition is the usual reason for more.
const MAX_AUTOMATON_BYTES: usize = 512 * 1024;
/// Memory while it is made, which bounds the time for it.
const MAX_WORK_BYTES: usize = 4 * 1024 * 1024;

/// A regular expression, compiled, and others of which it matches nothing.
#[derive(Clone)]
pub struct Expression {
    program: Arc<Program>,
    except: Arc<[Arc<Program>]>,
    /// What it is compared with has its escapes decoded.
    is_decoded: bool,
}

/// Most expressions of which another one matches nothing.
pub const MAX_EXCEPTIONS: usize = 32;

struct Program {
    text: String,
    automaton: dense::DFA<Vec<u32>>,
    /// Finds where groups lie, where there is one.
    finder: Option<meta::Regex>,
    /// The names of the groups; of those without, their numbers from 1.
    groups: Vec<String>,
    /// What every match begins with.
    prefix: Vec<u8>,
}

/// What texts two expressions match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// None in common.
    Apart,
    /// The first matches some of those that the second does, and no other.
    Within,
    /// The second matches some of those that the first does, and no other.
    Around,
    /// Some in common, of which this is one; either both match the same, or each some that the other does not.
    Overlapping(String),
    /// To find out would be too much work.
    Unknown,
}

/// Which texts are compared, and how much work may still be spent on that.
#[derive(Debug)]
pub struct Comparison {
    /// The byte that they begin with.
    pub first: Option<u8>,
    /// Pairs of states that may still be looked at.
    pub work: usize,
    /// Only what a path holds as it is stands in them.
    pub is_encoded: bool,
}

/// A comparison would take more work than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuchWork;

/// Pairs of states that one table of routes may look at.
const MAX_COMPARED: usize = 4_000_000;

impl Comparison {
    /// Of canonical paths.
    pub fn of_paths() -> Comparison {
        Comparison { first: Some(b'/'), work: MAX_COMPARED, is_encoded: true }
    }

    /// Of paths whose escapes are decoded.
    pub fn of_decoded_paths() -> Comparison {
        Comparison { is_encoded: false, ..Comparison::of_paths() }
    }

    /// Of field values and the like.
    pub fn of_values() -> Comparison {
        Comparison { first: None, work: MAX_COMPARED, is_encoded: false }
    }
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it, and the fix.
    pub fn new(text: &str) -> Result<Expression, (String, String)> {
        if text.len() > MAX_EXPRESSION_BYTES {
            return Err((
                format!("the expression has {} bytes", text.len()),
                format!("use at most {MAX_EXPRESSION_BYTES}, or several shorter ones"),
            ));
        }
        let mut parser = regex_syntax::ParserBuilder::new();
        let parsed = parser.utf8(false).unicode(false).nest_limit(MAX_NESTING).build().parse(text);
        let body = parsed.map_err(|error| refused(&error))?;
        let prefix = literal_start(&body);
        let whole = Hir::concat(vec![Hir::look(Look::Start), body, Hir::look(Look::End)]);
        let too_large = |_| {
            let what = format!("the expression needs more than {} KiB", MAX_AUTOMATON_BYTES / 1024);
            (
                what,
                "make it simpler; a repetition with large bounds, or one within another, is the usual reason"
                    .to_owned(),
            )
        };
        let config = thompson::Config::new().nfa_size_limit(Some(MAX_AUTOMATON_BYTES));
        let config = config.utf8(false);
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(&whole).map_err(|_| too_large(()))?;
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(MAX_WORK_BYTES));
        let automaton = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| too_large(()))?;
        let names = nfa.group_info().all_names().skip(1).enumerate();
        let groups = names.map(|(at, (_, _, name))| name.map_or_else(|| (at + 1).to_string(), str::to_owned));
        let groups: Vec<String> = groups.collect();
        let finder = if groups.is_empty() { None } else { Some(finder(&whole).map_err(|()| too_large(()))?) };
        let program = Arc::new(Program { text: text.to_owned(), automaton, finder, groups, prefix });
        Ok(Expression { program, except: Arc::from([]), is_decoded: false })
    }

    /// The same, but for what these match. Exceptions of theirs do not count.
    #[must_use]
    pub fn except(self, others: &[Expression]) -> Expression {
        let further = others.iter().map(|other| Arc::clone(&other.program));
        let except = self.except.iter().cloned().chain(further).collect();
        Expression { except, ..self }
    }

    /// The same, for paths whose escapes are decoded.
    #[must_use]
    pub fn decoded(self) -> Expression {
        Expression { is_decoded: true, ..self }
    }

    /// Whether it is meant for paths whose escapes are decoded.
    pub fn is_decoded(&self) -> bool {
        self.is_decoded
    }

    /// One for all texts that begin so.
    pub fn of_prefix(prefix: &str) -> Option<Expression> {
        Expression::new(&format!("{}(?s:.*)", regex_syntax::escape(prefix))).ok()
    }

    /// As it is written, without its exceptions.
    pub fn text(&self) -> &str {
        &self.program.text
    }

    /// Its exceptions, as they are written.
    pub fn exceptions(&self) -> impl Iterator<Item = &str> {
        self.except.iter().map(|program| program.text.as_str())
    }

    /// What each match begins with.
    pub fn literal_start(&self) -> &[u8] {
        &self.program.prefix
    }

    /// Names of its groups; of one without, its number from 1.
    pub fn groups(&self) -> &[String] {
        &self.program.groups
    }

    /// Whether it matches the whole of a text.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.program.matches(text) && !self.except.iter().any(|program| program.matches(text))
    }

    /// Gives the range of each group in a text that is matched, in order; of a group that took no part, the empty one at its end.
    pub fn find_groups(&self, text: &[u8], mut give: impl FnMut(usize, usize)) {
        let Some(finder) = &self.program.finder else { return };
        let mut slots: [Option<NonMaxUsize>; 2 * (MAX_GROUPS + 1)] = [None; 2 * (MAX_GROUPS + 1)];
        finder.search_slots(&Input::new(text).anchored(Anchored::Yes), &mut slots);
        let ranges = slots.chunks_exact(2).skip(1).take(self.program.groups.len());
        for range in ranges {
            match range {
                [Some(start), Some(end)] => give(start.get(), end.get()),
                _ => give(text.len(), text.len()),
            }
        }
    }

    /// How it stands to another one, over the texts of this comparison.
    pub fn relation(&self, other: &Expression, comparison: &mut Comparison) -> Relation {
        if self == other {
            return self.a_match(comparison).map_or(Relation::Apart, Relation::Overlapping);
        }
        compare(&self.machine(), &other.machine(), comparison)
    }

    /// A text that it matches, if there is one.
    pub fn a_match(&self, comparison: &mut Comparison) -> Option<String> {
        match compare(&self.machine(), &self.machine(), comparison) {
            Relation::Overlapping(text) => Some(text),
            _ => None,
        }
    }

    /// A text that all of them match; none if there is none.
    ///
    /// # Errors
    /// To find out would be too much work.
    pub fn shared(all: &[&Expression], comparison: &mut Comparison) -> Result<Option<String>, TooMuchWork> {
        let machines: Vec<Machine<'_>> = all.iter().map(|expression| expression.machine()).collect();
        shared(&machines, comparison)
    }

    fn machine(&self) -> Machine<'_> {
        let programs = std::iter::once(&self.program).chain(self.except.iter());
        Machine(programs.map(|program| &program.automaton).collect())
    }
}

impl Program {
    fn matches(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes);
        matches!(self.automaton.try_search_fwd(&input), Ok(Some(_)))
    }
}

/// Most groups of an expression: as many as a path may have parameters.
pub const MAX_GROUPS: usize = 16;

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        let is_same_text = self.text() == other.text() && self.is_decoded == other.is_decoded;
        is_same_text && self.exceptions().eq(other.exceptions())
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?}", self.text())?;
        self.exceptions().try_for_each(|text| write!(f, " except {text:?}"))?;
        f.write_str(")")
    }
}

fn finder(whole: &Hir) -> Result<meta::Regex, ()> {
    let config = meta::Config::new()
        .utf8_empty(false)
        .nfa_size_limit(Some(MAX_AUTOMATON_BYTES))
        .onepass_size_limit(Some(MAX_AUTOMATON_BYTES))
        .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
        .hybrid_cache_capacity(MAX_AUTOMATON_BYTES);
    meta::Builder::new().configure(config).build_from_hir(whole).map_err(|_| ())
}

/// What the parser does not take, in one line.
fn refused(error: &regex_syntax::Error) -> (String, String) {
    let (what, at) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), Some(error.span())),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), Some(error.span())),
        _ => (error.to_string().replace('\n', " "), None),
    };
    let at = at.map(|span| format!(", at character {}", span.start.column)).unwrap_or_default();
    let fix = "correct it; expressions are those of the Rust crate `regex`, without looking around and back-references";
    (format!("the expression is not valid: {what}{at}"), fix.to_owned())
}

/// The literal bytes that each match begins with.
fn literal_start(hir: &Hir) -> Vec<u8> {
    let mut start = Vec::new();
    add_literals(hir, &mut start);
    start
}

/// Appends the literal start of a part; whether the part is nothing else.
fn add_literals(hir: &Hir, start: &mut Vec<u8>) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(Look::Start) => true,
        HirKind::Literal(literal) => {
            start.extend_from_slice(&literal.0);
            true
        }
        HirKind::Capture(capture) => add_literals(&capture.sub, start),
        HirKind::Concat(parts) => parts.iter().all(|part| add_literals(part, start)),
        _ => false,
    }
}

/// An automaton, and behind it those of its exceptions.
struct Machine<'e>(Vec<&'e dense::DFA<Vec<u32>>>);

/// Where the automata of two machines are, one after the other.
type Pair = Box<[StateID]>;

impl Machine<'_> {
    fn start(&self, states: &mut Vec<StateID>) -> Option<()> {
        let input = Input::new(b"").anchored(Anchored::Yes);
        self.0.iter().try_for_each(|automaton| {
            states.push(automaton.start_state_forward(&input).ok()?);
            Some(())
        })
    }

    /// Where it goes with a byte. Once nothing more can match, its exceptions do not matter: they stay where they are.
    fn next(&self, states: &[StateID], byte: u8, out: &mut Vec<StateID>) {
        let is_over = self.is_dead(states);
        let next = |(automaton, state): (&&dense::DFA<Vec<u32>>, &StateID)| match is_over {
            true => *state,
            false => automaton.next_state(*state, byte),
        };
        out.extend(self.0.iter().zip(states).map(next));
    }

    fn accepts(&self, states: &[StateID]) -> bool {
        let is_match = |(automaton, state): (&&dense::DFA<Vec<u32>>, &StateID)| {
            automaton.is_match_state(automaton.next_eoi_state(*state))
        };
        let mut matches = self.0.iter().zip(states).map(is_match);
        matches.next() == Some(true) && !matches.any(|excepted| excepted)
    }

    fn is_dead(&self, states: &[StateID]) -> bool {
        self.0.first().zip(states.first()).is_none_or(|(automaton, state)| automaton.is_dead_state(*state))
    }
}

/// Walks both machines over all texts at once.
fn compare(one: &Machine<'_>, other: &Machine<'_>, comparison: &mut Comparison) -> Relation {
    let mut start = Vec::new();
    if one.start(&mut start).and_then(|()| other.start(&mut start)).is_none() {
        return Relation::Unknown;
    }
    let start: Pair = start.into();
    let parts = |pair: &Pair| {
        let (ones, others) = pair.split_at_checked(one.0.len()).unwrap_or_default();
        (ones.to_vec(), others.to_vec())
    };
    let bytes = alphabet(&[&one.0[..], &other.0[..]].concat(), comparison.is_encoded);
    // Where each pair was come from, and by which byte.
    let mut reached: HashMap<Pair, Option<(Pair, u8)>> = HashMap::from([(start.clone(), None)]);
    let mut queue = std::collections::VecDeque::from([start]);
    let (mut common, mut only_one, mut only_other) = (None, false, false);
    while let Some(pair) = queue.pop_front() {
        let (a, b) = parts(&pair);
        match (one.accepts(&a), other.accepts(&b)) {
            (true, true) => _ = common.get_or_insert(pair.clone()),
            (true, false) => only_one = true,
            (false, true) => only_other = true,
            (false, false) => {}
        }
        if common.is_some() && only_one && only_other {
            break;
        }
        let is_first = reached.get(&pair).is_some_and(Option::is_none);
        for byte in
            bytes.iter().copied().filter(|byte| !is_first || comparison.first.is_none_or(|first| first == *byte))
        {
            let mut next = Vec::with_capacity(pair.len());
            one.next(&a, byte, &mut next);
            other.next(&b, byte, &mut next);
            let next: Pair = next.into();
            let (next_a, next_b) = parts(&next);
            if (one.is_dead(&next_a) && other.is_dead(&next_b)) || reached.contains_key(&next) {
                continue;
            }
            // What is kept of a pair grows with the number of automata.
            let Some(left) = comparison.work.checked_sub(pair.len() - 1) else { return Relation::Unknown };
            comparison.work = left;
            reached.insert(next.clone(), Some((pair.clone(), byte)));
            queue.push_back(next);
        }
    }
    match (common, only_one, only_other) {
        (None, ..) => Relation::Apart,
        (Some(_), false, true) => Relation::Within,
        (Some(_), true, false) => Relation::Around,
        (Some(pair), ..) => Relation::Overlapping(way_to(pair, &reached)),
    }
}

/// Walks machines over all texts at once, as long as each of them may still match.
fn shared(machines: &[Machine<'_>], comparison: &mut Comparison) -> Result<Option<String>, TooMuchWork> {
    let mut start = Vec::new();
    machines.iter().try_for_each(|machine| machine.start(&mut start)).ok_or(TooMuchWork)?;
    let start: Pair = start.into();
    let bytes = alphabet(
        &machines.iter().flat_map(|machine| machine.0.iter().copied()).collect::<Vec<_>>(),
        comparison.first.is_some(),
    );
    let of_each = |states: &Pair, test: &dyn Fn(&Machine<'_>, &[StateID]) -> bool| {
        let mut at = 0;
        machines.iter().all(|machine| {
            let own = states.get(at..at + machine.0.len()).unwrap_or_default();
            at += machine.0.len();
            test(machine, own)
        })
    };
    let mut reached: HashMap<Pair, Option<(Pair, u8)>> = HashMap::from([(start.clone(), None)]);
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(states) = queue.pop_front() {
        if of_each(&states, &|machine, own| machine.accepts(own)) {
            return Ok(Some(way_to(states, &reached)));
        }
        let is_first = reached.get(&states).is_some_and(Option::is_none);
        for byte in
            bytes.iter().copied().filter(|byte| !is_first || comparison.first.is_none_or(|first| first == *byte))
        {
            let mut next = Vec::with_capacity(states.len());
            let mut at = 0;
            for machine in machines {
                machine.next(states.get(at..at + machine.0.len()).unwrap_or_default(), byte, &mut next);
                at += machine.0.len();
            }
            let next: Pair = next.into();
            if !of_each(&next, &|machine, own| !machine.is_dead(own)) || reached.contains_key(&next) {
                continue;
            }
            comparison.work = comparison.work.checked_sub(states.len()).ok_or(TooMuchWork)?;
            reached.insert(next.clone(), Some((states.clone(), byte)));
            queue.push_back(next);
        }
    }
    Ok(None)
}

/// The text that led to a pair.
fn way_to(mut pair: Pair, reached: &HashMap<Pair, Option<(Pair, u8)>>) -> String {
    let mut text = Vec::new();
    while let Some(Some((before, byte))) = reached.get(&pair) {
        text.push(*byte);
        pair = before.clone();
    }
    text.reverse();
    String::from_utf8_lossy(&text).into_owned()
}

/// One byte of each kind that one of the automata tells apart, of those that stand in canonical paths, or in field values. Letters first: they are shown.
/// The slash is of a kind of its own, since each path begins with one.
fn alphabet(automata: &[&dense::DFA<Vec<u32>>], of_paths: bool) -> Vec<u8> {
    let kind = |byte: &u8| automata.iter().map(|automaton| automaton.byte_classes().get(*byte)).collect::<Vec<u8>>();
    let mut seen = std::collections::HashSet::new();
    let bytes = (b'a'..=b'z').chain(b'0'..=b'9').chain(b'!'..=b'~');
    let others = [b'\t', b' '].into_iter().chain(0x80..=0xff).filter(|_| !of_paths);
    let is_sent = |byte: &u8| *byte != b'/' && !(of_paths && matches!(byte, b'?' | b'#' | b'\\'));
    let bytes = bytes.chain(others).filter(|byte| is_sent(byte) && seen.insert(kind(byte)));
    [b'/'].into_iter().chain(bytes).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn new(text: &str) -> Expression {
        Expression::new(text).unwrap()
    }

    #[test]
    fn the_whole_text_is_matched() {
        for (text, yes, no) in [
            ("/v[0-9]+/x", &["/v1/x", "/v22/x"][..], &["/v/x", "/v1/x/", "a/v1/x", ""][..]),
            ("^/a$", &["/a"], &["/a/", "/aa"]),
            ("/a|/b", &["/a", "/b"], &["/a|/b", "/ab", "/a/b"]),
            ("(?x) /a # not a comment that hides the end", &["/a"], &["/ab"]),
            ("(?i)/A", &["/a", "/A"], &["/b"]),
            ("", &[""], &["a"]),
            ("/.", &["/\u{fe}"], &[]),
        ] {
            let expression = new(text);
            let bytes = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
            assert!(yes.iter().all(|yes| expression.matches(&bytes(yes))), "{text}");
            assert!(!no.iter().any(|no| expression.matches(&bytes(no))), "{text}");
        }
    }

    #[test]
    fn groups_have_names_or_numbers() {
        let expression = new("/(?<kind>[a-z]+)/([0-9]+)(?:/(x))?");
        assert_eq!(expression.groups(), ["kind", "2", "3"]);
        let mut found = Vec::new();
        expression.find_groups(b"/ab/12", |start, end| found.push((start, end)));
        assert_eq!(found, [(1, 3), (4, 6), (6, 6)]);
    }

    #[test]
    fn what_costs_too_much_is_refused_at_once() {
        for text in
            ["((a{1,99}){1,99}){1,99}", "(a|b)*a(a|b){18}", "[", "(?=a)", r"(a)\1", "a{1000000}", &"(".repeat(40)]
        {
            let (what, fix) = Expression::new(text).unwrap_err();
            assert!(!what.contains('\n') && !fix.is_empty(), "{what}");
        }
        assert!(Expression::new(&"a".repeat(MAX_EXPRESSION_BYTES + 1)).is_err());
        // The classic that makes others go back for ever.
        assert!(!new("/(a+)+b").matches(format!("/{}", "a".repeat(100_000)).as_bytes()));
    }

    #[test]
    fn expressions_are_compared() {
        for (one, other, expected) in [
            ("/a.*", "/b.*", Relation::Apart),
            ("/a[0-9]", "/a.", Relation::Within),
            ("/.*", "/x/[^/]+", Relation::Around),
            ("/a.*", "/.*z", Relation::Overlapping("/az".to_owned())),
            ("/[ab]", "/(a|b)", Relation::Overlapping("/a".to_owned())),
            ("x", "y", Relation::Apart),
            // Only what begins with a slash is a path.
            ("/a|b", "/a", Relation::Overlapping("/a".to_owned())),
        ] {
            let relation = new(one).relation(&new(other), &mut Comparison::of_paths());
            assert_eq!(relation, expected, "{one} {other}");
        }
        assert_eq!(new("x").relation(&new("x|y"), &mut Comparison::of_values()), Relation::Within);
        assert_eq!(new("Bearer x.*").relation(&new("Bearer .*"), &mut Comparison::of_values()), Relation::Within);
        let spent = &mut Comparison { work: 3, ..Comparison::of_values() };
        assert_eq!(new("[a-f]{9}").relation(&new("[f-z]{9}"), spent), Relation::Unknown);
        assert_eq!(new("/a b").a_match(&mut Comparison::of_paths()), None);
    }

    #[test]
    fn exceptions_are_not_matched() {
        let except =
            |text: &str, others: &[&str]| new(text).except(&others.iter().map(|text| new(text)).collect::<Vec<_>>());
        let images = except("/.*\\.png", &["/admin/.*", "/.*/[.].*"]);
        assert!(images.matches(b"/a.png") && !images.matches(b"/admin/a.png") && !images.matches(b"/x/.a.png"));
        let all = |one: &Expression, other: &Expression| one.relation(other, &mut Comparison::of_paths());
        assert_eq!(all(&images, &new("/admin/.*")), Relation::Apart);
        assert_eq!(all(&new("/.*/[.].*"), &images), Relation::Apart);
        assert_eq!(all(&images, &new("/.*\\.png")), Relation::Within);
        assert_eq!(all(&new("/.*\\.png"), &images), Relation::Around);
        assert_eq!(all(&images, &except("/.*\\.png", &["/admin/.*"])), Relation::Within);
        assert_eq!(all(&images, &new("/a.*")), Relation::Overlapping("/a.png".to_owned()));
        assert_ne!(images, new("/.*\\.png"));
        let shared = |all: &[&Expression]| Expression::shared(all, &mut Comparison::of_paths()).unwrap();
        assert_eq!(shared(&[&images, &new("/x.*"), &new("/[^.]*..n.")]).as_deref(), Some("/x.png"));
        assert_eq!(shared(&[&new("/a.*"), &new("/.*b"), &new("/[^b]*")]), None);
        assert_eq!(shared(&[&new("/a.*"), &new("/b.*")]), None);
        assert_eq!(except("/a", &["/[a-z]"]).a_match(&mut Comparison::of_paths()), None);
        assert_eq!(except("/[ab]", &["/a"]).a_match(&mut Comparison::of_paths()).as_deref(), Some("/b"));
    }

    #[test]
    fn literal_starts() {
        for (text, expected) in [
            ("/admin/(?<x>.*)", "/admin/"),
            ("^/a/b$", "/a/b"),
            ("/a(/.*)?", "/a"),
            ("(?i)/a", "/"),
            ("(/a/)b", "/a/b"),
            (".*", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(new(text).literal_start()), expected, "{text}");
        }
    }
}
