//! What all imports share: files within bounds, places, what is left out, and the last step, which reads what is printed.
//!
//! Knows no other program.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use proxy::route::RouteTable;

use super::Front;
use super::native::{Map, Value};

/// Largest file, bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Largest size of all files together, bytes.
const MAX_TOTAL_BYTES: u64 = 32 << 20;
/// Most files.
const MAX_FILES: usize = 1_000;
/// Most names in a folder that are compared with a pattern.
const MAX_NAMES: usize = 10_000;
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

    /// What was left out.
    pub(crate) fn all_left_out(&self) -> Vec<String> {
        self.left_out.borrow().iter().cloned().collect()
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

/// The files of a configuration, read within bounds.
#[derive(Debug)]
pub(crate) struct Files {
    /// Contents by name, where they did not come from the disk.
    given: BTreeMap<PathBuf, String>,
    /// Whether files are looked for on the disk, too.
    on_disk: bool,
    bytes: u64,
    count: usize,
}

impl Files {
    /// Those of this machine.
    pub(crate) fn of_disk() -> Files {
        Files { given: BTreeMap::new(), on_disk: true, bytes: 0, count: 0 }
    }

    /// These alone.
    pub(crate) fn given(given: BTreeMap<PathBuf, String>) -> Files {
        Files { given, on_disk: false, bytes: 0, count: 0 }
    }

    /// Puts files in front of those of the disk.
    pub(crate) fn put(&mut self, given: BTreeMap<PathBuf, String>) {
        self.given.extend(given);
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn read(&mut self, path: &Path) -> Result<String, String> {
        self.count += 1;
        if self.count > MAX_FILES {
            return Err(format!("more than {MAX_FILES} files"));
        }
        let text = match self.given.get(path) {
            Some(text) => text.clone(),
            None if !self.on_disk => return Err("there is no such file".to_owned()),
            None => read_text(path)?,
        };
        self.bytes += text.len() as u64;
        if self.bytes > MAX_TOTAL_BYTES {
            return Err(format!("the files have more than {} MiB together", MAX_TOTAL_BYTES >> 20));
        }
        Ok(text)
    }

    /// Whether there is a file or folder.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.given.contains_key(path) || (self.on_disk && path.exists())
    }

    /// Whether it is known which files there are: only then does it mean something that one is missing.
    pub(crate) fn are_known(&self) -> bool {
        self.on_disk
    }

    /// That there are all of these.
    ///
    /// # Errors
    /// Names those that are known to be missing.
    pub(crate) fn require(&self, paths: impl IntoIterator<Item: AsRef<Path>>) -> Result<(), String> {
        let missing = paths.into_iter().filter(|path| self.are_known() && !self.exists(path.as_ref()));
        match missing.map(|path| path.as_ref().display().to_string()).reduce(|one, other| format!("{one}, {other}")) {
            Some(missing) => Err(format!("there is no such file: {missing}")),
            None => Ok(()),
        }
    }

    /// The files that a pattern means, in the order of their names: `*` and `?` are any characters and one, `[...]` is one of some.
    pub(crate) fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        for part in pattern.components() {
            let name = part.as_os_str().to_string_lossy();
            let is_pattern = matches!(part, Component::Normal(_)) && name.contains(['*', '?', '[']);
            found = match is_pattern {
                false => found.into_iter().map(|path| path.join(part)).collect(),
                true => found.iter().flat_map(|folder| self.names(folder, &name)).collect(),
            };
            found.truncate(MAX_FILES);
        }
        found.retain(|path| self.exists(path));
        found
    }

    fn names(&self, folder: &Path, pattern: &str) -> Vec<PathBuf> {
        let mut names: BTreeSet<PathBuf> = BTreeSet::new();
        let below = self.given.keys().filter_map(|path| path.strip_prefix(folder).ok()?.components().next());
        names.extend(below.map(|part| PathBuf::from(part.as_os_str())));
        if self.on_disk {
            let listed = std::fs::read_dir(folder).into_iter().flatten().take(MAX_NAMES);
            names.extend(listed.filter_map(Result::ok).map(|entry| PathBuf::from(entry.file_name())));
        }
        let suits = |name: &PathBuf| {
            let name = name.to_string_lossy();
            // As in a shell: what is hidden is not meant by a pattern.
            (!name.starts_with('.') || pattern.starts_with('.')) && matches(pattern.as_bytes(), name.as_bytes())
        };
        names.into_iter().filter(suits).map(|name| folder.join(name)).collect()
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err("it is a folder".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    text_of(bytes)
}

/// Comments may be in any encoding.
fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("it has more than {} MiB", MAX_FILE_BYTES >> 20));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads standard input.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn read_standard_input() -> Result<String, String> {
    let mut bytes = Vec::new();
    let taken = std::io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    taken.map_err(|error| error.to_string())?;
    text_of(bytes)
}

/// Whether a name suits a pattern of `*`, `?` and sets in brackets.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    config::file_pattern::suits(pattern, name, one)
}

