//! The files of a configuration: the one that was named, and those that it includes, read into one tree.
//!
//! What stands in several files is put together at the top level: lists follow each other, mappings hold what any of them does, and what can be there
//! once is there once. Every part keeps the file and line where it stands. Number, depth and size of files are bounded.

use std::path::{Path, PathBuf};

use crate::file_pattern;
use crate::problem::{Collector, Problems, Span, shown};
use crate::table::{Object, Shape};
use crate::yaml::{self, Entry, Node, Value};

/// Most files of a configuration.
const MAX_FILES: usize = 512;
/// How deep files may include each other.
const MAX_DEPTH: usize = 4;
/// Largest size of all files together, bytes.
const MAX_TOTAL_BYTES: usize = 32 * 1024 * 1024;

/// A file that was read.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// As people know it.
    pub(crate) name: String,
    /// Its folder, at which relative paths in it start.
    pub(crate) folder: PathBuf,
    /// What it says.
    pub(crate) text: String,
}

/// Files by their number in spans. The first is the one that was named.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) files: Vec<SourceFile>,
    /// What was looked for, whether anything was there or not.
    pub(crate) included: Vec<Included>,
    /// Where they really are, against files that come twice.
    seen: Vec<PathBuf>,
    bytes: usize,
}

/// What an `include` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Included {
    /// The folder.
    pub folder: PathBuf,
    /// The name of the file in it, with `*` for any characters and `?` for one.
    pub name: String,
}

impl Included {
    /// Whether it means a file of this name in its folder.
    pub fn means(&self, name: &str) -> bool {
        // As in a shell: what is hidden is not meant by a wildcard.
        let is_hidden = name.starts_with('.') && !self.name.starts_with('.');
        !is_hidden && suits(self.name.as_bytes(), name.as_bytes())
    }
}

/// Whether a name suits a pattern of `*` and `?`.
fn suits(pattern: &[u8], name: &[u8]) -> bool {
    file_pattern::suits(pattern, name, |pattern, byte| {
        pattern.first().filter(|wanted| **wanted == b'?' || **wanted == byte).map(|_| 1)
    })
}

impl Sources {
    /// One text, which includes nothing.
    pub(crate) fn of_text(name: &str, folder: &Path, text: &str) -> Sources {
        let file = SourceFile { name: name.to_owned(), folder: folder.to_owned(), text: text.to_owned() };
        Sources { files: vec![file], ..Sources::default() }
    }

    /// The file in which something stands.
    fn file(&self, span: Span) -> Option<&SourceFile> {
        self.files.get(usize::from(span.file)).or(self.files.first())
    }

    /// Where relative paths that stand there start.
    pub(crate) fn folder(&self, span: Span) -> &Path {
        self.file(span).map_or(Path::new(""), |file| &file.folder)
    }

    /// Where something stands, for messages: `portunus.yaml:31`.
    pub(crate) fn place(&self, span: Span) -> String {
        format!("{}:{}", self.file(span).map_or("", |file| &file.name), span.line)
    }

    /// Where something stands, seen from another place: `in line 31`, or `at conf.d/a.yaml:31`.
    pub(crate) fn seen_from(&self, from: Span, span: Span) -> String {
        if from.file == span.file { format!("in line {}", span.line) } else { format!("at {}", self.place(span)) }
    }

    /// Reads what a tree includes into it.
    pub(crate) fn include(&mut self, form: &'static Object, root: &mut Node, problems: &mut Collector) {
        self.seen.extend(self.files.first().and_then(|file| std::fs::canonicalize(&file.name).ok()));
        self.bytes = self.files.iter().map(|file| file.text.len()).sum();
        let wanted = root.get("include").cloned();
        let reading = Reading { form, depth: 1 };
        self.read_included(reading, wanted.as_ref(), root, problems);
    }

    /// Reads the files that a node names, which stands in one of them, into a tree.
    fn read_included(&mut self, reading: Reading, wanted: Option<&Node>, root: &mut Node, problems: &mut Collector) {
        for item in wanted.map(Node::one_or_many).unwrap_or_default() {
            let Some(text) = item.text() else { continue };
            if reading.depth > MAX_DEPTH {
                let what = format!("files are included deeper than {MAX_DEPTH} levels");
                return problems.add(item.span, what, "include them from the first file");
            }
            let Some(included) = self.pattern(text, item.span, problems) else { continue };
            for path in named(&included, item.span, problems) {
                self.read_one(reading, &path, item.span, root, problems);
            }
            self.included.push(included);
        }
    }

    /// What an `include` means.
    fn pattern(&self, text: &str, at: Span, problems: &mut Collector) -> Option<Included> {
        let path = self.folder(at).join(text);
        let (folder, name) = (path.parent()?.to_owned(), path.file_name().and_then(|name| name.to_str()));
        let Some(name) = name.filter(|_| !text.ends_with('/')) else {
            let fix = format!("write {}", shown(&format!("{}/*.yaml", text.trim_end_matches('/'))));
            problems.add(at, format!("{} names no file", shown(text)), fix);
            return None;
        };
        if folder.to_string_lossy().contains(['*', '?']) {
            let fix = "use `*` and `?` in names of files only";
            problems.add(at, "a wildcard stands in the name of a folder", fix);
            return None;
        }
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        Some(Included { folder, name: name.to_owned() })
    }

