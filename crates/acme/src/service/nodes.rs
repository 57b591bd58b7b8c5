//! What one keeper does as one of several nodes: what others have ordered is taken up, what clients ask for here is passed on to who orders.

use std::sync::Arc;
use std::time::SystemTime;

use telemetry::Reporter;

use super::Running;
use super::entry::Entry;
use super::keeper::Keeper;
use crate::on_demand;
use crate::peers::{PeerNews, Peers};
use crate::wanted::Wanted;

/// Where certificates on demand are, in the folder of their keystore.
const ON_DEMAND: &str = "on-demand/";

impl Running {
    /// Begins anew when this node has become the one that orders, or is it no more: what is under way then ends here, and goes on elsewhere.
    pub(super) fn follow_leader(&mut self) {
        let leads = self.peers.as_ref().is_some_and(|peers| peers.leads());
        if std::mem::replace(&mut self.led, leads) != leads {
            self.keepers.clear();
            self.seen = 0;
        }
    }

    /// Leaves ordering to others, unless something is under way.
    pub(super) fn resign(&self) {
        let is_busy =
            self.keepers.values().flat_map(|keeper| keeper.entries.values()).any(|entry| entry.running.is_some());
        if let Some(peers) = self.peers.as_ref().filter(|_| !is_busy) {
            peers.resign();
        }
    }

    /// Another node says something.
    pub(super) async fn hear(&mut self, said: PeerNews) {
        match said {
            PeerNews::Changed => {}
            PeerNews::Took(keystore, path) => {
                if let Some(keeper) = self.keepers.get_mut(&keystore) {
                    keeper.note_taken(&path).await;
                }
            }
            PeerNews::Demanded(keystore, name) => {
                let keeper = self.keepers.get(&keystore).filter(|_| self.led);
                if let (Some(keeper), Some(peers)) = (keeper, &self.peers) {
                    keeper.demand_for_others(&keystore, name, peers);
                }
            }
            PeerNews::Rejected(keystore, name, why) => {
                let keeper = self.keepers.get_mut(&keystore);
                if let Some(gate) = keeper.and_then(|keeper| keeper.on_demand.as_mut()) {
                    gate.reject(&name, &why);
                }
            }
        }
    }
}

impl Keeper {
    /// A file of the folder was taken up from another node.
    async fn note_taken(&mut self, path: &str) {
        let Some(rest) = path.strip_prefix(ON_DEMAND) else {
            // Those that are served are watched; this is what is known of them.
            if let Some(stem) = path.strip_prefix("certificates/").and_then(|name| name.strip_suffix(".pem")) {
                self.look_at(stem).await;
            }
            return;
        };
        let stem = rest.strip_prefix("certificates/").and_then(|name| name.strip_suffix(".pem"));
        let wanted = stem.and_then(Wanted::of_stem);
        let (Some(wanted), Some(gate)) = (wanted, &self.on_demand) else { return };
        if !wanted.names().iter().all(|name| gate.config.allows(name)) {
            return;
        }
        let (storage, of) = (self.storage.on_demand(), wanted.clone());
        let read = tokio::task::spawn_blocking(move || (storage.held(&of), storage.record(&of), storage.identity(&of)));
        let Ok((held, record, identity)) = read.await else { return };
        let name = wanted.shown();
        match identity {
            Some(identity) => gate.demands.serve(&[(name.into(), identity)]),
            None => gate.demands.remove(&name),
        }
        if held.is_some() {
            self.entries.insert(wanted, Entry { held, record, on_demand: true, ..Entry::default() });
        } else {
            self.entries.remove(&wanted);
        }
    }

    /// Asks who orders for the names that clients ask for here.
    pub(super) fn pass_demands_on(
        &mut self,
        keystore: &str,
        now: SystemTime,
        peers: &Arc<dyn Peers>,
        reporter: &Reporter,
    ) {
        let Some(gate) = &self.on_demand else { return };
        for name in gate.demands.take() {
            match self.refusal(&name, now) {
                Some(refusal) => self.refuse(keystore, &name, refusal, reporter),
                None => {
                    peers.demand(keystore, &name);
                    // Who orders does not know the client.
                    self.on_demand.iter_mut().for_each(|gate| gate.note_passed_on(&name, now));
                }
            }
        }
    }

    /// Waits for a name as a client here would, and has the others know if it comes to nothing.
    fn demand_for_others(&self, keystore: &str, name: String, peers: &Arc<dyn Peers>) {
        let Some(gate) = &self.on_demand else { return };
        if self.acme.orders(&name) {
            return;
        }
        let (demands, limit) = (Arc::clone(&gate.demands), gate.config.options.wait);
        let (peers, keystore) = (Arc::clone(peers), keystore.to_owned());
        tokio::task::spawn_local(async move {
            let outcome = demands.wait(&name, None, limit).await;
            if let Err(why) = outcome.map_err(|why| why.0)
                && on_demand::is_final(why)
            {
                peers.reject(&keystore, &name, why);
            }
        });
    }
}
