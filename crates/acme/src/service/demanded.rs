//! Certificates that clients ask for: what is agreed to, what is there from before, and what is forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use proxy::generation::Generation;
use telemetry::Reporter;
use tls::Identity;
use tokio::sync::mpsc::UnboundedSender;
use transport::NoCertificate;

use super::News;
use super::entry::Entry;
use super::keeper::Keeper;
use crate::on_demand;
use crate::wanted::{Subject, Wanted};

/// What is known of a name on demand that could not be had is forgotten after this time.
const FORGET_FAILURES: Duration = Duration::from_secs(4 * 3600);

impl Keeper {
    /// Reads, once, what was ordered on demand before: also for a process that may not order, so that it serves what another one has ordered.
    pub(super) async fn load_on_demand(&mut self, now: SystemTime) {
        let Some(gate) = self.on_demand.as_mut().filter(|_| !self.is_loaded) else { return };
        let (storage, config) = (self.storage.on_demand(), gate.config.clone());
        let read = tokio::task::spawn_blocking(move || {
            if let Err(problem) = storage.make().and_then(|()| storage.make_on_demand()) {
                tracing::warn!("{problem}");
            }
            let most = config.options.max_names.saturating_mul(2);
            let all = storage.stems(most).into_iter().filter_map(|stem| Wanted::of_stem(&stem));
            let allowed = all.filter(|wanted| wanted.names().iter().all(|name| config.allows(name)));
            let known = |wanted: Wanted| {
                let (held, record) = (storage.held(&wanted), storage.record(&wanted));
                let identity = held.as_ref().filter(|held| held.validity.not_after > now);
                let identity = identity.and_then(|_| storage.identity(&wanted));
                (wanted, held, record, identity)
            };
            allowed.map(known).collect::<Vec<_>>()
        });
        let Ok(read) = read.await else { return };
        self.is_loaded = true;
        let times: BTreeSet<(String, SystemTime)> =
            read.iter().filter_map(|(wanted, _, record, _)| Some((wanted.shown(), record.demanded?))).collect();
        gate.remember(times.into_iter().map(|(_, at)| at));
        // What was read before, by a process that could not order yet.
        self.entries.retain(|_, entry| !entry.on_demand);
        let mut served = Vec::new();
        for (wanted, held, record, identity) in read {
            if self.entries.contains_key(&wanted) {
                continue;
            }
            served.extend(identity.map(|identity| (wanted.shown().into_boxed_str(), identity)));
            self.entries.insert(wanted, Entry { held, record, on_demand: true, ..Entry::default() });
        }
        gate.demands.load(&served);
    }

    /// Looks at names that clients ask for, at certificates of them that are to be renewed, and at those that have expired.
    pub(super) async fn serve_demands(
        &mut self,
        keystore: &str,
        now: SystemTime,
        (reporter, sender, generations): (&Reporter, &UnboundedSender<News>, &Arc<ArcSwap<Generation>>),
    ) {
        self.forget_old(now).await;
        self.renew_on_demand(now);
        let Some(gate) = &mut self.on_demand else { return };
        let (new, asks) = (gate.demands.take(), gate.config.ask.is_some());
        for name in new {
            match (self.refusal(&name, now), &mut self.on_demand) {
                (Some(refusal), _) => self.refuse(keystore, &name, refusal, reporter),
                (None, Some(gate)) if asks => gate.enqueue(name),
                (None, _) => self.admit(&name, now),
            }
        }
        self.ask(keystore, sender, generations);
    }

    /// Asks about the names that wait for that, as many at once as may be.
    fn ask(&mut self, keystore: &str, sender: &UnboundedSender<News>, generations: &Arc<ArcSwap<Generation>>) {
        let Some(gate) = &mut self.on_demand else { return };
        let Some(asked) = gate.config.ask.clone() else { return };
        let entries = &self.entries;
        let is_held = |name: &str| {
            let subject = Subject::Name(name.to_owned());
            entries.iter().any(|(wanted, entry)| wanted.subject == subject && entry.held.is_some())
        };
        while let Some(name) = gate.next(is_held) {
            let (sender, keystore, asked) = (sender.clone(), keystore.to_owned(), asked.clone());
            let (limit, generations) = (gate.config.options.ask_timeout, Arc::clone(generations));
            tokio::task::spawn_local(async move {
                let answer = on_demand::ask(&asked, &name, limit, &generations).await;
                let _ = sender.send(News::Agreed { keystore, name, answer });
            });
        }
    }

    /// Somebody said whether a name may have a certificate, or did not.
    pub(super) fn note_answer(
        &mut self,
        keystore: &str,
        name: &str,
        answer: Result<bool, String>,
        reporter: &Reporter,
    ) {
        let Some(gate) = &mut self.on_demand else { return };
        let said = gate.note_answer(name, answer);
        let (now, subject) = (SystemTime::now(), Subject::Name(name.to_owned()));
        let is_held = self.entries.iter().any(|(wanted, entry)| wanted.subject == subject && entry.held.is_some());
        if !is_held {
            // There may be more names, and more orders, than when it was asked about.
            return match said.or_else(|| self.refusal(name, now)) {
                Some(refusal) => self.refuse(keystore, name, refusal, reporter),
                None => self.admit(name, now),
            };
        }
        for (_, entry) in self.entries.iter_mut().filter(|(wanted, _)| wanted.subject == subject) {
            entry.is_agreed = said.is_none();
            entry.refused_until = said.and_then(|(_, time)| now.checked_add(time));
        }
    }

