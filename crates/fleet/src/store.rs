//! What a fleet keeps in etcd, under which keys, and how it gets there and back. Every value is sealed.
//!
//! ```text
//!   PREFIX/rollout                   the state of the fleet: which generation, and how far its roll-out has come
//!   PREFIX/history/SERIAL            each state that it had, the newest ones
//!   PREFIX/generations/NAME/PART     the manifest of a generation
//!   PREFIX/contents/NAME/PART        a file of one or several generations
//!   PREFIX/nodes/NODE                what a node reports, while it is there (lease)
//!   PREFIX/driver, PREFIX/lock       who drives the roll-out; who pushes (lease)
//!   PREFIX/orders                    what operators have set over the configuration
//!   PREFIX/tickets                   masters of session tickets
//!   PREFIX/certificates/…, PREFIX/acknowledged/…    what nodes share of certificates that are ordered: `store/certificates.rs`
//! ```
//!
//! `orders`, `rollout` and `tickets` are what nodes follow: all keys from the first to the last, so that one watch sees, and one call reads, them and nothing else.
//!
//! Contents are never changed: their names follow from what is in them. What cannot be opened, or is not what its name says, is an error and nothing else.

pub mod certificates;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use config::FleetConfig;
use zeroize::Zeroizing;

use crate::etcd::{Client, Error, KeyValue, Settings, Watch, Write};
use crate::generation::{Bundle, MAX_BYTES, Manifest, is_name};
use crate::kept::{Kept, MAX_KEPT_BYTES, Unread};
use crate::rollout::{Report, Rollout};
use crate::seal::Seal;

/// Bytes of a part, before it is sealed: etcd takes 1.5 MiB at once.
const PART_BYTES: usize = 1 << 20;

/// Where nodes report.
const NODES: &str = "nodes/";

/// Largest manifest, bytes.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// What nodes follow: the first of its keys, and the last.
const FOLLOWED: (&str, &str) = ("orders", "tickets");

/// States that are kept in the history.
const KEPT_STATES: usize = 50;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// etcd is away; later it may be different.
    Away(String),
    /// What is there is wrong, or etcd rejects what is asked.
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Away(what) | Failure::Wrong(what)) = self;
        f.write_str(what)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Unreachable(_) => Failure::Away(error.to_string()),
            Error::Rejected(..) | Error::Invalid(_) | Error::Compacted(_) => Failure::Wrong(error.to_string()),
        }
    }
}

/// A fleet's part of etcd.
#[derive(Debug)]
pub struct Store {
    client: Client,
    seal: Arc<Seal>,
    prefix: String,
}

/// The state of the fleet as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// It.
    pub rollout: Rollout,
    /// The revision that wrote it.
    pub changed: i64,
}

/// What nodes follow, as it was at one moment. Values that nobody has opened yet are as they were found.
#[derive(Debug)]
pub struct Followed {
    /// The state of the fleet.
    pub rollout: Result<Option<Stored>, String>,
    entries: Vec<KeyValue>,
}

impl Followed {
    /// What there is of a kind.
    pub fn entry<T: Kept>(&self) -> Option<&KeyValue> {
        self.entries.iter().find(|entry| entry.key.rsplit('/').next() == Some(T::NAME))
    }
}

impl Store {
    /// Connects to nobody yet. `stop` ends every call within a moment once it is set.
    ///
    /// # Errors
    /// The key of the seal cannot be read.
    pub fn new(config: &FleetConfig, stop: Arc<AtomicBool>) -> Result<Store, String> {
        let seal = Arc::new(Seal::read(&config.seal_key)?);
        let FleetConfig { etcd, ca, identity, prefix, .. } = config.clone();
        let client = Client::new(Settings { endpoints: etcd, ca, identity }, stop);
        Ok(Store { client, seal, prefix })
    }

    /// The same over a connection of its own, for a last call that nothing ends.
    #[must_use]
    pub fn unstopped(&self) -> Store {
        let client = Client::new(self.client.settings().clone(), Arc::default());
        Store { client, seal: Arc::clone(&self.seal), prefix: self.prefix.clone() }
    }

    /// The revision of etcd, as its last response said it.
    pub fn revision(&self) -> i64 {
        self.client.revision()
    }

