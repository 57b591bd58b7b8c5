//! The remote signer: private-key operations of handshakes, done by key servers.
//!
//! ```text
//! handshake ─KeyRequest→ Client ─choose→ Peer ─→ Connection ─frames of one turn in one write→ key server
//!                          ↑ retry elsewhere        ↑ kept by the peer's keeper, pinged
//! ```
//!
//! A [`Client`] belongs to one worker and one [`KeyGroup`]; everything in it lives on the worker's thread, so that an operation takes no lock and
//! wakes no other thread. Shared by all workers are the group's settings and whether a server is ejected. Verifying what comes back is the
//! `tls` crate's business: nothing else makes a [`tls::KeyResponse`]. Ruled by `docs/keyless-extensions.md`.

mod failover;
mod connection;
mod group;
mod peer;

pub use failover::{Ask, Client};
pub use group::KeyGroup;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use telemetry::WorkerReport;

/// A worker's clients of key servers, one per group.
#[derive(Debug, Default)]
pub struct Clients(RefCell<Vec<Rc<Client>>>);

impl Clients {
    /// The client of a group; made, and its connections begun, at first use.
    pub fn of(&self, group: &Arc<KeyGroup>, report: &WorkerReport) -> Rc<Client> {
        let mut clients = self.0.borrow_mut();
        if let Some(client) = clients.iter().find(|client| Arc::ptr_eq(client.group(), group)) {
            return Rc::clone(client);
        }
        let client = Client::start(group, report.key_counts(&group.config.upstream.name));
        clients.push(Rc::clone(&client));
        client
    }

    /// Has a client for every one of the groups, so that connections are warm before they are needed, and lets go of those of groups that are
    /// gone: they end with their last operation. For the worker's tick.
    pub fn refresh<'g>(&self, groups: impl Iterator<Item = &'g Arc<KeyGroup>> + Clone, report: &WorkerReport) {
        groups.clone().for_each(|group| drop(self.of(group, report)));
        let is_current = |client: &Rc<Client>| groups.clone().any(|group| Arc::ptr_eq(group, client.group()));
        let mut clients = self.0.borrow_mut();
        if clients.len() > groups.clone().count() {
            clients.retain(is_current);
        }
        clients.iter().for_each(|client| client.tend());
    }
}
