//! What nodes share of certificates that are ordered, in etcd. Every value is sealed; see `certificates.rs` for who writes what.
//!
//! ```text
//!   PREFIX/certificates/leader             who orders (lease)
//!   PREFIX/certificates/files/HASH         a file of the keystore's folder: when it was written, and its content
//!   PREFIX/certificates/proofs/ID          what is shown to an authority that looks (lease of who orders)
//!   PREFIX/certificates/demands/HASH       a name that a client of a node asks for (its lease)
//!   PREFIX/certificates/rejections/HASH    why such a name gets none (lease of who orders)
//!   PREFIX/acknowledged/NODE               up to which revision a node has taken up proofs (its lease)
//! ```
//!
//! Names of hosts and of keystores are nowhere in the clear: a key is a keyed hash of what it is about, and the sealed value says that in full. `acknowledged` is
//! not below `certificates`, or all nodes would watch what only the one that orders wants to know.

use std::collections::BTreeSet;

use zeroize::Zeroizing;

use super::{Failure, NODES, Store};
use crate::etcd::{KeyValue, Watch, Write};
use crate::seal::Seal;

/// Where all of it is.
const FOLDER: &str = "certificates/";

/// Who orders.
pub const LEADER: &str = "certificates/leader";

/// Where nodes say which proofs they show.
const SHOWN: &str = "acknowledged/";

/// Largest value, bytes, before it is sealed: files of a keystore's folder are smaller.
const MAX_VALUE_BYTES: usize = 512 << 10;

/// A file of a keystore's folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The keystore.
    pub keystore: String,
    /// Where it is in the folder, with `/`.
    pub path: String,
}

/// What a key stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// Who orders.
    Leader,
    /// A file.
    File(Place),
    /// A proof, by its name.
    Proof(String),
    /// A name that a node wants in a keystore.
    Demand(String, String, String),
    /// A name that is not had in a keystore.
    Rejection(String, String),
    /// What nobody but its value could tell, by its key below the folder: it was deleted, or overwritten by somebody without the seal.
    Unknown(String),
}

impl Item {
    /// That of a text in a value, or of a key that says it; none if it is none of ours.
    fn of(text: &str) -> Option<Item> {
        if text == "leader" {
            return Some(Item::Leader);
        }
        let (kind, rest) = text.split_once('/')?;
        let mut parts = rest.split('/').map(str::to_owned);
        match kind {
            "files" => {
                let (keystore, path) = rest.split_once('/')?;
                Some(Item::File(Place { keystore: keystore.to_owned(), path: path.to_owned() }))
            }
            "proofs" => Some(Item::Proof(rest.to_owned())),
            "demands" => Some(Item::Demand(parts.next()?, parts.next()?, parts.next()?)),
            "rejections" => Some(Item::Rejection(parts.next()?, parts.next()?)),
            _ => None,
        }
    }

    /// In full.
    fn text(&self) -> String {
        match self {
            Item::Leader => "leader".to_owned(),
            Item::File(Place { keystore, path }) => format!("files/{keystore}/{path}"),
            Item::Proof(id) => format!("proofs/{id}"),
            Item::Demand(keystore, name, node) => format!("demands/{keystore}/{name}/{node}"),
            Item::Rejection(keystore, name) => format!("rejections/{keystore}/{name}"),
            Item::Unknown(key) => key.clone(),
        }
    }

    /// Its key below the folder: what could be read from it is hashed.
    pub fn key(&self, seal: &Seal) -> String {
        let text = self.text();
        match self {
            Item::Leader | Item::Proof(_) | Item::Unknown(_) => text,
            Item::File(_) | Item::Demand(..) | Item::Rejection(..) => {
                let kind = text.split('/').next().unwrap_or_default();
                format!("{kind}/{}", seal.place(&text))
            }
        }
    }
}

/// A value with what it is about before it, as it is sealed.
fn labelled(text: &str, value: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(4 + text.len() + value.len()));
    bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// What a value is about, and the rest of it; none if it does not say so.
pub fn unlabelled(bytes: &[u8]) -> Option<(Item, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, value) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some((Item::of(std::str::from_utf8(text).ok()?)?, value))
}

/// A file as it is in the store: when it was written, in milliseconds since 1970, and its content; none if it was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// When. Grows with each change.
    pub at: u64,
    /// What.
    pub content: Option<Zeroizing<Vec<u8>>>,
}

