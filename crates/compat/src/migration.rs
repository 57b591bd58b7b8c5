//! What all imports share: files within bounds, places, what is left out, and the last step, which reads what is printed.
//!
//! Knows no other program.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proxy::route::RouteTable;

use super::Front;
use super::files::{Files, read_standard_input};
use super::native::{Map, Value};

/// Most findings that are told apart.
const MAX_FINDINGS: usize = 10_000;

/// Nothing could be written; above 1, which says that something was left out.
pub(crate) const NOTHING_WRITTEN: u8 = 2;

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The file, as it was named.
    pub(crate) file: Rc<str>,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why a file cannot be read as what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(crate) place: Place,
    pub(crate) what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl Problem {
    pub(crate) fn new(place: &Place, what: impl Into<String>) -> Problem {
        Problem { place: place.clone(), what: what.into() }
    }
}

/// What is not as it was, as it is found. Each finding counts once, however often it is met.
#[derive(Debug, Default)]
pub(crate) struct Report {
    left_out: RefCell<BTreeSet<String>>,
    /// What is served by a program beside, each with its place.
    beside: RefCell<BTreeSet<(Place, String)>>,
    /// Files that are named and are not here: what to say of each.
    absent: RefCell<BTreeMap<PathBuf, String>>,
}

impl Report {
    /// Something is left out; gives the comment that says so.
    pub(crate) fn left_out(&self, place: &Place, what: &str, why: &str) -> String {
        let text = format!("{place}: {}: {why}", shown(what));
        let mut found = self.left_out.borrow_mut();
        if found.len() < MAX_FINDINGS {
            found.insert(text.clone());
        }
        format!("left out: {text}")
    }

    /// Something that a program beside has to serve (files, FastCGI, uwsgi, SCGI): all of it together is one finding. Gives the comment for its place.
    pub(crate) fn beside(&self, place: &Place, what: &str) -> String {
        let mut found = self.beside.borrow_mut();
        if found.len() < MAX_FINDINGS {
            found.insert((place.clone(), shown(what)));
        }
        format!("beside: {place}: {}: for a server beside, as the first comments say", shown(what))
    }

    /// The finding on all that a program beside has to serve.
    fn all_beside(&self) -> Option<String> {
        let found = self.beside.borrow();
        let (place, what) = found.first()?;
        let all = match found.len() {
            1 => String::new(),
            count => format!(" and {} more like it", count - 1),
        };
        Some(format!(
            "{place}: {what}{all}: files, FastCGI, uwsgi and SCGI are for a small server beside; have one serve them on 127.0.0.1:8081 (nginx with these very blocks and \
             `listen 127.0.0.1:8081;`), add `upstreams: {{ beside: {{ servers: [\"127.0.0.1:8081\"] }} }}`, and write `upstream: beside, host: keep` for `respond: {{ status: 501 }}` \
             in the routes with a comment that begins with `beside:`"
        ))
    }

    /// A part of what was made is none that can be served; gives the comment that says so.
    fn unserved(&self, of: &str, why: &str) -> String {
        let text = format!("{}: {}", shown(of), shown(why));
        self.left_out.borrow_mut().insert(text.clone());
        format!("left out: {text}")
    }

    /// Something is carried, but not quite the same; gives the comment that says so.
    pub(crate) fn differs(&self, place: &Place, what: &str, how: &str) -> String {
        format!("differs: {place}: {}: {how}", shown(what))
    }

    /// Notes those of these files that are not here. What is written names them all the same: whoever serves it has them.
    pub(crate) fn expect(&self, files: &Files, paths: impl IntoIterator<Item: AsRef<Path>>, place: &Place) {
        for path in paths {
            let path = path.as_ref();
            if let Some(why) = files.absence(path) {
                self.absent(path, place, &format!("{why}; it is named as it was"));
            }
        }
    }

    /// A named file is not here, and what that means.
    pub(crate) fn absent(&self, path: &Path, place: &Place, what: &str) {
        let mut absent = self.absent.borrow_mut();
        if absent.len() < MAX_FINDINGS {
            let text = format!("{} ({place}): {what}", absolute(path));
            absent.entry(path.to_owned()).or_insert_with(|| text.replace(char::is_control, " "));
        }
    }

