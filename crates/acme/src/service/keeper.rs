//! One keystore: what it wants, what is there, and what is due.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use config::{AcmeConfig, ChallengeKind};
use proxy::demands::share;
use tokio::sync::mpsc::UnboundedSender;

use super::entry::Entry;
use super::{News, Suggestion};
use crate::authority::Authority;
use crate::dns::Zones;
use crate::elsewhere::KeyServers;
use crate::foreign::is_same_directory;
use crate::internal;
use crate::on_demand::Gatekeeper;
use crate::storage::{Lock, Storage};
use crate::wanted::{Subject, Wanted};

/// What is kept of one keystore.
pub(super) struct Keeper {
    pub(super) acme: Arc<AcmeConfig>,
    pub(super) storage: Storage,
    /// What is wrong with the folder, as it was said last.
    pub(super) problem: Option<String>,
    pub(super) lock: Option<Lock>,
    pub(super) authorities: Vec<Rc<Authority>>,
    pub(super) kinds: Vec<ChallengeKind>,
    pub(super) zones: Option<Zones>,
    /// Who makes and keeps keys, if that is not done here.
    pub(super) key_servers: Option<Rc<KeyServers>>,
    pub(super) entries: BTreeMap<Wanted, Entry>,
    pub(super) has_said_whom_to_trust: bool,
    /// Certificates on demand, once those that are there were read.
    pub(super) on_demand: Option<Gatekeeper>,
    pub(super) is_loaded: bool,
}

impl Keeper {
    /// The group of key servers that keys are at.
    pub(super) fn key_group(&self) -> Option<&str> {
        self.key_servers.as_deref().map(|servers| servers.group.as_str())
    }

    /// Where files of a certificate are.
    pub(super) fn storage_of(&self, wanted: &Wanted) -> Storage {
        let is_on_demand = self.entries.get(wanted).is_some_and(|entry| entry.on_demand);
        if is_on_demand { self.storage.on_demand() } else { self.storage.clone() }
    }

    /// Logs, once, where the certificate of a CA of our own is.
    pub(super) fn say_whom_to_trust(&mut self, keystore: &str) {
        if !self.acme.is_internal || std::mem::replace(&mut self.has_said_whom_to_trust, true) {
            return;
        }
        let (path, fingerprint) = internal::place(&self.storage);
        let file = path.display().to_string();
        tracing::info!(keystore, file, sha256 = fingerprint, "clients must trust this development CA");
    }

    /// Reads what there is: certificates may have been removed, or ordered by another process.
    pub(super) async fn look(&mut self) {
        let usual = self.entries.iter().filter(|(_, entry)| !entry.on_demand);
        let all = usual.map(|(wanted, _)| wanted.clone()).collect();
        self.look_for(all).await;
    }

    /// Reads what there is of the certificate whose file is called so.
    pub(super) async fn look_at(&mut self, stem: &str) {
        let usual = self.entries.iter().filter(|(wanted, entry)| !entry.on_demand && wanted.stem() == stem);
        let all = usual.map(|(wanted, _)| wanted.clone()).collect();
        self.look_for(all).await;
    }

    async fn look_for(&mut self, all: Vec<Wanted>) {
        let storage = self.storage.clone();
        let read = tokio::task::spawn_blocking(move || {
            let known = |wanted: Wanted| {
                let (held, record) = (storage.held(&wanted), storage.record(&wanted));
                (wanted, (held, record))
            };
            all.into_iter().map(known).collect::<HashMap<_, _>>()
        });
        let Ok(mut read) = read.await else { return };
        for (wanted, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.running.is_none()) {
            if let Some((held, record)) = read.remove(wanted) {
                if entry.held != held {
                    (entry.window, entry.ask_again) = (None, None);
                }
                (entry.held, entry.record) = (held, record);
            }
        }
    }

