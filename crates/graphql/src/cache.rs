//! Documents that were validated, so that the few that an ordinary client sends are validated once. Bounded; of one thread.

use std::collections::HashMap;
use std::rc::Rc;

use apollo_compiler::ExecutableDocument;
use apollo_compiler::validation::Valid;

/// Documents that are remembered.
const MAX_DOCUMENTS: usize = 256;

/// Bytes of their text.
const MAX_BYTES: usize = 1024 * 1024;

/// Lexical tokens in them all, each of which may become some 200 bytes.
const MAX_TOKENS: usize = 65_536;

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
    documents: HashMap<Key, Kept>,
    bytes: usize,
    tokens: usize,
}

#[derive(Debug)]
struct Kept {
    document: Rc<Valid<ExecutableDocument>>,
    tokens: usize,
}

impl Cache {
    /// The document with this text, if it is remembered.
    pub(crate) fn get(&mut self, endpoint: u64, query: &str) -> Option<Rc<Valid<ExecutableDocument>>> {
        let key: Key = (endpoint, query.into());
        if let Some(found) = self.newer.documents.get(&key) {
            return Some(Rc::clone(&found.document));
        }
        let (key, found) = self.older.documents.remove_entry(&key)?;
        let document = Rc::clone(&found.document);
        self.keep(key, found);
        Some(document)
    }

    /// Remembers a document that is valid, and has so many tokens.
    pub(crate) fn put(&mut self, endpoint: u64, query: &str, tokens: usize, document: Rc<Valid<ExecutableDocument>>) {
        let is_small = query.len() <= MAX_BYTES / 2 && tokens <= MAX_TOKENS / 2;
        if is_small {
            self.keep((endpoint, query.into()), Kept { document, tokens });
        }
    }

    fn keep(&mut self, key: Key, kept: Kept) {
        let is_full = self.newer.documents.len() >= MAX_DOCUMENTS / 2
            || self.newer.bytes.saturating_add(key.1.len()) > MAX_BYTES / 2
            || self.newer.tokens.saturating_add(kept.tokens) > MAX_TOKENS / 2;
        if is_full {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.bytes += key.1.len();
        self.newer.tokens += kept.tokens;
        self.newer.documents.insert(key, kept);
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