    /// What was left out.
    pub(crate) fn all_left_out(&self) -> Vec<String> {
        self.left_out.borrow().iter().cloned().chain(self.all_beside()).collect()
    }
}

/// Text of a file as it is shown in a comment: one line, not too long.
pub(crate) fn shown(text: &str) -> String {
    let mut plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect();
    if text.chars().nth(100).is_some() {
        plain.push('…');
    }
    plain
}

/// Takes `--keys FOLDER` out of the words.
///
/// # Errors
/// The folder is missing.
pub(crate) fn keys_option(words: &[OsString]) -> Result<(Vec<OsString>, Option<PathBuf>), String> {
    folder_option(words, "--keys")
}

/// Takes an option that names a folder out of the words.
///
/// # Errors
/// The folder is missing.
pub(crate) fn folder_option(words: &[OsString], name: &str) -> Result<(Vec<OsString>, Option<PathBuf>), String> {
    let mut rest = Vec::new();
    let mut folder = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let given = word.to_str().and_then(|word| word.strip_prefix(name)?.strip_prefix('='));
        match (word == name, given) {
            (true, _) => folder = Some(PathBuf::from(words.next().ok_or_else(|| format!("{name} needs a folder"))?)),
            (false, Some(given)) => folder = Some(PathBuf::from(given)),
            (false, None) => rest.push(word.clone()),
        }
    }
    Ok((rest, folder))
}

/// The files that an importer is given, and where it looks for those that they name.
pub(crate) struct Given {
    /// The first file's name on the machine that it is of; `-` for standard input.
    pub(crate) path: PathBuf,
    /// What it holds.
    pub(crate) text: String,
    /// Further files.
    pub(crate) more: Vec<(PathBuf, String)>,
    /// Where others are read from.
    pub(crate) files: Files,
    /// The folder of `--keys`.
    pub(crate) keys: Option<PathBuf>,
}

impl Given {
    /// Reads them, as the words of the command say.
    ///
    /// # Errors
    /// What an import ends with that has no file, or wants help.
    pub(crate) fn read(words: &[OsString], usage: &str) -> Result<Given, Front> {
        if words.iter().any(|word| word == "-h" || word == "--help") {
            return Err(Front::Exit { code: 0, output: usage.to_owned(), errors: String::new() });
        }
        let wrong = |problem: String| rejected(&format!("{problem}\n{usage}"));
        let (words, keys) = keys_option(words).map_err(wrong)?;
        let (words, root) = folder_option(&words, "--files-from").map_err(wrong)?;
        let is_option = |word: &OsString| word != "-" && word.to_string_lossy().starts_with('-');
        if words.is_empty() || words.iter().any(is_option) || words.iter().filter(|word| *word == "-").count() > 1 {
            return Err(wrong("expected a file".to_owned()));
        }
        let mut files = Files::of_disk(root);
        let texts: Result<Vec<_>, String> = words.iter().map(|word| named(Path::new(word), &mut files)).collect();
        let mut texts = texts.map_err(|problem| rejected(&problem))?.into_iter();
        let Some((path, text)) = texts.next() else { return Err(wrong("expected a file".to_owned())) };
        let more = texts.collect();
        Ok(Given { path, text, more, files, keys })
    }

    /// Reads one file, where an importer takes no more.
    ///
    /// # Errors
    /// As `read`.
    pub(crate) fn read_one(words: &[OsString], usage: &str) -> Result<Given, Front> {
        let given = Given::read(words, usage)?;
        match given.more.is_empty() {
            true => Ok(given),
            false => Err(rejected(&format!("expected one file\n{usage}"))),
        }
    }
}

/// A file that the command names: its name on the machine that it is of, and its text.
fn named(path: &Path, files: &mut Files) -> Result<(PathBuf, String), String> {
    if path == Path::new("-") {
        return Ok((path.to_owned(), read_standard_input()?));
    }
    let text = files.read_named(path).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok((files.original(path).unwrap_or_else(|| path.to_owned()), text))
}

/// An import that writes nothing.
pub(crate) fn rejected(problem: &str) -> Front {
    Front::Exit { code: NOTHING_WRITTEN, output: String::new(), errors: format!("portunus: {problem}\n") }
}