    fn key(&self, rest: &str) -> String {
        format!("{}/{rest}", self.prefix)
    }

    fn open(&self, entry: &KeyValue) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let KeyValue { key, value, .. } = entry;
        let what = "was not written for there by somebody who has the fleet's key";
        self.seal.open(key, value).ok_or_else(|| Failure::Wrong(format!("what etcd has at {key} {what}")))
    }

    fn close(&self, key: &str, content: &[u8]) -> Result<Vec<u8>, Failure> {
        self.seal.close(key, content).map_err(Failure::Wrong)
    }

    /// The state of the fleet; none if nothing was ever pushed.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn rollout(&mut self) -> Result<Option<Stored>, Failure> {
        let key = self.key("rollout");
        let Some(entry) = self.client.get(&key)? else { return Ok(None) };
        self.stored(&entry).map(Some)
    }

    fn stored(&self, entry: &KeyValue) -> Result<Stored, Failure> {
        let content = self.open(entry)?;
        let rollout = Rollout::read(&content).map_err(|what| Failure::Wrong(format!("{}: {what}", entry.key)))?;
        Ok(Stored { rollout, changed: entry.changed })
    }

    /// What nodes follow.
    ///
    /// # Errors
    /// See [`Failure`]; what is wrong with one of the values is said in its place.
    pub fn followed(&mut self) -> Result<Followed, Failure> {
        let (first, last) = FOLLOWED;
        let entries = self.client.list_between(&self.key(first), &self.key(last))?;
        let key = self.key("rollout");
        let rollout = entries.iter().find(|entry| entry.key == key).map(|entry| self.stored(entry)).transpose();
        Ok(Followed { rollout: rollout.map_err(|failure| failure.to_string()), entries })
    }

    /// Watches what nodes follow for changes after what was read last.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn watch(&mut self) -> Result<Watch, Failure> {
        let (first, last) = FOLLOWED;
        let (first, last, from) = (self.key(first), self.key(last), self.client.revision() + 1);
        Ok(self.client.watch_between(&first, &last, from)?)
    }

    /// A value of a kind, with the revision that wrote it; none if there is none.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn kept<T: Kept>(&mut self) -> Result<Option<(T, i64)>, Failure> {
        let Some(entry) = self.client.get(&self.key(T::NAME))? else { return Ok(None) };
        Ok(Some((self.read_kept(&entry.value).map_err(Failure::Wrong)?, entry.changed)))
    }

    /// The revision that wrote the value of a kind, whatever it is; 0 if there is none.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn kept_since<T: Kept>(&mut self) -> Result<i64, Failure> {
        Ok(self.client.get(&self.key(T::NAME))?.map_or(0, |entry| entry.changed))
    }

    /// Makes this the value of its kind, if the one before was written by this revision (0: there was none); whether it did.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn put_kept<T: Kept>(&mut self, value: &T, before: i64) -> Result<bool, Failure> {
        let key = self.key(T::NAME);
        let content = value.write();
        if content.len() as u64 > MAX_KEPT_BYTES - 64 {
            return Err(Failure::Wrong(format!("{} are too large: {} bytes", T::NAME, content.len())));
        }
        let sealed = self.close(&key, &content)?;
        Ok(self.client.write_if(&[(key.as_str(), before)], &[Write::Put(&key, &sealed, 0)])?)
    }

    /// Opens and reads a value as it is in the store, wherever it was found.
    ///
    /// # Errors
    /// It was not sealed for there, is of a later version, or breaks its form; in words.
    pub fn read_kept<T: Kept>(&self, sealed: &[u8]) -> Result<T, String> {
        let key = self.key(T::NAME);
        let stranger =
            || format!("what etcd has at {key} was not written for there by somebody who has the fleet's key");
        let content = self.seal.open(&key, sealed).ok_or_else(stranger)?;
        T::read(&content).map_err(|unread| match unread {
            Unread::Newer => format!(
                "{} are of a later version than this program ({}); upgrade this node first",
                T::NAME,
                env!("CARGO_PKG_VERSION")
            ),
            Unread::Invalid => format!("{} break their form", T::NAME),
        })
    }

    /// Makes this the state of the fleet, if the one before was written by this revision (0: there was none) and `still` holds a key that was made by
    /// another; whether it did.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn change(&mut self, rollout: &Rollout, before: i64, still: Option<(&str, i64)>) -> Result<bool, Failure> {
        let (key, history) = (self.key("rollout"), self.key(&format!("history/{:020}", rollout.serial)));
        let text = rollout.write();
        let (now, kept) = (self.close(&key, text.as_bytes())?, self.close(&history, text.as_bytes())?);
        let holder = still.map(|(name, changed)| (self.key(name), changed));
        let mut unchanged = vec![(key.as_str(), before)];
        unchanged.extend(holder.iter().map(|(name, changed)| (name.as_str(), *changed)));
        Ok(self.client.write_if(&unchanged, &[Write::Put(&key, &now, 0), Write::Put(&history, &kept, 0)])?)
    }

    /// The states that the fleet had, the newest first. What cannot be read of them is left out.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn history(&mut self) -> Result<Vec<Rollout>, Failure> {
        let entries = self.client.list(&self.key("history/"), false)?;
        let read = |entry: &KeyValue| Rollout::read(&self.open(entry).ok()?).ok();
        Ok(entries.iter().rev().filter_map(read).collect())
    }

    /// Stores a generation; gives its name. What is there already stays.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn upload(&mut self, bundle: &Bundle) -> Result<String, Failure> {
        let manifest = Manifest::of(bundle, &self.seal);
        let mut done = BTreeSet::new();
        for (item, content) in manifest.files.iter().zip(bundle.files.values()) {
            if done.insert(&item.name) {
                self.store("contents", &item.name, content)?;
            }
        }
        // Last, so that all it names is there.
        let text = manifest.write();
        let name = self.seal.name(text.as_bytes());
        self.store("generations", &name, text.as_bytes())?;
        Ok(name)
    }

    /// Stores a content in parts, the last of which is shorter than the others, unless the same is there.
    fn store(&mut self, kind: &str, name: &str, content: &[u8]) -> Result<(), Failure> {
        match self.content(kind, name, content.len() as u64) {
            Ok(_) => return Ok(()),
            Err(away @ Failure::Away(_)) => return Err(away),
            // It is not there, or not what it should be.
            Err(Failure::Wrong(_)) => {}
        }
        let whole = content.chunks_exact(PART_BYTES);
        let last = whole.remainder();
        for (number, part) in whole.chain([last]).enumerate() {
            let key = self.key(&format!("{kind}/{name}/{number:04}"));
            let sealed = self.close(&key, part)?;
            self.client.put(&key, &sealed, 0)?;
        }
        Ok(())
    }

    /// Reads a content of at most `max` bytes, and looks whether it is what its name says.
    fn content(&mut self, kind: &str, name: &str, max: u64) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut content = Zeroizing::new(Vec::new());
        for number in 0.. {
            let key = self.key(&format!("{kind}/{name}/{number:04}"));
            let Some(entry) = self.client.get(&key)? else {
                return Err(Failure::Wrong(format!("etcd has nothing at {key}")));
            };
            let part = self.open(&entry)?;
            content.extend_from_slice(&part);
            if content.len() as u64 > max || part.len() > PART_BYTES {
                return Err(Failure::Wrong(format!("what etcd has at {key} is too large")));
            }
            if part.len() < PART_BYTES {
                break;
            }
        }
        if self.seal.name(&content) == name {
            return Ok(content);
        }
        Err(Failure::Wrong(format!("what etcd has at {}/{kind}/{name} is something else", self.prefix)))
    }

    /// The manifest of a generation.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn manifest(&mut self, generation: &str) -> Result<Manifest, Failure> {
        let text = self.content("generations", generation, MAX_MANIFEST_BYTES)?;
        Manifest::read(&text).map_err(|error| Failure::Wrong(error.to_string()))
    }

    /// A generation, each file as its manifest says.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn download(&mut self, generation: &str) -> Result<(Manifest, Bundle), Failure> {
        let manifest = self.manifest(generation)?;
        let mut files = BTreeMap::new();
        for item in &manifest.files {
            let content = self.content("contents", &item.name, item.size.min(MAX_BYTES))?;
            if !item.is_of(&content) {
                return Err(Failure::Wrong(format!("the content of {:?} is not what its manifest says", item.path)));
            }
            files.insert(item.path.clone(), content);
        }
        let bundle = Bundle { main: manifest.main.clone(), files };
        Ok((manifest, bundle))
    }

    /// A lease.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn grant(&mut self, seconds: u64) -> Result<i64, Failure> {
        Ok(self.client.grant(seconds)?)
    }

    /// Keeps a lease; false if there is none any more.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn keep_alive(&mut self, lease: i64) -> Result<bool, Failure> {
        Ok(self.client.keep_alive(lease)?)
    }

    /// Ends a lease with all that was written under it.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn revoke(&mut self, lease: i64) -> Result<(), Failure> {
        Ok(self.client.revoke(lease)?)
    }

    /// Takes a key under a lease, if nobody has it: the revision that made it, if it is ours then.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn take(&mut self, name: &str, who: &str, lease: i64) -> Result<Result<i64, String>, Failure> {
        let key = self.key(name);
        let sealed = self.close(&key, who.as_bytes())?;
        self.client.write_if(&[(&key, 0)], &[Write::Put(&key, &sealed, lease)])?;
        let Some(entry) = self.client.get(&key)? else { return Ok(Err("nobody".to_owned())) };
        if entry.lease == lease {
            return Ok(Ok(entry.changed));
        }
        let holder = self.open(&entry).map(|who| String::from_utf8_lossy(&who).into_owned());
        Ok(Err(holder.unwrap_or_else(|_| "somebody without the fleet's key".to_owned())))
    }

    /// Gives up a key.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn release(&mut self, name: &str) -> Result<(), Failure> {
        Ok(self.client.delete(&self.key(name))?)
    }

    /// Writes what a node reports, for as long as its lease is kept.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn report(&mut self, node: &str, report: &Report, lease: i64) -> Result<(), Failure> {
        let key = self.key(&format!("{NODES}{node}"));
        let sealed = self.close(&key, report.write().as_bytes())?;
        Ok(self.client.put(&key, &sealed, lease)?)
    }

    /// What the nodes report that are there, by their names; and what of it cannot be read.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn reports(&mut self) -> Result<(BTreeMap<String, Report>, Vec<String>), Failure> {
        let prefix = self.key(NODES);
        let (mut reports, mut problems) = (BTreeMap::new(), Vec::new());
        for entry in self.client.list(&prefix, false)? {
            let read = self.open(&entry).map_err(|failure| failure.to_string());
            match read.and_then(|content| Report::read(&content).map_err(|what| format!("{}: {what}", entry.key))) {
                Ok(report) => {
                    _ = reports.insert(entry.key.strip_prefix(&prefix).unwrap_or_default().to_owned(), report)
                }
                Err(problem) => problems.push(problem),
            }
        }
        Ok((reports, problems))
    }

    /// Removes states beyond those that are kept, and what none of the rest refers to. Only for who has the lock.
    ///
    /// # Errors
    /// See [`Failure`]; nothing that is referred to is lost then.
    pub fn tidy(&mut self) -> Result<(), Failure> {
        let states = self.client.list(&self.key("history/"), false)?;
        let (old, kept) = states.split_at(states.len().saturating_sub(KEPT_STATES));
        let mut generations = BTreeSet::new();
        for entry in kept {
            let state = Rollout::read(&self.open(entry)?).map_err(Failure::Wrong)?;
            generations.extend([Some(state.generation), state.previous].into_iter().flatten());
        }
        let mut contents = BTreeSet::new();
        for generation in &generations {
            match self.manifest(generation) {
                Ok(manifest) => contents.extend(manifest.files.into_iter().map(|item| item.name)),
                Err(away @ Failure::Away(_)) => return Err(away),
                // Whoever wants it will hear of it; what it needed is not known.
                Err(Failure::Wrong(_)) => return Ok(()),
            }
        }
        for entry in old {
            self.client.delete(&entry.key)?;
        }
        for (kind, kept) in [("generations/", &generations), ("contents/", &contents)] {
            let prefix = self.key(kind);
            for entry in self.client.list(&prefix, true)? {
                let name = entry.key.strip_prefix(&prefix).and_then(|rest| rest.split('/').next()).unwrap_or_default();
                if is_name(name) && !kept.contains(name) {
                    self.client.delete(&entry.key)?;
                }
            }
        }
        Ok(())
    }
}
