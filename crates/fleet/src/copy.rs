//! What a node knows of a value that all nodes share, so that it outlives a restart of everything.
//!
//! The newest one that a node knows counts, wherever it is: a store that lost it, or shows an older one, gets it back. So nobody who can write to the store
//! but has not the fleet's key can take it away or have an older one obeyed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keystore::files;

use crate::etcd::KeyValue;
use crate::kept::{Kept, MAX_KEPT_BYTES};
use crate::store::{Failure, Store};

/// What a node knows of such a value.
#[derive(Debug)]
pub struct Copy<T> {
    file: PathBuf,
    known: Option<Arc<T>>,
    problem: Option<String>,
}

impl<T: Kept> Copy<T> {
    /// As it is on the disk. What cannot be read there is a problem, until the store has told it anew.
    pub fn load(folder: &Path, store: &Store) -> Copy<T> {
        let file = folder.join(T::NAME);
        let mut copy = Copy { file, known: None, problem: None };
        if copy.file.exists() {
            let sealed = files::read(&copy.file, MAX_KEPT_BYTES);
            match sealed.and_then(|sealed| store.read_kept(&sealed)) {
                Ok(known) => copy.known = Some(Arc::new(known)),
                Err(problem) => copy.problem = Some(format!("{}: {problem}", copy.file.display())),
            }
        }
        copy
    }

    /// It.
    pub fn known(&self) -> Option<&Arc<T>> {
        self.known.as_ref()
    }

    /// What is wrong, if anything is.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Looks at what the store has; whether that is news. A store that has less than is known here gets it.
    ///
    /// # Errors
    /// The store is away.
    pub fn look(&mut self, entry: Option<&KeyValue>, store: &mut Store) -> Result<bool, Failure> {
        let changed = entry.map_or(0, |entry| entry.changed);
        let found = match entry.map(|entry| store.read_kept::<T>(&entry.value)) {
            None => None,
            Some(Ok(found)) => Some(found),
            Some(Err(problem)) => {
                self.problem = Some(problem);
                return Ok(false);
            }
        };
        self.problem = None;
        let serial = |value: Option<&T>| value.map_or(0, Kept::serial);
        let (theirs, ours) = (serial(found.as_ref()), serial(self.known.as_deref()));
        let is_other = || found.as_ref().map(Kept::write) != self.known.as_ref().map(|known| known.write());
        match found {
            _ if theirs < ours => {
                self.give_back(changed, store)?;
                Ok(false)
            }
            Some(_) if !is_other() => Ok(false),
            Some(found) => {
                self.take(found, entry.map(|entry| entry.value.as_slice()).unwrap_or_default());
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Writes what is known here in the place of what that revision wrote.
    fn give_back(&mut self, changed: i64, store: &mut Store) -> Result<(), Failure> {
        let Some(known) = self.known.clone() else { return Ok(()) };
        match store.put_kept(&*known, changed) {
            Ok(true) => tracing::warn!("fleet: etcd had lost its newest {}; they are there again", T::NAME),
            // Another node was faster.
            Ok(false) => {}
            Err(Failure::Wrong(problem)) => self.problem = Some(problem),
            Err(away @ Failure::Away(_)) => return Err(away),
        }
        Ok(())
    }

    fn take(&mut self, found: T, sealed: &[u8]) {
        self.known = Some(Arc::new(found));
        if let Err(error) = files::replace(&self.file, sealed) {
            // It holds all the same, until a restart without the store.
            self.problem = Some(format!("{}: {error}", self.file.display()));
        }
    }
}