/// The last step: the text of a configuration, which is read and whose routes are compiled before it is printed.
pub(crate) fn finish(source: &str, root: Map, report: &Report) -> Front {
    let mut root = with_all_said(served(root, report), report);
    let left_out = report.all_left_out();
    let count = left_out.len();
    let mut head = vec![format!("Made by `portunus import {}`.", shown(source))];
    head.push(match count {
        0 => "Nothing was left out.".to_owned(),
        1 => "One thing is left out; the comment that begins with `left out:` says what and why.".to_owned(),
        _ => format!("{count} things are left out; the comments that begin with `left out:` say what and why."),
    });
    let absent: Vec<String> = report.absent.borrow().values().cloned().collect();
    head.extend(absent.iter().map(|file| format!("not here: {file}")));
    root.comment_first(&head);
    let text = root.write();
    if let Err(problems) = accepted(&text) {
        let lines: String = problems.iter().map(|problem| format!("portunus: {problem}\n")).collect();
        let errors = format!("portunus: what was made of {} is no configuration:\n{lines}", shown(source));
        return Front::Exit { code: NOTHING_WRITTEN, output: String::new(), errors };
    }
    let absent = absent.iter().map(|file| format!("portunus: not here: {file}\n"));
    let errors = absent.chain(left_out.iter().map(|finding| format!("portunus: left out: {finding}\n"))).collect();
    Front::Exit { code: u8::from(count > 0), output: text, errors }
}

/// What is left out stands in a comment, also if the route that it concerned is gone.
fn with_all_said(mut root: Map, report: &Report) -> Map {
    let text = root.write();
    for finding in report.all_left_out().iter().filter(|finding| !text.contains(finding.as_str())) {
        root.comment(format!("left out: {finding}"));
    }
    root
}

/// The configuration, with routes that nothing reads in place of those that cannot be served: a value that is not understood closes its route.
pub(crate) fn served(root: Map, report: &Report) -> Map {
    if accepted(&root.write()).is_ok() {
        return root;
    }
    let Some(Value::List(routes)) = root.get("routes") else { return root };
    let mut kept = Vec::with_capacity(routes.len());
    for route in routes {
        let Value::Map(route) = route else { continue };
        let mut alone = root.clone();
        alone.set("routes", Value::List(vec![Value::Map(route.clone())]));
        kept.push(Value::Map(match accepted(&alone.write()) {
            Ok(()) => route.clone(),
            Err(problems) => closed(route, &problems, report),
        }));
    }
    let mut root = root.clone();
    root.set("routes", Value::List(kept));
    root
}

/// A route that responds 501 for what another one would take.
fn closed(route: &Map, problems: &[String], report: &Report) -> Map {
    let mut out = Map::default();
    route.comments().iter().for_each(|comment| out.comment(comment.as_str()));
    for (key, value) in
        route.entries().filter(|(key, _)| ["listeners", "hosts", "path", "methods", "when"].contains(key))
    {
        out.set(key, value.clone());
    }
    let of = route.comments().first().map_or("a route", String::as_str);
    let why = problems.first().map_or("", String::as_str);
    let why = why.split_once(": ").map_or(why, |(_, why)| why);
    out.comment(report.unserved(of, &format!("{why}; answered 501")));
    out.set("respond", Map::of([("status", Value::plain(501))]));
    out
}

/// Whether a text is a configuration whose routes are in no conflict. Files that it names are not looked for.
///
/// # Errors
/// Everything that is wrong.
pub(crate) fn accepted(text: &str) -> Result<(), Vec<String>> {
    let config = config::parse("(made)", text, Path::new("/"));
    let config = config.map_err(|problems| problems.list().iter().map(ToString::to_string).collect::<Vec<_>>())?;
    RouteTable::compile(&config).map(|_| ())
}

/// A path that does not depend on where the configuration is put.
pub(crate) fn absolute(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    absolute.as_deref().unwrap_or(path).display().to_string()
}

/// A name that may stand for a listener, an upstream or a policy.
pub(crate) fn name_of(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = text.chars().map(plain).take(48).collect();
    let name = name.trim_matches(['-', '.']).to_owned();
    match name.is_empty() || name == "none" {
        true => "unnamed".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, expected) in [("app", "app"), ("a b/c", "a-b-c"), ("-.", "unnamed"), ("none", "unnamed")] {
            assert_eq!(name_of(text), expected);
        }
    }
}