impl Written {
    /// As it is sealed.
    pub fn write(&self) -> Zeroizing<Vec<u8>> {
        let content = self.content.as_ref().map_or(&[][..], |content| content);
        let mut bytes = Zeroizing::new(Vec::with_capacity(9 + content.len()));
        bytes.extend_from_slice(&self.at.to_be_bytes());
        bytes.push(u8::from(self.content.is_some()));
        bytes.extend_from_slice(content);
        bytes
    }

    /// Reads what was sealed; none if that is something else.
    pub fn read(bytes: &[u8]) -> Option<Written> {
        let (at, rest) = bytes.split_first_chunk()?;
        let content = match rest.split_first()? {
            (0, []) => None,
            (1, content) => Some(Zeroizing::new(content.to_vec())),
            _ => return None,
        };
        Some(Written { at: u64::from_be_bytes(*at), content })
    }
}

/// What is in the store, or was.
#[derive(Debug)]
pub struct Found {
    /// Of which key.
    pub item: Item,
    /// What it holds; none if it was deleted, or was not written there by somebody who has the seal.
    pub value: Option<Zeroizing<Vec<u8>>>,
    /// It was deleted.
    pub is_deletion: bool,
}

impl Store {
    /// All of it that is there now, and the first revision that may change it further: what changes while it is read is seen again from there.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn certificates(&mut self) -> Result<(Vec<Found>, i64), Failure> {
        let (entries, revision) = self.client.list_since(&self.key(FOLDER))?;
        Ok((entries.iter().filter_map(|entry| self.found(entry, false)).collect(), revision + 1))
    }

    /// Who orders; none if nobody does.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn orders_certificates(&mut self) -> Result<Option<String>, Failure> {
        let Some(entry) = self.client.get(&self.key(LEADER))? else { return Ok(None) };
        Ok(Some(String::from_utf8_lossy(&self.open(&entry)?).into_owned()))
    }

    /// Watches it for changes from this revision on.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn watch_certificates(&mut self, from: i64) -> Result<Watch, Failure> {
        Ok(self.client.watch(&self.key(FOLDER), from)?)
    }

    /// What a change means; none if it is of no key of ours.
    pub fn found(&self, entry: &KeyValue, is_deletion: bool) -> Option<Found> {
        let key = entry.key.strip_prefix(&self.key(FOLDER))?;
        let opened = if is_deletion || key == "leader" { None } else { self.seal.open(&entry.key, &entry.value) };
        if let Some((item, value)) = opened.as_deref().and_then(|bytes| unlabelled(bytes))
            && item.key(&self.seal) == key
        {
            let value = (value.len() <= MAX_VALUE_BYTES).then(|| Zeroizing::new(value.to_vec()));
            return Some(Found { item, value, is_deletion });
        }
        let item = Item::of(key).filter(|item| matches!(item, Item::Leader | Item::Proof(_)));
        Some(Found { item: item.unwrap_or_else(|| Item::Unknown(key.to_owned())), value: None, is_deletion })
    }

    /// Whether this is the key of a file.
    pub fn is_of_file(&self, key: &str, place: &Place) -> bool {
        Item::File(place.clone()).key(&self.seal) == key
    }

    /// Writes a file, if the key of who orders was made by this revision; whether it did.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn write_file(&mut self, place: &Place, written: &Written, leader: i64) -> Result<bool, Failure> {
        self.write_as(&Item::File(place.clone()), &written.write(), 0, leader)
    }

    /// Writes a value that ends with a lease, under the same condition.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn write_as(&mut self, item: &Item, value: &[u8], lease: i64, leader: i64) -> Result<bool, Failure> {
        let (key, sealed) = self.sealed(item, value)?;
        let holder = self.key(LEADER);
        Ok(self.client.write_if(&[(&holder, leader)], &[Write::Put(&key, &sealed, lease)])?)
    }

    /// Writes a value that ends with a lease.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn write_leased(&mut self, item: &Item, value: &[u8], lease: i64) -> Result<(), Failure> {
        let (key, sealed) = self.sealed(item, value)?;
        Ok(self.client.put(&key, &sealed, lease)?)
    }

    /// Removes it.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn remove(&mut self, item: &Item) -> Result<(), Failure> {
        let key = item.key(&self.seal);
        self.release(&format!("{FOLDER}{key}"))
    }

    /// The key of a value, and the value as it is there.
    fn sealed(&self, item: &Item, value: &[u8]) -> Result<(String, Vec<u8>), Failure> {
        let text = item.text();
        if value.len() > MAX_VALUE_BYTES {
            return Err(Failure::Wrong(format!("{text} is larger than {MAX_VALUE_BYTES} bytes")));
        }
        let key = self.key(&format!("{FOLDER}{}", item.key(&self.seal)));
        let sealed = self.close(&key, &labelled(&text, value))?;
        Ok((key, sealed))
    }

    /// Says that a node has taken up all proofs up to this revision.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn write_shown(&mut self, node: &str, revision: i64, lease: i64) -> Result<(), Failure> {
        let key = self.key(&format!("{SHOWN}{node}"));
        let sealed = self.close(&key, &revision.to_be_bytes())?;
        Ok(self.client.put(&key, &sealed, lease)?)
    }

    /// The nodes that are there and have not taken up the proofs of this revision yet, also such as have not taken up any.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn not_shown(&mut self, revision: i64) -> Result<Vec<String>, Failure> {
        let (nodes, prefix) = (self.key(NODES), self.key(SHOWN));
        let there = self.client.list(&nodes, true)?;
        let entries = self.client.list(&prefix, false)?;
        let name = |entry: &KeyValue, prefix: &str| entry.key.strip_prefix(prefix).map(str::to_owned);
        let mut late: BTreeSet<String> = there.iter().filter_map(|entry| name(entry, &nodes)).collect();
        for entry in &entries {
            let Some(node) = name(entry, &prefix) else { continue };
            let opened = self.seal.open(&entry.key, &entry.value);
            let at = opened.and_then(|at| Some(i64::from_be_bytes(at.as_slice().try_into().ok()?)));
            // Who cannot say it cannot be waited for.
            if at.is_some_and(|at| at < revision) {
                late.insert(node);
            } else {
                late.remove(&node);
            }
        }
        Ok(late.into_iter().collect())
    }

    /// Removes the key of who orders, if this revision made it.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn resign(&mut self, leader: i64) -> Result<bool, Failure> {
        let holder = self.key(LEADER);
        Ok(self.client.write_if(&[(&holder, leader)], &[Write::Delete(&holder)])?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn values_say_what_they_are_about_and_keys_do_not() {
        let (seal, other) = (Seal::of(&[1; 32]).unwrap(), Seal::of(&[2; 32]).unwrap());
        let place = Place { keystore: "main".to_owned(), path: "certificates/a.test.ecdsa.pem".to_owned() };
        let text = |text: &str| text.to_owned();
        for (item, kind) in [
            (Item::Leader, "leader"),
            (Item::File(place), "files/"),
            (Item::Proof(text("0a")), "proofs/0a"),
            (Item::Demand(text("main"), text("a.test"), text("n1")), "demands/"),
            (Item::Rejection(text("main"), text("a.test")), "rejections/"),
        ] {
            assert_eq!(unlabelled(&labelled(&item.text(), b"value")), Some((item.clone(), &b"value"[..])));
            let key = item.key(&seal);
            assert!(key.starts_with(kind) && !key.contains("main") && !key.contains("test"), "{key}");
            assert!(
                key.len() < 16 || key != item.key(&other),
                "{key}: who has not the key of the fleet cannot guess it"
            );
        }
        for other in ["", "files", "files/main", "other/x", "demands/main/a.test", "leader/x"] {
            assert_eq!(unlabelled(&labelled(other, b"")), None, "{other}");
        }
        for other in [&b""[..], &[0, 0, 0, 7], &[0, 0, 0, 1, 255], &[255; 9]] {
            assert_eq!(unlabelled(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_file_reads_back_and_what_is_none_does_not() {
        for content in [None, Some(Zeroizing::new(Vec::new())), Some(Zeroizing::new(b"x".to_vec()))] {
            let written = Written { at: 7, content };
            assert_eq!(Written::read(&written.write()), Some(written));
        }
        for other in [&b""[..], &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 1, 2], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 9]] {
            assert_eq!(Written::read(other), None, "{other:?}");
        }
    }
}
