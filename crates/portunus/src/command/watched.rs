//! Which changes of files are news: those of what a configuration names, and of nothing else that lies beside it.
//!
//! A log that is written into a watched folder must not make us reload, log that, and reload again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use notify::{Event, RecursiveMode};

use crate::config::Config;

/// Folders to watch, and what counts in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Watched {
    /// Folders of single files, and how those are called. Files are replaced by renaming, so it is the folder that is watched.
    files: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// Folders in which every file counts, and those of the folders in them.
    whole: BTreeSet<PathBuf>,
    /// What we write ourselves.
    own: Vec<PathBuf>,
}

impl Watched {
    /// Everything that a configuration names and that may change without it.
    pub(super) fn of(config: &Config) -> Watched {
        // The kernel's names of what this process writes to, wherever that was led.
        let mut watched =
            Watched { own: vec!["/proc/self/fd/1".into(), "/proc/self/fd/2".into()], ..Watched::default() };
        watched.own.extend(config.log.access.as_ref().and_then(|access| access.path.clone()));
        for keystore in config.keystores.values() {
            match &keystore.location {
                keystore::Location::PemFolder(folder) => _ = watched.whole.insert(absolute(folder)),
                keystore::Location::Pkcs12(file) | keystore::Location::Jks(file) => watched.add_file(file),
            }
        }
        config.contracts.values().flat_map(|contract| contract.files()).for_each(|file| watched.add_file(file));
        watched
    }

    fn add_file(&mut self, file: &Path) {
        let file = absolute(file);
        if let (Some(folder), Some(name)) = (file.parent(), file.file_name()) {
            self.files.entry(folder.to_owned()).or_default().insert(name.to_owned());
        }
    }

    /// Each folder once, and whether what is below it counts too.
    pub(super) fn folders(&self) -> BTreeMap<&Path, RecursiveMode> {
        let single = self.files.keys().map(|folder| (folder.as_path(), RecursiveMode::NonRecursive));
        let whole = self.whole.iter().map(|folder| (folder.as_path(), RecursiveMode::Recursive));
        single.chain(whole).collect()
    }

    /// Whether something happened that files should be read again for.
    pub(super) fn is_news(&self, event: &Event) -> bool {
        !event.kind.is_access() && (event.paths.is_empty() || event.paths.iter().any(|path| self.concerns(path)))
    }

    fn concerns(&self, path: &Path) -> bool {
        let found = fs::symlink_metadata(path).ok();
        if self.whole.iter().any(|folder| path.starts_with(folder)) {
            return !found.is_some_and(|found| self.is_own(&found));
        }
        let is_named = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => self.files.get(folder).is_some_and(|names| names.contains(name)),
            _ => false,
        };
        // Container platforms replace the link or the folder through which all files are reached.
        is_named || found.is_some_and(|found| !found.is_file())
    }

    fn is_own(&self, found: &Metadata) -> bool {
        let is_same = |own: Metadata| (own.dev(), own.ino()) == (found.dev(), found.ino());
        self.own.iter().filter_map(|own| fs::metadata(own).ok()).any(is_same)
    }
}

/// As the events name it.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::EventKind;
    use notify::event::{AccessKind, ModifyKind};

    #[test]
    fn what_lies_beside_is_no_news() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("keys")).unwrap();
        for name in ["keys.jks", "other.txt", "keys/a.pem", "keys/access.log"] {
            fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("keys", at("..data")).unwrap();
        let mut watched = Watched { own: vec![at("keys/access.log")], ..Watched::default() };
        watched.add_file(&at("keys.jks"));
        watched.whole.insert(at("keys"));
        let changed = |name: &str| Event::new(EventKind::Modify(ModifyKind::Any)).add_path(at(name));
        for (name, expected) in [
            ("keys.jks", true),
            ("other.txt", false),
            ("gone.txt", false),
            ("..data", true),
            ("keys/a.pem", true),
            ("keys/gone.pem", true),
            ("keys/access.log", false),
        ] {
            assert_eq!(watched.is_news(&changed(name)), expected, "{name}");
        }
        assert!(!watched.is_news(&Event::new(EventKind::Access(AccessKind::Any)).add_path(at("keys.jks"))));
        assert!(watched.is_news(&Event::new(EventKind::Other)), "events were lost");
        assert_eq!(watched.folders().len(), 2);
    }
}