    fn read_one(&mut self, reading: Reading, path: &Path, at: Span, root: &mut Node, problems: &mut Collector) {
        let name = path.strip_prefix("./").unwrap_or(path).display().to_string();
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.seen.contains(&real) {
            return problems.add(at, format!("{} is included twice", shown(&name)), "include each file once");
        }
        if self.files.len() >= MAX_FILES {
            return problems.add(at, format!("more than {MAX_FILES} files are included"), "put several into one");
        }
        let text = match super::read_text(path, &name) {
            Ok(text) => text,
            Err(unreadable) => return note(&unreadable, &name, at, problems),
        };
        self.bytes += text.len();
        if self.bytes > MAX_TOTAL_BYTES {
            let what = format!("the files together are larger than {} MiB", MAX_TOTAL_BYTES >> 20);
            return problems.add(at, what, "make them smaller; check what generated them");
        }
        self.seen.push(real);
        let number = u16::try_from(self.files.len()).unwrap_or(u16::MAX);
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        // A file in which nothing stands yet is no problem: a package may bring one.
        let is_blank = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        let tree = if is_blank { None } else { yaml::parse_file(&text, number, problems) };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        self.files.push(SourceFile { name, folder, text });
        let Some(tree) = tree else { return };
        if !matches!(tree.value, Value::Map(_)) {
            let what = format!("an included file must be a mapping, not {}", tree.kind());
            return problems.add(tree.span, what, "write keys, such as `routes`");
        }
        let wanted = tree.get("include").cloned();
        self.merge(reading.form, root, tree, problems);
        self.read_included(Reading { depth: reading.depth + 1, ..reading }, wanted.as_ref(), root, problems);
    }

    /// Adds what an included file says to a tree.
    fn merge(&self, form: &'static Object, root: &mut Node, tree: Node, problems: &mut Collector) {
        let (Value::Map(entries), Value::Map(added)) = (&mut root.value, tree.value) else { return };
        for entry in added {
            let shape = form.all_fields().find(|field| field.name == entry.key).map(|field| &field.shape);
            match entries.iter_mut().find(|present| present.key == entry.key) {
                None => entries.push(entry),
                Some(present) => self.merge_values(shape, present, entry, problems),
            }
        }
    }

    fn merge_values(&self, shape: Option<&Shape>, present: &mut Entry, added: Entry, problems: &mut Collector) {
        let is_many = matches!(shape, Some(Shape::OneOrMany(_)));
        if is_many {
            as_list(&mut present.value);
        }
        let span = added.value.span;
        match (&mut present.value.value, added.value.value) {
            (Value::List(items), Value::List(further)) => items.extend(further),
            (Value::List(items), value @ Value::Scalar(_)) if is_many => items.push(Node { span, value }),
            (Value::Map(entries), Value::Map(further)) => {
                for entry in further {
                    match entries.iter().find(|other| other.key == entry.key) {
                        None => entries.push(entry),
                        Some(other) => {
                            let what = format!("`{}` has {}", added.key, shown(&entry.key));
                            self.twice(&what, other.key_span, entry.key_span, problems);
                        }
                    }
                }
            }
            (before, Value::Null) if !matches!(before, Value::Null) => {}
            (before @ Value::Null, value) => {
                *before = value;
                present.value.span = span;
            }
            (Value::Scalar(_), Value::Scalar(_)) => {
                self.twice(&format!("there is {}", shown(&added.key)), present.key_span, added.key_span, problems);
            }
            (before, value) => {
                let (kind, before) = (Node { span, value }.kind(), Node { span, value: before.clone() }.kind());
                let place = self.seen_from(span, present.key_span);
                let what = format!("{} is {kind} here, and {before} {place}", shown(&added.key));
                problems.add(span, what, "write it as it is there");
            }
        }
    }

    fn twice(&self, what: &str, first: Span, second: Span, problems: &mut Collector) {
        problems.add(second, format!("{what} already, {}", self.seen_from(second, first)), "keep one of the two");
    }
}

/// How files are read.
#[derive(Clone, Copy)]
struct Reading {
    form: &'static Object,
    depth: usize,
}

/// The files that an `include` names, in the order of their names. A wildcard may name none.
fn named(included: &Included, at: Span, problems: &mut Collector) -> Vec<PathBuf> {
    if !included.name.contains(['*', '?']) {
        return vec![included.folder.join(&included.name)];
    }
    let entries = match std::fs::read_dir(&included.folder) {
        Ok(entries) => entries,
        Err(error) => {
            let what = format!("cannot read the folder {}: {error}", shown(&included.folder.display().to_string()));
            problems.add(at, what, "check the path; relative ones start at the folder of this file");
            return Vec::new();
        }
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| included.means(name)).collect();
    names.sort_unstable();
    names.iter().map(|name| included.folder.join(name)).collect()
}

/// What may be one or many, as many.
fn as_list(node: &mut Node) {
    if matches!(node.value, Value::Scalar(_)) {
        let item = node.clone();
        node.value = Value::List(vec![item]);
    }
}

/// Why a file could not be read, where it is included.
fn note(unreadable: &Problems, name: &str, at: Span, problems: &mut Collector) {
    for problem in unreadable.list() {
        problems.add(at, format!("{}: {}", shown(name), problem.what), problem.fix.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_suit_patterns() {
        for (pattern, name, expected) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", ".a.yaml", false),
            (".*.yaml", ".a.yaml", true),
            ("*.yaml", "a.yaml~", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xaybz", true),
            ("*a*b", "ab", true),
            ("*a*b", "ba", false),
            ("**", "", true),
            ("a", "b", false),
        ] {
            let included = Included { folder: PathBuf::new(), name: pattern.to_owned() };
            assert_eq!(included.means(name), expected, "{pattern} {name}");
        }
    }
}
