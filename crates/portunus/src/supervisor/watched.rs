//! Which changes of files are news: those of what a configuration names, and of nothing else that lies beside it.
//!
//! A log that is written into a watched folder must not make us reload, log that, and reload again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use config::Included;
use notify::{Event, RecursiveMode};

/// Folders to watch, and what counts in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    /// Folders of single files, and how those are called. Files are replaced by renaming, so it is the folder that is watched.
    files: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// Folders in which every file counts, and those of the folders in them.
    whole: BTreeSet<PathBuf>,
    /// What we write ourselves.
    own: Vec<PathBuf>,
    /// The configuration file.
    configuration: Option<PathBuf>,
    /// What it includes.
    included: Vec<Included>,
}

/// What an event is news of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct News {
    /// The configuration file.
    pub configuration: bool,
    /// Something that it names.
    pub named: bool,
}

impl Watched {
    /// Nothing but the configuration file, if that is to be watched.
    pub fn new(configuration: Option<&Path>) -> Watched {
        // The kernel's names of what this process writes to, wherever that was led.
        let own = vec!["/proc/self/fd/1".into(), "/proc/self/fd/2".into()];
        Watched { own, configuration: configuration.map(absolute), ..Watched::default() }
    }

    /// What the configuration includes is part of it.
    pub fn add_included(&mut self, included: &[Included]) {
        if self.configuration.is_some() {
            let absolute = |one: &Included| Included { folder: absolute(&one.folder), name: one.name.clone() };
            self.included.extend(included.iter().map(absolute));
        }
    }

    /// A file that this process writes; changes of it are no news.
    pub fn add_own(&mut self, file: &Path) {
        self.own.push(file.to_owned());
    }

    /// A folder in which every file counts.
    pub fn add_folder(&mut self, folder: &Path) {
        self.whole.insert(absolute(folder));
    }

    /// A file that counts, whatever else lies in its folder.
    pub fn add_file(&mut self, file: &Path) {
        let file = absolute(file);
        if let (Some(folder), Some(name)) = (file.parent(), file.file_name()) {
            self.files.entry(folder.to_owned()).or_default().insert(name.to_owned());
        }
    }

    /// Whether the configuration file is watched.
    pub fn has_configuration(&self) -> bool {
        self.configuration.is_some()
    }

    /// Each folder once, and whether what is below it counts too.
    pub fn folders(&self) -> BTreeMap<&Path, RecursiveMode> {
        let configuration = self.configuration.iter().filter_map(|file| file.parent());
        let included = self.included.iter().map(|included| included.folder.as_path());
        let single = self.files.keys().map(PathBuf::as_path).chain(configuration).chain(included);
        let single = single.map(|folder| (folder, RecursiveMode::NonRecursive));
        let whole = self.whole.iter().map(|folder| (folder.as_path(), RecursiveMode::Recursive));
        single.chain(whole).collect()
    }

    /// What should be read again because of an event.
    pub fn news(&self, event: &Event) -> News {
        if event.kind.is_access() {
            return News::default();
        }
        if event.paths.is_empty() {
            // Events were lost.
            return News { configuration: self.configuration.is_some(), named: true };
        }
        News {
            configuration: event.paths.iter().any(|path| self.is_configuration(path)),
            named: event.paths.iter().any(|path| self.concerns(path)),
        }
    }

