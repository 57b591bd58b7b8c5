//! What is wrong with a configuration: where, what and the fix; as one line for logs and tests, or with the source beside it for people.
//!
//! Owns positions and their rendering. Knows nothing of what a configuration means. The one-line form is stable.

use std::fmt::{self, Display, Write as _};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// Problems kept; a file with more has one cause, and the first hundred show it.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// Lines longer than this (minified JSON) are named by position, not shown.
const MAX_SHOWN_LINE_BYTES: usize = 1024;

/// Characters of a value that a message repeats.
const MAX_SHOWN_CHARS: usize = 60;

/// Characters of a file name that a message repeats (`PATH_MAX`).
const MAX_FILE_NAME_CHARS: usize = 4096;

/// A stretch of a file, counted in characters, and the line it starts in, from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// First character, from 0.
    pub start: usize,
    /// Behind the last character.
    pub end: usize,
    /// Line of the first character, from 1.
    pub line: usize,
    /// Which of the files: the one that was named is 0.
    pub file: u16,
}

/// One problem in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1; 0 if the file as a whole is meant.
    pub line: usize,
    /// Column in characters, from 1; 0 if the file as a whole is meant.
    pub column: usize,
    /// Bytes of the text (after a byte order mark) that are meant.
    pub span: Range<usize>,
    /// What is wrong. One line.
    pub what: String,
    /// What to do about it. One line.
    pub fix: String,
    /// The line holds a secret and is never shown.
    pub secret: bool,
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}; fix: {}", self.file, self.what, self.fix)
        } else {
            write!(f, "{}:{}:{}: {}; fix: {}", self.file, self.line, self.column, self.what, self.fix)
        }
    }
}

/// Everything wrong with a file, in file order. Never empty. Displays as one line per problem.
#[derive(Debug, Clone)]
pub struct Problems {
    list: Vec<Problem>,
    further: usize,
    /// Names and texts of the files.
    texts: Vec<(String, String)>,
}

impl Problems {
    /// A problem with the file as a whole.
    pub fn of_file(file: &str, what: String, fix: &str) -> Problems {
        let problem = Problem {
            file: one_line(file, MAX_FILE_NAME_CHARS),
            line: 0,
            column: 0,
            span: 0..0,
            what,
            fix: fix.to_owned(),
            secret: false,
        };
        Problems { list: vec![problem], further: 0, texts: Vec::new() }
    }

    /// The problems, at most 100.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many more there are.
    pub fn further(&self) -> usize {
        self.further
    }

    /// The problems with their source lines, for people; in colour if `colour`.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for problem in &self.list {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{}\n", renderer.render(&[self.group(problem)]));
        }
        if self.further > 0 {
            let _ = writeln!(out, "and {} more", self.further);
        }
        out
    }

    fn group<'a>(&'a self, problem: &'a Problem) -> Group<'a> {
        let title = Level::ERROR.primary_title(problem.what.as_str());
        let group = match self.shown_line(problem) {
            Some((line, span)) => title.element(
                Snippet::source(line)
                    .path(problem.file.as_str())
                    .line_start(problem.line)
                    .annotation(AnnotationKind::Primary.span(span)),
            ),
            None if problem.line > 0 => {
                title.element(Origin::path(problem.file.as_str()).line(problem.line).char_column(problem.column))
            }
            None => title.element(Origin::path(problem.file.as_str())),
        };
        group.element(Level::HELP.with_name(Some("fix")).message(problem.fix.as_str()))
    }

    /// The line a problem starts on, and the problem's bytes within it.
    fn shown_line(&self, problem: &Problem) -> Option<(&str, Range<usize>)> {
        if problem.secret || problem.line == 0 {
            return None;
        }
        let is_break = |c: char| matches!(c, '\n' | '\r');
        let (_, text) = self.texts.iter().find(|(name, _)| *name == problem.file)?;
        let before = text.get(..problem.span.start)?;
        let line_start = before.rfind(is_break).map_or(0, |at| at + 1);
        let rest = text.get(line_start..)?;
        let line = rest.get(..rest.find(is_break).unwrap_or(rest.len()))?;
        if may_hold_a_secret(line) {
            return None;
        }
        let start = problem.span.start - line_start;
        let end = (problem.span.end.saturating_sub(line_start)).clamp(start, line.len().max(start));
        (line.len() <= MAX_SHOWN_LINE_BYTES && start <= line.len()).then_some((line, start..end))
    }
}