/// How much of a pattern stands for one byte of a name, if it is this one.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            // A bracket that stands first is one of those that are meant.
            let end = rest.iter().skip(1).position(|byte| *byte == b']')? + 1;
            let set = rest.get(..end)?;
            let (negated, set) = match set {
                [b'!' | b'^', set @ ..] if !set.is_empty() => (true, set),
                set => (false, set),
            };
            let mut found = false;
            let mut at = 0;
            while let Some(low) = set.get(at) {
                let high = set.get(at + 2).filter(|_| set.get(at + 1) == Some(&b'-'));
                found |= (*low..=*high.unwrap_or(low)).contains(&byte);
                at += if high.is_some() { 3 } else { 1 };
            }
            (found != negated).then_some(end + 2)
        }
        [own, ..] => (*own == byte).then_some(1),
        [] => None,
    }
}

/// The words of an import: options, and the one file.
///
/// # Errors
/// What an import ends with that has no file, or wants help.
pub(crate) fn one_file(words: &[OsString], usage: &str) -> Result<PathBuf, Front> {
    let asks_for_help = |word: &OsString| ["-h", "--help"].iter().any(|help| word == help);
    if words.iter().any(asks_for_help) {
        return Err(Front::Exit { code: 0, output: usage.to_owned(), errors: String::new() });
    }
    match words {
        [file] if file == "-" || !file.to_string_lossy().starts_with('-') => Ok(file.into()),
        _ => Err(rejected(&format!("expected one file\n{usage}"))),
    }
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

/// The one file that an importer reads, or standard input.
pub(crate) struct Given {
    /// Its name; `-` for standard input.
    pub(crate) path: PathBuf,
    /// What it holds.
    pub(crate) text: String,
    /// Where others are read from.
    pub(crate) files: Files,
    /// The folder of `--keys`.
    pub(crate) keys: Option<PathBuf>,
}

impl Given {
    /// Reads it, as the words of the command say.
    pub(crate) fn read(words: &[OsString], usage: &str) -> Result<Given, Front> {
        let (words, keys) = keys_option(words).map_err(|problem| rejected(&format!("{problem}\n{usage}")))?;
        let path = one_file(&words, usage)?;
        let mut files = Files::of_disk();
        let text = if path == Path::new("-") { read_standard_input() } else { files.read(&path) };
        let text = text.map_err(|why| rejected(&format!("{}: {why}", path.display())))?;
        Ok(Given { path, text, files, keys })
    }
}

/// An import that writes nothing.
pub(crate) fn rejected(problem: &str) -> Front {
    Front::Exit { code: NOTHING_WRITTEN, output: String::new(), errors: format!("portunus: {problem}\n") }
}

/// The last step: the text of a configuration, which is read and whose routes are compiled before it is printed.
pub(crate) fn finish(source: &str, root: Map, report: &Report) -> Front {
    let mut root = served(root, report);
    let left_out = report.all_left_out();
    let count = left_out.len();
    let mut head = vec![format!("Made by `portunus import {}`.", shown(source))];
    head.push(match count {
        0 => "Nothing was left out.".to_owned(),
        1 => "One thing is left out; the comment that begins with `left out:` says what and why.".to_owned(),
        _ => format!("{count} things are left out; the comments that begin with `left out:` say what and why."),
    });
    root.comment_first(&head);
    let text = root.write();
    if let Err(problems) = accepted(&text) {
        let lines: String = problems.iter().map(|problem| format!("portunus: {problem}\n")).collect();
        let errors = format!("portunus: what was made of {} is no configuration:\n{lines}", shown(source));
        return Front::Exit { code: NOTHING_WRITTEN, output: String::new(), errors };
    }
    let errors = left_out.iter().map(|finding| format!("portunus: left out: {finding}\n")).collect();
    Front::Exit { code: u8::from(count > 0), output: text, errors }
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
    fn patterns_of_files() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a?c", "abc", true),
            ("[ab]*", "beta", true),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", false),
            ("**", "", true),
            ("*a*b*", "xxaxxbxx", true),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn files_that_were_given_are_found_by_patterns() {
        let given =
            ["/etc/nginx/conf.d/b.conf", "/etc/nginx/conf.d/a.conf", "/etc/nginx/conf.d/.x.conf", "/etc/nginx/x"];
        let files = Files::given(given.iter().map(|path| (PathBuf::from(path), String::new())).collect());
        let found = |pattern: &str| {
            let found = files.matching(Path::new(pattern));
            found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("/etc/nginx/conf.d/*.conf"), "/etc/nginx/conf.d/a.conf /etc/nginx/conf.d/b.conf");
        assert_eq!(found("/etc/*/x"), "/etc/nginx/x");
        assert_eq!(found("/etc/nginx/y"), "");
    }

    #[test]
    fn names() {
        for (text, expected) in [("app", "app"), ("a b/c", "a-b-c"), ("-.", "unnamed"), ("none", "unnamed")] {
            assert_eq!(name_of(text), expected);
        }
    }
}
