//! What one core has to itself, and what all cores share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arc_swap::{ArcSwap, Cache};
use tokio::sync::Notify;

use crate::generation::Generation;
use crate::keyless::Clients;
use crate::listener::Admission;
use crate::offload::hops::Hops;
use crate::passport::{Own, Told};
use crate::report::{Reporter, WorkerReport};
use crate::upstream::Pools;

/// What all workers share.
#[derive(Debug)]
pub struct Shared {
    /// The generation in force. Swapped by reloads, read by every request.
    pub generation: Arc<ArcSwap<Generation>>,
    /// TLS context of all server connections.
    pub acceptor: tls::Acceptor,
    /// How many connections there are, in total and by client.
    pub admission: Admission,
    /// Tunnels that may lead into listeners of ours.
    pub hops: Arc<Hops>,
    /// How many UDP flows there are.
    pub flows: AtomicUsize,
    /// Logs and metrics.
    pub reporter: Arc<Reporter>,
}

/// A generation pinned by a worker; cloning touches no shared memory.
pub type Pinned = Rc<Arc<Generation>>;

/// One core's context.
#[derive(Debug)]
pub struct Worker {
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// This worker's counters and log lines.
    pub report: WorkerReport,
    /// Idle upstream connections of this worker.
    pub pools: Pools,
    /// This worker's clients of key servers.
    pub key_clients: Clients,
    /// The addresses of this machine.
    pub own: Own,
    /// What was told once.
    pub told: Told,
    /// Wakes connections at rest when draining begins.
    pub drain: Notify,
    draining: Cell<bool>,
    /// Tells without touching shared counters whether there is a newer generation.
    newest: RefCell<Cache<Arc<ArcSwap<Generation>>, Arc<Generation>>>,
    pinned: RefCell<Pinned>,
}

impl Worker {
    /// The context of worker `index`.
    pub fn new(shared: &Arc<Shared>, index: usize) -> Rc<Worker> {
        Rc::new(Worker {
            report: shared.reporter.worker(index),
            pools: Pools::default(),
            key_clients: Clients::default(),
            own: Own::default(),
            told: Told::default(),
            drain: Notify::new(),
            draining: Cell::new(false),
            newest: RefCell::new(Cache::new(Arc::clone(&shared.generation))),
            pinned: RefCell::new(Rc::new(shared.generation.load_full())),
            shared: Arc::clone(shared),
        })
    }

    /// The newest generation, to be held for one request.
    pub fn pin(&self) -> Pinned {
        let mut newest = self.newest.borrow_mut();
        let newest = newest.load();
        let mut pinned = self.pinned.borrow_mut();
        if !Arc::ptr_eq(newest, &pinned) {
            *pinned = Rc::new(Arc::clone(newest));
        }
        Rc::clone(&pinned)
    }

    /// Whether connections should end after what they are doing.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Begins to drain: idle connections close, busy ones end politely.
    pub fn begin_drain(&self) {
        self.draining.set(true);
        self.drain.notify_waiters();
    }
}