    /// Whether this process is the one that orders. What keeps it from that is logged once.
    pub(super) async fn may_order(&mut self, name: &str) -> bool {
        if self.lock.is_some() {
            return true;
        }
        let storage = self.storage.clone();
        let locked = tokio::task::spawn_blocking(move || storage.make().and_then(|()| storage.lock())).await;
        let problem = match locked.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(Some(lock)) => {
                self.lock = Some(lock);
                self.problem = None;
                if internal::place(&self.storage).1.is_some() {
                    self.say_whom_to_trust(name);
                }
                // Another process may have ordered meanwhile.
                self.look().await;
                self.is_loaded = false;
                self.load_on_demand(SystemTime::now()).await;
                return true;
            }
            Ok(None) => "another process orders certificates into this folder".to_owned(),
            Err(problem) => problem,
        };
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(keystore = name, "no certificate is ordered: {problem}");
            self.problem = Some(problem);
        }
        false
    }

    /// Has authorities asked when they suggest to renew what they have issued: one question at a time.
    pub(super) fn ask_when_to_renew(&mut self, keystore: &str, now: SystemTime, sender: &UnboundedSender<News>) {
        if self.entries.values().any(|entry| entry.is_asking) {
            return;
        }
        for (wanted, entry) in &mut self.entries {
            let is_due = entry.running.is_none() && entry.ask_again.is_none_or(|again| again <= now);
            let (true, Some(held), Some(issuer)) = (is_due, &entry.held, &entry.record.issued_by) else { continue };
            let authority = self.authorities.iter().find(|authority| is_same_directory(&authority.config.url, issuer));
            let (Some(authority), Some(identifier)) = (authority.cloned(), held.identifier()) else { continue };
            let (sender, keystore) = (sender.clone(), keystore.to_owned());
            let (wanted, serial) = (wanted.clone(), held.serial.clone());
            entry.is_asking = true;
            tokio::task::spawn_local(async move {
                let said = authority.renewal_window(&identifier).await;
                let _ = sender.send(News::Asked(Suggestion { keystore, wanted, serial, said }));
            });
            return;
        }
    }

    /// What is to be ordered now, as [`Places::next`] says. Of one name, one order at a time.
    pub(super) fn due(&self, now: SystemTime) -> Vec<Wanted> {
        let running: BTreeSet<&Subject> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.running.is_some())
            .map(|(wanted, _)| &wanted.subject)
            .collect();
        let mut places = Places::of(self.acme.options.max_orders, self.entries.values());
        let is_due = |(wanted, entry): &(&Wanted, &Entry)| {
            let may = !entry.on_demand || entry.is_agreed;
            may && !running.contains(&wanted.subject) && entry.due(now, self.acme.options.retry_interval) <= now
        };
        let mut due: Vec<(&Wanted, &Entry)> = self.entries.iter().filter(is_due).collect();
        let mut chosen: Vec<Wanted> = Vec::new();
        while let Some(index) = places.next(&due) {
            let (wanted, entry) = due.swap_remove(index);
            places.take(entry.client);
            due.retain(|(other, _)| other.subject != wanted.subject);
            chosen.push(wanted.clone());
        }
        chosen
    }
}

/// Places of orders under way, of which one client has three quarters at most, and as long as others wait no more than they.
struct Places {
    most: usize,
    taken: usize,
    of_clients: HashMap<IpAddr, usize>,
}

impl Places {
    fn of<'e>(most: usize, entries: impl Iterator<Item = &'e Entry>) -> Places {
        let mut places = Places { most, taken: 0, of_clients: HashMap::new() };
        entries.filter(|entry| entry.running.is_some()).for_each(|entry| places.take(entry.client));
        places
    }

    fn take(&mut self, client: Option<IpAddr>) {
        self.taken += 1;
        client.into_iter().for_each(|client| *self.of_clients.entry(client).or_default() += 1);
    }

    fn count(&self, client: Option<IpAddr>) -> usize {
        client.and_then(|client| self.of_clients.get(&client).copied()).unwrap_or_default()
    }

    /// Which is ordered next, as long as there is a place: what nobody has to ask for before what clients ask for, what is missing before what ends, then for
    /// whom fewest are under way, and who came first.
    fn next(&self, due: &[(&Wanted, &Entry)]) -> Option<usize> {
        if self.taken >= self.most {
            return None;
        }
        let has_room = |entry: &Entry| self.count(entry.client) < share(self.most);
        let rank = |(wanted, entry): &(&Wanted, &Entry)| {
            let end = entry.held.as_ref().map_or(SystemTime::UNIX_EPOCH, |held| held.validity.not_after);
            (entry.on_demand, end, self.count(entry.client), entry.record.demanded, (*wanted).clone())
        };
        let open = due.iter().enumerate().filter(|(_, (_, entry))| has_room(entry));
        open.min_by_key(|(_, one)| rank(one)).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    /// The names in the order in which they are ordered while nothing ends, with so many places.
    fn ordered(most: usize, entries: &[(&str, Option<&str>, u64)]) -> Vec<String> {
        let known = entries.iter().map(|(name, client, second)| {
            let mut entry = Entry { on_demand: true, is_agreed: true, ..Entry::default() };
            entry.client = client.map(|client| client.parse().unwrap());
            entry.record.demanded = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(*second));
            (Wanted { subject: Subject::Name((*name).to_owned()), key_type: tls::KeyType::Ecdsa }, entry)
        });
        let known: BTreeMap<Wanted, Entry> = known.collect();
        let (mut places, mut due) = (Places::of(most, std::iter::empty()), known.iter().collect::<Vec<_>>());
        let mut names = Vec::new();
        while let Some(index) = places.next(&due) {
            let (wanted, entry) = due.swap_remove(index);
            places.take(entry.client);
            names.push(wanted.shown());
        }
        names
    }

    #[test]
    fn no_client_takes_all_places_of_orders() {
        let many = |name| (name, Some("192.0.2.1"), 1);
        let greedy = [many("a.test"), many("b.test"), many("c.test"), many("d.test"), many("e.test")];
        assert_eq!(ordered(4, &greedy), ["a.test", "b.test", "c.test"], "three of four");
        assert_eq!(ordered(1, &greedy), ["a.test"]);
        let with = |others: &[(&'static str, Option<&'static str>, u64)]| [&greedy, others].concat();
        assert_eq!(ordered(4, &with(&[("z.test", Some("2001:db8::"), 9)])), ["a.test", "z.test", "b.test", "c.test"]);
        // Of those whose client nobody knows, whoever came first; they are no one client.
        let unknown = [("y.test", None, 3), ("x.test", None, 4), ("w.test", None, 2)];
        assert_eq!(ordered(4, &with(&unknown)), ["a.test", "w.test", "y.test", "x.test"]);
    }
}
