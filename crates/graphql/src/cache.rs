//! Documents that were validated, so that the few that an ordinary client sends are validated once. Bounded; of one thread.

use std::collections::HashMap;
use std::rc::Rc;

use apollo_compiler::ExecutableDocument;
use apollo_compiler::validation::Valid;

/// Documents that are remembered.
const MAX_DOCUMENTS: usize = 256;

/// Bytes of their text; what is built of it takes some twenty times as much.
const MAX_BYTES: usize = 1024 * 1024;

/// Documents that were validated under the schema of an endpoint.
#[derive(Debug, Default)]
pub struct Cache {
    /// By endpoint and text. Two maps, so that what was asked for lately survives: what is found in the older one moves to the newer, and a full newer
    /// one becomes the older.
    newer: Generation,
    older: Generation,
}

/// What a valid document is remembered by: the number of the endpoint, and its text.
type Key = (u64, Rc<str>);

#[derive(Debug, Default)]
struct Generation {
    documents: HashMap<Key, Rc<Valid<ExecutableDocument>>>,
    bytes: usize,
}

impl Cache {
    /// The document with this text, if it is remembered.
    pub(crate) fn get(&mut self, endpoint: u64, query: &str) -> Option<Rc<Valid<ExecutableDocument>>> {
        let key: Key = (endpoint, query.into());
        if let Some(found) = self.newer.documents.get(&key) {
            return Some(Rc::clone(found));
        }
        let (key, found) = self.older.documents.remove_entry(&key)?;
        self.older.bytes = self.older.bytes.saturating_sub(key.1.len());
        self.keep(key, Rc::clone(&found));
        Some(found)
    }

    /// Remembers a document that is valid.
    pub(crate) fn put(&mut self, endpoint: u64, query: &str, document: Rc<Valid<ExecutableDocument>>) {
        self.keep((endpoint, query.into()), document);
    }

    fn keep(&mut self, key: Key, document: Rc<Valid<ExecutableDocument>>) {
        let is_full = self.newer.documents.len() >= MAX_DOCUMENTS / 2
            || self.newer.bytes.saturating_add(key.1.len()) > MAX_BYTES / 2;
        if is_full {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.bytes += key.1.len();
        self.newer.documents.insert(key, document);
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.newer.documents.len() + self.older.documents.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
