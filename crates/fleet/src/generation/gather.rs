//! The files that a configuration is made of: its own, those that it includes, and those that it names by relative paths.
//!
//! What an API document refers to is not known before it is loaded: every YAML and JSON file beside and below it comes with it. Whoever checks the folder
//! that the bundle makes sees whether anything is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use config::Config;
use keystore::files;

use super::{Bundle, MAX_BYTES, MAX_FILES, check_path};

/// Endings of files that API documents may refer to.
const DOCUMENT_ENDINGS: [&str; 4] = ["yaml", "yml", "json", "graphql"];

/// How deep folders are read.
const MAX_DEPTH: usize = 16;

/// A bundle, and what is not in it.
#[derive(Debug)]
pub struct Gathered {
    /// The generation.
    pub bundle: Bundle,
    /// Absolute paths: each node's own.
    pub own: BTreeSet<PathBuf>,
}

/// Reads all that the configuration in `file` is made of.
///
/// # Errors
/// A relative path leads out of the folder of the file, something cannot be read, or it is too much: each problem, and what to do.
pub fn gather(file: &Path, config: &Config) -> Result<Gathered, Vec<String>> {
    let base = file.parent().unwrap_or(Path::new(""));
    let mut gathering =
        Gathering { base, files: BTreeMap::new(), own: BTreeSet::new(), bytes: 0, problems: Vec::new() };
    gathering.add(file, 0);
    for included in &config.included {
        let names = std::fs::read_dir(&included.folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| included.means(name)) {
            gathering.add(&included.folder.join(name), 0);
        }
    }
    config.named_files.iter().for_each(|path| gathering.add(path, 0));
    for contract in config.contracts.values().filter(|contract| contract.document_text.is_none()) {
        let folder = contract.options.folder.as_deref().or(contract.document.parent()).unwrap_or(Path::new(""));
        gathering.add_documents(folder, 0);
    }
    let main = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if gathering.problems.is_empty() {
        return Ok(Gathered { bundle: Bundle { main, files: gathering.files }, own: gathering.own });
    }
    Err(gathering.problems)
}

struct Gathering<'a> {
    base: &'a Path,
    files: BTreeMap<String, zeroize::Zeroizing<Vec<u8>>>,
    own: BTreeSet<PathBuf>,
    bytes: u64,
    problems: Vec<String>,
}

impl Gathering<'_> {
    /// Where a path is below the folder; none if it is not below it.
    fn below(&self, path: &Path) -> Option<String> {
        let relative = path.strip_prefix(self.base).ok()?;
        let mut names: Vec<&str> = Vec::new();
        for component in relative.components() {
            match component {
                Component::Normal(name) => names.push(name.to_str()?),
                Component::CurDir => {}
                Component::ParentDir => _ = names.pop()?,
                Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        Some(names.join("/"))
    }

    /// Adds a file, or all that is in a folder, but for what is hidden there.
    fn add(&mut self, path: &Path, depth: usize) {
        let Some(relative) = self.below(path) else {
            if path.is_absolute() && !path.components().any(|component| component == Component::ParentDir) {
                self.own.insert(path.to_owned());
            } else {
                self.problems.push(format!(
                    "{}: lies outside of the folder of the configuration; move it below that, or name it by its absolute path if each node has its own",
                    path.display()
                ));
            }
            return;
        };
        if path.is_dir() {
            return self.each_in(path, depth, |gathering, path| gathering.add(path, depth + 1));
        }
        if self.files.contains_key(&relative) {
            return;
        }
        if let Err(what) = check_path(&relative) {
            return self.problems.push(what);
        }
        match files::read(path, MAX_BYTES) {
            Err(problem) => self.problems.push(problem),
            Ok(content) => {
                self.bytes += content.len() as u64;
                if self.files.len() >= MAX_FILES || self.bytes > MAX_BYTES {
                    let problem = format!(
                        "{}: a generation has at most {MAX_FILES} files and {} MiB; name what is large by its absolute path, and put it there on each node",
                        path.display(),
                        MAX_BYTES >> 20
                    );
                    // Once: each further file would say the same.
                    return if self.problems.is_empty() {
                        self.problems.push(problem)
                    };
                }
                self.files.insert(relative, content);
            }
        }
    }

    /// Adds what API documents in a folder may refer to.
    fn add_documents(&mut self, folder: &Path, depth: usize) {
        if self.below(folder).is_none() {
            return;
        }
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        self.each_in(folder, depth, |gathering, path| {
            let is_document = |end: &str| DOCUMENT_ENDINGS.iter().any(|known| end.eq_ignore_ascii_case(known));
            if path.is_dir() {
                gathering.add_documents(path, depth + 1);
            } else if path.extension().and_then(|end| end.to_str()).is_some_and(is_document) {
                gathering.add(path, depth);
            }
        });
    }

    fn each_in(&mut self, folder: &Path, depth: usize, mut act: impl FnMut(&mut Self, &Path)) {
        if depth > MAX_DEPTH {
            return self.problems.push(format!("{}: deeper than {MAX_DEPTH} folders", folder.display()));
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.problems.push(format!("{}: {error}", folder.display())),
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort_unstable();
        let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        for path in paths.iter().filter(|path| !is_hidden(path)) {
            let path = path.strip_prefix("./").unwrap_or(path);
            act(self, path);
        }
    }
}
