//! The generations that a node keeps on its disk, so that it starts and goes on without etcd.
//!
//! ```text
//!   FOLDER/current                 which of them is served, and the newest state of the fleet that is known
//!   FOLDER/tried                   one that a start tries and that is not known to serve yet
//!   FOLDER/generations/NAME        the files of one, written once
//!   FOLDER/generations/NAME.json   its manifest, written when all of them are there
//! ```
//!
//! All of it is for us alone. A generation is there whole or not at all.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use keystore::files;
use net::trusted::{self, Closed, Owner};
use serde_json::{Value, json};

use crate::generation::{Bundle, Manifest, is_name};

/// Largest file of ours that is read, bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The folder.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

/// What is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Current {
    /// The generation.
    pub generation: String,
    /// The newest serial number that was obeyed.
    pub serial: u64,
    /// The revision of etcd at that time.
    pub revision: i64,
}

impl Cache {
    /// Makes the folder if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or others may write there.
    pub fn open(folder: &Path) -> Result<Cache, String> {
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        let generations = folder.join("generations");
        DirBuilder::new().recursive(true).mode(0o700).create(&generations).map_err(failed)?;
        for folder in [folder, &generations] {
            let found = fs::metadata(folder).map_err(failed)?;
            trusted::check(folder, &found, Owner::OursOrService, Closed::ToWriters)?;
        }
        Ok(Cache { folder: folder.to_owned() })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was served last; none if nothing ever was.
    ///
    /// # Errors
    /// The file that says so cannot be read.
    pub fn current(&self) -> Result<Option<Current>, String> {
        let path = self.folder.join("current");
        if !path.exists() {
            return Ok(None);
        }
        let content = files::read(&path, MAX_FILE_BYTES)?;
        let value: Value = serde_json::from_slice(&content).unwrap_or_default();
        let current = || {
            let generation = value.get("generation")?.as_str().filter(|name| is_name(name))?.to_owned();
            Some(Current {
                generation,
                serial: value.get("serial")?.as_u64()?,
                revision: value.get("revision")?.as_i64()?,
            })
        };
        current().map(Some).ok_or_else(|| format!("{}: damaged; remove it, and the node gets all anew", path.display()))
    }

    /// Notes what is served.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_current(&self, current: &Current) -> Result<(), String> {
        let path = self.folder.join("current");
        let Current { generation, serial, revision } = current;
        let text = json!({ "generation": generation, "serial": serial, "revision": revision }).to_string();
        files::replace(&path, text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The generation that a start tried last and that did not serve then.
    pub fn tried(&self) -> Option<String> {
        keystore::files::text(&self.folder.join("tried"), MAX_FILE_BYTES).ok()
    }

    /// Notes what a start tries; none once it serves.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_tried(&self, generation: Option<&str>) -> Result<(), String> {
        let path = self.folder.join("tried");
        let done = match generation {
            Some(generation) => files::replace(&path, generation.as_bytes()),
            None if path.exists() => fs::remove_file(&path),
            None => Ok(()),
        };
        done.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn place(&self, generation: &str) -> (PathBuf, PathBuf) {
        let folder = self.folder.join("generations");
        (folder.join(generation), folder.join(format!("{generation}.json")))
    }

    /// The configuration file of a generation, if all of it is there as it was written.
    ///
    /// # Errors
    /// It is not there, or damaged; which file.
    pub fn find(&self, generation: &str) -> Result<PathBuf, String> {
        let (folder, manifest) = self.place(generation);
        let manifest = Manifest::read(&files::read(&manifest, MAX_FILE_BYTES)?).map_err(|error| error.to_string())?;
        for item in &manifest.files {
            let path = folder.join(&item.path);
            if !item.is_of(&files::read(&path, item.size)?) {
                return Err(format!("{}: is not as it was written", path.display()));
            }
        }
        Ok(folder.join(&manifest.main))
    }

    /// Keeps a generation; gives its configuration file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, generation: &str, manifest: &Manifest, bundle: &Bundle) -> Result<PathBuf, String> {
        let (folder, list) = self.place(generation);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        bundle.write_into(&folder).map_err(failed)?;
        files::replace(&list, manifest.write().as_bytes()).map_err(failed)?;
        Ok(folder.join(&manifest.main))
    }

    /// Removes all generations but these. Empty folders may stay until the next start: a process in its sandbox removes files alone.
    pub fn tidy(&self, kept: &[&str]) {
        for entry in fs::read_dir(self.folder.join("generations")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !kept.contains(&name.trim_end_matches(".json"))
                && let Err(error) = remove(&entry.path())
            {
                let path = entry.path();
                tracing::warn!(path = %path.display(), %error, "fleet: what is not needed any more cannot be removed");
            }
        }
    }
}

/// Removes a file, or all files in a folder, and the folders themselves where that is allowed.
fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    for entry in fs::read_dir(path)? {
        remove(&entry?.path())?;
    }
    // See `tidy`.
    let _ = fs::remove_dir(path);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::seal::Seal;
    use std::os::unix::fs::PermissionsExt as _;
    use zeroize::Zeroizing;

    #[test]
    fn generations_are_whole_or_reported() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("a/b")).unwrap();
        assert_eq!(cache.current(), Ok(None));
        let (one, other) = ("1".repeat(64), "2".repeat(64));
        let files = [("portunus.yaml".to_owned(), Zeroizing::new(b"x".to_vec()))].into();
        let bundle = Bundle { main: "portunus.yaml".to_owned(), files };
        let manifest = Manifest::of(&bundle, &Seal::of(&[1; 32]).unwrap());
        assert!(cache.find(&one).is_err());
        let file = cache.keep(&one, &manifest, &bundle).unwrap();
        assert_eq!(cache.find(&one), Ok(file.clone()));
        fs::write(&file, "y").unwrap();
        assert!(cache.find(&one).unwrap_err().contains("is not as it was written"));
        assert_eq!(cache.keep(&one, &manifest, &bundle), Ok(file));
        cache.keep(&other, &manifest, &bundle).unwrap();
        cache.tidy(&[&other]);
        assert!(cache.find(&one).is_err() && cache.find(&other).is_ok());
        let current = Current { generation: other, serial: 7, revision: 9 };
        cache.set_current(&current).unwrap();
        assert_eq!(cache.current(), Ok(Some(current)));
        fs::write(cache.folder().join("current"), "{}").unwrap();
        assert!(cache.current().unwrap_err().contains("damaged"));
        fs::set_permissions(cache.folder(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::open(cache.folder()).unwrap_err().contains("other users may write"));
    }
}
