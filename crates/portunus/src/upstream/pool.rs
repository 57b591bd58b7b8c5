//! Idle connections of one worker, kept per server, newest first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use net::clock::coarse;

use super::server::ServerId;
use crate::transport::Transport;

/// Idle connections of the whole process.
static IDLE: AtomicUsize = AtomicUsize::new(0);

/// One connection at rest.
#[derive(Debug)]
struct Idle {
    transport: Transport,
    since: Duration,
    keep: Duration,
}

impl Idle {
    fn is_fresh(&self) -> bool {
        coarse().saturating_sub(self.since) < self.keep
    }
}

/// The pools of one worker.
#[derive(Debug, Default)]
pub struct Pools {
    idle: RefCell<HashMap<ServerId, Vec<Idle>>>,
}

impl Pools {
    /// A connection to this server that is still usable: nothing was received while it was idle. The newest first, so that surplus
    /// ones age and go.
    pub fn take(&self, server: ServerId) -> Option<Transport> {
        let mut pools = self.idle.borrow_mut();
        let pool = pools.get_mut(&server)?;
        while let Some(idle) = pool.pop() {
            IDLE.fetch_sub(1, Ordering::Relaxed);
            // Bytes nobody asked for would become the answer to the next request (RFC 9112 §6.3).
            if !idle.transport.has_news() && idle.is_fresh() {
                return Some(idle.transport);
            }
        }
        None
    }

    /// Keeps a connection for `keep`, unless the process has `max_idle` already.
    pub fn put(&self, server: ServerId, transport: Transport, keep: Duration, max_idle: usize) {
        if IDLE.load(Ordering::Relaxed) >= max_idle || transport.has_news() {
            return;
        }
        IDLE.fetch_add(1, Ordering::Relaxed);
        let idle = Idle { transport, since: coarse(), keep };
        self.idle.borrow_mut().entry(server).or_default().push(idle);
    }

    /// Closes connections that have been idle for too long or were ended by the server. Called about once a second.
    pub fn sweep(&self) {
        let mut pools = self.idle.borrow_mut();
        pools.retain(|_, pool| {
            let before = pool.len();
            pool.retain(|idle| idle.is_fresh() && !idle.transport.has_news());
            IDLE.fetch_sub(before - pool.len(), Ordering::Relaxed);
            !pool.is_empty()
        });
    }

    /// Closes everything, to free descriptors.
    pub fn clear(&self) {
        let pools = std::mem::take(&mut *self.idle.borrow_mut());
        IDLE.fetch_sub(pools.values().map(Vec::len).sum(), Ordering::Relaxed);
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.clear();
    }
}