impl Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            writeln!(f, "{problem}")?;
        }
        if self.further > 0 {
            writeln!(f, "and {} more", self.further)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Whether a line is better not shown: the problem may be that a password stands in it, under its own key or a misspelt one.
fn may_hold_a_secret(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["pas", "pwd", "secret"].iter().any(|sign| line.contains(sign))
}

/// A problem on the way to [`Problems`].
#[derive(Debug, Clone)]
struct Found {
    span: Span,
    what: String,
    fix: String,
    secret: bool,
}

/// Gathers problems while a file is read.
#[derive(Debug, Default)]
pub struct Collector {
    found: Vec<Found>,
    further: usize,
}

impl Collector {
    /// Notes a problem.
    pub fn add(&mut self, span: Span, what: impl Into<String>, fix: impl Into<String>) {
        self.push(Found { span, what: what.into(), fix: fix.into(), secret: false });
    }

    /// Notes a problem at a secret: its line is not shown.
    pub fn add_secret(&mut self, span: Span, what: impl Into<String>, fix: impl Into<String>) {
        self.push(Found { span, what: what.into(), fix: fix.into(), secret: true });
    }

    fn push(&mut self, found: Found) {
        if self.is_full() {
            self.further += 1;
        } else if !self.found.iter().any(|other| other.span == found.span && other.what == found.what) {
            self.found.push(found);
        }
    }

    /// Whether a problem with exactly this stretch is known.
    pub fn knows(&self, span: Span) -> bool {
        self.found.iter().any(|found| found.span == span)
    }

    /// Whether further problems are only counted; costly suggestions are pointless then.
    pub fn is_full(&self) -> bool {
        self.found.len() >= MAX_PROBLEMS
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The problems of one file; none if there are none.
    pub fn finish(self, file: &str, text: &str) -> Option<Problems> {
        self.finish_all(&[(file, text)])
    }

    /// The problems in the order of the files and of their lines, with byte positions in the texts; none if there are none.
    pub(crate) fn finish_all(mut self, files: &[(&str, &str)]) -> Option<Problems> {
        if self.found.is_empty() {
            return None;
        }
        self.found.sort_by_key(|found| (found.span.file, found.span.start));
        let mut list = Vec::with_capacity(self.found.len());
        let mut texts = Vec::new();
        for (number, (name, text)) in files.iter().enumerate() {
            let own: Vec<&Found> = self.found.iter().filter(|found| usize::from(found.span.file) == number).collect();
            if own.is_empty() {
                continue;
            }
            let file = one_line(name, MAX_FILE_NAME_CHARS);
            let mut wanted: Vec<usize> = own.iter().flat_map(|found| [found.span.start, found.span.end]).collect();
            wanted.sort_unstable();
            let places = places(text, &wanted);
            let place =
                |at: usize| wanted.binary_search(&at).ok().and_then(|i| places.get(i).copied()).unwrap_or_default();
            list.extend(own.into_iter().cloned().map(|Found { span, what, fix, secret }| {
                let start = place(span.start);
                let span = start.byte..place(span.end).byte.max(start.byte);
                Problem { file: file.clone(), line: start.line, column: start.column, span, what, fix, secret }
            }));
            texts.push((file, (*text).to_owned()));
        }
        Some(Problems { list, further: self.further, texts })
    }
}

/// Where a character is, as people and slices count.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    byte: usize,
    line: usize,
    column: usize,
}

/// The places of the given character offsets (ascending), in one walk. Beyond the end is the end.
fn places(text: &str, wanted: &[usize]) -> Vec<Place> {
    let mut chars = text.chars().peekable();
    let mut at = 0;
    let mut place = Place { byte: 0, line: 1, column: 1 };
    wanted
        .iter()
        .map(|&wanted| {
            while at < wanted {
                let Some(c) = chars.next() else { break };
                at += 1;
                place.byte += c.len_utf8();
                match c {
                    '\r' if chars.peek() == Some(&'\n') => {}
                    '\n' | '\r' => (place.line, place.column) = (place.line + 1, 1),
                    _ => place.column += 1,
                }
            }
            place
        })
        .collect()
}

/// A value from the file in a message: between backquotes, on one line, not too long.
pub(crate) fn shown(text: &str) -> String {
    format!("`{}`", one_line(text, MAX_SHOWN_CHARS))
}

/// At most `max` characters of a text, on one line: controls and direction marks would let a value write its own log line.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let hides =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == max {
            out.push('…');
            break;
        }
        if c.is_control() || hides(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// The candidate that `given` was probably meant to be.
pub(crate) fn closest<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let given = plain(given);
    let reach = (given.chars().count() / 3).max(1);
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    candidates
        // Another number is another thing, not a slip: `http3` for `http1`.
        .filter(|candidate| plain(candidate) == given || letters(&plain(candidate)) != letters(&given))
        .map(|candidate| (strsim::damerau_levenshtein(&given, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Candidates for a fix: `a, b and c`, the first few of them.
pub(crate) fn listed<'a>(items: impl Iterator<Item = &'a str>) -> String {
    const MAX_LISTED: usize = 12;
    let mut items: Vec<String> = items.take(MAX_LISTED + 1).map(shown).collect();
    if items.len() > MAX_LISTED {
        items.truncate(MAX_LISTED);
        return format!("{}, …", items.join(", "));
    }
    match items.pop() {
        None => "none".to_owned(),
        Some(last) if items.is_empty() => last,
        Some(last) => format!("{} and {last}", items.join(", ")),
    }
}
