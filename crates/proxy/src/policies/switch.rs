//! A switch for maintenance: closed while a file exists, or an operator says so, of this machine or of several. Requests read two flags; who looks for the file is a task of the main thread
//! (`background/switches.rs`).

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use config::Maintenance;

use crate::client::AddressSet;

/// A switch; clones are the same one.
#[derive(Debug, Clone)]
pub struct Switch(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    config: Maintenance,
    except: Option<AddressSet>,
    /// The file is there.
    is_closed: AtomicBool,
    /// Who has closed it, whatever there is of files: [`OPERATOR`], [`FLEET`].
    ordered: AtomicU8,
}

/// An operator of this machine.
const OPERATOR: u8 = 1;

/// Those of several machines.
const FLEET: u8 = 2;

impl Switch {
    /// The switch as it stands now.
    pub(super) fn new(config: &Maintenance, previous: Option<&Switch>) -> Switch {
        // Networks that are written out cannot be wrong any more.
        let except = Some(&config.except).filter(|list| !list.is_empty());
        let except = except.and_then(|list| AddressSet::of(list, None).ok());
        let was_closed = || previous.is_some_and(|previous| previous.0.is_closed.load(Ordering::Relaxed));
        let is_closed = AtomicBool::new(is_there(&config.file).unwrap_or_else(was_closed));
        let ordered = AtomicU8::new(previous.map_or(0, |previous| previous.0.ordered.load(Ordering::Relaxed)));
        Switch(Arc::new(Parts { config: config.clone(), except, is_closed, ordered }))
    }

    /// Whether an operator of this machine has closed it.
    pub fn is_ordered(&self) -> bool {
        self.0.ordered.load(Ordering::Relaxed) & OPERATOR != 0
    }

    /// Closes it by order of an operator, or takes that back; whether that changes the order.
    pub fn order(&self, is_closed: bool) -> bool {
        self.note_order(OPERATOR, is_closed)
    }

    /// The same by order of those who operate several machines: neither takes back what the other says.
    pub fn order_of_fleet(&self, is_closed: bool) -> bool {
        self.note_order(FLEET, is_closed)
    }

    fn note_order(&self, by: u8, is_closed: bool) -> bool {
        let ordered = &self.0.ordered;
        let before =
            if is_closed { ordered.fetch_or(by, Ordering::Relaxed) } else { ordered.fetch_and(!by, Ordering::Relaxed) };
        (before & by != 0) != is_closed
    }

    /// Whether it is closed, by whatever.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Relaxed) || self.0.ordered.load(Ordering::Relaxed) != 0
    }

    /// The file that closes it.
    pub fn file(&self) -> &Path {
        &self.0.config.file
    }

    /// Looks for the file, which may wait for a disk; whether the switch was turned.
    pub fn look(&self) -> Option<bool> {
        let is_closed = is_there(&self.0.config.file)?;
        (self.0.is_closed.swap(is_closed, Ordering::Relaxed) != is_closed).then_some(is_closed)
    }

    /// Whether this client has to come again later, and when. `client`: its address, if it is certain.
    pub(super) fn closed_for(&self, client: Option<IpAddr>) -> Option<Duration> {
        let parts = &*self.0;
        if !self.is_closed() {
            return None;
        }
        let is_excepted = parts.except.as_ref().is_some_and(|set| client.is_some_and(|client| set.contains(client)));
        (!is_excepted).then_some(parts.config.retry_after)
    }
}

/// Whether the file is there; none if that cannot be seen, which switches nothing.
fn is_there(file: &Path) -> Option<bool> {
    match std::fs::symlink_metadata(file) {
        Ok(_) => Some(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Some(false),
        Err(_) => None,
    }
}