    fn is_configuration(&self, path: &Path) -> bool {
        let Some(file) = &self.configuration else { return false };
        // Container platforms replace a link beside it that leads to the folder it is in.
        let leads_to_it = || fs::symlink_metadata(path).is_ok_and(|found| leads_on(&found));
        let in_folder_of = |folder: Option<&Path>| path.parent() == folder && leads_to_it();
        path == file
            || in_folder_of(file.parent())
            || self.included.iter().any(|included| {
                let is_meant = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| included.means(name));
                path.parent() == Some(&included.folder) && (is_meant || leads_to_it())
            })
    }

    fn concerns(&self, path: &Path) -> bool {
        if !self.is_watched(path) {
            return false;
        }
        let found = fs::symlink_metadata(path).ok();
        if self.whole.iter().any(|folder| path.starts_with(folder)) {
            return !found.is_some_and(|found| self.is_own(&found));
        }
        let is_named = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => self.files.get(folder).is_some_and(|names| names.contains(name)),
            _ => false,
        };
        // Container platforms replace the link or the folder through which all files are reached.
        is_named || found.is_some_and(|found| leads_on(&found))
    }

    /// Whether it lies where something named is. The folder of the configuration alone is watched for that one file.
    fn is_watched(&self, path: &Path) -> bool {
        let folder = path.parent();
        folder.is_some_and(|folder| self.files.contains_key(folder))
            || self.whole.iter().any(|whole| path.starts_with(whole))
    }

    fn is_own(&self, found: &Metadata) -> bool {
        let is_same = |own: Metadata| (own.dev(), own.ino()) == (found.dev(), found.ino());
        self.own.iter().filter_map(|own| fs::metadata(own).ok()).any(is_same)
    }
}

/// Whether other files may be reached through it. A socket, such as ours for the admin side, is nothing that can be read.
fn leads_on(found: &Metadata) -> bool {
    found.is_symlink() || found.is_dir()
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
        let _socket = std::os::unix::net::UnixListener::bind(at("control.sock")).unwrap();
        let mut watched = Watched { own: vec![at("keys/access.log")], ..Watched::default() };
        watched.add_file(&at("keys.jks"));
        watched.whole.insert(at("keys"));
        let changed = |name: &str| Event::new(EventKind::Modify(ModifyKind::Any)).add_path(at(name));
        for (name, expected) in [
            ("keys.jks", true),
            ("other.txt", false),
            ("gone.txt", false),
            ("..data", true),
            ("keys", true),
            ("control.sock", false),
            ("keys/a.pem", true),
            ("keys/gone.pem", true),
            ("keys/access.log", false),
        ] {
            assert_eq!(watched.news(&changed(name)).named, expected, "{name}");
        }
        let access = Event::new(EventKind::Access(AccessKind::Any)).add_path(at("keys.jks"));
        assert_eq!(watched.news(&access), News::default());
        let lost = Event::new(EventKind::Other);
        assert_eq!(watched.news(&lost), News { configuration: false, named: true });
        assert_eq!(watched.folders().len(), 2);
    }

    #[test]
    fn what_the_configuration_includes_is_part_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("conf.d")).unwrap();
        for name in ["conf.d/a.yaml", "conf.d/a.yaml~", "conf.d/.b.yaml"] {
            fs::write(at(name), "x").unwrap();
        }
        let included = Included { folder: at("conf.d"), name: "*.yaml".to_owned() };
        let mut watched = Watched { configuration: Some(at("portunus.yaml")), ..Watched::default() };
        watched.add_included(std::slice::from_ref(&included));
        let changed = |name: &str| Event::new(EventKind::Modify(ModifyKind::Any)).add_path(at(name));
        for (name, configuration) in [
            ("conf.d/a.yaml", true),
            ("conf.d/gone.yaml", true),
            ("conf.d/a.yaml~", false),
            ("conf.d/.b.yaml", false),
            ("conf.d/a.txt", false),
            ("a.yaml", false),
        ] {
            assert_eq!(watched.news(&changed(name)), News { configuration, named: false }, "{name}");
        }
        assert_eq!(watched.folders().len(), 2);
        let mut unwatched = Watched::default();
        unwatched.add_included(&[included]);
        assert!(unwatched.folders().is_empty(), "with --no-watch nothing of it is watched");
    }

    #[test]
    fn the_configuration_is_news_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("portunus.yaml"), "x").unwrap();
        std::os::unix::fs::symlink("elsewhere", at("..data")).unwrap();
        let watched = Watched { configuration: Some(at("portunus.yaml")), ..Watched::default() };
        let changed = |name: &str| Event::new(EventKind::Modify(ModifyKind::Any)).add_path(at(name));
        for (name, configuration) in [("portunus.yaml", true), ("..data", true), ("other.yaml", false)] {
            assert_eq!(watched.news(&changed(name)), News { configuration, named: false }, "{name}");
        }
        assert_eq!(watched.folders().len(), 1);
    }
}