    /// An order on demand ended: with what is to be served, if it came to something.
    pub(super) fn note_ordered(&self, name: &str, identity: Option<Arc<Identity>>) {
        let Some(gate) = &self.on_demand else { return };
        match identity {
            Some(identity) => gate.demands.serve(&[(name.into(), identity)]),
            // A name that has one of another type of key is served.
            None if gate.demands.has(name) => {}
            None => gate.demands.refuse(name, on_demand::FAILED, gate.config.options.refusal_time),
        }
    }

    /// Names on demand with an entry of which this is true.
    pub(super) fn names_on_demand(&self, counts: impl Fn(&Entry) -> bool) -> usize {
        let some = self.entries.iter().filter(|(_, entry)| entry.on_demand && counts(entry));
        some.map(|(wanted, _)| &wanted.subject).collect::<BTreeSet<_>>().len()
    }

    /// Why a name that has no certificate is refused whoever agrees to it, and for how long.
    pub(super) fn refusal(&mut self, name: &str, now: SystemTime) -> Option<(NoCertificate, Duration)> {
        let names = self.names_on_demand(|entry| entry.held.is_some() || entry.is_agreed || entry.running.is_some());
        let (is_begun, pause) = (self.is_begun(name), self.pause(name, now));
        let refusal = pause.map(|left| (on_demand::FAILED, left));
        let refusal = refusal.or_else(|| self.on_demand.as_mut()?.refusal(name, names, now));
        let counted = [on_demand::TOO_MANY_ORDERS, on_demand::TOO_MANY_OF_CLIENT];
        refusal.filter(|(why, _)| !(is_begun && counted.contains(why)))
    }

    /// Whether there is an order for a name that goes on, and that was counted when it was begun: by a process that was killed, or it took too long.
    fn is_begun(&self, name: &str) -> bool {
        self.orders_of(name).any(|entry| entry.held.is_none() && entry.record.order.is_some())
    }

    fn orders_of(&self, name: &str) -> impl Iterator<Item = &Entry> {
        let of = |key_type: &_| Wanted { subject: Subject::Name(name.to_owned()), key_type: *key_type };
        self.acme.key_types.iter().filter_map(move |key_type| self.entries.get(&of(key_type)))
    }

    /// How long a name whose orders failed is not ordered again.
    fn pause(&self, name: &str, now: SystemTime) -> Option<Duration> {
        let soonest = self.orders_of(name).map(|entry| entry.due(now, self.acme.options.retry_interval)).min()?;
        soonest.duration_since(now).ok().filter(|left| !left.is_zero())
    }

    pub(super) fn refuse(
        &self,
        keystore: &str,
        name: &str,
        (why, time): (NoCertificate, Duration),
        reporter: &Reporter,
    ) {
        let Some(gate) = &self.on_demand else { return };
        tracing::info!(keystore, name, "no certificate is ordered on demand: {}", why.0);
        gate.refuse(name, why, time);
        reporter.name_demanded(keystore, "refused");
    }

    /// Has a name ordered that was agreed to.
    fn admit(&mut self, name: &str, now: SystemTime) {
        let is_begun = self.is_begun(name);
        let client = self.on_demand.as_ref().and_then(|gate| gate.demands.client(name));
        if let Some(gate) = self.on_demand.as_mut().filter(|_| !is_begun) {
            gate.note_order(name, now);
        }
        for key_type in self.acme.key_types.clone() {
            let wanted = Wanted { subject: Subject::Name(name.to_owned()), key_type };
            let entry = self.entries.entry(wanted).or_default();
            (entry.on_demand, entry.is_agreed, entry.client) = (true, true, client);
            entry.record.demanded = entry.record.demanded.filter(|_| is_begun).or(Some(now));
        }
    }

    /// Has certificates renewed that are due, once whoever is asked agrees.
    fn renew_on_demand(&mut self, now: SystemTime) {
        let Some(gate) = &mut self.on_demand else { return };
        let (asks, first_pause) = (gate.config.ask.is_some(), self.acme.options.retry_interval);
        for (wanted, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.on_demand && entry.held.is_some()) {
            let is_put_off = entry.refused_until.is_some_and(|until| until > now);
            if entry.is_agreed || is_put_off || entry.running.is_some() || entry.due(now, first_pause) > now {
                continue;
            }
            match &wanted.subject {
                Subject::Name(name) if asks => gate.enqueue(name.as_str().into()),
                _ => entry.is_agreed = true,
            }
        }
    }

    /// Removes certificates on demand that have expired, and what is known of names that could not be had a while ago.
    async fn forget_old(&mut self, now: SystemTime) {
        let Some(gate) = &self.on_demand else { return };
        let is_past = |at: SystemTime| now.duration_since(at).is_ok_and(|since| since >= FORGET_FAILURES);
        let mut gone = Vec::new();
        self.entries.retain(|wanted, entry| {
            let is_old = match &entry.held {
                Some(held) => held.validity.not_after <= now,
                // One whose order was begun by a process that was killed goes on when it is asked for again, and counts as ordered.
                None => entry.record.failed.as_ref().map(|(at, _)| *at).or(entry.record.demanded).is_none_or(is_past),
            };
            let goes = entry.on_demand && entry.running.is_none() && !entry.is_agreed && is_old;
            if goes {
                gate.demands.remove(&wanted.shown());
                gone.push(wanted.clone());
            }
            !goes
        });
        if gone.is_empty() {
            return;
        }
        let storage = self.storage.on_demand();
        // Waited for, so that nothing that is ordered anew is removed. That the task panics is not for us to hide, nor to end for.
        let _ = tokio::task::spawn_blocking(move || gone.iter().for_each(|wanted| storage.remove(wanted))).await;
    }
}
