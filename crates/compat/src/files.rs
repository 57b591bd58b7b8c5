//! The files that the configuration of another program names, read within bounds, from this machine or from a copy of another one's.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use keystore::{Location, Store};

/// Largest file, bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Largest size of all files together, bytes.
const MAX_TOTAL_BYTES: u64 = 32 << 20;
/// Most files.
const MAX_FILES: usize = 1_000;
/// Most names in a folder that are compared with a pattern.
const MAX_NAMES: usize = 10_000;
/// What is said of a file that is not here.
const NO_FILE: &str = "no such file";

/// Why a file gives no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is not on this machine, or nobody may look: it says nothing about the machine that serves.
    Absent(String),
    /// It is there, and is none that can be read.
    Unfit(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Absent(why) | Unread::Unfit(why) => f.write_str(why),
        }
    }
}

/// The files of a configuration, read within bounds.
#[derive(Debug)]
pub(crate) struct Files {
    /// Contents by name, where they did not come from the disk.
    given: BTreeMap<PathBuf, String>,
    /// Whether files are looked for on the disk, too.
    on_disk: bool,
    /// The folder that holds a copy of the files of another machine, if they are not looked for where they are named.
    root: Option<PathBuf>,
    bytes: u64,
    count: usize,
}

impl Files {
    /// Those of this machine, or of the one whose files were copied below `root`.
    pub(crate) fn of_disk(root: Option<PathBuf>) -> Files {
        Files { given: BTreeMap::new(), on_disk: true, root, bytes: 0, count: 0 }
    }

    /// These alone.
    pub(crate) fn given(given: BTreeMap<PathBuf, String>) -> Files {
        Files { given, on_disk: false, root: None, bytes: 0, count: 0 }
    }

    /// Puts files in front of those of the disk.
    pub(crate) fn put(&mut self, given: BTreeMap<PathBuf, String>) {
        self.given.extend(given);
    }

    /// Where a file lies on the disk of this machine.
    fn here<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        let Some(root) = &self.root else { return Cow::Borrowed(path) };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Cow::Owned(within(root, &absolute))
    }

    /// The name that a file has on the machine it was copied from, if it is one of the copy.
    pub(crate) fn original(&self, path: &Path) -> Option<PathBuf> {
        let root = std::path::absolute(self.root.as_ref()?).ok()?;
        Some(Path::new("/").join(std::path::absolute(path).ok()?.strip_prefix(root).ok()?))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn read(&mut self, path: &Path) -> Result<String, Unread> {
        self.count += 1;
        if self.count > MAX_FILES {
            return Err(Unread::Unfit(format!("more than {MAX_FILES} files")));
        }
        let text = match self.given.get(path) {
            Some(text) => text.clone(),
            None if !self.on_disk => return Err(Unread::Absent(NO_FILE.to_owned())),
            None => read_text(&self.here(path))?,
        };
        self.bytes += text.len() as u64;
        if self.bytes > MAX_TOTAL_BYTES {
            return Err(Unread::Unfit(format!("the files have more than {} MiB together", MAX_TOTAL_BYTES >> 20)));
        }
        Ok(text)
    }

    /// Reads a file that the command names: as it is named, else within the copy.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn read_named(&mut self, path: &Path) -> Result<String, Unread> {
        match self.original(path) {
            Some(original) => self.read(&original),
            None if self.root.is_some() && path.exists() => read_text(path),
            None => self.read(path),
        }
    }

    /// Whether there is a file or folder.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.given.contains_key(path) || (self.on_disk && self.here(path).exists())
    }

    /// Whether a folder is meant: one that is here or, where nothing is, by its name.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        match self.on_disk && self.here(path).exists() {
            true => self.here(path).is_dir(),
            false => path.as_os_str().to_string_lossy().ends_with('/'),
        }
    }

    /// Whether there is a file, of at most so many bytes, that may be read.
    pub(crate) fn is_small(&self, path: &Path, most: u64) -> bool {
        let here = self.here(path);
        let is_small = || std::fs::metadata(&here).is_ok_and(|meta| meta.is_file() && meta.len() <= most);
        self.on_disk && is_small() && std::fs::File::open(&here).is_ok()
    }

    /// Whether it is known which files there are: only then does it mean something that one is missing.
    pub(crate) fn are_known(&self) -> bool {
        self.on_disk
    }

    /// Why a file is not here, if it is not and that is known.
    pub(crate) fn absence(&self, path: &Path) -> Option<String> {
        if !self.on_disk || self.given.contains_key(path) {
            return None;
        }
        match self.here(path).try_exists() {
            Ok(true) => None,
            Ok(false) => Some(NO_FILE.to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Why the folder is not here in which a pattern is to find files, if it is not.
    pub(crate) fn absent_folder(&self, pattern: &Path) -> Option<String> {
        let is_pattern = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
        let folder: PathBuf = pattern.components().take_while(|part| !is_pattern(part)).collect();
        let is_given = self.given.keys().any(|path| path.starts_with(&folder));
        let why = self.absence(&folder).filter(|_| !is_given)?;
        Some(format!("{}: {why}", folder.display()))
    }

    /// Whether a folder is a keystore as it is. What may not be read now may be readable for whoever serves.
    pub(crate) fn is_keystore(&self, folder: &Path) -> bool {
        let here = self.here(folder).into_owned();
        match Store::load(&Location::PemFolder(here.clone()), None, None) {
            Ok(_) => true,
            Err(error) => error.problems.iter().all(|problem| problem.contains("make it readable")) && here.is_dir(),
        }
    }

    /// Whether a folder serves somebody who asks for no name it knows. One whose keys cannot be read here is believed to.
    pub(crate) fn has_default(&self, folder: &Path) -> bool {
        let store = Store::load(&Location::PemFolder(self.here(folder).into_owned()), None, None);
        store.map_or(true, |store| store.has_default())
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
        // By the bytes of the whole, whatever its parts are.
        found.sort_by(|one, other| one.as_os_str().as_encoded_bytes().cmp(other.as_os_str().as_encoded_bytes()));
        found
    }

    fn names(&self, folder: &Path, pattern: &str) -> Vec<PathBuf> {
        let mut names: BTreeSet<PathBuf> = BTreeSet::new();
        let below = self.given.keys().filter_map(|path| path.strip_prefix(folder).ok()?.components().next());
        names.extend(below.map(|part| PathBuf::from(part.as_os_str())));
        if self.on_disk {
            let listed = std::fs::read_dir(self.here(folder)).into_iter().flatten().take(MAX_NAMES);
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

/// Most symbolic links on the way to a file.
const MAX_LINKS: usize = 40;

/// Where a file of another machine lies in a copy of its files: links are followed as there, and `..` does not lead out.
fn within(root: &Path, path: &Path) -> PathBuf {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        parts.rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut left, mut at, mut links) = (parts(path), PathBuf::new(), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(part);
        match std::fs::read_link(root.join(&next)) {
            Ok(_) if links == MAX_LINKS => return PathBuf::new(),
            Ok(target) => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::new();
                }
                left.extend(parts(&target));
            }
            Err(_) => at = next,
        }
    }
    root.join(at)
}

fn read_text(path: &Path) -> Result<String, Unread> {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let file = std::fs::File::open(path).map_err(|error| match error.kind() {
        NotFound | NotADirectory => Unread::Absent(NO_FILE.to_owned()),
        PermissionDenied => Unread::Absent(error.to_string()),
        _ => Unread::Unfit(error.to_string()),
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Unread::Unfit("it is a folder".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| Unread::Unfit(error.to_string()))?;
    text_of(bytes).map_err(Unread::Unfit)
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
}
